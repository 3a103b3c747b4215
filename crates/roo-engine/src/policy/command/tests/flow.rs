//! Lines with variables, substitutions, loops, conditions and programs that start others.

use super::*;

const ALLOW: &[&str] = &[
    "ls",
    "cat",
    "echo",
    "wc",
    "grep",
    "find",
    "head",
    "sort",
    "test",
    "printf",
    "true",
    "cd",
    "pwd",
    "date",
    "nproc",
    "seq",
    "cp",
    "git rev-parse",
    "git ls-files",
    "git log",
    "git commit",
    "cargo test",
    "cargo build",
    "npm test",
    "npm run build",
    "make test",
    "make all",
    "bash scripts/ci.sh",
    "docker compose ps",
    "python -m pytest",
    "rg",
];

#[track_caller]
fn allow(lines: &[&str]) {
    check(ALLOW, DENY, "allow", lines);
}

#[track_caller]
fn ask(lines: &[&str]) {
    check(ALLOW, DENY, "ask", lines);
}

#[test]
fn variables_that_change_nothing_may_be_set() {
    allow(&[
        "RUST_LOG=debug cargo test",
        "RUST_BACKTRACE=1 CI=true cargo test",
        "NODE_ENV=test npm test",
        "RUSTFLAGS='-D warnings' cargo build",
        "CARGO_BUILD_JOBS=$(nproc) cargo build",
        "export CI=1 RUST_LOG=info && cargo test",
        "export NODE_ENV=test; echo $NODE_ENV",
    ]);
    ask(&[
        "PATH=. ls",
        "FOO=bar cargo test",
        "NODE_OPTIONS=--require=./x npm test",
        "LD_PRELOAD=./x ls",
        "GIT_DIR=x git log",
        "BASH_ENV=x bash scripts/ci.sh",
        "RUSTC_WRAPPER=./x cargo build",
        "RUSTFLAGS='-C linker=./x' cargo build",
        "RUST_LOG=$(cat x) cargo test",
        "RUST_LOG=$HOME cargo test",
        "CI=1",
        "export PATH=. && ls",
        "export CI && ls",
        "export",
        "export; ls",
        "export -n CI",
        "export CI=$(cat x)",
        "declare CI=1",
    ]);
}

#[test]
fn options_before_the_words_of_a_rule_are_looked_through() {
    allow(&[
        "cargo --locked test",
        "cargo -q --offline test -p core",
        "cargo +nightly test",
        "cargo +1.75.0 build",
        "cargo +nightly-2024-05-01 test",
        "git --no-pager log -3",
        "git -C src log",
        "git -c color.ui=never log",
        "npm --prefix web test",
        "npm test --prefix web",
        "npm --prefix=web run build",
        "npm -w app run --silent build",
        "make -j4 test",
        "make -j 4 -k test",
        "make -j$(nproc) test",
        "make -C web test",
        "make test -C web",
        "make V=1 test",
        "docker compose -f compose.yml ps",
        "python -u -B -m pytest -q",
    ]);
    ask(&[
        "cargo --config x test",
        "cargo +./x test",
        "cargo +evil/x test",
        "git -C .. log",
        "git -C /etc log",
        "git -C lnk log",
        "git -c core.pager=x log",
        "git -c alias.log=x log",
        "git --git-dir=x log",
        "npm --prefix .. test",
        "npm --prefix lnk test",
        "npm --script-shell x test",
        "make -C /etc test",
        "make -f x test",
        "make -j4 SHELL=x test",
        "make test V=x",
        "docker compose -f ../x ps",
        "docker compose -f .env ps",
        "docker -H x compose ps",
        "python -c x -m pytest",
        "npm -w test",
    ]);
    check(&["make test"], &[], "ask", &["make V=1", "make -j4"]);
}

#[test]
fn programs_that_start_another_are_looked_through() {
    allow(&[
        "timeout 60 cargo test",
        "timeout -k 5 1m cargo test -q",
        "time cargo build",
        "nice -n 10 cargo build",
        "nohup cargo build",
        "env CI=1 RUST_LOG=debug cargo test",
        "CI=1 timeout 60 nice cargo test",
        "command -v cargo",
        "command ls",
        "stdbuf -oL cargo test | cat",
        "timeout 5 echo x",
    ]);
    ask(&[
        "timeout 60 make",
        "timeout2 60 ls",
        "env2 ls",
        "timeout 60 sh -c ls",
        "timeout 60",
        "env",
        "env PATH=. ls",
        "env -i ls",
        "env -S ls",
        "env FOO=bar ls",
        "time",
        "timeout 5 cd src",
        "nice env nice env nice env ls",
        "sudo ls",
        "exec ls",
        "builtin cd src",
        "eval ls",
        "setsid ls",
        "nohup ./x",
        "env ./run.sh",
        "timeout $(cat x) ls",
        "xargs ls",
        "echo x | xargs ls",
        "find . | xargs sh -c ls",
        "find . | xargs",
    ]);
    check(ALLOW, DENY, "deny", &["timeout 60 rm x", "find . | xargs rm", "env A=b rm x"]);
}

#[test]
fn compound_lines_need_a_rule_for_each_command() {
    allow(&[
        "cargo build && cargo test || echo failed",
        "(cd src && cargo test); ls",
        "{ ls; cat x; } | wc -l",
        "! grep -q x src/a",
        "if grep -q x src/a; then echo yes; elif test -f x; then cat x; else ls; fi",
        "if [ -f x ]; then cat x; fi",
        "[ -d src ] && ls src",
        "[[ -f x ]] && cat x",
        "[[ \"$(git rev-parse HEAD)\" == abc* ]] || echo other",
        "set -e\ncargo build\ncargo test",
        "set -euo pipefail; ls",
        "for t in a b c; do cargo test $t; done",
        "for d in src web; do (cd $d && npm test); done",
        "for i in 1 2 3; do cargo test || break; done",
        "for i in $(seq 1 3); do echo \"run $i\"; cargo test; done",
        "while ! grep -q done x; do echo waiting; done",
        "until test -f x; do ls; done",
        "cat x | while read -r line; do echo \"> $line\"; done",
        "while IFS= read -r line; do echo \"$line\"; done < x",
        "n=3; echo $n; dir=src && ls \"$dir\"",
        "cat <<'E' | while read -r l; do echo $l; done\na\nE",
    ]);
    ask(&[
        "(make)",
        "{ ls; make; }",
        "! make",
        "if make; then ls; fi",
        "if ls; then make; fi",
        "if ls; then ls; else make; fi",
        "for t in a; do make $t; done",
        "while make; do ls; done",
        "ls $(make)",
        "echo \"$(make)\"",
        "for t in $(make); do ls; done",
        "for PATH in a b; do ls; done",
        "for http_proxy in a b; do ls; done",
        "PATH=.; ls",
        "x=$(make); ls",
        "read -r PATH; ls",
        "read x; ls",
        "set -x; ls",
        "set -a; ls",
        "set -- a b; ls",
        "set -o posix; ls",
        "[[ a -eq b ]]",
        "[[ -v a ]]",
        "[[ $(cat x) -eq 0 ]]",
        "for f in a b; do $f; done",
        "for f in .env x; do cat $f; done",
        "for d in lnk src; do (cd $d && ls); done",
        "for d in src ..; do (cd $d && ls); done",
        "f=.env; cat $f",
        "cd src; cd ..; cd ..; ls",
        "while true; do cd src; done",
        "while true; do cd ..; done",
        "if ls; then cd src; fi; ./run.sh",
        "a() { ls; }; a",
        "case x in x) ls;; esac",
        "ls & ls",
        "echo `ls`",
        "cat <(ls)",
        "select x in a; do ls; done",
        "coproc ls",
        "trap ls EXIT",
    ]);
    check(ALLOW, DENY, "deny", &["for f in a; do rm $f; done", "if ls; then rm x; fi", "echo $(rm x)"]);
}

#[test]
fn what_is_not_known_is_only_printed_or_a_number() {
    allow(&[
        "echo $? \"$HOME\" $PATH ${USER}",
        "cargo test; echo \"exit: $?\"",
        "echo \"on $(git rev-parse HEAD) at $(date)\"",
        "printf '%s\\n' \"$(git rev-parse HEAD)\"",
        "[ -n \"$(git ls-files)\" ] && echo dirty",
        "test \"$(date +%u)\" = 1",
        "[ \"$(git rev-parse HEAD)\" != x ] || echo same",
        "cargo build -j $(nproc)",
        "cargo build -j$(nproc)",
        "make -j\"$(nproc)\" all",
        "head -n $(nproc) x",
        "ls \"$(pwd)/src\"",
        "ls $PWD/src",
        "cat \"$(git rev-parse --show-toplevel)/x\"",
        "cat $(echo x)",
    ]);
    ask(&[
        "cat \"$HOME/x\"",
        "cat $(cat x)",
        "cat \"$(cat x)\"",
        "ls $(cat x)",
        "cat $(nproc)",
        "cat \"$(pwd)/.env\"",
        "cat $PWD/../x",
        "cat \"$(pwd)\"/../../x",
        "cat $(echo .env)",
        "cat $(echo x -n)",
        "cat $(echo 'a*')",
        "grep $(cat x) src/a",
        "head $(cat x) x",
        "sort \"$(cat x)\"",
        "printf \"$(cat x)\"",
        "printf $(cat x) $(cat x)",
        "test \"$(cat x)\" \"$(cat x)\"",
        "test $(cat x)",
        "[ \"$(cat x)\" -a \"$(cat x)\" ]",
        "cargo test $(cat x)",
        "cargo test --features=$(cat x)",
        "echo $SECRET",
        "echo ${SECRET:-x}",
        "echo $1 $@",
        "echo $x",
        "bash $(cat x)",
        "bash scripts/ci.sh $(cat x)",
        "echo x > $(cat x)",
        "echo \"$(cat .env)\"",
        "echo $(cd .. && cat x)",
        "cd \"$(cat x)\" && ls",
        "for f in $(cat x); do cat $f; done",
        "cat x | while read -r f; do cat $f; done",
    ]);
}

#[test]
fn what_a_document_or_a_variable_holds_is_known() {
    check(
        &["git commit", "git add", "cat", "echo", "ls"],
        &[],
        "ask",
        &["git commit -m \"$(cat <<'E'\nFix it\nE\n)\""],
    );
    allow(&["cat \"$(cat <<'E'\nx\nE\n)\"", "f=x; cat $f; cat \"src/$f\"", "f='a b'; cat \"$f\""]);
    ask(&[
        "cat \"$(cat <<'E'\n.env\nE\n)\"",
        "cat $(cat <<'E'\nx .env\nE\n)",
        "f='a .env'; cat $f",
        "f='*'; cat $f",
        "f=; cat $f",
        "cat <<E\n$(cat x)\nE",
    ]);
}

#[test]
fn what_comes_after_files_were_moved_is_not_shown() {
    allow(&["cp x src/y && cargo test", "cp x src/y && ls", "cat x && cp x src/y"]);
    ask(&[
        "cp x src/y && cat src/y",
        "cp x y; cd src && ls",
        "cp x y; grep -rn a src",
        "cp x y; cat < y",
        "cp x y | cat y",
        "cat y | cp x y",
        "for i in 1 2; do cat y; cp x y; done",
        "echo $(cp x y) && cat y",
        "if cp x y; then cat y; fi",
    ]);
}

#[test]
fn a_line_that_would_be_judged_for_ever_asks() {
    let names: String = (0..300).map(|n| format!(" n{n}")).collect();
    ask(&[
        &format!("for f in{names}; do ls $f; done"),
        "for a in 1 2 3 4 5 6 7 8 9; do for b in 1 2 3 4 5 6 7 8 9; do for c in 1 2 3 4 5 6 7 8 9; do for d in 1 2 3 4 5 6 7 8 9; do ls; done; done; done; done",
        "cd a; cd b; cd c; cd d; cd e; ls",
    ]);
}

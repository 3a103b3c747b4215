use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use serde::Deserialize;

use super::*;

mod flow;
mod real;

fn rules(allow: &[&str], deny: &[&str]) -> Execute {
    let split = |rules: &[&str]| {
        rules.iter().map(|rule| rule.split(' ').map(str::to_owned).collect()).collect::<Vec<Vec<String>>>()
    };
    Execute { allow: split(allow), deny: split(deny), ..Execute::default() }
}

/// A workspace with `run.sh`, a `Makefile` and the programs `git-evil` and `evil-ls`, where `scratch/` may be
/// written to and `.env` not be read, nor what `private*` stands for. `lnk` leads out, and else `src` and `x` are
/// there. Every other program is installed, but for `missing`. The repository's own configuration names a program.
pub(super) struct Somewhere;

impl Place for Somewhere {
    fn directory(&self) -> &str {
        "/w"
    }

    fn inside(&self, path: &str) -> Result<(), String> {
        match value::join("", path, "/w") {
            Some(path) if !path.starts_with('/') && !path.starts_with("lnk") => Ok(()),
            _ => Err(format!("`{path}` may lead out of the workspace")),
        }
    }

    fn enterable(&self, path: &str) -> Result<(), String> {
        self.inside(path)
    }

    fn is_same(&self, one: &str, other: &str) -> bool {
        value::join("", one, "/w") == value::join("", other, "/w")
    }

    fn unreadable_below(&self, _: &str) -> Result<Vec<String>, String> {
        Ok(vec![])
    }

    fn below(&self, _: &str) -> Result<Vec<Entry>, String> {
        Ok(vec![])
    }

    fn repository(&self, _: &str) -> Repository {
        let programs = Some("`diff.external`".to_owned());
        Repository { programs, top: Some("/w".to_owned()), ..Repository::default() }
    }

    fn ignored(&self, _: &str) -> Option<String> {
        None
    }

    fn writable(&self, path: &str) -> Result<(), String> {
        if path.starts_with("scratch/") { Ok(()) } else { Err(format!("it writes to `{path}`")) }
    }

    fn readable(&self, path: &str) -> Result<(), String> {
        if path.ends_with(".env") { Err(format!("`{path}` may hold secrets")) } else { Ok(()) }
    }

    fn within(&self, path: &str) -> Result<(), String> {
        match path.starts_with("lnk") {
            true => Err(format!("`{path}` is outside of the workspace")),
            false => Ok(()),
        }
    }

    fn reachable(&self, path: &str) -> Result<(), String> {
        self.within(path).and_then(|()| self.readable(path))
    }

    fn recorded(&self, _: &str, path: &str) -> Result<(), String> {
        self.readable(path)
    }

    fn is_there(&self, path: &str) -> bool {
        matches!(path, "src" | "x" | ".env" | "lnk/passwd")
    }

    fn is_directory(&self, path: &str) -> bool {
        path == "src"
    }

    fn matching(&self, pattern: &str, literal: usize) -> Result<Vec<String>, String> {
        match &pattern[..literal] {
            "build/p" | "sub/build/p" => Ok(vec!["build/public".to_owned(), "build/private.env".to_owned()]),
            _ => Ok(vec![]),
        }
    }

    fn program(&self, name: &str) -> Program {
        match name {
            "git-evil" | "evil-ls" => Program::Workspace(name.to_owned()),
            "missing" => Program::Missing,
            name if name.starts_with('/') => Program::Installed(name.into()),
            name if name.contains('/') => match self.script(name) {
                Some(file) => Program::Workspace(file),
                None => Program::Missing,
            },
            name => Program::Installed(format!("/bin/{name}").into()),
        }
    }

    fn script(&self, path: &str) -> Option<String> {
        let name = path.replace("./", "");
        ["run.sh", "check.sh", "Makefile", "scripts/ci.sh"].contains(&name.as_str()).then_some(name)
    }
}

fn verdict(allow: &[&str], deny: &[&str], line: &str) -> &'static str {
    word(&judge(&rules(allow, deny), line, &Somewhere))
}

fn word(verdict: &CommandVerdict) -> &'static str {
    match verdict {
        CommandVerdict::Allow { .. } => "allow",
        CommandVerdict::Deny { .. } | CommandVerdict::TooDeep => "deny",
        CommandVerdict::Destroys { .. } => "destroys",
        CommandVerdict::Hidden { .. } => "hidden",
        CommandVerdict::Ask { .. } => "ask",
    }
}

#[track_caller]
fn check(allow: &[&str], deny: &[&str], expected: &str, lines: &[&str]) {
    for line in lines {
        let verdict = judge(&rules(allow, deny), line, &Somewhere);
        assert_eq!(word(&verdict), expected, "{line:?}: {verdict:?}");
    }
}

/// A known attack on command policies, or a control that merely looks like one.
#[derive(Deserialize)]
struct Case {
    id: String,
    cmd: String,
    /// Expected decision under the rules below.
    expect: String,
    #[serde(default)]
    control: bool,
}

fn corpus() -> Vec<Case> {
    include_str!("../../../../../tests/corpus/commands.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).expect("a case"))
        .collect()
}

const ALLOW: &[&str] = &[
    "ls",
    "cat",
    "echo",
    "git",
    "git show",
    "git diff",
    "git log",
    "git status",
    "git grep",
    "find",
    "rg",
    "grep",
    "sed",
    "sort",
    "xargs",
    "test",
    "printf",
];
const DENY: &[&str] = &["rm", "touch", "curl"];

#[test]
fn the_attack_corpus_is_judged_as_recorded() {
    let corpus = corpus();
    assert_eq!(corpus.len(), 63);
    let wrong: Vec<String> = corpus
        .iter()
        .filter_map(|case| {
            let verdict = judge(&rules(ALLOW, DENY), &case.cmd, &Somewhere);
            (word(&verdict) != case.expect).then(|| format!("{} {:?}: {verdict:?}", case.id, case.cmd))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The second pass: the user was careless and allowed the very program, and even forgot what to deny.
#[test]
fn no_attack_is_allowed_by_a_rule_that_names_its_program_alone() {
    for case in corpus().iter().filter(|case| case.expect != "allow" && case.id != "CMD-42") {
        let blanks = case.cmd.split_whitespace().next().expect("a word");
        let script = roo_shell::read(&case.cmd);
        let read = script
            .commands
            .first()
            .and_then(|command| command.words.first())
            .map(|word| word.visible.as_str());
        for (first, deny) in [(Some(blanks), DENY), (Some(blanks), &[]), (read, DENY)] {
            let allow = [ALLOW, &[first.unwrap_or_default()]].concat();
            assert_ne!(verdict(&allow, deny, &case.cmd), "allow", "{} {:?}", case.id, case.cmd);
        }
    }
}

#[test]
fn controls_stay_allowed() {
    let controls: Vec<String> =
        corpus().into_iter().filter(|case| case.control).map(|case| case.expect).collect();
    assert_eq!(controls, ["allow", "allow", "allow"]);
}

/// Asking too often teaches to say yes unread.
#[test]
#[expect(clippy::print_stdout, reason = "what asks is to be looked at")]
fn fewer_than_one_in_ten_ordinary_commands_asks() {
    let corpus = include_str!("../../../../../tests/corpus/ordinary_commands.txt");
    let rules_of =
        |line: &'static str| line.strip_prefix("allow: ").into_iter().flat_map(|rules| rules.split(", "));
    let allow: Vec<&str> = corpus.lines().flat_map(rules_of).collect();
    assert!(allow.len() <= 60, "{} rules", allow.len());
    let is_command = |line: &&str| !line.is_empty() && !line.starts_with("allow: ");
    // Comments of the file end with its first command.
    let commands: Vec<String> = corpus
        .lines()
        .skip_while(|line| line.starts_with('#') || !is_command(line))
        .filter(is_command)
        .map(|line| line.replace("⏎", "\n"))
        .collect();
    assert!(commands.len() >= 300, "{} commands", commands.len());
    let asks: Vec<String> = commands
        .iter()
        .filter_map(|line| match judge(&rules(&allow, &["rm", "git push"]), line, &Somewhere) {
            CommandVerdict::Allow { .. } => None,
            verdict => Some(format!("{line}    {verdict:?}")),
        })
        .collect();
    println!("{} of {} ask:\n{}", asks.len(), commands.len(), asks.join("\n"));
    assert!(asks.len() * 10 < commands.len(), "{} of {} ask", asks.len(), commands.len());
}

#[test]
fn rules_match_whole_words_from_the_start() {
    let allow = &["cargo test", "./check.sh"];
    check(allow, &[], "allow", &["cargo test", "cargo test -q --lib", "'cargo' \"test\"", "./check.sh fast"]);
    check(
        allow,
        &[],
        "ask",
        &["cargo testx", "cargo", "cargo --config a test", "/tmp/cargo test", "Cargo test", "check.sh", ""],
    );
    check(&[], &[], "ask", &["ls"]);
    assert_eq!(
        judge(&Execute { allow: vec![vec![]], deny: vec![vec![]], ..Execute::default() }, "ls", &Somewhere),
        CommandVerdict::Ask { reason: "no rule allows `ls`".to_owned() }
    );
}

#[test]
fn everyday_commands_are_allowed() {
    check(
        ALLOW,
        DENY,
        "allow",
        &[
            "ls",
            "ls -la src",
            "cat README.md src/main.rs",
            "echo 'a; b'",
            "git status --short",
            "git log --oneline -5",
            "git diff --no-ext-diff --no-textconv HEAD~1 -- src",
            "git show --no-textconv --no-ext-diff origin/main..HEAD",
            "git log --no-ext-diff --no-textconv -p",
            "git blame --no-textconv src/a.rs",
            "git log",
            "git branch --list",
            "git rev-parse HEAD",
            "git show HEAD:src/main.rs",
            "git grep -n 'fn main'",
            "rg -n 'a|b' src",
            "rg --hidden --type rust foo",
            "grep -rn \"TODO (x)\" src",
            "find src -name '*.rs' -type f",
            "git diff --stat HEAD~1 -- src",
            "git diff --cached --name-only",
            "git show --stat HEAD",
            "sed -n '10,20p' src/lib.rs",
            "sed -n '10,20p; 40p;$p' src/lib.rs",
            "sed -n '/^fn main/,/^$/p' src/lib.rs",
            "sed 's/a b/c/g;5q' src/lib.rs",
            "sort -u -k2 a.txt",
            "printf '%s' x",
            "test -f Cargo.toml",
        ],
    );
    check(
        &["cargo test", "make check", "npm run build", "go test", "python -m pytest", "bash scripts/ci.sh"],
        DENY,
        "allow",
        &[
            "cargo test --workspace --no-fail-fast -- --nocapture",
            "make check -j4",
            "npm run build",
            "go test -cover ./pkg",
            "python -m pytest -q tests",
            "bash scripts/ci.sh --fast",
        ],
    );
}

#[test]
fn a_denied_program_is_found_wherever_it_can_be_seen() {
    check(
        ALLOW,
        &["rm"],
        "deny",
        &[
            "rm x",
            "/bin/rm x",
            "RM x",
            "r'm' x",
            "r\\m x",
            "A=b rm x",
            "A=b C= env -i D=e rm x",
            "sudo -u root rm x",
            "sudo -E -- rm x",
            "timeout -s KILL 5 rm x",
            "timeout 1.5m rm",
            "nice -n 10 nohup command exec rm x",
            "time rm",
            "ls; rm x",
            "ls && rm x",
            "ls | xargs -n 1 rm",
            "(rm x)",
            "{ rm x; }",
            "echo $(rm x)",
            "echo \"`rm x`\"",
            "cat <(rm x)",
            "if true; then rm x; fi",
            "! rm x",
            "sh -c 'cd a && rm x'",
            "env -S 'rm x'",
            "eval 'rm' x",
            "bash -c \"sh -c 'rm x'\"",
            "trap 'rm x' EXIT",
            "find . -name x -exec rm {} +",
            "fd -x rm",
            "ls\nrm x",
            "ls > out; rm x",
            "coproc rm x",
            "busybox rm x",
            "setsid -w rm x",
        ],
    );
    check(
        ALLOW,
        &["git push", "cargo publish"],
        "deny",
        &[
            "git push",
            "git push -f",
            "git -C sub push",
            "git -c a=b push",
            "cargo +nightly publish",
            "env git push",
        ],
    );
}

#[test]
fn a_denied_program_is_found_behind_documents_depth_and_options() {
    let nested = |depth: usize| format!("{}rm victim{}", "(".repeat(depth), ")".repeat(depth));
    check(
        ALLOW,
        &["rm", "git push"],
        "deny",
        &[
            "cat <<EOF\nx\nEOF\nrm victim",
            "cat <<-'EOF'\nx\n\tEOF\nrm victim",
            "cat <<EOF\n'\nEOF\nrm victim",
            "cat <<EOF\nx\\\nEOF\n'\nEOF\nrm victim",
            "cat <<A <<B\n'\nA\n'\nB\nrm victim",
            "<<x rm victim\nx",
            "true <<x; rm victim\nx",
            "x=$((1<<2))\nrm victim",
            "((x=1<<2))\nrm victim",
            "((cat <<EOF\n'\nEOF\n); rm victim)",
            "cat <<EOF\n$(rm victim)\nEOF",
            "cat <<EOF\n`rm victim`\nEOF",
            "sh <<EOF\nrm victim\nEOF",
            "cat <<'EOF' | bash -s\nrm victim\nEOF",
            &nested(1),
            &nested(33),
            &nested(200),
            "env -S\"rm victim\"",
            "env -vS'rm victim'",
            "env --split-string=\"rm victim\"",
            "flock f rm victim",
            "flock f -c \"rm victim\"",
            "flock -n f git push",
            "setarch i386 git push",
            &format!("git {} push", "-c a=b ".repeat(40)),
        ],
    );
    // Depth alone denies nothing where nothing is denied.
    check(ALLOW, &[], "ask", &[&nested(200)]);
    check(ALLOW, &["rm"], "allow", &["cat <<EOF\nrm x\nEOF", "cat <<'EOF'\n$(rm x)\nEOF"]);
    check(ALLOW, &["rm"], "ask", &["cat <<EOF\n\\$(rm x)\nEOF"]);
}

#[test]
fn a_star_denies_every_command() {
    check(ALLOW, &["*"], "deny", &["ls", "cargo test", "echo x | cat", "A=b ls", "$x", "(ls)", "./run.sh"]);
    check(ALLOW, &["* --force"], "deny", &["ls --force", "git --force"]);
    check(ALLOW, &["* --force"], "allow", &["ls", "git log"]);
}

#[test]
fn text_that_only_mentions_a_denied_program_is_not_denied() {
    check(
        ALLOW,
        &["rm"],
        "allow",
        &[
            "grep rm src",
            "echo rm",
            "echo 'ls; rm x'",
            "git log --grep rm",
            "ls rm",
            "cat <<EOF\nrm x\nEOF",
            "ls # rm",
        ],
    );
    check(ALLOW, &["rm"], "ask", &["rmdir x", "echo a > rm", "rm-old x"]);
    check(ALLOW, &["git push"], "allow", &["git log push", "git log --grep push"]);
}

#[test]
fn denying_wins_however_long_the_allowing_rule_is() {
    check(&["git push origin main"], &["git push"], "deny", &["git push origin main"]);
    check(&["git push origin main"], &["git"], "deny", &["git push origin main"]);
}

#[test]
fn only_programs_that_are_installed_by_version_lose_it() {
    check(&["command500", "env2", "base64"], &[], "allow", &["command500 x", "env2 x", "base64 src"]);
    check(&["base64"], &[], "ask", &["base64 .env"]);
    check(
        &["python3.12", "pip3.11", "gcc-13", "lua5.4"],
        &[],
        "ask",
        &["python3.12 x.py", "pip3.11 list", "lua5.4 x"],
    );
    check(&["gcc-13"], &[], "ask", &["gcc-13 -wrapper x a.c"]);
    for (program, expected) in
        [("/usr/bin/python3", "python"), ("PIP3.11.EXE", "pip"), ("sh", "sh"), ("7z", "7z")]
    {
        assert_eq!(programs::name(program), expected);
    }
}

#[test]
fn programs_that_run_programs_need_more_than_their_name() {
    for program in [
        "sh",
        "bash",
        "zsh",
        "python",
        "python3",
        "python3.12",
        "node",
        "perl",
        "ruby",
        "awk",
        "gawk",
        "make",
        "npm",
        "npx",
        "cargo",
        "go",
        "docker",
        "/usr/bin/python3",
    ] {
        check(&[program], &[], "ask", &[program, &format!("{program} x"), &format!("{program} -c x")]);
    }
    check(
        &["python3", "node --version"],
        &[],
        "allow",
        &["python3 --version", "python3 --help", "node --version"],
    );
    check(&["node --version"], &[], "ask", &["node --version x", "node -v", "node --version -e 1"]);
    check(
        &["sh -c", "python -c", "node -e", "perl -ne", "node --test"],
        &[],
        "ask",
        &["sh -c 'ls'", "python -c 'print(1)'", "node -e '1'", "perl -ne 1", "node --test -e 1"],
    );
    check(
        &[
            "env",
            "env ls",
            "xargs ls",
            "sudo ls",
            "timeout 5 ls",
            "eval ls",
            ". x",
            "tar xf a",
            "vim",
            "ssh a",
        ],
        &[],
        "ask",
        &["env ls", "xargs ls", "sudo ls", "timeout 5 ls", "eval ls", ". x", "tar xf a", "vim a", "ssh a ls"],
    );
}

#[test]
fn options_that_launch_or_write_ask() {
    check(
        ALLOW,
        &[],
        "ask",
        &[
            "find . -exec ls",
            "find . -okdir ls",
            "find . -delete",
            "find . -fprintf a b",
            "rg --pre ./x a",
            "rg --pre=./x a",
            "rg -nz a",
            "sort -o a b",
            "sort -uo a b",
            "sort -oa b",
            "sort --output=a b",
            "sort --outp=a b",
            "sort --compress-prog=a b",
            "git diff --ext-diff",
            "git diff --textconv",
            "git diff --outp=a",
            "git log --output a",
            "git show --output=a",
            "git -c a=b log",
            "git --config-env=a=b log",
            "git --exec-path=. log",
            "git -C .. log",
            "git -C .git log",
            "git -p log",
            "git grep -Oless a",
            "git grep -nO a",
            "git grep --open-files-in-pager a",
            "sed -i a b",
            "sed '1e ls' a",
            "sed w b",
            "sed -n 1p a -i",
            "sed s/a/b/e a",
            "sed 's/a/b/w x' a",
            "sed 's/a/b/gw x' a",
            "sed 's/a\\/b/c/e' a",
            "sed 's/[/]/e/p' a",
            "sed 's,a,b,e' a",
            "sed '1p;1e ls' a",
            "sed '1p\n1e ls' a",
            "sed '1{e ls\n}' a",
            "sed 'r /etc/x' a",
            "sed '/a/w x' a",
            "sed ',e' a",
            "sed -n '$!{w x\n}' a",
            "sed --expression=w b",
            "sed -f a b",
            "git push",
            "git lg",
            "git bisect run ls",
        ],
    );
    check(
        &["cargo test", "make check", "git clone", "npm run"],
        &[],
        "ask",
        &[
            "cargo test --config a",
            "cargo test --conf a",
            "cargo test -Zunstable",
            "make check SHELL=./x",
            "make check -f a",
            "make check -kf a",
            "make check --eval a",
            "git clone -c a=b c",
            "git clone --upload-pack=a b",
            "npm run a --script-shell=b",
        ],
    );
    check(
        &["cargo test --config a", "git -c color.ui=false log", "sed -n 1p"],
        &[],
        "allow",
        &["cargo test --config a", "git -c color.ui=false log -3", "sed -n 1p a.txt"],
    );
}

#[test]
fn programs_of_a_repositorys_configuration_ask() {
    check(
        &["git", "git add", "git stash", "git commit", "git checkout", "git diff", "git log"],
        &[],
        "ask",
        &[
            "git diff",
            "git diff HEAD",
            "git diff --no-ext-diff",
            "git diff --no-textconv",
            "git diff HEAD --no-ext-diff --no-textconv",
            "git diff -- --no-ext-diff --no-textconv",
            "git diff -- --stat",
            "git diff --stat -p",
            "git diff --stat -w",
            "git diff --quiet",
            "git diff --name-only --ext-diff",
            "git show --stat --patch",
            "git diff-files --stat -U3",
            "git diff --no-ext-diff --no-textconv --ext-diff",
            "git diff --no-ext-diff --no-textconv --textconv",
            "git log -p",
            "git log --binary",
            "git log --binar",
            "git reflog --binary",
            "git log --oneline -3p",
            "git log --patch",
            "git log --patc",
            "git log -U3",
            "git log -Sx",
            "git log -S --no-textconv --no-ext-diff",
            "git reflog -p",
            "git whatchanged -p",
            "git show",
            "git show HEAD",
            "git show ':/fix'",
            "git show HEAD:a HEAD",
            "git status -vv",
            "git status --verbose",
            "git blame a",
            "git annotate a",
            "git cat-file --filters HEAD:a",
            "git cat-file --textconv HEAD:a",
            "git branch --edit-description",
            "git add a",
            "git stash",
            "git stash list",
            "git commit -a -m x",
            "git commit -m x",
            "git checkout -b a",
            "git switch a",
            "git restore a",
            "git reset --hard",
            "git merge a",
            "git rebase a",
            "git cherry-pick a",
        ],
    );
}

#[test]
fn arguments_that_lead_outside_ask() {
    check(
        ALLOW,
        &[],
        "ask",
        &[
            "cat /etc/passwd",
            "cat ../x",
            "cat a/../../x",
            "ls ..",
            "rg --file=/etc/x a",
            "rg -f/etc/x",
            "grep -f../x a",
            "grep -rf/etc/passwd a",
            "grep -rf../x a",
            "grep -nf.. a",
            "git show HEAD:../x",
            "cat file:///etc/passwd",
            "find / -name x",
            "ls a:/b",
            "echo ~",
            "cat ~/x",
        ],
    );
    check(ALLOW, &[], "allow", &["git log a...b", "cat a..b", "ls ...", "cat src/a"]);
    check(&["cat /etc/hosts"], &[], "allow", &["cat /etc/hosts"]);
}

#[test]
fn arguments_that_are_written_to_ask() {
    let allow = &["uniq", "tee", "cp", "mkdir -p", "go test", "cat", "rg"];
    check(
        allow,
        &[],
        "ask",
        &[
            "uniq a b",
            "uniq -c a b",
            "tee a",
            "tee -a a",
            "cp x .git/config",
            "cp x ./sub/.GIT/hooks/a",
            "cp --target-directory=.vscode x",
            "cp x AGENTS.md",
            "cp x .orchestration/a",
            "mkdir -p .roo/rules",
            "go test -o a",
            "go test -o=a",
            "go test --o a ./pkg",
        ],
    );
    check(
        allow,
        &[],
        "allow",
        &["uniq a", "uniq -c a", "tee", "cp x y", "go test -cover ./pkg", "cat AGENTS.md", "rg x .vscode"],
    );
}

#[test]
fn every_command_of_a_line_needs_a_rule() {
    let allow = &["ls", "grep", "cat", "cargo test", "wc", "true", "bash scripts/ci.sh"];
    check(
        allow,
        DENY,
        "allow",
        &[
            "ls && cat a; grep x b || true",
            "cargo test 2>&1 | grep -v ok | wc -l",
            "ls\n\n# and\ncat a\n",
            "cat a | # filter\ngrep b",
            "cat <<'E' | grep x\n$(y)\nE\nls",
            "ls 2>/dev/null >&2",
            "wc < a.txt",
            "ls; (cat a)",
            "! ls",
            "ls &> /dev/null",
        ],
    );
    check(
        allow,
        DENY,
        "ask",
        &[
            "ls && make",
            "ls | make",
            "ls & cat a",
            "ls &",
            "ls && A=1",
            "A=1 ls",
            "ls | bash scripts/ci.sh",
            "bash scripts/ci.sh < a",
            "bash scripts/ci.sh <<'E'\nx\nE",
            "ls > a",
            "ls 2>> a",
            "cat < .env",
            "cat a <> b",
            "> a",
            "ls &> a",
            "ls; (make)",
            "! make",
            &"true; ".repeat(51),
        ],
    );
    let judged = judge(&rules(allow, DENY), "ls | wc && ls", &Somewhere);
    assert_eq!(
        judged,
        CommandVerdict::Allow {
            by: vec![AllowedBy::Rule(vec!["ls".into()]), AllowedBy::Rule(vec!["wc".into()])]
        }
    );
}

#[test]
fn redirections_go_where_writing_needs_no_question() {
    check(
        &["ls", "cd"],
        &[],
        "allow",
        &["ls > scratch/a", "ls >> scratch/a 2>&1", "ls >| scratch/a", "ls 2> 'scratch/a b'"],
    );
    check(
        &["ls", "cd"],
        &[],
        "ask",
        &[
            "ls > a",
            "ls > scratch/*",
            "ls > $a",
            "ls > scratch/{a,b}",
            "ls > ~/a",
            "> scratch/a",
            "cd sub && ls > scratch/a",
            "ls > /dev/tcp/localhost/80",
            "ls < /dev/tcp/localhost/80",
            "ls > /dev/tty",
        ],
    );
}

#[test]
fn a_change_of_directory_is_followed() {
    let allow = &["ls", "cd", "cat", "cp", "./check.sh", "cargo test", "pwd", "git rev-parse"];
    check(
        allow,
        DENY,
        "allow",
        &[
            "cd sub && ls",
            "cd sub/dir && cat a | cat && cargo test",
            "cd 'a b' && ls -la",
            "cd sub",
            "cd sub; ls",
            "cd sub || ls",
            "cd sub\nls",
            "cd sub && ls; ls",
            "cd sub | ls",
            "ls && cd sub && ls",
            "cd sub && cd dir && ls",
            "cd sub && cat x && cd .. && ls",
            "cd sub && cat < a",
            "(cd sub && cargo test) && ./check.sh",
            "cd /w/sub && ls",
            "cd \"$PWD/sub\" && ls",
            "cd \"$(pwd)/sub\" && ls",
            "cd \"$(git rev-parse --show-toplevel)\" && ls",
        ],
    );
    check(
        allow,
        DENY,
        "ask",
        &[
            "cd",
            "cd .. && ls",
            "cd ../x && ls",
            "cd / && ls",
            "cd - && ls",
            "cd -P sub && ls",
            "cd '' && ls",
            "cd ~ && ls",
            "cd sub dir && ls",
            "cd sub* && ls",
            "cd .roo && cat a",
            "cd .git && cat a",
            "cd sub > /dev/null && ls > a",
            "cd sub && ls > a",
            "cd sub && cat < .env",
            "cd sub && ./check.sh",
            "cd sub && cp x .git/config",
            "cd sub && cat .env",
            "cd sub; cat .env",
            "cd sub; ./check.sh",
            "cd sub && cd ../.. && ls",
            "cd sub && cat ../../x",
            "ls | cd sub",
            "cd sub &> /dev/null && ls",
            "command cd .. && ls",
            "time cd sub && ls",
            "cd lnk && ls",
            "cd /etc && ls",
            "cd \"$HOME\" && ls",
        ],
    );
    check(&["ls"], &[], "ask", &["cd sub && ls"]);
}

#[test]
fn a_name_must_lead_to_an_installed_program() {
    check(
        &["git-evil", "evil-ls", "missing", "ls"],
        &[],
        "ask",
        &["git-evil x", "evil-ls", "missing", "ls | evil-ls"],
    );
    check(&["./run.sh", "/bin/ls"], &[], "allow", &["./run.sh a", "/bin/ls"]);
    check(&["ls", "./run.sh", "run.sh"], &[], "ask", &["/bin/ls", "run.sh/", "././run.sh", "./ls"]);
}

#[test]
fn patterns_are_for_programs_that_only_read() {
    check(
        &["ls", "grep", "cat", "cp", "cargo test", "sort"],
        &[],
        "allow",
        &[
            "ls src/*.rs",
            "grep x src/*.ts ./*",
            "cat a?.txt src/[ab]*",
            "ls src/**/*.rs",
            "grep 'a*' b",
            // None of the names that it stands for looks like an option.
            "ls *",
            "ls *.rs",
            "ls ?x",
            "ls [ab]",
        ],
    );
    check(
        &["ls", "grep", "cat", "cp", "cargo test", "sort"],
        &[],
        "ask",
        &[
            "ls -*",
            // An option of it writes a file.
            "sort *",
            "cp src/* scratch",
            "cp x src/y && ls *",
            "grep -r x *",
            "cargo test src/*",
            "ls src/.*",
            "ls src/.?/a",
            "ls ../*",
            "ls /*",
            "l* a",
            "sort -o*",
            "ls src/{a,b}*",
        ],
    );
}

#[test]
fn files_that_may_not_be_read_are_not_shown() {
    check(
        &["cat", "grep", "head", "ls"],
        &[],
        "ask",
        &["cat .env", "cat a sub/.env", "grep x .env", "grep --file=.env x", "ls | cat - .env"],
    );
    check(&["cat .env", "cat", "grep", "ls"], &[], "allow", &["cat .env", "grep .env src", "ls .env"]);
}

#[test]
fn what_the_shell_itself_knows_is_judged_too() {
    check(
        &["printf", "read", "jobs", "wait", "set", "umask", "getopts", "mapfile", "hash", "test", "pushd"],
        &[],
        "ask",
        &[
            "printf -v PATH x",
            "printf -vPATH x",
            "read a",
            "jobs -x ls",
            "wait -p PATH",
            "set -x",
            "umask 0",
            "getopts a PATH",
            "mapfile x",
            "hash -p ./x ls",
            "test -v a",
            "pushd a",
        ],
    );
}

#[test]
fn a_denied_program_is_found_by_the_grammar_too() {
    check(
        ALLOW,
        &["rm", "git push"],
        "deny",
        &[
            "$'rm' x",
            "$'\\x72m' x",
            "$\"rm\" x",
            "rm${IFS}x",
            "rm$IFS-r",
            "bash <<< 'rm x'",
            "bash <<<\"cd a && rm x\"",
            "echo 'rm x' | sh",
            "printf 'rm x\\n' | cat | sudo bash -s",
            "case x in x) rm y;; esac",
            "f() { git push; }; f",
            "while rm x; do :; done",
            "[ -n \"$(rm x)\" ]",
            "echo ${x:-$(rm y)}",
            "cat <<E\n${x:-`rm y`}\nE",
            "a=$(rm x)",
            "export A=$(rm x)",
            "let 'x=1'; rm y",
            "ls )( ; rm x",
            "if ; rm x",
            "ls \u{0}; rm x",
            &format!("ls {}; rm x", "a".repeat(70_000)),
            &format!("ls {}; rm x", "'b'".repeat(5_000)),
        ],
    );
    check(ALLOW, &["rm"], "ask", &["echo 'rm x' | missing", "echo rm; sh ci.sh", "cat <<< 'rm x'"]);
}

#[test]
fn hidden_commands_in_literal_text_ask() {
    check(ALLOW, &[], "ask", &["test -v 'a[$(ls)]'", "printf '`ls`'"]);
}

#[test]
fn hostile_lines_take_little_time() {
    for part in [
        "env ",
        "env -a ",
        "sh -c '",
        "$(",
        "`",
        "(",
        "\"$(",
        "timeout 1 ",
        "find -exec ",
        "x; ",
        "<<a\n",
        "<<a\na\n",
        "env -S'",
    ] {
        let line = part.repeat(20_000);
        let before = processor_seconds();
        assert_ne!(verdict(ALLOW, DENY, &line), "allow");
        let used = processor_seconds() - before;
        assert!(used < 2.0, "{part:?} took {used} s");
    }
}

/// The processor time that this thread has used: what others do on the machine doesn't count.
fn processor_seconds() -> f64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanoseconds: f64 = statistics.split(' ').next().unwrap().parse().unwrap();
    nanoseconds / 1e9
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(2), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_line_breaks_the_judgement(line in "(ls|rm|git|sh -c|env|find|=|\\PC|[;|&()<>$`'\"\\\\ \n#-]){0,40}") {
        let _ = judge(&rules(ALLOW, DENY), &line, &Somewhere);
        let _ = summarize(&line, &Somewhere).lines();
    }
}

#[test]
fn a_secret_asks_wherever_a_command_names_it() {
    let allow =
        &["grep", "wc", "file", "date", "cat", "cp", "dd", "sed", "jq", "rg", "cd", "ls", "test", "echo"];
    check(
        allow,
        &[],
        "ask",
        &[
            "grep -eX .env",
            "grep --regexp=X .env",
            "grep --reg=X .env",
            "grep -rieX .env",
            "grep -f .env x",
            "grep -f.env x",
            "grep -rf.env x",
            "grep --file=.env x",
            "wc --files0-from=.env",
            "file -f .env",
            "date -f .env",
            "cp .env x",
            "dd if=.env of=x",
            "sed -n -e p .env",
            "jq -f .env x",
            "rg --files .env",
            "cat build/p*",
            "wc build/p?",
            "cd sub && cat build/p*",
        ],
    );
    check(
        allow,
        &[],
        "allow",
        &[
            "grep .env x",
            "grep -e '\\bX\\b' x",
            "grep -rn X src",
            "sed -n '1,5p' x",
            "cat src/p*",
            "wc -l src/*.rs",
            "cp x src",
            "ls -la .env",
            "test -f .env",
            "echo .env",
        ],
    );
}

#[test]
fn what_a_link_leads_to_asks_for_every_program() {
    let allow = &["cp", "wc", "grep", "find", "rg", "fd", "ls"];
    check(
        allow,
        &[],
        "ask",
        &[
            "cp lnk/passwd x",
            "wc lnk/passwd",
            "ls lnk",
            "grep -R root:",
            "grep -nR root: src",
            "grep --dereference-recursive root:",
            "grep --deref root:",
            "find -L src -name x",
            "find src -follow",
            "rg -L root:",
            "rg --follow root:",
            "fd --follow passwd",
            "cp -rL src x",
        ],
    );
    check(&["grep -R", "find"], &[], "allow", &["grep -R X src", "find src -name '*.rs'"]);
}

#[test]
fn what_was_committed_under_a_name_that_asks_does_too() {
    let allow = &["git", "git show", "git cat-file", "git grep", "git log"];
    check(
        allow,
        &[],
        "ask",
        &[
            "git show HEAD:.env",
            "git show HEAD:sub/.env",
            "git show --no-ext-diff --no-textconv :0:.env",
            "git log --oneline -- .env",
            "git cat-file -p HEAD:a",
            "git cat-file blob HEAD",
            "git cat-file --batch",
            "git grep --cached X",
            "git grep --cache X",
            "git grep X HEAD",
            "git grep X HEAD -- src",
            "git grep X src -- src",
            "git grep -- X HEAD",
            "git grep -e X HEAD",
            "git grep -e -e HEAD",
            "git grep -ie -e HEAD",
            "git grep -f -e HEAD",
            "git grep X HEAD^{/fix*}",
            "git grep X :a",
        ],
    );
    check(
        allow,
        &[],
        "allow",
        &[
            "git show HEAD:src/main.rs",
            "git cat-file -t HEAD",
            "git grep X",
            "git grep -n X src",
            "git grep -e X src",
            "git grep X -- src tests",
            "git grep -A 3 X '*.rs'",
            "git grep X ':!target'",
            "git grep HEAD",
        ],
    );
}

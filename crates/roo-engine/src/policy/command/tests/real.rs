//! Lines in a real directory, with real files and a real repository.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::*;

/// A workspace on disk. Its neighbour is outside.
struct RepositoryFixture {
    directory: tempfile::TempDir,
}

impl RepositoryFixture {
    fn new() -> Self {
        let fixture = Self { directory: tempfile::tempdir().unwrap() };
        for (name, text) in [
            ("ws/src/a.rs", "a\n"),
            ("ws/src/b.rs", "b\n"),
            ("ws/src/deep/c.md", "c\n"),
            ("ws/web/package.json", "{}"),
            ("ws/README.md", "x\n"),
            ("out/secret", "secret\n"),
        ] {
            fixture.write(name, text);
        }
        std::os::unix::fs::symlink("../out", fixture.path("ws/lnk")).unwrap();
        std::os::unix::fs::symlink("/proc/self/cwd", fixture.path("ws/here")).unwrap();
        std::os::unix::fs::symlink("/proc/self/root", fixture.path("ws/top")).unwrap();
        fixture.git(&["init", "-q"]);
        fixture.git(&["add", "src"]);
        fixture.git(&["commit", "-q", "-m", "a"]);
        fixture
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn git(&self, arguments: &[&str]) {
        let output = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@example.org"])
            .args(arguments)
            .current_dir(self.path("ws"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    #[track_caller]
    fn check(&self, expected: &str, lines: &[&str]) {
        let root = self.path("ws");
        let search = std::env::var_os("PATH").unwrap();
        let place = Directory::new(root.clone(), [root.clone()], search);
        let allow = &[
            "ls",
            "cat",
            "wc",
            "grep",
            "find",
            "head",
            "sort",
            "sed -n",
            "cd",
            "git",
            "git add",
            "git commit",
            "git checkout",
            "git stash",
            "git fetch",
            "git lg",
            "git push",
            "git submodule",
            "python3 -m",
            "echo",
            "cp",
            "xargs",
            "bash -x",
        ];
        for line in lines {
            let line = line.replace("WS", root.to_str().unwrap());
            let verdict = judge(&rules(allow, &[]), &line, &place);
            assert_eq!(word(&verdict), expected, "{line:?}: {verdict:?}");
        }
    }
}

#[test]
fn paths_are_judged_by_where_they_lead() {
    let fixture = RepositoryFixture::new();
    fixture.check(
        "allow",
        &[
            "cat src/../README.md",
            "cat lnk/../ws/README.md",
            "sed -n 1p src/*.rs",
            "cat WS/README.md",
            "ls WS",
            "cd WS/web && ls ..",
            "cd web && cat ../src/a.rs",
            "cd src/deep && cd ../.. && ls",
            "grep -rn x src",
            "cd new && ls",
            "git -C web log",
        ],
    );
    fixture.check(
        "ask",
        &[
            "cat ../out/secret",
            "cat src/../../out/secret",
            "cat WS/../out/secret",
            "cat lnk/secret",
            "ls lnk",
            "cd lnk && ls",
            "cd src/../lnk && cat secret",
            "cd web && cat ../../out/secret",
            "cd lnk/.. && cat out/secret",
            "git -C ../out log",
            "grep --file=../out/secret x",
            "cp README.md ../out/new",
        ],
    );
}

#[test]
fn what_is_another_place_for_every_process_asks() {
    let fixture = RepositoryFixture::new();
    fixture.check(
        "ask",
        &[
            "cat here/../out/secret",
            "cat here/README.md",
            "cat top/etc/passwd",
            "cd here && ls",
            "cd top && ls",
            "ls here",
            "wc here/../../out/secret",
            "cat /proc/self/cwd/README.md",
            "cat /proc/self/root/etc/passwd",
            "cat < /proc/self/cwd/README.md",
            "cat < here/README.md",
            "cat < /dev/tcp/localhost/80",
            "cat < /dev/udp/localhost/80",
            "cat < /dev/fd/3",
            "cat < /dev/stdin",
            "cd /dev && cat tcp/localhost/80",
            "cp README.md here/x",
        ],
    );
}

#[test]
fn names_that_are_found_are_judged_one_by_one() {
    let fixture = RepositoryFixture::new();
    fixture.check(
        "allow",
        &[
            "for f in src/*.rs; do wc -l \"$f\"; done",
            "for f in src/*.rs; do wc -l $f; done | sort -n",
            "for d in src web; do (cd \"$d\" && ls); done",
            "find src -name '*.rs' | xargs wc -l",
            "find src -name '*.rs' -print0 | xargs -0 grep -n a",
            "find src -type f | head -5 | xargs cat",
            "git ls-files '*.rs' | xargs cat",
            "git ls-files '*.rs' | xargs -I {} head -1 {}",
            "grep -rl a src | xargs sed -n 1p",
            "for f in $(git ls-files '*.md'); do cat \"$f\"; done",
            "git ls-files '*.rs' | while read -r f; do wc -l \"$f\"; done",
            "find src -name '*.rs' | sort | grep -v b | xargs cat",
        ],
    );
    fixture.check(
        "ask",
        &[
            "find . -type f | xargs cat",
            "find . | xargs cat",
            "for f in ./*; do cat \"$f\"/secret; done",
            "for f in src/*.rs; do cp \"$f\" web; done",
            "for f in *; do cp $f web; done",
            "find src -name '*.rs' | xargs cp",
            "find src -name '*.none' | xargs cp",
            "find src -name '*.rs' -print0 | xargs cat",
            "find src -name '*.rs' | xargs -0 cat",
            "find src -name '*.rs' 2>&1 | xargs cat",
            "find src -name '*.rs' | { head -c 5; xargs cat; }",
            "find src -name '*.rs' | (cat; xargs cat)",
            "find src -name '*.rs' | cat | head -c 9 | xargs cat",
            "cat README.md | xargs cat",
            "ls | xargs cat",
            "echo lnk/secret | xargs cat",
            "find src -name '*.rs' | xargs -I {} cat {}/../../lnk/secret",
            "find src -name '*.rs' | xargs bash -x",
            "find src -name '*.rs' | xargs xargs cat",
            "cp README.md src/new; find src -type f | xargs cat",
        ],
    );
    fixture.write("ws/src/-n", "");
    fixture.check("ask", &["cd src && git ls-files -o | xargs cat", "cd src && ls *", "cd src && wc -l *"]);
    fixture.check("allow", &["cd src && ls *.rs", "cd web && ls *"]);
    fixture.check("allow", &["find src/ -name '-*' | xargs cat"]);
    fixture.write("ws/web/a b.rs", "");
    fixture.check("ask", &["find web | xargs cat", "for f in web/*.rs; do cat $f; done"]);
    fixture.check(
        "allow",
        &["find web -type f -print0 | xargs -0 cat", "for f in web/*.rs; do cat \"$f\"; done"],
    );
}

#[test]
fn a_repository_that_runs_nothing_needs_no_options() {
    let fixture = RepositoryFixture::new();
    let reading: &[&str] = &[
        "git diff",
        "git diff HEAD -- src",
        "git show HEAD",
        "git log -p -1",
        "git blame src/a.rs",
        "git status -vv",
        "git -C src diff",
    ];
    let writing: &[&str] = &[
        "git add -A",
        "git commit -m 'Fix: see /etc/x, `y` and .git'",
        "git add src && git commit -qm \"$(cat <<'E'\nFix `it`\n\n- at ../x\nE\n)\"",
        "git checkout -b new",
        "git stash",
        "git fetch origin",
        "git push origin new",
    ];
    fixture.check("allow", reading);
    fixture.check("allow", writing);
    fixture.check(
        "ask",
        &[
            "git diff --no-index src web",
            "git diff --no-inde src web",
            "git diff --ext-diff",
            "git commit -F ../out/secret",
            "git commit -m x -F lnk/secret",
            "git fetch x::y",
            "git push ext::x",
            "git checkout new && cat src/a.rs",
            "git stash && cd src && ls",
            "git submodule foreach ls",
            "git bisect run ls",
            "git rebase -x ls",
        ],
    );
    // Hooks matter for what runs them.
    fixture.write("ws/.git/hooks/pre-commit", "");
    fixture.check("allow", reading);
    fixture.check("ask", writing);
    fs::remove_file(fixture.path("ws/.git/hooks/pre-commit")).unwrap();
    fixture.git(&["config", "core.hooksPath", ".husky"]);
    fixture.check("allow", reading);
    fixture.check("ask", writing);
    fixture.git(&["config", "--unset", "core.hooksPath"]);
    // A command of its own may be anything.
    fixture.check("allow", &["git lg"]);
    fixture.git(&["config", "alias.lg", "!ls"]);
    fixture.check("ask", &["git lg"]);
    fixture.check("allow", reading);
    fixture.check("allow", writing);
    // Drivers matter for what shows changes, filters for whatever compares files.
    fixture.git(&["config", "diff.external", "./x"]);
    fixture.check("ask", reading);
    fixture.check("allow", &["git diff --no-ext-diff --no-textconv", "git diff --stat", "git status"]);
    fixture.git(&["config", "--unset", "diff.external"]);
    fixture.git(&["config", "filter.x.clean", "./x"]);
    fixture.check(
        "ask",
        &["git status", "git diff --stat", "git diff --no-ext-diff --no-textconv", "git add -A"],
    );
    fixture.check("allow", &["git log --oneline", "git rev-parse HEAD", "git branch"]);
}

#[test]
fn a_diff_without_a_repository_may_show_anything() {
    let fixture = RepositoryFixture::new();
    fs::remove_dir_all(fixture.path("ws/.git")).unwrap();
    let is_free = !Path::new("/tmp/.git").exists() && !Path::new("/.git").exists();
    assert!(is_free, "these tests need a directory that no repository holds");
    fixture.check("ask", &["git diff src web"]);
}

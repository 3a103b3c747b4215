//! Ordinary work is not disturbed: tools run in the sandbox as outside of it.

use super::*;

impl Fixture {
    /// As [`Fixture::sh`], with the user's own home: that is where toolchains are.
    async fn work(&self, line: &str) -> String {
        let mut output = String::new();
        let mut confinement = Confinement {
            read_only: vec![self.at("ws/.git/hooks"), self.at("ws/.git/config")],
            ..self.confinement()
        };
        let home = std::env::var_os("HOME").map(PathBuf::from);
        confinement.hidden.extend(credentials(home.as_deref()));
        let ended = exec::run_confined(
            &self.command(line),
            &Environment::inherited(),
            &self.sandbox,
            &confinement,
            |text| output.push_str(text),
            &CancellationToken::new(),
        )
        .await;
        assert_eq!(ended.expect("it starts").0, Status::Code(0), "{line}: {output}");
        output
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.at("ws").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

#[tokio::test]
async fn git_works_and_its_configuration_is_kept() {
    let fixture = Fixture::new().await;
    fs::remove_file(fixture.at("ws/.env")).unwrap();
    let outside = "git init -q && git config user.name ada && git config user.email ada@example.org";
    let done = std::process::Command::new("sh").args(["-c", outside]).current_dir(fixture.at("ws")).status();
    assert!(done.unwrap().success());
    fixture.work("git add -A && git commit -q -m one && echo b >>src/a.txt && git commit -q -a -m two").await;
    let log = fixture
        .work("git log --format=%s && git checkout -q -b x && git stash list && git status --short")
        .await;
    assert_eq!(log, "two\none\n");
    let (status, _) = fixture
        .run(
            &fixture
                .command("git config core.fsmonitor 'touch x' || echo '#!/bin/sh' >.git/hooks/pre-commit"),
            &Confinement {
                read_only: vec![fixture.at("ws/.git/hooks"), fixture.at("ws/.git/config")],
                ..fixture.confinement()
            },
        )
        .await
        .unwrap();
    assert_ne!(status, Status::Code(0));
    // A repository that is protected as a whole can still be looked at.
    let confinement = Confinement { read_only: vec![fixture.at("ws/.git")], ..fixture.confinement() };
    let line = "git status --short && git diff && git log --format=%s && git show --stat >/dev/null && ! git commit -q --allow-empty -m x 2>/dev/null";
    let found = fixture.run(&fixture.command(line), &confinement).await.unwrap();
    assert_eq!(found, (Status::Code(0), "two\none\n".to_owned()));
}

#[tokio::test]
async fn cargo_builds_and_tests() {
    let fixture = Fixture::new().await;
    fixture.write(
        "Cargo.toml",
        "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n",
    );
    fixture.write(
        "src/lib.rs",
        "#[test]\nfn one() { assert_eq!(std::fs::read_dir(\"target\").is_ok(), true) }\n",
    );
    let output = fixture.work("cargo test --offline --lib 2>&1 && cargo clean --offline 2>/dev/null").await;
    assert!(output.contains("1 passed"), "{output}");
}

#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn scripts_of_other_languages_run() {
    let fixture = Fixture::new().await;
    fixture.write("a.js", "require('child_process').execSync('true'); require('fs').writeFileSync('js', 'x'); \
                         require('http').createServer(() => {}).listen(0, '127.0.0.1', function () { this.close(); console.log('node') })");
    fixture.write(
        "a.py",
        "import multiprocessing as m, tempfile, subprocess\n\
                         def f(n): return n * n\n\
                         if __name__ == '__main__':\n  subprocess.run(['true'], check=True)\n  \
                         tempfile.NamedTemporaryFile().write(b'x')\n  print(m.Pool(2).map(f, [1, 2]))\n",
    );
    fixture.write(
        "a.sh",
        "#!/bin/sh\nset -e\nd=$(mktemp -d)\nmkfifo $d/f\necho fifo >$d/f & cat $d/f\nrm -r $d\n",
    );
    assert_eq!(
        fixture.work("node a.js && python3 a.py && chmod +x a.sh && ./a.sh").await,
        "node\n[1, 4]\nfifo\n"
    );
}

#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn packages_scripts_run() {
    let fixture = Fixture::new().await;
    fixture.write("package.json", r#"{"name": "a", "version": "1.0.0", "scripts": {"test": "node -p 1+1"}}"#);
    let output = fixture.work("npm test --silent 2>&1").await;
    assert_eq!(output.trim_end(), "2");
}

#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn there_are_terminals_for_those_who_make_them() {
    let fixture = Fixture::new().await;
    let output = fixture.work("python3 -c 'import pty; pty.spawn([\"tty\"])'").await;
    assert!(output.starts_with("/dev/pts/"), "{output}");
}

#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn archives_and_builds_by_make_work() {
    let fixture = Fixture::new().await;
    fixture.write("Makefile", "all: out.txt\nout.txt: src/a.txt\n\tcat $< >$@\n");
    fixture
        .work("make -s -j4 && tar czf a.tgz --owner=4711 --group=4711 src && mkdir t && tar xzf a.tgz -C t && cmp out.txt t/src/a.txt")
        .await;
}

//! Python: virtual environments, packages from the user's index, tests, `.env` files and hooks of pre-commit.

use pretty_assertions::assert_eq;

use super::network::serve;
use super::*;

/// Serves the packages that `scripts/test` has downloaded as a package index of a company on this machine, as far as
/// the user's configuration and settings go.
fn with_index(workshop: &Workshop) {
    let packages = installed("packages");
    let index = workshop.at("index");
    for file in names(&packages) {
        let project = file.split('-').next().unwrap_or_default().to_lowercase().replace(['_', '.'], "-");
        let directory = index.join("simple").join(project);
        fs::create_dir_all(&directory).unwrap();
        let page = directory.join("index.html");
        let others = fs::read_to_string(&page).unwrap_or_default();
        fs::write(page, format!("{others}<a href=\"/packages/{file}\">{file}</a>\n")).unwrap();
        fs::create_dir_all(index.join("packages")).unwrap();
        fs::copy(packages.join(&file), index.join("packages").join(&file)).unwrap();
    }
    let port = serve(index);
    let url = format!("http://ada:company-token@127.0.0.1:{port}/simple/");
    workshop.write("home", ".config/pip/pip.conf", &format!("[global]\nindex-url = {url}\nretries = 0\n"));
    settings(workshop, &format!("sandbox: {{network: ['127.0.0.1:{port}']}}\n"));
}

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn a_virtual_environment_is_made_filled_and_tested_in_as_in_a_shell() {
    let workshop = Workshop::new(&[
        (
            "pyproject.toml",
            "[project]\nname = \"app\"\nversion = \"1.0\"\n[tool.setuptools]\npy-modules = [\"app\"]\n",
        ),
        ("app.py", "def answer():\n    return 42\n"),
        ("test_app.py", "import app\n\ndef test_answer():\n    assert app.answer() == 42\n"),
    ])
    .with("python3");
    with_index(&workshop);
    workshop.both("python3 -m venv .venv && .venv/bin/pip install -q pytest && .venv/bin/pip check");
    workshop.both(
        ".venv/bin/pip install -q . && cd / && $OLDPWD/.venv/bin/python -c 'import app; print(app.answer())'",
    );
    // Git ignores none of it: what packages bring for everybody is no secret of the user's for that.
    workshop.both("test -r .venv/lib/python3*/site-packages/pip/_vendor/certifi/cacert.pem");
    workshop.same(".venv/bin/pip freeze | sed 's, @ .*,,'");
    let told = workshop.both(". .venv/bin/activate && pytest -q");
    assert!(told.contains("1 passed"), "{told}");
    let told = workshop.both("sed -i s/42/41/ app.py && .venv/bin/python -m pytest -q");
    assert!(told.contains("1 failed"), "{told}");
    workshop.same("ls -A --ignore=.orchestration");
    workshop.both("python3 -m venv --clear .venv && rm -r .venv");
    let told = workshop.agent("cat ~/.config/pip/pip.conf; python3 -m pip config list");
    assert!(!told.contains("company-token"), "{told}");
}

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn a_program_reads_its_env_file_when_the_user_lets_it() {
    let program = "from dotenv import load_dotenv\nimport os\nload_dotenv()\nprint(os.environ['GREETING'])\n";
    let workshop = Workshop::new(&[("app.py", program), (".env", "GREETING=hello there\n")]).with("python3");
    with_index(&workshop);
    workshop.both("python3 -m venv .venv && .venv/bin/pip install -q python-dotenv");
    let told = workshop.agent(".venv/bin/python app.py");
    assert!(
        !told.contains("hello") && told.contains(".env can't be read (setting sandbox.readable)"),
        "{told}"
    );
    settings(&workshop, &format!("sandbox: {{readable: ['{}']}}\n", workshop.at("agent/.env").display()));
    let told = workshop.both(".venv/bin/python app.py");
    assert!(told.contains("hello there"), "{told}");
}

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn hooks_of_pre_commit_run_and_can_refuse() {
    let configuration = "repos:\n- repo: local\n  hooks:\n  - {id: words, name: words, language: pygrep, entry: forbidden, types: [python]}\n  \
                         - {id: syntax, name: syntax, language: system, entry: python3 -m py_compile, types: [python]}\n";
    let workshop = Workshop::new(&[
        ("~/.gitconfig", "[user]\nname = Ada\nemail = ada@example.org\n[init]\ndefaultBranch = main\n"),
        (".pre-commit-config.yaml", configuration),
        (".gitignore", "__pycache__\n"),
        ("app.py", "print('hello')\n"),
    ])
    .with("python3");
    with_index(&workshop);
    let line = "python3 -m venv ~/tools && ~/tools/bin/pip install -q pre-commit";
    assert_eq!(workshop.shell(line), (0, String::new()));
    for project in ["shell", "agent"] {
        let line = "git init -q && ~/tools/bin/pre-commit install && git add -A && git commit -qm first";
        let (code, text) = workshop.shell_in(project, line);
        assert_eq!(code, 0, "{text}");
    }
    workshop.both("~/tools/bin/pre-commit run --all-files");
    workshop.both("echo 'print(1)' >>app.py && git commit -qam second");
    let told = workshop.both("echo 'forbidden =' >>app.py && git commit -qam third");
    assert!(told.contains("words") && told.contains("Failed"), "{told}");
    workshop.same("git log --format=%s && git status --short");
}

//! Command lines in a real workspace: ordinary and hostile ones with their decisions, and mutations of them, of which
//! those that are allowed are run.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

use super::*;
use crate::policy::command::{self, CommandVerdict};
use crate::policy::command_place::CommandPlace;
use crate::policy::withheld_paths::PlaceFinder;
use roo_workspace::{Protection, protection};

/// Programs that are what they are called. Nothing of them writes, but for `tee`.
const REAL: &[&str] = &[
    "awk",
    "basename",
    "cat",
    "cmp",
    "comm",
    "cut",
    "date",
    "diff",
    "dirname",
    "du",
    "env",
    "expr",
    "false",
    "file",
    "find",
    "fold",
    "grep",
    "head",
    "ls",
    "md5sum",
    "nice",
    "nl",
    "nohup",
    "nproc",
    "od",
    "paste",
    "readlink",
    "realpath",
    "rev",
    "sed",
    "seq",
    "sha256sum",
    "sleep",
    "sort",
    "stat",
    "stdbuf",
    "tac",
    "tail",
    "tee",
    "timeout",
    "tr",
    "true",
    "uname",
    "uniq",
    "wc",
    "which",
    "xargs",
];

/// Programs that only note how they were run.
const NOTED: &[&str] = &[
    "bash", "black", "bun", "bundle", "cargo", "chmod", "cmake", "coverage", "cp", "ctest", "curl", "docker",
    "dotnet", "eslint", "fd", "flake8", "git", "go", "gofmt", "gradle", "jest", "jq", "ln", "make", "mkdir",
    "mv", "mvn", "mypy", "ninja", "node", "nox", "npm", "npx", "perl", "pip", "pnpm", "poetry", "prettier",
    "pylint", "pytest", "python", "python3", "rg", "rm", "rspec", "ruby", "ruff", "rustc", "rustfmt",
    "rustup", "sh", "ssh", "sudo", "tar", "touch", "tox", "tree", "tsc", "uv", "vitest", "wget", "yarn",
];

/// Of those the ones that no rule of the tests allows.
const FORBIDDEN: &[&str] = &[
    "bash", "chmod", "cp", "curl", "docker", "ln", "mkdir", "mv", "perl", "rm", "sh", "ssh", "sudo", "tar",
    "touch", "wget",
];

/// A text that no line may bring to light, wherever it stands.
const SECRET: &str = "canary-5f1d";

/// A workspace on disk, with a neighbour that is none of its business.
struct Lines {
    fixture: Fixture,
    search: PathBuf,
    log: PathBuf,
}

impl Lines {
    fn new() -> Self {
        let fixture = Fixture::with(
            &[
                ("Cargo.toml", "[package]\nname = \"a\"\n"),
                ("package.json", "{}"),
                ("Makefile", "all:\n"),
                ("README.md", "# A\n\nTODO: b\n"),
                ("src/main.rs", "fn main() {}\n"),
                ("src/lib.rs", "pub struct Config;\n"),
                ("src/deep/c.rs", "c\n"),
                ("tests/a.rs", "a\n"),
                ("web/package.json", "{}"),
                ("web/src/app.ts", "export {}\n"),
                ("docs/guide.md", "guide\n"),
                ("data/users.json", "[]"),
                ("logs/app.log", "error\n"),
                ("node_modules/.bin/tsc", ""),
                ("node_modules/.bin/eslint", ""),
                ("node_modules/.bin/vitest", ""),
                (".env", SECRET),
                ("web/.env.local", SECRET),
                ("certs/server.key", SECRET),
                ("hidden/x.txt", SECRET),
                (".rooignore", "hidden/\n"),
            ],
            writing(),
        );
        let place = fixture.directory.path().canonicalize().unwrap();
        let root = fixture.root();
        fs::create_dir(place.join("out")).unwrap();
        fs::write(place.join("out/secret"), SECRET).unwrap();
        std::os::unix::fs::symlink("../out", root.join("lnk")).unwrap();
        let git = |arguments: &[&str]| {
            let output = Process::new("git")
                .args(["-c", "user.name=a", "-c", "user.email=a@example.org"])
                .args(arguments)
                .current_dir(&root)
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .output()
                .unwrap();
            assert!(output.status.success(), "{output:?}");
        };
        git(&["init", "-q"]);
        git(&["add", "src"]);
        git(&["commit", "-q", "-m", "a"]);
        // Where git says what its configuration means, it must be itself.
        let [search, log] = ["bin", "log"].map(|name| place.join(name));
        fs::create_dir(&search).unwrap();
        fs::create_dir(&log).unwrap();
        let installed = |name: &str| {
            let path = std::env::var_os("PATH").unwrap();
            std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
        };
        for name in REAL {
            if let Some(file) = installed(name) {
                std::os::unix::fs::symlink(file.canonicalize().unwrap(), search.join(name)).unwrap();
            }
        }
        for name in NOTED {
            let real = installed("git").unwrap();
            let text = match *name {
                // The judge asks it what a configuration means.
                "git" => format!(
                    "#!/bin/sh\nif [ \"$1 $2\" = 'config --file' ]; then exec {} \"$@\"; fi\n{}",
                    real.display(),
                    note(&log)
                ),
                _ => format!("#!/bin/sh\n{}", note(&log)),
            };
            fs::write(search.join(name), text).unwrap();
            fs::set_permissions(search.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self { fixture, search, log }
    }

    fn judge(&self, rules: &Execute, line: &str, is_concealed: bool) -> CommandVerdict {
        let modes = Modes::built_in();
        let call_context = ToolCallContext {
            mode: modes.find("code").unwrap(),
            modes: &modes,
            profile: None,
            tools: &self.fixture.tools,
            is_branch: false,
            opens_parallel_branches: false,
            merge: None,
            delegations: 0,
            urid: &self.fixture.urid,
            seen: &self.fixture.seen,
            approved: None,
            review: None,
            intent: None,
            within: &[],
            hooks: None,
            offers: Offers::default(),
            commands: None,
            browser: None,
        };
        let policy_context = &self.fixture.gate.policy_context;
        let directory = policy_context.workspace.resolve(".", Purpose::Directory).unwrap();
        let search = OsString::from(&self.search);
        let place = CommandPlace::new(
            policy_context,
            call_context,
            &directory,
            search,
            Arc::new(PlaceFinder::new(false, None)),
        )
        .concealed(is_concealed)
        .with(Arc::clone(self.fixture.gate.repositories()));
        command::judge(rules, line, &place)
    }

    /// Runs a line that was allowed. What is wrong with what it did.
    fn run(&self, line: &str) -> Option<String> {
        let _ = fs::remove_dir_all(&self.log);
        fs::create_dir(&self.log).unwrap();
        let root = self.fixture.root();
        let output = Process::new("timeout")
            .args(["-k", "1", "5", "/bin/bash", "--noprofile", "--norc", "-c", line])
            .env_clear()
            .env("PATH", &self.search)
            .env("HOME", root.join("../out"))
            .env("SECRET", SECRET)
            .env("LC_ALL", "C.UTF-8")
            .current_dir(&root)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let printed = [output.stdout, output.stderr].concat();
        if String::from_utf8_lossy(&printed).contains(SECRET) {
            return Some("it shows what it may not".to_owned());
        }
        for entry in fs::read_dir(&self.log).unwrap() {
            let text = fs::read_to_string(entry.unwrap().path()).unwrap();
            let mut words = text.split_terminator('\0');
            let (directory, program) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            let words: Vec<&str> = words.collect();
            if FORBIDDEN.contains(&program) || is_forbidden(program, &words) {
                return Some(format!("it runs {program} {words:?}"));
            }
            if !Path::new(directory).starts_with(&root) {
                return Some(format!("{program} runs in {directory}"));
            }
        }
        None
    }

    /// All files with their contents, but for those that lines may write.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let place = self.fixture.directory.path().canonicalize().unwrap();
        let mut found = BTreeMap::new();
        let mut open = vec![place.join("out"), place.join("work"), self.search.clone()];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                let data = path.symlink_metadata().unwrap();
                if data.is_dir() {
                    open.push(path);
                } else if data.is_file() {
                    found.insert(path.clone(), fs::read(path).unwrap());
                } else {
                    found.insert(
                        path.clone(),
                        fs::read_link(path).unwrap().to_string_lossy().into_owned().into(),
                    );
                }
            }
        }
        found
    }
}

/// The script of a program that notes where it runs, and with which words.
fn note(log: &Path) -> String {
    format!("printf '%s\\0' \"$PWD\" \"${{0##*/}}\" \"$@\" > '{}'/$$\n", log.display())
}

/// Returns whether a program that presets name was given what none of them allows.
fn is_forbidden(program: &str, words: &[&str]) -> bool {
    let has = |forbidden: &[&str]| words.iter().any(|word| forbidden.contains(word));
    match program {
        "cargo" => {
            let command =
                words.iter().find(|word| !word.starts_with(['-', '+'])).copied().unwrap_or_default();
            ["install", "run", "login", "yank", "owner", "add"].contains(&command)
                || (command == "publish" && !has(&["--dry-run"]))
                || words
                    .iter()
                    .take_while(|word| **word != "--")
                    .any(|word| *word == "--config" || word.starts_with("--config="))
                || has(&["--fix"])
        }
        "git" => {
            let command = words.iter().find(|word| !word.starts_with('-')).copied().unwrap_or_default();
            ["push", "reset", "clean", "rm", "rebase", "config", "bisect", "filter-branch"].contains(&command)
                && !(command == "config" && words.len() <= 3)
        }
        "npm" | "pnpm" | "yarn" => {
            // A word after the name of a script is the script's.
            let takes_value = |word: &str| {
                matches!(
                    word,
                    "--prefix" | "--cwd" | "--dir" | "-C" | "--filter" | "-F" | "-w" | "--workspace"
                )
            };
            let is_value = |at: usize| at > 0 && takes_value(words[at - 1]);
            let names =
                words.iter().enumerate().filter(|(at, word)| !word.starts_with('-') && !is_value(*at));
            let names: Vec<&str> = names.map(|(_, word)| *word).collect();
            let is_reaching = |name: &&str| {
                ["add", "ci", "deploy", "dev", "dlx", "install", "publish", "release"].contains(name)
            };
            let reaches = match names.as_slice() {
                ["run" | "run-script", script, ..] => is_reaching(script),
                [command, ..] => is_reaching(command),
                [] => false,
            };
            reaches || has(&["--script-shell"])
        }
        "bun" => !words.first().is_some_and(|word| matches!(*word, "test" | "run" | "--version")),
        "npx" => words.contains(&"cowsay"),
        "make" => has(&["deploy", "install", "-f"]) || words.iter().any(|word| word.starts_with("SHELL=")),
        "node" => !has(&["--version", "-v", "--check", "-c", "--test"]),
        "python" | "python3" => {
            !words.iter().any(|word| matches!(*word, "-m" | "-V" | "--version" | "manage.py"))
        }
        "go" => {
            let command = words.iter().find(|word| !word.starts_with('-')).copied().unwrap_or_default();
            ["run", "install", "generate", "get"].contains(&command) || has(&["-exec", "-toolexec"])
        }
        "pip" => words.first().is_some_and(|word| matches!(*word, "install" | "uninstall")),
        _ => false,
    }
}

/// A line of the corpus with its decision.
struct Case {
    presets: Vec<String>,
    expected: &'static str,
    line: String,
}

/// The two halves of the corpus: ordinary lines and hostile ones.
fn corpus() -> [Vec<Case>; 2] {
    let mut halves = [vec![], vec![]];
    let (mut half, mut presets) = (0, vec![]);
    for line in include_str!("../../../../../../tests/corpus/judged_commands.txt").lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "ordinary" => half = 0,
            "hostile" => half = 1,
            "presets" => presets = rest.split(' ').map(str::to_owned).collect(),
            expected => halves[half].push(Case {
                presets: presets.clone(),
                expected,
                line: rest.trim_start().replace('⏎', "\n"),
            }),
        }
    }
    halves
}

fn decision(verdict: &CommandVerdict) -> &'static str {
    match verdict {
        CommandVerdict::Allow { .. } => "allow",
        CommandVerdict::Ask { .. } => "ask",
        CommandVerdict::Deny { .. } | CommandVerdict::TooDeep => "deny",
        CommandVerdict::Destroys { .. } => "destroys",
        CommandVerdict::Hidden { .. } => "hidden",
    }
}

#[test]
fn ordinary_and_hostile_lines_are_judged_as_recorded() {
    let lines = Lines::new();
    let [ordinary, hostile] = corpus();
    assert!(ordinary.len() >= 300 && hostile.len() >= 150, "{} and {}", ordinary.len(), hostile.len());
    // Ordinary lines run in a sandbox that hides what may not be seen; hostile ones must ask without one as well.
    let all = ordinary.iter().map(|case| (case, true)).chain(hostile.iter().map(|case| (case, false)));
    let wrong: Vec<String> = all
        .filter_map(|(Case { presets, expected, line }, is_concealed)| {
            let rules = Execute { presets: presets.clone(), ..Execute::default() };
            let verdict = lines.judge(&rules, line, is_concealed);
            (decision(&verdict) != *expected).then(|| format!("{expected} {line:?}: {verdict:?}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{} are judged otherwise:\n{}", wrong.len(), wrong.join("\n"));
    let asking = ordinary.iter().filter(|case| case.expected != "allow").count();
    assert!(asking * 10 < ordinary.len(), "{asking} of {} ordinary lines ask", ordinary.len());
    let allowed: Vec<&str> =
        hostile.iter().filter(|case| case.expected == "allow").map(|case| case.line.as_str()).collect();
    assert_eq!(allowed, Vec::<&str>::new());
}

/// Numbers that follow from a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % (limit.max(1) as u64)).unwrap_or_default()
    }

    fn one<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }
}

/// Pieces that are put into lines: operators, quotes, paths that lead astray, options that run programs.
const PIECES: &[&str] = &[
    " ",
    "  ",
    "\t",
    "\n",
    ";",
    "; ",
    " && ",
    " || ",
    " | ",
    " |& ",
    " & ",
    "&",
    "(",
    ")",
    "{ ",
    "; }",
    "! ",
    "'",
    "\"",
    "\\",
    "`",
    "$(",
    "${",
    "}",
    "$((",
    "))",
    "$'",
    "<(",
    ">(",
    "<<<",
    "<",
    ">",
    ">>",
    "2>",
    "&>",
    ">|",
    "2>&1",
    "<<E\n",
    "\nE\n",
    "#",
    "*",
    "?",
    "[",
    "]",
    "~",
    "~/",
    "=",
    "-",
    "--",
    ",",
    ":",
    "@",
    "\r",
    "\u{a0}",
    "\u{200b}",
    "../",
    "..",
    "./",
    "/",
    "//",
    "../out/secret",
    "lnk/secret",
    "lnk",
    ".env",
    "web/.env.local",
    "certs/server.key",
    "hidden/x.txt",
    "hidden",
    ".git/config",
    ".git/hooks/x",
    ".vscode/tasks.json",
    "$HOME/secret",
    "~/secret",
    "$SECRET",
    "/proc/self/cwd/.env",
    "/proc/self/environ",
    "src",
    "src/main.rs",
    "README.md",
    "touch x",
    "rm README.md",
    "curl x",
    "sh -c ls",
    "bash x",
    "python3 x",
    "node x",
    " -exec touch x ;",
    " -delete",
    " -o x",
    " --output=x",
    " -i",
    " -f .env",
    " --file=.env",
    " -C ..",
    " -c core.pager=x",
    " --config x",
    " -e",
    "-n",
    " x=",
    "x=1 ",
    "PATH=. ",
    "GIT_DIR=x ",
    "LD_PRELOAD=x ",
    "RUST_LOG=debug ",
    "env ",
    "command ",
    "timeout 5 ",
    "nice ",
    "xargs ",
    " | xargs cat",
    "time ",
    "exec ",
    "eval ",
    "source ",
    "cd src && ",
    "cd .. && ",
    "cd lnk && ",
    "cd - && ",
    "cd && ",
    "cat ",
    "ls ",
    "echo ",
    "grep -r c . ",
    "find . ",
    "sed -n 1p ",
    "sort -o x ",
    "for f in * ; do cat $f; done",
    "for f in .env; do cat $f; done",
    "while read -r f; do cat $f; done",
    "if true; then ",
    "; fi",
    "; done",
    "; do ",
    "$f",
    "\"$f\"",
    "f=.env; ",
    "d=..; cd $d; ",
    "set -- .env; cat $1",
    "alias ls=touch; ls",
    "ls() { touch x; }; ls",
    "IFS=x",
    "cat <.env",
    "> ../out/new",
    "> x",
];

fn mutated(seeds: &[&str], numbers: &mut Numbers) -> String {
    let mut line = numbers.one(seeds).to_owned();
    for _ in 0..=numbers.below(3) {
        let ends: Vec<usize> = line.char_indices().map(|(at, _)| at).chain([line.len()]).collect();
        let at = ends[numbers.below(ends.len())];
        let blanks: Vec<usize> = line.match_indices(' ').map(|(at, _)| at).chain([line.len()]).collect();
        let blank = blanks[numbers.below(blanks.len())];
        let other = numbers.one(seeds);
        match numbers.below(9) {
            0 => line.insert_str(at, numbers.one(PIECES)),
            1 | 2 => line.insert_str(blank, &format!(" {}", numbers.one(PIECES))),
            3 => {
                let to = ends[numbers.below(ends.len())];
                line.replace_range(at.min(to)..at.max(to), "");
            }
            4 => line = format!("{line}{}{other}", numbers.one(&["; ", " && ", " | ", " || ", "\n", " & "])),
            5 => {
                // One word for another.
                let begin = line[..blank].rfind(' ').map_or(0, |at| at + 1);
                line.replace_range(begin..blank, numbers.one(PIECES));
            }
            6 => {
                let (before, behind) = *[
                    ("(", ")"),
                    ("{ ", "; }"),
                    ("echo \"$(", ")\""),
                    ("if true; then ", "; fi"),
                    ("for f in src .env lnk; do ", "; done"),
                    ("cd src && (", ")"),
                    ("! ", ""),
                    ("cat $(", ")"),
                    ("x=$(", "); cat $x"),
                ]
                .get(numbers.below(9))
                .unwrap_or(&("", ""));
                line = format!("{before}{line}{behind}");
            }
            7 => {
                let words: Vec<&str> = other.split(' ').collect();
                line.insert_str(blank, &format!(" {}", numbers.one(&words)));
            }
            _ => {
                let words: Vec<&str> = other.split(' ').collect();
                let begin = line[..blank].rfind(' ').map_or(0, |at| at + 1);
                line.replace_range(begin..blank, numbers.one(&words));
            }
        }
    }
    line
}

/// Number of lines that the test makes; `MUTATED_LINES` sets another number, as for a nightly run.
const MUTATED: usize = 4000;

#[test]
#[expect(clippy::print_stdout, reason = "a long run shows how much of it was run")]
fn no_mutation_of_a_line_that_is_allowed_reaches_what_it_may_not() {
    let lines = Lines::new();
    let [ordinary, hostile] = corpus();
    let seeds: Vec<&str> = ordinary.iter().chain(&hostile).map(|case| case.line.as_str()).collect();
    let presets = command::presets().iter().map(|preset| preset.name.to_owned()).collect();
    let rules = Execute { presets, ..Execute::default() };
    let number = |name: &str| std::env::var(name).ok().and_then(|number| number.parse::<usize>().ok());
    let mut numbers = Numbers(number("MUTATED_SEED").unwrap_or(1) as u64);
    let before = lines.files();
    let may_change = |path: &Path| {
        let inside = path.strip_prefix(lines.fixture.root()).ok().and_then(Path::to_str);
        inside
            .is_some_and(|path| matches!(protection(path, None), Protection::None | Protection::Tier2 { .. }))
    };
    let (mut ran, mut seen, mut problems) = (0usize, BTreeSet::new(), Vec::new());
    for _ in 0..number("MUTATED_LINES").unwrap_or(MUTATED) {
        let line = mutated(&seeds, &mut numbers);
        if !matches!(lines.judge(&rules, &line, false), CommandVerdict::Allow { .. })
            || !seen.insert(line.clone())
        {
            continue;
        }
        ran += 1;
        if let Some(problem) = lines.run(&line) {
            problems.push(format!("{line:?}: {problem}"));
        }
        let after = lines.files();
        for (path, text) in &after {
            if before.get(path) != Some(text) && !may_change(path) {
                problems.push(format!("{line:?} changes {}", path.display()));
            }
        }
        let missing: Vec<&PathBuf> = before.keys().filter(|path| !after.contains_key(*path)).collect();
        assert!(missing.is_empty(), "{line:?} deletes {missing:?}");
        // Later lines begin where this one did.
        for (path, text) in &after {
            match before.get(path) {
                Some(known) if known == text => {}
                Some(known) => fs::write(path, known).unwrap(),
                None => fs::remove_file(path).unwrap(),
            }
        }
    }
    println!("{ran} lines were allowed and run");
    assert!(ran > 0);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

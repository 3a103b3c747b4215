//! Real shells against the reading: what is called plain must run exactly as it was read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::super::*;

/// Script behind every program in these tests: it notes its arguments, prints its name whether or not anybody reads it,
/// and ends well.
const STUB: &str = "#!/bin/sh\ntrap '' PIPE\nprintf '%s\\0' \"${0##*/}\" \"$@\" > \"$LOG/$$\"\n\
                    echo \"${0##*/}\" 2>&-\n";

/// The programs that lines are made of, some of them in the way of reserved words.
const PROGRAMS: &[&str] = &["p", "q", "pq", "a", "b", "-x", "1", "E", "x"];

/// A program that fails.
pub(super) const FAILING: &str = "no";

/// A directory with programs that note how they were run.
pub(super) struct Stubs {
    // Held for its life.
    _place: tempfile::TempDir,
    bin: PathBuf,
    log: PathBuf,
    work: PathBuf,
}

impl Stubs {
    pub(super) fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let [bin, log, work] = ["bin", "log", "work"].map(|name| place.path().join(name));
        fs::create_dir(&bin).unwrap();
        for program in PROGRAMS {
            fs::write(bin.join(program), format!("{STUB}exit 0\n")).unwrap();
            fs::set_permissions(bin.join(program), fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(bin.join(FAILING), format!("{STUB}exit 1\n")).unwrap();
        fs::set_permissions(bin.join(FAILING), fs::Permissions::from_mode(0o755)).unwrap();
        Self { _place: place, bin, log, work }
    }

    /// Runs a line; returns sorted argument lists, and the files that exist afterwards.
    pub(super) fn run(&self, shell: &[&str], line: &str) -> (Vec<Vec<String>>, BTreeSet<String>) {
        for directory in [&self.log, &self.work] {
            let _ = fs::remove_dir_all(directory);
            fs::create_dir(directory).unwrap();
        }
        let status = Process::new(shell[0])
            .args(&shell[1..])
            .arg(line)
            .env_clear()
            .env("PATH", &self.bin)
            .env("LOG", &self.log)
            .env("LC_ALL", "C.UTF-8")
            .current_dir(&self.work)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if let Err(error) = status {
            panic!("{} is needed to hold the reading of command lines against it: {error}", shell[0]);
        }
        let mut ran: Vec<Vec<String>> = names(&self.log)
            .iter()
            .map(|name| {
                let text = fs::read_to_string(self.log.join(name)).unwrap();
                text.split_terminator('\0').map(str::to_owned).collect()
            })
            .collect();
        ran.sort();
        (ran, names(&self.work))
    }
}

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

pub(super) const BASH: &[&str] = &["/bin/bash", "--noprofile", "--norc", "-c"];
pub(super) const SH: &[&str] = &["/bin/sh", "-c"];

/// Returns the commands that should run: behind `||` nothing does, for every program ends well.
fn expected(commands: &[Command]) -> (Vec<Vec<String>>, BTreeSet<String>) {
    let (mut argv, mut files, mut runs) = (Vec::new(), BTreeSet::new(), true);
    for command in commands {
        if command.join != Some(Join::Pipe) {
            runs = command.join != Some(Join::Or);
        }
        if !runs {
            continue;
        }
        argv.push(command.words.iter().map(|word| word.literal().unwrap().to_owned()).collect());
        for redirect in command
            .redirects
            .iter()
            .filter(|redirect| [">", ">>", ">|"].contains(&redirect.operator.as_str()))
        {
            files.extend(redirect.target.iter().map(|target| target.literal().unwrap().to_owned()));
        }
    }
    argv.sort();
    (argv, files)
}

/// Returns whether every word and target is literal, every program is one of ours, and nothing can fail.
fn can_be_run(commands: &[Command]) -> bool {
    let literal = |word: &Word| word.literal().is_some();
    commands.iter().all(|command| {
        let program =
            command.words.first().and_then(Word::literal).is_some_and(|name| PROGRAMS.contains(&name));
        let inside = |word: &Word| {
            word.literal()
                .is_some_and(|name| !name.is_empty() && !name.contains('/') && name != "." && name != "..")
        };
        let targets = command.redirects.iter().all(|redirect| match redirect.operator.as_str() {
            ">" | ">>" | ">|" => redirect.target.as_ref().is_some_and(inside),
            "<<" => true,
            // What is open at a number isn't known to every shell; these are.
            ">&" | "<&" => {
                redirect.target.as_ref().is_some_and(|word| matches!(word.literal(), Some("1" | "2" | "-")))
            }
            _ => false,
        });
        program && targets && command.words.iter().all(literal)
    })
}

#[test]
fn lines_run_as_they_are_read() {
    let stubs = Stubs::new();
    for line in [
        "p 'a b' \"c d\" e\"f\"'g' '' \"\"",
        r#"p '$(x) \;' "\"\\\$\`\a" \; a\ b"#,
        "p HEAD~1 a#b HEAD@{1}..x{} a,b}c,d {} {a}b..c !x ! a^b %1 a=b foo$ \"foo$\" ']' ] a]",
        "p; q\nb && a || b && p | q\n\n# a 'b\np # c\"",
        "p >o 2>&1 | q >>o2 2>o3; a 1>&2 >|o4",
        "p > o a > o2 b",
        "> o p a",
        "p \\\n  a \\\n b &&\n\n q |\n p",
        "p 'a\nb' \"c\nd\"",
        "p <<'E' a\n$(q) `q` 'x\nE\nq",
        "p <<E\nplain \"text'\nE\nq",
        "q | p <<X\n  a\nEX\nX",
        "p <<'E' | q && a\nx\nE",
        "p é 'à' \"\u{20ac}\" 日本 あÁˆ 'あÁˆ' \"あÁ\"a",
        "p \"$)$/$.x$,$:$;$%$^$=$&$| \" \"a$ b\" \"$\"$",
        "p a # b \\\nq # '",
        "# a\n\n  # b\np;",
        "p \\\n# a\nq",
    ] {
        let script = read(line);
        let commands = script.plain().unwrap_or_else(|problem| panic!("{line:?}: {problem}"));
        assert!(can_be_run(commands), "{line:?}: {script:#?}");
        for shell in [BASH, SH] {
            assert_eq!(stubs.run(shell, line), expected(commands), "{line:?} in {shell:?}");
        }
    }
}

#[test]
fn documents_reach_their_command_as_they_are_read() {
    for line in [
        "cat <<'E'\n$(x) `y` \\\n'z\nE",
        "cat <<E\na \"b' c\nx E\n\nE\n",
        "cat <<\"E\"\nE",
        "cat <<E\n\n\n x\nE",
    ] {
        let script = read(line);
        let commands = script.plain().unwrap_or_else(|problem| panic!("{line:?}: {problem}"));
        let document = commands[0].redirects[0].document.as_ref().unwrap();
        for shell in [BASH, SH] {
            let output = Process::new(shell[0]).args(&shell[1..]).arg(line).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), document.text, "{line:?} in {shell:?}");
        }
    }
}

/// Pieces that lines are put together from at random.
fn piece() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        8 => prop::sample::select(&["p", "q", "pq", "a", "b", "x", "-x", "1", "E", "é", "à", " ", " ", " ", " "][..]),
        6 => prop::sample::select(&[" p ", "; q", " && p ", " || q ", " | p ", "\nq ", " 'x y'", " \"x$\"", " >o", " 2>&1", " #", "\\\n"][..]),
        3 => prop::sample::select(&["'", "\"", "\\", ";", "&", "|", "\n", ">", "<", "$", "`", "(", ")", "#", "\\ ", "\\;"][..]),
        3 => prop::sample::select(&["{", "}", "{}", "!", "~", "=", ",", "..", "^", "%", "@", ":", "]", "+", "."][..]),
        2 => prop::sample::select(&[" <<E\nx\nE\n", " <<'E'\n$p `\nE\n", " << \"E\" ", "\nE\n", "EOF", "<<-", ">>", ">|", "2>", "12>", ">&", "<<<"][..]),
        1 => prop::sample::select(&["if ", "time ", "then ", "! ", "{ ", "a=b ", "a+=", "[[ ", "case ", "coproc ", "$'a'", "$\"a\"", "{a,b}", "{1..2}", "==", "=~", "&>", "|&", ";;"][..]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, rng_seed: RngSeed::Fixed(4), failure_persistence: None, ..ProptestConfig::default() })]

    /// The one property that allowing rests on.
    #[test]
    fn plain_lines_run_as_they_are_read(pieces in prop::collection::vec(piece(), 0..10)) {
        thread_local! {
            static STUBS: Stubs = Stubs::new();
        }
        let line = format!("p {}", pieces.concat());
        let script = read(&line);
        if let Ok(commands) = script.plain() && can_be_run(commands) {
            for shell in [BASH, SH] {
                let ran = STUBS.with(|stubs| stubs.run(shell, &line));
                prop_assert_eq!(&ran, &expected(commands), "{:?} in {:?}", &line, shell);
            }
        }
    }
}

/// That the property above has something to say.
#[test]
fn many_random_lines_are_plain() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, TestRunner};
    let mut runner = TestRunner::new(Config { rng_seed: RngSeed::Fixed(4), ..Config::default() });
    let strategy = prop::collection::vec(piece(), 0..10);
    let mut kinds = BTreeMap::<bool, usize>::new();
    for _ in 0..500 {
        let line = format!("p {}", strategy.new_tree(&mut runner).unwrap().current().concat());
        let plain = read(&line).plain().is_ok_and(can_be_run);
        *kinds.entry(plain).or_default() += 1;
    }
    assert!(kinds[&true] >= 50, "{kinds:?}");
}

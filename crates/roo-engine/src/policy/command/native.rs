//! Commands that are steps of the modes' workflow and whose answers the server has.
//!
//! A command that is recognised here is answered and never run. So what matters is that nothing else
//! is recognised: whoever asks for another effect must not be told that it happened.

use super::programs;
use roo_formats::config::CONTEXT_COMMAND;

/// The longest line that is looked at, in bytes.
const LENGTH: usize = 2048;

/// Format of `date` for the beginning of a request's id.
const DATE: &str = "%Y%m%d-%H-%M";

/// Files from which programs draw random digits.
const SOURCES: &[&str] = &["/dev/urandom", "/dev/random", "/proc/sys/kernel/random/uuid"];

/// Programs that only pass on what comes in, given no file.
const FILTERS: &[&str] = &["cat", "cut", "fold", "grep", "head", "hexdump", "od", "sed", "tail", "tr", "xxd"];

/// Returns whether a command is the one for the system context, by its own text or by the user's (`configured`). How
/// much white space stands between words makes no difference.
pub fn is_context_command(command: &str, configured: &str) -> bool {
    let same = |other: &str| command.split_whitespace().eq(other.split_whitespace());
    !command.trim().is_empty() && (same(CONTEXT_COMMAND) || same(configured))
}

/// The commands of a line that is nothing but plain commands joined by `&&`, where each can run by itself. None for
/// any other line.
pub fn independent_parts(line: &str) -> Vec<String> {
    let script = roo_shell::read(line);
    let Ok(commands) = script.plain() else { return vec![] };
    let part = |(index, command): (usize, &roo_shell::Command)| {
        let is_joined = command.join == (index > 0).then_some(roo_shell::Join::And);
        let is_bare =
            command.ways.is_empty() && command.redirects.is_empty() && command.assignments.is_empty();
        let program = command.words.first().and_then(roo_shell::Word::literal)?;
        let changes_shell = matches!(program, "cd" | "exit") || programs::is_launcher(program);
        let (first, last) = (command.words.first()?, command.words.last()?);
        let text = line.get(first.range.start..last.range.end)?;
        (is_joined && is_bare && !changes_shell).then(|| text.to_owned())
    };
    commands.iter().enumerate().map(part).collect::<Option<Vec<_>>>().unwrap_or_default()
}

/// Returns whether a command does nothing but make an id for a request: it writes the date in the form of such an id,
/// draws random digits, and at most makes and names a directory for it.
pub fn is_urid_recipe(command: &str) -> bool {
    if command.len() > LENGTH || !redirects_nothing(command) {
        return false;
    }
    let seen = roo_shell::scan(command);
    if seen.too_deep || !seen.documents.is_empty() {
        return false;
    }
    // Input comes from random sources alone.
    let (mut dated, mut random) = (false, command.contains('<'));
    for words in &seen.commands {
        match step(words) {
            Some(Step::Date) => dated = true,
            Some(Step::Random) => random = true,
            Some(Step::Other) => {}
            None => return false,
        }
    }
    dated && random
}

/// Returns whether a command makes this directory, relative to the first root, and nothing else.
pub fn makes_directory(command: &str, directory: &str) -> bool {
    let script = roo_shell::read(command);
    let Ok([only]) = script.plain() else { return false };
    let words: Option<Vec<&str>> = only.words.iter().map(|word| word.literal()).collect();
    let Some([program, options @ .., path]) = words.as_deref() else { return false };
    if !only.redirects.is_empty() {
        return false;
    }
    let path = path.strip_prefix("./").unwrap_or(path);
    *program == "mkdir"
        && options.iter().all(|option| is_parents(option))
        && path.trim_end_matches('/') == directory
}

fn is_parents(option: &str) -> bool {
    matches!(option, "-p" | "-v" | "-pv" | "-vp" | "--parents" | "--verbose" | "--")
}

/// Returns whether output goes nowhere but on, and input comes from random sources alone.
fn redirects_nothing(command: &str) -> bool {
    let silent = command.replace("2>/dev/null", " ").replace("2> /dev/null", " ").replace("2>&1", " ");
    let input = |after: &str| {
        let after = after.trim_start_matches(' ');
        SOURCES.iter().any(|source| {
            after
                .strip_prefix(source)
                .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '/'))
        })
    };
    !silent.contains('>') && silent.split('<').skip(1).all(input)
}

/// A command of a recipe.
enum Step {
    /// It writes the date as an id has it.
    Date,
    /// It draws random digits.
    Random,
    Other,
}

/// Returns the step of a command in a recipe; none when it does something else.
fn step(words: &[String]) -> Option<Step> {
    let mut words = words.iter().map(String::as_str).skip_while(|word| roo_shell::is_assignment(word));
    let Some(program) = words.next() else { return Some(Step::Other) };
    let arguments: Vec<&str> = words.collect();
    let all = |fits: fn(&str) -> bool| arguments.iter().all(|word| fits(word));
    match program {
        "date" => {
            let formats = arguments.iter().any(|word| word.contains(DATE));
            (formats && all(|word| word.starts_with('+') || matches!(word, "-u" | "--utc")))
                .then_some(Step::Date)
        }
        "uuidgen" => all(|word| word.starts_with('-')).then_some(Step::Random),
        "openssl" => match arguments.as_slice() {
            ["rand", "-hex", _] => Some(Step::Random),
            _ => None,
        },
        "echo" | "printf" => Some(Step::Other),
        "export" | "local" | "readonly" => all(roo_shell::is_assignment).then_some(Step::Other),
        "mkdir" => all(|word| {
            let path = word.strip_prefix("./").unwrap_or(word);
            is_parents(word) || path.starts_with(".roo/tasks/") && !path.contains("..")
        })
        .then_some(Step::Other),
        _ if !FILTERS.contains(&program) || !all(|word| SOURCES.contains(&word) || !is_path(word)) => None,
        "sed" if !all(|word| !word.starts_with("-i") && !word.starts_with("--in-place")) => None,
        _ if arguments.iter().any(|word| SOURCES.contains(word)) => Some(Step::Random),
        _ => Some(Step::Other),
    }
}

/// Returns whether an argument of a filter names a file, as far as that shows.
fn is_path(word: &str) -> bool {
    let script = word.starts_with("s/") || word.starts_with("y/") || word.starts_with('-');
    !script && (word.contains('/') || word.contains('.') && !word.contains(['[', '*', '^', '$']))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plain_commands_of_a_list_are_parts_that_run_by_themselves() {
        assert_eq!(
            independent_parts(CONTEXT_COMMAND),
            ["pwd", "tree --gitignore", "npx -y envinfo --markdown", "npm run"]
        );
        assert_eq!(independent_parts("a 'b c' && \\\n  d"), ["a 'b c'", "d"]);
        for line in [
            "",
            "a || b",
            "a; b",
            "a | b",
            "a > b && c",
            "cd x && a",
            "a && export B=1",
            "A=1 a && b",
            "(a) && b",
            "a && b &",
        ] {
            assert_eq!(independent_parts(line), [""; 0], "{line}");
        }
    }

    #[test]
    fn recipes_for_an_id_are_recognised() {
        for command in [
            "echo \"$(date +%Y%m%d-%H-%M)-$(uuidgen | cut -c1-8)\"",
            "echo $(date '+%Y%m%d-%H-%M')-$(uuidgen | tr '[:upper:]' '[:lower:]' | head -c 8)",
            "date +%Y%m%d-%H-%M-$(openssl rand -hex 4)",
            "printf '%s-%s\\n' \"$(date +\"%Y%m%d-%H-%M\")\" \"$(head -c 4 /dev/urandom | xxd -p)\"",
            "URID=\"$(date +%Y%m%d-%H-%M)-$(cat /proc/sys/kernel/random/uuid | cut -d- -f1)\"; echo \"$URID\"",
            "URID=`date +%Y%m%d-%H-%M`-`uuidgen | sed 's/-.*//'` && mkdir -p .roo/tasks/$URID && echo $URID",
            "export URID=$(date +%Y%m%d-%H-%M)-$(od -An -N4 -tx1 < /dev/urandom 2>/dev/null | tr -d ' \\n')\necho $URID",
            "date +%Y%m%d-%H-%M; uuidgen -r",
        ] {
            assert!(is_urid_recipe(command), "{command}");
        }
    }

    #[test]
    fn what_does_more_than_make_an_id_is_not_answered() {
        let id = "$(date +%Y%m%d-%H-%M)-$(uuidgen)";
        for command in [
            "date +%Y%m%d-%H-%M".to_owned(),
            "date +%Y-%m-%d; uuidgen".to_owned(),
            "uuidgen; echo %Y%m%d-%H-%M".to_owned(),
            "date +%Y%m%d-%H-%M; echo uuidgen".to_owned(),
            format!("cp data backup-{id}"),
            format!("echo {id} > id.txt"),
            format!("echo {id} | tee id.txt"),
            format!("mkdir build/{id}"),
            format!("mkdir -p .roo/tasks/../{id}"),
            format!("echo {id}; rm -rf x"),
            format!("echo {id} $(cat notes.txt)"),
            format!("echo {id}; cat /etc/hosts"),
            format!("echo {id}; cat < notes"),
            format!("echo {id}; sed -i s/a/b/ notes"),
            format!("git tag {id}"),
            format!("X={id} sh -c 'echo $X'"),
            format!("cat <<END\n{id}\nEND"),
            "date -s 2020 +%Y%m%d-%H-%M; uuidgen".to_owned(),
            "openssl rand -out key 4; date +%Y%m%d-%H-%M".to_owned(),
            format!("echo {id} {}", "x".repeat(LENGTH)),
            String::new(),
        ] {
            assert!(!is_urid_recipe(&command), "{command}");
        }
    }

    #[test]
    fn the_command_for_the_system_context_may_be_spaced_otherwise() {
        let spaced = CONTEXT_COMMAND.replace(" && ", "\n  && ");
        assert!(is_context_command(&spaced, "") && is_context_command(CONTEXT_COMMAND, "other"));
        assert!(is_context_command("sh  context.sh", "sh context.sh"));
        for command in ["", "pwd", &format!("{CONTEXT_COMMAND}; rm x"), &CONTEXT_COMMAND.replace(' ', "")] {
            assert!(!is_context_command(command, ""), "{command}");
        }
    }

    #[test]
    fn the_own_directory_is_recognised_however_it_is_made() {
        let own = ".roo/tasks/20260102-03-04-abcdef01";
        for command in ["mkdir -p {}", "mkdir {}/", "mkdir --parents './{}'", "mkdir -pv -- {}"] {
            assert!(makes_directory(&command.replace("{}", own), own), "{command}");
        }
        for command in
            ["mkdir -p {}/sub", "mkdir -p {} x", "mkdir -p {} && ls", "mkdir -m 700 {}", "rmdir {}", "mkdir"]
        {
            assert!(!makes_directory(&command.replace("{}", own), own), "{command}");
        }
    }

    proptest! {
        #[test]
        fn no_command_is_too_strange(command in "([\\PC\n]|[$(`<>|;&'\" ]|date|uuidgen|[+]%Y%m%d-%H-%M){0,40}") {
            let _ = (is_urid_recipe(&command), is_context_command(&command, ""), makes_directory(&command, "x"));
        }
    }
}

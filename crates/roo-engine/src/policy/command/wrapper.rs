//! Programs that only start another one: what they start is judged in their place.
//!
//! Only their harmless options are known here. With any other the command asks.

use super::value::Argument;

/// Number of wrappers that may stand before a command.
pub(super) const MAX_WRAPPERS: usize = 4;

/// A command behind a wrapper.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrapped {
    /// The index of its program.
    pub(super) at: usize,
    /// The variables that are set for it.
    pub(super) variables: Vec<(String, String)>,
    /// True if the shell starts it, and not the wrapper, so that its own commands count.
    pub(super) by_shell: bool,
}

/// Returns the command that a wrapper starts.
///
/// # Errors
/// Why that isn't known.
pub(super) fn unwrap(name: &str, arguments: &[Argument]) -> Result<Wrapped, String> {
    let unclear = || format!("`{name}` is given options with which it isn't known what it runs");
    let mut wrapped = Wrapped { at: 1, variables: vec![], by_shell: matches!(name, "command" | "time") };
    let mut needs_duration = name == "timeout";
    loop {
        let word = arguments.get(wrapped.at).and_then(Argument::exact);
        let Some(word) = word else { return Err(unclear()) };
        if name == "env"
            && let Some((variable, value)) = word.split_once('=').filter(|_| roo_shell::is_assignment(word))
        {
            wrapped.variables.push((variable.to_owned(), value.to_owned()));
            wrapped.at += 1;
            continue;
        }
        if !word.starts_with('-') {
            if !std::mem::take(&mut needs_duration) {
                return Ok(wrapped);
            }
            if !is_duration(word) {
                return Err(unclear());
            }
            wrapped.at += 1;
            continue;
        }
        let next = arguments.get(wrapped.at + 1).and_then(Argument::exact).unwrap_or_default();
        wrapped.at += match (name, word) {
            ("timeout", "--preserve-status" | "--foreground" | "--verbose" | "-v") | ("time", "-p") => 1,
            ("timeout", "-k" | "--kill-after") if is_duration(next) => 2,
            ("timeout", "-s" | "--signal") if is_signal(next) => 2,
            ("timeout", word) if word.strip_prefix("--kill-after=").is_some_and(is_duration) => 1,
            ("timeout", word) if word.strip_prefix("--signal=").is_some_and(is_signal) => 1,
            ("timeout", word) if word.strip_prefix("-k").is_some_and(is_duration) => 1,
            ("timeout", word) if word.strip_prefix("-s").is_some_and(is_signal) => 1,
            ("nice", "-n" | "--adjustment") if is_number(next) => 2,
            ("nice", word) if word.strip_prefix("-n").is_some_and(is_number) => 1,
            ("nice", word) if word.strip_prefix("--adjustment=").is_some_and(is_number) => 1,
            ("nice", word) if is_number(&word[1..]) => 1,
            ("stdbuf", word) if is_buffering(word) => 1,
            _ => return Err(unclear()),
        };
    }
}

/// Command that `xargs` starts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct XargsCommand {
    /// The index of its program.
    pub(super) at: usize,
    /// True if what it reads is separated by NUL, so that no name falls apart.
    pub(super) by_nul: bool,
    /// Placeholder for a name in the arguments; none where names stand behind them.
    pub(super) placeholder: Option<String>,
}

/// Returns the command that `xargs` starts.
///
/// # Errors
/// Why that isn't known.
pub(super) fn unwrap_xargs(arguments: &[Argument]) -> Result<XargsCommand, String> {
    let mut fed = XargsCommand { at: 1, by_nul: false, placeholder: None };
    loop {
        let next = arguments.get(fed.at + 1).and_then(Argument::exact);
        let is_count = next.is_some_and(is_number);
        fed.at += match arguments.get(fed.at).and_then(Argument::exact) {
            Some("-0" | "--null") => {
                fed.by_nul = true;
                1
            }
            Some("-0r" | "-r0") => {
                fed.by_nul = true;
                1
            }
            Some("-r" | "--no-run-if-empty" | "-t" | "--verbose" | "-x" | "--exit") => 1,
            Some("-n" | "-P" | "-L" | "--max-args" | "--max-procs" | "--max-lines") if is_count => 2,
            Some("-I") => {
                let placeholder = next.filter(|text| *text == "{}" || *text == "%" || *text == "@");
                fed.placeholder = Some(placeholder.ok_or_else(unclear_xargs)?.to_owned());
                2
            }
            Some(word) if word.strip_prefix("-n").or(word.strip_prefix("-P")).is_some_and(is_number) => 1,
            Some(word) if !word.starts_with('-') => return Ok(fed),
            _ => return Err(unclear_xargs()),
        };
    }
}

fn unclear_xargs() -> String {
    "`xargs` is given no program, or options with which it isn't known what it runs".to_owned()
}

fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_duration(text: &str) -> bool {
    let number = text.strip_suffix(['s', 'm', 'h', 'd']).unwrap_or(text);
    number.starts_with(|c: char| c.is_ascii_digit()) && number.chars().all(|c| c.is_ascii_digit() || c == '.')
}

fn is_signal(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
}

/// Returns whether an option of `stdbuf` says how one stream is kept.
fn is_buffering(word: &str) -> bool {
    ["-i", "-o", "-e"]
        .iter()
        .any(|stream| word.strip_prefix(stream).is_some_and(|mode| matches!(mode, "L" | "0")))
}

#[cfg(test)]
mod tests {
    use super::super::value::Kind;
    use super::*;

    fn arguments(line: &str) -> Vec<Argument> {
        line.split(' ').map(|word| Argument { text: word.to_owned(), kind: Kind::Exact }).collect()
    }

    #[test]
    fn what_a_wrapper_starts_is_found() {
        for (line, at) in [
            ("timeout 60 cargo test", 2),
            ("timeout -k 5 --signal=KILL 1.5m ls", 5),
            ("timeout -s9 -k1s 60 ls", 4),
            ("nice ls", 1),
            ("nice -n 10 ls", 3),
            ("nice -n10 ls", 2),
            ("nice -19 ls", 2),
            ("nohup ls -n", 1),
            ("time -p ls", 2),
            ("stdbuf -oL -e0 ls", 3),
            ("env ls", 1),
            ("env A=b C=d ls E=f", 3),
            ("command ls", 1),
        ] {
            let arguments = arguments(line);
            let wrapped = unwrap(&arguments[0].text, &arguments);
            assert_eq!(wrapped.map(|wrapped| wrapped.at), Ok(at), "{line}");
        }
    }

    #[test]
    fn what_is_not_known_to_be_harmless_asks() {
        for line in [
            "timeout",
            "timeout 60",
            "timeout ls",
            "timeout -k ls 60 ls",
            "timeout --foo 60 ls",
            "nice -n ls",
            "nohup",
            "nohup --help",
            "env",
            "env -i ls",
            "env -S ls",
            "env -C x ls",
            "env --unset=A ls",
            "time -o x ls",
            "time -f x ls",
            "stdbuf -o ls",
            "command -v ls",
            "command -p ls",
        ] {
            let arguments = arguments(line);
            assert!(unwrap(&arguments[0].text, &arguments).is_err(), "{line}");
        }
    }

    #[test]
    fn what_xargs_starts_is_found() {
        let found =
            |line: &str| unwrap_xargs(&arguments(line)).map(|fed| (fed.at, fed.by_nul, fed.placeholder));
        assert_eq!(found("xargs wc -l"), Ok((1, false, None)));
        assert_eq!(found("xargs -0 -r -n 1 -P4 wc"), Ok((6, true, None)));
        assert_eq!(found("xargs -I {} head {}"), Ok((3, false, Some("{}".to_owned()))));
        for line in [
            "xargs",
            "xargs -a x wc",
            "xargs -I ls wc",
            "xargs -i wc",
            "xargs -d x wc",
            "xargs --arg-file=x wc",
        ] {
            assert!(found(line).is_err(), "{line}");
        }
    }
}

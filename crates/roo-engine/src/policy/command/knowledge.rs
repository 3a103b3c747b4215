//! `programs.toml`: what is known of programs, as data that is read once.
//!
//! What follows from it for a command is in [`super::programs`] and [`super::git`].

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// Everything in the file. Each list is described there.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Knowledge {
    pub(super) launchers: Names,
    pub(super) builtins: Names,
    pub(super) escaping: Names,
    pub(super) runners: Names,
    pub(super) evaluating: Names,
    pub(super) with_operand: Names,
    pub(super) printers: Names,
    pub(super) file_runners: Names,
    pub(super) finders: Names,
    pub(super) keywords: Names,
    pub(super) readers: Names,
    pub(super) naming: Names,
    pub(super) listing: Names,
    pub(super) showing: Names,
    pub(super) wrappers: Names,
    pub(super) filters: Names,
    pub(super) rearranging: Names,
    pub(super) variables: Variables,
    pub(super) git: Git,
    programs: BTreeMap<String, Options>,
}

/// Commands and options of git.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Git {
    pub(super) plain: Names,
    pub(super) drivers: Names,
    pub(super) launchers: Names,
    pub(super) comparing: Names,
    pub(super) rearranging: Names,
    pub(super) settings: Names,
    pub(super) addresses: Names,
    pub(super) chosen: BTreeMap<String, Names>,
    pub(super) patch: Names,
    pub(super) outline: Names,
    pub(super) beside_outline: Names,
    pub(super) sought: Names,
}

/// Variables that may be set before any command.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Variables {
    pub(super) any: Names,
    pub(super) switch_prefixes: Names,
    pub(super) switch_suffixes: Names,
    pub(super) switches: Names,
    pub(super) rust_flags: Names,
}

/// Options of one program.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Options {
    same_as: Option<String>,
    pub(super) flags: Names,
    pub(super) values: Names,
    pub(super) numbers: Names,
    pub(super) toolchains: bool,
    pub(super) directories: Names,
    pub(super) anywhere: Names,
    pub(super) recurses: Option<Names>,
    pub(super) build_files: Vec<String>,
    pub(super) script_options: Option<Names>,
    pub(super) following: Names,
    pub(super) risky: Names,
}

/// Names or options, each once.
#[derive(Debug, Default)]
pub(super) struct Names(Vec<String>);

impl Names {
    /// Returns whether just this name is one of them.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.binary_search_by(|listed| listed.as_str().cmp(name)).is_ok()
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut names = Vec::<String>::deserialize(deserializer)?;
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(D::Error::custom(format!("`{}` is listed twice", pair[0]))),
            None => Ok(Self(names)),
        }
    }
}

static KNOWLEDGE: LazyLock<Result<Knowledge, String>> =
    LazyLock::new(|| toml::from_str(include_str!("programs.toml")).map_err(|error| error.to_string()));

/// Returns the content of the file; nothing where it can't be read, which [`problem`] tells.
pub(super) fn knowledge() -> &'static Knowledge {
    static NOTHING: LazyLock<Knowledge> = LazyLock::new(Knowledge::default);
    KNOWLEDGE.as_ref().unwrap_or(&NOTHING)
}

/// Returns the reason why the file can't be read. Then nothing may be allowed.
pub(super) fn problem() -> Option<&'static str> {
    KNOWLEDGE.as_ref().err().map(String::as_str)
}

/// Returns the options of a program by its name.
pub(super) fn options(name: &str) -> Option<&'static Options> {
    let programs = &knowledge().programs;
    let own = programs.get(name)?;
    match &own.same_as {
        Some(other) => programs.get(other),
        None => Some(own),
    }
}

#[cfg(test)]
mod tests {
    use super::super::programs;
    use super::*;

    #[test]
    fn the_file_can_be_read() {
        assert_eq!(problem(), None);
        assert!(knowledge().launchers.has("xargs") && !knowledge().launchers.has("ls"));
        assert!(options("gmake").is_some_and(|make| make.risky.has("--eval")));
    }

    #[test]
    fn a_name_stands_once_in_a_list() {
        #[derive(Debug, Deserialize)]
        struct List {
            #[expect(dead_code, reason = "only whether it can be read counts")]
            names: Names,
        }
        let error = toml::from_str::<List>("names = ['a', 'b', 'a']").unwrap_err();
        assert!(error.to_string().contains("`a` is listed twice"), "{error}");
    }

    #[test]
    fn programs_stand_by_the_name_that_they_are_looked_up_by() {
        let Knowledge {
            launchers,
            builtins,
            escaping,
            runners,
            evaluating,
            with_operand,
            printers,
            file_runners,
            finders,
            readers,
            naming,
            listing,
            showing,
            programs: known,
            ..
        } = knowledge();
        let lists = [
            launchers,
            builtins,
            escaping,
            runners,
            evaluating,
            with_operand,
            printers,
            file_runners,
            finders,
            readers,
            naming,
            listing,
            showing,
        ];
        for name in lists.iter().flat_map(|list| list.iter()).chain(known.keys().map(String::as_str)) {
            // What looks like a version is left out of names.
            let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
            assert!([name, stem].contains(&programs::name(name).as_str()), "{name}");
        }
    }

    #[test]
    fn what_one_program_takes_from_another_is_there() {
        for (name, own) in &knowledge().programs {
            let Some(other) = &own.same_as else { continue };
            let is_alias = own.build_files.is_empty() && own.risky.iter().next().is_none();
            assert!(is_alias, "{name} has an entry of its own and another program's");
            assert!(knowledge().programs.get(other).is_some_and(|other| other.same_as.is_none()), "{name}");
        }
    }

    #[test]
    fn a_program_that_runs_others_is_in_no_list_of_harmless_ones() {
        let known = knowledge();
        for name in known.launchers.iter().chain(known.escaping.iter()) {
            assert!(!known.runners.has(name) && !known.builtins.has(name), "{name}");
            assert!(
                !known.readers.has(name) && !known.naming.has(name) && !known.listing.has(name),
                "{name}"
            );
        }
    }
}

//! Diagnosis of the rules of the settings: those that no command can ever match, for whoever wrote them.

use super::knowledge::knowledge;
use super::preset::{example, preset, presets};
use super::{destructive, programs};
use roo_formats::config::yaml::Step;
use roo_formats::config::{Execute, Layer, SettingsProblem};

/// Options that ask a program about itself.
const ABOUT_ITSELF: &[&str] = &["--help", "--version"];

/// The rules of a layer of the settings that can't do what whoever wrote them meant, each where it stands.
pub fn problems(layer: &Layer) -> Vec<SettingsProblem> {
    let Execute { allow, presets, deny, mode: _ } = layer.execute();
    let at = |key: &str, index: usize, message: String| {
        let path = ["autoApprove", "execute", key].map(|key| Step::Key(key.to_owned()));
        layer.warning(&[path.as_slice(), &[Step::Index(index)]].concat(), message)
    };
    let allowed = allow
        .iter()
        .enumerate()
        .filter_map(|(index, words)| Some(at("allow", index, rule_problem(words, &deny)?)));
    let denied = deny
        .iter()
        .enumerate()
        .filter(|(_, words)| words.first().is_some_and(|word| word != "*"))
        .filter_map(|(index, words)| Some(at("deny", index, written(words)?)));
    let unknown = presets.iter().enumerate().filter(|(_, name)| preset(name).is_none());
    let unknown = unknown.map(|(index, name)| at("presets", index, unknown_preset(name)));
    allowed.chain(denied).chain(unknown).collect()
}

/// Returns the message about a name that is no preset.
pub fn unknown_preset(name: &str) -> String {
    let names: Vec<&str> = presets().iter().map(|preset| preset.name).collect();
    format!("there is no preset `{name}`; there are {}", names.join(", "))
}

/// Returns the reason why an allowing rule never applies beside these denying ones; none where it does.
pub fn rule_problem(words: &[String], denied: &[Vec<String>]) -> Option<String> {
    unmatchable(words).or_else(|| {
        let denying = denied.iter().find(|denying| words.starts_with(denying))?;
        Some(format!("this rule never applies: the rule {} denies all of it", list(denying)))
    })
}

/// Returns the reason why no command can match an allowing rule; none where one can.
fn unmatchable(words: &[String]) -> Option<String> {
    let program = words.first()?;
    if let Some(problem) = written(words) {
        return Some(problem);
    }
    let name = programs::name(program);
    let known = knowledge();
    let never = |why: String| Some(format!("this rule never applies: {why}"));
    if matches!(program.as_str(), "set" | "export" | "read" | "break" | "continue") {
        return Some(format!("this rule is not needed: `{program}` is judged by what it does"));
    }
    if known.wrappers.has(program) || program == "xargs" {
        return Some(format!(
            "this rule is not needed: of `{program} <command>` the command is judged by its own rule"
        ));
    }
    if program != "[[" && (programs::launches(program) || known.escaping.has(&name)) {
        return never(format!("`{program}` can run any program, so every command with it asks"));
    }
    let command = words.iter().skip(1).find(|word| !word.starts_with('-'));
    if name == "git" && command.is_some_and(|command| known.git.launchers.has(command)) {
        return never(format!("`{}` can run any program, so every command with it asks", words.join(" ")));
    }
    if name == "git" && words.iter().skip(1).map(String::as_str).eq(["submodule", "foreach"]) {
        return never("`git submodule foreach` can run any program".to_owned());
    }
    let is_about_itself = words.iter().skip(1).any(|word| ABOUT_ITSELF.contains(&word.as_str()));
    if known.runners.has(&name) && command.is_none() && !is_about_itself {
        let such = example(program)
            .map(|(rule, preset)| format!(", such as {rule}; the preset `{preset}` has the usual ones"));
        let such = such.unwrap_or_default();
        return never(format!("`{program}` runs what it is given, so a rule must also name that{such}"));
    }
    let arguments = words.get(1..).unwrap_or_default();
    destructive::destroys(&name, arguments).and_then(|what| never(format!("the command {what}")))
}

/// Returns the problem with how a rule is written; none where its words can be those of a command.
fn written(words: &[String]) -> Option<String> {
    let program = words.first()?;
    if program.split_whitespace().count() > 1 {
        let parts: Vec<String> = program.split_whitespace().map(str::to_owned).collect();
        return Some(format!(
            "this rule never applies: no program is called `{program}`; write each word by itself: {}",
            list(&[parts.as_slice(), words.get(1..).unwrap_or_default()].concat())
        ));
    }
    if program.starts_with('~') || program.contains('$') {
        return Some(format!("this rule never applies: write the whole path of `{program}`"));
    }
    if program.contains('*') || words.last().is_some_and(|word| word == "*") {
        let before: Vec<String> = words.iter().take_while(|word| !word.contains('*')).cloned().collect();
        let instead = match before.as_slice() {
            [] => "name the programs that you mean, each in a rule of its own".to_owned(),
            words => format!("{} matches whatever follows", list(words)),
        };
        return Some(format!(
            "`*` stands for itself in rules, so this one matches hardly anything; {instead}"
        ));
    }
    let is_operator = |word: &&String| matches!(word.as_str(), "&&" | "||" | "|" | ";" | "&" | ">" | "<");
    words.iter().find(is_operator).map(|operator| {
        format!("this rule never applies: `{operator}` joins commands; write a rule for each of them")
    })
}

/// Words as a rule has them.
fn list(words: &[String]) -> String {
    format!("[{}]", words.join(", "))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn problem(line: &str) -> Option<String> {
        unmatchable(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn rules_that_no_command_matches_are_told() {
        for (rule, told) in [
            ("npm", "must also name that, such as [npm, "),
            ("cargo", "; the preset `cargo` has the usual ones"),
            ("node", "must also name that"),
            ("make", "must also name that"),
            ("python3 -u", "must also name that"),
            ("sudo ls", "can run any program"),
            ("ssh host", "can run any program"),
            ("git bisect", "can run any program"),
            ("git submodule foreach", "can run any program"),
            ("timeout 60 ls", "not needed"),
            ("xargs ls", "not needed"),
            ("export", "not needed"),
            ("npm run *", "[npm, run] matches whatever follows"),
            ("cargo*", "name the programs"),
            ("ls && cat", "joins commands"),
            ("~/bin/tool", "whole path"),
            ("$HOME/bin/tool", "whole path"),
            ("rm -rf /", "never applies"),
        ] {
            let found = problem(rule).unwrap_or_default();
            assert!(found.contains(told), "{rule}: {found}");
        }
        let found = unmatchable(&["cargo test".to_owned(), "-q".to_owned()]).unwrap_or_default();
        assert!(found.ends_with("write each word by itself: [cargo, test, -q]"), "{found}");
    }

    #[test]
    fn rules_that_some_command_matches_are_not() {
        for rule in [
            "ls",
            "cd",
            "test",
            "[[",
            "git",
            "git log",
            "git submodule",
            "npm test",
            "npm --version",
            "make test",
            "cargo build",
            "./run.sh",
            "command500",
            "/usr/bin/tool",
            "find",
            "rm",
            "a*b c*d x",
            "python3 -m pytest",
            "sed -n",
            "grep *.rs src",
        ] {
            let rule = rule.replace("a*b", "ab");
            assert_eq!(problem(&rule), None, "{rule}");
        }
    }

    #[test]
    fn each_problem_is_told_where_it_stands() {
        let text = "autoApprove:\n  execute:\n    allow:\n      - [npm]\n      - [git, push]\n      - [ls]\n    \
                    deny: [[git], [rm, '*'], ['*', x]]\n    presets: [cargo, rust]\n";
        let layer = Layer::from_yaml(Path::new("/c.yaml"), text).unwrap().unwrap();
        let found: Vec<String> = problems(&layer).iter().map(ToString::to_string).collect();
        let told = [
            "/c.yaml:4:9: autoApprove.execute.allow[0]: this rule never applies: `npm` runs what it is given",
            "/c.yaml:5:9: autoApprove.execute.allow[1]: this rule never applies: the rule [git] denies all of it",
            "/c.yaml:7:19: autoApprove.execute.deny[1]: `*` stands for itself in rules",
            "/c.yaml:8:22: autoApprove.execute.presets[1]: there is no preset `rust`; there are cargo, node, ",
        ];
        assert_eq!(found.len(), told.len(), "{found:#?}");
        for (found, told) in found.iter().zip(told) {
            assert!(found.starts_with(told), "{found}");
        }
    }
}

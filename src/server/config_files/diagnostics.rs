//! Diagnostics of a text, with exact positions. Pure, but for the modes that other files bring.

use std::ops::Range;
use std::path::Path;

use super::kind::{ConfigFile, ConfigFileKind};
use crate::live_settings::Configured;
use roo_engine::customization::{
    Customization, problems_of_command, problems_of_hooks, problems_of_mcp, problems_of_rules,
    problems_of_skill,
};
use roo_formats::config::SettingsProblem;
use roo_formats::front_matter;
use roo_formats::intents::IntentFile;
use roo_formats::modes::FILE_LIMIT;
use roo_formats::{FileProblem, Position, Problem, Severity, TextRange};
use roo_text::position::{self, Encoding, Positions};
use roo_workspace::ignore_problems;

/// The most patterns of a `.rooignore` that are told one by one.
const PATTERNS: usize = 20;

/// Checks a file that holds this text. May read other files.
pub(super) fn check(file: &ConfigFile, text: &str, customization: &Customization) -> Vec<Problem> {
    let found = |problems: Vec<FileProblem>| problems.into_iter().map(|found| found.problem).collect();
    match file.kind {
        ConfigFileKind::Modes(_) => found(customization.problems_of_modes(&file.path, text)),
        ConfigFileKind::Hooks(scope) => found(problems_of_hooks(&file.path, text, scope)),
        ConfigFileKind::McpServers => found(problems_of_mcp(&file.path, text)),
        ConfigFileKind::Command => found(problems_of_command(&file.path, text)),
        ConfigFileKind::Skill => found(problems_of_skill(&file.path, text)),
        ConfigFileKind::Rules => [rules(text), found(problems_of_rules(&file.path, text))].concat(),
        ConfigFileKind::Ignore => patterns(text, "the whole workspace is hidden"),
        ConfigFileKind::Protected => patterns(text, "every change in the workspace asks"),
        ConfigFileKind::Settings => settings(&file.path, text),
        ConfigFileKind::Intents => intents(text),
    }
}

/// Checks the intents of a text.
fn intents(text: &str) -> Vec<Problem> {
    match IntentFile::parse(text) {
        Ok(file) => file.problems,
        Err(problem) => {
            let message =
                format!("{problem}. Until this is fixed, nothing may be changed in this workspace.");
            vec![Problem { message, ..problem }]
        }
    }
}

/// Rules have no front matter: whoever writes one expects it to count.
fn rules(text: &str) -> Vec<Problem> {
    let Some(yaml) = front_matter::region(text).filter(|_| !front_matter::is_open(text)) else {
        return vec![];
    };
    let message = "rules have no front matter: this is read as part of the text";
    let lines = text.get(..yaml.end).unwrap_or_default().matches('\n').count();
    let range = TextRange { start: Position::START, end: Position { line: lines + 1, column: 4 } };
    vec![Problem::new(Severity::Information, Some(range), message)]
}

/// Checks a list of patterns; `consequence` says what follows from a problem.
fn patterns(text: &str, consequence: &str) -> Vec<Problem> {
    if text.len() > FILE_LIMIT {
        let message = format!("the file has more than 1 MiB, so {consequence}");
        return vec![Problem::error(None, message)];
    }
    let problem = |(line, reason): (usize, String)| {
        let message = format!("this pattern is invalid, so {consequence}: {reason}");
        Problem::error(Some(TextRange::to_line_end(text, Position { line, column: 1 })), message)
    };
    ignore_problems(text).into_iter().take(PATTERNS).map(problem).collect()
}

fn settings(path: &Path, text: &str) -> Vec<Problem> {
    settings_problems(&Configured::from_text(path, text))
}

/// Checks the settings file.
pub(super) fn settings_problems(configured: &Configured) -> Vec<Problem> {
    configured
        .file_problems()
        .map(|SettingsProblem { path, problem, .. }| match path.as_str() {
            "" => problem.as_ref().clone(),
            path => Problem { message: format!("{path}: {problem}"), ..problem.as_ref().clone() },
        })
        .collect()
}

/// Returns the bytes that show a problem. Where its range is empty, these are what stands before it on its line, or the
/// end of what stands above.
fn visible(text: &str, range: Option<TextRange>) -> Range<usize> {
    let range = range.unwrap_or_else(|| TextRange::at(text, Position::START));
    let (start, end) = (range.start.offset(text), range.end.offset(text));
    if start < end {
        return start..end;
    }
    let before = text.get(..start).unwrap_or_default();
    let end = before.trim_end().len();
    let begin = before.get(..end).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1);
    let indented = text.get(begin..end).unwrap_or_default();
    begin + (indented.len() - indented.trim_start().len())..end
}

/// Returns the text that puts a problem's suggestion in place of what is there, quoted as that is.
pub(super) fn replacement(text: &str, problem: &Problem) -> Option<String> {
    let (suggestion, range) = (problem.suggestion.as_ref()?, problem.range?);
    let written = text.get(range.start.offset(text)..range.end.offset(text)).filter(|it| !it.is_empty())?;
    Some(match written.chars().next() {
        Some(quote @ ('"' | '\'')) => format!("{quote}{suggestion}{quote}"),
        _ => suggestion.clone(),
    })
}

/// The ranges of findings, as the client counts.
pub(super) fn ranges(text: &str, findings: &[Problem], encoding: Encoding) -> Vec<position::Range> {
    let positions = Positions::new(text, encoding);
    let range = |finding: &Problem| {
        let bytes = visible(text, finding.range);
        position::Range { start: positions.position(bytes.start), end: positions.position(bytes.end) }
    };
    findings.iter().map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn underlined<'t>(text: &'t str, problem: &Problem) -> &'t str {
        &text[visible(text, problem.range)]
    }

    #[test]
    fn a_problem_behind_the_text_is_shown_at_its_end() {
        let at = |text, line, column| {
            let problem = Problem::error_at(text, Some(Position { line, column }), "");
            underlined(text, &problem).to_owned()
        };
        let text = "a: 1\n  foo: 1\n";
        assert_eq!(at(text, 2, 9), "foo: 1");
        assert_eq!(at(text, 99, 1), "foo: 1");
        assert_eq!(at(text, 2, 3), "foo");
        assert_eq!(at("", 1, 1), "");
    }

    #[test]
    fn columns_are_those_of_the_client() {
        let text = "🦀a: bad";
        let finding = Problem::error_at(text, Some(Position { line: 1, column: 5 }), "");
        let columns = |encoding| ranges(text, std::slice::from_ref(&finding), encoding)[0].start.character;
        assert_eq!([Encoding::Utf8, Encoding::Utf16, Encoding::Utf32].map(columns), [7, 5, 4]);
    }

    #[test]
    fn a_suggestion_is_quoted_like_the_text_that_it_replaces() {
        for (text, expected) in [("oen: 1", "one"), ("'oen': 1", "'one'"), ("{\"oen\": 1}", "\"one\"")] {
            let column = if text.starts_with('{') { 2 } else { 1 };
            let problem = Problem::error_at(text, Some(Position { line: 1, column }), "");
            assert_eq!(replacement(text, &problem), None);
            let problem = problem.with_suggestion(Some("one"));
            assert_eq!(replacement(text, &problem).as_deref(), Some(expected));
        }
    }

    #[test]
    fn front_matter_of_rules_is_pointed_out() {
        let text = "---\nglobs: x\n---\nBe kind.\n";
        let findings = rules(text);
        assert_eq!(underlined(text, &findings[0]), "---\nglobs: x\n---");
        assert_eq!(findings[0].severity, Severity::Information);
        assert_eq!(rules("Be kind.\n---\n"), []);
        assert_eq!(rules("---\nBe kind.\n"), []);
    }

    #[test]
    fn patterns_and_settings_are_checked() {
        let text = "ok\na{b\n";
        let findings = patterns(text, "it is hidden");
        assert_eq!((findings.len(), underlined(text, &findings[0])), (1, "a{b"));
        let text = "limits:\n  requests: many\n";
        let findings = settings(Path::new("/c"), text);
        assert_eq!(underlined(text, &findings[0]), "many");
        let text = "mode: code\nlimts: {}\n";
        let findings = settings(Path::new("/c"), text);
        assert_eq!(underlined(text, &findings[0]), "limts");
    }

    #[test]
    fn intents_are_checked() {
        let text = "active_intents:\n  - id: a\n    name: A\n    status: FINE\n    owned_scope: [/etc]\n";
        let findings = intents(text);
        let shown: Vec<&str> = findings.iter().map(|found| underlined(text, found)).collect();
        assert_eq!(shown, ["FINE", "/etc"]);
        assert!(intents("active_intents: [")[0].message.contains("nothing may be changed"));
        assert_eq!(intents("active_intents: []\n"), []);
    }

    proptest::proptest! {
        #[test]
        fn any_position_is_visible(text in "[a\"'\\[\\]{}:#\\- \\n\\r\u{feff}ä🦀\u{2028}]{0,30}", line in 0usize..8, column in 0usize..40) {
            let range = TextRange::at(&text, Position { line, column });
            proptest::prop_assert!(text.get(visible(&text, Some(range))).is_some());
        }
    }
}

//! Diagnostics of a text, with exact positions. Pure, but for the modes that other files bring.

use std::ops::Range;
use std::path::Path;

use tower_lsp::ls_types::DiagnosticSeverity;

use super::super::configuration::Configured;
use super::kind::{ConfigFile, ConfigFileKind};
use roo_engine::customization::{
    Customization, Problem, problems_of_command, problems_of_hooks, problems_of_mcp, problems_of_rules,
    problems_of_skill,
};
use roo_formats::config::Position;
use roo_formats::front_matter;
use roo_formats::intents::{IntentFile, IntentProblem};
use roo_formats::modes::{FILE_LIMIT, Severity};
use roo_text::lines::BOM;
use roo_text::position::{self, Encoding, Positions};
use roo_workspace::ignore_problems;

/// The most patterns of a `.rooignore` that are told one by one.
const PATTERNS: usize = 20;

/// Something wrong in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileDiagnostic {
    /// None where the whole file is meant.
    pub(super) position: Option<Position>,
    pub(super) severity: DiagnosticSeverity,
    pub(super) message: String,
}

impl From<Problem> for FileDiagnostic {
    fn from(problem: Problem) -> Self {
        let severity = match problem.severity {
            Severity::Error => DiagnosticSeverity::ERROR,
            Severity::Warning => DiagnosticSeverity::WARNING,
        };
        Self { position: problem.position, severity, message: problem.message }
    }
}

/// Checks a file that holds this text. May read other files.
pub(super) fn check(file: &ConfigFile, text: &str, customization: &Customization) -> Vec<FileDiagnostic> {
    let found = |problems: Vec<Problem>| problems.into_iter().map(FileDiagnostic::from).collect();
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
fn intents(text: &str) -> Vec<FileDiagnostic> {
    let problems = match IntentFile::parse(text) {
        Ok(file) => file.problems,
        Err(problem) => {
            let message =
                format!("{problem}. Until this is fixed, nothing may be changed in this workspace.");
            vec![IntentProblem { message, ..problem }]
        }
    };
    let finding = |problem: IntentProblem| FileDiagnostic {
        position: problem.position,
        severity: match problem.severity {
            Severity::Error => DiagnosticSeverity::ERROR,
            Severity::Warning => DiagnosticSeverity::WARNING,
        },
        message: problem.message,
    };
    problems.into_iter().map(finding).collect()
}

/// Rules have no front matter: whoever writes one expects it to count.
fn rules(text: &str) -> Vec<FileDiagnostic> {
    if front_matter::region(text).is_none() || front_matter::is_open(text) {
        return vec![];
    }
    let message = "rules have no front matter: this is read as part of the text".to_owned();
    vec![FileDiagnostic {
        position: Some(Position { line: 1, column: 1 }),
        severity: DiagnosticSeverity::INFORMATION,
        message,
    }]
}

/// Checks a list of patterns; `consequence` says what follows from a problem.
fn patterns(text: &str, consequence: &str) -> Vec<FileDiagnostic> {
    if text.len() > FILE_LIMIT {
        let message = format!("the file has more than 1 MiB, so {consequence}");
        return vec![FileDiagnostic { position: None, severity: DiagnosticSeverity::ERROR, message }];
    }
    let problem = |(line, reason): (usize, String)| FileDiagnostic {
        position: Some(Position { line, column: 1 }),
        severity: DiagnosticSeverity::ERROR,
        message: format!("this pattern is invalid, so {consequence}: {reason}"),
    };
    ignore_problems(text).into_iter().take(PATTERNS).map(problem).collect()
}

fn settings(path: &Path, text: &str) -> Vec<FileDiagnostic> {
    of_settings(&Configured::of_text(path, text))
}

/// Checks the settings file.
pub(super) fn of_settings(configured: &Configured) -> Vec<FileDiagnostic> {
    configured
        .of_file()
        .map(|(problem, severity)| FileDiagnostic {
            position: problem.position,
            severity,
            message: match problem.path.as_str() {
                "" => problem.message.clone(),
                path => format!("{path}: {}", problem.message),
            },
        })
        .collect()
}

/// Returns the byte range of a position: the word, quoted text or bracket that begins there.
pub(super) fn extent(text: &str, place: Option<Position>) -> Range<usize> {
    let place = place.unwrap_or(Position { line: 1, column: 1 });
    let start = offset(text, place);
    let rest = text.get(start..).unwrap_or_default();
    let line = rest.split(['\n', '\r']).next().unwrap_or_default();
    let length = match line.chars().next() {
        Some(quote @ ('"' | '\'')) => closing(line, quote),
        Some('[' | '{') => brackets(line),
        Some('-') if line == "---" => rest.find("\n---").map(|close| close + 4),
        Some(_) => Some(plain(text.get(..start).unwrap_or_default(), line)),
        None => None,
    };
    let length = length.unwrap_or_else(|| line.trim_end().len());
    if length > 0 {
        return start..start + length;
    }
    // Nothing begins here: what stands before it on the line, or the end of what stands above.
    let before = text.get(..start).unwrap_or_default();
    let end = before.trim_end().len();
    let begin = before.get(..end).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1);
    let indented = text.get(begin..end).unwrap_or_default();
    begin + (indented.len() - indented.trim_start().len())..end
}

/// The byte offset of a place. Its lines end where YAML ends them, and a mark at the start is no column.
fn offset(text: &str, place: Position) -> usize {
    let begin = text.len() - text.strip_prefix(BOM).unwrap_or(text).len();
    let (mut line, mut column) = (1, 1);
    let mut chars = text.get(begin..).unwrap_or_default().char_indices().peekable();
    while let Some((index, c)) = chars.next() {
        let is_end = matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}');
        if line == place.line && (column >= place.column || is_end) {
            return begin + index;
        }
        if c == '\r' && chars.peek().is_some_and(|(_, next)| *next == '\n') {
            continue;
        }
        (line, column) = if is_end { (line + 1, 1) } else { (line, column + 1) };
    }
    text.len()
}

/// The length of what is between quotes on a line, with them.
fn closing(line: &str, quote: char) -> Option<usize> {
    let mut chars = line.char_indices().skip(1);
    while let Some((index, c)) = chars.next() {
        if c == '\\' && quote == '"' {
            chars.next();
        } else if c == quote {
            return Some(index + 1);
        }
    }
    None
}

/// The length of what is between brackets on a line, with them.
fn brackets(line: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (index, c) in line.char_indices() {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return Some(index + 1);
        }
    }
    None
}

/// The length of a plain key or value.
fn plain(before: &str, line: &str) -> usize {
    let above = before.rsplit('\n').next().unwrap_or_default();
    let flow = above.matches(['[', '{']).count() > above.matches([']', '}']).count();
    let is_end = |(index, c): &(usize, char)| {
        let behind = line.get(index + c.len_utf8()..).unwrap_or_default();
        match c {
            ',' | ']' | '}' => flow,
            ':' => behind.is_empty() || behind.starts_with(' '),
            '#' => line.get(..*index).is_some_and(|text| text.ends_with(' ')),
            _ => false,
        }
    };
    let length = line.char_indices().find(is_end).map_or(line.len(), |(index, _)| index);
    line.get(..length).unwrap_or_default().trim_end().len()
}

/// The ranges of findings, as the client counts.
pub(super) fn ranges(text: &str, findings: &[FileDiagnostic], encoding: Encoding) -> Vec<position::Range> {
    let positions = Positions::new(text, encoding);
    let range = |finding: &FileDiagnostic| {
        let extent = extent(text, finding.position);
        position::Range { start: positions.position(extent.start), end: positions.position(extent.end) }
    };
    findings.iter().map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text to underline.
    fn underlined(text: &str, line: usize, column: usize) -> &str {
        &text[extent(text, Some(Position { line, column }))]
    }

    #[test]
    fn the_thing_itself_is_underlined() {
        let text = "a: [read, reed, edit] # x\nb: some text # comment\nc: \"q, ] \\\" x\" y\nfoo: 1\n";
        assert_eq!(underlined(text, 1, 11), "reed");
        assert_eq!(underlined(text, 1, 4), "[read, reed, edit]");
        assert_eq!(underlined(text, 2, 4), "some text");
        assert_eq!(underlined(text, 3, 4), "\"q, ] \\\" x\"");
        assert_eq!(underlined(text, 4, 1), "foo");
        assert_eq!(underlined(text, 4, 9), "foo: 1");
        assert_eq!(underlined(text, 99, 1), "foo: 1");
        assert_eq!(underlined("", 1, 1), "");
    }

    #[test]
    fn lines_and_columns_are_those_of_the_parser() {
        assert_eq!(underlined("\u{feff}a: x\r\nb: ä🦀 y\r\n", 2, 4), "ä🦀 y");
        assert_eq!(underlined("\u{feff}foo: x", 1, 1), "foo");
        let text = "a: x\u{2028}\nfoo: 1\n";
        assert_eq!(underlined(text, 3, 1), "foo");
        let finding = FileDiagnostic {
            position: Some(Position { line: 1, column: 5 }),
            severity: DiagnosticSeverity::ERROR,
            message: String::new(),
        };
        let columns =
            |encoding| ranges("🦀a: bad", std::slice::from_ref(&finding), encoding)[0].start.character;
        assert_eq!([Encoding::Utf8, Encoding::Utf16, Encoding::Utf32].map(columns), [7, 5, 4]);
    }

    #[test]
    fn front_matter_of_rules_is_pointed_out() {
        let text = "---\nglobs: x\n---\nBe kind.\n";
        let findings = rules(text);
        assert_eq!(&text[extent(text, findings[0].position)], "---\nglobs: x\n---");
        assert_eq!(findings[0].severity, DiagnosticSeverity::INFORMATION);
        assert_eq!(rules("Be kind.\n---\n"), []);
        assert_eq!(rules("---\nBe kind.\n"), []);
    }

    #[test]
    fn a_place_in_deep_brackets_is_found_quickly() {
        let before = std::time::Instant::now();
        let text = format!("customModes: {}", "[".repeat(1_000_000));
        assert_eq!(extent(&text, Some(Position { line: 1, column: 14 + 128 })).end, text.len());
        assert!(before.elapsed().as_secs() < 20, "{:?}", before.elapsed());
    }

    #[test]
    fn patterns_and_settings_are_checked() {
        let text = "ok\na{b\n";
        let findings = patterns(text, "it is hidden");
        assert_eq!((findings.len(), &text[extent(text, findings[0].position)]), (1, "a{b"));
        let text = "limits:\n  requests: many\n";
        let findings = settings(Path::new("/c"), text);
        assert_eq!(&text[extent(text, findings[0].position)], "many");
        let text = "mode: code\nlimts: {}\n";
        let findings = settings(Path::new("/c"), text);
        assert_eq!(&text[extent(text, findings[0].position)], "limts");
    }

    #[test]
    fn intents_are_checked() {
        let text = "active_intents:\n  - id: a\n    name: A\n    status: FINE\n    owned_scope: [/etc]\n";
        let findings = intents(text);
        let shown: Vec<&str> = findings.iter().map(|found| &text[extent(text, found.position)]).collect();
        assert_eq!(shown, ["FINE", "/etc"]);
        assert!(intents("active_intents: [")[0].message.contains("nothing may be changed"));
        assert_eq!(intents("active_intents: []\n"), []);
    }

    proptest::proptest! {
        #[test]
        fn no_place_is_too_strange(text in "[a\"'\\[\\]{}:#\\- \\n\\r\u{feff}ä🦀\u{2028}]{0,30}", line in 0usize..8, column in 0usize..40) {
            let extent = extent(&text, Some(Position { line, column }));
            proptest::prop_assert!(text.get(extent).is_some());
        }
    }
}

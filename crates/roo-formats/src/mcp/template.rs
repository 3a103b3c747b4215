//! Strings of a configuration with references to variables: `${env:NAME}`, `${workspaceFolder}`.

use std::collections::BTreeSet;
use std::fmt;

/// A string as it is written, and the references in it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Text(String),
    /// `${env:NAME}`.
    Environment(String),
    /// `${workspaceFolder}`.
    Workspace,
}

/// Doubtful reference in a string.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateProblem {
    /// `${NAME}`, which other programs take for a variable.
    #[error("`${{{0}}}` is passed on unchanged; for the environment variable write `${{env:{0}}}`")]
    Bare(String),
    /// `${env:…}` with something else than a name.
    #[error("`${{env:{0}}}` names no environment variable: expected letters, digits and `_`")]
    Name(String),
    /// `${…}` of an unknown kind.
    #[error(
        "`${{{0}}}` is not a reference that roo-lsp fills in, so it is passed on unchanged; `${{env:NAME}}` and `${{workspaceFolder}}` are known"
    )]
    Unknown(String),
}

impl Template {
    /// Takes a string apart. What is no reference stays text.
    pub fn parse(text: &str) -> (Self, Vec<TemplateProblem>) {
        let mut parts = Vec::new();
        let mut problems = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let Some((reference, behind)) = after.split_once('}') else { break };
            plain.push_str(before);
            match Part::reference(reference) {
                Ok(part) => {
                    if !plain.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut plain)));
                    }
                    parts.push(part);
                }
                Err(problem) => {
                    problems.push(problem);
                    plain.push_str("${");
                    plain.push_str(reference);
                    plain.push('}');
                }
            }
            rest = behind;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        (Self { parts }, problems)
    }

    /// The environment variables that are referred to.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Environment(name) => Some(name.as_str()),
            Part::Text(_) | Part::Workspace => None,
        })
    }

    /// Reports whether there is nothing in it, whatever the variables hold.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Puts in what the references stand for. Names that `variable` has no value for are added to `missing`.
    pub(super) fn fill(
        &self,
        variable: impl Fn(&str) -> Option<String>,
        workspace: &str,
        missing: &mut BTreeSet<String>,
    ) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Workspace => text.push_str(workspace),
                Part::Environment(name) => match variable(name) {
                    Some(value) => text.push_str(&value),
                    None => {
                        missing.insert(name.clone());
                    }
                },
            }
        }
        text
    }
}

impl Part {
    fn reference(reference: &str) -> Result<Self, TemplateProblem> {
        let is_name = |name: &str| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        match reference.strip_prefix("env:") {
            Some(name) if is_name(name) => Ok(Self::Environment(name.to_owned())),
            Some(name) => Err(TemplateProblem::Name(name.to_owned())),
            None if reference == "workspaceFolder" => Ok(Self::Workspace),
            None if is_name(reference) => Err(TemplateProblem::Bare(reference.to_owned())),
            None => Err(TemplateProblem::Unknown(reference.to_owned())),
        }
    }
}

impl fmt::Display for Template {
    /// As it was written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| match part {
            Part::Text(text) => f.write_str(text),
            Part::Environment(name) => write!(f, "${{env:{name}}}"),
            Part::Workspace => f.write_str("${workspaceFolder}"),
        })
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A secret may be written out in it.
        let names: Vec<&str> = self.variables().collect();
        f.debug_struct("Template").field("variables", &names).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fill(text: &str) -> (String, Vec<String>) {
        let mut missing = BTreeSet::new();
        let known = |name: &str| (name == "HOME").then(|| "/home/\"a\\b\n".to_owned());
        let filled = Template::parse(text).0.fill(known, "/work", &mut missing);
        (filled, missing.into_iter().collect())
    }

    #[test]
    fn references_are_filled_in_and_missing_ones_named() {
        assert_eq!(fill("${env:HOME}:${workspaceFolder}/x").0, "/home/\"a\\b\n:/work/x");
        assert_eq!(fill("a${env:B}c${env:B}${env:A}").1, ["A", "B"]);
        // A value is not read again.
        assert_eq!(fill("$${env:HOME}").0, "$/home/\"a\\b\n");
    }

    #[test]
    fn other_references_stay_and_are_explained() {
        let problems = |text: &str| Template::parse(text).1;
        assert_eq!(problems("${API_KEY}"), [TemplateProblem::Bare("API_KEY".to_owned())]);
        assert_eq!(problems("${env:A-B}"), [TemplateProblem::Name("A-B".to_owned())]);
        assert_eq!(problems("${input:key}"), [TemplateProblem::Unknown("input:key".to_owned())]);
        assert_eq!(
            fill("${API_KEY} ${input:key} ${env:"),
            ("${API_KEY} ${input:key} ${env:".to_owned(), vec![])
        );
        assert_eq!(problems("$HOME ${"), []);
    }

    #[test]
    fn debug_output_has_no_text() {
        let template = Template::parse("sk-123 ${env:KEY}").0;
        assert_eq!(format!("{template:?}"), "Template { variables: [\"KEY\"], .. }");
    }

    proptest! {
        #[test]
        fn display_gives_the_text_back(text in r"[a-z{}$:]{0,30}|(\$\{env:[A-C]\}|x|\$\{workspaceFolder\}){0,5}") {
            prop_assert_eq!(Template::parse(&text).0.to_string(), text);
        }
    }
}

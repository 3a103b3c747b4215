//! What may vary between two plays of a cassette, and is replaced by a placeholder such as `{{workspace}}`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use regex::{NoExpand, Regex};
use serde_json::Value;

use super::{Cassette, CassetteBlock, CassetteCall};
use roo_sandbox::exec::redaction::TextMask;

/// Lines of composed prompts that name the machine: the beginning of each, and what stands for the rest.
const MACHINE: [(&str, &str); 2] =
    [("- Operating system: ", "{{operatingSystem}}"), ("- Shell: ", "{{shell}}")];

/// A matcher that is no regular expression, or matches everywhere.
#[derive(Debug, thiserror::Error)]
#[error("the matcher '{name}' can't be used: {problem}")]
pub struct InvalidMatcher {
    name: String,
    problem: String,
}

/// Replaces in texts what may vary, and secrets by masks.
pub struct Placeholders {
    mask: TextMask,
    /// Paths of this machine.
    places: Vec<(Regex, &'static str)>,
    matchers: Vec<(Regex, String)>,
}

impl Placeholders {
    /// Placeholders for a workspace folder, a home directory, and what matches one of these regular expressions.
    ///
    /// # Errors
    /// The first matcher that can't be used.
    pub fn new(
        workspace: &Path,
        home: Option<&Path>,
        matchers: &BTreeMap<String, String>,
        mask: TextMask,
    ) -> Result<Self, InvalidMatcher> {
        // The workspace first: it may be below the home directory.
        let places = [(Some(workspace), "{{workspace}}"), (home, "{{home}}")];
        let places = places.into_iter().filter_map(|(path, name)| {
            let path = path.filter(|path| path.parent().is_some())?.to_str()?;
            // A name that only begins like it is another one.
            Some((Regex::new(&format!(r"{}\b", regex::escape(path))).ok()?, name))
        });
        let compiled = matchers.iter().map(|(name, pattern)| {
            let invalid = |problem: String| InvalidMatcher { name: name.clone(), problem };
            let regex = Regex::new(pattern).map_err(|error| invalid(error.to_string()))?;
            if regex.is_match("") {
                return Err(invalid("it matches the empty text".to_owned()));
            }
            Ok((regex, format!("{{{{{name}}}}}")))
        });
        Ok(Self { mask, places: places.collect(), matchers: compiled.collect::<Result<_, _>>()? })
    }

    /// Replaces in a whole cassette.
    pub fn replace_in(&self, cassette: &mut Cassette) {
        self.given(&mut cassette.request.prompt);
        for turn in cassette.tasks.iter_mut().flat_map(|task| &mut task.turns) {
            turn.messages.iter_mut().for_each(|text| self.expected(text));
            self.expected(&mut turn.looked_up.commands);
            self.expected(&mut turn.looked_up.text);
            for block in &mut turn.answer {
                match block {
                    CassetteBlock::Text(text) | CassetteBlock::Thinking(text) => self.given(text),
                    CassetteBlock::Call(call) => self.replace_in_call(call),
                }
            }
        }
        for prompt in cassette.prompts.values_mut() {
            self.expected(&mut prompt.system);
        }
    }

    fn replace_in_call(&self, call: &mut CassetteCall) {
        call.params.values_mut().for_each(|value| self.value(value));
        call.seen.iter_mut().for_each(|path| self.given(path));
        let refusal = call.refused.iter_mut().filter_map(|refusal| refusal.feedback.as_mut());
        call.problem.iter_mut().chain(&mut call.answered).chain(refusal).for_each(|text| self.given(text));
        call.result.iter_mut().for_each(|text| self.expected(text));
    }

    fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.given(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.value(value)),
            Value::Object(fields) => fields.values_mut().for_each(|value| self.value(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Replaces in what is given to the machine: only what would name the user's machine.
    fn given(&self, text: &mut String) {
        if let Some(masked) = self.mask.masked(text) {
            *text = masked;
        }
        for (place, placeholder) in &self.places {
            replace(text, place, placeholder);
        }
    }

    /// Replaces in what is compared.
    fn expected(&self, text: &mut String) {
        self.given(text);
        if MACHINE.iter().any(|(line, _)| text.contains(line)) {
            let ends_line = text.ends_with('\n');
            let lines: Vec<Cow<'_, str>> = text.lines().map(without_machine).collect();
            let mut replaced = lines.join("\n");
            if ends_line {
                replaced.push('\n');
            }
            *text = replaced;
        }
        for (regex, placeholder) in &self.matchers {
            replace(text, regex, placeholder);
        }
    }
}

fn replace(text: &mut String, pattern: &Regex, placeholder: &str) {
    if let Cow::Owned(replaced) = pattern.replace_all(text, NoExpand(placeholder)) {
        *text = replaced;
    }
}

fn without_machine(line: &str) -> Cow<'_, str> {
    match MACHINE.iter().find(|(begin, _)| line.starts_with(begin)) {
        Some((begin, placeholder)) => Cow::Owned(format!("{begin}{placeholder}")),
        None => Cow::Borrowed(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roo_sandbox::exec::redaction::ExactValues;

    fn placeholders(matchers: &[(&str, &str)]) -> Result<Placeholders, InvalidMatcher> {
        let matchers = matchers.iter().map(|(name, pattern)| ((*name).to_owned(), (*pattern).to_owned()));
        let mask = TextMask::new(true, ExactValues::default);
        Placeholders::new(
            Path::new("/home/ada/work"),
            Some(Path::new("/home/ada")),
            &matchers.collect(),
            mask,
        )
    }

    #[test]
    fn a_text_names_no_machine_and_keeps_what_only_looks_like_one() {
        let mut text =
            "- Operating system: linux\n- Shell: /bin/bash\nIn /home/ada/work/a and /home/ada/works, not \
                        /home/adam. Use bash on linux."
                .to_owned();
        placeholders(&[]).unwrap().expected(&mut text);
        let expected = "- Operating system: {{operatingSystem}}\n- Shell: {{shell}}\nIn {{workspace}}/a and \
                        {{home}}/works, not /home/adam. Use bash on linux.";
        assert_eq!(text, expected);
        let before = text.clone();
        placeholders(&[]).unwrap().expected(&mut text);
        assert_eq!(text, before, "what is replaced stays");
    }

    #[test]
    fn a_matcher_that_can_match_nothing_is_refused() {
        let error = placeholders(&[("any", "x*")]).err().unwrap();
        assert_eq!(error.to_string(), "the matcher 'any' can't be used: it matches the empty text");
    }
}

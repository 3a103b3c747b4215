//! Calls in text of tools that don't exist. To the scanner they are text, like any tags that it doesn't know; an answer
//! without any other call is searched for them, so that the model learns what was wrong with it.

use super::lexer::{Lexer, Tag, Token};
use roo_catalog::{TOOLS, ToolName};

/// The name of the first tool that this text calls and that doesn't exist: a tag on a line of its own, outside of code
/// fences, with a tag directly in it, and closed.
pub fn unknown_call(text: &str) -> Option<String> {
    let mut search = Search { at_line_start: true, ..Search::default() };
    let mut lexer = Lexer::new();
    lexer.push(text, |token| match token {
        Token::Data(data) => search.data(data),
        Token::Tag(tag) => search.tag(tag),
    });
    search.found
}

#[derive(Default)]
struct Search {
    fenced: bool,
    at_line_start: bool,
    /// A tag that may open a call, with nothing but white space behind it.
    begun: Option<Begun>,
    /// The first call that is not closed.
    open: Option<Begun>,
    found: Option<String>,
}

struct Begun {
    tool: String,
    tag: String,
}

impl Search {
    fn data(&mut self, data: &str) {
        if !data.trim().is_empty() {
            self.begun = None;
        }
        let mut lines = data.split('\n');
        let first = lines.next().unwrap_or_default();
        self.line(first);
        for line in lines {
            self.at_line_start = true;
            self.line(line);
        }
    }

    fn line(&mut self, line: &str) {
        let text = line.trim_start();
        if self.at_line_start && (text.starts_with("```") || text.starts_with("~~~")) {
            self.fenced = !self.fenced;
        }
        self.at_line_start &= text.is_empty();
    }

    fn tag(&mut self, tag: Tag<'_>) {
        if self.found.is_some() {
            return;
        }
        if tag.closing {
            if self.open.as_ref().is_some_and(|open| open.tag == tag.name) {
                self.found = self.open.take().map(|open| open.tool);
            }
            self.begun = None;
        } else {
            if let Some(begun) = self.begun.take().filter(|begun| is_call(begun, tag)) {
                self.open.get_or_insert(begun);
            }
            self.begun = (self.at_line_start && !self.fenced).then(|| begun(tag)).flatten();
        }
        self.at_line_start &= matches!(tag.name, "tool_call" | "function_calls");
    }
}

fn begun(tag: Tag<'_>) -> Option<Begun> {
    let tool = match tag.name {
        "thinking" | "think" | "tool_call" | "function_calls" => return None,
        "invoke" | "function" => tag.attribute?,
        name => name,
    };
    ToolName::parse(tool).is_none().then(|| Begun { tool: tool.to_owned(), tag: tag.name.to_owned() })
}

/// Returns whether the tag is a parameter rather than, say, an element of a list.
fn is_call(begun: &Begun, parameter: Tag<'_>) -> bool {
    let is_known = |name| TOOLS.iter().any(|tool| tool.parameters.iter().any(|known| known.name == name));
    matches!(begun.tag.as_str(), "invoke" | "function")
        || begun.tool.contains('_')
        || is_known(parameter.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_of_a_tool_that_does_not_exist_is_found() {
        for (text, expected) in [
            ("So:\n<edit_lines>\n<target>a</target>\n</edit_lines>", Some("edit_lines")),
            ("<bash><command>ls > a</command></bash>\nThen <x>.", Some("bash")),
            ("<tool_call>\n<run_it>\n<x>1</x></run_it>\n</tool_call>", Some("run_it")),
            ("<tool_call><run_it><x>1</x></run_it></tool_call>", Some("run_it")),
            ("<invoke name=\"fly\">\n<parameter name=\"to\">b</parameter></invoke>", Some("fly")),
            ("<tool_call>\n<function=fly>\n<parameter=to>b</parameter></function></tool_call>", Some("fly")),
            ("```\nls\n```\n<edit_lines><path>a</path></edit_lines>", Some("edit_lines")),
            // Nothing of these is a call.
            ("All done!", None),
            ("Use <edit_lines><path>a</path></edit_lines>.", None),
            ("<ul>\n<li>a</li>\n</ul>", None),
            ("<edit_lines> is missing.", None),
            ("<edit_lines>\n<path>a</path>", None),
            ("```xml\n<edit_lines>\n<path>a</path>\n</edit_lines>\n```", None),
            ("<read_file>\n<path>a</path>\n</read_file>", None),
            ("<thinking><path>a</path></thinking>", None),
        ] {
            assert_eq!(unknown_call(text).as_deref(), expected, "{text}");
        }
    }
}

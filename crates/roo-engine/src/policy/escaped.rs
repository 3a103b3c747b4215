//! Calls of models that escape what they send as if it were HTML: `a &amp;&amp; b` for `a && b`.
//!
//! A command that only makes sense decoded is decoded. A text is never: whether a file is to hold `&lt;` or `<` is
//! for the user to say.

use std::collections::HashSet;

use super::decision::AskReason;
use super::rule::AskRule;
use roo_catalog::{ToolCall, ToolName};
use roo_shell::{Problem, Script};
use roo_text::{entities, render};

/// The longest line that is shown as an example, in characters.
const SHOWN: usize = 80;

/// Note for the model behind an edit that was asked about.
pub(super) const NOTICE: &str = "The new text holds HTML entities (amp, lt, gt or others), and they were written as they are. If \
                                 you meant the characters, change that.";

/// Endings of files in which no entity is meant: what compilers, interpreters and shells read.
const CODE: &str = "asm bash bat c cc clj cljs cpp cs css cu cxx d dart el erl ex exs f90 fish fs fsx glsl go gradle groovy h \
    hcl hh hlsl hpp hrl hs java jl js kt kts less lisp lua m mjs cjs ml mli mm mts nim nix pas php5 pl pm ps1 psm1 py pyi \
    r rb rs sass scala scm scss sh sol sql sv swift tcl tf ts cts v vb vhd vhdl vim wgsl zig zsh";

/// Files without such an ending that are code too.
const CODE_NAMES: &str =
    "cmakelists.txt containerfile dockerfile gemfile gnumakefile justfile makefile rakefile";

/// Decodes the command line of a call where it is none as it was sent, and is one when its HTML entities are
/// decoded. The call notes it.
pub fn decode_command(call: &mut ToolCall) {
    if !call.is_of(ToolName::ExecuteCommand) || call.problem.is_some() {
        return;
    }
    let line = call.params.get("command").and_then(|command| command.as_str());
    let Some(decoded) = line.and_then(decoded_line) else { return };
    call.params.insert("command".to_owned(), decoded.into());
    call.note = Some(
        "The command was sent HTML-escaped and is no command line so; its entities were decoded (`&amp;` to `&` and so \
         on). Send plain characters."
            .to_owned(),
    );
}

fn decoded_line(line: &str) -> Option<String> {
    let decoded = entities::decode(line)?;
    let is_line =
        |script: &Script| !script.problems.iter().any(|problem| matches!(problem, Problem::Error(_)));
    (!is_line(&roo_shell::read(line)) && is_line(&roo_shell::read(&decoded))).then_some(decoded)
}

/// Returns the reason why a write has to be asked about: its new lines look escaped, in a file of code that had no
/// entity.
pub(super) fn ask(path: &str, before: Option<&str>, after: &str) -> Option<AskReason> {
    if !is_code(path) || before.is_some_and(|before| entities::decode(before).is_some()) {
        return None;
    }
    let known: HashSet<&str> = before.map(|before| before.lines().collect()).unwrap_or_default();
    let new: Vec<&str> = after.lines().filter(|line| !known.contains(line)).collect();
    let example = new.iter().find(|line| entities::decode(line).is_some())?;
    entities::looks_escaped(&new.join("\n")).then(|| AskReason {
        rule: AskRule::Escaped,
        text: format!(
            "its text looks HTML-escaped, which code is not: `{}`. It would be written so",
            render::one_line(example.trim(), SHOWN)
        ),
    })
}

fn is_code(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    let lists = |list: &str, wanted: &str| list.split_ascii_whitespace().any(|listed| listed == wanted);
    lists(CODE_NAMES, &name) || name.rsplit_once('.').is_some_and(|(_, ending)| lists(CODE, ending))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use roo_protocol::ids::ToolCallId;

    fn command(line: &str) -> (String, bool) {
        let params = json!({ "command": line }).as_object().unwrap().clone();
        let id = ToolCallId::new("1");
        let mut call = ToolCall { id, name: "execute_command".into(), params, problem: None, note: None };
        decode_command(&mut call);
        (call.params["command"].as_str().unwrap().to_owned(), call.note.is_some())
    }

    #[test]
    fn a_line_is_decoded_where_only_that_is_a_command_line() {
        for (line, decoded) in [
            ("echo a &amp;&amp; echo b", "echo a && echo b"),
            ("test -f a &amp;&amp; cat &lt; a &gt; b", "test -f a && cat < a > b"),
            (
                "echo &quot;a b&quot; || { echo c &amp;&amp; echo d; }",
                "echo \"a b\" || { echo c && echo d; }",
            ),
        ] {
            assert_eq!(command(line), (decoded.to_owned(), true), "{line}");
        }
        for line in [
            "echo '&lt;p&gt;' && grep -c '&amp;' index.html",
            "echo \"a &amp;&amp; b\"",
            "echo a && echo b",
            "sleep 1 & echo b",
            "echo ( &amp; '",
        ] {
            assert_eq!(command(line), (line.to_owned(), false), "{line}");
        }
    }

    #[test]
    fn only_commands_are_decoded() {
        let params = json!({ "path": "a", "command": "a &amp;&amp; b" }).as_object().unwrap().clone();
        let id = ToolCallId::new("1");
        let call = ToolCall { id, name: "read_file".into(), params, problem: None, note: None };
        let mut same = call.clone();
        decode_command(&mut same);
        assert_eq!(same, call);
    }

    fn asked(path: &str, before: Option<&str>, after: &str) -> bool {
        ask(path, before, after).is_some()
    }

    #[test]
    fn code_that_looks_escaped_is_asked_about() {
        for path in ["src/a.rs", "a.PY", "deep/Makefile", "a.test.ts"] {
            assert!(asked(path, None, "if a &lt; b &amp;&amp; c {\n}\n"), "{path}");
            assert!(asked(path, Some("x\n"), "x\nif (a &gt; b)\n"), "{path}");
        }
        let reason = ask("a.rs", None, "fn a() {\n    a &lt; b\n}\n").unwrap();
        assert!(reason.text.contains("`a &lt; b`"), "{}", reason.text);
    }

    #[test]
    fn what_may_be_meant_so_is_not() {
        for path in ["index.html", "README.md", "a.svg", "App.tsx", "messages.json", "notes", "a.xml"] {
            assert!(!asked(path, None, "if a &lt; b &amp;&amp; c {\n}\n"), "{path}");
        }
        for (before, after) in [
            (None, "escape(\"&lt;\").replace('<', \"&lt;\")\n"),
            (None, "if a < b && c {}\n"),
            (Some("x = \"&amp;\"\n"), "x = \"&amp;\"\ny = \"&lt;\"\n"),
            (Some("a &lt; b\n"), "b\n"),
            (None, ""),
        ] {
            assert!(!asked("a.rs", before, after), "{after}");
        }
    }
}

//! The command for the system context, where a shell runs it: each of its parts by itself, and what the server can see
//! instead where one fails. Few machines have all of its programs.

use crate::project_info::{Limits, system_context};
use crate::tool_run::{Outcome, ToolContext};
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::Digest;

/// Adds what the server can see itself to the outcome of the [`script`] of a command, where a part of it failed.
pub(super) async fn complete(mut outcome: Outcome, command: &str, context: &ToolContext) -> Outcome {
    let Some(run) = &mut outcome.command else { return outcome };
    run.digest = Digest::of(command);
    if run.exit_code == Some(0) || outcome.status == ToolStatus::Interrupted {
        return outcome;
    }
    let gather = system_context(&context.workspace, Limits::default());
    if let Some(facts) = context.cancel.run_until_cancelled(gather).await {
        outcome.text.push_str(&format!(
            "\n\nNot all parts of the command worked. This is what the server found without running anything:\n\n{facts}"
        ));
    }
    outcome
}

/// A script that runs the parts of a command one after the other, whatever comes of each. It reports each part with its
/// exit code, and ends with that of the last part that failed.
pub(super) fn script(parts: &[String]) -> String {
    let mut script = String::new();
    for part in parts {
        // What can't be quoted holds a NUL, and no part of a command line does.
        let quoted = shlex::try_quote(part).unwrap_or_default();
        script.push_str(&format!(
            "printf '$ %s\\n' {quoted}\n{part}\n__status=$?\n[ \"$__status\" = 0 ] || {{ __failed=$__status; printf \
             '(exit code %s)\\n' \"$__status\"; }}\n"
        ));
    }
    script + "exit \"${__failed:-0}\"\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::execute_command::{self, Bounds};
    use crate::tools::fixture::Fixture;
    use roo_workspace::Purpose;

    async fn run_parts(fixture: &Fixture, parts: &[&str]) -> Outcome {
        let parts: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
        let command = parts.join(" && ");
        let directory = fixture.context.workspace.resolve(".", Purpose::Directory).unwrap();
        let run = execute_command::run(script(&parts), directory, None, Bounds::default(), &fixture.context);
        complete(run.await, &command, &fixture.context).await
    }

    #[tokio::test]
    async fn a_part_that_fails_takes_nothing_from_the_others() {
        let fixture = Fixture::new(&[("src/main.rs", "")]);
        let outcome =
            run_parts(&fixture, &["echo 'a b'", "no-such-program --gitignore", "false", "echo c"]).await;
        let text = &outcome.text;
        for expected in [
            "$ echo 'a b'\na b\n$ no-such-program --gitignore\n",
            "(exit code 127)\n$ false\n(exit code 1)\n$ echo c\nc\n",
            "This is what the server found",
            "└── src/\n    └── main.rs",
        ] {
            assert!(text.contains(expected), "{expected:?} in {text}");
        }
        let run = outcome.command.unwrap();
        assert_eq!(run.exit_code, Some(1));
        assert_eq!(run.digest, Digest::of("echo 'a b' && no-such-program --gitignore && false && echo c"));
    }

    #[tokio::test]
    async fn where_all_parts_work_nothing_is_added() {
        let fixture = Fixture::new(&[]);
        let outcome = run_parts(&fixture, &["echo a", "echo b"]).await;
        assert_eq!(outcome.command.unwrap().exit_code, Some(0));
        assert!(outcome.text.ends_with("$ echo a\na\n$ echo b\nb"), "{}", outcome.text);
    }
}

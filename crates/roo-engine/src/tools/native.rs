//! Commands that the server answers itself. Nothing is run.

use futures_util::future::BoxFuture;

use crate::policy::{Action, Native, Permitted};
use crate::project_info::{Limits, system_context};
use crate::tool_run::{Outcome, ToolContext};
use roo_protocol::event::ToolStatus;

impl Action for Native {
    fn run<'a>(self: Box<Self>, _: Permitted, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(run(*self, context))
    }
}

/// Answers a command.
async fn run(native: Native, context: &ToolContext) -> Outcome {
    match native {
        Native::SystemContext => {
            let gather = system_context(&context.workspace, Limits::default());
            match context.cancel.run_until_cancelled(gather).await {
                Some(text) => Outcome::new(ToolStatus::Ok, text, "system context"),
                None => Outcome::interrupted("Gathering the system context was cancelled."),
            }
        }
        Native::Urid(urid) => {
            let text = format!("{urid}\n\nThis request has its URID already; use this one.");
            Outcome::new(ToolStatus::Ok, text, format!("URID {urid}"))
        }
        Native::TaskDirectory(directory) => {
            let text = format!("`{directory}/` is ready: write_to_file can save files there.");
            Outcome::new(ToolStatus::Ok, text, format!("{directory} is ready"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::fixture::Fixture;
    use roo_protocol::ids::Urid;

    #[tokio::test]
    async fn a_command_is_answered_with_what_the_server_knows() {
        let fixture = Fixture::new(&[("src/main.rs", "")]);
        let text = run(Native::SystemContext, &fixture.context).await.text;
        assert!(text.contains("└── src/\n    └── main.rs"), "{text}");
        let urid = Urid::new("20260102-03-04-abcdef01");
        let text = run(Native::Urid(urid), &fixture.context).await.text;
        assert_eq!(text.lines().next(), Some("20260102-03-04-abcdef01"));
        let directory = ".roo/tasks/20260102-03-04-abcdef01".to_owned();
        assert_eq!(run(Native::TaskDirectory(directory), &fixture.context).await.status, ToolStatus::Ok);
    }

    #[tokio::test]
    async fn what_is_cancelled_is_interrupted() {
        let fixture = Fixture::new(&[]);
        fixture.context.cancel.cancel();
        assert_eq!(run(Native::SystemContext, &fixture.context).await.status, ToolStatus::Interrupted);
    }
}

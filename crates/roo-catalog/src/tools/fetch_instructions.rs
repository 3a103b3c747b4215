//! `fetch_instructions`: how to do what every agent may be asked for and no skill is needed for.

use super::prelude::*;

/// Fetches instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchInstructions {
    /// Task to be instructed for.
    pub task: InstructedTask,
}

/// Tasks for which there are instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstructedTask {
    /// `create_mcp_server`
    CreateMcpServer,
    /// `create_mode`
    CreateMode,
}

impl InstructedTask {
    const ALL: [Self; 2] = [Self::CreateMcpServer, Self::CreateMode];

    /// Its name for models.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CreateMcpServer => "create_mcp_server",
            Self::CreateMode => "create_mode",
        }
    }
}

impl Declaration for FetchInstructions {
    const SPEC: ToolSpec = ToolSpec {
        description: "Returns instructions for one of these tasks: `create_mcp_server`, to write a server that gives agents \
                      new tools, or `create_mode`, to write a custom mode. Fetch them before you begin such a task.",
        parameters: &[required("task", Kind::Text, "`create_mcp_server` or `create_mode`.")],
        example: "<fetch_instructions>\n<task>create_mode</task>\n</fetch_instructions>",
        mistake: "Another task: there are instructions for these two alone.",
        ..ToolSpec::new(ToolName::FetchInstructions, Group::Always, Effect::Read)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        let name = reader.text("task")?;
        let task = InstructedTask::ALL.into_iter().find(|task| task.as_str() == name);
        let known = || InstructedTask::ALL.map(InstructedTask::as_str).join(" and ");
        let task = task.ok_or_else(|| {
            reader.bad("task", format!("there are instructions for {} only, not for '{name}'", known()))
        })?;
        Ok(Self { task })
    }

    fn subject(&self) -> String {
        self.task.as_str().to_owned()
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({ "tool": "fetchInstructions", "content": self.task.as_str() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_task_is_refused_with_those_that_there_are() {
        let read = |task: &str| {
            let params = object(json!({ "task": task }));
            FetchInstructions::parse(&Reader { tool: ToolName::FetchInstructions, params: &params })
        };
        assert_eq!(read(" create_mode\n"), Ok(FetchInstructions { task: InstructedTask::CreateMode }));
        assert_eq!(
            read("release").unwrap_err().to_string(),
            "The parameter 'task' of fetch_instructions can't be used: there are instructions for create_mcp_server and \
             create_mode only, not for 'release'"
        );
    }
}

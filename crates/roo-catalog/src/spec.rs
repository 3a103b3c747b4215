//! The table of tools.

use std::fmt;

use serde_json::{Value, json};

/// A tool's name. Tools that don't exist yet have no name here: prompts can't promise them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ToolName {
    /// `read_file`
    ReadFile,
    /// `write_to_file`
    WriteToFile,
    /// `apply_diff`
    ApplyDiff,
    /// `search_and_replace`
    SearchAndReplace,
    /// `insert_content`
    InsertContent,
    /// `apply_patch`
    ApplyPatch,
    /// `list_files`
    ListFiles,
    /// `search_files`
    SearchFiles,
    /// `execute_command`
    ExecuteCommand,
    /// `read_command_output`
    ReadCommandOutput,
    /// `stop_command`
    StopCommand,
    /// `ask_followup_question`
    AskFollowupQuestion,
    /// `update_todo_list`
    UpdateTodoList,
    /// `switch_mode`
    SwitchMode,
    /// `skill`
    Skill,
    /// `select_active_intent`
    SelectActiveIntent,
    /// `request_scope_expansion`
    RequestScopeExpansion,
    /// `new_task`
    NewTask,
    /// `attempt_completion`
    AttemptCompletion,
    /// `complete_with_failure`
    CompleteWithFailure,
}

impl ToolName {
    /// The name on the wire and in prompts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadFile => "read_file",
            Self::WriteToFile => "write_to_file",
            Self::ApplyDiff => "apply_diff",
            Self::SearchAndReplace => "search_and_replace",
            Self::InsertContent => "insert_content",
            Self::ApplyPatch => "apply_patch",
            Self::ListFiles => "list_files",
            Self::SearchFiles => "search_files",
            Self::ExecuteCommand => "execute_command",
            Self::ReadCommandOutput => "read_command_output",
            Self::StopCommand => "stop_command",
            Self::AskFollowupQuestion => "ask_followup_question",
            Self::UpdateTodoList => "update_todo_list",
            Self::SwitchMode => "switch_mode",
            Self::Skill => "skill",
            Self::SelectActiveIntent => "select_active_intent",
            Self::RequestScopeExpansion => "request_scope_expansion",
            Self::NewTask => "new_task",
            Self::AttemptCompletion => "attempt_completion",
            Self::CompleteWithFailure => "complete_with_failure",
        }
    }

    /// The tool of this name, or of a name that Roo used for it.
    pub fn parse(name: &str) -> Option<Self> {
        let name = match name {
            "write_file" => "write_to_file",
            "edit" | "search_replace" => "search_and_replace",
            "fetch_instructions" => "skill",
            other => other,
        };
        TOOLS.iter().map(|spec| spec.name).find(|tool| tool.as_str() == name)
    }

    /// Whether a task may always call it before it has bound an intent: without these it could neither bind one,
    /// ask which one, nor end.
    pub fn precedes_intent(self) -> bool {
        matches!(
            self,
            Self::SelectActiveIntent
                | Self::AskFollowupQuestion
                | Self::AttemptCompletion
                | Self::CompleteWithFailure
        )
    }

    /// Its entry in the table.
    pub fn spec(self) -> &'static ToolSpec {
        // The table is in the order of the enum; a test holds that.
        &TOOLS[self as usize]
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Roo's tool groups, by which modes get their tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// Looks at the workspace.
    Read,
    /// Changes files.
    Edit,
    /// Runs commands.
    Command,
    /// Steers a browser. No tool yet.
    Browser,
    /// Calls MCP servers. No tool yet.
    Mcp,
    /// In modes that may delegate.
    Delegation,
    /// In every mode.
    Always,
    /// In every mode, where the workspace has intents.
    Intents,
}

/// What a tool can do to the world: the class by which policy judges it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Looks only. Runs again after a kill.
    Read,
    /// Changes files. Settled after a kill by comparing digests.
    Write,
    /// Runs a process. Never run again by the server.
    Execute,
    /// Binds or widens an intent, by the server's own hand. Runs again after a kill.
    Intent,
    /// Steers the conversation: a transition of the task, never run as a tool.
    Control,
}

/// What a parameter holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text, kept as it is but for one newline at each end.
    Verbatim,
    /// Text without surrounding white space.
    Text,
    /// A whole number.
    Integer,
    /// `true` or `false`.
    Boolean,
    /// The files of `read_file`, with line ranges.
    Files,
    /// The suggestions of `ask_followup_question`.
    Suggestions,
}

/// One parameter of a tool.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name, as a tag or a JSON key.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether a call without it is refused.
    pub required: bool,
    /// For the model.
    pub description: &'static str,
}

/// One tool.
#[derive(Debug)]
pub struct ToolSpec {
    /// Its name.
    pub name: ToolName,
    /// The group that brings it into a mode.
    pub group: Group,
    /// What it can do to the world.
    pub effect: Effect,
    /// For the model: what it does and when to use it.
    pub description: &'static str,
    /// Its parameters. In the XML protocol they are tags.
    pub parameters: &'static [Parameter],
    /// Further parameter tags that old prompts and models use; accepted, never shown.
    pub legacy_parameters: &'static [&'static str],
    /// A correct call in the XML protocol.
    pub example: &'static str,
    /// A common wrong call and what is wrong with it.
    pub mistake: &'static str,
}

impl ToolSpec {
    /// Whether only those models have it whose profile includes it.
    pub fn is_opt_in(&self) -> bool {
        self.name == ToolName::ApplyPatch
    }
}

const fn required(name: &'static str, kind: Kind, description: &'static str) -> Parameter {
    Parameter { name, kind, required: true, description }
}

const fn optional(name: &'static str, kind: Kind, description: &'static str) -> Parameter {
    Parameter { name, kind, required: false, description }
}

/// All tools, in the order of [`ToolName`].
pub const TOOLS: &[ToolSpec] = &[
    ToolSpec {
        name: ToolName::ReadFile,
        group: Group::Read,
        effect: Effect::Read,
        description: "Reads one or more text files and returns their lines, numbered. Unsaved text of open \
                      editors is what you get. Read every file you need in one call; give line ranges for \
                      large files. At most 2000 lines come back per range, and the result says how to go on.",
        parameters: &[required(
            "args",
            Kind::Files,
            "The files: each `<file>` holds one `<path>` and any number of `<line_range>start-end</line_range>` \
             (1-based, both ends included).",
        )],
        legacy_parameters: &["path", "start_line", "end_line", "offset", "limit", "files", "mode"],
        example: "<read_file>\n<args>\n<file>\n<path>src/main.rs</path>\n</file>\n<file>\n<path>src/lib.rs</path>\n\
                  <line_range>1-80</line_range>\n</file>\n</args>\n</read_file>",
        mistake: "A directory as path: use list_files to see what a directory holds.",
    },
    ToolSpec {
        name: ToolName::WriteToFile,
        group: Group::Edit,
        effect: Effect::Write,
        description: "Writes a whole file: creates it, with the directories it needs, or replaces all of its \
                      text. An existing file must have been read before.",
        parameters: &[
            required("path", Kind::Text, "The file, relative to the workspace."),
            required(
                "content",
                Kind::Verbatim,
                "The complete text of the file. Nothing may be left out or abbreviated.",
            ),
        ],
        legacy_parameters: &["line_count"],
        example: "<write_to_file>\n<path>src/greeting.txt</path>\n<content>\nHello.\nGood morning.\n</content>\n</write_to_file>",
        mistake: "Content with a placeholder such as \"rest of the file unchanged\": the file would hold just that.",
    },
    ToolSpec {
        name: ToolName::ApplyDiff,
        group: Group::Edit,
        effect: Effect::Write,
        description: "Changes parts of a file by SEARCH/REPLACE blocks; use it rather than write_to_file unless \
                      most of the file changes. Each SEARCH part must be found in the file exactly once (or \
                      at its start line) and is replaced by the REPLACE part. Put all changes to one file \
                      into one call.",
        parameters: &[
            required("path", Kind::Text, "The file, relative to the workspace."),
            required(
                "diff",
                Kind::Verbatim,
                "One or more blocks: `<<<<<<< SEARCH`, optionally `:start_line:N`, `-------`, the old lines, \
                 `=======`, the new lines, `>>>>>>> REPLACE`. A line of the file that looks like one of these markers \
                 is written with a backslash before it.",
            ),
        ],
        legacy_parameters: &["args"],
        example: "<apply_diff>\n<path>src/math.rs</path>\n<diff>\n<<<<<<< SEARCH\n:start_line:12\n-------\n    a - b\n=======\n    a + b\n\
                  >>>>>>> REPLACE\n</diff>\n</apply_diff>",
        mistake: "SEARCH lines written from memory: read the file first and copy its lines exactly.",
    },
    ToolSpec {
        name: ToolName::SearchAndReplace,
        group: Group::Edit,
        effect: Effect::Write,
        description: "Replaces every occurrence of a text, or of a regular expression, in one file, optionally \
                      within a range of lines.",
        parameters: &[
            required("path", Kind::Text, "The file, relative to the workspace."),
            required(
                "search",
                Kind::Verbatim,
                "The text to find, or the regular expression when use_regex is true.",
            ),
            required(
                "replace",
                Kind::Verbatim,
                "The text to put in its place. With use_regex, $1 or ${name} stand for groups.",
            ),
            optional("start_line", Kind::Integer, "First line to look at, 1-based."),
            optional("end_line", Kind::Integer, "Last line to look at, included."),
            optional(
                "use_regex",
                Kind::Boolean,
                "Whether search is a regular expression; false when left out.",
            ),
            optional(
                "ignore_case",
                Kind::Boolean,
                "Whether upper and lower case are the same; false when left out.",
            ),
        ],
        legacy_parameters: &["file_path", "old_string", "new_string", "replace_all"],
        example: "<search_and_replace>\n<path>src/config.rs</path>\n<search>old_name</search>\n<replace>new_name</replace>\n</search_and_replace>",
        mistake: "A regular expression without use_regex: it is then looked for as plain text.",
    },
    ToolSpec {
        name: ToolName::InsertContent,
        group: Group::Edit,
        effect: Effect::Write,
        description: "Inserts lines into a file without changing any that are there.",
        parameters: &[
            required("path", Kind::Text, "The file, relative to the workspace."),
            required(
                "line",
                Kind::Integer,
                "The lines go in before this 1-based line; 0 appends at the end.",
            ),
            required("content", Kind::Verbatim, "The lines to insert."),
        ],
        legacy_parameters: &[],
        example: "<insert_content>\n<path>src/main.rs</path>\n<line>1</line>\n<content>\nuse std::fmt;\n</content>\n</insert_content>",
        mistake: "To change existing lines: use apply_diff.",
    },
    ToolSpec {
        name: ToolName::ApplyPatch,
        group: Group::Edit,
        effect: Effect::Write,
        description: "Changes, creates, deletes and moves several files at once by one patch: all of it happens, \
                      or nothing. Each hunk must fit in exactly one place of its file. Use it for changes that \
                      belong together; read the files first.",
        parameters: &[required(
            "patch",
            Kind::Verbatim,
            "The patch. It begins with `*** Begin Patch` and ends with `*** End Patch`. Between them stands for \
             each file one header with its path, relative to the workspace: `*** Add File: <path>`, then its \
             lines, each after `+`; `*** Delete File: <path>`; or `*** Update File: <path>`, to move it followed \
             by `*** Move to: <path>`, then hunks. A hunk begins with `@@`, after which may stand a whole line \
             from above the place, such as the head of the function. Its lines begin with a blank (stays), `-` \
             (goes) or `+` (comes); show three lines around a change. `*** End of File` behind it says that it \
             is the file's end.",
        )],
        legacy_parameters: &["input"],
        example: "<apply_patch>\n<patch>\n*** Begin Patch\n*** Update File: src/page.rs\n@@ fn count(&self) -> usize {\n\
                  -    self.pages.len() - 1\n+    self.pages.len()\n }\n*** Update File: src/old.rs\n\
                  *** Move to: src/new.rs\n*** Add File: docs/pages.md\n+# Pages\n*** End Patch\n</patch>\n</apply_patch>",
        mistake: "A unified diff with `--- a/file` and `@@ -1,3 +1,4 @@`: files have the headers above, and places are \
                  found by their lines.",
    },
    ToolSpec {
        name: ToolName::ListFiles,
        group: Group::Read,
        effect: Effect::Read,
        description: "Lists the files and directories in a directory. Ignored files are left out.",
        parameters: &[
            required("path", Kind::Text, "The directory, relative to the workspace; `.` for its top."),
            optional("recursive", Kind::Boolean, "Whether to go into directories; false when left out."),
        ],
        legacy_parameters: &[],
        example: "<list_files>\n<path>src</path>\n<recursive>true</recursive>\n</list_files>",
        mistake: "Listing to check that a write worked: the write's own result says so.",
    },
    ToolSpec {
        name: ToolName::SearchFiles,
        group: Group::Read,
        effect: Effect::Read,
        description: "Searches the files below a directory for a regular expression (Rust syntax) and returns \
                      the matches with one line of context.",
        parameters: &[
            required("path", Kind::Text, "The directory, relative to the workspace."),
            required("regex", Kind::Text, "The regular expression."),
            optional("file_pattern", Kind::Text, "A glob that file names must match, such as `*.rs`."),
        ],
        legacy_parameters: &[],
        example: "<search_files>\n<path>src</path>\n<regex>fn \\w+_handler</regex>\n<file_pattern>*.rs</file_pattern>\n</search_files>",
        mistake: "A glob as regex: `*.rs` is a file_pattern.",
    },
    ToolSpec {
        name: ToolName::ExecuteCommand,
        group: Group::Command,
        effect: Effect::Execute,
        description: "Runs a command line with bash (or /bin/sh) in the workspace and returns its output and exit code. \
                      Standard input is closed. Every call is a fresh shell: a `cd` does not last. What it may not change is \
                      read-only, and the network is off unless you ask for it. A command that runs on for long goes \
                      to the background by itself: start servers and watchers without `&`.",
        parameters: &[
            required("command", Kind::Text, "The command line."),
            optional(
                "cwd",
                Kind::Text,
                "The directory to run in, relative to the workspace; its top when left out.",
            ),
            optional(
                "timeout",
                Kind::Integer,
                "Seconds to wait for its end; then it goes to the background and runs on. Give one to a build or a \
                 test run that takes longer than the user's setting, which counts when left out.",
            ),
            optional(
                "network",
                Kind::Boolean,
                "`true` when it must reach the network, which is off otherwise; the user is asked.",
            ),
        ],
        legacy_parameters: &[],
        example: "<execute_command>\n<command>cargo test --quiet</command>\n</execute_command>",
        mistake: "An interactive program: nothing can answer it.",
    },
    ToolSpec {
        name: ToolName::ReadCommandOutput,
        group: Group::Command,
        effect: Effect::Read,
        description: "Returns what a command in the background has printed since you last read it. You are told the \
                      end of a command without asking.",
        parameters: &[
            optional(
                "command_id",
                Kind::Text,
                "The command, such as `cmd-12`; all that run in the background are listed when left out.",
            ),
            optional(
                "timeout",
                Kind::Integer,
                "Seconds to wait for the command's end before its output is returned; 0 when left out.",
            ),
        ],
        legacy_parameters: &["artifact_id"],
        example: "<read_command_output>\n<command_id>cmd-12</command_id>\n<timeout>60</timeout>\n</read_command_output>",
        mistake: "Again and again without a timeout, to wait for the end of a build.",
    },
    ToolSpec {
        name: ToolName::StopCommand,
        group: Group::Command,
        effect: Effect::Read,
        description: "Ends a command in the background, with all its processes. Commands that still run when the task \
                      ends are ended with it.",
        parameters: &[required("command_id", Kind::Text, "The command, such as `cmd-12`.")],
        legacy_parameters: &["artifact_id"],
        example: "<stop_command>\n<command_id>cmd-12</command_id>\n</stop_command>",
        mistake: "`kill` or `pkill` in execute_command: each command sees its own processes alone.",
    },
    ToolSpec {
        name: ToolName::AskFollowupQuestion,
        group: Group::Always,
        effect: Effect::Control,
        description: "Asks the user a question and waits for the answer. The only way to ask: plain text waits \
                      for nobody. Use it only for what you can't find out yourself.",
        parameters: &[
            required("question", Kind::Text, "The question, clear and specific."),
            required(
                "follow_up",
                Kind::Suggestions,
                "Two to four suggested answers, each complete and usable as it is.",
            ),
        ],
        legacy_parameters: &[],
        example: "<ask_followup_question>\n<question>Which database should the tests use?</question>\n<follow_up>\n\
                  <suggest>SQLite in memory</suggest>\n<suggest>The local PostgreSQL</suggest>\n</follow_up>\n</ask_followup_question>",
        mistake: "Suggestions with gaps for the user to fill in.",
    },
    ToolSpec {
        name: ToolName::UpdateTodoList,
        group: Group::Always,
        effect: Effect::Control,
        description: "Replaces the to-do list that you and the user see. Use it for work of several steps, and \
                      keep it current.",
        parameters: &[required(
            "todos",
            Kind::Text,
            "The whole list, one entry a line: `[ ]` pending, `[-]` in progress, `[x]` completed.",
        )],
        legacy_parameters: &[],
        example: "<update_todo_list>\n<todos>\n[x] Find the failing test\n[-] Fix the cause\n[ ] Run all tests\n</todos>\n</update_todo_list>",
        mistake: "Only the changed entries: what is left out is gone.",
    },
    ToolSpec {
        name: ToolName::SwitchMode,
        group: Group::Always,
        effect: Effect::Control,
        description: "Goes on with this conversation in another mode, with the tools and rights of that mode. For \
                      work that belongs to the same conversation; the user may be asked.",
        parameters: &[
            required("mode_slug", Kind::Text, "The slug of the mode."),
            optional("reason", Kind::Text, "Why the other mode is needed, for the user."),
        ],
        legacy_parameters: &["mode"],
        example: "<switch_mode>\n<mode_slug>code</mode_slug>\n<reason>The design is agreed; the change can be made \
                  now.</reason>\n</switch_mode>",
        mistake: "Together with calls that need the new mode: its tools are there in your next answer.",
    },
    ToolSpec {
        name: ToolName::Skill,
        group: Group::Always,
        effect: Effect::Read,
        description: "Loads the instructions of one of the skills listed in your instructions. Load a skill before \
                      you do what it is for, and follow it.",
        parameters: &[
            required("name", Kind::Text, "The skill's name."),
            optional("args", Kind::Text, "What the skill is to be used on."),
        ],
        legacy_parameters: &["skill", "task"],
        example: "<skill>\n<name>release-notes</name>\n</skill>",
        mistake: "A name that is not in the list.",
    },
    ToolSpec {
        name: ToolName::SelectActiveIntent,
        group: Group::Intents,
        effect: Effect::Intent,
        description: "Binds this task to one of the workspace's intents, and returns its scope, constraints and \
                      acceptance criteria. Until you have done so, nothing can be changed or run here; after it, \
                      only what the scope covers.",
        parameters: &[required("intent_id", Kind::Text, "The intent's id.")],
        legacy_parameters: &[],
        example: "<select_active_intent>\n<intent_id>INT-001</intent_id>\n</select_active_intent>",
        mistake: "An id that you made up: cite one of those that you were told.",
    },
    ToolSpec {
        name: ToolName::RequestScopeExpansion,
        group: Group::Intents,
        effect: Effect::Intent,
        description: "Asks the user to let your intent cover more files. Only when the goal can't be reached within \
                      its scope; the user decides.",
        parameters: &[
            required(
                "patterns",
                Kind::Text,
                "The files that are needed besides, one glob a line, relative to the workspace.",
            ),
            required("reason", Kind::Text, "Why the goal can't be reached without them, for the user."),
        ],
        legacy_parameters: &[],
        example: "<request_scope_expansion>\n<patterns>tests/auth/**</patterns>\n<reason>The tests of the changed \
                  module are there.</reason>\n</request_scope_expansion>",
        mistake: "`**` because it is simpler: ask for what you need.",
    },
    ToolSpec {
        name: ToolName::NewTask,
        group: Group::Delegation,
        effect: Effect::Control,
        description: "Delegates a subtask to another mode and waits for its result. The subtask starts with nothing \
                      but your message: say all that it needs. Several calls at the end of one answer run at the \
                      same time; their results come back together, in the order of the calls.",
        parameters: &[
            required("mode", Kind::Text, "The slug of the mode that does the subtask."),
            required("message", Kind::Verbatim, "The brief, in the structure that your instructions show."),
            optional("todos", Kind::Text, "The subtask's first to-do list, one entry a line: `[ ] entry`."),
        ],
        legacy_parameters: &[],
        example: "<new_task>\n<mode>debug</mode>\n<message>\n🪲 Find why the login test fails\n\n\
                  URID: <the URID of your request>\n\nThe test login_rejects_old_token fails since the clock was made \
                  injectable. Find the cause and repair it.\n\nReturn the cause, the repair and the output of the \
                  test.\n</message>\n</new_task>",
        mistake: "\"Go on with what we discussed\": the subtask knows nothing of this conversation.",
    },
    ToolSpec {
        name: ToolName::AttemptCompletion,
        group: Group::Always,
        effect: Effect::Control,
        description: "Ends the task with its result. Only when every earlier call of it has succeeded and its \
                      effect is confirmed.",
        parameters: &[required(
            "result",
            Kind::Text,
            "What was achieved, final and without a question at the end.",
        )],
        legacy_parameters: &["command"],
        example: "<attempt_completion>\n<result>\nThe off-by-one in the page counter is fixed; all 14 tests pass.\n</result>\n</attempt_completion>",
        mistake: "Together with a call whose outcome is not known yet.",
    },
    ToolSpec {
        name: ToolName::CompleteWithFailure,
        group: Group::Always,
        effect: Effect::Control,
        description: "Ends the task without its goal, when it can't be reached or three attempts have failed.",
        parameters: &[required(
            "reason",
            Kind::Text,
            "What was tried, what stands in the way, and what is left as it was.",
        )],
        legacy_parameters: &["result"],
        example: "<complete_with_failure>\n<reason>\nThe test needs a network service that is not reachable; nothing was changed.\n\
                  </reason>\n</complete_with_failure>",
        mistake: "After the first small error: try another way first.",
    },
];

/// The JSON Schema of a tool's parameters for native tool calling.
pub fn native_schema(spec: &ToolSpec) -> Value {
    let mut properties = serde_json::Map::new();
    let mut names = Vec::new();
    for parameter in spec.parameters {
        let (name, mut schema) = match parameter.kind {
            Kind::Verbatim | Kind::Text => (parameter.name, json!({ "type": "string" })),
            Kind::Integer => (parameter.name, json!({ "type": "integer" })),
            Kind::Boolean => (parameter.name, json!({ "type": "boolean" })),
            Kind::Files => (
                "files",
                json!({
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "properties": {
                            "path": { "type": "string", "description": "The file, relative to the workspace." },
                            "line_ranges": {
                                "type": "array",
                                "description": "Ranges of lines, 1-based, both ends included; the whole file when left out.",
                                "items": { "type": "array", "items": { "type": "integer" }, "minItems": 2, "maxItems": 2 },
                            },
                        },
                        "required": ["path"],
                        "additionalProperties": false,
                    },
                }),
            ),
            Kind::Suggestions => (
                parameter.name,
                json!({
                    "type": "array",
                    "minItems": 2,
                    "maxItems": 4,
                    "items": {
                        "type": "object",
                        "properties": { "text": { "type": "string" }, "mode": { "type": "string" } },
                        "required": ["text"],
                        "additionalProperties": false,
                    },
                }),
            ),
        };
        schema["description"] = match parameter.kind {
            // The XML wording speaks of tags.
            Kind::Files => "The files to read.".into(),
            _ => parameter.description.into(),
        };
        properties.insert(name.to_owned(), schema);
        if parameter.required {
            names.push(name);
        }
    }
    json!({ "type": "object", "properties": properties, "required": names, "additionalProperties": false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_names() {
        for (index, spec) in TOOLS.iter().enumerate() {
            assert_eq!(spec.name as usize, index, "{}", spec.name);
            assert_eq!(spec.name.spec().name, spec.name);
        }
    }

    #[test]
    fn every_native_schema_is_valid_and_closed() {
        for spec in TOOLS {
            let schema = native_schema(spec);
            jsonschema::meta::validate(&schema).unwrap();
            assert_eq!(schema["additionalProperties"], false, "{}", spec.name);
        }
    }

    #[test]
    fn names_that_roo_used_still_find_their_tool() {
        assert_eq!(ToolName::parse("write_file"), Some(ToolName::WriteToFile));
        assert_eq!(ToolName::parse("edit"), Some(ToolName::SearchAndReplace));
        assert_eq!(ToolName::parse("rm_rf"), None);
    }
}

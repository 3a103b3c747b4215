//! `skill`: the instructions of a skill.

use super::prelude::*;

/// Loads a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    pub name: String,
    /// Text that the skill is to be used on.
    pub arguments: Option<String>,
}

impl Declaration for Skill {
    const SPEC: ToolSpec = ToolSpec {
        description: "Loads the instructions of one of the skills listed in your instructions. Load a skill before \
                      you do what it is for, and follow it.",
        parameters: &[
            required("name", Kind::Text, "The skill's name."),
            optional("args", Kind::Text, "What the skill is to be used on."),
        ],
        legacy_parameters: &["skill", "task"],
        example: "<skill>\n<name>release-notes</name>\n</skill>",
        mistake: "A name that is not in the list.",
        needs: Needs::Skills,
        hook_names: &["Skill"],
        ..ToolSpec::new(ToolName::Skill, Group::Always, Effect::Read)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        let name = reader.first_text(&["name", "skill", "task"])?;
        Ok(Self { name, arguments: reader.optional_text("args")? })
    }

    fn subject(&self) -> String {
        self.name.clone()
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({ "tool": "skill", "skill": self.name, "args": self.arguments }))
    }

    fn hook_inputs(&self, _view: &HookView<'_>) -> Vec<HookInput> {
        let fields = match &self.arguments {
            Some(arguments) => json!({ "skill": self.name, "args": arguments }),
            None => json!({ "skill": self.name }),
        };
        vec![object(fields).into()]
    }

    fn take_back(&self, change: &Rewrite<'_>, params: &mut Object) -> Result<(), RewriteError> {
        // It may have come by an older name.
        for old in ["skill", "task"] {
            params.remove(old);
        }
        params.insert("name".to_owned(), change.text("skill")?.into());
        match change.after.get("args") {
            Some(_) => params.insert("args".to_owned(), change.text("args")?.into()),
            None => params.remove("args"),
        };
        Ok(())
    }
}

//! `switch_mode`: another mode for the same conversation.

use super::prelude::*;

/// Goes on in another mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchMode {
    /// The slug of the mode.
    pub mode: String,
    /// Reason, for the user.
    pub reason: Option<String>,
}

impl Declaration for SwitchMode {
    const SPEC: ToolSpec = ToolSpec {
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
        ..ToolSpec::new(ToolName::SwitchMode, Group::Always, Effect::Control)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        let mode = reader.first_text(&["mode_slug", "mode"])?;
        Ok(Self { mode, reason: reader.optional_text("reason")? })
    }

    fn subject(&self) -> String {
        self.mode.clone()
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({ "tool": "switchMode", "mode": self.mode, "reason": self.reason }))
    }
}

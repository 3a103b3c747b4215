//! The section about tools: how they are called and, where the provider doesn't tell it, which there are.

use super::system::SystemInput;
use crate::catalog::ToolSpec;
use crate::parser::ToolProtocol;

pub(super) fn tool_use(input: &SystemInput<'_>) -> String {
    let order = "\
- What you need to know and can ask for at once, ask for at once: several calls that only read may stand in \
one answer.
- A call that changes something, runs a command, asks or ends comes alone, and the next step waits for its \
result.
- Calls run in the order in which they stand. After one that is refused or fails, those that would change \
something are skipped.";
    match input.protocol {
        ToolProtocol::Native => format!(
            "## Tools\n\n\
             You act by calling the tools that come with this conversation; each call is answered by its \
             result.\n\n\
             - Call tools by function calls only, never by text.\n\
             {order}"
        ),
        ToolProtocol::Xml => {
            let tools: Vec<String> = input.tools.iter().map(|tool| description(tool.spec())).collect();
            format!(
                "## Tools\n\n\
                 You act by calling tools; each call is answered by its result in the next message. You write a \
                 call into your answer with tags: the tool's name outside, the names of its parameters \
                 inside.\n\n\
                 <tool_name>\n<first_parameter>value</first_parameter>\n<second_parameter>\nvalue of\nseveral \
                 lines\n</second_parameter>\n</tool_name>\n\n\
                 - Begin a call on a line of its own, outside of code blocks, and close every tag.\n\
                 - Write values as they are, without entities or CDATA. A line break after the opening tag and \
                 one before the closing tag don't count.\n\
                 {order}\n\n{}",
                tools.join("\n\n")
            )
        }
    }
}

/// A tool as the XML protocol shows it.
fn description(spec: &ToolSpec) -> String {
    let mut text = format!("### {}\n\n{}\n", spec.name, spec.description);
    for parameter in spec.parameters {
        let optional = if parameter.required { "" } else { " (optional)" };
        text.push_str(&format!("\n- {}{optional}: {}", parameter.name, parameter.description));
    }
    text.push_str(&format!("\n\nRight:\n{}\n\nWrong: {}", spec.example, spec.mistake));
    text
}

//! A prompt that the user has written in place of the composed one.

use std::borrow::Cow;

use super::sections;
use super::system_input::RuleText;
use roo_text::render::exact_line;

/// Values of an override's variables, and the text around it.
#[derive(Clone, Copy, Debug)]
pub struct OverrideInput<'a> {
    /// `{{workspace}}`: the absolute path of the first root.
    pub workspace: &'a str,
    /// `{{mode}}`: the mode's slug.
    pub mode: &'a str,
    /// `{{language}}`: the user's language, such as `en`.
    pub language: &'a str,
    /// `{{shell}}`
    pub shell: &'a str,
    /// `{{operatingSystem}}`
    pub operating_system: &'a str,
    /// The mode's role; it stands before the text.
    pub role: &'a str,
    /// Instructions of the mode's author; they follow the text.
    pub custom_instructions: Option<&'a str>,
    /// The rules of user and project; they stand last.
    pub rules: &'a [RuleText<'a>],
}

/// The prompt from the text of an override: the role, the text with its variables replaced, and the custom
/// instructions. Equal inputs give equal bytes.
pub fn override_prompt(text: &str, input: &OverrideInput<'_>) -> String {
    let parts = [
        Some(input.role.trim().to_owned()).filter(|role| !role.is_empty()),
        Some(with_variables(text.trim(), input).into_owned()),
        sections::custom_instructions(input.custom_instructions, input.rules),
    ];
    let mut prompt = parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n");
    prompt.push('\n');
    prompt
}

/// Replaces every variable, in one pass: what is put in is not looked at again.
fn with_variables<'t>(text: &'t str, input: &OverrideInput<'_>) -> Cow<'t, str> {
    let workspace = exact_line(input.workspace);
    let variables = [
        ("{{workspace}}", workspace.as_str()),
        ("{{mode}}", input.mode),
        ("{{language}}", input.language),
        ("{{shell}}", input.shell),
        ("{{operatingSystem}}", input.operating_system),
    ];
    let mut replaced = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("{{") {
        let (before, from) = rest.split_at(at);
        replaced.push_str(before);
        match variables.iter().find_map(|(name, value)| Some((from.strip_prefix(name)?, value))) {
            Some((behind, value)) => {
                replaced.push_str(value);
                rest = behind;
            }
            // One brace on, for `{{{mode}}`.
            None => {
                replaced.push('{');
                rest = from.get(1..).unwrap_or_default();
            }
        }
    }
    if rest.len() == text.len() {
        return Cow::Borrowed(text);
    }
    replaced.push_str(rest);
    Cow::Owned(replaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input<'a>() -> OverrideInput<'a> {
        OverrideInput {
            workspace: "/home/ada/{{mode}}",
            mode: "code",
            language: "en",
            shell: "/bin/sh",
            operating_system: "linux",
            role: "You are an engineer.\n",
            custom_instructions: Some("Use tabs."),
            rules: &[RuleText { heading: "Rules of the project", text: "No unsafe.\n" }],
        }
    }

    #[test]
    fn an_override_stands_between_role_and_custom_instructions() {
        insta::assert_snapshot!(override_prompt("\n# 💻 Code Mode\nWork in {{workspace}}.\n", &input()), @"
        You are an engineer.

        # 💻 Code Mode
        Work in /home/ada/{{mode}}.

        ## Custom instructions

        The user and the project ask you to follow these, as far as nothing above forbids it.

        Use tabs.

        ### Rules of the project

        No unsafe.
        ");
    }

    #[test]
    fn without_additions_only_the_text_is_left() {
        let bare = OverrideInput { role: " ", custom_instructions: Some("\n"), rules: &[], ..input() };
        assert_eq!(override_prompt("Text.", &bare), "Text.\n");
    }

    #[test]
    fn every_variable_is_replaced_once_and_nothing_else() {
        let check = |text: &str, expected: &str| assert_eq!(with_variables(text, &input()), expected);
        check("{{mode}}{{mode}} {{language}} {{shell}}", "codecode en /bin/sh");
        check("{{operatingSystem}}é", "linuxé");
        // What is put in is not looked at again.
        check("{{workspace}}", "/home/ada/{{mode}}");
        check("{{{mode}}} {{mode} {{Mode}} {{ mode }} {{", "{code} {{mode} {{Mode}} {{ mode }} {{");
        check("{{mo{{mode}}de}}", "{{mocodede}}");
    }

    proptest::proptest! {
        #[test]
        fn text_without_variables_stays_as_it_is(text in "[a-z{}é ]{0,40}") {
            let named = ["workspace", "mode", "language", "shell", "operatingSystem"];
            proptest::prop_assume!(!named.iter().any(|name| text.contains(name)));
            proptest::prop_assert_eq!(with_variables(&text, &input()), text.as_str());
        }
    }
}

//! The reference pages of the book are generated from the program's own definitions.
//! `UPDATE_DOCS=1 cargo test --test it documentation` rewrites them.

use std::fmt::Write as _;

use serde_json::{Map, Value};

#[track_caller]
fn assert_is(name: &str, wanted: &str) {
    let path = crate::support::package().join("docs/src/reference").join(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, wanted).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == wanted,
        "docs/src/reference/{name} does not match the program; run UPDATE_DOCS=1 cargo test --test it documentation"
    );
}

#[test]
fn the_command_line_has_its_reference() {
    let mut root = roo_lsp::cli::command();
    root.build();
    let mut page = String::from(
        "# Subcommands and options\n\nGenerated from the program's own definition. `roo-lsp <subcommand> --help` prints the same.\n",
    );
    describe_command(&root, "roo-lsp", 2, &mut page);
    assert_is("command-line.md", &page);
}

/// Writes a subcommand and those below it.
fn describe_command(command: &clap::Command, name: &str, depth: usize, page: &mut String) {
    let mut own = command.clone().term_width(100);
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let about = about.split("\n\n").map(sentence).collect::<Vec<_>>().join("\n\n");
    let usage = own.render_usage().to_string().replace("Usage: ", "");
    let usage = usage.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    write!(page, "\n{} `{name}`\n\n{}\n", "#".repeat(depth), about).unwrap();
    write!(page, "\n```text unchecked: generated\n{usage}\n```\n").unwrap();
    let arguments: Vec<_> =
        command.get_arguments().filter(|one| !one.is_hide_set() && is_own(one, depth)).collect();
    if !arguments.is_empty() {
        page.push_str("\n| argument | meaning |\n|---|---|\n");
    }
    for argument in arguments {
        writeln!(page, "| {} | {} |", shown(argument), cell(&meaning(argument))).unwrap();
    }
    if let Some(more) = command.get_after_help() {
        write!(page, "\n```text unchecked: generated\n{}\n```\n", more.to_string().trim_end()).unwrap();
    }
    for below in command.get_subcommands().filter(|one| !one.is_hide_set() && one.get_name() != "help") {
        describe_command(below, &format!("{name} {}", below.get_name()), (depth + 1).min(4), page);
    }
}

/// Whether an argument is described with this command: global ones stand with the program alone.
fn is_own(argument: &clap::Arg, depth: usize) -> bool {
    let is_common = argument.is_global_set() || matches!(argument.get_id().as_str(), "help" | "version");
    depth == 2 || !is_common
}

fn shown(argument: &clap::Arg) -> String {
    let values = argument.get_num_args().is_some_and(|number| number.takes_values());
    let value = argument.get_value_names().unwrap_or_default().iter().map(|name| format!("<{name}>"));
    let value = value.collect::<Vec<_>>().join(" ");
    let names = match (argument.get_short(), argument.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}"),
        (None, Some(long)) => format!("--{long}"),
        _ => return format!("`{value}`"),
    };
    if values { format!("`{names} {value}`") } else { format!("`{names}`") }
}

fn meaning(argument: &clap::Arg) -> String {
    let mut text = sentence(&argument.get_help().map(ToString::to_string).unwrap_or_default());
    let values = argument.get_possible_values();
    let is_flag = !argument.get_num_args().is_some_and(|number| number.takes_values());
    if !values.is_empty() && !is_flag && !argument.is_hide_possible_values_set() {
        let described = values.iter().map(|value| match value.get_help() {
            Some(help) => format!("`{}`: {}", value.get_name(), help.to_string().trim_end_matches('.')),
            None => format!("`{}`", value.get_name()),
        });
        write!(text, " Values: {}.", described.collect::<Vec<_>>().join("; ")).unwrap();
    }
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if !defaults.is_empty() && !is_flag {
        write!(text, " Default: `{}`.", defaults.join(" ")).unwrap();
    }
    text
}

#[test]
fn the_tools_have_their_reference() {
    use roo_catalog::{Group, TOOLS};

    let mut page = String::from(
        "# Tools\n\nGenerated from the catalog of tools. The descriptions are what a model reads. The groups of a mode decide \
         which tools it has;\nsee [Modes](../modes.md). `roo-lsp tool <name>` tries a call.\n",
    );
    let patching = serde_json::json!({ "provider": "openai", "model": "gpt-5" });
    let patching: roo_formats::config::Profile = serde_json::from_value(patching).unwrap();
    for (group, heading) in [
        (Group::Read, "Group `read`"),
        (Group::Edit, "Group `edit`"),
        (Group::Command, "Group `command`"),
        (Group::Browser, "Group `browser`"),
        (Group::Mcp, "Group `mcp`"),
        (Group::Delegation, "In modes that may delegate"),
        (Group::Intents, "In every mode, where the workspace declares intents"),
        (Group::Always, "In every mode"),
    ] {
        write!(page, "\n## {heading}\n").unwrap();
        for tool in TOOLS.iter().filter(|tool| tool.group == group) {
            write!(page, "\n### `{}`\n\n{}\n", tool.name.as_str(), sentence(tool.description)).unwrap();
            if tool.is_opt_in {
                let by_default = match patching.tools().has(tool.name) {
                    true => ", or by default if it is of the GPT-5 or Codex family",
                    false => "",
                };
                write!(page, "\nA model gets it only by `includedTools` of its profile{by_default}.\n")
                    .unwrap();
            }
            if !tool.parameters.is_empty() {
                page.push_str("\n| parameter | meaning |\n|---|---|\n");
            }
            for parameter in tool.parameters {
                let optional = if parameter.required { "" } else { ", optional" };
                let meaning = cell(&sentence(parameter.description));
                writeln!(page, "| `{}`{optional} | {meaning} |", parameter.name).unwrap();
            }
        }
    }
    let listed = TOOLS.iter().filter(|tool| page.contains(&format!("### `{}`", tool.name.as_str())));
    assert_eq!(listed.count(), TOOLS.len(), "a group of tools is missing");
    assert_is("tools.md", &page);
}

#[test]
fn the_events_of_hooks_have_their_reference() {
    use roo_engine::hooks::{Compared, EventName, Refusal};

    let mut page = String::from(
        "# Hook events\n\nGenerated from the program's list of events. How hooks are written is in [Hooks](../hooks.md).\n\n\
         | event | when, and what a hook may do | the matcher is compared with | exit code 2 |\n|---|---|---|---|\n",
    );
    for event in EventName::all() {
        let compared = match event.compared() {
            Compared::Tool => "the tool's name".to_owned(),
            Compared::Mode => "the branch's mode".to_owned(),
            Compared::Nothing => "nothing; every hook runs".to_owned(),
            Compared::Word(words) => {
                words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
            }
        };
        let refusal = match event.refusal() {
            Refusal::DenyCall => "the call is refused, and the model is told why",
            Refusal::TellModel => "the model is told; what happened stays",
            Refusal::DropPrompt => "the prompt is dropped, and you are told why",
            Refusal::GoOn => "the task goes on, and the model is told why",
            Refusal::EndTurn => "the model is not called again",
            Refusal::KeepConversation => "the conversation is not shortened",
            Refusal::TellUser => "you are warned",
            Refusal::Nothing => "no effect",
        };
        let about = cell(&sentence(event.about()));
        writeln!(page, "| `{}` | {about} | {compared} | {refusal} |", event.as_str()).unwrap();
    }
    assert_is("hook-events.md", &page);
}

#[test]
fn the_settings_have_their_reference() {
    let schema = roo_formats::config::settings_schema();
    let mut page = String::from(
        "# Settings\n\nGenerated from the JSON Schema of the settings, which `roo-lsp schema settings` prints. Where they are \
         written, and how the\nsources are combined, is in [Configuration](../configuration.md).\n",
    );
    for (name, heading) in [
        ("", "At the top"),
        ("Profile", "`profiles.<name>`"),
        ("CondenseOptions", "`profiles.<name>.condense`"),
        ("Price", "`profiles.<name>.pricePerMillion`"),
        ("Timeouts", "`profiles.<name>.timeouts`"),
        ("ModeSettings", "`modes.<slug>`"),
        ("AutoApprove", "`autoApprove`"),
        ("Execute", "`autoApprove.execute`"),
        ("IntentSettings", "`intents`"),
        ("DelegationSettings", "`delegation`"),
        ("Limits", "`limits`"),
        ("SandboxSettings", "`sandbox`"),
        ("BrowserSettings", "`browser`"),
        ("SystemContext", "`systemContext`"),
        ("IndexSettings", "`index`"),
        ("ImageGenerationSettings", "`imageGeneration`"),
        ("DaemonSettings", "`daemon`"),
    ] {
        let object = if name.is_empty() { &schema } else { &schema["$defs"][name] };
        write!(page, "\n## {heading}\n\n{}\n\n", text_of(object)).unwrap();
        fields(object, &schema, &mut page, &Target::Settings);
    }
    // Nothing that has keys of its own may be missing above.
    let objects =
        schema["$defs"].as_object().unwrap().iter().filter(|(_, one)| one["properties"].is_object());
    assert_eq!(objects.count(), 16, "a new object of settings needs a heading above");
    assert_is("settings.md", &page);
}

#[test]
fn the_protocol_has_its_reference() {
    let schema = roo_protocol::method::protocol_schema();
    let mut page = format!(
        "# Protocol\n\nGenerated from the protocol's JSON Schema, version {}, which `roo-lsp schema protocol` prints. What the \
         methods are for is in\n[Writing a client](../clients.md).\n\n## Methods\n",
        schema["protocolVersion"]
    );
    for (name, method) in schema["methods"].as_object().unwrap() {
        let direction = match method["direction"].as_str().unwrap() {
            "clientToServer" => "Request from the client.",
            "serverToClient" => "Request from the server.",
            "notification" => "Notification from the server.",
            "clientNotification" => "Notification from the client.",
            other => panic!("{other}"),
        };
        write!(page, "\n### `{name}`\n\n{direction} Parameters: {}.", kind(&method["params"], &schema))
            .unwrap();
        if let Some(result) = method.get("result") {
            write!(page, " Result: {}.", kind(result, &schema)).unwrap();
        }
        page.push('\n');
    }
    page.push_str("\n## Types\n");
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        write!(page, "\n### {name}\n\n{}\n", text_of(definition)).unwrap();
        describe_type(definition, &schema, &mut page);
    }
    assert_is("protocol.md", &page);
}

fn describe_type(definition: &Value, schema: &Value, page: &mut String) {
    if definition["properties"].is_object() {
        page.push('\n');
        fields(definition, schema, page, &Target::Protocol);
    } else if let Some(variants) = definition["oneOf"].as_array() {
        page.push('\n');
        for variant in variants {
            describe_variant(variant, schema, page);
        }
    } else if !definition.get("type").is_none_or(Value::is_null) {
        write!(page, "\nWritten as: {}.\n", kind(definition, schema)).unwrap();
    }
}

/// One of several forms: a name, or an object that is told apart by one of its fields.
fn describe_variant(variant: &Value, schema: &Value, page: &mut String) {
    if let Some(value) = variant.get("const") {
        writeln!(page, "- `{}`: {}", plain(value), text_of(variant)).unwrap();
        return;
    }
    if let Some(names) = variant["enum"].as_array() {
        let names = names.iter().map(|name| format!("`{}`", plain(name))).collect::<Vec<_>>().join(", ");
        writeln!(page, "- {names}: {}", text_of(variant)).unwrap();
        return;
    }
    let properties = variant["properties"].as_object().cloned().unwrap_or_default();
    let tags = properties.iter().filter_map(|(key, value)| Some((key, plain(value.get("const")?))));
    let tags = tags.map(|(key, value)| format!("`{key}: {value}`")).collect::<Vec<_>>().join(", ");
    let others: Map<String, Value> =
        properties.into_iter().filter(|(_, value)| value.get("const").is_none()).collect();
    writeln!(page, "- {tags}: {}", text_of(variant)).unwrap();
    let required = variant["required"].as_array().cloned().unwrap_or_default();
    for (key, value) in others {
        let optional = if required.iter().any(|name| name == &key) { "" } else { ", optional" };
        writeln!(page, "  - `{key}` ({}{optional}): {}", kind(&value, schema), text_of(&value)).unwrap();
    }
}

/// Which of the two pages a table is for.
enum Target {
    Settings,
    Protocol,
}

/// A table of an object's keys.
fn fields(object: &Value, schema: &Value, page: &mut String, target: &Target) {
    let properties = object["properties"].as_object().unwrap();
    if properties.is_empty() {
        page.push_str("It has no fields.\n");
        return;
    }
    let required = object["required"].as_array().cloned().unwrap_or_default();
    page.push_str(match target {
        Target::Settings => "| key | type | default | meaning |\n|---|---|---|---|\n",
        Target::Protocol => "| field | type | meaning |\n|---|---|---|\n",
    });
    for (key, value) in properties {
        let is_required = required.iter().any(|name| name == key);
        let kind = cell(&kind(value, schema));
        let mut meaning = text_of(value);
        match target {
            Target::Settings => {
                choices(value, schema, &mut meaning);
                let default = if is_required { "required".to_owned() } else { default(value) };
                writeln!(page, "| `{key}` | {kind} | {default} | {} |", cell(&meaning)).unwrap();
            }
            Target::Protocol => {
                let optional = if is_required { "" } else { ", optional" };
                writeln!(page, "| `{key}` | {kind}{optional} | {} |", cell(&meaning)).unwrap();
            }
        }
    }
}

/// Adds the values that a setting may have.
fn choices(value: &Value, schema: &Value, meaning: &mut String) {
    let of_items = value["items"]["$ref"].as_str();
    let either =
        value["anyOf"].as_array().and_then(|kinds| kinds.iter().find_map(|kind| kind["$ref"].as_str()));
    let Some(name) = value["$ref"].as_str().or(of_items).or(either) else { return };
    let variants =
        schema.pointer(name.trim_start_matches('#')).and_then(|definition| definition["oneOf"].as_array());
    for variant in variants.into_iter().flatten() {
        if let Some(value) = variant.get("const") {
            write!(meaning, "<br>`{}`: {}", plain(value), text_of(variant)).unwrap();
        }
    }
}

fn default(value: &Value) -> String {
    match value.get("default") {
        None | Some(Value::Null) => "none".to_owned(),
        Some(Value::Object(keys)) if keys.is_empty() => "none".to_owned(),
        Some(Value::Object(_)) => "see below".to_owned(),
        Some(Value::Array(items)) if items.is_empty() => "none".to_owned(),
        Some(value) => format!("`{}`", plain(value)),
    }
}

/// What a value is, for people. Types of the protocol are links.
fn kind(value: &Value, schema: &Value) -> String {
    if let Some(name) = value["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/")) {
        let definition = &schema["$defs"][name];
        return match schema.get("methods") {
            Some(_) => format!("[{name}](#{})", name.to_lowercase()),
            None if definition["oneOf"].is_array() => "choice".to_owned(),
            None if definition["properties"].is_object() => "object".to_owned(),
            None => kind(definition, schema),
        };
    }
    if let Some(kinds) = value["anyOf"].as_array() {
        let kinds = kinds.iter().filter(|kind| kind["type"] != "null").map(|one| kind(one, schema));
        return kinds.collect::<Vec<_>>().join(" or ");
    }
    let names = match &value["type"] {
        Value::String(name) => vec![name.clone()],
        Value::Array(names) => names.iter().map(plain).filter(|name| name != "null").collect(),
        _ => vec![],
    };
    let named = names.into_iter().map(|name| match name.as_str() {
        "array" => format!("list of {}", plural(&kind(&value["items"], schema))),
        "object" if value["additionalProperties"].is_object() => {
            format!("map to {}", kind(&value["additionalProperties"], schema))
        }
        _ => name,
    });
    let named = named.collect::<Vec<_>>().join(" or ");
    if named.is_empty() { "any JSON".to_owned() } else { named }
}

fn plural(kind: &str) -> String {
    match kind {
        "string" | "integer" | "number" | "object" => format!("{kind}s"),
        list if list.starts_with("list of ") => list.replacen("list", "lists", 1),
        other => other.to_owned(),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The description of a type or field.
fn text_of(value: &Value) -> String {
    sentence(value["description"].as_str().unwrap_or_default())
}

/// A text on one line that ends with a full stop, and in which `<name>` is no HTML.
fn sentence(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // What stands between backticks is code, where nothing has to be escaped.
    let escaped = text.split('`').enumerate().map(|(at, part)| match at % 2 {
        0 => part.replace('<', "&lt;"),
        _ => part.to_owned(),
    });
    let text = escaped.collect::<Vec<_>>().join("`");
    if text.is_empty() || text.ends_with(['.', '?', '!', ':']) { text } else { format!("{text}.") }
}

/// A text as one cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

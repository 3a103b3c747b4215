//! Exports as Roo Code writes them.

use insta::assert_debug_snapshot;

use super::*;

fn read(export: &Value) -> ExportedSettings {
    ExportedSettings::read(&export.to_string()).unwrap()
}

fn profiles(read: &ExportedSettings) -> Vec<Value> {
    let all = read.profiles.iter();
    all.map(|profile| {
        let fields: Map<String, Value> = profile.fields.iter().cloned().collect();
        json!({ profile.name.clone(): fields })
    })
    .collect()
}

#[test]
fn profiles_are_read_in_the_words_of_the_settings() {
    let read = read(&json!({"providerProfiles": {
        "currentApiConfigName": "work",
        "apiConfigs": {
            "work": {
                "id": "a1", "apiProvider": "anthropic", "apiModelId": "claude-sonnet-4-5", "apiKey": "sk-ant-secret",
                "rateLimitSeconds": 2, "modelTemperature": 0.5, "consecutiveMistakeLimit": 5, "todoListEnabled": true,
            },
            "deep": {
                "id": "a2", "apiProvider": "deepseek", "apiModelId": "deepseek-chat", "deepSeekApiKey": "sk-secret",
                "openRouterModelId": "left/over",
            },
            "local": {"id": "a3", "apiProvider": "ollama", "ollamaModelId": "qwen3:8b", "ollamaNumCtx": 32768},
            "thinks": {
                "apiProvider": "anthropic", "apiModelId": "claude-3-7-sonnet-20250219:thinking",
            },
            "gateway": {
                "apiProvider": "openai", "openAiBaseUrl": "https://gateway.example/v1", "openAiModelId": "m",
                "openAiHeaders": {"X-Team": "blue", "Authorization": "Bearer secret"},
                "openAiCustomModelInfo": {"contextWindow": 65536, "maxTokens": -1},
                "enableReasoningEffort": true, "reasoningEffort": "high", "modelMaxTokens": 8192,
            },
            "fresh": {"id": "a4"},
        },
        "modeApiConfigs": {"code": "a1", "architect": "a2", "debug": "gone"},
    }}));
    assert_debug_snapshot!((profiles(&read), read.current, read.settings, read.refused, read.left_out));
}

#[test]
fn modes_whose_profile_is_left_out_are_told() {
    let ollama = json!({"id": "a1", "apiProvider": "ollama", "ollamaModelId": "m"});
    let profiles = |in_use: &str| {
        json!({"providerProfiles": {
            "currentApiConfigName": in_use,
            "apiConfigs": {"local": ollama, "copilot": {"id": "a2", "apiProvider": "vscode-lm"}},
            "modeApiConfigs": {"code": "a1", "debug": "a2"},
        }})
    };
    let with_local = read(&profiles("local"));
    let told = "profile of mode `debug`: `copilot` is not imported, so the mode has the default profile";
    assert!(with_local.left_out.iter().any(|sentence| sentence == told), "{:?}", with_local.left_out);
    assert_eq!(with_local.settings, vec![]);
    // The one in use is told once.
    let with_copilot = read(&profiles("copilot"));
    assert_eq!(with_copilot.left_out.len(), 1, "{:?}", with_copilot.left_out);
    assert_eq!(with_copilot.settings, [ExportedSetting::new(&["modes", "code", "profile"], "local")]);
    let mut unusable = with_copilot;
    unusable.leave_out_profile("local", "its name is odd");
    assert_eq!((unusable.settings, unusable.profiles), (vec![], vec![]));
    assert!(unusable.left_out[1].starts_with("profile of mode `code`: `local`"), "{:?}", unusable.left_out);
    assert_eq!(unusable.refused, ["profile `local`: its name is odd"]);
}

#[test]
fn what_decides_whether_a_profile_works_is_carried_over_or_said() {
    let read = read(&json!({"providerProfiles": {"apiConfigs": {
        "azure": {
            "apiProvider": "openai", "openAiUseAzure": true, "openAiModelId": "d", "azureApiVersion": "2025-01-01",
            "openAiBaseUrl": "https://x.openai.azure.com/openai", "openAiStreamingEnabled": false,
            "openAiCustomModelInfo": {"inputPrice": 3, "outputPrice": 15.5, "cacheReadsPrice": 0.3, "cacheWritesPrice": 0},
        },
        "free": {
            "apiProvider": "openai", "openAiModelId": "m", "openAiBaseUrl": "https://a.example/v1",
            "openAiStreamingEnabled": true, "openAiCustomModelInfo": {"inputPrice": 0, "outputPrice": 0},
            "anthropicUseAuthToken": true,
        },
        "token": {
            "apiProvider": "anthropic", "apiModelId": "claude-sonnet-4-5", "anthropicUseAuthToken": true,
            "anthropicBaseUrl": "https://gateway.example", "openRouterSpecificProvider": "left/over",
        },
        "router": {
            "apiProvider": "openrouter", "openRouterModelId": "a/b", "openRouterSpecificProvider": "deepinfra",
        },
        "any": {"apiProvider": "openrouter", "openRouterModelId": "a/b", "openRouterSpecificProvider": "[default]"},
    }}}));
    let field = |name: &str, key: &str| {
        let profile = read.profiles.iter().find(|profile| profile.name == name).unwrap();
        profile.fields.iter().find(|(field, _)| field == key).map(|(_, value)| value.clone())
    };
    let azure = "https://x.openai.azure.com/openai/deployments/d?api-version=2025-01-01";
    assert_eq!(field("azure", "baseUrl"), Some(azure.into()));
    let prices = json!({"input": 3.0, "output": 15.5, "cacheRead": 0.3});
    assert_eq!((field("azure", "pricePerMillion"), field("free", "pricePerMillion")), (Some(prices), None));
    assert_eq!(read.refused, Vec::<String>::new());
    let begins = [
        ("azure", "`openAiStreamingEnabled`: it was off;"),
        ("token", "`anthropicUseAuthToken`: write your key"),
        ("router", "`openRouterSpecificProvider`: OpenRouter chooses"),
    ];
    let all = read.profiles.iter();
    let remarks = all.flat_map(|profile| profile.remarks.iter().map(|remark| (&*profile.name, remark)));
    let remarks: Vec<(&str, &String)> = remarks.collect();
    assert_eq!((remarks.len(), read.left_out), (begins.len(), vec![]), "{remarks:?}");
    for ((profile, remark), (name, begin)) in remarks.iter().zip(begins) {
        assert!(*profile == name && remark.starts_with(begin), "{profile}: {remark}");
    }
}

#[test]
fn profiles_that_can_not_be_used_are_said() {
    let read = read(&json!({"providerProfiles": {"currentApiConfigName": "aws", "apiConfigs": {
        "aws": {"apiProvider": "bedrock", "apiModelId": "x"},
        "odd": {"apiProvider": "openai", "openAiModelId": "x", "reasoningEffort": "sk-secret"},
        "new": {"apiProvider": "of-tomorrow"},
    }}}));
    assert_debug_snapshot!((read.profiles, read.current, read.refused, read.left_out));
}

#[test]
fn limits_and_refused_commands_are_settings_and_what_was_allowed_is_apart() {
    let read = read(&json!({"globalSettings": {
        "autoApprovalEnabled": true, "alwaysAllowReadOnly": true, "alwaysAllowWrite": true, "alwaysAllowMcp": false,
        "alwaysAllowExecute": true, "alwaysAllowSubtasks": false,
        "allowedCommands": ["npm test", "git  log", "*", "echo \"a b\"", "npm test"], "deniedCommands": ["git push"],
        "allowedMaxRequests": 500, "allowedMaxCost": 2.5, "commandExecutionTimeout": 0,
        "customInstructions": " Be brief.\n", "customModePrompts": {"code": {"roleDefinition": "You …"}, "ask": {}},
        "customModes": [{"slug": "docs", "source": "global"}, {"slug": "team", "source": "project"}],
    }}));
    assert_eq!(read.modes, [json!({"slug": "docs", "source": "global"})]);
    let left_out = (read.left_out, read.left_out_approvals);
    assert_debug_snapshot!((read.settings, read.approvals, read.custom_instructions, left_out));
}

fn global(settings: Value) -> ExportedSettings {
    read(&json!({ "globalSettings": settings }))
}

#[test]
fn everything_asks_where_approvals_were_off() {
    let off = global(json!({
        "autoApprovalEnabled": false, "alwaysAllowReadOnly": true, "alwaysAllowSubtasks": true, "alwaysAllowWrite": true,
        "alwaysAllowMcp": true, "alwaysAllowExecute": true, "allowedCommands": ["npm test"],
    }));
    let asks = |name: &str| ExportedSetting::new(&["autoApprove", name], false);
    let expected = ExportedSettings {
        settings: vec![asks("read"), asks("delegate")],
        asked_for_mcp: true,
        ..ExportedSettings::default()
    };
    assert_eq!(off, expected);
}

#[test]
fn a_switch_for_mcp_tools_allows_no_tool_by_itself() {
    let mcp = |settings: Value| {
        let read = global(settings);
        (read.asked_for_mcp, read.approvals, read.left_out)
    };
    let (asked, approvals, left_out) = mcp(json!({"autoApprovalEnabled": true, "alwaysAllowMcp": true}));
    assert!(!asked && approvals.is_empty(), "{approvals:?}");
    assert!(left_out[0].contains("`alwaysAllow` of their server names"), "{left_out:?}");
    for off in [
        json!({"autoApprovalEnabled": true, "alwaysAllowMcp": false}),
        json!({"autoApprovalEnabled": true}),
        json!({"autoApprovalEnabled": false, "alwaysAllowMcp": true}),
    ] {
        assert_eq!(mcp(off.clone()), (true, vec![], vec![]), "{off}");
    }
    assert!(!read(&json!({"providerProfiles": {}})).asked_for_mcp, "there are no settings that say so");
}

#[test]
fn denied_commands_count_where_roo_code_looked_at_them() {
    let denied = |enabled: bool, execute: bool| {
        global(json!({
            "autoApprovalEnabled": enabled, "alwaysAllowReadOnly": true, "alwaysAllowSubtasks": true,
            "alwaysAllowExecute": execute, "deniedCommands": ["git push "],
        }))
    };
    let deny = ExportedSetting::new(&["autoApprove", "execute", "deny"], json!([["git", "push"]]));
    assert!(denied(true, true).settings.contains(&deny));
    for (enabled, execute) in [(true, false), (false, true), (false, false)] {
        let read = denied(enabled, execute);
        assert!(!read.settings.contains(&deny), "{enabled} {execute}");
        assert!(read.left_out[0].starts_with("`deniedCommands`: they had no effect"), "{:?}", read.left_out);
    }
}

#[test]
fn changes_of_mode_go_with_subtasks() {
    let said = |switch: bool, subtasks: bool| {
        global(json!({
            "autoApprovalEnabled": true, "alwaysAllowModeSwitch": switch, "alwaysAllowSubtasks": subtasks,
        }))
        .left_out
    };
    for (switch, subtasks) in [(true, false), (false, true)] {
        assert!(said(switch, subtasks)[0].starts_with("`alwaysAllowModeSwitch`: "), "{switch} {subtasks}");
        assert_eq!(said(switch, switch), Vec::<String>::new());
    }
}

#[test]
fn a_budget_for_thinking_becomes_a_level() {
    let of = |config: Value| {
        let mut config = config;
        let model = json!({"apiProvider": "anthropic", "apiModelId": "claude-sonnet-4-5"});
        for (key, value) in model.as_object().unwrap() {
            config.as_object_mut().unwrap().entry(key).or_insert(value.clone());
        }
        let read = read(&json!({"providerProfiles": {"apiConfigs": {"a": config}}}));
        let fields = &read.profiles[0].fields;
        let level = fields.iter().find(|(key, _)| key == "reasoning").map(|(_, level)| level.clone());
        assert_eq!(read.left_out, Vec::<String>::new());
        (level, read.profiles[0].remarks.clone())
    };
    for (tokens, level) in [(1024, "low"), (2048, "low"), (2049, "medium"), (8192, "medium"), (8193, "high")]
    {
        let (found, said) = of(json!({"enableReasoningEffort": true, "modelMaxThinkingTokens": tokens}));
        assert_eq!(found, Some(level.into()), "{tokens}");
        let sentence = format!("its budget of {tokens} tokens for thinking became `reasoning: {level}`");
        assert_eq!(said, [sentence]);
    }
    let nothing_said = Vec::<String>::new();
    // A level is what was chosen last; a budget without the switch is a remnant.
    let chosen =
        json!({"enableReasoningEffort": true, "modelMaxThinkingTokens": 1024, "reasoningEffort": "xhigh"});
    assert_eq!(of(chosen), (Some("xhigh".into()), nothing_said.clone()));
    assert_eq!(of(json!({"modelMaxThinkingTokens": 1024})), (None, nothing_said.clone()));
    let off = json!({"enableReasoningEffort": false, "modelMaxThinkingTokens": 1024});
    assert_eq!(of(off), (None, nothing_said.clone()));
    let (level, said) = of(json!({"enableReasoningEffort": true}));
    assert!(level.is_none() && said[0].ends_with("; set `reasoning`"), "{said:?}");
    let by_name = json!({"enableReasoningEffort": true, "apiModelId": "claude-3-7-sonnet-20250219:thinking"});
    assert_eq!(of(by_name), (Some("high".into()), nothing_said));
}

#[test]
fn no_limit_of_mistakes_stays_none() {
    let limit = |mistakes: Value| {
        let work = json!({
            "apiProvider": "ollama", "ollamaModelId": "m", "consecutiveMistakeLimit": mistakes,
        });
        let profiles = json!({"currentApiConfigName": "work", "apiConfigs": {"work": work}});
        read(&json!({ "providerProfiles": profiles })).settings
    };
    for mistakes in [0, 7] {
        assert_eq!(limit(json!(mistakes)), [ExportedSetting::new(&["limits", "mistakes"], mistakes)]);
    }
    assert_eq!(limit(Value::Null), vec![]);
}

#[test]
fn thresholds_of_summaries_belong_to_profiles() {
    let of = |global: Value| {
        let read = read(&json!({
            "providerProfiles": {"apiConfigs": {"a": {"id": "1", "apiProvider": "ollama", "ollamaModelId": "m"}}},
            "globalSettings": global,
        }));
        let fields = &read.profiles[0].fields;
        fields.iter().find(|(key, _)| key == "condense").map(|(_, value)| value.clone())
    };
    let own =
        |threshold: i64| json!({"autoCondenseContextPercent": 80, "profileThresholds": {"1": threshold}});
    assert_eq!(of(json!({})), None);
    assert_eq!(of(json!({"autoCondenseContextPercent": 100})), None);
    assert_eq!(of(own(60)), Some(json!({"threshold": 60})));
    assert_eq!(of(own(-1)), Some(json!({"threshold": 80})));
    assert_eq!(of(json!({"autoCondenseContext": false})), Some("off".into()));
}

#[test]
fn errors_show_nothing_of_the_file() {
    let broken = ExportedSettings::read("{\n  \"apiKey\": \"sk-secret\",,\n}").unwrap_err();
    assert_eq!(broken.to_string(), "it is not valid JSON (line 2, column 25)");
    let other = ExportedSettings::read("{\"apiKey\": \"sk-secret\"}").unwrap_err();
    assert!(matches!(other, ExportError::Other) && !other.to_string().contains("secret"));
}

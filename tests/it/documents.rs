//! Files that are no plain text, read by the model through the real server: documents in a process of their own, and texts in
//! other encodings than UTF-8.

use std::fs;

use serde_json::json;

use crate::support::client::{Client, Home, Options};
use crate::support::{package, processes};

/// A workspace with the documents of the fixtures, and a model that plays this.
fn home(script: &str, protocol: &str) -> Home {
    let home = Home::playing(script);
    let profile = json!({
        "provider": "scripted", "script": home.path("script.yaml"), "toolProtocol": protocol,
    });
    let config = json!({
        "mode": "code", "profiles": { "default": profile }, "autoApprove": { "write": true },
    });
    fs::write(home.config_file(), config.to_string()).unwrap();
    for entry in fs::read_dir(package().join("tests/fixtures/documents")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), home.work(&entry.file_name().to_string_lossy())).unwrap();
    }
    home
}

/// The results of a task's calls, as the model gets them.
fn results(home: &Home) -> Vec<String> {
    let mut client = Client::start(home, Options::typed());
    let task = client.start_task("Read them.");
    let end = client.wait_for("the end", |message| {
        ["completed", "failed"].iter().any(|state| message["params"]["event"]["state"] == *state)
    });
    assert_eq!(end["params"]["event"]["state"], "completed", "{end}");
    assert_eq!(client.shut_down(), 0);
    let log = fs::read_to_string(home.log(&task)).unwrap();
    let left = processes::with(&home.path("work").display().to_string());
    assert!(left.is_empty(), "{left:?}");
    let results = log.lines().filter_map(|line| {
        let record: serde_json::Value = serde_json::from_str(line.get(..line.rfind('}')? + 1)?).ok()?;
        find(&record, "result").and_then(|result| result["text"].as_str()).map(str::to_owned)
    });
    results.filter(|text| text.starts_with("<files>")).collect()
}

/// The first value of this key, wherever it is.
fn find<'a>(value: &'a serde_json::Value, key: &str) -> Option<&'a serde_json::Value> {
    match value {
        serde_json::Value::Object(fields) => {
            fields.get(key).or_else(|| fields.values().find_map(|inner| find(inner, key)))
        }
        serde_json::Value::Array(items) => items.iter().find_map(|inner| find(inner, key)),
        _ => None,
    }
}

const DONE: &str = "    calls: [{ tool: attempt_completion, params: { result: Done. } }]\n";

#[test]
fn documents_are_read_as_their_text_in_both_protocols() {
    let native = "turns:\n  - calls: [{ tool: read_file, params: { files: [{ path: report.pdf }, { path: prices.xlsx }, \
                  { path: letter.docx, line_ranges: [[2, 2]] }] } }]\n  - when: { contains: Sales rose }\n";
    let xml = "turns:\n  - text: |\n      <read_file>\n      <args>\n      <file><path>report.pdf</path></file>\n      \
               <file><path>prices.xlsx</path></file>\n      <file><path>letter.docx</path><line_range>2-2</line_range></file>\n      \
               </args>\n      </read_file>\n  - when: { contains: Sales rose }\n";
    let mut all = vec![];
    for (script, protocol) in [(native, "native"), (xml, "xml")] {
        all.extend(results(&home(&(script.to_owned() + DONE), protocol)));
    }
    assert_eq!(all.len(), 2, "{all:?}");
    assert_eq!(all[0], all[1]);
    insta::assert_snapshot!(all[0]);
}

#[test]
fn a_document_that_would_take_all_memory_is_given_up_and_nothing_else() {
    let script = "turns:\n  - calls: [{ tool: read_file, params: { files: [{ path: far.ods }, { path: bad.pdf }, \
                  { path: letter.docx }] } }]\n  - when: { contains: Ten bottles }\n";
    let home = home(&(script.to_owned() + DONE), "native");
    fs::write(home.work("bad.pdf"), b"%PDF-1.7\n\0\xff\xfe 1 0 obj << /Type /Catalog /Pages 1 0 R >> endobj")
        .unwrap();
    let all = results(&home);
    insta::assert_snapshot!(all.concat());
}

#[test]
fn an_edit_keeps_the_encoding_of_a_file_and_refuses_what_it_lacks() {
    let script = "turns:\n  - calls: [{ tool: read_file, params: { files: [{ path: latin.txt }, { path: wide.txt }] } }]\n  \
                  - when: { contains: [\"encoded in windows-1252\", \"encoded in UTF-16LE\", \"1 | Straße\"] }\n    \
                  calls: [{ tool: search_and_replace, params: { path: latin.txt, search: Straße, replace: Gasse für Fußgänger } }]\n  \
                  - calls: [{ tool: search_and_replace, params: { path: wide.txt, search: Straße, replace: Weg → } }]\n  \
                  - calls: [{ tool: search_and_replace, params: { path: latin.txt, search: Gasse, replace: Weg → } }]\n  \
                  - when: { contains: \"latin.txt is encoded in windows-1252, which has no '→', so nothing was written\" }\n";
    let home = home(&(script.to_owned() + DONE), "native");
    let text = "Straße\r\nGrüße aus Köln, schöne Wörter über Äpfel\r\n";
    let latin =
        |text: &str| -> Vec<u8> { text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect() };
    let wide = |text: &str| -> Vec<u8> {
        format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect()
    };
    fs::write(home.work("latin.txt"), latin(text)).unwrap();
    fs::write(home.work("wide.txt"), wide(text)).unwrap();
    results(&home);
    assert_eq!(
        fs::read(home.work("latin.txt")).unwrap(),
        latin(&text.replace("Straße", "Gasse für Fußgänger"))
    );
    assert_eq!(fs::read(home.work("wide.txt")).unwrap(), wide(&text.replace("Straße", "Weg →")));
}

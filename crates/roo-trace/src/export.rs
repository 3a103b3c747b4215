//! Export of the trace to other formats.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::Path;

use serde_json::{Value, json};

use super::blame::Index;
use super::directory::TraceDirectory;
use super::history::{self, Position};
use super::record::{Author, Record};
use super::value;
use roo_durable::disk::{Disk as _, RealDisk};
use roo_protocol::ids::Digest;

/// The largest file of the workspace whose lines are exported, in bytes.
const MAX_FILE_BYTES: u64 = 20 << 20;

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The records as they are, one per line.
    Canonical,
    /// The flat format, one per line.
    Flat,
    /// An authorship note about the current files of the workspace.
    Note,
}

/// Writes the trace; `folder` is the workspace folder, for the note.
///
/// # Errors
/// When the trace can't be read or the output can't be written.
pub fn export(state_directory: &Path, folder: &Path, shape: Shape, out: &mut impl Write) -> io::Result<()> {
    if shape == Shape::Note {
        let mut index = Index::new(state_directory);
        index.refresh()?;
        let mut note = AuthorshipNote::default();
        for path in index.paths() {
            // A file that can't be read is left out.
            let text = RealDisk
                .read_beginning(&folder.join(path), MAX_FILE_BYTES)
                .ok()
                .flatten()
                .map(String::from_utf8);
            if let Some(Ok(text)) = text {
                note.add(path, &index.lines(path, &text));
            }
        }
        return out.write_all(note.render().as_bytes());
    }
    let mut written = Ok(());
    history::lines(&TraceDirectory::new(state_directory), Position::default(), |_, line| {
        written = match shape {
            Shape::Canonical | Shape::Note => out.write_all(line).and_then(|()| out.write_all(b"\n")),
            // A line that isn't a record is left out; `verify` reports it.
            Shape::Flat => match Record::read(line) {
                Ok(record) => writeln!(out, "{}", flat(&record)),
                Err(_) => Ok(()),
            },
        };
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    written
}

/// A record in the flat format that several programs for `.orchestration/agent_trace.jsonl` read.
pub fn flat(record: &Record) -> Value {
    let own = record.own();
    let name = value::name_in_urn;
    let conversation = |conversation: &super::record::Conversation| {
        let entity = match conversation.contributor.as_ref().map(|contributor| contributor.kind) {
            Some(Author::Human) => "Human",
            Some(Author::Ai) => "AI",
            Some(Author::Mixed) => "Mixed",
            Some(Author::Unknown) | None => "Unknown",
        };
        let model = conversation.contributor.as_ref().and_then(|contributor| contributor.model_id.as_deref());
        let related = conversation.related.iter().filter(|related| related.kind == "specification");
        json!({
            "url": conversation.url.as_deref().map(name),
            "contributor": { "entity_type": entity, "model_identifier": model },
            "ranges": conversation.ranges,
            "related": related.map(|related| json!({ "type": related.kind, "value": name(&related.url) })).collect::<Vec<_>>(),
        })
    };
    let files = record.files.iter().map(|file| {
        json!({
            "relative_path": file.path,
            "conversations": file.conversations.iter().map(conversation).collect::<Vec<_>>(),
        })
    });
    json!({
        "id": record.id,
        "timestamp": record.timestamp,
        "vcs": { "revision_id": record.vcs.as_ref().map(|vcs| vcs.revision.as_str()) },
        "intent_id": own.and_then(|own| own.intent_id.as_deref()),
        "req_id": own.and_then(|own| own.requirements.first()),
        "mutation_class": own.and_then(|own| own.mutation_class),
        "files": files.collect::<Vec<_>>(),
    })
}

/// Lines of files by the session that wrote them, as git-ai keeps them in notes of commits.
#[derive(Debug, Default)]
pub struct AuthorshipNote {
    /// Path, then session, then lines from 1 in order.
    files: BTreeMap<String, BTreeMap<String, Vec<u64>>>,
    sessions: BTreeMap<String, Value>,
}

impl AuthorshipNote {
    /// Adds what [`super::blame`] says of a file: the record for each line that has one.
    pub fn add(&mut self, path: &str, lines: &[Option<std::sync::Arc<super::blame::Attribution>>]) {
        for (line, attribution) in (1..).zip(lines).filter_map(|(line, found)| Some((line, found.as_ref()?)))
        {
            let session = Digest::of(&attribution.task).hex()[..16].to_owned();
            let about = json!({
                "agent_id": { "tool": "roo-lsp", "id": attribution.task, "model": attribution.model },
                "human_author": null,
            });
            self.sessions.insert(session.clone(), about);
            self.files.entry(path.to_owned()).or_default().entry(session).or_default().push(line);
        }
    }

    /// The note: the lines, a separator, and what is known of the sessions.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for (path, sessions) in &self.files {
            let quoted = path.contains(|c: char| c.is_whitespace() || c.is_control() || c == '"');
            let path = if quoted { Value::from(path.as_str()).to_string() } else { path.clone() };
            // Writing to a string can't fail.
            let _ = writeln!(text, "{path}");
            for (session, lines) in sessions {
                let _ = writeln!(text, "  {session} {}", spans(lines));
            }
        }
        let about = json!({ "schema_version": "authorship/3.0.0", "prompts": self.sessions });
        let _ = write!(text, "---\n{about:#}\n");
        text
    }
}

/// `1-5,10`
fn spans(lines: &[u64]) -> String {
    let mut spans: Vec<(u64, u64)> = Vec::new();
    for line in lines {
        match spans.last_mut() {
            Some((_, end)) if *end + 1 == *line => *end = *line,
            _ => spans.push((*line, *line)),
        }
    }
    let shown = spans.iter().map(
        |(start, end)| {
            if start == end { start.to_string() } else { format!("{start}-{end}") }
        },
    );
    shown.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{LedgerFixture, wrote};
    use super::*;

    #[test]
    fn the_flat_shape_has_its_own_names_and_reads_back() {
        let fixture = LedgerFixture::new();
        fixture.ledger().append(&[wrote("src/a.rs", "", "fn a() {}\n")]).unwrap();
        let mut flat = flat(&fixture.records()[0]);
        flat["id"] = "[id]".into();
        insta::assert_json_snapshot!(flat, @r#"
        {
          "id": "[id]",
          "timestamp": "2026-11-20T12:00:00.123Z",
          "vcs": {
            "revision_id": null
          },
          "intent_id": "INT-001",
          "req_id": "REQ-001",
          "mutation_class": "INTENT_EVOLUTION",
          "files": [
            {
              "relative_path": "src/a.rs",
              "conversations": [
                {
                  "url": "0198f0c2-77aa-7c3e-9f51-2a4f6f0e9b11.4",
                  "contributor": {
                    "entity_type": "AI",
                    "model_identifier": "anthropic/claude-sonnet-4-5"
                  },
                  "ranges": [
                    {
                      "start_line": 1,
                      "end_line": 1,
                      "content_hash": "sha256:fe05b5eef8cd0aed7d77c57cc9424b7f6434143972fca7ca02df69ebf3122c38"
                    }
                  ],
                  "related": [
                    {
                      "type": "specification",
                      "value": "REQ-001"
                    }
                  ]
                }
              ]
            }
          ]
        }
        "#);
        let mut line = flat;
        line["vcs"]["revision_id"] = "a1b2".into();
        let read = Record::read(line.to_string().as_bytes()).unwrap();
        assert_eq!(read.files[0].path, "src/a.rs");
        let conversation = &read.files[0].conversations[0];
        assert_eq!(conversation.contributor.as_ref().unwrap().kind, Author::Ai);
        assert!(conversation.related.iter().any(|related| related.url == "urn:roo-lsp:intent:INT-001"));
    }

    #[test]
    fn spans_of_lines_are_short() {
        assert_eq!(spans(&[1, 2, 3, 4, 5, 10, 12, 13]), "1-5,10,12-13");
    }
}

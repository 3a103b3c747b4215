//! One record of the trace: an Agent Trace 0.1.0 record with this program's fields under
//! `metadata["dev.roo-lsp"]`, so that any reader of the format can use it.
//!
//! A record holds digests and line numbers, never the content of a file or a command. [`Entry`] is an action as the
//! caller describes it; [`Draft`] is its records without their position in the chain.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::mutation::{self, Basis, MutationClass};
use super::normal_form_cache::ComparableForms;
use super::ranges::{self, Changes};
use super::value::{self, bounded, urn};
use roo_protocol::ids::{ApprovalId, Digest, MessageId, TaskId, ToolCallId, Urid};

/// The version of the Agent Trace format.
pub const VERSION: &str = "0.1.0";
/// A file of which more lines than this were written has no marks of single lines, only hashes of ranges.
const MAX_MARKS: usize = 20_000;
/// The most violations that one record names.
const MAX_VIOLATIONS: usize = 256;

/// Outcome of a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It succeeded.
    Ok,
    /// The gate or the user refused it.
    Denied,
    /// It was allowed and failed.
    Failed,
    /// A command changed what was out of its scope.
    ScopeViolation,
    /// It was interrupted; its effects are unknown.
    Interrupted,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Ok, Self::Denied, Self::Failed, Self::ScopeViolation, Self::Interrupted];

    /// Its name in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Denied => "denied",
            Self::Failed => "failed",
            Self::ScopeViolation => "scope_violation",
            Self::Interrupted => "interrupted",
        }
    }
}

/// Author of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Author {
    /// A person.
    Human,
    /// A model.
    #[serde(alias = "AI")]
    Ai,
    /// A model, and its user changed it before it was accepted.
    Mixed,
    #[serde(other)]
    Unknown,
}

/// The intent that an action served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntentRef {
    /// Such as `INT-001`.
    pub id: String,
    /// Its name, for people.
    pub name: String,
    /// Of its definition when the action was judged.
    pub digest: Option<Digest>,
    /// Requirements that it implements.
    pub requirements: Vec<String>,
}

/// Reason why an action was allowed or refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// `user`, `rule`, `child-grant` and the like.
    pub by: String,
    /// The rule, where one decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The question that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<ApprovalId>,
    /// Of the exact action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}

/// Prompt of a user that led to an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptRef {
    /// The user's message.
    pub id: MessageId,
    /// The request's title.
    pub title: String,
}

/// A command that ran. Its text may hold secrets, so only its digest is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandRun {
    /// Of its text.
    pub digest: Digest,
    /// None when it was ended by a signal or not waited for.
    pub exit_code: Option<i32>,
}

/// A call of a tool of an MCP server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerCall {
    /// As `server/tool`.
    pub tool: String,
    /// Of the arguments as JSON.
    pub arguments: Digest,
}

/// Object of a call that was refused, or that changed what agents may do and no file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requested {
    /// The paths or patterns that it named, relative to the first workspace folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Of the text of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Digest>,
}

/// A commit that a command made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitMade {
    /// Its object id, in hexadecimal digits.
    pub id: String,
    /// Origin, as git's log of references names it: `commit`, `rebase (pick)` and the like.
    pub action: String,
}

/// A change out of scope, and what was done about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// Changed path.
    pub path: String,
    /// Before the command.
    pub before: FileState,
    /// After the command.
    pub after: FileState,
    /// What was done about it.
    pub action: ViolationAction,
}

/// What was done about a change out of scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ViolationAction {
    /// It was undone.
    Restored,
    /// It could not be undone, so it is still there.
    Held,
    /// It never reached the workspace.
    Withheld,
    /// What the record of another version names.
    #[serde(other)]
    Other,
}

/// Claim of a model about its own action that differs from what the server found. The server's finding counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimed {
    /// The intent it named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent_id: Option<String>,
    /// The class it named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutation_class: Option<String>,
}

/// A file as a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    /// The file didn't exist.
    Absent,
    /// The file had this digest.
    Present(Digest),
}

impl Serialize for FileState {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Absent => serializer.serialize_str("absent"),
            Self::Present(digest) => digest.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for FileState {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "absent" {
            return Ok(Self::Absent);
        }
        let digest = Digest::parse(&text).map(Self::Present);
        digest.ok_or_else(|| serde::de::Error::custom("expected a digest or 'absent'"))
    }
}

/// Content of a file, as far as the caller knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Side {
    /// The file didn't exist.
    Absent,
    /// Text, with the digest of the file or the buffer.
    Text {
        /// The whole text.
        text: Arc<str>,
        /// By which the file is known elsewhere; of its bytes where it is on disk.
        digest: Digest,
    },
    /// Something other than text, or too large to be analysed.
    Opaque(Digest),
}

impl Side {
    /// A text that is known by its own digest.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        Self::Text { digest: Digest::of(text.as_bytes()), text }
    }

    /// What there is, without its text.
    pub fn state(&self) -> FileState {
        match self {
            Self::Absent => FileState::Absent,
            Self::Text { digest, .. } | Self::Opaque(digest) => FileState::Present(*digest),
        }
    }

    /// The text; a file that is not there has an empty one.
    fn as_text(&self) -> Option<&str> {
        match self {
            Self::Absent => Some(""),
            Self::Text { text, .. } => Some(text),
            Self::Opaque(_) => None,
        }
    }
}

/// One changed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// Relative to the first workspace folder, with `/`; a full path outside of it.
    pub path: String,
    /// Previous path, if it was moved.
    pub old_path: Option<String>,
    /// Content before.
    pub before: Side,
    /// Content after.
    pub after: Side,
    /// Author of the difference: [`Author::Ai`], [`Author::Human`] for what its user made of it, [`Author::Mixed`] where
    /// the two can't be told apart, or [`Author::Unknown`] for what a hook made of lines of others.
    pub author: Author,
}

impl FileChange {
    /// Takes it apart into what a model wrote and what its user made of that before it was accepted.
    #[must_use]
    pub fn edited_by_user(self, by_model: &str) -> [Self; 2] {
        let by_model = Side::text(by_model);
        let second = Self {
            path: self.path.clone(),
            old_path: None,
            before: by_model.clone(),
            after: self.after,
            author: Author::Human,
        };
        [Self { after: by_model, author: Author::Ai, ..self }, second]
    }
}

/// One action of an agent, done or refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Time, in milliseconds since the Unix epoch.
    pub at: i64,
    pub outcome: Outcome,
    /// The tool's name.
    pub tool_call: String,
    pub tool_call_id: ToolCallId,
    /// The task of the call.
    pub task: TaskId,
    pub parent_task: Option<TaskId>,
    /// The request.
    pub urid: Urid,
    /// The mode's slug.
    pub mode: String,
    /// `provider/model`.
    pub model: Option<String>,
    /// The intent that was bound.
    pub intent: Option<IntentRef>,
    /// Reason why it was allowed or refused.
    pub decision: Decision,
    /// The sandbox level of a command, such as `L3`.
    pub sandbox: Option<String>,
    /// Changed files; a record for each. Nothing for denials, violations and commands.
    pub files: Vec<FileChange>,
    /// Prompt of the user.
    pub prompt: Option<PromptRef>,
    /// The command that ran.
    pub command: Option<CommandRun>,
    /// The commit that the command made, which has a record of its own.
    pub commit: Option<CommitMade>,
    /// The call of a server's tool.
    pub server_call: Option<ServerCall>,
    /// Object of the call, where it was refused or changed what agents may do.
    pub requested: Option<Requested>,
    /// Changes out of scope.
    pub violations: Vec<Violation>,
    /// Claims of the model.
    pub claimed: Option<Claimed>,
}

/// The records of one entry, without their position in the chain. Cheap to clone, so that an append can be
/// repeated.
#[derive(Clone, Debug)]
pub struct Draft(pub(super) Arc<Vec<Record>>);

impl Draft {
    /// Compares the texts and finds the class of each change: work for a thread that may block, some
    /// milliseconds for a file of a thousand lines whose `forms` are not known. `new_id` draws random ids.
    pub fn new(entry: &Entry, forms: &ComparableForms, mut new_id: impl FnMut() -> Uuid) -> Self {
        let head = |id: Uuid| record_of(entry, id);
        if entry.files.is_empty() {
            return Self(Arc::new(vec![head(new_id())]));
        }
        let records = entry.files.iter().map(|change| {
            let mut record = head(new_id());
            describe(&mut record, entry, change, forms);
            record
        });
        Self(Arc::new(records.collect()))
    }

    /// Adds to each written file the name or pattern by which it is run later, if it is.
    #[must_use]
    pub fn labelled(mut self, label: impl Fn(&str) -> Option<&'static str>) -> Self {
        for record in Arc::make_mut(&mut self.0) {
            let rule = record.files.first().and_then(|file| label(&file.path));
            if let Some(own) = &mut record.metadata.own {
                own.executes_later = rule.map(str::to_owned);
            }
        }
        self
    }

    /// The records, without their numbers and hashes.
    pub fn records(&self) -> &[Record] {
        &self.0
    }

    /// Returns whether a record is one of new behaviour, after which the map of intents changes.
    pub(super) fn evolves(&self) -> bool {
        self.0.iter().any(|record| {
            record.metadata.own.as_ref().is_some_and(|own| {
                own.intent_id.is_some() && own.mutation_class == Some(MutationClass::IntentEvolution)
            })
        })
    }
}

fn record_of(entry: &Entry, id: Uuid) -> Record {
    let name = |text: &str| bounded(text, value::NAME).into_owned();
    let intent = entry.intent.as_ref();
    let unset = Digest::of([]);
    let own = Own {
        seq: 0,
        prev: unset,
        hash: unset,
        chain: String::new(),
        intent_id: intent.map(|intent| name(&intent.id)),
        intent_name: intent.map(|intent| name(&intent.name)),
        intent_digest: intent.and_then(|intent| intent.digest),
        requirements: intent
            .map(|intent| intent.requirements.iter().take(value::LIST).map(|id| name(id)).collect())
            .unwrap_or_default(),
        mutation_class: None,
        mutation_basis: None,
        urid: name(entry.urid.as_str()),
        task: name(entry.task.as_str()),
        parent_task: entry.parent_task.as_ref().map(|task| name(task.as_str())),
        mode: name(&entry.mode),
        model: entry.model.as_deref().map(name),
        tool_call: name(&entry.tool_call),
        tool_call_id: name(entry.tool_call_id.as_str()),
        decision: Decision {
            by: name(&entry.decision.by),
            rule: entry.decision.rule.as_deref().map(name),
            ask: entry.decision.ask.as_ref().map(|ask| ApprovalId::new(name(ask.as_str()))),
            digest: entry.decision.digest,
        },
        before: None,
        after: None,
        old_path: None,
        sandbox: entry.sandbox.as_deref().map(name),
        outcome: entry.outcome,
        prompt: entry.prompt.as_ref().map(|prompt| PromptRef {
            id: MessageId::new(name(prompt.id.as_str())),
            title: name(&prompt.title),
        }),
        command: entry.command.clone(),
        commit: entry
            .commit
            .as_ref()
            .map(|commit| CommitMade { id: name(&commit.id), action: name(&commit.action) }),
        server_call: entry
            .server_call
            .as_ref()
            .map(|call| ServerCall { tool: name(&call.tool), arguments: call.arguments }),
        requested: entry.requested.as_ref().map(|requested| Requested {
            paths: requested
                .paths
                .iter()
                .take(value::LIST)
                .map(|path| bounded(path, value::PATH).into_owned())
                .collect(),
            command: requested.command,
        }),
        violations: entry
            .violations
            .iter()
            .take(MAX_VIOLATIONS)
            .map(|violation| Violation {
                path: bounded(&violation.path, value::PATH).into_owned(),
                ..violation.clone()
            })
            .collect(),
        violations_left_out: entry.violations.len().saturating_sub(MAX_VIOLATIONS),
        claimed: None,
        executes_later: None,
        files: Details::new(),
    };
    Record {
        version: VERSION.to_owned(),
        id: id.to_string(),
        timestamp: timestamp(entry.at),
        vcs: None,
        tool: Some(Tool { name: "roo-lsp".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }),
        files: vec![],
        metadata: Metadata { own: Some(own) },
    }
    .claimed(entry.claimed.as_ref())
}

/// UTC with `Z`, which every reader of the format takes.
fn timestamp(at: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(at).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// Adds what a change did to a file.
fn describe(record: &mut Record, entry: &Entry, change: &FileChange, forms: &ComparableForms) {
    let path = bounded(&change.path, value::PATH).into_owned();
    let texts = change.before.as_text().zip(change.after.as_text());
    let mut detail = FileDetail::default();
    let mut found = Vec::new();
    if let Some((before, after)) = texts {
        let (old, new) = (ranges::split(before), ranges::split(after));
        let changes = Changes::between(&old, &new);
        for span in &changes.ranges {
            let lines = if changes.deletion { &[][..] } else { &new[span.start - 1..span.end] };
            found.push(RangeRecord {
                start_line: span.start as u64,
                end_line: span.end as u64,
                content_hash: Some(ranges::content_hash(lines).to_string()),
            });
            detail.norm_hash.push(ranges::norm_hash(lines));
        }
        detail.lines = Some(changes.lines as u64);
        detail.hunks = changes
            .hunks
            .iter()
            .map(|hunk| [hunk.old_start, hunk.old_len, hunk.new_start, hunk.new_len].map(|n| n as u64))
            .collect();
        if changes.deletion {
            detail.mutation = Some("delete".to_owned());
        } else {
            let written = changes.ranges.iter().flat_map(|span| &new[span.start - 1..span.end]);
            if written.clone().count() <= MAX_MARKS {
                detail.marks = written.map(|line| format!("{:04x}", ranges::mark(line))).collect();
            }
        }
    }
    let spans: Vec<(usize, usize)> =
        found.iter().map(|range| (range.start_line as usize, range.end_line as usize)).collect();
    let side = |side: &Side| match side {
        Side::Text { text, .. } => Some(Arc::clone(text)),
        Side::Absent | Side::Opaque(_) => None,
    };
    let (before, after) = (side(&change.before), side(&change.after));
    let compared = mutation::FileMutation {
        path: &change.path,
        old_path: change.old_path.as_deref(),
        before: before.as_deref(),
        after: after.as_deref(),
        same: change.before.state() == change.after.state(),
        written: &spans,
    };
    let analysis = mutation::analyse(&compared, forms);
    detail.symbols =
        analysis.symbols.iter().map(|symbol| bounded(symbol, value::NAME).into_owned()).collect();
    detail.ast = analysis.ast;
    let task = urn("task", entry.task.as_str());
    let intent = entry.intent.iter().map(|intent| Related::new("intent", urn("intent", &intent.id)));
    let requirements = entry.intent.iter().flat_map(|intent| intent.requirements.iter().take(value::LIST));
    let specifications = requirements.map(|id| Related::new("specification", urn("spec", id)));
    let request = Related::new("request", urn("urid", entry.urid.as_str()));
    record.files = vec![File {
        path: path.clone(),
        conversations: vec![Conversation {
            url: Some(task),
            contributor: Some(Contributor {
                kind: change.author,
                model_id: matches!(change.author, Author::Ai | Author::Mixed)
                    .then(|| Some(bounded(entry.model.as_deref()?, value::NAME).into_owned()))
                    .flatten(),
            }),
            ranges: found,
            related: intent.chain(specifications).chain([request]).collect(),
        }],
    }];
    if let Some(own) = &mut record.metadata.own {
        own.before = Some(change.before.state());
        own.after = Some(change.after.state());
        own.old_path = change.old_path.as_deref().map(|path| bounded(path, value::PATH).into_owned());
        own.mutation_class = Some(analysis.class);
        own.mutation_basis = Some(analysis.basis);
        own.files.insert(path, detail);
    }
    *record = std::mem::take(record).claimed(entry.claimed.as_ref());
}

/// A record, as it is written and as any of the known formats is read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Of the format. The flat shape has none.
    #[serde(default)]
    pub version: String,
    /// A random UUID.
    pub id: String,
    /// RFC 3339, in UTC.
    pub timestamp: String,
    /// Revision of the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vcs: Option<Vcs>,
    /// Program that wrote the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<Tool>,
    /// The changed file; none for denials, violations and commands.
    pub files: Vec<File>,
    /// Data beyond the format.
    #[serde(default)]
    pub metadata: Metadata,
}

/// The state of the repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vcs {
    /// `git`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The commit at HEAD.
    #[serde(alias = "revision_id")]
    pub revision: String,
}

/// The program that wrote a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    pub name: String,
    #[serde(default)]
    pub version: String,
}

/// A file and who wrote what in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Relative to the workspace folder.
    #[serde(alias = "relative_path")]
    pub path: String,
    /// By task.
    #[serde(default)]
    pub conversations: Vec<Conversation>,
}

/// Writes of one task in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// The task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contributor: Option<Contributor>,
    /// Lines, in the file as it was then.
    pub ranges: Vec<RangeRecord>,
    /// The intent, the requirements, the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<Related>,
}

/// Author of lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contributor {
    /// Kind of author.
    #[serde(rename = "type", alias = "entity_type")]
    pub kind: Author,
    /// `provider/model`, at most 250 characters.
    #[serde(default, alias = "model_identifier", skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
}

/// Lines that were written, from 1, both ends included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeRecord {
    /// The first.
    pub start_line: u64,
    /// The last.
    pub end_line: u64,
    /// Of the lines, as `ranges::content_hash` makes it; other programs may cut it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_hash: Option<String>,
}

/// Purpose of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Related {
    /// `intent`, `specification`, `request`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its URN; in the flat shape its bare name.
    #[serde(alias = "value")]
    pub url: String,
}

impl Related {
    fn new(kind: &str, url: String) -> Self {
        Self { kind: kind.to_owned(), url }
    }
}

/// Data beyond the format, by the domain of its source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    /// Ours. None in the records of other programs.
    #[serde(rename = "dev.roo-lsp", default, skip_serializing_if = "Option::is_none")]
    pub own: Option<Own>,
}

type Details = std::collections::BTreeMap<String, FileDetail>;

/// Fields of this program's records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Own {
    /// Number, from 1 without gaps.
    pub seq: u64,
    /// The hash of the record before it; the rule is in `chain.rs`.
    pub prev: Digest,
    /// Of this record.
    pub hash: Digest,
    /// The random id of the chain.
    pub chain: String,
    /// The intent that the server had bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent_name: Option<String>,
    /// Of its definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent_digest: Option<Digest>,
    /// Requirements that it implements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<String>,
    /// As the server found it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutation_class: Option<MutationClass>,
    /// By what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutation_basis: Option<Basis>,
    /// The request.
    #[serde(default)]
    pub urid: String,
    #[serde(default)]
    pub task: String,
    #[serde(default)]
    pub parent_task: Option<String>,
    /// The mode's slug.
    #[serde(default)]
    pub mode: String,
    /// `provider/model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The tool's name.
    #[serde(default)]
    pub tool_call: String,
    #[serde(default)]
    pub tool_call_id: String,
    /// Reason why it was allowed or refused.
    #[serde(default)]
    pub decision: Decision,
    /// The file before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<FileState>,
    /// The file after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<FileState>,
    /// Previous path of the file.
    #[serde(default)]
    pub old_path: Option<String>,
    /// The sandbox level of a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    pub outcome: Outcome,
    /// Prompt of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptRef>,
    /// The command that ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandRun>,
    /// The commit that the command made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitMade>,
    /// The call of a tool of an MCP server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_call: Option<ServerCall>,
    /// Object of a call that was refused, or that changed what agents may do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested: Option<Requested>,
    /// Changes out of scope.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violation>,
    /// Number of further ones.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub violations_left_out: usize,
    /// Claims of the model that differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed: Option<Claimed>,
    /// The name or pattern by which what was written runs later, in a build, a shell or an editor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executes_later: Option<String>,
    /// By path.
    #[serde(default, skip_serializing_if = "Details::is_empty")]
    pub files: Details,
}

/// Fields of this program's records about a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDetail {
    /// A hash for each range, without indentation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub norm_hash: Vec<Digest>,
    /// Four hex digits for each line of the ranges, one after another; see [`ranges::mark`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub marks: String,
    /// Replaced ranges: `[old start, old lines, new start, new lines]`, from 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hunks: Vec<[u64; 4]>,
    /// Number of lines the file has now. None when it is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
    /// `delete` where nothing was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutation: Option<String>,
    /// The definitions that were touched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub symbols: Vec<String>,
    /// Of the file's syntax, without comments, white space and the names of locals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ast: Option<Digest>,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// A line is not a record.
#[derive(Debug, thiserror::Error)]
#[error("it is not a trace record: {0}")]
pub struct NotARecord(#[from] serde_json::Error);

/// Top level of the flat shape.
#[derive(Deserialize)]
struct Flat {
    intent_id: Option<String>,
    mutation_class: Option<MutationClass>,
    #[serde(alias = "requirement_id")]
    req_id: Option<String>,
}

impl Record {
    /// Reads a line of ours, of another program that writes Agent Trace, or of the flat shape.
    ///
    /// # Errors
    /// [`NotARecord`].
    pub fn read(line: &[u8]) -> Result<Self, NotARecord> {
        let mut record: Self = serde_json::from_slice(line)?;
        if record.metadata.own.is_none() {
            let flat: Flat = serde_json::from_slice(line)?;
            record.adopt(flat);
        }
        Ok(record)
    }

    /// Converts the fields of the flat format.
    fn adopt(&mut self, flat: Flat) {
        let Some(conversation) = self.files.first_mut().and_then(|file| file.conversations.first_mut())
        else {
            return;
        };
        let related = &mut conversation.related;
        if let Some(id) = flat.req_id.filter(|id| !related.iter().any(|related| related.url == **id)) {
            related.push(Related::new("specification", urn("spec", &id)));
        }
        if let Some(id) = flat.intent_id {
            related.push(Related::new("intent", urn("intent", &id)));
        }
        if let Some(class) = flat.mutation_class {
            related.push(Related::new("mutation", urn("mutation", class.as_str())));
        }
    }

    /// Returns the fields of this program's records.
    pub fn own(&self) -> Option<&Own> {
        self.metadata.own.as_ref()
    }

    /// Returns the time, in milliseconds since the Unix epoch.
    pub fn at(&self) -> Option<i64> {
        self.timestamp.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
    }

    /// Keeps the claims of the model that differ from the server's findings.
    fn claimed(mut self, claimed: Option<&Claimed>) -> Self {
        if let (Some(own), Some(claimed)) = (&mut self.metadata.own, claimed) {
            let other = |claim: &Option<String>, found: Option<&str>| {
                claim
                    .as_deref()
                    .filter(|claim| Some(*claim) != found)
                    .map(|claim| bounded(claim, value::NAME).into_owned())
            };
            let claimed = Claimed {
                intent_id: other(&claimed.intent_id, own.intent_id.as_deref()),
                mutation_class: other(&claimed.mutation_class, own.mutation_class.map(MutationClass::as_str)),
            };
            own.claimed = (claimed != Claimed::default()).then_some(claimed);
        }
        self
    }
}

#[cfg(test)]
mod tests;

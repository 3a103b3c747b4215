//! One record as one line: JSON with a checksum at its end, large strings moved out to blobs.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use roo_protocol::ids::{Digest, TaskId};

/// The longest string that is kept in the log, in bytes; longer ones are blobs beside it.
pub(super) const INLINE_LIMIT: usize = 32 * 1024;

/// Key of an object that refers to a blob. An event's own key of this name is escaped by another `$`.
const BLOB_KEY: &str = "$blob";

/// Before the checksum: the number of a record up to which all were synced when this one was written. Lines of versions
/// before it have none.
const SYNCED: &str = ",\"synced\":";

/// `,"sum":"xxxxxxxx"}`: the checksum is the CRC-32 of the bytes before it.
const SEAL_LENGTH: usize = 18;

/// A numbered event of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record<E> {
    /// Number, from 1 without gaps.
    pub seq: u64,
    /// Milliseconds since the Unix epoch.
    pub at: i64,
    /// Task of the event.
    pub task_id: TaskId,
    pub event: E,
}

/// Problem with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadLine {
    #[error("the checksum doesn't match")]
    Checksum,
    #[error("it is not a record: {0}")]
    Json(String),
    /// The record keeps its number: the payload is restored when the same text is written again.
    #[error("the payload {digest} is missing or damaged")]
    Blob { digest: Digest, seq: u64 },
}

/// What a whole line says of its place in the log, whatever its event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// The record's number.
    pub(super) seq: u64,
    /// All records up to this number were synced when this one was written; none in lines of earlier versions.
    pub(super) synced: Option<u64>,
}

/// Appends the record's line, with its newline, to `out`. All records up to `synced` are synced. Large strings are passed to
/// `blob`.
pub(super) fn encode<E: Serialize>(
    record: &Record<E>,
    synced: u64,
    out: &mut Vec<u8>,
    mut blob: impl FnMut(Digest, &str),
) -> Result<(), serde_json::Error> {
    let start = out.len();
    serde_json::to_writer(&mut *out, record)?;
    let long = out.len() - start > INLINE_LIMIT;
    if long || contains(&out[start..], BLOB_KEY.as_bytes()) {
        let mut value = serde_json::to_value(record)?;
        move_out(&mut value, &mut blob);
        out.truncate(start);
        serde_json::to_writer(&mut *out, &value)?;
    }
    // The record is an object, so the last byte is its brace.
    out.pop();
    out.extend_from_slice(format!("{SYNCED}{synced}").as_bytes());
    let sum = crc32fast::hash(&out[start..]);
    out.extend_from_slice(format!(",\"sum\":\"{sum:08x}\"}}\n").as_bytes());
    Ok(())
}

/// Reads a line without its newline.
pub(super) fn decode<E: DeserializeOwned>(
    line: &[u8],
    mut blob: impl FnMut(Digest) -> Option<String>,
) -> Result<Record<E>, BadLine> {
    let body = body(line).ok_or(BadLine::Checksum)?;
    // Unknown keys are ignored by serde, so the seal may stay.
    let json_error = |error: serde_json::Error| BadLine::Json(error.to_string());
    if contains(body, BLOB_KEY.as_bytes()) {
        let mut value: Value = serde_json::from_slice(line).map_err(json_error)?;
        let seq = value.get("seq").and_then(Value::as_u64).unwrap_or_default();
        move_in(&mut value, &mut blob).map_err(|digest| BadLine::Blob { digest, seq })?;
        serde_json::from_value(value).map_err(json_error)
    } else {
        serde_json::from_slice(line).map_err(json_error)
    }
}

/// Reads the mark of a line without its newline; none unless the line is whole.
pub(super) fn mark(line: &[u8]) -> Option<Mark> {
    #[derive(Deserialize)]
    struct Numbered {
        seq: u64,
    }
    let body = body(line)?;
    let Numbered { seq } = serde_json::from_slice(line).ok()?;
    Some(Mark { seq, synced: synced(body) })
}

/// What [`Mark::synced`] is, of a line that was decoded.
pub(super) fn synced_before(line: &[u8]) -> Option<u64> {
    synced(&line[..line.len().checked_sub(SEAL_LENGTH)?])
}

fn synced(body: &[u8]) -> Option<u64> {
    let digits = body.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (head, number) = body.split_at(body.len() - digits);
    // The event before it is an object, so none of its own keys is at this place.
    head.ends_with(SYNCED.as_bytes()).then(|| std::str::from_utf8(number).ok()?.parse().ok())?
}

/// The bytes before the checksum; none if it doesn't match.
fn body(line: &[u8]) -> Option<&[u8]> {
    let (body, seal) = line.split_at(line.len().checked_sub(SEAL_LENGTH)?);
    let sum = crc32fast::hash(body);
    (seal == format!(",\"sum\":\"{sum:08x}\"}}").as_bytes()).then_some(body)
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    memchr::memmem::find(haystack, needle).is_some()
}

fn move_out(value: &mut Value, blob: &mut impl FnMut(Digest, &str)) {
    match value {
        Value::String(text) if text.len() > INLINE_LIMIT => {
            let digest = Digest::of(text.as_bytes());
            blob(digest, text);
            *value = json!({ BLOB_KEY: digest });
        }
        Value::Array(items) => items.iter_mut().for_each(|item| move_out(item, blob)),
        Value::Object(object) => {
            object.values_mut().for_each(|item| move_out(item, blob));
            rename_keys(object, |key| key.ends_with(BLOB_KEY).then(|| format!("${key}")));
        }
        _ => {}
    }
}

fn move_in(value: &mut Value, blob: &mut impl FnMut(Digest) -> Option<String>) -> Result<(), Digest> {
    match value {
        Value::Array(items) => items.iter_mut().try_for_each(|item| move_in(item, blob)),
        Value::Object(object) => {
            if let Some(digest) = object.get(BLOB_KEY).and_then(Value::as_str).and_then(Digest::parse) {
                *value = Value::String(blob(digest).ok_or(digest)?);
                return Ok(());
            }
            object.values_mut().try_for_each(|item| move_in(item, blob))?;
            rename_keys(object, |key| {
                let escaped = key.ends_with(BLOB_KEY) && key != BLOB_KEY;
                escaped.then(|| key[1..].to_owned())
            });
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Renames keys in place, keeping their order.
fn rename_keys(object: &mut Map<String, Value>, rename: impl Fn(&str) -> Option<String>) {
    if object.keys().any(|key| rename(key).is_some()) {
        *object = std::mem::take(object)
            .into_iter()
            .map(|(key, value)| (rename(&key).unwrap_or(key), value))
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn record(event: Value) -> Record<Value> {
        Record { seq: 7, at: 1_700_000_000_000, task_id: TaskId::new("t"), event }
    }

    fn round_trip(event: Value) -> (String, Record<Value>) {
        let mut blobs = HashMap::new();
        let mut line = Vec::new();
        encode(&record(event), 5, &mut line, |digest, text| {
            blobs.insert(digest, text.to_owned());
        })
        .unwrap();
        assert_eq!(line.pop(), Some(b'\n'));
        let decoded = decode(&line, |digest| blobs.get(&digest).cloned()).unwrap();
        (String::from_utf8(line).unwrap(), decoded)
    }

    #[test]
    fn a_line_is_json_with_a_checksum_at_its_end() {
        let (line, decoded) = round_trip(json!({ "type": "x", "text": "é\n" }));
        insta::assert_snapshot!(line, @r#"{"seq":7,"at":1700000000000,"taskId":"t","event":{"type":"x","text":"é\n"},"synced":5,"sum":"fc758f29"}"#);
        assert_eq!(decoded, record(json!({ "type": "x", "text": "é\n" })));
    }

    #[test]
    fn a_line_says_what_was_synced_before_it() {
        for event in [json!({ "synced": 3 }), json!({ "text": "a".repeat(INLINE_LIMIT + 1), "synced": 3 })] {
            let (line, _) = round_trip(event);
            assert_eq!(mark(line.as_bytes()), Some(Mark { seq: 7, synced: Some(5) }));
            assert_eq!(synced_before(line.as_bytes()), Some(5));
            assert_eq!(mark(line.replace("\"seq\":7", "\"seq\":8").as_bytes()), None);
        }
        let earlier =
            r#"{"seq":7,"at":1700000000000,"taskId":"t","event":{"type":"x","text":"é\n"},"sum":"7f3bf7c2"}"#;
        assert_eq!(mark(earlier.as_bytes()), Some(Mark { seq: 7, synced: None }));
        assert_eq!(decode::<Value>(earlier.as_bytes(), |_| None).unwrap().seq, 7);
    }

    #[test]
    fn large_text_is_kept_beside_the_log() {
        let large = "a".repeat(INLINE_LIMIT + 1);
        let (line, decoded) = round_trip(json!({ "text": large }));
        assert!(line.len() < 300, "{line}");
        assert_eq!(decoded.event["text"], large);
    }

    #[test]
    fn an_object_that_looks_like_a_blob_stays_what_it_is() {
        let digest = Digest::of("secret");
        let event = json!({ "$blob": digest, "deeper": { "$$blob": 1, "a": [{ "$blob": "x" }] } });
        assert_eq!(round_trip(event.clone()).1.event, event);
    }

    #[test]
    fn any_changed_byte_is_noticed() {
        let mut line = Vec::new();
        encode(&record(json!({ "text": "hello" })), 5, &mut line, |_, _| {}).unwrap();
        line.pop();
        for index in 0..line.len() {
            let mut damaged = line.clone();
            damaged[index] ^= 1;
            assert!(decode::<Value>(&damaged, |_| None).is_err(), "byte {index}");
        }
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,20}".prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[$]{0,3}(blob|x)", inner), 0..4)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_event_reads_back(event in json_value()) {
            prop_assert_eq!(round_trip(event.clone()).1.event, event);
        }

        #[test]
        fn decoding_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode::<Value>(&bytes, |_| None);
        }
    }
}

//! Chain of records: each has the hash of the one before it.
//!
//! `hash = SHA-256(prev || JCS(record without hash))`, where `prev` is the text `sha256:<64 hex digits>` of the
//! record before and JCS is RFC 8785. A line is the JCS of the whole record, so the hashed bytes are the line
//! without its member `"hash"`. The first record follows `SHA-256("roo-lsp trace\n" || chain id)`, and the
//! chain id is random: no two chains begin alike.

use std::ops::Range;

use serde::Deserialize;

use super::record::Record;
use roo_protocol::ids::Digest;

/// The member that holds a record's hash, up to its digits. It occurs once in a record of this program: a quote within
/// a string is escaped, and no other member has this name.
const MEMBER: &str = "\"hash\":\"sha256:";
/// The member with its digits, its quote and the comma behind it.
const MEMBER_LENGTH: usize = MEMBER.len() + 64 + 2;

/// Returns the digest that the first record of a chain follows.
pub(super) fn genesis(chain: &str) -> Digest {
    Digest::of_parts(&[b"roo-lsp trace\n", chain.as_bytes()])
}

/// Numbers a record, and appends its line, with its line end, to `out`. Returns its hash.
pub(super) fn seal(
    mut record: Record,
    chain: &str,
    seq: u64,
    prev: Digest,
    out: &mut Vec<u8>,
) -> Result<Digest, serde_json::Error> {
    if let Some(own) = &mut record.metadata.own {
        own.chain = chain.to_owned();
        own.seq = seq;
        own.prev = prev;
    }
    let start = out.len();
    serde_json_canonicalizer::to_writer(&record, out)?;
    let line = &out[start..];
    let member = member(line).ok_or_else(|| serde::ser::Error::custom("a record has no hash"))?;
    let hash = hash(prev, line, &member);
    let digits = start + member.start + MEMBER.len();
    out[digits..digits + 64].copy_from_slice(hash.hex().as_bytes());
    out.push(b'\n');
    Ok(hash)
}

/// Position of a record in the chain, from a line with a correct hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VerifiedLink {
    pub(super) seq: u64,
    pub(super) prev: Digest,
    pub(super) hash: Digest,
}

#[derive(Deserialize)]
struct ChainLine<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(rename = "dev.roo-lsp", borrow)]
    own: Link<'a>,
}

#[derive(Deserialize)]
struct Link<'a> {
    seq: u64,
    prev: &'a str,
    hash: &'a str,
    chain: &'a str,
}

/// Reads a line without its line end. None when it isn't a record of this chain or its hash is wrong.
pub(super) fn read(line: &[u8], chain: &str) -> Option<VerifiedLink> {
    let ChainLine { metadata: Metadata { own: link } } = serde_json::from_slice(line).ok()?;
    let (prev, claimed) = (Digest::parse(link.prev)?, Digest::parse(link.hash)?);
    let found = hash(prev, line, &member(line)?);
    (found == claimed && link.chain == chain).then_some(VerifiedLink { seq: link.seq, prev, hash: found })
}

/// The chain that a line names, whether or not its hash is correct.
pub(super) fn chain_of(line: &[u8]) -> Option<String> {
    let line: ChainLine<'_> = serde_json::from_slice(line).ok()?;
    Some(line.metadata.own.chain.to_owned())
}

fn hash(prev: Digest, line: &[u8], member: &Range<usize>) -> Digest {
    Digest::of_parts(&[prev.to_string().as_bytes(), &line[..member.start], &line[member.end..]])
}

/// Returns the byte range of the member.
fn member(line: &[u8]) -> Option<Range<usize>> {
    let start = std::str::from_utf8(line).ok()?.find(MEMBER)?;
    let end = start + MEMBER_LENGTH;
    line.get(start..end)?.ends_with(b"\",").then_some(start..end)
}

//! The newest record, stored apart from the records: the head after each append, and anchors, which are signed heads.
//! They reveal a trace that was truncated or replaced by another one.
//!
//! The head is written after the records are durable, so it never names records that were lost with the power. It may
//! be older than the newest record: the records after it are then read and verified.

use std::io;

use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

use super::directory::{TraceDirectory, complete_lines_length};
use super::projection::Projected;
use roo_durable::disk::Access;
use roo_durable::{keep_torn_tail, replace};
use roo_protocol::ids::Digest;

/// Size of each of the two copies of the head, which are written alternately: a torn write leaves the other one.
const SLOT: usize = 1024;
/// The largest list of signed heads that is read: some four hundred million records.
const MAX_ANCHORS_BYTES: u64 = 1 << 30;

/// The longest key that is read, in bytes.
const KEY_LENGTH: u64 = 1024;

/// The newest record, and the position of the next one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) chain: String,
    pub(super) seq: u64,
    pub(super) hash: Digest,
    /// The number of the segment that is appended to.
    pub(super) segment: u64,
    /// Its length.
    pub(super) offset: u64,
    /// The newest record whose head was signed.
    pub(super) signed: u64,
    /// The workspace's copy, if there is one.
    pub(super) projection: Option<Projected>,
    /// Digest of the workspace's map of intents as last written.
    #[serde(default)]
    pub(super) map: Option<Digest>,
    /// Counts the writes of the head.
    pub(super) turn: u64,
}

impl Head {
    /// Reads the newer one of the intact copies.
    pub(super) fn read(directory: &TraceDirectory) -> io::Result<Option<Self>> {
        let Some(bytes) = directory.disk().read_beginning(&directory.head(), 2 * SLOT as u64)? else {
            return Ok(None);
        };
        let slots = bytes.chunks(SLOT).filter_map(|slot| {
            let line = slot.split(|byte| *byte == b'\n').next()?;
            let (sum, json) = line.split_at_checked(9)?;
            let sum = u32::from_str_radix(std::str::from_utf8(sum).ok()?.trim_end(), 16).ok()?;
            (crc32fast::hash(json) == sum).then(|| serde_json::from_slice::<Self>(json).ok()).flatten()
        });
        Ok(slots.max_by_key(|head| head.turn))
    }

    /// Writes the first head of a trace durably; from then on a loss of power leaves at least one copy.
    pub(super) fn write_durably(&mut self, directory: &TraceDirectory) -> io::Result<()> {
        self.write(directory)?;
        directory.disk().sync(&directory.head())?;
        directory.sync()
    }

    /// Writes the head without a sync; see the module documentation.
    pub(super) fn write(&mut self, directory: &TraceDirectory) -> io::Result<()> {
        self.turn += 1;
        let json = serde_json::to_string(self)?;
        let line = format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()));
        if line.len() > SLOT {
            return Err(io::Error::other("the head is too long"));
        }
        let slot = self.turn % 2 * SLOT as u64;
        directory.disk().write_at(&directory.head(), slot, format!("{line:<SLOT$}").as_bytes())
    }
}

/// A head that was signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Anchor {
    pub(super) chain: String,
    pub(super) seq: u64,
    pub(super) hash: Digest,
    /// Number of records the chain has had.
    pub(super) count: u64,
    /// The public key, in hex digits.
    key: String,
    /// Of the canonical JSON of all else, in hex digits.
    signature: String,
}

impl Anchor {
    fn message(&self) -> io::Result<Vec<u8>> {
        let unsigned = Self { signature: String::new(), ..self.clone() };
        Ok(serde_json_canonicalizer::to_vec(&unsigned)?)
    }

    /// Returns whether its key has signed it.
    pub(super) fn is_genuine(&self) -> bool {
        let (Some(key), Some(signature), Ok(message)) =
            (bytes(&self.key), bytes(&self.signature), self.message())
        else {
            return false;
        };
        UnparsedPublicKey::new(&ED25519, key).verify(&message, &signature).is_ok()
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Reads all anchors, oldest first. Returns the number of invalid lines as well; a torn line at the end, which a
    /// crash leaves, doesn't count.
    pub(super) fn read_all(directory: &TraceDirectory) -> io::Result<(Vec<Self>, usize)> {
        let bytes =
            directory.disk().read_beginning(&directory.anchors(), MAX_ANCHORS_BYTES)?.unwrap_or_default();
        let (mut found, mut bad) = (Vec::new(), 0);
        let (whole, torn) = bytes.split_at(complete_lines_length(&bytes));
        for line in whole.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice(line) {
                Ok(anchor) => found.push(anchor),
                Err(_) => bad += 1,
            }
        }
        // It may be complete except for its line end.
        found.extend(serde_json::from_slice::<Self>(torn));
        Ok((found, bad))
    }
}

/// Key that signs heads.
pub(super) struct Signer(Ed25519KeyPair);

impl Signer {
    /// The workspace's key, which is created if it is missing.
    pub(super) fn open(directory: &TraceDirectory) -> io::Result<Self> {
        let path = directory.key();
        let refused = |what: &str| io::Error::other(format!("the key {} {what}", path.display()));
        if let Some(key) = directory.disk().read_beginning(&path, KEY_LENGTH)? {
            return Ed25519KeyPair::from_pkcs8(&key).map(Self).map_err(|_| refused("can't be read"));
        }
        let key =
            Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| refused("can't be made"))?;
        replace(directory.disk(), &path, key.as_ref(), Access::Private)?;
        Ed25519KeyPair::from_pkcs8(key.as_ref()).map(Self).map_err(|_| refused("can't be read"))
    }

    /// The public key in hex digits; none when there is no key yet.
    pub(super) fn public_key(directory: &TraceDirectory) -> io::Result<Option<String>> {
        let Some(key) = directory.disk().read_beginning(&directory.key(), KEY_LENGTH)? else {
            return Ok(None);
        };
        Ok(Ed25519KeyPair::from_pkcs8(&key).ok().map(|key| hex(key.public_key().as_ref())))
    }

    /// Signs a head, durably.
    pub(super) fn sign(&self, directory: &TraceDirectory, head: &Head) -> io::Result<()> {
        let mut anchor = Anchor {
            chain: head.chain.clone(),
            seq: head.seq,
            hash: head.hash,
            count: head.seq,
            key: hex(self.0.public_key().as_ref()),
            signature: String::new(),
        };
        anchor.signature = hex(self.0.sign(&anchor.message()?).as_ref());
        let path = directory.anchors();
        let file = match directory.open(path.clone(), false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let file = directory.open(path.clone(), true)?;
                directory.sync()?;
                file
            }
            opened => opened?,
        };
        let signed = directory.disk().read_beginning(&path, MAX_ANCHORS_BYTES)?.unwrap_or_default();
        let length = complete_lines_length(&signed) as u64;
        if length < signed.len() as u64 {
            // This line would continue a torn one.
            keep_torn_tail(directory.disk(), &path, length)?;
            file.truncate(length)?;
        }
        let mut line = serde_json::to_vec(&anchor)?;
        line.push(b'\n');
        file.append(&line).inspect_err(|_| {
            // The error is returned; readers skip a torn line.
            let _ = file.truncate(length);
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.len().is_multiple_of(2).then(|| digits.chunks(2).map(pair).collect()).flatten()
}

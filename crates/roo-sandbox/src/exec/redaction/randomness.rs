//! Randomness of a value: keys and generated passwords against words, names and references.

/// Length of the shortest value that can be classified.
const MIN_VALUE_BYTES: usize = 8;

/// Parts of values that stand for a secret in examples and templates.
const PLACEHOLDERS: [&str; 8] =
    ["example", "changeme", "change_me", "placeholder", "redacted", "your", "xxxx", "dummy"];

/// Beginnings of references to a secret.
const REFERENCES: [&str; 13] =
    ["$", "%", "<", "{", "[", "/", "./", "../", "~/", "process.", "os.environ", "secrets.", "&lt;"];

/// Reports whether a value is likely to be a secret, given that its name says so.
pub(super) fn looks_random(value: &[u8]) -> bool {
    let has = |is_kind: fn(&u8) -> bool| value.iter().any(is_kind);
    // Addresses of contracts are public.
    let is_contract = value.len() == 42 && value.starts_with(b"0x");
    value.len() >= MIN_VALUE_BYTES
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_alphabetic)
        && changes(value) >= least_changes(value.len())
        && entropy(value) >= 2.5
        && !is_contract
        && !value.windows(3).any(|three| three == b"://")
        && !is_placeholder(value)
}

/// Reports whether a value is a placeholder for a secret or a reference to one.
pub(super) fn is_placeholder(value: &[u8]) -> bool {
    let text = String::from_utf8_lossy(value).to_ascii_lowercase();
    let repeats = value.iter().all(|byte| Some(byte) == value.first());
    repeats
        || REFERENCES.iter().any(|begin| text.starts_with(begin))
        || PLACEHOLDERS.iter().any(|word| text.contains(word))
        || text.contains("${")
        || text.contains("{{")
        || text.ends_with("...")
}

/// Counts changes between small letters, capitals and digits. A word with a number at its end has one or two.
fn changes(value: &[u8]) -> usize {
    let kind = |byte: &u8| match byte {
        b'a'..=b'z' => Some(0_u8),
        b'A'..=b'Z' => Some(1),
        b'0'..=b'9' => Some(2),
        _ => None,
    };
    let mut kinds = value.iter().filter_map(kind);
    let Some(mut previous) = kinds.next() else { return 0 };
    kinds.filter(|kind| std::mem::replace(&mut previous, *kind) != *kind).count()
}

fn least_changes(length: usize) -> usize {
    if length < 20 { 4 } else { length / 5 }
}

/// Computes the Shannon entropy in bits per byte.
fn entropy(value: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in value {
        if let Some(count) = counts.get_mut(usize::from(*byte)) {
            *count += 1;
        }
    }
    let length = value.len() as f64;
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| f64::from(*count) / length)
        .map(|share| -share * share.log2())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_generated_passwords_are_random() {
        for value in [
            "3f2a9c0d4e5b6a7f8091a2b3c4d5e6f7",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzKEY9a",
            "dGhpc2lzYXRlc3Q0Mg==",
            "P@ssw0rd123",
            "x7Kq2Lm9",
            "550e8400-e29b-41d4-a716-446655440000",
            "Tr0ub4dor&3",
        ] {
            assert!(looks_random(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn words_references_and_examples_are_not() {
        for value in [
            "",
            "short1",
            "password",
            "getPassword",
            "my-app-secret-v2-prod",
            "sha256sum",
            "user2.token",
            "2024-01-01T00:00:00Z",
            "1234567890123",
            "${DB_PASSWORD1a2}",
            "$TOKEN1a2b3c",
            "<your-t0ken-h3re>",
            "/run/secrets/a1b2c3d4",
            "your_api_key_1a2b3c",
            "xxxxxxxx1a2b3c",
            "process.env.T0k3n1",
            "aaaaaaaaaaaa",
            "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48",
            "https://example.org/a1b2c3",
            "v1.2.3-beta.4",
            "ABC-1234",
        ] {
            assert!(!looks_random(value.as_bytes()), "{value}");
        }
    }
}

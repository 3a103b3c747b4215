//! Masking of secrets: any cutting of a text gives the same, a value that is given is nowhere to be seen, and what
//! is masked once stays so.

use std::sync::Arc;

use roo_sandbox::exec::redaction::{ExactValues, Redactor, redact};

use crate::{Input, cuts};

const PIECES: [&str; 40] = [
    "ghp_",
    "ghs_",
    "sk-ant-",
    "sk-proj-",
    "AKIA",
    "npm_",
    "eyJ",
    "cio",
    "://",
    "https://",
    "@",
    ":",
    "=",
    " = ",
    ": ",
    "\"",
    "'",
    "\\\"",
    "\\n",
    "\n",
    "password",
    "token",
    "apiKey",
    "Authorization",
    "Bearer ",
    "Basic ",
    "-----BEGIN RSA PRIVATE KEY-----",
    "-----END RSA PRIVATE KEY-----",
    "-----BEGIN ",
    "DEK-Info: x",
    "MIIEpAIBAAKCAQEAx7Kq2Lm9Zx4Tr0Vb8Nc1Wd6Yf3Hg5Js",
    "x7Kq2Lm9Zx4T",
    "0123456789abcdef",
    "a",
    "é",
    ".",
    "_",
    "-",
    "known-value",
    "known-value-longer",
];

/// The property.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let seed = input.byte();
    let mut text = String::new();
    while !input.is_empty() {
        match usize::from(input.byte()) {
            choice if choice < 224 => text.push_str(PIECES[choice % PIECES.len()]),
            choice => text.push_str(&String::from_utf8_lossy(input.bytes(choice - 223))),
        }
    }
    let mut values = ExactValues::default();
    values.add("ONE", "known-value");
    values.add("TWO", "known-value-longer");
    let values = Arc::new(values);
    let whole = redact(&text, &values).into_owned();
    assert!(!whole.contains("known-value"), "{text:?}");

    let mut redactor = Redactor::new(true, &values);
    let (mut found, mut from) = (String::new(), 0);
    for cut in cuts(text.len(), seed) {
        if text.is_char_boundary(cut) {
            found.push_str(&redactor.push(&text[from..cut]));
            from = cut;
        }
    }
    found.push_str(&redactor.push(&text[from..]));
    found.push_str(&redactor.finish());
    assert_eq!(found, whole, "{text:?}");
}

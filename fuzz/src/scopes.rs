//! The scopes of intents, and their file: nothing panics, what an exclusion names is never granted, and what
//! is said to be no wider grants no more.

use roo_formats::intents::{Covered, IntentFile, Scope};

use crate::Input;

const PIECES: [&str; 16] =
    ["src", "a", "*", "**", "?", "/", "/", ".", "..", "{a,b}", "[ab]", "!", "é", "A", "\u{200b}", "b.rs"];

fn text(input: &mut Input<'_>) -> String {
    let length = usize::from(input.byte() % 8);
    (0..length).map(|_| PIECES[usize::from(input.byte()) % PIECES.len()]).collect()
}

/// The property.
pub fn run(data: &[u8]) {
    let _ = IntentFile::parse(&String::from_utf8_lossy(data));
    let mut input = Input(data);
    let (one, other, excluded, path) =
        (text(&mut input), text(&mut input), text(&mut input), text(&mut input));
    let excluded = format!("!{excluded}");
    let grants = |scope: &Scope| matches!(scope.covers(&path), Covered::By(_));
    if let (Ok(narrow), Ok(wide)) = (Scope::parse(&[one.as_str(), &excluded]), Scope::parse(&[one.as_str()])) {
        assert!(!grants(&narrow) || grants(&wide), "{one:?} with {excluded:?} grants {path:?}");
    }
    if let (Ok(first), Ok(second)) = (Scope::parse(&[one.as_str()]), Scope::parse(&[other.as_str()])) {
        if first.wider_than(&second).is_empty() {
            assert!(!grants(&first) || grants(&second), "{one:?} is wider than {other:?} by {path:?}");
        }
        let _ = (first.overlaps(&second), first.prefixes());
    }
}

//! Keys as models write them, and as the protocol wants them.

use std::str::FromStr;

/// Keys by their names in the web's standard (`KeyboardEvent.key`), with code, key number and the text that they type. In
/// lower case, and by other names that models use.
const KEYS: &[(&[&str], &str, &str, u32, &str)] = &[
    (&["enter", "return"], "Enter", "Enter", 13, "\r"),
    (&["tab"], "Tab", "Tab", 9, ""),
    (&["escape", "esc"], "Escape", "Escape", 27, ""),
    (&["backspace"], "Backspace", "Backspace", 8, ""),
    (&["delete", "del"], "Delete", "Delete", 46, ""),
    (&["insert"], "Insert", "Insert", 45, ""),
    (&["space", "spacebar"], " ", "Space", 32, " "),
    (&["arrowup", "up"], "ArrowUp", "ArrowUp", 38, ""),
    (&["arrowdown", "down"], "ArrowDown", "ArrowDown", 40, ""),
    (&["arrowleft", "left"], "ArrowLeft", "ArrowLeft", 37, ""),
    (&["arrowright", "right"], "ArrowRight", "ArrowRight", 39, ""),
    (&["home"], "Home", "Home", 36, ""),
    (&["end"], "End", "End", 35, ""),
    (&["pageup"], "PageUp", "PageUp", 33, ""),
    (&["pagedown"], "PageDown", "PageDown", 34, ""),
    (&["f1"], "F1", "F1", 112, ""),
    (&["f2"], "F2", "F2", 113, ""),
    (&["f3"], "F3", "F3", 114, ""),
    (&["f4"], "F4", "F4", 115, ""),
    (&["f5"], "F5", "F5", 116, ""),
    (&["f6"], "F6", "F6", 117, ""),
    (&["f7"], "F7", "F7", 118, ""),
    (&["f8"], "F8", "F8", 119, ""),
    (&["f9"], "F9", "F9", 120, ""),
    (&["f10"], "F10", "F10", 121, ""),
    (&["f11"], "F11", "F11", 122, ""),
    (&["f12"], "F12", "F12", 123, ""),
];

/// Keys that are held meanwhile, with their bits in the protocol.
const MODIFIERS: &[(&[&str], u8)] = &[
    (&["alt", "option"], ALT),
    (&["control", "ctrl", "controlormeta"], CONTROL),
    (&["meta", "cmd", "command", "super"], META),
    (&["shift"], SHIFT),
];

const ALT: u8 = 1;
const CONTROL: u8 = 2;
const META: u8 = 4;
const SHIFT: u8 = 8;

/// A key, with the keys that are held meanwhile: `Control+A`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPress {
    pub(crate) key: String,
    pub(crate) code: String,
    pub(crate) number: u32,
    /// Text that it types.
    pub(crate) text: String,
    pub(crate) modifiers: u8,
}

/// Text that names no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no key {0:?}. Name one, such as Enter, Tab, ArrowDown, a or Control+A; type texts with the action type"
)]
pub struct InvalidKey(String);

impl KeyPress {
    /// The key of a character as it is typed; none where it has none on a keyboard of the United States, which is what
    /// the browser is told to have.
    pub(crate) fn typing(character: char) -> Option<Self> {
        let (key, code, number) = match character {
            'a'..='z' | 'A'..='Z' => {
                let upper = character.to_ascii_uppercase();
                (character, format!("Key{upper}"), u32::from(upper))
            }
            '0'..='9' => (character, format!("Digit{character}"), u32::from(character)),
            ' ' => (character, "Space".to_owned(), 32),
            '!'..='~' => (character, String::new(), 0),
            _ => return None,
        };
        Some(Self { key: key.to_string(), code, number, text: key.to_string(), modifiers: 0 })
    }

    fn named(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        if let Some((_, key, code, number, text)) =
            KEYS.iter().find(|(names, ..)| names.contains(&lower.as_str()))
        {
            return Some(Self {
                key: (*key).to_owned(),
                code: (*code).to_owned(),
                number: *number,
                text: (*text).to_owned(),
                modifiers: 0,
            });
        }
        let mut characters = name.chars();
        match (characters.next(), characters.next()) {
            (Some(character), None) => Self::typing(character),
            _ => None,
        }
    }
}

impl FromStr for KeyPress {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        let invalid = || InvalidKey(text.to_owned());
        // The plus sign is a key too.
        let (held, name) = match text.strip_suffix("++") {
            Some(held) => (held, "+"),
            None => text.rsplit_once('+').filter(|(_, name)| !name.is_empty()).unwrap_or(("", text)),
        };
        let mut key = Self::named(name).ok_or_else(invalid)?;
        for modifier in held.split('+').filter(|modifier| !modifier.is_empty()) {
            let lower = modifier.trim().to_ascii_lowercase();
            let known = MODIFIERS.iter().find(|(names, _)| names.contains(&lower.as_str()));
            key.modifiers |= known.ok_or_else(invalid)?.1;
        }
        // As a keyboard does: Control+A is not Control+Shift+A, and Shift+a types A.
        if key.modifiers != 0 && key.key.chars().count() == 1 {
            let is_shifted = key.modifiers & SHIFT != 0;
            for text in [&mut key.key, &mut key.text] {
                *text = if is_shifted { text.to_ascii_uppercase() } else { text.to_ascii_lowercase() };
            }
        }
        if key.modifiers & !SHIFT != 0 {
            key.text.clear();
        }
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (String, String, u8) {
        let key: KeyPress = text.parse().unwrap();
        (key.key, key.text, key.modifiers)
    }

    #[test]
    fn keys_have_the_names_of_the_web_and_those_that_models_use() {
        assert_eq!(read("Enter"), ("Enter".to_owned(), "\r".to_owned(), 0));
        assert_eq!(read("esc"), ("Escape".to_owned(), String::new(), 0));
        assert_eq!(read("a"), ("a".to_owned(), "a".to_owned(), 0));
        assert_eq!(read("+"), ("+".to_owned(), "+".to_owned(), 0));
        for wrong in ["", "Hyper+A", "hello", "Control+", "ü"] {
            assert!(wrong.parse::<KeyPress>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_shortcut_types_nothing() {
        assert_eq!(read("Control+A"), ("a".to_owned(), String::new(), CONTROL));
        assert_eq!(read("ctrl+shift+Tab"), ("Tab".to_owned(), String::new(), CONTROL | SHIFT));
        assert_eq!(read("Shift+A"), ("A".to_owned(), "A".to_owned(), SHIFT));
        assert_eq!(read("Shift+a"), ("A".to_owned(), "A".to_owned(), SHIFT));
        assert_eq!(read("Control++"), ("+".to_owned(), String::new(), CONTROL));
    }
}

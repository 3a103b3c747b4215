//! Configuration of package managers in the home directory, as commands see it: registries, proxies and certificates
//! without the secrets that such files hold as well.
//!
//! A file that can't be understood as far as that stays hidden.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

use roo_durable::read_regular;
use roo_sandbox::exec::redaction::{holds_secret, is_secret_name, url_without_credentials};
use roo_sandbox::exec::sandbox::Substitute;

/// The largest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 256 << 10;

/// Formats of configuration files.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    /// A key and a value in a line, with a `=` between them, such as INI and properties.
    Lines,
    /// The same, and inline tables.
    Toml,
    /// A key and a value in a line, with a `:` between them; what belongs to a key is indented further.
    Yaml,
    Xml,
}

/// The files, below the home directory.
const FILES: &[(&str, Format)] = &[
    (".npmrc", Format::Lines),
    (".yarnrc.yml", Format::Yaml),
    (".pip/pip.conf", Format::Lines),
    (".config/pip/pip.conf", Format::Lines),
    (".config/uv/uv.toml", Format::Toml),
    (".config/pypoetry/config.toml", Format::Toml),
    (".cargo/config", Format::Toml),
    (".cargo/config.toml", Format::Toml),
    (".m2/settings.xml", Format::Xml),
    (".gradle/gradle.properties", Format::Lines),
    (".nuget/NuGet/NuGet.Config", Format::Xml),
    (".condarc", Format::Yaml),
];

/// Keys of these files that are no secret by their names and belong to one.
const BESIDE_SECRETS: &[&str] = &["_auth", "certfile", "key", "keyfile", "npmauthident", "username"];

/// The files that there are and that hold secrets or are hidden, each with what commands see of it. Reads the disk.
pub(super) fn without_secrets(home: &Path, is_hidden: impl Fn(&Path) -> bool) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for (name, format) in FILES {
        let Ok(path) = home.join(name).canonicalize() else { continue };
        let Ok(text) = read_regular(&path, MAX_FILE_BYTES) else { continue };
        let shown = format.without_secrets(&text);
        if let Some(shown) = shown.filter(|shown| is_hidden(&path) || *shown != text) {
            found.push((path, shown));
        }
    }
    found
}

/// Returns the real paths of the files that there are, whatever they hold.
pub(super) fn files(home: &Path) -> impl Iterator<Item = PathBuf> {
    FILES.iter().filter_map(move |(name, _)| home.join(name).canonicalize().ok())
}

/// Writes what commands see into a private directory.
///
/// # Errors
/// When it can't be written.
pub(super) fn substitutes(files: &[(PathBuf, String)], private: &Path) -> io::Result<Vec<Substitute>> {
    let write = |(number, (place, text)): (usize, &(PathBuf, String))| {
        let source = private.join(format!("configuration-{number}"));
        let file = fs::File::options().write(true).create_new(true).mode(0o600).open(&source);
        file.and_then(|mut file| file.write_all(text.as_bytes()))?;
        Ok(Substitute { place: place.clone(), source, is_writable: false })
    };
    files.iter().enumerate().map(write).collect()
}

impl Format {
    /// The text without its secrets; none where that is not certain.
    fn without_secrets(self, text: &str) -> Option<String> {
        let shown = match self {
            Self::Lines => lines(text, '='),
            Self::Toml => lines(&without_inline_secrets(text), '='),
            Self::Yaml => lines(text, ':'),
            Self::Xml => without_secret_elements(text)?,
        };
        (!holds_secret(&shown)).then_some(shown)
    }
}

/// Without the lines that hold secrets, and what is indented below them.
fn lines(text: &str, separator: char) -> String {
    let mut shown = String::new();
    let mut left_out: Option<usize> = None;
    for line in text.split_inclusive('\n') {
        let indentation = line.len() - line.trim_start().len();
        if let Some(above) = left_out {
            if !line.trim().is_empty() && indentation > above {
                continue;
            }
            left_out = None;
        }
        // A comment may be a setting that was in use.
        let (key, value) = line.split_once(separator).unwrap_or((line, ""));
        if is_secret_key(key) || (!value.is_empty() && is_secret_value(value)) {
            left_out = Some(indentation);
            continue;
        }
        match url_without_credentials(value.trim().trim_matches(['"', '\''])) {
            Some(without) => {
                let quote = value.trim().chars().next().filter(|quote| matches!(quote, '"' | '\''));
                let quote = quote.map(String::from).unwrap_or_default();
                shown.push_str(&format!("{key}{separator} {quote}{without}{quote}\n"));
            }
            None => shown.push_str(line),
        }
    }
    shown
}

fn is_secret_key(key: &str) -> bool {
    let name = key.trim_matches(|character: char| !character.is_alphanumeric() && character != '_');
    let last = name.rsplit([':', '/', '.', ' ']).next().unwrap_or(name);
    let last = last.trim_matches(['"', '\'']);
    is_secret_name(last) || BESIDE_SECRETS.iter().any(|known| last.eq_ignore_ascii_case(known))
}

/// Returns whether a value is one that no line may show, but for the login in a URL.
fn is_secret_value(value: &str) -> bool {
    let value = value.trim().trim_matches(['"', '\'']);
    match url_without_credentials(value) {
        Some(without) => holds_secret(&without),
        None => holds_secret(value),
    }
}

fn without_inline_secrets(text: &str) -> String {
    static INLINE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r#"(?i),?\s*\b[\w-]*(?:token|password|secret)[\w-]*\s*=\s*(?:"(?:[^"\\]|\\.)*"|'[^']*')"#)
            .ok()
    });
    let Some(inline) = &*INLINE else { return String::new() };
    let without = |line: &str| match line.contains('{') {
        true => inline.replace_all(line, "").replace("{,", "{"),
        false => line.to_owned(),
    };
    text.split_inclusive('\n').map(without).collect()
}

/// Without the elements that hold logins; none where an element is not closed.
fn without_secret_elements(text: &str) -> Option<String> {
    const ELEMENTS: &[&str] = &[
        "servers",
        "username",
        "password",
        "passphrase",
        "privateKey",
        "packageSourceCredentials",
        "apikeys",
    ];
    let mut shown = text.to_owned();
    for element in ELEMENTS {
        let (begin, end) = (format!("<{element}>"), format!("</{element}>"));
        while let Some(from) = shown.find(&begin) {
            let until = shown.get(from..)?.find(&end)? + from + end.len();
            shown.replace_range(from..until, "");
        }
        if shown.contains(&end) || shown.contains(&format!("<{element} ")) {
            return None;
        }
    }
    Some(shown)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn registries_and_certificates_stay_and_logins_go() {
        let npm = "registry=https://npm.corp.example/\n@ours:registry=https://ada:s3cret@npm.corp.example/ours/\n\
                   //npm.corp.example/:_authToken=npm_x7Kq2Lm9Zx4Tr0Vb8Nc1\n//npm.corp.example/:username=ada\n\
                   //old/:_password = abc\n; //old/:_auth=YWRhOnNlY3JldA==\ncafile=/etc/ca.pem\nstrict-ssl=true\n";
        let shown = "registry=https://npm.corp.example/\n@ours:registry= https://npm.corp.example/ours/\n\
                     cafile=/etc/ca.pem\nstrict-ssl=true\n";
        assert_eq!(Format::Lines.without_secrets(npm).as_deref(), Some(shown));
        let yarn = "npmRegistryServer: \"https://npm.corp.example\"\nnpmRegistries:\n  \"//npm.corp.example\":\n    \
                    npmAuthToken: abcdef\n    npmPublishRegistry: x\nnpmAuthIdent:\n  a:b\nnodeLinker: pnp\n";
        let shown = "npmRegistryServer: \"https://npm.corp.example\"\nnpmRegistries:\n  \"//npm.corp.example\":\n    \
                     npmPublishRegistry: x\nnodeLinker: pnp\n";
        assert_eq!(Format::Yaml.without_secrets(yarn).as_deref(), Some(shown));
        let pip = "[global]\nindex-url = https://ada:s3cret@pypi.corp.example/simple\ntrusted-host = pypi.corp.example\n";
        let shown =
            "[global]\nindex-url = https://pypi.corp.example/simple\ntrusted-host = pypi.corp.example\n";
        assert_eq!(Format::Lines.without_secrets(pip).as_deref(), Some(shown));
    }

    #[test]
    fn tables_and_elements_lose_their_secrets() {
        let cargo = "[registries.ours]\nindex = \"sparse+https://crates.corp.example/\"\ntoken = \"Bearer x\"\n\n\
                     [registries]\ntheirs = { index = \"https://x.example/\", token = \"abc\" }\n[net]\noffline = false\n";
        let shown = "[registries.ours]\nindex = \"sparse+https://crates.corp.example/\"\n\n\
                     [registries]\ntheirs = { index = \"https://x.example/\" }\n[net]\noffline = false\n";
        assert_eq!(Format::Toml.without_secrets(cargo).as_deref(), Some(shown));
        let maven = "<settings><servers><server><id>a</id><password>x</password></server></servers>\
                     <mirrors><mirror><url>https://m.example</url></mirror></mirrors><proxies><proxy><host>h</host>\
                     <username>ada</username><password>x</password></proxy></proxies></settings>";
        let shown = "<settings><mirrors><mirror><url>https://m.example</url></mirror></mirrors>\
                     <proxies><proxy><host>h</host></proxy></proxies></settings>";
        assert_eq!(Format::Xml.without_secrets(maven).as_deref(), Some(shown));
        assert_eq!(Format::Xml.without_secrets("<servers><server>"), None);
        assert_eq!(
            Format::Lines.without_secrets("x ghp_a7Kq2Lm9Zx4Tr0Vb8Nc1Wd6Yf3Hg5Js7Kq2L").as_deref(),
            None
        );
    }

    #[test]
    fn only_what_is_hidden_or_holds_secrets_is_replaced() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        fs::create_dir(home.join(".cargo")).unwrap();
        for (name, text) in [
            (".npmrc", "registry=https://a/\n"),
            (".cargo/config.toml", "[net]\n"),
            (".cargo/config", "token = \"x\"\n"),
        ] {
            fs::write(home.join(name), text).unwrap();
        }
        let found = without_secrets(&home, |path| path.ends_with(".npmrc"));
        let npmrc = (home.join(".npmrc"), "registry=https://a/\n".to_owned());
        assert_eq!(found, [npmrc, (home.join(".cargo/config"), String::new())]);
    }
}

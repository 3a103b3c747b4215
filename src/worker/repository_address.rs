//! Addresses of repositories, taken apart as git takes them apart: which ones a worker clones is not decided by how they begin.

/// An address that git clones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RepositoryAddress {
    transport: Transport,
    user: Option<String>,
    /// In lower case; empty for a directory.
    host: String,
    /// None for the usual one.
    port: Option<u16>,
    path: String,
}

/// Form of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Transport {
    /// The path of a directory.
    Directory,
    /// `host:path`, by SSH, with a path from the home directory of the user there.
    HostAndPath,
    /// The scheme of a URL.
    Url(String),
}

/// Reasons why an address is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidAddress {
    /// It may be shown nowhere.
    #[error("it holds a password")]
    Password,
    #[error("it is not an address such as https://example.com/team/, git@example.com:team/ or /srv/git/")]
    Form,
}

impl RepositoryAddress {
    /// Reads an address.
    ///
    /// # Errors
    /// [`InvalidAddress`], also for a path that goes up.
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidAddress> {
        if text.contains(|c: char| c.is_control() || c.is_whitespace() || c == '\\') {
            return Err(InvalidAddress::Form);
        }
        let address = if let Some((scheme, rest)) = text.split_once("://") {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            Self::from_url(scheme, authority, path)?
        } else if text.starts_with('/') {
            let (transport, path) = (Transport::Directory, text.to_owned());
            Self { transport, user: None, host: String::new(), port: None, path }
        } else {
            let (login, path) = text.split_once(':').ok_or(InvalidAddress::Form)?;
            let (user, host) = user_and_host(login)?;
            let (transport, path) = (Transport::HostAndPath, path.to_owned());
            Self { transport, user, host: host_name(host)?, port: None, path }
        };
        if goes_up(&address.path) { Err(InvalidAddress::Form) } else { Ok(address) }
    }

    fn from_url(scheme: &str, authority: &str, path: &str) -> Result<Self, InvalidAddress> {
        let is_scheme = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '+' | '-');
        if scheme.is_empty() || !scheme.chars().all(is_scheme) {
            return Err(InvalidAddress::Form);
        }
        let (user, rest) = user_and_host(authority)?;
        let (name, port) = match rest.rsplit_once(':').filter(|_| !rest.ends_with(']')) {
            Some((name, port)) => {
                let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
                let port = port.parse::<u16>().ok().filter(|_| is_number);
                (name, Some(port.ok_or(InvalidAddress::Form)?))
            }
            None => (rest, None),
        };
        let usual = match scheme {
            "https" => Some(443),
            "ssh" => Some(22),
            _ => None,
        };
        let host = match (scheme, authority) {
            ("file", "") => String::new(),
            _ => host_name(name)?,
        };
        let transport = Transport::Url(scheme.to_owned());
        Ok(Self { transport, user, host, port: port.filter(|_| port != usual), path: path.to_owned() })
    }

    /// Returns whether another address is this one, or is below it: a path ends where a `/` follows.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let is_there = (&self.transport, &self.user, &self.host, self.port)
            == (&other.transport, &other.user, &other.host, other.port);
        let top = self.path.trim_end_matches('/');
        let below = other.path.strip_prefix(top);
        // The paths of `host:path` begin without one.
        let is_whole = self.transport == Transport::HostAndPath && self.path.is_empty();
        is_there && below.is_some_and(|rest| is_whole || rest.is_empty() || rest.starts_with('/'))
    }
}

/// The user's name, and the rest.
fn user_and_host(text: &str) -> Result<(Option<String>, &str), InvalidAddress> {
    let Some((user, host)) = text.rsplit_once('@') else { return Ok((None, text)) };
    if user.contains(':') {
        return Err(InvalidAddress::Password);
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '~' | '-' | '+' | '%');
    if user.is_empty() || user.starts_with('-') || !user.chars().all(is_name) {
        return Err(InvalidAddress::Form);
    }
    Ok((Some(user.to_owned()), host))
}

/// The name or number of a machine, in lower case.
fn host_name(text: &str) -> Result<String, InvalidAddress> {
    let number = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let is_host = match number {
        Some(number) => number.chars().all(|c| c.is_ascii_hexdigit() || matches!(c, ':' | '.')),
        None => text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')),
    };
    if text.is_empty() || text.starts_with('-') || !is_host {
        return Err(InvalidAddress::Form);
    }
    Ok(text.to_ascii_lowercase())
}

/// Returns whether a path has `..`, as it is or encoded, or goes on as no path of a repository does.
fn goes_up(path: &str) -> bool {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let encoded = (byte == b'%').then(|| after.get(..2)).flatten();
        let encoded = encoded.and_then(|digits| std::str::from_utf8(digits).ok());
        match encoded.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                decoded.push(byte);
                rest = after;
            }
        }
    }
    let is_strange = |byte: &u8| byte.is_ascii_control() || matches!(byte, b'\\' | b'?' | b'#');
    decoded.iter().any(is_strange) || decoded.split(|byte| *byte == b'/').any(|name| name == b"..")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(allowed: &str, submitted: &str) -> Result<bool, InvalidAddress> {
        let allowed = RepositoryAddress::parse(allowed).unwrap();
        Ok(allowed.covers(&RepositoryAddress::parse(submitted)?))
    }

    #[test]
    fn an_address_allows_itself_and_what_is_below() {
        for (allowed, submitted) in [
            ("https://git.example.com", "https://git.example.com/x"),
            ("https://git.example.com/", "https://GIT.example.com:443/x"),
            ("https://github.com/acme", "https://github.com/acme"),
            ("https://github.com/acme/", "https://github.com/acme/one.git"),
            ("https://github.com/acme", "https://github.com/acme/a%20b"),
            ("ssh://git@host:2222/team", "ssh://git@host:2222/team/one"),
            ("ssh://git@[::1]/team", "ssh://git@[::1]/team/one"),
            ("git@host:team", "git@host:team/one.git"),
            ("git@host:", "git@host:team/one.git"),
            ("/srv/git", "/srv/git/one.git"),
            ("file:///srv/git/", "file:///srv/git/one.git"),
        ] {
            assert_eq!(covers(allowed, submitted), Ok(true), "{allowed} {submitted}");
        }
    }

    #[test]
    fn an_address_that_only_begins_alike_is_another_one() {
        for (allowed, submitted) in [
            ("https://git.example.com", "https://git.example.com.evil.org/x"),
            ("https://git.example.com", "https://git.example.com@evil.org/x"),
            ("https://git.example.com", "https://git.example.com:8443/x"),
            ("https://git.example.com", "https://user@git.example.com/x"),
            ("https://git.example.com", "ssh://git.example.com/x"),
            ("https://github.com/acme", "https://github.com/acme-evil"),
            ("https://github.com/acme", "https://github.com/acme-evil/x"),
            ("https://github.com/acme/one", "https://github.com/acme"),
            ("https://github.com/acme", "https://github.com/acme%2fone"),
            ("ssh://git@host", "ssh://git@host.evil.org/x"),
            ("ssh://git@host", "ssh://root@host/x"),
            ("git@host:team", "git@host:team-evil/x"),
            ("git@host:team", "git@host:/team/x"),
            ("git@host:team", "git@host.evil.org:team/x"),
            ("/srv/git", "/srv/git-evil/x"),
            ("/srv/git", "file:///srv/git/x"),
        ] {
            assert_eq!(covers(allowed, submitted), Ok(false), "{allowed} {submitted}");
        }
    }

    #[test]
    fn addresses_with_passwords_and_strange_ones_are_refused() {
        for text in ["https://me:secret@git.example.com/x", "https://git.example.com:x@evil.org/x"] {
            assert_eq!(RepositoryAddress::parse(text), Err(InvalidAddress::Password), "{text}");
        }
        for text in [
            "",
            "x",
            "../x",
            "https://",
            "HTTPS://host/x",
            "https://host:/x",
            "https://host:+1/x",
            "https://a@b@host/x",
            "https://host?.example.com/x",
            "https://host\\@evil.org/x",
            "https://host/team/../x",
            "https://host/team/%2e%2E/x",
            "https://host/team%2f..%2Fx",
            "https://host/team/?x",
            "ssh://-oProxyCommand=x/y",
            "-oProxyCommand=x:y",
            "git@host:../x",
            "ext::sh -c x",
        ] {
            assert_eq!(RepositoryAddress::parse(text), Err(InvalidAddress::Form), "{text}");
        }
    }
}

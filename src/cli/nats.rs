//! The NATS server of `bridge`, `worker` and `submit`: by options, or by the variables of NATS's own programs.

use std::path::PathBuf;

use super::CliError;
use super::arguments::Nats;
use crate::nats::{Connection, Server};

/// Connects as the options say.
pub(super) async fn connect(nats: &Nats, name: &str) -> Result<Connection, CliError> {
    let server = server(nats, |name| std::env::var(name).ok().filter(|value| !value.is_empty()))?;
    Ok(Connection::open(&server, name).await?)
}

/// The server that options and variables name. Without either, nothing is connected to.
fn server(nats: &Nats, variable: impl Fn(&str) -> Option<String>) -> Result<Server, CliError> {
    let address = match (&nats.server, variable("NATS_URL")) {
        (Some(address), _) => address.clone(),
        (None, Some(text)) => text.parse()?,
        (None, None) => {
            return Err(CliError::Usage(
                "no NATS server is named: use --server URL, or the variable NATS_URL".to_owned(),
            ));
        }
    };
    let file = |given: &Option<PathBuf>, name| given.clone().or_else(|| variable(name).map(PathBuf::from));
    let certificate = match (file(&nats.certificate, "NATS_CERT"), file(&nats.key, "NATS_KEY")) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => {
            return Err(CliError::Usage(
                "a client certificate needs its key: use --certificate and --key together".to_owned(),
            ));
        }
    };
    Ok(Server {
        address,
        prefix: nats.prefix.clone(),
        credentials: file(&nats.credentials, "NATS_CREDS"),
        authorities: file(&nats.ca, "NATS_CA"),
        certificate,
        plaintext: nats.plaintext,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Nats {
        Nats {
            server: None,
            credentials: None,
            ca: None,
            certificate: None,
            key: None,
            prefix: "roo".parse().unwrap(),
            plaintext: false,
        }
    }

    #[test]
    fn options_come_before_variables() {
        let variables = |name: &str| match name {
            "NATS_URL" => Some("tls://one.example.com".to_owned()),
            "NATS_CREDS" => Some("/one.creds".to_owned()),
            _ => None,
        };
        let by_variables = server(&options(), variables).unwrap();
        assert_eq!(by_variables.address.to_string(), "one.example.com:4222");
        assert_eq!(by_variables.credentials, Some("/one.creds".into()));
        let address = Some("tls://two.example.com".parse().unwrap());
        let given = Nats { server: address, credentials: Some("/two.creds".into()), ..options() };
        let by_options = server(&given, variables).unwrap();
        assert_eq!(by_options.address.to_string(), "two.example.com:4222");
        assert_eq!(by_options.credentials, Some("/two.creds".into()));
    }

    #[test]
    fn without_a_server_nothing_is_connected_to() {
        let error = server(&options(), |_| None).unwrap_err();
        assert!(error.is_usage(), "{error}");
        let halves = Nats { key: Some("/key.pem".into()), ..options() };
        let named = |name: &str| (name == "NATS_URL").then(|| "nats://localhost".to_owned());
        assert!(server(&halves, named).unwrap_err().is_usage());
    }
}

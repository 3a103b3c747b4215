//! SOCKS5 (RFC 1928): the server for commands, and the client for the user's own proxy.
//!
//! The server resolves names. It serves only CONNECT, without authentication: only the command can reach the listener.

use std::io;
use std::net::IpAddr;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::host::{Destination, Host};

/// The first byte of a SOCKS5 client.
pub(super) const VERSION: u8 = 5;

const NO_AUTHENTICATION: u8 = 0;
const PASSWORD: u8 = 2;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// The outcome of a request, as a code of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Succeeded = 0,
    Failed = 1,
    NotAllowed = 2,
    HostUnreachable = 4,
    Refused = 5,
    TimedOut = 6,
    NoSuchCommand = 7,
    NoSuchAddress = 8,
}

/// Reads a client's greeting and request. Returns none if it was answered with an error.
pub(super) async fn accept<S>(stream: &mut S) -> io::Result<Option<Destination>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let [version, methods] = read(stream).await?;
    if version != VERSION {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut offered = vec![0; methods.into()];
    stream.read_exact(&mut offered).await?;
    if !offered.contains(&NO_AUTHENTICATION) {
        stream.write_all(&[VERSION, NO_METHOD]).await?;
        stream.flush().await?;
        return Ok(None);
    }
    stream.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
    stream.flush().await?;

    let [version, command, _, kind] = read(stream).await?;
    if version != VERSION {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let host = match kind {
        IPV4 => Host::parse(&IpAddr::from(read::<4, _>(stream).await?).to_string()),
        IPV6 => Host::parse(&IpAddr::from(read::<16, _>(stream).await?).to_string()),
        NAME => {
            let [length] = read(stream).await?;
            let mut name = vec![0; length.into()];
            stream.read_exact(&mut name).await?;
            Host::parse(&String::from_utf8_lossy(&name))
        }
        _ => {
            reply(stream, Reply::NoSuchAddress).await?;
            return Ok(None);
        }
    };
    let port = u16::from_be_bytes(read(stream).await?);
    if command != CONNECT {
        reply(stream, Reply::NoSuchCommand).await?;
        return Ok(None);
    }
    match host.and_then(|host| Destination::new(host, port)) {
        Ok(destination) => Ok(Some(destination)),
        Err(_) => {
            reply(stream, Reply::Failed).await?;
            Ok(None)
        }
    }
}

/// Answers a request.
pub(super) async fn reply<S: AsyncWrite + Unpin>(stream: &mut S, reply: Reply) -> io::Result<()> {
    // The local address of the outgoing connection is not disclosed.
    stream.write_all(&[VERSION, reply as u8, 0, IPV4, 0, 0, 0, 0, 0, 0]).await?;
    stream.flush().await
}

/// Asks a SOCKS5 proxy for a connection. A name is resolved by the proxy.
pub(super) async fn request<S>(
    stream: &mut S,
    destination: &Destination,
    credentials: Option<(&str, &str)>,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let method = if credentials.is_some() { PASSWORD } else { NO_AUTHENTICATION };
    stream.write_all(&[VERSION, 1, method]).await?;
    stream.flush().await?;
    if read(stream).await? != [VERSION, method] {
        return Err(failed("the proxy doesn't support this login method"));
    }
    if let Some((user, password)) = credentials {
        let mut login = vec![1];
        push_short(&mut login, user)?;
        push_short(&mut login, password)?;
        stream.write_all(&login).await?;
        stream.flush().await?;
        let [_, status] = read(stream).await?;
        if status != 0 {
            return Err(failed("the proxy rejected the login"));
        }
    }
    let mut request = vec![VERSION, CONNECT, 0];
    match &destination.host {
        Host::Address(IpAddr::V4(address)) => {
            request.push(IPV4);
            request.extend(address.octets());
        }
        Host::Address(IpAddr::V6(address)) => {
            request.push(IPV6);
            request.extend(address.octets());
        }
        Host::Name(name) => {
            request.push(NAME);
            push_short(&mut request, name)?;
        }
    }
    request.extend(destination.port.to_be_bytes());
    stream.write_all(&request).await?;
    stream.flush().await?;
    let [version, status, _, kind] = read(stream).await?;
    if version != VERSION || status != Reply::Succeeded as u8 {
        return Err(failed(&format!("the proxy answered with code {status}")));
    }
    let length: usize = match kind {
        IPV4 => 4,
        IPV6 => 16,
        NAME => {
            let [length] = read(stream).await?;
            length.into()
        }
        _ => return Err(io::ErrorKind::InvalidData.into()),
    };
    // The address that the proxy connects from, and its port.
    stream.read_exact(&mut vec![0; length + 2]).await?;
    Ok(())
}

/// Appends a text with its length in front.
fn push_short(bytes: &mut Vec<u8>, text: &str) -> io::Result<()> {
    let length = u8::try_from(text.len()).map_err(|_| failed("a name or password is too long for SOCKS"))?;
    bytes.push(length);
    bytes.extend(text.as_bytes());
    Ok(())
}

async fn read<const N: usize, S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

fn failed(what: &str) -> io::Error {
    io::Error::other(what.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::duplex;

    use super::*;

    /// Sends bytes as a client. Returns the request and the reply.
    async fn exchange(sent: &[u8]) -> (io::Result<Option<Destination>>, Vec<u8>) {
        let (mut client, mut server) = duplex(1024);
        client.write_all(sent).await.unwrap();
        client.shutdown().await.unwrap();
        let accepted = accept(&mut server).await;
        drop(server);
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        (accepted, answer)
    }

    async fn asked(sent: &[u8]) -> Option<String> {
        exchange(sent).await.0.unwrap().map(|destination| destination.to_string())
    }

    #[tokio::test]
    async fn a_request_names_its_destination() {
        let name = b"\x05\x01\x00\x05\x01\x00\x03\x0bExample.com\x01\xbb";
        assert_eq!(asked(name).await.as_deref(), Some("example.com:443"));
        assert_eq!(
            asked(b"\x05\x02\x02\x00\x05\x01\x00\x01\x7f\0\0\x01\0\x50").await.as_deref(),
            Some("127.0.0.1:80")
        );
        let mapped = b"\x05\x01\x00\x05\x01\x00\x04\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\x01\0\x50";
        assert_eq!(asked(mapped).await.as_deref(), Some("127.0.0.1:80"));
        let spelled = b"\x05\x01\x00\x05\x01\x00\x03\x0a0x7f000001\0\x50";
        assert_eq!(asked(spelled).await.as_deref(), Some("127.0.0.1:80"));
    }

    #[tokio::test]
    async fn what_is_not_served_is_answered() {
        for (sent, code) in [
            // A password only.
            (&b"\x05\x01\x02"[..], &[5, 0xff][..]),
            // BIND and UDP ASSOCIATE.
            (b"\x05\x01\x00\x05\x02\x00\x01\x01\x02\x03\x04\0\x50", &[5, 0, 5, 7]),
            (b"\x05\x01\x00\x05\x03\x00\x01\x01\x02\x03\x04\0\x50", &[5, 0, 5, 7]),
            (b"\x05\x01\x00\x05\x01\x00\x05", &[5, 0, 5, 8]),
            // No host, and port 0.
            (b"\x05\x01\x00\x05\x01\x00\x03\x03a/b\0\x50", &[5, 0, 5, 1]),
            (b"\x05\x01\x00\x05\x01\x00\x03\x01a\0\0", &[5, 0, 5, 1]),
        ] {
            let (accepted, answer) = exchange(sent).await;
            assert!(matches!(accepted, Ok(None)), "{sent:?}: {accepted:?}");
            assert!(answer.starts_with(code), "{sent:?}: {answer:?}");
        }
        for cut in [
            &b"\x05"[..],
            b"\x05\x01",
            b"\x05\x01\x00\x05",
            b"\x05\x01\x00\x05\x01\x00\x03\x0bExa",
            b"\x04\x01",
        ] {
            assert!(exchange(cut).await.0.is_err(), "{cut:?}");
        }
    }

    #[tokio::test]
    async fn our_client_and_our_server_understand_each_other() {
        for asked in ["example.com:443", "1.2.3.4:80", "[2001:db8::1]:8080"] {
            let destination = Destination::parse(asked, None).unwrap();
            let (mut client, mut server) = duplex(1024);
            let serve = async {
                let found = accept(&mut server).await.unwrap();
                reply(&mut server, Reply::Succeeded).await.unwrap();
                // Of who speaks first nothing is lost.
                server.write_all(b"banner").await.unwrap();
                found
            };
            let (requested, found) = tokio::join!(request(&mut client, &destination, None), serve);
            requested.unwrap();
            assert_eq!(found, Some(destination));
            let mut banner = [0; 6];
            client.read_exact(&mut banner).await.unwrap();
            assert_eq!(&banner, b"banner");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        #[test]
        fn any_bytes_end_in_a_destination_or_not_at_all(
            bytes in prop::collection::vec(any::<u8>(), 0..80),
            greeted: bool,
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let sent = if greeted { [&b"\x05\x01\x00\x05\x01\x00"[..], &bytes].concat() } else { bytes };
            let (accepted, answer) = runtime.block_on(exchange(&sent));
            if let Ok(Some(destination)) = accepted {
                prop_assert_eq!(Destination::parse(&destination.to_string(), None), Ok(destination));
            }
            prop_assert!(answer.len() <= 12);
        }
    }
}

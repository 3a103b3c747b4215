//! Messages of the base protocol: a header with the length, then JSON.

use std::io;

use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The longest message, in bytes. A longer one ends the connection.
const MESSAGE: usize = 32 << 20;

/// The longest header, in bytes.
const HEADER: u64 = 4 << 10;

/// Reads the next message; none at the end of the stream.
///
/// # Errors
/// When the stream can't be read, or what comes is no message or too long.
pub(crate) async fn read(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Value>> {
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut length = None;
    let mut header = stream.take(HEADER);
    loop {
        let mut line = Vec::new();
        if header.read_until(b'\n', &mut line).await? == 0 {
            return match (header.limit(), length) {
                (HEADER, None) => Ok(None),
                _ => Err(invalid("a header that is cut off or too long")),
            };
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.trim();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.trim().eq_ignore_ascii_case("content-length")
        {
            length = Some(value.trim().parse::<usize>().map_err(|_| invalid("a length that is no number"))?);
        }
    }
    let length = length.ok_or_else(|| invalid("a header without a length"))?;
    if length > MESSAGE {
        return Err(invalid("a message that is too long"));
    }
    // Grows with what comes, not with what the header claims.
    let mut body = Vec::new();
    if stream.take(length as u64).read_to_end(&mut body).await? < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_slice(&body).map(Some).map_err(|_| invalid("a message that is not JSON"))
}

/// Writes a message.
///
/// # Errors
/// When the stream can't be written.
pub(crate) async fn write(stream: &mut (impl AsyncWrite + Unpin), message: &Value) -> io::Result<()> {
    let body = message.to_string();
    stream.write_all(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).await?;
    stream.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    async fn read_text(text: &str) -> Result<Option<Value>, String> {
        read(&mut text.as_bytes()).await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn what_is_written_is_read() {
        let mut stream = Vec::new();
        let message = json!({ "id": 1, "result": "ä" });
        write(&mut stream, &message).await.unwrap();
        let mut stream = stream.as_slice();
        assert_eq!(read(&mut stream).await.unwrap(), Some(message));
        assert_eq!(read(&mut stream).await.unwrap(), None);
    }

    #[tokio::test]
    async fn what_is_no_message_is_an_error() {
        for (text, error) in [
            ("x\r\n\r\n{}", "without a length"),
            ("Content-Length: many\r\n\r\n", "no number"),
            ("Content-Length: 2\r\n", "cut off"),
            ("Content-Length: 9\r\n\r\n{}", "unexpected end of file"),
            ("Content-Length: 2\r\n\r\n}{", "not JSON"),
            ("Content-Length: 999999999999\r\n\r\n", "too long"),
        ] {
            let found = read_text(text).await.unwrap_err();
            assert!(found.contains(error), "{text}: {found}");
        }
        let endless = "x".repeat(HEADER as usize + 1);
        assert!(read_text(&endless).await.is_err());
        let kind = "Content-Type: x\r\ncontent-length: 2\r\n\r\n{}";
        assert_eq!(read_text(kind).await, Ok(Some(json!({}))));
    }
}

//! The standard streams, as the command line writes to them.
//!
//! What models, tools and repositories say goes to a reader of a pipe just as it is. On a terminal it could move
//! the cursor, change the title or the clipboard, or turn the direction of text: there all that is not plain is
//! shown as `<U+XXXX>`. Escape sequences of our own (colours, the tree at the bottom) are written by those who
//! make them, past these streams, around text that is plain already.

use std::io::{self, IsTerminal as _, Write};

use roo_text::render::visible;

/// Name of the user at a terminal, in events and rules.
pub(super) const TERMINAL_USER: &str = roo_engine::engine::TERMINAL;

/// The most of a line that is buffered, in bytes.
const HELD: usize = 64 << 10;

/// Standard output.
pub(super) fn stdout() -> PlainOnTerminal<io::Stdout> {
    let out = io::stdout();
    PlainOnTerminal { is_terminal: out.is_terminal(), out, line: Vec::new() }
}

/// Standard error.
pub(super) fn stderr() -> PlainOnTerminal<io::Stderr> {
    let out = io::stderr();
    PlainOnTerminal { is_terminal: out.is_terminal(), out, line: Vec::new() }
}

/// Returns whether standard error takes colours: it is a terminal that knows them, and the user wants them.
pub(super) fn has_colours() -> bool {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    io::stderr().is_terminal() && wanted && !is_dumb()
}

/// Returns whether the cursor of standard error can be moved.
pub(super) fn moves_cursor() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_some() && !is_dumb()
}

/// Returns whether the cursor of standard output can be moved.
pub(super) fn stdout_moves_cursor() -> bool {
    io::stdout().is_terminal() && std::env::var_os("TERM").is_some() && !is_dumb()
}

/// A terminal that knows no sequences says so.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// A stream whose text is made safe to show where it is a terminal, line by line.
pub(super) struct PlainOnTerminal<W: Write> {
    out: W,
    is_terminal: bool,
    /// The beginning of a line that has not ended.
    line: Vec<u8>,
}

impl<W: Write> PlainOnTerminal<W> {
    /// Shows the first so many bytes of what is buffered.
    fn show(&mut self, length: usize) -> io::Result<()> {
        let rest = self.line.split_off(length);
        let held = std::mem::replace(&mut self.line, rest);
        let text = String::from_utf8_lossy(&held);
        // Line ends of other systems are no trick.
        self.out.write_all(visible(&text.replace("\r\n", "\n")).as_bytes())
    }
}

impl<W: Write> Write for PlainOnTerminal<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_terminal {
            return self.out.write(bytes);
        }
        self.line.extend_from_slice(bytes);
        let whole = self.line.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let whole = if self.line.len() > HELD { self.line.len() } else { whole };
        if whole > 0 {
            self.show(whole)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.line.is_empty() {
            self.show(self.line.len())?;
        }
        self.out.flush()
    }
}

impl<W: Write> Drop for PlainOnTerminal<W> {
    fn drop(&mut self) {
        // Whoever wants to hear of errors flushes before.
        let _ = self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(is_terminal: bool, pieces: &[&[u8]]) -> String {
        let mut out = Vec::new();
        let mut stream = PlainOnTerminal { out: &mut out, is_terminal, line: Vec::new() };
        pieces.iter().for_each(|piece| stream.write_all(piece).unwrap());
        drop(stream);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_terminal_is_shown_what_would_steer_it() {
        let hostile = b"a\x1b]52;c;AAAA\x07b\xc2\x9b2Jc\xe2\x80\xaed\re\n";
        let shown = "a<U+001B>]52;c;AAAA<U+0007>b<U+009B>2Jc<U+202E>d<U+000D>e\n";
        assert_eq!(written(true, &[hostile]), shown);
        // However it arrives.
        let pieces: Vec<&[u8]> = hostile.chunks(1).collect();
        assert_eq!(written(true, &pieces), shown);
        assert_eq!(written(true, &[b"a\x9bb"]), "a\u{fffd}b", "a line that does not end, and no UTF-8");
        assert_eq!(written(true, &["🏗️ Žluť\tx\r\n".as_bytes()]), "🏗️ Žluť\tx\n");
        let long = vec![b'x'; HELD + 5];
        assert_eq!(written(true, &[&long, b"\x1b"]).len(), HELD + 5 + "<U+001B>".len());
    }

    #[test]
    fn a_pipe_gets_what_was_written() {
        assert_eq!(written(false, &[b"a\x1b[2Jb\r\n", b"c"]), "a\u{1b}[2Jb\r\nc");
    }
}

//! Connections of `ssh` by the proxy of a command. OpenSSH takes no notice of the variables that name a proxy, so git starts
//! it with this program as its `ProxyCommand`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::process::ExitCode;
use std::thread;

use rustix::stdio::{stdin, stdout};

use super::helper_program::HELPER;
use roo_process::own_program_file;

/// The role in which this program connects.
pub(super) const PROXY_COMMAND: &str = "proxy-command";
/// The longest header or error of the proxy, in bytes.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// Returns the line by which git is to start `ssh`, as the value of `GIT_SSH_COMMAND`, where the proxy serves this port of
/// the loopback; none where the file of this program is not known.
pub fn git_ssh_command(port: u16) -> Option<String> {
    let program = own_program_file().ok()?;
    // OpenSSH expands what begins with a percent sign, and has a shell start the rest.
    let program = program.to_str()?.replace('%', "%%");
    let port = port.to_string();
    let connect = shlex::try_join([program.as_str(), HELPER, PROXY_COMMAND, &port]).ok()?;
    shlex::try_join(["ssh", "-o", &format!("ProxyCommand={connect} %h %p")]).ok()
}

/// Connects standard input and output to a host. The arguments are the port of the proxy, the host and its port.
pub(super) fn run(arguments: &[String]) -> ExitCode {
    let [proxy, host, port] = arguments else { return ExitCode::FAILURE };
    let (Ok(proxy), Ok(port)) = (proxy.parse(), port.parse()) else { return ExitCode::FAILURE };
    match connect(proxy, host, port).and_then(pass) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

/// Has the proxy connect to a host.
fn connect(proxy: u16, host: &str, port: u16) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy))?;
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    write!(stream, "CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n")?;
    let head = read_head(&mut stream)?;
    if head.split(' ').nth(1) == Some("200") {
        return Ok(stream);
    }
    // The proxy says why, and which rule would allow it.
    let length = |line: &str| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok();
    let length: usize = head.lines().find_map(length).unwrap_or_default();
    let mut reason = vec![0; length.min(MAX_ANSWER_BYTES)];
    stream.read_exact(&mut reason)?;
    Err(io::Error::other(String::from_utf8_lossy(&reason).trim_end().to_owned()))
}

/// Reads to the empty line, and no byte of what comes after it.
fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == MAX_ANSWER_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Passes on what comes from either side, until the host has ended the connection.
fn pass(mut stream: TcpStream) -> io::Result<()> {
    let mut input = File::from(stdin().try_clone_to_owned()?);
    let mut output = File::from(stdout().try_clone_to_owned()?);
    let mut to_host = stream.try_clone()?;
    thread::spawn(move || {
        // Where the host takes no more, its end of the connection says so.
        let _ = copy(&mut input, &mut to_host);
        let _ = to_host.shutdown(Shutdown::Write);
    });
    copy(&mut stream, &mut output)
}

fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = [0; 16 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => to.write_all(buffer.get(..length).unwrap_or_default())?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A proxy that answers one request with this text. Gives its port, and what it was asked.
    fn proxy(answer: &'static str) -> (u16, thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let serve = move || {
            let (mut stream, _) = listener.accept().unwrap();
            let head = read_head(&mut stream).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            head
        };
        (port, thread::spawn(serve))
    }

    #[test]
    fn what_follows_the_answer_is_the_hosts() {
        let (port, served) = proxy("HTTP/1.1 200 OK\r\nx: y\r\n\r\nSSH-2.0-x\r\n");
        let mut text = String::new();
        connect(port, "github.com", 22).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "SSH-2.0-x\r\n");
        assert_eq!(served.join().unwrap(), "CONNECT github.com:22 HTTP/1.1\r\nHost: github.com:22\r\n\r\n");
        let (port, served) = proxy("HTTP/1.1 200 OK\r\n\r\n");
        connect(port, "::1", 22).unwrap();
        assert!(served.join().unwrap().starts_with("CONNECT [::1]:22 HTTP"));
    }

    #[test]
    fn a_refusal_is_told() {
        let (port, _served) = proxy("HTTP/1.1 403 Forbidden\r\nContent-Length: 8\r\n\r\nno rule\n");
        assert_eq!(connect(port, "github.com", 22).unwrap_err().to_string(), "no rule");
    }

    #[test]
    fn a_shell_takes_the_line_apart_as_it_is_meant() {
        let words = shlex::split(&git_ssh_command(1234).unwrap()).unwrap();
        let [ssh, option, proxy] = words.as_slice() else { panic!("{words:?}") };
        assert_eq!((ssh.as_str(), option.as_str()), ("ssh", "-o"));
        assert!(
            proxy.starts_with("ProxyCommand=") && proxy.ends_with(" proxy-command 1234 %h %p"),
            "{proxy}"
        );
    }
}

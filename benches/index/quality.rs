//! Questions of developers over public repositories: how many have an answer among the first ten results.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use roo_formats::config::{Profile, Provider};
use roo_index::{Embedder, EmbedderSource};
use roo_model::providers::Embeddings;
use serde::Deserialize;
use tempfile::TempDir;

use super::{Indexed, Outcome, vectors};

/// Results that are looked at.
const FIRST: usize = 10;

/// Words of questions that `rg` isn't asked for.
const STOP_WORDS: &[&str] = &[
    "a", "after", "all", "and", "another", "are", "as", "at", "before", "between", "both", "by", "does",
    "each", "for", "from", "has", "have", "how", "in", "into", "is", "it", "its", "of", "on", "one", "only",
    "or", "so", "such", "that", "the", "their", "they", "to", "until", "what", "when", "where", "which",
    "who", "whoever", "whose", "with", "without",
];

#[derive(Deserialize)]
struct Questions {
    repository: Vec<Repository>,
}

#[derive(Deserialize)]
struct Repository {
    name: String,
    language: String,
    registry: Registry,
    version: String,
    root: PathBuf,
    questions: Vec<Asked>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Registry {
    Pypi,
    Crates,
    Npm,
}

#[derive(Deserialize)]
struct Asked {
    ask: String,
    files: Vec<String>,
}

/// Number of questions with an answer among the first ten, and the sum of the reciprocal ranks.
#[derive(Clone, Copy, Default)]
struct Score {
    answered: usize,
    reciprocal: f64,
}

impl Score {
    fn add(&mut self, found: &[String], files: &[String]) -> bool {
        let rank = found.iter().take(FIRST).position(|found| files.contains(found));
        self.answered += usize::from(rank.is_some());
        self.reciprocal += rank.map_or(0.0, |rank| 1.0 / (rank as f64 + 1.0));
        rank.is_some()
    }
}

/// Asks all questions and prints a line for each repository and way to search: for those that are named, else for all, and with
/// vectors where `vectors` is among the arguments or an endpoint is named.
pub(super) async fn measure(arguments: &[String]) -> Outcome {
    let text = include_str!("questions.toml");
    let mut questions: Questions = toml::from_str(text)?;
    let is_chosen = |repository: &Repository| arguments.contains(&repository.name);
    if questions.repository.iter().any(is_chosen) {
        questions.repository.retain(is_chosen);
    }
    let named = std::env::var("ROO_EMBEDDINGS").ok();
    let server = match named.is_none() && arguments.iter().any(|argument| argument == "vectors") {
        true => Some(vectors::Server::start()?),
        false => None,
    };
    let base_url = named.or(server.as_ref().map(|server| server.url.clone()));
    let embedders = base_url.map(embedders).transpose()?;
    let mut out = io::stdout();
    writeln!(
        out,
        "{:<10} {:<12} {:<34} {:>9} {:>6}",
        "repository", "language", "search", "recall@10", "MRR"
    )?;
    let mut totals: BTreeMap<&str, (Score, usize)> = BTreeMap::new();
    for repository in &questions.repository {
        let root = fetched(repository)?;
        let state = TempDir::new_in(env!("CARGO_TARGET_TMPDIR"))?;
        let indexed = Indexed::new(&root, state.path(), Arc::new(|| None))?;
        indexed.build().await?;
        let with_vectors = match &embedders {
            Some(source) => {
                // Kept, as it takes long to make them all: another run makes those of new chunks alone.
                let state = place_of(repository).join("vectors");
                fs::create_dir_all(&state)?;
                let indexed = Indexed::new(&root, &state, Arc::clone(source))?;
                if let Some(fault) = indexed.build().await? {
                    return Err(fault.into());
                }
                Some(indexed)
            }
            None => None,
        };
        let mut scores: BTreeMap<&str, Score> = BTreeMap::new();
        for Asked { ask, files } in &repository.questions {
            let ours = indexed.ask(ask, FIRST).await?;
            if !scores.entry("codebase_search, words").or_default().add(&ours, files) {
                writeln!(io::stderr(), "not found by words: {ask}\n  {ours:?}")?;
            }
            if let Some(indexed) = &with_vectors {
                let ours = indexed.ask(ask, FIRST).await?;
                if !scores.entry("codebase_search, words and vectors").or_default().add(&ours, files) {
                    writeln!(io::stderr(), "not found by vectors: {ask}\n  {ours:?}")?;
                }
            }
            for (name, found) in by_ripgrep(&root, ask)? {
                scores.entry(name).or_default().add(&found, files);
            }
        }
        let count = repository.questions.len();
        for (name, score) in scores {
            line(&mut out, (&repository.name, &repository.language), name, score, count)?;
            let total = totals.entry(name).or_default();
            total.0.answered += score.answered;
            total.0.reciprocal += score.reciprocal;
            total.1 += count;
        }
    }
    for (name, (score, count)) in totals {
        line(&mut out, ("all", ""), name, score, count)?;
    }
    Ok(())
}

fn line(
    out: &mut io::Stdout,
    (repository, language): (&str, &str),
    name: &str,
    score: Score,
    count: usize,
) -> Outcome {
    let Score { answered, reciprocal } = score;
    let (share, mean) = (answered as f64 / count as f64, reciprocal / count as f64);
    writeln!(out, "{repository:<10} {language:<12} {name:<34} {answered:>3}/{count} {share:.2} {mean:>6.2}")?;
    Ok(())
}

/// Returns the endpoint at a base URL.
fn embedders(base_url: String) -> Outcome<EmbedderSource> {
    let openai = Provider::find("openai").ok_or("there is no provider openai")?;
    let profile = Profile {
        base_url: Some(base_url),
        model: Some("all-minilm-l6-v2".to_owned()),
        ..Profile::new(openai)
    };
    let embedder: Arc<dyn Embedder> = Arc::new(Endpoint(Embeddings::connect(&profile, &|_| None)?));
    Ok(Arc::new(move || Some(Ok(Arc::clone(&embedder)))))
}

struct Endpoint(Embeddings);

impl Embedder for Endpoint {
    fn name(&self) -> String {
        self.0.name()
    }

    fn embed(&self, texts: Vec<String>) -> BoxFuture<'_, Result<Vec<Vec<f32>>, String>> {
        Box::pin(async move { self.0.embed(&texts).await.map_err(|error| error.to_string()) })
    }
}

/// The files that have the words of a question, in two orders: most lines first, most different words first.
fn by_ripgrep(root: &Path, question: &str) -> Outcome<[(&'static str, Vec<String>); 2]> {
    let words: Vec<String> = question
        .split(|c: char| !c.is_alphanumeric())
        .map(str::to_lowercase)
        .filter(|word| word.len() > 1 && !STOP_WORDS.contains(&word.as_str()))
        .collect();
    let mut files: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for word in &words {
        let mut command = Command::new("rg");
        command.args(["--no-config", "-i", "-c", "--", word]).current_dir(root).stdin(Stdio::null());
        let output = command.output().map_err(|error| format!("rg is needed: {error}"))?;
        for found in String::from_utf8_lossy(&output.stdout).lines() {
            let Some((file, lines)) = found.rsplit_once(':') else { continue };
            let (different, all) = files.entry(file.to_owned()).or_default();
            (*different, *all) = (*different + 1, *all + lines.parse::<usize>()?);
        }
    }
    let order = |key: fn(&(usize, usize)) -> (usize, usize)| {
        let mut order: Vec<(&String, &(usize, usize))> = files.iter().collect();
        order.sort_by_key(|(_, counts)| std::cmp::Reverse(key(counts)));
        order.into_iter().map(|(file, _)| file.clone()).collect()
    };
    Ok([
        ("rg, most matching lines", order(|&(_, lines)| (lines, 0))),
        ("rg, most different words", order(|&(different, lines)| (different, lines))),
    ])
}

/// The directory where what belongs to a repository is kept.
fn place_of(Repository { name, version, .. }: &Repository) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("target/index-quality/{name}-{version}"))
}

/// The root of a repository's files, fetched where they are not there yet.
fn fetched(repository: &Repository) -> Outcome<PathBuf> {
    let Repository { name, registry, version, root, .. } = repository;
    let place = place_of(repository);
    let files = match registry {
        Registry::Pypi => place.join("files"),
        Registry::Crates => place.join(format!("vendor/{name}-{version}")),
        Registry::Npm => place.join("package"),
    };
    let root = files.join(root);
    if root.is_dir() {
        return Ok(root);
    }
    fs::create_dir_all(&place)?;
    let run = |program: &str, arguments: &[&str]| -> Outcome {
        let status =
            Command::new(program).args(arguments).current_dir(&place).stdout(Stdio::null()).status()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("{program} {} failed", arguments.join(" ")).into())
        }
    };
    match registry {
        Registry::Pypi => {
            run("pip", &["download", "--no-deps", "-q", "-d", ".", &format!("{name}=={version}")])?;
            let wheel = fs::read_dir(&place)?
                .flatten()
                .find(|entry| entry.path().extension().is_some_and(|e| e == "whl"));
            let wheel = wheel.ok_or("pip downloaded no wheel")?.file_name();
            run("python3", &["-m", "zipfile", "-e", &wheel.to_string_lossy(), "files"])?;
        }
        Registry::Crates => {
            let manifest = format!(
                "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[workspace]\n[dependencies]\n\
                 {name} = {{ version = \"={version}\", default-features = false }}\n"
            );
            fs::create_dir_all(place.join("src"))?;
            fs::write(place.join("src/lib.rs"), "")?;
            fs::write(place.join("Cargo.toml"), manifest)?;
            run("cargo", &["vendor", "-q", "--versioned-dirs", "vendor"])?;
        }
        Registry::Npm => {
            run("npm", &["pack", "--silent", &format!("{name}@{version}")])?;
            run("tar", &["xf", &format!("{name}-{version}.tgz")])?;
        }
    }
    Ok(root)
}

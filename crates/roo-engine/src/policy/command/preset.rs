//! `presets.toml`: rules that belong together, by name.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use serde::Deserialize;

use super::allow::Rule;
use super::programs;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    presets: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    about: String,
    files: Vec<String>,
    #[serde(default)]
    includes: Vec<String>,
    #[serde(default)]
    rules: Vec<String>,
    #[serde(default)]
    exact: Vec<String>,
    #[serde(default)]
    products: Vec<Product>,
    #[serde(default)]
    targets: Vec<Targets>,
    #[serde(default)]
    never: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Product {
    first: Vec<String>,
    then: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Targets {
    programs: Vec<String>,
    words: Vec<String>,
}

/// A named set of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Name in the settings.
    pub name: &'static str,
    /// Description of what it allows, to follow "Always allow".
    pub about: &'static str,
    /// Names of files at the top of a project that has a use for it; `*.x` for an ending.
    files: &'static [String],
    /// Its rules, with those of the presets that it includes.
    rules: Vec<Rule>,
}

impl Preset {
    /// Its rules, each as a line for people.
    pub fn lines(&self) -> Vec<String> {
        self.rules.iter().map(Rule::line).collect()
    }

    pub(super) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns whether a project has a use for it, by the names of the files at its top.
    fn fits(&self, names: &[String]) -> bool {
        self.files.iter().any(|pattern| {
            names.iter().any(|name| match pattern.strip_prefix('*') {
                Some(end) => name.ends_with(end),
                None => name == pattern,
            })
        })
    }
}

/// All presets, those of toolchains first.
pub fn presets() -> &'static [Preset] {
    static PRESETS: LazyLock<Vec<Preset>> = LazyLock::new(|| {
        static ENTRIES: LazyLock<File> = LazyLock::new(|| {
            // What can't be read is none, and allows nothing; a test holds that it can.
            toml::from_str(include_str!("presets.toml")).unwrap_or_default()
        });
        let entries = &ENTRIES.presets;
        let own: BTreeMap<&str, Vec<Rule>> =
            entries.iter().map(|entry| (entry.name.as_str(), rules(entry))).collect();
        let preset = |entry: &'static Entry| {
            let mut names = vec![entry.name.as_str()];
            let mut at = 0;
            while let Some(name) = names.get(at).copied() {
                let included = entries.iter().filter(|entry| entry.name == name);
                for name in included.flat_map(|entry| &entry.includes) {
                    if !names.contains(&name.as_str()) {
                        names.push(name);
                    }
                }
                at += 1;
            }
            let rules = names.iter().filter_map(|name| own.get(name)).flatten();
            let rules = rules.map(|rule| Rule { preset: Some(&entry.name), ..rule.clone() }).collect();
            Preset { name: &entry.name, about: &entry.about, files: &entry.files, rules }
        };
        entries.iter().map(preset).collect()
    });
    &PRESETS
}

/// The rules of an entry alone.
fn rules(entry: &'static Entry) -> Vec<Rule> {
    let rule = |line: &str, is_exact| Rule {
        words: line.split_ascii_whitespace().map(str::to_owned).collect(),
        preset: Some(&entry.name),
        is_exact,
        targets: &[],
        never: &entry.never,
    };
    let products = entry.products.iter().flat_map(|product| {
        product.first.iter().flat_map(|first| product.then.iter().map(move |then| format!("{first} {then}")))
    });
    let lines = entry.rules.iter().cloned().chain(products);
    let prefixes = lines.map(|line| rule(&line, false));
    let exact = entry.exact.iter().map(|line| rule(line, true));
    let targets = entry.targets.iter().flat_map(|targets| {
        targets.programs.iter().map(|program| Rule { targets: &targets.words, ..rule(program, true) })
    });
    let mut rules: Vec<Rule> = Vec::new();
    for rule in prefixes.chain(exact).chain(targets) {
        // Products overlap.
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    rules
}

/// The preset of a name.
pub fn preset(name: &str) -> Option<&'static Preset> {
    presets().iter().find(|preset| preset.name == name)
}

/// The presets that a project has a use for, by the files at the top of its folder. Reads the disk.
pub fn suggested_presets(project: &Path) -> Vec<&'static Preset> {
    let names = std::fs::read_dir(project).into_iter().flatten().flatten();
    let names: Vec<String> = names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    presets().iter().filter(|preset| preset.files.is_empty() || preset.fits(&names)).collect()
}

/// A rule with which a program may run, for whoever wrote one that can't.
pub(super) fn example(program: &str) -> Option<(String, &'static str)> {
    let name = programs::name(program);
    let rules = presets().iter().flat_map(|preset| preset.rules.iter().map(move |rule| (rule, preset.name)));
    let is_about_it = |rule: &Rule| rule.words.first().is_some_and(|program| programs::name(program) == name);
    let (rule, preset) = rules.filter(|(rule, _)| !rule.is_exact).find(|(rule, _)| {
        is_about_it(rule) && names_command(rule) && !rule.words.iter().any(|word| word.contains('*'))
    })?;
    Some((format!("[{}]", rule.words.join(", ")), preset))
}

/// Returns whether a rule names more than a program and its options.
fn names_command(rule: &Rule) -> bool {
    rule.words.iter().skip(1).any(|word| !word.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::super::tests::Somewhere;
    use super::super::{CommandVerdict, judge};
    use super::*;
    use roo_formats::config::Execute;

    fn is_allowed(presets: &[&str], line: &str) -> bool {
        let presets = presets.iter().map(|name| (*name).to_owned()).collect();
        let verdict = judge(&Execute { presets, ..Execute::default() }, line, &Somewhere);
        matches!(verdict, CommandVerdict::Allow { .. })
    }

    #[test]
    fn the_file_can_be_read_and_names_are_unique() {
        let file: File = toml::from_str(include_str!("presets.toml")).unwrap();
        for entry in &file.presets {
            assert_eq!(
                file.presets.iter().filter(|other| other.name == entry.name).count(),
                1,
                "{}",
                entry.name
            );
            for name in &entry.includes {
                assert!(file.presets.iter().any(|other| other.name == *name), "{name}");
            }
            for lines in [&entry.rules, &entry.exact] {
                for (index, line) in lines.iter().enumerate() {
                    assert!(!lines[..index].contains(line), "{}: `{line}` stands there twice", entry.name);
                }
            }
        }
    }

    #[test]
    fn no_preset_has_a_rule_that_can_not_match() {
        for preset in presets() {
            for rule in preset.rules().iter().filter(|rule| !rule.is_exact && names_command(rule)) {
                let problem = super::super::diagnosis::rule_problem(&rule.words, &[]);
                assert!(problem.is_none(), "{}: {}: {problem:?}", preset.name, rule.line());
            }
        }
    }

    #[test]
    fn a_preset_allows_what_looks_builds_tests_and_formats() {
        for (preset, lines) in [
            (
                "read",
                &[
                    "ls -la",
                    "cat src/a | grep x | head",
                    "awk '{print $1}' x",
                    "ls | awk -F: '$3 > 5 || /a|b/ {print $1}'",
                    "sed -n 1p x",
                    "cd src && ls",
                ][..],
            ),
            ("git-read", &["git log --oneline -5", "git branch -a", "git status && ls", "git remote -v"]),
            (
                "cargo",
                &[
                    "cargo test -q 2>&1 | tail -5",
                    "cargo fmt --check",
                    "git status",
                    "cargo build -j$(nproc)",
                ],
            ),
            (
                "node",
                &[
                    "npm test",
                    "npm run build",
                    "npm run test:unit -- --watch=false",
                    "pnpm lint",
                    "yarn test",
                    "node --version",
                ],
            ),
            (
                "python",
                &["pytest -q", "python -m pytest", "uv run pytest -x", "ruff check .", "python3 --version"],
            ),
            ("go", &["go test ./...", "go vet ./... && go build ./...", "gofmt -l ."]),
            (
                "make",
                &[
                    "make",
                    "make -j4 V=1",
                    "make test",
                    "make -j$(nproc) check lint",
                    "make test-unit",
                    "make -C src test",
                ],
            ),
            (
                "cmake",
                &[
                    "cmake -S . -B build -DCMAKE_BUILD_TYPE=Release",
                    "cmake --build build -j4",
                    "ctest --test-dir build",
                    "ninja -C build",
                ],
            ),
            ("maven", &["mvn -B clean verify", "mvn -q test"]),
            ("gradle", &["gradle build --info", "gradle test"]),
            ("ruby", &["bundle exec rspec spec/a_spec.rb"]),
            ("dotnet", &["dotnet test --nologo"]),
        ] {
            for line in lines {
                assert!(is_allowed(&[preset], line), "{preset}: {line}");
            }
        }
    }

    #[test]
    fn a_preset_allows_nothing_that_reaches_further() {
        let all: Vec<&str> = presets().iter().map(|preset| preset.name).collect();
        let further = [
            "cargo publish",
            "cargo install x",
            "cargo run",
            "cargo clippy --fix",
            "cargo doc --open",
            "cargo test --config x",
            "npm publish",
            "npm install",
            "npm run deploy",
            "npm run release",
            "npm exec x",
            "npx tsc",
            "npx cowsay",
            "yarn add x",
            "yarn deploy",
            "pnpm dlx x",
            "pip install x",
            "python x.py",
            "python -c 1",
            "uv run x.py",
            "uv run --with x pytest",
            "mypy --install-types",
            "pylint --init-hook=x src",
            "pytest --basetemp=src",
            "go run .",
            "go install x",
            "go generate ./...",
            "go env -w A=b",
            "go test -exec x",
            "make deploy",
            "make test deploy",
            "make install",
            "make SHELL=x",
            "make -f x test",
            "cmake -P x",
            "cmake -E rm x",
            "cmake --install build",
            "cmake --build build --target install",
            "cmake -DCMAKE_C_COMPILER_LAUNCHER=x .",
            "ctest -S x",
            "mvn deploy",
            "mvn test deploy",
            "mvn exec:exec",
            "gradle publish",
            "gradle test publish",
            "git push",
            "git branch new",
            "git branch -D old",
            "git tag v1",
            "git tag -d v1",
            "git remote add x y",
            "git config user.name x",
            "git reflog expire",
            "git submodule foreach ls",
            "git checkout main",
            "git checkout -b x -f",
            "git reset --hard",
            "git clean -fd",
            "git rebase main",
            "git stash drop",
            "git rm x",
            "rm x",
            "sed -i s/a/b/ x",
            "awk '{system(\"x\")}' x",
            "awk '{print > \"x\"}' x",
            "awk '{print | \"x\"}' x",
            "awk '{\"x\" | getline}' x",
            "awk '{print ENVIRON[\"A\"]}' x",
            "awk -f x src",
            "awk '@load \"x\"' x",
            "ls | awk -f -",
            "find . -delete",
            "find . -exec ls",
            "tee x",
            "curl x",
            "sh x",
            "env",
            "sudo ls",
        ];
        let allowed: Vec<&str> = further.into_iter().filter(|line| is_allowed(&all, line)).collect();
        assert_eq!(allowed, Vec::<&str>::new());
    }

    #[test]
    fn presets_are_suggested_by_the_files_of_a_project() {
        let suggested = |files: &[&str]| -> Vec<&str> {
            let project = tempfile::tempdir().unwrap();
            for file in files {
                std::fs::write(project.path().join(file), "").unwrap();
            }
            suggested_presets(project.path()).iter().map(|preset| preset.name).collect()
        };
        assert_eq!(suggested(&[]), ["read"]);
        assert_eq!(suggested(&["Cargo.toml", ".git"]), ["cargo", "git-read", "git-write", "read"]);
        assert_eq!(suggested(&["package.json", "Makefile"]), ["node", "make", "read"]);
        assert_eq!(suggested(&["a.csproj"]), ["dotnet", "read"]);
        assert!(suggested_presets(Path::new("/missing")).iter().all(|preset| preset.name == "read"));
    }

    #[test]
    fn an_example_is_a_rule_that_works() {
        assert_eq!(example("make"), None);
        assert_eq!(example("npm"), Some(("[npm, list]".to_owned(), "node")));
        assert_eq!(example("cargo"), Some(("[cargo, audit]".to_owned(), "cargo")));
    }
}

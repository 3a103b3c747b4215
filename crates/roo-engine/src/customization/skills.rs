//! Skills: instructions that a model loads when it needs them, from `skills/<name>/SKILL.md` and, for one
//! mode, `skills-<mode>/<name>/SKILL.md`, below `.agents` and `.roo`.
//!
//! Only the front matter is read at first: `name`, which is the directory's, `description`, which tells
//! the model when to load it, and `modeSlugs` or the older `mode`, which go before the mode that the directory names. The
//! instructions are read when they are asked for.

use std::path::{Path, PathBuf};

use super::Scope;
use super::commands::SlashCommand;
use super::directory::{CustomizationDirectory, Refused, without_hidden};
use roo_formats::front_matter::{self, FrontMatter, SkillKeys};
use roo_formats::modes::Source;
use roo_formats::{FileProblem, Problem};
use roo_text::render::{exact_line, one_line};
use roo_workspace::{Purpose, ReadError, RootError, read_beginning, read_disk};

/// Parent directories of skills below a home directory or a workspace root, from weak to strong.
const PARENTS: [&str; 2] = [".agents", ".roo"];

/// The file in a skill's directory.
const FILE: &str = "SKILL.md";

/// The longest file, in bytes.
const MAX_FILE_BYTES: u64 = 128 << 10;

/// Maximum number of bytes read to find front matter: the fences and a mark are not counted in it.
const BEGINNING: u64 = (front_matter::MAX_BYTES + 64) as u64;

/// The most skills of one directory.
const MAX_SKILLS: usize = 200;

/// The most skills of all directories together.
const MAX_SKILLS_TOGETHER: usize = 500;

/// The longest name, in characters.
const MAX_NAME_CHARS: usize = 64;

/// The longest description, in characters.
const MAX_DESCRIPTION_CHARS: usize = 1024;

/// Instructions for one kind of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// Lower-case letters and digits, in words with `-` between them.
    pub name: String,
    /// Guidance on when to load it, in one line.
    pub description: String,
    /// The slugs of the modes that have it; every mode when none. May be unknown.
    pub modes: Option<Vec<String>>,
    /// Location of the instructions.
    pub origin: Origin,
}

/// Location of a skill's instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the server.
    BuiltIn(&'static str),
    File {
        /// The home directory or workspace root.
        base: PathBuf,
        /// The file below it, `/` between names.
        below: String,
        /// Owner.
        scope: Scope,
    },
}

impl Skill {
    /// Returns its source.
    pub fn source(&self) -> Source {
        match &self.origin {
            Origin::BuiltIn(_) => Source::BuiltIn,
            Origin::File { scope, .. } => (*scope).into(),
        }
    }

    /// Its file; none for a built-in one.
    pub fn path(&self) -> Option<PathBuf> {
        match &self.origin {
            Origin::BuiltIn(_) => None,
            Origin::File { base, below, .. } => Some(base.join(below)),
        }
    }

    fn is_for(&self, mode: &str) -> bool {
        self.modes.as_ref().is_none_or(|modes| modes.iter().any(|slug| slug == mode))
    }

    /// Ranks skills of one name: whose it is, then whether it is for certain modes.
    fn strength(&self) -> (Source, bool) {
        (self.source(), self.modes.is_some())
    }
}

/// Reasons why a skill's instructions can't be read. The texts are for the model.
#[derive(Debug, thiserror::Error)]
pub enum SkillError {
    /// Its directory is gone.
    #[error("The skill '{name}' can't be loaded: {source}.")]
    Base {
        /// The skill.
        name: String,
        /// Reason.
        source: RootError,
    },
    /// Its path can't be used any more.
    #[error("The skill '{name}' can't be loaded: {reason}")]
    Path {
        /// The skill.
        name: String,
        reason: String,
    },
    /// Its file can't be read.
    #[error("The skill '{name}' can't be loaded: {source}")]
    Read {
        /// The skill.
        name: String,
        /// Reason.
        source: ReadError,
    },
    /// Its file is damaged.
    #[error("The skill '{name}' can't be loaded: its file {problem}. Tell the user.")]
    Content {
        /// The skill.
        name: String,
        problem: String,
    },
}

/// The skills that there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skills(Vec<Skill>);

impl Skills {
    /// Reads the front matter of the skills below these directories (home, workspace root), the built-in
    /// ones with them. A broken file is a problem and hides no other. Links to directories and files are
    /// followed; those of a workspace not out of it.
    pub fn load(directories: &[(PathBuf, Scope)]) -> (Self, Vec<FileProblem>) {
        let mut skills = vec![create_mode()];
        let mut problems = Vec::new();
        let mut left = MAX_SKILLS_TOGETHER;
        for (path, scope) in directories {
            // What can't be opened holds no skills.
            let Ok(directory) = CustomizationDirectory::open(path, *scope) else { continue };
            for parent in PARENTS {
                let found = directory.names(parent).unwrap_or_else(|problem| {
                    problems.push(problem);
                    Vec::new()
                });
                for group in &found {
                    let mode = match group.strip_prefix("skills") {
                        Some("") => None,
                        Some(mode) => match mode.strip_prefix('-') {
                            Some(slug) if !slug.is_empty() => Some(slug),
                            _ => continue,
                        },
                        None => continue,
                    };
                    let below = format!("{parent}/{group}");
                    if !load_group(&directory, path, &below, mode, &mut left, &mut skills, &mut problems) {
                        let message = format!(
                            "There are more than {MAX_SKILLS_TOGETHER} skills; the others are not loaded."
                        );
                        problems.push(FileProblem::error(&directory.path(&below), None, message));
                        return (Self(skills), problems);
                    }
                }
            }
        }
        (Self(skills), problems)
    }

    /// The skills that a mode has, sorted by name, each name once: the project's before the user's, one
    /// for certain modes before one for all, `.roo` before `.agents`.
    pub(crate) fn for_mode(&self, mode: &str) -> Vec<&Skill> {
        self.strongest(|skill| skill.is_for(mode))
    }

    /// The skills that every mode has, sorted by name, each name once, and none that has the name of a command: those that a
    /// message may name as `/name` in any mode.
    pub fn beside_commands(&self, commands: &[SlashCommand]) -> Vec<&Skill> {
        let has_name = |skill: &Skill| commands.iter().any(|command| command.name == skill.name);
        self.strongest(|skill| skill.modes.is_none() && !has_name(skill))
    }

    fn strongest(&self, counts: impl Fn(&Skill) -> bool) -> Vec<&Skill> {
        let mut chosen: Vec<&Skill> = Vec::new();
        for skill in self.0.iter().filter(|skill| counts(skill)) {
            match chosen.iter_mut().find(|known| known.name == skill.name) {
                Some(known) if known.strength() > skill.strength() => {}
                Some(known) => *known = skill,
                None => chosen.push(skill),
            }
        }
        chosen.sort_by(|one, other| one.name.cmp(&other.name));
        chosen
    }

    /// The skill of this name that a mode has. Roo wrote `_` for `-` in names.
    pub fn find(&self, name: &str, mode: &str) -> Option<&Skill> {
        let name = name.trim().replace('_', "-");
        self.for_mode(mode).into_iter().find(|skill| skill.name == name)
    }
}

/// Returns whether there may be more, with those of this group.
fn load_group(
    directory: &CustomizationDirectory,
    base: &Path,
    group: &str,
    mode: Option<&str>,
    left: &mut usize,
    skills: &mut Vec<Skill>,
    problems: &mut Vec<FileProblem>,
) -> bool {
    let names = directory.names(group).unwrap_or_else(|problem| {
        problems.push(problem);
        Vec::new()
    });
    let mut count = 0;
    for name in names.iter().filter(|name| !name.starts_with('.')) {
        let below = format!("{group}/{name}/{FILE}");
        let path = directory.path(&below);
        // A directory without the file is no skill, and neither is a file beside the skills.
        if path.symlink_metadata().is_err() {
            continue;
        }
        if count == MAX_SKILLS {
            let message = format!("It has more than {MAX_SKILLS} skills; the others are not loaded.");
            problems.push(FileProblem::error(&directory.path(group), None, message));
            break;
        }
        let Some(fewer) = left.checked_sub(1) else { return false };
        *left = fewer;
        count += 1;
        let mut of_keys = Vec::new();
        let head = read_head(directory, &below, name, &mut of_keys);
        problems.extend(of_keys.into_iter().map(|problem| FileProblem::new(&path, problem)));
        match head {
            Err(fault) => problems.push(FileProblem::new(&path, fault)),
            Ok(head) => skills.push(Skill {
                name: name.clone(),
                description: head.description,
                // As in Roo Code: what the file says goes before its place.
                modes: match head.modes {
                    Some(modes) => Some(modes).filter(|modes| !modes.is_empty()),
                    None => mode.map(|mode| vec![mode.to_owned()]),
                },
                origin: Origin::File { base: base.to_path_buf(), below, scope: directory.scope },
            }),
        }
    }
    true
}

/// Front matter of a skill.
struct Head {
    description: String,
    /// An empty list means all; none where it doesn't say.
    modes: Option<Vec<String>>,
}

/// Reads the front matter of a skill. Adds the problems of keys that are left out.
fn read_head(
    directory: &CustomizationDirectory,
    below: &str,
    name: &str,
    problems: &mut Vec<Problem>,
) -> Result<Head, Problem> {
    let fault = |message: String| Problem::error(None, message);
    let place = directory.find(below, Purpose::Read).map_err(|error| fault(error.to_string()))?;
    let bytes = read_beginning(&place, BEGINNING).map_err(|error| fault(error.to_string()))?;
    // The end may cut a character of the instructions.
    parse_head(&String::from_utf8_lossy(&bytes), name, problems)
}

/// Returns the problems of a skill's file that held this text.
pub fn problems_of(path: &Path, text: &str) -> Vec<FileProblem> {
    let name = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let too_long = text.len() as u64 > MAX_FILE_BYTES;
    let too_long = too_long.then(|| format!("It has more than {} KiB: shorten it.", MAX_FILE_BYTES >> 10));
    let too_long = too_long.map(|message| Problem::error(None, message));
    let mut problems = Vec::new();
    let fault = parse_head(text, &name, &mut problems).err();
    let problems = problems.into_iter().chain(fault).chain(too_long);
    problems.map(|problem| FileProblem::new(path, problem)).collect()
}

fn parse_head(text: &str, name: &str, problems: &mut Vec<Problem>) -> Result<Head, Problem> {
    let fault = |message: String| Problem::error(None, message);
    if front_matter::is_open(text) {
        let longest = front_matter::MAX_BYTES >> 10;
        return Err(fault(format!(
            "Its front matter has no end within {longest} KiB: close it with a line ---."
        )));
    }
    let (mut front, _) = FrontMatter::<SkillKeys>::split(text)?;
    problems.append(&mut front.problems);
    if !is_name(name) {
        return Err(fault(format!(
            "A skill's directory is named with lower-case letters and digits, in words with '-' between them, at \
             most {MAX_NAME_CHARS} characters: rename it."
        )));
    }
    match &front.keys.name {
        Some(given) if *given == name => {}
        Some(given) => {
            let given = one_line(given, MAX_NAME_CHARS);
            let message = format!("'name' is '{given}', but must match its directory, '{name}'.");
            return Err(front.problem("name", message));
        }
        None => return Err(fault(format!("It has no 'name': write `name: {name}` in its front matter."))),
    }
    let description =
        front.keys.description.as_deref().ok_or_else(|| {
            fault("It has no 'description', which tells the model when to load it.".to_owned())
        })?;
    if description.chars().count() > MAX_DESCRIPTION_CHARS {
        let message = format!("'description' is longer than {MAX_DESCRIPTION_CHARS} characters: shorten it.");
        return Err(front.problem("description", message));
    }
    let (description, hidden) = without_hidden(description);
    if hidden.is_some() {
        let message = "'description' contains invisible characters: remove them.".to_owned();
        return Err(front.problem("description", message));
    }
    let modes = front.keys.mode_slugs.or(front.keys.mode.map(|mode| vec![mode]));
    Ok(Head { description: one_line(&description, MAX_DESCRIPTION_CHARS), modes })
}

fn is_name(name: &str) -> bool {
    let is_word =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    name.len() <= MAX_NAME_CHARS && name.split('-').all(is_word)
}

/// Reads the instructions of a skill, without front matter and without characters that can't be seen.
/// Blocks.
///
/// # Errors
/// [`SkillError`], worded for the model.
pub(crate) fn read_body(skill: &Skill) -> Result<String, SkillError> {
    let (base, below, scope) = match &skill.origin {
        Origin::BuiltIn(body) => return Ok((*body).to_owned()),
        Origin::File { base, below, scope } => (base, below, *scope),
    };
    let name = || skill.name.clone();
    let directory = CustomizationDirectory::open(base, scope)
        .map_err(|source| SkillError::Base { name: name(), source })?;
    let place = directory
        .find(below, Purpose::Read)
        .map_err(|error: Refused| SkillError::Path { name: name(), reason: error.to_string() })?;
    let bytes =
        read_disk(&place, MAX_FILE_BYTES).map_err(|source| SkillError::Read { name: name(), source })?;
    let content = |problem: String| SkillError::Content { name: name(), problem };
    let text = String::from_utf8(bytes).map_err(|_| content("is not valid UTF-8".to_owned()))?;
    let (_, body) = FrontMatter::<SkillKeys>::split(&text)
        .map_err(|fault| content(format!("has broken front matter ({})", fault.message)))?;
    let (body, _) = without_hidden(body);
    match body.replace("\r\n", "\n").trim() {
        "" => Err(content("holds no instructions".to_owned())),
        body => Ok(body.to_owned()),
    }
}

impl Skill {
    /// Builds the result of loading the skill for the model.
    pub fn result(&self, arguments: Option<&str>, body: &str) -> String {
        let mut text = format!("Skill: {}\nDescription: {}\n", self.name, self.description);
        if let Some(arguments) = arguments {
            text.push_str(&format!("Provided arguments: {arguments}\n"));
        }
        text.push_str(&format!("Source: {}", self.source().as_str()));
        if let Some(path) = self.path() {
            // Files beside it may be mentioned by their names.
            text.push_str(&format!(" ({})", exact_line(&path.to_string_lossy())));
        }
        text.push_str("\n\n--- Skill Instructions ---\n\n");
        text.push_str(body);
        text
    }
}

fn create_mode() -> Skill {
    Skill {
        name: "create-mode".to_owned(),
        description: "How to write a custom mode into .roomodes. Load it before you create or change a mode."
            .to_owned(),
        modes: None,
        origin: Origin::BuiltIn(CREATE_MODE),
    }
}

pub(crate) const CREATE_MODE: &str = "\
A custom mode is an entry of the list `customModes` in a YAML file: `.roomodes` in the workspace's root for this \
project, which the user has to trust, or `custom-modes.yaml` in the user's configuration directory for all \
projects. A project's entry goes before the user's, and both go before a built-in mode of the same slug.

```yaml
customModes:
  - slug: reviewer
    name: \u{1f50d} Reviewer
    description: Reviews changes and writes down what it found
    roleDefinition: >-
      You review changes of this project. You look for faults that tests would miss.
    whenToUse: After an implementation, before it is merged.
    customInstructions: |-
      Name file and line of every finding. Order findings by weight.
    groups:
      - read
      - - edit
        - fileRegex: \\.md$
          description: Markdown files
    canDelegateTo: []
```

- `slug` (required): letters, digits and `-`. It names the mode everywhere; don't change it later.
- `name` (required): for people; an emoji at its start marks the mode.
- `roleDefinition` (required): who the model is in this mode, in the second person.
- `groups` (required, may be empty): which tools it has besides those for the conversation: `read`, `edit`, \
`browser`, `command`, `mcp`, `modes`. `edit` with a `fileRegex` changes only files whose path matches; the \
pattern is a regular expression over the path relative to the workspace's root. `mcp` with `servers`, a list of \
names, has these MCP servers and no others.
- `description`: one line for people.
- `whenToUse`: by which other modes decide whether to delegate to it.
- `customInstructions`: what it must heed besides its role.
- `canDelegateTo`: slugs of the modes to which it may delegate; none when it is left out.

Steps: find out from the user what the mode is for and which files it may change; give it the fewest groups \
with which it can work; read the file first if it exists, and keep its other entries; write it; check the \
YAML (indentation, each key once, a backslash in plain or single-quoted text only). Writing `.roomodes` asks \
the user, for it steers agents.";

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::customization::fixture::Fixture;
    use roo_formats::Position;

    impl Fixture {
        fn load_skills(&self) -> (Skills, Vec<FileProblem>) {
            Skills::load(&self.places())
        }

        /// The path of the skill that a mode gets, below the fixture.
        fn chosen(&self, name: &str, mode: &str) -> Option<String> {
            let (skills, problems) = self.load_skills();
            assert_eq!(problems, []);
            let path = skills.find(name, mode)?.path()?;
            Some(path.strip_prefix(self.directory.path()).unwrap().to_string_lossy().into_owned())
        }
    }

    fn file(name: &str, more: &str) -> String {
        format!("---\nname: {name}\ndescription: What {name} is for\n{more}---\n\nDo {name}.\n")
    }

    #[test]
    fn there_is_a_limit_for_all_skills_together() {
        let name = |n: usize| format!("s{n:03}");
        let path = |n: usize| format!("home/.roo/skills-m{}/{}/SKILL.md", n / 150, name(n));
        let files: Vec<(String, String)> =
            (0..MAX_SKILLS_TOGETHER + 1).map(|n| (path(n), file(&name(n), ""))).collect();
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let (skills, problems) = Fixture::new(&files[..MAX_SKILLS_TOGETHER]).load_skills();
        assert_eq!((skills.0.len(), problems), (MAX_SKILLS_TOGETHER + 1, vec![]), "and the built-in one");
        let (skills, problems) = Fixture::new(&files).load_skills();
        assert_eq!(skills.0.len(), MAX_SKILLS_TOGETHER + 1);
        assert_eq!(problems[0].problem.message, "There are more than 500 skills; the others are not loaded.");
    }

    #[test]
    fn a_skill_is_found_and_its_instructions_are_read_when_asked_for() {
        let fixture = Fixture::new(&[("work/.roo/skills/release/SKILL.md", &file("release", ""))]);
        let (skills, problems) = fixture.load_skills();
        assert_eq!(problems, []);
        let names: Vec<&str> = skills.for_mode("code").iter().map(|skill| skill.name.as_str()).collect();
        assert_eq!(names, ["create-mode", "release"]);
        let skill = skills.find("release", "code").unwrap();
        assert_eq!((skill.source(), skill.modes.as_ref()), (Source::Project, None));

        fs::write(skill.path().unwrap(), file("release", "").replace("Do release.", "Changed.\u{200b}"))
            .unwrap();
        let body = read_body(skill).unwrap();
        let text = skill.result(Some("v2"), &body);
        insta::assert_snapshot!(text.replace(&*fixture.path("").to_string_lossy(), "<fixture>/"), @r"
        Skill: release
        Description: What release is for
        Provided arguments: v2
        Source: project (<fixture>/work/.roo/skills/release/SKILL.md)

        --- Skill Instructions ---

        Changed.
        ");
    }

    #[test]
    fn the_stronger_of_two_skills_with_one_name_counts() {
        let text = file("x", "");
        let mut fixture = Fixture::new(&[]);
        // Each beats all before it.
        for path in [
            "home/.agents/skills/x/SKILL.md",
            "home/.roo/skills/x/SKILL.md",
            "home/.agents/skills-code/x/SKILL.md",
            "home/.roo/skills-code/x/SKILL.md",
            "work/.agents/skills/x/SKILL.md",
            "work/.roo/skills/x/SKILL.md",
            "work/.agents/skills-code/x/SKILL.md",
            "work/.roo/skills-code/x/SKILL.md",
        ] {
            let file = fixture.path(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, &text).unwrap();
            assert_eq!(fixture.chosen("x", "code").as_deref(), Some(path));
        }
        assert_eq!(fixture.chosen("x", "ask").as_deref(), Some("work/.roo/skills/x/SKILL.md"));
        fixture = Fixture::new(&[("work/.roo/skills-code/x/SKILL.md", &text)]);
        assert_eq!(fixture.chosen("x", "ask"), None);
    }

    #[test]
    fn front_matter_may_name_the_modes() {
        let text = file("x", "modeSlugs: [code, debug]\n");
        let fixture = Fixture::new(&[("work/.roo/skills/x/SKILL.md", &text)]);
        assert!(fixture.chosen("x", "debug").is_some());
        assert_eq!(fixture.chosen("x", "ask"), None);
    }

    #[test]
    fn modes_are_those_of_the_list_then_of_the_older_key_then_of_the_directory() {
        for (directory, keys, modes) in [
            ("skills", "", &["code", "debug", "ask"][..]),
            ("skills", "mode: debug\n", &["debug"]),
            ("skills", "modeSlugs: [ask]\nmode: debug\n", &["ask"]),
            ("skills", "modeSlugs: []\nmode: debug\n", &["code", "debug", "ask"]),
            ("skills-code", "", &["code"]),
            ("skills-code", "mode: debug\n", &["debug"]),
            ("skills-code", "modeSlugs: [ask, debug]\n", &["debug", "ask"]),
            ("skills-code", "modeSlugs: []\n", &["code", "debug", "ask"]),
            ("skills-code", "modeSlugs: ['']\n", &["code", "debug", "ask"]),
        ] {
            let fixture = Fixture::new(&[(&format!("work/.roo/{directory}/x/SKILL.md"), &file("x", keys))]);
            let has = |mode: &&str| fixture.chosen("x", mode).is_some();
            let found: Vec<&str> = ["code", "debug", "ask"].into_iter().filter(has).collect();
            assert_eq!(found, modes, "{directory} {keys:?}");
        }
    }

    #[test]
    fn a_broken_skill_is_a_problem_and_hides_no_other() {
        let long = format!("---\nname: long\ndescription: {}\n---\n", "x".repeat(1025));
        let endless = format!("---\nname: open\n{}", "# x\n".repeat(10_000));
        let fixture = Fixture::new(&[
            ("work/.roo/skills/good/SKILL.md", &file("good", "")),
            ("work/.roo/skills/Bad_Name/SKILL.md", &file("Bad_Name", "")),
            ("work/.roo/skills/long/SKILL.md", &long),
            ("work/.roo/skills/none/SKILL.md", "Only text"),
            ("work/.roo/skills/open/SKILL.md", &endless),
            ("work/.roo/skills/other/SKILL.md", &file("another", "")),
            ("work/.roo/skills/quiet/SKILL.md", "---\nname: quiet\n---\n"),
            ("work/.roo/skills/twice/SKILL.md", &file("twice", "name: twice\n")),
            ("work/.roo/skills/no-file/README.md", ""),
            ("work/.roo/skills/README.md", ""),
            ("work/.roo/skillset/x/SKILL.md", ""),
        ]);
        let (skills, problems) = fixture.load_skills();
        assert!(skills.find("good", "code").is_some());
        assert_eq!(skills.for_mode("code").len(), 2);
        let told: Vec<String> = problems
            .iter()
            .map(|problem| {
                let name = problem.file.parent().unwrap().file_name().unwrap().to_string_lossy();
                let line = problem.problem.start().map_or(0, |Position { line, .. }| line);
                format!("{name}:{line}: {}", problem.problem.message)
            })
            .collect();
        insta::assert_snapshot!(told.join("\n"), @r"
        Bad_Name:0: A skill's directory is named with lower-case letters and digits, in words with '-' between them, at most 64 characters: rename it.
        long:3: 'description' is longer than 1024 characters: shorten it.
        none:0: It has no 'name': write `name: none` in its front matter.
        open:0: Its front matter has no end within 16 KiB: close it with a line ---.
        other:2: 'name' is 'another', but must match its directory, 'other'.
        quiet:0: It has no 'description', which tells the model when to load it.
        twice:4: duplicate key 'name'; keep one
        ");
    }

    #[test]
    fn links_of_a_workspace_stay_in_it() {
        let fixture = Fixture::new(&[
            ("outside/x/SKILL.md", &file("x", "")),
            ("work/shared/y/SKILL.md", &file("y", "")),
            ("work/.roo/skills/z/none", ""),
            ("home/.roo/skills/z/none", ""),
        ]);
        symlink(fixture.path("outside/x"), fixture.path("work/.roo/skills/x")).unwrap();
        symlink("../../shared/y", fixture.path("work/.roo/skills/y")).unwrap();
        let (skills, problems) = fixture.load_skills();
        assert_eq!((skills.find("x", "code"), problems.len()), (None, 1));
        assert_eq!(read_body(skills.find("y", "code").unwrap()).unwrap(), "Do y.");
        fs::remove_file(fixture.path("work/.roo/skills/x")).unwrap();
        symlink(fixture.path("outside/x"), fixture.path("home/.roo/skills/x")).unwrap();
        assert_eq!(fixture.chosen("x", "code").as_deref(), Some("home/.roo/skills/x/SKILL.md"));
    }

    #[test]
    fn instructions_that_can_not_be_read_say_why() {
        let fixture = Fixture::new(&[("work/.roo/skills/x/SKILL.md", &file("x", ""))]);
        let (skills, _) = fixture.load_skills();
        let skill = skills.find("x", "code").unwrap();
        let path = skill.path().unwrap();
        let why = |text: &[u8]| {
            fs::write(&path, text).unwrap();
            read_body(skill).unwrap_err().to_string()
        };
        assert!(why(b"---\nname: x\n---\n \n").contains("holds no instructions"));
        assert!(why(b"\xff").contains("not valid UTF-8"));
        assert!(why(b"---\na: 1\na: 2\n---\nx").contains("broken front matter"));
        assert!(why(&vec![b'x'; MAX_FILE_BYTES as usize + 1]).contains("at most 131072"));
        fs::remove_file(&path).unwrap();
        assert!(read_body(skill).unwrap_err().to_string().contains("does not exist"));
    }

    #[test]
    fn the_built_in_skill_has_roos_name_too() {
        let (skills, _) = Skills::load(&[]);
        let skill = skills.find("create_mode", "architect").unwrap();
        let text = skill.result(None, &read_body(skill).unwrap());
        assert!(text.starts_with("Skill: create-mode\nDescription: "), "{text}");
        assert!(text.contains("\nSource: built-in\n\n--- Skill Instructions ---\n\nA custom mode"), "{text}");
        // What it shows is what it says.
        let yaml = CREATE_MODE.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
        let value = roo_formats::config::yaml::parse(yaml).unwrap();
        assert_eq!(value["customModes"][0]["groups"][1][1]["fileRegex"], r"\.md$");
        assert_eq!(Skills::default().find("create-mode", "code"), None);
    }

    #[test]
    fn names_are_words_with_one_dash_between_them() {
        for name in ["a", "a-b2", "2", &"a".repeat(64)] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "-a", "a-", "a--b", "A", "a_b", "é", &"a".repeat(65)] {
            assert!(!is_name(name), "{name}");
        }
    }
}

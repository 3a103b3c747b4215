//! Slash commands: Markdown files in `.roo/commands`, named by their file, that `/name` in a message
//! puts before the model.
//!
//! Front matter: `description`, `argument-hint` and `mode`. In the body `$ARGUMENTS` stands for all
//! that follows the command on its line. Where there is an `argument-hint`, `$1` to `$9` stand for its words: Roo Code puts
//! nothing in their place, and commands that were written for it hold scripts and prices. A body in which nothing was put
//! gets the arguments at its end.

use std::path::{Path, PathBuf};

use super::directory::{CustomizationDirectory, without_hidden};
use super::{Scope, hidden_characters};
use roo_formats::front_matter::{CommandKeys, FrontMatter};
use roo_formats::modes::Source;
use roo_formats::{FileProblem, Problem};
use roo_text::render::one_line;
use roo_workspace::{Purpose, read_disk};

/// Directory of commands below a home directory or a workspace root.
const DIRECTORY: &str = ".roo/commands";

/// The longest file, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// The most commands of one directory.
const MAX_COMMANDS: usize = 200;

/// The longest name, in characters.
const MAX_NAME_CHARS: usize = 64;

/// The longest description, in characters.
const MAX_DESCRIPTION_CHARS: usize = 1024;

/// Maximum length of a text after its arguments are filled in, in bytes; further places are left as they are.
const MAX_TEXT_BYTES: usize = 256 << 10;

/// A command that users write as `/name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlashCommand {
    /// The file's name without `.md`: ASCII letters, digits, `_`, `-` and `.`.
    pub name: String,
    /// Description for people, in one line.
    pub description: Option<String>,
    /// Hint for people about its arguments.
    pub argument_hint: Option<String>,
    /// The mode that it switches to; may be unknown.
    pub mode: Option<String>,
    /// Text of the command.
    pub body: String,
    pub source: Source,
    /// Its file; none for a built-in one.
    pub path: Option<PathBuf>,
}

impl SlashCommand {
    /// Returns its text, with the arguments filled in. An argument's own `$` means nothing, and a number for which there is no
    /// word stays as it is.
    pub fn text(&self, arguments: &str) -> String {
        let arguments = arguments.trim();
        // Text that isn't quoted as in a shell is split at blanks.
        let words = || {
            shlex::split(arguments)
                .unwrap_or_else(|| arguments.split_whitespace().map(str::to_owned).collect())
        };
        let words = self.argument_hint.as_ref().map(|_| words()).unwrap_or_default();
        let mut text = String::with_capacity(self.body.len() + arguments.len());
        let mut rest = self.body.as_str();
        let mut replaced = false;
        while let Some((before, behind)) = rest.split_once('$').filter(|_| text.len() < MAX_TEXT_BYTES) {
            text.push_str(before);
            let digits = behind.len() - behind.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let number = behind.get(..digits).filter(|_| digits == 1).and_then(|digits| digits.parse().ok());
            let word = number.and_then(|number: usize| words.get(number.checked_sub(1)?));
            rest = match (behind.strip_prefix("ARGUMENTS"), word) {
                (Some(behind), _) if !begins_with_word(behind) => {
                    text.push_str(arguments);
                    replaced = true;
                    behind
                }
                (_, Some(word)) => {
                    text.push_str(word);
                    replaced = true;
                    behind.get(digits..).unwrap_or_default()
                }
                _ => {
                    text.push('$');
                    behind
                }
            };
        }
        text.push_str(rest);
        if !replaced && !arguments.is_empty() {
            text.push_str("\n\nProvided arguments: ");
            text.push_str(arguments);
        }
        text
    }

    fn init() -> Self {
        Self {
            name: "init".to_owned(),
            description: Some("Analyses the project and writes AGENTS.md for coding agents".to_owned()),
            argument_hint: None,
            mode: None,
            body: INIT.to_owned(),
            source: Source::BuiltIn,
            path: None,
        }
    }
}

fn begins_with_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// Returns whether `/name` can be written in a message.
pub fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME_CHARS
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c != '.')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

/// Reads the commands of `.roo/commands` in these directories (home, workspace root), the built-in
/// ones with them, sorted by name. Of several with one name the project's counts, then the user's, and
/// within a scope the later directory's. Only files of the directory itself count, not those of
/// directories in it. A broken file is a problem and hides no other; one whose front matter is broken is a command as a
/// whole.
pub(crate) fn load(directories: &[(PathBuf, Scope)]) -> (Vec<SlashCommand>, Vec<FileProblem>) {
    let mut commands = vec![SlashCommand::init()];
    let mut problems = Vec::new();
    for (path, scope) in directories {
        // What can't be opened holds no commands.
        let Ok(directory) = CustomizationDirectory::open(path, *scope) else { continue };
        let names = directory.names(DIRECTORY).unwrap_or_else(|problem| {
            problems.push(problem);
            Vec::new()
        });
        let files: Vec<String> = names.into_iter().filter(|name| stem(name).is_some()).collect();
        if files.len() > MAX_COMMANDS {
            let message =
                format!("It has {} commands; only the first {MAX_COMMANDS} are loaded.", files.len());
            problems.push(FileProblem::error(&directory.path(DIRECTORY), None, message));
        }
        for file in files.iter().take(MAX_COMMANDS) {
            let below = format!("{DIRECTORY}/{file}");
            let path = directory.path(&below);
            if path.is_dir() {
                continue;
            }
            match read(&directory, &below, file, &path, &mut problems) {
                Err(fault) => problems.push(FileProblem::new(&path, fault)),
                Ok(new) => match commands.iter_mut().find(|known| known.name == new.name) {
                    Some(known) if known.source > new.source => {}
                    Some(known) => *known = new,
                    None => commands.push(new),
                },
            }
        }
    }
    commands.sort_by(|one, other| one.name.cmp(&other.name));
    (commands, problems)
}

/// The name of a Markdown file without its ending; none for another file.
fn stem(file: &str) -> Option<&str> {
    let (stem, ending) = file.split_at_checked(file.len().checked_sub(".md".len())?)?;
    ending.eq_ignore_ascii_case(".md").then_some(stem)
}

fn read(
    directory: &CustomizationDirectory,
    below: &str,
    file: &str,
    path: &Path,
    problems: &mut Vec<FileProblem>,
) -> Result<SlashCommand, Problem> {
    let fault = |message: String| Problem::error(None, message);
    let name = stem(file).unwrap_or(file);
    if !is_name(name) {
        return Err(fault(format!(
            "A command is named by its file, with ASCII letters, digits, '_', '-' and '.', at most {MAX_NAME_CHARS} \
             of them: rename it."
        )));
    }
    let place = directory.find(below, Purpose::Read).map_err(|error| fault(error.to_string()))?;
    let bytes = read_disk(&place, MAX_FILE_BYTES).map_err(|error| fault(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| fault("It is not valid UTF-8.".to_owned()))?;
    parse(&text, name, path, directory.scope, problems)
}

/// Returns the problems of a command's file that held this text.
pub fn problems_of(path: &Path, text: &str) -> Vec<FileProblem> {
    let mut problems = Vec::new();
    // Neither matters for what is wrong.
    if let Err(fault) = parse(text, "", path, Scope::Project, &mut problems) {
        problems.push(FileProblem::new(path, fault));
    }
    problems
}

fn parse(
    text: &str,
    name: &str,
    path: &Path,
    scope: Scope,
    problems: &mut Vec<FileProblem>,
) -> Result<SlashCommand, Problem> {
    if text.len() as u64 > MAX_FILE_BYTES {
        let message = format!("It has more than {} KiB: shorten it.", MAX_FILE_BYTES >> 10);
        return Err(Problem::error(None, message));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (text, hidden) = without_hidden(text);
    if hidden.is_some() {
        problems.push(hidden_characters(path, hidden));
    }
    let (keys, body) = match FrontMatter::<CommandKeys>::split(&text) {
        Ok((front, body)) => {
            problems.extend(front.problems.into_iter().map(|problem| FileProblem::new(path, problem)));
            (front.keys, body)
        }
        // As in Roo Code the command is there all the same, with all of the file as its text.
        Err(problem) => {
            problems.push(FileProblem::new(path, problem));
            (CommandKeys::default(), &*text)
        }
    };
    let shown = |text: Option<String>| text.map(|text| one_line(&text, MAX_DESCRIPTION_CHARS));
    let CommandKeys { description, argument_hint, mode, .. } = keys;
    Ok(SlashCommand {
        name: name.to_owned(),
        description: shown(description),
        argument_hint: shown(argument_hint),
        mode,
        body: body.replace("\r\n", "\n").trim().to_owned(),
        source: scope.into(),
        path: Some(path.to_path_buf()),
    })
}

/// The body of `/init`.
const INIT: &str = "\
Write AGENTS.md in the workspace's root: what a coding agent must know about this project before its first \
change, and could not guess.

1. If there is an AGENTS.md, or a file of that kind for another agent, read it first: what is still true stays.
2. Find out from the files themselves, not from habit: what the project is for; its parts and how they depend \
on each other; how it is built, run, linted and tested, a single test included; which conventions its code \
keeps to; which files are generated and must not be edited; what goes wrong easily.
3. Check every command that you write down against the build files, and every path against the tree. Leave \
out what you could not confirm.
4. Write at most some 100 lines: short sections, commands in code blocks, no praise, nothing that a look at \
the file tree tells, nothing that holds for every project.
5. Finish with what you wrote and what remains uncertain.";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::customization::fixture::Fixture;
    use roo_formats::Position;

    impl Fixture {
        fn load_commands(&self) -> (Vec<SlashCommand>, Vec<FileProblem>) {
            load(&self.places())
        }

        fn names(&self) -> Vec<String> {
            self.load_commands().0.into_iter().map(|command| command.name).collect()
        }
    }

    /// A command that takes arguments.
    fn command(body: &str) -> SlashCommand {
        let argument_hint = Some("<words>".to_owned());
        SlashCommand { body: body.to_owned(), argument_hint, ..SlashCommand::init() }
    }

    #[test]
    fn a_file_is_a_command() {
        let text = "---\ndescription: Ships it\nargument-hint: <stage>\nmode: code\n---\r\n\nDeploy to $1.\r\nThen wait.\n";
        let fixture = Fixture::new(&[("work/.roo/commands/deploy.md", text)]);
        let (commands, problems) = fixture.load_commands();
        assert_eq!(problems, []);
        let expected = SlashCommand {
            name: "deploy".to_owned(),
            description: Some("Ships it".to_owned()),
            argument_hint: Some("<stage>".to_owned()),
            mode: Some("code".to_owned()),
            body: "Deploy to $1.\nThen wait.".to_owned(),
            source: Source::Project,
            path: Some(fixture.path("work/.roo/commands/deploy.md")),
        };
        assert_eq!(commands, [expected, SlashCommand::init()]);
    }

    #[test]
    fn the_project_beats_the_user_who_beats_what_is_built_in() {
        let fixture = Fixture::new(&[
            ("home/.roo/commands/a.md", "user"),
            ("home/.roo/commands/init.md", "user"),
            ("work/.roo/commands/a.md", "project"),
        ]);
        let (commands, _) = fixture.load_commands();
        let bodies: Vec<&str> = commands.iter().map(|command| command.body.as_str()).collect();
        assert_eq!(bodies, ["project", "user"]);
        // Whatever the order of the directories.
        let (commands, _) =
            load(&[(fixture.path("home"), Scope::Global), (fixture.path("work"), Scope::Project)]);
        assert_eq!((commands.len(), commands[0].body.as_str()), (2, "project"));
    }

    #[test]
    fn only_markdown_files_of_the_directory_itself_count() {
        let fixture = Fixture::new(&[
            ("work/.roo/commands/a.md", ""),
            ("work/.roo/commands/b.txt", ""),
            ("work/.roo/commands/sub/c.md", ""),
            ("work/.roo/commands/d.md/e.md", ""),
        ]);
        assert_eq!(fixture.names(), ["a", "init"]);
        assert_eq!(fixture.load_commands().1, []);
    }

    #[test]
    fn a_broken_file_is_a_problem_at_its_place_and_hides_no_other() {
        let fixture = Fixture::new(&[
            ("work/.roo/commands/good.md", "---\nargument-hint: [file]\n---\nx"),
            ("work/.roo/commands/twice.md", "---\nmode: a\nmode: b\n---\nx"),
            ("work/.roo/commands/two words.md", "x"),
            ("work/.roo/commands/large.md", &"x".repeat(MAX_FILE_BYTES as usize + 1)),
            ("work/.roo/commands/hidden.md", "see\u{e0041}\u{200b} here"),
        ]);
        let (commands, problems) = fixture.load_commands();
        let names: Vec<&str> = commands.iter().map(|command| command.name.as_str()).collect();
        assert_eq!(names, ["good", "hidden", "init", "twice"]);
        assert_eq!(commands[1].body, "see here");
        let told: Vec<(String, Option<Position>)> = problems
            .iter()
            .map(|problem| {
                (problem.file.file_name().unwrap().to_string_lossy().into_owned(), problem.problem.start())
            })
            .collect();
        let at = |line, column| Some(Position { line, column });
        assert_eq!(
            told,
            [
                ("good.md".to_owned(), at(2, 16)),
                ("hidden.md".to_owned(), at(1, 4)),
                ("large.md".to_owned(), None),
                ("twice.md".to_owned(), at(3, 1)),
                ("two words.md".to_owned(), None),
            ]
        );
        assert!(problems[3].to_string().ends_with("twice.md:3:1: duplicate key 'mode'; keep one"));
    }

    #[test]
    fn a_command_with_broken_front_matter_is_there_with_the_whole_file_as_its_text() {
        for text in [
            "---\ndescription: Review: the diff\n---\n\nReview it.",
            "---\nmode: a\nmode: b\n---\nReview it.",
            "---\n- a\n---\nReview it.",
            "---\na: [\n---\nReview it.",
        ] {
            let fixture = Fixture::new(&[("work/.roo/commands/review.md", text)]);
            let (commands, problems) = fixture.load_commands();
            let review = &commands[1];
            assert_eq!((review.name.as_str(), review.body.as_str()), ("review", text));
            assert_eq!((&review.description, &review.mode), (&None, &None), "{text}");
            assert_eq!(problems.len(), 1, "{text}");
            let path = fixture.path("work/.roo/commands/review.md");
            assert_eq!(problems_of(&path, text), problems, "the editor is told the same");
        }
        // A key alone is left out.
        let fixture = Fixture::new(&[("work/.roo/commands/a.md", "---\nmode: [code]\n---\nReview it.")]);
        let (commands, problems) = fixture.load_commands();
        assert_eq!((commands[0].body.as_str(), problems.len()), ("Review it.", 1));
    }

    #[test]
    fn the_ending_of_the_file_has_no_case() {
        let fixture = Fixture::new(&[("work/.roo/commands/A.MD", "x"), ("work/.roo/commands/b.Md", "y")]);
        assert_eq!(fixture.names(), ["A", "b", "init"]);
        assert_eq!(fixture.load_commands().1, []);
        for file in ["md", ".md", "a.mdx", "é", "aé"] {
            assert_eq!(stem(file).filter(|stem| !stem.is_empty()), None, "{file}");
        }
    }

    #[test]
    fn links_of_a_workspace_stay_in_it_and_those_of_the_user_lead_anywhere() {
        let fixture = Fixture::new(&[
            ("outside/secret.md", "out"),
            ("work/docs/deploy.md", "in"),
            ("work/.roo/commands/x.txt", ""),
            ("home/.roo/commands/x.txt", ""),
        ]);
        symlink(fixture.path("outside/secret.md"), fixture.path("work/.roo/commands/steal.md")).unwrap();
        symlink("../../docs/deploy.md", fixture.path("work/.roo/commands/deploy.md")).unwrap();
        symlink(fixture.path("outside/secret.md"), fixture.path("home/.roo/commands/mine.md")).unwrap();
        assert_eq!(fixture.names(), ["deploy", "init", "mine"]);
        let (_, problems) = fixture.load_commands();
        assert_eq!(problems.len(), 1);
        assert!(problems[0].problem.message.contains("points outside the workspace"), "{}", problems[0]);
    }

    #[test]
    fn a_commands_directory_that_leads_out_of_the_workspace_is_a_problem() {
        let fixture = Fixture::new(&[("outside/a.md", "x"), ("work/.roo/x", "")]);
        symlink(fixture.path("outside"), fixture.path("work/.roo/commands")).unwrap();
        let (commands, problems) = fixture.load_commands();
        assert_eq!((commands.len(), problems.len()), (1, 1));
    }

    #[test]
    fn there_may_be_too_many() {
        let names: Vec<String> =
            (0..MAX_COMMANDS + 1).map(|n| format!("work/.roo/commands/c{n:04}.md")).collect();
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x")).collect();
        let (commands, problems) = Fixture::new(&files).load_commands();
        assert_eq!((commands.len(), problems.len()), (MAX_COMMANDS + 1, 1));
    }

    #[test]
    fn arguments_go_where_the_body_has_places_for_them() {
        let check = |body: &str, arguments: &str, expected: &str| {
            assert_eq!(command(body).text(arguments), expected, "{body}");
        };
        check("Do it.", "", "Do it.");
        check("Do it.", "  now  ", "Do it.\n\nProvided arguments: now");
        check("Do $ARGUMENTS!", "a 'b c'", "Do a 'b c'!");
        check("$1, $2, $3;", "a 'b c'", "a, b c, $3;");
        check("Deploy to $1.", "", "Deploy to $1.");
        check("$2", "a", "$2\n\nProvided arguments: a");
        check("$1 $2", "it's so", "it's so");
        check("$10 $0 $ARGUMENTSX $x $", "a", "$10 $0 $ARGUMENTSX $x $\n\nProvided arguments: a");
        check("$1-$2", "$2 b", "$2-b");
        check("é$1é", "ü", "éüé");
    }

    #[test]
    fn numbers_stay_in_a_command_that_has_no_hint_about_its_arguments() {
        let check = |body: &str, arguments: &str, expected: &str| {
            let command = SlashCommand { argument_hint: None, ..command(body) };
            assert_eq!(command.text(arguments), expected, "{body}");
        };
        let script = "Run git branch | awk '{print $1}' and note that it costs $5.";
        check(script, "", script);
        check(script, "now", &format!("{script}\n\nProvided arguments: now"));
        check("Look at $ARGUMENTS; it costs $5.", "a b", "Look at a b; it costs $5.");
    }

    #[test]
    fn names_are_what_can_be_written_behind_a_slash() {
        for name in ["a", "deploy-2", "v1.2", "A_b"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", ".", "a.", "-a", ".a", "a b", "a/b", "é", &"a".repeat(65)] {
            assert!(!is_name(name), "{name}");
        }
    }
}

//! Allowing one command: it must match a rule, and nothing about it may be in doubt.
//!
//! Which commands a line holds, and what their words stand for, is found out in [`super::flow`].

use super::knowledge::{Names, Options, knowledge, options};
use super::place::{Place, Program, may_match};
use super::repository::is_harmless_setting;
use super::value::{Argument, Kind, join};
use super::{git, programs};

/// Options whose value is a pattern of names, which often stands there without quotes.
const FILTERS: &[&str] = &["--exclude-dir=", "--exclude=", "--glob=", "--iglob=", "--include="];

/// A rule, of the settings or of a preset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rule {
    /// The words that a command begins with.
    pub(super) words: Vec<String>,
    /// The preset that it belongs to; none for a rule of the user's own.
    pub(super) preset: Option<&'static str>,
    /// True if it allows nothing behind these words but options that are known to be harmless.
    pub(super) is_exact: bool,
    /// Words that may stand behind them all the same; a last `*` stands for any rest.
    pub(super) targets: &'static [String],
    /// Words and options with which it allows nothing.
    pub(super) never: &'static [String],
}

impl Rule {
    /// It as a line for people.
    pub(super) fn line(&self) -> String {
        let rest = match (self.is_exact, self.targets) {
            (true, []) => "",
            (true, _) => " <targets>",
            (false, _) => " …",
        };
        format!("{}{rest}", self.words.join(" "))
    }

    fn is_target(&self, word: &str) -> bool {
        self.targets.iter().any(|target| fits(target, word))
    }
}

/// Returns whether a word is this one, or begins as one that ends in `*` says.
fn fits(pattern: &str, word: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(begin) => word.starts_with(begin),
        None => word == pattern,
    }
}

/// One command, with what its words stand for.
pub(super) struct ResolvedCommand<'a> {
    /// The program and its arguments.
    pub(super) arguments: &'a [Argument],
    /// The names of files that are put behind them when it runs; none where nothing is.
    pub(super) further: Option<&'a [String]>,
    /// True if its input comes from the line.
    pub(super) fed: bool,
    /// True if another program starts it, so that no command of the shell is meant.
    pub(super) is_started: bool,
    /// Directory in which it runs, from the place of the line.
    pub(super) directory: &'a str,
    pub(super) place: &'a dyn Place,
    /// True if nothing on its line changes which files there are.
    pub(super) only_reads: bool,
    /// Earlier command that may have replaced the files that it looks for.
    pub(super) rearranged: Option<&'a str>,
}

/// Match of a command with a rule.
struct RuleMatch {
    /// Its words without options that mean nothing here, those of the rule first.
    words: Vec<Argument>,
    /// Number of them that the rule names.
    named: usize,
    /// The values of the options that were left out.
    values: Vec<Argument>,
    /// The directory that an option tells it to run in.
    directory: Option<String>,
}

/// A question about one path.
type Check = fn(&dyn Place, &str) -> Result<(), String>;

impl ResolvedCommand<'_> {
    /// The rule that allows it, or why it asks.
    pub(super) fn rule<'r>(&self, rules: &[&'r Rule]) -> Result<&'r Rule, String> {
        let Some(program) = self.arguments.first().and_then(Argument::exact) else {
            return Err("it contains no program that a rule could name".to_owned());
        };
        let known = options(&programs::name(program));
        let mut reason = match rules.iter().any(|rule| is_program(rule, program)) {
            true => format!("no rule allows `{program}` with these arguments"),
            false => format!("no rule allows `{program}`"),
        };
        for rule in rules.iter().copied() {
            if let Some(matched) = matched(rule, self.arguments, known) {
                match self.objection(rule, matched) {
                    None => return Ok(rule),
                    Some(objection) => reason = objection,
                }
            }
        }
        Err(reason)
    }

    fn objection(&self, rule: &Rule, matched: RuleMatch) -> Option<String> {
        let directory = match &matched.directory {
            None => self.directory.to_owned(),
            Some(to) => match self.entered(to) {
                Ok(directory) => directory,
                Err(reason) => return Some(reason),
            },
        };
        let name = programs::name(&matched.words.first()?.text);
        let words = matched.words.iter().map(|argument| argument.text.clone()).collect();
        let command = Command { judged: self, rule, name, words, matched, directory };
        command.objection()
    }

    /// The directory that an option leads to.
    fn entered(&self, to: &str) -> Result<String, String> {
        let directory = join(self.directory, to, self.place.directory())
            .ok_or_else(|| format!("`{to}` may lead out of the workspace"))?;
        let directory_of_text = text_of(self.directory, to);
        if programs::names_protected(&directory) {
            return Err(format!("`{to}` steers agents or tools"));
        }
        self.place.enterable(&directory_of_text)?;
        // The option leads where the system says, and the rest is judged by the text.
        match directory == directory_of_text || self.place.is_same(&directory, &directory_of_text) {
            true => Ok(directory),
            false => Err(format!("it isn't known where `{to}` leads")),
        }
    }
}

/// A command that matches a rule.
struct Command<'a> {
    judged: &'a ResolvedCommand<'a>,
    rule: &'a Rule,
    name: String,
    /// The text of its words.
    words: Vec<String>,
    matched: RuleMatch,
    directory: String,
}

impl Command<'_> {
    fn objection(&self) -> Option<String> {
        let is_further = |word: &Argument| {
            !is_harmless_variable(&self.name, &word.text)
                && !word.exact().is_some_and(|word| self.rule.is_target(word))
        };
        if self.rule.is_exact && self.rest().any(|(_, word)| is_further(word)) {
            return Some(format!("no rule allows `{}` with these arguments", self.words[0]));
        }
        self.never()
            .or_else(|| self.launches())
            .or_else(|| self.program())
            .or_else(|| self.unknown())
            .or_else(|| self.options())
            .or_else(|| self.leads())
            .or_else(|| self.special())
            .or_else(|| self.patterns())
            .or_else(|| self.reads())
            .or_else(|| self.searches())
    }

    fn place(&self) -> &dyn Place {
        self.judged.place
    }

    /// The words behind those of the rule.
    fn rest(&self) -> impl Iterator<Item = (usize, &Argument)> {
        self.matched.words.iter().enumerate().skip(self.matched.named)
    }

    /// The same without texts that are no path, option or script, such as the message of a commit.
    fn judged_words(&self) -> impl Iterator<Item = (usize, &Argument)> {
        let texts = git::texts(&self.name, &self.words);
        self.rest().filter(move |(index, _)| !texts.contains(index))
    }

    /// Returns whether it changes no file that it is given.
    fn only_reads(&self) -> bool {
        programs::only_reads(&self.name)
            || programs::is_reading_sed(&self.name, &self.words, self.matched.named)
    }

    /// The index of the word that is looked for, or a script.
    fn unread(&self) -> Option<usize> {
        programs::unread(&self.name, &self.words)
    }

    /// Returns whether a word is what is looked for, whatever it looks like.
    fn is_sought(&self, index: usize) -> bool {
        // Others that go through directories, such as `diff`, look for nothing: there `-e` takes no value.
        let is_searcher = options(&self.name)
            .is_some_and(|known| known.recurses.is_some() && known.script_options.is_some())
            || matches!(self.name.as_str(), "jq" | "tr" | "git");
        let is_given = index > 0 && matches!(self.words[index - 1].as_str(), "-e" | "--regexp");
        let takes_it = match self.name.as_str() {
            "jq" | "tr" => false,
            "git" => self.words.get(1).is_some_and(|command| command == "grep"),
            _ => true,
        };
        is_searcher && (self.unread() == Some(index) || (is_given && takes_it))
    }

    /// Words with which the rule is not meant to allow anything.
    fn never(&self) -> Option<String> {
        let preset = self.rule.preset?;
        let is_never = |word: &str| programs::is_one_of(word, self.rule.never.iter().map(String::as_str));
        let texts = git::texts(&self.name, &self.words);
        let words = self.words.iter().enumerate().skip(1).filter(|(index, _)| !texts.contains(index));
        let word = words.map(|(_, word)| word).find(|word| is_never(word))?;
        Some(format!("the preset `{preset}` allows no `{word}`"))
    }

    /// Returns the reason why it may run any program that it is given.
    fn launches(&self) -> Option<String> {
        let name = &self.name;
        let asks_about_itself =
            matches!(&self.words[1..], [only] if matches!(only.as_str(), "--version" | "--help"));
        let names_more = self.rule.is_exact
            || self.rule.preset.is_some()
            || self.rule.words.iter().skip(1).any(|word| !word.starts_with('-'));
        if programs::launches(&self.words[0]) || knowledge().escaping.has(name) {
            return Some(format!("`{name}` can run any program, so no rule allows it"));
        }
        if knowledge().runners.has(name) && !asks_about_itself && !names_more {
            return Some(format!("`{name}` runs what it is given, so a rule must also name that"));
        }
        // Of a preset it runs nothing but the script that it is given as an argument.
        let is_awk = self.rule.preset.is_some() && matches!(name.as_str(), "awk" | "gawk");
        (self.judged.fed && !is_awk && (knowledge().runners.has(name) || programs::evaluates(name)))
            .then(|| format!("`{name}` may run what it is given as input"))
    }

    /// Returns the reason why the name may lead to another program than the rule means.
    fn program(&self) -> Option<String> {
        let program = &self.words[0];
        if program.contains('/') {
            // The rule names this very path, but not from another directory.
            let moved = !self.directory.is_empty() && !program.starts_with('/');
            return moved.then(|| format!("`{program}` is another program in `{}`", self.directory));
        }
        if programs::is_builtin(program) && !self.judged.is_started {
            return None;
        }
        match self.place().program(program) {
            Program::Installed(_) => self.installs(),
            Program::Workspace(file) => Some(format!("`{program}` is {file}, a file of the workspace")),
            Program::Missing => Some(format!("there is no program `{program}`")),
        }
    }

    /// Programs that fetch what isn't there run it at once. A preset means only what the project has.
    fn installs(&self) -> Option<String> {
        let fetches = matches!(self.name.as_str(), "npx" | "bunx" | "pnpx");
        let tool = self.words.iter().skip(1).find(|word| !word.starts_with('-'))?;
        if !fetches || self.rule.preset.is_none() {
            return None;
        }
        let mut above = Some(self.directory.clone());
        while let Some(directory) = above {
            if self.place().inside(&directory).is_err() {
                break;
            }
            if self.place().is_there(&text_of(&directory, &format!("node_modules/.bin/{tool}"))) {
                return None;
            }
            above = join(&directory, "..", self.place().directory()).filter(|above| *above != directory);
        }
        Some(format!("`{tool}` is not installed in the project, so `{}` would fetch it", self.name))
    }

    /// Returns the reason why an unknown value may do harm: it may only be printed, or be a number.
    fn unknown(&self) -> Option<String> {
        let texts = git::texts(&self.name, &self.words);
        for (index, word) in self.matched.words.iter().enumerate() {
            let previous = index.checked_sub(1).map_or("", |index| &self.words[index]);
            let may_be = match word.kind {
                Kind::Exact | Kind::Pattern(_) => true,
                Kind::Found => self.only_reads(),
                Kind::Number => {
                    // A number of its own could be the name of a file.
                    word.text.starts_with('-')
                        || (previous.starts_with('-') && previous.len() > 1)
                        || !(programs::shows(&self.name) || knowledge().runners.has(&self.name))
                        || matches!(self.name.as_str(), "make" | "gmake" | "cargo" | "cmake" | "ninja")
                }
                Kind::Unknown => {
                    (index >= self.matched.named && texts.contains(&index)) || self.only_prints(index)
                }
            };
            if !may_be {
                let program = &self.words[0];
                return Some(match word.kind {
                    Kind::Found => format!(
                        "`{}` is the name of a file that was found, and `{program}` may do more than read it",
                        word.text
                    ),
                    _ => format!("it isn't known before it runs what `{program}` would be given"),
                });
            }
        }
        None
    }

    /// Returns whether whatever stands at a place is printed or compared.
    fn only_prints(&self, index: usize) -> bool {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        match self.name.as_str() {
            "echo" => true,
            // What stands first could be an option.
            "printf" => index > 1 && !words[1].starts_with('-'),
            "test" | "[" => programs::is_plain_test(&words, index),
            _ => false,
        }
    }

    /// Options that make it run a program, write a file or follow links.
    fn options(&self) -> Option<String> {
        let name = &self.name;
        let known = options(name);
        let has = |list: fn(&Options) -> &Names, word: &str| {
            known.is_some_and(|known| programs::is_one_of(word, list(known).iter()))
        };
        for (index, argument) in self.judged_words() {
            let word = &argument.text;
            if has(|known| &known.risky, word) {
                return Some(format!("`{word}` can make `{name}` run a program or write a file"));
            }
            if has(|known| &known.following, word) {
                return Some(format!(
                    "`{word}` makes `{name}` follow links, which may lead out of the workspace"
                ));
            }
            if (word.contains('`') || word.contains("$(")) && !self.is_sought(index) {
                return Some(format!("`{word}` holds a command that `{name}` could run"));
            }
            let below = text_of(&self.directory, word);
            let steers = programs::names_protected(word) || programs::names_protected(&below);
            if !programs::only_reads(name) && steers {
                return Some(format!("`{word}` steers agents or tools"));
            }
        }
        None
    }

    /// Words that lead out of the workspace, also as the value of an option.
    fn leads(&self) -> Option<String> {
        let script = programs::script_of_sed(&self.name, &self.words, self.matched.named);
        let is_judged = |index: usize| Some(index) != script && !self.is_sought(index);
        let words = self.judged_words().filter(|(index, _)| is_judged(*index)).map(|(_, word)| word);
        for word in words.chain(&self.matched.values) {
            let outside = || Some(format!("`{}` may lead out of the workspace", word.text));
            if programs::leads_outside_in_cluster(&word.text) {
                return outside();
            }
            for path in programs::climbing(&word.text) {
                if self.place().inside(&text_of(&self.directory, path)).is_err() {
                    return outside();
                }
            }
        }
        None
    }

    /// Returns the objection that is known of this program.
    fn special(&self) -> Option<String> {
        let further: Vec<&str> = self.rest().map(|(_, word)| word.text.as_str()).collect();
        let judged: Vec<&str> = self.judged_words().map(|(_, word)| word.text.as_str()).collect();
        match self.name.as_str() {
            "git" => {
                let context = git::Context {
                    bare_rule: self.rule.words.len() == 1,
                    further: &judged,
                    repository: &|| self.place().repository(&self.directory),
                };
                git::objection(&self.words, &context)
            }
            "tee" => further
                .iter()
                .filter(|word| !word.starts_with('-'))
                .find_map(|file| self.place().writable(&text_of(&self.directory, file)).err()),
            name => programs::special(name, &self.rule.words, &self.words, self.matched.named),
        }
    }

    /// Names of files may look like options, and may be of any kind.
    fn patterns(&self) -> Option<String> {
        let program = &self.words[0];
        for word in &self.matched.words {
            let Kind::Pattern(literal) = word.kind else { continue };
            let text = &word.text;
            if !self.only_reads() {
                return Some(format!(
                    "the shell replaces `{text}` by names of files, and `{program}` may do more than read them"
                ));
            }
            // Whatever files there are, it stays the option that it is.
            let is_filter = FILTERS.iter().any(|option| literal >= option.len() && text.starts_with(option));
            if (literal == 0 && !self.is_harmless_pattern(text)) || (text.starts_with('-') && !is_filter) {
                return Some(format!(
                    "`{text}` may stand for a file whose name looks like an option; write `./{text}`"
                ));
            }
            // A dot and a wildcard fit the directory above too.
            let hidden = |part: &str| part.starts_with('.') && part.contains(['*', '?', '[']);
            if text.split('/').any(hidden) {
                return Some(format!("`{text}` may lead out of the workspace"));
            }
        }
        None
    }

    /// Returns whether none of the names that a pattern stands for looks like an option, and options of the program
    /// could do nothing if one came until then.
    fn is_harmless_pattern(&self, pattern: &str) -> bool {
        let known = options(&self.name);
        let has_no_options = known.is_none_or(|known| known.risky.iter().next().is_none());
        let skipped = self.path(pattern).len() - pattern.len();
        let names = self.place().matching(&self.path(pattern), skipped);
        let is_plain = |name: &String| !name.get(skipped..).unwrap_or_default().starts_with('-');
        has_no_options
            && self.judged.only_reads
            && !self.goes_through_directories()
            && names.is_ok_and(|names| names.iter().all(is_plain))
    }

    /// Returns the reason why it may read, or show commits of, a file that may not be read without asking.
    fn reads(&self) -> Option<String> {
        if programs::only_names(&self.name) {
            return None;
        }
        let shows = programs::shows(&self.name) && !programs::only_lists(&self.name);
        let unread = self.unread();
        for (index, word) in self.judged_words() {
            let is_script = unread == Some(index)
                || (programs::may_be_script(&self.name, &self.words, index)
                    && !self.place().is_there(&self.path(&word.text)));
            let of_file: Check = if programs::only_lists(&self.name) {
                |place, path| place.within(path)
            } else if shows && !is_script {
                |place, path| place.readable(path)
            } else {
                |place, path| place.reachable(path)
            };
            let judged = match word.kind {
                Kind::Pattern(literal) => self.found(&word.text, literal, of_file),
                _ if unread == Some(index) || self.is_sought(index) => Ok(()),
                Kind::Number | Kind::Unknown => Ok(()),
                Kind::Exact | Kind::Found => self.operand(&word.text, of_file),
            };
            if let Err(reason) = judged {
                return Some(reason);
            }
            let is_operand = !word.text.starts_with('-') && !is_script;
            if let Some(program) = self.judged.rearranged.filter(|_| shows && is_operand) {
                return Some(format!("`{program}` before it may change what `{}` is", word.text));
            }
        }
        let values = self
            .matched
            .values
            .iter()
            .map(|value| self.operand(&value.text, |place, path| place.reachable(path)));
        if let Some(reason) = values.filter_map(Result::err).next() {
            return Some(reason);
        }
        if let Some(reason) = self.reads_further(shows) {
            return Some(reason);
        }
        if self.name == "git" { self.committed() } else { None }
    }

    /// The names that are put after its arguments.
    fn reads_further(&self, shows: bool) -> Option<String> {
        let name = &self.name;
        let further = self.judged.further?;
        if !self.only_reads()
            || self.unread().is_none() && options(name).is_some_and(|known| known.script_options.is_some())
        {
            return Some(format!("`{name}` may do more than read the files that it is given"));
        }
        let is_recursive = self.goes_through_directories();
        let check = |path: &String| match self.place().is_directory(path) {
            true if is_recursive => Err(format!("`{name}` goes through directories that it is given")),
            false if shows => self.place().readable(path),
            _ => self.place().reachable(path),
        };
        further.iter().map(|file| self.path(file)).find_map(|path| check(&path).err())
    }

    /// A word that may be a path, or hold one.
    fn operand(&self, word: &str, of_file: Check) -> Result<(), String> {
        let value = word.split_once('=').map(|(_, value)| value).filter(|_| word.starts_with("--"));
        if let Some(file) = value.or((!word.starts_with('-')).then_some(word)) {
            of_file(self.place(), &self.path(file))?;
        }
        programs::parts(word).try_for_each(|part| match self.place().is_there(&self.path(part)) {
            true => of_file(self.place(), &self.path(part)),
            false => Ok(()),
        })
    }

    /// The names that a pattern stands for.
    fn found(&self, pattern: &str, literal: usize, of_file: Check) -> Result<(), String> {
        let path = self.path(pattern);
        let literal = literal + path.len() - pattern.len();
        self.place().matching(&path, literal)?.iter().try_for_each(|name| {
            match self.place().is_directory(name) {
                true => self.place().reachable(name),
                false => of_file(self.place(), name),
            }
        })
    }

    /// Returns whether it reads what is below a directory that it is given.
    fn goes_through_directories(&self) -> bool {
        match options(&self.name).and_then(|known| known.recurses.as_ref()) {
            Some(recurses) => {
                recurses.iter().next().is_none()
                    || self.words[1..].iter().any(|word| programs::is_one_of(word, recurses.iter()))
            }
            None => self.name == "git" && git::searches_more_than_tracked(&self.words[1..]),
        }
    }

    /// Returns the reason why it goes through a directory that holds what may not be shown.
    fn searches(&self) -> Option<String> {
        if !self.goes_through_directories() {
            return None;
        }
        let unread = self.unread();
        // The command of git is no operand.
        let from = match self.name.as_str() {
            "git" => self.words.iter().position(|word| word == "grep").map_or(1, |at| at + 1),
            _ => 1,
        };
        let is_operand = |(index, word): &(usize, &Argument)| {
            *index >= from && Some(*index) != unread && !self.is_sought(*index) && !word.text.starts_with('-')
        };
        let mut directories = Vec::new();
        let mut has_operands = false;
        for (_, word) in self.matched.words.iter().enumerate().filter(is_operand) {
            has_operands = true;
            let path = self.path(&word.text);
            let names = match word.kind {
                Kind::Pattern(literal) => {
                    self.place().matching(&path, literal + path.len() - word.text.len()).unwrap_or_default()
                }
                _ => vec![path],
            };
            directories.extend(names.into_iter().filter(|path| self.place().is_directory(path)));
        }
        if !has_operands {
            directories.push(self.directory.clone());
        }
        let filter = Filter::new(&self.name, &self.words);
        for directory in directories {
            let shown = if directory.is_empty() { "." } else { &directory };
            if let Some(program) = self.judged.rearranged {
                return Some(format!("`{program}` before it may change what `{shown}` holds"));
            }
            match self.place().unreadable_below(&directory) {
                Err(reason) => return Some(reason),
                Ok(hidden) => {
                    let is_directory = |path: &str| self.place().is_directory(&text_of(&directory, path));
                    if let Some(path) = hidden.iter().find(|path| filter.reads(path, is_directory(path))) {
                        return Some(format!(
                            "`{shown}` holds `{path}`, which may not be shown; name what is to be searched"
                        ));
                    }
                }
            }
        }
        None
    }

    /// Returns the reason why git would show what was committed under a name that may not be read.
    fn committed(&self) -> Option<String> {
        let is_there = |path: &str| self.place().is_there(&self.path(path));
        git::searches_revision(&self.words[1..], is_there).or_else(|| {
            let searched = self.unread();
            let names = self
                .judged_words()
                .filter(|(index, word)| !word.text.starts_with('-') && searched != Some(*index));
            names
                .flat_map(|(_, word)| programs::parts(&word.text).chain([word.text.as_str()]))
                .find_map(|path| self.place().recorded(&self.directory, path).err())
        })
    }

    fn path(&self, path: &str) -> String {
        text_of(&self.directory, path)
    }
}

/// A path as it is written, from where the line runs.
pub(super) fn text_of(directory: &str, path: &str) -> String {
    match directory {
        _ if path.starts_with('/') => path.to_owned(),
        "" => path.to_owned(),
        directory => format!("{}/{path}", directory.trim_end_matches('/')),
    }
}

/// Returns whether a rule is about a program. What tests is one program under two names.
fn is_program(rule: &Rule, program: &str) -> bool {
    rule.words.first().is_some_and(|word| word == program || (word == "test" && program == "["))
}

/// Matches a command with a rule, word by word, but for options that change nothing about what it does.
fn matched(rule: &Rule, arguments: &[Argument], known: Option<&Options>) -> Option<RuleMatch> {
    let (program, rest) = arguments.split_first()?;
    if !is_program(rule, program.exact()?) {
        return None;
    }
    let name = programs::name(&program.text);
    let mut matched = RuleMatch { words: vec![program.clone()], named: 1, values: vec![], directory: None };
    let mut at = 0;
    for word in rule.words.iter().skip(1) {
        loop {
            let argument = rest.get(at)?;
            // Rules of the user's own have no patterns.
            let is_it = argument.exact().is_some_and(|text| match rule.preset {
                Some(_) => fits(word, text),
                None => text == word,
            });
            at += 1;
            if is_it {
                matched.words.push(argument.clone());
                matched.named += 1;
                break;
            }
            at += matched.skip(&name, argument, rest.get(at), known?, false)?;
        }
    }
    if let ([_], Some(known)) = (rule.words.as_slice(), known) {
        // Options before a command that the rule leaves open.
        while let Some(argument) = rest.get(at)
            && let Some(more) = matched.skip(&name, argument, rest.get(at + 1), known, false)
        {
            at += 1 + more;
        }
    }
    // What follows `--` is for another program.
    let mut is_own = true;
    while let Some(argument) = rest.get(at) {
        at += 1;
        is_own &= argument.exact() != Some("--");
        let skipped = known.filter(|_| is_own).and_then(|known| {
            let only_directories = !rule.is_exact;
            matched.skip(&name, argument, rest.get(at), known, only_directories)
        });
        match skipped {
            Some(more) => at += more,
            None => matched.words.push(argument.clone()),
        }
    }
    Some(matched)
}

impl RuleMatch {
    /// Leaves out an option that changes nothing but the directory; how many words more belong to it. None where it is no
    /// such option.
    fn skip(
        &mut self,
        name: &str,
        argument: &Argument,
        next: Option<&Argument>,
        known: &Options,
        only_directories: bool,
    ) -> Option<usize> {
        if argument.kind == Kind::Number && !only_directories {
            // `-j$(nproc)`
            let is_number = known.numbers.iter().any(|option| argument.text.starts_with(option));
            return is_number.then_some(0);
        }
        let word = argument.exact()?;
        let value = next.filter(|next| next.kind == Kind::Exact);
        let is_directory =
            |word: &str| known.anywhere.has(word) || (!only_directories && known.directories.has(word));
        if is_directory(word) && self.directory.is_none() {
            self.directory = Some(value?.text.clone());
            return Some(1);
        }
        if let Some((option, to)) = word.split_once('=').filter(|(option, _)| is_directory(option))
            && option.starts_with("--")
            && self.directory.is_none()
        {
            self.directory = Some(to.to_owned());
            return Some(0);
        }
        if only_directories {
            return None;
        }
        let is_harmless = known.flags.has(word)
            || (known.toolchains && is_toolchain(word))
            || is_harmless_variable(name, word);
        if is_harmless {
            return Some(0);
        }
        let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if known.numbers.has(word) {
            let has_number =
                next.is_some_and(|next| next.kind == Kind::Number || next.exact().is_some_and(is_digits));
            return Some(usize::from(has_number));
        }
        let attached = known.numbers.iter().any(|option| {
            let rest = word.strip_prefix(option);
            rest.is_some_and(|rest| is_digits(rest.strip_prefix('=').unwrap_or(rest)))
        });
        if attached {
            return Some(0);
        }
        if name == "git" && word == "-c" {
            let (setting, value) = value?.text.split_once('=')?;
            return is_harmless_setting(setting, value).then_some(1);
        }
        if known.values.has(word) {
            self.values.push(value?.clone());
            return Some(1);
        }
        let (option, value) = word.split_once('=')?;
        known.values.has(option).then(|| {
            self.values.push(Argument { text: value.to_owned(), kind: Kind::Exact });
            0
        })
    }
}

/// Returns whether a word chooses a toolchain of Rust by its usual names.
fn is_toolchain(word: &str) -> bool {
    word.strip_prefix('+').is_some_and(|name| {
        let (channel, rest) = name.split_once('-').unwrap_or((name, ""));
        let is_version = |text: &str| {
            text.starts_with(|c: char| c.is_ascii_digit())
                && text.chars().all(|c| c.is_ascii_digit() || c == '.')
        };
        (matches!(channel, "stable" | "beta" | "nightly") || is_version(channel))
            && rest.chars().all(|c| c.is_ascii_digit() || c == '-')
    })
}

/// Returns whether a word sets a variable of `make` that only says how much is printed.
fn is_harmless_variable(name: &str, word: &str) -> bool {
    matches!(name, "make" | "gmake") && programs::is_verbosity(word)
}

/// Filter for the files that a search reads.
struct Filter<'a> {
    /// True if it passes over names that begin with a dot.
    passes_hidden: bool,
    /// Patterns of names, one of which must match where there are any.
    included: Vec<&'a str>,
    excluded: Vec<&'a str>,
    excluded_directories: Vec<&'a str>,
}

impl<'a> Filter<'a> {
    fn new(name: &str, words: &'a [String]) -> Self {
        let values = |option: &str| -> Vec<&'a str> {
            words.iter().filter_map(|word| word.strip_prefix(option)?.strip_prefix('=')).collect()
        };
        let is_rg = name == "rg";
        let shows_hidden = words
            .iter()
            .skip(1)
            .any(|word| programs::is_one_of(word, ["-.", "-u", "--hidden", "--unrestricted"].into_iter()));
        let is_grep =
            options(name).is_some_and(|own| options("grep").is_some_and(|grep| std::ptr::eq(own, grep)));
        let (included, excluded) = match (values("--include"), values("--exclude")) {
            _ if !is_grep => (vec![], vec![]),
            // Which of them counts depends on their order.
            (included, excluded) if !included.is_empty() && !excluded.is_empty() => (vec![], vec![]),
            both => both,
        };
        let excluded_directories = if is_grep { values("--exclude-dir") } else { vec![] };
        Self { passes_hidden: is_rg && !shows_hidden, included, excluded, excluded_directories }
    }

    /// Returns whether it may read what lies at a path below where it begins.
    fn reads(&self, path: &str, is_directory: bool) -> bool {
        let names: Vec<&str> = path.split('/').collect();
        if self.passes_hidden && names.iter().any(|name| name.starts_with('.')) {
            return false;
        }
        // Of a bracket or a backslash it isn't known what it matches.
        let is_one = |patterns: &[&str], name: &str| {
            patterns.iter().any(|pattern| !pattern.contains(['[', '\\', '/']) && may_match(name, pattern))
        };
        let directories = if is_directory { &names[..] } else { &names[..names.len() - 1] };
        if directories.iter().any(|name| is_one(&self.excluded_directories, name)) {
            return false;
        }
        // In a directory there may be anything.
        let Some(file) = names.last().filter(|_| !is_directory) else { return true };
        let may_be_included = |pattern: &&str| pattern.contains(['\\', '/']) || may_match(file, pattern);
        (self.included.is_empty() || self.included.iter().any(may_be_included))
            && !is_one(&self.excluded, file)
    }
}

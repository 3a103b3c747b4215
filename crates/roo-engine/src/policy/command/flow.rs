//! Allowing a line: which commands it may run, where, and with which words.
//!
//! The line is gone through as a shell would, but on every way at once: each command that could run is judged with each
//! value that its words could have. What isn't known stays unknown, and whoever is given it decides whether that matters.
//! A line that is allowed may run less than what was judged, never more.

use super::allow::{ResolvedCommand, Rule, text_of};
use super::knowledge::knowledge;
use super::listing::Listing;
use super::place::{Place, Program};
use super::programs;
use super::value::{Argument, Kind, State, Text, is_one_word, join};
use super::variables;
use super::wrapper::{self, Wrapped, XargsCommand};
use roo_shell::structure::{Assignment, Body, Item, List, Part, Redirect, Simple, Stage, Structure, Word};
use roo_shell::{Join, Script};

/// Largest number of commands that are judged for one line: each counts as often as its words have other values.
const COMMANDS: usize = 1000;
/// The most values that a loop goes through.
const VALUES: usize = 200;
/// The most files whose names are put after a command.
const FILES: usize = 1000;
/// Largest number of passes through a loop until nothing new comes of it.
const ROUNDS: usize = 8;

/// The rules that allow a line, or why it asks.
pub(super) fn allowed<'r>(
    rules: &[&'r Rule],
    script: &Script,
    place: &dyn Place,
) -> Result<Vec<&'r Rule>, String> {
    let structure = script.structure()?;
    let mut walk = Walk {
        rules,
        place,
        structure,
        used: Vec::new(),
        left: COMMANDS,
        is_plain_reading: None,
        rearranged: None,
    };
    walk.list(&structure.list, State::new(), &Input::default())?;
    Ok(walk.used)
}

struct Walk<'a, 'r> {
    rules: &'a [&'r Rule],
    place: &'a dyn Place,
    structure: &'a Structure,
    used: Vec<&'r Rule>,
    /// Number of commands that may still be judged.
    left: usize,
    /// True if no command of the line creates, moves or removes files, once that has been looked at.
    is_plain_reading: Option<bool>,
    /// A command so far that may have put other files where they are looked for.
    rearranged: Option<String>,
}

/// Input of a command.
#[derive(Clone, Debug, Default)]
struct Input {
    /// True if its input comes from the line.
    fed: bool,
    /// The names that it reads, where it reads nothing else.
    names: Option<Listing>,
}

/// Outcome of a command.
struct Outcome {
    /// State for the next one if it ended well.
    success: State,
    /// State for the next one if it did not.
    failure: State,
    output: Output,
}

/// Output of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Output {
    /// Exactly this.
    Text(String),
    Number,
    Names(Listing),
    Anything,
}

impl Outcome {
    fn same(state: State, output: Output) -> Self {
        Self { success: state.clone(), failure: state, output }
    }
}

impl<'r> Walk<'_, 'r> {
    fn list(&mut self, list: &List, state: State, input: &Input) -> Result<Outcome, String> {
        let mut last: Option<Outcome> = None;
        for item in &list.items {
            last = Some(match (last, item.join) {
                (None, _) => self.item(item, state.clone(), input)?,
                (Some(before), Some(Join::And)) => {
                    let then = self.item(item, before.success, input)?;
                    Outcome { failure: before.failure.or(then.failure)?, output: Output::Anything, ..then }
                }
                (Some(before), Some(Join::Or)) => {
                    let then = self.item(item, before.failure, input)?;
                    Outcome { success: before.success.or(then.success)?, output: Output::Anything, ..then }
                }
                (Some(before), _) => {
                    let then = self.item(item, before.success.or(before.failure)?, input)?;
                    Outcome { output: Output::Anything, ..then }
                }
            });
        }
        Ok(last.unwrap_or_else(|| Outcome::same(state, Output::Anything)))
    }

    fn item(&mut self, item: &Item, state: State, input: &Input) -> Result<Outcome, String> {
        let outcome = match item.stages.as_slice() {
            [only] => self.stage(only, state, input)?,
            stages => {
                // They run at once.
                let output = self.settled(|walk| walk.pipe(stages, &state, input))?;
                Outcome::same(state, output)
            }
        };
        Ok(match item.is_negated {
            true => Outcome { success: outcome.failure, failure: outcome.success, output: outcome.output },
            false => outcome,
        })
    }

    /// Goes through commands each of which reads what the one before it prints.
    fn pipe(&mut self, stages: &[Stage], state: &State, input: &Input) -> Result<Output, String> {
        let mut input = input.clone();
        let mut output = Output::Anything;
        for (index, stage) in stages.iter().enumerate() {
            // Each runs in a shell of its own; in some the last one does not. What that sets is not known behind it.
            let outcome = self.stage(stage, state.clone(), &input)?;
            if index + 1 == stages.len() && outcome.success.directories != state.directories {
                return Err("it changes the directory at the end of a pipe".to_owned());
            }
            output = outcome.output;
            let names = match &output {
                Output::Names(listing) => Some(listing.clone()),
                _ => None,
            };
            input = Input { fed: true, names };
        }
        Ok(output)
    }

    /// Goes through what may run more than once, or at the same time: whatever of it puts other files where another part
    /// looks counts for all of it.
    fn settled<T>(&mut self, run: impl Fn(&mut Self) -> Result<T, String>) -> Result<T, String> {
        let was_rearranged = self.rearranged.is_some();
        let done = run(self)?;
        if self.rearranged.is_some() && !was_rearranged { run(self) } else { Ok(done) }
    }

    fn stage(&mut self, stage: &Stage, state: State, input: &Input) -> Result<Outcome, String> {
        let mut input = input.clone();
        let (mut document, mut is_redirected) = (None, false);
        for redirect in &stage.redirects {
            self.redirect(redirect, &state)?;
            if redirect.operator.starts_with('<') && redirect.operator != "<&" {
                input = Input { fed: true, names: None };
                document = redirect.document.and_then(|index| self.structure.documents.get(index));
            } else {
                is_redirected |= redirect.descriptor != "2" || redirect.operator == ">&";
            }
        }
        let document = document.map(|document| document.text.clone());
        // Of several commands one may leave the rest of a name to the next.
        let shared = Input { names: None, ..input.clone() };
        let outcome = match &stage.body {
            Body::Simple(simple) => self.simple(simple, state, &input, document)?,
            Body::Group(list) => self.list(list, state, &shared)?,
            Body::Subshell(list) => {
                let output = self.list(list, state.clone(), &shared)?.output;
                Outcome::same(state, output)
            }
            Body::For { variable, words, body } => {
                let after = self.settled(|walk| walk.for_loop(variable, words, body, &state, &shared))?;
                Outcome::same(after, Output::Anything)
            }
            Body::If { branches, otherwise } => {
                let after = self.condition(branches, otherwise.as_ref(), state, &shared)?;
                Outcome::same(after, Output::Anything)
            }
            Body::While { condition, body } => {
                let after = self.settled(|walk| walk.while_loop(condition, body, &state, &input))?;
                Outcome::same(after, Output::Anything)
            }
        };
        Ok(if is_redirected { Outcome { output: Output::Anything, ..outcome } } else { outcome })
    }

    fn for_loop(
        &mut self,
        variable: &str,
        words: &[Word],
        body: &List,
        state: &State,
        input: &Input,
    ) -> Result<State, String> {
        if !variables::is_own(variable) {
            return Err(format!("it sets `{variable}`, which may mean something to a program"));
        }
        let mut values = Vec::new();
        for word in words {
            values.extend(self.values(word, state)?);
        }
        if values.len() > VALUES {
            return Err(format!("a loop in it goes through more than {VALUES} values"));
        }
        let mut after = state.clone();
        for value in values {
            let mut round = after.clone();
            round.variables.insert(variable.to_owned(), value);
            let outcome = self.list(body, round, input)?;
            after = after.or(outcome.success)?.or(outcome.failure)?;
        }
        // The last value of the variable isn't tracked.
        after.variables.remove(variable);
        Ok(after)
    }

    /// Returns the values that a word gives a loop's variable.
    fn values(&mut self, word: &Word, state: &State) -> Result<Vec<Text>, String> {
        if let [Part::Substitution { list, quoted: false }] = word.parts.as_slice() {
            let output = self.list(list, state.clone(), &Input::default())?.output;
            return match output {
                Output::Text(text) => {
                    let words: Vec<&str> = text.split_ascii_whitespace().collect();
                    match words.iter().all(|word| is_one_word(word)) {
                        true => Ok(words.into_iter().map(|word| Text::Known(word.to_owned())).collect()),
                        false => Ok(vec![Text::Unknown]),
                    }
                }
                Output::Number => Ok(vec![Text::Number]),
                Output::Names(listing) => self.found(&listing, false),
                Output::Anything => Ok(vec![Text::Unknown]),
            };
        }
        let argument = self.argument(word, state)?;
        let Kind::Pattern(literal) = argument.kind else { return Ok(vec![argument.into_text()]) };
        let mut values = Vec::new();
        for directory in &state.directories {
            let path = text_of(directory, &argument.text);
            let skipped = path.len() - argument.text.len();
            for name in self.place.matching(&path, literal + skipped)? {
                let name = name.get(skipped..).unwrap_or_default();
                if literal == 0 && (name.starts_with('-') || !self.only_reads()) {
                    return Err(format!(
                        "`{0}` may stand for a file whose name looks like an option; write `./{0}`",
                        argument.text
                    ));
                }
                values.push(Text::Found(name.to_owned()));
            }
        }
        if values.is_empty() {
            // It stays as it is.
            values.push(Text::Found(argument.text));
        }
        Ok(values)
    }

    /// The names that are read one by one.
    fn found(&mut self, listing: &Listing, most_for_one: bool) -> Result<Vec<Text>, String> {
        if !self.only_reads() {
            return Err("it goes through files, and may change which there are".to_owned());
        }
        let names = listing.names(if most_for_one { FILES } else { VALUES }, self.place)?;
        match names.iter().find(|name| !is_one_word(name)) {
            Some(name) => Err(format!("the name {name:?} may be read as more than one")),
            None => Ok(names.into_iter().map(Text::Found).collect()),
        }
    }

    fn condition(
        &mut self,
        branches: &[(List, List)],
        otherwise: Option<&List>,
        state: State,
        input: &Input,
    ) -> Result<State, String> {
        let (mut after, mut next): (Option<State>, State) = (None, state);
        let either = |after: Option<State>, state: State| match after {
            Some(after) => after.or(state),
            None => Ok(state),
        };
        for (condition, body) in branches {
            let held = self.list(condition, next, input)?;
            let outcome = self.list(body, held.success, input)?;
            after = Some(either(after, outcome.success.or(outcome.failure)?)?);
            next = held.failure;
        }
        if let Some(list) = otherwise {
            let outcome = self.list(list, next, input)?;
            next = outcome.success.or(outcome.failure)?;
        }
        either(after, next)
    }

    fn while_loop(
        &mut self,
        condition: &List,
        body: &List,
        state: &State,
        input: &Input,
    ) -> Result<State, String> {
        if let Some(variable) = read_by(condition) {
            return self.read_loop(variable, condition, body, state, input);
        }
        let input = &Input { names: None, ..input.clone() };
        let mut state = state.clone();
        for _ in 0..ROUNDS {
            let held = self.list(condition, state.clone(), input)?;
            // Of `until` the body runs where it did not hold.
            let outcome = self.list(body, held.success.or(held.failure)?, input)?;
            let after = state.clone().or(outcome.success)?.or(outcome.failure)?;
            if after == state {
                return Ok(after);
            }
            state = after;
        }
        Err("a loop in it can't be followed".to_owned())
    }

    /// A loop over the lines that it reads.
    fn read_loop(
        &mut self,
        variable: &str,
        condition: &List,
        body: &List,
        state: &State,
        input: &Input,
    ) -> Result<State, String> {
        let values = match &input.names {
            Some(listing) if !listing.by_nul => self.found(listing, false)?,
            _ => vec![Text::Unknown],
        };
        let within = Input { fed: true, names: None };
        let mut after = state.clone();
        for value in values {
            let mut round = self.list(condition, after.clone(), &within)?.success;
            round.variables.insert(variable.to_owned(), value);
            let outcome = self.list(body, round, &within)?;
            after = after.or(outcome.success)?.or(outcome.failure)?;
        }
        after.variables.remove(variable);
        Ok(after)
    }

    fn simple(
        &mut self,
        simple: &Simple,
        state: State,
        input: &Input,
        document: Option<String>,
    ) -> Result<Outcome, String> {
        self.left = self.left.checked_sub(1).ok_or("it runs too many commands to look at each")?;
        let set = self.assigned(&simple.assignments, &state)?;
        let Some((first, rest)) = simple.words.split_first() else {
            return match set.is_empty() {
                true => Err("it contains no program that a rule could name".to_owned()),
                false => set_for_good(state, set),
            };
        };
        let program = first.literal().ok_or("its program isn't known")?;
        let mut arguments = vec![Argument { text: program.clone(), kind: Kind::Exact }];
        for word in rest {
            arguments.push(self.argument(word, &state)?);
        }
        if let Some(outcome) = self.shells_own(&program, &arguments, &set, &state)? {
            return Ok(outcome);
        }
        let (mut is_started, mut is_wrapped) = (false, false);
        let mut set: Vec<(String, String)> = set
            .into_iter()
            .map(|(name, value)| match value {
                Text::Known(value) => Ok((name, value)),
                Text::Number => Ok((name, "1".to_owned())),
                _ => Err(format!("it sets `{name}` to an unknown value")),
            })
            .collect::<Result<_, _>>()?;
        for _ in 0..=wrapper::MAX_WRAPPERS {
            let name = arguments[0].exact().unwrap_or_default().to_owned();
            if !knowledge().wrappers.has(&name) || arguments.len() == 1 {
                break;
            }
            if name == "command" && arguments[1].exact().is_some_and(|word| matches!(word, "-v" | "-V")) {
                return Ok(Outcome::same(state, Output::Anything));
            }
            let Wrapped { at, variables, by_shell } = wrapper::unwrap(&name, &arguments)?;
            if !by_shell {
                self.is_installed(&arguments[0].text)?;
            }
            is_started |= !by_shell;
            is_wrapped = true;
            set.extend(variables);
            arguments.drain(..at);
        }
        if let Some((name, _)) = set.iter().find(|(name, value)| !variables::is_harmless(name, value)) {
            return Err(format!("it sets `{name}`, which may change what `{}` does", arguments[0].text));
        }
        let mut further = None;
        if arguments[0].exact() == Some("xargs") {
            self.is_installed("xargs")?;
            further = Some(self.given_by_xargs(&mut arguments, input)?);
            (is_started, is_wrapped) = (true, true);
        }
        if is_wrapped && arguments[0].exact().is_some_and(|name| matches!(name, "cd" | "exit" | ":" | "type"))
        {
            return Err(format!("`{}` is a shell builtin, but another program starts it", arguments[0].text));
        }
        self.judge(&arguments, further.as_deref(), is_started, &state, input)?;
        Ok(self.after(&arguments, state, input, document))
    }

    /// Judges a program in each directory that it may run in.
    fn judge(
        &mut self,
        arguments: &[Argument],
        further: Option<&[String]>,
        is_started: bool,
        state: &State,
        input: &Input,
    ) -> Result<(), String> {
        let only_reads = self.only_reads();
        for directory in &state.directories {
            let judged = ResolvedCommand {
                arguments,
                further,
                fed: input.fed,
                is_started,
                directory,
                place: self.place,
                only_reads,
                rearranged: self.rearranged.as_deref(),
            };
            let rule = judged.rule(self.rules)?;
            self.note(rule);
        }
        Ok(())
    }

    fn note(&mut self, rule: &'r Rule) {
        if !self.used.contains(&rule) {
            self.used.push(rule);
        }
    }

    /// Finds a rule for a command of the shell's own by its words.
    fn ruled(&mut self, words: &[&str]) -> Result<(), String> {
        let is_it = |rule: &&&Rule| {
            !rule.words.is_empty()
                && rule.words.len() <= words.len()
                && rule.words.iter().zip(words).all(|(one, two)| one == two)
        };
        let rule =
            self.rules.iter().find(is_it).copied().ok_or_else(|| format!("no rule allows `{}`", words[0]))?;
        self.note(rule);
        Ok(())
    }

    /// Returns the state after a command has run, and what it printed.
    fn after(
        &mut self,
        arguments: &[Argument],
        state: State,
        input: &Input,
        document: Option<String>,
    ) -> Outcome {
        let words: Vec<&str> = arguments.iter().map(|argument| argument.text.as_str()).collect();
        let name = programs::name(words[0]);
        let known = knowledge();
        let rearranges = known.rearranging.has(&name)
            || (name == "git" && words.iter().any(|word| known.git.rearranging.has(word)));
        if rearranges && self.rearranged.is_none() {
            self.rearranged = Some(words[0].to_owned());
        }
        let output = self.output(&name, arguments, &words, &state, input, document);
        Outcome::same(state, output)
    }

    fn output(
        &self,
        name: &str,
        arguments: &[Argument],
        words: &[&str],
        state: &State,
        input: &Input,
        document: Option<String>,
    ) -> Output {
        let is_exact = arguments.iter().all(|argument| argument.kind == Kind::Exact);
        let directory = match state.directories.iter().collect::<Vec<_>>().as_slice() {
            [only] => Some(only.as_str()),
            _ => None,
        };
        let is_digits_of_date = |format: &str| {
            let mut rest = format;
            while let Some(next) = rest.strip_prefix('%') {
                let Some(letter) = next.chars().next().filter(|letter| "YmdHMSsjuy".contains(*letter)) else {
                    return false;
                };
                rest = &next[letter.len_utf8()..];
            }
            rest.is_empty() && !format.is_empty()
        };
        match words {
            ["nproc"] | ["nproc", "--all"] | ["id", "-u" | "-g"] => Output::Number,
            ["seq", numbers @ ..]
                if numbers.iter().all(|number| number.bytes().all(|byte| byte.is_ascii_digit())) =>
            {
                Output::Number
            }
            ["date", format] if format.strip_prefix('+').is_some_and(is_digits_of_date) => Output::Number,
            ["pwd"] => match directory {
                Some(directory) => Output::Text(text_of(self.place.directory(), directory)),
                None => Output::Anything,
            },
            ["git", "rev-parse", "--show-toplevel"] => match directory {
                Some(directory) => {
                    self.place.repository(directory).top.map_or(Output::Anything, Output::Text)
                }
                None => Output::Anything,
            },
            ["cat"] => match (document, &input.names) {
                (Some(text), _) => Output::Text(text.trim_end_matches('\n').to_owned()),
                (None, Some(listing)) => Output::Names(listing.clone()),
                _ => Output::Anything,
            },
            ["echo", rest @ ..]
                if is_exact && !rest.iter().any(|word| word.starts_with('-') || word.contains('\\')) =>
            {
                Output::Text(rest.join(" "))
            }
            _ => {
                let listing = directory
                    .filter(|_| !input.fed)
                    .and_then(|directory| Listing::from_arguments(arguments, directory));
                let passes = || {
                    let is_plain = |word: &&str| word.starts_with('-') && !word.starts_with("--");
                    let chosen = match name {
                        "sort" | "tac" | "uniq" => {
                            words[1..].iter().all(|word| matches!(*word, "-u" | "-r" | "-V" | "-d"))
                        }
                        "head" | "tail" => {
                            words[1..]
                                .iter()
                                .all(|word| is_plain(word) || word.bytes().all(|byte| byte.is_ascii_digit()))
                                && !words.iter().any(|word| word.starts_with("-c"))
                        }
                        "grep" | "egrep" | "fgrep" => {
                            words[1..]
                                .iter()
                                .filter(|word| word.starts_with('-'))
                                .all(|word| word[1..].chars().all(|letter| "viEFwx".contains(letter)))
                                && words[1..].iter().filter(|word| !word.starts_with('-')).count() == 1
                        }
                        _ => false,
                    };
                    input.names.clone().filter(|_| knowledge().filters.has(name) && chosen && is_exact)
                };
                listing.or_else(passes).map_or(Output::Anything, Output::Names)
            }
        }
    }

    /// The shell's own commands that need no rule, for they do nothing but steer the line; and `cd`, which needs one.
    fn shells_own(
        &mut self,
        program: &str,
        arguments: &[Argument],
        set: &[(String, Text)],
        state: &State,
    ) -> Result<Option<Outcome>, String> {
        let words: Option<Vec<&str>> = arguments[1..].iter().map(Argument::exact).collect();
        let nothing = || Ok(Some(Outcome::same(state.clone(), Output::Anything)));
        match (program, words.as_deref()) {
            ("cd", _) => self.change_directory(arguments, state).map(Some),
            ("break" | "continue", Some([])) => nothing(),
            ("set", Some(words)) if set.is_empty() && is_harmless_set(words) => nothing(),
            // Alone it shows every variable.
            ("export", Some(words))
                if set.is_empty()
                    && !words.is_empty()
                    && words.iter().all(|word| is_harmless_export(word)) =>
            {
                let mut state = state.clone();
                for word in words {
                    if let Some((name, value)) = word.split_once('=') {
                        state.variables.insert(name.to_owned(), Text::Known(value.to_owned()));
                    }
                }
                Ok(Some(Outcome::same(state, Output::Anything)))
            }
            ("read", Some(["-r", name])) if variables::is_own(name) && is_field_separator(set) => {
                let mut state = state.clone();
                state.variables.insert((*name).to_owned(), Text::Unknown);
                Ok(Some(Outcome::same(state, Output::Anything)))
            }
            ("[[", _) => {
                is_harmless_comparison(arguments)?;
                self.ruled(&["test"])?;
                nothing()
            }
            _ => Ok(None),
        }
    }

    fn change_directory(&mut self, arguments: &[Argument], state: &State) -> Result<Outcome, String> {
        let words: Vec<&str> = arguments.iter().map(|argument| argument.text.as_str()).collect();
        self.ruled(&words)?;
        let unclear = || "it changes to a directory that isn't known".to_owned();
        let to = match &arguments[1..] {
            [to] if matches!(to.kind, Kind::Exact | Kind::Found) => &to.text,
            _ => return Err(unclear()),
        };
        if to.is_empty() || to.starts_with('-') || self.names_joint_redirection() {
            return Err(unclear());
        }
        if let Some(program) = &self.rearranged {
            return Err(format!("`{program}` before it may change where `{to}` leads"));
        }
        let mut success = State { directories: Default::default(), ..state.clone() };
        for from in &state.directories {
            let outside = || format!("`{to}` may lead out of the workspace");
            let directory = join(from, to, self.place.directory()).ok_or_else(outside)?;
            if programs::names_protected(to) || programs::names_protected(&directory) {
                return Err(format!("`{to}` steers agents or tools"));
            }
            let written = text_of(from, to);
            self.place.enterable(&written)?;
            // The shell takes `..` by the text, the system by where links lead.
            let climbs = to.split('/').any(|name| name == "..");
            if climbs && !self.place.is_same(&written, &directory) {
                return Err(format!("it isn't known where `{to}` leads"));
            }
            success.directories.insert(directory);
        }
        Ok(Outcome { success, failure: state.clone(), output: Output::Anything })
    }

    /// Returns whether the line holds `&>`: to a shell that doesn't know it, what stands before runs in the background,
    /// and changes no directory.
    fn names_joint_redirection(&self) -> bool {
        stages_of(&self.structure.list)
            .iter()
            .any(|stage| stage.redirects.iter().any(|redirect| redirect.operator.starts_with("&>")))
    }

    fn is_installed(&self, program: &str) -> Result<(), String> {
        match self.place.program(program) {
            Program::Installed(_) if !program.contains('/') => Ok(()),
            _ => Err(format!("`{program}` is not an installed program")),
        }
    }

    /// Takes `xargs` away from a command, and gives what stands after its arguments.
    fn given_by_xargs(
        &mut self,
        arguments: &mut Vec<Argument>,
        input: &Input,
    ) -> Result<Vec<String>, String> {
        let XargsCommand { at, by_nul, placeholder } = wrapper::unwrap_xargs(arguments)?;
        let listing = input.names.as_ref().ok_or("it isn't known what `xargs` is given")?;
        if listing.by_nul != by_nul {
            return Err("the input of `xargs` is not separated as it expects".to_owned());
        }
        let names = match by_nul {
            true if !self.only_reads() => {
                return Err("it goes through files, and may change which there are".to_owned());
            }
            true => listing.names(FILES, self.place)?,
            false => {
                let found = self.found(listing, true)?;
                let name = |text| match text {
                    Text::Known(name) | Text::Found(name) => Some(name),
                    Text::Number | Text::Unknown => None,
                };
                found.into_iter().filter_map(name).collect()
            }
        };
        arguments.drain(..at);
        if let Some(placeholder) = placeholder {
            let before = arguments.len();
            let is_last = arguments.last().and_then(Argument::exact) == Some(&placeholder);
            arguments.retain(|argument| argument.text != placeholder);
            let is_within = arguments.iter().any(|argument| argument.text.contains(&placeholder));
            if is_within || !is_last || arguments.len() + 1 != before {
                return Err(format!("it isn't known what `{placeholder}` becomes there"));
            }
        }
        Ok(names)
    }

    /// Returns whether no command of the line changes which files there are.
    fn only_reads(&mut self) -> bool {
        let structure = self.structure;
        *self.is_plain_reading.get_or_insert_with(|| {
            let is_reader = |simple: &Simple| {
                let words: Vec<String> =
                    simple.words.iter().filter_map(Word::literal).map(|word| programs::name(&word)).collect();
                let Some(program) = words.first() else { return true };
                let is_silent = |name: &str| {
                    programs::only_reads(name)
                        || programs::only_names(name)
                        || programs::only_lists(name)
                        || matches!(
                            name,
                            "cd" | "read" | "[[" | "set" | "rg" | "fd" | "uniq" | "nproc" | "seq" | "date"
                        )
                };
                match program.as_str() {
                    "git" => words.get(1).is_some_and(|command| {
                        matches!(
                            command.as_str(),
                            "blame" | "diff" | "grep" | "log" | "ls-files" | "rev-parse" | "show"
                        )
                    }),
                    // What it starts may only read, or the line asks.
                    "xargs" => true,
                    program => is_silent(program),
                }
            };
            let writes = |redirect: &Redirect| {
                redirect.operator.contains('>')
                    && redirect.operator != ">&"
                    && redirect.target.literal().as_deref() != Some("/dev/null")
            };
            structure.simple_commands().all(is_reader)
                && !stages_of(&structure.list).iter().any(|stage| stage.redirects.iter().any(writes))
        })
    }

    fn redirect(&mut self, redirect: &Redirect, state: &State) -> Result<(), String> {
        match redirect.operator {
            // Descriptors alone, by the strict reading.
            "<&" | ">&" => return Ok(()),
            "<<" | "<<-" => return Ok(()),
            _ => {}
        }
        let target = self.argument(&redirect.target, state)?;
        let path = match target.kind {
            Kind::Exact | Kind::Found => &target.text,
            _ => return Err(format!("a redirection leads to `{}`, which isn't known", target.text)),
        };
        if path == "/dev/null" {
            return Ok(());
        }
        if redirect.operator != "<" && matches!(path.as_str(), "/dev/stdout" | "/dev/stderr") {
            return Ok(());
        }
        if path.starts_with("/dev/") {
            // Among others `/dev/tcp/<host>/<port>`, which bash takes for a connection.
            return Err(format!("`{path}` is not a file"));
        }
        for directory in &state.directories {
            let path = text_of(directory, path);
            match (redirect.operator, &self.rearranged) {
                ("<", Some(program)) => {
                    return Err(format!("`{program}` before it may change what `{path}` is"));
                }
                ("<", None) => self.place.readable(&path)?,
                _ => self.place.writable(&path)?,
            }
        }
        Ok(())
    }

    /// The variables that are set before a command.
    fn assigned(&mut self, assignments: &[Assignment], state: &State) -> Result<Vec<(String, Text)>, String> {
        let mut set = Vec::new();
        for Assignment { name, value, .. } in assignments {
            // What is set doesn't fall apart.
            let quoted = |part: &Part| match part {
                Part::Variable { name, .. } => Part::Variable { name: name.clone(), quoted: true },
                Part::Substitution { list, .. } => Part::Substitution { list: list.clone(), quoted: true },
                Part::Wildcard(c) => Part::Text(c.to_string()),
                part => part.clone(),
            };
            let word = Word { range: 0..0, parts: value.iter().map(quoted).collect() };
            set.push((name.clone(), self.argument(&word, state)?.into_text()));
        }
        Ok(set)
    }

    /// Returns the argument that a word stands for.
    fn argument(&mut self, word: &Word, state: &State) -> Result<Argument, String> {
        let mut text = String::new();
        let (mut kind, mut wildcard) = (Kind::Exact, None);
        let is_whole = word.parts.len() == 1;
        for part in &word.parts {
            let value = match part {
                Part::Text(more) => {
                    text.push_str(more);
                    continue;
                }
                Part::Wildcard(c) => {
                    wildcard.get_or_insert(text.len());
                    text.push(*c);
                    continue;
                }
                Part::Status => Text::Number,
                Part::Variable { name, quoted } => {
                    let value = self.variable(name, state)?;
                    // A name with blanks may come until then.
                    if matches!(value, Text::Found(_)) && !quoted && !self.only_reads() {
                        return Err(falls_apart(&format!("${name}")));
                    }
                    unsplit(value, *quoted).map_err(|()| falls_apart(&format!("${name}")))?
                }
                Part::Substitution { list, quoted } => {
                    let value = match self.list(list, state.clone(), &Input::default())?.output {
                        Output::Text(text) => Text::Known(text),
                        Output::Number => Text::Number,
                        Output::Names(_) | Output::Anything => Text::Unknown,
                    };
                    unsplit(value, *quoted).map_err(|()| falls_apart("$(…)"))?
                }
            };
            if kind == Kind::Unknown {
                continue;
            }
            match value {
                Text::Known(value) => text.push_str(&value),
                Text::Found(value) => {
                    text.push_str(&value);
                    kind = if kind == Kind::Exact { Kind::Found } else { kind };
                }
                Text::Number => {
                    text.push('1');
                    kind = Kind::Number;
                }
                Text::Unknown => {
                    // What a word begins with says nothing where it falls apart.
                    let is_split = matches!(
                        part,
                        Part::Substitution { quoted: false, .. } | Part::Variable { quoted: false, .. }
                    );
                    if is_split && !is_whole {
                        text.clear();
                    }
                    kind = Kind::Unknown;
                }
            }
        }
        match (wildcard, kind) {
            (None, kind) => Ok(Argument { text, kind }),
            (Some(literal), Kind::Exact | Kind::Found) => Ok(Argument { text, kind: Kind::Pattern(literal) }),
            (Some(_), _) => Err("it contains a pattern with an unknown part".to_owned()),
        }
    }

    fn variable(&self, name: &str, state: &State) -> Result<Text, String> {
        if let Some(value) = state.variables.get(name) {
            return Ok(value.clone());
        }
        match name {
            "PWD" => match state.directories.iter().collect::<Vec<_>>().as_slice() {
                [only] => Ok(Text::Known(text_of(self.place.directory(), only))),
                _ => Ok(Text::Unknown),
            },
            "HOME" | "USER" | "LOGNAME" | "PATH" | "SHELL" | "LANG" | "TERM" | "HOSTNAME" | "OSTYPE"
            | "MACHTYPE" | "HOSTTYPE" | "BASH_VERSION" => Ok(Text::Unknown),
            name => Err(format!("it contains the variable `${name}`, whose value isn't known")),
        }
    }
}

/// Returns a value that may be split into words; none where that is not one word.
fn unsplit(value: Text, quoted: bool) -> Result<Text, ()> {
    match &value {
        Text::Known(text) | Text::Found(text) if !quoted && !is_one_word(text) => Err(()),
        _ => Ok(value),
    }
}

fn falls_apart(what: &str) -> String {
    format!("`{what}` may be split into several words; write `\"{what}\"`")
}

/// Variables that the line sets for itself.
fn set_for_good(mut state: State, set: Vec<(String, Text)>) -> Result<Outcome, String> {
    for (name, value) in set {
        if !variables::is_own(&name) {
            return Err(format!("it sets `{name}`, which may mean something to a program"));
        }
        state.variables.insert(name, value);
    }
    Ok(Outcome::same(state, Output::Anything))
}

/// The variable that a condition reads a line into, where it does nothing else.
fn read_by(condition: &List) -> Option<&str> {
    let [Item { is_negated: false, stages, .. }] = condition.items.as_slice() else { return None };
    let [Stage { body: Body::Simple(simple), redirects }] = stages.as_slice() else { return None };
    let [read, option, variable] = simple.words.as_slice() else { return None };
    let is_read = read.literal().as_deref() == Some("read") && option.literal().as_deref() == Some("-r");
    let [Part::Text(variable)] = variable.parts.as_slice() else { return None };
    (is_read && redirects.is_empty()).then_some(variable)
}

/// Returns whether options of `set` only make the line end earlier.
fn is_harmless_set(words: &[&str]) -> bool {
    let mut words = words.iter();
    let mut any = false;
    while let Some(word) = words.next() {
        any = true;
        let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            return false;
        };
        let takes_name = letters.ends_with('o');
        let flags = letters.trim_end_matches('o');
        if !flags.chars().all(|flag| matches!(flag, 'e' | 'u')) || letters.len() - flags.len() > 1 {
            return false;
        }
        if takes_name && !words.next().is_some_and(|name| matches!(*name, "pipefail" | "errexit" | "nounset"))
        {
            return false;
        }
    }
    any
}

fn is_harmless_export(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, value)| variables::is_harmless(name, value))
}

/// Returns whether nothing is set, or only what parts the line that `read` reads.
fn is_field_separator(set: &[(String, Text)]) -> bool {
    match set {
        [] => true,
        [(name, Text::Known(value))] => name == "IFS" && value.len() <= 1,
        _ => false,
    }
}

/// Checks that `[[ … ]]` only looks at files and compares texts: numbers are evaluated, and may hold commands.
fn is_harmless_comparison(arguments: &[Argument]) -> Result<(), String> {
    let words: Vec<&str> = arguments[1..].iter().map(|argument| argument.text.as_str()).collect();
    let is_operator = |index: usize| arguments[index + 1].kind == Kind::Exact;
    let is_unary = |word: &str| matches!(word, "-d" | "-e" | "-f" | "-n" | "-r" | "-s" | "-w" | "-x" | "-z");
    let is_harmless = match words.as_slice() {
        [unary, _, "]]"] => is_operator(0) && is_unary(unary),
        ["!", unary, _, "]]"] => is_operator(0) && is_operator(1) && is_unary(unary),
        [_, "=" | "==" | "!=" | "=~", _, "]]"] => is_operator(1),
        _ => false,
    };
    match is_harmless {
        true => Ok(()),
        false => Err("it contains a test in brackets that may run commands".to_owned()),
    }
}

/// Every stage of a list, wherever it stands but in substitutions.
fn stages_of(list: &List) -> Vec<&Stage> {
    let mut found: Vec<&Stage> = Vec::new();
    let mut open = vec![list];
    while let Some(list) = open.pop() {
        for stage in list.items.iter().flat_map(|item| &item.stages) {
            found.push(stage);
            match &stage.body {
                Body::Simple(_) => {}
                Body::Subshell(list) | Body::Group(list) => open.push(list),
                Body::For { body, .. } => open.push(body),
                Body::If { branches, otherwise } => {
                    open.extend(branches.iter().flat_map(|(condition, body)| [condition, body]));
                    open.extend(otherwise);
                }
                Body::While { condition, body } => open.extend([condition, body]),
            }
        }
    }
    found
}

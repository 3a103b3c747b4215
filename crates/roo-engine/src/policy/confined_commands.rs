//! Commands that run unasked because the sandbox holds them: where that may be, and which lines would leave it.
//!
//! The sandbox is what bounds a command. What is read here from a line only finds the lines whose user wants to be
//! asked all the same: those that name a place outside of the workspace, a secret, or a protected file as a target.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::check;
use super::command_place::CommandPlace;
use super::context::{PolicyContext, ToolCallContext};
use super::decision::{AskReason, Refusal};
use super::free_places::FreePlaces;
use super::gate::Gate;
use super::git;
use super::grant::Grant;
use super::place_check::{Access, CheckContext};
use super::protected::protection_at;
use super::rule::{AllowRule, AskRule, NamedAllowRule, RefusalRule};
use super::tool_homes::{caches, tool_directories};
use roo_formats::config::ExecuteMode;
use roo_formats::intents::Enforced;
use roo_protocol::rule::{RuleSubject, RuleVerdict, SandboxAccess};
use roo_sandbox::changes::may_be_build_output;
use roo_shell::{Command, Redirect, Word};
use roo_text::render;
use roo_workspace::{Location, Protection, Purpose, ReadAccess, Resolved};

/// Directories of programs and libraries, which hold nothing of a user's.
const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store"];
/// Files by which a machine describes itself to every program. None holds a password or says what other users run.
const MACHINE: &[&str] = &[
    "/etc/debian_version",
    "/etc/group",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/lsb-release",
    "/etc/machine-info",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/shells",
    "/etc/timezone",
    "/proc/cpuinfo",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/version",
];
/// Directories that are private to a sandboxed command.
const PRIVATE: &[&str] = &["/tmp", "/var/tmp", "/dev/shm"];
/// Devices without content of anybody's.
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/fd",
];
/// The longest list of files in a question about trust, in bytes: every client shows so much of it. What can't be named
/// isn't trusted by it.
const NAMED: usize = 80;
/// The most secrets that one question offers: nobody reads a longer list. The others stay hidden.
const SECRETS: usize = 8;
/// Nesting depth of command lines (`sh -c '…'`) that are read.
const NESTING: usize = 4;
/// Commands of the shell after which relative paths are meant from another directory.
const CHANGE_DIRECTORY: &[&str] = &["cd", "pushd", "popd"];
/// Characters that separate paths within a word, as in `--file=/a` or `/a:/b`.
const SEPARATORS: [char; 4] = ['=', ':', ',', ';'];

/// Policies for commands that stay in the sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ConfinedPolicy {
    /// They ask, as the rules for commands have it.
    Ask,
    /// The user has not been asked yet. The offer includes trust in the workspace where that is missing.
    Offer(RuleSubject),
    /// They run, by this rule.
    Run(AllowRule),
}

/// Returns the reason why every command asks, whatever rules allow.
pub(super) fn asks_always(policy_context: &PolicyContext, grant: Option<&Grant>) -> Option<AskReason> {
    if let Some(intent) = grant.and_then(|grant| grant.enforces(Enforced::AskCommands)) {
        let text = format!("{} requires your permission for every command (ask_commands)", intent.id);
        return Some(AskReason { rule: AskRule::Intent, text });
    }
    (policy_context.settings.auto_approve.execute.mode == Some(ExecuteMode::Ask)).then(|| AskReason {
        rule: AskRule::ExecuteMode,
        text: "the user's settings want every command to be asked about".to_owned(),
    })
}

/// Returns the policy for commands that stay in a sandbox which holds protected names and hidden files.
///
/// # Errors
/// When the user's rules can't be read.
pub(super) fn confined(
    policy_context: &PolicyContext,
    call_context: ToolCallContext<'_>,
) -> Result<ConfinedPolicy, Refusal> {
    let mode = policy_context.settings.auto_approve.execute.mode;
    if matches!(mode, Some(ExecuteMode::Ask | ExecuteMode::Rules)) {
        return Ok(ConfinedPolicy::Ask);
    }
    let rules =
        policy_context.rules.in_effect().map_err(|error| Refusal::forbidden(RefusalRule::Rules, error))?;
    let answered = |verdict| {
        rules.iter().find(|rule| rule.subject == RuleSubject::ConfinedCommands && rule.verdict == verdict)
    };
    if answered(RuleVerdict::Deny).is_some() {
        return Ok(ConfinedPolicy::Ask);
    }
    if !policy_context.customization.is_trusted() {
        let brings = policy_context.customization.brings_undecided().filter(|brings| {
            !call_context.offers.declines_confined
                && brings.join(", ").len() <= NAMED
                && brings.iter().all(|name| is_plain(name))
        });
        let offer = |brings| ConfinedPolicy::Offer(RuleSubject::TrustAndConfinedCommands { brings });
        return Ok(brings.map_or(ConfinedPolicy::Ask, offer));
    }
    Ok(match (mode, answered(RuleVerdict::Allow)) {
        (Some(_), _) => ConfinedPolicy::Run(NamedAllowRule::ExecuteMode.into()),
        (None, Some(rule)) => ConfinedPolicy::Run(AllowRule::Standing(rule.rule_id.clone())),
        (None, None) if call_context.offers.declines_confined => ConfinedPolicy::Ask,
        (None, None) => ConfinedPolicy::Offer(RuleSubject::ConfinedCommands),
    })
}

/// What about a line does not stay in the sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    /// The user is asked, for this reason, to follow "asks because".
    Asks(String),
    /// It can't take effect, whatever the user answers.
    Fails {
        /// As above.
        reason: String,
        /// For the model, where nobody is asked.
        advice: String,
    },
}

impl From<String> for Leaving {
    fn from(reason: String) -> Self {
        Self::Asks(reason)
    }
}

impl Leaving {
    pub(super) fn into_reason(self) -> String {
        match self {
            Self::Asks(reason) | Self::Fails { reason, .. } => reason,
        }
    }
}

impl Gate {
    /// Returns what about a line does not stay in the sandbox that holds it, none where all of it does; and the secrets that it
    /// names and the sandbox hides `here`, which are no reason: as long as the user doesn't grant them, it can't see them.
    pub(super) fn leaves(
        &self,
        call_context: ToolCallContext<'_>,
        directory: &Resolved,
        line: &str,
        here: Option<&CommandPlace<'_>>,
    ) -> (Option<Leaving>, SandboxAccess) {
        if roo_shell::deceptive_characters(line).any(|c| c != '\t') {
            let reason = "it holds characters that hide or reorder text".to_owned();
            return (Some(reason.into()), SandboxAccess::default());
        }
        let mut walk = Walk::new(self, call_context, directory, here);
        let leaving = walk.line(line, 0);
        let readable = walk.secrets.into_inner().into_iter().take(SECRETS).collect();
        (leaving, SandboxAccess { readable, ..SandboxAccess::default() })
    }
}

impl Gate {
    /// As [`Self::leaves`], for what is typed to a program, whose language may be another than the shell's: each word counts
    /// as it would in a command.
    pub(super) fn input_leaves(
        &self,
        call_context: ToolCallContext<'_>,
        directory: &Resolved,
        text: &str,
    ) -> Option<String> {
        if roo_shell::deceptive_characters(text).any(|c| c != '\t') {
            return Some("it holds characters that hide or reorder text".to_owned());
        }
        let ends_word = |c: char| c.is_whitespace() || "\"'`()[]{}|&<>".contains(c);
        let walk = Walk::new(self, call_context, directory, None);
        let mut words = text.split(ends_word).filter(|word| !word.is_empty());
        words.find_map(|word| walk.word(word, Use::Content)).or_else(|| {
            let is_line = !roo_shell::read(text).is_incomplete();
            let leaving = is_line.then(|| self.leaves(call_context, directory, text, None).0).flatten();
            leaving.map(Leaving::into_reason)
        })
    }
}

/// Use that a program makes of a file that a word names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// It may read or write it.
    Content,
    /// It needs nothing but the name.
    Name,
}

/// A walk through the commands of a line.
struct Walk<'a> {
    gate: &'a Gate,
    call_context: ToolCallContext<'a>,
    /// Directory from which relative paths are meant, as far as `cd` can be followed.
    base: PathBuf,
    /// True as long as it can.
    is_base_known: bool,
    /// Knows what the sandbox hides; none where every secret is to be asked about.
    here: Option<&'a CommandPlace<'a>>,
    /// Hidden paths whose content the line may need.
    secrets: RefCell<BTreeSet<String>>,
}

impl<'a> Walk<'a> {
    fn new(
        gate: &'a Gate,
        call_context: ToolCallContext<'a>,
        directory: &Resolved,
        here: Option<&'a CommandPlace<'a>>,
    ) -> Self {
        let base = directory.absolute().to_path_buf();
        Self { gate, call_context, base, is_base_known: true, here, secrets: RefCell::default() }
    }

    fn line(&mut self, line: &str, nesting: usize) -> Option<Leaving> {
        let script = roo_shell::read(line);
        if script.is_incomplete() || nesting > NESTING {
            return Some("not all of it can be taken apart".to_owned().into());
        }
        script.commands.iter().find_map(|command| self.command(command, nesting))
    }

    fn command(&mut self, command: &Command, nesting: usize) -> Option<Leaving> {
        let assigned = command.assignments.iter().filter_map(|text| text.split_once('='));
        let assigned = assigned.map(|(_, value)| value.trim_matches(['"', '\'']));
        // A program may lie anywhere; what it is given counts.
        let words = command.words.iter().skip(1).map(|word| word.visible.as_str());
        let all: Vec<&str> = command.words.iter().map(|word| word.visible.as_str()).collect();
        let places = words.clone().enumerate().filter(|(index, _)| !is_text(&all, index + 1));
        let places = places.map(|(index, word)| (word, use_of(&all, index + 1)));
        let assigned = assigned.map(|value| (value, Use::Content));
        let mut left = assigned.chain(places).find_map(|(word, of)| self.word(word, of)).map(Leaving::from);
        if command.words.iter().any(|word| is_shell(&word.visible)) {
            let lines = words.filter(|word| word.contains(char::is_whitespace));
            left = left.or_else(|| lines.into_iter().find_map(|line| self.line(line, nesting + 1)));
        }
        match command.words.as_slice() {
            [cd, to] if cd.literal() == Some("cd") => self.change_base(to),
            [first, ..] if first.literal().is_some_and(|name| CHANGE_DIRECTORY.contains(&name)) => {
                self.is_base_known = false;
            }
            _ => {}
        }
        left.or_else(|| command.redirects.iter().find_map(|redirect| self.redirect(redirect)))
    }

    fn change_base(&mut self, to: &Word) {
        let path = expanded(&to.visible);
        let is_known = !has_expansion(to) && path != "-";
        self.is_base_known = is_known && (self.is_base_known || path.starts_with('/'));
        self.base = self.base.join(path);
    }

    /// A word with all that may be a path in it.
    fn word(&self, word: &str, of: Use) -> Option<String> {
        // The end of an address or of an expression is no place.
        let parts = word.split(SEPARATORS).filter(|part| !part.starts_with("//"));
        // An option with its value, as in `-C/etc`.
        let attached = word.find(['/', '~']).filter(|_| word.starts_with('-')).map(|at| &word[at..]);
        // `/` alone separates fields, as in `cut -d/`.
        let attached = attached.filter(|path| *path != "/");
        let parts = parts.chain(attached).chain(std::iter::once(word));
        let parts: BTreeSet<&str> = parts.filter(|part| !part.is_empty()).collect();
        parts.into_iter().find_map(|part| self.read(part, of))
    }

    fn redirect(&self, redirect: &Redirect) -> Option<Leaving> {
        let target = redirect.target.as_ref()?;
        match redirect.operator.as_str() {
            "<&" | ">&" if is_descriptor(target) => None,
            "<<" | "<<-" | "<<<" => None,
            "<" => self.read(&target.visible, Use::Content).map(Leaving::from),
            _ => self.written(target),
        }
    }

    fn read(&self, path: &str, of: Use) -> Option<String> {
        // Somebody's home directory.
        if path.strip_prefix('~').is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphanumeric())) {
            return Some(outside(path));
        }
        match self.place(path)? {
            Ok(place) => self.check(&place, Access::Look, of),
            Err(reason) => Some(reason),
        }
    }

    fn written(&self, target: &Word) -> Option<Leaving> {
        let path = target.visible.as_str();
        let named = expanded(path);
        // The path that it stands for may be anywhere, as in the command's own temporary directory.
        let is_certain = !has_expansion(target) && (self.is_base_known || named.starts_with('/'));
        let absolute = self.base.join(named);
        if is_below(&absolute, DEVICES) {
            return None;
        }
        let Some(text) = absolute.to_str() else {
            return Some(format!("`{path}` is not plain text").into());
        };
        // The line may remove a directory of that name before.
        let purpose = if absolute.is_dir() { Purpose::Directory } else { Purpose::Write };
        let place = match self.gate.resolve(text, purpose) {
            Ok(place) => place,
            Err(refusal) => return Some(refusal.into_reason().into()),
        };
        match place.location() {
            Location::Outside if is_below(place.absolute(), PRIVATE) => None,
            Location::Outside if !is_certain || self.may_be_opened(place.absolute()) => {
                Some(outside(path).into())
            }
            Location::Outside => {
                let reason = outside(path);
                let advice = format!(
                    "{reason}, and no answer of the user's lets commands write there. If the task needs it, the user can open \
                     the place (setting sandbox.writable) or write it themselves."
                );
                Some(Leaving::Fails { reason, advice })
            }
            Location::Inside { .. } => {
                let reason = self.check(&place, Access::Write, Use::Content)?;
                if !is_certain || !self.is_held(&place) || self.may_be_opened(place.absolute()) {
                    return Some(Leaving::Asks(reason));
                }
                let advice = format!(
                    "The command can't write there: {reason}. Write it with write_to_file, which asks the user."
                );
                Some(Leaving::Fails { reason, advice })
            }
        }
    }

    /// Returns whether the sandbox keeps a place of the workspace from being written for its name, or undoes that. Most of what
    /// git keeps is written, and so is build output that git ignores.
    fn is_held(&self, place: &Resolved) -> bool {
        let protection = protection_at(self.gate.policy_context(), self.call_context, place);
        matches!(protection, Protection::Tier1 { .. })
            && !may_be_build_output(Path::new(place.relative()))
            && git::is_guarded(place.absolute()).unwrap_or(true)
    }

    /// Returns whether the user's settings open a place to commands, or an answer can.
    fn may_be_opened(&self, place: &Path) -> bool {
        let context = self.gate.policy_context();
        let opened = context.settings.sandbox.writable.iter().filter_map(|path| path.canonicalize().ok());
        let home = context.bounds.home();
        let lookup = |name: &str| std::env::var_os(name);
        let caches = home.iter().flat_map(|home| caches(home, lookup));
        // Some of these are layers that are private to commands.
        let tools = home.iter().flat_map(|home| tool_directories(home, lookup));
        opened.chain(caches).chain(tools).any(|opened| place.starts_with(opened))
    }

    fn check(&self, place: &Resolved, access: Access, of: Use) -> Option<String> {
        let context = CheckContext {
            policy_context: self.gate.policy_context(),
            call_context: self.call_context,
            place,
            access,
        };
        let reason = match check::check(&context) {
            Ok(asks) => asks?,
            Err(refusal) => return Some(refusal.into_reason()),
        };
        let hidden = (reason.rule == AskRule::Secret).then(|| self.hidden_secret(place, access)).flatten();
        match hidden {
            Some(hidden) => {
                if of == Use::Content {
                    self.secrets.borrow_mut().insert(hidden);
                }
                None
            }
            None => Some(reason.text),
        }
    }

    /// Returns the path that hides a place from the command, if the user may grant it: it has the name of a secret, and
    /// nothing else stands against this access.
    fn hidden_secret(&self, place: &Resolved, access: Access) -> Option<String> {
        let context = self.gate.policy_context();
        let hidden = self.here?.hidden().iter().find(|hidden| place.absolute().starts_with(hidden))?;
        let text = hidden.to_str()?;
        let purpose = if hidden.is_dir() { Purpose::Directory } else { Purpose::Read };
        let found = self.gate.resolve(text, purpose).ok()?;
        let is_secret = found.absolute() == hidden.as_path()
            && context.workspace.read_access(&found) == ReadAccess::Secret;
        let protection = protection_at(context, self.call_context, place);
        let is_protected = matches!(protection, Protection::Tier1 { .. } | Protection::Denied);
        (is_secret && (access == Access::Look || !is_protected)).then(|| text.to_owned())
    }

    /// Resolves a text where something is there: to a place of the workspace, or the reason why that asks.
    fn place(&self, path: &str) -> Option<Result<Resolved, String>> {
        let path = expanded(path);
        // What a pattern stands for lies below its first part.
        let known = path.split(['*', '?', '[', '{']).next().unwrap_or_default();
        let known = if known.len() == path.len() { known } else { known.rsplit_once('/')?.0 };
        let absolute = self.base.join(if known.is_empty() && path.starts_with('/') { "/" } else { known });
        let named = absolute.symlink_metadata().ok()?;
        if is_below(&absolute, DEVICES) {
            return None;
        }
        let is_directory = named.is_dir() || absolute.is_dir();
        let purpose = if is_directory { Purpose::Directory } else { Purpose::Read };
        // What can't be resolved asks: it may lead anywhere.
        let place = match absolute.to_str().map(|text| self.gate.resolve(text, purpose)) {
            Some(Ok(place)) => place,
            Some(Err(refusal)) => return Some(Err(refusal.into_reason())),
            None => return Some(Err(format!("`{path}` is not plain text"))),
        };
        if place.location() != Location::Outside {
            return Some(Ok(place));
        }
        let place = place.absolute();
        let is_free = is_below(place, SYSTEM)
            || MACHINE.iter().any(|file| place == Path::new(file))
            || is_below(place, PRIVATE)
            || FreePlaces::find(self.gate.policy_context()).contain(place);
        (!is_free).then(|| Err(outside(&path)))
    }
}

/// Returns whether a program runs command lines that it is given.
fn is_shell(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or_default();
    matches!(name, "sh" | "bash" | "dash" | "zsh" | "ksh" | "ash" | "fish" | "eval" | "watch" | "busybox")
}

/// Returns what a program does with the file that a word of its line names. It counts for what the sandbox hides, so that a
/// program which does more all the same sees nothing.
fn use_of(words: &[&str], index: usize) -> Use {
    let (Some(program), Some(word)) = (words.first(), words.get(index)) else { return Use::Content };
    let is_pattern = ["--exclude=", "--exclude-dir="].iter().any(|option| word.starts_with(option));
    let needs_name = match program.rsplit('/').next().unwrap_or_default() {
        "echo" | "printf" | "test" | "[" | "[[" | "ls" | "stat" => true,
        // What is there is not read to be replaced.
        "cp" => {
            let has_target = words.iter().any(|word| word.starts_with("-t") || word.starts_with("--t"));
            index > 1 && index + 1 == words.len() && !has_target
        }
        "git" => names_alone(&words[1..]),
        _ => false,
    };
    if is_pattern || needs_name { Use::Name } else { Use::Content }
}

/// Returns whether a subcommand of git prints of files no more than their names.
fn names_alone(words: &[&str]) -> bool {
    const PLAIN: &[&str] =
        &["--oneline", "--all", "--follow", "--graph", "--name-only", "--name-status", "--stat"];
    let is_count = |word: &str| {
        let digits = word.trim_start_matches("-n").trim_start_matches('-');
        word.starts_with('-') && digits.chars().all(|c| c.is_ascii_digit())
    };
    match words {
        ["check-ignore" | "ls-files" | "status", ..] => true,
        ["rm", options @ ..] => options.contains(&"--cached"),
        ["log", options @ ..] => {
            options.contains(&"--oneline")
                && options.iter().all(|word| {
                    !word.starts_with('-') || *word == "--" || PLAIN.contains(word) || is_count(word)
                })
        }
        _ => false,
    }
}

/// Returns whether `ls` lists one of these directories and nothing below it.
fn lists_system_directory(words: &[&str], word: &str) -> bool {
    let is_plain = |word: &&str| match word.strip_prefix('-') {
        Some(letters) => letters.chars().all(|c| "1AFSadhlrt".contains(c)),
        None => true,
    };
    words.first() == Some(&"ls") && ["/", "/etc", "/etc/"].contains(&word) && words.iter().all(is_plain)
}

/// Returns whether a word of slashes is a text for its program, as in `grep -n // a.js` and `cut -d / -f 1`, and not the
/// root directory; or a place of which its program tells no more than everybody knows.
fn is_text(words: &[&str], index: usize) -> bool {
    let (Some(program), Some(word)) = (words.first(), words.get(index)) else { return false };
    if lists_system_directory(words, word) || (*word == "~" && matches!(*program, "echo" | "printf")) {
        return true;
    }
    if word.is_empty() || word.chars().any(|c| c != '/') {
        return false;
    }
    let before = words[index - 1];
    let is_operand = |(at, word): &(usize, &&str)| *at > 0 && !word.starts_with('-');
    let is_first = || words.iter().enumerate().find(is_operand).is_some_and(|(at, _)| at == index);
    // An option with a pattern makes every other word a file.
    let has_pattern = || {
        let long = ["--re", "--f"];
        words.iter().any(|word| match word.strip_prefix('-') {
            Some(rest) if rest.starts_with('-') => long.iter().any(|option| word.starts_with(option)),
            Some(letters) => letters.contains(['e', 'f']),
            None => false,
        })
    };
    match program.rsplit('/').next().unwrap_or_default() {
        "echo" | "printf" | "tr" => true,
        "cut" => before == "-d",
        "awk" | "gawk" | "mawk" if before == "-F" => true,
        "awk" | "egrep" | "fgrep" | "gawk" | "grep" | "mawk" | "rg" => is_first() && !has_pattern(),
        _ => false,
    }
}

/// Returns whether the shell makes another word of it, but for the home directory, which is known.
fn has_expansion(word: &Word) -> bool {
    word.literal().is_none() && expanded(&word.visible).contains(['$', '`', '~', '*', '?', '[', '{', '('])
}

fn outside(path: &str) -> String {
    format!("`{path}` is outside of the workspace")
}

/// A path with the home directory in place of what stands for it.
fn expanded(path: &str) -> String {
    let home = std::env::var("HOME").unwrap_or_default();
    for name in ["~", "$HOME", "${HOME}"] {
        if let Some(rest) = path.strip_prefix(name)
            && (rest.is_empty() || rest.starts_with('/'))
        {
            return format!("{home}{rest}");
        }
    }
    path.to_owned()
}

fn is_plain(name: &str) -> bool {
    render::exact_line(name) == name
}

fn is_descriptor(word: &Word) -> bool {
    word.visible == "-" || word.visible.chars().all(|c| c.is_ascii_digit())
}

fn is_below(path: &Path, directories: &[&str]) -> bool {
    directories.iter().any(|directory| path.starts_with(directory))
}

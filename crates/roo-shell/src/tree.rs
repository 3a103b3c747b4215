//! The first reading: any line, by a full grammar of bash.
//!
//! The tree of the grammar becomes a flat list of simple commands. Nothing in it is passed over: a kind of
//! node that isn't known here is a problem of the line, as are errors and everything compound.

use std::ops::ControlFlow;

use tree_sitter::{Node, ParseOptions, ParseState, Parser, Tree, TreeCursor};

use super::construct::{Document, Join, Way};
use super::script::{Command, Problem, Redirect, Script, Word};
use super::structure::{self, Part, Structure};
use super::word::{self, AFTER_BARE_DOLLAR, Opaque, Pattern, Value};
use super::{DEPTH, LINE_BYTES, PLAIN_COMMANDS, SYNTAX_CHARACTERS, deceptive_characters, strict};
use roo_text::bash_grammar::for_bash_grammar;
use roo_text::render;

/// Maximum number of here-documents a line may have that is given to the grammar: its scanner, which is C, has been
/// seen to crash on several in each other.
const DOCUMENTS: usize = 1;
/// Maximum number of progress reports of the parser, one after some hundred steps.
const REPORTS: usize = 20_000;
/// Characters that can be more than text.
const SYNTAX: &[u8] = b"|&;<>(){}[]$`\"'\\=#!*?~";
/// Problems that are kept, and the first of every kind; the very first says why a line isn't plain.
const PROBLEMS: usize = 64;
/// Characters of what is wrong that a problem shows.
const SHOWN: usize = 60;

/// Takes a command line apart, as `bash -c` would read it.
pub fn read(line: &str) -> Script {
    let mut script = Script::default();
    // First, so that they are told even of a line that is too long.
    script.problems.extend(line.contains('\0').then_some(Problem::Nul));
    let mut deceptive: Vec<char> = deceptive_characters(line).filter(|c| *c != '\0').take(PROBLEMS).collect();
    deceptive.sort_unstable();
    deceptive.dedup();
    script.problems.extend(deceptive.into_iter().map(Problem::Deceptive));
    if line.len() > LINE_BYTES {
        script.problems.push(Problem::TooLong(line.len()));
        return script;
    }
    if line.contains('\0') {
        return script;
    }
    // The grammar's worst cases take quadratic time, and can't be interrupted by the work they do.
    let syntax = line.bytes().filter(|byte| SYNTAX.contains(byte)).count();
    let documents = line.matches("<<").count();
    let Some(tree) =
        Some(line).filter(|_| syntax <= SYNTAX_CHARACTERS && documents <= DOCUMENTS).and_then(|line| {
            // In a document it could be a part of the line that ends it.
            let line = for_bash_grammar(line);
            parse(&if documents == 0 { without_plain_dollars(&line) } else { line.into_owned() })
        })
    else {
        script.problems.push(Problem::TooComplex);
        return script;
    };
    let mut walk = TreeWalk { line, script, join: None, last: None };
    walk.all(&tree);
    let mut script = walk.script;
    if script.commands.is_empty() && script.problems.is_empty() {
        script.problems.push(Problem::Empty);
    }
    if script.commands.len() > PLAIN_COMMANDS {
        script.problems.push(Problem::TooManyCommands);
    }
    if let Some(problem) = script.problems.iter().find(|problem| problem.is_fatal()) {
        script.structure = Some(Err(problem.to_string()));
        return script;
    }
    let structure = agree(line, &mut script);
    // What bash alone knows has a structure, and is not plain.
    let is_timed = |command: &Command| command.words.first().is_some_and(|word| word.visible == "time");
    let is_joint = |command: &Command| command.redirects.iter().any(|to| to.operator.starts_with("&>"));
    if script.commands.iter().any(is_timed) {
        script.problems.push(Problem::Construct("`time` before a command"));
    }
    if script.commands.iter().any(is_joint) {
        script.problems.push(Problem::Construct("a redirection that not every shell knows"));
    }
    if let Err(problem) = &structure
        && script.problems.is_empty()
    {
        script.problems.push(Problem::NotPlain(problem.clone()));
    }
    script.structure = Some(structure.map_err(|problem| Problem::NotPlain(problem).to_string()));
    script
}

/// A line of the same length, with a character of words in place of each `$` that begins nothing: the grammar takes most of
/// these for errors.
fn without_plain_dollars(line: &str) -> String {
    let mut plain = line.to_owned();
    let mut after = line.char_indices().peekable();
    let mut before = None;
    while let Some((at, c)) = after.next() {
        let ends = after.peek().is_none_or(|(_, next)| *next == ')' || AFTER_BARE_DOLLAR.contains(*next));
        // `$$` and `${$}` are the number of a process.
        if c == '$' && ends && !matches!(before, Some('$' | '{')) {
            plain.replace_range(at..=at, "+");
        }
        before = Some(c);
    }
    plain
}

/// Parses a line; none when that takes too much work.
fn parse(line: &str) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    let mut reports = 0;
    let mut progress = |_: &ParseState| {
        reports += 1;
        if reports > REPORTS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let bytes = line.as_bytes();
    let mut text = |at: usize, _| bytes.get(at..).unwrap_or_default();
    parser.parse_with_options(&mut text, None, Some(ParseOptions::new().progress_callback(&mut progress)))
}

/// Reads the line by lexical rules, and holds the commands of the grammar against what comes of it.
fn agree(line: &str, script: &mut Script) -> Result<Structure, String> {
    let structure = strict::read(line)?;
    let flat = structure.flatten();
    let is_same_command = |(command, reached): (&Command, &structure::Reached<'_>)| {
        // A line's end is no node of the grammar.
        let joins = [command.join, reached.join].map(|join| join.unwrap_or(Join::Sequence));
        let ways = command.ways == reached.ways;
        let assignments = command.assignments.iter().map(String::as_str).eq(reached
            .simple
            .assignments
            .iter()
            .map(|assignment| line.get(assignment.range.clone()).unwrap_or_default()));
        joins[0] == joins[1] && ways && assignments && are_same_words(&command.words, &reached.simple.words)
    };
    let commands = script.commands.len() == flat.commands.len()
        && script.commands.iter().zip(&flat.commands).all(is_same_command);
    let loops = script.loops.len() == flat.loops.len()
        && script.loops.iter().zip(&flat.loops).all(|(one, two)| one.0 == two.0 && one.1 == two.1);
    let mut theirs: Vec<&mut Redirect> =
        script.commands.iter_mut().flat_map(|command| &mut command.redirects).collect();
    let place = |redirect: &Redirect| redirect.target.as_ref().map(|word| word.range.start);
    theirs.sort_by_key(|redirect| place(redirect));
    let mut ours = flat.redirects;
    ours.sort_by_key(|redirect| redirect.target.range.start);
    let document =
        |redirect: &structure::Redirect| Some(structure.documents.get(redirect.document?)?.clone());
    let redirects = theirs.len() == ours.len()
        && theirs.iter().zip(&ours).all(|(one, two)| is_same(one, two, document(two).as_ref()));
    if !(commands && loops && redirects) {
        return Err("can be read in more than one way".to_owned());
    }
    // The grammar leaves out blanks around a document.
    for (theirs, ours) in theirs.into_iter().zip(&ours) {
        theirs.document = document(ours);
    }
    Ok(structure)
}

/// Returns whether both readings have the same words, and the same texts of those that stand for themselves.
fn are_same_words(one: &[Word], two: &[structure::Word]) -> bool {
    // To the grammar a test is one piece.
    if let ([test], [first, .., last]) = (one, two)
        && test.value == Value::Opaque(Opaque::Syntax)
        && matches!(first.literal().as_deref(), Some("[" | "[["))
    {
        return test.range == (first.range.start..last.range.end);
    }
    one.len() == two.len()
        && one.iter().zip(two).all(|(one, two)| {
            one.range == two.range && value_of(&two.parts).is_none_or(|value| one.value == value)
        })
}

/// Returns the value of the parts of a word, if any word with these has it.
fn value_of(parts: &[Part]) -> Option<Value> {
    let (mut text, mut prefix) = (String::new(), None);
    for part in parts {
        match part {
            Part::Text(more) => text.push_str(more),
            Part::Wildcard(c) => {
                prefix.get_or_insert(text.len());
                text.push(*c);
            }
            _ => return None,
        }
    }
    Some(match prefix {
        None => Value::Literal(text),
        Some(length) => Value::Pattern(Pattern { prefix: text[..length].to_owned(), text }),
    })
}

fn is_same(one: &Redirect, two: &structure::Redirect, document: Option<&Document>) -> bool {
    let documents = match (&one.document, document) {
        (Some(one), Some(two)) => one.quoted == two.quoted && one.text.trim() == two.text.trim(),
        (one, two) => one.is_none() && two.is_none(),
    };
    one.descriptor == two.descriptor
        && one.operator == two.operator
        && one.target.as_ref().map(|word| &word.range) == Some(&two.target.range)
        && documents
}

#[derive(Clone)]
struct NodeContext {
    ways: Vec<Way>,
    /// The command whose words these are.
    command: Option<usize>,
    depth: usize,
    /// True if only commands within words are looked for.
    in_word: bool,
}

struct TreeWalk<'a> {
    line: &'a str,
    script: Script,
    /// Operator before the next command.
    join: Option<Join>,
    /// The command that a redirection belongs to.
    last: Option<usize>,
}

impl TreeWalk<'_> {
    fn all(&mut self, tree: &Tree) {
        let mut cursor = tree.walk();
        let place = NodeContext { ways: Vec::new(), command: None, depth: 0, in_word: false };
        let mut stack = vec![(tree.root_node(), place)];
        while let Some((node, place)) = stack.pop() {
            if place.depth > DEPTH {
                self.problem(Problem::TooDeep);
                // The commands further in stay unseen; `scan` looks for them too.
                continue;
            }
            let from = stack.len();
            self.node(node, place, &mut cursor, &mut stack);
            stack[from..].reverse();
        }
    }

    fn problem(&mut self, problem: Problem) {
        let problems = &mut self.script.problems;
        let kind = std::mem::discriminant(&problem);
        let is_new = problems.iter().all(|known| std::mem::discriminant(known) != kind);
        // No kind is left out, however many problems there are of another.
        if is_new || (problems.len() < PROBLEMS && !problems.contains(&problem)) {
            problems.push(problem);
        }
    }

    fn text(&self, node: Node<'_>) -> &str {
        self.line.get(node.byte_range()).unwrap_or_default()
    }

    fn construct(&mut self, what: &'static str) {
        self.problem(Problem::Construct(what));
    }

    /// Looks at one node and says where to go on.
    fn node<'t>(
        &mut self,
        node: Node<'t>,
        place: NodeContext,
        cursor: &mut TreeCursor<'t>,
        next: &mut Vec<(Node<'t>, NodeContext)>,
    ) {
        if node.is_error() || node.is_missing() {
            let text = if node.is_missing() { node.kind() } else { self.text(node) };
            self.problem(Problem::Error(render::one_line(text, SHOWN)));
        }
        let kind = node.kind();
        let way = match kind {
            "program" | "list" | "pipeline" | "redirected_statement" => None,
            "comment" => return,
            "command" => return self.command(node, place, cursor, next),
            "variable_assignment" | "variable_assignments" if !place.in_word => {
                return self.assignments(node, place, cursor, next);
            }
            "for_statement" => {
                self.for_loop(node, cursor);
                Some((Way::Loop, "a loop"))
            }
            "declaration_command" | "unset_command" => return self.declaration(node, place, cursor, next),
            "test_command" if !place.in_word => return self.test(node, place, cursor, next),
            "file_redirect" | "herestring_redirect" | "heredoc_redirect" => {
                return self.redirect(node, place, cursor, next);
            }
            "subshell" => Some((Way::Subshell, "a subshell")),
            "compound_statement" => Some((Way::Group, "a group")),
            "negated_command" => Some((Way::Negation, "`!` before a command")),
            "c_style_for_statement" | "while_statement" => Some((Way::Loop, "a loop")),
            "if_statement" | "case_statement" => Some((Way::Branch, "a condition")),
            "function_definition" => Some((Way::Function, "the definition of a function")),
            "command_substitution" => Some((Way::Substitution, "a command substitution")),
            "process_substitution" => Some((Way::ProcessSubstitution, "a process substitution")),
            "do_group" | "elif_clause" | "else_clause" | "case_item" => None,
            _ if place.in_word => None,
            "\n" | ";" => return self.join = Some(Join::Sequence),
            "&" => {
                self.join = Some(Join::Sequence);
                return self.construct("`&`, which starts a command in the background");
            }
            "&&" => return self.join = Some(Join::And),
            "||" => return self.join = Some(Join::Or),
            "|" => return self.join = Some(Join::Pipe),
            "|&" => {
                self.join = Some(Join::Pipe);
                return self.construct("`|&`");
            }
            // The grammar's keywords and brackets; what they begin is a problem by itself.
            _ if !node.is_named() && node.child_count() == 0 => return,
            // What a loop or a condition goes through, and what an error left over.
            _ => None,
        };
        // A list leans to the left, however long it is, and so does a word.
        let deeper = usize::from(!matches!(kind, "list" | "pipeline" | "redirected_statement"));
        let mut inner = NodeContext { depth: place.depth + deeper, ..place };
        if let Some((way, what)) = way {
            self.construct(what);
            if !(way == Way::Substitution && inner.ways.last() == Some(&Way::Document)) {
                inner.ways.push(way);
            }
            inner.in_word = false;
            inner.command = None;
            self.join = None;
        } else if !is_statement(kind) && !inner.in_word && node.is_named() {
            if !node.is_error() && !is_word(kind) {
                self.construct("syntax that isn't known");
            }
            inner.in_word = !node.is_error();
        }
        let children: Vec<Node<'t>> = node.children(cursor).collect();
        for (index, child) in children.iter().enumerate() {
            let background = !inner.in_word && children.get(index + 1).is_some_and(|next| next.kind() == "&");
            let mut place = inner.clone();
            if background {
                place.ways.push(Way::Background);
            }
            next.push((*child, place));
        }
    }

    /// Notes what a loop goes through.
    fn for_loop<'t>(&mut self, node: Node<'t>, cursor: &mut TreeCursor<'t>) {
        let variable = node.child_by_field_name("variable").map_or("", |name| self.text(name)).to_owned();
        let words = node.children_by_field_name("value", cursor).map(|word| word.byte_range()).collect();
        self.script.loops.push((variable, words));
    }

    fn push(&mut self, place: &NodeContext) -> usize {
        let join = self.join.take();
        self.script.commands.push(Command { ways: place.ways.clone(), join, ..Command::default() });
        let index = self.script.commands.len() - 1;
        self.last = Some(index);
        index
    }

    /// Adds a word to a command and looks into it later.
    fn word<'t>(
        &mut self,
        node: Node<'t>,
        command: usize,
        place: &NodeContext,
        next: &mut Vec<(Node<'t>, NodeContext)>,
    ) {
        let word = self.read_word(node);
        if let Some(command) = self.script.commands.get_mut(command) {
            command.words.push(word);
        }
        next.push((
            node,
            NodeContext {
                in_word: true,
                command: Some(command),
                depth: place.depth + 1,
                ways: place.ways.clone(),
            },
        ));
    }

    fn read_word(&mut self, node: Node<'_>) -> Word {
        let raw = self.text(node).to_owned();
        let value = Value::from_raw(&raw);
        if let Value::Opaque(opaque) = value {
            let text = render::one_line(&raw, SHOWN);
            self.problem(Problem::Opaque { text, opaque });
        }
        let visible = match &value {
            Value::Literal(text) => text.clone(),
            Value::Pattern(pattern) => pattern.text.clone(),
            Value::Opaque(_) => word::visible(&raw),
        };
        Word { range: node.byte_range(), value, visible }
    }

    fn command<'t>(
        &mut self,
        node: Node<'t>,
        place: NodeContext,
        cursor: &mut TreeCursor<'t>,
        next: &mut Vec<(Node<'t>, NodeContext)>,
    ) {
        let index = self.push(&place);
        for child in node.children(cursor) {
            match child.kind() {
                "variable_assignment" => self.assignment(child, index, &place, next),
                "file_redirect" | "herestring_redirect" => {
                    next.push((child, NodeContext { command: Some(index), ..place.clone() }));
                }
                "subshell" => {
                    self.construct("a bracket where an argument should be");
                    next.push((child, place.clone()));
                }
                "comment" => {}
                _ if child.is_error() => next.push((child, place.clone())),
                _ => self.word(child, index, &place, next),
            }
        }
    }

    fn assignment<'t>(
        &mut self,
        node: Node<'t>,
        command: usize,
        place: &NodeContext,
        next: &mut Vec<(Node<'t>, NodeContext)>,
    ) {
        self.problem(Problem::Assignment);
        let text = self.text(node).to_owned();
        if let Some(command) = self.script.commands.get_mut(command) {
            command.assignments.push(text);
        }
        next.push((
            node,
            NodeContext {
                in_word: true,
                command: Some(command),
                depth: place.depth + 1,
                ways: place.ways.clone(),
            },
        ));
    }

    fn assignments<'t>(
        &mut self,
        node: Node<'t>,
        place: NodeContext,
        cursor: &mut TreeCursor<'t>,
        next: &mut Vec<(Node<'t>, NodeContext)>,
    ) {
        let index = self.push(&place);
        if node.kind() == "variable_assignment" {
            return self.assignment(node, index, &place, next);
        }
        for child in node.children(cursor) {
            self.assignment(child, index, &place, next);
        }
    }

    /// `export a=b`, `unset a`: commands with a grammar of their own.
    fn declaration<'t>(
        &mut self,
        node: Node<'t>,
        place: NodeContext,
        cursor: &mut TreeCursor<'t>,
        next: &mut Vec<(Node<'t>, NodeContext)>,
    ) {
        self.construct("a command that changes the shell's variables");
        let index = self.push(&place);
        for child in node.children(cursor) {
            self.word(child, index, &place, next);
        }
    }

    /// `[ … ]` and `[[ … ]]`, whose words aren't arguments to the grammar.
    fn test<'t>(
        &mut self,
        node: Node<'t>,
        place: NodeContext,
        cursor: &mut TreeCursor<'t>,
        next: &mut Vec<(Node<'t>, NodeContext)>,
    ) {
        self.construct("a test in brackets");
        let index = self.push(&place);
        let word = Word {
            range: node.byte_range(),
            value: Value::Opaque(Opaque::Syntax),
            visible: word::visible(self.text(node)),
        };
        if let Some(command) = self.script.commands.get_mut(index) {
            command.words.push(word);
        }
        for child in node.children(cursor) {
            let in_word = child.kind() != "redirected_statement";
            next.push((
                child,
                NodeContext {
                    in_word,
                    command: Some(index),
                    depth: place.depth + 1,
                    ways: place.ways.clone(),
                },
            ));
        }
    }

    fn redirect<'t>(
        &mut self,
        node: Node<'t>,
        place: NodeContext,
        cursor: &mut TreeCursor<'t>,
        next: &mut Vec<(Node<'t>, NodeContext)>,
    ) {
        let index = match place.command.or(self.last.filter(|_| node.prev_sibling().is_some())) {
            Some(index) => index,
            None => self.push(&place),
        };
        let mut redirect =
            Redirect { descriptor: String::new(), operator: String::new(), target: None, document: None };
        let mut words = Vec::new();
        let mut later = Vec::new();
        for child in node.children(cursor) {
            match child.kind() {
                "file_descriptor" => redirect.descriptor = self.text(child).to_owned(),
                _ if redirect.operator.is_empty() && !child.is_named() => {
                    redirect.operator = self.text(child).to_owned();
                }
                "heredoc_start" => redirect.target = Some(self.delimiter(child)),
                "heredoc_body" => {
                    let quoted = redirect.target.as_ref().is_some_and(|word| {
                        self.line.get(word.range.clone()).unwrap_or_default().contains(['\'', '"', '\\'])
                    });
                    let text = self.text(child).to_owned();
                    redirect.document = Some(Document { text, quoted });
                    let mut ways = place.ways.clone();
                    ways.push(Way::Document);
                    later.push((
                        child,
                        NodeContext { ways, in_word: true, depth: place.depth + 1, command: None },
                    ));
                }
                "heredoc_end" | "comment" => {}
                kind if is_word(kind) => {
                    if redirect.target.is_none() {
                        redirect.target = Some(self.read_word(child));
                        later.push((
                            child,
                            NodeContext { in_word: true, depth: place.depth + 1, ..place.clone() },
                        ));
                    } else {
                        // The grammar takes all words behind for targets; to the shell they are arguments.
                        words.push(child);
                    }
                }
                // What stands on the line behind `<<`: another redirection, or the rest of a pipe or list.
                _ => later.push((
                    child,
                    NodeContext {
                        command: Some(index).filter(|_| child.kind().ends_with("redirect")),
                        ..place.clone()
                    },
                )),
            }
        }
        if let Some(command) = self.script.commands.get_mut(index) {
            command.redirects.push(redirect);
        }
        next.append(&mut later);
        for child in words {
            self.word(child, index, &place, next);
        }
    }

    fn delimiter(&self, node: Node<'_>) -> Word {
        let text = self.text(node);
        Word {
            range: node.byte_range(),
            value: Value::Literal(word::visible(text)),
            visible: word::visible(text),
        }
    }
}

/// Kinds whose children are commands.
fn is_statement(kind: &str) -> bool {
    matches!(
        kind,
        "program"
            | "list"
            | "pipeline"
            | "redirected_statement"
            | "do_group"
            | "elif_clause"
            | "else_clause"
            | "case_item"
            | "ERROR"
    )
}

/// Kinds of what can be a word, or a part of one.
fn is_word(kind: &str) -> bool {
    matches!(
        kind,
        "word"
            | "string"
            | "raw_string"
            | "ansi_c_string"
            | "translated_string"
            | "number"
            | "expansion"
            | "simple_expansion"
            | "command_substitution"
            | "process_substitution"
            | "arithmetic_expansion"
            | "brace_expression"
            | "concatenation"
            | "test_operator"
            | "variable_name"
            | "regex"
            | "extglob_pattern"
            | "array"
            | "$"
    )
}

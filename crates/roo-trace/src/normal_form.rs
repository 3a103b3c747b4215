//! A file's syntax as bytes that stay the same when only comments, white space, the names of locals and the
//! order of definitions change.
//!
//! Two texts with the same normal form behave the same. The reverse doesn't hold: where a language's scoping rules are
//! complex, names are kept, and a rename counts as a change.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tree_sitter::{Node, Tree};

use super::syntax::{Language, is_comment};

/// Maximum depth of a tree, which the stack of [`super::normal_form_cache`] is large enough for.
const MAX_DEPTH: usize = 1000;

/// The tree is too deep to be walked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooDeep;

/// Normal form of a file.
pub(super) struct NormalForm<'t> {
    pub(super) bytes: Vec<u8>,
    /// Every name that occurs, whatever it means.
    pub(super) names: BTreeSet<&'t str>,
}

/// The normal form of a file, with free names replaced by `renames`.
pub(super) fn normalize<'t>(
    language: Language,
    tree: &'t Tree,
    source: &'t str,
    renames: &HashMap<&str, &str>,
) -> Result<NormalForm<'t>, TooDeep> {
    let mut walk = SyntaxWalk {
        language,
        source,
        renames,
        scopes: vec![],
        next: 0,
        functions: 0,
        depth: 0,
        names: BTreeSet::new(),
        keeps_names: reads_names(language, source),
    };
    let mut bytes = Vec::with_capacity(source.len());
    walk.node(tree.root_node(), false, &mut bytes)?;
    Ok(NormalForm { bytes, names: walk.names })
}

/// The normal form of one definition, with the names in `hidden` left out.
pub(super) fn normalize_definition(
    language: Language,
    node: Node<'_>,
    source: &str,
    hidden: &HashMap<&str, &str>,
) -> Result<Vec<u8>, TooDeep> {
    let mut walk = SyntaxWalk {
        language,
        source,
        renames: hidden,
        scopes: vec![],
        next: 0,
        functions: 0,
        depth: 0,
        names: BTreeSet::new(),
        keeps_names: reads_names(language, source),
    };
    let mut bytes = Vec::new();
    walk.node(node, false, &mut bytes)?;
    Ok(bytes)
}

/// Returns whether code may look at the names of its locals, so that they mean something.
fn reads_names(language: Language, source: &str) -> bool {
    let words: &[&str] = match language {
        Language::Python => &["locals(", "eval(", "exec(", "vars(", "globals(", "dir("],
        Language::JavaScript | Language::TypeScript | Language::Tsx => &["eval(", "with (", "with("],
        Language::Rust | Language::Go | Language::Bash => &[],
    };
    words.iter().any(|word| source.contains(word))
}

/// Meaning of a name in a scope.
#[derive(Clone, Copy)]
enum Binding {
    /// A local, by its number.
    Local(u32),
    /// Something local whose name is seen from outside.
    Kept,
}

#[derive(Default)]
struct NameScope<'t> {
    names: HashMap<&'t str, Binding>,
    /// A class body of Python: its names are not seen in its methods.
    class: bool,
}

struct SyntaxWalk<'t, 'r> {
    language: Language,
    source: &'t str,
    renames: &'r HashMap<&'r str, &'r str>,
    scopes: Vec<NameScope<'t>>,
    /// The number of the next local.
    next: u32,
    /// Number of enclosing functions.
    functions: usize,
    depth: usize,
    names: BTreeSet<&'t str>,
    keeps_names: bool,
}

type Walked = Result<(), TooDeep>;

impl<'t> SyntaxWalk<'t, '_> {
    fn text(&self, node: Node<'_>) -> &'t str {
        self.source.get(node.byte_range()).unwrap_or_default()
    }

    /// A node with all below it. `verbatim` where white space means something: within strings.
    fn node(&mut self, node: Node<'t>, verbatim: bool, out: &mut Vec<u8>) -> Walked {
        if is_comment(node) {
            if let Some(directive) = self.directive(node) {
                atom(node.kind_id(), directive, out);
            }
            return Ok(());
        }
        if node.child_count() == 0 {
            self.leaf(node, out);
            return Ok(());
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(TooDeep);
        }
        open(node.kind_id(), out);
        let walked = self.inside(node, verbatim, out);
        out.push(b')');
        self.depth -= 1;
        walked
    }

    fn inside(&mut self, node: Node<'t>, verbatim: bool, out: &mut Vec<u8>) -> Walked {
        if self.functions == 0 && self.language.is_list_of_definitions(node) {
            return self.definitions(node, out);
        }
        match self.language {
            Language::Rust => self.rust(node, verbatim, out),
            Language::Python => self.python(node, verbatim, out),
            Language::Go => self.go(node, verbatim, out),
            Language::JavaScript | Language::TypeScript | Language::Tsx => self.script(node, verbatim, out),
            Language::Bash => self.children(node, verbatim, out),
        }
    }

    /// All children in order, with the text between them where it is significant.
    fn children(&mut self, node: Node<'t>, verbatim: bool, out: &mut Vec<u8>) -> Walked {
        let within = verbatim_within(node.kind(), verbatim);
        let mut at = node.start_byte();
        for (_, child) in children(node) {
            self.gap(at, child.start_byte(), within, out);
            self.node(child, within, out)?;
            at = child.end_byte();
        }
        self.gap(at, node.end_byte(), within, out);
        Ok(())
    }

    /// Text that no child covers.
    fn gap(&self, from: usize, to: usize, verbatim: bool, out: &mut Vec<u8>) {
        let text = self.source.get(from..to).unwrap_or_default();
        if verbatim {
            if !text.is_empty() {
                atom(u16::MAX, text, out);
            }
        } else if !text.trim().is_empty() {
            let text = text.replace("\\\r\n", "").replace("\\\n", "");
            if !text.trim().is_empty() {
                atom(u16::MAX, text.trim(), out);
            }
        }
    }

    /// Returns whether a comment is a directive that affects how the file is built or run.
    fn directive(&self, node: Node<'_>) -> Option<&'t str> {
        let text = self.text(node);
        let steers = match self.language {
            Language::Go => text.starts_with("//go:") || text.starts_with("// +build") || self.is_cgo(node),
            _ => node.start_byte() == 0 && text.starts_with("#!"),
        };
        steers.then_some(text)
    }

    /// The comment before `import "C"` is C code.
    fn is_cgo(&self, node: Node<'_>) -> bool {
        let mut next = node.next_sibling();
        while let Some(sibling) = next.filter(|sibling| is_comment(*sibling) || !sibling.is_named()) {
            next = sibling.next_sibling();
        }
        next.is_some_and(|next| next.kind() == "import_declaration" && self.text(next).contains("\"C\""))
    }

    fn leaf(&mut self, node: Node<'t>, out: &mut Vec<u8>) {
        let text = self.text(node);
        match node.kind() {
            "identifier" | "variable_name" => self.name(node, out),
            // The key is the property's name, the value the local's.
            "shorthand_property_identifier"
            | "shorthand_property_identifier_pattern"
            | "shorthand_field_identifier" => {
                atom(node.kind_id(), text, out);
                self.name(node, out);
            }
            "type_identifier" => {
                self.names.insert(text);
                let text = self.renames.get(text).copied().unwrap_or(text);
                atom(node.kind_id(), text, out);
            }
            _ if !node.is_named() && text.trim().is_empty() => atom(node.kind_id(), "", out),
            _ => atom(node.kind_id(), text, out),
        }
    }

    /// A name that is used: a local by its number, a free one as it is.
    fn name(&mut self, node: Node<'t>, out: &mut Vec<u8>) {
        let text = self.text(node);
        self.names.insert(text);
        match self.find(text) {
            Some(Binding::Local(number)) => local(number, out),
            Some(Binding::Kept) => atom(0, text, out),
            None => atom(0, self.renames.get(text).copied().unwrap_or(text), out),
        }
    }

    /// A name that doesn't refer to a local, such as a field's.
    fn plain(&mut self, node: Node<'t>, out: &mut Vec<u8>) {
        let text = self.text(node);
        self.names.insert(text);
        atom(node.kind_id(), text, out);
    }

    fn find(&self, name: &str) -> Option<Binding> {
        let top = self.scopes.len().saturating_sub(1);
        let seen =
            self.scopes.iter().enumerate().rev().filter(|(index, scope)| !scope.class || *index == top);
        seen.map(|(_, scope)| scope.names.get(name)).find_map(|binding| binding.copied())
    }

    fn bind(&mut self, name: &'t str) -> Binding {
        let binding = if self.keeps_names { Binding::Kept } else { Binding::Local(self.next) };
        self.next += 1;
        self.keep(name, binding);
        binding
    }

    fn keep(&mut self, name: &'t str, binding: Binding) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.names.insert(name, binding);
        }
    }

    fn bind_all(&mut self, names: Vec<&'t str>) {
        for name in names {
            if !self.scopes.last().is_some_and(|scope| scope.names.contains_key(name)) {
                self.bind(name);
            }
        }
    }

    fn scoped(&mut self, walk: impl FnOnce(&mut Self) -> Walked) -> Walked {
        self.scopes.push(NameScope::default());
        let walked = walk(self);
        self.scopes.pop();
        walked
    }

    fn function(&mut self, walk: impl FnOnce(&mut Self) -> Walked) -> Walked {
        self.functions += 1;
        let walked = self.scoped(walk);
        self.functions -= 1;
        walked
    }

    fn field(&mut self, node: Node<'t>, name: &str, out: &mut Vec<u8>) -> Walked {
        match node.child_by_field_name(name) {
            Some(child) => self.node(child, false, out),
            None => {
                out.push(b'-');
                Ok(())
            }
        }
    }

    /// All children but those of these fields.
    fn others(&mut self, node: Node<'t>, fields: &[&str], out: &mut Vec<u8>) -> Walked {
        for (field, child) in children(node) {
            if field.is_none_or(|field| !fields.contains(&field)) {
                self.node(child, false, out)?;
            }
        }
        Ok(())
    }

    /// Collects the definitions of a file or a type: first what has its place, then the definitions in an order of
    /// their own. Definitions of one name keep their order among each other.
    fn definitions(&mut self, node: Node<'t>, out: &mut Vec<u8>) -> Walked {
        let mut units: BTreeMap<(Option<&'t str>, usize), Vec<u8>> = BTreeMap::new();
        let mut attributes = Vec::new();
        for (index, (_, child)) in children(node).into_iter().enumerate() {
            if is_comment(child) && self.directive(child).is_none() {
                continue;
            }
            self.next = 0;
            let mut bytes = std::mem::take(&mut attributes);
            self.node(child, false, &mut bytes)?;
            if matches!(child.kind(), "attribute_item" | "decorator") || is_comment(child) {
                // It belongs to what follows.
                attributes = bytes;
            } else if self.language.is_definition(child) {
                let name = match child.kind() {
                    "impl_item" => None,
                    _ => self.language.name_of(child, self.source),
                };
                let place = if name.is_some() { 0 } else { index };
                units.entry((name, place)).or_default().extend(bytes);
            } else if child.is_named() || !attributes.is_empty() {
                out.extend(bytes);
            }
        }
        out.extend(attributes);
        let mut units: Vec<Vec<u8>> = units.into_values().collect();
        units.sort_unstable();
        for unit in units {
            out.push(b'[');
            out.extend(unit);
        }
        Ok(())
    }

    fn rust(&mut self, node: Node<'t>, verbatim: bool, out: &mut Vec<u8>) -> Walked {
        match node.kind() {
            "function_item" => {
                // A function sees no locals of those around it.
                let around = std::mem::take(&mut self.scopes);
                let walked = self.function(|walk| walk.children(node, false, out));
                self.scopes = around;
                walked
            }
            "closure_expression" => self.function(|walk| walk.children(node, false, out)),
            "closure_parameters" => {
                for (_, child) in children(node) {
                    match child.kind() {
                        "parameter" => self.node(child, false, out)?,
                        _ => self.pattern(child, &mut HashMap::new(), out)?,
                    }
                }
                Ok(())
            }
            "parameter" if self.functions > 0 => {
                self.others(node, &["pattern"], out)?;
                self.pattern_field(node, out)
            }
            "block" => self.scoped(|walk| walk.children(node, false, out)),
            "let_declaration" | "let_condition" => {
                self.others(node, &["pattern"], out)?;
                self.pattern_field(node, out)
            }
            "for_expression" => {
                self.field(node, "value", out)?;
                self.scoped(|walk| {
                    walk.pattern_field(node, out)?;
                    walk.others(node, &["pattern", "value"], out)
                })
            }
            "match_arm" => self.scoped(|walk| walk.children(node, false, out)),
            "match_pattern" => {
                for (field, child) in children(node) {
                    match field {
                        Some("condition") => self.node(child, false, out)?,
                        _ if child.is_named() => self.pattern(child, &mut HashMap::new(), out)?,
                        _ => self.node(child, false, out)?,
                    }
                }
                Ok(())
            }
            "if_expression" | "while_expression" => {
                self.scoped(|walk| walk.others(node, &["alternative"], out))?;
                self.field(node, "alternative", out)
            }
            "scoped_identifier" | "scoped_type_identifier" => {
                self.others(node, &["name"], out)?;
                match node.child_by_field_name("name") {
                    Some(name) => self.plain(name, out),
                    None => out.push(b'-'),
                }
                Ok(())
            }
            "shorthand_field_initializer" => {
                atom(node.kind_id(), self.text(node), out);
                self.children(node, false, out)
            }
            "token_tree" => {
                for (_, child) in children(node) {
                    if child.kind() == "identifier" && self.is_plain_token(child) {
                        self.plain(child, out);
                    } else {
                        self.node(child, verbatim, out)?;
                    }
                }
                Ok(())
            }
            _ => self.children(node, verbatim, out),
        }
    }

    /// Returns whether a name in the arguments of a macro is a field, a part of a path, or the key of a field.
    fn is_plain_token(&self, node: Node<'_>) -> bool {
        let kind = |node: Option<Node<'_>>| node.map(|node| self.text(node)).unwrap_or_default();
        matches!(kind(node.prev_sibling()), "." | "::")
            || matches!(kind(node.next_sibling()), ":" | "::" | "!")
    }

    fn pattern_field(&mut self, node: Node<'t>, out: &mut Vec<u8>) -> Walked {
        match node.child_by_field_name("pattern") {
            Some(pattern) => self.pattern(pattern, &mut HashMap::new(), out),
            None => Ok(()),
        }
    }

    /// A pattern of Rust. Each name in it is a new local, and the same one in all its alternatives.
    fn pattern(
        &mut self,
        node: Node<'t>,
        bound: &mut HashMap<&'t str, Binding>,
        out: &mut Vec<u8>,
    ) -> Walked {
        let mut bind = |walk: &mut Self, node: Node<'t>, out: &mut Vec<u8>| {
            let name = walk.text(node);
            walk.names.insert(name);
            let binding = *bound.entry(name).or_insert_with(|| walk.bind(name));
            match binding {
                Binding::Local(number) => local(number, out),
                Binding::Kept => atom(0, name, out),
            }
        };
        match node.kind() {
            // A constant or a variant without fields begins with a capital.
            "identifier" if self.text(node).starts_with(char::is_uppercase) => self.name(node, out),
            "identifier" => bind(self, node, out),
            "shorthand_field_identifier" => {
                atom(node.kind_id(), self.text(node), out);
                bind(self, node, out);
            }
            "range_pattern" | "scoped_identifier" | "macro_invocation" | "const_block"
            | "generic_pattern" => {
                return self.node(node, false, out);
            }
            _ if node.child_count() == 0 || verbatim_within(node.kind(), false) => {
                return self.node(node, false, out);
            }
            _ => {
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return Err(TooDeep);
                }
                open(node.kind_id(), out);
                for (field, child) in children(node) {
                    match field {
                        Some("type" | "name") if child.kind() != "shorthand_field_identifier" => {
                            self.node(child, false, out)?;
                        }
                        _ => self.pattern(child, bound, out)?,
                    }
                }
                out.push(b')');
                self.depth -= 1;
            }
        }
        Ok(())
    }

    fn python(&mut self, node: Node<'t>, verbatim: bool, out: &mut Vec<u8>) -> Walked {
        match node.kind() {
            "function_definition" => {
                // Defaults and annotations belong to what is around.
                self.others(node, &["body"], out)?;
                self.function(|walk| {
                    // Callers may use the names of parameters.
                    let parameters = node.child_by_field_name("parameters");
                    for name in parameters.map(|node| walk.parameters(node)).unwrap_or_default() {
                        walk.keep(name, Binding::Kept);
                    }
                    if let Some(body) = node.child_by_field_name("body") {
                        walk.assigned(body);
                    }
                    walk.field(node, "body", out)
                })
            }
            "class_definition" => {
                self.others(node, &["body"], out)?;
                if self.functions == 0 {
                    return self.field(node, "body", out);
                }
                self.scopes.push(NameScope { class: true, ..NameScope::default() });
                if let Some(body) = node.child_by_field_name("body") {
                    for (name, _) in self.targets(body) {
                        self.keep(name, Binding::Kept);
                    }
                }
                let walked = self.field(node, "body", out);
                self.scopes.pop();
                walked
            }
            "lambda" => self.function(|walk| {
                for name in children(node)
                    .into_iter()
                    .filter(|(_, child)| child.kind() == "lambda_parameters")
                    .flat_map(|(_, child)| walk.parameters(child))
                    .collect::<Vec<_>>()
                {
                    walk.bind(name);
                }
                walk.children(node, false, out)
            }),
            "list_comprehension"
            | "set_comprehension"
            | "dictionary_comprehension"
            | "generator_expression" => self.scoped(|walk| {
                walk.others(node, &["body"], out)?;
                walk.field(node, "body", out)
            }),
            "for_in_clause" => {
                self.others(node, &["left"], out)?;
                if let Some(left) = node.child_by_field_name("left") {
                    let mut names = Vec::new();
                    self.collect(left, &["identifier"], &mut names);
                    self.bind_all(names);
                }
                self.field(node, "left", out)
            }
            "attribute" => {
                self.field(node, "object", out)?;
                node.child_by_field_name("attribute").into_iter().for_each(|name| self.plain(name, out));
                Ok(())
            }
            "keyword_argument" => {
                node.child_by_field_name("name").into_iter().for_each(|name| self.plain(name, out));
                self.field(node, "value", out)
            }
            "dotted_name" | "case_pattern" | "aliased_import" => {
                atom(node.kind_id(), self.text(node), out);
                Ok(())
            }
            // `f"{name=}"` shows the name.
            "interpolation" if children(node).iter().any(|(_, child)| child.kind() == "=") => {
                atom(node.kind_id(), self.text(node), out);
                Ok(())
            }
            _ => self.children(node, verbatim, out),
        }
    }

    /// Binds what a function's body assigns: local from its first line on, wherever it is assigned.
    fn assigned(&mut self, body: Node<'t>) {
        for (name, kept) in self.targets(body) {
            if self.scopes.last().is_some_and(|scope| scope.names.contains_key(name)) {
                continue;
            }
            if kept {
                self.keep(name, Binding::Kept);
            } else {
                self.bind(name);
            }
        }
    }

    /// The names that a body assigns, in order, and whether they have to be kept.
    fn targets(&self, body: Node<'t>) -> Vec<(&'t str, bool)> {
        let mut found = Vec::new();
        let mut kept = Vec::new();
        let mut todo = vec![body];
        while let Some(node) = todo.pop() {
            let mut names = Vec::new();
            let left = |field: &str, names: &mut Vec<&'t str>| {
                if let Some(target) = node.child_by_field_name(field) {
                    self.collect(target, &["identifier"], names);
                }
            };
            match node.kind() {
                "function_definition" | "class_definition" => {
                    left("name", &mut kept);
                    continue;
                }
                "lambda" => continue,
                "global_statement" | "import_statement" | "import_from_statement" | "case_pattern" => {
                    self.collect(node, &["identifier"], &mut kept);
                    continue;
                }
                // Its names are those of the function around.
                "nonlocal_statement" => continue,
                "assignment" | "augmented_assignment" | "for_statement" => left("left", &mut names),
                "named_expression" => left("name", &mut names),
                "as_pattern" => left("alias", &mut names),
                "except_clause" => left("alias", &mut names),
                _ => {}
            }
            found.extend(names);
            let mut inner: Vec<Node<'t>> = children(node).into_iter().map(|(_, child)| child).collect();
            if matches!(
                node.kind(),
                "list_comprehension"
                    | "set_comprehension"
                    | "dictionary_comprehension"
                    | "generator_expression"
            ) {
                // Its own names are local to it; `:=` within it is not, and is then kept.
                inner.clear();
                let mut walrus = Vec::new();
                self.walruses(node, &mut walrus);
                kept.extend(walrus);
            }
            todo.extend(inner.into_iter().rev());
        }
        let nonlocal = self.nonlocals(body);
        let mut all: Vec<(&'t str, bool)> = kept.iter().map(|name| (*name, true)).collect();
        all.extend(found.into_iter().filter(|name| !kept.contains(name)).map(|name| (name, false)));
        all.retain(|(name, _)| !nonlocal.contains(name));
        all
    }

    fn walruses(&self, node: Node<'t>, found: &mut Vec<&'t str>) {
        let mut todo = vec![node];
        while let Some(node) = todo.pop() {
            if node.kind() == "named_expression"
                && let Some(name) = node.child_by_field_name("name")
            {
                found.push(self.text(name));
            }
            todo.extend(children(node).into_iter().map(|(_, child)| child));
        }
    }

    fn nonlocals(&self, body: Node<'t>) -> Vec<&'t str> {
        let mut found = Vec::new();
        let mut todo = vec![body];
        while let Some(node) = todo.pop() {
            match node.kind() {
                "function_definition" | "class_definition" | "lambda" => {}
                "nonlocal_statement" => self.collect(node, &["identifier"], &mut found),
                _ => todo.extend(children(node).into_iter().map(|(_, child)| child)),
            }
        }
        found
    }

    /// The names of parameters, without their defaults and types.
    fn parameters(&self, node: Node<'t>) -> Vec<&'t str> {
        let mut found = Vec::new();
        for (_, child) in children(node) {
            match child.kind() {
                "default_parameter" | "typed_default_parameter" => {
                    found.extend(child.child_by_field_name("name").map(|name| self.text(name)));
                }
                "typed_parameter" => {
                    let typed = children(child).into_iter().filter(|(field, _)| *field != Some("type"));
                    typed.for_each(|(_, name)| self.collect(name, &["identifier"], &mut found));
                }
                _ => self.collect(child, &["identifier"], &mut found),
            }
        }
        found
    }

    /// The names that are assigned by a target: `a`, `(a, *b)`, but neither `a.b` nor `a[b]`.
    fn collect(&self, node: Node<'t>, kinds: &[&str], found: &mut Vec<&'t str>) {
        let mut todo = vec![node];
        while let Some(node) = todo.pop() {
            match node.kind() {
                kind if kinds.contains(&kind) => found.push(self.text(node)),
                "attribute" | "subscript" | "member_expression" | "subscript_expression" => {}
                _ => todo.extend(children(node).into_iter().rev().map(|(_, child)| child)),
            }
        }
    }

    fn go(&mut self, node: Node<'t>, verbatim: bool, out: &mut Vec<u8>) -> Walked {
        match node.kind() {
            "function_declaration" | "method_declaration" | "func_literal" => self.function(|walk| {
                for (field, child) in children(node) {
                    match field {
                        // The body is of one scope with the parameters.
                        Some("body") => {
                            open(child.kind_id(), out);
                            walk.children(child, false, out)?;
                            out.push(b')');
                        }
                        _ => walk.node(child, false, out)?,
                    }
                }
                Ok(())
            }),
            "parameter_declaration" | "variadic_parameter_declaration" if self.functions > 0 => {
                self.others(node, &["name"], out)?;
                self.bind_fields(node, "name", out)
            }
            "block"
            | "if_statement"
            | "for_statement"
            | "expression_switch_statement"
            | "select_statement"
            | "expression_case"
            | "default_case"
            | "type_case"
            | "communication_case" => self.scoped(|walk| walk.children(node, false, out)),
            "type_switch_statement" => self.scoped(|walk| {
                walk.field(node, "initializer", out)?;
                walk.field(node, "value", out)?;
                if let Some(alias) = node.child_by_field_name("alias") {
                    walk.declare(alias, out)?;
                }
                walk.others(node, &["initializer", "value", "alias"], out)
            }),
            "short_var_declaration" => {
                self.field(node, "right", out)?;
                match node.child_by_field_name("left") {
                    Some(left) => self.declare(left, out),
                    None => Ok(()),
                }
            }
            "range_clause" | "receive_statement" => {
                self.others(node, &["left"], out)?;
                let declares = children(node).iter().any(|(_, child)| child.kind() == ":=");
                match node.child_by_field_name("left") {
                    Some(left) if declares => self.declare(left, out),
                    Some(left) => self.node(left, false, out),
                    None => Ok(()),
                }
            }
            "var_spec" | "const_spec" if self.functions > 0 => {
                self.others(node, &["name"], out)?;
                self.bind_fields(node, "name", out)
            }
            "keyed_element" => {
                let key = node.child_by_field_name("key");
                let typed = node.parent().and_then(|value| value.parent());
                let kind = typed.and_then(|literal| literal.child_by_field_name("type"));
                let of_values = kind.is_some_and(|kind| {
                    matches!(
                        kind.kind(),
                        "map_type" | "array_type" | "slice_type" | "implicit_length_array_type"
                    )
                });
                if let Some(name) =
                    key.and_then(|key| key.child(0)).filter(|name| name.kind() == "identifier")
                    && !of_values
                {
                    // The field of a struct.
                    self.plain(name, out);
                    return self.field(node, "value", out);
                }
                self.children(node, false, out)
            }
            _ => self.children(node, verbatim, out),
        }
    }

    /// Binds the names that are directly in fields of this name.
    fn bind_fields(&mut self, node: Node<'t>, field: &str, out: &mut Vec<u8>) -> Walked {
        for (name, child) in children(node) {
            if name == Some(field) && child.kind() == "identifier" {
                let text = self.text(child);
                self.bind(text);
                self.name(child, out);
            }
        }
        Ok(())
    }

    /// The left side of `:=`: names that the scope does not have yet are new.
    fn declare(&mut self, left: Node<'t>, out: &mut Vec<u8>) -> Walked {
        let names = children(left).into_iter().filter(|(_, child)| child.kind() == "identifier");
        let names = names.map(|(_, child)| self.text(child)).collect();
        self.bind_all(names);
        self.node(left, false, out)
    }

    fn script(&mut self, node: Node<'t>, verbatim: bool, out: &mut Vec<u8>) -> Walked {
        match node.kind() {
            "function_declaration"
            | "generator_function_declaration"
            | "function_expression"
            | "generator_function"
            | "arrow_function"
            | "method_definition" => self.function(|walk| {
                if matches!(node.kind(), "function_expression" | "generator_function")
                    && let Some(name) = node.child_by_field_name("name")
                {
                    walk.keep(walk.text(name), Binding::Kept);
                }
                if let Some(name) = node.child_by_field_name("parameter") {
                    walk.bind(walk.text(name));
                }
                for (_, parameter) in node.child_by_field_name("parameters").map(children).unwrap_or_default()
                {
                    walk.parameter(parameter);
                }
                if let Some(body) = node.child_by_field_name("body") {
                    let mut names = Vec::new();
                    walk.hoisted(body, &mut names);
                    walk.bind_all(names);
                }
                walk.children(node, false, out)
            }),
            "statement_block" | "switch_body" => self.scoped(|walk| {
                let mut names = Vec::new();
                walk.declared(node, &mut names);
                walk.bind_all(names);
                walk.children(node, false, out)
            }),
            "for_statement" => self.scoped(|walk| {
                if let Some(initializer) = node.child_by_field_name("initializer") {
                    let mut names = Vec::new();
                    walk.declaration(initializer, &mut names);
                    walk.bind_all(names);
                }
                walk.children(node, false, out)
            }),
            "for_in_statement" => self.scoped(|walk| {
                let kind = node.child_by_field_name("kind").map(|kind| walk.text(kind));
                if let (Some("let" | "const"), Some(left)) = (kind, node.child_by_field_name("left")) {
                    let mut names = Vec::new();
                    walk.targets_of_script(left, &mut names);
                    walk.bind_all(names);
                }
                walk.children(node, false, out)
            }),
            "catch_clause" => self.scoped(|walk| {
                if let Some(parameter) = node.child_by_field_name("parameter") {
                    let mut names = Vec::new();
                    walk.targets_of_script(parameter, &mut names);
                    walk.bind_all(names);
                }
                walk.children(node, false, out)
            }),
            "jsx_opening_element" | "jsx_closing_element" | "jsx_self_closing_element" => {
                for (field, child) in children(node) {
                    let own = field == Some("name")
                        && child.kind() == "identifier"
                        && self.text(child).starts_with(char::is_lowercase);
                    if own {
                        // An element of the page, whatever locals there are.
                        self.plain(child, out);
                    } else {
                        self.node(child, false, out)?;
                    }
                }
                Ok(())
            }
            _ => self.children(node, verbatim, out),
        }
    }

    fn parameter(&mut self, node: Node<'t>) {
        let pattern = node.child_by_field_name("pattern").unwrap_or(node);
        let mut names = Vec::new();
        self.targets_of_script(pattern, &mut names);
        // `constructor(private name)` makes a property of it.
        let property = children(node).iter().any(|(_, child)| {
            matches!(child.kind(), "accessibility_modifier" | "readonly" | "override_modifier")
        });
        if property {
            names.into_iter().for_each(|name| self.keep(name, Binding::Kept));
        } else {
            self.bind_all(names);
        }
    }

    /// The names in a pattern, without keys and defaults.
    fn targets_of_script(&self, pattern: Node<'t>, found: &mut Vec<&'t str>) {
        let mut todo = vec![pattern];
        while let Some(node) = todo.pop() {
            match node.kind() {
                "identifier" | "shorthand_property_identifier_pattern" => found.push(self.text(node)),
                "pair_pattern" => todo.extend(node.child_by_field_name("value")),
                "assignment_pattern" | "object_assignment_pattern" => {
                    todo.extend(node.child_by_field_name("left"));
                }
                "member_expression" | "subscript_expression" | "type_annotation" | "decorator" => {}
                _ => todo.extend(children(node).into_iter().rev().map(|(_, child)| child)),
            }
        }
    }

    /// Collects the names that `let`, `const`, `class` and `function` declare directly in a block.
    fn declared(&self, block: Node<'t>, found: &mut Vec<&'t str>) {
        for (_, child) in children(block) {
            match child.kind() {
                "lexical_declaration" => self.declaration(child, found),
                "class_declaration" | "function_declaration" | "generator_function_declaration" => {
                    found.extend(child.child_by_field_name("name").map(|name| self.text(name)));
                }
                "switch_case" | "switch_default" => self.declared(child, found),
                _ => {}
            }
        }
    }

    fn declaration(&self, declaration: Node<'t>, found: &mut Vec<&'t str>) {
        if declaration.kind() != "lexical_declaration" {
            return;
        }
        for (_, declarator) in children(declaration) {
            if let Some(name) = declarator.child_by_field_name("name") {
                self.targets_of_script(name, found);
            }
        }
    }

    /// Collects the names that `var` declares anywhere in a function.
    fn hoisted(&self, body: Node<'t>, found: &mut Vec<&'t str>) {
        let mut todo = vec![body];
        while let Some(node) = todo.pop() {
            match node.kind() {
                "function_declaration"
                | "generator_function_declaration"
                | "function_expression"
                | "generator_function"
                | "arrow_function"
                | "method_definition"
                | "class_body" => continue,
                "variable_declaration" => {
                    for (_, declarator) in children(node) {
                        if let Some(name) = declarator.child_by_field_name("name") {
                            self.targets_of_script(name, found);
                        }
                    }
                }
                "for_in_statement"
                    if node.child_by_field_name("kind").is_some_and(|kind| self.text(kind) == "var") =>
                {
                    if let Some(left) = node.child_by_field_name("left") {
                        self.targets_of_script(left, found);
                    }
                }
                _ => {}
            }
            todo.extend(children(node).into_iter().rev().map(|(_, child)| child));
        }
    }
}

/// Children with the names of their fields.
fn children(node: Node<'_>) -> Vec<(Option<&'static str>, Node<'_>)> {
    let mut cursor = node.walk();
    let mut found = Vec::with_capacity(node.child_count());
    if cursor.goto_first_child() {
        loop {
            found.push((cursor.field_name(), cursor.node()));
            if !cursor.goto_next_sibling() {
                break;
            }
        }
    }
    found
}

/// Returns whether white space within a node of this kind means something.
fn verbatim_within(kind: &str, around: bool) -> bool {
    match kind {
        "interpolation"
        | "template_substitution"
        | "expansion"
        | "command_substitution"
        | "jsx_expression"
        | "concatenated_string"
        | "process_substitution"
        | "arithmetic_expansion" => false,
        _ => {
            around
                || ["string", "template", "heredoc_body", "regex", "char_literal", "rune"]
                    .iter()
                    .any(|part| kind.contains(part))
        }
    }
}

fn open(kind: u16, out: &mut Vec<u8>) {
    out.push(b'(');
    out.extend(kind.to_le_bytes());
}

/// A piece of text that counts as it is.
fn atom(kind: u16, text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend(kind.to_le_bytes());
    // Texts are at most a megabyte, so their length fits.
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(text.as_bytes());
}

fn local(number: u32, out: &mut Vec<u8>) {
    out.push(b'#');
    out.extend(number.to_le_bytes());
}

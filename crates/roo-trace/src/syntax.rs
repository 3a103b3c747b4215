//! What a definition is in the languages whose changes are compared by syntax.

use tree_sitter::{Node, Tree};

/// A language whose changes are compared. A closed list, apart from that of all grammars: what records say of a change of a
/// file must not depend on the version that looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Rust,
    JavaScript,
    TypeScript,
    Tsx,
    Python,
    Go,
    Bash,
}

impl Language {
    /// The language of a file, by its extension.
    pub(super) fn from_path(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or_default();
        match name.rsplit_once('.')?.1 {
            "rs" => Some(Self::Rust),
            "js" | "mjs" | "cjs" | "jsx" => Some(Self::JavaScript),
            "ts" | "mts" | "cts" => Some(Self::TypeScript),
            "tsx" => Some(Self::Tsx),
            "py" | "pyi" => Some(Self::Python),
            "go" => Some(Self::Go),
            "sh" | "bash" => Some(Self::Bash),
            _ => None,
        }
    }

    fn grammar(self) -> roo_syntax::Language {
        match self {
            Self::Rust => roo_syntax::Language::Rust,
            Self::JavaScript => roo_syntax::Language::JavaScript,
            Self::TypeScript => roo_syntax::Language::TypeScript,
            Self::Tsx => roo_syntax::Language::Tsx,
            Self::Python => roo_syntax::Language::Python,
            Self::Go => roo_syntax::Language::Go,
            Self::Bash => roo_syntax::Language::Bash,
        }
    }

    /// JavaScript and its dialects.
    pub(super) fn is_script(self) -> bool {
        matches!(self, Self::JavaScript | Self::TypeScript | Self::Tsx)
    }

    /// The text's tree. None when it is too long, too much work, or has an error.
    pub(super) fn parse(self, text: &str) -> Option<Tree> {
        roo_syntax::parse(self.grammar(), text).filter(|tree| !tree.root_node().has_error())
    }

    /// Returns whether a node is a definition whose position among its siblings doesn't matter.
    pub(super) fn is_definition(self, node: Node<'_>) -> bool {
        let kind = node.kind();
        match self {
            Self::Rust => matches!(
                kind,
                "function_item"
                    | "function_signature_item"
                    | "struct_item"
                    | "enum_item"
                    | "union_item"
                    | "trait_item"
                    | "impl_item"
                    | "mod_item"
                    | "type_item"
                    | "associated_type"
                    | "const_item"
                    | "static_item"
                    | "use_declaration"
            ),
            Self::Python => {
                matches!(kind, "function_definition" | "class_definition" | "decorated_definition")
            }
            Self::Go => matches!(
                kind,
                "function_declaration" | "method_declaration" | "type_declaration" | "const_declaration"
            ),
            Self::Bash => kind == "function_definition",
            Self::JavaScript | Self::TypeScript | Self::Tsx => match kind {
                "export_statement" => {
                    node.child_by_field_name("declaration").is_some_and(|inner| self.is_definition(inner))
                }
                // A constant that is a function is defined as one.
                "lexical_declaration" => {
                    let mut cursor = node.walk();
                    node.named_children(&mut cursor).filter(|child| !is_comment(*child)).all(|declarator| {
                        declarator.child_by_field_name("value").is_some_and(|value| {
                            matches!(value.kind(), "arrow_function" | "function_expression")
                        })
                    })
                }
                _ => matches!(
                    kind,
                    "function_declaration"
                        | "generator_function_declaration"
                        | "function_signature"
                        | "class_declaration"
                        | "abstract_class_declaration"
                        | "interface_declaration"
                        | "type_alias_declaration"
                        | "enum_declaration"
                        | "method_definition"
                ),
            },
        }
    }

    /// Returns whether a node's children are declarations of a file or a type, rather than statements.
    pub(super) fn is_list_of_definitions(self, node: Node<'_>) -> bool {
        let kind = node.kind();
        // A parent is found by going down from the top of the tree, so only what can be the top is asked for it.
        let may_be_top = matches!(kind, "source_file" | "module" | "program" | "ERROR");
        (may_be_top && node.parent().is_none())
            || match self {
                Self::Rust => kind == "declaration_list",
                Self::Python => {
                    kind == "block" && node.parent().is_some_and(|parent| parent.kind() == "class_definition")
                }
                Self::JavaScript | Self::TypeScript | Self::Tsx => kind == "class_body",
                Self::Go | Self::Bash => false,
            }
    }

    /// The name of a definition; for a Go method with its receiver. None for what has none, such as an
    /// `impl`.
    pub(super) fn name_of<'t>(self, node: Node<'_>, source: &'t str) -> Option<&'t str> {
        let text = |node: Node<'_>| source.get(node.byte_range());
        match (self, node.kind()) {
            (Self::Rust, "impl_item") => node.child_by_field_name("type").and_then(text),
            (Self::Rust, "use_declaration") => None,
            (Self::Go, "method_declaration") => {
                let (receiver, name) =
                    (node.child_by_field_name("receiver")?, node.child_by_field_name("name")?);
                source.get(receiver.start_byte()..name.end_byte())
            }
            (Self::Go, "type_declaration" | "const_declaration") | (_, "lexical_declaration") => {
                let mut cursor = node.walk();
                let mut named = node.named_children(&mut cursor).filter(|child| !is_comment(*child));
                let first = named.next()?;
                if named.next().is_some() {
                    return None;
                }
                text(first.child_by_field_name("name")?)
            }
            (_, "decorated_definition") => self.name_of(node.child_by_field_name("definition")?, source),
            (_, "export_statement") => self.name_of(node.child_by_field_name("declaration")?, source),
            _ => node.child_by_field_name("name").and_then(text),
        }
    }
}

/// Returns whether a node is a comment or a line continuation.
pub(super) fn is_comment(node: Node<'_>) -> bool {
    matches!(node.kind(), "comment" | "line_comment" | "block_comment" | "html_comment" | "line_continuation")
}

/// A definition and its position.
#[derive(Debug)]
pub(super) struct Definition {
    /// Its first line and its last one, from 1.
    pub(super) lines: (usize, usize),
    /// Enclosing definition, such as `Type`; empty at the top.
    pub(super) outer: String,
    /// As `Type.method`.
    pub(super) name: String,
}

/// The definitions of a file, each after the one that encloses it.
pub(super) fn definitions(language: Language, tree: &Tree, source: &str) -> Vec<Definition> {
    let mut found = Vec::new();
    let mut todo = vec![(tree.root_node(), String::new())];
    while let Some((node, outer)) = todo.pop() {
        let mut inner = outer.clone();
        if language.is_definition(node) && !matches!(node.kind(), "export_statement" | "decorated_definition")
        {
            let name = match (language, node.kind()) {
                (Language::Go, "method_declaration") => {
                    node.child_by_field_name("name").and_then(|name| source.get(name.byte_range()))
                }
                _ => language.name_of(node, source),
            };
            if let Some(name) = name {
                inner = if outer.is_empty() { name.to_owned() } else { format!("{outer}.{name}") };
                let lines = (node.start_position().row + 1, node.end_position().row + 1);
                found.push(Definition { lines, outer, name: inner.clone() });
            }
        }
        let mut cursor = node.walk();
        let containers = node.named_children(&mut cursor).filter(|child| {
            language.is_definition(*child)
                || language.is_list_of_definitions(*child)
                || matches!(child.kind(), "class_body" | "declaration_list")
        });
        todo.extend(containers.map(|child| (child, inner.clone())));
    }
    found
}

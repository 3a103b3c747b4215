//! The languages that have a grammar, by the extensions of files, and the nodes that define something in each.

use tree_sitter::Node;

/// Declares the languages: extensions, grammar, the kinds of nodes that hold definitions, and those that are looked no
/// further into.
macro_rules! languages {
    ($(
        $(#[$condition:meta])?
        $name:ident: $extensions:pat => $grammar:path, [$($outer:literal),*], [$($inner:literal),*];
    )*) => {
        /// A language with a grammar.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Language {
            $(
                $(#[$condition])?
                #[doc = stringify!($name)]
                $name,
            )*
        }

        impl Language {
            /// The language of a file, by its extension; none without a grammar.
            pub fn from_path(path: &str) -> Option<Self> {
                let name = path.rsplit('/').next().unwrap_or_default();
                match name.rsplit_once('.')?.1 {
                    $(
                        $(#[$condition])?
                        $extensions => Some(Self::$name),
                    )*
                    _ => None,
                }
            }

            pub(super) fn grammar(self) -> tree_sitter::Language {
                match self {
                    $(
                        $(#[$condition])?
                        Self::$name => $grammar.into(),
                    )*
                }
            }

            /// Whether a node defines something by its kind alone, and whether there may be definitions in it.
            fn role_by_kind(self, kind: &str) -> Option<Role> {
                match self {
                    $(
                        $(#[$condition])?
                        Self::$name => {
                            const OUTER: &[&str] = &[$($outer),*];
                            const INNER: &[&str] = &[$($inner),*];
                            if OUTER.contains(&kind) {
                                Some(Role::Outer)
                            } else {
                                INNER.contains(&kind).then_some(Role::Inner)
                            }
                        }
                    )*
                }
            }
        }
    };
}

/// What a definition is to those around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It holds others.
    Outer,
    /// What is in it is its own.
    Inner,
}

languages! {
    Bash: "sh" | "bash" => tree_sitter_bash::LANGUAGE, [], ["function_definition"];
    C: "c" | "h" => tree_sitter_c::LANGUAGE, [],
        ["function_definition", "type_definition", "preproc_function_def"];
    #[cfg(feature = "more-languages")]
    CSharp: "cs" => tree_sitter_c_sharp::LANGUAGE,
        ["class_declaration", "file_scoped_namespace_declaration", "interface_declaration", "namespace_declaration",
         "record_declaration", "struct_declaration"],
        ["constructor_declaration", "delegate_declaration", "enum_declaration", "method_declaration",
         "property_declaration"];
    #[cfg(feature = "more-languages")]
    Cpp: "cc" | "cpp" | "cxx" | "hpp" | "hh" | "hxx" => tree_sitter_cpp::LANGUAGE,
        ["namespace_definition"],
        ["alias_declaration", "concept_definition", "function_definition", "preproc_function_def", "type_definition"];
    Go: "go" => tree_sitter_go::LANGUAGE, [],
        ["const_declaration", "function_declaration", "method_declaration", "type_declaration"];
    Java: "java" => tree_sitter_java::LANGUAGE,
        ["annotation_type_declaration", "class_declaration", "enum_declaration", "interface_declaration",
         "record_declaration"],
        ["compact_constructor_declaration", "constructor_declaration", "method_declaration"];
    JavaScript: "js" | "mjs" | "cjs" | "jsx" => tree_sitter_javascript::LANGUAGE,
        ["class_declaration"],
        ["function_declaration", "generator_function_declaration", "method_definition"];
    Json: "json" | "jsonc" => tree_sitter_json::LANGUAGE, ["pair"], [];
    #[cfg(feature = "more-languages")]
    Kotlin: "kt" | "kts" => tree_sitter_kotlin_ng::LANGUAGE,
        ["class_declaration", "companion_object", "object_declaration"],
        ["function_declaration", "secondary_constructor", "type_alias"];
    Lua: "lua" => tree_sitter_lua::LANGUAGE, [], ["function_declaration"];
    #[cfg(feature = "more-languages")]
    Php: "php" => tree_sitter_php::LANGUAGE_PHP,
        ["class_declaration", "enum_declaration", "interface_declaration", "namespace_definition", "trait_declaration"],
        ["function_definition", "method_declaration"];
    Python: "py" | "pyi" => tree_sitter_python::LANGUAGE, ["class_definition"], ["function_definition"];
    #[cfg(feature = "more-languages")]
    Ruby: "rb" | "rake" => tree_sitter_ruby::LANGUAGE,
        ["class", "module", "singleton_class"], ["method", "singleton_method"];
    Rust: "rs" => tree_sitter_rust::LANGUAGE,
        ["impl_item", "mod_item", "trait_item"],
        ["associated_type", "const_item", "enum_item", "function_item", "function_signature_item", "macro_definition",
         "static_item", "struct_item", "type_item", "union_item"];
    #[cfg(feature = "more-languages")]
    Scala: "scala" | "sc" | "sbt" => tree_sitter_scala::LANGUAGE,
        ["class_definition", "enum_definition", "extension_definition", "given_definition", "object_definition",
         "package_object", "trait_definition"],
        ["function_declaration", "function_definition", "type_definition"];
    #[cfg(feature = "more-languages")]
    Swift: "swift" => tree_sitter_swift::LANGUAGE,
        ["class_declaration", "protocol_declaration"],
        ["associatedtype_declaration", "deinit_declaration", "function_declaration", "init_declaration",
         "macro_declaration", "protocol_function_declaration", "subscript_declaration", "typealias_declaration"];
    Toml: "toml" => tree_sitter_toml_ng::LANGUAGE, ["table", "table_array_element", "pair"], [];
    Tsx: "tsx" => tree_sitter_typescript::LANGUAGE_TSX,
        ["abstract_class_declaration", "class_declaration", "internal_module", "module"],
        ["abstract_method_signature", "enum_declaration", "function_declaration", "function_signature",
         "generator_function_declaration", "interface_declaration", "method_definition", "type_alias_declaration"];
    TypeScript: "ts" | "mts" | "cts" => tree_sitter_typescript::LANGUAGE_TYPESCRIPT,
        ["abstract_class_declaration", "class_declaration", "internal_module", "module"],
        ["abstract_method_signature", "enum_declaration", "function_declaration", "function_signature",
         "generator_function_declaration", "interface_declaration", "method_definition", "type_alias_declaration"];
    Yaml: "yaml" | "yml" => tree_sitter_yaml::LANGUAGE, ["block_mapping_pair", "flow_pair"], [];
    #[cfg(feature = "more-languages")]
    Zig: "zig" => tree_sitter_zig::LANGUAGE, [], ["function_declaration", "test_declaration"];
}

impl Language {
    /// The number of levels of definitions that are worth naming: the keys of data are many.
    pub(super) fn levels(self) -> usize {
        if self.is_data() { 2 } else { usize::MAX }
    }

    /// Whether its files hold data rather than code.
    pub(super) fn is_data(self) -> bool {
        matches!(self, Self::Json | Self::Toml | Self::Yaml)
    }

    /// What a node defines; none for one that is only a part of something.
    pub(super) fn role(self, node: Node<'_>) -> Option<Role> {
        if let Some(role) = self.role_by_kind(node.kind()) {
            return Some(role);
        }
        let has = |field| node.child_by_field_name(field).is_some();
        match (self, node.kind()) {
            // Not where a type is only named.
            (Self::C, "enum_specifier" | "struct_specifier" | "union_specifier") => {
                has("body").then_some(Role::Inner)
            }
            (Self::C, "declaration") => declares_function(node).then_some(Role::Inner),
            #[cfg(feature = "more-languages")]
            (Self::Cpp, "class_specifier" | "enum_specifier" | "struct_specifier" | "union_specifier") => {
                has("body").then_some(Role::Outer)
            }
            #[cfg(feature = "more-languages")]
            (Self::Cpp, "declaration" | "field_declaration") => {
                declares_function(node).then_some(Role::Inner)
            }
            (
                Self::JavaScript | Self::Tsx | Self::TypeScript,
                "variable_declarator" | "field_definition" | "public_field_definition",
            ) => {
                let value = node.child_by_field_name("value")?;
                let is_function = matches!(value.kind(), "arrow_function" | "function_expression" | "class");
                is_function.then_some(Role::Inner)
            }
            (Self::Lua, "assignment_statement" | "field") => {
                let mut cursor = node.walk();
                let is_function = |child: Node<'_>| child.kind() == "function_definition";
                let found = node.named_children(&mut cursor).any(|child| {
                    is_function(child)
                        || child
                            .named_child(0)
                            .is_some_and(|first| child.kind() == "expression_list" && is_function(first))
                });
                found.then_some(Role::Inner)
            }
            // A property with code of its own is a function.
            #[cfg(feature = "more-languages")]
            (Self::Swift, "property_declaration") => has("computed_value").then_some(Role::Inner),
            #[cfg(feature = "more-languages")]
            (Self::Zig, "variable_declaration") => {
                let mut cursor = node.walk();
                let is_type = |child: Node<'_>| {
                    matches!(child.kind(), "enum_declaration" | "struct_declaration" | "union_declaration")
                };
                node.named_children(&mut cursor).any(is_type).then_some(Role::Outer)
            }
            _ => None,
        }
    }
}

/// Whether a declaration of C is that of a function, whatever it returns.
fn declares_function(node: Node<'_>) -> bool {
    let mut declarator = node.child_by_field_name("declarator");
    while let Some(inner) = declarator {
        match inner.kind() {
            "function_declarator" => return true,
            "pointer_declarator" | "reference_declarator" => {
                declarator = inner.child_by_field_name("declarator").or_else(|| inner.named_child(0));
            }
            _ => return false,
        }
    }
    false
}

//! Parts of a command line that its list of commands and its tree share.

/// The text of a here-document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Its lines.
    pub text: String,
    /// True if its delimiter is quoted, so that nothing in it is expanded.
    pub quoted: bool,
}

/// Operator between a command and the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// `;` or `&`
    Sequence,
    /// `&&`
    And,
    /// `||`
    Or,
    /// `|`
    Pipe,
}

/// Construct around a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `&` behind it.
    Background,
    /// `(…)`
    Subshell,
    /// `{ …; }`
    Group,
    /// `for`, `while`, `until`, `select`
    Loop,
    /// `if`, `case`
    Branch,
    /// The body of a function.
    Function,
    /// `!` before it.
    Negation,
    /// `$(…)`, backticks
    Substitution,
    /// `<(…)`, `>(…)`
    ProcessSubstitution,
    /// A here-document that is expanded.
    Document,
}

impl Way {
    /// A note for whoever is to allow it.
    pub fn note(self) -> &'static str {
        match self {
            Self::Background => "in the background",
            Self::Subshell => "in a subshell",
            Self::Group => "in a group",
            Self::Loop => "in a loop",
            Self::Branch => "under a condition",
            Self::Function => "in a function",
            Self::Negation => "negated",
            Self::Substitution => "from a substitution",
            Self::ProcessSubstitution => "from a process substitution",
            Self::Document => "from a here-document",
        }
    }
}

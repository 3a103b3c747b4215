//! Tool calls as the public hook contract shows them, and the way back from a hook's rewrite to our parameters.

use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value, json};

/// A JSON object.
pub type Object = Map<String, Value>;

/// Resolver of a path of a call to the real path; none when that can't be said.
pub type RealPath<'a> = &'a (dyn Fn(&str) -> Option<PathBuf> + Sync);

/// A rewrite that can't be brought back to our parameters, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RewriteError(pub(crate) String);

/// Context of a view of a call, besides the call itself.
#[derive(Clone, Copy)]
pub struct HookView<'a> {
    /// Directory from which relative paths are meant.
    pub root: &'a Path,
    /// Resolver of paths: absolute, with links followed.
    pub real_path: RealPath<'a>,
    /// The parameters as the model gave them.
    pub params: &'a Object,
}

impl HookView<'_> {
    /// A path as hooks get it: absolute.
    pub fn path(&self, named: &str) -> Value {
        let real = (self.real_path)(named).unwrap_or_else(|| lexical(self.root, named));
        real.to_string_lossy().into_owned().into()
    }
}

/// One thing that hooks are asked about.
#[derive(Clone, Debug, PartialEq)]
pub struct HookInput {
    /// A name of the contract that this input has before those of its tool.
    pub also_named: Option<String>,
    /// In the contract's form.
    pub fields: Object,
}

impl From<Object> for HookInput {
    fn from(fields: Object) -> Self {
        Self { also_named: None, fields }
    }
}

pub(crate) fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        _ => Object::new(),
    }
}

/// The input of a call that looks at a file in the parameter `path`: as one that reads it.
pub(crate) fn file_hook_inputs(view: &HookView<'_>, path: &str) -> Vec<HookInput> {
    vec![object(json!({ "file_path": view.path(path) })).into()]
}

/// A path made absolute, without asking the disk.
fn lexical(root: &Path, named: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for part in root.join(named).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                path.pop();
            }
            other => path.push(other),
        }
    }
    path
}

pub(crate) fn wrong(field: &str, expected: &str) -> RewriteError {
    RewriteError(format!("`updatedInput.{field}` must be {expected}"))
}

/// Changes that a hook's rewrite makes to an input.
#[derive(Clone, Copy)]
pub struct Rewrite<'a> {
    /// Directory from which relative paths are meant.
    pub root: &'a Path,
    /// The input as the hook got it.
    pub before: &'a Object,
    /// As the hook wants it.
    pub after: &'a Object,
}

impl Rewrite<'_> {
    /// Returns whether nothing changes but what is only for reading.
    pub(crate) fn is_none(&self) -> bool {
        let fields = self.before.keys().chain(self.after.keys());
        !fields.filter(|name| *name != "roo").any(|name| self.differs(name))
    }

    pub(crate) fn differs(&self, field: &str) -> bool {
        self.before.get(field) != self.after.get(field)
    }

    /// Refuses a change of what our tool can't do otherwise.
    pub(crate) fn refuse(&self, fields: &[&str]) -> Result<(), RewriteError> {
        let changed = fields.iter().find(|field| self.after.contains_key(**field) && self.differs(field));
        match changed {
            Some(field) => {
                Err(RewriteError(format!("`updatedInput.{field}` can't be changed for this tool")))
            }
            None => Ok(()),
        }
    }

    pub(crate) fn text(&self, field: &str) -> Result<String, RewriteError> {
        let text = self.after.get(field).and_then(Value::as_str);
        text.map(str::to_owned).ok_or_else(|| wrong(field, "a string: a rewrite has all fields"))
    }

    /// A path: as the model wrote it where it stays, and below the root relative to it.
    pub(crate) fn path(&self, field: &str, named: &str) -> Result<String, RewriteError> {
        if !self.differs(field) {
            return Ok(named.to_owned());
        }
        let path = self.text(field)?;
        let below = Path::new(&path).strip_prefix(self.root).ok();
        let below = below.and_then(Path::to_str).filter(|below| !below.is_empty());
        Ok(below.map(str::to_owned).unwrap_or(path))
    }
}

/// Brings a rewrite of [`file_hook_inputs`] back to the parameters.
pub(crate) fn take_back_file(
    change: &Rewrite<'_>,
    path: &str,
    params: &mut Object,
) -> Result<(), RewriteError> {
    params.insert("path".to_owned(), change.path("file_path", path)?.into());
    change.refuse(&["offset", "limit"])
}

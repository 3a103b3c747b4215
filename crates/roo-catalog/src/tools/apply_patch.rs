//! `apply_patch`: several files at once, all or none.

use super::prelude::*;
use roo_text::blocks::Block;
use roo_text::patch::{self, Hunk, Mark, Patch, PatchOf};
use super::apply_diff::edit_input;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyPatch {
    /// As the model wrote it.
    pub patch: String,
}

impl ApplyPatch {
    /// The files that its headers name, for people: nothing has been made of it yet.
    pub fn named_files(&self) -> impl Iterator<Item = &str> {
        const HEADERS: [&str; 4] = ["*** Add File:", "*** Delete File:", "*** Update File:", "*** Move to:"];
        let named = |line| HEADERS.iter().find_map(|header| str::strip_prefix(line, header)).map(str::trim);
        self.patch.lines().filter_map(named)
    }
}

impl Declaration for ApplyPatch {
    const SPEC: ToolSpec = ToolSpec {
        description: "Changes, creates, deletes and moves several files at once by one patch: all of it happens, \
                      or nothing. Each hunk must fit in exactly one place of its file. Use it for changes that \
                      belong together; read the files first.",
        parameters: &[required(
            "patch",
            Kind::Verbatim,
            "The patch. It begins with `*** Begin Patch` and ends with `*** End Patch`. Between them, each \
             file has one header with its path, relative to the workspace: `*** Add File: <path>`, then \
             its lines, each after `+`; `*** Delete File: <path>`; or `*** Update File: <path>`, to move \
             it followed by `*** Move to: <path>`, then hunks. A hunk begins with `@@`, optionally \
             followed by a whole line from above the place, such as the head of the function. Its lines \
             begin with a space (kept), `-` (removed) or `+` (added); show three lines around a change. \
             `*** End of File` after it marks the end of the file.",
        )],
        legacy_parameters: &["input"],
        own_format: Some("patch"),
        example: "<apply_patch>\n<patch>\n*** Begin Patch\n*** Update File: src/page.rs\n@@ fn count(&self) -> usize {\n\
                  -    self.pages.len() - 1\n+    self.pages.len()\n }\n*** Update File: src/old.rs\n\
                  *** Move to: src/new.rs\n*** Add File: docs/pages.md\n+# Pages\n*** End Patch\n</patch>\n</apply_patch>",
        mistake: "A unified diff with `--- a/file` and `@@ -1,3 +1,4 @@`: files have the headers above, and places are \
                  found by their lines.",
        is_opt_in: true,
        legacy_verbatim: &["input"],
        hook_names: &["Edit", "MultiEdit"],
        ..ToolSpec::new(ToolName::ApplyPatch, Group::Edit, Effect::Write)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        let is_old = reader.get("patch").is_none() && reader.get("input").is_some();
        Ok(Self { patch: reader.verbatim(if is_old { "input" } else { "patch" })? })
    }

    fn subject(&self) -> String {
        self.named_files().collect::<Vec<_>>().join(", ")
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({
            "tool": "appliedDiff",
            "path": self.named_files().next(),
            "diff": self.patch,
            "batchDiffs": self.named_files().map(|path| json!({ "path": path })).collect::<Vec<_>>(),
        }))
    }

    fn edited_files(&self) -> Vec<&str> {
        self.named_files().collect()
    }

    /// The files of a patch, and the names that it gives them: each is one that a hook may refuse. One that
    /// can't be read runs for nobody, and is shown as it is.
    fn hook_inputs(&self, view: &HookView<'_>) -> Vec<HookInput> {
        let Ok(Patch { files }) = patch::parse(&self.patch) else {
            return vec![object(json!({ "patch": self.patch })).into()];
        };
        let creates = |path: &str, content: &str| HookInput {
            also_named: Some("Write".to_owned()),
            fields: object(json!({ "file_path": view.path(path), "content": content })),
        };
        let mut inputs = Vec::new();
        for file in &files {
            let path = || view.path(&file.path);
            match &file.change {
                PatchOf::Add { text } => inputs.push(creates(&file.path, text)),
                PatchOf::Delete => {
                    let fields = json!({ "file_path": path(), "old_string": "", "new_string": "" });
                    inputs.push(object(fields).into());
                }
                PatchOf::Update { moved_to, hunks } => {
                    let blocks = hunks.iter().map(block_of).collect::<Vec<_>>();
                    inputs.push(object(edit_input(path(), &blocks, &self.patch)).into());
                    inputs.extend(moved_to.as_ref().map(|target| creates(target, "")));
                }
            }
        }
        inputs
    }

    fn rewrite(
        &self,
        changes: &[Option<Rewrite<'_>>],
        _params: &Object,
    ) -> Result<Option<Object>, RewriteError> {
        match changes.iter().flatten().any(|change| !change.is_none()) {
            true => {
                Err(RewriteError("a patch can only be rewritten whole, by `roo.parameters.patch`".to_owned()))
            }
            false => Ok(None),
        }
    }
}

/// A hunk as the contract shows an edit.
fn block_of(hunk: &Hunk) -> Block {
    let side = |gone: Mark| {
        let lines = hunk.lines.iter().filter(move |line| line.mark != gone);
        lines.map(|line| line.text.clone()).collect()
    };
    Block {
        line: hunk.line,
        start_line: None,
        decoded: false,
        search: side(Mark::Insert),
        replace: side(Mark::Remove),
    }
}

//! Questions about code to the editors, which pass them on to the language servers that they run for their users.

use std::sync::Arc;

use super::Workspace;
use super::editor::Editor;
use super::editor::EditorId;
use super::resolver::Resolved;
use roo_protocol::code::{CodeAskParams, CodeAskResult};
use roo_text::position::{Encoding, Positions};

/// What an editor's language servers know.
#[derive(Clone, Debug)]
pub struct EditorAnswer {
    pub editor: EditorId,
    /// Unit of its positions.
    pub encoding: Encoding,
    /// Its answer.
    pub result: CodeAskResult,
}

impl Workspace {
    /// Returns whether an editor can be asked about code.
    pub fn answers_code(&self) -> bool {
        !self.code_editors().is_empty()
    }

    /// Asks the editors about a place in a text of a file, given by its byte offset: the one that has the file open first. Where the
    /// place is in the question is filled in for each. Returns the first answer; none where no editor knows. The caller limits
    /// the time.
    pub async fn ask_code(
        &self,
        file: &Resolved,
        (text, offset): (&str, usize),
        question: &CodeAskParams,
    ) -> Option<EditorAnswer> {
        let document = self.documents.at(file.absolute());
        let mut editors = self.code_editors();
        if let Some(document) = &document {
            editors.sort_by_key(|(id, ..)| *id != document.editor);
        }
        for (id, editor, encoding) in editors {
            let spelled = document.as_ref().filter(|document| document.editor == id);
            let uri = spelled.map_or_else(|| file.uri(), |document| document.uri.clone());
            let position = Positions::new(text, encoding).position(offset);
            let asked = CodeAskParams { uri, position, ..question.clone() };
            if let Some(result) = editor.ask_code(asked).await.filter(|answer| answer.is_known) {
                return Some(EditorAnswer { editor: id, encoding, result });
            }
        }
        None
    }

    fn code_editors(&self) -> Vec<(EditorId, Arc<dyn Editor>, Encoding)> {
        let own = self.editor.clone().map(|editor| (EditorId::default(), editor, self.encoding));
        let attached = self.documents.editors().into_iter();
        let attached = attached.filter_map(|(id, attached)| Some((id, attached.editor?, attached.encoding)));
        own.into_iter().chain(attached).filter(|(_, editor, _)| editor.answers_code()).collect()
    }
}

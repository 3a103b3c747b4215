//! Text of documents that are no text files: PDF, office documents, spreadsheets, notebooks.
//!
//! [`extract`] makes the text. Documents may be hostile and their readers are large, so programs use an [`Extractor`], which
//! does it in a process of its own: this program again ([`enter`]), with bounded memory and processor time, and without
//! the means to open a file or a connection, or to start a program. A reader that fails, hangs or grows ends that process and nothing else.
//!
//! What is not here: what a model gets to see of a text, and whether the file may be read.

#![warn(unreachable_pub)]

mod bounds;
mod extractor;
mod kind;
mod notebook;
#[cfg(feature = "office")]
mod office;
#[cfg(feature = "pdf")]
mod pdf;
#[cfg(feature = "spreadsheets")]
mod spreadsheet;
mod text;

pub use extractor::{Extractor, enter};
pub use kind::DocumentKind;

use text::BoundedText;

/// The most text of one document, in bytes. What is longer is cut off, and says so.
pub const TEXT: usize = 8 << 20;

/// Reason of a failure that the reader doesn't tell more about.
const UNKNOWN_TO_READER: &str = "it is damaged, or made in a way that its reader doesn't know";

/// Reasons why a document has no text. The texts are for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExtractError {
    /// The reader is not part of this program.
    #[error("This build of roo-lsp has no reader for files of this kind: {}.", .0.name())]
    NotBuiltIn(DocumentKind),
    /// The document is not what its name says, or is damaged.
    #[error("The {} can't be read: {reason}.", .kind.name())]
    Unreadable {
        kind: DocumentKind,
        /// Reason, without a full stop.
        reason: String,
    },
    /// The limits of the process were reached.
    #[error("Reading the {} takes more than 1 GiB of memory, 15 seconds of processor time or a minute in all, so it was given up.", .0.name())]
    TooMuch(DocumentKind),
    /// The process can't be run.
    #[error("The {} can't be read: its reader can't be started: {reason}.", .kind.name())]
    NotStarted {
        kind: DocumentKind,
        /// Reason, without a full stop.
        reason: String,
    },
}

/// Returns the text of a document, at most [`TEXT`] bytes. Blocks, with no limit of memory or time: see [`Extractor`].
///
/// # Errors
/// [`ExtractError::NotBuiltIn`] and [`ExtractError::Unreadable`].
pub fn extract(kind: DocumentKind, bytes: &[u8]) -> Result<String, ExtractError> {
    let mut text = BoundedText::new(TEXT);
    let read = match kind {
        DocumentKind::Notebook => notebook::read(bytes, &mut text),
        #[cfg(feature = "office")]
        DocumentKind::Word => office::read_word(bytes, &mut text),
        #[cfg(feature = "office")]
        DocumentKind::OpenDocument => office::read_open_document(bytes, &mut text),
        #[cfg(feature = "office")]
        DocumentKind::Presentation => office::read_presentation(bytes, &mut text),
        #[cfg(feature = "pdf")]
        DocumentKind::Pdf => pdf::read(bytes, &mut text),
        #[cfg(feature = "spreadsheets")]
        DocumentKind::Spreadsheet => spreadsheet::read(bytes, &mut text),
        #[cfg(not(all(feature = "office", feature = "pdf", feature = "spreadsheets")))]
        kind => return Err(ExtractError::NotBuiltIn(kind)),
    };
    read.map_err(|reason| ExtractError::Unreadable { kind, reason })?;
    Ok(text.into_text())
}

//! Kinds of documents, and how they are told apart.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentKind {
    /// Jupyter notebook.
    Notebook,
    /// OpenDocument text or presentation.
    OpenDocument,
    Pdf,
    /// PowerPoint presentation.
    Presentation,
    /// Excel or OpenDocument spreadsheet.
    Spreadsheet,
    /// Word document.
    Word,
}

const KINDS: &[(DocumentKind, &str, &[&str])] = &[
    (DocumentKind::Notebook, "notebook", &["ipynb"]),
    (DocumentKind::OpenDocument, "OpenDocument file", &["odt", "odp"]),
    (DocumentKind::Pdf, "PDF document", &["pdf"]),
    (DocumentKind::Presentation, "presentation", &["pptx"]),
    (DocumentKind::Spreadsheet, "spreadsheet", &["xlsx", "xlsm", "xlsb", "xls", "ods"]),
    (DocumentKind::Word, "Word document", &["docx", "docm"]),
];

impl DocumentKind {
    /// Returns the kind that a file has by the extension of its name, in any case.
    pub fn from_extension(extension: &str) -> Option<Self> {
        let extension = extension.to_ascii_lowercase();
        KINDS.iter().find(|(_, _, known)| known.contains(&extension.as_str())).map(|(kind, ..)| *kind)
    }

    /// Returns what people call it, such as "PDF document".
    pub fn name(self) -> &'static str {
        KINDS.iter().find(|(kind, ..)| *kind == self).map_or("document", |(_, name, _)| name)
    }

    /// Returns the extension that stands for it in the arguments of the process.
    pub(crate) fn extension(self) -> &'static str {
        KINDS.iter().find(|(kind, ..)| *kind == self).and_then(|(_, _, known)| known.first()).unwrap_or(&"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_known_by_the_extension_in_any_case() {
        for (kind, name, extensions) in KINDS {
            assert_eq!(DocumentKind::from_extension(kind.extension()), Some(*kind), "{name}");
            for extension in *extensions {
                assert_eq!(DocumentKind::from_extension(&extension.to_uppercase()), Some(*kind));
            }
        }
        assert_eq!(DocumentKind::from_extension("txt"), None);
    }
}

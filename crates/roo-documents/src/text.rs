//! Text that is cut off where it becomes too long.

/// Last line of a text that was cut off.
const CUT: &str = "\n(The text is cut off here: the document is longer than what is read of it.)\n";

/// A text with a limit.
pub(crate) struct BoundedText {
    text: String,
    limit: usize,
    is_cut: bool,
}

impl BoundedText {
    pub(crate) fn new(limit: usize) -> Self {
        Self { text: String::new(), limit, is_cut: false }
    }

    /// Adds text. Control characters other than line ends and tabs are left out.
    pub(crate) fn push(&mut self, text: &str) {
        let kept = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t'));
        for c in kept {
            if self.text.len() + c.len_utf8() > self.limit {
                self.is_cut = true;
                return;
            }
            self.text.push(c);
        }
    }

    /// Reports whether nothing more fits, so that the rest need not be read.
    pub(crate) fn is_full(&self) -> bool {
        self.is_cut
    }

    /// Ends the line, if one has begun.
    pub(crate) fn end_line(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.push("\n");
        }
    }

    /// Begins a part of the document by a line of its own that names it.
    pub(crate) fn begin_part(&mut self, name: &str) {
        self.end_line();
        if !self.text.is_empty() {
            self.push("\n");
        }
        self.push(&format!("--- {} ---\n", name.replace('\n', " ")));
    }

    pub(crate) fn into_text(mut self) -> String {
        self.text.truncate(self.text.trim_end().len());
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        if self.is_cut {
            self.text.push_str(CUT);
        }
        self.text
    }
}

//! Which lines of a Markdown text are code, by the lists and quotations that they stand in. A line is taken for code only
//! where every reader of Markdown does so, also one that shows the text behind another that ends within a list. Pure.

/// Characters before which a fence may stand within a list or a quotation.
const MARKERS: &[char] = &[' ', '\t', '>', '*', '+', '-', '.', ')', ':'];
/// The most columns by which the beginning of a block is indented.
const INDENT: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    Blank,
    Code,
    Text,
}

/// The blocks of the lines so far that the next one may be a part of.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// Outermost first.
    containers: Vec<Container>,
    /// The first so many of them are certainly open.
    certain: usize,
    leaf: Leaf,
}

/// A block that holds others.
#[derive(Clone, Copy, Debug)]
enum Container {
    /// An item of a list, whose content is indented by so many columns.
    Item(usize),
    Quotation,
}

/// The innermost block.
#[derive(Clone, Copy, Debug, Default)]
enum Leaf {
    /// A blank line, or what no line goes on with.
    #[default]
    Ended,
    /// A paragraph: a line of text that is less indented goes on with it.
    Paragraph,
    /// A paragraph, or something else with text.
    Text,
    Code(Fence),
    /// Readers differ about the blocks.
    Unknown {
        /// True if it may be code that only a fence ends.
        is_fenced: bool,
        is_after_blank: bool,
    },
}

/// The beginning of a fence.
#[derive(Clone, Copy, Debug)]
struct Fence {
    /// Columns before it, within what holds it.
    indent: usize,
    mark: char,
    length: usize,
    /// True if nothing stands behind it.
    is_bare: bool,
    /// True if something else begins on its line: what is in it is not taken for code.
    is_behind_marker: bool,
}

/// The beginning of a container, and the line behind it.
struct Opening<'l> {
    container: Container,
    behind: &'l str,
    is_certain: bool,
    /// True if it begins one also on a line after a paragraph.
    interrupts: bool,
}

impl Blocks {
    /// Kind of a line by its beginning; none as long as more of the line has to come.
    pub(super) fn begin_line(&mut self, line: &str, is_whole: bool) -> Option<LineKind> {
        let is_marker = |c: char| MARKERS.contains(&c) || c.is_ascii_digit();
        let content = line.trim_start_matches(is_marker);
        let is_open = match content.chars().next() {
            None => true,
            Some('[') => content.len() == 1,
            Some(mark @ ('`' | '~')) => {
                let length = run(content, mark);
                length >= 3 || length == content.len()
            }
            Some(_) => false,
        };
        if is_open && !is_whole {
            return None;
        }
        let before = line.get(..line.len() - content.len()).unwrap_or_default();
        Some(self.next(line, before, content))
    }

    /// Takes in the whole of a line that has begun.
    pub(super) fn end_line(&mut self, line: &str) {
        match &mut self.leaf {
            // It may be the first one of a table.
            Leaf::Paragraph if line.contains('|') => self.leaf = Leaf::Text,
            // Some footnotes go on with lines that are not indented.
            Leaf::Unknown { is_fenced, .. } => {
                *is_fenced |= line.contains("[^") && (line.contains("```") || line.contains("~~~"));
            }
            _ => {}
        }
    }

    fn next(&mut self, line: &str, before: &str, content: &str) -> LineKind {
        let is_blank = line.trim_matches([' ', '\t']).is_empty();
        let is_fence = Fence::read(content).is_some();
        if let Leaf::Unknown { is_fenced, is_after_blank } = self.leaf {
            let is_fence = is_fence && before.trim_matches([' ', '\t']).is_empty() && before.len() <= INDENT;
            let is_end = is_after_blank && !is_fenced && !line.starts_with([' ', '\t']);
            if is_blank || !is_end {
                let is_fenced = is_fenced || is_fence;
                self.leaf = Leaf::Unknown { is_fenced, is_after_blank: is_blank };
                return if is_blank { LineKind::Blank } else { LineKind::Text };
            }
            // Whatever list or quotation there was has ended.
            *self = Self::default();
        }
        let (mut rest, mut entered) = (line, 0);
        while let Some(behind) = self.containers.get(entered).and_then(|container| container.enter(rest)) {
            (rest, entered) = (behind, entered + 1);
        }
        if let Leaf::Code(begin) = self.leaf {
            match self.next_of_code(begin, before, rest, entered) {
                Some(kind) => return kind,
                None => self.close(entered),
            }
        }
        if rest.trim_matches([' ', '\t']).is_empty() {
            self.close(entered);
            self.leaf = Leaf::Ended;
            return if is_blank { LineKind::Blank } else { LineKind::Text };
        }
        // Its columns depend on where the text is put.
        if before.contains('\t') {
            return self.give_up(is_fence);
        }
        self.next_of_text(rest, entered, content, is_fence)
    }

    /// Kind of a line behind a fence; none if the code has ended before it.
    fn next_of_code(&mut self, begin: Fence, before: &str, rest: &str, entered: usize) -> Option<LineKind> {
        let white = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        let (white, behind) = rest.split_at_checked(white)?;
        let is_all = entered == self.containers.len();
        let is_outermost = self.containers.is_empty();
        let ends = Fence::read(behind).is_some_and(|fence| fence.ends(begin));
        let is_unclear = match is_all {
            false => before.contains('\t'),
            true if behind.is_empty() => false,
            // What stands before the text may have a list whose item holds the fence.
            true if is_outermost && white.len() < begin.indent => true,
            true => {
                ends && (white.contains('\t') || (is_outermost && white.len() > INDENT && begin.indent > 0))
            }
        };
        if is_unclear {
            return Some(self.give_up(true));
        }
        if !is_all {
            self.leaf = Leaf::Ended;
            return None;
        }
        if ends && white.len() <= INDENT {
            self.leaf = Leaf::Ended;
        }
        Some(if begin.is_behind_marker { LineKind::Text } else { LineKind::Code })
    }

    /// Kind of a line that isn't in code, of which `rest` is behind the containers that it goes on with.
    fn next_of_text(&mut self, rest: &str, entered: usize, content: &str, is_fence: bool) -> LineKind {
        let mut rest = rest;
        let mut has_opened = false;
        let is_break = loop {
            if is_thematic_break(rest) {
                break true;
            }
            let Some(opening) = Opening::read(rest) else { break false };
            let interrupts = opening.interrupts
                || has_opened
                || entered < self.certain
                || matches!(self.leaf, Leaf::Ended);
            if !has_opened {
                self.close(entered);
            }
            self.open(opening.container, opening.is_certain && interrupts);
            (rest, has_opened) = (opening.behind, true);
        };
        let is_certain = |blocks: &Self| blocks.certain == blocks.containers.len();
        if let Some(fence) = Fence::read_indented(rest) {
            if !has_opened {
                self.close(entered);
            }
            if !is_certain(self) {
                return self.give_up(!has_opened && self.certain == 0);
            }
            self.leaf = Leaf::Code(Fence { is_behind_marker: has_opened, ..fence });
            return if has_opened { LineKind::Text } else { LineKind::Code };
        }
        // Footnotes and definitions end in different places, and the other fence may be one in a list before the text.
        if is_fence || content.starts_with("[^") || rest.trim_start_matches(' ').starts_with(':') {
            return self.give_up(false);
        }
        let is_plain = rest.trim_start_matches(' ').starts_with(char::is_alphanumeric);
        if !has_opened && entered < self.containers.len() {
            match self.leaf {
                _ if is_break => self.close(entered),
                Leaf::Ended => self.close(entered),
                Leaf::Paragraph if is_plain => {}
                _ => self.certain = self.certain.min(entered),
            }
        }
        let begins = (has_opened || matches!(self.leaf, Leaf::Ended)) && indent(rest) <= INDENT;
        let goes_on = !has_opened && matches!(self.leaf, Leaf::Paragraph);
        self.leaf = if is_break {
            Leaf::Ended
        } else if is_plain && is_certain(self) && (begins || goes_on) {
            Leaf::Paragraph
        } else {
            Leaf::Text
        };
        LineKind::Text
    }

    fn open(&mut self, container: Container, is_certain: bool) {
        if is_certain && self.certain == self.containers.len() {
            self.certain += 1;
        }
        self.containers.push(container);
    }

    /// Closes all but the first so many containers.
    fn close(&mut self, left: usize) {
        self.containers.truncate(left);
        self.certain = self.certain.min(left);
    }

    fn give_up(&mut self, is_fenced: bool) -> LineKind {
        *self = Self { leaf: Leaf::Unknown { is_fenced, is_after_blank: false }, ..Self::default() };
        LineKind::Text
    }
}

impl Container {
    /// The rest of a line that goes on with it.
    fn enter(self, line: &str) -> Option<&str> {
        match self {
            Self::Item(_) if line.trim_matches([' ', '\t']).is_empty() => Some(""),
            Self::Item(width) => line.get(width..).filter(|_| indent(line) >= width),
            Self::Quotation => behind_quotation_mark(line),
        }
    }
}

impl<'l> Opening<'l> {
    fn read(line: &'l str) -> Option<Self> {
        if let Some(behind) = behind_quotation_mark(line) {
            let container = Container::Quotation;
            return Some(Self { container, behind, is_certain: true, interrupts: true });
        }
        let white = indent(line);
        let rest = line.get(white..).filter(|_| white <= INDENT)?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let mark = rest.get(digits..)?.chars().next()?;
        let is_mark = match digits {
            0 => matches!(mark, '-' | '+' | '*'),
            1..=9 => matches!(mark, '.' | ')'),
            _ => false,
        };
        let behind = rest
            .get(digits + 1..)
            .filter(|behind| is_mark && matches!(behind.chars().next(), None | Some(' ')))?;
        let spaces = indent(behind);
        let is_empty = spaces == behind.len();
        // What is indented further is indented code in the item.
        let gap = if is_empty || spaces > 4 { 1 } else { spaces };
        Some(Self {
            container: Container::Item(white + digits + 1 + gap),
            behind: behind.get(gap..).unwrap_or_default(),
            // An item that begins with a blank line ends with the next one.
            is_certain: !is_empty,
            interrupts: !is_empty && (digits == 0 || rest.starts_with("1.") || rest.starts_with("1)")),
        })
    }
}

impl Fence {
    fn read(text: &str) -> Option<Self> {
        let mark = text.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let length = run(text, mark);
        let behind = text.get(length..).unwrap_or_default();
        let is_fence = length >= 3 && !(mark == '`' && behind.contains('`'));
        let is_bare = behind.trim_matches([' ', '\t']).is_empty();
        is_fence.then_some(Self { indent: 0, mark, length, is_bare, is_behind_marker: false })
    }

    fn read_indented(line: &str) -> Option<Self> {
        let white = indent(line);
        let fence = Self::read(line.get(white..)?).filter(|_| white <= INDENT)?;
        Some(Self { indent: white, ..fence })
    }

    /// Returns whether it ends code that this fence began.
    fn ends(&self, begin: Self) -> bool {
        self.is_bare && self.mark == begin.mark && self.length >= begin.length
    }
}

/// What stands after the mark of a quotation, with which a line begins.
fn behind_quotation_mark(line: &str) -> Option<&str> {
    let white = indent(line);
    let behind = line.get(white..).filter(|_| white <= INDENT)?.strip_prefix('>')?;
    Some(behind.strip_prefix(' ').unwrap_or(behind))
}

/// Returns whether a line between sections is drawn by what could begin a list.
fn is_thematic_break(line: &str) -> bool {
    let text = line.trim_matches([' ', '\t']);
    let Some(mark) = text.chars().next().filter(|mark| matches!(mark, '-' | '*')) else { return false };
    let is_break = text.chars().all(|c| c == mark || c == ' ') && text.matches(mark).count() >= 3;
    is_break && indent(line) <= INDENT
}

/// Number of spaces with which a line begins.
fn indent(line: &str) -> usize {
    line.bytes().take_while(|byte| *byte == b' ').count()
}

/// Number of times that a mark stands at the beginning of a text.
pub(super) fn run(text: &str, mark: char) -> usize {
    text.chars().take_while(|c| *c == mark).count()
}

//! How the indentation of a block's lines translates to that of the place where they go.

/// Pairs of the indentation that a line has in the block and in the file.
pub(super) struct Indentation<'a> {
    pairs: Vec<(&'a str, &'a str)>,
    /// `(in the block, in the file)`: so many characters of the one stand for so many of the other,
    /// when the one writes tabs and the other blanks.
    unit: Option<(&'static str, usize, &'static str, usize)>,
}

impl<'a> Indentation<'a> {
    /// Reads the pairs from lines of the block and the lines that they stand for. Blank lines say
    /// nothing.
    pub(super) fn new(lines: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for (block, file) in lines {
            let pair = (of(block), of(file));
            if !block.trim().is_empty() && !file.trim().is_empty() && !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
        let unit = pairs.iter().find_map(|(block, file)| {
            let only = |text: &str, c: char| !text.is_empty() && text.chars().all(|other| other == c);
            if only(block, ' ') && only(file, '\t') && block.len().is_multiple_of(file.len()) {
                Some((" ", block.len() / file.len(), "\t", 1))
            } else if only(block, '\t') && only(file, ' ') && file.len().is_multiple_of(block.len()) {
                Some(("\t", 1, " ", file.len() / block.len()))
            } else {
                None
            }
        });
        Self { pairs, unit }
    }

    /// Whether the lines are nested alike: equal depths are equal in the file, deeper ones deeper.
    pub(super) fn agrees(&self) -> bool {
        let mut depths: Vec<_> = self.pairs.iter().map(|(block, file)| (block.len(), file.len())).collect();
        depths.sort_unstable();
        depths.dedup();
        depths.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1)
    }

    /// A line of the block as it is to stand in the file. Blank lines stay as they are.
    pub(super) fn translate(&self, line: &str) -> String {
        let depth = of(line);
        let Some((first_block, first_file)) = self.pairs.first() else { return line.to_owned() };
        if line.trim().is_empty() || self.pairs.iter().all(|(block, file)| block == file) {
            return line.to_owned();
        }
        let nearest = self.pairs.iter().filter(|(block, _)| depth.starts_with(block));
        let indentation = match nearest.max_by_key(|(block, _)| block.len()) {
            Some((block, file)) => format!("{file}{}", self.convert(&depth[block.len()..])),
            // Less deep than anything that was searched: take as much away in the file.
            None => {
                let less = first_block.len().saturating_sub(depth.len());
                let less = self.convert(&first_block[..less]).len();
                first_file[..first_file.len().saturating_sub(less)].to_owned()
            }
        };
        indentation + &line[depth.len()..]
    }

    fn convert(&self, more: &str) -> String {
        match self.unit {
            Some((from, count, to, by))
                if more.replace(from, "").is_empty() && more.len().is_multiple_of(count) =>
            {
                to.repeat(more.len() / count * by)
            }
            _ => more.to_owned(),
        }
    }
}

/// The tabs and spaces before the text of a line.
fn of(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

//! What the tests look at in a Markdown page: headings, links, fenced blocks and code in the text.

use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// A page.
pub struct Page {
    /// Its path from the root of the repository.
    pub path: PathBuf,
    /// What may follow `#` in a link to it.
    pub anchors: Vec<String>,
    /// Links and pictures: the line and the destination.
    pub links: Vec<(usize, String)>,
    /// Fenced blocks.
    pub blocks: Vec<Block>,
    /// Code within the text: the line and the code.
    pub code: Vec<(usize, String)>,
}

/// A fenced block.
#[derive(Clone)]
pub struct Block {
    /// `page:line`, for messages.
    pub place: String,
    /// The first word behind the fence.
    pub language: String,
    /// What follows it: how the block is checked.
    pub check: String,
    /// What stands between the fences.
    pub text: String,
}

impl Page {
    /// Takes a page apart.
    pub fn parse(path: &Path, text: &str) -> Self {
        let mut page =
            Self { path: path.to_owned(), anchors: vec![], links: vec![], blocks: vec![], code: vec![] };
        let mut heading: Option<String> = None;
        let mut block: Option<Block> = None;
        let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_STRIKETHROUGH;
        for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
            let line = text[..range.start].matches('\n').count() + 1;
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let anchor = anchor(&heading.take().unwrap_or_default());
                    let same = |other: &&String| {
                        other.strip_prefix(&anchor).is_some_and(|rest| {
                            rest.is_empty()
                                || rest.strip_prefix('-').is_some_and(|n| n.parse::<u32>().is_ok())
                        })
                    };
                    let before = page.anchors.iter().filter(same).count();
                    page.anchors.push(if before == 0 { anchor } else { format!("{anchor}-{before}") });
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push((line, dest_url.into_string()));
                }
                Event::Start(Tag::CodeBlock(kind)) => {
                    let info = match kind {
                        CodeBlockKind::Fenced(info) => info.into_string(),
                        CodeBlockKind::Indented => String::new(),
                    };
                    let (language, check) = info.split_once(' ').unwrap_or((&info, ""));
                    block = Some(Block {
                        place: format!("{}:{line}", path.display()),
                        language: language.to_owned(),
                        check: check.trim().to_owned(),
                        text: String::new(),
                    });
                }
                Event::End(TagEnd::CodeBlock) => page.blocks.extend(block.take()),
                Event::Text(text) => {
                    if let Some(block) = &mut block {
                        block.text.push_str(&text);
                    } else if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                Event::Code(code) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&code);
                    }
                    page.code.push((line, code.into_string()));
                }
                _ => {}
            }
        }
        page
    }
}

/// What a heading is linked by, as mdBook and forges make it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|c| match c {
        c if c.is_alphanumeric() || matches!(c, '-' | '_') => Some(c),
        c if c.is_whitespace() => Some('-'),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

#[test]
fn a_page_is_taken_apart() {
    let text = "# On `roo-lsp run`, at last\n\nSee [it](other.md#there), `limits.depth`.\n\n## Twice\n## Twice\n\n\
                ```yaml settings\nmode: code\n```\n";
    let page = Page::parse(Path::new("a.md"), text);
    assert_eq!(page.anchors, ["on-roo-lsp-run-at-last", "twice", "twice-1"]);
    assert_eq!(page.links, [(3, "other.md#there".to_owned())]);
    assert_eq!(page.code.last(), Some(&(3, "limits.depth".to_owned())));
    let block = &page.blocks[0];
    assert_eq!((block.place.as_str(), block.language.as_str()), ("a.md:8", "yaml"));
    assert_eq!((block.check.as_str(), block.text.as_str()), ("settings", "mode: code\n"));
}

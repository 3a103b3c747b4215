//! Earlier turns as text, for the model that is to summarise them.

use roo_model::providers::{AssistantBlock, Item};
use roo_text::render::one_line;

use super::shortening::beginning;

/// The least of a block's text that is worth being shown, in bytes.
const MIN_BLOCK_BYTES: usize = 120;
/// The same of the user's own words, which say what the work is for.
const MIN_USER_TEXT_BYTES: usize = 2_000;
/// The longest subject of a call, in characters.
const SUBJECT: usize = 200;

/// Who said something to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Speaker {
    /// The user, whose words the agent keeps.
    User,
    /// The agent that this one works for. Its brief is kept too.
    Parent,
    /// The user, after the turns that are to be summarised.
    UserLater,
    /// Anyone else: what was looked up, or what the agent itself said and did.
    Other,
}

/// A piece of the conversation with who said it.
pub(in crate::engine) type Spoken<'a> = (Speaker, &'a Item);

/// Writes turns as text of at most so many bytes. Where all of them don't fit, long texts are cut as little as is
/// needed, then the oldest turns are left out, but for the user's words.
pub(in crate::engine) fn turns(items: &[Spoken<'_>], longest: usize) -> String {
    let written = |bound: usize| -> Vec<String> {
        items.iter().map(|(speaker, item)| turn(*speaker, item, bound)).collect()
    };
    let size = |parts: &[String]| parts.iter().map(String::len).sum::<usize>();
    let whole = written(usize::MAX);
    if size(&whole) <= longest {
        return whole.concat();
    }
    let (mut fits, mut too_long) = (None, longest.max(MIN_BLOCK_BYTES) + 1);
    let mut bound = MIN_BLOCK_BYTES;
    while bound < too_long {
        let parts = written(bound);
        match size(&parts) <= longest {
            true => fits = Some((bound, parts)),
            false => too_long = bound,
        }
        let least = fits.as_ref().map_or(too_long, |(fits, _)| *fits);
        bound = least + (too_long - least).div_ceil(2);
    }
    fits.map_or_else(|| newest(items, &written(MIN_BLOCK_BYTES), longest), |(_, parts)| parts.concat())
}

/// The user's words and the newest turns.
fn newest(items: &[Spoken<'_>], parts: &[String], longest: usize) -> String {
    let mut excess = parts.iter().map(String::len).sum::<usize>().saturating_sub(longest);
    let stays = |(speaker, part): (Speaker, &String)| {
        if speaker != Speaker::Other || excess == 0 {
            return true;
        }
        excess = excess.saturating_sub(part.len());
        false
    };
    let speakers = items.iter().map(|(speaker, _)| *speaker);
    let mut stays = speakers.zip(parts).map(stays).collect::<Vec<bool>>().into_iter();
    let text: String = parts.iter().filter(|_| stays.next().unwrap_or(true)).map(String::as_str).collect();
    let start = text.ceil_char_boundary(text.len().saturating_sub(longest));
    format!("(Earlier turns are left out.)\n{}", &text[start..])
}

fn turn(speaker: Speaker, item: &Item, bound: usize) -> String {
    match item {
        Item::User { text, images } => {
            let (heading, bound) = match speaker {
                Speaker::User => ("The user said", bound.max(MIN_USER_TEXT_BYTES)),
                Speaker::Parent => ("The task", bound.max(MIN_USER_TEXT_BYTES)),
                Speaker::UserLater => {
                    ("The user said later, after all of these turns", bound.max(MIN_BLOCK_BYTES))
                }
                Speaker::Other => ("Told to the agent", bound),
            };
            let images = match images.len() {
                0 => String::new(),
                count => format!("\n(Images: {count})"),
            };
            format!("## {heading}\n{}{images}\n\n", cut(text, bound))
        }
        Item::Summary { text, .. } => format!("{text}\n\n"),
        Item::Assistant { blocks, .. } => blocks.iter().map(|block| self::block(block, bound)).collect(),
        Item::Results { results } => results
            .iter()
            .map(|result| {
                let subject = one_line(&result.subject, SUBJECT);
                let status = roo_model::prompts::condense::status(result.status);
                format!(
                    "## Result of {} '{subject}': {status}\n{}\n\n",
                    result.name,
                    cut(&result.text, bound)
                )
            })
            .collect(),
    }
}

fn block(block: &AssistantBlock, bound: usize) -> String {
    match block {
        AssistantBlock::Text { text } => format!("## The agent said\n{}\n\n", cut(text, bound)),
        AssistantBlock::Thinking { .. } => String::new(),
        AssistantBlock::Call { call } => {
            let params = serde_json::Value::Object(call.params.clone()).to_string();
            format!("## The agent called {}\n{}\n\n", call.name, cut(&params, bound))
        }
    }
}

fn cut(text: &str, bound: usize) -> String {
    if text.len() <= bound {
        return text.to_owned();
    }
    let tail = text.ceil_char_boundary(text.len() - bound / 3);
    let head = beginning(text, bound / 3 * 2);
    format!("{head}\n(… {} bytes left out …)\n{}", tail - head.len(), &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Item {
        Item::Assistant { blocks: vec![AssistantBlock::Text { text: text.to_owned() }], tail: None }
    }

    fn user(text: &str) -> Item {
        Item::User { text: text.to_owned(), images: vec![] }
    }

    #[test]
    fn turns_are_cut_as_little_as_needed() {
        let items: Vec<Item> =
            (0..20).map(|n| said(&format!("{n} {}", "ä".repeat(1_500 + 100 * n)))).collect();
        let items: Vec<Spoken<'_>> = items.iter().map(|item| (Speaker::Other, item)).collect();
        let whole = turns(&items, usize::MAX);
        assert!(whole.starts_with("## The agent said\n0 ää") && whole.len() > 98_000);
        assert_eq!(turns(&items, whole.len()), whole);
        for longest in [97_000, 60_000, 30_000, 18_000, 7_000] {
            let short = turns(&items, longest);
            assert!((longest * 95 / 100..=longest).contains(&short.len()), "{} of {longest}", short.len());
            assert!(short.contains("bytes left out") && short.contains("\n19 ä"));
        }
        let least = turns(&items, 1_000);
        assert!(least.len() <= 1_040 && least.starts_with("(Earlier turns are left out.)"), "{least}");
    }

    #[test]
    fn what_the_user_said_is_told_and_stays_longest() {
        let mut items = vec![(Speaker::User, user("Fix it.")), (Speaker::Other, user("Looked up."))];
        items.extend((0..20).map(|n| (Speaker::Other, said(&format!("{n} {}", "x".repeat(1_000))))));
        items.push((Speaker::User, user("Without tabs.")));
        items.push((Speaker::UserLater, user("And quickly.")));
        let items: Vec<Spoken<'_>> = items.iter().map(|(speaker, item)| (*speaker, item)).collect();
        for longest in [usize::MAX, 10_000, 1_000] {
            let text = turns(&items, longest);
            assert!(text.contains("## The user said\nFix it.\n"), "{text}");
            assert!(text.contains("## The user said\nWithout tabs.\n"), "{text}");
            assert!(text.ends_with("## The user said later, after all of these turns\nAnd quickly.\n\n"));
        }
        assert!(turns(&items, 1_000).contains("19 x"));
        assert_eq!(turns(&[(Speaker::Parent, &user("Do this."))], 1_000), "## The task\nDo this.\n\n");
    }
}

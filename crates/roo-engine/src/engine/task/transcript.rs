//! Earlier turns as text, for the model that is to summarise them.

use roo_model::providers::{AssistantBlock, Item};
use roo_text::render::one_line;

use super::shortening::beginning;

/// The longest text of a block, in bytes: the first of these with which everything fits.
const LONGEST: [usize; 5] = [16_000, 4_000, 1_200, 400, 120];
/// The longest subject of a call, in characters.
const SUBJECT: usize = 200;

/// Writes turns as text of at most so many bytes. Where all of them don't fit, long texts are cut, then the oldest turns
/// are left out.
pub(in crate::engine) fn turns(items: &[&Item], longest: usize) -> String {
    let mut text = String::new();
    for bound in LONGEST {
        text = items.iter().map(|item| turn(item, bound)).collect();
        if text.len() <= longest {
            return text;
        }
    }
    let start = text.ceil_char_boundary(text.len().saturating_sub(longest));
    format!("(Earlier turns are left out.)\n{}", &text[start..])
}

fn turn(item: &Item, bound: usize) -> String {
    match item {
        Item::User { text, .. } => format!("## Told to the agent\n{}\n\n", cut(text, bound)),
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

    #[test]
    fn turns_are_cut_until_they_fit() {
        let items: Vec<Item> = (0..20).map(|n| said(&format!("{n} {}", "ä".repeat(3_000)))).collect();
        let items: Vec<&Item> = items.iter().collect();
        let whole = turns(&items, usize::MAX);
        assert!(whole.starts_with("## The agent said\n0 ää") && whole.len() > 120_000);
        let short = turns(&items, 30_000);
        assert!(short.len() <= 30_000 && short.contains("bytes left out") && short.contains("\n19 ä"));
        let least = turns(&items, 1_000);
        assert!(least.len() <= 1_040 && least.starts_with("(Earlier turns are left out.)"), "{least}");
    }
}

//! What the model sees of a conversation.

use std::sync::Arc;

use crate::providers::Item;

/// A result longer than this is a stub once its item is reduced, in bytes.
const STUB_OVER: usize = 400;

/// The items to send: those before `reduced_before` with long tool results replaced by stubs.
pub fn view(items: &Arc<Vec<Item>>, reduced_before: usize) -> Arc<Vec<Item>> {
    if reduced_before == 0 {
        return Arc::clone(items);
    }
    let reduced = items.iter().enumerate().map(|(index, item)| match item {
        Item::Results { results } if index < reduced_before => {
            let results = results.iter().map(|result| {
                let mut result = result.clone();
                if result.text.len() > STUB_OVER {
                    result.text = format!(
                        "[Left out to save space: {} bytes. Make the call again if you need its result.]",
                        result.text.len()
                    );
                }
                result.images.clear();
                result
            });
            Item::Results { results: results.collect() }
        }
        item => item.clone(),
    });
    Arc::new(reduced.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::event::ToolStatus;
    use crate::protocol::ids::ToolCallId;
    use crate::providers::ToolResult;

    fn results(text: &str) -> Item {
        Item::Results {
            results: vec![ToolResult {
                call_id: ToolCallId::new("c"),
                name: "read_file".into(),
                subject: "a".into(),
                status: ToolStatus::Ok,
                text: text.into(),
                images: vec![],
            }],
        }
    }

    #[test]
    fn only_long_results_before_the_mark_become_stubs() {
        let long = "x".repeat(STUB_OVER + 1);
        let items = Arc::new(vec![results(&long), results("short"), results(&long)]);
        let view = view(&items, 2);
        let Item::Results { results: first } = &view[0] else { panic!() };
        assert!(first[0].text.starts_with("[Left out to save space: 401 bytes."), "{}", first[0].text);
        assert_eq!(view[1..], items[1..]);
    }

    #[test]
    fn a_conversation_that_fits_is_shared_and_not_copied() {
        let items = Arc::new(vec![results("a")]);
        assert!(Arc::ptr_eq(&view(&items, 0), &items));
    }
}

//! What is said of a conversation that was shortened, in one line.

use roo_protocol::context::{ContextMeter, ShorteningMethod};

/// Says how a conversation is being shortened.
pub(crate) fn shortening_line(method: ShorteningMethod) -> &'static str {
    match method {
        ShorteningMethod::Summary => "summarises earlier turns",
        ShorteningMethod::Placeholders | ShorteningMethod::Outline => "shortens the conversation",
    }
}

/// Says how a conversation was shortened, in tokens of the next request.
pub(crate) fn shortened_line(method: ShorteningMethod, before: u64, after: u64, cost_usd: f64) -> String {
    let what = match method {
        ShorteningMethod::Placeholders => "Context shortened",
        ShorteningMethod::Summary => "Context condensed to a summary",
        ShorteningMethod::Outline => "Context condensed to a list of calls",
    };
    let cost = if cost_usd > 0.0 { format!(" (${cost_usd:.4})") } else { String::new() };
    format!("{what}: {} → {} tokens{cost}", grouped(before), grouped(after))
}

/// Says why a conversation was not shortened.
pub(crate) fn kept_line(reason: &str) -> String {
    format!("Context not shortened: {reason}")
}

/// Says that a shortening was undone.
pub(crate) fn restored_line(before: u64, after: u64) -> String {
    format!("Context restored: {} → {} tokens", grouped(before), grouped(after))
}

/// Says how large the next request is.
pub(crate) fn context_line(context: &ContextMeter) -> String {
    let window = context.window.map(|window| format!(" of {}", grouped(window))).unwrap_or_default();
    format!("Context: {}{window} tokens", grouped(context.used))
}

/// A number with commas between its thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_was_saved() {
        let line = shortened_line(ShorteningMethod::Placeholders, 1_031_200, 400, 0.0);
        assert_eq!(line, "Context shortened: 1,031,200 → 400 tokens");
        let line = shortened_line(ShorteningMethod::Summary, 31_200, 12_400, 0.0123);
        assert_eq!(line, "Context condensed to a summary: 31,200 → 12,400 tokens ($0.0123)");
    }
}

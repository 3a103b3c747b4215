//! `roo-lsp tasks compare`: two forks side by side, as a table and a diff. Pure.

use std::fmt::Write as _;

use roo_engine::engine::{ChangedBy, ComparedRequest, Comparison};
use roo_protocol::task::Usage;
use roo_text::render;

/// The longest cell of the table, in characters.
const CELL: usize = 60;

/// Formats a comparison of two requests.
pub(super) fn render(comparison: &Comparison) -> String {
    let [one, other] = &comparison.requests;
    let files = |wanted: ChangedBy| {
        let changed = comparison.files.iter().map(|file| file.changed_by);
        changed.filter(|by| *by == wanted || *by == ChangedBy::Both).count().to_string()
    };
    let row =
        |head: &str, cell: &dyn Fn(&ComparedRequest) -> String| [head.to_owned(), cell(one), cell(other)];
    let rows = [
        row("", &|task| task.item.urid.to_string()),
        row("Title", &|task| task.item.title.clone()),
        row("State", &|task| task.item.state.as_str().to_owned()),
        row("Result", &|task| task.outcome.clone().unwrap_or_default()),
        ["Files changed".to_owned(), files(ChangedBy::First), files(ChangedBy::Second)],
        row("Tokens", &|task| {
            let Usage { tokens_in, tokens_out, cache_reads, .. } = task.item.usage;
            format!("{tokens_in} in, {tokens_out} out, {cache_reads} from cache")
        }),
        row("Cost", &|task| format!("${:.4}", task.item.usage.cost_usd)),
    ];
    let mut text = table(&rows);
    // Writing to a string can't fail.
    let _ = writeln!(
        text,
        "\nThey share the events up to {}. What was used until then counts for the request that used it.",
        comparison.since
    );
    for file in &comparison.files {
        let path = render::exact_line(&file.path);
        let by = match file.changed_by {
            ChangedBy::First => "the first",
            ChangedBy::Second => "the second",
            ChangedBy::Both => "both",
        };
        let equal = if file.diff.is_empty() { ", and is the same in both" } else { "" };
        let _ = writeln!(text, "\n# {path}: changed by {by}{equal}");
        text.push_str(&render::visible(&file.diff));
    }
    for file in &comparison.left_out {
        let (path, reason) = (render::exact_line(&file.path), render::one_line(&file.reason, CELL));
        let _ = writeln!(text, "\n# {path}: can't be compared: {reason}");
    }
    text
}

fn table(rows: &[[String; 3]]) -> String {
    let cells: Vec<[String; 3]> =
        rows.iter().map(|row| row.each_ref().map(|cell| render::one_line(cell, CELL))).collect();
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let (first, second) = (width(0), width(1));
    cells.iter().fold(String::new(), |mut text, [head, one, other]| {
        let line = format!("{head:<first$}  {one:<second$}  {other}");
        text.push_str(line.trim_end());
        text.push('\n');
        text
    })
}

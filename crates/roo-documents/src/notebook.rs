//! Jupyter notebooks (nbformat 3 and 4): their cells, and what these printed.

use serde_json::Value;

use crate::text::BoundedText;

/// The most of one output, in characters.
const OUTPUT: usize = 4000;

/// The most lines of a traceback that are kept: the last ones say what happened.
const TRACEBACK_LINES: usize = 30;

pub(crate) fn read(bytes: &[u8], text: &mut BoundedText) -> Result<(), String> {
    let notebook: Value =
        serde_json::from_slice(bytes).map_err(|error| format!("it is not valid JSON: {error}"))?;
    // Version 3 has worksheets.
    let cells = notebook["cells"].as_array().or_else(|| notebook["worksheets"][0]["cells"].as_array());
    let cells = cells.ok_or("it has no list of cells")?;
    if let Some(language) = language(&notebook) {
        text.push(&format!("Language: {language}\n"));
    }
    for (index, cell) in cells.iter().enumerate() {
        if text.is_full() {
            break;
        }
        let kind = cell["cell_type"].as_str().unwrap_or("unknown");
        text.begin_part(&format!("Cell {} ({kind})", index + 1));
        let source = if cell["source"].is_null() { &cell["input"] } else { &cell["source"] };
        text.push(&lines(source));
        text.end_line();
        for output in cell["outputs"].as_array().into_iter().flatten() {
            show_output(output, text);
        }
    }
    Ok(())
}

fn language(notebook: &Value) -> Option<&str> {
    let metadata = &notebook["metadata"];
    metadata["kernelspec"]["language"].as_str().or_else(|| metadata["language_info"]["name"].as_str())
}

fn show_output(output: &Value, text: &mut BoundedText) {
    let shown = match output["output_type"].as_str() {
        Some("error" | "pyerr") => {
            let name = output["ename"].as_str().unwrap_or("Error");
            let value = output["evalue"].as_str().unwrap_or_default();
            let traceback = output["traceback"].as_array().into_iter().flatten();
            let traceback: Vec<String> = traceback.filter_map(Value::as_str).map(without_escapes).collect();
            let traceback: Vec<&str> = traceback.iter().flat_map(|part| part.lines()).collect();
            let last = &traceback[traceback.len().saturating_sub(TRACEBACK_LINES)..];
            format!("{name}: {value}\n{}", last.join("\n"))
        }
        _ => of_data(output),
    };
    if shown.trim().is_empty() {
        return;
    }
    text.push("Output:\n");
    match shown.char_indices().nth(OUTPUT) {
        None => text.push(&shown),
        Some((end, _)) => {
            text.push(&shown[..end]);
            text.push("\n(The output is cut off here.)");
        }
    }
    text.end_line();
}

/// The text of what a cell printed or returned; what else there is, by its type.
fn of_data(output: &Value) -> String {
    let data = if output["data"].is_null() { output } else { &output["data"] };
    let plain = [&output["text"], &data["text/plain"], &data["text"]];
    let printed = plain.iter().find(|value| !value.is_null()).map(|value| lines(value)).unwrap_or_default();
    let pictures = data.as_object().into_iter().flatten().map(|(kind, _)| kind.as_str());
    let pictures = pictures.filter(|kind| kind.starts_with("image/"));
    pictures.fold(without_escapes(&printed), |shown, kind| {
        format!("{shown}{}({kind}, not shown)", if shown.is_empty() { "" } else { "\n" })
    })
}

/// A text, which is written whole or as a list of lines.
fn lines(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

/// Without the sequences by which terminals show colours.
fn without_escapes(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| c.is_ascii_alphabetic()).map_or(part.len(), |end| end + 1);
        plain.push_str(part.get(end..).unwrap_or_default());
    }
    plain
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use crate::{DocumentKind, ExtractError, extract};

    fn shown(notebook: &serde_json::Value) -> String {
        extract(DocumentKind::Notebook, notebook.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn cells_come_in_order_with_what_they_printed() {
        let notebook = json!({
            "metadata": { "kernelspec": { "language": "python" } },
            "nbformat": 4,
            "cells": [
                { "cell_type": "markdown", "source": ["# Title\n", "Text"] },
                {
                    "cell_type": "code",
                    "source": "print(1)\nplot()",
                    "outputs": [
                        { "output_type": "stream", "name": "stdout", "text": ["1\n"] },
                        { "output_type": "display_data", "data": { "image/png": "iVBO", "text/plain": ["<Figure>"] } },
                        { "output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": ["\u{1b}[31mline 1\u{1b}[0m"] },
                    ],
                },
                { "cell_type": "raw", "source": [] },
            ],
        });
        assert_eq!(
            shown(&notebook),
            "Language: python\n\n--- Cell 1 (markdown) ---\n# Title\nText\n\n--- Cell 2 (code) ---\nprint(1)\nplot()\n\
             Output:\n1\nOutput:\n<Figure>\n(image/png, not shown)\nOutput:\nValueError: no\nline 1\n\n\
             --- Cell 3 (raw) ---\n"
        );
    }

    #[test]
    fn earlier_notebooks_have_worksheets_and_long_outputs_are_cut() {
        let notebook = json!({ "worksheets": [{ "cells": [
            { "cell_type": "code", "input": ["a"], "outputs": [{ "output_type": "stream", "text": "x".repeat(9000) }] },
        ] }] });
        let text = shown(&notebook);
        assert!(text.starts_with("--- Cell 1 (code) ---\na\nOutput:\nxxx"), "{text}");
        assert!(text.ends_with("\n(The output is cut off here.)\n") && text.len() < 5000);
    }

    #[test]
    fn what_is_no_notebook_says_so() {
        let error = |text: &str| extract(DocumentKind::Notebook, text.as_bytes()).unwrap_err().to_string();
        assert_eq!(error("{}"), "The notebook can't be read: it has no list of cells.");
        assert!(error("x").starts_with("The notebook can't be read: it is not valid JSON"));
        assert!(matches!(
            extract(DocumentKind::Notebook, b"[1]"),
            Err(ExtractError::Unreadable { kind: DocumentKind::Notebook, .. })
        ));
    }
}

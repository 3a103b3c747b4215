//! Spreadsheets: each sheet's rows as lines, with cells separated by tabs.

use std::io::Cursor;

use calamine::{Data, Reader as _, open_workbook_auto_from_rs};

use crate::text::BoundedText;

pub(crate) fn read(bytes: &[u8], text: &mut BoundedText) -> Result<(), String> {
    let mut workbook = open_workbook_auto_from_rs(Cursor::new(bytes)).map_err(|error| error.to_string())?;
    for name in workbook.sheet_names() {
        if text.is_full() {
            break;
        }
        let rows = match workbook.worksheet_range(&name) {
            Ok(rows) => rows,
            Err(error) => {
                text.begin_part(&format!("Sheet {name}"));
                text.push(&format!("(It can't be read: {error}.)\n"));
                continue;
            }
        };
        // Cells are named by column and row, so the first one is told.
        let begin = rows.start().map_or(String::new(), |(row, column)| match (row, column) {
            (0, 0) => String::new(),
            (row, column) => format!(", from cell {}{}", column_name(column), u64::from(row) + 1),
        });
        text.begin_part(&format!("Sheet {name}{begin}"));
        for row in rows.rows() {
            if text.is_full() {
                break;
            }
            for (index, cell) in row.iter().enumerate() {
                if index > 0 {
                    text.push("\t");
                }
                text.push(&shown(cell));
            }
            text.trim_line();
            text.push("\n");
        }
    }
    Ok(())
}

/// The value of a cell on one line.
fn shown(cell: &Data) -> String {
    match cell {
        Data::DateTime(time) if time.is_datetime() => {
            let (year, month, day, hour, minute, second, _) = time.to_ymd_hms_milli();
            match (hour, minute, second) {
                (0, 0, 0) => format!("{year:04}-{month:02}-{day:02}"),
                _ => format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"),
            }
        }
        cell => cell.to_string().replace(['\n', '\r', '\t'], " "),
    }
}

/// The letters of a column, from 0: A, B, …, Z, AA.
fn column_name(column: u32) -> String {
    let mut letters = vec![];
    let mut left = column;
    loop {
        letters.push(char::from(b'A' + u8::try_from(left % 26).unwrap_or_default()));
        if left < 26 {
            break;
        }
        left = left / 26 - 1;
    }
    letters.iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_letters() {
        let names = [0, 25, 26, 51, 52, 701, 702].map(column_name);
        assert_eq!(names, ["A", "Z", "AA", "AZ", "BA", "ZZ", "AAA"]);
    }
}

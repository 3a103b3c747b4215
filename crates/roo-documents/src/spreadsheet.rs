//! Spreadsheets: each sheet's rows as lines, with cells separated by tabs.

use std::io::Cursor;
use std::ops::Range;

use calamine::{Data, Reader as _, Sheets, XlsxError, open_workbook_auto_from_rs};

use crate::TEXT;
use crate::text::BoundedText;

/// The most empty rows in a row that are shown as empty lines.
const EMPTY_ROWS: u32 = 10;

/// The most empty cells in a row that are shown as tabs.
const EMPTY_COLUMNS: u32 = 100;

/// Seconds of a day.
const DAY: f64 = 86_400.0;

type Workbook<'a> = Sheets<Cursor<&'a [u8]>>;

pub(crate) fn read(bytes: &[u8], text: &mut BoundedText) -> Result<(), String> {
    let mut workbook = open_workbook_auto_from_rs(Cursor::new(bytes)).map_err(|error| error.to_string())?;
    for name in workbook.sheet_names() {
        if text.is_full() {
            break;
        }
        match SheetCells::read(&mut workbook, &name) {
            Ok(cells) => cells.write(&name, text),
            Err(error) => {
                text.begin_part(&format!("Sheet {name}"));
                text.push(&format!("(It can't be read: {error}.)\n"));
            }
        }
    }
    Ok(())
}

/// The cells of a sheet that hold something. Its size is that of their text, however far they are from each other.
#[derive(Default)]
struct SheetCells {
    texts: String,
    cells: Vec<SheetCell>,
}

struct SheetCell {
    /// From 0.
    row: u32,
    /// From 0.
    column: u32,
    /// Bytes of the texts.
    text: Range<usize>,
}

impl SheetCells {
    fn read(workbook: &mut Workbook<'_>, sheet: &str) -> Result<Self, calamine::Error> {
        let mut cells = Self::default();
        match workbook {
            Sheets::Xlsx(workbook) => {
                let mut reader = match workbook.worksheet_cells_reader(sheet) {
                    // Such as a sheet that is a chart.
                    Err(XlsxError::NotAWorksheet(_)) => return Ok(cells),
                    reader => reader?,
                };
                while !cells.is_full()
                    && let Some(cell) = reader.next_cell_with_formula()?
                {
                    let value = shown(&cell.value.into());
                    match cell.formula {
                        // Programs other than Excel write formulas without their values.
                        Some(formula) if value.is_empty() => cells.add(cell.pos, &format!("={formula}")),
                        _ => cells.add(cell.pos, &value),
                    }
                }
            }
            Sheets::Xlsb(workbook) => {
                let mut reader = workbook.worksheet_cells_reader(sheet)?;
                while !cells.is_full()
                    && let Some(cell) = reader.next_cell()?
                {
                    cells.add(cell.get_position(), &shown(&cell.get_value().clone().into()));
                }
            }
            workbook => {
                let range = workbook.worksheet_range(sheet)?;
                let (first_row, first_column) = range.start().unwrap_or_default();
                for (row, column, value) in range.used_cells() {
                    let index = |index| u32::try_from(index).unwrap_or(u32::MAX);
                    let place =
                        (first_row.saturating_add(index(row)), first_column.saturating_add(index(column)));
                    cells.add(place, &shown(value));
                }
            }
        }
        Ok(cells)
    }

    fn add(&mut self, (row, column): (u32, u32), text: &str) {
        let text = text.trim_end();
        if text.is_empty() || self.is_full() {
            return;
        }
        let start = self.texts.len();
        self.texts.push_str(text);
        self.cells.push(SheetCell { row, column, text: start..self.texts.len() });
    }

    /// Reports whether they are more than is shown of a document: each has a tab or a line end besides its text.
    fn is_full(&self) -> bool {
        self.texts.len() + self.cells.len() > TEXT
    }

    fn write(mut self, name: &str, text: &mut BoundedText) {
        // A file may have them in any order.
        self.cells.sort_by_key(|cell| (cell.row, cell.column));
        let first_row = self.cells.first().map_or(0, |cell| cell.row);
        let first_column = self.cells.iter().map(|cell| cell.column).min().unwrap_or(0);
        // Cells are named by column and row, so the first one is told.
        let begin = match (first_row, first_column) {
            (0, 0) => String::new(),
            (row, column) => format!(", from cell {}{}", column_name(column), row_number(row)),
        };
        text.begin_part(&format!("Sheet {name}{begin}"));
        let (mut row, mut column) = (first_row, first_column);
        for (index, cell) in self.cells.iter().enumerate() {
            if text.is_full() {
                return;
            }
            if cell.row > row {
                text.push("\n");
                push_empty_rows(row + 1..cell.row, text);
                (row, column) = (cell.row, first_column);
            } else if index > 0 {
                text.push("\t");
            }
            push_empty_cells(column..cell.column, text);
            text.push(&self.texts[cell.text.clone()]);
            column = cell.column.saturating_add(1);
        }
        text.end_line();
    }
}

/// Shows that these rows are empty.
fn push_empty_rows(rows: Range<u32>, text: &mut BoundedText) {
    match u32::try_from(rows.len()) {
        Ok(count @ 0..=EMPTY_ROWS) => (0..count).for_each(|_| text.push("\n")),
        _ => {
            let (first, last) = (row_number(rows.start), rows.end);
            text.push(&format!("(rows {first} to {last} are empty)\n"));
        }
    }
}

/// Shows that the cells of these columns are empty, before a cell of the same row.
fn push_empty_cells(columns: Range<u32>, text: &mut BoundedText) {
    match u32::try_from(columns.len()) {
        Ok(count @ 0..=EMPTY_COLUMNS) => (0..count).for_each(|_| text.push("\t")),
        _ => {
            let (first, last) = (column_name(columns.start), column_name(columns.end - 1));
            text.push(&format!("(columns {first} to {last} are empty)\t"));
        }
    }
}

/// The value of a cell on one line.
fn shown(cell: &Data) -> String {
    match cell {
        Data::DateTime(time) if time.is_duration() => {
            let seconds = (time.as_f64().abs() * DAY).round() as u64;
            let sign = if time.as_f64() < 0.0 { "-" } else { "" };
            format!("{sign}{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
        }
        Data::DateTime(time) => {
            let (year, month, day, hour, minute, second, _) = time.to_ymd_hms_milli();
            let (date, clock) =
                (format!("{year:04}-{month:02}-{day:02}"), format!("{hour:02}:{minute:02}:{second:02}"));
            match (time.as_f64(), hour, minute, second) {
                // A time of day has the number of no day.
                (0.0..1.0, ..) => clock,
                (_, 0, 0, 0) => date,
                _ => format!("{date} {clock}"),
            }
        }
        cell => cell.to_string().replace(['\n', '\r', '\t'], " "),
    }
}

/// The number of a row that people see, from its index.
fn row_number(row: u32) -> u64 {
    u64::from(row) + 1
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
    use std::io::Write as _;

    use pretty_assertions::assert_eq;
    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;
    use crate::{DocumentKind, extract};

    const MAIN: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
    const RELATIONS: &str = "http://schemas.openxmlformats.org/package/2006/relationships";
    const OFFICE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";

    /// The text of a workbook whose sheets have this data. Style 1 is a time, 2 a date, 3 a duration.
    fn text(sheets: &[&str]) -> String {
        let (mut names, mut relations, mut parts) = (String::new(), String::new(), vec![]);
        for (index, data) in sheets.iter().enumerate() {
            let number = index + 1;
            names.push_str(&format!("<sheet name=\"S{number}\" sheetId=\"{number}\" r:id=\"r{number}\"/>"));
            relations.push_str(&format!(
                "<Relationship Id=\"r{number}\" Type=\"{OFFICE}/worksheet\" Target=\"worksheets/sheet{number}.xml\"/>"
            ));
            let sheet = format!("<worksheet xmlns=\"{MAIN}\"><sheetData>{data}</sheetData></worksheet>");
            parts.push((format!("xl/worksheets/sheet{number}.xml"), sheet));
        }
        let formats = ["0", "21", "14", "46"].map(|format| format!("<xf numFmtId=\"{format}\"/>")).concat();
        let package =
            format!("<Relationship Id=\"r\" Type=\"{OFFICE}/officeDocument\" Target=\"xl/workbook.xml\"/>");
        let list =
            |relations: &str| format!("<Relationships xmlns=\"{RELATIONS}\">{relations}</Relationships>");
        parts.extend([
            ("_rels/.rels".to_owned(), list(&package)),
            (
                "xl/workbook.xml".to_owned(),
                format!(
                    "<workbook xmlns=\"{MAIN}\" xmlns:r=\"{OFFICE}\"><sheets>{names}</sheets></workbook>"
                ),
            ),
            ("xl/_rels/workbook.xml.rels".to_owned(), list(&relations)),
            (
                "xl/styles.xml".to_owned(),
                format!("<styleSheet xmlns=\"{MAIN}\"><cellXfs>{formats}</cellXfs></styleSheet>"),
            ),
        ]);
        let mut archive = ZipWriter::new(Cursor::new(vec![]));
        for (name, part) in parts {
            archive.start_file(name, SimpleFileOptions::default()).unwrap();
            archive.write_all(part.as_bytes()).unwrap();
        }
        extract(DocumentKind::Spreadsheet, &archive.finish().unwrap().into_inner()).unwrap()
    }

    #[test]
    fn columns_have_letters() {
        let names = [0, 25, 26, 51, 52, 701, 702].map(column_name);
        assert_eq!(names, ["A", "Z", "AA", "AZ", "BA", "ZZ", "AAA"]);
    }

    #[test]
    fn cells_far_from_each_other_take_no_space_between() {
        let far = "<row r=\"1\"><c r=\"A1\"><v>1</v></c><c r=\"C1\"><v>2</v></c></row>\
                   <row r=\"3\"><c r=\"B3\"><v>3</v></c></row>\
                   <row r=\"1048576\"><c r=\"A1048576\"><v>4</v></c><c r=\"XFD1048576\"><v>5</v></c></row>";
        let blank = "<row r=\"2\"><c r=\"B2\"><v>6</v></c></row>\
                     <row r=\"1048576\"><c r=\"AX1048576\" t=\"inlineStr\"><is><t> </t></is></c></row>";
        let expected = "--- Sheet S1 ---\n1\t\t2\n\n\t3\n(rows 4 to 1048575 are empty)\n\
                        4\t(columns B to XFC are empty)\t5\n\n--- Sheet S2, from cell B2 ---\n6\n";
        assert_eq!(text(&[far, blank]), expected);
    }

    #[test]
    fn cells_come_in_their_order_whatever_that_of_the_file() {
        let rows = "<row r=\"5\"><c r=\"C5\"><v>2</v></c><c r=\"B5\"><v>1</v></c></row>\
                    <row r=\"4\"><c r=\"C4\"><v>0</v></c></row>";
        assert_eq!(text(&[rows]), "--- Sheet S1, from cell B4 ---\n\t0\n1\t2\n");
    }

    #[test]
    fn a_time_has_no_date_and_a_formula_without_a_value_is_shown() {
        let cells = "<row r=\"1\"><c r=\"A1\" s=\"1\"><v>0.545138888888889</v></c>\
                     <c r=\"B1\" s=\"2\"><v>45943</v></c><c r=\"C1\" s=\"2\"><v>45943.5</v></c>\
                     <c r=\"D1\" s=\"3\"><v>1.5</v></c>\
                     <c r=\"E1\"><f>SUM(A1:B1)</f><v></v></c><c r=\"F1\"><f>1+1</f><v>2</v></c></row>";
        let expected =
            "--- Sheet S1 ---\n13:05:00\t2025-10-13\t2025-10-13 12:00:00\t36:00:00\t=SUM(A1:B1)\t2\n";
        assert_eq!(text(&[cells]), expected);
    }
}

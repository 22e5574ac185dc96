//! Rows for spreadsheets: comma-separated, with a header, quoted where needed.

use super::spelled::to_json;
use reticent_disk::{ClosedQuotes, LONGEST_ROW, open_file_or_pipe};
use serde::Serialize;
use serde_json::Value;
use std::fs::File;
use std::path::Path;

/// A table that is read, whose rows have a limit.
pub(crate) type TableFile = ClosedQuotes<File>;

/// Opens a file or a pipe with a table.
pub(crate) fn open_table(path: &Path) -> std::io::Result<TableFile> {
    open_file_or_pipe(path).map(|file| ClosedQuotes::new(file, b',', LONGEST_ROW))
}

/// The line of an error: its own, or where the row that was being read begins.
pub(crate) fn csv_line(error: &csv::Error, row: Option<&csv::Position>) -> u64 {
    error.position().or(row).map_or(1, csv::Position::line)
}

/// What is wrong with a table that is read, without its content.
pub(crate) fn csv_problem(error: &csv::Error) -> String {
    let csv::ErrorKind::Utf8 { err, .. } = error.kind() else {
        return error.to_string();
    };
    // UTF-16 begins with a mark that no UTF-8 has.
    let first = err.field() == 0 && err.valid_up_to() == 0;
    let byte = if first { 0xff } else { 0x80 };
    format!(
        "invalid UTF-8 in field {}; {}",
        err.field() + 1,
        reticent_disk::utf8_advice(byte)
    )
}

/// A table under construction.
///
/// ```
/// use reticent_reports::contract::Csv;
/// let mut csv = Csv::new(["what", "bits"]);
/// csv.row(["a,b", "=1"]);
/// assert_eq!(csv.into_text(), "what,bits\n\"a,b\",'=1\n");
/// ```
#[derive(Debug)]
pub struct Csv(String);

impl Csv {
    /// Creates a table with a header and no rows.
    pub fn new<S: AsRef<str>>(header: impl IntoIterator<Item = S>) -> Self {
        let mut csv = Self(String::new());
        csv.row(header);
        csv
    }

    /// Adds a row.
    pub fn row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let cells: Vec<String> = cells
            .into_iter()
            .map(|cell| quoted(cell.as_ref()))
            .collect();
        self.0.push_str(&cells.join(","));
        self.0.push('\n');
    }

    /// Formats a single cell, for tables that are written row by row.
    #[must_use]
    pub fn quoted(cell: &str) -> String {
        quoted(cell)
    }

    /// Formats a value as rows of a name and a number or text, with all digits. The name of a nested value is its
    /// path, with dots between the keys; lists in `without` are left out.
    ///
    /// ```
    /// use reticent_reports::contract::Csv;
    /// let body = serde_json::json!({"area": {"lower": 0.1, "upper": 0.25}, "curve": [1, 2], "records": 3});
    /// let text = Csv::of_facts(&body, &["curve"])?;
    /// assert_eq!(text, "name,value\narea.lower,0.1\narea.upper,0.25\nrecords,3\n");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if a number is NaN.
    pub fn of_facts(body: &impl Serialize, without: &[&str]) -> serde_json::Result<String> {
        let mut found = Vec::new();
        leaves(to_json(body)?, "", true, &mut found);
        let mut csv = Self::new(["name", "value"]);
        for (name, value) in &found {
            let first = name.split('.').next().unwrap_or_default();
            if !without.contains(&first) {
                csv.row([name, value]);
            }
        }
        Ok(csv.into_text())
    }

    /// Formats values as rows with a column for each number or text, with all digits. Lists within a row are left
    /// out; a field that a row lacks is an empty cell.
    ///
    /// ```
    /// use reticent_reports::contract::Csv;
    /// let rows = [serde_json::json!({"id": "a"}), serde_json::json!({"id": "b", "rank": {"min": 3}})];
    /// assert_eq!(Csv::of_rows(&rows)?, "id,rank.min\na,\nb,3\n");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if a number is NaN.
    pub fn of_rows<T: Serialize>(rows: impl IntoIterator<Item = T>) -> serde_json::Result<String> {
        Self::of_columns(&[], rows)
    }

    /// Like [`Csv::of_rows`], with these columns first, in this order, whether or not a row has them.
    ///
    /// # Errors
    /// Returns an error if a number is NaN.
    pub fn of_columns<T: Serialize>(
        first: &[&str],
        rows: impl IntoIterator<Item = T>,
    ) -> serde_json::Result<String> {
        let mut columns: Vec<String> = first.iter().map(|name| (*name).to_owned()).collect();
        let mut all = Vec::new();
        for row in rows {
            let mut found = Vec::new();
            leaves(to_json(&row)?, "", false, &mut found);
            for (name, _) in &found {
                if !columns.contains(name) {
                    columns.push(name.clone());
                }
            }
            all.push(found);
        }
        let mut csv = Self::new(&columns);
        for row in &all {
            csv.row(columns.iter().map(|column| {
                let cell = row.iter().find(|(name, _)| name == column);
                cell.map_or("", |(_, value)| value.as_str())
            }));
        }
        Ok(csv.into_text())
    }

    /// Returns the whole text.
    #[must_use]
    pub fn into_text(self) -> String {
        self.0
    }
}

/// Collects the numbers and texts of a document, each with its name.
fn leaves(value: Value, name: &str, lists: bool, found: &mut Vec<(String, String)>) {
    let below = |key: &str| match name {
        "" => key.to_owned(),
        _ => format!("{name}.{key}"),
    };
    match value {
        Value::Null => {}
        Value::Bool(holds) => found.push((name.to_owned(), holds.to_string())),
        Value::Number(number) => {
            let float = number.as_f64().filter(|_| number.is_f64());
            let digits = float.map_or_else(|| number.to_string(), |float| format!("{float:?}"));
            found.push((name.to_owned(), digits));
        }
        Value::String(text) => found.push((name.to_owned(), text)),
        Value::Array(items) => {
            for (index, item) in items.into_iter().enumerate().filter(|_| lists) {
                leaves(item, &below(&index.to_string()), lists, found);
            }
        }
        Value::Object(members) => {
            for (key, item) in members {
                leaves(item, &below(&key), lists, found);
            }
        }
    }
}

/// Formats a cell so that commas, quotes and line breaks don't break it and no spreadsheet takes it for a formula.
fn quoted(cell: &str) -> String {
    let formula = cell.starts_with(['=', '+', '@', '\t', '\r'])
        || cell.starts_with('-') && cell.parse::<f64>().is_err();
    let cell = if formula {
        format!("'{cell}")
    } else {
        cell.to_owned()
    };
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A script that reads `exceeded` broke when all was well, and one that reads the third column when a row failed.
    #[test]
    fn columns_stand_in_their_order_whether_or_not_a_row_has_them() {
        let rows = [
            serde_json::json!({"id": "a", "seconds": 1, "more": 2}),
            serde_json::json!({"id": "b", "failed": "why", "seconds": 1}),
        ];
        let text = |rows: &[serde_json::Value]| {
            Csv::of_columns(&["id", "failed", "exceeded", "seconds"], rows).unwrap()
        };
        let header = "id,failed,exceeded,seconds";
        assert_eq!(text(&rows), format!("{header},more\na,,,1,2\nb,why,,1,\n"));
        assert_eq!(text(&rows[1..]), format!("{header}\nb,why,,1\n"));
    }

    #[test]
    fn cells_survive_a_spreadsheet() {
        assert_eq!(quoted("turn"), "turn");
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(quoted("=1+1"), "'=1+1");
        assert_eq!(quoted("\r=1+1"), "\"'\r=1+1\"");
        assert_eq!(
            (quoted("-1e-5").as_str(), quoted("-x").as_str()),
            ("-1e-5", "'-x")
        );
    }
}

//! Rows for spreadsheets: comma-separated, a header, quotes where needed.

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
    /// A header without rows.
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

    /// One cell on its own, for tables that are written as they go.
    #[must_use]
    pub fn quoted(cell: &str) -> String {
        quoted(cell)
    }

    /// All of it.
    #[must_use]
    pub fn into_text(self) -> String {
        self.0
    }
}

/// A cell that commas, quotes and line breaks do not break, and that no spreadsheet takes for a
/// formula.
fn quoted(cell: &str) -> String {
    let formula = cell.starts_with(['=', '+', '@', '\t'])
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

    #[test]
    fn cells_survive_a_spreadsheet() {
        assert_eq!(quoted("turn"), "turn");
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(quoted("=1+1"), "'=1+1");
        assert_eq!(
            (quoted("-1e-5").as_str(), quoted("-x").as_str()),
            ("-1e-5", "'-x")
        );
    }
}

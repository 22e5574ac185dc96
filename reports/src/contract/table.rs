//! Aligned text tables; the same data fills the tables of a page.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, TableStyle, presets};

/// The alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// A table with named columns and rows of text.
///
/// ```
/// use reticent_reports::contract::Table;
/// let table: Table = Table::of(&[("SGD", 19.93), ("CRT", 4.2)])
///     .left("arm", |(arm, _)| *arm)
///     .right("bits", |(_, bits)| bits.to_string())
///     .into();
/// assert_eq!(table.to_text(), "arm   bits\n----------\nSGD  19.93\nCRT    4.2\n");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

/// Returns the content of a cell without a value.
pub(crate) fn dash() -> String {
    "-".to_owned()
}

impl Table {
    /// Begins a table with a row for each item, to which columns are added one by one.
    pub fn of<T: Copy>(items: impl IntoIterator<Item = T>) -> Rows<T> {
        let items: Vec<T> = items.into_iter().collect();
        let rows = vec![Vec::new(); items.len()];
        let table = Self {
            columns: Vec::new(),
            rows,
        };
        Rows { items, table }
    }
    /// Creates an empty table with these columns, for rows of different kinds.
    pub fn new<S: Into<String>>(columns: impl IntoIterator<Item = (S, Align)>) -> Self {
        Self {
            columns: columns.into_iter().map(|(s, a)| (s.into(), a)).collect(),
            rows: Vec::new(),
        }
    }
    /// Adds a row; missing cells are empty, cells beyond the last column are dropped.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) -> &mut Self {
        let mut row: Vec<String> = cells.into_iter().map(Into::into).collect();
        row.resize(self.columns.len(), String::new());
        self.rows.push(row);
        self
    }
    /// The columns.
    #[must_use]
    pub fn columns(&self) -> &[(String, Align)] {
        &self.columns
    }
    /// The rows.
    #[must_use]
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }
    /// Returns the table with at most its first `most` rows.
    #[must_use]
    pub fn first(&self, most: usize) -> Self {
        let mut table = self.clone();
        table.rows.truncate(most);
        table
    }
    /// Returns the table with at most `most` rows at even distances, including the first and the
    /// last.
    #[must_use]
    pub fn thinned(&self, most: usize) -> Self {
        let (rows, last) = (self.rows.len(), most.max(2) - 1);
        let kept = |index: usize| self.rows[index * (rows - 1) / last].clone();
        Self {
            columns: self.columns.clone(),
            rows: match rows > most {
                true => (0..=last).map(kept).collect(),
                false => self.rows.clone(),
            },
        }
    }
    /// Formats the table as lines of text, with two spaces between columns and none at the ends.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.laid_out(None)
    }
    /// Like `Table::to_text`, but at most `width` characters wide, with long cells broken between
    /// words.
    #[must_use]
    pub fn to_text_within(&self, width: usize) -> String {
        self.laid_out(u16::try_from(width).ok())
    }
    fn laid_out(&self, width: Option<u16>) -> String {
        let mut table = comfy_table::Table::new();
        if let Some(width) = width {
            table
                .set_content_arrangement(ContentArrangement::Dynamic)
                .set_width(width);
        }
        table.load_style(plain_style());
        table.set_header(self.columns.iter().map(|(name, _)| name));
        for row in &self.rows {
            table.add_row(row);
        }
        for (index, (_, align)) in self.columns.iter().enumerate() {
            if let Some(column) = table.column_mut(index) {
                column.set_padding((if index == 0 { 0 } else { 2 }, 0));
                column.set_cell_alignment(match align {
                    Align::Left => CellAlignment::Left,
                    Align::Right => CellAlignment::Right,
                });
            }
        }
        let mut text = table.trim_fmt();
        text.push('\n');
        text
    }
}

/// A table that still takes columns: each has a name and says what it shows of an item.
#[derive(Debug, Clone)]
pub struct Rows<T> {
    items: Vec<T>,
    table: Table,
}

impl<T: Copy> Rows<T> {
    /// Adds a column of words.
    #[must_use]
    pub fn left<C: Into<String>>(self, name: impl Into<String>, cell: impl Fn(T) -> C) -> Self {
        self.column(name.into(), Align::Left, cell)
    }
    /// Adds a column of numbers.
    #[must_use]
    pub fn right<C: Into<String>>(self, name: impl Into<String>, cell: impl Fn(T) -> C) -> Self {
        self.column(name.into(), Align::Right, cell)
    }
    /// Adds columns under a condition.
    #[must_use]
    pub fn only_if(self, condition: bool, columns: impl FnOnce(Self) -> Self) -> Self {
        if condition { columns(self) } else { self }
    }
    /// Removes columns without any content, from a position on.
    #[must_use]
    pub fn without_empty(mut self, from: usize) -> Self {
        for at in (from..self.table.columns.len()).rev() {
            if self.table.rows.iter().all(|row| row[at].is_empty()) {
                self.table.columns.remove(at);
                self.table
                    .rows
                    .iter_mut()
                    .for_each(|row| drop(row.remove(at)));
            }
        }
        self
    }
    fn column<C: Into<String>>(
        mut self,
        name: String,
        align: Align,
        cell: impl Fn(T) -> C,
    ) -> Self {
        self.table.columns.push((name, align));
        for (row, item) in self.table.rows.iter_mut().zip(&self.items) {
            row.push(cell(*item).into());
        }
        self
    }
}

impl<T> From<Rows<T>> for Table {
    fn from(rows: Rows<T>) -> Self {
        rows.table
    }
}

/// Returns a style without lines except one under the header.
fn plain_style() -> TableStyle {
    presets::NOTHING.header_separator(LineStyle::none().fill('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greek_letters_and_signs_keep_the_columns_straight() {
        let mut table = Table::new([("ε ≤", Align::Right), ("arm", Align::Left)]);
        table.row(["1.5", "CRT"]).row(["∞", "SGD"]);
        let text = table.to_text();
        let starts: Vec<_> = text
            .lines()
            .skip(2)
            .map(|l| l.chars().position(|c| c.is_ascii_uppercase()))
            .collect();
        assert_eq!(starts, [Some(5), Some(5)]);
        assert!(text.lines().all(|l| l == l.trim_end()), "{text}");
    }

    #[test]
    fn short_rows_are_filled_and_long_ones_cut() {
        let mut table = Table::new([("a", Align::Left), ("b", Align::Left)]);
        table.row(["1"]).row(["1", "2", "3"]);
        assert_eq!(table.rows(), [vec!["1", ""], vec!["1", "2"]]);
    }
}

//! Where a command's answer goes.

use super::{Body, Page, View};
use crate::contract::{AtomicFile, Csv, Format, print, printable};
use anyhow::{Context, Result};
use std::io::Write;
use std::path::Path;

/// How a command answers: in what format, how fully, and whether a page is written beside it.
///
/// Every command prints through this, so that each has every format.
#[derive(Debug)]
pub struct Output {
    format: Format,
    view: View,
    html: Option<AtomicFile>,
}

impl Output {
    /// An answer on stdout.
    #[must_use]
    pub const fn new(format: Format, view: View) -> Self {
        Self {
            format,
            view,
            html: None,
        }
    }

    /// The same with the page in a file, if `--html` names one. It is opened at once, so that a place that
    /// can't be written ends the command before its work.
    ///
    /// # Errors
    /// A place that can't be written.
    pub fn and_page(mut self, path: Option<&Path>) -> Result<Self> {
        if let Some(path) = path {
            self.html = Some(AtomicFile::create(path).context("--html")?);
        }
        Ok(self)
    }

    /// The same in full, whatever was asked for.
    #[must_use]
    pub const fn in_full(mut self) -> Self {
        self.view.verbose = true;
        self
    }

    /// Whether plots are shown.
    #[must_use]
    pub fn draws(&self) -> bool {
        self.format == Format::Html || self.html.is_some()
    }

    /// Prints the answer and writes the page. CSV is the first table of the page.
    ///
    /// # Errors
    /// What building the document or the page ends with, an output that can't be written.
    pub fn answer(
        self,
        document: impl FnOnce() -> Result<String>,
        page: impl FnOnce() -> Result<Page>,
    ) -> Result<()> {
        self.write(document, page, None::<fn() -> Result<String>>)
    }

    /// The same with rows of its own as CSV: all digits, where the page rounds.
    ///
    /// # Errors
    /// As [`Output::answer`].
    pub fn answer_with_rows(
        self,
        document: impl FnOnce() -> Result<String>,
        page: impl FnOnce() -> Result<Page>,
        rows: impl FnOnce() -> Result<String>,
    ) -> Result<()> {
        self.write(document, page, Some(rows))
    }

    fn write(
        self,
        document: impl FnOnce() -> Result<String>,
        page: impl FnOnce() -> Result<Page>,
        rows: Option<impl FnOnce() -> Result<String>>,
    ) -> Result<()> {
        let (text, page) = match (self.format, rows) {
            (Format::Json, _) => (document()?, self.html.is_some().then(page).transpose()?),
            (Format::Csv, Some(rows)) => (
                printable(&rows()?),
                self.html.is_some().then(page).transpose()?,
            ),
            (format, _) => {
                let page = page()?;
                let text = match format {
                    Format::Html => page.to_html()?,
                    Format::Csv => page.to_csv(),
                    Format::Text | Format::Json => page.to_text(self.view),
                };
                (printable(&text), Some(page))
            }
        };
        if let (Some(mut file), Some(page)) = (self.html, page) {
            file.write_all(printable(&page.to_html()?).as_bytes())
                .context("--html")?;
            file.finish().context("--html")?;
        }
        Ok(print(&text)?)
    }
}

impl Page {
    /// The first table, or the facts where there is none.
    fn to_csv(&self) -> String {
        let mut all = self.sections.iter().map(|(_, section)| section);
        let table = all.clone().find_map(|section| match &section.body {
            Body::Table(table) => Some(table),
            _ => None,
        });
        if let Some(table) = table {
            let mut csv = Csv::new(table.columns().iter().map(|(name, _)| name));
            table.rows().iter().for_each(|row| csv.row(row));
            return csv.into_text();
        }
        let mut csv = Csv::new(["name", "value"]);
        csv.row(["result", &self.summary]);
        if let Some(facts) = all.find_map(|section| match &section.body {
            Body::Facts(facts) => Some(facts),
            _ => None,
        }) {
            facts
                .iter()
                .for_each(|(name, value)| csv.row([name, value]));
        }
        csv.into_text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Align, Table};
    use crate::page::Section;

    #[test]
    fn the_rows_of_a_page_are_its_first_table_or_its_facts() {
        let mut table = Table::new([("arm", Align::Left), ("ε ≤", Align::Right)]);
        table.row(["CRT, missed", "∞"]);
        let page = Page::new("T", "S").answer(Section::facts("", [("a", "b".to_owned())]));
        assert_eq!(page.to_csv(), "name,value\nresult,S\na,b\n");
        let page = page.answer(Section::table("H", table));
        assert_eq!(page.to_csv(), "arm,ε ≤\n\"CRT, missed\",∞\n");
    }

    #[test]
    fn a_page_is_written_whatever_is_printed() {
        let folder = tempfile::tempdir().unwrap();
        for format in [Format::Text, Format::Json, Format::Csv, Format::Html] {
            let place = folder.path().join("page.html");
            let output = Output::new(format, View::full());
            let output = output.and_page(Some(&place)).unwrap();
            assert!(output.draws());
            output
                .answer(|| Ok("{}".into()), || Ok(Page::new("T", "S")))
                .unwrap();
            let html = std::fs::read_to_string(&place).unwrap();
            assert!(html.contains("<h1>T</h1>"), "{html}");
            std::fs::remove_file(place).unwrap();
        }
        // A page that nobody sees is not built.
        let output = Output::new(Format::Json, View::full());
        let built = output.answer(|| Ok("{}".into()), || anyhow::bail!("built"));
        built.unwrap();
    }

    /// No command prints by itself; an exported mechanism is no answer but a file for other programs.
    #[test]
    fn every_answer_goes_through_an_output() {
        fn sources(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    sources(&path, found);
                } else {
                    found.push(path);
                }
            }
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut found = Vec::new();
        sources(&root, &mut found);
        assert!(found.len() > 100);
        for path in found {
            let text = std::fs::read_to_string(&path).unwrap();
            let name = path.strip_prefix(&root).unwrap();
            let prints = text.lines().filter(|line| {
                let line = line.trim_start();
                let printed = line.contains("print(&") || line.contains("println!");
                printed && !line.starts_with("//") && !line.contains("mechanism::export")
            });
            let own = ["contract", "page"].iter().any(|own| name.starts_with(own));
            assert!(own || prints.count() == 0, "{}", name.display());
        }
    }
}

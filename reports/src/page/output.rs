//! The destinations of a command's answer.

use super::{Page, Section, View};
#[cfg(feature = "findings")]
use crate::contract::is_stdout;
use crate::contract::{
    AtomicFile, Csv, Envelope, Exit, Format, Inputs, note, print, print_json, printable,
    printable_json,
};
use crate::defaults::Configured;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::Serialize;
use std::path::Path;

/// How a command answers: in which format, how fully, and to which files besides stdout.
///
/// Every command prints through this type, so that each supports every format.
#[derive(Debug)]
pub struct Output {
    format: Format,
    view: View,
    /// The answer in other formats: the flag that named each file, and the file.
    beside: Vec<(Format, &'static str, AtomicFile)>,
    configured: Configured,
    /// Whether stdout is taken by data, so that the answer goes to stderr.
    aside: bool,
}

impl Output {
    /// Refuses a format in which no mechanism is exported.
    ///
    /// # Errors
    /// Returns an error if the format is neither text, the default, nor JSON.
    pub(crate) fn exports(&self) -> Result<()> {
        let name = self.format.to_possible_value();
        match self.format {
            Format::Text | Format::Json => Ok(()),
            _ => bail!(
                "--format: --export writes JSON, got {}",
                name.as_ref().map_or("another", |name| name.get_name())
            ),
        }
    }
    /// Creates an output that answers on stdout.
    #[must_use]
    pub fn new(format: Format, view: View) -> Self {
        Self {
            format,
            view,
            beside: Vec::new(),
            configured: Configured::default(),
            aside: false,
        }
    }

    /// Sets the values that were taken from a project's defaults, to be shown with the answer.
    #[must_use]
    pub fn configured(mut self, configured: &Configured) -> Self {
        self.configured = configured.clone();
        self
    }

    /// Leaves one of the project's defaults unused; returns whether it was set.
    pub fn leaves(&mut self, key: &str) -> bool {
        self.configured.values.remove(key).is_some()
    }

    /// Lists on stderr what was taken from a project's defaults and what was not authenticated, for output that has no
    /// place for it on stdout.
    pub fn says_aside(&self, inputs: &Inputs) {
        if let Some(line) = self.configured.line() {
            note(&line);
        }
        for file in inputs.not_authenticated() {
            note(&format!("inputs not authenticated: {file}"));
        }
    }

    /// Sends the answer to stderr if the data go to stdout.
    #[cfg(feature = "findings")]
    #[must_use]
    pub fn aside_for(mut self, data: &Path) -> Self {
        self.aside = is_stdout(data);
        self
    }

    /// Also writes the page to a file, if `--html` names one. The file is opened at once, so that an unwritable
    /// path ends the command before its work.
    ///
    /// # Errors
    /// Returns an error if the path can't be written.
    pub fn and_page(self, path: Option<&Path>) -> Result<Self> {
        self.and_file(Format::Html, "--html", path)
    }

    /// Also writes the answer in another format to a file, if a flag names one. The file is opened at once.
    ///
    /// # Errors
    /// Returns an error if the path can't be written.
    pub fn and_file(
        mut self,
        format: Format,
        flag: &'static str,
        path: Option<&Path>,
    ) -> Result<Self> {
        if let Some(path) = path {
            let file = AtomicFile::create(path).context(flag)?;
            self.beside.push((format, flag, file));
        }
        Ok(self)
    }

    /// Returns whether the whole answer is shown somewhere, not only its first part.
    #[must_use]
    pub fn in_full(&self) -> bool {
        self.format != Format::Text || self.view.verbose || !self.beside.is_empty()
    }

    /// Returns whether plots are shown.
    #[must_use]
    pub fn draws(&self) -> bool {
        let mut beside = self.beside.iter().map(|(format, ..)| *format);
        self.format == Format::Html || beside.any(|format| format == Format::Html)
    }

    /// Prints the answer, writes the files, and returns the ending of a command that judges nothing. The document contains
    /// the page's headline; CSV is the document as names and values.
    ///
    /// # Errors
    /// Returns an error if the document or page can't be serialised or an output can't be written.
    pub fn answer<B: Serialize>(self, document: &Envelope<B>, page: &Page) -> Result<Exit> {
        self.answer_with_rows(document, page, || Ok(Csv::of_facts(&document.body, &[])?))
    }

    /// Like [`Output::answer`], with separate rows for CSV.
    ///
    /// # Errors
    /// Returns an error as [`Output::answer`] does.
    pub fn answer_with_rows<B: Serialize>(
        mut self,
        document: &Envelope<B>,
        page: &Page,
        rows: impl FnOnce() -> Result<String>,
    ) -> Result<Exit> {
        let mut page = page.clone();
        if let Some(line) = self.configured.line() {
            page = page.answer_first(Section::text("", [line]));
        }
        for (format, flag, file) in std::mem::take(&mut self.beside) {
            let text = self.written(format, document, &page, || Ok(String::new()))?;
            file.finish_with(text).context(flag)?;
        }
        if self.format == Format::Csv {
            self.says_aside(&document.inputs);
        }
        let text = self.written(self.format, document, &page, rows)?;
        if self.aside {
            // A closed stderr is not a failure: the data were written.
            note(text.trim_end());
            return Ok(Exit::Finished);
        }
        match self.format {
            Format::Json | Format::Sarif => print_json(&text)?,
            _ => print(&text)?,
        }
        Ok(Exit::Finished)
    }

    /// Returns the answer in a format.
    fn written<B: Serialize>(
        &self,
        format: Format,
        document: &Envelope<B>,
        page: &Page,
        rows: impl FnOnce() -> Result<String>,
    ) -> Result<String> {
        Ok(match format {
            Format::Json => {
                let mut document = document.saying(page.said(), page.outcome());
                document.inputs = document.inputs.configured(&self.configured);
                printable_json(&document.to_text()?)
            }
            Format::Csv => rows()?,
            Format::Html => printable(&page.to_html()?),
            Format::Markdown => printable(&page.to_markdown()),
            Format::Sarif => printable_json(&page.to_sarif(&document.kind, &document.inputs)),
            Format::ModelCard => printable_json(&page.to_model_card(&document.kind)),
            Format::Text => page.to_text(self.view),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_written_whatever_is_printed() {
        let folder = tempfile::tempdir().unwrap();
        for format in Format::value_variants().iter().copied() {
            let place = folder.path().join("page.html");
            let output = Output::new(format, View::full());
            let output = output.and_page(Some(&place)).unwrap();
            assert!(output.draws());
            output
                .answer(&Envelope::new("t", Inputs::new(), ()), &Page::new("T", "S"))
                .unwrap();
            let html = std::fs::read_to_string(&place).unwrap();
            assert!(html.contains("<h1>T</h1>"), "{html}");
            std::fs::remove_file(place).unwrap();
        }
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
            // Redacted text, answers of a scorer, questions to whoever screens.
            let streams = ["redact/run.rs", "loaded_model.rs", "screen/mod.rs"];
            let streams = streams.iter().any(|of| name.ends_with(of));
            let writes = text.contains("io::stderr()") || text.contains("io::stdout()");
            assert!(own || streams || !writes, "{}", name.display());
        }
    }
}

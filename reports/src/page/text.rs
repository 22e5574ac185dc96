//! Pages as text.

use super::{Body, Page, Section, Shown, lowered};
use std::io::IsTerminal;

/// The width of text that is not printed to a terminal.
const WIDTH: usize = 100;
/// The longest name below which further lines of its value are indented to its first.
const HANGING: usize = 16;

/// How much of a page is shown, and how wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// Whether everything is shown, not only the answer.
    pub verbose: bool,
    /// The width in columns.
    pub width: usize,
}

impl View {
    /// Returns the view for the terminal, 60 to 200 columns wide; 100 without a terminal.
    #[must_use]
    pub fn of_terminal(verbose: bool) -> Self {
        let size = terminal_size::terminal_size();
        let width = match size.filter(|_| std::io::stdout().is_terminal()) {
            Some((width, _)) => usize::from(width.0).clamp(60, 200),
            None => WIDTH,
        };
        Self { verbose, width }
    }
    /// Returns the view that shows everything at full width.
    #[must_use]
    pub const fn full() -> Self {
        Self {
            verbose: true,
            width: 200,
        }
    }
}

impl Page {
    /// Returns the page as text: title, result, and the sections with their headings. Plots are left
    /// out.
    #[must_use]
    pub fn to_text(&self, view: View) -> String {
        let mut out = fill("", &self.title, view.width);
        out.push_str(&fill("", &self.summary, view.width));
        // If the answer has several tables, each needs its heading.
        let tables = self.sections.iter().filter(|(shown, section)| {
            *shown == Shown::Always && matches!(section.body, Body::Table(_))
        });
        let headed = view.verbose || tables.count() > 1;
        let mut hidden = Vec::new();
        for (shown, section) in &self.sections {
            let wanted = match shown {
                Shown::Always => true,
                Shown::Briefly => !view.verbose,
                Shown::InFull | Shown::OfPart(_) => view.verbose,
            };
            let said = section.to_text(view.width);
            if said.is_empty() {
                continue;
            }
            if wanted {
                if !section.heading.is_empty() && headed {
                    out.push_str(&format!("\n{}\n", lowered(&section.heading)));
                }
                out.push('\n');
                out.push_str(&said);
            } else {
                hidden.extend(match shown {
                    Shown::OfPart(name) => Some(lowered(name)),
                    Shown::InFull => Some(lowered(&section.heading)),
                    Shown::Always | Shown::Briefly => None,
                });
            }
        }
        hidden.retain(|heading| !heading.is_empty());
        hidden.dedup();
        if !hidden.is_empty() {
            out.push('\n');
            let more = format!("With -v: {}.", hidden.join("; "));
            out.push_str(&fill("", &more, view.width));
        }
        out
    }
}

impl Section {
    fn to_text(&self, width: usize) -> String {
        match &self.body {
            Body::Text(said) => said.iter().map(|text| fill("", text, width)).collect(),
            Body::Facts(facts) => {
                let filled = facts.iter().map(|(name, value)| {
                    let name = format!("{name}: ");
                    match name.chars().count() {
                        0..=HANGING => fill(&name, value, width),
                        _ => fill("", &format!("{name}{value}"), width),
                    }
                });
                filled.collect()
            }
            Body::Table(table) if table.rows().is_empty() => String::new(),
            Body::Table(table) => {
                let mut text = table.to_text_within(width);
                if !self.caption.is_empty() {
                    text.push('\n');
                    text.push_str(&fill("", &self.caption, width));
                }
                text
            }
            Body::Plot(_) => String::new(),
            Body::Heat(lines) => {
                let lines = lines.iter().map(|(name, pieces)| {
                    let text: String = pieces.iter().map(|piece| piece.text.as_str()).collect();
                    format!("{name}\n{text}\n")
                });
                lines.collect()
            }
            Body::Notes(said) => said.iter().map(|text| fill("- ", text, width)).collect(),
        }
    }
}

/// Fills a paragraph to a width, with a mark before its first line and the other lines indented to
/// match.
///
/// ```
/// use reticent_reports::page::fill;
/// assert_eq!(fill("- ", "one two three", 10), "- one two\n  three\n");
/// assert_eq!(fill("", "12\u{202f}000", 4), "12\u{202f}000\n");
/// ```
#[must_use]
pub fn fill(mark: &str, text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut line = mark.to_owned();
    let mut empty = true;
    // Numbers are grouped by non-breaking spaces.
    for word in text.split([' ', '\n']).filter(|word| !word.is_empty()) {
        if !empty && line.chars().count() + 1 + word.chars().count() > width {
            out.push_str(&line);
            out.push('\n');
            line = " ".repeat(mark.chars().count());
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    if !empty {
        out.push_str(&line);
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Align, Table};

    fn page() -> Page {
        let mut table = Table::new([("what", Align::Left), ("ε ≤", Align::Right)]);
        table.row(["a record", "2"]);
        let notes = |heading: &str, text: &str| Section::notes(heading, [text]);
        Page::new("Title", "Result.")
            .answer(Section::table("What is promised", table).caption("At δ = 1e-5."))
            .brief(notes("", "short"))
            .section(notes("Under these assumptions", "long"))
            .section(Section::plot("A plot", "<svg></svg>".into()))
    }

    #[test]
    fn the_answer_comes_first_and_says_what_more_there_is() {
        let width = 80;
        let short = page().to_text(View {
            verbose: false,
            width,
        });
        assert_eq!(
            short,
            "Title\nResult.\n\nwhat      ε ≤\n-------------\na record    2\n\nAt δ = 1e-5.\n\n- short\n\n\
             With -v: under these assumptions.\n"
        );
        let full = page().to_text(View {
            verbose: true,
            width,
        });
        assert!(full.contains("\nwhat is promised\n\nwhat "), "{full}");
        assert!(
            full.ends_with("\nunder these assumptions\n\n- long\n"),
            "{full}"
        );
    }

    #[test]
    fn the_page_has_what_the_full_text_has() {
        let html = page().to_html().unwrap();
        assert!(html.contains("long") && !html.contains("short"));
    }
}

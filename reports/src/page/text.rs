//! Pages as text.

use super::{Body, Page, Section, Shown, lowered};
use crate::number::count_of;
use std::io::IsTerminal;

/// The width of text that is not printed to a terminal.
const WIDTH: usize = 100;
/// The longest name below which further lines of its value are indented to its first.
const HANGING: usize = 16;

/// What the short text calls a part of the answer without a heading.
const REST: &str = "the rest of the answer";

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
    /// out, and in the short text what its lines have no room for, which it names.
    #[must_use]
    pub fn to_text(&self, view: View) -> String {
        if view.verbose {
            let shown = self.on_page().cloned().collect::<Vec<_>>();
            return self.written(&shown, true, &[], view.width);
        }
        let (shown, more) = self.short();
        self.written(&shown, is_headed(&shown), &more, view.width)
    }

    /// Returns the sections of the short text, and the names of what it leaves out. It is the same at every width.
    fn short(&self) -> (Vec<Section>, Vec<String>) {
        // With less room for the sections, more names follow them.
        let mut cuts = (0..=self.lines).rev().map(|room| self.cut(room));
        let fits = |(shown, more): &(Vec<Section>, Vec<String>)| {
            let text = self.written(shown, is_headed(shown), more, WIDTH);
            text.lines().count() <= self.lines
        };
        cuts.find(fits).unwrap_or_else(|| self.cut(0))
    }

    /// Returns what decides and what fits into so many more lines, earlier sections first, and the names of what is left
    /// out. No table follows one that is left out: the first row of the first table is the answer of the summary.
    fn cut(&self, mut room: usize) -> (Vec<Section>, Vec<String>) {
        let (mut kept, mut more) = (Vec::new(), Vec::new());
        let mut without_table = false;
        let in_words = self.sections.iter().filter(|(_, section)| {
            !section.body.is_empty() && !matches!(section.body, Body::Plot(_))
        });
        for (shown, section) in in_words {
            let name = match shown {
                Shown::First => {
                    kept.push(section.clone());
                    continue;
                }
                Shown::Always | Shown::Briefly => {
                    let is_table = section.rows() > 0;
                    let part = section
                        .within(room)
                        .filter(|_| !(is_table && without_table));
                    without_table |= is_table && part.is_none();
                    room -= part.as_ref().map_or(0, |part| 1 + part.lines());
                    let whole = part.as_ref().is_some_and(|part| part.body == section.body);
                    let cut = part.as_ref().map_or(0, Section::rows);
                    kept.extend(part);
                    let name = match *shown == Shown::Always {
                        true => section.name(),
                        false => lowered(&section.heading),
                    };
                    match section.rows() - cut {
                        _ if whole => continue,
                        // Rows are never left out without a word.
                        left if cut > 0 || (left > 0 && name.is_empty()) => {
                            let more = count_of(left as u64, "more row");
                            match name.is_empty() || name == REST {
                                true => more,
                                false => format!("{more} of {name}"),
                            }
                        }
                        _ if *shown == Shown::Always => name,
                        _ => continue,
                    }
                }
                Shown::OfPart(name) => lowered(name),
                Shown::InFull => lowered(&section.heading),
            };
            if !name.is_empty() && !more.contains(&name) {
                more.push(name);
            }
        }
        (kept, more)
    }

    fn written(&self, shown: &[Section], headed: bool, more: &[String], width: usize) -> String {
        let mut out = fill("", &self.title, width);
        out.push_str(&fill("", &self.summary, width));
        for section in shown {
            let said = section.to_text(width);
            if said.is_empty() {
                continue;
            }
            if !section.heading.is_empty() && headed {
                out.push_str(&format!("\n{}\n", lowered(&section.heading)));
            }
            out.push('\n');
            out.push_str(&said);
        }
        if !more.is_empty() {
            out.push('\n');
            out.push_str(&fill("", &format!("With -v: {}.", more.join("; ")), width));
        }
        out
    }
}

/// Returns whether sections need their headings: if there are several tables among them.
fn is_headed(shown: &[Section]) -> bool {
    let is_named =
        |section: &&Section| matches!(section.body, Body::Table(_)) && !section.heading.is_empty();
    shown.iter().filter(is_named).count() > 1
}

impl Section {
    /// Returns what the short text calls this section where it leaves it out.
    fn name(&self) -> String {
        match (self.heading.as_str(), self.called) {
            ("", "") => REST.to_owned(),
            ("", called) => called.to_owned(),
            (heading, _) => lowered(heading),
        }
    }

    /// Returns the number of rows of a table; anything else has none.
    fn rows(&self) -> usize {
        match &self.body {
            Body::Table(table) => table.rows().len(),
            _ => 0,
        }
    }

    fn lines(&self) -> usize {
        self.to_text(WIDTH).lines().count()
    }

    /// Returns what fits into so many lines with the empty one before it: of text its first items, of a table its first rows, and its caption if all rows do; `None` if nothing does.
    fn within(&self, room: usize) -> Option<Self> {
        let of = |body| Self {
            body,
            ..self.clone()
        };
        let fits = |part: &Self| (1..room).contains(&part.lines());
        let part = match &self.body {
            Body::Text(items) => of(Body::Text(fitting(
                items,
                |item| of(Body::Text(item)),
                room,
            ))),
            Body::Facts(facts) => of(Body::Facts(fitting(
                facts,
                |fact| of(Body::Facts(fact)),
                room,
            ))),
            Body::Notes(items) => of(Body::Notes(fitting(
                items,
                |item| of(Body::Notes(item)),
                room,
            ))),
            Body::Table(table) => {
                let all = table.rows().len();
                let whole = (all < room).then(|| self.clone());
                let rows = (1..=all.min(room)).rev();
                let cut = rows.map(|rows| of(Body::Table(table.first(rows))).caption(""));
                return whole.into_iter().chain(cut).find(fits);
            }
            Body::Plot(_) | Body::Heat(_) => self.clone(),
        };
        Some(part).filter(fits)
    }

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

/// Returns the first items, those that fit into so many lines with an empty one before the first: none outlives the one
/// before it.
fn fitting<T: Clone>(items: &[T], section: impl Fn(Vec<T>) -> Section, room: usize) -> Vec<T> {
    let mut left = room.saturating_sub(1);
    let fits = |item: &&T| {
        let lines = section(vec![(*item).clone()]).lines();
        let fits = lines <= left;
        left = left.saturating_sub(lines);
        fits
    };
    items.iter().take_while(fits).cloned().collect()
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
    use super::super::LINES;
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

    /// However much there is to say: first what comes first, and all of it by name. Other formats have all of it.
    #[test]
    fn the_short_text_is_short_whatever_the_answer() {
        let long = "word ".repeat(60);
        let mut table = Table::new([("what", Align::Left), ("ε ≤", Align::Right)]);
        for row in 0..40 {
            table.row([format!("row {row}"), "2".to_owned()]);
        }
        let page = Page::new("Title", &long)
            .answer(Section::table("Guarantees", table).caption("At δ = 1e-5."))
            .answer(Section::notes("Premises", [long.as_str(), "A premise."]))
            .answer(Section::text("", [long.as_str()]))
            .section(Section::notes("Not covered", ["much"]))
            .answer_first(Section::text("", ["limit 1: above it"]));
        let brief = |page: &Page, width| {
            page.to_text(View {
                verbose: false,
                width,
            })
        };
        let text = brief(&page, 100);
        assert_eq!(text.lines().count(), LINES, "{text}");
        let more = "\nWith -v: 36 more rows of guarantees; premises; the rest of the answer; not covered.\n";
        assert!(
            text.contains("\n\nlimit 1: above it\n\nwhat ") && text.ends_with(more),
            "{text}"
        );
        assert!(
            !text.contains("At δ") && !text.contains("premise."),
            "{text}"
        );
        // The width of a terminal decides how lines break, not what is said.
        assert_eq!(
            brief(&page, 60).matches("row ").count(),
            text.matches("row ").count()
        );
        let more = brief(&page.clone().lines(22), 100);
        assert!(
            more.lines().count() <= 22 && more.contains("row 10"),
            "{more}"
        );
        let full = page.to_text(View::full());
        for text in [full, page.to_markdown(), page.to_html().unwrap()] {
            assert!(
                text.contains("row 39") && text.contains("A premise."),
                "{text}"
            );
        }
    }

    /// Rows of a table that stands for longer ones are left out with their number.
    #[test]
    fn rows_that_are_left_out_are_counted() {
        let rows = |shown: usize| {
            let mut table = Table::new([("what", Align::Left), ("AUC", Align::Right)]);
            for row in 0..shown {
                table.row([format!("row {row}"), "0.5".to_owned()]);
            }
            let page = Page::new("Title", "Result.")
                .lines(10)
                .brief(Section::table("", table))
                .answer(Section::text("", ["word ".repeat(60)]).called("inputs"));
            page.to_text(View {
                verbose: false,
                width: 100,
            })
        };
        for (shown, more) in [
            (4, "\nWith -v: 1 more row; inputs.\n"),
            (9, "\nWith -v: 6 more rows; inputs.\n"),
            (3, "\nWith -v: inputs.\n"),
        ] {
            let text = rows(shown);
            assert!(text.ends_with(more) && text.contains("row 2"), "{text}");
            assert!(text.lines().count() <= 10, "{text}");
        }
    }

    /// A long title left no room for the limit, nor a long list for its first premise.
    #[test]
    fn what_decides_is_always_said() {
        let long = "word ".repeat(60);
        let mut table = Table::new([("what", Align::Left), ("ε ≤", Align::Right)]);
        table.row(["a record", "2"]);
        let page = Page::new("Title ".repeat(300), "Result.")
            .answer(Section::table("Guarantees", table))
            .decides(Section::notes("Premises", [long.as_str(), "The second."]))
            .answer(Section::notes("Remarks", ["A remark."]))
            .answer_first(Section::text("", ["limit 1: above it"]));
        let brief = View {
            verbose: false,
            width: 100,
        };
        let text = page.to_text(brief);
        let said = ["limit 1: above it\n\n- word", "\n- The second.\n"];
        assert!(said.iter().all(|said| text.contains(said)), "{text}");
        assert!(
            text.ends_with("\nWith -v: guarantees; remarks.\n"),
            "{text}"
        );
        let card = page.to_model_card("guarantees");
        assert!(card.contains("limit 1: above it"), "{card}");
        assert!(page.to_markdown().contains("The second."));
    }

    /// The row of another guarantee stood below a headline whose own row had no room.
    #[test]
    fn a_table_does_not_outlive_the_one_before_it() {
        let table = |row: &str| {
            let mut table = Table::new([("what", Align::Left), ("ε ≤", Align::Right)]);
            table.row([row, "2"]);
            table
        };
        let page = Page::new("Title", "Result.")
            .lines(9)
            .answer(Section::table("Guarantees", table(&"first ".repeat(40))))
            .answer(Section::table("Further guarantees", table("second")));
        let text = page.to_text(View {
            verbose: false,
            width: 100,
        });
        assert_eq!(
            text,
            "Title\nResult.\n\nWith -v: guarantees; further guarantees.\n"
        );
    }

    #[test]
    fn a_remark_does_not_outlive_the_one_before_it() {
        let long = "word ".repeat(60);
        let items = ["First.", long.as_str(), "Last."];
        let part = Section::notes("", items).within(4).unwrap();
        assert_eq!(part, Section::notes("", ["First."]));
    }

    #[test]
    fn the_page_has_what_the_full_text_has() {
        let html = page().to_html().unwrap();
        assert!(html.contains("long") && !html.contains("short"));
    }
}

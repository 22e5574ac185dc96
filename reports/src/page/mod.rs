//! A command's answer as a page: a title, a sentence that states the result, and [`Section`]s.
//!
//! The HTML is self-contained (no script, font, image or external address) and works in light and dark mode, on paper
//! and with a screen reader. The text ([`View`]) shows the answer first, and the rest on request.

mod elsewhere;
mod output;
mod text;

pub use output::Output;
pub use text::{View, fill};

use elsewhere::CARD;

use crate::contract::{Align, Exit, Table};
use askama::Template;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A part of a page.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// The subject; empty if the page states it.
    heading: String,
    /// What the short text calls the section where it leaves it out; its heading if empty.
    called: &'static str,
    /// How to read the section: what columns mean, which way bounds point.
    caption: String,
    body: Body,
}

/// What a section shows.
#[derive(Debug, Clone, PartialEq)]
enum Body {
    /// One string per paragraph.
    Text(Vec<String>),
    /// Names and values.
    Facts(Vec<(String, String)>),
    /// The first column names the rows.
    Table(Table),
    /// A figure as SVG.
    Plot(String),
    /// Named lines of pieces, each shaded by a number.
    Heat(Vec<(String, Vec<Shade>)>),
    /// What the numbers do not say, and other remarks.
    Notes(Vec<String>),
}

/// The most lines of a short text of a hundred columns.
const LINES: usize = 15;

/// The most columns of a table that is placed beside another section on paper.
const NARROW: usize = 3;

impl Body {
    fn is_empty(&self) -> bool {
        match self {
            Self::Text(paragraphs) => paragraphs.is_empty(),
            Self::Facts(facts) => facts.is_empty(),
            Self::Table(table) => table.rows().is_empty(),
            Self::Plot(svg) => svg.is_empty(),
            Self::Heat(lines) => lines.is_empty(),
            Self::Notes(items) => items.is_empty(),
        }
    }
    /// Returns whether half the width of a sheet of paper is enough.
    fn is_narrow(&self) -> bool {
        match self {
            Self::Facts(_) | Self::Plot(_) | Self::Notes(_) => true,
            Self::Table(table) => table.columns().len() <= NARROW,
            Self::Text(_) | Self::Heat(_) => false,
        }
    }
}

impl Section {
    fn new(heading: impl Into<String>, body: Body) -> Self {
        Self {
            heading: heading.into(),
            called: "",
            caption: String::new(),
            body,
        }
    }
    /// Creates a section of sentences, one string per paragraph.
    #[must_use]
    pub fn text<S: Into<String>>(
        heading: impl Into<String>,
        paragraphs: impl IntoIterator<Item = S>,
    ) -> Self {
        let paragraphs = paragraphs.into_iter().map(Into::into);
        Self::new(heading, Body::Text(paragraphs.collect()))
    }
    /// Creates a section of names and values.
    #[must_use]
    pub fn facts<S: Into<String>>(
        heading: impl Into<String>,
        facts: impl IntoIterator<Item = (S, String)>,
    ) -> Self {
        let facts = facts.into_iter();
        let facts = facts.map(|(name, value)| (name.into(), value));
        Self::new(heading, Body::Facts(facts.collect()))
    }
    /// Creates a section with a table whose first column names the rows.
    #[must_use]
    pub fn table(heading: impl Into<String>, table: impl Into<Table>) -> Self {
        Self::new(heading, Body::Table(table.into()))
    }
    /// Creates a section with a table of at most `most` rows of this one, and says how many they are if there are more.
    #[must_use]
    pub fn thinned(heading: impl Into<String>, table: &Table, most: usize) -> Self {
        Self::table(heading, table.thinned(most)).of_rows(table.rows().len())
    }
    /// Says of how many rows those of the table are, if there are more.
    #[must_use]
    pub fn of_rows(self, all: usize) -> Self {
        match &self.body {
            Body::Table(table) if table.rows().len() < all => {
                let caption = format!("{} of {all} points.", table.rows().len());
                self.caption(caption)
            }
            _ => self,
        }
    }
    /// Creates a section with a figure from [`crate::plot::Plot::to_inline_svg`], which is inserted unchanged.
    #[must_use]
    pub fn plot(heading: impl Into<String>, svg: String) -> Self {
        Self::new(heading, Body::Plot(svg))
    }
    /// Creates a section with named lines of text in pieces, each shaded by a number.
    #[must_use]
    pub fn heat(heading: impl Into<String>, lines: Vec<(String, Vec<Shade>)>) -> Self {
        Self::new(heading, Body::Heat(lines))
    }
    /// Creates a section with a list of remarks.
    #[must_use]
    pub fn notes<S: Into<String>>(
        heading: impl Into<String>,
        items: impl IntoIterator<Item = S>,
    ) -> Self {
        let items = items.into_iter().map(Into::into);
        Self::new(heading, Body::Notes(items.collect()))
    }
    /// Names a section without a heading, for a short text that leaves it out.
    #[must_use]
    pub fn called(mut self, name: &'static str) -> Self {
        self.called = name;
        self
    }
    /// Adds a sentence on how to read the section.
    #[must_use]
    pub fn caption(mut self, caption: impl Into<String>) -> Self {
        self.caption = caption.into();
        self
    }
}

/// Where a section is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Shown {
    /// On the page and in every text, in the short one whole: what decides, even if it leaves no room for anything else.
    First,
    /// On the page and in every text, in the short one as far as there is room.
    Always,
    /// Only in the short text, which summarises sections that are shown in full elsewhere.
    Briefly,
    /// On the page and in the full text.
    InFull,
    /// Like `Shown::InFull`, but a section of another page, whose result the short text names once.
    OfPart(String),
}

/// A shaded piece of text.
#[derive(Debug, Clone, PartialEq)]
pub struct Shade {
    /// The text of the piece.
    pub text: String,
    /// The shade, from −1 (one colour) over 0 (none) to 1 (the other).
    pub shade: f64,
    /// The number that the shade stands for, shown on hover and read aloud.
    pub says: String,
}

impl Shade {
    /// Returns the class of the colour; the text below also shows the sign.
    fn tone(&self) -> &'static str {
        if self.shade < 0.0 { "loss" } else { "gain" }
    }
    /// Returns the strength of the colour, in percent.
    fn percent(&self) -> u32 {
        (self.shade.abs().min(1.0) * 70.0) as u32
    }
}

/// The outcome of an audit, by its SARIF term; how the summary of a page is highlighted.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
pub enum Mood {
    /// Nothing to worry about beyond what it says.
    #[default]
    #[serde(rename = "pass")]
    Plain,
    /// Nothing can be concluded: SARIF's word for "insufficient information to decide".
    #[serde(rename = "open")]
    Open,
    /// A leak that no promise and no limit covers: "requires review by a human user to decide if it represents a
    /// problem".
    #[serde(rename = "review")]
    Review,
    /// A contradiction, or a limit exceeded.
    #[serde(rename = "fail")]
    Alarm,
}

/// What an audit could have shown, whatever it measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// Whether it could have shown a leak.
    pub leak: bool,
    /// Whether it could have contradicted the promise; `None` if there is no promise.
    pub promise: Option<bool>,
    /// Whether it could have exceeded the limit; `None` if there is no limit.
    pub limit: Option<bool>,
}

/// Why the silence of an audit says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mute {
    /// The audit could not have shown a leak.
    Leak,
    /// No value it could measure exceeds the limit.
    Limit,
    /// No value it could measure contradicts the promise.
    Promise,
}

impl Reach {
    /// Returns the first reason, if there is one.
    #[must_use]
    pub fn mute(self) -> Option<Mute> {
        [
            (Some(self.leak), Mute::Leak),
            (self.limit, Mute::Limit),
            (self.promise, Mute::Promise),
        ]
        .into_iter()
        .find_map(|(could, why)| (could == Some(false)).then_some(why))
    }
    /// Returns whether a promise or a limit that the audit can test judges the result.
    fn is_judged(self) -> bool {
        [self.promise, self.limit].contains(&Some(true))
    }
}

impl Mood {
    /// Returns the mood of an ending; `otherwise` if nothing is exceeded.
    #[must_use]
    pub const fn of(exit: Exit, otherwise: Self) -> Self {
        match exit {
            Exit::Exceeded => Self::Alarm,
            Exit::Finished => otherwise,
        }
    }
    /// Returns the mood of an audit that exceeds nothing. A leak is for review unless a promise or a limit judges it.
    /// An audit without a leak is open if its result is unknown (`unknown`) or if it could not have shown anything
    /// else.
    #[must_use]
    pub fn of_leak(seen: bool, reach: Reach, unknown: bool) -> Self {
        match seen {
            true if !reach.is_judged() => Self::Review,
            false if unknown || reach.mute().is_some() => Self::Open,
            _ => Self::Plain,
        }
    }
}

impl std::fmt::Display for Mood {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.serialize(f)
    }
}

impl From<Exit> for Mood {
    fn from(exit: Exit) -> Self {
        Self::of(exit, Self::Plain)
    }
}

/// A page: a title, a sentence that states the result, and sections.
///
/// ```
/// use reticent_reports::page::{Page, Section};
/// let page = Page::new("Exposure", "No canary is ranked above chance.")
///     .section(Section::notes("Not covered", ["a < b"]));
/// let html = page.to_html()?;
/// assert!(html.contains("<h1>Exposure</h1>") && html.contains("a &#60; b"));
/// # Ok::<(), askama::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Template)]
#[template(path = "page.html")]
pub struct Page {
    title: String,
    summary: String,
    mood: Option<Mood>,
    sections: Vec<(Shown, Section)>,
    lines: usize,
    footer: String,
}

impl Page {
    /// Creates a page without sections.
    pub fn new(title: impl Into<String>, summary: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            summary: summary.into(),
            mood: None,
            sections: Vec::new(),
            lines: LINES,
            footer: format!("Written by Reticent {}.", env!("CARGO_PKG_VERSION")),
        }
    }
    /// Sets the mood in which the summary is highlighted.
    #[must_use]
    pub fn mood(mut self, mood: Mood) -> Self {
        self.mood = Some(mood);
        self
    }
    /// Appends a section that is shown on the page and in the full text.
    #[must_use]
    pub fn section(mut self, section: Section) -> Self {
        self.sections.push((Shown::InFull, section));
        self
    }
    /// The same before all others: a figure that is the answer.
    #[must_use]
    pub fn first(mut self, section: Section) -> Self {
        self.sections.insert(0, (Shown::InFull, section));
        self
    }
    /// Sets the most lines of the short text, which are 15 otherwise, unless what decides needs more.
    #[must_use]
    pub fn lines(mut self, most: usize) -> Self {
        self.lines = most;
        self
    }
    /// Appends a section that belongs to the answer and is also in the short text, as far as those before it leave room.
    #[must_use]
    pub fn answer(mut self, section: Section) -> Self {
        self.sections.push((Shown::Always, section));
        self
    }
    /// Appends a section that decides how the answer is to be read, such as a premise: the short text has all of it.
    #[must_use]
    pub fn decides(mut self, section: Section) -> Self {
        self.sections.push((Shown::First, section));
        self
    }
    /// The same before all others, such as a limit.
    #[must_use]
    pub fn answer_first(mut self, section: Section) -> Self {
        self.sections.insert(0, (Shown::First, section));
        self
    }
    /// Appends a paragraph for a model card, which that format shows.
    #[must_use]
    pub fn card(self, paragraph: impl Into<String>) -> Self {
        self.section(Section::text(CARD, [paragraph]))
    }
    /// Appends what the numbers of the page do not say.
    #[must_use]
    pub fn caveats<S: Into<String>>(self, items: impl IntoIterator<Item = S>) -> Self {
        self.section(Section::notes("What these numbers do not say", items))
    }
    /// Appends a section that replaces longer ones in the short text.
    #[must_use]
    pub fn brief(mut self, section: Section) -> Self {
        self.sections.push((Shown::Briefly, section));
        self
    }
    /// Appends another page's sections, with a name before each heading; the short text has only that page's result.
    #[must_use]
    pub fn with(mut self, name: &str, other: Self) -> Self {
        let sections = other.sections.into_iter();
        let full = sections.filter(|(shown, _)| *shown != Shown::Briefly);
        self.sections.extend(full.map(|(_, mut section)| {
            section.heading = format!("{name}: {}", lowered(&section.heading));
            (Shown::OfPart(name.to_owned()), section)
        }));
        self
    }
    /// Returns the sections of the HTML page: all that are not empty.
    fn on_page(&self) -> impl Iterator<Item = &Section> {
        let shown = self
            .sections
            .iter()
            .filter(|(shown, section)| *shown != Shown::Briefly && !section.body.is_empty());
        shown.map(|(_, section)| section)
    }
    /// Returns the sentence that states the result.
    #[must_use]
    pub fn said(&self) -> &str {
        &self.summary
    }
    /// Returns the page as HTML.
    ///
    /// # Errors
    /// Returns the template engine's error, although it writes to memory only.
    pub fn to_html(&self) -> askama::Result<String> {
        self.render()
    }
    /// Returns the mood in which the summary is highlighted.
    #[must_use]
    pub fn has_mood(&self) -> Mood {
        self.mood.unwrap_or_default()
    }
    /// Returns the outcome as a mood, if one was set.
    #[must_use]
    pub fn outcome(&self) -> Option<Mood> {
        self.mood
    }
    fn alarmed(&self) -> bool {
        self.mood == Some(Mood::Alarm)
    }
    /// Returns whether the result is for a person to judge, or decides nothing.
    fn is_undecided(&self) -> bool {
        matches!(self.mood, Some(Mood::Open | Mood::Review))
    }
    /// Returns the outcome by its name in JSON, with what it means; `None` if there is nothing to worry about.
    fn ending(&self) -> Option<&'static str> {
        match self.mood? {
            Mood::Plain => None,
            Mood::Open => Some("Outcome: open. Nothing can be concluded, or nothing is promised."),
            Mood::Review => {
                Some("Outcome: review. It leaks, and no promise and no limit judges by how much.")
            }
            Mood::Alarm => {
                Some("Outcome: fail. A limit is exceeded, or a promise is contradicted.")
            }
        }
    }
}

/// Returns a text with its first letter in lower case, unless it begins with an abbreviation in capitals.
fn lowered(text: &str) -> String {
    if text.chars().nth(1).is_some_and(char::is_uppercase) {
        return text.to_owned();
    }
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(letters).collect()
    })
}

/// Returns the class of a column's cells.
fn class(align: &Align) -> &'static str {
    match align {
        Align::Left => "left",
        Align::Right => "right",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Page {
        let mut table = Table::new([("arm", Align::Left), ("ε ≤", Align::Right)]);
        table.row(["<script>", "∞"]);
        Page::new("T", "S")
            .section(Section::table("H", table).caption("C"))
            .section(Section::plot("P", "<svg></svg>".into()).caption("C"))
    }

    #[test]
    fn text_is_escaped_and_plots_are_not() {
        let html = page().to_html().unwrap();
        assert!(html.contains("&#60;script&#62;") && !html.contains("<script"));
        assert!(html.contains("<svg></svg>"));
        let html = page().first(Section::text("First", ["of all"])).to_html();
        let html = html.unwrap();
        assert!(html.find("<h2>First</h2>").unwrap() < html.find("<h2>H</h2>").unwrap());
        assert!(html.contains("<th scope=\"col\" class=\"right\">ε ≤</th>"));
        // On a phone a row is a card, headed "0.97" of nothing.
        assert!(html.contains("<th scope=\"row\" class=\"left\" data-name=\"arm\">"));
    }

    /// What -v shows is announced in lower case.
    #[test]
    fn abbreviations_keep_their_capitals() {
        for (text, shown) in [("JFT's estimate", "JFT's estimate"), ("By kind", "by kind")] {
            assert_eq!(lowered(text), shown);
        }
    }

    #[test]
    fn nothing_is_fetched() {
        let html = page().to_html().unwrap();
        for outside in ["src=", "href=", "url(", "@import", "http://", "https://"] {
            assert!(!html.contains(outside), "{outside}");
        }
    }

    /// An open outcome and one for review looked like one that passed.
    #[test]
    fn the_outcome_is_named_unless_it_passes() {
        for mood in [Mood::Open, Mood::Review, Mood::Alarm] {
            let html = page().mood(mood).to_html().unwrap();
            assert!(html.contains(&format!("Outcome: {mood}. ")), "{html}");
            let undecided = html.contains("class=\"summary undecided\"");
            assert_eq!(undecided, mood != Mood::Alarm);
        }
        let html = page().mood(Mood::Plain).to_html().unwrap();
        assert!(!html.contains("Outcome: ") && html.contains("class=\"summary\""));
        assert!(!page().to_html().unwrap().contains("Outcome: "));
    }

    #[test]
    fn an_alarm_is_said_in_words_too() {
        let html = page().mood(Mood::Alarm).to_html().unwrap();
        assert!(html.contains("role=\"alert\""));
    }
}

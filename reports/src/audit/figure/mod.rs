//! `audit figure`: plots many documents in one figure, such as exposure against the miss rate of a
//! policy with a line for each recipe (CRT, Figures 3 to 5).

pub mod args;
mod pattern;
mod quantity;

pub use pattern::{Name, Pattern};
pub use quantity::{Known, Quantity};

use super::args::Figure as FigureArgs;
use super::diff::document;
use crate::contract::{Csv, Envelope, Exit, Inputs, Table, write_file};
use crate::number::{count_of, nearest, shortest};
use crate::page::{Output, Page, Section};
use crate::plot::{Axis, Layer, Plot, Shape, Tone};
use anyhow::{Context, Result, bail, ensure};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::path::Path;

/// The result of `audit figure`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FigureReport {
    /// The horizontal quantity.
    pub x: String,
    /// The vertical quantity.
    pub y: String,
    /// In the order of their names.
    pub lines: Vec<Line>,
    /// What y would be on average if nothing leaked, if all documents agree on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_a_leak: Option<f64>,
    /// Cells of a grid that hold no such number: they failed, know it from below only, or were asked for something else.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// The vertical quantity, which says how its numbers are rounded.
    #[serde(skip)]
    quantity: Quantity,
}

/// A line of the figure.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Line {
    /// What it stands for.
    pub line: String,
    /// In order of x.
    pub points: Vec<Repeated>,
    /// Whether its means are joined.
    #[serde(skip)]
    joined: bool,
}

/// All documents of a line at one x.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Repeated {
    /// Where.
    pub x: f64,
    /// One of each document, in the order of their names.
    pub values: Vec<f64>,
    /// Their mean.
    pub mean: f64,
}

/// The number of rows of the table in the short text.
const BRIEFLY: usize = 6;
/// The marks of the lines in turn.
const SHAPES: [Shape; 4] = [Shape::Disc, Shape::Square, Shape::Triangle, Shape::Ring];

/// The point of a document.
pub(in crate::audit) struct Point {
    pub(in crate::audit) line: String,
    pub(in crate::audit) x: f64,
    pub(in crate::audit) y: f64,
    /// What y would be on average if nothing leaked.
    pub(in crate::audit) null: Option<f64>,
    /// Whether x is a setting, or the line is one log: where x was measured too, two repetitions show no trend.
    pub(in crate::audit) joined: bool,
}

/// Reads the documents, draws the figure and prints it.
///
/// # Errors
/// Returns an error if no document matches, one can't be read or doesn't hold the quantities, or
/// the figure can't be written.
pub fn run(args: &FigureArgs, output: Output) -> Result<Exit> {
    let report = gathered(args)?;
    if let Some(path) = &args.plot {
        let svg = report.plot(args.log_x, args.log_y).to_svg()?;
        write_file(path, svg.as_bytes()).context("--plot")?;
    }
    let inputs = Inputs::new()
        .given("y", report.y.clone())?
        .given("x", report.x.clone())?;
    output.answer_with_rows(
        &Envelope::new("figure", inputs, &report),
        &report.to_page(args.log_x, args.log_y)?,
        || Ok(report.rows()),
    )
}

/// Returns the data of a figure.
///
/// # Errors
/// Returns an error as [`run`] does.
fn gathered(args: &FigureArgs) -> Result<FigureReport> {
    let names_x = args.documents.names_x();
    if names_x && args.x.is_some() {
        bail!("--x: PATTERN already contains {{x}}; give only one of the two");
    }
    ensure!(
        names_x || args.x.is_some(),
        "--x: must say what is horizontal, as PATTERN contains no {{x}}"
    );
    let (mut points, mut left_out, mut first) = (Vec::new(), Vec::new(), None);
    for (path, name) in args.documents.files()? {
        let place = || path.display().to_string();
        if path.extension().is_some_and(|ending| ending == "jsonl") {
            points.extend(logged(&path, &name, args).with_context(place)?);
            continue;
        }
        let document = document(&path)?;
        let name = of_cell(args, &path, &document).unwrap_or(name);
        let x = match (&args.x, name.x) {
            (Some(x), _) => x.of(&document).context("--x"),
            (None, Some(x)) => Ok(x),
            (None, None) => bail!("PATTERN: {} has no {{x}}", place()),
        };
        let y = args.y.of(&document).context("--y");
        let (x, y) = match x.and_then(|x| Ok((x, y?))) {
            Ok(both) => both,
            // A cell that failed takes no figure along.
            Err(error) if document["type"] == "grid-cell" => {
                left_out.push(place());
                first = first.or_else(|| Some(error.context(place())));
                continue;
            }
            Err(error) => return Err(error.context(place())),
        };
        points.push(Point {
            line: name.line,
            x,
            y,
            null: args.y.without_a_leak(&document),
            joined: args.x.as_ref().is_none_or(|x| x.is_setting(&document)),
        });
    }
    if let (true, Some(error)) = (points.is_empty(), first) {
        return Err(error.context("PATTERN: no document has the quantity to plot"));
    }
    let x = args.x_label.as_deref();
    let x = x.or_else(|| args.x.as_ref().map(Quantity::label));
    let (x, y) = (x.unwrap_or("x"), args.y.clone());
    Ok(FigureReport::of((points, left_out), x, y))
}

/// Returns the values of the file name of a grid's cell, whose line is its arm where the pattern allows: an arm's name may
/// have numbers in it, which would pass for x.
fn of_cell(args: &FigureArgs, path: &Path, document: &Value) -> Option<Name> {
    let arm = document["arm"].as_str();
    let arm = arm.filter(|_| document["type"] == "grid-cell")?;
    args.documents.read_line(path.file_name()?.to_str()?, arm)
}

/// The longest line of a log, in bytes.
const LONGEST: u64 = 1 << 20;

/// Returns the lines of a log (`training.jsonl` of a run) that hold both quantities, each as a
/// point.
fn logged(path: &Path, name: &Name, args: &FigureArgs) -> Result<Vec<Point>> {
    let x = args.x.as_ref();
    let x = x.context("--x: must say what is horizontal in a log, such as step")?;
    let mut points = Vec::new();
    for line in crate::contract::numbered_lines(path, LONGEST)? {
        let (number, line) = line?;
        let line: Value = serde_json::from_str(&line)
            .with_context(|| format!("line {number} is not a JSON document"))?;
        // Steps and ends of epochs hold different quantities.
        if let (Ok(x), Ok(y)) = (x.of(&line), args.y.of(&line)) {
            points.push(Point {
                line: name.line.clone(),
                x,
                y,
                null: None,
                joined: true,
            });
        }
    }
    ensure!(
        !points.is_empty(),
        "no line holds both {} and {}",
        x.label(),
        args.y.label()
    );
    Ok(points)
}

/// Returns the value that all share.
fn agreed(points: &[Point]) -> Option<f64> {
    let first = points.first()?.null?;
    let near = |point: &Point| {
        let null = point.null;
        null.is_some_and(|n| (n - first).abs() <= 1e-9 * first.abs())
    };
    points.iter().all(near).then_some(first)
}

fn lines(mut points: Vec<Point>) -> Vec<Line> {
    // The sort is stable: repetitions stay in the order of their names.
    points.sort_by(|a, b| a.line.cmp(&b.line).then(a.x.total_cmp(&b.x)));
    points
        .chunk_by(|a, b| a.line == b.line)
        .map(|line| Line {
            line: line[0].line.clone(),
            joined: line.iter().all(|point| point.joined),
            points: line
                .chunk_by(|a, b| a.x.total_cmp(&b.x).is_eq())
                .map(repeated)
                .collect(),
        })
        .collect()
}

fn repeated(points: &[Point]) -> Repeated {
    let values: Vec<f64> = points.iter().map(|point| point.y).collect();
    Repeated {
        x: points[0].x,
        mean: values.iter().sum::<f64>() / values.len() as f64,
        values,
    }
}

impl FigureReport {
    /// Returns the figure of these points, and of cells without one.
    pub(in crate::audit) fn of(
        (points, left_out): (Vec<Point>, Vec<String>),
        x: &str,
        y: Quantity,
    ) -> Self {
        Self {
            x: x.to_owned(),
            y: y.label().to_owned(),
            without_a_leak: agreed(&points),
            lines: lines(points),
            left_out,
            quantity: y,
        }
    }

    /// Returns how the figure is read.
    #[must_use]
    pub fn caption(&self) -> String {
        let mut said = "A mark for each document, an open arrow for an infinite value".to_owned();
        let joined = self.lines.iter().filter(|line| line.joined).count();
        said.push_str(match joined {
            0 => ".",
            all if all == self.lines.len() => ", lines through their means.",
            _ => ", lines through their means where x was not measured.",
        });
        if self.quantity.is_bound() {
            said.push_str(
                " Each is the bound of its own document at its own confidence; the largest and the mean of several hold at less.",
            );
        }
        said.push_str(&self.without());
        said
    }

    /// Says what is left out.
    fn without(&self) -> String {
        match &self.left_out[..] {
            [] => String::new(),
            all => format!(
                " Left out, as failed or without such a number: {}, {}.",
                count_of(all.len() as u64, "cell"),
                all.join(", ")
            ),
        }
    }

    /// Returns CSV: a row for each document.
    fn rows(&self) -> String {
        let mut csv = Csv::new(["line", &self.x, &self.y]);
        for line in &self.lines {
            for point in &line.points {
                for value in &point.values {
                    csv.row([line.line.clone(), point.x.to_string(), value.to_string()]);
                }
            }
        }
        csv.into_text()
    }

    /// Draws the means as lines and every document as a mark.
    #[must_use]
    pub fn plot(&self, log_x: bool, log_y: bool) -> Plot {
        let axis = |label: &str, log| {
            if log {
                Axis::log(label)
            } else {
                Axis::linear(label)
            }
        };
        let title = format!("{} over {}", self.y, self.x);
        let mut plot = Plot::new(title, axis(&self.x, log_x), axis(&self.y, log_y));
        if let Some(at) = self.without_a_leak {
            plot = plot.layer(Layer::rule("without a leak, on average", at, Tone::Muted));
        }
        for (index, line) in self.lines.iter().enumerate() {
            let tone = Tone::series(index);
            let each = |point: &Repeated| {
                let x = point.x;
                point
                    .values
                    .iter()
                    .map(move |y| (x, *y))
                    .collect::<Vec<_>>()
            };
            if line.joined {
                let means = line.points.iter().map(|p| (p.x, p.mean));
                plot = plot.layer(Layer::line("", means, tone));
            }
            plot = plot.layer(Layer::marks(
                line.line.clone(),
                line.points.iter().flat_map(each),
                tone,
                SHAPES[index % SHAPES.len()],
            ));
        }
        let said = self.lines.iter().map(|line| {
            let ends =
                [line.points.first(), line.points.last()].map(|p| p.map_or(f64::NAN, |p| p.mean));
            format!(
                "{}: from {} to {}",
                line.line,
                self.quantity.shown(ends[0], 3),
                self.quantity.shown(ends[1], 3)
            )
        });
        let said = said.collect::<Vec<_>>().join("; ");
        plot.described(format!("{said}. {}", self.caption()))
    }

    /// Returns the page: a table and the plot.
    ///
    /// # Errors
    /// Returns an error if the plot has nothing to show.
    pub fn to_page(&self, log_x: bool, log_y: bool) -> Result<Page> {
        let shown = |value| self.quantity.shown(value, 4);
        let end = |point: &Repeated, of: fn(f64, f64) -> f64| {
            let end = point.values.iter().copied().reduce(of);
            end.map_or_else(String::new, shown)
        };
        // At most so many points of each line, at even distances.
        let table = |most: usize| -> Table {
            let points = self.lines.iter().flat_map(|line| {
                let (all, kept) = (line.points.len(), line.points.len().min(most));
                let each = (0..kept).map(move |i| i * (all - 1) / (kept - 1).max(1));
                each.map(move |i| (line, &line.points[i]))
            });
            Table::of(points)
                .left("line", |(line, _)| &line.line)
                .right(&self.x, |(_, point)| shortest(point.x))
                .right("documents", |(_, point)| point.values.len().to_string())
                .right("mean", |(_, point)| shown(point.mean))
                .right("least", |(_, point)| end(point, f64::min))
                .right("largest", |(_, point)| end(point, f64::max))
                .into()
        };
        let all = self.lines.iter().flat_map(|line| &line.points);
        let documents: usize = all.map(|point| point.values.len()).sum();
        let mut said = format!(
            "{} in {}.",
            count_of(documents as u64, "point"),
            count_of(self.lines.len() as u64, "line")
        );
        if let Some(null) = self.without_a_leak {
            said = format!(
                "{said} Without a leak it is {} on average.",
                nearest(null, 3)
            );
        }
        said.push_str(&self.without());
        let brief = (BRIEFLY / self.lines.len().max(1)).max(2);
        let whole = table(usize::MAX);
        Ok(Page::new(format!("{} over {}", self.y, self.x), said)
            .brief(Section::table("", table(brief)).of_rows(whole.rows().len()))
            .section(Section::table("Point by point", whole))
            .section(
                Section::plot("Plot", self.plot(log_x, log_y).to_inline_svg()?).caption(format!(
                    "{} A logarithmic axis cannot show what is not above 0.",
                    self.caption()
                )),
            ))
    }
}

#[cfg(test)]
mod tests;

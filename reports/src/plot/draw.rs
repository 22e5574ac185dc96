//! Draws a [`Plot`] as SVG text.

use super::axis::Axis;
use super::canvas::{
    Canvas, Error, FINE, FONT, LEGEND_LINE, Pixel, Result, solid, stroke, veil, writer,
};
use super::frame::{label_gap, legend_rows, text_width, title_lines};
use super::path::{dashed, visible_runs};
use super::{Interval, Layer, Plot, Point, Tone};
use crate::contract::{MARK, printable};
use plotters::prelude::{IntoDrawingArea, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, RGBAColor};

/// Where the SVG is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    File,
    Page,
}

/// Draws a plot.
pub(super) fn svg(plot: &Plot, place: Place) -> Result<String> {
    let ends = |axis: &Axis, data: Vec<f64>| {
        axis.ends(data.into_iter()).ok_or_else(|| Error::EmptyAxis {
            axis: axis.label.clone(),
        })
    };
    let x = ends(&plot.x, extent(plot, |p| p.0, false))?;
    let y = ends(&plot.y, extent(plot, |p| p.1, true))?;
    let room = plot.size.0 as i32 - 32;
    let (title, legend) = (title_lines(plot, room), legend_rows(plot, room));
    // Two rows of names fit the usual size; what is beyond takes nothing from the data.
    let above = title.len() - 1 + legend.len().saturating_sub(2);
    let size = (plot.size.0, plot.size.1 + LEGEND_LINE as u32 * above as u32);
    let (width, height) = (size.0 as i32 * FINE, size.1 as i32 * FINE);
    let x_ticks = plot.x.ticks(x, (plot.size.0 / 90) as usize);
    let y_ticks = plot.y.ticks(y, (plot.size.1 / 60) as usize);

    let widest = y_ticks
        .iter()
        .filter_map(|t| t.text.as_ref())
        .map(|t| text_width(t))
        .max()
        .unwrap_or(0);
    let label_room = if plot.y.label.is_empty() { 0 } else { 22 };
    let mut text = String::new();
    {
        let area =
            SVGBackend::with_string(&mut text, (width as u32, height as u32)).into_drawing_area();
        let canvas = Canvas {
            area,
            x: (&plot.x, x.0, x.1),
            y: (&plot.y, y.0, y.1),
            left: (8 + label_gap(plot) + label_room + widest) * FINE,
            top: (38 + LEGEND_LINE * (title.len() - 1 + legend.len()) as i32) * FINE,
            right: width - 20 * FINE,
            bottom: height - 52 * FINE,
        };
        if place == Place::File {
            canvas.rectangle((0, 0), (width, height), solid(Tone::Paper))?;
        }
        canvas.heading(&title, &legend)?;
        canvas.axes(plot, &x_ticks, &y_ticks)?;
        for layer in &plot.layers {
            canvas.layer(layer)?;
        }
        canvas.area.present().map_err(writer)?;
    }
    Ok(finish(&text, plot, size, place))
}

/// Returns every value that the layers place on one axis.
fn extent(plot: &Plot, of: impl Fn(&Point) -> f64, vertical: bool) -> Vec<f64> {
    let mut values = Vec::new();
    for layer in &plot.layers {
        match layer {
            Layer::Line { points, .. } | Layer::Points { points, .. } => {
                values.extend(points.iter().map(&of))
            }
            Layer::Rule { at, .. } if vertical => values.push(*at),
            Layer::Intervals { rows, .. } if vertical => values.extend(rows.iter().map(|r| r.y)),
            Layer::Intervals { rows, .. } => {
                values.extend(rows.iter().flat_map(|r| [r.lower, r.upper]).flatten());
            }
            Layer::Ribbon { points, .. } => {
                values.extend(
                    points
                        .iter()
                        .flat_map(|p| [of(&(p.0, p.1)), of(&(p.0, p.2))]),
                );
            }
            Layer::Rule { .. } => {}
        }
    }
    values
}

impl Canvas<'_> {
    fn layer(&self, layer: &Layer) -> Result<()> {
        match layer {
            Layer::Line {
                points,
                tone,
                dashed,
                ..
            } => self.line(points, *tone, *dashed),
            Layer::Points {
                points,
                tone,
                shape,
                ..
            } => points.iter().try_for_each(|p| match self.pixel(*p) {
                Some(at) => self.mark(at, *shape, *tone),
                None => self.beyond(*p, *tone),
            }),
            Layer::Ribbon { points, tone, .. } => self.ribbon(points, *tone),
            Layer::Rule { at, tone, .. } => match self.down(*at) {
                Some(y) => self.dashes((self.left, y), (self.right, y), stroke(*tone, 2)),
                None => Ok(()),
            },
            Layer::Intervals {
                rows, lower, upper, ..
            } => rows
                .iter()
                .try_for_each(|row| self.interval(row, *lower, *upper)),
        }
    }
    /// Draws an open arrow at the upper or right edge for a point that is infinite there; nothing for any other that an
    /// axis can't show.
    fn beyond(&self, (x, y): Point, tone: Tone) -> Result<()> {
        let infinite = |value: f64| value.is_infinite() && value > 0.0;
        let (across, down) = match (infinite(x), infinite(y)) {
            (true, true) => (Some(self.right), Some(self.top)),
            (true, false) => (Some(self.right), self.down(y)),
            (false, true) => (self.across(x), Some(self.top)),
            (false, false) => return Ok(()),
        };
        let (Some(across), Some(down)) = (across, down) else {
            return Ok(());
        };
        let (wide, long) = (5 * FINE, 8 * FINE);
        let ends = match infinite(y) {
            true => [(across - wide, down + long), (across + wide, down + long)],
            false => [(across - long, down - wide), (across - long, down + wide)],
        };
        self.path(vec![ends[0], (across, down), ends[1]], stroke(tone, 2))
    }
    fn line(&self, points: &[Point], tone: Tone, dashes: bool) -> Result<()> {
        for run in visible_runs(points, |p| self.open_share(p)) {
            let run: Vec<Pixel> = run.into_iter().map(|s| self.pixel_at(s)).collect();
            let pieces = if dashes { dashed(&run) } else { vec![run] };
            for piece in pieces {
                self.path(piece, stroke(tone, 2))?;
            }
        }
        Ok(())
    }
    fn ribbon(&self, points: &[(f64, f64, f64)], tone: Tone) -> Result<()> {
        // An edge that the axis can't show (zero on a logarithmic one) is drawn at its foot.
        let edge = |x: f64, y: f64| {
            let foot = || {
                self.open_share((x, self.y.1))
                    .map(|(across, _)| (across, 0.0))
            };
            let (across, up) = self.open_share((x, y)).or_else(foot)?;
            (0.0..=1.0)
                .contains(&across)
                .then(|| self.pixel_at((across, up.clamp(0.0, 1.0))))
        };
        let upper = points.iter().filter_map(|p| edge(p.0, p.2));
        let lower = points.iter().rev().filter_map(|p| edge(p.0, p.1));
        let outline: Vec<Pixel> = upper.chain(lower).collect();
        if outline.len() < 3 {
            return Ok(());
        }
        self.polygon(outline, veil(tone))
    }
    fn interval(&self, row: &Interval, lower: Tone, upper: Tone) -> Result<()> {
        let Some(y) = self.down(row.y) else {
            return Ok(());
        };
        let low = row.lower.and_then(|v| self.across(v));
        let open = row.upper.is_some_and(|v| v.is_infinite());
        let high = match row.upper {
            Some(v) if v.is_infinite() => Some(self.right),
            Some(v) => self.across(v),
            None => None,
        };
        // A bar from the edge would look measured.
        if let (Some(from), Some(to)) = (low, high) {
            let style = RGBAColor::from(Tone::Muted.rgb())
                .mix(0.55)
                .stroke_width(3 * FINE as u32);
            self.path(vec![(from, y), (to, y)], style)?;
        }
        if let Some(x) = low {
            self.pointer((x, y), 1, lower)?;
        }
        match high {
            Some(x) if open => {
                self.pointer((x, y), 1, upper)?;
                let at = (x - 6 * FINE, y - 8 * FINE);
                self.write(
                    "∞",
                    at,
                    upper,
                    FONT + 2,
                    Pos::new(HPos::Right, VPos::Bottom),
                )
            }
            Some(x) => self.pointer((x, y), -1, upper),
            None => Ok(()),
        }
    }
}

/// Scales back to real pixels, adds a text description for screen readers, and, on a page, makes the
/// colours variables of the page.
fn finish(raw: &str, plot: &Plot, (width, height): (u32, u32), place: Place) -> String {
    let body = raw.split_once('>').map_or("", |(_, rest)| rest);
    let (fine_width, fine_height) = (width * FINE as u32, height * FINE as u32);
    let size = match place {
        Place::File => format!("width=\"{width}\" height=\"{height}\""),
        Place::Page => format!("class=\"plot\" style=\"max-width:{width}px\""),
    };
    let description = if plot.description.is_empty() {
        &plot.title
    } else {
        &plot.description
    };
    let mut body = body.to_owned();
    if place == Place::Page {
        for tone in Tone::ALL {
            let colour = format!("\"{}\"", tone.hex());
            body = body.replace(&colour, &format!("\"var(--{})\"", tone.variable()));
        }
        body = body.replace(" font-family=\"sans-serif\"", "");
    }
    // XML allows no control characters, but names may contain them.
    printable(&format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" {size} viewBox=\"0 0 {fine_width} {fine_height}\" role=\"img\">\n\
         {MARK}\n<title>{}</title>\n<desc>{}</desc>{body}",
        escape(&plot.title),
        escape(description),
    ))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::Shape;
    use super::*;

    fn sample() -> Plot {
        Plot::new("A < B", Axis::linear("x"), Axis::log("y"))
            .layer(Layer::line(
                "curve",
                [(0.0, 1.0), (1.0, 0.0), (2.0, 1e-3), (3.0, 1e-4)],
                Tone::First,
            ))
            .layer(Layer::rule("limit", 1e-2, Tone::Second))
    }

    #[test]
    fn a_page_gets_its_own_colours_and_a_file_gets_literal_ones() {
        let (page, file) = (
            sample().to_inline_svg().unwrap(),
            sample().to_svg().unwrap(),
        );
        assert!(page.contains("var(--tone-1)") && !page.contains("#0072B2"));
        assert!(file.contains("#0072B2") && !file.contains("var("));
        for svg in [page, file] {
            assert!(svg.contains("<title>A &lt; B</title>"));
            assert!(!svg.contains("http") || svg.matches("http").count() == 1);
        }
    }

    /// Below a promise alone nothing is drawn: a bar from the edge of a logarithmic axis looked like what was measured.
    #[test]
    fn an_interval_without_a_lower_end_has_no_bar() {
        let bars = |lower: Option<f64>| {
            let plot = Plot::new(
                "t",
                Axis::log("ε").between(0.1, 1000.0),
                Axis::linear("y").between(0.0, 1.0),
            );
            let plot = plot.layer(Layer::Intervals {
                rows: vec![Interval {
                    y: 0.5,
                    lower,
                    upper: Some(106.2),
                }],
                lower: Tone::MEASURED,
                upper: Tone::PROMISED,
                lower_name: "proved".into(),
                upper_name: "promised".into(),
            });
            let svg = plot.to_inline_svg().unwrap();
            svg.matches("opacity=\"0.55\"").count()
        };
        assert_eq!((bars(Some(2.0)), bars(None)), (1, 0));
    }

    /// C15: a file name with an escape made the figure ill-formed.
    #[test]
    fn names_with_control_characters_leave_it_well_formed() {
        let hostile = "a\u{1b}[31m\u{0}\u{9b}\u{ffff}<b";
        let mut plot = sample();
        plot.title = hostile.to_owned();
        let plot = plot.layer(Layer::rule(hostile, 1e-2, Tone::Third));
        for svg in [plot.to_svg().unwrap(), plot.to_inline_svg().unwrap()] {
            let allowed = |c: char| matches!(c, '\t' | '\n') || !c.is_control() && c != '\u{ffff}';
            assert!(svg.chars().all(allowed), "{svg}");
            assert!(svg.contains("a\\u{1b}[31m") && !svg.contains("<b"), "{svg}");
        }
    }

    #[test]
    fn a_point_without_a_place_interrupts_the_line() {
        // The second point cannot stand on a log axis: one segment is left of the two.
        let svg = sample().to_svg().unwrap();
        let curve = svg
            .lines()
            .filter(|l| l.starts_with("<polyline") && l.contains("#0072B2"))
            .count();
        assert_eq!(curve, 2, "the legend's swatch and one segment");
    }

    /// Titles were cut at the edge, before "planning only", and from 16 rows of names on the data lay below the sheet.
    #[test]
    fn titles_and_names_take_no_room_from_the_data() {
        let mut plot = sample();
        plot.title = "a title of many words ".repeat(8);
        let lines = (0..40).map(|i| Layer::Rule {
            name: format!("{i:048}"),
            at: 1e-2,
            tone: Tone::Third,
        });
        let svg = lines.fold(plot, Plot::layer).to_svg().unwrap();
        let after = |text: &str, key: &str| -> i32 {
            let (_, rest) = text.split_once(key).unwrap();
            rest.split('"').next().unwrap().parse().unwrap()
        };
        let height = FINE * after(&svg, " height=\"");
        let begins = |line: &&str| line.starts_with("a title") || line.starts_with("many ");
        let title = svg.lines().filter(begins);
        assert!(
            title.clone().all(|line| line.chars().count() <= 76),
            "{svg}"
        );
        assert_eq!(title.count(), 3, "{svg}");
        assert!(height > FINE * (400 + 38 * LEGEND_LINE), "{height}");
        let rules = svg.lines().filter(|line| line.starts_with("<text"));
        assert!(rules.map(|line| after(line, " y=\"")).all(|y| y < height));
    }

    #[test]
    fn an_infinite_point_is_an_open_arrow_at_the_edge() {
        let arrows = |more: &[Point]| {
            let mut points = vec![(0.0, 1.0), (1.0, 2.0)];
            points.extend(more);
            let marks = Layer::marks("", points, Tone::First, Shape::Disc);
            let plot = Plot::new("p", Axis::linear("x"), Axis::log("y")).layer(marks);
            let svg = plot.to_svg().unwrap();
            let drawn = |line: &&str| line.starts_with("<polyline") && line.contains("#0072B2");
            (
                svg.lines().filter(drawn).count(),
                svg.matches("<circle").count(),
            )
        };
        let infinity = f64::INFINITY;
        assert_eq!(arrows(&[]), (0, 2));
        assert_eq!(arrows(&[(0.5, infinity), (infinity, 1.5)]), (2, 2));
        assert_eq!(arrows(&[(infinity, infinity)]), (1, 2));
        // What is not known, and what no axis reaches, is nowhere.
        let nowhere = [
            (0.5, f64::NAN),
            (0.5, 0.0),
            (infinity, f64::NAN),
            (0.5, -infinity),
        ];
        assert_eq!(arrows(&nowhere), (0, 2));
    }

    #[test]
    fn nothing_to_show_is_an_error_that_names_the_axis() {
        let plot = Plot::new("empty", Axis::linear("bits"), Axis::linear("n"));
        let error = plot.to_svg().unwrap_err();
        assert_eq!(error.to_string(), "nothing to plot on the axis \"bits\"");
    }
}

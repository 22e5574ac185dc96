//! Drawing primitives, in pixels.

use super::axis::Axis;
use super::path::dashed;
use super::{Point, Shape, Tone};
use plotters::coord::Shift;
use plotters::element::{Circle, PathElement, Polygon, Rectangle, Text};
use plotters::prelude::{DrawingArea, SVGBackend};
use plotters::style::text_anchor::Pos;
use plotters::style::{Color, IntoFont, ShapeStyle, TextStyle};

/// Why a plot could not be drawn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No value can be shown on this axis, or its fixed ends are not a range.
    #[error("nothing to plot on the axis {axis:?}")]
    EmptyAxis {
        /// The label of the axis.
        axis: String,
    },
    /// The SVG writer failed.
    #[error("cannot draw the plot: {0}")]
    Writer(String),
}

pub(super) type Result<T> = std::result::Result<T, Error>;

/// The SVG writer rounds to whole pixels, so we draw at this factor and the view box scales back.
pub(super) const FINE: i32 = 4;
pub(super) const FONT: i32 = 13;
pub(super) const LEGEND_LINE: i32 = 20;

/// A position in the drawing, in fine units.
pub(super) type Pixel = (i32, i32);

pub(super) struct Canvas<'a> {
    pub(super) area: DrawingArea<SVGBackend<'a>, Shift>,
    pub(super) x: (&'a Axis, f64, f64),
    pub(super) y: (&'a Axis, f64, f64),
    pub(super) left: i32,
    pub(super) top: i32,
    pub(super) right: i32,
    pub(super) bottom: i32,
}

impl Canvas<'_> {
    pub(super) fn pixel(&self, (x, y): Point) -> Option<Pixel> {
        Some((self.across(x)?, self.down(y)?))
    }
    pub(super) fn across(&self, value: f64) -> Option<i32> {
        let share = share(self.x, value)?.clamp(0.0, 1.0);
        Some(self.pixel_at((share, 0.0)).0)
    }
    pub(super) fn down(&self, value: f64) -> Option<i32> {
        let share = share(self.y, value)?.clamp(0.0, 1.0);
        Some(self.pixel_at((0.0, share)).1)
    }
    pub(super) fn open_share(&self, (x, y): Point) -> Option<Point> {
        Some((share(self.x, x)?, share(self.y, y)?))
    }
    pub(super) fn pixel_at(&self, (across, up): Point) -> Pixel {
        (
            self.left + (across * f64::from(self.right - self.left)).round() as i32,
            self.bottom - (up * f64::from(self.bottom - self.top)).round() as i32,
        )
    }
    pub(super) fn path(&self, points: Vec<Pixel>, style: ShapeStyle) -> Result<()> {
        self.area
            .draw(&PathElement::new(points, style))
            .map_err(writer)
    }
    pub(super) fn rectangle(&self, from: Pixel, to: Pixel, style: ShapeStyle) -> Result<()> {
        self.area
            .draw(&Rectangle::new([from, to], style))
            .map_err(writer)
    }
    pub(super) fn polygon(&self, points: Vec<Pixel>, style: ShapeStyle) -> Result<()> {
        self.area.draw(&Polygon::new(points, style)).map_err(writer)
    }
    pub(super) fn write(
        &self,
        text: &str,
        at: Pixel,
        tone: Tone,
        size: i32,
        anchor: Pos,
    ) -> Result<()> {
        self.text(text, at, letters(tone, size).pos(anchor))
    }
    pub(super) fn text(&self, text: &str, at: Pixel, style: TextStyle<'_>) -> Result<()> {
        self.area
            .draw(&Text::new(text.to_owned(), at, style))
            .map_err(writer)
    }
    pub(super) fn dashes(&self, from: Pixel, to: Pixel, style: ShapeStyle) -> Result<()> {
        dashed(&[from, to])
            .into_iter()
            .try_for_each(|dash| self.path(dash, style))
    }
    /// Draws a triangle whose tip is at the value: ▸ "at least" (1), ◂ "at most" (-1).
    pub(super) fn pointer(&self, (x, y): Pixel, direction: i32, tone: Tone) -> Result<()> {
        let back = x - direction * 10 * FINE;
        let points = vec![(x, y), (back, y - 7 * FINE), (back, y + 7 * FINE)];
        self.polygon(points, solid(tone))
    }
    pub(super) fn mark(&self, (x, y): Pixel, shape: Shape, tone: Tone) -> Result<()> {
        let r = 4 * FINE;
        match shape {
            Shape::Disc => self
                .area
                .draw(&Circle::new((x, y), r, solid(tone)))
                .map_err(writer),
            Shape::Ring => self
                .area
                .draw(&Circle::new((x, y), r, stroke(tone, 2)))
                .map_err(writer),
            Shape::Square => self.rectangle((x - r, y - r), (x + r, y + r), solid(tone)),
            Shape::Triangle => {
                let points = vec![(x, y - r), (x - r, y + r), (x + r, y + r)];
                self.polygon(points, solid(tone))
            }
        }
    }
}

/// Returns the position of a value between the ends as a share: 0 to 1, or outside that range
/// beyond them. `None` if the axis can't show the value.
pub(super) fn share((axis, from, to): (&Axis, f64, f64), value: f64) -> Option<f64> {
    if !axis.shows(value) {
        return None;
    }
    let (from, to) = (axis.stretch(from), axis.stretch(to));
    Some((axis.stretch(value) - from) / (to - from))
}

pub(super) fn letters(tone: Tone, size: i32) -> TextStyle<'static> {
    // The SVG writer divides font sizes by 1.24.
    let size = f64::from(size * FINE) * 1.24;
    ("sans-serif", size).into_font().color(&tone.rgb())
}
pub(super) fn solid(tone: Tone) -> ShapeStyle {
    tone.rgb().filled()
}
pub(super) fn veil(tone: Tone) -> ShapeStyle {
    tone.rgb().mix(0.16).filled()
}
pub(super) fn stroke(tone: Tone, width: u32) -> ShapeStyle {
    tone.rgb().stroke_width(width * FINE as u32)
}
pub(super) fn writer(error: impl std::fmt::Debug) -> Error {
    Error::Writer(format!("{error:?}"))
}

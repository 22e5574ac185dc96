//! Plots as SVG: lines, steps, points, bands, rules and intervals on linear or logarithmic axes.
//!
//! A [`Plot`] is data; [`Plot::to_svg`] draws it for a file, [`Plot::to_inline_svg`] for a page
//! (it takes its colours and font from the page, and says in words what it shows). No font
//! is needed to draw, and marks differ in shape as well as in colour.

mod axis;
mod canvas;
mod draw;
mod frame;
mod path;
mod tone;

pub use axis::{Axis, Scale};
pub use canvas::Error;
pub use tone::Tone;

/// A point in the units of the axes.
pub type Point = (f64, f64);

/// The shape of a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A filled disc.
    Disc,
    /// A ring.
    Ring,
    /// A filled square.
    Square,
    /// A filled triangle, point up.
    Triangle,
}

/// One row of [`Layer::Intervals`]: what is known about a quantity, at height `y`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Where the row stands.
    pub y: f64,
    /// At least this; absent if unknown.
    pub lower: Option<f64>,
    /// At most this; absent if unknown, infinite drawn as an arrow that leaves the plot.
    pub upper: Option<f64>,
}

/// A row of [`Plot::measured`]: an estimate and its ends, where they are known.
#[cfg(feature = "findings")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    pub(crate) estimate: f64,
    pub(crate) lower: Option<f64>,
    pub(crate) upper: Option<f64>,
}

/// Something drawn. A layer with an empty name stays out of the legend.
#[derive(Debug, Clone, PartialEq)]
pub enum Layer {
    /// Points joined by lines.
    Line {
        /// What it shows.
        name: String,
        /// In drawing order; one that is not finite interrupts the line.
        points: Vec<Point>,
        /// Its colour.
        tone: Tone,
        /// Dashed instead of solid.
        dashed: bool,
    },
    /// Points joined by steps that hold each value until the next x.
    Steps {
        /// What it shows.
        name: String,
        /// In order of x.
        points: Vec<Point>,
        /// Its colour.
        tone: Tone,
    },
    /// Marks.
    Points {
        /// What they show.
        name: String,
        /// In any order.
        points: Vec<Point>,
        /// Their colour.
        tone: Tone,
        /// Their shape.
        shape: Shape,
    },
    /// A shaded range of y.
    Band {
        /// What it shows.
        name: String,
        /// Lower edge.
        from: f64,
        /// Upper edge.
        to: f64,
        /// Its colour.
        tone: Tone,
    },
    /// A shaded range of y that changes along x.
    Ribbon {
        /// What it shows.
        name: String,
        /// x, lower edge, upper edge, in order of x; edges beyond the axis end at it.
        points: Vec<(f64, f64, f64)>,
        /// Its colour.
        tone: Tone,
    },
    /// A dashed line across the plot at one height.
    Rule {
        /// What it shows.
        name: String,
        /// Its height.
        at: f64,
        /// Its colour.
        tone: Tone,
    },
    /// Horizontal intervals: a lower bound ▸, an upper bound ◂, and the room between them.
    Intervals {
        /// One row each.
        rows: Vec<Interval>,
        /// Colour of the lower ends.
        lower: Tone,
        /// Colour of the upper ends.
        upper: Tone,
        /// Name of the lower ends.
        lower_name: String,
        /// Name of the upper ends.
        upper_name: String,
    },
}

/// A plot: two axes and what is drawn over them, in order.
///
/// ```
/// use reticent_reports::plot::{Axis, Layer, Plot, Tone};
/// let curve = (0..50).map(|i| (f64::from(i) / 10.0, (-f64::from(i) / 5.0).exp())).collect();
/// let svg = Plot::new("Privacy curve", Axis::linear("ε (nats)"), Axis::log("δ"))
///     .layer(Layer::Line { name: "upper bound".into(), points: curve, tone: Tone::First, dashed: false })
///     .to_svg()?;
/// assert!(svg.starts_with("<svg") && svg.contains("Privacy curve"));
/// # Ok::<(), reticent_reports::plot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// What it shows; printed above it.
    pub title: String,
    /// What a reader who cannot see it should know; the title if empty.
    pub description: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Drawn in this order.
    pub layers: Vec<Layer>,
    /// Width and height in pixels.
    pub size: (u32, u32),
}

impl Plot {
    /// An empty plot of the usual size.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self {
            title: title.into(),
            description: String::new(),
            x,
            y,
            layers: Vec::new(),
            size: (720, 400),
        }
    }
    /// Adds a layer on top.
    #[must_use]
    pub fn layer(mut self, layer: Layer) -> Self {
        self.layers.push(layer);
        self
    }
    /// Adds measured values with what is known of them, the first in the top row.
    #[cfg(feature = "findings")]
    #[must_use]
    pub(crate) fn measured(self, rows: &[Measured]) -> Self {
        let y = |index: usize| (rows.len() - 1 - index) as f64;
        let intervals = rows.iter().enumerate().map(|(index, row)| Interval {
            y: y(index),
            lower: row.lower,
            upper: row.upper,
        });
        let points = rows.iter().enumerate();
        let points = points.map(|(index, row)| (row.estimate, y(index)));
        self.layer(Layer::Intervals {
            rows: intervals.collect(),
            lower: Tone::MEASURED,
            upper: Tone::MEASURED,
            lower_name: "at least".into(),
            upper_name: "at most".into(),
        })
        .layer(Layer::Points {
            name: "measured".into(),
            points: points.collect(),
            tone: Tone::MEASURED,
            shape: Shape::Disc,
        })
    }
    /// Says in words what the plot shows.
    #[must_use]
    pub fn described(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }
    /// Sets the size in pixels.
    #[must_use]
    pub fn sized(mut self, width: u32, height: u32) -> Self {
        self.size = (width, height);
        self
    }
    /// A file of its own: dark on white.
    ///
    /// # Errors
    /// An axis without anything finite to show, or an empty range.
    pub fn to_svg(&self) -> Result<String, Error> {
        draw::svg(self, draw::Place::File)
    }
    /// Part of a page: transparent, colours and font from the page, as wide as there is room.
    ///
    /// # Errors
    /// As [`Plot::to_svg`].
    pub fn to_inline_svg(&self) -> Result<String, Error> {
        draw::svg(self, draw::Place::Page)
    }
}

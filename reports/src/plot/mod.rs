//! Plots as SVG: lines, steps, points, bands, rules and intervals on linear or logarithmic axes.
//!
//! A [`Plot`] is data; [`Plot::to_svg`] draws it for a file, [`Plot::to_inline_svg`] for a page, from
//! which the figure takes its colours and font; both include a text description. Drawing needs no font,
//! and marks differ in shape as well as in colour.

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
    /// The height of the row.
    pub y: f64,
    /// The lower bound; absent if unknown.
    pub lower: Option<f64>,
    /// The upper bound; absent if unknown. An infinite one is drawn as an arrow that leaves the plot.
    pub upper: Option<f64>,
}

/// A row of [`Plot::measured`]: an estimate with its bounds, where they are known.
#[cfg(feature = "findings")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    pub(crate) estimate: f64,
    pub(crate) lower: Option<f64>,
    pub(crate) upper: Option<f64>,
}

/// A layer of a plot. A layer with an empty name is not in the legend.
#[derive(Debug, Clone, PartialEq)]
pub enum Layer {
    /// Points joined by lines.
    Line {
        /// What it shows.
        name: String,
        /// The points in drawing order; a point that is not finite interrupts the line.
        points: Vec<Point>,
        /// Its colour.
        tone: Tone,
        /// Whether it is dashed instead of solid.
        dashed: bool,
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
    /// A shaded range of y along x.
    Ribbon {
        /// What it shows.
        name: String,
        /// x, lower edge and upper edge, in order of x; edges beyond the axis are cut there.
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
    /// Horizontal intervals: a lower bound ▸, an upper bound ◂, and the range between them where both are known.
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

impl Layer {
    /// Points joined by a solid line.
    pub fn line(
        name: impl Into<String>,
        points: impl IntoIterator<Item = Point>,
        tone: Tone,
    ) -> Self {
        Self::joined(name, points, tone, false)
    }
    /// Points joined by a dashed line.
    pub fn dashes(
        name: impl Into<String>,
        points: impl IntoIterator<Item = Point>,
        tone: Tone,
    ) -> Self {
        Self::joined(name, points, tone, true)
    }
    fn joined(
        name: impl Into<String>,
        points: impl IntoIterator<Item = Point>,
        tone: Tone,
        dashed: bool,
    ) -> Self {
        Self::Line {
            name: name.into(),
            points: points.into_iter().collect(),
            tone,
            dashed,
        }
    }
    /// Creates a line of steps that hold each value until the next x: what a falling upper bound says between its points.
    pub fn steps(name: impl Into<String>, points: &[Point], tone: Tone) -> Self {
        Self::line(name, path::stairs(points), tone)
    }
    /// A mark at each point.
    pub fn marks(
        name: impl Into<String>,
        points: impl IntoIterator<Item = Point>,
        tone: Tone,
        shape: Shape,
    ) -> Self {
        Self::Points {
            name: name.into(),
            points: points.into_iter().collect(),
            tone,
            shape,
        }
    }
    /// A dashed line across the plot.
    pub fn rule(name: impl Into<String>, at: f64, tone: Tone) -> Self {
        let name = name.into();
        Self::Rule { name, at, tone }
    }
}

/// A plot: two axes and the layers drawn over them, in order.
///
/// ```
/// use reticent_reports::plot::{Axis, Layer, Plot, Tone};
/// let curve = (0..50).map(|i| (f64::from(i) / 10.0, (-f64::from(i) / 5.0).exp()));
/// let svg = Plot::new("Privacy curve", Axis::linear("ε (nats)"), Axis::log("δ"))
///     .layer(Layer::line("upper bound", curve, Tone::First))
///     .to_svg()?;
/// assert!(svg.starts_with("<svg") && svg.contains("Privacy curve"));
/// # Ok::<(), reticent_reports::plot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// The title, printed above the plot.
    pub title: String,
    /// A text description for readers who can't see the plot; the title if empty.
    pub description: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The layers in drawing order.
    pub layers: Vec<Layer>,
    /// Width and height in pixels.
    pub size: (u32, u32),
}

impl Plot {
    /// Creates an empty plot of the usual size.
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
    /// Creates an empty plot of named rows, the first at the top, each so many pixels high beside the room for the rest.
    #[cfg(feature = "findings")]
    pub(crate) fn of_rows<S: Into<String>>(
        title: impl Into<String>,
        x: Axis,
        (label, names): (&str, impl IntoIterator<Item = S>),
        (room, each): (u32, u32),
    ) -> Self {
        let mut names: Vec<String> = names.into_iter().map(Into::into).collect();
        names.reverse();
        let rows = u32::try_from(names.len()).unwrap_or(100);
        Self::new(title, x, Axis::categories(label, names)).sized(720, room + each * rows)
    }
    /// Adds what is known of each row, the first at the top: its lower and its upper bound, in the tone and by the name
    /// that each end has.
    #[cfg(feature = "findings")]
    #[must_use]
    pub(crate) fn intervals(
        self,
        rows: &[(Option<f64>, Option<f64>)],
        (lower, lower_name): (Tone, &str),
        (upper, upper_name): (Tone, &str),
    ) -> Self {
        let last = rows.len().saturating_sub(1);
        let rows = rows.iter().enumerate();
        let rows = rows.map(|(index, (lower, upper))| Interval {
            y: (last - index) as f64,
            lower: *lower,
            upper: *upper,
        });
        self.layer(Layer::Intervals {
            rows: rows.collect(),
            lower,
            upper,
            lower_name: lower_name.into(),
            upper_name: upper_name.into(),
        })
    }
    /// Adds measured values with their bounds; the first is in the top row.
    #[cfg(feature = "findings")]
    #[must_use]
    pub(crate) fn measured(self, rows: &[Measured]) -> Self {
        let ends: Vec<_> = rows.iter().map(|row| (row.lower, row.upper)).collect();
        let last = rows.len().saturating_sub(1);
        let points = rows.iter().enumerate();
        let points = points.map(|(index, row)| (row.estimate, (last - index) as f64));
        self.intervals(
            &ends,
            (Tone::MEASURED, "at least"),
            (Tone::MEASURED, "at most"),
        )
        .layer(Layer::marks(
            "measured",
            points,
            Tone::MEASURED,
            Shape::Disc,
        ))
    }
    /// Sets the text description.
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
    /// Draws the plot for a file of its own: dark on white.
    ///
    /// # Errors
    /// Returns an error if an axis has nothing finite to show or an empty range.
    pub fn to_svg(&self) -> Result<String, Error> {
        draw::svg(self, draw::Place::File)
    }
    /// Draws the plot for a page: transparent, with the page's colours and font, as wide as there is room.
    ///
    /// # Errors
    /// Returns an error as [`Plot::to_svg`] does.
    pub fn to_inline_svg(&self) -> Result<String, Error> {
        draw::svg(self, draw::Place::Page)
    }
}

//! The parts of a plot around the data: title, legend, axes.

use super::axis::Tick;
use super::canvas::{Canvas, FINE, FONT, LEGEND_LINE, Pixel, Result, letters, stroke, veil};
use super::{Layer, Plot, Tone};
use crate::page::fill;
use plotters::style::FontTransform;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Where a text lies at its point.
const fn at(h_pos: HPos, v_pos: VPos) -> Pos {
    Pos { h_pos, v_pos }
}
const BEFORE: Pos = at(HPos::Right, VPos::Center);
const BEHIND: Pos = at(HPos::Left, VPos::Center);
const BELOW: Pos = at(HPos::Center, VPos::Top);

/// Which name of a layer a legend entry shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    Only,
    Lower,
    Upper,
}

pub(super) fn entry_name(layer: &Layer, entry: Entry) -> &str {
    match layer {
        Layer::Line { name, .. }
        | Layer::Points { name, .. }
        | Layer::Ribbon { name, .. }
        | Layer::Rule { name, .. } => name,
        Layer::Intervals { lower_name, .. } if entry == Entry::Lower => lower_name,
        Layer::Intervals { upper_name, .. } => upper_name,
    }
}

/// Lays out the legend entries in rows of at most `room` pixels; each entry comes with its x.
pub(super) fn legend_rows(plot: &Plot, room: i32) -> Vec<Vec<(&Layer, Entry, i32)>> {
    let mut rows: Vec<Vec<(&Layer, Entry, i32)>> = Vec::new();
    let mut x = 0;
    for layer in &plot.layers {
        let entries: &[Entry] = match layer {
            Layer::Intervals { .. } => &[Entry::Lower, Entry::Upper],
            _ => &[Entry::Only],
        };
        for entry in entries {
            let name = entry_name(layer, *entry);
            if name.is_empty() {
                continue;
            }
            let width = 26 + text_width(name) + 18;
            if rows.is_empty() || x + width > room {
                rows.push(Vec::new());
                x = 0;
            }
            if let Some(row) = rows.last_mut() {
                row.push((layer, *entry, x));
            }
            x += width;
        }
    }
    rows
}

/// Breaks the title into lines of at most `room` pixels.
pub(super) fn title_lines(plot: &Plot, room: i32) -> Vec<String> {
    // Its letters are a quarter larger than those of a legend.
    let letters = room / (text_width("m") + 2);
    let lines = fill("", &plot.title, usize::try_from(letters).unwrap_or(1));
    match lines.is_empty() {
        true => vec![String::new()],
        false => lines.lines().map(str::to_owned).collect(),
    }
}

/// Returns a generous estimate of the width of a tick or legend text, in pixels; no font is read.
pub(super) fn text_width(text: &str) -> i32 {
    (text.chars().count() as f64 * 6.7).ceil() as i32
}

/// Returns the distance in pixels between the names on the left and the data; the end of an
/// interval that lies on the edge extends into it.
pub(super) fn label_gap(plot: &Plot) -> i32 {
    let reaches = |layer: &Layer| matches!(layer, Layer::Intervals { .. });
    if plot.layers.iter().any(reaches) {
        14
    } else {
        8
    }
}

impl Canvas<'_> {
    pub(super) fn heading(
        &self,
        title: &[String],
        legend: &[Vec<(&Layer, Entry, i32)>],
    ) -> Result<()> {
        for (row, line) in title.iter().enumerate() {
            let style = letters(Tone::Ink, 15).pos(Pos::new(HPos::Left, VPos::Top));
            let y = (10 + LEGEND_LINE * row as i32) * FINE;
            self.text(line, (16 * FINE, y), style)?;
        }
        for (row, entries) in legend.iter().enumerate() {
            let y = (20 + LEGEND_LINE * (title.len() + row) as i32) * FINE;
            for (layer, entry, x) in entries {
                let x = (16 + x) * FINE;
                self.swatch(layer, *entry, (x, y))?;
                let at = (x + 26 * FINE, y);
                let name = entry_name(layer, *entry);
                self.write(name, at, Tone::Ink, FONT - 1, BEHIND)?;
            }
        }
        Ok(())
    }
    pub(super) fn swatch(&self, layer: &Layer, entry: Entry, (x, y): Pixel) -> Result<()> {
        let (end, middle) = (x + 20 * FINE, x + 10 * FINE);
        match (layer, entry) {
            (
                Layer::Line {
                    tone,
                    dashed: false,
                    ..
                },
                _,
            ) => self.path(vec![(x, y), (end, y)], stroke(*tone, 2)),
            (Layer::Line { tone, .. } | Layer::Rule { tone, .. }, _) => {
                self.dashes((x, y), (end, y), stroke(*tone, 2))
            }
            (Layer::Points { tone, shape, .. }, _) => self.mark((middle, y), *shape, *tone),
            (Layer::Ribbon { tone, .. }, _) => {
                self.rectangle((x, y - 6 * FINE), (end, y + 6 * FINE), veil(*tone))
            }
            (Layer::Intervals { lower, .. }, Entry::Lower) => self.pointer((middle, y), 1, *lower),
            (Layer::Intervals { upper, .. }, _) => self.pointer((middle, y), -1, *upper),
        }
    }
    pub(super) fn axes(&self, plot: &Plot, x_ticks: &[Tick], y_ticks: &[Tick]) -> Result<()> {
        for tick in y_ticks {
            let Some(y) = self.down(tick.at) else {
                continue;
            };
            if let Some(text) = &tick.text {
                self.path(vec![(self.left, y), (self.right, y)], stroke(Tone::Grid, 1))?;
                let at = (self.left - label_gap(plot) * FINE, y);
                self.write(text, at, Tone::Muted, FONT - 1, BEFORE)?;
            } else {
                let from = (self.left - 3 * FINE, y);
                self.path(vec![from, (self.left, y)], stroke(Tone::Muted, 1))?;
            }
        }
        for tick in x_ticks {
            let Some(x) = self.across(tick.at) else {
                continue;
            };
            let length = if tick.text.is_some() { 5 } else { 3 };
            let foot = (x, self.bottom + length * FINE);
            self.path(vec![(x, self.bottom), foot], stroke(Tone::Muted, 1))?;
            if let Some(text) = &tick.text {
                let at = (x, self.bottom + 8 * FINE);
                self.write(text, at, Tone::Muted, FONT - 1, BELOW)?;
            }
        }
        let base = vec![(self.left, self.bottom), (self.right, self.bottom)];
        self.path(base, stroke(Tone::Muted, 1))?;
        let below = ((self.left + self.right) / 2, self.bottom + 28 * FINE);
        self.write(&plot.x.label, below, Tone::Ink, FONT, BELOW)?;
        let beside = (14 * FINE, (self.top + self.bottom) / 2);
        let turned = letters(Tone::Ink, FONT)
            .transform(FontTransform::Rotate270)
            .pos(BELOW);
        self.text(&plot.y.label, beside, turned)
    }
}

//! Colours by role, so that a page can recolour them for light and dark mode.

use plotters::style::RGBColor;

/// The role of a colour. The colours of the series are those of Okabe and Ito, which most people
/// can distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Text and axes.
    Ink,
    /// Secondary text, tick marks.
    Muted,
    /// Grid lines.
    Grid,
    /// The background of a plot.
    Paper,
    /// First series: blue.
    First,
    /// Second series: vermilion.
    Second,
    /// Third series: green.
    Third,
    /// Fourth series: purple.
    Fourth,
    /// Fifth series: amber.
    Fifth,
}

impl Tone {
    /// The colour of measured values on every page.
    pub const MEASURED: Self = Self::First;
    /// The colour of promised values on every page; in a series of lines it is the second.
    pub const PROMISED: Self = Self::Second;

    /// All roles.
    pub const ALL: [Self; 9] = [
        Self::Ink,
        Self::Muted,
        Self::Grid,
        Self::Paper,
        Self::First,
        Self::Second,
        Self::Third,
        Self::Fourth,
        Self::Fifth,
    ];

    /// Returns the series colours in turn.
    #[must_use]
    pub const fn series(index: usize) -> Self {
        match index % 5 {
            0 => Self::First,
            1 => Self::Second,
            2 => Self::Third,
            3 => Self::Fourth,
            _ => Self::Fifth,
        }
    }
    /// Returns the name of the page's CSS variable, without its dashes.
    pub(super) const fn variable(self) -> &'static str {
        match self {
            Self::Ink => "ink",
            Self::Muted => "muted",
            Self::Grid => "grid",
            Self::Paper => "paper",
            Self::First => "tone-1",
            Self::Second => "tone-2",
            Self::Third => "tone-3",
            Self::Fourth => "tone-4",
            Self::Fifth => "tone-5",
        }
    }
    /// Returns the colour on white paper.
    pub(super) const fn rgb(self) -> RGBColor {
        match self {
            Self::Ink => RGBColor(0x1b, 0x1f, 0x24),
            Self::Muted => RGBColor(0x57, 0x60, 0x6a),
            Self::Grid => RGBColor(0xe1, 0xe4, 0xe8),
            Self::Paper => RGBColor(0xff, 0xff, 0xff),
            Self::First => RGBColor(0x00, 0x72, 0xb2),
            Self::Second => RGBColor(0xd5, 0x5e, 0x00),
            Self::Third => RGBColor(0x00, 0x9e, 0x73),
            Self::Fourth => RGBColor(0xb0, 0x52, 0x8a),
            Self::Fifth => RGBColor(0xc2, 0x8a, 0x00),
        }
    }
    /// Returns the colour in the SVG writer's spelling.
    pub(super) fn hex(self) -> String {
        let RGBColor(red, green, blue) = self.rgb();
        format!("#{red:02X}{green:02X}{blue:02X}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_roles_share_a_colour() {
        // The page swaps colours by their spelling.
        let spelled: BTreeSet<_> = Tone::ALL.iter().map(|t| t.hex()).collect();
        assert_eq!(spelled.len(), Tone::ALL.len());
    }
}

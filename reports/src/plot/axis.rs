//! Axes of plots: a scale, a range, and round ticks.

use crate::number;

/// How values map to lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps.
    Linear,
    /// Equal factors; values at or below zero are not shown.
    Log,
}

/// An axis of a plot.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// The quantity that it measures, with its unit.
    pub label: String,
    /// The scale.
    pub scale: Scale,
    /// The ends; taken from the data if absent.
    pub range: Option<(f64, f64)>,
    /// The ticks by position and text, for named categories; chosen if absent.
    pub ticks: Option<Vec<(f64, String)>>,
}

/// A tick: its position and its text (`None` for a minor tick).
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    pub(super) at: f64,
    pub(super) text: Option<String>,
}

impl Axis {
    /// Creates a linear axis.
    pub fn linear(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            scale: Scale::Linear,
            range: None,
            ticks: None,
        }
    }
    /// Creates a logarithmic axis.
    pub fn log(label: impl Into<String>) -> Self {
        Self {
            scale: Scale::Log,
            ..Self::linear(label)
        }
    }
    /// Creates an axis with named rows or columns at 0, 1, 2, … and half a step of room at the
    /// ends.
    pub fn categories<S: Into<String>>(
        label: impl Into<String>,
        names: impl IntoIterator<Item = S>,
    ) -> Self {
        let ticks: Vec<(f64, String)> = names
            .into_iter()
            .enumerate()
            .map(|(index, name)| (index as f64, name.into()))
            .collect();
        let last = ticks.len().saturating_sub(1) as f64;
        Self {
            range: Some((-0.5, last + 0.5)),
            ticks: Some(ticks),
            ..Self::linear(label)
        }
    }
    /// Creates an axis of ε in whole decades around the finite bounds, with room on the right for the others.
    #[cfg(feature = "findings")]
    pub(crate) fn around(rows: &[(Option<f64>, Option<f64>)]) -> Self {
        let all = rows.iter().flat_map(|(lower, upper)| [*lower, *upper]);
        let finite = all.flatten().filter(|v| v.is_finite() && *v > 0.0);
        let (low, high) = finite.fold((1.0, 10.0), |(low, high), value| {
            (value.min(low), value.max(high))
        });
        let decade = |value: f64| 10f64.powf(value);
        Self::log("ε (nats)").between(
            decade(low.log10().floor()).max(f64::MIN_POSITIVE),
            decade((high * 1.5).log10().ceil()).min(f64::MAX),
        )
    }
    /// Fixes the ends.
    #[must_use]
    pub fn between(mut self, from: f64, to: f64) -> Self {
        self.range = Some((from, to));
        self
    }
    /// Returns whether this axis can show a value.
    pub(super) fn shows(&self, value: f64) -> bool {
        value.is_finite() && (self.scale == Scale::Linear || value > 0.0)
    }
    /// Maps a value to the scale on which equal lengths are equal steps.
    pub(super) fn stretch(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value,
            Scale::Log => value.log10(),
        }
    }
    /// Returns the ends: the fixed ones, or those of the data with a little room, widened to ticks
    /// on a logarithmic axis.
    pub(super) fn ends(&self, data: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
        if let Some((from, to)) = self.range {
            return (self.shows(from) && self.shows(to) && from < to).then_some((from, to));
        }
        let (mut from, mut to) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in data.filter(|v| self.shows(*v)) {
            from = from.min(value);
            to = to.max(value);
        }
        if from > to {
            return None;
        }
        let (from, to) = match self.scale {
            Scale::Linear => {
                let room = match to > from {
                    true => (to - from) * 0.04,
                    false => (to.abs() * 1e-9).max(0.5),
                };
                // People expect an axis to end at zero: no room below data that begin there.
                let low = if from >= 0.0 && from < room {
                    0.0
                } else {
                    from - room
                };
                (low, to + room)
            }
            Scale::Log => {
                let (low, high) = (from.log10().floor(), to.log10().ceil());
                let high = if high > low { high } else { low + 1.0 };
                let (low, high) = (10f64.powf(low), 10f64.powf(high));
                let least = f64::MIN_POSITIVE;
                (low.max(least), high.clamp(10.0 * least, f64::MAX))
            }
        };
        (to - from).is_finite().then_some((from, to))
    }
    /// Returns the ticks between the ends, about `wanted` of them with labels.
    pub(super) fn ticks(&self, (from, to): (f64, f64), wanted: usize) -> Vec<Tick> {
        if let Some(fixed) = &self.ticks {
            let inside = fixed.iter().filter(|(at, _)| *at >= from && *at <= to);
            return inside
                .map(|(at, text)| Tick {
                    at: *at,
                    text: Some(text.clone()),
                })
                .collect();
        }
        match self.scale {
            Scale::Linear => linear_ticks(from, to, wanted),
            Scale::Log => log_ticks(from, to, wanted),
        }
    }
}

fn linear_ticks(from: f64, to: f64, wanted: usize) -> Vec<Tick> {
    let rough = (to - from) / wanted.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|m| m * power)
        .find(|s| *s >= rough * 0.999)
        .unwrap_or(10.0 * power);
    // The ends are too close to each other for numbers between them.
    if !(step > 0.0 && from + step > from) {
        return Vec::new();
    }
    let places = usize::try_from(-(step.log10() + 1e-9).floor() as i64).unwrap_or(0);
    let first = (from / step - 1e-9).ceil() as i64;
    let last = (to / step + 1e-9).floor() as i64;
    (first..=last)
        .map(|i| {
            let at = i as f64 * step;
            let text = match at.abs() >= 1e6 || places > 12 {
                true => number::described(at),
                false => format!("{at:.places$}"),
            };
            Tick {
                at,
                text: Some(text),
            }
        })
        .collect()
}

fn log_ticks(from: f64, to: f64, wanted: usize) -> Vec<Tick> {
    let (low, high) = (
        (from.log10() - 1e-9).ceil() as i32,
        (to.log10() + 1e-9).floor() as i32,
    );
    let decades = usize::try_from(high - low + 1).unwrap_or(0);
    let every = i32::try_from(decades.div_ceil(wanted.max(1)))
        .unwrap_or(1)
        .max(1);
    let mut ticks = Vec::new();
    for power in (low - 1)..=high {
        let decade = 10f64.powi(power);
        for digit in 1..10 {
            let at = f64::from(digit) * decade;
            if at < from * 0.999_999 || at > to * 1.000_001 {
                continue;
            }
            let labelled = match digit {
                1 => power.rem_euclid(every) == 0,
                // With few decades there is room for labels in between.
                2 | 5 => decades <= 3,
                _ => false,
            };
            // With many decades there is no room for minor ticks.
            if labelled || digit == 1 || decades <= 8 {
                ticks.push(Tick {
                    at,
                    text: labelled.then(|| power_text(at, power)),
                });
            }
        }
    }
    ticks
}

fn power_text(at: f64, power: i32) -> String {
    if (-3..=5).contains(&power) {
        number::shortest((at * 1e6).round() / 1e6)
    } else {
        let digit = (at / 10f64.powi(power)).round();
        format!("{digit}e{power}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(ticks: &[Tick]) -> Vec<&str> {
        ticks.iter().filter_map(|t| t.text.as_deref()).collect()
    }

    #[test]
    fn linear_ticks_are_round_numbers() {
        let axis = Axis::linear("bits");
        assert_eq!(
            texts(&axis.ticks((0.0, 20.0), 5)),
            ["0", "5", "10", "15", "20"]
        );
        assert_eq!(
            texts(&axis.ticks((0.0, 0.3), 3)),
            ["0.0", "0.1", "0.2", "0.3"]
        );
    }

    #[test]
    fn log_ticks_are_powers_thinned_when_many() {
        let axis = Axis::log("δ");
        let ticks = axis.ticks((1e-12, 1.0), 5);
        assert_eq!(texts(&ticks), ["1e-12", "1e-9", "1e-6", "0.001", "1"]);
        let few = axis.ticks((1.0, 100.0), 5);
        assert_eq!(
            texts(&few),
            ["1", "2", "5", "10", "20", "50", "100"],
            "room for what lies between"
        );
    }

    /// A perplexity of 1e17 ended the command, and larger ones filled the memory with ticks.
    #[test]
    fn numbers_of_any_size_have_few_ticks_or_no_axis() {
        let tiny = f64::from_bits(1);
        for scale in [Axis::linear("x"), Axis::log("x")] {
            for data in [
                [1e17, 1e17],
                [1e17, 1e17 + 16.0],
                [2.0, 1.5e308],
                [f64::MAX, f64::MAX],
                [-f64::MAX, f64::MAX],
                [tiny, 1e-310],
                [0.0, tiny],
                [1e-40, 2e-40],
            ] {
                let Some(ends) = scale.ends(data.into_iter()) else {
                    continue;
                };
                assert!(ends.0 < ends.1 && (ends.1 - ends.0).is_finite(), "{data:?}");
                let ticks = scale.ticks(ends, 8);
                assert!(ticks.len() < 1000, "{data:?}: {}", ticks.len());
            }
        }
        assert_eq!(
            Axis::linear("x").ends([-f64::MAX, f64::MAX].into_iter()),
            None
        );
        assert!(Axis::log("x").ends([2.0, 1.5e308].into_iter()).is_some());
    }

    /// A proved ε of 0.02 was drawn at 0.1, where the axis began.
    #[cfg(feature = "findings")]
    #[test]
    fn an_axis_of_bounds_reaches_around_them() {
        let ends = |rows: &[_]| Axis::around(rows).range.unwrap();
        let (from, to) = ends(&[(Some(0.02), Some(f64::INFINITY)), (None, Some(0.5))]);
        assert!(from < 0.02 && (9.0..1000.0).contains(&to), "{from} {to}");
        assert!(ends(&[(Some(3.0), Some(2e4))]).1 > 2e4);
        assert!((ends(&[(None, None)]).0 - 1.0).abs() < 1e-12);
    }

    #[test]
    fn ends_come_from_the_finite_data() {
        let axis = Axis::log("δ");
        let (from, to) = axis.ends([0.0, 3e-6, f64::NAN, 0.2].into_iter()).unwrap();
        assert!((from / 1e-6 - 1.0).abs() < 1e-12 && (to - 1.0).abs() < 1e-12);
        assert_eq!(axis.ends([0.0, -1.0].into_iter()), None);
        assert!(
            Axis::linear("x")
                .between(2.0, 1.0)
                .ends([].into_iter())
                .is_none()
        );
    }
}

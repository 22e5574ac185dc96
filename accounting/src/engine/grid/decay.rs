//! Bounds on the transform of a law on lines beyond a frequency, computed from the masses
//! themselves.

use std::borrow::Cow;
use std::f64::consts::PI;

/// Room for the rounding error of sums over all masses.
const ROOM: f64 = 1e-9;

/// Masses on lines, ascending, with bounds on their transform at high frequencies.
pub(crate) struct Decay<'m> {
    masses: &'m [(i64, f64)],
    lines: f64,
    /// ln Σ m.
    ln_whole: f64,
    /// The mass that exceeds its neighbours, and the total variation of the rest.
    spikes: f64,
    variation: f64,
}

impl<'m> Decay<'m> {
    pub(crate) fn new(masses: &'m [(i64, f64)], lines: i64) -> Self {
        let whole: f64 = masses.iter().map(|(_, m)| m).sum();
        // A line's mass counts as smooth up to the larger of its neighbours.
        let merged = merged(masses);
        let mass_at = |i: Option<usize>, line: i64| {
            i.and_then(|i| merged.get(i))
                .filter(|(index, _)| *index == line)
                .map_or(0.0, |(_, mass)| *mass)
        };
        let (mut spikes, mut variation) = (0.0, 0.0);
        let mut before = (i64::MIN, 0.0);
        for (i, (index, mass)) in merged.iter().enumerate() {
            let left = mass_at(i.checked_sub(1), index - 1);
            let right = mass_at(Some(i + 1), index + 1);
            let smooth = mass.min(left.max(right));
            spikes += mass - smooth;
            variation += if before.0 == index - 1 {
                f64::abs(smooth - before.1)
            } else {
                before.1 + smooth
            };
            before = (*index, smooth);
        }
        Self {
            masses,
            lines: lines as f64,
            ln_whole: whole.ln(),
            spikes: spikes * (1.0 + ROOM),
            variation: (variation + before.1) * (1.0 + ROOM),
        }
    }

    /// Returns ln of a bound on |F_k| for all k ≤ n/2 in [from, 2·from); only the faster bound is
    /// computed if it is at most `enough`.
    ///
    /// |Σ m_i e^{iαi}| ≤ spikes + variation/(2 sin(α/2)) by summation by parts. In addition, in every
    /// window whose pairs have α|i − j| ≤ π, 1 − cos x ≥ 2x²/π² gives
    /// 1 − |F/Σm|² = Σ m_i m_j (1 − cos α(i − j)) ≥ (2α²/π²) Σ m_i m_j (i − j)².
    pub(crate) fn ln_most(&self, from: i64, enough: f64) -> f64 {
        let turns = from as f64 / self.lines;
        let rough = (self.spikes + self.variation / (2.0 * (PI * turns).sin())).ln();
        if rough <= enough {
            return rough;
        }
        let widest = (0.25 / turns).floor() as i64;
        let mut spread = 0.0;
        let mut window = Window::default();
        for (index, mass) in self.masses {
            if index - window.first > widest {
                spread += window.mass * window.squares;
                window = Window {
                    first: *index,
                    ..Window::default()
                };
            }
            window.add((index - window.first) as f64, *mass);
        }
        spread += window.mass * window.squares;
        // Σ m_i m_j (i − j)² is twice mass times squares; α = 2π·turns.
        let lost = 16.0 * turns * turns * spread * (-2.0 * self.ln_whole).exp() * (1.0 - 1e-6);
        let slow = self.ln_whole + 0.5 * (-lost.min(1.0)).ln_1p();
        slow.min(rough)
    }
}

/// Mass, mean and sum of squares about the mean of masses that lie close together.
#[derive(Debug, Clone, Copy)]
struct Window {
    first: i64,
    mass: f64,
    mean: f64,
    squares: f64,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            first: i64::MIN / 2,
            mass: 0.0,
            mean: 0.0,
            squares: 0.0,
        }
    }
}

impl Window {
    fn add(&mut self, x: f64, mass: f64) {
        self.mass += mass;
        let from = x - self.mean;
        self.mean += from * (mass / self.mass);
        self.squares += mass * from * (x - self.mean);
    }
}

/// Merges masses on the same line.
fn merged(masses: &[(i64, f64)]) -> Cow<'_, [(i64, f64)]> {
    // Copying this many masses is worth avoiding.
    if masses.windows(2).all(|pair| pair[0].0 != pair[1].0) {
        return Cow::Borrowed(masses);
    }
    let mut merged: Vec<(i64, f64)> = Vec::with_capacity(masses.len());
    for (index, mass) in masses {
        match merged.last_mut() {
            Some(last) if last.0 == *index => last.1 += mass,
            _ => merged.push((*index, *mass)),
        }
    }
    Cow::Owned(merged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_frequency_exceeds_its_bound() {
        // A spike, a bump, stray lines; frequencies from slow to the fastest.
        let mut masses: Vec<(i64, f64)> = vec![(-900, 0.05), (-400, 0.2)];
        masses.extend((-60..60).map(|i| (i, 0.01 * (-(i as f64 / 25.0).powi(2)).exp())));
        masses.extend([(300, 0.02), (301, 0.04), (700, 1e-3)]);
        let lines = 1i64 << 13;
        let decay = Decay::new(&masses, lines);
        let mut tight = false;
        for power in 1..12 {
            let from = 1i64 << power;
            let bound = decay.ln_most(from, f64::NEG_INFINITY);
            let quick = decay.ln_most(from, f64::INFINITY);
            assert!(bound <= quick);
            for k in (from..2 * from).step_by((from as usize / 64).max(1)) {
                let turn = std::f64::consts::TAU * k as f64 / lines as f64;
                let (mut re, mut im) = (0.0, 0.0);
                for (index, mass) in &masses {
                    re += mass * (turn * *index as f64).cos();
                    im += mass * (turn * *index as f64).sin();
                }
                let size = f64::hypot(re, im).ln();
                assert!(size <= bound + 1e-12, "frequency {k}: {size} above {bound}");
                tight |= size > bound - 0.2 && bound < decay.ln_whole - 0.05;
            }
        }
        assert!(tight);
    }
}

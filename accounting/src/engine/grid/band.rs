//! The composed, tilted law from the lowest frequencies of its transform, if the others are
//! bounded: even a grid far too fine to be laid out then costs no more than these.
//!
//! With F the transform of the tilted law on n lines and g the gain of each line, Σ F(v) g(v) = 1/n
//! Σ_k F_k^T conj(ĝ_k), and ĝ_k is a pair of geometric series. The omitted terms amount to at most
//! 1/n Σ_{k ≥ K} |F_k|^T |ĝ_k|, twice.

use super::blocks::BLOCK_BYTES;
use super::decay::Decay;
use super::spectrum::{Spectrum, Tilted};
use crate::numeric::special::ROUND;
use realfft::num_complex::Complex;
use std::f64::consts::{PI, TAU};

/// The fewest and the most frequencies, as powers of two.
const FREQUENCIES: std::ops::RangeInclusive<u32> = 5..=16;
/// The most memory for the moments of all blocks, in bytes.
const MOST_MEMORY: usize = 14 << 20;
/// The rounding error of one term of the sum.
const TERM_ERROR: f64 = 64.0 * ROUND;

/// Π F_i(k)^{T_i} for the lowest k.
#[derive(Debug)]
pub(crate) struct Band {
    /// The number of lines on the circle, a power of two.
    lines: i64,
    /// The powers, each with a bound on its error.
    powers: Vec<(Complex<f64>, f64)>,
    /// The position of the window's first line on the circle.
    base: i64,
    /// Bounds on the terms of all other frequencies.
    beyond: Beyond,
}

/// Bounds on what all frequencies from one on add to the sum: from the gains just above ε, and from
/// gains that begin at z, divided by e^{(1−θ)z}.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Beyond {
    near: f64,
    far: f64,
}

/// The gains (e^{(1−θ)z} − e^{−θz}) on lines z0 + jh.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gains {
    pub(crate) theta: f64,
    pub(crate) spacing: f64,
    /// The window's first line, relative to ε.
    pub(crate) first: f64,
    /// The index of the window's first line above ε.
    pub(crate) skip: i64,
}

/// A sum with bounds on its errors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BandSum {
    pub(crate) sum: f64,
    pub(crate) transform: f64,
    pub(crate) rounding: f64,
}

impl Band {
    /// Returns how many of the lowest frequencies leave at most `goal` to all others, with the
    /// bound on those; `None` if it would take too many.
    pub(crate) fn reach(
        parts: &[(&Tilted, f64)],
        lines: i64,
        (theta, spacing): (f64, f64),
        goal: f64,
    ) -> Option<(usize, Beyond)> {
        let decays: Vec<(Decay<'_>, f64)> = (parts.iter())
            .map(|(tilted, times)| (Decay::new(&tilted.masses, lines), *times))
            .collect();
        let mut terms = Vec::new();
        let enough = goal.ln() - 60.0;
        for power in *FREQUENCIES.start()..lines.trailing_zeros() {
            let k = 1i64 << power;
            let ln: f64 = decays
                .iter()
                .map(|(decay, times)| times * decay.ln_most(k, enough / times))
                .sum();
            terms.push(Beyond::between(k, ln, lines, (theta, spacing)));
        }
        // Gains seldom begin later than a quarter of the window above ε.
        let fade = ((1.0 - theta) * 0.25 * lines as f64 * spacing).exp();
        let most_masses = parts
            .iter()
            .map(|(law, _)| law.masses.len())
            .max()
            .unwrap_or(0);
        let mut beyond = Beyond::default();
        let mut found = None;
        for (i, term) in terms.iter().enumerate().rev() {
            beyond.near += term.near;
            beyond.far += term.far;
            let power = FREQUENCIES.start() + i as u32;
            let within = beyond.near + fade * beyond.far <= goal;
            if !within {
                break;
            }
            let blocks = most_masses.min(8 << power);
            if power <= *FREQUENCIES.end() && blocks * BLOCK_BYTES <= MOST_MEMORY {
                found = Some((1usize << power, beyond));
            }
        }
        found
    }

    /// Creates a band from a spectrum of the lowest frequencies; line `start` is the window's
    /// first.
    pub(crate) fn new(spectrum: &Spectrum, start: i64, beyond: Beyond) -> Self {
        Self {
            lines: spectrum.lines,
            base: start.wrapping_sub(spectrum.shift),
            powers: spectrum.powers().collect(),
            beyond,
        }
    }

    /// Returns the number of frequencies that are kept.
    pub(crate) fn count(&self) -> usize {
        self.powers.len()
    }

    /// Returns 1/n Σ_k F_k^T conj(ĝ_k).
    pub(crate) fn sum(&self, gains: &Gains) -> BandSum {
        let n = self.lines as f64;
        if gains.skip >= self.lines {
            return BandSum {
                sum: 0.0,
                transform: 0.0,
                rounding: 0.0,
            };
        }
        let start = (gains.first + gains.skip as f64 * gains.spacing).max(0.0);
        let end = gains.first + n * gains.spacing;
        let fade = |z: f64| ((1.0 - gains.theta) * z).exp();
        let mut far = fade(end);
        if start > gains.spacing {
            far += fade(start);
        }
        let (mut sum, mut size) = (0.0, 0.0);
        let mut transform = self.beyond.near + self.beyond.far * far;
        let turn = |k: i64, line: i64| {
            let place = k.wrapping_mul(line) & (self.lines - 1);
            Complex::cis(TAU * (place as f64 / n))
        };
        let change = |order: f64| (order * gains.spacing).exp_m1();
        let changes = (change(1.0 - gains.theta), change(-gains.theta));
        let (start, end) = (Start::new(start, gains), Start::new(end, gains));
        for (k, (power, error)) in self.powers.iter().enumerate() {
            let k = k as i64;
            let series = Series::new(k as f64 / n, changes);
            let (near, near_size) = series.from(&start);
            let (far, far_size) = series.from(&end);
            let each = if k == 0 { 1.0 } else { 2.0 } / n;
            let gain = turn(k, self.base.wrapping_add(gains.skip)) * near;
            let gain = gain - turn(k, self.base) * far;
            let most = near_size + far_size;
            sum += each * (power * gain).re;
            size += each * power.norm() * most;
            transform += each * error * most;
        }
        BandSum {
            sum,
            transform,
            rounding: (TERM_ERROR + ROUND * self.powers.len() as f64) * size,
        }
    }
}

/// Σ_j (e^{(1−θ)(z + jh)} − e^{−θ(z + jh)}) e^{iαj}.
struct Series {
    /// 1 − e^{(1−θ)h + iα}, 1 − e^{−θh + iα}.
    slow: Complex<f64>,
    fast: Complex<f64>,
}

/// The common part of all series that begin at one place.
enum Start {
    /// For a place below one, with (1 + θz).
    Near {
        rise: f64,
        rest: f64,
        fade: f64,
        size: f64,
    },
    /// The exponents and the powers.
    Far { slow: (f64, f64), fast: (f64, f64) },
}

impl Start {
    fn new(z: f64, gains: &Gains) -> Self {
        let Gains { theta, spacing, .. } = *gains;
        if z < 1.0 {
            return Self::Near {
                rise: z.exp_m1(),
                rest: z.exp() * (spacing - z).exp_m1(),
                fade: (-theta * z).exp(),
                size: 1.0 + theta * z,
            };
        }
        let (slow, fast) = ((1.0 - theta) * z, -theta * z);
        Self::Far {
            slow: (slow, slow.exp()),
            fast: (fast, fast.exp()),
        }
    }
}

impl Series {
    /// Creates a series from the changes e^{(1−θ)h} − 1 and e^{−θh} − 1.
    fn new(turns: f64, (slow, fast): (f64, f64)) -> Self {
        let (half_sin, half_cos) = (PI * turns).sin_cos();
        let (sin, versine) = (2.0 * half_sin * half_cos, 2.0 * half_sin * half_sin);
        let one_minus =
            |change: f64| Complex::new(-change + (1.0 + change) * versine, -(1.0 + change) * sin);
        Self {
            slow: one_minus(slow),
            fast: one_minus(fast),
        }
    }

    /// Returns the series from `start` on, and the size to which its rounding error is
    /// proportional.
    fn from(&self, start: &Start) -> (Complex<f64>, f64) {
        match *start {
            Start::Near {
                rise,
                rest,
                fade,
                size,
            } => {
                // Over the common denominator, nothing cancels below z = h.
                let turned = Complex::new(1.0, 0.0) - self.fast;
                let scale = fade / (self.slow.norm() * self.fast.norm());
                let value = (turned * rest + rise) / (self.slow * self.fast) * fade;
                (value, scale * (rise + rest.abs()) * size)
            }
            Start::Far { slow, fast } => {
                let (a, b) = (self.slow.inv() * slow.1, self.fast.inv() * fast.1);
                (a - b, a.norm() * (1.0 - slow.0) + b.norm() * (1.0 - fast.0))
            }
        }
    }
}

impl Beyond {
    /// Returns bounds for k in [from, 2·from), where |F|^T ≤ e^`ln_most`.
    fn between(from: i64, ln_most: f64, lines: i64, (theta, spacing): (f64, f64)) -> Self {
        let (k, n) = (from as f64, lines as f64);
        // |1 − r e^{iα}| ≥ 2 √r |sin(α/2)|, and sines are least at the left end.
        let sine = 2.0 * (PI * k / n).sin();
        let least = |order: f64| (0.5 * order * spacing).exp() * sine;
        let (slow, fast) = (least(1.0 - theta), least(-theta));
        let most = ln_most.exp() * 2.0 * k / n * (1.0 + 1e-9);
        Self {
            near: most * spacing.exp_m1() / (slow * fast),
            far: most * (1.0 / slow + 1.0 / fast),
        }
    }
}

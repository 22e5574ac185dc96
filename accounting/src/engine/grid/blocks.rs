//! Transforms of masses on lines: all frequencies of a circle, or, by the masses' local moments, the lowest
//! ones of a circle far too long to be laid out.

use crate::numeric::special::{LANES, ROUND};
use crate::numeric::sum::Sum;
use realfft::RealFftPlanner;
use realfft::num_complex::Complex;
use std::f64::consts::{PI, TAU};

/// The relative error in the 2-norm of one transform of length N, divided by log2 N (Higham 2002, Theorem
/// 24.2, gives less than 7 roundings for radix two; mixed radices do no worse).
const TRANSFORM_ERROR: f64 = 10.0 * ROUND;
/// Circles of this many lines are transformed in two halves.
pub(super) const IN_HALVES: usize = 1 << 19;
/// The number of moments kept for a block of several lines.
const MOMENTS: usize = 14;
/// The memory of such a block.
pub(super) const BLOCK_BYTES: usize = 8 * (MOMENTS + 1);

/// Returns the relative error in the 2-norm of a transform of length `n`.
pub(crate) fn transform_error(n: usize) -> f64 {
    TRANSFORM_ERROR * (n as f64).log2().max(1.0)
}

/// Masses gathered in blocks of equally many lines, B of them around the circle: line width·(place + x/2)
/// for −1 ≤ x ≤ 1, for which Σ m x^j is stored.
///
/// Frequency k turns by 2πk·place/B + xβ with β = πk/B, so that F(k) = Σ_place e^{−2πik·place/B} Σ_j
/// (−iβ)^j/j! Σ m x^j, up to β^J/J! for J moments.
pub(super) struct Blocks {
    /// The number of blocks around the circle.
    count: usize,
    /// The number of moments of each block: one if blocks are single lines.
    terms: usize,
    places: Vec<i64>,
    /// The first moment of every block, then the second of every block, and so on.
    moments: Vec<f64>,
}

impl Blocks {
    /// Creates blocks from masses by ascending index; `count` divides `lines`.
    pub(super) fn new(masses: &[(i64, f64)], lines: i64, count: usize) -> Self {
        let width = lines / count as i64;
        let terms = if width == 1 { 1 } else { MOMENTS };
        let place_of = |index: i64| (index + width / 2).div_euclid(width);
        let mut places: Vec<i64> = masses.iter().map(|(index, _)| place_of(*index)).collect();
        places.dedup();
        let here = places.len();
        let mut moments = vec![0.0; terms * here];
        let mut rest = masses;
        for (i, place) in places.iter().enumerate() {
            let next = rest
                .iter()
                .position(|(index, _)| place_of(*index) != *place);
            let (block, others) = rest.split_at(next.unwrap_or(rest.len()));
            rest = others;
            let mut sums = [Sum::default(); MOMENTS];
            for (index, mass) in block {
                let x = (index - width * place) as f64 / (0.5 * width as f64);
                let mut term = *mass;
                for sum in sums.iter_mut().take(terms) {
                    sum.add(term);
                    term *= x;
                }
            }
            for (j, sum) in sums.iter().take(terms).enumerate() {
                moments[j * here + i] = sum.value();
            }
        }
        Self {
            count,
            terms,
            places,
            moments,
        }
    }

    /// Returns the approximate number of multiplications for one exact frequency.
    pub(super) fn cost(&self) -> f64 {
        (self.places.len() * (2 + self.terms)).max(1) as f64
    }

    /// Returns the same in terms of time: moments are multiplied in lanes.
    pub(super) fn taken(&self) -> f64 {
        let faster = if self.terms == 1 { 1.0 } else { 0.5 };
        faster * self.cost()
    }

    /// Returns the approximate number of values that [`Blocks::all`] transforms.
    pub(super) fn transformed(&self) -> f64 {
        (self.count * self.terms) as f64
    }

    /// Returns whether every line is a block of its own.
    pub(super) fn whole_circle(&self) -> bool {
        self.terms == 1
    }

    /// Returns the first `bins` frequencies by fast transforms, with a bound on the error of each.
    pub(super) fn all(&self, bins: usize) -> (Vec<Complex<f64>>, f64) {
        let n = self.count;
        if self.terms == 1 && n >= IN_HALVES {
            return self.in_halves(bins);
        }
        let forward = RealFftPlanner::<f64>::new().plan_fft_forward(n);
        let mut scratch = forward.make_scratch_vec();
        let mut input = vec![0.0; n];
        let mut output = forward.make_output_vec();
        let mut totals = vec![Complex::new(0.0, 0.0); if self.terms == 1 { 0 } else { bins }];
        let (mut worst, mut coefficient) = (0.0, 1.0);
        let most = PI * (bins - 1) as f64 / n as f64;
        for j in 0..self.terms {
            input.fill(0.0);
            for (i, place) in self.places.iter().enumerate() {
                input[place.rem_euclid(n as i64) as usize] +=
                    self.moments[j * self.places.len() + i];
            }
            let norm = input.iter().map(|x| x * x).sum::<f64>().sqrt();
            worst += coefficient * transform_error(n) * (n as f64).sqrt() * norm * 1.01;
            // The lengths agree by construction.
            let done = forward.process_with_scratch(&mut input, &mut output, &mut scratch);
            debug_assert!(done.is_ok(), "lengths agree");
            if self.terms == 1 {
                output.truncate(bins);
                return (output, worst);
            }
            for (k, (total, rough)) in totals.iter_mut().zip(&output).enumerate() {
                *total += rough * self.coefficient(k, j);
            }
            coefficient *= most / (j + 1) as f64;
        }
        (totals, worst + 1.01 * (coefficient + 8.0 * ROUND))
    }

    /// Returns the same if every line is a block of its own, transforming even and odd lines separately:
    /// the planner's tables and the lines take half the memory. This is one layer of the same transform, so
    /// its bound holds.
    pub(super) fn in_halves(&self, bins: usize) -> (Vec<Complex<f64>>, f64) {
        let (n, half) = (self.count, self.count / 2);
        let forward = RealFftPlanner::<f64>::new().plan_fft_forward(half);
        let mut scratch = forward.make_scratch_vec();
        let mut input = vec![0.0; half];
        let mut square = 0.0;
        let mut of = |parity: usize| {
            input.fill(0.0);
            for (place, moment) in self.places.iter().zip(&self.moments) {
                let line = place.rem_euclid(n as i64) as usize;
                if line % 2 == parity {
                    input[line / 2] += moment;
                }
            }
            square += input.iter().map(|x| x * x).sum::<f64>();
            let mut output = forward.make_output_vec();
            // The lengths agree by construction.
            let done = forward.process_with_scratch(&mut input, &mut output, &mut scratch);
            debug_assert!(done.is_ok(), "lengths agree");
            output
        };
        let (even, odd) = (of(0), of(1));
        drop((input, scratch, forward));
        // The transform of real numbers: the upper frequencies are the conjugates of the lower ones.
        let at = |part: &[Complex<f64>], k: usize| match k % half {
            k if k <= half / 2 => part[k],
            k => part[half - k].conj(),
        };
        let value = |k: usize| {
            let turn = Complex::from_polar(1.0, -TAU * k as f64 / n as f64);
            at(&even, k) + turn * at(&odd, k)
        };
        let worst = transform_error(n) * (n as f64).sqrt() * square.sqrt() * 1.01;
        ((0..bins).map(value).collect(), worst)
    }

    /// Returns (−iβ)^j/j! at frequency k.
    fn coefficient(&self, k: usize, j: usize) -> Complex<f64> {
        let beta = PI * k as f64 / self.count as f64;
        let size = (1..=j).fold(1.0, |size, i| size * beta / i as f64);
        match j % 4 {
            0 => Complex::new(size, 0.0),
            1 => Complex::new(0.0, -size),
            2 => Complex::new(-size, 0.0),
            _ => Complex::new(0.0, size),
        }
    }

    /// Returns frequency k, with each term exact to a few roundings and a compensated sum.
    pub(super) fn at(&self, k: usize, circle: &Circle) -> (f64, f64) {
        let coefficients: Vec<f64> = (0..self.terms)
            .map(|j| self.coefficient(k, j))
            // Either part is zero.
            .map(|coefficient| coefficient.re + coefficient.im)
            .collect();
        let here = self.places.len();
        let (mut re, mut im) = (LaneSums::default(), LaneSums::default());
        for (chunk, places) in self.places.chunks(LANES).enumerate() {
            let from = chunk * LANES;
            let (mut even, mut odd) = ([0.0; LANES], [0.0; LANES]);
            for (j, coefficient) in coefficients.iter().enumerate() {
                let moments = &self.moments[j * here + from..][..places.len()];
                let sums = if j % 2 == 0 { &mut even } else { &mut odd };
                match <&[f64; LANES]>::try_from(moments) {
                    Ok(moments) => {
                        for i in 0..LANES {
                            sums[i] += moments[i] * coefficient;
                        }
                    }
                    Err(_) => {
                        for (sum, moment) in sums.iter_mut().zip(moments) {
                            *sum += moment * coefficient;
                        }
                    }
                }
            }
            let (mut real, mut imaginary) = ([0.0; LANES], [0.0; LANES]);
            for (i, place) in places.iter().enumerate() {
                let (sin, cos) = circle.at(place.wrapping_mul(k as i64));
                real[i] = even[i] * cos + odd[i] * sin;
                imaginary[i] = odd[i] * cos - even[i] * sin;
            }
            re.add(&real);
            im.add(&imaginary);
        }
        (re.value(), im.value())
    }
}

/// Compensated sums in parallel lanes.
#[derive(Default)]
struct LaneSums {
    total: [f64; LANES],
    lost: [f64; LANES],
}

impl LaneSums {
    fn add(&mut self, terms: &[f64; LANES]) {
        let sums = self.total.iter_mut().zip(&mut self.lost);
        for ((total, lost), term) in sums.zip(terms) {
            // The lost part is exact whichever of the two is larger (Knuth 1997, §4.2.2, Theorem B).
            let next = *total + term;
            let added = next - *total;
            *lost += (*total - (next - added)) + (term - added);
            *total = next;
        }
    }

    fn value(&self) -> f64 {
        let mut sum = Sum::default();
        for part in self.total.iter().chain(&self.lost) {
            sum.add(*part);
        }
        sum.value()
    }
}

/// Sines and cosines of 2πm/N for any integer m, from two tables.
pub(super) struct Circle {
    pub(super) n: i64,
    coarse: Vec<(f64, f64)>,
    fine: Vec<(f64, f64)>,
}

/// The number of entries of the finer table.
const FINE: usize = 1024;

impl Circle {
    pub(super) fn new(n: usize) -> Self {
        debug_assert!(n.is_power_of_two(), "circles are powers of two");
        let turn = |m: usize| (TAU * (m as f64 / n as f64)).sin_cos();
        Self {
            n: n as i64,
            coarse: (0..n.div_ceil(FINE)).map(|m| turn(m * FINE)).collect(),
            fine: (0..FINE.min(n)).map(turn).collect(),
        }
    }

    pub(super) fn at(&self, m: i64) -> (f64, f64) {
        // N is a power of two, so this is the remainder of negative numbers too.
        let m = (m & (self.n - 1)) as usize;
        let (a, b) = (self.coarse[m / FINE], self.fine[m % FINE]);
        (a.0 * b.1 + a.1 * b.0, a.1 * b.1 - a.0 * b.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the sum over lines itself, for lines in blocks of sixteen and one by one, and for numbers of
    /// blocks that no lanes divide.
    #[test]
    fn exact_frequencies_are_sums_over_lines() {
        let lines = 4096i64;
        for reach in [5i64, 190, 1003] {
            let masses: Vec<(i64, f64)> = (-reach..reach / 2)
                .map(|i| (i, 1.0 + (0.37 * i as f64).sin()))
                .collect();
            let whole: f64 = masses.iter().map(|(_, mass)| mass).sum();
            for count in [256usize, 4096] {
                let blocks = Blocks::new(&masses, lines, count);
                let circle = Circle::new(count);
                let (rough, worst) = blocks.all(33);
                for (k, rough) in rough.iter().enumerate() {
                    let turn = |i: i64| -TAU * (i * k as i64) as f64 / lines as f64;
                    let (mut re, mut im) = (Sum::default(), Sum::default());
                    for (i, mass) in &masses {
                        re.add(mass * turn(*i).cos());
                        im.add(mass * turn(*i).sin());
                    }
                    let (re, im) = (re.value(), im.value());
                    let found = blocks.at(k, &circle);
                    let off = (found.0 - re).hypot(found.1 - im);
                    // Angles of the truth itself are off by a rounding.
                    assert!(off <= 1e-14 * whole, "{reach} {count} {k}: {off:e}");
                    let off = (rough.re - re).hypot(rough.im - im);
                    assert!(off <= worst * whole, "{reach} {count} {k}: {off:e}");
                }
            }
        }
    }
}

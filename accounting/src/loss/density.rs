//! Densities that are positive sums of shifted Gaussians or Laplace densities of unit scale.

use crate::loss::Mixture;
use crate::numeric::special::{LN_SQRT_TAU, ROUND, ln_add_exp, ln_normal_tail};
use crate::numeric::sum::Sum;
use std::f64::consts::LN_2;

/// The density that is shifted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// e^{−x²/2}/√(2π).
    Gaussian,
    /// e^{−|x|}/2.
    Laplace,
}

impl Shape {
    /// Returns ln of the unshifted density.
    pub(crate) fn ln_base(self, x: f64) -> f64 {
        match self {
            Self::Gaussian => -0.5 * x * x - LN_SQRT_TAU,
            Self::Laplace => -x.abs() - std::f64::consts::LN_2,
        }
    }

    /// Returns ln of the ratio of the density shifted to `position` to the unshifted one, and its slope in x.
    fn exponent(self, x: f64, position: f64) -> (f64, f64) {
        match self {
            Self::Gaussian => (position * (x - 0.5 * position), position),
            Self::Laplace => (
                x.abs() - (x - position).abs(),
                x.signum() - (x - position).signum(),
            ),
        }
    }

    /// Returns the size to which the rounding error of [`Shape::exponent`] is proportional.
    fn exponent_size(self, x: f64, position: f64) -> f64 {
        let far = x.abs() + position.abs();
        match self {
            Self::Gaussian => 3.0 * (position * (x - 0.5 * position)).abs(),
            // Without a shift, the exponent is exact.
            Self::Laplace if position.abs() > 0.0 => 3.0 * far,
            Self::Laplace => 0.0,
        }
    }

    /// Returns ln P(X > x).
    pub(crate) fn ln_tail(self, x: f64) -> f64 {
        match self {
            Self::Gaussian => ln_normal_tail(x),
            Self::Laplace if x > 0.0 => -x - std::f64::consts::LN_2,
            Self::Laplace => (-0.5 * x.exp()).ln_1p(),
        }
    }

    /// Returns a distance beyond which at most e^`ln_mass` is left on one side.
    pub(crate) fn reach(self, ln_mass: f64) -> f64 {
        let depth = (-ln_mass).max(1.0);
        match self {
            // P(X > z) ≤ e^{−z²/2}/2.
            Self::Gaussian => (2.0 * depth).sqrt(),
            Self::Laplace => depth,
        }
    }
}

/// Terms whose logarithm lies this far below that of the largest are far below its rounding error, even a million of
/// them together.
const NEGLIGIBLE: f64 = -60.0;
/// ln of the share of a density that components may have to be left out of it.
const LEFT_OUT: f64 = -200.0;
/// The exponential of this is zero.
const UNDERFLOW: f64 = -746.0;

/// Σ w_k f(x − κ_k), with positions κ_k of any sign, in units of the scale.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Density {
    /// (κ_k, ln w_k).
    components: Vec<(f64, f64)>,
    /// Σ w_k − 1, if it is known more accurately than the weights.
    excess: Option<Excess>,
    /// The index of a component and its contribution to M − 1 wherever this density replaces the original one, if the
    /// contribution is known more accurately than from the weight.
    constant: Option<(usize, Excess)>,
    /// A bound on the relative error of the weights, in units of one rounding, beyond that of their logarithms.
    roundings: f64,
}

/// The difference between the sum of the weights and one.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Excess {
    value: f64,
    /// A bound on the error of `value`, in units of one rounding.
    roundings: f64,
}

/// The components on one side of an interval, merged into one at its `end`.
struct Gathered {
    end: f64,
    ln_weight: f64,
    /// As in [`Density`].
    roundings: f64,
    /// The merged weight minus the original weights.
    lost: Excess,
}

/// ln M(x), where M is the ratio of the density to the unshifted one, with its slope and a bound on the rounding error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ratio {
    pub(crate) ln: f64,
    pub(crate) slope: f64,
    pub(crate) error: f64,
}

impl Density {
    /// Creates a density from components of total weight one.
    pub(crate) const fn complete(components: Vec<(f64, f64)>) -> Self {
        let none = Excess {
            value: 0.0,
            roundings: 0.0,
        };
        Self {
            components,
            excess: Some(none),
            constant: None,
            roundings: 0.0,
        }
    }

    /// Creates the density of a mixture, or its mirror image for `sign` −1.
    pub(crate) fn of_mixture(mixture: &Mixture, sign: f64) -> Self {
        let all = Self::complete(mixture.components().map(|(k, w)| (sign * k, w)).collect());
        Self {
            excess: all.excess.filter(|_| mixture.missing() <= 0.0),
            ..all
        }
    }

    /// Returns the same Gaussian density between two places without the outermost components that have next to nothing of
    /// it there. The share of all components beyond a position rises with x, so that it is largest at an end.
    pub(crate) fn within(&self, from: Option<f64>, to: Option<f64>) -> Self {
        let mut rest = self.components.clone();
        rest.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut left_out = Vec::new();
        for (end, sign) in [(to, 1.0), (from, -1.0)] {
            let Some(x) = end else { continue };
            let term = |(k, w): &(f64, f64)| w + k * (x - 0.5 * k);
            let sum = |all: &[(f64, f64)]| all.iter().map(term).fold(f64::NEG_INFINITY, ln_add_exp);
            let least = sum(&rest) + LEFT_OUT - LN_2;
            let mut beyond = f64::NEG_INFINITY;
            while rest.len() > 1 {
                let place = if sign > 0.0 { rest.len() - 1 } else { 0 };
                beyond = ln_add_exp(beyond, term(&rest[place]));
                if beyond > least {
                    break;
                }
                left_out.push(rest.remove(place).1.exp());
            }
        }
        if left_out.is_empty() {
            return self.clone();
        }
        let (lost, share) = (left_out.iter().sum::<f64>(), LEFT_OUT.exp() / ROUND);
        let roundings = share + lost * (8.0 + left_out.len() as f64);
        Self {
            components: rest,
            excess: self.excess.map(|own| Excess {
                value: own.value - lost,
                roundings: own.roundings + roundings + 2.0 * (own.value.abs() + lost),
            }),
            constant: None,
            roundings: self.roundings + share,
        }
    }

    /// Returns the same Laplace density between two neighbouring positions: all components on one side are merged into
    /// one at the end of the interval, e^{−|x − κ|} = e^{−|x − from|} e^{−(from − κ)}.
    pub(crate) fn between_kinks(&self, from: Option<f64>, to: Option<f64>) -> Self {
        if self.components.len() <= 2 {
            return self.clone();
        }
        let left = from.map(|end| self.gathered(end, |position| position <= end));
        let right = to.map(|end| {
            // A component at both ends of an empty interval counts once.
            self.gathered(end, |position| {
                position >= end && from.is_none_or(|l| position > l)
            })
        });
        // Components on the far side of zero, or between zero and the interval, have a constant ratio to the unshifted
        // density: e^κ to the right of zero, e^−κ to its left.
        let (still, sign) = match (from, to) {
            (Some(from), _) if from >= 0.0 => (Some(0), 1.0),
            (_, Some(to)) if to <= 0.0 => (Some(1), -1.0),
            _ => (None, 0.0),
        };
        let sides = [left, right];
        let mut whole = Self {
            components: Vec::with_capacity(2),
            ..Self::complete(Vec::new())
        };
        let (mut excess, mut roundings) = (0.0, 0.0);
        for (i, side) in sides.into_iter().enumerate() {
            let Some(side) = side.filter(|side| side.ln_weight > f64::NEG_INFINITY) else {
                continue;
            };
            whole.components.push((side.end, side.ln_weight));
            whole.roundings = whole.roundings.max(side.roundings);
            if still == Some(i) {
                let there = |k: f64| {
                    let left = i == 0 && k <= side.end;
                    let right = i == 1 && k >= side.end && from.is_none_or(|l| k > l);
                    left || right
                };
                let own = self.constant_of(sign, there);
                whole.constant = Some((whole.components.len() - 1, own));
                continue;
            }
            excess += side.lost.value;
            roundings += side.lost.roundings + side.lost.value.abs();
        }
        whole.excess = self.excess.map(|own| Excess {
            value: own.value + excess,
            roundings: own.roundings + roundings + 2.0 * (own.value.abs() + excess.abs()),
        });
        whole
    }

    /// Returns Σ w_k (e^{±κ_k} − 1) over the selected components, their contribution to M − 1.
    fn constant_of(&self, sign: f64, are_there: impl Fn(f64) -> bool) -> Excess {
        let (mut sum, mut size) = (Sum::default(), 0.0);
        for (k, w) in self.components.iter().filter(|(k, _)| are_there(*k)) {
            let (change, grown) = changed(*w, sign * k);
            sum.add(change);
            size += change.abs() * (8.0 + 2.0 * w.abs() + self.roundings) + 3.0 * grown * k.abs();
        }
        Excess {
            value: sum.value(),
            roundings: size,
        }
    }

    /// Merges the selected components into one at `end`.
    fn gathered(&self, end: f64, are_there: impl Fn(f64) -> bool) -> Gathered {
        let there = || self.components.iter().filter(|(k, _)| are_there(*k));
        let top = there()
            .map(|(k, w)| w - (end - k).abs())
            .fold(f64::NEG_INFINITY, f64::max);
        let (mut sum, mut size) = (Sum::default(), 0.0);
        let (mut lost, mut lost_size) = (Sum::default(), 0.0);
        for (k, w) in there() {
            let (gap, far) = ((end - k).abs(), end.abs() + k.abs());
            let term = (w - gap - top).exp();
            sum.add(term);
            size += term * (8.0 + 2.0 * (w.abs() + gap + top.abs()) + far);
            let weight = w.exp();
            let change = weight * (-gap).exp_m1();
            lost.add(change);
            // Gaps are as exact as the positions whose differences they are.
            lost_size += change.abs() * (8.0 + 2.0 * w.abs()) + weight * (-gap).exp() * far;
        }
        let (sum, lost) = (sum.value(), lost.value());
        Gathered {
            end,
            ln_weight: top + sum.ln(),
            roundings: if sum > 0.0 {
                self.roundings + size / sum
            } else {
                0.0
            },
            lost: Excess {
                value: lost,
                roundings: lost_size + self.roundings * lost.abs(),
            },
        }
    }

    /// Returns the components (κ_k, ln w_k).
    pub(crate) fn components(&self) -> &[(f64, f64)] {
        &self.components
    }

    /// Returns a bound on the relative error of the weights, in units of one rounding, beyond that of their logarithms.
    pub(crate) const fn roundings(&self) -> f64 {
        self.roundings
    }

    pub(crate) fn positions(&self) -> impl Iterator<Item = f64> + '_ {
        self.components.iter().map(|(position, _)| *position)
    }

    /// Returns the smallest and the largest position.
    pub(crate) fn range(&self) -> (f64, f64) {
        self.positions()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), k| {
                (low.min(k), high.max(k))
            })
    }

    /// Returns ln Σ w_k P(X + κ_k > x).
    pub(crate) fn ln_tail(&self, shape: Shape, x: f64) -> f64 {
        self.components
            .iter()
            .fold(f64::NEG_INFINITY, |sum, (k, w)| {
                crate::numeric::special::ln_add_exp(sum, w + shape.ln_tail(x - k))
            })
    }

    /// Returns ln Σ w_k P(X + κ_k < x).
    pub(crate) fn ln_head(&self, shape: Shape, x: f64) -> f64 {
        self.components
            .iter()
            .fold(f64::NEG_INFINITY, |sum, (k, w)| {
                crate::numeric::special::ln_add_exp(sum, w + shape.ln_tail(k - x))
            })
    }

    /// Returns the mean position of a Gaussian mixture at x, which rises with x, to a few roundings if all positions
    /// have the same sign.
    pub(crate) fn mean_position(&self, x: f64) -> f64 {
        let exponent = |(k, w): &(f64, f64)| w + k * (x - 0.5 * k);
        let exponents = self.components.iter().map(exponent);
        let top = exponents.fold(f64::NEG_INFINITY, f64::max);
        let (mut sum, mut first) = (0.0, 0.0);
        for component in &self.components {
            let term = exp_or_zero(exponent(component) - top);
            sum += term;
            first += term * component.0;
        }
        first / sum
    }

    /// Returns the weights of the components at x.
    pub(crate) fn weights_at(&self, x: f64) -> Weights {
        let exponents: Vec<(f64, f64)> = (self.components.iter())
            .map(|(k, w)| (w + k * (x - 0.5 * k), *k))
            .collect();
        let top = (exponents.iter()).fold(f64::NEG_INFINITY, |top, (ln, _)| top.max(*ln));
        let (mut sum, mut first) = (0.0, 0.0);
        for (ln, position) in &exponents {
            let weight = exp_or_zero(ln - top);
            sum += weight;
            first += weight * position;
        }
        let mean = first / sum;
        let (low, high) = self.range();
        Weights {
            each: (exponents.into_iter())
                .map(|(ln, position)| (ln - top, (position - mean).abs()))
                .collect(),
            sum,
            farthest: low.abs().max(high.abs()) + x.abs(),
        }
    }

    /// Returns the slope of ln of the density at x; for Laplace densities, x lies on the interval that begins at
    /// `left`.
    pub(crate) fn log_slope(&self, shape: Shape, x: f64, left: f64) -> f64 {
        let exponent = |(k, w): &(f64, f64)| match shape {
            Shape::Gaussian => w + k * (x - 0.5 * k),
            Shape::Laplace => w - (x - k).abs(),
        };
        let top = self
            .components
            .iter()
            .map(exponent)
            .fold(f64::NEG_INFINITY, f64::max);
        let (mut sum, mut first) = (0.0, 0.0);
        for component in &self.components {
            let term = exp_or_zero(exponent(component) - top);
            sum += term;
            first += term
                * match shape {
                    Shape::Gaussian => component.0 - x,
                    Shape::Laplace if component.0 <= left => -1.0,
                    Shape::Laplace => 1.0,
                };
        }
        first / sum
    }

    pub(crate) fn ratio(&self, shape: Shape, x: f64) -> Ratio {
        if let ([(position, ln_weight)], None) = (self.components.as_slice(), self.constant) {
            let (exponent, slope) = shape.exponent(x, *position);
            let ln = exponent + ln_weight;
            let size = shape.exponent_size(x, *position) + 2.0 * ln_weight.abs() + self.roundings;
            return Ratio {
                ln,
                slope,
                error: ROUND * (size + ln.abs()),
            };
        }
        let mut top = f64::NEG_INFINITY;
        let mut most: f64 = 0.0;
        for (position, ln_weight) in &self.components {
            let exponent = shape.exponent(x, *position).0;
            top = top.max(ln_weight + exponent);
            most = most.max(exponent.abs());
        }
        // Merged components may weigh far less than one together, or far more.
        let apart = |excess: &Excess| {
            (excess.value + self.constant.map_or(0.0, |(_, own)| own.value)).abs()
        };
        let excess = self
            .excess
            .filter(|excess| most < 0.5 && apart(excess) < 0.5);
        if let Some(excess) = excess {
            return self.near_one(shape, x, excess);
        }
        let (mut sum, mut first, mut size) = (0.0, 0.0, 0.0);
        for (position, ln_weight) in &self.components {
            let (exponent, slope) = shape.exponent(x, *position);
            let from_top = ln_weight + exponent - top;
            if from_top < NEGLIGIBLE {
                continue;
            }
            let term = from_top.exp();
            sum += term;
            first += term * slope;
            size += term * (shape.exponent_size(x, *position) + ln_weight.abs());
        }
        let ln = top + sum.ln();
        if let Some(excess) = self.excess.filter(|_| ln.abs() < 0.5) {
            return self.near_one(shape, x, excess);
        }
        Ratio {
            ln,
            slope: first / sum,
            error: ROUND * (2.0 * size / sum + 2.0 * top.abs() + 16.0 + self.roundings),
        }
    }

    /// Returns ln(1 + Σ w_k (e^{…} − 1) + Σ w_k − 1), which is accurate relatively where M is near one.
    fn near_one(&self, shape: Shape, x: f64, excess: Excess) -> Ratio {
        let (mut sum, mut first) = (excess.value, 0.0);
        let mut size = excess.roundings + 2.0 * excess.value.abs();
        let constant = self.constant.map(|(place, own)| {
            sum += own.value;
            size += own.roundings + 2.0 * own.value.abs();
            place
        });
        for (place, (position, ln_weight)) in self.components.iter().enumerate() {
            if constant == Some(place) {
                continue;
            }
            let (exponent, slope) = shape.exponent(x, *position);
            let (change, grown) = changed(*ln_weight, exponent);
            sum += change;
            first += grown * slope;
            let rounding = shape.exponent_size(x, *position);
            size +=
                change.abs() * (6.0 + 2.0 * ln_weight.abs() + self.roundings) + grown * rounding;
        }
        Ratio {
            ln: sum.ln_1p(),
            slope: first / (1.0 + sum),
            error: ROUND * (2.0 * size / (1.0 + sum) + 4.0 * sum.ln_1p().abs()),
        }
    }
}

/// The weights of a Gaussian mixture's components at one place, all of whose positions have the same sign.
#[derive(Debug)]
pub(crate) struct Weights {
    /// ln of each weight, up to a factor, and the distance of its position from their mean.
    each: Vec<(f64, f64)>,
    sum: f64,
    /// How far positions and the place lie from zero.
    farthest: f64,
}

impl Weights {
    /// Returns a bound on the variance of the position at every place within `reach` of this one:
    /// Σ p_k (κ_k − m)² e^{|κ_k − m|·reach} with the weights p_k and the mean m here, as the normaliser
    /// Σ p_k e^{(κ_k − m)t} is at least one.
    pub(crate) fn variance_within(&self, reach: f64) -> f64 {
        if self.each.len() < 2 {
            return 0.0;
        }
        let mut second = 0.0;
        for (ln, distance) in &self.each {
            second += exp_or_zero(ln + distance * reach) * distance * distance;
        }
        // Room for the rounding errors of the mean and of exponents, which grow with the square of positions.
        let farthest = self.farthest + reach;
        second / self.sum * (1.0 + 32.0 * ROUND * farthest * farthest + 1e-9)
    }
}

/// Returns e^x, without the library's long way to a result that underflows.
fn exp_or_zero(x: f64) -> f64 {
    if x < UNDERFLOW { 0.0 } else { x.exp() }
}

/// Returns w(e^x − 1) and we^x; a tiny weight may be multiplied by an exponential beyond the largest number.
fn changed(ln_weight: f64, exponent: f64) -> (f64, f64) {
    let weight = ln_weight.exp();
    if exponent < 1.0 {
        (weight * exponent.exp_m1(), weight * exponent.exp())
    } else {
        let grown = (ln_weight + exponent).exp();
        (grown - weight, grown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Between two kinks a mixture of many Laplace densities is two exponentials, exactly: their ratios to the
    /// density at 0 lie within the errors that both state.
    #[test]
    fn laplace_mixtures_are_two_exponentials_between_kinks() {
        for (count, rate, shift) in [
            (3u32, 0.5, 0.7),
            (40, 0.1, 0.05),
            (300, 1e-4, 0.01),
            // Of which next to nothing lies between the first kinks.
            (399, 0.47, 0.51),
        ] {
            let mixture = Mixture::binomial(count, rate, shift).unwrap();
            for sign in [1.0, -1.0] {
                let whole = Density::of_mixture(&mixture, sign);
                // On the far side of zero too, where the other law has its kinks.
                let mut kinks: Vec<f64> = whole.positions().flat_map(|k| [k, -k]).collect();
                kinks.sort_by(f64::total_cmp);
                kinks.dedup();
                for ends in kinks.windows(2).step_by(1 + kinks.len() / 9) {
                    let part = whole.between_kinks(Some(ends[0]), Some(ends[1]));
                    assert!(part.components.len() <= 2);
                    for i in 1..10 {
                        let x = ends[0] + 0.1 * f64::from(i) * (ends[1] - ends[0]);
                        let (a, b) = (
                            whole.ratio(Shape::Laplace, x),
                            part.ratio(Shape::Laplace, x),
                        );
                        let off = (a.ln - b.ln).abs();
                        assert!(
                            off <= a.error + b.error,
                            "{count} {rate} {x}: {off} {a:?} {b:?}"
                        );
                        assert!((a.slope - b.slope).abs() < 1e-9);
                        // Tiny losses keep their digits, whatever the weight of the component at 0.
                        let least = f64::from(count) * rate * shift;
                        assert!(b.error <= 1e-12 * b.ln.abs().max(least), "{b:?}");
                    }
                }
            }
        }
    }

    /// Of hundreds of components those remain that have some of the density; ratios to the density at 0 lie within the
    /// errors that both state, also where they are all but one.
    #[test]
    fn components_with_nothing_of_an_interval_are_left_out() {
        for (count, rate, shift, most) in [
            (311, 1.1e-3, 6.77, 14),
            (40, 1e-9, 3.0, 30),
            (311, 0.3, 0.01, 312),
        ] {
            let mixture = Mixture::binomial(count, rate, shift).unwrap();
            for sign in [1.0, -1.0] {
                let whole = Density::of_mixture(&mixture, sign);
                let part = whole.within(Some(-60.0), Some(50.0));
                assert!(part.components.len() <= most, "{}", part.components.len());
                for i in -60..=50 {
                    let x = f64::from(i);
                    let (a, b) = (
                        whole.ratio(Shape::Gaussian, x),
                        part.ratio(Shape::Gaussian, x),
                    );
                    let off = (a.ln - b.ln).abs();
                    assert!(off <= a.error + b.error, "{count} {x}: {off} {a:?} {b:?}");
                    assert!(b.error <= 2.0 * a.error + 1e-60, "{a:?} {b:?}");
                }
                // An open end keeps what lies there.
                let open = whole.within(None, Some(50.0));
                assert!(open.components.iter().any(|c| c.0 <= whole.range().0));
            }
        }
    }
}

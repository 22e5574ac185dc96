//! Lists the outcomes of compositions with few outcomes: exact to rounding, and without a grid.

use super::atoms::{Atoms, WholeNumbers};
use super::{Atom, Attained, Comb, LossDistribution};
use crate::loss::PrivacyLoss;
use crate::loss::loss_grid::Lines;
use crate::numeric::special::{ROUND, ln_add_exp};

/// More outcomes than this aren't listed.
const MOST: usize = 1024;
/// Sums of noise that hardly ever moves are listed within one of these distances of their most likely value: the
/// first one beyond which less than e^`LN_NOTHING` lies.
const REACHES: [usize; 6] = [4, 8, 16, 32, 64, 128];
const LN_NOTHING: f64 = -745.0;
/// Tilts at which the mass beyond is bounded: the first one over σ², their ratio and their number.
const TILTS: (f64, f64, usize) = (0.05, 1.15, 64);
/// If more steps than this are expected to move, the sum moves too far.
const MOST_MOVED: f64 = 100.0;

impl PrivacyLoss {
    /// Returns the same run as a single step, if all its outcomes can be listed.
    pub(crate) fn listed(&self) -> Option<Self> {
        let many = self.laws.len() > 1 || self.laws.iter().any(|(_, times)| *times > 1);
        if !many || !self.parts.is_empty() || self.gaussian > 0.0 || self.unbounded {
            return None;
        }
        let mut whole = LossDistribution::of_atoms(vec![Atom::new(0.0, 0.0)], None);
        whole.variance = Some(0.0);
        for (law, times) in &self.laws {
            whole = whole.followed_by(&law.repeated(*times)?)?;
        }
        if whole.missing > 0.0 && whole.variance.is_none() {
            return None;
        }
        whole.variance = whole.variance.filter(|_| whole.missing > 0.0);
        if whole.attained < Attained::Always {
            whole.attained = Attained::Never;
        }
        Some(Self {
            laws: vec![(whole, 1)],
            ..self.clone()
        })
    }
}

impl LossDistribution {
    /// Returns whether the law consists only of few enough atoms.
    pub(crate) fn is_listed(&self) -> bool {
        self.pieces.is_empty() && self.atoms.len() <= MOST
    }

    fn followed_by(&self, next: &Self) -> Option<Self> {
        (self.atoms.len() * next.atoms.len() <= MOST).then(|| {
            let pairs = self
                .atoms
                .iter()
                .flat_map(|a| next.atoms.iter().map(move |b| (a, b)));
            let atoms: Vec<Atom> = pairs
                .map(|(a, b)| Atom {
                    loss: a.loss + b.loss,
                    loss_error: a.loss_error + b.loss_error + ROUND * (a.loss + b.loss).abs(),
                    ln_second: a.ln_second + b.ln_second,
                })
                .collect();
            let mut both = Self::of_atoms(atoms, None);
            both.infinite = -((-self.infinite).ln_1p() + (-next.infinite).ln_1p()).exp_m1();
            both.missing = self.missing + next.missing;
            both.short = self.short || next.short;
            both.variance = (self.variance.zip(next.variance)).map(|(a, b)| a + b);
            both.roundings = self.roundings + next.roundings + 16.0;
            both.attained = self.attained.min(next.attained);
            both
        })
    }

    /// Returns `times` steps as one; outcomes with the same loss are merged.
    fn repeated(&self, times: u64) -> Option<Self> {
        if !self.is_listed() {
            return None;
        }
        if times == 1 {
            return Some(self.clone());
        }
        let single = |atom: Atom| Comb {
            origin: atom.loss,
            spacing: 1.0,
        };
        let alone = || self.atoms.iter().next().filter(|_| self.atoms.len() == 1);
        let comb = self.comb.or_else(|| alone().map(single))?;
        let lines = Lines {
            origin: comb.origin,
            spacing: comb.spacing,
        };
        let places: Option<Vec<(i64, f64)>> = (self.atoms.iter())
            .map(|atom| lines.nearest(atom.loss, 0.0))
            .collect();
        let mut places = places?;
        // Counting begins at the lowest loss.
        let first = places.iter().map(|(index, _)| *index).min()?;
        for (index, _) in &mut places {
            *index -= first;
        }
        let origin = lines.at(first);
        let last = places.iter().map(|(index, _)| *index).max()?;
        let count = u64::try_from(last).ok()?.checked_mul(times)?;
        if count >= MOST as u64 {
            return self.repeated_around(times);
        }
        let mut one = vec![f64::NEG_INFINITY; last as usize + 1];
        for ((index, _), atom) in places.iter().zip(self.atoms.iter()) {
            one[*index as usize] = ln_add_exp(one[*index as usize], atom.ln_second);
        }
        let off = (places.iter().zip(self.atoms.iter()))
            .map(|((_, off), atom)| off + atom.loss_error)
            .fold(0.0, f64::max);
        let n = times as f64;
        let atoms: Vec<Atom> = power(&one, times)
            .into_iter()
            .enumerate()
            .filter(|(_, ln)| *ln > f64::NEG_INFINITY)
            .map(|(index, ln_second)| {
                let parts = [n * origin, index as f64 * lines.spacing];
                Atom {
                    loss: parts[0] + parts[1],
                    loss_error: n * off + 4.0 * ROUND * (parts[0].abs() + parts[1].abs()),
                    ln_second,
                }
            })
            .collect();
        let mut all = Self::of_atoms(atoms, None);
        all.infinite = -(n * (-self.infinite).ln_1p()).exp_m1();
        all.missing = n * self.missing;
        all.short = self.short;
        all.variance = self.variance.map(|variance| n * variance);
        // Every mass is a sum of products of n factors, with the rounding errors of each.
        all.roundings = n * (self.roundings + 32.0) + 2.0 * count as f64;
        all.attained = self.attained;
        Some(all)
    }
}

impl LossDistribution {
    /// Returns `times` steps of discrete Gaussian noise so small that their sum hardly ever moves: outcomes
    /// within `reach` of Ts under the first law are listed, the rest is missing. By Chernoff's bound
    ///
    ///   P(|Σ| > reach) ≤ 2 M(λ)^T e^{−λ reach},   M(λ) = Σ_x p(x) e^{λx},
    ///
    /// for the noise x of a step and any λ > 0, and fewer steps deviate less. Steps are added up by doubling
    /// their number, 2T sums in all, none of which may deviate farther.
    fn repeated_around(&self, times: u64) -> Option<Self> {
        let Atoms::Whole(WholeNumbers::Gaussian {
            shift,
            spread,
            reach: widest,
            ln_total,
        }) = &self.atoms
        else {
            return None;
        };
        if !self.pieces.is_empty() || self.infinite > 0.0 {
            return None;
        }
        let n = times as f64;
        let ln_mass = |x: f64| -x * x * spread - ln_total;
        if n * ln_mass(1.0).exp() > MOST_MOVED {
            return None;
        }
        let ln_beyond = |reach: f64| {
            let mut tilt = TILTS.0 * spread;
            let mut least = 0.0f64;
            for _ in 0..TILTS.2 {
                let terms = (1..=*widest as usize).map(|x| {
                    let x = x as f64;
                    // e^{λx} + e^{−λx} − 2 = 4 sinh²(λx/2).
                    let half = (0.5 * tilt * x).sinh();
                    4.0 * half * half * ln_mass(x).exp()
                });
                let grown = terms.sum::<f64>().ln_1p();
                least = least.min(n * grown * (1.0 + 1e-9) - tilt * reach);
                tilt *= TILTS.1;
            }
            least + std::f64::consts::LN_2 + 1e-9
        };
        let reach = REACHES
            .into_iter()
            .find(|reach| ln_beyond(*reach as f64) + (2.0 * n).ln() <= LN_NOTHING)?;
        let one: Vec<f64> = (0..=2 * reach)
            .map(|i| i as f64 - reach as f64)
            .map(|x| {
                if x.abs() <= *widest {
                    ln_mass(x)
                } else {
                    f64::NEG_INFINITY
                }
            })
            .collect();
        let atoms: Vec<Atom> = power_within(&one, times)
            .into_iter()
            .enumerate()
            .filter(|(_, ln)| *ln > f64::NEG_INFINITY)
            .map(|(i, ln_first)| {
                let moved = i as f64 - reach as f64;
                let parts = [n * shift, 2.0 * moved];
                let loss = (parts[0] + parts[1]) * shift * spread;
                Atom {
                    loss,
                    loss_error: 16.0 * ROUND * (parts[0] + parts[1].abs()) * shift * spread,
                    ln_second: ln_first - loss,
                }
            })
            .collect();
        let mut all = Self::of_atoms(atoms, None);
        all.missing = 2.0 * f64::MIN_POSITIVE + n * self.missing;
        all.variance = self.variance.map(|variance| n * variance);
        // The logarithm of a product of n masses, and of sums of such products.
        all.roundings = n * 64.0 + 8.0 * reach as f64;
        all.attained = self.attained;
        Some(all)
    }
}

/// Returns the convolution power of a law on whole numbers around zero, in logarithms, as long as partial sums
/// stay within the listed range.
fn power_within(one: &[f64], times: u64) -> Vec<f64> {
    let reach = one.len() / 2;
    let kept = |sum: Vec<f64>| sum[reach..=3 * reach].to_vec();
    let mut all: Option<Vec<f64>> = None;
    let mut square = one.to_vec();
    let mut rest = times;
    while rest > 0 {
        if rest & 1 == 1 {
            all = Some(match all {
                Some(all) => kept(convolved(&all, &square)),
                None => square.clone(),
            });
        }
        rest >>= 1;
        if rest > 0 {
            square = kept(convolved(&square, &square));
        }
    }
    all.unwrap_or_default()
}

/// Returns the convolution power of a law on the first whole numbers, in logarithms.
fn power(one: &[f64], times: u64) -> Vec<f64> {
    let mut all = vec![0.0];
    let mut square = one.to_vec();
    let mut rest = times;
    while rest > 0 {
        if rest & 1 == 1 {
            all = convolved(&all, &square);
        }
        rest >>= 1;
        if rest > 0 {
            square = convolved(&square, &square);
        }
    }
    all
}

fn convolved(a: &[f64], b: &[f64]) -> Vec<f64> {
    (0..a.len() + b.len() - 1)
        .map(|sum| {
            let from = (sum + 1).saturating_sub(b.len());
            let pairs = (from..a.len().min(sum + 1)).map(|i| a[i] + b[sum - i]);
            let top = pairs.clone().fold(f64::NEG_INFINITY, f64::max);
            if top == f64::NEG_INFINITY {
                return top;
            }
            top + pairs.map(|ln| (ln - top).exp()).sum::<f64>().ln()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::special::ln_binomial_pmf;
    use crate::{
        Delta, Direction, Epsilon, Mechanism, Neighbours, Probability, Query, Steps, Tolerance,
    };

    /// Fifty responses are a binomial law, with losses (2k − 50)·ε.
    #[test]
    fn responses_are_listed_as_a_binomial() {
        let run = Mechanism::Repeat {
            times: Steps::new(50),
            each: Box::new(Mechanism::PureDp {
                epsilon: Epsilon::new(3.0).unwrap(),
                neighbours: Neighbours::AddRemove,
            }),
        };
        let query = Query::single(Neighbours::AddRemove);
        let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
        let listed = loss.listed().unwrap();
        let (law, times) = &listed.laws[0];
        assert_eq!((law.atoms.len(), *times), (51, 1));
        let rare = 1.0 / (1.0 + 3f64.exp());
        for atom in law.atoms.iter() {
            let k = ((atom.loss + 150.0) / 6.0).round();
            let truth = ln_binomial_pmf(k as u64, 50, rare);
            let error = ROUND * (16.0 + law.roundings + 8.0 * truth.abs());
            assert!(
                (atom.ln_second - truth).abs() <= error,
                "{k} {atom:?} {truth}"
            );
            assert!((atom.loss - (6.0 * k - 150.0)).abs() <= atom.loss_error);
        }
        // The blow-up against every set of the largest losses, the last one in part.
        let x = 0.003;
        let (mut first, mut second) = (0.0, 0.0);
        for atom in law.atoms.iter().rev() {
            let q = atom.ln_second.exp();
            let share = ((x - second) / q).clamp(0.0, 1.0);
            first += share * (atom.ln_second + atom.loss).exp();
            second += share * q;
        }
        let prior = Probability::new(x).unwrap();
        let found = loss.blow_up(prior, Tolerance::new(1e-9).unwrap()).unwrap();
        let (low, high) = (
            found.bounds.lower.unwrap().get().get(),
            found.bounds.upper.unwrap().get().get(),
        );
        assert!(low <= first * (1.0 + 1e-12) && first <= high * (1.0 + 1e-12));
        assert!(high - low <= 1e-11 * high, "{low} {first} {high}");
        let deep = loss
            .epsilon(Delta::new(1e-40).unwrap(), Tolerance::new(1e-9).unwrap())
            .unwrap();
        let upper = deep.bounds.upper.unwrap().get().get();
        assert!((150.0..150.0 + 1e-9).contains(&upper), "{upper:e} {deep:?}");
    }
}

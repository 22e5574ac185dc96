//! The atoms of a law: a list, or the outcomes of integer noise, computed on every access.

use super::Atom;
use crate::numeric::special::ln_one_minus_exp;
use crate::numeric::sum::Sum;
use std::sync::Arc;

/// Point masses, accessed by index.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Atoms {
    /// A list, shared because it can be long.
    Listed(Arc<Vec<Atom>>),
    /// Outcomes of integer noise, too many to store.
    Whole(WholeNumbers),
}

/// Integer noise against the same noise shifted by s.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum WholeNumbers {
    /// Masses ∝ e^{−x²/2σ²} at x = s − reach, …, s + reach.
    Gaussian {
        /// s.
        shift: f64,
        /// 1/2σ².
        spread: f64,
        /// The reach, in whole numbers.
        reach: f64,
        /// ln of the sum of the masses.
        ln_total: f64,
    },
    /// Masses ∝ e^{−|x|/b}: those of 0 < x < s, with all masses farther out merged at both ends.
    Laplace {
        /// s.
        shift: u32,
        /// 1/b.
        rate: f64,
        /// ln of the mass at 0.
        ln_step: f64,
        /// ln of the mass of x ≤ 0.
        ln_whole: f64,
    },
}

impl Atoms {
    /// Returns the number of atoms.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Listed(atoms) => atoms.len(),
            Self::Whole(WholeNumbers::Gaussian { reach, .. }) => (2.0 * reach) as usize + 1,
            Self::Whole(WholeNumbers::Laplace { shift, .. }) => *shift as usize + 1,
        }
    }

    /// Returns all atoms; those of integer noise in ascending order of loss.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Atom> + ExactSizeIterator + '_ {
        (0..self.len()).map(|i| self.at(i))
    }

    fn at(&self, i: usize) -> Atom {
        match self {
            Self::Listed(atoms) => atoms[i],
            Self::Whole(WholeNumbers::Gaussian {
                shift: s,
                spread,
                reach,
                ln_total,
            }) => {
                let x = s - reach + i as f64;
                let loss = (2.0 * x * s - s * s) * spread;
                Atom::new(loss, -x * x * spread - ln_total)
            }
            Self::Whole(WholeNumbers::Laplace {
                shift,
                rate,
                ln_step,
                ln_whole,
            }) => {
                let (x, inner) = (i as f64, i > 0 && i < *shift as usize);
                let ln_first = if inner { ln_step } else { ln_whole };
                let loss = (2.0 * x - f64::from(*shift)) * rate;
                Atom::new(loss, ln_first - x * rate)
            }
        }
    }

    /// Converts the atoms to a list that may be changed.
    pub(crate) fn listed(&mut self) -> &mut Vec<Atom> {
        if let Self::Whole(_) = self {
            *self = Self::from(self.iter().collect::<Vec<_>>());
        }
        match self {
            Self::Listed(atoms) => Arc::make_mut(atoms),
            Self::Whole(_) => unreachable!("they were listed above"),
        }
    }
}

impl From<Vec<Atom>> for Atoms {
    fn from(atoms: Vec<Atom>) -> Self {
        Self::Listed(Arc::new(atoms))
    }
}

impl Default for Atoms {
    fn default() -> Self {
        Self::from(Vec::new())
    }
}

impl WholeNumbers {
    /// Creates discrete Gaussian noise with 1/2σ² = `spread`, no farther than `reach` from the first mean.
    pub(super) fn gaussian(shift: f64, spread: f64, reach: f64) -> Self {
        let mut total = Sum::default();
        let mut x = reach;
        while x >= 1.0 {
            total.add(2.0 * (-x * x * spread).exp());
            x -= 1.0;
        }
        total.add(1.0);
        Self::Gaussian {
            shift,
            spread,
            reach,
            ln_total: total.value().ln(),
        }
    }

    /// Creates two-sided geometric noise of scale b = 1/`rate`.
    pub(super) fn laplace(rate: f64, shift: u32) -> Self {
        // With r = e^{−1/b}: Q(x) = r^{|x|}(1 − r)/(1 + r), Q(x ≤ 0) = 1/(1 + r).
        let ln_whole = -(-rate).exp().ln_1p();
        Self::Laplace {
            shift,
            rate,
            ln_step: ln_whole + ln_one_minus_exp(-rate),
            ln_whole,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Masses of both laws, summed outwards from where each is largest, without the logarithms.
    #[test]
    fn outcomes_of_whole_numbers_are_those_of_their_noise() {
        let (sigma, scale, shift) = (3.5f64, 2.5f64, 4u32);
        let s = f64::from(shift);
        let gaussian = |x: f64| (-x * x / (2.0 * sigma * sigma)).exp();
        let total: f64 = (-300..=300).map(|x| gaussian(f64::from(x))).sum();
        let atoms = Atoms::Whole(WholeNumbers::gaussian(s, 0.5 / (sigma * sigma), 150.0));
        assert_eq!(atoms.len(), 301);
        for (i, atom) in atoms.iter().enumerate() {
            let x = s - 150.0 + i as f64;
            let (second, first) = (gaussian(x) / total, gaussian(x - s) / total);
            if second.min(first) > f64::MIN_POSITIVE {
                assert!((atom.ln_second - second.ln()).abs() < 1e-11, "{x}");
                assert!(
                    (atom.loss - (first.ln() - second.ln())).abs() < 1e-10,
                    "{x}"
                );
            }
        }
        let ratio = (-1.0 / scale).exp();
        let laplace = |x: i32| ratio.powi(x.abs()) * (1.0 - ratio) / (1.0 + ratio);
        let atoms = Atoms::Whole(WholeNumbers::laplace(1.0 / scale, shift));
        assert_eq!(atoms.len(), 5);
        for (i, atom) in (0i32..).zip(atoms.iter()) {
            let places: Vec<i32> = match i {
                0 => (-200..=0).collect(),
                4 => (4..=204).collect(),
                inner => vec![inner],
            };
            let second: f64 = places.iter().map(|x| laplace(*x)).sum();
            let first: f64 = places.iter().map(|x| laplace(x - 4)).sum();
            assert!((atom.ln_second - second.ln()).abs() < 1e-13, "{i}");
            assert!((atom.loss - (first / second).ln()).abs() < 1e-13, "{i}");
        }
    }

    /// A list that was made of them says the same.
    #[test]
    fn listed_outcomes_stay_what_they_are() {
        let whole = Atoms::Whole(WholeNumbers::gaussian(1.0, 0.5, 41.0));
        let mut listed = whole.clone();
        listed.listed();
        assert!(matches!(listed, Atoms::Listed(_)) && listed.iter().eq(whole.iter()));
    }
}

//! Clipping: the bound on one example's gradient, and the factors that enforce it.

use crate::error::{Error, Result, below_one, positive, ranged};
use crate::trainer::Added;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How an example's gradient g, of groups g_1 … g_L, is bounded by the clipping norm C.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Clipping {
    /// g · min(1, C/‖g‖), one norm over all parameters. Source: Abadi et al. 2016.
    #[default]
    Flat,
    /// Each group by itself: g_l · min(1, C_l/‖g_l‖) with C_l = C/√L, so that
    /// √(Σ C_l²) = C bounds the whole. Source: McMahan et al. 2018.
    PerLayer,
    /// g · C/(‖g‖ + γ): no threshold to tune, norm below C. Source: Bu et al. 2023.
    Automatic {
        /// γ.
        stability: f64,
    },
}

impl Clipping {
    /// Parses a name: `flat`, `per-layer`, `automatic` (γ = 0.01, as the authors chose).
    ///
    /// # Errors
    /// Returns [`Error::Unsuitable`] for another name. `adaptive` is refused with the reason: a clipping norm that
    /// depends on the data is a release of its own, and nothing here accounts for it.
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "flat" => Ok(Self::Flat),
            "per-layer" => Ok(Self::PerLayer),
            "automatic" => Ok(Self::Automatic { stability: 0.01 }),
            "adaptive" => Err(Error::Unsuitable(
                "clipping `adaptive` is refused: a clipping norm that follows the gradients is \
                 released with every step, and its own noisy count would have to be accounted; \
                 `automatic` needs no tuned threshold and costs nothing"
                    .into(),
            )),
            other => Err(Error::Unsuitable(format!(
                "clipping must be flat, per-layer or automatic, got {other}"
            ))),
        }
    }
}

/// The least clipping norm. The squares of a gradient of this norm are still far above the smallest f32, so that η
/// covers the norms that engines compute; the squares of one of norm 1e-23 vanish, and it would be added as it is.
const LEAST_NORM: f64 = 1e-12;

/// Checks a clipping norm.
pub(crate) fn clipping_norm(what: &'static str, norm: f64) -> Result<()> {
    let inside = norm >= LEAST_NORM && norm.is_finite();
    ranged(what, "[1e-12, inf)", norm, inside)
}

/// The bound on one example's contribution to the sum.
///
/// Norms are multiplied by (1 + η) before they are compared, where η covers their relative error, and factors are
/// rounded down. If no norm is too small by more than η, the declared sensitivity is never exceeded.
///
/// ```
/// use reticent_backends::privacy::{Clip, Clipping, SquaredNorms};
/// let clip = Clip::new(1.0, 0.0)?;
/// let norms = SquaredNorms::new(2, vec![9.0, 16.0, 0.0, 0.25])?; // two examples of two groups
/// let factors = clip.factors(&norms); // norms 5 and 0.5
/// assert!((factors.of(0, 0) - 0.2).abs() < 1e-6 && (factors.of(1, 1) - 1.0).abs() < 1e-6);
/// let each = clip.by(Clipping::PerLayer)?.factors(&norms); // each group to 1/√2
/// assert!((each.of(0, 0) * 3.0 - 0.5f32.sqrt()).abs() < 1e-6);
/// # Ok::<(), reticent_backends::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clip {
    norm: f64,
    margin: f64,
    kind: Clipping,
}

impl Clip {
    /// Flat clipping to `norm`, with a relative `margin` η for the arithmetic error of norms.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] unless norm is finite and at least 1e-12 and margin lies in [0, 1).
    pub fn new(norm: f64, margin: f64) -> Result<Self> {
        clipping_norm("clipping norm", norm)?;
        below_one("clipping margin", margin)?;
        Ok(Self {
            norm,
            margin,
            kind: Clipping::Flat,
        })
    }

    /// Returns the same bound, enforced by another kind of clipping.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] unless γ is positive and finite.
    pub fn by(self, kind: Clipping) -> Result<Self> {
        if let Clipping::Automatic { stability } = kind {
            positive("stability constant of automatic clipping", stability)?;
        }
        Ok(Self { kind, ..self })
    }

    /// Returns the same bound with at least this margin.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] unless `margin` lies in [0, 1).
    pub(crate) fn with_margin(self, margin: f64) -> Result<Self> {
        below_one("clipping margin", margin)?;
        let margin = self.margin.max(margin);
        Ok(Self { margin, ..self })
    }

    /// Returns how the bound is enforced.
    #[must_use]
    pub const fn kind(&self) -> Clipping {
        self.kind
    }
    /// Returns the clipping norm C.
    #[must_use]
    pub const fn norm(&self) -> f64 {
        self.norm
    }
    /// Returns the margin η.
    #[must_use]
    pub const fn margin(&self) -> f64 {
        self.margin
    }

    /// How far one record more or less moves the sum, at most; twice this for a record
    /// replaced. C for every kind: per layer it is √(Σ C_l²).
    #[must_use]
    pub const fn sensitivity(&self) -> f64 {
        self.norm
    }

    /// The flat factor for a gradient of this squared norm; zero where the norm is not finite, so
    /// that such an example contributes nothing.
    #[must_use]
    pub fn factor(&self, squared_norm: f64) -> f32 {
        self.scaled(squared_norm, self.norm)
    }

    fn scaled(&self, squared_norm: f64, bound: f64) -> f32 {
        let norm = squared_norm.sqrt() * (1.0 + self.margin);
        if !norm.is_finite() {
            return 0.0;
        }
        let factor = match self.kind {
            Clipping::Flat | Clipping::PerLayer => (bound / norm).min(1.0),
            Clipping::Automatic { stability } => bound / (norm + stability),
        };
        // rounding to f32 must not lift the factor
        let rounded = factor as f32;
        if f64::from(rounded) > factor {
            rounded.next_down()
        } else {
            rounded
        }
    }

    /// Adds the clipped gradient of one example to a sum: sum += clip(gradient). Both hold one tensor for each
    /// parameter, whose clipping groups are numbered from 0 without gaps. A gradient that is not finite adds nothing.
    ///
    /// Norms are computed in f64 from the values as they are, so a margin of 1e-6 covers the rounding of the products.
    ///
    /// ```
    /// use reticent_backends::privacy::Clip;
    /// let mut sum = vec![vec![0.0; 2], vec![1.0]];
    /// let added = Clip::new(1.0, 0.0)?.add(&[vec![3.0, 0.0], vec![4.0]], &[0, 1], &mut sum)?;
    /// assert_eq!((added.examples, added.clipped), (1, 1));
    /// assert!((sum[0][0] - 0.6).abs() < 1e-6 && (sum[1][0] - 1.8).abs() < 1e-6);
    /// # Ok::<(), reticent_backends::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if gradient, groups and sum do not fit each other.
    pub fn add(
        &self,
        gradient: &[Vec<f32>],
        groups: &[usize],
        sum: &mut [Vec<f32>],
    ) -> Result<Added> {
        let lengths = |tensors: &[Vec<f32>]| tensors.iter().map(Vec::len).collect::<Vec<_>>();
        if lengths(gradient) != lengths(sum) || groups.len() != gradient.len() {
            return Err(Error::Shape {
                name: "gradient of an example".into(),
                expected: lengths(sum),
                actual: lengths(gradient),
            });
        }
        let mut squared = vec![0f64; groups.iter().max().map_or(1, |last| last + 1)];
        for (values, group) in gradient.iter().zip(groups) {
            let values = values.iter().map(|x| f64::from(*x).powi(2));
            squared[*group] += values.sum::<f64>();
        }
        let norms = SquaredNorms::new(squared.len(), squared)?;
        let mut added = Added {
            examples: 1,
            rejected: norms.rejected(),
            clipped: 0,
        };
        if added.rejected == 0 {
            let factors = self.factors(&norms);
            added.clipped = factors.clipped();
            for ((sum, values), group) in sum.iter_mut().zip(gradient).zip(groups) {
                let factor = factors.of(0, *group);
                let pairs = sum.iter_mut().zip(values);
                pairs.for_each(|(sum, x)| *sum += factor * x);
            }
        }
        Ok(added)
    }

    /// Returns the factor of every (example, group). If the norm of an example is not finite in some group, its factor
    /// is zero in all groups.
    #[must_use]
    pub fn factors(&self, norms: &SquaredNorms) -> Factors {
        let groups = norms.groups;
        // rounded down by more than the rounding of the root and the quotient
        let share = self.norm / (groups as f64).sqrt() * (1.0 - 4.0 * f64::EPSILON);
        let mut values = Vec::with_capacity(norms.values.len());
        for example in norms.values.chunks_exact(groups) {
            let whole: f64 = example.iter().sum();
            values.extend(example.iter().map(|group| match self.kind {
                Clipping::PerLayer if whole.is_finite() => self.scaled(*group, share),
                _ => self.scaled(whole, self.norm),
            }));
        }
        Factors { groups, values }
    }
}

/// Squared gradient norms, f64, one row of `groups` values per example.
#[derive(Debug, Clone, PartialEq)]
pub struct SquaredNorms {
    groups: usize,
    values: Vec<f64>,
}

impl SquaredNorms {
    /// Takes the norms of `groups` groups per example, example by example.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] unless there is at least one group and a whole number of rows.
    pub fn new(groups: usize, values: Vec<f64>) -> Result<Self> {
        if groups == 0 || !values.len().is_multiple_of(groups) {
            return Err(Error::Shape {
                name: "squared norms".into(),
                expected: vec![values.len() / groups.max(1), groups],
                actual: vec![values.len()],
            });
        }
        Ok(Self { groups, values })
    }
    /// Returns the number of examples.
    #[must_use]
    pub fn examples(&self) -> usize {
        self.values.len() / self.groups
    }
    /// Returns ‖g_l‖² of an example's groups.
    #[must_use]
    pub fn of(&self, example: usize) -> &[f64] {
        &self.values[example * self.groups..(example + 1) * self.groups]
    }
    /// Returns whether an example's gradient is finite in all groups.
    #[must_use]
    pub fn finite(&self, example: usize) -> bool {
        self.of(example).iter().sum::<f64>().is_finite()
    }
    /// Returns the number of examples whose gradient is not finite.
    #[must_use]
    pub fn rejected(&self) -> usize {
        (0..self.examples()).filter(|e| !self.finite(*e)).count()
    }
}

/// The factors by which each example's gradient is multiplied, group by group.
#[derive(Debug, Clone, PartialEq)]
pub struct Factors {
    groups: usize,
    values: Vec<f32>,
}

impl Factors {
    /// Returns the same factor for every example and group, as for ordinary gradients.
    #[must_use]
    pub fn uniform(examples: usize, groups: usize, value: f32) -> Self {
        Self {
            groups,
            values: vec![value; examples * groups],
        }
    }
    /// Takes the factors of `groups` groups per example, example by example.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] unless there is at least one group and a whole number of rows.
    pub fn new(groups: usize, values: Vec<f32>) -> Result<Self> {
        if groups == 0 || !values.len().is_multiple_of(groups) {
            return Err(Error::Shape {
                name: "factors".into(),
                expected: vec![values.len() / groups.max(1), groups],
                actual: vec![values.len()],
            });
        }
        Ok(Self { groups, values })
    }
    /// Returns the number of groups.
    #[must_use]
    pub const fn groups(&self) -> usize {
        self.groups
    }
    /// Returns the factor of one example's group.
    #[must_use]
    pub fn of(&self, example: usize, group: usize) -> f32 {
        self.values[example * self.groups + group]
    }
    /// Returns one group's factors, example by example.
    #[must_use]
    pub fn group(&self, group: usize) -> Vec<f32> {
        let column = self.values.iter().skip(group).step_by(self.groups);
        column.copied().collect()
    }
    /// Returns whether two groups have the same factors for every example, as in flat clipping.
    #[must_use]
    pub fn alike(&self, a: usize, b: usize) -> bool {
        let rows = self.values.chunks_exact(self.groups);
        rows.into_iter().all(|r| r[a].to_bits() == r[b].to_bits())
    }
    /// Returns the number of examples that were scaled down in some group.
    #[must_use]
    pub fn clipped(&self) -> usize {
        let rows = self.values.chunks_exact(self.groups);
        rows.filter(|row| row.iter().any(|f| *f < 1.0)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reach(clip: &Clip, squared: &[f64]) -> f64 {
        let norms = SquaredNorms::new(squared.len(), squared.to_vec()).unwrap();
        let factors = clip.factors(&norms);
        let groups = squared.iter().enumerate();
        let reached = groups.map(|(l, s)| s * f64::from(factors.of(0, l)).powi(2));
        reached.sum::<f64>().sqrt()
    }

    proptest! {
        /// Whatever the gradient, no kind lets it past the declared sensitivity.
        #[test]
        fn no_kind_exceeds_its_sensitivity(
            logs in proptest::collection::vec(-30.0f64..30.0, 1..9),
            norm in 1e-3f64..1e3,
            stability in 1e-6f64..10.0,
        ) {
            let squared: Vec<f64> = logs.iter().map(|l| l.exp()).collect();
            for kind in [Clipping::Flat, Clipping::PerLayer, Clipping::Automatic { stability }] {
                let clip = Clip::new(norm, 0.0).unwrap().by(kind).unwrap();
                let reached = reach(&clip, &squared);
                prop_assert!(reached <= clip.sensitivity() * (1.0 + 1e-15), "{kind:?}: {reached}");
            }
        }
    }

    #[test]
    fn per_layer_reaches_its_sensitivity_and_automatic_stays_below() {
        let norms = [1e6, 4e6, 9e6, 1e8];
        let clip = Clip::new(2.0, 0.0).unwrap();
        for kind in [Clipping::Flat, Clipping::PerLayer] {
            assert!(reach(&clip.by(kind).unwrap(), &norms) > 2.0 * (1.0 - 1e-6));
        }
        // C ‖g‖ / (‖g‖ + γ), ‖g‖ = 3
        let automatic = clip.by(Clipping::Automatic { stability: 1.0 }).unwrap();
        assert!((reach(&automatic, &[4.0, 5.0]) - 1.5).abs() < 1e-6);
    }

    #[test]
    fn the_margin_only_ever_lowers_factors() {
        // a norm that came out too small by η must still not exceed C
        for eta in [1e-6, 1e-5, 2e-3] {
            let clip = Clip::new(1.0, eta).unwrap();
            let squared = 9.0f64;
            let short = squared / (1.0 + eta).powi(2);
            for kind in [Clipping::Flat, Clipping::Automatic { stability: 1e-9 }] {
                let factor = clip.by(kind).unwrap().scaled(short, 1.0);
                assert!(f64::from(factor) * 3.0 <= 1.0, "{kind:?}, {eta}: {factor}");
            }
        }
    }

    #[test]
    fn a_norm_whose_squares_vanish_is_refused() {
        for norm in [1e-44, 1e-13, 0.0, -1.0, f64::INFINITY, f64::NAN] {
            let error = Clip::new(norm, 0.0).unwrap_err().to_string();
            assert!(error.contains("[1e-12, inf)"), "{norm}: {error}");
        }
        assert!(Clip::new(1e-12, 0.0).is_ok());
    }

    #[test]
    fn one_group_that_is_not_finite_silences_the_example() {
        let norms = SquaredNorms::new(2, vec![1.0, f64::NAN, 1.0, 2.0]).unwrap();
        assert_eq!((norms.rejected(), norms.finite(1)), (1, true));
        for kind in [
            Clipping::Flat,
            Clipping::PerLayer,
            Clipping::Automatic { stability: 0.1 },
        ] {
            let factors = Clip::new(1.0, 0.0)
                .unwrap()
                .by(kind)
                .unwrap()
                .factors(&norms);
            assert_eq!(factors.of(0, 0).to_bits(), 0.0f32.to_bits());
            assert!(factors.of(1, 0) > 0.0);
        }
    }

    #[test]
    fn adaptive_clipping_is_refused_with_the_reason() {
        let error = Clipping::named("adaptive").unwrap_err().to_string();
        assert!(error.contains("accounted"), "{error}");
        assert_eq!(Clipping::named("per-layer").unwrap(), Clipping::PerLayer);
        assert!(
            Clipping::named("none")
                .unwrap_err()
                .to_string()
                .contains("none")
        );
    }
}

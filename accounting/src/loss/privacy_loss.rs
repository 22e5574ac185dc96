//! Folds a mechanism and a question into the composed privacy loss; repetition and sequence are handled in one place.

use super::discrete;
use super::mixture::Pair;
use crate::loss::{Attained, Fold, LossDistribution, Overlap, Stated, fold};
use crate::mechanism::Mechanism;
use crate::quantity::error::{Error, Result};
use crate::quantity::neighbours::Neighbours;
use crate::quantity::{GroupSize, MOST_COUNT, Probability, Steps};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who is compared with whom, and how many records differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Query {
    /// The relation between the two inputs.
    pub neighbours: Neighbours,
    /// How many records are changed together.
    pub group: GroupSize,
}

impl Query {
    /// Creates the question about `group` records at once.
    #[must_use]
    pub const fn new(neighbours: Neighbours, group: GroupSize) -> Self {
        Self { neighbours, group }
    }
    /// Creates the question about other contents of `group` records.
    #[must_use]
    pub const fn replace(group: GroupSize) -> Self {
        Self::new(Neighbours::Replace, group)
    }
    /// Creates the question about a single record.
    #[must_use]
    pub const fn single(neighbours: Neighbours) -> Self {
        Self::new(neighbours, GroupSize::ONE)
    }
}

/// Which of the two laws comes first in the divergence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// The law with the record first (mixture first).
    Remove,
    /// The law without the record first (mixture second).
    Add,
}

impl Direction {
    /// Both directions, in the order in which they are reported.
    pub const BOTH: [Self; 2] = [Self::Remove, Self::Add];

    const fn name(self) -> &'static str {
        match self {
            Self::Remove => "remove",
            Self::Add => "add",
        }
    }
}

/// The privacy loss of a whole run in one direction, as data: the sum of independent one-step losses, with equal ones
/// counted and plain Gaussians merged. The default is that of a run that releases nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PrivacyLoss {
    /// The question that it answers, and the direction; absent from the loss of a secret's draws, and inside another
    /// loss.
    pub(crate) question: Option<(Query, Direction)>,
    /// Σ T_i μ_i² over plain Gaussian steps with distance μ_i between the means: their losses
    /// add up to one Gaussian loss.
    pub(crate) gaussian: f64,
    /// Steps that are pairs of Gaussian mixtures, with their count.
    pub(crate) parts: Vec<(Pair, u64)>,
    /// Steps of any other law, with their count.
    pub(crate) laws: Vec<(LossDistribution, u64)>,
    /// Whether a part is unprotected, so that nothing bounds the loss.
    pub(crate) unbounded: bool,
    /// Whether that part is known to tell both inputs apart with certainty, so that lower ends are known too.
    pub(crate) disjoint: bool,
    /// Whether the pair of some part isn't known to be attained, so that no lower end is known.
    pub(crate) only_bounding: bool,
    /// The same run with more information given to the adversary, if that has a simpler law.
    pub(crate) more_informed: Option<Box<Self>>,
    /// A loss that the run dominates, if its own law isn't known.
    pub(crate) below: Option<Box<Self>>,
    /// The common part of both runs for any noise, if one is known.
    pub(crate) overlap: Option<Overlap>,
    /// See [`PrivacyLoss::modestly`].
    pub(crate) modest: bool,
}

impl PrivacyLoss {
    /// Returns the loss of `mechanism` for one question and direction.
    ///
    /// ```
    /// use reticent_accounting::{Mechanism, Neighbours, NoiseMultiplier, SamplingRate, Steps};
    /// use reticent_accounting::{Direction, PrivacyLoss, Query};
    /// let run = Mechanism::dp_sgd(NoiseMultiplier::new(1.1)?, SamplingRate::new(0.01)?, Steps::new(1000));
    /// let loss = PrivacyLoss::of(&run, Query::single(Neighbours::AddRemove), Direction::Remove)?;
    /// assert_eq!(loss.steps(), 1000);
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] for a mechanism that is only an estimate, and for more than 2^53 steps.
    pub fn of(mechanism: &Mechanism, query: Query, direction: Direction) -> Result<Self> {
        let (mut folds, mut overlap) = (Vec::new(), Some(Overlap::WHOLE));
        let mut whole = 0u64;
        for runs in mechanism.runs() {
            let (length, times) = (runs.length, runs.times);
            let steps = counted(runs.steps()).ok_or_else(|| {
                let times = times.map_or_else(|| "more than 2^64".to_owned(), |n| n.to_string());
                too_many(format!("{times} times {length} steps"))
            })?;
            whole = more(whole, steps)?;
            let poisson = runs.as_poisson();
            let step = poisson.as_ref().unwrap_or(runs.step);
            folds.push(fold(step, query, direction, (length, steps / length))?);
            let each = Overlap::of(step, query, direction);
            overlap = overlap
                .zip(each)
                .map(|(before, each)| before.then(each, steps));
        }
        let mut loss = Self::sum(folds.iter().map(Fold::above))?;
        if folds.iter().any(|fold| matches!(fold, Fold::Bracket(_))) {
            let mut informed = Self::sum(folds.iter().map(Fold::more_informed))?;
            (loss.only_bounding, informed.only_bounding) = (true, true);
            loss.more_informed = (informed != loss).then(|| Box::new(informed));
            let below = folds.iter().filter_map(Fold::below);
            loss.below = Some(Box::new(Self::sum(below)?));
        }
        loss.overlap = overlap;
        loss.question = Some((query, direction));
        Ok(loss)
    }

    /// Returns the loss that bounds guesses of a secret in `group` records, and the neighbours that it compares: each
    /// content against one reference, the law with the secret first.
    ///
    /// Any run that is the same for all contents can serve as the reference: the one with the records zeroed, the one
    /// without them, or the one with any other content. The first of these that the mechanism is covered for is used;
    /// the order starts with the tightest. For the latter two, only upper ends are known.
    ///
    /// ```
    /// use reticent_accounting::{GroupSize, Mechanism, Neighbours, NoiseMultiplier, PrivacyLoss, Sampling, SamplingRate};
    /// let fixed = Mechanism::SubsampledGaussian {
    ///     noise_multiplier: NoiseMultiplier::new(1.0)?,
    ///     sampling_rate: SamplingRate::new(0.01)?,
    ///     sampling: Sampling::WithoutReplacement,
    /// };
    /// // A batch of fixed size knows no record less: another content is the reference.
    /// let (_, compared) = PrivacyLoss::of_guesses(&fixed, GroupSize::ONE)?;
    /// assert_eq!(compared, Neighbours::Replace);
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`PrivacyLoss::of`] for the zeroed records, if no reference is covered.
    pub fn of_guesses(mechanism: &Mechanism, group: GroupSize) -> Result<(Self, Neighbours)> {
        let mut refused = None;
        for neighbours in [
            Neighbours::ZeroOut,
            Neighbours::AddRemove,
            Neighbours::Replace,
        ] {
            let query = Query { neighbours, group };
            match Self::of(mechanism, query, Direction::Remove) {
                Ok(mut loss) => {
                    // If some mechanism attains the bound for these contents, it doesn't follow that a guess does.
                    if neighbours != Neighbours::ZeroOut {
                        (loss.only_bounding, loss.below) = (true, None);
                    }
                    loss.overlap = loss.overlap.map(Overlap::of_guesses);
                    return Ok((loss, neighbours));
                }
                Err(error @ Error::Unsupported { .. }) => {
                    refused.get_or_insert(error);
                }
                Err(other) => return Err(other),
            }
        }
        Err(refused.unwrap_or_else(|| Error::Unsupported {
            what: "guesses of a secret".into(),
            why: "no reference is covered".into(),
        }))
    }

    /// Returns the loss of all folds. A step of the mechanism may be several of its law, so these are counted too.
    fn sum<'f>(folds: impl Iterator<Item = &'f Fold>) -> Result<Self> {
        let (mut loss, mut whole) = (Self::default(), 0u64);
        for fold in folds {
            match fold {
                Fold::Pair(pair, times) | Fold::Bounding(pair, times) => {
                    whole = more(whole, *times)?;
                    loss.only_bounding |= matches!(fold, Fold::Bounding(..));
                    loss.add_pair(pair, *times);
                }
                Fold::LossDistribution(law, times) => {
                    whole = more(whole, *times)?;
                    loss.add_law(law, *times);
                }
                // Brackets are resolved earlier; for an upper end, an additional unbounded part would do no harm.
                Fold::Bracket(_) | Fold::Unbounded => loss.unbounded = true,
                Fold::Disjoint => (loss.unbounded, loss.disjoint) = (true, true),
            }
        }
        Ok(loss)
    }

    fn add_law(&mut self, law: &LossDistribution, times: u64) {
        if let Some((_, count)) = self.laws.iter_mut().find(|(other, _)| other == law) {
            *count += times;
        } else {
            self.laws.push((law.clone(), times));
        }
    }

    /// Returns the loss of `steps` independent steps that one pair of Gaussian mixtures dominates for this question and
    /// direction.
    ///
    /// The first law of the pair is the one that comes first in this direction: the law with the record for
    /// [`Direction::Remove`], the law without it for [`Direction::Add`]. Add/remove and zero-out need a loss for each
    /// direction.
    ///
    /// Bound: upper ends hold for every mechanism whose steps the pair dominates, whatever the earlier ones released;
    /// lower ends only for one that attains the pair.
    ///
    /// ```
    /// use reticent_accounting::pld::{Mixture, Pair};
    /// use reticent_accounting::{Delta, Direction, Neighbours, PrivacyLoss, Query, Steps, Tolerance};
    /// // A record that comes with probability 0.01 moves the mean by 1/1.1 of the noise's deviation.
    /// let pair = Pair { first: Mixture::binomial(1, 0.01, 1.0 / 1.1)?, second: Mixture::point(0.0)? };
    /// let query = Query::single(Neighbours::AddRemove);
    /// let loss = PrivacyLoss::of_pair(&pair, query, Direction::Remove, Steps::new(10_000))?;
    /// let epsilon = loss.epsilon(Delta::new(1e-5)?, Tolerance::DEFAULT)?.bounds.upper.unwrap();
    /// assert!((epsilon.get().get() - 5.19251).abs() < 1e-3);
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] for mixtures without all of their components
    /// ([`trimmed`](crate::pld::Mixture::trimmed)), and for more than 2^53 steps.
    pub fn of_pair(pair: &Pair, query: Query, direction: Direction, steps: Steps) -> Result<Self> {
        if let Some(short) = [&pair.first, &pair.second]
            .into_iter()
            .find(|side| !side.is_whole())
        {
            return Err(Error::Unsupported {
                what: format!("a mixture that lacks a mass of {:e}", short.missing()),
                why: "a pair needs both laws whole".into(),
            });
        }
        Ok(Self {
            question: Some((query, direction)),
            ..Self::of_steps(pair, steps)?
        })
    }

    /// Returns the loss of `steps` independent steps with one dominating pair.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] for more than 2^53 steps.
    pub(crate) fn of_steps(pair: &Pair, steps: Steps) -> Result<Self> {
        let mut loss = Self::of_no_steps(steps)?;
        if steps.get() > 0 {
            loss.add_pair(pair, steps.get());
            let each = Overlap::of_pair(pair);
            loss.overlap = each.map(|each| Overlap::WHOLE.then(each, steps.get()));
        }
        Ok(loss)
    }

    /// Returns the loss before the first of `steps` steps, if so many can be counted.
    fn of_no_steps(steps: Steps) -> Result<Self> {
        if steps > Steps::MOST {
            return Err(too_many(format!("{} steps", steps.get())));
        }
        Ok(Self {
            overlap: Some(Overlap::WHOLE),
            ..Self::default()
        })
    }

    /// Returns the loss of `steps` independent steps that a pair of discrete laws dominates for this question and
    /// direction: `outcomes` holds each outcome's probability under the first law and under the second.
    ///
    /// The first law is the one that comes first in this direction, as in [`PrivacyLoss::of_pair`]. An outcome that the
    /// second law doesn't have is an infinite loss. So is what the first law's probabilities lack to one, unless it is
    /// below 2^-50, which rounding the probabilities can cause; there are no lower ends then. What the second law's lack
    /// belongs to outcomes that the first law doesn't have.
    ///
    /// Bound: upper ends hold for every mechanism whose steps the pair dominates, whatever the earlier ones released;
    /// lower ends only for one that attains the pair.
    ///
    /// ```
    /// use reticent_accounting::{Direction, Epsilon, Neighbours, PrivacyLoss, Probability, Query, Steps, Tolerance};
    /// let outcomes = [(0.5, 0.25), (0.4, 0.75), (0.1, 0.0)].map(|(p, q)| {
    ///     (Probability::new(p).unwrap(), Probability::new(q).unwrap())
    /// });
    /// let query = Query::single(Neighbours::AddRemove);
    /// let loss = PrivacyLoss::of_outcomes(&outcomes, query, Direction::Remove, Steps::new(1))?;
    /// let delta = loss.delta(Epsilon::new(1.5f64.ln())?, Tolerance::DEFAULT)?.bounds.upper.unwrap();
    /// assert!((delta.get().get() - 0.225).abs() < 1e-12); // 0.5 − 1.5·0.25 + 0.1
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] if the probabilities of a law add up to more than one by more than 1e-10, and
    /// [`Error::Unsupported`] for more than 2^53 steps.
    pub fn of_outcomes(
        outcomes: &[(Probability, Probability)],
        query: Query,
        direction: Direction,
        steps: Steps,
    ) -> Result<Self> {
        let mut loss = Self {
            question: Some((query, direction)),
            ..Self::of_no_steps(steps)?
        };
        let (law, whole) = discrete::of_outcomes(outcomes)?;
        if steps.get() == 0 {
            return Ok(loss);
        }
        loss.overlap = None;
        loss.only_bounding = !whole;
        if law.infinite < 1.0 && law.atoms.len() > 0 {
            loss.add_law(&law, steps.get());
        } else {
            loss.unbounded = true;
        }
        Ok(loss)
    }

    fn add_pair(&mut self, pair: &Pair, times: u64) {
        if let Some(distance) = pair.gaussian_distance() {
            let squares = sum_of_squares(times, distance);
            // A loss that was rounded up isn't attained.
            self.only_bounding |= distance > 0.0 && squares <= f64::MIN_POSITIVE;
            self.gaussian += squares;
        } else if let Some((_, count)) = self.parts.iter_mut().find(|(other, _)| other == pair) {
            *count += times;
        } else {
            self.parts.push((pair.clone(), times));
        }
    }

    /// Returns the loss of this run followed by another, for the same question and direction. More than 2^53 steps in
    /// total can't be counted exactly, so nothing bounds their loss.
    ///
    /// ```
    /// use reticent_accounting::{Direction, Mechanism, Neighbours, NoiseMultiplier, PrivacyLoss, Query};
    /// let once = Mechanism::Gaussian { noise_multiplier: NoiseMultiplier::new(2.0)? };
    /// let of = |direction| PrivacyLoss::of(&once, Query::single(Neighbours::AddRemove), direction);
    /// assert!(of(Direction::Remove)?.then(&of(Direction::Remove)?).is_ok());
    /// assert!(of(Direction::Remove)?.then(&of(Direction::Add)?).is_err());
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if the two answer different questions or are of different directions.
    pub fn then(&self, next: &Self) -> Result<Self> {
        if self.question != next.question && !self.is_empty() && !next.is_empty() {
            let said = |loss: &Self| match loss.question {
                Some((Query { neighbours, group }, direction)) => {
                    let (records, direction) = (group.get(), direction.name());
                    format!("{neighbours} ({direction}, group size {records})")
                }
                None => "the draws of a secret".into(),
            };
            return Err(Error::Unsupported {
                what: format!("the loss for {} after one for {}", said(next), said(self)),
                why: "only losses of one question and direction add up".into(),
            });
        }
        let first = if self.is_empty() { next } else { self };
        Ok(Self {
            question: first.question,
            ..self.followed_by(next)
        })
    }

    fn followed_by(&self, next: &Self) -> Self {
        let mut both = self.clone();
        both.gaussian += next.gaussian;
        both.unbounded |= next.unbounded;
        both.disjoint |= next.disjoint;
        if counted(self.steps().checked_add(next.steps())).is_none() {
            both.unbounded = true;
            return both;
        }
        both.only_bounding |= next.only_bounding;
        both.overlap = (self.overlap.zip(next.overlap)).map(|(here, there)| here.then(there, 1));
        if self.below.is_some() || next.below.is_some() {
            both.more_informed = Some(Box::new(
                self.more_informed().followed_by(next.more_informed()),
            ));
            both.below = Some(Box::new(
                self.known_below().followed_by(&next.known_below()),
            ));
        }
        for (pair, times) in &next.parts {
            both.add_pair(pair, *times);
        }
        for (law, times) in &next.laws {
            both.add_law(law, *times);
        }
        both
    }

    /// Returns the steps of each kind separately, with plain Gaussians as one kind.
    pub(crate) fn kinds(&self) -> Vec<Self> {
        let bare = || Self {
            unbounded: self.unbounded,
            disjoint: self.disjoint,
            only_bounding: self.only_bounding,
            modest: self.modest,
            ..Self::default()
        };
        let gaussian = (self.gaussian > 0.0).then(|| Self {
            gaussian: self.gaussian,
            ..bare()
        });
        let parts = self.parts.iter().map(|part| Self {
            parts: vec![part.clone()],
            ..bare()
        });
        let laws = self.laws.iter().map(|law| Self {
            laws: vec![law.clone()],
            ..bare()
        });
        gaussian.into_iter().chain(parts).chain(laws).collect()
    }

    /// Returns the same run with more information given to the adversary, or itself.
    pub(crate) fn more_informed(&self) -> &Self {
        self.more_informed.as_deref().unwrap_or(self)
    }

    /// Returns the same loss, of which grids that fail are not laid again and again.
    ///
    /// For further questions about a run whose ends an earlier one left far apart: no answer is wrong, but some that
    /// only refined grids bring closer are wider.
    #[must_use]
    pub fn modestly(mut self) -> Self {
        let related = [&mut self.more_informed, &mut self.below];
        for other in related.into_iter().flatten() {
            **other = std::mem::take(&mut **other).modestly();
        }
        Self {
            modest: true,
            ..self
        }
    }

    /// Returns the same upper ends, without the work for lower ends that belong to another run.
    pub(crate) fn without_below(mut self) -> Self {
        // If there is another run, the law itself is only a bound.
        self.below = None;
        self
    }

    /// Returns what the run is known to dominate, if necessary nothing.
    fn known_below(&self) -> Self {
        match &self.below {
            Some(below) => (**below).clone(),
            None if self.bounds_only() => Self::default(),
            None => self.clone(),
        }
    }

    /// Returns the number of steps that aren't plain Gaussians.
    #[must_use]
    pub fn steps(&self) -> u64 {
        let parts = self.parts.iter().map(|(_, times)| times);
        parts.chain(self.laws.iter().map(|(_, times)| times)).sum()
    }

    /// Returns whether no lower end is known because some part is only bounded by its pair.
    pub(crate) fn bounds_only(&self) -> bool {
        let once = self.steps() + u64::from(self.gaussian > 0.0) <= 1;
        let needed = if once {
            Attained::OneStep
        } else {
            Attained::Always
        };
        self.only_bounding || self.laws.iter().any(|(law, _)| law.attained < needed)
    }

    /// Returns whether the two laws of the run are known to share no outcome.
    pub(crate) fn is_certain(&self) -> bool {
        self.disjoint && !self.bounds_only()
    }

    /// Returns whether the first law has mass only where the second one does, so that the blow-up at zero is zero.
    pub(crate) fn is_continuous(&self) -> bool {
        let stated = |law: &LossDistribution| law.stated.as_ref().is_none_or(Stated::is_continuous);
        let mut laws = self.laws.iter();
        !self.unbounded && laws.all(|(law, _)| law.infinite <= 0.0 && stated(law))
    }

    /// Returns whether nothing was released at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.gaussian <= 0.0 && self.steps() == 0 && !self.unbounded
    }

    /// Returns the same run without the far components of first laws, at most `mass` in total. Both divergences H(P‖Q)
    /// differ by at most [`Self::missing`].
    pub(crate) fn trimmed(&self, mass: f64) -> Self {
        let steps = self.steps().max(1) as f64;
        let parts = self
            .parts
            .iter()
            .map(|(pair, times)| {
                let first = pair.first.trimmed(mass / steps);
                (
                    Pair {
                        first,
                        second: pair.second.clone(),
                    },
                    *times,
                )
            })
            .collect();
        Self {
            parts,
            ..self.clone()
        }
    }

    /// Returns the mass missing from the composed first law, at most Σ T_i η_i.
    pub(crate) fn missing(&self) -> f64 {
        self.parts
            .iter()
            .map(|(pair, times)| pair.first.missing() * *times as f64)
            .sum()
    }
}

/// Returns the privacy losses of a question: both directions, or the single one of a symmetric pair.
///
/// # Errors
/// As [`PrivacyLoss::of`].
pub fn losses(mechanism: &Mechanism, query: Query) -> Result<Vec<PrivacyLoss>> {
    let directions: &[Direction] = match query.neighbours {
        Neighbours::Replace => &[Direction::Remove],
        Neighbours::AddRemove | Neighbours::ZeroOut => &Direction::BOTH,
    };
    directions
        .iter()
        .map(|direction| PrivacyLoss::of(mechanism, query, *direction))
        .collect()
}

/// Returns the sum of `times` squares of a distance, rounded up where it has too few digits or none.
pub(crate) fn sum_of_squares(times: u64, distance: f64) -> f64 {
    product_of(distance, times as f64 * distance * distance)
}

/// Returns a product in which this factor stands, rounded up where it has too few digits or none.
pub(crate) fn product_of(factor: f64, product: f64) -> f64 {
    match factor.abs() > 0.0 {
        true => product.max(f64::MIN_POSITIVE),
        false => product,
    }
}

/// Returns a count if arithmetic in f64 represents it exactly.
pub(super) fn counted(count: Option<u64>) -> Option<u64> {
    count.filter(|count| *count <= MOST_COUNT)
}

/// Returns the sum of two counts of steps.
fn more(steps: u64, more: u64) -> Result<u64> {
    counted(steps.checked_add(more))
        .ok_or_else(|| too_many(format!("{steps} and {more} more steps")))
}

pub(super) fn too_many(what: String) -> Error {
    Error::Unsupported {
        what,
        why: "more than 2^53 steps can't be counted exactly".into(),
    }
}

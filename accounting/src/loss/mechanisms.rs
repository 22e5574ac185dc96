//! Maps mechanisms, neighbours and samplers to pairs of laws; combinations that aren't covered are refused here.

use super::privacy_loss::{counted, too_many};
use super::sampling::sampled;
use super::{Atom, Attained, Density, LossDistribution, Piece, Shape, Stated, discrete};
use crate::loss::{Direction, Mixture, Pair, Query, losses};
use crate::mechanism::Mechanism;
use crate::quantity::error::{Error, Result};
use crate::quantity::neighbours::Neighbours;
use crate::quantity::{Epsilon, GroupSize, Probability};

/// One leaf of a mechanism, as seen by the accountant.
#[derive(Debug, Clone)]
pub(crate) enum Fold {
    /// A pair of Gaussian mixtures, with its number of steps.
    Pair(Pair, u64),
    /// A pair of Gaussian mixtures that only bounds the mechanism, with its number of steps.
    Bounding(Pair, u64),
    /// Any other law.
    LossDistribution(LossDistribution, u64),
    /// Laws that bracket a mechanism whose own law isn't known.
    Bracket(Box<Bracket>),
    /// Nothing bounds the loss.
    Unbounded,
    /// The mechanism tells the two inputs apart with certainty.
    Disjoint,
}

impl Fold {
    /// Returns a law that dominates the mechanism.
    pub(crate) fn above(&self) -> &Self {
        match self {
            Self::Bracket(around) => around.above.above(),
            known => known,
        }
    }

    /// Returns a law that dominates the mechanism if the adversary is told more.
    pub(crate) fn more_informed(&self) -> &Self {
        match self {
            Self::Bracket(around) => around
                .more_informed
                .as_ref()
                .unwrap_or(&around.above)
                .more_informed(),
            known => known,
        }
    }

    /// Returns a law that the mechanism dominates. Laws that are only bounds are left out, since an adversary who sees
    /// less knows less.
    pub(crate) fn below(&self) -> Option<&Self> {
        match self {
            Self::Bracket(around) => around.below.as_ref()?.below(),
            Self::Bounding(..) => None,
            Self::LossDistribution(law, _) if law.attained < Attained::Always => None,
            known => Some(known),
        }
    }
}

/// What is known about a mechanism whose own law isn't known.
#[derive(Debug, Clone)]
pub(crate) struct Bracket {
    /// A law that dominates the mechanism.
    pub(crate) above: Fold,
    /// Another law that dominates it, simpler because the adversary is told more.
    pub(crate) more_informed: Option<Fold>,
    /// A law that the mechanism dominates, if one is known.
    pub(crate) below: Option<Fold>,
}

/// If noise is smaller than this factor relative to what it hides, it protects nothing: the squares of its losses
/// overflow.
const MOST_SHIFT: f64 = 1e154;

/// Returns the largest change by records, relative to the noise on it; `None` without noise.
fn farthest_shift(mechanism: &Mechanism, query: Query) -> Option<f64> {
    let (sensitivity, scale) = match mechanism {
        Mechanism::Gaussian { noise_multiplier }
        | Mechanism::SubsampledGaussian {
            noise_multiplier, ..
        }
        | Mechanism::PoissonBinomialGaussian {
            noise_multiplier, ..
        } => (1.0, *noise_multiplier),
        Mechanism::Laplace { scale } | Mechanism::SubsampledLaplace { scale, .. } => (1.0, *scale),
        Mechanism::MixtureOfGaussians {
            noise_multiplier,
            sensitivities,
            ..
        } => (
            sensitivities.iter().copied().fold(0.0, f64::max),
            *noise_multiplier,
        ),
        Mechanism::DiscreteGaussian {
            sigma: scale,
            sensitivity,
        }
        | Mechanism::DiscreteLaplace { scale, sensitivity } => (f64::from(*sensitivity), *scale),
        _ => return None,
    };
    // A replaced record changes it twice.
    Some(2.0 * f64::from(query.group.get()) * sensitivity / scale.get())
}

/// Returns the law of a mechanism without structure: `times` runs of `length` consecutive steps.
///
/// # Errors
/// Returns [`Error::Unsupported`] if the mechanism isn't covered for the question.
pub(crate) fn fold(
    mechanism: &Mechanism,
    query: Query,
    direction: Direction,
    (length, times): (u64, u64),
) -> Result<Fold> {
    if farthest_shift(mechanism, query).is_some_and(|shift| shift > MOST_SHIFT) {
        return Ok(Fold::Unbounded);
    }
    let each = |law: LossDistribution| Ok(Fold::LossDistribution(law, times));
    let scaled = |epsilon: Epsilon, law: fn(f64) -> LossDistribution, stated: Neighbours| {
        let epsilon = epsilon.get() * steps_between(stated, query)?;
        if epsilon.is_infinite() {
            Ok(Fold::Unbounded)
        } else {
            Ok(Fold::LossDistribution(law(epsilon), times))
        }
    };
    // The sum of several steps between neighbours is a bound that no mechanism attains; of one step, ε is as stated.
    let of_steps = |fold: Fold, stated: Epsilon, steps: f64| match fold {
        Fold::LossDistribution(mut law, times) => {
            if steps > 1.0 {
                law.attained = Attained::Never;
            } else {
                law.stated_loss = Some(stated.get());
            }
            Fold::LossDistribution(law, times)
        }
        other => other,
    };
    match mechanism {
        Mechanism::Gaussian { noise_multiplier } => Ok(Fold::Pair(
            pair(
                &copies(query, 1.0, noise_multiplier.get())?,
                query,
                direction,
            )?,
            times,
        )),
        Mechanism::SubsampledGaussian {
            noise_multiplier: noise,
            sampling_rate,
            sampling,
        } => sampled(
            Shape::Gaussian,
            noise.get(),
            *sampling_rate,
            *sampling,
            query,
            direction,
            (length, times),
        ),
        Mechanism::SubsampledLaplace {
            scale,
            sampling_rate,
            sampling,
        } => sampled(
            Shape::Laplace,
            scale.get(),
            *sampling_rate,
            *sampling,
            query,
            direction,
            (length, times),
        ),
        Mechanism::PoissonBinomialGaussian {
            noise_multiplier,
            rates,
        } => {
            if rates.is_empty() {
                return Err(refused(
                    "no rates".to_owned(),
                    "each record of the group needs its own",
                ));
            }
            // The rates are those of the records of one secret; several secrets have no rates of their own.
            single(query, "rates of the records of one group")?;
            let rates: Vec<f64> = rates.iter().map(|rate| rate.get()).collect();
            let mixture = Mixture::poisson_binomial(&rates, 1.0 / noise_multiplier.get())?;
            Ok(Fold::Pair(pair(&mixture, query, direction)?, times))
        }
        Mechanism::MixtureOfGaussians {
            noise_multiplier,
            sensitivities,
            probabilities,
        } => {
            single(query, "a mixture of Gaussians")?;
            if sensitivities.len() != probabilities.len() {
                return Err(refused(
                    format!(
                        "{} sensitivities with {} probabilities",
                        sensitivities.len(),
                        probabilities.len()
                    ),
                    "each sensitivity needs its probability",
                ));
            }
            let (chances, exact) = ln_chances(probabilities);
            let components = sensitivities
                .iter()
                .zip(chances)
                .filter(|(_, ln)| ln.is_finite())
                .map(|(s, ln)| (s / noise_multiplier.get(), ln))
                .collect();
            let pair = pair(&Mixture::computed(components)?, query, direction)?;
            Ok(if exact {
                Fold::Pair(pair, times)
            } else {
                Fold::Bounding(pair, times)
            })
        }
        Mechanism::Laplace { scale } => each(shifted(
            Shape::Laplace,
            &copies(query, 1.0, scale.get())?,
            query,
            direction,
        )?),
        Mechanism::DiscreteGaussian { sigma, sensitivity } => each(discrete::discrete_gaussian(
            sigma.get(),
            whole_shift(*sensitivity, query)?,
        )?),
        Mechanism::DiscreteLaplace { scale, sensitivity } => each(discrete::discrete_laplace(
            scale.get(),
            whole_shift(*sensitivity, query)?,
        )),
        Mechanism::RandomisedResponse { truth, categories } => {
            randomised(truth.get(), *categories, query, times)
        }
        Mechanism::ExponentialMechanism {
            epsilon,
            neighbours,
        } => scaled(*epsilon, discrete::exponential, *neighbours),
        Mechanism::PureDp {
            epsilon,
            neighbours,
        } => {
            let bound = scaled(*epsilon, discrete::pure, *neighbours)?;
            let steps = steps_between(*neighbours, query)?;
            Ok(of_steps(bound, *epsilon, steps))
        }
        Mechanism::ApproxDp {
            epsilon,
            delta,
            neighbours,
        } => {
            let steps = steps_between(*neighbours, query)?;
            let bound = approximate(epsilon.get(), delta.get(), steps, times)?;
            Ok(of_steps(bound, *epsilon, steps))
        }
        // A divergence of at most ξ at every order is pure differential privacy.
        Mechanism::Zcdp {
            rho,
            xi,
            neighbours,
        } if rho.get() <= 0.0 => {
            let pure = Mechanism::PureDp {
                epsilon: Epsilon::new(xi.get())?,
                neighbours: *neighbours,
            };
            fold(&pure, query, direction, (length, times))
        }
        Mechanism::Zcdp {
            rho,
            xi,
            neighbours,
        } => {
            let links = steps_between(*neighbours, query)?;
            each(LossDistribution::stated(Stated::line(*rho, *xi, links)))
        }
        Mechanism::RenyiDp {
            orders,
            divergences,
            neighbours,
        } => {
            let links = steps_between(*neighbours, query)?;
            each(LossDistribution::stated(Stated::at_orders(
                orders,
                divergences,
                links,
            )?))
        }
        Mechanism::RepeatAndSelect {
            each: run,
            mean,
            shape,
        } => {
            let runs = losses(run, query)?;
            if runs.iter().any(|run| run.unbounded) {
                return Ok(Fold::Unbounded);
            }
            each(LossDistribution::stated(Stated::best(runs, *mean, *shape)))
        }
        Mechanism::NonPrivate { .. } => Ok(Fold::Unbounded),
        Mechanism::Estimated { why, .. } => Err(Error::Unsupported {
            what: "an estimated mechanism".into(),
            why: format!("an estimate never becomes a bound ({why})"),
        }),
        Mechanism::Repeat { .. } | Mechanism::Sequence { .. } => Err(refused(
            "a composed mechanism in the place of a single one".into(),
            "the accountant unfolds it first",
        )),
    }
}

/// Returns logarithms of probabilities that add up to one, and whether the given ones did. What was cut off in writing
/// them down may belong to any sensitivity, so it is added to the largest; an excess is taken from the smallest.
pub(super) fn ln_chances(given: &[Probability]) -> (Vec<f64>, bool) {
    let mut chances: Vec<f64> = given.iter().map(|p| p.get()).collect();
    let sum: f64 = chances.iter().sum();
    let mut excess = sum - 1.0;
    let whole = excess.abs() <= f64::EPSILON * chances.len() as f64;
    if let (false, true, Some(last)) = (whole, excess < 0.0, chances.last_mut()) {
        *last -= excess;
    }
    for chance in &mut chances {
        if whole || excess <= 0.0 {
            break;
        }
        let taken = chance.min(excess);
        *chance -= taken;
        excess -= taken;
    }
    let mut logarithms: Vec<f64> = chances.iter().map(|p| p.ln()).collect();
    // A probability near one is computed as the complement of the others: its own digits can't represent a small one.
    let most = (0..chances.len()).max_by(|i, j| chances[*i].total_cmp(&chances[*j]));
    if let Some(most) = most {
        chances[most] = 0.0;
        let others: f64 = chances.iter().sum();
        if others < 0.5 {
            logarithms[most] = (-others).ln_1p();
        }
    }
    (logarithms, whole)
}

pub(super) fn refused(what: String, why: &str) -> Error {
    Error::Unsupported {
        what,
        why: why.to_owned(),
    }
}

pub(super) fn single(query: Query, what: &str) -> Result<()> {
    if query.group == GroupSize::ONE {
        Ok(())
    } else {
        Err(refused(
            format!("{what} for a group of {}", query.group.get()),
            "only single records are; for zero-out and replace, groups follow from them",
        ))
    }
}

/// Returns K of the group's records in the batch, each there with `rate` and shifting by one clipping norm: positions
/// in units of the noise.
pub(super) fn copies(query: Query, rate: f64, noise: f64) -> Result<Mixture> {
    Mixture::binomial(query.group.get(), rate, 1.0 / noise)
}

/// Returns the dominating pair of a mixture of shifts: against no shift for add/remove and zero-out, against its mirror
/// image (sensitivity 2) for replace.
pub(super) fn pair(with: &Mixture, query: Query, direction: Direction) -> Result<Pair> {
    let without = Mixture::point(0.0)?;
    let with = with.clone();
    Ok(match (query.neighbours, direction) {
        (Neighbours::AddRemove | Neighbours::ZeroOut, Direction::Remove) => Pair {
            first: with,
            second: without,
        },
        (Neighbours::AddRemove | Neighbours::ZeroOut, Direction::Add) => Pair {
            first: without,
            second: with,
        },
        (Neighbours::Replace, _) => Pair {
            first: with.clone(),
            second: with,
        },
    })
}

/// Like [`pair`], for any log-concave shape: half-lines are the best tests of its shifts, and its trade-off functions
/// of successive shifts compose, so the dominance lemma holds unchanged.
pub(super) fn shifted(
    shape: Shape,
    with: &Mixture,
    query: Query,
    direction: Direction,
) -> Result<LossDistribution> {
    let pair = pair(with, query, direction)?;
    Ok(between(
        shape,
        None,
        None,
        &Density::of_mixture(&pair.first, 1.0),
        &Density::of_mixture(&pair.second, -1.0),
    ))
}

/// Returns the law of two densities on an interval. It is cut where Laplace densities have a kink; beyond the outermost
/// kinks, where the loss is constant, each end becomes an atom.
pub(super) fn between(
    shape: Shape,
    from: Option<f64>,
    to: Option<f64>,
    first: &Density,
    second: &Density,
) -> LossDistribution {
    let mut pieces = Vec::new();
    let mut cuts: Vec<Option<f64>> = vec![from];
    if shape == Shape::Laplace {
        let mut kinks: Vec<f64> = first.positions().chain(second.positions()).collect();
        kinks.sort_by(f64::total_cmp);
        kinks.dedup_by(|a, b| a.to_bits() == b.to_bits());
        kinks.retain(|x| from.is_none_or(|from| *x > from) && to.is_none_or(|to| *x < to));
        cuts.extend(kinks.into_iter().map(Some));
    }
    cuts.push(to);
    let of = |density: &Density, ends: &[Option<f64>]| match shape {
        Shape::Laplace => density.between_kinks(ends[0], ends[1]),
        Shape::Gaussian => density.clone(),
    };
    let stretch = |ends: &[Option<f64>]| Piece {
        shape,
        from: ends[0],
        to: ends[1],
        first: of(first, ends),
        second: of(second, ends),
        ln_weight: 0.0,
    };
    let mut atoms = Vec::new();
    for ends in cuts.windows(2) {
        match (shape, ends[0], ends[1]) {
            (Shape::Laplace, None, Some(x)) => {
                let ln_second = second.ln_head(shape, x);
                atoms.push(stretch(ends).atom_at(x, ln_second));
            }
            (Shape::Laplace, Some(x), None) => {
                let ln_second = second.ln_tail(shape, x);
                atoms.push(stretch(ends).atom_at(x, ln_second));
            }
            _ => pieces.push(stretch(ends)),
        }
    }
    LossDistribution {
        pieces,
        ..LossDistribution::of_atoms(atoms, None)
    }
}

fn whole_shift(sensitivity: u32, query: Query) -> Result<u32> {
    let factor = if query.neighbours == Neighbours::Replace {
        2
    } else {
        1
    };
    let shift = u64::from(sensitivity) * u64::from(query.group.get()) * factor;
    u32::try_from(shift)
        .ok()
        .filter(|shift| (1..=1_000_000).contains(shift))
        .ok_or(Error::out_of_range(
            "sensitivity times group size",
            "[1, 1000000]",
            shift as f64,
        ))
}

fn randomised(truth: f64, categories: u32, query: Query, times: u64) -> Result<Fold> {
    if categories < 2 {
        return Err(Error::out_of_range(
            "number of categories",
            "[2, inf)",
            f64::from(categories),
        ));
    }
    if query.neighbours != Neighbours::Replace {
        return Err(refused(
            format!("randomised response under {}", query.neighbours),
            "every record reports, so its neighbours are replace",
        ));
    }
    if truth <= 0.0 && categories == 2 || truth >= 1.0 {
        return Ok(Fold::Disjoint);
    }
    // Records of a group answer independently.
    let records = u64::from(query.group.get());
    let total = counted(times.checked_mul(records))
        .ok_or_else(|| too_many(format!("{times} responses of each of {records} records")))?;
    let mut law = discrete::randomised_response(truth, categories);
    if truth <= 0.0 {
        // The true category is never reported: where Q has no mass, P has mass 1/(k − 1).
        let rest = 1.0 / f64::from(categories - 1);
        law = LossDistribution::of_atoms(vec![Atom::new(0.0, (1.0 - rest).ln())], None);
        law.infinite = rest;
    }
    Ok(Fold::LossDistribution(law, total))
}

/// Returns how many steps between the stated neighbours a step between the neighbours in question takes.
fn steps_between(stated: Neighbours, query: Query) -> Result<f64> {
    let each = match (stated, query.neighbours) {
        (stated, other) if stated == other => 1.0,
        // By way of the data set without the record, or with its gradient zeroed.
        (Neighbours::AddRemove | Neighbours::ZeroOut, Neighbours::Replace) => 2.0,
        (stated, other) => {
            return Err(refused(
                format!("a guarantee for {stated} under {other}"),
                "the one does not imply the other",
            ));
        }
    };
    Ok(each * f64::from(query.group.get()))
}

/// Returns (ε, δ) over k steps: (kε, δ(e^{kε} − 1)/(e^ε − 1)).
fn approximate(epsilon: f64, delta: f64, steps: f64, times: u64) -> Result<Fold> {
    let sum = if epsilon < 1e-9 {
        steps * (1.0 + steps * epsilon)
    } else {
        (steps * epsilon).exp_m1() / epsilon.exp_m1()
    };
    // The rounding error of kε becomes a relative error of its exponential.
    let room = 1e-14 + 2.0 * f64::EPSILON * steps * epsilon;
    let total = if steps <= 1.0 {
        delta
    } else {
        delta * sum * (1.0 + room)
    };
    if epsilon.is_infinite() || (total.is_nan() || total >= 1.0) && delta > 0.0 {
        return Ok(Fold::Unbounded);
    }
    let total = if delta > 0.0 { total } else { 0.0 };
    Ok(Fold::LossDistribution(
        discrete::approximate(steps * epsilon, total),
        times,
    ))
}

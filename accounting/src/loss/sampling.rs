//! Maps each sampler to its law and refuses samplers that aren't covered.

use super::allocation::allocation;
use super::mechanisms::{Bracket, Fold, between, copies, pair, refused, shifted, single};
use super::privacy_loss::{counted, too_many};
use super::{Atom, Attained, Density, LossDistribution, Shape};
use crate::loss::{Direction, Mixture, Query};
use crate::mechanism::Sampling;
use crate::numeric::special::ln_binomial_upper_tail;
use crate::quantity::error::{Error, Result};
use crate::quantity::neighbours::Neighbours;
use crate::quantity::{GroupSize, SamplingRate};

/// The relative error of a weight from binomial tails, per unit of its logarithm.
const WEIGHT_ERROR: f64 = 1e-12;

/// With shifts larger than the inverse of this, the positions of losses have too few digits.
const LEAST_NOISE: f64 = 1e-6;

/// With less noise per record, no grid has a finite ε of an amplified group: every batch counts as holding all of it.
const LEAST_NOISE_OF_GROUPS: f64 = 0.01;

/// Returns the law of noisy sums over batches drawn by `sampling`: `times` runs of `length` consecutive steps.
///
/// Noise below [`LEAST_NOISE`] is bracketed: from below by the law at [`LEAST_NOISE`], which is post-processing; from
/// above by a law that reveals in which batches the records are, because batches without them reveal nothing.
///
/// # Errors
/// Returns [`Error::Unsupported`] if the sampler isn't covered for the question.
pub(super) fn sampled(
    shape: Shape,
    noise: f64,
    rate: SamplingRate,
    sampling: Sampling,
    query: Query,
    direction: Direction,
    (length, times): (u64, u64),
) -> Result<Fold> {
    let by = |noise: f64| {
        drawn(
            shape,
            noise,
            rate,
            sampling,
            query,
            direction,
            (length, times),
        )
    };
    if noise >= LEAST_NOISE || sampling == Sampling::Poisson && rate.get() >= 1.0 {
        return by(noise);
    }
    let below = by(LEAST_NOISE)?;
    let draw = sampling.draw();
    let alike = draw.independent || draw.fixed_size || draw.epoch.is_some();
    // Elsewhere an additional record may take the place of another one.
    let noise = if alike { noise } else { 0.5 * noise };
    Ok(Fold::Bracket(Box::new(Bracket {
        above: plain(shape, noise, 1.0, query, direction, length * times)?,
        more_informed: None,
        below: Some(below),
    })))
}

/// Returns the law as [`sampled`] does, for any noise. Runs are longer than one step only where batches are drawn by
/// epochs.
fn drawn(
    shape: Shape,
    noise: f64,
    rate: SamplingRate,
    sampling: Sampling,
    query: Query,
    direction: Direction,
    (length, times): (u64, u64),
) -> Result<Fold> {
    match sampling {
        Sampling::Poisson => plain(shape, noise, rate.get(), query, direction, times),
        Sampling::TruncatedPoisson { max_batch, records } => {
            if query.group > GroupSize::ONE && records > 0 && max_batch >= records {
                // All records fit into a batch.
                return plain(shape, noise, rate.get(), query, direction, times);
            }
            if query.group > GroupSize::ONE && query.neighbours != Neighbours::AddRemove {
                return with_known_batches(shape, noise, query, direction, times);
            }
            single(query, "truncated Poisson sampling")?;
            truncated(
                shape,
                noise,
                rate.get(),
                (max_batch, records),
                query,
                direction,
                times,
            )
        }
        Sampling::WithoutReplacement => {
            if query.neighbours != Neighbours::Replace {
                single(query, "sampling without replacement")?;
                return Err(refused(
                    format!("sampling without replacement under {}", query.neighbours),
                    "a fixed-size batch keeps its size, so its neighbours are replace",
                ));
            }
            let (records, share) = (f64::from(query.group.get()), chance_of_a_hit(query, rate));
            let grouped = query.group > GroupSize::ONE;
            if grouped && (share >= 1.0 || noise < LEAST_NOISE_OF_GROUPS * records) {
                return with_known_batches(shape, noise, query, direction, times);
            }
            let mut law = without_replacement(shape, share, records / noise);
            if grouped {
                law.attained = Attained::Never;
            }
            Ok(Fold::LossDistribution(law, times))
        }
        Sampling::WithReplacement => Err(refused(
            "sampling with replacement".into(),
            "how often a record can come up in one batch is not known from the rate",
        )),
        Sampling::Shuffled if query.neighbours == Neighbours::AddRemove => Err(refused(
            "shuffled batches under add-remove".into(),
            "one record more moves every batch; ask zero-out or replace",
        )),
        Sampling::Shuffled | Sampling::BallsInBins | Sampling::RandomAllocation { .. } => {
            let epoch = Epoch::new(sampling, rate, (length, times))?;
            let shuffled = sampling == Sampling::Shuffled;
            epoch.fold(shape, noise, query, direction, shuffled)
        }
    }
}

/// Checks the numbers of a random allocation against each other.
fn allocated(selected: u64, steps: u64, rate: f64) -> Result<()> {
    if selected == 0 || selected > steps {
        return Err(Error::out_of_range(
            "steps of an epoch that a record is selected for",
            "[1, steps of an epoch]",
            selected as f64,
        ));
    }
    let share = selected as f64 / steps as f64;
    if (rate / share - 1.0).abs() > 1e-9 {
        return Err(Error::out_of_range(
            "sampling rate of a random allocation",
            "[selected/steps, selected/steps]",
            rate,
        ));
    }
    Ok(())
}

/// Returns a bound on the chance that a batch of fixed size has some of the group's records in it: kq, rounded up; q of
/// a single record. Batches of one record attain it.
pub(super) fn chance_of_a_hit(query: Query, rate: SamplingRate) -> f64 {
    let others = f64::from(query.group.get() - 1) * (1.0 + 4.0 * f64::EPSILON);
    (rate.get() * (1.0 + others)).min(1.0)
}

/// Returns the law if each record is in a batch independently of the others.
fn plain(
    shape: Shape,
    noise: f64,
    rate: f64,
    query: Query,
    direction: Direction,
    times: u64,
) -> Result<Fold> {
    let with = copies(query, rate, noise)?;
    Ok(match shape {
        Shape::Gaussian => Fold::Pair(pair(&with, query, direction)?, times),
        Shape::Laplace => Fold::LossDistribution(shifted(shape, &with, query, direction)?, times),
    })
}

/// Returns the law if the adversary is told the batches: each of `times` steps has all records of the group in it.
///
/// Bound: upper, for samplers that draw batches without looking at the records and put each record into a batch once.
/// Both inputs then have the same law of batches S, so that P = E_S P_S and Q = E_S Q_S, and by joint convexity H_α(P‖Q)
/// ≤ E_S H_α(P_S‖Q_S). Of a sum over S, at most all k records of the group have changed, by 2 each under replace and by
/// 1 under zero-out: P_S and Q_S are the noise moved by at most 2k (k), and H_α grows with that distance. The same holds
/// step by step given all earlier outputs and batches.
fn with_known_batches(
    shape: Shape,
    noise: f64,
    query: Query,
    direction: Direction,
    times: u64,
) -> Result<Fold> {
    let with = Mixture::point(f64::from(query.group.get()) / noise)?;
    Ok(match shape {
        Shape::Gaussian => Fold::Bounding(pair(&with, query, direction)?, times),
        Shape::Laplace => {
            let mut law = shifted(shape, &with, query, direction)?;
            law.attained = Attained::Never;
            Fold::LossDistribution(law, times)
        }
    })
}

/// Epochs in which a record takes part a fixed number of times each.
#[derive(Debug, Clone, Copy)]
struct Epoch {
    /// The number of an epoch's steps in which the record takes part.
    selected: u64,
    /// The least and the largest number of steps per epoch, as far as the rate determines it.
    steps: (u64, u64),
    /// The number of epochs, counting partial ones as whole, and the number of whole epochs.
    epochs: (u64, u64),
}

impl Epoch {
    /// Creates the epochs of `times` runs of `length` steps, each of which begins with an epoch of its own.
    fn new(sampling: Sampling, rate: SamplingRate, (length, times): (u64, u64)) -> Result<Self> {
        if rate.get() <= 0.0 {
            let what = "sampling rate of batches that are drawn by epochs";
            return Err(Error::out_of_range(what, "(0, 1]", rate.get()));
        }
        let (least, most) = sampling.steps_of_epoch(rate).unwrap_or((1, 1));
        let (selected, steps) = sampling.draw().epoch.unwrap_or((1, None));
        if let Some(steps) = steps {
            allocated(selected, steps, rate.get())?;
        }
        Ok(Self {
            selected,
            steps: (least, most),
            // For the upper bound, the partial last epoch of each run counts as whole.
            epochs: (times * length.div_ceil(least), times * (length / most)),
        })
    }

    /// Returns the law of the epochs. If the adversary is told in which steps of an epoch the record takes part, each
    /// is a step without amplification; this is all that is known from above for shuffled batches, replacements and
    /// groups. For the presence of one record in batches drawn for it alone, the law is that of a random allocation.
    /// The lower bound considers the record alone, as all others may contribute nothing.
    fn fold(
        self,
        shape: Shape,
        noise: f64,
        query: Query,
        direction: Direction,
        shuffled: bool,
    ) -> Result<Fold> {
        let (selected, epochs) = (self.selected, self.epochs.0);
        let places = counted(selected.checked_mul(epochs))
            .ok_or_else(|| too_many(format!("{selected} steps in each of {epochs} epochs")))?;
        let informed = with_known_batches(shape, noise, query, direction, places)?;
        let alone = query.group == GroupSize::ONE && query.neighbours != Neighbours::Replace;
        let block = self.steps.0 / self.selected;
        if !alone || block <= 1 {
            return Ok(informed);
        }
        let Some((above, below)) = allocation(shape, noise, (block, self.steps.1), direction)?
        else {
            return Ok(informed);
        };
        let below = if self.epochs.1 == 0 {
            None
        } else if self.selected == 1 {
            Some(Fold::LossDistribution(below, self.epochs.1))
        } else {
            self.summed(shape, noise, query, direction)?
        };
        Ok(Fold::Bracket(Box::new(Bracket {
            above: if shuffled {
                informed.clone()
            } else {
                Fold::LossDistribution(above, places)
            },
            more_informed: Some(informed),
            below,
        })))
    }

    /// Returns the law for an adversary who only sees the sum over an epoch, which is Gaussian: k of t steps move it
    /// by k, and its noise is √t times as wide.
    fn summed(
        self,
        shape: Shape,
        noise: f64,
        query: Query,
        direction: Direction,
    ) -> Result<Option<Fold>> {
        if shape != Shape::Gaussian {
            return Ok(None);
        }
        let steps = self.steps.1 as f64;
        let distance = self.selected as f64 / (noise * steps.sqrt()) * (1.0 - 1e-14);
        let pair = pair(&Mixture::point(distance)?, query, direction)?;
        Ok(Some(Fold::Pair(pair, self.epochs.1)))
    }
}

/// Returns the law of Poisson batches truncated to `max_batch`. With probability τ, that many other records are
/// drawn. The adversary is told whether this is the case (joint convexity), so the law is the union of two. If it
/// isn't, the batch is plain Poisson. If it is, the record is in the batch with a separate probability q' and then
/// displaces another one: H_α ≤ q' H_{1 + (α − 1)/q'} of two Gaussians at distance 2.
///
/// For add-remove, the other law is that batch without the record, so ((1 − q')N(0) + q'N(2), N(0)); for zero-out and
/// replace, both laws share the component without the record, and advanced joint convexity (Balle, Barthe and
/// Gaboardi 2018) gives the bound for both directions. For the lower bound, all others contribute nothing: Poisson
/// batches at the probability that the record is used at all.
///
/// Source: after Ganesh et al. 2025 (arXiv 2508.15089), proved in PROPOSITIONS.md.
fn truncated(
    shape: Shape,
    noise: f64,
    rate: f64,
    (max_batch, records): (u64, u64),
    query: Query,
    direction: Direction,
    times: u64,
) -> Result<Fold> {
    if max_batch == 0 || records == 0 {
        return Err(Error::out_of_range(
            "largest batch and number of records",
            "[1, inf)",
            0.0,
        ));
    }
    if max_batch > records - 1 {
        // All records fit into a batch.
        return plain(shape, noise, rate, query, direction, times);
    }
    let open = shifted(shape, &copies(query, rate, noise)?, query, direction)?;
    // Both weights are rounded up: H_α of the union is linear in them.
    let ln_full = ln_binomial_upper_tail(max_batch, records - 1, rate);
    let room = WEIGHT_ERROR * (1.0 + ln_full.abs());
    // q' = q E[B/(M + 1) | M ≥ B] = P(Bin(n, q) > B)·B/nτ for M others.
    let ln_used = ln_binomial_upper_tail(max_batch + 1, records, rate) - ln_full
        + (max_batch as f64 / records as f64).ln();
    let used = ((ln_used + room).exp()).min(rate);
    let full = match query.neighbours {
        Neighbours::AddRemove => {
            shifted(shape, &copies(query, used, 0.5 * noise)?, query, direction)?
        }
        Neighbours::ZeroOut | Neighbours::Replace => without_replacement(shape, used, 1.0 / noise),
    };
    let not_full = crate::numeric::special::ln_one_minus_exp((ln_full - room).min(0.0));
    let mut above = open
        .scaled(not_full)
        .joined(full.scaled((ln_full + room).min(0.0)));
    above.attained = Attained::Never;
    let share = rate * not_full.exp() + (ln_full + ln_used).exp();
    let share = (share * (1.0 - 1e-9)).min(rate);
    let below = plain(shape, noise, share, query, direction, times)?;
    Ok(Fold::Bracket(Box::new(Bracket {
        above: Fold::LossDistribution(above, times),
        more_informed: None,
        below: Some(below),
    })))
}

/// Returns the law of a uniform batch of fixed size under replace, where γ is the share of the records in the batch:
/// with (P, Q) the pair of the unsampled mechanism, H_α of ((1−γ)Q + γP, Q) for α ≥ 1, and of (P, (1−γ)P + γQ) for α
/// ≤ 1.
///
/// Of k records, γ is the chance that the batch has some of them in it, or more, and the shift k/noise: an upper bound.
/// Batches without them have one law R, whatever they contain. Of the others, P' and Q' are sums that differ in at most
/// k terms, by 2 each. So are P' and R, if random other records take the places of the group's: all batches of equally
/// many of these are equally likely. Advanced joint convexity then gives H_α ≤ γ H_{1 + (α − 1)/γ} of two laws at
/// distance 2k, for α ≥ 1 in both directions, which grows with γ.
///
/// Source: Zhu, Dong and Wang 2022, Theorem 11; Balle, Barthe and Gaboardi 2018 for one step.
fn without_replacement(shape: Shape, share: f64, shift: f64) -> LossDistribution {
    let (far, near) = ((shift, share.ln()), (-shift, (-share).ln_1p()));
    let mixed = |a: (f64, f64), b: (f64, f64)| {
        let components = [a, b].into_iter().filter(|c| c.1 > f64::NEG_INFINITY);
        Density::complete(components.collect())
    };
    let point = |position: f64| Density::complete(vec![(position, 0.0)]);
    // To the right of the middle the first law is mixed, to the left the second.
    let right = between(shape, Some(0.0), None, &mixed(near, far), &point(-shift));
    let left = between(
        shape,
        None,
        Some(0.0),
        &point(shift),
        &mixed((-shift, share.ln()), (shift, (-share).ln_1p())),
    );
    let mut law = left.joined(right);
    if share < 1.0 {
        // The atom where the two halves meet: (1 − γ)(P(x > 0) − Q(x > 0)).
        let (with, without) = (shape.ln_tail(-shift), shape.ln_tail(shift));
        let ln_gap = with + crate::numeric::special::ln_one_minus_exp((without - with).min(0.0));
        law.atoms
            .listed()
            .push(Atom::new(0.0, (-share).ln_1p() + ln_gap));
    }
    law.attained = Attained::OneStep;
    law
}

//! Which pair of laws stands for which mechanism, neighbours and sampler; what is not covered is
//! refused here.

use super::{Atom, Attained, Density, Law, Piece, Shape, discrete};
use crate::error::{Error, Result};
use crate::mechanism::{Mechanism, Sampling};
use crate::neighbours::Neighbours;
use crate::pld::{Direction, Mixture, Pair, Query};
use crate::quantity::{GroupSize, SamplingRate};
use crate::special::ln_binomial_upper_tail;

/// One leaf of a mechanism, as the accountant sees it.
#[derive(Debug, Clone)]
pub(crate) enum Fold {
    /// Gaussian mixtures, so many times.
    Pair(Pair, u64),
    /// Gaussian mixtures that only bound the mechanism, so many times.
    Bounding(Pair, u64),
    /// Any other law.
    Law(Law, u64),
    /// Nothing bounds the loss.
    Unbounded,
}

/// The law of a mechanism without structure, run `times` times.
///
/// # Errors
/// [`Error::Unsupported`] for a question that the mechanism is not covered for.
pub(crate) fn fold(
    mechanism: &Mechanism,
    query: Query,
    direction: Direction,
    times: u64,
) -> Result<Fold> {
    let each = |law: Law| Ok(Fold::Law(law, times));
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
            times,
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
            times,
        ),
        Mechanism::PoissonBinomialGaussian {
            noise_multiplier,
            rates,
        } => {
            let members = rates.len();
            if members == 0
                || query.group != GroupSize::ONE && query.group.get() as usize != members
            {
                return Err(refused(
                    format!(
                        "a group of {} with {members} rates of its own",
                        query.group.get()
                    ),
                    "ask for a group of 1, or of as many records as there are rates",
                ));
            }
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
            let components = sensitivities
                .iter()
                .zip(probabilities)
                .filter(|(_, p)| p.get() > 0.0)
                .map(|(s, p)| (s / noise_multiplier.get(), p.get().ln()))
                .collect();
            Ok(Fold::Pair(
                pair(&Mixture::new(components)?, query, direction)?,
                times,
            ))
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
        } => {
            let epsilon = epsilon.get() * steps_between(*neighbours, query)?;
            if epsilon.is_infinite() {
                Ok(Fold::Unbounded)
            } else {
                each(discrete::exponential(epsilon))
            }
        }
        Mechanism::PureDp {
            epsilon,
            neighbours,
        } => {
            let epsilon = epsilon.get() * steps_between(*neighbours, query)?;
            if epsilon.is_infinite() {
                Ok(Fold::Unbounded)
            } else {
                each(discrete::pure(epsilon))
            }
        }
        Mechanism::ApproxDp {
            epsilon,
            delta,
            neighbours,
        } => approximate(
            epsilon.get(),
            delta.get(),
            steps_between(*neighbours, query)?,
            times,
        ),
        Mechanism::NonPrivate { .. } => Ok(Fold::Unbounded),
        Mechanism::Repeat { .. } | Mechanism::Sequence { .. } | Mechanism::Estimated { .. } => {
            Err(refused(
                "a composed mechanism in the place of a single one".into(),
                "the accountant unfolds it first",
            ))
        }
    }
}

fn refused(what: String, why: &str) -> Error {
    Error::Unsupported {
        what,
        why: why.to_owned(),
    }
}

fn single(query: Query, what: &str) -> Result<()> {
    if query.group == GroupSize::ONE {
        Ok(())
    } else {
        Err(refused(
            format!("{what} for a group of {}", query.group.get()),
            "only single records are; the group lemma applies to the single record's guarantee",
        ))
    }
}

/// K of the group's records in the batch, each there with `rate`, each shifting by one clipping
/// norm: positions in units of the noise.
fn copies(query: Query, rate: f64, noise: f64) -> Result<Mixture> {
    Mixture::binomial(query.group.get(), rate, 1.0 / noise)
}

/// The dominating pair of a mixture of shifts: against no shift for add/remove and zero-out,
/// against its mirror image (sensitivity 2) for replace.
fn pair(with: &Mixture, query: Query, direction: Direction) -> Result<Pair> {
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

/// As [`pair`], for any log-concave shape: half-lines are the best tests of its shifts, and its
/// trade-off functions of successive shifts compose, so the dominance lemma holds word by word.
fn shifted(shape: Shape, with: &Mixture, query: Query, direction: Direction) -> Result<Law> {
    let pair = pair(with, query, direction)?;
    Ok(between(
        shape,
        None,
        None,
        &Density::of_mixture(&pair.first, 1.0),
        &Density::of_mixture(&pair.second, -1.0),
    ))
}

/// The law of two densities on a stretch: cut where Laplace densities have a kink, with an atom
/// for each end beyond the last one, where their loss is constant.
fn between(
    shape: Shape,
    from: Option<f64>,
    to: Option<f64>,
    first: &Density,
    second: &Density,
) -> Law {
    let mut law = Law {
        pieces: Vec::new(),
        atoms: Vec::new(),
        infinite: 0.0,
        missing: 0.0,
        comb: None,
        attained: Attained::Always,
        variance: None,
    };
    let mut cuts: Vec<Option<f64>> = vec![from];
    if shape == Shape::Laplace {
        let mut kinks: Vec<f64> = first.positions().chain(second.positions()).collect();
        kinks.sort_by(f64::total_cmp);
        kinks.dedup_by(|a, b| a.to_bits() == b.to_bits());
        kinks.retain(|x| from.is_none_or(|from| *x > from) && to.is_none_or(|to| *x < to));
        cuts.extend(kinks.into_iter().map(Some));
    }
    cuts.push(to);
    for ends in cuts.windows(2) {
        match (shape, ends[0], ends[1]) {
            (Shape::Laplace, None, Some(x)) => law.atoms.push(Atom {
                loss: first.ln_head(shape, x) - second.ln_head(shape, x),
                ln_second: second.ln_head(shape, x),
            }),
            (Shape::Laplace, Some(x), None) => law.atoms.push(Atom {
                loss: first.ln_tail(shape, x) - second.ln_tail(shape, x),
                ln_second: second.ln_tail(shape, x),
            }),
            (_, from, to) => law.pieces.push(Piece {
                shape,
                from,
                to,
                first: first.clone(),
                second: second.clone(),
                ln_weight: 0.0,
            }),
        }
    }
    law
}

fn sampled(
    shape: Shape,
    noise: f64,
    rate: SamplingRate,
    sampling: Sampling,
    query: Query,
    direction: Direction,
    times: u64,
) -> Result<Fold> {
    let plain = |rate: f64| -> Result<Fold> {
        let with = copies(query, rate, noise)?;
        Ok(match shape {
            Shape::Gaussian => Fold::Pair(pair(&with, query, direction)?, times),
            Shape::Laplace => Fold::Law(shifted(shape, &with, query, direction)?, times),
        })
    };
    match sampling {
        Sampling::Poisson => plain(rate.get()),
        Sampling::TruncatedPoisson { max_batch, records } => {
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
            single(query, "sampling without replacement")?;
            if query.neighbours != Neighbours::Replace {
                return Err(refused(
                    format!("sampling without replacement under {}", query.neighbours),
                    "a fixed-size batch keeps its size, so its neighbours are replace",
                ));
            }
            Ok(Fold::Law(
                without_replacement(shape, rate.get(), 1.0 / noise),
                times,
            ))
        }
        Sampling::WithReplacement => Err(refused(
            "sampling with replacement".into(),
            "how often a record can come up in one batch is not known from the rate",
        )),
        Sampling::Shuffled if query.neighbours == Neighbours::AddRemove => Err(refused(
            "shuffled batches under add-remove".into(),
            "one record more moves every batch; ask zero-out or replace",
        )),
        Sampling::Shuffled | Sampling::BallsInBins => {
            once_an_epoch(shape, noise, rate.get(), query, direction, times)
        }
    }
}

/// Shuffled batches and balls in bins: given away in which step of the epoch each record is, one
/// step an epoch sees it, without amplification. An upper bound; how far it is from the truth is
/// not known, so there is no lower end.
fn once_an_epoch(
    shape: Shape,
    noise: f64,
    rate: f64,
    query: Query,
    direction: Direction,
    times: u64,
) -> Result<Fold> {
    // A last epoch that is cut short counts whole; the product is rounded up.
    let epochs = (times as f64 * rate * (1.0 - 4.0 * f64::EPSILON))
        .ceil()
        .max(1.0);
    let with = Mixture::point(f64::from(query.group.get()) / noise)?;
    let epochs = epochs as u64;
    Ok(match shape {
        Shape::Gaussian => Fold::Bounding(pair(&with, query, direction)?, epochs),
        Shape::Laplace => {
            let mut law = shifted(shape, &with, query, direction)?;
            law.attained = Attained::Never;
            Fold::Law(law, epochs)
        }
    })
}

/// Poisson batches cut down to `max_batch`: unless that many others were drawn, plain Poisson;
/// otherwise the record, if drawn, displaces another one (sensitivity 2). The adversary is told
/// which (joint convexity), so the law is the union of the two.
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
        return Err(Error::OutOfRange {
            what: "largest batch and number of records",
            range: "[1, inf)",
            value: 0.0,
        });
    }
    let ln_full = if max_batch > records - 1 {
        f64::NEG_INFINITY
    } else {
        (ln_binomial_upper_tail(max_batch, records - 1, rate) + 1e-9).min(0.0)
    };
    let law = |distance: f64| {
        shifted(
            shape,
            &copies(query, rate, noise / distance)?,
            query,
            direction,
        )
    };
    let mut both = law(1.0)?.scaled(crate::special::ln_one_minus_exp(ln_full));
    if ln_full > f64::NEG_INFINITY {
        both = both.beside(law(2.0)?.scaled(ln_full));
    }
    both.attained = Attained::Never;
    Ok(Fold::Law(both, times))
}

/// A uniform batch of fixed size under replace, γ the share of the records it holds: with (P, Q)
/// the pair of the unsampled mechanism, H_α of ((1−γ)Q + γP, Q) for α ≥ 1, and of
/// (P, (1−γ)P + γQ) for α ≤ 1.
///
/// Source: Zhu, Dong and Wang 2022, Theorem 11; Balle, Barthe and Gaboardi 2018 for one step.
fn without_replacement(shape: Shape, share: f64, shift: f64) -> Law {
    let (far, near) = ((shift, share.ln()), (-shift, (-share).ln_1p()));
    let mixed = |a: (f64, f64), b: (f64, f64)| {
        let components = [a, b].into_iter().filter(|c| c.1 > f64::NEG_INFINITY);
        Density::complete(components.collect())
    };
    let point = |position: f64| Density::complete(vec![(position, 0.0)]);
    // Right of the middle the first law is mixed, left of it the second.
    let right = between(shape, Some(0.0), None, &mixed(near, far), &point(-shift));
    let left = between(
        shape,
        None,
        Some(0.0),
        &point(shift),
        &mixed((-shift, share.ln()), (shift, (-share).ln_1p())),
    );
    let mut law = left.beside(right);
    if share < 1.0 {
        // Where the two halves meet: (1 − γ)(P(x > 0) − Q(x > 0)).
        let (with, without) = (shape.ln_tail(-shift), shape.ln_tail(shift));
        let ln_gap = with + crate::special::ln_one_minus_exp((without - with).min(0.0));
        law.atoms.push(Atom {
            loss: 0.0,
            ln_second: (-share).ln_1p() + ln_gap,
        });
    }
    law.attained = Attained::OneStep;
    law
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
        .ok_or(Error::OutOfRange {
            what: "sensitivity times group size",
            range: "[1, 1000000]",
            value: shift as f64,
        })
}

fn randomised(truth: f64, categories: u32, query: Query, times: u64) -> Result<Fold> {
    if categories < 2 {
        return Err(Error::OutOfRange {
            what: "number of categories",
            range: "[2, inf)",
            value: f64::from(categories),
        });
    }
    if query.neighbours != Neighbours::Replace {
        return Err(refused(
            format!("randomised response under {}", query.neighbours),
            "every record reports, so its neighbours are replace",
        ));
    }
    if truth <= 0.0 && categories == 2 || truth >= 1.0 {
        return Ok(Fold::Unbounded);
    }
    // Records of a group answer independently.
    let total = times
        .checked_mul(u64::from(query.group.get()))
        .ok_or_else(|| {
            refused(
                "so many responses".into(),
                "their number must stay below 2^64",
            )
        })?;
    let mut law = discrete::randomised_response(truth, categories);
    if truth <= 0.0 {
        // Never the true one: where Q never goes, P goes with 1/(k − 1).
        let rest = 1.0 / f64::from(categories - 1);
        law = Law::of_atoms(
            vec![Atom {
                loss: 0.0,
                ln_second: (1.0 - rest).ln(),
            }],
            None,
        );
        law.infinite = rest;
    }
    Ok(Fold::Law(law, total))
}

/// How many of the stated neighbours' steps the asked ones take.
fn steps_between(stated: Neighbours, query: Query) -> Result<f64> {
    let each = match (stated, query.neighbours) {
        (stated, asked) if stated == asked => 1.0,
        (Neighbours::AddRemove, Neighbours::Replace) => 2.0,
        (stated, asked) => {
            return Err(refused(
                format!("a guarantee for {stated} under {asked}"),
                "the one does not imply the other",
            ));
        }
    };
    Ok(each * f64::from(query.group.get()))
}

/// (ε, δ) over k steps: (kε, δ(e^{kε} − 1)/(e^ε − 1)).
fn approximate(epsilon: f64, delta: f64, steps: f64, times: u64) -> Result<Fold> {
    let sum = if epsilon < 1e-9 {
        steps * (1.0 + steps * epsilon)
    } else {
        (steps * epsilon).exp_m1() / epsilon.exp_m1()
    };
    let total = delta * sum * (1.0 + 1e-14);
    if epsilon.is_infinite() || (total.is_nan() || total >= 1.0) && delta > 0.0 {
        return Ok(Fold::Unbounded);
    }
    let total = if delta > 0.0 { total } else { 0.0 };
    Ok(Fold::Law(
        discrete::approximate(steps * epsilon, total),
        times,
    ))
}

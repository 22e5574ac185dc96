//! Which law stands for which sampler, and which samplers are refused.

use super::mechanisms::{Fold, between, copies, pair, refused, shifted, single};
use super::{Atom, Attained, Density, Law, Shape};
use crate::error::{Error, Result};
use crate::mechanism::Sampling;
use crate::neighbours::Neighbours;
use crate::pld::{Direction, Mixture, Query};
use crate::quantity::SamplingRate;
use crate::special::ln_binomial_upper_tail;
use std::sync::Arc;

/// `times` noisy sums over batches drawn by `sampling`.
///
/// # Errors
/// [`Error::Unsupported`] for a sampler that is not covered for the question.
pub(super) fn sampled(
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
        Arc::make_mut(&mut law.atoms).push(Atom::new(0.0, (-share).ln_1p() + ln_gap));
    }
    law.attained = Attained::OneStep;
    law
}

//! Chooses weights and noise together, using the tight bound.

use super::first_order::{self, Stop};
use super::noise::Noise;
use super::parallel;
use super::program::{Packing, Solution};
use super::rates::RateProfile;
use super::secret::Proof;
use super::training::{Training, Weighed};
use crate::quantity::error::Result;
use crate::quantity::{NoiseMultiplier, Probability, Tolerance};
use std::collections::BTreeMap;

/// The number of rounds; each knows better than the last how unequal the rates of a secret are.
const ROUNDS: usize = 2;
/// Halvings of the bracket of σ in one round.
const HALVINGS: usize = 7;
/// The number of means per doubling at which a posterior is tabulated.
const MEANS_PER_OCTAVE: f64 = 6.0;
/// Iterations after which an undecided program counts as too tight.
const ITERATIONS: usize = 1_200;

pub(crate) fn improve(
    training: &Training<'_>,
    start: &Weighed,
    noise: &Noise,
    gap: Tolerance,
    tolerance: Tolerance,
) -> Result<(Weighed, Noise)> {
    let mut best = (start.clone(), noise.clone());
    for _ in 0..ROUNDS {
        let Some(weighed) = round(
            training,
            &best.0,
            best.1.sigma.get(),
            start.solution.mass,
            gap,
        )?
        else {
            break;
        };
        let noise = training.noise(&weighed, Proof::BlowUp, tolerance)?;
        let gained = 1.0 - noise.sigma.get() / best.1.sigma.get();
        if gained <= 0.0 {
            break;
        }
        best = (weighed, noise);
        if gained < 1e-2 {
            break;
        }
    }
    Ok(best)
}

/// Returns weights of mass at least `mass` at about the least σ whose capacities admit it.
fn round(
    training: &Training<'_>,
    from: &Weighed,
    sigma: f64,
    mass: f64,
    gap: Tolerance,
) -> Result<Option<Weighed>> {
    let outlines = outlines(training, &from.rates)?;
    let (mut low, mut high) = (0.3 * sigma, 1.02 * sigma);
    let mut start = from.solution.clone();
    let mut found: Option<Solution> = None;
    for halving in 0..HALVINGS {
        let middle = if halving == 0 {
            high
        } else {
            (low * high).sqrt()
        };
        let capacities = capacities(training, &outlines, middle, mass)?;
        let packing = Packing::new(training.incidence, capacities)?;
        let stop = Stop {
            gap: gap.get(),
            iterations: ITERATIONS,
            enough: Some(mass),
        };
        let solution = first_order::solve(&packing, Some(&start), stop);
        if solution.mass >= mass {
            high = middle;
            found = Some(solution.clone());
        } else if halving == 0 {
            return Ok(None);
        } else {
            low = middle;
        }
        start = solution;
    }
    found
        .map(|mut solution| {
            let share = (mass / solution.mass).min(1.0);
            solution.weights.iter_mut().for_each(|w| *w *= share);
            // Weights that were made smaller are only claimed to be feasible.
            solution.mass = mass.min(solution.mass);
            training.weighed(None, solution)
        })
        .transpose()
}

/// A simplified secret, as if n examples shared its mean equally, with n chosen to match Σρ².
struct Sketch {
    count: u32,
    ln_prior: i64,
}

const PRIOR_STEPS: f64 = 4.0;

fn outlines(training: &Training<'_>, rates: &[f64]) -> Result<Vec<Sketch>> {
    (0..training.secrets.len())
        .map(|secret| {
            let profile = RateProfile::of(training.incidence, secret, rates)?;
            let squares: f64 = profile.rates().iter().map(|rate| rate * rate).sum();
            let all = training.incidence.examples_of(secret).len().max(1) as f64;
            let effective = if squares > 0.0 {
                profile.mean() * profile.mean() / squares
            } else {
                all
            };
            // In steps of a quarter of a doubling.
            let count = ((effective.max(1.0).log2() * 4.0).round() / 4.0)
                .exp2()
                .round();
            let prior = training.secrets[secret].prior().get();
            Ok(Sketch {
                count: count.clamp(1.0, all) as u32,
                ln_prior: (prior.log2() * PRIOR_STEPS).round() as i64,
            })
        })
        .collect()
}

/// Returns b_j, the mean number of draws at which secret j's posterior reaches its promise at σ, in
/// units of weight if the weights sum to `mass`.
fn capacities(
    training: &Training<'_>,
    sketches: &[Sketch],
    sigma: f64,
    mass: f64,
) -> Result<Vec<f64>> {
    let mut kinds: BTreeMap<(u32, i64), Vec<usize>> = BTreeMap::new();
    for (secret, sketch) in sketches.iter().enumerate() {
        kinds
            .entry((sketch.count, sketch.ln_prior))
            .or_default()
            .push(secret);
    }
    let kinds: Vec<_> = kinds.into_iter().collect();
    let tables = parallel::map(&kinds, |(kind, members)| {
        let promises = members
            .iter()
            .map(|j| training.secrets[*j].posterior().get());
        let least = promises.clone().fold(1.0, f64::min);
        let most = promises.fold(0.0, f64::max);
        table(training, *kind, sigma, (least, most))
    });
    let mut capacities = vec![0.0; sketches.len()];
    for ((_, members), table) in kinds.iter().zip(tables) {
        let table = table?;
        for secret in members {
            let ln_mean = read(&table, training.secrets[*secret].posterior().get().ln());
            capacities[*secret] = ln_mean.exp() * mass / training.batch;
        }
    }
    Ok(capacities)
}

/// Returns pairs (ln posterior, ln mean), ascending, over the range of promises.
fn table(
    training: &Training<'_>,
    (count, ln_prior): (u32, i64),
    sigma: f64,
    (least, most): (f64, f64),
) -> Result<Vec<(f64, f64)>> {
    let prior = Probability::new((ln_prior as f64 / PRIOR_STEPS).exp2().min(1.0))?;
    let noise = NoiseMultiplier::new(sigma)?;
    let posterior = |ln_mean: f64| -> Result<f64> {
        let rate = (ln_mean.exp() / f64::from(count)).min(1.0);
        let profile = RateProfile::new(vec![rate; count as usize])?;
        let loss = profile.loss(noise, training.steps)?;
        Ok(Proof::BlowUp
            .posterior(&loss, prior, Tolerance::new(1e-3)?)?
            .upper)
    };
    let step = std::f64::consts::LN_2 / MEANS_PER_OCTAVE;
    let top = f64::from(count).ln();
    // Moves down from a guess until below the range, then up until above it.
    let mut ln_mean = (0.1f64).ln().min(top);
    let mut points = Vec::new();
    let mut at = posterior(ln_mean)?;
    while at > least && ln_mean > -40.0 {
        points.push((at.ln(), ln_mean));
        ln_mean -= if at > 2.0 * most { 4.0 * step } else { step };
        at = posterior(ln_mean)?;
    }
    points.push((at.ln(), ln_mean));
    points.reverse();
    while let Some(&(last, ln_mean)) = points.last()
        && last < most.ln()
        && ln_mean < top
    {
        let next = (ln_mean
            + if last < least.ln() - 1.0 {
                4.0 * step
            } else {
                step
            })
        .min(top);
        points.push((posterior(next)?.ln(), next));
    }
    Ok(points)
}

/// Interpolates ln mean at a ln posterior; values beyond the ends are those at the ends.
fn read(table: &[(f64, f64)], ln_posterior: f64) -> f64 {
    let after = table.partition_point(|point| point.0 < ln_posterior);
    match (after.checked_sub(1).map(|i| table[i]), table.get(after)) {
        (Some(left), Some(right)) if right.0 > left.0 => {
            left.1 + (right.1 - left.1) * (ln_posterior - left.0) / (right.0 - left.0)
        }
        (Some(left), _) => left.1,
        (None, Some(right)) => right.1,
        (None, None) => f64::NEG_INFINITY,
    }
}

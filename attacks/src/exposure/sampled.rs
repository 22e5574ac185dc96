//! Exposure estimated from a sample of the candidates, for spaces that can be neither searched nor
//! listed.

use crate::error::{Result, given, going_on, numbers, ranged};
use crate::exposure::skew_normal::SkewNormal;
use crate::search::{CandidateTree, Target, check_tie_tolerance, score_secrets, tie_tolerance};
use crate::statistics::check_open_unit;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use reticent_accounting::statistics::{clopper_pearson_lower, clopper_pearson_upper};
use reticent_accounting::{Confidence, Estimate, Lower, Upper};
use reticent_backends::Scorer;
use reticent_corpus::TokenId;
use std::ops::ControlFlow;

/// The result of a sample for one canary's exposure: −log2 of the share of candidates that cost no
/// more than the canary.
#[derive(Debug, Clone)]
pub struct SampledExposure {
    /// The number of candidates drawn, uniform and independent.
    pub sample: u64,
    /// The number of drawn candidates that cost no more than the canary, ties included.
    pub at_or_below: u64,
    /// The canary's NLL, nats.
    pub nll: f64,
    /// −log2((k + 1)/(n + 1)), bits.
    pub point: Estimate<f64>,
    /// The Clopper–Pearson bound that is conservative for "leaks", in bits: 11.7 for a sample of 10
    /// 000 without a single candidate below.
    pub at_least: Lower<f64>,
    /// The bound that is conservative for "does not leak", in bits; infinite if no candidate was
    /// below.
    pub at_most: Upper<f64>,
    /// The extrapolation by a skew-normal distribution, or why there is none.
    pub fitted: std::result::Result<Estimate<f64>, String>,
}

/// How a sample is drawn and scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    /// The number of candidates drawn for each context, uniform and independent.
    pub sample: u64,
    /// The number of candidates scored at once.
    pub batch: usize,
    /// The seed of the draw.
    pub seed: u64,
}

/// Estimates the exposure of each target from one sample per context.
///
/// Each bound holds with the stated confidence for one canary by itself, whatever the model.
/// `progress` is called with the number of candidates scored and may stop the run.
///
/// # Errors
/// Returns an error if there is no target or one that is not a candidate, if the sample, the batch or
/// a context is empty, if the confidence is outside (0, 1), if the engine fails, if the model returns
/// NaN, a log-probability above 1e-4 or another number of scores, or [`crate::Error::Interrupted`] if
/// `progress` stops the run.
pub fn sampled_exposures<S: Scorer + ?Sized>(
    scorer: &mut S,
    tree: &CandidateTree,
    targets: &[Target],
    sampling: Sampling,
    confidence: Confidence,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Vec<SampledExposure>> {
    let Sampling {
        sample,
        batch,
        seed,
    } = sampling;
    let value = format!("{sample} and {batch}");
    ranged(
        "sample and batch",
        "[1, inf)",
        value,
        sample > 0 && batch > 0,
    )?;
    crate::search::check_targets(tree, targets)?;
    check_open_unit("confidence", confidence.get())?;
    let mut found = vec![None; targets.len()];
    for (context, members) in crate::search::by_context(targets) {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let own = members.iter().map(|&m| targets[m].secret.clone());
        let drawn = (0..sample).map(|_| tree.candidate(rng.random_range(0..tree.candidates())));
        // The canaries share the candidates' batches: in one of their own they might round differently.
        let secrets: Vec<Vec<TokenId>> = own.chain(drawn).collect();
        let mut costs = Vec::with_capacity(secrets.len());
        for chunk in secrets.chunks(batch) {
            costs.extend(score_secrets(scorer, context, chunk)?);
            going_on(progress(costs.len().saturating_sub(members.len()) as u64))?;
        }
        let drawn = costs.split_off(members.len());
        let tolerance = tie_tolerance(scorer, tree.longest());
        for (member, nll) in members.into_iter().zip(costs) {
            found[member] = Some(SampledExposure::of(&drawn, nll, tolerance, confidence)?);
        }
    }
    Ok(found.into_iter().flatten().collect())
}

impl SampledExposure {
    /// Estimates the exposure of a canary with cost `nll`, in nats, from the costs of sampled
    /// candidates. Those that differ from it by at most `tolerance` are ties.
    ///
    /// # Errors
    /// Returns an error if `costs` is empty, if a cost or `nll` is NaN, which would count as neither below nor
    /// above, or if the tolerance is negative or not finite.
    pub fn of(costs: &[f64], nll: f64, tolerance: f64, confidence: Confidence) -> Result<Self> {
        given(!costs.is_empty(), "no candidate was drawn")?;
        for (what, nlls) in [
            ("cost of a candidate", costs),
            ("nll", std::slice::from_ref(&nll)),
        ] {
            numbers(what, "(-inf, inf]", nlls)?;
        }
        check_tie_tolerance(tolerance)?;
        let n = costs.len() as u64;
        let k = costs.iter().filter(|c| **c <= nll + tolerance).count() as u64;
        // Each bound counts ties on its conservative side.
        let below = costs.iter().filter(|c| **c < nll - tolerance).count() as u64;
        let bits = |share: f64| -share.log2();
        let high = clopper_pearson_upper(k, n, confidence)?.get().get();
        let low = clopper_pearson_lower(below, n, confidence)?.get().get();
        let fitted =
            SkewNormal::fit(costs).and_then(|law| law.exposure(nll).map_err(|e| e.to_string()));
        Ok(Self {
            sample: n,
            at_or_below: k,
            nll,
            point: Estimate::new(bits((k + 1) as f64 / (n + 1) as f64)),
            at_least: Lower::new(bits(high)),
            at_most: Upper::new(bits(low)),
            fitted,
        })
    }
}

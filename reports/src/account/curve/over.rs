//! ε at one δ against a parameter of the run: noise, sampling rate, steps, or the miss rate of redaction.

use super::args::Curve;
use super::points::spread;
use super::run::{coarser, question};
use super::{CurveKind, CurvePoint, Points};
use crate::account::calibrate::numbered;
use crate::account::plan::{Source, neighbours_of};
use crate::account::question::RunArgs;
use crate::contract::{Envelope, Number};
use crate::plan::args::Sigma;
use anyhow::{Context, Result, anyhow, bail};
use reticent_accounting::pld::Engine;
use reticent_accounting::redaction::Redaction;
use reticent_accounting::{
    GroupSize, MissRate, Neighbours, NoiseMultiplier, Query, SamplingRate, Steps, Tolerance,
};

/// The number of points if none is given.
const MANY: usize = 17;

/// Computes ε against `axis`.
///
/// # Errors
/// Returns an error if the axis is also given as a fixed value, arguments are out of range, or points
/// can't be certified.
pub(super) fn curve(wish: &Curve, axis: CurveKind) -> Result<Envelope<Points>> {
    free(&wish.run, axis)?;
    let neighbours = match (axis, wish.neighbours) {
        // Redaction is defined by comparison with another content.
        (CurveKind::Gamma, Some(other)) if other != Neighbours::Replace => {
            bail!("--neighbours: redaction compares contents, replace, got {other}")
        }
        (CurveKind::Gamma, _) => Neighbours::Replace,
        _ => neighbours_of(wish.neighbours, wish.run.schedule.sampler),
    };
    let (at, flag) = places(wish, axis)?;
    // Checks the ends first, since they were given.
    for end in at.last().iter().chain(&at.first()) {
        run_at(&wish.run, axis, **end).context(flag)?;
    }
    let sources = if axis == CurveKind::Gamma {
        vec![Source::of_records(&wish.run, neighbours)?]
    } else {
        let runs = at.iter().map(|x| run_at(&wish.run, axis, *x).context(flag));
        runs.map(|run| Source::of_records(&run?, neighbours))
            .collect::<Result<Vec<_>>>()?
    };
    let Some(first) = sources.first() else {
        bail!("--points: must be a whole number in [2, 1000], got 0");
    };
    let (given_delta, delta) = first.delta(wish.delta);
    let tolerance = wish.tolerance.unwrap_or(Tolerance::DEFAULT);
    let group = wish.group.unwrap_or(GroupSize::ONE);
    let mut inputs = first.inputs.clone();
    if axis != CurveKind::Gamma {
        inputs = inputs.without(&axis.names().0.replace(' ', "_"));
    }
    if wish.run.schedule.epochs.is_some() {
        inputs = inputs.without("steps");
    }
    let inputs = inputs
        .given("over", axis)?
        .or_assumed("delta", given_delta, delta)?
        .or_assumed("neighbours", wish.neighbours, neighbours)?
        .given("unit", first.unit.as_ref())?
        .or_assumed("tolerance", wish.tolerance, tolerance)?
        .given("group", wish.group)?;
    let query = Query { neighbours, group };
    let mut engine: Option<Engine> = None;
    let mut points = Vec::with_capacity(at.len());
    for (i, x) in at.iter().enumerate() {
        let source = sources.get(i).unwrap_or(first);
        let mut plan = question(&source.mechanism, query, tolerance, delta)?;
        let value = if axis == CurveKind::Gamma {
            let miss = MissRate::new(*x).context(flag)?;
            plan.redaction = Some(Redaction::single_policy(miss));
            source.run.blamed(plan.bayesian_epsilon())?
        } else {
            let row = source.run.blamed(plan.exactly())?;
            engine = coarser(engine, row.engine);
            row.epsilon
        };
        points.push(CurvePoint {
            at: Number(*x),
            value: numbered(value.context("--over: nothing is known of this run")?),
        });
    }
    let body = Points {
        curve: axis,
        neighbours,
        group,
        delta: Some(delta),
        engine,
        points,
        mechanism: first.mechanism.clone(),
        base: first.run.base(),
    };
    Ok(Envelope::new("curve", inputs, body))
}

/// Refuses a fixed value of the parameter that varies.
fn free(run: &RunArgs, axis: CurveKind) -> Result<()> {
    let schedule = &run.schedule;
    let fixed: &[(&str, bool)] = match axis {
        CurveKind::Sigma => &[("--sigma", run.sigma.is_some())],
        CurveKind::SampleRate => &[
            ("--sample-rate", schedule.sample_rate.is_some()),
            ("--batch-size", schedule.batch_size.is_some()),
            ("--epoch-steps", schedule.epoch_steps.is_some()),
        ],
        CurveKind::Steps => &[
            ("--steps", schedule.steps.is_some()),
            ("--epochs", schedule.epochs.is_some()),
        ],
        _ => &[],
    };
    if axis != CurveKind::Gamma && run.mechanism.is_some() {
        bail!("--mechanism: for a mechanism from a file, only gamma can vary");
    }
    match fixed.iter().find(|(_, given)| *given) {
        Some((flag, _)) => bail!("{flag}: is what --over varies; omit one of them"),
        None => Ok(()),
    }
}

/// Returns where the curve is evaluated, in ascending order, and the flag that sets it.
fn places(wish: &Curve, axis: CurveKind) -> Result<(Vec<f64>, &'static str)> {
    let (mut at, flag) = if wish.at.is_empty() {
        let (low, high) = axis.range();
        let (low, high) = (wish.from.unwrap_or(low), wish.to.unwrap_or(high));
        if !(low > 0.0 && low < high && high < f64::INFINITY) {
            bail!("--from: must lie above 0 and below --to, got {low} and {high}");
        }
        for (end, flag) in [(low, "--from"), (high, "--to")] {
            run_at(&wish.run, axis, end).context(flag)?;
        }
        let mut at = spread(low, high, wish.points.unwrap_or(MANY));
        if let [first, .., last] = at.as_mut_slice() {
            (*first, *last) = (low, high);
        }
        if axis == CurveKind::Steps {
            at = at.iter().map(|steps| steps.round()).collect();
        }
        (at, "--points")
    } else {
        (wish.at.clone(), "--at")
    };
    at.sort_by(f64::total_cmp);
    at.dedup_by(|a, b| a.to_bits() == b.to_bits());
    Ok((at, flag))
}

/// Returns the run whose parameter is `x`.
fn run_at(run: &RunArgs, axis: CurveKind, x: f64) -> Result<RunArgs> {
    let mut run = run.clone();
    match axis {
        CurveKind::Sigma => run.sigma = Some(Sigma::Noise(NoiseMultiplier::new(x)?)),
        CurveKind::SampleRate => run.schedule.sample_rate = Some(SamplingRate::new(x)?),
        CurveKind::Steps => {
            let steps = Steps::of_number(x).ok_or_else(|| {
                let most = Steps::MOST.get() - 1;
                anyhow!("steps must be a whole number in [1, {most}], got {x}")
            })?;
            run.schedule.steps = Some(steps.get());
        }
        CurveKind::Gamma => drop(MissRate::new(x)?),
        _ => {}
    }
    Ok(run)
}

impl CurveKind {
    /// Returns the range over which a parameter of a run is drawn.
    const fn range(self) -> (f64, f64) {
        match self {
            Self::SampleRate => (1e-4, 1.0),
            Self::Steps => (1.0, 1e5),
            Self::Gamma => (1e-4, 1.0),
            _ => (0.5, 8.0),
        }
    }
}

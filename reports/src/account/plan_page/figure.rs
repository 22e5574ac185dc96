//! Plots ε' against ε for several miss rates: the form of CRT's Fig. 6, for this plan.

use super::PlannedRun;
use crate::number::shortest;
use crate::plot::{Axis, Layer, Plot, Shape, Tone};
use anyhow::Result;
use reticent_accounting::pld::Profile;
use reticent_accounting::redaction::Redaction;
use reticent_accounting::{
    Delta, Direction, Epsilon, MissRate, NoiseMultiplier, PrivacyLoss, Query, Tolerance,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The miss rates drawn beside the plan's own.
const GAMMAS: [f64; 4] = [1.0, 0.3, 0.1, 0.01];
/// The noise of each point, as multiples of the plan's.
const NOISE: [f64; 9] = [0.75, 0.85, 1.0, 1.2, 1.5, 2.0, 2.8, 4.0, 6.0];

/// The relative width of the drawn numbers: less than the width of a line.
const TOLERANCE: f64 = 5e-3;

/// One curve: points (ε, ε') at the plan's δ as the noise varies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Amplified {
    /// γ.
    pub(crate) gamma: MissRate,
    /// (ε of the run, ε' after redaction), upper ends.
    pub(crate) points: Vec<(f64, f64)>,
}

/// Computes the curves, for the notion's own neighbours and by the exact pair; none without noise
/// or redaction.
///
/// # Errors
/// Returns an error if a point can't be certified.
pub(crate) fn curves(run: &PlannedRun) -> Result<Vec<Amplified>> {
    // The effect of redaction is defined for a single run of DP-SGD.
    let (Some(noisy), Some(redaction)) = (run.plan.run.noisy(), run.redaction()) else {
        return Ok(Vec::new());
    };
    if run.plan.mechanism() != noisy.mechanism() {
        return Ok(Vec::new());
    }
    let tolerance = Tolerance::new(TOLERANCE)?;
    let mut curves: Vec<Amplified> = gammas(redaction.miss())?
        .into_iter()
        .map(|gamma| Amplified {
            gamma,
            points: Vec::new(),
        })
        .collect();
    for factor in NOISE {
        let noise = NoiseMultiplier::new(noisy.noise_multiplier.get() * factor)?;
        let here = noisy.with_noise(noise).mechanism();
        let pair = PrivacyLoss::of(&here, Query::replace(run.records()), Direction::Remove)?;
        let Some(base) = pair.epsilon(*run.plan.delta, tolerance)?.bounds.upper else {
            continue;
        };
        for curve in &mut curves {
            let redaction = Redaction::single_policy(curve.gamma);
            let after = redaction.exact_epsilon(&pair, &pair, *run.plan.delta, tolerance)?;
            if let Some(after) = after.bounds.upper {
                curve.points.push((base.get().get(), after.get().get()));
            }
        }
    }
    Ok(curves)
}

fn gammas(own: MissRate) -> Result<Vec<MissRate>> {
    let mut all = GAMMAS
        .map(MissRate::new)
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    if all.iter().all(|g| (g.get() / own.get() - 1.0).abs() > 0.02) && own.get() > 0.0 {
        all.push(own);
    }
    all.sort_by(|a, b| b.get().total_cmp(&a.get()));
    Ok(all)
}

/// Draws the curves with the plan's own point.
#[must_use]
pub(crate) fn amplification(run: &PlannedRun, curves: &[Amplified]) -> Plot {
    // Neither promised nor measured.
    let tones = [
        Tone::Muted,
        Tone::Third,
        Tone::Fourth,
        Tone::Fifth,
        Tone::Ink,
    ];
    let plot = Plot::new(
        "ε' against ε, by miss rate γ",
        Axis::linear("ε of the run (nats)"),
        Axis::linear("ε' after redaction"),
    )
    .described("Epsilon against an adversary without prior knowledge of the secret, against epsilon of the run, for several miss rates; lower is better.");
    let mut plot = curves
        .iter()
        .zip(tones.iter().cycle())
        .fold(plot, |plot, (curve, tone)| {
            let gamma = (curve.gamma.get() * 1e4).round() / 1e4;
            let name = format!("γ = {}", shortest(gamma));
            plot.layer(Layer::line(name, curve.points.clone(), *tone))
        });
    let own = run.redaction().and_then(|redaction| {
        let gamma = redaction.miss().get();
        let nearest = |c: &&Amplified| (c.gamma.get() - gamma).abs();
        let curve = curves
            .iter()
            .min_by(|a, b| nearest(a).total_cmp(&nearest(b)))?;
        // Noise whose point could not be certified is left out, and then which point is the plan's own is not known.
        // The factors ascend, and 1 is one of them.
        let own = NOISE.iter().position(|factor| *factor >= 1.0)?;
        let all = curve.points.len() == NOISE.len();
        all.then(|| curve.points[own])
    });
    if let Some(point) = own {
        plot = plot.layer(Layer::marks("this plan", [point], Tone::Ink, Shape::Disc));
    }
    plot
}

/// Draws δ against ε for the headline's question, from certified points.
///
/// # Errors
/// Returns an error if a point can't be certified.
pub(crate) fn profile(run: &PlannedRun) -> Result<Option<Plot>> {
    if run.plan.unprotected().is_some() {
        return Ok(None);
    }
    let mechanism = run.plan.mechanism();
    let question = Query::replace(run.records());
    let pair = PrivacyLoss::of(&mechanism, question, Direction::Remove)?;
    let rough = Tolerance::new(1e-3)?;
    let least = Delta::new((run.plan.delta.get() * 1e-4).max(1e-12))?;
    let end = pair.epsilon(least, rough)?.bounds.high().unwrap_or(1.0);
    if !end.is_finite() || end <= 0.0 {
        return Ok(None);
    }
    let epsilons = (0..=32)
        .map(|i| Epsilon::new(end * f64::from(i) / 32.0))
        .collect::<Result<Vec<_>, _>>()?;
    let found = Profile::at_epsilons(&mechanism, question, &epsilons, rough)?;
    let points = |shrink: &dyn Fn(Delta) -> f64| {
        found
            .points()
            .iter()
            .map(|p| (p.epsilon.get(), shrink(*p.delta_upper.get())))
            .filter(|(_, delta)| *delta >= 1e-12)
            .collect::<Vec<_>>()
    };
    let mut plot = Plot::new("Guarantee for one secret", Axis::linear("ε (nats)"), Axis::log("δ at most"))
        .described("Delta, at most, against epsilon, for an adversary who may know the secret; lower is better.")
        .layer(Layer::steps("missed and trained on with noise", &points(&|delta: Delta| delta.get()), Tone::PROMISED));
    if let Some(redaction) = run.redaction() {
        let drawn = points(&|delta| redaction.shrunk(delta).get());
        let name = "drawn at random, missed as often as stated";
        plot = plot.layer(Layer::steps(name, &drawn, Tone::Third));
    }
    let delta = run.plan.delta.get();
    let name = format!("δ of the page, {}", shortest(delta));
    Ok(Some(plot.layer(Layer::rule(name, delta, Tone::Muted))))
}

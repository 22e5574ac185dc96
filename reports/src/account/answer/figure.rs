//! The plot of δ against ε.

use crate::plot::{Axis, Layer, Plot, Tone};
use anyhow::Result;
use reticent_accounting::pld::{Profile, ProfilePoint};
use reticent_accounting::{Delta, Epsilon, Neighbours, Plan, Query, Tolerance};

/// The number of points of each curve.
const POINTS: usize = 48;
/// The least δ that is drawn.
const LEAST_DELTA: f64 = 1e-12;

/// Returns the privacy curve of a plan: upper ends of δ(ε) for its own neighbours and, with
/// redaction, against an adversary who may know the secret and against one without prior knowledge
/// of it.
///
/// # Errors
/// Returns an error if a curve can't be certified or there is nothing to draw.
pub fn privacy_curve(plan: &Plan) -> Result<Plot> {
    let own = rough(plan, plan.neighbours)?;
    let mut promised = Vec::new();
    for epsilon in epsilons(&own)? {
        let delta = own.exactly_at(epsilon)?.delta.unwrap_or(Delta::new(1.0)?);
        promised.push((epsilon.get(), delta.get()));
    }
    let mut layers = vec![line(
        format!("differential privacy, {}", plan.neighbours),
        Tone::PROMISED,
        promised,
    )];
    if let Some(redaction) = plan.redaction {
        let content = rough(plan, Neighbours::Replace)?;
        let query = Query::new(content.neighbours, content.group);
        let base = Profile::at_epsilons(
            &content.mechanism,
            query,
            &epsilons(&content)?,
            content.tolerance,
        )?;
        let informed = redaction.against_informed(&base);
        let uninformed = redaction.against_uninformed(&base);
        layers.push(line(
            "redacted, secret known to the adversary".into(),
            Tone::Third,
            points(informed.points()),
        ));
        layers.push(line(
            "redacted, secret unknown (planning only)".into(),
            Tone::Fourth,
            points(uninformed.points()),
        ));
    }
    let plot = Plot::new(
        "What the plan promises",
        Axis::linear("ε (nats)"),
        Axis::log("δ at most"),
    )
    .described("Upper bounds on delta for each epsilon; lower and further left is better.")
    .layer(Layer::rule(
        format!("δ of the table, {:e}", plan.delta.get()),
        plan.delta.get(),
        Tone::Muted,
    ));
    Ok(layers.into_iter().fold(plot, Plot::layer))
}

fn points(profile: &[ProfilePoint]) -> Vec<(f64, f64)> {
    profile
        .iter()
        .map(|point| (point.epsilon.get(), point.delta_upper.get().get()))
        .collect()
}

fn line(name: String, tone: Tone, mut points: Vec<(f64, f64)>) -> Layer {
    points.retain(|(_, delta)| *delta >= LEAST_DELTA);
    Layer::steps(name, &points, tone)
}

/// Returns the question of a curve, with the precision at which it is drawn.
fn rough(plan: &Plan, neighbours: Neighbours) -> Result<Plan> {
    Ok(Plan {
        delta: Delta::new(LEAST_DELTA.min(plan.delta.get()))?,
        neighbours,
        tolerance: Tolerance::new(1e-3)?,
        ..plan.clone()
    })
}

/// Returns evenly spaced ε from 0 to where δ leaves the plot.
fn epsilons(plan: &Plan) -> Result<Vec<Epsilon>> {
    let end = plan.epsilon()?.high();
    let end = end.filter(|end| end.is_finite() && *end > 0.0);
    let end = end.unwrap_or(1.0);
    let epsilons = (0..=POINTS).map(|index| Epsilon::new(end * index as f64 / POINTS as f64));
    Ok(epsilons.collect::<Result<Vec<_>, _>>()?)
}

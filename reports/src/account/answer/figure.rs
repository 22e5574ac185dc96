//! δ against ε, drawn.

use crate::plot::{Axis, Layer, Plot, Tone};
use anyhow::Result;
use reticent_accounting::pld::{Profile, ProfilePoint};
use reticent_accounting::{Epsilon, Neighbours, Plan, Query, Tolerance};

/// Points of each curve.
const POINTS: usize = 48;
/// δ below this is not drawn.
const LEAST_DELTA: f64 = 1e-12;

/// The privacy curve of a plan: upper ends of δ(ε) for its own neighbours and, with redaction,
/// for an adversary who may know the secret and for one without prior knowledge of it.
///
/// # Errors
/// A curve that can't be certified, or nothing to draw.
pub fn privacy_curve(plan: &Plan) -> Result<Plot> {
    let own = Query {
        neighbours: plan.neighbours,
        group: plan.group,
    };
    let mut layers = vec![line(
        format!("differential privacy, {}", plan.neighbours),
        Tone::PROMISED,
        profile(plan, own)?.points(),
    )];
    if let Some(redaction) = plan.redaction {
        let content = Query {
            neighbours: Neighbours::Replace,
            group: plan.group,
        };
        let base = profile(plan, content)?;
        let informed = redaction.against_informed(&base);
        let uninformed = redaction.against_uninformed(&base);
        layers.push(line(
            "redacted, secret known to the adversary".into(),
            Tone::Third,
            informed.points(),
        ));
        layers.push(line(
            "redacted, secret unknown (planning only)".into(),
            Tone::Fourth,
            uninformed.points(),
        ));
    }
    let plot = Plot::new(
        "What the plan promises",
        Axis::linear("ε (nats)"),
        Axis::log("δ at most"),
    )
    .described("Upper bounds on delta for each epsilon; lower and further left is better.")
    .layer(Layer::Rule {
        name: format!("δ of the table, {:e}", plan.delta.get()),
        at: plan.delta.get(),
        tone: Tone::Muted,
    });
    Ok(layers.into_iter().fold(plot, Plot::layer))
}

fn line(name: String, tone: Tone, points: &[ProfilePoint]) -> Layer {
    let points = points
        .iter()
        .map(|point| (point.epsilon.get(), point.delta_upper.get().get()))
        .filter(|(_, delta)| *delta >= LEAST_DELTA)
        .collect();
    Layer::Line {
        name,
        points,
        tone,
        dashed: false,
    }
}

/// Evenly spaced ε from 0 to where δ leaves the drawing.
fn profile(plan: &Plan, query: Query) -> Result<Profile> {
    let smallest = Plan {
        delta: reticent_accounting::Delta::new(LEAST_DELTA.min(plan.delta.get()))?,
        neighbours: query.neighbours,
        tolerance: Tolerance::new(1e-3)?,
        ..plan.clone()
    };
    let end = smallest
        .epsilon()?
        .upper
        .map_or(1.0, |upper| upper.get().get());
    let end = if end.is_finite() && end > 0.0 {
        end
    } else {
        1.0
    };
    let epsilons = (0..=POINTS)
        .map(|index| Epsilon::new(end * index as f64 / POINTS as f64))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Profile::at_epsilons(
        &plan.mechanism,
        query,
        &epsilons,
        Tolerance::new(1e-3)?,
    )?)
}

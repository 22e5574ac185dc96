//! The plot of noise against kept examples (Hush!, Fig. 1 a and c in one).

use super::document::{Protection, Setting};
use crate::plot::{Axis, Layer, Plot, Shape, Tone};
use anyhow::Result;

/// Draws the noise multiplier against the share of examples kept, one line for each proof.
///
/// # Errors
/// Returns an error if there is nothing to draw.
pub(crate) fn noise_against_kept(body: &Protection) -> Result<Plot> {
    let all = body.incidence.examples as f64;
    let line = |name: &str, tone, shape, value: &dyn Fn(&Setting) -> Option<(f64, f64)>| {
        let points: Vec<_> = body.settings.iter().filter_map(value).collect();
        let line = Layer::Line {
            name: String::new(),
            points: points.clone(),
            tone,
            dashed: false,
        };
        let marks = Layer::Points {
            name: name.to_owned(),
            points,
            tone,
            shape,
        };
        [line, marks]
    };
    let at = |setting: &Setting, sigma: f64| Some((setting.mass.low()? / all, sigma));
    let mut layers = Vec::new();
    layers.extend(line(
        "Fano, KL (the paper)",
        Tone::Fourth,
        Shape::Square,
        &|s| s.kl_fano_sigma.and_then(|sigma| at(s, sigma.get().get())),
    ));
    layers.extend(line("blow-up (tight)", Tone::PROMISED, Shape::Disc, &|s| {
        s.sigma.high().and_then(|sigma| at(s, sigma))
    }));
    if body.settings.iter().any(|setting| setting.joint.is_some()) {
        layers.extend(line(
            "weights and noise together",
            Tone::Third,
            Shape::Triangle,
            &|s| {
                let joint = s.joint.as_ref()?;
                joint.sigma.high().map(|sigma| (joint.mass / all, sigma))
            },
        ));
    }
    let plot = Plot::new(
        "Noise against kept examples",
        Axis::linear("sum of weights, as a share of all examples"),
        Axis::log("noise multiplier σ"),
    )
    .described(
        "One mark per capacity constant c; the rightmost keeps every example. Lower and further right is better.",
    );
    Ok(layers.into_iter().fold(plot, Plot::layer))
}

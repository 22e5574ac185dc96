//! Draws one plot of each kind with made-up numbers, to be looked at: `cargo run -p reticent-reports --example gallery -- FOLDER`.

use anyhow::{Context, Result};
use reticent_reports::contract::write_file;
use reticent_reports::plot::{Axis, Interval, Layer, Plot, Shape, Tone};
use std::path::PathBuf;

fn main() -> Result<()> {
    let folder: PathBuf = std::env::args_os().nth(1).context("FOLDER missing")?.into();
    for (name, plot) in [
        ("curve", curve()),
        ("exposure", exposure()),
        ("intervals", intervals()),
        ("steps", steps()),
    ] {
        write_file(
            &folder.join(name).with_extension("svg"),
            plot.to_svg()?.as_bytes(),
        )?;
    }
    Ok(())
}

fn curve() -> Plot {
    let upper: Vec<_> = (0..=120)
        .map(|i| f64::from(i) / 20.0)
        .map(|e| (e, 0.05 * (-e * e / 1.6 - e).exp()))
        .collect();
    let lower: Vec<_> = upper.iter().map(|(e, d)| (*e, d * 0.5)).collect();
    Plot::new(
        "Privacy curve",
        Axis::linear("ε (nats)"),
        Axis::log("δ").between(1e-12, 1.0),
    )
    .layer(Layer::line("at most", upper, Tone::Second))
    .layer(Layer::dashes("at least", lower, Tone::First))
    .layer(Layer::rule("δ asked for", 1e-5, Tone::Muted))
}

fn exposure() -> Plot {
    let arms = ["SGD", "SGD, deduplicated", "DP-SGD", "CRT"];
    let per_arm = [
        vec![
            19.93, 19.93, 18.9, 17.6, 19.93, 16.6, 19.93, 15.2, 19.93, 18.3,
        ],
        vec![19.93, 17.1, 12.0, 9.4, 19.93, 14.4, 18.9, 7.7, 11.3, 12.1],
        vec![0.2, 1.1, 2.4, 0.6, 3.9, 1.0, 0.1, 5.2, 0.9, 1.7],
        vec![0.7, 1.9, 0.4, 2.6, 4.4, 0.9, 1.2, 0.3, 3.1, 0.5],
    ];
    let points = per_arm.iter().enumerate().flat_map(|(arm, values)| {
        let spread = 0.5 / values.len() as f64;
        values
            .iter()
            .enumerate()
            .map(move |(i, bits)| (arm as f64 - 0.25 + spread * i as f64, *bits))
    });
    Plot::new(
        "Exposure of each canary",
        Axis::categories("", arms),
        Axis::linear("exposure (bits)").between(0.0, 20.5),
    )
    .layer(Layer::Band {
        name: "where 95 % of untrained canaries lie".into(),
        from: 0.0,
        to: 4.32,
        tone: Tone::Third,
    })
    .layer(Layer::rule(
        "95 % of the maxima of 10 untrained canaries lie below",
        7.61,
        Tone::Third,
    ))
    .layer(Layer::marks("one canary", points, Tone::First, Shape::Disc))
}

fn intervals() -> Plot {
    let arms = ["SGD", "SGD, deduplicated", "DP-SGD", "CRT"];
    let row = |y, lower, upper| Interval { y, lower, upper };
    Plot::new(
        "What was promised and what was measured",
        Axis::log("ε (nats)").between(0.1, 100.0),
        Axis::categories("", arms.iter().rev().copied()),
    )
    .sized(720, 280)
    .layer(Layer::Intervals {
        rows: vec![
            row(3.0, Some(14.8), Some(f64::INFINITY)),
            row(2.0, Some(10.0), Some(f64::INFINITY)),
            row(1.0, None, Some(8.1)),
            row(0.0, Some(0.4), Some(7.9)),
        ],
        lower: Tone::First,
        upper: Tone::Second,
        lower_name: "measured: at least".into(),
        upper_name: "promised: at most".into(),
    })
}

fn steps() -> Plot {
    let points = vec![
        (1.0, 19.0),
        (10.0, 12.0),
        (100.0, 6.0),
        (1000.0, 2.0),
        (10_000.0, 1.0),
    ];
    Plot::new(
        "Steps over decades",
        Axis::log("rank"),
        Axis::linear("canaries within the rank"),
    )
    .layer(Layer::Steps {
        name: "SGD".into(),
        points: points.clone(),
        tone: Tone::Fourth,
    })
    .layer(Layer::marks("CRT", points, Tone::Fifth, Shape::Triangle))
}

//! `audit reproduce`: runs what a paper needs and writes its page.

use super::args::{Paper, Reproduce};
use super::evidence::value;
use super::study::Study;
use super::{Judged, Judgement, Reproduction};
use crate::audit::figure::{FigureReport, Known, Point, Quantity};
use crate::audit::grid::{CellDocument, GridFolder, cells};
use crate::contract::{Csv, Envelope, Exit, Inputs, Interrupt, printable, write_file};
use crate::page::{Output, Section};
use anyhow::{Context, Result};

/// Runs what a paper needs, judges its claims, writes `report.json` and `report.html`, and prints the result.
///
/// # Errors
/// Returns an error for a name that is not a claim, missing data, an interruption, a folder that can't be written,
/// and, once everything is printed, if cells failed.
pub fn run(args: &Reproduce, output: Output, interrupt: &Interrupt) -> Result<Exit> {
    let paper = args.paper;
    let chosen = paper.chosen(&args.only)?;
    let folder = GridFolder::open(&args.running)?;
    let study = Study::of(&chosen, args, &folder.stages())?;
    let (cells, grid, answers) = cells(&study.plan, &folder, interrupt)?;
    let answer = |stage: usize| {
        let finished = answers.get(stage)?.as_ref().ok()?;
        Some(finished.answer.clone())
    };
    let measured = study.measured(&cells, answer);
    let claims: Vec<Judged> = chosen
        .iter()
        .map(|claim| Judged::of(claim, &measured))
        .collect();
    let count = |of: fn(&Judgement) -> bool| claims.iter().filter(|c| of(&c.judgement)).count();
    let failed = cells.iter().filter_map(|cell| {
        let why = cell.failed.as_ref()?;
        Some(format!("{}: {why}", cell.place.name()))
    });
    let contradicted = cells.iter().filter(|cell| cell.row().exceeded);
    let questions = study.plan.stages.iter().zip(&answers);
    let unanswered = questions.filter(|(stage, _)| stage.work.is_question());
    let unanswered = unanswered.filter_map(|(stage, outcome)| {
        Some(format!("{}: {}", stage.name, outcome.as_ref().err()?))
    });
    let report = Reproduction {
        paper,
        scale: args.scale,
        data: args.data.to_string(),
        reproduced: count(|j| matches!(j, Judgement::Reproduced)),
        not_reproduced: count(|j| matches!(j, Judgement::NotReproduced { .. })),
        not_testable: count(|j| matches!(j, Judgement::NotTestable { .. })),
        cells: cells.len(),
        failed: failed.chain(unanswered).collect(),
        contradicted: contradicted.map(|cell| cell.place.name()).collect(),
        seconds: grid.seconds,
        notes: study.notes.clone(),
        claims,
    };
    let only = (!args.only.is_empty()).then(|| args.only.join(","));
    let inputs = Inputs::new()
        .given("paper", paper)?
        .given("scale", args.scale)?
        .given("data", args.data.to_string())?
        .given_shown("model", args.model.as_ref())?
        .given("only", only)?
        .given_path("out", Some(&args.running.out))?;
    let page = report.to_page(figures(paper, &cells));
    let document = Envelope::new("reproduction", inputs, &report);
    let out = &args.running.out;
    let text = document.saying(page.said(), page.outcome()).to_text()?;
    write_file(&out.join("report.json"), text.as_bytes()).context("--out")?;
    write_file(
        &out.join("report.html"),
        printable(&page.to_html()?).as_bytes(),
    )
    .context("--out")?;
    output.answer_with_rows(&document, &page, || Ok(Csv::of_rows(&report.claims)?))?;
    report.ending()
}

/// Draws the figures of a paper from its cells, as `audit figure` does; figures of what no cell measured are left out.
fn figures(paper: Paper, cells: &[CellDocument]) -> Vec<Section> {
    let drawn: &[(&str, Known, Option<Known>)] = match paper {
        Paper::Crt => &[
            ("Figure 3: exposure", Known::Exposure, None),
            ("Figure 4: membership", Known::Accuracy, None),
            // Figure 2 has ε on its horizontal axis, and a point for each epoch.
            ("Perplexity over the miss rate", Known::Perplexity, None),
        ],
        Paper::Jft => &[(
            "Figure 2: exposure against perplexity",
            Known::ExposureMean,
            Some(Known::Perplexity),
        )],
        Paper::Hush | Paper::Ours => &[],
    };
    // JFT's Figures 3 and 4 are about canaries that stand there once.
    let once = |arm: &str| arm == "No-DP-once" || arm.starts_with("redacted-recall-");
    let cells = cells.iter().filter(|cell| !once(&cell.place.arm));
    let cells: Vec<&CellDocument> = cells.collect();
    let drawn = drawn.iter();
    let drawn = drawn.filter_map(|(heading, y, x)| figure(heading, *y, *x, &cells));
    drawn.collect()
}

/// Draws a quantity over another one, or over the miss rate. A figure that can't be drawn says so: the report stands
/// without it.
fn figure(heading: &str, y: Known, x: Option<Known>, cells: &[&CellDocument]) -> Option<Section> {
    let (mut points, mut left_out) = (Vec::new(), Vec::new());
    for cell in cells {
        let own = match x {
            Some(x) => value(cell, x),
            None => Some(cell.place.miss_rate),
        };
        // Others were asked for something else.
        let Some((at, y_here)) = own.zip(value(cell, y)) else {
            continue;
        };
        if at.is_nan() || y_here.is_nan() {
            left_out.push(cell.place.name());
            continue;
        }
        points.push(Point {
            line: cell.place.arm.clone(),
            x: at,
            y: y_here,
            null: cell.without_a_leak(y),
            joined: x.is_none(),
        });
    }
    if points.is_empty() {
        return None;
    }
    let label = x.map(Quantity::Known);
    let label = label.as_ref().map_or("miss rate γ", Quantity::label);
    let found = FigureReport::of((points, left_out), label, Quantity::Known(y));
    Some(match found.plot(false, false).to_inline_svg() {
        Ok(svg) => Section::plot(heading, svg).caption(found.caption()),
        Err(error) => Section::text(heading, [format!("Not drawn: {error}.")]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{Page, View};
    use serde_json::json;

    /// Runs that failed, or whose search was cut off, were left out of the figures without a word, and one that no axis can
    /// show took the report along.
    #[test]
    fn figures_say_what_they_leave_out_and_take_no_report_along() {
        let cell = |seed: u64, more: serde_json::Value| -> CellDocument {
            let mut cell = json!({"arm": "CRT", "recipe": "crt", "model": "lstm", "seed": seed,
                "miss_rate": 0.0, "canary_recall": 1.0, "stages": []});
            for (key, value) in more.as_object().unwrap() {
                cell[key] = value.clone();
            }
            serde_json::from_value(cell).unwrap()
        };
        let exposure = |unresolved: u64| {
            json!({"exposure": {"type": "exposure", "summary": {"max": 5.0, "null_max_mean": 4.2},
                "canaries": [{"unresolved": unresolved}]}})
        };
        let cells = [
            cell(0, exposure(0)),
            cell(1, exposure(7)),
            cell(2, json!({"failed": "training: refused"})),
        ];
        let drawn = figures(Paper::Crt, &cells);
        let html = |sections: Vec<Section>| {
            let page = sections
                .into_iter()
                .fold(Page::new("T", "S"), Page::section);
            page.to_html().unwrap()
        };
        let said = html(drawn);
        assert!(said.contains("without such a number: 2 cells, "), "{said}");
        assert!(said.contains("without a leak, on average"), "{said}");
        let diverged = json!({"perplexity": {"type": "perplexity", "perplexity": "inf"}});
        let drawn = figures(Paper::Crt, &[cell(0, diverged)]);
        let page = drawn.into_iter().fold(Page::new("T", "S"), Page::section);
        let said = page.to_text(View::full());
        assert!(said.contains("Not drawn: nothing to plot"), "{said}");
    }
}

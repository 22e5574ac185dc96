//! `audit reproduce`: runs what a paper needs and writes its page.

use super::args::{Paper, Reproduce};
use super::study::Study;
use super::{Judged, Judgement, Reproduction};
use crate::audit::args::Figure;
use crate::audit::figure::gathered_of_whole;
use crate::audit::grid::{GridFolder, cells};
use crate::contract::{Csv, Envelope, Exit, Inputs, Interrupt, printable, write_file};
use crate::page::{Output, Section};
use anyhow::{Context, Result};
use std::path::Path;

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
        detectors: study.masked(answer),
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
    let page = report.to_page(figures(paper, &folder.cells())?);
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

/// Draws the figures of a paper from the documents of the cells, with the code of `audit figure`; figures whose
/// documents are missing are left out.
fn figures(paper: Paper, cells: &Path) -> Result<Vec<Section>> {
    let drawn: &[(&str, &str, &str, Option<&str>)] = match paper {
        Paper::Crt => &[
            ("Figure 3: exposure", "{line}-{x}-{}.json", "exposure", None),
            (
                "Figure 4: membership",
                "{line}-{x}-{}.json",
                "accuracy",
                None,
            ),
            // Figure 2 has ε on its horizontal axis, and a point for each epoch.
            (
                "Perplexity over the miss rate",
                "{line}-{x}-{}.json",
                "perplexity",
                None,
            ),
        ],
        Paper::Jft => &[(
            "Figure 2: exposure against perplexity",
            "{line}-0-{}.json",
            "exposure-mean",
            Some("perplexity"),
        )],
        Paper::Hush | Paper::Ours => &[],
    };
    let mut all = Vec::new();
    for (heading, pattern, y, x) in drawn {
        let pattern = cells.join(pattern).display().to_string();
        let figure = Figure {
            documents: pattern.parse().map_err(anyhow::Error::msg)?,
            y: y.parse()?,
            x: x.map(str::parse).transpose()?,
            x_label: x.is_none().then(|| "miss rate γ".to_owned()),
            log_x: false,
            log_y: false,
            plot: None,
        };
        if let Ok(found) = gathered_of_whole(&figure) {
            let svg = found.plot(false, false).to_inline_svg()?;
            all.push(
                Section::plot(*heading, svg)
                    .caption("A mark for each run, lines through their means."),
            );
        }
    }
    Ok(all)
}

//! Tables and sentences of the extraction report.

use super::ExtractReport;
use crate::contract::{Rows, Table};
use crate::number::{count_of, grouped, nearest, shortest};
use reticent_attacks::extract::{Contrast, PromptRates};
use reticent_attacks::membership::Rate;

/// The heading of passages that come up within a number of draws.
const COMES_UP: &str = "come up with probability 1/2";

/// Returns the model's own rates; a page is too narrow for all columns at once.
pub(super) fn own_rates(report: &ExtractReport) -> Table {
    let own = by_prompt(report).right("interval", |row| interval(&row.verbatim));
    let Some(most) = report.near_at_most else {
        return own.into();
    };
    let near = |row: &PromptRates, shown: fn(&Rate) -> String| {
        row.near.as_ref().map_or_else(String::new, shown)
    };
    let most = shortest((most * 1e4).round() / 1e2);
    own.right(format!("up to {most} % changed"), |row| near(row, percent))
        .right("interval", |row| near(row, interval))
        .into()
}

/// Returns the rates of the same passages under the baseline.
pub(super) fn beside_baseline(report: &ExtractReport) -> Table {
    let shown = |row: &PromptRates, shown: fn(&Contrast) -> String| {
        row.contrast.as_ref().map_or_else(String::new, shown)
    };
    by_prompt(report)
        .right("baseline", |row| shown(row, |of| percent(&of.baseline)))
        .right("only this model", |row| {
            shown(row, |of| percent(&of.only_model))
        })
        .right("interval", |row| shown(row, |of| interval(&of.only_model)))
        .right("p", |row| shown(row, |of| nearest(of.p_value, 2)))
        .into()
}

fn by_prompt(report: &ExtractReport) -> Rows<&PromptRates> {
    Table::of(&report.prompts)
        .right("prompt", |row| format!("{} tokens", row.prompt))
        .right("passages", |row| grouped(row.verbatim.trials))
        .right("verbatim", |row| percent(&row.verbatim))
}

/// Returns the rates by number of copies, for the longest prompt.
pub(super) fn copies(report: &ExtractReport) -> Table {
    let longest = report.prompts.iter().max_by_key(|p| p.prompt);
    Table::of(longest.map_or(&[][..], |row| &row.strata))
        .left("copies in the text", |stratum| {
            crate::audit::copies(stratum.from, stratum.to)
        })
        .right("passages", |stratum| grouped(stratum.rate.trials))
        .right("verbatim", |stratum| percent(&stratum.rate))
        .right(beyond(report), |stratum| percent(&stratum.beyond_baseline))
        .right("interval", |stratum| interval(&stratum.beyond_baseline))
        .into()
}

/// Returns how many passages are generated within each number of draws.
pub(super) fn draws(report: &ExtractReport) -> Table {
    Table::of(&report.draws)
        .right("prompt", |row| format!("{} tokens", row.prompt))
        .right("draws", |row| grouped(row.draws as u64))
        .right(COMES_UP, |row| percent(&row.rate))
        .right("interval", |row| interval(&row.rate))
        .into()
}

/// Returns the same by number of copies, for the longest prompt.
pub(super) fn draws_by_copies(report: &ExtractReport) -> Table {
    let longest = report.draws.iter().map(|d| d.prompt).max();
    let rows = report.draws.iter().filter(|d| Some(d.prompt) == longest);
    Table::of(rows.flat_map(|row| row.strata.iter().map(move |s| (row.draws, s))))
        .left("copies in the text", |(_, stratum)| {
            crate::audit::copies(stratum.from, stratum.to)
        })
        .right("draws", |(draws, _)| grouped(draws as u64))
        .right("passages", |(_, stratum)| grouped(stratum.rate.trials))
        .right(COMES_UP, |(_, stratum)| percent(&stratum.rate))
        .right(beyond(report), |(_, stratum)| {
            percent(&stratum.beyond_baseline)
        })
        .right("interval", |(_, stratum)| {
            interval(&stratum.beyond_baseline)
        })
        .into()
}

fn beyond(report: &ExtractReport) -> &'static str {
    match report.baseline {
        true => "beyond the baseline",
        false => "no baseline",
    }
}

fn percent(rate: &Rate) -> String {
    format!("{:.1} %", 100.0 * rate.estimate)
}

fn interval(rate: &Rate) -> String {
    crate::audit::percents(&rate.bounds)
}

/// Returns the result as a sentence.
pub(super) fn says(report: &ExtractReport) -> String {
    let p = |row: &PromptRates| row.contrast.map_or(1.0, |c| c.p_value);
    let best = report.prompts.iter().max_by(|a, b| {
        let less = p(b).total_cmp(&p(a));
        less.then(a.verbatim.estimate.total_cmp(&b.verbatim.estimate))
            .then(a.verbatim.trials.cmp(&b.verbatim.trials))
    });
    let Some(best) = best else {
        return "No passage was long enough.".to_owned();
    };
    let found = format!(
        "Of {}, {} are reproduced verbatim after {}-token prompts",
        count_of(best.verbatim.trials, "passage"),
        grouped(best.verbatim.hits),
        grouped(best.prompt as u64)
    );
    // The length with the smallest p was selected, so the level is shared.
    let each = report.level_of_each();
    let said = match &best.contrast {
        Some(beside) if beside.p_value <= each => format!(
            "{found}; {} of them from this model alone: it remembers its training text.",
            grouped(beside.only_model.hits)
        ),
        Some(beside) => format!(
            "{found}, {} from this model alone: no more than chance would do.",
            grouped(beside.only_model.hits)
        ),
        None if best.verbatim.hits == 0 => format!("{found}."),
        None => format!(
            "{found}. Without --baseline nobody knows how many a model gives that never saw them: lists and set phrases go on by themselves."
        ),
    };
    let warning = report
        .baseline_apart
        .and_then(|apart| apart.warning("The baseline"));
    said + &warning.unwrap_or_default()
}

//! Tables and sentences of the extraction report.

use super::ExtractReport;
use crate::contract::{Align, Table};
use crate::number::{count_of, grouped, nearest, shortest};
use reticent_attacks::extract::PromptRates;
use reticent_attacks::membership::Rate;

/// Returns the model's own rates; a page is too narrow for all columns at once.
pub(super) fn own_rates(report: &ExtractReport) -> Table {
    by_prompt(report, true, false)
}

/// Returns the rates of the same passages under the baseline.
pub(super) fn beside_baseline(report: &ExtractReport) -> Table {
    by_prompt(report, false, true)
}

fn by_prompt(report: &ExtractReport, own: bool, beside: bool) -> Table {
    let mut columns = vec![
        ("prompt".to_owned(), Align::Right),
        ("passages".to_owned(), Align::Right),
        ("verbatim".to_owned(), Align::Right),
    ];
    let right = |name: &str| (name.to_owned(), Align::Right);
    if own {
        columns.push(right("interval"));
        if let Some(near) = report.near_at_most {
            let percent = shortest((near * 1e4).round() / 1e2);
            columns.push(right(&format!("up to {percent} % changed")));
            columns.push(right("interval"));
        }
    }
    if beside {
        columns.extend(["baseline", "only this model", "interval", "p"].map(right));
    }
    let mut table = Table::new(columns);
    for row in &report.prompts {
        let mut cells = vec![
            format!("{} tokens", row.prompt),
            grouped(row.verbatim.trials),
            percent(&row.verbatim),
        ];
        if own {
            cells.push(interval(&row.verbatim));
            if let Some(near) = &row.near {
                cells.extend([percent(near), interval(near)]);
            }
        }
        if let (true, Some(against)) = (beside, &row.contrast) {
            cells.extend([
                percent(&against.baseline),
                percent(&against.only_model),
                interval(&against.only_model),
                nearest(against.p_value, 2),
            ]);
        }
        table.row(cells);
    }
    table
}

/// Returns the rates by number of copies, for the longest prompt.
pub(super) fn copies(report: &ExtractReport) -> Table {
    let mut table = Table::new([
        ("copies in the text", Align::Left),
        ("passages", Align::Right),
        ("verbatim", Align::Right),
        (beyond(report), Align::Right),
        ("interval", Align::Right),
    ]);
    let longest = report.prompts.iter().max_by_key(|p| p.prompt);
    for stratum in longest.map_or(&[][..], |row| &row.strata) {
        table.row([
            crate::audit::copies(stratum.from, stratum.to),
            grouped(stratum.rate.trials),
            percent(&stratum.rate),
            percent(&stratum.beyond_baseline),
            interval(&stratum.beyond_baseline),
        ]);
    }
    table
}

/// Returns how many passages are generated within each number of draws.
pub(super) fn draws(report: &ExtractReport) -> Table {
    let mut table = Table::new([
        ("prompt", Align::Right),
        ("draws", Align::Right),
        ("come up with probability 1/2", Align::Right),
        ("interval", Align::Right),
    ]);
    for row in &report.draws {
        table.row([
            format!("{} tokens", row.prompt),
            grouped(row.draws as u64),
            percent(&row.rate),
            interval(&row.rate),
        ]);
    }
    table
}

/// Returns the same by number of copies, for the longest prompt.
pub(super) fn draws_by_copies(report: &ExtractReport) -> Table {
    let mut table = Table::new([
        ("copies in the text", Align::Left),
        ("draws", Align::Right),
        ("passages", Align::Right),
        ("come up with probability 1/2", Align::Right),
        (beyond(report), Align::Right),
        ("interval", Align::Right),
    ]);
    let longest = report.draws.iter().map(|d| d.prompt).max();
    let rows = report.draws.iter().filter(|d| Some(d.prompt) == longest);
    for (row, stratum) in rows.flat_map(|row| row.strata.iter().map(move |s| (row, s))) {
        table.row([
            crate::audit::copies(stratum.from, stratum.to),
            grouped(row.draws as u64),
            grouped(stratum.rate.trials),
            percent(&stratum.rate),
            percent(&stratum.beyond_baseline),
            interval(&stratum.beyond_baseline),
        ]);
    }
    table
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
    let (low, high) = crate::audit::ends(&rate.bounds);
    format!(
        "{:.1} to {:.1} %",
        (low * 1e3).floor() / 10.0,
        (high * 1e3).ceil() / 10.0
    )
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

//! The conclusions from the exposures as named values.

use super::pieces::range;
use super::{ExposureReport, PromisedBy};
use crate::number::{count_of, exposure_at_most, grouped, nearest, rounded, shortest};
use crate::verdict::Verdict;
use reticent_accounting::Delta;
use reticent_attacks::exposure::{
    Assumption, CeilingOutcome, EValueFinding, EpsilonBound, EpsilonMethod,
};

/// Returns the conclusions from the whole finding.
pub(super) fn facts(report: &ExposureReport) -> Vec<(&'static str, String)> {
    let bound = report.finding.bound();
    let mut facts = vec![("ε", epsilon(bound))];
    facts.extend(of_verdict(
        report.verdict.as_ref(),
        report.no_verdict.as_deref(),
    ));
    facts.extend(of_promise(
        report.manifest.as_ref(),
        report.promised_by.as_ref(),
    ));
    if let Some(limit) = report.limit {
        let said = match (report.passed_limit(), report.limit_open_since()) {
            (Some(_), _) => "exceeded: a canary is certainly above",
            (None, Some(why)) => &format!("not known: {why}, and a canary may be above"),
            (None, None) if !report.could_pass(limit) => {
                "of no use: no canary has so many bits, so that none can be above"
            }
            (None, None) => "kept: no canary is certainly above",
        };
        facts.push((
            "limit",
            format!("{said} {} bits (--max-exposure)", shortest(limit)),
        ));
    }
    if let Some(ceiling) = &report.ceiling {
        let alpha = shortest(ceiling.test.alpha);
        let p_value = nearest(ceiling.test.p_value, 2);
        let outcome = match ceiling.test.outcome {
            CeilingOutcome::Contradicted => {
                format!("contradicted by the ranks (p = {p_value}, false-alarm rate {alpha})")
            }
            CeilingOutcome::NotContradicted => {
                format!("not contradicted by the ranks (p = {p_value}, false-alarm rate {alpha})")
            }
            CeilingOutcome::CouldNotContradict => format!(
                "no ranks could have contradicted it: their least p, {}, is above the false-alarm rate of {alpha}",
                nearest(ceiling.test.least_p_value, 2),
            ),
        };
        let at_most = exposure_at_most(
            *ceiling.exposure_at_most.get(),
            4,
            Some(report.finding.candidates as f64),
        );
        // All the bits there are, and no ranks to contradict it.
        let anything = ceiling.test.outcome == CeilingOutcome::CouldNotContradict
            && at_most.starts_with("log2");
        let said = match anything {
            true => "none: any exposure is compatible with this promise".to_owned(),
            false => format!(
                "promised: with probability {}, no canary above {at_most} bits; {outcome}",
                shortest(ceiling.level),
            ),
        };
        facts.push(("ceiling", said));
        if !ceiling.suspects.is_empty() {
            let suspects: Vec<&str> = ceiling.suspects.iter().map(|m| m.says()).collect();
            facts.push(("suspects", suspects.join("; or ")));
        }
    }
    if let Some(silence) = report.silence.filter(|_| !report.inconclusive) {
        facts.push(("silence", silence.why().to_owned()));
    }
    if let Some(said) = report.planting.says() {
        facts.push(("planting", said.to_owned()));
    }
    if let Some(reached) = report.reached {
        let planted = report.finding.canaries.len() as u64;
        facts.push(("reached", of_reached(reached, planted)));
    }
    facts
}

/// Says how many canaries training met.
pub(in crate::audit) fn of_reached(reached: u64, planted: u64) -> String {
    format!(
        "training met {} of {}; the others can show no leak, and what could be shown is that of these",
        grouped(reached),
        count_of(planted, "canary")
    )
}

/// Names what a promise is taken from.
pub(in crate::audit) fn of_promise(
    manifest: Option<&String>,
    by: Option<&PromisedBy>,
) -> impl Iterator<Item = (&'static str, String)> {
    let manifest = manifest.map(|caveat| ("manifest", caveat.clone()));
    let by = by.map(|by| ("promised by", by.to_string()));
    manifest.into_iter().chain(by)
}

/// Names the verdict, or why there is none.
pub(in crate::audit) fn of_verdict(
    verdict: Option<&Verdict>,
    none: Option<&str>,
) -> Option<(&'static str, String)> {
    let said = match (verdict, none) {
        (Some(verdict), _) => verdict.to_string(),
        (None, why) => format!("none: {}", why?),
    };
    Some(("verdict", said))
}

/// Describes the test that doesn't decide, and what both could have shown.
pub(super) fn other_test(report: &ExposureReport, found: &EValueFinding) -> String {
    let (other, name, why) = match found.decides {
        EpsilonMethod::EValue => (&report.finding.epsilon, "ranks", "e-values"),
        _ => (&found.epsilon, "e-values", "ranks"),
    };
    format!(
        "by {name}, at least {}, for comparison only, as it was fixed in advance by the numbers of canaries and candidates that {why} decide; at most {} can be shown by e-values, {} by ranks",
        rounded(other.lower, 4),
        rounded(found.provable, 4),
        rounded(found.provable_by_ranks, 4),
    )
}

/// Names the δ of a lower bound on ε.
pub(in crate::audit) fn of_delta(assumes: Assumption, delta: Delta) -> String {
    match assumes {
        Assumption::PureDp => "δ = 0, and it meets no ε of a positive δ".to_owned(),
        Assumption::ApproximateDp | Assumption::GaussianTradeOff => {
            format!("δ = {}", shortest(delta.get()))
        }
    }
}

fn epsilon(bound: &EpsilonBound) -> String {
    let delta = of_delta(bound.assumes, bound.delta);
    let how = match (bound.hits, bound.threshold) {
        (Some(hits), Some(threshold)) => format!(
            "{hits} of {} canaries within rank {}",
            bound.canaries,
            grouped(threshold)
        ),
        _ => format!("e-values of {} canaries", bound.canaries),
    };
    format!(
        "at least {} with confidence {} ({delta}; {}, unit {}, {} at once; {how})",
        rounded(bound.lower, 4),
        shortest(bound.confidence.get()),
        bound.neighbours,
        bound.unit,
        count_of(bound.copies, "copy"),
    )
}

/// Describes the cost of the search.
pub(super) fn work(report: &ExposureReport) -> String {
    let work = &report.finding.work;
    let share = work.positions_scored as f64 / work.positions_flat as f64;
    let mut said = format!(
        "{} positions scored in {} s; flat scoring needs {} positions, {} times as many",
        grouped(work.positions_scored),
        nearest(work.seconds, 2),
        grouped(work.positions_flat),
        nearest(1.0 / share, 2),
    );
    if let Some(flat) = &report.finding.flat_sample {
        let seconds = flat.seconds / flat.positions as f64 * work.positions_flat as f64;
        said.push_str(&format!(
            " (about {} s at the pace of a sample of {} candidates)",
            nearest(seconds, 2),
            grouped(flat.candidates)
        ));
    }
    said
}

/// Describes how many guesses and draws the most exposed canary takes.
///
/// Candidates before it are at least as likely and mutually exclusive, so a draw from the model after its
/// context gives it with probability at most 1/rank: e^NLL draws on average, and never fewer than its
/// rank.
pub(super) fn extraction(report: &ExposureReport) -> Option<String> {
    let canaries = report.finding.canaries.iter();
    let first = canaries.min_by_key(|canary| canary.rank.max)?;
    let draws = first.nll.exp();
    let rank = range(first.rank.min, first.rank.max);
    Some(format!(
        "the most exposed canary is the model's guess {rank}; drawn from the model behind its words it comes up once in {} draws",
        if draws.is_finite() {
            nearest(draws, 3)
        } else {
            "∞".to_owned()
        }
    ))
}

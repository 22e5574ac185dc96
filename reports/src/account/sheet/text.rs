//! The page as text.

use super::ceilings::{Bounded, Ceiling};
use super::promises::{Adversary, Promised};
use super::tighten::Tightened;
use super::{PlannedRun, Sheet};
use crate::contract::{Align, Envelope, Table};
use crate::number::{exposure_at_most, nearest, rounded_down, rounded_up, shortest};
use reticent_accounting::training::{NoisySteps, Recipe, Run};
use reticent_accounting::{Convention, Epsilon, Estimate, Neighbours, Notion};
use std::fmt::Write;

/// Lines of prose are filled to this width.
const WIDTH: usize = 100;

/// The page.
#[must_use]
pub fn text(run: &PlannedRun, document: &Envelope<Sheet>) -> String {
    let body = &document.body;
    let mut out = String::new();
    prose(&mut out, "", &summary(run, body));
    let _ = writeln!(out, "\n{}", what_runs(run));
    out.push_str("\nwhat is promised\n\n");
    for promised in &body.promises {
        prose(&mut out, "- ", &sentence(promised, run.plan.delta.get()));
    }
    if !body.ceilings.is_empty() {
        out.push_str("\nwhat an attack can reach\n\n");
        out.push_str(&ceilings(&body.ceilings).to_text());
    }
    if !body.tighten.is_empty() {
        out.push_str("\nwhat would tighten the first promise most\n\n");
        let table = tighten(body);
        if !table.rows().is_empty() {
            out.push_str(&table.to_text());
        }
        if let Some(rest) = no_help(body) {
            prose(&mut out, "", &rest);
        }
    }
    for (heading, items) in [
        ("under these assumptions", &body.assumptions),
        ("not covered", &body.not_covered),
    ] {
        let _ = writeln!(out, "\n{heading}\n");
        for item in items {
            prose(&mut out, "- ", item);
        }
    }
    if let Some(wanted) = &body.labels_wanted {
        prose(&mut out, "- ", wanted);
    }
    out.push_str("\nname, date, signature: ______________________________________________\n");
    out
}

/// The result in a sentence or two.
pub(super) fn summary(run: &PlannedRun, body: &Sheet) -> String {
    let epsilon = body.headline.get().get();
    let first = body
        .promises
        .first()
        .map_or_else(String::new, |p| p.to.clone());
    let mut said = if epsilon.is_finite() {
        format!(
            "This plan promises, for {first}: epsilon {} at delta {}, whatever else the adversary knows.",
            rounded_up(epsilon, 5),
            shortest(run.plan.delta.get()),
        )
    } else {
        format!("This plan promises nothing for {first}{}.", reason(run))
    };
    if let Some(best) = body.tighten.first()
        && best.epsilon.get().get() < epsilon
    {
        let _ = write!(
            said,
            " What would tighten it most: {} (epsilon {}).",
            best.change,
            rounded_up(best.epsilon.get().get(), 4),
        );
    }
    said
}

/// Why nothing is promised.
fn reason(run: &PlannedRun) -> String {
    let delta = run.plan.delta.get();
    let plan = &run.plan;
    let recipe = plan.run.recipe();
    if let Some(why) = plan.unprotected() {
        return format!(", because {why}");
    }
    match run.redaction() {
        Some(redaction) if redaction.missed_by_both().get() >= delta => format!(
            ", because both policies may miss a share {} of secrets, which is not below delta {}",
            rounded_up(redaction.missed_by_both().get(), 3),
            shortest(delta),
        ),
        None if recipe == Some(Recipe::Crt) && plan.secrets.facts.is_none() => {
            ", because nobody said how often the policies miss".into()
        }
        _ => ", because a secret may be trained on without noise".into(),
    }
}

/// What runs, in a line.
pub(super) fn what_runs(run: &PlannedRun) -> String {
    let plan = &run.plan;
    let numbers = |noisy: &NoisySteps| {
        format!(
            "sigma {}, sampling rate {}, {} steps",
            shortest(noisy.noise_multiplier.get()),
            shortest((noisy.sampling_rate.get() * 1e9).round() / 1e9),
            noisy.steps.get(),
        )
    };
    let said = match &plan.run {
        Run::Sgd { .. } => "training without noise".to_owned(),
        Run::Dpsgd { private } => format!("DP-SGD on every record: {}", numbers(private)),
        Run::Crt { private, .. } => match private {
            Some(private) => format!("confidentially redacted training: {}", numbers(private)),
            None => "confidentially redacted training without a private record".to_owned(),
        },
        Run::Sdp { selective } => format!(
            "selective DP-SGD: sigma {}, {} passes, and sigma {} on {} states a record and pass",
            shortest(selective.noise_multiplier.get()),
            selective.passes(),
            shortest(selective.state_noise_multiplier.get()),
            *selective.states,
        ),
        Run::Jft { second, .. } => format!("fine-tuned twice, redacted first: {}", numbers(second)),
        Run::Protect { weighted } => format!(
            "secret protection: sigma {}, expected batch {}, {} steps",
            shortest(weighted.noise_multiplier.get()),
            shortest((*weighted.batch * 1e6).round() / 1e6),
            weighted.steps.get(),
        ),
        Run::Mechanism { .. } => "a mechanism".to_owned(),
    };
    format!("{said}, unit {}", plan.unit.value)
}

/// The notion in which a promise is made, with what is compared.
pub(super) fn notion(promised: &Promised) -> String {
    let row = &promised.guarantee;
    let name = match row.notion {
        Notion::Dp => "differential privacy",
        Notion::GroupDp => "group differential privacy",
        Notion::Confidentiality => "confidentiality",
        Notion::GroupConfidentiality => "group confidentiality",
        Notion::BayesianConfidentiality => "Bayesian confidentiality",
        Notion::SelectiveDp => "selective differential privacy",
        Notion::SecretProtection => "secret protection",
        Notion::Gdp => "Gaussian differential privacy",
    };
    let compared = match row.neighbours {
        Neighbours::AddRemove => "present or absent",
        Neighbours::ZeroOut => "learned from or not",
        Neighbours::Replace => "this content or another",
    };
    let convention = match row.convention {
        Convention::Definition => "",
        Convention::Paper => ", as in the papers",
    };
    format!("{name}, {compared}{convention}")
}

pub(super) const fn adversary(promised: &Promised) -> &'static str {
    match (
        promised.adversary,
        &promised.estimate,
        promised.for_planning,
    ) {
        (_, Some(_), _) => "no bound",
        (Adversary::KnowsEverything, ..) => "may know everything",
        (Adversary::IgnoresTheSecret, ..) => "ignores the secret: planning only",
    }
}

pub(super) fn promises(rows: &[Promised]) -> Table {
    let mut table = Table::new([
        ("for", Align::Left),
        ("notion", Align::Left),
        ("adversary", Align::Left),
        ("epsilon <=", Align::Right),
        (">=", Align::Right),
    ]);
    for promised in rows {
        let bounds = promised.guarantee.epsilon;
        let upper = bounds
            .and_then(|b| b.upper)
            .map(|u| rounded_up(u.get().get(), 5));
        let lower = bounds
            .and_then(|b| b.lower)
            .map(|l| rounded_down(l.get().get(), 5));
        let dash = || "-".to_owned();
        let upper = promised
            .estimate
            .map(estimated)
            .or(upper)
            .unwrap_or_else(dash);
        table.row([
            promised.to.clone(),
            notion(promised),
            adversary(promised).to_owned(),
            upper,
            lower.unwrap_or_else(dash),
        ]);
    }
    table
}

pub(super) fn ceilings(rows: &[Bounded]) -> Table {
    let mut table = Table::new([
        ("what", Align::Left),
        ("without training", Align::Right),
        ("at most", Align::Right),
    ]);
    for row in rows {
        let shown = |value: f64| match row.quantity {
            Ceiling::BestExposure => {
                format!("{} bits", exposure_at_most(value, 3, row.candidates))
            }
            _ => rounded_up(value, 3),
        };
        table.row([
            row.about.clone(),
            row.before.map_or_else(|| "-".into(), shown),
            shown(*row.at_most.get()),
        ]);
    }
    table
}

/// The changes that help.
pub(super) fn tighten(body: &Sheet) -> Table {
    let mut table = Table::new([
        ("single change", Align::Left),
        ("epsilon <=", Align::Right),
        ("its price", Align::Left),
    ]);
    for row in body.tighten.iter().filter(|row| helps(body, row)) {
        let after = rounded_up(row.epsilon.get().get(), 4);
        table.row([row.change.clone(), after, row.price.clone()]);
    }
    table
}

/// Those that do not.
pub(super) fn no_help(body: &Sheet) -> Option<String> {
    let rest: Vec<&str> = body
        .tighten
        .iter()
        .filter(|row| !helps(body, row))
        .map(|row| row.change.as_str())
        .collect();
    (!rest.is_empty()).then(|| format!("No help alone: {}.", rest.join("; ")))
}

fn helps(body: &Sheet, row: &Tightened) -> bool {
    row.epsilon.get().get() < body.headline.get().get() * (1.0 - 1e-3)
        || row.epsilon.get().get().is_finite() && body.headline.get().get().is_infinite()
}

/// A promise in a sentence.
fn sentence(promised: &Promised, delta: f64) -> String {
    let bounds = promised.guarantee.epsilon;
    let upper = bounds
        .and_then(|b| b.upper)
        .map_or_else(|| "-".to_owned(), |u| rounded_up(u.get().get(), 5));
    let lower = bounds
        .and_then(|b| b.lower)
        .map(|l| {
            format!(
                " (no accountant could say less than {})",
                rounded_down(l.get().get(), 5)
            )
        })
        .unwrap_or_default();
    if let Some(estimate) = promised.estimate {
        return format!(
            "{}: epsilon {} at delta {}, an estimate and no bound.",
            promised.to,
            estimated(estimate),
            shortest(delta),
        );
    }
    format!(
        "{}: epsilon <= {upper} at delta {}{lower}. {}; adversary: {}.",
        promised.to,
        shortest(delta),
        capital(&notion(promised)),
        adversary(promised),
    )
}

fn estimated((low, high): (Estimate<Epsilon>, Estimate<Epsilon>)) -> String {
    format!(
        "about {} to {}",
        nearest(low.get().get(), 3),
        nearest(high.get().get(), 3)
    )
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// A paragraph, filled, with a hanging indent as wide as its mark.
fn prose(out: &mut String, mark: &str, text: &str) {
    let indent = " ".repeat(mark.len());
    let mut line = mark.to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(out, "{line}");
            line = indent.clone();
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    let _ = writeln!(out, "{line}");
}

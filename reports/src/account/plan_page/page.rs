//! The page to sign.

use super::ceilings::{Bounded, Ceiling};
use super::figure::{amplification, profile};
use super::promises::{ANY_OTHER_CONTENT, Adversary, Promised, in_order, judged, or_left_out};
use super::words::{about_the_labels, about_the_sample};
use super::{PlanPage, PlannedRun};
use crate::account::answer::{about_the_batches, noise_found, upper};
use crate::account::mechanism::words::noisy_steps;
use crate::account::words::{
    LINES_WITH_PREMISES, PREMISES, PROMISED, REMARKS, about_delta, assumed, compared_in,
    neighbours, promise, promises_nothing,
};
use crate::contract::{Envelope, Table, dash};
use crate::number::{
    capital, count_of, described, exposure_at_most, grouped, nearest, rounded, rounded_up, shortest,
};
use crate::page::{Page, Section};
use crate::plan::{counted_line, granted_line, unauthenticated};
use anyhow::Result;
use reticent_accounting::training::{Recipe, Run};
use reticent_accounting::{Convention, Epsilon, Estimate, Guarantee, Notion};
use std::fmt::Write;

/// Returns the page; plots are drawn only where they are shown.
///
/// # Errors
/// Returns an error if a plot can't be drawn.
pub(crate) fn page(run: &PlannedRun, document: &Envelope<PlanPage>, plots: bool) -> Result<Page> {
    let body = &document.body;
    let title = format!("Privacy plan: {}", what_runs(run));
    let signed_for = format!("{title}. {}", promised(run, body.promises.first()));
    let (planning, guaranteed): (Vec<&Promised>, Vec<&Promised>) =
        body.promises.iter().partition(|row| row.for_planning);
    let batches = run.plan.run.noisy().and_then(about_the_batches);
    let delta = about_delta(&document.inputs);
    let nothing = promises_nothing(&document.inputs);
    let labels = about_the_labels(run.labels(), run.corpus.is_some());
    let labels = labels.or_else(|| run.not_compared.clone()).into_iter();
    let sample = run.labels().map(|found| about_the_sample(&found.sample));
    let labels: Vec<String> = labels.chain(sample.into_iter().flatten()).collect();
    let first = Section::table("Guarantees", promises(&guaranteed, "ε upper")).caption(format!(
        "Both ends of ε at δ = {}: the upper one is guaranteed, and no accountant can guarantee less than the lower \
         one. The adversary may know everything else.",
        shortest(run.plan.delta.get()),
    ));
    let large = delta.clone().filter(|_| nothing.is_none());
    let mut page = Page::new(title, summary(run, body))
        .decides(Section::text("", large))
        .answer(first);
    if !labels.is_empty() {
        page = page.lines(LINES_WITH_PREMISES);
    }
    page = page
        .decides(Section::notes(
            PREMISES,
            granted_line(&run.plan)
                .into_iter()
                .chain(unauthenticated(&run.plan).into_iter().map(str::to_owned))
                .chain(labels.iter().cloned()),
        ))
        .answer(Section::notes(
            REMARKS,
            batches.into_iter().chain(counted_line(&run.plan)),
        ))
        .decides(Section::text(
            "",
            tightest(body).into_iter().chain(assumed(&document.inputs)),
        ));
    let signed = |row: &Guarantee| body.promises.iter().any(|p| p.guarantee == *row);
    let mut further = in_order(run, &body.guarantees);
    further.retain(|row| !signed(row));
    if !further.is_empty() {
        page = page.answer(
            Section::table("Further guarantees", guarantees(&further))
                .caption("Of the same run. Rows as in the papers are for comparison with them."),
        );
    }
    if !planning.is_empty() {
        page = page.answer(
            Section::table("For planning only", promises(&planning, "ε"))
                .caption("These rows guarantee nothing and bound no guess and no audit."),
        );
    }
    if let Some(secrets) = &body.secrets {
        page = page
            .answer(
                Section::table("Of each secret", secrets.table())
                    .caption("The chance of guessing it before and after training, at most."),
            )
            .answer(Section::text("", secrets.sentences()).called("of each secret"));
    }
    page = page.answer(Section::text("", document.inputs.given_line()).called("inputs"));
    page = page.section(
        Section::table("What an attack can reach", ceilings(&body.ceilings)).caption(
            "Upper bounds on probabilities and exposures (bits), next to what is reached without training.",
        ),
    );
    if !body.tighten.is_empty() {
        page = page.section(
            Section::table("What would tighten the first promise most", tighten(body))
                .caption("Each change alone, everything else kept."),
        );
    }
    page = page.section(Section::text("", no_help(body)));
    if plots {
        page = with_plots(page, run, body)?;
    }
    let mut assumptions = body.assumptions.clone();
    assumptions.extend(body.labels_wanted.clone());
    // What the answer says already is not repeated among what it assumes and does not cover.
    assumptions.retain(|said| !labels.contains(said));
    let mut not_covered = body.not_covered.clone();
    not_covered.retain(|said| Some(said) != delta.as_ref());
    Ok(page
        .section(Section::notes("Under these assumptions", assumptions))
        .section(Section::notes("Not covered", not_covered))
        .section(Section::facts(
            "Signed",
            // On a sheet of its own it is still the signature of this promise.
            std::iter::once(("Plan".to_owned(), signed_for)).chain(
                ["Name", "Date", "Signature"]
                    .map(|name| (name.to_owned(), "________________".to_owned())),
            ),
        )))
}

fn with_plots(mut page: Page, run: &PlannedRun, body: &PlanPage) -> Result<Page> {
    if let Some(plot) = or_left_out(profile(run))? {
        page = page.section(
            Section::plot("δ for each ε", plot.to_inline_svg()?).caption(format!(
                "Each point is a promise: {PROMISED}. Lower and further left is better."
            )),
        );
    }
    if !body.amplification.is_empty() {
        page = page.section(
            Section::plot(
                "What redaction adds, for planning",
                amplification(run, &body.amplification).to_inline_svg()?,
            )
            .caption(
                "ε' against an adversary without prior knowledge of the secret, as the noise varies. It \
                bounds no guess and no audit.",
            ),
        );
    }
    Ok(page)
}

/// Returns a note on a σ that was found by calibration, and for which runs it was found.
pub(crate) fn sigma_found(run: &PlannedRun) -> Option<String> {
    let alone = match run.plan.continues {
        Some(_) => " It was found for this run alone, without the earlier one.",
        None => "",
    };
    Some(noise_found(&run.inputs)? + alone)
}

/// Returns how many secrets the incidence of protect names beside those that are marked in the corpus.
pub(crate) fn secrets_named(run: &PlannedRun) -> Option<String> {
    let (named, marked) = run.named_and_marked()?;
    Some(format!(
        "The incidence names {}, and {} marked in the corpus (counts that no guarantee covers): which of the marked ones it names was not compared. A secret that it does not name is not covered.",
        count_of(named, "secret"),
        match marked {
            1 => "1 is".to_owned(),
            _ => format!("{} are", grouped(marked)),
        }
    ))
}

/// Returns the result in a sentence or two.
pub(super) fn summary(run: &PlannedRun, body: &PlanPage) -> String {
    let mut said = promised(run, body.promises.first());
    said.push_str(&larger(run, body).unwrap_or_default());
    said.push_str(&sigma_found(run).unwrap_or_default());
    if let Some(named) = secrets_named(run) {
        let _ = write!(said, " {named}");
    }
    said
}

/// Returns to whom a larger ε is promised than the first: the largest that a limit is held against, and the largest of the
/// others that are to be signed, such as of a canary. The short text may have no room for their rows.
fn larger(run: &PlannedRun, body: &PlanPage) -> Option<String> {
    let judged = judged(run, &body.promises, &body.guarantees);
    let mut most = body.headline.get().get();
    let signed = body.promises.iter().filter(|row| !row.for_planning);
    let signed = signed.map(|row| (row.to.clone(), upper(&row.guarantee)));
    let largest = signed.max_by(|a, b| a.1.total_cmp(&b.1));
    let judged = judged.to.map(|to| (to, judged.largest));
    let mut said: Vec<String> = Vec::new();
    for (to, epsilon) in judged.into_iter().chain(largest) {
        if epsilon > most {
            said.push(format!("{to}: {}", rounded_up(epsilon, 6)));
            most = epsilon;
        }
    }
    (!said.is_empty()).then(|| format!(" It is larger for {}.", said.join(", and for ")))
}

/// Returns the single change that would lower the first promise most.
fn tightest(body: &PlanPage) -> Option<String> {
    let best = body.tighten.first()?;
    Some(format!(
        "What would tighten it most: {} (epsilon {}).",
        best.change,
        rounded(best.epsilon, 4),
    ))
}

/// Returns the first promise in a sentence, behind the warning that its δ promises nothing, if it does.
pub(super) fn promised(run: &PlannedRun, first: Option<&Promised>) -> String {
    let nothing = promises_nothing(&run.inputs).map(|why| why + " ");
    nothing.unwrap_or_default() + &in_a_sentence(run, first)
}

fn in_a_sentence(run: &PlannedRun, first: Option<&Promised>) -> String {
    let Some(first) = first else {
        return "Nothing is promised that is known.".to_owned();
    };
    let upper = first.guarantee.epsilon.and_then(|bounds| bounds.upper);
    let epsilon = upper.map_or(f64::INFINITY, |upper| upper.get().get());
    let (to, uncovered) = first.to.split_once("; ").unwrap_or((&first.to, ""));
    let uncovered = match uncovered {
        "" => String::new(),
        clause => format!(" {}.", capital(clause)),
    };
    if epsilon.is_finite() {
        let relation = match to.ends_with(ANY_OTHER_CONTENT) {
            true => String::new(),
            false => format!(", {}", neighbours(&first.guarantee)),
        };
        format!(
            "Epsilon is at most {} at delta {} for {to}{relation}, whatever else the adversary knows.{uncovered}",
            rounded_up(epsilon, 6),
            shortest(run.plan.delta.get()),
        )
    } else {
        let to = to.strip_suffix(ANY_OTHER_CONTENT).unwrap_or(to);
        format!("Nothing is promised for {to}{}.{uncovered}", reason(run))
    }
}

/// Returns why nothing is promised.
fn reason(run: &PlannedRun) -> String {
    let delta = run.plan.delta.get();
    let plan = &run.plan;
    let recipe = plan.run.recipe();
    if let Some(why) = plan.unprotected() {
        return format!(", because {why}");
    }
    if delta == 0.0 {
        return ", because noise of a Gaussian promises nothing finite at delta 0".into();
    }
    match run.redaction() {
        Some(redaction) if redaction.missed_by_both().get() >= delta => format!(
            ", because both policies may miss a share {} of secrets, which is not below delta {}",
            rounded_up(redaction.missed_by_both().get(), 3),
            shortest(delta),
        ),
        None if recipe == Some(Recipe::Crt) && plan.secrets.facts.is_none() => {
            ", because the policies' miss rates are not given".into()
        }
        _ => ", because a secret may be trained on without noise".into(),
    }
}

/// Describes what runs in a line.
pub(super) fn what_runs(run: &PlannedRun) -> String {
    let plan = &run.plan;
    let said = match &plan.run {
        Run::Sgd { .. } => "training without noise".to_owned(),
        Run::Dpsgd { private } => format!("DP-SGD on every record: {}", noisy_steps(private)),
        Run::Crt { private, .. } => match private {
            Some(private) => format!("confidentially redacted training: {}", noisy_steps(private)),
            None => "confidentially redacted training without a private record".to_owned(),
        },
        Run::Sdp { selective } => format!(
            "selective DP-SGD: sigma {}, {}, and sigma {} on {} a record and pass",
            described(selective.noise_multiplier.get()),
            count_of(selective.passes(), "pass"),
            described(selective.state_noise_multiplier.get()),
            count_of(*selective.states, "state"),
        ),
        Run::Jft { second, .. } => {
            format!("fine-tuned twice, redacted first: {}", noisy_steps(second))
        }
        Run::Protect { weighted } => format!(
            "secret protection: sigma {}, expected batch {}, {}",
            match plan.noiseless {
                true => "0".to_owned(),
                false => described(weighted.noise_multiplier.get()),
            },
            described(*weighted.batch),
            count_of(weighted.steps.get(), "step"),
        ),
        Run::Mechanism { .. } => "a mechanism".to_owned(),
    };
    format!("{said}, unit {}", plan.unit.value)
}

/// Returns the notion of a promise, with what is compared.
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
    let compared = compared_in(row);
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
        (Adversary::IgnoresTheSecret, ..) => "no prior knowledge of the secret (planning only)",
    }
}

/// Returns the guarantees of a run as rows: who is protected, by which relation, and ε.
pub(crate) fn guarantees(rows: &[&Guarantee]) -> Table {
    Table::of(rows.iter().copied())
        .left("guarantee", promise)
        .left("neighbouring relation", neighbours)
        .right("ε upper", |row| {
            rounded(row.epsilon.and_then(|bounds| bounds.upper), 6)
        })
        .into()
}

pub(super) fn promises(rows: &[&Promised], epsilon: &str) -> Table {
    let bounds = |promised: &Promised| promised.guarantee.epsilon;
    let differs =
        |row: &&Promised| row.adversary != Adversary::KnowsEverything || row.estimate.is_some();
    let differ = rows.iter().any(differs);
    Table::of(rows.iter().copied())
        .left("for", |promised| &promised.to)
        .left("notion", notion)
        .only_if(differ, |table| table.left("adversary", adversary))
        .right(epsilon, |promised| match promised.estimate {
            Some(estimate) => estimated(estimate),
            None => rounded(bounds(promised).and_then(|b| b.upper), 5),
        })
        .right("lower", |promised| {
            rounded(bounds(promised).and_then(|b| b.lower), 5)
        })
        .into()
}

pub(super) fn ceilings(rows: &[Bounded]) -> Table {
    let shown = |row: &Bounded, value: f64| match row.quantity {
        Ceiling::BestExposure => format!("{} bits", exposure_at_most(value, 3, row.candidates)),
        _ => rounded_up(value, 3),
    };
    Table::of(rows)
        .left("what", |row| &row.about)
        .right("without training", |row| {
            row.before.map_or_else(dash, |value| shown(row, value))
        })
        .right("at most", |row| shown(row, *row.at_most.get()))
        .into()
}

/// Returns the table of changes that help.
pub(super) fn tighten(body: &PlanPage) -> Table {
    Table::of(&body.tighten)
        .left("single change", |row| &row.change)
        .right("ε upper", |row| rounded(row.epsilon, 4))
        .left("its price", |row| &row.price)
        .into()
}

/// Returns the changes that don't help.
pub(super) fn no_help(body: &PlanPage) -> Option<String> {
    let rest = &body.no_help;
    (!rest.is_empty()).then(|| format!("No help alone: {}.", rest.join("; ")))
}

fn estimated((low, high): (Estimate<Epsilon>, Estimate<Epsilon>)) -> String {
    format!(
        "about {} to {}",
        nearest(low.get().get(), 3),
        nearest(high.get().get(), 3)
    )
}

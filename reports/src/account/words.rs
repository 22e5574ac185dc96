//! What a number says and does not say, in sentences for a person who has to sign it.

use super::answer::headline;
use super::plan::Question;
use crate::contract::{Inputs, dash};
use crate::number::{count_of, nearest, rounded, rounded_up, shortest, so_many};
use crate::page::Section;
use reticent_accounting::pld::{Engine, Looseness};
use reticent_accounting::training::{self, NUMBER_OF_RECORDS, Recipe, Subject};
use reticent_accounting::{
    Base, Bounds, Convention, Epsilon, GroupSize, Guarantee, Method, Neighbours, Notion,
    PrivacyLoss, Probability, Tolerance, UnitName,
};

/// Heading of what an answer rests on.
pub(crate) const PREMISES: &str = "Premises";

/// The most lines of a short text with premises, so that they leave room for the guarantees.
pub(crate) const LINES_WITH_PREMISES: usize = 32;

/// Heading of what else is to be said of it.
pub(crate) const REMARKS: &str = "Remarks";

/// What is compared if a class accompanies redacted text.
pub(crate) const ONE_CLASS: &str = "between records of one class";

/// Returns so many records of a unit: `one record`, `3 records together`.
pub(super) fn together(group: GroupSize, unit: &UnitName) -> String {
    let records = so_many(group.get(), unit.as_str());
    match group {
        GroupSize::ONE => records,
        _ => format!("{records} together"),
    }
}

/// Returns what is promised, as the first column of the table.
pub(crate) fn promise(row: &Guarantee) -> String {
    let group = row.group.unwrap_or(GroupSize::ONE);
    let together = together(group, &row.unit);
    let records = so_many(group.get(), row.unit.as_str());
    let said = match row.notion {
        Notion::Dp | Notion::GroupDp => format!("differential privacy, {together}"),
        Notion::SelectiveDp => format!("the contents of a secret in {records}"),
        Notion::Confidentiality | Notion::GroupConfidentiality => {
            format!("redacted secret in {records}, adversary may know it")
        }
        Notion::BayesianConfidentiality => {
            format!("redacted secret in {records}, for planning only")
        }
        Notion::Gdp => format!("Gaussian differential privacy, {together}"),
        Notion::SecretProtection if row.unit.as_str() == "secret" => match row.group {
            Some(group) => format!(
                "guessing a secret in {}",
                count_of(group.get().into(), "record")
            ),
            None => "guessing a secret".to_owned(),
        },
        Notion::SecretProtection => format!("guessing a secret in {records}"),
    };
    let said = match row.same_class {
        true => format!("{said}, {ONE_CLASS}"),
        false => said,
    };
    match row.about {
        Some(Subject::Canary) => format!("{said}, a planted canary"),
        Some(Subject::Secret) => format!("{said}, a marked secret"),
        Some(Subject::Record) | None => said,
    }
}

/// Returns the answer in a sentence, and what it means for a guess, the same in every format.
pub(super) fn says(question: &Question, rows: &[Guarantee]) -> String {
    let row = headline(rows);
    if let Some(row) = row
        && let Some(delta) = row.delta_bounds.and_then(|bounds| bounds.upper)
    {
        return format!(
            "At epsilon {}, delta is at most {}: {}, {}{}.",
            question.epsilon.map_or_else(dash, |e| shortest(e.get())),
            rounded(delta, 6),
            promise(row),
            neighbours(row),
            match delta.get().get() < 1.0 {
                true => String::new(),
                false => because(question, row),
            }
        );
    }
    let said = promised(question, rows);
    match explained(question, rows).and_then(|row| guess(question, row, rows)) {
        Some(guess) => format!("{said} {guess}"),
        None => said,
    }
}

/// Returns the row that the answer explains by a guess, if it has one: a finite ε of records.
fn explained<'a>(question: &Question, rows: &'a [Guarantee]) -> Option<&'a Guarantee> {
    let row = headline(rows)?;
    let upper = row.epsilon.and_then(|bounds| bounds.upper)?;
    // For `protect`, the promises are stated secret by secret.
    let of_records = matches!(row.notion, Notion::Dp | Notion::GroupDp)
        && question.run.narrower() != Some(Recipe::Protect);
    (of_records && row.delta_bounds.is_none() && upper.get().get().is_finite()).then_some(row)
}

/// Returns the prior that the answer assumes for its guess, if it explains one and none was given.
#[must_use]
pub(super) fn assumed_prior(question: &Question, rows: &[Guarantee]) -> Option<f64> {
    (question.plan.prior.is_none() && explained(question, rows).is_some()).then_some(PRIOR)
}

/// Returns the first guarantee in a sentence.
fn promised(question: &Question, rows: &[Guarantee]) -> String {
    let Some(row) = headline(rows) else {
        return "Nothing is promised that is known.".to_owned();
    };
    let of = promise(row);
    let upper = row.epsilon.and_then(|bounds| bounds.upper);
    match (upper.map(|upper| upper.get().get()), row.delta) {
        (Some(epsilon), Some(delta)) if epsilon.is_finite() => format!(
            "Epsilon is at most {} at delta {}: {of}, {}.",
            rounded_up(epsilon, 6),
            shortest(delta.get()),
            neighbours(row)
        ),
        _ => format!(
            "Nothing is promised: no finite epsilon is known ({of}){}.",
            because(question, row)
        ),
    }
}

/// Returns why a row promises nothing to a secret, if it is about one.
fn because(question: &Question, row: &Guarantee) -> String {
    let why = match row.about {
        Some(Subject::Secret) => question.run.no_promise_to_secrets(),
        Some(Subject::Record | Subject::Canary) | None => None,
    };
    why.map_or_else(String::new, |why| format!(", because {why}"))
}

/// The prior for a guess if none is given.
const PRIOR: f64 = 1e-6;

/// Explains ε of records by the probability of guessing a secret, if the mechanism bounds it.
fn guess(question: &Question, row: &Guarantee, rows: &[Guarantee]) -> Option<String> {
    let group = row.group.unwrap_or(GroupSize::ONE);
    let before = question.plan.prior.map_or(PRIOR, Probability::get);
    // Uses the row of the table, if there is one.
    let own = |other: &&Guarantee| {
        other.method == Method::BlowUp
            && other.prior == question.plan.prior
            && other.group == row.group
    };
    let after = match rows.iter().find(own) {
        Some(own) => own.posterior?,
        None => {
            let (loss, _) = PrivacyLoss::of_guesses(&question.plan.mechanism, group).ok()?;
            let prior = Probability::new(before).ok()?;
            loss.blow_up(prior, Tolerance::new(1e-4).ok()?).ok()?.bounds
        }
    };
    let after = after.upper?.get().get();
    let (unit, many) = (&row.unit, group.get());
    let held = match many {
        1 => format!("that only one {unit} holds"),
        _ => format!("in at most {}", so_many(many, unit.as_str())),
    };
    Some(format!(
        "A secret {held}, guessed with chance {} before training, is guessed with chance at most {} after.",
        shortest(before),
        rounded_up(after, 3),
    ))
}

/// What ε and δ promise, in the one sentence that every page uses. It is about events: a privacy loss above ε
/// may be many times likelier than δ, as it is for Gaussian noise.
pub(super) const PROMISED: &str = "no event's probability exceeds e^epsilon times its probability with the other data, plus delta";

/// The δ above which a promise allows too much, however many records there are.
const TOO_MUCH: f64 = 1e-4;

/// The largest δ times the number of records, the expected number that may be published outright, of a δ well below one
/// over the records.
const WELL_BELOW: f64 = 0.1;

/// Room for the rounding of 0.1/N, which is the default for many records.
const ROUNDING: f64 = 1e-9;

/// Returns the number of records that noise covers, if it is among the inputs.
fn records(inputs: &Inputs) -> Option<f64> {
    ["private_records", "dataset_size"]
        .into_iter()
        .find_map(|name| inputs.number(name))
}

/// Returns the line that lists the assumptions, if there are any. A δ that was assumed follows from the number of
/// records where that is known.
#[must_use]
pub(super) fn assumed(inputs: &Inputs) -> Option<String> {
    let line = inputs.assumed_line()?;
    let open = inputs.is_assumed("delta") && records(inputs).is_none();
    Some(match open {
        true => format!("{line} (delta is not tied to a number of records)"),
        false => line,
    })
}

/// Returns a warning about a δ that promises nothing or allows too much. The number of records that noise covers is
/// among the inputs if it is known.
#[must_use]
pub(crate) fn about_delta(inputs: &Inputs) -> Option<String> {
    let delta = inputs.number("delta")?;
    let shown = shortest(delta);
    match records(inputs) {
        _ if delta <= 0.0 => Some(
            "At delta 0 noise whose loss is unbounded, as that of Gaussian noise, has no finite epsilon: for such noise \
             give a delta above 0, well below one over the number of records."
                .to_owned(),
        ),
        _ if delta >= 1.0 => Some(
            "A delta of 1 promises nothing, whatever its epsilon: give one well below one over the number of records."
                .to_owned(),
        ),
        Some(records) if delta * records >= 1.0 - ROUNDING => Some(format!(
            "delta {shown} is not below one over the {}: publishing one of them outright keeps such a \
             promise too. Give a delta well below {}.",
            count_of(records as u64, "record"),
            nearest(1.0 / records.max(2.0), 2),
        )),
        Some(records) if delta * records > WELL_BELOW * (1.0 + ROUNDING) => Some(format!(
            "delta {shown} times the {} is {}: publishing each of them with chance delta keeps such a promise \
             too. Give a delta well below {}.",
            count_of(records as u64, "record"),
            nearest(delta * records, 2),
            nearest(1.0 / records.max(2.0), 2),
        )),
        _ if delta > TOO_MUCH => Some(format!(
            "delta {shown} is large: publishing everything with that chance keeps such a promise too. Give one well \
             below one over the number of records."
        )),
        _ => None,
    }
}

/// Returns the warning about a δ under which a promise keeps no record from being published outright: of one over the records,
/// of which there are at least two, or more.
pub(crate) fn promises_nothing(inputs: &Inputs) -> Option<String> {
    let records = records(inputs).unwrap_or(2.0).max(2.0);
    let nothing = inputs.number("delta")? * records >= 1.0 - ROUNDING;
    nothing.then(|| about_delta(inputs)).flatten()
}

/// Returns why it is not known whether a promise keeps a record from being published outright: its δ is large, and the number of
/// records, against which it is judged, is not among the inputs.
pub(super) fn may_promise_nothing(inputs: &Inputs) -> Option<String> {
    let delta = inputs.number("delta")?;
    let unknown = records(inputs).is_none() && delta > TOO_MUCH;
    unknown.then(|| {
        format!(
            "delta {} may promise nothing, which depends on the number of records; give that (--dataset-size, or private in a \
             plan file), or a delta of at most {}",
            shortest(delta),
            shortest(TOO_MUCH),
        )
    })
}

/// Returns what is not covered of the text around a run.
pub(crate) fn about_outside_text(
    base: Option<training::Base>,
    held_out_public: bool,
) -> impl Iterator<Item = String> {
    training::outside_text(base, held_out_public).map(|text| format!("Not covered: {text}."))
}

/// The notes of an answer: about its δ, then `noted`, then the texts outside the promise.
pub(super) fn about_the_answer(
    inputs: &Inputs,
    noted: impl IntoIterator<Item = String>,
    base: Option<training::Base>,
) -> Section {
    let outside = about_outside_text(base, inputs.holds("held_out_public"));
    let notes = about_delta(inputs).into_iter().chain(noted).chain(outside);
    Section::notes(PREMISES, notes)
}

/// Returns who is compared with whom.
pub(crate) const fn compared(neighbours: Neighbours) -> &'static str {
    match neighbours {
        Neighbours::AddRemove => "present or absent",
        Neighbours::ZeroOut => "contribution zeroed or not",
        Neighbours::Replace => "this content or another",
    }
}

/// Returns who is compared with whom in a row. A secret whose every marked occurrence was caught costs nothing beside its
/// mask, by the count alone; whether another content would have been caught is not counted.
pub(crate) fn compared_in(row: &Guarantee) -> &'static str {
    let secret = row.about == Some(Subject::Secret) && row.method == Method::ClosedForm;
    let upper = row.epsilon.and_then(|epsilon| epsilon.high());
    match upper.filter(|_| secret) {
        Some(upper) if upper <= 0.0 => "this content or its mask",
        _ => compared(row.neighbours),
    }
}

/// Returns who is compared with whom in a row, with a remark if as in the papers.
pub(crate) fn neighbours(row: &Guarantee) -> &'static str {
    match (row.neighbours, row.convention) {
        (Neighbours::AddRemove, Convention::Paper) => "present or absent (as in the papers)",
        _ => compared_in(row),
    }
}

/// Returns how the number was obtained.
pub(super) fn method(row: &Guarantee) -> String {
    let how = match (row.method, row.base) {
        (Method::Pld, _) => "loss distribution",
        (Method::Rdp, _) => "Rényi",
        (Method::ClosedForm, _) => "formula",
        (Method::GroupLemma, _) => "group lemma",
        (Method::Proposition6, Some(Base::Rdp)) => "Prop. 6 on Rényi",
        (Method::Proposition6, Some(Base::GroupLemma)) => "Prop. 6 on the group lemma",
        (Method::Proposition6, _) => "Prop. 6",
        (Method::BlowUp, _) => "blow-up",
        (Method::KlFano, _) => "Fano, KL",
        (Method::RenyiFano, _) => "Fano, Rényi",
        (Method::ChiSquareFano, _) => "Fano, χ²",
        (Method::TotalVariation, _) => "total variation",
    };
    match row.engine {
        Some(Engine::Chernoff) => format!("{how}, coarse"),
        _ => how.to_owned(),
    }
}

/// Returns a note if the ends of a row are farther apart than requested.
pub(super) fn wide(guarantees: &[Guarantee], tolerance: Tolerance) -> Option<String> {
    let relative = |row: &Guarantee| {
        let ends = match (row.delta_bounds, row.epsilon, row.posterior) {
            (Some(delta), ..) => (delta.lower?.get().get(), delta.upper?.get().get()),
            (_, Some(epsilon), _) => (epsilon.lower?.get().get(), epsilon.upper?.get().get()),
            (.., Some(posterior)) => (posterior.lower?.get().get(), posterior.upper?.get().get()),
            (None, None, None) => return None,
        };
        let apart = (ends.1 - ends.0) / ends.1;
        (ends.1.is_finite() && apart > tolerance.get() * 1.000_001).then_some(apart)
    };
    let computed = |row: &&Guarantee| matches!(row.method, Method::Pld | Method::BlowUp);
    let widest = guarantees
        .iter()
        .filter(computed)
        .filter_map(|row| Some((row, relative(row)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let why = match widest.0.looseness {
        Some(Looseness::UnknownLaw) => {
            ": the exact worst case of this mechanism is not known, so the upper end is that of a pair that \
             dominates it"
        }
        Some(Looseness::SmallestNumbers) => ": they lie among the smallest numbers",
        Some(Looseness::Precision) => ": the numerical errors are certified to no less",
        Some(Looseness::OutOfReach) => {
            ": neither engine reaches this question, and coarse bounds stand in"
        }
        None => "",
    };
    Some(format!(
        "The ends of \"{}\" are {} apart, relatively; {} was asked for and could not be \
         certified{why}. The upper end holds all the same.",
        promise(widest.0),
        rounded_up(widest.1, 2),
        shortest(tolerance.get()),
    ))
}

fn infinite(row: &Guarantee) -> bool {
    row.epsilon.and_then(|bounds| bounds.high()) == Some(f64::INFINITY)
}

/// Explains what the numbers mean.
fn meaning(of_delta: bool) -> String {
    if of_delta {
        format!(
            "δ upper: when the data change as the row says, {PROMISED}. Smaller is better; a delta near one over the \
             number of records promises little, as it allows one of them to be published."
        )
    } else {
        format!(
            "ε upper: when the data change as the row says, {PROMISED}. Smaller is better; at 0 the change matters by \
             delta at most. It does not say that nothing is learned, only how much one change can matter."
        )
    }
}

/// Returns whether the ends are farther apart than rounding.
fn open(row: &Guarantee) -> bool {
    let ends = |bounds: Bounds<Epsilon>| Some((bounds.low()?, bounds.high()?));
    let ends = row.epsilon.and_then(ends);
    ends.is_some_and(|(lower, upper)| upper - lower > 1e-2 * upper)
}

/// Which secrets the rows about redacted ones speak of, where there are any.
#[must_use]
pub(crate) fn of_redacted_secrets(rows: &[Guarantee]) -> Option<String> {
    let of_secrets = |row: &Guarantee| {
        let secret = matches!(
            row.notion,
            Notion::Confidentiality | Notion::GroupConfidentiality
        );
        secret && row.gamma.is_none() && !infinite(row)
    };
    rows.iter().any(of_secrets).then(|| {
        "redacted secret: it holds where no record with the secret is on the public side (both policies \
         together miss none of its copies). Other secrets, unmarked occurrences, and the public side are not covered."
            .to_owned()
    })
}

/// The notes that go with the rows shown, each said once.
pub(super) fn notes(rows: &[Guarantee]) -> Vec<String> {
    let has = |test: &dyn Fn(&Guarantee) -> bool| rows.iter().any(test);
    let mut notes = vec![meaning(has(&|row| row.delta_bounds.is_some()))];
    notes.push(
        format!(
            "lower: no accountant can promise less than this for the same plan, so the gap is {}. A row without it \
             may be far from tight.",
            if has(&open) {
                "what is unknown about it"
            } else {
                "only our rounding"
            }
        ),
    );
    if has(&|row| row.notion == Notion::BayesianConfidentiality) {
        notes.push(
            "for planning only: against an adversary without prior knowledge of the secret. It bounds no chance of \
             guessing a secret, no exposure and no audit of a planted one, and is never held against a measurement. \
             The row \"adversary may know it\" is."
                .to_owned(),
        );
    }
    if has(&|row| row.convention == Convention::Paper) {
        notes.push(
            "as in the papers: computed for a record present or absent, which is not what redaction changes. \
             Compare it with numbers in papers; sign the other row."
                .to_owned(),
        );
    }
    if has(&|row| row.notion == Notion::SelectiveDp) {
        notes.push(
            "the contents of a secret: what is compared is one content of a secret against another, as S-DP \
             and JFT define it. The rest of a record, and a secret that the policy misses, are not covered."
                .to_owned(),
        );
    }
    notes.extend(of_redacted_secrets(rows));
    if has(&|row| row.notion == Notion::SecretProtection) {
        notes.push(
            "guessing a secret: what somebody who would have guessed it with the prior's chance can reach after \
             training. The prior covers everything known besides this model, other models included."
                .to_owned(),
        );
    }
    if has(&|row| row.notion == Notion::Gdp) {
        notes.push(
            "μ upper: what the row says is no easier to distinguish than two bell curves whose means lie mu \
             deviations from each other, up to the slack. The regret is how far that summary overstates the \
             error rates at worst; the rows above are what it summarises."
                .to_owned(),
        );
    }
    if has(&|row| row.gamma.is_some() && infinite(row)) {
        notes.push(
            "∞ with redaction: both policies miss a larger share of secrets than delta allows, and a secret that both \
             miss is trained on without protection."
                .to_owned(),
        );
    }
    if has(&|row| row.engine == Some(Engine::Chernoff)) {
        notes.push(
            "coarse: the tight computation could not be certified for this plan; the bound holds but may be loose."
                .to_owned(),
        );
    }
    if has(&|row| row.neighbours == Neighbours::AddRemove) {
        notes.push(format!("{NUMBER_OF_RECORDS}."));
    }
    notes.push(
        "Not covered: choosing settings or checkpoints on the same data, published metrics, a vocabulary or policy \
         fitted on private text, batches that are drawn otherwise than stated, other runs on the same data."
            .to_owned(),
    );
    notes
}

//! Upper bounds of a plan on attacks, as probabilities: guesses, canaries, membership.

use super::PlannedRun;
use super::promises::or_left_out;
use crate::number::{count_of, shortest, so_many};
use anyhow::Result;
use reticent_accounting::confidentiality::Reach;
use reticent_accounting::reconstruction::ceiling::{best_exposure_ceiling, exposure_ceiling};
use reticent_accounting::reconstruction::membership::area_ceiling;
use reticent_accounting::reconstruction::redacted::{MissedBy, guess_ceiling};
use reticent_accounting::redaction::Redaction;
use reticent_accounting::training::{Canaries, Recipe};
use reticent_accounting::{
    Direction, GroupSize, Neighbours, PrivacyLoss, Probability, Query, Tolerance, Upper,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The relative width of a ceiling: they are printed to three digits.
const TOLERANCE: f64 = 1e-4;
/// The number of cells for the area under the ROC curve.
const CELLS: u32 = 64;
/// The false positive rate at which membership is shown.
const FALSE_POSITIVES: f64 = 1e-3;
/// The confidence of a ceiling on the best exposure.
const LEVEL: f64 = 0.95;

/// What is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ceiling {
    /// P(the secret is guessed first), if noise protects it.
    FirstGuess,
    /// The same for redacted secrets whose content decides whether they are missed.
    FirstGuessMissedByContent,
    /// The same for redacted secrets that are missed by chance.
    FirstGuessMissedByChance,
    /// Bits of exposure that no canary exceeds with the stated probability.
    BestExposure,
    /// P(some canary is ranked first of a million).
    AnyRankedFirst,
    /// True positives of membership at the stated false positives.
    TruePositives,
    /// Area under the ROC curve of membership.
    Area,
}

/// One ceiling.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Bounded {
    /// What is bounded.
    pub(crate) quantity: Ceiling,
    /// In words.
    pub(crate) about: String,
    /// Records of one secret.
    pub(crate) records: GroupSize,
    /// Chance before training, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<f64>,
    /// At most this: a probability, or bits.
    pub(crate) at_most: Upper<f64>,
    /// Contents that a canary can have, where known: no exposure is above their log2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) candidates: Option<f64>,
}

/// Returns every ceiling that applies, and a sentence on each attack that has none under this sampler. What is trained on
/// without noise has no ceiling, so guesses and canaries are those that noise protects; S-DP and training without noise
/// have no ceilings at all.
///
/// # Errors
/// Returns an error if a pair can't be certified.
pub(crate) fn ceilings(run: &PlannedRun) -> Result<(Vec<Bounded>, Vec<String>)> {
    let (mut found, mut unknown) = (Vec::new(), Vec::new());
    if run.plan.unprotected().is_some() {
        return Ok((found, unknown));
    }
    let mut add = |rows: Result<Vec<Bounded>>, attack: &str| -> Result<()> {
        match or_left_out(rows.map(Some))? {
            Some(rows) => found.extend(rows),
            None => unknown.push(format!("No upper bound is known on {attack}.")),
        }
        Ok(())
    };
    // If a secret is one entry of the mechanism, there is no group of records to ask about; selective training
    // compares only contents.
    if !matches!(run.plan.run.recipe(), Some(Recipe::Protect | Recipe::Sdp)) {
        add(guesses(run), "guesses of a secret")?;
        add(canaries(run), "the ranks of canaries")?;
    }
    if run.plan.run.recipe() == Some(Recipe::Dpsgd) {
        add(membership(run), "attacks on membership")?;
    }
    if redacted(run).is_some() && !is_uniform(run) {
        unknown.push(
            "No upper bound is known on guesses of a redacted secret some of whose contents are likelier than others (prior)."
                .to_owned(),
        );
    }
    Ok((found, unknown))
}

fn tolerance() -> Result<Tolerance> {
    Ok(Tolerance::new(TOLERANCE)?)
}

/// Returns the rates of the policies of a redacted corpus.
fn redacted(run: &PlannedRun) -> Option<Redaction> {
    run.redaction()
        .filter(|_| run.plan.run.recipe() == Some(Recipe::Crt))
}

/// Returns whether all contents of a secret may be equally likely, as the ceilings of redacted secrets assume.
fn is_uniform(run: &PlannedRun) -> bool {
    let secrets = &run.plan.secrets;
    let pair = secrets.prior.zip(secrets.candidates);
    pair.is_none_or(|(prior, candidates)| prior.get() * candidates as f64 <= 1.0 + 1e-9)
}

fn of_guesses(run: &PlannedRun, records: GroupSize) -> Result<PrivacyLoss> {
    Ok(PrivacyLoss::of_guesses(&run.plan.mechanism(), records)?.0)
}

fn guesses(run: &PlannedRun) -> Result<Vec<Bounded>> {
    let mut found = Vec::new();
    let (plan, records) = (&run.plan, run.records());
    let (unit, secrets) = (&plan.unit.value, &plan.secrets);
    let among = format!("a secret in {}", so_many(records.get(), unit.as_str()));
    let chance = secrets.candidates.map(|n| 1.0 / n as f64);
    if let Some(before) = secrets.prior.map(Probability::get).or(chance) {
        let loss = of_guesses(run, records)?;
        let after = loss.blow_up(Probability::new(before)?, tolerance()?)?;
        let after = after.bounds.upper.map_or(1.0, |end| end.get().get());
        found.push(Bounded {
            quantity: Ceiling::FirstGuess,
            about: format!("{among} is guessed, if each was trained on with noise"),
            records,
            before: Some(before),
            at_most: Upper::new(after),
            candidates: None,
        });
    }
    let (Some(candidates), Some(redaction)) = (secrets.candidates, redacted(run)) else {
        return Ok(found);
    };
    if !is_uniform(run) {
        return Ok(found);
    }
    let question = Query::replace(records);
    let replaced = PrivacyLoss::of(&plan.mechanism(), question, Direction::Remove)?;
    for (missed_by, quantity, said) in [
        (
            MissedBy::Content,
            Ceiling::FirstGuessMissedByContent,
            "missed by its content",
        ),
        (
            MissedBy::Chance,
            Ceiling::FirstGuessMissedByChance,
            "missed by chance",
        ),
    ] {
        let bound = guess_ceiling(&replaced, redaction, candidates, 1, missed_by, tolerance()?)?;
        // If noise protects every record, the guess has the first ceiling as well.
        let plain = of_guesses(run, records)?
            .blow_up(Probability::new(1.0 / candidates as f64)?, tolerance()?)?;
        let bound = match plain.bounds.upper {
            Some(plain) if secrets.everything_private && plain < bound => plain,
            _ => bound,
        };
        found.push(Bounded {
            quantity,
            about: format!("{among} is guessed, redacted, {said}"),
            records,
            before: chance,
            at_most: Upper::new(bound.get().get()),
            candidates: None,
        });
    }
    Ok(found)
}

/// Returns the ceilings for the records that hold canaries; none if a copy is trained on without noise.
fn canaries(run: &PlannedRun) -> Result<Vec<Bounded>> {
    let secrets = &run.plan.secrets;
    let Some(canaries) = secrets.canaries.as_ref().map(|stated| stated.value) else {
        return Ok(Vec::new());
    };
    let open = run.plan.run.recipe() == Some(Recipe::Crt) && canaries.on_public_side > 0;
    let Some(Reach::Records(records)) = run.plan.canary_reach() else {
        return Ok(Vec::new());
    };
    if open {
        return Ok(Vec::new());
    }
    let mut found = planted(run, canaries, records, "")?;
    if let Some(before) = secrets.records_before.filter(|before| *before > records) {
        found.extend(planted(run, canaries, before, ", not deduplicated")?);
    }
    Ok(found)
}

fn planted(
    run: &PlannedRun,
    canaries: Canaries,
    records: GroupSize,
    said: &str,
) -> Result<Vec<Bounded>> {
    let count = canaries.count;
    // A canary can't have more contents than the plan of canaries states.
    let candidates = canaries.candidates;
    let most = candidates.map_or(f64::INFINITY, f64::log2);
    // No two canaries have the same content: given the others, each is one of N − m + 1, and ranks reveal that
    // much more.
    let distinct = candidates.map_or(0.0, |candidates| {
        let left = candidates - count as f64 + 1.0;
        if left >= 1.0 {
            (candidates / left).log2() * (1.0 + 1e-12)
        } else {
            f64::INFINITY
        }
    });
    let loss = of_guesses(run, records)?;
    let level = Probability::new(LEVEL)?;
    let bits = best_exposure_ceiling(&loss, count, level, tolerance()?)?;
    let about = format!(
        "best exposure of {} in {} each{said}, {} sure",
        count_of(count, "canary"),
        count_of(records.get().into(), "record"),
        shortest(LEVEL),
    );
    // The largest of independent uniform ranks: 2^-bits is 1 - LEVEL^(1/count).
    let chance = -(-(LEVEL.ln() / count as f64).exp_m1()).log2();
    let mut found = vec![Bounded {
        quantity: Ceiling::BestExposure,
        about,
        records,
        before: Some(chance.min(most)),
        at_most: Upper::new((bits.get() + distinct).min(most)),
        candidates,
    }];
    if let Some(candidates) = candidates {
        let each = exposure_ceiling(&loss, (most - distinct).max(0.0), tolerance()?)?;
        // The sum of all, rounded up: nothing makes them independent.
        let any = each.get().get() * count as f64 * (1.0 + 4.0 * f64::EPSILON);
        found.push(Bounded {
            quantity: Ceiling::AnyRankedFirst,
            about: format!(
                "one of {} ranked first of {}{said}",
                count_of(count, "canary"),
                shortest(candidates)
            ),
            records,
            before: Some((count as f64 / candidates).min(1.0)),
            at_most: Upper::new(any.min(1.0)),
            candidates: Some(candidates),
        });
    }
    Ok(found)
}

fn membership(run: &PlannedRun) -> Result<Vec<Bounded>> {
    let question = Query::single(Neighbours::AddRemove);
    let loss = PrivacyLoss::of(&run.plan.mechanism(), question, Direction::Remove)?;
    let false_positives = Probability::new(FALSE_POSITIVES)?;
    let rate = loss
        .true_positive_rate(false_positives, tolerance()?)?
        .bounds
        .upper;
    let area = area_ceiling(&loss, CELLS, tolerance()?)?;
    let unit = &run.plan.unit.value;
    Ok(vec![
        Bounded {
            quantity: Ceiling::TruePositives,
            about: format!(
                "a {unit} is recognised as trained on, at {} false alarms",
                shortest(FALSE_POSITIVES)
            ),
            records: GroupSize::ONE,
            before: Some(FALSE_POSITIVES),
            at_most: Upper::new(rate.map_or(1.0, |end| end.get().get())),
            candidates: None,
        },
        Bounded {
            quantity: Ceiling::Area,
            about: format!("area under the ROC curve for the membership of a {unit}"),
            records: GroupSize::ONE,
            before: Some(0.5),
            at_most: Upper::new(area.get().get()),
            candidates: None,
        },
    ])
}

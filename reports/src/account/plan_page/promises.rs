//! The promises of a plan: what is promised to whom.

use super::PlannedRun;
use crate::account::answer::{Judged, is_promise, said, upper};
use crate::account::words::{ONE_CLASS, together};
use crate::number::{plural, so_many};
use anyhow::{Context, Result};
use reticent_accounting::confidentiality::{LightNoise, Reach, Standing};
use reticent_accounting::pld::Engine;
use reticent_accounting::training::{FirstPhase, Provenance, Recipe, Run, Subject};
use reticent_accounting::{
    Bounds, Convention, Delta, Direction, Epsilon, Error, Estimate, GroupSize, Guarantee, Method,
    Neighbours, Notion, Plan, PrivacyLoss, Query, Sampling, Tolerance, Upper,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who the other side is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Adversary {
    /// Knows everything but the one thing in question, which it may know too.
    KnowsEverything,
    /// Does not know the secret, only how it is distributed.
    IgnoresTheSecret,
}

/// One promise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Promised {
    /// Whom or what it protects.
    pub(crate) to: String,
    /// Against whom.
    pub(crate) adversary: Adversary,
    /// Not to be signed: a planning aid or a number from the papers.
    pub(crate) for_planning: bool,
    /// Not even a bound: both ends of an estimate, in place of the guarantee's epsilon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) estimate: Option<(Estimate<Epsilon>, Estimate<Epsilon>)>,
    /// The promise itself.
    pub(crate) guarantee: Guarantee,
}

/// Leaves a result out if the sampler has no law for a group of records.
pub(super) fn or_left_out<T: Default>(found: Result<T>) -> Result<T> {
    match found {
        Err(error) if matches!(error.downcast_ref(), Some(Error::Unsupported { .. })) => {
            Ok(T::default())
        }
        found => found,
    }
}

impl PlannedRun {
    fn row(&self, notion: Notion, neighbours: Neighbours) -> Guarantee {
        let unit = self.plan.unit.value.clone();
        Guarantee {
            delta: Some(*self.plan.delta),
            ..Guarantee::new(notion, neighbours, unit, Method::Pld)
        }
    }

    fn with_epsilon(
        &self,
        row: Guarantee,
        group: GroupSize,
        found: (Bounds<Epsilon>, Engine),
    ) -> Guarantee {
        Guarantee {
            epsilon: Some(found.0),
            engine: Some(found.1),
            group: (group > GroupSize::ONE).then_some(group),
            ..row
        }
    }

    /// Returns ε at this δ if `group` records have other contents.
    fn replaced(&self, group: GroupSize, delta: Delta) -> Result<(Bounds<Epsilon>, Engine)> {
        let row = self.plan_of(group, delta).exactly()?;
        let bounds = row.epsilon.context("a promise without an epsilon")?;
        Ok((bounds, row.engine.unwrap_or(Engine::Closed)))
    }

    /// Returns the question about other contents of `group` records.
    fn plan_of(&self, group: GroupSize, delta: Delta) -> Plan {
        Plan {
            neighbours: Neighbours::Replace,
            group,
            tolerance: self.tolerance,
            ..Plan::new(self.plan.mechanism(), self.plan.unit.value.clone(), delta)
        }
    }

    fn recipe(&self) -> Option<Recipe> {
        self.plan.run.recipe()
    }
}

fn knows(to: String, guarantee: Guarantee) -> Promised {
    let to = match guarantee.same_class {
        true => format!("{to}, {ONE_CLASS}"),
        false => to,
    };
    Promised {
        to,
        adversary: Adversary::KnowsEverything,
        for_planning: false,
        estimate: None,
        guarantee,
    }
}

/// Returns every promise, the headline first: the guarantees of the plan in words, and what redaction adds.
///
/// # Errors
/// Returns an error if the plan can't be accounted.
pub(crate) fn promises(run: &PlannedRun, guarantees: &[Guarantee]) -> Result<Vec<Promised>> {
    let mut promises = leading(run, guarantees, run)?;
    match run.recipe() {
        Some(Recipe::Crt) => redacted(run, &mut promises)?,
        Some(Recipe::Dpsgd) => {
            promises.extend(random_secret(run)?);
            promises.extend(or_left_out(uninformed(run))?);
        }
        _ => promises.extend(light_noise(run)?),
    }
    Ok(promises)
}

/// Returns the headline's ε, that of the first promise to be signed, computed without the other promises if
/// possible. `order` is the run in whose order the promises are: a changed plan is compared by what leads on the page.
///
/// # Errors
/// Returns an error if the plan can't be accounted.
pub(super) fn headline(run: &PlannedRun, order: &PlannedRun) -> Result<Upper<Epsilon>> {
    if let Some(rows) = leading_rows(run, order)? {
        let epsilon = headline_of(&leading(run, &rows, order)?)?;
        // For CRT, a finite promise leads.
        if run.recipe() != Some(Recipe::Crt) || epsilon.get().get().is_finite() {
            return Ok(epsilon);
        }
    }
    headline_of(&promises(run, &run.plan.guarantees(run.tolerance)?)?)
}

/// Returns the rows about the subject whose promise leads, without computing the others.
fn leading_rows(run: &PlannedRun, order: &PlannedRun) -> Result<Option<Vec<Guarantee>>> {
    let mut subjects = [Subject::Record, Subject::Secret, Subject::Canary];
    subjects.sort_by_key(|subject| rank(order, Some(*subject)));
    for subject in subjects {
        if subject == Subject::Record
            && let Some(row) = (run.plan)
                .guarantee_of_a_record(Neighbours::AddRemove, run.tolerance)?
                .filter(|row| row.convention == Convention::Definition)
        {
            // The page shows this row for the other neighbours as well.
            return Ok(Some(vec![row]));
        }
        let rows = run.plan.guarantees_about(subject, run.tolerance)?;
        if !rows.is_empty() {
            return Ok(Some(rows));
        }
    }
    Ok(None)
}

/// Returns whether the first promise is about one record, whatever else is known about secrets.
pub(super) fn is_about_a_record(run: &PlannedRun) -> bool {
    rank(run, Some(Subject::Record)) < rank(run, Some(Subject::Secret))
}

/// Returns the first promise, of a plan or of the run made from it.
///
/// # Errors
/// Returns an error if the plan can't be accounted.
#[cfg(feature = "audit")]
pub(super) fn first(run: &PlannedRun, guarantees: &[Guarantee]) -> Result<Option<Promised>> {
    let leading = leading(run, guarantees, run)?;
    // For CRT, a finite promise leads.
    let all = match run.recipe() == Some(Recipe::Crt)
        && headline_of(&leading)?.get().get().is_infinite()
    {
        true => promises(run, guarantees)?,
        false => leading,
    };
    Ok(all.into_iter().next())
}

/// Returns the guarantees of a run in the order of its promises.
pub(crate) fn in_order<'a>(run: &PlannedRun, guarantees: &'a [Guarantee]) -> Vec<&'a Guarantee> {
    let mut rows: Vec<&Guarantee> = guarantees.iter().collect();
    rows.sort_by_key(|row| rank(run, row.about));
    rows
}

/// Returns ε of the first promise to be signed; infinite if there is none.
pub(super) fn headline_of(promises: &[Promised]) -> Result<Upper<Epsilon>> {
    let first = promises.iter().find(|p| !p.for_planning);
    let end = first.map_or(f64::INFINITY, |p| upper(&p.guarantee));
    Ok(Upper::new(Epsilon::new(end)?))
}

/// Returns what a limit is held against: the largest ε that is promised to a record or a secret. Not judged are canaries,
/// which belong to nobody, several secrets at once, and a record in the relation by which its notion is not known.
pub(super) fn judged(run: &PlannedRun, promises: &[Promised], guarantees: &[Guarantee]) -> Judged {
    let signed = promises.iter().filter(|promised| !promised.for_planning);
    let signed: Vec<(String, &Guarantee)> = signed
        .map(|promised| (promised.to.clone(), &promised.guarantee))
        .collect();
    // What is promised to a secret drawn at random rests on a rate of those that are trained on in the open.
    let leads = signed
        .first()
        .is_some_and(|(_, row)| upper(row).is_finite());
    let open = |row: &Guarantee| {
        run.recipe() == Some(Recipe::Crt)
            && leads
            && row.about == Some(Subject::Secret)
            && upper(row).is_infinite()
    };
    let counts = |row: &Guarantee| {
        row.about != Some(Subject::Canary)
            && row.group.unwrap_or(GroupSize::ONE) <= run.records()
            && !is_second(row, guarantees)
            && !open(row)
    };
    let further = guarantees.iter().filter(|row| is_promise(row));
    let further = further.filter(|row| !signed.iter().any(|(_, other)| other == row));
    let further = further.map(|row| (said(row), row));
    let rows = signed.iter().cloned().chain(further).enumerate();
    let (judged, others): (Vec<_>, Vec<_>) = rows.partition(|(_, (_, row))| counts(row));
    let judged = judged.into_iter().rev();
    // The first of equal ones.
    let largest = judged.max_by(|a, b| upper(a.1.1).total_cmp(&upper(b.1.1)));
    let (largest, to) = match largest {
        Some((at, (to, row))) => (upper(row), (at > 0).then_some(to)),
        None => (f64::INFINITY, None),
    };
    let others = others.into_iter().map(|(_, (to, row))| (to, upper(row)));
    let others = others.filter(|(_, epsilon)| *epsilon > largest).collect();
    Judged {
        largest,
        to,
        others,
    }
}

/// Returns the guarantees in words, in the order in which they are promised: the first line concerns the most
/// records that are known to belong together in `order`.
fn leading(
    run: &PlannedRun,
    guarantees: &[Guarantee],
    order: &PlannedRun,
) -> Result<Vec<Promised>> {
    let signed = guarantees
        .iter()
        .filter(|row| row.convention == Convention::Definition)
        // The page has one row about a record, for the neighbours by which the notion is known.
        .filter(|row| !is_second(row, guarantees));
    let mut promises: Vec<Promised> = signed
        .map(|row| knows(whom(run, row), row.clone()))
        .collect();
    promises.sort_by_key(|promised| rank(order, promised.guarantee.about));
    if run.recipe() == Some(Recipe::Crt) {
        promises.retain(|promised| promised.guarantee.about != Some(Subject::Record));
        if !promises
            .iter()
            .any(|promised| promised.guarantee.about == Some(Subject::Secret))
        {
            // The number of records of a secret is neither counted nor given.
            promises.insert(0, of_one_record(run)?);
        }
    }
    Ok(promises)
}

/// Returns whether a row about one record is also there for the other neighbours.
fn is_second(row: &Guarantee, all: &[Guarantee]) -> bool {
    let present = |other: &&Guarantee| {
        other.about == Some(Subject::Record)
            && other.neighbours == Neighbours::AddRemove
            && other.convention == Convention::Definition
    };
    row.about == Some(Subject::Record)
        && row.neighbours == Neighbours::Replace
        && all.iter().any(|other| present(&other))
}

fn rank(run: &PlannedRun, about: Option<Subject>) -> u8 {
    let secrets_first = matches!(run.recipe(), Some(Recipe::Crt | Recipe::Sdp | Recipe::Jft));
    // Several records that are known to belong together come before one.
    let together = run.records() > GroupSize::ONE;
    match about {
        Some(Subject::Secret) if secrets_first || together => 0,
        Some(Subject::Record) | None => 1,
        Some(Subject::Secret) => 2,
        Some(Subject::Canary) => 3,
    }
}

/// The relation of selective privacy.
pub(super) const ANY_OTHER_CONTENT: &str = ", against any other content it could have";

/// Returns whom a guarantee of the plan protects; behind a semicolon, what it does not cover.
fn whom(run: &PlannedRun, row: &Guarantee) -> String {
    let (unit, group) = (&row.unit, row.group.unwrap_or(GroupSize::ONE));
    let together = together(group, unit);
    let selective = row.notion == Notion::SelectiveDp;
    match row.about {
        Some(Subject::Canary) => format!("the secret of a planted canary ({together})"),
        Some(Subject::Secret) if selective => {
            format!("each secret in {together}{ANY_OTHER_CONTENT}")
        }
        Some(Subject::Secret) if run.recipe() == Some(Recipe::Crt) => {
            format!("{} ({together})", which(run))
        }
        Some(Subject::Secret) => format!("each secret in {together}"),
        _ if selective => {
            format!(
                "a secret in {together}{ANY_OTHER_CONTENT}; one in more {} is not covered",
                plural(unit.as_str())
            )
        }
        _ if matches!(run.plan.run, Run::Protect { .. }) => {
            format!("the records of {together}, of any secret that the incidence names")
        }
        _ if unit.as_str() == "user" => together,
        _ => format!(
            "{together} (a person in more {} is not covered)",
            plural(unit.as_str())
        ),
    }
}

/// Returns which secrets of a redacted corpus the first row is about.
fn which(run: &PlannedRun) -> &'static str {
    match (run.counted(), run.plan.worst_secret()) {
        (Some(_), Some(Standing::Caught)) => {
            "every secret marked in this corpus, each marked occurrence caught"
        }
        (Some(_), Some(Standing::Exposed)) => {
            "each secret marked in this corpus, some of them trained on in the open"
        }
        (Some(_), _) => "each secret marked in this corpus, missed by the policy or not",
        (None, Some(Standing::Exposed)) => "each secret, whatever the policies missed",
        (None, _) => "each secret, missed by the policy or not",
    }
}

/// Adds what redaction adds for CRT: a random secret, all secrets at once, and the rows for planning.
fn redacted(run: &PlannedRun, promises: &mut Vec<Promised>) -> Result<()> {
    let infinite = upper(&promises[0].guarantee).is_infinite();
    // The first promise that is finite leads.
    let at = usize::from(!infinite);
    if let Some(random) = random_secret(run)? {
        promises.insert(at, random);
    }
    promises.extend(all_at_once(run)?);
    promises.extend(or_left_out(uninformed(run))?);
    Ok(())
}

/// Returns the promise for a secret whose only record this is: all that can be promised if its records were not
/// counted.
fn of_one_record(run: &PlannedRun) -> Result<Promised> {
    let row = run.row(Notion::Confidentiality, Neighbours::Replace);
    let found = run.replaced(GroupSize::ONE, *run.plan.delta)?;
    let unit = &run.plan.unit.value;
    Ok(knows(
        format!(
            "a secret in one {unit}, missed by the policy or not; how many {} hold one is not known, and a secret in several is not covered",
            plural(unit.as_str())
        ),
        run.with_epsilon(row, GroupSize::ONE, found),
    ))
}

fn confidentiality(run: &PlannedRun) -> Notion {
    if run.records() > GroupSize::ONE {
        Notion::GroupConfidentiality
    } else {
        Notion::Confidentiality
    }
}

/// Returns (ε, (γ−η)δ+η) for a secret drawn at random, against an adversary who may know it; or (ε, δ) for any secret, if that
/// is better and noise covers every record.
fn random_secret(run: &PlannedRun) -> Result<Option<Promised>> {
    let Some(redaction) = run.redaction() else {
        return Ok(None);
    };
    let given = *run.plan.delta;
    let base = redaction.base_delta(given);
    let base = match run.plan.narrower() {
        None => Some(base.filter(|base| *base > given).unwrap_or(given)),
        Some(_) => base,
    };
    let found = match base {
        Some(delta) => {
            let (bounds, engine) = run.replaced(run.records(), delta)?;
            // Whether a miss depends on the secret is unknown, so there is no lower end.
            (bounds.without_lower(), engine)
        }
        None => (
            Bounds::at_most(Epsilon::new(f64::INFINITY)?),
            Engine::Closed,
        ),
    };
    let row = run.row(confidentiality(run), Neighbours::Replace);
    let row = run.with_epsilon(row, run.records(), found);
    Ok(Some(knows(
        format!(
            "a secret drawn at random ({})",
            together(run.records(), &run.plan.unit)
        ),
        with_rates(run, row),
    )))
}

fn with_rates(run: &PlannedRun, row: Guarantee) -> Guarantee {
    let Some(redaction) = run.redaction() else {
        return row;
    };
    let eta = redaction.missed_by_both();
    let confidence = match run.plan.secrets.redaction.as_ref().map(|r| &r.provenance) {
        Some(Provenance::Measured { confidence, .. }) => *confidence,
        _ => None,
    };
    Guarantee {
        gamma: Some(redaction.miss()),
        missed_by_both: (eta.get() > 0.0).then_some(eta),
        confidence,
        ..row
    }
}

/// Returns the promise for all secrets against their masks at once, if misses were counted.
fn all_at_once(run: &PlannedRun) -> Result<Option<Promised>> {
    let Some(facts) = run.counted().filter(|facts| facts.missed() > 1) else {
        return Ok(None);
    };
    let Reach::Records(records) = facts.reach_of_all() else {
        return Ok(None);
    };
    let found = run.replaced(records, *run.plan.delta)?;
    let row = run.row(Notion::GroupConfidentiality, Neighbours::Replace);
    let to = format!(
        "all {} missed secrets at once: uniform confidentiality ({} at most)",
        facts.missed(),
        so_many(records.get(), run.plan.unit.as_str())
    );
    Ok(Some(knows(to, run.with_epsilon(row, records, found))))
}

/// Returns ε' for planning, by definition and as the papers computed it.
fn uninformed(run: &PlannedRun) -> Result<Vec<Promised>> {
    let Some(redaction) = run.redaction() else {
        return Ok(Vec::new());
    };
    if run.plan.unprotected().is_some() {
        return Ok(Vec::new());
    }
    let mut rows = Vec::new();
    for (convention, neighbours) in [
        (Convention::Definition, Neighbours::Replace),
        (Convention::Paper, Neighbours::AddRemove),
    ] {
        let question = Query::new(neighbours, run.records());
        let mechanism = run.plan.mechanism();
        let with = PrivacyLoss::of(&mechanism, question, Direction::Remove)?;
        let without = PrivacyLoss::of(&mechanism, question, Direction::Add)?;
        let found = redaction.exact_epsilon(&with, &without, *run.plan.delta, run.tolerance)?;
        let mut bounds = found.bounds;
        // Single records may bound a group more tightly than its own law.
        if convention == Convention::Definition && run.records() > GroupSize::ONE {
            let plan = Plan {
                redaction: Some(redaction),
                ..run.plan_of(run.records(), *run.plan.delta)
            };
            bounds = plan.bayesian_epsilon()?.unwrap_or(bounds);
        }
        let row = run.row(Notion::BayesianConfidentiality, neighbours);
        let row = run.with_epsilon(row, run.records(), (bounds, found.engine));
        rows.push(Promised {
            to: format!(
                "a secret drawn at random ({})",
                together(run.records(), &run.plan.unit)
            ),
            adversary: Adversary::IgnoresTheSecret,
            for_planning: true,
            estimate: None,
            guarantee: with_rates(run, Guarantee { convention, ..row }),
        });
    }
    Ok(rows)
}

/// Returns JFT's estimate for a lightly noised first phase and the second one, which speaks of Poisson batches; it is never
/// a bound.
fn light_noise(run: &PlannedRun) -> Result<Option<Promised>> {
    let Run::Jft {
        first:
            FirstPhase::LightNoise {
                steps,
                token_miss: Some(miss),
            },
        second,
    } = &run.plan.run
    else {
        return Ok(None);
    };
    if *steps.sampling != Sampling::Poisson {
        return Ok(None);
    }
    let light = LightNoise {
        noise_multiplier: *steps.noise_multiplier,
        sampling_rate: *steps.sampling_rate,
        steps: *steps.steps,
        miss: *miss,
        second: second.mechanism(),
    };
    // It is printed to three digits and is not a bound.
    let tolerance = Tolerance::new(run.tolerance.get().max(1e-4))?;
    let (low, high) = light.epsilon(*run.plan.delta, tolerance)?;
    let row = run.row(Notion::SelectiveDp, Neighbours::AddRemove);
    let one = together(GroupSize::ONE, &run.plan.unit);
    let to = format!("both phases, by the paper's estimate ({one})");
    Ok(Some(Promised {
        to,
        adversary: Adversary::IgnoresTheSecret,
        for_planning: true,
        estimate: Some((low, high)),
        guarantee: Guarantee {
            convention: Convention::Paper,
            ..row
        },
    }))
}

//! What is promised to whom.

use super::file::Recipe;
use super::subject::Subject;
use anyhow::Result;
use reticent_accounting::confidentiality::{LightNoise, Reach, Standing, selective_dp};
use reticent_accounting::{
    Bounds, Convention, Delta, Direction, Engine, Epsilon, Estimate, GroupSize, Guarantee,
    Mechanism, Method, Neighbours, Notion, PrivacyLoss, Query, Steps,
};
use serde::{Deserialize, Serialize};

/// Who the other side is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Adversary {
    /// Knows everything but the one thing in question, which it may know too.
    KnowsEverything,
    /// Does not know the secret, only how it is distributed.
    IgnoresTheSecret,
}

/// One promise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Promised {
    /// Whom or what it protects.
    pub to: String,
    /// Against whom.
    pub adversary: Adversary,
    /// Not to be signed: a planning aid or a number of the papers.
    pub for_planning: bool,
    /// Not even a bound: both ends of an estimate, in place of the guarantee's epsilon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<(Estimate<Epsilon>, Estimate<Epsilon>)>,
    /// The promise itself.
    pub guarantee: Guarantee,
}

/// ε at the plan's δ for one question, both ends.
pub(super) fn epsilon(
    subject: &Subject,
    mechanism: &Mechanism,
    query: Query,
    delta: Delta,
) -> Result<(Bounds<Epsilon>, Engine)> {
    let mut worst: Option<(Bounds<Epsilon>, Engine)> = None;
    let directions: &[Direction] = match query.neighbours {
        Neighbours::Replace => &[Direction::Remove],
        Neighbours::AddRemove | Neighbours::ZeroOut => &Direction::BOTH,
    };
    for direction in directions {
        let answer =
            PrivacyLoss::of(mechanism, query, *direction)?.epsilon(delta, subject.tolerance)?;
        let upper =
            |bounds: &Bounds<Epsilon>| bounds.upper.map_or(f64::INFINITY, |u| u.get().get());
        if worst.is_none_or(|(before, _)| upper(&before) < upper(&answer.bounds)) {
            worst = Some((answer.bounds, answer.engine));
        }
    }
    let nothing = Bounds::at_most(Epsilon::new(f64::INFINITY)?);
    Ok(worst.unwrap_or((nothing, Engine::Closed)))
}

pub(super) const fn query(neighbours: Neighbours, group: GroupSize) -> Query {
    Query { neighbours, group }
}

impl Subject {
    pub(super) fn row(&self, notion: Notion, neighbours: Neighbours, method: Method) -> Guarantee {
        Guarantee {
            delta: Some(self.delta),
            ..Guarantee::new(notion, neighbours, self.unit.clone(), method)
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

    /// ε of confidentiality for `records` records together, from the exact replace pair.
    pub(super) fn replaced(
        &self,
        records: GroupSize,
        delta: Delta,
    ) -> Result<(Bounds<Epsilon>, Engine)> {
        epsilon(
            self,
            &self.mechanism(),
            query(Neighbours::Replace, records),
            delta,
        )
    }
}

fn knows(to: String, guarantee: Guarantee) -> Promised {
    Promised {
        to,
        adversary: Adversary::KnowsEverything,
        for_planning: false,
        estimate: None,
        guarantee,
    }
}

fn in_records(subject: &Subject) -> String {
    match subject.records.get() {
        1 => format!("one {}", subject.unit),
        n => format!("{n} {}s together", subject.unit),
    }
}

/// Every promise, the headline first.
///
/// # Errors
/// A plan that can't be accounted.
pub fn promises(subject: &Subject) -> Result<Vec<Promised>> {
    match subject.recipe {
        Recipe::Sgd | Recipe::Dpsgd => everything(subject),
        Recipe::Crt => redacted(subject),
        Recipe::Sdp | Recipe::Jft => selective(subject),
    }
}

/// DP-SGD on every record: records, persons and contents.
fn everything(subject: &Subject) -> Result<Vec<Promised>> {
    let mechanism = subject.mechanism();
    let row = |notion, neighbours, group: GroupSize| -> Result<Guarantee> {
        let found = epsilon(subject, &mechanism, query(neighbours, group), subject.delta)?;
        Ok(subject.with_epsilon(subject.row(notion, neighbours, Method::Pld), group, found))
    };
    let unit = &subject.unit;
    let mut promises = vec![knows(
        format!("whoever is behind one {unit}"),
        row(Notion::Dp, Neighbours::AddRemove, GroupSize::ONE)?,
    )];
    if subject.records > GroupSize::ONE {
        promises.insert(
            0,
            knows(
                format!("whoever is behind {} {unit}s", subject.records.get()),
                row(Notion::GroupDp, Neighbours::AddRemove, subject.records)?,
            ),
        );
    }
    let notion = confidentiality(subject);
    promises.push(knows(
        format!("each secret in {}", in_records(subject)),
        row(notion, Neighbours::Replace, subject.records)?,
    ));
    Ok(promises)
}

fn confidentiality(subject: &Subject) -> Notion {
    if subject.records > GroupSize::ONE {
        Notion::GroupConfidentiality
    } else {
        Notion::Confidentiality
    }
}

/// CRT: each secret of this corpus, a random secret, all secrets at once.
fn redacted(subject: &Subject) -> Result<Vec<Promised>> {
    let mut promises = Vec::new();
    let worst = worst_secret(subject)?;
    let random = random_secret(subject)?;
    let infinite = worst
        .guarantee
        .epsilon
        .and_then(|e| e.upper)
        .is_none_or(|u| u.get().get().is_infinite());
    // The promise that says something leads.
    if infinite && random.is_some() {
        promises.extend(random);
        promises.push(worst);
    } else {
        promises.push(worst);
        promises.extend(random);
    }
    promises.extend(all_at_once(subject)?);
    promises.extend(strangers(subject)?);
    Ok(promises)
}

/// Theorem 8.1 for the worst secret: counted in the corpus, or whatever the conservative policy
/// flags when nobody counted.
fn worst_secret(subject: &Subject) -> Result<Promised> {
    let standing = match (subject.counted(), subject.everything_private) {
        (Some(facts), _) => facts.worst(),
        (None, true) => Standing::Missed { records: 1 },
        (None, false) => Standing::Exposed,
    };
    let row = subject.row(confidentiality(subject), Neighbours::Replace, Method::Pld);
    let zero = Epsilon::new(0.0)?;
    let found = match standing {
        Standing::Caught if subject.leak.is_none() => (Bounds::between(zero, zero), Engine::Closed),
        Standing::Exposed => (
            Bounds::at_most(Epsilon::new(f64::INFINITY)?),
            Engine::Closed,
        ),
        Standing::Caught | Standing::Missed { .. } => {
            subject.replaced(subject.records, subject.delta)?
        }
    };
    let which = match (subject.counted(), standing) {
        (Some(_), Standing::Caught) => "every secret of this corpus, each of them caught",
        (Some(_), Standing::Missed { .. }) => {
            "each secret of this corpus, missed by the policy or not"
        }
        (Some(_), Standing::Exposed) => {
            "each secret of this corpus, some of them trained on in the open"
        }
        (None, Standing::Exposed) => "each secret, whatever the policies missed",
        (None, _) => "each secret, missed by the policy or not",
    };
    Ok(knows(
        format!("{which} ({})", in_records(subject)),
        subject.with_epsilon(row, subject.records, found),
    ))
}

/// (ε, (γ−η)δ+η) for a secret drawn at random, against one who may know it.
fn random_secret(subject: &Subject) -> Result<Option<Promised>> {
    let Some(rates) = &subject.rates else {
        return Ok(None);
    };
    let redaction = rates.redaction;
    let found = match redaction.base_delta(subject.delta) {
        Some(delta) => {
            let (bounds, engine) = subject.replaced(subject.records, delta)?;
            // Whether missing depends on the secret is unknown: no lower end.
            (
                Bounds {
                    lower: None,
                    upper: bounds.upper,
                },
                engine,
            )
        }
        None => (
            Bounds::at_most(Epsilon::new(f64::INFINITY)?),
            Engine::Closed,
        ),
    };
    let row = subject.row(confidentiality(subject), Neighbours::Replace, Method::Pld);
    let row = subject.with_epsilon(row, subject.records, found);
    Ok(Some(knows(
        format!("a secret drawn at random ({})", in_records(subject)),
        with_rates(subject, row),
    )))
}

fn with_rates(subject: &Subject, row: Guarantee) -> Guarantee {
    let Some(rates) = &subject.rates else {
        return row;
    };
    let eta = rates.redaction.missed_by_both();
    Guarantee {
        gamma: Some(rates.redaction.miss()),
        missed_by_both: (eta.get() > 0.0).then_some(eta),
        confidence: rates.measured.as_ref().map(|(_, found)| found.confidence),
        ..row
    }
}

/// All secrets against their masks at once, where misses were counted.
fn all_at_once(subject: &Subject) -> Result<Option<Promised>> {
    let Some(facts) = subject.counted().filter(|facts| facts.missed() > 1) else {
        return Ok(None);
    };
    let Reach::Records(records) = facts.reach_of_all() else {
        return Ok(None);
    };
    let found = subject.replaced(records, subject.delta)?;
    let row = subject.row(
        Notion::GroupConfidentiality,
        Neighbours::Replace,
        Method::Pld,
    );
    let to = format!(
        "all {} missed secrets at once ({} {}s at most)",
        facts.missed(),
        records.get(),
        subject.unit
    );
    Ok(Some(knows(to, subject.with_epsilon(row, records, found))))
}

/// ε' for planning, by definition and as the papers computed it.
fn strangers(subject: &Subject) -> Result<Vec<Promised>> {
    let Some(rates) = &subject.rates else {
        return Ok(Vec::new());
    };
    if subject.leak.is_some() {
        return Ok(Vec::new());
    }
    let mut rows = Vec::new();
    for (convention, neighbours) in [
        (Convention::Definition, Neighbours::Replace),
        (Convention::Paper, Neighbours::AddRemove),
    ] {
        let asked = query(neighbours, subject.records);
        let mechanism = subject.mechanism();
        let with = PrivacyLoss::of(&mechanism, asked, Direction::Remove)?;
        let without = PrivacyLoss::of(&mechanism, asked, Direction::Add)?;
        let found =
            rates
                .redaction
                .exact_epsilon(&with, &without, subject.delta, subject.tolerance)?;
        let row = subject.row(Notion::BayesianConfidentiality, neighbours, Method::Pld);
        let row = subject.with_epsilon(row, subject.records, (found.bounds, found.engine));
        rows.push(Promised {
            to: format!("a secret drawn at random ({})", in_records(subject)),
            adversary: Adversary::IgnoresTheSecret,
            for_planning: true,
            estimate: None,
            guarantee: with_rates(subject, Guarantee { convention, ..row }),
        });
    }
    Ok(rows)
}

/// S-DP and JFT: one content of a secret against another.
fn selective(subject: &Subject) -> Result<Vec<Promised>> {
    let row = subject.row(Notion::SelectiveDp, Neighbours::Replace, Method::Pld);
    let found = match (subject.recipe, &subject.facts) {
        (Recipe::Sdp, Some(facts)) => {
            let found = selective_dp(
                facts,
                &subject.mechanism(),
                subject.delta,
                subject.tolerance,
            )?;
            (found, Engine::Contour)
        }
        (Recipe::Sdp, None)
            if subject
                .rates
                .as_ref()
                .is_some_and(|r| r.redaction.miss().get() > 0.0) =>
        {
            (
                Bounds::at_most(Epsilon::new(f64::INFINITY)?),
                Engine::Closed,
            )
        }
        _ => subject.replaced(subject.records, subject.delta)?,
    };
    let mut promises = vec![knows(
        format!(
            "each secret in {}, against any other content it could have",
            in_records(subject)
        ),
        subject.with_epsilon(row, subject.records, found),
    )];
    promises.extend(light_noise(subject)?);
    Ok(promises)
}

/// JFT's estimate for a lightly noised first phase, at the upper end of the interval; never a bound.
fn light_noise(subject: &Subject) -> Result<Option<Promised>> {
    let phase = subject.first_phase.as_ref();
    let Some((sigma, rate, steps, miss)) =
        phase.and_then(|p| Some((p.sigma?, p.sample_rate?, p.steps?, p.miss?)))
    else {
        return Ok(None);
    };
    let light = LightNoise {
        noise_multiplier: sigma,
        sampling_rate: rate,
        steps: Steps::new(steps),
        miss,
    };
    let (low, high) = light.epsilon(subject.delta, subject.tolerance)?;
    let row = subject.row(Notion::SelectiveDp, Neighbours::Replace, Method::Pld);
    let to = "the first phase alone, by the paper's estimate".to_owned();
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

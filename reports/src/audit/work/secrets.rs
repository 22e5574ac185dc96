//! `audit extract --secrets`: secrets among fresh candidates, against what is promised of each.

use super::membership::{framed, watched};
use super::opened::Opened;
use super::perplexity::BATCH_TOKENS;
use crate::account::protect::weights::Weights;
use crate::audit::cli::Extract as Asked;
use crate::audit::extract::{Drawn, PromisedSecrets, SecretsReport, Source};
use crate::contract::{Interrupt, json_problem};
use crate::verdict::{FALSE_ALARM, Measurement, Mistake, Power, Promise, Terms, judge};
use anyhow::{Context, Result, anyhow, bail, ensure};
use reticent_accounting::protect::Secret;
use reticent_accounting::training::{Recipe, Run, TrainingPlan};
use reticent_accounting::{
    Delta, Estimate, Neighbours, NoiseMultiplier, Notion, Probability, UnitName, Upper,
};
use reticent_attacks::{PromiseTest, RankAudit, SecretCase, SecretShape, reconstruct};
use reticent_backends::Manifest;
use reticent_corpus::{TokenId, Tokenizer};
use serde::Deserialize;
use std::collections::{BTreeSet, HashMap};

/// Candidates of each secret that is drawn, where nobody says how many.
pub(super) const CANDIDATES: u64 = 1000;

/// One line of a file of secrets.
#[derive(Debug, Deserialize)]
struct Line {
    id: String,
    context: String,
    secret: String,
    candidates: Option<Vec<String>>,
    shape: Option<String>,
    prior: Option<f64>,
    posterior: Option<f64>,
}

/// A secret with its candidates and what is promised of it.
struct Listed {
    id: String,
    context: Vec<TokenId>,
    secret: Vec<TokenId>,
    candidates: Vec<Vec<TokenId>>,
    promise: Secret,
}

/// What holds of one promise (p, r): a guess of mass `prior` is right with probability `at_most`.
struct Bound {
    promise: Secret,
    prior: Probability,
    at_most: Upper<Probability>,
    source: Source,
    /// Why nothing is promised.
    why: Option<String>,
    records: u64,
}

pub(super) fn measured(
    asked: &Asked,
    model: &mut Opened,
    interrupt: &Interrupt,
) -> Result<Option<SecretsReport>> {
    let Some(path) = &asked.secrets else {
        return Ok(None);
    };
    let weights = match &asked.weights {
        Some(path) => Some(promises(&Weights::read(path).context("--weights")?)?),
        None => None,
    };
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("--secrets: cannot read {}", path.display()))?;
    let count = asked.candidates.unwrap_or(CANDIDATES);
    let (mut secrets, mut drawn, mut seen) = (Vec::new(), false, BTreeSet::new());
    let lines = text.lines().enumerate();
    for (number, line) in lines.filter(|(_, l)| !l.trim().is_empty()) {
        let place = || format!("--secrets: {}, line {}", path.display(), number + 1);
        let line: Line = serde_json::from_str(line)
            .map_err(|error| anyhow!("{}: {}", place(), json_problem(&error)))?;
        ensure!(
            seen.insert(line.id.clone()),
            "{}: id {:?} occurred before; ids must be unique",
            place(),
            line.id
        );
        drawn |= line.shape.is_some();
        let promise = promise(&line, weights.as_ref()).with_context(place)?;
        let candidates = candidates(&line, count, asked.candidate_seed).with_context(place)?;
        secrets.push(tokens(line, candidates, promise, &model.tokenizer).with_context(place)?);
    }
    let bounds = bounds(&secrets, model).context("--secrets")?;
    let cases: Vec<SecretCase> = secrets
        .into_iter()
        .map(|secret| {
            let bound = bounds.iter().find(|bound| bound.promise == secret.promise);
            let bound = bound.context("a secret without a promise")?;
            Ok(SecretCase {
                id: secret.id,
                context: secret.context,
                secret: secret.secret,
                candidates: secret.candidates,
                prior: bound.prior.get(),
                posterior: bound.at_most.get().get(),
            })
        })
        .collect::<Result<_>>()?;
    let found = reconstruct(
        model.scorer(),
        &cases,
        FALSE_ALARM,
        BATCH_TOKENS,
        &mut watched("ranking secrets", interrupt),
    );
    interrupt.check()?;
    let found = found.context("--secrets")?;
    let plan = model.manifest.as_ref().map(Manifest::planned).transpose()?;
    let by_promise = found
        .promises
        .iter()
        .map(|test| met(test, &bounds, plan.as_ref(), &model.name))
        .collect::<Result<_>>()?;
    Ok(Some(SecretsReport {
        found,
        drawn: drawn.then_some(Drawn {
            candidates: count,
            seed: asked.candidate_seed,
        }),
        by_promise,
        manifest: model.caveat(),
    }))
}

/// What a file of weights promises, by id.
fn promises(weights: &Weights) -> Result<HashMap<String, Secret>> {
    let each = weights.secrets.iter();
    each.map(|(id, prior, posterior)| Ok((id.clone(), Secret::new(*prior, *posterior)?)))
        .collect()
}

fn promise(line: &Line, weights: Option<&HashMap<String, Secret>>) -> Result<Secret> {
    let stated = match (line.prior, line.posterior) {
        (Some(prior), Some(posterior)) => Some(Secret::new(
            Probability::new(prior)?,
            Probability::new(posterior)?,
        )?),
        (None, None) => None,
        _ => bail!("prior and posterior must both be given, or neither"),
    };
    let certified = match weights {
        Some(weights) => Some(*weights.get(&line.id).with_context(|| {
            format!(
                "id {:?} is no secret of --weights: nothing was promised of it",
                line.id
            )
        })?),
        None => None,
    };
    match (certified, stated) {
        (Some(certified), Some(stated)) if certified != stated => {
            bail!(
                "id {:?}: prior and posterior are not those of --weights; leave them out",
                line.id
            )
        }
        (Some(found), _) | (None, Some(found)) => Ok(found),
        (None, None) => bail!(
            "id {:?}: prior and posterior are missing; give them, or --weights",
            line.id
        ),
    }
}

fn candidates(line: &Line, count: u64, seed: u64) -> Result<Vec<String>> {
    match (&line.candidates, &line.shape) {
        (Some(listed), None) => Ok(listed.clone()),
        (None, Some(shape)) => {
            let shape: SecretShape = shape.parse()?;
            Ok(shape.candidates(&line.secret, &line.id, count, seed)?)
        }
        _ => bail!(
            "id {:?}: either candidates or a shape must be given",
            line.id
        ),
    }
}

/// The tokens that all readings share are the context; each candidate keeps its own, so that
/// tokens that reach over the boundary count where they differ.
fn tokens(
    line: Line,
    candidates: Vec<String>,
    promise: Secret,
    tokenizer: &Tokenizer,
) -> Result<Listed> {
    let read = |what: &str| -> Result<Vec<TokenId>> {
        Ok(framed(tokenizer, &format!("{}{what}", line.context), true)?)
    };
    let own = read(&line.secret)?;
    let all = candidates
        .iter()
        .map(|c| read(c))
        .collect::<Result<Vec<_>>>()?;
    let shortest = all.iter().chain([&own]).map(Vec::len).min().unwrap_or(0);
    let shared = (0..shortest.saturating_sub(1))
        .take_while(|&i| all.iter().all(|tokens| tokens[i] == own[i]))
        .count();
    Ok(Listed {
        id: line.id,
        context: own[..shared].to_vec(),
        secret: own[shared..].to_vec(),
        candidates: all.iter().map(|tokens| tokens[shared..].to_vec()).collect(),
        promise,
    })
}

/// What holds of each promise in the file: of a run of `protect` its own certificate, at the chance
/// with which one guess among the candidates is right; otherwise the promise as it was given.
fn bounds(secrets: &[Listed], model: &Opened) -> Result<Vec<Bound>> {
    let plan = model.manifest.as_ref().map(Manifest::planned).transpose()?;
    let protects = |plan: &&TrainingPlan| plan.run.recipe() == Some(Recipe::Protect);
    let of_run = plan.as_ref().filter(protects);
    let mut found: Vec<Bound> = Vec::new();
    for secret in secrets {
        let promise = secret.promise;
        if found.iter().any(|bound| bound.promise == promise) {
            continue;
        }
        let same = secrets.iter().filter(|other| other.promise == promise);
        let least = same.clone().map(|other| other.candidates.len()).min();
        let bound = match (&model.unknown_origin, of_run) {
            (Some(why), _) => Bound::none(promise, least, why),
            (None, None) => Bound {
                promise,
                prior: promise.prior(),
                at_most: Upper::new(promise.posterior()),
                source: Source::Stated,
                why: None,
                records: 1,
            },
            (None, Some(plan)) => Bound::of(promise, least, same.count() as u64, plan)?,
        };
        found.push(bound);
    }
    Ok(found)
}

/// The mass of one guess: p, or that of a single candidate where this is more.
fn mass(promise: Secret, candidates: Option<usize>) -> Result<Probability> {
    let single = 1.0 / candidates.unwrap_or(1).max(1) as f64;
    Ok(Probability::new(promise.prior().get().max(single))?)
}

impl Bound {
    /// Nothing is promised: every guess may be right.
    fn none(promise: Secret, candidates: Option<usize>, why: &str) -> Self {
        Self {
            promise,
            prior: mass(promise, candidates).unwrap_or(Probability::ONE),
            at_most: Upper::new(Probability::ONE),
            source: Source::Nothing,
            why: Some(why.to_owned()),
            records: 1,
        }
    }

    /// What a run of `protect` certifies.
    fn of(
        promise: Secret,
        candidates: Option<usize>,
        secrets: u64,
        plan: &TrainingPlan,
    ) -> Result<Self> {
        if let Some(why) = plan.unprotected() {
            return Ok(Self::none(promise, candidates, &why));
        }
        if plan.continues.is_some() {
            let why = "an earlier run on the same records is not in the certificate";
            return Ok(Self::none(promise, candidates, why));
        }
        let Run::Protect { weighted } = &plan.run else {
            bail!("the run is none of protect");
        };
        let Some(certified) = &weighted.secrets else {
            let why = "its manifest, of an earlier version, certifies no secret";
            return Ok(Self::none(promise, candidates, why));
        };
        let classes = certified.classes().iter();
        let classes = classes.filter(|class| class.promise == promise);
        let promised: u64 = classes.clone().map(|class| class.secrets).sum();
        ensure!(
            secrets <= promised,
            "{secrets} secrets with the promise ({}, {}), and the run has {promised} such secrets",
            promise.prior().get(),
            promise.posterior().get()
        );
        let prior = mass(promise, candidates)?;
        let at_most = plan.secret_posterior_at(prior)?;
        Ok(Self {
            promise,
            prior,
            at_most: at_most.context("the run certifies no secret")?,
            source: Source::Certified,
            why: None,
            records: classes.map(|c| certified.records_of(c)).max().unwrap_or(1),
        })
    }
}

/// What was measured of secrets with one bound meets that bound in one verdict.
fn met(
    test: &PromiseTest,
    bounds: &[Bound],
    plan: Option<&TrainingPlan>,
    released: &str,
) -> Result<PromisedSecrets> {
    let held = |bound: &&Bound| {
        (bound.prior.get(), bound.at_most.get().get()) == (test.prior, test.posterior)
    };
    let promised = bounds.iter().filter(held).map(|bound| bound.promise);
    let promised = promised.map(|p| (p.prior(), p.posterior())).collect();
    let bound = bounds.iter().find(held);
    let bound = bound.context("a test without a promise")?;
    let shown = |verdict, no_verdict| PromisedSecrets {
        promised,
        source: bound.source,
        test: *test,
        verdict,
        no_verdict,
    };
    if let Some(why) = &bound.why {
        return Ok(shown(None, Some(format!("nothing was promised: {why}"))));
    }
    let terms = Terms {
        released: released.to_owned(),
        notion: Notion::SecretProtection,
        neighbours: Neighbours::ZeroOut,
        unit: UnitName::new("secret")?,
        delta: Delta::new(0.0)?,
        group: bound.records,
        prior: Some(bound.prior),
    };
    let anything = Upper::new(Probability::ONE);
    let promise = Promise {
        terms: terms.clone(),
        at_most: bound.at_most,
        mistakes: vec![
            (Mistake::NoiseOrClipping, anything),
            (Mistake::UncountedCopies, anything),
            (Mistake::SamplingRate, anything),
        ],
    };
    let measured = Measurement {
        terms,
        at_least: test.at_least,
        false_alarm: Probability::new(test.false_alarm)?,
        provable: test.provable,
        power: match plan.filter(|_| test.provable.get() > bound.at_most.get()) {
            Some(plan) => power(test, bound, plan)?,
            None => Vec::new(),
        },
    };
    Ok(shown(Some(judge(&promise, &measured)?), None))
}

/// How likely the secrets would contradict their certificate, had less noise been added: each is hit
/// with the largest chance there is, independently of the others.
fn power(test: &PromiseTest, bound: &Bound, plan: &TrainingPlan) -> Result<Vec<Power>> {
    let Run::Protect { weighted } = &plan.run else {
        return Ok(Vec::new());
    };
    let all = test.secrets as f64;
    let needed = (1..=test.secrets)
        .find(|hits| test.false_alarm * *hits as f64 / all > bound.at_most.get().get());
    let (Some(needed), Some(certified)) = (needed, &weighted.secrets) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for noise in [0.0, 0.25, 0.5, 0.75] {
        let each = if noise > 0.0 {
            let weaker = NoiseMultiplier::new(noise * weighted.noise_multiplier.get())?;
            *certified
                .posterior_at(bound.prior, weaker, *weighted.steps)?
                .get()
        } else {
            Probability::ONE
        };
        let chance: Estimate<Probability> = RankAudit::chance_of(needed, test.secrets, each);
        found.push(Power { noise, chance });
    }
    Ok(found)
}

#[cfg(test)]
mod tests;

//! `audit extract --secrets`: ranks secrets among fresh candidates and compares the result with their promises.

use crate::account::protect::weights::Weights;
use crate::audit::args::{Extract as Args, Source as AuditedSource};
use crate::audit::coins::Inclusion;
use crate::audit::extract::{Drawn, PromisedSecrets, SecretsReport, Source};
use crate::audit::loaded_model::LoadedModel;
use crate::audit::membership::run::watched;
use crate::audit::perplexity::run::BATCH_TOKENS;
use crate::audit::power::at_each_share;
use crate::audit::training_text::occurring;
use crate::contract::{Interrupt, json_problem};
use crate::number::{count_of, grouped, nearest};
use crate::verdict::{FALSE_ALARM, Measurement, Mistake, Power, Promise, Terms, judge, split};
use anyhow::{Context, Result, anyhow, bail, ensure};
use reticent_accounting::protect::Secret;
use reticent_accounting::training::{Recipe, Run, TrainingPlan};
use reticent_accounting::{
    Delta, Neighbours, NoiseMultiplier, Notion, Probability, UnitName, Upper,
};
use reticent_attacks::exposure::{CeilingOutcome, RankAudit};
use reticent_attacks::extract::{PromiseTest, SecretCase, SecretShape, reconstruct};
use reticent_backends::checkpoint::Owner;
use reticent_corpus::TokenId;
use reticent_corpus::tokenize::Tokenizer;
use reticent_disk::folded_word;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

/// The most candidates that advice suggests, as a power of ten.
const MOST_CANDIDATES: u32 = 6;

/// The default number of candidates that are drawn for each secret: of 1000 none is so unlikely that a hit could contradict a
/// promise at the false-alarm rate of a verdict.
pub(in crate::audit) const CANDIDATES: u64 = 10_000;

/// A secret that is drawn with less than this probability is not taken for one that training met.
const LIKELY_DRAWN: f64 = 0.5;

/// One line of a file of secrets.
#[derive(Debug, Deserialize, JsonSchema)]
struct Line {
    id: String,
    context: String,
    secret: String,
    candidates: Option<Vec<String>>,
    shape: Option<String>,
    prior: Option<f64>,
    posterior: Option<f64>,
}

/// A secret with its candidates and its promise.
struct Listed {
    /// Its line in the file, counted from 1.
    line: usize,
    id: String,
    /// The context and the secret, as training met them.
    text: String,
    /// The secret alone, alike in whatever spelling.
    word: String,
    context: Vec<TokenId>,
    secret: Vec<TokenId>,
    candidates: Vec<Vec<TokenId>>,
    promised: Promised,
    /// The number of candidates that it can have.
    most: u128,
}

/// The promise for a secret, and its class in the certificate if the weights state it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Promised {
    promise: Secret,
    class: Option<usize>,
}

/// The bound for one promise (p, r): a guess of mass `prior` is right with probability `at_most`.
struct Bound {
    promise: Secret,
    prior: Probability,
    /// The bound for a secret whose class is unknown.
    at_most: Upper<Probability>,
    /// The classes of the certificate with this promise.
    classes: Vec<Class>,
    source: Source,
    /// Why nothing is promised.
    why: Option<String>,
    records: u64,
    /// The number of candidates that each of its secrets can have.
    most: u128,
}

/// A class of the certificate.
struct Class {
    number: usize,
    /// The bound for its secrets.
    at_most: Upper<Probability>,
    /// Whether training is likely to have drawn a record of each of them.
    is_drawn: bool,
}

/// How many secrets of a promise training is known to have met.
#[derive(Debug, Clone, Copy, Default)]
struct Met {
    /// They occur in the text of `--training`.
    occur: u64,
    /// Of these, a record is likely drawn.
    drawn: u64,
}

/// `others`: the number of verdicts of the same document that are about something else.
pub(in crate::audit) fn measured(
    args: &Args,
    others: usize,
    model: &mut LoadedModel,
    interrupt: &Interrupt,
) -> Result<Option<SecretsReport>> {
    let Some(path) = &args.secrets else {
        return Ok(None);
    };
    let plan = model
        .manifest
        .as_ref()
        .map(|manifest| manifest.plan.clone());
    let weights = match &args.weights {
        Some(path) => {
            let checkpoint = match args.of.source() {
                Ok(AuditedSource::Folder(folder)) => Some(folder),
                _ => None,
            };
            let found = promises(path, plan.as_ref(), checkpoint.as_deref());
            Some(found.context("--weights")?)
        }
        None => None,
    };
    let text = crate::contract::read_named_text(path).context("--secrets")?;
    let count = args.candidates.unwrap_or(CANDIDATES);
    let (mut secrets, mut drawn) = (Vec::new(), false);
    let mut seen: HashMap<String, String> = HashMap::new();
    let lines = (1..).zip(text.lines());
    let place = |number: usize| format!("--secrets: {}, line {number}", path.display());
    for (number, line) in lines.filter(|(_, l)| !l.trim().is_empty()) {
        let place = || place(number);
        let line: Line = serde_json::from_str(line)
            .map_err(|error| anyhow!("{}: {}", place(), json_problem(&error)))?;
        let word = folded_word(&line.secret, true);
        ensure!(
            *seen.entry(line.id.clone()).or_insert_with(|| word.clone()) == word,
            "{}: its id occurred before with another secret; only one secret in several contexts may repeat its id",
            place()
        );
        drawn |= line.shape.is_some();
        let promised = promised(&line, weights.as_ref()).with_context(place)?;
        let candidates = candidates(&line, count, args.candidate_seed).with_context(place)?;
        let listed = tokens((number, line), candidates, promised, &model.tokenizer);
        secrets.push(listed.with_context(place)?);
    }
    let texts: Vec<&str> = secrets.iter().map(|listed| listed.text.as_str()).collect();
    let found = args.training.as_deref();
    let found = found.map(|path| occurring(path, &args.text, &texts, &args.of, model));
    let found = found.transpose().context("--training")?;
    let (inclusion, occurs) = match found {
        Some((inclusion, occurs)) => (inclusion, occurs),
        None => (Inclusion::NotChecked, vec![false; secrets.len()]),
    };
    let unknown_origin = model.unknown_origin.as_deref();
    let run = plan.as_ref().map(|plan| (plan, args.weights.is_some()));
    let bounds = bounds(&secrets, run, unknown_origin).context("--secrets")?;
    let mut classes: Vec<Vec<Option<usize>>> = vec![Vec::new(); bounds.len()];
    let mut included = vec![Met::default(); bounds.len()];
    let mut cases = Vec::with_capacity(secrets.len());
    let mut numbers = HashMap::new();
    for (secret, occurs) in secrets.into_iter().zip(occurs) {
        let Promised { promise, class } = secret.promised;
        let group = bounds.iter().position(|bound| bound.promise == promise);
        let group = group.context("a secret without a promise")?;
        classes[group].push(class);
        let drawn = occurs && bounds[group].is_drawn(class);
        included[group].occur += u64::from(occurs);
        included[group].drawn += u64::from(drawn);
        let next = numbers.len();
        let number = *numbers.entry(secret.word).or_insert(next);
        let case = SecretCase {
            id: secret.id,
            context: secret.context,
            secret: secret.secret,
            candidates: secret.candidates,
            prior: bounds[group].prior.get(),
            posterior: bounds[group].of_class(class).get().get(),
            group,
            number,
        };
        case.check().with_context(|| place(secret.line))?;
        cases.push(case);
    }
    let found = reconstruct(
        model.scorer(),
        &cases,
        split(Probability::new(FALSE_ALARM)?, others + 1).get(),
        BATCH_TOKENS,
        &mut watched("ranking secrets", interrupt),
    );
    let mut found = interrupt.unless_raised(found.context("--secrets"))?;
    let ours = model.manifest.is_some();
    let each = found.promises.iter().zip(bounds.iter().zip(&classes));
    let by_promise = each
        .zip(&included)
        .map(|((test, bound), included)| {
            let met = met(test, bound, plan.as_ref(), &model.name)?;
            Ok(met.unsupported(leaves_standing(inclusion, *included, test, ours)))
        })
        .collect::<Result<Vec<_>>>()?;
    if found.outcome == CeilingOutcome::NotContradicted
        && !by_promise.iter().any(PromisedSecrets::could_contradict)
    {
        found.outcome = CeilingOutcome::CouldNotContradict;
    }
    Ok(Some(SecretsReport {
        ranks: args.show_ranks.then(|| found.ranks.clone()),
        found,
        drawn: drawn.then_some(Drawn {
            candidates: count,
            seed: args.candidate_seed,
        }),
        by_promise,
        manifest: model.caveat(),
        inclusion,
        included: (inclusion != Inclusion::NotChecked)
            .then(|| included.iter().map(|met| met.occur).sum()),
    }))
}

/// Returns why the ranks of a promise's secrets can't support it, although they can contradict it: they would look the same
/// whatever the model reveals. `ours`: whether what ran is read from the checkpoint.
fn leaves_standing(
    inclusion: Inclusion,
    included: Met,
    test: &PromiseTest,
    ours: bool,
) -> Option<String> {
    if test.alike {
        return Some("each secret ties with all its candidates, which tells nothing".to_owned());
    }
    match inclusion {
        Inclusion::NotChecked => Some(
            "secrets that training is not known to have met leave every promise standing: give --training".to_owned(),
        ),
        _ if included.occur < test.secrets => Some(format!(
            "{} of them don't occur behind their contexts in the text of --training, and leave every promise standing",
            grouped(test.secrets - included.occur)
        )),
        _ if included.drawn < test.secrets => Some(format!(
            "by the certificate, {} of them are not known to have a record drawn with probability {LIKELY_DRAWN} or more, and leave every promise standing",
            grouped(test.secrets - included.drawn)
        )),
        Inclusion::GivenText if ours => Some(
            "it is not known that this checkpoint was trained on the text of --training and on nothing before it, so that the secrets may leave every promise standing: name its prepared folder, beside its owner's key".to_owned(),
        ),
        Inclusion::GivenText | Inclusion::TrainedRecords => None,
    }
}

/// Reads the promises of a file of weights, by id. The file must belong to the run, unless the run promises
/// nothing. The class of a secret is trusted only if the owner of the run confirms it.
fn promises(
    path: &Path,
    plan: Option<&TrainingPlan>,
    checkpoint: Option<&Path>,
) -> Result<HashMap<String, Promised>> {
    let weights = Weights::read(path)?;
    let mut confirmed = false;
    if let Some(Run::Protect { weighted }) = plan.map(|plan| &plan.run)
        && plan.is_some_and(|plan| plan.unprotected().is_none())
    {
        let owner = checkpoint.and_then(|folder| Owner::open(folder).ok());
        let assignment = weights.assignment()?;
        let kept = owner.map(|owner| owner.kept_secrets(&assignment));
        let kept = kept.transpose()?.flatten();
        if weighted.secrets.as_ref() != Some(&weights.certified) || kept == Some(false) {
            bail!(
                "{}: was certified for another run than that of --model; give the file used in training, \
                 or prior and posterior of each secret",
                path.display()
            );
        }
        confirmed = kept == Some(true);
    }
    let each = weights.secrets.into_iter();
    each.map(|(id, prior, posterior, class)| {
        let promised = Promised {
            promise: Secret::new(prior, posterior)?,
            class: confirmed.then_some(class),
        };
        Ok((id, promised))
    })
    .collect()
}

fn promised(line: &Line, weights: Option<&HashMap<String, Promised>>) -> Result<Promised> {
    let stated = match (line.prior, line.posterior) {
        (Some(prior), Some(posterior)) => Some(Secret::new(
            Probability::new(prior)?,
            Probability::new(posterior)?,
        )?),
        (None, None) => None,
        _ => bail!("prior and posterior must both be given, or neither"),
    };
    let none = "its id is no secret of --weights: nothing was promised of it";
    let certified = weights.map(|weights| weights.get(&line.id).copied().context(none));
    let certified = certified.transpose()?;
    match (certified, stated) {
        (Some(certified), Some(stated)) if certified.promise != stated => {
            bail!("prior and posterior are not those of --weights; leave them out")
        }
        (Some(found), _) => Ok(found),
        (None, Some(promise)) => Ok(Promised {
            promise,
            class: None,
        }),
        (None, None) => bail!("prior and posterior are missing; give them, or --weights"),
    }
}

/// Returns the candidates, and how many there could be.
fn candidates(line: &Line, count: u64, seed: u64) -> Result<(Vec<String>, u128)> {
    match (&line.candidates, &line.shape) {
        (Some(listed), None) => Ok((listed.clone(), listed.len() as u128)),
        (None, Some(shape)) => {
            let shape: SecretShape = shape.parse()?;
            let drawn = shape.candidates(&line.secret, &line.id, count, seed)?;
            Ok((drawn, shape.texts()))
        }
        _ => bail!("either candidates or a shape must be given"),
    }
}

/// Tokenises a line. The tokens that all candidates share are the context; each candidate keeps the others, so that
/// tokens across the boundary count where they differ.
fn tokens(
    (number, line): (usize, Line),
    (candidates, most): (Vec<String>, u128),
    promised: Promised,
    tokenizer: &Tokenizer,
) -> Result<Listed> {
    let text = |what: &str| format!("{}{what}", line.context);
    let read = |what: &str| -> Result<Vec<TokenId>> {
        let mut tokens = tokenizer.frame(&text(what))?;
        if tokens.len() > 2 {
            tokens.pop();
        }
        Ok(tokens)
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
        line: number,
        text: text(&line.secret),
        word: folded_word(&line.secret, true),
        id: line.id,
        context: own[..shared].to_vec(),
        secret: own[shared..].to_vec(),
        candidates: all.iter().map(|tokens| tokens[shared..].to_vec()).collect(),
        promised,
        most,
    })
}

/// Returns the bound for each promise in the file. For a run of `protect`, it is the run's own certificate, for the
/// probability that one guess among the candidates is right. Otherwise it is the promise as given; for another run,
/// only if no file of weights gave it. `run`: the plan that ran, and whether a file of weights gave the promises.
fn bounds(
    secrets: &[Listed],
    run: Option<(&TrainingPlan, bool)>,
    unknown_origin: Option<&str>,
) -> Result<Vec<Bound>> {
    let protects = |plan: &TrainingPlan| plan.run.recipe() == Some(Recipe::Protect);
    let mut found: Vec<Bound> = Vec::new();
    for secret in secrets {
        let promise = secret.promised.promise;
        if found.iter().any(|bound| bound.promise == promise) {
            continue;
        }
        let same = |other: &&Listed| other.promised.promise == promise;
        let same = secrets.iter().filter(same);
        let least = same.clone().map(|other| other.candidates.len()).min();
        let words: BTreeSet<&str> = same.clone().map(|other| &*other.word).collect();
        let mut bound = match (unknown_origin, run) {
            (Some(why), _) => Bound::none(promise, least, why),
            (None, Some((plan, _))) if protects(plan) => {
                Bound::of(promise, least, words.len() as u64, plan)?
            }
            (None, Some((_, true))) => {
                let why = "the model was not trained by --recipe protect, which alone keeps what --weights promises";
                Bound::none(promise, least, why)
            }
            (None, Some((_, false)) | None) => Bound::stated(promise),
        };
        bound.most = same.map(|other| other.most).min().unwrap_or(0);
        found.push(bound);
    }
    Ok(found)
}

/// Returns the mass of one guess: p, or that of a single candidate if it is larger.
fn mass(promise: Secret, candidates: Option<usize>) -> Result<Probability> {
    let single = 1.0 / candidates.unwrap_or(1).max(1) as f64;
    Ok(Probability::new(promise.prior().get().max(single))?)
}

impl Bound {
    /// Returns the bound if nothing is promised: every guess may be right.
    fn none(promise: Secret, candidates: Option<usize>, why: &str) -> Self {
        Self {
            prior: mass(promise, candidates).unwrap_or(Probability::ONE),
            at_most: Upper::new(Probability::ONE),
            source: Source::Nothing,
            why: Some(why.to_owned()),
            ..Self::stated(promise)
        }
    }

    /// Returns the bound of a promise as it is stated.
    fn stated(promise: Secret) -> Self {
        Self {
            promise,
            prior: promise.prior(),
            at_most: Upper::new(promise.posterior()),
            classes: Vec::new(),
            source: Source::Stated,
            why: None,
            records: 1,
            most: 0,
        }
    }

    /// Returns the bound that a run of `protect` certifies.
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
            bail!("the run is not of protect");
        };
        let Some(certified) = &weighted.secrets else {
            let why = "its manifest certifies no secret";
            return Ok(Self::none(promise, candidates, why));
        };
        let prior = mass(promise, candidates)?;
        let drawn = certified.drawn_at_least(*weighted.steps)?;
        let each = plan.secret_posteriors_at(prior)?.into_iter().zip(drawn);
        let each = each.enumerate();
        let each = each.filter(|(_, ((class, _), _))| class.promise == promise);
        let (mut classes, mut promised, mut records) = (Vec::new(), 0, 1);
        for (number, ((class, at_most), drawn)) in each {
            classes.push(Class {
                number,
                at_most,
                is_drawn: drawn.get().get() >= LIKELY_DRAWN,
            });
            promised += class.secrets;
            records = records.max(certified.records_drawn(&class));
        }
        ensure!(
            secrets <= promised,
            "{} with the promise ({}, {}), and the run has {}",
            count_of(secrets, "secret"),
            promise.prior().get(),
            promise.posterior().get(),
            count_of(promised, "such secret")
        );
        let largest = classes.iter().map(|class| class.at_most);
        let largest = largest.reduce(|a, b| if a.get() > b.get() { a } else { b });
        Ok(Self {
            prior,
            at_most: largest.context("the run certifies no secret")?,
            classes,
            source: Source::Certified,
            records,
            ..Self::stated(promise)
        })
    }

    /// Returns the mean over secrets of these classes, given the probability for each class of the run.
    fn mean(&self, classes: &[Option<usize>], all: &[Upper<Probability>]) -> Result<Probability> {
        let chance = |class: usize| all[class].get().get();
        let largest = self.classes.iter().map(|class| chance(class.number));
        let largest = largest.fold(0.0, f64::max);
        let each = classes.iter().map(|class| class.map_or(largest, chance));
        Ok(Probability::new(each.sum::<f64>() / classes.len() as f64)?)
    }

    /// Returns the bound for a secret of this class.
    fn of_class(&self, class: Option<usize>) -> Upper<Probability> {
        let own = self.classes.iter().find(|own| Some(own.number) == class);
        own.map_or(self.at_most, |own| own.at_most)
    }

    /// Returns whether training is likely to have drawn a record of a secret of this class; of an unknown one, if it is of every
    /// class with this promise.
    fn is_drawn(&self, class: Option<usize>) -> bool {
        match self.classes.iter().find(|own| Some(own.number) == class) {
            Some(own) => own.is_drawn,
            None => self.classes.iter().all(|class| class.is_drawn),
        }
    }
}

/// Compares the measurement for the secrets of one promise with the mean of their bounds, in one verdict.
fn met(
    test: &PromiseTest,
    (bound, classes): (&Bound, &Vec<Option<usize>>),
    plan: Option<&TrainingPlan>,
    released: &str,
) -> Result<PromisedSecrets> {
    let shown = |verdict, advice, no_verdict| PromisedSecrets {
        advice,
        promised: vec![(bound.promise.prior(), bound.promise.posterior())],
        source: bound.source,
        test: *test,
        verdict,
        no_verdict,
    };
    if let Some(why) = &bound.why {
        let why = format!("nothing was promised: {why}");
        return Ok(shown(None, None, Some(why)));
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
    let at_most = Upper::new(Probability::new(test.posterior)?);
    let anything = Upper::new(Probability::ONE);
    let promise = Promise {
        terms: terms.clone(),
        at_most,
        mistakes: vec![
            (Mistake::NoiseOrClipping, anything),
            (Mistake::UncountedCopies, anything),
            (Mistake::SamplingRate, anything),
        ],
    };
    let (mut power, mut advice) = (Vec::new(), None);
    match plan {
        _ if test.provable.get() <= at_most.get() => {
            advice = Some(self::advice(test, (bound, classes), plan)?);
        }
        Some(plan) => power = self::power(test, (bound, classes), plan)?,
        None => {}
    }
    let measured = Measurement {
        terms,
        at_least: test.at_least,
        false_alarm: Probability::new(test.false_alarm)?,
        provable: test.provable,
        power,
    };
    Ok(shown(Some(judge(&promise, &measured)?), advice, None))
}

/// Returns what would make a contradiction possible: a guess so unlikely that its bound is below α, the most that
/// all secrets together can prove.
fn advice(
    test: &PromiseTest,
    (bound, classes): (&Bound, &[Option<usize>]),
    plan: Option<&TrainingPlan>,
) -> Result<String> {
    let provable = test.provable.get().get();
    let tests = format!(
        "this test proves a chance of {} at most",
        nearest(provable, 3)
    );
    if let (Source::Certified, Some(plan)) = (bound.source, plan) {
        let within = |exponent: &u32| 10_u128.pow(*exponent) <= bound.most;
        for exponent in (3..=MOST_CANDIDATES).filter(within) {
            let prior = mass(bound.promise, Some(10_usize.pow(exponent)))?;
            if prior >= bound.prior {
                continue;
            }
            let all = plan.secret_posteriors_at(prior)?;
            let all: Vec<_> = all.into_iter().map(|(_, posterior)| posterior).collect();
            if bound.mean(classes, &all)?.get() < provable {
                return Ok(format!(
                    "{tests}; with {} candidates of each secret it could contradict the certificate",
                    grouped(10_u64.pow(exponent))
                ));
            }
        }
    }
    let more = match bound.source {
        // The certificate is of the secrets of the incidence alone.
        Source::Certified => {
            "random secrets with more candidates, planted before training and named in --incidence, can prove more"
        }
        Source::Stated | Source::Nothing => {
            "canaries, planted before training, can prove more: audit exposure"
        }
    };
    Ok(format!(
        "{tests}, and no number of candidates that these secrets can have makes the bound smaller than that; {more}"
    ))
}

/// Returns how likely the secrets would contradict their certificate if less noise had been added: each is hit with
/// the mean of the largest probabilities, independently of the others.
fn power(
    test: &PromiseTest,
    (bound, classes): (&Bound, &[Option<usize>]),
    plan: &TrainingPlan,
) -> Result<Vec<Power>> {
    let Run::Protect { weighted } = &plan.run else {
        return Ok(Vec::new());
    };
    let all = test.secrets as f64;
    let needed =
        (1..=test.secrets).find(|hits| test.false_alarm * *hits as f64 / all > test.posterior);
    let (Some(needed), Some(certified)) = (needed, &weighted.secrets) else {
        return Ok(Vec::new());
    };
    at_each_share(|share| {
        let weaker = (share > 0.0)
            .then(|| NoiseMultiplier::new(share * weighted.noise_multiplier.get()))
            .transpose()?;
        let all = certified.posteriors_at(bound.prior, weaker, *weighted.steps)?;
        let each = bound.mean(classes, &all)?;
        Ok(Some(RankAudit::chance_of(needed, test.secrets, each)))
    })
}

#[cfg(test)]
mod tests;

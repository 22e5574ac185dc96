//! Scores the canaries and derives the bound and the verdict.

use super::args::Coins as Args;
use super::{CoinsReport, Preflight, UNBOUNDED};
use crate::audit::exposure::promise::{finite_promise, notion};
use crate::audit::exposure::run::{StatedRun, ran};
use crate::audit::exposure::{EARLIER_UNKNOWN, PromisedBy};
use crate::audit::loaded_model::LoadedModel;
use crate::audit::power::{Attacked, at_each_share};
use crate::audit::training_text::{TrainingText, evidence};
use crate::audit::{Apart, can_show_leak, epsilon_limit};
use crate::contract::{Csv, Exit, Inputs, Interrupt, Progress, open_limit, read_text};
use crate::page::Output;
use crate::verdict::{FALSE_ALARM, Measurement, Power, Promise, Terms, Verdict, judge};
use anyhow::{Context, Result, ensure};
use reticent_accounting::training::{Run, Stated, TrainingPlan};
use reticent_accounting::{
    Confidence, Direction, Epsilon, Error, GroupSize, Mechanism, Plan, PrivacyLoss, Probability,
    Query, Tolerance, UnitName,
};
use reticent_attacks::evalue::{
    CanaryGuesses, CoinCounts, coin_beliefs, coin_bound, coin_power, coin_provable_of,
};
use reticent_attacks::{AuditBound, AuditTerms, are_alike, check_speaks};
use reticent_backends::{PrefixScorer, Scorer};
use reticent_corpus::TokenId;
use reticent_corpus::canary::{Canary, CoinPlan};
use reticent_corpus::prepare::{Copies, Stability};
use reticent_corpus::tokenize::Tokenizer;

/// The number of canaries scored at once.
const BATCH: usize = 256;

/// The number of simulated audits for the power at each share of the noise.
const RUNS: u64 = 20;

pub(in crate::audit) fn run(args: &Args, output: Output, interrupt: &Interrupt) -> Result<Exit> {
    args.text.check(&[args.training.as_deref()])?;
    let mut output = output.and_page(args.html.as_deref())?;
    let coins = read(args)?;
    let training = args
        .training
        .as_deref()
        .map(|path| TrainingText::read(path, &args.text, &coins.plan, "--coins-file"));
    let training = training.transpose().context("--training")?;
    let preflight = match &training {
        Some(training) => Some(preflight(training, &coins).context("--training")?),
        None => None,
    };
    let unit = UnitName::new(coins.plan.unit.to_string())?;
    let mut model = LoadedModel::audited(&args.of, interrupt)?;
    let (inclusion, _, stability) = evidence(training.as_ref(), &args.of, &model, Copies::Single)?;
    of_one_unit(&model, &coins)?;
    let StatedRun {
        run,
        manifest,
        promised_by,
        earlier_unknown,
    } = ran(&model, args.mechanism.as_deref(), &coins.plan)?;
    let records = records_of_coin(&coins, stability);
    let delta = match (args.delta, &run) {
        (Some(delta), _) => Stated::given(delta, "--delta"),
        (None, Some(run)) => run.delta.clone(),
        (None, None) => Stated::assumed(TrainingPlan::default_delta(None)),
    };
    let terms = AuditTerms {
        confidence: crate::audit::confidence(args.confidence)?,
        delta: *delta,
        neighbours: super::neighbours(&coins),
        unit,
        copies: records.unwrap_or_else(|| u64::from(coins.plan.copies)),
    };
    let Scored {
        scores,
        reference,
        heard,
    } = scores(args, &coins, &mut model, interrupt)?;
    let guesses = coin_beliefs(&scores, &coins.inside)?;
    let epsilon = coin_bound(&guesses, &terms)?;
    let proves_leak = proves_leak(&guesses, &epsilon)?;
    let counts = counts(&coins, preflight.as_ref());
    // A canary that training is said not to have met proves something all the same where that is a mistake.
    let provable = coin_provable_of(counts, &terms)?.no_less_than(*epsilon.lower.get());
    let limit = epsilon_limit(args.max_epsilon, *provable.get(), &mut output);
    let canaries = coins.inside.len() as u64;
    let mut report = CoinsReport {
        canaries,
        inside: coins.inside.iter().filter(|inside| **inside).count() as u64,
        right: right(&scores, &coins.inside),
        inclusion,
        ours: model.manifest.is_some(),
        preflight,
        reference: reference.map(|apart| apart.unless_distinguished(proves_leak)),
        alike: are_alike(scores.iter().copied()),
        silent: heard.is_err(),
        proves_leak,
        epsilon,
        unbounded: records.is_none(),
        provable,
        manifest,
        promised_by,
        verdict: None,
        no_verdict: None,
        limit,
    };
    let unsure = inclusion.leaves_standing(report.ours);
    let unsure = report.is_blind().or(unsure).map(str::to_owned);
    let unsure = unsure.or_else(|| heard.as_ref().err().map(ToString::to_string));
    let verdict = match records {
        // The earlier run may have met the canaries of coins too; what it planted itself says nothing of them.
        _ if earlier_unknown || run.as_ref().is_some_and(may_go_on) => {
            Err(EARLIER_UNKNOWN.to_owned())
        }
        Some(_) => verdict(run.as_ref(), &model, &terms, (&guesses, counts))?,
        None => Err(UNBOUNDED.to_owned()),
    };
    match (verdict, unsure) {
        (Ok(verdict), Some(why)) if !verdict.is_contradicted() => {
            report.no_verdict = Some(why);
        }
        (Ok(verdict), _) => report.verdict = Some(verdict),
        (Err(why), _) => report.no_verdict = Some(why),
    }
    // What the others tell stands, whatever the model says of the rest.
    if !proves_leak && report.exit() == Exit::Finished {
        heard?;
    }
    let inputs = args.of.given(Inputs::new())?;
    let inputs = PromisedBy::inputs(report.promised_by.as_ref(), inputs)?
        .given_path("coins", Some(&args.coins_file))?
        .given_path("training", args.training.as_deref())?
        .given("text_field", args.text.text_field.as_deref())?
        .given_shown("reference", args.reference.as_ref())?
        .given_path("mechanism", args.mechanism.as_deref())?
        .stated("delta", &delta)?
        .or_assumed("confidence", args.confidence, terms.confidence)?
        .given("max_epsilon", limit)?;
    output.answer_with_rows(
        &report.document(inputs),
        &report.to_page(&model.name),
        || Ok(Csv::of_rows([&report.epsilon])?),
    )?;
    open_limit(report.exit(), report.undecided())
}

/// Refuses a checkpoint whose unit is not that of the coins.
fn of_one_unit(model: &LoadedModel, coins: &CoinPlan) -> Result<()> {
    let Some(manifest) = &model.manifest else {
        return Ok(());
    };
    ensure!(
        manifest.unit == coins.plan.unit,
        "--coins-file: one record is a {} in it and a {} in the training of {}: no promise about one bounds the other; plant and prepare with one --unit",
        coins.plan.unit,
        manifest.unit,
        model.name
    );
    Ok(())
}

fn read(args: &Args) -> Result<CoinPlan> {
    let path = &args.coins_file;
    let json = read_text(path).with_context(|| {
        format!(
            "--coins-file: cannot read {}; name the coins.json that `audit plant --coins` wrote",
            path.display()
        )
    })?;
    CoinPlan::from_json(&json).with_context(|| format!("--coins-file: {}", path.display()))
}

/// Returns how many training records differ if a coin does; `None` if the stages before training bound no number.
///
/// A coin that changes a document changes one copy of it, where another may be: {D + c, D} is trained on as it is, and
/// of {D, D} deduplication masks one. A record that a coin adds has no exact copy without it, but near duplicates: other
/// canaries of the same template.
fn records_of_coin(coins: &CoinPlan, stability: Stability) -> Option<u64> {
    let copies = u64::from(coins.plan.copies);
    match stability {
        Stability::Bounded(_) if coins.added => Some(copies),
        Stability::Bounded(factor) => copies.checked_mul(factor),
        Stability::Unbounded => None,
    }
}

/// Returns whether the guesses refute ε = 0, with the confidence of this bound of theirs, or 0.95 if that is lower.
fn proves_leak(guesses: &[CanaryGuesses], bound: &AuditBound) -> Result<bool> {
    let above = |bound: &AuditBound| bound.lower.get().get() > 0.0;
    if can_show_leak(bound.terms.confidence) {
        return Ok(above(bound));
    }
    let usual = AuditTerms {
        confidence: crate::audit::confidence(None)?,
        ..bound.terms.clone()
    };
    Ok(above(&coin_bound(guesses, &usual)?))
}

/// Returns how many canaries are in, by whether training met them, and how many are out. Where the training text is not known,
/// it is taken to have met all that are in.
fn counts(coins: &CoinPlan, preflight: Option<&Preflight>) -> CoinCounts {
    let count = |coin: bool| coins.inside.iter().filter(|c| **c == coin).count() as u64;
    let absent = preflight.map_or(0, |preflight| preflight.absent);
    CoinCounts {
        met: count(true).saturating_sub(absent),
        absent,
        out: count(false),
    }
}

/// Whether it is what the coins say.
fn preflight(training: &TrainingText<'_>, coins: &CoinPlan) -> Result<Preflight> {
    let path = training.path.display();
    let copies = u64::from(coins.plan.copies);
    let counts = training.found.iter().zip(&training.held_out);
    let all = || counts.clone().zip(&coins.inside);
    let strangers = all().filter(|((found, held), inside)| !**inside && **found + **held > 0);
    let strangers = strangers.count();
    ensure!(
        strangers == 0,
        "{strangers} canaries left out by their coins occur in {path}: it is not the text of this plan, and a bound from it would mean nothing"
    );
    let doubled = all().filter(|((found, held), inside)| **inside && **found + **held > copies);
    let doubled = doubled.count();
    ensure!(
        doubled == 0,
        "{doubled} canaries occur in {path} in more than the {copies} copies of the plan: the bound would be one for fewer records than changed"
    );
    let kept = training
        .learned
        .iter()
        .zip(&training.held_out)
        .zip(&coins.inside);
    let count = |holds: &dyn Fn(u64, u64) -> bool| {
        let inside = kept.clone();
        let inside = inside.filter(|((kept, held), inside)| **inside && holds(**kept, **held));
        inside.count() as u64
    };
    let inside = count(&|_, _| true);
    let whole = count(&|kept, _| kept == copies);
    ensure!(
        whole > 0 || inside == 0,
        "none of the {inside} included canaries occurs in {path} with every copy: it is not the text that was planted, or its policy masks every canary"
    );
    Ok(Preflight {
        found: whole,
        lacking: inside - whole,
        held_out: count(&|kept, held| kept < copies && held > 0),
        absent: count(&|kept, _| kept == 0),
    })
}

/// How likely each canary is to the model.
struct Scored {
    /// In nats, relative to the reference if there is one.
    scores: Vec<f64>,
    /// How far apart the two models are.
    reference: Option<Apart>,
    /// Whether the model gives most canaries a finite perplexity.
    heard: reticent_attacks::Result<()>,
}

fn scores(
    args: &Args,
    coins: &CoinPlan,
    model: &mut LoadedModel,
    interrupt: &Interrupt,
) -> Result<Scored> {
    let canaries = &coins.plan.canaries;
    let sequences = canaries
        .iter()
        .map(|canary| Sequence::of(canary, &model.tokenizer))
        .collect::<Result<Vec<_>>>()?;
    let own = likelihoods(model.scorer(), &sequences, interrupt)?;
    let losses = |scores: &[f64]| -> Vec<(f64, usize)> {
        let lengths = sequences.iter().map(|s| s.tokens.len() - s.secret);
        scores.iter().map(|score| -score).zip(lengths).collect()
    };
    let heard = check_speaks("canary", losses(&own));
    model.check_steady("--scorer")?;
    let reference = args.reference.as_ref();
    let Some(mut reference) = model.against(reference, &args.of, "--reference", interrupt)? else {
        return Ok(Scored {
            scores: own,
            reference: None,
            heard,
        });
    };
    let other = likelihoods(reference.scorer(), &sequences, interrupt)?;
    ensure!(
        other.iter().all(|score| score.is_finite()),
        "--reference: it gives some canary no finite likelihood"
    );
    check_speaks("canary", losses(&other)).context("--reference")?;
    reference.check_steady("--reference")?;
    let both = || own.iter().zip(&other);
    let a_token = both().zip(&sequences).map(|((own, other), sequence)| {
        let tokens = (sequence.tokens.len() - sequence.secret) as f64;
        (own / tokens, other / tokens)
    });
    let apart = Apart::of(a_token);
    let scores = both().map(|(own, other)| own - other);
    Ok(Scored {
        scores: scores.collect(),
        reference: Some(apart),
        heard,
    })
}

/// A canary's tokens, and the position at which its secret begins.
struct Sequence {
    tokens: Vec<TokenId>,
    secret: usize,
}

impl Sequence {
    fn of(canary: &Canary, tokenizer: &Tokenizer) -> Result<Self> {
        let framed = |text: &str| -> Result<Vec<TokenId>> {
            let mut tokens = tokenizer.frame(text)?;
            tokens.pop();
            Ok(tokens)
        };
        let tokens = framed(&format!("{}{}", canary.context, canary.secret))?;
        let context = framed(&canary.context)?;
        let common = tokens
            .iter()
            .zip(&context)
            .take_while(|(a, b)| a == b)
            .count();
        // A secret whose tokens all belong to the context has none to be scored.
        ensure!(
            common < tokens.len() && !tokens.is_empty(),
            "--tokenizer: {} has no token that its context lacks",
            canary.id
        );
        Ok(Self {
            secret: common.max(1),
            tokens,
        })
    }
}

/// Returns ln p of each secret after its context.
fn likelihoods(
    scorer: &mut dyn PrefixScorer,
    sequences: &[Sequence],
    interrupt: &Interrupt,
) -> Result<Vec<f64>> {
    let progress = Progress::of(sequences.len() as u64, "scoring", "canaries");
    let mut found = Vec::with_capacity(sequences.len());
    for chunk in sequences.chunks(BATCH) {
        let tokens: Vec<Vec<TokenId>> = chunk.iter().map(|s| s.tokens.clone()).collect();
        let rows = Scorer::score(scorer, &tokens)?;
        ensure!(
            rows.len() == chunk.len(),
            "the model scored {} of {} canaries",
            rows.len(),
            chunk.len()
        );
        for (sequence, row) in chunk.iter().zip(rows) {
            let own = row.get(sequence.secret - 1..).unwrap_or_default();
            found.push(own.iter().map(|score| score.log_probability).sum());
        }
        progress.at(found.len() as u64);
        interrupt.check()?;
    }
    Ok(found)
}

/// Returns the number of coins guessed right by assigning each canary according to its half of the scores.
fn right(scores: &[f64], inside: &[bool]) -> u64 {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*a].total_cmp(&scores[*b]));
    let half = order.len() / 2;
    let places = order.iter().enumerate();
    places
        .filter(|(place, i)| (*place >= half) == inside[**i])
        .count() as u64
}

/// Whether a run may have begun from one that met canaries.
fn may_go_on(run: &TrainingPlan) -> bool {
    run.continues.is_some() || run.earlier_canary_records().is_none()
}

/// Compares promise and measurement, or returns why there is no verdict.
fn verdict(
    run: Option<&TrainingPlan>,
    model: &LoadedModel,
    terms: &AuditTerms,
    (guesses, counts): (&[CanaryGuesses], CoinCounts),
) -> Result<std::result::Result<Verdict, String>> {
    let Some(run) = run else {
        return Ok(Err("what ran is not known: give --mechanism".into()));
    };
    if let Some(why) = &model.unknown_origin {
        return Ok(Err(why.clone()));
    }
    if let Some(why) = run.unprotected() {
        return Ok(Err(format!("nothing was promised: {why}")));
    }
    if !matches!(run.run, Run::Mechanism { .. } | Run::Dpsgd { .. }) {
        return Ok(Err(
            "the run trains some records in another way, and whether canaries were among them is not known".into(),
        ));
    }
    let mechanism = run.mechanism();
    let promise = match promise(&mechanism, terms, &model.name)? {
        Ok(promise) => promise,
        Err(why) => return Ok(Err(why)),
    };
    let strict = AuditTerms {
        confidence: Confidence::new(1.0 - FALSE_ALARM)?,
        ..terms.clone()
    };
    let measured = Measurement {
        terms: Terms {
            delta: terms.delta,
            neighbours: terms.neighbours,
            group: terms.copies,
            ..promise.terms.clone()
        },
        at_least: coin_bound(guesses, &strict)?.lower,
        false_alarm: Probability::new(FALSE_ALARM)?,
        provable: coin_provable_of(counts, &strict)?,
        power: power(&mechanism, &strict, counts, *promise.at_most.get())?,
    };
    Ok(judge(&promise, &measured).map_err(|why| why.to_string()))
}

/// Returns the promise for a text with all copies of a canary compared with one without, or why there is none.
fn promise(
    mechanism: &Mechanism,
    terms: &AuditTerms,
    released: &str,
) -> Result<std::result::Result<Promise<Epsilon>, String>> {
    let plan = Plan {
        neighbours: terms.neighbours,
        tolerance: Tolerance::DEFAULT,
        group: group(terms)?,
        ..Plan::new(mechanism.clone(), terms.unit.clone(), terms.delta)
    };
    let guarantees = match plan.guarantees() {
        Ok(rows) => rows,
        Err(why @ Error::Unsupported { .. }) => return Ok(Err(why.to_string())),
        Err(error) => return Err(error.into()),
    };
    let notion = notion(terms.copies);
    Ok(match guarantees.iter().find(|g| g.notion == notion) {
        Some(guarantee) => finite_promise(released, guarantee),
        None => Err("nothing was promised about all copies of a canary".into()),
    })
}

fn group(terms: &AuditTerms) -> Result<GroupSize> {
    Ok(GroupSize::new(
        u32::try_from(terms.copies).unwrap_or(u32::MAX),
    )?)
}

/// Returns how likely the promise would be contradicted with less noise; empty if no noise is known that could be
/// lower.
fn power(
    mechanism: &Mechanism,
    terms: &AuditTerms,
    coins: CoinCounts,
    promised: Epsilon,
) -> Result<Vec<Power>> {
    at_each_share(|share| {
        let attacked =
            Attacked::with_share(mechanism, share, |weaker| Ok(Some(loss(weaker, terms)?)))?;
        let chance = attacked.map(|attacked| -> Result<_> {
            Ok(coin_power(
                &attacked.scores()?,
                coins,
                terms,
                promised,
                RUNS,
            )?)
        });
        chance.transpose()
    })
}

/// Returns the privacy loss between runs with all copies of a canary and without.
fn loss(mechanism: &Mechanism, terms: &AuditTerms) -> Result<PrivacyLoss> {
    let query = Query {
        neighbours: terms.neighbours,
        group: group(terms)?,
    };
    Ok(PrivacyLoss::of(mechanism, query, Direction::Remove)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A coin decides whether one copy of a document that may be there twice has a line: with deduplication, two records differ.
    #[test]
    fn deduplication_doubles_the_records_of_a_coin() {
        use reticent_corpus::canary::{CanaryOptions, CanaryPlan, Spec};
        use reticent_corpus::{Document, Unit};
        let documents = [Document::new("d", "A line.\nAnother.")];
        let of = |unit, added| {
            let options = CanaryOptions::new(Spec::new(10, 3).unwrap());
            let plan = CanaryPlan::new(&options, unit, &documents).unwrap();
            CoinPlan::new(plan, added).unwrap()
        };
        let (changed, added) = (of(Unit::Document, false), of(Unit::Turn, true));
        let [once, twice] = [1, 2].map(Stability::Bounded);
        assert_eq!(records_of_coin(&changed, twice), Some(6));
        assert_eq!(records_of_coin(&added, twice), Some(3));
        assert_eq!(records_of_coin(&changed, once), Some(3));
        for coins in [&changed, &added] {
            assert_eq!(records_of_coin(coins, Stability::Unbounded), None);
        }
    }

    /// Scores of a model that never saw the canaries refute ε = 0 with confidence 0.01 more often than not, which is no leak.
    #[test]
    fn a_low_confidence_shows_no_leak() {
        use rand::{RngExt, SeedableRng};
        use reticent_accounting::{Delta, Neighbours};
        let terms = |confidence| AuditTerms {
            confidence: Confidence::new(confidence).unwrap(),
            delta: Delta::new(0.0).unwrap(),
            neighbours: Neighbours::Replace,
            unit: UnitName::new("document").unwrap(),
            copies: 1,
        };
        let (mut bounds, mut leaks) = (0, 0);
        for seed in 0..20 {
            let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let scores: Vec<f64> = (0..200).map(|_| random.random()).collect();
            let coins: Vec<bool> = (0..200).map(|_| random.random()).collect();
            let guesses = coin_beliefs(&scores, &coins).unwrap();
            let [low, usual] =
                [0.01, 0.95].map(|confidence| coin_bound(&guesses, &terms(confidence)).unwrap());
            bounds += u32::from(low.lower.get().get() > 0.0);
            leaks += u32::from(proves_leak(&guesses, &low).unwrap());
            assert_eq!(
                proves_leak(&guesses, &low).unwrap(),
                proves_leak(&guesses, &usual).unwrap()
            );
        }
        assert!(bounds >= 10 && leaks <= 4, "{bounds} {leaks}");
    }

    /// Included canaries of which no copy is trained on tell no coin: a limit that the others can't pass is open.
    #[test]
    fn absent_canaries_count_as_no_coins() {
        use reticent_accounting::{Delta, Neighbours};
        use reticent_corpus::canary::{CanaryOptions, CanaryPlan, Spec};
        use reticent_corpus::{Document, Unit};
        let documents = [Document::new("d", "A line.\nAnother.")];
        let options = CanaryOptions::new(Spec::new(1000, 1).unwrap());
        let plan = CanaryPlan::new(&options, Unit::Document, &documents).unwrap();
        let coins = CoinPlan::new(plan, false).unwrap();
        let inside = coins.inside.iter().filter(|inside| **inside).count() as u64;
        let terms = AuditTerms {
            confidence: Confidence::new(0.95).unwrap(),
            delta: Delta::new(0.0).unwrap(),
            neighbours: Neighbours::Replace,
            unit: UnitName::new("document").unwrap(),
            copies: 1,
        };
        let most = |absent: u64| {
            let preflight = Preflight {
                found: inside - absent,
                lacking: absent,
                held_out: 0,
                absent,
            };
            let counts = counts(&coins, Some(&preflight));
            coin_provable_of(counts, &terms).unwrap().get().get()
        };
        assert!(most(0) > 4.0, "{}", most(0));
        assert!(most(inside - 1) < 0.5, "{}", most(inside - 1));
        let all = CoinCounts {
            met: inside,
            absent: 0,
            out: 1000 - inside,
        };
        assert_eq!(counts(&coins, None), all);
    }

    #[test]
    fn halves_tell_coins() {
        let scores = [0.1, 0.9, 0.2, 0.8];
        assert_eq!(right(&scores, &[false, true, false, true]), 4);
        assert_eq!(right(&scores, &[true, true, false, false]), 2);
    }
}

//! The power of audits: bugs planted in training, and who notices.
//!
//!     cargo run --release --example power -- [repetitions]
//!
//! Tiny models (an LSTM of width 48), ten canaries in eight turns each, DP-SGD with σ = 60. Every
//! arm but the first runs something else than what is claimed. Prints one JSON line per arm: how
//! many of the repetitions each audit noticed. In the first arm everything is as claimed: what is
//! noticed there is a false alarm.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example prints"
)]

use anyhow::{Context, Result};
use reticent_accounting::{
    Confidence, Delta, Direction, GroupSize, Mechanism, Neighbours, NoiseMultiplier, PrivacyLoss,
    Probability, Query, SamplingRate, Steps, Tolerance,
};
use reticent_attacks::{
    CeilingAt, CeilingOutcome, ExposureSummary, RankAudit, RankCount, ScoreSet, ScoreTable,
    Scoring, SearchOptions, ceiling_test, plan_search, prior_mass, search_ranks,
};
use reticent_backends::{
    Added, Clip, Clipping, Corpus, Device, Dropout, LearningRates, LstmConfig, Model,
    OptimizerSpec, Parameter, Precision, PrefixScorer, PrivateBatch, PrivateOptions, Privatized,
    PublicBatch, Recipe, Scorer, StateId, Surroundings, TokenScore, TrainOptions, Trainer, Update,
    open, replay, train_on,
};
use reticent_corpus::{
    CanaryOptions, CanaryPlan, CanarySight, Carriers, ConservativeOptions, CopyFate, Document,
    PrepareOptions, Prepared, Preparer, TokenId, simulate,
};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const SIGMA: f64 = 60.0;
const CLIP: f64 = 1.0;
const RATE: f64 = 0.25;
const EPOCHS: u64 = 60;
const COPIES: u32 = 8;
const ALPHA: f64 = 1e-3;
const DIALOGUES: usize = 2;
const BUDGET: u64 = 6_000;

/// What is planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    None,
    NoNoise,
    NoClipping,
    MissedRedaction,
    UnitMistake,
    WrongSamplingRate,
    CanaryDeduplicated,
}

impl Bug {
    const ALL: [(Self, &'static str); 7] = [
        (Self::None, "nothing: as claimed"),
        (Self::NoNoise, "no noise"),
        (Self::NoClipping, "no clipping"),
        (Self::MissedRedaction, "missed redaction"),
        (Self::UnitMistake, "unit mistake"),
        (Self::WrongSamplingRate, "wrong sampling rate"),
        (Self::CanaryDeduplicated, "canary deduplicated"),
    ];
}

/// A model whose code has the bug: the step that calls it is the product's own.
struct Buggy {
    inner: Box<dyn Trainer>,
    bug: Bug,
    /// Sums as they were before the noise, for the bug that moves by those.
    bare: Option<Vec<Vec<f32>>>,
    expected_batch: f64,
    /// Examples added to private batches.
    seen: Arc<AtomicUsize>,
}

type Told<T> = reticent_backends::Result<T>;

impl Scorer for Buggy {
    fn vocabulary_size(&self) -> usize {
        self.inner.vocabulary_size()
    }
    fn score(&mut self, sequences: &[Vec<TokenId>]) -> Told<Vec<Vec<TokenScore>>> {
        self.inner.score(sequences)
    }
}

impl PrefixScorer for Buggy {
    fn start(&mut self, prefixes: &[Vec<TokenId>]) -> Told<Vec<StateId>> {
        self.inner.start(prefixes)
    }
    fn extend(&mut self, steps: &[(StateId, TokenId)]) -> Told<Vec<StateId>> {
        self.inner.extend(steps)
    }
    fn next_log_probabilities(&mut self, states: &[StateId], wanted: &[TokenId]) -> Told<Vec<f64>> {
        self.inner.next_log_probabilities(states, wanted)
    }
    fn release(&mut self, states: &[StateId]) {
        self.inner.release(states);
    }
}

impl Trainer for Buggy {
    fn parameters(&self) -> &[Parameter] {
        self.inner.parameters()
    }
    fn weights(&self) -> &[Vec<f32>] {
        self.inner.weights()
    }
    fn set_weights(&mut self, weights: Vec<Vec<f32>>) -> Told<()> {
        self.inner.set_weights(weights)
    }
    fn groups(&self) -> &[usize] {
        self.inner.groups()
    }
    fn norm_margin(&self) -> f64 {
        self.inner.norm_margin()
    }
    fn public_gradient(&mut self, batch: &PublicBatch<'_>) -> Told<(Vec<Vec<f32>>, f64)> {
        self.inner.public_gradient(batch)
    }
    fn begin(&mut self) {
        self.inner.begin();
    }
    fn add(&mut self, microbatch: &PrivateBatch<'_>, clip: &Clip) -> Told<Added> {
        let added = match self.bug {
            Bug::NoClipping => self.inner.add(microbatch, &Clip::new(1e9, 0.0)?)?,
            _ => self.inner.add(microbatch, clip)?,
        };
        self.seen.fetch_add(added.examples, Ordering::Relaxed);
        Ok(added)
    }
    fn accumulator(&mut self) -> &mut [Vec<f32>] {
        if self.bug == Bug::NoNoise {
            self.bare = Some(self.inner.accumulator().to_vec());
        }
        self.inner.accumulator()
    }
    fn apply(&mut self, gradient: Privatized, update: &mut dyn Update) -> Told<()> {
        match self.bare.take() {
            Some(mut bare) => {
                let batch = self.expected_batch as f32;
                bare.iter_mut().flatten().for_each(|g| *g /= batch);
                self.inner.apply_public(bare, update)
            }
            None => self.inner.apply(gradient, update),
        }
    }
    fn apply_public(&mut self, gradient: Vec<Vec<f32>>, update: &mut dyn Update) -> Told<()> {
        self.inner.apply_public(gradient, update)
    }
}

/// One repetition's corpus.
fn prepared(documents: &[Document], bug: Bug, seed: u64) -> Result<Prepared> {
    let canaries = CanaryOptions {
        seed,
        carriers: match bug {
            Bug::CanaryDeduplicated => Carriers::Same,
            _ => Carriers::Vary,
        },
        ..CanaryOptions::new(format!("10x{COPIES}").parse()?)
    };
    let options = PrepareOptions {
        conservative: Some(ConservativeOptions::default()),
        canaries: Some(canaries),
        canary_sight: match bug {
            Bug::MissedRedaction => CanarySight::MissedByBoth,
            _ => CanarySight::MissedByPolicy,
        },
        ..PrepareOptions::default()
    };
    Ok(Preparer::new(documents, &options)?.run()?)
}

fn options(bug: Bug, prepared: &Prepared, seed: u64) -> TrainOptions {
    let set = &prepared.training;
    let recipe = match bug {
        Bug::MissedRedaction => Recipe::Crt,
        _ => Recipe::Dpsgd,
    };
    let size = match recipe {
        Recipe::Crt => set.private_size(),
        _ => set.private_size() + set.public_size(),
    };
    let rate = match bug {
        Bug::WrongSamplingRate => 2.0 * RATE,
        _ => RATE,
    };
    TrainOptions {
        recipe,
        // As many steps as claimed, whatever the rate.
        epochs: (EPOCHS as f64 * rate / RATE) as u64,
        public_passes: 1,
        batch_size: 16,
        optimizer: OptimizerSpec::Adam {
            learning_rate: 0.01,
        },
        private: Some(PrivateOptions {
            noise_multiplier: SIGMA,
            clipping_norm: CLIP,
            clipping: Clipping::Flat,
            batch_size: (rate * size as f64).round() as u64,
            optimizer: OptimizerSpec::Adam {
                learning_rate: 0.01,
            },
        }),
        first_phase: None,
        states: None,
        precision: Precision::Single,
        dropout: Dropout::NONE,
        learning_rates: LearningRates::default(),
        stopping: None,
        initial_seed: seed,
        seed: Some(seed),
    }
}

/// Which audits noticed something.
#[derive(Default)]
struct Noticed {
    exposure: bool,
    ceiling: bool,
    epsilon: bool,
    membership: bool,
    preflight: bool,
    batches: bool,
}

/// The promise that is claimed: B of all copies at once, and ε of them.
struct Claim {
    loss: PrivacyLoss,
    epsilon: f64,
    group: u32,
}

impl Claim {
    fn new(group: u32) -> Result<Self> {
        let steps = Steps::new(EPOCHS * (1.0 / RATE) as u64);
        let mechanism = Mechanism::dp_sgd(
            NoiseMultiplier::new(SIGMA)?,
            SamplingRate::new(RATE)?,
            steps,
        );
        let query = |neighbours| -> Result<Query> {
            Ok(Query {
                neighbours,
                group: GroupSize::new(group)?,
            })
        };
        let loss = PrivacyLoss::of(&mechanism, query(Neighbours::ZeroOut)?, Direction::Remove)?;
        let replace = PrivacyLoss::of(&mechanism, query(Neighbours::Replace)?, Direction::Remove)?;
        let answer = replace.epsilon(Delta::new(1e-6)?, Tolerance::new(1e-3)?)?;
        let epsilon = answer.bounds.upper.context("no upper end")?.get().get();
        Ok(Self {
            loss,
            epsilon,
            group,
        })
    }
}

fn main() -> Result<()> {
    let repetitions: u64 = match std::env::args().nth(1) {
        Some(text) => text.parse().context("repetitions")?,
        None => 20,
    };
    let documents = simulate(DIALOGUES, 0)?;
    let all = Claim::new(COPIES)?;
    let single = Claim::new(1)?;
    for (bug, name) in Bug::ALL {
        let begun = std::time::Instant::now();
        let mut counts = [0_u64; 6];
        for seed in 0..repetitions {
            let claim = if bug == Bug::UnitMistake {
                &single
            } else {
                &all
            };
            let found = once(&documents, bug, seed, claim)?;
            let flags = [
                found.exposure,
                found.ceiling,
                found.epsilon,
                found.membership,
                found.preflight,
                found.batches,
            ];
            for (count, flag) in counts.iter_mut().zip(flags) {
                *count += u64::from(flag);
            }
        }
        let harness = replayed(&documents, bug)?;
        println!(
            "{{\"bug\":\"{name}\",\"repetitions\":{repetitions},\"exposure_above_chance\":{},\"ranks_against_ceiling\":{},\"epsilon_against_promise\":{},\"membership_above_chance\":{},\"preflight\":{},\"batch_sizes\":{},\"replay\":{harness},\"seconds\":{:.1}}}",
            counts[0],
            counts[1],
            counts[2],
            counts[3],
            counts[4],
            counts[5],
            begun.elapsed().as_secs_f64()
        );
    }
    Ok(())
}

fn model(vocabulary: usize, bug: Bug, seed: u64, batch: f64) -> Told<(Buggy, Arc<AtomicUsize>)> {
    let model: Model = LstmConfig {
        vocabulary,
        embedding: 32,
        hidden: 48,
    }
    .into();
    let weights = model.starting_weights(seed);
    let seen = Arc::new(AtomicUsize::new(0));
    let buggy = Buggy {
        inner: open(&model, weights, Device::Cpu)?,
        bug,
        bare: None,
        expected_batch: batch,
        seen: seen.clone(),
    };
    Ok((buggy, seen))
}

fn once(documents: &[Document], bug: Bug, seed: u64, claim: &Claim) -> Result<Noticed> {
    let prepared = prepared(documents, bug, seed)?;
    let options = options(bug, &prepared, seed);
    let batch = options
        .private
        .as_ref()
        .map_or(1.0, |p| p.batch_size as f64);
    let (buggy, seen) = model(prepared.tokenizer.vocabulary_size(), bug, seed, batch)?;
    let stop = AtomicBool::new(false);
    let mut trained = train_on(
        Box::new(buggy),
        &options,
        &Corpus::plain(&prepared.training),
        &Surroundings::in_memory(&stop),
        &mut |_| {},
    )?;
    let plan = prepared.plan.as_ref().context("no plan")?;
    let model = trained.trainer.as_mut();
    let mut noticed = Noticed::default();
    ranks(plan, &prepared, model, claim, &mut noticed)?;
    noticed.membership = membership(plan, &prepared, model, seed)?;
    // The pre-flight knows how many records hold a secret; the claim must have counted them all.
    let preflight = prepared.facts.canaries.as_ref().context("no pre-flight")?;
    let lost = preflight.count(CopyFate::Deduplicated) > 0;
    let counted = (0..10).all(|c| preflight.survivors(c) <= u64::from(claim.group));
    let public = preflight
        .copies
        .iter()
        .any(|c| c.side == Some(reticent_corpus::Side::Public));
    noticed.preflight = lost || !counted || (options.recipe == Recipe::Crt && public);
    // Poisson batches at the claimed rate: their total is binomial.
    if options.recipe == Recipe::Dpsgd {
        let records = prepared.training.records.len() as f64;
        let trials = records * (EPOCHS as f64 / RATE);
        let sd = (trials * RATE * (1.0 - RATE)).sqrt();
        let away = seen.load(Ordering::Relaxed) as f64 - trials * RATE;
        noticed.batches = away.abs() > 5.0 * sd;
    }
    Ok(noticed)
}

fn ranks(
    plan: &CanaryPlan,
    prepared: &Prepared,
    model: &mut dyn Trainer,
    claim: &Claim,
    noticed: &mut Noticed,
) -> Result<()> {
    let (tree, targets) = plan_search(plan, &prepared.tokenizer)?;
    let options = SearchOptions {
        tie_tolerance: 1e-5,
        budget: Some(BUDGET),
        ..SearchOptions::default()
    };
    let ranking = search_ranks(model, &tree, &targets, &options, &mut |_| {
        ControlFlow::Continue(())
    })?;
    let counts: &[RankCount] = &ranking.counts;
    let confidence = Confidence::new(1.0 - ALPHA)?;
    let group = u64::from(claim.group);
    let audit = RankAudit::of_plan(plan, group, confidence, Delta::new(1e-6)?);
    let summary = ExposureSummary::of(counts, audit.draw)?;
    noticed.exposure = summary.max().p_value() < 0.025 || summary.mean().p_value() < 0.025;
    let lower = audit.bound(counts)?.lower.get().get();
    noticed.epsilon = lower > claim.epsilon;
    let tolerance = Tolerance::new(1e-3)?;
    let ceilings = audit
        .thresholds
        .iter()
        .map(|&threshold| {
            let mass: Probability = prior_mass(threshold, tree.candidates(), 10, audit.draw)?;
            let bound = claim.loss.blow_up(mass, tolerance)?;
            let bound = bound.bounds.upper.context("no upper end")?;
            Ok(CeilingAt {
                threshold,
                bounds: vec![bound; 10],
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let test = ceiling_test(counts, &ceilings, ALPHA)?;
    noticed.ceiling = test.outcome == CeilingOutcome::Contradicted;
    Ok(())
}

/// The planted lines against lines of another plan, by loss; 2.5 % false alarms.
fn membership(
    plan: &CanaryPlan,
    prepared: &Prepared,
    model: &mut dyn Trainer,
    seed: u64,
) -> Result<bool> {
    let other = CanaryOptions {
        seed: seed + 1_000_003,
        ..CanaryOptions::new(format!("10x{COPIES}").parse()?)
    };
    let documents = simulate(DIALOGUES, 0)?;
    let other = CanaryPlan::new(&other, plan.unit, &documents)?;
    let mut scores = |plan: &CanaryPlan| -> Result<Vec<f64>> {
        let lines = plan
            .canaries
            .iter()
            .map(|c| Ok(prepared.tokenizer.frame(&c.insertions[0].text)?))
            .collect::<Result<Vec<_>>>()?;
        let scoring = Scoring {
            context: None,
            batch_tokens: 4096,
        };
        let table = ScoreTable::of(model, lines, scoring, &mut |_| ControlFlow::Continue(()))?;
        (0..table.len())
            .map(|i| Ok(table.record(i)?.loss()))
            .collect()
    };
    let (members, others) = (scores(plan)?, scores(&other)?);
    let area = ScoreSet::new(members, others)?.area(Confidence::new(0.95)?, seed)?;
    Ok(area.bounds.lower.is_some_and(|l| l.get().get() > 0.5))
}

/// The replay harness on a neighbouring corpus: one canary line with another content, as far away
/// as a record can be.
fn replayed(documents: &[Document], bug: Bug) -> Result<bool> {
    let here = prepared(documents, bug, 0)?;
    let plan = here.plan.as_ref().context("no plan")?;
    let secret = here.tokenizer.encode(&plan.canaries[0].secret)?;
    let mut there = here.training.clone();
    let changed = there.records.iter_mut().find_map(|record| {
        record.tokens.windows(6).position(|w| w == secret)?;
        let end = record.tokens.len() - 1;
        record.tokens[1..end].fill(secret[0]);
        Some(())
    });
    changed.context("no record holds the secret")?;
    let options = TrainOptions {
        epochs: 5,
        ..options(bug, &here, 0)
    };
    let batch = options
        .private
        .as_ref()
        .map_or(1.0, |p| p.batch_size as f64);
    let vocabulary = here.tokenizer.vocabulary_size();
    let make = || -> Told<Box<dyn Trainer>> { Ok(Box::new(model(vocabulary, bug, 0, batch)?.0)) };
    let found = replay(
        &make,
        &options,
        &Corpus::plain(&here.training),
        &Corpus::plain(&there),
        Neighbours::Replace,
    )?;
    Ok(!found.holds())
}

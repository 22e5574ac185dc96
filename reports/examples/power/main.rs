//! The power of audits: bugs planted in training, and who notices.
//!
//!     cargo run --release --example power -- [repetitions [arm]]
//!     cargo run --release --example power -- null [repetitions]
//!
//! Tiny models (an LSTM of width 48), ten canaries in eight turns each, DP-SGD with σ = 60. Every
//! arm but the first two runs something else than what is claimed. Prints one JSON line per arm: how
//! many of the repetitions each audit noticed. In the first two everything is as claimed: what is
//! noticed there is a false alarm. The second trains its public side by ordinary steps, as CRT does.
//! An arm is named by a word of its name. `null` asks the membership audit about canaries that no
//! model saw, drawn as those of the last arm are: against lines of the same shape, and against lines
//! of another, which is the mistake that the audit must not make.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example prints"
)]

mod audits;
mod buggy;

use anyhow::{Context, Result};
use audits::{Claim, membership, ranks};
use buggy::{BackendResult, model};
use reticent_accounting::training::{NoisySteps, Run, Stated, TrainingPlan};
use reticent_accounting::{Neighbours, Steps, UnitName};
use reticent_backends::oracle::replay;
use reticent_backends::run::{Surroundings, train_on};
use reticent_backends::trainer::{OptimizerSpec, Trainer};
use reticent_backends::{Corpus, PrivateOptions, TrainOptions};
use reticent_corpus::Document;
use reticent_corpus::canary::{CanaryOptions, CanaryPlan, Carriers, CopyFate};
use reticent_corpus::policy::ConservativeOptions;
use reticent_corpus::prepare::{CanarySight, PrepareOptions, Prepared, Preparer};
use reticent_corpus::simulate::simulate;
use std::sync::atomic::{AtomicBool, Ordering};

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
    /// The same where ordinary steps train the public side well.
    NoneWithPublicSide,
    NoNoise,
    NoClipping,
    MissedRedaction,
    UnitMistake,
    WrongSamplingRate,
    CanaryDeduplicated,
}

impl Bug {
    const ALL: [(Self, &'static str); 8] = [
        (Self::None, "nothing: as claimed"),
        (
            Self::NoneWithPublicSide,
            "nothing: as claimed, public side by CRT",
        ),
        (Self::NoNoise, "no noise"),
        (Self::NoClipping, "no clipping"),
        (Self::MissedRedaction, "missed redaction"),
        (Self::UnitMistake, "unit mistake"),
        (Self::WrongSamplingRate, "wrong sampling rate"),
        (Self::CanaryDeduplicated, "canary deduplicated"),
    ];

    const fn carriers(self) -> Carriers {
        match self {
            Self::CanaryDeduplicated => Carriers::Same,
            _ => Carriers::Vary,
        }
    }
}

/// One repetition's corpus.
fn prepared(documents: &[Document], bug: Bug, seed: u64) -> Result<Prepared> {
    let canaries = CanaryOptions {
        seed,
        carriers: bug.carriers(),
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

/// Records on the side that noisy steps train on.
fn private_size(bug: Bug, prepared: &Prepared) -> u64 {
    let set = &prepared.training;
    match bug {
        Bug::MissedRedaction | Bug::NoneWithPublicSide => set.private_size(),
        _ => set.private_size() + set.public_size(),
    }
}

/// The expected batch.
fn batch(bug: Bug, prepared: &Prepared, options: &TrainOptions) -> f64 {
    let rate = options
        .plan
        .run
        .noisy()
        .map(|noisy| noisy.sampling_rate.get());
    rate.map_or(1.0, |rate| rate * private_size(bug, prepared) as f64)
}

fn options_of(bug: Bug, prepared: &Prepared, seed: u64) -> Result<TrainOptions> {
    let set = &prepared.training;
    let rate = match bug {
        Bug::WrongSamplingRate => 2.0 * RATE,
        _ => RATE,
    };
    let mut noisy = NoisySteps::poisson(SIGMA, rate, EPOCHS)?;
    // As many steps as claimed, whatever the rate.
    noisy.steps.value = Steps::new((EPOCHS as f64 / RATE) as u64);
    let run = match bug {
        Bug::MissedRedaction | Bug::NoneWithPublicSide => Run::Crt {
            private: Some(noisy),
            public_passes: Stated::given(1, "this program"),
            epochs: EPOCHS,
        },
        _ => Run::Dpsgd { private: noisy },
    };
    let plan = TrainingPlan::new(run, UnitName::new(set.unit.to_string())?);
    let optimizer = OptimizerSpec::Adam {
        learning_rate: 0.01,
    };
    Ok(TrainOptions {
        private: Some(PrivateOptions::new(CLIP, optimizer)),
        initial_seed: seed,
        ..TrainOptions::new(plan, 16, optimizer).seeded(Some(seed))
    })
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

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().context("repetitions");
    let (repetitions, arm) = match words.as_slice() {
        ["null"] => return null(400),
        ["null", repetitions] => return null(number(repetitions)?),
        [] => (20, ""),
        [repetitions] => (number(repetitions)?, ""),
        [repetitions, arm, ..] => (number(repetitions)?, *arm),
    };
    let documents = simulate(DIALOGUES, 0)?;
    let all = Claim::new(COPIES)?;
    let single = Claim::new(1)?;
    for (bug, name) in Bug::ALL.into_iter().filter(|(_, n)| n.contains(arm)) {
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

fn once(documents: &[Document], bug: Bug, seed: u64, claim: &Claim) -> Result<Noticed> {
    let prepared = prepared(documents, bug, seed)?;
    let options = options_of(bug, &prepared, seed)?;
    let batch = batch(bug, &prepared, &options);
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
    let carriers = bug.carriers();
    noticed.membership = membership(plan, &prepared.tokenizer, carriers, model, seed)?;
    // The pre-flight knows how many records hold a secret; the claim must have counted them all.
    let preflight = prepared.facts.canaries.as_ref().context("no pre-flight")?;
    let lost = preflight.count(CopyFate::Deduplicated) > 0;
    let counted = (0..10).all(|c| preflight.survivors(c) <= u64::from(claim.group));
    let public = preflight
        .copies
        .iter()
        .any(|c| c.side == Some(reticent_corpus::Side::Public));
    noticed.preflight = lost || !counted || (matches!(options.plan.run, Run::Crt { .. }) && public);
    // Poisson batches at the claimed rate: their total is binomial.
    if matches!(options.plan.run, Run::Dpsgd { .. }) {
        let records = prepared.training.records.len() as f64;
        let trials = records * (EPOCHS as f64 / RATE);
        let sd = (trials * RATE * (1.0 - RATE)).sqrt();
        let away = seen.load(Ordering::Relaxed) as f64 - trials * RATE;
        noticed.batches = away.abs() > 5.0 * sd;
    }
    Ok(noticed)
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
    let mut options = options_of(bug, &here, 0)?;
    if let Some(noisy) = options.plan.run.noisy_mut() {
        noisy.steps.value = Steps::new(5 * noisy.steps_per_epoch);
    }
    let batch = batch(bug, &here, &options);
    let vocabulary = here.tokenizer.vocabulary_size();
    let make =
        || -> BackendResult<Box<dyn Trainer>> { Ok(Box::new(model(vocabulary, bug, 0, batch)?.0)) };
    let found = replay(
        &make,
        &options,
        &Corpus::plain(&here.training),
        &Corpus::plain(&there),
        Neighbours::Replace,
    )?;
    Ok(!found.holds())
}

/// False alarms of the membership audit on canaries in one carrier, by models that saw nothing (a
/// fresh one each time), against lines of the same shape and against lines with closing phrases.
fn null(repetitions: u64) -> Result<()> {
    let documents = simulate(DIALOGUES, 0)?;
    let prepared = Preparer::new(&documents, &PrepareOptions::default())?.run()?;
    let vocabulary = prepared.tokenizer.vocabulary_size();
    let mut alarms = [0_u64; 2];
    for seed in 0..repetitions {
        let planted = CanaryOptions {
            seed,
            carriers: Carriers::Same,
            ..CanaryOptions::new(format!("10x{COPIES}").parse()?)
        };
        let plan = CanaryPlan::new(&planted, prepared.training.unit, &documents)?;
        let (mut fresh, _) = model(vocabulary, Bug::None, seed, 1.0)?;
        for (alarms, carriers) in alarms.iter_mut().zip([Carriers::Same, Carriers::Vary]) {
            let said = membership(&plan, &prepared.tokenizer, carriers, &mut fresh, seed)?;
            *alarms += u64::from(said);
        }
    }
    println!(
        "{{\"null\":\"membership\",\"repetitions\":{repetitions},\"against_the_same_shape\":{},\"against_another_shape\":{}}}",
        alarms[0], alarms[1]
    );
    Ok(())
}

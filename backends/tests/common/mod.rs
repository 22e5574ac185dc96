//! Small corpora, models and options of every recipe.

use reticent_accounting::confidentiality::RedactedAlike;
use reticent_accounting::training::{
    FirstPhase, NoisySteps, Recipe, Run, SelectiveSteps, Stated, StepDecay, TrainingPlan,
    WeightedSteps, released_states,
};
use reticent_accounting::{Mechanism, MissRate, NoiseMultiplier, SamplingRate, Steps, UnitName};
use reticent_backends::checkpoint::weights_digest;
use reticent_backends::engine::open;
use reticent_backends::model::{
    Family, Head, Lora, LoraSpec, LstmConfig, Model, TransformerConfig,
};
use reticent_backends::oracle::exact;
use reticent_backends::privacy::Clipping;
use reticent_backends::run::{Surroundings, Trained, train_on};
use reticent_backends::trainer::{Dropout, Masking, OptimizerSpec, Trainer};
use reticent_backends::{
    Corpus, Device, Error, PrivateOptions, SecretRates, Sensitive, TrainOptions,
};
use reticent_corpus::{Record, Side, TrainingSet, Unit};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(crate) const VOCABULARY: usize = 11;
/// The token of a mask.
pub(crate) const MASK: u32 = 10;

pub(crate) const CONFIG: LstmConfig = LstmConfig {
    vocabulary: VOCABULARY,
    embedding: 5,
    hidden: 6,
};

/// A model's name, and how to make it.
pub(crate) type Made = (&'static str, fn() -> Box<dyn Trainer>);

/// A transformer of one layer.
fn transformer(family: Family) -> Model {
    Model::from(TransformerConfig::new(family, VOCABULARY, 8, 1, 2, 16))
}

/// On the processor, or the device that the environment names: `scripts/device` runs tests so.
fn fast(model: &Model) -> Box<dyn Trainer> {
    let device = std::env::var("RETICENT_DEVICE");
    let device: Device = device.map_or(Device::Cpu, |name| name.parse().unwrap());
    open(model, model.starting_weights(1), device).unwrap()
}

fn slow(model: &Model) -> Box<dyn Trainer> {
    exact(model, model.starting_weights(1)).unwrap()
}

/// A fresh adapter on a model whose weights have this seed, on every layer.
pub(crate) fn adapted(model: &Model, seed: u64) -> Box<dyn Trainer> {
    let base = weights_digest(&model.starting_weights(seed));
    let spec = LoraSpec {
        rank: 2,
        alpha: 4.0,
        targets: vec!["all-linear".into()],
    };
    let lora = Lora::of(model, base, spec).unwrap();
    let mut trainer = fast(model);
    trainer
        .adapt(lora.clone(), lora.starting_weights(1))
        .unwrap();
    trainer
}

/// A small encoder or classifier.
pub(crate) fn headed(family: Family, head: Head) -> Box<dyn Trainer> {
    let config = TransformerConfig {
        head,
        ..TransformerConfig::new(family, VOCABULARY, 8, 1, 2, 16)
    };
    let model = Model::from(config);
    let weights = model.starting_weights(3);
    open(&model, weights, Device::Cpu).unwrap()
}

/// Every model the harness runs on, by name; a model joins by one line.
pub(crate) fn models() -> Vec<Made> {
    vec![
        ("lstm", || fast(&CONFIG.into())),
        ("lstm, exact", || slow(&CONFIG.into())),
        ("gpt2", || fast(&transformer(Family::Gpt2))),
        ("gpt2, exact", || slow(&transformer(Family::Gpt2))),
        ("llama", || fast(&transformer(Family::Llama))),
        ("gemma2", || fast(&transformer(Family::Gemma2))),
        ("llama, adapted", || adapted(&transformer(Family::Llama), 1)),
    ]
}

pub(crate) fn model() -> Box<dyn Trainer> {
    models()[0].1()
}

pub(crate) const OPTIMIZERS: [OptimizerSpec; 3] = [
    OptimizerSpec::Sgd {
        learning_rate: 0.3,
        momentum: 0.9,
    },
    OptimizerSpec::Adam {
        learning_rate: 0.01,
    },
    OptimizerSpec::AdamW {
        learning_rate: 0.01,
        weight_decay: 0.1,
    },
];

pub(crate) const CLIPPINGS: [Clipping; 3] = [
    Clipping::Flat,
    Clipping::PerLayer,
    Clipping::Automatic { stability: 0.01 },
];

/// Records of six to nine tokens: the first `public` of them public, the rest private.
pub(crate) fn set(public: u32, private: u32, mask_only: u64) -> TrainingSet {
    let record = |i: u32| Record {
        side: if i < public {
            Side::Public
        } else {
            Side::Private
        },
        tokens: (0..6 + i % 4).map(|t| (i * 7 + t * 3) % 10).collect(),
        sensitive: Vec::new(),
        label: None,
        ignored: Vec::new(),
    };
    TrainingSet {
        unit: Unit::Turn,
        records: (0..public + private).map(record).collect(),
        mask_only,
    }
}

/// The same where every other record has tokens without loss, around and inside what is sensitive.
pub(crate) fn with_answers(mut set: TrainingSet) -> TrainingSet {
    for record in set.records.iter_mut().step_by(2) {
        record.ignored = vec![1..3, 5..record.tokens.len()];
    }
    set
}

/// Tokens 2 and 3 of every record, and the last two of every third, are sensitive.
pub(crate) fn spans(set: &TrainingSet) -> Vec<Vec<Range<usize>>> {
    let records = set.records.iter().enumerate();
    records
        .map(|(i, r)| {
            let last = (i % 3 == 0).then(|| r.tokens.len() - 1..r.tokens.len());
            Some(2..4).into_iter().chain(last).collect()
        })
        .collect()
}

pub(crate) fn sensitive(set: &TrainingSet) -> Sensitive {
    Sensitive::new(set, spans(set), MASK, RedactedAlike::YES).unwrap()
}

pub(crate) fn secret_rates(records: usize) -> SecretRates {
    let rates = (0..records).map(|i| 0.1 + 0.05 * (i % 5) as f64).collect();
    let secrets = (0..records as u32 / 3).map(|j| vec![j, j + 1, 2 * j]);
    SecretRates::new(rates, secrets.collect()).unwrap()
}

/// set(4, 8, 1) with what each recipe and each head needs to know of it.
pub(crate) fn with_corpus<T>(work: impl FnOnce(&Corpus<'_>) -> T) -> T {
    let mut set = set(4, 8, 1);
    for (number, record) in (0..).zip(&mut set.records) {
        record.label = Some(number % 2);
    }
    let (spans, rates) = (sensitive(&set), secret_rates(12));
    let masking = Masking::new(VOCABULARY, MASK, vec![MASK]).unwrap();
    work(&Corpus {
        masking: Some(&masking),
        sensitive: Some(&spans),
        rates: Some(&rates),
        ..Corpus::plain(&set)
    })
}

/// A run on set(4, 8, 1), from this folder if any, with a snapshot after each step; `stop_at`: after
/// how many steps it is stopped.
pub(crate) fn run_until(
    trainer: Box<dyn Trainer>,
    settings: &TrainOptions,
    state: Option<&Path>,
    stop_at: u64,
) -> Result<Trained, Error> {
    let stop = AtomicBool::new(false);
    let surroundings = Surroundings {
        state: state.map(Path::to_path_buf),
        snapshot_every: Duration::ZERO,
        stop: &stop,
        at_epoch: None,
    };
    with_corpus(|corpus| {
        train_on(trainer, settings, corpus, &surroundings, &mut |at| {
            stop.store(at.step >= stop_at, Ordering::Relaxed);
        })
    })
}

/// Poisson batches of `batch` of `records`, in expectation.
pub(crate) fn noisy(sigma: f64, batch: u64, records: u64, epochs: u64) -> NoisySteps {
    let rate = SamplingRate::of_share(batch, records).unwrap();
    NoisySteps::poisson(sigma, rate.get(), epochs).unwrap()
}

pub(crate) fn given<T>(value: T) -> Stated<T> {
    Stated::given(value, "test")
}

/// Passes over redacted text without noise, under a policy that catches every content.
pub(crate) fn direct(epochs: u64) -> FirstPhase {
    FirstPhase::Ordinary {
        epochs: given(epochs),
        screened: false,
        alike: given(RedactedAlike::YES),
    }
}

/// One epoch of light noise on [`set`]`(4, 8, 1)`.
pub(crate) fn light() -> FirstPhase {
    FirstPhase::LightNoise {
        steps: noisy(0.4, 4, 13, 1),
        token_miss: Some((MissRate::ZERO, MissRate::ZERO)),
    }
}

/// `jft` with another first phase.
pub(crate) fn jft(first: FirstPhase, set: &TrainingSet) -> TrainOptions {
    let mut options = options_on(Recipe::Jft, set);
    if let Run::Jft { first: before, .. } = &mut options.plan.run {
        *before = first;
    }
    options
}

/// A recipe on this set: two epochs of batches of three, at σ = 0.8.
pub(crate) fn run(recipe: Recipe, set: &TrainingSet) -> Run {
    let (private, records) = (set.private_size(), set.public_size() + set.private_size());
    let noisy = |records| noisy(0.8, 3, records, 2);
    let noise = |sigma| given(NoiseMultiplier::new(sigma).unwrap());
    match recipe {
        Recipe::Sgd => Run::Sgd {
            epochs: given(2),
            steps: None,
        },
        Recipe::Dpsgd => Run::Dpsgd {
            private: noisy(records),
        },
        Recipe::Crt => Run::Crt {
            private: (private > 0).then(|| noisy(private)),
            public_passes: given(1),
            epochs: 2,
        },
        Recipe::Sdp => {
            let pass = (set.records.len() as u64).div_ceil(3);
            let spans = spans(set);
            let records = set.records.iter().zip(&spans);
            let states = records.map(|(r, spans)| released_states(r.tokens.len(), spans));
            Run::Sdp {
                selective: SelectiveSteps {
                    noise_multiplier: noise(0.8),
                    state_noise_multiplier: noise(1.3),
                    batch_size: given(3),
                    steps_per_epoch: pass,
                    steps: given(Steps::new(2 * pass)),
                    states: given(states.max().unwrap_or(0)),
                    every_content_caught: given(true),
                },
            }
        }
        Recipe::Jft => Run::Jft {
            first: direct(2),
            second: noisy(records),
        },
        Recipe::Protect => {
            let epoch = records.div_ceil(3);
            Run::Protect {
                weighted: WeightedSteps {
                    noise_multiplier: noise(0.8),
                    batch: given(3.0),
                    steps_per_epoch: epoch,
                    steps: given(Steps::new(2 * epoch)),
                    secret_rates: given(secret_rates(set.records.len()).dominating().to_vec()),
                    secrets: None,
                },
            }
        }
    }
}

/// Options of a recipe on [`set`]`(4, 8, 1)`, seeded, small.
pub(crate) fn options(recipe: Recipe) -> TrainOptions {
    options_on(recipe, &set(4, 8, 1))
}

/// Options of a recipe on this set, seeded, small.
pub(crate) fn options_on(recipe: Recipe, set: &TrainingSet) -> TrainOptions {
    let unit = UnitName::new(set.unit.to_string()).unwrap();
    let plan = TrainingPlan::new(run(recipe, set), unit);
    TrainOptions {
        private: (recipe != Recipe::Sgd).then_some(PrivateOptions::new(0.9, OPTIMIZERS[0])),
        state_norm: (recipe == Recipe::Sdp).then_some(0.4),
        initial_seed: 1,
        ..TrainOptions::new(plan, 4, OPTIMIZERS[1]).seeded(Some(3))
    }
}

/// A run whose state is more than weights and moments: an average of weights, dropout, noise and clipping norms that fall,
/// two augmentations of each record, DP-AdamBC; six epochs.
pub(crate) fn scheduled() -> TrainOptions {
    let mut options = for_epochs(options(Recipe::Dpsgd), 6);
    options.average = Some(0.9);
    options.dropout = Dropout::all(0.2).unwrap();
    let each = options.plan.run.steps_per_epoch().unwrap();
    if let Some(noisy) = options.plan.run.noisy_mut() {
        noisy.noise_decay = Some(StepDecay::new(0.8, each).unwrap());
    }
    if let Some(private) = &mut options.private {
        private.clip_decay = Some(StepDecay::new(0.9, 2 * each).unwrap());
        private.augmentations = 2;
        private.optimizer = OptimizerSpec::AdamBc {
            learning_rate: 0.02,
            floor: 1e-8,
        };
    }
    options
}

/// The same with so many epochs of its (last) phase.
pub(crate) fn for_epochs(mut options: TrainOptions, epochs: u64) -> TrainOptions {
    let all = |each: u64| Steps::new(epochs * each);
    match &mut options.plan.run {
        Run::Sgd { epochs: of, .. } => *of = given(epochs),
        Run::Crt {
            private,
            epochs: of,
            ..
        } => {
            *of = epochs;
            if let Some(private) = private {
                private.steps.value = all(private.steps_per_epoch);
            }
        }
        Run::Dpsgd { private }
        | Run::Jft {
            second: private, ..
        } => {
            private.steps.value = all(private.steps_per_epoch);
        }
        Run::Sdp { selective } => selective.steps.value = all(selective.steps_per_epoch),
        Run::Protect { weighted } => weighted.steps.value = all(weighted.steps_per_epoch),
        Run::Mechanism { .. } => panic!("not trainable"),
    }
    options
}

/// What a run released, were its randomness not drawn by a fixed seed.
pub(crate) fn unseeded(plan: &TrainingPlan) -> Mechanism {
    let plan = TrainingPlan {
        seeded: false,
        ..plan.clone()
    };
    plan.mechanism()
}

/// A finished run.
pub(crate) fn trained(options: &TrainOptions, corpus: &Corpus<'_>) -> Trained {
    let stop = AtomicBool::new(false);
    let surroundings = Surroundings::in_memory(&stop);
    train_on(model(), options, corpus, &surroundings, &mut |_| {}).unwrap()
}

pub(crate) fn weights(trained: &Trained) -> Vec<u32> {
    let weights = trained.trainer.weights().iter().flatten();
    weights.map(|w| w.to_bits()).collect()
}

//! Small corpora, models and options of every recipe.
#![allow(clippy::unwrap_used, reason = "a failing test should panic")]
#![allow(dead_code, reason = "no test uses all of it")]

use reticent_accounting::MissRate;
use reticent_accounting::confidentiality::RedactedAlike;
use reticent_backends::{
    Clipping, Corpus, Device, Dropout, Family, FirstPhase, FirstPhaseKind, LearningRates,
    LstmConfig, Model, OptimizerSpec, Precision, PrivateOptions, Recipe, SecretRates, Sensitive,
    StateOptions, Surroundings, TrainOptions, Trained, Trainer, TransformerConfig, lstm, open,
    train_on,
};
use reticent_corpus::{Record, Side, TrainingSet, Unit};
use std::ops::Range;
use std::sync::atomic::AtomicBool;

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
fn transformer(family: Family, device: Device) -> Box<dyn Trainer> {
    let config = TransformerConfig::new(family, VOCABULARY, 8, 1, 2, 16);
    let model = Model::from(config);
    open(&model, model.starting_weights(1), device).unwrap()
}

/// Every model the harness runs on, by name; a model joins by one line.
pub(crate) fn models() -> Vec<Made> {
    vec![
        ("lstm", || {
            lstm(&CONFIG, CONFIG.starting_weights(1), Device::Cpu).unwrap()
        }),
        ("lstm, exact", || {
            lstm(&CONFIG, CONFIG.starting_weights(1), Device::Exact).unwrap()
        }),
        ("gpt2", || transformer(Family::Gpt2, Device::Cpu)),
        ("gpt2, exact", || transformer(Family::Gpt2, Device::Exact)),
        ("llama", || transformer(Family::Llama, Device::Cpu)),
        ("gemma2", || transformer(Family::Gemma2, Device::Cpu)),
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
    };
    TrainingSet {
        unit: Unit::Turn,
        records: (0..public + private).map(record).collect(),
        mask_only,
    }
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

pub(crate) const LIGHT: FirstPhaseKind = FirstPhaseKind::LightNoise {
    noise_multiplier: 0.4,
    batch_size: 4,
    miss: (MissRate::ZERO, MissRate::ZERO),
};

/// Options of a recipe, seeded, small.
pub(crate) fn options(recipe: Recipe) -> TrainOptions {
    TrainOptions {
        recipe,
        epochs: 2,
        public_passes: 1,
        batch_size: 4,
        optimizer: OPTIMIZERS[1],
        private: (recipe != Recipe::Sgd).then_some(PrivateOptions {
            noise_multiplier: 0.8,
            clipping_norm: 0.9,
            clipping: Clipping::Flat,
            batch_size: 3,
            optimizer: OPTIMIZERS[0],
        }),
        first_phase: (recipe == Recipe::Jft).then_some(FirstPhase {
            epochs: 2,
            kind: FirstPhaseKind::Direct,
        }),
        states: (recipe == Recipe::Sdp).then_some(StateOptions {
            noise_multiplier: 1.3,
            norm: 0.4,
        }),
        precision: Precision::Single,
        dropout: Dropout::NONE,
        learning_rates: LearningRates::default(),
        stopping: None,
        initial_seed: 1,
        seed: Some(3),
    }
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

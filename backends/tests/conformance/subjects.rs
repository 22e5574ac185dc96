//! Engines, models, records, and what the tests ask of them.

use reticent_backends::Device;
use reticent_backends::engine::open;
use reticent_backends::model::{
    Biases, Family, LstmConfig, Model, Multipliers, Rotary, RotaryScaling, TransformerConfig,
};
use reticent_backends::oracle::exact;
use reticent_backends::privacy::{Clip, RunKey};
use reticent_backends::trainer::{Added, Dropout, Masks, Trainer, all_private, unprotected};
use reticent_corpus::{Record, Side, TokenId, TrainingSet, Unit};

pub(crate) const VOCABULARY: usize = 13;

/// What computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Processor,
    Exact,
    /// The first device beside the processor.
    #[cfg(any(feature = "cuda", feature = "wgpu"))]
    Card,
}

#[cfg(feature = "cuda")]
const CARD: Device = Device::Cuda(0);
#[cfg(all(feature = "wgpu", not(feature = "cuda")))]
const CARD: Device = Device::Wgpu(0);

/// The engines of this build, by name.
const ENGINES: &[(&str, Engine)] = &[
    ("cpu", Engine::Processor),
    ("exact", Engine::Exact),
    #[cfg(any(feature = "cuda", feature = "wgpu"))]
    ("device", Engine::Card),
];

/// One engine on one model.
pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) model: Model,
    pub(crate) engine: Engine,
    pub(crate) weights: Vec<Vec<f32>>,
    pub(crate) dropout: Dropout,
}

/// Different at each place.
const DROPOUT: Dropout = Dropout {
    embedding: 0.25,
    attention: 0.4,
    hidden: 0.3,
};

impl Subject {
    pub(crate) fn open(&self) -> Box<dyn Trainer> {
        self.with(self.weights.clone())
    }

    pub(crate) fn with(&self, weights: Vec<Vec<f32>>) -> Box<dyn Trainer> {
        self.on(weights, self.engine)
    }

    pub(crate) fn exact(&self) -> Box<dyn Trainer> {
        self.on(self.weights.clone(), Engine::Exact)
    }

    fn on(&self, weights: Vec<Vec<f32>>, engine: Engine) -> Box<dyn Trainer> {
        let mut model = match engine {
            Engine::Processor => open(&self.model, weights, Device::Cpu).unwrap(),
            Engine::Exact => exact(&self.model, weights).unwrap(),
            #[cfg(any(feature = "cuda", feature = "wgpu"))]
            Engine::Card => open(&self.model, weights, CARD).unwrap(),
        };
        model.drop_out(self.masks(5)).unwrap();
        model
    }

    /// The masks of a step.
    pub(crate) fn masks(&self, step: u64) -> Option<Masks> {
        Masks::new(&RunKey::from_seed(21), step, self.dropout)
    }

    /// How far this engine may be from the exact one, relative to the largest norm.
    pub(crate) fn tolerance(&self) -> f64 {
        if self.engine == Engine::Exact {
            1e-6
        } else {
            2e-5
        }
    }
}

/// Every engine of this build on every kind of model that predicts the next token, without and
/// with dropout.
pub(crate) fn subjects() -> Vec<Subject> {
    let mut out = Vec::new();
    for (name, model) in models() {
        for &(named, engine) in ENGINES {
            for (kind, dropout) in [("", Dropout::NONE), (" with dropout", DROPOUT)] {
                out.push(Subject {
                    name: format!("{name} on {named}{kind}"),
                    weights: weights(&model),
                    model: model.clone(),
                    engine,
                    dropout,
                });
            }
        }
    }
    out
}

/// Starting weights three times as large, so that gates, norms and caps are at work.
fn weights(model: &Model) -> Vec<Vec<f32>> {
    let mut weights = model.starting_weights(11);
    let transformer = matches!(model, Model::Transformer(_));
    for (w, p) in weights.iter_mut().zip(model.parameters()) {
        if transformer && p.shape.len() > 1 {
            w.iter_mut().for_each(|w| *w *= 8.0);
        }
    }
    weights
}

fn models() -> Vec<(&'static str, Model)> {
    let tiny = |family| TransformerConfig::new(family, VOCABULARY, 8, 2, 2, 24);
    let lstm = LstmConfig {
        vocabulary: VOCABULARY,
        embedding: 5,
        hidden: 6,
    };
    let llama = TransformerConfig {
        heads: 4,
        key_value_heads: 2,
        head_width: 4,
        rotary: Some(Rotary {
            scaling: Some(RotaryScaling::Linear { factor: 2.0 }),
            ..Rotary::new(100.0)
        }),
        ..tiny(Family::Llama)
    };
    let like = |family| TransformerConfig {
        family,
        switches: tiny(family).switches,
        ..llama.clone()
    };
    let mut qwen3 = like(Family::Qwen3);
    qwen3.switches.biases.attention_in = true;
    qwen3.switches.biases.attention_out = true;
    let mut biased = llama.clone();
    biased.switches.biases = Biases {
        head: false,
        ..Biases::ALL
    };
    let mut granite = like(Family::Granite);
    granite.switches.multipliers = Multipliers {
        embedding: 2.0,
        attention: Some(0.4),
        residual: 0.5,
        logits: 0.5,
    };
    let gemma = TransformerConfig {
        sliding_window: Some(3),
        attention_cap: Some(0.5),
        logit_cap: Some(0.7),
        tied: false,
        ..tiny(Family::Gemma2)
    };
    vec![
        ("lstm", lstm.into()),
        ("gpt2", tiny(Family::Gpt2).into()),
        ("llama", llama.clone().into()),
        ("llama with biases", biased.into()),
        ("qwen3", qwen3.into()),
        ("olmo2", like(Family::Olmo2).into()),
        ("granite", granite.into()),
        ("phi", tiny(Family::Phi).into()),
        ("gpt_neox", tiny(Family::GptNeox).into()),
        ("opt", tiny(Family::Opt).into()),
        ("gemma2", gemma.into()),
    ]
}

/// Records of 2 to 9 tokens: repeated tokens, equal records, the shortest there can be.
pub(crate) fn records() -> Vec<Vec<TokenId>> {
    vec![
        vec![1, 2],
        vec![5, 5, 5, 5, 5, 5],
        vec![7, 3, 9, 3, 7],
        vec![0, 4, 8, 1, 11, 2, 6, 10, 3],
        vec![7, 3, 9, 3, 7],
        vec![2, 1, 0],
    ]
}

pub(crate) fn set(records: &[Vec<TokenId>]) -> TrainingSet {
    let record = |tokens: &Vec<TokenId>| Record {
        side: Side::Private,
        tokens: tokens.clone(),
        sensitive: Vec::new(),
        label: None,
        ignored: Vec::new(),
    };
    TrainingSet {
        unit: Unit::Turn,
        records: records.iter().map(record).collect(),
        mask_only: 0,
    }
}

/// The sum of clipped gradients of records, added in these microbatches.
pub(crate) fn sum(
    model: &mut dyn Trainer,
    records: &[Vec<TokenId>],
    microbatches: &[&[u32]],
    clip: &Clip,
) -> (Vec<Vec<f32>>, Added) {
    let private = all_private(&set(records));
    let mut all = Added::default();
    model.begin();
    for indices in microbatches {
        let added = model.add(&private.batch(indices), clip).unwrap();
        all.examples += added.examples;
        all.clipped += added.clipped;
        all.rejected += added.rejected;
    }
    (model.accumulator().to_vec(), all)
}

/// The clipped gradient of one of the records alone, under its own number.
pub(crate) fn alone(
    model: &mut dyn Trainer,
    records: &[Vec<TokenId>],
    which: usize,
    clip: &Clip,
) -> Vec<Vec<f32>> {
    sum(model, records, &[&[which as u32]], clip).0
}

/// The public gradient of records, and their mean negative log-likelihood.
pub(crate) fn public(model: &mut dyn Trainer, records: &[Vec<TokenId>]) -> (Vec<Vec<f32>>, f64) {
    let everyone: Vec<u32> = (0..records.len() as u32).collect();
    let records = unprotected(&set(records));
    model.public_gradient(&records.batch(&everyone)).unwrap()
}

pub(crate) fn norm(x: &[Vec<f32>]) -> f64 {
    let squares = x.iter().flatten().map(|v| f64::from(*v).powi(2));
    squares.sum::<f64>().sqrt()
}

pub(crate) fn distance(a: &[Vec<f32>], b: &[Vec<f32>]) -> f64 {
    let pairs = a.iter().flatten().zip(b.iter().flatten());
    let squares = pairs.map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2));
    squares.sum::<f64>().sqrt()
}

pub(crate) fn bits(x: &[Vec<f32>]) -> Vec<Vec<u32>> {
    x.iter()
        .map(|v| v.iter().map(|v| v.to_bits()).collect())
        .collect()
}

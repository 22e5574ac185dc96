//! Shadow models: the audited model's architecture, trained here on halves of the records, for
//! LiRA and RMIA.

use super::membership::{scoring, watched};
use super::train::INITIAL_SEED;
use crate::audit::cli::DeviceArg;
use crate::contract::{Interrupt, Progress};
use anyhow::Result;
use reticent_attacks::{
    Lira, ScoreTable, Shadows, Spread, chosen, lira, logit_of_confidence, rmia,
};
use reticent_backends::{
    Corpus, Dropout, LearningRates, Model, OptimizerSpec, Precision, Recipe, Surroundings,
    TrainOptions, open, train_on,
};
use reticent_corpus::{Record, Side, TokenId, TrainingSet, Unit};
use std::collections::BTreeMap;

/// How shadow models are trained.
#[derive(Debug, Clone, Copy)]
pub(super) struct Training {
    /// Pairs of models: what one is trained on, the other is not.
    pub(super) pairs: u64,
    pub(super) epochs: u64,
    pub(super) learning_rate: f64,
    pub(super) seed: u64,
    pub(super) device: DeviceArg,
}

/// Where shadow models start: the reference, or fresh weights.
pub(super) struct Start<'a> {
    pub(super) model: &'a Model,
    pub(super) weights: Option<&'a [Vec<f32>]>,
}

/// Mean ln p per token of every record under every shadow model, by whether it was trained on it.
///
/// Records of one group are in or out together; each is in exactly one model of a pair.
pub(super) fn shadows(
    start: &Start<'_>,
    records: &[Vec<TokenId>],
    groups: &[String],
    training: Training,
    interrupt: &Interrupt,
) -> Result<Vec<Shadows>> {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for group in groups {
        let next = names.len();
        names.entry(group).or_insert(next);
    }
    let mut found = vec![Shadows::default(); records.len()];
    let progress = Progress::of(2 * training.pairs, "training shadow models", "models");
    for pair in 0..training.pairs {
        let half = chosen(
            names.len(),
            names.len() / 2,
            training.seed.wrapping_add(pair),
        );
        let first = |i: usize| half.binary_search(&names[groups[i].as_str()]).is_ok();
        for turn in [true, false] {
            let inside: Vec<bool> = (0..records.len()).map(|i| first(i) == turn).collect();
            let scores = one(start, records, &inside, training, interrupt)?;
            for ((shadow, score), inside) in found.iter_mut().zip(scores).zip(&inside) {
                if *inside {
                    shadow.inside.push(score);
                } else {
                    shadow.outside.push(score);
                }
            }
            progress.advance(1);
        }
    }
    Ok(found)
}

/// Mean ln p per token of all records under a model trained on some of them.
fn one(
    start: &Start<'_>,
    records: &[Vec<TokenId>],
    inside: &[bool],
    training: Training,
    interrupt: &Interrupt,
) -> Result<Vec<f64>> {
    let kept = records.iter().zip(inside).filter(|(_, inside)| **inside);
    let set = TrainingSet {
        unit: Unit::Document,
        records: kept
            .map(|(tokens, _)| Record {
                side: Side::Public,
                tokens: tokens.clone(),
                sensitive: Vec::new(),
            })
            .collect(),
        mask_only: 0,
    };
    let options = TrainOptions {
        recipe: Recipe::Sgd,
        epochs: training.epochs,
        public_passes: 1,
        batch_size: 8,
        optimizer: OptimizerSpec::Adam {
            learning_rate: training.learning_rate,
        },
        private: None,
        first_phase: None,
        states: None,
        precision: Precision::Single,
        dropout: Dropout::NONE,
        learning_rates: LearningRates::default(),
        stopping: None,
        initial_seed: INITIAL_SEED,
        seed: Some(training.seed),
    };
    let weights = match start.weights {
        Some(weights) => weights.to_vec(),
        None => start.model.starting_weights(training.seed),
    };
    let fresh = open(start.model, weights, training.device.into())?;
    let surroundings = Surroundings::in_memory(interrupt.flag());
    let trained = train_on(
        fresh,
        &options,
        &Corpus::plain(&set),
        &surroundings,
        &mut |_| {},
    );
    interrupt.check()?;
    let mut trained = trained?;
    let table = ScoreTable::of(
        trained.trainer.as_mut(),
        records.to_vec(),
        scoring(start.model.context()),
        &mut watched("scoring by a shadow model", interrupt),
    );
    interrupt.check()?;
    Ok(table?.losses()?)
}

/// LiRA with both kinds of shadow models: confidences exp(mean ln p) on the logit scale, one
/// spread for all records.
pub(super) fn lira_scores(targets: &[f64], shadows: &[Shadows]) -> Result<Vec<f64>> {
    // A confidence of 1 has no logit.
    let logit = |mean_ln_p: &f64| logit_of_confidence(mean_ln_p.min(-1e-9));
    let shadows: Vec<Shadows> = shadows
        .iter()
        .map(|s| Shadows {
            inside: s.inside.iter().map(logit).collect(),
            outside: s.outside.iter().map(logit).collect(),
        })
        .collect();
    let targets: Vec<f64> = targets.iter().map(logit).collect();
    Ok(lira(&targets, &shadows, Lira::Online, Spread::Shared)?)
}

/// RMIA, offline with a = 1 and γ = 1, all records as population: which of them are members does
/// not enter.
pub(super) fn rmia_scores(targets: &[f64], shadows: &[Shadows]) -> Result<Vec<f64>> {
    let without = |s: &Shadows| {
        let sum: f64 = s.outside.iter().map(|ln_p| ln_p.exp()).sum();
        (sum / s.outside.len() as f64).ln().min(0.0)
    };
    let population: Vec<(f64, f64)> = targets
        .iter()
        .zip(shadows)
        .map(|(target, shadow)| (target.min(0.0), without(shadow)))
        .collect();
    population
        .iter()
        .map(|&record| Ok(rmia(record, &population, 1.0, 1.0)?))
        .collect()
}

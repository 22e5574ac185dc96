//! Shadow models for LiRA and RMIA: the audited model's architecture, trained here on halves of the
//! records.

mod training;

pub(in crate::audit) use training::Training;

use crate::audit::membership::run::{scoring, watched};
use crate::contract::{Interrupt, Progress};
use anyhow::Result;
use reticent_attacks::membership::{
    Lira, ScoreTable, Shadows, Spread, chosen, lira, logit_of_confidence, rmia,
};
use reticent_backends::Device;
use reticent_backends::engine::open;
use reticent_backends::model::Model;
use reticent_backends::run::{Surroundings, train_on};
use reticent_backends::{Corpus, Schedule};
use reticent_corpus::{Record, Side, TokenId, TrainingSet, Unit};
use std::collections::BTreeMap;

/// Where shadow models start (the reference or fresh weights) and where they run.
pub(in crate::audit) struct Start<'a> {
    pub(in crate::audit) model: &'a Model,
    pub(in crate::audit) weights: Option<&'a [Vec<f32>]>,
    pub(in crate::audit) device: Device,
}

/// Returns the mean ln p per token of every record under every shadow model, by whether the model
/// was trained on it.
///
/// Records of one group are included or excluded together; each is in exactly one model of a pair.
pub(in crate::audit) fn shadows(
    start: &Start<'_>,
    records: &[Vec<TokenId>],
    groups: &[String],
    training: &Training,
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
            let number = 2 * pair + u64::from(turn);
            let scores = one(start, records, &inside, (training, number), interrupt)?;
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

/// Returns the mean ln p per token of all records under a model trained on some of them.
fn one(
    start: &Start<'_>,
    records: &[Vec<TokenId>],
    inside: &[bool],
    (training, number): (&Training, u64),
    interrupt: &Interrupt,
) -> Result<Vec<f64>> {
    let kept = records.iter().zip(inside).filter(|(_, inside)| **inside);
    let set = TrainingSet {
        unit: Unit::Document,
        records: kept
            .flat_map(|(tokens, _)| pieces(tokens, start.model.context()))
            .map(|tokens| Record {
                side: Side::Public,
                tokens,
                sensitive: Vec::new(),
                label: None,
                ignored: Vec::new(),
            })
            .collect(),
        mask_only: 0,
    };
    let mut options = training.of_number(number);
    let total = Schedule::new(&options, &set)?.total();
    options.learning_rates.warmup = options.learning_rates.warmup.min(total);
    let weights = match start.weights {
        Some(weights) => weights.to_vec(),
        None => start
            .model
            .starting_weights(training.seed.wrapping_add(number)),
    };
    let fresh = open(start.model, weights, start.device)?;
    let surroundings = Surroundings::in_memory(interrupt.flag());
    let trained = train_on(
        fresh,
        &options,
        &Corpus::plain(&set),
        &surroundings,
        &mut |_| {},
    );
    let mut trained = interrupt.unless_raised(trained)?;
    let table = ScoreTable::of(
        trained.trainer.as_mut(),
        records.to_vec(),
        scoring(start.model.context()),
        &mut watched("scoring by a shadow model", interrupt),
    );
    Ok(interrupt.unless_raised(table)?.losses()?)
}

/// Splits a record into pieces that the model can read, each beginning with the last token of the
/// previous one.
fn pieces(tokens: &[TokenId], context: Option<usize>) -> Vec<Vec<TokenId>> {
    let most = context.unwrap_or(usize::MAX).max(2);
    if tokens.len() <= most {
        return vec![tokens.to_vec()];
    }
    (0..tokens.len() - 1)
        .step_by(most - 1)
        .map(|from| tokens[from..tokens.len().min(from + most)].to_vec())
        .collect()
}

/// Returns the scores of LiRA with both kinds of shadow models: confidences exp(mean ln p) on the
/// logit scale, and one variance for all records.
pub(in crate::audit) fn lira_scores(
    targets: &[f64],
    shadows: &[Shadows],
) -> reticent_attacks::Result<Vec<f64>> {
    let logit = |mean_ln_p: &f64| logit_of_confidence(*mean_ln_p);
    let shadows: Vec<Shadows> = shadows
        .iter()
        .map(|s| Shadows {
            inside: s.inside.iter().map(logit).collect(),
            outside: s.outside.iter().map(logit).collect(),
        })
        .collect();
    let targets: Vec<f64> = targets.iter().map(logit).collect();
    lira(&targets, &shadows, Lira::Online, Spread::Shared)
}

/// Returns the scores of RMIA, offline with a = 1 and γ = 1 and with all records as population,
/// regardless of membership.
pub(in crate::audit) fn rmia_scores(
    targets: &[f64],
    shadows: &[Shadows],
) -> reticent_attacks::Result<Vec<f64>> {
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
        .map(|&record| rmia(record, &population, 1.0, 1.0))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_records_are_cut_without_losing_a_prediction() {
        let tokens: Vec<TokenId> = (0..10).collect();
        let whole = std::slice::from_ref(&tokens);
        assert_eq!(pieces(&tokens, None), whole);
        assert_eq!(pieces(&tokens, Some(10)), whole);
        let cut = pieces(&tokens, Some(4));
        assert_eq!(cut, [vec![0, 1, 2, 3], vec![3, 4, 5, 6], vec![6, 7, 8, 9]]);
        for context in 2..12 {
            let cut = pieces(&tokens, Some(context));
            let predicted: Vec<TokenId> = cut.iter().flat_map(|p| p[1..].to_vec()).collect();
            assert_eq!(predicted, tokens[1..]);
            assert!(cut.iter().all(|p| (2..=context).contains(&p.len())));
        }
    }
}

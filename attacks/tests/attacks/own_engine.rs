//! A training engine of one's own, written with what the crates export: a bigram model that private steps train and
//! attacks read.

use reticent_accounting::training::{Run, Stated, TrainingPlan};
use reticent_accounting::{NoiseMultiplier, UnitName};
use reticent_attacks::extract::generate_greedily;
use reticent_backends::model::{LstmConfig, Model};
use reticent_backends::privacy::{ChaChaNoise, Clip, Ledger, Noise, PrivateStep, RunKey, Step};
use reticent_backends::run::{Surroundings, train};
use reticent_backends::trainer::{
    Added, Example, Optimizer, OptimizerSpec, Parameter, PrivateBatch, Privatized, PublicBatch,
    Trainer, Update, all_private, unprotected,
};
use reticent_backends::{
    Error, Local, PrefixScorer, Result, Scorer, StateId, TokenScore, TrainOptions,
};
use reticent_corpus::{Record, Side, TokenId, TrainingSet, Unit};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const VOCABULARY: usize = 6;

/// ln p(next | last) is the log-softmax of row `last` of one table of weights.
struct Bigram {
    parameters: Vec<Parameter>,
    weights: Vec<Vec<f32>>,
    sum: Vec<Vec<f32>>,
    context: Option<usize>,
}

impl Bigram {
    fn new(context: Option<usize>) -> Self {
        let table = Parameter {
            name: "table".to_owned(),
            shape: vec![VOCABULARY, VOCABULARY],
        };
        Self {
            weights: vec![vec![0.0; table.len()]],
            sum: vec![vec![0.0; table.len()]],
            parameters: vec![table],
            context,
        }
    }

    fn known(token: TokenId) -> Result<usize> {
        match token as usize {
            known if known < VOCABULARY => Ok(known),
            _ => Err(Error::UnknownToken {
                token,
                size: VOCABULARY,
            }),
        }
    }

    fn row(&self, last: TokenId) -> Result<Vec<f64>> {
        let start = Self::known(last)? * VOCABULARY;
        let row = self.weights[0][start..start + VOCABULARY].iter();
        let row: Vec<f64> = row.map(|w| f64::from(*w)).collect();
        let all = row.iter().map(|w| w.exp()).sum::<f64>().ln();
        Ok(row.iter().map(|w| w - all).collect())
    }

    /// Returns the gradient of an example's summed negative log-likelihood, that sum, and how many tokens it is over.
    fn gradient(&self, example: &Example<'_>) -> Result<(Vec<f32>, f64, usize)> {
        let tokens = example.tokens();
        let without_loss: Vec<usize> = example.unlearned().collect();
        let mut gradient = vec![0.0; VOCABULARY * VOCABULARY];
        let (mut loss, mut count) = (0.0, 0);
        for at in (1..tokens.len()).filter(|at| !without_loss.contains(at)) {
            let row = self.row(tokens[at - 1])?;
            let (last, next) = (tokens[at - 1] as usize, Self::known(tokens[at])?);
            for (token, ln_p) in row.iter().enumerate() {
                let certain = f64::from(u8::from(token == next));
                gradient[last * VOCABULARY + token] += (ln_p.exp() - certain) as f32;
            }
            loss -= row[next];
            count += 1;
        }
        Ok((gradient, loss, count))
    }
}

impl Scorer for Bigram {
    fn vocabulary_size(&self) -> usize {
        VOCABULARY
    }
    fn score(&mut self, sequences: &[Vec<TokenId>]) -> Result<Vec<Vec<TokenScore>>> {
        let one = |pair: &[TokenId]| {
            let row = self.row(pair[0])?;
            let weighted = |f: fn(f64) -> f64| row.iter().map(|ln| ln.exp() * f(*ln)).sum::<f64>();
            let mean = weighted(|ln| ln);
            let top = (0..VOCABULARY).fold(0, |top, i| if row[i] > row[top] { i } else { top });
            Ok(TokenScore {
                log_probability: row[Self::known(pair[1])?],
                mean,
                variance: weighted(|ln| ln * ln) - mean * mean,
                top_token: top as TokenId,
                top_log_probability: row[top],
            })
        };
        let each = sequences.iter();
        each.map(|tokens| tokens.windows(2).map(one).collect())
            .collect()
    }
}

/// The state after a prefix is its last token.
impl PrefixScorer for Bigram {
    fn start(&mut self, prefixes: &[Vec<TokenId>]) -> Result<Vec<StateId>> {
        let last = |(index, prefix): (usize, &Vec<TokenId>)| match prefix.last() {
            Some(last) => Ok(StateId(u64::from(*last))),
            None => Err(Error::TooShort {
                index,
                length: 0,
                least: 1,
            }),
        };
        prefixes.iter().enumerate().map(last).collect()
    }
    fn extend(&mut self, steps: &[(StateId, TokenId)]) -> Result<Vec<StateId>> {
        let next = |(_, token): &(StateId, TokenId)| StateId(u64::from(*token));
        Ok(steps.iter().map(next).collect())
    }
    fn next_log_probabilities(
        &mut self,
        states: &[StateId],
        wanted: &[TokenId],
    ) -> Result<Vec<f64>> {
        let mut all = Vec::with_capacity(states.len() * wanted.len());
        for state in states {
            let row = self.row(state.0 as TokenId)?;
            for token in wanted {
                all.push(row[Self::known(*token)?]);
            }
        }
        Ok(all)
    }
    fn release(&mut self, _: &[StateId]) {}
}

impl Trainer for Bigram {
    /// No described architecture is a bigram. Steps don't ask, and runs refuse the engine.
    fn model(&self) -> Model {
        Model::Lstm(LstmConfig {
            vocabulary: VOCABULARY,
            embedding: 1,
            hidden: 1,
        })
    }
    fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }
    fn weights(&self) -> &[Vec<f32>] {
        &self.weights
    }
    fn set_weights(&mut self, weights: Vec<Vec<f32>>) -> Result<()> {
        self.weights = weights;
        Ok(())
    }
    fn groups(&self) -> &[usize] {
        &[0]
    }
    fn norm_margin(&self) -> f64 {
        1e-6
    }
    fn device_kind(&self) -> &'static str {
        "cpu"
    }
    fn context(&self) -> Option<usize> {
        self.context
    }
    fn public_gradient(&mut self, batch: &PublicBatch<'_>) -> Result<(Vec<Vec<f32>>, f64)> {
        let mut sum = vec![0.0; VOCABULARY * VOCABULARY];
        let (mut loss, mut count) = (0.0, 0);
        for example in batch.examples() {
            let (gradient, nll, tokens) = self.gradient(&example)?;
            sum.iter_mut().zip(gradient).for_each(|(sum, g)| *sum += g);
            (loss, count) = (loss + nll, count + tokens);
        }
        let count = count.max(1) as f64;
        sum.iter_mut().for_each(|g| *g /= count as f32);
        Ok((vec![sum], loss / count))
    }
    fn begin(&mut self) {
        self.sum = vec![vec![0.0; VOCABULARY * VOCABULARY]];
    }
    fn add(&mut self, batch: &PrivateBatch<'_>, clip: &Clip) -> Result<Added> {
        let mut added = Added::default();
        for example in batch.examples() {
            let (gradient, _, _) = self.gradient(&example)?;
            added += clip.add(&[gradient], &[0], &mut self.sum)?;
        }
        Ok(added)
    }
    fn accumulator(&mut self) -> &mut [Vec<f32>] {
        &mut self.sum
    }
    fn apply(&mut self, gradient: Privatized, update: &mut dyn Update) -> Result<()> {
        update.update(&mut self.weights, &gradient.into_host()?);
        Ok(())
    }
    fn apply_public(&mut self, gradient: Vec<Vec<f32>>, update: &mut dyn Update) -> Result<()> {
        update.update(&mut self.weights, &gradient);
        Ok(())
    }
}

/// Records in which each token is followed by the next number, of these lengths.
fn set(lengths: &[usize]) -> TrainingSet {
    let record = |(first, length): (usize, &usize)| Record {
        side: Side::Private,
        tokens: (first..first + length)
            .map(|token| (token % VOCABULARY) as TokenId)
            .collect(),
        sensitive: Vec::new(),
        label: None,
        ignored: Vec::new(),
    };
    TrainingSet {
        unit: Unit::Turn,
        records: lengths.iter().enumerate().map(record).collect(),
        mask_only: 0,
    }
}

fn constants(noise: f64, expected_batch: f64) -> PrivateStep {
    PrivateStep {
        noise_multiplier: NoiseMultiplier::new(noise).unwrap(),
        clip: Clip::new(1.0, Bigram::new(None).norm_margin()).unwrap(),
        expected_batch,
        augmentations: 1,
    }
}

/// Forty steps at σ = 0.5 over sixty records, seed 1: noise of 0.5/60 in each value moves no first choice.
#[test]
fn an_engine_of_ones_own_learns_by_private_steps() {
    let records = all_private(&set(&[5; 60]));
    let held_out = unprotected(&set(&[7; 6]));
    let everyone: Vec<u32> = (0..60).collect();
    let mut engine = Bigram::new(None);
    let loss = |engine: &mut Bigram| {
        let batch = held_out.batch(&[0, 1, 2, 3, 4, 5]);
        engine.public_gradient(&batch).unwrap().1
    };
    assert!((loss(&mut engine) - (VOCABULARY as f64).ln()).abs() < 1e-9);
    let rate = OptimizerSpec::Sgd {
        learning_rate: 2.0,
        momentum: 0.0,
    };
    let mut update = Optimizer::new(rate, &[VOCABULARY * VOCABULARY]);
    let mut noise = ChaChaNoise::new(RunKey::from_seed(1));
    let mut ledger = Ledger::in_memory();
    for index in 0..40 {
        let mut step = Step::begin(&mut engine, constants(0.5, 60.0), index).unwrap();
        step.add(&records.batch(&everyone)).unwrap();
        let added = step.finish(&mut noise, &mut Local, &mut update, &mut ledger);
        assert_eq!(added.unwrap().examples, 60);
    }
    assert_eq!(ledger.private_steps(), 40);
    let after = loss(&mut engine);
    assert!(after < 0.5, "{after}");
    let generated = generate_greedily(&mut engine, &[vec![4]], 3).unwrap();
    assert_eq!(generated, [[5, 0, 1]]);
}

struct Silent;

impl Noise for Silent {
    fn add(&mut self, _: u64, _: usize, _: f64, _: &mut [f32]) {}
}

/// Keeps the gradient, and leaves the weights as they are.
struct Kept(Vec<f32>);

impl Update for Kept {
    fn update(&mut self, _: &mut [Vec<f32>], gradients: &[Vec<f32>]) {
        self.0 = gradients.concat();
    }
}

fn released(set: &TrainingSet, context: Option<usize>, batch: &[u32]) -> Vec<f32> {
    let mut engine = Bigram::new(context);
    let mut kept = Kept(Vec::new());
    let mut step = Step::begin(&mut engine, constants(1.0, 1.0), 0).unwrap();
    step.add(&all_private(set).batch(batch)).unwrap();
    step.finish(&mut Silent, &mut Local, &mut kept, &mut Ledger::in_memory())
        .unwrap();
    kept.0
}

/// With a record more the sum moves by at most the clipping norm, also if the record is read in several windows, and not
/// at all if none of its tokens carries loss.
#[test]
fn a_record_moves_the_sum_of_an_own_engine_by_the_clipping_norm_at_most() {
    let mut set = set(&[5, 2, 30, 4, 12]);
    set.records[3].ignored = std::iter::once(0..4).collect();
    for context in [None, Some(3)] {
        for extra in 0..5 {
            let without: Vec<u32> = (0..5).filter(|i| *i != extra).collect();
            let pair = [
                released(&set, context, &[0, 1, 2, 3, 4]),
                released(&set, context, &without),
            ];
            let apart = pair[0].iter().zip(&pair[1]);
            let squares = apart.map(|(a, b)| f64::from(a - b).powi(2));
            let moved = squares.sum::<f64>().sqrt();
            // The sums round in f32.
            assert!(moved <= 1.0 + 1e-5, "{extra}: {moved}");
            assert_eq!(moved > 0.5, extra != 3, "{extra}: {moved}");
        }
    }
}

/// A checkpoint names the architecture: what an engine of another one learned could not be read again.
#[test]
fn runs_refuse_an_engine_of_another_architecture() {
    let epochs = Run::Sgd {
        epochs: Stated::given(1, "test"),
        steps: None,
    };
    let plan = TrainingPlan::new(epochs, UnitName::new("turn").unwrap());
    let optimizer = OptimizerSpec::Adam {
        learning_rate: 0.01,
    };
    let options = TrainOptions::new(plan, 2, optimizer);
    let stop = AtomicBool::new(false);
    let surroundings = Surroundings {
        state: None,
        snapshot_every: Duration::from_secs(60),
        stop: &stop,
        at_epoch: None,
    };
    let engine = Box::new(Bigram::new(None));
    let refused = train(engine, &options, &set(&[5; 4]), &surroundings, &mut |_| {});
    let error = refused.err().unwrap();
    assert!(error.to_string().contains("other parameters"), "{error}");
}

//! Checks whether a recipe keeps its declared sensitivity, by two runs on neighbouring inputs with the same randomness.
//!
//! A run on D is recorded: every value before noise is added to it, and the noised value. A run on a neighbour D' is
//! then replayed against the record: each of its noised values is replaced by the recorded one. Everything else that it
//! computes, weights included, must then be bit-identical; otherwise information about the neighbour bypassed the
//! noise. The values before noise may differ by the declared sensitivity, and the draws must agree in number, length
//! and standard deviation. Workers that share a run are replayed as threads. The idea is from Cebere et al. 2026;
//! replacing the releases is ours.

use crate::collective::Threads;
use crate::error::{Error, Result};
use crate::material::Corpus;
use crate::privacy::random::{ChaChaNoise, Noise, RunKey};
use crate::recipe::{Schedule, TrainOptions, Work};
use crate::run::{Run, Surroundings, Workers, held_out, own_key};
use crate::trainer::Trainer;
use reticent_accounting::Neighbours;
use reticent_accounting::training::Run as TrainRun;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The result of a replay.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// The number of sums and states that were noised on D.
    pub releases: usize,
    /// The number of calls for noise on D, and on the neighbour.
    pub draws: (usize, usize),
    /// Whether both runs asked for the same noise: the same steps, tensors, lengths and standard deviations.
    pub same_flow: bool,
    /// Whether both runs ended with bit-identical weights, given the same releases.
    pub same_weights: bool,
    /// The largest distance between values before noise, over the distance that the neighbouring relation allows: the
    /// declared sensitivity, or twice that for replacement.
    pub largest: f64,
}

impl Replay {
    /// Returns whether the declared sensitivity was kept and nothing bypassed the noise. A relative error of 1e-5 is
    /// allowed for the arithmetic of sums.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.same_flow && self.same_weights && self.largest <= 1.0 + 1e-5
    }
}

/// One call for noise.
#[derive(Debug, Clone)]
struct Draw {
    std: f64,
    before: Vec<f32>,
    after: Vec<f32>,
}

/// The calls for noise by step and tensor.
type Tape = BTreeMap<(u64, usize), Draw>;

#[derive(Default)]
struct Reel {
    tape: Tape,
    /// The number of calls that repeat one on the tape.
    repeated: usize,
}

fn open(reel: &Mutex<Reel>) -> MutexGuard<'_, Reel> {
    reel.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A noise source that records its calls and, where it has the tape of another run, returns that run's noised values.
struct Recorder {
    noise: ChaChaNoise,
    forced: Option<Arc<Tape>>,
    reel: Arc<Mutex<Reel>>,
}

impl Noise for Recorder {
    fn add(&mut self, step: u64, tensor: usize, std: f64, values: &mut [f32]) {
        let before = values.to_vec();
        self.noise.add(step, tensor, std, values);
        let forced = self.forced.as_ref().and_then(|t| t.get(&(step, tensor)));
        if let Some(forced) = forced.filter(|f| f.after.len() == values.len()) {
            values.copy_from_slice(&forced.after);
        }
        let after = values.to_vec();
        let draw = Draw { std, before, after };
        let mut reel = open(&self.reel);
        let old = reel.tape.insert((step, tensor), draw);
        reel.repeated += usize::from(old.is_some());
    }
}

struct Recorded {
    reel: Reel,
    weights: Vec<Vec<f32>>,
    schedule: Schedule,
    tensors: usize,
}

/// Makes a fresh model.
type Make<'a> = dyn Fn() -> Result<Box<dyn Trainer>> + 'a;

/// Records a run: of one process, or of so many workers, as rank 0 sees it.
fn recorded(
    make: &Make<'_>,
    options: &TrainOptions,
    corpus: &Corpus<'_>,
    forced: Option<&Arc<Tape>>,
    workers: Option<usize>,
) -> Result<Recorded> {
    let Some(world) = workers else {
        return one(make()?, options, corpus, forced, None);
    };
    let trainers = (0..world).map(|_| make()).collect::<Result<Vec<_>>>()?;
    std::thread::scope(|scope| {
        let pairs = trainers.into_iter().zip(Threads::of(world));
        let ranks = pairs.map(|(trainer, collective)| {
            let workers = Workers::together(Box::new(collective));
            scope.spawn(move || one(trainer, options, corpus, forced, Some(workers)))
        });
        // All of them are started before the first is waited for.
        let ranks: Vec<_> = ranks.collect();
        let mut ended = ranks.into_iter().map(|rank| {
            let panicked = |_| Err(Error::Worker("a worker panicked".into()));
            rank.join().unwrap_or_else(panicked)
        });
        let first = ended
            .next()
            .unwrap_or_else(|| Err(Error::Worker("there must be at least one worker".into())))?;
        for other in ended {
            if !same_bits(&first.weights, &other?.weights) {
                return Err(Error::Worker("two workers have different weights".into()));
            }
        }
        Ok(first)
    })
}

fn one(
    mut trainer: Box<dyn Trainer>,
    options: &TrainOptions,
    corpus: &Corpus<'_>,
    forced: Option<&Arc<Tape>>,
    workers: Option<Workers>,
) -> Result<Recorded> {
    let options = options.clone().validated()?;
    let schedule = Schedule::of(&options, corpus)?;
    let reel = Arc::new(Mutex::new(Reel::default()));
    let recorder = |key: &RunKey| -> Box<dyn Noise> {
        Box::new(Recorder {
            noise: ChaChaNoise::new(key.clone()),
            forced: forced.cloned(),
            reel: reel.clone(),
        })
    };
    let key = own_key(None, options.seed)?;
    trainer.compute_in(options.precision)?;
    let held_out = held_out(corpus, &options, trainer.as_ref())?;
    let mut run = Run::new(trainer, options, schedule, held_out, None, key, &recorder)?;
    if let Some(workers) = workers {
        run.workers = workers;
    }
    let stop = AtomicBool::new(false);
    run.finish(corpus, &Surroundings::in_memory(&stop), &mut |_| {})?;
    let kept = std::mem::take(&mut *open(&reel));
    Ok(Recorded {
        reel: kept,
        tensors: run.trainer.parameters().len(),
        weights: run.trainer.weights().to_vec(),
        schedule: run.schedule,
    })
}

/// Runs a recipe on a corpus and on its neighbour, and compares the two runs.
///
/// `make` must create the same fresh model each time. `neighbour` differs from `corpus` as `neighbours` says and in
/// nothing that the schedule depends on, |D_pri| included: an additional record takes the place of a point that is only
/// `<MASK>`. The options must hold a seed.
///
/// # Errors
/// As [`crate::run::train_on`]; also for options without a seed.
pub fn replay(
    make: &dyn Fn() -> Result<Box<dyn Trainer>>,
    options: &TrainOptions,
    corpus: &Corpus<'_>,
    neighbour: &Corpus<'_>,
    neighbours: Neighbours,
) -> Result<Replay> {
    compared(make, options, [corpus, neighbour], neighbours, [None; 2])
}

/// Compares a run on each corpus, of so many workers each.
fn compared(
    make: &Make<'_>,
    options: &TrainOptions,
    corpora: [&Corpus<'_>; 2],
    neighbours: Neighbours,
    workers: [Option<usize>; 2],
) -> Result<Replay> {
    if options.seed.is_none() {
        return Err(Error::Unsuitable(
            "a replay needs a seed: both runs must draw the same".into(),
        ));
    }
    let here = recorded(make, options, corpora[0], None, workers[0])?;
    let tape = Arc::new(here.reel.tape);
    let there = recorded(make, options, corpora[1], Some(&tape), workers[1])?;
    let allowed = match neighbours {
        Neighbours::Replace => 2.0,
        _ => 1.0,
    };
    let distances = distances(&tape, &there.reel.tape, here.tensors);
    let mut largest: f64 = 0.0;
    for (&(step, state), (distance, std)) in &distances {
        let sigma = noise_multiplier(&here.schedule, options, step, state.is_some());
        let share = distance.sqrt() / (std / sigma * allowed);
        // NaN counts as a violation
        largest = if share.is_nan() {
            f64::INFINITY
        } else {
            largest.max(share)
        };
    }
    let draws = (
        tape.len() + here.reel.repeated,
        there.reel.tape.len() + there.reel.repeated,
    );
    Ok(Replay {
        releases: distances.len(),
        draws,
        same_flow: draws.0 == draws.1
            && here.reel.repeated == 0
            && same_flow(&tape, &there.reel.tape),
        same_weights: same_bits(&here.weights, &there.weights),
        largest,
    })
}

fn same_flow(a: &Tape, b: &Tape) -> bool {
    a.len() == b.len()
        && a.iter().zip(b).all(|((place, x), (other, y))| {
            let shape = x.before.len() == y.before.len();
            place == other && shape && x.std.to_bits() == y.std.to_bits()
        })
}

fn same_bits(a: &[Vec<f32>], b: &[Vec<f32>]) -> bool {
    let bits = |w: &[Vec<f32>]| w.iter().flatten().map(|x| x.to_bits()).collect::<Vec<_>>();
    bits(a) == bits(b)
}

/// Returns the squared distance and the noise's standard deviation for each release. All weights of a step are one
/// release; each state is one.
fn distances(a: &Tape, b: &Tape, tensors: usize) -> BTreeMap<(u64, Option<usize>), (f64, f64)> {
    let mut out = BTreeMap::new();
    let nothing = Vec::new();
    for (&(step, tensor), draw) in a {
        let other = b.get(&(step, tensor)).map_or(&nothing, |d| &d.before);
        let pairs = draw.before.iter().zip(other);
        let squared: f64 = pairs
            .map(|(x, y)| (f64::from(*x) - f64::from(*y)).powi(2))
            .sum();
        let state = (tensor >= tensors).then_some(tensor);
        let sum = out.entry((step, state)).or_insert((0.0, draw.std));
        sum.0 += squared;
    }
    out
}

/// Returns σ of a release: that of its stage, or of the states.
fn noise_multiplier(schedule: &Schedule, options: &TrainOptions, step: u64, state: bool) -> f64 {
    if let (true, TrainRun::Sdp { selective }) = (state, &options.plan.run) {
        return selective.state_noise_multiplier.get();
    }
    let stages = schedule.stages.iter().enumerate();
    let mut found = f64::NAN;
    for (number, stage) in stages {
        let end = stage.first_index + schedule.steps_of(number);
        if (stage.first_index..end).contains(&step)
            && let Work::Private { constants, .. } | Work::Selective { constants, .. } = &stage.work
        {
            let sigma = constants.at(step - stage.first_index, 0.0);
            found = sigma.map_or(f64::NAN, |at| at.noise_multiplier.get());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::engine::lstm;
    use crate::model::LstmConfig;
    use crate::recipe::PrivateOptions;
    use crate::trainer::learning_rate::LearningRates;
    use crate::trainer::optimizer::OptimizerSpec;
    use reticent_accounting::training::{NoisySteps, StepDecay, TrainingPlan};
    use reticent_accounting::{Mechanism, UnitName};
    use reticent_corpus::{Record, Side, TrainingSet, Unit};

    /// Records of three lengths, of which one has other tokens.
    fn set(other: Option<u32>) -> TrainingSet {
        TrainingSet {
            unit: Unit::Turn,
            records: (0..8)
                .map(|i| Record {
                    side: Side::Private,
                    tokens: (0..6 + i % 3)
                        .map(|t| (i + t * t + u32::from(other == Some(i))) % 10)
                        .collect(),
                    sensitive: Vec::new(),
                    label: None,
                    ignored: Vec::new(),
                })
                .collect(),
            mask_only: 0,
        }
    }

    /// Four steps an epoch, five epochs, the last cut short: the noise falls after every two.
    fn falling() -> NoisySteps {
        let mut private = NoisySteps::poisson(1.6, 0.25, 5).unwrap();
        private.steps.value = reticent_accounting::Steps::new(18);
        private.noise_decay = Some(StepDecay::new(0.5, 8).unwrap());
        private
    }

    fn options(private: NoisySteps) -> TrainOptions {
        let optimizer = OptimizerSpec::Sgd {
            learning_rate: 0.1,
            momentum: 0.0,
        };
        let run = TrainRun::Dpsgd { private };
        let plan = TrainingPlan::new(run, UnitName::new("turn").unwrap());
        TrainOptions {
            private: Some(PrivateOptions {
                clip_decay: Some(StepDecay::new(0.5, 6).unwrap()),
                ..PrivateOptions::new(0.8, optimizer)
            }),
            learning_rates: LearningRates::CONSTANT,
            ..TrainOptions::new(plan, 4, optimizer).seeded(Some(1))
        }
    }

    const CONFIG: LstmConfig = LstmConfig {
        vocabulary: 10,
        embedding: 3,
        hidden: 3,
    };

    fn fast() -> Result<Box<dyn Trainer>> {
        lstm(&CONFIG, CONFIG.starting_weights(1), Device::Cpu)
    }

    /// The union of what workers add is the batch that one process adds, in the engine and in its oracle: given the same
    /// releases, their sums are its sums but for rounding, and a neighbour moves them no further than its.
    #[test]
    fn workers_add_the_batch_of_one_process() {
        fn oracle() -> Result<Box<dyn Trainer>> {
            crate::oracle::exact(&CONFIG.into(), CONFIG.starting_weights(1))
        }
        let (here, there, options) = (set(None), set(Some(3)), options(falling()));
        let (here, there) = (Corpus::plain(&here), Corpus::plain(&there));
        for make in [fast, oracle] {
            let found = |other, neighbours, workers| {
                compared(&make, &options, [&here, other], neighbours, workers).unwrap()
            };
            for world in [1, 2, 4, 8] {
                let same = found(&here, Neighbours::ZeroOut, [None, Some(world)]);
                assert!(same.holds() && same.largest < 1e-5, "{world}: {same:?}");
                let moved = found(&there, Neighbours::Replace, [Some(world); 2]);
                assert!(moved.holds() && moved.largest > 1e-4, "{world}: {moved:?}");
            }
        }
    }

    /// The deviation of the noise of each step is the noise multiplier that the mechanism of the plan has for it, times
    /// the clipping norm of that step.
    #[test]
    fn the_noise_that_is_drawn_is_the_noise_that_is_accounted() {
        let (set, private) = (set(None), falling());
        let mechanism = private.mechanism();
        let Mechanism::Sequence { parts } = mechanism else {
            panic!("{mechanism:?}");
        };
        let mut accounted = Vec::new();
        for part in &parts {
            let Mechanism::Repeat { times, each } = part else {
                panic!("{part:?}");
            };
            let Mechanism::SubsampledGaussian {
                noise_multiplier, ..
            } = **each
            else {
                panic!("{each:?}");
            };
            accounted.extend((0..times.get()).map(|_| noise_multiplier.get()));
        }
        let expected: Vec<f64> = [[1.6; 8].as_slice(), &[0.8; 8], &[0.4; 2]].concat();
        assert_eq!(accounted, expected);

        let options = options(private);
        let ran = recorded(&fast, &options, &Corpus::plain(&set), None, None).unwrap();
        assert_eq!(ran.reel.tape.len(), 18 * ran.tensors);
        for ((step, _), draw) in &ran.reel.tape {
            let norm = [0.8, 0.4, 0.2][*step as usize / 6];
            let expected = accounted[*step as usize] * norm;
            assert!((draw.std - expected).abs() < 1e-15, "{step}: {}", draw.std);
        }
    }
}

//! What a private step must do whatever the data: noise always, fixed divisor, declared sensitivity.

use reticent_accounting::{NoiseMultiplier, SamplingRate};
use reticent_backends::engine::lstm;
use reticent_backends::model::LstmConfig;
use reticent_backends::privacy::{
    ChaChaNoise, Clip, Ledger, Noise, PoissonSampler, PrivateStep, RunKey, Sampler, Step,
};
use reticent_backends::trainer::{Trainer, Update, all_private};
use reticent_backends::{Collective, Device, Local, Threads};
use reticent_corpus::{Record, Side, TrainingSet, Unit};

const CONFIG: LstmConfig = LstmConfig {
    vocabulary: 9,
    embedding: 6,
    hidden: 8,
};

fn set(count: u32) -> TrainingSet {
    let records = (0..count)
        .map(|i| Record {
            side: Side::Private,
            tokens: (0..3 + i % 5).map(|t| (i * 7 + t * 3) % 9).collect(),
            sensitive: Vec::new(),
            label: None,
            ignored: Vec::new(),
        })
        .collect();
    TrainingSet {
        unit: Unit::Turn,
        records,
        mask_only: 0,
    }
}

fn model() -> Box<dyn Trainer> {
    lstm(&CONFIG, CONFIG.starting_weights(1), Device::Cpu).unwrap()
}

/// Keeps the last privatised gradient instead of moving weights.
struct Record0(Vec<f32>);

impl Update for Record0 {
    fn update(&mut self, _: &mut [Vec<f32>], gradients: &[Vec<f32>]) {
        self.0 = gradients.concat();
    }
}

struct Silent;

impl Noise for Silent {
    fn add(&mut self, _: u64, _: usize, _: f64, _: &mut [f32]) {}
}

fn release(count: u32, batch: &[u32], noise: &mut dyn Noise, expected: f64, step: u64) -> Vec<f32> {
    let mut model = model();
    let records = all_private(&set(count));
    let constants = PrivateStep {
        noise_multiplier: NoiseMultiplier::new(1.5).unwrap(),
        clip: Clip::new(0.7, 1e-5).unwrap(),
        expected_batch: expected,
        augmentations: 1,
    };
    let mut out = Record0(Vec::new());
    let mut ledger = Ledger::in_memory();
    let mut private = Step::begin(model.as_mut(), constants, step).unwrap();
    private.add(&records.batch(batch)).unwrap();
    private
        .finish(noise, &mut Local, &mut out, &mut ledger)
        .unwrap();
    assert_eq!(ledger.private_steps(), 1);
    out.0
}

fn norm(x: impl Iterator<Item = f64>) -> f64 {
    x.map(|v| v * v).sum::<f64>().sqrt()
}

#[test]
fn an_empty_batch_is_noised_like_any_other() {
    let mut noise = ChaChaNoise::new(RunKey::from_seed(5));
    let values = release(1, &[], &mut noise, 4.0, 0);
    let n = values.len() as f64;
    // standard deviation σ C / B = 1.5 · 0.7 / 4; the sample's relative error is 1/√(2n), here below 3 %
    let deviation = norm(values.iter().map(|v| f64::from(*v))) / n.sqrt();
    let expected = 1.5 * 0.7 / 4.0;
    // six standard errors: false-alarm rate below 2e-9; seed 5, n = 695 values
    assert!(
        (deviation / expected - 1.0).abs() < 6.0 / (2.0 * n).sqrt(),
        "{deviation} against {expected}"
    );
}

#[test]
fn the_divisor_is_the_expected_batch_size_whatever_was_drawn() {
    for batch in [vec![], vec![0], (0..30).collect::<Vec<u32>>()] {
        let one = release(30, &batch, &mut Silent, 1.0, 0);
        let ten = release(30, &batch, &mut Silent, 10.0, 0);
        assert!(
            one.iter()
                .zip(&ten)
                .all(|(a, b)| (a / 10.0 - b).abs() <= 1e-7 + 1e-6 * b.abs())
        );
    }
}

#[test]
fn one_record_more_moves_the_sum_by_at_most_the_clipping_norm() {
    // replay on D and on D with one record more, same randomness: the declared sensitivity holds
    for extra in 0..20u32 {
        let all: Vec<u32> = (0..20).collect();
        let without: Vec<u32> = all.iter().copied().filter(|i| *i != extra).collect();
        let a = release(20, &all, &mut Silent, 1.0, 0);
        let b = release(20, &without, &mut Silent, 1.0, 0);
        let distance = norm(a.iter().zip(&b).map(|(x, y)| f64::from(*x) - f64::from(*y)));
        assert!(
            distance <= 0.7 * (1.0 + 1e-5),
            "record {extra} moves the sum by {distance}"
        );
        assert!(distance > 0.35, "record {extra} contributes: {distance}");
    }
}

#[test]
fn noise_repeats_with_its_step_and_never_otherwise() {
    let mut noise = ChaChaNoise::new(RunKey::from_seed(9));
    let mut draw = |step, tensor| {
        let mut values = vec![0.0f32; 4];
        noise.add(step, tensor, 1.0, &mut values);
        values
    };
    let first = draw(3, 1);
    assert_eq!(first, draw(3, 1), "a replayed step repeats its noise");
    assert_ne!(first, draw(4, 1));
    assert_ne!(first, draw(3, 2));
    let fresh = || RunKey::from_system().unwrap();
    assert_ne!(fresh().bytes(), fresh().bytes());
}

#[test]
fn noise_is_standard_normal_beyond_six_sigma_reach() {
    // n = 400 000 draws, seed 21: variance within 6 standard errors √(2/n), kurtosis within 6 √(24/n)
    let mut values = vec![0.0f32; 400_000];
    ChaChaNoise::new(RunKey::from_seed(21)).add(0, 0, 1.0, &mut values);
    let n = values.len() as f64;
    let moment = |k: i32| values.iter().map(|v| f64::from(*v).powi(k)).sum::<f64>() / n;
    assert!(moment(1).abs() < 6.0 / n.sqrt());
    assert!((moment(2) - 1.0).abs() < 6.0 * (2.0 / n).sqrt());
    assert!((moment(4) / moment(2).powi(2) - 3.0).abs() < 6.0 * (24.0 / n).sqrt());
}

#[test]
fn poisson_batches_are_independent_with_the_declared_rate() {
    // seed 4, 2000 steps × 50 records at q = 0.13; six standard errors each: false alarms below 1e-6 in all
    let (q, steps, records) = (0.13f64, 2000u64, 50usize);
    let mut sampler =
        PoissonSampler::new(RunKey::from_seed(4), SamplingRate::new(q).unwrap(), records);
    assert!((sampler.rates().of(7) - q).abs() < 1e-15);
    let (mut counts, mut pairs, mut sizes) = (vec![0u64; records], 0u64, Vec::new());
    for step in 0..steps {
        let batch = sampler.batch(step);
        assert_eq!(
            batch,
            sampler.batch(step),
            "a replayed step repeats its batch"
        );
        sizes.push(batch.len() as f64);
        pairs += u64::from(batch.contains(&3) && batch.contains(&4));
        batch.iter().for_each(|i| counts[*i as usize] += 1);
    }
    let error = (q * (1.0 - q) * steps as f64).sqrt();
    assert!(
        counts
            .iter()
            .all(|c| (*c as f64 - q * steps as f64).abs() < 6.0 * error)
    );
    let joint = q * q;
    assert!(
        (pairs as f64 - joint * steps as f64).abs()
            < 6.0 * (joint * (1.0 - joint) * steps as f64).sqrt()
    );
    let mean = sizes.iter().sum::<f64>() / steps as f64;
    let variance = sizes.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / (steps - 1) as f64;
    let expected = records as f64 * q * (1.0 - q);
    assert!(
        (variance / expected - 1.0).abs() < 6.0 * (2.0 / steps as f64).sqrt(),
        "{variance} against {expected}"
    );
    let mut everything =
        PoissonSampler::new(RunKey::from_seed(4), SamplingRate::new(1.0).unwrap(), 7);
    assert_eq!(everything.batch(0).len(), 7);
}

#[test]
fn several_workers_release_what_one_would() {
    let all: Vec<u32> = (0..12).collect();
    let alone = release(
        12,
        &all,
        &mut ChaChaNoise::new(RunKey::from_seed(2)),
        12.0,
        7,
    );
    let outputs: Vec<Vec<f32>> = std::thread::scope(|scope| {
        let workers: Vec<_> = Threads::of(3)
            .into_iter()
            .map(|mut collective| {
                scope.spawn(move || {
                    let mut model = model();
                    let records = all_private(&set(12));
                    let own: Vec<u32> = (0..12)
                        .filter(|i| *i as usize % 3 == collective.rank())
                        .collect();
                    let constants = PrivateStep {
                        noise_multiplier: NoiseMultiplier::new(1.5).unwrap(),
                        clip: Clip::new(0.7, 1e-5).unwrap(),
                        expected_batch: 12.0,
                        augmentations: 1,
                    };
                    let mut out = Record0(Vec::new());
                    let mut step = Step::begin(model.as_mut(), constants, 7).unwrap();
                    step.add(&records.batch(&own)).unwrap();
                    let mut noise = ChaChaNoise::new(RunKey::from_seed(2));
                    let mut ledger = Ledger::in_memory();
                    step.finish(&mut noise, &mut collective, &mut out, &mut ledger)
                        .unwrap();
                    out.0
                })
            })
            .collect();
        workers.into_iter().map(|w| w.join().unwrap()).collect()
    });
    for values in &outputs {
        assert_eq!(values, &outputs[0], "all workers hold the same update");
        let distance = norm(values.iter().zip(&alone).map(|(a, b)| f64::from(a - b)));
        assert!(
            distance < 1e-6,
            "one noise draw in all, not one per worker: {distance}"
        );
    }
}

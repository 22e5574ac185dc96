//! Faults of a step: batches, sums, noise, workers.

use crate::common::{CLIPPINGS, model, models, set};
use reticent_accounting::{NoiseMultiplier, SamplingRate};
use reticent_backends::privacy::{
    BinsSampler, ChaChaNoise, Clip, Clipping, Ledger, Noise, PoissonSampler, PrivateStep, Rates,
    RunKey, Sampler, Step, TruncatedSampler,
};
use reticent_backends::trainer::{Dropout, Masks, Update, all_private};
use reticent_backends::{Collective, Local, Threads};
use reticent_corpus::{Record, Side, TrainingSet, Unit};

/// Keeps the last privatised gradient instead of moving weights.
struct Kept(Vec<f32>);

impl Update for Kept {
    fn update(&mut self, _: &mut [Vec<f32>], gradients: &[Vec<f32>]) {
        self.0 = gradients.concat();
    }
}

/// Counts its calls, and adds nothing.
struct Counting(usize);

impl Noise for Counting {
    fn add(&mut self, _: u64, _: usize, _: f64, _: &mut [f32]) {
        self.0 += 1;
    }
}

/// The margin η of our f32 engines; the exact one needs less.
const MARGIN: f64 = 2.5e-4;

fn constants(clipping: Clipping) -> PrivateStep {
    PrivateStep {
        noise_multiplier: NoiseMultiplier::new(1.5).unwrap(),
        clip: Clip::new(0.7, 1e-5).unwrap().by(clipping).unwrap(),
        expected_batch: 4.0,
        augmentations: 1,
    }
}

/// The update of a step that adds these parts of a set, one after the other.
fn released(
    set: &TrainingSet,
    parts: &[Vec<u32>],
    noise: &mut dyn Noise,
    collective: &mut dyn Collective,
    (clipping, index): (Clipping, u64),
) -> Vec<f32> {
    let (mut model, records) = (model(), all_private(set));
    // a record keeps its masks in any part, with any worker
    let rates = Dropout::all(0.3).unwrap();
    let masks = Masks::new(&RunKey::from_seed(4), index, rates);
    model.drop_out(masks).unwrap();
    let mut step = Step::begin(model.as_mut(), constants(clipping), index).unwrap();
    for part in parts {
        step.add(&records.batch(part)).unwrap();
    }
    let (mut kept, mut ledger) = (Kept(Vec::new()), Ledger::in_memory());
    step.finish(noise, collective, &mut kept, &mut ledger)
        .unwrap();
    assert_eq!(ledger.private_steps(), 1);
    kept.0
}

fn norm(x: impl Iterator<Item = f64>) -> f64 {
    x.map(|v| v * v).sum::<f64>().sqrt()
}

fn apart(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    norm(a.iter().zip(b).map(|(a, b)| f64::from(*a) - f64::from(*b)))
}

/// The update of a step without noise that adds these records of a set.
fn added_alone(constants: PrivateStep, set: &TrainingSet, batch: &[u32]) -> Vec<f32> {
    let (mut model, records) = (model(), all_private(set));
    let mut step = Step::begin(model.as_mut(), constants, 0).unwrap();
    step.add(&records.batch(batch)).unwrap();
    let (mut kept, mut ledger) = (Kept(Vec::new()), Ledger::in_memory());
    step.finish(&mut Counting(0), &mut Local, &mut kept, &mut ledger)
        .unwrap();
    kept.0
}

/// An engine measures norms for its own margin: with less, a record would add more than the clipping norm.
#[test]
fn a_step_clips_with_the_margin_that_its_engine_needs() {
    assert!((model().norm_margin() - MARGIN).abs() < 1e-12);
    let constants = PrivateStep {
        clip: Clip::new(1e-3, 0.0).unwrap(),
        expected_batch: 1.0,
        ..constants(Clipping::Flat)
    };
    let update = added_alone(constants, &set(0, 1, 0), &[0]);
    let length = norm(update.iter().map(|x| f64::from(*x)));
    let expected = 1e-3 / (1.0 + MARGIN);
    assert!((length / expected - 1.0).abs() < 1e-4, "{length}");
}

/// With none a record longer than the context would be left out, and counted.
#[test]
fn a_step_without_augmentations_is_refused() {
    let constants = PrivateStep {
        augmentations: 0,
        ..constants(Clipping::Flat)
    };
    let mut model = model();
    let error = Step::begin(model.as_mut(), constants, 0).err().unwrap();
    assert!(error.to_string().contains("augmentations"), "{error}");
}

/// Fault 6. Seed 8: 150 steps at q = 0.01 over three records, all but a few empty; each moves
/// the weights by noise of σC/B, to six standard errors of its sample deviation (and the
/// gradients of the few, at most C/B each).
#[test]
fn mostly_empty_batches_are_noised_every_time() {
    let set = set(0, 3, 0);
    let key = RunKey::from_seed(8);
    let rate = SamplingRate::new(0.01).unwrap();
    let mut sampler = PoissonSampler::new(key.clone(), rate, 3);
    let mut noise = ChaChaNoise::new(key);
    let mut empty = 0;
    for step in 0..150 {
        let batch = sampler.batch(step);
        empty += usize::from(batch.is_empty());
        let update = released(
            &set,
            &[batch],
            &mut noise,
            &mut Local,
            (Clipping::Flat, step),
        );
        let n = update.len() as f64;
        let deviation = norm(update.iter().map(|v| f64::from(*v))) / n.sqrt();
        let expected = 1.5 * 0.7 / 4.0;
        let allowed = 6.0 / (2.0 * n).sqrt() + 0.7 / 4.0 / n.sqrt() / expected;
        assert!(
            (deviation / expected - 1.0).abs() < allowed,
            "step {step}: {deviation}"
        );
    }
    assert!((130..150).contains(&empty), "{empty} empty batches");
}

/// Fault 8: a batch of more tokens than a microbatch is taken whole.
#[test]
fn no_batch_is_cut_short() {
    let record = |i: u32| Record {
        side: Side::Private,
        tokens: (0..600).map(|t| (i + t * 3) % 10).collect(),
        sensitive: Vec::new(),
        label: None,
        ignored: Vec::new(),
    };
    let set = TrainingSet {
        unit: Unit::Turn,
        records: (0..30).map(record).collect(),
        mask_only: 0,
    };
    let everything: Vec<u32> = (0..30).collect();
    let (mut model, records) = (model(), all_private(&set));
    let mut step = Step::begin(model.as_mut(), constants(Clipping::Flat), 0).unwrap();
    step.add(&records.batch(&everything)).unwrap();
    let (mut kept, mut ledger) = (Kept(Vec::new()), Ledger::in_memory());
    let added = step.finish(&mut Counting(0), &mut Local, &mut kept, &mut ledger);
    assert_eq!(added.unwrap().examples, 30);
    let mut sampler = PoissonSampler::with(
        RunKey::from_seed(1),
        Rates::uniform(SamplingRate::new(1.0).unwrap(), 5000),
    );
    assert_eq!(sampler.batch(0).len(), 5000);
}

/// Fault 9: however a batch is split, one sum and one draw for each tensor.
#[test]
fn any_split_of_a_batch_gives_one_sum_and_one_draw() {
    let set = set(0, 12, 0);
    let whole: Vec<u32> = (0..12).collect();
    let splits = [
        vec![whole.clone()],
        vec![whole[..5].to_vec(), vec![], whole[5..].to_vec()],
        whole.iter().map(|i| vec![*i]).collect(),
    ];
    for clipping in CLIPPINGS {
        let mut sums = Vec::new();
        for parts in &splits {
            let mut noise = Counting(0);
            let at = (clipping, 0);
            sums.push(released(&set, parts, &mut noise, &mut Local, at));
            assert_eq!(noise.0, 6, "one draw for each of six tensors");
        }
        for sum in &sums {
            let scale = norm(sums[0].iter().map(|x| f64::from(*x)));
            assert!(apart(sum, &sums[0]) < 1e-6 * scale, "{clipping:?}");
        }
    }
}

/// Faults 5 and 10: which records a step draws, by another implementation of HMAC-SHA256 and
/// ChaCha20 (Python's hmac; the cipher written out after Bernstein, 64-bit counter and stream):
/// key bytes 0 to 31, purpose `poisson`, record i by the i-th 64-bit word, q = 0.1.
#[test]
fn batches_are_those_of_the_keyed_cipher() {
    let bytes: Vec<u8> = (0..32).collect();
    let key = RunKey::from_bytes(bytes.try_into().unwrap());
    let rate = SamplingRate::new(0.1).unwrap();
    let mut sampler = PoissonSampler::new(key.clone(), rate, 100);
    assert_eq!(sampler.batch(0), [1, 3, 5, 6, 14, 21, 22, 80, 94]);
    let fifth = [7, 11, 13, 27, 31, 32, 33, 37, 42, 43, 45, 50, 96];
    assert_eq!(sampler.batch(5), fifth);
    // a record's draw does not depend on the rates of the others
    let mut rates = vec![0.0; 100];
    rates[27] = 0.1;
    rates[0] = 1.0;
    let mut weighted = PoissonSampler::with(key, Rates::each(rates).unwrap());
    assert_eq!(weighted.batch(5), [0, 27]);
    assert_eq!(weighted.batch(0), [0]);
}

/// Fault 5. Seed 6, 3000 steps, rates 0, 0.05, …, 0.95 and 1: each record's count within six
/// standard errors.
#[test]
fn every_record_is_drawn_at_its_own_rate() {
    let rates: Vec<f64> = (0..=20).map(|i| f64::from(i) / 20.0).collect();
    let mut sampler =
        PoissonSampler::with(RunKey::from_seed(6), Rates::each(rates.clone()).unwrap());
    let mut counts = vec![0u32; rates.len()];
    for step in 0..3000 {
        sampler
            .batch(step)
            .iter()
            .for_each(|i| counts[*i as usize] += 1);
    }
    for (rate, count) in rates.iter().zip(&counts) {
        let error = (rate * (1.0 - rate) * 3000.0).sqrt();
        let off = (f64::from(*count) - rate * 3000.0).abs();
        assert!(off <= 6.0 * error, "{rate}: {count}");
    }
    assert!((sampler.rates().expected_batch() - 10.5).abs() < 1e-12);
}

/// Fault 11: noise is drawn and added in f64, f32 only afterwards, and has the tail of a
/// Gaussian: of seed 21's blocks of 2^14 draws, block 38 613 holds one beyond six deviations.
#[test]
fn noise_has_the_precision_and_the_tail_of_a_gaussian() {
    let block = |step| {
        let mut values = vec![0.0f32; 1 << 14];
        ChaChaNoise::new(RunKey::from_seed(21)).add(step, 0, 1.0, &mut values);
        values
    };
    let mut values: Vec<u32> = block(0).iter().map(|v| v.to_bits()).collect();
    values.sort_unstable();
    values.dedup();
    // in half precision 2^14 draws have some four thousand different values
    assert!(values.len() > 16_000, "{} different values", values.len());
    let most = block(TAIL).iter().fold(0.0f32, |m, v| m.max(v.abs()));
    assert!(most > 6.0, "{most}");
}

/// Found by searching blocks from 0 on: its draw 3076 is -6.2920.
const TAIL: u64 = 37_698;

/// Fault 16: one, two and four workers release what one process would, whatever the clipping;
/// all of them hold the same bits.
#[test]
fn workers_release_what_one_would_under_every_clipping() {
    for clipping in CLIPPINGS {
        let set = set(0, 12, 0);
        let noise = || ChaChaNoise::new(RunKey::from_seed(2));
        let whole: Vec<u32> = (0..12).collect();
        let at = (clipping, 7);
        let alone = released(&set, &[whole], &mut noise(), &mut Local, at);
        for world in [1, 2, 4] {
            let outputs: Vec<Vec<f32>> = std::thread::scope(|scope| {
                let worker = |mut collective: Threads| {
                    let (set, noise) = (&set, &noise);
                    scope.spawn(move || {
                        let rank = collective.rank() as u32;
                        let own = (0..12).filter(|i| i % world == rank).collect();
                        released(set, &[own], &mut noise(), &mut collective, at)
                    })
                };
                let workers: Vec<_> = Threads::of(world as usize)
                    .into_iter()
                    .map(worker)
                    .collect();
                workers.into_iter().map(|w| w.join().unwrap()).collect()
            });
            for update in &outputs {
                assert_eq!(update, &outputs[0], "{world} workers, {clipping:?}");
                // sums in another order; one draw of noise, not one for each worker
                assert!(
                    apart(update, &alone) < 1e-6,
                    "{world} workers, {clipping:?}"
                );
            }
            if world == 1 {
                assert_eq!(outputs[0], alone);
            }
        }
    }
}

/// Fault 8: a batch is cut only where the plan says so, to a uniform subset. Seed 9, 4000 steps of 20 records at q = 0.4,
/// at most 6: every record is in as many batches as any other, to six standard errors; no batch is larger, and one that
/// fits is Poisson's own.
#[test]
fn a_cut_batch_is_a_uniform_subset_of_poissons() {
    let rate = SamplingRate::new(0.4).unwrap();
    let mut whole = PoissonSampler::new(RunKey::from_seed(9), rate, 20);
    let mut cut = TruncatedSampler::new(whole.clone(), 6);
    let (mut counts, mut total) = (vec![0f64; 20], 0.0);
    for step in 0..4000 {
        let (all, batch) = (whole.batch(step), cut.batch(step));
        assert_eq!(batch.len(), all.len().min(6));
        assert!(batch.is_sorted() && batch.iter().all(|record| all.contains(record)));
        assert_eq!(cut.batch(step), batch);
        batch.iter().for_each(|i| counts[*i as usize] += 1.0);
        total += batch.len() as f64;
    }
    let share = total / 4000.0 / 20.0;
    let error = (share * (1.0 - share) * 4000.0).sqrt();
    let off = counts.iter().map(|count| (count - share * 4000.0).abs());
    assert!(off.fold(0.0, f64::max) <= 6.0 * error, "{counts:?}");
}

/// Balls in bins. Seed 10, 2000 epochs of 5 steps, 8 records, beginning at step 3: each record is in exactly one step of
/// an epoch, in each of them equally often, and two of them meet in one of five epochs, to six standard errors.
#[test]
fn every_record_falls_into_one_step_of_an_epoch() {
    let rates = Rates::uniform(SamplingRate::new(0.2).unwrap(), 8);
    let mut sampler = BinsSampler::new(RunKey::from_seed(10), rates, (3, 5));
    let (mut counts, mut together) = ([[0f64; 5]; 8], 0.0);
    for epoch in 0..2000 {
        let batches: Vec<Vec<u32>> = (0..5).map(|t| sampler.batch(3 + 5 * epoch + t)).collect();
        let mut drawn = batches.concat();
        drawn.sort_unstable();
        assert_eq!(drawn, (0..8).collect::<Vec<_>>());
        for (t, batch) in batches.iter().enumerate() {
            batch.iter().for_each(|i| counts[*i as usize][t] += 1.0);
            together += f64::from(u8::from(batch.contains(&0) && batch.contains(&1)));
        }
    }
    let error = (0.2f64 * 0.8 * 2000.0).sqrt();
    let off = counts.iter().flatten().map(|count| (count - 400.0).abs());
    assert!(off.fold(0.0, f64::max) <= 6.0 * error, "{counts:?}");
    assert!((together - 400.0).abs() <= 6.0 * error, "{together}");
}

/// Several augmentations of a record add the mean of their gradients, clipped as one; without dropout that is what one
/// reading adds. By the exact engine where dropout distinguishes them.
#[test]
fn augmentations_of_a_record_are_averaged_and_clipped_as_one() {
    let records: Vec<Record> = (0..3)
        .map(|i| Record {
            side: Side::Private,
            tokens: (0..9 + 9 * i).map(|at| (at * at + i) % 10).collect(),
            sensitive: Vec::new(),
            label: None,
            ignored: Vec::new(),
        })
        .collect();
    let records = all_private(&TrainingSet {
        unit: Unit::Turn,
        records,
        mask_only: 0,
    });
    let sum_of = |name: &str, augmentations: u32, rate: f64, clip: Clip| {
        let (_, make) = models()
            .into_iter()
            .find(|(known, _)| *known == name)
            .unwrap();
        let mut model = make();
        let masks = Masks::new(&RunKey::from_seed(4), 7, Dropout::all(rate).unwrap());
        model.drop_out(masks).unwrap();
        let constants = PrivateStep {
            clip,
            expected_batch: 1.0,
            augmentations,
            ..constants(Clipping::Flat)
        };
        let mut step = Step::begin(model.as_mut(), constants, 0).unwrap();
        step.add(&records.batch(&[0, 1, 2])).unwrap();
        let (mut kept, mut ledger) = (Kept(Vec::new()), Ledger::in_memory());
        let added = step.finish(&mut Counting(0), &mut Local, &mut kept, &mut ledger);
        (kept.0, added.unwrap())
    };
    for (fast, slow) in [("lstm", "lstm, exact"), ("gpt2", "gpt2, exact")] {
        let norm_of = |found: &[f32]| norm(found.iter().map(|x| f64::from(*x)));
        for bound in [0.5, 1e30] {
            let clip = Clip::new(bound, MARGIN).unwrap();
            let (once, _) = sum_of(fast, 1, 0.0, clip);
            let length = norm_of(&once);
            let (thrice, added) = sum_of(fast, 3, 0.0, clip);
            assert_eq!(added.examples, 3, "{fast}");
            assert!(apart(&once, &thrice) < 1e-5 * length, "{fast}, {bound}");

            let (found, _) = sum_of(fast, 3, 0.4, clip);
            let (expected, _) = sum_of(slow, 3, 0.4, clip);
            assert!(norm_of(&found) <= 3.0 * bound, "{fast}, {bound}");
            assert!(apart(&found, &expected) < 1e-4 * length, "{fast}, {bound}");
            // Each augmentation drops other values.
            let (single, _) = sum_of(fast, 1, 0.4, clip);
            assert!(apart(&found, &single) > 1e-2 * length, "{fast}, {bound}");
        }
    }
}

/// A record longer than the context: the gradients of its windows add up before they are clipped, and every token but
/// the first is predicted once. By the exact engine, window by window.
#[test]
fn a_long_record_is_the_clipped_sum_of_its_windows() {
    let long: Vec<u32> = (0..47).map(|at| (at * at + 3) % 10).collect();
    let record = |tokens: &[u32]| Record {
        side: Side::Private,
        tokens: tokens.to_vec(),
        sensitive: Vec::new(),
        label: None,
        ignored: Vec::new(),
    };
    let set_of = |records: Vec<Record>| TrainingSet {
        unit: Unit::Turn,
        records,
        mask_only: 0,
    };
    // Windows of 16 that share one token: predictions 1 to 15, 16 to 30, 31 to 45, 46.
    let windows: Vec<Record> = [0..16, 15..31, 30..46, 45..47]
        .map(|range| record(&long[range]))
        .into();
    let sum_of = |name: &str, records: Vec<Record>, clip: Clip| {
        let (_, make) = models()
            .into_iter()
            .find(|(known, _)| *known == name)
            .unwrap();
        let everyone: Vec<u32> = (0..records.len() as u32).collect();
        let (mut model, records) = (make(), all_private(&set_of(records)));
        let constants = PrivateStep {
            clip,
            expected_batch: 1.0,
            ..constants(Clipping::Flat)
        };
        let mut step = Step::begin(model.as_mut(), constants, 0).unwrap();
        step.add(&records.batch(&everyone)).unwrap();
        let (mut kept, mut ledger) = (Kept(Vec::new()), Ledger::in_memory());
        let added = step.finish(&mut Counting(0), &mut Local, &mut kept, &mut ledger);
        (kept.0, added.unwrap())
    };
    for (fast, slow) in [("gpt2", "gpt2, exact")] {
        let huge = Clip::new(1e30, 0.0).unwrap();
        let (whole, _) = sum_of(slow, windows.clone(), huge);
        let length = norm(whole.iter().map(|x| f64::from(*x)));
        for bound in [length * 0.3, length * 0.99, length * 1.01] {
            let clip = Clip::new(bound, MARGIN).unwrap();
            let (found, added) = sum_of(fast, vec![record(&long)], clip);
            let factor = (bound / (length * (1.0 + MARGIN))).min(1.0) as f32;
            let expected: Vec<f32> = whole.iter().map(|x| x * factor).collect();
            assert!(apart(&found, &expected) < 1e-5 * length, "{fast}, {bound}");
            assert!(norm(found.iter().map(|x| f64::from(*x))) <= bound);
            assert_eq!(
                (added.examples, added.clipped),
                (1, usize::from(bound < length))
            );
            // Beside short records it adds what it adds alone.
            let short = record(&[1, 2, 3, 4]);
            let (both, added) = sum_of(fast, vec![record(&long), short.clone()], clip);
            let (alone, _) = sum_of(fast, vec![short], clip);
            let sum: Vec<f32> = found.iter().zip(&alone).map(|(a, b)| a + b).collect();
            assert!(apart(&both, &sum) < 1e-5 * length);
            assert_eq!(added.examples, 2);
        }
    }
}

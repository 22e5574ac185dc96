//! The fast engine against the exact one, the portable kernels against the processor's, and
//! each example against itself in other company.

mod adapters;
mod cancelling;
#[cfg(any(feature = "cuda", feature = "wgpu"))]
mod card;
mod heads;
mod passes;
mod resident;
mod scores;

use super::*;
use crate::engine::layers::Portable;
use crate::engine::processor::Processor;
use crate::engine::tests::check_company;
use crate::model::{Family, RotaryScaling, cases};
use crate::scorer::{Logits, PrefixScorer, Scorer};
use burn_flex::Flex;
use rand::RngExt;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

type Fast = Transformer<Flex, Processor>;
type Slow = Transformer<Flex, Portable>;

const VOCABULARY: usize = 13;

fn tiny(family: Family) -> TransformerConfig {
    TransformerConfig::new(family, VOCABULARY, 8, 2, 2, 40)
}

/// Every kind of decoder.
fn decoders() -> Vec<(&'static str, TransformerConfig)> {
    let scaling = RotaryScaling::Linear { factor: 2.0 };
    let mut all = cases::decoders(VOCABULARY, 40, 3, scaling);
    // small rows that are normalised without a norm before them magnify every rounding
    let unsteady = |name: &str| ["gemma3", "olmo2"].contains(&name);
    for (_, config) in all.iter_mut().filter(|(name, _)| unsteady(name)) {
        config.norm_epsilon = 0.05;
    }
    all
}

/// Weights far from any symmetry.
fn weights(config: &TransformerConfig) -> Vec<Vec<f32>> {
    let mut rng = ChaCha20Rng::seed_from_u64(17);
    let mut moved = config.starting_weights(5);
    for w in moved.iter_mut().flatten() {
        *w += 0.6 * (rng.random::<f32>() - 0.5);
    }
    moved
}

/// Sequences whose predictions number 1, 2, 7 and more; among them one of a single token repeated.
fn sequences() -> Vec<Vec<u32>> {
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    let mut all: Vec<Vec<u32>> = [2, 3, 8, 8, 19, 5, 31]
        .iter()
        .map(|length| (0..*length).map(|_| rng.random::<u32>() % 13).collect())
        .collect();
    all.push(vec![4; 8]);
    all.push(vec![7, 7]);
    all
}

fn views(all: &[Vec<u32>]) -> Vec<&[u32]> {
    all.iter().map(Vec::as_slice).collect()
}

fn fast(config: &TransformerConfig) -> Fast {
    Fast::new(config.clone(), weights(config), Default::default()).unwrap()
}

fn slow(config: &TransformerConfig) -> Slow {
    Slow::new(config.clone(), weights(config), Default::default()).unwrap()
}

fn exact(config: &TransformerConfig) -> Box<dyn Trainer> {
    crate::oracle::exact(&config.clone().into(), weights(config)).unwrap()
}

/// The sum of clipped gradients that an engine gives.
fn sum(model: &mut dyn Trainer, batch: &[Vec<u32>], clip: f64) -> Vec<Vec<f32>> {
    model.begin();
    let clip = Clip::new(clip, 0.0).unwrap();
    let added = model
        .add(&PrivateBatch::in_order(views(batch)), &clip)
        .unwrap();
    assert_eq!((added.examples, added.rejected), (batch.len(), 0));
    model.accumulator().to_vec()
}

fn square(x: &[f32]) -> f64 {
    x.iter().map(|v| f64::from(*v).powi(2)).sum()
}

fn distance(a: &[Vec<f32>], b: &[Vec<f32>]) -> f64 {
    let pairs = a.iter().flatten().zip(b.iter().flatten());
    pairs
        .map(|(x, y)| f64::from(x - y).powi(2))
        .sum::<f64>()
        .sqrt()
}

fn norm(a: &[Vec<f32>]) -> f64 {
    a.iter().map(|p| square(p)).sum::<f64>().sqrt()
}

/// Norms by parameter and example, whatever the engine passes together.
fn norms<B: Floats, K: Layers<B>>(model: &Transformer<B, K>, batch: &[Vec<u32>]) -> Norms<B> {
    let batch = PrivateBatch::in_order(views(batch)).0;
    let mut all = Norms::new(model.parameters.len(), 0, batch.len());
    for part in model.microbatches(&batch) {
        let rows = model.rows(&part.sequences, part.grid).unwrap();
        let (tape, _) = model.pass(&rows, None);
        let norms = K::norms(&tape, &rows, model.parameters.len());
        for (all, own) in all.squared.iter_mut().zip(&norms.squared) {
            for (place, value) in part.places.iter().zip(own) {
                all[*place] = *value;
            }
        }
        all.kept.extend(norms.kept);
        all.on_device.extend(norms.on_device);
    }
    all
}

#[test]
fn norms_equal_the_exact_ones_parameter_by_parameter() {
    let all = sequences();
    for (name, config) in decoders() {
        let (fast, slow) = (norms(&fast(&config), &all), norms(&slow(&config), &all));
        let mut exact = exact(&config);
        for (i, s) in all.iter().enumerate() {
            let want = sum(&mut *exact, std::slice::from_ref(s), 1e9);
            let whole: f64 = want.iter().map(|p| square(p)).sum();
            for (p, parameter) in config.parameters().iter().enumerate() {
                let want = square(&want[p]);
                for (engine, got) in [
                    ("fast", fast.squared[p][i]),
                    ("portable", slow.squared[p][i]),
                ] {
                    // a part that all but vanishes is good to a rounding of the whole
                    assert!(
                        (got - want).abs() <= 4e-6 * want + 1e-9 * whole,
                        "{name}, {engine}, {}, example {i}: {got} against {want}",
                        parameter.name
                    );
                }
            }
            let got = fast.flat()[i];
            assert!(
                (got / whole - 1.0).abs() < 2e-6,
                "{name}, example {i}: {got} against {whole}"
            );
        }
    }
}

#[test]
fn clipped_sums_equal_the_exact_ones() {
    let all = sequences();
    for (name, config) in decoders() {
        let mut exact = exact(&config);
        let mut sorted = norms(&fast(&config), &all).flat();
        sorted.sort_by(f64::total_cmp);
        for clip in [sorted[4].sqrt(), sorted[0].sqrt() * 0.1, 1e9] {
            let want = sum(&mut *exact, &all, clip);
            let engines: [(&str, Box<dyn Trainer>); 2] = [
                ("fast", Box::new(fast(&config))),
                ("portable", Box::new(slow(&config))),
            ];
            for (engine, mut model) in engines {
                let got = sum(&mut *model, &all, clip);
                for ((got, want), p) in got.iter().zip(&want).zip(config.parameters()) {
                    let (got, want) = ([got.clone()], [want.clone()]);
                    let error = distance(&got, &want) / (norm(&want) + 1e-3 * clip.min(1.0));
                    assert!(
                        error < 4e-6,
                        "{name}, {engine}, {} at C = {clip}: {error}",
                        p.name
                    );
                }
            }
        }
    }
}

#[test]
fn public_gradients_equal_the_exact_ones() {
    let all = sequences();
    for (name, config) in decoders() {
        let (want, mean) = exact(&config)
            .public_gradient(&PublicBatch::in_order(views(&all)))
            .unwrap();
        let engines: [Box<dyn Trainer>; 2] = [Box::new(fast(&config)), Box::new(slow(&config))];
        for mut model in engines {
            let (got, loss) = model
                .public_gradient(&PublicBatch::in_order(views(&all)))
                .unwrap();
            assert!((loss - mean).abs() < 2e-6, "{name}: {loss} against {mean}");
            let error = distance(&got, &want) / norm(&want);
            assert!(error < 3e-6, "{name}: {error}");
        }
    }
}

/// All that the gradient of each example is made of, and its norms, as bits.
fn footprints<B: Floats, K: Layers<B>>(
    model: &Transformer<B, K>,
    batch: &[Vec<u32>],
) -> Vec<Vec<u64>> {
    let examples = PrivateBatch::in_order(views(batch)).0;
    let mut out = vec![Vec::new(); batch.len()];
    for part in model.microbatches(&examples) {
        let rows = model.rows(&part.sequences, part.grid).unwrap();
        let (tape, _) = model.pass(&rows, None);
        let linears = tape.linears.iter().flat_map(|l| [&l.input, &l.gradient]);
        let norms = tape.norms.iter().flat_map(|n| [&n.unit, &n.gradient]);
        let ends = tape.ends.iter().flat_map(|ends| {
            let delta = ends.head.delta.as_ref().unwrap();
            [&ends.head.hidden, delta, &ends.embedding.gradient]
        });
        let matrices = linears.chain(norms).chain(ends);
        for matrix in matrices {
            let columns = matrix.dims()[1];
            let values = crate::engine::portable::host(matrix.clone());
            for (place, span) in part.places.iter().zip(&rows.spans) {
                let own = &values[span.start * columns..][..span.length * columns];
                out[*place].extend(own.iter().map(|x| u64::from(x.to_bits())));
            }
        }
        let norms = K::norms(&tape, &rows, model.parameters.len());
        for squared in &norms.squared {
            for (place, value) in part.places.iter().zip(squared) {
                out[*place].push(value.to_bits());
            }
        }
    }
    out
}

/// One record's company never changes its share of the sum: neither how many are beside it, nor
/// where it stands, nor how long they are, nor whether they are finite.
pub(super) fn check_isolation<B: Floats, K: Layers<B>>(name: &str, model: &Transformer<B, K>) {
    let all = sequences();
    check_company(name, &all, |batch| footprints(model, batch));
}

#[test]
fn an_example_gives_the_same_bits_alone_and_in_any_company() {
    for (name, config) in decoders() {
        check_isolation(name, &fast(&config));
    }
    let (name, config) = &decoders()[0];
    check_isolation(&format!("{name}, portable"), &slow(config));
}

#[test]
fn any_split_into_microbatches_gives_the_same_sum() {
    let all = sequences();
    let config = tiny(Family::Gpt2);
    let clip = Clip::new(0.5, 1e-5).unwrap();
    let mut model = fast(&config);
    let whole = sum(&mut model, &all, 0.5);
    for size in [1, 2, 4] {
        model.begin();
        for part in all.chunks(size) {
            model
                .add(&PrivateBatch::in_order(views(part)), &clip)
                .unwrap();
        }
        let error = distance(model.accumulator(), &whole) / norm(&whole);
        assert!(error < 2e-5, "parts of {size}: {error}");
    }
    // more rows than one microbatch holds
    let many: Vec<Vec<u32>> = (0..120).flat_map(|_| all[6..7].to_vec()).collect();
    let one = sum(&mut model, &all[6..7], 0.5);
    let sum = sum(&mut model, &many, 0.5);
    let scaled: Vec<Vec<f32>> = one
        .iter()
        .map(|p| p.iter().map(|x| 120.0 * x).collect())
        .collect();
    assert!(distance(&sum, &scaled) / norm(&scaled) < 1e-5);
}

/// Long and narrow: the gradient itself is cheaper than the Gram matrices.
#[test]
fn instantiated_norms_and_kept_gradients_equal_the_exact_ones() {
    let config = TransformerConfig {
        positions: 160,
        ..tiny(Family::Gpt2)
    };
    let mut rng = ChaCha20Rng::seed_from_u64(8);
    let all: Vec<Vec<u32>> = [150, 3, 120]
        .iter()
        .map(|n| (0..*n).map(|_| rng.random::<u32>() % 13).collect())
        .collect();
    for config in [
        TransformerConfig {
            tied: false,
            ..config.clone()
        },
        config,
    ] {
        let mut model = fast(&config);
        let measured = norms(&model, &all);
        let kept = measured
            .kept
            .iter()
            .flatten()
            .filter(|k| k.is_some())
            .count();
        assert!(kept >= 2 * 8, "only {kept} gradients were written down");
        let mut exact = exact(&config);
        for clip in [0.3, 1e9] {
            let want = sum(&mut *exact, &all, clip);
            let got = sum(&mut model, &all, clip);
            let error = distance(&got, &want) / norm(&want);
            assert!(error < 4e-6, "at C = {clip}: {error}");
        }
    }
}

/// On grids, sums of long examples are made of the gradients that norms were taken of; norms of short ones are
/// taken from Gram matrices, but for the head's small matrix.
#[test]
fn long_and_short_examples_on_grids_equal_the_exact_ones() {
    let mut rng = ChaCha20Rng::seed_from_u64(9);
    let all: Vec<Vec<u32>> = [100, 3, 120, 7]
        .iter()
        .map(|n| (0..*n).map(|_| rng.random::<u32>() % 13).collect())
        .collect();
    for tied in [true, false] {
        let config = TransformerConfig {
            tied,
            ..TransformerConfig::new(Family::Gpt2, VOCABULARY, 48, 1, 2, 128)
        };
        let mut model = slow(&config);
        let measured = norms(&model, &all);
        let kept = |own: &Option<_>| own.is_some();
        let kept: Vec<bool> = measured.on_device.iter().map(kept).collect();
        let short = [false, false, false, false, true];
        assert_eq!(kept, [short, [true; 5]].concat());
        let mut exact = exact(&config);
        for (i, s) in all.iter().enumerate() {
            let want = norm(&sum(&mut *exact, std::slice::from_ref(s), 1e9)).powi(2);
            let got = measured.flat()[i];
            assert!((got / want - 1.0).abs() < 4e-6, "{got} against {want}");
        }
        for clip in [0.3, 1e9] {
            let want = sum(&mut *exact, &all, clip);
            let got = sum(&mut model, &all, clip);
            let error = distance(&got, &want) / norm(&want);
            assert!(error < 4e-6, "at C = {clip}: {error}");
        }
    }
}

#[test]
fn no_example_exceeds_the_clip() {
    let all = sequences();
    for (name, config) in decoders() {
        let mut model = fast(&config);
        let clip = Clip::new(0.01, model.norm_margin()).unwrap();
        for s in &all {
            model.begin();
            model.add(&PrivateBatch::in_order(vec![s]), &clip).unwrap();
            assert!(norm(model.accumulator()) <= 0.01, "{name}");
        }
    }
}

#[test]
fn an_example_without_a_finite_gradient_contributes_nothing() {
    for (name, config) in decoders() {
        let mut poisoned = weights(&config);
        poisoned[0][3 * config.width] = f32::NAN; // token 3 poisons its examples
        if config.tied {
            // and as a target everyone's: so only through the embedding
            continue;
        }
        let mut model = fast(&config);
        model.set_weights(poisoned).unwrap();
        let batch = vec![vec![1, 3, 2], vec![1, 2, 4], vec![5, 3, 3]];
        let clip = Clip::new(1.0, 1e-5).unwrap();
        model.begin();
        let added = model
            .add(&PrivateBatch::in_order(views(&batch)), &clip)
            .unwrap();
        assert_eq!((added.examples, added.rejected), (3, 2), "{name}");
        let got = model.accumulator().to_vec();
        assert!(got.iter().flatten().all(|x| x.is_finite()), "{name}");
        assert!(
            (norm(&got) - 1.0).abs() < 1e-3 || norm(&got) > 0.0,
            "{name}"
        );
    }
}

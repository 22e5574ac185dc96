//! What changes the passes forward and back, dropout and bf16 products, and must not change what
//! a clipped gradient is.

use super::*;
use crate::privacy::clip::Clipping;
use crate::privacy::random::RunKey;
use crate::trainer::dropout::Dropout;

/// Masks at every place.
fn masks() -> Option<Masks> {
    let rates = Dropout {
        embedding: 0.2,
        attention: 0.4,
        hidden: 0.3,
    };
    Masks::new(&RunKey::from_seed(9), 2, rates)
}

/// Norms and clipped sums after dropout, which both engines take from masked activations.
#[test]
fn dropped_values_are_in_norms_and_sums() {
    let all = sequences();
    for (name, config) in decoders() {
        let mut exact = exact(&config);
        exact.drop_out(masks()).unwrap();
        let (mut fast, mut slow) = (fast(&config), slow(&config));
        fast.masks = masks();
        slow.masks = masks();
        let found = [norms(&fast, &all).flat(), norms(&slow, &all).flat()];
        let records = PrivateBatch::in_order(views(&all)).0;
        for (i, record) in records.iter().enumerate() {
            exact.begin();
            let clip = Clip::new(1e9, 0.0).unwrap();
            exact.add(&PrivateBatch(vec![*record]), &clip).unwrap();
            let want = norm(exact.accumulator());
            for found in &found {
                let off = (found[i].sqrt() / want - 1.0).abs();
                assert!(off < 4e-6, "{name}, example {i}: {off}");
            }
        }
        let clip = found[0][4].sqrt();
        let want = sum(&mut *exact, &all, clip);
        for model in [&mut fast as &mut dyn Trainer, &mut slow] {
            let error = distance(&sum(model, &all, clip), &want) / norm(&want);
            assert!(error < 4e-6, "{name}: {error}");
        }
    }
}

/// An example's clipped gradient alone, as it goes into the sum.
fn alone(model: &mut dyn Trainer, record: Example<'_>, clip: &Clip) -> Vec<Vec<f32>> {
    model.begin();
    let added = model.add(&PrivateBatch(vec![record]), clip).unwrap();
    assert_eq!((added.examples, added.rejected), (1, 0));
    model.accumulator().to_vec()
}

/// Products of the passes in bf16 (8 bits of mantissa): other gradients, a few percent away; but
/// norm and share of the sum come from the same values, so that no share is longer than C.
#[test]
fn no_share_of_the_sum_exceeds_the_clip_in_bf16() {
    let all = sequences();
    let records = PrivateBatch::in_order(views(&all)).0;
    for (name, config) in decoders() {
        for dropping in [None, masks()] {
            let (mut half, mut single) = (slow(&config), slow(&config));
            half.masks = dropping.clone();
            single.masks = dropping;
            half.compute_in(Precision::Bf16).unwrap();
            let wide = Clip::new(1e9, 0.0).unwrap();
            let mut off = 0.0f64;
            for record in &records {
                let want = alone(&mut single, *record, &wide);
                let got = alone(&mut half, *record, &wide);
                off = off.max(distance(&got, &want) / norm(&want));
                // a clip that every gradient exceeds, by the engine's own margin
                let bound = 0.01 * norm(&want);
                for kind in [Clipping::Flat, Clipping::PerLayer] {
                    let clip = Clip::new(bound, half.norm_margin()).unwrap();
                    let share = alone(&mut half, *record, &clip.by(kind).unwrap());
                    let reach = norm(&share) / bound;
                    assert!(reach <= 1.0 && reach > 0.1, "{name}, {kind:?}: {reach}");
                }
            }
            assert!((1e-4..0.2).contains(&off), "{name}: {off}");
        }
    }
}

/// The sum over a batch is that of its examples alone: bf16 lets no example see another.
#[test]
fn examples_stay_apart_in_bf16() {
    let all = sequences();
    let records = PrivateBatch::in_order(views(&all)).0;
    for (name, config) in decoders() {
        let mut model = slow(&config);
        model.compute_in(Precision::Bf16).unwrap();
        let clip = Clip::new(0.5, model.norm_margin()).unwrap();
        let mut apart: Vec<Vec<f32>> = Vec::new();
        for record in &records {
            let own = alone(&mut model, *record, &clip);
            if apart.is_empty() {
                apart = own;
            } else {
                let pairs = apart.iter_mut().flatten().zip(own.iter().flatten());
                pairs.for_each(|(sum, own)| *sum += own);
            }
        }
        let together = sum(&mut model, &all, 0.5);
        let error = distance(&together, &apart) / norm(&apart);
        // a product on another grid may round a value to its neighbour, 2^-8 away
        assert!(error < 1e-3, "{name}: {error}");
    }
}

#[test]
fn scores_stay_in_single_precision() {
    for (_, config) in decoders() {
        let mut model = slow(&config);
        let before = model.score(&sequences()).unwrap();
        model.compute_in(Precision::Bf16).unwrap();
        assert_eq!(before, model.score(&sequences()).unwrap());
    }
}

/// The processor's own kernels and the exact engine refuse what they would not do.
#[test]
fn engines_without_bf16_refuse_it() {
    let (_, config) = decoders().remove(0);
    let engines: [Box<dyn Trainer>; 2] = [Box::new(fast(&config)), exact(&config)];
    for mut engine in engines {
        engine.compute_in(Precision::Single).unwrap();
        let error = engine.compute_in(Precision::Bf16).unwrap_err().to_string();
        assert!(error.contains("bf16") && error.contains("CUDA"), "{error}");
    }
}

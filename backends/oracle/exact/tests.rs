//! Backward passes against central differences of the forward passes, for every family and head.

use super::*;
use crate::model::{Family, LstmConfig, RotaryScaling, TransformerConfig, cases};
use crate::privacy::random::RunKey;
use crate::trainer::dropout::Dropout;
use rand::RngExt;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

/// Every family and head, small, with all that is special about them switched on.
pub(super) fn models() -> Vec<(&'static str, Model)> {
    let tiny = |family| TransformerConfig::new(family, 7, 8, 2, 2, 6);
    let scaling = RotaryScaling::Llama3 {
        factor: 4.0,
        low: 1.0,
        high: 4.0,
        original: 32.0,
    };
    let classes = |family| TransformerConfig {
        head: Head::Classes(3),
        ..tiny(family)
    };
    let untied = |family| TransformerConfig {
        tied: false,
        ..tiny(family)
    };
    let lstm = LstmConfig {
        vocabulary: 7,
        embedding: 3,
        hidden: 4,
    };
    let decoders = cases::decoders(7, 6, 2, scaling).into_iter();
    let others = [
        ("bert", tiny(Family::Bert)),
        ("bert untied", untied(Family::Bert)),
        ("bert classes", classes(Family::Bert)),
        ("roberta", tiny(Family::Roberta)),
        ("roberta classes", classes(Family::Roberta)),
        ("gpt2 classes", classes(Family::Gpt2)),
        ("llama classes", classes(Family::Llama)),
        ("gemma2 classes", classes(Family::Gemma2)),
    ];
    let transformers = decoders.chain(others);
    let transformers = transformers.map(|(name, config)| (name, config.into()));
    [("lstm", lstm.into())]
        .into_iter()
        .chain(transformers)
        .collect()
}

/// Weights far from any symmetry: uniform in ±0.5 around the starting ones.
fn weights(model: &Model) -> Vec<Vec<f64>> {
    let mut rng = ChaCha20Rng::seed_from_u64(17);
    let mut moved = widened(&model.starting_weights(5));
    for w in moved.iter_mut().flatten() {
        *w += rng.random::<f64>() - 0.5;
    }
    moved
}

/// L = Σ c ∘ logits with fixed c; central differences of fourth order with step h = 1e-5 are good to about
/// h⁴·|L⁽⁵⁾|/30 + 1e-16·|L|/h, some 1e-10. Those of second order were wrong by 5e-7 for an embedding near zero before a norm.
#[test]
fn gradients_agree_with_central_differences() {
    let rates = Dropout {
        embedding: 0.2,
        attention: 0.4,
        hidden: 0.3,
    };
    let dropping = Masks::new(&RunKey::from_seed(2), 1, rates).map(|m| m.of(3, 0));
    for ((name, model), masks) in models()
        .into_iter()
        .flat_map(|m| [(m.clone(), None), (m, dropping.as_ref())])
    {
        let engine = Exact::new(&model, model.starting_weights(5)).unwrap();
        let tokens = [3u32, 0, 3, 6];
        let token_types = if name.starts_with("bert") {
            vec![0u32, 0, 1, 1]
        } else {
            Vec::new()
        };
        let sequence = Sequence {
            tokens: &tokens,
            token_types: &token_types,
            masks,
        };
        let mut w = weights(&model);
        let slopes = |logits: &[f64]| -> Vec<f64> {
            (0..logits.len()).map(|i| (i as f64 * 1.7).sin()).collect()
        };
        let gradient = engine.network.gradient(&w, &sequence, &slopes);
        let loss = |w: &[Vec<f64>]| {
            let logits = engine.network.logits(w, &sequence);
            dot(&slopes(&logits), &logits)
        };
        let step = 1e-5;
        for p in 0..w.len() {
            for i in 0..w[p].len() {
                let old = w[p][i];
                let mut around = |by: f64| {
                    w[p][i] = old + by;
                    let up = loss(&w);
                    w[p][i] = old - by;
                    up - loss(&w)
                };
                let difference = (8.0 * around(step) - around(2.0 * step)) / (12.0 * step);
                w[p][i] = old;
                let error = (gradient[p][i] - difference).abs();
                assert!(
                    error < 1e-7 * (1.0 + difference.abs()),
                    "{name}: {}[{i}]: {} against {difference}",
                    engine.parameters[p].name,
                    gradient[p][i]
                );
            }
        }
        if masks.is_some() {
            continue; // what is dropped has no gradient
        }
        let some = |g: &Vec<f64>| g.iter().any(|g| g.abs() > 1e-6);
        let silent: Vec<&str> = engine
            .parameters
            .iter()
            .zip(&gradient)
            .filter(|(_, g)| !some(g))
            .map(|(p, _)| p.name.as_str())
            .collect();
        assert!(silent.is_empty(), "{name}: no gradient at {silent:?}");
    }
}

/// Whether each probability of an attention head stays in each of `records` passes, rows × rows × records.
fn stays(family: Family, records: u32, rows: usize) -> Vec<Vec<bool>> {
    let config = TransformerConfig::new(family, 7, 8, 1, 2, rows);
    let rates = Dropout {
        attention: 0.5,
        ..Dropout::NONE
    };
    let masks = Masks::new(&RunKey::from_seed(6), 1, rates).unwrap();
    let mut out = vec![Vec::new(); rows * rows];
    for record in 0..records {
        let masks = masks.of(record, 0);
        let attention = attention::Attention {
            config: &config,
            layer: 0,
            masks: Some(&masks),
        };
        let factors = attention.factors(1, rows);
        for (out, factor) in out.iter_mut().zip(&factors) {
            out.push(*factor > 0.0);
        }
    }
    out
}

/// An encoder's rows see later keys, whose probabilities are dropped as well. Seed 6, 400 passes at rate 0.5: each of
/// 144 probabilities goes in half of them, and each pair agrees in half of them, within 6.5 standard deviations (10 440
/// comparisons a family, false alarm below 1e-5).
#[test]
fn encoders_drop_later_keys_as_often_as_earlier_ones() {
    let (records, rows) = (400, 12);
    let far = |count: usize| (count as f64 - 200.0).abs() > 6.5 * 10.0;
    for family in [Family::Bert, Family::Roberta] {
        let stays = stays(family, records, rows);
        for (at, one) in stays.iter().enumerate() {
            let (row, key) = (at / rows, at % rows);
            let gone = one.iter().filter(|stays| !**stays).count();
            assert!(!far(gone), "row {row}, key {key}: dropped {gone} times");
            for (other, two) in stays.iter().enumerate().take(at) {
                let same = one.iter().zip(two).filter(|(a, b)| a == b).count();
                assert!(!far(same), "{at} and {other} agree {same} times");
            }
        }
    }
}

/// A mask is that of its row and key, however long the text; a decoder's are drawn for the keys that a row sees alone.
#[test]
fn masks_of_attention_depend_on_row_and_key_alone() {
    let (long, short) = (9, 5);
    for family in [Family::Bert, Family::Gpt2] {
        let (all, few) = (stays(family, 20, long), stays(family, 20, short));
        for (row, key) in (0..short).flat_map(|row| (0..short).map(move |key| (row, key))) {
            assert_eq!(
                few[row * short + key],
                all[row * long + key],
                "{row}, {key}"
            );
        }
    }
    let rates = Dropout {
        attention: 0.5,
        ..Dropout::NONE
    };
    let masks = Masks::new(&RunKey::from_seed(6), 1, rates).unwrap();
    let place = DropoutSite::Attention { layer: 0, head: 1 };
    let all = stays(Family::Gpt2, 20, long);
    for record in 0..20 {
        let kept = masks.of(record, 0).kept(place, long * (long + 1) / 2);
        let mut drawn = kept.unwrap().stays.into_iter();
        for (row, key) in (0..long).flat_map(|row| (0..long).map(move |key| (row, key))) {
            let expected = key > row || drawn.next().unwrap();
            assert_eq!(all[row * long + key][record as usize], expected);
        }
    }
}

#[test]
fn an_encoder_is_no_next_token_model() {
    let model: Model = TransformerConfig::new(Family::Bert, 7, 8, 1, 2, 6).into();
    let mut encoder = exact(&model, model.starting_weights(1)).unwrap();
    let error = encoder.score(&[vec![1, 2]]).err().unwrap();
    assert!(error.to_string().contains("no next token"), "{error}");
    let mut logits = exact_logits(&model, model.starting_weights(1)).unwrap();
    assert_eq!(logits.logits(&[1, 2], &[0, 1]).unwrap().len(), 14);
    assert!(logits.logits(&[1, 2], &[0, 2]).is_err());
    assert!(logits.logits(&[1, 2], &[0]).is_err());
    assert!(matches!(
        logits.logits(&[1; 7], &[]),
        Err(Error::TooLong { most: 6, .. })
    ));
}

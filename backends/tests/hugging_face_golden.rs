//! Logits that transformers gave for weights made by a formula, for all five families.
//!
//! Printed by `benches/hugging_face.py --golden` with torch 2.4.1 and transformers 4.46.3 in
//! double precision. Every tensor of the file is filled by [`formula`], so this holds names,
//! orientation and arithmetic at once.
#![cfg(feature = "oracle")]
#![allow(clippy::unwrap_used, reason = "a failing test should panic")]

use reticent_backends::{
    Family, Head, Rotary, RotaryScaling, TransformerConfig, exact_logits, load_hugging_face,
    save_hugging_face,
};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use std::path::Path;

const TOKENS: [u32; 6] = [3, 9, 4, 4, 7, 10];
/// Llama and Gemma compute their norms in single precision whatever the weights.
const TOLERANCE: f64 = 2e-6;

fn base(family: Family) -> TransformerConfig {
    TransformerConfig {
        feed_forward: 20,
        ..TransformerConfig::new(family, 11, 8, 2, 4, 48)
    }
}

fn encoder(family: Family, head: Head) -> TransformerConfig {
    TransformerConfig {
        head,
        norm_epsilon: 1e-12,
        ..base(family)
    }
}

fn llama() -> TransformerConfig {
    TransformerConfig {
        key_value_heads: 2,
        rotary: Some(Rotary {
            theta: 500.0,
            scaling: Some(RotaryScaling::Llama3 {
                factor: 8.0,
                low: 1.0,
                high: 4.0,
                original: 32.0,
            }),
        }),
        ..base(Family::Llama)
    }
}

fn gemma2() -> TransformerConfig {
    TransformerConfig {
        key_value_heads: 2,
        head_width: 4,
        query_scalar: Some(7.0),
        attention_cap: Some(2.0),
        logit_cap: Some(3.0),
        sliding_window: Some(4),
        ..base(Family::Gemma2)
    }
}

fn gpt2() -> TransformerConfig {
    TransformerConfig {
        feed_forward: 32,
        ..base(Family::Gpt2)
    }
}

/// 0.3 sin(0.7 i + phase(name)), and 1 more for the gains of a norm.
fn formula(name: &str, index: usize, gain: bool) -> f32 {
    let weighted = name
        .bytes()
        .enumerate()
        .map(|(i, b)| (i + 1) * usize::from(b));
    let phase = weighted.sum::<usize>() % 1000;
    let wave = 0.3 * (0.7 * index as f64 + 0.013 * phase as f64).sin();
    (f64::from(u8::from(gain)) + wave) as f32
}

/// Fills a saved model's file by the formula. RoBERTa's second name of the bias follows the first.
fn fill(folder: &Path, family: Family) {
    let path = folder.join("model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let filled: Vec<(String, Vec<usize>, Vec<u8>)> = file
        .iter()
        .map(|(name, view)| {
            let key = if name == "lm_head.decoder.bias" {
                "lm_head.bias"
            } else {
                name
            };
            let vector = view.shape().len() == 1;
            let gain = vector && name.ends_with(".weight") && family != Family::Gemma2;
            let count = view.shape().iter().product();
            let values = (0..count).flat_map(|i| formula(key, i, gain).to_le_bytes());
            (name.to_owned(), view.shape().to_vec(), values.collect())
        })
        .collect();
    let views = filled.iter().map(|(name, shape, raw)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), raw).unwrap();
        (name.as_str(), view)
    });
    std::fs::write(&path, safetensors::serialize(views, None).unwrap()).unwrap();
}

fn check(config: TransformerConfig, expected: &[f64]) {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("model");
    let config = config.validated().unwrap();
    save_hugging_face(&folder, &config, &config.starting_weights(0), None).unwrap();
    fill(&folder, config.family);
    let (loaded, weights) = load_hugging_face(&folder).unwrap();
    assert_eq!(loaded, config, "the shape survives config.json");
    let mut model = exact_logits(&loaded.into(), weights).unwrap();
    let logits = model.logits(&TOKENS, &[]).unwrap();
    let last = &logits[logits.len() - expected.len()..];
    for (ours, theirs) in last.iter().zip(expected) {
        assert!(
            (ours - theirs).abs() < TOLERANCE,
            "{last:?}\nagainst {expected:?}"
        );
    }
}

#[test]
fn gpt2_as_transformers() {
    let expected = [
        1.54071008,
        1.19319958,
        0.310099678,
        -0.712194135,
        -1.41480659,
        -1.48235733,
        -0.884524917,
        0.110342649,
        1.05568088,
        1.52715753,
        1.31314162,
    ];
    check(gpt2(), &expected);
}

#[test]
fn llama_as_transformers() {
    let expected = [
        0.591582549,
        0.488198642,
        0.165677874,
        -0.231210456,
        -0.524315693,
        -0.582072312,
        -0.37855518,
        -0.00511659971,
        0.370618639,
        0.579994946,
        0.529029979,
    ];
    check(llama(), &expected);
}

#[test]
fn gemma2_as_transformers() {
    let expected = [
        0.924680435,
        0.0613469812,
        -0.837730445,
        -1.30345371,
        -1.22860753,
        -0.619215178,
        0.329343684,
        1.08913243,
        1.33826471,
        1.04581429,
        0.253137974,
    ];
    check(gemma2(), &expected);
}

#[test]
fn bert_for_masked_tokens_as_transformers() {
    let expected = [
        -0.158698381,
        -1.09133956,
        -1.53236336,
        -1.28023083,
        -0.447044289,
        0.591267678,
        1.36460388,
        1.52160226,
        0.989347315,
        0.00724905721,
        -0.98065473,
    ];
    check(encoder(Family::Bert, Head::MaskedToken), &expected);
}

#[test]
fn bert_for_classes_as_transformers() {
    let expected = [0.537861251, 0.728672921, 0.588011233];
    check(encoder(Family::Bert, Head::Classes(3)), &expected);
}

#[test]
fn roberta_for_masked_tokens_as_transformers() {
    let expected = [
        1.747569,
        1.84567785,
        1.10894832,
        -0.12985213,
        -1.31057053,
        -1.89902885,
        -1.62877079,
        -0.621754751,
        0.666694175,
        1.65382082,
        1.89309495,
    ];
    check(encoder(Family::Roberta, Head::MaskedToken), &expected);
}

#[test]
fn roberta_for_classes_as_transformers() {
    let expected = [-0.344002849, -1.01227148];
    check(encoder(Family::Roberta, Head::Classes(2)), &expected);
}

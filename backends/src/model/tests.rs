//! Published parameter counts, unique names, and sizes that are refused.

use super::*;
use std::collections::HashSet;

const FAMILIES: [Family; 21] = [
    Family::Gpt2,
    Family::GptBigcode,
    Family::GptNeo,
    Family::GptNeox,
    Family::Opt,
    Family::Llama,
    Family::Mistral,
    Family::Qwen2,
    Family::Qwen3,
    Family::Gemma,
    Family::Gemma2,
    Family::Gemma3,
    Family::Phi,
    Family::Phi3,
    Family::Olmo2,
    Family::Granite,
    Family::Smollm3,
    Family::Stablelm,
    Family::Starcoder2,
    Family::Bert,
    Family::Roberta,
];

fn count(config: &TransformerConfig) -> usize {
    config.parameters().iter().map(Parameter::len).sum()
}

fn tiny(family: Family) -> TransformerConfig {
    TransformerConfig::new(family, 40, 16, 2, 4, 24)
}

/// GPT-2 small has 124 439 808 parameters (its published checkpoint).
#[test]
fn gpt2_has_its_published_size() {
    assert_eq!(count(&TransformerConfig::gpt2(50_257)), 124_439_808);
}

/// Llama 3.2 1B: 1 235 814 400 parameters, 8 key-value heads, tied.
#[test]
fn llama_has_its_published_size() {
    let config = TransformerConfig {
        key_value_heads: 8,
        feed_forward: 8192,
        tied: true,
        ..TransformerConfig::new(Family::Llama, 128_256, 2048, 16, 32, 131_072)
    };
    assert_eq!(count(&config.validated().unwrap()), 1_235_814_400);
}

/// bert-base-uncased with its masked-token head: 109 514 298 parameters.
#[test]
fn bert_has_its_published_size() {
    let config = TransformerConfig::new(Family::Bert, 30_522, 768, 12, 12, 512);
    assert_eq!(count(&config), 109_514_298);
}

#[test]
fn names_are_unique_and_starting_weights_fit() {
    for family in FAMILIES {
        let config = tiny(family).validated().unwrap();
        let parameters = config.parameters();
        let names: HashSet<&str> = parameters.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names.len(), parameters.len(), "{family:?}");
        let weights = config.starting_weights(3);
        crate::trainer::check_shapes(&parameters, &weights).unwrap();
        assert_eq!(weights, config.starting_weights(3));
        let json = serde_json::to_string(&Model::from(config.clone())).unwrap();
        let back: Model = serde_json::from_str(&json).unwrap();
        assert_eq!(back, Model::from(config));
    }
}

#[test]
fn roberta_counts_positions_from_the_padding() {
    let config = tiny(Family::Roberta);
    assert_eq!(config.position_rows(&[5, 6, 1, 7]), [2, 3, 1, 4]);
    assert_eq!(config.longest(), 22);
    assert_eq!(tiny(Family::Bert).position_rows(&[5, 1]), [0, 1]);
}

#[test]
fn sliding_windows_alternate() {
    let config = TransformerConfig {
        sliding_window: Some(2),
        ..tiny(Family::Gemma2)
    };
    assert!(config.sees(0, 3, 3) && config.sees(0, 3, 2) && !config.sees(0, 3, 1));
    assert!(config.sees(1, 3, 0) && !config.sees(1, 3, 4));
}

#[test]
fn shapes_that_ask_for_too_much_or_do_not_fit_are_refused() {
    let refused = |change: fn(&mut TransformerConfig), part: &str| {
        let mut config = tiny(Family::Llama);
        change(&mut config);
        let error = config.validated().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    refused(|c| c.vocabulary = 1 << 30, "vocabulary size");
    refused(|c| c.width = 0, "width");
    refused(|c| c.layers = 100_000, "number of layers");
    refused(|c| c.key_value_heads = 3, "no multiple");
    refused(|c| c.head_width = 3, "even head width");
    refused(|c| c.norm_epsilon = f64::NAN, "norm epsilon");
    refused(|c| c.logit_cap = Some(3.0), "cannot say logit_cap = 3");
    refused(|c| c.rotary = None, "cannot say rotary");
    refused(|c| c.head = Head::MaskedToken, "encoders masked ones");
    refused(|c| c.query_scalar = Some(-1.0), "query scalar");
    refused(
        |c| {
            (c.width, c.layers, c.feed_forward) = (1 << 14, 256, 1 << 17);
            (c.heads, c.key_value_heads, c.head_width) = (16, 16, 1024);
        },
        "number of parameters",
    );
}

#[test]
fn tensors_of_one_layer_share_a_group() {
    let lstm = Model::from(LstmConfig::paper(10));
    assert_eq!(lstm.groups(), [0, 1, 1, 1, 2, 2]);
    let config = TransformerConfig::new(Family::Gpt2, 40, 16, 1, 4, 24);
    let (layout, groups) = (config.layout(), Model::from(config).groups());
    let query = layout.layers[0].attention_in;
    assert_eq!(groups[query.weight], groups[query.bias.unwrap()]);
    assert!(groups[query.weight] < groups[layout.layers[0].attention_out.weight]);
    assert_eq!(groups[layout.token_embedding], 0);
    assert!(groups.windows(2).all(|w| w[1] == w[0] || w[1] == w[0] + 1));
}

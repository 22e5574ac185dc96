//! The models that tests of all engines go over.

use super::{
    Activation, Biases, Family, Multipliers, Residual, Rotary, RotaryScaling, Switches,
    TransformerConfig,
};

/// Returns every kind of decoder, small, with all that is special about it switched on.
pub(crate) fn decoders(
    vocabulary: usize,
    positions: usize,
    window: usize,
    scaling: RotaryScaling,
) -> Vec<(&'static str, TransformerConfig)> {
    let tiny = |family| TransformerConfig::new(family, vocabulary, 8, 2, 2, positions);
    let like = |family| {
        let base = tiny(family);
        let rotary = base.rotary.clone().map(|rotary| Rotary {
            theta: 100.0,
            width: rotary.width.map(|_| 2),
            ..rotary
        });
        TransformerConfig {
            heads: 4,
            key_value_heads: 2,
            head_width: 4,
            feed_forward: 6,
            rotary,
            ..base
        }
    };
    let switched = |base: &TransformerConfig, change: fn(&mut Switches)| {
        let mut changed = base.clone();
        change(&mut changed.switches);
        changed
    };
    let with = |base: &TransformerConfig, change: &dyn Fn(&mut TransformerConfig)| {
        let mut changed = base.clone();
        change(&mut changed);
        changed
    };
    let plain = like(Family::Llama);
    let llama = TransformerConfig {
        rotary: plain.rotary.clone().map(|rotary| Rotary {
            scaling: Some(scaling),
            ..rotary
        }),
        ..plain
    };
    let gemma2 = TransformerConfig {
        sliding_window: Some(window),
        query_scalar: Some(3.0),
        attention_cap: Some(0.5),
        logit_cap: Some(0.7),
        key_value_heads: 1,
        ..tiny(Family::Gemma2)
    };
    let gemma3 = TransformerConfig {
        sliding_window: Some(window),
        logit_cap: Some(0.7),
        switches: Switches {
            sliding_layers: Some(vec![1]),
            ..like(Family::Gemma3).switches
        },
        ..like(Family::Gemma3)
    };
    let granite = switched(&like(Family::Granite), |s| {
        s.biases.attention_in = true;
        s.biases.attention_out = true;
        s.multipliers = Multipliers {
            embedding: 3.0,
            attention: Some(0.3),
            residual: 0.4,
            logits: 0.5,
        };
    });
    let smollm3 = switched(&like(Family::Smollm3), |s| s.unturned_layers = vec![0]);
    let neo = with(&tiny(Family::GptNeo), &|c| c.sliding_window = Some(window));
    let stablelm = like(Family::Stablelm);
    let windowed = |family| with(&like(family), &|c| c.sliding_window = Some(window));
    let untied = |config: &TransformerConfig| with(config, &|c| c.tied = false);
    let tied = |config: &TransformerConfig| with(config, &|c| c.tied = true);
    let all = |s: &mut Switches| {
        s.biases = Biases {
            head: false,
            ..Biases::ALL
        }
    };
    let attention = |s: &mut Switches| {
        s.biases.attention_in = true;
        s.biases.attention_out = true;
    };
    vec![
        ("gpt2", tiny(Family::Gpt2)),
        ("gpt2 untied", untied(&tiny(Family::Gpt2))),
        ("gpt_bigcode", tiny(Family::GptBigcode)),
        ("gpt_neo", neo),
        ("gpt_neox", tiny(Family::GptNeox)),
        (
            "gpt_neox in turn",
            switched(&tiny(Family::GptNeox), |s| s.residual = Residual::InTurn),
        ),
        ("opt", tiny(Family::Opt)),
        ("llama", llama.clone()),
        ("llama tied", tied(&llama)),
        ("llama with biases", switched(&llama, all)),
        ("qwen2", like(Family::Qwen2)),
        ("qwen3", switched(&like(Family::Qwen3), attention)),
        ("qwen3 tied", tied(&like(Family::Qwen3))),
        ("mistral", windowed(Family::Mistral)),
        ("gemma", like(Family::Gemma)),
        ("gemma2", gemma2.clone()),
        ("gemma2 untied", untied(&gemma2)),
        ("gemma3", gemma3),
        ("phi", like(Family::Phi)),
        ("phi3", windowed(Family::Phi3)),
        ("olmo2", like(Family::Olmo2)),
        ("granite", granite),
        ("smollm3", smollm3),
        (
            "stablelm",
            switched(&stablelm, |s| s.residual = Residual::ParallelOneNorm),
        ),
        ("starcoder2", windowed(Family::Starcoder2)),
        (
            "quick gelu",
            with(&tiny(Family::Gpt2), &|c| {
                c.activation = Activation::QuickGelu
            }),
        ),
    ]
}

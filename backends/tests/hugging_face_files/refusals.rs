//! What is refused, with the place and the reason.

use super::folder::{Folder, Tensors};
use reticent_backends::checkpoint::Pretrained;
use reticent_backends::hugging_face::load_hugging_face;
use reticent_backends::model::{Activation, Family, Head, HeadNorms, Residual, TransformerConfig};
use reticent_corpus::tokenize::{Origin, Tokenizer};
use safetensors::tensor::Dtype;
use serde_json::{Value, json};
use std::path::Path;

#[test]
fn tensors_that_do_not_fit_are_named() {
    let with = |change: fn(&mut Tensors), words: &[&str]| {
        let folder = Folder::new(Family::Llama);
        folder.change(change);
        folder.refused(words);
    };
    let gate = "model.layers.0.mlp.gate_proj.weight";
    with(
        |t| drop(t.remove("model.layers.0.mlp.gate_proj.weight")),
        &["lacks", gate],
    );
    with(
        |t| {
            let extra = t["lm_head.weight"].clone();
            t.insert("model.layers.7.mlp.gate_proj.weight".into(), extra);
        },
        &[
            "model.layers.7.mlp.gate_proj.weight",
            "which the model lacks",
        ],
    );
    with(
        |t| t.get_mut("model.layers.0.mlp.gate_proj.weight").unwrap().1 = vec![8, 32],
        &[gate, "[8, 32]", "[32, 8]"],
    );
    with(
        |t| {
            let raw = &mut t.get_mut("model.norm.weight").unwrap().2;
            raw[..4].copy_from_slice(&f32::NAN.to_le_bytes());
        },
        &["model.norm.weight", "finite"],
    );
    with(
        |t| t.get_mut("model.norm.weight").unwrap().0 = Dtype::I32,
        &["model.norm.weight", "I32"],
    );
}

#[test]
fn broken_files_are_refused() {
    let damage = |change: &dyn Fn(&mut Vec<u8>)| {
        let folder = Folder::new(Family::Gpt2);
        let path = folder.path("model.safetensors");
        let mut bytes = std::fs::read(&path).unwrap();
        change(&mut bytes);
        std::fs::write(&path, bytes).unwrap();
        folder.refused(&["model.safetensors", "not a whole safetensors file"]);
    };
    damage(&|b| b.truncate(b.len() - 1));
    damage(&|b| b.truncate(5));
    damage(&|b| b.extend([0; 4]));
    // a header that claims to be huge
    damage(&|b| b[..8].copy_from_slice(&u64::MAX.to_le_bytes()));
    // two tensors over the same bytes
    damage(&|b| {
        let header = json!({
            "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
            "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]},
        })
        .to_string();
        *b = (header.len() as u64).to_le_bytes().to_vec();
        b.extend(header.bytes());
        b.extend([0; 12]);
    });
}

/// Lists by layer would be as long as a folder says: its number of layers is refused first, not the lists beside it.
#[test]
fn a_number_of_layers_is_checked_before_lists_by_layer() {
    let kinds = json!(["full_attention", "sliding_attention"]);
    for (family, number, list, entries) in [
        (
            Family::Gemma2,
            "num_hidden_layers",
            "layer_types",
            kinds.clone(),
        ),
        (
            Family::Gemma3,
            "num_hidden_layers",
            "layer_types",
            kinds.clone(),
        ),
        (Family::Qwen2, "num_hidden_layers", "layer_types", kinds),
        (
            Family::Smollm3,
            "num_hidden_layers",
            "no_rope_layers",
            json!([1, 0]),
        ),
        (
            Family::GptNeo,
            "num_layers",
            "attention_layers",
            json!(["global", "local"]),
        ),
    ] {
        let folder = Folder::of(TransformerConfig::new(family, 11, 64, 2, 32, 16));
        folder.change_config(|c| {
            c[number] = json!(300);
            c[list] = entries;
        });
        folder.refused(&["config.json", "number of layers", "[1, 256]", "300"]);
    }
}

/// A window is followed where it hides something, and what is not there is what transformers takes.
#[test]
fn relatives_of_llama_are_read_as_transformers_reads_them() {
    let of = |family, change: &dyn Fn(&mut Value)| {
        let folder = Folder::of(TransformerConfig::new(family, 11, 64, 2, 32, 16));
        folder.change_config(|c| {
            c["architectures"] = Value::Null;
            change(c);
        });
        load_hugging_face(&folder.home.path().join("model"))
            .map(|(config, _)| config)
            .map_err(|e| e.to_string())
    };
    for family in [Family::Qwen2, Family::Qwen3] {
        let windowed = |window: usize, types: Value| {
            move |c: &mut Value| {
                c["use_sliding_window"] = json!(true);
                c["sliding_window"] = json!(window);
                c["max_window_layers"] = json!(1);
                c["layer_types"] = types.clone();
            }
        };
        let kinds = json!(["sliding_attention", "full_attention"]);
        let found = of(family, &windowed(15, Value::Null)).unwrap();
        assert_eq!(found.sliding_window, Some(15));
        assert_eq!(found.switches.sliding_layers, Some(vec![1]));
        let found = of(family, &windowed(15, kinds.clone())).unwrap();
        assert_eq!(found.switches.sliding_layers, Some(vec![0]));
        let found = of(family, &windowed(16, kinds.clone())).unwrap();
        assert_eq!(found.sliding_window, None);
        let said = of(family, &|c| c["layer_types"] = kinds.clone()).unwrap_err();
        assert!(
            said.contains("layer_types[0] is `sliding_attention` without use_sliding_window"),
            "{said}"
        );
        // 32 key-value heads, where the key is not there.
        let absent = of(family, &|c| {
            c.as_object_mut().unwrap().remove("num_key_value_heads");
        });
        assert_eq!(absent.unwrap().key_value_heads, 32);
    }
    let absent = of(Family::Qwen3, &|c| {
        c.as_object_mut().unwrap().remove("head_dim");
    });
    assert!(
        absent.unwrap_err().contains("shape"),
        "128, and the weights have 2"
    );
    for (window, seen) in [(json!(null), None), (json!(16), None), (json!(7), Some(7))] {
        let found = of(Family::Mistral, &|c| c["sliding_window"] = window.clone()).unwrap();
        assert_eq!(found.sliding_window, seen);
    }
    // 4096 where the key is not there.
    let short = of(Family::Mistral, &|c| {
        c.as_object_mut().unwrap().remove("sliding_window");
    });
    assert_eq!(short.unwrap().sliding_window, None);
    let long = of(Family::Mistral, &|c| {
        c.as_object_mut().unwrap().remove("sliding_window");
        c["max_position_embeddings"] = json!(5000);
    });
    assert_eq!(long.unwrap().sliding_window, Some(4096));
}

/// What no `config.json` can say is no model of the family.
#[test]
fn switches_that_a_family_does_not_have_are_refused() {
    let refused = |family, change: &dyn Fn(&mut TransformerConfig), part: &str| {
        let mut config = TransformerConfig::new(family, 11, 8, 2, 2, 16);
        change(&mut config);
        let said = config.validated().unwrap_err().to_string();
        assert!(said.contains(part), "{said}");
    };
    refused(
        Family::Qwen2,
        &|c| c.switches.biases.feed_forward = true,
        "the config.json of a qwen2 cannot say switches.biases.feed_forward = true",
    );
    refused(
        Family::Llama,
        &|c| c.sliding_window = Some(3),
        "the config.json of a llama cannot say sliding_window = 3",
    );
    refused(
        Family::Llama,
        &|c| c.switches.residual = Residual::Parallel,
        "llama cannot say switches.residual",
    );
    refused(
        Family::Gpt2,
        &|c| c.switches.head_norms = HeadNorms::PerHead,
        "norms of queries and keys",
    );
    refused(
        Family::Phi,
        &|c| c.switches.multipliers.residual = 0.5,
        "phi cannot say switches.multipliers.residual = 0.5",
    );
    refused(
        Family::Opt,
        &|c| c.norm_epsilon = 1e-6,
        "opt cannot say norm_epsilon",
    );
}

/// Hybrids and mixtures of experts end in one sentence that says what can be done.
#[test]
fn models_of_other_kinds_are_refused_with_a_way_out() {
    for (kind, what) in [
        ("mixtral", "a mixture of experts"),
        ("jamba", "not made of attention alone"),
        ("falcon", "not covered (bert, gemma,"),
    ] {
        let folder = Folder::new(Family::Gpt2);
        folder.change_config(|c| c["model_type"] = json!(kind));
        folder.refused(&[
            kind,
            what,
            "`--scorer`",
            "reports/examples/scorer_transformers.py",
        ]);
    }
}

/// A scorer that asks for next tokens has no losses of a model that predicts none, so it is no way out.
#[test]
fn models_that_predict_no_next_token_are_not_sent_to_a_scorer() {
    for (kind, architecture) in [
        ("xlm-roberta", "XLMRobertaForMaskedLM"),
        ("bert", "BertForTokenClassification"),
        ("mixtral", "MixtralForSequenceClassification"),
        ("llama", "LlamaForTokenClassification"),
    ] {
        let folder = Folder::new(Family::Llama);
        folder.change_config(|c| {
            c["model_type"] = json!(kind);
            c["architectures"] = json!([architecture]);
        });
        let error = load_hugging_face(&folder.home.path().join("model"))
            .unwrap_err()
            .to_string();
        let advised = error.contains("scorer_transformers.py");
        assert!(
            !advised && error.contains("predicts no next token"),
            "{error}"
        );
    }
}

/// What has rotary positions of whole heads in transformers, which reads a share of them and follows it not.
const WHOLE_HEADS: [Family; 11] = [
    Family::Llama,
    Family::Mistral,
    Family::Qwen2,
    Family::Qwen3,
    Family::Gemma,
    Family::Gemma2,
    Family::Gemma3,
    Family::Olmo2,
    Family::Granite,
    Family::Smollm3,
    Family::Starcoder2,
];

/// The shape that a changed `config.json` says.
fn read(family: Family, change: &dyn Fn(&mut Value)) -> Result<TransformerConfig, String> {
    let folder = Folder::of(TransformerConfig::new(family, 11, 16, 1, 4, 16));
    folder.change_config(change);
    let loaded = load_hugging_face(&folder.home.path().join("model"));
    loaded.map(|(config, _)| config).map_err(|e| e.to_string())
}

/// Every refusal of a setting names it and the way out.
fn uncovered(family: Family, change: &dyn Fn(&mut Value), words: &[&str]) {
    let error = read(family, change).unwrap_err();
    let other_head = family == Family::Bert || words.contains(&"LlamaForTokenClassification");
    let way_out: &[&str] = match other_head {
        true => &["not covered", "predicts no next token"],
        false => &[
            "not covered",
            "`--scorer`",
            "reports/examples/scorer_transformers.py",
        ],
    };
    for word in [words, way_out].concat() {
        assert!(
            error.contains(word),
            "{family:?}: `{word}` is not in: {error}"
        );
    }
}

#[test]
fn a_share_of_a_head_is_followed_where_transformers_does() {
    for family in WHOLE_HEADS {
        for share in [json!(0.5), json!(2)] {
            let outside = |c: &mut Value| c["partial_rotary_factor"] = share.clone();
            uncovered(family, &outside, &["partial_rotary_factor", "must be 1"]);
            let scaling = |c: &mut Value| {
                c["rope_scaling"] = json!({"type": "default", "partial_rotary_factor": share});
            };
            uncovered(family, &scaling, &["partial_rotary_factor", "must be 1"]);
            let parameters = |c: &mut Value| {
                let said = json!({"rope_type": "default", "partial_rotary_factor": share});
                c["rope_parameters"] = match family {
                    Family::Gemma3 => json!({"sliding_attention": said}),
                    _ => said,
                };
            };
            uncovered(family, &parameters, &["partial_rotary_factor", "must be 1"]);
        }
        let whole = read(family, &|c| c["partial_rotary_factor"] = json!(1.0));
        assert_eq!(whole.unwrap().rotary.unwrap().width, None, "{family:?}");
    }
    for (family, key) in [
        (Family::Phi, "partial_rotary_factor"),
        (Family::Phi3, "partial_rotary_factor"),
        (Family::Stablelm, "partial_rotary_factor"),
        (Family::GptNeox, "rotary_pct"),
    ] {
        let width =
            |change: &dyn Fn(&mut Value)| read(family, change).unwrap().rotary.unwrap().width;
        assert_eq!(width(&|c| c[key] = json!(0.5)), Some(2), "{family:?}");
        let inside = |c: &mut Value| {
            drop(c.as_object_mut().unwrap().remove(key));
            c["rope_scaling"] = json!({"type": "default", "partial_rotary_factor": 0.5});
        };
        assert_eq!(width(&inside), Some(2), "{family:?}");
    }
}

/// What stands inside `rope_scaling` counts, as in transformers 5, and must be what stands outside, as in 4.
#[test]
fn what_stands_inside_rope_scaling_is_followed_or_refused() {
    let without = |c: &mut Value, key: &str| drop(c.as_object_mut().unwrap().remove(key));
    let theta =
        |change: &dyn Fn(&mut Value)| read(Family::Llama, change).map(|c| c.rotary.unwrap().theta);
    let said = json!({"rope_type": "linear", "factor": 3.0, "rope_theta": 500.0});
    let inside = theta(&|c| {
        without(c, "rope_theta");
        c["rope_scaling"] = said.clone();
    });
    assert_eq!(inside, Ok(500.0));
    let same = theta(&|c| {
        c["rope_theta"] = json!(500);
        c["rope_scaling"] = said.clone();
    });
    assert_eq!(same, Ok(500.0));
    for key in ["rope_scaling", "rope_parameters"] {
        let words = [&format!("{key}.rope_theta = 500"), "rope_theta = 777"];
        let beside = |c: &mut Value| {
            c["rope_theta"] = json!(777.0);
            c[key] = said.clone();
        };
        uncovered(Family::Llama, &beside, &words.map(|word| word));
        for other in ["attention_factor", "beta_fast", "full_attention"] {
            let unknown = |c: &mut Value| c[key] = json!({"rope_type": "default", other: 2.0});
            uncovered(Family::Llama, &unknown, &[&format!("{key}.{other}")]);
        }
    }
    // Gemma 3 keeps kinds of layers apart.
    let flat = |c: &mut Value| c["rope_parameters"] = json!({"rope_theta": 5.0});
    uncovered(Family::Gemma3, &flat, &["rope_parameters.rope_theta"]);
    let neox = |c: &mut Value| c["rope_scaling"] = json!({"type": "default", "rope_theta": 5.0});
    uncovered(
        Family::GptNeox,
        &neox,
        &["rope_scaling.rope_theta = 5", "rotary_emb_base"],
    );
}

#[test]
fn both_objects_of_rotary_positions_must_say_the_same() {
    let both = |newer: Value, older: Value| {
        move |c: &mut Value| {
            drop(c.as_object_mut().unwrap().remove("rope_theta"));
            c["rope_parameters"] = newer.clone();
            c["rope_scaling"] = older.clone();
        }
    };
    let linear = |factor: f64| json!({"type": "linear", "factor": factor, "rope_theta": 9.0});
    let newer = json!({"rope_type": "linear", "factor": 3.0, "rope_theta": 9.0});
    let same = read(Family::Llama, &both(newer.clone(), linear(3.0)));
    assert_eq!(
        same.unwrap().rotary.unwrap().theta.to_bits(),
        9f64.to_bits()
    );
    for other in [
        linear(4.0),
        json!({"type": "linear", "factor": 3.0}),
        json!({"type": "default"}),
    ] {
        let words = ["rope_scaling", "rope_parameters"];
        uncovered(Family::Llama, &both(newer.clone(), other), &words);
    }
    let kinds = json!({
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 9.0},
        "sliding_attention": {"rope_type": "default"},
    });
    assert!(read(Family::Gemma3, &both(kinds.clone(), linear(8.0))).is_ok());
    uncovered(Family::Gemma3, &both(kinds, linear(4.0)), &["rope_scaling"]);
}

/// What a key that is not there means in transformers' classes.
#[test]
fn what_is_not_there_is_what_transformers_takes() {
    let without = |family, keys: &'static [&'static str]| {
        read(family, &move |c| {
            for key in keys {
                drop(c.as_object_mut().unwrap().remove(*key));
            }
        })
    };
    let caps = &[
        "attn_logit_softcapping",
        "final_logit_softcapping",
        "sliding_window",
    ];
    let second = without(Family::Gemma2, caps).unwrap();
    assert_eq!(
        (second.attention_cap, second.logit_cap),
        (Some(50.0), Some(30.0))
    );
    assert_eq!(second.sliding_window, Some(4096));
    let third = without(Family::Gemma3, caps).unwrap();
    assert_eq!((third.attention_cap, third.logit_cap), (None, None));
    assert_eq!(third.sliding_window, Some(4096));
    let none = read(Family::Gemma2, &|c| {
        for key in *caps {
            c[key] = Value::Null;
        }
    });
    let none = none.unwrap();
    assert_eq!((none.attention_cap, none.logit_cap), (None, None));
    assert_eq!(none.sliding_window, None);
    for family in [Family::Gemma2, Family::Gemma3] {
        assert_eq!(
            without(family, &["num_key_value_heads"])
                .unwrap()
                .key_value_heads,
            4
        );
    }
    // 24 layers, alternately.
    let error = without(Family::GptNeo, &["attention_types", "attention_layers"]).unwrap_err();
    assert!(error.contains("24 entries for 1 layers"), "{error}");
    // transformers makes this one, and does not read it
    let pattern = read(Family::Gemma3, &|c| {
        drop(c.as_object_mut().unwrap().remove("layer_types"));
        c["_sliding_window_pattern"] = json!(1);
    });
    assert_eq!(pattern.unwrap().switches.sliding_layers, Some(vec![0]));
}

#[test]
fn the_padding_of_a_classifier_is_that_of_its_class() {
    for (family, padding) in [
        (Family::Olmo2, 1),
        (Family::Phi3, 32_000),
        (Family::Smollm3, 128_004),
    ] {
        let folder = Folder::of(TransformerConfig {
            head: Head::Classes(2),
            padding: Some(0),
            ..TransformerConfig::new(family, padding as usize + 1, 8, 1, 2, 16)
        });
        folder.change_config(|c| drop(c.as_object_mut().unwrap().remove("pad_token_id")));
        let (read, _) = load_hugging_face(&folder.home.path().join("model")).unwrap();
        assert_eq!(read.padding, Some(padding));
    }
}

#[test]
fn settings_that_versions_of_transformers_read_apart_are_refused() {
    let cap = |c: &mut Value| c["attn_logit_softcapping"] = json!(50.0);
    uncovered(Family::Gemma3, &cap, &["attn_logit_softcapping = 50"]);
    let acts = |first: Value, second: Value| {
        move |c: &mut Value| {
            c["hidden_act"] = first.clone();
            c["hidden_activation"] = second.clone();
        }
    };
    for (first, second) in [
        ("silu", "gelu"),
        ("gelu", "gelu"),
        ("gelu_pytorch_tanh", "relu"),
    ] {
        let words = [
            &format!("hidden_activation `{second}`"),
            &format!("hidden_act `{first}`"),
        ];
        let change = acts(json!(first), json!(second));
        uncovered(Family::Gemma, &change, &words.map(|word| word.as_str()));
    }
    uncovered(
        Family::Gemma,
        &acts(Value::Null, json!("silu")),
        &["`silu`", "`absent`"],
    );
    for (first, second, activation) in [
        (json!("silu"), json!("silu"), Activation::Silu),
        (
            json!("gelu"),
            json!("gelu_pytorch_tanh"),
            Activation::GeluTanh,
        ),
        (json!("gelu"), Value::Null, Activation::GeluTanh),
        (json!("relu"), Value::Null, Activation::Relu),
        (Value::Null, Value::Null, Activation::GeluTanh),
    ] {
        let read = read(Family::Gemma, &acts(first, second));
        assert_eq!(read.unwrap().activation, activation);
    }
}

/// Each setting that is refused says what can be done.
#[test]
fn settings_are_refused_with_a_way_out() {
    for (family, key, value) in [
        (
            Family::Llama,
            "rope_scaling",
            json!({"type": "yarn", "beta_fast": 32}),
        ),
        (
            Family::Llama,
            "rope_scaling",
            json!({"type": "dynamic", "factor": 2.0}),
        ),
        (
            Family::Phi3,
            "rope_scaling",
            json!({"type": "longrope", "short_factor": [1.0]}),
        ),
        (Family::Phi, "qk_layernorm", json!(true)),
        (Family::Opt, "do_layer_norm_before", json!(false)),
        (Family::Opt, "word_embed_proj_dim", json!(4)),
        (Family::Llama, "hidden_act", json!("mish")),
        (Family::Gemma2, "layer_types", json!(["chunked_attention"])),
        (
            Family::Llama,
            "architectures",
            json!(["LlamaForTokenClassification"]),
        ),
        (
            Family::Bert,
            "position_embedding_type",
            json!("relative_key"),
        ),
        (
            Family::Bert,
            "architectures",
            json!(["BertForQuestionAnswering"]),
        ),
    ] {
        let named = match key {
            "rope_scaling" => value["type"].as_str().unwrap().to_owned(),
            "architectures" => value[0].as_str().unwrap().to_owned(),
            _ => key.to_owned(),
        };
        uncovered(family, &|c| c[key] = value.clone(), &[&named]);
    }
}

/// Keys that change the arithmetic in a way that no switch covers.
#[test]
fn keys_of_the_other_decoders_are_refused_by_name() {
    let with = |family, key: &str, value: Value, words: &[&str]| {
        let folder = Folder::new(family);
        folder.change_config(|c| c[key] = value);
        folder.refused(words);
    };
    let yes = || json!(true);
    let no = || json!(false);
    with(Family::Phi, "qk_layernorm", yes(), &["qk_layernorm"]);
    with(Family::Stablelm, "qk_layernorm", yes(), &["qk_layernorm"]);
    with(Family::Gemma, "attention_bias", yes(), &["attention_bias"]);
    with(
        Family::Opt,
        "do_layer_norm_before",
        no(),
        &["do_layer_norm_before"],
    );
    with(
        Family::Opt,
        "word_embed_proj_dim",
        json!(4),
        &["word_embed_proj_dim = 4", "hidden_size = 8"],
    );
    with(
        Family::Phi3,
        "rope_scaling",
        json!({"type": "longrope"}),
        &["longrope"],
    );
    with(
        Family::GptNeo,
        "attention_layers",
        json!(["local", "global"]),
        &["attention_layers has 2 entries for 1 layers"],
    );
    with(
        Family::Smollm3,
        "no_rope_layers",
        json!([1, 0, 1]),
        &["no_rope_layers has 3 entries for 1 layers"],
    );
    with(
        Family::GptNeox,
        "rotary_pct",
        json!(1.5),
        &["rotary_pct", "[0, 1]", "1.5"],
    );
    with(
        Family::Gemma3,
        "rope_parameters",
        json!({"sliding_attention": {"rope_type": "linear", "factor": 2.0}}),
        &["sliding layers"],
    );
}

#[test]
fn configurations_we_do_not_follow_are_refused_by_key() {
    let with = |family, key: &str, value: Value, words: &[&str]| {
        let folder = Folder::new(family);
        folder.change_config(|c| c[key] = value);
        folder.refused(words);
    };
    let (gpt2, llama, gemma) = (Family::Gpt2, Family::Llama, Family::Gemma2);
    with(gpt2, "model_type", json!("falcon"), &["falcon", "llama"]);
    with(
        gpt2,
        "n_embd",
        json!("wide"),
        &["n_embd", "a whole number", "wide"],
    );
    with(
        gpt2,
        "n_embd",
        json!(u64::MAX),
        &["config.json", "[1, 16384]"],
    );
    with(gpt2, "vocab_size", Value::Null, &["lacks vocab_size"]);
    with(gpt2, "n_layer", json!(1_000_000), &["number of layers"]);
    with(
        gpt2,
        "scale_attn_by_inverse_layer_idx",
        json!(true),
        &["scale_attn"],
    );
    with(gemma, "attention_bias", json!(true), &["attention_bias"]);
    with(
        Family::Phi,
        "partial_rotary_factor",
        json!(0.1),
        &["rotary positions need an even head width, got 0"],
    );
    with(
        llama,
        "rope_scaling",
        json!({"rope_type": "yarn"}),
        &["yarn"],
    );
    with(llama, "hidden_act", json!("mish"), &["hidden_act", "mish"]);
    with(llama, "quantization_config", json!({}), &["quantized"]);
    with(
        gemma,
        "layer_types",
        json!(["chunked_attention"]),
        &["layer_types[0]", "chunked_attention"],
    );
    let bert = Family::Bert;
    with(
        bert,
        "position_embedding_type",
        json!("relative_key"),
        &["relative_key"],
    );
    with(
        bert,
        "architectures",
        json!(["BertForQuestionAnswering"]),
        &["QuestionAnswering"],
    );
    let folder = Folder::new(gpt2);
    std::fs::write(folder.path("config.json"), "[1, 2").unwrap();
    folder.refused(&["config.json", "not JSON"]);
}

#[test]
fn a_pickle_is_refused_with_the_command_that_converts_it() {
    let folder = Folder::new(Family::Gpt2);
    std::fs::rename(
        folder.path("model.safetensors"),
        folder.path("pytorch_model.bin"),
    )
    .unwrap();
    folder.refused(&[
        "pytorch_model.bin",
        "pickle",
        "python -c",
        "safe_serialization=True",
    ]);
    std::fs::remove_file(folder.path("pytorch_model.bin")).unwrap();
    folder.refused(&["model.safetensors"]);
}

/// The symbols of bytes 0x20, a and b in a byte-level vocabulary are Ġ, a and b.
#[test]
fn a_vocabulary_in_two_files_is_a_tokenizer() {
    let folder = Folder::new(Family::Gpt2);
    let vocabulary = json!({"a": 0, "b": 1, "Ġ": 2, "ab": 3, "Ġab": 4, "<|endoftext|>": 5});
    std::fs::write(folder.path("vocab.json"), vocabulary.to_string()).unwrap();
    std::fs::write(folder.path("merges.txt"), "#version: 0.2\na b\nĠ ab\n").unwrap();
    let home = folder.home.path().join("model");
    let loaded = Pretrained::load(&home).unwrap();
    assert_eq!(loaded.tokenizer.encode("ab abb").unwrap(), [3, 4, 1]);
    assert_eq!(loaded.tokenizer.decode(&[3, 4, 1]).unwrap(), "ab abb");
    assert_eq!((loaded.tokenizer.bos(), loaded.tokenizer.eos()), (5, 5));
    assert_eq!(loaded.tokenizer.origin(), Origin::Pretrained);
    assert_eq!(loaded.weights, folder.weights);
    std::fs::write(folder.path("merges.txt"), "a b c\n").unwrap();
    let error = Pretrained::load(&home).unwrap_err().to_string();
    assert!(error.contains("merges.txt, line 1"), "{error}");
    std::fs::remove_file(folder.path("merges.txt")).unwrap();
    let error = tokenizer_error(&home);
    assert!(
        error.contains("tokenizer.json") && error.contains("python -c"),
        "{error}"
    );
}

fn tokenizer_error(folder: &Path) -> String {
    let error = Tokenizer::load_folder(folder, Origin::Pretrained);
    error.unwrap_err().to_string()
}

/// Five hundred seeded damages of each file (bytes changed, cut out, doubled): loading may succeed or
/// fail, and never panics. Numbers of a JSON text are damaged into other numbers as well.
#[test]
fn damage_of_any_kind_ends_in_a_value_or_an_error() {
    use rand::RngExt;
    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;
    let mut rng = ChaCha20Rng::seed_from_u64(2026);
    let folder = Folder::new(Family::Gemma2);
    let home = folder.home.path().join("model");
    let tokenizer = Tokenizer::characters().to_json().unwrap();
    // no alphabet of ours, so that the crate's own reader sees it
    let tokenizer = tokenizer.replace("\"fuse_unk\": false", "\"fuse_unk\": true");
    std::fs::write(folder.path("tokenizer.json"), tokenizer).unwrap();
    for file in ["config.json", "model.safetensors", "tokenizer.json"] {
        let path = folder.path(file);
        let whole = std::fs::read(&path).unwrap();
        let mut refused = 0;
        for _ in 0..500 {
            let mut bytes = whole.clone();
            let at = rng.random_range(0..bytes.len().min(4000));
            let end = (at + rng.random_range(1..9usize)).min(bytes.len());
            match rng.random_range(0..4u8) {
                0 => bytes[at] = rng.random(),
                1 => drop(bytes.drain(at..end)),
                2 => bytes.extend_from_within(at..end),
                _ => bytes[at..end].fill(b'9'),
            }
            std::fs::write(&path, &bytes).unwrap();
            refused += u32::from(Pretrained::load(&home).is_err());
        }
        std::fs::write(&path, &whole).unwrap();
        assert!(refused > 150, "{file}: {refused} of 500 refused");
    }
    assert!(Pretrained::load(&home).is_ok());
}

/// A name of 58 000 bytes with line breaks was printed whole.
#[test]
fn names_of_tensors_are_short_and_printed() {
    for name in ["x".repeat(201), "wte\nweight".to_owned()] {
        let folder = Folder::new(Family::Gpt2);
        let length = name.len();
        folder.change(|tensors| {
            let tensor = tensors.pop_first().unwrap().1;
            tensors.insert(name, tensor);
        });
        let error = folder.load().unwrap_err();
        assert!(error.contains(&format!("has {length} bytes")), "{error}");
        assert!(error.len() < 300 && !error.contains('\n'), "{error}");
    }
}

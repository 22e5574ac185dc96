//! Folders from elsewhere: shards, second names, half precision, and everything that is refused.
#![allow(clippy::unwrap_used, reason = "a failing test should panic")]

use reticent_backends::{
    Dropout, Family, Head, Pretrained, TransformerConfig, load_hugging_face, save_hugging_face,
};
use reticent_corpus::{Origin, Tokenizer};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

type Tensors = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

struct Folder {
    home: tempfile::TempDir,
    config: TransformerConfig,
    weights: Vec<Vec<f32>>,
}

impl Folder {
    fn new(family: Family) -> Self {
        Self::of(TransformerConfig::new(family, 11, 8, 1, 2, 16))
    }

    fn of(config: TransformerConfig) -> Self {
        let home = tempfile::tempdir().unwrap();
        let weights = config.starting_weights(1);
        let folder = home.path().join("model");
        save_hugging_face(&folder, &config, &weights, None).unwrap();
        Self {
            home,
            config,
            weights,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join("model").join(name)
    }

    fn tensors(&self) -> Tensors {
        let bytes = std::fs::read(self.path("model.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let entry = |(name, view): (&str, TensorView<'_>)| {
            let value = (view.dtype(), view.shape().to_vec(), view.data().to_vec());
            (name.to_owned(), value)
        };
        file.iter().map(entry).collect()
    }

    fn write(&self, name: &str, tensors: &Tensors) {
        let views = tensors.iter().map(|(name, (dtype, shape, raw))| {
            (name, TensorView::new(*dtype, shape.clone(), raw).unwrap())
        });
        let bytes = safetensors::serialize(views, None).unwrap();
        std::fs::write(self.path(name), bytes).unwrap();
    }

    /// Changes the tensors and writes them back.
    fn change(&self, change: impl FnOnce(&mut Tensors)) {
        let mut tensors = self.tensors();
        change(&mut tensors);
        self.write("model.safetensors", &tensors);
    }

    fn change_config(&self, change: impl FnOnce(&mut Value)) {
        let path = self.path("config.json");
        let mut value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        change(&mut value);
        std::fs::write(path, value.to_string()).unwrap();
    }

    fn load(&self) -> Result<Vec<Vec<f32>>, String> {
        let (config, weights) =
            load_hugging_face(&self.home.path().join("model")).map_err(|e| e.to_string())?;
        assert_eq!(config, self.config);
        Ok(weights)
    }

    fn loads_as_saved(&self) {
        assert_eq!(self.load().unwrap(), self.weights);
    }

    fn refused(&self, words: &[&str]) {
        let error = self.load().unwrap_err();
        for word in words {
            assert!(error.contains(word), "`{word}` is not in: {error}");
        }
    }
}

fn families() -> Vec<TransformerConfig> {
    let base = |family| TransformerConfig::new(family, 11, 8, 2, 2, 16);
    let classes = |family| TransformerConfig {
        head: Head::Classes(3),
        ..base(family)
    };
    let grouped = |family| TransformerConfig {
        heads: 4,
        head_width: 6,
        ..base(family)
    };
    let untied = |family| TransformerConfig {
        tied: false,
        ..base(family)
    };
    vec![
        base(Family::Gpt2),
        untied(Family::Gpt2),
        grouped(Family::Llama),
        grouped(Family::Gemma2),
        base(Family::Bert),
        untied(Family::Bert),
        classes(Family::Bert),
        base(Family::Roberta),
        classes(Family::Roberta),
    ]
}

#[test]
fn every_family_comes_back_bit_by_bit() {
    for config in families() {
        Folder::of(config).loads_as_saved();
    }
}

#[test]
fn the_bare_models_names_and_buffers_are_read() {
    let folder = Folder::new(Family::Gpt2);
    folder.change(|tensors| {
        *tensors = std::mem::take(tensors)
            .into_iter()
            .map(|(name, t)| (name.trim_start_matches("transformer.").to_owned(), t))
            .collect();
        let mask = (Dtype::U8, vec![1, 1, 4, 4], vec![1; 16]);
        tensors.insert("h.0.attn.bias".into(), mask);
    });
    folder.loads_as_saved();
    // both names of one tensor are one too many
    folder.change(|t| {
        let again = t["wte.weight"].clone();
        t.insert("transformer.wte.weight".into(), again);
    });
    folder.refused(&["wte.weight", "there already"]);
}

#[test]
fn a_tied_head_may_be_written_out_when_it_agrees() {
    let folder = Folder::new(Family::Gpt2);
    folder.change(|t| {
        let head = t["transformer.wte.weight"].clone();
        t.insert("lm_head.weight".into(), head);
    });
    folder.loads_as_saved();
    folder.change(|t| t.get_mut("lm_head.weight").unwrap().2[2] ^= 1);
    folder.refused(&["lm_head.weight", "transformer.wte.weight", "differ"]);
}

#[test]
fn old_berts_gamma_and_beta_and_pretraining_heads_are_read() {
    let folder = Folder::new(Family::Bert);
    folder.change(|tensors| {
        *tensors = std::mem::take(tensors)
            .into_iter()
            .map(|(name, t)| {
                let name = name.replace("LayerNorm.weight", "LayerNorm.gamma");
                (name.replace("LayerNorm.bias", "LayerNorm.beta"), t)
            })
            .collect();
        for (name, shape) in [
            ("cls.seq_relationship.weight", vec![2, 8]),
            ("bert.pooler.dense.bias", vec![8]),
        ] {
            let bytes = vec![0; 4 * shape.iter().product::<usize>()];
            tensors.insert(name.into(), (Dtype::F32, shape, bytes));
        }
    });
    folder.loads_as_saved();
}

#[test]
fn shards_are_joined_and_their_index_is_not_trusted() {
    let folder = Folder::new(Family::Llama);
    let mut second = folder.tensors();
    let mut first = Tensors::new();
    for name in ["model.norm.weight", "lm_head.weight"] {
        first.insert(name.into(), second.remove(name).unwrap());
    }
    let names = ["a.safetensors", "b.safetensors"];
    folder.write(names[0], &first);
    folder.write(names[1], &second);
    std::fs::remove_file(folder.path("model.safetensors")).unwrap();
    let index = |change: &dyn Fn(&mut serde_json::Map<String, Value>)| {
        let mut map = serde_json::Map::new();
        for (name, tensors) in names.iter().zip([&first, &second]) {
            map.extend(tensors.keys().map(|t| (t.clone(), json!(name))));
        }
        change(&mut map);
        let path = folder.path("model.safetensors.index.json");
        std::fs::write(path, json!({ "weight_map": map }).to_string()).unwrap();
    };
    index(&|_| ());
    folder.loads_as_saved();
    for outside in [
        "../x.safetensors",
        "/etc/x.safetensors",
        "a\\b.safetensors",
        "..",
        "x.bin",
    ] {
        index(&|map| {
            map.insert("lm_head.weight".into(), json!(outside));
        });
        folder.refused(&["weight_map", "lm_head.weight", "plain file name"]);
    }
    index(&|map| {
        map.insert("lm_head.weight".into(), json!(names[1]));
    });
    folder.refused(&["a.safetensors", "lm_head.weight", "index"]);
    index(&|map| {
        map.insert("lm_head.weight".into(), json!(7));
    });
    folder.refused(&["weight_map.lm_head.weight must be a text, got 7"]);
    std::fs::remove_file(folder.path(names[0])).unwrap();
    index(&|_| ());
    folder.refused(&[names[0]]);
}

#[test]
fn half_precision_is_widened() {
    for dtype in [Dtype::BF16, Dtype::F16] {
        let folder = Folder::new(Family::Roberta);
        folder.change(|tensors| {
            for (kind, _, raw) in tensors.values_mut() {
                *kind = dtype;
                // one half, exactly, in either type
                let half: u16 = if dtype == Dtype::BF16 { 0x3f00 } else { 0x3800 };
                *raw = half.to_le_bytes().repeat(raw.len() / 4);
            }
        });
        let all = folder.load().unwrap();
        assert!(
            all.iter()
                .flatten()
                .all(|w| w.to_bits() == 0.5f32.to_bits())
        );
    }
}

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

#[test]
fn configurations_we_do_not_follow_are_refused_by_key() {
    let with = |family, key: &str, value: Value, words: &[&str]| {
        let folder = Folder::new(family);
        folder.change_config(|c| c[key] = value);
        folder.refused(words);
    };
    let (gpt2, llama, gemma) = (Family::Gpt2, Family::Llama, Family::Gemma2);
    with(gpt2, "model_type", json!("mamba"), &["mamba", "llama"]);
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
    with(llama, "attention_bias", json!(true), &["attention_bias"]);
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
        json!(["full_attention"]),
        &["layer_types[0]"],
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
    assert_eq!(loaded.tokenizer.decode(&[3, 4, 1]), "ab abb");
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

#[test]
fn dropout_that_is_asked_for_is_read() {
    let folder = Folder::new(Family::Gpt2);
    let home = folder.home.path().join("model");
    let tokenizer = Tokenizer::characters().to_json().unwrap();
    let tokenizer = tokenizer.replace("\"fuse_unk\": false", "\"fuse_unk\": true");
    std::fs::write(folder.path("tokenizer.json"), tokenizer).unwrap();
    let asked = |rates: serde_json::Value| {
        let path = folder.path("config.json");
        let mut config: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        for (key, rate) in rates.as_object().unwrap() {
            config[key] = rate.clone();
        }
        std::fs::write(&path, config.to_string()).unwrap();
        Pretrained::load(&home)
    };
    // what transformers takes where nothing is said
    let usual = Dropout::all(0.1).unwrap();
    assert_eq!(asked(json!({})).unwrap().dropout, usual);
    let rates = json!({"embd_pdrop": 0.1, "resid_pdrop": 0.25, "attn_pdrop": 0.0});
    let expected = Dropout {
        embedding: 0.1,
        attention: 0.0,
        hidden: 0.25,
    };
    assert_eq!(asked(rates).unwrap().dropout, expected);
    for (key, bad) in [
        ("resid_pdrop", 1.5),
        ("embd_pdrop", 1.0),
        ("attn_pdrop", -0.1),
    ] {
        let error = asked(json!({ key: bad })).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains("[0, 1)"), "{error}");
        asked(json!({ key: 0.1 })).unwrap();
    }
    let llama = Folder::new(Family::Llama);
    let path = llama.path("config.json");
    let mut config: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    config["attention_dropout"] = json!(0.2);
    std::fs::write(&path, config.to_string()).unwrap();
    std::fs::copy(folder.path("tokenizer.json"), llama.path("tokenizer.json")).unwrap();
    let loaded = Pretrained::load(&llama.home.path().join("model")).unwrap();
    let expected = Dropout {
        attention: 0.2,
        ..Dropout::NONE
    };
    assert_eq!(loaded.dropout, expected);
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

//! What is read: second names, shards, half precision, dropout.

use super::folder::{Folder, Tensors, families};
use reticent_backends::checkpoint::{Mark, Pretrained};
use reticent_backends::model::Family;
use reticent_backends::trainer::Dropout;
use reticent_corpus::tokenize::Tokenizer;
use safetensors::tensor::Dtype;
use serde_json::{Value, json};

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
fn dropout_that_is_asked_for_is_read() {
    let folder = Folder::new(Family::Gpt2);
    let home = folder.home.path().join("model");
    let tokenizer = Tokenizer::characters().to_json().unwrap();
    let tokenizer = tokenizer.replace("\"fuse_unk\": false", "\"fuse_unk\": true");
    std::fs::write(folder.path("tokenizer.json"), tokenizer).unwrap();
    let dropouts = |rates: serde_json::Value| {
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
    assert_eq!(dropouts(json!({})).unwrap().dropout, Ok(usual));
    let rates = json!({"embd_pdrop": 0.1, "resid_pdrop": 0.25, "attn_pdrop": 0.0});
    let expected = Dropout {
        embedding: 0.1,
        attention: 0.0,
        hidden: 0.25,
    };
    assert_eq!(dropouts(rates).unwrap().dropout, Ok(expected));
    for (key, bad) in [
        ("resid_pdrop", 1.5),
        ("embd_pdrop", 1.0),
        ("attn_pdrop", -0.1),
    ] {
        let error = dropouts(json!({ key: bad })).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains("[0, 1)"), "{error}");
        dropouts(json!({ key: 0.1 })).unwrap();
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
    assert_eq!(loaded.dropout, Ok(expected));
}

/// Scoring drops nothing, so a model whose training can't be followed is scored.
#[test]
fn dropout_that_is_not_covered_hinders_training_alone() {
    let tokenizer = Tokenizer::characters().to_json().unwrap();
    let tokenizer = tokenizer.replace("\"fuse_unk\": false", "\"fuse_unk\": true");
    for (family, key) in [
        (Family::Opt, "layerdrop"),
        (Family::Stablelm, "hidden_dropout"),
    ] {
        let folder = Folder::new(family);
        std::fs::write(folder.path("tokenizer.json"), &tokenizer).unwrap();
        let home = folder.home.path().join("model");
        for (rate, followed) in [(0.0, true), (0.1, false)] {
            folder.change_config(|c| c[key] = json!(rate));
            let loaded = Pretrained::load(&home).unwrap();
            assert_eq!(loaded.weights, folder.weights);
            assert_eq!(loaded.dropout.is_ok(), followed, "{key}");
            let why = loaded.dropout.err().unwrap_or_default();
            assert!(
                followed || why.contains(key) && why.contains("--dropout"),
                "{why}"
            );
        }
        folder.change_config(|c| c[key] = json!(1.0));
        let error = Pretrained::load(&home).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains("[0, 1)"), "{error}");
    }
}

/// A pointer to a file that was not fetched, beside the weights, refused the folder.
#[test]
fn a_file_that_is_not_read_as_weights_has_no_mark() {
    let folder = Folder::new(Family::Gpt2);
    let mark = || Mark::in_folder(&folder.home.path().join("model"));
    let pointer = "version https://git-lfs.github.com/spec/v1";
    std::fs::write(folder.path("consolidated.safetensors"), pointer).unwrap();
    assert_eq!(mark().unwrap(), None);
    std::fs::write(folder.path("model.safetensors"), pointer).unwrap();
    let said = mark().unwrap_err().to_string();
    assert!(said.contains("model.safetensors"), "{said}");
    // Of shards, those in their index are read.
    std::fs::remove_file(folder.path("model.safetensors")).unwrap();
    let index = |shard: &str| {
        let index = format!(r#"{{"weight_map":{{"wte.weight":"{shard}"}}}}"#);
        std::fs::write(folder.path("model.safetensors.index.json"), index).unwrap();
        mark()
    };
    assert_eq!(index("model-00001.safetensors").unwrap(), None);
    assert!(index("consolidated.safetensors").is_err());
}

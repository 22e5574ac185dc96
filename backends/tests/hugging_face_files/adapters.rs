//! Adapters that are refused, with the place and the reason, and what is left alone.

use super::folder::{Folder, Tensors};
use reticent_backends::checkpoint::Pretrained;
use reticent_backends::hugging_face::load_adapted;
use reticent_backends::model::{Family, TransformerConfig};
use reticent_corpus::tokenize::{Origin, Tokenizer};
use safetensors::tensor::Dtype;
use serde_json::{Value, json};
use std::path::PathBuf;

const A: &str = "base_model.model.transformer.h.0.attn.c_attn.lora_A.weight";
const B: &str = "base_model.model.transformer.h.0.attn.c_attn.lora_B.weight";
const WEIGHTS: &str = "../adapter/adapter_model.safetensors";

/// A model with an adapter beside it that changes GPT-2's first attention.
struct Adapted {
    base: Folder,
    settings: Value,
    tensors: Tensors,
}

impl Adapted {
    fn new() -> Self {
        Self::on(Folder::new(Family::Gpt2))
    }

    fn on(base: Folder) -> Self {
        Self {
            base,
            settings: json!({
                "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 2, "lora_alpha": 4, "bias": "none",
                "target_modules": ["c_attn"], "fan_in_fan_out": true, "use_dora": false,
            }),
            tensors: [(A, [2, 8]), (B, [24, 2])]
                .map(|(name, shape)| (name.to_owned(), filled(shape, 0.25)))
                .into(),
        }
    }

    fn with(key: &str, value: Value) -> Self {
        let mut adapted = Self::new();
        adapted.settings[key] = value;
        adapted
    }

    fn holding(change: impl FnOnce(&mut Tensors)) -> Self {
        let mut adapted = Self::new();
        change(&mut adapted.tensors);
        adapted
    }

    fn folder(&self) -> PathBuf {
        self.base.home.path().join("adapter")
    }

    fn write(&self) {
        std::fs::create_dir_all(self.folder()).unwrap();
        std::fs::write(
            self.folder().join("adapter_config.json"),
            self.settings.to_string(),
        )
        .unwrap();
        self.base.write(WEIGHTS, &self.tensors);
    }

    fn load(&self) -> Result<Vec<Vec<f32>>, String> {
        let model = self.base.home.path().join("model");
        let loaded = load_adapted(&model, &self.folder());
        loaded
            .map(|(_, weights)| weights)
            .map_err(|e| e.to_string())
    }

    fn refused(&self, words: &[&str]) {
        self.write();
        self.refused_as_it_is(words);
    }

    fn refused_as_it_is(&self, words: &[&str]) {
        let error = self.load().unwrap_err();
        assert!(!error.contains('\n'), "{error}");
        for word in words {
            assert!(error.contains(word), "`{word}` is not in: {error}");
        }
    }
}

fn filled(shape: [usize; 2], value: f32) -> (Dtype, Vec<usize>, Vec<u8>) {
    let raw = value.to_le_bytes().repeat(shape[0] * shape[1]);
    (Dtype::F32, shape.to_vec(), raw)
}

/// By hand: 0.25² over a rank of 2, times 4/2, is 1/4 on each weight of the module, and nothing elsewhere.
#[test]
fn only_the_named_module_changes() {
    let adapted = Adapted::new();
    adapted.write();
    let merged = adapted.load().unwrap();
    let changed = adapted.base.config.layout().layers[0].attention_in.weight;
    for (at, (before, after)) in adapted.base.weights.iter().zip(&merged).enumerate() {
        let added = if at == changed { 0.25 } else { 0.0 };
        for (before, after) in before.iter().zip(after) {
            assert_eq!(
                after.to_bits(),
                (before + added).to_bits(),
                "parameter {at}"
            );
        }
    }
}

#[test]
fn settings_that_change_the_sum_are_refused_by_key() {
    let refused = |key: &str, value: Value, words: &[&str]| {
        Adapted::with(key, value).refused(&[&["adapter_config.json", key], words].concat());
    };
    refused("peft_type", json!("LOHA"), &["LOHA", "LORA"]);
    refused("peft_type", Value::Null, &["lacks"]);
    refused("task_type", json!("SEQ_CLS"), &["SEQ_CLS", "CAUSAL_LM"]);
    refused("bias", json!("lora_only"), &["lora_only", "none"]);
    refused("bias", json!("all"), &["all", "none"]);
    refused(
        "init_lora_weights",
        json!("pissa_niter_4"),
        &["pissa_niter_4", "base"],
    );
    refused("init_lora_weights", json!(1), &["1"]);
    for key in [
        "use_dora",
        "use_qalora",
        "lora_bias",
        "ensure_weight_tying",
        "a_later_switch",
    ] {
        refused(key, json!(true), &["true", "merge_and_unload"]);
    }
    refused("modules_to_save", json!(["lm_head"]), &["lm_head"]);
    refused("rank_pattern", json!({"c_attn": 4}), &["c_attn"]);
    refused("alpha_pattern", json!({"c_attn": 4}), &["c_attn"]);
    refused("layer_replication", json!([[0, 1]]), &["[[0,1]]"]);
    refused("target_parameters", json!(["experts"]), &["experts"]);
    refused("trainable_token_indices", json!([3]), &["[3]"]);
    refused("r", json!(0), &["at least 1"]);
    refused("r", json!(-2), &["a whole number", "-2"]);
    refused("r", json!(1.5), &["1.5"]);
    refused("lora_alpha", json!("16"), &["a number"]);
    refused("lora_alpha", Value::Null, &["lacks"]);
    refused("use_rslora", json!("yes"), &["a truth value"]);
}

#[test]
fn settings_that_are_off_or_say_nothing_are_taken() {
    for (key, value) in [
        ("a_later_switch", json!(false)),
        ("a_later_setting", Value::Null),
        ("rank_pattern", json!({})),
        ("modules_to_save", json!([])),
        ("init_lora_weights", json!("gaussian")),
        ("target_modules", json!(["c_attn"])),
        ("target_modules", json!(["transformer.h.0.attn.c_attn"])),
        ("task_type", Value::Null),
        ("lora_dropout", json!(0.1)),
    ] {
        let adapted = Adapted::with(key, value);
        adapted.write();
        assert!(adapted.load().is_ok(), "{key}");
    }
}

#[test]
fn tensors_that_do_not_fit_are_named() {
    Adapted::holding(|t| drop(t.remove(B))).refused(&[WEIGHTS[11..].trim(), "lacks", B]);
    Adapted::holding(|t| drop(t.remove(A))).refused(&["lacks", A]);
    Adapted::holding(Tensors::clear).refused(&["holds no tensor"]);
    Adapted::holding(|t| drop(t.insert(A.into(), filled([8, 2], 0.1))))
        .refused(&[A, "[8, 2]", "[2, 8]"]);
    Adapted::holding(|t| drop(t.insert(B.into(), filled([8, 2], 0.1))))
        .refused(&[B, "[8, 2]", "[24, 2]"]);
    // all of another rank than the settings say
    Adapted::with("r", json!(4)).refused(&[A, "[2, 8]", "[4, 8]"]);
    Adapted::holding(|t| drop(t.insert(A.into(), filled([2, 8], f32::NAN))))
        .refused(&[A, "NaN", "finite"]);
    Adapted::holding(|t| drop(t.insert(B.into(), filled([24, 2], f32::INFINITY))))
        .refused(&[B, "inf", "finite"]);
    Adapted::holding(|t| t.get_mut(A).unwrap().0 = Dtype::I32).refused(&[A, "I32"]);
    // finite by itself, not when it is added
    Adapted::holding(|t| {
        t.insert(A.into(), filled([2, 8], 1e30));
        t.insert(B.into(), filled([24, 2], 1e30));
    })
    .refused(&["h.0.attn.c_attn.weight becomes inf"]);
}

#[test]
fn tensors_that_match_no_module_are_named() {
    let elsewhere = |module: &str, words: &[&str]| {
        let mut adapted = Adapted::new();
        let named = |half: &str| format!("base_model.model.{module}.{half}.weight");
        adapted.tensors = [("lora_A", [2, 8]), ("lora_B", [24, 2])]
            .map(|(half, shape)| (named(half), filled(shape, 0.1)))
            .into();
        adapted.refused(&[&[module], words].concat());
    };
    elsewhere("transformer.h.9.attn.c_attn", &["no linear layer"]);
    elsewhere("h.0.attn.c_attn", &["no linear layer"]);
    elsewhere("transformer.wte", &["no linear layer"]);
    elsewhere("transformer.h.0.ln_1", &["no linear layer"]);
    elsewhere("lm_head", &["ties"]);
    for stray in [
        "base_model.model.transformer.wte.lora_embedding_A",
        "base_model.model.transformer.h.0.attn.c_attn.lora_magnitude_vector.weight",
        "base_model.model.transformer.h.0.attn.c_attn.lora_B.bias",
        "transformer.h.0.attn.c_attn.lora_A.weight",
    ] {
        let extra = filled([2, 8], 0.1);
        Adapted::holding(|t| drop(t.insert(stray.into(), extra))).refused(&[stray, "only"]);
    }
}

/// Two layers of GPT-2 with tensors for each module that the names end in.
fn on_two_layers(settings: &[(&str, Value)], modules: &[&str]) -> Adapted {
    let config = TransformerConfig::new(Family::Gpt2, 11, 8, 2, 2, 16);
    let mut adapted = Adapted::on(Folder::of(config));
    for (key, value) in settings {
        adapted.settings[*key] = value.clone();
    }
    adapted.tensors.clear();
    for module in modules {
        let [inputs, outputs] = match module.rsplit_once('.').unwrap() {
            (_, "c_attn") => [8, 24],
            (_, "c_fc") => [8, 32],
            (mlp, _) if mlp.ends_with("mlp") => [32, 8],
            _ => [8, 8],
        };
        for (half, shape) in [("lora_A", [2, inputs]), ("lora_B", [outputs, 2])] {
            let name = format!("base_model.model.transformer.h.{module}.{half}.weight");
            adapted.tensors.insert(name, filled(shape, 0.1));
        }
    }
    adapted
}

const ALL: [&str; 8] = [
    "0.attn.c_attn",
    "0.attn.c_proj",
    "0.mlp.c_fc",
    "0.mlp.c_proj",
    "1.attn.c_attn",
    "1.attn.c_proj",
    "1.mlp.c_fc",
    "1.mlp.c_proj",
];

/// peft would leave them out without a word.
#[test]
fn tensors_that_target_modules_does_not_name_are_refused() {
    for targets in [json!(["c_proj"]), json!(["attn"]), json!([])] {
        Adapted::with("target_modules", targets)
            .refused(&["target_modules", "transformer.h.0.attn.c_attn"]);
    }
    Adapted::with("target_modules", Value::Null).refused(&["lacks target_modules"]);
}

/// By peft's rules: ends of names or whole ones, expressions for whole names, layers by their number.
#[test]
fn the_modules_that_the_settings_name_are_those_with_tensors() {
    let layers = |value: Value| ("layers_to_transform", value);
    let targets = |value: Value| ("target_modules", value);
    let ends = || targets(json!(["c_attn"]));
    let both: &[&str] = &["0.attn.c_attn", "1.attn.c_attn"];
    let [first, second] = [&both[..1], &both[1..]];
    let but = |left_out: &[&str]| -> Vec<&str> {
        let kept = ALL.iter().filter(|module| !left_out.contains(module));
        kept.copied().collect()
    };
    let feed_forward = ["0.mlp.c_fc", "0.mlp.c_proj", "1.mlp.c_fc", "1.mlp.c_proj"];
    for (settings, named) in [
        (vec![ends()], both),
        (vec![ends(), layers(json!(1))], second),
        (vec![ends(), layers(json!([0]))], first),
        (vec![ends(), layers(json!([0, 1]))], both),
        (vec![ends(), layers(json!([]))], both),
        (
            vec![ends(), layers(json!(1)), ("layers_pattern", json!("h"))],
            second,
        ),
        (
            vec![
                ends(),
                layers(json!([1])),
                ("layers_pattern", json!(["layers", "h"])),
            ],
            second,
        ),
        (
            vec![ends(), layers(json!(1)), ("layers_pattern", json!([]))],
            second,
        ),
        // a whole name counts in every layer
        (
            vec![
                targets(json!(["transformer.h.0.attn.c_attn"])),
                layers(json!(1)),
            ],
            first,
        ),
        (vec![targets(json!(r".*\.c_attn"))], both),
        (
            vec![targets(json!(r"transformer\.h\.(1|2)\..*_attn"))],
            second,
        ),
        (vec![targets(json!("all-linear"))], &ALL),
        (vec![targets(json!("ALL-linear"))], &ALL),
        (
            vec![
                targets(json!("all-linear")),
                ("exclude_modules", json!(["c_fc", "mlp.c_proj"])),
            ],
            &but(&feed_forward),
        ),
        (
            vec![
                targets(json!("all-linear")),
                ("exclude_modules", json!(r".*\.mlp\..*")),
            ],
            &but(&feed_forward),
        ),
        (
            vec![
                ends(),
                ("exclude_modules", json!(["transformer.h.0.attn.c_attn"])),
            ],
            second,
        ),
        (vec![ends(), ("exclude_modules", json!([]))], both),
    ] {
        let on = |modules: &[&str]| on_two_layers(&settings, modules);
        let whole = on(named);
        whole.write();
        assert!(whole.load().is_ok(), "{settings:?}: {:?}", whole.load());
        let spare: Vec<&str> = [first, second]
            .into_iter()
            .flatten()
            .copied()
            .filter(|module| !named.contains(module))
            .collect();
        if let Some(spare) = spare.first() {
            let more = [named, &[*spare][..]].concat();
            on(&more).refused(&["leaves out", spare, "of which there are tensors"]);
        }
        if let [missing, rest @ ..] = named
            && !rest.is_empty()
        {
            on(rest).refused(&["target_modules names", missing, "no tensors"]);
        }
    }
}

#[test]
fn settings_of_modules_that_peft_or_we_cannot_read_are_refused() {
    let refused = |settings: &[(&str, Value)], words: &[&str]| {
        on_two_layers(settings, &["0.attn.c_attn"]).refused(words);
    };
    let pattern = ("target_modules", json!(r".*\.c_attn(?=x)"));
    refused(
        &[pattern],
        &["target_modules", "regular expression", "merge_and_unload"],
    );
    refused(
        &[
            ("exclude_modules", json!("(")),
            ("target_modules", json!(["c_attn"])),
        ],
        &["exclude_modules", "regular expression"],
    );
    refused(
        &[
            ("layers_pattern", json!("(")),
            ("layers_to_transform", json!(0)),
        ],
        &["layers_pattern", "regular expression"],
    );
    refused(
        &[
            ("target_modules", json!("all-linear")),
            ("layers_to_transform", json!(0)),
        ],
        &["layers_to_transform", "a list"],
    );
    refused(
        &[("layers_pattern", json!("h"))],
        &["layers_pattern needs layers_to_transform"],
    );
    refused(
        &[("layers_to_transform", json!([-1]))],
        &["layers_to_transform", "whole numbers"],
    );
    refused(
        &[("layers_to_transform", json!(1))],
        &["layers_to_transform leaves out"],
    );
    refused(
        &[("exclude_modules", json!(["c_attn"]))],
        &["exclude_modules leaves out"],
    );
}

/// peft saves the head's own weight beside its change: it must be the model's.
#[test]
fn the_heads_own_weight_is_compared() {
    let mut adapted = Adapted::on(Folder::new(Family::Llama));
    adapted.settings["target_modules"] = json!(["lm_head"]);
    let head = adapted.base.tensors()["lm_head.weight"].clone();
    let named = |half: &str| format!("base_model.model.lm_head.{half}.weight");
    adapted.tensors = [("lora_A", [2, 8]), ("lora_B", [11, 2])]
        .map(|(half, shape)| (named(half), filled(shape, 0.1)))
        .into();
    adapted.tensors.insert(named("base_layer"), head);
    adapted.write();
    assert!(adapted.load().is_ok());
    let head = adapted.tensors.get_mut(&named("base_layer")).unwrap();
    head.2[0] ^= 1;
    adapted.refused(&["lm_head.base_layer.weight", "differs", "another"]);
}

#[test]
fn files_that_are_none_are_refused() {
    let adapted = Adapted::new();
    adapted.refused_as_it_is(&["adapter_config.json"]);
    adapted.write();
    let path = adapted.folder().join("adapter_model.safetensors");
    std::fs::remove_file(&path).unwrap();
    adapted.refused_as_it_is(&["adapter_model.safetensors"]);
    std::fs::write(adapted.folder().join("adapter_model.bin"), "pickle").unwrap();
    adapted.refused_as_it_is(&["adapter_model.bin", "pickle"]);
    std::fs::create_dir(&path).unwrap();
    adapted.refused_as_it_is(&["adapter_model.safetensors", "regular file"]);
    adapted.refused_in_pieces();
}

impl Adapted {
    /// Every shorter file is refused, never a panic.
    fn refused_in_pieces(&self) {
        std::fs::remove_dir(self.folder().join("adapter_model.safetensors")).unwrap();
        self.write();
        for name in ["adapter_model.safetensors", "adapter_config.json"] {
            let path = self.folder().join(name);
            let bytes = std::fs::read(&path).unwrap();
            for length in (0..bytes.len()).step_by(7) {
                std::fs::write(&path, &bytes[..length]).unwrap();
                self.refused_as_it_is(&[name]);
            }
            std::fs::write(&path, bytes).unwrap();
        }
        assert!(self.load().is_ok());
    }
}

#[test]
fn encoders_have_no_adapters() {
    Adapted::on(Folder::new(Family::Bert)).refused(&["encoder", "gpt2"]);
}

/// A folder of ours promises something, and an adapter on it would not be covered.
#[test]
fn checkpoints_of_ours_take_no_adapter() {
    let adapted = Adapted::new();
    adapted.write();
    let model = adapted.base.home.path().join("model");
    let json = Tokenizer::characters().to_json().unwrap();
    std::fs::write(model.join("tokenizer.json"), &json).unwrap();
    assert!(Tokenizer::from_json(&json, Origin::Pretrained).is_ok());
    let loaded = Pretrained::load_adapted(&model, &adapted.folder()).unwrap();
    assert!(loaded.manifest.is_none() && loaded.mark.is_none());
    std::fs::write(model.join("manifest.json"), "{}").unwrap();
    let error = Pretrained::load_adapted(&model, &adapted.folder())
        .unwrap_err()
        .to_string();
    assert!(error.contains("a checkpoint of ours"), "{error}");
}

/// Trainers write a `config.json` beside an adapter too. Its base alone would be a model that never saw the adapter's text.
#[test]
fn a_config_beside_an_adapter_makes_no_model_of_it() {
    let mut adapted = Adapted::new();
    let (model, adapter) = (adapted.base.home.path().join("model"), adapted.folder());
    adapted.settings["base_model_name_or_path"] = json!("model");
    adapted.write();
    let json = Tokenizer::characters().to_json().unwrap();
    std::fs::write(model.join("tokenizer.json"), json).unwrap();
    let copy = |name: &str| std::fs::copy(model.join(name), adapter.join(name)).unwrap();
    copy("config.json");
    let loaded = Pretrained::load(&adapter).unwrap();
    assert_eq!(loaded.weights, adapted.load().unwrap());
    assert_ne!(loaded.weights, adapted.base.weights);
    // either may be meant
    copy("model.safetensors");
    let refused = |folder: &PathBuf| Pretrained::load(folder).unwrap_err().to_string();
    let error = refused(&adapter);
    assert!(
        error.contains("a model and the adapter_config.json"),
        "{error}"
    );
    assert!(load_adapted(&model, &adapter).is_ok(), "named one by one");
    // an adapter on itself, and a base that is none
    std::fs::remove_file(adapter.join("model.safetensors")).unwrap();
    for base in ["model/../adapter", "other"] {
        adapted.settings["base_model_name_or_path"] = json!(base);
        adapted.write();
        let other = adapted.base.home.path().join("other");
        std::fs::create_dir_all(&other).unwrap();
        for name in ["adapter_config.json", "config.json"] {
            std::fs::copy(adapter.join(name), other.join(name)).unwrap();
        }
        let error = refused(&adapter);
        assert!(
            error.contains(base) && error.contains("no model"),
            "{error}"
        );
    }
}

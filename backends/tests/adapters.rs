//! Adapters that are trained: what is written, what opens again, and what a run is compared by.

use crate::common;
use crate::common::{adapted, options, run_until, set};
use reticent_accounting::training::Base;
use reticent_backends::checkpoint::{
    Checkpoint, Initial, Manifest, Pretrained, erase_finished, state_folder, weights_digest,
};
use reticent_backends::engine::open;
use reticent_backends::hugging_face::Beside;
use reticent_backends::model::{Family, LoraSpec, Model, TransformerConfig};
use reticent_backends::oracle::save_hugging_face;
use reticent_backends::run::{Surroundings, Trained, train_on};
use reticent_backends::trainer::Trainer;
use reticent_backends::{Corpus, Device, Error, Recipe};
use reticent_corpus::prepare::{PrepareOptions, Prepared, prepare};
use reticent_corpus::simulate::simulate;
use reticent_corpus::tokenize::{Origin, Tokenizer};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// A folder of others, an adapter that was trained on it, and what it was prepared with.
struct Home {
    folder: tempfile::TempDir,
    model: Model,
    base: Vec<Vec<f32>>,
    prepared: Prepared,
}

impl Home {
    fn new(family: Family) -> Self {
        let mut prepared = prepare(&simulate(2, 1).unwrap(), &PrepareOptions::default()).unwrap();
        let json = prepared.tokenizer.to_json().unwrap();
        prepared.tokenizer = Tokenizer::from_json(&json, Origin::Pretrained).unwrap();
        let vocabulary = prepared.tokenizer.vocabulary_size();
        let config = TransformerConfig::new(family, vocabulary, 8, 2, 2, 16);
        let base = config.starting_weights(1);
        let folder = tempfile::tempdir().unwrap();
        save_hugging_face(
            &folder.path().join("base"),
            &config,
            &base,
            Some(&prepared.tokenizer),
        )
        .unwrap();
        Self {
            folder,
            model: config.into(),
            base,
            prepared,
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn trained(&self, recipe: Recipe) -> Trained {
        let stop = AtomicBool::new(false);
        let surroundings = Surroundings::in_memory(&stop);
        let set = set(4, 8, 1);
        let trainer = adapted(&self.model, 1);
        let corpus = Corpus::plain(&set);
        let mut options = options(recipe);
        options.plan.base = Some(Base::Unstated);
        train_on(trainer, &options, &corpus, &surroundings, &mut |_| {}).unwrap()
    }

    fn save(&self, run: &Trained, out: &Path) {
        let initial = Initial::Pretrained {
            weights: weights_digest(&self.base),
            declared_public: false,
            has_manifest: false,
            manifest_missing: false,
        };
        let manifest = Manifest::of(&self.prepared, &run.ran, initial).unwrap();
        let lora = run.trainer.adapter().unwrap();
        let on = (&self.model, lora, "base");
        let (weights, tokenizer) = (run.trainer.weights(), &self.prepared.tokenizer);
        let beside = Beside::default();
        Checkpoint::save_adapter(out, on, weights, tokenizer, &beside, manifest, None).unwrap();
    }

    /// Trained by a private recipe, and saved.
    fn adapter(&self) -> (Trained, PathBuf) {
        let (run, out) = (self.trained(Recipe::Dpsgd), self.at("adapter"));
        self.save(&run, &out);
        (run, out)
    }
}

fn scores(trainer: &mut dyn Trainer) -> Vec<f64> {
    let records: Vec<Vec<u32>> = set(4, 8, 1).records.into_iter().map(|r| r.tokens).collect();
    let scores = trainer.score(&records).unwrap();
    scores.iter().flatten().map(|s| s.log_probability).collect()
}

fn refused(result: Result<Pretrained, Error>) -> String {
    match result {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_trained_adapter_opens_by_itself_and_beside_its_base() {
    for family in [Family::Llama, Family::Gpt2, Family::GptNeox] {
        let home = Home::new(family);
        let (mut run, out) = home.adapter();
        let mut here: Vec<_> = std::fs::read_dir(&out).unwrap().collect();
        here.sort_by_key(|entry| entry.as_ref().unwrap().file_name());
        let names = here.into_iter().map(|e| e.unwrap().file_name());
        assert!(names.eq([
            "adapter_config.json",
            "adapter_model.safetensors",
            "manifest.json",
            "tokenizer.json"
        ]));
        let (parameters, values) = Checkpoint::trained(&out).unwrap();
        assert_eq!(parameters, run.trainer.parameters());
        assert_eq!(values, run.trainer.weights());
        let want = scores(run.trainer.as_mut());
        let plain = scores(
            open(&home.model, home.base.clone(), Device::Cpu)
                .unwrap()
                .as_mut(),
        );
        assert!(want.iter().zip(&plain).any(|(a, b)| (a - b).abs() > 1e-4));
        for loaded in [
            Pretrained::load(&out),
            Pretrained::load_adapted(&home.at("base"), &out),
        ] {
            let loaded = loaded.unwrap();
            let manifest = loaded.manifest.unwrap();
            assert_eq!(manifest.recipe, Recipe::Dpsgd);
            assert_eq!(manifest.adapter.unwrap().rank, 2);
            assert!(
                manifest
                    .not_covered
                    .iter()
                    .any(|said| said.contains("the base model"))
            );
            let mut merged = open(&loaded.model, loaded.weights, Device::Cpu).unwrap();
            for (got, want) in scores(merged.as_mut()).iter().zip(&want) {
                assert!(
                    (got - want).abs() < 1e-5,
                    "{family:?}: {got} against {want}"
                );
            }
        }
        // the base is what it was
        let base = Pretrained::load(&home.at("base")).unwrap();
        assert_eq!(weights_digest(&base.weights), weights_digest(&home.base));
    }
}

#[test]
fn an_adapter_goes_on_the_weights_it_was_trained_on_alone() {
    let home = Home::new(Family::Llama);
    let (_, out) = home.adapter();
    let Model::Transformer(config) = &home.model else {
        panic!("a transformer");
    };
    let mut other = home.base.clone();
    other[3][0] += 1e-3;
    let tokenizer = Some(&home.prepared.tokenizer);
    save_hugging_face(&home.at("other"), config, &other, tokenizer).unwrap();
    let said = refused(Pretrained::load_adapted(&home.at("other"), &out));
    assert!(
        said.contains("adapter") && said.contains("digest"),
        "{said}"
    );
    // The same weights, computed otherwise.
    let mut config = config.clone();
    config.norm_epsilon *= 2.0;
    save_hugging_face(&home.at("computed"), &config, &home.base, tokenizer).unwrap();
    let said = refused(Pretrained::load_adapted(&home.at("computed"), &out));
    assert!(said.contains("another architecture"), "{said}");
    std::fs::rename(home.at("base"), home.at("moved")).unwrap();
    let said = refused(Pretrained::load(&out));
    assert!(
        said.contains("base_model_name_or_path") && said.contains("--adapter"),
        "{said}"
    );
    assert!(Pretrained::load_adapted(&home.at("moved"), &out).is_ok());
}

#[test]
fn every_file_of_an_adapter_is_covered() {
    let home = Home::new(Family::Gpt2);
    let (_, out) = home.adapter();
    for name in [
        "adapter_config.json",
        "adapter_model.safetensors",
        "manifest.json",
        "tokenizer.json",
    ] {
        let path = out.join(name);
        let whole = std::fs::read(&path).unwrap();
        for (at, bit) in [(whole.len() - 3, 1), (whole.len() / 2, 1), (40, 1)] {
            let mut bytes = whole.clone();
            bytes[at] ^= bit;
            std::fs::write(&path, bytes).unwrap();
            assert!(Pretrained::load(&out).is_err(), "{name} at {at}");
        }
        std::fs::remove_file(&path).unwrap();
        let without = Pretrained::load(&out);
        match name {
            // weights of ours that promise nothing
            "manifest.json" => assert!(without.unwrap().mark.is_some()),
            _ => assert!(without.is_err(), "{name}"),
        }
        std::fs::write(&path, whole).unwrap();
    }
    let path = out.join("manifest.json");
    let whole = std::fs::read_to_string(&path).unwrap();
    let mut manifest: Value = serde_json::from_str(&whole).unwrap();
    manifest.as_object_mut().unwrap().remove("adapter");
    std::fs::write(&path, manifest.to_string()).unwrap();
    assert!(refused(Pretrained::load(&out)).contains("manifest.json"));
}

/// No digest covers the files of the base that name the beginning and end of text.
#[test]
fn an_adapter_keeps_the_ends_of_text_that_it_was_trained_with() {
    let mut home = Home::new(Family::Llama);
    let json = serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": {"<s>": 0, "</s>": 1, "a": 2, "?": 3}, "unk_token": "?"},
    });
    let tokenizer = Tokenizer::from_json(&json.to_string(), Origin::Pretrained).unwrap();
    let written = tokenizer.to_json().unwrap();
    std::fs::write(home.at("base/tokenizer.json"), written).unwrap();
    home.prepared.tokenizer = tokenizer;
    let (_, out) = home.adapter();
    let ends = |folder: &Path| {
        let tokenizer = Pretrained::load(folder).unwrap().tokenizer;
        [tokenizer.bos(), tokenizer.eos()]
    };
    assert_eq!(ends(&out), [0, 1]);
    let other = r#"{"bos_token": "a", "eos_token": "?"}"#;
    std::fs::write(home.at("base/tokenizer_config.json"), other).unwrap();
    assert_eq!(ends(&home.at("base")), [2, 3]);
    assert_eq!(ends(&out), [0, 1]);
}

/// What the same noise must never meet: other gradients of the same adapter.
#[test]
fn a_run_goes_on_with_its_own_base_and_adapter_alone() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("run.state");
    let config = TransformerConfig::new(Family::Llama, common::VOCABULARY, 8, 1, 2, 16);
    let (model, options) = (Model::from(config), options(Recipe::Dpsgd));
    let stopped = run_until(adapted(&model, 1), &options, Some(&state), 2);
    assert!(matches!(stopped, Err(Error::Interrupted { .. })));
    let whole = run_until(adapted(&model, 1), &options, None, u64::MAX).unwrap();
    let said = match run_until(adapted(&model, 2), &options, Some(&state), u64::MAX) {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string(),
    };
    assert!(said.contains("adapter and its base"), "{said}");
    let on = run_until(adapted(&model, 1), &options, Some(&state), u64::MAX).unwrap();
    assert_eq!(on.trainer.weights(), whole.trainer.weights());
    assert_eq!(on.mechanism(), whole.mechanism());
}

/// A run killed after its adapter was written leaves nothing that the next one keeps.
#[test]
fn the_state_of_a_finished_adapter_is_erased() {
    let home = Home::new(Family::GptNeox);
    let out = home.at("adapter");
    let mut options = options(Recipe::Dpsgd).seeded(None);
    options.plan.base = Some(Base::Unstated);
    let run = run_until(
        adapted(&home.model, 1),
        &options,
        Some(&state_folder(&out)),
        u64::MAX,
    )
    .unwrap();
    home.save(&run, &out);
    drop(run);
    assert!(state_folder(&out).exists());
    assert!(erase_finished(&out).unwrap());
    assert!(!state_folder(&out).exists());
}

#[test]
fn models_that_take_no_adapter_refuse_it() {
    let lstm = Model::from(common::CONFIG);
    let spec = |rank, alpha| LoraSpec {
        rank,
        alpha,
        targets: Vec::new(),
    };
    let of = |model: &Model, spec| reticent_backends::model::Lora::of(model, String::new(), spec);
    let said = of(&lstm, spec(2, 4.0)).unwrap_err().to_string();
    assert!(said.contains("LSTM"), "{said}");
    let llama = Model::from(TransformerConfig::new(Family::Llama, 11, 8, 1, 2, 16));
    for (rank, alpha) in [
        (0, 4.0),
        (5000, 4.0),
        (2, 0.0),
        (2, f64::NAN),
        (2, f64::INFINITY),
    ] {
        let said = of(&llama, spec(rank, alpha)).unwrap_err().to_string();
        assert!(said.contains("must lie in"), "{said}");
    }
    let lora = of(&llama, spec(2, 4.0)).unwrap();
    let mut model = common::model();
    assert!(model.adapt(lora.clone(), lora.starting_weights(0)).is_err());
    let mut model = adapted(&llama, 1);
    assert!(model.adapt(lora.clone(), lora.starting_weights(0)).is_err());
    let mut model = open(&llama, llama.starting_weights(1), Device::Cpu).unwrap();
    assert!(model.adapt(lora.clone(), Vec::new()).is_err());
}

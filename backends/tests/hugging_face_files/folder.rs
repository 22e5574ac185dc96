//! A folder to change and to read again.

use reticent_backends::hugging_face::load_hugging_face;
use reticent_backends::model::{
    Biases, Family, Head, Multipliers, Residual, Rotary, Switches, TransformerConfig,
};
use reticent_backends::oracle::save_hugging_face;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

pub(crate) type Tensors = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

pub(crate) struct Folder {
    pub(crate) home: tempfile::TempDir,
    pub(crate) config: TransformerConfig,
    pub(crate) weights: Vec<Vec<f32>>,
}

impl Folder {
    pub(crate) fn new(family: Family) -> Self {
        Self::of(TransformerConfig::new(family, 11, 8, 1, 2, 16))
    }

    pub(crate) fn of(config: TransformerConfig) -> Self {
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

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join("model").join(name)
    }

    pub(crate) fn tensors(&self) -> Tensors {
        let bytes = std::fs::read(self.path("model.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let entry = |(name, view): (&str, TensorView<'_>)| {
            let value = (view.dtype(), view.shape().to_vec(), view.data().to_vec());
            (name.to_owned(), value)
        };
        file.iter().map(entry).collect()
    }

    pub(crate) fn write(&self, name: &str, tensors: &Tensors) {
        let views = tensors.iter().map(|(name, (dtype, shape, raw))| {
            (name, TensorView::new(*dtype, shape.clone(), raw).unwrap())
        });
        let bytes = safetensors::serialize(views, None).unwrap();
        std::fs::write(self.path(name), bytes).unwrap();
    }

    /// Changes the tensors and writes them back.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Tensors)) {
        let mut tensors = self.tensors();
        change(&mut tensors);
        self.write("model.safetensors", &tensors);
    }

    pub(crate) fn change_config(&self, change: impl FnOnce(&mut Value)) {
        let path = self.path("config.json");
        let mut value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        change(&mut value);
        std::fs::write(path, value.to_string()).unwrap();
    }

    pub(crate) fn load(&self) -> Result<Vec<Vec<f32>>, String> {
        let (config, weights) =
            load_hugging_face(&self.home.path().join("model")).map_err(|e| e.to_string())?;
        assert_eq!(config, self.config);
        Ok(weights)
    }

    pub(crate) fn loads_as_saved(&self) {
        assert_eq!(self.load().unwrap(), self.weights);
    }

    pub(crate) fn refused(&self, words: &[&str]) {
        let error = self.load().unwrap_err();
        for word in words {
            assert!(error.contains(word), "`{word}` is not in: {error}");
        }
    }
}

pub(crate) fn families() -> Vec<TransformerConfig> {
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
    let switched = |family, change: &dyn Fn(&mut Switches)| {
        let mut config = TransformerConfig {
            key_value_heads: 2,
            ..grouped(family)
        };
        change(&mut config.switches);
        config
    };
    let both = |s: &mut Switches| {
        s.biases.attention_in = true;
        s.biases.attention_out = true;
    };
    let wide = |s: &mut Switches| s.biases.feed_forward = true;
    let narrow = |family| TransformerConfig {
        heads: 4,
        key_value_heads: 2,
        head_width: 2,
        rotary: base(family).rotary.map(|rotary| Rotary {
            width: None,
            ..rotary
        }),
        ..base(family)
    };
    let windowed = |config: TransformerConfig, layers: Option<Vec<usize>>| TransformerConfig {
        sliding_window: Some(5),
        switches: Switches {
            sliding_layers: layers,
            ..config.switches.clone()
        },
        ..config
    };
    let partly = |family| TransformerConfig {
        rotary: Some(Rotary {
            width: Some(2),
            ..Rotary::new(500.0)
        }),
        ..base(family)
    };
    let mut granite = narrow(Family::Granite);
    granite.switches.multipliers = Multipliers {
        embedding: 12.0,
        attention: Some(0.015625),
        residual: 0.22,
        logits: 8.0,
    };
    both(&mut granite.switches);
    let mut smollm3 = narrow(Family::Smollm3);
    smollm3.switches.unturned_layers = vec![1];
    let mut plain = base(Family::Opt);
    plain.switches.biases = Biases::NONE;
    let mut in_turn = base(Family::GptNeox);
    in_turn.switches.residual = Residual::InTurn;
    let mut parallel = partly(Family::Stablelm);
    parallel.switches.residual = Residual::ParallelOneNorm;
    parallel.switches.biases.attention_in = true;
    let apart = TransformerConfig {
        key_value_heads: 2,
        ..base(Family::GptBigcode)
    };
    vec![
        base(Family::Gpt2),
        untied(Family::Gpt2),
        base(Family::GptBigcode),
        apart,
        windowed(base(Family::GptNeo), Some(vec![0])),
        base(Family::GptNeox),
        in_turn,
        base(Family::Opt),
        plain,
        grouped(Family::Llama),
        switched(Family::Llama, &both),
        switched(Family::Llama, &|s| {
            both(s);
            wide(s);
        }),
        switched(Family::Llama, &wide),
        narrow(Family::Qwen2),
        windowed(narrow(Family::Qwen2), Some(vec![1])),
        switched(Family::Qwen3, &|_| {}),
        switched(Family::Qwen3, &both),
        grouped(Family::Mistral),
        windowed(grouped(Family::Mistral), None),
        grouped(Family::Gemma),
        grouped(Family::Gemma2),
        windowed(grouped(Family::Gemma3), Some(vec![1])),
        base(Family::Phi),
        partly(Family::Phi),
        narrow(Family::Phi3),
        windowed(partly(Family::Phi3), None),
        narrow(Family::Olmo2),
        granite,
        smollm3,
        narrow(Family::Stablelm),
        parallel,
        narrow(Family::Starcoder2),
        windowed(narrow(Family::Starcoder2), None),
        base(Family::Bert),
        untied(Family::Bert),
        classes(Family::Bert),
        base(Family::Roberta),
        classes(Family::Roberta),
    ]
}

//! A folder to change and to read again.

use reticent_backends::{
    Additions, AttentionBias, Family, Head, TransformerConfig, load_hugging_face, save_hugging_face,
};
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
    let added = |attention_bias, feed_forward_bias, head_norms| TransformerConfig {
        key_value_heads: 2,
        additions: Additions {
            attention_bias,
            feed_forward_bias,
            head_norms,
        },
        ..grouped(Family::Llama)
    };
    vec![
        base(Family::Gpt2),
        untied(Family::Gpt2),
        grouped(Family::Llama),
        added(AttentionBias::Both, false, false),
        added(AttentionBias::Both, true, false),
        added(AttentionBias::None, true, false),
        added(AttentionBias::Inner, false, false),
        added(AttentionBias::None, false, true),
        added(AttentionBias::Both, false, true),
        TransformerConfig {
            sliding_window: Some(5),
            ..grouped(Family::Llama)
        },
        grouped(Family::Gemma2),
        base(Family::Bert),
        untied(Family::Bert),
        classes(Family::Bert),
        base(Family::Roberta),
        classes(Family::Roberta),
    ]
}

//! The checkpoint folder: `config.json`, `model.safetensors`, `tokenizer.json`, `manifest.json`.

use crate::error::{Error, Result, at};
use crate::files::write_whole;
use crate::manifest::{Initial, Manifest, Phase, hexadecimal};
use crate::model::LstmConfig;
use crate::recipe::Recipe;
use crate::run::Trained;
use crate::trainer::check_shapes;
use crate::weights::{Named, from_bytes, read, to_bytes};
use reticent_accounting::{Mechanism, Neighbours};
use reticent_corpus::{Origin, Prepared, Tokenizer};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::path::Path;

/// The model type in `config.json`.
const MODEL_TYPE: &str = "reticent-lstm";

/// A loaded checkpoint; every file was checked against the others.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// The model's shape.
    pub config: LstmConfig,
    /// Its weights, in the order of [`LstmConfig::parameters`].
    pub weights: Vec<Vec<f32>>,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// What ran.
    pub manifest: Manifest,
}

#[derive(Serialize, Deserialize)]
struct Config {
    architectures: Vec<String>,
    model_type: String,
    vocab_size: usize,
    embedding_size: usize,
    hidden_size: usize,
    bos_token_id: u32,
    eos_token_id: u32,
}

/// What the guarantee of a run never covers.
fn not_covered(seeded: bool, vocabulary: Origin) -> Vec<String> {
    let mut list: Vec<String> = [
        "tuning and choice among runs: compose all runs, or account for the selection",
        "metrics, loss curves and reports computed on the training text",
        "floating-point arithmetic: the analysis is of real-valued Gaussian noise",
    ]
    .map(str::to_owned)
    .to_vec();
    if seeded {
        list.insert(
            0,
            "everything: a fixed seed made batches and noise, so this run is not private"
                .to_owned(),
        );
    }
    if vocabulary == Origin::Leaks {
        list.insert(
            0,
            "the vocabulary: it was built from private text and publishes its rare words"
                .to_owned(),
        );
    }
    list
}

/// What ran, with the vocabulary that the checkpoint publishes.
fn told(mechanism: &Mechanism, vocabulary: Origin) -> Mechanism {
    if vocabulary != Origin::Leaks {
        return mechanism.clone();
    }
    let why = "the vocabulary was built from private text and is published with the model".into();
    Mechanism::Sequence {
        parts: vec![Mechanism::NonPrivate { why }, mechanism.clone()],
    }
}

impl Manifest {
    /// The manifest of a finished run on a prepared corpus.
    #[must_use]
    pub fn of(recipe: Recipe, prepared: &Prepared, trained: &Trained, initial: Initial) -> Self {
        Self {
            schema: 1,
            kind: "checkpoint".into(),
            recipe,
            unit: prepared.training.unit,
            vocabulary: prepared.tokenizer.origin(),
            stages: prepared.facts.stages.clone(),
            initial,
            neighbours: Neighbours::AddRemove,
            phases: trained.phases.clone(),
            mechanism: told(&trained.mechanism, prepared.tokenizer.origin()),
            estimates: trained.estimates.clone(),
            seeded: trained.seeded,
            weights: String::new(),
            canaries: None,
            not_covered: not_covered(trained.seeded, prepared.tokenizer.origin()),
        }
    }

    /// The mechanism of the private phases alone.
    #[must_use]
    pub const fn mechanism(&self) -> &Mechanism {
        &self.mechanism
    }

    /// Whether any phase trained on secrets without protection.
    #[must_use]
    pub fn is_unprotected(&self) -> bool {
        self.phases
            .iter()
            .any(|p| matches!(p, Phase::Unprotected { .. }))
    }
}

impl Checkpoint {
    /// Writes a checkpoint folder, whole or not at all.
    ///
    /// # Errors
    /// A folder that exists and is not empty, or can't be written.
    pub fn save(
        folder: &Path,
        config: &LstmConfig,
        weights: &[Vec<f32>],
        tokenizer: &Tokenizer,
        mut manifest: Manifest,
    ) -> Result<()> {
        free_for(folder)?;
        let parent = folder
            .parent()
            .filter(|p| !p.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        at(parent, std::fs::create_dir_all(parent))?;
        let building = at(
            parent,
            tempfile::Builder::new()
                .prefix(".reticent-")
                .tempdir_in(parent),
        )?;
        let tensors: Vec<Named> = config
            .parameters()
            .into_iter()
            .zip(weights)
            .map(|(p, w)| Named {
                name: p.name,
                shape: p.shape,
                values: w.clone(),
            })
            .collect();
        let bytes = to_bytes(
            &tensors,
            HashMap::from([("format".to_owned(), "pt".to_owned())]),
        )?;
        manifest.weights = hexadecimal(&Sha256::digest(&bytes));
        let config = Config {
            architectures: vec!["ReticentLstmForCausalLM".into()],
            model_type: MODEL_TYPE.into(),
            vocab_size: config.vocabulary,
            embedding_size: config.embedding,
            hidden_size: config.hidden,
            bos_token_id: tokenizer.bos(),
            eos_token_id: tokenizer.eos(),
        };
        let config =
            serde_json::to_string_pretty(&config).map_err(|e| Error::Engine(e.to_string()))?;
        let tokenizer = tokenizer
            .to_json()
            .map_err(|e| Error::Unsuitable(e.to_string()))?;
        let at_home = |name: &str| building.path().join(name);
        write_whole(&at_home("model.safetensors"), &bytes)?;
        write_whole(&at_home("config.json"), config.as_bytes())?;
        write_whole(&at_home("tokenizer.json"), tokenizer.as_bytes())?;
        write_whole(&at_home("manifest.json"), manifest.to_json()?.as_bytes())?;
        if folder.exists() {
            at(folder, std::fs::remove_dir(folder))?; // empty, as checked above
        }
        at(folder, std::fs::rename(building.keep(), folder))
    }

    /// Loads a checkpoint folder. Nothing in it is trusted.
    ///
    /// # Errors
    /// [`Error::Io`] for a missing file; [`Error::Checkpoint`] for one that is truncated,
    /// tampered with, or does not fit the others.
    pub fn load(folder: &Path) -> Result<Self> {
        let text = |name: &str| -> Result<String> {
            let path = folder.join(name);
            String::from_utf8(read(&path)?).map_err(|e| Error::Checkpoint {
                path,
                why: format!("not UTF-8: {e}"),
            })
        };
        let bad = |name: &str, why: String| Error::Checkpoint {
            path: folder.join(name),
            why,
        };
        let manifest =
            Manifest::from_json(&text("manifest.json")?).map_err(|e| bad("manifest.json", e))?;
        let config: Config = serde_json::from_str(&text("config.json")?)
            .map_err(|e| bad("config.json", e.to_string()))?;
        if config.model_type != MODEL_TYPE {
            return Err(bad(
                "config.json",
                format!(
                    "model_type is `{}`, expected `{MODEL_TYPE}`",
                    config.model_type
                ),
            ));
        }
        let config = LstmConfig {
            vocabulary: config.vocab_size,
            embedding: config.embedding_size,
            hidden: config.hidden_size,
        }
        .validated()
        .map_err(|e| bad("config.json", e.to_string()))?;
        let weights = load_weights(folder, &config, &manifest)?;
        let tokenizer = Tokenizer::from_json(&text("tokenizer.json")?, manifest.vocabulary)
            .map_err(|e| bad("tokenizer.json", e.to_string()))?;
        if tokenizer.vocabulary_size() != config.vocabulary {
            let why = format!(
                "has {} tokens, config.json says {}",
                tokenizer.vocabulary_size(),
                config.vocabulary
            );
            return Err(bad("tokenizer.json", why));
        }
        Ok(Self {
            config,
            weights,
            tokenizer,
            manifest,
        })
    }
}

fn load_weights(folder: &Path, config: &LstmConfig, manifest: &Manifest) -> Result<Vec<Vec<f32>>> {
    let path = folder.join("model.safetensors");
    let bytes = read(&path)?;
    let (mut tensors, _) = from_bytes(&path, &bytes)?;
    let bad = |why: String| Error::Checkpoint {
        path: path.clone(),
        why,
    };
    let digest = hexadecimal(&Sha256::digest(&bytes));
    if digest != manifest.weights {
        return Err(bad(format!(
            "its SHA-256 is {digest}, manifest.json says {}: tampered with",
            manifest.weights
        )));
    }
    let parameters = config.parameters();
    let mut weights = Vec::with_capacity(parameters.len());
    for p in &parameters {
        let tensor = tensors
            .remove(&p.name)
            .ok_or_else(|| bad(format!("lacks the tensor {}", p.name)))?;
        if tensor.shape != p.shape {
            return Err(bad(format!(
                "tensor {} has shape {:?}, expected {:?}",
                p.name, tensor.shape, p.shape
            )));
        }
        weights.push(tensor.values);
    }
    check_shapes(&parameters, &weights)?;
    Ok(weights)
}

/// Refuses to write over anything.
///
/// # Errors
/// [`Error::Io`] (already exists) for a file or a folder with something in it.
pub fn free_for(folder: &Path) -> Result<()> {
    let taken = || {
        std::io::Error::new(
            std::io::ErrorKind::AlreadyExists,
            "already there, and not an empty folder",
        )
    };
    match std::fs::read_dir(folder) {
        Ok(mut entries) => {
            if entries.next().is_none() {
                Ok(())
            } else {
                at(folder, Err(taken()))
            }
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(_) => at(folder, Err(taken())),
    }
}

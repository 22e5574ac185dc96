//! The checkpoint folder: `config.json`, `model.safetensors`, `tokenizer.json`, `manifest.json`. The folder of an
//! adapter has `adapter_config.json` and `adapter_model.safetensors` in place of the first two.

pub(crate) mod description;
pub(crate) mod lock;
pub(crate) mod manifest;
pub(crate) mod owner;
pub(crate) mod snapshot;
pub(crate) mod state;
pub(crate) mod weights;

pub use description::Difference;
pub use lock::FolderLock;
pub use manifest::{CanarySeal, Course, Digests, Initial, Manifest, Phase};
pub use owner::{Authentication, Owner, owner_folder, state_folder};
pub use state::{erase_finished, kept_run};
pub use weights::weights_digest;

use crate::error::{Error, Result, at};
use crate::files::Building;
use crate::hugging_face::{self, Beside, adapter, load_hugging_face, tokenizer_json};
use crate::model::{Head, Lora, LstmConfig, Model, TransformerConfig};
use crate::run::Ran;
use crate::trainer::dropout::Dropout;
use crate::trainer::{Parameter, check_shapes};
use reticent_accounting::training::{Base, Recipe, TrainingPlan, outside_text, uncovered};
use reticent_accounting::{Mechanism, Neighbours};
use reticent_corpus::prepare::Prepared;
use reticent_corpus::tokenize::{Origin, Tokenizer};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use weights::{Named, from_bytes, notes, read, to_bytes};

/// The file of a model's weights.
const WEIGHTS: &str = "model.safetensors";
/// The file of a model's architecture.
const CONFIG: &str = "config.json";
/// The model type of our LSTM in `config.json`.
const MODEL_TYPE: &str = "reticent-lstm";

/// A loaded checkpoint, whose files have been checked against each other.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// The model's architecture.
    pub model: Model,
    /// Its weights, in the order of [`Model::parameters`].
    pub weights: Vec<Vec<f32>>,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// What ran.
    pub manifest: Manifest,
    /// Whether the manifest is known to come from the model's owner.
    pub authentication: Authentication,
}

/// The mark in the header of a weights file that this crate wrote. Software that rewrites the file drops the mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The recipe that trained the weights.
    pub recipe: String,
    /// SHA-256 of the weights' manifest, computed with the weights' digest left empty.
    pub manifest: String,
}

impl Mark {
    const RECIPE: &'static str = "reticent.recipe";
    const MANIFEST: &'static str = "reticent.manifest";

    /// Returns the mark of weights whose digest is not in the manifest yet.
    fn of(manifest: &Manifest) -> Result<Self> {
        let blank = Manifest {
            weights: String::new(),
            ..manifest.clone()
        };
        Ok(Self {
            recipe: manifest.recipe.to_string(),
            manifest: sha256(blank.to_json()?.as_bytes()),
        })
    }

    fn notes(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            (Self::RECIPE.to_owned(), self.recipe.clone()),
            (Self::MANIFEST.to_owned(), self.manifest.clone()),
        ])
    }

    /// Whether the recipe may have promised something to the text behind the weights: any but sgd.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.recipe != Recipe::Sgd.to_string()
    }

    /// Reads the mark of one file; one of the two entries suffices to identify a file of ours.
    fn in_file(path: &Path) -> Result<Option<Self>> {
        let notes = notes(path)?;
        let of = |name: &str| notes.get(name).cloned();
        Ok(match (of(Self::RECIPE), of(Self::MANIFEST)) {
            (None, None) => None,
            (recipe, manifest) => Some(Self {
                recipe: recipe.unwrap_or_default(),
                manifest: manifest.unwrap_or_default(),
            }),
        })
    }

    /// Reads the mark of any weights in a folder. Another file beside them that is no safetensors has none.
    ///
    /// # Errors
    /// Returns an error if the folder or weights that are loaded from it can't be read.
    pub fn in_folder(folder: &Path) -> Result<Option<Self>> {
        for entry in at(folder, std::fs::read_dir(folder))? {
            let path = at(folder, entry)?.path();
            let weights = path.extension().is_some_and(|e| e == "safetensors");
            if !weights {
                continue;
            }
            match Self::in_file(&path) {
                Err(Error::Checkpoint { .. }) if !hugging_face::is_loaded(&path) => {}
                found => {
                    if let Some(mark) = found? {
                        return Ok(Some(mark));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Compares a manifest with the header of the weights beside it, without reading the weights. Without weights
    /// nothing is compared.
    ///
    /// # Errors
    /// Returns [`Error::Checkpoint`] for a manifest that contradicts itself, or with which these weights were not
    /// written.
    pub fn compare(folder: &Path, said: &str) -> Result<()> {
        if folder.join(Kind::of(folder)?.weights()).exists() {
            let manifest = Manifest::from_json(said)
                .map_err(|why| Error::checkpoint(folder.join("manifest.json"), why))?;
            Self::marks(folder, &manifest, said)?;
        }
        Ok(())
    }

    /// Checks that the weights have a mark, and that it matches their manifest.
    fn marks(folder: &Path, manifest: &Manifest, said: &str) -> Result<()> {
        let weights = folder.join(Kind::of(folder)?.weights());
        match Self::in_file(&weights)? {
            Some(mark) if mark.fits(manifest, said) => Ok(()),
            _ => Err(Error::checkpoint(
                folder.join("manifest.json"),
                "not the manifest that these weights were written with: tampered with",
            )),
        }
    }

    /// Returns whether the mark matches the text of a manifest.
    fn fits(&self, manifest: &Manifest, text: &str) -> bool {
        let own = format!("\"weights\": \"{}\"", manifest.weights);
        let blank = text.replacen(&own, "\"weights\": \"\"", 1);
        self.recipe == manifest.recipe.to_string() && self.manifest == sha256(blank.as_bytes())
    }
}

/// The kind of a folder's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Model,
    /// An adapter without its base model.
    Adapter,
}

impl Kind {
    /// Returns what a folder holds. Trainers write a `config.json` beside an adapter too, so the weights decide.
    ///
    /// # Errors
    /// Returns [`Error::Checkpoint`] for the weights of a model beside an adapter: transformers puts the adapter on the
    /// base that it names and leaves these weights out, or, without peft, leaves the adapter out.
    pub(crate) fn of(folder: &Path) -> Result<Self> {
        let whole = folder.join(CONFIG).exists() && hugging_face::has_weights(folder);
        match (whole, folder.join(adapter::CONFIG).exists()) {
            (_, false) => Ok(Self::Model),
            (false, true) => Ok(Self::Adapter),
            (true, true) => Err(Error::checkpoint(
                folder,
                format!(
                    "holds the weights of a model and the {} of an adapter, and which is meant can't be known; move \
                     the adapter's files to a folder of their own, and name the one that is meant",
                    adapter::CONFIG
                ),
            )),
        }
    }

    const fn config(self) -> &'static str {
        match self {
            Self::Model => CONFIG,
            Self::Adapter => adapter::CONFIG,
        }
    }

    const fn weights(self) -> &'static str {
        match self {
            Self::Model => WEIGHTS,
            Self::Adapter => adapter::WEIGHTS,
        }
    }
}

fn sha256(bytes: &[u8]) -> String {
    reticent_disk::hexadecimal(&Sha256::digest(bytes))
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

/// Returns what the guarantee of a run never covers.
fn not_covered(plan: &TrainingPlan, base: Option<Base>, prepared: &Prepared) -> Vec<String> {
    let outside = outside_text(base, plan.held_out_public());
    let said = outside.chain(uncovered(plan.run.recipe(), prepared.options.draws()));
    let mut list: Vec<String> = said.map(str::to_owned).collect();
    if plan.within_a_class() {
        list.push(
            "classes: no policy redacts the class of a record; what is promised of redacted content is promised between \
             records of one class, and nothing of a class"
                .to_owned(),
        );
    }
    let mut first = |is_so: bool, said: &str| {
        if is_so {
            list.insert(0, said.to_owned());
        }
    };
    first(
        plan.noiseless,
        "everything: the noise that the plan states was left out, so this run is not private",
    );
    first(
        plan.seeded,
        "everything: a fixed seed made batches and noise, so this run is not private",
    );
    first(
        prepared.tokenizer.origin() == Origin::Leaks,
        "the vocabulary: it was built from private text and publishes its rare words",
    );
    list
}

impl Manifest {
    /// Creates the manifest of what has run on a prepared corpus.
    ///
    /// # Errors
    /// Returns [`Error::Unsuitable`] for a plan that contradicts the corpus.
    pub fn of(prepared: &Prepared, ran: &Ran, initial: Initial) -> Result<Self> {
        let plan = ran.plan.published();
        let recipe = plan.run.recipe();
        let recipe = recipe.ok_or_else(|| Error::Unsuitable("a plan without a recipe".into()))?;
        let vocabulary = prepared.tokenizer.origin();
        let manifest = Self {
            schema: 1,
            kind: "checkpoint".into(),
            recipe,
            unit: prepared.training.unit,
            vocabulary,
            stages: prepared.facts.published_stages(&prepared.options),
            neighbours: Neighbours::AddRemove,
            phases: ran.phases.clone(),
            mechanism: plan.mechanism(),
            estimates: ran.estimates.clone(),
            seeded: plan.seeded,
            dropout: ran.dropout,
            course: ran.course,
            initial,
            adapter: None,
            architecture: None,
            ends: None,
            loss_on: prepared.options.loss_on,
            max_tokens: prepared.options.max_tokens,
            weights: String::new(),
            digests: Digests::default(),
            canaries: None,
            not_covered: Vec::new(),
            plan,
        };
        let mut manifest = manifest.consistent().map_err(Error::Unsuitable)?;
        manifest.not_covered = not_covered(&manifest.plan, manifest.base(), prepared);
        Ok(manifest)
    }

    /// Returns the mechanism of the private phases alone.
    #[must_use]
    pub const fn mechanism(&self) -> &Mechanism {
        &self.mechanism
    }
}

impl Checkpoint {
    /// Writes a checkpoint folder, whole or not at all. `beside` holds the other settings of the folder that the model
    /// started from. An `owner`, if there is one, authenticates the manifest before the folder appears.
    ///
    /// # Errors
    /// Returns an error if the folder exists and is not empty, if it can't be written, or if the tokenizer has more
    /// tokens than the model.
    pub fn save(
        folder: &Path,
        model: &Model,
        weights: &[Vec<f32>],
        tokenizer: &Tokenizer,
        beside: &Beside,
        manifest: Manifest,
        owner: Option<&Owner>,
    ) -> Result<()> {
        free_for(folder)?;
        if tokenizer.vocabulary_size() > model.vocabulary() {
            return Err(Error::Unsuitable(format!(
                "the tokenizer has {} tokens, the model {}",
                tokenizer.vocabulary_size(),
                model.vocabulary()
            )));
        }
        check_shapes(&model.parameters(), weights)?;
        let files = Files {
            kind: Kind::Model,
            config: config_json(model, tokenizer, beside)?,
            tokenizer: tokenizer_json(model.head(), tokenizer)?,
            beside: beside.files(model.head() != Head::NextToken).collect(),
            weights: &|notes| weight_bytes(model, weights, notes),
            digest: weights_digest(weights),
        };
        files.write(
            folder,
            manifest,
            owner,
            |path| Ok(Self::load(path)?.weights),
        )
    }

    /// Writes the folder of a trained adapter as peft reads it, with our manifest, whole or not at all. `base` is the
    /// path that the folder records for the adapter's base model, as a reader of the folder finds it.
    ///
    /// # Errors
    /// As [`Self::save`].
    pub fn save_adapter(
        folder: &Path,
        (model, lora, base): (&Model, &Lora, &str),
        weights: &[Vec<f32>],
        tokenizer: &Tokenizer,
        beside: &Beside,
        mut manifest: Manifest,
        owner: Option<&Owner>,
    ) -> Result<()> {
        free_for(folder)?;
        let config = decoder(model)?;
        manifest.adapter = Some(lora.spec().clone());
        manifest.architecture = Some(Box::new(config.clone()));
        manifest.ends = Some([tokenizer.bos(), tokenizer.eos()]);
        let files = Files {
            kind: Kind::Adapter,
            config: adapter::config_json(lora, config, base)?,
            tokenizer: tokenizer_json(model.head(), tokenizer)?,
            beside: beside.files(false).collect(),
            weights: &|notes| adapter::weight_bytes(lora, config, weights, notes),
            digest: weights_digest(weights),
        };
        files.write(folder, manifest, owner, |path| {
            Authenticated::read(path)?;
            adapter::weights(path, lora, config)
        })
    }

    /// Returns the parameters that the run into a checkpoint folder trained, and their values: the model's, or the
    /// adapter's.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn trained(folder: &Path) -> Result<(Vec<Parameter>, Vec<Vec<f32>>)> {
        if Kind::of(folder)? == Kind::Model {
            let checkpoint = Self::load(folder)?;
            return Ok((checkpoint.model.parameters(), checkpoint.weights));
        }
        let Authenticated { manifest, .. } = Authenticated::read(folder)?;
        let bytes = read(&folder.join(adapter::WEIGHTS))?;
        compare_digest(folder, adapter::WEIGHTS, &bytes, &manifest.weights)?;
        let spec = manifest.adapter.ok_or_else(|| lacks_adapter(folder))?;
        let base = manifest.initial.weights().unwrap_or_default().to_owned();
        let model = read_config(&adapter::named_base(folder)?)?;
        let lora = Lora::of(&model, base, spec)?;
        let weights = adapter::weights(folder, &lora, decoder(&model)?)?;
        Ok((lora.parameters(), weights))
    }

    /// Loads a checkpoint folder. Nothing in it is trusted: every file is compared with the digests in the others, and
    /// the mechanism with the one that follows from the phases. An adapter is merged into the base that its folder
    /// names.
    ///
    /// # Errors
    /// Returns [`Error::Io`] for a missing file; [`Error::Checkpoint`] for a file that is truncated, was tampered with,
    /// does not fit the others, or is not the one that its owner authenticated.
    pub fn load(folder: &Path) -> Result<Self> {
        if Kind::of(folder)? == Kind::Adapter {
            return Self::adapted(Pretrained::load(&adapter::named_base(folder)?)?, folder);
        }
        let bad = |name: &str, why: String| Error::checkpoint(folder.join(name), why);
        let Authenticated {
            manifest,
            authentication,
        } = Authenticated::read(folder)?;
        let path = folder.join(WEIGHTS);
        let model = read_config(folder)?;
        let bytes = read(&path)?;
        let weights = read_weights(&path, &bytes, &model)?;
        compare_digest(folder, WEIGHTS, &bytes, &manifest.weights)?;
        drop(bytes);
        let json = text(folder, "tokenizer.json")?;
        let tokenizer = match ends(&text(folder, "config.json")?) {
            Some(ends) => Tokenizer::from_json_with_ends(&json, manifest.vocabulary, ends),
            None => Tokenizer::from_json(&json, manifest.vocabulary),
        };
        let tokenizer = tokenizer.map_err(|e| bad("tokenizer.json", e.to_string()))?;
        let (tokens, known) = (tokenizer.vocabulary_size(), model.vocabulary());
        // published vocabularies are often padded; ours never are
        let fits = match model {
            Model::Lstm(_) => tokens == known,
            Model::Transformer(_) => tokens <= known,
        };
        if !fits {
            let why = format!("has {tokens} tokens, config.json says {known}");
            return Err(bad("tokenizer.json", why));
        }
        Ok(Self {
            model,
            weights,
            tokenizer,
            manifest,
            authentication,
        })
    }

    /// Merges an adapter of ours into its base.
    fn adapted(base: Pretrained, folder: &Path) -> Result<Self> {
        let bad = |name: &str, why: String| Error::checkpoint(folder.join(name), why);
        let Authenticated {
            manifest,
            authentication,
        } = Authenticated::read(folder)?;
        let path = folder.join(adapter::WEIGHTS);
        compare_digest(folder, adapter::WEIGHTS, &read(&path)?, &manifest.weights)?;
        let (Some(_), Some(trained), Some(ends)) =
            (&manifest.adapter, &manifest.architecture, manifest.ends)
        else {
            return Err(lacks_adapter(folder));
        };
        let (given, expected) = (weights_digest(&base.weights), manifest.initial.weights());
        if expected != Some(given.as_str()) {
            return Err(bad(
                "manifest.json",
                format!(
                    "the adapter was trained on weights with the digest {}, those of the base have {given}",
                    expected.unwrap_or("of no folder")
                ),
            ));
        }
        let json = text(folder, "tokenizer.json")?;
        // No digest covers the files of the base that name the ends of text.
        let tokenizer = Tokenizer::from_json_with_ends(&json, manifest.vocabulary, ends)
            .map_err(|e| bad("tokenizer.json", e.to_string()))?;
        let tokens = tokenizer.vocabulary_size().max(base.model.vocabulary());
        let (model, mut weights) = base.model.grown(base.weights, tokens)?;
        if decoder(&model).ok() != Some(&**trained) {
            return Err(bad(
                "manifest.json",
                "the adapter was trained on another architecture than config.json of the base names".into(),
            ));
        }
        adapter::merge(folder, decoder(&model)?, &mut weights)?;
        Ok(Self {
            model,
            weights,
            tokenizer,
            manifest,
            authentication,
        })
    }
}

fn lacks_adapter(folder: &Path) -> Error {
    Error::checkpoint(
        folder.join("manifest.json"),
        "is that of a model, and the folder holds an adapter",
    )
}

fn decoder(model: &Model) -> Result<&TransformerConfig> {
    match model {
        Model::Transformer(config) => Ok(config),
        Model::Lstm(_) => Err(Error::Unsuitable("an LSTM takes no LoRA adapter".into())),
    }
}

/// The contents of a checkpoint folder to be written.
struct Files<'a> {
    kind: Kind,
    config: String,
    tokenizer: String,
    /// Other files, by name, which no digest covers.
    beside: Vec<(&'static str, Vec<u8>)>,
    /// Returns the bytes of the weights file with these entries in its header.
    weights: &'a dyn Fn(BTreeMap<String, String>) -> Result<Vec<u8>>,
    /// The [`weights_digest`] of the weights.
    digest: String,
}

impl Files<'_> {
    fn write(
        &self,
        folder: &Path,
        mut manifest: Manifest,
        owner: Option<&Owner>,
        again: impl FnOnce(&Path) -> Result<Vec<Vec<f32>>>,
    ) -> Result<()> {
        let building = Building::beside(folder)?;
        manifest.digests = Digests {
            config: sha256(self.config.as_bytes()),
            tokenizer: sha256(self.tokenizer.as_bytes()),
        };
        let bytes = (self.weights)(Mark::of(&manifest)?.notes())?;
        manifest.weights = sha256(&bytes);
        building.write(self.kind.weights(), &bytes)?;
        drop(bytes);
        building.write(self.kind.config(), self.config.as_bytes())?;
        building.write("tokenizer.json", self.tokenizer.as_bytes())?;
        for (name, bytes) in &self.beside {
            building.write(name, bytes)?;
        }
        let manifest = manifest.to_json()?;
        building.write("manifest.json", manifest.as_bytes())?;
        // a folder that can't be loaded is not written
        if weights_digest(&again(building.path())?) != self.digest {
            return Err(Error::checkpoint(
                building.path().join(self.kind.weights()),
                "reads back as other weights than were written",
            ));
        }
        // Before the folder has its name: a process that is killed in between leaves no checkpoint without its code.
        if let Some(owner) = owner {
            owner.authenticate(manifest.as_bytes())?;
        }
        building.finish(folder)
    }
}

/// The manifest of a checkpoint folder, compared with all files beside it except the weights.
struct Authenticated {
    manifest: Manifest,
    authentication: Authentication,
}

impl Authenticated {
    fn read(folder: &Path) -> Result<Self> {
        let bad = |why: String| Error::checkpoint(folder.join("manifest.json"), why);
        let said = text(folder, "manifest.json")?;
        let manifest = Manifest::from_json(&said).map_err(bad)?;
        Mark::marks(folder, &manifest, &said)?;
        let authentication = Authentication::of(folder, said.as_bytes())?;
        for (name, digest) in [
            (Kind::of(folder)?.config(), &manifest.digests.config),
            ("tokenizer.json", &manifest.digests.tokenizer),
        ] {
            compare_digest(folder, name, &read(&folder.join(name))?, digest)?;
        }
        Ok(Self {
            manifest,
            authentication,
        })
    }
}

fn compare_digest(folder: &Path, name: &str, bytes: &[u8], expected: &str) -> Result<()> {
    let digest = sha256(bytes);
    if digest == expected {
        return Ok(());
    }
    Err(Error::checkpoint(
        folder.join(name),
        format!("its SHA-256 is {digest}, manifest.json says {expected}: tampered with"),
    ))
}

/// A model to score or to start from: a checkpoint of ours, or any Hugging Face folder.
#[derive(Debug, Clone)]
pub struct Pretrained {
    /// The model's architecture.
    pub model: Model,
    /// Its weights, in the order of [`Model::parameters`].
    pub weights: Vec<Vec<f32>>,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// The manifest, if the folder is ours.
    pub manifest: Option<Manifest>,
    /// Whether that manifest is known to come from the model's owner.
    pub authentication: Authentication,
    /// The mark of weights that a run of ours trained and that have no manifest. They have no guarantee.
    pub mark: Option<Mark>,
    /// The dropout of its training: as the manifest says if the folder is ours, otherwise as its `config.json` says; or
    /// the reason why it can't be trained with that dropout. Scoring drops nothing.
    pub dropout: std::result::Result<Dropout, String>,
}

impl Pretrained {
    /// Loads a folder. Nothing in it is trusted. The vocabulary of a folder without `manifest.json` counts as
    /// pretrained: built by others, before and without this text.
    ///
    /// # Errors
    /// As [`Checkpoint::load`] and [`crate::hugging_face::load_hugging_face`].
    pub fn load(folder: &Path) -> Result<Self> {
        if Kind::of(folder)? == Kind::Adapter {
            return Self::load_adapted(&adapter::named_base(folder)?, folder);
        }
        if !folder.join(CONFIG).exists() {
            if !folder.is_dir() {
                return Err(Error::checkpoint(folder, "no such folder"));
            }
            if folder.join("prepared.json").exists() {
                return Err(Error::checkpoint(
                    folder,
                    "a prepared corpus, no checkpoint; audit train makes one of it",
                ));
            }
            return Err(Error::checkpoint(
                folder,
                "no model: that is a folder with config.json, model.safetensors and tokenizer.json, as \
                      audit train writes it",
            ));
        }
        if folder.join("manifest.json").exists() {
            return Ok(Checkpoint::load(folder)?.into());
        }
        // Only this crate writes our LSTM.
        let kind = text(folder, "config.json").and_then(|json| kind(folder, &json));
        if kind.is_ok_and(|kind| kind == MODEL_TYPE) {
            return Err(Error::checkpoint(
                folder,
                "weights that audit train wrote, without manifest.json, which says what ran; put it back",
            ));
        }
        Self::foreign(folder, load_hugging_face(folder)?)
    }

    /// Loads a folder with a LoRA adapter merged into its weights, one of peft on a Hugging Face folder or one of ours
    /// on the weights that it was trained on. The tokenizer is the folder's.
    ///
    /// # Errors
    /// As [`Self::load`] and [`crate::hugging_face::load_adapted`]; an adapter of others on a model of ours, whose promise would not
    /// cover it; an adapter of ours on other weights than it was trained on.
    pub fn load_adapted(folder: &Path, adapter: &Path) -> Result<Self> {
        if adapter.join("manifest.json").exists() {
            return Ok(Checkpoint::adapted(Self::load(folder)?, adapter)?.into());
        }
        if folder.join("manifest.json").exists() || Mark::in_folder(folder)?.is_some() {
            return Err(Error::checkpoint(
                folder,
                "a checkpoint of ours, and nothing is promised for an adapter on it; an adapter of others goes \
                      on a Hugging Face folder",
            ));
        }
        let base = Self::foreign(folder, hugging_face::load_adapted(folder, adapter)?)?;
        Ok(Self {
            mark: Mark::in_folder(adapter)?,
            ..base
        })
    }

    /// Returns the folder of the base model that an adapter's folder names.
    ///
    /// # Errors
    /// Returns an error if the folder does not hold only an adapter, or if its base does not exist.
    pub fn base_of(adapter: &Path) -> Result<PathBuf> {
        adapter::named_base(adapter)
    }

    /// Adds tokenizer, mark and dropout to the architecture and weights of a folder that is not ours.
    fn foreign(
        folder: &Path,
        (config, weights): (TransformerConfig, Vec<Vec<f32>>),
    ) -> Result<Self> {
        let dropout = hugging_face::read_dropout(&folder.join("config.json"))?;
        let tokenizer = Tokenizer::load_folder(folder, Origin::Pretrained)
            .map_err(|e| Error::checkpoint(folder, e.to_string()))?;
        Ok(Self {
            model: config.into(),
            weights,
            tokenizer,
            manifest: None,
            authentication: Authentication::NoKey,
            mark: Mark::in_folder(folder)?,
            dropout,
        })
    }
}

impl From<Checkpoint> for Pretrained {
    fn from(checkpoint: Checkpoint) -> Self {
        Self {
            model: checkpoint.model,
            weights: checkpoint.weights,
            tokenizer: checkpoint.tokenizer,
            dropout: Ok(checkpoint.manifest.dropout),
            manifest: Some(checkpoint.manifest),
            authentication: checkpoint.authentication,
            mark: None,
        }
    }
}

fn text(folder: &Path, name: &str) -> Result<String> {
    let path = folder.join(name);
    String::from_utf8(read(&path)?).map_err(|e| Error::checkpoint(path, format!("not UTF-8: {e}")))
}

/// Returns the ids of beginning and end of text from a `config.json` of ours.
fn ends(config: &str) -> Option<[u32; 2]> {
    let config: serde_json::Value = serde_json::from_str(config).ok()?;
    // If there are several, records end with the first.
    let id = |key: &str| {
        let id = config.get(key)?;
        u32::try_from(id.get(0).unwrap_or(id).as_u64()?).ok()
    };
    Some([id("bos_token_id")?, id("eos_token_id")?])
}

fn config_json(model: &Model, tokenizer: &Tokenizer, beside: &Beside) -> Result<String> {
    let (bos, eos) = (tokenizer.bos(), tokenizer.eos());
    match model {
        Model::Transformer(config) => hugging_face::config_json(config, Some([bos, eos]), beside),
        Model::Lstm(config) => serde_json::to_string_pretty(&Config {
            architectures: vec!["ReticentLstmForCausalLM".into()],
            model_type: MODEL_TYPE.into(),
            vocab_size: config.vocabulary,
            embedding_size: config.embedding,
            hidden_size: config.hidden,
            bos_token_id: bos,
            eos_token_id: eos,
        })
        .map_err(Error::engine),
    }
}

fn weight_bytes(
    model: &Model,
    weights: &[Vec<f32>],
    notes: BTreeMap<String, String>,
) -> Result<Vec<u8>> {
    let config = match model {
        Model::Transformer(config) => return hugging_face::weight_bytes(config, weights, notes),
        Model::Lstm(config) => config,
    };
    let named = |(p, w): (Parameter, &Vec<f32>)| Named {
        name: p.name,
        shape: p.shape,
        values: w.clone(),
    };
    let tensors: Vec<Named> = config
        .parameters()
        .into_iter()
        .zip(weights)
        .map(named)
        .collect();
    to_bytes(&tensors, notes)
}

/// Returns the model type from the text of a `config.json`.
fn kind(folder: &Path, json: &str) -> Result<String> {
    #[derive(Deserialize)]
    struct Kind {
        model_type: String,
    }
    let kind: Kind = serde_json::from_str(json)
        .map_err(|e| Error::checkpoint(folder.join("config.json"), e.to_string()))?;
    Ok(kind.model_type)
}

/// Reads the architecture from `config.json`, ours or Hugging Face's.
fn read_config(folder: &Path) -> Result<Model> {
    let bad = |why: String| Error::checkpoint(folder.join("config.json"), why);
    let json = text(folder, "config.json")?;
    if kind(folder, &json)? != MODEL_TYPE {
        return Ok(hugging_face::read_config(&folder.join("config.json"))?.into());
    }
    let config: Config = serde_json::from_str(&json).map_err(|e| bad(e.to_string()))?;
    let config = LstmConfig {
        vocabulary: config.vocab_size,
        embedding: config.embedding_size,
        hidden: config.hidden_size,
    };
    Ok(config.validated().map_err(|e| bad(e.to_string()))?.into())
}

fn read_weights(path: &Path, bytes: &[u8], model: &Model) -> Result<Vec<Vec<f32>>> {
    if let Model::Transformer(config) = model {
        return hugging_face::read_weights(path, bytes, config);
    }
    let (mut tensors, _) = from_bytes(path, bytes)?;
    let bad = |why: String| Error::checkpoint(path, why);
    let parameters = model.parameters();
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

/// Checks that a new folder can be created without overwriting anything.
///
/// # Errors
/// Returns [`Error::Io`] (already exists) for a file or for a folder that is not empty.
pub fn free_for(folder: &Path) -> Result<()> {
    at(folder, reticent_disk::refuse_alias(folder))?;
    if matches!(state::is_free(folder), Ok(true)) {
        return Ok(());
    }
    let taken = "already there, and not an empty folder";
    let taken = std::io::Error::new(std::io::ErrorKind::AlreadyExists, taken);
    at(folder, Err(taken))
}

//! Values of arguments.

use crate::contract::{counted, read_json, toml_line, toml_with_counts, without_content};
use anyhow::{Context, Error, Result, anyhow};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use reticent_backends::trainer::Precision;
use reticent_corpus::policy::{
    DetectorOptions, Level, Names, OnnxOptions, PolicyChoice, threshold,
};
use reticent_corpus::tokenize::{Origin, Tokenizer};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Parses the precision of products in training passes by its name.
pub fn precision() -> impl TypedValueParser<Value = Precision> {
    PossibleValuesParser::new([
        PossibleValue::new("single").help("32 bits"),
        PossibleValue::new("bf16").help("16 bits with the range of 32, on CUDA"),
    ])
    .map(|name| match name.as_str() {
        "bf16" => Precision::Bf16,
        _ => Precision::Single,
    })
}

/// The model to train.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ModelArg {
    /// The papers' one-layer LSTM, freshly drawn.
    #[default]
    Lstm,
    /// A GPT-2, freshly drawn.
    Gpt2,
    /// A BERT, freshly drawn.
    Bert,
    /// A Hugging Face folder, or a checkpoint of ours, to start from.
    Folder(PathBuf),
}

impl FromStr for ModelArg {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "lstm" => Ok(Self::Lstm),
            "gpt2" => Ok(Self::Gpt2),
            "bert" => Ok(Self::Bert),
            "" => Err("must be lstm, gpt2, bert or a folder, got nothing".into()),
            _ if text.contains(['/', '\\', '.']) || std::path::Path::new(text).is_dir() => {
                Ok(Self::Folder(text.into()))
            }
            _ => Err(format!(
                "must be lstm, gpt2, bert or a folder that is there, got {text:?}"
            )),
        }
    }
}

impl std::fmt::Display for ModelArg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lstm => f.write_str("lstm"),
            Self::Gpt2 => f.write_str("gpt2"),
            Self::Bert => f.write_str("bert"),
            Self::Folder(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A redaction policy: by name, a token classifier, or the patterns of a file.
#[derive(Debug, Clone, PartialEq)]
pub enum PolicyArg {
    /// One that ships, with its name.
    Named(&'static str, PolicyChoice),
    /// The user's own token classifier.
    Onnx(OnnxArg),
    /// A file: a composed policy in TOML or JSON, or a JSON list of `{"kind", "pattern"}`.
    File(PathBuf),
}

/// Returns the policies that ship, with their names.
fn shipped() -> [(&'static str, PolicyChoice); 10] {
    let level = |level| PolicyChoice::Level { level, least: 0.5 };
    [
        ("general", PolicyChoice::General),
        ("customers", PolicyChoice::Customers),
        ("gold", PolicyChoice::Gold),
        ("nothing", PolicyChoice::Nothing),
        (
            "detectors",
            PolicyChoice::Detectors(DetectorOptions::default()),
        ),
        (
            "names",
            PolicyChoice::Names {
                least: Names::LEAST,
            },
        ),
        ("low-entity", level(Level::LowEntity)),
        ("high-entity", level(Level::HighEntity)),
        ("low-contextual", level(Level::LowContextual)),
        ("high-contextual", level(Level::HighContextual)),
    ]
}

impl FromStr for PolicyArg {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = shipped().into_iter();
        if let Some((name, choice)) = all.find(|(name, _)| *name == text) {
            Ok(Self::Named(name, choice))
        } else if text.starts_with(ONNX) {
            text.parse().map(Self::Onnx)
        } else if text.ends_with(".json") || text.ends_with(".toml") {
            Ok(Self::File(text.into()))
        } else {
            Err(format!(
                "must be {}, onnx:FOLDER[@THRESHOLD] or a .json or .toml file, got {text:?}",
                shipped().map(|(name, _)| name).join(", ")
            ))
        }
    }
}

impl PolicyArg {
    /// Returns the file from which the policy is read, if any.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            _ => None,
        }
    }

    /// Returns the policy as data; reads the file, if there is one.
    ///
    /// # Errors
    /// Returns an error if a file can't be read or is not a policy.
    pub fn choice(&self) -> Result<PolicyChoice> {
        Ok(match self {
            Self::Named(_, choice) => choice.clone(),
            Self::Onnx(onnx) => PolicyChoice::Onnx(onnx.options(Names::LEAST)?),
            Self::File(path) => from_file(path)?.pinned()?,
        })
    }
}

impl std::fmt::Display for PolicyArg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Named(name, _) => f.write_str(name),
            Self::Onnx(onnx) => match onnx.least {
                Some(least) => write!(f, "{ONNX}{}@{least}", onnx.folder.display()),
                None => write!(f, "{ONNX}{}", onnx.folder.display()),
            },
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

const ONNX: &str = "onnx:";

/// `onnx:FOLDER[@THRESHOLD]`: a folder of `model.onnx`, `config.json` and `tokenizer.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct OnnxArg {
    /// The folder.
    pub folder: PathBuf,
    /// The score that a word needs, if given.
    pub least: Option<f32>,
}

impl FromStr for OnnxArg {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix(ONNX).unwrap_or(text);
        // A folder's name may contain an @, but not one followed by a number.
        let (folder, least) = match rest.rsplit_once('@') {
            Some((folder, number)) => match number.parse::<f32>() {
                Ok(least) => (folder, Some(threshold(least).map_err(|e| e.to_string())?)),
                Err(_) => (rest, None),
            },
            None => (rest, None),
        };
        if folder.is_empty() {
            return Err(format!("must be onnx:FOLDER[@THRESHOLD], got {text:?}"));
        }
        Ok(Self {
            folder: folder.into(),
            least,
        })
    }
}

impl OnnxArg {
    /// Returns the options for the model that is now in the folder, with this threshold if none was
    /// given.
    ///
    /// # Errors
    /// Returns an error if the folder can't be loaded.
    pub fn options(&self, least: f32) -> Result<OnnxOptions> {
        let options = OnnxOptions {
            folder: self.folder.clone(),
            least: self.least.unwrap_or(least),
            sha256: None,
        };
        #[cfg(feature = "onnx")]
        let model = reticent_corpus::TokenClassifier::load(&self.folder)?;
        #[cfg(feature = "onnx")]
        if let Some(why) = model.unconfined() {
            crate::contract::note(&format!("{ONNX}{}: {why}", self.folder.display()));
        }
        Ok(options.pinned()?)
    }
}

/// Reads a list of patterns or a composed policy.
fn from_file(path: &Path) -> Result<PolicyChoice> {
    let text = crate::contract::read_named_text(path)?;
    if path
        .extension()
        .is_some_and(|extension| extension == "toml")
    {
        let text = toml_with_counts(&text);
        return toml::from_str(&text).map_err(|error| {
            if let Ok(Err(Some(why))) = toml::from_str(&text).map(counted::<PolicyChoice>) {
                return anyhow!("{}: {why}", path.display());
            }
            let line = toml_line(&text, &error);
            let why = without_content(error.message());
            anyhow!("{}, line {line}: {why}", path.display())
        });
    }
    if text.trim_start().starts_with('{') {
        return read_json(&text).map_err(|why| anyhow!("{}: {why}", path.display()));
    }
    let rules = read_json(&text).map_err(Error::msg).with_context(|| {
        format!(
            "{} is not a list of {{\"kind\", \"pattern\"}}",
            path.display()
        )
    })?;
    Ok(PolicyChoice::Patterns { rules })
}

/// A tokenizer by name, or a `tokenizer.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenizerArg {
    /// A fixed alphabet of characters.
    Characters,
    /// All 256 bytes.
    Bytes,
    /// A file in Hugging Face's format.
    File(PathBuf),
}

impl TokenizerArg {
    /// Loads the tokenizer.
    ///
    /// # Errors
    /// Returns an error if the file is not a tokenizer.
    pub fn load(&self) -> reticent_corpus::Result<Tokenizer> {
        match self {
            Self::Characters => Ok(Tokenizer::characters()),
            Self::Bytes => Ok(Tokenizer::bytes()),
            Self::File(path) => Tokenizer::load(path, Origin::Pretrained),
        }
    }
}

impl FromStr for TokenizerArg {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "characters" => Ok(Self::Characters),
            "bytes" => Ok(Self::Bytes),
            _ if text.ends_with(".json") => Ok(Self::File(text.into())),
            _ => Err(format!(
                "must be characters, bytes or a tokenizer.json, got {text:?}"
            )),
        }
    }
}

/// A sign by which the conservative policy flags a record.
#[derive(Debug, Clone, PartialEq)]
pub enum ConservativeSign {
    /// A digit.
    Digits,
    /// A capitalised word inside a sentence.
    Capitals,
    /// A word that the tagger may take for part of a name, with a certainty of at least a tenth.
    Names,
    /// Any span that the redaction policy finds, before simulated misses.
    Policy,
    /// A span that the user's own token classifier finds, with a certainty of at least a tenth.
    Onnx(OnnxArg),
}

impl FromStr for ConservativeSign {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "digits" => Ok(Self::Digits),
            "capitals" => Ok(Self::Capitals),
            "names" => Ok(Self::Names),
            "policy" => Ok(Self::Policy),
            _ if text.starts_with(ONNX) => text.parse().map(Self::Onnx),
            _ => Err(format!(
                "must be digits, capitals, names, policy or onnx:FOLDER[@THRESHOLD], got {text:?}"
            )),
        }
    }
}

//! Values of arguments.

use clap::ValueEnum;
use std::path::PathBuf;
use std::str::FromStr;

/// How a model is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Recipe {
    /// Ordinary training on everything; ε is infinite.
    Sgd,
    /// DP-SGD on everything.
    Dpsgd,
    /// Ordinary training on the public side, DP-SGD on the private side, in turns.
    Crt,
}

impl Recipe {
    /// Whether any of its steps adds noise.
    #[must_use]
    pub const fn is_private(self) -> bool {
        matches!(self, Self::Dpsgd | Self::Crt)
    }
}

/// Where a model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceArg {
    /// The processor, all cores.
    #[default]
    Cpu,
    /// A CUDA device by number.
    Cuda(usize),
}

impl FromStr for DeviceArg {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            _ => text
                .strip_prefix("cuda:")
                .and_then(|number| number.parse().ok())
                .map(Self::Cuda)
                .ok_or_else(|| format!("must be cpu or cuda:NUMBER, got {text:?}")),
        }
    }
}

impl std::fmt::Display for DeviceArg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

#[cfg(feature = "audit")]
impl From<DeviceArg> for reticent_backends::Device {
    fn from(device: DeviceArg) -> Self {
        match device {
            DeviceArg::Cpu => Self::Cpu,
            DeviceArg::Cuda(number) => Self::Cuda(number),
        }
    }
}

/// What to train.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ModelArg {
    /// The papers' one-layer LSTM, freshly drawn.
    #[default]
    Lstm,
}

/// A redaction policy by name, or the patterns of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyArg {
    /// Patterns for customer-service dialogues.
    Customers,
    /// The secrets marked in the documents.
    Gold,
    /// Nothing is masked.
    Nothing,
    /// Patterns from a JSON file: a list of `{"kind", "pattern"}`.
    File(PathBuf),
}

impl FromStr for PolicyArg {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "customers" | "regex" => Ok(Self::Customers),
            "gold" => Ok(Self::Gold),
            "nothing" => Ok(Self::Nothing),
            _ if text.ends_with(".json") => Ok(Self::File(text.into())),
            _ => Err(format!(
                "must be customers, gold, nothing or a .json file of patterns, got {text:?}"
            )),
        }
    }
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

/// What makes the conservative policy flag a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ConservativeSign {
    /// A digit.
    Digits,
    /// A capitalised word inside a sentence.
    Capitals,
    /// Whatever the redaction policy finds, before simulated misses.
    Policy,
}

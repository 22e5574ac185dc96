//! Policies as data, for options and files.

use super::compose::{AtLeast, Threshold};
use super::detect::{DetectorOptions, Detectors, IDENTIFYING};
use super::dictionary::{Dictionary, DictionaryOptions};
use super::general::General;
use super::levels::{LIKELY, Level, Levels};
use super::names::Names;
use super::patterns::{PatternRule, Patterns};
use super::{Gold, Policy};
use crate::error::{Result, range};
use crate::random::sha256;
use crate::tagger::TaggerModel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

/// Which redaction policy.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum PolicyChoice {
    /// Finds nothing.
    Nothing,
    /// Finds the marked secrets of the documents.
    Gold,
    /// Identifiers, names, street addresses and dates found with confidence 0.9 or more, in ordinary text.
    General,
    /// Patterns for customer-service dialogues.
    #[default]
    Customers,
    /// Patterns of the user's own.
    Patterns {
        /// The patterns.
        rules: Vec<PatternRule>,
    },
    /// Validated patterns of identifiers, numbers and times.
    Detectors(DetectorOptions),
    /// A list of words.
    Dictionary(DictionaryOptions),
    /// One of JFT's levels, with the tagger that ships.
    Level {
        /// Which.
        level: Level,
        /// The score that the tagger's words need, from 0.02 to 1, or 0, which stands for 0.02.
        #[serde(default = "likely")]
        least: f32,
    },
    /// Names, by the tagger that ships.
    Names {
        /// The score a word needs, from 0.02 to 1, or 0, which stands for 0.02. Low ones make a conservative policy.
        #[serde(default = "names_least")]
        least: f32,
    },
    /// A token classifier of the user's own (feature `onnx`).
    Onnx(OnnxOptions),
    /// What any of these policies finds.
    Any {
        /// The policies.
        of: Vec<PolicyChoice>,
    },
    /// What all of these policies find, byte by byte.
    All {
        /// The policies.
        of: Vec<PolicyChoice>,
    },
    /// What so many of these policies find, byte by byte.
    AtLeast {
        /// From 1 to their number.
        count: usize,
        /// The policies.
        of: Vec<PolicyChoice>,
    },
    /// The spans of a policy that score at least so much.
    Threshold {
        /// From 0 to 1.
        least: f32,
        /// The policy.
        of: Box<PolicyChoice>,
    },
}

/// A token classifier in ONNX's format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnnxOptions {
    /// Folder of `model.onnx`, `config.json` and `tokenizer.json`.
    pub folder: PathBuf,
    /// The probability of being part of an entity that a word needs, from 0.02 to 1, or 0, which stands for 0.02. Low
    /// ones make a conservative policy.
    #[serde(default = "names_least")]
    pub least: f32,
    /// SHA-256 of the folder's files, in hexadecimal: another model is refused. Without it any
    /// is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl OnnxOptions {
    /// Pins the options to the model that is currently in the folder.
    ///
    /// # Errors
    /// Returns an error if the folder does not load, or the build lacks the feature `onnx`.
    pub fn pinned(self) -> Result<Self> {
        #[cfg(feature = "onnx")]
        {
            let model = crate::onnx::TokenClassifier::load(&self.folder)?;
            Ok(Self {
                sha256: Some(model.digest().to_owned()),
                ..self
            })
        }
        #[cfg(not(feature = "onnx"))]
        Err(no_models(&self))
    }

    #[cfg(feature = "onnx")]
    fn build(&self) -> Result<Arc<dyn Policy>> {
        let model = crate::onnx::TokenClassifier::load(&self.folder)?;
        if let Some(sha256) = &self.sha256
            && *sha256 != model.digest()
        {
            return Err(crate::error::Error::Classifier {
                path: self.folder.clone(),
                problem: format!(
                    "another model than before: the SHA-256 of its files is {}, not {sha256}",
                    model.digest()
                ),
            });
        }
        Ok(Arc::new(crate::onnx::Classified::new(model, self.least)?))
    }

    #[cfg(not(feature = "onnx"))]
    fn build(&self) -> Result<Arc<dyn Policy>> {
        Err(no_models(self))
    }
}

#[cfg(not(feature = "onnx"))]
fn no_models(options: &OnnxOptions) -> crate::error::Error {
    crate::error::Error::Classifier {
        path: options.folder.clone(),
        problem: "this build runs no ONNX models; build with the feature onnx".to_owned(),
    }
}

fn likely() -> f32 {
    LIKELY
}

fn names_least() -> f32 {
    Names::LEAST
}

/// The deepest nesting of policies, also in files.
const DEEPEST: usize = 16;

impl PolicyChoice {
    /// Builds the policy.
    ///
    /// # Errors
    /// Returns an error if a kind has no name, a pattern does not compile, a number is outside its range, a list of policies
    /// or words is empty, or policies are nested more than 16 deep.
    pub fn build(&self) -> Result<Arc<dyn Policy>> {
        self.build_below(DEEPEST)
    }

    /// Returns the policy with every threshold at 0: it accepts the slightest indication of what it looks for, which is
    /// [`LEAST_SCORE`] of the tagger and of token classifiers. What levels find by grammar and lists is certain.
    ///
    /// [`LEAST_SCORE`]: super::LEAST_SCORE
    #[must_use]
    pub fn loosened(&self) -> Self {
        let mut loosened = match self {
            Self::General => {
                let kinds = IDENTIFYING.iter().chain(&["date"]);
                let detectors = DetectorOptions {
                    kinds: kinds.map(|kind| (*kind).to_owned()).collect(),
                    least: 0.0,
                    ..DetectorOptions::default()
                };
                let names = Self::Names { least: 0.0 };
                let of = vec![Self::General, names, Self::Detectors(detectors)];
                return Self::Any { of };
            }
            Self::Threshold { of, .. } => return of.loosened(),
            other => other.clone(),
        };
        if let Self::Level { least, .. }
        | Self::Names { least }
        | Self::Detectors(DetectorOptions { least, .. })
        | Self::Onnx(OnnxOptions { least, .. }) = &mut loosened
        {
            *least = 0.0;
        }
        for one in loosened.inside() {
            *one = one.loosened();
        }
        loosened
    }

    /// Returns the policies inside this one.
    fn inside(&mut self) -> &mut [Self] {
        match self {
            Self::Any { of } | Self::All { of } | Self::AtLeast { of, .. } => of,
            Self::Threshold { of, .. } => std::slice::from_mut(of.as_mut()),
            _ => &mut [],
        }
    }

    /// Returns the policy with every token classifier pinned to its current model. A classifier that is already pinned
    /// is left unchanged.
    ///
    /// # Errors
    /// Returns an error if a folder does not load.
    pub fn pinned(self) -> Result<Self> {
        self.with_classifiers(&|options: OnnxOptions| {
            if options.sha256.is_some() {
                Ok(options)
            } else {
                options.pinned()
            }
        })
    }

    /// Returns the policy with the options of every token classifier replaced.
    pub(crate) fn with_classifiers(
        mut self,
        of_one: &dyn Fn(OnnxOptions) -> Result<OnnxOptions>,
    ) -> Result<Self> {
        if let Self::Onnx(options) = &mut self {
            *options = of_one(options.clone())?;
        }
        for one in self.inside() {
            *one = one.clone().with_classifiers(of_one)?;
        }
        Ok(self)
    }

    /// Returns the SHA-256 of the policy as data, in hexadecimal: its patterns, words and thresholds, and the digest of
    /// the files of each pinned token classifier. The digest identifies a policy in a report without revealing the
    /// words that it looks for.
    ///
    /// ```
    /// use reticent_corpus::policy::PolicyChoice;
    /// let names = |least| PolicyChoice::Names { least };
    /// assert_eq!(names(0.5).sha256(), names(0.5).sha256());
    /// assert_ne!(names(0.5).sha256(), names(0.6).sha256());
    /// ```
    #[must_use]
    pub fn sha256(&self) -> String {
        // Such data can always be serialised as JSON.
        sha256(&serde_json::to_vec(self).unwrap_or_default())
    }

    fn build_below(&self, depth: usize) -> Result<Arc<dyn Policy>> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(range(
                "the depth of policies inside policies",
                DEEPEST + 1,
                format!("at most {DEEPEST}"),
            ));
        };
        let each = |of: &[Self]| -> Result<Vec<Arc<dyn Policy>>> {
            of.iter().map(|policy| policy.build_below(depth)).collect()
        };
        Ok(match self {
            Self::Nothing => Arc::new(Patterns::new("nothing", &[])?),
            Self::Gold => Arc::new(Gold),
            Self::General => Arc::new(General::new()?),
            Self::Customers => Arc::new(Patterns::customers()?),
            Self::Patterns { rules } => Arc::new(Patterns::new("patterns", rules)?),
            Self::Detectors(options) => Arc::new(Detectors::new(options)?),
            Self::Dictionary(options) => Arc::new(Dictionary::new(options)?),
            Self::Level { level, least } => {
                Arc::new(Levels::new(*level, Some(TaggerModel::shipped()?))?.at_least(*least)?)
            }
            Self::Names { least } => Arc::new(Names::new(TaggerModel::shipped()?, *least)?),
            Self::Onnx(options) => options.build()?,
            Self::Any { of } => Arc::new(AtLeast::new(each(of)?, 1)?),
            Self::All { of } => Arc::new(AtLeast::new(each(of)?, of.len())?),
            Self::AtLeast { count, of } => Arc::new(AtLeast::new(each(of)?, *count)?),
            Self::Threshold { least, of } => {
                Arc::new(Threshold::new(of.build_below(depth)?, *least)?)
            }
        })
    }
}

/// A redaction policy with a simulated error rate.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PolicyOptions {
    /// The policy.
    pub policy: PolicyChoice,
    /// γ: it misses exactly round(γ·m) of the m distinct strings it finds. From 0 to 1.
    pub miss_rate: f64,
    /// Share of the other words it masks as well. From 0 to 1.
    pub false_positive_rate: f64,
    /// Seed of both.
    pub seed: u64,
}

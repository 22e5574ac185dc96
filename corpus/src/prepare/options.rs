//! The options of a preparation.

use super::stability::StageStability;
use crate::answers::LossOn;
use crate::canary::CanaryOptions;
use crate::dedup::Deduplication;
use crate::error::{Error, Result, range, within};
use crate::labels::Labels;
use crate::policy::{ConservativeOptions, OnnxOptions, PolicyOptions};
use crate::tokenize::{Origin, Tokenizer};
use crate::unit::Unit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Which tokenizer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum TokenizerChoice {
    /// [`Tokenizer::bytes`].
    Bytes,
    /// [`Tokenizer::characters`].
    #[default]
    Characters,
    /// A `tokenizer.json`.
    File {
        /// The file.
        path: PathBuf,
        /// Where its vocabulary comes from.
        origin: Origin,
    },
}

impl TokenizerChoice {
    /// Builds the tokenizer.
    ///
    /// # Errors
    /// Returns an error if a file cannot be loaded.
    pub fn build(&self) -> Result<Tokenizer> {
        match self {
            Self::Bytes => Ok(Tokenizer::bytes()),
            Self::Characters => Ok(Tokenizer::characters()),
            Self::File { path, origin } => Tokenizer::load(path, *origin),
        }
    }
}

/// What the policies see of planted canaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CanarySight {
    /// As much as of any other text.
    Ordinary,
    /// The redaction policy does not see the lines with a canary; the conservative one does.
    #[default]
    MissedByPolicy,
    /// Neither policy sees them: where every record would be flagged, theirs are not.
    MissedByBoth,
}

/// What a preparation is asked to do. The default: turns, characters, deduplication, the
/// customer-service patterns, everything private, nothing held out, no canaries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PrepareOptions {
    /// What one record is.
    pub unit: Unit,
    /// The tokenizer.
    pub tokenizer: TokenizerChoice,
    /// Whether later copies of a unit become a single `<MASK>`.
    pub deduplicate: bool,
    /// How duplicates are recognised.
    pub duplicates: Deduplication,
    /// Whether the policy's spans become `<MASK>`.
    pub redact: bool,
    /// The redaction policy π.
    pub policy: PolicyOptions,
    /// The conservative policy π_c; none means that every record is private.
    pub conservative: Option<ConservativeOptions>,
    /// Canaries to plant in the training documents.
    pub canaries: Option<CanaryOptions>,
    /// What the policies see of them.
    pub canary_sight: CanarySight,
    /// Longest record in tokens, specials included; what is longer is cut off, and then has
    /// no end of text. At least 3.
    pub max_tokens: Option<usize>,
    /// Share of the documents held out, in [0, 1): drawn by number, whatever is in them.
    pub held_out: f64,
    /// Seed of the share held out.
    pub seed: u64,
    /// The classes of documents, which records keep; none where they have no class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
    /// Whose messages carry loss; all text does where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_on: Option<LossOn>,
}

impl Default for PrepareOptions {
    fn default() -> Self {
        Self {
            unit: Unit::Turn,
            tokenizer: TokenizerChoice::default(),
            deduplicate: true,
            duplicates: Deduplication::Exact,
            redact: true,
            policy: PolicyOptions::default(),
            conservative: None,
            canaries: None,
            canary_sight: CanarySight::default(),
            max_tokens: None,
            held_out: 0.0,
            seed: 0,
            labels: None,
            loss_on: None,
        }
    }
}

impl PrepareOptions {
    /// Returns the options with their relative paths continued from a folder, for a process that may run elsewhere.
    pub(super) fn placed_in(&self, folder: &Path) -> Result<Self> {
        let classifier = |options: OnnxOptions| -> Result<OnnxOptions> {
            Ok(OnnxOptions {
                folder: folder.join(&options.folder),
                ..options
            })
        };
        let mut out = self.clone();
        if let TokenizerChoice::File { path, .. } = &mut out.tokenizer {
            *path = folder.join(&*path);
        }
        out.policy.policy = out.policy.policy.with_classifiers(&classifier)?;
        if let Some(conservative) = &mut out.conservative {
            conservative.onnx = conservative.onnx.take().map(classifier).transpose()?;
        }
        Ok(out)
    }

    /// Returns the stages of a preparation of so many units with these options. `masked_input`: whether spans of them were
    /// masked beforehand.
    pub(super) fn stages(&self, masked_input: bool, units: u64) -> Vec<StageStability> {
        let units = usize::try_from(units).unwrap_or(usize::MAX);
        let method = self.deduplicate.then_some(&self.duplicates);
        StageStability::of(method, self.max_tokens.is_some(), masked_input, units)
    }

    /// Whether some choice is drawn over all documents, so that it is another one where one of them is absent: which are
    /// held out, and where canaries are planted. No stability counts that.
    #[must_use]
    pub const fn draws(&self) -> bool {
        self.held_out > 0.0 || self.canaries.is_some()
    }

    /// Checks every number against its range.
    ///
    /// # Errors
    /// Returns an error if the share held out is outside [0, 1), a rate is outside [0, 1], or the
    /// record length is below 3.
    pub fn validate(&self) -> Result<()> {
        if !(0.0..1.0).contains(&self.held_out) {
            return Err(range(
                "the share of documents held out",
                self.held_out,
                "at least 0 and below 1",
            ));
        }
        self.duplicates.validate()?;
        if let Some(labels) = &self.labels {
            labels.validate()?;
            if self.unit == Unit::User {
                return Err(Error::Labels(
                    "the documents of a user have no one class: the unit must be turn, sentence, dialogue or document".into(),
                ));
            }
        }
        if self.loss_on.is_some() {
            if self.labels.is_some() {
                return Err(Error::Answers(
                    "a record with a class has one loss, that of its class",
                ));
            }
            if matches!(self.unit, Unit::Turn | Unit::Sentence) {
                return Err(Error::Answers(
                    "the unit must be document, dialogue or user: lines are cut out of their conversation",
                ));
            }
        }
        let PolicyOptions {
            miss_rate,
            false_positive_rate,
            ..
        } = self.policy;
        within("the miss rate", miss_rate, 0.0..=1.0)?;
        within("the false-positive rate", false_positive_rate, 0.0..=1.0)?;
        match self.max_tokens {
            Some(length) if length < 3 => {
                Err(range("the longest record in tokens", length, "at least 3"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::PolicyChoice;

    #[test]
    fn relative_paths_begin_in_a_folder() {
        let onnx = |folder: &str| OnnxOptions {
            folder: folder.into(),
            least: 0.5,
            sha256: None,
        };
        let options = |tokenizer: &str, inner: &str, outer: &str| PrepareOptions {
            tokenizer: TokenizerChoice::File {
                path: tokenizer.into(),
                origin: Origin::DeclaredPublic,
            },
            policy: PolicyOptions {
                policy: PolicyChoice::Any {
                    of: vec![
                        PolicyChoice::Gold,
                        PolicyChoice::Threshold {
                            least: 0.1,
                            of: Box::new(PolicyChoice::Onnx(onnx(inner))),
                        },
                    ],
                },
                ..PolicyOptions::default()
            },
            conservative: Some(ConservativeOptions {
                onnx: Some(onnx(outer)),
                ..ConservativeOptions::default()
            }),
            ..PrepareOptions::default()
        };
        let placed = options("t.json", "models/m", "/n").placed_in(Path::new("/a"));
        assert_eq!(placed.unwrap(), options("/a/t.json", "/a/models/m", "/n"));
    }
}

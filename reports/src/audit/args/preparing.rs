//! Arguments for how a corpus is prepared, shared by `audit prepare` and `audit neighbours`.

use crate::audit::args::{ConservativeSign, PolicyArg, TokenizerArg};
use crate::audit::classify::numbered;
use crate::contract::{number_within, quantity};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use reticent_accounting::{MissRate, Probability};
use reticent_corpus::canary::{CanaryFormat, CanaryOptions, Carriers, Spec};
use reticent_corpus::dedup::Deduplication;
use reticent_corpus::policy::{ConservativeOptions, Names, PolicyOptions};
use reticent_corpus::prepare::{CanarySight, PrepareOptions, TokenizerChoice};
use reticent_corpus::tokenize::Origin;
use reticent_corpus::{Error, Labels, LossOn, Unit};
use std::path::PathBuf;

/// What canaries are, for every command that plants them.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct CanaryArgs {
    /// Numbers of copies assigned to the canaries in turn, for exposure by number of copies; the largest is that of
    /// --canaries.
    #[arg(
        long,
        value_name = "COPIES",
        value_delimiter = ',',
        requires = "canaries"
    )]
    pub doses: Vec<u32>,
    /// Template of a canary; fields: {digits:n}, {letters:n}, {upper:n}, {list:a|b}; {rare:n}, n words in a row from
    /// the 64 one-token words that are rarest in the text, by --tokenizer; {new:n}, n of 64 invented words that do
    /// not occur in it; {sampled:n}, first, a text of n tokens sampled from --sampling-model.
    #[arg(
        long,
        value_name = "TEMPLATE",
        default_value = "My ID is: {digits:6}",
        requires = "canaries"
    )]
    pub canary_format: CanaryFormat,
    /// Public model to sample {sampled:n} from: a checkpoint folder, or a Hugging Face folder.
    #[arg(long, value_name = "DIR", requires = "canaries")]
    pub sampling_model: Option<PathBuf>,
    /// Plant all copies of a canary in one carrier (the words around its secret): they are identical, and deduplication
    /// leaves one.
    #[arg(long, requires = "canaries")]
    pub same_carriers: bool,
    /// Give each canary its own words before its secret: canaries that share a context compete for its top ranks, and
    /// bound epsilon less.
    #[arg(long, requires = "canaries")]
    pub own_carriers: bool,
    /// Allow two canaries to share a secret: each is drawn independently.
    #[arg(long, requires = "canaries")]
    pub independent_secrets: bool,
}

impl CanaryArgs {
    /// Returns the options of the corpus crate; without a seed, the operating system draws one. `sampled`: the texts of
    /// `{sampled:n}`.
    ///
    /// # Errors
    /// Returns an error if the system provides no random numbers.
    pub fn options(
        &self,
        spec: Spec,
        seed: Option<u64>,
        sampled: Vec<String>,
    ) -> Result<CanaryOptions> {
        let options = CanaryOptions {
            doses: self.doses.clone(),
            template: self.canary_format.clone(),
            sampled,
            carriers: if self.same_carriers {
                Carriers::Same
            } else {
                Carriers::Vary
            },
            own_contexts: self.own_carriers,
            distinct: !self.independent_secrets,
            seed: seed.unwrap_or(0),
            ..CanaryOptions::new(spec)
        };
        Ok(match seed {
            Some(_) => options,
            None => options.with_system_seed()?,
        })
    }
}

/// The default of what one record is.
pub(in crate::audit) const DEFAULT_UNIT: &str = "turn";

/// How a corpus is prepared.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct Preparing {
    /// What one record is: turn, sentence, dialogue, document, or user (all of a user's documents, by --user-field).
    #[arg(long, default_value = DEFAULT_UNIT, value_parser = unit)]
    pub unit: Unit,
    /// Key or column with a document's user, for --unit user: one text or whole number, not a list (1.0 is 1, but in CSV
    /// every cell is text); spellings that differ only in case, white space or invisible characters are one user. All
    /// documents are then held in memory.
    #[arg(long, alias = "user-column", value_name = "KEY", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub user_field: Option<String>,
    /// Redaction policy: general (identifiers, names, street addresses, high-confidence dates), customers (patterns
    /// for customer service), detectors (validated patterns), names (by the tagger), low-entity, high-entity,
    /// low-contextual or high-contextual (JFT's levels), gold (the marked secrets), nothing, onnx:FOLDER[@THRESHOLD]
    /// (your own token classifier, with a threshold of 0 or from 0.02 to 1), or a file: a composed policy (.toml or
    /// .json), or a list of patterns (.json).
    #[arg(long, default_value = "general")]
    pub policy: PolicyArg,
    /// Share of secrets that the policy is made to miss, in [0, 1].
    #[arg(long, value_name = "GAMMA", default_value = "0", value_parser = quantity::<MissRate>, allow_negative_numbers = true)]
    pub miss_rate: MissRate,
    /// Share of other words that the policy is made to mask, in [0, 1].
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = quantity::<Probability>, allow_negative_numbers = true)]
    pub false_positive_rate: Probability,
    /// Signs other than a mask that make a record private: digits, capitals (inside a sentence), names (by the
    /// tagger, from a score of 0.1), policy (what the redaction policy finds, before simulated misses),
    /// onnx:FOLDER[@THRESHOLD] (0.1 if absent); without it, every record is private.
    #[arg(long, value_delimiter = ',', value_name = "SIGNS")]
    pub conservative: Vec<ConservativeSign>,
    /// Keep repeated records.
    #[arg(long)]
    pub no_deduplication: bool,
    /// Deduplication method: exact, bloom:BITS per record, near:SIMILARITY (from 0.2 to 1, of the sets of five tokens in a row;
    /// of pairs that are just so similar, one in 1000 may be missed; below 0.5 it takes much longer), or substring:TOKENS.
    /// Only for exact is the stability known on which a promise can rest: the number of records kept that can change with
    /// one record of the text.
    #[arg(long, value_name = "METHOD", default_value = "exact", value_parser = duplicates, conflicts_with = "no_deduplication")]
    pub duplicates: Deduplication,
    /// Mask nothing in the text; the policy still decides what is private.
    #[arg(long)]
    pub no_redaction: bool,
    /// Canaries to plant: number, and copies of each. To include each by a coin flip, run `audit plant --coins`
    /// first.
    #[arg(long, value_name = "MxR")]
    pub canaries: Option<Spec>,
    /// What the canaries are.
    #[command(flatten)]
    pub shape: CanaryArgs,
    /// How the policies treat the canaries: ordinary, missed-by-policy or missed-by-both.
    #[arg(long, value_name = "SIGHT", default_value = "missed-by-policy", value_parser = sight, requires = "canaries")]
    pub canary_sight: CanarySight,
    /// Share of the canaries that the policy catches, in [0, 1], rounded to whole canaries: these are drawn with the
    /// canaries, stated in the plan, and masked in every copy. Exposure over it is an experiment.
    #[arg(long, value_name = "R", default_value = "0", value_parser = quantity::<Probability>, requires = "canaries", allow_negative_numbers = true)]
    pub canary_recall: Probability,
    /// Tokenizer: characters, bytes, or a tokenizer.json.
    #[arg(long, default_value = "characters")]
    pub tokenizer: TokenizerArg,
    /// Origin of the vocabulary of a tokenizer.json: pretrained, declared-public or leaks.
    #[arg(long, value_name = "ORIGIN", value_parser = origin)]
    pub vocabulary: Option<Origin>,
    /// Key or column of a document's class, which each of its records inherits; `audit train` then trains a
    /// classifier. No policy redacts it. Not with --unit user.
    #[arg(long, alias = "label-column", value_name = "KEY", requires = "classes", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub label: Option<String>,
    /// Names of all classes, 2 to 1000, in the order of their numbers. They are declared because the model contains
    /// them: a list derived from the text would reveal what occurs in it.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "label")]
    pub classes: Vec<String>,
    /// Role whose messages carry loss; the others are context only: assistant, as in transformers'
    /// return_assistant_tokens_mask and TRL's assistant_only_loss. They are the {% generation %} blocks of
    /// --chat-template; a template without such blocks must render the beginning of a conversation as in the whole. Of
    /// a pair, which no template changes, the completion or output carries it. Planted canaries carry loss.
    #[arg(long, value_name = "WHO", value_parser = loss_on, conflicts_with_all = ["label", "classes", "text_field"])]
    pub loss_on: Option<LossOn>,
    /// Maximum record length in tokens, at least 3; longer ones are cut.
    #[arg(long, value_name = "N", value_parser = record_tokens)]
    pub max_tokens: Option<u64>,
    /// Share of documents held out, in [0, 1).
    #[arg(long, value_name = "SHARE", default_value = "0.1", value_parser = held_out, allow_negative_numbers = true)]
    pub held_out: Probability,
    /// Seed of what is held out, missed and planted. Without it, the operating system draws the canaries, and the
    /// rest uses 0; anyone who knows it can redraw the canaries.
    #[arg(long, value_name = "SEED")]
    pub seed: Option<u64>,
}

impl Preparing {
    /// Returns the options of the corpus crate; reads the pattern file, if there is one. `sampled`: the texts of
    /// `{sampled:n}`.
    ///
    /// # Errors
    /// Returns an error if a pattern file can't be read, a tokenizer.json has no origin, or the options themselves are
    /// refused.
    pub fn options(&self, sampled: Vec<String>) -> Result<PrepareOptions> {
        match (&self.user_field, self.unit) {
            (None, Unit::User) => {
                bail!("--unit user: needs --user-field KEY, which says whose a document is")
            }
            (Some(_), unit) if unit != Unit::User => {
                bail!("--user-field: only with --unit user, got --unit {unit}")
            }
            _ => {}
        }
        let seed = self.seed.unwrap_or(0);
        let canaries = self
            .canaries
            .map(|spec| self.shape.options(spec, self.seed, sampled));
        let recall = self.canary_recall.get();
        if recall > 0.0 && self.no_redaction {
            bail!("--canary-recall: nothing is masked with --no-redaction, got {recall}");
        }
        let canaries = canaries.transpose()?.map(|options| CanaryOptions {
            caught: (recall * f64::from(options.spec.canaries())).round() as u32,
            ..options
        });
        let options = PrepareOptions {
            unit: self.unit,
            tokenizer: self.tokenizer()?,
            deduplicate: !self.no_deduplication,
            duplicates: self.duplicates,
            redact: !self.no_redaction,
            policy: PolicyOptions {
                policy: self.policy.choice().context("--policy")?,
                miss_rate: self.miss_rate.get(),
                false_positive_rate: self.false_positive_rate.get(),
                seed,
            },
            conservative: conservative(&self.conservative)?,
            canaries,
            canary_sight: self.canary_sight,
            max_tokens: self
                .max_tokens
                .map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
            held_out: self.held_out.get(),
            seed,
            labels: self.labels()?,
            loss_on: self.loss_on,
        };
        options.validate().map_err(|error| {
            let about = match error {
                Error::Answers(_) => "--loss-on",
                _ => "audit prepare",
            };
            anyhow::Error::from(error).context(about)
        })?;
        Ok(options)
    }

    /// Returns the classes of documents, if they were asked for.
    ///
    /// # Errors
    /// Returns an error for names that are not valid for classes.
    pub fn labels(&self) -> Result<Option<Labels>> {
        let labels = |field| {
            let nameless = (0..)
                .zip(&self.classes)
                .all(|(i, name)| *name == numbered(i));
            ensure!(
                !nameless || self.classes.is_empty(),
                "--classes: LABEL_0, LABEL_1, … are the names of classes without one in a model's folder; give others"
            );
            Labels::new(field, &self.classes).context("--classes")
        };
        self.label.as_ref().map(labels).transpose()
    }

    fn tokenizer(&self) -> Result<TokenizerChoice> {
        match (&self.tokenizer, self.vocabulary) {
            (TokenizerArg::Characters, None) => Ok(TokenizerChoice::Characters),
            (TokenizerArg::Bytes, None) => Ok(TokenizerChoice::Bytes),
            (TokenizerArg::File(path), Some(origin)) => Ok(TokenizerChoice::File {
                path: path.clone(),
                origin,
            }),
            (TokenizerArg::File(path), None) => bail!(
                "--vocabulary: must say where the vocabulary of {} comes from: pretrained, declared-public or leaks",
                path.display()
            ),
            (_, Some(_)) => bail!("--vocabulary: applies only to a tokenizer.json"),
        }
    }
}

/// Returns the conservative policy of these signs; `None` if there are none.
///
/// # Errors
/// Returns an error if there are several token classifiers, or one can't be loaded.
pub(in crate::audit) fn conservative(
    signs: &[ConservativeSign],
) -> Result<Option<ConservativeOptions>> {
    if signs.is_empty() {
        return Ok(None);
    }
    let has = |sign| signs.contains(&sign);
    let mut models = signs.iter().filter_map(|sign| match sign {
        ConservativeSign::Onnx(onnx) => Some(onnx),
        _ => None,
    });
    let onnx = models
        .next()
        .map(|onnx| onnx.options(Names::CONSERVATIVE).context("--conservative"))
        .transpose()?;
    if models.next().is_some() {
        bail!("--conservative: one token classifier at most");
    }
    Ok(Some(ConservativeOptions {
        digits: has(ConservativeSign::Digits),
        capitals: has(ConservativeSign::Capitals),
        names: has(ConservativeSign::Names).then_some(Names::CONSERVATIVE),
        policy: has(ConservativeSign::Policy),
        onnx,
        patterns: Vec::new(),
    }))
}

/// Parses a value of a closed list by its name in JSON files.
pub(in crate::audit) fn named<T: serde::de::DeserializeOwned>(
    text: &str,
    allowed: &str,
) -> Result<T, String> {
    serde_json::from_value(serde_json::Value::String(text.to_owned()))
        .map_err(|_| format!("must be one of {allowed}, got {text:?}"))
}
pub(in crate::audit) fn unit(text: &str) -> Result<Unit, String> {
    named(text, "turn, sentence, dialogue, document, user")
}
/// Parses what one document can be cut into.
pub(in crate::audit) fn unit_of_document(text: &str) -> Result<Unit, String> {
    let allowed = "turn, sentence, dialogue, document";
    match named(text, allowed)? {
        Unit::User => Err(format!("must be one of {allowed}, got {text:?}")),
        unit => Ok(unit),
    }
}
/// The bands of the signatures of near-duplicates.
const BANDS: usize = 32;

/// The least similarity, at which bands of one hash bring together all but one in 1000 of the pairs that are just so similar.
const LEAST_SIMILAR: f64 = 0.2;

/// Returns the number of hashes of a band, at most four, with which the bands bring together all but one in 1000 of the
/// pairs that are just so similar. They bring one together with probability 1 − (1 − similarity^rows)^bands; fewer rows also
/// bring together more pairs that are not similar, which takes time.
fn rows(similarity: f64) -> usize {
    let missed = |rows: usize| (1.0 - similarity.powf(rows as f64)).powf(BANDS as f64);
    let several = [4, 3, 2].into_iter().find(|rows| missed(*rows) <= 1e-3);
    several.unwrap_or(1)
}

/// Parses the kind of deduplication. Near duplicates use five tokens a shingle.
fn duplicates(text: &str) -> Result<Deduplication, String> {
    let allowed = "exact, bloom:BITS, near:SIMILARITY, substring:TOKENS";
    let refused = || format!("must be one of {allowed}, got {text:?}");
    let (name, number) = text.split_once(':').unwrap_or((text, ""));
    let method = match name {
        "exact" if number.is_empty() => Deduplication::Exact,
        "bloom" => Deduplication::Bloom {
            bits: number.parse().map_err(|_| refused())?,
        },
        "near" => {
            let similarity: f64 = number.parse().map_err(|_| refused())?;
            if similarity > 0.0 && similarity < LEAST_SIMILAR {
                return Err(format!(
                    "the similarity of near-duplicates must be at least {LEAST_SIMILAR}, got {similarity}: more than one in 1000 less similar pairs would not be compared"
                ));
            }
            Deduplication::Near {
                shingle: 5,
                bands: BANDS,
                rows: rows(similarity),
                similarity,
            }
        }
        "substring" => Deduplication::Substring {
            length: number.parse().map_err(|_| refused())?,
        },
        _ => return Err(refused()),
    };
    method.validate().map_err(|error| error.to_string())?;
    Ok(method)
}
fn held_out(text: &str) -> Result<Probability, String> {
    let share = number_within(text, "a number in [0, 1)", |share| {
        (0.0..1.0).contains(&share)
    })?;
    Probability::new(share).map_err(|error| error.to_string())
}
fn record_tokens(text: &str) -> Result<u64, String> {
    let tokens = text.parse::<u64>().ok().filter(|tokens| *tokens >= 3);
    tokens.ok_or_else(|| format!("must be a whole number in [3, inf), got {text:?}"))
}
fn loss_on(text: &str) -> Result<LossOn, String> {
    named(text, "assistant")
}
fn sight(text: &str) -> Result<CanarySight, String> {
    named(text, "ordinary, missed-by-policy, missed-by-both")
}
fn origin(text: &str) -> Result<Origin, String> {
    match named(text, "pretrained, declared-public, leaks")? {
        origin @ (Origin::Pretrained | Origin::DeclaredPublic | Origin::Leaks) => Ok(origin),
        Origin::Bytes | Origin::Characters => Err(format!(
            "must be one of pretrained, declared-public, leaks, got {text:?}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At every similarity that is accepted, the bands miss at most one in 1000 of the pairs that are just so similar.
    #[test]
    fn near_duplicates_are_brought_together() {
        for (text, expected) in [
            ("near:1", 4),
            ("near:0.8", 4),
            ("near:0.67", 4),
            ("near:0.6", 3),
            ("near:0.5", 2),
            ("near:0.3", 1),
            ("near:0.2", 1),
        ] {
            let found = duplicates(text).unwrap();
            let Deduplication::Near {
                rows,
                bands,
                similarity,
                ..
            } = found
            else {
                panic!("{found:?}");
            };
            assert_eq!(rows, expected, "{text}");
            let apart = 1.0 - similarity.powf(rows as f64);
            assert!(apart.powf(bands as f64) <= 1e-3, "{text}");
        }
        let error = duplicates("near:0.19").unwrap_err();
        assert!(error.contains("at least 0.2, got 0.19"), "{error}");
        for text in ["near:0", "near:-0.5", "near:1.1", "near:NaN"] {
            let error = duplicates(text).unwrap_err();
            assert!(error.contains("above 0 and at most 1"), "{error}");
        }
    }
}

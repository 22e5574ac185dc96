//! What a prepared corpus says about itself: a light reader of `prepared.json`, so that the
//! command needs neither the corpus crate nor a tokenizer.

use anyhow::{Context, Result, bail};
use reticent_accounting::UnitName;
use reticent_accounting::confidentiality::{CorpusFacts, Knowledge, Spread};
use serde::Deserialize;
use std::path::Path;

/// The parts that accounting needs.
#[derive(Debug, Clone, PartialEq)]
pub struct PreparedFacts {
    /// What one record is.
    pub unit: UnitName,
    /// |D_pub|.
    pub public: u64,
    /// |D_pri|, points that are only a mask included.
    pub private: u64,
    /// What became of the secrets; one that ends on the public side counts as missed by both.
    pub secrets: CorpusFacts,
    /// No conservative policy: every record is private.
    pub everything_private: bool,
    /// Whether duplicates were removed.
    pub deduplicated: bool,
    /// Whether the vocabulary was fitted on the private text.
    pub vocabulary_leaks: bool,
    /// Planted secrets, and the most copies of one that are trained on.
    pub canaries: Option<(u64, u64)>,
}

#[derive(Deserialize)]
struct Document {
    schema: u32,
    #[serde(rename = "type")]
    kind: String,
    options: Options,
    facts: Facts,
    stability: Stability,
}

#[derive(Deserialize)]
struct Options {
    deduplicate: bool,
    /// Null where every record is private. An absent key says nothing, so it must be there.
    conservative: serde_json::Value,
}

#[derive(Deserialize)]
struct Facts {
    unit: UnitName,
    vocabulary: Vocabulary,
    public: u64,
    private: u64,
    secrets: Secrets,
    #[serde(default)]
    canaries: Option<Canaries>,
}

/// Where the vocabulary comes from.
#[derive(Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Vocabulary {
    Bytes,
    Characters,
    Pretrained,
    DeclaredPublic,
    Leaks,
}

#[derive(Deserialize)]
struct Secrets {
    source: Source,
    all: Kind,
    most_records: u64,
}

#[derive(Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Source {
    Gold,
    Detected,
}

#[derive(Deserialize)]
struct Kind {
    distinct: u64,
    missed: u64,
    public: u64,
}

#[derive(Deserialize)]
struct Canaries {
    copies: Vec<Copied>,
}

#[derive(Deserialize)]
struct Copied {
    canary: u64,
    fate: Fate,
}

/// What became of a copy of a canary.
#[derive(Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Fate {
    Kept,
    Deduplicated,
    Masked,
    Truncated,
    Lost,
}

#[derive(Deserialize)]
struct Stability {
    all_copies: Factor,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Factor {
    Number(u64),
    Word(String),
}

/// Reads `prepared.json` of a folder.
///
/// # Errors
/// A folder that is none, a file that does not follow `schemas/prepared.schema.json`.
pub fn read(folder: &Path) -> Result<PreparedFacts> {
    let path = folder.join("prepared.json");
    let text = std::fs::read_to_string(&path).with_context(|| {
        format!(
            "{}: a prepared corpus is a folder with prepared.json, as audit prepare writes it",
            path.display()
        )
    })?;
    let document: Document =
        serde_json::from_str(&text).with_context(|| path.display().to_string())?;
    if document.schema != 1 || document.kind != "preparation" {
        bail!(
            "{}: must be a preparation of schema 1, got a {:?} of schema {}",
            path.display(),
            document.kind,
            document.schema
        );
    }
    facts(document).with_context(|| path.display().to_string())
}

fn facts(document: Document) -> Result<PreparedFacts> {
    let (facts, options) = (document.facts, document.options);
    let spread = match document.stability.all_copies {
        Factor::Number(factor) => Spread::AtMost(factor),
        Factor::Word(word) if word == "unbounded" => Spread::Unbounded,
        Factor::Word(word) => {
            bail!("stability.all_copies: must be a whole number or \"unbounded\", got {word:?}")
        }
    };
    let knowledge = match facts.secrets.source {
        Source::Gold => Knowledge::Counted,
        Source::Detected => Knowledge::Detected,
    };
    let secrets = CorpusFacts::new(
        facts.secrets.all.distinct,
        facts.secrets.all.missed,
        facts.secrets.all.public,
        facts.secrets.most_records,
        spread,
        knowledge,
    )?;
    let canaries = facts.canaries.map(|canaries| {
        let mut kept = std::collections::BTreeMap::<u64, u64>::new();
        for copy in &canaries.copies {
            *kept.entry(copy.canary).or_default() += u64::from(copy.fate == Fate::Kept);
        }
        let most = kept.values().copied().max().unwrap_or(0);
        (kept.len() as u64, most)
    });
    Ok(PreparedFacts {
        unit: facts.unit,
        public: facts.public,
        private: facts.private,
        secrets,
        everything_private: options.conservative.is_null(),
        deduplicated: options.deduplicate,
        vocabulary_leaks: facts.vocabulary == Vocabulary::Leaks,
        canaries,
    })
}

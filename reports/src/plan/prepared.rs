//! Reads what a prepared corpus states about itself. Separate from the corpus crate so that
//! `account` needs neither that crate nor a tokenizer.

use crate::contract::json_problem;
use anyhow::{Context, Result, bail, ensure};
use reticent_accounting::UnitName;
use reticent_accounting::confidentiality::{CorpusFacts, Knowledge, MeasuredFor, Spread};
use reticent_accounting::training::{Canaries, LabelledRates, Sizes, released_states};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Why policies can't be compared.
const DIGESTS: &str = "both must have a digest to be told apart, which takes the owner's key where words are the owner's, \
                       and a build that knows the policy";

/// The facts about a prepared corpus that accounting needs.
#[derive(Debug, Clone, PartialEq)]
pub struct PreparedFacts {
    /// The folder.
    pub folder: PathBuf,
    /// What one record is.
    pub unit: UnitName,
    /// |D_pub|, and |D_pri| including the points that consist only of a mask.
    pub sizes: Sizes,
    /// What happened to the secrets; a secret that ends up on the public side counts as missed by
    /// both policies.
    pub secrets: CorpusFacts,
    /// Whether every record is private because there is no conservative policy.
    pub everything_private: bool,
    /// Whether duplicates were removed.
    pub deduplicated: bool,
    /// Whether the policy's spans were replaced by masks.
    pub redacted: bool,
    /// In unredacted text, the number of marked secrets that the policy does not find from end to
    /// end.
    pub uncaught: u64,
    /// Whether the policy's spans are exactly the marked secrets.
    pub marked: bool,
    /// Whether the vocabulary was fitted on the private text.
    pub vocabulary_leaks: bool,
    /// The policy, and the conservative one.
    policies: (Option<PolicyOptions>, serde_json::Value),
    /// Whether records have classes.
    pub labelled: bool,
    /// Whether some tokens alone carry loss.
    #[cfg(feature = "findings")]
    pub answers_alone: bool,
    /// Planted secrets.
    pub canaries: Option<Canaries>,
    /// Whether some choice is drawn over all documents: which are held out, and where canaries are planted.
    pub draws: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Document {
    schema: u32,
    #[serde(rename = "type")]
    kind: String,
    options: Options,
    facts: Facts,
    stability: Stability,
}

#[derive(Deserialize, JsonSchema)]
struct Options {
    deduplicate: bool,
    /// Null where every record is private. An absent key says nothing, so it must be there.
    conservative: serde_json::Value,
    #[serde(default = "yes")]
    redact: bool,
    #[serde(default)]
    policy: Option<PolicyOptions>,
    #[serde(default)]
    held_out: f64,
    #[serde(default)]
    labels: Option<serde_json::Value>,
    #[serde(default)]
    #[cfg_attr(
        not(feature = "findings"),
        expect(dead_code, reason = "only pages of audits say it")
    )]
    loss_on: Option<serde_json::Value>,
}

const fn yes() -> bool {
    true
}

#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
struct PolicyOptions {
    policy: serde_json::Value,
    #[serde(default)]
    miss_rate: f64,
}

impl PolicyOptions {
    fn kind(&self) -> &str {
        self.policy["type"].as_str().unwrap_or_default()
    }

    /// What labels must have been measured for, by the type of the policy alone.
    fn by_type(&self, unit: &UnitName) -> MeasuredFor {
        MeasuredFor {
            policy: self.kind().to_owned(),
            digest: None,
            conservative: None,
            unit: Some(unit.clone()),
        }
    }

    #[cfg(feature = "findings")]
    fn measured_for(
        &self,
        conservative: &serde_json::Value,
        unit: &UnitName,
    ) -> Result<MeasuredFor> {
        use reticent_corpus::policy::{ConservativeOptions, PolicyChoice};
        let policy = PolicyChoice::deserialize(&self.policy);
        let conservative = Option::<ConservativeOptions>::deserialize(conservative);
        match (policy, conservative) {
            (Ok(policy), Ok(conservative)) => {
                crate::audit::measured_for(&policy, conservative.as_ref(), Some(unit.clone()))
            }
            // A policy of another version.
            _ => Ok(self.by_type(unit)),
        }
    }

    /// Without the crates that know policies.
    #[cfg(not(feature = "findings"))]
    #[expect(clippy::unnecessary_wraps, reason = "the other one may need a key")]
    fn measured_for(&self, _: &serde_json::Value, unit: &UnitName) -> Result<MeasuredFor> {
        Ok(self.by_type(unit))
    }
}

#[derive(Deserialize, JsonSchema)]
struct Facts {
    unit: UnitName,
    vocabulary: Vocabulary,
    public: u64,
    private: u64,
    #[serde(default)]
    uncaught: u64,
    secrets: Secrets,
    #[serde(default)]
    canaries: Option<Preflight>,
}

/// Where the vocabulary comes from.
#[derive(Deserialize, Clone, Copy, PartialEq, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Vocabulary {
    Bytes,
    Characters,
    Pretrained,
    DeclaredPublic,
    Leaks,
}

#[derive(Deserialize, JsonSchema)]
struct Secrets {
    source: Source,
    all: Kind,
    most_records: u64,
}

#[derive(Deserialize, Clone, Copy, PartialEq, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Source {
    Gold,
    Detected,
}

#[derive(Deserialize, JsonSchema)]
struct Kind {
    distinct: u64,
    missed: u64,
    public: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Preflight {
    copies: Vec<Copied>,
}

#[derive(Deserialize, JsonSchema)]
struct Copied {
    canary: u64,
    copy: u64,
    fate: Fate,
    #[serde(default)]
    record: Option<u64>,
    #[serde(default)]
    side: Option<Side>,
}

/// What became of a copy of a canary.
#[derive(Deserialize, Clone, Copy, PartialEq, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Fate {
    Kept,
    Deduplicated,
    Masked,
    Caught,
    Truncated,
    Lost,
}

#[derive(Deserialize, Clone, Copy, PartialEq, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Side {
    Public,
    Private,
}

#[derive(Deserialize, JsonSchema)]
struct Stability {
    all_copies: Factor,
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum Factor {
    Number(u64),
    Word(String),
}

/// A line of `records.jsonl`.
#[derive(Deserialize, JsonSchema)]
struct RecordLine {
    #[cfg(feature = "findings")]
    point: u64,
    tokens: Vec<u32>,
    #[serde(default)]
    sensitive: Vec<Range<usize>>,
    #[cfg(feature = "findings")]
    #[serde(default)]
    ignored: Vec<Range<usize>>,
}

/// The number, the tokens and the ignored ranges of a record.
#[cfg(feature = "findings")]
type Content = (u64, Vec<u32>, Vec<Range<usize>>);

/// A line of `train.jsonl`.
#[derive(Deserialize, JsonSchema)]
struct TextLine {
    id: String,
    #[cfg(feature = "findings")]
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct CanaryPlan {
    candidates: u128,
}

impl PreparedFacts {
    /// Reads `prepared.json` of a folder.
    ///
    /// # Errors
    /// Returns an error if the path is not a folder or the file does not follow
    /// `schemas/prepared.schema.json`.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join("prepared.json");
        let text = crate::contract::read_text(&path).with_context(|| {
            format!(
                "{}: a prepared corpus is a folder with prepared.json, as audit prepare writes it",
                path.display()
            )
        })?;
        let document: Document = serde_json::from_str(&text)
            .map_err(|error| anyhow::anyhow!("{}: {}", path.display(), json_problem(&error)))?;
        if document.schema != 1 || document.kind != "preparation" {
            bail!(
                "{}: must be a preparation of schema 1, got a {:?} of schema {}",
                path.display(),
                document.kind,
                document.schema
            );
        }
        Self::of(document, folder).with_context(|| path.display().to_string())
    }

    /// Returns the facts of a corpus in memory, as its `prepared.json` would state them.
    ///
    /// # Errors
    /// Returns no error for a corpus that was prepared.
    #[cfg(feature = "findings")]
    pub fn of_corpus(prepared: &reticent_corpus::prepare::Prepared) -> Result<Self> {
        let all_copies = prepared
            .facts
            .stability(reticent_corpus::prepare::Copies::All);
        let document = serde_json::json!({
            "schema": 1,
            "type": "preparation",
            "options": prepared.options,
            "facts": prepared.facts,
            "stability": { "all_copies": all_copies },
        });
        let mut facts = Self::of(serde_json::from_value(document)?, Path::new(""))?;
        if let (Some(canaries), Some(plan)) = (&mut facts.canaries, &prepared.plan) {
            canaries.candidates = Some(Canaries::candidates(plan.candidates));
        }
        Ok(facts)
    }

    fn of(document: Document, folder: &Path) -> Result<Self> {
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
        if options.conservative.is_null() && facts.public > 0 {
            bail!(
                "facts.public: must be 0 without a conservative policy, got {}",
                facts.public
            );
        }
        let gold = (options.policy.as_ref()).is_some_and(|policy| policy.kind() == "gold");
        let candidates = candidates(folder)?;
        Ok(Self {
            folder: folder.to_owned(),
            unit: facts.unit,
            sizes: Sizes {
                public: facts.public,
                private: facts.private,
            },
            secrets,
            everything_private: options.conservative.is_null(),
            deduplicated: options.deduplicate,
            redacted: options.redact,
            uncaught: facts.uncaught,
            marked: gold && facts.uncaught == 0,
            vocabulary_leaks: facts.vocabulary == Vocabulary::Leaks,
            labelled: options.labels.is_some(),
            #[cfg(feature = "findings")]
            answers_alone: options.loss_on.is_some(),
            policies: (options.policy, options.conservative),
            draws: options.held_out > 0.0 || facts.canaries.is_some(),
            canaries: facts
                .canaries
                .map(|preflight| canaries(&preflight, candidates)),
        })
    }

    /// What labels of its secrets must have been measured for; none where the folder doesn't say.
    ///
    /// # Errors
    /// An owner's key that is damaged, or can't be made, where the policy has words of the owner's.
    pub fn measured_for(&self) -> Result<Option<MeasuredFor>> {
        let (Some(policy), conservative) = &self.policies else {
            return Ok(None);
        };
        let mut with = policy.measured_for(conservative, &self.unit)?;
        if policy.miss_rate > 0.0 {
            with.policy.push_str(" with simulated misses");
        }
        Ok(Some(with))
    }

    /// What an answer says of labels if not all that they were measured for could be compared with this corpus; none
    /// where it could, or where they don't say it.
    ///
    /// # Errors
    /// Returns an error as [`Self::measured_for`] does.
    pub fn not_compared(&self, labels: Option<&LabelledRates>) -> Result<Option<String>> {
        let Some((sample, labels)) =
            labels.and_then(|labels| Some((&labels.sample, labels.sample.measured_for()?)))
        else {
            return Ok(None);
        };
        let Some(corpus) = self.measured_for()? else {
            return Ok(Some(format!(
                "The prepared folder does not say its policy: the labels, measured for {}, were not compared with it.",
                labels.policy
            )));
        };
        if labels.digest.is_none() || corpus.digest.is_none() {
            return Ok(Some(format!(
                "The labels were compared with the corpus' policy by its type alone, {}: {DIGESTS}.",
                labels.policy
            )));
        }
        // Without a conservative policy no record is public, whatever one misses.
        let both = sample.conservative_labelled() && !self.everything_private;
        let missing = labels.conservative.is_none() || corpus.conservative.is_none();
        Ok((both && missing).then(|| {
            format!("The labels were not compared with the corpus' conservative policy: {DIGESTS}.")
        }))
    }

    /// The most states that one record releases in a pass of selective DP-SGD.
    ///
    /// # Errors
    /// Returns an error if the folder has no readable records.
    pub fn most_states(&self) -> Result<u64> {
        let mut most = 0;
        self.lines("records.jsonl", |line: RecordLine, _| {
            most = most.max(released_states(line.tokens.len(), &line.sensitive));
            Ok(())
        })?;
        Ok(most)
    }

    /// Returns the records by their ids in `train.jsonl`, with their positions in the training set.
    ///
    /// # Errors
    /// Returns an error if the folder has no readable records or an id occurs twice.
    pub fn names(&self) -> Result<HashMap<String, u32>> {
        let mut names = HashMap::new();
        #[cfg(feature = "findings")]
        let mut contents = self.contents()?.into_iter();
        self.lines("train.jsonl", |line: TextLine, number| {
            #[cfg(feature = "findings")]
            ensure!(
                contents.next().is_some_and(|(point, tokens, ignored)| {
                    let ignored = self.answers_alone.then_some(ignored.as_slice());
                    line.id == reticent_corpus::record_id(point, &line.text, &tokens, ignored)
                }),
                "{}, line {number}: its id is not that of its text, its tokens and those that are ignored; the folder was edited, or \
                 prepared by an earlier version: prepare it again (`audit prepare`)",
                self.folder.join("train.jsonl").display()
            );
            let place = u32::try_from(names.len()).context("more than 2^32 records")?;
            ensure!(
                names.insert(line.id, place).is_none(),
                "{}, line {number}: its id occurred before",
                self.folder.join("train.jsonl").display()
            );
            Ok(())
        })?;
        #[cfg(feature = "findings")]
        ensure!(
            contents.next().is_none(),
            "{}: has fewer lines than there are records",
            self.folder.join("train.jsonl").display()
        );
        Ok(names)
    }

    /// Returns the content of each record.
    #[cfg(feature = "findings")]
    fn contents(&self) -> Result<Vec<Content>> {
        let mut contents = Vec::new();
        self.lines("records.jsonl", |line: RecordLine, _| {
            contents.push((line.point, line.tokens, line.ignored));
            Ok(())
        })?;
        Ok(contents)
    }

    fn lines<T: DeserializeOwned>(
        &self,
        file: &str,
        mut each: impl FnMut(T, u64) -> Result<()>,
    ) -> Result<()> {
        let path = self.folder.join(file);
        let shown = path.display();
        let mut file =
            BufReader::new(File::open(&path).with_context(|| format!("cannot read {shown}"))?);
        let mut line = Vec::new();
        for number in 1u64.. {
            line.clear();
            let read = file
                .read_until(b'\n', &mut line)
                .with_context(|| format!("cannot read {shown}"))?;
            if read == 0 {
                break;
            }
            let record = serde_json::from_slice(&line)
                .map_err(|_| anyhow::anyhow!("{shown}, line {number}: is not a record"))?;
            each(record, number)?;
        }
        Ok(())
    }
}

/// Returns how the run meets the canaries: copies in one record count once.
fn canaries(preflight: &Preflight, candidates: Option<f64>) -> Canaries {
    let mut holding = BTreeMap::<u64, BTreeSet<(Option<u64>, u64)>>::new();
    let mut on_public_side = 0;
    for copy in &preflight.copies {
        let records = holding.entry(copy.canary).or_default();
        if copy.fate == Fate::Kept {
            let own = if copy.record.is_some() { 0 } else { copy.copy };
            records.insert((copy.record, own));
        }
        on_public_side += u64::from(copy.side == Some(Side::Public));
    }
    let most = holding.values().map(BTreeSet::len).max().unwrap_or(0);
    Canaries {
        count: holding.len() as u64,
        records: most as u64,
        on_public_side,
        candidates,
    }
}

/// Returns how many contents a planted secret can have, as stated in the plan of canaries.
fn candidates(folder: &Path) -> Result<Option<f64>> {
    let path = folder.join("canaries.json");
    let text = match crate::contract::read_text(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    let plan: CanaryPlan = serde_json::from_str(&text)
        .map_err(|_| anyhow::anyhow!("{}: is not a plan of canaries", path.display()))?;
    Ok(Some(Canaries::candidates(plan.candidates)))
}

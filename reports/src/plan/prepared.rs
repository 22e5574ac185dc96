//! Reads what a prepared corpus states about itself. Separate from the corpus crate so that
//! `account` needs neither that crate nor a tokenizer.

#[cfg(not(feature = "findings"))]
use crate::contract::json_problem;
use anyhow::{Context, Result, bail, ensure};
use reticent_accounting::UnitName;
use reticent_accounting::confidentiality::{CorpusFacts, Knowledge, MeasuredFor, Spread};
use reticent_accounting::training::{Canaries, LabelledRates, Sizes, released_states};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// Why policies can't be compared.
const DIGESTS: &str = "both must have a digest to be distinguished, which takes the owner's key where words are the owner's, \
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
    /// In unredacted text, the number of occurrences of marked secrets that the policy does not find
    /// in full.
    pub uncaught: u64,
    /// Whether the policy's spans are exactly the marked secrets.
    pub marked: bool,
    /// Whether the vocabulary was fitted on the private text.
    pub vocabulary_leaks: bool,
    /// The policy, and the conservative one.
    policies: (Option<PolicyOptions>, serde_json::Value),
    /// Whether records have classes.
    pub labelled: bool,
    /// Planted secrets.
    pub canaries: Option<Canaries>,
    /// Whether some choice is drawn over all documents: which are held out, and where canaries are planted.
    pub draws: bool,
    /// Whether the folder is the one that was prepared: the owner's key authenticated it.
    pub authenticated: bool,
    /// The most states that one record releases in a pass of selective DP-SGD.
    #[cfg(feature = "findings")]
    most_states: u64,
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
    duplicates: Duplicates,
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
}

const fn yes() -> bool {
    true
}

/// How duplicates are found.
#[derive(Deserialize, JsonSchema)]
struct Duplicates {
    #[serde(rename = "type")]
    kind: String,
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
            unit: unit.clone(),
            seed: None,
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
                crate::audit::measured_for(&policy, conservative.as_ref(), unit.clone())
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
    units: u64,
    public: u64,
    private: u64,
    #[serde(default)]
    uncaught: u64,
    secrets: Secrets,
    stages: Vec<Stage>,
    #[serde(default)]
    canaries: Option<Preflight>,
}

#[derive(Deserialize, JsonSchema)]
struct Stage {
    stage: String,
    all_copies: Factor,
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
    by_kind: BTreeMap<String, Kind>,
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
    masked: u64,
    missed: u64,
    public: u64,
}

impl Kind {
    const fn counts(&self) -> [u64; 4] {
        [self.distinct, self.masked, self.missed, self.public]
    }

    fn check(&self, of: &str) -> Result<()> {
        ensure!(
            self.masked.checked_add(self.missed) == Some(self.distinct)
                && self.public <= self.missed,
            "facts.secrets, {of}: masked {} and missed {} must add up to distinct {}, and public {} be at most missed",
            self.masked,
            self.missed,
            self.distinct,
            self.public
        );
        Ok(())
    }
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
    /// The records that hold only a part of its secret.
    #[serde(default)]
    parts: Vec<u64>,
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

impl Factor {
    /// Returns the factor; none where it is unbounded.
    fn get(&self) -> Result<Option<u64>> {
        match self {
            Self::Number(factor) => Ok(Some(*factor)),
            Self::Word(word) if word == "unbounded" => Ok(None),
            Self::Word(word) => {
                bail!("all_copies: must be a whole number or \"unbounded\", got {word:?}")
            }
        }
    }
}

/// A line of `records.jsonl`.
#[cfg(not(feature = "findings"))]
#[derive(Deserialize)]
struct RecordLine {
    tokens: Vec<u32>,
    #[serde(default)]
    sensitive: Vec<std::ops::Range<usize>>,
}

/// A line of `train.jsonl`.
#[cfg(not(feature = "findings"))]
#[derive(Deserialize)]
struct TextLine {
    id: String,
}

#[cfg(not(feature = "findings"))]
#[derive(Deserialize)]
struct CanaryPlan {
    candidates: u128,
}

impl PreparedFacts {
    /// Reads a prepared folder and checks it as training does. If the owner's key is on this machine, it must authenticate
    /// the folder.
    ///
    /// # Errors
    /// Returns an error if the path is no prepared folder, its files contradict each other, or it isn't the one that was
    /// prepared.
    #[cfg(feature = "findings")]
    pub fn read(folder: &Path) -> Result<Self> {
        Self::of_folder(&crate::audit::owner_key::load_prepared(folder)?, folder)
    }

    /// Reads `prepared.json` of a folder, and checks its sums and stages. Only the build that knows corpora checks the
    /// records, and the owner's key.
    ///
    /// # Errors
    /// Returns an error if the path is not a folder or the file does not follow
    /// `schemas/prepared.schema.json`.
    #[cfg(not(feature = "findings"))]
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
        let candidates = candidates(folder)?;
        let facts = Self::of(document, candidates).with_context(|| path.display().to_string())?;
        Ok(Self {
            folder: folder.to_owned(),
            ..facts
        })
    }

    /// Returns the facts of a corpus that was read from a folder.
    ///
    /// # Errors
    /// Returns an error if the folder states facts that no preparation finds.
    #[cfg(feature = "findings")]
    pub fn of_folder(prepared: &reticent_corpus::prepare::Prepared, folder: &Path) -> Result<Self> {
        let path = || folder.join("prepared.json").display().to_string();
        Ok(Self {
            folder: folder.to_owned(),
            ..Self::of_corpus(prepared).with_context(path)?
        })
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
        let plan = prepared.plan.as_ref();
        let candidates = plan.map(|plan| Canaries::candidates(plan.candidates));
        let records = prepared.training.records.iter();
        let states = records.map(|r| released_states(r.tokens.len(), &r.sensitive));
        Ok(Self {
            authenticated: prepared.authenticated,
            most_states: states.max().unwrap_or(0),
            ..Self::of(serde_json::from_value(document)?, candidates)?
        })
    }

    fn of(document: Document, candidates: Option<f64>) -> Result<Self> {
        document.check()?;
        let (facts, options) = (document.facts, document.options);
        let spread = match document.stability.all_copies.get()? {
            Some(factor) => Spread::AtMost(factor),
            None => Spread::Unbounded,
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
        Ok(Self {
            folder: PathBuf::new(),
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
            policies: (options.policy, options.conservative),
            draws: options.held_out > 0.0 || facts.canaries.is_some(),
            authenticated: false,
            #[cfg(feature = "findings")]
            most_states: 0,
            canaries: facts
                .canaries
                .map(|preflight| canaries(&preflight, candidates, spread)),
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
        if both && missing {
            return Ok(Some(format!(
                "The labels were not compared with the corpus' conservative policy: {DIGESTS}."
            )));
        }
        Ok(None)
    }

    /// The most states that one record releases in a pass of selective DP-SGD.
    ///
    /// # Errors
    /// Returns an error if the folder has no readable records.
    pub fn most_states(&self) -> Result<u64> {
        #[cfg(feature = "findings")]
        return Ok(self.most_states);
        #[cfg(not(feature = "findings"))]
        {
            let mut most = 0;
            self.lines("records.jsonl", |line: RecordLine, _| {
                most = most.max(released_states(line.tokens.len(), &line.sensitive));
                Ok(())
            })?;
            Ok(most)
        }
    }

    /// Returns the records by their ids in `train.jsonl`, with their positions in the training set.
    ///
    /// # Errors
    /// Returns an error if the folder isn't what it was when these facts were read.
    #[cfg(feature = "findings")]
    pub fn names(&self) -> Result<HashMap<String, u32>> {
        let prepared = crate::audit::owner_key::load_prepared(&self.folder)?;
        ensure!(
            Self::of_folder(&prepared, &self.folder)? == *self,
            "{}: changed while it was being read",
            self.folder.display()
        );
        // Their numbers rise, so that no id occurs twice.
        let ids = prepared.ids().enumerate();
        ids.map(|(place, id)| Ok((id, u32::try_from(place).context("more than 2^32 records")?)))
            .collect()
    }

    /// Returns the records by their ids in `train.jsonl`, with their positions in the training set.
    ///
    /// # Errors
    /// Returns an error if the folder has no readable records or an id occurs twice.
    #[cfg(not(feature = "findings"))]
    pub fn names(&self) -> Result<HashMap<String, u32>> {
        let mut names = HashMap::new();
        self.lines("train.jsonl", |line: TextLine, number| {
            let place = u32::try_from(names.len()).context("more than 2^32 records")?;
            ensure!(
                names.insert(line.id, place).is_none(),
                "{}, line {number}: its id occurred before",
                self.folder.join("train.jsonl").display()
            );
            Ok(())
        })?;
        Ok(names)
    }

    #[cfg(not(feature = "findings"))]
    fn lines<T: serde::de::DeserializeOwned>(
        &self,
        file: &str,
        mut each: impl FnMut(T, u64) -> Result<()>,
    ) -> Result<()> {
        use std::io::BufRead;
        let path = self.folder.join(file);
        let shown = path.display();
        let file = std::fs::File::open(&path).with_context(|| format!("cannot read {shown}"))?;
        let mut file = std::io::BufReader::new(file);
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

impl Document {
    /// Checks the sums and the stages. The build that knows corpora has checked more, and the records, where it read the
    /// folder.
    fn check(&self) -> Result<()> {
        ensure!(
            self.schema == 1 && self.kind == "preparation",
            "must be a preparation of schema 1, got a {:?} of schema {}",
            self.kind,
            self.schema
        );
        let (facts, secrets) = (&self.facts, &self.facts.secrets);
        ensure!(
            facts.public.checked_add(facts.private) == Some(facts.units),
            "facts: public {} and private {} do not add up to {} units",
            facts.public,
            facts.private,
            facts.units
        );
        secrets.all.check("all")?;
        let mut sum = [Some(0u64); 4];
        for (kind, counts) in &secrets.by_kind {
            counts.check(kind)?;
            for (sum, count) in sum.iter_mut().zip(counts.counts()) {
                *sum = sum.and_then(|sum| sum.checked_add(count));
            }
        }
        ensure!(
            sum == secrets.all.counts().map(Some),
            "facts.secrets.all: is not the sum over the kinds"
        );
        ensure!(
            (secrets.most_records == 0) == (secrets.all.missed == 0)
                && secrets.most_records <= facts.units,
            "facts.secrets.most_records: got {} with {} missed secrets in {} units",
            secrets.most_records,
            secrets.all.missed,
            facts.units
        );
        self.check_stages()
    }

    /// Checks the stage whose stability can be other than 1, and the product.
    fn check_stages(&self) -> Result<()> {
        let is_exact = self.options.duplicates.kind == "exact";
        let mut product = Some(1u64);
        let mut deduplicates = false;
        for stage in &self.facts.stages {
            let factor = stage.all_copies.get()?;
            let is_this = stage.stage == "deduplicate";
            deduplicates |= is_this;
            // Exact deduplication has 2 where the input had masks, which the options do not say.
            let possible = match (is_this, is_exact) {
                (false, _) => factor == Some(1),
                (true, true) => matches!(factor, Some(1 | 2)),
                (true, false) => factor.is_none(),
            };
            ensure!(
                possible,
                "facts.stages, {}: its stability is not that of the options",
                stage.stage
            );
            product = product
                .zip(factor)
                .and_then(|(all, one)| all.checked_mul(one));
        }
        ensure!(
            deduplicates == self.options.deduplicate,
            "facts.stages: not those of options.deduplicate"
        );
        ensure!(
            self.stability.all_copies.get()? == product,
            "stability is not the product of its stages'"
        );
        // One record decides about others there, so that a mask in its own records does not catch a secret.
        let masked = self.facts.secrets.all.masked;
        ensure!(
            product == Some(1) || masked == 0,
            "facts.secrets.all.masked: must be 0 with these stages, got {masked}; prepare the corpus again (`audit prepare`)"
        );
        Ok(())
    }
}

/// Returns how the run meets the canaries: in every record with any token of a secret, where copies in one record count once.
fn canaries(preflight: &Preflight, candidates: Option<f64>, spread: Spread) -> Canaries {
    let mut holding = BTreeMap::<u64, BTreeSet<(Option<u64>, u64)>>::new();
    let mut on_public_side = 0;
    for copy in &preflight.copies {
        let records = holding.entry(copy.canary).or_default();
        if copy.fate == Fate::Kept {
            let own = if copy.record.is_some() { 0 } else { copy.copy };
            records.insert((copy.record, own));
        }
        records.extend(copy.parts.iter().map(|part| (Some(*part), 0)));
        on_public_side += u64::from(copy.side == Some(Side::Public));
    }
    let most = holding.values().map(BTreeSet::len).max().unwrap_or(0);
    let factor = match spread {
        Spread::AtMost(factor) => factor,
        // The plan promises nothing, whatever their number.
        Spread::Unbounded => 1,
    };
    Canaries {
        count: holding.len() as u64,
        records: (most as u64).saturating_mul(factor),
        on_public_side,
        candidates,
    }
}

/// Returns how many contents a planted secret can have, as stated in the plan of canaries.
#[cfg(not(feature = "findings"))]
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A record with any part of a secret is in the group of its promise, and on its side.
    #[test]
    fn parts_of_canaries_are_records() {
        let preflight = serde_json::json!({ "copies": [
            { "canary": 0, "copy": 0, "fate": "kept", "record": 3, "side": "private" },
            { "canary": 0, "copy": 1, "fate": "truncated", "parts": [4], "side": "private" },
            { "canary": 0, "copy": 2, "fate": "lost", "parts": [3, 5], "side": "public" },
            { "canary": 0, "copy": 3, "fate": "masked" },
            { "canary": 1, "copy": 0, "fate": "kept", "record": 6, "side": "private" },
        ]});
        let preflight: Preflight = serde_json::from_value(preflight).unwrap();
        for (factor, records) in [(1, 3), (2, 6)] {
            let met = canaries(&preflight, None, Spread::AtMost(factor));
            let found = (met.count, met.records, met.on_public_side);
            assert_eq!(found, (2, records, 1));
        }
    }
}

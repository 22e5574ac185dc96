//! The sheet of a sample: which records were drawn, how and for which policy, and their labels.

use crate::audit::owner_key::hmac;
use crate::contract::{numbered_lines, read_json_line, to_json};
use crate::number::count_of;
use anyhow::{Context, Result, ensure};
use reticent_corpus::canary::SeedOrigin;
use reticent_corpus::policy::{ConservativeOptions, PolicyChoice};
use reticent_corpus::screening::{FoundSpan, PolicyJudge, draw_sample};
use reticent_corpus::{Document, Secret, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::path::Path;

/// The largest size of a record in a sheet, in bytes.
const LONGEST: u64 = 64 << 20;

/// The kind of the dictionary that `--mended` adds to a policy.
pub(super) const SCREENED: &str = "screened";

/// The number of samples that JFT draws.
pub const JFT_SAMPLES: u64 = 10;

/// How the sample was drawn. It is the first line of a sheet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The version of sheets.
    pub schema: u32,
    /// `screening-sheet`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What one record is.
    pub unit: Unit,
    /// Records there were.
    pub records: u64,
    /// Exact duplicates of them, which were excluded.
    #[serde(default)]
    pub duplicates: u64,
    /// Records drawn at random.
    pub sample: u64,
    /// Samples that they make up, equal in size and in order: 10 for JFT's missing rate, or 1.
    pub samples: u64,
    /// What they were drawn with.
    pub seed: u64,
    /// Where the seed comes from: one that was given draws the same sample again.
    #[serde(default)]
    pub seed_origin: SeedOrigin,
    /// Records added because the policy nearly found something.
    pub near: u64,
    /// The policy, fixed before the first label.
    pub policy: PolicyChoice,
    /// The conservative policy, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conservative: Option<ConservativeOptions>,
    /// HMAC-SHA256 of all else under the owner's key; absent where there is no key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<String>,
}

/// Why a record is on the sheet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Drawn {
    /// By chance.
    Random,
    /// Because the policy was nearly sure of something in it: no rate counts it.
    NearThreshold,
}

/// One record of a sheet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Its id.
    pub record: String,
    /// Why it is here.
    pub drawn: Drawn,
    /// Its text.
    pub text: String,
    /// What the policy finds, for display.
    pub found: Vec<FoundSpan>,
    /// The labels: every secret of the record, in characters; absent until labelled.
    pub secrets: Option<Vec<Secret>>,
    /// The number of the line in the file that it was read from; 0 in a new sheet.
    #[serde(skip)]
    pub number: u64,
}

impl Line {
    /// Returns the record with its labels.
    #[must_use]
    pub fn document(&self) -> Document {
        Document {
            secrets: self.secrets.clone().unwrap_or_default(),
            ..Document::new(&self.record, &self.text)
        }
    }
}

/// A sheet: its header and its lines.
#[derive(Debug, Clone, PartialEq)]
pub struct Sheet {
    /// How the sheet was drawn.
    pub header: Header,
    /// The random records in the order in which they were drawn, then the others.
    pub lines: Vec<Line>,
}

/// How to draw a sheet.
#[derive(Debug, Clone, PartialEq)]
pub struct Draw {
    /// What one record is.
    pub unit: Unit,
    /// The number of records to draw at random; `None` for JFT's ten samples of 0.01 %.
    pub sample: Option<u64>,
    /// The number of exact duplicates that were left out of the records.
    pub duplicates: u64,
    /// The seed.
    pub seed: u64,
    /// The origin of the seed.
    pub seed_origin: SeedOrigin,
    /// The number of records near the threshold to add.
    pub near: u64,
    /// The policy.
    pub policy: PolicyChoice,
    /// The conservative policy.
    pub conservative: Option<ConservativeOptions>,
}

impl Sheet {
    /// Draws a sheet. The random part is drawn before the policy is applied.
    ///
    /// # Errors
    /// Returns an error if the sample is larger than the number of records, if a policy can't be built, or if a seed is
    /// given for a policy that was fitted to a sample.
    pub fn draw(records: &[Document], how: &Draw) -> Result<Self> {
        let total = records.len() as u64;
        let (samples, each) = match how.sample {
            Some(sample) => (1, sample),
            None => (JFT_SAMPLES, total.div_ceil(10_000).max(1)),
        };
        let header = Header {
            schema: 1,
            kind: "screening-sheet".to_owned(),
            unit: how.unit,
            records: total,
            duplicates: how.duplicates,
            sample: samples * each,
            samples,
            seed: how.seed,
            seed_origin: how.seed_origin,
            near: how.near,
            policy: how.policy.clone(),
            conservative: how.conservative.clone(),
            seal: None,
        };
        let header = Header {
            seal: header.sealed()?,
            ..header
        };
        header.unforeseen().context("--seed")?;
        let random = header.random(records)?;
        let judge = PolicyJudge::new(&how.policy, how.conservative.as_ref())?;
        let near = nearest(records, &random, &judge, how.near)?;
        let line = |(at, drawn): (usize, Drawn)| -> Result<Line> {
            Ok(Line {
                record: records[at].id.clone(),
                drawn,
                text: records[at].text.clone(),
                found: judge.find(&records[at])?,
                secrets: None,
                number: 0,
            })
        };
        let random = random.into_iter().map(|at| (at, Drawn::Random));
        let near = near.into_iter().map(|at| (at, Drawn::NearThreshold));
        Ok(Self {
            lines: random.chain(near).map(line).collect::<Result<_>>()?,
            header,
        })
    }

    /// Reads a sheet.
    ///
    /// # Errors
    /// Returns an error, with the line, if the file is not a sheet.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let mut header = None;
        let mut lines = Vec::new();
        for line in numbered_lines(path, LONGEST)? {
            let (number, text) = line?;
            if header.is_none() {
                let read: Header = read_json_line(path, number, &text)?;
                ensure!(
                    read.schema == 1 && read.kind == "screening-sheet",
                    "{shown}: line 1: must be a screening-sheet of schema 1, is {:?} of schema {}",
                    read.kind,
                    read.schema
                );
                header = Some(read);
            } else if !text.trim().is_empty() {
                let mut line: Line = read_json_line(path, number, &text)?;
                line.number = number;
                line.document()
                    .validate()
                    .with_context(|| format!("{shown}: line {number}"))?;
                lines.push(line);
            }
        }
        let header = header.with_context(|| format!("{shown}: is empty"))?;
        Ok(Self { header, lines })
    }

    /// Returns the sheet as JSON Lines.
    ///
    /// # Errors
    /// Returns no error for sheets made here.
    pub fn to_text(&self) -> Result<String> {
        let mut out = format!("{}\n", to_json(&self.header)?);
        for line in &self.lines {
            out.push_str(&format!("{}\n", to_json(line)?));
        }
        Ok(out)
    }

    /// Checks that this is the sheet of these records and this policy, unchanged except for its labels: its header has
    /// the owner's seal, and the sample is drawn again and compared. Removing a record, or changing the policy after
    /// labels were seen, would invalidate every bound; the beginning of a sample is the sample of another header.
    ///
    /// # Errors
    /// Returns the first difference.
    pub fn verify(
        &self,
        records: &[Document],
        policy: &PolicyChoice,
        conservative: Option<&ConservativeOptions>,
    ) -> Result<()> {
        let h = &self.header;
        ensure!(
            h.policy == *policy && h.conservative.as_ref() == conservative,
            "the sheet was drawn for another policy; a policy that is changed after labels were seen needs a new sample: another --sheet, no --seed"
        );
        ensure!(
            h.seal == h.sealed()?,
            "line 1 does not have the seal of the owner's key (RETICENT_OWNER_KEY): the sheet was drawn under another key, or how it was drawn has been changed since; draw another one: another --sheet"
        );
        h.unforeseen()?;
        ensure!(
            h.records == records.len() as u64,
            "the sheet was drawn from {}, DATA has {}, exact duplicates left out",
            count_of(h.records, "record"),
            records.len()
        );
        let drawn = h.random(records)?;
        let random: Vec<&Line> = self
            .lines
            .iter()
            .filter(|l| l.drawn == Drawn::Random)
            .collect();
        ensure!(
            drawn.len() == random.len(),
            "the sheet has {} random records, {} were drawn; a sample with gaps is no random sample",
            random.len(),
            drawn.len()
        );
        for (line, at) in random.iter().zip(drawn) {
            let number = line.number;
            ensure!(
                line.record == records[at].id,
                "line {number}: its id is not that of the record that was drawn there"
            );
            ensure!(
                line.text == records[at].text,
                "line {number}: its text is not that of the record that was drawn there"
            );
        }
        Ok(())
    }

    /// Returns the number of records without labels.
    #[must_use]
    pub fn open(&self) -> usize {
        self.lines.iter().filter(|l| l.secrets.is_none()).count()
    }
}

impl Header {
    /// Returns the seal of all else; `None` where there is no place for a key.
    fn sealed(&self) -> Result<Option<String>> {
        let bare = Self {
            seal: None,
            ..self.clone()
        };
        hmac("sheet", to_json(&bare)?.to_string().as_bytes())
    }

    /// A policy that was fitted to a sample misses nothing in that one, which an earlier seed would draw again.
    fn unforeseen(&self) -> Result<()> {
        ensure!(
            self.seed_origin == SeedOrigin::System || !fitted(&self.policy),
            "the seed {} was given, and the policy was fitted to a sample (it holds a dictionary of kind {SCREENED:?}); draw another one: omit --seed",
            self.seed
        );
        Ok(())
    }

    fn random(&self, records: &[Document]) -> Result<Vec<usize>> {
        let count = usize::try_from(self.sample).context("--sample")?;
        draw_sample(records.len(), count, self.seed).context("--sample")
    }
}

/// Returns whether a policy contains what `--mended` adds.
fn fitted(policy: &PolicyChoice) -> bool {
    match policy {
        PolicyChoice::Dictionary(words) => words.kind == SCREENED,
        PolicyChoice::Any { of } | PolicyChoice::All { of } | PolicyChoice::AtLeast { of, .. } => {
            of.iter().any(fitted)
        }
        PolicyChoice::Threshold { of, .. } => fitted(of),
        _ => false,
    }
}

/// Returns the records outside the random sample in which the policy came nearest to finding more.
fn nearest(
    records: &[Document],
    random: &[usize],
    judge: &PolicyJudge,
    count: u64,
) -> Result<Vec<usize>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let taken: HashSet<usize> = random.iter().copied().collect();
    let mut doubts = Vec::new();
    for (at, record) in records
        .iter()
        .enumerate()
        .filter(|(at, _)| !taken.contains(at))
    {
        doubts.extend(judge.doubt(record)?.map(|score| (score, at)));
    }
    doubts.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    doubts.truncate(usize::try_from(count).unwrap_or(usize::MAX));
    Ok(doubts.into_iter().map(|(_, at)| at).collect())
}

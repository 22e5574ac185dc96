//! Turns labels into rates, each with its bound.

use super::sheet::{Drawn, JFT_SAMPLES, Line, Sheet};
use anyhow::Result;
use reticent_accounting::confidentiality::{Label, LabelledSecrets, MeasuredFor, MeasuredRates};
use reticent_accounting::statistics::{least_share_of_sampled, share_of_sampled};
use reticent_accounting::{Confidence, Estimate, Lower, Probability, Upper};
use reticent_corpus::Document;
use reticent_corpus::screening::{Judged, PolicyJudge, SecretFate, Words, first_records};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The 97.5 % point of Student's t with 9 degrees of freedom.
const T_NINE: f64 = 2.262_157_162_798_2;

/// One kind of secret as it was labelled. Bounds are about records that bring such a secret: a record counts as missed
/// when one that it brings is.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct KindRow {
    /// Records of the sample that introduce a secret of the kind.
    pub records: u64,
    /// Of them with one that the policy misses, there or elsewhere in the sample.
    pub missed: u64,
    /// γ of the kind: at most this share of such records has a missed one.
    pub gamma: Upper<Probability>,
    /// Of them not flagged by the conservative policy either.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed_by_both: Option<u64>,
    /// η of the kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eta: Option<Upper<Probability>>,
    /// Secrets of the kind, place by place.
    pub secrets: u64,
    /// Of them found: spans of the policy cover them in full.
    pub covered: u64,
    /// covered / secrets.
    pub recall: f64,
    /// Of them caught: the redacted record has no trace of the secret, neither its length nor its effect on its
    /// neighbours, nor its text in a place without a label.
    pub caught: u64,
    /// caught / secrets.
    pub nothing_left: f64,
    /// At least this share of the records has all of them caught.
    pub records_all_caught: Lower<Probability>,
}

/// One kind of span as the policy names it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FoundRow {
    /// Spans.
    pub spans: u64,
    /// Of them touching a secret.
    pub right: u64,
    /// right / spans.
    pub precision: f64,
    /// Records with such a span.
    pub records: u64,
    /// Of them with only correct ones.
    pub records_right: u64,
    /// At least this share of the records has only correct ones.
    pub records_all_right: Lower<Probability>,
}

/// JFT's missing rate: missed words over all words, of ten samples, with Student's interval, which is 0 to 1 if all are equal.
/// Its recall is 1 − m/Pct, where Pct is the share of words that the policy redacts.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MissingRate {
    /// m of each sample.
    pub samples: Vec<f64>,
    /// Lower end of m.
    pub low: Estimate<f64>,
    /// Upper end of m.
    pub high: Estimate<f64>,
    /// Pct, over the whole corpus.
    pub redacted: f64,
    /// 1 − high/Pct, not below 0.
    pub recall_low: Estimate<f64>,
    /// 1 − low/Pct.
    pub recall_high: Estimate<f64>,
}

/// What the labels say.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Screening {
    /// Records drawn at random.
    pub sample: u64,
    /// Of them with a secret of any kind.
    pub with_secrets: u64,
    /// Of these, with one that the policy misses.
    pub missed: u64,
    /// Records of the sample that introduce a secret; each secret counts there alone. It is introduced in the first record
    /// in which it is marked. Where an earlier record outside the sample contains its text unmarked, it counts only if it is
    /// missed, in the first record of the sample in which it is marked.
    pub bringing: u64,
    /// Of them with one that the policy misses, there or elsewhere in the sample: what the bounds count.
    pub bringing_missed: u64,
    /// Bounds on γ and η over all kinds, as `account --labels` computes them; none if the sample brings no secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rates: Option<MeasuredRates>,
    /// By kind of secret; each bound holds with the confidence by itself.
    pub kinds: BTreeMap<String, KindRow>,
    /// By kind of span.
    pub found: BTreeMap<String, FoundRow>,
    /// Records inspected because the policy was nearly sure.
    pub near: u64,
    /// Of them with a missed secret. They show misses and bound nothing.
    pub near_missed: u64,
    /// JFT's estimate, where ten samples were drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_rate: Option<MissingRate>,
}

/// A labelled record with its judgement.
pub(super) struct Seen<'a> {
    pub(super) line: &'a Line,
    pub(super) judged: Judged,
    /// For each secret, the record to which it is assigned; `None` if that record was not drawn.
    brought_by: Vec<Option<Bringer>>,
}

impl Seen<'_> {
    fn missed(&self) -> bool {
        self.judged.fates.iter().any(|fate| !fate.caught)
    }

    fn flagged(&self) -> Option<bool> {
        self.judged.flagged
    }

    /// Returns the texts of missed secrets.
    pub(super) fn missed_texts(&self) -> Vec<String> {
        let texts = texts(self.line).into_iter().zip(&self.judged.fates);
        let missed = texts.filter(|(_, fate)| !fate.caught);
        missed.map(|(text, _)| text).collect()
    }
}

/// Returns the texts of the secrets of a record.
fn texts(line: &Line) -> Vec<String> {
    let document = line.document();
    let secrets = document.secrets.iter();
    secrets
        .map(|secret| document.secret_text(secret).to_owned())
        .collect()
}

/// Judges every labelled record; `records` are those from which the sample was drawn.
pub(super) fn judge<'a>(
    sheet: &'a Sheet,
    judge: &PolicyJudge,
    records: &[Document],
) -> Result<Vec<Seen<'a>>> {
    let bringers = bringers(sheet, records)?;
    let of = |line: &'a Line| -> Result<Seen<'a>> {
        let texts = texts(line);
        let brought_by = texts.iter().map(|text| bringers.get(text).copied());
        Ok(Seen {
            brought_by: brought_by.collect(),
            judged: judge.judge(&line.document())?,
            line,
        })
    };
    sheet.lines.iter().map(of).collect()
}

/// The random record to which a secret is assigned.
#[derive(Clone, Copy)]
struct Bringer {
    /// Its line.
    line: usize,
    /// Whether no record outside the sample can introduce the secret.
    certain: bool,
}

/// Assigns the text of each secret to the first random record in which it is labelled. A secret in many records is drawn
/// more often; so that it has no more weight than others, it counts only in the first record of all that a reader would
/// label it in. An earlier record outside the sample is that one if DATA marks the text there. If it only contains the
/// text, perhaps inside another secret, nobody knows: the secret then counts if it is missed and not if it is caught,
/// which can only raise the bounds. Where DATA marks the text, a record that contains it unmarked does not introduce it.
fn bringers(sheet: &Sheet, records: &[Document]) -> Result<HashMap<String, Bringer>> {
    let places: HashMap<&str, usize> = records
        .iter()
        .enumerate()
        .map(|(at, record)| (&*record.id, at))
        .collect();
    let mut drawn = BTreeSet::new();
    // The place and the line of the first record in which each text is labelled.
    let mut labelled: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let lines = sheet.lines.iter().enumerate();
    for (number, line) in lines.filter(|(_, line)| line.drawn == Drawn::Random) {
        if let Some(&place) = places.get(&*line.record) {
            drawn.insert(place);
            for text in texts(line) {
                let first = labelled.entry(text).or_insert((place, number));
                *first = (place, number).min(*first);
            }
        }
    }
    let others: Vec<usize> = (0..records.len())
        .filter(|at| !drawn.contains(at))
        .collect();
    let mut marked: HashSet<(&str, usize)> = HashSet::new();
    let mut marked_elsewhere: HashMap<&str, usize> = HashMap::new();
    for (at, record) in records.iter().enumerate() {
        for secret in &record.secrets {
            let text = record.secret_text(secret);
            marked.insert((text, at));
            if !drawn.contains(&at) {
                marked_elsewhere.entry(text).or_insert(at);
            }
        }
    }
    let (texts, labelled): (Vec<String>, Vec<_>) = labelled.into_iter().unzip();
    let first = first_records(others.iter().map(|&at| &records[at]), &texts)?;
    let bringers = texts.into_iter().zip(labelled).zip(first);
    let bringers = bringers.filter_map(|((text, (place, line)), first)| {
        if marked_elsewhere.get(&*text).is_some_and(|&at| at < place) {
            return None;
        }
        let contained_before = first.is_some_and(|first| others[first] < place);
        let certain = !contained_before || marked.contains(&(&*text, place));
        Some((text, Bringer { line, certain }))
    });
    Ok(bringers.collect())
}

/// The result for the secrets assigned to one record.
#[derive(Default)]
struct Brought<'a> {
    kinds: BTreeSet<&'a str>,
    missed: bool,
    missed_by_both: bool,
    /// Whether it introduces one of them for certain.
    certain: bool,
}

/// Returns, by line, each random record to which one of these secrets is assigned. Records were drawn, so a bound
/// counts records: a record is missed if any of its secrets is missed, in any record of the sample.
fn brought<'a>(
    seen: &'a [Seen<'_>],
    of: impl Fn(&SecretFate) -> bool,
) -> BTreeMap<usize, Brought<'a>> {
    let mut all: BTreeMap<usize, Brought<'a>> = BTreeMap::new();
    for s in random(seen) {
        let fates = s.judged.fates.iter().zip(&s.brought_by);
        for (fate, by) in fates.filter(|(fate, _)| of(fate)) {
            let Some(by) = by.filter(|by| by.certain || !fate.caught) else {
                continue;
            };
            let brought = all.entry(by.line).or_default();
            brought.certain |= by.certain;
            brought.kinds.insert(&fate.kind);
            brought.missed |= !fate.caught;
            brought.missed_by_both |= !fate.caught && s.flagged() == Some(false);
        }
    }
    // As a record that both policies do not miss, one that may introduce nothing would lower the bound on eta.
    for brought in all.values_mut().filter(|brought| !brought.certain) {
        brought.missed_by_both = brought.missed;
    }
    all
}

/// One label for each random record that brings a secret.
pub(super) fn labels(seen: &[Seen<'_>], measured_for: Option<&MeasuredFor>) -> Vec<Label> {
    let of = |(line, brought): (usize, Brought<'_>)| {
        let kinds: Vec<&str> = brought.kinds.into_iter().collect();
        // For a missed secret, whether both policies missed it in one place.
        let unflagged = |flagged: bool| match brought.missed {
            true => brought.missed_by_both,
            false => !flagged,
        };
        Label {
            kind: kinds.join("+"),
            missed: brought.missed,
            missed_by_conservative: seen[line].flagged().map(unflagged),
            secret: Some(seen[line].line.record.clone()),
            place: Some(seen[line].line.record.clone()),
            records: None,
            population: None,
            measured_for: measured_for.cloned(),
        }
    };
    brought(seen, |_| true).into_iter().map(of).collect()
}

fn random<'a, 'b>(seen: &'a [Seen<'b>]) -> impl Iterator<Item = &'a Seen<'b>> {
    seen.iter().filter(|s| s.line.drawn == Drawn::Random)
}

impl Screening {
    /// Computes counts and bounds. `labels` come from [`labels`]; `corpus` holds the words of all records, for JFT's
    /// Pct.
    pub(super) fn of(
        sheet: &Sheet,
        seen: &[Seen<'_>],
        labels: &[Label],
        confidence: Confidence,
        corpus: Words,
    ) -> Result<Self> {
        let count = |of: &dyn Fn(&Seen<'_>) -> bool| random(seen).filter(|s| of(s)).count() as u64;
        let rates = if labels.is_empty() {
            None
        } else {
            Some(LabelledSecrets::gather(labels.to_vec())?.rates(confidence)?)
        };
        let near: Vec<&Seen<'_>> = seen
            .iter()
            .filter(|s| s.line.drawn == Drawn::NearThreshold)
            .collect();
        Ok(Self {
            sample: sheet.header.sample,
            with_secrets: count(&|s| !s.judged.fates.is_empty()),
            missed: count(&|s| s.missed()),
            bringing: labels.len() as u64,
            bringing_missed: labels.iter().filter(|l| l.missed).count() as u64,
            rates,
            kinds: kinds(seen, confidence)?,
            found: found(seen, confidence)?,
            near: near.len() as u64,
            near_missed: near.iter().filter(|s| s.missed()).count() as u64,
            missing_rate: (sheet.header.samples == JFT_SAMPLES).then(|| missing_rate(seen, corpus)),
        })
    }
}

fn kinds(seen: &[Seen<'_>], confidence: Confidence) -> Result<BTreeMap<String, KindRow>> {
    let named: BTreeSet<&str> = random(seen)
        .flat_map(|s| s.judged.fates.iter().map(|f| &*f.kind))
        .collect();
    let row = |kind: &str| -> Result<KindRow> {
        let of: Vec<&SecretFate> = random(seen)
            .flat_map(|s| &s.judged.fates)
            .filter(|fate| fate.kind == kind)
            .collect();
        let secrets = of.len() as u64;
        let covered = of.iter().filter(|fate| fate.covered).count() as u64;
        let caught = of.iter().filter(|fate| fate.caught).count() as u64;
        let brought = brought(seen, |fate| fate.kind == kind);
        let count =
            |of: fn(&Brought<'_>) -> bool| brought.values().filter(|b| of(b)).count() as u64;
        let records = brought.len() as u64;
        let (missed, by_both) = (count(|b| b.missed), count(|b| b.missed_by_both));
        let conservative = random(seen).any(|s| s.flagged().is_some());
        // Without a record that brings one nothing is known.
        let upper = |count| match records {
            0 => Ok(Upper::new(Probability::ONE)),
            _ => share_of_sampled(count, records, confidence),
        };
        let all_caught = match records {
            0 => Lower::new(Probability::new(0.0)?),
            _ => least_share_of_sampled(records - missed, records, confidence)?,
        };
        Ok(KindRow {
            records,
            missed,
            gamma: upper(missed)?,
            missed_by_both: conservative.then_some(by_both),
            eta: conservative.then(|| upper(by_both)).transpose()?,
            secrets,
            covered,
            recall: covered as f64 / secrets as f64,
            caught,
            nothing_left: caught as f64 / secrets as f64,
            records_all_caught: all_caught,
        })
    };
    named
        .into_iter()
        .map(|kind| Ok((kind.to_owned(), row(kind)?)))
        .collect()
}

fn found(seen: &[Seen<'_>], confidence: Confidence) -> Result<BTreeMap<String, FoundRow>> {
    let named: BTreeSet<&str> = random(seen)
        .flat_map(|s| s.judged.found.iter().map(|(f, _)| &*f.kind))
        .collect();
    let row = |kind: &str| -> Result<FoundRow> {
        let (mut spans, mut right, mut records, mut records_right) = (0, 0, 0, 0);
        for s in random(seen) {
            let of: Vec<bool> = s
                .judged
                .found
                .iter()
                .filter(|(f, _)| f.kind == kind)
                .map(|(_, r)| *r)
                .collect();
            spans += of.len() as u64;
            right += of.iter().filter(|r| **r).count() as u64;
            records += u64::from(!of.is_empty());
            records_right += u64::from(!of.is_empty() && of.iter().all(|r| *r));
        }
        Ok(FoundRow {
            spans,
            right,
            precision: right as f64 / spans as f64,
            records,
            records_right,
            records_all_right: least_share_of_sampled(records_right, records, confidence)?,
        })
    };
    named
        .into_iter()
        .map(|kind| Ok((kind.to_owned(), row(kind)?)))
        .collect()
}

fn missing_rate(seen: &[Seen<'_>], corpus: Words) -> MissingRate {
    let random: Vec<&Seen<'_>> = random(seen).collect();
    let each = (random.len() / JFT_SAMPLES as usize).max(1);
    let samples: Vec<f64> = random
        .chunks(each)
        .map(|sample| {
            let mut words = Words::default();
            for seen in sample {
                words += seen.judged.words;
            }
            words.missed as f64 / words.all.max(1) as f64
        })
        .collect();
    let redacted = corpus.redacted as f64 / corpus.all.max(1) as f64;
    let (low, high) = students(&samples);
    // Without a redacted word there is nothing that recall could be a share of.
    let recall = |m: f64| {
        if redacted > 0.0 {
            (1.0 - m / redacted).max(0.0)
        } else {
            0.0
        }
    };
    MissingRate {
        low: Estimate::new(low),
        high: Estimate::new(high),
        redacted,
        recall_low: Estimate::new(recall(high)),
        recall_high: Estimate::new(recall(low)),
        samples,
    }
}

/// Returns Student's 95 % interval of the mean of ten numbers, clamped to [0, 1]; all of that where they are equal, since
/// an interval without width would be certain of a few records.
pub(super) fn students(samples: &[f64]) -> (f64, f64) {
    if samples
        .windows(2)
        .all(|two| two[0].to_bits() == two[1].to_bits())
    {
        return (0.0, 1.0);
    }
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let variance =
        samples.iter().map(|m| (m - mean) * (m - mean)).sum::<f64>() / (n - 1.0).max(1.0);
    let half = T_NINE * (variance / n).sqrt();
    ((mean - half).max(0.0), (mean + half).min(1.0))
}

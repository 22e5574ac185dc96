//! Miss rates estimated from secrets labelled by hand.

use crate::guarantee::redaction::Redaction;
use crate::numeric::statistics::{check_sample_confidence, share_of_sampled};
use crate::quantity::bound::Upper;
use crate::quantity::error::{Error, Result};
use crate::quantity::{Confidence, MissRate, UnitName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};

/// One labelled place of a secret.
///
/// ```
/// use reticent_accounting::confidentiality::Label;
/// let line = r#"{"kind":"phone","missed":true,"missed_by_conservative":false,"secret":"s-17","population":1200}"#;
/// let label: Label = serde_json::from_str(line).unwrap();
/// assert!(label.missed && label.population == Some(1200));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Label {
    /// Kind of secret: the stratum it was drawn from.
    pub kind: String,
    /// Whether the redaction policy misses it here.
    pub missed: bool,
    /// Whether the conservative policy does not flag the record either; absent when it was not
    /// looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_by_conservative: Option<bool>,
    /// Which secret it is, where several places of one were labelled; absent for a secret with
    /// one label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The record that shows it here, such as its id: two labels of one secret in one place are refused, and those without a
    /// place may all be of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// How many records show the secret, the same on each of its labels; absent where nobody counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<u64>,
    /// Number of distinct secrets of this kind in the corpus, the same on every label of the
    /// kind that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub population: Option<u64>,
    /// What was measured, the same on every label: the rates of one policy say nothing of another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_for: Option<MeasuredFor>,
}

/// The policies that labels were measured for, and on which records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeasuredFor {
    /// The type of the redaction policy, such as `general`.
    pub policy: String,
    /// Which one it is: `sha256:` with its digest, or `hmac:` with one under the owner's key where it holds words of the
    /// owner's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The same of the conservative policy, where that was measured too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conservative: Option<String>,
    /// What one record is.
    pub unit: UnitName,
    /// The seed of the sample, where it was given: whoever knows it can foresee the sample, and another one draws another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

impl MeasuredFor {
    /// What keeps labels from being those of a corpus, both named; none where all that both say is the same.
    ///
    /// ```
    /// use reticent_accounting::UnitName;
    /// use reticent_accounting::confidentiality::MeasuredFor;
    /// let unit = UnitName::new("turn")?;
    /// let of = |policy: &str| MeasuredFor {
    ///     policy: policy.into(), digest: None, conservative: None, unit: unit.clone(), seed: None,
    /// };
    /// assert_eq!(of("general").disagreement(&of("general")), None);
    /// assert!(of("general").disagreement(&of("nothing")).unwrap().contains("nothing"));
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    #[must_use]
    pub fn disagreement(&self, corpus: &Self) -> Option<String> {
        let differ = |ours: &Option<String>, theirs: &Option<String>| {
            ours.is_some() && theirs.is_some() && ours != theirs
        };
        let shown = |of: &Self| match &of.digest {
            Some(digest) => format!("{} ({digest})", of.policy),
            None => of.policy.clone(),
        };
        let keyed =
            |digest: &Option<String>| digest.as_ref().is_some_and(|d| d.starts_with("hmac:"));
        let (what, ours, theirs, private) =
            if self.policy != corpus.policy || differ(&self.digest, &corpus.digest) {
                (
                    "policy",
                    shown(self),
                    shown(corpus),
                    keyed(&self.digest) && keyed(&corpus.digest),
                )
            } else if differ(&self.conservative, &corpus.conservative) {
                let named = |of: &Self| of.conservative.clone().unwrap_or_default();
                let private = keyed(&self.conservative) && keyed(&corpus.conservative);
                ("conservative policy", named(self), named(corpus), private)
            } else if self.unit != corpus.unit {
                let named = |of: &Self| of.unit.to_string();
                ("unit", named(self), named(corpus), false)
            } else {
                return None;
            };
        let other_key = match private {
            true => "; the digests differ under another owner's key too",
            false => "",
        };
        Some(format!(
            "the labels were measured for the {what} {ours}, the corpus was prepared with {theirs}{other_key}"
        ))
    }
}

/// Labelled secrets of one kind. The unit is the secret: missed when it is missed in at least
/// one of its labelled places.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct StratumCounts {
    /// Secrets labelled.
    pub labelled: u64,
    /// Of them missed by the redaction policy.
    pub missed: u64,
    /// Of them missed by both policies in the same place.
    pub missed_by_both: u64,
    /// Labelled places.
    pub places: u64,
    /// Distinct secrets of the kind in the corpus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub population: Option<u64>,
}

/// A sample of secrets labelled by hand before any threshold was tuned on it: a simple random sample within each
/// kind (adaptive selection voids the bounds).
///
/// Several places of one secret are one observation: counting them separately would claim more labels than there
/// are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelledSecrets {
    strata: BTreeMap<String, StratumCounts>,
    conservative_labelled: bool,
    /// The fewest labelled places of a secret that may be in more records than these; `None` if there is no such secret.
    fewest_places: Option<u64>,
    measured_for: Option<MeasuredFor>,
}

/// A secret while its labels are gathered.
struct Gathered {
    kind: String,
    missed: bool,
    missed_by_both: bool,
    /// The places that its labels name.
    places: HashSet<String>,
    records: Option<u64>,
}

impl Gathered {
    /// The number of places in which it was labelled for certain.
    fn distinct_places(&self) -> u64 {
        self.places.len().max(1) as u64
    }
}

/// Upper bounds for one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KindRates {
    /// What was counted.
    pub counts: StratumCounts,
    /// The kind's share of all secrets.
    pub weight: f64,
    /// Miss rate of the redaction policy.
    pub gamma: Upper<MissRate>,
    /// Share missed by both policies.
    pub eta: Upper<MissRate>,
}

/// Upper bounds on both rates that hold together with the stated confidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredRates {
    /// With this probability over the sample, every bound here holds at once.
    pub confidence: Confidence,
    /// The confidence of each single bound, after the split.
    pub each: Confidence,
    /// γ: missed by the redaction policy.
    pub gamma: Upper<MissRate>,
    /// η: missed by both policies; equal to γ when the conservative policy was not labelled.
    pub eta: Upper<MissRate>,
    /// By kind; a single entry when the sample was not stratified.
    pub by_kind: BTreeMap<String, KindRates>,
    /// Whether kinds were bounded apart and weighted by their sizes.
    pub stratified: bool,
}

impl MeasuredRates {
    /// Returns the rates as a redaction.
    ///
    /// # Errors
    /// None for rates made here.
    pub fn redaction(&self) -> Result<Redaction> {
        Redaction::new(*self.gamma.get(), *self.eta.get())
    }
}

fn bad(what: &'static str, range: &'static str, value: u64) -> Error {
    Error::out_of_range(what, range, value as f64)
}

impl LabelledSecrets {
    /// Groups labels into secrets and secrets into kinds.
    ///
    /// ```
    /// use reticent_accounting::confidentiality::{Label, LabelledSecrets};
    /// let label = |secret: &str, missed| Label {
    ///     kind: "phone".into(), missed, missed_by_conservative: Some(false),
    ///     secret: Some(secret.into()), place: None, records: None, population: None, measured_for: None,
    /// };
    /// // Three places, two secrets, one of them missed somewhere.
    /// let sample = LabelledSecrets::gather([label("a", false), label("a", true), label("b", false)])?;
    /// assert_eq!((sample.labelled(), sample.missed()), (2, 1));
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] if there is no label, if a secret has no records, or if a population is smaller than its sample;
    /// [`Error::Unsupported`] if it differs between two labels of a kind, if a secret has two kinds, two numbers of records or two labels in
    /// one place, if a kind has no population while another has one, or if the conservative policy was labelled on some lines only.
    pub fn gather(labels: impl IntoIterator<Item = Label>) -> Result<Self> {
        let mut secrets: Vec<Gathered> = Vec::new();
        let mut known: HashMap<String, usize> = HashMap::new();
        let mut strata: BTreeMap<String, StratumCounts> = BTreeMap::new();
        let (mut with, mut without) = (0u64, 0u64);
        let mut measured_for: Option<Option<MeasuredFor>> = None;
        for label in labels {
            if *measured_for.get_or_insert_with(|| label.measured_for.clone()) != label.measured_for
            {
                return Err(Error::Unsupported {
                    what: "labels with different measured_for".into(),
                    why: "the rates are those of one policy, unit and sample; keep the labels of each in a file"
                        .into(),
                });
            }
            match label.missed_by_conservative {
                Some(_) => with += 1,
                None => without += 1,
            }
            let both = label.missed && label.missed_by_conservative.unwrap_or(true);
            let stratum = strata.entry(label.kind.clone()).or_default();
            stratum.places += 1;
            if let Some(population) = label.population {
                if let Some(other) = stratum.population.filter(|other| *other != population) {
                    return Err(Error::Unsupported {
                        what: "a kind with two populations".into(),
                        why: format!(
                            "population must be the same number on each label of the kind, got {other} and {population}"
                        ),
                    });
                }
                stratum.population = Some(population);
            }
            let index = match &label.secret {
                Some(id) => *known.entry(id.clone()).or_insert(secrets.len()),
                None => secrets.len(),
            };
            if index == secrets.len() {
                secrets.push(Gathered {
                    kind: label.kind.clone(),
                    missed: false,
                    missed_by_both: false,
                    places: HashSet::new(),
                    records: label.records,
                });
            }
            if label.records == Some(0) {
                return Err(bad("records of a secret", "[1, 2^64)", 0));
            }
            let secret = &mut secrets[index];
            if secret.kind != label.kind {
                return Err(Error::Unsupported {
                    what: format!(
                        "a secret labelled as {:?} and as {:?}",
                        secret.kind, label.kind
                    ),
                    why: "a secret belongs to one kind".into(),
                });
            }
            if secret.records != label.records {
                return Err(Error::Unsupported {
                    what: "a secret whose labels differ in records".into(),
                    why: "the number of records that show it is the same on each of them".into(),
                });
            }
            // A blank one names no place.
            if let Some(place) = label.place.filter(|place| !place.trim().is_empty())
                && !secret.places.insert(place)
            {
                return Err(Error::Unsupported {
                    what: "two labels of one secret in one place".into(),
                    why: "as places of a secret they would count twice; leave repeated labels out"
                        .into(),
                });
            }
            secret.missed |= label.missed;
            secret.missed_by_both |= both;
        }
        if with > 0 && without > 0 {
            return Err(Error::Unsupported {
                what: format!("{without} labels without missed_by_conservative"),
                why: format!("{with} others have it; label it on all or on none"),
            });
        }
        let partly = |secret: &&Gathered| {
            (secret.records).is_none_or(|records| secret.distinct_places() < records)
        };
        let partly_labelled = secrets.iter().filter(partly);
        let fewest_places = partly_labelled.map(Gathered::distinct_places).min();
        for secret in secrets {
            let stratum = strata.entry(secret.kind).or_default();
            stratum.labelled += 1;
            stratum.missed += u64::from(secret.missed);
            stratum.missed_by_both += u64::from(secret.missed_by_both);
        }
        let sample = Self {
            strata,
            conservative_labelled: with > 0,
            fewest_places,
            measured_for: measured_for.flatten(),
        };
        sample.check()?;
        Ok(sample)
    }

    fn check(&self) -> Result<()> {
        if self.strata.is_empty() {
            return Err(bad("number of labels", "[1, 2^53]", 0));
        }
        for stratum in self.strata.values() {
            if let Some(population) = stratum.population
                && population < stratum.labelled
            {
                return Err(bad(
                    "population of a kind",
                    "[its labelled secrets, 2^64)",
                    population,
                ));
            }
        }
        let sized = self.strata.values().filter(|s| s.population.is_some());
        let sized = sized.count();
        if sized > 0 && sized < self.strata.len() {
            let missing = self.strata.iter().find(|(_, s)| s.population.is_none());
            return Err(Error::Unsupported {
                what: format!(
                    "kind {:?} without a population",
                    missing.map_or("", |(kind, _)| kind)
                ),
                why: "other kinds have one; the weights need all of them".into(),
            });
        }
        Ok(())
    }

    /// What the labels say that they were measured for.
    #[must_use]
    pub const fn measured_for(&self) -> Option<&MeasuredFor> {
        self.measured_for.as_ref()
    }

    /// Returns the counts by kind.
    #[must_use]
    pub const fn strata(&self) -> &BTreeMap<String, StratumCounts> {
        &self.strata
    }

    /// Returns the number of labelled secrets.
    #[must_use]
    pub fn labelled(&self) -> u64 {
        self.strata.values().map(|s| s.labelled).sum()
    }

    /// Returns the number of labelled places.
    #[must_use]
    pub fn places(&self) -> u64 {
        self.strata.values().map(|s| s.places).sum()
    }

    /// Returns the number of labelled secrets missed by the redaction policy.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.strata.values().map(|s| s.missed).sum()
    }

    /// Returns the number of labelled secrets missed by both policies.
    #[must_use]
    pub fn missed_by_both(&self) -> u64 {
        self.strata.values().map(|s| s.missed_by_both).sum()
    }

    /// Returns whether the conservative policy was labelled too.
    #[must_use]
    pub const fn conservative_labelled(&self) -> bool {
        self.conservative_labelled
    }

    /// Returns the largest number of records of a secret, at least 1, for which the rates count all of them: the fewest
    /// places in which one of the secrets was labelled, those aside that were labelled in as many places as they have
    /// `records`; `None` if there is no other. Labels of a secret that name no `place` count as of one. A secret in more
    /// records is missed where any of them shows it, which is at least as often as the rates say.
    ///
    /// ```
    /// use reticent_accounting::confidentiality::{Label, LabelledSecrets};
    /// let label = |line| serde_json::from_str::<Label>(line).unwrap();
    /// let one = label(r#"{"kind":"phone","missed":false,"secret":"s-17"}"#);
    /// let here = label(r#"{"kind":"phone","missed":false,"secret":"s-18","place":"turn-3"}"#);
    /// let there = label(r#"{"kind":"phone","missed":false,"secret":"s-18","place":"turn-9"}"#);
    /// let all = label(r#"{"kind":"phone","missed":false,"secret":"s-19","records":1}"#);
    /// let of = |labels: &[&Label]| LabelledSecrets::gather(labels.iter().map(|&label| label.clone()));
    /// assert_eq!(of(&[&here, &there])?.fewest_places(), Some(2));
    /// assert_eq!(of(&[&one, &one])?.fewest_places(), Some(1));
    /// assert_eq!(of(&[&one, &here, &there])?.fewest_places(), Some(1));
    /// assert_eq!(of(&[&all, &here, &there])?.fewest_places(), Some(2));
    /// assert_eq!(of(&[&all])?.fewest_places(), None);
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    #[must_use]
    pub const fn fewest_places(&self) -> Option<u64> {
        self.fewest_places
    }

    /// Returns whether kinds have sizes, so that each kind is bounded separately.
    #[must_use]
    pub fn stratified(&self) -> bool {
        self.strata.len() > 1 && self.strata.values().all(|s| s.population.is_some())
    }

    /// Returns the number of bounds that share the confidence: kinds times rates.
    #[must_use]
    pub fn bounds(&self) -> u64 {
        let kinds = if self.stratified() {
            self.strata.len() as u64
        } else {
            1
        };
        kinds * (1 + u64::from(self.conservative_labelled))
    }

    /// Returns upper bounds on γ and η that hold together with `confidence`: Clopper–Pearson for each kind and rate
    /// at 1 − (1 − confidence)/bounds, the kinds weighted by their sizes.
    ///
    /// Bound: upper. Without sizes, all labels are one simple random sample. Sampling without replacement is
    /// covered for a confidence of at least 0.75 (Hoeffding 1956: a hypergeometric count has the lighter tail),
    /// except if all labels but one are missed, where the bound is 1.
    ///
    /// ```
    /// use reticent_accounting::Confidence;
    /// use reticent_accounting::confidentiality::{Label, LabelledSecrets};
    /// // CRT's appendix: 200 labels, 20 missed by the policy, none by the conservative one.
    /// let label = |i| Label {
    ///     kind: "any".into(), missed: i < 20, missed_by_conservative: Some(false), secret: None, place: None,
    ///     records: None, population: None, measured_for: None,
    /// };
    /// let rates = LabelledSecrets::gather((0..200).map(label))?.rates(Confidence::new(0.95)?)?;
    /// // Each at 97.5 %: 0.1503 and 0.01828, neither 0.1 nor 8e-5.
    /// assert!((rates.gamma.get().get() - 0.150213).abs() < 1e-6);
    /// assert!((rates.eta.get().get() - 0.018275).abs() < 1e-6);
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] if the confidence is below 0.75, or so close to one that its share rounds to
    /// one.
    pub fn rates(&self, confidence: Confidence) -> Result<MeasuredRates> {
        check_sample_confidence(confidence)?;
        let each = confidence.shared_by(self.bounds())?;
        let stratified = self.stratified();
        let groups = if stratified {
            self.strata.clone()
        } else {
            BTreeMap::from([(self.name(), self.pooled())])
        };
        let total: f64 = groups
            .values()
            .map(|s| s.population.unwrap_or(0) as f64)
            .sum();
        let mut by_kind = BTreeMap::new();
        let (mut gamma, mut eta) = (0.0, 0.0);
        for (kind, counts) in groups {
            let weight = if stratified {
                counts.population.unwrap_or(0) as f64 / total
            } else {
                1.0
            };
            let rates = self.kind(counts, weight, each)?;
            gamma += weight * rates.gamma.get().get();
            eta += weight * rates.eta.get().get();
            by_kind.insert(kind, rates);
        }
        // Rounded up.
        let up = |rate: f64| MissRate::new((rate * (1.0 + 1e-14)).min(1.0));
        let gamma = up(gamma)?;
        let eta = up(eta)?;
        Ok(MeasuredRates {
            confidence,
            each,
            gamma: Upper::new(gamma),
            // The share missed by both is at most the share missed.
            eta: Upper::new(if eta < gamma { eta } else { gamma }),
            by_kind,
            stratified,
        })
    }

    fn kind(&self, counts: StratumCounts, weight: f64, each: Confidence) -> Result<KindRates> {
        let bound = |missed: u64| -> Result<f64> {
            Ok(share_of_sampled(missed, counts.labelled, each)?.get().get())
        };
        let gamma = bound(counts.missed)?;
        let eta = if self.conservative_labelled {
            bound(counts.missed_by_both)?.min(gamma)
        } else {
            gamma
        };
        Ok(KindRates {
            weight,
            gamma: Upper::new(MissRate::new(gamma)?),
            eta: Upper::new(MissRate::new(eta)?),
            counts,
        })
    }

    fn name(&self) -> String {
        match self.strata.first_key_value() {
            Some((kind, _)) if self.strata.len() == 1 => kind.clone(),
            _ => "all".into(),
        }
    }

    fn pooled(&self) -> StratumCounts {
        let population = self.strata.values().map(|s| s.population).sum();
        StratumCounts {
            labelled: self.labelled(),
            missed: self.missed(),
            missed_by_both: self.missed_by_both(),
            places: self.places(),
            population,
        }
    }

    /// Returns the sample with `more` further labels at the same share of misses (rounded up), to plan how much
    /// further labels would improve the bounds.
    #[must_use]
    pub fn enlarged(&self, more: u64) -> Self {
        let total = self.labelled().max(1);
        let mut out = self.clone();
        for stratum in out.strata.values_mut() {
            let extra = (more as u128 * u128::from(stratum.labelled)).div_ceil(u128::from(total));
            let extra = u64::try_from(extra).unwrap_or(u64::MAX);
            let extra = match stratum.population {
                Some(population) => extra.min(population - stratum.labelled),
                None => extra,
            };
            let share = |missed: u64| {
                let grown = (u128::from(missed) * u128::from(extra))
                    .div_ceil(u128::from(stratum.labelled.max(1)));
                missed + u64::try_from(grown).unwrap_or(u64::MAX)
            };
            stratum.missed = share(stratum.missed);
            stratum.missed_by_both = share(stratum.missed_by_both);
            stratum.labelled += extra;
            stratum.places += extra;
        }
        out
    }
}

//! The canary plan: the canaries, their copies, their places, and the text around them.

use super::draw::{Draw, check_doses, dose, secrets};
use super::format::CanaryFormat;
use super::insert::gaps;
use super::places::{Ground, speaks};
use super::spec::Spec;
use super::template::{CanaryTemplate, candidate};
use crate::document::Document;
use crate::error::json_problem;
use crate::error::{Error, Result};
use crate::unit::Unit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// How copies of one canary differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Carriers {
    /// The text after the secret differs in every copy: copies survive exact deduplication.
    #[default]
    Vary,
    /// All copies are alike: exact deduplication leaves one.
    Same,
}

/// What to plant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CanaryOptions {
    /// How many canaries and copies.
    pub spec: Spec,
    /// Numbers of copies that the canaries have in turn, for a dose–response curve; all have the
    /// spec's if there are none. The largest is the spec's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doses: Vec<u32>,
    /// Their shape.
    #[serde(default)]
    pub template: CanaryFormat,
    /// The texts that a sampled place chooses among, as a public model gave them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sampled: Vec<String>,
    /// How copies differ.
    #[serde(default)]
    pub carriers: Carriers,
    /// Whether each canary has words of its own before the template, the same in all its copies.
    /// Canaries that share a context compete for the first ranks in it: memorised together, ten
    /// fill the ranks 1 to 10, and bound ε less than ten at rank 1 of contexts of their own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_contexts: bool,
    /// Whether all secrets differ (drawn uniformly without replacement), or are drawn
    /// uniformly and independently, so that two canaries may share one.
    #[serde(default = "yes")]
    pub distinct: bool,
    /// How many of the canaries the redaction policy catches: drawn with them, and masked in every copy.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub caught: u32,
    /// Seed of secrets, places and carriers.
    #[serde(default)]
    pub seed: u64,
    /// Where the seed comes from.
    #[serde(default)]
    pub seed_origin: SeedOrigin,
}

/// Where a seed of canaries comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SeedOrigin {
    /// Given by somebody: whoever knows or guesses it draws the same canaries again.
    #[default]
    Given,
    /// Drawn by the operating system, and kept with the owner.
    System,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde calls")]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn yes() -> bool {
    true
}

impl CanaryOptions {
    /// Creates options with the default template, varying carriers, distinct secrets and seed 0.
    #[must_use]
    pub fn new(spec: Spec) -> Self {
        Self {
            spec,
            doses: Vec::new(),
            template: CanaryFormat::default(),
            sampled: Vec::new(),
            carriers: Carriers::default(),
            own_contexts: false,
            distinct: true,
            caught: 0,
            seed: 0,
            seed_origin: SeedOrigin::Given,
        }
    }

    /// Returns the options with a seed from the operating system.
    ///
    /// # Errors
    /// Returns an error if the system provides no random numbers.
    pub fn with_system_seed(self) -> Result<Self> {
        Ok(Self {
            seed: crate::random::system_seed()?,
            seed_origin: SeedOrigin::System,
            ..self
        })
    }
}

/// One inserted line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Insertion {
    /// Id of the document.
    pub document: String,
    /// Number of the document's own lines that stand before it.
    pub line: u64,
    /// The whole line.
    pub text: String,
}

/// One canary with all its copies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Canary {
    /// `canary-0`, `canary-1`, …
    pub id: String,
    /// The secret: the text of the fields.
    pub secret: String,
    /// The line up to the secret, the same in every copy: the context it is scored in.
    pub context: String,
    /// What follows the secret in copy 0.
    pub after: String,
    /// Whether the redaction policy catches it: its secret is masked in every copy.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub caught: bool,
    /// The copies.
    pub insertions: Vec<Insertion>,
}

/// A canary plan, the content of `canaries.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CanaryPlan {
    /// Version of the format: 1.
    pub schema: u32,
    /// `canary-plan`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Seed of secrets, places and carriers.
    pub seed: u64,
    /// Where the seed comes from.
    #[serde(default)]
    pub seed_origin: SeedOrigin,
    /// The shape.
    pub template: CanaryTemplate,
    /// What one record of the corpus is.
    pub unit: Unit,
    /// Copies of each canary, at most.
    pub copies: u32,
    /// Numbers of copies that the canaries have in turn; all have `copies` if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doses: Vec<u32>,
    /// Size of the space each secret is uniform on; a string above 2^53.
    #[serde(with = "count")]
    #[schemars(with = "count::Either")]
    pub candidates: u128,
    /// How copies differ.
    pub carriers: Carriers,
    /// Whether secrets were drawn without replacement.
    pub distinct: bool,
    /// The canaries.
    pub canaries: Vec<Canary>,
    /// SHA-256 of all else, hexadecimal: a plan that was cut or edited has another one. Absent in files of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

impl CanaryPlan {
    /// Returns the SHA-256, in hexadecimal, of what identifies these canaries in measurements: seed, template, and each
    /// canary's context and secret.
    ///
    /// The places of copies are not included, so the digest is the same for two corpora. The digest may be published:
    /// guessing the secrets from it requires guessing the seed, which has 64 bits if the operating system drew it.
    ///
    /// # Errors
    /// Never fails: every part can be serialised as JSON.
    pub fn identity(&self) -> Result<String> {
        let canaries: Vec<_> = self
            .canaries
            .iter()
            .map(|canary| [&canary.id, &canary.context, &canary.secret])
            .collect();
        let json = serde_json::to_vec(&(self.seed, &self.template, canaries))
            .map_err(|error| Error::Plan(error.to_string()))?;
        Ok(crate::random::sha256(&json))
    }

    /// Draws secrets, carriers and places.
    ///
    /// Each secret is uniform over the template's candidates (without replacement when `distinct`), and each place
    /// uniform over all (document, line) gaps of the corpus. If most documents have a line beginning with `USR: `,
    /// canaries are such lines.
    ///
    /// # Errors
    /// Returns an error if the format still needs words, there are fewer candidates than distinct canaries, more copies
    /// than closing phrases (12 288) where carriers vary, or fewer canaries than the policy is to catch, if a dose is
    /// 0, if the largest dose is not the number of copies, or if the corpus has no document.
    pub fn new(options: &CanaryOptions, unit: Unit, documents: &[Document]) -> Result<Self> {
        let mut ground = Ground::default();
        let counts = documents.iter().map(|d| gaps(d).len() as u64);
        let counts: Vec<u64> = counts.collect();
        for (document, count) in documents.iter().zip(&counts) {
            ground.enter(speaks(document), *count);
        }
        let draw = Draw::new(options, ground, counts.into_iter().map(Ok))?;
        draw.placed(draw.plan(unit)?, |number| documents.get(number))
    }

    /// Returns the plan with the digest of its current content.
    #[must_use]
    pub fn with_digest(self) -> Self {
        let digest = Some(self.content_digest());
        Self { digest, ..self }
    }

    fn content_digest(&self) -> String {
        let bare = Self {
            digest: None,
            ..self.clone()
        };
        // Every part can be serialised as JSON.
        serde_json::to_vec(&bare)
            .map_or_else(|_| String::new(), |json| crate::random::sha256(&json))
    }

    /// Returns the numbers of canaries and copies, as in `10x20`.
    ///
    /// # Errors
    /// Returns an error if the counts are outside the allowed range.
    pub fn spec(&self) -> Result<Spec> {
        let canaries = u32::try_from(self.canaries.len()).unwrap_or(u32::MAX);
        Spec::new(canaries, self.copies)
    }

    /// Returns the number of copies of a canary, by its number.
    #[must_use]
    pub fn copies_of(&self, number: usize) -> u32 {
        dose(&self.doses, self.copies, number)
    }

    /// Reads `canaries.json` and checks that it is consistent.
    ///
    /// # Errors
    /// Returns an error if the text is not such a plan, or the plan contradicts itself: another schema, a secret
    /// outside the template, a wrong number of copies or candidates, a line without its secret, two canaries with the
    /// same id, a repeated secret in a distinct plan, secrets that its seed does not draw, or another digest.
    pub fn from_json(json: &str) -> Result<Self> {
        let plan: Self =
            serde_json::from_str(json).map_err(|error| Error::Plan(json_problem(&error)))?;
        plan.validate()?;
        plan.check_secrets()?;
        if plan
            .digest
            .as_ref()
            .is_some_and(|digest| *digest != plan.content_digest())
        {
            let why = "its digest is not that of what it says: cut or edited";
            return Err(Error::Plan(why.to_owned()));
        }
        Ok(plan)
    }

    /// Checks that the plan has a digest. Without one, canaries may have been removed after their ranks were known, or copies
    /// of all of them, which contradicts any promise.
    ///
    /// # Errors
    /// Returns an error if it has none.
    pub fn check_digest(&self) -> Result<()> {
        match &self.digest {
            Some(_) => Ok(()),
            None => Err(Error::Plan(
                "it has no digest, as an earlier version wrote it: whether it was cut or edited since is not known; plant again"
                    .to_owned(),
            )),
        }
    }

    /// Checks that the secrets are the first that the seed draws. Ranks of secrets chosen for their likelihood, or a
    /// plan from which canaries were removed for it, could contradict any promise.
    pub(super) fn check_secrets(&self) -> Result<()> {
        let count = self.canaries.len();
        let drawn = secrets(self.seed, self.distinct, &self.template, count);
        let pairs = self.canaries.iter().zip(&drawn);
        let other = pairs.filter(|(canary, drawn)| canary.secret != **drawn);
        match other.count() {
            0 => Ok(()),
            other => Err(Error::Plan(format!(
                "{other} of {count} secrets are not those that its seed draws: cut, edited, or of another plan"
            ))),
        }
    }

    /// Returns the text of `canaries.json`.
    ///
    /// # Errors
    /// Never fails in practice; passes on an error of the serialiser.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self).map_err(|error| Error::Plan(error.to_string()))
    }

    /// The checks of [`Self::from_json`], except those of the digest and of the secrets that the seed draws.
    ///
    /// # Errors
    /// As there.
    pub fn validate(&self) -> Result<()> {
        let wrong = |problem: String| Err(Error::Plan(problem));
        if self.schema != 1 || self.kind != "canary-plan" {
            return wrong(format!(
                "schema {} of type {:?}; schema 1 of type \"canary-plan\" is read",
                self.schema, self.kind
            ));
        }
        self.spec()?;
        check_doses(&self.doses, self.copies)?;
        if self.candidates != self.template.candidates() {
            return wrong(format!(
                "{} candidates; template {} has {}",
                self.candidates,
                self.template.shown(),
                self.template.candidates()
            ));
        }
        let mut ids = HashSet::new();
        let mut secrets = HashSet::new();
        for (number, canary) in self.canaries.iter().enumerate() {
            canary.validate(self, self.copies_of(number))?;
            if !ids.insert(&canary.id) {
                return wrong(format!("two canaries are called {}", canary.id));
            }
            if !secrets.insert(&canary.secret) && self.distinct {
                return wrong(format!(
                    "{} has the secret of another canary in a plan of distinct secrets",
                    canary.id
                ));
            }
        }
        Ok(())
    }

    /// Returns every secret in its context: the strings hidden from a policy that is made to miss the canaries.
    #[must_use]
    pub fn marks(&self) -> Vec<String> {
        self.canaries
            .iter()
            .map(|c| format!("{}{}", self.template.prefix(), c.secret))
            .collect()
    }

    /// Counts how often each canary's secret occurs in these texts after the template's words. Canaries that share a
    /// secret, as independent draws may, each have all its occurrences.
    pub fn occurrences<'t>(&self, texts: impl IntoIterator<Item = &'t str>) -> Vec<u64> {
        Occurrences::of(self).all(texts).of_canaries().collect()
    }

    /// Checks that no canary occurs in texts in which the plan is to be planted: they would hold more copies than it says, and
    /// no coin could leave it out. Nor may so many other candidates occur that secrets that do not are no uniform choice: of m
    /// canaries with N candidates each, at most 0.01 N/m, so that false-alarm rates are at most 1/0.99 times as large.
    ///
    /// # Errors
    /// Returns an error with the number of canaries, or of candidates, that occur.
    pub fn check_absent<'t>(&self, texts: impl IntoIterator<Item = &'t str>) -> Result<()> {
        Occurrences::of(self).all(texts).check_none()
    }

    /// Checks that no secret is known from the others, as it is where distinct canaries take every candidate, or each has
    /// only one: no rank of it says anything then.
    ///
    /// # Errors
    /// Returns an error with the numbers of canaries and candidates.
    pub fn check_ranks(&self) -> Result<()> {
        let canaries = self.canaries.len();
        let others = match self.distinct {
            true => canaries.saturating_sub(1) as u128,
            false => 0,
        };
        if self.candidates.saturating_sub(others) > 1 {
            return Ok(());
        }
        Err(Error::Plan(format!(
            "{canaries} canaries take all {} candidates of {}, so that each is known from the others and no rank says anything; \
             plant fewer (--canaries), a longer field (--canary-format), or --independent-secrets",
            self.candidates,
            self.template.shown()
        )))
    }

    /// Returns how many canaries lack a copy where they occur as often as [`Self::occurrences`] says. Nothing tells the
    /// copies of one secret apart, so canaries that share it lack one if it occurs less often than all of them together
    /// have copies.
    #[must_use]
    pub fn lacking(&self, occurrences: &[u64]) -> usize {
        let planted = self.copies_by_secret();
        let found = occurrences.iter().chain(std::iter::repeat(&0));
        let counts = self.canaries.iter().zip(found);
        counts
            .filter(|(canary, found)| planted.get(canary.secret.as_str()) > Some(*found))
            .count()
    }

    /// Returns the most copies that one canary may have where they occur as often as [`Self::occurrences`] says: its own,
    /// and whatever is beyond the copies of all canaries of its secret.
    #[must_use]
    pub fn most_copies(&self, occurrences: &[u64]) -> u64 {
        let planted = self.copies_by_secret();
        let counts = self.canaries.iter().zip(occurrences);
        let each = counts.map(|(canary, found)| {
            let all = planted.get(canary.secret.as_str()).copied().unwrap_or(0);
            canary.insertions.len() as u64 + found.saturating_sub(all)
        });
        each.max().unwrap_or(0)
    }

    /// Returns the copies of all canaries of each secret.
    fn copies_by_secret(&self) -> HashMap<&str, u64> {
        let mut planted: HashMap<&str, u64> = HashMap::new();
        for canary in &self.canaries {
            *planted.entry(&canary.secret).or_default() += canary.insertions.len() as u64;
        }
        planted
    }
}

impl Canary {
    fn validate(&self, plan: &CanaryPlan, copies: u32) -> Result<()> {
        let wrong = |problem: String| Err(Error::Plan(format!("{}: {problem}", self.id)));
        if !plan.template.matches(&self.secret) {
            return wrong(format!(
                "its secret does not fit template {}",
                plan.template.shown()
            ));
        }
        if !self.context.ends_with(plan.template.prefix()) {
            return wrong("its context does not end with the template's text".to_owned());
        }
        if self.insertions.len() != copies as usize {
            return wrong(format!(
                "{} insertions; the plan has {copies} copies of it",
                self.insertions.len(),
            ));
        }
        let start = format!("{}{}", self.context, self.secret);
        for (copy, insertion) in self.insertions.iter().enumerate() {
            let after = insertion.text.strip_prefix(start.as_str());
            let fits = after.is_some_and(|after| {
                after.starts_with(plan.template.suffix())
                    && !after.contains('\n')
                    && (copy > 0 || after == self.after)
            });
            if !fits {
                return wrong(format!(
                    "the text of insertion {copy} is not its context, secret and ending"
                ));
            }
        }
        Ok(())
    }
}

/// Counts the candidates of a plan in texts, where they stand after the template's words.
pub(crate) struct Occurrences<'p> {
    plan: &'p CanaryPlan,
    /// The choices at each position of a secret.
    positions: Vec<Vec<String>>,
    /// How often each candidate that occurs does, drawn or not.
    counts: HashMap<String, u64>,
}

/// The largest probability with which a plan may be refused for what its text holds: the secrets of a plan that is not
/// refused are uniform but for this, so that false-alarm rates are at most 1/(1 − 0.01) times as large.
const MOST_REFUSED: f64 = 0.01;

impl<'p> Occurrences<'p> {
    pub(crate) fn of(plan: &'p CanaryPlan) -> Self {
        Self {
            plan,
            positions: plan.template.positions(),
            counts: HashMap::new(),
        }
    }

    fn all<'t>(mut self, texts: impl IntoIterator<Item = &'t str>) -> Self {
        texts.into_iter().for_each(|text| self.enter(text));
        self
    }

    pub(crate) fn enter(&mut self, text: &str) {
        for (at, words) in text.match_indices(self.plan.template.prefix()) {
            let Some(secret) = candidate(&self.positions, &text[at + words.len()..]) else {
                continue;
            };
            match self.counts.get_mut(secret) {
                Some(count) => *count += 1,
                None => {
                    self.counts.insert(secret.to_owned(), 1);
                }
            }
        }
    }

    /// By canary.
    fn of_canaries(&self) -> impl Iterator<Item = u64> {
        let canaries = self.plan.canaries.iter();
        canaries.map(|canary| self.counts.get(&canary.secret).copied().unwrap_or(0))
    }

    /// Returns an error if any canary was found, or so many candidates that a plan of so many canaries would have been
    /// refused with a probability above 0.01: of m canaries with N candidates of which K occur, m K/N at most. Whoever
    /// takes another seed until none is found draws from the other N − K, and every test divides by N.
    pub(crate) fn check_none(&self) -> Result<()> {
        match self.of_canaries().filter(|count| *count > 0).count() {
            0 => self.check_uniform(),
            there => Err(Error::Plan(format!(
                "{there} of {} canaries already occur in the text, which would hold more copies than are planted; take the text without them, \
                 another --seed, or another --canary-format (a longer field, other words)",
                self.plan.canaries.len()
            ))),
        }
    }

    fn check_uniform(&self) -> Result<()> {
        let (there, all) = (self.counts.len(), self.plan.template.candidates());
        let refused = self.plan.canaries.len() as f64 * there as f64 / all as f64;
        if refused <= MOST_REFUSED {
            return Ok(());
        }
        Err(Error::Plan(format!(
            "{there} of {all} candidates of {} already occur in the text, so that canaries that do not are no uniform choice; \
             take the text without them, or another --canary-format (a longer field, other words)",
            self.plan.template.shown()
        )))
    }
}

/// Serialises a count that may exceed 2^53: as a number up to 2^53, as a string above.
mod count {
    use schemars::JsonSchema;
    use serde::{Deserialize, Deserializer, Serializer};

    const EXACT: u128 = 1 << 53;

    pub(super) fn serialize<S: Serializer>(value: &u128, s: S) -> Result<S::Ok, S::Error> {
        match u64::try_from(*value) {
            Ok(small) if *value <= EXACT => s.serialize_u64(small),
            _ => s.serialize_str(&value.to_string()),
        }
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(untagged)]
    pub(super) enum Either {
        Number(u64),
        Text(String),
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<u128, D::Error> {
        match Either::deserialize(d)? {
            Either::Number(value) => Ok(u128::from(value)),
            Either::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

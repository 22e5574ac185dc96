//! Secrets among their candidates, and the verdict on their promises.

use super::LEVEL;
use crate::audit::coins::Inclusion;
use crate::number::{count_of, grouped, nearest, rounded_up, shortest};
use crate::page::{Mood, Reach};
use crate::verdict::Verdict;
use reticent_accounting::Probability;
use reticent_attacks::extract::{PromiseTest, Reconstruction};
use schemars::JsonSchema;
use serde::Serialize;

/// How candidates were drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Drawn {
    /// Per secret with a shape, itself included; fewer if its shape has no more.
    pub candidates: u64,
    /// The seed.
    pub seed: u64,
}

/// Who states the promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The manifest of the checkpoint certifies it.
    Certified,
    /// The file of secrets, or of weights; nothing that ran certifies it.
    Stated,
    /// Nothing is promised.
    Nothing,
}

/// The secrets of one promise, and its verdict.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PromisedSecrets {
    /// Prior and posterior of the promise.
    pub promised: Vec<(Probability, Probability)>,
    /// Who states the bound.
    pub source: Source,
    /// The bound (prior, posterior), and the hits.
    #[serde(flatten)]
    pub test: PromiseTest,
    /// The bound next to what was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// What would let this audit contradict the bound; absent if it already can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// Why there is no verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_verdict: Option<String>,
}

/// All secrets.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SecretsReport {
    /// Their ranks.
    #[serde(flatten)]
    pub found: Reconstruction,
    /// Each secret's rank among its candidates, ties at their worst; only with `--show-ranks`, as with the model a rank
    /// names the secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks: Option<Vec<(String, u64)>>,
    /// How candidates were drawn; absent if all were listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drawn: Option<Drawn>,
    /// A verdict for each bound.
    pub by_promise: Vec<PromisedSecrets>,
    /// That the manifest behind the promise is not authenticated; absent if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
    /// Evidence that training met them.
    pub inclusion: Inclusion,
    /// Those that occur behind their contexts in the text of `--training`; absent without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub included: Option<u64>,
}

impl SecretsReport {
    /// Returns whether a promise is contradicted.
    #[must_use]
    pub fn is_contradicted(&self) -> bool {
        let mut verdicts = self.by_promise.iter().filter_map(|p| p.verdict.as_ref());
        verdicts.any(Verdict::is_contradicted)
    }

    /// Returns the mood of what is not contradicted. A leak is for review unless the promises judge it, which takes that
    /// training is known to have met each secret: one hit by luck shows nothing of the others. Without a leak the result is
    /// open if that is not known, if the ranks say nothing, or if some promise could not have been contradicted.
    pub(super) fn mood(&self) -> Mood {
        let known = self.inclusion == Inclusion::TrainedRecords && self.lacking() == 0;
        let reach = Reach {
            leak: self.found.least_blind_p_value() <= LEVEL,
            promise: Some(self.could_contradict() && known),
            limit: None,
        };
        let alike = self.by_promise.iter().any(|promised| promised.test.alike);
        Mood::of_leak(self.leaks(), reach, alike)
    }

    /// Returns how many secrets don't occur in the text of `--training`.
    fn lacking(&self) -> u64 {
        self.included.map_or(0, |included| {
            (self.found.ranks.len() as u64).saturating_sub(included)
        })
    }

    /// Describes what is unknown about the secrets in training, as a sentence to follow another; empty if nothing is.
    fn unknown(&self) -> String {
        match (self.inclusion, self.lacking()) {
            (Inclusion::NotChecked, _) => " It was not checked that training met them.".to_owned(),
            (_, lacking) if lacking > 0 => format!(
                " Of these, {} don't occur behind their contexts in the text of --training.",
                grouped(lacking)
            ),
            (Inclusion::GivenText, _) => {
                " That the model was trained on the text of --training is not known.".to_owned()
            }
            (Inclusion::TrainedRecords, _) => String::new(),
        }
    }

    /// Returns whether more secrets are hit than chance explains.
    fn leaks(&self) -> bool {
        self.found.blind_p_value() <= LEVEL
    }

    /// Returns whether there are promises and each of them could have been contradicted.
    fn could_contradict(&self) -> bool {
        !self.by_promise.is_empty()
            && self
                .by_promise
                .iter()
                .all(PromisedSecrets::could_contradict)
    }

    /// Describes the hits and the outcome for the promises.
    #[must_use]
    pub fn says(&self) -> String {
        let each = self.by_promise.iter().map(PromisedSecrets::says);
        let leak = match self.leaks() {
            true => format!(
                " Without it so many{} are hit with probability {} at most: it reveals secrets.",
                match self.found.repeated {
                    0 => "",
                    _ => ", each secret counted once,",
                },
                rounded_up(self.found.blind_p_value(), 2)
            ),
            // A leak shows that training met them.
            false => self.unknown(),
        };
        format!(
            "Among the model's best guesses are {} of {}; without it {} would be at most on average.{leak} {}",
            grouped(self.found.hits),
            count_of(self.found.ranks.len() as u64, "secret"),
            nearest(self.found.expected_blindly, 3),
            each.collect::<Vec<_>>().join(" ")
        )
    }

    /// Describes the origin of the candidates, and what the tests assume.
    #[must_use]
    pub fn origin(&self) -> Vec<String> {
        let origin = match self.drawn {
            Some(drawn) => format!(
                "Candidates: {} of each secret that has a shape, itself among them (all of a smaller shape), \
                 drawn from it with seed {}; others as listed.",
                grouped(drawn.candidates),
                drawn.seed
            ),
            None => "Candidates: as listed.".to_owned(),
        };
        let mut lines = Vec::new();
        if self.ranks.is_some() {
            lines.push("JSON and CSV hold each secret's rank (--show-ranks): with the model that names the secret, so keep them as private as the secrets.".to_owned());
        }
        lines.push(format!(
            "{origin} Premise: each secret is any of its candidates with the same chance, whatever the other \
             secrets and the rest of the text are."
        ));
        lines.extend(self.manifest.as_ref().map(|caveat| format!("{caveat}.")));
        lines
    }
}

impl PromisedSecrets {
    /// Returns whether there is a verdict that could have been a contradiction.
    pub(super) fn could_contradict(&self) -> bool {
        (self.verdict.as_ref()).is_some_and(Verdict::could_contradict)
    }

    /// Takes back a verdict that lets the promise stand, if `why` tells that the ranks can't support it.
    #[cfg(feature = "audit")]
    pub(super) fn unsupported(self, why: Option<String>) -> Self {
        let stands = |verdict: &Verdict| verdict.could_contradict() && !verdict.is_contradicted();
        let stands = self.verdict.as_ref().is_some_and(stands);
        match why.filter(|_| stands) {
            None => self,
            no_verdict => Self {
                verdict: None,
                no_verdict,
                ..self
            },
        }
    }

    fn says(&self) -> String {
        let promised: Vec<String> = self
            .promised
            .iter()
            .map(|(prior, posterior)| {
                format!("({}, {})", shortest(prior.get()), shortest(posterior.get()))
            })
            .collect();
        let said = match (&self.verdict, &self.no_verdict) {
            (Some(verdict), _) => format!(
                "the mean chance of a right guess, beside {}: {verdict}.{}",
                match self.source {
                    Source::Certified => "the manifest's certificate",
                    Source::Stated | Source::Nothing => "the promise as stated",
                },
                match &self.advice {
                    Some(advice) => format!(" Advice: {advice}."),
                    None => String::new(),
                }
            ),
            (None, why) => format!("{}.", why.as_deref().unwrap_or("no verdict")),
        };
        format!(
            "Promised {}; of guesses of mass {} {} of {} are right; {said}",
            promised.join(", "),
            nearest(self.test.prior, 3),
            grouped(self.test.hits),
            grouped(self.test.secrets)
        )
    }
}

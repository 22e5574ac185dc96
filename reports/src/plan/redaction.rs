//! The miss rates of the policies: given, or measured on labels.

use super::args::RedactionArgs;
use super::request::PlanRequest;
use super::{CONFIDENCE, labels};
use crate::number::count_of;
use anyhow::{Context, Result, bail, ensure};
use reticent_accounting::confidentiality::LabelledSecrets;
use reticent_accounting::redaction::Redaction;
use reticent_accounting::statistics::{LabelledSample, check_sample_confidence};
use reticent_accounting::training::{LabelledRates, Provenance, Stated};
use reticent_accounting::{Confidence, GroupSize, MissRate, UnitName};

/// Both miss rates and their sources.
#[derive(Debug, Clone, PartialEq)]
pub struct Redacted {
    /// γ and η, with the source of γ.
    pub redaction: Stated<Redaction>,
    /// Whether η is a default.
    pub joint_assumed: bool,
    /// The counts behind a measured γ.
    pub sample: Option<LabelledSample>,
    /// The confidence of a measured γ, and whether that is a default.
    pub confidence: Option<Stated<Confidence>>,
    /// Labels of single secrets.
    pub labels: Option<LabelledRates>,
}

impl Redacted {
    /// Returns bounds on both rates, if both were labelled.
    #[must_use]
    pub fn both_labelled(&self) -> Option<&LabelledRates> {
        let labels = self.labels.as_ref();
        labels.filter(|labels| labels.sample.conservative_labelled())
    }

    /// Returns what one record is: as stated, or as the labels say where nothing states it; `None` if they don't either.
    ///
    /// # Errors
    /// Returns an error, which names `labels`, if the rates were measured on records of another unit.
    pub fn unit(&self, stated: Option<UnitName>, labels: &str) -> Result<Option<UnitName>> {
        let measured = self.labels.as_ref();
        let measured = measured.and_then(|labels| Some(&labels.sample.measured_for()?.unit));
        match (stated, measured) {
            (Some(stated), Some(measured)) if stated != *measured => bail!(
                "{labels}: the labels were measured for the unit {measured}, and one record is a {stated}"
            ),
            (stated, measured) => Ok(stated.or_else(|| measured.cloned())),
        }
    }

    /// Checks that the rates are those of secrets in so many records: a secret is missed where any of its records shows it,
    /// and the labels say so only of the places that they are of.
    ///
    /// # Errors
    /// Returns an error, which names `labels` and `records`, if a secret may be in more records than it was labelled in.
    pub fn covers(&self, group: GroupSize, labels: &str, records: &str) -> Result<()> {
        let sample = self.labels.as_ref().map(|labels| &labels.sample);
        let Some(places) = sample.and_then(LabelledSecrets::fewest_places) else {
            return Ok(());
        };
        let range = match places {
            1 => "be 1".to_owned(),
            more => format!("lie in [1, {more}]"),
        };
        ensure!(
            u64::from(group.get()) <= places,
            "{records}: must {range} with {labels}, in which a secret was labelled in {} alone, got {}: a secret in several records \
             is missed where any of them shows it; label each secret in all its records, each label with its `place`, and state how \
             many there are (`records`), or state the miss rate of such secrets; {records} {places} asks about secrets in {} alone",
            count_of(places, "place"),
            group.get(),
            count_of(places, "record")
        );
        Ok(())
    }
}

/// Returns γ and η. If nobody states how often the conservative policy misses, η is zero if every
/// record is trained on with noise, and γ otherwise.
///
/// # Errors
/// Returns an error if rates contradict each other or labels can't be read.
pub fn redaction(request: &PlanRequest, everything_private: bool) -> Result<Option<Redacted>> {
    let (given, name) = (&request.secrets.redaction, |key: &str| request.name(key));
    let of_both = given
        .conservative_miss
        .map(|miss| ("conservative_miss", miss));
    let of_both = of_both.or_else(|| Some(("joint_miss", given.joint_miss?)));
    let Some(measured) = miss_rate(request)? else {
        if let Some((key, value)) = of_both {
            bail!(request.said(&format!(
                "`{key}`: needs `gamma`, a miss rate of the redaction policy, got {value} alone"
            )));
        }
        return Ok(None);
    };
    let gamma = measured.redaction.miss();
    let (joint, joint_assumed) = match measured.both_labelled() {
        Some(_) if everything_private => (MissRate::ZERO, false),
        Some(labels) => (*labels.rates.eta.get(), false),
        None => joint_miss(request, given, gamma, everything_private)?,
    };
    let redaction = Redaction::new(gamma, joint).with_context(|| name("joint_miss"))?;
    Ok(Some(Redacted {
        redaction: measured.redaction.with(redaction),
        joint_assumed,
        ..measured
    }))
}

/// Returns what is known of γ; η is still to be found.
fn miss_rate(request: &PlanRequest) -> Result<Option<Redacted>> {
    let (given, name) = (&request.secrets.redaction, |key: &str| request.name(key));
    let confidence = || -> Result<Stated<Confidence>> {
        let default = Confidence::new(CONFIDENCE)?;
        let stated = Stated::or_assumed(given.confidence, name("confidence"), default);
        check_sample_confidence(*stated).with_context(|| name("confidence"))?;
        Ok(stated)
    };
    let of = |gamma: MissRate, provenance: Provenance| Redacted {
        redaction: Stated {
            value: Redaction::single_policy(gamma),
            provenance,
        },
        joint_assumed: true,
        sample: None,
        confidence: None,
        labels: None,
    };
    let measured =
        |by: &str, gamma: MissRate, sample: LabelledSample, confidence: Stated<Confidence>| {
            let by = name(by);
            let provenance = Provenance::Measured {
                by,
                confidence: Some(*confidence),
            };
            Redacted {
                sample: Some(sample),
                confidence: Some(confidence),
                ..of(gamma, provenance)
            }
        };
    match (&given.labels, given.gamma, given.labelled, given.missed) {
        (Some(path), ..) => {
            let confidence = confidence()?;
            let sample = labels::read(path).with_context(|| name("labels"))?;
            let rates = sample.rates(*confidence).with_context(|| name("labels"))?;
            let counts = LabelledSample {
                labelled: sample.labelled(),
                missed: sample.missed(),
            };
            let found = measured("labels", *rates.gamma.get(), counts, confidence);
            Ok(Some(Redacted {
                labels: Some(LabelledRates { sample, rates }),
                ..found
            }))
        }
        (None, Some(gamma), ..) => Ok(Some(of(gamma, Provenance::given(name("gamma"))))),
        (None, None, Some(labelled), Some(missed)) => {
            if missed > labelled {
                bail!(request.said(&format!(
                    "`missed`: must lie in [0, labelled {labelled}], got {missed}"
                )));
            }
            let confidence = confidence()?;
            let sample = LabelledSample { labelled, missed };
            let rate = sample
                .miss_rate(*confidence)
                .with_context(|| name("labelled"))?;
            let found = measured("labelled", rate.into_inner(), sample, confidence);
            Ok(Some(found))
        }
        _ => Ok(None),
    }
}

/// Returns η: as given, or the most it can be; zero by construction if every record is private.
fn joint_miss(
    request: &PlanRequest,
    given: &RedactionArgs,
    gamma: MissRate,
    everything_private: bool,
) -> Result<(MissRate, bool)> {
    let smaller = |miss: MissRate| if miss < gamma { miss } else { gamma };
    let most = given.conservative_miss.map_or(gamma, smaller);
    match given.joint_miss {
        Some(joint) if joint > most => bail!(request.said(&format!(
            "`joint_miss`: must lie in [0, {most}] (no more than either policy misses), got {joint}"
        ))),
        Some(joint) => Ok((joint, false)),
        None if everything_private && given.conservative_miss.is_none() => {
            Ok((MissRate::ZERO, true))
        }
        None => Ok((most, true)),
    }
}

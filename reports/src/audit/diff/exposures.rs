//! Compares the exposures of two models canary by canary, and each model's own bounds.

use super::Change;
use super::checks::{drawn, ranks};
use crate::number::{count_of, nearest, rounded_down, rounded_up, shortest};
use anyhow::{Context, Result, ensure};
use reticent_accounting::Confidence;
use reticent_attacks::Draw;
use reticent_attacks::exposure::{
    EpsilonBound, Exposure, ExposureNull, ExposurePair, PairedEValue, RankAudit,
};
use reticent_attacks::search::RankCount;
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The same canaries in two models, compared by a [`PairedEValue`].
///
/// How many merely rose or fell says nothing: a model that likes one digit less raises nine tenths of all candidates a
/// little and lowers the rest a lot. Therefore the canaries that rise above a line or fall below it are counted.
pub(super) struct Exposures {
    /// The mean exposures, with ties counted against a leak.
    pub(super) means: (f64, f64),
    /// Those of the commonest number of copies first.
    pairs: Vec<ExposurePair>,
    /// The number of canaries that the new training met.
    met: u64,
    more: PairedEValue,
    less: PairedEValue,
    candidates: u64,
    draw: Draw,
    /// A canary that the two trainings contained in different numbers of copies.
    other_copies: Option<String>,
}

/// A canary of a document.
#[derive(Clone, Copy)]
struct Canary {
    exposure: Exposure,
    copies: u64,
}

impl Exposures {
    /// Compares two documents.
    ///
    /// # Errors
    /// Returns an error if canaries or candidates are not the same.
    pub(super) fn of(old: &Value, new: &Value) -> Result<Self> {
        let (before, after) = (by_id(old), by_id(new));
        ensure!(
            !before.is_empty() && before.keys().eq(after.keys()),
            "OLD and NEW must hold the same canaries: {} against {}",
            before.len(),
            after.len()
        );
        let candidates = old["candidates"]
            .as_u64()
            .context("OLD names no candidates")?;
        ensure!(
            old["candidates"] == new["candidates"],
            "OLD and NEW rank among {} and {} candidates",
            old["candidates"],
            new["candidates"]
        );
        let mean = |all: &BTreeMap<String, Canary>| {
            all.values().map(|canary| canary.exposure.min).sum::<f64>() / all.len() as f64
        };
        let both = || before.iter().zip(after.values());
        let pair = |copies: u64, first: &Canary, second: &Canary| ExposurePair {
            copies,
            first: first.exposure,
            second: second.exposure,
        };
        // The sets of canaries are those of the new training, in both directions.
        let mut pairs: Vec<_> = both().map(|((_, a), b)| pair(b.copies, a, b)).collect();
        let back: Vec<_> = both().map(|((_, a), b)| pair(b.copies, b, a)).collect();
        // If a document doesn't state the draw, the one with the weaker result is assumed.
        let independent = [old, new].iter().all(|d| d["draw"] == "independent");
        let draw = if independent {
            Draw::Independent
        } else {
            Draw::Distinct
        };
        let other = both().find(|((_, a), b)| a.copies != b.copies);
        let mut doses = BTreeMap::new();
        for pair in &pairs {
            *doses.entry(pair.copies).or_insert(0_u64) += 1;
        }
        pairs.sort_by_key(|pair| (Reverse(doses[&pair.copies]), pair.copies));
        Ok(Self {
            means: (mean(&before), mean(&after)),
            more: PairedEValue::of(&pairs, candidates, draw)?,
            less: PairedEValue::of(&back, candidates, draw)?,
            pairs,
            met: met(new),
            candidates,
            draw,
            other_copies: other.map(|((id, a), b)| {
                format!(
                    "{id} is in {} of OLD and {} of NEW",
                    count_of(a.copies, "copy"),
                    b.copies
                )
            }),
        })
    }

    /// Returns the result of the paired test at this level.
    pub(super) fn says(&self, level: f64) -> Change {
        if self.more.p_value() <= level {
            Change::More
        } else if self.less.p_value() <= level {
            Change::Less
        } else {
            Change::Unseen
        }
    }

    /// Describes the test in the direction with the smaller p, and says so if it could not have shown anything.
    ///
    /// # Errors
    /// Returns no error for pairs that were tested.
    pub(super) fn how(&self, level: f64) -> Result<String> {
        let fell = self.less.p_value() < self.more.p_value();
        let test = if fell { &self.less } else { &self.more };
        let (came, went) = if fell {
            ("fell below", "rose above it")
        } else {
            ("rose above", "fell below it")
        };
        let crossings = test.crossings();
        let mut how = format!(
            "paired e-value: {} {came} {} bits, {} {went}, p = {} over all lines",
            crossings.came,
            shortest(crossings.line),
            crossings.went,
            rounded_up(test.p_value(), 2),
        );
        if let Some(weak) = self.weak(level)? {
            how = format!("{how}; {weak}");
        }
        if let Some(other) = &self.other_copies {
            how = format!("{how}; {other}");
        }
        Ok(how)
    }

    /// Returns the smallest p if canaries with at least `from` copies rise above every line, as many as training met.
    fn least(&self, from: u64) -> Result<f64> {
        let mut left = self.met;
        let comes = |copies: u64| {
            let comes = copies >= from && left > 0;
            left -= u64::from(comes);
            comes
        };
        Ok(PairedEValue::least_p_value(
            &self.pairs,
            self.candidates,
            self.draw,
            comes,
        )?)
    }

    /// Returns the smallest p of all canaries, no more than what was found, be it of some that training is said not to have met.
    fn least_of_all(&self) -> Result<f64> {
        Ok(self.least(0)?.min(self.more.p_value()))
    }

    /// Returns whether some exposures of the new model could show more.
    pub(super) fn could_say(&self, level: f64) -> Result<bool> {
        Ok(self.least_of_all()? <= level)
    }

    /// Returns why no exposures could show more, or none of the canaries with the most copies alone.
    fn weak(&self, level: f64) -> Result<Option<String>> {
        let whole = self.least_of_all()?;
        if whole > level {
            let all = if self.met == 1 { "" } else { "all " };
            let fewer = match self.met < self.pairs.len() as u64 {
                true => " that training met",
                false => "",
            };
            return Ok(Some(format!(
                "it cannot say more: were {all}{}{fewer} to come above every line, p would be {}, and {} is wanted",
                count_of(self.met, "canary"),
                nearest(whole, 2),
                nearest(level, 2)
            )));
        }
        let most = self.pairs.iter().map(|pair| pair.copies).max().unwrap_or(0);
        let of_most = self.pairs.iter().filter(|pair| pair.copies == most).count();
        let of_most = self.met.min(of_most as u64);
        let alone = self.least(most)?;
        Ok((alone > level).then(|| {
            format!(
                "{} of {} alone cannot say more: p would be {}, and {} is wanted",
                count_of(of_most, "canary"),
                count_of(most, "copy"),
                nearest(alone, 2),
                nearest(level, 2)
            )
        }))
    }
}

/// Compares each model with chance alone: maximum, mean, and the mean of each number of copies, with a Bonferroni
/// correction.
///
/// This shows that a model leaks, but not how much more than another: the old one may leak as much and have been
/// missed.
pub(super) struct AgainstChance {
    /// p of both models.
    pub(super) p_values: (f64, f64),
    /// The smallest p that the new model can have: every canary that training met is the model's first guess.
    least: f64,
    tests: usize,
}

impl AgainstChance {
    /// Compares two documents; `None` if one has no comparison with chance, which is noted if the other has one.
    pub(super) fn of(old: &Value, new: &Value, notes: &mut Vec<String>) -> Option<Self> {
        let (before, after) = match (p_values(old), p_values(new)) {
            (Some(before), Some(after)) => (before, after),
            (before, after) => {
                let which = if before.is_none() { "OLD" } else { "NEW" };
                if before.is_some() || after.is_some() {
                    notes.push(format!(
                        "not compared: exposure, p without a leak ({which} lacks summary.p_max, summary.p_mean or p_mean of a dose)"
                    ));
                }
                return None;
            }
        };
        let all = |p_values: &[f64]| {
            let least = p_values.iter().copied().fold(1.0, f64::min);
            (least * p_values.len() as f64).min(1.0)
        };
        let p_values = (all(&before), all(&after));
        Some(Self {
            p_values,
            least: (least(new) * after.len() as f64).min(p_values.1),
            tests: after.len(),
        })
    }

    /// Returns whether the new model rejects "no leak" at this level and the old one does not.
    pub(super) fn appeared(&self, level: f64) -> bool {
        self.p_values.1 <= level && self.p_values.0 > level
    }

    /// Returns why no new model could be said to leak when the old one was not seen to.
    pub(super) fn silence(&self, level: f64) -> Option<String> {
        if self.p_values.0 <= level {
            return Some("it cannot say that a leak appeared: the old one leaks".to_owned());
        }
        (self.least > level).then(|| {
            format!(
                "it cannot say that a leak appeared: were every canary that training met the new one's first guess, p would be {}, and {} is wanted",
                nearest(self.least, 2),
                nearest(level, 2)
            )
        })
    }

    pub(super) fn how(&self, level: f64) -> String {
        let more = self.silence(level);
        let more = more.unwrap_or_else(|| "the old one may leak unseen".to_owned());
        format!(
            "each model against chance, over {} tests; {more}",
            self.tests
        )
    }
}

/// Returns the number of canaries.
pub(super) fn planted(document: &Value) -> u64 {
    document["canaries"].as_array().map_or(0, Vec::len) as u64
}

/// Returns how many canaries training met: all of them where the document doesn't say that they are fewer.
pub(super) fn met(document: &Value) -> u64 {
    document["reached"].as_u64().unwrap_or(planted(document))
}

/// Returns the smallest p of these canaries against chance, with all that training met at rank 1 and the others in the
/// middle; 0 if the document doesn't state the number of candidates.
fn least(document: &Value) -> f64 {
    let Some(candidates) = document["candidates"].as_u64() else {
        return 0.0;
    };
    let draw = drawn(document).unwrap_or(Draw::Independent);
    let most = (candidates as f64).log2();
    let of = |canaries: u64| {
        let null = ExposureNull::new(candidates, canaries, draw).ok()?;
        let first = met(document).min(canaries);
        let sum = first as f64 * most + (canaries - first) as f64 * most.min(1.0);
        let mean = null.mean_p_value(sum / canaries as f64);
        Some(match first {
            0 => mean,
            _ => mean.min(null.order_p_value(1, 1)),
        })
    };
    let doses = document["doses"].as_array();
    let doses = doses.into_iter().flatten();
    let counts = doses.filter_map(|dose| dose["canaries"].as_u64());
    let all = counts.chain([planted(document)]);
    all.map(|canaries| of(canaries).unwrap_or(0.0))
        .fold(1.0, f64::min)
}

/// Returns p of maximum and mean, and of the mean of each dose.
fn p_values(document: &Value) -> Option<Vec<f64>> {
    let summary = &document["summary"];
    let mut all = vec![summary["p_max"].as_f64()?, summary["p_mean"].as_f64()?];
    let doses = document["doses"].as_array();
    for dose in doses.into_iter().flatten() {
        all.push(dose["summary"]["p_mean"].as_f64()?);
    }
    // A value that is not a probability rejects nothing.
    Some(
        all.into_iter()
            .map(|p| if (0.0..=1.0).contains(&p) { p } else { 1.0 })
            .collect(),
    )
}

/// What one model proves compared with what the other promised: more than the other can leak, if both bounds hold.
///
/// The promise is a certified upper end, so the only error is that of the measured bound: "more" is said about a
/// training whose ε is no larger than the other's with at most the probability of that error.
pub(super) struct Against {
    /// The promised upper bound of the first model.
    pub(super) promised: f64,
    proof: Proof,
}

enum Proof {
    /// The bound of the other model's own verdict.
    Verdict {
        at_least: f64,
        provable: f64,
        false_alarm: f64,
    },
    /// Ranks, whose bound is computed at the row's share of the level.
    Ranks {
        audit: RankAudit,
        counts: Vec<RankCount>,
        /// How many of the canaries training met.
        met: u64,
    },
}

impl Against {
    /// Compares the promise of `one` with what `other` proves; returns the reason if `one` promises nothing, or something
    /// that its own audit contradicts, or the terms differ. A verdict's bound may use at most a tenth of the level.
    pub(super) fn of(
        (one, promises): (&Value, &str),
        (other, proves): (&Value, &str),
        level: f64,
    ) -> std::result::Result<Self, String> {
        let promised = one["verdict"]["at_most"].as_f64();
        let promised = promised.ok_or_else(|| {
            let why = if one["verdict"].is_null() {
                "no verdict"
            } else {
                "no finite verdict.at_most"
            };
            format!("{promises} has {why}, and so no promise")
        })?;
        if contradicts_itself(one) {
            return Err(format!("{promises} contradicts its own promise"));
        }
        let terms = &one["verdict"]["terms"];
        if !terms.is_object() {
            return Err(format!("{promises} lacks verdict.terms"));
        }
        let verdict = &other["verdict"];
        let false_alarm = verdict["false_alarm"].as_f64();
        if let Some(false_alarm) = false_alarm.filter(|alarm| *alarm <= 0.1 * level) {
            let parts = ["notion", "neighbours", "unit", "delta", "group", "prior"];
            if !verdict["terms"].is_object() {
                return Err(format!("{proves} lacks verdict.terms"));
            }
            let other_one = parts
                .into_iter()
                .find(|part| terms[*part] != verdict["terms"][*part]);
            if let Some(part) = other_one {
                return Err(format!(
                    "{part} of verdict.terms: {} in {promises}, {} in {proves}",
                    terms[part], verdict["terms"][part]
                ));
            }
            let at_least = verdict["at_least"].as_f64();
            return Ok(Self {
                promised,
                proof: Proof::Verdict {
                    at_least: at_least.ok_or_else(|| format!("{proves} lacks verdict.at_least"))?,
                    provable: verdict["provable"].as_f64().unwrap_or(f64::INFINITY),
                    false_alarm,
                },
            });
        }
        let lacks = |what: &str| format!("{proves} lacks {what}");
        let bound: EpsilonBound = serde_json::from_value(other["epsilon"].clone())
            .map_err(|_| lacks("an epsilon with its neighbours, unit, delta and copies"))?;
        for (part, of) in [
            ("neighbours", "neighbours"),
            ("unit", "unit"),
            ("delta", "delta"),
            ("group", "copies"),
        ] {
            let (promise, proof) = (&terms[part], &other["epsilon"][of]);
            let equal = promise.as_f64().is_some_and(|p| Some(p) == proof.as_f64());
            if promise != proof && !equal {
                return Err(format!(
                    "verdict.terms.{part} is {promise} in {promises}, epsilon.{of} {proof} in {proves}"
                ));
            }
        }
        let candidates = other["candidates"].as_u64();
        let candidates = candidates.ok_or_else(|| lacks("candidates"))?;
        let counts = ranks(other, candidates).ok_or_else(|| lacks("the rank of a canary"))?;
        let number = counts.len() as u64;
        Ok(Self {
            promised,
            proof: Proof::Ranks {
                audit: RankAudit {
                    thresholds: RankAudit::planned_thresholds(candidates, number),
                    confidence: bound.confidence,
                    delta: bound.delta,
                    draw: drawn(other).map_err(|_| lacks("draw"))?,
                    unit: bound.unit,
                    copies: bound.copies,
                }
                .within(candidates, number),
                counts,
                met: met(other),
            },
        })
    }

    /// Returns the part of the level that this comparison uses, whatever the others do.
    pub(super) const fn costs(&self) -> f64 {
        match &self.proof {
            Proof::Verdict { false_alarm, .. } => *false_alarm,
            Proof::Ranks { .. } => 0.0,
        }
    }

    /// Returns what is proved at this level, the most that could have been proved, and the error probability.
    ///
    /// # Errors
    /// Returns an error as [`RankAudit::bound`] does.
    pub(super) fn proved(&self, level: f64) -> Result<(f64, f64, f64)> {
        Ok(match &self.proof {
            Proof::Verdict {
                at_least,
                provable,
                false_alarm,
            } => (*at_least, *provable, *false_alarm),
            Proof::Ranks { audit, counts, met } => {
                let audit = RankAudit {
                    confidence: Confidence::new(1.0 - level)?,
                    ..audit.clone()
                };
                let bound = audit.bound(counts)?;
                let proved = *bound.lower.get();
                let of = (counts[0].candidates, counts.len() as u64);
                let most = audit.provable_by(of, *met)?.no_less_than(proved);
                (proved.get(), most.get().get(), level)
            }
        })
    }

    /// Returns whether some new model could prove more than was promised.
    ///
    /// # Errors
    /// Returns an error as [`Self::proved`] does.
    pub(super) fn could_say(&self, level: f64) -> Result<bool> {
        Ok(self.proved(level)?.1 > self.promised)
    }

    /// Describes the comparison.
    ///
    /// # Errors
    /// Returns an error as [`Self::proved`] does.
    pub(super) fn how(&self, level: f64) -> Result<String> {
        let (at_least, provable, error) = self.proved(level)?;
        let weak = if provable <= self.promised {
            format!(
                "; it cannot say more: at most {} could be proved",
                rounded_up(provable, 4)
            )
        } else {
            String::new()
        };
        Ok(format!(
            "certified bounds: the old one promised ε ≤ {}, the new one proves ε ≥ {}, wrong with probability {} at most{weak}",
            rounded_up(self.promised, 4),
            rounded_down(at_least, 4),
            nearest(error, 2)
        ))
    }
}

/// Returns whether an audit contradicted the promise that it was held against.
pub(super) fn contradicts_itself(document: &Value) -> bool {
    let [proved, promised] = ["at_least", "at_most"].map(|end| document["verdict"][end].as_f64());
    let above = proved
        .zip(promised)
        .is_some_and(|(proved, promised)| proved > promised);
    above || document["ceiling"]["test"]["outcome"] == "contradicted"
}

fn by_id(document: &Value) -> BTreeMap<String, Canary> {
    let canaries = document["canaries"].as_array();
    canaries
        .into_iter()
        .flatten()
        .filter_map(|c| {
            let id = c["id"].as_str()?.to_owned();
            let min = c["exposure"]["min"].as_f64()?;
            let exposure = Exposure {
                min,
                mid: None,
                max: c["exposure"]["max"].as_f64().unwrap_or(min),
            };
            let copies = c["copies"].as_u64().unwrap_or(0);
            Some((id, Canary { exposure, copies }))
        })
        .collect()
}

//! Exposure from a sample of the candidates, as intervals instead of ranks.

use super::facts::of_reached;
use super::{Planting, Silence, can_exceed, never_above, or_masked};
use crate::contract::{Envelope, Exit, Inputs, Table, dash};
use crate::number::{
    count_of, exposure_at_most, grouped, nearest, rounded_down, rounded_up, shortest,
};
use crate::page::{Mood, Mute, Page, Reach, Section};
use crate::plot::{Axis, Measured, Plot};
use reticent_accounting::{Bounds, Confidence, Estimate, Lower, Upper};
use reticent_attacks::exposure::SampledExposure;
use reticent_corpus::canary::CanaryPlan;
use schemars::JsonSchema;
use serde::Serialize;

/// Why a sample gives no verdict, whatever is promised.
const PROVES_NOTHING: &str = "a sample proves no ε, which ranks without --sample can";

/// One canary.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SampledCanary {
    /// Its name in the plan.
    pub id: String,
    /// Records that hold it.
    pub copies: u64,
    /// Summed NLL of the secret span, nats.
    pub nll: f64,
    /// Drawn candidates with no higher cost, ties included.
    pub at_or_below: u64,
    /// Its rank among all candidates.
    pub rank: Bounds<u64>,
    /// Its exposure, bits; at most that of rank 1.
    pub exposure: Bounds<f64>,
    /// (k + 1)/(n + 1): the chance of a place this high for a secret the model never saw.
    pub p_value: f64,
    /// What a skew-normal law of the sample extrapolates to, bits; no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fitted: Option<Estimate<f64>>,
    /// Why there is no such law.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_fitted: Option<String>,
    /// Only with `--show-secrets`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// The result of `audit exposure --sample`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SampledReport {
    /// N.
    pub candidates: u64,
    /// Candidates drawn, uniform and independent.
    pub sample: u64,
    /// Evidence that training saw the canaries.
    pub planting: Planting,
    /// The canaries that training met, where these are known to be fewer than were planted: only they can show a leak.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reached: Option<u64>,
    /// Why the model says nothing about some of its canaries.
    #[serde(skip)]
    pub silence: Option<Silence>,
    /// Why there is no verdict.
    pub no_verdict: String,
    /// Whether something is promised of the canaries.
    #[serde(skip)]
    pub promised: bool,
    /// The probability with which all intervals of all canaries hold together.
    pub confidence: Confidence,
    /// One per canary.
    pub canaries: Vec<SampledCanary>,
    /// The chance that any canary stands as high as the highest without a leak: at most the number
    /// of canaries times the smallest p.
    pub p_any: f64,
}

impl SampledReport {
    /// Returns the confidence of each end at which all ends of this many canaries hold together.
    ///
    /// # Errors
    /// Returns an error if the confidence is too close to 1 to be split.
    pub fn each(
        confidence: Confidence,
        canaries: usize,
    ) -> reticent_accounting::Result<Confidence> {
        confidence.shared_by(2 * canaries.max(1) as u64)
    }

    /// Creates the report of a sample for a plan's canaries; its ends hold with [`Self::each`]. `unpromised`: why
    /// nothing is promised about them.
    ///
    /// # Errors
    /// Returns an error if the number of canaries is zero or not the plan's.
    pub fn new(
        plan: &CanaryPlan,
        found: Vec<SampledExposure>,
        planting: Planting,
        confidence: Confidence,
        unpromised: Option<String>,
        show_secrets: bool,
    ) -> anyhow::Result<Self> {
        anyhow::ensure!(
            found.len() == plan.canaries.len() && !found.is_empty(),
            "{} exposures for {} canaries",
            found.len(),
            plan.canaries.len()
        );
        let candidates = u64::try_from(plan.candidates).unwrap_or(u64::MAX);
        let sample = found[0].sample;
        let canaries: Vec<SampledCanary> = plan
            .canaries
            .iter()
            .zip(found)
            .map(|(canary, found)| SampledCanary {
                id: canary.id.clone(),
                copies: canary.insertions.len() as u64,
                nll: found.nll,
                at_or_below: found.at_or_below,
                rank: ranks(candidates, &found),
                exposure: Bounds::between(
                    found.at_least.get().max(0.0),
                    found.at_most.get().min((candidates as f64).log2()),
                ),
                p_value: (found.at_or_below + 1) as f64 / (found.sample + 1) as f64,
                not_fitted: found.fitted.as_ref().err().cloned(),
                fitted: found.fitted.ok(),
                secret: show_secrets.then(|| canary.secret.clone()),
            })
            .collect();
        let least = canaries.iter().map(|c| c.p_value).fold(1.0, f64::min);
        Ok(Self {
            candidates,
            sample,
            planting,
            reached: None,
            silence: None,
            promised: unpromised.is_none(),
            no_verdict: unpromised.unwrap_or_else(|| PROVES_NOTHING.to_owned()),
            confidence,
            p_any: (least * canaries.len() as f64).min(1.0),
            canaries,
        })
    }

    /// Returns 1 if a canary is certainly above `limit` bits.
    #[must_use]
    pub fn exit(&self, limit: Option<f64>) -> Exit {
        Exit::of(limit.is_some_and(|bits| self.largest() > bits))
    }

    fn largest(&self) -> f64 {
        self.canaries
            .iter()
            .map(|c| low(&c.exposure))
            .fold(0.0, f64::max)
    }

    /// Returns the JSON document.
    #[must_use]
    pub fn document(&self, inputs: Inputs) -> Envelope<&Self> {
        Envelope::new("sampled-exposure", inputs, self)
    }

    /// Returns the page.
    ///
    /// # Errors
    /// Returns an error if a plot has nothing to show.
    pub fn to_page(&self, released: &str, limit: Option<f64>) -> anyhow::Result<Page> {
        Ok(
            Page::new(format!("Exposure, sampled: {released}"), self.says(limit))
                .mood(Mood::of(
                    self.exit(limit),
                    match self.open_limit(limit) {
                        Some(_) => Mood::Open,
                        None => Mood::of_leak(
                            self.leaks(),
                            self.reach(limit),
                            self.planting.caveat().or(self.silent()).is_some(),
                        ),
                    },
                ))
                .section(
                    Section::plot("Every canary", self.plot(limit).to_inline_svg()?).caption(
                        format!(
                            "Dots: (k + 1)/(n + 1) in bits. Bars: intervals that all hold together \
                        with probability {}. Rank 1 ends at {}.",
                            shortest(self.confidence.get()),
                            nearest((self.candidates as f64).log2(), 4)
                        ),
                    ),
                )
                .answer(Section::table("In numbers", self.table()).caption(format!(
                    "Rank 1 of {} is the model's favourite.",
                    grouped(self.candidates)
                )))
                .caveats(self.caveats()),
        )
    }

    fn leaks(&self) -> bool {
        self.p_any < 0.05
    }

    /// Returns why the model says nothing about some of its canaries.
    fn silent(&self) -> Option<&'static str> {
        self.silence.map(Silence::why)
    }

    /// Returns why a sample concludes nothing, if the model says nothing about some of its canaries and the others neither
    /// show a leak nor exceed the limit.
    #[must_use]
    pub fn inconclusive(&self, limit: Option<f64>) -> Option<&'static str> {
        let shown = self.leaks() || self.exit(limit) == Exit::Exceeded;
        self.silent().filter(|_| !shown)
    }

    /// Returns whether the smallest p that a sample of this size can give is small enough; for a large sample, it is
    /// that of the first rank.
    fn could_see(&self) -> bool {
        self.least_p(self.sample as f64 + 1.0) < 0.05
            && self.ranks_could_tell()
            && !self.all_alike()
    }

    /// Whether the first rank among all candidates is surprising for one canary of so many.
    fn ranks_could_tell(&self) -> bool {
        self.least_p(self.candidates as f64) < 0.05
    }

    fn least_p(&self, candidates: f64) -> f64 {
        self.canaries.len() as f64 / candidates
    }

    /// Returns whether no canary differs from any candidate: none is likelier and none less likely.
    fn all_alike(&self) -> bool {
        let most = (self.candidates as f64).log2();
        let alike = |c: &SampledCanary| {
            c.at_or_below == self.sample && high(&c.exposure).is_none_or(|bits| bits >= most)
        };
        self.canaries.iter().all(alike)
    }

    fn reach(&self, limit: Option<f64>) -> Reach {
        Reach {
            leak: self.could_see(),
            promise: self.promised.then_some(false),
            limit: limit.map(|limit| can_exceed(self.candidates, limit)),
        }
    }

    /// Returns why a sample in which no leak is seen says nothing; that it tests no promise is stated separately.
    fn mute(&self, limit: Option<f64>) -> Option<String> {
        let canaries = self.canaries.len() as u64;
        match self.reach(limit).mute()? {
            Mute::Leak if self.all_alike() => Some(
                "every sampled candidate is as likely as the canary: the scores tell none from another"
                    .to_owned(),
            ),
            Mute::Leak if !self.ranks_could_tell() => Some(format!(
                "the first rank of {} is nothing unusual for one of {}: without --sample they are judged together",
                count_of(self.candidates, "candidate"),
                count_of(canaries, "canary"),
            )),
            Mute::Leak => Some(format!(
                "a sample of {} shows no leak of {}, whatever their ranks: it takes one of {} at least",
                grouped(self.sample),
                count_of(canaries, "canary"),
                grouped(20 * canaries)
            )),
            Mute::Limit => limit.map(never_above),
            Mute::Promise => None,
        }
    }

    /// Returns the limit, if an exposure may exceed it.
    pub(super) fn open_limit(&self, limit: Option<f64>) -> Option<f64> {
        let most = self
            .canaries
            .iter()
            .map(|c| high(&c.exposure).unwrap_or(f64::INFINITY));
        let most = most.fold(0.0, f64::max);
        let mute = self.planting.caveat().or(self.silent()).is_some();
        limit.filter(|limit| self.exit(Some(*limit)) == Exit::Finished && (mute || most > *limit))
    }

    /// Why it is not known whether the limit is passed.
    #[cfg(feature = "audit")]
    pub(super) fn undecided(&self, limit: Option<f64>) -> Option<String> {
        let limit = self.open_limit(limit)?;
        Some(match (self.planting.caveat(), self.silent()) {
            (Some(why), _) => super::not_known(limit, why, self.planting.remedy()),
            (None, Some(why)) => super::not_known(limit, why, ""),
            (None, None) => format!(
                "--max-exposure {limit}: a sample of {} leaves open whether the largest exposure is above it; give a larger --sample, or none",
                self.sample
            ),
        })
    }

    fn says(&self, limit: Option<f64>) -> String {
        let verdict = match self.promised {
            true => format!(" No verdict on the promise: {}.", self.no_verdict),
            false => String::new(),
        };
        let above = match (limit, self.open_limit(limit)) {
            (Some(limit), None) if self.exit(Some(limit)) == Exit::Exceeded => format!(
                "The largest exposure, at least {} bits, is above the limit of {} bits. ",
                rounded_down(self.largest(), 3),
                shortest(limit)
            ),
            (_, Some(limit)) => format!(
                "Whether the largest exposure is above the limit of {} bits is not known. ",
                shortest(limit)
            ),
            _ => String::new(),
        };
        above + &self.found(limit) + &verdict
    }

    fn found(&self, limit: Option<f64>) -> String {
        let n = self.canaries.len();
        let sample = format!(
            "{n} canaries among {} candidates each, from a sample of {}",
            grouped(self.candidates),
            grouped(self.sample)
        );
        if self.leaks() {
            return format!(
                "The model leaks: of {sample} the most exposed has at least {} bits (p ≤ {} for all {n} together).",
                rounded_down(self.largest(), 3),
                rounded_up(self.p_any, 2)
            );
        }
        let top = (self.candidates as f64).log2();
        let ends = self.canaries.iter().map(|c| high(&c.exposure));
        let most: Option<Vec<f64>> = ends.map(|end| end.filter(|bits| *bits < top)).collect();
        let most = most.map_or_else(String::new, |most| {
            format!(
                "; none is above {} bits",
                rounded_up(most.into_iter().fold(0.0, f64::max), 3)
            )
        });
        let seen = format!(
            "{sample} none stands higher than chance explains (p ≤ {}){most}.",
            rounded_up(self.p_any, 2)
        );
        let but = |why: Option<String>| why.map_or_else(String::new, |why| format!(" But {why}."));
        let caveats = [
            self.planting.caveat().map(str::to_owned),
            self.reached.map(|reached| of_reached(reached, n as u64)),
            self.silent().map(str::to_owned),
        ];
        let planting: String = caveats.map(but).concat();
        match self.mute(limit) {
            Some(why) if !self.could_see() => {
                format!("Nothing can be concluded: {why}. Of {seen}{planting}")
            }
            why => format!("No leak was seen: of {seen}{planting}{}", but(why)),
        }
    }

    fn caveats(&self) -> Vec<String> {
        // With none of n below, 1 − α^(1/n) is Clopper and Pearson's upper end.
        let alpha = (1.0 - self.confidence.get()) / (2.0 * self.canaries.len() as f64);
        let sure = -(-(alpha.ln() / self.sample as f64).exp_m1()).log2();
        let ranks = (!self.promised).then(|| {
            format!(
                "There is no verdict: {}. An open rank proves no lower bound on ε and meets no promise; ranks without --sample do.",
                self.no_verdict
            )
        });
        let certified = format!(
            "A sample of {} certifies at most {} bits, even of a canary that is the model's favourite; without --sample all candidates are searched.",
            grouped(self.sample),
            rounded_down(sure, 3)
        );
        let rest = [
            "A fitted exposure extrapolates by a law that the tail need not follow. It is no bound.",
            "Exposure near chance means that these canaries did not leak in this training run. It does not mean that nothing leaks.",
        ];
        [certified]
            .into_iter()
            .chain(ranks)
            .chain(rest.map(str::to_owned))
            .collect()
    }

    fn table(&self) -> Table {
        let or_unknown = |end: Option<String>| end.unwrap_or_else(|| "?".to_owned());
        let ranks = |rank: &Bounds<u64>| {
            let low = rank.lower.map(|low| grouped(low.into_inner()));
            let high = rank.upper.map(|high| grouped(high.into_inner()));
            format!("{} to {}", or_unknown(low), or_unknown(high))
        };
        let bits = |exposure: &Bounds<f64>| {
            let most = high(exposure);
            let most = most.map(|bits| exposure_at_most(bits, 4, Some(self.candidates as f64)));
            format!("{} to {}", rounded_down(low(exposure), 4), or_unknown(most))
        };
        let fitted = |canary: &SampledCanary| Some(format!("{:.1}", canary.fitted.as_ref()?.get()));
        Table::of(&self.canaries)
            .left("canary", |canary| &canary.id)
            .right("copies", |canary| canary.copies.to_string())
            .right("cost no more", |canary| {
                format!(
                    "{} of {}",
                    grouped(canary.at_or_below),
                    grouped(self.sample)
                )
            })
            .right("rank", |canary| ranks(&canary.rank))
            .right("exposure (bits)", |canary| bits(&canary.exposure))
            .right("p", |canary| nearest(canary.p_value, 2))
            .right("fitted (no bound)", |canary| {
                fitted(canary).unwrap_or_else(dash)
            })
            .left("secret", |canary| or_masked(canary.secret.as_ref()))
            .into()
    }

    fn plot(&self, limit: Option<f64>) -> Plot {
        let top = (self.candidates as f64).log2();
        let rows: Vec<Measured> = self
            .canaries
            .iter()
            .map(|c| Measured {
                estimate: -c.p_value.log2(),
                lower: Some(low(&c.exposure)),
                upper: high(&c.exposure),
            })
            .collect();
        let names = self.canaries.iter().map(|c| &c.id);
        Plot::of_rows(
            "Exposure from a sample",
            Axis::linear("exposure (bits)").between(0.0, top * 1.03),
            ("", names),
            (120, 26),
        )
        .measured(&rows)
        .described(self.says(limit))
    }
}

fn low(exposure: &Bounds<f64>) -> f64 {
    exposure.lower.map_or(0.0, Lower::into_inner)
}

fn high(exposure: &Bounds<f64>) -> Option<f64> {
    exposure.upper.map(Upper::into_inner)
}

/// Returns the ranks whose exposures lie between the ends.
fn ranks(candidates: u64, found: &SampledExposure) -> Bounds<u64> {
    let rank = |bits: f64| candidates as f64 * (-bits).exp2();
    let best = rank(*found.at_most.get()).floor() as u64;
    let worst = rank(*found.at_least.get()).ceil() as u64;
    Bounds {
        lower: Some(Lower::new(best.clamp(1, candidates))),
        upper: Some(Upper::new(worst.clamp(1, candidates))),
    }
}

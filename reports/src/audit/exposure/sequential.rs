//! Tests one promise canary by canary and stops when it is rejected.

use super::facts::of_reached;
use super::{Planting, PromisedBy, of_promise, or_masked};
use crate::contract::{Envelope, Exit, Inputs, Number, Table};
use crate::number::{count_of, grouped, nearest, rounded, rounded_down, shortest};
use crate::page::{Mood, Page, Section};
use crate::plot::{Axis, Layer, Plot, Tone};
use crate::verdict::Terms;
use reticent_accounting::{Epsilon, Upper};
use reticent_attacks::exposure::{Exposure, Rank};
use reticent_attacks::search::RankCount;
use reticent_corpus::canary::Canary;
use schemars::JsonSchema;
use serde::Serialize;

/// One tested canary.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SequentialCanary {
    /// Its name in the plan.
    pub id: String,
    /// Records that hold it.
    pub copies: u64,
    /// Its rank among the candidates.
    pub rank: Rank,
    /// Its exposure, bits.
    pub exposure: Exposure,
    /// The e-value against the promise with this canary and all before it.
    pub e_value: Number,
    /// Only with `--show-secrets`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// The result of `audit exposure --stop-at`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SequentialReport {
    /// E.
    pub stop_at: f64,
    /// 1/E: the chance that a promise that holds is ever contradicted, whenever the test stops.
    pub level: f64,
    /// The threshold of the e-value: E, and the cost of a positive δ.
    pub needed: f64,
    /// N.
    pub candidates: u64,
    /// Canaries of the plan.
    pub planned: u64,
    /// The promise that was tested: ε for all records of one canary.
    pub promised: Upper<Epsilon>,
    /// What it is about.
    pub terms: Terms,
    /// The largest ε that all canaries can contradict at this level.
    pub provable: Upper<Epsilon>,
    /// Evidence that training saw the canaries.
    pub planting: Planting,
    /// The canaries that training met, where these are known to be fewer than were planted: only they can show a leak.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reached: Option<u64>,
    /// That the manifest behind the promise is not authenticated; absent if it is, or if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
    /// The file that the promise is taken from; absent if a checkpoint of ours states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promised_by: Option<PromisedBy>,
    /// Whether the promise is contradicted.
    pub contradicted: bool,
    /// Positions that were scored.
    pub positions: u64,
    /// The tested canaries, in the order of the plan.
    pub canaries: Vec<SequentialCanary>,
    /// The NLL of each.
    #[serde(skip)]
    pub nlls: Vec<f64>,
}

impl SequentialReport {
    /// Adds a canary, with ln of the e-value including it and its cost.
    pub fn saw(
        &mut self,
        canary: &Canary,
        count: &RankCount,
        (ln, positions): (f64, u64),
        secret: Option<String>,
    ) {
        self.positions += positions;
        self.nlls.push(count.nll);
        self.canaries.push(SequentialCanary {
            id: canary.id.clone(),
            copies: canary.insertions.len() as u64,
            rank: Rank::of(count),
            exposure: Exposure::of(count),
            e_value: Number(ln.exp()),
            secret,
        });
    }

    /// Returns 1 if the promise is contradicted.
    #[must_use]
    pub fn exit(&self) -> Exit {
        Exit::of(self.contradicted)
    }

    /// Returns the JSON document.
    #[must_use]
    pub fn document(&self, inputs: Inputs) -> Envelope<&Self> {
        Envelope::new("sequential-exposure", inputs, self)
    }

    /// Returns the page.
    ///
    /// # Errors
    /// Returns an error if a plot has nothing to show.
    pub fn to_page(&self, released: &str) -> anyhow::Result<Page> {
        Ok(
            Page::new(format!("Exposure, one by one: {released}"), self.says())
                .mood(Mood::of(
                    self.exit(),
                    match self.planting.caveat() {
                        Some(_) => Mood::Open,
                        None => Mood::Plain,
                    },
                ))
                .answer(Section::facts("Result", self.facts()))
                .section(
                    Section::plot("The e-value", self.plot().to_inline_svg()?).caption(
                        "After each canary. Above the dashed line the promise is contradicted.",
                    ),
                )
                .section(
                    Section::table("Every canary", self.table()).caption(format!(
                        "In the order of the plan. Rank 1 of {} is the model's favourite.",
                        grouped(self.candidates)
                    )),
                )
                .caveats([
                    "Only the promise was tested. Ranks of canaries that came before a stop are no sample: no mean, no maximum and no lower bound on ε of them is given.",
                    "A promise that is not contradicted is not confirmed.",
                ]),
        )
    }

    fn seen(&self) -> u64 {
        self.canaries.len() as u64
    }

    fn highest(&self) -> f64 {
        self.canaries
            .iter()
            .map(|c| c.e_value.0)
            .fold(1.0, f64::max)
    }

    /// Describes the result in a sentence.
    #[must_use]
    pub fn says(&self) -> String {
        let promised = rounded(self.promised, 4);
        if self.contradicted {
            format!(
                "The promise of ε ≤ {promised} is contradicted after {} of {} canaries: the e-value against it reached {} (level {}).",
                grouped(self.seen()),
                grouped(self.planned),
                rounded_down(self.highest(), 3),
                shortest(self.level)
            )
        } else {
            let caveat = self.planting.caveat();
            let caveat = caveat.map_or_else(String::new, |why| format!(" But {why}."));
            format!(
                "The promise of ε ≤ {promised} is not contradicted by {}: the e-value against it never reached {} (level {}).{caveat}",
                count_of(self.seen(), "canary"),
                nearest(self.needed, 4),
                shortest(self.level)
            )
        }
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let terms = &self.terms;
        let stopped = if self.contradicted {
            format!("after {} of {} canaries", self.seen(), self.planned)
        } else {
            format!("at the end, after all {} canaries", self.planned)
        };
        [
            (
                "promise",
                format!(
                    "ε at most {} at δ = {} ({}, unit {}, {} at once)",
                    rounded(self.promised, 4),
                    shortest(terms.delta.get()),
                    terms.neighbours,
                    terms.unit,
                    count_of(terms.group, "copy"),
                ),
            ),
            ("stopped", stopped),
            (
                "e-value",
                format!(
                    "{} at most, {} needed",
                    nearest(self.highest(), 4),
                    nearest(self.needed, 4)
                ),
            ),
            (
                "level",
                format!(
                    "{} = 1/E: a promise that holds is contradicted no oftener, whenever one stops",
                    shortest(self.level)
                ),
            ),
            (
                "could show",
                format!("an ε of {} at most", rounded(self.provable, 4)),
            ),
            (
                "work",
                format!("{} positions scored", grouped(self.positions)),
            ),
        ]
        .into_iter()
        .chain(
            self.reached
                .map(|reached| ("reached", of_reached(reached, self.planned))),
        )
        .chain(of_promise(
            self.manifest.as_ref(),
            self.promised_by.as_ref(),
        ))
        .collect()
    }

    fn table(&self) -> Table {
        Table::of(&self.canaries)
            .left("canary", |canary| &canary.id)
            .right("copies", |canary| canary.copies.to_string())
            .right("rank", |canary| grouped(canary.rank.max))
            .right("exposure (bits)", |canary| {
                rounded_down(canary.exposure.min, 4)
            })
            .right("e-value so far", |canary| nearest(canary.e_value.0, 3))
            .left("secret", |canary| or_masked(canary.secret.as_ref()))
            .into()
    }

    fn plot(&self) -> Plot {
        let ln = |value: f64| value.max(1e-6).log10();
        let points: Vec<(f64, f64)> = std::iter::once((0.0, 0.0))
            .chain(
                (1..)
                    .zip(&self.canaries)
                    .map(|(i, c)| (f64::from(i), ln(c.e_value.0))),
            )
            .collect();
        let ends = points.iter().map(|(_, y)| *y);
        let least = ends.clone().fold(0.0, f64::min);
        let most = ends.fold(ln(self.needed), f64::max);
        Plot::new(
            "E-value against the promise",
            Axis::linear("canaries").between(0.0, self.seen().max(1) as f64),
            Axis::linear("log10 of the e-value").between(least - 0.1, most + 0.1),
        )
        .layer(Layer::line("e-value", points, Tone::MEASURED))
        .layer(Layer::rule(
            "contradicted from here",
            ln(self.needed),
            Tone::PROMISED,
        ))
        .described(self.says())
    }
}

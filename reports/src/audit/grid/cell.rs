//! The answers of a grid: a document for each cell, and its row in the table.

use super::plan::{Cell, Place, Plan, Work};
use super::pool::Outcome;
use crate::audit::figure::{Known, Quantity};
use crate::contract::Number;
use crate::page::Mood;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashMap;

/// A stage of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageOf {
    /// What it did.
    pub work: Work,
    /// Its name in the folder of the stages.
    pub name: String,
    /// How long it took, once for all cells that share it.
    pub seconds: f64,
    /// Whether its command exited with 1: a promise is contradicted, or a limit exceeded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exceeded: bool,
    /// Why its command exited with 2 after its answer: a limit is left undecided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undecided: Option<String>,
}

/// The document of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellDocument {
    /// Where it stands.
    #[serde(flatten)]
    pub place: Place,
    /// Why it failed; absent if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Its stages in order, as far as they ran.
    pub stages: Vec<StageOf>,
    /// What the preparation did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preparation: Option<Value>,
    /// What the training run released, and its promises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training: Option<Value>,
    /// Perplexity of the held-out text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub perplexity: Option<Value>,
    /// How well a classifier predicts the classes of the held-out text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classification: Option<Value>,
    /// Exposure of the canaries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exposure: Option<Value>,
    /// The in/out audit of canaries included by coins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coins: Option<Value>,
    /// Membership inference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub membership: Option<Value>,
    /// Extraction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extraction: Option<Value>,
}

impl CellDocument {
    /// Returns the result of a cell; `None` while one of its stages is pending.
    pub(super) fn of(plan: &Plan, cell: &Cell, outcomes: &[Option<Outcome>]) -> Option<Self> {
        let (mut stages, mut answer, mut failed) = (Vec::new(), HashMap::new(), None);
        for at in &cell.stages {
            let stage = &plan.stages[*at];
            match outcomes[*at].as_ref()? {
                Ok(finished) => {
                    stages.push(StageOf {
                        work: stage.work,
                        name: stage.name.clone(),
                        seconds: finished.seconds,
                        exceeded: finished.exceeded,
                        undecided: finished.undecided.clone(),
                    });
                    answer.insert(stage.work, finished.answer.clone());
                }
                Err(why) => failed = failed.or_else(|| Some(why.clone())),
            }
        }
        Some(Self {
            place: cell.place.clone(),
            failed,
            stages,
            preparation: answer.remove(&Work::Prepare),
            training: answer.remove(&Work::Train),
            perplexity: answer.remove(&Work::Perplexity),
            classification: answer.remove(&Work::Classify),
            exposure: answer.remove(&Work::Exposure),
            coins: answer.remove(&Work::Coins),
            membership: answer.remove(&Work::Membership),
            extraction: answer.remove(&Work::Extract),
        })
    }

    /// Returns the answer of one of its attacks or of an earlier stage, if present.
    fn part(&self, part: Work) -> Option<&Value> {
        match part {
            Work::Prepare => self.preparation.as_ref(),
            Work::Train => self.training.as_ref(),
            Work::Perplexity => self.perplexity.as_ref(),
            Work::Classify => self.classification.as_ref(),
            Work::Exposure => self.exposure.as_ref(),
            Work::Coins => self.coins.as_ref(),
            Work::Membership => self.membership.as_ref(),
            Work::Extract => self.extraction.as_ref(),
            _ => None,
        }
    }

    /// Returns a number from one of its parts, if present.
    #[must_use]
    pub fn number(&self, part: Work, place: &str) -> Option<f64> {
        let place = Quantity::At(place.to_owned());
        place.of(self.part(part)?).ok()
    }

    /// Returns one of the quantities that audits measure, if it was measured.
    #[must_use]
    pub fn measured(&self, what: Known) -> Option<f64> {
        Quantity::Known(what).of(self.part_with(what)?).ok()
    }

    /// Returns what a quantity would be on average if nothing leaked, if that is known.
    #[must_use]
    pub fn without_a_leak(&self, what: Known) -> Option<f64> {
        Quantity::Known(what).without_a_leak(self.part_with(what)?)
    }

    /// Returns the answer that holds a quantity.
    fn part_with(&self, what: Known) -> Option<&Value> {
        self.part(match what {
            Known::Exposure | Known::ExposureMean | Known::Epsilon => Work::Exposure,
            Known::Auc | Known::Accuracy => Work::Membership,
            Known::Perplexity => Work::Perplexity,
            Known::ClippedShare => return None,
        })
    }

    /// Returns the upper end of ε of the first promise; infinite if nothing is promised.
    #[must_use]
    pub fn promise(&self) -> Option<f64> {
        self.number(Work::Train, "headline")
    }

    /// Returns how long the cell's own stages took: training and attacks.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        let shared = |work| {
            use Work::{Incidence, Plant, Prepare, Redact, Simulate};
            matches!(work, Simulate | Redact | Plant | Prepare | Incidence)
        };
        let own = self.stages.iter().filter(|stage| !shared(stage.work));
        own.map(|stage| stage.seconds).sum()
    }

    /// Returns the most severe outcome of its attacks; `None` if there is none, or if a stage failed.
    #[must_use]
    pub fn outcome(&self) -> Option<Mood> {
        if self.failed.is_some() {
            return None;
        }
        let attacks = [
            &self.exposure,
            &self.coins,
            &self.membership,
            &self.extraction,
        ];
        let each = attacks.into_iter().flatten();
        each.filter_map(|answer| Mood::deserialize(&answer["outcome"]).ok())
            .max()
    }

    /// Returns its row.
    pub(in crate::audit) fn row(&self) -> Row {
        let number = |value: Option<f64>| value.map(Number);
        let undecided = self.stages.iter().filter_map(|s| s.undecided.as_deref());
        let undecided: Vec<&str> = undecided.collect();
        Row {
            cell: self.place.name(),
            place: self.place.clone(),
            failed: self.failed.clone(),
            undecided: (!undecided.is_empty()).then(|| undecided.join("; ")),
            perplexity: number(self.measured(Known::Perplexity)),
            accuracy: number(self.number(Work::Classify, "accuracy")),
            exposure: number(self.measured(Known::Exposure)),
            exposure_mean: number(self.measured(Known::ExposureMean)),
            auc: number(self.measured(Known::Auc)),
            promise: number(self.promise()),
            coins_epsilon: number(self.number(Work::Coins, "epsilon.lower")),
            exceeded: self.stages.iter().any(|stage| stage.exceeded),
            outcome: self.outcome(),
            seconds: self.seconds(),
        }
    }
}

/// A cell in the table.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// The name of its document in `cells/`.
    pub cell: String,
    /// Where it stands.
    #[serde(flatten)]
    pub place: Place,
    /// Why it failed; absent if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Why limits are left undecided; absent if none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undecided: Option<String>,
    /// Of the held-out text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub perplexity: Option<Number>,
    /// The share of the held-out text whose class was predicted correctly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<Number>,
    /// The largest, in bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exposure: Option<Number>,
    /// The mean, in bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exposure_mean: Option<Number>,
    /// The area under the ROC curve of membership inference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auc: Option<Number>,
    /// Upper bound on ε of the first promise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promise: Option<Number>,
    /// Lower bound on ε, by the coins of canaries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coins_epsilon: Option<Number>,
    /// Whether an attack contradicts a promise, or exceeds a limit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exceeded: bool,
    /// The most severe outcome of the attacks, each judged by itself; absent if the cell failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Mood>,
    /// Seconds of training and attacks.
    pub seconds: f64,
}

impl Row {
    /// The columns of the table: all fields, in their order.
    pub(super) const COLUMNS: [&str; 21] = [
        "cell",
        "arm",
        "recipe",
        "model",
        "seed",
        "miss_rate",
        "canary_recall",
        "sigma",
        "epsilon",
        "failed",
        "undecided",
        "perplexity",
        "accuracy",
        "exposure",
        "exposure_mean",
        "auc",
        "promise",
        "coins_epsilon",
        "exceeded",
        "outcome",
        "seconds",
    ];
}

/// The result of `audit grid`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct GridReport {
    /// Cells that finished.
    pub finished: usize,
    /// Cells that failed.
    pub failed: usize,
    /// Stages of all cells, each counted once.
    pub stages: usize,
    /// Those that an earlier run had finished.
    pub stages_before: usize,
    /// Texts on which perplexity or accuracy was measured; of several, they compare the texts too.
    pub texts: usize,
    /// Seconds of all stages together, whenever they ran.
    pub seconds: f64,
    /// A row for each cell, in the order of the file.
    pub rows: Vec<Row>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Exit;
    use serde_json::json;
    use std::slice::from_ref;

    fn report(stages: &[Value], failed: Option<&str>) -> GridReport {
        let mut cell = json!({"arm": "sgd", "recipe": "sgd", "model": "lstm", "seed": 0, "miss_rate": 0.0,
            "canary_recall": 0.0, "stages": stages});
        if let Some(why) = failed {
            cell["failed"] = why.into();
        }
        let cell: CellDocument = serde_json::from_value(cell).unwrap();
        GridReport {
            finished: usize::from(failed.is_none()),
            failed: usize::from(failed.is_some()),
            stages: stages.len(),
            stages_before: 0,
            texts: 1,
            seconds: 0.0,
            rows: vec![cell.row()],
        }
    }

    /// A table of perplexities alone had no `outcome`, and one without noise no `sigma`.
    #[test]
    fn the_table_has_a_column_for_each_field() {
        let schema = schemars::schema_for!(Row).to_value();
        let fields = schema["properties"].as_object().unwrap();
        let mut fields: Vec<&str> = fields.keys().map(String::as_str).collect();
        let mut columns = Row::COLUMNS;
        fields.sort_unstable();
        columns.sort_unstable();
        assert_eq!(fields, columns);
    }

    /// Neither 0 nor 1 is true of a grid with a cell of which nothing is known, unless another says 1.
    #[test]
    fn what_is_not_known_of_a_cell_ends_a_grid_with_an_error() {
        let stage = |more: Value| {
            let mut stage = json!({"work": "exposure", "name": "exposure-0", "seconds": 1.0});
            stage
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            stage
        };
        let whole = stage(json!({}));
        let open = stage(json!({"undecided": "exposure: --max-exposure: not known"}));
        let above = stage(json!({"exceeded": true}));
        let end =
            |stages: &[Value], failed| report(stages, failed).end().map_err(|e| e.to_string());
        assert_eq!(end(from_ref(&whole), None), Ok(Exit::Finished));
        let said = end(from_ref(&open), None).unwrap_err();
        assert!(said.contains("undecided in 1 of 1 cells"), "{said}");
        let said = end(from_ref(&whole), Some("training: no memory")).unwrap_err();
        assert!(said.contains("1 of 1 cells failed"), "{said}");
        // A grid without a finished cell called its outcome open, in 1 of 1 cell.
        let page = report(from_ref(&whole), Some("training: no memory")).to_page();
        let text = page.to_text(crate::page::View::full());
        assert!(
            !text.contains("Most severe") && text.contains("  failed\n"),
            "{text}"
        );
        assert_eq!(end(&[open.clone(), above], Some("why")), Ok(Exit::Exceeded));
        let page = report(from_ref(&open), None).to_page();
        assert!(
            !page
                .to_text(crate::page::View::full())
                .contains("compare the texts")
        );
        assert!(
            page.said().contains("a limit undecided in 1"),
            "{}",
            page.said()
        );
        assert!(
            page.to_text(crate::page::View::full())
                .contains("--max-exposure: not known")
        );
        let mut measured = report(&[], None);
        measured.rows[0].outcome = Some(Mood::Review);
        measured.rows[0].exposure = Some(Number(18.93));
        let said = measured.to_page().said().to_owned();
        let first =
            "Most severe outcome: review, in 1 of 1 cell. Largest exposure: 18.93 bits, in ";
        assert!(said.starts_with(first), "{said}");
        let several = GridReport {
            texts: 4,
            ..report(&[], None)
        };
        let text = several.to_page().to_text(crate::page::View::full());
        assert!(text.contains("of 4 texts"), "{text}");
    }
}

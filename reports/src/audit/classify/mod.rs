//! The report of `audit classify`: how well a classifier predicts the classes of texts that it was not trained
//! on.

pub mod args;
#[cfg(feature = "audit")]
pub(super) mod run;

use crate::contract::{Table, dash};
use crate::number::{count_of, grouped, nearest, rounded};
use crate::page::{Page, Section};
use anyhow::Result;
use reticent_accounting::statistics::{clopper_pearson_lower, clopper_pearson_upper};
use reticent_accounting::{Confidence, Lower, Probability, Upper};
use reticent_backends::run::Classified;
use reticent_corpus::Unit;
use schemars::JsonSchema;
use serde::Serialize;

/// The confidence of each end of the accuracy's interval, so that both hold with 0.95.
const EACH: f64 = 0.975;

/// Returns the name of a class for which a model's folder has none.
pub(super) fn numbered(class: usize) -> String {
    format!("LABEL_{class}")
}

/// The result of `audit classify`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ClassifyReport {
    /// The share of records whose most probable class is theirs, and the mean of F1 over classes.
    #[serde(flatten)]
    pub predicted: Classified,
    /// Both ends of the accuracy with confidence 0.95, were these records a simple random sample.
    pub accuracy_lower: Lower<Probability>,
    /// The upper end.
    pub accuracy_upper: Upper<Probability>,
    /// Mean −ln p of a record's class, nats.
    pub loss: f64,
    /// Records.
    pub records: u64,
    /// Records longer than the model reads, of which the beginning was read, and the token that ends it, where there is one.
    #[serde(skip_serializing_if = "crate::contract::is_zero")]
    pub cut: u64,
    /// What one record is.
    pub unit: Unit,
    /// Class by class.
    pub classes: Vec<ClassRow>,
}

/// Results for one class.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ClassRow {
    /// Its name.
    pub name: String,
    /// Records of it.
    pub records: u64,
    /// Records predicted to be of it.
    #[serde(rename = "told")]
    pub predicted: u64,
    /// Those of both.
    pub right: u64,
}

impl ClassRow {
    /// Returns 2 · right / (records + predicted); `None` if both are zero.
    fn f1(&self) -> Option<f64> {
        let all = self.records + self.predicted;
        (all > 0).then(|| 2.0 * self.right as f64 / all as f64)
    }
}

impl ClassifyReport {
    /// Creates the report from each record's class with the predicted one, Σ −ln p of the classes in nats, the number
    /// of truncated records, what one record is, and the names of all classes.
    ///
    /// # Errors
    /// Returns an error if there is no record.
    pub fn new(
        pairs: &[(usize, usize)],
        nll: f64,
        cut: u64,
        unit: Unit,
        names: &[String],
    ) -> Result<Self> {
        let (records, confidence) = (pairs.len() as u64, Confidence::new(EACH)?);
        let right = pairs
            .iter()
            .filter(|(class, predicted)| class == predicted)
            .count() as u64;
        let count = |of: &dyn Fn(&(usize, usize)) -> bool| pairs.iter().filter(|p| of(p)).count();
        let row = |(number, name): (usize, &String)| ClassRow {
            name: name.clone(),
            records: count(&|(class, _)| *class == number) as u64,
            predicted: count(&|(_, predicted)| *predicted == number) as u64,
            right: count(&|pair| *pair == (number, number)) as u64,
        };
        Ok(Self {
            accuracy_lower: clopper_pearson_lower(right, records, confidence)?,
            accuracy_upper: clopper_pearson_upper(right, records, confidence)?,
            predicted: Classified::of(pairs, names.len()),
            loss: nll / records.max(1) as f64,
            records,
            cut,
            unit,
            classes: names.iter().enumerate().map(row).collect(),
        })
    }

    /// Describes the result in a sentence.
    #[must_use]
    pub fn says(&self) -> String {
        let most = self.classes.iter().map(|class| class.records).max();
        let cut = match self.cut {
            0 => String::new(),
            cut => format!(
                "; of {} longer than the model reads, the beginning was read (and the token that ends a text, where the tokenizer adds one)",
                count_of(cut, "record")
            ),
        };
        format!(
            "Accuracy {} (95 %: {} to {}) and macro-F1 {} over {} of {} (unit: {}); always telling the most frequent \
             class would have accuracy {}{cut}.",
            nearest(self.predicted.accuracy, 4),
            rounded(self.accuracy_lower, 4),
            rounded(self.accuracy_upper, 4),
            nearest(self.predicted.macro_f1, 4),
            count_of(self.records, "record"),
            count_of(self.classes.len() as u64, "class"),
            self.unit,
            nearest(most.unwrap_or(0) as f64 / self.records.max(1) as f64, 4),
        )
    }

    /// Returns the page.
    #[must_use]
    pub fn to_page(&self, released: &str) -> Page {
        let table = Table::of(&self.classes)
            .left("class", |class| &class.name)
            .right("records", |class| grouped(class.records))
            .right("predicted", |class| grouped(class.predicted))
            .right("correct", |class| grouped(class.right))
            .right("F1", |class| {
                class.f1().map_or_else(dash, |f1| nearest(f1, 4))
            });
        let not_said = [
            "The interval holds for records drawn at random; turns of one dialogue are no such sample.",
            "High accuracy on text that was trained on proves no leak, and none that there is none.",
        ];
        Page::new(format!("Classes: {released}"), self.says())
            .answer(Section::table("Class by class", table))
            .section(Section::notes("What this number does not say", not_said))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Envelope, Inputs};
    use crate::schema::fits;

    #[test]
    fn text_document_and_page_say_the_same() {
        let names = ["hotel", "taxi", "train"].map(str::to_owned);
        let pairs = [(0, 0), (0, 0), (0, 1), (1, 1)];
        let report = ClassifyReport::new(&pairs, 2.0, 1, Unit::Turn, &names).unwrap();
        let says = report.says();
        assert!(
            says.starts_with("Accuracy 0.7500 (95 %: 0.1941 to 0.993"),
            "{says}"
        );
        assert!(
            says.contains("macro-F1 0.7333") && says.contains("accuracy 0.7500;"),
            "{says}"
        );
        let rows = &report.classes;
        assert_eq!(
            (rows[1].records, rows[1].predicted, rows[1].right),
            (1, 2, 1)
        );
        assert_eq!(rows[2].f1(), None);
        let html = report.to_page("ckpt").to_html().unwrap();
        assert!(html.contains("macro-F1 0.7333"));
        let text = Envelope::new("classification", Inputs::new(), &report)
            .to_text()
            .unwrap();
        fits("classification", &text);
        assert!(ClassifyReport::new(&[], 2.0, 1, Unit::Turn, &names).is_err());
    }
}

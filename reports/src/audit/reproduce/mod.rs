//! `audit reproduce`: compares the claims of a paper with measurements made here; each is judged by a rule fixed in
//! advance.

pub mod args;
mod claims;
mod evidence;
mod page;
mod rules;
mod run;
mod study;

pub use args::{Paper, Scale};
pub use claims::Claim;
pub use rules::{Judgement, Need, Point, Rule, Series};
pub use run::run;

use crate::audit::grid::Work;
use schemars::JsonSchema;
use serde::Serialize;

/// A claim, what was measured for it, and the result.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Judged {
    /// Its name.
    pub id: String,
    /// The table, figure or section.
    pub item: String,
    /// What is claimed.
    pub claim: String,
    /// What the paper prints.
    pub printed: String,
    /// The rule, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub rule: String,
    /// What was measured, a value for each run, with the documents that it comes from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub measured: Vec<Series>,
    /// What becomes of it.
    #[serde(flatten)]
    pub judgement: Judgement,
}

impl Judged {
    /// Returns whether it is reproduced by answers of the accountant alone: no model was trained for it.
    fn is_computed(&self) -> bool {
        let points = self.measured.iter().flat_map(|series| &series.points);
        let mut from = points.flat_map(|point| &point.from);
        let prefix = format!("stages/{}-", Work::Account.part());
        self.judgement == Judgement::Reproduced && from.all(|from| from.starts_with(&prefix))
    }
    /// Judges a claim by the measurements.
    fn of(claim: &Claim, measured: &[Series]) -> Self {
        let (rule, judgement) = match &claim.rule {
            Some(rule) => {
                let conditions = claim.needs.iter().map(|need| format!(", {}", need.says()));
                let said = format!("{}{}", rule.says(), conditions.collect::<String>());
                (said, rule.judge(&claim.needs, measured))
            }
            None => (String::new(), Judgement::open(&claim.open)),
        };
        let mut own: Vec<Series> = Vec::new();
        let names = claim.names().into_iter().map(str::to_owned);
        for name in names.chain(claim.epsilons()) {
            let known = own.iter().any(|series| series.what == name);
            if let Some(series) = measured.iter().find(|series| series.what == name)
                && !known
            {
                own.push(series.clone());
            }
        }
        let points = own.iter().flat_map(|series| &series.points);
        let mut alone = points.filter(|point| point.values.len() < 2);
        let trained = |point: &Point| point.from.iter().any(|from| from.starts_with("cells/"));
        let single = alone.any(trained);
        let judgement = match judgement {
            Judgement::Reproduced if single => Judgement::open("a single run has no spread"),
            other => other,
        };
        Self {
            id: claim.id.clone(),
            item: claim.item.clone(),
            claim: claim.says.clone(),
            printed: claim.printed.clone(),
            rule,
            measured: own,
            judgement,
        }
    }
}

/// The result of `audit reproduce`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Reproduction {
    /// The paper.
    pub paper: Paper,
    /// How large it was.
    pub scale: Scale,
    /// Where the text comes from.
    pub data: String,
    /// Claims whose rule holds.
    pub reproduced: usize,
    /// Claims whose rule does not hold.
    pub not_reproduced: usize,
    /// Claims that cannot be tested.
    pub not_testable: usize,
    /// Cells of the grid.
    pub cells: usize,
    /// Cells and questions that failed, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
    /// Cells in which an attack contradicts a promise or exceeds a limit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contradicted: Vec<String>,
    /// Seconds of all stages together, whenever they ran.
    pub seconds: f64,
    /// Remarks on the data.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Every requested claim.
    pub claims: Vec<Judged>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The margin of one seed is 0, and arms are compared at their ε.
    #[test]
    fn one_run_reproduces_nothing_and_what_is_compared_shows_its_epsilon() {
        let text = "id = 'i'\nitem = 't'\nsays = 's'\nprinted = 'p'\nrule.below = { series = ['loss of A', 'loss of B'] }";
        let claim: Claim = toml::from_str(text).unwrap();
        let judged = |runs: usize| {
            let series = |what: &str, value: f64| Series {
                what: what.to_owned(),
                points: vec![Point {
                    x: 0.0,
                    values: vec![value; runs],
                    from: vec!["cells/a.json".to_owned()],
                }],
            };
            let all = [
                ("loss of A", 1.0),
                ("loss of B", 2.0),
                ("ε of a record of B", 2.5),
            ];
            Judged::of(&claim, &all.map(|(what, value)| series(what, value)))
        };
        let twice = judged(2);
        assert_eq!(twice.judgement, Judgement::Reproduced);
        let shown = |series: &Series| series.what == "ε of a record of B";
        assert!(twice.measured.iter().any(shown), "{:?}", twice.measured);
        let why = Judgement::open("a single run has no spread");
        assert_eq!(judged(1).judgement, why);
    }
}

//! The secrets of a run of `protect`, as its manifest certifies them.

use super::plan::Question;
use crate::contract::Table;
use crate::number::{count_of, grouped, rounded, shortest};
use anyhow::Result;
use reticent_accounting::training::{Run, TrainingPlan};
use reticent_accounting::{
    Bounds, GroupSize, Guarantee, Mechanism, Method, Neighbours, Notion, Probability, UnitName,
    Upper,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The number of classes that are printed, those nearest to their promise first.
const SHOWN: usize = 10;

/// The chance of guessing each secret, by classes of one promise and one bound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecretPosteriors {
    /// Total number of secrets.
    pub secrets: u64,
    /// How many of them have a posterior within their promise.
    pub kept: u64,
    /// Secrets, the most records of each that are drawn, prior, promised posterior, and the posterior, at most.
    pub classes: Vec<(u64, u64, Probability, Probability, Upper<Probability>)>,
}

impl SecretPosteriors {
    /// Returns the posteriors of a plan that releases `mechanism`; `None` if it is not a run of
    /// `protect`.
    ///
    /// # Errors
    /// Returns no error for a plan that was certified.
    pub fn of(plan: &TrainingPlan, mechanism: &Mechanism) -> Result<Option<Self>> {
        let Run::Protect { weighted } = &plan.run else {
            return Ok(None);
        };
        let Some(certified) = &weighted.secrets else {
            return Ok(None);
        };
        // If the document describes more than its plan, its promise doesn't hold.
        let whole = plan.mechanism() == *mechanism;
        let classes: Vec<_> = plan
            .secret_posteriors()?
            .into_iter()
            .map(|(class, found)| {
                let (prior, promised) = (class.promise.prior(), class.promise.posterior());
                let found = if whole {
                    found
                } else {
                    Upper::new(Probability::ONE)
                };
                (
                    class.secrets,
                    certified.records_drawn(&class),
                    prior,
                    promised,
                    found,
                )
            })
            .collect();
        let kept = classes
            .iter()
            .filter(|(.., promised, found)| found.get() <= promised);
        Ok(Some(Self {
            secrets: certified.secrets(),
            kept: kept.map(|(secrets, ..)| secrets).sum(),
            classes,
        }))
    }

    /// Returns how many secrets there are, and how many promises are kept.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self.kept == self.secrets {
            true => format!(
                "{}, each guessed after training with at most the probability promised",
                count_of(self.secrets, "secret")
            ),
            false => format!(
                "{} of {} secrets have no promise that is kept",
                grouped(self.secrets - self.kept),
                grouped(self.secrets)
            ),
        }
    }

    /// Returns the classes nearest to their promises.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut nearest: Vec<_> = self.classes.iter().collect();
        let share = |row: &(u64, u64, Probability, Probability, Upper<Probability>)| {
            row.4.get().get() / row.3.get()
        };
        nearest.sort_by(|a, b| share(b).total_cmp(&share(a)));
        Table::of(nearest.into_iter().take(SHOWN))
            .right("secrets", |(secrets, ..)| grouped(*secrets))
            .right("records drawn", |(_, records, ..)| grouped(*records))
            .right("before", |(.., prior, _, _)| shortest(prior.get()))
            .right("promised", |(.., promised, _)| shortest(promised.get()))
            .right("after, upper", |(.., found)| rounded(*found, 4))
            .into()
    }

    /// Returns the text that accompanies the table.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let mut said = vec![self.sentence()];
        if self.classes.len() > SHOWN {
            said.push(format!(
                "the {SHOWN} nearest to their promises of {} kinds of secrets; --format json has all",
                grouped(self.classes.len() as u64)
            ));
        }
        said
    }

    /// Returns a row for each class.
    ///
    /// # Errors
    /// Returns no error for a plan that was certified.
    pub fn rows(&self) -> Result<Vec<Guarantee>> {
        let unit = UnitName::new("secret")?;
        let of = |(_, records, prior, _, found): &(_, u64, Probability, _, Upper<Probability>)| {
            // A secret may be in no record that is drawn, or in more than the group of a question can have.
            let group = u32::try_from(*records).ok();
            Guarantee {
                prior: Some(*prior),
                posterior: Some(Bounds::below(*found)),
                group: group.and_then(|records| GroupSize::new(records).ok()),
                ..Guarantee::new(
                    Notion::SecretProtection,
                    Neighbours::ZeroOut,
                    unit.clone(),
                    Method::BlowUp,
                )
            }
        };
        Ok(self.classes.iter().map(of).collect())
    }
}

/// Replaces the posteriors from a single prior with the bounds of the individual secrets, instead
/// of rates that dominate those of all.
///
/// # Errors
/// Returns no error for a plan that was certified.
pub fn by_secret(question: &Question, rows: Vec<Guarantee>) -> Result<Vec<Guarantee>> {
    let (Some(ran), Some(prior)) = (question.run.of_manifest(), question.plan.prior) else {
        return Ok(rows);
    };
    let single =
        question.plan.group == GroupSize::ONE && ran.mechanism() == question.plan.mechanism;
    let found = ran.secret_posteriors_at(prior)?.into_iter();
    let found = found.map(|(_, posterior)| posterior).filter(|_| single);
    let Some(found) = found.reduce(|a, b| if a.get() > b.get() { a } else { b }) else {
        return Ok(rows);
    };
    let kept = rows.into_iter().filter_map(|row| match row.method {
        _ if row.notion != Notion::SecretProtection => Some(row),
        Method::BlowUp => Some(Guarantee {
            posterior: Some(Bounds::below(found)),
            ..row
        }),
        _ => None,
    });
    Ok(kept.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A secret is promised something in however many records it is, none of them included.
    #[test]
    fn a_secret_of_any_number_of_records_has_a_row() {
        let half = Probability::new(0.5).unwrap();
        let of = |records| (1, records, half, half, Upper::new(half));
        let secrets = SecretPosteriors {
            secrets: 3,
            kept: 3,
            classes: vec![of(0), of(3), of(20_000)],
        };
        let rows = secrets.rows().unwrap().into_iter();
        let groups: Vec<_> = rows.map(|row| row.group.map(GroupSize::get)).collect();
        assert_eq!(groups, [None, Some(3), None]);
    }
}

//! `audit epsilon`: lower bounds on ε from counts.

pub mod args;
mod page;

use super::args::EpsilonArgs;
use crate::audit::epsilon_limit;
use crate::contract::{Csv, Envelope, Exit, Inputs, Table, not_known, open_limit};
use crate::number::{count_of, grouped, rounded, rounded_down, shortest};
use crate::page::{Mood, Output, Reach};
use anyhow::Result;
use reticent_accounting::training::TrainingPlan;
use reticent_accounting::{Delta, Epsilon, Neighbours, UnitName, Upper};
use reticent_attacks::exposure::{Assumption, EpsilonMethod};
use reticent_attacks::{AuditBound, AuditTerms, OneRunCounts, RateCounts, Sides};
use schemars::JsonSchema;
use serde::Serialize;

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Counted {
    /// Coins of one run.
    OneRun(OneRunCounts),
    /// Positives of independent runs.
    Rates(RateCounts),
}

impl Counted {
    /// Returns the same trials with every guess correct.
    const fn best(self) -> Self {
        match self {
            Self::OneRun(counts) => Self::OneRun(counts.best()),
            Self::Rates(counts) => Self::Rates(counts.best()),
        }
    }

    /// Returns the same trials with each guess inverted.
    const fn turned(self) -> Self {
        match self {
            Self::OneRun(counts) => Self::OneRun(counts.inverted()),
            Self::Rates(counts) => Self::Rates(counts.inverted()),
        }
    }

    /// Returns the bound that assumes no family of mechanisms.
    fn bound(&self, terms: &AuditTerms) -> Result<AuditBound> {
        Ok(match self {
            Self::OneRun(counts) => counts.bound(terms)?,
            Self::Rates(counts) => counts.bound(Sides::Both, terms)?,
        })
    }
}

/// The result of `audit epsilon`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct EpsilonReport {
    /// What was counted.
    pub counts: Counted,
    /// The bound that assumes no family of mechanisms, then those that do. Each holds with its
    /// own confidence; they are not searched for the largest.
    pub bounds: Vec<AuditBound>,
    /// The largest ε that the first bound can reach with this many trials, all guessed right.
    pub provable: Upper<Epsilon>,
    /// What the first bound would be with each guess the other way round.
    #[serde(skip)]
    turned: f64,
}

/// Computes the bounds and prints them.
///
/// # Errors
/// Returns an error if counts or terms are out of range.
pub fn run(args: &EpsilonArgs, output: Output) -> Result<Exit> {
    let mut output = output.and_page(args.html.as_deref())?;
    let terms = terms(args)?;
    let report = EpsilonReport::of(counts(args)?, &terms)?;
    let args = &EpsilonArgs {
        max_epsilon: epsilon_limit(args.max_epsilon, *report.provable.get(), &mut output),
        ..args.clone()
    };
    let inputs = inputs(args, &terms)?;
    let exit = report.exit(args);
    output.answer_with_rows(
        &Envelope::new("epsilon", inputs.clone(), &report),
        &page::page(&report, args, &inputs)?,
        || Ok(Csv::of_rows(&report.bounds)?),
    )?;
    open_limit(exit, report.undecided(args))
}

fn counts(args: &EpsilonArgs) -> Result<Counted> {
    match (args.counts, args.rates) {
        (Some(counts), _) => Ok(Counted::OneRun(counts)),
        (None, Some(rates)) => Ok(Counted::Rates(rates)),
        (None, None) => anyhow::bail!("--counts or --rates must be given"),
    }
}

fn terms(args: &EpsilonArgs) -> Result<AuditTerms> {
    Ok(AuditTerms {
        confidence: crate::audit::confidence(args.confidence)?,
        delta: (args.delta).unwrap_or_else(|| TrainingPlan::default_delta(None)),
        neighbours: args.neighbours.unwrap_or(Neighbours::AddRemove),
        unit: args
            .unit
            .clone()
            .map_or_else(|| UnitName::new("record"), Ok)?,
        copies: args.copies.unwrap_or(1),
    })
}

fn inputs(args: &EpsilonArgs, terms: &AuditTerms) -> Result<Inputs> {
    let inputs = Inputs::new()
        .or_assumed("delta", args.delta, terms.delta)?
        .or_assumed("confidence", args.confidence, terms.confidence)?
        .or_assumed("neighbours", args.neighbours, terms.neighbours)?
        .or_assumed("unit", args.unit.clone(), terms.unit.clone())?
        .or_assumed("copies", args.copies, terms.copies)?
        .given("max_epsilon", args.max_epsilon)?;
    Ok(inputs)
}

impl EpsilonReport {
    /// Computes all bounds that these counts allow under these terms.
    ///
    /// # Errors
    /// Returns an error if δ = 1 or there are zero copies.
    pub fn of(counts: Counted, terms: &AuditTerms) -> Result<Self> {
        let provable = counts.best().bound(terms)?.lower.into_inner();
        let turned = counts.turned().bound(terms)?.lower.get().get();
        let mut bounds = vec![counts.bound(terms)?];
        // The pure ε of a Gaussian is infinite: there is nothing to bound.
        if terms.delta.get() > 0.0 {
            bounds.push(match &counts {
                Counted::OneRun(counts) => counts.gaussian_bound(terms)?,
                Counted::Rates(counts) => counts.gaussian_bound(terms)?,
            });
        }
        Ok(Self {
            counts,
            bounds,
            provable: Upper::new(provable),
            turned,
        })
    }

    /// Returns the first bound, which assumes no family of mechanisms.
    fn found(&self) -> f64 {
        self.bounds.first().map_or(0.0, |b| b.lower.get().get())
    }

    /// Returns δ, if it alone keeps this many trials from refuting any positive ε.
    fn forbidding_delta(&self) -> Option<Delta> {
        let terms = &self.bounds.first()?.terms;
        let without = AuditTerms {
            delta: Delta::new(0.0).ok()?,
            ..terms.clone()
        };
        let provable = self.counts.best().bound(&without).ok()?.lower;
        (self.provable.get().get() <= 0.0 && provable.get().get() > 0.0).then_some(terms.delta)
    }

    /// Returns the mood. A positive bound is for review unless a limit judges it. A result without one is open if
    /// this many trials could not have exceeded the limit or shown any bound.
    fn mood(&self, args: &EpsilonArgs) -> Mood {
        let provable = self.provable.get().get();
        let reach = Reach {
            leak: provable > 0.0,
            promise: None,
            limit: args.max_epsilon.map(|limit| provable > limit.get()),
        };
        let otherwise = match self.is_turned() {
            true => Mood::Open,
            false => Mood::of_leak(self.found() > 0.0, reach, false),
        };
        Mood::of(self.exit(args), otherwise)
    }

    /// Returns whether guesses are wrong more often than chance explains, so that counted the other way round they
    /// refute an ε.
    fn is_turned(&self) -> bool {
        self.found() <= 0.0 && self.turned > 0.0
    }

    /// Returns why such counts don't decide whether ε exceeds the limit.
    fn undecided(&self, args: &EpsilonArgs) -> Option<String> {
        let limit = args.max_epsilon?;
        let why = if self.turned > limit.get() {
            "guesses are wrong more often than chance explains: count them the other way round"
                .to_owned()
        } else if self.provable.get() <= &limit {
            format!(
                "such counts prove {} at most, with every guess right; give more trials, or a limit below that",
                rounded(self.provable, 4)
            )
        } else {
            return None;
        };
        let limit = shortest(limit.get());
        Some(not_known("--max-epsilon", "ε", &limit, &why))
    }

    /// Returns 1 if the first bound, which assumes no family of mechanisms, exceeds the limit.
    #[must_use]
    pub fn exit(&self, args: &EpsilonArgs) -> Exit {
        let limit = args.max_epsilon;
        Exit::of(limit.is_some_and(|limit| self.found() > limit.get()))
    }
}

/// Describes what was counted.
fn counted(counts: &Counted) -> String {
    match counts {
        Counted::OneRun(c) => format!(
            "{} included at random, {}, {} correct",
            count_of(c.canaries(), "canary"),
            count_of(c.guesses(), "guess"),
            grouped(c.correct())
        ),
        Counted::Rates(c) => format!(
            "{} of {} runs with the record recognised, {} of {} without it mistaken",
            grouped(c.tp()),
            grouped(c.members()),
            grouped(c.fp()),
            grouped(c.non_members())
        ),
    }
}

fn table(report: &EpsilonReport) -> Table {
    let at_least = |epsilon: f64| match epsilon > 0.0 {
        true => rounded_down(epsilon, 4),
        false => "0".to_owned(),
    };
    Table::of(&report.bounds)
        .left("method", |bound| method(bound.method))
        .right("ε at least", |bound| at_least(bound.lower.get().get()))
        .left("what it presupposes", presupposes)
        .into()
}

/// Describes the terms under which the bounds hold.
fn holds(report: &EpsilonReport) -> String {
    report.bounds.first().map_or_else(String::new, |bound| {
        let terms = &bound.terms;
        format!(
            "Each holds with confidence {} for ε at δ = {}: {}, {} of unit {} at once.",
            shortest(terms.confidence.get()),
            shortest(terms.delta.get()),
            terms.neighbours,
            count_of(terms.copies, "record"),
            terms.unit,
        )
    })
}

fn method(method: EpsilonMethod) -> &'static str {
    match method {
        EpsilonMethod::RankAudit => "ranks",
        EpsilonMethod::EValue => "e-values",
        EpsilonMethod::OneRun => "one run",
        EpsilonMethod::OneRunFDp => "one run, f-DP",
        EpsilonMethod::ClopperPearson => "Clopper–Pearson",
        EpsilonMethod::Gdp => "Gaussian (GDP)",
    }
}

fn presupposes(bound: &AuditBound) -> String {
    match bound.assumes {
        Assumption::PureDp => "δ = 0: it meets no ε of a positive δ".to_owned(),
        Assumption::ApproximateDp => "nothing about the mechanism".to_owned(),
        Assumption::GaussianTradeOff => format!(
            "a Gaussian trade-off (then μ ≥ {}); it meets no promise",
            bound.mu.map_or_else(String::new, |mu| rounded_down(mu, 4))
        ),
    }
}

fn caveat(counts: &Counted) -> &'static str {
    match counts {
        Counted::OneRun(_) => {
            "Each canary must be included independently with probability one half, and what is guessed must not depend on it."
        }
        Counted::Rates(_) => {
            "The runs must be independent, and the rule that decides must not depend on them."
        }
    }
}

#[cfg(test)]
mod tests;

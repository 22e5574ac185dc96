//! The demo as a page.

use super::tables::{facts, in_top_ten, leaks, promises, ranks};
use super::{Arm, CAVEATS, DemoReport};
use crate::audit::exposure::{self, Column, Leak, exposure_plot};
use crate::audit::unknown;
use crate::contract::Exit;
use crate::number::{count_of, grouped, nearest, rounded_down, rounded_up, shortest};
use crate::page::{Page, Section};
use crate::plot::{Axis, Plot, Tone};
use crate::verdict::Verdict;
use anyhow::Result;

/// The most lines of the short text, which has both sides of every arm.
const LINES: usize = 48;

impl DemoReport {
    /// Returns the page, for every format.
    ///
    /// # Errors
    /// Returns an error if there is no arm, since a plot then has nothing to show.
    pub fn to_page(&self) -> Result<Page> {
        let columns: Vec<Column<'_>> = self
            .arms
            .iter()
            .map(|arm| (arm.name.as_str(), &arm.exposure.finding))
            .collect();
        let exposures = exposure_plot("Exposure of each canary, arm by arm", &columns)?;
        let arms = self.arms.iter();
        let page = Page::new(
            "How much leaks, with and without protection",
            self.says(),
        )
        .mood(self.exit().into())
        .lines(LINES)
        .section(
            Section::plot("What leaked", exposures.to_inline_svg()?).caption(format!(
                "Each dot is one canary: a random secret planted {} times in the training text. {}",
                self.planted.copies,
                null_line(self).unwrap_or_default()
            )),
        )
        .section(
            Section::plot(
                "Guarantee and measurement",
                epsilons(self).to_inline_svg()?,
            )
            .caption(
                "ε for all copies of one canary replaced at once. The truth lies between what \
                    the attack proves (▸, with its confidence) and what the accountant promises \
                    (◂). A ▸ to the right of its ◂ is a bug, and in the arm without noise one was \
                    planted.",
            ),
        )
        .answer(
            Section::table(
                "What is promised (upper bounds), and how good the model is",
                promises(self),
            )
            .caption(
                "ε is an upper bound, rounded up; ∞ means that nothing is promised. σ noise multiplier, \
                q sampling rate. Perplexity per token on redacted test text.",
            ),
        )
        .answer(
            Section::table("What leaks (lower bounds)", leaks(self)).caption(
                "Exposure counts ties against the canary; p is the chance of this much or more \
                    without a leak. ε ≥ is a lower bound, rounded down. Under the promise, the largest \
                    exposure is below the ceiling with probability 0.95 at least (all: every bit); the \
                    verdict tests the promise, p does not. An arm without noise is held to the promise of \
                    the arm with it.",
            ),
        )
        .section(
            Section::table("Rank of each canary", ranks(self))
                .caption("Rank 1 is the model's favourite among all candidates."),
        )
        .answer(Section::text(
            "For comparison",
            null_line(self)
                .into_iter()
                .chain(provable_line(self))
                .chain([format!(
                    "A trigram model has perplexity {}.",
                    nearest(self.trigram_perplexity, 3)
                )]),
        ))
        .section(Section::facts(
            "The arms",
            arms.map(|arm| (arm.name.clone(), sentence(arm))),
        ))
        .section(Section::facts("What was prepared", facts(self)))
        .caveats(CAVEATS.into_iter().chain(exposure::CAVEATS));
        Ok(page)
    }
}

/// Describes the level of the measured bounds, the largest ε that a verdict on these canaries can prove at its own, and
/// how likely it is to.
fn provable_line(report: &DemoReport) -> Option<String> {
    let held = report.arms.iter().filter(|arm| arm.claim().is_some());
    let (finding, verdict) = held
        .filter_map(|arm| Some((&arm.exposure.finding, arm.exposure.verdict.as_ref()?)))
        .next()?;
    let power: Vec<String> = verdict.power().iter().map(ToString::to_string).collect();
    let power = match power.as_slice() {
        [] => String::new(),
        power => format!("; estimated power {}", power.join(", ")),
    };
    Some(format!(
        "Each ε ≥ holds with confidence {}. A verdict has a false-alarm rate of {} instead, at which ε = {} for all copies is the most that can be proved{power}.",
        shortest(finding.bound().confidence.get()),
        nearest(verdict.false_alarm(), 2),
        rounded_up(verdict.provable(), 4)
    ))
}

/// Describes the exposures expected without any leak.
fn null_line(report: &DemoReport) -> Option<String> {
    let finding = &report.arms.first()?.exposure.finding;
    let (max, mean) = (finding.summary.max(), finding.summary.mean());
    Some(format!(
        "Without any leak the largest of {} exposures is {:.2} bits on average and below {:.2} in 95 % of cases; their mean is {:.2} and below {:.2}. Rank 1 of {} is {:.2} bits.",
        finding.canaries.len(),
        max.null_mean(),
        max.null_95(),
        mean.null_mean(),
        mean.null_95(),
        grouped(finding.candidates),
        (finding.candidates as f64).log2(),
    ))
}

fn sentence(arm: &Arm) -> String {
    match &arm.exposure.verdict {
        Some(verdict) => format!("{} Verdict: {verdict}.", arm.describes),
        None => arm.describes.clone(),
    }
}

/// Draws ε for all copies of a canary: the measured lower and the promised upper bound.
fn epsilons(report: &DemoReport) -> Plot {
    let arms = report.arms.iter();
    let rows: Vec<_> = arms
        .map(|arm| {
            let upper = arm.claimed_epsilon();
            let lower = arm.exposure.finding.bound().lower.get().get();
            ((lower > 0.0).then_some(lower), upper.map(|u| u.get().get()))
        })
        .collect();
    let names = report.arms.iter().map(|arm| &arm.name);
    Plot::of_rows(
        "ε of all copies of one canary",
        Axis::around(&rows),
        ("", names),
        (120, 44),
    )
    .intervals(
        &rows,
        (Tone::MEASURED, "measured: at least"),
        (Tone::PROMISED, "promised: at most"),
    )
    .described("For every arm the lower bound on epsilon that the attack proves and the upper bound that the accountant promises.")
}

impl DemoReport {
    /// Describes the result in two sentences, the same in every format: the first arm, and the best model with a promise.
    #[must_use]
    pub fn says(&self) -> String {
        let mut said = Vec::new();
        if self.exit() == Exit::Exceeded {
            said.push(
                "A promise is contradicted: this is a bug in the training or in the accounting."
                    .to_owned(),
            );
        }
        let first = self.arms.first();
        let protected = self
            .arms
            .iter()
            .filter(|arm| arm.promise().is_some())
            .min_by(|a, b| a.perplexity.total_cmp(&b.perplexity));
        if let Some(arm) = first {
            said.push(format!(
                "{} {}, at perplexity {}.",
                arm.name,
                outcome(arm),
                nearest(arm.perplexity, 3)
            ));
        }
        if let Some((arm, epsilon)) = protected.and_then(|arm| Some((arm, arm.promise()?))) {
            said.push(format!(
                "{}, with ε ≤ {} for one record, {}, at perplexity {}.",
                arm.name,
                rounded_up(epsilon, 3),
                outcome(arm),
                nearest(arm.perplexity, 3)
            ));
        }
        for arm in self.arms.iter().filter(|arm| arm.is_noiseless()) {
            if let Some(verdict) = &arm.exposure.verdict {
                said.push(planted_bug(arm, verdict));
            }
        }
        said.join(" ") + &unknown::warning(&self.preparation)
    }
}

/// Describes the audit of an arm whose noise was left out.
fn planted_bug(arm: &Arm, verdict: &Verdict) -> String {
    let name = &arm.name;
    let promised = rounded_up(verdict.promised_at_most(), 3);
    let false_alarm = nearest(verdict.false_alarm(), 2);
    match verdict.is_contradicted() {
        true => format!(
            "{name}, a planted bug, is caught: ε ≤ {promised} for all copies of a canary is contradicted by ε ≥ {}, with a false-alarm rate of {false_alarm}.",
            rounded_down(verdict.measured_at_least(), 3),
        ),
        false => format!(
            "{name}, a planted bug, is not caught by this audit: of ε ≤ {promised} for all copies of a canary it says {:?}, at a false-alarm rate of {false_alarm}.",
            verdict.outcome()
        ),
    }
}

fn outcome(arm: &Arm) -> String {
    let finding = &arm.exposure.finding;
    let (max, mean) = (finding.summary.max(), finding.summary.mean());
    match (Leak::of(&finding.summary), in_top_ten(arm)) {
        (Leak::Single, 0) => format!(
            "gives away {:.1} bits of a secret, where chance stays below {:.1} in 95 % of cases",
            max.lower(),
            max.null_95()
        ),
        (Leak::Single, hits) => format!(
            "puts {hits} of {} among its ten best guesses of {}",
            count_of(finding.canaries.len() as u64, "secret"),
            grouped(finding.candidates)
        ),
        (Leak::Together, _) => format!(
            "leaks, no canary by itself (mean exposure {:.2} bits, where chance stays below {:.2} in 95 % of cases)",
            mean.lower(),
            mean.null_95()
        ),
        (Leak::Undecided, _) => format!(
            "leaves open whether it leaks (largest exposure {:.1} bits, where chance stays below {:.1} in 95 % of cases; mean {:.2}, below {:.2})",
            max.lower(),
            max.null_95(),
            mean.lower(),
            mean.null_95()
        ),
        (Leak::Unseen, _) => format!(
            "shows no more than chance (largest exposure {:.1} bits, {:.1} is usual)",
            max.lower(),
            max.null_mean()
        ),
    }
}

//! The exposure report as a page.

use super::dose::{dose_plot, dose_table};
use super::facts::{extraction, facts, of_promise, other_test, work};
use super::pieces::{
    along, both_ends, canary_table, exposure_plot, in_brief, left_open, measured, summary_table,
};
use super::{CAVEATS, ExposureReport, Leak};
use crate::contract::Table;
use crate::number::{count_of, grouped, nearest, rounded, rounded_down, rounded_up, shortest};
use crate::page::{Page, Section};
use crate::plot::{Axis, Layer, Plot, Tone};
use crate::verdict::Verdict;
use anyhow::Result;
use reticent_attacks::exposure::{ExposureFinding, ExposureSummary, Statistic};

impl ExposureReport {
    /// Returns the page, for every format.
    ///
    /// # Errors
    /// Returns an error if a plot has nothing to show.
    pub fn to_page(&self, released: &str) -> Result<Page> {
        let finding = &self.finding;
        let plot = exposure_plot("Exposure of each canary", &[(released, finding)])?;
        let page = Page::new(format!("Exposure: {released}"), self.says())
            .mood(self.mood())
            .brief(Section::facts("", in_brief(&finding.summary)));
        // A verdict is read with what it takes on trust.
        let on_trust = of_promise(self.manifest.as_ref(), self.promised_by.as_ref()).count() > 0;
        let page = match on_trust {
            true => page.decides(self.what_follows()),
            false => page.answer(self.what_follows()),
        };
        let mut page = page
            .section(
                Section::plot("Against chance", plot.to_inline_svg()?).caption(
                    "Each dot is one canary. Inside the band lie 95 % of canaries the model has \
                never seen.",
                ),
            )
            .section(
                Section::plot(
                    "Guarantee and measurement",
                    epsilons(self).to_inline_svg()?,
                )
                .caption(
                    "ε for all copies of one canary replaced at once: what the canaries prove (▸) \
                and, where there is one, what was promised (◂). Without a ▸ they prove \
                nothing. A ▸ to the right of its ◂ would be a bug.",
                ),
            )
            .section(
                Section::table("Summaries", summary_table(&finding.summary)).caption(
                    "Exposure counts ties against the canary. p is the chance of this much or more \
                without a leak.",
                ),
            )
            .section(
                Section::table("Every canary", canary_table(finding, self.secrets.as_ref()))
                    .caption(format!(
                        "{} among {} candidates each; rank 1 is the model's favourite.",
                        count_of(finding.canaries.len() as u64, "canary"),
                        grouped(finding.candidates)
                    )),
            )
            .section(Section::facts(
                "What it took",
                [
                    Some(("work".to_owned(), work(self))),
                    (finding.e_value.as_ref())
                        .map(|found| ("other test".to_owned(), other_test(self, found))),
                    extraction(self).map(|said| ("extraction".to_owned(), said)),
                ]
                .into_iter()
                .flatten(),
            ))
            .card(self.card());
        if !self.doses.is_empty() {
            page = page
                .section(
                    Section::plot(
                        "By number of copies",
                        dose_plot(&self.doses, finding).to_inline_svg()?,
                    )
                    .caption(
                        "Each canary, ties counted against it, over how often it was planted. \
                    Where the mean (at least) leaves the mean without a leak, repetition is remembered.",
                    ),
                )
                .section(
                    Section::table("By number of copies, in numbers", dose_table(&self.doses))
                        .caption("p: the chance of so high a mean without a leak, row by row."),
                );
        }
        if !self.earlier.is_empty() {
            page = page.answer(Section::table("Over training", by_checkpoint(self)));
            page = page.section(
                Section::plot("Over training", over_training(self).to_inline_svg()?).caption(
                    "The same canaries in earlier checkpoints, and in this one at the right. \
                Maximum and mean, each with the 95 % line of models that never saw them.",
                ),
            );
        }
        Ok(page.caveats(CAVEATS))
    }
}

/// Draws the lower and the upper bound on ε.
fn epsilons(report: &ExposureReport) -> Plot {
    let lower = report.finding.bound().lower.get().get();
    let upper = report.verdict.as_ref().map(|v| v.promised_at_most());
    let row = (Some(lower).filter(|l| *l > 0.0), upper);
    Plot::of_rows(
        "Bounds on ε",
        Axis::around(&[row]),
        ("", ["all copies of a canary"]),
        (110, 40),
    )
    .intervals(
        &[row],
        (Tone::MEASURED, "proved by the canaries"),
        (Tone::PROMISED, "promised"),
    )
    .described(format!(
        "The canaries prove that epsilon is at least {}.",
        rounded_down(lower, 4)
    ))
}

/// Returns a table of the largest and the mean exposure of each checkpoint, this one last.
fn by_checkpoint(report: &ExposureReport) -> Table {
    let earlier = report.earlier.iter();
    let earlier =
        earlier.map(|before| (&before.model[..], before.note.as_deref(), &before.summary));
    let all = earlier.chain([("this model", None, &report.finding.summary)]);
    Table::of(all)
        .left("checkpoint", |(model, note, _)| match note {
            Some(note) => format!("{model} ({note})"),
            None => model.to_owned(),
        })
        .right("largest exposure, bits", |(.., of)| both_ends(of.max()))
        .right("mean", |(.., of)| both_ends(of.mean()))
        .into()
}

/// Draws maximum and mean over checkpoints.
fn over_training(report: &ExposureReport) -> Plot {
    let mut all: Vec<(String, &ExposureSummary)> = report
        .earlier
        .iter()
        .map(|c| (c.model.clone(), &c.summary))
        .collect();
    all.push(("this model".to_owned(), &report.finding.summary));
    let last = report.finding.summary;
    let each = all.iter().enumerate().map(|(i, (_, of))| (i as f64, *of));
    let largest: Vec<_> = each.clone().map(|(x, of)| (x, of.max())).collect();
    let mean: Vec<_> = each.map(|(x, of)| (x, of.mean())).collect();
    let plot = Plot::new(
        "Exposure over training",
        Axis::categories("checkpoint", all.iter().map(|(name, _)| short(name))),
        Axis::linear("exposure (bits)")
            .between(0.0, (report.finding.candidates as f64).log2() * 1.03),
    );
    let plot = along(plot, "largest", &largest, Tone::MEASURED);
    along(plot, "mean", &mean, Tone::Third)
        .layer(Layer::rule(
            "95 % of largest without a leak",
            last.max().null_95(),
            Tone::MEASURED,
        ))
        .layer(Layer::rule(
            "95 % of means without a leak",
            last.mean().null_95(),
            Tone::Third,
        ))
        .described("Largest and mean exposure by checkpoint.")
}

/// Returns the last component of a path.
fn short(path: &str) -> String {
    let mut parts = path.trim_end_matches('/').rsplit('/');
    parts.next().unwrap_or(path).to_owned()
}

impl ExposureReport {
    /// Returns a paragraph for a model card.
    #[must_use]
    pub fn card(&self) -> String {
        let finding = &self.finding;
        let (max, mean) = (finding.summary.max(), finding.summary.mean());
        let epsilon = finding.bound();
        let cut = left_open(finding).map_or_else(String::new, |why| {
            format!(" These are ranges, since {why}.")
        });
        let planted = match self.planting.says() {
            Some(why) => format!("were ranked, and {why}"),
            None => "were planted in the training text".to_owned(),
        };
        let mut said = format!(
            "{} of {} candidates each {planted}. Largest exposure {} (without a leak {:.1} on average, 95 % below {:.1}; {}), mean {} ({}).{cut} The canaries prove ε ≥ {} at δ = {} for the replacement of {} of one secret, with confidence {}.",
            count_of(finding.canaries.len() as u64, "random secret"),
            grouped(finding.candidates),
            measured(finding, max, 1),
            max.null_mean(),
            max.null_95(),
            p_value(finding, max),
            measured(finding, mean, 2),
            p_value(finding, mean),
            rounded(epsilon.lower, 4),
            shortest(epsilon.delta.get()),
            match epsilon.copies {
                1 => "the one record".to_owned(),
                many => format!("all {many} records"),
            },
            shortest(epsilon.confidence.get()),
        );
        if self.inconclusive {
            return self.says();
        }
        if let Some(verdict) = &self.verdict {
            let by = self.promised_by.as_ref();
            let by = by.map_or_else(String::new, |by| format!(" (by {by})"));
            said.push_str(&format!(
                " Promised{by}: ε ≤ {} in the same terms.",
                rounded_up(verdict.promised_at_most(), 4)
            ));
        } else if let Some(why) = &self.no_verdict {
            said.push_str(&format!(" No verdict on a promise: {why}."));
        }
        said
    }

    /// Returns a section with what the ranks prove, compared with what was promised.
    #[must_use]
    pub fn what_follows(&self) -> Section {
        Section::facts("Result", facts(self))
    }

    /// Describes the result in a sentence, the same in every format.
    #[must_use]
    pub fn says(&self) -> String {
        let limit = match (self.passed_limit(), self.open_limit()) {
            (Some(limit), _) => format!(
                "The largest exposure, {}{}, is above the limit of {}. ",
                at_least(&self.finding),
                bits(self.finding.summary.max().lower()),
                bits(limit)
            ),
            (None, Some(limit)) => format!(
                "Whether the largest exposure is above the limit of {} is not known. ",
                bits(limit)
            ),
            (None, None) => String::new(),
        };
        let unseen = !self.inconclusive && !self.has_seen();
        let caveats = [self.planting.caveat().map(str::to_owned), self.mute()];
        let caveats = caveats.into_iter().flatten().filter(|_| unseen);
        let caveat: String = caveats.map(|why| format!(" But {why}.")).collect();
        format!("{limit}{}{}{caveat}", found(self), contradiction(self))
    }
}

/// Describes what is contradicted: the promised ε or the ceiling of the ranks.
fn contradiction(report: &ExposureReport) -> String {
    let verdict = report.verdict.as_ref();
    if let Some(said) = verdict.and_then(Verdict::contradiction) {
        return format!(" {said}");
    }
    match &report.ceiling {
        Some(ceiling) if ceiling.is_contradicted() => format!(
            " This contradicts the promise: under it, ranks like these have p = {} (false-alarm rate {}).",
            nearest(ceiling.test.p_value, 2),
            shortest(ceiling.test.alpha)
        ),
        _ => String::new(),
    }
}

fn bits(value: f64) -> String {
    format!("{} bits", nearest(value, 3))
}

/// Returns the words before a number that is only a lower end.
fn at_least(finding: &ExposureFinding) -> &'static str {
    match left_open(finding) {
        Some(_) => "at least ",
        None => "",
    }
}

/// Returns the p of a statistic, an upper bound where ranks were left open.
fn p_value(finding: &ExposureFinding, of: &Statistic) -> String {
    let sign = match left_open(finding) {
        Some(_) => "≤",
        None => "=",
    };
    format!("p {sign} {}", nearest(of.p_value(), 2))
}

/// Describes what the ranks show.
fn found(report: &ExposureReport) -> String {
    let finding = &report.finding;
    let (max, mean) = (finding.summary.max(), finding.summary.mean());
    let count = finding.canaries.len();
    if let Some(silence) = report.silence.filter(|_| report.inconclusive) {
        let more = match report.passed_limit() {
            Some(_) => " more",
            None => "",
        };
        return format!("Nothing{more} can be concluded: {}.", silence.why());
    }
    let leak = Leak::of(&finding.summary);
    if let Some(why) = left_open(finding).filter(|_| !leak.is_seen()) {
        return format!(
            "Whether these {count} canaries leak is not known: {why}, and the largest exposure is {}; {:.1} is usual for the maximum of {count} canaries never trained on.",
            measured(finding, max, 1),
            max.null_mean()
        );
    }
    match leak {
        Leak::Single => format!(
            "The model leaks: the most exposed of {count} canaries gives away {}{:.1} bits, where 95 % of models that never saw them stay below {:.1} ({}).",
            at_least(finding),
            max.lower(),
            max.null_95(),
            p_value(finding, max)
        ),
        Leak::Together => format!(
            "The model leaks: no canary stands out by itself, but the {count} together have a mean exposure of {}{:.2} bits, where 95 % of models that never saw them stay below {:.2} ({}).",
            at_least(finding),
            mean.lower(),
            mean.null_95(),
            p_value(finding, mean)
        ),
        Leak::Unseen | Leak::Undecided if report.proves_leak => format!(
            "The model leaks: no canary stands out, the largest exposure is {:.1} bits and {:.1} is usual for the maximum of {count} canaries never trained on, but together they prove ε ≥ {} with confidence {}.",
            max.lower(),
            max.null_mean(),
            rounded(finding.bound().lower, 4),
            shortest(finding.bound().confidence.get())
        ),
        Leak::Undecided => {
            let (name, of) = match max.lower() > max.null_95() {
                true => ("largest", max),
                false => ("mean", mean),
            };
            format!(
                "Whether these {count} canaries leak is not decided: their {name} exposure is {:.2} bits, where 95 % of models that never saw them stay below {:.2} (p = {}), but a leak is said of maximum or mean at p below 0.025; plant more canaries.",
                of.lower(),
                of.null_95(),
                nearest(of.p_value(), 2)
            )
        }
        Leak::Unseen => format!(
            "No leak of these {count} canaries was seen: the largest exposure is {:.1} bits, and {:.1} is usual for the maximum of {count} canaries never trained on.",
            max.lower(),
            max.null_mean()
        ),
    }
}

//! `audit design`: plans canaries for a budget of tokens and predicts what they can prove.

pub mod args;

use self::args::Design as Args;
use crate::account::mechanism::load;
use crate::audit::args::preparing::unit;
use crate::audit::exposure::promise::{guarantees, reconstruction_loss, with_noise};
use crate::contract::{Align, Csv, Envelope, Exit, Inputs, Table, dash};
use crate::number::{count_of, grouped, nearest, rounded_up, shortest};
use crate::page::{Output, Page, Section};
use crate::verdict::{FALSE_ALARM, Power, split};
use anyhow::{Context, Result, anyhow, bail, ensure};
use reticent_accounting::training::TrainingPlan;
use reticent_accounting::{
    Confidence, Convention, Delta, Epsilon, Estimate, Mechanism, Neighbours, Notion, Probability,
    Steps, Tolerance, Upper,
};
use reticent_attacks::Draw;
use reticent_attacks::evalue::PlannedAudit;
use reticent_attacks::exposure::{EpsilonMethod, RankAudit};
use reticent_corpus::Unit;
use schemars::JsonSchema;
use serde::Serialize;

/// The number of simulated audits for each prediction about the chosen plan.
const RUNS: u64 = 20;

/// The number of tests that share the false-alarm rate in `audit exposure`.
const TESTS: usize = 2;

/// One plan of canaries.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DesignRow {
    /// Digits of a secret.
    pub digits: u32,
    /// N.
    pub candidates: u64,
    /// m.
    pub canaries: u64,
    /// Records that hold one canary.
    pub copies: u32,
    /// Tokens of all copies.
    pub tokens: u64,
    /// The shift, in standard deviations, between the scores of a canary that was trained on and of
    /// one that was not: by the best attack on the run's noise.
    pub shift: Estimate<f64>,
    /// Which test would count.
    pub method: EpsilonMethod,
    /// The ε that they are expected to prove.
    pub expected: Estimate<Epsilon>,
    /// The largest that they can.
    pub provable: Upper<Epsilon>,
    /// The promise for all copies of one secret; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promised: Option<Upper<Epsilon>>,
    /// Whether the verdict of `audit exposure`, at its own false-alarm rate, could contradict the promise; absent
    /// where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub could_contradict: Option<bool>,
}

/// What the chosen plan is expected to show.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Expectation {
    /// Simulated audits.
    pub runs: u64,
    /// The mean bound.
    pub mean: Estimate<Epsilon>,
    /// A tenth of the bounds are lower.
    pub tenth: Estimate<Epsilon>,
    /// A tenth are higher.
    pub ninetieth: Estimate<Epsilon>,
    /// Probability that the promise would be contradicted, had less noise been added.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub power: Vec<Power>,
}

/// The result of `audit design`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DesignReport {
    /// δ of the bound on ε.
    pub delta: Delta,
    /// Its confidence level.
    pub confidence: Confidence,
    /// What is to be said of the file that states the mechanism: that it is not authenticated, or what it does not cover.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
    /// The plan that is expected to prove the most, of those that could contradict their promise if there are
    /// any.
    pub chosen: DesignRow,
    /// What it is expected to show.
    pub expectation: Expectation,
    /// The command that plants it.
    pub command: String,
    /// All compared plans, the best first.
    pub rows: Vec<DesignRow>,
}

/// Compares plans and prints the best one.
///
/// # Errors
/// Returns an error if the mechanism is invalid, if the budget is too small for a canary, or if the accountant fails.
pub fn run(args: &Args, output: Output) -> Result<Exit> {
    let output = output.and_page(args.html.as_deref())?;
    let stated = mechanism(args)?;
    let own_unit = stated.unit;
    let unit = args.unit.or(own_unit).unwrap_or(Unit::Document);
    let delta = args
        .delta
        .or(stated.delta)
        .unwrap_or_else(|| TrainingPlan::default_delta(None));
    let confidence = args.confidence.map_or_else(|| Confidence::new(0.95), Ok)?;
    let report = Designer {
        args,
        stated,
        unit,
        delta,
        confidence,
    }
    .report()?;
    let inputs = Inputs::new()
        .given_path("mechanism", args.mechanism.as_deref())?
        .given("sigma", args.sigma)?
        .given("sample_rate", args.sample_rate)?
        .given("steps", args.steps)?
        .given("tokens", args.tokens)?
        .given("carrier_tokens", args.carrier_tokens)?
        .given("digits", &args.digits)?
        .given("copies_tried", &args.copies_tried)?
        .or_assumed("unit", args.unit.or(own_unit), unit)?
        .or_assumed("delta", args.delta, delta)?
        .or_assumed("confidence", args.confidence, confidence)?;
    output.answer_with_rows(
        &Envelope::new("design", inputs, &report),
        &report.to_page(),
        || Ok(Csv::of_rows(&report.rows)?),
    )?;
    Ok(Exit::Finished)
}

/// What will run, with what its file states beside it.
struct Stated {
    mechanism: Mechanism,
    delta: Option<Delta>,
    unit: Option<Unit>,
    caveats: Option<String>,
}

/// Returns what will run.
fn mechanism(args: &Args) -> Result<Stated> {
    if let Some(path) = &args.mechanism {
        let loaded = load(path, Neighbours::AddRemove).context("--mechanism")?;
        let caveats = loaded.caveats();
        let document = loaded.document;
        let delta = document.plan.as_ref().map(|plan| *plan.delta);
        let own = document.unit.map(|own| own.to_string());
        if let (Some(own), Some(unit)) = (&own, args.unit)
            && *own != unit.to_string()
        {
            bail!(
                "--unit: one record is a {own} in {}, got {unit}: no promise about one bounds the other",
                path.display()
            );
        }
        let own = own.map(|own| unit(&own).map_err(|error| anyhow!("--mechanism: {error}")));
        return Ok(Stated {
            mechanism: document.mechanism,
            delta,
            unit: own.transpose()?,
            caveats,
        });
    }
    let sigma = args.sigma.context("--sigma: give it or --mechanism")?;
    let rate = args.sample_rate.context("--sample-rate must be given")?;
    let steps = args.steps.context("--steps must be given")?;
    Ok(Stated {
        mechanism: Mechanism::dp_sgd(sigma, rate, Steps::new(steps)),
        delta: None,
        unit: None,
        caveats: None,
    })
}

struct Designer<'a> {
    args: &'a Args,
    stated: Stated,
    unit: Unit,
    delta: Delta,
    confidence: Confidence,
}

/// Limits an estimate from a sample to the promise, since no lower bound is expected to exceed it.
fn at_most(expected: Estimate<Epsilon>, promised: Option<Upper<Epsilon>>) -> Estimate<Epsilon> {
    match promised.map(Upper::into_inner) {
        Some(promised) if promised < *expected.get() => Estimate::new(promised),
        _ => expected,
    }
}

impl Designer<'_> {
    fn report(&self) -> Result<DesignReport> {
        let mut rows = Vec::new();
        for &copies in &self.args.copies_tried {
            let shift = self.shift(&self.stated.mechanism, copies)?;
            let promised = self.promised(copies)?;
            for &digits in &self.args.digits {
                if let Some(row) = self.row(digits, copies, shift, promised)? {
                    rows.push(row);
                }
            }
        }
        let fewest = self.args.carrier_tokens.saturating_add(1);
        ensure!(
            !rows.is_empty(),
            "--tokens: {} are not enough for two canaries; one copy of one takes at least {fewest}",
            self.args.tokens
        );
        // Plans that could contradict their promise come first, then those that are expected to prove more.
        rows.sort_by(|a, b| {
            let could = |row: &DesignRow| row.could_contradict.unwrap_or(true);
            let expected = |row: &DesignRow| row.expected.get().get();
            could(b)
                .cmp(&could(a))
                .then(expected(b).total_cmp(&expected(a)))
        });
        let chosen = rows[0].clone();
        let expectation = self.expectation(&chosen)?;
        let command = format!(
            "audit plant DATA --canaries {}x{} --canary-format \"My ID is: {{digits:{}}}\" --own-carriers --independent-secrets --unit {} --out planted/",
            chosen.canaries, chosen.copies, chosen.digits, self.unit
        );
        Ok(DesignReport {
            delta: self.delta,
            confidence: self.confidence,
            manifest: self.stated.caveats.clone(),
            chosen,
            expectation,
            command,
            rows,
        })
    }

    /// Returns a plan with as many canaries as the budget of tokens allows; `None` for fewer than two.
    fn row(
        &self,
        digits: u32,
        copies: u32,
        shift: f64,
        promised: Option<Upper<Epsilon>>,
    ) -> Result<Option<DesignRow>> {
        let each = (self.args.carrier_tokens + u64::from(digits)).saturating_mul(u64::from(copies));
        let canaries = (self.args.tokens / each).min(self.args.max_canaries);
        if canaries < 2 {
            return Ok(None);
        }
        let candidates = 10_u64.pow(digits);
        let strict = self.strict(candidates, canaries, copies)?;
        let audit = strict.at(self.confidence);
        let could_contradict = promised
            .map(|promised| anyhow::Ok(strict.provable()?.get() > promised.get()))
            .transpose()?;
        Ok(Some(DesignRow {
            digits,
            candidates,
            canaries,
            copies,
            tokens: each * canaries,
            shift: Estimate::new(shift),
            method: audit.decides(),
            expected: at_most(audit.expected(shift, 0)?, promised),
            provable: audit.provable()?,
            promised,
            could_contradict,
        }))
    }

    /// Returns the audit of the verdict, as `audit exposure` will run it; the displayed bound uses another confidence.
    fn strict(&self, candidates: u64, canaries: u64, copies: u32) -> Result<PlannedAudit> {
        let each = split(Probability::new(FALSE_ALARM)?, TESTS);
        let rank = RankAudit {
            thresholds: RankAudit::planned_thresholds(candidates, 1),
            confidence: Confidence::new(1.0 - each.get())?,
            delta: self.delta,
            draw: Draw::Independent,
            unit: self.unit,
            copies: u64::from(copies),
        };
        Ok(PlannedAudit::new(rank, candidates, canaries)?)
    }

    /// Returns the distance at which the best attack sees all copies of a canary or none, in standard deviations.
    fn shift(&self, mechanism: &Mechanism, copies: u32) -> Result<f64> {
        let loss = reconstruction_loss(mechanism, copies)?.with_context(|| {
            format!("{copies} copies: this sampler's law of so many is not known")
        })?;
        let answer = loss.delta(Epsilon::new(0.0)?, Tolerance::new(1e-3)?)?;
        let distance = answer.bounds.upper.map_or(1.0, |upper| upper.get().get());
        Ok(PlannedAudit::shift_of(distance))
    }

    /// Returns the promise for all copies replaced at once, if it is finite.
    fn promised(&self, copies: u32) -> Result<Option<Upper<Epsilon>>> {
        let notion = if copies > 1 {
            Notion::GroupDp
        } else {
            Notion::Dp
        };
        let rows = guarantees(&self.stated.mechanism, self.unit, copies, self.delta)?;
        let matching = rows
            .iter()
            .find(|g| g.notion == notion && g.convention == Convention::Definition);
        let upper = matching.and_then(|g| g.epsilon.and_then(|e| e.upper));
        Ok(upper.filter(|upper| upper.get().get().is_finite()))
    }

    fn expectation(&self, chosen: &DesignRow) -> Result<Expectation> {
        let strict = self.strict(chosen.candidates, chosen.canaries, chosen.copies)?;
        let audit = strict.at(self.confidence);
        let predicted = audit.predict(*chosen.shift.get(), RUNS)?;
        let mut power = Vec::new();
        if let Some(promised) = chosen.promised {
            for noise in [0.0, 0.25, 0.5, 0.75] {
                let shift = match noise {
                    0.0 => PlannedAudit::shift_of(1.0),
                    share => match with_noise(&self.stated.mechanism, share)? {
                        Some(weaker) => self.shift(&weaker, chosen.copies)?,
                        None => break,
                    },
                };
                let chance = strict.power(shift, *promised.get(), RUNS)?;
                power.push(Power { noise, chance });
            }
        }
        // A bound above the promise in a simulated audit is a false alarm.
        let least = |value: Estimate<Epsilon>| match chosen.promised {
            Some(promised) if promised.get() < value.get() => Estimate::new(*promised.get()),
            _ => value,
        };
        Ok(Expectation {
            runs: RUNS,
            mean: least(predicted.mean),
            tenth: least(predicted.tenth),
            ninetieth: least(predicted.ninetieth),
            power,
        })
    }
}

fn two(value: f64) -> String {
    nearest(value, 3)
}

impl DesignReport {
    /// Describes the prediction in a sentence.
    #[must_use]
    pub fn says(&self) -> String {
        let chosen = &self.chosen;
        let promised = match chosen.promised {
            Some(promised) => {
                let promised = rounded_up(promised.get().get(), 4);
                format!(", where at most {promised} is promised")
            }
            None => String::new(),
        };
        let use_of_it = if chosen.could_contradict == Some(false) {
            " Neither they nor any plan below could contradict that promise."
        } else {
            ""
        };
        format!(
            "{} of {} candidates, {} of each, take {} tokens and are expected to prove ε ≥ {} at δ = {}{promised}.{use_of_it}",
            count_of(chosen.canaries, "canary"),
            grouped(chosen.candidates),
            count_of(u64::from(chosen.copies), "copy"),
            grouped(chosen.tokens),
            two(self.expectation.mean.get().get()),
            shortest(self.delta.get()),
        )
    }

    fn facts(&self) -> Vec<(String, String)> {
        let (chosen, expected) = (&self.chosen, &self.expectation);
        let mut facts = vec![
            (
                "expected",
                format!(
                    "ε ≥ {} in the mean, {} to {} in eight of ten ({} simulated audits, confidence {})",
                    two(expected.mean.get().get()),
                    two(expected.tenth.get().get()),
                    two(expected.ninetieth.get().get()),
                    expected.runs,
                    shortest(self.confidence.get())
                ),
            ),
            (
                "could show",
                format!("at most {}", rounded_up(chosen.provable.get().get(), 4)),
            ),
            (
                "scores",
                format!(
                    "{} deviations apart at most, of a canary in all its copies and in none",
                    two(*chosen.shift.get())
                ),
            ),
        ];
        let power: Vec<String> = expected.power.iter().map(Power::to_string).collect();
        if !power.is_empty() {
            facts.push((
                "power",
                format!("the promise would be contradicted: {}", power.join(", ")),
            ));
        }
        facts.push(("next", self.command.clone()));
        let owned = facts
            .into_iter()
            .map(|(name, said)| (name.to_owned(), said));
        owned.collect()
    }

    /// Returns the page.
    #[must_use]
    pub fn to_page(&self) -> Page {
        Page::new("Canaries for a budget", self.says())
            .answer(Section::facts("The plan", self.facts()))
            .answer(Section::notes(
                "About the mechanism",
                self.manifest.clone().into_iter().collect(),
            ))
            .answer(
                Section::table("Plans beside it", self.table()).caption(
                    "What could contradict its promise first, then the largest estimate, which takes scores of their expected size; what the chosen plan is expected to prove is the mean of simulated audits. ε is for all copies of one secret replaced at once.",
                ),
            )
            .section(Section::notes(
                "What these numbers do not say",
                vec![
                    "They are estimates, and optimistic ones: the scores are those of the best attack on the run's own noise, and a model shows less than its gradients did.".to_owned(),
                    "More copies are bounded together, and promised less: compare each ε with the promise in its row.".to_owned(),
                ],
            ))
    }

    fn table(&self) -> Table {
        let mut table = Table::new([
            ("candidates", Align::Right),
            ("canaries", Align::Right),
            ("copies", Align::Right),
            ("ε estimate", Align::Right),
            ("can show", Align::Right),
            ("promised", Align::Right),
            ("test", Align::Left),
        ]);
        for row in &self.rows {
            table.row([
                grouped(row.candidates),
                grouped(row.canaries),
                row.copies.to_string(),
                two(row.expected.get().get()),
                rounded_up(row.provable.get().get(), 3),
                row.promised
                    .map_or_else(dash, |p| rounded_up(p.get().get(), 3)),
                match row.method {
                    EpsilonMethod::EValue => "e-values",
                    _ => "ranks",
                }
                .to_owned(),
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn designed(more: &[&str]) -> Result<DesignReport> {
        let usual = [
            "x",
            "--sigma",
            "1",
            "--sample-rate",
            "0.02",
            "--steps",
            "200",
        ];
        let args = Line::try_parse_from(usual.iter().chain(more)).unwrap().args;
        let stated = mechanism(&args)?;
        Designer {
            args: &args,
            unit: stated.unit.unwrap_or(Unit::Document),
            stated,
            delta: Delta::new(1e-6)?,
            confidence: Confidence::new(0.95)?,
        }
        .report()
    }

    #[test]
    fn the_best_plan_is_chosen_within_the_budget() {
        let report = designed(&[
            "--tokens",
            "3000",
            "--copies-tried",
            "1,4",
            "--digits",
            "1,3",
        ])
        .unwrap();
        assert_eq!(report.rows.len(), 4);
        for row in &report.rows {
            assert!(row.tokens <= 3_000 && row.canaries >= 2);
            assert!(
                row.could_contradict == Some(false)
                    || row.expected.get() <= report.chosen.expected.get()
            );
            // What is expected stays below what is promised and what can be shown.
            assert!(row.expected.get() <= row.promised.unwrap().get());
            assert!(row.expected.get() <= row.provable.get());
        }
        // More copies are easier to see.
        let shift = |copies| {
            let row = report.rows.iter().find(|row| row.copies == copies).unwrap();
            *row.shift.get()
        };
        assert!(shift(4) > shift(1));
        let power: Vec<f64> = report
            .expectation
            .power
            .iter()
            .map(|p| p.chance.get().get())
            .collect();
        assert_eq!(power.len(), 4);
        assert!(power[1] >= power[2] && power[2] >= power[3], "{power:?}");
        assert!(report.command.contains("--canaries"));
        let text = Envelope::new("design", Inputs::new(), &report)
            .to_text()
            .unwrap();
        let problems = crate::schema::problems("design.schema.json", &text);
        assert_eq!(problems, Vec::<String>::new());
        assert!(
            report
                .to_page()
                .to_html()
                .unwrap()
                .contains("Plans beside it")
        );
    }

    #[test]
    fn what_is_too_little_is_refused() {
        let said = designed(&["--tokens", "17"]).unwrap_err().to_string();
        assert!(said.contains("--tokens: 17 are not enough"), "{said}");
    }

    /// The unit is that of the document; what no row could contradict is said first.
    #[test]
    fn the_unit_is_that_of_the_mechanism_and_a_plan_of_no_use_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("turns.json");
        let document = r#"{"unit":"turn","mechanism":{"type":"gaussian","noise_multiplier":0.05}}"#;
        std::fs::write(&path, document).unwrap();
        let file = path.to_str().unwrap();
        let more = [
            "--mechanism",
            file,
            "--tokens",
            "200",
            "--copies-tried",
            "1",
        ];
        let line = ["x"].iter().chain(&more);
        let args = Line::try_parse_from(line.clone()).unwrap().args;
        assert_eq!(mechanism(&args).unwrap().unit, Some(Unit::Turn));
        let other = Line::try_parse_from(line.chain(&["--unit", "user"])).unwrap();
        let said = mechanism(&other.args).err().unwrap().to_string();
        assert!(said.contains("one record is a turn in"), "{said}");
        let stated = mechanism(&args).unwrap();
        let report = Designer {
            args: &args,
            unit: stated.unit.unwrap(),
            stated,
            delta: Delta::new(1e-6).unwrap(),
            confidence: Confidence::new(0.95).unwrap(),
        }
        .report()
        .unwrap();
        assert!(report.command.contains("--unit turn"));
        assert_eq!(report.chosen.could_contradict, Some(false));
        assert!(report.says().contains("any plan below could contradict"));
    }
}

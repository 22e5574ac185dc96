//! `audit design`: plans canaries for a budget of tokens and predicts what they can prove.

pub mod args;

use self::args::Design as Args;
use crate::account::mechanism::load;
use crate::audit::args::preparing::unit;
use crate::audit::exposure::false_alarm_of_each;
use crate::audit::exposure::promise::{
    guarantees, of_all_records, reconstruction_loss, total_variation,
};
use crate::audit::power::{Attacked, of_ranks};
use crate::contract::{Csv, Envelope, Exit, Inputs, Table, dash};
use crate::number::{count_of, grouped, nearest, rounded, shortest};
use crate::page::{Output, Page, Section};
use crate::verdict::Power;
use anyhow::{Context, Result, anyhow, bail, ensure};
use reticent_accounting::training::TrainingPlan;
use reticent_accounting::{
    Confidence, Delta, Epsilon, Estimate, Mechanism, Neighbours, PrivacyLoss, Steps, Upper,
};
use reticent_attacks::Draw;
use reticent_attacks::evalue::{PlannedAudit, ScoreLaw};
use reticent_attacks::exposure::{EpsilonMethod, RankAudit};
use reticent_corpus::Unit;
use reticent_corpus::canary::Spec;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The number of simulated audits of a plan.
const RUNS: u64 = 20;

/// The number of plans in the short text.
const BRIEFLY: usize = 5;

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
    /// The distance, in standard deviations, of two normal laws with the total variation of what the best attack sees of
    /// a canary that was trained on and of one that was not.
    pub shift: Estimate<f64>,
    /// Which test would count.
    pub method: EpsilonMethod,
    /// The ε that they are expected to prove: of the chosen plan the mean of simulated audits, of the others what scores
    /// of their expected size prove.
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

/// What simulated audits of the chosen plan show.
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
    /// What simulated audits of it show.
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
    let confidence = crate::audit::confidence(args.confidence)?;
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
    )
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
        let delta = Some(document.delta_or_default());
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

/// Returns the command that plants a plan: by the document, or, where one record is all of a user's, with the
/// preparation that knows whose a document is.
fn command(plan: &DesignRow, unit: Unit) -> String {
    let (how, out) = match unit {
        Unit::User => ("prepare DATA --user-field KEY", "prepared/"),
        _ => ("plant DATA", "planted/"),
    };
    format!(
        "audit {how} --canaries {}x{} --canary-format \"My ID is: {{digits:{}}}\" --own-carriers --independent-secrets --unit {unit} --out {out}",
        plan.canaries, plan.copies, plan.digits
    )
}

impl Designer<'_> {
    fn report(&self) -> Result<DesignReport> {
        let (mut rows, mut laws) = (Vec::new(), BTreeMap::new());
        for &copies in &self.args.copies_tried {
            let loss = self.loss(copies)?;
            let shift = PlannedAudit::shift_of(total_variation(&loss)?);
            let law = Attacked::as_stated(loss).scores()?;
            let law: &ScoreLaw = laws.entry(copies).or_insert(law);
            let promised = self.promised(copies)?;
            for &digits in &self.args.digits {
                if let Some(row) = self.row(digits, copies, (law, shift), promised)? {
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
        let expectation = self.best_first(&mut rows, &laws)?;
        let chosen = rows[0].clone();
        let command = command(&chosen, self.unit);
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

    /// Sorts plans: those that could contradict their promise first, then those that are expected to prove more. What the
    /// first is expected to prove is the mean of simulated audits, of which the result says more.
    fn best_first(
        &self,
        rows: &mut [DesignRow],
        laws: &BTreeMap<u32, ScoreLaw>,
    ) -> Result<Expectation> {
        let mut simulated: Vec<((u32, u32), Expectation)> = Vec::new();
        loop {
            rows.sort_by(|a, b| {
                let could = |row: &DesignRow| row.could_contradict.unwrap_or(true);
                let expected = |row: &DesignRow| row.expected.get().get();
                could(b)
                    .cmp(&could(a))
                    .then(expected(b).total_cmp(&expected(a)))
            });
            let first = rows[0].clone();
            let plan = (first.digits, first.copies);
            if let Some(known) = simulated.iter().position(|(of, _)| *of == plan) {
                let expectation = simulated.swap_remove(known).1;
                let power = self.power(&first)?;
                return Ok(Expectation {
                    power,
                    ..expectation
                });
            }
            let law = laws
                .get(&first.copies)
                .context("a plan without a law of its scores")?;
            let expectation = self.expectation(&first, law)?;
            let same = |row: &&mut DesignRow| (row.digits, row.copies) == plan;
            for row in rows.iter_mut().filter(same) {
                row.expected = expectation.mean;
            }
            simulated.push((plan, expectation));
        }
    }

    /// Returns a plan with as many canaries as the budget of tokens allows; `None` for fewer than two.
    fn row(
        &self,
        digits: u32,
        copies: u32,
        (law, shift): (&ScoreLaw, f64),
        promised: Option<Upper<Epsilon>>,
    ) -> Result<Option<DesignRow>> {
        let each = (self.args.carrier_tokens + u64::from(digits)).saturating_mul(u64::from(copies));
        let most = u64::from(Spec::most_canaries(copies)).min(self.args.max_canaries);
        let canaries = (self.args.tokens / each).min(most);
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
            expected: at_most(audit.expected(law)?, promised),
            provable: audit.provable()?,
            promised,
            could_contradict,
        }))
    }

    /// Returns the audit of the verdict, as `audit exposure` will run it; the displayed bound uses another confidence.
    fn strict(&self, candidates: u64, canaries: u64, copies: u32) -> Result<PlannedAudit> {
        let each = false_alarm_of_each()?;
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

    /// Returns the loss between all copies of a canary and none.
    fn loss(&self, copies: u32) -> Result<PrivacyLoss> {
        reconstruction_loss(&self.stated.mechanism, copies)?
            .with_context(|| format!("{copies} copies: this sampler's law of so many is not known"))
    }

    /// Returns the promise for all copies replaced at once, if it is finite.
    fn promised(&self, copies: u32) -> Result<Option<Upper<Epsilon>>> {
        let rows = guarantees(&self.stated.mechanism, self.unit, copies, self.delta)?;
        let upper = of_all_records(&rows, copies.into()).and_then(|g| g.epsilon?.upper);
        Ok(upper.filter(|upper| upper.get().get().is_finite()))
    }

    /// Returns what simulated audits of a plan prove, without its power.
    fn expectation(&self, plan: &DesignRow, law: &ScoreLaw) -> Result<Expectation> {
        let strict = self.strict(plan.candidates, plan.canaries, plan.copies)?;
        let predicted = strict.at(self.confidence).predict(law, RUNS)?;
        // A bound above the promise in a simulated audit is a false alarm.
        Ok(Expectation {
            runs: RUNS,
            mean: at_most(predicted.mean, plan.promised),
            tenth: at_most(predicted.tenth, plan.promised),
            ninetieth: at_most(predicted.ninetieth, plan.promised),
            power: Vec::new(),
        })
    }

    /// Returns the power of a plan against its promise, as the verdict of `audit exposure` will say it.
    fn power(&self, plan: &DesignRow) -> Result<Vec<Power>> {
        let Some(promised) = plan.promised else {
            return Ok(Vec::new());
        };
        let strict = self.strict(plan.candidates, plan.canaries, plan.copies)?;
        of_ranks(
            &strict,
            *promised.get(),
            &self.stated.mechanism,
            plan.copies,
        )
    }
}

fn two(value: f64) -> String {
    nearest(value, 3)
}

/// Returns the ε that a plan is expected to prove.
fn expected(row: &DesignRow) -> String {
    two(row.expected.get().get())
}

/// Returns the largest ε that a plan can prove.
fn provable(row: &DesignRow) -> String {
    rounded(row.provable, 4)
}

/// Returns the promise for all copies of one secret of a plan.
fn promised(row: &DesignRow) -> Option<String> {
    row.promised.map(|end| rounded(end, 4))
}

impl DesignReport {
    /// Describes the prediction in a sentence.
    #[must_use]
    pub fn says(&self) -> String {
        let chosen = &self.chosen;
        format!(
            "{} of {} candidates in {} each ({} tokens) are expected to prove ε ≥ {} at δ = {}{}.",
            count_of(chosen.canaries, "canary"),
            grouped(chosen.candidates),
            count_of(u64::from(chosen.copies), "copy"),
            grouped(chosen.tokens),
            expected(chosen),
            shortest(self.delta.get()),
            self.choice()
        )
    }

    /// Describes the promise of the chosen plan, and what the choice passed over for a plan that could contradict its
    /// promise.
    fn choice(&self) -> String {
        let Some(promise) = promised(&self.chosen) else {
            return String::new();
        };
        let could = |row: &&DesignRow| row.could_contradict == Some(true);
        let able = self.rows.iter().filter(could).count() as u64;
        let more = self
            .rows
            .iter()
            .filter(|row| !could(row) && row.expected.get() > self.chosen.expected.get());
        let among = match able {
            0 => {
                return format!(
                    ", where at most {promise} is promised. No plan in this budget could contradict its promise"
                );
            }
            1 => "the only plan that could contradict its promise".to_owned(),
            able => format!("the most of the {able} plans that could contradict their promise"),
        };
        match more.count() {
            0 => format!(", {among} (here at most {promise})"),
            more => format!(
                ", {among} (here at most {promise}). {} expected to prove more, but could not",
                match more {
                    1 => "1 other is".to_owned(),
                    more => format!("{more} others are"),
                }
            ),
        }
    }

    /// Returns the power to contradict the promise, and the command that plants the canaries.
    fn facts(&self) -> Vec<(&'static str, String)> {
        let power: Vec<String> = (self.expectation.power.iter())
            .map(Power::to_string)
            .collect();
        let power = (!power.is_empty()).then(|| ("power", power.join(", ")));
        power
            .into_iter()
            .chain([("next", self.command.clone())])
            .collect()
    }

    /// Returns what else is expected of the chosen plan.
    fn expectations(&self) -> Vec<(&'static str, String)> {
        let (chosen, expected) = (&self.chosen, &self.expectation);
        vec![
            (
                "simulated",
                format!(
                    "ε ≥ {} to {} in eight of ten of {} audits (confidence {})",
                    two(expected.tenth.get().get()),
                    two(expected.ninetieth.get().get()),
                    expected.runs,
                    shortest(self.confidence.get())
                ),
            ),
            ("could show", format!("at most {}", provable(chosen))),
            (
                "scores",
                format!(
                    "as easy to tell apart, with all copies of a canary and with none, as unit normals {} deviations apart",
                    two(*chosen.shift.get())
                ),
            ),
        ]
    }

    /// Returns the page.
    #[must_use]
    pub fn to_page(&self) -> Page {
        Page::new("Canaries for a budget", self.says())
            .answer(Section::facts("The plan", self.facts()))
            .brief(Section::table("", self.table().first(BRIEFLY)))
            .decides(Section::notes("About the mechanism", self.manifest.clone()))
            .section(Section::facts("What to expect of it", self.expectations()))
            .section(
                Section::table("Plans for comparison", self.table()).caption(
                    "Plans that could contradict their promise come first, then those with the larger estimate: of the first the mean of simulated audits, of the others what scores of their expected size prove. ε is for all copies of one secret replaced at once.",
                ),
            )
            .caveats([
                "They are estimates, and optimistic ones: the scores are those of the best attack on the run's own noise, and a model shows less than its gradients did.",
                "More copies are bounded together, and promised less: compare each ε with the promise in its row.",
            ])
    }

    fn table(&self) -> Table {
        Table::of(&self.rows)
            .right("candidates", |row| grouped(row.candidates))
            .right("canaries", |row| grouped(row.canaries))
            .right("copies", |row| row.copies.to_string())
            .right("ε estimate", expected)
            .right("can show", provable)
            .right("promised", |row| promised(row).unwrap_or_else(dash))
            .left("could contradict", |row| match row.could_contradict {
                None => dash(),
                Some(true) => "yes".to_owned(),
                Some(false) => "no".to_owned(),
            })
            .left("test", |row| match row.method {
                EpsilonMethod::EValue => "e-values",
                _ => "ranks",
            })
            .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::View;
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
        crate::schema::fits("design", &text);
        assert!(
            report
                .to_page()
                .to_html()
                .unwrap()
                .contains("Plans for comparison")
        );
        // A plan has one figure for one thing, wherever it is said.
        let verbose = report.to_page().to_text(View::full());
        let flat = verbose.split_whitespace().collect::<Vec<_>>().join(" ");
        let first = report.table().rows()[0].clone();
        assert!(flat.contains(&format!("expected to prove ε ≥ {} at", first[3])));
        assert!(flat.contains(&format!("could show: at most {} ", first[4])));
    }

    /// The short text has the answer, the best plans, and that others prove more where they could contradict nothing.
    #[test]
    fn the_headline_says_what_the_choice_passed_over() {
        let mut report = designed(&["--tokens", "3000", "--copies-tried", "1,2,4"]).unwrap();
        assert!(report.rows.len() > BRIEFLY);
        report.chosen.could_contradict = Some(true);
        let (chosen, most) = (report.chosen.clone(), report.chosen.expected.get().get());
        for (index, row) in report.rows.iter_mut().enumerate() {
            row.could_contradict = Some(index < 2);
            let more = if index > 2 { most + 1.0 } else { most };
            row.expected = Estimate::new(Epsilon::new(more).unwrap());
        }
        let others = report.rows.len() - 3;
        let said = report.says();
        assert!(
            said.contains("the most of the 2 plans that could contradict their promise")
                && said.contains(&format!(
                    "{others} others are expected to prove more, but could not."
                )),
            "{said}"
        );
        report.rows[1].could_contradict = Some(false);
        let said = report.says();
        assert!(
            said.contains("the only plan that could contradict"),
            "{said}"
        );
        report.rows = vec![chosen];
        assert!(!report.says().contains("expected to prove more"));
    }

    #[test]
    fn the_short_text_is_short() {
        let report = designed(&["--tokens", "3000", "--copies-tried", "1,2,4"]).unwrap();
        let brief = report.to_page().to_text(View {
            verbose: false,
            width: 100,
        });
        assert!(brief.lines().count() <= 15, "{brief}");
        assert!(
            brief.contains("next: audit plant") && brief.contains("With -v: "),
            "{brief}"
        );
    }

    /// Of canaries that ten steps draw with probability 0.01, no audit shows much: a sample of ranks was luckier than that.
    /// The headline is the mean of simulated audits.
    #[test]
    fn rare_draws_show_little() {
        let line = [
            "x",
            "--sigma",
            "1",
            "--sample-rate",
            "0.001",
            "--steps",
            "10",
            "--tokens",
            "5000",
            "--copies-tried",
            "1",
            "--digits",
            "1,2",
        ];
        let args = Line::try_parse_from(line).unwrap().args;
        let stated = mechanism(&args).unwrap();
        let report = Designer {
            args: &args,
            unit: Unit::Document,
            stated,
            delta: Delta::new(1e-6).unwrap(),
            confidence: Confidence::new(0.95).unwrap(),
        }
        .report()
        .unwrap();
        let expectation = &report.expectation;
        assert_eq!(report.chosen.expected, expectation.mean);
        assert_eq!(report.rows[0], report.chosen);
        let power = |at: usize| expectation.power[at].chance.get().get();
        assert!(
            power(0) < 0.5 && power(0) >= power(1),
            "{:?}",
            expectation.power
        );
    }

    /// The commands that plant and prepare take what is printed, for every unit and the most lines that a plan may have.
    #[test]
    fn the_command_is_one_that_plants() {
        use crate::audit::args::{Audit, Command};
        let line = [
            "x",
            "--sigma",
            "1",
            "--sample-rate",
            "0.02",
            "--steps",
            "200",
            "--tokens",
            "400000000",
            "--max-canaries",
            "10000",
        ];
        let args = Line::try_parse_from(line).unwrap().args;
        let stated = mechanism(&args).unwrap();
        let designer = Designer {
            args: &args,
            unit: Unit::Document,
            stated,
            delta: Delta::new(1e-6).unwrap(),
            confidence: Confidence::new(0.95).unwrap(),
        };
        let law = ScoreLaw::gaussian(1.0).unwrap();
        let row = designer.row(1, 128, (&law, 1.0), None).unwrap().unwrap();
        assert_eq!(row.canaries, 7_812);
        for unit in [
            Unit::Turn,
            Unit::Sentence,
            Unit::Dialogue,
            Unit::Document,
            Unit::User,
        ] {
            // The shell takes a quoted format as one word.
            let line = command(&row, unit).replace("\"My ID is: {digits:1}\"", "ID:{digits:1}");
            match Audit::try_parse_from(line.split_whitespace())
                .unwrap()
                .command
            {
                Command::Plant(plant) => assert_eq!(plant.unit, unit),
                Command::Prepare(prepare) => {
                    assert!(unit == Unit::User && prepare.how.options(Vec::new()).is_ok());
                }
                _ => panic!("{line}"),
            }
        }
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
        assert!(
            report
                .says()
                .contains("No plan in this budget could contradict its promise.")
        );
    }
}

//! Measures the exposure of planted canaries and compares it with what was promised.

use crate::audit::exposure::pieces::secrets;
use crate::audit::exposure::promise::{
    alternatives, finite_promise, guarantees, of_all_records, reconstruction_loss,
};
use crate::audit::exposure::{
    Ceiling, ExposureReport, Planting, PromisedBy, SequentialReport, Silence,
};
#[cfg(feature = "audit")]
use crate::audit::scorer::Known;
use crate::audit::{can_show_leak, power};
use crate::contract::{Interrupt, Progress};
use crate::number::{count_of, grouped, rounded, shortest};
use crate::verdict::{FALSE_ALARM, Measurement, Mistake, Promise, Terms, judge, split};
use anyhow::{Context, Result, bail, ensure};
use reticent_accounting::training::{Canaries, Run, Stated, TrainingPlan};
use reticent_accounting::{
    Confidence, Delta, Epsilon, Guarantee, Mechanism, PrivacyLoss, Probability, Tolerance,
    UnitName, Upper,
};
use reticent_attacks::evalue::{CanaryGuesses, EValueAudit, PlannedAudit, SequentialTest};
use reticent_attacks::exposure::{
    CeilingAt, CeilingOutcome, EpsilonBound, ExposureFinding, ExposureSummary, RankAudit,
    SampledExposure, Sampling, ceiling_test, exposure_ceiling, prior_mass, sampled_exposures,
};
use reticent_attacks::search::{
    CandidateTree, FlatSample, Progress as Searched, RankCount, Ranking, SearchOptions, Target,
    plan_search, sample_flat, search_beliefs, search_ranks, tie_tolerance,
};
use reticent_attacks::{Draw, is_silent};
use reticent_backends::PrefixScorer;
use reticent_corpus::canary::{Canary, CanaryPlan};
use reticent_corpus::tokenize::Tokenizer;
use std::ops::ControlFlow;

/// The probability with which the exposure ceiling holds.
const CEILING_LEVEL: f64 = 0.95;

/// The probability with which the largest exposure of a model that ignores its canaries is so low that scores are taken
/// to be reversed.
const REVERSED: f64 = 1e-3;

/// Whether the best of these ranks is lower than those of models that ignore their canaries, but for one of a thousand.
pub(super) fn is_reversed(counts: &[RankCount], draw: Draw) -> bool {
    let summary = ExposureSummary::of(counts, draw);
    summary.is_ok_and(|summary| summary.low_maximum_p_value() < REVERSED)
}

/// Whether every canary of a sample has so many likelier candidates as those of one in a thousand models that ignore their
/// canaries. With s the smallest of the lower ends of their shares of likelier candidates, such a model has this of m
/// canaries with probability (1 − s)^m at most, whether they are distinct or independent.
pub(super) fn is_reversed_sample(found: &[SampledExposure]) -> bool {
    let shares = found.iter().map(|found| (-found.at_most.get()).exp2());
    let least = shares.fold(1.0, f64::min);
    !found.is_empty() && (1.0 - least).powf(found.len() as f64) < REVERSED
}

/// Why nothing is promised where neither a checkpoint of ours nor a mechanism says what ran.
const UNKNOWN_RUN: &str = "what ran is not known";

/// Why nothing is promised about a canary that an earlier run may have met too.
pub(in crate::audit) const EARLIER_UNKNOWN: &str =
    "in how many records of the earlier run a canary was is not known";

/// The number of verdicts on canaries: that on ε and that on the ceiling.
pub(in crate::audit) const TESTS: usize = 2;

/// Returns how many tokens a model must read at once to rank these canaries: the longest of their lines up to the last
/// token of the secret, after the beginning of text.
///
/// # Errors
/// Returns an error if the tokenizer fails.
#[cfg(feature = "audit")]
pub(in crate::audit) fn tokens_to_rank(plan: &CanaryPlan, tokenizer: &Tokenizer) -> Result<usize> {
    let mut longest = 0;
    for canary in &plan.canaries {
        let line = format!("{}{}", canary.context, canary.secret);
        longest = longest.max(tokenizer.encode(&line)?.len());
    }
    Ok(longest)
}

/// Returns the false-alarm rate of each verdict of a report.
pub(in crate::audit) fn false_alarm_of_each() -> Result<Probability> {
    Ok(split(Probability::new(FALSE_ALARM)?, TESTS))
}

/// The attack to run.
#[derive(Debug)]
pub struct Attack<'a> {
    /// The canaries.
    pub plan: &'a CanaryPlan,
    /// The candidates, and the canaries among them.
    search: (CandidateTree, Vec<Target>),
    /// A description of what was released, used in the verdict.
    pub released: String,
    /// The plan that ran, with these canaries; without it there is no promise.
    run: Option<TrainingPlan>,
    /// How the run met the canaries, as far as it is known.
    pub canaries: Canaries,
    /// Whether the run itself says so.
    met: bool,
    /// Whether what states the run says that in how many records of an earlier run a canary was is not known.
    pub earlier_unknown: bool,
    /// How many of them training met, as far as it is known: only these can show a leak.
    pub reached: u64,
    /// The δ of the bound on ε.
    pub delta: Stated<Delta>,
    /// The confidence of the displayed bound.
    pub confidence: Option<Confidence>,
    /// The number of tests of the whole report that share its false-alarm rate.
    pub tests: usize,
    /// The most positions to score.
    pub budget: Option<u64>,
    /// The number of candidates on which flat scoring is timed, for comparison with the search.
    pub flat_sample: Option<u64>,
    /// Whether the report shows the secrets.
    pub show_secrets: bool,
    /// The evidence that the run met the canaries.
    pub planting: Planting,
    /// What is to be said of the manifest behind the promise.
    pub manifest: Option<String>,
    /// The file that states the run, if no checkpoint does.
    pub promised_by: Option<PromisedBy>,
}

impl<'a> Attack<'a> {
    /// Creates the default attack on a plan.
    ///
    /// # Errors
    /// Returns an error if the tokenizer can't distinguish the canaries.
    pub fn new(
        plan: &'a CanaryPlan,
        tokenizer: &Tokenizer,
        released: &str,
        canaries: Canaries,
    ) -> Result<Self> {
        Ok(Self {
            plan,
            search: plan_search(plan, tokenizer).context("--canaries")?,
            released: released.to_owned(),
            run: None,
            canaries,
            met: false,
            earlier_unknown: false,
            reached: plan.canaries.iter().filter(|c| !c.caught).count() as u64,
            delta: Stated::assumed(TrainingPlan::default_delta(None)),
            confidence: None,
            tests: TESTS,
            budget: None,
            flat_sample: None,
            show_secrets: false,
            planting: Planting::default(),
            manifest: None,
            promised_by: None,
        })
    }

    /// Returns how a run met canaries of which no checkpoint tells: `records` differ at most if one of them does. Where
    /// nothing tells what happened to the copies, these are all of them.
    #[must_use]
    pub fn unsealed(plan: &CanaryPlan, records: u64) -> Canaries {
        Canaries {
            count: plan.canaries.len() as u64,
            records,
            on_public_side: 0,
            candidates: Some(Canaries::candidates(plan.candidates)),
        }
    }

    /// Compares the measurement with this run, at its δ.
    pub fn against(&mut self, mut run: TrainingPlan) {
        let stated = run.secrets.canaries.as_ref().map(|stated| stated.value);
        self.met = stated.is_some();
        if let Some(stated) = stated {
            self.canaries.records = self.canaries.records.max(stated.records);
            self.canaries.on_public_side = stated.on_public_side;
        }
        // A canary may have been in more records of an earlier run.
        let before = run.continues.as_ref().and_then(|run| run.canary_records);
        self.canaries.records = self.canaries.records.max(before.unwrap_or(0));
        run.secrets.canaries = Some(Stated::given(self.canaries, "the canary plan"));
        self.delta = run.delta.clone();
        self.run = Some(run);
    }

    /// Returns the evidence that the run met the canaries, including the copies that reached it.
    #[must_use]
    pub fn planting(&self) -> Planting {
        match (self.planting, self.canaries.records.min(self.reached)) {
            (Planting::Planted | Planting::NotChecked, 0) => Planting::NoCopy,
            (known, _) => known,
        }
    }

    /// Returns how many canaries training met, where these are known to be fewer than were planted.
    #[must_use]
    pub fn fewer_reached(&self) -> Option<u64> {
        let planted = self.plan.canaries.len() as u64;
        Some(self.reached).filter(|reached| *reached < planted)
    }

    /// Returns the most records that differ if one canary does.
    fn records(&self) -> u32 {
        u32::try_from(self.canaries.records).unwrap_or(u32::MAX)
    }

    /// Creates a run known only by its mechanism; one record is assumed to be what it is in the plan of the canaries.
    ///
    /// # Errors
    /// Returns no error: every unit of a corpus has a name.
    pub fn run_of(plan: &CanaryPlan, mechanism: Mechanism) -> Result<TrainingPlan> {
        let unit = UnitName::new(plan.unit.to_string())?;
        Ok(TrainingPlan {
            unit: Stated::assumed(unit.clone()),
            ..TrainingPlan::new(Run::Mechanism { mechanism }, unit)
        })
    }

    /// Measures ranks, exposures and the lower bound on ε, and compares them with the promise in a verdict.
    ///
    /// # Errors
    /// Returns an error if the model doesn't answer, on an interruption, or if the accountant fails.
    pub fn run(
        &self,
        scorer: &mut dyn PrefixScorer,
        interrupt: &Interrupt,
    ) -> Result<(ExposureReport, Vec<Guarantee>)> {
        let each = split(Probability::new(FALSE_ALARM)?, self.tests);
        let shown = crate::audit::confidence(self.confidence)?;
        // The verdict has its own, smaller false-alarm rate than the displayed bound.
        let strict = self.strict(each)?;
        let shown = strict.at(shown);
        let audit = &shown.by_rank;
        let tie_tolerance = self.options(scorer).tie_tolerance;
        let (ranking, guesses, flat_sample) = self.rank(scorer, &shown.by_evalue, interrupt)?;
        let names: Vec<(String, u64)> = self
            .plan
            .canaries
            .iter()
            .map(|c| (c.id.clone(), c.insertions.len() as u64))
            .collect();
        let finding = ExposureFinding {
            flat_sample,
            ..ExposureFinding::new(&ranking, &names, audit, tie_tolerance)?
                .beside_evalues(&shown, &guesses)?
        };
        let mut report = ExposureReport::new(finding);
        if !can_show_leak(report.finding.bound().confidence) {
            let usual = strict.at(crate::audit::confidence(None)?);
            let usual = usual.bound(&ranking.counts, &guesses)?;
            report.proves_leak = usual.lower.get().get() > 0.0;
        }
        report.canary_digest = Some(self.plan.identity()?);
        report.planting = self.planting();
        report.reached = self.fewer_reached();
        report.manifest.clone_from(&self.manifest);
        report.promised_by.clone_from(&self.promised_by);
        report.secrets = self.show_secrets.then(|| secrets(self.plan));
        let silence = self.silence(&ranking.counts);
        let seen = match self.seen() {
            Ok(seen) => seen,
            Err(why) => {
                report.no_verdict = Some(why);
                report.without_praise(silence);
                return Ok((report, Vec::new()));
            }
        };
        let promised = guarantees(&seen, self.plan.unit, self.records(), *self.delta)?;
        let bound = strict.bound(&ranking.counts, &guesses)?;
        if self.hold_against(&mut report, &promised, (&strict, &bound), &seen)? {
            let loss = reconstruction_loss(&seen, self.records())?;
            let ceiling = loss.map(|loss| self.ceiling(&loss, &ranking, audit, each));
            report.ceiling = ceiling.transpose()?;
            if let Some(ceiling) = &mut report.ceiling
                && ceiling.is_contradicted()
            {
                ceiling.suspects = self.suspects(&seen, &ranking, audit, each)?;
            }
        }
        report.without_praise(silence);
        Ok((report, promised))
    }

    /// Returns the audit of the verdict, at its own false-alarm rate. Bounds at other levels use the same tempers and
    /// pool.
    fn strict(&self, false_alarm: Probability) -> Result<PlannedAudit> {
        let confidence = Confidence::new(1.0 - false_alarm.get())?;
        let records = self.canaries.records.max(1);
        Ok(PlannedAudit::new(
            RankAudit::of_plan(self.plan, records, confidence, *self.delta),
            self.search.0.candidates(),
            self.plan.canaries.len() as u64,
        )?
        .reaching(self.reached))
    }

    /// Returns what ran on the records of canaries, or why it promises nothing.
    fn seen(&self) -> std::result::Result<Mechanism, String> {
        let Some(run) = &self.run else {
            return Err(match self.planting().unplanted() {
                Some(unplanned) => unplanned.to_owned(),
                None => format!("{UNKNOWN_RUN}: give --mechanism"),
            });
        };
        if matches!(run.run, Run::Protect { .. }) {
            return Err(
                "the promise is about the secrets of the incidence, and whether canaries are among them is not known: \
                 audit extract --secrets tests it"
                    .into(),
            );
        }
        if let Some(why) = run.unprotected() {
            return Err(format!("nothing was promised: {why}"));
        }
        if let (Some(recipe), false) = (run.narrower(), self.met) {
            return Err(format!(
                "{recipe} promises less than differential privacy, and how the run treated the canaries is not known"
            ));
        }
        if self.earlier_unknown || run.canary_reach().is_none() {
            return Err(EARLIER_UNKNOWN.into());
        }
        Ok(run.mechanism_of_canaries())
    }

    /// Returns the promise for all records of a canary at once, a finite ε, or why there is none.
    fn promise(&self, promised: &[Guarantee]) -> std::result::Result<Promise<Epsilon>, String> {
        let matching = of_all_records(promised, self.canaries.records)
            .ok_or("nothing was promised about all records of a canary")?;
        finite_promise(&self.released, matching)
    }

    /// Returns why nothing is promised about a canary; `None` if something is, or if the accountant can't compute it.
    #[cfg(feature = "audit")]
    pub(super) fn unpromised(&self) -> Option<String> {
        match self.seen() {
            // A sample takes no mechanism.
            Err(_) if self.run.is_none() && self.planting().unplanted().is_none() => {
                Some(UNKNOWN_RUN.to_owned())
            }
            Err(why) => Some(why),
            Ok(seen) => guarantees(&seen, self.plan.unit, self.records(), *self.delta)
                .ok()
                .and_then(|promised| self.promise(&promised).err()),
        }
    }

    /// Returns the canaries whose NLLs these are, in the order of the plan.
    #[cfg(feature = "audit")]
    pub(super) fn known(&self, nlls: impl Iterator<Item = f64>) -> Vec<Known> {
        let targets = self.search.1.iter().zip(nlls);
        targets
            .map(|(Target { context, secret }, nll)| Known {
                text: [context.as_slice(), secret].concat(),
                before: context.len(),
                mean: -nll / secret.len() as f64,
            })
            .collect()
    }

    /// Tests canary by canary in the order of the plan, until the e-value against the promise reaches `stop_at` or no
    /// canaries are left.
    ///
    /// # Errors
    /// Returns an error if nothing is promised, if no outcome could contradict the promise, if the model doesn't
    /// answer, or on an interruption.
    pub fn sequential(
        &self,
        scorer: &mut dyn PrefixScorer,
        stop_at: f64,
        interrupt: &Interrupt,
    ) -> Result<SequentialReport> {
        let refused =
            |why: String| anyhow::anyhow!("--stop-at: there is no promise to test: {why}");
        let seen = self.seen().map_err(refused)?;
        if let Some(why) = self.planting().unplanted() {
            return Err(refused(why.to_owned()));
        }
        let promised = guarantees(&seen, self.plan.unit, self.records(), *self.delta)?;
        let promise = self.promise(&promised).map_err(refused)?;
        let level = 1.0 / stop_at;
        let confidence = Confidence::new(1.0 - level).context("--stop-at")?;
        let each = split(Probability::new(FALSE_ALARM)?, self.tests);
        let planned = self.strict(each)?.at(confidence);
        let (tree, targets) = &self.search;
        let provable = planned.provable_by_evalues()?;
        let audit = planned.by_evalue;
        ensure!(
            provable.get() > promise.at_most.get(),
            "--stop-at: no outcome could contradict the promise: the most that {}{} can prove, of {} candidates each, is ε ≥ {} at level {}, and {} is promised; plant more canaries or canaries of more candidates",
            count_of(self.reached, "canary"),
            self.fewer_reached().map_or("", |_| " that training met"),
            grouped(tree.candidates()),
            rounded(provable, 4),
            shortest(level),
            rounded(promise.at_most, 4),
        );
        let mut test = SequentialTest::new(&audit, *promise.at_most.get())?;
        let mut report = SequentialReport {
            stop_at,
            level,
            needed: test.wanted().exp(),
            candidates: tree.candidates(),
            planned: targets.len() as u64,
            promised: promise.at_most,
            terms: promise.terms,
            provable,
            planting: self.planting(),
            reached: self.fewer_reached(),
            manifest: self.manifest.clone(),
            promised_by: self.promised_by.clone(),
            contradicted: false,
            positions: 0,
            canaries: Vec::new(),
            nlls: Vec::new(),
        };
        let progress = Progress::of(targets.len() as u64, "ranking canaries", "canaries");
        let mut counts = Vec::new();
        for (number, (canary, target)) in self.plan.canaries.iter().zip(targets).enumerate() {
            let target = std::slice::from_ref(target);
            let options = self.options(scorer);
            let found = search_beliefs(scorer, tree, target, &options, &audit, &mut |_| {
                interrupt.flow()
            });
            let (ranking, guesses) = interrupt.unless_raised(found)?;
            let [count] = ranking.counts[..] else {
                bail!("one canary has {} ranks", ranking.counts.len());
            };
            counts.push(count);
            let guesses = guesses
                .into_iter()
                .next()
                .context("one canary has no belief")?;
            let ln = test.reveal(guesses)?;
            let secret = self.show_secrets.then(|| canary.secret.clone());
            report.saw(canary, &count, (ln, ranking.work.positions_scored), secret);
            progress.at(number as u64 + 1);
            if test.rejected_after().is_some() {
                report.contradicted = true;
                return Ok(report);
            }
        }
        if let Some(silence) = self.silence(&counts) {
            bail!("--stop-at: nothing can be concluded: {}", silence.why());
        }
        Ok(report)
    }

    /// Returns why the model says nothing about its canaries: for one of them, exp of the mean loss per character, and
    /// so per token, is not finite; or each ties with all its candidates; or they rank too low.
    fn silence(&self, counts: &[RankCount]) -> Option<Silence> {
        let mut canaries = self.plan.canaries.iter().zip(counts);
        let silent = |(canary, count): (&Canary, &RankCount)| {
            is_silent(count.nll, canary.secret.chars().count())
        };
        let alike = |count: &RankCount| count.ties + 1 == count.candidates;
        if canaries.any(silent) {
            Some(Silence::NoPerplexity)
        } else if counts.iter().all(alike) {
            Some(Silence::AllAlike)
        } else {
            is_reversed(counts, Draw::of_plan(self.plan)).then_some(Silence::Reversed)
        }
    }

    /// Returns the exposures of another model with the same tokens.
    ///
    /// # Errors
    /// Returns an error if the model doesn't answer and on an interruption.
    pub fn summary(
        &self,
        scorer: &mut dyn PrefixScorer,
        interrupt: &Interrupt,
    ) -> Result<ExposureSummary> {
        let (tree, targets) = &self.search;
        let options = self.options(scorer);
        let mut watch = ranking(interrupt);
        let ranking = search_ranks(scorer, tree, targets, &options, &mut watch);
        let ranking = interrupt.unless_raised(ranking)?;
        Ok(ExposureSummary::of(
            &ranking.counts,
            Draw::of_plan(self.plan),
        )?)
    }

    /// Measures exposures from a sample of the candidates, with every end for every canary at this confidence; and why the
    /// model says nothing about its canaries, if it does: it gives one no finite perplexity, or they rank too low.
    ///
    /// # Errors
    /// Returns an error if the model doesn't answer and on an interruption.
    pub fn sampled(
        &self,
        scorer: &mut dyn PrefixScorer,
        (sample, seed): (u64, u64),
        confidence: Confidence,
        interrupt: &Interrupt,
    ) -> Result<(Vec<SampledExposure>, Option<Silence>)> {
        let (tree, targets) = &self.search;
        let progress = Progress::of(sample, "scoring candidates", "candidates");
        let sampling = Sampling {
            sample,
            batch: SearchOptions::default().batch,
            seed,
        };
        let found = sampled_exposures(scorer, tree, targets, sampling, confidence, &mut |done| {
            progress.at(done);
            interrupt.flow()
        });
        let found = interrupt.unless_raised(found)?;
        let mut canaries = self.plan.canaries.iter().zip(&found);
        let silent = canaries
            .any(|(canary, found)| is_silent(found.nll, canary.secret.chars().count()))
            .then_some(Silence::NoPerplexity);
        let reversed = is_reversed_sample(&found).then_some(Silence::Reversed);
        Ok((found, silent.or(reversed)))
    }

    fn options(&self, scorer: &dyn PrefixScorer) -> SearchOptions {
        SearchOptions {
            tie_tolerance: tie_tolerance(scorer, self.search.0.longest()),
            budget: self.budget,
            ..SearchOptions::default()
        }
    }

    fn rank(
        &self,
        scorer: &mut dyn PrefixScorer,
        audit: &EValueAudit,
        interrupt: &Interrupt,
    ) -> Result<(Ranking, Vec<CanaryGuesses>, Option<FlatSample>)> {
        let (tree, targets) = &self.search;
        let options = self.options(scorer);
        let mut watch = ranking(interrupt);
        let found = search_beliefs(scorer, tree, targets, &options, audit, &mut watch);
        let (ranking, guesses) = interrupt.unless_raised(found)?;
        let flat = match (self.flat_sample, targets.first()) {
            (Some(sample), Some(target)) => {
                let timed = sample_flat(scorer, tree, &target.context, sample, options.batch);
                Some(interrupt.unless_raised(timed)?)
            }
            _ => None,
        };
        Ok((ranking, guesses, flat))
    }

    /// Compares the promise for all records of a canary with the measured lower bound and records the verdict. Returns
    /// whether anything was promised.
    fn hold_against(
        &self,
        report: &mut ExposureReport,
        promised: &[Guarantee],
        (audits, bound): (&PlannedAudit, &EpsilonBound),
        seen: &Mechanism,
    ) -> Result<bool> {
        let mut promise = match self.promise(promised) {
            Ok(promise) => promise,
            Err(why) => {
                report.no_verdict = Some(why);
                return Ok(false);
            }
        };
        if bound.lower.get() > promise.at_most.get() {
            promise.mistakes = self.mistakes(seen)?;
        }
        let terms = Terms {
            delta: bound.delta,
            neighbours: bound.neighbours,
            group: bound.copies,
            ..promise.terms.clone()
        };
        let false_alarm = Probability::new(1.0 - bound.confidence.get())?;
        let provable = audits.provable()?;
        let power = power::of_ranks(audits, *promise.at_most.get(), seen, self.records())?;
        let measured = Measurement {
            terms,
            at_least: bound.lower,
            false_alarm,
            provable,
            power,
        };
        match judge(&promise, &measured) {
            Ok(verdict) => report.verdict = Some(verdict),
            Err(mismatch) => report.no_verdict = Some(mismatch.to_string()),
        }
        Ok(true)
    }

    /// Returns what the promise would have been after known mistakes. Missing noise, or a secret that was trained on in
    /// the clear, would explain anything.
    fn mistakes(&self, seen: &Mechanism) -> Result<Vec<(Mistake, Upper<Epsilon>)>> {
        let mut found = Vec::new();
        for (mistake, mechanism, records) in alternatives(seen, self.records()) {
            let rows = guarantees(&mechanism, self.plan.unit, records, *self.delta)?;
            let upper = of_all_records(&rows, records.into()).and_then(|g| g.epsilon?.upper);
            found.extend(upper.map(|upper| (mistake, upper)));
        }
        let anything = Upper::new(Epsilon::new(f64::INFINITY)?);
        found.push((Mistake::NoiseOrClipping, anything));
        found.push((Mistake::MissedSecret, anything));
        Ok(found)
    }

    /// Returns the mistakes under which the measured ranks would be possible.
    fn suspects(
        &self,
        seen: &Mechanism,
        ranking: &Ranking,
        audit: &RankAudit,
        alpha: Probability,
    ) -> Result<Vec<Mistake>> {
        let mut found = Vec::new();
        for (mistake, mechanism, records) in alternatives(seen, self.records()) {
            let Some(loss) = reconstruction_loss(&mechanism, records)? else {
                continue;
            };
            let test = self.ceiling(&loss, ranking, audit, alpha)?.test;
            if test.outcome != CeilingOutcome::Contradicted {
                found.push(mistake);
            }
        }
        found.extend([Mistake::MissedSecret, Mistake::NoiseOrClipping]);
        Ok(found)
    }

    fn ceiling(
        &self,
        loss: &PrivacyLoss,
        ranking: &Ranking,
        audit: &RankAudit,
        alpha: Probability,
    ) -> Result<Ceiling> {
        let tolerance = Tolerance::new(1e-3)?;
        let bound = |mass: Probability| -> Result<Upper<Probability>> {
            let answer = loss.blow_up(mass, tolerance)?;
            answer.bounds.upper.context("the blow-up has no upper end")
        };
        let (canaries, candidates) = (
            self.plan.canaries.len() as u64,
            ranking.counts[0].candidates,
        );
        let at = audit
            .thresholds
            .iter()
            .map(|&threshold| {
                let each = bound(prior_mass(threshold, candidates, canaries, audit.draw)?)?;
                Ok(CeilingAt {
                    threshold,
                    bounds: vec![each; canaries as usize],
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let exposure_at_most =
            exposure_ceiling(candidates, canaries, audit.draw, CEILING_LEVEL, |mass| {
                // no canary: the promise for each, summed over all
                bound(mass)
                    .map(|b| Upper::new(b.get().get() * canaries as f64 * (1.0 + f64::EPSILON)))
                    .map_err(Failure)
            })
            .map_err(|f: Failure| f.0)?;
        Ok(Ceiling {
            exposure_at_most,
            level: CEILING_LEVEL,
            test: ceiling_test(&ranking.counts, &at, alpha.get())?.reaching(self.reached),
            suspects: Vec::new(),
        })
    }
}

fn ranking(interrupt: &Interrupt) -> impl FnMut(&Searched) -> ControlFlow<()> {
    let progress = Progress::of(1000, "ranking canaries", "‰ of the candidates");
    move |at| {
        progress.at((at.resolved * 1000.0) as u64);
        interrupt.flow()
    }
}

/// Passes an error of the accountant through a search of the attacks crate.
struct Failure(anyhow::Error);

impl From<reticent_attacks::Error> for Failure {
    fn from(error: reticent_attacks::Error) -> Self {
        Self(error.into())
    }
}

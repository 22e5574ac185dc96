//! The audits that may notice a bug: ranks, the bound on ε, membership.

use crate::{ALPHA, BUDGET, COPIES, DIALOGUES, EPOCHS, Noticed, RATE, SIGMA};
use anyhow::{Context, Result};
use reticent_accounting::{
    Confidence, Delta, Direction, GroupSize, Mechanism, Neighbours, NoiseMultiplier, PrivacyLoss,
    Probability, Query, SamplingRate, Steps, Tolerance,
};
use reticent_attacks::exposure::{
    CeilingAt, CeilingOutcome, ExposureSummary, RankAudit, ceiling_test, prior_mass,
};
use reticent_attacks::membership::{ScoreSet, ScoreTable, Scoring};
use reticent_attacks::search::{RankCount, SearchOptions, plan_search, search_ranks};
use reticent_backends::Scorer;
use reticent_backends::trainer::Trainer;
use reticent_corpus::canary::{CanaryOptions, CanaryPlan, Carriers};
use reticent_corpus::prepare::Prepared;
use reticent_corpus::simulate::simulate;
use reticent_corpus::tokenize::Tokenizer;
use std::ops::ControlFlow;

/// The promise that is claimed: B of all copies at once, and ε of them.
pub(crate) struct Claim {
    loss: PrivacyLoss,
    epsilon: f64,
    pub(crate) group: u32,
}

impl Claim {
    pub(crate) fn new(group: u32) -> Result<Self> {
        let steps = Steps::new(EPOCHS * (1.0 / RATE) as u64);
        let mechanism = Mechanism::dp_sgd(
            NoiseMultiplier::new(SIGMA)?,
            SamplingRate::new(RATE)?,
            steps,
        );
        let query = |neighbours| -> Result<Query> {
            Ok(Query {
                neighbours,
                group: GroupSize::new(group)?,
            })
        };
        let loss = PrivacyLoss::of(&mechanism, query(Neighbours::ZeroOut)?, Direction::Remove)?;
        let replace = PrivacyLoss::of(&mechanism, query(Neighbours::Replace)?, Direction::Remove)?;
        let answer = replace.epsilon(Delta::new(1e-6)?, Tolerance::new(1e-3)?)?;
        let epsilon = answer.bounds.upper.context("no upper end")?.get().get();
        Ok(Self {
            loss,
            epsilon,
            group,
        })
    }
}

/// What ranks, ceiling and the bound on ε say.
pub(crate) fn ranks(
    plan: &CanaryPlan,
    prepared: &Prepared,
    model: &mut dyn Trainer,
    claim: &Claim,
    noticed: &mut Noticed,
) -> Result<()> {
    let (tree, targets) = plan_search(plan, &prepared.tokenizer)?;
    let options = SearchOptions {
        tie_tolerance: 1e-5,
        budget: Some(BUDGET),
        ..SearchOptions::default()
    };
    let ranking = search_ranks(model, &tree, &targets, &options, &mut |_| {
        ControlFlow::Continue(())
    })?;
    let counts: &[RankCount] = &ranking.counts;
    let confidence = Confidence::new(1.0 - ALPHA)?;
    let group = u64::from(claim.group);
    let audit = RankAudit::of_plan(plan, group, confidence, Delta::new(1e-6)?);
    let summary = ExposureSummary::of(counts, audit.draw)?;
    noticed.exposure = summary.max().p_value() < 0.025 || summary.mean().p_value() < 0.025;
    let lower = audit.bound(counts)?.lower.get().get();
    noticed.epsilon = lower > claim.epsilon;
    let tolerance = Tolerance::new(1e-3)?;
    let ceilings = audit
        .thresholds
        .iter()
        .map(|&threshold| {
            let mass: Probability = prior_mass(threshold, tree.candidates(), 10, audit.draw)?;
            let bound = claim.loss.blow_up(mass, tolerance)?;
            let bound = bound.bounds.upper.context("no upper end")?;
            Ok(CeilingAt {
                threshold,
                bounds: vec![bound; 10],
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let test = ceiling_test(counts, &ceilings, ALPHA)?;
    noticed.ceiling = test.outcome == CeilingOutcome::Contradicted;
    Ok(())
}

/// The planted lines against lines of another plan, by loss; 2.5 % false alarms.
///
/// The other lines are drawn as the planted ones were, closing phrases included: lines of another
/// shape would have another loss whatever the model has seen.
pub(crate) fn membership<S: Scorer + ?Sized>(
    plan: &CanaryPlan,
    tokenizer: &Tokenizer,
    carriers: Carriers,
    model: &mut S,
    seed: u64,
) -> Result<bool> {
    let other = CanaryOptions {
        seed: seed + 1_000_003,
        carriers,
        ..CanaryOptions::new(format!("10x{COPIES}").parse()?)
    };
    let documents = simulate(DIALOGUES, 0)?;
    let other = CanaryPlan::new(&other, plan.unit, &documents)?;
    let mut losses = |plan: &CanaryPlan| -> Result<Vec<f64>> {
        let lines = plan
            .canaries
            .iter()
            .map(|c| Ok(tokenizer.frame(&c.insertions[0].text)?))
            .collect::<Result<Vec<_>>>()?;
        let scoring = Scoring {
            context: None,
            batch_tokens: 4096,
        };
        let table = ScoreTable::of(model, lines, scoring, &mut |_| ControlFlow::Continue(()))?;
        Ok(table.losses()?)
    };
    let (members, others) = (losses(plan)?, losses(&other)?);
    let area = ScoreSet::new(members, others)?.area(Confidence::new(0.95)?, seed)?;
    Ok(area.bounds.lower.is_some_and(|l| l.get().get() > 0.5))
}

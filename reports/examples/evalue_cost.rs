//! What e-values cost on top of the ranks: `cargo run --release --example evalue_cost -- MODEL CANARIES [ROUNDS]`
//! searches the ranks of CANARIES (a `canaries.json`) in the folder MODEL with and without beliefs, in turns, and
//! prints both in seconds of the processor (Linux: /proc/self/stat), the bound by e-values included.
#![expect(clippy::print_stdout, reason = "a report for people and scripts")]

use anyhow::{Context, Result};
use reticent_accounting::{Confidence, Delta};
use reticent_attacks::evalue::EValueAudit;
use reticent_attacks::exposure::RankAudit;
use reticent_attacks::search::{SearchOptions, plan_search, search_beliefs, search_ranks};
use reticent_backends::Device;
use reticent_backends::checkpoint::Pretrained;
use reticent_backends::engine::open;
use reticent_corpus::canary::CanaryPlan;
use std::ops::ControlFlow;
use std::path::Path;

/// Seconds that the processor has worked for this program, in steps of a hundredth.
fn processor() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after = stat.rsplit_once(')').context("/proc/self/stat")?.1;
    let ticks = after.split_whitespace().skip(11).take(2);
    let ticks = ticks.map(|n| Ok(n.parse::<f64>()?)).sum::<Result<f64>>()?;
    Ok(ticks / 100.0)
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what: &'static str| arguments.next().context(what);
    let model = next("MODEL CANARIES [ROUNDS]: name the model's folder")?;
    let canaries = next("MODEL CANARIES [ROUNDS]: name the canaries.json")?;
    let rounds: u32 = next("").map_or(Ok(3), |text| text.parse())?;
    let plan = CanaryPlan::from_json(&std::fs::read_to_string(canaries)?)?;
    let loaded = Pretrained::load(Path::new(&model))?;
    let (tree, targets) = plan_search(&plan, &loaded.tokenizer)?;
    let mut engine = open(&loaded.model, loaded.weights, Device::Cpu)?;
    let options = SearchOptions {
        tie_tolerance: 1e-5,
        ..SearchOptions::default()
    };
    let (confidence, delta) = (Confidence::new(0.95)?, Delta::new(1e-6)?);
    let rank = RankAudit::of_plan(&plan, u64::from(plan.copies), confidence, delta);
    let audit = EValueAudit::beside(&rank, tree.candidates(), targets.len() as u64);
    let (mut plain, mut with) = (0.0, 0.0);
    let mut positions = 0;
    for _ in 0..rounds {
        let begun = processor()?;
        let ranking = search_ranks(engine.as_mut(), &tree, &targets, &options, &mut |_| {
            ControlFlow::Continue(())
        })?;
        rank.bound(&ranking.counts)?;
        let between = processor()?;
        let (ranking, guesses) = search_beliefs(
            engine.as_mut(),
            &tree,
            &targets,
            &options,
            &audit,
            &mut |_| ControlFlow::Continue(()),
        )?;
        rank.bound(&ranking.counts)?;
        audit.bound(&guesses)?;
        plain += between - begun;
        with += processor()? - between;
        positions = ranking.work.positions_scored;
    }
    println!(
        "{{\"canaries\": {}, \"candidates\": {}, \"positions\": {positions}, \"ranks_s\": {:.2}, \"with_evalues_s\": {:.2}, \"more\": {:.3}}}",
        targets.len(),
        tree.candidates(),
        plain / f64::from(rounds),
        with / f64::from(rounds),
        with / plain - 1.0
    );
    Ok(())
}

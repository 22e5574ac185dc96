//! `audit exposure`: exact ranks of planted canaries in a checkpoint, and the verdict.

use super::attack::Attack;
use super::perplexity::open;
use super::promise::Met;
use crate::audit::cli::Exposure as Asked;
use crate::contract::{AtomicFile, Exit, Format, Inputs, Interrupt, print};
use anyhow::{Context, Result, bail, ensure};
use reticent_accounting::Mechanism;
use reticent_backends::{Checkpoint, Owner, owner_folder};
use reticent_corpus::CanaryPlan;
use std::io::Write;
use std::path::Path;

/// Candidates scored flatly, to set the search's seconds beside.
const FLAT_SAMPLE: u64 = 2_000;

pub(super) fn run(asked: &Asked, format: Format, interrupt: &Interrupt) -> Result<Exit> {
    let (checkpoint, mut model) = open(&asked.model, asked.device)?;
    let (plan, met) = plan(asked, &checkpoint)?;
    if let Some(spec) = asked.canaries {
        let stored = plan.spec()?;
        ensure!(
            spec == stored,
            "--canaries: the model was trained with {}x{}, got {}x{}",
            stored.canaries(),
            stored.copies(),
            spec.canaries(),
            spec.copies()
        );
    }
    let mechanism = match &asked.mechanism {
        Some(path) => read_mechanism(path).context("--mechanism")?,
        None => checkpoint.manifest.mechanism.clone(),
    };
    let released = asked.model.display().to_string();
    let mut attack = Attack::new(&plan, &checkpoint.tokenizer, &released, met)?;
    attack.mechanism = Some(&mechanism);
    attack.confidence = asked.confidence;
    attack.budget = asked.budget;
    attack.flat_sample = Some(FLAT_SAMPLE);
    attack.show_secrets = asked.show_secrets;
    if let Some(delta) = asked.delta {
        attack.delta = delta;
    }
    let (report, _) = attack.run(model.as_mut(), interrupt)?;
    if let Some(path) = &asked.html {
        let mut file = AtomicFile::create(path).context("--html")?;
        file.write_all(report.to_html(&released)?.as_bytes())
            .context("--html")?;
        file.finish().context("--html")?;
    }
    let text = match format {
        Format::Json => report.to_json(inputs(asked)?)?,
        Format::Text => report.to_text(),
    };
    print(&text)?;
    Ok(report.exit(asked.max_exposure))
}

fn inputs(asked: &Asked) -> Result<Inputs> {
    let mut inputs = Inputs::new().given("model", asked.model.display().to_string())?;
    if let Some(spec) = asked.canaries {
        inputs = inputs.given("canaries", format!("{}x{}", spec.canaries(), spec.copies()))?;
    }
    if let Some(limit) = asked.max_exposure {
        inputs = inputs.given("max_exposure", limit)?;
    }
    Ok(inputs)
}

/// The plan: from the file that was named, else from the owner's folder beside the checkpoint.
/// It must be the one the manifest seals.
fn plan(asked: &Asked, checkpoint: &Checkpoint) -> Result<(CanaryPlan, Met)> {
    let seal = checkpoint.manifest.canaries.as_ref();
    let Some(seal) = seal else {
        bail!(
            "--model: the manifest of {} names no canaries; plant them before training: \
             `audit prepare DATA --canaries 10x20 --out prepared/` writes a plain train.jsonl for any trainer \
             and a canaries.json",
            asked.model.display()
        );
    };
    let owned = owner_folder(&asked.model);
    let path = asked
        .canary_file
        .clone()
        .unwrap_or_else(|| owned.join("canaries.json"));
    let json = std::fs::read_to_string(&path).with_context(|| {
        format!(
            "--canary-file: cannot read {}; name the canaries.json of this model",
            path.display()
        )
    })?;
    let plan = CanaryPlan::from_json(&json)
        .with_context(|| format!("--canary-file: {}", path.display()))?;
    let owner = Owner::open(&asked.model)
        .context("the owner's key, without which the seal can't be checked")?;
    ensure!(
        owner.digest(&plan)? == seal.digest,
        "--canary-file: {} is not the plan this model was trained with (its seal differs)",
        path.display()
    );
    Ok((
        plan,
        Met {
            records: seal.records,
            public: seal.on_public_side,
        },
    ))
}

fn read_mechanism(path: &Path) -> Result<Mechanism> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no mechanism", path.display()))
}

//! `audit exposure`: exact ranks of planted canaries in a checkpoint, and the verdict.

use super::attack::Attack;
use super::model::open;
use super::promise::Met;
use crate::audit::cli::Exposure as Asked;
use crate::audit::exposure::{Checkpoint, ExposureReport};
use crate::contract::{AtomicFile, Exit, Format, Inputs, Interrupt, print};
use anyhow::{Context, Result, bail, ensure};
use reticent_accounting::Mechanism;
use reticent_backends::{CanarySeal, Owner, Pretrained, owner_folder};
use reticent_corpus::CanaryPlan;
use std::io::Write;
use std::path::Path;

/// Candidates scored flatly, to set the search's seconds beside.
const FLAT_SAMPLE: u64 = 200;

pub(super) fn run(asked: &Asked, format: Format, interrupt: &Interrupt) -> Result<Exit> {
    let report = measured(asked, 2, interrupt)?;
    if let Some(path) = &asked.html {
        let mut file = AtomicFile::create(path).context("--html")?;
        let released = asked.model.display().to_string();
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

/// The report; `tests` share the false-alarm rate of its verdicts.
pub(super) fn measured(
    asked: &Asked,
    tests: usize,
    interrupt: &Interrupt,
) -> Result<ExposureReport> {
    let (loaded, mut model) = open(&asked.model, asked.device)?;
    let (plan, met) = plan(asked, &loaded)?;
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
        Some(path) => Some(read_mechanism(path).context("--mechanism")?),
        None => loaded.manifest.map(|m| m.mechanism),
    };
    let released = asked.model.display().to_string();
    let mut attack = Attack::new(&plan, &loaded.tokenizer, &released, met)?;
    attack.mechanism = mechanism.as_ref();
    attack.confidence = asked.confidence;
    attack.budget = asked.budget;
    attack.tests = tests;
    attack.flat_sample = Some(FLAT_SAMPLE);
    attack.show_secrets = asked.show_secrets;
    if let Some(delta) = asked.delta {
        attack.delta = delta;
    }
    let (mut report, _) = attack.run(model.as_mut(), interrupt)?;
    for folder in &asked.earlier {
        let (before, mut model) = open(folder, asked.device).context("--earlier")?;
        ensure!(
            before.tokenizer.to_json()? == loaded.tokenizer.to_json()?,
            "--earlier: {} has another tokenizer than --model",
            folder.display()
        );
        let mut attack = Attack::new(&plan, &loaded.tokenizer, &released, met)?;
        attack.budget = asked.budget;
        let (found, _) = attack.run(model.as_mut(), interrupt)?;
        report.earlier.push(Checkpoint {
            model: folder.display().to_string(),
            summary: found.finding.summary,
        });
    }
    Ok(report)
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

/// The plan, and how the run met it: sealed by the manifest of a checkpoint of ours, or the file
/// that was named for a model that others trained.
fn plan(asked: &Asked, loaded: &Pretrained) -> Result<(CanaryPlan, Met)> {
    let seal = loaded.manifest.as_ref().and_then(|m| m.canaries.as_ref());
    match (seal, &asked.canary_file) {
        (Some(seal), _) => sealed(asked, seal),
        (None, Some(path)) if loaded.manifest.is_none() => {
            let plan = read_plan(path)?;
            // Nobody says what became of the copies: all of them, as far as anyone knows.
            let records = plan.copies;
            Ok((plan, Met { records, public: 0 }))
        }
        _ => bail!(
            "--model: {} names no canaries; plant them before training: \
             `audit prepare DATA --canaries 10x20 --out prepared/` writes a plain train.jsonl for any trainer \
             and a canaries.json, which --canary-file takes afterwards",
            asked.model.display()
        ),
    }
}

fn read_plan(path: &Path) -> Result<CanaryPlan> {
    let json = std::fs::read_to_string(path).with_context(|| {
        format!(
            "--canary-file: cannot read {}; name the canaries.json of this model",
            path.display()
        )
    })?;
    CanaryPlan::from_json(&json).with_context(|| format!("--canary-file: {}", path.display()))
}

/// The plan from the owner's folder beside the checkpoint, unless another file was named; it
/// must be the one that was sealed.
fn sealed(asked: &Asked, seal: &CanarySeal) -> Result<(CanaryPlan, Met)> {
    let owned = owner_folder(&asked.model).join("canaries.json");
    let path = asked.canary_file.as_ref().unwrap_or(&owned);
    let plan = read_plan(path)?;
    let owner = Owner::open(&asked.model)
        .context("the owner's key, without which the seal can't be checked")?;
    ensure!(
        owner.digest(&plan)? == seal.digest,
        "--canary-file: {} is not the plan this model was trained with (its seal differs)",
        path.display()
    );
    let met = Met {
        records: seal.records,
        public: seal.on_public_side,
    };
    Ok((plan, met))
}

fn read_mechanism(path: &Path) -> Result<Mechanism> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no mechanism", path.display()))
}

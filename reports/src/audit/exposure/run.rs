//! `audit exposure`: finds exact ranks of planted canaries in a checkpoint, and the verdict.

use crate::account::mechanism::load;
use crate::audit::args::{Exposure as Args, Source};
use crate::audit::coins::Inclusion;
use crate::audit::exposure::promise::NEIGHBOURS;
use crate::audit::exposure::{
    Attack, Checkpoint, ExposureReport, Planting, PromisedBy, SampledReport, tokens_to_rank,
};
use crate::audit::loaded_model::LoadedModel;
use crate::audit::training_text::{TrainingText, evidence};
use crate::contract::{Csv, Exit, Inputs, Interrupt, open_limit, read_regular_text, read_text};
use crate::number::count_of;
use crate::page::Output;
use anyhow::{Context, Result, bail, ensure};
use reticent_accounting::training::{Canaries, Planted, Stated, TrainingPlan};
use reticent_accounting::{Delta, UnitName};
use reticent_backends::checkpoint::{CanarySeal, Manifest, Owner, owner_folder};
use reticent_corpus::canary::{CanaryPlan, CoinPlan};
use reticent_corpus::prepare::{Copies, Stability};
use std::path::Path;

/// The number of candidates that are scored flatly, for comparison with the search.
const FLAT_SAMPLE: u64 = 200;

pub(in crate::audit) fn run(args: &Args, output: Output, interrupt: &Interrupt) -> Result<Exit> {
    args.text.check(&[args.training.as_deref()])?;
    let output = output.and_page(args.html.as_deref())?;
    let mut model = LoadedModel::audited(&args.of, interrupt)?;
    if let Some(sample) = args.sample {
        return sampled(args, sample, &mut model, output, interrupt);
    }
    if let Some(stop_at) = args.stop_at {
        return sequential(args, stop_at, &mut model, output, interrupt);
    }
    let (report, delta) = measured(args, 0, &mut model, interrupt)?;
    let bound = report.finding.bound();
    let inputs = PromisedBy::inputs(report.promised_by.as_ref(), inputs(args)?)?
        .stated("delta", &delta)?
        .or_assumed("confidence", args.confidence, bound.confidence)?;
    output.answer_with_rows(
        &report.document(inputs),
        &report.to_page(&model.name)?,
        || Ok(Csv::of_rows(&report.finding.canaries)?),
    )?;
    // After the page, since the measurement is useful anyway.
    open_limit(report.exit(), report.undecided())
}

/// Reports the exposures from a sample of the candidates.
fn sampled(
    args: &Args,
    sample: u64,
    model: &mut LoadedModel,
    output: Output,
    interrupt: &Interrupt,
) -> Result<Exit> {
    ensure!(
        args.mechanism.is_none() && args.delta.is_none(),
        "--sample: it leaves ranks open, so no promise can be tested; omit --mechanism and --delta"
    );
    let (plan, canaries) = plan(args, model)?;
    let confidence = crate::audit::confidence(args.confidence)?;
    let each = SampledReport::each(confidence, plan.canaries.len())?;
    let attack = attack(args, &plan, canaries, model)?;
    let (found, silence) = attack.sampled(model.scorer(), (sample, args.seed), each, interrupt)?;
    model.repeat(attack.known(found.iter().map(|found| found.nll)));
    model.check_steady("--scorer")?;
    let planting = attack.planting();
    let unpromised = model.unknown_origin.clone();
    let unpromised = unpromised.or_else(|| attack.unpromised());
    let show = args.show_secrets;
    let mut report = SampledReport::new(&plan, found, planting, confidence, unpromised, show)?;
    report.silence = silence;
    report.reached = attack.fewer_reached();
    if let Some(why) = report.inconclusive(args.max_exposure) {
        bail!("--sample: nothing can be concluded: {why}");
    }
    let inputs = inputs(args)?
        .given("sample", sample)?
        .given("seed", args.seed)?
        .or_assumed("confidence", args.confidence, confidence)?;
    output.answer_with_rows(
        &report.document(inputs),
        &report.to_page(&model.name, args.max_exposure)?,
        || Ok(Csv::of_rows(&report.canaries)?),
    )?;
    open_limit(
        report.exit(args.max_exposure),
        report.undecided(args.max_exposure),
    )
}

/// Tests the promise canary by canary.
fn sequential(
    args: &Args,
    stop_at: f64,
    model: &mut LoadedModel,
    output: Output,
    interrupt: &Interrupt,
) -> Result<Exit> {
    let (plan, canaries) = plan(args, model)?;
    if let Some(why) = &model.unknown_origin {
        bail!("--stop-at: there is no promise to test: {why}");
    }
    let attack = attack(args, &plan, canaries, model)?;
    let report = attack.sequential(model.scorer(), stop_at, interrupt)?;
    model.repeat(attack.known(report.nlls.iter().copied()));
    model.check_steady("--scorer")?;
    let inputs = PromisedBy::inputs(report.promised_by.as_ref(), inputs(args)?)?
        .stated("delta", &attack.delta)?
        .given("stop_at", stop_at)?;
    output.answer_with_rows(
        &report.document(inputs),
        &report.to_page(&model.name)?,
        || Ok(Csv::of_rows(&report.canaries)?),
    )?;
    Ok(report.exit())
}

/// Returns the attack that the arguments describe.
fn attack<'a>(
    args: &Args,
    plan: &'a CanaryPlan,
    mut canaries: Canaries,
    model: &LoadedModel,
) -> Result<Attack<'a>> {
    if let (Some(why), true) = (&model.unknown_origin, args.mechanism.is_some()) {
        bail!("--mechanism: {why}");
    }
    // A sample is scored to its last token, a search needs what is before it.
    let needed = tokens_to_rank(plan, &model.tokenizer)? + usize::from(args.sample.is_some());
    if let Some(most) = model.context.filter(|most| *most < needed) {
        bail!(
            "{}: {} reads at most {most} tokens at once, and needs {needed} for a canary's line up to its secret, so its candidates can't be scored: audit a model of a longer context (`audit train --context {needed}`), or plant canaries with shorter lines (--canary-format)",
            audited_flag(args),
            model.name
        );
    }
    let sealed = seal(model).is_some();
    let StatedRun {
        run,
        manifest,
        promised_by,
        earlier_unknown,
    } = ran(model, args.mechanism.as_deref(), plan)?;
    let own = run.as_ref().and_then(|run| run.secrets.canaries.as_ref());
    if let Some(own) = own.filter(|own| own.value.count != plan.canaries.len() as u64) {
        bail!(
            "--canary-file: it has {}, the run met {}: what a manifest says of its own canaries holds of no others",
            count_of(plan.canaries.len() as u64, "canary"),
            own.value.count
        );
    }
    let text = training_text(args, plan, model)?;
    let (inclusion, met, stability) = evidence(text.as_ref(), &args.of, model, Copies::All)?;
    // The records of a seal include what the stages change.
    if !sealed {
        let in_text = text.map_or(0, |text| plan.most_copies(&text.found));
        let factor = match stability {
            Stability::Bounded(factor) => factor,
            // Then nothing is promised, whatever their number.
            Stability::Unbounded => 1,
        };
        canaries.records = canaries.records.max(in_text).saturating_mul(factor);
    }
    let mut attack = Attack::new(plan, &model.tokenizer, &model.name, canaries)?;
    attack.earlier_unknown = earlier_unknown;
    attack.manifest = manifest;
    attack.promised_by = promised_by;
    // How the run met canaries that its plan did not include is not known.
    if let Some(mut run) = run.filter(|_| sealed || args.mechanism.is_some()) {
        run.unbounded_stability |= stability == Stability::Unbounded;
        attack.against(run);
    }
    attack.reached = match (seal(model), inclusion) {
        (Some(seal), _) => attack.reached.min(seal.reached.into()),
        (None, Inclusion::NotChecked) => attack.reached,
        // Every copy was found.
        (None, _) => plan.canaries.len() as u64,
    };
    attack.planting = match (&model.manifest, inclusion) {
        _ if sealed => Planting::Planted,
        (_, Inclusion::TrainedRecords) => Planting::TrainedRecords,
        // What trained before them may have met the canaries too, but these records were met.
        (_, Inclusion::GivenText) if met => Planting::TrainedRecords,
        (Some(_), Inclusion::GivenText) => Planting::UnplannedText,
        (Some(_), Inclusion::NotChecked) => Planting::NotPlanned,
        (None, Inclusion::GivenText) => Planting::GivenText,
        (None, Inclusion::NotChecked) => Planting::NotChecked,
    };
    attack.confidence = args.confidence;
    attack.budget = args.budget;
    attack.show_secrets = args.show_secrets;
    if let Some(delta) = args.delta {
        attack.delta = Stated::given(delta, "--delta");
    }
    Ok(attack)
}

/// Reads the text of `--training`, which holds every copy. Text that is repeated holds more than the plan, and all of them
/// are replaced together.
///
/// # Errors
/// A text that lacks one; a checkpoint that says by itself which canaries it met.
fn training_text<'a>(
    args: &'a Args,
    plan: &CanaryPlan,
    model: &LoadedModel,
) -> Result<Option<TrainingText<'a>>> {
    let Some(path) = &args.training else {
        return Ok(None);
    };
    ensure!(
        seal(model).is_none(),
        "--training: {} says by itself which canaries it was trained on; omit it",
        model.name
    );
    let text = TrainingText::read(path, &args.text, plan, "--canary-file").context("--training")?;
    let lacking = plan.lacking(&text.learned);
    ensure!(
        lacking == 0,
        "--training: {lacking} of {} canaries lack a copy in {}: it is not the text that was planted, has it under another key, or its preparation masked, cut, held out or deduplicated copies (`audit plant` says how to prepare it)",
        plan.canaries.len(),
        path.display()
    );
    Ok(Some(text))
}

/// The report, and the δ of its bound. `others`: the number of verdicts of the same document that are not on canaries.
pub(in crate::audit) fn measured(
    args: &Args,
    others: usize,
    model: &mut LoadedModel,
    interrupt: &Interrupt,
) -> Result<(ExposureReport, Stated<Delta>)> {
    let (plan, canaries) = plan(args, model)?;
    let mut attack = attack(args, &plan, canaries, model)?;
    attack.flat_sample = Some(FLAT_SAMPLE);
    attack.tests += others;
    let (mut report, _) = attack.run(model.scorer(), interrupt)?;
    model.repeat(attack.known(report.finding.canaries.iter().map(|found| found.nll)));
    model.check_steady("--scorer")?;
    report.limit = args.max_exposure;
    if let Some(why) = &model.unknown_origin {
        report.no_verdict = Some(why.clone());
    }
    for folder in &args.earlier {
        let source = Source::Folder(folder.clone());
        let mut before = model.beside(&source, &args.of, "--earlier", interrupt)?;
        let note = kinship(model, &before, folder, &plan)?;
        report.earlier.push(Checkpoint {
            note,
            summary: attack.summary(before.scorer(), interrupt)?,
            model: before.name,
        });
    }
    Ok((report, attack.delta))
}

/// Returns a note on an earlier checkpoint that is not known to belong to the model's training.
///
/// A checkpoint of the same training has the model's own seal of the canaries. One with another seal may have been
/// trained separately on the same canaries, which its own owner's folder shows.
///
/// # Errors
/// Returns an error for another architecture or other canaries.
fn kinship(
    model: &LoadedModel,
    before: &LoadedModel,
    folder: &Path,
    plan: &CanaryPlan,
) -> Result<Option<String>> {
    if let (Some((own, _)), Some((other, _))) = (model.weights(), before.weights()) {
        ensure!(
            own == other,
            "--earlier: {} has another architecture than the model, so it is not an earlier checkpoint of it",
            before.name
        );
    }
    let seal = |manifest: &Manifest| manifest.canaries.as_ref().map(|seal| seal.digest.clone());
    let own = model.manifest.as_ref().and_then(seal);
    let note = match before.manifest.as_ref().map(seal) {
        Some(Some(other)) if own.as_ref() == Some(&other) => return Ok(None),
        Some(Some(other)) => {
            let kept = Owner::open(folder).ok().map(|owner| owner.digest(plan));
            ensure!(
                kept.transpose()?.as_ref() == Some(&other),
                "--earlier: {} was trained with other canaries, or its owner's folder is not beside it to show that they are these",
                before.name
            );
            "another training with these canaries"
        }
        Some(None) if own.is_some() => "trained without canaries",
        None if own.is_none() => return Ok(None),
        Some(None) | None => "not known to be of this training",
    };
    Ok(Some(note.to_owned()))
}

fn inputs(args: &Args) -> Result<Inputs> {
    let spec = args.canaries;
    Ok(args
        .of
        .given(Inputs::new())?
        .given(
            "canaries",
            spec.map(|spec| format!("{}x{}", spec.canaries(), spec.copies())),
        )?
        .given_path("canary_file", args.canary_file.as_deref())?
        .given_path("mechanism", args.mechanism.as_deref())?
        .given_path("training", args.training.as_deref())?
        .given("text_field", args.text.text_field.as_deref())?
        .given("max_exposure", args.max_exposure)?)
}

/// Returns the plan of canaries and how the run met it: as sealed by the manifest of a checkpoint of ours, or from
/// the file named for a model that others trained.
fn plan(args: &Args, model: &LoadedModel) -> Result<(CanaryPlan, Canaries)> {
    let (plan, canaries) = stored(args, model)?;
    if let Some(spec) = args.canaries {
        let stored = plan.spec()?;
        // Nobody knows what others trained on.
        let whose = match args.canary_file {
            Some(_) => "the plan of --canary-file is",
            None => "the model was trained with",
        };
        ensure!(
            spec == stored,
            "--canaries: {whose} {}x{}, got {}x{}",
            stored.canaries(),
            stored.copies(),
            spec.canaries(),
            spec.copies()
        );
    }
    Ok((plan, canaries))
}

/// Returns what the checkpoint states about canaries that its preparation planted.
fn seal(model: &LoadedModel) -> Option<&CanarySeal> {
    model.manifest.as_ref().and_then(|m| m.canaries.as_ref())
}

fn stored(args: &Args, model: &LoadedModel) -> Result<(CanaryPlan, Canaries)> {
    match (seal(model), &args.of.model, &args.canary_file) {
        (Some(seal), Some(folder), _) => sealed(args, folder, seal),
        (None, _, Some(path)) => {
            let plan = read_plan(path, read_text)?;
            // Nothing else tells which canaries were planted, and how often.
            let named = || {
                format!(
                    "--canary-file: {} (a Reticent checkpoint would have sealed it)",
                    path.display()
                )
            };
            plan.check_digest().with_context(named)?;
            if let Some(manifest) = &model.manifest {
                ensure!(
                    manifest.unit == plan.unit,
                    "--canary-file: one record is a {} in it and a {} in the training of {}: no bound about one is about the other; plant and prepare with one --unit",
                    plan.unit,
                    manifest.unit,
                    model.name
                );
            }
            let canaries = Attack::unsealed(&plan, u64::from(plan.copies));
            Ok((plan, canaries))
        }
        _ => bail!(
            "{}: {} names no canaries; plant them before training: \
             `audit plant DATA --canaries 10x20 --out planted/` writes the same file with canaries for any trainer \
             and a canaries.json, which --canary-file takes afterwards",
            audited_flag(args),
            model.name
        ),
    }
}

/// The flag that names the audited model.
const fn audited_flag(args: &Args) -> &'static str {
    match args.of.model {
        Some(_) => "--model",
        None => "--scorer",
    }
}

fn read_plan(path: &Path, read: fn(&Path) -> std::io::Result<String>) -> Result<CanaryPlan> {
    let json = read(path).with_context(|| {
        format!(
            "--canary-file: cannot read {}; name the canaries.json of this model",
            path.display()
        )
    })?;
    let named = || format!("--canary-file: {}", path.display());
    let kind: Kind = serde_json::from_str(&json).unwrap_or_default();
    if kind.kind != "coin-plan" {
        return CanaryPlan::from_json(&json).with_context(named);
    }
    let coins = CoinPlan::from_json(&json).with_context(named)?;
    ensure!(
        coins.inside.contains(&true),
        "--canary-file: {}: no canary was included by its coin, so none can be ranked",
        path.display()
    );
    Ok(coins.planted())
}

/// The type that a plan states.
#[derive(Default, serde::Deserialize)]
struct Kind {
    #[serde(rename = "type", default)]
    kind: String,
}

/// Reads the plan from the owner's folder beside the checkpoint, unless another file was named; it must be the one
/// that was sealed.
fn sealed(args: &Args, model: &Path, seal: &CanarySeal) -> Result<(CanaryPlan, Canaries)> {
    let owned = owner_folder(model).join("canaries.json");
    let path = args.canary_file.as_ref().unwrap_or(&owned);
    // Only a pipe that the user named is waited for.
    let plan = match args.canary_file {
        Some(_) => read_plan(path, read_text)?,
        None => read_plan(path, read_regular_text)?,
    };
    // A merged model's canaries are those of its adapter; the key beside the plan either fits the seal or doesn't.
    let beside = path
        .parent()
        .filter(|folder| folder.extension().is_some_and(|end| end == "owner"))
        .map(|folder| folder.with_extension(""));
    let owner = match (Owner::open(model), beside) {
        (Err(_), Some(trained)) if args.canary_file.is_some() => Owner::open(&trained),
        (own, _) => own,
    };
    let owner = owner.context(
        "the owner's key, without which the seal can't be checked (of a merged adapter: --canary-file ADAPTER.owner/canaries.json)",
    )?;
    ensure!(
        owner.digest(&plan)? == seal.digest,
        "--canary-file: {} is not the plan this model was trained with (its seal differs)",
        path.display()
    );
    let canaries = as_planted(&plan, seal.planted());
    Ok((plan, canaries))
}

/// Returns the canaries of a plan as a run met them that its manifest describes.
fn as_planted(plan: &CanaryPlan, planted: Planted) -> Canaries {
    Canaries {
        count: planted.canaries,
        records: planted.records,
        on_public_side: planted.on_public_side,
        candidates: Some(Canaries::candidates(plan.candidates)),
    }
}

/// What ran, and on whose word.
pub(in crate::audit) struct StatedRun {
    /// The run, if anything states it.
    pub(in crate::audit) run: Option<TrainingPlan>,
    /// What is to be said of the manifest that states it.
    pub(in crate::audit) manifest: Option<String>,
    /// The file that states it, if no checkpoint of ours does.
    pub(in crate::audit) promised_by: Option<PromisedBy>,
    /// Whether that file says that in how many records of an earlier run a canary was is not known.
    pub(in crate::audit) earlier_unknown: bool,
}

/// Returns what ran, as stated by a checkpoint of ours or otherwise by a file.
///
/// # Errors
/// Returns an error if the file describes another run than the checkpoint.
pub(in crate::audit) fn ran(
    model: &LoadedModel,
    file: Option<&Path>,
    plan: &CanaryPlan,
) -> Result<StatedRun> {
    let own = model
        .manifest
        .as_ref()
        .map(|manifest| manifest.plan.clone());
    // A plan as it is published holds nothing of the canaries.
    let own = own.map(|run| with_canaries(run, plan, seal(model).map(CanarySeal::planted)));
    let Some(path) = file else {
        return Ok(StatedRun {
            run: own,
            manifest: model.caveat(),
            promised_by: None,
            earlier_unknown: false,
        });
    };
    let (given, by, caveat, unknown) = of_mechanism(path, plan).context("--mechanism")?;
    let caveats: Vec<String> = model.caveat().into_iter().chain(caveat).collect();
    let manifest = (!caveats.is_empty()).then(|| caveats.join("; "));
    let (run, promised_by, earlier_unknown) = match own {
        None => (given, Some(by), unknown),
        // A file neither restores a promise that the checkpoint lost nor withdraws one that it makes.
        Some(own) => {
            ensure!(
                own.mechanism().is_same_run(&given.mechanism()),
                "--mechanism: {} says another run than {}/manifest.json, which says what trained the model; omit --mechanism",
                path.display(),
                model.name
            );
            (own, None, false)
        }
    };
    Ok(StatedRun {
        run: Some(run),
        manifest,
        promised_by,
        earlier_unknown,
    })
}

/// Returns a run with what its manifest says of how it met the canaries of a plan, if it says anything.
fn with_canaries(
    mut run: TrainingPlan,
    plan: &CanaryPlan,
    planted: Option<Planted>,
) -> TrainingPlan {
    let canaries = planted.map(|planted| as_planted(plan, planted));
    run.secrets.canaries = canaries.map(|canaries| Stated::given(canaries, "manifest.json"));
    run
}

/// A run that is known by a mechanism from a file, the file as what states it, what is to be said of it, and whether it says
/// that in how many records of an earlier run a canary was is not known: the files that `account --mechanism` takes.
fn of_mechanism(
    path: &Path,
    plan: &CanaryPlan,
) -> Result<(TrainingPlan, PromisedBy, Option<String>, bool)> {
    let loaded = load(path, NEIGHBOURS)?;
    let caveat = loaded.caveats();
    let stated = |run: TrainingPlan, unknown: bool| {
        let by = PromisedBy::file(&loaded.name, &run, loaded.unnamed);
        (run, by, caveat.clone(), unknown)
    };
    let unit = UnitName::new(plan.unit.to_string())?;
    let document = loaded.document;
    let completed = document.clone().completed();
    if let (Some(recipe), None) = (completed.narrower(), &document.plan) {
        bail!(
            "{}: {recipe} promises less than differential privacy, and only the manifest of the run says how it treated the canaries",
            loaded.name
        );
    }
    if let Some(other) = document.unit.as_ref().filter(|other| **other != unit) {
        bail!(
            "one record is a {other} in {} and a {unit} in the canary plan: no promise about one \
             bounds the other",
            loaded.name
        );
    }
    let delta = match document.delta {
        Some(delta) => Stated::given(delta, "--mechanism"),
        None => Stated::assumed(document.delta_or_default()),
    };
    let unknown = document.plan.is_none() && document.canary_records_unknown;
    // The plan contains more, unless the document around it withdraws something.
    if let Some(run) = document.plan
        && run.mechanism() == document.mechanism
    {
        let run = with_canaries(run, plan, document.canaries);
        // The plan itself names the earlier run.
        return Ok(stated(run, false));
    }
    let mut run = Attack::run_of(plan, document.mechanism)?;
    if document.canary_records > 0 {
        let canaries = Attack::unsealed(plan, document.canary_records);
        run.secrets.canaries = Some(Stated::given(canaries, "--mechanism"));
    }
    run.delta = delta;
    if document.unit.is_some() {
        run.unit = Stated::given(unit, "--mechanism");
    }
    Ok(stated(run, unknown))
}

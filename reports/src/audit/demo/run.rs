//! `audit demo`: prepares, trains and audits one corpus, with and without protection.

use crate::audit::args::{ArmName, Demo};
use crate::audit::demo::{Arm, DemoReport, Planted, PrivatePhase, Source};
use crate::audit::exposure::promise::guarantees;
use crate::audit::exposure::{Attack, Planting, secrets};
use crate::audit::perplexity::run::measure;
use crate::audit::train::model::Beginning;
use crate::audit::train::run::{INITIAL_SEED, Job, owner_of_new};
use crate::contract::{Csv, Exit, Inputs, Interrupt, Interrupted, OutputFolder};
use crate::page::{Output, Section};
use crate::plan::args::{NoiseArgs, RecipeArgs, Schedule, Sigma};
use crate::plan::{PlanRequest, PreparedFacts, build, value_name};
use anyhow::{Context, Result, ensure};
use reticent_accounting::training::{Recipe, TrainingPlan};
use reticent_accounting::{NoiseMultiplier, SamplingRate};
use reticent_backends::checkpoint::Phase;
use reticent_backends::run::{Surroundings, Trained};
use reticent_backends::trainer::OptimizerSpec;
use reticent_backends::{Corpus, Error, PrivateOptions, TrainOptions};
use reticent_corpus::canary::CanaryOptions;
use reticent_corpus::policy::ConservativeOptions;
use reticent_corpus::prepare::{CanarySight, PrepareOptions, Prepared, prepare};
use reticent_corpus::read::read_documents;
use reticent_corpus::simulate::simulate;
use reticent_corpus::{Document, Trigram};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The demo's schedule, the same for every arm and every corpus.
mod schedule {
    /// The number of simulated dialogues.
    pub(super) const DIALOGUES: u64 = 300;
    /// The number of characters used of a user's file if no number of dialogues is given: the size of the
    /// simulated corpus.
    pub(super) const CHARACTERS: usize = 450_000;
    /// The number of characters with `--quick`.
    pub(super) const QUICK_CHARACTERS: usize = 225_000;
    pub(super) const EPOCHS: u64 = 6;
    pub(super) const BATCH: u64 = 8;
    pub(super) const LEARNING_RATE: f64 = 4e-3;
    pub(super) const SAMPLING_RATE: f64 = 0.02;
    /// High enough that the promise for all copies of a canary is well below what ten canaries can prove.
    pub(super) const NOISE_MULTIPLIER: f64 = 17.0;
    pub(super) const CLIPPING_NORM: f64 = 1.0;
    /// For Adam, whose steps have the same length with little or much noise: the arm without noise uses the
    /// plan of the others and still learns.
    pub(super) const PRIVATE_LEARNING_RATE: f64 = 2e-3;
    /// The most passes over the public side within an epoch of CRT.
    pub(super) const MOST_PUBLIC_PASSES: u64 = 4;
    pub(super) const HELD_OUT: f64 = 0.1;
    /// The number of simulated dialogues with `--quick`.
    pub(super) const QUICK_DIALOGUES: u64 = 150;
}

/// An arm: its name, its description, its corpus and its recipe.
struct Spec {
    arm: ArmName,
    name: &'static str,
    describes: &'static str,
    recipe: Recipe,
    deduplicate: bool,
    sight: CanarySight,
    /// Whether the noise of the plan is left out. The audit is compared with what the plan would promise.
    noiseless: bool,
}

/// The arms of `--quick`.
const QUICK: [ArmName; 3] = [ArmName::SgdDedup, ArmName::Crt, ArmName::CrtNoiseless];

/// The arm from which most others differ little.
const CRT: Spec = Spec {
    name: "CRT",
    arm: ArmName::Crt,
    describes: "Confidentially redacted training: ordinary on the public side (passed more often, to make about as many updates as ordinary training does; this costs no privacy), clipped and noised on the private side, where the conservative policy put the canaries.",
    recipe: Recipe::Crt,
    deduplicate: true,
    sight: CanarySight::MissedByPolicy,
    noiseless: false,
};

const ARMS: [Spec; 6] = [
    Spec {
        name: "SGD",
        arm: ArmName::Sgd,
        describes: "Ordinary training on redacted text. The policy misses the canaries.",
        recipe: Recipe::Sgd,
        deduplicate: false,
        ..CRT
    },
    Spec {
        name: "SGD, dedup",
        arm: ArmName::SgdDedup,
        describes: "Ordinary training on deduplicated, redacted text. The copies of a canary differ around it, so they survive.",
        recipe: Recipe::Sgd,
        ..CRT
    },
    Spec {
        name: "DP-SGD",
        arm: ArmName::Dpsgd,
        describes: "Clipped and noised training on every record of the deduplicated, redacted text.",
        recipe: Recipe::Dpsgd,
        ..CRT
    },
    CRT,
    Spec {
        name: "CRT, missed",
        arm: ArmName::CrtMissed,
        describes: "The same, but the conservative policy misses the canaries too: they are trained on in the clear, and nothing is promised about them.",
        sight: CanarySight::MissedByBoth,
        ..CRT
    },
    Spec {
        name: "CRT, no noise",
        arm: ArmName::CrtNoiseless,
        describes: "A planted bug: the plan, records and steps of CRT, and the noise left out. The checkpoint promises nothing, and says so; the audit holds it against what CRT promises.",
        noiseless: true,
        ..CRT
    },
];

/// The number of tests that share the report's false-alarm rate: verdict and ceiling of the three arms that
/// are compared with a promise.
pub(super) const TESTS: usize = 6;

pub(in crate::audit) fn run(args: &Demo, output: Output, interrupt: &Interrupt) -> Result<Exit> {
    let begun = Instant::now();
    let (documents, source) = corpus(args)?;
    let out = OutputFolder::create(&target(args)?).context("--out")?;
    let reference = prepared(&documents, args, true, CanarySight::MissedByPolicy)?;
    let trigram = Trigram::of(&reference)?
        .evaluate(&reference.held_out)?
        .perplexity();
    let mut arms = Vec::with_capacity(ARMS.len());
    let wanted = |spec: &&Spec| match args.arms.as_slice() {
        [] => !args.quick || QUICK.contains(&spec.arm),
        chosen => chosen.contains(&spec.arm),
    };
    for spec in ARMS.iter().filter(wanted) {
        arms.push(arm(
            spec,
            &documents,
            args,
            &reference,
            out.path(),
            interrupt,
        )?);
    }
    let plan = reference
        .plan
        .as_ref()
        .context("--canaries: no canary was planted")?;
    let report = DemoReport {
        source,
        model: "the papers' LSTM: one layer, embedding 200, hidden 200, over characters".into(),
        preparation: reference.facts.clone(),
        planted: Planted {
            canaries: plan.canaries.len() as u64,
            copies: u64::from(plan.copies),
            template: plan.template.to_string(),
            seed: plan.seed,
        },
        trigram_perplexity: trigram,
        arms,
        seconds: begun.elapsed().as_secs_f64(),
        secrets: args.show_secrets.then(|| secrets(plan)),
    };
    let document = report.document(inputs(args)?);
    let page = report.to_page()?;
    let json = document.saying(page.said(), page.outcome()).to_text()?;
    out.write("report.json", json.as_bytes())?;
    out.write("report.html", page.to_html()?.as_bytes())?;
    let folder = out.finish().context("--out")?;
    let written = format!(
        "Written: {}, report.json, and a checkpoint of each arm beside them.",
        folder.join("report.html").display()
    );
    let page = page.answer(Section::text("", [written]));
    output.answer_with_rows(&document, &page, || Ok(Csv::of_rows(&report.arms)?))?;
    Ok(report.exit())
}

/// Returns the documents: simulated, or as many from the file as the demo has time for.
fn corpus(args: &Demo) -> Result<(Vec<Document>, Source)> {
    let Some(path) = &args.file else {
        let usual = match args.quick {
            true => schedule::QUICK_DIALOGUES,
            false => schedule::DIALOGUES,
        };
        let dialogues = args.dialogues.unwrap_or(usual);
        let number = usize::try_from(dialogues).context("--dialogues")?;
        return Ok((
            simulate(number, args.seed)?,
            Source::Simulated {
                dialogues,
                seed: args.seed,
            },
        ));
    };
    let mut documents = read_documents(path).context("FILE.jsonl")?;
    let all = documents.len();
    let taken = match args.dialogues {
        Some(n) => usize::try_from(n).context("--dialogues")?.min(all),
        None => {
            let most = match args.quick {
                true => schedule::QUICK_CHARACTERS,
                false => schedule::CHARACTERS,
            };
            let mut characters = 0;
            documents
                .iter()
                .take_while(|d| {
                    characters += d.text.len();
                    characters <= most
                })
                .count()
                .max(1)
        }
    };
    documents.truncate(taken);
    let path = if taken < all {
        format!(
            "{} (the first {taken} of {all} documents; --dialogues takes more)",
            path.display()
        )
    } else {
        path.display().to_string()
    };
    Ok((documents, Source::File { path }))
}

/// Returns the requested folder, or the first unused one of `reticent-demo`, `reticent-demo-2`, ….
fn target(args: &Demo) -> Result<PathBuf> {
    if let Some(out) = &args.out {
        return Ok(out.clone());
    }
    let names = std::iter::once("reticent-demo".to_owned())
        .chain((2..1000).map(|n| format!("reticent-demo-{n}")));
    names
        .map(PathBuf::from)
        .find(|p| !p.exists())
        .context("--out: every default name is taken; name a folder")
}

fn prepared(
    documents: &[Document],
    args: &Demo,
    deduplicate: bool,
    sight: CanarySight,
) -> Result<Prepared> {
    let canaries = CanaryOptions {
        seed: args.seed,
        ..CanaryOptions::new(args.canaries)
    };
    let options = PrepareOptions {
        deduplicate,
        conservative: Some(ConservativeOptions::default()),
        canaries: Some(canaries),
        canary_sight: sight,
        held_out: schedule::HELD_OUT,
        seed: args.seed,
        ..PrepareOptions::default()
    };
    let prepared = prepare(documents, &options)?;
    ensure!(
        !prepared.held_out.is_empty(),
        "FILE.jsonl: too few documents to hold some out for the test"
    );
    Ok(prepared)
}

fn options(recipe: Recipe, prepared: &Prepared, facts: &PreparedFacts) -> Result<TrainOptions> {
    let set = &prepared.training;
    let private = OptimizerSpec::Adam {
        learning_rate: schedule::PRIVATE_LEARNING_RATE,
    };
    // Every arm takes about as many updates as ordinary training on the same deduplicated text: CRT takes few
    // private steps, so it passes over its public side more often, which has no privacy cost.
    let steps = |records: u64| records.div_ceil(schedule::BATCH);
    let private_steps = (1.0 / schedule::SAMPLING_RATE) as u64;
    let room = steps(set.records.len() as u64).saturating_sub(private_steps);
    let public_passes =
        (room / steps(set.public_size()).max(1)).clamp(1, schedule::MOST_PUBLIC_PASSES);
    let noised = recipe.is_private();
    let request = PlanRequest {
        recipe: Some(recipe),
        noise: NoiseArgs {
            sigma: match noised {
                true => Some(Sigma::Noise(NoiseMultiplier::new(
                    schedule::NOISE_MULTIPLIER,
                )?)),
                false => None,
            },
            ..NoiseArgs::default()
        },
        schedule: Schedule {
            sample_rate: match noised {
                true => Some(SamplingRate::new(schedule::SAMPLING_RATE)?),
                false => None,
            },
            epochs: Some(schedule::EPOCHS as f64),
            ..Schedule::default()
        },
        of_recipe: RecipeArgs {
            public_passes: (recipe == Recipe::Crt).then_some(public_passes),
            ..RecipeArgs::default()
        },
        ..PlanRequest::default()
    };
    let plan = build(&request, Some(facts))?;
    let ordinary = OptimizerSpec::Adam {
        learning_rate: schedule::LEARNING_RATE,
    };
    Ok(TrainOptions {
        private: noised.then_some(PrivateOptions::new(schedule::CLIPPING_NORM, private)),
        initial_seed: INITIAL_SEED,
        ..TrainOptions::new(plan, schedule::BATCH, ordinary)
    })
}

fn arm(
    spec: &Spec,
    documents: &[Document],
    args: &Demo,
    reference: &Prepared,
    folder: &Path,
    interrupt: &Interrupt,
) -> Result<Arm> {
    let own = prepared(documents, args, spec.deduplicate, spec.sight)?;
    let facts = PreparedFacts::of_corpus(&own)?;
    let mut options = options(spec.recipe, &own, &facts)?;
    options.plan.noiseless = spec.noiseless;
    let begun = Instant::now();
    let surroundings = Surroundings::in_memory(interrupt.flag());
    let what = format!("training {}", spec.name);
    let mut from = Beginning::paper(&own, options.initial_seed);
    let weights = std::mem::take(&mut from.weights);
    let job = Job {
        prepared: &own,
        corpus: Corpus::plain(&own.training),
        options: &options,
        from: &from,
        assignment: None,
    };
    let mut trained = match job.train(
        weights,
        args.device,
        &surroundings,
        &what,
        &mut |_| {},
        None,
    ) {
        Ok(trained) => trained,
        Err(Error::Interrupted { .. }) => return Err(Interrupted::default().into()),
        Err(error @ Error::Device { .. }) => return Err(error).context("--device"),
        Err(error) => return Err(error.into()),
    };
    let seconds = begun.elapsed().as_secs_f64();
    let out = folder.join(value_name(spec.arm));
    let owner = owner_of_new(&out, None)?;
    job.save(&out, &owner, &trained.ran, trained.trainer.weights())?;
    let measured = measure(trained.trainer.as_mut(), &reference.held_out, interrupt)?;
    let perplexity = measured.perplexity;
    let plan = own
        .plan
        .as_ref()
        .context("--canaries: no canary was planted")?;
    let canaries = trained.ran.plan.secrets.canaries.as_ref();
    let canaries = canaries.map(|stated| stated.value);
    let canaries = canaries.context("--canaries: no canary was planted")?;
    let mut attack = Attack::new(plan, &own.tokenizer, spec.name, canaries)?;
    // Without its noise the plan promises nothing: the claim is that of the same plan with noise.
    attack.against(TrainingPlan {
        noiseless: false,
        ..trained.ran.plan.clone()
    });
    attack.tests = TESTS;
    attack.planting = Planting::Planted;
    let (exposure, held_against) = attack.run(trained.trainer.as_mut(), interrupt)?;
    let (mut promised, claimed) = match spec.noiseless {
        true => (Vec::new(), held_against),
        false => (held_against, Vec::new()),
    };
    if promised.is_empty() {
        promised = guarantees(
            &trained.ran.plan.mechanism_of_canaries(),
            plan.unit,
            u32::try_from(canaries.records).unwrap_or(u32::MAX),
            *trained.ran.plan.delta,
        )?;
    }
    Ok(Arm {
        name: spec.name.into(),
        describes: spec.describes.into(),
        recipe: spec.recipe.to_string(),
        private_phase: private_phase(&trained),
        mechanism: trained.mechanism(),
        guarantees: promised,
        claimed,
        records_of_a_canary: canaries.records,
        perplexity,
        exposure,
        seconds,
    })
}

fn private_phase(trained: &Trained) -> Option<PrivatePhase> {
    trained.ran.phases.iter().find_map(|phase| match phase {
        Phase::Private {
            steps,
            noise_multiplier,
            sampling_rate,
            ..
        } => Some(PrivatePhase {
            noise_multiplier: *noise_multiplier,
            sampling_rate: *sampling_rate,
            steps: *steps,
        }),
        _ => None,
    })
}

fn inputs(args: &Demo) -> Result<Inputs> {
    let canaries = format!("{}x{}", args.canaries.canaries(), args.canaries.copies());
    Ok(Inputs::new()
        .given_path("file", args.file.as_deref())?
        .given("canaries", canaries)?
        .given("seed", args.seed)?
        .given("quick", args.quick)?
        .assumed("epochs", schedule::EPOCHS)?
        .assumed("batch_size", schedule::BATCH)?
        .assumed("learning_rate", schedule::LEARNING_RATE)?
        .assumed("sample_rate", schedule::SAMPLING_RATE)?
        .assumed("sigma", schedule::NOISE_MULTIPLIER)?
        .assumed("clip", schedule::CLIPPING_NORM)?
        .assumed("private_optimizer", "adam")?
        .assumed("private_learning_rate", schedule::PRIVATE_LEARNING_RATE)?)
}

//! Preparation in shards: a plan, its stages, and the drivers that run them.

pub(crate) mod args;
mod local;
mod slurm;

use super::run::{Made, of_argument};
use crate::audit::args::Prepare;
use crate::audit::owner_key;
use crate::audit::published::published;
use crate::audit::reading::watched;
use crate::contract::{Envelope, Exit, Inputs, Interrupt, Interrupted};
use crate::number::count_of;
use crate::page::{Output, Page, Section};
use anyhow::{Context, Result, bail, ensure};
use args::{Driver, StageName};
use reticent_corpus::prepare::{ShardPlan, ShardStage};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What was done about a plan.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Body {
    plan: String,
    /// What is exchanged between the stages.
    folder: String,
    out: String,
    shards: u64,
    parts: u64,
    /// The stage that ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    stage: Option<String>,
    /// The script that was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    script: Option<String>,
    seconds: f64,
}

/// What to do with a plan.
pub(super) enum Request<'a> {
    /// For so many shards, or as many as the corpus needs.
    Write(&'a Path, Option<u64>),
    Stage(&'a Path, ShardStage),
    Run(&'a Path, Driver),
}

impl<'a> Request<'a> {
    /// Returns the request; `None` if this process prepares alone.
    pub(super) fn of(args: &'a Prepare) -> Result<Option<Self>> {
        let how = &args.sharding;
        let Some(plan) = &how.plan else {
            return Ok(None);
        };
        Ok(Some(match (how.stage, how.run) {
            (Some(stage), _) => Self::Stage(plan, numbered(stage, how.shard, how.part)?),
            (_, Some(driver)) => Self::Run(plan, driver),
            _ => Self::Write(plan, how.shards),
        }))
    }

    pub(super) fn run(self, args: &Prepare, output: Output, interrupt: &Interrupt) -> Result<Exit> {
        let began = Instant::now();
        match self {
            Self::Write(path, shards) => {
                let plan = write(args, path, shards, interrupt)?;
                let body = Body::new(path, &plan, began);
                let facts = vec![
                    (
                        "then",
                        format!("audit prepare --plan {} --run local:N", body.plan),
                    ),
                    (
                        "stages",
                        format!("{} of {}", body.folder, count_of(plan.parts(), "part")),
                    ),
                ];
                let said = format!(
                    "{}: {} of {}, for {}.",
                    body.plan,
                    count_of(plan.shards(), "shard"),
                    plan.data().display(),
                    body.out
                );
                let inputs = Inputs::new().given("options", published(plan.options())?)?;
                said_of(&body, inputs, said, facts, output)
            }
            Self::Stage(path, stage) => {
                let plan = load(path)?;
                let made = stage_of((path, &plan), stage, args.threads, interrupt)?;
                let seconds = began.elapsed().as_secs_f64();
                if let Some(made) = made {
                    return answer(&plan, &made, args.threads, seconds, output);
                }
                let body = Body {
                    stage: Some(stage.to_string()),
                    ..Body::new(path, &plan, began)
                };
                let said = format!("{}: {stage} is done.", body.plan);
                said_of(&body, Inputs::new(), said, vec![], output)
            }
            Self::Run(path, Driver::Local(processes)) => {
                let plan = load(path)?;
                let each = (args.threads / processes as u64).max(1);
                local::run(&plan, path, processes, each, interrupt)?;
                let made = stage_of((path, &plan), ShardStage::Join, args.threads, interrupt)?;
                let Some(made) = made else {
                    bail!("--run: the last stage prepared nothing");
                };
                answer(
                    &plan,
                    &made,
                    args.threads,
                    began.elapsed().as_secs_f64(),
                    output,
                )
            }
            Self::Run(path, Driver::Slurm) => {
                let plan = load(path)?;
                let script = slurm::write(&plan, path).context("--run")?;
                let body = Body {
                    script: Some(script.display().to_string()),
                    ..Body::new(path, &plan, began)
                };
                let said = format!(
                    "{}: sh {} submits four jobs, each after the one before; arguments after it go to sbatch.",
                    body.plan,
                    script.display()
                );
                said_of(&body, Inputs::new(), said, vec![], output)
            }
        }
    }
}

impl Body {
    fn new(path: &Path, plan: &ShardPlan, began: Instant) -> Self {
        Self {
            plan: path.display().to_string(),
            folder: plan.folder().display().to_string(),
            out: plan.out().display().to_string(),
            shards: plan.shards(),
            parts: plan.parts(),
            stage: None,
            script: None,
            seconds: began.elapsed().as_secs_f64(),
        }
    }
}

fn said_of(
    body: &Body,
    inputs: Inputs,
    said: String,
    facts: Vec<(&'static str, String)>,
    output: Output,
) -> Result<Exit> {
    let page = Page::new("Preparation in shards", said);
    let page = if facts.is_empty() {
        page
    } else {
        page.answer(Section::facts("", facts))
    };
    let inputs = inputs.given("plan", &body.plan)?;
    output.answer(&Envelope::new("preparation-shards", inputs, body), &page)
}

fn answer(
    plan: &ShardPlan,
    prepared: &reticent_corpus::prepare::Preparation,
    threads: u64,
    seconds: f64,
    output: Output,
) -> Result<Exit> {
    let made = Made {
        data: plan.data(),
        out: plan.out(),
        threads,
        bytes: None,
        seconds,
        sampled: None,
        skipped: &[],
    };
    made.answer(prepared, output)
}

/// Returns the stage with the number that it needs.
fn numbered(stage: StageName, shard: Option<u64>, part: Option<u64>) -> Result<ShardStage> {
    Ok(match (stage, shard, part) {
        (StageName::Scan, Some(shard), None) => ShardStage::Scan(shard),
        (StageName::Group, None, Some(part)) => ShardStage::Group(part),
        (StageName::Write, Some(shard), None) => ShardStage::Write(shard),
        (StageName::Join, None, None) => ShardStage::Join,
        (StageName::Scan | StageName::Write, ..) => bail!("--stage: scan and write need --shard N"),
        (StageName::Group, ..) => bail!("--stage: group needs --part N"),
        (StageName::Join, ..) => bail!("--stage: join takes neither --shard nor --part"),
    })
}

fn load(path: &Path) -> Result<ShardPlan> {
    ShardPlan::load(path, owner_key::shared(false)?).context("--plan")
}

fn write(
    args: &Prepare,
    path: &Path,
    shards: Option<u64>,
    interrupt: &Interrupt,
) -> Result<ShardPlan> {
    let place = reticent_disk::parent_of(path).canonicalize();
    ensure!(
        !place.is_ok_and(|place| args
            .data
            .as_ref()
            .and_then(|data| data.canonicalize().ok())
            .is_some_and(|data| place.starts_with(data))),
        "--plan: {} is inside the corpus, and would be part of it; choose another place",
        path.display()
    );
    let request = super::run::Request::of(args, interrupt)?;
    let (data, out, files) = (request.data, request.out, request.files());
    let size = files.size().context("DATA")?;
    let shards = shards.unwrap_or_else(|| ShardPlan::enough_shards(size));
    let key = owner_key::shared(true)?;
    let (plan, _) = watched(size, "planning", interrupt, |watch| {
        ShardPlan::write(&files, out, shards, path, key, watch)
    });
    let about = |error: reticent_corpus::Error| match &error {
        reticent_corpus::Error::Exists { .. } => {
            anyhow::Error::from(error).context("--plan (a plan is never changed)")
        }
        _ => of_argument_or_plan(error, path, data, out),
    };
    plan.map_err(about)?
        .ok_or_else(|| Interrupted::default().into())
}

/// Runs a stage in this process.
fn stage_of(
    (path, plan): (&Path, &ShardPlan),
    stage: ShardStage,
    threads: u64,
    interrupt: &Interrupt,
) -> Result<Option<reticent_corpus::prepare::Preparation>> {
    use reticent_corpus::Error as E;
    let threads = usize::try_from(threads).unwrap_or(usize::MAX);
    let size = plan.size() / plan.shards();
    let (made, _) = watched(size, "preparing", interrupt, |watch| {
        plan.run(stage, threads, watch)
    });
    let made = made.map_err(|error| match (&error, stage) {
        (
            E::Range {
                name: "the shard", ..
            },
            ShardStage::Scan(_) | ShardStage::Write(_),
        ) => anyhow::Error::from(error).context("--shard"),
        (
            E::Range {
                name: "the part", ..
            },
            ShardStage::Group(_),
        ) => anyhow::Error::from(error).context("--part"),
        _ => of_argument_or_plan(error, path, plan.data(), plan.out()),
    })?;
    made.ok_or_else(|| {
        let resume = Some("the same --plan");
        Interrupted { resume }.into()
    })
}

/// Says the argument that an error is about. What cannot be written beside the plan is the plan's.
fn of_argument_or_plan(
    error: reticent_corpus::Error,
    plan: &Path,
    data: &Path,
    out: &Path,
) -> anyhow::Error {
    match &error {
        reticent_corpus::Error::Write { path, .. } if ShardPlan::owns(plan, path) => {
            anyhow::Error::from(error).context("--plan")
        }
        _ => of_argument(error, data, out),
    }
}

/// Returns the path of this program, for processes that run stages.
fn program() -> Result<PathBuf> {
    std::env::current_exe().context("cannot find the path of this program")
}

//! What a step costs on a device: kernels launched, and bytes that cross. `scripts/device` runs it
//! and shows the figures.
//!
//! The tensor library writes each kernel that it launches to a log, where a settings file in the
//! working directory asks for it: so the test runs itself once more, in a folder with such a file.

use reticent_accounting::NoiseMultiplier;
use reticent_backends::engine::{open, transfers};
use reticent_backends::model::{Family, LstmConfig, Model, TransformerConfig};
use reticent_backends::privacy::{ChaChaNoise, Clip, Ledger, PrivateStep, RunKey, Step};
use reticent_backends::trainer::{Optimizer, OptimizerSpec, Trainer, all_private, unprotected};
use reticent_backends::{Device, Local};
use reticent_corpus::{Record, Side, TrainingSet, Unit};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

#[cfg(feature = "cuda")]
const CARD: Device = Device::Cuda(0);
#[cfg(not(feature = "cuda"))]
const CARD: Device = Device::Wgpu(0);

const VOCABULARY: usize = 64;
const LOG: &str = "kernels.log";
/// Set where the test runs itself.
const INSIDE: &str = "RETICENT_DEVICE_WORK";

fn models() -> Vec<(&'static str, Model)> {
    let lstm = LstmConfig {
        vocabulary: VOCABULARY,
        embedding: 16,
        hidden: 16,
    };
    let transformer =
        |family| Model::from(TransformerConfig::new(family, VOCABULARY, 32, 2, 2, 64));
    vec![
        ("lstm", lstm.into()),
        ("gpt2", transformer(Family::Gpt2)),
        ("llama", transformer(Family::Llama)),
    ]
}

/// Eight records that one pass takes.
fn records() -> TrainingSet {
    let record = |i: u32| Record {
        side: Side::Private,
        tokens: (0..9 + i % 4).map(|t| (i * 7 + t * 3) % 64).collect(),
        sensitive: Vec::new(),
        label: None,
        ignored: Vec::new(),
    };
    TrainingSet {
        unit: Unit::Turn,
        records: (0..8).map(record).collect(),
        mask_only: 0,
    }
}

const BATCH: [u32; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

fn private(model: &mut dyn Trainer, optimizer: &mut Optimizer, index: u64) {
    let constants = PrivateStep {
        noise_multiplier: NoiseMultiplier::new(1.0).unwrap(),
        clip: Clip::new(1.0, model.norm_margin()).unwrap(),
        expected_batch: 8.0,
        augmentations: 1,
    };
    let mut step = Step::begin(model, constants, index).unwrap();
    step.add(&all_private(&records()).batch(&BATCH)).unwrap();
    let mut noise = ChaChaNoise::new(RunKey::from_seed(1));
    let mut ledger = Ledger::in_memory();
    step.finish(&mut noise, &mut Local, optimizer, &mut ledger)
        .unwrap();
}

fn ordinary(model: &mut dyn Trainer, optimizer: &mut Optimizer) {
    let records = unprotected(&records());
    model
        .public_step(&records.batch(&BATCH), optimizer)
        .unwrap();
}

fn score(model: &mut dyn Trainer) {
    let all: Vec<Vec<u32>> = records().records.into_iter().map(|r| r.tokens).collect();
    model.score(&all).unwrap();
}

/// Kernels in the log, when it has not grown for a while: another thread writes it.
fn launched() -> usize {
    let lines = || {
        let text = std::fs::read_to_string(LOG).unwrap_or_default();
        text.matches("Executing").count()
    };
    let mut seen = lines();
    loop {
        std::thread::sleep(Duration::from_millis(400));
        let now = lines();
        if now == seen {
            return now;
        }
        seen = now;
    }
}

/// Runs one model's steps and prints what each of them took.
#[expect(clippy::print_stdout, reason = "what it prints is its answer")]
fn inside(name: &str) {
    let (_, model) = models().into_iter().find(|(own, _)| *own == name).unwrap();
    let weights = model.starting_weights(3);
    let lengths: Vec<usize> = weights.iter().map(Vec::len).collect();
    let mut engine = open(&model, weights, CARD).unwrap();
    let spec = OptimizerSpec::Adam {
        learning_rate: 1e-3,
    };
    let mut optimizer = Optimizer::new(spec, &lengths);
    private(&mut *engine, &mut optimizer, 0);
    ordinary(&mut *engine, &mut optimizer);
    score(&mut *engine);
    for kind in ["private", "ordinary", "score"] {
        let (kernels, before) = (launched(), transfers());
        match kind {
            "private" => private(&mut *engine, &mut optimizer, 1),
            "ordinary" => ordinary(&mut *engine, &mut optimizer),
            _ => score(&mut *engine),
        }
        let (kernels, after) = (launched() - kernels, transfers());
        println!(
            "\nWORK {kind} {kernels} {} {} {} {}",
            after.uploads - before.uploads,
            after.uploaded - before.uploaded,
            after.reads - before.reads,
            after.read - before.read,
        );
    }
}

/// What one kind of step took: kernels, uploads, their bytes, reads, their bytes.
fn work(folder: &Path, name: &str) -> Vec<(String, [u64; 5])> {
    std::fs::write(
        folder.join("cubecl.toml"),
        format!("[profiling]\nlogger = {{ level = \"minimal\", file = \"{LOG}\" }}\n"),
    )
    .unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "device_work::a_step_does_what_is_written_down",
            "--nocapture",
        ])
        .current_dir(folder)
        .env(INSIDE, name)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let lines = text.lines().filter_map(|line| line.strip_prefix("WORK "));
    lines
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |i: usize| words[i].parse().unwrap();
            (words[0].to_owned(), [1, 2, 3, 4, 5].map(number))
        })
        .collect()
}

/// What a kind of step may take.
struct Written {
    model: &'static str,
    step: &'static str,
    /// At most, a tenth above what Mesa's driver launches: how sums are split follows the device.
    kernels: u64,
    /// Exactly: a private step reads the norms once, the sum of each parameter, since the host draws the noise, and
    /// of a transformer whether all is finite; an ordinary one of a transformer its losses, of an LSTM its sums too; scores five
    /// numbers and the target's logit of each row.
    reads: u64,
    /// Exactly.
    read: u64,
}

const fn written(
    (model, step): (&'static str, &'static str),
    kernels: u64,
    reads: u64,
    read: u64,
) -> Written {
    Written {
        model,
        step,
        kernels,
        reads,
        read,
    }
}

const WRITTEN: [Written; 9] = [
    written(("lstm", "private"), 1170, 7, 41_472),
    written(("lstm", "ordinary"), 1120, 7, 25_088),
    written(("lstm", "score"), 460, 1, 49_152),
    written(("gpt2", "private"), 1110, 30, 256_512),
    written(("gpt2", "ordinary"), 930, 1, 8_192),
    written(("gpt2", "score"), 180, 1, 49_152),
    written(("llama", "private"), 800, 17, 256_640),
    written(("llama", "ordinary"), 700, 1, 8_192),
    written(("llama", "score"), 170, 1, 49_152),
];

#[test]
fn a_step_does_what_is_written_down() {
    if let Ok(name) = std::env::var(INSIDE) {
        return inside(&name);
    }
    let mut wrong = Vec::new();
    for (name, _) in models() {
        let folder = tempfile::tempdir().unwrap();
        let found = work(folder.path(), name);
        assert_eq!(found.len(), 3, "{name}");
        for (kind, [kernels, uploads, uploaded, reads, read]) in found {
            println!(
                "{name}, {kind}: {kernels} kernels; {uploaded} bytes up in {uploads} tensors, \
                 {read} bytes down in {reads}"
            );
            let mut all = WRITTEN.iter();
            let written = all.find(|w| w.model == name && w.step == kind).unwrap();
            let most = written.kernels;
            // CUDA takes other grids, and draws the noise itself: shown there, not compared
            if cfg!(feature = "cuda") {
                continue;
            }
            if kernels > most || (reads, read) != (written.reads, written.read) {
                wrong.push(format!(
                    "{name}, {kind}: {kernels} kernels (at most {most}), {read} bytes in {reads} \
                     reads (written down: {} in {})",
                    written.read, written.reads
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

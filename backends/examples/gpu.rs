//! The whole acceptance of a device in one call; prints one JSON object.
//!
//! `gpu [--device cuda:0] [--precision single] [--batches 500] [--steps 10] [--model gpt2]
//! [--model-width 768] [--model-layers 12] [--vocabulary 50257] [--batch 32] [--length 128]
//! [--size full|small]`
//!
//! 1. Equivalence with the processor: clipped sums of single examples, unclipped (so that their
//!    norms are the examples' gradient norms) and clipped, LSTM and GPT-2; largest relative
//!    difference, which must stay within 1e-4: `--only equivalence`.
//! 2. Poisson batches of changing size, empty ones too, with the device's memory in use before
//!    and after (CUDA: the card's, by `nvidia-smi`; wgpu: the process's, which is the device's
//!    where its driver computes in software): `--only memory`.
//! 3. Products of the passes in bf16: how far gradients are from those in single precision, and
//!    that no example's share of the sum is longer than the clipping norm: `--only bf16`.
//! 4. Private against ordinary steps, tokens per second, with the medians of what a private step
//!    spends on sums (`add`) and on noise and the optimiser (`finish`): `--only speed`, in bf16 with
//!    `--precision bf16`; `--model gpt2`, `lstm` (embedding and hidden states of `--model-width`) or
//!    `qwen2-lora` (a Qwen2 of 0.5 billion weights, of which adapters of rank 16 are trained).
//!
//! 5. Scoring sequences of `--length` by a GPT-2, tokens per second: `--only score`.
//!
//! `--size small` compares smaller models and runs smaller batches: for drivers in software.
//! Without a driver it ends with the reason and exit code 2.
#![expect(clippy::print_stdout, reason = "a measuring program prints")]
#![expect(clippy::print_stderr, reason = "errors go to the other stream")]

use rand::RngExt;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use reticent_accounting::NoiseMultiplier;
use reticent_backends::engine::open;
use reticent_backends::model::{Family, Lora, LoraSpec, LstmConfig, Model, TransformerConfig};
use reticent_backends::privacy::{ChaChaNoise, Clip, Ledger, PrivateStep, RunKey, Step};
use reticent_backends::trainer::{
    Optimizer, OptimizerSpec, Precision, PrivateRecords, Trainer, all_private, unprotected,
};
use reticent_backends::{Device, Local};
use reticent_corpus::{Record, Side, TrainingSet, Unit};
use std::collections::HashMap;
use std::time::Instant;

type Failure = Box<dyn std::error::Error>;

fn records(count: usize, lengths: std::ops::Range<usize>, vocabulary: usize) -> TrainingSet {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let records = (0..count).map(|_| {
        let length = lengths.start + rng.random::<u32>() as usize % (lengths.end - lengths.start);
        Record {
            side: Side::Private,
            tokens: (0..length)
                .map(|_| rng.random::<u32>() % vocabulary as u32)
                .collect(),
            sensitive: Vec::new(),
            label: None,
            ignored: Vec::new(),
        }
    });
    TrainingSet {
        unit: Unit::Turn,
        records: records.collect(),
        mask_only: 0,
    }
}

fn norm(x: &[Vec<f32>]) -> f64 {
    let squares = x.iter().flatten().map(|v| f64::from(*v).powi(2));
    squares.sum::<f64>().sqrt()
}

fn distance(a: &[Vec<f32>], b: &[Vec<f32>]) -> f64 {
    let pairs = a.iter().flatten().zip(b.iter().flatten());
    pairs
        .map(|(x, y)| f64::from(x - y).powi(2))
        .sum::<f64>()
        .sqrt()
}

fn sum(
    model: &mut dyn Trainer,
    records: &PrivateRecords,
    batch: &[u32],
    clip: f64,
) -> Result<Vec<Vec<f32>>, Failure> {
    model.begin();
    model.add(&records.batch(batch), &Clip::new(clip, 0.0)?)?;
    Ok(model.accumulator().to_vec())
}

/// Tokens of the small models.
const VOCABULARY: usize = 1000;

/// How much work the parts are.
#[derive(Clone, Copy, PartialEq)]
enum Size {
    Full,
    Small,
}

/// What engines are compared on.
fn models(size: Size) -> Vec<(&'static str, Model)> {
    let vocabulary = VOCABULARY;
    if size == Size::Small {
        let small = |family| TransformerConfig::new(family, vocabulary, 32, 2, 2, 128).into();
        let lstm = LstmConfig {
            vocabulary,
            embedding: 16,
            hidden: 24,
        };
        return vec![
            ("lstm", lstm.into()),
            ("gpt2", small(Family::Gpt2)),
            ("llama", small(Family::Llama)),
        ];
    }
    vec![
        (
            "lstm",
            LstmConfig {
                vocabulary,
                embedding: 64,
                hidden: 96,
            }
            .into(),
        ),
        (
            "gpt2",
            TransformerConfig::new(Family::Gpt2, vocabulary, 128, 3, 4, 128).into(),
        ),
        // wide: burn's issue 2646 has wrong gradients above a layer's size
        (
            "gpt2 of width 768",
            TransformerConfig::new(Family::Gpt2, vocabulary, 768, 1, 12, 128).into(),
        ),
        (
            "llama",
            TransformerConfig::new(Family::Llama, vocabulary, 128, 2, 4, 128).into(),
        ),
    ]
}

/// Records of the comparisons.
fn compared(size: Size) -> u32 {
    if size == Size::Small { 4 } else { 12 }
}

/// Largest relative differences of norms and of clipped sums.
fn equivalence(device: Device, size: Size) -> Result<String, Failure> {
    let count = compared(size);
    let set = records(count as usize, 2..90, VOCABULARY);
    let private = all_private(&set);
    let mut parts = Vec::new();
    let mut passed = true;
    for (name, model) in models(size) {
        let weights = model.starting_weights(3);
        let mut here = open(&model, weights.clone(), Device::Cpu)?;
        let mut there = open(&model, weights, device)?;
        let (mut norms, mut sums) = (0.0f64, 0.0f64);
        for example in 0..count {
            let want = sum(&mut *here, &private, &[example], 1e9)?;
            let got = sum(&mut *there, &private, &[example], 1e9)?;
            norms = norms.max((norm(&got) / norm(&want) - 1.0).abs());
        }
        let everyone: Vec<u32> = (0..count).collect();
        for clip in [1.0, 1e9] {
            let want = sum(&mut *here, &private, &everyone, clip)?;
            let got = sum(&mut *there, &private, &everyone, clip)?;
            sums = sums.max(distance(&got, &want) / norm(&want));
        }
        passed &= norms <= 1e-4 && sums <= 1e-4;
        parts.push(format!(
            r#"{{"model":"{name}","norms":{norms:e},"sums":{sums:e}}}"#
        ));
    }
    let parts = parts.join(",");
    Ok(format!(
        r#"{{"passed":{passed},"limit":1e-4,"models":[{parts}]}}"#
    ))
}

/// The same weights with products in bf16: largest relative difference of gradients, and the
/// longest share of a sum over the clipping norm, which the margin must keep at one.
fn bf16(device: Device, size: Size) -> Result<String, Failure> {
    let count = compared(size);
    let private = all_private(&records(count as usize, 2..90, VOCABULARY));
    let mut parts = Vec::new();
    let mut passed = true;
    for (name, model) in models(size) {
        let weights = model.starting_weights(3);
        let mut single = open(&model, weights.clone(), device)?;
        let mut half = open(&model, weights, device)?;
        half.compute_in(Precision::Bf16)?;
        let (mut gradients, mut reach) = (0.0f64, 0.0f64);
        for example in 0..count {
            let want = sum(&mut *single, &private, &[example], 1e9)?;
            let got = sum(&mut *half, &private, &[example], 1e9)?;
            gradients = gradients.max(distance(&got, &want) / norm(&want));
            let bound = 0.01 * norm(&want);
            half.begin();
            let clip = Clip::new(bound, half.norm_margin())?;
            half.add(&private.batch(&[example]), &clip)?;
            reach = reach.max(norm(half.accumulator()) / bound);
        }
        passed &= gradients <= 0.1 && reach <= 1.0;
        parts.push(format!(
            r#"{{"model":"{name}","gradients":{gradients:e},"reach":{reach}}}"#
        ));
    }
    let parts = parts.join(",");
    Ok(format!(
        r#"{{"passed":{passed},"limits":{{"gradients":0.1,"reach":1}},"models":[{parts}]}}"#
    ))
}

/// Memory in use in MiB: of the first CUDA device as its driver reports it, else of this process.
fn device_memory(device: Device) -> Option<u64> {
    if !matches!(device, Device::Cuda(_)) {
        let text = std::fs::read_to_string("/proc/self/status").ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
        return Some(kibibytes / 1024);
    }
    let out = std::process::Command::new("nvidia-smi")
        .args(["--query-gpu=memory.used", "--format=csv,noheader,nounits"])
        .output()
        .ok()?;
    String::from_utf8(out.stdout)
        .ok()?
        .lines()
        .next()?
        .trim()
        .parse()
        .ok()
}

struct Run {
    model: Box<dyn Trainer>,
    optimizer: Optimizer,
}

/// Seconds of a private step: sums of clipped gradients; noise, optimiser and new weights.
#[derive(Clone, Copy)]
struct Seconds {
    add: f64,
    finish: f64,
}

impl Run {
    fn new(model: &Model, device: Device) -> Result<Self, Failure> {
        Ok(Self::of(open(model, model.starting_weights(0), device)?))
    }

    /// What the model trains now.
    fn of(model: Box<dyn Trainer>) -> Self {
        let lengths: Vec<usize> = model.parameters().iter().map(|p| p.len()).collect();
        let spec = OptimizerSpec::Adam {
            learning_rate: 1e-4,
        };
        Self {
            model,
            optimizer: Optimizer::new(spec, &lengths),
        }
    }

    fn private(
        &mut self,
        records: &PrivateRecords,
        batch: &[u32],
        index: u64,
    ) -> Result<Seconds, Failure> {
        let start = Instant::now();
        let constants = PrivateStep {
            noise_multiplier: NoiseMultiplier::new(1.0)?,
            clip: Clip::new(1.0, self.model.norm_margin())?,
            expected_batch: batch.len().max(1) as f64,
            augmentations: 1,
        };
        let mut step = Step::begin(&mut *self.model, constants, index)?;
        step.add(&records.batch(batch))?;
        let add = start.elapsed().as_secs_f64();
        let mut noise = ChaChaNoise::new(RunKey::from_seed(1));
        let mut ledger = Ledger::in_memory();
        step.finish(&mut noise, &mut Local, &mut self.optimizer, &mut ledger)?;
        let _ = self.model.largest_weight();
        let finish = start.elapsed().as_secs_f64() - add;
        Ok(Seconds { add, finish })
    }
}

fn memory(device: Device, size: Size, batches: u64) -> Result<String, Failure> {
    let (vocabulary, width, layers) = match size {
        Size::Full => (8000, 256, 4),
        Size::Small => (500, 32, 2),
    };
    let set = records(400, 2..120, vocabulary);
    let private = all_private(&set);
    let config = TransformerConfig::new(Family::Gpt2, vocabulary, width, layers, 8, 128);
    let mut run = Run::new(&config.into(), device)?;
    let mut rng = ChaCha20Rng::seed_from_u64(2);
    let (mut early, mut empty) = (None, 0);
    for step in 0..batches {
        // rates that differ a lot, so that sizes do too, down to empty batches
        let rate = [0.0, 0.005, 0.02, 0.08][step as usize % 4];
        let batch: Vec<u32> = (0..400).filter(|_| rng.random::<f64>() < rate).collect();
        empty += u64::from(batch.is_empty());
        run.private(&private, &batch, step)?;
        if step == batches / 5 {
            early = device_memory(device);
        }
    }
    let late = device_memory(device);
    let flat = match (early, late) {
        (Some(early), Some(late)) => (late as f64 <= 1.1 * early as f64 + 64.0).to_string(),
        _ => "null".into(),
    };
    let number = |m: Option<u64>| m.map_or("null".into(), |m| m.to_string());
    Ok(format!(
        r#"{{"batches":{batches},"empty":{empty},"flat":{flat},"mebibytes_after_a_fifth":{},"mebibytes_at_the_end":{}}}"#,
        number(early),
        number(late)
    ))
}

/// What the speed is measured on.
struct Sizes {
    model: String,
    width: usize,
    layers: usize,
    vocabulary: usize,
    batch: usize,
    length: usize,
}

/// A Qwen2 of so many layers with random weights, shaped as the one of 0.5 billion: fourteen heads, two of keys.
fn qwen2(sizes: &Sizes) -> Model {
    let heads = sizes.width / 64;
    let mut config = TransformerConfig::new(
        Family::Qwen2,
        sizes.vocabulary,
        sizes.width,
        sizes.layers,
        heads,
        2048,
    );
    config.key_value_heads = if heads.is_multiple_of(7) {
        heads / 7
    } else {
        heads
    };
    config.feed_forward = sizes.width * 38 / 7;
    config.tied = true;
    config.into()
}

fn speed(
    device: Device,
    precision: Precision,
    steps: u64,
    sizes: &Sizes,
) -> Result<String, Failure> {
    let Sizes {
        width,
        layers,
        vocabulary,
        batch,
        length,
        ..
    } = *sizes;
    let set = records(batch, length + 1..length + 2, vocabulary);
    let (public, private) = (unprotected(&set), all_private(&set));
    let mut run = match sizes.model.as_str() {
        "gpt2" => {
            let heads = (width / 64).max(1);
            let config =
                TransformerConfig::new(Family::Gpt2, vocabulary, width, layers, heads, length + 1);
            Run::new(&config.into(), device)?
        }
        "lstm" => {
            let config = LstmConfig {
                vocabulary,
                embedding: width,
                hidden: width,
            };
            Run::new(&config.into(), device)?
        }
        "qwen2-lora" => {
            let base = qwen2(sizes);
            let mut model = open(&base, base.starting_weights(0), device)?;
            let targets = ["q_proj", "k_proj", "v_proj", "o_proj"].map(str::to_owned);
            let spec = LoraSpec {
                rank: 16,
                alpha: 32.0,
                targets: targets.to_vec(),
            };
            let adapter = Lora::of(&base, String::new(), spec)?;
            let start = adapter.starting_weights(1);
            model.adapt(adapter, start)?;
            Run::of(model)
        }
        other => {
            return Err(format!("--model must be gpt2, lstm or qwen2-lora, got {other}").into());
        }
    };
    run.model.compute_in(precision)?;
    let everyone: Vec<u32> = (0..batch as u32).collect();
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for i in 0..steps + 2 {
        let start = Instant::now();
        let Run { model, optimizer } = &mut run;
        model.public_step(&public.batch(&everyone), optimizer)?;
        // a run looks at its weights after each step, which waits for the device
        let _ = model.largest_weight();
        let plain = start.elapsed().as_secs_f64();
        let private = run.private(&private, &everyone, i)?;
        if i >= 2 {
            with.push(private);
            without.push(plain);
        }
    }
    let median = |seconds: &mut dyn Iterator<Item = f64>| {
        let mut seconds: Vec<f64> = seconds.collect();
        seconds.sort_by(f64::total_cmp);
        seconds[seconds.len() / 2]
    };
    let whole = median(&mut with.iter().map(|s| s.add + s.finish));
    let add = median(&mut with.iter().map(|s| s.add));
    let finish = median(&mut with.iter().map(|s| s.finish));
    let without = median(&mut without.into_iter());
    let tokens = (batch * length) as f64;
    let mebibytes = device_memory(device).map_or("null".into(), |m| m.to_string());
    let parameters: usize = run.model.parameters().iter().map(|p| p.len()).sum();
    Ok(format!(
        r#"{{"model":"{}","precision":"{precision}","width":{width},"layers":{layers},"vocabulary":{vocabulary},"trained":{parameters},"batch":{batch},"length":{length},"tokens_per_second":{:.1},"tokens_per_second_without":{:.1},"ratio":{:.4},"add_seconds":{add:.5},"finish_seconds":{finish:.5},"mebibytes":{mebibytes}}}"#,
        sizes.model,
        tokens / whole,
        tokens / without,
        whole / without
    ))
}

/// Tokens per second of scores of `batch` sequences.
fn score(device: Device, steps: u64, sizes: &Sizes) -> Result<String, Failure> {
    let heads = (sizes.width / 64).max(1);
    let model: Model = TransformerConfig::new(
        Family::Gpt2,
        sizes.vocabulary,
        sizes.width,
        sizes.layers,
        heads,
        1024,
    )
    .into();
    let mut engine = open(&model, model.starting_weights(0), device)?;
    let set = records(
        sizes.batch,
        sizes.length + 1..sizes.length + 2,
        sizes.vocabulary,
    );
    let sequences: Vec<Vec<u32>> = set.records.into_iter().map(|r| r.tokens).collect();
    let mut seconds = Vec::new();
    for i in 0..steps + 1 {
        let start = Instant::now();
        engine.score(&sequences)?;
        if i >= 1 {
            seconds.push(start.elapsed().as_secs_f64());
        }
    }
    seconds.sort_by(f64::total_cmp);
    let tokens = (sizes.batch * sizes.length) as f64;
    Ok(format!(
        r#"{{"model":"gpt2","width":{},"layers":{},"vocabulary":{},"batch":{},"length":{},"tokens_per_second":{:.1}}}"#,
        sizes.width,
        sizes.layers,
        sizes.vocabulary,
        sizes.batch,
        sizes.length,
        tokens / seconds[seconds.len() / 2]
    ))
}

fn work() -> Result<String, Failure> {
    let mut options = HashMap::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(format!("{name} needs a value"))?;
        options.insert(name.trim_start_matches("--").to_owned(), value);
    }
    let number = |name: &str, default: u64| -> Result<u64, Failure> {
        let value = options.get(name).map(|v| v.parse::<u64>()).transpose();
        Ok(value
            .map_err(|e| format!("--{name}: {e}"))?
            .unwrap_or(default))
    };
    let device: Device = options
        .get("device")
        .map_or("cuda:0", String::as_str)
        .parse()?;
    let precision = match options.get("precision").map_or("single", String::as_str) {
        "single" => Precision::Single,
        "bf16" => Precision::Bf16,
        other => return Err(format!("--precision must be single or bf16, got {other}").into()),
    };
    let only = options.get("only").map_or("all", String::as_str);
    let wanted = |part: &str| only == "all" || only == part;
    let size = match options.get("size").map_or("full", String::as_str) {
        "full" => Size::Full,
        "small" => Size::Small,
        other => return Err(format!("--size must be full or small, got {other}").into()),
    };
    // its absence ends here, whatever was asked for
    let (_, tiny) = models(Size::Small).remove(0);
    drop(open(&tiny, tiny.starting_weights(0), device)?);
    let mut parts = vec![format!(r#""device":"{device}""#)];
    if wanted("equivalence") {
        parts.push(format!(r#""equivalence":{}"#, equivalence(device, size)?));
    }
    if wanted("bf16") {
        parts.push(format!(r#""bf16":{}"#, bf16(device, size)?));
    }
    if wanted("memory") {
        let batches = number("batches", 500)?;
        parts.push(format!(r#""memory":{}"#, memory(device, size, batches)?));
    }
    if wanted("speed") || wanted("score") {
        let model = options.get("model").map_or("gpt2", String::as_str);
        // those of the named model
        let [width, layers, vocabulary] = match model {
            "lstm" => [200, 1, 8000],
            "qwen2-lora" => [896, 24, 151_936],
            _ => [768, 12, 50_257],
        };
        let sizes = Sizes {
            model: model.into(),
            width: number("model-width", width)? as usize,
            layers: number("model-layers", layers)? as usize,
            vocabulary: number("vocabulary", vocabulary)? as usize,
            batch: number("batch", 32)? as usize,
            length: number("length", 128)? as usize,
        };
        let steps = number("steps", 10)?;
        if wanted("speed") {
            let speed = speed(device, precision, steps, &sizes)?;
            parts.push(format!(r#""speed":{speed}"#));
        }
        if wanted("score") {
            parts.push(format!(r#""score":{}"#, score(device, steps, &sizes)?));
        }
    }
    Ok(format!("{{{}}}", parts.join(",")))
}

fn main() -> std::process::ExitCode {
    match work() {
        Ok(json) => {
            println!("{json}");
            std::process::ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            std::process::ExitCode::from(2)
        }
    }
}

//! Tokens per second of whole training steps, private and not, of the papers' LSTM or a GPT-2.
//!
//! `cargo run --release -p reticent-backends --features cpu --example throughput -- \
//!      --model gpt2 --vocabulary 8000 --width 256 --layers 4 --heads 8 --batch 8 --length 64 --steps 10`
//!
//! A private step clips, noises and takes an Adam step; the other one takes an Adam step on the
//! ordinary gradient (weight products over all rows at once, nothing per example). Steps
//! alternate, so that a busy machine slows both. `--only private|public` runs one of them, which
//! makes the peak memory its own. Processor time is that of all threads, for machines that others
//! use too (with RAYON_NUM_THREADS=1 no thread waits for another). Prints one JSON line. `--peer` is ignored (see
//! `benches/training_peers.py`, which takes the same sizes). `--dropout RATE` drops in both kinds of step. `--recipe sdp`
//! measures selective steps of an LSTM instead, ten tokens in the middle of each record sensitive.
//!
//! `--model` takes any architecture beside `lstm` (`llama`, `gpt-neox`, `bert`); `--classes N` and `--masked true` give it
//! the head that tells classes or masked tokens. `--beside lora:RANK`, or another architecture, alternates its private steps with those of
//! an adapter on the model, or of that architecture at the same size: "ratio" is the model's time over the other's.
#![expect(clippy::print_stdout, reason = "a measuring program prints")]

use rand::RngExt;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use reticent_accounting::confidentiality::RedactedAlike;
use reticent_accounting::training::{Run, SelectiveSteps, Stated, TrainingPlan, released_states};
use reticent_accounting::{NoiseMultiplier, Steps, UnitName};
use reticent_backends::engine::open;
use reticent_backends::model::{
    Family, Head, Lora, LoraSpec, LstmConfig, Model, TransformerConfig,
};
use reticent_backends::privacy::{ChaChaNoise, Clip, Ledger, PrivateStep, RunKey, Step};
use reticent_backends::run::{Surroundings, train_on};
use reticent_backends::trainer::{
    Dropout, LearningRates, Masking, Masks, Optimizer, OptimizerSpec, PrivateRecords,
    PublicRecords, TokenMasks, Trainer, all_private, unprotected,
};
use reticent_backends::{Corpus, Device, Local, PrivateOptions, Sensitive, TrainOptions};
use reticent_corpus::{Record, Side, TrainingSet, Unit};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

type Failure = Box<dyn std::error::Error>;

struct Options(HashMap<String, String>);

impl Options {
    fn read() -> Result<Self, Failure> {
        let mut all = HashMap::new();
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let name = name
                .strip_prefix("--")
                .ok_or(format!("an option begins with --, got {name}"))?
                .to_owned();
            let value = arguments.next().ok_or(format!("--{name} needs a value"))?;
            all.insert(name, value);
        }
        Ok(Self(all))
    }
    fn text<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        self.0.get(name).map_or(default, String::as_str)
    }
    fn number(&self, name: &str, default: usize) -> Result<usize, Failure> {
        let value = self.0.get(name).map(|v| v.parse()).transpose();
        Ok(value
            .map_err(|e| format!("--{name}: {e}"))?
            .unwrap_or(default))
    }
}

/// Peak resident memory of this process in bytes, where the system says.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// Processor time of all threads of this process in seconds, where the system says: what a step
/// costs on a machine that others use too.
fn processor_seconds() -> f64 {
    let ran = |task: std::fs::DirEntry| -> Option<f64> {
        let line = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        line.split(' ').next()?.parse().ok()
    };
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    tasks.flatten().filter_map(ran).sum::<f64>() * 1e-9
}

struct Bench {
    model: Box<dyn Trainer>,
    dropout: Dropout,
    masking: Option<Masking>,
    optimizer: Optimizer,
    batch: usize,
}

impl Bench {
    fn new(
        model: Box<dyn Trainer>,
        batch: usize,
        dropout: Dropout,
        masking: Option<Masking>,
    ) -> Self {
        let lengths: Vec<usize> = model.parameters().iter().map(|p| p.len()).collect();
        let spec = OptimizerSpec::Adam {
            learning_rate: 1e-4,
        };
        Self {
            optimizer: Optimizer::new(spec, &lengths),
            model,
            dropout,
            masking,
            batch,
        }
    }

    fn parameters(&self) -> usize {
        self.model.parameters().iter().map(|p| p.len()).sum()
    }

    fn private(&mut self, records: &PrivateRecords, index: u64) -> Result<f64, Failure> {
        let everyone: Vec<u32> = (0..self.batch as u32).collect();
        let mut noise = ChaChaNoise::new(RunKey::from_seed(1));
        let mut ledger = Ledger::in_memory();
        let constants = PrivateStep {
            noise_multiplier: NoiseMultiplier::new(1.0)?,
            clip: Clip::new(1.0, self.model.norm_margin())?,
            expected_batch: self.batch as f64,
            augmentations: 1,
        };
        let start = Instant::now();
        self.drop_out(index)?;
        let mut step = Step::begin(&mut *self.model, constants, index)?;
        step.add(&records.batch(&everyone))?;
        let added = Instant::now();
        step.finish(&mut noise, &mut Local, &mut self.optimizer, &mut ledger)?;
        if std::env::var_os("SHARES").is_some() {
            let shares = [added - start, added.elapsed()];
            println!("private: gradients, then noise and update: {shares:?}");
        }
        Ok(start.elapsed().as_secs_f64())
    }

    fn drop_out(&mut self, step: u64) -> Result<(), Failure> {
        let key = RunKey::from_seed(1);
        let masks = self.masking.as_ref();
        let masks = masks.map(|masking| TokenMasks::new(&key, step, masking));
        self.model.mask_tokens(masks)?;
        Ok(self.model.drop_out(Masks::new(&key, step, self.dropout))?)
    }

    fn public(&mut self, records: &PublicRecords, index: u64) -> Result<f64, Failure> {
        let everyone: Vec<u32> = (0..self.batch as u32).collect();
        let start = Instant::now();
        self.drop_out(index)?;
        let (gradient, _) = self.model.public_gradient(&records.batch(&everyone))?;
        let made = Instant::now();
        self.model.apply_public(gradient, &mut self.optimizer)?;
        if std::env::var_os("SHARES").is_some() {
            let shares = [made - start, made.elapsed()];
            println!("public: gradient, then update: {shares:?}");
        }
        Ok(start.elapsed().as_secs_f64())
    }
}

/// Steps of Selective DP-SGD: the times between the reports of a whole run.
fn selective(
    model: Box<dyn Trainer>,
    set: &TrainingSet,
    dropout: Dropout,
    steps: usize,
) -> Result<Vec<f64>, Failure> {
    let spans = set.records.iter().map(|r| {
        let middle = r.tokens.len() / 2;
        let all = 1..r.tokens.len();
        let span = middle.saturating_sub(5).max(all.start)..(middle + 5).min(all.end);
        vec![span]
    });
    let spans: Vec<_> = spans.collect();
    let records = set.records.iter().zip(&spans);
    let states = records.map(|(record, spans)| released_states(record.tokens.len(), spans));
    let states = states.max().unwrap_or(0);
    let sensitive = Sensitive::new(set, spans, 0, RedactedAlike::YES)?;
    let batch = set.records.len() as u64;
    let optimizer = OptimizerSpec::Adam {
        learning_rate: 1e-4,
    };
    let noise = Stated::given(NoiseMultiplier::new(1.0)?, "this program");
    let selective = SelectiveSteps {
        noise_multiplier: noise.clone(),
        state_noise_multiplier: noise,
        batch_size: Stated::given(batch, "--batch"),
        steps_per_epoch: 1,
        steps: Stated::given(Steps::new(steps as u64 + 2), "--steps"),
        states: Stated::counted(states, "records"),
        every_content_caught: Stated::given(true, "this program"),
    };
    let unit = UnitName::new(set.unit.to_string())?;
    let plan = TrainingPlan::new(Run::Sdp { selective }, unit);
    let options = TrainOptions {
        private: Some(PrivateOptions::new(1.0, optimizer)),
        state_norm: Some(1.0),
        dropout,
        learning_rates: LearningRates::CONSTANT,
        ..TrainOptions::new(plan, batch, optimizer).seeded(Some(1))
    };
    let corpus = Corpus {
        sensitive: Some(&sensitive),
        ..Corpus::plain(set)
    };
    let stop = AtomicBool::new(false);
    let mut seconds = Vec::new();
    let mut began = Instant::now();
    train_on(
        model,
        &options,
        &corpus,
        &Surroundings::in_memory(&stop),
        &mut |at| {
            if at.step > 2 {
                seconds.push(began.elapsed().as_secs_f64());
            }
            began = Instant::now();
        },
    )?;
    Ok(seconds)
}

/// Median, least and most.
fn summary(seconds: &mut [f64]) -> String {
    seconds.sort_by(f64::total_cmp);
    match seconds {
        [] => "null".into(),
        all => format!(
            r#"{{"median":{},"least":{},"most":{}}}"#,
            all[all.len() / 2],
            all[0],
            all[all.len() - 1]
        ),
    }
}

/// Vocabulary, width, layers, heads and positions of a transformer, and how many classes it tells; 0: tokens.
#[derive(Clone, Copy)]
struct Sizes([usize; 5], usize);

impl Sizes {
    fn of(self, family: &str) -> Result<(Model, Vec<Vec<f32>>), Failure> {
        let Self([vocabulary, width, layers, heads, positions], classes) = self;
        let family: Family = serde_json::from_value(family.into())?;
        let mut config =
            TransformerConfig::new(family, vocabulary, width, layers, heads, positions);
        if matches!(family, Family::Bert | Family::Roberta) {
            config.head = Head::MaskedToken;
        }
        let model = Model::from(config);
        let weights = model.starting_weights(0);
        if classes == 0 {
            return Ok((model, weights));
        }
        let names: Vec<String> = (0..classes).map(|class| class.to_string()).collect();
        Ok(model.with_classes(weights, (names.as_slice(), 0), 0)?)
    }
}

/// Private steps of two models in turn.
fn beside(
    [mut one, mut other]: [Bench; 2],
    records: &PrivateRecords,
    steps: usize,
) -> Result<String, Failure> {
    let mut seconds = [Vec::new(), Vec::new()];
    for i in 0..steps + 2 {
        for (bench, seconds) in [&mut one, &mut other].into_iter().zip(&mut seconds) {
            let took = bench.private(records, i as u64)?;
            if i >= 2 {
                seconds.push(took);
            }
        }
    }
    let ratio = |at: fn(&[f64]) -> f64, [one, other]: &[Vec<f64>; 2]| at(one) / at(other);
    let [first, second] = [0, 1].map(|i| summary(&mut seconds[i]));
    Ok(format!(
        r#""parameters":{},"parameters_beside":{},"ratio":{:.4},"ratio_of_least":{:.4},"seconds_per_step":{first},"seconds_per_step_beside":{second}"#,
        one.parameters(),
        other.parameters(),
        ratio(|all| all[all.len() / 2], &seconds),
        ratio(|all| all[0], &seconds),
    ))
}

fn main() -> Result<(), Failure> {
    let options = Options::read()?;
    let vocabulary = options.number("vocabulary", 8000)?;
    let width = options.number("width", 256)?;
    let layers = options.number("layers", 4)?;
    let heads = options.number("heads", 8)?;
    let batch = options.number("batch", 8)?;
    let length = options.number("length", 64)?;
    let steps = options.number("steps", 10)?;
    let device: Device = options.text("device", "cpu").parse()?;
    let classes = options.number("classes", 0)?;
    let masking = match options.text("masked", "false") {
        "true" => Some(Masking::new(vocabulary, 1, vec![0, 1])?),
        _ => None,
    };
    let positions = (length + 1).max(128);
    let sizes = Sizes([vocabulary, width, layers, heads, positions], classes);
    let (model, weights) = match options.text("model", "gpt2") {
        "lstm" => {
            let model = Model::from(LstmConfig {
                vocabulary,
                embedding: width,
                hidden: width,
            });
            let weights = model.starting_weights(0);
            (model, weights)
        }
        family => sizes.of(family)?,
    };
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let records = (0..batch).map(|_| Record {
        side: Side::Private,
        tokens: (0..=length)
            .map(|_| rng.random::<u32>() % vocabulary as u32)
            .collect(),
        sensitive: Vec::new(),
        label: (classes > 0).then_some(0),
        ignored: Vec::new(),
    });
    let set = TrainingSet {
        unit: Unit::Turn,
        records: records.collect(),
        mask_only: 0,
    };
    let dropout = Dropout::all(options.text("dropout", "0").parse()?)?;
    if options.text("recipe", "dpsgd") == "sdp" {
        let model = open(&model, weights, device)?;
        let mut seconds = selective(model, &set, dropout, steps)?;
        let times = summary(&mut seconds);
        println!(
            r#"{{"peer":"reticent","recipe":"sdp","model":"lstm","batch":{batch},"length":{length},"vocabulary":{vocabulary},"width":{width},"tokens_per_second":{:.4},"seconds_per_step":{times},"peak_bytes":{}}}"#,
            (batch * length) as f64 / seconds[seconds.len() / 2],
            peak_bytes()
        );
        return Ok(());
    }
    let (public, private) = (unprotected(&set), all_private(&set));
    let ready = |trainer| Bench::new(trainer, batch, dropout, masking.clone());
    if let Some(name) = options.0.get("beside") {
        let one = ready(open(&model, weights.clone(), device)?);
        let mut other;
        match name.strip_prefix("lora:") {
            None => {
                let (model, weights) = sizes.of(name)?;
                other = open(&model, weights, device)?;
            }
            Some(rank) => {
                let rank: usize = rank.parse()?;
                let spec = LoraSpec {
                    rank,
                    alpha: 2.0 * rank as f64,
                    targets: Vec::new(),
                };
                let adapter = Lora::of(&model, String::new(), spec)?;
                let start = adapter.starting_weights(1);
                other = open(&model, weights, device)?;
                other.adapt(adapter, start)?;
            }
        }
        println!(
            r#"{{"peer":"reticent","model":"{}","beside":"{name}","batch":{batch},"length":{length},"vocabulary":{vocabulary},"width":{width},"layers":{layers},{}}}"#,
            options.text("model", "gpt2"),
            beside([one, ready(other)], &private, steps)?,
        );
        return Ok(());
    }
    let mut bench = ready(open(&model, weights, device)?);
    let only = options.text("only", "both");
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let (mut ran_with, mut ran_without) = (0.0, 0.0);
    for i in 0..steps + 2 {
        let warm = i >= 2;
        if only != "private" {
            let before = processor_seconds();
            let seconds = bench.public(&public, i as u64)?;
            if warm {
                ran_without += processor_seconds() - before;
                without.push(seconds);
            }
        }
        if only != "public" {
            let before = processor_seconds();
            let seconds = bench.private(&private, i as u64)?;
            if warm {
                ran_with += processor_seconds() - before;
                with.push(seconds);
            }
        }
    }
    let tokens = (batch * length) as f64;
    let (private, public) = (summary(&mut with), summary(&mut without));
    let median = |seconds: &[f64]| seconds.get(seconds.len() / 2).copied().unwrap_or(f64::NAN);
    let least = |seconds: &[f64]| seconds.first().copied().unwrap_or(f64::NAN);
    let number = |x: f64| {
        if x.is_finite() {
            format!("{x:.4}")
        } else {
            "null".into()
        }
    };
    println!(
        r#"{{"peer":"reticent","model":"{}","batch":{batch},"length":{length},"vocabulary":{vocabulary},"width":{width},"layers":{layers},"only":"{only}","parameters":{},"tokens_per_second":{},"tokens_per_second_without":{},"ratio":{},"ratio_of_least":{},"ratio_of_processor_time":{},"processor_seconds_per_step":{},"processor_seconds_per_step_without":{},"seconds_per_step":{private},"seconds_per_step_without":{public},"peak_bytes":{}}}"#,
        options.text("model", "gpt2"),
        bench.parameters(),
        number(tokens / median(&with)),
        number(tokens / median(&without)),
        number(median(&with) / median(&without)),
        number(least(&with) / least(&without)),
        number(ran_with / ran_without),
        number(ran_with / with.len() as f64),
        number(ran_without / without.len() as f64),
        peak_bytes(),
    );
    Ok(())
}

//! Runs die at random moments, and end as if nothing had happened.

use crate::common::{
    adapted, for_epochs, given, headed, jft, light, model, options, scheduled, set, weights,
    with_corpus,
};
use rand::RngExt;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use reticent_backends::model::{Family, Head, TransformerConfig};
use reticent_backends::run::{Surroundings, Trained, train_on};
use reticent_backends::trainer::{Decay, Trainer};
use reticent_backends::{Corpus, Recipe, Schedule, TrainOptions};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How a model is made.
type Make = fn() -> Box<dyn Trainer>;

/// Every recipe, long enough to be killed after a snapshot; some of them on an adapter, an encoder and a classifier.
fn recipes() -> Vec<(TrainOptions, Make)> {
    let light = jft(light(), &set(4, 8, 1));
    let others = [
        Recipe::Sgd,
        Recipe::Dpsgd,
        Recipe::Crt,
        Recipe::Sdp,
        Recipe::Jft,
        Recipe::Protect,
    ];
    let all = others.map(options).into_iter().chain([light]);
    let mut all: Vec<TrainOptions> = all.map(|options| for_epochs(options, 6)).collect();
    all.push(plateau());
    let mut all: Vec<(TrainOptions, Make)> = all.into_iter().map(|o| (o, model as Make)).collect();
    let heads: [Make; 3] = [
        || {
            adapted(
                &TransformerConfig::new(Family::Llama, 11, 8, 1, 2, 16).into(),
                1,
            )
        },
        || headed(Family::Bert, Head::MaskedToken),
        || headed(Family::Gpt2, Head::Classes(2)),
    ];
    all.extend(heads.map(|make| (for_epochs(options(Recipe::Jft), 6), make)));
    all
}

/// A run whose state is more than weights and moments, with a decay by held-out text beside.
fn plateau() -> TrainOptions {
    let mut options = scheduled();
    options.learning_rates.decay = Decay::Plateau;
    options.plan.rates_by_public_text = Some(given(true));
    options
}

/// The corpus of every run, with the text that decides how rates fall.
fn with_text<T>(work: impl FnOnce(&Corpus<'_>) -> T) -> T {
    let text: Vec<Vec<u32>> = (0..3)
        .map(|i| (0..6).map(|t| (i + t * t) % 10).collect())
        .collect();
    with_corpus(|corpus| {
        work(&Corpus {
            held_out: Some(&text),
            held_out_labels: Some(&[0, 1, 0]),
            ..*corpus
        })
    })
}

/// What a child process does: which recipe, after which step to die, how many microseconds later,
/// how often to store, and where.
#[derive(Clone, Copy)]
struct Death {
    recipe: usize,
    step: u64,
    later: u64,
    store: u64,
}

const DEATH: &str = "RETICENT_TEST_DEATH";
const STATE: &str = "RETICENT_TEST_STATE";

impl Death {
    fn words(self) -> String {
        format!(
            "{} {} {} {}",
            self.recipe, self.step, self.later, self.store
        )
    }
    fn from(words: &str) -> Self {
        let numbers: Vec<u64> = words.split(' ').map(|n| n.parse().unwrap()).collect();
        Self {
            recipe: numbers[0] as usize,
            step: numbers[1],
            later: numbers[2],
            store: numbers[3],
        }
    }
}

/// The child: trains, and is gone in the middle of whatever it does some moment after a step.
fn die(death: Death, state: &Path) {
    let stop = AtomicBool::new(false);
    let surroundings = Surroundings {
        state: Some(state.to_path_buf()),
        snapshot_every: Duration::from_micros(death.store),
        stop: &stop,
        at_epoch: None,
    };
    let mut killer = None;
    with_text(|corpus| {
        let (options, model) = &recipes()[death.recipe];
        let last = Schedule::of(options, corpus).unwrap().total() - 1;
        let end = train_on(model(), options, corpus, &surroundings, &mut |at| {
            if at.step == death.step {
                killer = Some(std::thread::spawn(move || {
                    let (begun, later) = (Instant::now(), Duration::from_micros(death.later));
                    while begun.elapsed() < later {
                        std::hint::spin_loop();
                    }
                    // no destructor runs, nothing is flushed
                    std::process::abort();
                }));
            }
            if at.step >= last
                && let Some(killer) = killer.take()
            {
                killer.join().unwrap(); // never: a run that is to die does not finish first
            }
        });
        drop(end);
    });
}

fn resumed(recipe: usize, state: &Path, corpus: &Corpus<'_>) -> Trained {
    let stop = AtomicBool::new(false);
    let surroundings = Surroundings::resumable(state.to_path_buf(), &stop);
    let (options, model) = &recipes()[recipe];
    train_on(model(), options, corpus, &surroundings, &mut |_| {}).unwrap()
}

/// Kills one child; returns how many private steps its ledger had.
fn kill(death: Death, state: &Path) -> usize {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kills::killed_runs_resume_with_an_exact_ledger"])
        .env(DEATH, death.words())
        .env(STATE, state)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(!status.success(), "it was to die: {}", death.words());
    let ledger = std::fs::read_to_string(state.join("ledger.jsonl"));
    ledger.map_or(0, |text| text.lines().count().saturating_sub(1))
}

/// Seed 20: 150 runs, over all recipes in turn; each dies up to 4 ms after a random step, in the
/// middle of a step, a ledger line or a snapshot as it comes. The weights are the same, every step
/// is counted once, and nothing is left in the end.
#[test]
fn killed_runs_resume_with_an_exact_ledger() {
    if let (Ok(words), Some(state)) = (std::env::var(DEATH), std::env::var_os(STATE)) {
        die(Death::from(&words), Path::new(&state));
        return;
    }
    let mut random = ChaCha20Rng::seed_from_u64(20);
    let count = recipes().len();
    let totals: Vec<u64> = with_text(|corpus| {
        let total = |(o, _): &(TrainOptions, Make)| Schedule::of(o, corpus).unwrap().total();
        recipes().iter().map(total).collect()
    });
    let deaths: Vec<Death> = (0..150)
        .map(|run| Death {
            recipe: run % count,
            step: 1 + random.random::<u64>() % (totals[run % count] - 2),
            later: random.random::<u64>() % 4000,
            store: [0, 0, 1000, 1_000_000][random.random::<u64>() as usize % 4],
        })
        .collect();
    let whole = |(options, model): &(TrainOptions, Make)| {
        with_text(|corpus| {
            let stop = AtomicBool::new(false);
            let alone = Surroundings::in_memory(&stop);
            train_on(model(), options, corpus, &alone, &mut |_| {}).unwrap()
        })
    };
    let whole: Vec<Trained> = recipes().iter().map(whole).collect();
    let expected: Vec<_> = whole
        .iter()
        .map(|w| (w.ran.phases.clone(), w.ran.plan.clone(), weights(w)))
        .collect();
    let (next, spent, stored) = (
        AtomicUsize::new(0),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
    );
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(death) = deaths.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let folder = tempfile::tempdir().unwrap();
                    let state = folder.path().join("state");
                    let lines = kill(*death, &state);
                    spent.fetch_add(usize::from(lines > 0), Ordering::Relaxed);
                    let snapshot = state.join("snapshot").exists();
                    stored.fetch_add(usize::from(snapshot), Ordering::Relaxed);
                    let mut run = with_text(|corpus| resumed(death.recipe, &state, corpus));
                    let (phases, plan, bits) = &expected[death.recipe];
                    assert_eq!(&run.ran.phases, phases, "{}", death.words());
                    assert_eq!(&run.ran.plan, plan, "{}", death.words());
                    assert_eq!(&weights(&run), bits, "{}", death.words());
                    run.erase_state().unwrap();
                    let left = std::fs::read_dir(folder.path()).unwrap().count();
                    assert_eq!(left, 0, "{}", death.words());
                }
            });
        }
    });
    // most died after something was spent: their steps are replayed and not counted twice; and half
    // of them after a snapshot
    assert!(spent.load(Ordering::Relaxed) > 75);
    assert!(stored.load(Ordering::Relaxed) > 75);
}

//! Several workers train what one would: the same bits for 1, 2, 4 and 8 of them, each private step counted once.

use crate::common;
use crate::common::{model, models, options, scheduled, with_corpus};
use reticent_accounting::training::Recipe;
use reticent_backends::run::{Surroundings, Trained, train_together};
use reticent_backends::trainer::Trainer;
use reticent_backends::{Collective, Error, Tcp, TcpOptions, Threads, TrainOptions};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

type Make = fn() -> Box<dyn Trainer>;

/// One worker's run, stopped after so many steps.
fn worker(
    trainer: Box<dyn Trainer>,
    options: &TrainOptions,
    state: Option<&Path>,
    stop_at: u64,
    collective: Box<dyn Collective>,
) -> Result<Trained, Error> {
    let run = (trainer, options, state);
    worker_storing(run, Duration::ZERO, stop_at, collective)
}

/// The same, with a snapshot so often.
fn worker_storing(
    (trainer, options, state): (Box<dyn Trainer>, &TrainOptions, Option<&Path>),
    snapshot_every: Duration,
    stop_at: u64,
    collective: Box<dyn Collective>,
) -> Result<Trained, Error> {
    let stop = AtomicBool::new(false);
    let surroundings = Surroundings {
        state: state.map(Path::to_path_buf),
        snapshot_every,
        stop: &stop,
        at_epoch: None,
    };
    with_corpus(|corpus| {
        train_together(
            trainer,
            options,
            corpus,
            &surroundings,
            collective,
            &mut |at| {
                stop.store(at.step >= stop_at, Ordering::Relaxed);
            },
        )
    })
}

fn bits(trained: &Trained) -> Vec<u32> {
    let weights = trained.trainer.weights().iter().flatten();
    weights.map(|w| w.to_bits()).collect()
}

/// All workers' runs in threads.
fn together(
    world: usize,
    make: Make,
    options: &TrainOptions,
    state: Option<&Path>,
    stop_at: u64,
) -> Vec<Result<Trained, Error>> {
    std::thread::scope(|scope| {
        let workers: Vec<_> = Threads::of(world)
            .into_iter()
            .map(|collective| {
                scope.spawn(move || worker(make(), options, state, stop_at, Box::new(collective)))
            })
            .collect();
        workers.into_iter().map(|w| w.join().unwrap()).collect()
    })
}

#[test]
fn the_weights_have_the_same_bits_for_any_number_of_workers() {
    let recipes = [
        Recipe::Dpsgd,
        Recipe::Crt,
        Recipe::Sdp,
        Recipe::Jft,
        Recipe::Protect,
        Recipe::Sgd,
    ];
    let mut all: Vec<(String, Make, TrainOptions)> = Vec::new();
    for recipe in recipes {
        all.push((recipe.to_string(), model, options(recipe)));
    }
    all.push(("scheduled".into(), model, scheduled()));
    let (name, gpt2) = models()[2];
    all.push((name.into(), gpt2, options(Recipe::Dpsgd)));
    for (name, make, options) in all {
        let alone = together(1, make, &options, None, u64::MAX)
            .pop()
            .unwrap()
            .unwrap();
        for world in [2, 4, 8] {
            for found in together(world, make, &options, None, u64::MAX) {
                let found = found.unwrap();
                assert_eq!(bits(&found), bits(&alone), "{name}, {world} workers");
                assert_eq!(
                    found.mechanism(),
                    alone.mechanism(),
                    "{name}, {world} workers"
                );
            }
        }
        // Sums in another order, and nothing else.
        let plain = common::run_until(make(), &options, None, u64::MAX).unwrap();
        let pairs = plain.trainer.weights().iter().flatten();
        let pairs = pairs.zip(alone.trainer.weights().iter().flatten());
        let apart = pairs.map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
        assert!(apart < 1e-4, "{name}: {apart}");
        assert_eq!(plain.mechanism(), alone.mechanism());
    }
}

#[test]
fn another_number_of_workers_goes_on_where_some_were_stopped() {
    let options = scheduled();
    let whole = together(1, model, &options, None, u64::MAX)
        .pop()
        .unwrap()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    for (world, stop_at) in [(2, 3), (8, 5), (1, 9)] {
        for found in together(world, model, &options, Some(&state), stop_at) {
            assert!(matches!(found, Err(Error::Interrupted { steps }) if steps == stop_at));
        }
    }
    for found in together(4, model, &options, Some(&state), u64::MAX) {
        let found = found.unwrap();
        assert_eq!(bits(&found), bits(&whole));
        assert_eq!(found.mechanism(), whole.mechanism());
    }
}

/// A worker that goes away costs no step that was finished, whenever the last snapshot was taken.
#[test]
fn a_run_goes_on_with_the_step_at_which_a_worker_went() {
    let options = options(Recipe::Dpsgd);
    let whole = together(1, model, &options, None, u64::MAX);
    let whole = whole.into_iter().next().unwrap().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let address = free_address();
    let ends: Vec<Option<Error>> = std::thread::scope(|scope| {
        let workers: Vec<_> = [u64::MAX, 2]
            .into_iter()
            .enumerate()
            .map(|(rank, last)| {
                let (options, state, address) = (&options, &state, &address);
                scope.spawn(move || {
                    let every = Duration::MAX;
                    let run = (model(), options, Some(state.as_path()));
                    worker_storing(run, every, last, linked(rank, address)).err()
                })
            })
            .collect();
        workers.into_iter().map(|w| w.join().unwrap()).collect()
    });
    assert!(
        matches!(
            ends[..],
            [
                Some(Error::Worker(_)),
                Some(Error::Interrupted { steps: 2 })
            ]
        ),
        "{ends:?}"
    );
    // Its first step is the third.
    for found in together(2, model, &options, Some(&state), 1) {
        let error = found.err().unwrap();
        assert!(matches!(error, Error::Interrupted { steps: 3 }), "{error}");
    }
    for found in together(2, model, &options, Some(&state), u64::MAX) {
        let found = found.unwrap();
        assert_eq!(bits(&found), bits(&whole));
        assert_eq!(found.mechanism(), whole.mechanism());
    }
}

/// A worker that reads the ledger at each noised tensor before it is sent.
struct Watched {
    inner: Threads,
    ledger: PathBuf,
    tensors: usize,
    sent: usize,
    late: Arc<AtomicUsize>,
}

impl Collective for Watched {
    fn rank(&self) -> usize {
        self.inner.rank()
    }
    fn world(&self) -> usize {
        self.inner.world()
    }
    fn sum_to_zero(&mut self, values: &mut [f32]) -> Result<(), Error> {
        self.inner.sum_to_zero(values)
    }
    fn broadcast(&mut self, values: &mut [f32]) -> Result<(), Error> {
        // Below the first line, one for each step so far, this one included.
        let lines = std::fs::read_to_string(&self.ledger).map_or(0, |text| text.lines().count());
        if lines < 2 + self.sent / self.tensors {
            self.late.fetch_add(1, Ordering::Relaxed);
        }
        self.sent += 1;
        self.inner.broadcast(values)
    }
    fn exchange(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        self.inner.exchange(mine)
    }
}

#[test]
fn the_ledger_counts_a_step_before_a_noised_value_leaves() {
    let (options, folder) = (options(Recipe::Dpsgd), tempfile::tempdir().unwrap());
    let (state, late) = (folder.path().join("state"), Arc::new(AtomicUsize::new(0)));
    let ledger = state.join("ledger.jsonl");
    std::thread::scope(|scope| {
        for inner in Threads::of(2) {
            let trainer = model();
            let watched = Watched {
                inner,
                ledger: ledger.clone(),
                tensors: trainer.parameters().len(),
                sent: 0,
                late: late.clone(),
            };
            let (options, state) = (&options, &state);
            scope.spawn(move || {
                let watched = Box::new(watched);
                worker(trainer, options, Some(state), u64::MAX, watched).map(|_| ())
            });
        }
    });
    assert_eq!(late.load(Ordering::Relaxed), 0);
    let text = std::fs::read_to_string(&ledger).unwrap();
    let mut steps = 0;
    for line in text.lines().skip(1) {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let records = line["entry"]["records"].as_array().unwrap();
        let [first, second] = [0, 1].map(|rank| records[rank].as_u64().unwrap());
        assert!(first.abs_diff(second) <= 1, "{line}");
        steps += 1;
    }
    assert!(steps > 3, "{text}");
}

fn free_address() -> String {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().to_string()
}

/// One of two workers over TCP.
fn linked(rank: usize, address: &str) -> Box<dyn Collective> {
    let tcp = Tcp::connect(&TcpOptions {
        rank,
        world: 2,
        address: address.to_owned(),
        key: Some([5; 32]),
        patience: Duration::from_secs(60),
        note: |_| {},
    });
    Box::new(tcp.unwrap())
}

/// Two workers over TCP, of which the second runs with other options or other weights.
fn odd(other: &TrainOptions, make: Make) -> Vec<String> {
    let options = options(Recipe::Dpsgd);
    let address = free_address();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2)
            .map(|rank| {
                let address = &address;
                let (settings, make) = if rank == 0 {
                    (&options, model as fn() -> _)
                } else {
                    (other, make)
                };
                scope.spawn(move || {
                    worker(make(), settings, None, u64::MAX, linked(rank, address))
                        .err()
                        .unwrap()
                        .to_string()
                })
            })
            .collect();
        workers.into_iter().map(|w| w.join().unwrap()).collect()
    })
}

#[test]
fn workers_that_would_train_something_else_are_refused() {
    let mut other = options(Recipe::Dpsgd);
    if let Some(private) = &mut other.private {
        private.clipping_norm = 2.0;
    }
    for error in odd(&other, model) {
        assert!(error.contains("clipping_norm"), "{error}");
    }
    let larger = || -> Box<dyn Trainer> {
        let config = reticent_backends::model::LstmConfig {
            hidden: 7,
            ..common::CONFIG
        };
        reticent_backends::engine::lstm(
            &config,
            config.starting_weights(1),
            reticent_backends::Device::Cpu,
        )
        .unwrap()
    };
    for error in odd(&options(Recipe::Dpsgd), larger) {
        assert!(error.contains("starting weights"), "{error}");
    }
    let settings = options(Recipe::Dpsgd);
    for found in together(3, model, &settings, None, u64::MAX) {
        let error = found.err().unwrap().to_string();
        assert!(error.contains("must be 1, 2, 4 or 8, got 3"), "{error}");
    }
}

/// The same key makes the same noise: it must never meet the sums of another model, or sums that are rounded otherwise.
#[test]
fn a_state_goes_on_with_the_same_model_and_the_same_order_of_sums() {
    let folder = tempfile::tempdir().unwrap();
    let settings = options(Recipe::Dpsgd);
    let heads = |heads| -> Box<dyn Trainer> {
        let config = reticent_backends::model::TransformerConfig::new(
            reticent_backends::model::Family::Gpt2,
            common::VOCABULARY,
            8,
            1,
            heads,
            16,
        );
        let model = reticent_backends::model::Model::from(config);
        let weights = model.starting_weights(1);
        reticent_backends::engine::open(&model, weights, reticent_backends::Device::Cpu).unwrap()
    };
    let state = folder.path().join("heads");
    let begun = common::run_until(heads(2), &settings, Some(&state), 1);
    assert!(matches!(begun, Err(Error::Interrupted { .. })));
    let error = common::run_until(heads(4), &settings, Some(&state), u64::MAX);
    let error = error.err().unwrap().to_string();
    assert!(error.contains("architecture of the model"), "{error}");
    let error = together(1, model, &settings, Some(&state), u64::MAX)
        .pop()
        .unwrap();
    assert!(error.is_err());

    let state = folder.path().join("order");
    let begun = common::run_until(model(), &settings, Some(&state), 1);
    assert!(matches!(begun, Err(Error::Interrupted { .. })));
    let error = together(1, model, &settings, Some(&state), u64::MAX)
        .pop()
        .unwrap();
    let error = error.err().unwrap().to_string();
    assert!(error.contains("order of sums"), "{error}");
    // Another engine has other roundings too.
    let (name, exact) = common::models()[1];
    assert_eq!(name, "lstm, exact");
    let error = common::run_until(exact(), &settings, Some(&state), u64::MAX);
    let error = error.err().unwrap().to_string();
    assert!(error.contains("kind of device"), "{error}");
    common::run_until(model(), &settings, Some(&state), u64::MAX).unwrap();
}

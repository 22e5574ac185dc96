//! `audit train` by several processes: the same bytes for any number of them, one promise, and a run that goes on after
//! any of them was killed.
#![cfg(feature = "audit")]
#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use crate::common::{audit, stderr};
use serde_json::Value;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const TRAIN: &str = "train prepared --recipe dpsgd --sigma 1 --epochs 3 --batch-size 8 --seed 4 --worker-timeout 120";

fn command(at: &Path, line: &str) -> Command {
    let mut command = audit::command(at);
    command
        .args(line.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn prepared() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for line in [
        "simulate customers --dialogues 8 --out in.jsonl",
        "prepare in.jsonl --policy customers --seed 0 --out prepared",
    ] {
        audit::ok(folder.path(), line);
    }
    std::fs::write(folder.path().join("key"), "ab".repeat(32)).unwrap();
    folder
}

/// Starts the workers of a run.
fn start(at: &Path, line: &str, world: usize) -> Vec<Child> {
    start_each(at, &vec![line; world])
}

/// The same with a line for each worker.
fn start_each(at: &Path, lines: &[impl AsRef<str>]) -> Vec<Child> {
    let (world, port) = (lines.len(), free_port());
    let one = |rank: usize| {
        one(
            at,
            lines[rank].as_ref(),
            [rank, world],
            ("127.0.0.1", &port),
        )
    };
    (0..world).map(one).collect()
}

fn free_port() -> String {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().port().to_string()
}

/// Starts the worker of a rank among so many.
fn one(at: &Path, line: &str, [rank, world]: [usize; 2], (address, port): (&str, &str)) -> Child {
    command(at, line)
        .env("RANK", rank.to_string())
        .env("WORLD_SIZE", world.to_string())
        .env("MASTER_ADDR", address)
        .env("MASTER_PORT", port)
        .spawn()
        .unwrap()
}

fn finished(workers: Vec<Child>) {
    for (rank, worker) in workers.into_iter().enumerate() {
        let output = worker.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "worker {rank}: {}",
            stderr(&output)
        );
        assert_eq!(output.stdout.is_empty(), rank > 0);
    }
}

#[test]
fn any_number_of_processes_writes_the_same_model() {
    let folder = prepared();
    let at = folder.path();
    finished(start(at, &format!("{TRAIN} --out one"), 1));
    let weights = |out: &str| std::fs::read(at.join(out).join("model.safetensors")).unwrap();
    let phases = |out: &str| -> Value {
        let text = std::fs::read(at.join(out).join("manifest.json")).unwrap();
        serde_json::from_slice::<Value>(&text).unwrap()["phases"].clone()
    };
    finished(start(at, &format!("{TRAIN} --out two --worker-key key"), 2));
    finished(start(at, &format!("{TRAIN} --out four"), 4));
    for out in ["two", "four"] {
        assert_eq!(weights(out), weights("one"), "{out}");
        assert_eq!(phases(out), phases("one"), "{out}");
    }
}

/// Twelve kills, of worker `k % 2` a little later each time: all workers end soon, the ledger counts no step twice, and
/// the run ends with the bytes of one that was left alone.
#[test]
fn a_killed_worker_ends_the_run_which_goes_on() {
    let folder = prepared();
    let at = folder.path();
    finished(start(at, &format!("{TRAIN} --out whole"), 1));
    // One that is killed before it came is waited for in vain.
    let line =
        format!("{TRAIN} --out killed").replace("--worker-timeout 120", "--worker-timeout 10");
    for kill in 0..12u64 {
        let mut workers = start(at, &line, 2);
        std::thread::sleep(Duration::from_millis(200 + 40 * kill));
        let done = |worker: &mut Child| matches!(worker.try_wait(), Ok(Some(_)));
        if done(&mut workers[0]) {
            finished(workers);
            break;
        }
        workers[(kill % 2) as usize].kill().unwrap();
        let since = Instant::now();
        while !workers.iter_mut().all(done) {
            assert!(
                since.elapsed() < Duration::from_secs(60),
                "a worker goes on alone"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        if at.join("killed/model.safetensors").exists() {
            break;
        }
    }
    if !at.join("killed/model.safetensors").exists() {
        finished(start(at, &line, 4));
    }
    let read = |name: &str| std::fs::read(at.join(name)).unwrap();
    assert_eq!(
        read("killed/model.safetensors"),
        read("whole/model.safetensors")
    );
    let phases = |out: &str| -> Value {
        serde_json::from_slice::<Value>(&read(&format!("{out}/manifest.json"))).unwrap()["phases"]
            .clone()
    };
    assert_eq!(phases("killed"), phases("whole"));
}

/// A worker that is refused what it would read or write ends the others: they do not wait for it.
#[test]
fn a_worker_that_cannot_begin_ends_the_others() {
    let folder = prepared();
    let at = folder.path();
    std::fs::create_dir(at.join("taken")).unwrap();
    std::fs::write(at.join("taken/a"), "a").unwrap();
    std::fs::create_dir(at.join("damaged")).unwrap();
    for entry in std::fs::read_dir(at.join("prepared")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), at.join("damaged").join(entry.file_name())).unwrap();
    }
    std::fs::write(at.join("damaged/records.jsonl"), "").unwrap();
    let damaged = TRAIN.replace("prepared", "damaged");
    let taken = format!("{TRAIN} --out taken");
    let (whole, damaged) = (format!("{TRAIN} --out x"), format!("{damaged} --out x"));
    for (lines, refused, says) in [
        ([&taken, &taken], 0, "--out"),
        ([&whole, &damaged], 1, "PREPARED"),
    ] {
        let mut workers = start_each(at, &lines);
        let since = Instant::now();
        let done = |worker: &mut Child| matches!(worker.try_wait(), Ok(Some(_)));
        while !workers.iter_mut().all(done) {
            assert!(
                since.elapsed() < Duration::from_secs(60),
                "a worker waits for another that has ended"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        for (rank, worker) in workers.into_iter().enumerate() {
            let output = worker.wait_with_output().unwrap();
            let said = stderr(&output);
            assert!(!output.status.success(), "worker {rank}: {said}");
            assert!(rank != refused || said.contains(says), "{said}");
        }
    }
    assert!(!at.join("x").exists());
}

/// Two folders stand for two machines, of which the second was worker 0 before: a new run was begun beside what it had
/// released.
#[test]
fn what_another_machine_released_is_not_followed_by_a_new_run() {
    let folder = prepared();
    let at = folder.path();
    let port = free_port();
    let line =
        format!("{TRAIN} --out o").replace("prepared", at.join("prepared").to_str().unwrap());
    for machine in ["d0", "d1", "d1/o-epoch-1"] {
        std::fs::create_dir(at.join(machine)).unwrap();
    }
    std::fs::write(at.join("d1/o-epoch-1/manifest.json"), "{}").unwrap();
    let workers = [0, 1].map(|rank| {
        let machine = at.join(format!("d{rank}"));
        one(&machine, &line, [rank, 2], ("127.0.0.1", &port))
    });
    for (rank, worker) in workers.into_iter().enumerate() {
        let output = worker.wait_with_output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("d1/o-epoch-1 of an earlier run"), "{said}");
        // Once.
        assert_eq!(said.contains("without --worker-key any user"), rank == 0);
    }
    assert!(!at.join("d0/o").exists() && !at.join("d0/o.state").exists());
}

#[test]
fn workers_that_differ_or_are_strangers_end_at_once() {
    let folder = prepared();
    let at = folder.path();
    let port = free_port();
    let one = |line: &str, rank, address| one(at, line, [rank, 2], (address, &port));
    let other = TRAIN.replace("--sigma 1", "--sigma 2");
    let workers = [
        one(&format!("{TRAIN} --out x"), 0, "127.0.0.1"),
        one(&format!("{other} --out x"), 1, "127.0.0.1"),
    ];
    for worker in workers {
        let output = worker.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(
            stderr(&output).contains("would train something else"),
            "{}",
            stderr(&output)
        );
    }
    let abroad = one(&format!("{TRAIN} --out x"), 1, "192.0.2.7");
    let output = abroad.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("--worker-key"),
        "{}",
        stderr(&output)
    );
    assert!(!at.join("x").exists());
}

//! A preparation in shards from outside: processes that are killed, a script for Slurm, and what is refused.
#![cfg(feature = "findings")]
#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use crate::check;
use crate::common::audit::{self, ok, refused};
use crate::common::{KEY, checked};
use std::collections::BTreeMap;
use std::path::Path;

fn json(home: &Path, line: &str) -> serde_json::Value {
    checked(audit::json(home, line))
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .map(|e| {
            let name = e.file_name().into_string().unwrap();
            (name, std::fs::read(e.path()).unwrap())
        })
        .collect()
}

fn simulated(dialogues: u32) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let line = format!("simulate customers --dialogues {dialogues} --seed 5 --out data.jsonl");
    ok(home.path(), &line);
    home
}

const HOW: &str = "data.jsonl --policy customers --conservative digits,policy --miss-rate 0.2 --canaries 4x3 --seed 3";

#[test]
fn a_plan_its_stages_and_what_they_say() {
    let home = simulated(30);
    let at = home.path();
    let said = json(at, &format!("prepare {HOW} --out single"));
    assert!(said["megabytes_per_second"].as_f64() > Some(0.0));
    let line = format!("prepare {HOW} --out sharded --plan plan.json --shards 3");
    let said = json(at, &line);
    assert_eq!((&said["shards"], &said["parts"]), (&3.into(), &3.into()));
    let text = std::fs::read_to_string(at.join("plan.json")).unwrap();
    check::fits("shard-plan", &text);
    let folder = Path::new(said["folder"].as_str().unwrap()).to_path_buf();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&at.join("plan.json")), 0o600);
        assert_eq!(mode(&at.join(&folder)), 0o700);
        assert_eq!(mode(&at.join(&folder).join("choices")), 0o600);
    }
    let again = refused(at, &line);
    assert!(again.contains("a plan is never changed"), "{again}");
    for (line, says) in [
        (
            "--stage group --part 0",
            "scan-0: it is not there yet; audit prepare with --stage scan --shard 0 writes it",
        ),
        (
            "--stage scan --shard 3",
            "--shard: the shard must be from 0 to 2, got 3",
        ),
        (
            "--stage group --part 9",
            "--part: the part must be from 0 to 2, got 9",
        ),
        ("--stage scan", "scan and write need --shard N"),
        ("--stage group", "group needs --part N"),
        ("--stage join --shard 1", "neither --shard nor --part"),
        ("--stage scan --shard 1 --unit turn", "cannot be used with"),
        ("--run local:2 data.jsonl", "cannot be used with"),
        (
            "--run spark",
            "must be local:N, with N from 1 to 256, or slurm",
        ),
        ("", "required arguments were not provided"),
        ("data.jsonl --out x", "a plan is never changed"),
    ] {
        let said = refused(at, &format!("prepare --plan plan.json {line}"));
        assert!(said.contains(says), "{line}: {said}");
    }
    // A stage takes no --out: what it cannot write is the plan's.
    std::fs::create_dir(at.join(&folder).join("scan-0")).unwrap();
    let said = refused(at, "prepare --plan plan.json --stage scan --shard 0");
    assert!(
        said.contains("--plan: ") && !said.contains("--out"),
        "{said}"
    );
    std::fs::remove_dir(at.join(&folder).join("scan-0")).unwrap();
    for stage in ["scan", "group", "write"] {
        for number in ["1", "0", "2", "0"] {
            let flag = if stage == "group" { "part" } else { "shard" };
            let line = format!("prepare --plan plan.json --stage {stage} --{flag} {number}");
            let said = json(at, &line);
            assert_eq!(said["stage"], format!("--stage {stage} --{flag} {number}"));
        }
    }
    let said = json(at, "prepare --plan plan.json --stage join");
    let single = files(&at.join("single"));
    assert!(single == files(&at.join("sharded")));
    assert!(said["facts"]["units"].as_u64().unwrap() > 100);
    assert!(
        said["megabytes_per_second"].is_null(),
        "other processes worked"
    );
    assert!(
        !at.join(&folder).exists(),
        "what passed between stages is gone"
    );
}

/// Stages run in any folder, and a finished plan may be run again; what is named relative to the planner's folder is found.
#[test]
fn stages_run_in_any_folder_and_again() {
    let home = simulated(12);
    let at = home.path();
    ok(
        at,
        "prepare data.jsonl --policy customers --seed 3 --out first",
    );
    let tokenizer = std::fs::read_to_string(at.join("first/tokenizer.json")).unwrap();
    std::fs::write(at.join("tok.json"), tokenizer.replace("<UNK>", "<unk>")).unwrap();
    let how =
        "data.jsonl --policy customers --seed 3 --tokenizer tok.json --vocabulary declared-public";
    ok(at, &format!("prepare {how} --out single"));
    ok(
        at,
        &format!("prepare {how} --out sharded --plan plan.json --shards 2"),
    );
    let elsewhere = tempfile::tempdir().unwrap();
    let plan = format!("prepare --plan {}", at.join("plan.json").display());
    let single = files(&at.join("single"));
    for run in [
        "--run local:2",
        "--run local:2",
        "--stage join",
        "--stage scan --shard 1",
    ] {
        ok(elsewhere.path(), &format!("{plan} {run}"));
        assert!(single == files(&at.join("sharded")), "{run}");
    }
    std::fs::remove_file(at.join("sharded/prepared.json")).unwrap();
    let said = refused(elsewhere.path(), &format!("{plan} --run local:2"));
    assert!(said.contains("is not the folder of this plan"), "{said}");
}

/// The last stage would remove a link alone, and leave the text behind it.
#[cfg(unix)]
#[test]
fn stages_behind_a_link_are_refused() {
    let home = simulated(5);
    let at = home.path();
    let write = "prepare data.jsonl --out out --plan plan.json --shards 2";
    let [stages, moved] = ["plan.json.stages", "moved"].map(|name| at.join(name));
    std::fs::create_dir(&moved).unwrap();
    std::os::unix::fs::symlink(&moved, &stages).unwrap();
    let said = refused(at, write);
    assert!(said.contains("--plan: plan.json.stages"), "{said}");
    std::fs::remove_file(&stages).unwrap();
    std::fs::remove_dir(&moved).unwrap();
    ok(at, write);
    std::fs::rename(&stages, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &stages).unwrap();
    for run in ["--run local:2", "--stage scan --shard 0", "--stage join"] {
        let said = refused(at, &format!("prepare --plan plan.json {run}"));
        assert!(said.contains("plan.json.stages: it is a link"), "{said}");
    }
    std::fs::remove_file(&stages).unwrap();
    std::fs::rename(&moved, &stages).unwrap();
    ok(at, "prepare --plan plan.json --run local:2");
    assert!(!stages.exists() && !moved.exists());
}

/// Pipes, users and files that are left out have no place where a shard can begin.
#[test]
fn what_no_shard_can_begin_in_is_refused() {
    let home = simulated(5);
    let at = home.path();
    for (how, says) in [
        ("data.jsonl --unit user --user-field id", "--user-field"),
        ("data.jsonl --skip-unreadable", "--skip-unreadable"),
        ("-", "got a pipe or a device"),
    ] {
        let line = format!("prepare {how} --out out --plan plan.json --shards 2");
        let said = refused(at, &line);
        assert!(said.contains(says), "{said}");
    }
    let said = refused(
        at,
        "prepare data.jsonl --out out --plan plan.json --shards 4097",
    );
    assert!(said.contains("4097"), "{said}");
    let names: Vec<String> = files(at).into_keys().collect();
    assert_eq!(names, ["data.jsonl"], "nothing is left");
}

/// The processes that a process started and that run still.
#[cfg(target_os = "linux")]
fn children(parent: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().map(Result::unwrap);
    let numbers = entries.filter_map(|e| e.file_name().to_str()?.parse().ok());
    let of_parent = |number: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        let behind = stat.rsplit(')').next().unwrap_or_default();
        let mut fields = behind.split_whitespace();
        // A zombie waits to be seen.
        let alive = fields.next().is_some_and(|state| state != "Z");
        alive && fields.next() == Some(&parent.to_string())
    };
    numbers.filter(of_parent).collect()
}

/// Six workers die by SIGKILL in all kinds of stages, and then the process that started them; the same command goes on.
#[cfg(target_os = "linux")]
#[test]
fn killed_processes_change_nothing() {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};
    let home = simulated(300);
    let at = home.path();
    ok(at, &format!("prepare {HOW} --out single"));
    ok(
        at,
        &format!("prepare {HOW} --out sharded --plan plan.json --shards 7"),
    );
    let run = || {
        audit::command(at)
            .args([
                "prepare",
                "--plan",
                "plan.json",
                "--run",
                "local:2",
                "--threads",
                "2",
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let kill = |number: u32| {
        let number = number.to_string();
        Command::new("kill").args(["-9", &number]).status().unwrap();
    };
    let (since, limit) = (Instant::now(), Duration::from_secs(120));
    let mut killed = 0;
    let mut seen = std::collections::BTreeSet::new();
    let mut first = run();
    while killed < 6 && first.try_wait().unwrap().is_none() && since.elapsed() < limit {
        for child in children(first.id()) {
            // Every third that is new, so that no stage has three of them.
            if seen.insert(child) && seen.len() % 3 == 1 {
                std::thread::sleep(Duration::from_millis(7 * killed));
                kill(child);
                killed += 1;
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(killed >= 3, "{killed}");
    // Where not all of them were seen in time, the first is through already.
    if !at.join("sharded").exists() {
        let last = run().wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&last.stderr);
        assert!(last.status.success(), "{said}");
    }
    assert!(files(&at.join("single")) == files(&at.join("sharded")));
}

/// A stand-in for sbatch runs each task of an array in an order of its own, in the place where it is called.
#[cfg(unix)]
#[test]
fn the_script_for_slurm_prepares_the_same_folder() {
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;
    let home = simulated(20);
    let at = home.path();
    ok(at, &format!("prepare {HOW} --out single"));
    ok(
        at,
        &format!("prepare {HOW} --out sharded --plan plan.json --shards 3"),
    );
    let said = json(at, "prepare --plan plan.json --run slurm");
    assert_eq!(said["script"], "plan.json.slurm.sh");
    assert!(!at.join("sharded").exists(), "it runs nothing");
    let stand_in = r#"#!/bin/sh
set -eu
last=
for word; do
    case $word in
    --array=0-*) tasks=$(seq "${word#--array=0-}" -1 0) ;;
    esac
    script=$last last=$word
done
echo "$@" >> "$CALLS"
for task in ${tasks:-0}; do
    SLURM_ARRAY_TASK_ID=$task sh "$script" "$last" > /dev/null
done
wc -l < "$CALLS"
"#;
    let tools = at.join("tools");
    std::fs::create_dir(&tools).unwrap();
    let tool = tools.join("sbatch");
    std::fs::write(&tool, stand_in).unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o700)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let output = Command::new("sh")
        .args(["plan.json.slurm.sh", "--time=10"])
        .current_dir(at)
        .env("PATH", format!("{}:{path}", tools.display()))
        .env("CALLS", at.join("calls"))
        // Of a job in which the script is called.
        .env("RETICENT_STAGE", "scan")
        .env(KEY[0], KEY[1])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let calls = std::fs::read_to_string(at.join("calls")).unwrap();
    let calls: Vec<&str> = calls.lines().collect();
    assert_eq!(calls.len(), 4);
    let ends = |call: &&str| call.contains("--kill-on-invalid-dep=yes");
    assert!(calls.iter().all(ends), "{calls:?}");
    assert!(calls[1].contains("--array=0-2 --dependency=afterok:1 --time=10"));
    assert!(calls[3].contains("--dependency=afterok:3"), "{}", calls[3]);
    assert!(files(&at.join("single")) == files(&at.join("sharded")));
}

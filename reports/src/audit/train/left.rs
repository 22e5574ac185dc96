//! What earlier runs left at `--out` on each worker's machine. Worker 0 writes and sees only its own: on a machine that
//! was worker 0 before, an unfinished run would be followed by another one that passes for the same.

use anyhow::{Context, Result, bail};
use reticent_backends::checkpoint::{free_for, kept_run, owner_folder, state_folder};
use reticent_backends::{Collective, Error};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Returns the path of the checkpoint of an epoch.
pub(super) fn place_of_epoch(out: &Path, epoch: u64) -> PathBuf {
    let mut name = out.file_name().unwrap_or_default().to_owned();
    name.push(format!("-epoch-{epoch}"));
    out.with_file_name(name)
}

/// Returns the epochs of which a checkpoint or its owner's folder lies beside `out`.
pub(super) fn epochs_beside(out: &Path) -> Result<BTreeSet<u64>> {
    let beside = out.parent().filter(|parent| !parent.as_os_str().is_empty());
    let listed = match std::fs::read_dir(beside.unwrap_or(Path::new("."))) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        listed => listed.context("--out")?,
    };
    let mut epochs = BTreeSet::new();
    for entry in listed {
        let name = entry.context("--out")?.file_name();
        let shown = name.to_string_lossy();
        let shown = shown.strip_suffix(".owner").unwrap_or(&shown);
        let number = shown.rsplit_once('-').map_or("", |(_, number)| number);
        let Ok(epoch) = number.parse::<u64>() else {
            continue;
        };
        let place = place_of_epoch(out, epoch);
        if [&place, &owner_folder(&place)].map(|path| path.file_name() == Some(&name)) != [false; 2]
        {
            epochs.insert(epoch);
        }
    }
    Ok(epochs)
}

/// What lies at the `--out` of one worker.
#[derive(Serialize, Deserialize)]
struct Left {
    /// The absolute path.
    out: PathBuf,
    /// The unfinished run, by the name of its key.
    run: Option<String>,
    /// Which of these paths are taken: `--out`, and those of epochs beside it.
    taken: BTreeSet<String>,
}

impl Left {
    fn at(out: &Path) -> Result<Self> {
        let absolute = std::path::absolute(out).unwrap_or_else(|_| out.to_owned());
        let epochs = epochs_beside(out)?.into_iter();
        let places = epochs
            .map(|epoch| place_of_epoch(out, epoch))
            .chain([out.to_owned()]);
        let taken = places.filter(|place| free_for(place).is_err());
        let name = |place: PathBuf| place.file_name().map(|n| n.to_string_lossy().into_owned());
        Ok(Self {
            out: absolute,
            run: kept_run(&state_folder(out)).context("--out")?,
            taken: taken.filter_map(name).collect(),
        })
    }

    /// Returns a path here that worker 0 neither has nor goes on with, if there is one. A run that worker 0 goes on with
    /// may have left checkpoints here when this machine was worker 0.
    fn unseen_by(&self, first: &Self) -> Option<PathBuf> {
        if self.run.is_some() && self.run != first.run {
            return Some(state_folder(&self.out));
        }
        let unseen = self.taken.difference(&first.taken).next();
        unseen
            .filter(|_| first.run.is_none())
            .map(|name| self.out.with_file_name(name))
    }
}

/// Refuses a run of which a worker's machine has an earlier run at `--out` that worker 0 does not see. All workers call
/// this before worker 0 writes anything, so that those that share its disk see the same.
///
/// # Errors
/// Returns an error with the path, on every worker, and if a worker is gone or a folder can't be read.
pub(super) fn refuse_unseen(out: &Path, workers: &mut dyn Collective) -> Result<()> {
    let mine = serde_json::to_vec(&Left::at(out)?)?;
    let all = workers.exchange(&mine)?;
    let mut all = all.iter().enumerate().map(|(rank, words)| {
        serde_json::from_slice::<Left>(words).map_err(|_| {
            Error::Worker(format!("worker {rank} does not say what lies at its --out"))
        })
    });
    let Some(first) = all.next().transpose()? else {
        return Ok(());
    };
    for (rank, left) in (1..).zip(all) {
        if let Some(path) = left?.unseen_by(&first) {
            bail!(
                "--out: the machine of worker {rank} has {} of an earlier run, which worker 0 does not go on with. To go \
                 on with that run, make this machine worker 0; for another run, move or remove what is there. What was \
                 released counts: account compose says what its manifest and that of the new run promise together",
                path.display()
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use reticent_backends::Threads;

    /// The result of each of two workers, by its own folder.
    fn both(outs: [&Path; 2]) -> [Option<String>; 2] {
        let workers = Threads::of(2);
        std::thread::scope(|scope| {
            let each: Vec<_> = (workers.into_iter().zip(outs))
                .map(|(mut worker, out)| scope.spawn(move || refuse_unseen(out, &mut worker)))
                .collect();
            let mut each = each.into_iter().map(|worker| worker.join().unwrap());
            [(); 2].map(|()| each.next().unwrap().err().map(|e| e.to_string()))
        })
    }

    fn keep(out: &Path, key: u8) {
        let state = state_folder(out);
        std::fs::create_dir_all(&state).unwrap();
        let key = vec![key; 32];
        let json = serde_json::json!({"schema": 1, "type": "run-key", "key": key});
        std::fs::write(state.join("key.json"), json.to_string()).unwrap();
    }

    /// Two machines whose ranks were swapped began another run, and both ended well.
    #[test]
    fn a_run_that_worker_0_does_not_see_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| home.path().join(name));
        for machine in [&one, &two] {
            std::fs::create_dir(machine).unwrap();
        }
        let [here, there] = [one.join("o"), two.join("o")];
        assert_eq!(both([&here, &there]), [None, None]);
        let refused = |outs: [&Path; 2], path: &Path| {
            for said in both(outs) {
                let said = said.unwrap();
                assert!(said.contains("the machine of worker 1 has"), "{said}");
                assert!(said.contains(&path.display().to_string()), "{said}");
            }
        };
        // The state of a run, or a checkpoint that it released.
        keep(&here, 1);
        refused([&there, &here], &state_folder(&here));
        assert_eq!(both([&here, &there]), [None, None]);
        std::fs::remove_dir_all(state_folder(&here)).unwrap();
        for name in ["o-epoch-2", "o"] {
            let model = one.join(name);
            std::fs::create_dir(&model).unwrap();
            std::fs::write(model.join("manifest.json"), "{}").unwrap();
            refused([&there, &here], &model);
            // What worker 0 sees itself, it refuses itself.
            assert_eq!(both([&here, &here]), [None, None]);
            std::fs::remove_dir_all(&model).unwrap();
        }
        // One state on a disk that both share, or a copy of it, and two states.
        keep(&here, 1);
        assert_eq!(both([&here, &here]), [None, None]);
        keep(&there, 1);
        std::fs::create_dir(one.join("o-epoch-1")).unwrap();
        std::fs::write(one.join("o-epoch-1/manifest.json"), "{}").unwrap();
        assert_eq!(both([&there, &here]), [None, None]);
        keep(&there, 2);
        refused([&there, &here], &state_folder(&here));
    }
}

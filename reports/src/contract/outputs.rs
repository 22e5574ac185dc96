//! Files that an answer is written to are none that the command reads, and not each other.

use anyhow::{Result, bail};
use clap::{Arg, ArgMatches, Command, Parser};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The arguments that name a file to be written over if it is there. What is written by other ones is compared where
/// it is written, or replaces nothing.
const WRITTEN: [&str; 6] = [
    "html",
    "markdown",
    "model_card",
    "plot",
    "sarif",
    "scores_out",
];

/// Compares the files that a command line names.
///
/// # Errors
/// An output that is an input as well, or another output.
pub(super) fn check<A: Parser>(line: Vec<OsString>) -> Result<()> {
    let mut command = A::command();
    // It was parsed before.
    let Ok(matches) = command.try_get_matches_from_mut(line) else {
        return Ok(());
    };
    compare(&command, &matches)
}

fn compare(command: &Command, matches: &ArgMatches) -> Result<()> {
    if let Some((name, inner)) = matches.subcommand()
        && let Some(command) = command.find_subcommand(name)
    {
        compare(command, inner)?;
    }
    let mut read = Vec::new();
    let mut written: Vec<(String, PathBuf)> = Vec::new();
    for argument in command.get_arguments() {
        let id = argument.get_id().as_str();
        let values = matches.try_get_raw(id).ok().flatten();
        for value in values.into_iter().flatten() {
            let Some(path) = file(Path::new(value)) else {
                continue;
            };
            if WRITTEN.contains(&id) {
                written.push((name(argument), path));
            } else {
                read.push((name(argument), path));
            }
        }
    }
    for (at, (flag, path)) in written.iter().enumerate() {
        let same = |other: &&(String, PathBuf)| other.1 == *path;
        if let Some((other, _)) = read.iter().find(same) {
            bail!("{flag}: the file is that of {other}, which is read; name another one");
        }
        if let Some((other, _)) = written[..at].iter().find(same) {
            bail!("{flag}: the file is that of {other}; each needs its own");
        }
    }
    Ok(())
}

/// As the user knows it.
fn name(argument: &Arg) -> String {
    match argument.get_long() {
        Some(long) => format!("--{long}"),
        None => argument.get_id().as_str().to_uppercase(),
    }
}

/// Where a regular file is, or would be; nothing of folders, devices and values that are no place.
fn file(path: &Path) -> Option<PathBuf> {
    match path.canonicalize() {
        Ok(whole) => whole.is_file().then_some(whole),
        Err(_) => {
            let folder = match path.parent()? {
                parent if parent.as_os_str().is_empty() => Path::new("."),
                parent => parent,
            };
            Some(folder.canonicalize().ok()?.join(path.file_name()?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        data: PathBuf,
        #[arg(long)]
        html: Option<PathBuf>,
        #[arg(long)]
        plot: Option<PathBuf>,
    }

    #[test]
    fn an_output_is_no_input_and_no_other_output() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name).into_os_string();
        std::fs::write(place("data"), "text").unwrap();
        let said = |words: &[OsString]| {
            let line = std::iter::once("line".into()).chain(words.iter().cloned());
            check::<Line>(line.collect()).map_err(|error| error.to_string())
        };
        let dotted = folder.path().join("./data").into_os_string();
        let error = said(&[place("data"), "--html".into(), dotted]).unwrap_err();
        assert!(
            error.starts_with("--html: the file is that of DATA"),
            "{error}"
        );
        let (html, plot) = ("--html".into(), "--plot".into());
        let twice = [place("data"), html, place("new"), plot, place("new")];
        let error = said(&twice).unwrap_err();
        assert!(
            error.starts_with("--plot: the file is that of --html"),
            "{error}"
        );
        let two: [OsString; 5] = twice.map(|word| word);
        assert!(said(&two[..3]).is_ok());
        let null = [
            "data".into(),
            "--html".into(),
            "/dev/null".into(),
            "--plot".into(),
            "/dev/null".into(),
        ];
        assert!(said(&null).is_ok());
    }
}

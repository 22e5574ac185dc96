//! Checks that the files an answer is written to are not read by the command and are distinct, that pages replace only
//! pages, and that a folder is not a stream.

use anyhow::{Result, bail, ensure};
use clap::{Arg, ArgMatches, Command, Parser};
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The arguments that name a page: an answer in another format or its figure, written beside it, whatever the command.
const PAGES: [&str; 5] = ["html", "markdown", "model_card", "plot", "sarif"];

/// The first line of an answer in Markdown and the second of a figure, by which they are known as ours.
pub(crate) const MARK: &str = "<!-- Reticent -->";

/// How pages begin, and what stands near the beginning of ours alone.
const MARKS: [(&str, &str); 5] = [
    (
        "<!DOCTYPE html>",
        "<meta name=\"generator\" content=\"Reticent\">",
    ),
    (MARK, "\n## "),
    ("privacy:\n- type: ", "\n  tool: \"Reticent "),
    ("<svg xmlns=", MARK),
    (
        "{\n  \"$schema\": \"https://json.schemastore.org/sarif-",
        "\"name\": \"reticent\"",
    ),
];

/// How far a mark is from the beginning, at most.
const NEAR: u64 = 512;

/// What else names a file beside the answer.
const WRITTEN: [&str; 1] = ["scores_out"];

/// The same of one command, where others read a file of that name: command and argument.
const WRITTEN_BY: [(&str, &str); 1] = [("protect", "weights")];

/// The path of stdin, for when stdin is a file.
const STDIN: &str = "/dev/stdin";

/// Returns whether an argument of a command names a file that is written; a folder that is written replaces nothing.
fn is_written(command: &Command, argument: &Arg) -> bool {
    let names = argument.get_value_names().unwrap_or_default();
    let id = argument.get_id().as_str();
    PAGES.contains(&id)
        || WRITTEN.contains(&id)
        || WRITTEN_BY.contains(&(command.get_name(), id))
        || id == "out" && names.iter().any(|name| name == "FILE")
}

/// Compares the files that a command line names.
///
/// # Errors
/// Returns an error if an output is also an input or another output, if a page would replace another file or go through
/// a link, or if `-` is given for a folder that is written.
pub(super) fn check<A: Parser>(line: Vec<OsString>) -> Result<()> {
    let mut command = A::command();
    // The line was parsed successfully before.
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
    let folder = command.get_arguments().find(|argument| {
        let names = argument.get_value_names().unwrap_or_default();
        argument.get_id() == "out" && names.iter().any(|name| name == "DIR")
    });
    if folder.is_some()
        && let Ok(Some(mut values)) = matches.try_get_raw("out")
        && values.any(|value| super::is_stream(Path::new(value)))
    {
        bail!(
            "--out: needs a folder, which cannot be streamed (`-` stands for stdout); ./- is a folder of that name"
        );
    }
    let named = |argument: &Arg| {
        let values = matches.try_get_raw(argument.get_id().as_str());
        values.is_ok_and(|values| values.is_some())
    };
    let is_written = |argument: &Arg| is_written(command, argument);
    if !command.get_arguments().any(|a| is_written(a) && named(a)) {
        return Ok(());
    }
    let mut read = Vec::new();
    // Whether all of a folder is read, a new file too the next time.
    let mut folders: Vec<(String, PathBuf, bool)> = Vec::new();
    let mut written: Vec<(String, PathBuf)> = Vec::new();
    let mut pages = Vec::new();
    for argument in command.get_arguments() {
        let id = argument.get_id().as_str();
        let values = matches.try_get_raw(id).ok().flatten();
        for value in values.into_iter().flatten() {
            let value = match super::is_stream(Path::new(value)) && !is_written(argument) {
                true => Path::new(STDIN),
                false => Path::new(value),
            };
            let Some(path) = file(value) else {
                if id != "out" {
                    let corpus = value
                        .canonicalize()
                        .ok()
                        .filter(|folder| id == "data" && !super::is_prepared(folder));
                    folders.extend(read_with(value).map(|path| {
                        let all = corpus.as_ref() == Some(&path);
                        (name(argument), path, all)
                    }));
                }
                continue;
            };
            if PAGES.contains(&id) {
                pages.push((name(argument), value));
            }
            if is_written(argument) {
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
        let within = |(_, folder, all): &&(String, PathBuf, bool)| {
            path.starts_with(folder) && (*all || path.exists())
        };
        if let Some((other, ..)) = folders.iter().find(within)
            && !is_page(path)
        {
            bail!(
                "{flag}: the file is one of the folder of {other}, which is read; name another one"
            );
        }
        if let Some((other, _)) = written[..at].iter().find(same) {
            bail!("{flag}: the file is that of {other}; each needs its own file");
        }
    }
    pages
        .iter()
        .try_for_each(|(flag, path)| replaces_a_page(flag, path))
}

/// Refuses to write a page through a link, or in place of a file that is none.
fn replaces_a_page(flag: &str, path: &Path) -> Result<()> {
    // A pipe or a device holds nothing.
    if std::fs::metadata(path).is_ok_and(|about| !about.is_file()) {
        return Ok(());
    }
    let shown = path.display();
    ensure!(
        flag != "--plot" || path.extension().is_some_and(|ending| ending == "svg"),
        "{flag}: the name must end in .svg, got {shown}"
    );
    ensure!(
        !path.is_symlink(),
        "{flag}: {shown} is a link; name the file it leads to"
    );
    ensure!(
        !path.exists() || is_page(path),
        "{flag}: {shown} exists and is no page of an earlier answer; choose another name"
    );
    Ok(())
}

/// Returns the name of an argument as the user knows it.
fn name(argument: &Arg) -> String {
    match argument.get_long() {
        Some(long) => format!("--{long}"),
        None => argument.get_id().as_str().to_uppercase(),
    }
}

/// Returns where a regular file is or would be; `None` for folders, devices and values that are not paths.
fn file(path: &Path) -> Option<PathBuf> {
    match path.canonicalize() {
        Ok(whole) => whole.is_file().then_some(whole),
        Err(_) => {
            let folder = reticent_disk::parent_of(path).canonicalize().ok()?;
            Some(folder.join(path.file_name()?))
        }
    }
}

/// Returns what is read along with a named folder: the folder itself, its owner's folder, and the base that an
/// adapter in it names.
fn read_with(path: &Path) -> impl Iterator<Item = PathBuf> {
    let folder = path.canonicalize().ok().filter(|path| path.is_dir());
    let base = folder.as_ref().and_then(|folder| {
        let text = super::read_text(&folder.join("adapter_config.json")).ok()?;
        let config: serde_json::Value = serde_json::from_str(&text).ok()?;
        let base = PathBuf::from(config.get("base_model_name_or_path")?.as_str()?);
        let beside = folder.parent().map(|parent| parent.join(&base));
        let found = [Some(base), beside].into_iter().flatten();
        found
            .filter_map(|path| path.canonicalize().ok())
            .find(|path| path.is_dir())
    });
    let owner = owner_of(path).and_then(|owner| owner.canonicalize().ok());
    let owner = owner.filter(|_| folder.is_some());
    folder.into_iter().chain(owner).chain(base)
}

/// Returns the owner's folder of a folder, in the build that reads such folders.
#[cfg(feature = "audit")]
fn owner_of(folder: &Path) -> Option<PathBuf> {
    Some(reticent_backends::checkpoint::owner_folder(folder))
}

#[cfg(not(feature = "audit"))]
const fn owner_of(_: &Path) -> Option<PathBuf> {
    None
}

/// Returns whether a file holds nothing, or is marked as a page of an earlier answer, which no command reads.
fn is_page(path: &Path) -> bool {
    // Opening a pipe waits for its writer.
    if !path.is_file() {
        return false;
    }
    let mut start = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(NEAR).read_to_end(&mut start));
    // A character may be cut off.
    let start = String::from_utf8_lossy(&start);
    let marked = |(begins, mark): &(&str, &str)| start.starts_with(begins) && start.contains(mark);
    read.is_ok() && (start.is_empty() || MARKS.iter().any(marked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Inputs;
    use crate::page::Page;
    use crate::plot::{Axis, Layer, Plot, Tone};

    #[derive(Debug, Parser)]
    struct Line {
        data: PathBuf,
        #[arg(long)]
        html: Option<PathBuf>,
        #[arg(long)]
        plot: Option<PathBuf>,
    }

    #[derive(Debug, Parser)]
    struct Folder {
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    }

    /// `account protect` writes the weights that other commands read. It replaced its own incidence.
    #[test]
    fn weights_are_written_by_protect_alone() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(place("pairs.json"), "{}").unwrap();
        let said = |more: &[&str]| {
            let incidence = place("pairs.json");
            let line = [
                "account",
                "protect",
                "--incidence",
                &incidence,
                "--secrets",
                "secrets.csv",
                "--batch-size",
                "2",
                "--steps",
                "2",
            ];
            let line = line.iter().chain(more).map(OsString::from);
            check::<crate::account::args::Account>(line.collect())
                .map_err(|error| error.to_string())
        };
        let error = said(&["--weights", &place("pairs.json")]).unwrap_err();
        assert!(
            error.starts_with("--weights: the file is that of --incidence, which is read"),
            "{error}"
        );
        let twice = ["--weights", &place("new.csv"), "--out", &place("new.csv")];
        let error = said(&twice).unwrap_err();
        assert!(error.contains("each needs its own file"), "{error}");
        assert!(said(&["--weights", &place("new.json")]).is_ok());
    }

    #[test]
    fn what_is_written_as_a_page_is_one() {
        let page = Page::new("Title", "Result.");
        let plot = Plot::new("Title", Axis::linear("x"), Axis::linear("y"));
        let plot = plot.layer(Layer::line("", [(0.0, 0.0), (1.0, 1.0)], Tone::First));
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("page");
        for text in [
            page.to_html().unwrap(),
            page.to_markdown(),
            page.to_model_card("exposure"),
            page.to_sarif("exposure", &Inputs::new()),
            plot.to_svg().unwrap(),
        ] {
            std::fs::write(&place, &text).unwrap();
            assert!(is_page(&place), "{text}");
            // A page of the kind without the mark is not ours.
            let other = text
                .replace(MARK, "")
                .replace("Reticent", "Another")
                .replace("\"reticent\"", "\"another\"");
            std::fs::write(&place, other.trim_start()).unwrap();
            assert!(!is_page(&place), "{other}");
        }
    }

    /// A corpus was replaced by a figure, also one that a link led to.
    #[test]
    fn a_page_replaces_nothing_but_a_page() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name).into_os_string();
        std::fs::write(place("data"), "text").unwrap();
        let said = |flag: &str, name: &str| {
            let line = ["line".into(), place("data"), flag.into(), place(name)];
            check::<Line>(line.to_vec()).map_err(|error| error.to_string())
        };
        let pages = [
            "",
            "<!DOCTYPE html>\n<meta name=\"generator\" content=\"Reticent\">",
            "<!-- Reticent -->\n## Title\n",
            "privacy:\n- type: \"exposure\"\n  tool: \"Reticent 1\"\n",
            "<svg xmlns=\"a\">\n<!-- Reticent -->",
            "{\n  \"$schema\": \"https://json.schemastore.org/sarif-2.1.0.json\", \"name\": \"reticent\"",
        ];
        let others = [
            "{\"text\": \"a\"}\n",
            "## My own notes\n",
            "<!DOCTYPE html><p>my own site</p>",
            "<svg xmlns=\"a\">",
            "privacy:\n- type: \"exposure\"\n",
            "privacy: none\n",
            "a",
        ];
        for (texts, page) in [(&pages[..], true), (&others[..], false)] {
            for text in texts {
                std::fs::write(place("old.svg"), text).unwrap();
                for flag in ["--html", "--plot"] {
                    let found = said(flag, "old.svg");
                    assert_eq!(found.is_ok(), page, "{text:?}: {found:?}");
                    let why = "old.svg exists and is no page of an earlier answer";
                    assert!(page || found.unwrap_err().contains(why));
                }
            }
        }
        assert!(said("--plot", "new.svg").is_ok() && said("--html", "new").is_ok());
        let error = said("--plot", "new.png").unwrap_err();
        assert!(error.contains("must end in .svg"), "{error}");
        #[cfg(unix)]
        for to in ["old.svg", "nothing"] {
            std::fs::write(place("old.svg"), "").unwrap();
            std::os::unix::fs::symlink(place(to), place("link.svg")).unwrap();
            let error = said("--html", "link.svg").unwrap_err();
            assert!(error.contains("link.svg is a link"), "{error}");
            std::fs::remove_file(place("link.svg")).unwrap();
        }
    }

    /// The check of a pipe in a folder that is read waited for its writer.
    #[test]
    #[cfg(unix)]
    fn a_pipe_is_no_page_and_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let (sender, found) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(is_page(&pipe)));
        let found = found.recv_timeout(std::time::Duration::from_secs(10));
        assert_eq!(found, Ok(false));
    }

    #[test]
    fn a_folder_is_not_streamed() {
        let said = |out: &str| {
            let line = ["line", "--out", out].map(OsString::from);
            check::<Folder>(line.to_vec()).map_err(|error| error.to_string())
        };
        let error = said("-").unwrap_err();
        assert!(
            error.contains("a folder, which cannot be streamed"),
            "{error}"
        );
        assert!(said("./-").is_ok());
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
        assert!(said(&twice[..3]).is_ok());
        // Stdin is read under no name, and may be a file all the same.
        let stdin = Path::new(STDIN).canonicalize();
        if let Some(stdin) = stdin.ok().filter(|stdin| stdin.is_file()) {
            let error = said(&["-".into(), "--html".into(), stdin.into()]).unwrap_err();
            assert!(
                error.starts_with("--html: the file is that of DATA"),
                "{error}"
            );
        }
        // A folder's own files, and those of the base that an adapter names.
        let (model, adapter) = (folder.path().join("model"), folder.path().join("adapter"));
        std::fs::create_dir(&model).unwrap();
        std::fs::create_dir(&adapter).unwrap();
        std::fs::write(model.join("config.json"), "{}").unwrap();
        std::fs::write(model.join("page.html"), "").unwrap();
        let named = "{\"base_model_name_or_path\": \"model\"}";
        std::fs::write(adapter.join("adapter_config.json"), named).unwrap();
        for read in ["model", "adapter"] {
            let at = |name: &str| said(&[place(read), "--html".into(), model.join(name).into()]);
            let error = at("config.json").unwrap_err();
            assert!(
                error.starts_with("--html: the file is one of the folder of DATA"),
                "{error}"
            );
            assert!(at("page.html").is_ok());
            // A corpus would have one more file; of a base, the files are named.
            assert_eq!(at("new.json").is_ok(), read == "adapter");
        }
        let null = [
            "data".into(),
            "--html".into(),
            "/dev/null".into(),
            "--plot".into(),
            "/dev/null".into(),
        ];
        assert!(said(&null).is_ok());
        if !cfg!(feature = "audit") {
            return;
        }
        // The owner's folder too, which no argument names.
        std::fs::create_dir(folder.path().join("model.owner")).unwrap();
        std::fs::write(place("model.owner/key"), "key").unwrap();
        let key = place("model.owner/key");
        let error = said(&[place("model"), "--html".into(), key]).unwrap_err();
        assert!(
            error.starts_with("--html: the file is one of the folder of DATA"),
            "{error}"
        );
    }
}

//! Checks that the options named in errors, documentation and the book exist.
#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use crate::account::args::Account;
use crate::audit::args::Audit;
use clap::{Command, CommandFactory};
use std::path::{Path, PathBuf};

/// Every option that the sources and the book name must be an option of one of the commands; where a command
/// precedes it on the line, it must be an option of that command.
#[test]
fn sources_and_book_name_options_that_exist() {
    // Options of cargo, tests, pip, torchrun, sbatch and the scripts.
    const OTHERS: &str = "advertise array bin cpus-per-task dependency exact example executor-timeout export features help job-name kill-on-invalid-dep \
                          lib listen locked no-default-features no-python nproc-per-node only parsable path release root scheduler tasks \
                          time trust-network version workspace write";
    let mut programs = [Account::command(), Audit::command()];
    programs.iter_mut().for_each(Command::build);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let places = [
        "accounting/src",
        "attacks/src",
        "backends/src",
        "corpus/src",
        "reports/src",
        "docs/src",
        "README.md",
        "cluster/README.md",
        "action.yml",
    ];
    let mut files = Vec::new();
    for place in places {
        gather(&root.join(place), &mut files);
    }
    let mut seen = 0;
    let mut unknown = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for (number, line) in text.lines().enumerate() {
            for (at, name) in options(line) {
                seen += 1;
                let named = named_before(&programs, &line[..at]);
                let known = if named.is_empty() {
                    programs.iter().any(|program| has_anywhere(program, name))
                } else {
                    named.iter().any(|command| has(command, name))
                };
                let elsewhere =
                    OTHERS.split(' ').any(|other| other == name) || name.starts_with("tone-");
                if !(known || elsewhere) {
                    unknown.push(format!(
                        "{}:{}: --{name}: {line}",
                        file.display(),
                        number + 1
                    ));
                }
            }
        }
    }
    assert!(
        unknown.is_empty(),
        "no such option:\n{}",
        unknown.join("\n")
    );
    assert!(seen > 1000, "{seen}");
}

fn gather(place: &Path, files: &mut Vec<PathBuf>) {
    if place.is_dir() {
        for entry in std::fs::read_dir(place).unwrap() {
            gather(&entry.unwrap().path(), files);
        }
    } else if place
        .extension()
        .is_some_and(|ending| ["rs", "md", "yml"].iter().any(|e| ending == *e))
    {
        files.push(place.to_path_buf());
    }
}

/// Returns every option of a line with its position.
fn options(line: &str) -> Vec<(usize, &str)> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let mut found = Vec::new();
    for (at, _) in line.match_indices("--") {
        let rest = &line[at + 2..];
        let name = &rest[..rest.find(|c| !word(c)).unwrap_or(rest.len())];
        let whole = !line[..at].ends_with(|c: char| word(c) || c == '_');
        if whole && name.starts_with(|c: char| c.is_ascii_lowercase()) {
            found.push((at, name));
        }
    }
    found
}

/// Returns the commands that a line names, with their parents; in a quotation, only those named in the quotation.
fn named_before<'c>(programs: &'c [Command], line: &str) -> Vec<&'c Command> {
    let quoted = line.split('`').collect::<Vec<_>>();
    let line = match quoted.len() {
        1 => line,
        parts if parts % 2 == 0 => quoted[parts - 1],
        _ => "",
    };
    let words: Vec<&str> = line.split_whitespace().collect();
    let bare = |word: &str| {
        word.trim_matches(|c: char| !c.is_ascii_alphanumeric())
            .to_owned()
    };
    let mut named = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let word = bare(word.rsplit(':').next().unwrap_or(word));
        let Some(program) = programs.iter().find(|program| word == program.get_name()) else {
            continue;
        };
        let mut path = vec![program];
        for word in &words[at + 1..] {
            match path[path.len() - 1].find_subcommand(word) {
                Some(command) => path.push(command),
                None => break,
            }
        }
        if path.len() > 1 {
            named.append(&mut path);
        }
    }
    named
}

fn has(command: &Command, name: &str) -> bool {
    command.get_arguments().any(|argument| {
        argument.get_long() == Some(name)
            || argument
                .get_all_aliases()
                .is_some_and(|all| all.contains(&name))
    })
}

fn has_anywhere(command: &Command, name: &str) -> bool {
    has(command, name)
        || command
            .get_subcommands()
            .any(|below| has_anywhere(below, name))
}

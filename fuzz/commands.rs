//! Mutations of every file that a command reads, given to that command in this process: an answer, or one error in
//! which nothing of the private text stands, never a panic, and nothing half-written.
//!
//! ```console
//! $ cargo run --package reticent-reports --example fuzz_commands -- 20000 [SEED] [fuzz/corpus] [TARGET …] >/dev/null
//! ```
//! Deterministic for a seed, but for what commands draw from the system. Answers go to stdout, which nobody reads.
//! What is asserted beside "no panic": an error leaves no file and no folder behind, but for the hidden ones that the
//! same command goes on from; it says nothing of the words that only private text has; at most twenty seconds.
#![expect(clippy::print_stderr, reason = "findings are no data")]

#[path = "campaign.rs"]
mod campaign;
#[path = "mutation.rs"]
mod mutation;

use campaign::{Campaign, Target, none_found};
use mutation::{in_place, mutated};
use rand::RngExt;
use reticent_accounting::Neighbours;
use reticent_reports::account::args::Account;
use reticent_reports::audit::args::Audit;
use reticent_reports::contract::{Interrupt, describe, parse_from};
use reticent_reports::defaults::Project;
use reticent_reports::plan::{PreparedFacts, TrainingFile, labels};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

type Found = Result<(), String>;
type Failure = Box<dyn std::error::Error>;

/// A word of the private text, which no error may repeat.
const PRIVATE: &str = "Xyzzogeton";

/// What is done with a mutant.
enum Run {
    /// `audit` with these words.
    Audit(&'static str),
    /// `account` with these words.
    Account(&'static str),
    /// A reader that computes nothing.
    Read(fn(&Path) -> Found),
}

use Run::{Account as OfAccount, Audit as OfAudit, Read};

struct Case {
    name: &'static str,
    /// The file that is mutated.
    file: &'static str,
    words: &'static [&'static str],
    runs: &'static [Run],
}

const JSON: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "null",
    "true",
    "-1",
    "0",
    "1e999",
    "1e-320",
    "NaN",
    "18446744073709551616",
    "\\u0000",
    "\\ud800",
    "{\"a\":",
    "[[[[",
    "\"inf\"",
    "\u{1b}[2J",
];
const CSV: &[&str] = &[
    ",",
    "\n",
    "\"",
    "\"\"",
    "\r\n",
    "id",
    "score",
    "member",
    "nan",
    "inf",
    "-1e999",
    "\u{0}",
    "\u{1b}[2J",
];
const TOML: &[&str] = &[
    "=",
    "[",
    "]",
    "[[",
    "\n",
    "\"",
    "'''",
    "nan",
    "inf",
    "1e999",
    "-1",
    "99999999999999999999",
    ".",
    "\u{1b}",
];

const CASES: &[Case] = &[
    Case {
        name: "mechanism",
        file: "mechanism.json",
        words: JSON,
        runs: &[Read(mechanism)],
    },
    Case {
        name: "dp-event",
        file: "dp-event.json",
        words: JSON,
        runs: &[Read(mechanism)],
    },
    Case {
        name: "plan",
        file: "training.toml",
        words: TOML,
        runs: &[Read(|path| end(TrainingFile::read(path)))],
    },
    Case {
        name: "defaults",
        file: "reticent.toml",
        words: TOML,
        runs: &[Read(|path| end(Project::read(path)))],
    },
    Case {
        name: "labels",
        file: "labels.jsonl",
        words: JSON,
        runs: &[Read(|path| end(labels::read(path)))],
    },
    Case {
        name: "protect",
        file: "pairs.csv",
        words: CSV,
        runs: &[OfAccount(
            "protect --incidence pairs.csv --secrets secrets.csv --batch-size 1 --steps 10 --dataset-size 20 --weights w.json",
        )],
    },
    Case {
        name: "secrets",
        file: "secrets.csv",
        words: CSV,
        runs: &[OfAccount(
            "protect --incidence pairs.csv --secrets secrets.csv --batch-size 1 --steps 10 --dataset-size 20",
        )],
    },
    Case {
        name: "scores",
        file: "scores.csv",
        words: CSV,
        runs: &[OfAudit("membership --scores scores.csv --plot roc.svg")],
    },
    Case {
        name: "scorer",
        file: "lines.jsonl",
        words: JSON,
        runs: &[OfAudit(
            "perplexity --scorer command:cat\u{a0}lines.jsonl --tokenizer ckpt/tokenizer.json --data few.jsonl",
        )],
    },
    Case {
        name: "reports",
        file: "exposure.json",
        words: JSON,
        runs: &[
            OfAudit("diff exposure.json same.json"),
            OfAudit("figure exposure.json --x exposure --y exposure-mean --plot f.svg"),
        ],
    },
    Case {
        name: "sheet",
        file: "sheet.jsonl",
        words: JSON,
        runs: &[OfAudit(
            "screen screened.jsonl --policy customers --sheet sheet.jsonl",
        )],
    },
    Case {
        name: "records",
        file: "data.jsonl",
        words: JSON,
        runs: &[
            OfAudit("redact data.jsonl --policy detectors --out o.jsonl"),
            OfAudit("prepare data.jsonl --policy detectors --out p --canaries 1x2"),
            OfAudit("plant data.jsonl --canaries 1x2 --out q"),
            OfAudit("incidence data.jsonl --policy detectors --out i.csv"),
            OfAudit("policy data.jsonl --policy detectors"),
        ],
    },
    Case {
        name: "tokenizer",
        file: "tokenizer.json",
        words: JSON,
        runs: &[OfAudit(
            "prepare few.jsonl --vocabulary pretrained --tokenizer tokenizer.json --policy detectors --out p",
        )],
    },
    Case {
        name: "prepared-facts",
        file: "prepared/prepared.json",
        words: JSON,
        runs: &[
            Read(prepared),
            OfAudit(
                "train prepared --recipe sgd --epochs 1 --model gpt2 --layers 1 --width 8 --heads 1 --out c",
            ),
        ],
    },
    Case {
        name: "prepared-records",
        file: "prepared/records.jsonl",
        words: JSON,
        runs: &[Read(prepared)],
    },
    Case {
        name: "canaries",
        file: "prepared/canaries.json",
        words: JSON,
        runs: &[
            Read(prepared),
            OfAudit("exposure --model ckpt --canary-file prepared/canaries.json"),
        ],
    },
    Case {
        name: "manifest",
        file: "ckpt/manifest.json",
        words: JSON,
        runs: &[
            OfAudit("perplexity --model ckpt --data few.jsonl"),
            OfAccount("compose ckpt/manifest.json"),
        ],
    },
    Case {
        name: "model-config",
        file: "hf/config.json",
        words: JSON,
        runs: &[OfAudit("perplexity --model hf --data few.jsonl")],
    },
    Case {
        name: "model-tokenizer",
        file: "hf/tokenizer.json",
        words: JSON,
        runs: &[OfAudit("perplexity --model hf --data few.jsonl")],
    },
    Case {
        name: "model-weights",
        file: "hf/model.safetensors",
        words: JSON,
        runs: &[OfAudit("perplexity --model hf --data few.jsonl")],
    },
];

fn main() -> Result<(), Failure> {
    let campaign = Campaign::of_command()?;
    let home = tempfile::tempdir()?;
    seeds(home.path())?;
    let whole = listing(home.path())?;
    let mut findings = 0;
    for (number, case) in (0..).zip(CASES) {
        let file = home.path().join(case.file);
        let seed = std::fs::read(&file)?;
        if campaign.wants(case.name) {
            let sort = judge(case, &file, &seed, home.path(), &whole)?;
            if !sort.chars().all(|c| c == 'D') {
                return Err(format!("{}: its seed is refused: {sort}", case.name).into());
            }
        }
        let target = Target {
            name: case.name,
            seeds: vec![seed.clone()],
            share: 100 / CASES.len() as u64,
            patience: Duration::from_secs(20),
            sorts: 60,
        };
        findings += campaign.run(
            number,
            target,
            |seeds, random| match random.random_bool(0.4) {
                true => in_place(seeds, random),
                false => mutated(seeds, case.words, random),
            },
            |bytes, _| vec![bytes.to_vec()],
            |files| judge(case, &file, &files[0], home.path(), &whole),
        )?;
        // What an input left is not for the next case.
        clear(home.path(), &whole).map_err(Failure::from)?;
        std::fs::write(&file, &seed)?;
    }
    none_found(findings)
}

/// The sort of outcome, or what is wrong with it.
fn judge(
    case: &Case,
    file: &Path,
    bytes: &[u8],
    home: &Path,
    whole: &BTreeSet<PathBuf>,
) -> Result<String, String> {
    let place = |error: std::io::Error| error.to_string();
    let mut sort = String::new();
    for run in case.runs {
        clear(home, whole)?;
        std::fs::write(file, bytes).map_err(place)?;
        let outcome = match run {
            Run::Read(read) => read(file),
            Run::Audit(line) => audit(line),
            Run::Account(line) => account(line),
        };
        let Err(error) = outcome else {
            sort.push('D');
            continue;
        };
        let new: Vec<PathBuf> = listing(home)
            .map_err(place)?
            .difference(whole)
            .cloned()
            .collect();
        if let Some(left) = new.iter().find(|path| !goes_on(path)) {
            return Err(format!("{error:?} left {}", left.display()));
        }
        if error.contains(PRIVATE) {
            return Err(format!("private text in {error:?}"));
        }
        if error.trim().is_empty() {
            return Err("an error without words".to_owned());
        }
        let words = error.split('"').next().unwrap_or("");
        let words: String = words
            .chars()
            .filter(|c| !c.is_ascii_digit())
            .take(160)
            .collect();
        sort = format!("E{sort}{words}");
    }
    Ok(sort)
}

/// What the same command goes on from, and the owner's key.
fn goes_on(path: &Path) -> bool {
    let first = path.components().next();
    let name = first.map(|part| part.as_os_str().to_string_lossy().into_owned());
    name.is_some_and(|name| {
        name.starts_with(".preparing-")
            || name.starts_with(".writing-")
            || name.contains(".state")
            || name.contains(".owner")
            || name.ends_with(".lock")
    })
}

fn audit(line: &str) -> Found {
    let words = std::iter::once("audit").chain(line.split(' '));
    let words = words.map(|word| word.replace('\u{a0}', " "));
    let arguments: Audit = parse_from(words).map_err(|_| "usage".to_owned())?;
    end(reticent_reports::audit::run(
        &arguments,
        &Interrupt::default(),
    ))
}

fn account(line: &str) -> Found {
    let words = std::iter::once("account").chain(line.split(' '));
    let arguments: Account = parse_from(words).map_err(|_| "usage".to_owned())?;
    end(reticent_reports::account::run(&arguments))
}

fn mechanism(path: &Path) -> Found {
    let text = reticent_reports::contract::read_text(path).map_err(|e| e.to_string())?;
    let read = reticent_accounting::training::read(&text, Neighbours::AddRemove);
    let document = read.map_err(|e| e.to_string())?;
    // What was read is written and read again as the same.
    let written = serde_json::to_string(&document.mechanism).map_err(|e| e.to_string())?;
    match reticent_accounting::training::read(&written, Neighbours::AddRemove) {
        Ok(again) => {
            assert_eq!(again.mechanism, document.mechanism, "{written}");
            Ok(())
        }
        Err(error) => panic!("{written}: {error}"),
    }
}

fn prepared(path: &Path) -> Found {
    let folder = path.parent().unwrap_or(path);
    // Without a key: the owner's would refuse whatever was altered before it is parsed.
    let prepared = reticent_corpus::prepare::Prepared::load(folder, None);
    let prepared = prepared.map_err(|error| error.to_string())?;
    end(PreparedFacts::of_folder(&prepared, folder))
}

fn end<T>(outcome: anyhow::Result<T>) -> Found {
    outcome.map(drop).map_err(|error| describe(&error))
}

/// Every file and folder, by its path from the home.
fn listing(home: &Path) -> std::io::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut folders = vec![home.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path.clone());
            }
            if let Ok(within) = path.strip_prefix(home) {
                found.insert(within.to_path_buf());
            }
        }
    }
    Ok(found)
}

/// Removes what is new.
fn clear(home: &Path, whole: &BTreeSet<PathBuf>) -> Result<(), String> {
    let now = listing(home).map_err(|e| e.to_string())?;
    for path in now.difference(whole) {
        let path = home.join(path);
        let removed = if path.is_dir() {
            std::fs::remove_dir_all(&path)
        } else {
            std::fs::remove_file(&path)
        };
        match removed {
            // With the folder it lay in.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            other => other.map_err(|error| format!("{}: {error}", path.display()))?,
        }
    }
    Ok(())
}

/// A home with one of each file, and this process in it.
fn seeds(home: &Path) -> Result<(), Failure> {
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documents-bddd9d7");
    std::env::set_current_dir(home)?;
    for name in [
        "mechanism.json",
        "dp-event.json",
        "training.toml",
        "labels.jsonl",
        "pairs.csv",
        "secrets.csv",
        "scores.csv",
        "exposure.json",
        "data.jsonl",
    ] {
        std::fs::copy(old.join(name), home.join(name))?;
    }
    std::fs::copy(old.join("exposure.json"), home.join("same.json"))?;
    std::fs::copy(old.join("data.jsonl"), home.join("screened.jsonl"))?;
    std::fs::write(
        "reticent.toml",
        "schema = 1\nunit = \"turn\"\ndelta = 1e-6\n",
    )?;
    let few = format!(
        "{{\"id\":\"a\",\"text\":\"my name is {PRIVATE}\"}}\n{{\"id\":\"b\",\"text\":\"write to ada@example.org\"}}\n"
    );
    std::fs::write("few.jsonl", &few)?;
    let data = std::fs::read_to_string("data.jsonl")?;
    let data: String = data
        .lines()
        .take(3)
        .map(|line| format!("{line}\n"))
        .collect();
    std::fs::write("data.jsonl", few + &data)?;
    for line in [
        "simulate customers --dialogues 4 --out made.jsonl",
        "prepare made.jsonl --policy customers --canaries 1x2 --seed 1 --out prepared",
        "screen screened.jsonl --policy customers --sample 4 --seed 0 --sheet sheet.jsonl",
        "train prepared --recipe dpsgd --sigma 1 --epochs 1 --seed 1 --model gpt2 --layers 1 --width 8 --heads 1 --out ckpt",
    ] {
        audit(line)?;
    }
    // Labelled: nothing is marked.
    let sheet = std::fs::read_to_string("sheet.jsonl")?;
    std::fs::write(
        "sheet.jsonl",
        sheet.replace("\"secrets\":null", "\"secrets\":[]"),
    )?;
    std::fs::copy("ckpt/tokenizer.json", "tokenizer.json")?;
    let tokenizer = reticent_corpus::tokenize::Tokenizer::load_folder(
        Path::new("ckpt"),
        reticent_corpus::tokenize::Origin::Pretrained,
    )?;
    let size = tokenizer.vocabulary_size();
    // A row for each record: a number for each token of it, and for the end.
    let mut rows = Vec::new();
    for text in [
        format!("my name is {PRIVATE}"),
        "write to ada@example.org".to_owned(),
    ] {
        rows.push(vec![-1.5; tokenizer.encode(&text)?.len() + 1]);
    }
    let hello = serde_json::json!({"reticent_scorer": 1, "vocabulary": size, "batch": 8});
    // At the end, each text is asked for again by itself, and then the first half of each.
    let halves: Vec<Vec<f64>> = rows
        .iter()
        .map(|row| row[..row.len() / 2].to_vec())
        .collect();
    let answers = [
        &rows[..],
        &rows[..1],
        &rows[1..],
        &halves[..1],
        &halves[1..],
    ];
    let answers = (1..).zip(answers).map(|(id, rows)| {
        let answer = serde_json::json!({"id": id, "log_probabilities": rows});
        format!("{answer}\n")
    });
    let answers: String = answers.collect();
    std::fs::write("lines.jsonl", format!("{hello}\n{answers}"))?;
    let family = reticent_backends::model::Family::Gpt2;
    let config =
        reticent_backends::model::TransformerConfig::new(family, size, 8, 1, 1, 64).validated()?;
    let weights = config.starting_weights(0);
    reticent_backends::oracle::save_hugging_face(
        Path::new("hf"),
        &config,
        &weights,
        Some(&tokenizer),
    )?;
    Ok(())
}

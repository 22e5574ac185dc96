//! The file, where it is found, and what becomes of it on a command line.

use super::*;
use crate::account::args::Account;
use proptest::prelude::*;
use reticent_accounting::{Delta, Neighbours};
use tempfile::TempDir;

fn folder(text: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("reticent.toml"), text).unwrap();
    folder
}

fn refused(text: &str) -> String {
    let folder = folder(text);
    let error = Project::find(folder.path()).unwrap_err();
    crate::contract::describe(&error)
}

#[test]
fn every_key_is_read_and_said() {
    let folder = folder(
        "schema = 1\ndelta = 1e-5\nneighbours = \"replace\"\nunit = \"turn\"\ngroup = 3\nprior = 1e-6\n\
         tolerance = 1e-4\nconfidence = 0.9\nmax_epsilon = 8\nmax_exposure = 10\n",
    );
    let found = Project::find(folder.path()).unwrap().unwrap();
    assert_eq!(found.name(), "reticent.toml");
    assert_eq!(found.file().delta, Some(Delta::new(1e-5).unwrap()));
    assert_eq!(found.file().neighbours, Some(Neighbours::Replace));
    let keys: Vec<String> = found.values().unwrap().keys().cloned().collect();
    assert_eq!(keys.len(), 9, "{keys:?}");
    let taken = found.took(&["delta", "neighbours", "nothing"]).unwrap();
    let line = taken.line().unwrap();
    assert_eq!(line, "from reticent.toml: delta 1e-5, neighbours replace");
    assert_eq!(found.took(&[]).unwrap(), Configured::default());
    assert_eq!(Configured::default().line(), None);
}

#[test]
fn a_wrong_file_is_one_line_with_place_value_and_range() {
    for (text, said) in [
        (
            "schema = 1\ndelta = 2\n",
            "line 2, delta: delta must lie in [0, 1], got 2",
        ),
        (
            "schema = 1\nneighbours = \"all\"\n",
            "line 2, neighbours: unknown variant `all`, expected one of `add-remove`, `zero-out`, `replace`",
        ),
        ("schema = 1\nconfidence = 1\n", "line 2, confidence: "),
        (
            "schema = 1\nmax_exposure = -1\n",
            "line 2, max_exposure: must be a number of bits in [0, 1074], got -1",
        ),
        (
            "schema = 1\nmax_exposure = nan\n",
            "line 2, max_exposure: must be a number of bits in [0, 1074], got NaN",
        ),
        (
            "schema = 1\nmax_epsilon = inf\n",
            "line 2, max_epsilon: a limit must be finite, got inf",
        ),
        ("schema = 1\nprior = \"often\"\n", "line 2, prior: "),
        ("schema = 1\ngroup = 0\n", "line 2, group: "),
        (
            "schema = 1\nsigma = 1.1\n",
            "line 2, sigma: unknown field `sigma`, expected one of `schema`, `delta`",
        ),
        ("schema = 2\n", "schema must be 1, got 2"),
        ("schema = \"one\"\n", "line 1, schema: "),
        ("schema = 1\ndelta\n", "line 2: "),
    ] {
        let line = refused(text);
        assert!(
            line.starts_with("reticent.toml") && line.contains(said),
            "{line}"
        );
        assert_eq!(line.lines().count(), 1, "{line}");
    }
    assert!(
        refused(&format!("schema = 1\n{}", " ".repeat(1 << 16))).contains("at most 65536 bytes")
    );
}

/// The first schema is meant where none is named.
#[test]
fn the_schema_may_be_left_out() {
    let whole = folder("schema = 1\ndelta = 1e-5\n");
    let short = folder("delta = 1e-5\n");
    let read = |folder: &tempfile::TempDir| Project::find(folder.path()).unwrap();
    assert_eq!(read(&short), read(&whole));
}

#[test]
fn a_document_says_what_was_taken_and_reads_back() {
    use crate::contract::{Envelope, Inputs};
    let folder = folder("schema = 1\ndelta = 1e-5\nneighbours = \"replace\"\n");
    let project = Project::find(folder.path()).unwrap().unwrap();
    let taken = project.took(&["delta", "neighbours"]).unwrap();
    let inputs = Inputs::new()
        .given("delta", 1e-5)
        .unwrap()
        .configured(&taken);
    let text = Envelope::new("guarantees", inputs.clone(), ())
        .to_text()
        .unwrap();
    crate::schema::fits("envelope", &text);
    let back: Envelope<()> = serde_json::from_str(&text).unwrap();
    assert_eq!(back.inputs, inputs);
    assert!(text.contains("\"file\": \"reticent.toml\""), "{text}");
}

#[test]
fn it_is_found_up_to_the_root_of_the_repository_and_no_further() {
    let outside = folder("schema = 1\ndelta = 0.5\n");
    let deep = outside.path().join("repository/a/b");
    std::fs::create_dir_all(&deep).unwrap();
    // No repository: a parent is nobody's.
    assert_eq!(Project::find(&deep).unwrap(), None);
    std::fs::create_dir(outside.path().join("repository/.git")).unwrap();
    assert_eq!(Project::find(&deep).unwrap(), None);
    std::fs::write(
        outside.path().join("repository/reticent.toml"),
        "schema = 1\n",
    )
    .unwrap();
    assert_eq!(
        Project::find(&deep).unwrap().unwrap().name(),
        "../../reticent.toml"
    );
    std::fs::write(deep.join("reticent.toml"), "schema = 1\ndelta = 1e-3\n").unwrap();
    assert_eq!(
        Project::find(&deep).unwrap().unwrap().name(),
        "reticent.toml"
    );
}

#[test]
fn what_is_no_file_is_refused_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("reticent.toml")).unwrap();
    let error = Project::find(folder.path()).unwrap_err().to_string();
    assert_eq!(error, "reticent.toml: must be a file");
    #[cfg(unix)]
    {
        let place = folder.path().join("reticent.toml");
        std::fs::remove_dir(&place).unwrap();
        std::os::unix::fs::symlink("elsewhere", &place).unwrap();
        let error = Project::find(folder.path()).unwrap_err().to_string();
        assert_eq!(error, "reticent.toml: must be a file, got a link");
    }
}

/// The arguments that a command line becomes under a file, and what was taken.
fn under(text: &str, line: &str) -> anyhow::Result<(String, Vec<String>)> {
    under_as::<Account>(text, line)
}

fn under_as<A: TakesDefaults>(text: &str, line: &str) -> anyhow::Result<(String, Vec<String>)> {
    let folder = folder(text);
    let file = folder.path().join("reticent.toml");
    let words = line.split_whitespace().map(Into::into);
    let config = ["--config".into(), file.into_os_string()];
    let (whole, taken) = with_defaults::<A>(words.chain(config).collect())?;
    let keep = |word: &&std::ffi::OsString| {
        !word.to_string_lossy().contains("reticent.toml") && *word != "--config"
    };
    let words: Vec<String> = whole
        .iter()
        .filter(keep)
        .map(|w| w.to_string_lossy().into_owned())
        .collect();
    Ok((words.join(" "), taken.values.keys().cloned().collect()))
}

#[test]
fn a_default_is_the_flag_of_its_name_where_that_could_be_given() {
    let file = "schema = 1\ndelta = 1e-5\nneighbours = \"replace\"\nmax_epsilon = 8\n";
    for (line, whole, taken) in [
        (
            "account --sigma 1.1",
            "account --sigma 1.1 --delta=0.00001 --neighbours=replace --max-epsilon=8.0",
            vec!["delta", "neighbours", "max_epsilon"],
        ),
        // Flags win.
        (
            "account --sigma 1.1 --delta 1e-7 --neighbours zero-out",
            "account --sigma 1.1 --delta 1e-7 --neighbours zero-out --max-epsilon=8.0",
            vec!["max_epsilon"],
        ),
        // What a flag excludes is left out, and so is what needs another flag.
        (
            "account --sigma 1.1 --at-epsilon 2",
            "account --sigma 1.1 --at-epsilon 2 --neighbours=replace",
            vec!["neighbours"],
        ),
        (
            "account curve --sigma 1.1",
            "account curve --sigma 1.1 --neighbours=replace",
            vec!["neighbours"],
        ),
        // What is missing may be a default.
        (
            "account calibrate --epsilon 2",
            "account calibrate --epsilon 2 --delta=0.00001 --neighbours=replace",
            vec!["delta", "neighbours"],
        ),
        (
            "account completions bash",
            "account completions bash",
            vec![],
        ),
        ("account --help", "account --help", vec![]),
        ("account --sigma nan", "account --sigma nan", vec![]),
    ] {
        let (found, keys) = under(file, line).unwrap();
        assert_eq!(
            (found.as_str(), keys),
            (whole, taken.into_iter().map(str::to_owned).collect())
        );
    }
}

/// What other flags exclude is not taken from the file, and not said to be: the size that is looked for, and neighbours of
/// questions that have their own.
#[test]
fn what_other_flags_exclude_has_no_default() {
    let file = "delta = 1e-5\ngroup = 3\nneighbours = \"replace\"\nprior = 1e-6\n";
    for (line, taken) in [
        (
            "account curve --sigma 1.1 --over steps --at 10,20",
            vec!["delta", "neighbours", "group"],
        ),
        (
            "account calibrate --epsilon 8 --sigma 1 --solve group",
            vec!["delta", "neighbours"],
        ),
        (
            "account calibrate --epsilon 8 --sigma 1 --solve steps",
            vec!["delta", "neighbours", "group"],
        ),
        // What is missing is a default that comes behind the one that is excluded.
        (
            "account calibrate --posterior 1e-3 --sigma 1 --solve group",
            vec!["prior"],
        ),
        (
            "account calibrate --by papers --epsilon 3",
            vec!["delta", "group"],
        ),
        (
            "account calibrate --by renyi --epsilon 3",
            vec!["delta", "neighbours", "group"],
        ),
        (
            "account curve --sigma 1.1 --what blow-up --at 1e-6",
            vec!["group"],
        ),
        (
            "account curve --sigma 1.1 --what epsilon --at 1e-6",
            vec!["neighbours", "group"],
        ),
        (
            "account curve --sigma 1.1 --over gamma --at 0.1",
            vec!["delta", "group"],
        ),
    ] {
        let (whole, keys) = under(file, line).unwrap();
        assert_eq!(keys, taken, "{line}");
        for key in ["delta", "neighbours", "group", "prior"] {
            let inserted = whole.contains(&format!("--{key}="));
            assert_eq!(inserted, taken.contains(&key), "{line}: {whole}");
        }
    }
    // A flag of the same name is refused as before.
    let line = "account curve --sigma 1.1 --what blow-up --at 1e-6 --neighbours replace";
    let (whole, keys) = under(file, line).unwrap();
    assert!(whole.contains("--neighbours replace"), "{whole}");
    assert_eq!(keys, ["group"]);
}

/// A limit on answers is not the exposure that a calibration solves for.
#[test]
fn a_limit_is_no_goal_of_a_calibration() {
    let line = "account calibrate --chance 0.01 --sample-rate 0.01 --steps 500";
    let (whole, keys) = under("max_exposure = 10\n", line).unwrap();
    assert_eq!((whole.as_str(), keys), (line, Vec::new()));
}

/// The file that the book shows, with every key.
fn of_the_book() -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/src/defaults.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, file) = page.split_once("```toml reticent.toml\n").unwrap();
    file.split_once("```").unwrap().0.to_owned()
}

/// The examples of a command and of everything below it.
fn examples(command: &clap::Command) -> Vec<String> {
    let help = command.get_after_help().map(ToString::to_string);
    let help = help.unwrap_or_default();
    let (_, own) = help.split_once("Example").unwrap_or_default();
    let own = own.lines().skip(1).map(str::trim);
    let own = own.map(|line| line.split('>').next().unwrap_or(line).to_owned());
    let below = command.get_subcommands().flat_map(examples);
    own.filter(|line| !line.is_empty()).chain(below).collect()
}

fn takes_the_file_of_the_book<A: TakesDefaults>() {
    let file = of_the_book();
    let lines = examples(&A::command());
    assert!(lines.len() > 10, "{lines:?}");
    for line in lines {
        let (whole, _) = under_as::<A>(&file, &line).unwrap_or_else(|e| panic!("{line}: {e}"));
        let parsed = A::try_parse_from(whole.split_whitespace());
        assert!(parsed.is_ok(), "{line}: {whole}");
    }
}

#[test]
fn every_example_of_account_takes_the_file_of_the_book() {
    takes_the_file_of_the_book::<Account>();
}

#[cfg(feature = "findings")]
#[test]
fn every_example_of_audit_takes_the_file_of_the_book() {
    takes_the_file_of_the_book::<crate::audit::args::Audit>();
}

/// What a prepared folder or each secret has of its own is not taken.
#[test]
fn a_plan_takes_no_default_that_it_has_of_its_own() {
    let prepared = "account --prepared p --sigma 1 --epochs 1";
    let protect = "account --prepared p --recipe protect --weights w.json --incidence i.csv";
    let both = ["delta", "group", "tolerance", "max_epsilon"];
    for (line, more) in [(prepared, Some("prior")), (protect, None)] {
        let (_, keys) = under(&of_the_book(), line).unwrap();
        let others: Vec<&str> = keys.iter().map(String::as_str).collect();
        let expected: Vec<&str> = both[..2].iter().copied().chain(more).collect();
        assert_eq!(others, [&expected[..], &both[2..]].concat(), "{line}");
    }
}

/// A key that means something else in a command, or that it can't use, is not taken: `--neighbours` of `audit membership`
/// names a file.
#[cfg(feature = "findings")]
#[test]
fn an_audit_takes_no_default_that_it_cannot_use() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.jsonl");
    let prepared = folder.path().join("prepared");
    std::fs::create_dir(&prepared).unwrap();
    std::fs::write(prepared.join("prepared.json"), "{}").unwrap();
    let [text, prepared] = [&text, &prepared].map(|path| path.to_str().unwrap());
    for (line, of_text, of_folder) in [
        (
            "membership --model m --non-members b --members",
            vec!["unit", "confidence"],
            vec!["confidence"],
        ),
        (
            "membership --model m --members b --non-members",
            vec!["unit", "confidence"],
            vec!["confidence"],
        ),
        (
            "membership --model m --members a --non-members b --training",
            vec!["unit", "confidence"],
            vec!["confidence"],
        ),
        (
            "extract --model m --data a --training",
            vec!["unit", "confidence"],
            vec!["confidence"],
        ),
        ("perplexity --model m --data", vec!["unit"], vec![]),
        ("classify --model m --data", vec!["unit"], vec![]),
        (
            "extract --model m --data",
            vec!["unit", "confidence"],
            vec!["confidence"],
        ),
        (
            "incidence --policy detectors --out i.csv",
            vec!["unit"],
            vec![],
        ),
        (
            "exposure --model m --canary-file c --training",
            vec!["delta", "confidence", "max_exposure"],
            vec!["delta", "confidence", "max_exposure"],
        ),
        (
            "exposure --model m --sample 9 --canary-file c --training",
            vec!["confidence", "max_exposure"],
            vec!["confidence", "max_exposure"],
        ),
    ] {
        for (data, expected) in [(text, of_text), (prepared, of_folder)] {
            let line = format!("audit {line} {data}");
            let (_, keys) = under_as::<crate::audit::args::Audit>(&of_the_book(), &line).unwrap();
            assert_eq!(keys, expected, "{line}");
        }
    }
    // A flag is taken as before.
    let line = "audit membership --model m --members a --non-members b --neighbours replace";
    let (whole, _) = under_as::<crate::audit::args::Audit>(&of_the_book(), line).unwrap();
    assert!(whole.contains("--neighbours replace"), "{whole}");
}

#[test]
fn nothing_is_taken_where_none_is_wanted() {
    let line = ["account", "--sigma", "1", "--config=none"].map(Into::into);
    let (whole, taken) = with_defaults::<Account>(line.to_vec()).unwrap();
    assert_eq!((whole.len(), taken.is_empty()), (4, true));
    let missing = ["account", "--sigma", "1", "--config", "nowhere.toml"].map(Into::into);
    let error = with_defaults::<Account>(missing.to_vec()).unwrap_err();
    let said = crate::contract::describe(&error);
    assert!(
        said.starts_with("--config: cannot read nowhere.toml"),
        "{said}"
    );
}

/// The schema of a corpus knows fewer units than a promise does.
#[cfg(feature = "findings")]
#[test]
fn a_value_that_a_command_refuses_names_file_and_key() {
    use crate::audit::args::Audit;
    let folder = folder("schema = 1\nunit = \"patient\"\n");
    let file = folder.path().join("reticent.toml");
    let mut line: Vec<std::ffi::OsString> = ["audit", "policy", "data.jsonl", "--config"]
        .map(Into::into)
        .to_vec();
    line.push(file.clone().into());
    let error = with_defaults::<Audit>(line).unwrap_err().to_string();
    let (place, why) = error.split_once(", unit: ").unwrap();
    assert_eq!(std::path::Path::new(place), file);
    assert!(
        why.contains("turn, sentence, dialogue or document") || why.contains("turn"),
        "{why}"
    );
}

proptest! {
    /// Whatever stands in the file: an answer or one line, never a panic.
    #[test]
    fn any_file_is_an_answer_or_one_line(text in "(schema = 1\n)?((delta|prior|unit|group|max_epsilon|x) = [-0-9a-z.\"]{0,8}\n){0,3}") {
        let folder = folder(&text);
        if let Err(error) = Project::find(folder.path()) {
            prop_assert_eq!(crate::contract::describe(&error).lines().count(), 1);
        }
    }
}

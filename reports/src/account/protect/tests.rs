//! Files in, documents out; bad files by name, line and value.

use super::args::Protect;
use super::input::Input;
use super::read::{Gathered, read_secrets};
use super::{document, figure, page, run};
use crate::account::args::{Account, Command};
use crate::contract::Envelope;
use crate::contract::Format;
use crate::number::rounded_up;
use crate::page::{Output, View};
use crate::schema::fits;
use clap::Parser;
use reticent_accounting::{Bounds, NoiseMultiplier, Upper};
use std::path::{Path, PathBuf};

fn wish(line: &str) -> Protect {
    let arguments = Account::try_parse_from(line.split_whitespace()).unwrap();
    let Some(Command::Protect(wish)) = arguments.command else {
        panic!("{line} is no protection");
    };
    *wish
}

/// A folder with a file for each name.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

const PAIRS: &str = "example,secret\na,key\nb,key\nb,\"name, first\"\nc,\"name, first\"\nd,\n";
const LINES: &str = r#"{"example":"a","secrets":["key"]}
{"example":"b","secrets":["key","name, first"]}

{"id":"c","secrets":"name, first"}
{"id":"d","secrets":[]}
"#;
const SECRETS: &str =
    "id,prior,posterior,kind\nkey,1e-9,1e-3,credential\n\"name, first\",1e-4,1e-2,person\n";

fn gathered(path: &Path, field: Option<&str>) -> anyhow::Result<(Gathered, Vec<Vec<u32>>)> {
    let mut gathered = Gathered::new(None, false);
    gathered.read(path, field)?;
    let incidence = gathered.incidence(None)?;
    let rows = 0..incidence.example_count();
    let rows = rows.map(|e| incidence.secrets_of(e).to_vec()).collect();
    Ok((gathered, rows))
}

#[test]
fn csv_and_json_lines_say_the_same() {
    let folder = folder(&[("pairs.csv", PAIRS), ("lines.jsonl", LINES)]);
    for name in ["pairs.csv", "lines.jsonl"] {
        let (gathered, rows) = gathered(&folder.path().join(name), None).unwrap();
        assert_eq!(rows, [vec![0], vec![0, 1], vec![1], vec![]], "{name}");
        let names = |names: &[Box<str>]| names.join("|");
        assert_eq!(names(gathered.examples.all()), "a|b|c|d");
        assert_eq!(names(gathered.secrets.all()), "key|name, first");
    }
}

#[test]
fn a_field_of_records_names_their_secrets() {
    let records = "{\"id\":7,\"author\":\"ann\",\"text\":\"x\"}\n{\"author\":[\"bob\",\"ann\"]}\n{\"text\":\"y\"}\n";
    let table = "id,author\n7,ann\n8,bob\n9,\n";
    let folder = folder(&[("records.jsonl", records), ("records.csv", table)]);
    let (named, rows) = gathered(&folder.path().join("records.jsonl"), Some("author")).unwrap();
    assert_eq!(rows, [vec![0], vec![0, 1], vec![]]);
    assert_eq!(named.examples.all().join("|"), "7|line-2|line-3");
    let (_, rows) = gathered(&folder.path().join("records.csv"), Some("author")).unwrap();
    assert_eq!(rows, [vec![0], vec![1], vec![]]);
}

#[test]
fn a_table_in_another_encoding_is_refused_with_advice() {
    for (bytes, said) in [
        (
            &b"example,secret\na,J\xfcrgen\n"[..],
            "line 2: invalid UTF-8 in field 2; convert it to UTF-8 from its encoding, for example iconv -f LATIN1",
        ),
        (b"\xff\xfee\0x\0\n\0", "iconv -f UTF-16"),
    ] {
        let folder = folder(&[]);
        let path = folder.path().join("x.csv");
        std::fs::write(&path, bytes).unwrap();
        let error = gathered(&path, None).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

/// People spell one name in several ways: each too many would be a secret in fewer records.
#[test]
fn spellings_of_a_field_are_one_secret() {
    let csv = "id,author\n0,Ada King\n1,Ada King \n2,ada king\n3,Ada  King\n4,ADA\u{a0}KING\n5,Zo\u{eb}\n6,Zoe\u{308}\n7, \n";
    let lines: String = csv
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(','))
        .map(|(id, author)| format!("{{\"id\":\"{id}\",\"author\":\"{author}\"}}\n"))
        .collect();
    let table = "id,prior,posterior\nZO\u{cb},1e-9,1e-3\nada king,1e-9,1e-3\n";
    let folder = folder(&[("a.csv", csv), ("a.jsonl", &lines), ("s.csv", table)]);
    for name in ["a.csv", "a.jsonl"] {
        let path = folder.path().join(name);
        let (named, rows) = gathered(&path, Some("author")).unwrap();
        assert_eq!(named.secrets.all().join("|"), "Ada King|Zo\u{eb}", "{name}");
        let secrets: Vec<usize> = rows.iter().map(Vec::len).collect();
        assert_eq!(secrets, [1, 1, 1, 1, 1, 1, 1, 0], "{name}");
        let table = folder.path().join("s.csv");
        let (names, _) = read_secrets(&table, Some("author")).unwrap();
        let mut listed = Gathered::new(Some(names), false);
        listed.read(&path, Some("author")).unwrap();
        assert_eq!(listed.secrets.all().len(), 2, "{name}");
    }
    // Names of secrets are names: each is another.
    let twice = "id,prior,posterior\nAda,1e-9,1e-3\nada,1e-9,1e-3\n";
    std::fs::write(folder.path().join("s.csv"), twice).unwrap();
    let read = |field| read_secrets(&folder.path().join("s.csv"), field);
    assert!(read(None).is_ok());
    let error = read(Some("author")).unwrap_err().to_string();
    assert!(error.contains("line 3: its id occurred before"), "{error}");
}

#[test]
fn bad_lines_are_reported_with_file_line_and_value() {
    for (name, content, said) in [
        (
            "x.csv",
            "example,key\na,b\n",
            "x.csv, line 1: no column secret",
        ),
        ("x.csv", "example,secret\na,b\nc\n", "x.csv, line 3"),
        (
            "x.csv",
            "example,secret\r\n,b\r\n",
            "x.csv, line 2: the example has no name",
        ),
        (
            "x.csv",
            "example;secret\na;b\n",
            "not by semicolons; convert it",
        ),
        (
            "x.csv",
            "example,secret\n,b\n",
            "x.csv, line 2: the example has no name",
        ),
        (
            "x.jsonl",
            "{\"example\":1,\"secrets\":[]}\n[1]\n",
            "x.jsonl, line 2: no JSON object",
        ),
        (
            "x.jsonl",
            "{\"example\":1}\n",
            "x.jsonl, line 1: no key \"secrets\"",
        ),
        (
            "x.jsonl",
            "{\"example\":1,\"secrets\":[{}]}\n",
            "line 1: secrets must be a list of names or one: text or a whole number of at most 64 bits",
        ),
        (
            "x.csv",
            "example,secret,secret\na,b,c\n",
            "x.csv, line 1: the column secret occurs twice",
        ),
        (
            "x.csv",
            "example,secret, example \na,b,c\n",
            "x.csv, line 1: the column example occurs twice",
        ),
        (
            "x.jsonl",
            "{\"example\":1,\"secrets\":[\"a\"],\"secret\":\"b\"}\n",
            "x.jsonl, line 1: has both keys \"secrets\" and \"secret\"",
        ),
        (
            "x.jsonl",
            "{\"example\":1,\"secrets\":[\"a\"]}\n{\"example\":2,\"secrets\":[\"a\"],\"secrets\":[]}\n",
            "x.jsonl, line 2: a key occurs twice in one object",
        ),
        (
            "x.jsonl",
            "{\"example\":18446744073709551616,\"secrets\":[\"a\"]}\n",
            "x.jsonl, line 1: example must be text or a whole number of at most 64 bits",
        ),
        (
            "x.jsonl",
            "{\"example\":1,\"secrets\":[0.10000000000000001]}\n",
            "line 1: secrets must be a list of names or one",
        ),
        ("x.txt", "", "must end in .csv, .jsonl or .parquet"),
    ] {
        let folder = folder(&[(name, content)]);
        let error = format!(
            "{:#}",
            gathered(&folder.path().join(name), None).unwrap_err()
        );
        assert!(error.contains(said), "{error}");
    }
    for (content, said) in [
        (
            "id,prior,posterior\nk,2,0.1\n",
            "s.csv, line 2: prior must be a number in [0, 1]",
        ),
        (
            "id,prior,posterior\nk,0.1,much\n",
            "line 2: posterior must be a number in [0, 1]",
        ),
        (
            "id,prior,posterior\nk,0.1,0.05\n",
            "line 2: posterior must lie in (prior, 1), got 0.05",
        ),
        (
            "id,prior,posterior\nk,0,0.05\n",
            "line 2: prior must lie in (0, posterior), got 0",
        ),
        (
            "id,prior,posterior\nk,0.1,0.2\nk,0.1,0.2\n",
            "line 3: its id occurred before",
        ),
        (
            "id,prior,posterior\nk,0.1,0.2\n k ,0.1,0.2\n",
            "line 3: its id occurred before",
        ),
        (
            "id,prior,posterior,posterior\nk,0.1,0.2,0.9\n",
            "line 1: the column posterior occurs twice",
        ),
        ("id,prior\nk,0.1\n", "line 1: no column posterior"),
        ("id,prior,posterior\n", "there is no secret in it"),
    ] {
        let folder = folder(&[("s.csv", content)]);
        let error = format!(
            "{:#}",
            read_secrets(&folder.path().join("s.csv"), None).unwrap_err()
        );
        assert!(error.contains(said), "{error}");
    }
}

/// What is read of JSON is what stands there: whole numbers as names, any number as a chance.
#[test]
fn numbers_of_json_are_read_as_they_are_written() {
    let lines = "{\"example\":9007199254740993,\"secrets\":[18446744073709551615]}\n\
                 {\"example\":9007199254740992,\"secrets\":[18446744073709551614]}\n";
    let folder = folder(&[
        ("x.jsonl", lines),
        ("s.jsonl", "{\"id\":7,\"prior\":1e-9,\"posterior\":0.5}\n"),
        ("t.jsonl", "{\"id\":7.5,\"prior\":1e-9,\"posterior\":0.5}\n"),
        ("u.jsonl", "{\"prior\":1e-9,\"posterior\":0.5}\n"),
    ]);
    let at = |name: &str| folder.path().join(name);
    let (named, rows) = gathered(&at("x.jsonl"), None).unwrap();
    assert_eq!(rows, [vec![0], vec![1]]);
    assert_eq!(
        named.examples.all().join("|"),
        "9007199254740993|9007199254740992"
    );
    let (names, promises) = read_secrets(&at("s.jsonl"), None).unwrap();
    assert_eq!(names.all().join("|"), "7");
    assert!((promises[0].secret.prior().get() - 1e-9).abs() < 1e-24);
    for (name, said) in [
        (
            "t.jsonl",
            "t.jsonl, line 1: id must be text or a whole number",
        ),
        ("u.jsonl", "u.jsonl, line 1: no key \"id\""),
    ] {
        let error = read_secrets(&at(name), None).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

/// A space beside a comma makes no other example and no other secret.
#[test]
fn cells_of_csv_are_trimmed() {
    let folder = folder(&[
        (
            "pairs.csv",
            "example, secret\na, key\na ,key\nb,key \nc, \n",
        ),
        (
            "secrets.csv",
            "id, prior, posterior, kind\nkey , 1e-9, 1e-3, person\n",
        ),
    ]);
    let (named, rows) = gathered(&folder.path().join("pairs.csv"), None).unwrap();
    assert_eq!(rows, [vec![0], vec![0], vec![]]);
    assert_eq!(named.secrets.all().join("|"), "key");
    let (names, promises) = read_secrets(&folder.path().join("secrets.csv"), None).unwrap();
    assert_eq!(
        (names.all().join("|"), promises[0].kind.as_str()),
        ("key".to_owned(), "person")
    );
}

/// Under --field every row is a record: two of one name would count as one, and a secret as in fewer records.
#[test]
fn records_of_one_name_are_refused() {
    let twice = "its id is already that of line 1; ids must be unique";
    for (name, content, said) in [
        (
            "x.jsonl",
            "{\"id\":\"n1\",\"author\":\"ann\"}\n{\"id\":\"n1\",\"author\":\"ann\"}\n",
            format!("x.jsonl, line 2: {twice}"),
        ),
        (
            "x.jsonl",
            "{\"id\":1}\n{\"id\":\"1\",\"author\":\"ann\"}\n",
            format!("x.jsonl, line 2: {twice}"),
        ),
        (
            "x.jsonl",
            "{\"id\":\"line-2\",\"author\":\"ann\"}\n{\"author\":\"ann\"}\n",
            "line 2: it has no id, and line-2, after its line, is that of line 1".to_owned(),
        ),
        (
            "x.jsonl",
            "{\"author\":\"ann\"}\n{\"id\":\"line-1\",\"author\":\"ann\"}\n",
            format!("x.jsonl, line 2: {twice}"),
        ),
        (
            "x.csv",
            "id,author\nn1,ann\n n1,ann\n",
            "x.csv, line 3: its id is already that of line 2; ids must be unique".to_owned(),
        ),
    ] {
        let folder = folder(&[(name, content)]);
        for discards in [false, true] {
            let mut found = Gathered::new(None, discards);
            let read = found.read(&folder.path().join(name), Some("author"));
            let error = read.unwrap_err().to_string();
            assert!(error.contains(&said), "{error}");
        }
    }
    // Pairs name an example as often as it has secrets.
    let folder = folder(&[("x.csv", "example,secret\na,b\na,c\n")]);
    assert!(gathered(&folder.path().join("x.csv"), None).is_ok());
}

/// The arguments of a run on the two small files, and the folder they lie in.
fn small(more: &str) -> (tempfile::TempDir, Protect) {
    let folder = folder(&[("pairs.csv", PAIRS), ("secrets.csv", SECRETS)]);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let line = format!(
        "account protect --incidence {} --secrets {} --batch-size 2 --steps 50 --dataset-size 40 --tolerance 1e-2 {more}",
        path("pairs.csv"),
        path("secrets.csv"),
    );
    let wish = wish(&line);
    (folder, wish)
}

/// Examples without a secret are never drawn, whether the incidence names them or not; batches are filled by the others.
#[test]
fn examples_without_a_secret_are_discarded() {
    let (folder, kept) = small("");
    let weights = |wish: Protect| {
        let file = folder.path().join("weights.json");
        let wish = Protect {
            weights: Some(file.clone()),
            ..wish
        };
        super::run(&wish, Output::new(Format::Csv, View::full())).unwrap();
        let written = super::weights::Weights::read(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        written
    };
    let names = |w: &super::weights::Weights| -> Vec<String> {
        w.records.iter().map(|(id, ..)| id.to_string()).collect()
    };
    let drawn = |w: &super::weights::Weights| -> f64 {
        w.records.iter().map(|(_, _, rate)| rate).sum::<f64>()
            + w.other_rate * w.other_records as f64
    };
    let all = weights(kept.clone());
    assert_eq!((names(&all).len(), all.other_records), (4, 36));
    assert!(all.other_rate > 0.0);
    let without = weights(Protect {
        discard_others: true,
        ..kept
    });
    assert_eq!(names(&without), ["a", "b", "c"]);
    assert_eq!((without.other_records, without.other_rate), (37, 0.0));
    for written in [&all, &without] {
        assert!((drawn(written) - 2.0).abs() < 1e-6, "{}", drawn(written));
    }
    assert!(without.noise_multiplier > all.noise_multiplier);
    let counts = "account protect --counts 50 --prior 1e-10 --posterior 1e-3 --batch-size 4 --steps 5 --dataset-size 900";
    assert!(Account::try_parse_from(counts.split_whitespace()).is_ok());
    // Synthetic secrets are in no record of which weights could tell: refused before anything is computed or written.
    for other in ["--discard-others", "--weights w.json"] {
        let counts = format!("{counts} {other}");
        assert!(Account::try_parse_from(counts.split_whitespace()).is_err());
    }
}

#[test]
fn a_secret_outside_the_table_is_refused_by_line() {
    let (folder, wish) = small("");
    std::fs::write(
        folder.path().join("pairs.csv"),
        "example,secret\na,key\nb,other\n",
    )
    .unwrap();
    let error = format!("{:#}", Input::gather(&wish).unwrap_err());
    assert!(
        error.starts_with("--incidence: ")
            && error.ends_with("pairs.csv, line 3: its secret is not in the table of secrets"),
        "{error}"
    );
    let exchanged = Protect {
        incidence: wish.secrets.clone(),
        secrets: wish.incidence.clone(),
        ..wish
    };
    let error = format!("{:#}", Input::gather(&exchanged).unwrap_err());
    assert!(error.starts_with("--secrets: "), "{error}");
}

#[test]
fn every_document_fits_its_schema() {
    let counts = "account protect --counts 3,5 --prior 1e-6 --posterior 1e-3 --batch-size 10 --dataset-size 1000 --steps 4000 --tolerance 1e-2";
    let (_keep, from_files) = small("--c 40");
    for wish in [
        wish(counts),
        wish(&format!("{counts} --c 300 --joint")),
        from_files,
    ] {
        let input = Input::gather(&wish).unwrap();
        all_formats_agree(&run::protect(&wish, &input).unwrap().document);
    }
}

/// The noise is for a batch and a number of steps, which no format named.
#[test]
fn the_answer_names_its_run() {
    let wish = wish(
        "account protect --counts 4 --prior 1e-8 --posterior 1e-4 --batch-size 8 --dataset-size 600 --steps 4000",
    );
    let input = Input::gather(&wish).unwrap();
    let page = page::page(&run::protect(&wish, &input).unwrap().document);
    for text in [
        page.to_text(View {
            verbose: false,
            width: 200,
        }),
        page.to_model_card("protection"),
    ] {
        for said in [
            "Secret protection: expected batch 8, 4\u{202f}000 steps; 1 secret in 4 of 600 examples",
            "Inputs: counts [4], prior 1e-8, posterior [0.0001], batch size 8, steps 4000, dataset size 600",
        ] {
            assert!(text.contains(said), "{said}\n{text}");
        }
    }
}

/// As JSON, as a page, as CSV.
fn all_formats_agree(found: &Envelope<document::Protection>) {
    let json = found.to_text().unwrap();
    fits("protection", &json);
    let back: Envelope<document::Protection> = serde_json::from_str(&json).unwrap();
    assert_eq!(back.body, found.body);
    let text = page::page(found).to_text(View::full());
    assert!(text.contains("arbitrarily"), "{text}");
    assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
    let csv = page::csv(&found.body).unwrap();
    assert_eq!(csv.lines().count(), 1 + found.body.settings.len());
}

#[test]
fn a_sweep_ends_without_preprocessing_and_its_noise_falls_with_c() {
    let wish = wish(
        "account protect --counts 4,16 --prior 1e-8 --posterior 1e-4 --batch-size 8 --dataset-size 600 \
         --steps 4000 --sweep --tolerance 1e-2",
    );
    let input = Input::gather(&wish).unwrap();
    let document = run::protect(&wish, &input).unwrap().document;
    all_formats_agree(&document);
    assert!(page::page(&document).to_text(View::full()).contains("2^-6"));
    let body = document.body;
    let exponents: Vec<_> = body
        .settings
        .iter()
        .filter_map(|row| row.exponent)
        .collect();
    assert_eq!(exponents, (-6..=4).collect::<Vec<_>>());
    let last = body.settings.last().unwrap();
    assert_eq!(last.kept, 600);
    assert!(*last.mass.lower.unwrap().get() > 599.999);
    for pair in body.settings.windows(2) {
        let mass = |row: &document::Setting| *row.mass.lower.unwrap().get();
        let noise = |row: &document::Setting| row.kl_fano_sigma.unwrap().get().get();
        assert!(mass(&pair[0]) <= mass(&pair[1]) * (1.0 + 1e-6));
        assert!(noise(&pair[0]) <= noise(&pair[1]) * (1.0 + 1e-2));
    }
    let drawn = figure::noise_against_kept(&body).unwrap().to_svg().unwrap();
    assert!(drawn.starts_with("<svg") && drawn.contains("blow-up (tight)"));
}

/// A proof that is only compared may need more noise than is considered: its cells are empty, and the answer stands.
#[test]
fn a_comparison_out_of_reach_leaves_the_answer() {
    let wish = wish(
        "account protect --counts 3 --dataset-size 1000 --batch-size 100 --steps 100 --prior 2.9e-40 --posterior 1e-16",
    );
    let input = Input::gather(&wish).unwrap();
    let document = run::protect(&wish, &input).unwrap().document;
    let json = document.to_text().unwrap();
    fits("protection", &json);
    assert!(json.contains("\"kl_fano_sigma\": null"), "{json}");
    let setting = &document.body.settings[0];
    let upper = setting.sigma.upper.unwrap().get().get();
    assert!((1.0..1.1).contains(&upper), "{upper}");
    let own = document.body.secrets[0].own.as_ref().unwrap();
    assert_eq!((own.kl_fano, setting.kl_fano_sigma), (None, None));
    let shown = page::page(&document).to_text(View::full());
    assert!(shown.contains("Fano, KL"), "{shown}");
    assert!(!page::csv(&document.body).unwrap().contains("null"));
}

/// A table beside a field that no record has, or beside an incidence without secrets, needed no noise: its promises
/// counted as kept. Secrets of the table that are in no example are counted in the answer.
#[test]
fn a_table_of_secrets_that_no_example_contains_is_refused() {
    let records: String = ["key", "key", "other", ""]
        .iter()
        .enumerate()
        .map(|(number, name)| format!("{{\"id\":\"r{number}\",\"author\":\"{name}\"}}\n"))
        .collect();
    let table =
        "id,prior,posterior\nkey,1e-6,1e-3\nother,1e-6,1e-3\nthird,1e-6,1e-3\nlast,1e-6,1e-3\n";
    let folder = folder(&[
        ("notes.jsonl", records.as_str()),
        ("none.csv", "example,secret\na,\nb,\n"),
        ("secrets.csv", table),
    ]);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let read = |incidence: &str, more: &str| {
        let wish = wish(&format!(
            "account protect --incidence {} --secrets {} --batch-size 2 --steps 20 --tolerance 1e-2 {more}",
            path(incidence),
            path("secrets.csv")
        ));
        Input::gather(&wish).map(|input| (wish, input))
    };
    let error = read("notes.jsonl", "--field autor").unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "--field: no record of {} has a value under \"autor\"",
            path("notes.jsonl")
        )
    );
    let error = read("none.csv", "").unwrap_err().to_string();
    assert!(error.ends_with("none.csv contains no secret"), "{error}");
    let (wish, input) = read("notes.jsonl", "--field author").unwrap();
    let document = run::protect(&wish, &input).unwrap().document;
    assert_eq!(document.body.incidence.in_no_example, 2);
    let text = page::page(&document).to_text(View::full());
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = "2 of the 4 secrets are in no example of the incidence: one that the text contains all the same is not covered.";
    assert!(text.contains(said), "{text}");
    let json = document.to_text().unwrap();
    fits("protection", &json);
    let (_keep, all) = small("");
    let input = Input::gather(&all).unwrap();
    let document = run::protect(&all, &input).unwrap().document;
    assert_eq!(document.body.incidence.in_no_example, 0);
    assert!(!page::page(&document).said().contains("in no example"));
}

/// Divergences that nothing can be divided by are refused with the flag that was given.
#[test]
fn chances_among_the_smallest_numbers_are_refused_by_name() {
    let wish = wish(
        "account protect --counts 1,3 --dataset-size 300 --batch-size 30 --steps 20 --prior 1e-320 --posterior 1e-319",
    );
    let error = Input::gather(&wish).unwrap_err().to_string();
    assert!(
        error.starts_with("--posterior: posterior must lie in"),
        "{error}"
    );
}

/// As the tables and files: that of the joint choice where there is one, and of a sweep the least.
#[test]
fn the_headline_names_the_noise_that_is_recommended() {
    let (_keep, wish) = small("");
    let input = Input::gather(&wish).unwrap();
    let mut found = run::protect(&wish, &input).unwrap().document;
    let says = |found: &Envelope<document::Protection>| {
        let text = page::page(found).to_text(View::full());
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let own = found.body.settings[0].sigma.upper.unwrap().get().get();
    let said = format!(
        "Sigma {} keeps every secret's promise, at c = ",
        rounded_up(own, 5)
    );
    assert!(says(&found).contains(&said), "{said}");
    // The binding secret needs as much alone.
    let setting = &found.body.settings[0];
    let binds = |row: &&document::Row| Some(&row.id) == setting.binding.as_ref();
    let row = found.body.secrets.iter().find(binds).unwrap();
    assert_eq!(row.own.as_ref().unwrap().blow_up, setting.sigma);
    // The least constant that binds nothing is said once.
    let full = 37013.4;
    (found.body.full_c, found.body.settings[0].c) = (full, full);
    found.body.secrets.truncate(1);
    let said = says(&found);
    assert!(said.contains("at c = 37014. From c = 37014 on"), "{said}");
    assert!(
        said.contains("the chance of guessing is the best anyone"),
        "{said}"
    );
    let noise = |sigma: f64| Bounds {
        lower: None,
        upper: Some(Upper::new(NoiseMultiplier::new(sigma).unwrap())),
    };
    let joint = |exponent: i32, sigma: f64, together: f64| document::Setting {
        exponent: Some(exponent),
        sigma: noise(sigma),
        joint: Some(document::Joint {
            kept: 37,
            mass: 36.0,
            sigma: noise(together),
            noise_saved: 1.0 - together / sigma,
        }),
        ..found.body.settings[0].clone()
    };
    found.body.settings = vec![joint(-6, 1.75, 1.625), joint(-5, 2.0, 1.5)];
    let said = "Sigma 1.5000 keeps every secret's promise, with weights chosen together with it, of the sum that c = \
                2^-5 gives. From c = ";
    assert!(says(&found).contains(said), "{}", says(&found));
    let rows = &found.body.settings;
    assert_eq!(
        run::so_far(&rows[1], -5, 2, std::time::Duration::from_secs(3)),
        "sweep 2/11: sigma 1.5000 at c = 2^-5; about 13 s left"
    );
}

/// Small constants leave weights for no batch of the size asked for: the others keep their rows.
#[test]
fn a_sweep_marks_what_no_batch_can_be_drawn_by() {
    let wish = wish(
        "account protect --counts 4,16,400 --prior 1e-8 --posterior 1e-4 --batch-size 250 --dataset-size 600 \
         --steps 40 --sweep --tolerance 1e-2",
    );
    let input = Input::gather(&wish).unwrap();
    let document = run::protect(&wish, &input).unwrap().document;
    let json = document.to_text().unwrap();
    fits("protection", &json);
    let text = page::page(&document).to_text(View::full());
    assert!(text.contains("infeasible"), "{text}");
    let body = document.body;
    let marked: Vec<i32> = body.infeasible.iter().map(|row| row.exponent).collect();
    let kept: Vec<i32> = body
        .settings
        .iter()
        .filter_map(|row| row.exponent)
        .collect();
    let all: Vec<i32> = marked.iter().chain(&kept).copied().collect();
    assert_eq!(all, (-6..=4).collect::<Vec<_>>());
    assert!(!marked.is_empty() && body.infeasible.iter().all(|row| row.mass <= 250.0));
}

#[test]
fn posteriors_and_weights_are_written_whole() {
    let (folder, wish) = small("");
    let out = |name: &str| folder.path().join(name);
    let wish = Protect {
        out: Some(out("posteriors.csv")),
        weights: Some(out("weights.json")),
        ..wish
    };
    super::run(&wish, Output::new(Format::Csv, View::full())).unwrap();
    let posteriors = std::fs::read_to_string(out("posteriors.csv")).unwrap();
    let lines: Vec<&str> = posteriors.lines().collect();
    assert_eq!(
        lines[0],
        "id,kind,prior,promise,examples,mean_draws,blow_up,kl_fano,renyi_fano"
    );
    assert!(
        lines[1].starts_with("key,credential,1e-9,0.001,2,"),
        "{}",
        lines[1]
    );
    assert!(
        lines[2].starts_with("\"name, first\",person,"),
        "{}",
        lines[2]
    );
    for line in &lines[1..] {
        let cells: Vec<&str> = line.rsplit(',').take(7).collect();
        let number = |at: usize| cells[at].parse::<f64>().unwrap();
        // blow_up, from the right, within the promise.
        assert!(number(2) <= number(5) * (1.0 + 1e-9), "{line}");
    }
    let text = std::fs::read_to_string(out("weights.json")).unwrap();
    fits("weights", &text);
    let weights = super::weights::Weights::read(&out("weights.json")).unwrap();
    let (id, weight, rate) = &weights.records[0];
    assert_eq!((&**id, weights.records.len()), ("a", 4));
    assert!(
        (weight - 1.0).abs() < 1e-12 && (rate - 0.05).abs() < 1e-3,
        "{rate}"
    );
    assert_eq!(weights.secrets.len(), 2);
    // What was edited by hand no longer fits together.
    for (key, value) in [
        ("batch_size", 9),
        ("schema", 2),
        ("steps", 0),
        ("other_rate", 2),
        ("unknown", 1),
    ] {
        let mut edited: serde_json::Value = serde_json::from_str(&text).unwrap();
        edited[key] = value.into();
        std::fs::write(out("edited.json"), edited.to_string()).unwrap();
        let read = super::weights::Weights::read(&out("edited.json"));
        let error = format!("{:#}", read.unwrap_err());
        assert!(
            key != "other_rate" || error.contains("other_rate: must lie in"),
            "{error}"
        );
    }
}

#[test]
fn too_few_weights_for_the_batch_and_bad_places_are_refused() {
    let (_keep, wish) = small("--c 1e-3");
    let few = Protect {
        batch_size: 39.0,
        ..wish
    };
    let error = format!(
        "{:#}",
        super::run(&few, Output::new(Format::Text, View::full())).unwrap_err()
    );
    assert!(
        error.starts_with("--batch-size: must be below the sum of the weights, 37")
            && error.ends_with("; got 39"),
        "{error}"
    );
    // Without --c every weight is 1.
    let (_keep, wish) = small("");
    let all = wish.dataset_size.unwrap();
    let few = Protect {
        batch_size: 64.0,
        ..wish
    };
    let error = super::run(&few, Output::new(Format::Text, View::full())).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("--batch-size: must be below the sum of the weights, {all}; got 64")
    );
    let (folder, wish) = small("");
    let bad = Protect {
        out: Some(folder.path().join("x.txt")),
        ..wish
    };
    let error = format!(
        "{:#}",
        super::run(&bad, Output::new(Format::Text, View::full())).unwrap_err()
    );
    assert!(
        error.starts_with("--out: ") && error.contains("must end in"),
        "{error}"
    );
    let wish = wish_with_size(3);
    let error = Input::gather(&wish).unwrap_err().to_string();
    assert!(
        error.contains("--dataset-size: must be at least 4"),
        "{error}"
    );
}

/// A secret in too many records is refused before the search, not when the weights are trained with.
#[test]
fn weights_by_which_no_run_is_trained_are_not_written() {
    let pairs: String = (0..=10_000).map(|i| format!("{i},key\n")).collect();
    let folder = folder(&[("pairs.csv", &format!("example,secret\n{pairs}"))]);
    let line = format!(
        "account protect --incidence {} --prior 1e-9 --posterior 1e-3 --batch-size 2 --steps 1",
        folder.path().join("pairs.csv").display()
    );
    let file = folder.path().join("weights.json");
    let weights = Protect {
        weights: Some(file.clone()),
        ..wish(&line)
    };
    let error = super::run(&weights, Output::new(Format::Text, View::full())).unwrap_err();
    let error = format!("{error:#}");
    assert!(
        error.starts_with("--weights: at most 10000 records of a secret may be drawn, got 10001;"),
        "{error}"
    );
    assert!(!file.exists());
}

fn wish_with_size(size: u64) -> Protect {
    let (folder, wish) = small("");
    // The folder has to outlive the test's own use of the paths.
    let kept: PathBuf = folder.keep();
    let wish = Protect {
        dataset_size: Some(size),
        ..wish
    };
    assert!(kept.is_dir());
    wish
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_is_read_as_it_was_written() {
    use super::output::{Column, write};
    use super::read::Kind;
    use crate::contract::AtomicFile;
    let folder = tempfile::tempdir().unwrap();
    let text = |values: &[&str]| values.iter().map(|v| (*v).to_owned()).collect::<Vec<_>>();
    let table = |name: &str, columns: Vec<Column>| {
        let path = folder.path().join(name);
        write(AtomicFile::create(&path).unwrap(), Kind::Parquet, &columns).unwrap();
        path
    };
    let pairs = table(
        "pairs.parquet",
        vec![
            Column::Count("example", vec![10, 10, 11, 12]),
            Column::Number("noise", vec![0.5; 4]),
            Column::Text("secret", text(&["k", "ñ", "k", ""])),
        ],
    );
    let (named, rows) = gathered(&pairs, None).unwrap();
    assert_eq!(rows, [vec![0, 1], vec![0], vec![]]);
    assert_eq!(named.secrets.all().join("|"), "k|ñ");
    let secrets = table(
        "secrets.parquet",
        vec![
            Column::Text("id", text(&["k", "ñ"])),
            Column::Number("prior", vec![1e-9, 0.125]),
            Column::Number("posterior", vec![1e-3, 0.5]),
        ],
    );
    let (_, promises) = read_secrets(&secrets, None).unwrap();
    assert!((promises[1].secret.prior().get() - 0.125).abs() < 1e-15);
    let error = gathered(&secrets, None).unwrap_err().to_string();
    assert!(error.contains("no column secret"), "{error}");
    let error = gathered(&pairs, Some("secret")).unwrap_err().to_string();
    assert!(
        error.ends_with("line 2: its id is already that of line 1; ids must be unique"),
        "{error}"
    );
    let damaged = folder.path().join("damaged.parquet");
    std::fs::write(&damaged, b"PAR1 and nothing").unwrap();
    let error = format!("{:#}", gathered(&damaged, None).unwrap_err());
    assert!(
        error.contains("damaged.parquet, metadata: cannot read as Parquet"),
        "{error}"
    );
}

#[cfg(not(feature = "parquet"))]
#[test]
fn without_parquet_the_message_says_what_to_do() {
    let error = gathered(Path::new("x.parquet"), None)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("build it with the feature parquet"),
        "{error}"
    );
}

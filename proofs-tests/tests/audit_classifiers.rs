//! Classifiers and encoders through the command, from text to figures.
#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use reticent_proofs_tests::commands::{ok, refused, run, said};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

/// Returns texts whose class is determined by one word, each with a number in it.
fn texts(from: usize, count: usize) -> String {
    let mut out = String::new();
    for number in from..from + count {
        let (word, class) = [("cab", "taxi"), ("bed", "hotel")][number % 2];
        let text = format!("a {word} for {}", 100 + 7 * number);
        writeln!(
            out,
            r#"{{"id":"d{number}","text":"{text}","domain":"{class}"}}"#
        )
        .unwrap();
    }
    out
}

/// Creates `data.jsonl`, `test.jsonl`, and `prepared/` from the first: marked, not redacted, with classes.
fn corpus() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    std::fs::write(at.join("data.jsonl"), texts(0, 120)).unwrap();
    std::fs::write(at.join("test.jsonl"), texts(1000, 30)).unwrap();
    ok(
        at,
        &format!("{PREPARE} --label domain --classes taxi,hotel --out prepared/"),
    );
    home
}

const PREPARE: &str = "prepare data.jsonl --unit document --policy detectors --no-redaction --no-deduplication --seed 1";
const TINY: &str =
    "--layers 1 --width 16 --heads 2 --context 32 --optimizer adam --learning-rate 1e-2";

fn json(at: &Path, line: &str) -> Value {
    serde_json::from_str(&ok(at, &format!("{line} --format json"))).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

#[test]
fn a_decoder_and_an_encoder_learn_classes_and_transformers_names_stand_in_their_folders() {
    let home = corpus();
    let at = home.path();
    for (model, class) in [
        ("gpt2", "GPT2ForSequenceClassification"),
        ("bert", "BertForSequenceClassification"),
    ] {
        let line =
            format!("train prepared/ --recipe sgd --model {model} --epochs 12 --seed 1 {TINY}");
        let trained = json(at, &format!("{line} --out {model}"));
        let classes = trained["held_out_classes"].as_array().unwrap();
        assert_eq!(classes.len(), 12, "one for each epoch");
        assert!(number(&classes[11]["accuracy"]) > 0.9, "{trained}");
        assert!(trained.get("held_out_perplexity").is_none());
        let config = std::fs::read_to_string(at.join(model).join("config.json")).unwrap();
        let config: Value = serde_json::from_str(&config).unwrap();
        assert_eq!(config["architectures"][0], class);
        assert_eq!(config["id2label"]["1"], "hotel");
        // Other programs also frame a text as its record was framed.
        let framed = std::fs::read_to_string(at.join(model).join("tokenizer.json")).unwrap();
        let framed: Value = serde_json::from_str(&framed).unwrap();
        assert_eq!(framed["post_processor"]["type"], "TemplateProcessing");
        assert_eq!(
            framed["post_processor"]["single"].as_array().unwrap().len(),
            3
        );
        let classify = format!("classify --model {model} --data test.jsonl --label domain");
        let found = json(at, &classify);
        let rows = found["classes"].as_array().unwrap();
        let sum = |key: &str| rows.iter().map(|row| number(&row[key])).sum::<f64>();
        assert!((sum("records") - 30.0).abs() < 0.5 && (sum("told") - 30.0).abs() < 0.5);
        assert!((number(&found["accuracy"]) - sum("right") / 30.0).abs() < 1e-12);
        assert!(number(&found["accuracy"]) > 0.9, "{found}");
        let bounds =
            ["accuracy_lower", "accuracy", "accuracy_upper"].map(|key| number(&found[key]));
        assert!(bounds.is_sorted(), "{bounds:?}");
        if model == "gpt2" {
            // Without its manifest the folder could be anybody's: its tokenizer.json frames a text, and without that
            // nothing does.
            let manifest = at.join(model).join("manifest.json");
            std::fs::rename(&manifest, at.join("kept.json")).unwrap();
            assert_eq!(json(at, &classify)["loss"], found["loss"]);
            let file = at.join(model).join("tokenizer.json");
            let whole = std::fs::read_to_string(&file).unwrap();
            let mut unframed: Value = serde_json::from_str(&whole).unwrap();
            unframed["post_processor"] = Value::Null;
            // Not an alphabet of ours, which frames a text by itself.
            unframed["model"]["fuse_unk"] = true.into();
            std::fs::write(&file, unframed.to_string()).unwrap();
            assert_ne!(json(at, &classify)["loss"], found["loss"]);
            std::fs::write(&file, whole).unwrap();
            std::fs::rename(at.join("kept.json"), &manifest).unwrap();
        }
        // Commands that need the likelihood of a text say that there is none.
        for command in [
            format!("perplexity --model {model} --data test.jsonl"),
            format!("exposure --model {model} --canaries 2x2"),
            format!("extract --model {model} --data test.jsonl"),
        ] {
            refused(
                at,
                &command,
                &["--model", "predicts classes", "no next token"],
            );
        }
    }
    // A record that is too long for a classifier is shortened and not read in windows.
    let cut = json(
        at,
        "train prepared/ --recipe sgd --model gpt2 --layers 1 --width 8 --heads 2 --context 4 --epochs 1 --out cut",
    );
    assert!(
        number(&cut["shortened"]) > 0.5 && cut.get("in_windows").is_none(),
        "{cut}"
    );
    // Another promise for the same weights: the run continues from the folder with its classes. If no record is public,
    // crt learns no class without noise.
    let on = "train prepared/ --recipe crt --sigma 1 --sample-rate 0.1 --epochs 1 --model bert/";
    let page = said(at, &format!("{on} --out on"));
    let covered =
        "A classifier of 2 classes. A record's class is part of it and covered as its text";
    assert!(page.contains(covered), "{page}");
    // Its signal of membership is the loss of the class.
    for data in ["data", "test"] {
        let line = "classify --model bert --label domain";
        ok(
            at,
            &format!("{line} --data {data}.jsonl --scores-out {data}.csv"),
        );
    }
    let found = json(at, "classify --model bert --label domain --data test.jsonl");
    let rows = std::fs::read_to_string(at.join("test.csv")).unwrap();
    let loss = |row: &str| row.rsplit(',').nth(3).unwrap().parse::<f64>().unwrap();
    let mean = rows.lines().skip(1).map(loss).sum::<f64>() / 30.0;
    assert!((mean - number(&found["loss"])).abs() < 1e-12, "{found}");
    assert!(rows.starts_with("id,score,group,text,class\n"), "{rows}");
    let line = "membership --members data.csv --non-members test.csv --lower-is-member";
    let found = json(at, line);
    assert_eq!(
        (&found["members"], &found["non_members"]),
        (&120.into(), &30.into())
    );
    refused(
        at,
        "membership --model bert --members data.jsonl --non-members test.jsonl",
        &["--model", "no next token", "audit classify --scores-out"],
    );
    // Existing score files are kept.
    let line = "classify --model bert --label domain --data test.jsonl --scores-out test.csv";
    refused(at, line, &["--scores-out", "test.csv exists", "--force"]);
    let line = "membership --members data.csv --non-members test.csv --force";
    refused(at, line, &["--scores-out"]);
}

/// A prepared folder is measured as it was trained on: a mask is one token, records end where training cut them, and a
/// class is the number that was written, whatever another class is called. So are the lines of its files.
#[test]
fn prepared_records_are_measured_as_they_were_trained_on() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let mut text = String::new();
    for number in 0..60 {
        let (word, class) = [("cab", "2"), ("bed", "3")][number % 2];
        let mail = format!("user{number}x@example.org");
        writeln!(
            text,
            r#"{{"id":"d{number}","text":"a {word}, write {mail}","stars":"{class}"}}"#
        )
        .unwrap();
    }
    std::fs::write(at.join("data.jsonl"), text).unwrap();
    let prepare =
        "prepare data.jsonl --unit document --policy detectors --no-deduplication --seed 1";
    ok(at, &format!("{prepare} --out text/"));
    let line = format!(
        "train text/ --recipe sgd --model gpt2 --epochs 2 --seed 1 {TINY} --held-out text/"
    );
    let trained = json(at, &format!("{line} --out lm"));
    let expected = number(&trained["held_out_perplexity"][1]);
    let perplexity = |data: &str| {
        let found = json(at, &format!("perplexity --model lm --data {data}"));
        number(&found["perplexity"])
    };
    // Training measures the records of the folder that it is given, `audit perplexity` what a folder held out.
    let found = perplexity("text/train.jsonl");
    assert!((found / expected - 1.0).abs() < 1e-4, "{found}, {expected}");
    assert_eq!(
        perplexity("text/").to_bits(),
        perplexity("text/test.jsonl").to_bits()
    );
    // The cut drops the end of text, behind which a decoder tells the class.
    let classes = "--label stars --classes 1,2,3 --max-tokens 8";
    ok(at, &format!("{prepare} {classes} --out classes/"));
    let line = format!(
        "train classes/ --recipe sgd --model gpt2 --epochs 6 --seed 1 {TINY} --held-out classes/"
    );
    let trained = json(at, &format!("{line} --out stars"));
    let expected = number(&trained["held_out_classes"][5]["accuracy"]);
    let own = json(at, "classify --model stars --data classes/");
    let lines = json(
        at,
        "classify --model stars --data classes/test.jsonl --label label",
    );
    for found in [&own, &lines] {
        assert!(
            (number(&found["accuracy"]) - expected).abs() < 1e-12,
            "{found}"
        );
        assert_eq!(found["loss"], own["loss"]);
        assert_eq!(found["classes"][0]["records"], 0);
    }
    refused(
        at,
        "classify --model stars --data classes/ --label label",
        &["--label", "its own classes"],
    );
    refused(
        at,
        "classify --model stars --data data.jsonl",
        &["--label", "must be given"],
    );
    refused(
        at,
        "perplexity --model lm --data text/ --unit turn",
        &["--data", "one record is a document in text/"],
    );
    // The numbers of lines are those of their preparation, which lies beside them.
    ok(
        at,
        &format!("{prepare} --label stars --classes 3,2,1 --out turned/"),
    );
    for data in ["turned/", "turned/test.jsonl --label label"] {
        refused(
            at,
            &format!("classify --model stars --data {data}"),
            &["--data", "the same in another order"],
        );
    }
    // A model from elsewhere has its own order of classes, so numbers denote none of them.
    std::fs::remove_file(at.join("stars/manifest.json")).unwrap();
    std::fs::write(
        at.join("numbered.jsonl"),
        "{\"text\":\"a cab\",\"c\":\"2\"}\n{\"text\":\"a bed\",\"c\":0}\n",
    )
    .unwrap();
    refused(
        at,
        "classify --model stars --data numbered.jsonl --label c",
        &["line 2", "it is a number"],
    );
    std::fs::copy(at.join("classes/test.jsonl"), at.join("alone.jsonl")).unwrap();
    refused(
        at,
        "classify --model stars --data alone.jsonl --label label",
        &["line 1", "name the prepared folder"],
    );
}

#[test]
fn every_recipe_but_the_recurrent_one_trains_classes_and_promises_what_it_promises_else() {
    let home = corpus();
    let at = home.path();
    ok(at, &format!("{PREPARE} --out plain/"));
    for recipe in ["dpsgd", "crt", "jft"] {
        let first = if recipe == "jft" {
            "--first-epochs 1"
        } else {
            ""
        };
        let line = format!(
            "--recipe {recipe} --sigma 1 --sample-rate 0.1 --epochs 1 {first} --model gpt2 --layers 1 --width 8 --heads 2 \
             --context 32"
        );
        let classes = json(at, &format!("train prepared/ {line} --out {recipe}"));
        let text = json(at, &format!("train plain/ {line} --out {recipe}-text"));
        assert_eq!(classes["mechanism"], text["mechanism"], "{recipe}");
        // Next to redacted text a class is left unchanged: nothing is promised about it, and every row and the manifest
        // say so.
        let redacts = recipe == "jft";
        let mut rows = text["guarantees"].clone();
        for row in rows.as_array_mut().unwrap().iter_mut().filter(|_| redacts) {
            row["same_class"] = true.into();
        }
        assert_eq!(classes["guarantees"], rows, "{recipe}");
        let manifest = std::fs::read_to_string(at.join(recipe).join("manifest.json")).unwrap();
        assert_eq!(manifest.contains("classes: no policy"), redacts, "{recipe}");
    }
    let line = "train prepared/ --recipe dpsgd --sigma 1 --sample-rate 0.1 --epochs 1";
    refused(
        at,
        &format!("{line} --out x"),
        &["--model", "lstm", "transformer"],
    );
    let adapter = format!("{line} --model gpt2-text/ --lora-rank 2 --out x");
    ok(
        at,
        "train plain/ --recipe sgd --epochs 1 --model gpt2 --layers 1 --width 8 --heads 2 --context 32 --out gpt2-text",
    );
    refused(at, &adapter, &["lora", "class head"]);
    // The folder of a classifier, and a corpus without classes.
    let without = "train plain/ --recipe sgd --epochs 1 --model jft/ --out x";
    refused(at, without, &["--model", "predicts classes", "--label"]);
    ok(
        at,
        &format!("{PREPARE} --label domain --classes hotel,taxi --out turned/"),
    );
    let turned = "train turned/ --recipe sgd --epochs 1 --model jft/ --out x";
    refused(at, turned, &["--model", "other classes", "id2label"]);
}

#[test]
fn an_encoder_learns_masked_tokens_and_then_classes() {
    let home = corpus();
    let at = home.path();
    ok(at, &format!("{PREPARE} --out plain/"));
    let line = format!(
        "train plain/ --recipe sgd --model bert --epochs 8 --seed 1 {TINY} --held-out plain --out masked"
    );
    let trained = json(at, &line);
    let perplexity = trained["held_out_perplexity"].as_array().unwrap();
    let (first, last) = (number(&perplexity[0]), number(&perplexity[7]));
    assert!(last < 0.8 * first && last > 1.0, "{perplexity:?}");
    // Each token masked in turn: about the cost of held-out text whose tokens are masked at random.
    let pseudo = json(at, "perplexity --model masked --data test.jsonl");
    assert_eq!(pseudo["masked"], true);
    let found = number(&pseudo["perplexity"]);
    assert!((0.5 * last..2.0 * first).contains(&found), "{pseudo}");
    let refusal = "perplexity --model masked --data test.jsonl --without-end";
    refused(at, refusal, &["--without-end", "predicts no end"]);
    let private = "train plain/ --recipe dpsgd --sigma 1 --sample-rate 0.1 --epochs 1 --model masked/ --out private";
    assert!(said(at, private).contains("trained by dpsgd"));
    // A class head in place of the other head, on the encoder's own layers.
    let line = "train prepared/ --recipe sgd --model masked/ --epochs 12 --seed 1 --optimizer adam --learning-rate 1e-2";
    let trained = json(at, &format!("{line} --out classes"));
    let classes = trained["held_out_classes"].as_array().unwrap();
    assert!(number(&classes[11]["accuracy"]) > 0.9, "{trained}");
}

#[test]
fn classes_are_declared_and_a_value_that_is_none_is_not_shown() {
    let home = corpus();
    let at = home.path();
    let with = |more: &str| format!("{PREPARE} {more} --out x");
    refused(
        at,
        &with("--label domain --classes taxi"),
        &["--classes", "from 2 to 1000", "got 1"],
    );
    refused(
        at,
        &with("--label domain --classes taxi,taxi"),
        &["--classes", "twice"],
    );
    refused(at, &with("--label domain"), &["--classes"]);
    let unknown = run(at, &with("--label domain --classes taxi,train"));
    let message = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert_eq!(unknown.status.code(), Some(2), "{message}");
    assert!(
        message.contains("line 2") && message.contains("none of the 2 declared classes"),
        "{message}"
    );
    assert!(!message.contains("hotel"), "{message}");
    refused(
        at,
        &with("--label mood --classes a,b"),
        &["line 1", "one class under `mood`, got 0"],
    );
    // A folder whose classes were edited is refused.
    let path = at.join("prepared/records.jsonl");
    let records = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, records.replacen("\"label\":0", "\"label\":1", 1)).unwrap();
    let line = format!("train prepared/ --recipe sgd --model bert --epochs 1 {TINY} --out y");
    refused(at, &line, &["PREPARED", "edited after it was prepared"]);
}

/// Held-out text of which an encoder masks nothing has no loss, which is known before a step is spent.
#[test]
fn held_out_text_that_masks_nothing_is_refused_before_training() {
    let home = corpus();
    let at = home.path();
    ok(at, &format!("{PREPARE} --out plain/"));
    std::fs::write(at.join("tiny.txt"), "a\n").unwrap();
    let tiny = PREPARE.replace("data.jsonl", "tiny.txt");
    ok(at, &format!("{tiny} --held-out 0 --out tiny/"));
    let line = format!("train plain/ --recipe sgd {SMALL} --held-out tiny --out bert");
    refused(at, &line, &["held-out text", "chosen to be masked"]);
    assert!(!at.join("bert.state").exists());
}

/// Canaries that nothing can measure afterwards are reported when training begins.
#[test]
fn canaries_in_an_encoder_are_said_to_be_unmeasurable() {
    let home = corpus();
    let at = home.path();
    ok(at, &format!("{PREPARE} --canaries 2x2 --out planted/"));
    let line = format!("train planted/ --recipe sgd {SMALL} --out bert");
    let output = run(at, &line);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("`audit exposure` can't rank these canaries"),
        "{said}"
    );
    refused(at, "exposure --model bert", &["--model", "no next token"]);
}

const SMALL: &str = "--model bert --layers 1 --width 16 --heads 2 --context 32 --epochs 1";

#[test]
fn what_is_said_of_classes_follows_the_recipe() {
    let home = corpus();
    let at = home.path();
    let sgd = said(
        at,
        &format!("train prepared/ --recipe sgd {SMALL} --out sgd"),
    );
    assert!(sgd.contains("A classifier of 2 classes.") && !sgd.contains("covered as its text is"));
    let private = format!("{SMALL} --sigma 1 --sample-rate 0.1");
    let line = format!("train prepared/ --recipe dpsgd {private} --out dpsgd");
    assert!(said(at, &line).contains("covered as its text is"));
    let line = format!("train prepared/ --recipe jft {private} --first-epochs 1 --out jft");
    let jft = said(at, &line);
    let words: Vec<&str> = jft.split_whitespace().collect();
    assert!(words.join(" ").contains("between records of one class"));
}

/// Diverged weights are detected by the output of the head, which is not a likelihood of a text.
#[test]
fn classifiers_and_encoders_that_diverge_say_so() {
    let home = corpus();
    let at = home.path();
    ok(at, &format!("{PREPARE} --out plain/"));
    for (folder, what) in [
        ("prepared", "the loss of any class"),
        ("plain", "the perplexity of any text"),
    ] {
        let line = format!("train {folder}/ --recipe sgd {SMALL} --optimizer sgd");
        // The state folder remains: what was spent stays spent.
        let output = run(
            at,
            &format!("{line} --learning-rate 1e25 --out {folder}-diverged"),
        );
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(what) && error.contains("Lower the learning rates"));
    }
}

/// Names that stand for none are not declared, and a folder's classes without names take the declared ones.
#[test]
fn classes_without_names_take_those_that_are_declared() {
    let home = corpus();
    let at = home.path();
    let with = |more: &str| format!("{PREPARE} {more} --out x");
    let nameless = with("--label domain --classes LABEL_0,LABEL_1");
    refused(at, &nameless, &["--classes", "LABEL_0"]);
    ok(
        at,
        &format!("train prepared/ --recipe sgd {SMALL} --out named"),
    );
    let path = at.join("named/config.json");
    let config = std::fs::read_to_string(&path).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config["id2label"] = serde_json::json!({"0": "LABEL_0", "1": "LABEL_1"});
    let folder = at.join("nameless");
    std::fs::create_dir(&folder).unwrap();
    for name in ["model.safetensors", "tokenizer.json"] {
        std::fs::copy(at.join("named").join(name), folder.join(name)).unwrap();
    }
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    std::fs::write(
        at.join("numbered.jsonl"),
        "{\"text\":\"a cab\",\"c\":\"LABEL_0\"}\n{\"text\":\"a bed\",\"c\":1}\n",
    )
    .unwrap();
    let found = json(
        at,
        "classify --model nameless --data numbered.jsonl --label c",
    );
    assert_eq!(found["records"], 2);
    config["problem_type"] = "regression".into();
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let line = "classify --model nameless --data numbered.jsonl --label c";
    refused(at, line, &["problem_type", "single_label_classification"]);
    // The number of names differs from the number of rows of the head.
    config["problem_type"] = Value::Null;
    config["id2label"] = serde_json::json!({"0": "a", "1": "b", "2": "c"});
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    refused(
        at,
        line,
        &["--model", "tells 2 classes", "names 3 (id2label)"],
    );
}

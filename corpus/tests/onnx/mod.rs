//! Token classifiers of the user's own: a model whose every probability is known.

mod tiny;

use reticent_corpus::policy::{
    Conservative, ConservativeOptions, OnnxOptions, Policy, PolicyChoice, Span, View, resolved,
};
use reticent_corpus::{Classified, TokenClassifier};
use std::path::Path;
use std::sync::Arc;
use tiny::{
    LABELS, Message, WORDS, classifier, config, floats, model, node, table, tokenizer, value,
};

fn tiny() -> Arc<TokenClassifier> {
    loaded(classifier(&table()), &config(&LABELS)).unwrap()
}

fn loaded(model: Vec<u8>, config: &[u8]) -> reticent_corpus::Result<Arc<TokenClassifier>> {
    TokenClassifier::from_bytes(Path::new("m"), model, config, &tokenizer())
}

/// Text, kind and score of what is found.
fn found<'t>(model: &TokenClassifier, text: &'t str, least: f32) -> Vec<(&'t str, String, f32)> {
    let spans = model.entities(text, least).unwrap();
    let shown = |s: &Span| (&text[s.start..s.end], s.kind.to_string(), s.score);
    spans.iter().map(shown).collect()
}

/// One minus the probability of plain text, by definition.
fn score(word: &str) -> f32 {
    let logits = WORDS.iter().find(|(w, _)| *w == word).unwrap().1;
    let weights = logits.map(|l| f64::from(l).exp());
    (1.0 - weights[0] / weights.iter().sum::<f64>()) as f32
}

fn same(found: &[(&str, String, f32)], expected: &[(&str, &str, f32)]) {
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for ((text, kind, score), (other, of, expected)) in found.iter().zip(expected) {
        assert_eq!((text, kind.as_str()), (other, *of));
        // The library exponentiates in 32 bits; so do we, but for the last digits.
        assert!((score - expected).abs() < 1e-6, "{score} {expected}");
    }
}

#[test]
fn spans_and_scores_are_those_of_the_table() {
    let tiny = tiny();
    assert_eq!(tiny.kinds(), ["person", "loc"]);
    // A name of two words is as sure as the less sure one; bytes count, not characters.
    let text = "café Ada King met Bob in Paris.";
    let king = score("King").min(score("Ada"));
    same(
        &found(&tiny, text, 0.3),
        &[
            ("Ada King", "person", king),
            ("Bob", "person", score("Bob")),
            ("Paris", "loc", score("Paris")),
        ],
    );
    // A word that begins a name joins none, nor does one behind another mark.
    same(
        &found(&tiny, "Ada Bob King, King\nKing", 0.3)[..],
        &[
            ("Ada", "person", score("Ada")),
            ("Bob King", "person", score("King").min(score("Bob"))),
            ("King", "person", score("King")),
            ("King", "person", score("King")),
        ],
    );
    // The surest piece speaks for its word.
    same(
        &found(&tiny, "in London.", 0.3),
        &[("London", "loc", score("Lon"))],
    );
    assert!(score("##don") < 0.2);
    // Special tokens in the text are text.
    assert_eq!(found(&tiny, "[SEP] met [CLS]", 0.1), []);
    assert_eq!(found(&tiny, "", 0.0), []);
}

/// π and π_c from one model: what scores between both thresholds is not masked, and flags its
/// record. No threshold at all still leaves what is surely plain.
#[test]
fn two_thresholds_make_two_policies_of_one_model() {
    let tiny = tiny();
    let text = "Rose met Bob.";
    assert!((0.1..0.2).contains(&score("Rose")));
    same(&found(&tiny, text, 0.3), &[("Bob", "person", score("Bob"))]);
    let both = [
        ("Rose", "person", score("Rose")),
        ("Bob", "person", score("Bob")),
    ];
    same(&found(&tiny, text, 0.1), &both);
    same(&found(&tiny, text, 0.0), &both);
    let redact: Arc<dyn Policy> = Arc::new(Classified::new(tiny, 0.3).unwrap());
    let folder = folder();
    let options = ConservativeOptions {
        digits: false,
        capitals: false,
        onnx: Some(OnnxOptions {
            folder: folder.path().to_owned(),
            least: 0.1,
            sha256: None,
        }),
        ..ConservativeOptions::default()
    };
    let conservative = Conservative::new(Some(&options), &redact).unwrap();
    let view = |text| View { text, secrets: &[] };
    assert!(resolved(redact.as_ref(), &view("Rose met.")).is_empty());
    assert!(conservative.flags(&view("Rose met.")));
    assert!(!conservative.flags(&view("café met.")));
}

/// Longer than the model reads: windows, whose joints nothing shows. The table of positions
/// has twelve rows, so that a longer window would fail.
#[test]
fn long_texts_are_read_in_windows() {
    let tiny = tiny();
    let words = ["Ada", "King", "met", "London", "in", "Bob", "."];
    for length in 0..60 {
        let text: Vec<&str> = words.iter().copied().cycle().take(length).collect();
        let text = text.join(" ");
        let got = found(&tiny, &text, 0.3);
        let mut expected = Vec::new();
        for number in 0..length {
            match words[number % 7] {
                "Ada" if number + 1 < length => {
                    expected.push(("Ada King", "person", score("King")))
                }
                "Ada" => expected.push(("Ada", "person", score("Ada"))),
                "London" => expected.push(("London", "loc", score("Lon"))),
                "Bob" => expected.push(("Bob", "person", score("Bob"))),
                _ => {}
            }
        }
        same(&got, &expected);
    }
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    write("model.onnx", &classifier(&table()));
    write("config.json", &config(&LABELS));
    write("tokenizer.json", &tokenizer());
    folder
}

#[test]
fn a_policy_names_the_model_it_was_made_with() {
    let folder = folder();
    let choice = PolicyChoice::Onnx(
        OnnxOptions {
            folder: folder.path().to_owned(),
            least: 0.3,
            sha256: None,
        }
        .pinned()
        .unwrap(),
    );
    let text = serde_json::to_string(&choice).unwrap();
    assert!(text.contains("\"type\":\"onnx\"") && text.contains("\"sha256\""));
    assert_eq!(serde_json::from_str::<PolicyChoice>(&text).unwrap(), choice);
    let policy = choice.build().unwrap();
    let found = resolved(
        policy.as_ref(),
        &View {
            text: "in Paris",
            secrets: &[],
        },
    );
    assert_eq!(
        (found[0].start, found[0].end, &*found[0].source),
        (3, 8, "onnx")
    );
    let PolicyChoice::Onnx(loose) = choice.loosened() else {
        panic!("another kind of policy");
    };
    assert!(loose.least.abs() < f32::EPSILON);
    // Another model in its place is refused.
    let mut other = table();
    other[4] = [0.0, 9.0, 0.0, 0.0, 0.0];
    std::fs::write(folder.path().join("model.onnx"), classifier(&other)).unwrap();
    let error = choice.build().unwrap_err().to_string();
    assert!(error.contains("another model than before"), "{error}");
    std::fs::remove_file(folder.path().join("config.json")).unwrap();
    let error = choice.build().unwrap_err().to_string();
    assert!(error.contains("config.json: cannot read"), "{error}");
}

/// BERT's classes of transformers read text by these settings.
#[test]
fn settings_that_its_tokenizer_contradicts_are_refused() {
    let folder = folder();
    let of = |settings: &str| {
        std::fs::write(folder.path().join("tokenizer_config.json"), settings).unwrap();
        let made = TokenClassifier::load(folder.path());
        made.map(drop).map_err(|error| error.to_string())
    };
    for key in ["do_lower_case", "strip_accents"] {
        let error = of(&format!(r#"{{"{key}":true}}"#)).unwrap_err();
        let says = format!("has {key} true in tokenizer_config.json and false in tokenizer.json");
        assert!(error.contains(&says), "{error}");
    }
    let error = of(r#"{"tokenize_chinese_chars":false}"#).unwrap_err();
    assert!(error.contains("tokenize_chinese_chars false in"), "{error}");
    for settings in [
        r#"{"do_lower_case":false,"strip_accents":null,"tokenize_chinese_chars":true}"#,
        r#"{"tokenizer_class":"PreTrainedTokenizerFast","do_lower_case":true}"#,
    ] {
        of(settings).unwrap();
    }
}

/// What is no number masks; what fails on a text masks all of it.
#[test]
fn failures_mask() {
    let mut rows = table();
    rows[4] = [f32::NAN, 0.0, 0.0, 0.0, 0.0];
    let model = loaded(classifier(&rows), &config(&LABELS)).unwrap();
    same(
        &found(&model, "Ada met Bob", 1.0),
        &[("met", "not-classified", 1.0)],
    );
    // The last words have no rows: the model fails where one of them stands.
    let model = loaded(classifier(&table()[..14]), &config(&LABELS)).unwrap();
    let error = model.entities("Ada met café", 0.3).unwrap_err().to_string();
    assert!(error.contains("fails on 5 tokens"), "{error}");
    let policy = Classified::new(model, 0.3).unwrap();
    let spans = |text| resolved(&policy, &View { text, secrets: &[] });
    assert_eq!(spans("met Ada").len(), 1);
    let all = spans("met café");
    assert_eq!(
        (all[0].start, all[0].end, &*all[0].kind),
        (0, 9, "not-classified")
    );
}

#[test]
fn folders_that_are_no_classifiers_are_refused_with_the_place() {
    let refused = |model: Vec<u8>, config: &[u8], problem: &str| {
        let error = loaded(model, config).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    };
    let good = classifier(&table());
    let labels = config(&LABELS);
    refused(
        good.clone(),
        &config(&LABELS[..3]),
        "shape [1, 5, 3], got [1, 5, 5]",
    );
    refused(
        good.clone(),
        b"{}",
        "m/config.json: missing field `id2label`",
    );
    refused(good.clone(), b"\xff", "m/config.json: ");
    refused(
        good[..good.len() / 2].to_vec(),
        &labels,
        "m/model.onnx: no ONNX model",
    );
    refused(Vec::new(), &labels, "m/model.onnx: no ONNX model");
    let tokens = TokenClassifier::from_bytes(Path::new("m"), good.clone(), &labels, b"{}");
    assert!(
        tokens
            .unwrap_err()
            .to_string()
            .starts_with("m/tokenizer.json: ")
    );
    let text = String::from_utf8(tokenizer()).unwrap();
    let with = |dropout: &str| {
        let file = text.replacen(r#""model":{"#, &format!(r#""model":{{{dropout},"#), 1);
        let made =
            TokenClassifier::from_bytes(Path::new("m"), good.clone(), &labels, file.as_bytes());
        made.map(drop).map_err(|error| error.to_string())
    };
    with(r#""dropout":0"#).unwrap();
    let said = with(r#""dropout":0.1"#).unwrap_err();
    assert!(said.contains("model.dropout must be 0"), "{said}");
    let said = with(r#""dropout":0.1,"dropout":null"#).unwrap_err();
    assert!(said.starts_with("m/tokenizer.json: "), "{said}");
    let short = br#"{"max_position_embeddings": 2, "id2label": {"0": "O", "1": "B-PER"}}"#;
    refused(good, short, "leaves no room beside 2 special tokens");

    let ids = [value("input_ids", 7, 2)];
    let logits = [value("logits", 1, 3)];
    let rows = floats("words", &[16, 5], &table().concat());
    let gather = node("Gather", &["words", "input_ids"], "logits");
    let plain = |node: &Message, tensor: &Message| {
        let (node, tensor) = (std::slice::from_ref(node), std::slice::from_ref(tensor));
        model(node, tensor, &ids, &logits)
    };
    assert!(loaded(plain(&gather, &rows), &labels).is_ok());
    let inner = Message::default()
        .text(1, "body")
        .message(6, &Message::default());
    let looping = gather.clone().message(5, &inner);
    refused(plain(&looping, &rows), &labels, "branches and loops");
    let place = Message::default()
        .text(1, "location")
        .text(2, "/etc/passwd");
    let elsewhere = rows.clone().message(13, &place).number(14, 1);
    refused(
        plain(&gather, &elsewhere),
        &labels,
        "weights in other files",
    );
    let unknown = node("Nonsense", &["words", "input_ids"], "logits");
    refused(plain(&unknown, &rows), &labels, "Nonsense");
    let flat = floats("words", &[80], &table().concat());
    refused(
        plain(&gather, &flat),
        &labels,
        "logits must be floats of shape",
    );
    let other = [value("input_ids", 7, 2), value("past", 7, 2)];
    refused(
        {
            let (node, tensor) = (std::slice::from_ref(&gather), std::slice::from_ref(&rows));
            model(node, tensor, &other, &logits)
        },
        &labels,
        "got \"past\"",
    );
    let two = [value("a", 1, 3), value("b", 1, 3)];
    let nodes = [
        node("Gather", &["words", "input_ids"], "a"),
        node("Gather", &["words", "input_ids"], "b"),
    ];
    refused(
        model(&nodes, &[rows], &ids, &two),
        &labels,
        "got [\"a\", \"b\"]",
    );
    for least in [1.5, -0.1, 0.005, 0.019, f32::NAN] {
        let error = Classified::new(tiny(), least).unwrap_err().to_string();
        assert!(error.contains("must be 0 or from 0.02 to 1"), "{error}");
    }
    for least in [0.0, 0.02, 1.0] {
        assert!(Classified::new(tiny(), least).is_ok());
    }
}

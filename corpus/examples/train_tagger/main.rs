//! Trains the tagger that ships, and measures it on text it was not trained on.
//!
//! ```console
//! $ cargo run --release --package reticent-corpus --example train_tagger -- TREEBANK ENTITIES OUT.bin
//! ```
//! TREEBANK holds `ewt-train.conllu` and `ewt-test.conllu` (Universal Dependencies, English
//! Web Treebank), ENTITIES holds `wnut17_train.conll`, `btc.conll`, `wnut17_test.conll` and
//! `wikigold.conll`, all unpacked. With `--measure MODEL.bin` instead of OUT.bin nothing is
//! trained. Equal files give an equal model.
#![expect(clippy::print_stdout, reason = "an example shows its result")]

mod measure;
mod read;

use reticent_corpus::{ROLE_LABELS, TaggerMaterial, TaggerModel, TaggerTraining, WordTags};
use std::path::Path;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [treebank, entities, rest @ ..] = &arguments[..] else {
        return Err("usage: train_tagger TREEBANK ENTITIES (OUT.bin | --measure MODEL.bin)".into());
    };
    let (treebank, entities) = (Path::new(treebank), Path::new(entities));
    let model = match rest {
        [flag, path] if flag == "--measure" => TaggerModel::read(path.as_ref())?,
        [out, ..] => {
            let began = Instant::now();
            let trees = read::treebank(&treebank.join("ewt-train.conllu"))?;
            let mut names = read::entities(&entities.join("wnut17_train.conll"), true)?;
            names.extend(read::entities(&entities.join("btc.conll"), false)?);
            names.extend(trees.names);
            let material = TaggerMaterial {
                speech: trees.speech,
                names,
                roles: trees.roles,
            };
            let mut how = TaggerTraining::default();
            if let Some(rounds) = rest.get(1) {
                how.rounds = rounds.parse()?;
            }
            if let Some(dropout) = rest.get(2) {
                how.dropout = dropout.parse()?;
            }
            let model = TaggerModel::train(&material, &how)?;
            let bytes = model.to_bytes();
            std::fs::write(out, &bytes)?;
            println!(
                "{out}: {} bytes after {:.0} s",
                bytes.len(),
                began.elapsed().as_secs_f64()
            );
            TaggerModel::from_bytes(&bytes)?
        }
        [] => return Err("OUT.bin is missing".into()),
    };
    let trees = read::treebank(&treebank.join("ewt-test.conllu"))?;
    let (accuracy, of_speech) = measure::speech(&model, &trees.speech);
    println!("parts of speech, EWT test: accuracy {accuracy:.4}");
    for kind in ["NOUN", "PROPN", "PRON", "VERB", "AUX"] {
        println!("  {kind:8} {}", of_speech[kind].row());
    }
    let (_, roles) = measure::one_word(&model, &trees.roles, &ROLE_LABELS, WordTags::role_label);
    for kind in ["SUBJECT", "OBJECT"] {
        println!("  {kind:8} {}", roles[kind].row());
    }
    for (file, kinds) in [
        ("wnut17_test", &["PER", "LOC", "ORG", "MISC"][..]),
        ("wikigold", &["PER", "LOC", "ORG", "MISC"]),
    ] {
        let sentences = read::entities(&entities.join(format!("{file}.conll")), true)?;
        println!("names, {file}:");
        for (kind, counts) in measure::names(&model, &sentences, kinds) {
            println!("  {kind:8} {}", counts.row());
        }
        for least in [0.5, 0.3, 0.1, 0.02] {
            println!(
                "  words in names at {least:4}: {}",
                measure::words(&model, &sentences, least).row()
            );
        }
        let began = Instant::now();
        let count: usize = sentences.iter().map(|s| s.words.len()).sum();
        measure::words(&model, &sentences, 0.5);
        println!(
            "  {:.0} words a second",
            count as f64 / began.elapsed().as_secs_f64()
        );
    }
    Ok(())
}

//! Trains the tagger that ships, and measures it on text it was not trained on.
//!
//! ```console
//! $ cargo run --release --package reticent-corpus --features tagger-training --example train_tagger -- MATERIAL OUT.bin
//! ```
//! MATERIAL holds, unpacked, what `models/tagger.md` names: the treebank `ewt-train.conllu` and `ewt-test.conllu`,
//! `en_ewt-ud-dev.iob2`, `en_ewt-ud-test.iob2` and `en_pud-ud-test.iob2` of Universal NER, GUM's documents under
//! `gum`, `wnut17_train.conll`, `wnut17_test.conll` and `wikigold.conll`, `wikitext.txt` and `wikitext-valid.txt`, and
//! what [`lexicon`] reads. With `--measure MODEL.bin` instead of OUT.bin nothing is trained; with
//! `--further MODEL.bin OUT.bin` the names of a model are learnt further, and the mean of its weights and of those is
//! kept ([`KEPT`]). Equal files give an equal model.
#![expect(clippy::print_stdout, reason = "an example shows its result")]

mod articles;
mod lexicon;
mod measure;
mod read;

use reticent_corpus::tagger::{ROLE_LABELS, TaggerMaterial, TaggerModel, TaggerTraining, WordTags};
use std::path::Path;
use std::time::Instant;

/// Features of the model that marks more text; it is not kept.
const TEACHER_FEATURES: usize = 400_000;
/// Sentences of the treebank that are taken for one article.
const TOGETHER: usize = 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [material, rest @ ..] = &arguments[..] else {
        return Err("usage: train_tagger MATERIAL (OUT.bin | --measure MODEL.bin | --further MODEL.bin OUT.bin)".into());
    };
    let folder = Path::new(material);
    let model = match rest {
        [flag, path] if flag == "--measure" => TaggerModel::read(path.as_ref())?,
        [flag, from, out] if flag == "--further" => further(folder, from.as_ref(), out)?,
        [out, ..] => {
            let began = Instant::now();
            let trees = read::treebank(&folder.join("ewt-train.conllu"))?;
            let mut names = read::entities(&folder.join("wnut17_train.conll"))?;
            for file in ["en_ewt-ud-dev", "en_ewt-ud-test", "en_pud-ud-test"] {
                names.extend(read::universal(&folder.join(file).with_extension("iob2"))?);
            }
            let mut documents: Vec<_> = std::fs::read_dir(folder.join("gum"))?
                .map(|entry| Ok(entry?.path()))
                .collect::<std::io::Result<_>>()?;
            documents.sort();
            for document in documents {
                names.extend(read::gum(&document)?);
            }
            let lexicon = lexicon::lexicon(folder)?;
            println!(
                "{} words in lists, {} in clusters, {:.0} s",
                lexicon.lists.len(),
                lexicon.clusters.len(),
                began.elapsed().as_secs_f64()
            );
            let mut material = TaggerMaterial {
                names,
                lexicon,
                ..TaggerMaterial::default()
            };
            let how = TaggerTraining::default();
            let [speech, _, roles] = how.most_features;
            let teacher = TaggerTraining {
                most_features: [speech, TEACHER_FEATURES, roles],
                steps: [127; 3],
                ..how.clone()
            };
            let teacher = TaggerModel::train(&material, &teacher)?;
            let sentences: Vec<Vec<String>> =
                trees.speech.iter().map(|s| s.words.clone()).collect();
            for sentences in sentences.chunks(TOGETHER) {
                material
                    .names
                    .extend(articles::labelled(&teacher, sentences));
            }
            let text = std::fs::read_to_string(folder.join("wikitext.txt"))?;
            for article in articles::articles(&text).iter().step_by(2) {
                material.names.extend(articles::labelled(&teacher, article));
            }
            println!(
                "{} sentences with names, {:.0} s",
                material.names.len(),
                began.elapsed().as_secs_f64()
            );
            material.speech = trees.speech;
            material.roles = trees.roles;
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
    report(&model, folder)
}

/// Sentences that this project marked itself are repeated so often: they are few, and of the kind of text that is asked.
const REPEATED: usize = 10;
/// The share of the weights before in those that ship, the mean of both: on text that is no encyclopaedia it takes fewer
/// words for organisations that are none than what was learnt further does alone.
const KEPT: f32 = 0.5;

/// The model of `from` with its names learnt further: from sentences marked by people, and from sentences that a first
/// model marks, for which the data it was trained on before is not needed.
fn further(
    folder: &Path,
    from: &Path,
    out: &str,
) -> Result<TaggerModel, Box<dyn std::error::Error>> {
    let began = Instant::now();
    let before = TaggerModel::read(from)?;
    let text = std::fs::read_to_string(folder.join("wikitext.txt"))?;
    let all = articles::articles(&text);
    let marked = read::marked(include_str!("../../models/marked-train.txt"), &all)?;
    let mut names = read::entities(&folder.join("wnut17_train.conll"))?;
    for _ in 0..REPEATED {
        names.extend(marked.iter().cloned());
    }
    let trees = read::treebank(&folder.join("ewt-train.conllu"))?;
    let sentences: Vec<Vec<String>> = trees.speech.into_iter().map(|s| s.words).collect();
    let how = TaggerTraining::default();
    let [speech, _, roles] = how.most_features;
    let teacher = TaggerTraining {
        most_features: [speech, TEACHER_FEATURES, roles],
        steps: [127; 3],
        ..how.clone()
    };
    let teacher = before.further(&names, &teacher)?;
    for sentences in sentences.chunks(TOGETHER) {
        names.extend(articles::labelled(&teacher, sentences));
    }
    for article in all.iter().step_by(2) {
        names.extend(articles::labelled(&teacher, article));
    }
    let how = TaggerTraining { kept: KEPT, ..how };
    let model = before.further(&names, &how)?;
    let bytes = model.to_bytes();
    std::fs::write(out, &bytes)?;
    println!(
        "{out}: {} bytes after {:.0} s",
        bytes.len(),
        began.elapsed().as_secs_f64()
    );
    Ok(model)
}

fn report(model: &TaggerModel, folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let trees = read::treebank(&folder.join("ewt-test.conllu"))?;
    let (accuracy, of_speech) = measure::speech(model, &trees.speech);
    println!("parts of speech, EWT test: accuracy {accuracy:.4}");
    for kind in ["NOUN", "PROPN", "PRON", "VERB", "AUX"] {
        println!("  {kind:8} {}", of_speech[kind].row());
    }
    let (_, roles) = measure::one_word(model, &trees.roles, &ROLE_LABELS, WordTags::role_label);
    for kind in ["SUBJECT", "OBJECT"] {
        println!("  {kind:8} {}", roles[kind].row());
    }
    let held_out = std::fs::read_to_string(folder.join("wikitext-valid.txt"))?;
    let held_out = read::marked(
        include_str!("../../models/marked-valid.txt"),
        &articles::articles(&held_out),
    )?;
    let entities = |file| read::entities(&folder.join(file));
    for (name, sentences) in [
        ("WikiText-2's validation split", held_out),
        ("wnut17_test", entities("wnut17_test.conll")?),
        ("wikigold", entities("wikigold.conll")?),
    ] {
        println!("names, {name}:");
        for (kind, counts) in measure::names(model, &sentences, &["PER", "LOC", "ORG", "MISC"]) {
            println!("  {kind:8} {}", counts.row());
        }
        for least in [0.5, 0.3, 0.1, 0.02] {
            println!(
                "  words in names at {least:4}: {}",
                measure::words(model, &sentences, least).row()
            );
        }
        let began = Instant::now();
        let count: usize = sentences.iter().map(|s| s.words.len()).sum();
        measure::words(model, &sentences, 0.5);
        println!(
            "  {:.0} words a second",
            count as f64 / began.elapsed().as_secs_f64()
        );
    }
    Ok(())
}

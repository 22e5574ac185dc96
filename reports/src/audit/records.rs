//! Texts cut into records, with the ties that make several records a single piece of evidence.

use anyhow::{Context, Result, ensure};
use reticent_attacks::membership::lookalikes;
use reticent_backends::model::Model;
use reticent_corpus::policy::{PolicyChoice, PolicyOptions};
use reticent_corpus::prepare::{PrepareOptions, Preparer};
use reticent_corpus::read::read_documents;
use reticent_corpus::tokenize::Tokenizer;
use reticent_corpus::{Document, TokenId, Unit};
use std::collections::HashMap;
use std::path::Path;

/// Refuses a record that contains an end of text, as a pair of texts does, for a foreign encoder that read such pairs
/// with two token types: only one type is supported.
///
/// # Errors
/// Returns an error with the record's number, counted from 1.
pub(in crate::audit) fn one_text(
    model: &Model,
    tokenizer: &Tokenizer,
    tokens: &[TokenId],
    number: usize,
) -> Result<()> {
    let Model::Transformer(config) = model else {
        return Ok(());
    };
    let (content, end) = (
        tokens.get(1..tokens.len().saturating_sub(1)),
        tokenizer.eos(),
    );
    let pair = config.token_types > 1 && content.is_some_and(|content| content.contains(&end));
    ensure!(
        !pair,
        "record {number} has the end of a text inside, as a pair of texts has it, and the model reads the second of two with token_type_ids of 1, \
         which are not supported: join the two by another sign, or take a model with one type of tokens (RoBERTa)"
    );
    Ok(())
}

/// The records of a file.
#[derive(Debug, Clone, Default)]
pub(in crate::audit) struct Cut {
    /// Their unchanged texts.
    pub(in crate::audit) texts: Vec<String>,
    /// The ties of each record: its document, and the secrets that are marked in it.
    ties: Vec<Vec<String>>,
    /// The marked secrets that occur in each record.
    secrets: Vec<Vec<String>>,
}

impl Cut {
    /// Returns a selection of the records.
    pub(in crate::audit) fn only(&self, kept: &[usize]) -> Self {
        Self {
            texts: kept.iter().map(|&i| self.texts[i].clone()).collect(),
            ties: kept.iter().map(|&i| self.ties[i].clone()).collect(),
            secrets: kept.iter().map(|&i| self.secrets[i].clone()).collect(),
        }
    }

    /// Returns the records with a marked secret, and the same records with another secret in its place.
    pub(in crate::audit) fn with_lookalikes(self, seed: u64) -> Result<[Self; 2]> {
        let texts: Vec<_> = self
            .texts
            .iter()
            .cloned()
            .zip(self.secrets.clone())
            .collect();
        let drawn = lookalikes(&texts, seed);
        let kept: Vec<usize> = (0..texts.len()).filter(|&i| drawn[i].is_some()).collect();
        ensure!(
            !kept.is_empty(),
            "none of the {} records holds a marked secret whose content can be redrawn; `secrets` of a JSON line mark them",
            texts.len()
        );
        let members = self.only(&kept);
        let others = Self {
            texts: drawn.into_iter().flatten().collect(),
            ..members.clone()
        };
        Ok([members, others])
    }
}

/// Cuts every document of a file into units, without masking or dropping anything. With `secrets`, records are also
/// tied by the secrets marked in their documents.
pub(in crate::audit) fn cut(path: &Path, unit: Unit, secrets: bool) -> Result<Cut> {
    let mut out = Cut::default();
    for (number, document) in (1_u64..).zip(read_documents(path)?) {
        document
            .unmasked()
            .with_context(|| path.display().to_string())?;
        let name = document_name(path, &document.id);
        let texts = match unit {
            Unit::Document | Unit::Dialogue | Unit::User => vec![document.text.clone()],
            Unit::Turn | Unit::Sentence => units(&document, unit)
                .with_context(|| format!("{}, document {number}", path.display()))?,
        };
        for text in texts.into_iter().filter(|t| !t.trim().is_empty()) {
            let marked = document.secrets.iter().map(|s| document.secret_text(s));
            let inside = marked.filter(|s| !s.is_empty() && text.contains(s));
            let inside: Vec<String> = inside.map(str::to_owned).collect();
            let mut ties = vec![name.clone()];
            if secrets {
                ties.extend(inside.iter().map(|s| format!("secret {s}")));
            }
            out.texts.push(text);
            out.ties.push(ties);
            out.secrets.push(inside);
        }
    }
    ensure!(
        !out.texts.is_empty(),
        "{} has no record to score",
        path.display()
    );
    Ok(out)
}

/// Returns a document's name together with its file, since the documents of two files often have the same numbers.
pub(in crate::audit) fn document_name(path: &Path, id: &str) -> String {
    format!("{}: document {id}", path.display())
}

/// Returns all units of one document, as the corpus crate cuts them.
fn units(document: &Document, unit: Unit) -> Result<Vec<String>> {
    if document.text.trim().is_empty() {
        return Ok(Vec::new());
    }
    texts(std::slice::from_ref(document), unit)
}

/// Returns all units of the documents, without masking or dropping anything.
pub(in crate::audit) fn texts(documents: &[Document], unit: Unit) -> Result<Vec<String>> {
    let options = PrepareOptions {
        unit,
        deduplicate: false,
        redact: false,
        policy: PolicyOptions {
            policy: PolicyChoice::Nothing,
            ..PolicyOptions::default()
        },
        ..PrepareOptions::default()
    };
    Ok(Preparer::new(documents, &options)?.run()?.texts)
}

/// Returns one name for all records that are tied to each other, directly or through others, over both files: the first
/// of their ties.
pub(in crate::audit) fn shared_groups(sides: &[Cut; 2]) -> [Vec<String>; 2] {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut parents: Vec<usize> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    fn root(parents: &mut [usize], mut at: usize) -> usize {
        while parents[at] != at {
            parents[at] = parents[parents[at]];
            at = parents[at];
        }
        at
    }
    for record in sides.iter().flat_map(|side| &side.ties) {
        let mut first = None;
        for tie in record {
            let number = *numbers.entry(tie).or_insert_with(|| {
                parents.push(parents.len());
                names.push(tie);
                parents.len() - 1
            });
            let at = root(&mut parents, number);
            match first {
                None => first = Some(at),
                Some(before) => {
                    let before = root(&mut parents, before);
                    let (low, high) = (before.min(at), before.max(at));
                    parents[high] = low;
                }
            }
        }
    }
    let mut named = |side: &Cut| -> Vec<String> {
        side.ties
            .iter()
            .map(|record| {
                let number = numbers[record[0].as_str()];
                names[root(&mut parents, number)].to_owned()
            })
            .collect()
    };
    [named(&sides[0]), named(&sides[1])]
}

#[cfg(test)]
mod tests {
    use super::*;
    use reticent_backends::model::{Family, TransformerConfig};

    #[test]
    fn pairs_are_refused_for_a_model_of_two_types() {
        let config = |family| TransformerConfig::new(family, 259, 8, 1, 1, 8);
        let model = |family| Model::Transformer(Box::new(config(family)));
        let tokenizer = Tokenizer::bytes();
        let [begin, end] = [tokenizer.bos(), tokenizer.eos()];
        let (one, pair) = ([begin, 5, 6, end], [begin, 5, end, 6, end]);
        let said = |family, tokens: &[TokenId]| one_text(&model(family), &tokenizer, tokens, 3);
        let error = said(Family::Bert, &pair).unwrap_err().to_string();
        assert!(
            error.starts_with("record 3 ") && error.contains("token_type_ids"),
            "{error}"
        );
        assert!(said(Family::Bert, &one).is_ok());
        assert!(said(Family::Roberta, &pair).is_ok());
        assert!(said(Family::Bert, &[]).is_ok());
    }

    fn side(ties: &[&[&str]]) -> Cut {
        Cut {
            texts: ties.iter().map(|_| "text".to_owned()).collect(),
            secrets: ties.iter().map(|_| Vec::new()).collect(),
            ties: ties
                .iter()
                .map(|record| record.iter().map(ToString::to_string).collect())
                .collect(),
        }
    }

    /// Records hang together through documents, through secrets, and across the two files.
    #[test]
    fn ties_are_followed_to_their_end() {
        let inside = side(&[&["a", "x"], &["b"], &["c", "y", "x"]]);
        let outside = side(&[&["d"], &["e", "y"], &["b"]]);
        let [members, others] = shared_groups(&[inside, outside]);
        assert_eq!(members, ["a", "b", "a"]);
        assert_eq!(others, ["d", "a", "b"]);
    }

    #[test]
    fn turns_are_tied_by_their_document() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("d.jsonl");
        std::fs::write(
            &path,
            "{\"id\":\"p\",\"text\":\"USR: one\\nSYS: one\\nUSR: one\"}\n{\"id\":\"q\",\"text\":\"USR: two\"}\n",
        )
        .unwrap();
        let turns = cut(&path, Unit::Turn, false).unwrap();
        assert_eq!(turns.texts.len(), 4, "repetitions stay");
        let name = format!("{}: document p", path.display());
        assert_eq!(turns.ties[2], [name]);
        assert_eq!(cut(&path, Unit::Document, false).unwrap().texts.len(), 2);
        assert_eq!(turns.only(&[3]).texts, ["USR: two"]);
    }
}

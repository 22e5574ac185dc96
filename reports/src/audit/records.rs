//! Texts cut into records, with the ties that make several records a single piece of evidence.

use crate::audit::args::{GroupBy, TextField};
use crate::audit::owner_key::load_texts;
use crate::audit::reading::to_measure;
use crate::contract::is_prepared;
use anyhow::{Context, Result, anyhow, bail, ensure};
use reticent_attacks::membership::lookalikes;
use reticent_backends::model::Model;
use reticent_corpus::prepare::Prepared;
use reticent_corpus::read::ReadOptions;
use reticent_corpus::screening::{ScreeningRecord, screening_records};
use reticent_corpus::tokenize::Tokenizer;
use reticent_corpus::{Document, Labels, Record, TokenId, Unit};
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
    /// Their texts as they are prepared: a mask is `<MASK>`, and a literal one is escaped.
    pub(in crate::audit) texts: Vec<String>,
    /// Their tokens, where the text alone does not tell them.
    tokens: Vec<Option<Vec<TokenId>>>,
    /// The ties of each record: its document, and the secrets that are marked in it.
    ties: Vec<Vec<String>>,
    /// The marked secrets that occur in each record, each behind its kind.
    secrets: Vec<Vec<(String, String)>>,
}

impl Cut {
    /// Returns a selection of the records.
    pub(in crate::audit) fn only(&self, kept: &[usize]) -> Self {
        Self {
            texts: kept.iter().map(|&i| self.texts[i].clone()).collect(),
            tokens: kept.iter().map(|&i| self.tokens[i].clone()).collect(),
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
            "none of the {} records holds a marked secret whose content can be redrawn: one that has digits, or of whose \
             kind and form the secrets are not all combinations of their words (single words are); `secrets` of a JSON line mark them",
            texts.len()
        );
        let members = self.only(&kept);
        let others = Self {
            texts: drawn.into_iter().flatten().collect(),
            tokens: vec![None; kept.len()],
            ..members.clone()
        };
        Ok([members, others])
    }
}

/// Which records of a prepared folder are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::audit) enum Part {
    /// Those that are trained on.
    Training,
    /// Those that were held out.
    HeldOut,
}

impl Part {
    const fn name(self) -> &'static str {
        match self {
            Self::Training => "training",
            Self::HeldOut => "held-out",
        }
    }
}

/// Reads records as a model was trained to.
#[derive(Debug)]
pub(in crate::audit) struct Reader<'a> {
    tokenizer: &'a Tokenizer,
    /// The most tokens of a record that were trained on.
    most: usize,
    without_end: bool,
    /// How texts are read.
    reading: ReadOptions,
    /// The tokens of records that the text alone does not tell.
    known: HashMap<String, Vec<TokenId>>,
}

impl<'a> Reader<'a> {
    /// `most`: the limit of the model's manifest. `without_end`: no record has the token for its end.
    pub(in crate::audit) fn new(
        tokenizer: &'a Tokenizer,
        most: Option<usize>,
        without_end: bool,
    ) -> Self {
        Self {
            tokenizer,
            most: most.unwrap_or(usize::MAX),
            without_end,
            reading: ReadOptions::default(),
            known: HashMap::new(),
        }
    }

    /// Reads the texts under this key.
    pub(in crate::audit) fn with_field(self, text: &TextField) -> Self {
        Self {
            reading: text.options(),
            ..self
        }
    }

    /// Takes over what is known of the tokens of records.
    pub(in crate::audit) fn learn(&mut self, cut: &Cut) {
        let known = cut.texts.iter().zip(&cut.tokens);
        let known = known.filter_map(|(text, tokens)| Some((text.clone(), tokens.clone()?)));
        self.known.extend(known);
    }

    /// Returns the tokens of a prepared text, in which `<MASK>` is a mask.
    pub(in crate::audit) fn tokens(&self, text: &str) -> reticent_corpus::Result<Vec<TokenId>> {
        let mut tokens = match self.known.get(text) {
            Some(tokens) => tokens.clone(),
            None => self.tokenizer.frame_prepared(text)?,
        };
        tokens.truncate(self.most);
        if self.without_end && tokens.len() > 2 && tokens.last() == Some(&self.tokenizer.eos()) {
            tokens.pop();
        }
        Ok(tokens)
    }

    /// Returns a prepared text as far as it was trained on, with its tokens if that is not all of it.
    pub(in crate::audit) fn as_trained(
        &self,
        text: String,
    ) -> Result<(String, Option<Vec<TokenId>>)> {
        if self.most == usize::MAX {
            return Ok((text, None));
        }
        let mut tokens = self.tokenizer.frame_prepared(&text)?;
        if tokens.len() <= self.most {
            return Ok((text, None));
        }
        tokens.truncate(self.most);
        Ok((self.tokenizer.decode(&tokens)?, Some(tokens)))
    }
}

/// The records of one part of a prepared folder.
pub(in crate::audit) struct PreparedRecords {
    pub(in crate::audit) records: Vec<Record>,
    /// The number of each record's document in its part; `None` if the folder doesn't say it.
    documents: Option<Vec<u64>>,
    /// Their texts, as far as their tokens go.
    pub(in crate::audit) texts: Vec<String>,
    pub(in crate::audit) tokenizer: Tokenizer,
    pub(in crate::audit) labels: Option<Labels>,
}

impl PreparedRecords {
    /// Reads one part of a folder. A record that may have been cut behind `--max-tokens`, or is longer than `most`, has
    /// the text of its tokens.
    ///
    /// # Errors
    /// A folder that can't be read, whose records are of another unit, or without records in this part.
    pub(in crate::audit) fn read(
        path: &Path,
        part: Part,
        unit: Unit,
        most: Option<usize>,
    ) -> Result<Self> {
        let prepared = load_texts(path)?;
        let own = prepared.training.unit;
        ensure!(
            own == unit,
            "one record is a {own} in {}, and {unit}s are measured; name the text that it was prepared from, or give \
             --unit {own}",
            path.display()
        );
        let (mut texts, mut records, documents) = match part {
            Part::Training => (
                learned(&prepared)?,
                prepared.training.records,
                prepared.documents,
            ),
            Part::HeldOut => (
                as_far_as_tokens(&prepared, &prepared.held_out, &prepared.held_out_texts)?,
                prepared.held_out,
                prepared.held_out_documents,
            ),
        };
        // Each record is a document of its own, so that its number is one.
        let whole = matches!(unit, Unit::Dialogue | Unit::Document | Unit::User);
        let documents = documents.or_else(|| whole.then(|| (0..records.len() as u64).collect()));
        ensure!(
            !records.is_empty(),
            "{}: it has no {} record",
            path.display(),
            part.name()
        );
        let most = most.unwrap_or(usize::MAX);
        for (record, text) in records.iter_mut().zip(&mut texts) {
            if record.tokens.len() > most {
                record.tokens.truncate(most);
                *text = prepared.tokenizer.decode(&record.tokens)?;
            }
        }
        Ok(Self {
            records,
            documents,
            texts,
            tokenizer: prepared.tokenizer,
            labels: prepared.options.labels,
        })
    }

    /// Returns the name of each record's document, with the folder and the part.
    ///
    /// # Errors
    /// A folder of an earlier version, which doesn't say which records are of one document.
    pub(in crate::audit) fn documents(&self, path: &Path, part: Part) -> Result<Vec<String>> {
        let (path, part) = (path.display(), part.name());
        let numbers = self.documents.as_ref().with_context(|| {
            format!(
                "{path}: an earlier version prepared it, and it does not say which records are of one document; prepare it again \
                 (`audit prepare`)"
            )
        })?;
        let named = numbers
            .iter()
            .map(|number| format!("{path}: {part} document {}", number + 1));
        Ok(named.collect())
    }

    /// Refuses a folder whose tokens are not those of the model.
    pub(in crate::audit) fn fits(self, path: &Path, tokenizer: &Tokenizer) -> Result<Self> {
        let ids = |of: &Tokenizer| (of.mask(), of.vocabulary_size());
        // What a classifier's files put around a text is no part of it.
        ensure!(
            self.tokenizer.cuts_like(tokenizer)? && ids(&self.tokenizer) == ids(tokenizer),
            "{} has another tokenizer than the model, and its records are tokens; prepare it with --tokenizer, or name the \
             text that it was prepared from",
            path.display()
        );
        Ok(self)
    }
}

/// Returns the texts of the records that are trained on, as far as their tokens go.
pub(in crate::audit) fn learned(prepared: &Prepared) -> Result<Vec<String>> {
    as_far_as_tokens(prepared, &prepared.training.records, &prepared.texts)
}

/// Returns the texts of records of a folder as far as their tokens go: one that may have been cut behind `--max-tokens`
/// is read back from them.
fn as_far_as_tokens(
    prepared: &Prepared,
    records: &[Record],
    texts: &[String],
) -> Result<Vec<String>> {
    let Some(most) = prepared.options.max_tokens else {
        return Ok(texts.to_vec());
    };
    let each = texts.iter().zip(records);
    let each = each.map(|(text, record)| match record.tokens.len() < most {
        true => Ok(text.clone()),
        false => Ok(prepared.tokenizer.decode(&record.tokens)?),
    });
    each.collect()
}

/// Reads a prepared folder, or cuts every document of a file into units, without masking or dropping anything. Records
/// are tied by their documents and, if `by` says so, by the secrets marked in these. Records end where training on them did.
///
/// # Errors
/// What can't be read; a prepared folder that doesn't say what the records are to be tied by; no records.
pub(in crate::audit) fn cut(
    path: &Path,
    part: Part,
    unit: Unit,
    by: GroupBy,
    reader: &Reader<'_>,
) -> Result<Cut> {
    let mut out = Cut::default();
    if is_prepared(path) {
        let most = Some(reader.most);
        let read = PreparedRecords::read(path, part, unit, most)?;
        let found = read.fits(path, reader.tokenizer)?;
        let names = match by {
            // Only shadow models use these: each is trained on one half of them.
            GroupBy::Nothing if found.documents.is_none() => {
                each_by_itself(path, part, found.texts.len())
            }
            GroupBy::Nothing => found.documents(path, part)?,
            GroupBy::Document => found.documents(path, part).map_err(|why| {
                anyhow!(
                    "{why}, or take each record by itself (`audit membership --group-by nothing`)"
                )
            })?,
            GroupBy::Secret => bail!(
                "{}: a prepared folder carries no marks of secrets, got --group-by secret; name the text that it was prepared \
                 from, or group by document",
                path.display()
            ),
        };
        out.ties = names.into_iter().map(|name| vec![name]).collect();
        out.secrets = vec![Vec::new(); found.texts.len()];
        out.texts = found.texts;
        let tokens = found.records.into_iter().map(|record| Some(record.tokens));
        out.tokens = tokens.collect();
        return Ok(out);
    }
    for (number, document) in (1_u64..).zip(to_measure(path, &reader.reading)?) {
        let name = document_name(path, &document.id);
        let texts = texts(std::slice::from_ref(&document), unit)
            .with_context(|| format!("{}, document {number}", path.display()))?;
        for text in texts {
            let (text, tokens) = reader.as_trained(text)?;
            let marked = document.secrets.iter();
            let marked = marked.map(|s| (s.kind.clone(), document.secret_text(s).to_owned()));
            let inside = marked.filter(|(_, s)| !s.is_empty() && text.contains(s));
            let inside: Vec<(String, String)> = inside.collect();
            let mut ties = vec![name.clone()];
            if by == GroupBy::Secret {
                ties.extend(inside.iter().map(|(_, s)| format!("secret {s}")));
            }
            out.texts.push(text);
            out.tokens.push(tokens);
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

/// Returns a name for each of so many records of a folder that doesn't say which of them are of one document.
fn each_by_itself(path: &Path, part: Part, count: usize) -> Vec<String> {
    let (path, part) = (path.display(), part.name());
    let each = (1..=count).map(|number| format!("{path}: {part} record {number}"));
    each.collect()
}

/// Returns a document's name together with its file, since the documents of two files often have the same numbers.
pub(in crate::audit) fn document_name(path: &Path, id: &str) -> String {
    format!("{}: document {id}", path.display())
}

/// Returns all units of the documents as they are prepared, without dropping anything: what was masked beforehand is
/// `<MASK>`, and a literal one is escaped.
pub(in crate::audit) fn texts(documents: &[Document], unit: Unit) -> Result<Vec<String>> {
    let records = screening_records(documents, unit)?;
    Ok(records.iter().map(ScreeningRecord::prepared_text).collect())
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
    use reticent_corpus::prepare::{PrepareOptions, TokenizerChoice, prepare};

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
            tokens: vec![None; ties.len()],
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

    /// Turns of one dialogue are no independent evidence. Document 3 of one part has nothing to do with document 3 of the
    /// other: tied, one of the two was left out where records are thinned.
    #[test]
    fn records_of_a_prepared_folder_are_tied_by_their_documents() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prepared");
        let options = PrepareOptions {
            tokenizer: TokenizerChoice::Bytes,
            held_out: 0.5,
            ..PrepareOptions::default()
        };
        let documents = reticent_corpus::simulate::simulate(8, 0).unwrap();
        let made = prepare(&documents, &options).unwrap();
        let key = crate::audit::owner_key::made().unwrap();
        made.write(&path, false, key).unwrap();
        let reader = Reader::new(&made.tokenizer, None, false);
        let of = |part, by| cut(&path, part, Unit::Turn, by, &reader);
        let by_document = |part| of(part, GroupBy::Document).unwrap();
        let sides = [Part::Training, Part::HeldOut].map(by_document);
        let [members, others] = shared_groups(&sides);
        assert!(others.iter().all(|name| !members.contains(name)));
        for (names, documents) in [(&members, 4), (&others, 4)] {
            let distinct: std::collections::BTreeSet<_> = names.iter().collect();
            assert_eq!(distinct.len(), documents);
            assert!(names.len() > documents);
        }
        let said = of(Part::Training, GroupBy::Secret).unwrap_err().to_string();
        assert!(said.contains("carries no marks"), "{said}");
        // Shadow models are trained on halves of whole documents, whatever is grouped.
        let by_nothing = |part| of(part, GroupBy::Nothing).unwrap();
        let sides = [Part::Training, Part::HeldOut].map(by_nothing);
        assert_eq!(shared_groups(&sides), [members, others]);
        // A folder of an earlier version.
        for name in ["records.jsonl", "held-out.jsonl"] {
            let text = std::fs::read_to_string(path.join(name)).unwrap();
            let lines = text.lines().map(|line| {
                let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
                assert!(line.as_object_mut().unwrap().remove("document").is_some());
                format!("{line}\n")
            });
            std::fs::write(path.join(name), lines.collect::<String>()).unwrap();
        }
        if let Some(key) = key {
            reticent_corpus::prepare::seal_folder(&path, key).unwrap();
        }
        let said = of(Part::HeldOut, GroupBy::Document).unwrap_err();
        let said = said.to_string();
        assert!(said.contains("prepare it again"), "{said}");
        assert!(said.contains("--group-by nothing"), "{said}");
        let sides = [Part::Training, Part::HeldOut].map(by_nothing);
        let names = shared_groups(&sides).concat();
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
    }

    /// The mask of a prepared line is one token, and that of other text is text; a record ends where training on it did.
    #[test]
    fn prepared_lines_are_read_as_they_were_trained_on() {
        let folder = tempfile::tempdir().unwrap();
        let tokenizer = Tokenizer::bytes();
        let read = |line: &str, most| {
            let path = folder.path().join("d.jsonl");
            std::fs::write(&path, line).unwrap();
            let mut reader = Reader::new(&tokenizer, most, false);
            let found = cut(
                &path,
                Part::Training,
                Unit::Document,
                GroupBy::Document,
                &reader,
            )
            .unwrap();
            reader.learn(&found);
            (
                found.texts[0].clone(),
                reader.tokens(&found.texts[0]).unwrap(),
            )
        };
        let prepared = r#"{"id":"unit-0-0123456789abcdef","side":"private","text":"I am <MASK>."}"#;
        let (text, tokens) = read(prepared, None);
        assert_eq!((text.as_str(), tokens.len()), ("I am <MASK>.", 9));
        assert_eq!(tokens[6], tokenizer.mask());
        let (text, tokens) = read(prepared, Some(7));
        assert_eq!((text.as_str(), tokens.len()), ("I am <MASK>", 7));
        assert_eq!(tokens.last(), Some(&tokenizer.mask()));
        for other in [
            r#"{"id":"a","side":"private","text":"I am <MASK>."}"#,
            r#"{"id":"unit-0-0123456789abcdef","text":"I am <MASK>."}"#,
        ] {
            let (text, tokens) = read(other, None);
            assert_eq!((text.as_str(), tokens.len()), (r"I am <\MASK>.", 15));
            assert!(!tokens.contains(&tokenizer.mask()));
        }
        // With the text in lower case, the mask is still one.
        let lower = reticent_corpus::tokenize::lower_case("I am <MASK>.");
        assert_eq!(lower, "i am <MASK>.");
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
        let tokenizer = Tokenizer::bytes();
        let reader = Reader::new(&tokenizer, None, false);
        let of = |unit| cut(&path, Part::Training, unit, GroupBy::Document, &reader).unwrap();
        let turns = of(Unit::Turn);
        assert_eq!(turns.texts.len(), 4, "repetitions stay");
        let name = format!("{}: document p", path.display());
        assert_eq!(turns.ties[2], [name]);
        assert_eq!(of(Unit::Document).texts.len(), 2);
        assert_eq!(turns.only(&[3]).texts, ["USR: two"]);
    }
}

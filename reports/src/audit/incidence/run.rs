//! `audit incidence`: writes which record contains which secret.

use super::args::{PREPARED_HELD_OUT, PREPARED_RECORDS};
use crate::account::protect::read::Kind;
use crate::audit::args::{IncidenceArgs, PolicyArg};
use crate::audit::by_kind;
use crate::audit::owner_key::{hmac, with_policy};
use crate::audit::reading::{list, warn};
use crate::contract::{AtomicFile, Envelope, Exit, Inputs, Interrupt, Progress, is_stream};
use crate::number::{count_of, grouped};
use crate::page::{Output, Page, Section};
use crate::plan::PreparedFacts;
use anyhow::{Context, Result, bail, ensure};
use reticent_corpus::policy::PolicyChoice;
use reticent_corpus::read::{Documents, ReadOptions, corpus_files};
use reticent_corpus::redaction::{
    DocumentFrequencies, FoundSecrets, Incidence, SecretList, Sense, Sensed,
};
use reticent_corpus::{Error, Unit};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Body {
    out: String,
    records: u64,
    records_with_secrets: u64,
    pairs: u64,
    distinct: u64,
    most_records: u64,
    by_kind: BTreeMap<String, u64>,
    skipped: Vec<String>,
    /// Records with a secret that stands there inside longer words or numbers alone: counted as well. Of --list and --policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    records_with_inside: Option<u64>,
    /// Secrets of --list that are in no record, not even inside a longer word.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_found: Option<u64>,
    /// Of them, those that are in held-out records of the prepared corpus.
    #[serde(skip_serializing_if = "Option::is_none")]
    only_held_out: Option<u64>,
}

/// Secrets as they are written, with the number of records of each.
#[derive(Default)]
struct Names {
    show: bool,
    /// The lines of the secrets of --list.
    lines: LineNumbers,
    /// By what their spellings have in common.
    known: HashMap<Box<str>, Known>,
    by_kind: BTreeMap<String, u64>,
}

/// A secret that occurred before.
struct Known {
    /// What it is called.
    name: Box<str>,
    records: u64,
}

/// The text, and what one record of it is.
struct Source {
    path: PathBuf,
    /// The unit into which the text is cut.
    cut: Unit,
    /// The name of a record.
    unit: String,
    /// Whether these are the records of a prepared corpus.
    is_prepared: bool,
}

impl Source {
    /// Returns a corpus cut as `--unit` says. The records of a prepared corpus, given by its folder
    /// or its train.jsonl, stay as they are, so that their names are those that the trainer knows.
    fn of(args: &IncidenceArgs) -> Result<Self> {
        let Some(folder) = args.folder() else {
            let unit = args.unit.unwrap_or(Unit::Turn);
            return Ok(Self {
                path: args.data.clone(),
                cut: unit,
                unit: unit.to_string(),
                is_prepared: false,
            });
        };
        let facts = PreparedFacts::read(folder).context("DATA")?;
        facts.names().context("DATA")?;
        let unit = facts.unit.to_string();
        if let Some(other) = args.unit
            && other != Unit::Document
            && other.to_string() != unit
        {
            bail!("--unit: the records of the prepared corpus are {unit}s, got {other}");
        }
        Ok(Self {
            path: folder.join(PREPARED_RECORDS),
            cut: Unit::Document,
            unit,
            is_prepared: true,
        })
    }

    /// Returns the held-out records of a prepared corpus, if it has any.
    fn held_out(&self) -> Option<Self> {
        let path = self.path.with_file_name(PREPARED_HELD_OUT);
        (self.is_prepared && path.exists()).then(|| Self {
            path,
            unit: self.unit.clone(),
            ..*self
        })
    }

    /// Returns the files that are read, none of which may be the output.
    fn files(&self, args: &IncidenceArgs) -> Result<Vec<PathBuf>> {
        let mut read = corpus_files(&self.path).context("DATA")?;
        read.extend(args.sensing.list.clone());
        let policy = args.sensing.policy.as_ref().and_then(PolicyArg::file);
        read.extend(policy.map(Path::to_path_buf));
        Ok(read)
    }

    fn open(&self, args: &IncidenceArgs) -> Result<Documents> {
        // A table of what is under masks would write it out, and count what no record holds.
        let options = ReadOptions {
            unmasked: true,
            prepared: true,
            ..args.reading.options(args.sensing.field.as_deref())?
        };
        Documents::with(&self.path, &options).context("DATA")
    }
}

pub(in crate::audit) fn run(
    args: &IncidenceArgs,
    output: Output,
    interrupt: &Interrupt,
) -> Result<Exit> {
    let source = Source::of(args)?;
    let read = source.files(args)?;
    let mut table = table::Table::create(&args.out, args.force, &read).context("--out")?;
    let threads = usize::try_from(args.threads).unwrap_or(usize::MAX);
    let (sense, sensed_by, lines) = sense(args, &source, threads, interrupt)?;
    let mut missing: Option<HashSet<String>> =
        (lines.as_ref()).map(|lines| lines.keys().cloned().collect());
    let mut documents = source.open(args)?;
    let progress = Progress::bytes(documents.size(), "finding secrets");
    let mut shown = Body {
        out: args.out.display().to_string(),
        ..Body::default()
    };
    let mut names = Names {
        show: args.show_secrets,
        lines: lines.unwrap_or_default(),
        ..Names::default()
    };
    let (mut failed, mut inside) = (None, 0);
    Incidence::each(
        &mut documents,
        source.cut,
        &sense,
        threads,
        |found, read| {
            progress.at(read);
            shown.records += 1;
            shown.records_with_secrets += u64::from(!found.secrets.is_empty());
            shown.pairs += found.secrets.len() as u64;
            inside += u64::from(found.secrets.iter().any(|secret| secret.inside));
            if let Some(missing) = &mut missing {
                found.secrets.iter().for_each(|secret| {
                    missing.remove(&secret.secret);
                });
            }
            let secrets: Vec<String> = found.secrets.iter().map(|s| names.of(s)).collect();
            failed = table.row(&found.example, &secrets).err();
            Ok(failed.is_none() && !interrupt.raised())
        },
    )
    .context("DATA")?;
    drop(progress);
    if let Some(error) = failed {
        return Err(error.context("--out"));
    }
    interrupt.check()?;
    if shown.records == 0 {
        let path = source.path.clone();
        return Err(Error::EmptyCorpus { path }).context("DATA");
    }
    if let (Some(field), 0) = (&args.sensing.field, shown.pairs) {
        bail!("--field: no record of DATA has a value under {field:?}");
    }
    table.finish().context("--out")?;
    documents.skipped().iter().for_each(warn);
    shown.skipped = documents
        .skipped()
        .iter()
        .map(ToString::to_string)
        .collect();
    shown.distinct = names.known.len() as u64;
    shown.records_with_inside =
        matches!(sense, Sense::List(_) | Sense::Policy(_)).then_some(inside);
    shown.not_found = missing.as_ref().map(|missing| missing.len() as u64);
    if let (Some(missing), Some(held_out)) = (missing.filter(|m| !m.is_empty()), source.held_out())
    {
        shown.only_held_out = Some(among(missing, &held_out, args, threads, interrupt)?);
    }
    shown.most_records = names
        .known
        .values()
        .map(|known| known.records)
        .max()
        .unwrap_or(0);
    shown.by_kind = names.by_kind;
    show(&shown, (args, &source), sensed_by, output)
}

/// Returns how many of these secrets are in the records of a source.
fn among(
    secrets: HashSet<String>,
    source: &Source,
    args: &IncidenceArgs,
    threads: usize,
    interrupt: &Interrupt,
) -> Result<u64> {
    let list = SecretList::new(secrets.into_iter().collect()).context("--list")?;
    let mut found = HashSet::new();
    Incidence::each(
        &mut source.open(args)?,
        source.cut,
        &Sense::List(list),
        threads,
        |record, _| {
            found.extend(
                record
                    .secrets
                    .iter()
                    .map(|secret| secret.secret.to_string()),
            );
            Ok(!interrupt.raised())
        },
    )
    .context("DATA")?;
    interrupt.check()?;
    Ok(found.len() as u64)
}

/// The line of each secret of a list.
type LineNumbers = HashMap<String, u64>;

/// Returns how secrets are found, how the report describes this, and the lines of those of a list.
fn sense(
    args: &IncidenceArgs,
    source: &Source,
    threads: usize,
    interrupt: &Interrupt,
) -> Result<(Sense, Inputs, Option<LineNumbers>)> {
    let inputs = Inputs::new();
    let how = &args.sensing;
    let once = |path: &Path| {
        let other = |about: std::fs::Metadata| !about.is_file() && !about.is_dir();
        is_stream(path) || std::fs::metadata(path).is_ok_and(other)
    };
    ensure!(
        (how.policy.is_none() && how.words.is_none()) || !once(&source.path),
        "DATA: is read twice with --policy or --words, and stdin (-), a pipe or a device can be read only once; name a file"
    );
    if let Some(policy) = &how.policy {
        let choice = policy.choice().context("--policy")?;
        ensure!(
            !(source.is_prepared && matches!(choice, PolicyChoice::Gold)),
            "--policy: a prepared corpus keeps no marks for gold; give --list FILE with the secrets, a policy \
             that finds them, or the marked corpus that it was prepared from"
        );
        let inputs = with_policy(inputs.given("policy", policy.to_string())?, &choice)?;
        let policy = choice.build().context("--policy")?;
        let mut documents = source.open(args)?;
        let progress = Progress::bytes(documents.size(), "looking for secrets");
        let found = FoundSecrets::find(&mut documents, source.cut, policy, threads, |read| {
            progress.at(read);
            !interrupt.raised()
        });
        let found = found.context("DATA")?;
        interrupt.check()?;
        return Ok((Sense::Policy(found), inputs, None));
    }
    if let Some(path) = &how.list {
        let secrets = list(path).context("--list")?;
        let texts = secrets.iter().map(|(_, secret)| secret.clone()).collect();
        let list = SecretList::new(texts).context("--list")?;
        let lines = secrets.into_iter().map(|(line, secret)| (secret, line));
        let inputs = inputs
            .given_path("list", Some(path))?
            .given("list_hmac", hmac("list", list.sha256().as_bytes())?)?;
        return Ok((Sense::List(list), inputs, Some(lines.collect())));
    }
    let Some(ranks) = &how.words else {
        let inputs = inputs.given("field", how.field.as_deref())?;
        return Ok((Sense::Field, inputs, None));
    };
    let mut documents = source.open(args)?;
    let progress = Progress::bytes(documents.size(), "counting words");
    let counts = DocumentFrequencies::count(&mut documents, source.cut, threads, |read| {
        progress.at(read);
        !interrupt.raised()
    })
    .context("DATA")?;
    interrupt.check()?;
    let words = counts.ranked(ranks).context("--words")?;
    let inputs = inputs.given("words", format!("{}-{}", ranks.start(), ranks.end()))?;
    Ok((Sense::Words(words.into_iter().collect()), inputs, None))
}

impl Names {
    /// Returns the secret itself, or its kind with a number: that of its line in a list, else in order of appearance.
    fn of(&mut self, sensed: &Sensed) -> String {
        let form = sensed.form.as_str().into();
        let known = self.known.entry(form).or_insert_with(|| {
            let next = self.by_kind.entry(sensed.kind.to_string()).or_insert(0);
            *next += 1;
            let number = self.lines.get(&sensed.secret).copied();
            let name = match self.show {
                true => sensed.secret.as_str().into(),
                false => format!("{}-{}", sensed.kind, number.unwrap_or(*next - 1)).into(),
            };
            Known { name, records: 0 }
        });
        known.records += 1;
        known.name.to_string()
    }
}

fn show(
    shown: &Body,
    (args, source): (&IncidenceArgs, &Source),
    sensed_by: Inputs,
    output: Output,
) -> Result<Exit> {
    let inputs = sensed_by
        .given("data", args.data.display().to_string())?
        .given("unit", &source.unit)?;
    output.answer(
        &Envelope::new("incidence", inputs, shown),
        &page(shown, &source.unit, args.sensing.policy.is_some()),
    )
}

/// `by_policy`: whether a policy found the secrets, so that nothing but their text says which of them are one.
fn page(shown: &Body, unit: &str, by_policy: bool) -> Page {
    let said = format!(
        "{}: {} of {} hold a secret; {}.",
        shown.out,
        grouped(shown.records_with_secrets),
        count_of(shown.records, unit),
        count_of(shown.pairs, "pair")
    );
    let kinds = by_kind(&shown.by_kind, "none");
    let secrets = format!(
        "{} distinct ({kinds}), one of them in {}",
        grouped(shown.distinct),
        count_of(shown.most_records, unit)
    );
    let mut facts = vec![("secrets", secrets)];
    if by_policy && shown.distinct > 0 {
        let said = "those that differ only in case, spaces, accents or what stands between digits are one secret, counted wherever it \
                    stands; a value that is written otherwise (a nickname, +44 for 0) counts as another one, which --field avoids";
        facts.push(("spellings", said.to_owned()));
        let unread = ["not-examined", "not-classified"].iter();
        let unread: u64 = unread.filter_map(|kind| shown.by_kind.get(*kind)).sum();
        if unread > 0 {
            let said = format!(
                "{} the policy could not examine are a secret each: what else they hold is counted only if the policy found it elsewhere",
                count_of(unread, unit)
            );
            facts.push(("not examined", said));
        }
    }
    if let Some(inside) = shown.records_with_inside.filter(|inside| *inside > 0) {
        let said = format!(
            "in {}, one stands only inside a longer word or number; counted as well",
            count_of(inside, unit)
        );
        facts.push(("inside words", said));
    }
    if let Some(missing) = shown.not_found.filter(|missing| *missing > 0) {
        let held_out = shown.only_held_out.map_or_else(String::new, |held_out| {
            format!(", {} of them in held-out text alone", grouped(held_out))
        });
        let said = format!(
            "{} of --list occur in no {unit} that is read as they are spelled there, not even inside a longer word{held_out}; no promise covers them. Tool calls and fields beside the text are not searched",
            grouped(missing)
        );
        facts.push(("not found", said));
    }
    Page::new("Incidence", said).answer(Section::facts("", facts))
}

mod table {
    //! Rows (example, secret), written as they come.

    use super::{AtomicFile, Kind};
    use crate::contract::no_stream;
    use anyhow::Result;
    use serde::Serialize;
    use std::io::Write;
    use std::path::{Path, PathBuf};

    pub(super) enum Table {
        Csv(Box<csv::Writer<AtomicFile>>),
        Lines(AtomicFile),
        #[cfg(feature = "parquet")]
        Parquet(Box<super::parquet::Pairs>),
    }

    #[derive(Serialize)]
    struct Row<'a> {
        example: &'a str,
        secrets: &'a [String],
    }

    impl Table {
        pub(super) fn create(path: &Path, force: bool, read: &[PathBuf]) -> Result<Self> {
            no_stream(path)?;
            let kind = Kind::of(path)?;
            #[cfg(not(feature = "parquet"))]
            if kind == Kind::Parquet {
                anyhow::bail!(
                    "{}: this build has no Parquet; build it with the feature parquet, or use .csv or .jsonl",
                    path.display()
                );
            }
            let file = AtomicFile::create_new(path, force, read)?;
            Ok(match kind {
                Kind::JsonLines => Self::Lines(file),
                #[cfg(feature = "parquet")]
                Kind::Parquet => Self::Parquet(Box::new(super::parquet::Pairs::new(file)?)),
                _ => {
                    let mut writer = csv::Writer::from_writer(file);
                    writer.write_record(["example", "secret"])?;
                    Self::Csv(Box::new(writer))
                }
            })
        }

        /// Writes one record with its secrets; a record without any is named too.
        pub(super) fn row(&mut self, example: &str, secrets: &[String]) -> Result<()> {
            match self {
                Self::Csv(writer) => {
                    if secrets.is_empty() {
                        writer.write_record([example, ""])?;
                    }
                    for secret in secrets {
                        writer.write_record([example, secret])?;
                    }
                }
                Self::Lines(file) => {
                    serde_json::to_writer(&mut *file, &Row { example, secrets })?;
                    file.write_all(b"\n")?;
                }
                #[cfg(feature = "parquet")]
                Self::Parquet(pairs) => pairs.row(example, secrets)?,
            }
            Ok(())
        }

        pub(super) fn finish(self) -> Result<()> {
            match self {
                Self::Csv(writer) => writer
                    .into_inner()
                    .map_err(csv::IntoInnerError::into_error)?
                    .finish(),
                Self::Lines(file) => file.finish(),
                #[cfg(feature = "parquet")]
                Self::Parquet(pairs) => pairs.finish(),
            }
        }
    }
}

#[cfg(feature = "parquet")]
mod parquet {
    //! Writes the rows as Parquet, in row groups of 65 536 pairs.

    use super::AtomicFile;
    use anyhow::Result;
    use parquet::basic::Compression;
    use parquet::data_type::{ByteArray, ByteArrayType};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use std::sync::Arc;

    const GROUP: usize = 1 << 16;

    pub(super) struct Pairs {
        writer: SerializedFileWriter<AtomicFile>,
        examples: Vec<ByteArray>,
        secrets: Vec<ByteArray>,
        /// 1 for a secret, 0 for a record without one.
        levels: Vec<i16>,
    }

    impl Pairs {
        pub(super) fn new(file: AtomicFile) -> Result<Self> {
            let schema = parse_message_type(
                "message pairs { required binary example (UTF8); optional binary secret (UTF8); }",
            )?;
            let properties = WriterProperties::builder()
                .set_compression(Compression::SNAPPY)
                .build();
            let writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?;
            Ok(Self {
                writer,
                examples: Vec::new(),
                secrets: Vec::new(),
                levels: Vec::new(),
            })
        }

        pub(super) fn row(&mut self, example: &str, secrets: &[String]) -> Result<()> {
            if secrets.is_empty() {
                self.examples.push(example.into());
                self.levels.push(0);
            }
            for secret in secrets {
                self.examples.push(example.into());
                self.secrets.push(secret.as_str().into());
                self.levels.push(1);
            }
            if self.examples.len() >= GROUP {
                self.group()?;
            }
            Ok(())
        }

        fn group(&mut self) -> Result<()> {
            let mut group = self.writer.next_row_group()?;
            if let Some(mut column) = group.next_column()? {
                let out = column.typed::<ByteArrayType>();
                out.write_batch(&self.examples, None, None)?;
                column.close()?;
            }
            if let Some(mut column) = group.next_column()? {
                let out = column.typed::<ByteArrayType>();
                out.write_batch(&self.secrets, Some(&self.levels), None)?;
                column.close()?;
            }
            group.close()?;
            self.examples.clear();
            self.secrets.clear();
            self.levels.clear();
            Ok(())
        }

        pub(super) fn finish(mut self) -> Result<()> {
            if !self.examples.is_empty() {
                self.group()?;
            }
            self.writer.into_inner()?.finish()
        }
    }
}

//! Deduplicates and redacts a corpus of any size into one file or stream. This is the pipeline of
//! [`crate::prepare::PrepareFiles`] (lock, seal, checksums, checkpoints) with another sink.

use super::json::masked_json;
use super::{Read, batch, checked_threads, found, name, until};
use crate::dedup::Seen;
use crate::document::{joined, replaced};
use crate::error::{Error, Result};
use crate::folder::{FileWriter, Left, OutputFile, Stopped};
use crate::policy::{Policy, PolicyChoice, Span, View, budget, resolve, resolved};
use crate::prepare::{Identity, Pace, Phase, RestartCause, Seal, Work};
use crate::random::digest;
use crate::read::{
    Documents, Joined, Object, ReadOptions, any_name, corpus_files, each_text, regular, without_ids,
};
use crate::split::{UnitText, unescaped, units};
use crate::tokenize::{MASK_TEXT, Tokenizer};
use crate::unit::Unit;
use reticent_disk::{IS_READ, OutputPlace, is_one_of};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::Metadata;
use std::io::{ErrorKind, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What a redaction does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedactionOptions {
    /// What one record is.
    pub unit: Unit,
    /// The policy whose spans become `<MASK>`.
    pub policy: PolicyChoice,
    /// Whether later copies of a unit are left out.
    pub deduplicate: bool,
}

/// What a redaction has done so far.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct RedactionState {
    /// Documents read.
    pub documents: u64,
    /// Units cut from them.
    pub units: u64,
    /// Units left out because they were there before.
    pub duplicates: u64,
    /// Units with a mask, among those that stay.
    pub redacted: u64,
    /// Bytes of text read.
    pub bytes: u64,
    /// Masked spans by kind, in units that stay.
    pub spans: BTreeMap<String, u64>,
    /// Units, among those that stay, with an id, key or role in which the policy finds something: these are written as they
    /// are.
    pub named: u64,
    /// Documents without any text, of which nothing is written.
    pub blank: u64,
    /// Columns of Parquet files whose values JSON cannot hold, left out of the rows that are written.
    #[schemars(with = "Vec<String>")]
    pub left_out_columns: BTreeSet<String>,
}

/// Redacts a corpus from files.
///
/// The output has one line `{"id", "text"}` for each unit that is kept, in order. For chats or pairs, it is the whole
/// object with masks in each of its texts (one record, whatever the unit). The output has the same bytes whatever the
/// number of threads and wherever the work was stopped. Text is streamed; memory holds, for each distinct unit, the
/// SHA-1 of its text before redaction (of an object, of all but its ids), and for each document a digest of its id: 90 to
/// 190 bytes together, as the tables are full or have just grown.
#[derive(Debug, Clone, Copy)]
pub struct RedactFiles<'a> {
    /// A file or folder, as [`Documents`] reads it.
    pub data: &'a Path,
    /// How it is read.
    pub reading: &'a ReadOptions,
    /// The options of the redaction.
    pub options: &'a RedactionOptions,
    /// The number of threads, from 1 to 1024.
    pub threads: usize,
    /// The least time between checkpoints. Zero means a checkpoint after every batch.
    pub pause: Duration,
}

/// The destination of a redacted corpus.
pub enum RedactTo<'a> {
    /// A file, which appears under its name only when it is complete, or the pipe or device with that name.
    Path {
        /// The path of the output.
        path: &'a Path,
        /// Whether an existing file is replaced.
        force: bool,
    },
    /// A stream. Its metadata, if known, must not be that of an input file.
    Stream(&'a mut dyn Write, Option<Metadata>),
}

impl std::fmt::Debug for RedactTo<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Path { path, force } => {
                let mut shown = f.debug_struct("Path");
                shown.field("path", path).field("force", force).finish()
            }
            Self::Stream(..) => f.write_str("Stream"),
        }
    }
}

/// The result of a redaction.
#[derive(Debug)]
pub struct Redaction {
    /// What was done, in numbers.
    pub state: RedactionState,
    /// The errors of files that were skipped under [`ReadOptions::skip_unreadable`].
    pub skipped: Vec<Error>,
    /// What an interrupted run had done, if this one resumed from it.
    pub taken_up: Option<RedactionState>,
    /// The format that stdin was read as, if it was the corpus.
    pub stdin_format: Option<&'static str>,
    /// Whether the reader of the stream closed it early.
    pub closed_early: bool,
    /// Whether units are chats or pairs in their own format, which are whole records whatever the unit.
    pub own_shape: bool,
}

/// The destination of the lines.
enum Sink<'a> {
    File(FileWriter),
    Stream(Box<dyn Write + 'a>, PathBuf),
}

/// One run over a corpus.
struct Run {
    policy: Arc<dyn Policy>,
    /// The seal of the documents done so far.
    seal: Seal,
    seen: Seen,
    state: RedactionState,
    /// Whether one of the documents is written in its own format.
    own_shape: bool,
}

/// A unit after a worker's processing.
struct Made {
    /// The key that copies share; `None` if copies are kept.
    key: Option<[u8; 20]>,
    line: Vec<u8>,
    kinds: Vec<Arc<str>>,
    /// Whether the policy finds something in a part that is not text.
    named: bool,
}

/// A document after a worker's processing.
struct MadeDocument {
    bytes: u64,
    units: Vec<Made>,
    left_out: Vec<String>,
}

/// Determines whether the policy finds something in ids, keys and roles, and caches the answers.
struct Names<'p> {
    policy: &'p dyn Policy,
    known: HashMap<String, bool>,
}

#[derive(Serialize)]
struct Line<'a> {
    id: &'a str,
    text: &'a str,
}

/// The outcome of reading a corpus again.
enum Replayed {
    Same,
    Differs(RestartCause),
    Interrupted,
}

type Watch<'w> = &'w dyn Fn(Phase, u64) -> bool;

impl RedactFiles<'_> {
    /// Returns whether a stopped redaction lies beside a path.
    #[must_use]
    pub fn stopped(path: &Path) -> bool {
        OutputFile::stopped(path)
    }

    /// Returns the total size of the files in bytes.
    ///
    /// # Errors
    /// As for [`Documents::open`].
    pub fn size(&self) -> Result<u64> {
        Ok(Documents::with(self.data, self.reading)?.size())
    }

    /// Redacts the corpus.
    ///
    /// A file appears under its name only when it is complete. Until then it is written in a hidden folder beside it,
    /// `.writing-NAME`, which remains after an interruption, a crash or on a full disk. The next call for the same name
    /// resumes there, and produces the same bytes, if version, options, policy and everything that had been read are
    /// the same; otherwise it reports the reason ([`Phase::Restart`]) and starts over. What had been read is read
    /// again. `watch` is called with the phase and the number of bytes of the files read in it; if it returns false,
    /// the result is `None`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use reticent_corpus::Unit;
    /// use reticent_corpus::policy::PolicyChoice;
    /// use reticent_corpus::read::ReadOptions;
    /// use reticent_corpus::redaction::{RedactFiles, RedactTo, RedactionOptions};
    /// let place = tempfile::tempdir()?;
    /// let (data, out) = (place.path().join("a.txt"), place.path().join("out.jsonl"));
    /// std::fs::write(&data, "write to ada@example.org\n\nwrite to ada@example.org\n")?;
    /// let options = RedactionOptions { unit: Unit::Turn, policy: PolicyChoice::Detectors(Default::default()), deduplicate: true };
    /// let reading = ReadOptions::default();
    /// let files = RedactFiles { data: &data, reading: &reading, options: &options, threads: 2, pause: Duration::from_secs(10) };
    /// let made = files.write(RedactTo::Path { path: &out, force: false }, &|_, _| true)?.unwrap();
    /// assert_eq!((made.state.units, made.state.duplicates), (2, 1));
    /// assert_eq!(std::fs::read_to_string(&out)?, "{\"id\":\"block-1#0\",\"text\":\"write to <MASK>\"}\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`Documents`]. Also returns an error if the policy does not build; or if the output exists
    /// and must not be replaced, is a link to a file, a folder or a disk, is one of the input files, or is being
    /// written by another process.
    pub fn write(&self, to: RedactTo<'_>, watch: Watch<'_>) -> Result<Option<Redaction>> {
        let threads = checked_threads(self.threads)?;
        let policy = self.options.policy.build()?;
        let (path, force) = match to {
            RedactTo::Stream(out, about) => {
                let name = PathBuf::from("-");
                if let Some(about) = about {
                    self.check_apart(&name, &about)?;
                }
                return self.begun(policy, threads, Sink::Stream(Box::new(out), name), watch);
            }
            RedactTo::Path { path, force } => (path, force),
        };
        let place = OutputPlace::apart(path, force, &corpus_files(self.data)?);
        match place.map_err(|source| Error::of_place(path, source))? {
            OutputPlace::Stream(file) => {
                let sink = Sink::Stream(Box::new(file), path.to_path_buf());
                self.begun(policy, threads, sink, watch)
            }
            OutputPlace::File => {
                let place = OutputFile::take(path, force)?;
                self.resumed(policy, threads, place, watch)
            }
        }
    }

    /// Checks that the output is not one of the input files.
    fn check_apart(&self, path: &Path, about: &Metadata) -> Result<()> {
        if is_one_of(about, &corpus_files(self.data)?) {
            return Err(Error::Output {
                path: path.to_path_buf(),
                problem: IS_READ.to_owned(),
            });
        }
        Ok(())
    }

    /// Resumes a stopped file, or starts a new one.
    fn resumed(
        &self,
        policy: Arc<dyn Policy>,
        threads: usize,
        mut place: OutputFile,
        watch: Watch<'_>,
    ) -> Result<Option<Redaction>> {
        let cause = match place.left::<RedactionState>() {
            Left::Nothing => None,
            Left::Damaged => Some(RestartCause::Damaged),
            Left::Stopped(stopped) if !stopped.identity.is_current() => Some(RestartCause::Version),
            Left::Stopped(stopped) => {
                let mut run = Run::new(policy.clone());
                let mut documents = Documents::with(self.data, self.reading)?.exact();
                match self.replayed(&mut run, &mut documents, &stopped, threads, watch)? {
                    Replayed::Interrupted => return Ok(None),
                    Replayed::Differs(cause) => Some(cause),
                    Replayed::Same => match place.go_on(&stopped)? {
                        Ok(file) => {
                            run.state = stopped.done.clone();
                            let (sink, done) = (Sink::File(file), Some(stopped.done));
                            return self.go_on(run, documents, threads, sink, done, watch);
                        }
                        Err(untouched) => {
                            place = untouched;
                            Some(RestartCause::Damaged)
                        }
                    },
                }
            }
        };
        if let Some(cause) = cause
            && !watch(Phase::Restart(cause), 0)
        {
            return Ok(None);
        }
        self.begun(policy, threads, Sink::File(place.begin()?), watch)
    }

    fn begun(
        &self,
        policy: Arc<dyn Policy>,
        threads: usize,
        sink: Sink<'_>,
        watch: Watch<'_>,
    ) -> Result<Option<Redaction>> {
        let documents = Documents::with(self.data, self.reading)?.exact();
        self.go_on(Run::new(policy), documents, threads, sink, None, watch)
    }

    /// Reads the part that was done again, for its duplicates; nothing else in its results affects later units.
    fn replayed(
        &self,
        run: &mut Run,
        documents: &mut Documents,
        stopped: &Stopped<RedactionState>,
        threads: usize,
        watch: Watch<'_>,
    ) -> Result<Replayed> {
        let mut left = stopped.done.documents;
        let (unit, deduplicate) = (self.options.unit, self.options.deduplicate);
        let (seal, seen, own_shape) = (&mut run.seal, &mut run.seen, &mut run.own_shape);
        let whole = until(
            threads,
            || {
                let batch = batch(documents, left)?;
                left -= batch.len() as u64;
                batch.iter().for_each(|read| enter(seal, read));
                *own_shape |= batch.iter().any(|read| read.object.is_some());
                Ok((!batch.is_empty()).then(|| (batch, documents.bytes_read())))
            },
            |batch| {
                let mut keys = Vec::new();
                for read in batch.iter().filter(|_| deduplicate) {
                    if let Some(object) = &read.object {
                        keys.push(object_key(object));
                        continue;
                    }
                    for unit in units(&read.document, 0, unit)? {
                        keys.push(key(&unit)?);
                    }
                }
                Ok(keys)
            },
            |keys, read| {
                for key in keys {
                    seen.insert(key);
                }
                Ok(watch(Phase::Resume, read))
            },
        );
        match whole {
            Ok(true) => {}
            Ok(false) => return Ok(Replayed::Interrupted),
            // Something that could be read before cannot be read now; starting over reports the error.
            Err(_) => return Ok(Replayed::Differs(RestartCause::Corpus)),
        }
        if left > 0 {
            return Ok(Replayed::Differs(RestartCause::Corpus));
        }
        let cause = self.identity(&run.seal)?.against(&stopped.identity);
        Ok(cause.map_or(Replayed::Same, Replayed::Differs))
    }

    /// Returns the identity of the output: what has been read, and everything that determines the rest.
    fn identity(&self, seal: &Seal) -> Result<Identity> {
        let mut options = self.options.clone();
        options.policy = options.policy.pinned()?;
        // Such data can always be serialised as JSON.
        let mut options = serde_json::to_vec(&options).unwrap_or_default();
        options.extend(format!("{:?}", self.reading).into_bytes());
        Ok(Identity::of_parts(&seal.clone().close(), &options, &[]))
    }

    fn go_on(
        &self,
        mut run: Run,
        mut documents: Documents,
        threads: usize,
        mut sink: Sink<'_>,
        taken_up: Option<RedactionState>,
        watch: Watch<'_>,
    ) -> Result<Option<Redaction>> {
        let lasts = matches!(sink, Sink::File(_)) && regular(self.data)?;
        let (unit, deduplicate) = (self.options.unit, self.options.deduplicate);
        let policy = run.policy.clone();
        let mut seal = run.seal.clone();
        let mut own_shape = run.own_shape;
        let mut pace = Pace::new(self.pause);
        let whole = until(
            threads,
            || {
                let batch = batch(&mut documents, u64::MAX)?;
                batch.iter().for_each(|read| enter(&mut seal, read));
                own_shape |= batch.iter().any(|read| read.object.is_some());
                let mark = (documents.bytes_read(), seal.clone());
                Ok((!batch.is_empty()).then_some((batch, mark)))
            },
            |batch| {
                let mut names = Names {
                    policy: policy.as_ref(),
                    known: HashMap::new(),
                };
                let each = batch.iter();
                each.map(|read| made(read, unit, &mut names, deduplicate))
                    .collect::<Result<Vec<MadeDocument>>>()
            },
            |made, (read, seal)| {
                for document in made {
                    for line in run.enter(document) {
                        sink.write(&line)?;
                    }
                }
                run.seal = seal;
                let go_on = watch(Phase::Prepare, read);
                if let Sink::File(file) = &mut sink
                    && lasts
                    && (!go_on || pace.is_due())
                {
                    let identity = self.identity(&run.seal)?;
                    pace.keep(|| file.checkpoint(&identity, &run.state))?;
                }
                Ok(go_on)
            },
        );
        let ended = match whole {
            Ok(true) if run.state.units == 0 => Err(Error::EmptyCorpus {
                path: self.data.to_path_buf(),
            }),
            Ok(true) => sink.finish().map(|()| false),
            Ok(false) => {
                sink.stop();
                return Ok(None);
            }
            Err(error) => {
                // The disk is full: the state can be resumed once there is room.
                if matches!(error, Error::Write { .. }) {
                    sink.stop();
                }
                Err(error)
            }
        };
        let closed_early = match ended {
            Err(Error::Write { source, .. }) if source.kind() == ErrorKind::BrokenPipe => true,
            other => other?,
        };
        Ok(Some(Redaction {
            state: run.state,
            stdin_format: documents.stdin_format(),
            skipped: documents.into_skipped(),
            taken_up,
            closed_early,
            own_shape,
        }))
    }
}

impl Sink<'_> {
    fn write(&mut self, line: &[u8]) -> Result<()> {
        match self {
            Self::File(file) => file.write(line),
            Self::Stream(out, path) => out.write_all(line).map_err(Error::writing(path)),
        }
    }

    fn stop(self) {
        if let Self::File(file) = self {
            file.stop();
        }
    }

    fn finish(self) -> Result<()> {
        match self {
            Self::File(file) => file.finish(),
            Self::Stream(mut out, path) => {
                out.flush().map_err(|source| Error::Write { path, source })
            }
        }
    }
}

impl Run {
    fn new(policy: Arc<dyn Policy>) -> Self {
        Self {
            policy,
            seal: Seal::default(),
            seen: Seen::new(),
            state: RedactionState::default(),
            own_shape: false,
        }
    }

    /// Decides which units are kept, and returns their lines.
    fn enter(&mut self, document: MadeDocument) -> Vec<Vec<u8>> {
        self.state.documents += 1;
        self.state.bytes += document.bytes;
        self.state.blank += u64::from(document.units.is_empty());
        self.state.left_out_columns.extend(document.left_out);
        let mut kept = Vec::with_capacity(document.units.len());
        for made in document.units {
            self.state.units += 1;
            if made.key.is_some_and(|key| !self.seen.insert(key)) {
                self.state.duplicates += 1;
                continue;
            }
            self.state.redacted += u64::from(!made.kinds.is_empty());
            self.state.named += u64::from(made.named);
            for kind in made.kinds {
                match self.state.spans.get_mut(&*kind) {
                    Some(count) => *count += 1,
                    None => {
                        self.state.spans.insert(kind.to_string(), 1);
                    }
                }
            }
            kept.push(made.line);
        }
        kept
    }
}

/// Returns the key of the text before redaction, so that masking does not create copies.
fn key(unit: &UnitText<'_>) -> Result<[u8; 20]> {
    Ok(if unit.masked.is_empty() {
        digest(unit.text.as_bytes())
    } else {
        let bytes = Tokenizer::bytes();
        digest(Work::new(unit, &bytes)?.text().as_bytes())
    })
}

/// Returns the key of an object in its own format before redaction: everything in it but its id and those of its messages
/// and calls, since calls of other tools or another label make another record.
fn object_key(object: &Object) -> [u8; 20] {
    // Such data can always be serialised as JSON.
    digest(&serde_json::to_vec(&without_ids(object)).unwrap_or_default())
}

/// Redacts a single text as a pass would: what the policy finds becomes `<MASK>`.
///
/// ```
/// use reticent_corpus::policy::PolicyChoice;
/// use reticent_corpus::redaction::redacted_text;
/// let policy = PolicyChoice::Detectors(Default::default()).build()?;
/// assert_eq!(redacted_text(policy.as_ref(), "write to ada@example.org"), "write to <MASK>");
/// # Ok::<(), reticent_corpus::Error>(())
/// ```
#[must_use]
pub fn redacted_text(policy: &dyn Policy, text: &str) -> String {
    let spans = resolved(policy, &View { text, secrets: &[] });
    let ranges = spans.iter().map(|span| span.start..span.end);
    replaced(text, &joined(ranges.collect()), MASK_TEXT)
}

/// Redacts a chat or a pair as a pass would: every text except names (roles, types, ids) is masked, on its own, by what
/// its key says of it and by what the joined texts say of it. A number in which something is found becomes text, also
/// in a text that is JSON.
///
/// ```
/// use reticent_corpus::policy::PolicyChoice;
/// use reticent_corpus::redaction::redacted_object;
/// let policy = PolicyChoice::Detectors(Default::default()).build()?;
/// let pair = serde_json::json!({"prompt": "What is your order number?", "completion": "4417823"});
/// let redacted = redacted_object(policy.as_ref(), pair.as_object().unwrap()).unwrap();
/// assert_eq!(redacted["completion"], "<MASK>");
/// # Ok::<(), reticent_corpus::Error>(())
/// ```
///
/// # Errors
/// Returns an error if a message has no text and calls no tool, as where it is read.
pub fn redacted_object(
    policy: &dyn Policy,
    object: &Object,
) -> std::result::Result<Object, String> {
    let all = Joined::of(object)?;
    Ok(masked_object(policy, object, all.as_ref(), &mut Vec::new()))
}

/// Returns the text as it was read, with one `<MASK>` for each run of touching ranges, which must be in order.
fn masked(text: &str, ranges: impl IntoIterator<Item = Range<usize>>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from: Option<usize> = None;
    for range in ranges {
        if from.is_none_or(|end| range.start > end) {
            out.push_str(&written(&text[from.unwrap_or(0)..range.start]));
            out.push_str(MASK_TEXT);
        }
        from = Some(range.end);
    }
    out.push_str(&written(&text[from.unwrap_or(0)..]));
    out
}

/// Adds everything of a document that affects the output to the seal.
fn enter(seal: &mut Seal, read: &Read) {
    seal.enter(&read.document);
    if let Some(object) = &read.object {
        // Such data can always be serialised as JSON.
        seal.bytes(&serde_json::to_vec(object).unwrap_or_default());
    }
}

impl Names<'_> {
    fn finds(&mut self, name: &str) -> bool {
        if let Some(known) = self.known.get(name) {
            return *known;
        }
        let view = View {
            text: name,
            secrets: &[],
        };
        let finds = !resolved(self.policy, &view).is_empty();
        // What is found without time says nothing of the name in another record.
        if !budget::is_spent() {
            self.known.insert(name.to_owned(), finds);
        }
        finds
    }
}

fn made(read: &Read, unit: Unit, names: &mut Names<'_>, deduplicate: bool) -> Result<MadeDocument> {
    let (document, policy) = (&read.document, names.policy);
    let units = match &read.object {
        Some(object) => vec![whole(object, names, deduplicate)],
        None => {
            let units = units(document, 0, unit)?;
            // A generated id names nobody, but the folder in front of it may.
            let id = &document.id;
            let names_nobody = read.generated_id && !id.contains('/');
            let named = !units.is_empty() && !names_nobody && names.finds(id);
            let each = units.iter().map(|cut| {
                let id = name(document, unit, cut.index);
                let made = redacted(cut, &id, policy, deduplicate)?;
                Ok(Made { named, ..made })
            });
            each.collect::<Result<_>>()?
        }
    };
    Ok(MadeDocument {
        bytes: document.text.len() as u64,
        units,
        left_out: read.left_out.clone(),
    })
}

/// Redacts an object in its own format, as one record.
fn whole(object: &Object, names: &mut Names<'_>, deduplicate: bool) -> Made {
    let mut kinds = Vec::new();
    let all = Joined::of(object).ok().flatten();
    let ((masked, named), _) = budget::within(budget::LONGEST, || {
        let masked = masked_object(names.policy, object, all.as_ref(), &mut kinds);
        let named = any_name(&masked, &mut |name| names.finds(name));
        (masked, named)
    });
    let mut line = serde_json::Value::Object(masked).to_string().into_bytes();
    line.push(b'\n');
    Made {
        key: deduplicate.then(|| object_key(object)),
        line,
        kinds,
        named,
    }
}

/// Masks what the policy finds in the texts of an object, and appends the kinds of the spans. The policy sees all of its
/// texts joined, as everywhere else, since a question may indicate what its answer is. It also sees each text on its own,
/// including those that are not read, and behind its keys. The time limit of a record is one for all of this: texts that
/// are not examined in it are masked whole.
fn masked_object(
    policy: &dyn Policy,
    object: &Object,
    all: Option<&Joined<'_>>,
    kinds: &mut Vec<Arc<str>>,
) -> Object {
    let found = |text: &str| match budget::is_spent() {
        true => vec![budget::unread(text)],
        false => resolved(policy, &View { text, secrets: &[] }),
    };
    let look = || {
        let mut in_context: HashMap<*const u8, Vec<Range<usize>>> = HashMap::new();
        if let Some(all) = all {
            for span in found(&all.text) {
                let sources = all.sources(&(span.start..span.end));
                // A match only in the speaker's name masks nothing.
                kinds.extend((!sources.is_empty()).then_some(span.kind));
                for (source, range) in sources {
                    in_context.entry(source.as_ptr()).or_default().push(range);
                }
            }
        }
        each_text(object, &mut |text, keys| {
            if text.is_empty() {
                return None;
            }
            let mut ranges = in_context.remove(&text.as_ptr()).unwrap_or_default();
            let known = ranges.len();
            let mut spans = found(text);
            for key in keys {
                let begins = key.len() + ": ".len();
                let behind = found(&format!("{key}: {text}")).into_iter();
                spans.extend(behind.filter(|span| span.end > begins).map(|span| Span {
                    start: span.start.saturating_sub(begins),
                    end: span.end - begins,
                    ..span
                }));
            }
            if budget::is_spent() {
                spans = vec![budget::unread(text)];
            }
            for span in resolve(spans) {
                let before = ranges[..known].partition_point(|range| range.end <= span.start);
                let touches = |range: &Range<usize>| range.start < span.end;
                let new = !ranges[..known].get(before).is_some_and(touches);
                ranges.push(span.start..span.end);
                kinds.extend(new.then_some(span.kind));
            }
            let ranges = joined(ranges);
            (!ranges.is_empty()).then(|| {
                let json = masked_json(text, &ranges);
                json.unwrap_or_else(|| replaced(text, &ranges, MASK_TEXT))
            })
        })
    };
    budget::within(budget::LONGEST, look).0
}

/// Returns a part of a unit as it was read: a unit escapes literal specials.
fn written(part: &str) -> Cow<'_, str> {
    unescaped(part).map_or(Cow::Borrowed(part), Cow::Owned)
}

fn redacted(unit: &UnitText<'_>, id: &str, policy: &dyn Policy, deduplicate: bool) -> Result<Made> {
    if unit.masked.is_empty() {
        let spans = found(unit, policy);
        let ranges = spans.iter().map(|span| span.start..span.end);
        return Ok(Made {
            key: deduplicate.then(|| digest(unit.text.as_bytes())),
            line: line(id, &masked(&unit.text, ranges)),
            kinds: spans.into_iter().map(|span| span.kind).collect(),
            named: false,
        });
    }
    // The text under a mask is hidden from the policy and from the key, too.
    let bytes = Tokenizer::bytes();
    let mut work = Work::new(unit, &bytes)?;
    let key = deduplicate.then(|| digest(work.text().as_bytes()));
    let kinds = work.redact(policy)?;
    Ok(Made {
        key,
        line: line(id, &written(&work.text())),
        kinds,
        named: false,
    })
}

fn line(id: &str, text: &str) -> Vec<u8> {
    // Such data can always be serialised as JSON.
    let mut line = serde_json::to_vec(&Line { id, text }).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(name: &str, text: &str) -> Result<(String, RedactionState)> {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join(name);
        std::fs::write(&data, text).unwrap();
        let files = RedactFiles {
            data: &data,
            reading: &ReadOptions::default(),
            options: &RedactionOptions {
                unit: Unit::Document,
                policy: PolicyChoice::Detectors(crate::policy::DetectorOptions::default()),
                deduplicate: true,
            },
            threads: 1,
            pause: Duration::from_secs(10),
        };
        let mut out = Vec::new();
        let made = files.write(RedactTo::Stream(&mut out, None), &|_, _| true)?;
        Ok((String::from_utf8(out).unwrap(), made.unwrap().state))
    }

    /// Ids, keys and roles are written as they are, and records in which the policy finds something there are counted.
    #[test]
    fn what_the_policy_finds_in_names_is_reported() {
        for (name, text, named) in [
            ("a.jsonl", r#"{"id":"ada@x.org","text":"a"}"#, 1),
            ("a.jsonl", r#"{"id":"a","text":"ada@x.org"}"#, 0),
            ("a.csv", "id,text\nada@x.org,a\nb,b\neve@x.org,a", 1),
            ("a.txt", "a\n\nb", 0),
            // Not the id that is generated for a first line, though of its form.
            ("a.jsonl", r#"{"id":"row-4111111111111111","text":"a"}"#, 1),
            (
                "a.jsonl",
                r#"{"messages":[{"role":"ada@x.org","content":"a"}]}"#,
                1,
            ),
            (
                "a.jsonl",
                r#"{"prompt":"a","completion":"b","more":[{"ada@x.org":1}]}"#,
                1,
            ),
            (
                "a.jsonl",
                r#"{"id":4111111111111111,"prompt":"a","completion":"b"}"#,
                1,
            ),
            (
                "a.jsonl",
                r#"{"id":"a","messages":[{"role":"user","content":"ada@x.org"}]}"#,
                0,
            ),
        ] {
            let (out, state) = redacted(name, text).unwrap();
            assert_eq!(state.named, named, "{text}");
            assert_eq!(
                out.contains("ada@x.org"),
                named == 1 && text.contains("ada@x.org")
            );
        }
    }

    /// What a question says of its answer counts, as it does for every command that reads the texts in one; equal strings
    /// elsewhere are not masked, and a literal mask stays as it is.
    #[test]
    fn chats_and_pairs_are_masked_as_they_are_read() {
        for (text, masked) in [
            (
                r#"{"prompt":"What is your order number?","completion":"4417823"}"#,
                r#"{"prompt":"What is your order number?","completion":"<MASK>"}"#,
            ),
            (
                r#"{"messages":[{"role":"user","content":"4417823"},{"role":"user","content":"It has been a very long day so far, believe me. My order number?"},{"role":"user","content":"4417823"}]}"#,
                r#"{"messages":[{"role":"user","content":"4417823"},{"role":"user","content":"It has been a very long day so far, believe me. My order number?"},{"role":"user","content":"<MASK>"}]}"#,
            ),
            (
                r#"{"prompt":"<\\MASK> ada@x.org","completion":"b","call":{"from":"ada@x.org"}}"#,
                r#"{"prompt":"<\\MASK> <MASK>","completion":"b","call":{"from":"<MASK>"}}"#,
            ),
            // What a key says of its value, and JSON that stays JSON.
            (
                r#"{"prompt":"a","completion":"b","ssn":123456789,"login":{"password":"hunter2","ssn":["123456789"]},"n":12}"#,
                r#"{"prompt":"a","completion":"b","ssn":"<MASK>","login":{"password":"<MASK>","ssn":["<MASK>"]},"n":12}"#,
            ),
            // A key of texts says nothing, but the one above it may.
            (
                r#"{"prompt":"a","completion":"b","ssn":{"number":123456789},"login":{"password":{"value":"hunter2"}}}"#,
                r#"{"prompt":"a","completion":"b","ssn":{"number":"<MASK>"},"login":{"password":{"value":"<MASK>"}}}"#,
            ),
            (
                r#"{"messages":[{"role":"user","content":"a"}],"tools":["{\"ssn\": 123456789, \"n\": 1}"]}"#,
                r#"{"messages":[{"role":"user","content":"a"}],"tools":["{\"ssn\": \"<MASK>\", \"n\": 1}"]}"#,
            ),
        ] {
            let (out, state) = redacted("a.jsonl", text).unwrap();
            assert_eq!(out, format!("{masked}\n"));
            let masks = masked.matches("<MASK>").count() as u64;
            assert_eq!(state.spans.values().sum::<u64>(), masks);
        }
    }

    /// Finds a few words.
    #[derive(Debug)]
    struct Words(&'static [&'static str]);

    impl Policy for Words {
        fn find(&self, view: &View<'_>, spans: &mut Vec<Span>) {
            for word in self.0 {
                let places = view.text.match_indices(word);
                spans.extend(places.map(|(start, found)| Span {
                    start,
                    end: start + found.len(),
                    kind: "word".into(),
                    source: "test".into(),
                    score: 1.0,
                }));
            }
        }
    }

    /// A pattern may begin at the key of a value, whatever stands above it.
    #[test]
    fn values_are_read_behind_the_innermost_key_too() {
        let rule = crate::policy::PatternRule {
            kind: "pin".to_owned(),
            pattern: "^code: (?<secret>[0-9]{4})$".to_owned(),
        };
        let policy = PolicyChoice::Patterns { rules: vec![rule] }
            .build()
            .unwrap();
        for text in [
            r#"{"code":"4821"}"#,
            r#"{"pin":{"code":"4821"}}"#,
            r#"{"pin":{"code":[{"value":4821}]}}"#,
        ] {
            let object: Object = serde_json::from_str(text).unwrap();
            let masked = masked_object(policy.as_ref(), &object, None, &mut Vec::new());
            let masked = serde_json::to_string(&masked).unwrap();
            let expected = text
                .replace("\"4821\"", "4821")
                .replace("4821", "\"<MASK>\"");
            assert_eq!(masked, expected);
        }
    }

    /// What is found over the border of two strings is masked in both and counted once; names of a chat stay.
    #[test]
    fn masks_of_the_joined_text_are_put_where_it_is_from() {
        use serde_json::json;
        let said = |content| json!({"messages": [{"role": "user", "content": content}]});
        let call = |from: &str, to: &str| {
            json!({"from": to, "id": from, "messages": [{"from": from, "content": null, "tool_calls": [
                {"id": from, "type": "function", "function": {"arguments": {"from": to, "id": to}}},
            ]}]})
        };
        for (words, object, masked, count) in [
            (
                &["Ada Byron"][..],
                said(json!("I am Ada \n Byron.")),
                said(json!("I am <MASK>.")),
                1,
            ),
            (
                &["Ada Byron", "Byron"],
                said(
                    json!([{"type": "text", "text": "I am Ada"}, {"type": "text", "text": "Byron."}]),
                ),
                said(
                    json!([{"type": "text", "text": "I am <MASK>"}, {"type": "text", "text": "<MASK>."}]),
                ),
                1,
            ),
            (
                &["order?\nSYS: 44"],
                json!({"messages": [{"role": "user", "content": "44"}, {"role": "user", "content": "Your order?"},
                    {"role": "assistant", "content": "44"}]}),
                json!({"messages": [{"role": "user", "content": "44"}, {"role": "user", "content": "Your <MASK>"},
                    {"role": "assistant", "content": "<MASK>"}]}),
                1,
            ),
            (&["USR"], said(json!("a")), said(json!("a")), 0),
            (&["mary"], call("mary", "mary"), call("mary", "<MASK>"), 3),
            // A mask between the letters of a literal one, and before those of another.
            (
                &["x"],
                said(json!("<MASK><MxASK><xMASK>")),
                said(json!("<MASK><M<MASK>ASK><<MASK>MASK>")),
                2,
            ),
        ] {
            let policy = Words(words);
            let mut names = Names {
                policy: &policy,
                known: HashMap::new(),
            };
            let made = whole(object.as_object().unwrap(), &mut names, false);
            assert_eq!(String::from_utf8(made.line).unwrap(), format!("{masked}\n"));
            assert_eq!(made.kinds.len(), count, "{object}");
        }
    }

    /// The calls, the labels and what else is beside the text make another record; its id does not.
    #[test]
    fn records_that_differ_outside_their_texts_are_no_copies() {
        let call = |id: &str, name: &str| {
            format!(
                r#"{{"id":"{id}","messages":[{{"role":"user","content":"a"}},{{"role":"assistant","content":"","tool_calls":[{{"function":{{"name":"{name}"}}}}]}}]}}"#
            )
        };
        // What a tool is given under the same keys is no id.
        let reply = |id: &str, given: &str| {
            format!(
                r#"{{"messages":[{{"role":"user","content":"a","id":"{id}"}},{{"role":"assistant","tool_calls":[{{"id":"{id}","function":{{"arguments":{{"id":"{given}"}}}}}}]}},{{"role":"tool","tool_call_id":"{id}","content":"b"}}]}}"#
            )
        };
        let pair = |label: bool| format!(r#"{{"prompt":"a","completion":"b","label":{label}}}"#);
        for (lines, copies) in [
            ([call("1", "read"), call("2", "delete")], 0),
            ([call("1", "read"), call("2", "read")], 1),
            ([reply("1", "7"), reply("2", "7")], 1),
            ([reply("1", "7"), reply("2", "8")], 0),
            ([pair(true), pair(false)], 0),
            ([pair(true), pair(true)], 1),
        ] {
            let (_, state) = redacted("a.jsonl", &lines.join("\n")).unwrap();
            assert_eq!(state.duplicates, copies, "{lines:?}");
        }
    }

    /// What is redacted again stays as it is, in every format.
    #[test]
    fn a_literal_special_is_written_as_it_is() {
        for text in [
            r#"{"id":"a","text":"<MASK> <\\MASK> <UNK>"}"#,
            r#"{"prompt":"<MASK> <\\MASK>","completion":"<UNK>"}"#,
        ] {
            assert_eq!(redacted("a.jsonl", text).unwrap().0, format!("{text}\n"));
        }
    }

    /// Takes the time of a whole record for each text.
    #[derive(Debug)]
    struct Slow(std::sync::atomic::AtomicU32);

    impl Policy for Slow {
        fn find(&self, _: &View<'_>, _: &mut Vec<Span>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            while !budget::is_spent() {
                std::hint::spin_loop();
            }
        }
    }

    /// A record has one time limit, however many texts it has; without time they are all masked, and an empty one stays.
    #[test]
    fn the_time_of_a_record_is_one_for_all_its_texts() {
        use serde_json::json;
        let object =
            json!({"prompt": "a", "completion": "b", "more": ["c", "d", ""], "other": {"e": 7}});
        let slow = Slow(std::sync::atomic::AtomicU32::new(0));
        let limit = Duration::from_millis(20);
        let (masked, enough) = budget::within(limit, || {
            redacted_object(&slow, object.as_object().unwrap())
        });
        let mask = "<MASK>";
        let all = json!({"prompt": mask, "completion": mask, "more": [mask, mask, ""], "other": {"e": mask}});
        assert!(!enough);
        assert_eq!(serde_json::Value::Object(masked.unwrap()), all);
        assert_eq!(slow.0.into_inner(), 1);
    }

    /// Of a key, no more is read with each of its values than its end.
    #[test]
    fn long_keys_are_not_read_again_for_each_value() {
        #[derive(Debug, Default)]
        struct Counts(std::sync::atomic::AtomicUsize);
        impl Policy for Counts {
            fn find(&self, view: &View<'_>, _: &mut Vec<Span>) {
                let length = view.text.len();
                self.0
                    .fetch_add(length, std::sync::atomic::Ordering::Relaxed);
            }
        }
        let key = "é".repeat(5000) + " é ssn";
        let object = serde_json::json!({"prompt": "a", "completion": "b", (key.as_str()): vec![123_456_789; 100]});
        let counts = Counts::default();
        redacted_object(&counts, object.as_object().unwrap()).unwrap();
        assert!(counts.0.into_inner() < 100 * (9 + 9 + 70) + 1000);
        let policy = PolicyChoice::Detectors(crate::policy::DetectorOptions::default());
        let policy = policy.build().unwrap();
        let masked = redacted_object(policy.as_ref(), object.as_object().unwrap()).unwrap();
        assert_eq!(masked[&key], serde_json::json!(vec!["<MASK>"; 100]));
    }

    /// A number is written as it was read, or not at all.
    #[test]
    fn numbers_with_more_digits_than_a_double_are_refused() {
        let line = |number: &str| format!(r#"{{"prompt":"a","completion":"b","n":{number}}}"#);
        for number in ["0.12345678901234567890123", "1e-400"] {
            let error = redacted("a.jsonl", &line(number)).unwrap_err().to_string();
            assert!(error.contains("put it in quotes"), "{error}");
        }
        let (out, _) = redacted("a.jsonl", &line("0.1")).unwrap();
        assert_eq!(out, line("0.1") + "\n");
    }

    #[test]
    fn documents_without_text_are_counted() {
        let (out, state) = redacted("a.csv", "id,text\na,\nb,b\n").unwrap();
        assert_eq!((state.documents, state.blank), (2, 1));
        assert_eq!(out, "{\"id\":\"b\",\"text\":\"b\"}\n");
    }
}

//! The shard plan: what is prepared, the choices made for the whole corpus, and where each shard begins.

use super::super::context::{Choices, Corpus, Planted, PreparationContext};
use super::super::held_out::HeldOut;
use super::super::options::PrepareOptions;
use super::super::resume::{Identity, requested};
use super::super::run::nothing_to_train_on;
use super::super::source::{Division, Feed, Phase, Role, Seal, Source, Stands};
use super::super::stream::{Preparation, PrepareFiles};
use super::super::survey::Planning;
use super::sealed::{Key, SealedFolder, SealedReader};
use crate::canary::{CanaryPlace, CanaryPlan, WordFacts};
use crate::dedup::Deduplication;
use crate::document::Document;
use crate::error::{Error, Result, json_problem, within};
use crate::folder::{OutputFolder, cleared, code_of, locked, preparation_of, unlock};
use crate::read::{Documents, Place, PlannedFile, ReadOptions, planned_files};
use crate::redaction::checked_threads;
use crate::rows::Scratch;
use reticent_disk::{self as disk, hexadecimal};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The largest number of shards in a plan.
const MOST: u64 = 4096;

/// The bytes of a corpus for which a plan has a shard, where nothing is said.
const SHARD: u64 = 128 << 20;

/// The number of documents about which a plan keeps something in memory: their ids take 36 MB.
const KEPT: usize = 7 << 16;

/// The size of the largest plan that is read: 256 MiB.
const LONGEST: u64 = 256 << 20;

/// The name of the file of choices in the folder of the stages.
const CHOICES: &str = "choices";

/// The size of the largest mark that is read.
const MARK_SIZE: u64 = 1024;

/// The placeholder for the HMAC while it is computed.
const NO_CODE: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Returns the schema of a plan file.
#[must_use]
pub fn shard_plan_schema(generator: &SchemaGenerator) -> Schema {
    generator.clone().into_root_schema_for::<PlanDocument>()
}

/// The file of a plan.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct PlanDocument {
    schema: u32,
    #[serde(rename = "type")]
    kind: String,
    /// HMAC-SHA256 of the file, with zeros here, under the owner's key.
    hmac: String,
    /// The corpus.
    data: PathBuf,
    /// The folder that the last stage writes.
    out: PathBuf,
    /// The folder where relative paths in the options begin: stages may run in any other.
    base: PathBuf,
    reading: ReadOptions,
    options: PrepareOptions,
    files: Vec<PlannedFile>,
    corpus: Corpus,
    /// Of the code that wrote it and of what was asked for, with the files that name a tokenizer or a classifier.
    identity: Identity,
    /// Ranges of digests that units are grouped in.
    parts: u64,
    shards: Vec<Shard>,
}

/// A range of documents, in corpus order.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(super) struct Shard {
    place: Place,
    /// Number of its first document.
    first: u64,
    documents: u64,
    /// Number of its first document among those trained on.
    pub(super) training: u64,
    /// Digest of its documents under the plan's key.
    hmac: String,
}

/// The choices for the corpus as a whole, shared by all shards.
#[derive(Serialize, Deserialize)]
struct WholeChoices<'a> {
    plan: Option<Cow<'a, CanaryPlan>>,
    words: Option<Cow<'a, WordFacts>>,
}

/// The choices for one shard.
#[derive(Serialize, Deserialize)]
struct ShardChoices<'a> {
    /// The numbers of its held-out documents.
    held_out: Vec<usize>,
    /// Its documents with canaries, by number among the training documents.
    planted: Vec<(usize, Cow<'a, Document>)>,
    places: Vec<CanaryPlace>,
}

/// A stage for a shard or a part. Shards and parts are numbered from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardStage {
    /// Computes the digests of a shard's units.
    Scan(u64),
    /// Determines which units of a part are copies of earlier ones.
    Group(u64),
    /// Writes a shard's records.
    Write(u64),
    /// Writes the prepared folder.
    Join,
}

impl ShardStage {
    /// Returns the name of the file that the stage writes; the last stage writes none.
    pub(super) fn file(self) -> String {
        match self {
            Self::Scan(shard) => format!("scan-{shard}"),
            Self::Group(part) => format!("group-{part}"),
            Self::Write(shard) => format!("write-{shard}"),
            Self::Join => "join".to_owned(),
        }
    }
}

/// The arguments of `audit prepare`: `--stage scan --shard 3`.
impl std::fmt::Display for ShardStage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Scan(shard) => write!(f, "--stage scan --shard {shard}"),
            Self::Group(part) => write!(f, "--stage group --part {part}"),
            Self::Write(shard) => write!(f, "--stage write --shard {shard}"),
            Self::Join => f.write_str("--stage join"),
        }
    }
}

/// A plan to prepare a corpus in shards, with any number of processes. The resulting folder equals the one that
/// [`PrepareFiles::write`] makes, byte for byte.
///
/// A plan is written once and never changed. The files that pass between its stages lie in a folder beside it. They are
/// sealed under the owner's key and this plan, readable by their owner only, and removed by the last stage, which leaves a
/// mark of what it wrote beside the plan. Digests in them are keyed. The folder contains text: redacted records, documents
/// with canaries and, under a miss rate, what the policy finds.
///
/// ```
/// use std::time::Duration;
/// use reticent_corpus::prepare::{PrepareFiles, PrepareOptions, ShardPlan, ShardStage};
/// use reticent_corpus::read::ReadOptions;
/// let place = tempfile::tempdir()?;
/// let at = |name: &str| place.path().join(name);
/// std::fs::write(at("a.txt"), "one\n\ntwo\n\none\n")?;
/// let (data, reading, options) = (at("a.txt"), ReadOptions::default(), PrepareOptions::default());
/// let files = PrepareFiles { data: &data, reading: &reading, options: &options, threads: 1, pause: Duration::from_secs(10), owner: Some([7; 32]) };
/// let (plan, key) = (at("plan.json"), [7; 32]);
/// ShardPlan::write(&files, &at("out"), 2, &plan, key, &|_, _| true)?.unwrap();
/// let plan = ShardPlan::load(&plan, key)?;
/// for stage in plan.stages() {
///     plan.run(stage, 1, &|_, _| true)?.unwrap();
/// }
/// files.write(&at("single"), false, &|_, _| true)?.unwrap();
/// for file in ["records.jsonl", "train.jsonl", "prepared.json", "prepared.code"] {
///     assert_eq!(std::fs::read(at("out").join(file))?, std::fs::read(at("single").join(file))?);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ShardPlan {
    document: PlanDocument,
    pub(super) owner: Key,
    /// The key of the files that pass between stages.
    pub(super) key: Key,
    pub(super) folder: SealedFolder,
    /// The file that the last stage leaves.
    mark: PathBuf,
}

impl ShardPlan {
    /// Makes the choices that depend on the corpus as a whole, and writes the plan for `shards` shards. Returns `None`
    /// if `watch` returned false. The corpus is read from beginning to end, and more than once if canaries are planted.
    ///
    /// # Errors
    /// As for [`PrepareFiles::write`]. Also returns an error if the number of shards is outside 1 to 4096, the corpus
    /// is a pipe or a device, the options are not for shards ([`ReadOptions::user`], [`ReadOptions::chat`],
    /// [`ReadOptions::skip_unreadable`]), or the plan already exists.
    pub fn write(
        files: &PrepareFiles<'_>,
        out: &Path,
        shards: u64,
        path: &Path,
        owner: [u8; 32],
        watch: &dyn Fn(Phase, u64) -> bool,
    ) -> Result<Option<Self>> {
        Self::write_keeping(KEPT, files, out, shards, (path, owner), watch)
    }

    /// Returns the number of shards for a corpus of so many bytes where nothing is said: one for each 128 MiB, from 1 to
    /// 4096. `scan` and `write` then need less than 200 MiB of memory, unless records are shorter than 40 bytes or there
    /// is more than one distinct secret for 200 bytes.
    #[must_use]
    pub fn enough_shards(bytes: u64) -> u64 {
        bytes.div_ceil(SHARD).clamp(1, MOST)
    }

    /// `most`: the number of documents about which something is kept in memory.
    fn write_keeping(
        most: usize,
        files: &PrepareFiles<'_>,
        out: &Path,
        shards: u64,
        (path, owner): (&Path, [u8; 32]),
        watch: &dyn Fn(Phase, u64) -> bool,
    ) -> Result<Option<Self>> {
        within("the number of shards", shards, 1..=MOST)?;
        let threads = checked_threads(files.threads)?;
        let source = Source::Files(files.data, files.reading);
        refuse(files.reading, source)?;
        let absolute = |path: &Path| std::path::absolute(path).map_err(Error::reading(path));
        let (data, place) = (absolute(files.data)?, absolute(out)?);
        let base = std::env::current_dir().map_err(Error::reading(Path::new(".")))?;
        let mut file =
            disk::WholeFile::create(path, false).map_err(|error| Error::of_place(path, error))?;
        let stages = NewStages::take(path)?;
        // Reports an output that cannot be written before the work.
        drop(OutputFolder::take(out, false)?);
        let sizes = planned_files(files.data)?;
        let bytes = sizes.iter().map(|file| file.bytes).sum();
        let mut cuts = Cuts {
            shards,
            total: bytes,
            ..Cuts::default()
        };
        let mut seen = |document: &Document, stands: &Stands| cuts.enter(document, stands);
        let owner = Key::new(owner);
        let folder = stages.path.clone();
        let planning = Planning {
            seen: &mut seen,
            scratch: Scratch {
                folder: &folder,
                most,
            },
            key: salt(&owner, b"ids of shards"),
        };
        let options = files.options.placed_in(&base)?;
        let context =
            PreparationContext::new(source, &options, None, threads, watch, Some(planning))?;
        let Some((mut context, _)) = context.filter(|_| watch(Phase::Survey, bytes)) else {
            return Ok(None);
        };
        if context.corpus.documents == 0 {
            return Err(nothing_to_train_on());
        }
        context.division.seal = Some(salt(&owner, SECRETS));
        let mut document = PlanDocument {
            schema: 1,
            kind: KIND.to_owned(),
            hmac: NO_CODE.to_owned(),
            data,
            out: place,
            base,
            reading: files.reading.clone(),
            options: files.options.clone(),
            files: sizes,
            corpus: context.corpus,
            identity: Identity::of_parts(&salt(&owner, SECRETS), &requested(&context)?, &[]),
            parts: if by_digest(&context.options) {
                shards
            } else {
                1
            },
            shards: cuts.close(&documents_key(&owner), &context.division.held_out),
        };
        let mut text = text_of(&document, path)?;
        document.hmac = code(&owner, &text);
        text = text.replacen(NO_CODE, &document.hmac, 1);
        let made = Self::of(document, path, owner);
        made.keep(&context)?;
        let written = file.write_all(text.as_bytes());
        let finished = written.and_then(|()| file.finish());
        finished.map_err(|error| Error::of_place(path, error))?;
        stages.keep();
        Ok(Some(made))
    }

    /// Reads a plan, and checks that the owner of the key wrote exactly this plan.
    ///
    /// # Errors
    /// Returns an error if the file is not a plan, was changed, or belongs to another owner or to other [code](crate::CODE).
    pub fn load(path: &Path, owner: [u8; 32]) -> Result<Self> {
        let text = disk::read_regular_text(path, LONGEST).map_err(Error::reading(path))?;
        let document: PlanDocument = serde_json::from_str(&text).map_err(|error| {
            let problem = format!(
                "it is no plan of shards of this version: {}; write it again",
                json_problem(&error)
            );
            Error::prepared(path, problem)
        })?;
        let owner = Key::new(owner);
        if document.kind != KIND
            || code(&owner, &text.replacen(&document.hmac, NO_CODE, 1)) != document.hmac
        {
            return Err(Error::prepared(
                path,
                "it was changed after it was written, or under another owner's key",
            ));
        }
        if !document.identity.is_current() {
            return Err(Error::prepared(
                path,
                "another version or build of this program wrote it: all stages need the code of the plan; write it again",
            ));
        }
        Ok(Self::of(document, path, owner))
    }

    fn of(document: PlanDocument, path: &Path, owner: Key) -> Self {
        let key = owner.derived("shards", document.hmac.as_bytes());
        Self {
            folder: SealedFolder::new(stages_of(path), key.derived("files", &[])),
            mark: mark_of(path),
            key,
            owner,
            document,
        }
    }

    /// Returns the number of shards.
    #[must_use]
    pub fn shards(&self) -> u64 {
        self.document.shards.len() as u64
    }

    /// Returns the number of parts that the digests are grouped in.
    #[must_use]
    pub const fn parts(&self) -> u64 {
        self.document.parts
    }

    /// Returns the code of the plan, in hexadecimal: HMAC-SHA256 of its file under the owner's key.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.document.hmac
    }

    /// Returns the folder that the last stage writes.
    #[must_use]
    pub fn out(&self) -> &Path {
        &self.document.out
    }

    /// Returns the path of the corpus.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.document.data
    }

    /// Returns the options of the preparation.
    #[must_use]
    pub const fn options(&self) -> &PrepareOptions {
        &self.document.options
    }

    /// Returns the total size of the corpus files in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.document.files.iter().map(|file| file.bytes).sum()
    }

    /// Returns the folder of the files that pass between stages.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder.path
    }

    /// Returns whether a path is the plan at `plan`, or one that it and its stages write beside it.
    #[must_use]
    pub fn owns(plan: &Path, path: &Path) -> bool {
        let stages = stages_of(plan);
        let own = [plan, &stages, &dropped(&stages), &mark_of(plan)];
        own.iter().any(|own| path.starts_with(own))
    }

    /// Returns all stages, in an order in which each one finds its inputs. Stages of one kind may run in any order.
    pub fn stages(&self) -> impl Iterator<Item = ShardStage> + use<> {
        let (shards, parts) = (self.shards(), self.parts());
        let scans = (0..shards).map(ShardStage::Scan);
        let groups = (0..parts).map(ShardStage::Group);
        let writes = (0..shards).map(ShardStage::Write);
        scans.chain(groups).chain(writes).chain([ShardStage::Join])
    }

    /// Returns whether the file of a stage exists and belongs to this plan.
    #[must_use]
    pub fn has(&self, stage: ShardStage) -> bool {
        self.folder.open(&stage.file(), "").is_ok()
    }

    pub(super) const fn corpus(&self) -> Corpus {
        self.document.corpus
    }

    pub(super) fn shard(&self, number: usize) -> &Shard {
        &self.document.shards[number]
    }

    /// Returns whether the fate of a unit depends only on the digests of the units before it.
    pub(super) fn by_digest(&self) -> bool {
        by_digest(&self.document.options)
    }

    /// Writes the choices to a file.
    fn keep(&self, context: &PreparationContext) -> Result<()> {
        let whole = WholeChoices {
            plan: context.plan.as_ref().map(Cow::Borrowed),
            words: context.words.as_ref().map(Cow::Borrowed),
        };
        let mut file = self.folder.create(CHOICES)?;
        let path = self.folder.path.join(CHOICES);
        let json = |problem: serde_json::Error| Error::prepared(&path, problem.to_string());
        file.section(&serde_json::to_vec(&whole).map_err(json)?)?;
        let ends = self
            .document
            .shards
            .iter()
            .skip(1)
            .map(|shard| shard.training);
        let ends = ends.chain([context.corpus.documents]);
        let mut all_held_out = context.division.held_out.iter().peekable();
        let mut all_planted: Vec<(usize, &Document)> =
            context.planted.iter().map(|(n, d)| (*n, d)).collect();
        all_planted.sort_unstable_by_key(|(number, _)| *number);
        let mut all_places: Vec<CanaryPlace> = context.copies.values().copied().collect();
        all_places.sort_unstable_by_key(|place| place.document);
        for (shard, end) in self.document.shards.iter().zip(ends) {
            let training = as_range(shard.training, end - shard.training);
            let all = as_range(shard.first, shard.documents);
            let held_out = std::iter::from_fn(|| all_held_out.next_if(|number| *number < all.end));
            let planted = numbered(&all_planted, &training, |(number, _)| *number).iter();
            let mut places = numbered(&all_places, &training, |place| place.document).to_vec();
            places.sort_unstable_by_key(|place| (place.canary, place.copy));
            let choices = ShardChoices {
                held_out: held_out.collect(),
                planted: planted.map(|(n, d)| (*n, Cow::Borrowed(*d))).collect(),
                places,
            };
            file.section(&serde_json::to_vec(&choices).map_err(json)?)?;
        }
        file.finish()
    }

    /// Restores the choices that these shards need; `missed` contains the strings that the simulated policy misses.
    pub(super) fn context(
        &self,
        shards: Range<usize>,
        missed: HashSet<String>,
    ) -> Result<PreparationContext> {
        let document = &self.document;
        self.open_still()?;
        let again = "the last stage removes it: remove the plan, and write it again";
        let mut file: SealedReader = self.folder.open(CHOICES, again)?;
        let whole: WholeChoices<'static> = file.json(0)?;
        let mut planted = Planted {
            plan: whole.plan.map(Cow::into_owned),
            words: whole.words.map(Cow::into_owned),
            documents: HashMap::new(),
            places: Vec::new(),
        };
        let mut held_out = HeldOut::default();
        for shard in shards {
            let choices: ShardChoices<'static> = file.json(1 + shard)?;
            held_out.extend(choices.held_out);
            let documents = choices.planted.into_iter();
            let documents = documents.map(|(number, d)| (number, d.into_owned()));
            planted.documents.extend(documents);
            planted.places.extend(choices.places);
        }
        let choices = Choices {
            division: Division {
                held_out,
                seal: Some(salt(&self.owner, SECRETS)),
            },
            corpus: document.corpus,
            missed,
            planted,
        };
        let options = document.options.placed_in(&document.base)?;
        let context = PreparationContext::restored(&options, choices)?;
        let now = Identity::of_parts(&salt(&self.owner, SECRETS), &requested(&context)?, &[]);
        if now.against(&document.identity).is_some() {
            return Err(Error::Sharding(
                "the tokenizer or the classifier is not the one of the plan any more; write the plan again"
                    .to_owned(),
            ));
        }
        if planned_files(&document.data)? != document.files {
            return Err(self.changed());
        }
        Ok(context)
    }

    /// Returns what was prepared, if the last stage is done, and removes what a last stage left that was killed meanwhile.
    /// The folder of the stages is gone then, and the output is the folder that the last stage wrote, byte for byte.
    ///
    /// # Errors
    /// Returns an error if the folder of the stages is gone, and the output is another folder, damaged or absent.
    pub fn finished(&self) -> Result<Option<Preparation>> {
        if !self.is_marked()? {
            return Ok(None);
        }
        let made = preparation_of(self.out(), &self.owner);
        let made = made.map_err(|error| self.lost(&error.to_string()))?;
        remove_dropped(&self.folder.path)?;
        Ok(Some(made))
    }

    /// Returns whether the plan is [finished](Self::finished), by the code of the output alone.
    ///
    /// # Errors
    /// Returns an error if the folder of the stages is gone, and the output is another folder or absent.
    pub fn is_finished(&self) -> Result<bool> {
        let finished = self.is_marked()?;
        if finished {
            remove_dropped(&self.folder.path)?;
        }
        Ok(finished)
    }

    /// Leaves what tells the output from every other folder of this owner once the stages are gone.
    pub(super) fn mark_finished(&self) -> Result<()> {
        let mark = self.code_of_output()?;
        let written = disk::write_whole(&self.mark, mark.as_bytes());
        written.map_err(Error::writing(&self.mark))
    }

    /// Returns whether the folder of the stages is gone and the last stage left a mark for what is at the output.
    fn is_marked(&self) -> Result<bool> {
        let stages = &self.folder.path;
        match stages.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Error::reading(stages)(error)),
            Ok(found) if found.is_symlink() => {
                let problem = "it is a link, behind which text would stay; put the folder of the stages itself there";
                return Err(Error::prepared(stages, problem));
            }
            Ok(_) => return Ok(false),
        }
        let mark = match disk::read_regular(&self.mark, MARK_SIZE) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let why = format!("the last stage has not left {}", self.mark.display());
                return Err(self.lost(&why));
            }
            read => read.map_err(Error::reading(&self.mark))?,
        };
        if mark != self.code_of_output()?.as_bytes() {
            let why = format!("{} is of another one", self.mark.display());
            return Err(self.lost(&why));
        }
        Ok(true)
    }

    /// Returns the code, under the plan's key, of the code that the output has under the owner's.
    fn code_of_output(&self) -> Result<String> {
        let code = code_of(self.out()).map_err(|error| self.lost(&error.to_string()))?;
        let code = code.ok_or_else(|| self.lost("prepared.code is not there"))?;
        Ok(hexadecimal(&self.key.digest(&[b"finished", &code])) + "\n")
    }

    fn lost(&self, why: &str) -> Error {
        let problem = format!(
            "it is gone, and no stage can run; {} is not the folder of this plan ({why}): remove the plan, and write it again",
            self.out().display()
        );
        Error::prepared(&self.folder.path, problem)
    }

    /// Removes the folder of the stages. It is dropped at once, by a new name; what a killed process leaves under that, the
    /// next one removes that finds the plan finished, or writes a plan of the name.
    pub(super) fn drop_stages(&self) -> Result<()> {
        let stages = &self.folder.path;
        remove_dropped(stages)?;
        let renamed = disk::rename(stages, &dropped(stages));
        renamed.map_err(Error::writing(stages))?;
        remove_dropped(stages)
    }

    /// Returns an error if the last stage is already done.
    pub(super) fn open_still(&self) -> Result<()> {
        if self.is_finished()? {
            let problem = "it is there: all stages of the plan are done";
            return Err(Error::prepared(self.out(), problem));
        }
        Ok(())
    }

    fn changed(&self) -> Error {
        let problem = "it is not the corpus of the plan any more; write the plan again";
        Error::prepared(&self.document.data, problem)
    }

    /// Returns the documents of consecutive shards. Returns an error after the first shard whose documents are not
    /// those of the plan. `planted` contains the documents with canaries.
    pub(super) fn feed<'a>(
        &'a self,
        shards: Range<usize>,
        context: &'a PreparationContext,
        planted: &'a HashMap<usize, Document>,
        read: &'a Cell<u64>,
    ) -> Result<Feed<'a>> {
        let document = &self.document;
        let shards = &document.shards[shards];
        let Some(begin) = shards.first() else {
            return Ok(Box::new(|| Ok(None)));
        };
        let documents = Documents::from_place(&document.data, &document.reading, &begin.place)?;
        let mut documents = documents.with_known_ids();
        let (mut number, mut training) = (as_index(begin.first), as_index(begin.training));
        let mut shards = shards.iter();
        let mut open: Option<(&Shard, u64, Seal)> = None;
        Ok(Box::new(move || {
            loop {
                let (shard, left, mut seal) = match open.take() {
                    Some(open) => open,
                    None => match shards.next() {
                        Some(shard) => (shard, shard.documents, Seal::default()),
                        None => return Ok(None),
                    },
                };
                if left == 0 {
                    if sealed(&documents_key(&self.owner), seal) != shard.hmac {
                        return Err(self.changed());
                    }
                    continue;
                }
                let next = documents.next().transpose()?;
                read.set(documents.bytes_read());
                let Some(document) = next else {
                    return Err(self.changed());
                };
                seal.enter(&document);
                open = Some((shard, left - 1, seal));
                number += 1;
                if context.division.held_out.contains(number - 1) {
                    let held_out = number - 1 - training;
                    return Ok(Some((Role::HeldOut(held_out), Cow::Owned(document))));
                }
                training += 1;
                let planted = planted.get(&(training - 1));
                let document = planted.map_or(Cow::Owned(document), Cow::Borrowed);
                return Ok(Some((Role::Training(training - 1), document)));
            }
        }))
    }
}

/// Returns the folder of the files that pass between the stages of a plan.
fn stages_of(plan: &Path) -> PathBuf {
    disk::sibling(plan, "stages")
}

/// Returns the file that the last stage leaves.
fn mark_of(plan: &Path) -> PathBuf {
    disk::sibling(plan, "done")
}

/// Returns the name that the folder of the stages has while it is removed.
fn dropped(stages: &Path) -> PathBuf {
    disk::sibling(stages, "removed")
}

/// Removes the folder of the stages under that name, if it exists.
fn remove_dropped(stages: &Path) -> Result<()> {
    let path = dropped(stages);
    match disk::remove_folder(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(Error::writing(&path)),
    }
}

/// The stages folder while its plan is being written, by one process at a time. The folder is useless without its plan,
/// so it is removed when this value is dropped. What a killed process left in it is removed by the next process that
/// writes the plan.
struct NewStages {
    path: PathBuf,
    /// Held as long as this value lives.
    _lock: File,
    kept: bool,
}

impl NewStages {
    fn take(plan: &Path) -> Result<Self> {
        let path = stages_of(plan);
        let lock = locked(&path).map_err(Error::writing(&path))?;
        // The previous holder of the lock may have finished; then the content belongs to its plan.
        if plan.symlink_metadata().is_ok() {
            unlock(&path);
            return Err(Error::Exists {
                path: plan.to_path_buf(),
            });
        }
        cleared(&path, &[]).map_err(Error::writing(&path))?;
        remove_dropped(&path)?;
        let mark = mark_of(plan);
        disk::remove_file(&mark).map_err(Error::writing(&mark))?;
        Ok(Self {
            path,
            _lock: lock,
            kept: false,
        })
    }

    fn keep(mut self) {
        unlock(&self.path);
        self.kept = true;
    }
}

impl Drop for NewStages {
    fn drop(&mut self) {
        if !self.kept {
            let _ = disk::remove_folder(&self.path);
        }
    }
}

/// The `type` of a plan file.
const KIND: &str = "shard-plan";

fn by_digest(options: &PrepareOptions) -> bool {
    !options.deduplicate || options.duplicates == Deduplication::Exact
}

/// Rejects reading options under which no shard can begin in the middle of a corpus.
fn refuse(reading: &ReadOptions, source: Source<'_>) -> Result<()> {
    let refused = |problem: &str| Err(Error::Sharding(problem.to_owned()));
    if reading.user.is_some() {
        return refused(
            "all documents of a user are put together in memory (--user-field); prepare them without shards",
        );
    }
    if reading.chat.is_some() {
        return refused(
            "a plan holds no chat template (--chat-template); prepare the corpus without shards",
        );
    }
    if reading.skip_unreadable {
        return refused(
            "every process must read the same files; --skip-unreadable is for a preparation without shards",
        );
    }
    if !source.lasts()? {
        return refused("the corpus must be files, got a pipe or a device");
    }
    Ok(())
}

fn text_of(document: &PlanDocument, path: &Path) -> Result<String> {
    serde_json::to_string_pretty(document)
        .map(|text| text + "\n")
        .map_err(|error| Error::prepared(path, error.to_string()))
}

fn code(owner: &Key, text: &str) -> String {
    hexadecimal(&owner.digest(&[b"plan of shards", text.as_bytes()]))
}

/// Returns the key for some digests.
fn salt(owner: &Key, purpose: &[u8]) -> [u8; 20] {
    let mut out = [0; 20];
    out.copy_from_slice(&owner.digest(&[purpose])[..20]);
    out
}

/// Names the key for the digests of secrets.
const SECRETS: &[u8] = b"secrets of shards";

fn documents_key(owner: &Key) -> Key {
    owner.derived("documents of shards", &[])
}

fn sealed(key: &Key, seal: Seal) -> String {
    hexadecimal(&key.digest(&[&seal.close()]))
}

fn as_index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Returns the entries whose numbers are in a range, of entries in the order of these numbers.
fn numbered<'a, T>(sorted: &'a [T], range: &Range<usize>, number: impl Fn(&T) -> usize) -> &'a [T] {
    let [begin, end] =
        [range.start, range.end].map(|bound| sorted.partition_point(|one| number(one) < bound));
    &sorted[begin..end]
}

fn as_range(first: u64, count: u64) -> Range<usize> {
    as_index(first)..as_index(first.saturating_add(count))
}

/// Divides a corpus into shards of about equal size in bytes while it is read.
#[derive(Default)]
struct Cuts {
    shards: u64,
    total: u64,
    documents: u64,
    /// The place from which the next document is read.
    place: Place,
    begun: Option<(Place, u64, Seal)>,
    done: Vec<(Place, u64, u64, Seal)>,
}

impl Cuts {
    fn enter(&mut self, document: &Document, stands: &Stands) {
        let (place, first, mut seal) = self
            .begun
            .take()
            .unwrap_or_else(|| (self.place, self.documents, Seal::default()));
        seal.enter(document);
        self.documents += 1;
        self.place = stands.next;
        let number = self.done.len() as u64 + 1;
        let before = u128::from(stands.before_next) * u128::from(self.shards);
        if number < self.shards && before >= u128::from(number) * u128::from(self.total) {
            self.done.push((place, first, self.documents - first, seal));
        } else {
            self.begun = Some((place, first, seal));
        }
    }

    /// Returns the shards; the last ones may be empty.
    fn close(mut self, key: &Key, held_out: &HeldOut) -> Vec<Shard> {
        while (self.done.len() as u64) < self.shards {
            let (place, first, seal) = self
                .begun
                .take()
                .unwrap_or_else(|| (self.place, self.documents, Seal::default()));
            self.done.push((place, first, self.documents - first, seal));
        }
        let (mut held_out, mut before) = (held_out.iter().peekable(), 0);
        let shard = |(place, first, documents, seal): (Place, u64, u64, Seal)| {
            while held_out
                .next_if(|number| *number < as_index(first))
                .is_some()
            {
                before += 1;
            }
            Shard {
                place,
                first,
                documents,
                training: first - before,
                hmac: sealed(key, seal),
            }
        };
        self.done.into_iter().map(shard).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canary::CanaryOptions;
    use crate::simulate::simulate;
    use std::time::Duration;

    const OWNER: [u8; 32] = [7; 32];

    /// A corpus in a file, and where it is prepared.
    struct Case {
        place: tempfile::TempDir,
        reading: ReadOptions,
        options: PrepareOptions,
    }

    impl Case {
        fn new(text: &str, options: PrepareOptions) -> Self {
            let place = tempfile::tempdir().unwrap();
            std::fs::write(place.path().join("a.jsonl"), text).unwrap();
            Self {
                place,
                reading: ReadOptions::default(),
                options,
            }
        }

        fn at(&self, name: &str) -> PathBuf {
            self.place.path().join(name)
        }

        fn prepare<T>(&self, with: impl FnOnce(&PrepareFiles<'_>) -> T) -> T {
            with(&PrepareFiles {
                data: &self.at("a.jsonl"),
                reading: &self.reading,
                options: &self.options,
                threads: 1,
                pause: Duration::from_secs(10),
                owner: Some(OWNER),
            })
        }

        /// A plan for three shards that keeps something about so many documents in memory.
        fn plan(&self, most: usize, watch: &dyn Fn(Phase, u64) -> bool) -> Result<ShardPlan> {
            let path = self.at("plan.json");
            let place = (path.as_path(), OWNER);
            self.prepare(|files| {
                ShardPlan::write_keeping(most, files, &self.at("out"), 3, place, watch)
            })
            .map(Option::unwrap)
        }
    }

    fn documents(count: usize) -> String {
        let documents = simulate(count, 3).unwrap();
        let lines = documents.iter();
        lines
            .map(|d| serde_json::to_string(d).unwrap() + "\n")
            .collect()
    }

    /// Nor has anything a name that lies on the disk meanwhile.
    #[test]
    fn what_does_not_fit_in_memory_changes_nothing() {
        let text = documents(200);
        for held_out in [0.0, 0.3] {
            let options = PrepareOptions {
                held_out,
                canaries: Some(CanaryOptions::new("3x4".parse().unwrap())),
                ..PrepareOptions::default()
            };
            let case = Case::new(&text, options);
            let single = case.at("single");
            case.prepare(|files| files.write(&single, false, &|_, _| true))
                .unwrap();
            let mut planned = Vec::new();
            for most in [1, 7, 199, 200, KEPT] {
                let plan = case.plan(most, &|_, _| {
                    let names = std::fs::read_dir(case.at("plan.json.stages")).unwrap();
                    assert_eq!(names.count(), 1, "the lock alone");
                    true
                });
                let plan = plan.unwrap();
                planned.push(std::fs::read(case.at("plan.json")).unwrap());
                for stage in plan.stages() {
                    plan.run(stage, 1, &|_, _| true).unwrap();
                }
                for entry in std::fs::read_dir(&single).unwrap() {
                    let name = entry.unwrap().file_name();
                    let [one, other] = [&single, &case.at("out")]
                        .map(|folder| std::fs::read(folder.join(&name)).unwrap());
                    assert!(one == other, "{most} {held_out} {name:?}");
                }
                std::fs::remove_dir_all(case.at("out")).unwrap();
                std::fs::remove_file(case.at("plan.json")).unwrap();
            }
            assert!(planned.iter().all(|plan| *plan == planned[0]));
        }
    }

    /// Wherever its first occurrence lies; nothing is left of the plan.
    #[test]
    fn an_id_that_is_not_unique_is_refused() {
        let lines: String = (0..40)
            .map(|line| format!("{{\"id\":\"d{}\",\"text\":\"t{line}\"}}\n", line % 37))
            .collect();
        let case = Case::new(&lines, PrepareOptions::default());
        for most in [1, 5, 37, KEPT] {
            let said = case.plan(most, &|_, _| true).unwrap_err().to_string();
            let expected = "line 38: its id is already that of line 1; ids must be unique";
            assert!(said.ends_with(expected), "{most}: {said}");
            assert_eq!(std::fs::read_dir(case.place.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn a_shard_for_each_128_mib_is_enough() {
        let shards = [0, 1, SHARD, SHARD + 1, 10_000_000_000, u64::MAX];
        assert_eq!(shards.map(ShardPlan::enough_shards), [1, 1, 1, 2, 75, MOST]);
    }

    /// Its stages would find other secrets than those that are done.
    #[test]
    fn a_plan_is_of_one_build() {
        let case = Case::new(&documents(2), PrepareOptions::default());
        let hmac = case.plan(KEPT, &|_, _| true).unwrap().document.hmac;
        let path = case.at("plan.json");
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.replacen(crate::CODE, &"5".repeat(64), 1);
        let text = text.replacen(&hmac, NO_CODE, 1);
        let signed = text.replacen(NO_CODE, &code(&Key::new(OWNER), &text), 1);
        std::fs::write(&path, signed).unwrap();
        let said = ShardPlan::load(&path, OWNER).unwrap_err().to_string();
        assert!(said.contains("another version or build"), "{said}");
    }
}

//! The stages.

use super::super::context::{Found, PreparationContext};
use super::super::facts::Facts;
use super::super::first_pass::{Fates, FirstPass, UnitPlace};
use super::super::record_work::unit_key;
use super::super::resume::Done;
use super::super::run::{Pass, Put, Run};
use super::super::secrets::SecretLine;
use super::super::sink::Sink;
use super::super::source::{Phase, Role, batches};
use super::super::stream::Preparation;
use super::fates::{self, Row, each_fate, place, put_fate, put_row};
use super::plan::{ShardPlan, ShardStage};
use super::sealed::{OpenSection, SealedReader};
use crate::dedup::Fate;
use crate::error::{Error, Result, range};
use crate::folder::{ManyLines, OutputFolder, PackedLines};
use crate::record::Record;
use crate::redaction::checked_threads;
use crate::split::units;
use hmac::Mac;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::mpsc::sync_channel;

/// Sections of what scan leaves, before those of the parts: copies within the shard, and what the policy finds in it,
/// where it is made to miss some of that.
const COPIES: usize = 0;
const FOUND: usize = 1;
const PARTS: usize = 2;

/// Sections of what group leaves, before those of the shards. What the policy misses stands in the first part.
const COUNTS: usize = 0;
const MISSED: usize = 1;
const SHARDS: usize = 2;

/// Sections of what write leaves, before those of its secrets by ranges of their keys.
const RECORDS: usize = 0;
const DONE: usize = 1;
const SECRETS: usize = 2;

/// The largest number of such ranges. The last stage reads the secrets of all shards in one range at a time.
const MOST_RANGES: u64 = 256;

/// Keyed digests of a shard's units in one part, as its scan left them, for a group whose input travels otherwise
/// than in files. Neither a unit nor a secret can be tried out against them without the owner's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitDigests {
    /// The shard that they are of.
    pub shard: u64,
    /// The part that groups them.
    pub part: u64,
    /// Rows of 28 bytes, in order: 20 of a digest, and the unit's place in the shard.
    pub rows: Vec<u8>,
    /// The code of the rows under the plan's key, in hexadecimal.
    pub hmac: String,
}

/// What group counted.
#[derive(Serialize, Deserialize)]
struct Counts {
    /// Different units of the part.
    distinct: u64,
}

impl ShardPlan {
    /// Runs a stage; the last one returns what was prepared, and removes what the others left. It may run twice, on any
    /// machine, and at once: it writes the same bytes, and nothing if its file is whole or the plan
    /// [finished](Self::finished). The last one that is run again after it was killed at its end finds the folder that it
    /// wrote. Returns `None`, and leaves nothing, if `watch`, which gets the bytes read, returned false.
    ///
    /// # Errors
    /// A shard or part that the plan does not have; what an earlier stage has not left yet, or what is not as that
    /// stage left it; a corpus, a tokenizer or a classifier that is not that of the plan any more; as
    /// [`crate::prepare::PrepareFiles::write`].
    pub fn run(
        &self,
        stage: ShardStage,
        threads: usize,
        watch: &dyn Fn(Phase, u64) -> bool,
    ) -> Result<Option<Option<Preparation>>> {
        let threads = checked_threads(threads)?;
        let number = match stage {
            ShardStage::Scan(shard) | ShardStage::Write(shard) => {
                index("the shard", shard, self.shards())?
            }
            ShardStage::Group(part) => index("the part", part, self.parts())?,
            ShardStage::Join => 0,
        };
        let done = self.run_now(stage, number, threads, watch);
        // Another process may have finished the plan meanwhile, and removed what this one read or wrote.
        match done {
            Err(error) => match self.already(stage) {
                Ok(Some(made)) => Ok(Some(made)),
                _ => Err(error),
            },
            done => done,
        }
    }

    /// Returns what a stage returns that has nothing to do, since the plan is finished.
    fn already(&self, stage: ShardStage) -> Result<Option<Option<Preparation>>> {
        match stage {
            ShardStage::Join => Ok(self.finished()?.map(Some)),
            _ => Ok(self.is_finished()?.then_some(None)),
        }
    }

    fn run_now(
        &self,
        stage: ShardStage,
        number: usize,
        threads: usize,
        watch: &dyn Fn(Phase, u64) -> bool,
    ) -> Result<Option<Option<Preparation>>> {
        if let Some(made) = self.already(stage)? {
            return Ok(Some(made));
        }
        if stage != ShardStage::Join && self.folder.is_whole(&stage.file()) {
            return Ok(Some(None));
        }
        let go_on = match stage {
            ShardStage::Scan(_) => self.scan(number, threads, watch)?,
            ShardStage::Group(_) if self.by_digest() => {
                let mut rows = self.all().map(|shard| {
                    self.left_by(ShardStage::Scan(shard as u64))?
                        .bytes(PARTS + number)
                });
                self.group(number, &mut rows, watch)?
            }
            ShardStage::Group(_) => self.group_all(threads, watch)?,
            ShardStage::Write(_) => self.write_shard(number, threads, watch)?,
            ShardStage::Join => return Ok(self.join(threads, watch)?.map(Some)),
        };
        Ok(go_on.then_some(None))
    }

    /// Tells what the scan of a shard left for each part, in order, until `visit` says no. The rows are those that group
    /// reads from the scan's file; where it takes more than them to group units, there are none.
    ///
    /// # Errors
    /// A shard that the plan does not have; a scan that is not there yet or damaged.
    pub fn scanned(&self, shard: u64, mut visit: impl FnMut(UnitDigests) -> bool) -> Result<()> {
        index("the shard", shard, self.shards())?;
        let scan = ShardStage::Scan(shard);
        let mut file = self.left_by(scan)?;
        for part in 0..self.parts() {
            let section = PARTS + index("the part", part, self.parts())?;
            let rows = file.bytes(section)?;
            let digests = UnitDigests {
                shard,
                part,
                hmac: self.folder.code(&scan.file(), section, &rows),
                rows,
            };
            if !visit(digests) {
                break;
            }
        }
        Ok(())
    }

    /// The stage group of a part, with the rows of all shards given instead of read from their scans: it writes the
    /// same file. Under a miss rate, and where it takes more than digests to group units, it reads the scans too.
    /// False when `watch` says no.
    ///
    /// # Errors
    /// Rows of another part or plan, changed, missing or given twice; as [`ShardPlan::run`].
    pub fn group_digests(
        &self,
        part: u64,
        digests: Vec<UnitDigests>,
        threads: usize,
        watch: &dyn Fn(Phase, u64) -> bool,
    ) -> Result<bool> {
        let threads = checked_threads(threads)?;
        let at = index("the part", part, self.parts())?;
        let mut given: Vec<Option<Vec<u8>>> = vec![None; self.all().len()];
        for one in digests {
            let shard = index("the shard", one.shard, self.shards())?;
            let name = ShardStage::Scan(one.shard).file();
            let code = self.folder.code(&name, PARTS + at, &one.rows);
            if one.part != part || one.hmac != code || given[shard].is_some() {
                return Err(Error::Sharding(format!(
                    "digests of shard {shard} for part {part} were changed, given twice, or are of another plan or part"
                )));
            }
            given[shard] = Some(one.rows);
        }
        let mut rows = given.into_iter().enumerate().map(|(shard, rows)| {
            rows.ok_or_else(|| {
                Error::Sharding(format!(
                    "digests of shard {shard} for part {part} are missing"
                ))
            })
        });
        if self.by_digest() {
            return self.group(at, &mut rows, watch);
        }
        rows.try_for_each(|rows| rows.map(drop))?;
        self.group_all(threads, watch)
    }

    fn left_by(&self, stage: ShardStage) -> Result<SealedReader> {
        self.open_still()?;
        let again = format!("audit prepare with {stage} writes it");
        self.folder.open(&stage.file(), &again)
    }

    fn all(&self) -> Range<usize> {
        0..usize::try_from(self.shards()).unwrap_or(usize::MAX)
    }

    fn first_of(&self, shard: usize) -> usize {
        usize::try_from(self.shard(shard).training).unwrap_or(usize::MAX)
    }

    /// Digests of the units of a shard.
    fn scan(
        &self,
        shard: usize,
        threads: usize,
        watch: &dyn Fn(Phase, u64) -> bool,
    ) -> Result<bool> {
        let context = self.context(shard..shard + 1, HashSet::new())?;
        let first = self.first_of(shard);
        let read = Cell::new(0);
        let mut feed = self.feed(shard..shard + 1, &context, &context.planted, &read)?;
        let mac = self.key.derived("units", &[]).mac();
        let mut rows: Vec<Row> = Vec::new();
        let by_digest = self.by_digest();
        let whole = batches(
            &mut feed,
            threads,
            &read,
            |batch| {
                let mut out = Vec::new();
                let training = batch.iter().filter_map(|(role, document)| match role {
                    Role::Training(number) if by_digest => Some((*number, document)),
                    _ => None,
                });
                for (number, document) in training {
                    let units = units(document, number, context.options.unit)?;
                    for (at, unit) in units.iter().enumerate() {
                        let own = unit_key(unit);
                        let code = mac.clone().chain_update(own).finalize();
                        let mut key = [0; 20];
                        key.copy_from_slice(&code.into_bytes()[..20]);
                        out.push((key, place(number, first, at)?));
                    }
                }
                Ok(out)
            },
            |made: Vec<Row>| {
                rows.extend(made);
                Ok(watch(Phase::Duplicates, read.get()))
            },
        )?;
        if !whole {
            return Ok(false);
        }
        drop(feed);
        let Some(found) = self.found(shard, &context, threads, watch)? else {
            return Ok(false);
        };
        rows.sort_unstable_by_key(|row| (head_of(&row.0), *row));
        let mut copies: Vec<UnitPlace> = Vec::new();
        rows.dedup_by(|copy, first| {
            let same = copy.0 == first.0;
            if same {
                copies.push(copy.1);
            }
            same
        });
        let name = ShardStage::Scan(shard as u64).file();
        let mut file = self.folder.create(&name)?;
        file.section(&self.dropped(copies)?)?;
        file.section(&sorted_json(&found))?;
        let mut rows = &rows[..];
        for part in 0..self.parts() {
            let end = rows.partition_point(|(key, _)| part_of(key, self.parts()) <= part);
            let (here, behind) = rows.split_at(end);
            let mut bytes = Vec::with_capacity(here.len() * fates::ROW);
            here.iter().for_each(|row| put_row(&mut bytes, row));
            file.section(&bytes)?;
            rows = behind;
        }
        file.finish()?;
        Ok(true)
    }

    /// What the policy finds in a shard, canaries left out; nothing where it misses nothing on purpose.
    fn found(
        &self,
        shard: usize,
        context: &PreparationContext,
        threads: usize,
        watch: &dyn Fn(Phase, u64) -> bool,
    ) -> Result<Option<Found>> {
        if self.options().policy.miss_rate <= 0.0 {
            return Ok(Some(Found::default()));
        }
        let (read, planted) = (Cell::new(0), HashMap::new());
        let mut feed = self.feed(shard..shard + 1, context, &planted, &read)?;
        let go_on = || watch(Phase::Secrets, read.get());
        let how = (
            context.base.as_ref(),
            &context.tokenizer,
            self.options().unit,
        );
        Found::of(&mut feed, how, threads, &read, &go_on)
    }

    /// What the policy is made to miss, for the first part; for the others nothing.
    fn missed(&self, part: usize) -> Result<HashSet<String>> {
        let mut found = Found::default();
        if part == 0 && self.options().policy.miss_rate > 0.0 {
            for shard in self.all() {
                found.join(self.left_by(ShardStage::Scan(shard as u64))?.json(FOUND)?);
            }
        }
        found.missed(&self.options().policy)
    }

    /// That these units go, where copies do.
    fn dropped(&self, mut places: Vec<UnitPlace>) -> Result<Vec<u8>> {
        if !self.options().deduplicate {
            return Ok(Vec::new());
        }
        places.sort_unstable();
        let mut out = Vec::new();
        for place in places {
            put_fate(&mut out, place, &Fate::Drop)?;
        }
        Ok(out)
    }

    /// Which units of a part stand in an earlier shard. `digests`: the rows of each shard, in order.
    fn group(
        &self,
        part: usize,
        digests: &mut dyn Iterator<Item = Result<Vec<u8>>>,
        watch: &dyn Fn(Phase, u64) -> bool,
    ) -> Result<bool> {
        let mut rows: Vec<([u8; 20], u32, UnitPlace)> = Vec::new();
        for (shard, bytes) in digests.enumerate() {
            let bytes = bytes?;
            let shard = u32::try_from(shard).unwrap_or(u32::MAX);
            rows.extend(fates::rows(&bytes).map(|(key, place)| (key, shard, place)));
            if !watch(Phase::Duplicates, 0) {
                return Ok(false);
            }
        }
        rows.sort_unstable_by_key(|row| (head_of(&row.0), *row));
        let mut later: Vec<Vec<UnitPlace>> = self.all().map(|_| Vec::new()).collect();
        let all = rows.len();
        rows.dedup_by(|copy, first| {
            let same = copy.0 == first.0;
            if same && let Some(later) = later.get_mut(copy.1 as usize) {
                later.push(copy.2);
            }
            same
        });
        debug_assert_eq!(all, rows.len() + later.iter().map(Vec::len).sum::<usize>());
        let distinct = rows.len() as u64;
        let later = later.into_iter().map(|places| self.dropped(places));
        self.grouped(part, distinct, &later.collect::<Result<Vec<_>>>()?)
    }

    /// What becomes of every unit, where that takes all units before it: as a single run finds it.
    fn group_all(&self, threads: usize, watch: &dyn Fn(Phase, u64) -> bool) -> Result<bool> {
        // Each shard was read, and is as it was planned.
        for shard in self.all() {
            self.left_by(ShardStage::Scan(shard as u64))?;
        }
        let context = self.context(self.all(), HashSet::new())?;
        let read = Cell::new(0);
        let open = || self.feed(self.all(), &context, &context.planted, &read);
        let pass = Pass {
            context: &context,
            corpus: self.corpus(),
            threads,
            open: &open,
            read: &read,
            scratch: Some(&self.folder.path),
            form: |_: Record, _: Cow<'_, str>| Ok(()),
        };
        let go_on = |phase| watch(phase, read.get());
        let Some(before) = FirstPass::look(&pass, &go_on)? else {
            return Ok(false);
        };
        let (mut gate, marker) = (before.gate(&context), before.marker(&context));
        let mut fates: Vec<Vec<u8>> = self.all().map(|_| Vec::new()).collect();
        let firsts: Vec<usize> = self.all().map(|shard| self.first_of(shard)).collect();
        let mut feed = (pass.open)()?;
        let whole = pass.enter(
            &mut feed,
            (&mut gate, &marker),
            &|| go_on(Phase::Duplicates),
            |document, unit, stays| {
                let fate = match before.cut(document, unit) {
                    _ if !stays => Fate::Drop,
                    ranges if ranges.is_empty() => Fate::Keep,
                    ranges => Fate::Cut(ranges),
                };
                // The last shard that begins there or before: those before it with the same beginning are empty.
                let shard = firsts.partition_point(|first| *first <= document) - 1;
                let place = place(document, firsts[shard], unit)?;
                put_fate(&mut fates[shard], place, &fate)
            },
        )?;
        Ok(whole && self.grouped(0, gate.distinct(), &fates)?)
    }

    fn grouped(&self, part: usize, distinct: u64, fates: &[Vec<u8>]) -> Result<bool> {
        let name = ShardStage::Group(part as u64).file();
        let mut file = self.folder.create(&name)?;
        file.section(&serde_json::to_vec(&Counts { distinct }).unwrap_or_default())?;
        file.section(&sorted_json(&self.missed(part)?))?;
        for shard in fates {
            file.section(shard)?;
        }
        file.finish()?;
        Ok(true)
    }

    /// The records of a shard.
    fn write_shard(
        &self,
        shard: usize,
        threads: usize,
        watch: &dyn Fn(Phase, u64) -> bool,
    ) -> Result<bool> {
        let mut fates = Fates::new(self.first_of(shard));
        let mut enter = |mut file: SealedReader, section| {
            let bytes = file.bytes(section)?;
            let whole = each_fate(&bytes, |place, fate| fates.enter(place, fate));
            if whole { Ok(()) } else { Err(file.damaged()) }
        };
        enter(self.left_by(ShardStage::Scan(shard as u64))?, COPIES)?;
        for part in 0..self.parts() {
            enter(self.left_by(ShardStage::Group(part))?, SHARDS + shard)?;
        }
        let missed = self.left_by(ShardStage::Group(0))?.json(MISSED)?;
        let context = self.context(shard..shard + 1, missed)?;
        let read = Cell::new(0);
        let open = || self.feed(shard..shard + 1, &context, &context.planted, &read);
        let pass = Pass {
            context: &context,
            corpus: self.corpus(),
            threads,
            open: &open,
            read: &read,
            scratch: Some(&self.folder.path),
            form: |record: Record, text: Cow<'_, str>| {
                PackedLines::of(&record, &text, context.options.loss_on)
            },
        };
        let name = ShardStage::Write(shard as u64).file();
        let mut file = self.folder.create(&name)?;
        let mut sink = Framed {
            out: file.begin(),
            read: &read,
            watch,
        };
        let before = FirstPass::of_fates(fates);
        let Some((mut run, _)) = pass.through(&before, None, &mut sink)? else {
            return Ok(false);
        };
        sink.out.end();
        let secrets = run.take_secrets();
        let done = serde_json::to_vec(&run.done(0, 0)).unwrap_or_default();
        file.section(&done)?;
        let (mut lines, ranges) = (secrets.lines().peekable(), self.ranges());
        for range in 0..ranges {
            let next = || lines.next_if(|line| part_of(&line.key, ranges) == range);
            let here: Vec<SecretLine<'_>> = std::iter::from_fn(next).collect();
            file.section(&serde_json::to_vec(&here).unwrap_or_default())?;
        }
        file.finish()?;
        Ok(true)
    }

    /// Returns the number of ranges of keys that secrets are counted in.
    fn ranges(&self) -> u64 {
        self.shards().min(MOST_RANGES)
    }

    /// The prepared folder. With more than one thread, what is written was read and checked by another one.
    fn join(
        &self,
        threads: usize,
        watch: &dyn Fn(Phase, u64) -> bool,
    ) -> Result<Option<Preparation>> {
        let place = OutputFolder::take_or_compare(self.out())?;
        let context = self.context(0..0, HashSet::new())?;
        let mut distinct = 0;
        for part in 0..self.parts() {
            let counts: Counts = self.left_by(ShardStage::Group(part))?.json(COUNTS)?;
            distinct += counts.distinct;
        }
        let mut out = place.begin(self.corpus().held_out > 0, Some(&self.owner))?;
        let mut run = Run::new(&context, self.corpus());
        let (mut first, mut read) = (0, 0);
        let mut enter = |written: Written| {
            match written {
                Written::Shard(done) => first = run.join(*done),
                Written::Records(records) => {
                    read += records.read;
                    for (put, lines) in records.puts.iter().zip(records.lines.each()) {
                        let put = match put {
                            Put::Training { point, document } => Put::Training {
                                point: first + point,
                                document: *document,
                            },
                            Put::HeldOut { .. } => *put,
                        };
                        out.put(put, lines)?;
                    }
                }
            }
            Ok(watch(Phase::Prepare, read))
        };
        let whole = match threads {
            1 => self.written(&mut enter)?,
            _ => std::thread::scope(|scope| {
                let (sender, receiver) = sync_channel(AHEAD);
                scope.spawn(move || {
                    let sent = self.written(&mut |written| Ok(sender.send(Ok(written)).is_ok()));
                    if let Err(error) = sent {
                        // Nobody listens where the writer has failed by itself.
                        let _ = sender.send(Err(error));
                    }
                });
                for written in receiver {
                    if !enter(written?)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            })?,
        };
        if !whole {
            return Ok(None);
        }
        for section in (SECRETS..).take(self.ranges() as usize) {
            let writes = self.all().map(|shard| ShardStage::Write(shard as u64));
            run.join_secrets(writes.map(|write| self.left_by(write)?.json(section)))?;
            if !watch(Phase::Prepare, read) {
                return Ok(None);
            }
        }
        let facts: Facts = run.finish(distinct)?;
        let made = Preparation {
            facts,
            // Their paths as they were given, as in a single run.
            options: self.options().clone(),
            plan: context.plan.clone(),
            tokenizer: context.tokenizer.clone(),
            taken_up: None,
        };
        out.finish(&made)?;
        self.mark_finished()?;
        self.drop_stages()?;
        Ok(Some(made))
    }

    /// Passes what the shards' writes left to `visit`, in order, until that returns false; then false.
    fn written(&self, visit: &mut dyn FnMut(Written) -> Result<bool>) -> Result<bool> {
        for shard in self.all() {
            let mut file = self.left_by(ShardStage::Write(shard as u64))?;
            if !visit(Written::Shard(Box::new(file.json(DONE)?)))? {
                return Ok(false);
            }
            let mut section = file.stream(RECORDS)?;
            let mut bytes = Vec::new();
            while section.left() > 0 {
                section.take(section.left().min(BLOCK), &mut bytes)?;
                let (records, end) = Records::of(&bytes).ok_or_else(|| section.damaged())?;
                // The beginning of a record whose end is not read yet.
                bytes.drain(..end);
                if !visit(Written::Records(records))? {
                    return Ok(false);
                }
            }
            if !bytes.is_empty() {
                return Err(section.damaged());
            }
            section.end()?;
        }
        Ok(true)
    }
}

/// A piece of what the writes left.
enum Written {
    /// What a shard counted, before its records.
    Shard(Box<Done>),
    /// Records with the numbers of their units in the shard.
    Records(Records),
}

/// Records from the file of a stage.
struct Records {
    /// Where each goes.
    puts: Vec<Put>,
    lines: ManyLines,
    /// Their bytes in the file.
    read: u64,
}

impl Records {
    /// The whole records at the beginning of these bytes, and where the last one ends; `None` if one of them is no
    /// record.
    fn of(bytes: &[u8]) -> Option<(Self, usize)> {
        let (mut puts, mut lines) = (Vec::new(), ManyLines::default());
        let mut at = 0;
        while let Some(head) = bytes[at..].first_chunk::<HEAD>() {
            let (numbers, _) = head[1..].as_chunks::<8>();
            let [point, document, lengths @ ..] = numbers else {
                return None;
            };
            let mut each = [0; PackedLines::PARTS];
            for (length, bytes) in each.iter_mut().zip(lengths) {
                *length = usize::try_from(u64::from_le_bytes(*bytes)).ok()?;
            }
            let begin = at + HEAD;
            let mut ends = each.iter();
            let end = ends.try_fold(begin, |at, length| at.checked_add(*length))?;
            let Some(packed) = bytes.get(begin..end) else {
                break;
            };
            lines.unpack(packed, each)?;
            let point = u64::from_le_bytes(*point);
            let document = u64::from_le_bytes(*document);
            puts.push(match head[0] {
                0 => Put::Training { point, document },
                _ => Put::HeldOut { document },
            });
            at = end;
        }
        let read = at as u64;
        Some((Self { puts, lines, read }, at))
    }
}

/// Bytes of records that are passed on at once.
const BLOCK: u64 = 1 << 20;
/// Pieces that wait for the writer.
const AHEAD: usize = 4;

/// Data with strings in no order, as the same bytes each time.
fn sorted_json(data: &impl Serialize) -> Vec<u8> {
    fn sorted(value: &mut Value) {
        match value {
            Value::Array(items) => items.sort_by(|a, b| a.as_str().cmp(&b.as_str())),
            Value::Object(fields) => fields.values_mut().for_each(sorted),
            _ => {}
        }
    }
    // Data like these always have a JSON.
    let mut value = serde_json::to_value(data).unwrap_or_default();
    value.sort_all_objects();
    sorted(&mut value);
    value.to_string().into_bytes()
}

fn index(name: &'static str, number: u64, count: u64) -> Result<usize> {
    match usize::try_from(number) {
        Ok(index) if number < count => Ok(index),
        _ => Err(range(name, number, format!("from 0 to {}", count - 1))),
    }
}

/// The first bytes of a digest, in whose order digests are: nearly all comparisons end with them.
fn head_of(key: &[u8; 20]) -> u64 {
    key.first_chunk()
        .map_or(0, |head| u64::from_be_bytes(*head))
}

/// The part that a digest is grouped in: parts are ranges of digests.
fn part_of(key: &[u8; 20], parts: u64) -> u64 {
    let begin = u32::from_be_bytes([key[0], key[1], key[2], key[3]]);
    (u64::from(begin) * parts) >> 32
}

/// Before the lines of a record: where it goes, its point, its document, and the lengths of their parts.
const HEAD: usize = 1 + 2 * 8 + PackedLines::PARTS * 8;

/// Records on their way into the file of a stage.
struct Framed<'a> {
    out: OpenSection<'a>,
    read: &'a Cell<u64>,
    watch: &'a dyn Fn(Phase, u64) -> bool,
}

impl Sink<PackedLines> for Framed<'_> {
    fn put(&mut self, put: Put, lines: PackedLines) -> Result<()> {
        let (kind, point, document) = match put {
            Put::Training { point, document } => (0, point, document),
            Put::HeldOut { document } => (1, 0, document),
        };
        let (bytes, lengths) = lines.parts();
        let mut head = [0; HEAD];
        head[0] = kind;
        let (numbers, _) = head[1..].as_chunks_mut::<8>();
        let each = [point, document]
            .into_iter()
            .chain(lengths.map(|length| length as u64));
        for (place, number) in numbers.iter_mut().zip(each) {
            *place = number.to_le_bytes();
        }
        self.out.put(&head)?;
        self.out.put(bytes)
    }

    fn go_on(&self, passage: Phase) -> bool {
        (self.watch)(passage, self.read.get())
    }
}

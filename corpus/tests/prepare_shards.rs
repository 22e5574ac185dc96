//! Preparing a corpus in shards: the folder of one process, byte for byte, whatever the number of shards, the order
//! of the stages and how often each runs; and nothing else is taken for what a stage left.

use crate::prepare_shared::{draws, files, full, of_each_kind};
use reticent_corpus::prepare::{PrepareFiles, PrepareOptions, ShardPlan, ShardStage, UnitDigests};
use reticent_corpus::read::ReadOptions;
use reticent_corpus::simulate::simulate;
use reticent_corpus::{Document, Masked};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

const OWNER: [u8; 32] = [7; 32];

fn jsonl(documents: &[Document]) -> String {
    let lines = documents.iter();
    lines
        .map(|d| serde_json::to_string(d).unwrap() + "\n")
        .collect()
}

/// Copies stand in all parts of it, some of them far from the first.
fn corpus(marked: bool) -> Vec<Document> {
    let mut documents = simulate(120, 3).unwrap();
    // Characters outside the vocabulary are counted by part.
    for document in documents.iter_mut().step_by(3) {
        document.text.push('é');
    }
    for at in [5, 40, 80, 110] {
        let mut copy = documents[at % 7].clone();
        copy.id = format!("copy-{at}");
        documents.insert(at, copy);
    }
    // A secret of three records, which two documents have, and another with two of its lines.
    for (at, first) in [
        (20, "12 Zork Lane"),
        (70, "7 Byron Road"),
        (100, "12 Zork Lane"),
    ] {
        let text = format!("USR: at {first}\nFlat 9, Blubton\nQX1 9ZZ .");
        let end = text.len() - 2;
        let document = Document::new(format!("cut-{at}"), text).with_secret(8, end, "address");
        documents.insert(at, document);
    }
    if marked {
        documents[3].masked = vec![Masked { start: 5, end: 9 }];
    } else {
        documents.iter_mut().for_each(|d| d.secrets.clear());
    }
    documents
}

/// A corpus in a file, in a folder of its own.
fn written() -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("a.jsonl");
    std::fs::write(&data, jsonl(&corpus(true))).unwrap();
    (place, data)
}

struct Case {
    place: tempfile::TempDir,
    data: PathBuf,
    reading: ReadOptions,
    options: PrepareOptions,
}

impl Case {
    fn new(data: &Path, options: &PrepareOptions) -> Self {
        Self {
            place: tempfile::tempdir().unwrap(),
            data: data.to_path_buf(),
            reading: ReadOptions::default(),
            options: options.clone(),
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn prepare(&self) -> PrepareFiles<'_> {
        PrepareFiles {
            data: &self.data,
            reading: &self.reading,
            options: &self.options,
            threads: 2,
            pause: Duration::from_secs(10),
            owner: Some(OWNER),
        }
    }

    /// The folder of one process.
    fn single(&self) -> BTreeMap<String, Vec<u8>> {
        let out = self.at("single");
        self.prepare().write(&out, false, &|_, _| true).unwrap();
        files(&out)
    }

    fn plan(&self, shards: u64) -> reticent_corpus::Result<ShardPlan> {
        let (out, plan) = (self.at("out"), self.at("plan.json"));
        let plan = ShardPlan::write(&self.prepare(), &out, shards, &plan, OWNER, &|_, _| true)?;
        Ok(plan.unwrap())
    }
}

/// As another process does: it reads the plan again.
fn run(case: &Case, stage: ShardStage) -> reticent_corpus::Result<()> {
    let plan = ShardPlan::load(&case.at("plan.json"), OWNER)?;
    plan.run(stage, 2, &|_, _| true).map(drop)
}

/// The file that a stage writes.
fn file_of(plan: &ShardPlan, stage: ShardStage) -> Option<PathBuf> {
    let name = match stage {
        ShardStage::Scan(shard) => format!("scan-{shard}"),
        ShardStage::Group(part) => format!("group-{part}"),
        ShardStage::Write(shard) => format!("write-{shard}"),
        ShardStage::Join => return None,
    };
    Some(plan.folder().join(name))
}

/// Runs a stage without the file that it may have written before.
fn again(case: &Case, plan: &ShardPlan, stage: ShardStage) -> reticent_corpus::Result<()> {
    if let Some(file) = file_of(plan, stage) {
        let _ = std::fs::remove_file(file);
    }
    run(case, stage)
}

/// Each kind of stage after the one before, its shards in an order of their own; some of all that ran so far run again.
fn shuffled(plan: &ShardPlan, seed: u64) -> Vec<ShardStage> {
    let mut draw = draws(seed);
    let kind = |stage: &ShardStage| std::mem::discriminant(stage);
    let mut all: Vec<ShardStage> = plan.stages().collect();
    let mut out: Vec<ShardStage> = Vec::new();
    while let Some(first) = all.first().copied() {
        let mut same: Vec<ShardStage> = Vec::new();
        all.retain(|stage| {
            let is_same = kind(stage) == kind(&first);
            if is_same {
                same.push(*stage);
            }
            !is_same
        });
        while !same.is_empty() {
            out.push(same.swap_remove(draw(same.len())));
            if first != ShardStage::Join && draw(2) == 0 {
                out.push(out[draw(out.len())]);
            }
        }
    }
    out
}

/// For 1, 2, 3 and 7 shards; the file system is left as it was, but for the folder, the plan and its mark.
fn same(data: &Path, options: &PrepareOptions) {
    let expected = Case::new(data, options).single();
    for (shards, seed) in [(1, 1), (2, 2), (3, 3), (7, 4)] {
        let case = Case::new(data, options);
        let plan = case.plan(shards).unwrap();
        for stage in shuffled(&plan, seed) {
            again(&case, &plan, stage).unwrap();
        }
        assert!(
            files(&case.at("out")) == expected,
            "{shards} shards, {options:?}"
        );
        let names = std::fs::read_dir(case.place.path()).unwrap();
        assert_eq!(names.count(), 3, "{shards} shards");
    }
}

#[test]
fn shards_in_any_order_and_twice_make_the_folder_of_one_process() {
    let place = tempfile::tempdir().unwrap();
    let all = std::iter::once(PrepareOptions::default()).chain(of_each_kind());
    let all: Vec<PrepareOptions> = all.collect();
    for marked in [true, false] {
        let data = place.path().join(format!("{marked}.jsonl"));
        std::fs::write(&data, jsonl(&corpus(marked))).unwrap();
        for options in &all {
            same(&data, options);
        }
    }
}

/// Files of every format that is read, some of which can be begun in their middle; ids that are made of lines.
#[test]
fn a_shard_begins_anywhere_in_a_folder_of_files() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    std::fs::create_dir_all(data.join("deeper")).unwrap();
    let documents = corpus(true);
    let texts: Vec<&str> = documents.iter().map(|d| d.text.as_str()).collect();
    let lines = |texts: &[&str]| -> String {
        let lines = texts.iter();
        lines
            .map(|text| format!("{}\n\n", serde_json::json!({ "text": text })))
            .collect()
    };
    let write = |name: &str, text: String| std::fs::write(data.join(name), text).unwrap();
    write("a.jsonl", format!("\u{feff}{}", lines(&texts[..30])));
    write("b.txt", texts[20..60].join("\r\n \n\n"));
    write("c.json", lines(&texts[50..60]));
    write("d.jsonl", String::new());
    write("deeper/e.csv", {
        let cell = |text: &&str| format!("\"{}\"\n", text.replace('"', "\"\""));
        texts[60..90]
            .iter()
            .map(cell)
            .fold("text\n".to_owned(), |all, row| all + &row)
    });
    write("deeper/f.jsonl", jsonl(&documents[90..]));
    same(&data, &PrepareOptions::default());
    same(&data, &full("3x4", [2, 4]));
    let mut case = Case::new(&data.join("b.txt"), &PrepareOptions::default());
    case.reading.separator = Some("SYS".to_owned());
    let expected = case.single();
    for stage in case.plan(3).unwrap().stages() {
        run(&case, stage).unwrap();
    }
    assert!(files(&case.at("out")) == expected);
}

/// More shards than documents: some are empty.
#[test]
fn empty_shards_change_nothing() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("a.txt");
    std::fs::write(&data, "one\n\ntwo 415-555-0123\n\none\n").unwrap();
    same(&data, &PrepareOptions::default());
}

fn error(case: &Case, stage: ShardStage) -> String {
    run(case, stage).unwrap_err().to_string()
}

/// What stages leave is compared, not believed: of another plan, of another stage, damaged, cut short.
#[test]
fn what_is_not_just_what_a_stage_left_is_refused() {
    let (_place, data) = written();
    let options = full("3x4", [2, 4]);
    let (case, other) = (Case::new(&data, &options), Case::new(&data, &options));
    let (plan, foreign) = (case.plan(3).unwrap(), other.plan(3).unwrap());
    let all = |case: &Case, plan: &ShardPlan| {
        for stage in plan.stages().filter(|stage| *stage != ShardStage::Join) {
            again(case, plan, stage).unwrap();
        }
        files(plan.folder())
    };
    let left = all(&case, &plan);
    assert!(all(&case, &plan) == left, "the same bytes each time");
    assert_ne!(all(&other, &foreign), left);
    let at = |name: &str| plan.folder().join(name);
    let readers = [
        ("scan-1", ShardStage::Group(1)),
        ("scan-1", ShardStage::Write(1)),
        ("group-2", ShardStage::Write(1)),
        ("group-2", ShardStage::Join),
        ("write-0", ShardStage::Join),
        ("choices", ShardStage::Scan(0)),
        ("choices", ShardStage::Join),
    ];
    for (name, reader) in readers {
        let whole = std::fs::read(at(name)).unwrap();
        let neighbour = match name {
            "scan-1" => "scan-2",
            "group-2" => "group-1",
            "write-0" => "write-2",
            _ => "scan-1",
        };
        let mut changed = whole.clone();
        changed[0] ^= 1;
        // A stage whose own file is whole has nothing to read.
        let own = file_of(&plan, reader).map(|own| (std::fs::read(&own).unwrap(), own));
        if let Some((_, own)) = &own {
            std::fs::remove_file(own).unwrap();
        }
        // Sections that a stage does not read are not of its concern.
        let first_is_read = matches!(reader, ShardStage::Join | ShardStage::Scan(_));
        let wrong = [
            whole[..whole.len() - 1].to_vec(),
            std::fs::read(at(neighbour)).unwrap(),
            std::fs::read(foreign.folder().join(name)).unwrap(),
            changed,
        ];
        for (number, bytes) in wrong.iter().enumerate() {
            if number == 3 && !first_is_read {
                continue;
            }
            std::fs::write(at(name), bytes).unwrap();
            let said = error(&case, reader);
            let expected = format!("{name}: it is damaged, or of another plan or stage");
            assert!(said.contains(&expected), "{name}, {number}: {said}");
            assert!(!case.at("out").exists());
        }
        std::fs::remove_file(at(name)).unwrap();
        let said = error(&case, reader);
        assert!(
            said.contains(&format!("{name}: it is not there yet")),
            "{said}"
        );
        std::fs::write(at(name), &whole).unwrap();
        if let Some((bytes, own)) = own {
            std::fs::write(own, bytes).unwrap();
        }
    }
    run(&case, ShardStage::Join).unwrap();
    assert!(files(&case.at("out")) == Case::new(&data, &options).single());
}

/// What a scheduler runs again costs only what is missing or damaged.
#[test]
fn a_stage_whose_file_is_whole_is_not_run_again() {
    let (_place, data) = written();
    let case = Case::new(&data, &full("3x4", [2, 4]));
    let plan = case.plan(2).unwrap();
    let works = |stage| {
        let works = std::cell::Cell::new(false);
        let done = plan.run(stage, 1, &|_, _| {
            works.set(true);
            true
        });
        assert!(done.unwrap().is_some());
        works.get()
    };
    for stage in plan.stages().filter(|stage| *stage != ShardStage::Join) {
        assert!(works(stage), "{stage}");
        assert!(!works(stage), "{stage}");
        let file = file_of(&plan, stage).unwrap();
        let whole = std::fs::read(&file).unwrap();
        let mut changed = whole.clone();
        changed[0] ^= 1;
        std::fs::write(&file, changed).unwrap();
        assert!(plan.has(stage), "its size is that of the plan's: {stage}");
        assert!(works(stage), "{stage}");
        assert!(std::fs::read(&file).unwrap() == whole, "{stage}");
    }
}

/// A stage that another process overtakes, up to the end of the plan, is done.
#[test]
fn a_plan_may_be_finished_while_a_stage_runs() {
    let (_place, data) = written();
    for slow in [
        ShardStage::Scan(1),
        ShardStage::Group(1),
        ShardStage::Write(1),
    ] {
        let case = Case::new(&data, &full("3x4", [2, 4]));
        let plan = case.plan(2).unwrap();
        for stage in plan.stages().take_while(|stage| *stage != slow) {
            run(&case, stage).unwrap();
        }
        let finished = std::cell::Cell::new(false);
        let done = plan.run(slow, 1, &|_, _| {
            if !finished.replace(true) {
                plan.stages().for_each(|stage| run(&case, stage).unwrap());
            }
            true
        });
        assert!(done.unwrap().unwrap().is_none(), "{slow}");
        assert!(finished.get() && plan.is_finished().unwrap());
        assert!(!plan.folder().exists());
    }
}

/// A plan is its owner's and of this corpus, and a change of either is said.
#[test]
fn a_plan_is_of_one_owner_and_one_corpus() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let text = jsonl(&corpus(true));
    let half = text[..text.len() / 2].rfind('\n').unwrap() + 1;
    let (one, two) = (data.join("a.jsonl"), data.join("b.jsonl"));
    std::fs::write(&one, &text[..half]).unwrap();
    std::fs::write(&two, &text[half..]).unwrap();
    let case = Case::new(&data, &PrepareOptions::default());
    let plan = case.plan(2).unwrap();
    let again = case.plan(2).unwrap_err().to_string();
    assert!(
        again.ends_with("a file of that name exists; choose another"),
        "{again}"
    );
    let path = case.at("plan.json");
    let other = ShardPlan::load(&path, [8; 32]).unwrap_err().to_string();
    assert!(other.contains("under another owner's key"), "{other}");
    let planned = std::fs::read_to_string(&path).unwrap();
    assert!(planned.contains(reticent_corpus::CODE));
    for changed in [
        planned.replacen("\"held_out\": 0.0", "\"held_out\": 0.5", 1),
        planned.replacen("\"schema\"", " \"schema\"", 1),
    ] {
        assert_ne!(changed, planned);
        std::fs::write(&path, changed).unwrap();
        let said = error(&case, ShardStage::Scan(0));
        assert!(
            said.contains("it was changed after it was written"),
            "{said}"
        );
    }
    std::fs::write(&path, &planned).unwrap();
    // A letter of the second shard; the first does not read it.
    let mut changed = text[half..].to_owned();
    let last = changed.rfind("SYS: ").unwrap() + "SYS: ".len();
    changed.replace_range(last..=last, "?");
    std::fs::write(&two, &changed).unwrap();
    run(&case, ShardStage::Scan(0)).unwrap();
    let is_other = |said: String| {
        let expected = "it is not the corpus of the plan any more";
        assert!(said.contains(expected), "{said}");
    };
    is_other(error(&case, ShardStage::Scan(1)));
    assert!(!plan.folder().join("scan-1").exists());
    std::fs::write(&two, &text[half..]).unwrap();
    run(&case, ShardStage::Scan(1)).unwrap();
    run(&case, ShardStage::Group(0)).unwrap();
    run(&case, ShardStage::Group(1)).unwrap();
    std::fs::write(&two, &changed).unwrap();
    is_other(error(&case, ShardStage::Write(1)));
    assert!(!plan.folder().join("write-1").exists());
    // A file more, or one that is longer.
    std::fs::write(data.join("c.txt"), "more").unwrap();
    is_other(error(&case, ShardStage::Write(0)));
    std::fs::remove_file(data.join("c.txt")).unwrap();
    std::fs::write(&two, &text[half..]).unwrap();
    run(&case, ShardStage::Write(1)).unwrap();
}

/// Digests that travel otherwise than in files, in any order, make the same file of group; what is not just what the
/// scans left does not.
#[test]
fn digests_are_grouped_as_they_are_from_files() {
    let (_place, data) = written();
    let mut missing = full("3x4", [2, 4]);
    missing.policy.miss_rate = 0.3;
    for options in [PrepareOptions::default(), missing]
        .into_iter()
        .chain(of_each_kind())
    {
        let case = Case::new(&data, &options);
        let plan = case.plan(3).unwrap();
        let mut parts: BTreeMap<u64, Vec<UnitDigests>> = BTreeMap::new();
        for shard in (0..plan.shards()).rev() {
            let early = plan.scanned(shard, |_| true).unwrap_err().to_string();
            assert!(early.contains("it is not there yet"), "{early}");
            run(&case, ShardStage::Scan(shard)).unwrap();
            let scanned = plan.scanned(shard, |digests| {
                parts.entry(digests.part).or_default().push(digests);
                true
            });
            scanned.unwrap();
        }
        assert_eq!(parts.len() as u64, plan.parts());
        let file = |part: u64| plan.folder().join(format!("group-{part}"));
        let group = |part: u64, digests: &[UnitDigests]| {
            plan.group_digests(part, digests.to_vec(), 1, &|_, _| true)
        };
        for (part, digests) in &parts {
            run(&case, ShardStage::Group(*part)).unwrap();
            let expected = std::fs::read(file(*part)).unwrap();
            std::fs::remove_file(file(*part)).unwrap();
            let mut wrong = vec![
                digests[1..].to_vec(),
                [digests.clone(), digests[..1].to_vec()].concat(),
            ];
            let mut renamed = digests.clone();
            renamed.swap(0, 1);
            (renamed[0].shard, renamed[1].shard) = (renamed[1].shard, renamed[0].shard);
            wrong.push(renamed);
            let mut changed = digests.clone();
            changed[0].rows.push(0);
            wrong.push(changed);
            for digests in &wrong {
                let said = group(*part, digests).unwrap_err().to_string();
                assert!(said.contains("shards: digests of shard"), "{said}");
                assert!(!file(*part).exists());
            }
            assert!(group(*part, digests).unwrap());
            assert!(std::fs::read(file(*part)).unwrap() == expected);
        }
        let beyond = group(plan.parts(), &[]).unwrap_err().to_string();
        assert!(beyond.contains("the part must be from 0 to"), "{beyond}");
    }
}

/// Who comes second waits for nothing and takes nothing away; what a killed call left goes with the next one.
#[test]
fn one_process_at_a_time_writes_a_plan() {
    let (_place, data) = written();
    let case = Case::new(&data, &full("3x4", [2, 4]));
    let stages = case.at("plan.json.stages");
    std::fs::create_dir(&stages).unwrap();
    std::fs::write(stages.join("choices"), "text that was left").unwrap();
    let mark = case.at("plan.json.done");
    std::fs::write(&mark, "of a plan that was removed").unwrap();
    let (files, out, path) = (case.prepare(), case.at("out"), case.at("plan.json"));
    let refused = std::cell::Cell::new(0);
    let plan = ShardPlan::write(&files, &out, 2, &path, OWNER, &|_, _| {
        let second = case.plan(2).unwrap_err().to_string();
        assert!(second.contains("another process is at work"), "{second}");
        refused.set(refused.get() + 1);
        true
    });
    let plan = plan.unwrap().unwrap();
    assert!(refused.get() > 0 && !mark.exists());
    let left = self::files(&stages);
    assert_eq!(left.keys().collect::<Vec<_>>(), ["choices"]);
    assert!(case.plan(2).is_err());
    assert!(self::files(&stages) == left);
    for stage in plan.stages() {
        run(&case, stage).unwrap();
    }
    assert!(out.exists() && !stages.exists());
}

/// A last stage that was killed between naming the folder and removing what the others left.
#[test]
fn a_folder_that_is_there_already_is_compared() {
    let (_place, data) = written();
    let case = Case::new(&data, &full("3x4", [2, 4]));
    let plan = case.plan(2).unwrap();
    let (before, last) = (plan.stages().collect::<Vec<_>>(), ShardStage::Join);
    for stage in before.into_iter().filter(|stage| *stage != last) {
        run(&case, stage).unwrap();
    }
    let left = files(plan.folder());
    run(&case, last).unwrap();
    let made = files(&case.at("out"));
    let restore = || {
        std::fs::create_dir(plan.folder()).unwrap();
        for (name, bytes) in &left {
            std::fs::write(plan.folder().join(name), bytes).unwrap();
        }
    };
    restore();
    std::fs::remove_file(case.at("plan.json.done")).unwrap();
    // As if the folder had taken the place of an empty one.
    let replaced = case.at(".replaced-out");
    std::fs::create_dir(&replaced).unwrap();
    run(&case, last).unwrap();
    assert!(files(&case.at("out")) == made && !plan.folder().exists());
    assert!(!replaced.exists());
    restore();
    let other = case.at("out").join("train.jsonl");
    std::fs::write(&other, &made["train.jsonl"][1..]).unwrap();
    let said = error(&case, last);
    assert!(said.contains("exists and is not empty"), "{said}");
    assert!(
        files(plan.folder()) == left,
        "what can be joined elsewhere stays"
    );
}

/// A last stage that was killed while it removed what the others left; and whatever runs again after it.
#[test]
fn a_finished_plan_stays_finished() {
    let (_place, data) = written();
    let case = Case::new(&data, &full("3x4", [2, 4]));
    let plan = case.plan(2).unwrap();
    assert!(plan.finished().unwrap().is_none());
    let choices = std::fs::read(plan.folder().join("choices")).unwrap();
    for stage in plan.stages() {
        run(&case, stage).unwrap();
    }
    let out = case.at("out");
    let made = files(&out);
    let left = case.at("plan.json.stages.removed");
    for stage in plan.stages() {
        std::fs::create_dir(&left).unwrap();
        std::fs::write(left.join("choices"), &choices).unwrap();
        let again = plan.run(stage, 1, &|_, _| true).unwrap().unwrap();
        assert_eq!(again.is_some(), stage == ShardStage::Join, "{stage}");
        assert!(!left.exists() && !plan.folder().exists(), "{stage}");
        assert!(files(&out) == made, "{stage}");
    }
    let finished = plan.finished().unwrap().unwrap();
    assert_eq!(&finished.options, plan.options());
    let said = error(&case, ShardStage::Scan(2));
    assert!(
        said.contains("the shard must be from 0 to 1, got 2"),
        "{said}"
    );
    // A folder of another preparation, one that was edited, and none. That of another corpus may have all numbers of this one.
    let other = Case::new(
        &data,
        &PrepareOptions {
            max_tokens: Some(61),
            ..case.options.clone()
        },
    );
    other.single();
    let fewer = Case::new(&case.at("fewer.jsonl"), &case.options);
    std::fs::write(&fewer.data, jsonl(&corpus(true)[1..])).unwrap();
    fewer.single();
    let exchanged = Case::new(&case.at("exchanged.jsonl"), &case.options);
    let mut documents = corpus(true);
    documents.swap(0, 1);
    std::fs::write(&exchanged.data, jsonl(&documents)).unwrap();
    exchanged.single();
    std::fs::rename(&out, case.at("kept")).unwrap();
    std::fs::create_dir(&left).unwrap();
    let lost = |why: &str| {
        let said = error(&case, ShardStage::Join);
        assert!(
            said.contains("is not the folder of this plan") && said.contains(why),
            "{said}"
        );
        assert!(!plan.folder().exists() && left.exists());
    };
    lost("prepared.code is not there");
    for folder in [&other, &fewer, &exchanged].map(|case| case.at("single")) {
        std::fs::rename(&folder, &out).unwrap();
        lost("plan.json.done is of another one");
        std::fs::rename(&out, &folder).unwrap();
    }
    std::fs::rename(case.at("kept"), &out).unwrap();
    let mark = std::fs::read(case.at("plan.json.done")).unwrap();
    std::fs::remove_file(case.at("plan.json.done")).unwrap();
    lost("the last stage has not left");
    std::fs::write(case.at("plan.json.done"), mark).unwrap();
    std::fs::write(out.join("train.jsonl"), &made["train.jsonl"][1..]).unwrap();
    lost("edited after it was prepared");
}

/// A corpus without text to train on is refused before any stage runs.
#[test]
fn a_plan_has_something_to_train_on() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("a.txt");
    std::fs::write(&data, "one\n").unwrap();
    let options = PrepareOptions {
        held_out: 1.0,
        ..PrepareOptions::default()
    };
    let case = Case::new(&data, &options);
    let said = case.plan(2).unwrap_err().to_string();
    assert_eq!(
        said,
        case.prepare()
            .write(&case.at("single"), false, &|_, _| true)
            .unwrap_err()
            .to_string()
    );
    assert!(!case.at("plan.json").exists() && !case.at("plan.json.stages").exists());
}

/// What is stopped leaves nothing that counts, and no text under a name.
#[test]
fn a_stage_that_is_stopped_leaves_nothing() {
    let (_place, data) = written();
    let case = Case::new(&data, &full("3x4", [2, 4]));
    let (out, path) = (case.at("out"), case.at("plan.json"));
    let files = case.prepare();
    let stopped = ShardPlan::write(&files, &out, 2, &path, OWNER, &|_, _| false);
    assert!(stopped.unwrap().is_none());
    assert_eq!(std::fs::read_dir(case.place.path()).unwrap().count(), 0);
    let plan = case.plan(2).unwrap();
    let names = || std::fs::read_dir(plan.folder()).unwrap().count();
    let mut left = 1;
    assert_eq!(names(), left);
    for stage in plan.stages() {
        assert!(
            plan.run(stage, 1, &|_, _| false).unwrap().is_none(),
            "{stage}"
        );
        assert_eq!(names(), left, "{stage}");
        assert!(!out.exists());
        if stage != ShardStage::Join {
            assert!(!plan.has(stage));
            run(&case, stage).unwrap();
            assert!(plan.has(stage));
            left += 1;
        }
    }
}

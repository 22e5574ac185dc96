//! The cells of a grid and the stages that they share.

use super::file::{Arm, AsPolicy, Attacks, CanaryRecalls, Data, Flags, GridFile, merged, words};
use crate::account::args::Account;
use crate::audit::args::preparing::DEFAULT_UNIT;
use crate::audit::args::{Audit, Command, PolicyArg};
use anyhow::{Context, Result, ensure};
use clap::Parser;
use reticent_accounting::training::Recipe;
use reticent_backends::checkpoint::owner_folder;
use reticent_corpus::read::{Documents, ReadOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeSet, HashMap};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Where a cell stands in the grid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// The way of training.
    pub arm: String,
    /// Its recipe.
    pub recipe: Recipe,
    /// What is trained.
    pub model: String,
    /// The seed of what is held out, missed and planted.
    pub seed: u64,
    /// The share of secrets that the policy is made to miss.
    pub miss_rate: f64,
    /// The share of canaries that the policy catches.
    pub canary_recall: f64,
    /// Noise over clipping norm, if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sigma: Option<f64>,
    /// The ε to calibrate the noise to, if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epsilon: Option<f64>,
}

impl Place {
    /// Returns the name of the cell's document: `crt-0.1-0.9-sigma1.1-lstm-seed0`.
    #[must_use]
    pub fn name(&self) -> String {
        let noise = match (self.sigma, self.epsilon) {
            (Some(sigma), _) => format!("sigma{sigma}"),
            (None, Some(epsilon)) => format!("epsilon{epsilon}"),
            (None, None) => "plain".to_owned(),
        };
        format!(
            "{}-{}-{}-{noise}-{}-seed{}",
            self.arm,
            self.miss_rate,
            self.canary_recall,
            model_name(&self.model),
            self.seed
        )
    }
}

/// Returns the part of a cell's name that names its model: a folder's last part.
pub(super) fn model_name(model: &str) -> String {
    let last = Path::new(model).file_name();
    last.map_or_else(
        || "model".into(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// What a stage does.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// `audit simulate customers`.
    Simulate,
    /// `audit redact`.
    Redact,
    /// `audit plant`.
    Plant,
    /// `audit prepare`.
    Prepare,
    /// `audit incidence`.
    Incidence,
    /// `account protect`.
    Protect,
    /// `audit train`.
    Train,
    /// `audit perplexity`.
    Perplexity,
    /// `audit classify`.
    Classify,
    /// `audit exposure`.
    Exposure,
    /// `audit coins`.
    Coins,
    /// `audit membership`.
    Membership,
    /// `audit extract`.
    Extract,
    /// `audit policy`.
    Policy,
    /// A question to `account`.
    Account,
}

impl Work {
    /// Returns the words of the command, the name of its part of a cell's document, and the extension of the file that
    /// it writes besides its answer, if it writes one.
    const fn spelled(self) -> (&'static [&'static str], &'static str, Option<&'static str>) {
        match self {
            Self::Simulate => (&["simulate", "customers"], "simulation", Some(".jsonl")),
            Self::Redact => (&["redact"], "redaction", Some(".jsonl")),
            Self::Plant => (&["plant"], "planting", Some("")),
            Self::Prepare => (&["prepare"], "preparation", Some("")),
            Self::Incidence => (&["incidence"], "incidence", Some(".jsonl")),
            Self::Protect => (&["protect"], "protection", Some(".weights.json")),
            Self::Train => (&["train"], "training", Some("")),
            Self::Perplexity => (&["perplexity"], "perplexity", None),
            Self::Classify => (&["classify"], "classification", None),
            Self::Exposure => (&["exposure"], "exposure", None),
            Self::Coins => (&["coins"], "coins", None),
            Self::Membership => (&["membership"], "membership", None),
            Self::Extract => (&["extract"], "extraction", None),
            Self::Policy => (&["policy"], "policy", None),
            Self::Account => (&[], "answer", None),
        }
    }
    /// Returns the command.
    const fn command(self) -> &'static [&'static str] {
        self.spelled().0
    }
    /// Returns the program of the command.
    pub(super) const fn program(self) -> &'static str {
        match self {
            Self::Protect | Self::Account => "account",
            _ => "audit",
        }
    }
    /// Returns whether it belongs to no cell.
    pub(in crate::audit) const fn is_question(self) -> bool {
        matches!(self, Self::Account | Self::Policy)
    }
    /// Returns its name, and the part of a cell's document that holds its answer.
    pub(in crate::audit) const fn part(self) -> &'static str {
        self.spelled().1
    }
    /// Returns the extension of the file that it writes besides its answer; `None` if it writes none.
    const fn writes(self) -> Option<&'static str> {
        self.spelled().2
    }
}

/// A word of a stage's command line.
#[derive(Debug, Clone)]
enum Word {
    /// A word as it is.
    Plain(String),
    /// A flag with the output of another stage, or a file in it; without a flag, an argument of its own.
    Of(&'static str, usize, String),
    /// A flag with a path, identified by the digest of its contents.
    At(&'static str, PathBuf, String),
    /// The digest of content that is read but is not a word of the command line.
    Read(String),
}

/// A process of the grid.
#[derive(Debug, Clone)]
pub struct Stage {
    /// The kind of work.
    pub work: Work,
    /// The name, which contains the digest of everything that the stage depends on.
    pub name: String,
    /// The words of the command line after the program's name.
    pub words: Vec<String>,
    /// The output, which must not exist before.
    pub output: Option<PathBuf>,
    /// The stages that must be finished before.
    pub needs: Vec<usize>,
}

impl Stage {
    /// Returns the output, including the owner's folder of a checkpoint.
    pub(super) fn written(&self) -> impl Iterator<Item = PathBuf> {
        let output = self.output.iter();
        output.flat_map(|output| {
            let owner = owner_folder(output);
            [output.clone()]
                .into_iter()
                .chain(owner.exists().then_some(owner))
        })
    }
}

/// A cell: its place in the grid, and its stages in order.
#[derive(Debug, Clone)]
pub struct Cell {
    /// The place in the grid.
    pub place: Place,
    /// The indices in [`Plan::stages`], with dependencies first.
    pub stages: Vec<usize>,
}

/// All cells of a grid with the stages that they share.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Every stage once, after those that it needs.
    pub stages: Vec<Stage>,
    /// Every cell once.
    pub cells: Vec<Cell>,
    by_name: HashMap<String, usize>,
    /// The digests of what values of flags name, by flag and value.
    read: HashMap<(String, String), Vec<String>>,
    folder: PathBuf,
}

impl Plan {
    /// Returns the plan of a grid whose stages lie in a folder.
    ///
    /// # Errors
    /// Returns an error if a command refuses flags or data can't be read.
    pub fn of(file: &GridFile, folder: &Path) -> Result<Self> {
        let mut plan = Self::new(folder);
        plan.add(file)?;
        Ok(plan)
    }

    /// Creates a plan without cells.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_path_buf(),
            ..Self::default()
        }
    }

    /// Adds the cells of another grid; what both have in common is added once.
    ///
    /// # Errors
    /// Returns an error as [`Plan::of`] does.
    pub fn add(&mut self, file: &GridFile) -> Result<()> {
        let corpus = self.corpus(&file.data).context("data")?;
        let test = file.test.as_ref().map(|test| self.corpus(test));
        let test = test.transpose().context("test")?;
        if let Some(tested) = &file.test {
            apart(&file.data, tested).context("test")?;
        }
        let texts = Texts { corpus, test };
        for arm in &file.arms {
            let prepare = merged(&file.prepare, &arm.prepare);
            let train = merged(&file.train, &arm.train);
            for (place, axes) in places(file, arm.name(), arm.recipe, &prepare, &train) {
                let known = self.cells.iter().any(|cell| cell.place == place);
                if !known {
                    let stages = self
                        .cell(file, &texts, (&place, &axes), arm, (&prepare, &train))
                        .with_context(|| format!("the arm {}", arm.name()))?;
                    self.cells.push(Cell { place, stages });
                }
            }
        }
        Ok(())
    }

    /// Returns the source of a corpus: a stage that simulates it or takes a part of it, or a path with the digest of
    /// its contents.
    fn corpus(&mut self, data: &Data) -> Result<Word> {
        if let Some(dialogues) = data.dialogues {
            let mut words = vec![
                Word::Plain(format!("--dialogues={dialogues}")),
                Word::Plain(format!("--seed={}", data.seed)),
            ];
            words.extend(data.turns.then(|| Word::Plain("--turns".to_owned())));
            let made = self.stage(Work::Simulate, words)?;
            return Ok(whole("", made));
        }
        let path = data.path.clone().context("must hold a path")?;
        let path = match data.documents {
            None => path,
            Some(documents) => taken(&path, data, documents, &self.folder)?,
        };
        let digest = content(&path)?;
        Ok(Word::At("", path, digest))
    }

    fn cell(
        &mut self,
        file: &GridFile,
        texts: &Texts,
        (place, axes): (&Place, &Axes),
        arm: &Arm,
        (prepare, train): (&Flags, &Flags),
    ) -> Result<Vec<usize>> {
        let mut stages = Vec::new();
        let made = |word: &Word| match word {
            Word::Of(_, stage, _) => Some(*stage),
            _ => None,
        };
        let sources = texts.test.iter().chain([&texts.corpus]);
        stages.extend(sources.filter_map(made));
        let mut of_prepare = vec![texts.corpus.clone()];
        if !arm.redact.is_empty() {
            let given = merged(&of_unit("document"), &arm.redact);
            of_prepare.extend(self.flags(&given).context("redact")?);
            let redacted = self.stage(Work::Redact, of_prepare).context("redact")?;
            stages.push(redacted);
            of_prepare = vec![whole("", redacted)];
        }
        let unit = prepare.get("unit").and_then(Value::as_str);
        let unit = unit.unwrap_or(DEFAULT_UNIT);
        let mut planted = None;
        if !arm.plant.is_empty() {
            let name = self.file_name(&of_prepare[0])?;
            let given = merged(&of_unit(unit), &arm.plant);
            of_prepare.extend(self.flags(&given).context("plant")?);
            of_prepare.push(Word::Plain(format!("--seed={}", place.seed)));
            let folder = self.stage(Work::Plant, of_prepare).context("plant")?;
            stages.push(folder);
            of_prepare = vec![Word::Of("", folder, name)];
            planted = Some((folder, given.get("coins") == Some(&Value::Bool(true))));
        }
        of_prepare.extend(self.flags(prepare).context("prepare")?);
        of_prepare.extend(axes.prepare.iter().cloned().map(Word::Plain));
        let prepared = self.stage(Work::Prepare, of_prepare).context("prepare")?;
        stages.push(prepared);
        let mut of_train = vec![
            whole("", prepared),
            Word::Plain(format!("--recipe={}", place.recipe)),
        ];
        if place.recipe == Recipe::Protect {
            let given = merged(&arm.incidence, &Flags::new());
            let mut words = vec![whole("", prepared)];
            words.extend(self.flags(&given).context("incidence")?);
            let incidence = self.stage(Work::Incidence, words).context("incidence")?;
            let given = merged(&arm.protect, &Flags::new());
            let mut words = vec![whole("--incidence=", incidence)];
            words.extend(self.flags(&given).context("protect")?);
            let weights = self.stage(Work::Protect, words).context("protect")?;
            stages.extend([incidence, weights]);
            of_train.extend([
                whole("--incidence=", incidence),
                whole("--weights=", weights),
            ]);
        }
        of_train.extend(self.flags(train).context("train")?);
        of_train.extend(axes.train.iter().cloned().map(Word::Plain));
        if let Some(digest) = axes.model.as_deref().map(content).transpose()? {
            of_train.push(Word::Read(digest));
        }
        let trained = self.stage(Work::Train, of_train).context("train")?;
        stages.push(trained);
        let label = prepare.get("label").and_then(Value::as_str);
        let measurable = Measurable {
            canaries: planted.is_some() || prepare.contains_key("canaries"),
            coins: planted.is_some_and(|(_, coins)| coins),
            classes: label.is_some(),
        };
        if measurable.classes || masks_tokens(&place.model) {
            without_likelihoods(&file.attacks, measurable)?;
        }
        for (work, given) in attacks(&file.attacks, measurable) {
            let of_text = match work {
                Work::Perplexity | Work::Classify => texts.test.is_some(),
                Work::Membership => given.get("lookalikes") == Some(&Value::Bool(true)),
                _ => false,
            };
            let given_unit = given.get("unit");
            ensure!(
                of_text || given_unit.is_none_or(|given| given.as_str() == Some(unit)),
                "attacks.{}: unit: must be {unit}, as the records are prepared; leave it out",
                work.command().join(" ")
            );
            let mut of_attack = vec![whole("--model=", trained)];
            match work {
                // Of a prepared folder, records are read as they were trained on, each with its class.
                Work::Perplexity | Work::Classify => match &texts.test {
                    Some(test) => {
                        of_attack.push(as_flag("--data=", test));
                        of_attack.extend(label.map(|key| Word::Plain(format!("--label={key}"))));
                    }
                    None => of_attack.push(whole("--data=", prepared)),
                },
                Work::Membership if given.get("lookalikes") == Some(&Value::Bool(true)) => {
                    of_attack.push(as_flag("--members=", &texts.corpus));
                }
                Work::Membership => of_attack.extend([
                    whole("--members=", prepared),
                    whole("--non-members=", prepared),
                ]),
                Work::Extract => {
                    of_attack.push(whole("--data=", prepared));
                    // No file of a grid can name the folder, in which alone secrets are known to have been met.
                    let met = given.contains_key("secrets") && !given.contains_key("training");
                    of_attack.extend(met.then(|| whole("--training=", prepared)));
                }
                Work::Exposure => of_attack.extend(planted.map(|(folder, coins)| {
                    let plan = if coins { "coins.json" } else { "canaries.json" };
                    inside("--canary-file=", folder, plan)
                })),
                Work::Coins => {
                    let plan =
                        planted.map(|(folder, _)| inside("--coins-file=", folder, "coins.json"));
                    of_attack.extend(plan);
                    of_attack.push(whole("--training=", prepared));
                }
                _ => {}
            }
            let named = |error: anyhow::Error| error.context(format!("attacks.{}", work.part()));
            of_attack.extend(self.flags(&merged(given, &Flags::new())).map_err(named)?);
            stages.push(self.stage(work, of_attack).map_err(named)?);
        }
        Ok(stages)
    }

    /// Returns the number of texts on which perplexity or the accuracy of classifiers is measured.
    pub(super) fn test_texts(&self) -> usize {
        let measured = |stage: &&Stage| matches!(stage.work, Work::Perplexity | Work::Classify);
        let words = self.stages.iter().filter(measured).flat_map(|s| &s.words);
        let texts: BTreeSet<&String> = words.filter(|word| word.starts_with("--data=")).collect();
        texts.len()
    }

    /// Adds a question to `account`, optionally about the output of another stage, and returns its index among the
    /// stages.
    ///
    /// # Errors
    /// Returns an error if `account` refuses the words.
    pub fn ask(&mut self, line: &str, about: Option<(&'static str, usize)>) -> Result<usize> {
        let mut words = plain(line);
        words.extend(about.map(|(flag, stage)| whole(flag, stage)));
        self.stage(Work::Account, words)
    }

    /// Adds work on a corpus itself: a policy, or the incidence of secrets.
    ///
    /// # Errors
    /// Returns an error if `audit` refuses the words or data can't be read.
    pub fn on_corpus(&mut self, work: Work, data: &Data, line: &str) -> Result<usize> {
        let mut words = vec![self.corpus(data).context("data")?];
        words.extend(plain(line));
        self.stage(work, words)
    }

    /// Returns flags as words, with the digests of what they name.
    fn flags(&mut self, given: &Flags) -> Result<Vec<Word>> {
        let mut all: Vec<Word> = words(given)?.into_iter().map(Word::Plain).collect();
        for (key, value) in given {
            let one = std::slice::from_ref(value);
            let values = value.as_array().map_or(one, Vec::as_slice);
            for text in values.iter().filter_map(Value::as_str) {
                let place = (key.clone(), text.to_owned());
                let digests = match self.read.get(&place) {
                    Some(known) => known.clone(),
                    None => named(key, text, &self.folder).with_context(|| key.clone())?,
                };
                all.extend(digests.iter().cloned().map(Word::Read));
                self.read.insert(place, digests);
            }
        }
        Ok(all)
    }

    /// Returns the name of a corpus that is a file.
    fn file_name(&self, corpus: &Word) -> Result<String> {
        let path = match corpus {
            Word::Of(_, stage, _) => self.stages[*stage].output.as_deref(),
            Word::At(_, path, _) => Some(path.as_path()),
            _ => None,
        };
        let name = path
            .and_then(Path::file_name)
            .and_then(|name| name.to_str());
        Ok(name.context("plant: the corpus must be a file")?.to_owned())
    }

    /// Returns the stage with these words and its output, which is added only once.
    fn stage(&mut self, work: Work, words: Vec<Word>) -> Result<usize> {
        let mut digest = Sha256::new();
        let mut note = |text: &str| {
            digest.update((text.len() as u64).to_le_bytes());
            digest.update(text.as_bytes());
        };
        note(work.part());
        for word in &words {
            match word {
                Word::Plain(text) | Word::Read(text) => note(text),
                Word::At(flag, _, digest) => {
                    note(flag);
                    note(digest);
                }
                Word::Of(flag, stage, inside) => {
                    note(flag);
                    note(&self.stages[*stage].name);
                    note(inside);
                }
            }
        }
        let flag = match work {
            Work::Protect => "--weights=",
            _ => "--out=",
        };
        if work.writes().is_some() {
            note(flag);
        }
        let short = reticent_disk::hexadecimal(&digest.finalize()[..8]);
        let name = format!("{}-{short}", work.part());
        if let Some(known) = self.by_name.get(&name) {
            return Ok(*known);
        }
        let output = work
            .writes()
            .map(|ending| self.folder.join(format!("{name}{ending}")));
        let mut needs = Vec::new();
        let mut line: Vec<String> = work.command().iter().map(|w| (*w).to_owned()).collect();
        for word in words {
            line.push(match word {
                Word::Plain(text) => text,
                Word::Read(_) => continue,
                Word::At(flag, path, _) => format!("{flag}{}", path.display()),
                Word::Of(flag, stage, inside) => {
                    needs.push(stage);
                    let written = self.stages[stage].output.clone().unwrap_or_default();
                    let place = match &*inside {
                        "" => written,
                        inside => written.join(inside),
                    };
                    format!("{flag}{}", place.display())
                }
            });
        }
        let out = output.as_ref();
        line.extend(out.map(|out| format!("{flag}{}", out.display())));
        line.extend(["--format=json", "--config=none"].map(str::to_owned));
        parses(work, &line)?;
        needs.sort_unstable();
        needs.dedup();
        let place = self.stages.len();
        self.by_name.insert(name.clone(), place);
        self.stages.push(Stage {
            work,
            name,
            words: line,
            output,
            needs,
        });
        Ok(place)
    }
}

/// Returns a flag with the whole output of another stage.
const fn whole(flag: &'static str, stage: usize) -> Word {
    Word::Of(flag, stage, String::new())
}

/// Returns a flag with a file in the folder that another stage wrote.
fn inside(flag: &'static str, stage: usize, file: &str) -> Word {
    Word::Of(flag, stage, file.to_owned())
}

/// The corpus, and the text on which perplexity is measured, if it is not part of the corpus.
struct Texts {
    corpus: Word,
    test: Option<Word>,
}

/// Returns a corpus as the value of a flag.
fn as_flag(flag: &'static str, corpus: &Word) -> Word {
    match corpus {
        Word::At(_, path, digest) => Word::At(flag, path.clone(), digest.clone()),
        Word::Of(_, stage, inside) => Word::Of(flag, *stage, inside.clone()),
        other => other.clone(),
    }
}

/// Refuses a test text that is the corpus, a part of it by path or number, or of its seed. Documents that two files with
/// other contents share are not looked for.
fn apart(data: &Data, test: &Data) -> Result<()> {
    if data.dialogues.is_some() && test.dialogues.is_some() {
        ensure!(
            data.seed != test.seed,
            "seed: must differ from that of data, got {}: dialogues of one seed begin alike",
            test.seed
        );
    }
    let (Some(corpus), Some(tested)) = (&data.path, &test.path) else {
        return Ok(());
    };
    let taken = |data: &Data| match data.documents {
        Some(documents) => data.skip..data.skip.saturating_add(documents),
        None => 0..u64::MAX,
    };
    let (of_data, of_test) = (taken(data), taken(test));
    if content(corpus)? == content(tested)? {
        ensure!(
            of_data.end <= of_test.start || of_test.end <= of_data.start,
            "skip: {} has the text of data; give both documents, and one of them a skip of at least the other's",
            tested.display()
        );
        return Ok(());
    }
    let (corpus, whole) = (corpus.canonicalize()?, tested.canonicalize()?);
    ensure!(
        !corpus.starts_with(&whole) && !whole.starts_with(&corpus),
        "path: {} lies in the folder of data, or holds it; give text that is not trained on",
        tested.display()
    );
    Ok(())
}

/// Writes some documents of a corpus to a file of their own in the folder of the stages.
fn taken(path: &Path, data: &Data, documents: u64, folder: &Path) -> Result<PathBuf> {
    let field = data.text_field.as_deref().unwrap_or_default();
    let whole = format!("{} {documents} {} {field}", content(path)?, data.skip);
    let short = &reticent_disk::hexadecimal(&Sha256::digest(whole)[..8]);
    let place = folder.join(format!("documents-{short}.jsonl"));
    if !place.exists() {
        let options = ReadOptions {
            text: data.text_field.clone(),
            ..ReadOptions::default()
        };
        let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let mut text = String::new();
        let all = Documents::with(path, &options)?;
        for document in all.skip(count(data.skip)).take(count(documents)) {
            text.push_str(&crate::contract::to_json(&document?)?.to_string());
            text.push('\n');
        }
        ensure!(
            !text.is_empty(),
            "{}: it has no document after the first {}",
            path.display(),
            data.skip
        );
        crate::contract::write_file(&place, text.as_bytes())?;
    }
    Ok(place)
}

/// The flags that the axes of a cell add to the command lines.
struct Axes {
    prepare: Vec<String>,
    train: Vec<String>,
    /// The model, if it is a folder.
    model: Option<PathBuf>,
}

/// Returns every place of an arm. A flag that the arm sets itself is not an axis.
fn places(
    file: &GridFile,
    arm: &str,
    recipe: Recipe,
    prepare: &Flags,
    train: &Flags,
) -> Vec<(Place, Axes)> {
    let own = |flags: &Flags, key: &str| flags.get(key).and_then(Value::as_f64);
    let one = |flags: &Flags, key: &str| own(flags, key).map(|value| vec![(value, false)]);
    let axis = |values: Vec<f64>| values.into_iter().map(|value| (value, true)).collect();
    let or_none = |list: Vec<(f64, bool)>| match list.is_empty() {
        true => vec![(0.0, false)],
        false => list,
    };
    let misses = one(prepare, "miss-rate")
        .unwrap_or_else(|| axis(file.miss_rates.iter().map(|m| m.get()).collect()));
    let planted = prepare.contains_key("canaries");
    let noises: Vec<Option<(&str, f64)>> = match recipe.is_private() {
        _ if train.contains_key("sigma") || train.contains_key("epsilon") => {
            let given = |key| own(train, key);
            vec![
                given("sigma")
                    .map(|sigma| ("own-sigma", sigma))
                    .or_else(|| given("epsilon").map(|epsilon| ("own-epsilon", epsilon))),
            ]
        }
        false => vec![None],
        true => {
            let sigmas = file.sigmas.iter().map(|s| Some(("sigma", s.get())));
            let epsilons = file.epsilons.iter().map(|e| Some(("epsilon", e.get())));
            let both: Vec<_> = sigmas.chain(epsilons).collect();
            if both.is_empty() { vec![None] } else { both }
        }
    };
    let mut found = Vec::new();
    for seed in 0..file.seeds {
        for (miss, given_miss) in or_none(misses.clone()) {
            let recalls = match &file.canary_recalls {
                _ if !planted => Vec::new(),
                _ if prepare.contains_key("canary-recall") => {
                    one(prepare, "canary-recall").unwrap_or_default()
                }
                CanaryRecalls::Listed(list) => axis(list.iter().map(|r| r.get()).collect()),
                CanaryRecalls::Named(AsPolicy::AsPolicy) => {
                    // Rounded to a millionth, since a number of canaries is computed from it.
                    vec![(((1.0 - miss) * 1e6).round() / 1e6, true)]
                }
            };
            for (recall, given_recall) in or_none(recalls) {
                for model in &file.models {
                    for noise in &noises {
                        let named = |name: &str| {
                            noise.and_then(|(key, value)| key.ends_with(name).then_some(value))
                        };
                        let place = Place {
                            arm: arm.to_owned(),
                            recipe,
                            model: model.clone(),
                            seed,
                            miss_rate: miss,
                            canary_recall: recall,
                            sigma: named("sigma"),
                            epsilon: named("epsilon"),
                        };
                        let mut of_prepare = vec![format!("--seed={seed}")];
                        if given_miss {
                            of_prepare.push(format!("--miss-rate={miss}"));
                        }
                        if given_recall {
                            of_prepare.push(format!("--canary-recall={recall}"));
                        }
                        let mut of_train = vec![format!("--model={model}")];
                        if let Some((key @ ("sigma" | "epsilon"), value)) = noise {
                            of_train.push(format!("--{key}={value}"));
                        }
                        let folder = Path::new(model);
                        found.push((
                            place,
                            Axes {
                                prepare: of_prepare,
                                train: of_train,
                                model: folder.is_dir().then(|| folder.to_path_buf()),
                            },
                        ));
                    }
                }
            }
        }
    }
    found
}

/// What can be measured on a model.
#[derive(Clone, Copy)]
struct Measurable {
    canaries: bool,
    coins: bool,
    classes: bool,
}

/// Returns whether a model predicts masked tokens, as far as its name or its folder tells.
fn masks_tokens(model: &str) -> bool {
    let config = std::fs::read_to_string(Path::new(model).join("config.json"));
    let config: Option<Value> = config
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok());
    let named = config.and_then(|config| Some(config["architectures"][0].as_str()?.to_owned()));
    let masks = |name: String| name.ends_with("ForMaskedLM") || name == "BertForPreTraining";
    model == "bert" || named.is_some_and(masks)
}

/// Refuses what can't be measured on a classifier or an encoder.
fn without_likelihoods(given: &Attacks, measurable: Measurable) -> Result<()> {
    for (what, is_given) in [
        ("canaries", measurable.canaries),
        ("attacks.membership", given.membership.is_some()),
        ("attacks.extract", given.extract.is_some()),
    ] {
        ensure!(
            !is_given,
            "{what}: classifiers and encoders have no likelihood of a text, so it can't be measured on them; leave it out, \
             or give them a grid of their own"
        );
    }
    Ok(())
}

/// Returns what is measured, in order; for a classifier only its classes, since it has no likelihood of a text.
fn attacks(given: &Attacks, measurable: Measurable) -> Vec<(Work, &Flags)> {
    if measurable.classes {
        return vec![(Work::Classify, &given.classify)];
    }
    let mut all = vec![(Work::Perplexity, &given.perplexity)];
    if measurable.canaries {
        all.push((Work::Exposure, &given.exposure));
    }
    if measurable.coins {
        all.push((Work::Coins, &given.coins));
    }
    all.extend(given.membership.as_ref().map(|f| (Work::Membership, f)));
    all.extend(given.extract.as_ref().map(|f| (Work::Extract, f)));
    all
}

/// Returns the words of a line.
fn plain(line: &str) -> Vec<Word> {
    let words = line.split_whitespace();
    words.map(|word| Word::Plain(word.to_owned())).collect()
}

/// Returns the digests of what the value of a flag names: files and folders, alone, between commas or in a command line,
/// and policies with the token classifiers in them. What holds the folder of the stages changes while a grid runs, and
/// is taken for a name.
fn named(key: &str, text: &str, stages: &Path) -> Result<Vec<String>> {
    let parts: Vec<&str> = match text.strip_prefix("command:") {
        Some(line) => line.split_whitespace().map(in_line).collect(),
        None if Path::new(text).exists() => vec![text],
        None => text.split(',').collect(),
    };
    let stages = stages.canonicalize().ok();
    let mut digests = Vec::new();
    for part in parts {
        let path = match part.parse::<PolicyArg>() {
            Ok(PolicyArg::Onnx(onnx)) => onnx.folder,
            Ok(policy) if key == "policy" => {
                digests.push(policy.choice()?.sha256());
                continue;
            }
            _ => PathBuf::from(part),
        };
        let Ok(place) = path.canonicalize() else {
            continue;
        };
        let holds_stages = stages.as_ref().is_some_and(|s| s.starts_with(&place));
        if has_content(&path) && !holds_stages {
            digests.push(content(&path)?);
        }
    }
    Ok(digests)
}

/// Returns a word of a command line without quotes, and of a flag its value.
fn in_line(word: &str) -> &str {
    let value = match word.split_once('=') {
        Some((flag, value)) if flag.starts_with('-') => value,
        _ => word,
    };
    value.trim_matches(['"', '\''])
}

/// Checks that the command accepts these words, and `audit train` its options together, without running it.
fn parses(work: Work, line: &[String]) -> Result<()> {
    let line = || std::iter::once(work.program().to_owned()).chain(line.iter().cloned());
    let parsed = match work.program() {
        "account" => Account::try_parse_from(line()).map(|_| None),
        _ => Audit::try_parse_from(line()).map(|audit| Some(audit.command)),
    };
    match parsed {
        Ok(Some(Command::Train(train))) => train.within_limits(&train.request()?),
        Ok(_) => Ok(()),
        Err(error) => anyhow::bail!("{}", crate::contract::usage_error(&error)),
    }
}

/// Returns the SHA-256 of a file, or of the names and contents of a folder.
pub(super) fn content(path: &Path) -> Result<String> {
    let mut digest = Sha256::new();
    add(path, &mut digest).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(reticent_disk::hexadecimal(&digest.finalize()))
}

/// Returns whether a path is a file or a folder: a device, a pipe and a link to nothing hold no content.
fn has_content(path: &Path) -> bool {
    path.is_file() || path.is_dir()
}

fn add(path: &Path, digest: &mut Sha256) -> Result<()> {
    let about = path.metadata()?;
    if about.is_dir() {
        let entries: std::io::Result<Vec<_>> = path.read_dir()?.collect();
        let mut names: Vec<_> = entries?
            .into_iter()
            .map(|entry| entry.file_name())
            .collect();
        names.sort();
        for name in names {
            // Python writes there what it compiled from the files beside it, as a scorer runs.
            if name == "__pycache__" || !has_content(&path.join(&name)) {
                continue;
            }
            let text = name.to_string_lossy();
            digest.update((text.len() as u64).to_le_bytes());
            digest.update(text.as_bytes());
            add(&path.join(&name), digest)?;
        }
        return Ok(());
    }
    ensure!(about.is_file(), "must be a file or a folder");
    digest.update(about.len().to_le_bytes());
    let mut file = std::fs::File::open(path)?;
    let mut buffer = [0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            read => digest.update(&buffer[..read]),
        }
    }
}

/// Returns the unit for changes to text before it is prepared: redaction keeps whole documents, which a split divides,
/// and canaries use the unit of a record.
fn of_unit(unit: &str) -> Flags {
    Flags::from([("unit".to_owned(), Value::String(unit.to_owned()))])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Result<Plan> {
        Plan::of(&GridFile::parse(text, "g.toml")?, Path::new("out/stages"))
    }

    const GRID: &str = "
schema = 1
seeds = 2
miss_rates = [0, 0.1]
canary_recalls = \"as-policy\"
sigmas = [1, 2]
data = { dialogues = 5 }
prepare = { policy = \"customers\", canaries = \"10x2\" }
train = { epochs = 1 }
[[arms]]
recipe = \"sgd\"
[[arms]]
recipe = \"dpsgd\"
[[arms]]
name = \"dpsgd-3\"
recipe = \"dpsgd\"
train = { sigma = 3 }
";

    #[test]
    fn cells_share_what_they_have_in_common() {
        let plan = plan(GRID).unwrap();
        let of = |work| plan.stages.iter().filter(|s| s.work == work).count();
        assert_eq!(of(Work::Simulate), 1);
        assert_eq!(of(Work::Prepare), 4);
        // One of sgd, two of dpsgd, one of the arm with its own noise.
        assert_eq!((of(Work::Train), plan.cells.len()), (16, 16));
        assert_eq!(of(Work::Exposure), 16);
        // Held-out text is that of its preparation, with that policy's masks; a test is one text.
        assert_eq!(plan.test_texts(), 4);
        let tested = format!("test = {{ dialogues = 3, seed = 9 }}\n{GRID}");
        assert_eq!(self::plan(&tested).unwrap().test_texts(), 1);
        for (at, stage) in plan.stages.iter().enumerate() {
            assert!(stage.needs.iter().all(|need| *need < at));
        }
        let name = plan.cells[0].place.name();
        assert_eq!(name, "sgd-0-1-plain-lstm-seed0");
        let last = plan.cells.last().unwrap().place.name();
        assert_eq!(last, "dpsgd-3-0.1-0.9-sigma3-lstm-seed1");
    }

    #[test]
    fn names_change_with_what_a_stage_depends_on() {
        let names = |text: &str| -> Vec<String> {
            let stages = plan(text).unwrap().stages;
            stages.into_iter().map(|stage| stage.name).collect()
        };
        assert_eq!(names(GRID), names(GRID));
        let corpus = names(&GRID.replace("dialogues = 5", "dialogues = 6"));
        let shared = |other: &[String]| names(GRID).iter().filter(|n| other.contains(n)).count();
        assert_eq!(shared(&corpus), 0);
        // The corpora are the same, and nothing that is trained on them.
        assert_eq!(shared(&names(&GRID.replace("epochs = 1", "epochs = 2"))), 5);
    }

    #[test]
    fn flags_that_a_command_refuses_are_reported_before_anything_runs() {
        for (from, to, says) in [
            ("epochs = 1", "epochs = 0", "train: --epochs"),
            ("epochs = 1", "epoch_s = 1", "train: "),
            (
                "epochs = 1",
                "epochs = 1, sigma = 1",
                "train: --sigma: the recipe sgd adds no noise",
            ),
            (
                "epochs = 1",
                "epochs = 1, sampler = \"shuffled\"",
                "train: --sampler: applies only to",
            ),
            ("\"10x2\"", "\"ten\"", "prepare: --canaries"),
        ] {
            let error = format!("{:#}", plan(&GRID.replace(from, to)).unwrap_err());
            assert!(
                error.contains(says) && error.contains("the arm sgd"),
                "{error}"
            );
        }
    }

    /// The example held out fewer documents than a group has, which its cells said after their training.
    #[test]
    fn the_example_of_the_help_is_a_grid_that_runs() {
        use crate::audit::grid::args::Grid;
        let command = <Grid as clap::Args>::augment_args(clap::Command::new("grid"));
        let help = command.get_after_help().unwrap().to_string();
        let from = help.find("  schema = 1").unwrap();
        let until = help.find("\nExamples:").unwrap();
        let text = &help[from..until];
        assert!(plan(text).is_ok());
        let file = GridFile::parse(text, "g.toml").unwrap();
        let held_out = file.prepare["held_out"].as_f64().unwrap();
        let held_out = held_out * file.data.dialogues.unwrap() as f64;
        let size = file.attacks.membership.unwrap()["group_size"].as_f64();
        // Groups are drawn from ten independent records a side at least, here documents.
        assert!(held_out >= 10.0 && size.unwrap() <= held_out);
    }

    #[test]
    fn classifiers_are_asked_for_classes_alone() {
        let labelled = GRID.replace(
            "canaries = \"10x2\"",
            "label = \"mood\", classes = [\"good\", \"bad\"]",
        );
        let all = plan(&labelled).unwrap();
        let attacks: Vec<&Stage> = all
            .stages
            .iter()
            .filter(|s| !matches!(s.work, Work::Simulate | Work::Prepare | Work::Train))
            .collect();
        assert_eq!(attacks.len(), 16);
        for stage in attacks {
            assert_eq!(stage.work, Work::Classify);
            // The folder, whose classes are its own.
            let data = stage.words.iter().find(|word| word.starts_with("--data="));
            assert!(!data.unwrap().ends_with(".jsonl"), "{data:?}");
            assert!(!stage.words.iter().any(|word| word.starts_with("--label")));
        }
        let tested = format!("test = {{ dialogues = 3, seed = 9 }}\n{labelled}");
        let stages = plan(&tested).unwrap().stages;
        let stage = stages.iter().find(|s| s.work == Work::Classify).unwrap();
        assert!(stage.words.contains(&"--label=mood".to_owned()));
    }

    /// What needs the likelihood of a text is refused for models that have none, before anything is trained.
    #[test]
    fn likelihoods_are_asked_of_no_classifier_and_no_encoder() {
        let said = |text: &str| format!("{:#}", plan(text).unwrap_err());
        let bert = format!("models = [\"bert\"]\n{GRID}");
        let labelled = GRID.replace(
            "canaries = \"10x2\"",
            "label = \"mood\", classes = [\"good\", \"bad\"]",
        );
        let with = |attack: &str| labelled.replace("[[arms]]\nrecipe = \"sgd\"", attack);
        let membership = "attacks = { membership = {} }\n[[arms]]\nrecipe = \"sgd\"";
        for (text, what) in [
            (bert, "canaries: "),
            (
                labelled.replace("label", "canaries = \"10x2\", label"),
                "canaries: ",
            ),
            (with(membership), "attacks.membership: "),
            (
                with(&membership.replace("membership", "extract")),
                "attacks.extract: ",
            ),
        ] {
            let error = said(&text);
            assert!(
                error.contains(what) && error.contains("no likelihood"),
                "{error}"
            );
        }
        assert!(plan(&labelled).is_ok());
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("base");
        std::fs::create_dir(&folder).unwrap();
        let of = |architecture: &str| {
            let config = format!("{{\"architectures\": [\"{architecture}\"]}}");
            std::fs::write(folder.join("config.json"), config).unwrap();
            plan(&format!("models = [{folder:?}]\n{GRID}")).map_err(|e| format!("{e:#}"))
        };
        for encoder in [
            "BertForMaskedLM",
            "RobertaForMaskedLM",
            "BertForPreTraining",
        ] {
            let error = of(encoder).unwrap_err();
            assert!(error.contains("no likelihood"), "{encoder}: {error}");
        }
        assert!(of("GPT2LMHeadModel").is_ok());
    }

    #[test]
    fn text_is_changed_before_it_is_prepared() {
        let arms = "
[[arms]]
name = \"as-text\"
recipe = \"sgd\"
redact = { policy = \"names\" }
[[arms]]
name = \"coins\"
recipe = \"sgd\"
plant = { canaries = \"20x2\", coins = true }
";
        let head = "schema = 1\ndata = { dialogues = 5 }\ntrain = { epochs = 1 }";
        let plan = plan(&format!("{head}{arms}")).unwrap();
        let works = |at: usize| -> Vec<Work> {
            let cell = &plan.cells[at];
            cell.stages.iter().map(|s| plan.stages[*s].work).collect()
        };
        use Work::{Coins, Exposure, Perplexity, Plant, Prepare, Redact, Simulate, Train};
        assert_eq!(works(0), [Simulate, Redact, Prepare, Train, Perplexity]);
        let coins = [Simulate, Plant, Prepare, Train, Perplexity, Exposure, Coins];
        assert_eq!(works(1), coins);
        let of = |work| plan.stages.iter().filter(move |s| s.work == work);
        for (work, unit) in [(Redact, "--unit=document"), (Plant, "--unit=turn")] {
            assert!(of(work).next().unwrap().words.contains(&unit.to_owned()));
        }
        let simulated = of(Simulate).next().unwrap().output.clone().unwrap();
        let planted = of(Plant).next().unwrap().output.clone().unwrap();
        let text = planted.join(simulated.file_name().unwrap());
        let read = of(Prepare).next_back().unwrap().words[1].clone();
        assert_eq!(read, text.display().to_string());
        let plan_of = |flag: &str| format!("{flag}{}", planted.join("coins.json").display());
        for (work, flag) in [(Exposure, "--canary-file="), (Coins, "--coins-file=")] {
            let words = &of(work).next().unwrap().words;
            assert!(words.contains(&plan_of(flag)), "{words:?}");
        }
        // The folder, which the owner's key of the checkpoint knows: its train.jsonl alone leaves every promise standing.
        let prepared = of(Prepare).next_back().unwrap().output.clone().unwrap();
        let words = &of(Coins).next().unwrap().words;
        let training = format!("--training={}", prepared.display());
        assert!(words.contains(&training), "{words:?}");
    }

    /// Records are those of the preparation. Another unit failed after training.
    #[test]
    fn attacks_have_the_unit_of_the_preparation() {
        let with = |attack: &str, unit: &str, more: &str| {
            let attacks = format!("attacks = {{ {attack} = {{ unit = \"{unit}\"{more} }} }}");
            plan(&format!("{attacks}\n{GRID}"))
        };
        for attack in ["perplexity", "membership", "extract"] {
            let error = format!("{:#}", with(attack, "document", "").unwrap_err());
            let says = format!("attacks.{attack}: unit: must be turn");
            assert!(error.contains(&says), "{error}");
            assert!(with(attack, "turn", "").is_ok(), "{attack}");
        }
        assert!(with("membership", "document", ", lookalikes = true").is_ok());
        let tested = format!("test = {{ dialogues = 3, seed = 9 }}\n{GRID}");
        let other = format!("attacks = {{ perplexity = {{ unit = \"document\" }} }}\n{tested}");
        assert!(plan(&other).is_ok());
    }

    /// Without it no promise of a secret could stand: every cell said that it was not checked that training met them.
    #[test]
    fn secrets_are_looked_for_in_what_was_trained_on() {
        let with = |flags: &str| {
            let attacks = format!("attacks = {{ extract = {{ {flags} }} }}");
            let stages = plan(&format!("{attacks}\n{GRID}")).unwrap().stages;
            let extract = stages.iter().find(|s| s.work == Work::Extract).unwrap();
            let given = |flag: &str| -> Vec<String> {
                let words = extract.words.iter();
                words
                    .filter_map(|word| Some(word.strip_prefix(flag)?.to_owned()))
                    .collect()
            };
            (given("--data="), given("--training="))
        };
        let (data, training) = with("secrets = \"s.jsonl\"");
        assert_eq!((data.len(), &training), (1, &data));
        let (_, training) = with("secrets = \"s.jsonl\", training = \"own.jsonl\"");
        assert_eq!(training, ["own.jsonl"]);
        assert!(with("suffix = 10").1.is_empty());
    }

    #[test]
    fn documents_are_taken_behind_those_that_are_passed_over() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("data.jsonl");
        let lines: String = (0..9)
            .map(|i| format!("{{\"title\": \"t\", \"abstract\": \"text {i}\"}}\n"))
            .collect();
        std::fs::write(&file, lines).unwrap();
        let data = |skip| Data {
            skip,
            text_field: Some("abstract".to_owned()),
            ..Data::default()
        };
        let text = |skip| {
            taken(&file, &data(skip), 2, home.path()).map(|path| {
                let text = std::fs::read_to_string(path).unwrap();
                text.matches("text ").count()
            })
        };
        assert_eq!((text(0).unwrap(), text(8).unwrap()), (2, 1));
        let said = text(9).unwrap_err().to_string();
        assert!(said.contains("no document after the first 9"), "{said}");
    }

    /// Another base model, classifier or script under the same name is another stage.
    #[test]
    fn whatever_a_flag_names_is_known_by_its_content() {
        let home = tempfile::tempdir().unwrap();
        let stages = home.path().join("runs/stages");
        let (base, runs) = (home.path().join("base"), home.path().join("runs"));
        for folder in [&stages, &base] {
            std::fs::create_dir_all(folder).unwrap();
        }
        let file = |name: &str, text: &str| {
            let path = home.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let [base, runs] = [base, runs].map(|path| path.display().to_string());
        let script = file("score.sh", "one");
        let policy = file("own.toml", "type = \"names\"\nleast = 0.5\n");
        let read = |key: &str, value: Value| -> Vec<String> {
            let given = Flags::from([(key.to_owned(), value)]);
            let words = Plan::new(&stages).flags(&given).unwrap().into_iter();
            let read = words.filter_map(|word| match word {
                Word::Read(digest) => Some(digest),
                _ => None,
            });
            read.collect()
        };
        let flags: [(&str, Value, usize); 10] = [
            // A name without a separator: this crate's own folder.
            ("reference", Value::from("src"), 1),
            (
                "reference",
                format!("command:sh '{script}' --model={base}").into(),
                2,
            ),
            (
                "conservative",
                vec!["digits".to_owned(), format!("onnx:{base}@0.2")].into(),
                1,
            ),
            ("conservative", format!("digits,onnx:{base}").into(), 1),
            ("earlier", vec![script.clone(), policy.clone()].into(), 2),
            ("policy", policy.clone().into(), 1),
            ("reference", base.clone().into(), 1),
            // What the grid itself writes, and what is no path.
            ("reference", runs.clone().into(), 0),
            ("canary-format", "My ID is: {digits:6}".into(), 0),
            ("epochs", 2.into(), 0),
        ];
        let all = || -> Vec<Vec<String>> {
            let each = flags.iter().map(|(key, value, _)| read(key, value.clone()));
            each.collect()
        };
        let before = all();
        for ((key, value, count), digests) in flags.iter().zip(&before) {
            assert_eq!(digests.len(), *count, "{key} = {value}");
        }
        // What a run leaves there, and what holds nothing.
        std::fs::create_dir_all(home.path().join("base/__pycache__")).unwrap();
        file("base/__pycache__/score.pyc", "compiled");
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("nothing", home.path().join("base/lock")).unwrap();
            let line = format!("command:sh '{script}' --out=/dev/null");
            assert_eq!(read("reference", line.into()).len(), 1);
        }
        assert_eq!(all(), before);
        file("base/weights", "two");
        file("score.sh", "two");
        file("own.toml", "type = \"names\"\nleast = 0.6\n");
        for (at, (before, after)) in before.iter().zip(&all()).enumerate() {
            let changes = (1..7).contains(&at);
            assert_eq!(before != after, changes, "{}", flags[at].1);
        }
    }

    /// The first dialogues of a seed are the same however many follow, and a file is the same under another name.
    #[test]
    fn what_is_trained_on_is_no_test() {
        let home = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = home.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            path
        };
        let dialogues = |seed, turns| Data {
            dialogues: Some(5),
            seed,
            turns,
            ..Data::default()
        };
        let whole = |path: &Path| Data {
            path: Some(path.to_path_buf()),
            ..Data::default()
        };
        let part = |path: &Path, documents, skip| Data {
            documents: Some(documents),
            skip,
            ..whole(path)
        };
        let (file, copy) = (write("all/a.jsonl", "{}\n"), write("copy.jsonl", "{}\n"));
        let (other, folder) = (write("b.jsonl", "{ }\n"), home.path().join("all"));
        for (data, test, says) in [
            (dialogues(0, false), dialogues(0, true), "seed: must differ"),
            (whole(&file), whole(&copy), "skip: "),
            (whole(&file), part(&file, 5, 100), "skip: "),
            (part(&file, 10, 0), part(&copy, 5, 9), "skip: "),
            (part(&file, 10, 4), part(&file, 5, 0), "skip: "),
            (whole(&folder), part(&file, 5, 0), "path: "),
            (whole(&file), whole(&folder), "path: "),
        ] {
            let error = apart(&data, &test).unwrap_err().to_string();
            assert!(error.starts_with(says), "{data:?} {test:?}: {error}");
        }
        for (data, test) in [
            (dialogues(0, false), dialogues(1, false)),
            (dialogues(0, false), whole(&file)),
            (whole(&file), whole(&other)),
            (whole(&folder), whole(&other)),
            (part(&file, 10, 0), part(&copy, 5, 10)),
            (part(&file, 10, 5), part(&file, 5, 0)),
        ] {
            assert!(apart(&data, &test).is_ok(), "{data:?} {test:?}");
        }
        let text = format!("test = {{ dialogues = 3 }}\n{GRID}");
        let error = format!("{:#}", plan(&text).unwrap_err());
        assert!(error.contains("test: seed: must differ"), "{error}");
    }

    #[test]
    fn data_is_known_by_its_content() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("data.jsonl");
        let text = GRID.replace("{ dialogues = 5 }", &format!("{{ path = {file:?} }}"));
        std::fs::write(&file, "a").unwrap();
        let first = plan(&text).unwrap().stages[0].name.clone();
        std::fs::write(&file, "b").unwrap();
        assert_ne!(plan(&text).unwrap().stages[0].name, first);
        std::fs::remove_file(&file).unwrap();
        let error = format!("{:#}", plan(&text).unwrap_err());
        assert!(error.contains("data: cannot read"), "{error}");
    }
}

//! What is run for a paper: the grids that ship with the program, and questions to the accountant.

use super::args::{Paper, Reproduce, Scale, Text};
use super::claims::{Claim, DETECTORS, PRINTED_SHARES};
use super::evidence::{
    QUANTITIES, Read, exposure, known, loss, merged, number, of_arms, over, upper,
};
use super::rules::Series;
use crate::audit::args::ModelArg;
use crate::audit::figure::Known;
use crate::audit::grid::{CellDocument, Data, GridFile, Place, Plan, Work};
use anyhow::{Result, ensure};
use reticent_accounting::training::Recipe;
use reticent_backends::Device;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A question to the accountant, and what is read from its answer.
struct Question {
    what: &'static str,
    /// The x of the point; absent if the answer contains it.
    x: Option<f64>,
    stage: usize,
    read: Read,
}

/// Everything that is run for a paper.
pub(super) struct Study {
    pub(super) paper: Paper,
    pub(super) plan: Plan,
    /// Notes about the data.
    pub(super) notes: Vec<String>,
    questions: Vec<Question>,
    detectors: Vec<DetectorStage>,
}

/// The stage that measures what a detector masks in a text.
struct DetectorStage {
    /// The index in [`DETECTORS`].
    level: usize,
    text: &'static str,
    stage: usize,
}

/// The share of words that a detector masks in a text.
struct Masked {
    level: usize,
    text: &'static str,
    share: f64,
    from: String,
}

/// The data sets of a paper in a folder.
struct Sets {
    train: &'static str,
    test: &'static str,
    /// The key of the text, if it is not the default.
    text_field: Option<&'static str>,
    /// The numbers of documents to train on and to test on, at the small scale and at the paper's scale.
    small: (u64, u64),
    paper: (u64, u64),
}

impl Paper {
    /// Returns the paper's name for a page.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Crt => "Provably Confidential Language Modelling (CRT)",
            Self::Jft => "Just Fine-tune Twice (JFT)",
            Self::Hush => "Hush!",
            Self::Ours => "What is new here",
        }
    }

    /// Returns the paper's data sets in a folder. A document of ABCD is one turn.
    const fn sets(self) -> Sets {
        match self {
            Self::Crt | Self::Ours => Sets {
                train: "customersim/train.jsonl.gz",
                test: "customersim/test.jsonl.gz",
                text_field: None,
                small: (40, 10),
                paper: (10_000, 1_000),
            },
            Self::Jft => Sets {
                train: "abcd/valid.txt.gz",
                test: "abcd/test.txt.gz",
                text_field: None,
                small: (800, 200),
                paper: (20_000, 10_000),
            },
            Self::Hush => Sets {
                train: "arxiv/abstracts.jsonl.gz",
                test: "arxiv/abstracts.jsonl.gz",
                text_field: Some("abstract"),
                small: (40, 10),
                paper: (3_000, 200),
            },
        }
    }

    /// Returns the grids that ship with the program, each behind the items that need it.
    const fn grids(self) -> &'static [(&'static [&'static str], &'static str)] {
        match self {
            Self::Crt => &[(&["fig3", "fig4", "fig5"], include_str!("grids/crt.toml"))],
            Self::Jft => &[
                (
                    &[
                        "table2-generation",
                        "table3",
                        "table6",
                        "fig2",
                        "fig3",
                        "fig4",
                    ],
                    include_str!("grids/jft.toml"),
                ),
                (&["a2"], include_str!("grids/jft-text.toml")),
                (&["table2-classes"], include_str!("grids/jft-classes.toml")),
            ],
            Self::Hush => &[
                (
                    &["fig1b", "fig1d", "fig2", "fig3"],
                    include_str!("grids/hush-ordinary.toml"),
                ),
                (&["fig1b", "fig1d"], include_str!("grids/hush.toml")),
                (&["fig1d"], include_str!("grids/hush-masked.toml")),
                (&["fig2", "fig3"], include_str!("grids/hush-noise.toml")),
            ],
            Self::Ours => &[
                (&["exposure-proves"], include_str!("grids/ours.toml")),
                (&["exposure-proves"], include_str!("grids/ours-coins.toml")),
                (&["rank-delta"], include_str!("grids/ours-delta.toml")),
            ],
        }
    }

    /// Returns the claims that `--only` names.
    ///
    /// # Errors
    /// Returns an error for a name that is neither an item nor a claim.
    pub(super) fn chosen(self, only: &[String]) -> Result<Vec<&'static Claim>> {
        let named = |claim: &Claim, name: &str| claim.item == name || claim.id == name;
        for name in only {
            let mut items: Vec<&str> = self.claims().iter().map(|claim| &claim.item[..]).collect();
            items.dedup();
            ensure!(
                self.claims().iter().any(|claim| named(claim, name)),
                "--only: must be of {}, got {name:?}",
                items.join(", ")
            );
        }
        let wanted = |claim: &&Claim| only.is_empty() || only.iter().any(|name| named(claim, name));
        Ok(self.claims().iter().filter(wanted).collect())
    }
}

/// A question to `account`, for the claims that name its series: the series, its x, the arguments, and how the answer is
/// read.
type Query = (&'static str, Option<f64>, String, Read);

const SINGLE: &str = "--sigma 3.562645 --sample-rate 1 --steps 1 --delta 8e-5 --gamma 0.1";
const NOTEBOOK: &str = "--sigma 2.42632 --sample-rate 0.1 --steps 100 --delta 1e-5 --gamma 0.1";
const SECRET: &str = "--batch-size 2048 --dataset-size 1700000 --steps 2000";
const PROTECT: &str = "protect --prior 1e-10 --posterior 1e-3 --batch-size 10 --steps 100 --gap 0.01 --tolerance 0.001";
const BAYESIAN: (&str, &str) = ("notion", "bayesian-confidentiality");

fn tight(found: &Value) -> Vec<(f64, f64)> {
    upper(found, &[("method", "pld")])
}

fn saved(found: &Value) -> Vec<(f64, f64)> {
    let both = found["kl_fano"].as_f64().zip(found["answer"].as_f64());
    both.map(|(fano, own)| (0.0, fano / own))
        .into_iter()
        .collect()
}

fn by_renyi(found: &Value) -> Vec<(f64, f64)> {
    let proposition = ("method", "proposition-6");
    let paper = ("convention", "paper");
    upper(found, &[BAYESIAN, proposition, paper, ("base", "rdp")])
}

/// Returns ε of a record whose secret is missed, if ε′ is 0: that of the run itself.
fn revealed(found: &Value) -> Vec<(f64, f64)> {
    let zero = as_defined(found)
        .first()
        .is_some_and(|(_, value)| *value < 1e-9);
    match zero {
        true => upper(found, &[("notion", "dp"), ("method", "pld")]),
        false => Vec::new(),
    }
}

fn as_defined(found: &Value) -> Vec<(f64, f64)> {
    let definition = ("convention", "definition");
    upper(found, &[BAYESIAN, definition, ("method", "pld")])
}

/// Returns every question that needs no files.
fn queries(paper: Paper) -> Vec<Query> {
    let mut all: Vec<Query> = Vec::new();
    match paper {
        Paper::Crt => {
            let figure = "ε′ of Figure 6, by Rényi";
            all.push((figure, None, SINGLE.into(), by_renyi));
            let notebook = "ε′ of the notebook, by Rényi";
            all.push((notebook, None, NOTEBOOK.into(), by_renyi));
        }
        Paper::Jft => {
            for (what, plan) in [
                (
                    "ε on MNLI",
                    "--delta 1.2732e-6 --batch-size 6000 --dataset-size 392702 --steps 1178",
                ),
                (
                    "ε on QQP",
                    "--delta 1.3742e-6 --batch-size 6000 --dataset-size 363846 --steps 1091",
                ),
                (
                    "ε on QNLI",
                    "--delta 4.7736e-6 --batch-size 2000 --dataset-size 104743 --steps 314",
                ),
                (
                    "ε on SST-2",
                    "--delta 7.424e-6 --batch-size 1000 --dataset-size 67349 --steps 202",
                ),
            ] {
                let line = format!("calibrate --by papers --epsilon 3 {plan}");
                all.push((what, None, line, tight));
            }
        }
        Paper::Hush => {}
        Paper::Ours => {
            for (place, line) in secrets().into_iter().enumerate() {
                let factor = "σ by Fano over σ by the blow-up";
                all.push((factor, Some(place as f64), line, saved));
            }
            let zero = "--sigma 1 --sample-rate 1 --steps 1 --delta 1e-5 --gamma 1e-6 --neighbours replace";
            let missed = "ε of the missed secret where ε′ is 0, as defined";
            all.push((missed, None, zero.into(), revealed));
            let own = "ε′ of the notebook, as defined";
            all.push((own, None, NOTEBOOK.into(), as_defined));
        }
    }
    all
}

/// Returns the arguments of a question for each of Hush!'s four secrets.
fn secrets() -> [String; 4] {
    [(50, "2e-4"), (50, "1e-3"), (100, "2e-4"), (100, "1e-3")].map(|(group, posterior)| {
        format!("calibrate --prior 1e-10 --posterior {posterior} --group {group} {SECRET}")
    })
}

/// The texts for which JFT prints shares of masked words, by their names in [`PRINTED_SHARES`], and their paths in a
/// folder.
const MASKED: [(&str, &str); 2] = [
    ("ABCD", "abcd/valid.txt.gz"),
    ("WikiText-2", "wikitext-2-raw/valid.txt.gz"),
];
/// The name of the synthetic text.
const MADE_UP: &str = "made-up dialogues";

impl Study {
    /// Returns what is run for these claims.
    ///
    /// # Errors
    /// Returns an error if data are missing.
    pub(super) fn of(chosen: &[&Claim], how: &Reproduce, folder: &Path) -> Result<Self> {
        let paper = how.paper;
        let mut study = Self {
            paper,
            plan: Plan::new(folder),
            notes: Vec::new(),
            questions: Vec::new(),
            detectors: Vec::new(),
        };
        let wants = |items: &[&str]| chosen.iter().any(|claim| items.contains(&&claim.item[..]));
        for (what, x, line, read) in queries(paper) {
            if chosen.iter().any(|claim| claim.names().contains(&what)) {
                let stage = study.plan.ask(&line, None)?;
                study.question(what, x, stage, read);
            }
        }
        let mut data = None;
        for (items, grid) in paper.grids() {
            let mut file = GridFile::parse(grid, "the grid that ships")?;
            if file.data.turns && how.data != Text::Simulated {
                if wants(items) {
                    study.notes.push(format!(
                        "{}: only synthetic turns have classes; --data simulated runs them.",
                        items.join(", ")
                    ));
                }
                continue;
            }
            sources(&mut file, paper, how, &mut study.notes)?;
            if how.scale == Scale::Paper {
                enlarge(&mut file);
            }
            on_device(&mut file, how);
            if wants(items) {
                trainable(&mut file, how, &mut study.notes);
                study.plan.add(&file)?;
            }
            if !file.data.turns {
                data = Some(file.data);
            }
        }
        if let Some(data) = data {
            study.on(&data, &wants)?;
        }
        if paper == Paper::Jft && wants(&["table1"]) {
            study.detectors(&how.data)?;
        }
        study.notes.sort_unstable();
        study.notes.dedup();
        Ok(study)
    }

    /// Adds stages that measure what the four detectors mask: in the paper's texts if a folder is given, otherwise in
    /// synthetic dialogues.
    fn detectors(&mut self, text: &Text) -> Result<()> {
        let mut texts = Vec::new();
        match text {
            Text::Simulated => {
                let data = Data {
                    dialogues: Some(40),
                    ..Data::default()
                };
                texts.push((MADE_UP, data));
            }
            Text::Folder(folder) => {
                for (name, place) in MASKED {
                    let path = folder.join(place);
                    match path.is_file() {
                        true => {
                            let path = Some(path);
                            let data = Data {
                                path,
                                ..Data::default()
                            };
                            texts.push((name, data));
                        }
                        false => self.notes.push(format!(
                            "table1: {place} was not found in {}.",
                            folder.display()
                        )),
                    }
                }
            }
        }
        for (text, data) in texts {
            for (level, detector) in DETECTORS.iter().enumerate() {
                let line = format!("--policy={detector}");
                let stage = self.plan.on_corpus(Work::Policy, &data, &line)?;
                self.detectors.push(DetectorStage { level, text, stage });
            }
        }
        Ok(())
    }

    /// Returns what the detectors mask, as far as there are answers.
    fn masked(&self, answer: impl Fn(usize) -> Option<Value>) -> Vec<Masked> {
        let row = |of: &DetectorStage| {
            let found = answer(of.stage)?;
            let words = &found["words"];
            Some(Masked {
                level: of.level,
                text: of.text,
                share: words["redacted"].as_f64()? / words["all"].as_f64()?,
                from: format!("stages/{}.json", self.plan.stages[of.stage].name),
            })
        };
        self.detectors.iter().filter_map(row).collect()
    }

    fn question(&mut self, what: &'static str, x: Option<f64>, stage: usize, read: Read) {
        self.questions.push(Question {
            what,
            x,
            stage,
            read,
        });
    }

    /// Adds questions about the corpus itself.
    fn on(&mut self, data: &Data, wants: &impl Fn(&[&str]) -> bool) -> Result<()> {
        if self.paper == Paper::Hush && wants(&["fig1a", "fig1c"]) {
            let pairs = self
                .plan
                .on_corpus(Work::Incidence, data, "--words=300-400")?;
            for c in ["16", "33", "66", "132", "265", "530"] {
                let line = format!("{PROTECT} --c {c}");
                let stage = self.plan.ask(&line, Some(("--incidence=", pairs)))?;
                let (kept, needed) = ("examples kept over c", "noise over c, by Fano");
                self.question(kept, None, stage, |found| setting(found, "kept"));
                self.question(needed, None, stage, |found| setting(found, "kl_fano_sigma"));
            }
        }
        Ok(())
    }

    /// Returns the measurements from cells and answers.
    pub(super) fn measured(
        &self,
        cells: &[CellDocument],
        answer: impl Fn(usize) -> Option<Value>,
    ) -> Vec<Series> {
        let mut all = of_arms(cells);
        let mut unanswered = Vec::new();
        for question in &self.questions {
            let found = answer(question.stage).map(|found| (question.read)(&found));
            let found = found.unwrap_or_default();
            if found.is_empty() {
                unanswered.push(question.what);
            }
            let from = format!("stages/{}.json", self.plan.stages[question.stage].name);
            for (x, value) in found {
                let x = question.x.unwrap_or(x);
                all.push(number(question.what, x, value, from.clone()));
            }
        }
        let mut all = merged(all);
        // Nothing is concluded from the other answers alone.
        all.retain(|series| !unanswered.contains(&series.what.as_str()));
        match self.paper {
            Paper::Crt => all.extend(of_crt(cells)),
            Paper::Jft => all.extend(of_jft(cells, &self.masked(answer))),
            Paper::Hush => {
                all.extend(gained(&all));
                all.extend(of_hush(cells));
            }
            Paper::Ours => {}
        }
        merged(all)
    }
}

/// Returns a number of the weights for one c, at that c.
fn setting(found: &Value, key: &str) -> Vec<(f64, f64)> {
    let row = &found["settings"][0];
    let both = row["c"].as_f64().zip(row[key].as_f64());
    both.into_iter().collect()
}

fn of_crt(cells: &[CellDocument]) -> Vec<Series> {
    let mut all = Vec::new();
    for (arm, missed) in [
        ("SGD", "exposure of SGD where canaries are missed"),
        ("S-DP", "exposure of S-DP where canaries are missed"),
    ] {
        let wanted = |place: &Place| place.arm == arm && place.canary_recall < 1.0;
        all.push(over(cells, missed, wanted, |cell| {
            exposure(cell, Known::Exposure)
        }));
    }
    // Where every secret is masked, no member's was trained on.
    for name in ["exposure of", "accuracy on", "area of groups on"] {
        let quantity = QUANTITIES.iter().find(|(known, _)| *known == name);
        all.extend(quantity.map(|(_, of)| {
            let masked = |place: &Place| place.arm == "SGD" && place.miss_rate <= 0.0;
            over(cells, &format!("{name} SGD at γ = 0"), masked, of)
        }));
    }
    all
}

/// Returns what the detectors mask, and the share of the most frequent class.
fn of_jft(cells: &[CellDocument], masked: &[Masked]) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    // Of several texts the first.
    let text = masked.first().map(|row| row.text);
    for row in masked.iter().filter(|row| Some(row.text) == text) {
        let what = format!("masked at {}", DETECTORS[row.level].replace('-', " "));
        all.push(number(&what, 0.0, row.share, row.from.clone()));
    }
    for (text, printed) in PRINTED_SHARES {
        let rows: Vec<&Masked> = masked.iter().filter(|row| row.text == text).collect();
        // Nothing is concluded from some of the four.
        for row in rows.iter().filter(|_| rows.len() == DETECTORS.len()) {
            let what = format!("share masked of {text} over the paper's");
            let over = row.share / printed[row.level];
            all.push(number(
                &what,
                (row.level + 1) as f64,
                over,
                row.from.clone(),
            ));
        }
    }
    let share = |cell: &CellDocument| {
        let classes = cell.classification.as_ref()?["classes"].as_array()?;
        let counts: Option<Vec<f64>> = classes.iter().map(|c| c["records"].as_f64()).collect();
        let counts = counts?;
        let most = counts.iter().copied().max_by(f64::total_cmp)?;
        Some(most / counts.iter().sum::<f64>())
    };
    let most = "share of the most frequent class";
    all.push(of_arm(cells, most, "classes-JFT", share));
    all
}

/// Returns a series over the cells of an arm.
fn of_arm(
    cells: &[CellDocument],
    what: &str,
    name: &str,
    of: impl Fn(&CellDocument) -> Option<f64>,
) -> Series {
    over(cells, what, |place| place.arm == name, of)
}

/// Returns the difference of two arms, paired by seed.
fn paired(
    cells: &[CellDocument],
    what: &str,
    (left, right): (&str, &str),
    of: fn(&CellDocument) -> Option<f64>,
) -> Series {
    of_arm(cells, what, left, |cell| {
        let same =
            |other: &&CellDocument| other.place.arm == right && other.place.seed == cell.place.seed;
        Some(known(cell, of)? - known(cells.iter().find(same)?, of)?)
    })
}

/// The noise that stands for no noise in the grid of noises, and the noise that counts as little.
const NO_NOISE: f64 = 1e-6;
const LITTLE_NOISE: f64 = 0.01;

/// Returns the ratio of the noise at the largest c, at which weights do little or nothing, to the least noise.
fn gained(all: &[Series]) -> Option<Series> {
    let noise = all.iter().find(|s| s.what == "noise over c, by Fano")?;
    let last = noise.points.last()?;
    let means = noise.points.iter().map(|point| point.mean());
    let least = means.min_by(f64::total_cmp)?;
    Some(number(
        "noise at the largest c over the least, by Fano",
        0.0,
        last.mean() / least,
        last.from.first()?.clone(),
    ))
}

fn of_hush(cells: &[CellDocument]) -> Vec<Series> {
    let perplexity = |cell: &CellDocument| cell.measured(Known::Perplexity);
    let extracted = |cell: &CellDocument| cell.number(Work::Extract, "prompts.0.verbatim.estimate");
    let near = |value: f64| {
        move |place: &Place| {
            let sigma = place.sigma.unwrap_or(f64::NAN);
            place.arm.starts_with("noise-") && (sigma / value - 1.0).abs() < 1e-9
        }
    };
    let little = over(cells, "loss by little noise", near(LITTLE_NOISE), |cell| {
        let same = |other: &&CellDocument| {
            near(NO_NOISE)(&other.place) && other.place.arm == cell.place.arm
        };
        Some(known(cell, loss)? - known(cells.iter().find(same)?, loss)?)
    });
    let mut all = vec![
        paired(
            cells,
            "loss by weights, without noise",
            ("weights-0", "all-0"),
            loss,
        ),
        little,
    ];
    for (noise, value) in [
        ("without noise", NO_NOISE),
        ("with a little noise", LITTLE_NOISE),
    ] {
        let named = |what: &str| format!("{what} {noise}");
        all.push(over(cells, &named("perplexity"), near(value), perplexity));
        all.push(over(cells, &named("extracted"), near(value), extracted));
    }
    all
}

/// Replaces the synthetic text with the requested one and notes the consequences.
fn sources(
    file: &mut GridFile,
    paper: Paper,
    how: &Reproduce,
    notes: &mut Vec<String>,
) -> Result<()> {
    let Text::Folder(folder) = &how.data else {
        return Ok(());
    };
    let sets = paper.sets();
    let (train, test) = (sets.train, sets.test);
    let found = |name: &str| -> Result<PathBuf> {
        let path = folder.join(name);
        ensure!(
            path.is_file(),
            "--data: {} is not there; {train} and {test} were expected in {}",
            path.display(),
            folder.display()
        );
        Ok(path)
    };
    let (documents, held_out) = match how.scale {
        Scale::Small => sets.small,
        Scale::Paper => sets.paper,
    };
    let text_field = sets.text_field.map(str::to_owned);
    file.data = Data {
        path: Some(found(train)?),
        documents: Some(documents),
        text_field: text_field.clone(),
        ..Data::default()
    };
    file.test = Some(Data {
        path: Some(found(test)?),
        documents: Some(held_out),
        // No document is both trained on and tested on.
        skip: if train == test { documents } else { 0 },
        text_field,
        ..Data::default()
    });
    if file.attacks.membership.take().is_some() {
        notes.push(format!(
            "No secret is marked in {train} to be redrawn for non-members: membership is not measured."
        ));
    }
    let arms = file.arms.iter_mut().map(|arm| &mut arm.prepare);
    for prepare in std::iter::once(&mut file.prepare).chain(arms) {
        if prepare.get("policy").and_then(Value::as_str) == Some("gold") {
            prepare.insert("policy".to_owned(), "customers".into());
            notes.push(format!(
                "No secret is marked in {train}: the policy customers is used instead of the marks."
            ));
        }
    }
    Ok(())
}

/// Leaves out S-DP where another model is asked for than the recurrent one: its cells would fail.
fn trainable(file: &mut GridFile, how: &Reproduce, notes: &mut Vec<String>) {
    let other = how.model.as_ref().filter(|own| **own != ModelArg::Lstm);
    let Some(model) = other else { return };
    let before = file.arms.len();
    file.arms.retain(|arm| arm.recipe != Recipe::Sdp);
    if file.arms.len() < before {
        notes.push(format!(
            "S-DP releases the states of a recurrent model: it is not trained with --model {model}."
        ));
    }
}

/// Sets the model and the device.
fn on_device(file: &mut GridFile, how: &Reproduce) {
    // An encoder is kept, since other models don't predict masked tokens. Its pseudo-perplexity is measured on the CPU.
    let encoder = file.models == ["bert"];
    if let Some(model) = how.model.as_ref().filter(|_| !encoder) {
        file.models = vec![model.to_string()];
    }
    if how.device == Device::default() {
        return;
    }
    let device = || ("device".to_owned(), Value::from(how.device.to_string()));
    let attacks = &mut file.attacks;
    let own = [&mut file.train, &mut attacks.exposure];
    let perplexity = (!encoder).then_some(&mut attacks.perplexity);
    let others = attacks.membership.iter_mut().chain(&mut attacks.extract);
    own.into_iter()
        .chain(perplexity)
        .chain(others)
        .for_each(|flags| flags.extend([device()]));
}

/// Sets a larger size: ten thousand dialogues and fifty epochs.
fn enlarge(file: &mut GridFile) {
    let larger = |data: &mut Data, to: u64| data.dialogues = data.dialogues.map(|_| to);
    larger(&mut file.data, 10_000);
    for arm in &mut file.arms {
        // The steps of weighted training are those of its weights.
        let own = ["epochs", "first_epochs"].into_iter().filter(|name| {
            let given = arm.train.contains_key(*name);
            given || *name == "epochs" && arm.recipe != Recipe::Protect
        });
        let own: Vec<(String, Value)> = own.map(|name| (name.to_owned(), 50.into())).collect();
        arm.train.extend(own);
    }
    if let Some(test) = &mut file.test {
        larger(test, 1_000);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::args::{Audit, Command};
    use clap::{Parser, ValueEnum};

    const PAPERS: [Paper; 4] = [Paper::Crt, Paper::Jft, Paper::Hush, Paper::Ours];

    fn study(paper: Paper, only: &[&str]) -> Study {
        let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
        let chosen = paper.chosen(&only).unwrap();
        Study::of(&chosen, &how(paper, ""), Path::new("out/stages")).unwrap()
    }

    fn how(paper: Paper, more: &str) -> Reproduce {
        let paper = paper.to_possible_value().unwrap();
        let line = format!("audit reproduce {} --out out {more}", paper.get_name());
        match Audit::try_parse_from(line.split_whitespace())
            .unwrap()
            .command
        {
            Command::Reproduce(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn size_model_and_device_reach_every_process() {
        let how = how(Paper::Crt, "--scale paper --model gpt2 --device cuda:0");
        let chosen = Paper::Crt.chosen(&["fig3".to_owned()]).unwrap();
        let study = Study::of(&chosen, &how, Path::new("out/stages")).unwrap();
        let trained = study.plan.stages.iter().filter(|s| s.work == Work::Train);
        for stage in trained {
            let has = |word: &str| stage.words.iter().any(|own| own == word);
            assert!(has("--device=cuda:0") && has("--model=gpt2"));
        }
        let attacks = [Work::Perplexity, Work::Exposure, Work::Membership];
        for stage in study
            .plan
            .stages
            .iter()
            .filter(|s| attacks.contains(&s.work))
        {
            assert!(stage.words.iter().any(|own| own == "--device=cuda:0"));
        }
    }

    /// `protect` takes its steps from its weights, and refused the fifty epochs in every cell; arms with epochs of their own
    /// kept six.
    #[test]
    fn the_paper_s_scale_reaches_every_arm() {
        let mut weighted = 0;
        for paper in PAPERS {
            let how = how(paper, "--scale paper");
            let study =
                Study::of(&paper.chosen(&[]).unwrap(), &how, Path::new("out/stages")).unwrap();
            for stage in study.plan.stages.iter().filter(|s| s.work == Work::Train) {
                let has = |word: &str| stage.words.iter().any(|own| own == word);
                let protect = has("--recipe=protect");
                weighted += u32::from(protect);
                assert_eq!(has("--epochs=50"), !protect, "{:?}", stage.words);
                let epochs = |word: &&String| word.contains("epochs=");
                let all = stage.words.iter().filter(epochs);
                assert!(
                    all.clone().all(|word| word.ends_with("=50")),
                    "{:?}",
                    stage.words
                );
            }
        }
        assert!(weighted > 0);
    }

    /// A model that isn't recurrent has no states to release: every cell of S-DP failed.
    #[test]
    fn s_dp_is_left_out_where_no_recurrent_model_is_trained() {
        let chosen = Paper::Crt.chosen(&["fig3".to_owned()]).unwrap();
        for (more, trained) in [("", true), ("--model lstm", true), ("--model gpt2", false)] {
            let how = how(Paper::Crt, more);
            let study = Study::of(&chosen, &how, Path::new("out/stages")).unwrap();
            let arms = study.plan.cells.iter().map(|cell| cell.place.recipe);
            assert_eq!(arms.filter(|r| *r == Recipe::Sdp).count() > 0, trained);
            let said = study.notes.iter().any(|note| note.starts_with("S-DP"));
            assert_eq!(said, !trained, "{:?}", study.notes);
        }
    }

    /// JFT inserts each of Figure 4's canaries once (A.5), and Algorithm 1 has one public pass beside a private one: CRT
    /// had two, ordinary training one.
    #[test]
    fn grids_train_as_the_papers_do() {
        let words = |study: &Study, arm: &str, work: Work| -> Vec<String> {
            let of_arm = study.plan.cells.iter().filter(|c| c.place.arm == arm);
            let stages = of_arm.flat_map(|cell| &cell.stages);
            let stages = stages.map(|at| &study.plan.stages[*at]);
            let wanted = stages.filter(|stage| stage.work == work);
            wanted.flat_map(|stage| stage.words.clone()).collect()
        };
        let jft = study(Paper::Jft, &["fig4"]);
        for arm in ["redacted-recall-four", "redacted-recall-six"] {
            let words = words(&jft, arm, Work::Prepare);
            let has = |word: &str| words.iter().any(|own| own == word);
            assert!(has("--canaries=10x1"), "{words:?}");
            assert!(has("--policy=nothing"), "{words:?}");
        }
        let hush = study(Paper::Hush, &["fig2"]);
        for (arm, seed) in [("noise-1", "--seed=1"), ("noise-2", "--seed=2")] {
            let words = words(&hush, arm, Work::Train);
            assert!(words.iter().any(|word| word == seed), "{words:?}");
        }
        let crt = words(&study(Paper::Crt, &["fig3"]), "CRT", Work::Train);
        let passes = crt.iter().any(|word| word.starts_with("--public-passes"));
        assert!(!crt.is_empty() && !passes, "{crt:?}");
    }

    /// A claim about something that is never measured would be open for ever.
    #[test]
    fn everything_that_a_rule_speaks_of_is_measured() {
        for paper in PAPERS {
            let study = study(paper, &[]);
            let mut known = vec!["noise at the largest c over the least, by Fano".to_owned()];
            known.extend(
                study
                    .questions
                    .iter()
                    .map(|question| question.what.to_owned()),
            );
            for cell in &study.plan.cells {
                let arm = &cell.place.arm;
                known.extend(QUANTITIES.iter().map(|(name, _)| format!("{name} {arm}")));
            }
            let words = serde_json::json!({"words": {"redacted": 1.0, "all": 2.0}});
            let special = study.measured(&[], |_| Some(words.clone()));
            // Of a folder alone.
            let shares =
                PRINTED_SHARES.map(|(text, _)| format!("share masked of {text} over the paper's"));
            known.extend(shares);
            known.extend(special.into_iter().map(|series| series.what));
            for claim in paper.claims() {
                for name in claim.names() {
                    assert!(
                        known.iter().any(|known| known == name),
                        "{}: {name}",
                        claim.id
                    );
                }
            }
        }
    }

    /// What one question left open was left out, and the claim judged on the others.
    #[test]
    fn a_question_without_an_answer_leaves_its_series_unknown() {
        let study = study(Paper::Ours, &["less-noise"]);
        let answered =
            |stage: usize| Some(serde_json::json!({"kl_fano": 2.0 + stage as f64, "answer": 1.0}));
        let what = "σ by Fano over σ by the blow-up";
        let known = |measured: &[Series]| measured.iter().any(|s| s.what == what);
        assert!(known(&study.measured(&[], answered)));
        let last = study.questions.last().unwrap().stage;
        let but_one = |stage: usize| answered(stage).filter(|_| stage != last);
        assert!(!known(&study.measured(&[], but_one)));
    }

    #[test]
    fn only_what_is_asked_for_is_run() {
        let cells = |paper, only: &[&str]| study(paper, only).plan.cells.len();
        assert_eq!(cells(Paper::Crt, &["fig6"]), 0);
        assert!(cells(Paper::Crt, &["fig3"]) > 0);
        assert_eq!(cells(Paper::Jft, &["table2-glue", "table1"]), 0);
        assert_eq!(cells(Paper::Ours, &["own-neighbours"]), 0);
        let error = Paper::Crt.chosen(&["fig9".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("fig2, fig3"), "{error}");
    }

    /// What is tested on is no part of what is trained on, and no policy asks for marks that real text does not have.
    #[test]
    fn a_folder_changes_what_a_grid_reads() {
        let home = tempfile::tempdir().unwrap();
        let grids = PAPERS.iter().flat_map(|paper| {
            let own = paper.grids().iter();
            own.map(move |(_, grid)| (paper, grid))
        });
        for (paper, grid) in grids {
            let mut file = GridFile::parse(grid, "g").unwrap();
            if file.data.turns {
                continue;
            }
            let sets = paper.sets();
            for name in [sets.train, sets.test] {
                let path = home.path().join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, "").unwrap();
            }
            let how = Reproduce {
                data: Text::Folder(home.path().to_path_buf()),
                ..how(*paper, "")
            };
            let mut notes = Vec::new();
            sources(&mut file, *paper, &how, &mut notes).unwrap();
            let test = file.test.unwrap();
            let apart = file.data.path != test.path || Some(test.skip) == file.data.documents;
            assert!(apart && test.text_field == file.data.text_field);
            let arms = file.arms.iter().map(|arm| &arm.prepare);
            let gold =
                |flags: &crate::audit::grid::Flags| flags.get("policy") == Some(&"gold".into());
            assert!(!gold(&file.prepare) && !arms.into_iter().any(gold));
            assert!(file.attacks.membership.is_none());
            assert_eq!(notes.is_empty(), !grid.contains("\"gold\""));
        }
    }

    #[test]
    fn data_that_are_not_there_are_named() {
        let home = tempfile::tempdir().unwrap();
        for paper in PAPERS {
            let chosen = paper.chosen(&[]).unwrap();
            let how = Reproduce {
                data: Text::Folder(home.path().to_path_buf()),
                ..how(paper, "")
            };
            let studied = Study::of(&chosen, &how, home.path());
            let error = format!("{:#}", studied.err().unwrap());
            assert!(
                error.contains("were expected in") && error.contains(paper.sets().train),
                "{error}"
            );
        }
    }
}

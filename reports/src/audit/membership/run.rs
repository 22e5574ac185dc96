//! `audit membership --model`: runs attacks on a model, all from one table of token scores.

use crate::audit::args::{AttackArg, GroupBy, MembershipArgs, NeighbourTexts, Protocol};
use crate::audit::loaded_model::{LoadedModel, cuts_alike};
use crate::audit::membership::read::{APART, TEXTS_ALONE};
use crate::audit::membership::shadow::{Start, Training, lira_scores, rmia_scores, shadows};
use crate::audit::membership::{
    AttackSpread, Attacked, Attacks, Details, HeatLine, LeftOut, MembershipReport, Outputs,
    Records, ShadowTraining, rates,
};
use crate::audit::perplexity::run::BATCH_TOKENS;
use crate::audit::records::{Cut, Part, Reader, cut};
use crate::audit::training_text::training_records;
use crate::audit::unknown::Characters;
use crate::audit::{Apart, RecordsDigest};
use crate::contract::{Exit, Interrupt, Progress, numbered_lines};
use crate::number::grouped;
use crate::page::Output;
use anyhow::{Context, Result, anyhow, ensure};
use reticent_attacks::membership::{
    Attack, Beside, DistinctTexts, Need, Neighbours, Panel, Repeats, Scoring, Shadows, chosen,
    copies_among, instability, replacements,
};
use reticent_corpus::read::LINE_LIMIT;
use reticent_corpus::tokenize::{Tokenizer, escaped};
use reticent_corpus::{TokenId, Unit};
use serde::Deserialize;
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// The records on each side and in each group under CRT's protocol.
const CRT: (usize, usize) = (1000, 20);

/// The number of neighbours of each record.
const NEIGHBOURS: usize = 25;

/// The number of records in the heat map, and of tokens of each.
const HEATED: (usize, usize) = (5, 400);

pub(in crate::audit) fn run(
    args: &MembershipArgs,
    output: Output,
    interrupt: &Interrupt,
) -> Result<Exit> {
    let texts = [&args.members, &args.non_members, &args.on.training];
    args.on.text.check(&texts.map(Option::as_deref))?;
    let outputs = Outputs::open(args, output)?;
    let mut model = LoadedModel::audited(&args.on.of, interrupt)?;
    let mut reference = match &args.on.reference {
        Some(source) => {
            let other = model.second(source, &args.on.of, "--reference", interrupt)?;
            model.differs_from(&other, "--reference")?;
            Some(other)
        }
        None => None,
    };
    let (report, details) = measured(args, &mut model, reference.as_mut(), interrupt)?;
    outputs.finish(args, &report, &details)
}

/// Returns the report and its accompanying output.
pub(in crate::audit) fn measured(
    args: &MembershipArgs,
    model: &mut LoadedModel,
    mut reference: Option<&mut LoadedModel>,
    interrupt: &Interrupt,
) -> Result<(MembershipReport, Details)> {
    let confidence = crate::audit::confidence(args.confidence)?;
    let tokenizer = model.tokenizer.clone();
    let mut reader =
        Reader::new(&tokenizer, model.longest(), args.on.without_end).with_field(&args.on.text);
    let Sides {
        cuts,
        kept,
        repeats,
        copies,
    } = sides(args, args.on.unit.unwrap_or_else(|| model.unit()), &reader)?;
    let [inside, outside] = &cuts;
    reader.learn(inside);
    reader.learn(outside);
    let frame = |text: &str| reader.tokens(text);
    let members = inside.texts.len();
    let texts: Vec<String> = inside.texts.iter().chain(&outside.texts).cloned().collect();
    let characters = Characters::of(&texts, &tokenizer)?;
    let attacks = wanted(args);
    if let Some(base) = reference.as_deref() {
        ensure!(
            cuts_alike(
                &model.tokenizer,
                &base.tokenizer,
                &texts,
                args.on.without_end
            )?,
            "--reference: {} reads the records as other tokens than the model, or between another beginning{} of text; their \
             log-likelihoods don't compare",
            base.name,
            match args.on.without_end {
                true => "",
                false => " or end (which --without-end leaves out)",
            }
        );
        ensure!(
            attacks.iter().all(|a| a.needs != Need::Neighbours)
                || base.tokenizer.to_json()? == model.tokenizer.to_json()?,
            "--attack neighbourhood: --reference must have the model's own tokenizer, and {} has tokens of its own",
            base.name
        );
    }
    let context = model.context;
    let neighbours = match attacks.iter().any(|a| a.needs == Need::Neighbours) {
        true => {
            let base = reference.as_deref_mut();
            Some(neighbours(args, &texts, &kept, &reader, base, interrupt)?)
        }
        false => None,
    };
    let beside = Beside {
        lower_case: attacks.iter().any(|a| a.needs == Need::LowerCase),
        neighbours,
    };
    let panel = Panel::of(
        model.scorer(),
        texts,
        &|text| Ok(frame(text)?),
        beside,
        scoring(context),
        &mut watched("scoring", interrupt),
    );
    let mut panel = interrupt.unless_raised(panel)?;
    if let Some(base) = &mut reference {
        let context = base.context;
        let both = panel.with_reference(
            base.scorer(),
            scoring(context),
            &mut watched("scoring by the reference", interrupt),
        );
        panel = interrupt.unless_raised(both.context("--reference"))?;
    }
    model.check_steady("--scorer")?;
    if let Some(base) = &mut reference {
        base.check_steady("--reference")?;
    }
    let mut left_out = Vec::new();
    let mut attacked = Vec::new();
    for attack in attacks {
        if attack.reads_vocabulary && !model.has_statistics() {
            left_out.push(LeftOut {
                attack: attack.name.to_owned(),
                why: "the scorer gives no `statistics`".to_owned(),
            });
            continue;
        }
        match panel.scores(attack)? {
            Some(mut scores) => {
                let others = scores.split_off(members);
                attacked.push(Attacked {
                    name: attack.name,
                    scores: [scores, others],
                    mean_nll: attack.name == "loss",
                });
            }
            None => left_out.push(lacking(attack, &panel)),
        }
    }
    let apart = match panel.reference() {
        Some(other) => {
            let own = panel.target().losses()?;
            Some(Apart::of(own.into_iter().zip(other.losses()?)))
        }
        None => None,
    };
    let models = (&*model, reference.as_deref());
    let shadows = args
        .on
        .shadows
        .map(|_| shadowed(args, &cuts, &panel, models, &mut attacked, interrupt))
        .transpose()
        .context("--shadows")?;
    let first = attacked.first().with_context(|| {
        let why = left_out.iter();
        let why = why.map(|left| format!("{}: {}", left.attack, left.why));
        let why = why.collect::<Vec<_>>().join("; ");
        format!("--attack: no attack remains ({why})")
    })?;
    let heat = if model.has_statistics() || reference.is_some() {
        heat(
            &panel,
            (&first.scores[0], &kept[0]),
            &tokenizer,
            args.on.show_secrets,
        )?
    } else {
        Vec::new()
    };
    let groups = groups(args, &cuts);
    let grouped_by = groups.clone();
    let digest = RecordsDigest::of(&[&cuts[0].texts, &cuts[1].texts])?;
    let records = Records {
        groups,
        digest,
        texts: cuts.map(|side| side.texts),
        repeats: Some(repeats),
        copies,
    };
    let known = Attacks {
        decides: String::new(),
        rows: Vec::new(),
        group_size: match args.on.protocol {
            Some(Protocol::Crt) => Some(CRT.1),
            None => args
                .on
                .group_size
                .map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
        },
        protocol: args.on.protocol.map(|Protocol::Crt| "crt".to_owned()),
        tokens: panel.target().scored_tokens(),
        characters,
        left_out,
        shadows,
        reference: apart,
    };
    let report = MembershipReport::of_attacks(&attacked, &records, known, args, confidence)?;
    let scores = match args.on.scores_out {
        Some(_) => by_record(&attacked, &kept, grouped_by.as_ref(), &report)?,
        None => String::new(),
    };
    interrupt.check()?;
    Ok((report, Details { heat, scores }))
}

/// Returns scores in the format of `--scores`, with those of every attack and a column for whether the texts alone
/// distinguish the sides, which can't be seen from the scores. `kept` numbers the records in their files.
fn by_record(
    attacked: &[Attacked],
    kept: &[Vec<usize>; 2],
    groups: Option<&[Vec<String>; 2]>,
    report: &MembershipReport,
) -> Result<String> {
    let checked = match &report.blind {
        Some(blind) if blind.shifted => APART,
        Some(_) => "alike",
        None => "unchecked",
    };
    let mut out = csv::Writer::from_writer(Vec::new());
    let mut header = vec!["id", "member", "score"];
    header.extend(groups.map(|_| "group"));
    header.extend(attacked.iter().map(|attack| attack.name));
    header.push(TEXTS_ALONE);
    out.write_record(header)?;
    for (side, (name, member)) in [("member", "1"), ("non-member", "0")]
        .into_iter()
        .enumerate()
    {
        for (row, place) in kept[side].iter().enumerate() {
            let scores = attacked
                .iter()
                .map(|attack| attack.scores[side][row].to_string());
            let scores: Vec<String> = scores.collect();
            let mut cells = vec![format!("{name}-{}", place + 1), member.to_owned()];
            cells.extend(scores.first().cloned());
            cells.extend(groups.map(|groups| groups[side][row].clone()));
            cells.extend(scores);
            cells.push(checked.to_owned());
            out.write_record(cells)?;
        }
    }
    let bytes = out.into_inner().map_err(csv::IntoInnerError::into_error)?;
    String::from_utf8(bytes).context("--scores-out")
}

/// Runs LiRA and RMIA after the other attacks and returns how their shadow models were trained.
fn shadowed(
    args: &MembershipArgs,
    sides: &[Cut; 2],
    panel: &Panel,
    (model, reference): (&LoadedModel, Option<&LoadedModel>),
    attacked: &mut Vec<Attacked>,
    interrupt: &Interrupt,
) -> Result<ShadowTraining> {
    let members = sides[0].texts.len();
    let groups = crate::audit::records::shared_groups(sides).concat();
    let refused = "--reference: shadow models start from a folder, not a command";
    let base = reference.map(|base| base.weights().context(refused));
    let base = base.transpose()?;
    let own = model.weights();
    let (architecture, _) = base
        .or(own)
        .context("shadow models need a folder as --model")?;
    let start = Start {
        model: architecture,
        weights: base.map(|(_, weights)| weights),
        device: args.on.of.device,
    };
    let training = Training::of(model, reference, &args.on, args.seed)?;
    let records = panel.target().tokens();
    let found = shadows(&start, records, &groups, &training, interrupt)?;
    let targets = panel.target().losses()?;
    let mut summary = training.summary;
    let fpr = rates(args)[0];
    for (name, score) in [
        ("lira", lira_scores as fn(&[f64], &[Shadows]) -> _),
        ("rmia", rmia_scores),
    ] {
        let mut scores = score(&targets, &found)?;
        let some = |shadows: &[Shadows]| score(&targets, shadows);
        let spread = instability(&found, members, fpr, args.seed, &some)?;
        summary.spread.extend(spread.map(|of| AttackSpread {
            attack: name.to_owned(),
            of,
        }));
        let others = scores.split_off(members);
        attacked.push(Attacked {
            name,
            scores: [scores, others],
            mean_nll: false,
        });
    }
    Ok(summary)
}

/// Returns the neighbours that --neighbours asks for; by default, other digits. `kept` numbers the records in their
/// files.
fn neighbours(
    args: &MembershipArgs,
    texts: &[String],
    kept: &[Vec<usize>; 2],
    reader: &Reader<'_>,
    reference: Option<&mut LoadedModel>,
    interrupt: &Interrupt,
) -> Result<Neighbours> {
    let path = match args
        .on
        .neighbours
        .as_ref()
        .unwrap_or(&NeighbourTexts::Digits)
    {
        NeighbourTexts::Digits => {
            return Ok(Neighbours::Digits {
                count: NEIGHBOURS,
                seed: args.seed,
            });
        }
        NeighbourTexts::Reference => {
            let model = reference.context("--neighbours reference: it needs --reference")?;
            let progress = Progress::of(texts.len() as u64, "drawing neighbours", "records");
            let mut all = Vec::with_capacity(texts.len());
            for (index, text) in texts.iter().enumerate() {
                interrupt.check()?;
                let (record, context) = (reader.tokens(text)?, model.context);
                let seed = args.seed.wrapping_add(index as u64);
                let near = replacements(model.scorer(), &record, NEIGHBOURS, context, seed);
                all.push(near.context("--neighbours reference")?);
                progress.advance(1);
            }
            return Ok(Neighbours::Given(all));
        }
        NeighbourTexts::File(path) => path,
    };
    let given = given_neighbours(path, reader).context("--neighbours")?;
    let members = kept[0].iter().map(|i| ("member", i));
    let places = members.chain(kept[1].iter().map(|i| ("non-member", i)));
    let of = |(text, (side, place)): (&String, (&str, &usize))| -> Result<Vec<Vec<TokenId>>> {
        let near = given.get(text).with_context(|| {
            format!("--neighbours: no line has the text of {side} {}", place + 1)
        })?;
        let near = near.iter().map(|text| reader.tokens(text));
        Ok(near.collect::<Result<_, _>>()?)
    };
    let all: Result<Vec<_>> = texts.iter().zip(places).map(of).collect();
    Ok(Neighbours::Given(all?))
}

/// Reads lines of {"text", "neighbours"}, by the text and by what training read of it.
fn given_neighbours(path: &Path, reader: &Reader<'_>) -> Result<HashMap<String, Vec<String>>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Line {
        text: String,
        neighbours: Vec<String>,
    }
    let mut given = HashMap::new();
    for line in numbered_lines(path, LINE_LIMIT)? {
        let (number, line) = line?;
        if line.trim().is_empty() {
            continue;
        }
        // A parser's message may quote the line.
        let line: Line = serde_json::from_str(&line).map_err(|_| {
            anyhow!(
                "{}, line {number}: must be {{\"text\": …, \"neighbours\": [texts]}}",
                path.display()
            )
        })?;
        let unlike = line.neighbours.iter().any(|near| *near != line.text);
        ensure!(
            unlike,
            "{}, line {number}: `neighbours` must hold a text other than `text`",
            path.display()
        );
        // Texts that are not prepared are compared as they are when they are.
        let near = line.neighbours.iter().map(|text| escaped(text)).collect();
        for (text, near) in [(escaped(&line.text), near), (line.text, line.neighbours)] {
            let (trained, _) = reader.as_trained(text.clone())?;
            given.entry(trained).or_insert_with(|| near.clone());
            given.insert(text, near);
        }
    }
    Ok(given)
}

/// The records of both files that are judged, and how their texts repeat.
struct Sides {
    cuts: [Cut; 2],
    /// The numbers of these records in each file.
    kept: [Vec<usize>; 2],
    repeats: Repeats,
    /// Copies of each member in the training text.
    copies: Vec<u64>,
}

/// Cuts both files into records and keeps one for each text and none whose text occurs in both; CRT's protocol takes a
/// sample of each.
fn sides(args: &MembershipArgs, unit: Unit, reader: &Reader<'_>) -> Result<Sides> {
    let by = args.on.group_by.unwrap_or_default();
    let files = [
        ("--members", &args.members, Part::Training),
        ("--non-members", &args.non_members, Part::HeldOut),
    ];
    let side = |(flag, path, part): (&'static str, &Option<PathBuf>, Part)| -> Result<Cut> {
        let path = path
            .as_ref()
            .with_context(|| format!("{flag} must be given"))?;
        cut(path, part, unit, by, reader).context(flag)
    };
    let cuts = match args.on.lookalikes {
        true => side(files[0])?
            .with_lookalikes(args.seed)
            .context("--lookalikes")?,
        false => [side(files[0])?, side(files[1])?],
    };
    let distinct = DistinctTexts::of(&cuts[0].texts, &cuts[1].texts, args.seed);
    let distinct = distinct.context("--non-members")?;
    let mut kept = distinct.kept().clone();
    let mut copies = distinct.copies().to_vec();
    if args.on.protocol == Some(Protocol::Crt) {
        for (number, ((flag, ..), kept)) in files.iter().zip(&mut kept).enumerate() {
            ensure!(
                kept.len() >= CRT.0,
                "{flag}: the protocol crt takes {} records a side, there are {} of different texts that are not on the other side",
                grouped(CRT.0 as u64),
                grouped(kept.len() as u64)
            );
            let drawn = chosen(kept.len(), CRT.0, args.seed);
            if number == 0 {
                copies = drawn.iter().map(|&i| copies[i]).collect();
            }
            *kept = drawn.into_iter().map(|i| kept[i]).collect();
        }
    }
    let cuts = [cuts[0].only(&kept[0]), cuts[1].only(&kept[1])];
    if let Some(path) = &args.on.training {
        let training = training_records(path, unit, reader).context("--training")?;
        copies = copies_among(&cuts[0].texts, &training);
    }
    Ok(Sides {
        cuts,
        kept,
        repeats: distinct.repeats(),
        copies,
    })
}

/// Returns the names of groups on both sides; `None` if every record stands for itself.
fn groups(args: &MembershipArgs, sides: &[Cut; 2]) -> Option<[Vec<String>; 2]> {
    let by = args.on.group_by.unwrap_or_default();
    if by == GroupBy::Nothing {
        return None;
    }
    let named = crate::audit::records::shared_groups(sides);
    let distinct: BTreeSet<&String> = named.iter().flatten().collect();
    let records: usize = named.iter().map(Vec::len).sum();
    (distinct.len() < records).then_some(named)
}

/// Returns the attacks in order, the deciding one first.
fn wanted(args: &MembershipArgs) -> Vec<Attack> {
    let with_reference = args.on.reference.is_some();
    let cheap = |a: &Attack| match a.needs {
        Need::Nothing => true,
        Need::Reference => with_reference,
        Need::LowerCase | Need::Neighbours => false,
    };
    let mut order: Vec<Attack> = Attack::ALL.to_vec();
    if with_reference {
        order.sort_by_key(|a| a.name != "reference");
    }
    if args.on.attacks.is_empty() {
        let named = args.on.neighbours.is_some();
        order.retain(|a| cheap(a) || named && a.needs == Need::Neighbours);
        return order;
    }
    let mut wanted = Vec::new();
    for argument in &args.on.attacks {
        let more = match argument {
            AttackArg::All => order.clone(),
            AttackArg::One(attack) => vec![*attack],
        };
        for attack in more {
            if !wanted.contains(&attack) {
                wanted.push(attack);
            }
        }
    }
    wanted
}

fn lacking(attack: Attack, panel: &Panel) -> LeftOut {
    let why = match attack.needs {
        Need::Reference => "it needs --reference".to_owned(),
        Need::Neighbours => format!(
            "{} texts have no digit to mutate, and it would judge another sample without them",
            grouped(panel.without_digits() as u64)
        ),
        Need::Nothing | Need::LowerCase => "its evidence is missing".to_owned(),
    };
    LeftOut {
        attack: attack.name.to_owned(),
        why,
    }
}

pub(in crate::audit) const fn scoring(context: Option<usize>) -> Scoring {
    Scoring {
        context,
        batch_tokens: BATCH_TOKENS,
    }
}

/// Returns a progress callback that stops the work on an interruption.
pub(in crate::audit) fn watched(
    what: &'static str,
    interrupt: &Interrupt,
) -> impl FnMut(usize) -> ControlFlow<()> {
    Progress::spinner(what).watched(interrupt)
}

/// Returns the members with the highest scores, token by token: ln p under the model minus that under the reference, or
/// minus the mean over the vocabulary if there is no reference. `kept` numbers them in their file.
fn heat(
    panel: &Panel,
    (scores, kept): (&[f64], &[usize]),
    tokenizer: &Tokenizer,
    show: bool,
) -> Result<Vec<HeatLine>> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    order
        .into_iter()
        .take(HEATED.0)
        .enumerate()
        .map(|(place, index)| {
            let target = panel.target().record(index)?;
            let reference = panel.reference().map(|r| r.record(index)).transpose()?;
            let base: Vec<f64> = match reference {
                Some(reference) => reference.each().map(|(_, s)| s.log_probability).collect(),
                None => target.each().map(|(_, s)| s.mean).collect(),
            };
            let pieces = target.each().zip(base).take(HEATED.1);
            let pieces = pieces.map(|((token, score), base)| {
                let text = tokenizer.decode(&[token])?;
                let shown = if show { text } else { masked(&text) };
                Ok((shown, score.log_probability - base))
            });
            Ok(HeatLine {
                name: format!("member {} (place {})", kept[index] + 1, place + 1),
                pieces: pieces.collect::<Result<_>>()?,
            })
        })
        .collect()
}

/// Replaces letters and digits with dots.
fn masked(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_alphanumeric() { '•' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use reticent_corpus::tokenize::Tokenizer;

    /// A line holds the whole text of a record of which training read the beginning. "No line has the text" was said of it.
    #[test]
    fn neighbours_are_those_of_the_text_as_it_was_trained_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("near.jsonl");
        let lines = r#"{"text":"my code is 12","neighbours":["my code is 34"]}
{"text":"my code","neighbours":["his code"]}
{"text":"<MASK> is","neighbours":["it is"]}
"#;
        std::fs::write(&path, lines).unwrap();
        let tokenizer = Tokenizer::bytes();
        let of = |most| given_neighbours(&path, &Reader::new(&tokenizer, most, false)).unwrap();
        let (whole, cut) = (of(None), of(Some(9)));
        for given in [&whole, &cut] {
            assert_eq!(given["my code is 12"], ["my code is 34"]);
            assert_eq!(given["my code"], ["his code"]);
            assert_eq!(given["<MASK> is"], given[r"<\MASK> is"]);
        }
        // The beginning and eight characters.
        assert_eq!(cut["my code "], ["my code is 34"]);
        assert!(!whole.contains_key("my code "));
    }
}

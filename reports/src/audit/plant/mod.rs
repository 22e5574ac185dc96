//! `audit plant`: writes a file with canaries, for any trainer.

pub mod args;
#[cfg(feature = "audit")]
mod sampling;
mod splice;
pub(in crate::audit) mod words;

use super::args::{Plant, TokenizerArg};
use crate::audit::exposure::false_alarm_of_each;
use crate::contract::{Envelope, Exit, Inputs, Interrupt, OutputFolder, is_stream};
use crate::number::{count_of, grouped, rounded, shortest};
use crate::page::{Output, Page, Section};
use crate::verdict::FALSE_ALARM;
use anyhow::{Context, Result, anyhow, bail, ensure};
use reticent_accounting::training::TrainingPlan;
use reticent_accounting::{Confidence, Delta, Epsilon, Probability, UnitName, Upper};
use reticent_attacks::AuditTerms;
use reticent_attacks::evalue::{PlannedAudit, coin_provable};
use reticent_attacks::exposure::RankAudit;
use reticent_corpus::canary::{
    CanaryOptions, CanaryPlan, CandidateSpace, CoinPlan, SeedOrigin, Spec, TokenCounts, WordFacts,
    insert,
};
use reticent_corpus::read::{Documents, ReadOptions, taught_text, whole_object};
use reticent_corpus::tokenize::Tokenizer;
use reticent_corpus::{Document, Unit};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::io::Read as _;
use std::path::Path;
use words::SampledFacts;

/// The longest corpus in which canaries are planted, in bytes: 1 GiB. It is held in memory.
const LONGEST: u64 = 1 << 30;

/// What was planted.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Planted {
    /// The file with canaries.
    out: String,
    /// The plan next to it.
    plan: String,
    documents: u64,
    /// Documents with a canary.
    changed: u64,
    canaries: u64,
    /// Lines inserted.
    copies: u64,
    /// Canaries included by their coins; absent without coins.
    #[serde(skip_serializing_if = "Option::is_none")]
    inside: Option<u64>,
    seed_origin: SeedOrigin,
    /// Different secrets that a canary may have; 2 for a coin.
    candidates: f64,
    /// The largest ε of a canary in all its copies that these can prove, with confidence 0.95 at δ = 0: of one content against
    /// another, or by coins of in against out.
    provable: Upper<Epsilon>,
    /// The largest promise that a verdict can contradict, at its own false-alarm rate and the default δ: of `audit exposure`,
    /// or by coins of `audit coins`.
    contradictable: Upper<Epsilon>,
    /// Whether the tokenizer was consulted: every candidate then has its own tokens, as exact ranks need.
    tokens_checked: bool,
    /// What the words of the canaries were chosen from, if their format needs words.
    #[serde(skip_serializing_if = "Option::is_none")]
    words: Option<WordFacts>,
    /// Of canaries that were sampled from a public model.
    #[serde(skip_serializing_if = "Option::is_none")]
    sampled: Option<SampledFacts>,
}

/// Returns the false-alarm rate of the verdict about this plan.
fn false_alarm(coins: Option<&CoinPlan>) -> Result<Probability> {
    match coins {
        Some(_) => Ok(Probability::new(FALSE_ALARM)?),
        None => false_alarm_of_each(),
    }
}

/// Returns the largest ε that an audit of this plan can prove with this confidence.
fn provable(
    plan: &CanaryPlan,
    coins: Option<&CoinPlan>,
    (confidence, delta): (Confidence, Delta),
) -> Result<Upper<Epsilon>> {
    let canaries = plan.canaries.len() as u64;
    let copies = u64::from(plan.copies);
    if let Some(coins) = coins {
        return Ok(coin_provable(
            canaries,
            &AuditTerms {
                confidence,
                delta,
                neighbours: crate::audit::coins::neighbours(coins),
                unit: UnitName::new(plan.unit.to_string())?,
                copies,
            },
        )?);
    }
    let candidates = u64::try_from(plan.candidates).unwrap_or(u64::MAX);
    let rank = RankAudit::of_plan(plan, copies, confidence, delta);
    Ok(PlannedAudit::new(rank, candidates, canaries)?.provable()?)
}

/// Returns the options with the words that their format requires, and from what the words were chosen.
fn worded(
    requested: CanaryOptions,
    tokenizer: Option<&Tokenizer>,
    documents: &[Document],
) -> Result<(CanaryOptions, Option<WordFacts>)> {
    if requested.template.template().is_some() {
        return Ok((requested, None));
    }
    ensure!(
        tokenizer.is_some() || !requested.template.has_rare(),
        "{{rare:n}} needs --tokenizer"
    );
    let mut counts = TokenCounts::new(&requested.template, &requested.sampled, tokenizer)?;
    for document in documents {
        document.unmasked()?;
        counts.enter(&document.text)?;
    }
    let (template, facts) = counts.template()?;
    let options = CanaryOptions {
        template: template.into(),
        ..requested
    };
    Ok((options, Some(facts)))
}

/// Returns whether a coin adds records or changes an existing one.
fn adds_records(unit: Unit, whole: bool) -> Result<bool> {
    match unit {
        Unit::Turn => {
            ensure!(
                whole,
                "--coins: with --unit turn FILE must be texts of lines, got chats or pairs, where a line of an answer may be a record of its own or not; --unit document avoids this"
            );
            Ok(true)
        }
        Unit::Sentence => bail!(
            "--coins: --unit sentence has records that a line may change, add and cut at once; use --unit turn or document"
        ),
        _ => Ok(false),
    }
}

/// Plants canaries in a file.
///
/// # Errors
/// Returns an error if the file is neither plain text nor JSON Lines with a text, chat or pair, or if the output can't
/// be written.
pub fn run(args: &Plant, output: Output, interrupt: &Interrupt) -> Result<Exit> {
    readable(&args.data)?;
    let folder = OutputFolder::create(&args.out).context("--out")?;
    let name = args.data.file_name().context("FILE: it has no name")?;
    let name = name.to_str().context("FILE: its name is not UTF-8")?;
    let kept = match args.coins {
        true => "coins.json",
        false => "canaries.json",
    };
    ensure!(
        !name.eq_ignore_ascii_case(kept),
        "FILE: {} has the name of the plan that is written next to it; rename it",
        args.data.display()
    );
    let text = reticent_disk::read_regular_text(&args.data, LONGEST)
        .with_context(|| format!("FILE: {}", args.data.display()))?;
    let field = args.text.text_field.as_deref();
    let read = documents(&args.data, &text, field)?;
    let total = read.len();
    // The record of the file from which each document comes.
    let taught = match is_lines(name) {
        true => taught(&text, read, field)?,
        false => Taught {
            numbered: read.into_iter().enumerate().collect(),
            rest: Vec::new(),
            whole: true,
        },
    };
    let (records, documents): (Vec<usize>, Vec<Document>) = taught.numbered.into_iter().unzip();
    let added = match args.coins {
        true => adds_records(args.unit, taught.whole)?,
        false => false,
    };
    interrupt.check()?;
    let tokenizer = args.tokenizer.as_ref().map(TokenizerArg::load).transpose();
    let tokenizer = tokenizer.context("--tokenizer")?;
    let (texts, sampled) = words::sampled(&args.shape, Some(args.canaries), interrupt)?;
    let requested = args.shape.options(args.canaries, args.seed, texts)?;
    let (options, words) =
        worded(requested, tokenizer.as_ref(), &documents).context("--canary-format")?;
    let plan = CanaryPlan::new(&options, args.unit, &documents).context("--canaries")?;
    // Coins are guessed by likelihood, and need no other candidate.
    if !args.coins {
        plan.check_ranks().context("--canaries")?;
    }
    if let Some(tokenizer) = &tokenizer {
        CandidateSpace::check_choices(&plan, tokenizer).context("--canary-format")?;
        // Exact ranks need it; found here, before anybody trains.
        let one_context = !args.shape.own_carriers;
        if one_context {
            CandidateSpace::new(&plan, tokenizer).context("--tokenizer")?;
        }
    }
    let texts = documents.iter().map(|document| &document.text);
    plan.check_absent(texts.chain(&taught.rest).map(String::as_str))
        .context("FILE")?;
    let coins = match args.coins {
        true => Some(CoinPlan::new(plan.clone(), added).context("--coins")?),
        false => None,
    };
    let inside = coins.as_ref().map(CoinPlan::planted);
    let (mut planted, places) =
        insert(inside.as_ref().unwrap_or(&plan), &documents).context("--canaries")?;
    // The file marks what it marked before.
    for place in places {
        let marked = &mut planted[place.document].secrets;
        marked.retain(|secret| secret.start != place.start);
    }
    let changed: HashMap<usize, &Document> = (0..)
        .zip(&planted)
        .filter(|(number, new): &(usize, _)| new.text != documents[*number].text)
        .map(|(number, new)| (records[number], new))
        .collect();
    let shown_terms = (Confidence::new(0.95)?, Delta::new(0.0)?);
    let alarm = false_alarm(coins.as_ref())?;
    let of_verdict = (
        Confidence::new(1.0 - alarm.get())?,
        TrainingPlan::default_delta(None),
    );
    let reach = |terms| provable(&plan, coins.as_ref(), terms).context("--canaries");
    let (provable, contradictable) = (reach(shown_terms)?, reach(of_verdict)?);
    interrupt.check()?;
    let made = if is_lines(name) {
        in_lines(&text, &changed, field)?
    } else {
        in_blocks(&text, &documents, &changed)?
    };
    folder.write(name, made.as_bytes()).context("--out")?;
    let json = match &coins {
        Some(coins) => coins.to_json()?,
        None => plan.to_json()?,
    };
    folder
        .write(kept, format!("{json}\n").as_bytes())
        .context("--out")?;
    let place = folder.finish().context("--out")?;
    let copies = inside.as_ref().unwrap_or(&plan).canaries.iter();
    let copies = copies.map(|canary| canary.insertions.len() as u64);
    let shown = Planted {
        out: place.join(name).display().to_string(),
        plan: place.join(kept).display().to_string(),
        documents: total as u64,
        changed: changed.len() as u64,
        canaries: plan.canaries.len() as u64,
        copies: copies.sum(),
        inside: inside.map(|plan| plan.canaries.len() as u64),
        seed_origin: plan.seed_origin,
        candidates: if args.coins {
            2.0
        } else {
            plan.template.candidates() as f64
        },
        provable,
        contradictable,
        tokens_checked: tokenizer.is_some() && !args.shape.own_carriers,
        words,
        sampled,
    };
    let inputs = Inputs::new()
        .given("data", args.data.display().to_string())?
        .given("canaries", args.canaries.to_string())?
        .given("unit", args.unit)?
        .given("canary_format", args.shape.canary_format.to_string())?
        .given("text_field", field)?;
    output.answer(
        &Envelope::new("planting", inputs, &shown),
        &page(&shown, (args.canaries, args.unit, field), alarm),
    )
}

fn is_lines(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    [".jsonl", ".ndjson", ".json"]
        .iter()
        .any(|end| name.ends_with(end))
}

/// Refuses a file that can't be rewritten without other changes, and describes how to convert it.
fn readable(path: &Path) -> Result<()> {
    ensure!(
        !is_stream(path),
        "FILE: stdin (-) has no name under which it could be written again; save it first (cat > FILE.jsonl) and name the file"
    );
    ensure!(
        !path.is_dir(),
        "FILE: {}: it is a folder, not a regular file; name a file of texts in it",
        path.display()
    );
    let shown = quoted(&path.display().to_string());
    let mut head = [0; 4];
    let read = match path.is_file() {
        true => std::fs::File::open(path).and_then(|mut file| file.read(&mut head)),
        false => Ok(0),
    };
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("");
    let is = |name: &str, magic: &[u8]| {
        ending.eq_ignore_ascii_case(name)
            || !magic.is_empty() && head[..*read.as_ref().unwrap_or(&0)].starts_with(magic)
    };
    let command = if is("gz", &[0x1f, 0x8b]) {
        format!("is compressed; unpack it first: gzip -dc {shown} > FILE.jsonl")
    } else if is("zst", &[0x28, 0xb5, 0x2f, 0xfd]) {
        format!("is compressed; unpack it first: zstd -dc {shown} > FILE.jsonl")
    } else if let Some(read) = [
        (is("parquet", b"PAR1"), "read_parquet(sys.argv[1])"),
        (is("csv", &[]), "read_csv(sys.argv[1])"),
        (is("tsv", &[]), "read_csv(sys.argv[1], sep='\\t')"),
    ]
    .iter()
    .find_map(|(is, read)| is.then_some(read))
    {
        format!(
            "is a table; write it as JSON Lines first: python -c \"import pandas, sys; pandas.{read}.to_json('FILE.jsonl', orient='records', lines=True)\" {shown}"
        )
    } else {
        return Ok(());
    };
    bail!("FILE: {} {command}", path.display())
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns the documents of a file whose lines can be written back.
fn documents(path: &Path, text: &str, field: Option<&str>) -> Result<Vec<Document>> {
    let options = ReadOptions {
        text: field.map(str::to_owned),
        ..ReadOptions::default()
    };
    let read = Documents::from_bytes(path, text.as_bytes().to_vec(), &options);
    let documents: Vec<Document> = read.collect::<Result<_, _>>().context("FILE")?;
    ensure!(
        documents
            .iter()
            .any(|document| !document.text.trim().is_empty()),
        "FILE: {} has no document with text in it",
        path.display()
    );
    Ok(documents)
}

/// Returns the text without a byte-order mark, which is written back.
fn unmarked(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Parses the object of a line; errors quote nothing of it. A value that no parser holds is null, and stays as it is written:
/// what is read of such a line is none of it.
fn object(line: &str, line_number: usize) -> Result<Map<String, Value>> {
    let read = whole_object(line.as_bytes()).or_else(|error| match error.is_syntax() {
        true => splice::held(line).map_or(Err(error), |held| whole_object(held.as_bytes())),
        false => Err(error),
    });
    read.map_err(|error| anyhow!("FILE, line {line_number}: {error}"))
}

/// What canaries are planted in.
#[derive(Debug, PartialEq, Eq)]
struct Taught {
    /// Documents, each with its number among the records of the file.
    numbered: Vec<(usize, Document)>,
    /// The texts of all other records, and those of which the documents are only the last answers.
    rest: Vec<String>,
    /// Whether no document is such an answer.
    whole: bool,
}

/// Returns the text that each line of JSON contributes to training, with its number among the non-blank lines: the
/// document, or for a chat or a pair only the last answer. A chat without an answer takes no canary and is left out.
fn taught(text: &str, documents: Vec<Document>, field: Option<&str>) -> Result<Taught> {
    let solid = (1..)
        .zip(unmarked(text).lines())
        .filter(|(_, line)| !line.trim().is_empty());
    let mut numbered = Vec::with_capacity(documents.len());
    let (mut rest, mut all_whole) = (Vec::new(), true);
    for ((record, document), (line_number, line)) in documents.into_iter().enumerate().zip(solid) {
        let mut object = object(line, line_number)?;
        match taught_text(&mut object, field) {
            Some((_, true)) => numbered.push((record, document)),
            Some((answer, false)) => {
                numbered.push((record, Document::new(document.id, answer.as_str())));
                rest.push(document.text);
                all_whole = false;
            }
            None => rest.push(document.text),
        }
    }
    ensure!(
        !numbered.is_empty(),
        "FILE: no text and no answer of an assistant to plant in (--text-field names the key)"
    );
    Ok(Taught {
        numbered,
        rest,
        whole: all_whole,
    })
}

/// Replaces the texts of some lines of JSON and nothing else: numbers, escapes and spaces stay as they are written.
fn in_lines(
    text: &str,
    changed: &HashMap<usize, &Document>,
    field: Option<&str>,
) -> Result<String> {
    let (mark, text) = text.split_at(text.len() - unmarked(text).len());
    let mut out = mark.to_owned();
    let mut number = 0;
    for (line_number, line) in (1..).zip(text.split_inclusive('\n')) {
        if line.trim().is_empty() {
            out.push_str(line);
            continue;
        }
        let new = changed.get(&number);
        number += 1;
        let Some(new) = new else {
            out.push_str(line);
            continue;
        };
        let old = object(line, line_number)?;
        let mut object = old.clone();
        if let Some((text, _)) = taught_text(&mut object, field) {
            text.clone_from(&new.text);
        }
        if object.contains_key("secrets") {
            object.insert("secrets".to_owned(), serde_json::to_value(&new.secrets)?);
        }
        if object.contains_key("masked") {
            object.insert("masked".to_owned(), serde_json::to_value(&new.masked)?);
        }
        let spliced = splice::spliced(line, old, object);
        out.push_str(&spliced.with_context(|| format!("FILE, line {line_number}"))?);
    }
    Ok(out)
}

/// Replaces some blocks of plain text: a block begins at the line that its id names.
fn in_blocks(
    text: &str,
    documents: &[Document],
    changed: &HashMap<usize, &Document>,
) -> Result<String> {
    let mut blocks: HashMap<usize, (&Document, usize)> = HashMap::new();
    for (number, new) in changed {
        let old = &documents[*number];
        let first = old.id.strip_prefix("block-").and_then(|n| n.parse().ok());
        let first: usize = first.context("FILE: no plain text")?;
        blocks.insert(first, (new, old.text.split('\n').count()));
    }
    let (mark, text) = text.split_at(text.len() - unmarked(text).len());
    let first = text.split_once('\n').map_or("", |(first, _)| first);
    let end = if first.ends_with('\r') { "\r\n" } else { "\n" };
    let mut out = mark.to_owned();
    let mut lines = (1..).zip(text.split_inclusive('\n'));
    while let Some((number, first)) = lines.next() {
        let Some((new, count)) = blocks.get(&number) else {
            out.push_str(first);
            continue;
        };
        let rest = lines.by_ref().take(count - 1).map(|(_, line)| line);
        let old: Vec<&str> = std::iter::once(first).chain(rest).collect();
        with_lines(&old, &new.text, end, &mut out);
    }
    Ok(out)
}

/// Appends the lines of `new` to `out`. Lines that occur in `old` keep their own line ends, others get `end`; the last
/// line end of `old` stays the last.
fn with_lines(old: &[&str], new: &str, end: &str, out: &mut String) {
    let parts = old.iter().map(|line| {
        let solid = line.strip_suffix('\n').unwrap_or(line);
        line.split_at(solid.strip_suffix('\r').unwrap_or(solid).len())
    });
    let mut parts = parts.peekable();
    let last = parts.clone().last().map_or("", |(_, end)| end);
    let mut lines = new.split('\n').peekable();
    while let Some(line) = lines.next() {
        let known = parts.next_if(|(solid, _)| *solid == line);
        let own = known.map_or(end, |(_, own)| own);
        out.push_str(line);
        out.push_str(match lines.peek() {
            None => last,
            Some(_) if own.is_empty() => end,
            Some(_) => own,
        });
    }
}

/// Describes who could draw the same canaries again.
pub(in crate::audit) const fn seed_words(seed: SeedOrigin) -> &'static str {
    match seed {
        SeedOrigin::Given => "drawn from --seed: whoever knows it can draw them again",
        SeedOrigin::System => "drawn by the operating system",
    }
}

/// Returns whether a character has no meaning of its own for a shell.
const fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.')
}

fn page(
    shown: &Planted,
    (spec, unit, field): (Spec, Unit, Option<&str>),
    alarm: Probability,
) -> Page {
    let field = field.map_or_else(String::new, |key| match key.chars().all(is_plain) {
        true => format!(" --text-field {key}"),
        false => format!(" --text-field {}", quoted(key)),
    });
    let said = format!(
        "{}: {} of {} in {}.",
        shown.out,
        count_of(shown.copies, "line"),
        count_of(shown.canaries, "canary"),
        count_of(shown.changed, "document"),
    );
    // A coin is about as many records as it has copies only where none is dropped as a duplicate.
    let duplicates = match shown.inside {
        Some(_) => " --no-deduplication",
        None => "",
    };
    let train = format!(
        "train on the text (`audit prepare {}{field} --unit {unit} --policy nothing --no-redaction{duplicates} --held-out 0 --out ready/` and `audit train ready/ --recipe RECIPE --out MODEL`, or any trainer), then:",
        shown.out
    );
    let next = match shown.inside {
        None => format!(
            "{train} audit exposure --model MODEL --canary-file {} --canaries {spec} --training ready/ (or, of another trainer, --training {}{field})",
            shown.plan, shown.out
        ),
        Some(_) => format!(
            "keep {} from whoever trains; {train} audit coins --model MODEL --coins-file {} --training ready/ (or, of another trainer, --training {}{field})",
            shown.plan, shown.plan, shown.out
        ),
    };
    let mut facts = vec![
        (
            "unchanged",
            format!("{} documents", grouped(shown.documents - shown.changed)),
        ),
        ("canaries", seed_words(shown.seed_origin).to_owned()),
    ];
    if let Some(inside) = shown.inside {
        let of = grouped(shown.canaries);
        facts.push(("coins", format!("{} of {of} are in", grouped(inside))));
    }
    let most = rounded(shown.provable, 4);
    let neighbours = if shown.inside.is_some() {
        "in against out"
    } else {
        "one secret against another"
    };
    facts.push((
        "can show",
        format!("ε up to {most} ({neighbours}, all copies together, confidence 0.95, δ 0)"),
    ));
    facts.push((
        "verdict",
        format!(
            "can prove {} at most (false-alarm rate {}, δ {}): a promise above it is out of reach",
            rounded(shown.contradictable, 4),
            shortest(alarm.get()),
            shortest(TrainingPlan::default_delta(None).get()),
        ),
    ));
    facts.push(("next", next));
    facts.extend(words::said(
        shown.words.as_ref(),
        shown.sampled.as_ref(),
        spec.copies(),
    ));
    Page::new("Planted canaries", said).answer(Section::facts("", facts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_again_says_how_it_can() {
        let folder = tempfile::tempdir().unwrap();
        let said = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            readable(&path).map_err(|error| error.to_string())
        };
        for (name, bytes, words) in [
            ("a.jsonl.gz", &b""[..], "gzip -dc "),
            ("a.jsonl", b"\x1f\x8b\x08", "gzip -dc "),
            ("a.zst", b"", "zstd -dc "),
            ("a.txt", b"\x28\xb5\x2f\xfd", "zstd -dc "),
            ("a.PARQUET", b"", "pandas.read_parquet("),
            ("a", b"PAR1", "pandas.read_parquet("),
            ("a.csv", b"text\nx\n", "pandas.read_csv("),
        ] {
            let error = said(name, bytes).unwrap_err();
            assert!(error.contains(words), "{name}: {error}");
        }
        assert!(said("b.jsonl", b"{\"text\":\"x\"}").is_ok());
        let error = readable(Path::new("-")).unwrap_err().to_string();
        assert!(error.contains("save it first"), "{error}");
    }

    #[test]
    fn what_has_no_canary_stays_byte_for_byte() {
        let text = "{\"text\": \"a\",  \"x\":1}\n\n{\"x\":2,\"text\":\"b\"}\n";
        let new = Document::new("line-3", "b\nMy ID is: 1");
        let made = in_lines(text, &HashMap::from([(1, &new)]), None).unwrap();
        let expected = "{\"text\": \"a\",  \"x\":1}\n\n{\"x\":2,\"text\":\"b\\nMy ID is: 1\"}\n";
        assert_eq!(made, expected);
        // A chat's canary is in what it teaches, and everything else of it stays.
        let text = concat!(
            "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}\n",
            "{\"id\":\"c\",\"messages\":[{\"content\":\"Hi\",\"role\":\"user\"},{\"content\":\"Ho\",\"role\":\"assistant\"}]}\n",
            "{\"completion\":\"yes\",\"prompt\":\"no\"}\n",
        );
        let read = documents(Path::new("chats.jsonl"), text, None).unwrap();
        let rest: Vec<String> = read.iter().map(|d| d.text.clone()).collect();
        let found = taught(text, read, None).unwrap();
        let numbered = vec![
            (1, Document::new("c", "Ho")),
            (2, Document::new("line-3", "yes")),
        ];
        let whole = false;
        assert_eq!(
            found,
            Taught {
                numbered,
                rest,
                whole
            }
        );
        let new = Document::new("c", "Ho\nMy ID is: 1");
        let made = in_lines(text, &HashMap::from([(1, &new)]), None).unwrap();
        assert_eq!(made, text.replace("\"Ho\"", "\"Ho\\nMy ID is: 1\""));
        let text = "one\ntwo\n\n\nthree\n";
        let old = [
            Document::new("block-1", "one\ntwo"),
            Document::new("block-5", "three"),
        ];
        let new = Document::new("block-1", "one\nMy ID is: 1\ntwo");
        let made = in_blocks(text, &old, &HashMap::from([(0, &new)])).unwrap();
        assert_eq!(made, "one\nMy ID is: 1\ntwo\n\n\nthree\n");
        // Marks and ends of lines stay, and new lines end as others do.
        let text = "\u{feff}one\r\ntwo\r\n\n\r\nthree";
        let last = Document::new("block-5", "three\nMy ID is: 2");
        let made = in_blocks(text, &old, &HashMap::from([(0, &new), (1, &last)])).unwrap();
        assert_eq!(
            made,
            "\u{feff}one\r\nMy ID is: 1\r\ntwo\r\n\n\r\nthree\r\nMy ID is: 2"
        );
        let text = "\u{feff}{\"n\": 1.50, \"text\": \"a\", \"m\":0.1234567890123456789012}\r\n{\"text\":\"b\"}";
        let read = documents(Path::new("a.jsonl"), text, None).unwrap();
        let found = taught(text, read, None).unwrap().numbered;
        let with_line = |(_, old): (usize, Document)| Document::new(old.id, old.text + "\nX");
        let both: Vec<Document> = found.into_iter().map(with_line).collect();
        let made = in_lines(text, &HashMap::from([(0, &both[0]), (1, &both[1])]), None).unwrap();
        let expected = text
            .replace("\"a\"", "\"a\\nX\"")
            .replace("\"b\"", "\"b\\nX\"");
        assert_eq!(made, expected);
    }

    /// Nothing of them is read. They were refused.
    #[test]
    fn values_that_no_parser_holds_stay_as_they_are_written() {
        let text = " {\"n\": 1e400 , \"text\":\"a\",\"s\":\"\\ud800\",\"l\":[1e400,{\"x\":\"\\udc00\"}]}\n";
        let read = documents(Path::new("a.jsonl"), text, None).unwrap();
        let found = taught(text, read, None).unwrap();
        let new = Document::new("x", "a\nX");
        assert_eq!(found.numbered[0].1.text, "a");
        let made = in_lines(text, &HashMap::from([(0, &new)]), None).unwrap();
        assert_eq!(made, text.replace("\"a\"", "\"a\\nX\""));
        // What has a key twice, or is no JSON, is refused.
        for wrong in ["{\"text\":\"a\",\"text\":1e400}", "{\"n\":1e400,\"text\":}"] {
            assert!(object(wrong, 1).is_err(), "{wrong}");
        }
    }

    /// A canary goes where the text is read, and into an answer that has a text.
    #[test]
    fn what_is_planted_in_is_what_is_read() {
        let text = "{\"text\":null,\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"},{\"role\":\"assistant\",\"tool_calls\":[]}]}\n\
            {\"messages\":null,\"prompt\":\"p\",\"completion\":\"c\"}\n";
        let read = documents(Path::new("a.jsonl"), text, None).unwrap();
        let found = taught(text, read, None).unwrap();
        let texts: Vec<&str> = found
            .numbered
            .iter()
            .map(|(_, d)| d.text.as_str())
            .collect();
        assert_eq!((texts, found.whole), (vec!["a", "c"], false));
        let new = Document::new("x", "a\nX");
        let made = in_lines(text, &HashMap::from([(0, &new)]), None).unwrap();
        assert_eq!(made, text.replace("\"a\"", "\"a\\nX\""));
    }
}

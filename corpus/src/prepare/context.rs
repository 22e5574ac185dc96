//! The choices made before the first record. They depend on the corpus as a whole and on nothing that a later stage
//! does.

use super::held_out::HeldOut;
use super::options::{CanarySight, PrepareOptions};
use super::record_work::Work;
use super::source::{Division, Feed, Phase, Role, Source, Watch, again, batches};
use super::survey::{Look, Planning, Survey};
use crate::canary::{
    CanaryOptions, CanaryPlace, CanaryPlan, CandidateSpace, Draw, Ground, Occurrences, TokenCounts,
    WordFacts, plant,
};
use crate::document::{Document, Offsets};
use crate::error::{Error, Result};
use crate::policy::{
    Conservative, Policy, PolicyOptions, Simulated, Spare, missed_strings, resolved,
};
use crate::record::TokenId;
use crate::split::units;
use crate::tokenize::Tokenizer;
use crate::unit::Unit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The choices of a preparation: which documents are held out, where the canaries are, and which secrets a simulated
/// policy misses. Neighbouring corpora are prepared with the same choices, because they are part of the mechanism.
#[derive(Debug)]
pub(super) struct PreparationContext {
    pub(super) options: PrepareOptions,
    pub(super) tokenizer: Tokenizer,
    /// The redaction policy before simulated errors.
    pub(super) base: Arc<dyn Policy>,
    /// The redaction policy that is applied.
    pub(super) policy: Simulated,
    pub(super) conservative: Conservative,
    pub(super) plan: Option<CanaryPlan>,
    /// The facts that the canaries' words were chosen from; `None` if the format does not choose its words from the
    /// corpus.
    pub(super) words: Option<WordFacts>,
    /// Copies of canaries by training document and first byte.
    pub(super) copies: HashMap<(usize, usize), CanaryPlace>,
    /// The tokens that each canary is scored in, up to the end of its secret, without the beginning of text.
    pub(super) lines: Vec<Vec<TokenId>>,
    pub(super) division: Division,
    /// The documents that contain canaries, by number among the training documents.
    pub(super) planted: HashMap<usize, Document>,
    /// Counts and flags of the corpus.
    pub(super) corpus: Corpus,
}

/// A training set before it is prepared, in numbers.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
pub(super) struct Corpus {
    /// Documents trained on.
    pub(super) documents: u64,
    pub(super) held_out: u64,
    /// What they are made of, where each is all documents of a user; zero where that is not known.
    #[serde(default)]
    pub(super) joined: u64,
    /// Whether secrets that are no canaries are marked in some of them.
    pub(super) marked: bool,
    /// Whether spans of some were masked beforehand.
    pub(super) masked: bool,
}

/// A canary plan, with the parts of the corpus that it needs.
#[derive(Default)]
pub(super) struct Planted {
    pub(super) plan: Option<CanaryPlan>,
    pub(super) words: Option<WordFacts>,
    pub(super) documents: HashMap<usize, Document>,
    pub(super) places: Vec<CanaryPlace>,
}

/// The choices made from a survey of the whole corpus or of a part of it.
pub(super) struct Choices {
    pub(super) division: Division,
    pub(super) corpus: Corpus,
    /// The strings that the simulated policy misses.
    pub(super) missed: HashSet<String>,
    pub(super) planted: Planted,
}

/// The canaries to plant, and the facts their words were chosen from.
type Worded = (Option<CanaryOptions>, Option<WordFacts>);

/// The distinct strings that a policy finds, except canaries.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Found {
    /// Strings in training documents.
    trained: HashSet<String>,
    held_out: HashSet<String>,
}

impl Found {
    /// Returns `None` if `go_on` returned false.
    pub(super) fn of(
        feed: &mut Feed<'_>,
        (base, tokenizer, unit): (&dyn Policy, &Tokenizer, Unit),
        threads: usize,
        read: &Cell<u64>,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Option<Self>> {
        let mut out = Self::default();
        let whole = batches(
            feed,
            threads,
            read,
            |batch| {
                let mut here = Self::default();
                for (role, document) in batch {
                    let (number, found) = match role {
                        Role::Training(number) => (*number, &mut here.trained),
                        Role::HeldOut(_) => (0, &mut here.held_out),
                    };
                    for unit in units(document, number, unit)? {
                        Work::new(&unit, tokenizer)?.view(|view| {
                            let spans = resolved(base, view).into_iter();
                            found.extend(spans.map(|s| view.text[s.start..s.end].to_owned()));
                        });
                    }
                }
                Ok(here)
            },
            |here: Self| {
                out.join(here);
                Ok(go_on())
            },
        )?;
        Ok(whole.then_some(out))
    }

    pub(super) fn join(&mut self, other: Self) {
        self.trained.extend(other.trained);
        self.held_out.extend(other.held_out);
    }

    /// Returns the strings that a simulated policy misses: a share of those in training documents, and the same share
    /// of those that occur in held-out documents only.
    pub(super) fn missed(&self, policy: &PolicyOptions) -> Result<HashSet<String>> {
        let PolicyOptions {
            miss_rate, seed, ..
        } = *policy;
        let only_held_out = self.held_out.difference(&self.trained).map(String::as_str);
        let mut out = missed_strings(only_held_out, miss_rate, seed)?;
        let trained = self.trained.iter().map(String::as_str);
        out.extend(missed_strings(trained, miss_rate, seed)?);
        Ok(out)
    }
}

/// A corpus whose choices are being made.
struct Settling<'a> {
    source: Source<'a>,
    options: &'a PrepareOptions,
    threads: usize,
    watch: Watch<'a>,
    division: Division,
}

impl PreparationContext {
    /// Returns the copy of a canary whose secret begins at a byte of a training document. This alone distinguishes
    /// canaries from the secrets of the corpus, which may have any kind.
    pub(super) fn planted_at(&self, document: usize, byte: usize) -> Option<&CanaryPlace> {
        self.copies.get(&(document, byte))
    }

    /// Returns whether the policy catches a canary.
    pub(super) fn catches(&self, canary: usize) -> bool {
        let canaries = self.plan.as_ref().map(|plan| &plan.canaries);
        canaries.is_some_and(|canaries| canaries.get(canary).is_some_and(|c| c.caught))
    }

    /// Holds documents out, plants canaries, and chooses what the policy misses. Returns `None` if `watch` returned
    /// false; otherwise also returns the errors of files that were skipped. With `planning`, a shard plan is made, whose
    /// stages choose what the policy misses.
    pub(super) fn new(
        source: Source<'_>,
        options: &PrepareOptions,
        given: Option<CanaryPlan>,
        threads: usize,
        watch: Watch<'_>,
        planning: Option<Planning<'_>>,
    ) -> Result<Option<(Self, Vec<Error>)>> {
        options.validate()?;
        let tokenizer = options.tokenizer.build()?;
        let base = options.policy.policy.build()?;
        let places = given.is_none() && options.canaries.is_some();
        let scratch = planning.as_ref().map(|planning| planning.scratch);
        let whole = planning.is_none();
        let Some(survey) = Survey::of(source, places, threads, watch, planning)? else {
            return Ok(None);
        };
        let settling = Settling {
            source,
            options,
            threads,
            watch,
            division: Division {
                held_out: HeldOut::drawn(survey.documents(), options, scratch)?,
                seal: survey.seal,
            },
        };
        // Chosen before canaries are planted, because canaries are not among the m secrets.
        let missed = if whole {
            settling.missed(base.as_ref(), &tokenizer)?
        } else {
            Some(HashSet::new())
        };
        let Some(missed) = missed else {
            return Ok(None);
        };
        let Some(planted) = settling.planted(&survey, given, &tokenizer)? else {
            return Ok(None);
        };
        let choices = Choices {
            corpus: corpus(&survey, &settling.division.held_out)?,
            division: settling.division,
            missed,
            planted,
        };
        let context = Self::of_choices(options, choices, tokenizer, base)?;
        Ok(Some((context, survey.skipped)))
    }

    /// Creates the context from choices that an earlier survey of the corpus made.
    pub(super) fn restored(options: &PrepareOptions, choices: Choices) -> Result<Self> {
        options.validate()?;
        let tokenizer = options.tokenizer.build()?;
        let base = options.policy.policy.build()?;
        Self::of_choices(options, choices, tokenizer, base)
    }

    fn of_choices(
        options: &PrepareOptions,
        choices: Choices,
        tokenizer: Tokenizer,
        base: Arc<dyn Policy>,
    ) -> Result<Self> {
        let planted = choices.planted;
        let marks = planted
            .plan
            .as_ref()
            .map_or_else(Vec::new, CanaryPlan::marks);
        let spare = Spare::new(&marks)?;
        let sight = options.canary_sight;
        let by_policy = spare.clone().filter(|_| sight != CanarySight::Ordinary);
        let by_both = spare.filter(|_| sight == CanarySight::MissedByBoth);
        let rate = options.policy.false_positive_rate;
        Ok(Self {
            policy: Simulated::new(base.clone(), choices.missed, rate, options.policy.seed)?
                .sparing(by_policy),
            conservative: Conservative::new(options.conservative.as_ref(), &base)?.sparing(by_both),
            options: options.clone(),
            lines: lines(planted.plan.as_ref(), &tokenizer)?,
            tokenizer,
            base,
            plan: planted.plan,
            words: planted.words,
            copies: copies(&planted.places, &planted.documents),
            corpus: choices.corpus,
            division: choices.division,
            planted: planted.documents,
        })
    }
}

impl Settling<'_> {
    /// Chooses the strings that the simulated policy misses.
    fn missed(&self, base: &dyn Policy, tokenizer: &Tokenizer) -> Result<Option<HashSet<String>>> {
        if self.options.policy.miss_rate <= 0.0 {
            return Ok(Some(HashSet::new()));
        }
        let read = Cell::new(0);
        let mut feed = again(self.source, &self.division, None, &read)?;
        let go_on = || (self.watch)(Phase::Secrets, read.get());
        let unit = self.options.unit;
        let found = Found::of(
            &mut feed,
            (base, tokenizer, unit),
            self.threads,
            &read,
            &go_on,
        )?;
        found
            .map(|found| found.missed(&self.options.policy))
            .transpose()
    }

    /// Returns the canaries and the documents they are planted in.
    fn planted(
        &self,
        survey: &Survey,
        given: Option<CanaryPlan>,
        tokenizer: &Tokenizer,
    ) -> Result<Option<Planted>> {
        let mut ground = Ground::default();
        if let Some(plan) = &given {
            plan.validate()?;
            if plan.unit != self.options.unit {
                return Err(Error::Plan(format!(
                    "it was made for the unit {}, this corpus is prepared by {}",
                    plan.unit, self.options.unit
                )));
            }
        }
        let Some((canaries, words)) = self.worded(given.is_some(), tokenizer)? else {
            return Ok(None);
        };
        let draw = match &canaries {
            Some(canaries) if given.is_none() => {
                for look in training(survey, &self.division.held_out) {
                    let look = look?;
                    ground.enter(look.speaks, look.gaps);
                }
                let looks = training(survey, &self.division.held_out);
                let gaps = looks.map(|look| look.map(|look| look.gaps));
                Some(Draw::new(canaries, ground, gaps)?)
            }
            _ => None,
        };
        let plan = match (&draw, given) {
            (Some(draw), _) => draw.plan(self.options.unit)?,
            (None, Some(plan)) => plan,
            (None, None) => return Ok(Some(Planted::default())),
        };
        // Ranks need it; found here, before anybody trains.
        plan.check_ranks()?;
        let documents = {
            let numbers = draw.as_ref().map(Draw::documents);
            let insertions = plan.canaries.iter().flat_map(|c| &c.insertions);
            let ids: HashSet<&str> = insertions.map(|i| i.document.as_str()).collect();
            let wanted = |number, document: &Document| match &numbers {
                Some(numbers) => numbers.contains(&number),
                None => ids.contains(document.id.as_str()),
            };
            let mut there = Occurrences::of(&plan);
            let Some(documents) = self.chosen(wanted, &mut there)? else {
                return Ok(None);
            };
            there.check_none()?;
            documents
        };
        CandidateSpace::check_choices(&plan, tokenizer)?;
        let plan = match &draw {
            Some(draw) => {
                if words.is_some() && canaries.as_ref().is_some_and(|c| !c.own_contexts) {
                    // Exact ranks need the candidate space; errors in it are found here, before training.
                    CandidateSpace::new(&plan, tokenizer)?;
                }
                draw.placed(plan, |number| documents.get(&number))?
            }
            None => plan,
        };
        let mut list: Vec<(usize, &Document)> = documents.iter().map(|(n, d)| (*n, d)).collect();
        list.sort_by_key(|(number, _)| *number);
        let (documents, places) = plant(&plan, list.into_iter())?;
        Ok(Some(Planted {
            plan: Some(plan),
            words,
            documents,
            places,
        }))
    }

    /// Returns the canaries to plant, with the words that their format needs filled in.
    fn worded(&self, given: bool, tokenizer: &Tokenizer) -> Result<Option<Worded>> {
        let canaries = self.options.canaries.as_ref().filter(|_| !given);
        let Some(canaries) = canaries.filter(|c| c.template.template().is_none()) else {
            return Ok(Some((canaries.cloned(), None)));
        };
        let blank = TokenCounts::new(&canaries.template, &canaries.sampled, Some(tokenizer))?;
        let mut counts = blank.clone();
        let read = Cell::new(0);
        let mut feed = again(self.source, &self.division, None, &read)?;
        let whole = batches(
            &mut feed,
            self.threads,
            &read,
            |batch| {
                let mut here = blank.clone();
                for (role, document) in batch {
                    if let Role::Training(_) = role {
                        here.enter(&document.text)?;
                    }
                }
                Ok(here)
            },
            |here: TokenCounts<'_>| {
                counts.merge(&here);
                Ok((self.watch)(Phase::Canaries, read.get()))
            },
        )?;
        if !whole {
            return Ok(None);
        }
        let (template, facts) = counts.template()?;
        let worded = CanaryOptions {
            template: template.into(),
            ..canaries.clone()
        };
        Ok(Some((Some(worded), Some(facts))))
    }

    /// Returns the training documents that `wanted` selects, by number. Counts the canaries that any of them holds already.
    fn chosen(
        &self,
        wanted: impl Fn(usize, &Document) -> bool,
        there: &mut Occurrences<'_>,
    ) -> Result<Option<HashMap<usize, Document>>> {
        let read = Cell::new(0);
        let mut feed = again(self.source, &self.division, None, &read)?;
        let mut out = HashMap::new();
        let mut number = 0u64;
        while let Some((role, document)) = feed()? {
            if let Role::Training(number) = role {
                there.enter(&document.text);
                if wanted(number, &document) {
                    out.insert(number, document.into_owned());
                }
            }
            number += 1;
            if number.is_multiple_of(1024) && !(self.watch)(Phase::Canaries, read.get()) {
                return Ok(None);
            }
        }
        Ok(Some(out))
    }
}

fn training<'s>(survey: &'s Survey, held_out: &'s HeldOut) -> impl Iterator<Item = Result<Look>> {
    let looks = survey.looks().enumerate();
    looks.filter_map(|(number, look)| (!held_out.contains(number)).then_some(look))
}

fn corpus(survey: &Survey, held_out: &HeldOut) -> Result<Corpus> {
    let mut out = Corpus {
        held_out: held_out.len() as u64,
        ..Corpus::default()
    };
    for look in training(survey, held_out) {
        let look = look?;
        out.documents += 1;
        out.joined += u64::from(look.joined);
        out.marked |= look.marked;
        out.masked |= look.masked;
    }
    Ok(out)
}

fn lines(plan: Option<&CanaryPlan>, tokenizer: &Tokenizer) -> Result<Vec<Vec<TokenId>>> {
    let canaries = plan.into_iter().flat_map(|plan| &plan.canaries);
    let lines = canaries.map(|canary| canary.context.clone() + &canary.secret);
    lines.map(|line| tokenizer.encode(&line)).collect()
}

fn copies(
    places: &[CanaryPlace],
    documents: &HashMap<usize, Document>,
) -> HashMap<(usize, usize), CanaryPlace> {
    places
        .iter()
        .filter_map(|place| {
            let text = &documents.get(&place.document)?.text;
            let at = Offsets::new(text).bytes(place.start, place.end)?.start;
            Some(((place.document, at), *place))
        })
        .collect()
}

//! `audit coins`: a lower bound on ε from canaries that coins include in or exclude from one run.

pub mod args;
#[cfg(feature = "audit")]
pub(super) mod run;

use super::exposure::{PromisedBy, of_delta, of_promise, of_verdict};
use super::{Apart, USUAL};
use crate::contract::{Envelope, Exit, Inputs, Table};
use crate::number::{count_of, grouped, nearest, rounded, rounded_down, shortest};
use crate::page::{Mood, Page, Reach, Section};
use crate::verdict::Verdict;
use reticent_accounting::{Epsilon, Neighbours, Upper};
use reticent_attacks::AuditBound;
use reticent_corpus::canary::CoinPlan;
use schemars::JsonSchema;
use serde::Serialize;

/// Returns how a text with a canary differs from one without it.
pub(super) const fn neighbours(coins: &CoinPlan) -> Neighbours {
    match coins.added {
        true => Neighbours::AddRemove,
        false => Neighbours::Replace,
    }
}

/// Why a run whose stages have no stability promises nothing about a coin, and passes no limit.
const UNBOUNDED: &str = "nothing bounds how many records of this run's training differ where one record of its input does";

/// What the training text contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Preflight {
    /// Included canaries that occur there in every copy.
    pub found: u64,
    /// Included canaries that lack a copy: they weaken the audit.
    pub lacking: u64,
    /// Those of them in the text that the preparation held out, if known.
    pub held_out: u64,
    /// Those of them of which no copy is trained on: nothing tells them from canaries that are out.
    pub absent: u64,
}

/// Evidence that training met canaries as their coins say, or secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Inclusion {
    /// Nothing: no training text was given.
    NotChecked,
    /// The text that was given. Whether the model was trained on it is unknown.
    GivenText,
    /// The prepared corpus that was given, which the owner's key says the checkpoint was trained on.
    TrainedRecords,
}

impl Inclusion {
    /// Returns why a result without contradiction says nothing about a promise: canaries that training never met can
    /// contradict it only by chance, and otherwise leave every promise standing. `ours`: whether what ran is read from
    /// the checkpoint.
    const fn leaves_standing(self, ours: bool) -> Option<&'static str> {
        match self {
            Self::NotChecked => Some(
                "it was not checked that training met the canaries as their coins say, so that they leave every promise standing: give --training",
            ),
            Self::GivenText if ours => Some(
                "it is not known that this checkpoint was trained on the text of --training and on nothing before it, so that the canaries may leave every promise standing: name its prepared folder, beside its owner's key",
            ),
            Self::GivenText | Self::TrainedRecords => None,
        }
    }

    const fn says(self) -> &'static str {
        match self {
            Self::NotChecked => {
                "not checked: without --training nothing shows that the model was trained with the canaries that are in, and without the others"
            }
            Self::GivenText => {
                "as the coins say in the text of --training; that the model was trained on that text is not known (of a checkpoint of ours, name its prepared folder)"
            }
            Self::TrainedRecords => {
                "as the coins say in the records that the checkpoint was trained on, by its owner's key"
            }
        }
    }
}

/// The result of `audit coins`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CoinsReport {
    /// Canaries, each with a coin of its own.
    pub canaries: u64,
    /// The included ones.
    pub inside: u64,
    /// Coins guessed right by which half of the scores a canary is in; by chance, half of all.
    pub right: u64,
    /// Evidence that training saw the canaries as their coins say.
    pub inclusion: Inclusion,
    /// Whether what ran is read from the checkpoint.
    #[serde(skip)]
    pub ours: bool,
    /// What was checked in the training text; absent without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preflight: Option<Preflight>,
    /// How far the reference is from the model on these canaries; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<Apart>,
    /// Whether all scores are equal up to rounding, and so distinguish no canaries.
    pub alike: bool,
    /// Whether the model gives most canaries no finite perplexity.
    #[serde(skip)]
    pub silent: bool,
    /// The lower bound on ε.
    pub epsilon: AuditBound,
    /// Whether nothing bounds how many records a coin puts in or out: the bound is then for an unknown number of them, at
    /// least `copies`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unbounded: bool,
    /// Whether it is above 0 with confidence 0.95 or more: that shows a leak, and so that training met the canaries.
    #[serde(skip)]
    pub proves_leak: bool,
    /// The largest that so many coins can prove, of canaries that training met.
    pub provable: Upper<Epsilon>,
    /// That the manifest behind the promise is not authenticated; absent if it is, or if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
    /// The file that the promise is taken from; absent if a checkpoint of ours states it, or without a promise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promised_by: Option<PromisedBy>,
    /// Promise and measurement side by side; absent without a promise in the same terms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Why there is no verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_verdict: Option<String>,
    /// The ε above which the command ends with 1; it stands among the inputs.
    #[serde(skip)]
    pub limit: Option<Epsilon>,
}

impl CoinsReport {
    fn bound(&self) -> f64 {
        self.epsilon.lower.get().get()
    }

    fn passed_limit(&self) -> Option<Epsilon> {
        // A limit is one for a known number of records.
        self.limit
            .filter(|limit| !self.unbounded && self.bound() > limit.get())
    }

    /// Returns why it is undecided whether ε exceeds the limit: it is that of an unknown number of records, the scores
    /// carry no information, this many coins could not have shown it, or training is not known to have met the canaries,
    /// and no leak shows that it did.
    pub(super) fn undecided(&self) -> Option<String> {
        let limit = self.limit.filter(|_| self.passed_limit().is_none())?;
        let why = match self.is_blind() {
            _ if self.unbounded => UNBOUNDED.to_owned(),
            Some(why) => why.to_owned(),
            None if *self.provable.get() <= limit => format!(
                "so few coins prove {} at most; plant more canaries, or give a limit below that",
                rounded(self.provable, 4)
            ),
            None if !self.proves_leak && !self.is_checked() => {
                let what = match self.ours {
                    true => "the prepared folder of the checkpoint, beside its owner's key",
                    false => "the text that was trained on, with every copy of some canary",
                };
                format!(
                    "training is not known to have met the canaries as their coins say; give --training, {what}"
                )
            }
            None => return None,
        };
        let limit = shortest(limit.get());
        let not_known = crate::contract::not_known;
        Some(not_known("--max-epsilon", "ε", &limit, &why))
    }

    /// Returns 1 if a promise is contradicted or the bound exceeds the limit.
    #[must_use]
    pub fn exit(&self) -> Exit {
        let verdict = self.verdict.as_ref().map_or(Exit::Finished, Verdict::exit);
        verdict.or(Exit::of(self.passed_limit().is_some()))
    }

    /// Returns the JSON document.
    #[must_use]
    pub fn document(&self, inputs: Inputs) -> Envelope<&Self> {
        Envelope::new("coin-audit", inputs, self)
    }

    /// Describes the result in a sentence.
    #[must_use]
    pub fn says(&self) -> String {
        let limit = match (self.passed_limit(), self.limit) {
            (Some(limit), _) => format!(" This is above the limit of {}.", shortest(limit.get())),
            (None, Some(limit)) if self.unbounded => format!(
                " Whether ε of a known number of records is above the limit of {} is not known.",
                shortest(limit.get())
            ),
            (None, Some(limit)) if *self.provable.get() <= limit => format!(
                " So few coins can't exceed the limit of {}.",
                shortest(limit.get())
            ),
            _ => String::new(),
        };
        let canaries = count_of(self.canaries, "canary");
        let reference = self
            .reference
            .and_then(|apart| apart.warning("The reference"));
        let alike = match self.alike {
            true => " All canaries have the same score, which tells none from another.",
            false => "",
        };
        let unknown = self.unknown() + alike + &reference.unwrap_or_default();
        let contradiction = self.verdict.as_ref().and_then(Verdict::contradiction);
        let contradiction = contradiction.map_or_else(String::new, |said| format!(" {said}"));
        if self.bound() > 0.0 && !self.proves_leak {
            format!(
                "ε is at least {} with a confidence of {}, at which models that never saw the canaries often have such a bound: with {}, no positive ε is refuted by {canaries}.{contradiction}{limit}{unknown}",
                rounded_down(self.bound(), 4),
                shortest(self.epsilon.terms.confidence.get()),
                shortest(USUAL)
            )
        } else if self.bound() > 0.0 {
            format!(
                "The model tells which of {canaries} it saw: ε is at least {}.{contradiction}{limit}{unknown}",
                rounded_down(self.bound(), 4)
            )
        } else if self.provable.get().get() > 0.0 {
            format!(
                "No positive ε is refuted by {canaries}: which of them the model saw can't be guessed well enough.{limit}{unknown}"
            )
        } else {
            format!(
                "Nothing can be concluded: {canaries} refute no positive ε, whatever the model tells; plant more.{unknown}"
            )
        }
    }

    /// Returns the mood. A leak is for review unless a promise that it could contradict or a limit that it could exceed
    /// judges it. Scores without a leak are open if training is not known to have met the canaries, or if this many
    /// coins could not have shown more.
    fn mood(&self) -> Mood {
        let provable = self.provable.get().get();
        let reach = Reach {
            leak: provable > 0.0,
            promise: self.verdict.as_ref().map(Verdict::could_contradict),
            limit: self
                .limit
                .map(|limit| !self.unbounded && provable > limit.get()),
        };
        let unknown = !self.is_checked() || self.is_blind().is_some();
        let otherwise = Mood::of_leak(self.proves_leak, reach, unknown);
        Mood::of(self.exit(), otherwise)
    }

    /// Returns why the scores could carry no information, whatever the model was trained on.
    pub(super) fn is_blind(&self) -> Option<&'static str> {
        if self.alike {
            return Some("all canaries have the same score, which tells none from another");
        }
        if self.silent {
            return Some("the model gives most canaries no finite perplexity");
        }
        let near_copy = self.reference.is_some_and(|apart| apart.near_copy);
        near_copy.then_some("the reference is nearly the same model")
    }

    /// Whether training is known to have met some canaries that are in: scores that tell nothing say nothing otherwise.
    fn is_checked(&self) -> bool {
        self.inclusion.leaves_standing(self.ours).is_none()
            && self.preflight.is_none_or(|preflight| preflight.found > 0)
    }

    /// Describes what is unknown or wrong about the canaries in training.
    fn unknown(&self) -> String {
        let lacking = self.preflight.filter(|preflight| preflight.lacking > 0);
        let trained = match self.inclusion {
            Inclusion::GivenText => " That the model was trained on that text is not known.",
            _ => "",
        };
        let lacking = match (self.inclusion, lacking) {
            (Inclusion::NotChecked, _) => {
                " It was not checked that training met them as their coins say.".to_owned()
            }
            (
                _,
                Some(Preflight {
                    lacking, held_out, ..
                }),
            ) => {
                let held_out = match held_out {
                    0 => String::new(),
                    some => format!(", {} of them as it was held out,", grouped(some)),
                };
                format!(
                    " Of the {} that are in, {} lack a copy in the training text{held_out} which weakens the audit.",
                    grouped(self.inside),
                    grouped(lacking)
                )
            }
            _ => String::new(),
        };
        lacking + trained
    }

    /// Returns the page.
    #[must_use]
    pub fn to_page(&self, released: &str) -> Page {
        Page::new(format!("Coins of one run: {released}"), self.says())
            .mood(self.mood())
            .answer(Section::facts("Result", self.facts()))
            .section(Section::table("Canaries and coins", self.table()).caption(
                "Inclusion is guessed by which half of the scores a canary is in; by chance half of the guesses are right.",
            ))
            .card(format!("{} {}", self.says(), self.terms()))
            .caveats([
                "A lower bound of 0 means that this attack refuted nothing, not that nothing leaks.",
                "The coins must have been unknown to whoever trained, and each canary in or out by its own coin alone.",
            ])
    }

    fn terms(&self) -> String {
        let terms = &self.epsilon.terms;
        let delta = of_delta(self.epsilon.assumes, terms.delta);
        let records = match self.unbounded {
            true => "an unknown number of records".to_owned(),
            false => count_of(terms.copies, "record"),
        };
        format!(
            "It holds with confidence {} ({delta}; {}, unit {}, {records} at once).",
            shortest(terms.confidence.get()),
            terms.neighbours,
            terms.unit
        )
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![
            (
                "ε",
                format!(
                    "at least {}. {}",
                    rounded_down(self.bound(), 4),
                    self.terms()
                ),
            ),
            (
                "could show",
                format!("at most {}", rounded(self.provable, 4)),
            ),
        ];
        if let Some(limit) = self.limit.filter(|_| self.passed_limit().is_none())
            && self.undecided().is_none()
        {
            let limit = shortest(limit.get());
            facts.push((
                "limit",
                format!("kept: ε is not certainly above {limit} (--max-epsilon)"),
            ));
        }
        facts.extend(of_verdict(
            self.verdict.as_ref(),
            self.no_verdict.as_deref(),
        ));
        facts.extend(of_promise(
            self.manifest.as_ref(),
            self.promised_by.as_ref(),
        ));
        facts.push(("inclusion", self.inclusion.says().to_owned()));
        if let Some(preflight) = self.preflight {
            let held_out = match preflight.held_out {
                0 => String::new(),
                some => format!(" ({} of them as it was held out)", grouped(some)),
            };
            facts.push((
                "pre-flight",
                format!(
                    "{} that are in occur in the training text with every copy, {} lack one{held_out}; none that is out occurs there",
                    grouped(preflight.found),
                    grouped(preflight.lacking)
                ),
            ));
        }
        facts
    }

    fn table(&self) -> Table {
        Table::of([self])
            .right("canaries", |coins| grouped(coins.canaries))
            .right("in", |coins| grouped(coins.inside))
            .right("correct", |coins| grouped(coins.right))
            .right("share", |coins| {
                nearest(coins.right as f64 / coins.canaries.max(1) as f64, 3)
            })
            .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::View;
    use reticent_accounting::{Confidence, Delta, Neighbours, UnitName};
    use reticent_attacks::AuditTerms;
    use reticent_attacks::evalue::{coin_beliefs, coin_bound, coin_provable};

    /// Forty coins whose scores tell them, or say nothing.
    fn report(leaks: bool) -> CoinsReport {
        let coins: Vec<bool> = (0..40).map(|i| i % 2 == 0).collect();
        let scores: Vec<f64> = (0..40)
            .map(|i| f64::from(i % 7) + if leaks && i % 2 == 0 { 30.0 } else { 0.0 })
            .collect();
        let terms = AuditTerms {
            confidence: Confidence::new(0.95).unwrap(),
            delta: Delta::new(1e-6).unwrap(),
            neighbours: Neighbours::AddRemove,
            unit: UnitName::new("document").unwrap(),
            copies: 2,
        };
        let epsilon = coin_bound(&coin_beliefs(&scores, &coins).unwrap(), &terms).unwrap();
        CoinsReport {
            canaries: 40,
            inside: 20,
            right: if leaks { 40 } else { 20 },
            inclusion: Inclusion::GivenText,
            ours: true,
            preflight: Some(Preflight {
                found: 17,
                lacking: 3,
                held_out: 2,
                absent: 2,
            }),
            reference: Some(Apart::of([(-1.0, -2.0)])),
            alike: false,
            silent: false,
            proves_leak: epsilon.lower.get().get() > 0.0,
            epsilon,
            unbounded: false,
            provable: coin_provable(40, &terms).unwrap(),
            manifest: None,
            promised_by: None,
            verdict: None,
            no_verdict: Some("what ran is not known: give --mechanism".into()),
            limit: Some(Epsilon::new(0.1).unwrap()),
        }
    }

    /// A line of a document's text changes the document, and under add-remove that is two changes.
    #[test]
    fn what_a_coin_changes_decides_whose_promise_it_meets() {
        use reticent_corpus::canary::{CanaryOptions, CanaryPlan, Spec};
        use reticent_corpus::{Document, Unit};
        let documents: Vec<Document> = (0..9)
            .map(|i| Document::new(format!("d{i}"), "USR: Good morning.\nSYS: Good morning."))
            .collect();
        let options = CanaryOptions::new(Spec::new(9, 1).unwrap());
        for (unit, added, expected) in [
            (Unit::Document, false, Neighbours::Replace),
            (Unit::Turn, false, Neighbours::Replace),
            (Unit::Turn, true, Neighbours::AddRemove),
        ] {
            let plan = CanaryPlan::new(&options, unit, &documents).unwrap();
            let coins = CoinPlan::new(plan, added).unwrap();
            assert_eq!(neighbours(&coins), expected);
        }
    }

    #[test]
    fn a_report_fits_its_schema_and_ends_by_its_limit() {
        for leaks in [true, false] {
            let report = report(leaks);
            let text = report.document(Inputs::new()).to_text().unwrap();
            crate::schema::fits("coin-audit", &text);
            assert_eq!(report.exit() == Exit::Exceeded, leaks);
            assert!(report.bound() <= report.provable.get().get());
            let text = report.to_page("m").to_text(View::full());
            assert_eq!(text.contains("above the limit of 0.1"), leaks, "{text}");
            assert_eq!(text.contains("No positive ε is refuted"), !leaks, "{text}");
            assert!(text.contains("17 that are in") && text.contains("2 records at once"));
            let said = "Of the 20 that are in, 3 lack a copy in the training text, 2 of them as it was held out, which weakens";
            assert!(report.says().contains(said), "{}", report.says());
            let blind = CoinsReport {
                inclusion: Inclusion::NotChecked,
                preflight: None,
                ..report
            };
            assert!(
                blind
                    .says()
                    .ends_with("It was not checked that training met them as their coins say.")
            );
            assert!(
                blind
                    .to_page("m")
                    .to_text(View::full())
                    .contains("without --training nothing shows")
            );
        }
    }

    /// Where nothing bounds how many records a coin changes, the bound is one for an unknown number: it was for the copies of
    /// the plan, and passed a limit.
    #[cfg(feature = "audit")]
    #[test]
    fn a_bound_for_unknown_records_passes_no_limit() {
        let unbounded = CoinsReport {
            unbounded: true,
            ..report(true)
        };
        assert!(unbounded.bound() > 0.1);
        assert_eq!(unbounded.exit(), Exit::Finished);
        assert_eq!(unbounded.mood(), Mood::Review);
        let why = unbounded.undecided().unwrap();
        assert!(why.ends_with(UNBOUNDED), "{why}");
        let said = unbounded.to_page("m").to_text(View::full());
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            said.contains("an unknown number of records at once"),
            "{said}"
        );
        assert!(!said.contains("2 records at once"), "{said}");
    }

    /// A model that is silent about most canaries keeps no limit, and passes one by what the others tell.
    #[cfg(feature = "audit")]
    #[test]
    fn silent_canaries_keep_no_limit() {
        let with = |leaks, limit| CoinsReport {
            silent: true,
            limit: Some(Epsilon::new(limit).unwrap()),
            ..report(leaks)
        };
        assert_eq!(with(true, 0.1).exit(), Exit::Exceeded);
        assert!(with(true, 0.1).undecided().is_none());
        for leaks in [true, false] {
            let open = with(leaks, 9.0);
            assert_eq!(open.exit(), Exit::Finished);
            let why = open.undecided().unwrap();
            assert!(why.contains("no finite perplexity"), "{why}");
        }
    }

    /// Scores that tell nothing conclude nothing where so many coins could not have shown more, nor where it is not known what
    /// the model was trained on.
    #[test]
    fn coins_that_could_show_nothing_are_open() {
        let with = |inclusion, provable: f64, limit: Option<f64>| CoinsReport {
            inclusion,
            reference: None,
            provable: Upper::new(Epsilon::new(provable).unwrap()),
            limit: limit.map(|limit| Epsilon::new(limit).unwrap()),
            ..report(false)
        };
        let trained = Inclusion::TrainedRecords;
        for (inclusion, provable, limit, mood) in [
            (trained, 2.5, None, Mood::Plain),
            (trained, 2.5, Some(2.0), Mood::Plain),
            (trained, 2.5, Some(3.0), Mood::Open),
            (trained, 0.0, None, Mood::Open),
            (Inclusion::GivenText, 2.5, None, Mood::Open),
            (Inclusion::NotChecked, 2.5, None, Mood::Open),
        ] {
            let report = with(inclusion, provable, limit);
            assert_eq!(report.mood(), mood, "{inclusion:?} {provable} {limit:?}");
            let nothing = report.says().starts_with("Nothing can be concluded");
            assert_eq!(nothing, provable <= 0.0);
        }
        let leak = CoinsReport {
            limit: Some(Epsilon::new(9.0).unwrap()),
            ..report(true)
        };
        assert_eq!(leak.mood(), Mood::Review, "no coins pass a limit of 9");
    }

    /// A limit is not kept by canaries that training may never have met. It was, with exit code 0.
    #[cfg(feature = "audit")]
    #[test]
    fn a_limit_is_open_where_inclusion_was_not_checked() {
        let with = |inclusion, leaks| CoinsReport {
            inclusion,
            provable: Upper::new(Epsilon::new(9.0).unwrap()),
            limit: Some(Epsilon::new(8.0).unwrap()),
            ..report(leaks)
        };
        let why = |inclusion, leaks| with(inclusion, leaks).undecided();
        for inclusion in [Inclusion::NotChecked, Inclusion::GivenText] {
            let said = why(inclusion, false).unwrap();
            assert!(
                said.starts_with("--max-epsilon: whether ε is above 8 is not known, since training is not known to have met"),
                "{said}"
            );
            assert_eq!(why(inclusion, true), None, "a leak shows that it did");
        }
        assert_eq!(why(Inclusion::TrainedRecords, false), None);
        let kept = |inclusion| {
            with(inclusion, false)
                .facts()
                .iter()
                .any(|(name, _)| *name == "limit")
        };
        assert!(kept(Inclusion::TrainedRecords) && !kept(Inclusion::NotChecked));
        // A bound above 0 at a low confidence is no leak.
        let mut unsure = with(Inclusion::NotChecked, true);
        unsure.proves_leak = false;
        assert!(unsure.undecided().is_some());
        assert_eq!(unsure.mood(), Mood::Open);
        assert!(
            unsure.says().contains("no positive ε is refuted"),
            "{}",
            unsure.says()
        );
        // Of a model of others, the text is all that can be given.
        let others = |inclusion| CoinsReport {
            ours: false,
            ..with(inclusion, false)
        };
        assert_eq!(others(Inclusion::GivenText).undecided(), None);
        assert_eq!(others(Inclusion::GivenText).mood(), Mood::Plain);
        let said = others(Inclusion::NotChecked).undecided().unwrap();
        assert!(
            said.contains("--training, the text that was trained on"),
            "{said}"
        );
        let none = CoinsReport {
            preflight: Some(Preflight {
                found: 0,
                lacking: 20,
                held_out: 0,
                absent: 20,
            }),
            ..with(Inclusion::TrainedRecords, false)
        };
        assert!(none.undecided().is_some());
    }
}

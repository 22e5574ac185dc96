use super::*;
use crate::audit::demo::tests as demo;
use crate::page::View;
use crate::verdict::{Measurement, Promise, Terms, judge};
use reticent_accounting::{
    Confidence, Delta, Epsilon, Neighbours, Notion, Probability, UnitName, Upper,
};
use reticent_attacks::Draw;
use reticent_attacks::search::RankCount;
use reticent_backends::{PrefixScorer, Scorer, StateId, TokenScore};
use reticent_corpus::tokenize::Tokenizer;
use reticent_corpus::{TokenId, Unit};

/// Ten canaries with these numbers of better candidates.
fn finding(below: [u64; 10]) -> ExposureFinding {
    cut_off(below, 0)
}

/// The same of a search that left so many candidates open.
fn cut_off(below: [u64; 10], unresolved: u64) -> ExposureFinding {
    demo::finding(below, unresolved, &[10], 0.95)
}

fn leaking() -> ExposureReport {
    ExposureReport::new(finding([0; 10]))
}

fn quiet() -> ExposureReport {
    ExposureReport::new(finding(demo::QUIET))
}

#[test]
fn the_document_has_the_keys_of_the_contract() {
    let json: serde_json::Value =
        serde_json::from_str(&leaking().document(Inputs::new()).to_text().unwrap()).unwrap();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["type"], "exposure");
    assert_eq!(json["candidates"], 1_000_000);
    for key in ["id", "copies", "nll", "rank", "exposure", "p_value"] {
        assert!(json["canaries"][0].get(key).is_some(), "{key}");
    }
    for key in ["max", "mean", "median", "null_max_mean", "p_max", "p_mean"] {
        assert!(json["summary"].get(key).is_some(), "{key}");
    }
    for key in [
        "lower",
        "confidence",
        "neighbours",
        "unit",
        "copies",
        "method",
        "assumes",
    ] {
        assert!(json["epsilon"].get(key).is_some(), "{key}");
    }
    for key in ["positions_scored", "positions_flat", "seconds"] {
        assert!(json["work"].get(key).is_some(), "{key}");
    }
    assert!(json.get("secrets").is_none());
}

#[test]
fn secrets_are_masked_unless_shown() {
    let mut report = leaking();
    let html = report.to_page("sgd").unwrap().to_html().unwrap();
    assert!(
        report
            .to_page("m")
            .unwrap()
            .to_text(View::full())
            .contains(MASKED_SECRET)
            && html.contains(MASKED_SECRET)
    );
    report.secrets = Some(BTreeMap::from([("canary-3".into(), "341752".into())]));
    let (text, html) = (
        report.to_page("m").unwrap().to_text(View::full()),
        report.to_page("sgd").unwrap().to_html().unwrap(),
    );
    assert!(text.contains("341752") && html.contains("341752"));
}

#[test]
fn a_maximum_never_stands_without_its_null() {
    for report in [leaking(), quiet()] {
        let text = report.to_page("m").unwrap().to_text(View::full());
        let maximum = text.lines().find(|l| l.starts_with("maximum")).unwrap();
        assert!(
            maximum.contains("4.23") && maximum.contains("7.61"),
            "{maximum}"
        );
        let html = report.to_page("m").unwrap().to_html().unwrap();
        assert!(html.contains("95 % of the maxima of 10 such canaries lie below"));
    }
    // The short text has both beside what decides, whatever else it has no room for.
    for report in [leaking(), quiet()] {
        let page = report.to_page("m").unwrap();
        let text = page.to_text(View {
            verbose: false,
            width: 100,
        });
        assert!(text.lines().count() <= 15, "{text}");
        for (name, null) in [("maximum:", ["4.23", "7.61"]), ("mean:", ["1.44", "2.27"])] {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            let null = null.iter().all(|value| line.contains(value));
            assert!(null && line.contains("; p "), "{text}");
        }
    }
    assert!(page_of(&leaking()).contains("The model leaks"));
    assert!(page_of(&quiet()).contains("No leak of these 10 canaries was seen"));
}

/// A maximum above the line that is drawn for it, at p = 0.034: maximum and mean are each asked at 0.025.
#[test]
fn above_its_line_and_not_at_its_level_is_not_decided() {
    let report = ExposureReport::new(finding([
        301_110, 51_999, 709_999, 498_999, 3_499, 929_999, 609_999, 243_999, 800_000, 376_999,
    ]));
    let words = "is not decided: their largest exposure is 8.16 bits, where 95 % of models that never \
        saw them stay below 7.61 (p = 0.034)";
    assert!(report.says().contains(words), "{}", report.says());
    assert_eq!(report.mood(), Mood::Open);
}

fn page_of(report: &ExposureReport) -> String {
    report.to_page("m").unwrap().to_html().unwrap()
}

#[test]
fn canaries_that_leak_together_are_not_called_chance() {
    // The largest exposure, 5.3 bits, is usual for ten; the mean, 3.3 bits, is not.
    let report = ExposureReport::new(finding([
        25_000, 40_000, 45_000, 65_000, 94_000, 106_000, 179_000, 272_000, 300_000, 310_000,
    ]));
    assert_eq!(Leak::of(&report.finding.summary), Leak::Together);
    assert!(page_of(&report).contains("The model leaks: no canary stands out by itself"));
    assert_eq!(Leak::of(&leaking().finding.summary), Leak::Single);
    assert_eq!(Leak::of(&quiet().finding.summary), Leak::Unseen);
}

#[test]
fn a_limit_is_passed_by_what_is_certain_only() {
    let limited = |mut report: ExposureReport, limit| {
        report.planting = Planting::Planted;
        report.limit = limit;
        let said = report.to_page("m").unwrap().to_text(View::full());
        let passed =
            said.contains("limit: exceeded") && page_of(&report).contains("role=\"alert\"");
        assert_eq!(passed, report.exit() == Exit::Exceeded);
        // Rank 1 of a million is 19.93 bits.
        let useful = limit.is_some_and(|limit| limit < 19.93);
        assert_eq!(said.contains("limit: kept"), useful && !passed);
        assert_eq!(
            said.contains("limit: of no use"),
            limit.is_some() && !useful
        );
        report.exit()
    };
    assert_eq!(limited(leaking(), None), Exit::Finished);
    assert_eq!(limited(leaking(), Some(19.9)), Exit::Exceeded);
    assert_eq!(limited(leaking(), Some(20.0)), Exit::Finished);
    assert_eq!(limited(quiet(), Some(10.0)), Exit::Finished);
}

/// A model that gives nine tenths to the next character of each canary's secret behind its context, and a hundredth to any
/// other; nothing to the last one of a silent canary. Scores of the opposite sign put the canaries last. One that remembers no canary gives each token a likelihood of its own.
struct Remembers {
    tokenizer: Tokenizer,
    canaries: Vec<(String, String)>,
    silent: Option<usize>,
    opposite: bool,
    states: Vec<Vec<TokenId>>,
}

type BackendResult<T> = reticent_backends::Result<T>;

impl Remembers {
    fn log_probability(&self, prefix: &[TokenId], token: TokenId) -> f64 {
        let remembered = self.remembered(prefix, token);
        if self.opposite {
            -5.0 - remembered
        } else {
            remembered
        }
    }

    fn remembered(&self, prefix: &[TokenId], token: TokenId) -> f64 {
        let said = self.tokenizer.decode(prefix).unwrap();
        let next = |(canary, (context, secret)): (usize, &(String, String))| {
            let begun = said.rsplit_once(context.as_str())?.1;
            let next = secret.strip_prefix(begun)?.chars().next()?;
            Some((canary, next, begun.len() + 1 == secret.len()))
        };
        let next = self.canaries.iter().enumerate().find_map(next);
        match next {
            Some((canary, next, last))
                if self.tokenizer.decode(&[token]).unwrap() == next.to_string() =>
            {
                match last && self.silent == Some(canary) {
                    true => f64::NEG_INFINITY,
                    false => 0.9_f64.ln(),
                }
            }
            _ if self.canaries.is_empty() => {
                let read = prefix.iter().chain([&token]);
                let hash = read.fold(7_u64, |hash, token| {
                    (hash ^ u64::from(*token))
                        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                        .rotate_left(31)
                });
                (0.01 + 0.01 * (hash >> 11) as f64 / (1_u64 << 53) as f64).ln()
            }
            _ => 0.01_f64.ln(),
        }
    }
}

impl Scorer for Remembers {
    fn vocabulary_size(&self) -> usize {
        self.tokenizer.vocabulary_size()
    }
    fn score(&mut self, sequences: &[Vec<TokenId>]) -> BackendResult<Vec<Vec<TokenScore>>> {
        let row = |tokens: &Vec<TokenId>| {
            let places = 1..tokens.len();
            let score = |at: usize| TokenScore {
                log_probability: self.log_probability(&tokens[..at], tokens[at]),
                mean: -1.0,
                variance: 1.0,
                top_token: 0,
                top_log_probability: 0.9_f64.ln(),
            };
            places.map(score).collect()
        };
        Ok(sequences.iter().map(row).collect())
    }
}

impl PrefixScorer for Remembers {
    fn start(&mut self, prefixes: &[Vec<TokenId>]) -> BackendResult<Vec<StateId>> {
        let first = self.states.len();
        self.states.extend_from_slice(prefixes);
        let states = first..self.states.len();
        Ok(states.map(|at| StateId(at as u64)).collect())
    }
    fn extend(&mut self, steps: &[(StateId, TokenId)]) -> BackendResult<Vec<StateId>> {
        let grown: Vec<Vec<TokenId>> = steps
            .iter()
            .map(|(state, token)| [&self.states[state.0 as usize][..], &[*token]].concat())
            .collect();
        self.start(&grown)
    }
    fn next_log_probabilities(
        &mut self,
        states: &[StateId],
        wanted: &[TokenId],
    ) -> BackendResult<Vec<f64>> {
        let mut found = Vec::with_capacity(states.len() * wanted.len());
        for state in states {
            let prefix = &self.states[state.0 as usize];
            found.extend(
                wanted
                    .iter()
                    .map(|token| self.log_probability(prefix, *token)),
            );
        }
        Ok(found)
    }
    fn release(&mut self, _: &[StateId]) {}
}

/// One canary without a likelihood hides neither what the others contradict nor the limit that they exceed, and nothing
/// is said for the promise or the limit: ten canaries on the first rank, all but perhaps one, and σ of the Gaussian
/// mechanism, of which 2 promises ε ≤ 4.9 and 0.1 what no ranks contradict.
#[test]
fn one_silent_canary_hides_no_contradiction() {
    let documents = reticent_corpus::simulate::simulate(6, 0).unwrap();
    let options = reticent_corpus::canary::CanaryOptions {
        own_contexts: true,
        ..reticent_corpus::canary::CanaryOptions::new("10x1".parse().unwrap())
    };
    let plan = reticent_corpus::canary::CanaryPlan::new(&options, Unit::Turn, &documents).unwrap();
    let canaries = reticent_accounting::training::Canaries {
        count: 10,
        records: 1,
        on_public_side: 0,
        candidates: Some(reticent_accounting::training::Canaries::candidates(
            plan.candidates,
        )),
    };
    let attack = |sigma: f64| {
        let tokenizer = Tokenizer::bytes();
        let mut attack = Attack::new(&plan, &tokenizer, "m", canaries).unwrap();
        let noise_multiplier = reticent_accounting::NoiseMultiplier::new(sigma).unwrap();
        let mechanism = reticent_accounting::Mechanism::Gaussian { noise_multiplier };
        attack.against(Attack::run_of(&plan, mechanism).unwrap());
        attack.planting = Planting::GivenText;
        attack
    };
    let model = |silent| Remembers {
        tokenizer: Tokenizer::bytes(),
        canaries: (plan.canaries.iter())
            .map(|canary| (canary.context.clone(), canary.secret.clone()))
            .collect(),
        silent,
        opposite: false,
        states: Vec::new(),
    };
    let run = |sigma, silent| {
        let interrupt = crate::contract::Interrupt::default();
        attack(sigma).run(&mut model(silent), &interrupt).unwrap().0
    };
    for silent in [None, Some(3), Some(9)] {
        let report = run(2.0, silent);
        assert_eq!(report.exit(), Exit::Exceeded, "{silent:?}");
        assert_eq!(report.silence.is_some(), silent.is_some());
        assert!(!report.inconclusive);
        let said = report.says();
        assert!(
            said.starts_with("The model leaks") && said.contains("This contradicts the promise"),
            "{said}"
        );
        let mut report = run(0.1, silent);
        assert_eq!(report.exit(), Exit::Finished);
        assert_eq!(report.verdict.is_some(), silent.is_none(), "{silent:?}");
        let page = report.to_page("m").unwrap().to_text(View::full());
        let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(
            words.contains(
                "verdict: none: the model gives some of its canaries no finite perplexity"
            ),
            silent.is_some(),
            "{words}"
        );
        report.limit = Some(10.0);
        assert_eq!(report.exit(), Exit::Exceeded);
        report.limit = Some(19.95);
        assert_eq!(report.open_limit().is_some(), silent.is_some());
        let interrupt = crate::contract::Interrupt::default();
        let stopped = attack(2.0).sequential(&mut model(silent), 1000.0, &interrupt);
        assert_eq!(stopped.unwrap().exit(), Exit::Exceeded);
        let confidence = Confidence::new(0.999).unwrap();
        let sampled = attack(2.0).sampled(&mut model(silent), (500, 1), confidence, &interrupt);
        let (found, silence) = sampled.unwrap();
        let said = Some("no noise".to_owned());
        let mut report =
            SampledReport::new(&plan, found, Planting::GivenText, confidence, said, false).unwrap();
        report.silence = silence;
        assert_eq!(silence.is_some(), silent.is_some());
        assert_eq!(report.exit(Some(5.0)), Exit::Exceeded);
        assert_eq!(report.inconclusive(None), None, "the others show a leak");
    }
    // Scores of the opposite sign are no sign of no leak. They kept the limit.
    let mut reversed = Remembers {
        opposite: true,
        ..model(None)
    };
    let interrupt = crate::contract::Interrupt::default();
    let confidence = Confidence::new(0.999).unwrap();
    let sampled = attack(2.0).sampled(&mut reversed, (500, 1), confidence, &interrupt);
    let (found, silence) = sampled.unwrap();
    assert_eq!(silence, Some(Silence::Reversed));
    let said = Some("no noise".to_owned());
    let mut report =
        SampledReport::new(&plan, found, Planting::GivenText, confidence, said, false).unwrap();
    report.silence = silence;
    assert!(report.inconclusive(Some(5.0)).is_some());
    // Nothing is shown by the other nine: they are not asked behind their contexts.
    let mut quiet = model(Some(0));
    quiet.canaries.truncate(1);
    let interrupt = crate::contract::Interrupt::default();
    let report = attack(2.0).run(&mut quiet, &interrupt).unwrap().0;
    assert!(report.inconclusive && report.exit() == Exit::Finished);
    assert!(report.verdict.is_none() && report.says().starts_with("Nothing can be concluded"));
}

/// A promise that ten canaries could contradict is out of reach where training met one of them, as the plan says of caught
/// ones (it was called "not contradicted"), unless the model tells that this is a mistake.
#[test]
fn canaries_that_training_never_met_contradict_no_promise() {
    let documents = reticent_corpus::simulate::simulate(6, 0).unwrap();
    let of = |caught, remembered: bool| {
        let options = reticent_corpus::canary::CanaryOptions {
            own_contexts: true,
            template: "My ID is: {digits:3}".parse().unwrap(),
            caught,
            ..reticent_corpus::canary::CanaryOptions::new("10x1".parse().unwrap())
        };
        let plan =
            reticent_corpus::canary::CanaryPlan::new(&options, Unit::Turn, &documents).unwrap();
        let canaries = reticent_accounting::training::Canaries {
            count: 10,
            records: 1,
            on_public_side: 0,
            candidates: Some(1e3),
        };
        let mut attack = Attack::new(&plan, &Tokenizer::bytes(), "m", canaries).unwrap();
        let noise_multiplier = reticent_accounting::NoiseMultiplier::new(4.0).unwrap();
        let mechanism = reticent_accounting::Mechanism::Gaussian { noise_multiplier };
        attack.against(Attack::run_of(&plan, mechanism).unwrap());
        attack.planting = Planting::Planted;
        let canaries = plan.canaries.iter().filter(|_| remembered);
        let mut model = Remembers {
            tokenizer: Tokenizer::bytes(),
            canaries: canaries
                .map(|canary| (canary.context.clone(), canary.secret.clone()))
                .collect(),
            silent: None,
            opposite: false,
            states: Vec::new(),
        };
        let interrupt = crate::contract::Interrupt::default();
        let report = attack.run(&mut model, &interrupt).unwrap().0;
        (report, attack.sequential(&mut model, 1000.0, &interrupt))
    };
    let [(all, _), (one, stopped), (none, _)] = [of(0, false), of(9, false), of(10, false)];
    let why = stopped.unwrap_err().to_string();
    assert!(
        why.contains("the most that 1 canary that training met can prove"),
        "{why}"
    );
    let verdict = all.verdict.as_ref().unwrap();
    assert!(!verdict.is_contradicted() && verdict.could_contradict());
    assert_eq!(all.reached, None);
    let verdict = one.verdict.as_ref().unwrap();
    assert!(!verdict.could_contradict() && verdict.provable() <= 0.5);
    assert_eq!(one.reached, Some(1));
    let said = one.to_page("m").unwrap().to_text(View::full());
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("training met 1 of 10 canaries"), "{said}");
    assert_eq!(none.planting, Planting::NoCopy);
    let (mistaken, _) = of(9, true);
    assert_eq!(mistaken.reached, Some(1));
    let verdict = mistaken.verdict.as_ref().unwrap();
    assert!(verdict.is_contradicted() && verdict.provable() >= verdict.measured_at_least());
    let found = mistaken.finding.e_value.as_ref().unwrap();
    assert!(found.provable_by_ranks.get() >= mistaken.finding.epsilon.lower.get());
    let document = mistaken.document(Inputs::new()).to_text().unwrap();
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    let report = crate::audit::diff::DiffReport::of(&document, &document, 0.05);
    assert_eq!(report.unwrap().exit(), Exit::Finished);
}

/// A bound above 0 with a confidence of 0.01 is no leak, and so keeps no limit of canaries that training may not have met.
#[test]
fn a_low_confidence_shows_no_leak() {
    let mut report = quiet();
    report.planting = Planting::NotChecked;
    report.limit = Some(15.0);
    let bound = &mut report.finding.epsilon;
    bound.confidence = Confidence::new(0.01).unwrap();
    bound.lower = reticent_accounting::Lower::new(Epsilon::new(0.3).unwrap());
    assert!(!report.has_seen());
    assert_eq!(report.open_limit(), Some(15.0));
    assert!(
        report.says().contains("No leak of these"),
        "{}",
        report.says()
    );
    report.proves_leak = true;
    // A leak doesn't show that training met every canary.
    assert!(report.has_seen() && report.open_limit() == Some(15.0));
    let document = report.document(Inputs::new()).to_text().unwrap();
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["proves_leak"], true);
    report.finding.epsilon.confidence = Confidence::new(0.95).unwrap();
    assert!(ExposureReport::new(report.finding).has_seen());
}

/// Ranks that were not found say nothing for the ceiling either, and may contradict it.
#[test]
fn a_search_that_was_cut_off_says_nothing_for_the_ceiling() {
    let with = |below, unresolved, outcome| {
        let mut report = ExposureReport::new(cut_off([below; 10], unresolved));
        report.planting = Planting::Planted;
        report.verdict = Some(judged(&report, Notion::GroupDp, 8.0));
        report.ceiling = Some(Ceiling {
            exposure_at_most: Upper::new(12.0),
            level: 0.95,
            test: CeilingTest {
                outcome,
                least_p_value: 1e-4,
                p_value: 1.0,
                alpha: 5e-4,
                thresholds: Vec::new(),
            },
            suspects: Vec::new(),
        });
        report.without_praise(None);
        report
    };
    let open = with(0, 999_999, CeilingOutcome::NotContradicted);
    assert!(open.ceiling.is_none() && open.verdict.is_none());
    assert!(open.no_verdict.unwrap().contains("cut off"));
    assert!(
        with(0, 999_999, CeilingOutcome::Contradicted)
            .ceiling
            .is_some()
    );
    assert!(
        with(500_000, 0, CeilingOutcome::NotContradicted)
            .ceiling
            .is_some()
    );
}

/// What is not known is called neither quiet nor below a limit.
#[test]
fn a_search_that_was_cut_off_is_not_called_quiet() {
    let open = |limit, below, unresolved| {
        let mut report = ExposureReport::new(cut_off([below; 10], unresolved));
        report.planting = Planting::Planted;
        report.limit = limit;
        let says = [
            report.says(),
            report.card(),
            page_of(&report),
            report.to_page("m").unwrap().to_text(View::full()),
        ];
        (report.exit(), says)
    };
    let (_, says) = open(None, 0, 999_999);
    for said in &says {
        assert!(said.contains("cut off"), "{said}");
        assert!(said.contains("between 0 and 19.94 bits"), "{said}");
        assert!(
            !said.contains("No leak") && !said.contains("bits (p ="),
            "{said}"
        );
    }
    assert!(says[0].contains("not known"), "{}", says[0]);
    // The limit: above it by the upper end alone, by neither, by both.
    let (exit, says) = open(Some(5.0), 0, 999_999);
    assert_eq!(exit, Exit::Finished);
    let words = "Whether the largest exposure is above the limit of 5.00 bits is not known.";
    assert!(says[0].starts_with(words), "{}", says[0]);
    assert!(says[3].contains("limit: not known") && !says[3].contains("limit: kept"));
    let (_, says) = open(Some(5.0), 600_000, 100_000);
    assert!(
        !says[0].contains("limit") && says[3].contains("limit: kept"),
        "{}",
        says[3]
    );
    let (exit, says) = open(Some(5.0), 0, 999);
    assert_eq!(exit, Exit::Exceeded);
    assert!(
        says[0].contains("The largest exposure, at least 9.97 bits, is above"),
        "{}",
        says[0]
    );
    assert!(
        says[0].contains("gives away at least 10.0 bits"),
        "{}",
        says[0]
    );
}

/// What becomes of a promise to cover as many records as are bounded.
fn judged(report: &ExposureReport, notion: Notion, at_most: f64) -> Verdict {
    let bound = &report.finding.epsilon;
    let terms = Terms {
        released: "m".into(),
        notion,
        neighbours: Neighbours::Replace,
        unit: UnitName::new("turn").unwrap(),
        delta: bound.delta,
        group: bound.copies,
        prior: None,
    };
    let promise = Promise {
        terms: terms.clone(),
        at_most: Upper::new(Epsilon::new(at_most).unwrap()),
        mistakes: vec![],
    };
    let measured = Measurement {
        terms,
        at_least: bound.lower,
        false_alarm: Probability::new(0.05).unwrap(),
        provable: Upper::new(Epsilon::new(14.0).unwrap()),
        power: Vec::new(),
    };
    judge(&promise, &measured).unwrap()
}

#[test]
fn a_contradicted_promise_is_exit_one_and_an_alarm() {
    let mut report = leaking();
    report.verdict = Some(judged(&report, Notion::GroupDp, 2.0));
    assert_eq!(report.exit(), Exit::Exceeded);
    assert!(
        report
            .to_page("m")
            .unwrap()
            .to_text(View::full())
            .contains("verdict: contradicted: noise is missing")
    );
    assert!(page_of(&report).contains("role=\"alert\""));
}

/// Canaries that are not known to have been trained on contradict a promise, and never speak for one.
#[test]
fn canaries_that_were_not_planted_do_not_speak_for_a_promise() {
    let planted = |mut report: ExposureReport, planting| {
        report.verdict = Some(judged(&report, Notion::Dp, 2.0));
        report.planting = planting;
        report.without_praise(None);
        report
    };
    for planting in [Planting::UnplannedText, Planting::TrainedRecords] {
        let unplanned = planted(quiet(), planting);
        assert!(unplanned.verdict.is_none() && unplanned.no_verdict.is_some());
    }
    assert!(planted(quiet(), Planting::GivenText).verdict.is_some());
    // The card says on whose word.
    let card = planted(leaking(), Planting::GivenText).card();
    assert!(card.contains("is as you say") && !card.contains("were planted in"));
    for planting in [Planting::NoCopy, Planting::NotPlanned] {
        let why = planting.unplanted().unwrap();
        let quiet = planted(quiet(), planting);
        assert!(quiet.verdict.is_none() && quiet.exit() == Exit::Finished);
        assert_eq!(quiet.no_verdict.as_deref(), Some(why));
        assert!(quiet.says().contains(why));
        let said = page_of(&quiet);
        assert!(!said.contains("not contradicted"));
        assert!(!said.contains("were planted in the training"));
        let leaking = planted(leaking(), planting);
        assert_eq!(leaking.exit(), Exit::Exceeded);
        assert!(leaking.verdict.is_some() && leaking.no_verdict.is_none());
        assert!(!leaking.card().contains("were planted in the training text"));
    }
}

/// Ranks that show nothing conclude nothing where canaries are not known to have been planted, nor where the search was
/// cut off, nor of a dead model; ranks that show a leak do.
#[test]
fn quiet_ranks_of_canaries_that_nobody_checked_are_open() {
    use Planting::{
        GivenText, NoCopy, NotChecked, NotPlanned, Planted, Supervised, TrainedRecords,
        UnplannedText,
    };
    let with = |mut report: ExposureReport, planting| {
        report.planting = planting;
        report
    };
    for planting in [NotChecked, NoCopy, NotPlanned, UnplannedText] {
        let why = planting.caveat().unwrap();
        let quiet = with(quiet(), planting);
        assert_eq!(quiet.mood(), Mood::Open);
        for said in [
            quiet.says(),
            quiet.card(),
            quiet.to_page("m").unwrap().to_text(View::full()),
        ] {
            let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(said.contains(why), "{said}");
        }
        assert_eq!(with(leaking(), planting).mood(), Mood::Review);
        let [middle, leak] = [[500.5; 10], [0.5; 10]].map(|own| {
            sampled_of(
                &(1..1000).map(f64::from).collect::<Vec<_>>(),
                own,
                planting,
                Some("no noise"),
            )
        });
        let page = middle.to_page("m", None).unwrap();
        assert_eq!(page.has_mood(), Mood::Open);
        assert!(page.said().contains(why));
        assert_eq!(leak.to_page("m", None).unwrap().has_mood(), Mood::Review);
        // its exposures lie between 7.385 bits and all of them
        assert_eq!(leak.open_limit(Some(9.0)), Some(9.0));
        let limited = leak.to_page("m", Some(9.0)).unwrap();
        assert_eq!(limited.has_mood(), Mood::Open);
    }
    let unplanned = NotPlanned.caveat().unwrap();
    assert!(unplanned.starts_with(NotPlanned.unplanted().unwrap()));
    assert!(unplanned.contains("that training met them was not checked"));
    // They keep no limit, and may pass one.
    for (planting, open) in [
        (Planted, None),
        (GivenText, None),
        (Supervised, None),
        (UnplannedText, Some(20.0)),
        (TrainedRecords, None),
        (NotChecked, Some(20.0)),
        (NoCopy, Some(20.0)),
        (NotPlanned, Some(20.0)),
    ] {
        let [mut quiet, mut leaking] = [quiet(), leaking()].map(|report| with(report, planting));
        quiet.limit = Some(20.0);
        assert_eq!((quiet.exit(), quiet.open_limit()), (Exit::Finished, open));
        assert_eq!(
            quiet.says().contains("of 20.0 bits is not known"),
            open.is_some()
        );
        leaking.limit = Some(1.0);
        assert_eq!(
            (leaking.exit(), leaking.open_limit()),
            (Exit::Exceeded, None)
        );
        let costs: Vec<f64> = (1..1000).map(f64::from).collect();
        let sample = sampled_of(&costs, [500.5; 10], planting, None);
        assert_eq!(sample.open_limit(Some(20.0)), open);
    }
    assert_eq!(with(quiet(), Planted).mood(), Mood::Plain);
    let cut = with(ExposureReport::new(cut_off([0; 10], 999_999)), Planted);
    assert_eq!(cut.mood(), Mood::Open);
    let mut dead = with(quiet(), Planted);
    dead.without_praise(Some(Silence::NoPerplexity));
    assert!(dead.inconclusive);
    assert_eq!(dead.mood(), Mood::Open);
    let limited = |bits| {
        let mut report = with(leaking(), NotChecked);
        report.limit = Some(bits);
        report.mood()
    };
    // A leak doesn't show that training met the others.
    assert_eq!((limited(1.0), limited(20.0)), (Mood::Alarm, Mood::Open));
    let mut promised = with(leaking(), Planted);
    // A promise that nothing could have contradicted does not speak of the leak.
    promised.verdict = Some(judged(&promised, Notion::GroupDp, 50.0));
    assert_eq!(promised.mood(), Mood::Review);
    assert!(!promised.says().contains("not checked"));
    let few = sampled(&[1.0, 2.0, 3.0], [2.5; 10]);
    assert_eq!(few.to_page("m", None).unwrap().has_mood(), Mood::Open);
    // The largest of the others is 4.27 bits.
    for (limit, exit) in [(4.3, Exit::Finished), (4.2, Exit::Exceeded)] {
        dead.limit = Some(limit);
        let open = Some(limit).filter(|_| exit == Exit::Finished);
        assert_eq!((dead.exit(), dead.open_limit()), (exit, open));
    }
    // A promise that no ranks could have contradicted.
    let mut quiet = with(quiet(), Planted);
    for (at_most, mood) in [(13.0, Mood::Plain), (15.0, Mood::Open)] {
        quiet.verdict = Some(judged(&quiet, Notion::GroupDp, at_most));
        assert_eq!(quiet.mood(), mood);
        assert_eq!(quiet.mute().is_some(), mood == Mood::Open);
    }
}

/// "No canary above all bits" is no ceiling.
#[test]
fn a_ceiling_of_all_bits_is_none() {
    let said = |bits: f64| {
        let mut report = quiet();
        report.ceiling = Some(Ceiling {
            exposure_at_most: Upper::new(bits),
            level: 0.95,
            test: CeilingTest {
                outcome: CeilingOutcome::CouldNotContradict,
                least_p_value: 0.96,
                p_value: 1.0,
                alpha: 5e-4,
                thresholds: Vec::new(),
            },
            suspects: Vec::new(),
        });
        let text = report.to_page("m").unwrap().to_text(View::full());
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let none = said(1e6_f64.log2());
    assert!(
        none.contains("ceiling: none: any exposure is compatible with this promise"),
        "{none}"
    );
    assert!(said(9.4).contains("no canary above 9.4"));
}

/// Few canaries of few candidates show no leak whatever their ranks are, and none passes a limit of all their bits.
#[test]
fn ranks_that_could_show_nothing_are_open() {
    let of = |canaries: usize, candidates: u64| {
        let mut report = quiet();
        report.planting = Planting::Planted;
        report.finding.canaries.truncate(canaries);
        report.finding.candidates = candidates;
        report
    };
    for (canaries, candidates, mood) in [
        (10, 1_000_000, Mood::Plain),
        (1, 1_000_000, Mood::Plain),
        (1, 3, Mood::Open),
        (1, 40, Mood::Open),
        (1, 41, Mood::Plain),
    ] {
        assert_eq!(
            of(canaries, candidates).mood(),
            mood,
            "{canaries} of {candidates}"
        );
    }
    let mut limited = of(10, 1_000_000);
    for (limit, mood) in [(19.9, Mood::Plain), (20.0, Mood::Open)] {
        limited.limit = Some(limit);
        assert_eq!(limited.mood(), mood, "{limit}");
    }
    let mut contradicted = leaking();
    contradicted.verdict = Some(judged(&contradicted, Notion::GroupDp, 1.0));
    assert!(contradicted.says().contains("This contradicts the promise"));
}

/// A sample's report about ten canaries with these costs.
fn sampled(costs: &[f64], own: [f64; 10]) -> SampledReport {
    sampled_of(costs, own, Planting::Planted, Some("no noise"))
}

fn sampled_of(
    costs: &[f64],
    own: [f64; 10],
    planting: Planting,
    unpromised: Option<&str>,
) -> SampledReport {
    let documents = reticent_corpus::simulate::simulate(4, 0).unwrap();
    let options = reticent_corpus::canary::CanaryOptions::new("10x2".parse().unwrap());
    let plan = reticent_corpus::canary::CanaryPlan::new(&options, Unit::Turn, &documents).unwrap();
    let confidence = Confidence::new(0.95).unwrap();
    let each = SampledReport::each(confidence, 10).unwrap();
    let found = own
        .map(|nll| reticent_attacks::exposure::SampledExposure::of(costs, nll, 0.0, each).unwrap())
        .to_vec();
    let unpromised = unpromised.map(str::to_owned);
    SampledReport::new(&plan, found, planting, confidence, unpromised, false).unwrap()
}

#[test]
fn a_sampled_report_fits_its_schema_and_says_what_it_can() {
    let costs: Vec<f64> = (1..1000).map(f64::from).collect();
    let middle = sampled(&costs, [500.5; 10]);
    let mut own = [500.5; 10];
    own[3] = 0.5;
    let leak = sampled(&costs, own);
    for report in [&middle, &leak] {
        let text = report.document(Inputs::new()).to_text().unwrap();
        crate::schema::fits("sampled-exposure", &text);
        assert!(!text.contains("\"secret\""));
    }
    // None of 999 below: (0 + 1)/1000, ten times; α = 0.05/20 certifies 7.38 bits.
    assert!((leak.p_any - 0.01).abs() < 1e-12);
    let text = leak.to_page("m", None).unwrap().to_text(View::full());
    assert!(
        text.contains("\nThe model leaks:") && text.contains("at least 7.38 bits"),
        "{text}"
    );
    assert!(
        text.contains("certifies at most 7.38 bits") && text.contains("7.385 to log2(1000000)"),
        "{text}"
    );
    assert!(
        middle
            .to_page("m", None)
            .unwrap()
            .to_text(View::full())
            .contains("\nNo leak was seen")
    );
    // The first of 150 is no surprise among ten canaries, however many candidates are drawn.
    for (candidates, mood) in [(150, Mood::Open), (201, Mood::Plain)] {
        let mut few = sampled(&costs, [500.5; 10]);
        few.candidates = candidates;
        assert_eq!(few.to_page("m", None).unwrap().has_mood(), mood);
    }
    // A promise that a sample cannot contradict speaks of no leak, and of none that is not seen.
    let promised = |own| sampled_of(&costs, own, Planting::Planted, None);
    for (report, mood) in [
        (promised([500.5; 10]), Mood::Open),
        (promised(own), Mood::Review),
    ] {
        let page = report.to_page("m", None).unwrap();
        assert_eq!(page.has_mood(), mood);
        let text = page.to_text(View::full());
        assert_eq!(text.matches("promise").count(), 1, "{text}");
        let text = report.document(Inputs::new()).to_text().unwrap();
        crate::schema::fits("sampled-exposure", &text);
    }
    let plain = middle.to_page("m", None).unwrap();
    assert_eq!(plain.has_mood(), Mood::Plain);
    assert!(
        plain
            .to_text(View::full())
            .contains("There is no verdict: no noise.")
    );
    assert_eq!(middle.no_verdict, "no noise");
    let mut fewer = sampled(&costs, [500.5; 10]);
    fewer.reached = Some(1);
    let page = fewer.to_page("m", None).unwrap();
    let said = "But training met 1 of 10 canaries; the others can show no leak";
    assert!(page.said().contains(said), "{}", page.said());
    // Ten canaries in a sample of 199: p is 0.05 at least.
    for (size, mood) in [(199, Mood::Open), (200, Mood::Plain)] {
        let few = sampled(&costs[..size], [500.5; 10]);
        let page = few.to_page("m", None).unwrap();
        assert_eq!(page.has_mood(), mood, "{size}");
        let why = "Nothing can be concluded: a sample of 199 shows no leak of 10 canaries, whatever their ranks: it takes one of 200 at least.";
        assert_eq!(page.said().contains(why), mood == Mood::Open, "{size}");
    }
    // Why the exit code is 1 stands first; it was "no leak was seen" alone.
    for (limit, begins) in [
        (0.1, "The largest exposure, at least "),
        (
            1.0,
            "Whether the largest exposure is above the limit of 1 bits is not known. ",
        ),
        (19.0, "No leak was seen"),
    ] {
        let page = middle.to_page("m", Some(limit)).unwrap();
        assert!(page.said().starts_with(begins), "{}", page.said());
    }
    // A model that tells no candidate from another.
    let constant = sampled(&[7.0; 999], [7.0; 10]).to_page("m", None).unwrap();
    assert_eq!(constant.has_mood(), Mood::Open);
    let why = "Nothing can be concluded: every sampled candidate is as likely as the canary";
    assert!(constant.said().contains(why), "{}", constant.said());
    let limited = middle.to_page("m", Some(20.0)).unwrap();
    assert_eq!(limited.has_mood(), Mood::Open);
    assert!(
        limited
            .said()
            .contains("But no exposure can be above the limit of 20 bits.")
    );
    assert_eq!(leak.exit(Some(7.0)), Exit::Exceeded);
    assert_eq!(leak.exit(Some(8.0)), Exit::Finished);
    assert_eq!(middle.exit(Some(1.0)), Exit::Finished);
    let html = leak.to_page("m", Some(7.0)).unwrap().to_html().unwrap();
    assert!(html.contains("role=\"alert\"") && html.contains("<svg"));
}

/// 1000 models that never saw the canaries, ten of them among 200 drawn candidates: a leak is said
/// of at most one in twenty. 83 and more would come by chance once in 1e5.
#[test]
fn a_sample_cries_no_oftener_than_it_says() {
    let mut state = 88_172_645_463_325_252_u64;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64
    };
    let alarms = (0..1000).filter(|_| {
        let costs: Vec<f64> = (0..200).map(|_| uniform()).collect();
        let own = [0.0; 10].map(|_: f64| uniform());
        sampled(&costs, own).p_any < 0.05
    });
    let alarms = alarms.count();
    assert!((10..83).contains(&alarms), "{alarms}");
}

/// Five canaries planted once at chance, five planted twenty times on the first ranks: each row
/// has the summary of its own canaries, and a plan of one dose has no row.
#[test]
fn doses_are_summarised_each_by_itself() {
    let mut found = finding([0, 301_110, 0, 709_999, 0, 498_999, 0, 88_122, 0, 929_999]);
    assert!(ExposureReport::new(found.clone()).doses.is_empty());
    for canary in found.canaries.iter_mut().skip(1).step_by(2) {
        canary.copies = 1;
    }
    let report = ExposureReport::new(found);
    let rows: Vec<(u64, u64)> = report
        .doses
        .iter()
        .map(|d| (d.copies, d.canaries))
        .collect();
    assert_eq!(rows, [(1, 5), (20, 5)]);
    let [once, often] = [0, 1].map(|i: usize| report.doses[i].summary.mean());
    assert!(once.p_value() > 0.01 && often.p_value() < 1e-9);
    assert!((often.lower() - 1e6_f64.log2()).abs() < 1e-9);
    // Exposures of the ranks 301 111, 710 000, 499 000, 88 123, 930 000.
    let ranks = [301_111_f64, 710_000.0, 499_000.0, 88_123.0, 930_000.0];
    let mean = ranks.iter().map(|r| (1e6 / r).log2()).sum::<f64>() / 5.0;
    assert!((once.lower() - mean).abs() < 1e-9);
    let text = report.to_page("m").unwrap().to_text(View::full());
    assert!(text.contains("mean exposure (bits)"), "{text}");
    let html = report.to_page("ckpt").unwrap().to_html().unwrap();
    assert!(html.contains("By number of copies"));
    let document = report.document(Inputs::new()).to_text().unwrap();
    crate::schema::fits("exposure", &document);
}

/// Of a search that was cut off, "Over training" and "By number of copies" said 0 bits, and drew a line there.
#[test]
fn exposures_that_are_not_known_have_both_ends_in_every_table() {
    let mut found = cut_off([0; 10], 999_999);
    found.canaries[0].copies = 1;
    let mut report = ExposureReport::new(found);
    report.earlier = vec![Checkpoint {
        model: "before".to_owned(),
        note: None,
        summary: report.finding.summary,
    }];
    let page = report.to_page("m").unwrap();
    let text = page.to_text(View::full());
    for row in [
        &["before"][..],
        &["this", "model"],
        &["1", "1"],
        &["20", "9"],
    ] {
        let of_row = |line: &&str| line.split_whitespace().collect::<Vec<_>>().starts_with(row);
        let mut rows = text.lines().filter(of_row);
        let ends = |line: &str| line.matches("0.00 to 19.93").count();
        assert!(rows.any(|line| ends(line) == 2), "{row:?}: {text}");
    }
    let html = page.to_html().unwrap();
    assert!(html.contains("largest, at least") && html.contains("largest, at most"));
    assert!(html.contains("Where the mean (at least) leaves the mean without a leak"));
}

/// 1000 models that never saw the canaries, which are ten uniform ranks, five of each dose. "Leaks",
/// a p of a dose below 0.05 and ε > 0 are said of at most one in twenty (78 and more would come once in
/// 1e4). Seed 41.
#[test]
fn models_that_never_saw_the_canaries_raise_no_alarm() {
    use rand::{RngExt, SeedableRng};
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(41);
    let (mut leaks, mut doses, mut bounds) = (0, [0, 0], 0);
    for _ in 0..1000 {
        let mut found = finding([0; 10].map(|_: u64| rng.random_range(0..1_000_000)));
        for canary in found.canaries.iter_mut().step_by(2) {
            canary.copies = 1;
        }
        leaks += u32::from(Leak::of(&found.summary) != Leak::Unseen);
        bounds += u32::from(found.epsilon.lower.get().get() > 0.0);
        let report = ExposureReport::new(found);
        for (alarms, dose) in doses.iter_mut().zip(&report.doses) {
            *alarms += u32::from(dose.summary.mean().p_value() <= 0.05);
        }
    }
    assert!((20..78).contains(&leaks), "{leaks}");
    assert!(doses.iter().all(|d| (20..78).contains(d)), "{doses:?}");
    assert!(bounds < 78, "{bounds}");
}

#[test]
fn a_dead_model_shows_nothing_and_an_unauthenticated_manifest_is_said() {
    let mut report = quiet();
    report.without_praise(Some(Silence::NoPerplexity));
    report.manifest = Some("manifest.json is not authenticated".into());
    let (text, page) = (
        report.to_page("m").unwrap().to_text(View::full()),
        page_of(&report),
    );
    let json = report.document(Inputs::new()).to_text().unwrap();
    for said in [&text, &page, &json] {
        assert!(said.contains("not authenticated"), "{said}");
        assert!(
            said.to_lowercase().contains("nothing can be concluded"),
            "{said}"
        );
    }
    assert!(!page.contains("No leak of these"));
    assert!(
        !quiet()
            .to_page("m")
            .unwrap()
            .to_text(View::full())
            .contains("authenticated")
    );
}

/// A test of ε ≤ 2 that saw three of ten canaries.
fn sequential(ln: [f64; 3]) -> SequentialReport {
    let documents = reticent_corpus::simulate::simulate(4, 0).unwrap();
    let options = reticent_corpus::canary::CanaryOptions::new("10x2".parse().unwrap());
    let plan = reticent_corpus::canary::CanaryPlan::new(&options, Unit::Turn, &documents).unwrap();
    let at_most = |epsilon| Upper::new(Epsilon::new(epsilon).unwrap());
    let needed = 101_f64.ln();
    let mut report = SequentialReport {
        stop_at: 100.0,
        level: 0.01,
        needed: needed.exp(),
        candidates: 1_000_000,
        planned: 10,
        promised: at_most(2.0),
        terms: Terms {
            released: "m".into(),
            notion: Notion::GroupDp,
            neighbours: Neighbours::Replace,
            unit: UnitName::new("turn").unwrap(),
            delta: Delta::new(1e-6).unwrap(),
            group: 2,
            prior: None,
        },
        provable: at_most(11.0),
        planting: Planting::NotChecked,
        reached: None,
        manifest: None,
        promised_by: None,
        contradicted: false,
        positions: 0,
        canaries: Vec::new(),
        nlls: Vec::new(),
    };
    let count = RankCount {
        candidates: 1_000_000,
        nll: 1.0,
        below: 4,
        ties: 0,
        unresolved: 0,
    };
    for (canary, ln) in plan.canaries.iter().zip(ln) {
        report.saw(canary, &count, (ln, 700), None);
        report.contradicted |= ln >= needed;
    }
    report
}

#[test]
fn a_sequential_report_says_where_it_stopped_and_at_which_level() {
    let stopped = sequential([0.5, 2.0, 4.8]);
    let mut open = sequential([0.5, -3.0, 4.6]);
    for (report, contradicted) in [(&stopped, true), (&open, false)] {
        let text = report.document(Inputs::new()).to_text().unwrap();
        crate::schema::fits("sequential-exposure", &text);
        assert_eq!(report.exit() == Exit::Exceeded, contradicted);
        assert_eq!(report.positions, 2_100);
    }
    let text = stopped.to_page("m").unwrap().to_text(View::full());
    assert!(
        text.contains("is contradicted after 3 of 10 canaries") && text.contains("level 0.01"),
        "{text}"
    );
    assert!(text.contains("after 3 of 10 canaries"), "{text}");
    let text = open.to_page("m").unwrap().to_text(View::full());
    assert!(text.contains("never reached 101"), "{text}");
    assert!(text.contains("was not checked"), "{text}");
    assert_eq!(open.to_page("m").unwrap().has_mood(), Mood::Open);
    open.reached = Some(1);
    let text = open.to_page("m").unwrap().to_text(View::full());
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("training met 1 of 10 canaries"), "{words}");
    assert!(!stopped.to_page("m").unwrap().said().contains("not checked"));
}

/// Ranks at the end of all tell the canaries from others as well as ranks at the beginning do: they are no silence.
#[test]
fn canaries_that_rank_last_conclude_nothing() {
    let ranked = |below: &[u64], candidates: u64| -> bool {
        let counts = below.iter().map(|&below| RankCount {
            candidates,
            nll: 1.0,
            below,
            ties: 0,
            unresolved: 0,
        });
        attack::is_reversed(&counts.collect::<Vec<_>>(), Draw::Independent)
    };
    assert!(ranked(&[9; 60], 10));
    assert!(ranked(&[600_000; 16], 1_000_000));
    // The best of four is among the last tenth, which happens to one of ten thousand.
    assert!(ranked(&[999, 990, 950, 901], 1000));
    // 0.5^9 is more than a thousandth, and one rank at the beginning is no reversal.
    assert!(!ranked(&[500; 9], 1000));
    assert!(!ranked(&[[0; 1].as_slice(), &[9; 59]].concat(), 10));
    // A rank that was left open may be the first.
    let open = RankCount {
        candidates: 10,
        nll: 1.0,
        below: 0,
        ties: 0,
        unresolved: 9,
    };
    assert!(!attack::is_reversed(&[open; 60], Draw::Independent));
    let costs: Vec<f64> = (0..1000).map(f64::from).collect();
    let each = Confidence::new(0.999).unwrap();
    let sampled = |nll| {
        let found = reticent_attacks::exposure::SampledExposure::of(&costs, nll, 0.0, each);
        found.unwrap()
    };
    assert!(attack::is_reversed_sample(&vec![sampled(1e3); 2]));
    // 0.45^9 is less than a thousandth, and 0.45^7 is not; one that ranks first is enough.
    assert!(attack::is_reversed_sample(&vec![sampled(600.0); 9]));
    assert!(!attack::is_reversed_sample(&vec![sampled(600.0); 7]));
    let one = [vec![sampled(1e3); 9], vec![sampled(-1.0)]].concat();
    assert!(!attack::is_reversed_sample(&one));
}

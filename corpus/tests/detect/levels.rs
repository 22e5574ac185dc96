//! JFT's four levels on the two sentences of its Table 1 (Shi et al. 2022).

use super::{found, spans};
use reticent_corpus::policy::{Cover, EntityKind, Level, Levels, Role, RoleTag, Tagger};
use reticent_corpus::tagger::TaggerModel;
use std::sync::Arc;

const CUSTODY: &str = "What are you going to do about the custody of the kids?";
const DIVORCE: &str = "Did you hear Alice is getting divorced?";

/// The parse that Table 1 shows: its authors' parser takes `divorced` for a verb, and
/// `getting` for none.
#[derive(Debug)]
struct Parsed;

impl Tagger for Parsed {
    fn tag(&self, text: &str, found: &mut Vec<RoleTag>) {
        let roles = [
            ("Alice", Role::Entity(EntityKind::Person)),
            ("Alice", Role::ProperNoun),
            ("Alice", Role::Subject),
            ("you", Role::Subject),
            ("custody", Role::Object),
            ("kids", Role::Object),
            ("going", Role::Verb),
            ("do ", Role::Verb),
            ("hear", Role::Verb),
            ("divorced", Role::Verb),
        ];
        for (word, role) in roles {
            found.extend(text.find(word).map(|at| RoleTag {
                range: at..at + word.trim_end().len(),
                role,
                score: 0.9,
            }));
        }
    }
}

/// The sentence with an underscore for each span.
fn redacted(level: Level, tagger: Option<Arc<dyn Tagger>>, text: &str) -> String {
    let mut out = text.to_owned();
    for span in spans(&Levels::new(level, tagger).unwrap(), text)
        .iter()
        .rev()
    {
        out.replace_range(span.start..span.end, "_");
    }
    out
}

/// Table 1, with the printed `about <OBJ>` read as `about the <OBJ>` (the article is lost in the
/// table alone: the levels redact objects, and `the kids` keeps its article); the last cell, the
/// highest level on the second sentence, apart.
fn meets_table_1(tagger: &Arc<dyn Tagger>, last: &str) {
    let named = "Did you hear _ is getting divorced?";
    let table = [
        (Level::LowEntity, CUSTODY, CUSTODY),
        (Level::LowEntity, DIVORCE, named),
        (Level::HighEntity, CUSTODY, CUSTODY),
        (Level::HighEntity, DIVORCE, named),
        (
            Level::LowContextual,
            CUSTODY,
            "_ are _ going to do about the _ of the _?",
        ),
        (
            Level::LowContextual,
            DIVORCE,
            "Did _ hear _ is getting divorced?",
        ),
        (
            Level::HighContextual,
            CUSTODY,
            "_ are _ _ to _ about the _ of the _?",
        ),
        (Level::HighContextual, DIVORCE, last),
    ];
    for (level, text, expected) in table {
        let tagger = Some(tagger.clone());
        assert_eq!(redacted(level, tagger, text), expected, "{level:?}");
    }
}

/// Golden: Table 1.
#[test]
fn with_a_parse_the_levels_redact_what_table_1_does() {
    let tagger: Arc<dyn Tagger> = Arc::new(Parsed);
    meets_table_1(&tagger, "Did _ _ _ is getting _?");
}

/// Golden: Table 1 with the tagger that ships. It reads the sentences as the paper's parser
/// does but for `getting`, a verb in its treebank, and `divorced`, an adjective (the paper
/// calls it one too, in a footnote).
#[test]
fn with_the_shipped_tagger_the_levels_redact_what_table_1_does() {
    let tagger: Arc<dyn Tagger> = TaggerModel::shipped().unwrap();
    meets_table_1(&tagger, "Did _ _ _ is _ divorced?");
}

/// Without a parser the entity levels agree with the table, and the contextual ones find
/// pronouns and proper nouns; objects and verbs stay, and `coverage` does not claim them.
#[test]
fn without_a_parse_the_entity_levels_agree_with_table_1() {
    for level in [Level::LowEntity, Level::HighEntity] {
        assert_eq!(redacted(level, None, CUSTODY), CUSTODY);
        assert_eq!(
            redacted(level, None, DIVORCE),
            "Did you hear _ is getting divorced?"
        );
    }
    for level in [Level::LowContextual, Level::HighContextual] {
        assert_eq!(
            redacted(level, None, CUSTODY),
            "_ are _ going to do about the custody of the kids?"
        );
        assert_eq!(
            redacted(level, None, DIVORCE),
            "Did _ hear _ is getting divorced?"
        );
    }
}

#[test]
fn each_level_holds_the_one_before_it() {
    let texts = [
        CUSTODY,
        DIVORCE,
        "Germany paid $5 on Monday, and the first 20 km took 3 hours or 5% more.",
        "USR: I told Ada Byron that he'd be late. Paris is far.",
    ];
    for text in texts {
        let covers = |level| {
            let found = spans(&Levels::new(level, Some(Arc::new(Parsed))).unwrap(), text);
            (0..text.len())
                .filter(|at| found.iter().any(|s| s.start <= *at && *at < s.end))
                .collect::<Vec<usize>>()
        };
        for pair in Level::ALL.windows(2) {
            let (low, high) = (covers(pair[0]), covers(pair[1]));
            assert!(low.iter().all(|at| high.contains(at)), "{pair:?} {text}");
        }
    }
}

#[test]
fn numbers_and_times_are_high_entities_and_dates_low_ones() {
    let text = "Germany paid $5 on Monday at 5 pm for the first 20 km, about 5% of forty.";
    let kinds = |level| {
        let found = found(&Levels::new(level, None).unwrap(), text);
        found.into_iter().map(|(k, _)| k).collect::<Vec<_>>()
    };
    assert_eq!(kinds(Level::LowEntity), ["gpe", "date"]);
    assert_eq!(
        kinds(Level::HighEntity),
        [
            "gpe", "money", "date", "time", "ordinal", "quantity", "percent", "cardinal"
        ]
    );
}

#[test]
fn coverage_says_what_finds_each_of_the_eighteen_kinds() {
    let count = |level, tagger: Option<Arc<dyn Tagger>>, cover| {
        let coverage = Levels::new(level, tagger).unwrap().coverage();
        assert_eq!(coverage.len(), 18);
        coverage.iter().filter(|(_, c)| *c == cover).count()
    };
    let tagger = || Some(Arc::new(Parsed) as Arc<dyn Tagger>);
    assert_eq!(count(Level::HighEntity, None, Cover::Grammar), 7);
    assert_eq!(count(Level::HighEntity, None, Cover::ListAndCapitals), 3);
    assert_eq!(count(Level::HighEntity, None, Cover::CapitalsOnly), 8);
    assert_eq!(count(Level::HighEntity, tagger(), Cover::Tagger), 11);
    assert_eq!(count(Level::LowEntity, None, Cover::NotSensitive), 12);
    // What the tagger that ships was not made for is left to lists and capitals.
    let shipped = || Some(TaggerModel::shipped().unwrap() as Arc<dyn Tagger>);
    assert_eq!(count(Level::HighEntity, shipped(), Cover::Grammar), 7);
    assert_eq!(count(Level::HighEntity, shipped(), Cover::Tagger), 8);
    assert_eq!(
        count(Level::HighEntity, shipped(), Cover::ListAndCapitals),
        2
    );
    assert_eq!(count(Level::HighEntity, shipped(), Cover::CapitalsOnly), 1);
}

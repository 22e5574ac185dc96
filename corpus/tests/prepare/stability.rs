//! How far a change spreads.

use super::{corpus, options};
use reticent_corpus::prepare::{
    Copies, PrepareOptions, Preparer, Stability, mask_secret, neighbour_diff, prepare,
};
use reticent_corpus::{Document, Masked};
#[test]
fn stability_is_recorded_and_multiplied() {
    let documents = corpus(&["a"]);
    let facts = prepare(&documents, &options()).unwrap().facts;
    assert_eq!(facts.stability(Copies::All), Stability::Bounded(1));
    assert_eq!(facts.stability(Copies::Single), Stability::Bounded(2));
    let kept = PrepareOptions {
        deduplicate: false,
        ..options()
    };
    let facts = prepare(&documents, &kept).unwrap().facts;
    assert_eq!(facts.stability(Copies::Single), Stability::Bounded(1));
    let mut masked = corpus(&["ab"]);
    masked[0].masked = vec![Masked { start: 0, end: 1 }];
    let facts = prepare(&masked, &options()).unwrap().facts;
    assert_eq!(facts.stability(Copies::All), Stability::Bounded(2));
    assert_eq!(
        Stability::Bounded(2).then(Stability::Unbounded),
        Stability::Unbounded
    );
    assert_eq!(
        Stability::Bounded(u64::MAX).then(Stability::Bounded(2)),
        Stability::Unbounded
    );
    let json = serde_json::to_string(&[Stability::Bounded(3), Stability::Unbounded]).unwrap();
    assert_eq!(json, r#"[3,"unbounded"]"#);
    let back: Vec<Stability> = serde_json::from_str(&json).unwrap();
    assert_eq!(back, [Stability::Bounded(3), Stability::Unbounded]);
    assert!(serde_json::from_str::<Stability>("\"large\"").is_err());
}

/// CRT's Proposition 7 with a single copy: {s, s} gives {s, M}, {s′, s} gives {s′, s}: two
/// records differ. With both copies together it is one.
#[test]
fn one_copy_of_two_changes_two_records() {
    let text = "my pin is 12\nmy pin is 12";
    let both = [Document::new("d", text)
        .with_secret(10, 12, "pin")
        .with_secret(23, 25, "pin")];
    let preparer = Preparer::new(
        &both,
        &PrepareOptions {
            conservative: None,
            ..options()
        },
    )
    .unwrap();
    let run = preparer.run().unwrap();
    let mut single = both.clone();
    single[0].masked = vec![Masked { start: 10, end: 12 }];
    let diff = neighbour_diff(&run, &preparer.run_on(&single).unwrap());
    assert_eq!(
        (diff.records, diff.same_split, diff.same_counts),
        (2, true, true)
    );
    let diff = neighbour_diff(&run, &preparer.run_on(&mask_secret(&both, "12")).unwrap());
    assert_eq!(
        (diff.records, diff.same_split, diff.same_counts),
        (1, true, true)
    );
}

/// Where the input holds the masked version already, one distinct unit changes two records.
#[test]
fn masks_in_the_input_cost_a_factor_of_two() {
    let mut documents = [Document::new("d", "pin 12\npin 34").with_secret(4, 6, "pin")];
    documents[0].masked = vec![Masked { start: 11, end: 13 }];
    let preparer = Preparer::new(
        &documents,
        &PrepareOptions {
            conservative: None,
            ..options()
        },
    )
    .unwrap();
    let run = preparer.run().unwrap();
    let diff = neighbour_diff(
        &run,
        &preparer.run_on(&mask_secret(&documents, "12")).unwrap(),
    );
    assert_eq!(diff.records, 2);
    assert_eq!(run.facts.stability(Copies::All), Stability::Bounded(2));
}

#[test]
fn other_numbers_of_points_are_not_aligned() {
    let (one, two) = (corpus(&["a\nb"]), corpus(&["a\nb\nc"]));
    let diff = neighbour_diff(
        &prepare(&one, &options()).unwrap(),
        &prepare(&two, &options()).unwrap(),
    );
    assert!(!diff.aligned && !diff.identical() && !diff.same_split);
    assert_eq!(diff.records, 3);
}

//! The n-gram baseline: a probability, hand-checked, and better with a longer memory.

use proptest::prelude::*;
use reticent_corpus::prepare::{PrepareOptions, prepare};
use reticent_corpus::simulate::simulate;
use reticent_corpus::{NGram, Record, Side, Trigram};

const BOS: u32 = 3;
const VOCABULARY: usize = 4;

fn record(content: &[u32]) -> Record {
    let mut tokens = vec![BOS];
    tokens.extend(content);
    Record {
        side: Side::Private,
        tokens,
        sensitive: Vec::new(),
        label: None,
        ignored: Vec::new(),
    }
}

/// Two records "0 1" and "0 2" over the targets {0, 1, 2}, by hand:
/// unigram p(1) = (1 + 3·⅓)/(4 + 3) = 2/7; after 0 two types in two tokens:
/// p(1|0) = (1 + 2·2/7)/(2 + 2) = 11/28; after BOS 0 the same counts:
/// p(1|BOS 0) = (1 + 2·11/28)/4 = 25/56.
#[test]
fn the_recursion_gives_the_value_worked_out_by_hand() {
    let records = [record(&[0, 1]), record(&[0, 2])];
    let values = [
        (1, 2.0 / 7.0),
        (2, 11.0 / 28.0),
        (3, 25.0 / 56.0),
        (4, 25.0 / 56.0),
    ];
    for (order, value) in values {
        let model = NGram::train(&records, order, VOCABULARY, BOS).unwrap();
        let p = model.probability(&[BOS, 0], 1);
        assert!(
            (p - value).abs() < 1e-15,
            "order {order}: {p} against {value}"
        );
    }
    let model = NGram::train(&records, 1, VOCABULARY, BOS).unwrap();
    let scored = model.evaluate(&[record(&[1, 1])]).unwrap();
    assert_eq!(scored.tokens, 2);
    assert!((scored.perplexity() - 3.5).abs() < 1e-14);
}

#[test]
fn without_training_every_target_is_equally_likely() {
    let model = NGram::train(&[], 3, VOCABULARY, BOS).unwrap();
    assert!((model.evaluate(&[record(&[0, 1, 2])]).unwrap().perplexity() - 3.0).abs() < 1e-14);
}

/// On simulated dialogues each order does better than the one below, held out.
#[test]
fn a_longer_memory_predicts_better() {
    let options = PrepareOptions {
        held_out: 0.2,
        ..PrepareOptions::default()
    };
    let prepared = prepare(&simulate(300, 0).unwrap(), &options).unwrap();
    let size = prepared.tokenizer.vocabulary_size();
    let perplexity = |order| {
        let records = &prepared.training.records;
        let model = NGram::train(records, order, size, prepared.tokenizer.bos()).unwrap();
        model.evaluate(&prepared.held_out).unwrap().perplexity()
    };
    let values: Vec<f64> = (1..=5).map(perplexity).collect();
    assert!(values.windows(2).all(|w| w[1] < w[0]), "{values:?}");
    let trigram = Trigram::of(&prepared)
        .unwrap()
        .evaluate(&prepared.held_out)
        .unwrap();
    assert!((trigram.perplexity() - values[2]).abs() < 1e-12);
    assert_eq!(trigram.tokens, prepared.facts.held_out_tokens);
}

#[test]
fn orders_and_tokens_have_a_range() {
    for order in [0, 9] {
        let text = NGram::train(&[], order, 4, BOS).unwrap_err().to_string();
        assert_eq!(
            text,
            format!("the order of an n-gram model must be from 1 to 8, got {order}")
        );
    }
    assert!(NGram::train(&[], 3, 1, 0).is_err());
    let text = NGram::train(&[record(&[4])], 3, 4, BOS)
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("token 4 is outside the vocabulary of 4"),
        "{text}"
    );
    let model = NGram::train(&[], 3, 4, BOS).unwrap();
    assert!(model.evaluate(&[record(&[9])]).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Over all targets probabilities sum to one, whatever the context, and none is zero.
    #[test]
    fn probabilities_sum_to_one(
        contents in proptest::collection::vec(proptest::collection::vec(0u32..3, 0..8), 0..6),
        before in proptest::collection::vec(0u32..4, 0..5),
        order in 1usize..=5,
    ) {
        let records: Vec<Record> = contents.iter().map(|c| record(c)).collect();
        let model = NGram::train(&records, order, VOCABULARY, BOS).unwrap();
        let p: Vec<f64> = (0..4).map(|t| model.probability(&before, t)).collect();
        prop_assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        prop_assert!(p[..3].iter().all(|&p| p > 0.0));
        prop_assert!(p[BOS as usize].abs() < f64::MIN_POSITIVE);
    }
}

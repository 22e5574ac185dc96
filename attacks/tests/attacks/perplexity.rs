//! Perplexity against its definition.

use crate::models::{Broken, Model, Recurrent, Toy, Uniform};
use proptest::prelude::*;
use reticent_attacks::{Error, perplexity};
use reticent_backends::Scorer;
use reticent_corpus::TokenId;
use std::ops::ControlFlow;

/// Golden: attack vector expo-17; token probabilities 1/2, 1/4, 1/8 give 6 bits and perplexity 4.
#[test]
fn halves_quarters_eighths() {
    struct Halving;
    impl Model for Halving {
        type State = i32;
        fn vocabulary(&self) -> usize {
            2
        }
        fn blank(&self) -> i32 {
            0
        }
        fn step(&self, state: &i32, _: TokenId) -> i32 {
            state + 1
        }
        fn log_probabilities(&mut self, state: &i32) -> Vec<f64> {
            vec![0.5_f64.powi(*state).ln(); 2]
        }
    }
    let result = perplexity(
        &mut Toy::new(Halving),
        &[vec![0, 1, 1, 0]],
        100,
        &mut |_| ControlFlow::Continue(()),
    )
    .unwrap();
    assert!((result.perplexity - 4.0).abs() < 1e-12);
    assert!((result.records[0].nll / std::f64::consts::LN_2 - 6.0).abs() < 1e-12);
    assert_eq!(result.tokens, 3);
}

/// A uniform model has its vocabulary as perplexity; records without a second token count nothing.
#[test]
fn uniform_means_vocabulary() {
    let records = vec![vec![1, 2, 3], vec![4], vec![], vec![5, 6]];
    let mut seen = Vec::new();
    let result = perplexity(&mut Toy::new(Uniform::new(10)), &records, 1, &mut |done| {
        seen.push(done);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!((result.perplexity - 10.0).abs() < 1e-12);
    let tokens: Vec<u64> = result.records.iter().map(|r| r.tokens).collect();
    assert_eq!(tokens, [2, 0, 0, 1]);
    assert_eq!(seen, [3, 4]);
}

#[test]
fn what_cannot_be_scored_is_an_error() {
    let go = &mut |_| ControlFlow::Continue(());
    let said = perplexity(&mut Toy::new(Uniform::new(10)), &[vec![1]], 8, go);
    assert!(matches!(said, Err(Error::Empty(_))));
    let said = perplexity(
        &mut Toy::new(Broken { value: f64::NAN }),
        &[vec![1, 7]],
        8,
        go,
    );
    assert!(matches!(said, Err(Error::BadScore { token: 7, .. })));
    let stop = &mut |_| ControlFlow::Break(());
    let said = perplexity(&mut Toy::new(Uniform::new(10)), &[vec![1, 7]], 8, stop);
    assert!(matches!(said, Err(Error::Interrupted)));
}

/// A token that the model rules out makes the perplexity infinite, not an error.
#[test]
fn ruled_out_means_infinite() {
    let mut toy = Toy::new(Broken {
        value: f64::NEG_INFINITY,
    });
    let result = perplexity(&mut toy, &[vec![1, 7]], 8, &mut |_| {
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(result.perplexity.is_infinite() && result.perplexity > 0.0);
    let text = serde_json::to_string(&result).unwrap();
    assert!(
        text.starts_with(r#"{"perplexity":"inf","mean_nll":"inf""#),
        "{text}"
    );
    let back: reticent_attacks::Perplexity = serde_json::from_str(&text).unwrap();
    assert_eq!(back, result);
}

proptest! {
    /// Batches change nothing, and the sum is the sum of the token scores.
    #[test]
    fn equals_its_definition(
        records in prop::collection::vec(prop::collection::vec(0_u32..6, 0..9), 1..20),
        batch in 0_usize..60,
        seed in any::<u64>(),
    ) {
        prop_assume!(records.iter().any(|r| r.len() > 1));
        let mut toy = Toy::new(Recurrent::random(6, seed));
        let result = perplexity(&mut toy, &records, batch, &mut |_| ControlFlow::Continue(())).unwrap();
        let mut total = 0.0;
        let mut tokens = 0;
        for (record, cost) in records.iter().zip(&result.records) {
            let row = &toy.score(std::slice::from_ref(record)).unwrap()[0];
            let nll: f64 = row.iter().map(|s| -s.log_probability).sum();
            prop_assert!((cost.nll - nll).abs() < 1e-12 * (1.0 + nll));
            total += nll;
            tokens += row.len();
        }
        prop_assert_eq!(result.tokens, tokens as u64);
        let expected = (total / tokens as f64).exp();
        prop_assert!((result.perplexity - expected).abs() < 1e-9 * expected);
    }
}

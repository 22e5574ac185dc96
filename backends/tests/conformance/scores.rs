//! Scores, cached prefixes, weights in and out.

use super::subjects::{Engine, VOCABULARY, bits, records, subjects};
use reticent_backends::Error;

/// Scores are read in f64 from f32 logits of size 1.
fn close(engine: Engine) -> f64 {
    if engine == Engine::Exact { 1e-12 } else { 2e-5 }
}

#[test]
fn scores_are_the_exact_engines_and_a_distributions() {
    for subject in subjects() {
        let (mut model, mut exact) = (subject.open(), subject.exact());
        let ours = model.score(&records()).unwrap();
        let theirs = exact.score(&records()).unwrap();
        let tolerance = close(subject.engine);
        for (a, b) in ours.iter().flatten().zip(theirs.iter().flatten()) {
            let near = |a: f64, b: f64| (a - b).abs() < tolerance;
            assert!(
                near(a.log_probability, b.log_probability),
                "{}",
                subject.name
            );
            assert!(near(a.mean, b.mean) && near(a.variance, b.variance));
            assert!(near(a.top_log_probability, b.top_log_probability));
            assert!(a.top_log_probability >= a.log_probability && a.variance >= 0.0);
        }
    }
}

#[test]
fn cached_prefixes_give_the_scores_of_whole_sequences() {
    let wanted: Vec<u32> = (0..VOCABULARY as u32).collect();
    for subject in subjects() {
        let mut model = subject.open();
        for record in records() {
            let scores = model
                .score(std::slice::from_ref(&record))
                .unwrap()
                .remove(0);
            let mut state = model.start(&[vec![record[0]]]).unwrap();
            for (position, score) in scores.iter().enumerate() {
                let log_p = model.next_log_probabilities(&state, &wanted).unwrap();
                let total: f64 = log_p.iter().map(|l| l.exp()).sum();
                assert!((total - 1.0).abs() < 1e-5, "{}: {total}", subject.name);
                let next = record[position + 1];
                let off = (log_p[next as usize] - score.log_probability).abs();
                assert!(off < close(subject.engine), "{}: {off}", subject.name);
                let child = model.extend(&[(state[0], next)]).unwrap();
                model.release(&state);
                assert!(matches!(
                    model.next_log_probabilities(&state, &wanted),
                    Err(Error::UnknownState(_))
                ));
                state = child;
            }
        }
    }
}

/// A parent stays valid, siblings do not meet, and a longer prefix at once is the same state.
#[test]
fn states_do_not_depend_on_each_other() {
    let wanted = [0, 5, 12];
    for subject in subjects() {
        let mut model = subject.open();
        let root = model.start(&[vec![3, 9, 4]]).unwrap()[0];
        let before = model.next_log_probabilities(&[root], &wanted).unwrap();
        let children = model.extend(&[(root, 1), (root, 2), (root, 1)]).unwrap();
        let rows = model.next_log_probabilities(&children, &wanted).unwrap();
        let same = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(same(&rows[..3], &rows[6..]), "{}", subject.name);
        assert!(!same(&rows[..3], &rows[3..6]), "{}", subject.name);
        let after = model.next_log_probabilities(&[root], &wanted).unwrap();
        assert!(same(&before, &after), "{}", subject.name);
        let direct = model.start(&[vec![3, 9, 4, 2]]).unwrap();
        let whole = model.next_log_probabilities(&direct, &wanted).unwrap();
        for (a, b) in whole.iter().zip(&rows[3..6]) {
            assert!((a - b).abs() < close(subject.engine), "{}", subject.name);
        }
        assert!(model.start(&[vec![]]).is_err());
        assert!(model.extend(&[(root, 13)]).is_err());
        assert!(model.next_log_probabilities(&[root], &[13]).is_err());
    }
}

#[test]
fn weights_come_back_as_they_went_in() {
    for subject in subjects() {
        let mut model = subject.open();
        let before = model.score(&records()).unwrap();
        let state = model.start(&[vec![1, 2]]).unwrap();
        assert_eq!(bits(model.weights()), bits(&subject.weights));
        let mut other = subject.weights.clone();
        other.iter_mut().flatten().for_each(|w| *w *= 1.5);
        model.set_weights(other.clone()).unwrap();
        assert_eq!(bits(model.weights()), bits(&other), "{}", subject.name);
        assert_ne!(model.score(&records()).unwrap(), before);
        // a state of other weights would answer for a model that is gone
        assert!(
            model.next_log_probabilities(&state, &[0]).is_err(),
            "{}",
            subject.name
        );
        model.set_weights(subject.weights.clone()).unwrap();
        assert_eq!(model.score(&records()).unwrap(), before, "{}", subject.name);
        let mut short = subject.weights.clone();
        short[0].pop();
        assert!(matches!(model.set_weights(short), Err(Error::Shape { .. })));
        assert_eq!(bits(model.weights()), bits(&subject.weights));
    }
}

#[test]
fn parameters_weights_and_groups_fit() {
    for subject in subjects() {
        let model = subject.open();
        assert_eq!(model.parameters(), subject.model.parameters());
        assert_eq!(model.groups(), subject.model.groups(), "{}", subject.name);
        assert_eq!(model.vocabulary_size(), VOCABULARY);
        assert!((0.0..1e-2).contains(&model.norm_margin()));
    }
}

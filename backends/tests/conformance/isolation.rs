//! One example's scores and gradient do not depend on the others.

use super::subjects::{alone, distance, norm, records, subjects, sum};
use reticent_backends::TokenScore;
use reticent_backends::privacy::Clip;

fn score_bits(scores: &[TokenScore]) -> Vec<[u64; 4]> {
    let one = |s: &TokenScore| {
        [s.log_probability, s.mean, s.variance, s.top_log_probability].map(f64::to_bits)
    };
    scores.iter().map(one).collect()
}

#[test]
fn scores_are_the_same_bits_alone_and_in_any_order() {
    for subject in subjects() {
        let mut model = subject.open();
        let all = records();
        let together = model.score(&all).unwrap();
        let reversed: Vec<_> = all.iter().rev().cloned().collect();
        let backwards = model.score(&reversed).unwrap();
        for (i, record) in all.iter().enumerate() {
            let single = model.score(std::slice::from_ref(record)).unwrap();
            let expected = score_bits(&single[0]);
            assert_eq!(expected.len(), record.len() - 1);
            let name = &subject.name;
            assert_eq!(score_bits(&together[i]), expected, "{name}: record {i}");
            let other = &backwards[all.len() - 1 - i];
            assert_eq!(score_bits(other), expected, "{name}: record {i} reversed");
        }
    }
}

/// The clipped gradient of a record is what its company's sum grows by.
#[test]
fn a_record_adds_what_it_adds_alone() {
    for subject in subjects() {
        let mut model = subject.open();
        let clip = Clip::new(0.4, 0.0).unwrap();
        let all = records();
        let indices: Vec<u32> = (0..all.len() as u32).collect();
        let (whole, _) = sum(model.as_mut(), &all, &[&indices], &clip);
        for i in 0..all.len() {
            let own = alone(model.as_mut(), &all, i, &clip);
            let rest: Vec<u32> = indices.iter().copied().filter(|k| *k != i as u32).collect();
            let (mut grown, _) = sum(model.as_mut(), &all, &[&rest], &clip);
            for (sum, own) in grown.iter_mut().flatten().zip(own.iter().flatten()) {
                *sum += own;
            }
            let off = distance(&grown, &whole);
            assert!(
                off < 1e-6 * norm(&whole).max(1.0),
                "{}: {off}",
                subject.name
            );
        }
    }
}

#[test]
fn the_sum_does_not_depend_on_order_or_microbatches() {
    for subject in subjects() {
        let mut model = subject.open();
        let clip = Clip::new(0.4, 0.0).unwrap();
        let all = records();
        let (whole, added) = sum(model.as_mut(), &all, &[&[0, 1, 2, 3, 4, 5]], &clip);
        let splits: [&[&[u32]]; 4] = [
            &[&[0], &[1], &[2], &[3], &[4], &[5]],
            &[&[5, 4, 3, 2, 1, 0]],
            &[&[3], &[0, 5, 1], &[], &[4, 2]],
            &[&[0, 1, 2, 3, 4], &[5]],
        ];
        for split in splits {
            let (other, same) = sum(model.as_mut(), &all, split, &clip);
            assert_eq!(added, same, "{}", subject.name);
            let off = distance(&whole, &other) / norm(&whole);
            assert!(off < 1e-6, "{}, {split:?}: {off}", subject.name);
        }
    }
}

//! Dropout: in training alone, by step and record alone.

use super::subjects::{Subject, alone, bits, distance, norm, records, subjects};
use reticent_backends::privacy::Clip;
use reticent_backends::trainer::Trainer;

fn dropping() -> Vec<Subject> {
    let all = subjects().into_iter();
    all.filter(|s| !s.dropout.is_none()).collect()
}

fn all_alone(model: &mut dyn Trainer) -> Vec<Vec<Vec<f32>>> {
    let clip = Clip::new(1e6, 0.0).unwrap();
    let count = records().len();
    (0..count)
        .map(|i| alone(model, &records(), i, &clip))
        .collect()
}

#[test]
fn gradients_are_those_of_a_step_and_come_back_with_it() {
    for subject in dropping() {
        let mut model = subject.open();
        let here = all_alone(model.as_mut());
        model.drop_out(subject.masks(6)).unwrap();
        let later = all_alone(model.as_mut());
        model.drop_out(subject.masks(5)).unwrap();
        let again = all_alone(model.as_mut());
        model.drop_out(None).unwrap();
        let never = all_alone(model.as_mut());
        for i in 0..here.len() {
            assert_eq!(bits(&here[i]), bits(&again[i]), "{}: {i}", subject.name);
            for other in [&later[i], &never[i]] {
                let off = distance(&here[i], other) / norm(&here[i]);
                assert!(off > 1e-3, "{}: record {i} drops nothing", subject.name);
            }
        }
        // records 2 and 4 are equal, and dropped differently
        let off = distance(&here[2], &here[4]) / norm(&here[2]);
        assert!(off > 1e-3, "{}: one mask for two records", subject.name);
    }
}

#[test]
fn scores_drop_nothing() {
    for subject in dropping() {
        let mut model = subject.open();
        let during = model.score(&records()).unwrap();
        let state = model.start(&[vec![1, 2, 3]]).unwrap();
        let next = model.next_log_probabilities(&state, &[0, 5]).unwrap();
        model.drop_out(None).unwrap();
        assert_eq!(during, model.score(&records()).unwrap(), "{}", subject.name);
        let state = model.start(&[vec![1, 2, 3]]).unwrap();
        let after = model.next_log_probabilities(&state, &[0, 5]).unwrap();
        assert_eq!(next, after, "{}", subject.name);
    }
}

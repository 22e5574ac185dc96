//! Selective gradients: whole examples, states, whole batches.

use super::*;
use crate::privacy::random::RunKey;
use crate::privacy::segments::{Segment, SelectiveBatch};
use crate::trainer::dropout::{Dropout, Masks};
use crate::trainer::{Recurrent, Trainer};

/// A batch of whole examples, all predictions ordinary or all sensitive.
fn in_one_segment(all: &[Vec<u32>], sensitive: bool) -> Vec<Vec<Segment>> {
    let segment = |s: &Vec<u32>| Segment {
        rows: 0..s.len() - 1,
        sensitive,
    };
    all.iter().map(|s| vec![segment(s)]).collect()
}

fn selective_batch<'a>(all: &'a [Vec<u32>], segments: &'a [Vec<Segment>]) -> SelectiveBatch<'a> {
    let pairs = all.iter().zip(segments);
    let numbers = (0..all.len() as u32).collect();
    SelectiveBatch(
        pairs.map(|(t, s)| (t.as_slice(), s.as_slice())).collect(),
        numbers,
    )
}

const AS_IT_IS: fn(usize, usize, &mut [f32], &mut [f32]) = |_, _, _, _| {};

#[test]
fn selective_gradients_of_whole_examples_are_the_engines_own() {
    let all = sequences(30, 11);
    let mut model = engine();
    let clip = Clip::new(0.8, 1e-5)
        .unwrap()
        .by(Clipping::PerLayer)
        .unwrap();
    let (public, _) = model
        .public_gradient(&PublicBatch::in_order(views(&all)))
        .unwrap();
    model.begin();
    model
        .add(&PrivateBatch::in_order(views(&all)), &clip)
        .unwrap();
    let private = model.accumulator().to_vec();
    for sensitive in [false, true] {
        let segments = in_one_segment(&all, sensitive);
        model.begin();
        let batch = selective_batch(&all, &segments);
        let (ordinary, added) = model.add_selective(&batch, &clip, &AS_IT_IS).unwrap();
        assert_eq!((added.examples, added.rejected), (30, 0));
        let sum = model.accumulator();
        let (found, expected, silent) = if sensitive {
            (sum.to_vec(), &private, ordinary)
        } else {
            (ordinary, &public, sum.to_vec())
        };
        assert!(distance(&found, expected) / norm(expected) < 2e-6);
        assert!(norm(&silent) < 1e-30);
    }
}

/// Whole examples again, with dropout: the masks are those of ordinary training.
#[test]
fn dropout_of_whole_examples_is_the_engines_own() {
    let all = sequences(20, 13);
    let mut model = engine();
    let rates = Dropout::all(0.3).unwrap();
    model
        .drop_out(Masks::new(&RunKey::from_seed(1), 4, rates))
        .unwrap();
    let clip = Clip::new(0.8, 1e-5).unwrap();
    let (public, _) = model
        .public_gradient(&PublicBatch::in_order(views(&all)))
        .unwrap();
    model.begin();
    model
        .add(&PrivateBatch::in_order(views(&all)), &clip)
        .unwrap();
    let private = model.accumulator().to_vec();
    for sensitive in [false, true] {
        let segments = in_one_segment(&all, sensitive);
        model.begin();
        let batch = selective_batch(&all, &segments);
        let (ordinary, _) = model.add_selective(&batch, &clip, &AS_IT_IS).unwrap();
        let (found, expected) = if sensitive {
            (model.accumulator().to_vec(), &private)
        } else {
            (ordinary, &public)
        };
        assert!(distance(&found, expected) / norm(expected) < 2e-6);
    }
}

/// The ordinary gradient behind a sensitive segment has the same bits however long that is.
#[test]
fn masks_do_not_tell_how_long_a_sensitive_segment_is() {
    let mut model = engine();
    let rates = Dropout::all(0.3).unwrap();
    model
        .drop_out(Masks::new(&RunKey::from_seed(1), 4, rates))
        .unwrap();
    let forget = |_: usize, _: usize, h: &mut [f32], c: &mut [f32]| {
        h.fill(0.0);
        c.fill(0.0);
    };
    let clip = Clip::new(1.0, 1e-5).unwrap();
    let mut with = |secret: &[u32]| {
        let tokens = [&[1, 2, 3, 4], secret, &[5, 6, 7, 8, 9]].concat();
        let end = 4 + secret.len();
        let segment = |rows: std::ops::Range<usize>, sensitive| Segment { rows, sensitive };
        let segments = vec![
            segment(0..3, false),
            segment(3..end, true),
            segment(end..tokens.len() - 1, false),
        ];
        let (all, segments) = ([tokens], [segments]);
        model.begin();
        let batch = selective_batch(&all, &segments);
        let (ordinary, _) = model.add_selective(&batch, &clip, &forget).unwrap();
        let bits = ordinary.iter().flatten().map(|x| x.to_bits());
        bits.collect::<Vec<_>>()
    };
    let short = with(&[10]);
    assert_eq!(short, with(&[3]));
    assert_eq!(short, with(&[3, 1, 4, 1, 5, 9]));
}

#[test]
fn a_segment_goes_on_from_the_state_it_is_given() {
    let all = sequences(20, 12);
    let mut model = engine();
    let clip = Clip::new(1e6, 0.0).unwrap();
    // the second half of each example is ordinary, the first sensitive
    let halves: Vec<Vec<Segment>> = all
        .iter()
        .map(|s| {
            let (middle, end) = (s.len() / 2, s.len() - 1);
            let part = |rows: std::ops::Range<usize>, sensitive| Segment { rows, sensitive };
            let parts = [part(0..middle, true), part(middle..end, false)];
            parts.into_iter().filter(|p| !p.rows.is_empty()).collect()
        })
        .collect();
    let batch = selective_batch(&all, &halves);
    let forget = |_: usize, _: usize, h: &mut [f32], c: &mut [f32]| {
        h.fill(0.0);
        c.fill(0.0);
    };
    model.begin();
    let (forgotten, _) = model.add_selective(&batch, &clip, &forget).unwrap();
    // the same as examples that begin in the middle
    let seconds: Vec<&[u32]> = all
        .iter()
        .map(|s| &s[s.len() / 2..])
        .filter(|s| s.len() > 1)
        .collect();
    let (expected, _) = model
        .public_gradient(&PublicBatch::in_order(seconds))
        .unwrap();
    assert!(distance(&forgotten, &expected) / norm(&expected) < 2e-6);
    model.begin();
    let (kept, _) = model.add_selective(&batch, &clip, &AS_IT_IS).unwrap();
    assert!(distance(&kept, &expected) / norm(&expected) > 1e-4);
}

/// Segments of two predictions in turn, the first ordinary or sensitive by the example's number.
fn in_turns(all: &[Vec<u32>]) -> Vec<Vec<Segment>> {
    let cut = |(number, s): (usize, &Vec<u32>)| {
        let rows = s.len() - 1;
        (0..rows.div_ceil(2))
            .map(|i| Segment {
                rows: 2 * i..(2 * i + 2).min(rows),
                sensitive: (i + number) % 2 == 0,
            })
            .collect()
    };
    all.iter().enumerate().map(cut).collect()
}

/// Released states that depend on the state and on nothing else.
fn halve(_: usize, _: usize, h: &mut [f32], c: &mut [f32]) {
    h.iter_mut().for_each(|x| *x *= 0.5);
    c.iter_mut().for_each(|x| *x *= 0.25);
}

#[test]
fn a_batch_gives_what_its_examples_give() {
    let all = sequences(40, 13);
    let segments = in_turns(&all);
    let mut model = engine();
    for kind in [Clipping::Flat, Clipping::PerLayer] {
        let clip = Clip::new(0.4, 1e-5).unwrap().by(kind).unwrap();
        model.begin();
        let batch = selective_batch(&all, &segments);
        let (ordinary, added) = model.add_selective(&batch, &clip, &halve).unwrap();
        assert!(added.clipped > 10 && added.examples == 40, "{added:?}");
        let sum = model.accumulator().to_vec();
        let mut rows = 0;
        let mut apart = ordinary.clone();
        apart.iter_mut().flatten().for_each(|x| *x = 0.0);
        model.begin();
        for i in 0..all.len() {
            let batch = selective_batch(&all[i..=i], &segments[i..=i]);
            let (own, _) = model.add_selective(&batch, &clip, &halve).unwrap();
            let ordinary = segments[i].iter().filter(|s| !s.sensitive);
            let own_rows: usize = ordinary.map(|s| s.rows.len()).sum();
            rows += own_rows;
            for (sum, own) in apart.iter_mut().flatten().zip(own.iter().flatten()) {
                *sum += own_rows as f32 * own;
            }
        }
        apart.iter_mut().flatten().for_each(|x| *x /= rows as f32);
        assert!(distance(&ordinary, &apart) / norm(&apart) < 2e-6);
        assert!(distance(&sum, model.accumulator()) / norm(&sum) < 2e-6);
    }
}

/// Ordinary gradients have the same bits whatever sensitive content, of whatever length, lies
/// between them, once what leaves it is given.
#[test]
fn ordinary_gradients_are_the_same_bits_beside_other_secrets() {
    let mut model = engine();
    let clip = Clip::new(0.4, 1e-5).unwrap();
    let given = |_: usize, _: usize, h: &mut [f32], c: &mut [f32]| {
        h.iter_mut().zip(c).enumerate().for_each(|(i, (h, c))| {
            *h = 0.1 * i as f32 - 0.3;
            *c = 0.5 - 0.2 * i as f32;
        });
    };
    let mut gradient = |secret: &[u32]| {
        // token 2 is asked for by an ordinary prediction, and read by the first sensitive one
        let text = |i: u32| [&[i % 11, 1, 2][..], secret, &[5, (i * 3) % 11, 7]].concat();
        let all: Vec<Vec<u32>> = (0..20).map(text).collect();
        let cut = |s: &Vec<u32>| {
            let end = s.len() - 1;
            let part = |rows, sensitive| Segment { rows, sensitive };
            vec![
                part(0..2, false),
                part(2..end - 2, true),
                part(end - 2..end, false),
            ]
        };
        let segments: Vec<Vec<Segment>> = all.iter().map(cut).collect();
        let batch = selective_batch(&all, &segments);
        model.begin();
        model.add_selective(&batch, &clip, &given).unwrap().0
    };
    let first = gradient(&[3, 4]);
    for secret in [&[9, 8][..], &[6], &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]] {
        assert_eq!(gradient(secret), first, "{secret:?}");
    }
}

//! The engine against independent routes to the same numbers.
#![allow(clippy::unwrap_used, reason = "a failing test should panic")]

mod cancelling;
#[cfg(any(feature = "cuda", feature = "wgpu"))]
mod card;
mod products;
mod selective;

use super::kernels::Kernels;
use super::packed::Packed;
use super::portable;
use crate::model::LstmConfig;
use crate::privacy::clip::{Clip, Clipping};
use crate::trainer::{PrivateBatch, PublicBatch};
use burn::backend::Autodiff;
use burn::tensor::activation::{log_softmax, sigmoid};
use burn::tensor::{Tensor, TensorData};
use burn_flex::Flex;
use rand::RngExt;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use std::sync::Arc;

type Auto = Autodiff<Flex>;

/// What an engine makes of each example of a batch has the same bits alone, in order, in reverse, and at both ends of a
/// crowd.
#[cfg(any(feature = "oracle", feature = "cuda", feature = "wgpu"))]
pub(super) fn check_company(
    name: &str,
    all: &[Vec<u32>],
    footprints: impl Fn(&[Vec<u32>]) -> Vec<Vec<u64>>,
) {
    let reversed: Vec<Vec<u32>> = all.iter().rev().cloned().collect();
    let crowd: Vec<Vec<u32>> = (0..6).flat_map(|_| all.to_vec()).collect();
    let (together, backwards) = (footprints(all), footprints(&reversed));
    let crowded = footprints(&crowd);
    for (i, s) in all.iter().enumerate() {
        let alone = &footprints(std::slice::from_ref(s))[0];
        assert!(!alone.is_empty());
        for (company, own) in [
            ("the others", &together[i]),
            ("the others reversed", &backwards[all.len() - 1 - i]),
            ("a crowd", &crowded[i]),
            ("a crowd, at its end", &crowded[5 * all.len() + i]),
        ] {
            assert!(alone == own, "{name}, example {i} among {company}");
        }
    }
}

const CONFIG: LstmConfig = LstmConfig {
    vocabulary: 11,
    embedding: 5,
    hidden: 7,
};

fn sequences(count: usize, seed: u64) -> Vec<Vec<u32>> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    (0..count)
        .map(|i| {
            let length = 2 + (rng.random::<u32>() % 9) as usize;
            let constant = i % 5 == 0; // repeated tokens in one example
            (0..length)
                .map(|_| {
                    if constant {
                        3
                    } else {
                        rng.random::<u32>() % 11
                    }
                })
                .collect()
        })
        .collect()
}

fn views(sequences: &[Vec<u32>]) -> Vec<&[u32]> {
    sequences.iter().map(Vec::as_slice).collect()
}

fn engine() -> super::lstm::Lstm<Flex> {
    super::lstm::Lstm::new(CONFIG, CONFIG.starting_weights(7), Default::default()).unwrap()
}

/// Gradient and loss of one example by burn's own operations, tracked weights, one backward pass.
fn plain_gradient(weights: &[Vec<f32>], sequence: &[u32]) -> (Vec<Vec<f32>>, f64) {
    let device = Default::default();
    let parameters = CONFIG.parameters();
    let two = |i: usize| {
        let p = &parameters[i];
        let shape = if p.shape.len() == 1 {
            vec![1, p.shape[0]]
        } else {
            p.shape.clone()
        };
        Tensor::<Auto, 2>::from_data(TensorData::new(weights[i].clone(), shape), &device)
            .require_grad()
    };
    let w: Vec<Tensor<Auto, 2>> = (0..6).map(two).collect();
    let h = CONFIG.hidden;
    let mut hidden = Tensor::<Auto, 2>::zeros([1, h], &device);
    let mut cell = hidden.clone();
    let mut loss = Tensor::<Auto, 1>::zeros([1], &device);
    for pair in sequence.windows(2) {
        let one_hot = |t: u32| {
            let mut row = vec![0.0f32; CONFIG.vocabulary];
            row[t as usize] = 1.0;
            Tensor::<Auto, 2>::from_data(TensorData::new(row, [1, CONFIG.vocabulary]), &device)
        };
        let x = one_hot(pair[0]).matmul(w[0].clone());
        let z = x.matmul(w[1].clone()) + hidden.matmul(w[2].clone()) + w[3].clone();
        let gate = |k: usize| z.clone().slice([0..1, k * h..(k + 1) * h]);
        cell = sigmoid(gate(1)) * cell + sigmoid(gate(0)) * gate(2).tanh();
        hidden = sigmoid(gate(3)) * cell.clone().tanh();
        let log_p = log_softmax(hidden.clone().matmul(w[4].clone()) + w[5].clone(), 1);
        loss = loss - (log_p * one_hot(pair[1])).sum();
    }
    let value = f64::from(loss.clone().into_scalar());
    let gradients = loss.backward();
    let read = |t: &Tensor<Auto, 2>| {
        t.grad(&gradients)
            .unwrap()
            .into_data()
            .into_vec::<f32>()
            .unwrap()
    };
    (w.iter().map(read).collect(), value)
}

fn norm(gradient: &[Vec<f32>]) -> f64 {
    gradient
        .iter()
        .flatten()
        .map(|x| f64::from(*x).powi(2))
        .sum::<f64>()
        .sqrt()
}

fn distance(a: &[Vec<f32>], b: &[Vec<f32>]) -> f64 {
    a.iter()
        .flatten()
        .zip(b.iter().flatten())
        .map(|(x, y)| f64::from(x - y).powi(2))
        .sum::<f64>()
        .sqrt()
}

/// ‖g‖ of each clipping group.
fn group_norms(gradient: &[Vec<f32>]) -> [f64; 3] {
    let mut squared = [0.0; 3];
    for (parameter, group) in gradient.iter().zip(super::kernels::GROUP) {
        squared[group] += norm(std::slice::from_ref(parameter)).powi(2);
    }
    squared.map(f64::sqrt)
}

fn close(a: &[f32], b: &[f32], what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    let scale = a.iter().fold(1.0f32, |m, x| m.max(x.abs()));
    let worst = a
        .iter()
        .zip(b)
        .map(|(x, y)| (x - y).abs())
        .fold(0.0, f32::max);
    assert!(
        worst <= 4e-6 * scale,
        "{what}: {worst} against scale {scale}"
    );
}

#[test]
fn clipped_sum_equals_separate_backward_passes() {
    use crate::trainer::Trainer;
    let all = sequences(70, 1);
    let mut model = engine();
    let weights = model.weights().to_vec();
    let plain: Vec<_> = all.iter().map(|s| plain_gradient(&weights, s)).collect();
    let mut norms: Vec<f64> = plain.iter().map(|(g, _)| norm(g)).collect();
    norms.sort_by(f64::total_cmp);
    let kinds = [
        Clipping::Flat,
        Clipping::PerLayer,
        Clipping::Automatic { stability: 0.5 },
    ];
    for (c, kind) in [norms[35], norms[0] * 0.5, norms[69] * 2.0]
        .into_iter()
        .flat_map(|c| kinds.map(|kind| (c, kind)))
    {
        let clip = Clip::new(c, 0.0).unwrap().by(kind).unwrap();
        let mut expected: Vec<Vec<f32>> = weights.iter().map(|w| vec![0.0; w.len()]).collect();
        for (g, _) in &plain {
            let factors = match kind {
                Clipping::Flat => [(c / norm(g)).min(1.0); 3],
                Clipping::PerLayer => group_norms(g).map(|n| (c / 3f64.sqrt() / n).min(1.0)),
                Clipping::Automatic { stability } => [c / (norm(g) + stability); 3],
            };
            for ((e, x), group) in expected.iter_mut().zip(g).zip(super::kernels::GROUP) {
                let pairs = e.iter_mut().zip(x);
                pairs.for_each(|(e, x)| *e += factors[group] as f32 * x);
            }
        }
        model.begin();
        let added = model
            .add(&PrivateBatch::in_order(views(&all)), &clip)
            .unwrap();
        assert_eq!((added.examples, added.rejected), (70, 0));
        let error = distance(model.accumulator(), &expected) / norm(&expected);
        assert!(error < 2e-6, "{kind:?}, C = {c}: relative error {error}");
    }
}

#[test]
fn public_gradient_is_the_mean_over_tokens() {
    use crate::trainer::Trainer;
    let all = sequences(9, 2);
    let mut model = engine();
    let weights = model.weights().to_vec();
    let tokens: usize = all.iter().map(|s| s.len() - 1).sum();
    let mut expected: Vec<Vec<f32>> = weights.iter().map(|w| vec![0.0; w.len()]).collect();
    let mut loss = 0.0;
    for s in &all {
        let (g, l) = plain_gradient(&weights, s);
        loss += l;
        expected
            .iter_mut()
            .flatten()
            .zip(g.iter().flatten())
            .for_each(|(e, x)| *e += x / tokens as f32);
    }
    let (gradient, mean) = model
        .public_gradient(&PublicBatch::in_order(views(&all)))
        .unwrap();
    assert!((mean - loss / tokens as f64).abs() < 1e-6);
    assert!(distance(&gradient, &expected) / norm(&expected) < 2e-6);
}

#[test]
fn an_example_contributes_the_same_bits_alone_and_in_any_batch() {
    use crate::trainer::Trainer;
    let all = sequences(40, 5);
    let mut model = engine();
    // a clip that binds for all, so that the norm matters too
    let clip = Clip::new(1e-3, 0.0).unwrap();
    let factor_bits = |model: &mut super::lstm::Lstm<Flex>, batch: &[Vec<u32>]| {
        let packed = Arc::new(Packed::new(&views(batch), CONFIG.vocabulary).unwrap());
        model.squared_norms_of(&packed)
    };
    let together = factor_bits(&mut model, &all);
    for (i, s) in all.iter().enumerate() {
        let alone = factor_bits(&mut model, std::slice::from_ref(s));
        assert_eq!(
            alone[..].iter().map(|n| n.to_bits()).collect::<Vec<_>>(),
            together[3 * i..3 * i + 3]
                .iter()
                .map(|n| n.to_bits())
                .collect::<Vec<_>>(),
            "norms of example {i}"
        );
        model.begin();
        model
            .add(
                &PrivateBatch::in_order(views(std::slice::from_ref(s))),
                &clip,
            )
            .unwrap();
        assert!(
            norm(model.accumulator()) <= clip.norm() * (1.0 + 1e-6),
            "example {i} exceeds the clip"
        );
    }
}

#[test]
fn scores_match_the_loss_and_do_not_depend_on_the_batch() {
    use crate::scorer::{PrefixScorer, Scorer};
    use crate::trainer::Trainer;
    let all = sequences(33, 6);
    let mut model = engine();
    let weights = model.weights().to_vec();
    let scores = model.score(&all).unwrap();
    for (i, s) in all.iter().enumerate() {
        let (_, loss) = plain_gradient(&weights, s);
        let nll: f64 = scores[i].iter().map(|t| -t.log_probability).sum();
        assert!((nll - loss).abs() < 1e-5 * loss.max(1.0));
        assert_eq!(
            model.score(std::slice::from_ref(s)).unwrap()[0],
            scores[i],
            "sequence {i} alone"
        );
        // the same through cached states
        let mut state = model.start(&[s[..1].to_vec()]).unwrap();
        let mut by_states = 0.0;
        for t in &s[1..] {
            by_states -= model.next_log_probabilities(&state, &[*t]).unwrap()[0];
            let next = model.extend(&[(state[0], *t)]).unwrap();
            model.release(&state);
            state = next;
        }
        assert!(
            (by_states - nll).abs() < 1e-5,
            "sequence {i}: {by_states} against {nll}"
        );
        let total: f64 = {
            let wanted: Vec<u32> = (0..11).collect();
            model
                .next_log_probabilities(&state, &wanted)
                .unwrap()
                .iter()
                .map(|l| l.exp())
                .sum()
        };
        assert!((total - 1.0).abs() < 1e-12);
    }
    let gone = model.start(&[vec![1]]).unwrap();
    model.release(&gone);
    assert!(model.extend(&[(gone[0], 1)]).is_err());
    assert!(model.start(&[vec![]]).is_err() && model.start(&[vec![11]]).is_err());
}

#[test]
fn an_example_without_a_finite_gradient_contributes_nothing() {
    use crate::trainer::Trainer;
    let mut model = engine();
    let mut weights = model.weights().to_vec();
    weights[0][3 * CONFIG.embedding] = f32::NAN; // token 3 poisons its examples
    model.set_weights(weights).unwrap();
    let batch = vec![vec![1, 3, 2], vec![1, 2, 4], vec![5, 3, 3]];
    let clip = Clip::new(1.0, 1e-5).unwrap();
    model.begin();
    let added = model
        .add(&PrivateBatch::in_order(views(&batch)), &clip)
        .unwrap();
    assert_eq!((added.examples, added.rejected), (3, 2));
    assert!(model.accumulator().iter().flatten().all(|x| x.is_finite()));
    assert!(norm(model.accumulator()) > 0.0);
}

#[test]
fn a_token_left_out_of_the_loss_is_in_no_gradient() {
    use crate::trainer::Trainer;
    let all = sequences(25, 13);
    let mut model = engine();
    // every target 3 left out: the weighted sum over the other predictions, counted by them alone
    let counted: usize = all
        .iter()
        .flat_map(|s| &s[1..])
        .filter(|t| **t != 3)
        .count();
    let weights = model.weights().to_vec();
    model.leave_out(Some(3)).unwrap();
    let (gradient, mean) = model
        .public_gradient(&PublicBatch::in_order(views(&all)))
        .unwrap();
    let nll: f64 = all
        .iter()
        .flat_map(|s| {
            let scores = crate::scorer::Scorer::score(&mut model, std::slice::from_ref(s)).unwrap();
            let targets = s[1..].to_vec();
            scores[0].clone().into_iter().zip(targets)
        })
        .filter(|(_, token)| *token != 3)
        .map(|(score, _)| -score.log_probability)
        .sum();
    assert!((mean - nll / counted as f64).abs() < 1e-6, "{mean}");
    // numerically: the loss falls along the gradient by its squared norm
    let step = 1e-3 / norm(&gradient);
    let moved = weights.iter().zip(&gradient).map(|(w, g)| {
        let pairs = w.iter().zip(g);
        pairs.map(|(w, g)| w - step as f32 * g).collect()
    });
    model.set_weights(moved.collect()).unwrap();
    let (_, after) = model
        .public_gradient(&PublicBatch::in_order(views(&all)))
        .unwrap();
    let slope = (mean - after) / step / norm(&gradient).powi(2);
    assert!((slope - 1.0).abs() < 1e-2, "{slope}");
    let (_, with) = {
        model.leave_out(None).unwrap();
        model
            .public_gradient(&PublicBatch::in_order(views(&all)))
            .unwrap()
    };
    assert!((with - after).abs() > 1e-4);
    // the two ways to the same loss, all predictions left out included
    let (packed, _) = (Packed::new(&views(&all), 11).unwrap(), ());
    let mut left = packed.clone();
    left.leave_out(3);
    let rows = packed.rows();
    let logits = Tensor::<Flex, 2>::from_data(
        TensorData::new(
            (0..rows * 11)
                .map(|i| (i % 17) as f32 / 5.0)
                .collect::<Vec<_>>(),
            [rows, 11],
        ),
        &Default::default(),
    );
    let (fast, fast_d) = Kernels::cross_entropy(logits.clone(), &left.targets);
    let (slow, slow_d) = portable::cross_entropy(logits, &left.targets, None);
    let (fast, slow) = (fast.by_row(), portable::losses(slow));
    assert!(fast.iter().zip(&slow).all(|(a, b)| (a - b).abs() < 2e-6));
    close(
        &portable::host(fast_d),
        &portable::host(slow_d),
        "dL/dlogits",
    );
}

/// Norms, clipped sums and means of records of which only some tokens are learned.
#[test]
#[allow(clippy::single_range_in_vec_init, reason = "a list of one range")]
fn tokens_without_loss_are_in_no_gradient_of_the_exact_engine_either() {
    use crate::trainer::{Example, Trainer};
    let all = sequences(25, 13);
    let ignored: [&[std::ops::Range<usize>]; 3] = [&[1..2, 4..6], &[], &[2..11]];
    let one = |(record, tokens): (u32, _)| Example {
        ignored: ignored[record as usize % 3],
        ..Example::whole(record, tokens)
    };
    let examples: Vec<Example<'_>> = (0..).zip(views(&all)).map(one).collect();
    let mut exact = crate::oracle::exact(&CONFIG.into(), CONFIG.starting_weights(7)).unwrap();
    let mut fast = engine();
    let sum = |model: &mut dyn Trainer, clip: f64| {
        model.begin();
        let clip = Clip::new(clip, 0.0).unwrap();
        let added = model.add(&PrivateBatch(examples.clone()), &clip).unwrap();
        assert_eq!((added.examples, added.rejected), (25, 0));
        model.accumulator().to_vec()
    };
    for clip in [0.3, 1e9] {
        let (got, want) = (sum(&mut fast, clip), sum(&mut *exact, clip));
        for (got, want) in got.iter().zip(&want) {
            close(got, want, "clipped sum");
        }
    }
    let batch = PublicBatch(examples.clone());
    let (got, own) = fast.public_gradient(&batch).unwrap();
    let (want, loss) = exact.public_gradient(&batch).unwrap();
    assert!((own - loss).abs() < 1e-6, "{own} against {loss}");
    for (got, want) in got.iter().zip(&want) {
        close(got, want, "mean");
    }
}

//! Our kernels on the first device against tensor operations on the processor: `scripts/device engine` runs these.

use super::*;
use crate::engine::card::{Card, Tested};
use crate::engine::host::layers as host_layers;
use crate::engine::layers::Nonlinearity;
use crate::engine::packed::NO_LOSS;
use crate::engine::transfers::{host, upload};
use crate::engine::{portable, portable_layers};
use crate::model::Activation;
use burn_flex::Flex;

fn values(count: usize, scale: f32) -> Vec<f32> {
    (0..count)
        .map(|i| (i as f32 * 0.618).sin() * scale)
        .collect()
}

/// Both on the device and on the processor.
fn both<const D: usize>(shape: [usize; D], scale: f32) -> (Tensor<Tested, D>, Tensor<Flex, D>) {
    let all = values(shape.iter().product(), scale);
    let device = Tested::find(0).unwrap();
    (
        upload(all.clone(), shape, &device),
        upload(all, shape, &Default::default()),
    )
}

/// Our product, value by value: what reads four at once is CUDA's.
fn multiplied<const D: usize>(a: Tensor<Tested, D>, b: Tensor<Tested, D>) -> Tensor<Tested, D> {
    product(a, b, None, cfg!(feature = "cuda"))
}

fn close(there: &[f32], here: &[f32], within: f32, what: &str) {
    assert_eq!(there.len(), here.len(), "{what}");
    for (i, (a, b)) in there.iter().zip(here).enumerate() {
        assert!(
            (a - b).abs() <= within,
            "{what}, value {i}: {a} against {b}"
        );
    }
}

#[test]
fn products_are_those_of_the_processor_however_the_inputs_lie() {
    for [rows, inner, columns] in [[3, 5, 2], [70, 17, 66], [130, 33, 200], [1, 300, 257]] {
        let what = format!("{rows} × {inner} × {columns}");
        let within = 2e-6 * inner as f32;
        let ((a, own_a), (b, own_b)) = (both([rows, inner], 1.0), both([inner, columns], 1.0));
        let want = host(own_a.clone().matmul(own_b.clone()));
        close(
            &host(multiplied(a.clone(), b.clone())),
            &want,
            within,
            &what,
        );
        let ((a, _), (b, _)) = (both([inner, rows], 1.0), both([columns, inner], 1.0));
        let (_, own_a) = both([inner, rows], 1.0);
        let (_, own_b) = both([columns, inner], 1.0);
        let want = host(own_a.transpose().matmul(own_b.transpose()));
        let got = host(multiplied(a.transpose(), b.transpose()));
        close(&got, &want, within, &format!("{what}, both turned"));
    }
    // a part of a matrix, heads apart, as attention takes them
    let (x, own) = both([2 * 20, 3 * 3 * 8], 1.0);
    fn head<B: Backend>(x: &Tensor<B, 2>, from: usize) -> Tensor<B, 4> {
        let part = x.clone().narrow(1, from * 24, 24);
        part.reshape([2, 20, 3, 8]).swap_dims(1, 2)
    }
    let got = multiplied(head(&x, 1), head(&x, 2).swap_dims(2, 3));
    let want = head(&own, 1).matmul(head(&own, 2).swap_dims(2, 3));
    close(&host(got), &host(want), 2e-5, "heads");
}

#[test]
fn a_product_with_a_bias_is_the_product_plus_the_bias() {
    let ((a, _), (b, _)) = (both([70, 33], 1.0), both([33, 130], 1.0));
    let (bias, _) = both([1, 130], 3.0);
    let fours = cfg!(feature = "cuda");
    let with = host(product(a.clone(), b.clone(), Some(bias.clone()), fours));
    let want = host(multiplied(a, b) + bias);
    assert!(
        with.iter()
            .zip(&want)
            .all(|(x, y)| x.to_bits() == y.to_bits())
    );
}

#[test]
fn nonlinearities_and_their_gradients_are_those_of_tensor_operations() {
    let kinds = [
        Activation::Gelu,
        Activation::GeluTanh,
        Activation::Silu,
        Activation::Relu,
        Activation::QuickGelu,
    ];
    for (kind, gated) in kinds
        .into_iter()
        .flat_map(|kind| [(kind, false), (kind, true)])
    {
        let shape = Nonlinearity {
            kind,
            gated,
            width: 37,
        };
        let columns = if gated { 74 } else { 37 };
        let (z, own_z) = both([9, columns], 6.0);
        let (d, own_d) = both([9, 37], 1.0);
        let what = format!("{kind:?}, gated: {gated}");
        let want = portable_layers::activate(own_z.clone(), shape);
        close(&host(activate(z.clone(), shape)), &host(want), 4e-6, &what);
        let want = portable_layers::activate_back(own_d, own_z, shape);
        let got = activate_back(d, z, shape);
        // where tanh is near one, 1 - tanh² has lost its digits on both
        close(&host(got), &host(want), 4e-5, &format!("{what}, back"));
    }
}

#[test]
fn a_row_of_a_product_has_the_same_bits_in_tiles_of_either_size() {
    let (wide, _) = both([1100, 40], 1.0);
    let (b, _) = both([40, 1500], 1.0);
    let all = host(multiplied(wide.clone(), b.clone()));
    for row in [0, 63, 64, 1099] {
        let alone = host(multiplied(wide.clone().narrow(0, row, 1), b.clone()));
        let same = alone
            .iter()
            .zip(&all[row * 1500..])
            .all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(same, "row {row}");
    }
}

#[test]
fn losses_and_their_gradients_are_those_of_tensor_operations() {
    for (columns, cap) in [(11, None), (300, None), (513, Some(5.0))] {
        let (x, own) = both([6, columns], 8.0);
        let last = columns as u32 - 1;
        let targets = [0, last, NO_LOSS, 3, 7, NO_LOSS];
        let (nll, delta) = cross_entropy(x, &targets, cap);
        let (own_nll, own_delta) = portable::cross_entropy(own, &targets, cap);
        let what = format!("{columns} columns");
        let (nll, delta) = (host(nll), host(delta));
        close(&nll, &host(own_nll), 4e-6, &what);
        close(&delta, &host(own_delta), 2e-6, &what);
        assert!(delta[2 * columns..3 * columns].iter().all(|d| *d == 0.0));
    }
}

#[test]
fn scores_and_log_probabilities_are_those_of_the_host() {
    for columns in [1, 11, 300, 5003] {
        let last = columns as u32 - 1;
        let targets = [0, last, 3.min(last), 7.min(last)];
        for scale in [0.01, 1.0, 30.0] {
            let (x, own) = both([4, columns], scale);
            let own = host(own);
            let what = format!("{columns} columns, scale {scale}");
            let wants = host_layers::scores(&own, &targets);
            for (got, want) in scores(x.clone(), &targets).iter().zip(&wants) {
                assert_eq!(got.top_token, want.top_token, "{what}");
                let near = |got: f64, want: f64, of: &str| {
                    let within = 2e-6 + 4e-6 * want.abs();
                    assert!((got - want).abs() <= within, "{what}, {of}: {got}, {want}");
                };
                near(got.log_probability, want.log_probability, "log p");
                near(got.top_log_probability, want.top_log_probability, "top");
                near(got.mean, want.mean, "mean");
                near(got.variance, want.variance, "variance");
            }
            let wanted = [last, 0, last / 2];
            let want = host_layers::log_probabilities(&own, columns, &wanted);
            let got = log_probabilities(x, &wanted);
            assert_eq!(got.len(), want.len());
            for (got, want) in got.iter().zip(&want) {
                assert!((got - want).abs() <= 4e-6, "{what}: {got}, {want}");
            }
        }
    }
    // the last of equal largest, as on the host; a value that is no number is not hidden
    let device = Tested::find(0).unwrap();
    let tied = [1.0, 3.0, 0.0, 3.0, 2.0];
    let of = |x: &[f32]| scores::<Tested>(upload(x.to_vec(), [1, x.len()], &device), &[0])[0];
    assert_eq!(of(&tied).top_token, 3);
    assert!(of(&[1.0, f32::NAN, 0.0]).log_probability.is_nan());
}

#[test]
fn the_largest_magnitude_says_whether_all_are_finite() {
    let device = Tested::find(0).unwrap();
    let mut long = values(100_003, 2.0);
    long[99_999] = -7.5;
    let of = |x: &[f32]| upload::<Tested, 2>(x.to_vec(), [1, x.len()], &device);
    let found = largest(&[of(&long), of(&[0.0, -0.25]), of(&[-0.0])]);
    assert_eq!(found, [7.5, 0.25, 0.0]);
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        long[50_000] = bad;
        assert!(!largest(&[of(&long)])[0].is_finite(), "{bad}");
    }
    assert!(largest::<Tested>(&[]).is_empty());
}

//! The processor's kernels against the portable ones.

use super::*;
use crate::trainer::Precision;

use crate::engine::kernels::{Dropped, Taps, Weights};
use crate::privacy::clip::Factors;

const SINGLE: Precision = Precision::Single;

/// Taps and weights for a batch, on flex.
fn taps(all: &[Vec<u32>], dropped: bool) -> (Taps<Flex>, Weights<Flex>, Arc<Packed>) {
    let packed = Arc::new(Packed::new(&views(all), CONFIG.vocabulary).unwrap());
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    let mut random = |rows: usize, columns: usize| {
        let values: Vec<f32> = (0..rows * columns)
            .map(|_| rng.random::<f32>() - 0.5)
            .collect();
        Tensor::<Flex, 2>::from_data(
            TensorData::new(values, [rows, columns]),
            &Default::default(),
        )
    };
    let (v, e, h) = (CONFIG.vocabulary, CONFIG.embedding, CONFIG.hidden);
    let weights = Weights {
        embedding: random(v, e),
        input: random(e, 4 * h),
        recurrent: random(h, 4 * h),
        bias: random(1, 4 * h).flatten(0, 1),
        head: random(h, v),
        head_bias: random(1, v).flatten(0, 1),
    };
    let rows = packed.rows();
    (
        Taps {
            hidden: random(rows, h),
            read: dropped.then(|| random(rows, h)),
            embedded: dropped.then(|| Dropped {
                values: random(rows, e),
                factors: random(rows, e),
            }),
            d_gates: random(rows, 4 * h),
            d_logits: random(rows, v),
        },
        weights,
        packed,
    )
}

/// Norms and weighted sums of the processor's kernels against the portable ones.
fn sums_and_norms_agree((taps, weights, packed): &(Taps<Flex>, Weights<Flex>, Arc<Packed>)) {
    let copy = || Taps {
        hidden: taps.hidden.clone(),
        read: taps.read.clone(),
        embedded: taps.embedded.clone(),
        d_gates: taps.d_gates.clone(),
        d_logits: taps.d_logits.clone(),
    };
    let fast = Flex::squared_norms(taps, weights, packed);
    let portable_norms = portable::squared_norms(taps, weights, packed);
    for (i, (a, b)) in fast.iter().zip(&portable_norms).enumerate() {
        // the portable kernels bound the rounding of an embedding by the longest record, and that of a device's sums
        let apart = if i % 3 == 0 { 1e-3 } else { 2e-6 };
        assert!(
            (a - b).abs() <= apart * b,
            "norm of example {i}: {a} against {b}"
        );
    }
    let values = (0..packed.examples * 3).map(|i| (i % 7) as f32 / 7.0);
    let factors = Factors::new(3, values.collect()).unwrap();
    let (parameters, device) = (CONFIG.parameters(), Default::default());
    let mut sums = [
        Flex::zeros(&parameters, &device),
        Flex::zeros(&parameters, &device),
        crate::engine::portable_layers::zeros(&parameters, &device),
    ];
    Flex::add_weighted_sums(copy(), weights, &factors, packed, &mut sums[0]);
    // in host memory and on the device
    portable::add_weighted_sums(copy(), weights, &factors, packed, &mut sums[1]);
    portable::add_weighted_sums(copy(), weights, &factors, packed, &mut sums[2]);
    let [fast, sums @ ..] = sums.map(crate::engine::layers::Sums::into_host);
    let pairs = sums.iter().flat_map(|own| fast.iter().zip(own));
    for ((a, b), p) in pairs.zip(parameters.iter().cycle()) {
        close(a, b, &p.name);
    }
}

#[test]
fn the_processors_kernels_equal_the_portable_ones() {
    let all = sequences(150, 4);
    for dropped in [false, true] {
        sums_and_norms_agree(&taps(&all, dropped));
    }
    let (taps, weights, packed) = taps(&all, false);
    let z = taps.d_gates.clone();
    let fast = Flex::recurrence(z.clone(), weights.recurrent.clone(), &packed, SINGLE);
    let slow = portable::recurrence(z.clone(), weights.recurrent.clone(), &packed, SINGLE);
    close(
        &portable::host(fast.gates.clone()),
        &portable::host(slow.gates.clone()),
        "gates",
    );
    close(
        &portable::host(fast.cell.clone()),
        &portable::host(slow.cell.clone()),
        "cell",
    );
    close(
        &portable::host(fast.hidden.clone()),
        &portable::host(slow.hidden.clone()),
        "hidden",
    );
    let d = taps.hidden.clone();
    let fast =
        Flex::recurrence_backward(fast, d.clone(), weights.recurrent.clone(), &packed, SINGLE);
    let slow = portable::recurrence_backward(slow, d, weights.recurrent.clone(), &packed, SINGLE);
    close(&portable::host(fast), &portable::host(slow), "dL/dz");
    let (nll, d_logits) = Kernels::cross_entropy(taps.d_logits.clone(), &packed.targets);
    let (slow_nll, slow_d) = portable::cross_entropy(taps.d_logits.clone(), &packed.targets, None);
    let (nll, slow_nll) = (nll.by_row(), portable::losses(slow_nll));
    assert!(nll.iter().zip(&slow_nll).all(|(a, b)| (a - b).abs() < 2e-6));
    close(
        &portable::host(d_logits),
        &portable::host(slow_d),
        "dL/dlogits",
    );
    let rows = taps.hidden.dims()[0];
    let fast = Flex::cell(
        z.clone(),
        weights.recurrent.clone(),
        taps.hidden.clone(),
        taps.hidden.clone(),
    );
    let slow = portable::cell(
        z,
        weights.recurrent.clone(),
        taps.hidden.clone(),
        taps.hidden.clone(),
    );
    assert_eq!(fast.0.dims()[0], rows);
    close(
        &portable::host(fast.0),
        &portable::host(slow.0),
        "one step, hidden",
    );
    close(
        &portable::host(fast.1),
        &portable::host(slow.1),
        "one step, cell",
    );
}

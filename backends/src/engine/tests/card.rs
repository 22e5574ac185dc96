//! The engine on the first device: `scripts/device` runs these.

use super::*;
use crate::engine::bound::MARGIN;
use crate::engine::card::{Card, Tested};
use crate::engine::kernels::Kernels;
use crate::engine::lstm::Lstm;
use crate::trainer::Trainer;

fn on_device() -> Lstm<Tested> {
    let device = Tested::find(0).unwrap();
    Lstm::new(CONFIG, CONFIG.starting_weights(7), device).unwrap()
}

/// All that the gradient of each example is made of, and its norms, as bits.
fn footprints(model: &Lstm<Tested>, batch: &[Vec<u32>]) -> Vec<Vec<u64>> {
    let examples = PrivateBatch::in_order(views(batch)).0;
    let mut out = vec![Vec::new(); batch.len()];
    for part in model.parts(&examples) {
        let packed = model.packed(&part.sequences, part.grid).unwrap();
        let (taps, _) = model.taps(&packed);
        let norms = Tested::squared_norms(&taps, &model.weights, &packed);
        for matrix in [&taps.hidden, &taps.d_gates, &taps.d_logits] {
            let width = matrix.dims()[1];
            let values = portable::host(matrix.clone());
            for (lane, place) in part.places.iter().enumerate() {
                let rows = packed.groups[0].rows_of(lane);
                let own = rows.take(part.sequences[lane].tokens.len() - 1);
                let own = own.flat_map(|row| values[row * width..][..width].iter());
                out[*place].extend(own.map(|x| u64::from(x.to_bits())));
            }
        }
        for (place, own) in part.places.iter().zip(norms.chunks_exact(3)) {
            out[*place].extend(own.iter().map(|x| x.to_bits()));
        }
    }
    out
}

#[test]
fn an_example_gives_the_same_bits_alone_and_in_any_company() {
    let model = on_device();
    let mut all = sequences(12, 5);
    all.push((0..20).map(|t| t % 11).collect());
    check_company("lstm", &all, |batch| footprints(&model, batch));
}

/// No share is longer than C even without the margin, but for rounding.
#[test]
fn the_margin_is_far_above_what_norms_are_off() {
    let mut model = on_device();
    let mut worst = 0.0f64;
    for s in sequences(40, 9) {
        let wide = Clip::new(1e-3, 0.0).unwrap();
        model.begin();
        let batch = PrivateBatch::in_order(vec![s.as_slice()]);
        model.add(&batch, &wide).unwrap();
        worst = worst.max((norm(model.accumulator()) / 1e-3 - 1.0).abs());
    }
    println!("lstm on the device: shares are off C by at most {worst:.1e} without a margin");
    assert!(worst < MARGIN / 20.0, "{worst}");
}

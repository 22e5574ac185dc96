//! Every decoder on the first device: `scripts/device` runs these.

use super::*;
use crate::engine::bound::MARGIN;
use crate::engine::card::{Card, Tested};

type Device = Transformer<Tested, Portable>;

fn on_device(config: &TransformerConfig) -> Device {
    let device = Tested::find(0).unwrap();
    Device::new(config.clone(), weights(config), device).unwrap()
}

#[test]
fn norms_equal_the_exact_ones_parameter_by_parameter() {
    let all = sequences();
    let mut worst = 0.0f64;
    for (name, config) in decoders() {
        let found = norms(&on_device(&config), &all);
        let mut exact = exact(&config);
        for (i, s) in all.iter().enumerate() {
            let want = sum(&mut *exact, std::slice::from_ref(s), 1e9);
            let whole: f64 = want.iter().map(|p| square(p)).sum();
            for (p, parameter) in config.parameters().iter().enumerate() {
                let (want, got) = (square(&want[p]), found.squared[p][i]);
                // a part that all but vanishes is good to a rounding of the whole
                assert!(
                    (got - want).abs() <= 2e-5 * want + 1e-8 * whole,
                    "{name}, {}, example {i}: {got} against {want}",
                    parameter.name
                );
            }
            worst = worst.max((found.flat()[i] / whole - 1.0).abs());
        }
    }
    println!("transformers on the device: squared norms are off by at most {worst:.1e}");
    assert!(worst < 1e-5, "{worst}");
}

#[test]
fn clipped_sums_and_public_gradients_equal_the_exact_ones() {
    let all = sequences();
    let mut worst = [0.0f64; 3];
    for (name, config) in decoders() {
        let mut exact = exact(&config);
        let mut model = on_device(&config);
        let mut sorted = norms(&model, &all).flat();
        sorted.sort_by(f64::total_cmp);
        for clip in [sorted[4].sqrt(), sorted[0].sqrt() * 0.1, 1e9] {
            let want = sum(&mut *exact, &all, clip);
            let got = sum(&mut model, &all, clip);
            worst[0] = worst[0].max(distance(&got, &want) / norm(&want));
        }
        let batch = || PublicBatch::in_order(views(&all));
        let (want, mean) = exact.public_gradient(&batch()).unwrap();
        let (got, loss) = model.public_gradient(&batch()).unwrap();
        worst[1] = worst[1].max(distance(&got, &want) / norm(&want));
        worst[2] = worst[2].max((loss - mean).abs());
        assert!(worst.iter().all(|w| *w < 2e-5), "{name}: {worst:?}");
    }
    println!(
        "transformers on the device: clipped sums, gradients, losses are off by at most {worst:?}"
    );
}

#[test]
fn an_example_gives_the_same_bits_alone_and_in_any_company() {
    for (name, config) in decoders() {
        check_isolation(name, &on_device(&config));
    }
}

/// No share is longer than C even without the margin, but for rounding.
#[test]
fn the_margin_is_far_above_what_norms_are_off() {
    let mut worst = 0.0f64;
    for (_, config) in decoders() {
        let mut model = on_device(&config);
        for s in &sequences() {
            let own = sum(&mut model, std::slice::from_ref(s), 0.01);
            worst = worst.max((norm(&own) / 0.01 - 1.0).abs());
        }
    }
    println!(
        "transformers on the device: shares are off C by at most {worst:.1e} without a margin"
    );
    assert!(worst < MARGIN / 20.0, "{worst}");
}

#[cfg(feature = "cuda")]
#[test]
fn noise_drawn_on_the_device_has_the_hosts_bits() {
    let device = Tested::find(0).unwrap();
    assert!(crate::engine::cuda::draws_as_the_host(&device));
}

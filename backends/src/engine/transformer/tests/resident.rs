//! Steps that a device takes by itself against the host's: the portable layers on the processor, which the noise's way
//! through the host and the optimiser in tensor operations must not move by a bit.

use super::*;
use crate::collective::Local;
use crate::privacy::clip::Clip;
use crate::privacy::ledger::Ledger;
use crate::privacy::random::{ChaChaNoise, Noise, RunKey};
use crate::privacy::step::{PrivateStep, Step};
use crate::trainer::optimizer::{Moments, Optimizer, OptimizerSpec};
use reticent_accounting::NoiseMultiplier;

/// The same draws, of which a step does not know that a device could make them.
struct OnHost(ChaChaNoise);

impl Noise for OnHost {
    fn add(&mut self, step: u64, tensor: usize, std: f64, values: &mut [f32]) {
        self.0.add(step, tensor, std, values);
    }
}

fn private(model: &mut dyn Trainer, noise: &mut dyn Noise, optimizer: &mut Optimizer, step: u64) {
    let constants = PrivateStep {
        noise_multiplier: NoiseMultiplier::new(0.7).unwrap(),
        clip: Clip::new(0.5, 1e-5).unwrap(),
        expected_batch: 6.3,
        augmentations: 1,
    };
    let all = sequences();
    let mut under_way = Step::begin(model, constants, step).unwrap();
    under_way.add(&PrivateBatch::in_order(views(&all))).unwrap();
    let mut ledger = Ledger::in_memory();
    under_way
        .finish(noise, &mut Local, optimizer, &mut ledger)
        .unwrap();
    assert_eq!(ledger.private_steps(), 1);
}

fn bits(values: &[Vec<f32>]) -> Vec<u32> {
    values.iter().flatten().map(|v| v.to_bits()).collect()
}

const SPECS: [OptimizerSpec; 5] = [
    OptimizerSpec::Sgd {
        learning_rate: 0.1,
        momentum: 0.0,
    },
    OptimizerSpec::Sgd {
        learning_rate: 0.1,
        momentum: 0.9,
    },
    OptimizerSpec::Adam { learning_rate: 0.1 },
    OptimizerSpec::AdamW {
        learning_rate: 0.1,
        weight_decay: 0.1,
    },
    OptimizerSpec::AdamBc {
        learning_rate: 0.1,
        floor: 1e-6,
    },
];

/// Weights, moments and the largest weight have the bits of the host's after private and public steps, and after a
/// snapshot in between that both read.
#[test]
fn steps_on_the_device_are_the_hosts_bit_by_bit() {
    let config = tiny(Family::Llama);
    let lengths: Vec<usize> = config.parameters().iter().map(|p| p.len()).collect();
    for spec in SPECS {
        let key = RunKey::from_seed(5);
        let (mut here, mut there) = (slow(&config), slow(&config));
        let (mut own, mut theirs) = (
            Optimizer::new(spec, &lengths),
            Optimizer::new(spec, &lengths),
        );
        for step in 0..4 {
            private(
                &mut here,
                &mut OnHost(ChaChaNoise::new(key.clone())),
                &mut own,
                step,
            );
            private(
                &mut there,
                &mut ChaChaNoise::new(key.clone()),
                &mut theirs,
                step,
            );
            let largest = there.largest_weight();
            assert_eq!(largest, here.largest_weight(), "{spec:?}");
            let all = sequences();
            let (gradient, loss) = here
                .public_gradient(&PublicBatch::in_order(views(&all)))
                .unwrap();
            here.apply_public(gradient, &mut own).unwrap();
            let same = there.public_step(&PublicBatch::in_order(views(&all)), &mut theirs);
            assert_eq!(same.unwrap().to_bits(), loss.to_bits(), "{spec:?}");
            if step % 2 == 0 {
                continue;
            }
            assert_eq!(bits(there.weights()), bits(here.weights()), "{spec:?}");
            let ((taken, first, second), (steps, f, s)) = (own.state(), theirs.state());
            assert_eq!(
                (taken, bits(first), bits(second)),
                (steps, bits(f), bits(s)),
                "{spec:?}"
            );
        }
        // what was stored goes on, on the device and here
        let (steps, first, second) = theirs.state();
        let mut restored = Optimizer::new(spec, &lengths);
        restored
            .restore(steps, first.to_vec(), second.to_vec())
            .unwrap();
        let mut resumed = slow(&config);
        resumed.set_weights(there.weights().to_vec()).unwrap();
        private(
            &mut resumed,
            &mut ChaChaNoise::new(key.clone()),
            &mut restored,
            9,
        );
        private(&mut there, &mut ChaChaNoise::new(key), &mut theirs, 9);
        assert_eq!(bits(resumed.weights()), bits(there.weights()), "{spec:?}");
    }
}

#[test]
fn a_gradient_that_is_not_finite_ends_the_run_after_it_is_written_down() {
    let config = tiny(Family::Gpt2);
    let lengths: Vec<usize> = config.parameters().iter().map(|p| p.len()).collect();
    let mut model = slow(&config);
    let before = bits(model.weights());
    let constants = PrivateStep {
        noise_multiplier: NoiseMultiplier::new(1.0).unwrap(),
        clip: Clip::new(1.0, 0.0).unwrap(),
        // beyond single precision
        expected_batch: 1e-300,
        augmentations: 1,
    };
    let mut optimizer = Optimizer::new(OptimizerSpec::Adam { learning_rate: 0.1 }, &lengths);
    let mut ledger = Ledger::in_memory();
    let step = Step::begin(&mut model, constants, 3).unwrap();
    let mut noise = ChaChaNoise::new(RunKey::from_seed(1));
    let ended = step.finish(&mut noise, &mut Local, &mut optimizer, &mut ledger);
    assert!(matches!(ended, Err(Error::Diverged { step: 3, .. })));
    assert_eq!(ledger.private_steps(), 1);
    assert_eq!(bits(model.weights()), before);
    let mut weights = model.weights().to_vec();
    weights[1][0] = f32::NAN;
    model.set_weights(weights).unwrap();
    assert_eq!(model.largest_weight(), None);
    assert_eq!(super::super::resident::largest(&model.weights), None);
}

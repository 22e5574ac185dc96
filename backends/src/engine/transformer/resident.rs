//! Steps taken entirely on the device: noise, moments and weights stay there, and only one number per parameter is
//! transferred.

use super::*;
use crate::privacy::random::MeanNoise;
use crate::trainer::Resident;
use crate::trainer::optimizer::{DeviceMoments, Rule};
use std::any::Any;

/// First and second moments, in the order of the trained parameters; empty if the optimiser has none.
#[derive(Debug)]
struct Moments<B: Floats>([Vec<Matrix<B>>; 2]);

impl<B: Floats> DeviceMoments for Moments<B> {
    fn download(&self) -> [Vec<Vec<f32>>; 2] {
        let values = |moments: &Vec<Matrix<B>>| moments.iter().map(|m| host(m.clone())).collect();
        [values(&self.0[0]), values(&self.0[1])]
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl<B: Floats, K: Layers<B>> Resident for Transformer<B, K> {
    fn noised(&mut self, noise: &MeanNoise<'_>) -> (Box<dyn Any + Send>, bool) {
        let sums = std::mem::replace(&mut self.sums, Sums::Host(Vec::new()));
        let sums = match sums {
            Sums::Device(sums) => sums,
            Sums::Host(sums) => upload(&self.parameters, &sums, &self.device),
        };
        let noised = B::noised(sums, noise);
        let finite = largest(&noised).is_some();
        (Box::new(noised), finite)
    }
}

impl<B: Floats, K: Layers<B>> Transformer<B, K> {
    /// Updates the weights with a gradient on the device, rounded as by the host's optimiser.
    pub(super) fn step_on_device(
        &mut self,
        gradient: Vec<Matrix<B>>,
        update: &mut dyn Update,
    ) -> Result<()> {
        let (parameters, device) = (&self.parameters, &self.device);
        let to_device = |moments: &[Vec<Vec<f32>>; 2]| {
            Moments(moments.each_ref().map(|m| upload(parameters, m, device)))
        };
        let begun = update
            .as_optimizer()
            .and_then(|optimizer| optimizer.on_device(to_device));
        let Some((rule, Moments([first, second]))) = begun else {
            return self.step(update, gradient.into_iter().map(host).collect());
        };
        let weights = &mut self.weights[self.frozen..];
        for (i, (w, g)) in weights.iter_mut().zip(gradient).enumerate() {
            match rule {
                Rule::Sgd { rate, momentum } => {
                    let v = match first.get_mut(i) {
                        None => g,
                        Some(v) => {
                            *v = v.clone() * momentum + g;
                            v.clone()
                        }
                    };
                    *w = w.clone() - v * rate;
                }
                Rule::Adam(rule) => {
                    let (m, v) = (&mut first[i], &mut second[i]);
                    [*w, *m, *v] = B::adam([w.clone(), m.clone(), v.clone(), g], &rule);
                }
            }
        }
        self.values = OnceLock::new();
        self.states.clear();
        Ok(())
    }
}

/// Returns the largest magnitude, or `None` unless all values are finite.
pub(super) fn largest<B: Floats>(tensors: &[Matrix<B>]) -> Option<f32> {
    let each = B::largest(tensors);
    each.into_iter()
        .try_fold(0.0, |most: f32, x| x.is_finite().then(|| most.max(x)))
}

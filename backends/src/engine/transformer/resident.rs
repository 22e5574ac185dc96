//! Steps that the device takes by itself: noise, moments and weights stay there, and what crosses is one number
//! per parameter.

use super::*;
use crate::privacy::random::MeanNoise;
use crate::trainer::Resident;
use crate::trainer::optimizer::{BETA1, BETA2, DeviceMoments, Rule};
use std::any::Any;

/// First and second moments, in the order of what is trained; empty where the optimiser has none.
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
        let finite = all_finite(&noised);
        (Box::new(noised), finite)
    }
}

impl<B: Floats, K: Layers<B>> Transformer<B, K> {
    /// Moves the weights by a gradient on the device, with the rounding of the host's optimiser.
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
                Rule::Adam {
                    rate,
                    keep,
                    epsilon,
                } => {
                    let (b1, b2) = (BETA1 as f32, BETA2 as f32);
                    let (m, v) = (&mut first[i], &mut second[i]);
                    *m = m.clone() * b1 + g.clone() * (1.0 - b1);
                    *v = v.clone() * b2 + g.clone() * (1.0 - b2) * g;
                    *w = w.clone() * keep - m.clone() * rate / (v.clone().sqrt() + epsilon);
                }
            }
        }
        self.values = OnceLock::new();
        self.states.clear();
        Ok(())
    }
}

/// One number of each tensor, on the host.
fn one_each<B: Floats>(
    tensors: &[Matrix<B>],
    number: impl Fn(Matrix<B>) -> Tensor<B, 1>,
) -> Vec<f32> {
    let numbers: Vec<Tensor<B, 1>> = tensors.iter().map(|x| number(x.clone())).collect();
    if numbers.is_empty() {
        return Vec::new();
    }
    host(Tensor::cat(numbers, 0))
}

fn all_finite<B: Floats>(tensors: &[Matrix<B>]) -> bool {
    // what is not finite times zero is no number, and neither is a sum with one
    one_each(tensors, |x| (x * 0.0).sum())
        .iter()
        .all(|sum| !sum.is_nan())
}

/// The largest magnitude, where all are finite.
pub(super) fn largest<B: Floats>(tensors: &[Matrix<B>]) -> Option<f32> {
    if !all_finite(tensors) {
        return None;
    }
    let each = one_each(tensors, |x| x.abs().max());
    Some(each.into_iter().fold(0.0, f32::max))
}

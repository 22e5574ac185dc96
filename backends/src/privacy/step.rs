//! One private step: clip and sum the examples' gradients, then reduce, add noise, divide, record and apply, exactly
//! once.

use crate::collective::{Collective, accumulate};
use crate::error::{Error, Result, positive, ranged};
use crate::privacy::clip::Clip;
use crate::privacy::ledger::Ledger;
use crate::privacy::random::{MeanNoise, Noise};
use crate::privacy::segments::SelectiveBatch;
use crate::recipe::TrainOptions;
use crate::trainer::optimizer::Update;
use crate::trainer::{Added, Gradients, PrivateBatch, Privatized, Trainer};
use rayon::prelude::*;
use reticent_accounting::NoiseMultiplier;
use std::cmp::Reverse;
use std::sync::{Mutex, PoisonError};

/// The sums of a lane, a tensor for each parameter.
pub(crate) type Tensors = Vec<Vec<f32>>;

/// A norm that no gradient in single precision reaches.
const UNCLIPPED: f64 = 1e60;

/// The number of lanes of a batch. Each lane is summed record by record, and the lanes' sums are then added pairwise,
/// so that every number of workers that is a power of two and at most this number computes the same sums.
pub(crate) const LANES: usize = 8;

/// The lanes that get a record in turn. Workers have neighbouring lanes, so that workers get one in turn too.
const DEALT: [usize; LANES] = [0, 4, 2, 6, 1, 5, 3, 7];

/// Splits a batch into lanes, the longest records first: the numbers of records of two workers differ by one at most, and
/// their numbers of tokens by those of one record at most.
pub(crate) fn lanes(batch: PrivateBatch<'_>) -> [PrivateBatch<'_>; LANES] {
    let mut examples = batch.0;
    examples.sort_by_key(|example| Reverse(example.tokens.len()));
    let mut lanes = [(); LANES].map(|()| PrivateBatch(Vec::new()));
    for (example, lane) in examples.into_iter().zip(DEALT.into_iter().cycle()) {
        lanes[lane].0.push(example);
    }
    lanes
}

/// Values per parallel block of a division.
const BLOCK: usize = 1 << 14;

/// The constants of a private phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrivateStep {
    /// σ: noise standard deviation over clipping norm.
    pub noise_multiplier: NoiseMultiplier,
    /// How each example is clipped. A step raises the margin to the one that the engine's norms need.
    pub clip: Clip,
    /// The fixed expected batch size by which the noised sum is divided. Never the realised
    /// size: that would make the update a function of the batch's secret size.
    pub expected_batch: f64,
    /// How often each record is read, with dropout masks of its own each time; the mean of the gradients is clipped.
    pub augmentations: u32,
}

impl PrivateStep {
    /// σ of the noise that a run with these options adds.
    pub(crate) fn added(&self, options: &TrainOptions) -> f64 {
        match options.plan.noiseless {
            true => 0.0,
            false => self.noise_multiplier.get(),
        }
    }
}

/// How the states that leave sensitive segments are released: h and c are clipped to the norm and noised separately.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StateRelease {
    /// Noise standard deviation over clipping norm.
    pub noise_multiplier: NoiseMultiplier,
    /// The norm to which h and c are each clipped. A step raises the margin as that of [`PrivateStep::clip`].
    pub clip: Clip,
}

impl StateRelease {
    fn release(&self, state: &mut [f32], noise: &mut dyn Noise, step: u64, tensor: usize) {
        let squared: f64 = state.iter().map(|x| f64::from(*x).powi(2)).sum();
        let factor = self.clip.factor(squared);
        // a state that is not finite has factor zero, and is replaced by zeros
        let clipped = |x: f32| if factor > 0.0 { x * factor } else { 0.0 };
        state.iter_mut().for_each(|x| *x = clipped(*x));
        let std = self.noise_multiplier.get() * self.clip.sensitivity();
        noise.add(step, tensor, std, state);
    }
}

/// A private step in progress. [`Step::finish`] consumes it, so noise is added exactly once, even if no example was
/// added.
///
/// ```compile_fail,E0382
/// # fn f(step: reticent_backends::privacy::Step<'_>, n: &mut dyn reticent_backends::privacy::Noise,
/// #      c: &mut dyn reticent_backends::Collective, u: &mut dyn reticent_backends::trainer::Update,
/// #      l: &mut reticent_backends::privacy::Ledger) {
/// step.finish(n, c, u, l);
/// step.finish(n, c, u, l); // a step can't be noised twice
/// # }
/// ```
#[must_use = "a step that is not finished releases nothing and spends nothing"]
pub struct Step<'a> {
    trainer: &'a mut dyn Trainer,
    constants: PrivateStep,
    index: u64,
    added: Added,
    /// Sums of lanes with their levels; the sum of a level covers 2^level lanes. Levels fall from the first to the
    /// last.
    sums: Vec<(u32, Tensors)>,
}

impl<'a> Step<'a> {
    /// Begins the private step with this index.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] unless the expected batch size is positive and finite and there is at least one
    /// augmentation, or if the engine's margin lies outside [0, 1).
    pub fn begin(trainer: &'a mut dyn Trainer, constants: PrivateStep, index: u64) -> Result<Self> {
        positive("expected batch size", constants.expected_batch)?;
        let augmentations = f64::from(constants.augmentations);
        ranged(
            "augmentations",
            "[1, inf)",
            augmentations,
            augmentations >= 1.0,
        )?;
        let clip = constants.clip.with_margin(trainer.norm_margin())?;
        trainer.begin();
        Ok(Self {
            trainer,
            constants: PrivateStep { clip, ..constants },
            index,
            added: Added::default(),
            sums: Vec::new(),
        })
    }

    /// Adds the clipped gradients of a batch. A record longer than the model's context is split into several windows,
    /// whose gradients are summed and then clipped as one gradient. The gradients of several augmentations are averaged
    /// before they are clipped.
    ///
    /// # Errors
    /// Returns an error if the engine fails.
    pub fn add(&mut self, batch: &PrivateBatch<'_>) -> Result<()> {
        let (context, augmentations) = (self.trainer.context(), self.constants.augmentations);
        let (fitting, several) = batch.by_sequences(context, augmentations);
        for sequences in several {
            self.add_as_one(&sequences)?;
        }
        self.added += self.trainer.add(&fitting, &self.constants.clip)?;
        Ok(())
    }

    /// Adds one of this worker's lanes. Lanes must be added in order. `spare` keeps buffers for later lanes and steps.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub(crate) fn add_lane(
        &mut self,
        lane: &PrivateBatch<'_>,
        spare: &mut Vec<Tensors>,
    ) -> Result<()> {
        if !self.sums.is_empty() {
            self.trainer.begin();
        }
        self.add(lane)?;
        let accumulator = self.trainer.accumulator();
        let Some((_, mut sum)) = self.sums.pop_if(|(level, _)| *level == 0) else {
            let next = spare
                .pop()
                .unwrap_or_else(|| vec![Vec::new(); accumulator.len()]);
            let pairs = accumulator.iter_mut().zip(next);
            let sum = pairs.map(|(sum, next)| std::mem::replace(sum, next));
            self.sums.push((0, sum.collect()));
            return Ok(());
        };
        accumulate_all(&mut sum, accumulator);
        let mut level = 1;
        while let Some((_, mut left)) = self.sums.pop_if(|(other, _)| *other == level) {
            accumulate_all(&mut left, &sum);
            spare.push(std::mem::replace(&mut sum, left));
            level += 1;
        }
        self.sums.push((level, sum));
        Ok(())
    }

    /// Adds the clipped gradient of one record, given as its windows in all augmentations.
    fn add_as_one(&mut self, sequences: &PrivateBatch<'_>) -> Result<()> {
        let sums = self.trainer.accumulator().iter_mut();
        let sums: Vec<Vec<f32>> = sums.map(std::mem::take).collect();
        self.trainer.begin();
        let as_it_is = Clip::new(UNCLIPPED, 0.0)?;
        let rejected = self.trainer.add(sequences, &as_it_is)?.rejected > 0;
        let groups = self.trainer.groups().to_vec();
        let whole = self.trainer.accumulator();
        let augmentations = self.constants.augmentations as f32;
        if augmentations > 1.0 {
            let values = whole.iter_mut().flatten();
            values.for_each(|x| *x /= augmentations);
        }
        let pairs = whole.iter_mut().zip(sums);
        let of_record: Vec<Vec<f32>> = pairs
            .map(|(values, sum)| std::mem::replace(values, sum))
            .collect();
        self.added += match rejected {
            true => Added {
                examples: 1,
                clipped: 0,
                rejected: 1,
            },
            false => self.constants.clip.add(&of_record, &groups, whole)?,
        };
        Ok(())
    }

    /// Adds the clipped gradients of a batch's sensitive predictions, and returns the gradient of the ordinary ones.
    /// That gradient needs no noise: what it depends on of a sensitive segment was released through `states`.
    ///
    /// # Errors
    /// Returns [`Error::Unsuitable`] for a model without recurrent state, or an error if the engine fails.
    pub fn add_selective(
        &mut self,
        batch: &SelectiveBatch<'_>,
        states: &StateRelease,
        noise: &mut dyn Noise,
    ) -> Result<Vec<Vec<f32>>> {
        let (first, index) = (self.trainer.parameters().len(), self.index);
        let clip = states.clip.with_margin(self.trainer.norm_margin())?;
        let states = StateRelease { clip, ..*states };
        let recurrent = self.trainer.as_recurrent().ok_or_else(|| {
            Error::Unsuitable("selective steps need a recurrent model (lstm)".into())
        })?;
        // draws are keyed by example and segment, so their order does not matter
        let noise = Mutex::new(noise);
        let release = |example: usize, segment: usize, h: &mut [f32], c: &mut [f32]| {
            let mut noise = noise.lock().unwrap_or_else(PoisonError::into_inner);
            for (which, state) in [h, c].into_iter().enumerate() {
                // beyond the tensors of the weights, a number for every state of the batch
                let tensor = first + (example << 32) + 2 * segment + which;
                states.release(state, &mut **noise, index, tensor);
            }
        };
        let clip = &self.constants.clip;
        let (ordinary, added) = recurrent.add_selective(batch, clip, &release)?;
        self.added.examples += added.examples;
        self.added.clipped += added.clipped;
        self.added.rejected += added.rejected;
        Ok(ordinary)
    }

    /// Writes the ledger, reduces the sums, adds noise once, divides by the expected batch size and applies the update.
    ///
    /// The ledger is written before a noised value leaves this worker or the weights change: after a crash in between,
    /// the ledger may count a step that released nothing, but never misses a released step.
    ///
    /// # Errors
    /// Returns an error if a worker is gone, if the ledger can't be written, or if the engine fails.
    pub fn finish(
        mut self,
        noise: &mut dyn Noise,
        collective: &mut dyn Collective,
        update: &mut dyn Update,
        ledger: &mut Ledger,
    ) -> Result<Added> {
        let std = self.constants.noise_multiplier.get() * self.constants.clip.sensitivity();
        let divisor = self.constants.expected_batch;
        let alone = collective.world() == 1 && self.sums.is_empty();
        if let (true, Some(noise)) = (alone, noise.as_chacha())
            && let Some(resident) = self.trainer.resident()
        {
            let (gradients, finite) = resident.noised(&MeanNoise {
                noise,
                step: self.index,
                std,
                divisor,
            });
            ledger.record_private(self.index)?;
            self.check(finite)?;
            update.noised(std / divisor);
            let gradients = Gradients::Device(gradients);
            self.trainer.apply(Privatized { gradients }, update)?;
            return Ok(self.added);
        }
        let mut gradients: Vec<Vec<f32>> = match self.sums.pop() {
            Some((_, sums)) => sums,
            None => {
                let accumulator = self.trainer.accumulator().iter_mut();
                accumulator.map(std::mem::take).collect()
            }
        };
        let (added, by_rank) = added_by_all(self.added, self.trainer, collective)?;
        ledger.record_shared(self.index, if alone { &[] } else { &by_rank })?;
        // A tensor is sent back when the next one has come, so that others send it while this one is noised.
        for tensor in 0..=gradients.len() {
            let (noised, rest) = gradients.split_at_mut(tensor);
            let mut sum = rest.first_mut();
            if let Some(sum) = &mut sum {
                collective.sum_to_zero(sum)?;
            }
            if let Some(noised) = noised.last_mut() {
                collective.broadcast(noised)?;
            }
            if let (Some(sum), 0) = (sum, collective.rank()) {
                noise.add(self.index, tensor, std, sum);
                divide(sum, divisor);
            }
        }
        self.check(gradients.par_iter().flatten().all(|g| g.is_finite()))?;
        update.noised(if noise.is_none() { 0.0 } else { std / divisor });
        let gradients = Gradients::Host(gradients);
        self.trainer.apply(Privatized { gradients }, update)?;
        Ok(added)
    }

    /// Called after the step is recorded, because whether it failed depends on the value that would be released.
    fn check(&self, finite: bool) -> Result<()> {
        match finite {
            true => Ok(()),
            false => Err(Error::Diverged {
                step: self.index,
                what: "the noised gradient".into(),
            }),
        }
    }
}

/// Returns the counts of all workers together, and the number of records of each, after checking that all have the same
/// weights. Processors that round differently are seen by this after a step that each worker computes; after a private
/// step the weights follow from what rank 0 sent.
pub(crate) fn added_by_all(
    mine: Added,
    trainer: &dyn Trainer,
    collective: &mut dyn Collective,
) -> Result<(Added, Vec<u64>)> {
    if collective.world() == 1 {
        return Ok((mine, vec![mine.examples as u64]));
    }
    let counts = [mine.examples, mine.clipped, mine.rejected].map(|n| n as u64);
    let own = fingerprint(trainer.weights());
    let words = [counts[0], counts[1], counts[2], own];
    let words: Vec<u8> = words.iter().flat_map(|n| n.to_le_bytes()).collect();
    let (mut all, mut by_rank) = (Added::default(), Vec::new());
    for (rank, theirs) in collective.exchange(&words)?.iter().enumerate() {
        let (numbers, _) = theirs.as_chunks::<8>();
        let &[examples, clipped, rejected, theirs] = numbers else {
            return Err(Error::Worker(format!("worker {rank} says no counts")));
        };
        let theirs = [examples, clipped, rejected, theirs].map(u64::from_le_bytes);
        if theirs[3] != own {
            return Err(Error::Worker(format!(
                "worker {rank} has other weights than worker {}: their processors round differently; all workers must be \
                 of one kind",
                collective.rank()
            )));
        }
        all.examples += theirs[0] as usize;
        all.clipped += theirs[1] as usize;
        all.rejected += theirs[2] as usize;
        by_rank.push(theirs[0]);
    }
    Ok((all, by_rank))
}

/// Returns a hash of the weights: equal for equal weights, and almost never equal for different ones.
fn fingerprint(weights: &[Vec<f32>]) -> u64 {
    let of = |values: &[f32]| {
        values.iter().fold(0u64, |sum, value| {
            (sum.rotate_left(5) ^ u64::from(value.to_bits())).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        })
    };
    let blocks: Vec<u64> = weights
        .par_iter()
        .flat_map(|tensor| tensor.par_chunks(1 << 16))
        .map(of)
        .collect();
    blocks
        .iter()
        .fold(0, |sum: u64, block| sum.rotate_left(7) ^ block)
}

fn accumulate_all(sums: &mut [Vec<f32>], parts: &[Vec<f32>]) {
    for (sum, part) in sums.iter_mut().zip(parts) {
        accumulate(sum, part);
    }
}

/// Divides every value, in f64.
pub(crate) fn divide(values: &mut [f32], divisor: f64) {
    values.par_chunks_mut(BLOCK).for_each(|values| {
        let block = Divide { values, divisor };
        #[cfg(feature = "cpu")]
        pulp::Arch::new().dispatch(block);
        #[cfg(not(feature = "cpu"))]
        block.run();
    });
}

struct Divide<'a> {
    values: &'a mut [f32],
    divisor: f64,
}

impl Divide<'_> {
    #[inline(always)]
    fn run(self) {
        for x in self.values {
            *x = (f64::from(*x) / self.divisor) as f32;
        }
    }
}

#[cfg(feature = "cpu")]
impl pulp::NullaryFnOnce for Divide<'_> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        self.run();
    }
}

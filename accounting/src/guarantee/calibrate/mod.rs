//! Calibration: finds the parameter with which a plan just keeps a promise, namely the least noise or the highest
//! sampling rate, number of steps or group size.
//!
//! A [`Target`] is a promise about one quantity. A search brackets the parameter between a value at which the promise
//! is certified, which is the answer, and one at which it couldn't be certified. The two lie a relative tolerance apart
//! for noise and rate, and are consecutive for whole numbers. Monotonicity only keeps the search short: the returned
//! value was itself certified.

pub(crate) mod search;
mod target;

pub use target::Target;

use crate::mechanism::Mechanism;
use crate::quantity::error::{Error, Result};
use crate::quantity::{GroupSize, NoiseMultiplier, SamplingRate, Steps, Tolerance};
use search::{Continuous, Whole};
use target::Margin;

/// The bracket found by a calibration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration<T> {
    /// The value at which the promise is certified: the safe end, and the answer.
    pub answer: T,
    /// A value one tolerance (or one) further at which the promise couldn't be certified; absent if every value of the
    /// range keeps it.
    pub fails: Option<T>,
}

/// The least noise considered.
const LEAST_NOISE: f64 = 1e-3;
/// The most noise considered.
const MOST_NOISE: f64 = 1e7;
/// The lowest sampling rate considered.
const LEAST_RATE: f64 = 1e-12;
/// The largest group.
const MOST_RECORDS: u64 = 10_000;

/// Returns the least σ at which `run` keeps the promise, to a relative `tolerance`.
///
/// Bound: the promise is certified at the answer. Range: [1e-3, 1e7].
///
/// ```
/// use reticent_accounting::{Delta, Epsilon, Mechanism, Neighbours, Query, Tolerance};
/// use reticent_accounting::calibrate::{Target, calibrate_noise};
/// let run = |noise_multiplier| Mechanism::Gaussian { noise_multiplier };
/// let target = Target::Epsilon {
///     query: Query::single(Neighbours::AddRemove),
///     epsilon: Epsilon::new(1.0)?,
///     delta: Delta::new(1e-5)?,
/// };
/// let found = calibrate_noise(run, target, Tolerance::new(1e-9)?)?;
/// assert!((found.answer.get() / 3.730631634815942 - 1.0).abs() < 2e-9);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// Returns [`Error::OutOfRange`] if the target contradicts itself (a posterior not above the prior),
/// [`Error::NotMet`] if no σ in the range certifies it, and any error of accounting for the mechanism.
pub fn calibrate_noise(
    run: impl Fn(NoiseMultiplier) -> Mechanism,
    target: Target,
    tolerance: Tolerance,
) -> Result<Calibration<NoiseMultiplier>> {
    target.check()?;
    let search = Continuous {
        what: "noise multiplier",
        least: LEAST_NOISE,
        most: MOST_NOISE,
        start: 1.0,
        larger_is_safer: true,
    };
    search.run(
        |sigma, goal| target.margin(&run(NoiseMultiplier::new(sigma)?), goal),
        NoiseMultiplier::new,
        tolerance.get(),
    )
}

/// Returns the highest sampling rate at which `run` keeps the promise, to a relative `tolerance`.
///
/// Bound: the promise is certified at the answer. Range: [1e-12, 1].
///
/// ```
/// use reticent_accounting::{Delta, Epsilon, Mechanism, Neighbours, NoiseMultiplier, Query, Steps, Tolerance};
/// use reticent_accounting::calibrate::{Target, calibrate_rate};
/// let sigma = NoiseMultiplier::new(1.1)?;
/// let run = |rate| Mechanism::dp_sgd(sigma, rate, Steps::new(10_000));
/// let target = Target::Epsilon {
///     query: Query::single(Neighbours::AddRemove),
///     epsilon: Epsilon::new(5.192583445879)?,
///     delta: Delta::new(1e-5)?,
/// };
/// let found = calibrate_rate(run, target, Tolerance::new(1e-7)?)?;
/// assert!((found.answer.get() / 0.01 - 1.0).abs() < 2e-7);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// As [`calibrate_noise`].
pub fn calibrate_rate(
    run: impl Fn(SamplingRate) -> Mechanism,
    target: Target,
    tolerance: Tolerance,
) -> Result<Calibration<SamplingRate>> {
    target.check()?;
    let search = Continuous {
        what: "sampling rate",
        least: LEAST_RATE,
        most: 1.0,
        start: 0.01,
        larger_is_safer: false,
    };
    search.run(
        |rate, goal| target.margin(&run(SamplingRate::new(rate)?), goal),
        SamplingRate::new,
        tolerance.get(),
    )
}

/// Returns the most steps with which `run` keeps the promise; one more couldn't be certified.
///
/// Bound: the promise is certified at the answer. Range: [1, 2^53]. `tolerance` is the relative width at which the
/// promise is certified. For numbers above a thousand times its inverse, the ends of the bracket lie that share of the
/// number apart instead of one.
///
/// ```
/// use reticent_accounting::{Delta, Epsilon, Mechanism, Neighbours, NoiseMultiplier, Query, Steps, Tolerance};
/// use reticent_accounting::calibrate::{Target, calibrate_steps};
/// // Plain Gaussians: ε depends on √T/σ alone, so 100 steps at σ = 20 are one at σ = 2.
/// let each = Mechanism::Gaussian { noise_multiplier: NoiseMultiplier::new(20.0)? };
/// let run = |times| Mechanism::Repeat { times, each: Box::new(each.clone()) };
/// let target = Target::Epsilon {
///     query: Query::single(Neighbours::AddRemove),
///     epsilon: Epsilon::new(2.2541)?, // 2.254084650 at T = 100
///     delta: Delta::new(1e-6)?,
/// };
/// let found = calibrate_steps(run, target, Tolerance::DEFAULT)?;
/// assert_eq!((found.answer, found.fails), (Steps::new(100), Some(Steps::new(101))));
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// As [`calibrate_noise`].
pub fn calibrate_steps(
    run: impl Fn(Steps) -> Mechanism,
    target: Target,
    tolerance: Tolerance,
) -> Result<Calibration<Steps>> {
    target.check()?;
    let search = Whole {
        what: "number of steps",
        most: Steps::MOST.get(),
        start: 1000,
    };
    let margin = |steps, goal| target.margin(&run(Steps::new(steps)), goal);
    let (answer, fails) = search.run(margin, tolerance.get())?;
    Ok(Calibration {
        answer: Steps::new(answer),
        fails: fails.map(Steps::new),
    })
}

/// Returns the most records that may change together (copies of a secret, records of a person) such that `mechanism`
/// still keeps the promise; the target's own group size is replaced.
///
/// Bound: the promise is certified at the answer. Range: [1, 10000].
///
/// ```
/// use reticent_accounting::{GroupSize, Mechanism, NoiseMultiplier, Probability, SamplingRate, Steps, Tolerance};
/// use reticent_accounting::calibrate::{Target, calibrate_group};
/// let run = Mechanism::dp_sgd(NoiseMultiplier::new(2.0684321)?, SamplingRate::new(20480.0 / 1.7e7)?, Steps::new(2000));
/// let target = Target::Posterior {
///     group: GroupSize::ONE,
///     prior: Probability::new(1e-10)?,
///     posterior: Probability::new(2e-4)?,
/// };
/// let found = calibrate_group(&run, target, Tolerance::new(1e-9)?)?;
/// assert_eq!(found.answer, GroupSize::new(100)?);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// As [`calibrate_noise`]. Groups of several records that aren't covered keep no promise.
pub fn calibrate_group(
    mechanism: &Mechanism,
    target: Target,
    tolerance: Tolerance,
) -> Result<Calibration<GroupSize>> {
    target.check()?;
    let search = Whole {
        what: "group size",
        most: MOST_RECORDS,
        start: 8,
    };
    let size = |records: u64| {
        let count = u32::try_from(records)
            .map_err(|_| Error::out_of_range("group size", "[1, 10000]", records as f64))?;
        GroupSize::new(count)
    };
    let margin = |records, goal| {
        let margin = target.with_group(size(records)?).margin(mechanism, goal);
        match margin {
            // If only single records are covered, no more than one record keeps the promise.
            Err(Error::Unsupported { .. }) if records > 1 => Ok(Margin::BROKEN),
            other => other,
        }
    };
    let (answer, fails) = search.run(margin, tolerance.get())?;
    Ok(Calibration {
        answer: size(answer)?,
        fails: fails.map(size).transpose()?,
    })
}

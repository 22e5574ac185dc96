//! An oracle that shares no code with the accountant: laws read from the papers, cells with masses
//! from differences of distribution functions, losses moved to equidistant lines so that δ can only
//! rise (or only fall), a textbook transform, and everything left out added outwards. What comes out is
//! an interval that contains the truth.

mod allocated;
mod batches;
mod composed;
mod finite;
pub(crate) mod fourier;
mod pairs;
mod samplers;
mod step;
mod truth;

use allocated::Epoch;
use composed::{Composed, View};
use reticent_accounting::{Direction, Mechanism, Neighbours, Query, Sampling};
use step::{Side, Step};
use truth::{Parts, Question, Truth};

/// Lines of a composition: rare large losses beside frequent small ones need many.
const LENGTH: usize = 1 << 15;

/// What one question is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) query: Query,
    pub(crate) direction: Direction,
    pub(crate) steps: u64,
    /// How many deviations above the mean loss ε is.
    pub(crate) spot: f64,
    /// Whether that is of what dominates, or of what is dominated.
    pub(crate) far: bool,
}

/// One run, and ends of what it leads to.
struct Known {
    parts: Parts,
    low: Option<Composed>,
    high: Option<Composed>,
}

impl Known {
    fn of(all: Vec<Parts>, epsilon: f64, sides: &[Side]) -> Vec<Self> {
        let one = |parts: Parts| {
            let view = View::at(&clipped(&parts, epsilon, Side::High), epsilon, LENGTH);
            let composed = |side| {
                let wanted = sides.contains(&side);
                wanted.then(|| Composed::of(&clipped(&parts, epsilon, side), view, side))
            };
            Self {
                low: composed(Side::Low),
                high: composed(Side::High),
                parts,
            }
        };
        all.into_iter().map(one).collect()
    }

    fn end(&self, side: Side) -> Option<&Composed> {
        match side {
            Side::Low => self.low.as_ref(),
            Side::High => self.high.as_ref(),
        }
    }
}

/// Steps of which a loss too low for all others together to lift it to `epsilon` is left out, or raised
/// to where it just isn't: neither matters at that ε, and lines need not reach there.
fn clipped(parts: &Parts, epsilon: f64, side: Side) -> Parts {
    match parts.as_slice() {
        [(step, times)] if *times > 1 => {
            let highest = step.outcomes.iter().map(|o| o.most).fold(0.0, f64::max);
            let floor = epsilon - (*times - 1) as f64 * highest - 1e-3 * highest;
            let lowest = step.outcomes.first().map_or(0.0, |o| o.loss());
            if floor > lowest && step.comb.is_none() {
                vec![(step.clipped(floor, side), *times)]
            } else {
                parts.clone()
            }
        }
        _ => parts.clone(),
    }
}

/// What is known of one run near one ε.
pub(crate) struct Oracle {
    /// What the accountant's ends rest on.
    upper: Vec<Known>,
    /// Nothing where that is the same.
    lower: Option<Vec<Known>>,
    below: Vec<Known>,
    above: Vec<Known>,
    gaussian: Option<f64>,
    epoch: Option<Epoch>,
    /// The ε that it was laid for.
    pub(crate) epsilon: f64,
}

/// Ends of what the accountant's own ends rest on: [of its upper end, of its lower end].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rests {
    pub(crate) upper: (f64, f64),
    /// Zero where nothing is named for it: then there is no lower end.
    pub(crate) lower: (f64, f64),
}

impl Oracle {
    /// For losses some deviations above their mean; `None` where nothing is known.
    pub(crate) fn of(run: &Mechanism, setting: Setting) -> Option<Self> {
        // Roundings of the losses add up with the steps.
        let cells = match setting.steps {
            0..=3 => 1 << 11,
            4..=12 => 1 << 12,
            _ => 1 << 13,
        };
        let question = Question {
            query: setting.query,
            direction: setting.direction,
            cells,
        };
        let truth = Truth::of(run, question)?;
        if let Some(distance) = truth.gaussian {
            return Some(Self {
                upper: Vec::new(),
                lower: None,
                below: Vec::new(),
                above: Vec::new(),
                gaussian: Some(distance),
                epoch: None,
                epsilon: (0.5 * distance * distance + setting.spot * distance).max(0.0),
            });
        }
        let (upper, lower) = (truth.upper.last(), truth.lower.first());
        let reference = if setting.far {
            upper.or(lower)
        } else {
            lower.or(upper)
        };
        let epsilon = place(reference.or(truth.below.first())?, setting.spot);
        let both = [Side::Low, Side::High];
        Some(Self {
            upper: Known::of(truth.upper, epsilon, &both),
            lower: (!truth.exact).then(|| Known::of(truth.lower, epsilon, &both)),
            below: Known::of(truth.below, epsilon, &both[..1]),
            above: Known::of(truth.above, epsilon, &both[1..]),
            gaussian: None,
            epoch: epoch(run, setting),
            epsilon,
        })
    }

    fn lower(&self) -> &[Known] {
        self.lower.as_deref().unwrap_or(&self.upper)
    }

    /// The largest of some lower ends, the smallest of some upper ones.
    fn most(known: &[Known], least: f64, side: Side, f: impl Fn(&Composed) -> f64) -> f64 {
        let ends = known.iter().filter_map(|one| one.end(side));
        ends.map(f).fold(least, f64::max)
    }

    fn least(known: &[Known], most: f64, side: Side, f: impl Fn(&Composed) -> f64) -> f64 {
        let ends = known.iter().filter_map(|one| one.end(side));
        ends.map(f).fold(most, f64::min)
    }

    /// An interval that contains δ(ε).
    pub(crate) fn delta(&self, epsilon: f64) -> (f64, f64) {
        if let Some(distance) = self.gaussian {
            return of_gaussian(distance, epsilon);
        }
        let of = |law: &Composed| law.delta(epsilon);
        // Guessing is free.
        let mut low = Self::most(&self.below, 0.0, Side::Low, of);
        low = Self::most(self.lower(), low, Side::Low, of);
        let mut high = Self::least(&self.above, 1.0, Side::High, of);
        high = Self::least(&self.upper, high, Side::High, of);
        if let Some(epoch) = self.epoch {
            let exact = epoch.delta(epsilon);
            (low, high) = (low.max(exact.0), high.min(exact.1));
        }
        (low, high)
    }

    /// Ends of what the two ends of δ(ε) rest on.
    pub(crate) fn delta_rests(&self, epsilon: f64) -> Rests {
        if self.gaussian.is_some() {
            let exact = self.delta(epsilon);
            return Rests {
                upper: exact,
                lower: exact,
            };
        }
        let of = |law: &Composed| law.delta(epsilon);
        Rests {
            upper: (
                Self::least(&self.upper, 1.0, Side::Low, of),
                Self::least(&self.upper, 1.0, Side::High, of),
            ),
            lower: (
                Self::most(self.lower(), 0.0, Side::Low, of),
                Self::most(self.lower(), 0.0, Side::High, of),
            ),
        }
    }

    /// An interval that contains max {P(E): Q(E) ≤ x}, sharp if the loss there is about `epsilon`, and one
    /// that contains what its upper end rests on.
    pub(crate) fn blow_up(&self, x: f64, epsilon: f64) -> [(f64, f64); 2] {
        if let Some(distance) = self.gaussian {
            return [gaussian_blow_up(distance, x); 2];
        }
        let best = |law: &Composed| law.best_event(x);
        let bound = |law: &Composed| law.blow_up(x, epsilon);
        let low = Self::most(&self.below, x, Side::Low, best);
        let high = Self::least(&self.above, 1.0, Side::High, bound);
        let rests = (
            Self::least(&self.upper, 1.0, Side::Low, best),
            Self::least(&self.upper, 1.0, Side::High, bound),
        );
        [
            (
                Self::most(self.lower(), low, Side::Low, best),
                rests.1.min(high),
            ),
            rests,
        ]
    }

    /// An interval that contains the Rényi divergence of an order above 1, and one that contains what its
    /// upper end rests on; upper ends may be infinite.
    pub(crate) fn renyi(&self, order: f64) -> [(f64, f64); 2] {
        if let Some(distance) = self.gaussian {
            let exact = 0.5 * order * distance * distance;
            return [(exact * (1.0 - 1e-12), exact * (1.0 + 1e-12)); 2];
        }
        let ends = |known: &[Known], side: Side| -> Vec<f64> {
            let sum = |one: &Known| {
                let each = one
                    .parts
                    .iter()
                    .map(|(step, times)| step.ln_moment(order, side) * *times as f64);
                each.sum::<f64>() / (order - 1.0)
            };
            known.iter().map(sum).collect()
        };
        let most = |known, side, from| ends(known, side).into_iter().fold(from, f64::max);
        let least = |known, side, from| ends(known, side).into_iter().fold(from, f64::min);
        let low = most(self.lower(), Side::Low, most(&self.below, Side::Low, 0.0));
        let rests = (
            least(&self.upper, Side::Low, f64::INFINITY),
            least(&self.upper, Side::High, f64::INFINITY),
        );
        let high = least(&self.above, Side::High, rests.1);
        [(low, high), rests]
            .map(|(low, high)| (low * (1.0 - 1e-9) - 1e-11, high * (1.0 + 1e-9) + 1e-11))
    }
}

/// One epoch of few steps, drawn for one record alone, present or absent.
fn epoch(run: &Mechanism, setting: Setting) -> Option<Epoch> {
    let Mechanism::Repeat { times, each } = run else {
        return None;
    };
    let Mechanism::SubsampledGaussian {
        noise_multiplier,
        sampling_rate,
        sampling,
    } = &**each
    else {
        return None;
    };
    let (selected, bins) = match sampling {
        Sampling::BallsInBins => (1, (1.0 / sampling_rate.get()).round() as u64),
        Sampling::RandomAllocation { selected, steps } => (*selected, *steps),
        _ => return None,
    };
    let alone = setting.query == Query::single(Neighbours::AddRemove)
        || setting.query == Query::single(Neighbours::ZeroOut);
    (alone && times.get() == bins && (2..=4).contains(&bins)).then(|| Epoch {
        scale: noise_multiplier.get(),
        bins: bins as usize,
        selected: selected as usize,
        with_first: setting.direction == Direction::Remove,
    })
}

/// `spot` deviations above the mean loss, and not beyond what can happen.
fn place(parts: &[(Step, u64)], spot: f64) -> f64 {
    let (mut mean, mut variance, mut most) = (0.0, 0.0, 0.0);
    for (step, times) in parts {
        let times = *times as f64;
        let (_, first, second) = step.thinned().moments(0.0);
        mean += times * first;
        variance += times * second;
        most += times * step.outcomes.last().map_or(0.0, |o| o.loss());
    }
    (mean + spot * variance.sqrt()).min(0.98 * most).max(0.0)
}

/// Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ), both terms to some roundings (Balle and Wang 2018).
fn of_gaussian(distance: f64, epsilon: f64) -> (f64, f64) {
    let above = |x: f64| 0.5 * libm::erfc(x * std::f64::consts::FRAC_1_SQRT_2);
    let first = above(epsilon / distance - 0.5 * distance);
    let second = epsilon.exp() * above(epsilon / distance + 0.5 * distance);
    // The argument of erfc is rounded, and its slope grows with it.
    let reach = 1.0 + epsilon / distance + distance;
    let error = 4.0 * f64::EPSILON * (first + second) * reach * reach;
    let value = first - second;
    ((value - error).max(0.0), (value + error).min(1.0))
}

/// Φ(Φ⁻¹(x) + μ), the inverse by halving.
fn gaussian_blow_up(distance: f64, x: f64) -> (f64, f64) {
    let above = |z: f64| 0.5 * libm::erfc(z * std::f64::consts::FRAC_1_SQRT_2);
    let (mut low, mut high) = (-40.0, 40.0);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if above(middle) > x {
            low = middle;
        } else {
            high = middle;
        }
    }
    let value = above(low - distance);
    (value * (1.0 - 1e-9), value * (1.0 + 1e-9))
}

//! The certified, composed K on the real axis, and its saddle points.

use super::decay::Decay;
use super::kernel::Kernel;
use super::laws::{LossDecay, LossPartition};
use super::nodes::{Moment, Nodes, Rough};
use super::partition::{CellPartition, too_wide};
use crate::loss::{LossDistribution, Pair, PrivacyLoss};
use crate::numeric::special::{ROUND, ln_add_exp};
use crate::quantity::error::Result;
use std::cell::Cell;

/// ln of the targeted quadrature error, before division by the number of steps.
const LN_ERROR: f64 = -42.0;
/// Additional reach of the cells beyond the nodes, for bounds off the real axis.
const LN_MARGIN: f64 = -50.0;
/// Components are far apart if the outermost ones are at least this far, in deviations.
const LEAST_REACH: f64 = 64.0;
/// With more components far apart than this, stretches take too long.
const MOST_COMPONENTS: usize = 128;

/// One kind of step, charted.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) source: Source,
    pub(crate) times: f64,
    nodes: Nodes,
    /// A coarser rule, for searches.
    thin: Option<Nodes>,
}

/// The origin of a step's nodes.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// Gaussian mixtures, by the trapezoid rule.
    Pair(Box<PairNodes>),
    /// Any other law, by Gauss–Legendre rules.
    LossDistribution(Box<LossPartition>),
}

/// A pair of Gaussian mixtures with the position of its nodes on the partition.
#[derive(Debug, Clone)]
pub(crate) struct PairNodes {
    pub(crate) partition: CellPartition,
    pub(crate) span: (usize, usize),
    /// The index of the shift from which the search for the best quadrature bound starts.
    pub(crate) shift: usize,
    /// The distance between nodes.
    spacing: f64,
    /// ln of the quadrature errors at orders 0 and 1.
    ln_error: [f64; 2],
}

/// Bounds on the decay of one part's characteristic function.
pub(crate) enum AnyDecay<'a> {
    Pair(Box<Decay<'a>>),
    LossDistribution(Box<LossDecay>),
}

impl AnyDecay<'_> {
    /// Returns a bound for every |y'| ≥ y; stops as soon as it is at most `enough`.
    pub(crate) fn bent(&mut self, y: f64, enough: f64) -> f64 {
        match self {
            Self::Pair(decay) => decay.bent(y, enough),
            Self::LossDistribution(decay) => decay.beyond(y),
        }
    }

    /// Returns a bound for y in [`low`, `high`].
    pub(crate) fn window(&self, low: f64, high: f64) -> f64 {
        match self {
            Self::Pair(decay) => decay.window(low, high),
            Self::LossDistribution(decay) => decay.window(low, high),
        }
    }
}

/// Everything that is computed once per privacy loss.
#[derive(Debug, Clone)]
pub(crate) struct CumulantFunction {
    pub(crate) gaussian: f64,
    pub(crate) parts: Vec<Part>,
    /// The highest order that is covered.
    pub(crate) highest: f64,
    /// The order at which the last search ended.
    last: Cell<f64>,
}

/// The composed K at a real order, with a bound on its error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Total {
    pub(crate) ln: f64,
    pub(crate) error: f64,
}

/// Parameters of a search for an order.
#[derive(Debug, Clone, Copy)]
struct Search {
    /// Whether the derivative is −∞ at the kernel's lower end, and ∞ at a finite upper end.
    poles: bool,
    /// The step, relative to the distance from the pole, after which the search ends.
    precise: f64,
    /// The order at which the search starts.
    from: f64,
}

/// Returns whether components far apart, and not many ones, may be why equally spaced nodes are too many.
fn has_far_components(pair: &Pair) -> bool {
    let components = pair.first.components().count() + pair.second.components().count();
    pair.first.farthest() + pair.second.farthest() >= LEAST_REACH && components <= MOST_COMPONENTS
}

impl Part {
    fn of_pair(pair: &Pair, times: u64, highest: f64) -> Result<Self> {
        let times = times as f64;
        let (part, nodes) = match PairNodes::new(pair, times, highest) {
            Ok(found) => found,
            Err(error) if !has_far_components(pair) => return Err(error),
            Err(_) => {
                let ln_error = LN_ERROR - times.ln();
                let (partition, nodes) =
                    LossPartition::of_far_components(pair, highest, 0.0, ln_error)?;
                return Ok(Self {
                    source: Source::LossDistribution(Box::new(partition)),
                    times,
                    thin: None,
                    nodes,
                });
            }
        };
        Ok(Self {
            source: Source::Pair(Box::new(part)),
            times,
            thin: Some(nodes.thinned()),
            nodes,
        })
    }

    fn of_law(law: &LossDistribution, times: u64, highest: f64) -> Result<Self> {
        if law.stated.is_some() {
            // There is nothing to partition.
            return Err(CumulantFunction::out_of_reach());
        }
        let times = times as f64;
        let (partition, nodes) = LossPartition::new(law, highest, 0.0, LN_ERROR - times.ln())?;
        Ok(Self {
            source: Source::LossDistribution(Box::new(partition)),
            times,
            thin: None,
            nodes,
        })
    }

    pub(crate) const fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Returns ln of a bound on |Σ − ∫| for f_c on these nodes, with e^`ln_moment` the sum; a bound of
    /// at most `enough` suffices.
    fn ln_quadrature_error(&self, c: f64, ln_moment: f64, enough: f64) -> f64 {
        match &self.source {
            Source::Pair(part) => part.ln_quadrature_error(c, enough),
            Source::LossDistribution(partition) => partition.ln_error(c, ln_moment),
        }
    }

    /// Returns a bound on the error of this part's K(c), given its computed value.
    fn error(&self, c: f64, ln_moment: f64) -> f64 {
        match &self.source {
            Source::Pair(part) => part.error(c, ln_moment, self.times),
            Source::LossDistribution(partition) => partition.moment_error(c, ln_moment),
        }
    }

    /// Returns bounds on the decay of its characteristic function at order c, given K(c).
    pub(crate) fn decay(&self, c: f64, ln_moment: f64) -> AnyDecay<'_> {
        match &self.source {
            Source::Pair(part) => {
                AnyDecay::Pair(Box::new(Decay::new(&part.partition, c, ln_moment)))
            }
            Source::LossDistribution(partition) => {
                let at = (c, ln_moment);
                AnyDecay::LossDistribution(Box::new(LossDecay::new(
                    partition,
                    &self.nodes,
                    self.times,
                    at,
                )))
            }
        }
    }
}

impl PairNodes {
    fn new(pair: &Pair, times: f64, highest: f64) -> Result<(Self, Nodes)> {
        let ln_error = LN_ERROR - times.ln();
        let partition = CellPartition::new(pair, times, highest, ln_error + LN_MARGIN)?;
        let orders = [0.0, 1.0, highest];
        let span = partition.span(&orders, ln_error - 2.0);
        let (mut spacing, mut shift) = (f64::INFINITY, 0);
        for c in orders {
            let wanted = ln_error + partition.rough_ln_moment(c).max(0.0);
            let (widest, best) = partition.spacing(c, 0.0, wanted, shift);
            (spacing, shift) = (f64::min(spacing, widest), best);
        }
        let nodes = Nodes::new(
            pair,
            partition.boundaries[span.0].x,
            partition.boundaries[span.1].x,
            spacing,
        )?;
        let mut part = Self {
            partition,
            span,
            shift,
            spacing,
            ln_error: [0.0; 2],
        };
        part.ln_error = [0.0, 1.0].map(|c| part.ln_quadrature_error(c, ln_error));
        Ok((part, nodes))
    }

    /// Returns ln of a bound on |Σ − ∫| for f_c on these nodes; a bound of at most `enough` suffices.
    fn ln_quadrature_error(&self, c: f64, enough: f64) -> f64 {
        let inner = self
            .partition
            .ln_trapezoid_error(c, self.spacing, self.shift, enough);
        // The omitted nodes lie under a bell of unit width, so their sum is at most (1 + h) times its
        // integral.
        let tails = ln_add_exp(
            self.partition.ln_tail(self.span.0, c, -1.0),
            self.partition.ln_tail(self.span.1, c, 1.0),
        );
        ln_add_exp(inner, tails + self.spacing.ln_1p())
    }

    /// Returns a bound on the error of K(c), given its computed value.
    fn error(&self, c: f64, ln_moment: f64, times: f64) -> f64 {
        let enough = LN_ERROR - times.ln() + ln_moment;
        let plain = (self.ln_quadrature_error(c, enough) - ln_moment).exp();
        let ends = (self.ln_error[0] - ln_moment).exp() * (c - 1.0).abs()
            + (self.ln_error[1] - ln_moment).exp() * c;
        let relative = plain + ends;
        if relative < 0.5 {
            -(-relative).ln_1p()
        } else {
            f64::INFINITY
        }
    }
}

impl CumulantFunction {
    /// Charts every part for orders in [0, `highest`].
    ///
    /// # Errors
    /// Returns [`crate::Error::NotCertified`] if the moments spread too far.
    pub(crate) fn new(loss: &PrivacyLoss, highest: f64) -> Result<Self> {
        let pairs = loss.parts.iter();
        let pairs = pairs.map(|(pair, times)| Part::of_pair(pair, *times, highest));
        let laws = loss.laws.iter();
        let laws = laws.map(|(law, times)| Part::of_law(law, *times, highest));
        let parts = pairs.chain(laws).collect::<Result<_>>()?;
        Ok(Self {
            gaussian: loss.gaussian,
            parts,
            highest,
            last: Cell::new(f64::NAN),
        })
    }

    /// Returns a first guess of the highest order that will be needed.
    pub(crate) fn first_highest(loss: &PrivacyLoss) -> f64 {
        let farthest = loss
            .parts
            .iter()
            .map(|(pair, _)| {
                // The loss rises that fast if no component of the second law is near the first one.
                let nearest = has_far_components(pair).then_some(pair.second.nearest());
                pair.first.farthest().max(nearest.unwrap_or(0.0))
            })
            .chain(loss.laws.iter().map(|(law, _)| law.loss_range(-30.0).1))
            .fold(0.0, f64::max);
        1.0 + 12.0 * f64::min(1.0, 2.0 / farthest)
    }

    /// Returns whether every part is charted between orders 0 and 1 too.
    pub(crate) fn serves_below_one(&self) -> bool {
        self.parts.iter().all(|part| match &part.source {
            Source::Pair(_) => true,
            Source::LossDistribution(partition) => partition.serves(0.5),
        })
    }

    /// Returns K(c), K'(c), K''(c) of the whole run, without a bound on their errors.
    pub(crate) fn moment(&self, c: f64) -> Rough {
        let plain = 0.5 * self.gaussian;
        let mut total = Rough {
            ln: plain * c * (c - 1.0),
            first: plain * (2.0 * c - 1.0),
            second: self.gaussian,
        };
        for part in &self.parts {
            let each = part.thin.as_ref().unwrap_or(&part.nodes).rough(c);
            // After this many steps, roundings of 1 would be visible.
            let ln = if part.times > 1e10 {
                part.nodes.moment(c).ln
            } else {
                each.ln
            };
            total.ln += part.times * ln;
            total.first += part.times * each.first;
            total.second += part.times * each.second;
        }
        total
    }

    /// Returns K(c) of the whole run with a bound on its error, and K(c) of one step of each part, whose
    /// rounding includes the quadrature error.
    pub(crate) fn certified(&self, c: f64) -> (Total, Vec<Moment>) {
        let plain = 0.5 * self.gaussian * c * (c - 1.0);
        let mut total = Total {
            ln: plain,
            error: 4.0 * ROUND * plain.abs(),
        };
        let mut each = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let moment = part.nodes.moment(c);
            let quadrature = part.error(c, moment.ln);
            total.ln += part.times * moment.ln;
            total.error +=
                part.times * (quadrature + moment.rounding + 2.0 * ROUND * moment.ln.abs());
            // A quantity divided by the value has the value's error.
            each.push(Moment {
                rounding: moment.rounding + quadrature,
                ..moment
            });
        }
        (total, each)
    }

    /// Returns an upper bound on K(c) of the whole run, cheaper and looser than
    /// [`CumulantFunction::certified`].
    pub(crate) fn ceiling(&self, c: f64) -> f64 {
        let plain = 0.5 * self.gaussian * c * (c - 1.0);
        let mut total = plain + 4.0 * ROUND * plain.abs();
        for part in &self.parts {
            let sum = part.nodes.ceiling(c);
            total += part.times
                * ln_add_exp(
                    sum,
                    part.ln_quadrature_error(c, sum, sum - part.times.ln() - 7.0),
                );
        }
        total + 4.0 * ROUND * total.abs()
    }

    /// Returns the order in the kernel's interval that minimises K(c) − ε(c−1) − ln(c|c−1|); `None` if
    /// it lies beyond the charted orders.
    pub(crate) fn saddle(&self, kernel: Kernel, epsilon: f64) -> Option<f64> {
        let search = Search {
            poles: true,
            precise: 1e-4,
            from: self.last.get(),
        };
        self.descend(kernel, search, |c, total| {
            let (slope, curvature) = Kernel::ln_factor_slopes(c);
            (total.first - epsilon + slope, total.second + curvature)
        })
    }

    /// Returns the order in the closed interval that minimises K(c) − ε(c−1), at most the highest.
    ///
    /// The search, from `from` or from where the last one ended, is rough: the orders are used for
    /// bounds that hold at any order, and that are flat around the best.
    pub(crate) fn lean(&self, kernel: Kernel, epsilon: f64, from: Option<f64>) -> f64 {
        let high = kernel.interval().1.min(self.highest);
        let search = Search {
            poles: false,
            precise: 1e-2,
            from: from.unwrap_or_else(|| self.last.get()),
        };
        let saddle = self.last.get();
        let found = self.descend(kernel, search, |_, total| {
            (total.first - epsilon, total.second)
        });
        if from.is_some() {
            self.last.set(saddle);
        }
        found.unwrap_or(high)
    }

    /// Returns the root of an increasing derivative, by Newton steps kept inside a shrinking bracket:
    /// the lower end if the derivative is positive throughout, `None` if it is negative throughout.
    fn descend(
        &self,
        kernel: Kernel,
        search: Search,
        slope: impl Fn(f64, &Rough) -> (f64, f64),
    ) -> Option<f64> {
        let (low, end) = kernel.interval();
        let high = end.min(self.highest);
        let at = |c: f64| slope(c, &self.moment(c));
        let (mut below, mut above) = (low, high);
        let (mut falls, mut rises) = (search.poles, search.poles && end <= self.highest);
        // Distances from the pole span many decades, so the search starts on that scale.
        let last = search.from;
        let mut c = if last > low && last < high {
            last
        } else {
            low + (high - low) * 0.3
        };
        for _ in 0..100 {
            let (value, curvature) = at(c);
            if value < 0.0 {
                (below, falls) = (c, true);
            } else {
                (above, rises) = (c, true);
            }
            let newton = c - value / curvature;
            if newton >= above && !rises {
                if at(high).0 < 0.0 {
                    return None;
                }
                rises = true;
            }
            if newton <= below && !falls {
                if at(low).0 >= 0.0 {
                    return Some(low);
                }
                falls = true;
            }
            let next = if newton > below && newton < above {
                newton
            } else if below > low {
                0.5 * (below + above)
            } else {
                low + 0.1 * (above - low)
            };
            let moved = (next - c).abs();
            c = next;
            if moved <= search.precise * (c - low).min(1.0) {
                break;
            }
        }
        self.last.set(c);
        Some(c)
    }

    /// Returns an error for orders out of reach.
    pub(crate) fn out_of_reach() -> crate::quantity::error::Error {
        too_wide()
    }
}

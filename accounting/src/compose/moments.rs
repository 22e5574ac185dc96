//! Moments of a composed loss, and the best order.

use super::solver::Solver;
use crate::engine::contour::cumulants::{CumulantFunction, Total};
use crate::engine::contour::kernel::Kernel;
use crate::engine::grid::renyi::ACCURACY;
use crate::loss::PrivacyLoss;
use crate::numeric::search::minimiser;
use crate::numeric::special::above_zero;
use crate::quantity::error::{Error, Result};

/// The ratio of (order − 1) between an order that couldn't be certified and the next one.
const LOWER: f64 = 0.6;
/// The least (order − 1) that is tried.
const LEAST_ORDER: f64 = 1e-3;

/// The charts of one run's steps at several orders, most of which the same chart serves.
#[derive(Debug, Default)]
struct Charts {
    latest: Option<CumulantFunction>,
    /// The highest order of the latest chart that could not be made, and why.
    refused: Option<(f64, Error)>,
}

impl Charts {
    /// Returns K(c) of the steps of mixtures with a bound on its error, by the latest chart if it is as accurate there
    /// as a new one would be. What could not be charted isn't tried again.
    fn certified(&mut self, loss: &PrivacyLoss, order: f64) -> Result<Total> {
        let highest = order.max(2.0);
        if let Some(chart) = self.latest.take_if(|chart| chart.highest >= order) {
            let rest = chart.certified(order).0;
            let serves = rest.error <= ACCURACY * rest.ln || chart.highest <= highest;
            self.latest = serves.then_some(chart);
            if serves {
                return Ok(rest);
            }
        }
        if let Some((before, error)) = &self.refused
            && before.to_bits() == highest.to_bits()
        {
            return Err(error.clone());
        }
        match CumulantFunction::new(&loss.without_laws(), highest) {
            Ok(chart) => Ok(self.latest.insert(chart).certified(order).0),
            Err(error) => {
                self.refused = Some((highest, error.clone()));
                Err(error)
            }
        }
    }
}

impl PrivacyLoss {
    /// Returns the same run without the steps that only the grid can handle.
    pub(crate) fn without_laws(&self) -> Self {
        Self {
            laws: Vec::new(),
            ..self.clone()
        }
    }

    /// Returns an upper bound on the P-mass that is missing because masses of laws were rounded
    /// inwards.
    pub(crate) fn rounded_away(&self) -> f64 {
        let kept = self.laws.iter();
        let ln_kept = kept.map(|(law, times)| *times as f64 * law.ln_least_mass());
        -ln_kept.sum::<f64>().exp_m1()
    }

    /// Returns both ends of K(c) of the steps that only the grid can handle.
    pub(crate) fn ln_moment_of_laws(&self, order: f64) -> Result<(f64, f64)> {
        let (mut lower, mut upper) = (0.0, 0.0);
        for (law, times) in &self.laws {
            let (low, high) = match &law.stated {
                Some(stated) => (0.0, above_zero(stated.ln_moment(order)?)),
                None => law.ln_moment(order)?,
            };
            lower += *times as f64 * low;
            upper += *times as f64 * high;
        }
        let lower = if self.bounds_only() {
            0.0
        } else {
            lower * (1.0 - 1e-14)
        };
        Ok((lower, upper * (1.0 + 1e-14)))
    }

    /// Returns both ends of K(c) of the whole run.
    pub(crate) fn ln_moment(&self, order: f64) -> Result<(f64, f64)> {
        self.ln_moment_charted(order, &mut Charts::default())
    }

    /// Returns the same, with charts of other orders.
    fn ln_moment_charted(&self, order: f64, charts: &mut Charts) -> Result<(f64, f64)> {
        if let Some(informed) = &self.more_informed {
            return Ok((0.0, informed.ln_moment_charted(order, charts)?.1));
        }
        let laws = self.ln_moment_of_laws(order)?;
        let rest = charts.certified(self, order)?;
        let upper = laws.1 + rest.ln + rest.error;
        Ok((
            (laws.0 + rest.ln - rest.error).max(0.0),
            if upper.is_nan() { f64::INFINITY } else { upper },
        ))
    }
}

impl Solver {
    /// Returns the order in (1, ∞) that minimises `bound`, a function of the order and of an
    /// approximate K there, with K from the law's nodes; any order if there are no nodes.
    fn order_by_nodes(&mut self, bound: impl Fn(f64, f64) -> f64) -> f64 {
        let Ok(moments) = self.moments() else {
            // The bound holds at any order.
            return 2.0;
        };
        let rough = |t: f64| {
            let c = 1.0 + t.exp();
            bound(c, moments.at(c).value)
        };
        1.0 + minimiser(rough, -7.0, 9.0).exp()
    }

    /// As [`Solver::renyi_epsilon`], for losses that only the grid can handle.
    pub(crate) fn grid_renyi_epsilon(&mut self, ln_delta: f64) -> Result<(f64, f64)> {
        if let Some((before, found)) = self.by_moments
            && before.to_bits() == ln_delta.to_bits()
        {
            return Ok(found);
        }
        let at = |c: f64, ln: f64| (ln + Kernel::Excess.ln_chernoff(c) - ln_delta) / (c - 1.0);
        let (bound, c) = self.least_by_moments(at)?;
        let found = (above_zero(bound), c);
        self.by_moments = Some((ln_delta, found));
        Ok(found)
    }

    /// Returns the least value of `bound`, a function of the order and of an upper end of K there
    /// that holds at any order, together with that order. If losses have a largest value, the best
    /// order may lie beyond what can be certified; lower ones are then tried until they give no
    /// improvement.
    ///
    /// # Errors
    /// Returns [`crate::Error::NotCertified`] if no order can be certified.
    pub(crate) fn least_by_moments(
        &mut self,
        bound: impl Fn(f64, f64) -> f64,
    ) -> Result<(f64, f64)> {
        if self.loss.is_stated() {
            return self.loss.least_of_stated(bound);
        }
        let mut less = self.order_by_nodes(&bound) - 1.0;
        let mut best: Option<(f64, f64)> = None;
        let mut failure = None;
        let mut charts = Charts::default();
        loop {
            let order = 1.0 + less;
            match self.loss.ln_moment_charted(order, &mut charts) {
                Ok((lower, upper)) if upper.is_finite() => {
                    let value = bound(order, upper);
                    if best.is_some_and(|(least, _)| value >= least) {
                        break;
                    }
                    best = Some((value, order));
                    if upper - lower <= ACCURACY * upper {
                        break;
                    }
                }
                Ok(_) => {}
                Err(error) => failure = Some(error),
            }
            less *= LOWER;
            // For very many steps, the first order is already lower than that.
            if less <= LEAST_ORDER {
                break;
            }
        }
        best.ok_or_else(|| failure.unwrap_or_else(CumulantFunction::out_of_reach))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::{Direction, Query};
    use crate::mechanism::Mechanism;
    use crate::quantity::neighbours::Neighbours;
    use crate::quantity::{NoiseMultiplier, SamplingRate, Steps};

    /// K at lower orders, by the chart of a higher one and by their own.
    #[test]
    fn the_chart_of_a_higher_order_serves_lower_ones() {
        let run = Mechanism::dp_sgd(
            NoiseMultiplier::new(0.8).unwrap(),
            SamplingRate::new(0.02).unwrap(),
            Steps::new(500),
        );
        let query = Query::single(Neighbours::Replace);
        let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
        let mut charts = Charts::default();
        for order in [12.0, 7.0, 3.5, 1.2, 9.0] {
            let (low, high) = loss.ln_moment_charted(order, &mut charts).unwrap();
            let (least, most) = loss.ln_moment(order).unwrap();
            assert!(low <= most && least <= high, "{order}");
            assert!(high - low <= 1e-6 * high, "{order} {low} {high}");
        }
        // None was made for the lower orders.
        assert!(charts.latest.is_some_and(|chart| chart.highest >= 12.0));
    }

    /// Below order 2 every chart is the one up to 2: a run that has none there took as long at each of 30 orders.
    #[test]
    fn a_chart_that_could_not_be_made_is_not_tried_again() {
        let run = Mechanism::dp_sgd(
            NoiseMultiplier::new(0.8).unwrap(),
            SamplingRate::new(0.02).unwrap(),
            Steps::new(500),
        );
        let query = Query::single(Neighbours::Replace);
        let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
        let mut charts = Charts {
            latest: None,
            refused: Some((2.0, CumulantFunction::out_of_reach())),
        };
        for order in [1.9, 1.5, 1.001] {
            assert!(loss.ln_moment_charted(order, &mut charts).is_err());
        }
        // Another one is.
        loss.ln_moment_charted(3.0, &mut charts).unwrap();
        loss.ln_moment_charted(1.5, &mut charts).unwrap();
    }
}

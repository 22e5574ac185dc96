//! Computes the points of a curve.

use super::args::Curve;
use super::{CurveKind, CurvePoint, Points, over};
use crate::account::calibrate::numbered;
use crate::account::plan::{Source, neighbours_of};
use crate::contract::{Envelope, Number};
use anyhow::{Context, Result, bail};
use reticent_accounting::rdp::RdpCurve;
use reticent_accounting::trade_off::true_positive_rate;
use reticent_accounting::{
    Bounds, Delta, Epsilon, GroupSize, Mechanism, Order, Plan, PrivacyLoss, Probability, Query,
    Tolerance, UnitName,
    pld::{Answer, Engine, Looseness, losses},
};

/// A point whose ends are farther apart than this many times the tolerance took all grids that it may: further points
/// take fewer.
const MISSED: f64 = 10.0;

/// Computes the curve.
///
/// # Errors
/// Returns an error if arguments are out of range or points can't be certified.
pub(crate) fn curve(wish: &Curve) -> Result<Envelope<Points>> {
    if let Some(axis) = wish.over {
        return over::curve(wish, axis);
    }
    let kind = wish.what;
    let neighbours = neighbours_of(wish.neighbours, wish.run.schedule.sampler);
    let source = Source::of_records(&wish.run, neighbours)?;
    let tolerance = wish.tolerance.unwrap_or(Tolerance::DEFAULT);
    let group = wish.group.unwrap_or(GroupSize::ONE);
    let neighbours = match kind {
        // Guesses of a secret are compared with a reference that depends on the run.
        CurveKind::BlowUp => {
            let reference = PrivacyLoss::of_guesses(&source.mechanism, group)?.1;
            if let Some(other) = wish.neighbours.filter(|other| *other != reference) {
                bail!("--neighbours: the posterior is for {reference}, got {other}");
            }
            reference
        }
        _ => neighbours,
    };
    let inputs = source
        .inputs
        .given("what", kind)?
        .or_assumed("neighbours", wish.neighbours, neighbours)?
        .given("unit", source.unit)?
        .or_assumed("tolerance", wish.tolerance, tolerance)?
        .given("group", wish.group)?;
    let line = Line {
        mechanism: &source.mechanism,
        query: Query::new(neighbours, group),
        tolerance,
    };
    let mut at = if wish.at.is_empty() {
        line.default(kind, wish.points)?
    } else {
        wish.at.clone()
    };
    at.sort_by(f64::total_cmp);
    at.dedup_by(|a, b| a.to_bits() == b.to_bits());
    let flag = if wish.at.is_empty() { "--what" } else { "--at" };
    let (values, engine) = line.values(kind, &at).context(flag)?;
    let points = points(at, values);
    let body = Points {
        curve: kind,
        neighbours,
        group,
        delta: None,
        engine,
        points,
        base: source.run.base(),
        mechanism: source.mechanism,
    };
    Ok(Envelope::new("curve", inputs, body))
}

fn points(at: Vec<f64>, values: Vec<Bounds<Number>>) -> Vec<CurvePoint> {
    let each = at.into_iter().zip(values);
    let each = each.map(|(at, value)| CurvePoint {
        at: Number(at),
        value,
    });
    each.collect()
}

/// What a curve is drawn for.
pub(super) struct Line<'a> {
    pub(super) mechanism: &'a Mechanism,
    pub(super) query: Query,
    pub(super) tolerance: Tolerance,
}

type Values = (Vec<Bounds<Number>>, Option<Engine>);
/// The ends of a point, the engine, and why the ends are apart.
type Point = (Bounds<Number>, Option<Engine>, Option<Looseness>);

/// Returns the question that is asked at each point.
pub(super) fn question(
    mechanism: &Mechanism,
    query: Query,
    tolerance: Tolerance,
    delta: Delta,
) -> Result<Plan> {
    // The bounds at a point don't depend on what one record is.
    let unit = UnitName::new(crate::plan::UNIT)?;
    Ok(Plan {
        neighbours: query.neighbours,
        group: query.group,
        tolerance,
        ..Plan::new(mechanism.clone(), unit, delta)
    })
}

fn point(answer: Answer<Probability>) -> Point {
    let bounds = numbered(answer.bounds);
    (bounds, Some(answer.engine), answer.looseness)
}

/// Returns the coarser of two engines; if a point has none, the other.
pub(super) fn coarser(before: Option<Engine>, this: Option<Engine>) -> Option<Engine> {
    match (before, this) {
        (Some(before), Some(this)) => Some(before.coarser(this)),
        (before, this) => before.or(this),
    }
}

impl Line<'_> {
    fn values(&self, kind: CurveKind, at: &[f64]) -> Result<Values> {
        match kind {
            CurveKind::Profile => self.each(at, Epsilon::new, |epsilon, modest| {
                self.delta(epsilon, modest)
            }),
            CurveKind::Epsilon => {
                self.each(at, Delta::new, |delta, modest| self.epsilon(delta, modest))
            }
            CurveKind::TradeOff => self.each(at, Probability::new, |rate, _| {
                let answer = true_positive_rate(self.mechanism, self.query, rate, self.tolerance)?;
                Ok(point(answer))
            }),
            CurveKind::Renyi => self.renyi(at),
            CurveKind::Sigma | CurveKind::SampleRate | CurveKind::Steps | CurveKind::Gamma => {
                bail!("--over: the run varies along this curve")
            }
            CurveKind::BlowUp => {
                let loss = PrivacyLoss::of_guesses(self.mechanism, self.query.group)?.0;
                let modest_loss = loss.clone().modestly();
                self.each(at, Probability::new, |prior, modest| {
                    let loss = if modest { &modest_loss } else { &loss };
                    Ok(point(loss.blow_up(prior, self.tolerance)?))
                })
            }
        }
    }

    fn each<T>(
        &self,
        at: &[f64],
        make: impl Fn(f64) -> reticent_accounting::Result<T>,
        ask: impl Fn(T, bool) -> Result<Point>,
    ) -> Result<Values> {
        let mut coarsest: Option<Engine> = None;
        let mut values = Vec::with_capacity(at.len());
        let mut modest = false;
        for x in at {
            let (bounds, engine, looseness) = ask(make(*x)?, modest)?;
            modest |= self.misses(bounds, looseness);
            coarsest = coarser(coarsest, engine);
            values.push(bounds);
        }
        Ok((values, coarsest))
    }

    /// Returns whether the ends are far apart for want of precision alone.
    fn misses(&self, bounds: Bounds<Number>, looseness: Option<Looseness>) -> bool {
        let known = matches!(
            looseness,
            Some(Looseness::Precision | Looseness::OutOfReach)
        );
        let low = bounds.lower.map_or(0.0, |end| end.get().0);
        let high = bounds.upper.map_or(0.0, |end| end.get().0);
        known && high - low > MISSED * self.tolerance.get() * high
    }

    /// Returns δ of the larger direction; for a group, as the plan states it.
    fn delta(&self, epsilon: Epsilon, modest: bool) -> Result<Point> {
        // For a question at an ε, the plan's own δ doesn't matter.
        let plan = question(self.mechanism, self.query, self.tolerance, Delta::new(0.0)?)?;
        let row = Plan { modest, ..plan }.exactly_at(epsilon)?;
        let bounds = row.delta_bounds.unwrap_or(Bounds::UNKNOWN);
        Ok((numbered(bounds), row.engine, row.looseness))
    }

    /// Returns ε at a δ in the same way.
    pub(super) fn epsilon(&self, delta: Delta, modest: bool) -> Result<Point> {
        let plan = question(self.mechanism, self.query, self.tolerance, delta)?;
        let row = Plan { modest, ..plan }.exactly()?;
        let bounds = row.epsilon.unwrap_or(Bounds::UNKNOWN);
        Ok((numbered(bounds), row.engine, row.looseness))
    }

    fn renyi(&self, at: &[f64]) -> Result<Values> {
        let orders = at
            .iter()
            .map(|order| Order::new(*order))
            .collect::<Result<Vec<_>, _>>()?;
        let mut worst: Vec<(f64, f64)> = vec![(0.0, 0.0); at.len()];
        for loss in losses(self.mechanism, self.query)? {
            for (most, ends) in worst.iter_mut().zip(RdpCurve::bounds(&loss, &orders)?) {
                most.0 = most.0.max(ends.low().unwrap_or(0.0));
                most.1 = most.1.max(ends.high().unwrap_or(f64::INFINITY));
            }
        }
        let ends = |(low, high)| Bounds::between(Number(low), Number(high));
        Ok((worst.into_iter().map(ends).collect(), None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reticent_accounting::Neighbours;
    use std::cell::RefCell;

    /// Points behind one that is far apart take fewer grids.
    #[test]
    fn a_point_that_misses_makes_the_others_modest() {
        let mechanism = Mechanism::Sequence { parts: Vec::new() };
        let line = Line {
            mechanism: &mechanism,
            query: Query::single(Neighbours::AddRemove),
            tolerance: Tolerance::DEFAULT,
        };
        let flags = RefCell::new(Vec::new());
        let ask = |epsilon: Epsilon, modest: bool| {
            flags.borrow_mut().push(modest);
            let upper = Number(if epsilon.get() > 1.5 { 1.5 } else { 1.0 });
            let ends = Bounds::between(Number(1.0), upper);
            Ok((ends, None, Some(Looseness::Precision)))
        };
        line.each(&[1.0, 2.0, 3.0, 1.0], Epsilon::new, ask).unwrap();
        assert_eq!(flags.into_inner(), [false, false, true, true]);
    }
}

//! Searches for a parameter: first for a bracket, then by interpolation inside it.

use super::Calibration;
use super::target::{Margin, ROUGH};
use crate::quantity::Tolerance;
use crate::quantity::error::{Error, Result};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// The largest factor between two values during the search for a bracket.
const STRIDE: f64 = 16.0;

/// Whole numbers are distinguished to this share of the tolerance.
const BLUR: f64 = 1e-3;

/// An upper end that is this many goals too high isn't so for lack of precision.
const WIDE: f64 = 4.0;

/// Goals up to this many times the finest one are as much work as that.
const NEARLY_FINE: f64 = 10.0;

/// The precision at which margins are certified: rough at first, fine near zero.
#[derive(Debug, Clone, Copy)]
struct Goals {
    rough: f64,
    fine: f64,
}

impl Goals {
    /// Returns goals for a quantity that changes at least about as fast as the parameter.
    const fn quick(tolerance: f64) -> Self {
        Self {
            rough: ROUGH,
            fine: tolerance,
        }
    }

    /// Returns goals that always equal the tolerance that the caller will use.
    const fn steady(tolerance: f64) -> Self {
        Self {
            rough: tolerance,
            fine: tolerance,
        }
    }

    fn at_most(self, rough: f64) -> Self {
        Self {
            rough: self.rough.min(rough),
            ..self
        }
    }
}

/// A value of the (signed, logarithmic) parameter and its margin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trial {
    pub(crate) x: f64,
    /// The value for interpolation; its sign says whether the promise is certified.
    pub(crate) margin: f64,
}

/// Certifies at the rough goal first, and at finer ones if the promise lies within the rough ends. Once that was
/// `in_vain`, certifies only finely: ends that stay apart at the finest goal, or at any goal, needn't be evaluated at
/// every goal.
fn decide(
    ask: impl Fn(Tolerance) -> Result<Margin>,
    goals: Goals,
    in_vain: &Cell<bool>,
) -> Result<f64> {
    let fine = goals.fine.clamp(1e-12, 0.5);
    let rough = goals.rough.clamp(fine, 0.5);
    let mut goal = if in_vain.get() || rough <= NEARLY_FINE * fine {
        fine
    } else {
        rough
    };
    let mut before = f64::INFINITY;
    loop {
        let margin = ask(Tolerance::new(goal)?)?;
        let width = margin.upper - margin.lower;
        let wide = width > WIDE * goal && !margin.only_above;
        if wide && (width > 0.5 * before || goal <= fine) {
            in_vain.set(true);
        }
        // The middle interpolates better, but is meaningless if the ends are far apart.
        let value = if wide { margin.upper } else { middle(margin) };
        if margin.upper <= 0.0 {
            // The value must keep its sign.
            return Ok(value.min(0.0));
        }
        // For a run that is only bounded, the upper end is certified to the goal or not at all.
        let surely = margin.lower > 0.0 || margin.only_above && margin.upper > WIDE * goal;
        if surely || goal <= fine {
            return Ok(value.max(f64::MIN_POSITIVE));
        }
        before = width;
        goal = (goal * ROUGH).max(fine);
    }
}

/// Returns `ask` with each answer computed only once.
fn once<X: Copy>(
    ask: impl Fn(X, Tolerance) -> Result<Margin>,
    key: impl Fn(X) -> u64,
) -> impl Fn(X, Tolerance) -> Result<Margin> {
    let known = RefCell::new(HashMap::new());
    move |x, goal| {
        let place = (key(x), goal.get().to_bits());
        let before = known.borrow().get(&place).copied();
        if let Some(margin) = before {
            return Ok(margin);
        }
        let margin = ask(x, goal)?;
        known.borrow_mut().insert(place, margin);
        Ok(margin)
    }
}

/// Returns the value at which the two ends meet at finer goals. The ends of runs that are only bounded never meet;
/// there, the upper end is what has to be zero.
fn middle(margin: Margin) -> f64 {
    if margin.lower.is_finite() && margin.upper.is_finite() && !margin.only_above {
        0.5 * (margin.lower + margin.upper)
    } else {
        margin.upper
    }
}

/// A parameter on a logarithmic scale.
pub(super) struct Continuous {
    pub(super) what: &'static str,
    pub(super) least: f64,
    pub(super) most: f64,
    pub(super) start: f64,
    pub(super) larger_is_safer: bool,
}

impl Continuous {
    /// Returns a bracket of relative width at most `tolerance`. Its answer also holds if it is evaluated with exactly
    /// that tolerance: a finer or coarser computation may certify less.
    pub(super) fn run<T>(
        &self,
        ask: impl Fn(f64, Tolerance) -> Result<Margin>,
        make: impl Fn(f64) -> Result<T>,
        tolerance: f64,
    ) -> Result<Calibration<T>> {
        let ask = once(ask, f64::to_bits);
        let mut found = self.search(&ask, Goals::quick(tolerance), tolerance)?;
        if ask(found.0, Tolerance::new(tolerance)?)?.upper > 0.0 {
            found = self.search(&ask, Goals::steady(tolerance), tolerance)?;
        }
        Ok(Calibration {
            answer: make(found.0)?,
            fails: found.1.map(make).transpose()?,
        })
    }

    /// Returns the safe value and the failing one. Internally, x = ±ln(parameter) grows towards safety.
    fn search(
        &self,
        ask: &impl Fn(f64, Tolerance) -> Result<Margin>,
        goals: Goals,
        tolerance: f64,
    ) -> Result<(f64, Option<f64>)> {
        let sign = if self.larger_is_safer { 1.0 } else { -1.0 };
        let value = |x: f64| (sign * x).exp().clamp(self.least, self.most);
        let (low, high) = if self.larger_is_safer {
            (self.least.ln(), self.most.ln())
        } else {
            (-self.most.ln(), -self.least.ln())
        };
        let in_vain = Cell::new(false);
        let at = |x: f64, rough: f64| -> Result<Trial> {
            let margin = decide(|goal| ask(value(x), goal), goals.at_most(rough), &in_vain)?;
            Ok(Trial { x, margin })
        };
        let (fails, safe) = self.bracket(&at, sign * self.start.ln(), low, high)?;
        let Some(fails) = fails else {
            return Ok((value(safe.x), None));
        };
        // Leaves room for the rounding of the exponential.
        let (fails, safe) = interpolate(&at, fails, safe, tolerance * (1.0 - 1e-3))?;
        Ok((value(safe.x), Some(value(fails.x))))
    }

    /// Finds a failing and a safe point with growing strides.
    fn bracket(
        &self,
        at: &impl Fn(f64, f64) -> Result<Trial>,
        start: f64,
        low: f64,
        high: f64,
    ) -> Result<(Option<Trial>, Trial)> {
        let mut here = at(start, ROUGH)?;
        let mut stride = std::f64::consts::LN_2;
        let upwards = here.margin > 0.0;
        loop {
            let x = if upwards {
                (here.x + stride).min(high)
            } else {
                (here.x - stride).max(low)
            };
            let next = at(x, ROUGH)?;
            match (upwards, next.margin > 0.0) {
                (true, false) => return Ok((Some(here), next)),
                (false, true) => return Ok((Some(next), here)),
                (true, true) if next.x >= high => return Err(self.none()),
                (false, false) if next.x <= low => return Ok((None, next)),
                _ => {}
            }
            stride = leap(here, next, stride);
            here = next;
        }
    }

    fn none(&self) -> Error {
        let end = if self.larger_is_safer {
            format!("up to {:e}", self.most)
        } else {
            format!("down to {:e}", self.least)
        };
        Error::NotMet {
            what: format!("{} {end}", self.what),
        }
    }
}

/// The next stride: a little beyond where the secant meets zero, at least a quarter of the last
/// one; twice the last one where the secant says nothing. Never longer than a factor of `STRIDE`.
fn leap(before: Trial, here: Trial, stride: f64) -> f64 {
    let slope = (here.margin - before.margin) / (here.x - before.x);
    let secant = 1.2 * (here.margin / slope).abs() + 1e-3;
    let longest = STRIDE.ln();
    if secant.is_finite() {
        secant.clamp(0.25 * stride, longest)
    } else {
        (2.0 * stride).min(longest)
    }
}

/// Narrows a bracket to `width` by inverse quadratic interpolation where that is sound, otherwise by bisection; the
/// last steps reach across the root by up to 0.45 of a width.
///
/// Source: Chandrupatla 1997.
pub(crate) fn interpolate(
    at: &impl Fn(f64, f64) -> Result<Trial>,
    fails: Trial,
    safe: Trial,
    width: f64,
) -> Result<(Trial, Trial)> {
    let (mut a, mut b) = (safe, fails);
    let mut share = secant_share(a, b);
    loop {
        let gap = (b.x - a.x).abs();
        if gap <= width {
            break;
        }
        let boundary = (0.45 * width / gap).min(0.5);
        let share_now = share.clamp(boundary, 1.0 - boundary);
        // Values for interpolation need a precision in proportion to the gap.
        let new = at(a.x + share_now * (b.x - a.x), 0.03 * gap)?;
        // `c` is the point that leaves the bracket.
        let c;
        if (new.margin > 0.0) == (a.margin > 0.0) {
            c = a;
        } else {
            c = b;
            b = a;
        }
        a = new;
        let xi = (a.x - b.x) / (c.x - b.x);
        let phi = (a.margin - b.margin) / (c.margin - b.margin);
        share = if phi.is_finite() && phi * phi < xi && (1.0 - phi) * (1.0 - phi) < 1.0 - xi {
            let first = a.margin / (b.margin - a.margin) * c.margin / (b.margin - c.margin);
            let second = (c.x - a.x) / (b.x - a.x) * a.margin / (c.margin - a.margin) * b.margin
                / (c.margin - b.margin);
            first + second
        } else {
            0.5
        };
        if !share.is_finite() {
            share = 0.5;
        }
    }
    Ok(if a.margin > 0.0 { (a, b) } else { (b, a) })
}

fn secant_share(a: Trial, b: Trial) -> f64 {
    let share = a.margin / (a.margin - b.margin);
    if share.is_finite() { share } else { 0.5 }
}

/// A whole number, from 1 on; smaller is safer.
pub(super) struct Whole {
    pub(super) what: &'static str,
    pub(super) most: u64,
    pub(super) start: u64,
}

impl Whole {
    /// Returns the last number that keeps the promise, and the next one unless it is out of range. The answer also
    /// holds if it is evaluated with exactly that tolerance.
    pub(super) fn run(
        &self,
        ask: impl Fn(u64, Tolerance) -> Result<Margin>,
        tolerance: f64,
    ) -> Result<(u64, Option<u64>)> {
        let ask = once(ask, |number| number);
        let found = self.search(&ask, Goals::quick(tolerance), tolerance)?;
        if ask(found.0, Tolerance::new(tolerance)?)?.upper > 0.0 {
            return self.search(&ask, Goals::steady(tolerance), tolerance);
        }
        Ok(found)
    }

    fn search(
        &self,
        ask: &impl Fn(u64, Tolerance) -> Result<Margin>,
        goals: Goals,
        tolerance: f64,
    ) -> Result<(u64, Option<u64>)> {
        let in_vain = Cell::new(false);
        let at = |n: u64, rough: f64| decide(|goal| ask(n, goal), goals.at_most(rough), &in_vain);
        let (mut safe, mut fails) = self.bracket(&|n| at(n, ROUGH))?;
        let Some(mut beyond) = fails.take() else {
            return Ok((safe.0, None));
        };
        let mut stuck = 0;
        // For numbers so large that one more is below all tolerance, neighbours needn't be distinguished.
        let blur = |n: u64| (BLUR * tolerance * n as f64) as u64;
        while beyond.0 - safe.0 > blur(safe.0).max(1) {
            let gap = beyond.0 - safe.0;
            let next = if stuck >= 1 {
                stuck = 0;
                safe.0 + gap / 2
            } else {
                between(safe, beyond)
            };
            let margin = at(next, 0.03 * (beyond.0 as f64 / safe.0 as f64).ln())?;
            if margin > 0.0 {
                beyond = (next, margin);
            } else {
                safe = (next, margin);
            }
            // If interpolation creeps along one side, bisection takes over.
            stuck = if beyond.0 - safe.0 > gap / 2 {
                stuck + 1
            } else {
                0
            };
        }
        Ok((safe.0, Some(beyond.0)))
    }

    #[expect(clippy::type_complexity, reason = "a number with its margin, twice")]
    fn bracket(
        &self,
        at: &impl Fn(u64) -> Result<f64>,
    ) -> Result<((u64, f64), Option<(u64, f64)>)> {
        let start = self.start.min(self.most);
        let mut here = (start, at(start)?);
        let mut factor = 2.0;
        let upwards = here.1 <= 0.0;
        loop {
            if upwards && here.0 >= self.most {
                return Ok((here, None));
            }
            if !upwards && here.0 <= 1 {
                return Err(Error::NotMet {
                    what: self.what.to_owned(),
                });
            }
            let n = here.0 as f64;
            let number = if upwards {
                ((n * factor) as u64).clamp(here.0 + 1, self.most)
            } else {
                ((n / factor) as u64).clamp(1, here.0 - 1)
            };
            let next = (number, at(number)?);
            match (upwards, next.1 > 0.0) {
                (true, true) => return Ok((here, Some(next))),
                (false, false) => return Ok((next, Some(here))),
                _ => {}
            }
            let point = |p: (u64, f64)| Trial {
                x: (p.0 as f64).ln(),
                margin: p.1,
            };
            factor = leap(point(here), point(next), factor.ln()).exp().max(1.1);
            here = next;
        }
    }
}

/// Returns a number strictly between the two, where the secant in ln n meets zero.
fn between(safe: (u64, f64), beyond: (u64, f64)) -> u64 {
    let share = safe.1 / (safe.1 - beyond.1);
    let share = if share.is_finite() { share } else { 0.5 };
    let (low, high) = ((safe.0 as f64).ln(), (beyond.0 as f64).ln());
    let number = (low + share * (high - low)).exp().round() as u64;
    number.clamp(safe.0 + 1, beyond.0 - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends two apart whatever is asked: the upper one decides, and is found in few questions.
    #[test]
    fn ends_that_stay_apart_end_the_search_soon() {
        let calls = Cell::new(0);
        let known = RefCell::new(HashMap::new());
        let ask = |x: f64, goal: Tolerance| {
            calls.set(calls.get() + 1);
            let before = known
                .borrow_mut()
                .insert((x.to_bits(), goal.get().to_bits()), ());
            assert!(before.is_none(), "{x} asked twice");
            // Falls as noise grows: the upper end is zero at x = 3.
            let upper = 5.0 * (3.0 / x).ln() + 0.2 * (3.0 - x);
            Ok(Margin {
                lower: upper - 2.0,
                upper,
                only_above: false,
            })
        };
        let search = Continuous {
            what: "noise",
            least: 1e-3,
            most: 1e7,
            start: 100.0,
            larger_is_safer: true,
        };
        let found = search.run(ask, Ok, 1e-6).unwrap();
        assert!(
            (3.0..=3.0 * (1.0 + 1e-6)).contains(&found.answer),
            "{found:?}"
        );
        assert!(found.fails.unwrap() < 3.0);
        assert!(calls.get() <= 24, "{}", calls.get());
    }
}

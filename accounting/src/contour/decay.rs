//! How fast the characteristic function of the tilted loss decays, bounded from above.
//!
//! Two bounds, each useless where the other works. Where phases are large, the line of
//! integration is bent into the complex plane. Where they are small but the steps are many,
//! |φ(y)|² = 1 − E[1 − cos y(L − L')] loses what a window of losses contributes.

use super::chart::{Chart, Slopes};
use super::strip::arcsine;

impl Slopes {
    /// A lower bound on arg M₊(x+ib) − arg M₋(x+ib).
    fn turn(&self, b: f64) -> f64 {
        let square = b * b;
        b * (self.plus_mean.0 + self.minus_mean.0)
            - arcsine(0.5 * square * self.plus_variance)
            - arcsine(0.5 * square * self.minus_variance)
    }
}

impl Chart {
    /// A bound on |φ(c + iy')|/φ(c) for every |y'| ≥ y, given ln φ(c).
    ///
    /// The line of integration is bent to x + ib(x), b chosen per cell and changing slowly:
    /// the integrand turns by y times the change of the argument of M₊/M₋, which decays.
    pub(crate) fn bent_decay(&self, c: f64, ln_moment: f64, y: f64) -> f64 {
        let mut best: f64 = 1.0;
        for (least_turn, steepness) in [(0.05, 0.35), (0.3, 1.0)] {
            let path = self.path(c, y, least_turn, steepness);
            best = best.min(self.bent_decay_along(c, ln_moment, y, &path));
        }
        best
    }

    /// Heights b ≥ 0 at the edges: per cell near the best b of −ybE + b²(yV + V' + 1)/2 with V'
    /// what the modulus of M₋ costs, zero where nothing is to be gained, changing by at most
    /// `steepness` per unit.
    fn path(&self, c: f64, y: f64, least_turn: f64, steepness: f64) -> Vec<f64> {
        let cost = |slopes: &Slopes| 1.0 + (c - 1.0).max(0.0) * slopes.minus_variance;
        let wish = |slopes: &Slopes| {
            let mean = y * (slopes.plus_mean.0 + slopes.minus_mean.0);
            let variance = y * (slopes.plus_variance + slopes.minus_variance);
            let best = mean / (cost(slopes) + variance);
            if mean < least_turn {
                0.0
            } else {
                best.min(slopes.height())
            }
        };
        // Beyond the ends nothing is gained: leave the axis only as far as costs little.
        let end = |slopes: Slopes| slopes.height().min((15.0 / cost(&slopes)).sqrt());
        let mut path = vec![f64::INFINITY; self.edges.len()];
        for (index, cell) in self.cells.iter().enumerate() {
            let height = wish(&cell.slopes);
            path[index] = path[index].min(height);
            path[index + 1] = path[index + 1].min(height);
        }
        let last = path.len() - 1;
        path[0] = path[0].min(end(self.slopes_beyond(-1.0)));
        path[last] = path[last].min(end(self.slopes_beyond(1.0)));
        for i in 1..=last {
            path[i] = path[i].min(path[i - 1] + steepness * self.cells[i - 1].width());
        }
        for i in (0..last).rev() {
            path[i] = path[i].min(path[i + 1] + steepness * self.cells[i].width());
        }
        path
    }

    fn bent_decay_along(&self, c: f64, ln_moment: f64, y: f64, path: &[f64]) -> f64 {
        let mut total = 1.0;
        for (cell, ends) in self.cells.iter().zip(path.windows(2)) {
            let (low, high) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
            if high <= 0.0 {
                continue;
            }
            // b ↦ turn(b) is concave, so its least value is at an end; where it is negative
            // the bound would not hold for larger y.
            let turn = cell.slopes.turn(low).min(cell.slopes.turn(high));
            if turn < 0.0 {
                return 1.0;
            }
            let slope = (high - low) / cell.width();
            let exponent = 0.5 * high * high - y * turn + cell.slopes.ln_shrinkage(c, high);
            let change = exponent.exp() * slope.hypot(1.0) - 1.0;
            let swing = if change > 0.0 {
                cell.swing(c)
            } else {
                -cell.swing(c)
            };
            let mass = (cell.middle.ln_density(c) - ln_moment + swing).exp() * cell.width();
            total += mass * change;
        }
        for (edge, sign) in [(0, -1.0), (self.edges.len() - 1, 1.0)] {
            let b = path[edge];
            let growth = 0.5 * b * b + self.slopes_beyond(sign).ln_shrinkage(c, b);
            total += (self.ln_tail(edge, c, sign) - ln_moment + growth).exp();
        }
        total.clamp(0.0, 1.0)
    }

    /// A bound on |φ(c + iy)|/φ(c) for y in [`low`, `high`], given ln φ(c).
    ///
    /// For L, L' independent, 1 − |φ|² = E[1 − cos y(L − L')]. Both in a window of width
    /// Z/`high` they contribute at least (sin(Z/2)/(Z/2))² y²/2 · (L − L')², together
    /// that factor times y² · m · S: m the window's mass and S = ∫ (L − mean)² over it.
    pub(crate) fn window_decay(&self, c: f64, ln_moment: f64, low: f64, high: f64) -> f64 {
        let mass: Vec<f64> = self
            .cells
            .iter()
            .map(|cell| {
                (cell.middle.ln_density(c) - ln_moment - cell.swing(c)).exp() * cell.width()
            })
            .collect();
        let loss: Vec<f64> = self
            .edges
            .iter()
            .map(|edge| edge.ln_plus - edge.ln_minus)
            .collect();
        let half: f64 = 0.5 * mass.iter().sum::<f64>();
        let mut below = 0.0;
        let centre = mass.iter().zip(&loss).find_map(|(m, l)| {
            below += m;
            (below >= half).then_some(*l)
        });
        let centre = centre.unwrap_or(loss[0]);
        let mut most: f64 = 0.0;
        for phase in [1.5, 3.0] {
            let reach = 0.5 * phase / high;
            let first = loss.partition_point(|l| *l < centre - reach);
            let last = loss.partition_point(|l| *l <= centre + reach);
            if last < first + 2 {
                continue;
            }
            let (cells, ends) = (&mass[first..last - 1], &loss[first..last]);
            let sine = f64::sin(0.5 * phase) / (0.5 * phase);
            let total: f64 = cells.iter().sum();
            most = most.max(sine * sine * low * low * total * least_scatter(cells, ends));
        }
        (1.0 - most).max(0.0).sqrt()
    }
}

/// A lower bound on min_m ∫ (L − m)² given the mass of each cell and the loss at its ends.
fn least_scatter(mass: &[f64], ends: &[f64]) -> f64 {
    // Distance of m from the cell's interval of losses; convex in m with this slope.
    let scatter = |m: f64| {
        mass.iter()
            .zip(ends.windows(2))
            .fold((0.0, 0.0), |(sum, slope), (w, l)| {
                let distance = if m < l[0] {
                    m - l[0]
                } else {
                    (m - l[1]).max(0.0)
                };
                (sum + w * distance * distance, slope + 2.0 * w * distance)
            })
    };
    let (mut low, mut high) = (ends[0], ends[ends.len() - 1]);
    for _ in 0..12 {
        let middle = 0.5 * (low + high);
        if scatter(middle).1 < 0.0 {
            low = middle
        } else {
            high = middle
        }
    }
    let (value, slope) = scatter(low);
    // The tangent at `low` bounds the minimum, which lies between the two.
    (value + slope.min(0.0) * (high - low)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contour::nodes::Nodes;
    use crate::pld::{Mixture, Pair};

    fn pairs() -> Vec<Pair> {
        let with = Mixture::binomial(1, 0.1, 1.0).unwrap();
        let small = Mixture::binomial(1, 0.01, 2.0).unwrap();
        let group = Mixture::binomial(7, 0.05, 0.6).unwrap();
        let none = Mixture::point(0.0).unwrap();
        vec![
            Pair {
                first: with.clone(),
                second: none.clone(),
            },
            Pair {
                first: none.clone(),
                second: with.clone(),
            },
            Pair {
                first: small,
                second: none,
            },
            Pair {
                first: with.clone(),
                second: with,
            },
            Pair {
                first: group.clone(),
                second: group,
            },
        ]
    }

    /// φ(c+iy) by a trapezoid rule far finer than needed.
    fn characteristic(pair: &Pair, c: f64, y: f64) -> (f64, f64) {
        let nodes = Nodes::new(pair, -20.0, 45.0, 1e-2).unwrap();
        nodes.transform(c, y)
    }

    #[test]
    fn decay_bounds_the_characteristic_function_from_there_on() {
        for pair in pairs() {
            let chart = Chart::new(&pair, 4.0, -70.0).unwrap();
            for c in [0.5, 1.5, 4.0] {
                let moment = characteristic(&pair, c, 0.0).0;
                for y in [1.0, 5.0, 20.0, 80.0] {
                    let bound = chart.bent_decay(c, moment.ln(), y);
                    for further in [1.0, 1.1, 1.5, 3.0] {
                        let (re, im) = characteristic(&pair, c, y * further);
                        let share = re.hypot(im) / moment;
                        assert!(
                            share <= bound + 1e-12,
                            "{share} > {bound} at c = {c}, y = {y}"
                        );
                    }
                }
                assert!(
                    chart.bent_decay(c, moment.ln(), 80.0) < 0.97,
                    "decay at c = {c}"
                );
            }
        }
    }

    #[test]
    fn the_window_bounds_the_characteristic_function_across_its_block() {
        for pair in pairs() {
            let chart = Chart::new(&pair, 4.0, -70.0).unwrap();
            for c in [0.5, 1.5, 4.0] {
                let moment = characteristic(&pair, c, 0.0).0;
                for y in [0.1, 0.5, 2.0, 20.0] {
                    let bound = chart.window_decay(c, moment.ln(), y, 1.25 * y);
                    for further in [1.0, 1.1, 1.25] {
                        let (re, im) = characteristic(&pair, c, y * further);
                        let share = re.hypot(im) / moment;
                        assert!(
                            share <= bound + 1e-12,
                            "{share} > {bound} at c = {c}, y = {y}"
                        );
                    }
                }
                assert!(chart.window_decay(c, moment.ln(), 0.5, 0.6) < 1.0 - 1e-7);
            }
        }
    }
}

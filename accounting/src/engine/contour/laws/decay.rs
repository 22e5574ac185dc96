//! The decay of the characteristic function of a law: by parts and by scanning it, or, under a mask, by
//! shifting the line of integration.

use super::{LossPartition, ROOM};
use crate::engine::contour::decay::least_scatter;
use crate::engine::contour::nodes::Nodes;
use crate::loss::Stretch;
use crate::numeric::special::{ROUND, above_zero, arcsine, half_ln_shrinkage};
use crate::quantity::error::Result;
use std::cell::Cell;

/// |φ|^T needn't be bounded below e to this.
const LN_ENOUGH: f64 = -90.0;
/// |φ| is scanned up to this many times the inverse of the spread of a density's losses.
const REACH: f64 = 40.0;
/// The same for components far apart, as a multiple of that.
const FARTHER: f64 = 30.0;
/// ln of the relative error of the nodes for a scan.
const LN_SCAN: f64 = -30.0;
/// Masses of larger relative errors than this show no decay.
const LEAST_KNOWN: f64 = 1e-6;
/// The number of halvings in the search for the middle of scattered losses.
const HALVINGS: usize = 30;
/// The most values in the scan of one block.
const MOST_VALUES: usize = 4000;
/// The most terms in all scans at one order, about half a second.
const MOST_TERMS: usize = 30_000_000;

/// Bounds on the transform of a masked law at one order, by a shift of the whole line of integration to
/// x + ib: a sum of lumps that turn by y times the change of the loss's imaginary part.
pub(crate) struct Shifted {
    /// Each stretch's tilted mass, the lower bound on its slope, and its variances.
    lumps: Vec<(f64, f64, (f64, f64))>,
    tail: f64,
    excess: f64,
    sharp: f64,
    highest: f64,
}

impl Shifted {
    /// Creates bounds for Gaussian mixtures at order c, given ln φ(c); `None` if masses aren't known
    /// accurately enough.
    pub(crate) fn new(
        partition: &LossPartition,
        nodes: &Nodes,
        c: f64,
        ln_moment: f64,
    ) -> Option<Self> {
        let mask = partition.mask?;
        let ordered = |piece: &crate::loss::Piece| {
            piece.first.range().0 >= 0.0 && piece.second.range().1 <= 0.0
        };
        if !partition.law.pieces.iter().all(ordered) {
            return None;
        }
        let masses = |stretch: &Stretch| -> f64 {
            let nodes = stretch
                .nodes
                .clone()
                .map(|j| nodes.tilted_mass(j, c, ln_moment).1);
            nodes.sum::<f64>() * (1.0 + ROOM)
        };
        let lump = |stretch: &Stretch| {
            let least = stretch.loss_slope().0;
            let least = least - 1e-9 * least.abs() - 64.0 * ROUND * (1.0 + partition.reach());
            (masses(stretch), least, stretch.variances)
        };
        let known = nodes.mass_error(c) < ROOM && partition.atoms == 0;
        known.then(|| Self {
            lumps: partition.stretches.iter().map(lump).collect(),
            tail: (partition.ln_tail(c) - ln_moment).exp(),
            excess: (c - 1.0).max(0.0),
            sharp: 1.0 + 1.0 / (mask.width * mask.width),
            // Neither sum has zeros, and both turn forwards, wherever the mean lies.
            highest: 0.9 / partition.reach(),
        })
    }

    /// Returns a bound on |B(c + iy')|/φ(c) for every |y'| ≥ y, at the best of several shifts.
    pub(crate) fn beyond(&self, y: f64) -> f64 {
        let best = self.shifts().map(|b| self.along(b, y));
        best.fold(f64::INFINITY, f64::min) * (1.0 + ROOM)
    }

    /// Returns the shifts that are tried.
    pub(super) fn shifts(&self) -> impl Iterator<Item = f64> {
        (0..6).map(|power| self.highest * 0.6f64.powi(power))
    }

    /// Returns a bound on the integral of the modulus along the line shifted to x + ib, divided by
    /// φ(c), for every |y'| ≥ y: the integrand is at most e^{b²(1 + 1/w²)/2 − y'·turn} times as large
    /// there, with a turn of at least bL' − asin(b²V₊/2) − asin(b²V₋/2).
    pub(super) fn along(&self, b: f64, y: f64) -> f64 {
        let square = b * b;
        let grown = 0.5 * square * self.sharp;
        let of = |(mass, slope, (plus, minus)): &(f64, f64, (f64, f64))| {
            let turn = b * slope - arcsine(0.5 * square * plus) - arcsine(0.5 * square * minus);
            let shrunk = self.excess * half_ln_shrinkage(square * minus);
            // If it might turn backwards, not even the mass is a bound for larger y.
            if turn < 0.0 && *mass > 0.0 {
                return f64::INFINITY;
            }
            mass * (grown + shrunk - y * turn).exp()
        };
        let tail = self.tail * (grown + self.excess * half_ln_shrinkage(0.25 * 0.81)).exp();
        self.lumps.iter().map(of).sum::<f64>() + tail
    }
}

/// Bounds on one lump of a tilted law.
#[derive(Debug, Clone, Copy)]
struct Lump {
    /// The losses between which it lies.
    low: f64,
    high: f64,
    /// Its mass.
    mass: f64,
}

/// Bounds on the transform of one stretch of a tilted law, by parts: y times the modulus of ∫ f_c e^{iyL} over several
/// stretches that follow each other is at most u = f_c/L' at both ends plus the variation of u between them.
#[derive(Debug, Clone, Copy)]
struct Moving {
    /// Whether the stretch begins where the one before it ends, on the same piece.
    follows: bool,
    mass: f64,
    /// Bounds on |u| and on its variation; infinite if the loss may be constant somewhere.
    most: f64,
    variation: f64,
}

/// Bounds on |φ(c + iy)|/φ(c) for one law at one order c.
pub(crate) struct LossDecay {
    /// The lumps, in ascending order of loss.
    lumps: Vec<Lump>,
    centre: f64,
    /// The value below which bounds aren't needed.
    enough: f64,
    /// Tilted nodes that serve imaginary parts up to a largest one.
    scanned: Option<Scanned>,
    /// The tilted mass of atoms and beyond the cuts.
    still: f64,
    /// The stretches in order.
    moving: Vec<Moving>,
    /// Room for the relative errors of masses.
    room: f64,
}

impl LossDecay {
    /// Creates bounds at order c for a law with this number of steps (`times`), given ln φ(c) and the
    /// nodes of the partition.
    pub(crate) fn new(
        partition: &LossPartition,
        nodes: &Nodes,
        times: f64,
        (c, ln_moment): (f64, f64),
    ) -> Self {
        let atom = |j: usize| {
            let (loss, mass) = nodes.tilted_mass(j, c, ln_moment);
            let off = 4.0 * ROUND * loss.abs() + nodes.loss_error(j);
            Lump {
                low: loss - off,
                high: loss + off,
                mass,
            }
        };
        let mut lumps: Vec<Lump> = (0..partition.atoms).map(atom).collect();
        let still: f64 = lumps.iter().map(|lump| lump.mass).sum();
        let mut moving = Vec::with_capacity(partition.stretches.len());
        for stretch in &partition.stretches {
            let masses = stretch.nodes.clone();
            let mass: f64 = masses.map(|j| nodes.tilted_mass(j, c, ln_moment).1).sum();
            let off = ROOM * (stretch.loss.1 - stretch.loss.0).abs() + 1e-14 * stretch.loss.1.abs();
            lumps.push(Lump {
                low: stretch.loss.0 - off,
                high: stretch.loss.1 + off,
                mass,
            });
            moving.push(Moving::new(stretch, mass, (c, ln_moment)));
        }
        let off = nodes.mass_error(c);
        if off.is_nan() || off >= LEAST_KNOWN {
            // Masses that aren't known show no decay.
            (lumps, moving) = (Vec::new(), vec![Moving::STILL]);
        }
        lumps.sort_by(|a, b| a.low.total_cmp(&b.low));
        let half = 0.5 * lumps.iter().map(|lump| lump.mass).sum::<f64>();
        let mut below = 0.0;
        let middle = lumps.iter().find(|lump| {
            below += lump.mass;
            below >= half
        });
        let mut decay = Self {
            centre: middle.map_or(0.0, |lump| 0.5 * (lump.low + lump.high)),
            lumps,
            enough: (LN_ENOUGH / times).exp(),
            scanned: None,
            still: still + (partition.ln_error(c, ln_moment) - ln_moment).exp(),
            moving,
            room: if off < LEAST_KNOWN {
                off.max(ROOM)
            } else {
                LEAST_KNOWN
            },
        };
        let mut farthest = REACH / partition.swing(c, ln_moment);
        if partition.event.is_some() {
            // Components far apart vary far less than all of them together.
            let last = FARTHER * farthest;
            while farthest < last && decay.beyond(farthest) > decay.enough {
                farthest *= 1.5;
            }
        }
        decay.scanned = Scanned::new(partition, (c, ln_moment), farthest).ok();
        decay
    }

    /// Returns a bound for every |y'| ≥ y.
    pub(crate) fn beyond(&self, y: f64) -> f64 {
        // The least sum over all choices of stretches that are bounded by parts, each run of them together, while the
        // others are bounded by their mass: so far, with the last stretch among the latter or among the former.
        let (mut closed, mut open) = (0.0, f64::INFINITY);
        let mut end = 0.0;
        for stretch in &self.moving {
            let (most, variation) = (stretch.most / y, stretch.variation / y);
            closed = f64::min(closed, open + end);
            if !stretch.follows {
                open = f64::INFINITY;
            }
            open = f64::min(closed + most, open) + variation;
            closed += stretch.mass;
            end = most;
        }
        let left = f64::min(closed, open + end);
        ((self.still + left) * (1.0 + self.room)).clamp(0.0, 1.0)
    }

    /// Returns a bound for y in [`low`, `high`], as in [`super::decay::Decay::window`].
    pub(crate) fn window(&self, low: f64, high: f64) -> f64 {
        let mut most: f64 = 0.0;
        for phase in [1.5, 3.0] {
            let reach = 0.5 * phase / high;
            let (from, to) = (self.centre - reach, self.centre + reach);
            let inside = |lump: &&Lump| lump.low >= from && lump.high <= to;
            let inside = self.lumps.iter().filter(inside);
            let masses = inside.map(|lump| (lump.mass, (lump.low, lump.high)));
            let mass: f64 = masses.clone().map(|(mass, _)| mass).sum();
            let scatter = least_scatter(masses, (from, to), HALVINGS);
            let sine = f64::sin(0.5 * phase) / (0.5 * phase);
            most = most.max(sine * sine * low * low * mass * scatter);
        }
        let scattered = above_zero(1.0 - most * (1.0 - 4.0 * self.room)).sqrt();
        let scattered = scattered.min(self.beyond(low));
        match &self.scanned {
            Some(scanned) if scattered > self.enough && high <= scanned.farthest => {
                scattered.min(scanned.most(low, high, self.enough))
            }
            _ => scattered,
        }
    }
}

/// The tilted law's nodes for a scan of |φ|.
struct Scanned {
    farthest: f64,
    weight: Vec<f64>,
    /// Losses minus their mean.
    loss: Vec<f64>,
    /// E|L − mean|, the largest rate of change of φ.
    speed: f64,
    /// A bound on the error of a value.
    error: f64,
    /// The rest of [`MOST_TERMS`].
    terms: Cell<usize>,
}

impl Scanned {
    fn new(partition: &LossPartition, (c, ln_moment): (f64, f64), farthest: f64) -> Result<Self> {
        let (fine, nodes) = partition.along(c, farthest, LN_SCAN)?;
        let masses = (0..nodes.len()).map(|j| nodes.tilted_mass(j, c, ln_moment));
        let (mut loss, weight): (Vec<f64>, Vec<f64>) = masses.unzip();
        let mean: f64 = weight.iter().zip(&loss).map(|(w, l)| w * l).sum();
        for l in &mut loss {
            *l -= mean;
        }
        let speed: f64 = weight.iter().zip(&loss).map(|(w, l)| w * l.abs()).sum();
        let most = loss.iter().zip(&weight).filter(|(_, w)| **w > 0.0);
        let most = most.map(|(l, _)| l.abs()).fold(0.0, f64::max);
        let off = (fine.ln_error(c, ln_moment) - ln_moment).exp();
        let inexact = (0..nodes.len()).map(|j| nodes.loss_error(j));
        let inexact = inexact.fold(0.0, f64::max);
        let phases = farthest * (most * 8.0 * ROUND + inexact);
        let count = nodes.len() as f64;
        Ok(Self {
            farthest,
            weight,
            loss,
            speed: speed * (1.0 + ROOM) + 2.0 * off * most,
            error: 2.0 * off + 2.0 * nodes.mass_error(c) + phases + ROUND * (count + 8.0),
            terms: Cell::new(MOST_TERMS),
        })
    }

    /// Returns a bound on |φ| over [`low`, `high`], from values between which φ changes by no more than
    /// its speed allows; 1 if that takes too many values.
    fn most(&self, low: f64, high: f64, enough: f64) -> f64 {
        let mut most: f64 = 0.0;
        let mut y = low;
        for _ in 0..MOST_VALUES {
            let Some(left) = self.terms.get().checked_sub(self.loss.len()) else {
                return 1.0;
            };
            self.terms.set(left);
            let value = self.value(y) + self.error;
            // Within the step, |φ| may rise by half of its distance to 1, or up to what is enough, whichever is larger.
            let room = (0.5 * (1.0 - value)).max(enough - value);
            if room.is_nan() || room <= 4.0 * self.error {
                return 1.0;
            }
            most = most.max(value + room);
            y += room / self.speed;
            if y >= high {
                return most.min(1.0);
            }
        }
        1.0
    }

    fn value(&self, y: f64) -> f64 {
        let (mut re, mut im) = (0.0, 0.0);
        for (w, l) in self.weight.iter().zip(&self.loss) {
            let (sin, cos) = (y * l).sin_cos();
            re += w * cos;
            im += w * sin;
        }
        re.hypot(im)
    }
}

impl Moving {
    /// A law of which nothing is known.
    const STILL: Self = Self {
        follows: false,
        mass: 1.0,
        most: f64::INFINITY,
        variation: f64::INFINITY,
    };

    fn new(stretch: &Stretch, mass: f64, (c, ln_moment): (f64, f64)) -> Self {
        let (low, high) = stretch.loss_slope();
        let least = low - 1e-9 * high.abs() - 8.0 * ROUND;
        let follows = stretch.follows;
        if least.is_nan() || least <= 0.0 {
            return Self {
                follows,
                mass,
                ..Self::STILL
            };
        }
        let steep = stretch.steepness(c);
        let most = (stretch.ln_density(c) - ln_moment + steep * stretch.half).exp() / least;
        Self {
            follows,
            mass,
            most: most * (1.0 + ROOM),
            variation: most * (2.0 * stretch.half * steep + stretch.rise() / least) * (1.0 + ROOM),
        }
    }
}

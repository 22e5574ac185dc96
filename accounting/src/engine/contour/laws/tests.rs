use super::*;
use crate::compose::solver::Solver;
use crate::engine::contour::samples::pairs;
use crate::{
    Delta, Direction, Epsilon, Mechanism, Neighbours, NoiseMultiplier, PrivacyLoss, Query,
    Sampling, SamplingRate, Steps, Tolerance,
};

fn laplace(scale: f64, rate: f64) -> Mechanism {
    Mechanism::SubsampledLaplace {
        scale: NoiseMultiplier::new(scale).unwrap(),
        sampling_rate: SamplingRate::new(rate).unwrap(),
        sampling: Sampling::Poisson,
    }
}

fn gaussian(sigma: f64, rate: f64) -> Mechanism {
    Mechanism::SubsampledGaussian {
        noise_multiplier: NoiseMultiplier::new(sigma).unwrap(),
        sampling_rate: SamplingRate::new(rate).unwrap(),
        sampling: Sampling::Poisson,
    }
}

fn times(steps: u64, each: Mechanism) -> Mechanism {
    Mechanism::Repeat {
        times: Steps::new(steps),
        each: Box::new(each),
    }
}

fn loss(run: &Mechanism, neighbours: Neighbours, direction: Direction) -> PrivacyLoss {
    PrivacyLoss::of(run, Query::single(neighbours), direction).unwrap()
}

/// Σ over a fine midpoint rule of weight(x) q(x) e^{(c + iy) L(x)}, from two densities by their formulas.
fn transform(
    densities: impl Fn(f64) -> (f64, f64),
    weight: impl Fn(f64) -> f64,
    (c, y): (f64, f64),
) -> (f64, f64) {
    let (from, to, count) = (-20.0, 25.0, 400_000);
    let step = (to - from) / f64::from(count);
    let (mut re, mut im) = (0.0, 0.0);
    for i in 0..count {
        let x = from + (f64::from(i) + 0.5) * step;
        let (p, q) = densities(x);
        let l = (p / q).ln();
        let size = weight(x) * q * (c * l).exp() * step;
        re += size * (y * l).cos();
        im += size * (y * l).sin();
    }
    (re, im)
}

fn sampled_laplace(scale: f64, rate: f64) -> impl Fn(f64) -> (f64, f64) {
    move |x: f64| {
        let at = |k: f64| 0.5 * (-(x - k).abs()).exp();
        ((1.0 - rate) * at(0.0) + rate * at(1.0 / scale), at(0.0))
    }
}

fn sampled_gaussian(sigma: f64, rate: f64) -> impl Fn(f64) -> (f64, f64) {
    move |x: f64| {
        let at = |k: f64| (-0.5 * (x - k) * (x - k)).exp() / std::f64::consts::TAU.sqrt();
        ((1.0 - rate) * at(0.0) + rate * at(1.0 / sigma), at(0.0))
    }
}

#[test]
fn decay_bounds_the_characteristic_function_of_a_law() {
    for (scale, rate) in [(1.0, 0.3), (0.25, 0.5), (3.0, 0.05)] {
        let run = loss(
            &laplace(scale, rate),
            Neighbours::AddRemove,
            Direction::Remove,
        );
        let (law, _) = &run.laws[0];
        for c in [1.3, 3.0] {
            let (partition, nodes) = LossPartition::new(law, 4.0, 0.0, -40.0).unwrap();
            let ln_moment = nodes.moment(c).ln;
            let decay = LossDecay::new(&partition, &nodes, 1e4, (c, ln_moment));
            let truth = |y: f64| {
                let at = transform(sampled_laplace(scale, rate), |_| 1.0, (c, y));
                at.0.hypot(at.1) / ln_moment.exp()
            };
            assert!((truth(0.0) - 1.0).abs() < 1e-7, "{}", truth(0.0));
            for y in [1.0, 4.0, 30.0, 300.0] {
                let (bound, window) = (decay.beyond(y), decay.window(y, 1.2 * y));
                for further in [1.0, 1.1, 1.2, 1.9] {
                    let there = truth(y * further);
                    assert!(
                        there <= bound + 1e-7,
                        "{there} > {bound} at {y}, b {scale} q {rate}"
                    );
                    if further <= 1.2 {
                        assert!(
                            there <= window + 1e-7,
                            "{there} > {window} at {y}, b {scale} q {rate}"
                        );
                    }
                }
            }
            // Atoms stay, the rest goes.
            let far = decay.beyond(1e9);
            assert!(far < 1.0, "{far}");
            assert!(decay.window(4.0, 4.8) < 1.0);
        }
    }
}

/// Against a trapezoid rule far finer than needed, for components near and far, the error that is stated included: at
/// order 0 and from 1 on, the only orders that are served, and off the real axis.
#[test]
fn nodes_for_far_components_serve_order_zero_and_orders_from_one_on() {
    let far = |weights: &[(f64, f64)]| {
        let components = weights.iter().map(|(k, w)| (*k, w.ln())).collect();
        crate::loss::Mixture::new(components).unwrap()
    };
    let far = far(&[(0.0, 0.25), (5.0, 0.25), (6.5, 0.25), (14.0, 0.25)]);
    let none = crate::loss::Mixture::point(0.0).unwrap();
    let mut all = pairs();
    all.extend(
        [(&far, &none), (&none, &far), (&far, &far)].map(|(first, second)| Pair {
            first: first.clone(),
            second: second.clone(),
        }),
    );
    for pair in all {
        let (partition, nodes) = LossPartition::of_far_components(&pair, 1.5, 0.0, -40.0).unwrap();
        let truth = |c: f64, y: f64| crate::engine::contour::samples::characteristic(&pair, c, y);
        for c in [1.0, 1.001, 1.2, 1.5] {
            let moment = nodes.moment(c);
            let (size, error) = (truth(c, 0.0).0, partition.moment_error(c, moment.ln));
            assert!(error < 1e-15, "{pair:?} {c} {error}");
            let off = (moment.ln - size.ln()).abs();
            assert!(off < 1e-12 * size.ln().abs() + 1e-12, "{pair:?} {c} {off}");
            // Far from the real axis, with nodes of its own.
            let (fine, own) = partition.along(c, 3.0, -30.0).unwrap();
            assert!(fine.ln_error(c, moment.ln) - moment.ln < -29.0);
            for y in [0.4, 3.0] {
                let (re, im) = truth(c, y);
                let found = own.transform(c, y);
                let off = (found.0 - re).hypot(found.1 - im) / size;
                assert!(off < 1e-12, "{pair:?} {c} {y} {off}");
            }
            let decay = LossDecay::new(&partition, &nodes, 1e4, (c, moment.ln));
            for y in [0.2, 1.0, 6.0] {
                let (bound, window) = (decay.beyond(y), decay.window(y, 1.2 * y));
                for further in [1.0, 1.1, 1.2] {
                    let (re, im) = truth(c, y * further);
                    let share = re.hypot(im) / size;
                    assert!(
                        share <= bound.min(window) + 1e-12,
                        "{pair:?} {c} {y} {share}"
                    );
                }
            }
        }
        for c in [0.01, 0.5, 0.99] {
            assert!(!partition.serves(c) && partition.ln_error(c, 0.0) > 1e300);
        }
        let whole = nodes.ceiling(0.0);
        assert!((0.0..1e-9).contains(&whole), "{whole}");
    }
}

#[test]
fn shifting_the_line_bounds_the_loud_half() {
    for (sigma, rate, centre) in [(0.4, 1e-2, 2.5), (1.0, 0.3, 0.5)] {
        let run = loss(
            &gaussian(sigma, rate),
            Neighbours::AddRemove,
            Direction::Remove,
        );
        let law = LossDistribution::of_pair(&run.parts[0].0);
        let width = 0.35 * sigma;
        let mask = Mask {
            centre,
            width,
            upper: true,
            reach: 60.0,
        };
        for c in [1.5, 3.0] {
            let (partition, nodes) =
                LossPartition::masked(&law, (c, 0.0), -25.0, Some(mask)).unwrap();
            let shifted = Shifted::new(&partition, &nodes, c, 0.0).unwrap();
            let chance =
                |x: f64| 0.5 * libm::erfc(-(x - centre) / (width * std::f64::consts::SQRT_2));
            let truth = |y: f64| {
                let at = transform(sampled_gaussian(sigma, rate), chance, (c, y));
                at.0.hypot(at.1)
            };
            let whole = truth(0.0);
            for y in [1.0, 5.0, 20.0, 60.0] {
                let bound = shifted.beyond(y);
                for further in [1.0, 1.3, 2.0] {
                    let there = truth(y * further);
                    assert!(
                        there <= bound * (1.0 + 1e-9) + 1e-13 * whole,
                        "{there} > {bound} at {y}"
                    );
                }
            }
            assert!(
                shifted.beyond(60.0) < 0.2 * whole,
                "{}",
                shifted.beyond(60.0) / whole
            );
        }
    }
}

/// ∫ |f_{c+iy}(x + ib) Φ((x + ib − centre)/width)| dx by a midpoint rule, from the formulas of the densities;
/// Φ off the axis is the sum of its derivative on the way.
fn modulus_on_shifted_line(
    (sigma, rate): (f64, f64),
    (centre, width): (f64, f64),
    (c, y): (f64, f64),
    b: f64,
) -> f64 {
    let (from, to, count) = (-15.0, 25.0, 100_000);
    let step = (to - from) / f64::from(count);
    let density = |t: f64| (-0.5 * t * t).exp() / std::f64::consts::TAU.sqrt();
    let v = b / width;
    // The part of Φ up to the middle of the cell.
    let (mut re, mut im, mut total) = (0.0, 0.0, 0.0);
    for i in 0..count {
        let x = from + (f64::from(i) + 0.5) * step;
        let u = (x - centre) / width;
        let size = density(u) * (0.5 * v * v).exp() * step / width;
        let (sin, cos) = (u * v).sin_cos();
        let chance = (re + 0.5 * size * cos).hypot(im - 0.5 * size * sin);
        re += size * cos;
        im -= size * sin;
        // M₊ = 1 − q + q e^{κz − κ²/2}, M₋ = 1.
        let kappa = 1.0 / sigma;
        let ratio = rate * (kappa * x - 0.5 * kappa * kappa).exp();
        let (sin, cos) = (kappa * b).sin_cos();
        let (plus, turn) = (1.0 - rate + ratio * cos, ratio * sin);
        let modulus = (c * plus.hypot(turn).ln() - y * turn.atan2(plus)).exp();
        total += density(x) * (0.5 * b * b).exp() * modulus * chance * step;
    }
    total
}

/// On the shifted line itself, not after what it cancels, the bound is above the truth, and where the chance
/// is small, so that shifting costs it all that it may, not far above.
#[test]
fn the_bound_on_the_shifted_line_is_above_and_near() {
    for (sigma, rate, centre, near) in [
        (2.0, 0.3, 12.0, true),
        (0.4, 1e-2, 12.0, true),
        (2.0, 0.3, 2.0, false),
        (0.4, 1e-3, 2.5, false),
    ] {
        let run = loss(
            &gaussian(sigma, rate),
            Neighbours::AddRemove,
            Direction::Remove,
        );
        let law = LossDistribution::of_pair(&run.parts[0].0);
        let width = 0.35 * sigma;
        let mask = Mask {
            centre,
            width,
            upper: true,
            reach: 60.0,
        };
        for c in [1.5, 3.0] {
            let (partition, nodes) =
                LossPartition::masked(&law, (c, 0.0), -25.0, Some(mask)).unwrap();
            let shifted = Shifted::new(&partition, &nodes, c, 0.0).unwrap();
            for (power, b) in shifted.shifts().enumerate() {
                for y in [0.0, 1.0, 8.0] {
                    let bound = shifted.along(b, y);
                    let truth = modulus_on_shifted_line((sigma, rate), (centre, width), (c, y), b);
                    let said = format!("{truth:e} {bound:e}: σ {sigma}, c {c}, y {y}, b {b}");
                    assert!(truth <= bound * (1.0 + 1e-6), "{said}");
                    if near && y == 0.0 && power == 0 {
                        assert!(bound <= 4.0 * truth, "{said}");
                    }
                }
            }
        }
    }
}

/// mpmath, 30 digits: the inverse transform with K from 400 Gauss–Legendre nodes.
#[test]
fn long_runs_of_sampled_laplace_match_thirty_digits() {
    for (scale, rate, steps, direction, epsilon, delta) in [
        (
            1.0,
            0.01,
            1_000_000,
            Direction::Remove,
            81.415_047_627_665,
            9.999_999_999_986_347e-6,
        ),
        (
            1.0,
            0.01,
            1_000_000,
            Direction::Add,
            81.0,
            1.007_230_090_934_791_6e-5,
        ),
        (
            20.0,
            0.001,
            1_000_000_000,
            Direction::Remove,
            8.227_305_605_5,
            1.000_000_000_030_216_4e-6,
        ),
        (
            0.5,
            0.1,
            2000,
            Direction::Remove,
            76.251_558_543_2,
            9.999_999_999_673_568e-7,
        ),
        (
            100.0,
            0.01,
            100_000,
            Direction::Add,
            0.115_719_344_30,
            1.000_000_000_551_774e-6,
        ),
    ] {
        let run = loss(
            &times(steps, laplace(scale, rate)),
            Neighbours::AddRemove,
            direction,
        );
        let tolerance = Tolerance::new(1e-9).unwrap();
        let found = run
            .delta(Epsilon::new(epsilon).unwrap(), tolerance)
            .unwrap();
        let (low, high) = (
            found.bounds.lower.unwrap().get().get(),
            found.bounds.upper.unwrap().get().get(),
        );
        assert!(
            low <= delta * (1.0 + 1e-15) && delta <= high * (1.0 + 1e-15),
            "{low:e} {delta:e} {high:e}"
        );
        assert!(high - low <= 3e-8 * high, "{low:e} {high:e}");
        let found = run.epsilon(Delta::new(delta).unwrap(), tolerance).unwrap();
        let (low, high) = (
            found.bounds.lower.unwrap().get().get(),
            found.bounds.upper.unwrap().get().get(),
        );
        assert!(
            low <= epsilon * (1.0 + 1e-15) && epsilon <= high * (1.0 + 1e-15),
            "{low} {epsilon} {high}"
        );
        assert!(high - low <= 1e-9 * high, "{low} {high}");
    }
}

/// On one question each engine's lower end is below the other's upper end.
fn engines_agree(run: &Mechanism, neighbours: Neighbours, direction: Direction, width: f64) {
    let loss = loss(run, neighbours, direction);
    for ln_delta in [-3.0f64, -12.0, -40.0] {
        let mut solver = Solver::new(&loss);
        let epsilon = solver
            .moments()
            .unwrap()
            .tilt_for_delta(ln_delta)
            .1
            .max(0.01);
        let grid = solver.grid_ln_delta(epsilon, 1e-6).unwrap();
        let contour = solver.ln_delta_by_contour(epsilon, 1e-9);
        // What does not decay is left to the grid.
        let Some(contour) = contour else {
            assert!(
                width.is_infinite(),
                "at {epsilon}: {run:?} {neighbours} {direction:?}"
            );
            continue;
        };
        let said = format!("{contour:?} {grid:?} at {epsilon}: {run:?} {neighbours} {direction:?}");
        assert!(
            contour.lower <= grid.upper && grid.lower <= contour.upper,
            "{said}"
        );
        assert!(contour.width() <= width, "{said}");
    }
}

#[test]
fn the_contour_of_laws_agrees_with_the_grid() {
    let truncated = Mechanism::SubsampledGaussian {
        noise_multiplier: NoiseMultiplier::new(1.5).unwrap(),
        sampling_rate: SamplingRate::new(0.05).unwrap(),
        sampling: Sampling::TruncatedPoisson {
            max_batch: 12,
            records: 200,
        },
    };
    let fixed = Mechanism::SubsampledGaussian {
        noise_multiplier: NoiseMultiplier::new(1.2).unwrap(),
        sampling_rate: SamplingRate::new(0.1).unwrap(),
        sampling: Sampling::WithoutReplacement,
    };
    let leaking = Mechanism::ApproxDp {
        epsilon: Epsilon::new(0.1).unwrap(),
        delta: Delta::new(1e-7).unwrap(),
        neighbours: Neighbours::AddRemove,
    };
    let mixed = Mechanism::Sequence {
        parts: vec![
            times(300, laplace(2.0, 0.1)),
            times(5, leaking),
            times(200, gaussian(1.0, 0.05)),
        ],
    };
    for direction in Direction::BOTH {
        for neighbours in [Neighbours::AddRemove, Neighbours::Replace] {
            engines_agree(&times(400, laplace(1.0, 0.2)), neighbours, direction, 1e-8);
            engines_agree(
                &times(300, truncated.clone()),
                neighbours,
                direction,
                f64::INFINITY,
            );
        }
        engines_agree(
            &times(400, fixed.clone()),
            Neighbours::Replace,
            direction,
            1e-8,
        );
        engines_agree(&mixed, Neighbours::AddRemove, direction, 1e-8);
    }
}

#[test]
fn the_contour_of_few_steps_that_matter_agrees_with_the_grid() {
    for (sigma, rate, steps) in [(0.4, 1e-4, 1000), (0.5, 0.2, 3)] {
        let loss = loss(
            &times(steps, gaussian(sigma, rate)),
            Neighbours::AddRemove,
            Direction::Remove,
        );
        {
            let epsilon = 2.0;
            let mut solver = Solver::new(&loss);
            let grid = solver.grid_ln_delta(epsilon, 1e-6).unwrap();
            let contour = solver.ln_delta_by_contour(epsilon, 1e-5).unwrap();
            let said = format!("{contour:?} {grid:?} at {epsilon}: {sigma} {rate} {steps}");
            assert!(
                contour.lower <= grid.upper && grid.lower <= contour.upper,
                "{said}"
            );
            assert!(contour.width() <= 1e-4, "{said}");
        }
    }
}

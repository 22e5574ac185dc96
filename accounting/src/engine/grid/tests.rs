//! The grid engine against closed forms, the contour and brute force.

use super::convolution::{Convolution, Effort, Wanted};
use super::moments::{Moments, steps};
use crate::compose::solver::Solver;
use crate::loss::loss_grid::Cumulative;
use crate::loss::{Direction, LossDistribution, PrivacyLoss, Query};
use crate::numeric::interval::LnBounds;
use crate::quantity::GroupSize;
use crate::{Mechanism, Neighbours, NoiseMultiplier, Probability, Sampling, SamplingRate, Steps};
use proptest::prelude::*;

/// δ(ε) on a grid, aiming at `relative`.
fn delta(loss: &PrivacyLoss, epsilon: f64, relative: f64) -> LnBounds {
    let moments = Moments::new(steps(loss), -760.0).unwrap();
    let theta = moments.tilt(epsilon);
    let wanted = Wanted {
        theta,
        relative,
        ln_delta: -40.0,
        finer: 1.0,
        effort: Effort::Full,
    };
    Convolution::new(&moments, wanted).unwrap().value(epsilon)
}

fn loss(run: &Mechanism, neighbours: Neighbours, direction: Direction) -> PrivacyLoss {
    PrivacyLoss::of(run, Query::single(neighbours), direction).unwrap()
}

fn repeat(times: u64, each: Mechanism) -> Mechanism {
    Mechanism::Repeat {
        times: Steps::new(times),
        each: Box::new(each),
    }
}

#[test]
fn subsampled_gaussians_match_reference_values() {
    for (q, sigma, times, epsilon, expected, relative) in [
        (
            0.01,
            1.1,
            10_000u64,
            5.192_583_445_878,
            1.000_000_000_018_401_4e-5_f64,
            1e-4,
        ),
        (
            0.01,
            1.1,
            10_000,
            7.849_491_185_125,
            1.000_000_000_019_135_2e-10,
            1e-4,
        ),
        (0.1, 2.0, 50, 2.0, 4.498_624_841_818_42e-7, 1e-6),
    ] {
        let run = Mechanism::dp_sgd(
            NoiseMultiplier::new(sigma).unwrap(),
            SamplingRate::new(q).unwrap(),
            Steps::new(times),
        );
        let ends = delta(
            &loss(&run, Neighbours::AddRemove, Direction::Remove),
            epsilon,
            relative,
        );
        assert!(
            ends.lower <= expected.ln() && expected.ln() <= ends.upper,
            "{ends:?}"
        );
        assert!(ends.width() < 2.0 * relative, "{ends:?}");
    }
}

#[test]
fn randomised_response_composes_to_a_binomial() {
    for (truth, times, epsilon) in [(0.75f64, 10u32, 1.0), (0.6, 40, 2.0), (0.525, 400, 3.0)] {
        let run = repeat(
            u64::from(times),
            Mechanism::RandomisedResponse {
                truth: Probability::new(truth).unwrap(),
                categories: 2,
            },
        );
        let ends = delta(
            &loss(&run, Neighbours::Replace, Direction::Remove),
            epsilon,
            1e-9,
        );
        let each = (truth / (1.0 - truth)).ln();
        let mut expected = 0.0;
        for k in 0..=times {
            let ln =
                crate::numeric::special::ln_binomial_pmf(u64::from(k), u64::from(times), truth);
            let total = each * (2.0 * f64::from(k) - f64::from(times));
            if total > epsilon {
                expected += ln.exp() * -(epsilon - total).exp_m1();
            }
        }
        assert!(ends.lower <= expected.ln() && expected.ln() <= ends.upper);
        assert!(ends.width() < 1e-9);
    }
}

#[test]
fn laplace_composition_lies_between_its_brackets() {
    let scale = NoiseMultiplier::new(1.0).unwrap();
    for (run, neighbours) in [
        (
            repeat(20, Mechanism::Laplace { scale }),
            Neighbours::AddRemove,
        ),
        (
            repeat(
                1000,
                Mechanism::SubsampledLaplace {
                    scale,
                    sampling_rate: SamplingRate::new(0.01).unwrap(),
                    sampling: Sampling::Poisson,
                },
            ),
            Neighbours::AddRemove,
        ),
        (
            repeat(
                200,
                Mechanism::SubsampledLaplace {
                    scale,
                    sampling_rate: SamplingRate::new(0.05).unwrap(),
                    sampling: Sampling::WithoutReplacement,
                },
            ),
            Neighbours::Replace,
        ),
    ] {
        let ends = delta(&loss(&run, neighbours, Direction::Remove), 2.0, 1e-6);
        assert!(ends.width() < 2e-5, "{ends:?}");
    }
}

#[test]
fn one_step_is_exact() {
    // δ(ε) = 1 − e^{(ε − 1/b)/2} of one Laplace step.
    let run = Mechanism::Laplace {
        scale: NoiseMultiplier::new(1.0).unwrap(),
    };
    let loss = loss(&run, Neighbours::AddRemove, Direction::Remove);
    let (law, _): &(LossDistribution, u64) = &loss.laws[0];
    for epsilon in [-0.7f64, 0.0, 0.3, 0.999, 1.5] {
        let expected = -(0.5 * (epsilon - 1.0)).exp_m1().min(0.0);
        let ends = law.ln_delta(epsilon, -760.0).unwrap();
        assert!(
            ends.lower.exp() <= expected && expected <= ends.upper.exp(),
            "{epsilon}: {ends:?} {expected}"
        );
        assert!(ends.upper.exp() - ends.lower.exp() < 1e-13);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Engines A and B on the same question: each one's lower end is below the other's upper end.
    #[test]
    fn both_engines_agree(
        rate in 0.001f64..0.9, sigma in 0.5f64..6.0, times in 2u64..3000, group in 1u32..4, spot in 0.3f64..5.0,
        replace in any::<bool>(), add in any::<bool>(),
    ) {
        let run = Mechanism::dp_sgd(
            NoiseMultiplier::new(sigma).unwrap(),
            SamplingRate::new(rate).unwrap(),
            Steps::new(times),
        );
        let query = Query {
            neighbours: if replace { Neighbours::Replace } else { Neighbours::AddRemove },
            group: GroupSize::new(group).unwrap(),
        };
        let direction = if add { Direction::Add } else { Direction::Remove };
        let loss = PrivacyLoss::of(&run, query, direction).unwrap();
        let size = rate / sigma * (times as f64).sqrt() * f64::from(group);
        let epsilon = spot * size.min(4.0);
        let mut solver = Solver::new(&loss);
        let grid = solver.grid_ln_delta(epsilon, 1e-4).unwrap();
        let (other, engine) = solver.ln_delta(epsilon, 1e-8).unwrap();
        prop_assert!(grid.lower <= other.upper && other.lower <= grid.upper, "{grid:?} {other:?} {engine:?}");
        prop_assert!(grid.width() < 0.1 || grid.upper < -300.0, "{grid:?}");
    }

    /// Outcomes that no lines suit, moved to lines, at tolerances from coarse to fine: both ends
    /// against the double sum over binomials, whose own rounding is below 1e-12.
    #[test]
    fn outcomes_off_the_lines_are_made_up_for(
        one in 0.05f64..1.0, other in 0.05f64..1.0, times in 1u64..12, more in 1u64..12,
        spot in 0.0f64..0.8, decades in 2i32..7, slack in prop_oneof![Just(0.0), 1e-4f64..0.05],
    ) {
        let guarantee = |epsilon: f64, delta: f64| Mechanism::ApproxDp {
            epsilon: crate::Epsilon::new(epsilon).unwrap(),
            delta: crate::Delta::new(delta).unwrap(),
            neighbours: Neighbours::AddRemove,
        };
        let parts = vec![repeat(times, guarantee(one, 0.0)), repeat(more, guarantee(other, slack))];
        let loss = loss(&Mechanism::Sequence { parts }, Neighbours::AddRemove, Direction::Remove);
        let epsilon = spot * (one * times as f64 + other * more as f64);
        let outcomes = |each: f64, times: u64| {
            let likely = 1.0 / (1.0 + (-each).exp());
            let mass = move |k| crate::numeric::special::ln_binomial_pmf(k, times, likely).exp();
            (0..=times).map(move |k| (each * (2.0 * k as f64 - times as f64), mass(k)))
        };
        let finite = (1.0 - slack).powi(more as i32);
        let mut expected = 1.0 - finite;
        for (a, p) in outcomes(one, times) {
            for (b, q) in outcomes(other, more) {
                expected += finite * p * q * -(epsilon - a - b).exp_m1().min(0.0);
            }
        }
        let ends = delta(&loss, epsilon, 10f64.powi(-decades));
        let room = 1e-12 + 1e-15 / expected;
        prop_assert!(ends.lower <= expected.ln() + room && expected.ln() - room <= ends.upper, "{ends:?} {expected:e}");
    }
}

#[test]
fn the_top_of_the_loss_is_known_from_its_own_event() {
    // 50 pure steps of 0.1: at δ far below the chance of all at the top, ε is all but 5.
    let pure = Mechanism::PureDp {
        epsilon: crate::Epsilon::new(0.1).unwrap(),
        neighbours: Neighbours::AddRemove,
    };
    let loss = loss(&repeat(50, pure), Neighbours::AddRemove, Direction::Remove);
    let found = Solver::new(&loss).epsilon(1e-30, 1e-9).unwrap();
    assert!(
        found.upper <= 5.0 + 5e-9 && found.lower.unwrap() > 5.0 - 5e-9,
        "{found:?}"
    );
}

#[test]
fn the_transform_errs_less_than_its_bound() {
    // A point mass that comes up in half the steps, so that the law is a binomial: its entries
    // against the closed form, within the bound that is added.
    let pure = Mechanism::PureDp {
        epsilon: crate::Epsilon::new(0.5).unwrap(),
        neighbours: Neighbours::AddRemove,
    };
    for times in [3u64, 100, 5_000] {
        let loss = loss(
            &repeat(times, pure.clone()),
            Neighbours::AddRemove,
            Direction::Remove,
        );
        let epsilon = 0.3 * 0.5 * times as f64;
        let ends = delta(&loss, epsilon, 1e-9);
        let likely: f64 = 1.0 / (1.0 + (-0.5f64).exp());
        let mut expected = 0.0;
        for k in 0..=times {
            let total = 0.5 * (2.0 * k as f64 - times as f64);
            if total > epsilon {
                expected += crate::numeric::special::ln_binomial_pmf(k, times, likely).exp()
                    * -(epsilon - total).exp_m1();
            }
        }
        assert!(
            ends.lower <= expected.ln() + 1e-9 && expected.ln() - 1e-9 <= ends.upper,
            "{ends:?} {expected}"
        );
    }
}

#[test]
fn what_is_cut_off_counts_as_infinite_above_and_as_nothing_below() {
    // N(2, 1) against N(0, 1), cut hard enough to see.
    let law = LossDistribution::of_pair(&crate::loss::Pair::gaussian(2.0));
    let lines = crate::loss::loss_grid::Lines {
        origin: 0.0,
        spacing: 0.01,
    };
    let ln_cut = -4.0;
    let even = Cumulative {
        below: vec![(-100.0, 0.0), (100.0, 1.0)],
        whole: 1.0,
    };
    let loss_grid = crate::loss::loss_grid::LossGrid::new(
        lines,
        law.loss_range(ln_cut),
        &[(even, 0.0)],
        10_000,
    )
    .unwrap();
    let both = law.brackets(&loss_grid, ln_cut, 0.0).unwrap();
    // Beyond 2 ± √8 on both sides.
    let cut = libm::erfc(2.0);
    assert!(both.above.infinite >= cut && both.above.infinite < cut * 1.001);
    assert!(both.below.infinite <= 0.0);
    assert!((both.below.moment(1.0).0.exp() - (1.0 - cut)).abs() < 1e-9);
}

#[test]
fn atoms_on_lines_are_as_far_off_as_their_losses() {
    // Two outcomes whose losses are known to a thousandth only, both on lines.
    let mut law = loss(
        &Mechanism::PureDp {
            epsilon: crate::Epsilon::new(0.5).unwrap(),
            neighbours: Neighbours::AddRemove,
        },
        Neighbours::AddRemove,
        Direction::Remove,
    )
    .laws[0]
        .0
        .clone();
    for atom in law.atoms.listed() {
        atom.loss_error = 1e-3;
    }
    let loss = PrivacyLoss {
        laws: vec![(law, 3)],
        ..PrivacyLoss::default()
    };
    let ends = delta(&loss, 0.4, 1e-9);
    // Three losses of 0.5, each a thousandth more or less: P(all) = p³ and so on.
    let likely: f64 = 1.0 / (1.0 + (-0.5f64).exp());
    let at = |each: f64| {
        let second = likely * (-each).exp();
        let (rest, rest_second) = (1.0 - likely, (1.0 - likely) * each.exp());
        let gain = |p: f64, q: f64| (p - 0.4f64.exp() * q).max(0.0);
        gain(likely.powi(3), second.powi(3))
            + 3.0 * gain(likely * likely * rest, second * second * rest_second)
    };
    assert!(
        ends.lower < at(0.4991).ln() && at(0.5009).ln() < ends.upper,
        "{ends:?}"
    );
    assert!(ends.width() < 0.1, "{ends:?}");
}

/// Sixteen million steps that lose 1e4 each: every run loses far more than ε, and δ is one. The gains were
/// zero as numbers beside a front of e^68611, and the upper end e^−691.
#[test]
fn gains_that_vanish_as_numbers_still_count() {
    let run = repeat(
        16_231_573,
        Mechanism::DiscreteGaussian {
            sigma: NoiseMultiplier::new(0.605_460_134_332_026_3).unwrap(),
            sensitivity: 88,
        },
    );
    let loss = loss(&run, Neighbours::Replace, Direction::Add);
    for epsilon in [0.008, 1.0, 1e6] {
        let ends = Solver::new(&loss).grid_ln_delta(epsilon, 1e-6).unwrap();
        assert!(ends.upper >= -1e-9, "{epsilon} {ends:?}");
        let (ends, _) = Solver::new(&loss).ln_delta(epsilon, 1e-6).unwrap();
        assert!(
            ends.upper >= -1e-9 && ends.lower > -1e-6,
            "{epsilon} {ends:?}"
        );
    }
}

/// Grids are laid around a tilt, and searches read them elsewhere: where the window lies above ε, so does what it leaves
/// out on its left, which wraps around to where it weighs next to nothing.
#[test]
fn every_reading_of_a_grid_brackets_delta() {
    let laplace = |scale: f64, rate: f64, sampling, times| {
        repeat(
            times,
            Mechanism::SubsampledLaplace {
                scale: NoiseMultiplier::new(scale).unwrap(),
                sampling_rate: SamplingRate::new(rate).unwrap(),
                sampling,
            },
        )
    };
    let cut_down = Sampling::TruncatedPoisson {
        max_batch: 1,
        records: 2_294_099,
    };
    let rare = laplace(90.26, 0.154, cut_down, 11_404_399);
    let few = laplace(2.0, 0.01, Sampling::Poisson, 200);
    let fixed = laplace(20.0, 1e-4, Sampling::WithoutReplacement, 50_000);
    let mut before = 0;
    for (run, neighbours, epsilons) in [
        (&rare, Neighbours::ZeroOut, [0.0, 1e-6, 1e-5, 1e-4]),
        (&few, Neighbours::AddRemove, [0.0, 0.05, 0.3, 1.0]),
        (&fixed, Neighbours::Replace, [0.0, 1e-4, 1e-2, 0.1]),
    ] {
        for direction in [Direction::Remove, Direction::Add] {
            let loss = loss(run, neighbours, direction);
            let known = epsilons.map(|epsilon| {
                let ends = Solver::new(&loss).ln_delta(epsilon, 1e-4).unwrap().0;
                (epsilon, ends)
            });
            let moments = Moments::new(steps(&loss), -760.0).unwrap();
            for factor in [0.1, 0.5, 1.0, 1.5, 2.0, 4.0, 20.0] {
                let theta = 1.0 + factor * (moments.tilt(epsilons[2]) - 1.0);
                let wanted = Wanted {
                    theta,
                    relative: 1e-4,
                    ln_delta: -10.0,
                    finer: 1.0,
                    effort: Effort::Full,
                };
                let Ok(grid) = Convolution::new(&moments, wanted) else {
                    continue;
                };
                for (epsilon, known) in known {
                    let read = grid.value(epsilon);
                    let what = format!(
                        "{neighbours:?} {direction:?} {factor} {epsilon}: {read:?} {known:?}"
                    );
                    assert!(read.lower <= read.upper, "{what}");
                    assert!(
                        read.upper >= known.lower && read.lower <= known.upper,
                        "{what}"
                    );
                    before += usize::from(grid.begins_above(epsilon));
                }
            }
        }
    }
    // Windows that begin above ε are among them.
    assert!(before >= 4, "{before}");
}

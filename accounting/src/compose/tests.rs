//! The contour against closed forms, and laws that hold for every loss.
//!
//! Cases by the seed in .cargo/config.toml; every case must hold, there is no false-alarm rate.

use super::solver::Solver;
use crate::engine::grid::moments::Moments;
use crate::loss::{Direction, Mixture, Pair, PrivacyLoss, Query};
use crate::mechanism::Mechanism;
use crate::quantity::neighbours::Neighbours;
use crate::quantity::{NoiseMultiplier, SamplingRate, Steps};
use proptest::prelude::*;

/// Plain Gaussian steps as if they were anything: the contour has to do what the closed form
/// does at once.
fn as_parts(steps: &[(f64, u64)]) -> PrivacyLoss {
    let parts = steps
        .iter()
        .map(|(mu, times)| (Pair::gaussian(*mu), *times))
        .collect();
    PrivacyLoss {
        gaussian: 0.0,
        parts,
        ..PrivacyLoss::default()
    }
}

fn merged(steps: &[(f64, u64)]) -> PrivacyLoss {
    let gaussian = steps
        .iter()
        .map(|(mu, times)| mu * mu * *times as f64)
        .sum();
    PrivacyLoss {
        gaussian,
        parts: Vec::new(),
        ..PrivacyLoss::default()
    }
}

fn subsampled(rate: f64, shift: f64, times: u64, replace: bool) -> PrivacyLoss {
    let with = Mixture::binomial(1, rate, shift).unwrap();
    let second = if replace {
        with.clone()
    } else {
        Mixture::standard(0.0)
    };
    PrivacyLoss {
        gaussian: 0.0,
        parts: vec![(
            Pair {
                first: with,
                second,
            },
            times,
        )],
        ..PrivacyLoss::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any number of plain Gaussian steps of two kinds: both ends enclose the closed form, and lie
    /// within a relative 1e-9 of it.
    #[test]
    fn the_contour_finds_the_closed_form(
        mu in 0.02f64..2.0,
        other in 0.02f64..2.0,
        times in 2u64..2000,
        spot in -1.0f64..6.0,
    ) {
        let steps = [(mu, times), (other, 3)];
        let total = merged(&steps).gaussian;
        // `spot` standard deviations above the mean loss.
        let epsilon = 0.5 * total + spot * total.sqrt();
        let truth = Solver::new(&merged(&steps)).ln_delta(epsilon, 1e-9).unwrap().0;
        let (ends, _) = Solver::new(&as_parts(&steps)).ln_delta(epsilon, 1e-9).unwrap();
        prop_assert!(ends.lower <= truth.upper && truth.lower <= ends.upper, "{ends:?} {truth:?}");
        prop_assert!(ends.width() < 1e-8, "{ends:?}");
    }

    /// Splitting a run in two, or naming equal steps twice, changes nothing.
    #[test]
    fn composition_depends_on_the_steps_alone(
        rate in 0.005f64..0.3,
        shift in 0.2f64..1.2,
        first in 20u64..400,
        second in 20u64..400,
        epsilon in 0.1f64..4.0,
    ) {
        let whole = subsampled(rate, shift, first + second, false);
        let halves = subsampled(rate, shift, first, false).then(&subsampled(rate, shift, second, false)).unwrap();
        prop_assert_eq!(&whole, &halves);
        // A part with another name for the same law: 1e-15 off in the shift.
        let mut named = subsampled(rate, shift, first, false);
        named.parts.extend(subsampled(rate, shift * (1.0 + 1e-15), second, false).parts);
        let a = Solver::new(&whole).ln_delta(epsilon, 1e-7).unwrap().0;
        let b = Solver::new(&named).ln_delta(epsilon, 1e-7).unwrap().0;
        prop_assert!(a.lower <= b.upper + 1e-9 && b.lower <= a.upper + 1e-9, "{a:?} {b:?}");
    }

    /// More steps, a higher rate, less noise: never less loss, up to the certified width.
    #[test]
    fn loss_grows_with_steps_rate_and_shift(
        rate in 0.005f64..0.3,
        shift in 0.2f64..1.2,
        times in 20u64..1000,
        more in 1.01f64..1.5,
        replace in any::<bool>(),
        ln_delta in -30.0f64..-4.0,
    ) {
        let epsilon = |rate: f64, shift: f64, times: u64| {
            let found = Solver::new(&subsampled(rate, shift, times, replace)).epsilon(ln_delta.exp(), 1e-6).unwrap();
            (found.lower.unwrap(), found.upper)
        };
        let base = epsilon(rate, shift, times);
        for larger in [
            epsilon((rate * more).min(1.0), shift, times),
            epsilon(rate, shift * more, times),
            epsilon(rate, shift, (times as f64 * more).ceil() as u64),
        ] {
            prop_assert!(base.0 <= larger.1, "{base:?} {larger:?}");
        }
    }

    /// δ at the upper end of ε(δ) is at most δ, at the lower end at least δ; Rényi is never below.
    #[test]
    fn both_ends_of_epsilon_keep_their_side(
        rate in 0.002f64..0.5,
        shift in 0.1f64..1.5,
        times in 20u64..5000,
        replace in any::<bool>(),
        ln_delta in -60.0f64..-3.0,
    ) {
        let loss = subsampled(rate, shift, times, replace);
        let mut solver = Solver::new(&loss);
        let found = solver.epsilon(ln_delta.exp(), 1e-6).unwrap();
        let at = |epsilon: f64| Solver::new(&loss).ln_delta(epsilon, 1e-8).unwrap().0;
        prop_assert!(at(found.upper).lower <= ln_delta + 1e-9);
        if found.lower.unwrap() > 0.0 {
            prop_assert!(at(found.lower.unwrap()).upper >= ln_delta - 1e-9);
        }
        let (renyi, _) = solver.renyi_epsilon(ln_delta.exp()).unwrap();
        prop_assert!(renyi >= found.lower.unwrap(), "{renyi} {found:?}");
    }
}

#[test]
fn coarse_answers_enclose_certified_ones() {
    for (rate, shift, times) in [(0.05, 0.8, 300), (0.01, 1.0, 2000), (0.3, 0.3, 100)] {
        let loss = subsampled(rate, shift, times, false);
        for epsilon in [0.2, 1.0, 3.0, 8.0] {
            let tight = Solver::new(&loss).ln_delta(epsilon, 1e-8).unwrap().0;
            let coarse = Solver::new(&loss).coarse(epsilon);
            assert!(
                coarse.lower <= tight.upper && tight.lower <= coarse.upper,
                "{tight:?} {coarse:?}"
            );
            // Chernoff is above the truth by about the order times the deviation, not by decades.
            assert!(
                coarse.upper - tight.upper < 7.0 && tight.lower - coarse.lower < 45.0,
                "{tight:?} {coarse:?}"
            );
        }
    }
}

#[test]
fn dropped_components_are_paid_for() {
    // Trimmed hard enough to see: the upper end must still cover the untrimmed law.
    let with = Mixture::binomial(10, 0.05, 0.5).unwrap();
    let pair = Pair {
        first: with,
        second: Mixture::standard(0.0),
    };
    let loss = PrivacyLoss {
        gaussian: 0.0,
        parts: vec![(pair, 60)],
        ..PrivacyLoss::default()
    };
    let trimmed = loss.trimmed(1e-3);
    assert!(trimmed.missing() > 1e-5 && trimmed.missing() <= 1e-3);
    for epsilon in [0.5, 2.0, 5.0] {
        let truth = Solver::new(&loss).ln_delta(epsilon, 1e-7).unwrap().0;
        let cut = Solver::new(&trimmed).ln_delta(epsilon, 1e-7).unwrap().0;
        assert!(
            cut.lower <= truth.upper && truth.lower <= cut.upper,
            "{truth:?} {cut:?}"
        );
        assert!(cut.upper >= truth.lower && cut.lower <= truth.lower + 1e-9);
    }
}

#[test]
fn both_ends_of_epsilon_hold_however_coarse_the_contour() {
    let loss = subsampled(0.01, 1.0 / 1.1, 10_000, false);
    let truth = 7.849_491_185_125;
    let mut solver = Solver::new(&loss);
    for ln_goal in [-25.5, -28.0, -35.0] {
        let contour = solver.contour(truth, ln_goal).unwrap();
        let found = solver.certify(&contour, 1e-10f64.ln(), truth);
        let lower = found.lower.unwrap();
        assert!(
            lower <= truth && truth <= found.upper,
            "{ln_goal}: {found:?}"
        );
        // Aliases lift the sum: read without them the lower end would be above the truth.
        let width = found.upper - lower;
        assert!(ln_goal < -26.0 || width > 1e-3, "{ln_goal}: {found:?}");
    }
}

#[test]
fn guarantees_of_single_steps_add_up_to_more_than_the_truth() {
    for (rate, shift, times) in [(0.3, 1.0, 3), (0.05, 0.8, 30), (0.5, 3.0, 5)] {
        let loss = subsampled(rate, shift, times, false);
        for epsilon in [0.1, 0.5, 1.0, 2.0, 4.0] {
            let added = Solver::new(&loss).added_up(epsilon);
            let truth = Solver::new(&loss).ln_delta(epsilon, 1e-6).unwrap().0;
            assert!(truth.lower <= added, "{epsilon}: {truth:?} {added}");
            let single = Solver::new(&subsampled(rate, shift, 1, false)).added_up(epsilon);
            assert!(added >= (single + (times as f64).ln()).min(0.0) - 1e-9);
        }
    }
}

/// Rare records of a run that one step decides: what its grids take counts together, whichever part of the run
/// they are laid for. A search for the rate at which ε is 1e-3 took minutes.
#[test]
fn grids_of_all_parts_of_a_run_count_together() {
    let loss = subsampled(3.69e-9, 2.0, 1_000_000, false);
    let mut solver = Solver::new(&loss);
    let mut cut = solver.cut_below(-20.0, 1e-3).unwrap();
    let _ = cut.new_grid_ln_delta(1e-3, 1e-4);
    let before = solver.grid_work.get();
    assert!(before > 0.0);
    let ends = solver.ln_delta(1e-3, 5e-7).unwrap().0;
    assert!(ends.lower <= ends.upper);
    let all = solver.grid_work.get();
    assert!(all > before && all < 15.0, "{all}");
}

/// Steps that lose 1e11 together, of which half is no guess: a grid at the least tilt, where the search for one ends,
/// says nothing about ε there.
#[test]
fn no_tilt_leads_far_below_what_steps_lose() {
    let noise = |sigma: f64| NoiseMultiplier::new(sigma).unwrap();
    let run = Mechanism::Sequence {
        parts: vec![
            Mechanism::DiscreteGaussian {
                sigma: noise(6389.5),
                sensitivity: 10_000,
            },
            Mechanism::dp_sgd(
                noise(0.0108),
                SamplingRate::new(0.1347).unwrap(),
                Steps::new(233_139_038),
            ),
        ],
    };
    let query = Query::single(Neighbours::Replace);
    let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
    let mut solver = Solver::new(&loss);
    assert!(Moments::is_least(solver.tilt(6.7e10).unwrap()));
    assert!(!Moments::is_least(solver.tilt(1.4e11).unwrap()));
}

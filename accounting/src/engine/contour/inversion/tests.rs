//! The contour against 45-digit values, itself at other accuracies, and direct sums.

use super::line::Line;
use super::*;
use crate::loss::{Mixture, Pair, PrivacyLoss};

fn subsampled(q: f64, sigma: f64, times: u64) -> PrivacyLoss {
    let pair = Pair {
        first: Mixture::binomial(1, q, 1.0 / sigma).unwrap(),
        second: Mixture::point(0.0).unwrap(),
    };
    PrivacyLoss {
        gaussian: 0.0,
        parts: vec![(pair, times)],
        ..PrivacyLoss::default()
    }
}

#[test]
fn reference_values_lie_between_the_ends() {
    // δ(ε) by 45-digit decimal arithmetic on two meshes, which agree to 18 digits or more.
    for (q, sigma, times, epsilon, delta) in [
        (
            0.01,
            1.1,
            10_000,
            5.192_583_445_878,
            1.000_000_000_018_401_4e-5_f64,
        ),
        (
            0.01,
            1.1,
            10_000,
            7.849_491_185_125,
            1.000_000_000_019_135_2e-10,
        ),
        (0.1, 2.0, 50, 2.0, 4.498_624_841_818_42e-7),
    ] {
        let cumulants = CumulantFunction::new(&subsampled(q, sigma, times), 16.0).unwrap();
        let contour = Contour::new(&cumulants, Kernel::Excess, epsilon, delta.ln() - 29.0).unwrap();
        let ends = contour.value(epsilon);
        assert!(
            ends.lower <= delta.ln() && delta.ln() <= ends.upper,
            "{ends:?}"
        );
        assert!(ends.upper - ends.lower < 2e-11, "{ends:?}");
        assert!((ends.middle - delta.ln()).abs() < 2e-12, "{ends:?}");
    }
}

#[test]
fn coarse_sums_err_upwards_only() {
    // Half the terms' spacing wanted, then ever coarser: Poisson summation keeps the sum
    // above the truth, and the alias bound brings the lower end below it.
    let cumulants = CumulantFunction::new(&subsampled(0.01, 1.1, 10_000), 12.0).unwrap();
    let truth = 1e-10f64.ln();
    let mut widest: f64 = 0.0;
    for ln_goal in [-44.0, -30.0, -26.0, -24.5] {
        let contour = Contour::new(&cumulants, Kernel::Excess, 7.849_491_185_125, ln_goal).unwrap();
        let ends = contour.value(7.849_491_185_125);
        assert!(
            ends.lower <= truth + 1e-11 && truth <= ends.upper + 1e-11,
            "{ends:?}"
        );
        widest = widest.max(ends.upper - truth);
    }
    assert!(
        widest > 1e-4,
        "the coarsest sum should show its aliases, got {widest:e}"
    );
}

#[test]
fn both_kernels_agree_where_both_apply() {
    let cumulants = CumulantFunction::new(&subsampled(0.05, 1.0, 400), 12.0).unwrap();
    for epsilon in [0.5, 1.0, 2.0, 3.0] {
        let excess = Contour::new(&cumulants, Kernel::Excess, epsilon, -32.0)
            .unwrap()
            .value(epsilon);
        let shared = Contour::new(&cumulants, Kernel::Shared, epsilon, -32.0)
            .unwrap()
            .value(epsilon);
        let (low, high) = (1.0 - shared.upper.exp(), 1.0 - shared.lower.exp());
        assert!(
            low <= excess.upper.exp() && excess.lower.exp() <= high,
            "epsilon {epsilon}"
        );
        assert!(high - low < 1e-9);
    }
}

#[test]
fn what_the_sum_leaves_out_is_paid_for() {
    for (q, sigma, times, epsilon, ln_delta) in [
        (0.01, 1.1, 10_000, 5.2, -11.5),
        (0.2, 1.0, 30, 4.0, -7.0),
        (0.5, 8.0, 2_000, 15.0, -11.2),
    ] {
        let cumulants = CumulantFunction::new(&subsampled(q, sigma, times), 16.0).unwrap();
        let at = |ln_goal| Contour::new(&cumulants, Kernel::Excess, epsilon, ln_goal).unwrap();
        let (coarse, fine) = (at(ln_delta - 4.0), at(ln_delta - 29.0));
        assert!((coarse.c - fine.c).abs() < 1e-9);
        // The fine sum over what the coarse one does not reach.
        let end = (coarse.terms.len() - 1) as f64 * coarse.step;
        let beyond: f64 = (fine.terms.iter().enumerate())
            .filter(|(n, _)| *n as f64 * fine.step > end)
            .map(|(_, term)| term.0.hypot(term.1) * fine.step / PI)
            .sum();
        assert!(
            beyond <= coarse.rest && beyond > 0.0,
            "{beyond:e} {:e}",
            coarse.rest
        );
    }
}

#[test]
fn a_coarse_line_knows_its_quadrature_error() {
    let cumulants = CumulantFunction::new(&subsampled(0.2, 1.0, 1), 12.0).unwrap();
    let (c, y) = (3.0, 4.0);
    let (_, each) = cumulants.certified(c);
    let transform = |line: &Line| {
        let terms = line.tilted.weight.iter().zip(&line.tilted.loss);
        terms.fold((0.0, 0.0), |(re, im), (w, l)| {
            (re + w * (y * l).cos(), im + w * (y * l).sin())
        })
    };
    let fine = transform(&Line::new(&cumulants.parts[0], c, each[0], y, -32.0).unwrap());
    for ln_goal in [-2.0, -4.0, -6.0] {
        let line = Line::new(&cumulants.parts[0], c, each[0], y, ln_goal).unwrap();
        let coarse = transform(&line);
        let error = (coarse.0 - fine.0).hypot(coarse.1 - fine.1);
        assert!(
            error <= line.quadrature && error > 1e-12,
            "{error:e} {:e}",
            line.quadrature
        );
    }
}

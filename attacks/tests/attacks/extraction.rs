//! Extraction in numbers, and the skew-normal exposure.

use reticent_attacks::exposure::SkewNormal;
use reticent_attacks::extract::{draws_needed, probability_of_extraction, recall_at_errors};

/// Golden: Hayes et al. 2024 (arXiv 2410.19482), by the formula.
#[test]
fn draws() {
    for (once, wanted, expected) in [(0.01, 0.5, 69.0), (0.01, 0.9, 230.0), (0.001, 0.5, 693.0)] {
        let got = draws_needed(f64::ln(once), wanted).unwrap();
        assert!((got - expected).abs() < 1e-9, "{got}");
        let before = probability_of_extraction(f64::ln(once), got - 1.0).unwrap();
        let after = probability_of_extraction(f64::ln(once), got).unwrap();
        assert!(before < wanted && wanted <= after);
    }
    assert!(draws_needed(f64::NEG_INFINITY, 0.5).unwrap().is_infinite());
    assert!((draws_needed(-705.0, 0.5).unwrap().ln() - (705.0 + f64::ln(2.0).ln())).abs() < 1e-9);
    assert!(draws_needed(0.1, 0.5).is_err() && draws_needed(-1.0, 1.0).is_err());
}

/// Golden: −expm1(n log1p(−p)) in double precision; 1 − (1 − p)^n gives 0 for the second.
#[test]
fn at_least_one_of_many_draws() {
    for (once, draws, expected) in [
        (0.001, 1000.0, 0.632_304_575_229_035_9),
        (1e-20, 1e18, 0.009_950_166_250_831_947),
    ] {
        let got = probability_of_extraction(f64::ln(once), draws).unwrap();
        assert!((got - expected).abs() < 1e-12, "{got}");
    }
    assert!(probability_of_extraction(0.0, 1.0).unwrap() >= 1.0);
    assert!(probability_of_extraction(-1.0, 0.0).unwrap() <= 0.0);
}

/// PrivacyGuard counts a text at (n, p) where 1 − (1 − Πpᵢ)ⁿ > p, by its formula: the same texts are
/// counted here, for 200 probabilities from 1e-7 to 1, where its power has digits enough.
#[test]
fn draws_count_what_privacy_guard_counts() {
    for place in 0..200 {
        let once = 10_f64.powf(-7.0 * (f64::from(place) + 0.5) / 200.0);
        for n in [1_i32, 10, 100, 10_000] {
            for p in [0.1, 0.5, 0.9] {
                let theirs = 1.0 - (1.0 - once).powi(n) > p;
                let ours = draws_needed(once.ln(), p).unwrap() <= f64::from(n);
                assert_eq!(ours, theirs, "once {once}, n {n}, p {p}");
            }
        }
    }
}

/// Golden: the rule of lm-extraction-benchmark's score_submission.
#[test]
fn recall_before_errors() {
    let guesses = [
        (0, true),
        (1, false),
        (2, true),
        (3, true),
        (4, false),
        (5, true),
    ];
    for (errors, expected) in [(1, 0.1), (2, 0.3), (3, 0.4)] {
        let got = recall_at_errors(&guesses, 10, errors).unwrap();
        assert!((got - expected).abs() < 1e-12, "{errors}: {got}");
    }
    let twice = [(0, true), (0, true)];
    assert!((recall_at_errors(&twice, 10, 1).unwrap() - 0.1).abs() < 1e-12);
    assert!(recall_at_errors(&twice, 0, 1).is_err() && recall_at_errors(&twice, 1, 0).is_err());
}

/// Golden: −log2 F(x; 4) by 40-digit quadrature.
#[test]
fn skew_normal_exposures() {
    let law = SkewNormal {
        shape: 4.0,
        location: 0.0,
        scale: 1.0,
    };
    for (x, expected) in [
        (0.0, 3.680_768_124),
        (-0.25, 6.011_966_182),
        (-0.5, 9.455_069_376),
        (-1.0, 20.221_450_44),
        (-2.0, 58.852_446_58),
    ] {
        let got = law.exposure(x).unwrap().into_inner();
        assert!((got - expected).abs() < 1e-6, "{x}: {got}");
    }
    // Shape 0 is the normal law: P(Z ≤ −3) = 0.001349898…; and its mirror.
    let normal = SkewNormal {
        shape: 0.0,
        location: 10.0,
        scale: 2.0,
    };
    let got = normal.exposure(4.0).unwrap().into_inner();
    assert!(
        (got + 0.001_349_898_031_630_094_6_f64.log2()).abs() < 1e-9,
        "{got}"
    );
    let mirrored = SkewNormal { shape: -4.0, ..law };
    // F(z; −α) = 1 − F(−z; α).
    let share = |law: SkewNormal, x| (-law.exposure(x).unwrap().into_inner()).exp2();
    assert!((share(mirrored, 0.7) + share(law, -0.7) - 1.0).abs() < 1e-9);
    assert!(law.exposure(f64::NAN).is_err());
    assert!(SkewNormal { scale: 0.0, ..law }.exposure(0.0).is_err());
}

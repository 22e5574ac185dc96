//! Both forms of the ratio, what is left out, what is dropped.

use super::*;

#[test]
fn both_forms_of_the_ratio_agree_with_the_definition() {
    let mixture = Mixture::binomial(3, 0.2, 0.7).unwrap();
    for x in [-4.0, -1.0, 0.0, 0.4, 1.0, 3.0, 9.0] {
        let direct: f64 = mixture
            .components()
            .map(|(k, w)| (w + k * x - 0.5 * k * k).exp())
            .sum();
        let ratio = mixture.ratio(x);
        assert!(
            (ratio.ln - direct.ln()).abs() < 1e-14 + ratio.error,
            "x = {x}"
        );
        let slope = (mixture.ratio(x + 1e-5).ln - mixture.ratio(x - 1e-5).ln) / 2e-5;
        assert!((ratio.mean - slope).abs() < 1e-8, "x = {x}");
    }
}

/// Components far from the largest term are left out; the error says so.
#[test]
fn many_components_are_summed_where_they_matter() {
    for (count, rate, shift) in [(40, 0.2, 0.3), (1000, 1e-6, 0.1), (900, 0.5, 0.02)] {
        let quick = Mixture::binomial(count, rate, shift).unwrap();
        assert!(quick.shape.concave, "{count}");
        let mut slow = quick.clone();
        slow.shape.concave = false;
        for step in -20..=60 {
            let x = 0.5 * f64::from(step);
            let (a, b) = (quick.ratio(x), slow.ratio(x));
            assert!((a.ln - b.ln).abs() <= a.error + b.error, "{count} at {x}");
            assert!((a.mean - b.mean).abs() <= 1e-12 * (1.0 + b.mean));
            let (a, b) = (
                quick.variance_near(x, a.mean, 0.1),
                slow.variance_near(x, b.mean, 0.1),
            );
            assert!(
                a >= b * (1.0 - 1e-9) && a <= b + 1e-15,
                "{count} at {x}: {a} {b}"
            );
        }
    }
    // Two humps: everything is summed.
    let humps = Mixture::new(vec![(0.0, -0.7), (1.0, -50.0), (2.0, -0.686_414_7)]);
    assert!(humps.is_err() || !humps.unwrap().shape.concave);
}

/// M2-variance: no tilt spreads log-concave weights on a lattice more than the bound, which is within a
/// factor of eight where two components share the weight.
#[test]
fn no_tilt_varies_more_than_the_bound() {
    let poisson_binomial = Mixture::poisson_binomial(&[0.5, 0.01, 1e-6, 0.9, 0.2], 3.0).unwrap();
    let mixtures = [
        (604, 1e-6, 2.52),
        (300, 0.3, 0.4),
        (40, 0.5, 0.25),
        (1, 0.01, 9.0),
    ]
    .map(|(count, rate, shift)| Mixture::binomial(count, rate, shift).unwrap());
    for mixture in mixtures.into_iter().chain([poisson_binomial]) {
        let most = mixture.most_variance();
        let trimmed = mixture.trimmed(0.1);
        assert!(most.is_finite() && trimmed.most_variance() <= most);
        let mut largest = 0.0f64;
        for step in -400..=8000 {
            let x = 0.2 * f64::from(step);
            let heaviest = (0..mixture.positions.len()).map(|k| mixture.ln_term(k, x));
            let top = heaviest.fold(f64::NEG_INFINITY, f64::max);
            let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
            for k in 0..mixture.positions.len() {
                let term = (mixture.ln_term(k, x) - top).exp();
                sum += term;
                first += term * mixture.positions[k];
                second += term * mixture.positions[k].powi(2);
            }
            let variance = second / sum - (first / sum).powi(2);
            assert!(variance <= most * (1.0 + 1e-6), "{x}: {variance} {most}");
            largest = largest.max(variance);
        }
        let gap = mixture.positions[1] - mixture.positions[0];
        if gap > 2.0 {
            assert!(largest > most / 9.0, "{largest} {most}");
        }
    }
    let humps = vec![(0.0, 0.5f64.ln()), (1.0, 1e-30f64.ln()), (2.0, 0.5f64.ln())];
    assert!(Mixture::new(humps).unwrap().most_variance().is_infinite());
}

#[test]
fn tiny_rates_keep_their_digits() {
    let mixture = Mixture::binomial(1, 1e-12, 1.0).unwrap();
    // ln(1 + q(e^{0.5} − 1)) = q(e^{0.5} − 1) to 1e-12 relative.
    let expected = 1e-12 * 0.5f64.exp_m1();
    assert!((mixture.ratio(1.0).ln / expected - 1.0).abs() < 1e-11);
}

#[test]
fn trimming_drops_mass_from_the_far_end_and_says_how_much() {
    let mixture = Mixture::binomial(20, 0.01, 0.25).unwrap();
    let trimmed = mixture.trimmed(1e-6);
    assert!(trimmed.farthest() < mixture.farthest());
    let kept: f64 = trimmed.components().map(|(_, w)| w.exp()).sum();
    assert!(trimmed.missing() > 0.0 && trimmed.missing() <= 1e-6);
    assert!((kept + trimmed.missing() - 1.0).abs() < 1e-12);
    assert_eq!(mixture.trimmed(0.0), mixture);
}

#[test]
fn the_variance_bound_covers_its_neighbourhood() {
    let mixture = Mixture::binomial(5, 0.1, 0.8).unwrap();
    for centre in [-3.0, 0.0, 2.0, 4.0] {
        let bound = mixture.variance_near(centre, mixture.ratio(centre).mean, 0.3);
        for step in -3..=3 {
            let x = centre + 0.1 * f64::from(step);
            let slope = (mixture.ratio(x + 1e-4).mean - mixture.ratio(x - 1e-4).mean) / 2e-4;
            assert!(slope <= bound * (1.0 + 1e-6), "{slope} > {bound} at {x}");
        }
    }
}

#[test]
fn bad_components_are_named() {
    assert!(Mixture::point(-1.0).is_err());
    assert!(Mixture::new(vec![(0.0, -1.0)]).is_err());
    assert!(Mixture::binomial(1, 1.5, 1.0).is_err());
}

/// With records that are certainly drawn, some counts can't come up; only those that can, and are too rare for a
/// number, are missing.
#[test]
fn only_possible_counts_are_missing() {
    let certain = Mixture::poisson_binomial(&[1.0, 0.3, 0.0, 1.0], 0.5).unwrap();
    assert_eq!(certain.components().count(), 2);
    assert!(certain.missing() <= 0.0, "{}", certain.missing());
    // Four draws have a chance of 1e-400, three of 3e-300, less than is kept.
    for certain in [0, 2] {
        let mut rates = vec![1e-100; 4];
        rates.extend(vec![1.0; certain]);
        let rare = Mixture::poisson_binomial(&rates, 0.5).unwrap();
        assert_eq!(rare.components().count(), 3);
        assert!(rare.missing() >= 4e-300 && rare.missing() <= 1e-289);
    }
}

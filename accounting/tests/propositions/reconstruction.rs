//! From indistinguishability to guessing: the common reference, lists of guesses, near matches,
//! abstention, several pairs, Fano's inequalities.

use super::finite::{
    blow_up, blow_up_of, cells, delta_of, gaussian, law, loss, phi, probability, query, tight,
};
use proptest::prelude::*;
use reticent_accounting::reconstruction::closed::{approximate_blow_up, balle_cherubin_hayes};
use reticent_accounting::reconstruction::fano::{
    bernoulli_divergence, kl_posterior, renyi_posterior,
};
use reticent_accounting::reconstruction::several::blow_up_of_several;
use reticent_accounting::reconstruction::total_variation::total_variation_posterior;
use reticent_accounting::{
    Delta, Direction, Epsilon, Mechanism, Neighbours, Order, PrivacyLoss, Upper,
};

const CONTENTS: usize = 4;

/// A secret in up to two records of a Gaussian release: each content moves the mean by its own
/// vector on the line, and the adversary sees a cell.
#[derive(Debug, Clone)]
struct Release {
    prior: Vec<f64>,
    runs: Vec<Vec<f64>>,
    records: u32,
    sigma: f64,
}

fn release() -> impl Strategy<Value = Release> {
    (
        law(CONTENTS),
        proptest::collection::vec(-1.0f64..1.0, CONTENTS),
        1u32..3,
        0.3f64..2.0,
        proptest::collection::vec(-3.0f64..3.0, 3..8),
    )
        .prop_map(|(prior, moves, records, sigma, mut cuts)| {
            cuts.sort_by(f64::total_cmp);
            let run = |x: &f64| cells(x * f64::from(records), sigma, &cuts);
            Release {
                prior,
                runs: moves.iter().map(run).collect(),
                records,
                sigma,
            }
        })
}

impl Release {
    fn pair(&self) -> PrivacyLoss {
        loss(
            &gaussian(self.sigma),
            query(Neighbours::ZeroOut, self.records),
            Direction::Remove,
        )
    }

    /// Σ over outcomes of the `t` largest joint probabilities.
    fn success(&self, t: usize) -> f64 {
        (0..self.runs[0].len())
            .map(|y| {
                let mut joint: Vec<f64> = self
                    .prior
                    .iter()
                    .zip(&self.runs)
                    .map(|(w, run)| w * run[y])
                    .collect();
                joint.sort_by(|a, b| b.total_cmp(a));
                joint[..t].iter().sum::<f64>()
            })
            .sum()
    }

    fn largest_priors(&self, t: usize) -> f64 {
        let mut prior = self.prior.clone();
        prior.sort_by(|a, b| b.total_cmp(a));
        prior[..t].iter().sum::<f64>().min(1.0)
    }
}

fn divergence(p: &[f64], q: &[f64]) -> f64 {
    p.iter()
        .zip(q)
        .filter(|(p, _)| **p > 0.0)
        .map(|(p, q)| p * (p / q).ln())
        .sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// Common reference, no factor two: the best guess is right with probability at most B(p), B
    /// from the zero-out pair, whatever the contents are replaced by.
    #[test]
    fn no_guess_beats_the_blow_up(release in release()) {
        let promised = blow_up_of(&release.pair(), release.largest_priors(1));
        prop_assert!(release.success(1) <= promised + 1e-12);
    }

    /// Top-t guesses: the prior becomes the sum of the t largest.
    #[test]
    fn lists_of_guesses_cost_the_sum_of_their_priors(release in release(), t in 1usize..CONTENTS) {
        let promised = blow_up_of(&release.pair(), release.largest_priors(t));
        prop_assert!(release.success(t) <= promised + 1e-12);
    }

    /// Near matches: a guess that counts for several contents; the prior becomes the largest mass
    /// that one guess can satisfy.
    #[test]
    fn near_matches_cost_the_mass_one_guess_satisfies(release in release()) {
        // Guess g counts for contents g and g + 1.
        let satisfied = |g: usize| [g, (g + 1) % CONTENTS];
        let mass = (0..CONTENTS).map(|g| satisfied(g).iter().map(|i| release.prior[*i]).sum::<f64>()).fold(0.0, f64::max);
        let success: f64 = (0..release.runs[0].len()).map(|y| {
            (0..CONTENTS)
                .map(|g| satisfied(g).iter().map(|i| release.prior[*i] * release.runs[*i][y]).sum::<f64>())
                .fold(0.0, f64::max)
        }).sum();
        prop_assert!(success <= blow_up_of(&release.pair(), mass.min(1.0)) + 1e-12);
    }

    /// Abstention: B bounds P(answered and right).
    #[test]
    fn abstaining_does_not_help(release in release(), answers in proptest::collection::vec(any::<bool>(), 9)) {
        let right: f64 = (0..release.runs[0].len()).filter(|y| answers[*y]).map(|y| {
            release.prior.iter().zip(&release.runs).map(|(w, run)| w * run[y]).fold(0.0, f64::max)
        }).sum();
        prop_assert!(right <= blow_up_of(&release.pair(), release.largest_priors(1)) + 1e-12);
    }

    /// Several pairs: contents in different numbers of records.
    #[test]
    fn several_pairs_share_one_infimum(
        prior in law(3),
        sigma in 0.4f64..2.0,
        records in proptest::collection::vec(1u32..4, 3),
        mut cuts in proptest::collection::vec(-3.0f64..6.0, 3..8),
    ) {
        cuts.sort_by(f64::total_cmp);
        let runs: Vec<Vec<f64>> = records.iter().map(|k| cells(f64::from(*k), sigma, &cuts)).collect();
        let pairs: Vec<PrivacyLoss> = records.iter().map(|k| {
            loss(&gaussian(sigma), query(Neighbours::ZeroOut, *k), Direction::Remove)
        }).collect();
        let most = prior.iter().copied().fold(0.0, f64::max);
        let success: f64 = (0..cuts.len() + 1).map(|y| {
            prior.iter().zip(&runs).map(|(w, run)| w * run[y]).fold(0.0, f64::max)
        }).sum();
        let promised = blow_up_of_several(&pairs, probability(most.min(1.0)), tight()).unwrap();
        prop_assert!(success <= promised.get().get() + 1e-12);
    }

    /// r = H_{e^t} + e^t p holds at every t, and the blow-up is the least of them.
    #[test]
    fn every_threshold_is_safe(sigma in 0.4f64..4.0, exponent in -12.0f64..-0.5, t in 0.0f64..8.0) {
        let pair = loss(&gaussian(sigma), query(Neighbours::ZeroOut, 1), Direction::Remove);
        let p = 10f64.powf(exponent);
        prop_assert!(blow_up_of(&pair, p) <= (delta_of(&pair, t) + t.exp() * p) * (1.0 + 1e-9));
    }

    /// Hush! Lemma 3.2 with a common reference: the success of any guess, from the largest
    /// Kullback–Leibler divergence; and Rényi's at any order.
    #[test]
    fn fano_bounds_every_guess(
        prior in law(CONTENTS),
        runs in proptest::collection::vec(law(5), CONTENTS),
        reference in proptest::collection::vec(0.05f64..1.0, 5),
        order in 1.1f64..20.0,
    ) {
        let total: f64 = reference.iter().sum();
        let reference: Vec<f64> = reference.iter().map(|q| q / total).collect();
        let most = prior.iter().copied().fold(0.0, f64::max);
        let success: f64 = (0..5).map(|y| {
            prior.iter().zip(&runs).map(|(w, run)| w * run[y]).fold(0.0, f64::max)
        }).sum();
        let kl = runs.iter().map(|run| divergence(run, &reference)).fold(0.0, f64::max);
        let promised = kl_posterior(Upper::new(kl), probability(most)).unwrap();
        prop_assert!(success <= promised.get().get() + 1e-12);
        let renyi = runs.iter().map(|run| {
            let moment: f64 = run.iter().zip(&reference).map(|(p, q)| p.powf(order) * q.powf(1.0 - order)).sum();
            moment.ln() / (order - 1.0)
        }).fold(0.0, f64::max);
        let promised = renyi_posterior(Order::new(order).unwrap(), Upper::new(renyi), probability(most)).unwrap();
        prop_assert!(success <= promised.get().get() + 1e-12);
        let variation = runs.iter().map(|run| variation(run, &reference)).fold(0.0, f64::max);
        let promised = total_variation_posterior(Upper::new(variation_bound(variation)), probability(most)).unwrap();
        prop_assert!(success <= promised.get().get() + 1e-12);
    }
}

/// sup_E P(E) − Q(E).
fn variation(p: &[f64], q: &[f64]) -> f64 {
    p.iter().zip(q).map(|(p, q)| (p - q).max(0.0)).sum()
}

fn variation_bound(value: f64) -> Delta {
    Delta::new(value.min(1.0)).unwrap()
}

/// Tight: contents that each favour their own outcome over a uniform reference attain B, both
/// Fano bounds, the total variation and the common reference at once.
#[test]
fn a_symmetric_channel_attains_all_of_them() {
    let (n, hit) = (8usize, 0.6);
    let other = (1.0 - hit) / (n as f64 - 1.0);
    let uniform = vec![1.0 / n as f64; n];
    let runs: Vec<Vec<f64>> = (0..n)
        .map(|i| (0..n).map(|y| if y == i { hit } else { other }).collect())
        .collect();
    let prior = 1.0 / n as f64;
    assert!((blow_up(&runs[0], &uniform, prior) - hit).abs() < 1e-12);
    let kl = kl_posterior(
        Upper::new(divergence(&runs[0], &uniform)),
        probability(prior),
    )
    .unwrap();
    assert!((kl.get().get() - hit).abs() < 1e-9);
    let apart = variation_bound(variation(&runs[0], &uniform));
    let by_variation = total_variation_posterior(Upper::new(apart), probability(prior)).unwrap();
    assert!((by_variation.get().get() - hit).abs() < 1e-12);
    let order = Order::new(3.0).unwrap();
    let moment: f64 = runs[0].iter().map(|p| p.powi(3) * (n as f64).powi(2)).sum();
    let renyi = renyi_posterior(order, Upper::new(0.5 * moment.ln()), probability(prior)).unwrap();
    assert!((renyi.get().get() - hit).abs() < 1e-9);
    // The Gaussian half-space attains B for a single content: Φ(Φ⁻¹(p) + μ).
    let pair = loss(
        &gaussian(0.5),
        query(Neighbours::ZeroOut, 1),
        Direction::Remove,
    );
    let cut = 1.7;
    assert!((blow_up_of(&pair, phi(-cut)) / phi(2.0 - cut) - 1.0).abs() < 1e-8);
    // One pair twice is one pair.
    let p = probability(1e-5);
    let several = blow_up_of_several(&[pair.clone(), pair.clone()], p, tight()).unwrap();
    assert!((several.get().get() / blow_up_of(&pair, 1e-5) - 1.0).abs() < 1e-6);
    // Two pairs cost at least the stronger one: its content alone may have the whole prior.
    let strong = loss(
        &gaussian(0.5),
        query(Neighbours::ZeroOut, 2),
        Direction::Remove,
    );
    let several = blow_up_of_several(&[strong.clone(), pair], p, tight()).unwrap();
    assert!(several.get().get() >= blow_up_of(&strong, 1e-5) * (1.0 - 1e-8));
}

/// Golden: the divergences and posteriors of math.md.
#[test]
fn fano_gives_the_published_numbers() {
    let d = |r, p| bernoulli_divergence(probability(r), probability(p));
    assert!((d(2e-4, 1e-10) - 0.002_701_751_6).abs() < 1e-10);
    assert!((d(1e-3, 1e-10) - 0.015_118_595_9).abs() < 1e-10);
    for (mu, r) in [(0.01, 0.001_571_96), (0.1, 0.011_916_5), (1.0, 0.095_128_1)] {
        let found = kl_posterior(Upper::new(mu), probability(1e-6)).unwrap();
        assert!((found.get().get() / r - 1.0).abs() < 1e-5);
        // What never occurs under the reference never occurs at a finite divergence.
        let never = kl_posterior(Upper::new(mu), probability(0.0)).unwrap();
        assert!(never.get().get() <= 0.0);
    }
    let infinite = kl_posterior(Upper::new(f64::INFINITY), probability(0.0)).unwrap();
    assert!(infinite.get().get() >= 1.0);
}

/// The divergence of neighbouring probabilities, by 60 digits: no cancellation leaves a negative one.
#[test]
fn neighbouring_probabilities_have_an_exact_divergence() {
    for (r, p, exact) in [
        (0.300_000_000_1, 0.3, 2.380_952_774_802_993e-20),
        (1.000_000_1e-6, 1e-6, 5.000_004_848_437_47e-21),
        (0.99, 0.9901, 5.084_086_999_892_17e-7),
        // Either side of where the series ends.
        (0.109, 0.1, 4.385_196_448_049_195e-4),
        (0.112, 0.1, 7.731_706_994_434_252e-4),
    ] {
        let found = bernoulli_divergence(probability(r), probability(p));
        assert!((found / exact - 1.0).abs() < 1e-13, "{r} {p}: {found}");
    }
    let same = bernoulli_divergence(probability(0.5), probability(0.5));
    assert_eq!(same.to_bits(), 0.0_f64.to_bits());
}

/// A secret that nobody would have guessed is guessed with the mass that only the first law has.
#[test]
fn impossible_guesses_are_bounded_by_what_only_one_law_has() {
    let never = probability(0.0);
    let order = Order::new(2.0).unwrap();
    for (rho, most) in [(1e300, 0.0), (f64::INFINITY, 1.0)] {
        let found = renyi_posterior(order, Upper::new(rho), never).unwrap();
        let weaker = balle_cherubin_hayes(order, Upper::new(rho), never).unwrap();
        for bound in [found, weaker] {
            assert!((bound.get().get() - most).abs() <= 0.0, "{rho}: {bound:?}");
        }
    }
    let nothing = approximate_blow_up(Epsilon::new(f64::INFINITY).unwrap(), Delta::ZERO, never);
    assert!(nothing.get().get() >= 1.0);
    let of = |delta: f64| {
        let stated = Mechanism::ApproxDp {
            epsilon: Epsilon::new(1.0).unwrap(),
            delta: Delta::new(delta).unwrap(),
            neighbours: Neighbours::ZeroOut,
        };
        let pair = loss(&stated, query(Neighbours::ZeroOut, 1), Direction::Remove);
        let several = blow_up_of_several(std::slice::from_ref(&pair), never, tight()).unwrap();
        let renyi = pair.renyi_fano(never).unwrap().0;
        [several, renyi].map(|r| r.get().get())
    };
    let [several, renyi] = of(0.1);
    assert!(
        (several - 0.1).abs() < 1e-9 && renyi >= 0.1,
        "{several} {renyi}"
    );
    assert!(of(0.0).iter().all(|r| *r <= 0.0));
}

/// Golden: the ratio of the probabilities overflows.
#[test]
fn divergences_from_the_least_priors_are_finite() {
    for p in [1e-300, 1e-310] {
        let exact = 0.05 * (0.05f64.ln() - f64::ln(p)) + 0.95 * 0.95f64.ln();
        let found = bernoulli_divergence(probability(0.05), probability(p));
        assert!((found / exact - 1.0).abs() < 1e-12, "{p:e}: {found}");
    }
    let none = bernoulli_divergence(probability(0.05), probability(0.0));
    assert!(none.is_infinite());
}

/// P(right | answered) is not bounded by B: one answer in a thousand, always right.
#[test]
fn the_share_of_right_answers_is_not_bounded() {
    let (run, other) = ([0.001f64, 0.999], [0.0f64, 1.0]);
    let answered = 0.5 * run[0] + 0.5 * other[0];
    let right = 0.5 * run[0];
    assert!((right / answered - 1.0).abs() < 1e-12);
    assert!(right <= blow_up(&run, &other, 0.5));
}

/// Trap: B over sets only. An atom that no set can split leaves B(p) = 0 for a prior that
/// guesses right with probability p without any training.
#[test]
fn tests_must_be_randomised() {
    let (p, q) = ([0.9, 0.1], [0.5, 0.5]);
    let sets_only = [0.0f64, 0.9, 0.1, 1.0]
        .iter()
        .zip([0.0, 0.5, 0.5, 1.0])
        .filter(|(_, mass)| *mass <= 0.3)
        .map(|(hit, _)| *hit)
        .fold(0.0, f64::max);
    assert!(sets_only <= 0.0);
    assert!((blow_up(&p, &q, 0.3) - 0.54).abs() < 1e-12);
    // A run that learns nothing still lets one guess with the prior.
    let nothing = loss(
        &Mechanism::Sequence { parts: Vec::new() },
        query(Neighbours::ZeroOut, 1),
        Direction::Remove,
    );
    assert!((blow_up_of(&nothing, 0.3) - 0.3).abs() < 1e-12);
}

/// Trap: "P(L > t) at about the root". A threshold 0.01 off under-reports by over one per cent;
/// H_{e^t} + e^t p at the same t errs upwards by less than 0.1 %.
#[test]
fn a_rounded_threshold_under_reports() {
    let (sigma, p) = (0.5f64, 1e-6);
    let mu = 1.0 / sigma;
    let pair = loss(
        &gaussian(sigma),
        query(Neighbours::ZeroOut, 1),
        Direction::Remove,
    );
    let exact = blow_up_of(&pair, p);
    // Q(L > t) = p: L = μx − μ²/2 with x ~ N(0, 1).
    let (mut low, mut high) = (0.0, 20.0);
    for _ in 0..200 {
        let x = 0.5 * (low + high);
        if phi(-x) > p { low = x } else { high = x }
    }
    let t = mu * low - 0.5 * mu * mu + 0.01;
    let tail = phi(mu - (t + 0.5 * mu * mu) / mu);
    assert!(tail < exact * 0.988, "{tail} {exact}");
    let safe = delta_of(&pair, t) + t.exp() * p;
    assert!(safe >= exact && safe < exact * 1.001, "{safe} {exact}");
}

/// The direction: mixture first. The other one answers another question and is smaller here.
#[test]
fn the_mixture_comes_first() {
    let run = super::finite::dp_sgd(0.8, 0.05, 1);
    let single = query(Neighbours::ZeroOut, 1);
    let remove = blow_up_of(&loss(&run, single, Direction::Remove), 1e-6);
    let add = blow_up_of(&loss(&run, single, Direction::Add), 1e-6);
    // One release sampled at 5 %: 0.95·p + 0.05·Φ(Φ⁻¹(p') + μ), by cells at fine cuts.
    let cuts: Vec<f64> = (-4000..6000).map(|i| f64::from(i) * 1e-3).collect();
    let plain = cells(0.0, 0.8, &cuts);
    let with: Vec<f64> = plain
        .iter()
        .zip(cells(1.0, 0.8, &cuts))
        .map(|(q, p)| 0.95 * q + 0.05 * p)
        .collect();
    let oracle = blow_up(&with, &plain, 1e-6);
    assert!(oracle <= remove && oracle > remove * 0.999);
    assert!(add < 0.5 * oracle);
}

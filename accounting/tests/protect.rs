//! Propositions of secret protection: the packing program, the law of a secret's draws, the
//! noise for all secrets. Random cases come from proptest's own generator.

use proptest::prelude::*;
use reticent_accounting::protect::{
    Incidence, Packing, Proof, Protection, RateProfile, Secret, Training, sampling_rates,
};
use reticent_accounting::{Error, NoiseMultiplier, Probability, Steps, Tolerance};

fn probability(p: f64) -> Probability {
    Probability::new(p).unwrap()
}

fn secret(prior: f64, posterior: f64) -> Secret {
    Secret::new(probability(prior), probability(posterior)).unwrap()
}

/// Up to 30 examples and 12 secrets with capacities in [0, 4].
fn programs() -> impl Strategy<Value = (Incidence, Vec<f64>)> {
    (1u32..30, 1u32..12).prop_flat_map(|(examples, secrets)| {
        let pair = (0..examples, 0..secrets);
        let capacity = prop_oneof![Just(0.0), 0.0..4.0f64];
        (
            prop::collection::vec(pair, 0..90),
            prop::collection::vec(capacity, secrets as usize),
        )
            .prop_map(move |(pairs, capacities)| {
                (
                    Incidence::new(examples, secrets, pairs).unwrap(),
                    capacities,
                )
            })
    })
}

/// The optimum of a tiny program by trying every vertex: each weight is 0, 1 or free, and the
/// free ones solve as many tight capacities.
fn by_vertices(incidence: &Incidence, capacities: &[f64]) -> f64 {
    let n = incidence.example_count();
    let m = incidence.secret_count();
    let contains = |s: usize, e: usize| incidence.examples_of(s).contains(&(e as u32));
    let mut best = 0.0f64;
    for code in 0..3usize.pow(n as u32) {
        let kind: Vec<usize> = (0..n).map(|e| code / 3usize.pow(e as u32) % 3).collect();
        let free: Vec<usize> = (0..n).filter(|e| kind[*e] == 2).collect();
        if free.len() > m {
            continue;
        }
        for rows in 0u32..1 << m {
            let tight: Vec<usize> = (0..m).filter(|s| rows >> s & 1 == 1).collect();
            if tight.len() != free.len() {
                continue;
            }
            let system: Vec<Vec<f64>> = tight
                .iter()
                .map(|s| {
                    let fixed = (0..n).filter(|e| kind[*e] == 1 && contains(*s, *e)).count();
                    let mut row: Vec<f64> = free
                        .iter()
                        .map(|e| f64::from(u8::from(contains(*s, *e))))
                        .collect();
                    row.push(capacities[*s] - fixed as f64);
                    row
                })
                .collect();
            let Some(values) = eliminated(system) else {
                continue;
            };
            let mut weights: Vec<f64> = kind
                .iter()
                .map(|k| if *k == 1 { 1.0 } else { 0.0 })
                .collect();
            for (e, value) in free.iter().zip(values) {
                weights[*e] = value;
            }
            let inside = weights.iter().all(|w| (-1e-9..=1.0 + 1e-9).contains(w))
                && (0..m).all(|s| {
                    let used: f64 = (0..n).filter(|e| contains(s, *e)).map(|e| weights[e]).sum();
                    used <= capacities[s] + 1e-9
                });
            if inside {
                best = best.max(weights.iter().sum());
            }
        }
    }
    best
}

/// Gaussian elimination with pivoting of rows (coefficients, right-hand side).
fn eliminated(mut rows: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let n = rows.len();
    for column in 0..n {
        let pivot =
            (column..n).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        if rows[pivot][column].abs() < 1e-9 {
            return None;
        }
        rows.swap(column, pivot);
        for other in 0..n {
            if other != column {
                let factor = rows[other][column] / rows[column][column];
                let source = rows[column].clone();
                for (value, from) in rows[other].iter_mut().zip(source) {
                    *value -= factor * from;
                }
            }
        }
    }
    Some((0..n).map(|i| rows[i][n] / rows[i][i]).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Prop. packing: the weights are feasible, the prices prove them near-optimal.
    #[test]
    fn weights_are_feasible_and_the_gap_closes((incidence, capacities) in programs()) {
        let packing = Packing::new(&incidence, capacities.clone()).unwrap();
        let solution = packing.solve(Tolerance::new(1e-7).unwrap(), None).unwrap();
        prop_assert!(packing.is_feasible(&solution.weights));
        for (s, capacity) in capacities.iter().enumerate() {
            let used: f64 = incidence.examples_of(s).iter().map(|e| solution.weights[*e as usize]).sum();
            prop_assert!(used <= capacity * (1.0 + 1e-14), "{used} > {capacity}");
        }
        let mass: f64 = solution.weights.iter().sum();
        prop_assert!((mass - solution.mass).abs() <= 1e-12 * (1.0 + mass));
        prop_assert!(solution.gap() <= 1e-7);
        prop_assert!(solution.mass <= solution.most * (1.0 + 1e-15));
    }

    /// Weak duality: no feasible weights beat the dual value of any prices.
    #[test]
    fn any_prices_bound_any_feasible_weights(
        (incidence, capacities) in programs(),
        raw in prop::collection::vec(0.0..1.0f64, 30),
        prices in prop::collection::vec(0.0..1.5f64, 12),
    ) {
        let packing = Packing::new(&incidence, capacities.clone()).unwrap();
        let mut weights: Vec<f64> = raw[..incidence.example_count()].to_vec();
        // Scaled down by the worst capacity of each example.
        for (s, capacity) in capacities.iter().enumerate() {
            let used: f64 = incidence.examples_of(s).iter().map(|e| weights[*e as usize]).sum();
            let share = (capacity / used.max(1e-300)).min(1.0);
            for e in incidence.examples_of(s) {
                weights[*e as usize] *= share;
            }
        }
        let value = packing.dual_value(&prices[..incidence.secret_count()]);
        prop_assert!(weights.iter().sum::<f64>() <= value * (1.0 + 1e-12));
    }

    /// K is stochastically smaller than the binomial of its count and hazard.
    #[test]
    fn the_binomial_of_the_hazard_dominates(rates in prop::collection::vec(0.0..1.0f64, 1..12)) {
        let profile = RateProfile::new(rates.clone()).unwrap();
        let count = profile.count().max(1);
        let rate = -(-profile.hazard() / count as f64).exp_m1();
        let (own, all) = (convolved(&rates), convolved(&vec![rate; count]));
        for k in 0..=count {
            let tail = |law: &[f64]| law.get(k..).unwrap_or(&[]).iter().sum::<f64>();
            prop_assert!(tail(&own) <= tail(&all) + 1e-12, "k = {k}");
        }
    }

    /// Rates are B w/Σw, at most 1, and sum to the batch size.
    #[test]
    fn rates_sum_to_the_batch(weights in prop::collection::vec(0.0..=1.0f64, 2..40), share in 0.01..0.99f64) {
        let mass: f64 = weights.iter().sum();
        prop_assume!(mass > 1e-3);
        let batch = share * mass;
        let rates = sampling_rates(&weights, batch).unwrap();
        prop_assert!(rates.iter().all(|rate| (0.0..=1.0).contains(rate)));
        prop_assert!((rates.iter().sum::<f64>() / batch - 1.0).abs() < 1e-12);
        prop_assert!(sampling_rates(&weights, mass * 1.0001).is_err());
    }
}

/// P(K = k) by the recursion over one draw after another.
fn convolved(rates: &[f64]) -> Vec<f64> {
    rates.iter().fold(vec![1.0], |law, rate| {
        (0..=law.len())
            .map(|k| {
                let stay = law.get(k).unwrap_or(&0.0) * (1.0 - rate);
                stay + k.checked_sub(1).map_or(0.0, |before| law[before] * rate)
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn tiny_programs_equal_the_best_vertex(
        pairs in prop::collection::vec((0u32..5, 0u32..3), 0..12),
        capacities in prop::collection::vec(0.0..3.0f64, 3),
    ) {
        let incidence = Incidence::new(5, 3, pairs).unwrap();
        let best = by_vertices(&incidence, &capacities);
        let packing = Packing::new(&incidence, capacities).unwrap();
        let solution = packing.solve(Tolerance::new(1e-9).unwrap(), None).unwrap();
        prop_assert!((solution.mass - best).abs() < 1e-7, "{} against {best}", solution.mass);
        prop_assert!((solution.most - best).abs() < 1e-7, "{} against {best}", solution.most);
    }
}

/// A program too large for the simplex method: `copies` of one cell of 6 examples and 4 secrets,
/// tied together by one more secret.
fn large(copies: u32) -> (Incidence, Vec<f64>) {
    let mut pairs = Vec::new();
    let mut capacities = Vec::new();
    for copy in 0..copies {
        let (e, s) = (6 * copy, 4 * copy);
        for (example, secret) in [
            (0, 0),
            (0, 1),
            (1, 1),
            (1, 2),
            (2, 2),
            (2, 0),
            (3, 3),
            (4, 3),
            (4, 0),
        ] {
            pairs.push((e + example, s + secret));
        }
        pairs.push((e + 5, 4 * copies));
        capacities.extend([1.0, 0.7, 1.0, 0.25]);
    }
    capacities.push(0.125 * f64::from(copies));
    (
        Incidence::new(6 * copies, 4 * copies + 1, pairs).unwrap(),
        capacities,
    )
}

#[test]
fn the_first_order_method_agrees_with_the_simplex_method() {
    let small = {
        let (incidence, capacities) = large(1);
        let packing = Packing::new(&incidence, capacities).unwrap();
        packing
            .solve(Tolerance::new(1e-10).unwrap(), None)
            .unwrap()
            .mass
    };
    // The cells are independent: the optimum is the sum of their optima.
    let (incidence, capacities) = large(400);
    let packing = Packing::new(&incidence, capacities).unwrap();
    let solution = packing.solve(Tolerance::new(1e-6).unwrap(), None).unwrap();
    assert!(solution.iterations > 0 && packing.is_feasible(&solution.weights));
    assert!((solution.mass / (400.0 * small) - 1.0).abs() < 2e-6);
    assert!(solution.most >= 400.0 * small * (1.0 - 1e-9));
}

#[test]
fn one_draw_per_example_and_no_capacity_are_the_two_ends() {
    let incidence = Incidence::new(4, 2, vec![(0, 0), (1, 0), (1, 1)]).unwrap();
    let tolerance = Tolerance::new(1e-9).unwrap();
    let free = Packing::new(&incidence, vec![f64::INFINITY, 2.0]).unwrap();
    assert_eq!(free.solve(tolerance, None).unwrap().weights, [1.0; 4]);
    let none = Packing::new(&incidence, vec![0.0, 0.0]).unwrap();
    assert_eq!(
        none.solve(tolerance, None).unwrap().weights,
        [0.0, 0.0, 1.0, 1.0]
    );
    assert!(Packing::new(&incidence, vec![-1.0, 0.0]).is_err());
    assert!(Packing::new(&incidence, vec![1.0]).is_err());
}

/// Hush!'s setting: secrets in `count` examples each at rate 20480/1.7e7, prior 1e-10.
fn hush(count: u32, posterior: f64, proof: Proof) -> f64 {
    let incidence = Incidence::new(count, 1, (0..count).map(|e| (e, 0)).collect()).unwrap();
    let rates = vec![20480.0 / 1.7e7; count as usize];
    let secrets = [secret(1e-10, posterior)];
    let plan = Protection {
        incidence: &incidence,
        secrets: &secrets,
        rates: &rates,
        steps: Steps::new(2000),
    };
    let noise = plan
        .least_noise(proof, Tolerance::new(1e-6).unwrap())
        .unwrap();
    let too_small = noise.too_small.unwrap().get();
    assert!(too_small < noise.sigma.get() && too_small > noise.sigma.get() * (1.0 - 1e-5));
    noise.sigma.get()
}

#[test]
fn the_noise_table_of_the_paper() {
    // 30-digit arithmetic rounded to five significant digits; the paper has the KL column only.
    for (count, posterior, tight, kl) in [
        (100, 2e-4, 2.0684, 73.296),
        (100, 1e-3, 1.8159, 30.991),
        (50, 2e-4, 1.1963, 36.653),
        (50, 1e-3, 1.0762, 15.508),
    ] {
        let found = hush(count, posterior, Proof::BlowUp);
        assert!((found - tight).abs() < 6e-5, "{count} {posterior}: {found}");
        let found = hush(count, posterior, Proof::KlFano);
        assert!((found - kl).abs() < 6e-4, "{count} {posterior}: {found}");
        let renyi = hush(count, posterior, Proof::RenyiFano);
        assert!(
            tight < renyi && renyi < 1.1 * tight,
            "{count} {posterior}: {renyi}"
        );
    }
}

#[test]
fn the_capacities_are_the_divergences_of_the_paper() {
    // Shared vectors kl_fano_*: KL(Bern(r) ‖ Bern(1e-10)).
    for (posterior, divergence) in [(2e-4, 0.002_701_751_649_018_310_5), (1e-3, 0.015_118_595_9)] {
        let found = secret(1e-10, posterior).divergence();
        assert!((found / divergence - 1.0).abs() < 1e-8, "{found}");
    }
}

/// 24 secrets with different rates, counts, priors and promises.
fn mixed() -> (Incidence, Vec<f64>, Vec<Secret>) {
    let mut pairs = Vec::new();
    let mut secrets = Vec::new();
    for s in 0..24u32 {
        for step in 0..3 + s % 7 {
            pairs.push(((7 * s + 11 * step) % 60, s));
        }
        let prior = [1e-10, 1e-6, 1e-3][s as usize % 3];
        secrets.push(secret(
            prior,
            prior.sqrt().sqrt() * (0.3 + 0.02 * f64::from(s)),
        ));
    }
    let rates = (0..60).map(|e| 0.002 * f64::from(e % 9)).collect();
    (Incidence::new(60, 24, pairs).unwrap(), rates, secrets)
}

#[test]
fn the_noise_is_the_largest_of_all_secrets_own() {
    let (incidence, rates, secrets) = mixed();
    let tolerance = Tolerance::new(1e-5).unwrap();
    for proof in [Proof::BlowUp, Proof::KlFano] {
        let steps = Steps::new(300);
        let plan = Protection {
            incidence: &incidence,
            secrets: &secrets,
            rates: &rates,
            steps,
        };
        let noise = plan.least_noise(proof, tolerance).unwrap();
        let own: Vec<f64> = (0..24)
            .map(|s| {
                let pairs = incidence.examples_of(s).iter().map(|e| (*e, 0)).collect();
                let single = Incidence::new(60, 1, pairs).unwrap();
                let plan = Protection {
                    incidence: &single,
                    secrets: &secrets[s..=s],
                    rates: &rates,
                    steps,
                };
                plan.least_noise(proof, tolerance).unwrap().sigma.get()
            })
            .collect();
        let largest = own.iter().copied().fold(0.0, f64::max);
        assert!(
            (noise.sigma.get() / largest - 1.0).abs() < 3e-5,
            "{proof:?}"
        );
        assert!((own[noise.binding.unwrap()] / largest - 1.0).abs() < 3e-5);
        // Every promise holds at that noise, each by its own bound.
        let certified = plan.certified(Some(noise.sigma)).unwrap();
        let posteriors = plan.posteriors(&certified, noise.sigma, tolerance).unwrap();
        for (s, posterior) in posteriors.iter().enumerate() {
            let bound = match proof {
                Proof::BlowUp => posterior.blow_up,
                _ => posterior.kl_fano,
            };
            assert!(
                bound <= secrets[s].posterior().get() * (1.0 + 1e-9),
                "{proof:?} {s}"
            );
            let tight = plan.posterior(s, noise.sigma, tolerance).unwrap();
            assert!(
                tight.lower.unwrap().get().get() <= posterior.kl_fano.min(posterior.renyi_fano)
            );
            assert!(tight.lower.unwrap().get().get() <= posterior.blow_up);
        }
    }
}

#[test]
fn a_prior_of_two_to_the_minus_256_is_an_ordinary_prior() {
    let incidence = Incidence::new(3, 1, vec![(0, 0), (1, 0), (2, 0)]).unwrap();
    let (prior, promise) = (2f64.powi(-256), 2f64.powi(-200));
    let secrets = [secret(prior, promise)];
    let rates = [0.01; 3];
    let plan = Protection {
        incidence: &incidence,
        secrets: &secrets,
        rates: &rates,
        steps: Steps::new(500),
    };
    let tolerance = Tolerance::new(1e-4).unwrap();
    let noise = plan.least_noise(Proof::BlowUp, tolerance).unwrap();
    let at = plan.posterior(0, noise.sigma, tolerance).unwrap();
    assert!(at.upper.unwrap().get().get() <= promise);
    let below = NoiseMultiplier::new(noise.sigma.get() * 0.8).unwrap();
    let broken = plan.posterior(0, below, tolerance).unwrap();
    assert!(broken.upper.unwrap().get().get() > promise);
}

/// The ratio of the two probabilities overflows, their divergence doesn't.
#[test]
fn the_least_priors_need_noise_too() {
    let incidence = Incidence::new(10, 1, (0..10).map(|e| (e, 0)).collect()).unwrap();
    let rates = [0.25; 10];
    let tolerance = Tolerance::new(1e-3).unwrap();
    for proof in [Proof::BlowUp, Proof::KlFano, Proof::RenyiFano] {
        let noise = |prior: f64| {
            let secrets = [secret(prior, 0.05)];
            let plan = Protection {
                incidence: &incidence,
                secrets: &secrets,
                rates: &rates,
                steps: Steps::new(1000),
            };
            let noise = plan.least_noise(proof, tolerance).unwrap();
            assert_eq!(noise.binding, Some(0), "{proof:?} {prior:e}");
            let at = plan.posterior(0, noise.sigma, tolerance).unwrap();
            assert!(at.upper.unwrap().get().get() <= 0.05 * (1.0 + 1e-9));
            noise.sigma.get()
        };
        let (normal, least) = (noise(1e-300), noise(1e-310));
        // A smaller prior is guessed less often, but hardly so here.
        assert!(
            least <= normal * 1.01 && least >= normal * 0.9,
            "{proof:?}: {normal} {least}"
        );
    }
}

#[test]
fn promises_without_room_are_refused() {
    for (prior, posterior) in [(0.0, 0.1), (0.1, 0.1), (0.2, 0.1), (0.5, 1.0)] {
        assert!(Secret::new(probability(prior), probability(posterior)).is_err());
    }
    // A number of examples over their divergence would be infinite.
    let refused = Secret::new(probability(1e-320), probability(1e-319)).unwrap_err();
    assert!(
        refused.to_string().starts_with("posterior must lie"),
        "{refused}"
    );
    let smallest = secret(1e-320, 1e-280);
    let incidence = Incidence::new(3, 1, vec![(0, 0), (1, 0), (2, 0)]).unwrap();
    let secrets = [smallest];
    let training = Training::new(&incidence, &secrets, 1.0, Steps::new(20)).unwrap();
    assert!(training.full_capacity().is_finite());
}

/// What no noise that is considered certifies is an error that names the secret and the proof; the largest one is tried.
#[test]
fn a_promise_that_no_noise_keeps_names_the_secret_and_the_proof() {
    let tolerance = Tolerance::new(1e-4).unwrap();
    let incidence = Incidence::new(2, 2, vec![(0, 0), (1, 1)]).unwrap();
    let plan = |secrets| Protection {
        incidence: &incidence,
        secrets,
        rates: &[1.0, 1.0],
        steps: Steps::new(1),
    };
    // 1/(2 σ²) nats: 6.2e-15 at 9e6, 1e-17 at 2e8.
    let near = secret(7.5e-19, 1e-15);
    let far = [near, secret(1e-20, 2e-18)];
    let kept = [near, near];
    let sigma = plan(&kept).noise_of(1, Proof::KlFano, tolerance);
    let sigma = sigma.unwrap().sigma.get();
    assert!((8.98e6..9e6).contains(&sigma), "{sigma}");
    for refused in [
        plan(&far).least_noise(Proof::KlFano, tolerance),
        plan(&far).noise_of(1, Proof::KlFano, tolerance),
    ] {
        let error = refused.unwrap_err();
        assert!(
            matches!(error, Error::OutOfReach { secret: 1, .. }),
            "{error}"
        );
        assert!(
            error
                .to_string()
                .contains("secret number 2 by Fano's inequality for KL"),
            "{error}"
        );
    }
    assert!(plan(&far).least_noise(Proof::BlowUp, tolerance).is_ok());
}

/// 60 secrets with promises from strict to lax, four to nine examples each, some shared.
fn uneven() -> (Incidence, Vec<Secret>) {
    let mut pairs = Vec::new();
    let mut secrets = Vec::new();
    for s in 0..60u32 {
        for step in 0..4 + s % 6 {
            pairs.push(((5 * s + 3 * step * (1 + s % 2)) % 240, s));
        }
        secrets.push(secret(1e-8, 1e-6 * 10f64.powf(f64::from(s % 4))));
    }
    (Incidence::new(240, 60, pairs).unwrap(), secrets)
}

#[test]
fn weights_and_noise_together_never_cost_more() {
    let (incidence, secrets) = uneven();
    let training = Training::new(&incidence, &secrets, 4.0, Steps::new(400)).unwrap();
    let (gap, tolerance) = (Tolerance::new(1e-4).unwrap(), Tolerance::new(1e-3).unwrap());
    // Without preprocessing every weight is 1; c is the least that allows it.
    let all = training.weigh(training.full_capacity(), gap, None).unwrap();
    assert!(all.solution.weights.iter().all(|w| *w >= 1.0));
    let most = training.noise(&all, Proof::BlowUp, tolerance).unwrap();
    let weighed = training
        .weigh(training.full_capacity() / 16.0, gap, None)
        .unwrap();
    let noise = training.noise(&weighed, Proof::BlowUp, tolerance).unwrap();
    assert!(weighed.solution.mass < all.solution.mass);
    let (joint, less) = training.jointly(&weighed, &noise, gap, tolerance).unwrap();
    let mass: f64 = joint.solution.weights.iter().sum();
    assert!(mass >= weighed.solution.mass * (1.0 - 1e-9), "{mass}");
    assert!(
        joint
            .solution
            .weights
            .iter()
            .all(|w| (0.0..=1.0).contains(w))
    );
    // Capacities in proportion to the divergence starve strict secrets: here they cost a
    // tenth of the noise and more.
    assert!(
        less.sigma.get() < 0.9 * noise.sigma.get(),
        "{less:?} {noise:?}"
    );
    assert!(less.sigma < most.sigma);
    let protection = training.protection(&joint.rates);
    let certified = protection.certified(Some(less.sigma)).unwrap();
    for (s, posterior) in protection
        .posteriors(&certified, less.sigma, tolerance)
        .unwrap()
        .iter()
        .enumerate()
    {
        assert!(posterior.blow_up <= secrets[s].posterior().get() * (1.0 + 1e-9));
    }
}

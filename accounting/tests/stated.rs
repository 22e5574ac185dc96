//! Steps of which only Rényi divergences are known: zCDP, divergences at some orders, the best of a random
//! number of runs. Never less than what a mechanism of that kind leaks, no more than other accountants say.

use proptest::prelude::*;
use reticent_accounting::calibrate::{Target, calibrate_steps};
use reticent_accounting::pld::{Profile, losses};
use reticent_accounting::rdp::{RdpCurve, Zcdp, epsilon_from_renyi};
use reticent_accounting::reconstruction::several::blow_up_of_several;
use reticent_accounting::trade_off::true_positive_rate;
use reticent_accounting::{
    Delta, Direction, Divergence, Epsilon, Error, GroupSize, MeanRepetitions, Mechanism, Method,
    Neighbours, NoiseMultiplier, Order, Plan, PrivacyLoss, Probability, Query, RepetitionShape,
    SamplingRate, Steps, Tolerance, UnitName, Upper,
};

const ADD_REMOVE: Query = Query::single(Neighbours::AddRemove);
const REPLACE: Query = Query::single(Neighbours::Replace);
const TIGHT: Tolerance = Tolerance::DEFAULT;

fn zcdp(rho: f64, xi: f64) -> Mechanism {
    Mechanism::Zcdp {
        rho: Divergence::new(rho).unwrap(),
        xi: Divergence::new(xi).unwrap(),
        neighbours: Neighbours::AddRemove,
    }
}

fn renyi(stated: &[(f64, f64)]) -> Mechanism {
    Mechanism::RenyiDp {
        orders: (stated.iter())
            .map(|(order, _)| Order::new(*order).unwrap())
            .collect(),
        divergences: (stated.iter())
            .map(|(_, divergence)| Divergence::new(*divergence).unwrap())
            .collect(),
        neighbours: Neighbours::AddRemove,
    }
}

fn gaussian(sigma: f64) -> Mechanism {
    Mechanism::Gaussian {
        noise_multiplier: NoiseMultiplier::new(sigma).unwrap(),
    }
}

fn dp_sgd(sigma: f64, rate: f64, steps: u64) -> Mechanism {
    let sigma = NoiseMultiplier::new(sigma).unwrap();
    Mechanism::dp_sgd(sigma, SamplingRate::new(rate).unwrap(), Steps::new(steps))
}

fn best(each: Mechanism, mean: f64, shape: f64) -> Mechanism {
    Mechanism::RepeatAndSelect {
        each: Box::new(each),
        mean: MeanRepetitions::new(mean).unwrap(),
        shape: RepetitionShape::new(shape).unwrap(),
    }
}

fn approximate(epsilon: f64, delta: f64) -> Mechanism {
    Mechanism::ApproxDp {
        epsilon: Epsilon::new(epsilon).unwrap(),
        delta: Delta::new(delta).unwrap(),
        neighbours: Neighbours::AddRemove,
    }
}

fn sequence(parts: &[Mechanism]) -> Mechanism {
    Mechanism::Sequence {
        parts: parts.to_vec(),
    }
}

fn group(neighbours: Neighbours, records: u32) -> Query {
    Query {
        neighbours,
        group: GroupSize::new(records).unwrap(),
    }
}

/// The upper end of ε, the larger of the directions; nothing is known from below.
fn epsilon(run: &Mechanism, query: Query, delta: f64) -> f64 {
    let each = losses(run, query).unwrap().into_iter().map(|loss| {
        let found = loss.epsilon(Delta::new(delta).unwrap(), TIGHT).unwrap();
        assert!(found.bounds.lower.is_none());
        found.bounds.upper.unwrap().get().get()
    });
    each.fold(0.0, f64::max)
}

/// The lower end of ε of a run with a law.
fn at_least(run: &Mechanism, query: Query, delta: f64) -> f64 {
    let each = losses(run, query).unwrap().into_iter().map(|loss| {
        let found = loss.epsilon(Delta::new(delta).unwrap(), TIGHT).unwrap();
        found.bounds.lower.unwrap().get().get()
    });
    each.fold(0.0, f64::max)
}

fn repeat(times: u64, each: Mechanism) -> Mechanism {
    Mechanism::Repeat {
        times: Steps::new(times),
        each: Box::new(each),
    }
}

/// Two ways to the same formula.
#[test]
fn zcdp_is_converted_at_the_best_order() {
    for (rho, times) in [(0.5, 1), (1e-8, 3), (2e-3, 100), (40.0, 1), (1e6, 1)] {
        for delta in [1e-2, 1e-5, 1e-12] {
            let run = repeat(times, zcdp(rho, 0.0));
            let total = Zcdp::new(Upper::new(rho * times as f64)).unwrap();
            let formula = *total.epsilon(Delta::new(delta).unwrap()).unwrap().get();
            let found = epsilon(&run, ADD_REMOVE, delta);
            let close = (found - formula.get()).abs() <= 1e-6 * formula.get() + 1e-12;
            assert!(close, "{rho} {times} {delta}: {found} {formula}");
        }
    }
}

/// `dp_accounting` 0.6.0, RdpAccountant with 671 orders up to 512: its ε, which ours may undercut by what
/// its grid of orders, its zCDP of integer orders and its δ̂ by divergences give away.
#[test]
fn no_more_than_another_accountant() {
    let run = dp_sgd(1.1, 0.01, 1000);
    let whole = f64::INFINITY;
    for (what, mechanism, delta, theirs, least) in [
        ("zcdp", zcdp(0.5, 0.0), 1e-5, 4.72842553386144, 0.999),
        ("offset", zcdp(0.5, 0.1), 1e-5, 4.82842553386144, 0.999),
        (
            "ten",
            repeat(10, zcdp(0.01, 0.0)),
            1e-6,
            2.1430435237536676,
            0.999,
        ),
        (
            "geometric",
            best(gaussian(2.0), 10.0, 1.0),
            1e-5,
            4.315070675741091,
            0.999,
        ),
        (
            "logarithmic",
            best(gaussian(2.0), 10.0, 0.0),
            1e-5,
            3.6385361294019987,
            0.999,
        ),
        (
            "binomial",
            best(gaussian(2.0), 10.0, 0.5),
            1e-5,
            3.9977196063054343,
            0.999,
        ),
        (
            "poisson",
            best(gaussian(2.0), 10.0, whole),
            1e-5,
            4.90782338312844,
            0.8,
        ),
        (
            "dp-sgd",
            best(run.clone(), 20.0, 1.0),
            1e-5,
            3.747867414053152,
            0.999,
        ),
        (
            "dp-sgd poisson",
            best(run.clone(), 20.0, whole),
            1e-5,
            5.345940256688756,
            0.7,
        ),
        (
            "sequence",
            sequence(&[best(zcdp(0.125, 0.0), 10.0, 1.0), run]),
            1e-5,
            5.0189376872695455,
            0.999,
        ),
    ] {
        let ours = epsilon(&mechanism, ADD_REMOVE, delta);
        assert!(
            ours <= theirs * (1.0 + 1e-9) && ours >= least * theirs,
            "{what}: {ours} {theirs}"
        );
    }
}

/// A Gaussian of σ is ½σ⁻²-zCDP: what is said of that holds for the Gaussian, for every question.
#[test]
fn what_zcdp_implies_holds_for_the_gaussian() {
    for sigma in [0.7, 2.0, 9.0] {
        let (known, stated) = (gaussian(sigma), zcdp(0.5 / (sigma * sigma), 0.0));
        let queries = [ADD_REMOVE, REPLACE, group(Neighbours::AddRemove, 5)];
        for query in queries {
            for delta in [0.3, 1e-2, 1e-6] {
                let (low, high) = (
                    at_least(&known, query, delta),
                    epsilon(&stated, query, delta),
                );
                assert!(low <= high && high < 2.0 * low + 0.5, "{low} {high}");
            }
            for (of_known, of_stated) in losses(&known, query)
                .unwrap()
                .iter()
                .zip(losses(&stated, query).unwrap())
            {
                for t in [-2.0, -0.1, 0.0, 0.4, 3.0] {
                    let at = |loss: &PrivacyLoss| loss.hockey_stick(t, TIGHT).unwrap().bounds;
                    assert!(
                        at(of_known).lower.unwrap().get().get()
                            <= at(&of_stated).upper.unwrap().get().get()
                    );
                }
            }
            for fpr in [1e-6, 0.01, 0.5] {
                let fpr = Probability::new(fpr).unwrap();
                let at = |run| true_positive_rate(run, query, fpr, TIGHT).unwrap().bounds;
                let (truth, bound) = (at(&known).lower.unwrap(), at(&stated).upper.unwrap());
                assert!(truth.get() <= bound.get() && fpr < *bound.get());
            }
        }
        let prior = Probability::new(1e-6).unwrap();
        let guess = |run: &Mechanism| {
            let (loss, _) = PrivacyLoss::of_guesses(run, GroupSize::ONE).unwrap();
            loss.blow_up(prior, TIGHT).unwrap().bounds
        };
        assert!(guess(&known).lower.unwrap().get() <= guess(&stated).upper.unwrap().get());
    }
}

/// Divergences of a run, at some orders: ε is no less than the run's and, with orders close enough, that of
/// its whole Rényi curve. Chains of neighbours at twice the order and more.
#[test]
fn divergences_at_orders_stand_for_their_run() {
    let run = dp_sgd(1.1, 0.01, 1000);
    let orders: Vec<Order> = (0..200)
        .map(|i| Order::new(1.0 + 0.05 * 1.06f64.powi(i)).unwrap())
        .take_while(|order| order.get() < 60.0)
        .collect();
    let mut stated = vec![0.0f64; orders.len()];
    let mut by_curve = 0.0f64;
    for loss in losses(&run, ADD_REMOVE).unwrap() {
        let curve = RdpCurve::of(&loss, &orders).unwrap();
        for (most, divergence) in stated.iter_mut().zip(curve.divergences()) {
            *most = most.max(*divergence.get());
        }
        let found = loss.epsilon_by_rdp(Delta::new(1e-5).unwrap()).unwrap().0;
        by_curve = by_curve.max(found.get().get());
    }
    let points: Vec<(f64, f64)> = orders.iter().map(|o| o.get()).zip(stated).collect();
    let (low, high) = (
        at_least(&run, ADD_REMOVE, 1e-5),
        epsilon(&renyi(&points), ADD_REMOVE, 1e-5),
    );
    assert!(low < high && high >= by_curve * (1.0 - 1e-9) && high < 1.001 * by_curve);
    // What few orders say is no less, and a point above the chord of its neighbours says nothing.
    let few: Vec<(f64, f64)> = points.iter().step_by(9).copied().collect();
    assert!(epsilon(&renyi(&few), ADD_REMOVE, 1e-5) >= high);
    let mut noisy = points.clone();
    noisy[20].1 *= 3.0;
    noisy[30].1 = f64::INFINITY;
    assert!(epsilon(&renyi(&noisy), ADD_REMOVE, 1e-5) < 1.002 * high);
    // Two links are a replacement, four two of them.
    for query in [REPLACE, group(Neighbours::Replace, 2)] {
        let bound = epsilon(&renyi(&points), query, 1e-5);
        assert!(bound >= at_least(&run, query, 1e-5) && bound.is_finite());
    }
    // Of a straight line of divergences the chain is that of zCDP.
    let line: Vec<(f64, f64)> = (1..4000)
        .map(|i| (1.0 + f64::from(i) * 0.02, 0.0))
        .collect();
    let line: Vec<(f64, f64)> = line.iter().map(|(a, _)| (*a, 0.01 * a)).collect();
    for k in [1, 2, 3, 7] {
        let query = group(Neighbours::AddRemove, k);
        let (chain, formula) = (
            epsilon(&renyi(&line), query, 1e-3),
            epsilon(&zcdp(0.01, 0.0), query, 1e-3),
        );
        assert!(
            chain >= formula * (1.0 - 1e-9) && chain < 1.001 * formula,
            "{k}: {chain} {formula}"
        );
    }
}

/// Beside steps with laws the moments add up, and what loses infinitely much with some chance goes to δ.
#[test]
fn stated_steps_compose_with_known_ones() {
    let (sigma, delta) = (3.0, 1e-5);
    let stated = zcdp(0.5 / (sigma * sigma), 0.0);
    let sampled = dp_sgd(1.3, 0.02, 200);
    let approximate = approximate(0.3, 4e-6);
    let pure = Mechanism::PureDp {
        epsilon: Epsilon::new(0.5).unwrap(),
        neighbours: Neighbours::AddRemove,
    };
    let laplace = Mechanism::Laplace {
        scale: NoiseMultiplier::new(2.0).unwrap(),
    };
    for beside in [sampled, approximate.clone(), pure, laplace, gaussian(4.0)] {
        let low = at_least(
            &sequence(&[beside.clone(), gaussian(sigma)]),
            ADD_REMOVE,
            delta,
        );
        let high = epsilon(
            &sequence(&[beside.clone(), stated.clone()]),
            ADD_REMOVE,
            delta,
        );
        assert!(low <= high && high < 1.6 * low, "{beside:?}: {low} {high}");
    }
    // Less δ than is lost at once.
    let run = sequence(&[approximate, stated]);
    assert!(epsilon(&run, ADD_REMOVE, 4e-6).is_infinite());
}

#[test]
fn what_is_not_implied_is_refused() {
    let other = Mechanism::Zcdp {
        rho: Divergence::new(0.5).unwrap(),
        xi: Divergence::ZERO,
        neighbours: Neighbours::Replace,
    };
    for run in [other.clone(), best(other, 3.0, 1.0)] {
        let refused = losses(&run, ADD_REMOVE).unwrap_err();
        assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
    }
    let mut plan = Plan::new(
        zcdp(0.5, 0.0),
        UnitName::new("record").unwrap(),
        Delta::new(1e-5).unwrap(),
    );
    plan.gaussian_slack = Some(Delta::new(1e-6).unwrap());
    let refused = plan.guarantees().unwrap_err().to_string();
    assert!(refused.contains("Rényi"), "{refused}");
    // No row claims to come from a law.
    plan.gaussian_slack = None;
    plan.group = GroupSize::new(3).unwrap();
    plan.prior = Some(Probability::new(1e-6).unwrap());
    let rows = plan.guarantees().unwrap();
    assert!(rows.len() > 3);
    for row in rows {
        assert!(
            !matches!(row.method, Method::Pld | Method::BlowUp),
            "{row:?}"
        );
        assert!(row.engine.is_none() && row.epsilon.is_none_or(|ends| ends.lower.is_none()));
    }
    let bare = Mechanism::NonPrivate { why: "x".into() };
    assert!(epsilon(&best(bare, 3.0, 1.0), ADD_REMOVE, 0.1).is_infinite());
    assert!(epsilon(&renyi(&[(2.0, 0.3)]), group(Neighbours::AddRemove, 3), 0.1).is_infinite());
}

/// A divergence says nothing of higher orders: beside a step that is known at all of them, too.
#[test]
fn what_is_not_implied_beyond_the_last_order_is_unknown() {
    let known = renyi(&[(2.0, 0.3)]);
    let both = Mechanism::Sequence {
        parts: vec![known.clone(), zcdp(1e-9, 0.0)],
    };
    // (K + ln C − ln δ)/(c − 1) at c = 2, where C = 1/4; any higher order would say far less.
    let least = 0.3 - 4f64.ln() - 1e-6f64.ln();
    for run in [known, both] {
        let found = epsilon(&run, ADD_REMOVE, 1e-6);
        assert!(
            found >= least - 1e-9 && found < least + 1e-3,
            "{found} {least}"
        );
    }
}

#[test]
fn stated_steps_are_calibrated() {
    let target = Target::Epsilon {
        query: ADD_REMOVE,
        epsilon: Epsilon::new(1.0).unwrap(),
        delta: Delta::new(1e-5).unwrap(),
    };
    let found = calibrate_steps(
        |times| Mechanism::Repeat {
            times,
            each: Box::new(zcdp(1e-3, 0.0)),
        },
        target,
        TIGHT,
    )
    .unwrap();
    let at = |steps: Steps| epsilon(&repeat(steps.get(), zcdp(1e-3, 0.0)), ADD_REMOVE, 1e-5);
    assert!(at(found.answer) <= 1.0 + 1e-6 && at(found.fails.unwrap()) > 1.0 - 1e-6);
}

/// Outcomes of one run from the worst to the best.
const OUTCOMES: usize = 4;

/// E[x^K].
fn generating(x: f64, mean: f64, shape: f64) -> f64 {
    if shape.is_infinite() {
        return (mean * (x - 1.0)).exp();
    }
    let success = success(mean, shape);
    let inside = 1.0 - (1.0 - success) * x;
    if shape <= 0.0 {
        inside.ln() / success.ln()
    } else {
        (inside.powf(-shape) - 1.0) / (success.powf(-shape) - 1.0)
    }
}

/// γ by bisection of its own formula for the mean.
fn success(mean: f64, shape: f64) -> f64 {
    let mean_at = |g: f64| {
        if shape <= 0.0 {
            (1.0 / g - 1.0) / -g.ln()
        } else {
            shape * (1.0 - g) / (g * (1.0 - g.powf(shape)))
        }
    };
    let (mut low, mut high) = (1e-9, 1.0 - 1e-9);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if mean_at(middle) > mean {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// The law of the best of K runs, and of there being none.
fn best_of(law: &[f64], mean: f64, shape: f64) -> Vec<f64> {
    let mut below = 0.0;
    let mut best = vec![generating(0.0, mean, shape)];
    for p in law {
        let next = (below + p).min(1.0);
        best.push(generating(next, mean, shape) - generating(below, mean, shape));
        below = next;
    }
    best
}

fn divergence(p: &[f64], q: &[f64], order: f64) -> f64 {
    let sum: f64 = (p.iter().zip(q))
        .filter(|(p, _)| **p > 0.0)
        .map(|(p, q)| p.powf(order) * q.powf(1.0 - order))
        .sum();
    sum.ln() / (order - 1.0)
}

proptest! {
    /// The best of a random number of runs of a finite mechanism, exactly, against what is said of it when
    /// only the divergences of one run are known; 200 cases by the stated seed.
    #[test]
    fn the_best_of_many_runs_leaks_no_more_than_is_said(
        weights in proptest::collection::vec(0.01f64..1.0, 2 * OUTCOMES),
        sharp in 0.3f64..4.0,
        mean in 1.2f64..30.0,
        kind in 0usize..4,
    ) {
        let law = |weights: &[f64]| -> Vec<f64> {
            let sharp: Vec<f64> = weights.iter().map(|w| w.powf(sharp)).collect();
            let total: f64 = sharp.iter().sum();
            sharp.iter().map(|w| w / total).collect()
        };
        let (p, q) = (law(&weights[..OUTCOMES]), law(&weights[OUTCOMES..]));
        let shape = [0.0, 0.5, 1.0, f64::INFINITY][kind];
        let stated: Vec<(f64, f64)> = [1.05, 1.3, 2.0, 4.0, 10.0, 40.0]
            .map(|order| (order, divergence(&p, &q, order).max(divergence(&q, &p, order))))
            .to_vec();
        let run = best(renyi(&stated), mean, shape);
        let loss = PrivacyLoss::of(&run, ADD_REMOVE, Direction::Remove).unwrap();
        let (p, q) = (best_of(&p, mean, shape), best_of(&q, mean, shape));
        for t in [0.0f64, 0.3, 1.0, 2.5] {
            let bound = loss.delta(Epsilon::new(t).unwrap(), TIGHT).unwrap().bounds.upper.unwrap();
            for (p, q) in [(&p, &q), (&q, &p)] {
                let truth: f64 = p.iter().zip(q.iter()).map(|(p, q)| (p - t.exp() * q).max(0.0)).sum();
                prop_assert!(truth <= bound.get().get() + 1e-12, "{} {}", truth, bound.get());
            }
        }
        for order in [1.2, 2.0, 9.0] {
            let ends = RdpCurve::of(&loss, &[Order::new(order).unwrap()]).unwrap();
            let truth = divergence(&p, &q, order).max(divergence(&q, &p, order));
            prop_assert!(truth <= *ends.divergences()[0].get() * (1.0 + 1e-9) + 1e-12);
        }
    }
}

/// The best output of Gaussian runs, seen through cells of the line (which see less): the run's own profile
/// enters where the number of runs is Poisson.
#[test]
fn the_best_of_gaussian_runs_leaks_no_more_than_is_said() {
    let sigma = 2.0;
    let cells = |mean: f64| -> Vec<f64> {
        // Φ by its midpoint rule: the masses are those of a law on the cells.
        let density = |i: i32| (-0.5 * (0.01 * f64::from(i) - mean / sigma).powi(2)).exp();
        let masses: Vec<f64> = (-800..800)
            .map(|i| {
                (20 * i..20 * (i + 1))
                    .map(|j| density(j) / 20.0)
                    .sum::<f64>()
            })
            .collect();
        let total: f64 = masses.iter().sum();
        masses.iter().map(|mass| mass / total).collect()
    };
    let (p, q) = (cells(1.0), cells(0.0));
    for (mean, shape) in [
        (10.0, 0.0),
        (10.0, 1.0),
        (3.0, f64::INFINITY),
        (40.0, f64::INFINITY),
    ] {
        let run = best(gaussian(sigma), mean, shape);
        let loss = PrivacyLoss::of(&run, ADD_REMOVE, Direction::Remove).unwrap();
        let (p, q) = (best_of(&p, mean, shape), best_of(&q, mean, shape));
        for t in [0.0f64, 0.5, 1.0, 2.0, 3.0] {
            let bound = loss.delta(Epsilon::new(t).unwrap(), TIGHT).unwrap().bounds;
            let bound = bound.upper.unwrap().get().get();
            for (p, q) in [(&p, &q), (&q, &p)] {
                let pairs = p.iter().zip(q.iter());
                let truth: f64 = pairs.map(|(p, q)| (p - t.exp() * q).max(0.0)).sum();
                assert!(truth <= bound, "{mean} {shape} {t}: {truth} {bound}");
            }
        }
    }
}

/// One run alone is that run; more of them cost more.
#[test]
fn a_single_run_costs_nothing_more() {
    let alone = epsilon(&best(zcdp(0.5, 0.0), 1.0, 1.0), ADD_REMOVE, 1e-5);
    let plain = epsilon(&zcdp(0.5, 0.0), ADD_REMOVE, 1e-5);
    assert!((alone / plain - 1.0).abs() < 1e-6, "{alone} {plain}");
    let mut before = plain;
    for mean in [2.0, 10.0, 1e3, 1e6] {
        let more = epsilon(&best(zcdp(0.5, 0.0), mean, 1.0), ADD_REMOVE, 1e-5);
        assert!(more > before);
        before = more;
    }
}

/// Orders below those at which a search usually begins.
#[test]
fn a_single_order_close_to_one_gives_a_bound() {
    for above in [5e-4, 9e-4, 1e-6, 1e-12] {
        let order = 1.0 + above;
        let found = epsilon(&renyi(&[(order, 0.001)]), ADD_REMOVE, 1e-5);
        let delta = Delta::new(1e-5).unwrap();
        let plain = epsilon_from_renyi(Order::new(order).unwrap(), Upper::new(0.001), delta);
        let plain = plain.unwrap().get().get();
        assert!(
            found <= plain * (1.0 + 1e-9) && found >= plain * 0.5,
            "{above}: {found} {plain}"
        );
    }
}

/// A limit at the ε that a mechanism states holds, and who learns nothing guesses no better: no rounding is added.
#[test]
fn a_statement_is_no_looser_than_stated() {
    for (epsilon, delta) in [(1.0, 1e-6), (0.1, 1e-9), (3.3, 0.0)] {
        let run = Mechanism::ApproxDp {
            epsilon: Epsilon::new(epsilon).unwrap(),
            delta: Delta::new(delta).unwrap(),
            neighbours: Neighbours::Replace,
        };
        let unit = UnitName::new("record").unwrap();
        let plan = Plan {
            neighbours: Neighbours::Replace,
            ..Plan::new(run, unit, Delta::new(delta).unwrap())
        };
        let upper = plan.epsilon().unwrap().upper.unwrap().get().get();
        assert!(upper <= epsilon && upper > 0.999 * epsilon, "{upper}");
    }
    let nothing = PrivacyLoss::of(&sequence(&[]), ADD_REMOVE, Direction::Remove).unwrap();
    let prior = Probability::new(1e-6).unwrap();
    let after = nothing.blow_up(prior, TIGHT).unwrap().bounds;
    assert_eq!(after.upper.map(|upper| *upper.get()), Some(prior));
}

/// What is lost without bound is seen by who never guesses wrong: one run of the best of several shows it.
#[test]
fn what_is_lost_without_bound_is_guessed_at_a_prior_of_zero() {
    let (never, infinite) = (Probability::new(0.0).unwrap(), f64::INFINITY);
    let leaky = best(approximate(1.0, 0.01), 3.0, 1.0);
    for (run, most) in [
        (leaky.clone(), 1.0),
        (best(leaky, 2.0, 0.0), 1.0),
        (zcdp(infinite, 0.0), 1.0),
        (zcdp(0.1, infinite), 1.0),
        (best(approximate(1.0, 0.0), 3.0, 1.0), 0.0),
        (best(gaussian(2.0), 3.0, infinite), 0.0),
        (zcdp(0.5, 0.1), 0.0),
        (renyi(&[(1.5, 0.2), (2.0, infinite)]), 0.0),
    ] {
        let loss = PrivacyLoss::of(&run, ADD_REMOVE, Direction::Remove).unwrap();
        let alone = loss.blow_up(never, TIGHT).unwrap().bounds.upper.unwrap();
        let several = blow_up_of_several(&[loss], never, TIGHT).unwrap();
        for found in [alone, several] {
            assert!(
                (found.get().get() - most).abs() < 1e-12,
                "{run:?}: {found:?}"
            );
        }
        let unit = UnitName::new("record").unwrap();
        let mut plan = Plan::new(run, unit, Delta::new(1e-6).unwrap());
        plan.prior = Some(never);
        let rows = plan.guarantees().unwrap();
        let fano = rows.iter().find(|row| row.method == Method::RenyiFano);
        let posterior = fano.unwrap().posterior.unwrap().upper.unwrap();
        assert!((posterior.get().get() - most).abs() < 1e-12, "{fano:?}");
    }
}

/// A finite divergence leaves nothing to an infinite ε but what is lost without bound elsewhere.
#[test]
fn at_an_infinite_epsilon_only_infinite_losses_are_left() {
    let infinite = Epsilon::new(f64::INFINITY).unwrap();
    let leaky = approximate(1.0, 0.01);
    for (run, left) in [
        (zcdp(0.1, 0.0), 0.0),
        (renyi(&[(1.5, 0.2), (2.0, f64::INFINITY)]), 0.0),
        (best(gaussian(2.0), 5.0, 1.0), 0.0),
        (best(gaussian(2.0), 5.0, f64::INFINITY), 0.0),
        (sequence(&[zcdp(0.1, 0.0), leaky.clone()]), 0.01),
        (best(leaky, 5.0, 1.0), 1.0),
        (zcdp(f64::INFINITY, 0.0), 1.0),
    ] {
        for loss in losses(&run, ADD_REMOVE).unwrap() {
            let ends = loss.delta(infinite, TIGHT).unwrap().bounds;
            let most = ends.upper.unwrap().get().get();
            assert!((left..=left + 1e-12).contains(&most), "{run:?}: {most}");
        }
    }
}

/// A stated δ has no room: of a smaller one no finite ε is known.
#[test]
fn a_profile_promises_no_smaller_delta_than_its_loss() {
    let stated = Delta::new(1e-5).unwrap();
    let profile =
        Profile::at_deltas(&approximate(1.0, 1e-5), ADD_REMOVE, &[stated], TIGHT).unwrap();
    let upper = |delta: f64| profile.epsilon(Delta::new(delta).unwrap()).unwrap().upper;
    assert!((upper(1e-5).unwrap().get().get() - 1.0).abs() < 1e-9);
    assert!(upper(1e-5 * (1.0 - 5e-13)).is_none());
    let delta = profile.delta(Epsilon::new(1.0).unwrap()).unwrap();
    assert!(*delta.upper.unwrap().get() >= stated);
}

/// What has a known limit at high orders, at low ones alone, or beside outcomes that nothing bounds, was infinite or one.
#[test]
fn limits_of_divergences_are_known() {
    for xi in [0.0, 0.5] {
        let loss = PrivacyLoss::of(&zcdp(0.0, xi), ADD_REMOVE, Direction::Remove).unwrap();
        let found = loss.epsilon(Delta::new(0.0).unwrap(), TIGHT).unwrap();
        let found = found.bounds.upper.unwrap().get().get();
        assert!((found - xi).abs() < 1e-12, "{xi}: {found}");
    }
    let low = best(renyi(&[(1.0005, 1e-6)]), 2.0, 1.0);
    assert!(epsilon(&low, ADD_REMOVE, 0.5).is_finite());
    let both = sequence(&[zcdp(0.5, 0.0), approximate(1.0, 1e-6)]);
    let loss = PrivacyLoss::of(&both, ADD_REMOVE, Direction::Remove).unwrap();
    let (found, _) = loss.renyi_fano(Probability::new(0.01).unwrap()).unwrap();
    // D_α ≤ α/2 alone gives 0.1246; an ε of one adds at most a factor e.
    assert!(
        found.get().get() > 0.1245 && found.get().get() < 0.5,
        "{found:?}"
    );
}

/// Orders far above those of the search, of which the highest is the best, and which made it panic.
#[test]
fn an_order_far_above_the_usual_ones_gives_a_bound() {
    for order in [8e6, 1e7, 1e10, 1e100, 1e300] {
        let found = epsilon(&renyi(&[(order, 0.1)]), ADD_REMOVE, 1e-5);
        assert!((found - 0.1).abs() <= 2e-5, "{order}: {found}");
    }
    let spread = epsilon(&renyi(&[(1e10, 0.1), (1e12, 5.0)]), ADD_REMOVE, 1e-5);
    assert!((spread - 0.1).abs() <= 2e-5, "{spread}");
}

fn zeroed(mechanism: Mechanism) -> Mechanism {
    let text = serde_json::to_string(&mechanism).unwrap();
    serde_json::from_str(&text.replace("add-remove", "zero-out")).unwrap()
}

/// Two contents differ by two steps, by way of the zeroed record as by way of the removed one.
#[test]
fn a_promise_for_zeroed_records_holds_twice_for_replaced_ones() {
    let pure = Mechanism::PureDp {
        epsilon: Epsilon::new(1.0).unwrap(),
        neighbours: Neighbours::AddRemove,
    };
    let selection = Mechanism::ExponentialMechanism {
        epsilon: Epsilon::new(1.0).unwrap(),
        neighbours: Neighbours::AddRemove,
    };
    for stated in [
        pure.clone(),
        selection,
        approximate(0.5, 1e-7),
        zcdp(0.01, 0.1),
        renyi(&[(2.0, 0.3), (64.0, 0.9)]),
        best(pure.clone(), 3.0, 1.0),
        sequence(&[pure.clone(), zcdp(0.01, 0.0)]),
    ] {
        let upper = |run: &Mechanism| {
            let loss = &losses(run, group(Neighbours::Replace, 2)).unwrap()[0];
            let found = loss.epsilon(Delta::new(1e-5).unwrap(), TIGHT).unwrap();
            *found.bounds.upper.unwrap().get()
        };
        let [removed, replaced] = [upper(&stated), upper(&zeroed(stated.clone()))];
        assert!(removed == replaced, "{stated:?}");
    }
    assert!((epsilon(&zeroed(pure), REPLACE, 0.0) - 2.0).abs() < 1e-12);
    // Of records that are removed, a promise for zeroed ones says nothing.
    assert!(losses(&zeroed(zcdp(0.5, 0.0)), ADD_REMOVE).is_err());
}

/// ε + (1 + η)ε where δ is zero, as Theorem 2 of Papernot and Steinke says at high orders.
#[test]
fn the_best_of_many_pure_runs_is_pure() {
    let pure = |epsilon: f64| Mechanism::PureDp {
        epsilon: Epsilon::new(epsilon).unwrap(),
        neighbours: Neighbours::AddRemove,
    };
    for (shape, mean) in [(1.0, 5.0), (0.0, 100.0), (0.5, 1e6)] {
        let most = (2.0 + shape) * 0.7;
        let found = epsilon(&best(pure(0.7), mean, shape), ADD_REMOVE, 0.0);
        assert!(found <= most * (1.0 + 1e-9), "{mean} {shape}: {found}");
        // Two outcomes, the better of probability e^−h and e^−h−ε.
        for h in [0.8f64, 3.0, 10.0] {
            let all_worse = |p: f64| generating(1.0 - p, mean, shape);
            let [p, q] = [(-h).exp(), (-h - 0.7).exp()];
            let better = ((1.0 - all_worse(p)) / (1.0 - all_worse(q))).ln();
            let worse = (all_worse(q) / all_worse(p)).ln();
            assert!(
                found >= better.max(worse) * (1.0 - 1e-6),
                "{mean} {shape} {h}: {found}"
            );
        }
    }
    let many = epsilon(&best(pure(0.7), 1e9, 1.0), ADD_REMOVE, 0.0);
    assert!((many / 2.1 - 1.0).abs() < 1e-9, "{many}");
    // One run alone is that run, and no δ asks for more than its largest loss.
    let alone = epsilon(&best(pure(0.7), 1.0, 1.0), ADD_REMOVE, 0.0);
    assert!((alone / 0.7 - 1.0).abs() < 1e-9, "{alone}");
    let far = epsilon(&best(pure(0.7), 1e9, 1.0), ADD_REMOVE, 1e-300);
    assert!(far <= many, "{far} {many}");
    // A Poisson number: no more than ε + μ, with δ(0) = tanh(ε/2) of one run.
    let poisson = epsilon(&best(pure(0.7), 5.0, f64::INFINITY), ADD_REMOVE, 0.0);
    assert!(
        (poisson / (0.7 + 5.0 * 0.35f64.tanh()) - 1.0).abs() < 1e-2,
        "{poisson}"
    );
    assert!(epsilon(&best(zcdp(0.5, 0.0), 3.0, 1.0), ADD_REMOVE, 0.0).is_infinite());
    assert!(epsilon(&best(gaussian(2.0), 3.0, 1.0), ADD_REMOVE, 0.0).is_infinite());
}

//! The dominance lemma, neighbours, groups and rates: random vectors of clipped records, noise,
//! and a grid of cells as the adversary's view.

use super::finite::{
    blow_up, blow_up_of, cells, delta_of, dp_sgd, epsilon_of, excess, gaussian, least_delta_of,
    loss, mix, product, query, subsets,
};
use proptest::prelude::*;
use reticent_accounting::{Direction, Mechanism, Neighbours};

/// A record's clipped gradient in the plane: length at most one.
fn gradient() -> impl Strategy<Value = (f64, f64)> {
    (0.0f64..=1.0, 0.0f64..std::f64::consts::TAU).prop_map(|(r, a)| (r * a.cos(), r * a.sin()))
}

fn cuts() -> impl Strategy<Value = Vec<f64>> {
    proptest::collection::vec(-3.0f64..3.0, 1..4).prop_map(|mut cuts| {
        cuts.sort_by(f64::total_cmp);
        cuts
    })
}

/// The law of one noisy step over a grid of cells: each subset of the records moves the mean.
fn step(gradients: &[(f64, f64)], rate: f64, sigma: f64, grid: &(Vec<f64>, Vec<f64>)) -> Vec<f64> {
    let parts: Vec<(f64, Vec<f64>)> = subsets(gradients.len(), rate)
        .into_iter()
        .map(|(weight, members)| {
            let x: f64 = members.iter().map(|i| gradients[*i].0).sum();
            let y: f64 = members.iter().map(|i| gradients[*i].1).sum();
            let law = product(&cells(x, sigma, &grid.0), &cells(y, sigma, &grid.1));
            (weight, law)
        })
        .collect();
    let parts: Vec<(f64, &[f64])> = parts.iter().map(|(w, law)| (*w, law.as_slice())).collect();
    mix(&parts)
}

fn twice(law: Vec<f64>, steps: u64) -> Vec<f64> {
    if steps == 1 { law } else { product(&law, &law) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Replace of k independently sampled records: N(K, σ²) against N(−K, σ²), both directions.
    #[test]
    fn replaced_records_are_dominated(
        here in proptest::collection::vec(gradient(), 1..4),
        there in proptest::collection::vec(gradient(), 3),
        rate in 0.05f64..1.0,
        sigma in 0.4f64..3.0,
        grid in (cuts(), cuts()),
        steps in 1u64..3,
        epsilon in 0.0f64..2.0,
    ) {
        let p = twice(step(&here, rate, sigma, &grid), steps);
        let q = twice(step(&there[..here.len()], rate, sigma, &grid), steps);
        let pair = loss(&dp_sgd(sigma, rate, steps), query(Neighbours::Replace, here.len() as u32), Direction::Remove);
        let promised = delta_of(&pair, epsilon) + 1e-12;
        prop_assert!(excess(&p, &q, epsilon) <= promised);
        prop_assert!(excess(&q, &p, epsilon) <= promised);
    }

    /// Add/remove and zero-out of k records: N(K, σ²) against N(0, σ²), each direction by its own
    /// pair; what stays in the data shifts both alike.
    #[test]
    fn removed_records_are_dominated(
        gone in proptest::collection::vec(gradient(), 1..4),
        rate in 0.05f64..1.0,
        sigma in 0.4f64..3.0,
        grid in (cuts(), cuts()),
        steps in 1u64..3,
        epsilon in 0.0f64..2.0,
        zeroed: bool,
    ) {
        let with = twice(step(&gone, rate, sigma, &grid), steps);
        let without = twice(step(&[], rate, sigma, &grid), steps);
        let neighbours = if zeroed { Neighbours::ZeroOut } else { Neighbours::AddRemove };
        let grouped = query(neighbours, gone.len() as u32);
        let run = dp_sgd(sigma, rate, steps);
        let promised = |direction| delta_of(&loss(&run, grouped, direction), epsilon) + 1e-12;
        prop_assert!(excess(&with, &without, epsilon) <= promised(Direction::Remove));
        prop_assert!(excess(&without, &with, epsilon) <= promised(Direction::Add));
    }

    /// Several copies inside one record are clipped together and count once.
    #[test]
    fn copies_inside_one_record_count_once(
        copies in proptest::collection::vec(gradient(), 2..6),
        rate in 0.05f64..1.0,
        sigma in 0.4f64..3.0,
        grid in (cuts(), cuts()),
        epsilon in 0.0f64..2.0,
    ) {
        let (x, y) = copies.iter().fold((0.0, 0.0), |sum, g| (sum.0 + g.0, sum.1 + g.1));
        let norm = f64::hypot(x, y).max(1.0);
        let (here, there) = ((x / norm, y / norm), (-x / norm, -y / norm));
        let (p, q) = (step(&[here], rate, sigma, &grid), step(&[there], rate, sigma, &grid));
        let pair = loss(&dp_sgd(sigma, rate, 1), query(Neighbours::Replace, 1), Direction::Remove);
        prop_assert!(excess(&p, &q, epsilon) <= delta_of(&pair, epsilon) + 1e-12);
    }

    /// A lower rate, fewer records or more noise never cost more.
    #[test]
    fn bounds_are_monotone_in_rate_records_and_noise(
        rate in 0.01f64..0.9,
        more in 1.01f64..1.5,
        records in 1u32..4,
        sigma in 0.5f64..3.0,
        steps in 1u64..30,
        epsilon in 0.0f64..1.0,
        replaced: bool,
    ) {
        let neighbours = if replaced { Neighbours::Replace } else { Neighbours::ZeroOut };
        let pair = |rate: f64, records: u32, sigma: f64| {
            loss(&dp_sgd(sigma, rate, steps), query(neighbours, records), Direction::Remove)
        };
        let at = |rate: f64, records: u32, sigma: f64| delta_of(&pair(rate, records, sigma), epsilon);
        // Both ends are certified: a lower one here is below an upper one there.
        let here = least_delta_of(&pair(rate, records, sigma), epsilon);
        prop_assert!(here <= at((rate * more).min(1.0), records, sigma));
        prop_assert!(here <= at(rate, records + 1, sigma));
        prop_assert!(here <= at(rate, records, sigma / more));
    }
}

/// Tight: gradients that all point one way and a half-space attain the pair, in both relations.
#[test]
fn a_half_space_attains_the_pair() {
    let (rate, sigma, records) = (0.3, 1.2, 3usize);
    let along = vec![(1.0, 0.0); records];
    let against = vec![(-1.0, 0.0); records];
    for (other, neighbours) in [
        (against, Neighbours::Replace),
        (Vec::new(), Neighbours::ZeroOut),
    ] {
        let pair = loss(
            &dp_sgd(sigma, rate, 1),
            query(neighbours, 3),
            Direction::Remove,
        );
        for epsilon in [0.0, 0.4, 1.1] {
            let best = (-4000..4000)
                .map(|i| {
                    let cut = (vec![f64::from(i) * 1e-3], Vec::new());
                    let (p, q) = (
                        step(&along, rate, sigma, &cut),
                        step(&other, rate, sigma, &cut),
                    );
                    excess(&p, &q, epsilon)
                })
                .fold(0.0, f64::max);
            let promised = delta_of(&pair, epsilon);
            assert!(
                best <= promised && best > promised * (1.0 - 1e-5),
                "{best} {promised}"
            );
        }
    }
}

/// The pair dominates as a trade-off too, not only at one ε: B of the cells stays below B.
#[test]
fn the_blow_up_of_a_view_stays_below_the_pairs() {
    let grid = ((-20..20).map(|i| f64::from(i) * 0.2).collect(), vec![0.1]);
    let (rate, sigma) = (0.4, 0.9);
    let p = step(&[(0.8, 0.6), (1.0, 0.0)], rate, sigma, &grid);
    let q = step(&[], rate, sigma, &grid);
    let pair = loss(
        &dp_sgd(sigma, rate, 1),
        query(Neighbours::ZeroOut, 2),
        Direction::Remove,
    );
    for x in [1e-6, 1e-3, 0.05, 0.3, 0.9] {
        assert!(blow_up(&p, &q, x) <= blow_up_of(&pair, x) + 1e-12);
    }
}

/// Golden of the mixtures of k records, ε(1e-5): add/remove and replace.
#[test]
fn groups_cost_what_the_mixture_costs() {
    for (records, rate, sigma, removed, replaced) in
        [(5, 0.01, 2.0, 3.73, 7.51), (20, 0.01, 4.0, 7.80, 17.73)]
    {
        let run = dp_sgd(sigma, rate, 1000);
        let at = |neighbours| {
            epsilon_of(
                &loss(&run, query(neighbours, records), Direction::Remove),
                1e-5,
            )
        };
        assert!((at(Neighbours::AddRemove) - removed).abs() < 0.005);
        assert!((at(Neighbours::Replace) - replaced).abs() < 0.005);
    }
}

/// Trap: "DP implies confidentiality" with the accountant's add/remove number.
#[test]
fn add_remove_read_as_replace_promises_half() {
    let run = dp_sgd(2.42632, 0.1, 100);
    let at =
        |neighbours, delta| epsilon_of(&loss(&run, query(neighbours, 1), Direction::Remove), delta);
    assert!((at(Neighbours::AddRemove, 1e-5) - 1.81105).abs() < 1e-5);
    assert!((at(Neighbours::Replace, 1e-5) - 3.49540).abs() < 1e-5);
    assert!((at(Neighbours::Replace, 1e-4) - 3.01693).abs() < 1e-5);
    // One release, gradients opposed: the true δ at the promised ε is far above the promised one.
    let plain = gaussian(2.0);
    let removed = loss(&plain, query(Neighbours::AddRemove, 1), Direction::Remove);
    let promised = epsilon_of(&removed, 1e-3);
    let truth = (0..4000)
        .map(|i| {
            let cut = [f64::from(i) * 1e-2 - 10.0];
            excess(&cells(1.0, 2.0, &cut), &cells(-1.0, 2.0, &cut), promised)
        })
        .fold(0.0, f64::max);
    assert!(truth > 30.0 * 1e-3, "{truth}");
    // A sequence of nothing promises everything, whatever the neighbours.
    let nothing = Mechanism::Sequence { parts: Vec::new() };
    assert!(
        epsilon_of(
            &loss(&nothing, query(Neighbours::Replace, 1), Direction::Remove),
            0.0
        ) <= 0.0
    );
}

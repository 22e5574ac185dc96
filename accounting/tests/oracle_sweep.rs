//! A slice of `examples/oracle_sweep`: every mechanism, relation and direction asked of every engine and
//! of an oracle that shares no code with them.
//!
//! Seed 20 261 122, one configuration a cell, three or six where there is more to get wrong; every one
//! must hold, there is no false-alarm rate.

#[path = "../examples/oracle_sweep/check.rs"]
mod check;
#[path = "../examples/oracle_sweep/draw.rs"]
mod draw;
#[path = "../examples/oracle_sweep/oracle/mod.rs"]
pub(crate) mod oracle;

use check::{By, Cell, Row};
use draw::{Chance, Kind};
use reticent_accounting::{
    Delta, Direction, Epsilon, GroupSize, Mechanism, Neighbours, PrivacyLoss, Query, Tolerance,
};

const SEED: u64 = 20_261_122;

/// Configurations a cell.
const fn each(kind: Kind) -> u64 {
    match kind {
        Kind::Allocated => 6,
        Kind::Fixed | Kind::Truncated | Kind::Exponential | Kind::Shuffled => 3,
        _ => 1,
    }
}

#[test]
fn every_engine_meets_an_independent_oracle() {
    let mut chance = Chance(SEED);
    let (mut widths, mut rests, mut checks, mut answered) = (Vec::new(), Vec::new(), 0, [0; 3]);
    for kind in Kind::ALL {
        for neighbours in [
            Neighbours::AddRemove,
            Neighbours::ZeroOut,
            Neighbours::Replace,
        ] {
            for direction in Direction::BOTH {
                let cell = Cell {
                    kind,
                    neighbours,
                    direction,
                };
                let mut row = Row::default();
                for _ in 0..each(kind) {
                    row.ask(cell, &mut chance).unwrap();
                }
                assert!(row.wrong.is_empty(), "{cell:?}: {}", row.wrong.join("\n"));
                assert!(row.by.iter().all(|tally| tally.wrong == 0));
                for by in By::ALL {
                    let tally = &row.by[by as usize];
                    assert!(
                        tally.answered <= tally.questions
                            && tally.questions + row.refused <= each(kind)
                    );
                    answered[by as usize] += tally.answered;
                    checks += tally.checks;
                }
                rests.extend(row.rests);
                // Where one pair is both ends of the truth.
                if matches!(kind, Kind::Poisson | Kind::SampledLaplace | Kind::Pure) {
                    widths.extend(row.widths);
                }
            }
        }
    }
    assert!(
        checks > 150 && answered.iter().all(|n| *n > 20),
        "{answered:?}"
    );
    widths.sort_by(f64::total_cmp);
    rests.sort_by(f64::total_cmp);
    // Half of them to 1e-3: a looser oracle would not see much.
    assert!(widths[widths.len() / 2] < 1e-3, "{widths:?}");
    // What the ends rest on, of every mechanism.
    assert!(rests[rests.len() / 2] < 1e-3, "{rests:?}");
    assert!(rests[rests.len() * 3 / 4] < 1e-2, "{rests:?}");
}

/// (kε, 0) holds for k records of a promise (ε, 0), and no mechanism attains it: of two records
/// δ(0) is at most 1 − e^{−ε}, where (2ε, 0) alone would allow tanh ε.
#[test]
fn promises_for_groups_are_no_lower_ends() {
    let one = 1.0f64;
    for (neighbours, group) in [(Neighbours::AddRemove, 2), (Neighbours::Replace, 1)] {
        let promise = Mechanism::PureDp {
            epsilon: Epsilon::new(one).unwrap(),
            neighbours: Neighbours::AddRemove,
        };
        let query = Query {
            neighbours,
            group: GroupSize::new(group).unwrap(),
        };
        let loss = PrivacyLoss::of(&promise, query, Direction::Remove).unwrap();
        let tolerance = Tolerance::new(1e-6).unwrap();
        let delta = loss
            .delta(Epsilon::new(0.0).unwrap(), tolerance)
            .unwrap()
            .bounds;
        let upper = delta.upper.unwrap().get().get();
        assert!((upper - one.tanh()).abs() < 1e-9, "{upper}");
        assert!(
            delta
                .lower
                .is_none_or(|low| low.get().get() <= 1.0 - (-one).exp())
        );
        let epsilon = loss
            .epsilon(Delta::new(0.7).unwrap(), tolerance)
            .unwrap()
            .bounds;
        // δ(0) may be below 0.7 already.
        assert!(epsilon.lower.is_none_or(|low| low.get().get() <= 0.0));
    }
}

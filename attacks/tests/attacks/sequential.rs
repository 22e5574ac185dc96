//! One promise tested canary by canary, and false alarms of every audit by e-values.

use crate::rank_audit;
use crate::simulated::{KINDS, LEVELS, rate};
use reticent_accounting::Epsilon;
use reticent_attacks::evalue::{
    Beliefs, CanaryGuesses, EValueAudit, EValueProcess, Pool, SequentialTest,
};
use reticent_attacks::exposure::RankAudit;

fn audit(delta: f64) -> EValueAudit {
    let rank = RankAudit {
        copies: 1,
        ..rank_audit::audit(&[1], delta)
    };
    EValueAudit::beside(&rank, 50, 6)
}

/// Guesses of all tempers: right with this belief.
fn guesses(audit: &EValueAudit, own: f64) -> CanaryGuesses {
    let mut belief = vec![(1.0 - own) / 49.0; 50];
    belief[0] = own;
    let pool = if audit.delta.get() > 0.0 {
        audit.pool
    } else {
        Pool::NONE
    };
    let beliefs = Beliefs::full(&belief, pool).unwrap();
    vec![beliefs.guess(own).unwrap(); audit.tempers.len()]
}

/// The test of one level is that of the process, secret by secret, at δ = 0 and δ > 0.
#[test]
fn a_level_is_rejected_when_the_process_rejects_it() {
    for delta in [0.0, 1e-5] {
        let audit = audit(delta);
        for epsilon in [0.0, 0.7, 2.0, 3.5] {
            let level = Epsilon::new(epsilon).unwrap();
            let mut test = SequentialTest::new(&audit, level).unwrap();
            let mut process = EValueProcess::new(&audit).unwrap();
            let mut highest = 0.0_f64;
            for own in [0.5, 0.01, 0.9, 0.001, 0.8, 0.97] {
                highest = highest.max(test.reveal(guesses(&audit, own)).unwrap());
                process.reveal(guesses(&audit, own)).unwrap();
                assert_eq!(test.rejected_after().is_some(), process.rejects(level));
                assert!((highest - process.ln_evalue(level)).abs() < 1e-9);
                assert_eq!(test.rejected_after().is_some(), highest >= test.wanted());
            }
            let more = test.reveal(guesses(&audit, 0.5));
            assert_eq!(more.is_err(), delta > 0.0);
        }
    }
}

/// Once rejected, always rejected: what is revealed later takes nothing back.
#[test]
fn a_rejection_stays() {
    let audit = audit(0.0);
    let mut test = SequentialTest::new(&audit, Epsilon::new(1.0).unwrap()).unwrap();
    for _ in 0..3 {
        test.reveal(guesses(&audit, 0.99)).unwrap();
    }
    let after = test.rejected_after();
    assert!(after.is_some());
    for _ in 0..30 {
        test.reveal(guesses(&audit, 0.0)).unwrap();
    }
    assert_eq!(test.rejected_after(), after);
}

/// Every kind of `examples/false_alarms`, 1 000 runs a level, seed 5: α in at most
/// α + 4.5 √(α/runs) of them, .082 (a right test fails one of 49 cells in 1e-4 of its seeds). With
/// 20 000 runs a row the rates stand in benches/results/evalues.md.
#[test]
fn false_alarms_of_every_kind() {
    let runs = 1_000;
    for kind in KINDS {
        for epsilon in LEVELS {
            let rate = rate(kind, epsilon, runs, 5);
            let most = kind.alpha + 4.5 * (kind.alpha / f64::from(runs)).sqrt();
            assert!(rate <= most, "{}: {rate} at {epsilon}", kind.name);
        }
    }
}

/// Not vacuous: of a mechanism of ε = 3 the promise of a third as much is rejected in a third of the runs or
/// more, and the boldest bet on a sum rejects ε itself about as often as it may.
#[test]
fn a_broken_promise_is_found() {
    for kind in KINDS {
        let found = crate::simulated::rate_against(kind, 3.0, 1.0, 200, 6);
        assert!(found >= 0.2, "{}: {found}", kind.name);
    }
    let sums = KINDS
        .into_iter()
        .find(|kind| kind.name.contains("sum"))
        .unwrap();
    let errs = rate(sums, 2.0, 2_000, 7);
    assert!(errs >= 0.03, "{errs}");
}

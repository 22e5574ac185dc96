//! The shared vectors of attacks: `VECTORS.md` names the test that holds each of them to its number;
//! those that have no better place are here.

use reticent_accounting::Epsilon;
use reticent_accounting::redaction::Redaction;
use reticent_attacks::membership::ScoreSet;
use std::collections::BTreeSet;
use std::path::Path;

/// Golden, cp-08: the maximum of T independent 95 % bounds is wrong somewhere with probability
/// 1 − 0.95^T; at a T-th of the level it stays below 5 %.
#[test]
fn uncorrected_bounds_add_up() {
    for (tests, expected) in [(10, 0.401_263_060_761_621_3), (100, 0.994_079_470_779_666)] {
        let wrong = |each: f64| 1.0 - (1.0 - each).powi(tests);
        assert!((wrong(0.05) - expected).abs() < 1e-9);
        assert!(wrong(0.05 / f64::from(tests)) < 0.05);
    }
}

/// Golden, gdp-03: the scores of a Gaussian mechanism at μ have the area Φ(μ/√2), by the
/// quantiles (i + 1/2)/n on each side.
#[test]
fn areas_of_gaussians() {
    let n = 4000;
    let quantile = |p: f64| {
        // Bisection on the law of the normal distribution.
        let (mut low, mut high) = (-9.0, 9.0);
        for _ in 0..80 {
            let middle = 0.5 * (low + high);
            let below = 0.5 * libm::erfc(-middle / std::f64::consts::SQRT_2);
            if below < p {
                low = middle
            } else {
                high = middle
            }
        }
        low
    };
    let others: Vec<f64> = (0..n)
        .map(|i| quantile((f64::from(i) + 0.5) / f64::from(n)))
        .collect();
    for (mu, area, accuracy) in [
        (0.2, 0.556_231_458_009_142_4, 0.539_827_837_277_029),
        (1.0, 0.760_249_938_906_523_3, 0.691_462_461_274_013_1),
        (2.0, 0.921_350_396_474_857_4, 0.841_344_746_068_542_9),
    ] {
        let members = others.iter().map(|s| s + mu).collect();
        let set = ScoreSet::new(members, others.clone()).unwrap();
        let found = set.area(crate::membership::level(0.95), 0).unwrap();
        assert!((found.estimate - area).abs() < 2e-4, "{mu}: {found:?}");
        let roc = set.roc();
        let best = roc.iter().map(|p| 0.5 * (1.0 + p.tpr - p.fpr));
        let best = best.fold(0.0, f64::max);
        assert!((best - accuracy).abs() < 3e-4, "{mu}: {best}");
    }
}

/// Golden, conf-01: ln(1 + γ(e^ε − 1)).
#[test]
fn amplification_by_redaction() {
    for (epsilon, gamma, expected) in [
        (1.0, 0.1, 0.158_565_078_740_429_1),
        (2.0, 0.1, 0.494_028_708_044_178_87),
        (1.0, 0.5, 0.620_114_506_958_277_5),
        (1.0, 0.0, 0.0),
    ] {
        let redaction = Redaction::single_policy(gamma.try_into().unwrap());
        let got = redaction.amplified(Epsilon::new(epsilon).unwrap()).get();
        assert!((got - expected).abs() < 1e-12, "{epsilon} {gamma}: {got}");
    }
}

/// Whether a file defines a test: a function below a `#[test]`, properties included.
fn is_test(link: &str) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let Some((path, name)) = link.rsplit_once("::") else {
        return false;
    };
    let text = std::fs::read_to_string(root.join(path)).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let begins = format!("fn {name}(");
    lines.iter().enumerate().any(|(at, line)| {
        let before = &lines[at.saturating_sub(3)..at];
        line.starts_with(&begins) && before.contains(&"#[test]")
    })
}

/// Names of the vectors, and what is wrong with their rows.
fn read(table: &str) -> (BTreeSet<&str>, Vec<String>) {
    let (mut ids, mut problems) = (BTreeSet::new(), Vec::new());
    for line in table.lines() {
        let cells: Vec<&str> = line.split(" | ").collect();
        let [id, _, tests] = cells.as_slice() else {
            continue;
        };
        let Some(id) = id.strip_prefix("| ").filter(|id| id.contains('-')) else {
            continue;
        };
        if !ids.insert(id) {
            problems.push(format!("{id}: twice"));
        }
        let links: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        if links.is_empty() {
            problems.push(format!("{id}: no test"));
        }
        let missing = links.into_iter().filter(|link| !is_test(link));
        problems.extend(missing.map(|link| format!("{id}: there is no test {link}")));
    }
    (ids, problems)
}

#[test]
fn every_vector_has_its_test() {
    let (ids, problems) = read(include_str!("../../VECTORS.md"));
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(ids.len(), 55);
}

#[test]
fn a_missing_test_is_noticed() {
    let here = "attacks/tests/attacks/vectors.rs";
    let table = format!(
        "| a-1 | x | `{here}::a_missing_test_is_noticed` |\n| a-2 | x | `{here}::read` |\n| a-2 | x | none |\n"
    );
    let (ids, problems) = read(&table);
    assert_eq!(ids.len(), 2);
    let wanted = [
        format!("a-2: there is no test {here}::read"),
        "a-2: twice".to_owned(),
        "a-2: no test".to_owned(),
    ];
    assert_eq!(problems, wanted);
}

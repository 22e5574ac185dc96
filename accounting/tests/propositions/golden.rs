//! CRT's published numbers, in the papers' convention and by definition.

use super::finite::{delta, dp_sgd, epsilon, gaussian, loss, query, rate};
use reticent_accounting::redaction::Redaction;
use reticent_accounting::{
    Base, Convention, Delta, Direction, Guarantee, Method, Neighbours, Notion, Plan, Tolerance,
    UnitName,
};

/// The rows of a redacted plan.
fn rows(run: reticent_accounting::Mechanism, wish: f64, gamma: f64) -> Vec<Guarantee> {
    let mut plan = Plan::new(
        run,
        UnitName::new("sentence").unwrap(),
        Delta::new(wish).unwrap(),
    );
    plan.redaction = Some(Redaction::single_policy(rate(gamma)));
    plan.tolerance = Tolerance::new(1e-9).unwrap();
    plan.guarantees().unwrap()
}

fn stranger(rows: &[Guarantee], convention: Convention, method: Method, base: Option<Base>) -> f64 {
    let row = rows.iter().find(|row| {
        row.notion == Notion::BayesianConfidentiality
            && row.convention == convention
            && row.method == method
            && row.base == base
    });
    row.unwrap().epsilon.unwrap().upper.unwrap().get().get()
}

/// The notebook: (2, 1e-5) at q = 0.1, T = 100, γ = 0.1, calibrated by the authors to σ = 2.42632.
#[test]
fn the_notebook_of_crt() {
    let rows = rows(dp_sgd(2.42632, 0.1, 100), 1e-5, 0.1);
    let paper = stranger(
        &rows,
        Convention::Paper,
        Method::Proposition6,
        Some(Base::Rdp),
    );
    assert!((paper - 0.374).abs() < 0.002, "{paper}");
    let exact = stranger(&rows, Convention::Paper, Method::Pld, None);
    assert!((exact - 0.3049).abs() < 1e-4, "{exact}");
    let strict = stranger(&rows, Convention::Definition, Method::Pld, None);
    assert!((strict - 1.0794).abs() < 1e-4, "{strict}");
    // The authors' own conversion from Rényi orders gives ε(δ/γ) = 1.71218 and prints 0.374388.
    let authors = Redaction::single_policy(rate(0.1)).amplified(epsilon(1.71218));
    assert!((authors.get() - 0.374_388).abs() < 1e-5, "{authors}");
    assert!(paper < authors.get());
}

/// Fig. 6's point: a plain Gaussian at (1, 8e-5), γ = 0.1. The paper prints 0.12.
#[test]
fn the_point_of_figure_six() {
    // Calibrated by Rényi orders to (1, 8e-5): σ = 3.56264.
    let sigma = 3.562_643_383;
    let by_renyi = rows(gaussian(sigma), 8e-5, 0.1);
    let pair = loss(
        &gaussian(sigma),
        query(Neighbours::AddRemove, 1),
        Direction::Remove,
    );
    let (at, _) = pair.epsilon_by_rdp(delta(8e-5)).unwrap();
    assert!((at.get().get() - 1.0).abs() < 1e-6);
    let found = stranger(
        &by_renyi,
        Convention::Paper,
        Method::Proposition6,
        Some(Base::Rdp),
    );
    assert!((found - 0.1172).abs() < 1e-4, "{found}");
    assert_eq!(format!("{found:.2}"), "0.12");
    let amplified = |at: f64| {
        Redaction::single_policy(rate(0.1))
            .amplified(epsilon(at))
            .get()
    };
    // Calibrated exactly: 0.1124, and the naive δ gives 0.1586.
    let sigma = 3.241_122_277_4;
    let pair = loss(
        &gaussian(sigma),
        query(Neighbours::AddRemove, 1),
        Direction::Remove,
    );
    let at = pair
        .epsilon(delta(8e-5), Tolerance::new(1e-9).unwrap())
        .unwrap();
    assert!((at.bounds.upper.unwrap().get().get() - 1.0).abs() < 1e-6);
    let exact = stranger(
        &rows(gaussian(sigma), 8e-5, 0.1),
        Convention::Paper,
        Method::Pld,
        None,
    );
    assert!((exact - 0.112_39).abs() < 1e-5, "{exact}");
    assert!((amplified(1.0) - 0.1586).abs() < 1e-4);
}

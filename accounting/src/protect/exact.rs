//! Solves small packing programs by the simplex method, weights and prices each from their own
//! program. The certificate doesn't rely on either result.

use super::program::{Packing, Solution};
use good_lp::{
    Expression, ProblemVariables, Solution as _, SolverModel, constraint, default_solver, variable,
};

/// Larger programs are left to the first-order method.
const MOST_PAIRS: usize = 2_000;
const MOST_ROWS: usize = 300;

/// Returns weights and prices of a small program; `None` if the program is large or the simplex
/// method gives up.
pub(crate) fn solve(packing: &Packing<'_>) -> Option<Solution> {
    let incidence = packing.incidence;
    let rows = incidence.example_count().max(incidence.secret_count());
    if incidence.pairs() > MOST_PAIRS || rows > MOST_ROWS {
        return None;
    }
    let mut weights = weights(packing)?;
    let prices = packing.priced_out(prices(packing)?);
    packing.made_feasible(&mut weights, &packing.order());
    Some(Solution {
        mass: packing.mass(&weights),
        weights,
        most: packing.dual_value(&prices),
        prices,
        iterations: 0,
    })
}

/// Solves max Σ w under the capacities.
fn weights(packing: &Packing<'_>) -> Option<Vec<f64>> {
    let incidence = packing.incidence;
    let mut variables = ProblemVariables::new();
    let weights: Vec<_> = (0..incidence.example_count())
        .map(|_| variables.add(variable().min(0.0).max(1.0)))
        .collect();
    let objective: Expression = weights.iter().sum();
    let mut model = variables.maximise(objective).using(default_solver);
    for (secret, capacity) in packing.capacities.iter().enumerate() {
        let examples = incidence.examples_of(secret);
        let used: Expression = examples.iter().map(|e| weights[*e as usize]).sum();
        model = model.with(constraint!(used <= *capacity));
    }
    let solved = model.solve().ok()?;
    Some(weights.iter().map(|w| solved.value(*w)).collect())
}

/// Solves min Σ b_j y_j + Σ z_i subject to z_i + Σ_{j∋i} y_j ≥ 1.
fn prices(packing: &Packing<'_>) -> Option<Vec<f64>> {
    let incidence = packing.incidence;
    let mut variables = ProblemVariables::new();
    let prices: Vec<_> = (0..incidence.secret_count())
        .map(|_| variables.add(variable().min(0.0).max(1.0)))
        .collect();
    let excess: Vec<_> = (0..incidence.example_count())
        .map(|_| variables.add(variable().min(0.0).max(1.0)))
        .collect();
    let paid = prices.iter().zip(&packing.capacities).map(|(y, b)| *b * *y);
    let objective = paid.sum::<Expression>() + excess.iter().sum::<Expression>();
    let mut model = variables.minimise(objective).using(default_solver);
    for (example, over) in excess.iter().enumerate() {
        let secrets = incidence.secrets_of(example);
        let price: Expression = secrets.iter().map(|s| prices[*s as usize]).sum();
        model = model.with(constraint!(price + *over >= 1.0));
    }
    let solved = model.solve().ok()?;
    Some(prices.iter().map(|y| solved.value(*y).max(0.0)).collect())
}

//! Solves large packing programs by a primal-dual hybrid gradient method with reflected Halpern
//! steps.
//!
//! One step from z = (w, y): w⁺ = clamp(w + τ_i(1 − Σ_{j∋i} y_j), 0, 1), then y⁺ = (y +
//! σ_j(Σ_{i∋j}(2w⁺ − w)_i − b_j))₊, with the diagonal steps τ_i = 1/(ω d_i) and σ_j = ω/k_j of d_i
//! secrets per example and k_j examples per secret, for which the iteration is nonexpansive (Pock
//! and Chambolle 2011). The step is reflected and averaged with the point of the last restart
//! (Halpern; Lu and Yang 2024). The iteration is restarted when its own residual has fallen, and ω
//! is balanced at each restart. The result is certified independently of the iteration: weights
//! made feasible, and prices y ≥ 0 with their dual value.

use super::program::{Packing, Solution};

/// Conditions that end the search.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stop {
    /// The relative gap between mass and dual value.
    pub(crate) gap: f64,
    /// The most iterations.
    pub(crate) iterations: usize,
    /// A mass that is sufficient, or that is out of reach once the dual value lies below it.
    pub(crate) enough: Option<f64>,
}

impl Stop {
    fn says(&self, best: &Best) -> bool {
        let decided = |mass| best.mass >= mass || best.most < mass;
        best.gap() <= self.gap || self.enough.is_some_and(decided)
    }
}

/// Fewer pairs than this aren't worth a second thread.
const PAIRS_PER_THREAD: usize = 200_000;
/// Iterations before the gap is evaluated for the first time.
const FIRST_CHECK: usize = 40;
/// The share by which the count of iterations grows between evaluations of the gap.
const CHECK_GROWTH: f64 = 0.12;

/// The point, the anchor and the step sizes.
struct State {
    weights: Vec<f64>,
    reflected: Vec<f64>,
    anchor_weights: Vec<f64>,
    prices: Vec<f64>,
    anchor_prices: Vec<f64>,
    /// ω: a small value moves the weights faster, a large one the prices.
    balance: f64,
}

/// Solves a packing program to a certified gap, starting from prices and weights that may be far
/// from the solution.
pub(crate) fn solve(packing: &Packing<'_>, start: Option<&Solution>, stop: Stop) -> Solution {
    let cuts = Cuts::new(packing);
    let mut state = State::new(packing, start);
    let order = packing.order();
    let mut best = Best::new(packing);
    best.consider(packing, &state, &order);
    let (mut inner, mut next_check) = (0usize, FIRST_CHECK);
    let (mut at_restart, mut before) = (f64::INFINITY, f64::INFINITY);
    let mut done = 0;
    while !stop.says(&best) && done < stop.iterations {
        let share = (inner + 1) as f64 / (inner + 2) as f64;
        let residual = state.step(packing, &cuts, share);
        inner += 1;
        done += 1;
        if inner == 1 {
            at_restart = residual;
        }
        let fallen = residual <= 0.2 * at_restart;
        let turned = residual <= 0.8 * at_restart && residual > before;
        let long = inner as f64 >= 0.36 * done as f64 && inner > FIRST_CHECK;
        before = residual;
        if done >= next_check {
            best.consider(packing, &state, &order);
            next_check = done + (done as f64 * CHECK_GROWTH) as usize + 1;
        }
        if inner > 8 && (fallen || turned || long) {
            state.restart(packing);
            inner = 0;
            before = f64::INFINITY;
        }
    }
    best.solution(done)
}

impl State {
    fn new(packing: &Packing<'_>, start: Option<&Solution>) -> Self {
        let examples = packing.incidence.example_count();
        let (weights, prices) = match start {
            Some(solution) => (solution.weights.clone(), solution.prices.clone()),
            None => (vec![0.0; examples], vec![0.0; packing.capacities.len()]),
        };
        let capacity: f64 = packing.capacities.iter().map(|b| b * b).sum();
        let balance = if capacity > 0.0 {
            (examples as f64 / capacity).sqrt().clamp(1e-4, 1e4)
        } else {
            1.0
        };
        Self {
            reflected: weights.clone(),
            anchor_weights: weights.clone(),
            weights,
            anchor_prices: prices.clone(),
            prices,
            balance,
        }
    }

    /// Takes one reflected, anchored step and returns the squared length of the plain one.
    fn step(&mut self, packing: &Packing<'_>, cuts: &Cuts, share: f64) -> f64 {
        let balance = self.balance;
        let prices = &self.prices;
        let moved_weights = in_parts(
            &cuts.examples,
            [&mut self.weights, &mut self.reflected],
            &self.anchor_weights,
            |first, [weights, reflected], anchors| {
                move_weights(
                    packing, prices, first, weights, reflected, anchors, balance, share,
                )
            },
        );
        let reflected = &self.reflected;
        let mut unused = vec![0.0; self.prices.len()];
        let moved_prices = in_parts(
            &cuts.secrets,
            [&mut self.prices, &mut unused],
            &self.anchor_prices,
            |first, [prices, _], anchors| {
                move_prices(packing, reflected, first, prices, anchors, balance, share)
            },
        );
        balance * moved_weights + moved_prices / balance
    }

    /// Restarts from the current point, with weights and prices balanced by the distances they
    /// moved.
    fn restart(&mut self, packing: &Packing<'_>) {
        let (mut far_weights, mut far_prices) = (0.0, 0.0);
        for (example, weight) in self.weights.iter_mut().enumerate() {
            *weight = weight.clamp(0.0, 1.0);
            let degree = packing.incidence.secrets_of(example).len() as f64;
            far_weights += degree * (*weight - self.anchor_weights[example]).powi(2);
        }
        for (secret, price) in self.prices.iter_mut().enumerate() {
            *price = price.max(0.0);
            let degree = packing.incidence.examples_of(secret).len() as f64;
            far_prices += degree * (*price - self.anchor_prices[secret]).powi(2);
        }
        if far_weights > 0.0 && far_prices > 0.0 {
            let wanted = (far_prices / far_weights).sqrt();
            self.balance = (self.balance * wanted).sqrt().clamp(1e-6, 1e6);
        }
        self.anchor_weights.copy_from_slice(&self.weights);
        self.anchor_prices.copy_from_slice(&self.prices);
    }
}

#[expect(
    clippy::too_many_arguments,
    reason = "the inner loop takes its slices apart"
)]
fn move_weights(
    packing: &Packing<'_>,
    prices: &[f64],
    first: usize,
    weights: &mut [f64],
    reflected: &mut [f64],
    anchors: &[f64],
    balance: f64,
    share: f64,
) -> f64 {
    let mut moved = 0.0;
    for (at, weight) in weights.iter_mut().enumerate() {
        let secrets = packing.incidence.secrets_of(first + at);
        let price: f64 = secrets.iter().map(|s| prices[*s as usize]).sum();
        let degree = secrets.len() as f64;
        let next = if secrets.is_empty() {
            1.0
        } else {
            (*weight + (1.0 - price) / (balance * degree)).clamp(0.0, 1.0)
        };
        moved += degree * (next - *weight) * (next - *weight);
        let mirror = 2.0 * next - *weight;
        reflected[at] = mirror;
        *weight = share * mirror + (1.0 - share) * anchors[at];
    }
    moved
}

fn move_prices(
    packing: &Packing<'_>,
    reflected: &[f64],
    first: usize,
    prices: &mut [f64],
    anchors: &[f64],
    balance: f64,
    share: f64,
) -> f64 {
    let mut moved = 0.0;
    for (at, price) in prices.iter_mut().enumerate() {
        let examples = packing.incidence.examples_of(first + at);
        if examples.is_empty() {
            continue;
        }
        let degree = examples.len() as f64;
        let used: f64 = examples.iter().map(|e| reflected[*e as usize]).sum();
        let next = (*price + balance * (used - packing.capacities[first + at]) / degree).max(0.0);
        moved += degree * (next - *price) * (next - *price);
        *price = share * (2.0 * next - *price) + (1.0 - share) * anchors[at];
    }
    moved
}

/// Boundaries at which the work is divided among the threads, by number of pairs.
struct Cuts {
    examples: Vec<usize>,
    secrets: Vec<usize>,
}

impl Cuts {
    fn new(packing: &Packing<'_>) -> Self {
        let incidence = packing.incidence;
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let parts = (incidence.pairs() / PAIRS_PER_THREAD).clamp(1, threads.min(8));
        let example_work =
            (0..incidence.example_count()).map(|e| 2 + incidence.secrets_of(e).len());
        let secret_work = (0..incidence.secret_count()).map(|s| 2 + incidence.examples_of(s).len());
        Self {
            examples: cut(example_work, parts),
            secrets: cut(secret_work, parts),
        }
    }
}

/// Returns the boundaries of `parts` runs of about equal work.
fn cut(work: impl Iterator<Item = usize> + Clone, parts: usize) -> Vec<usize> {
    let total: usize = work.clone().sum();
    let mut cuts = vec![0];
    let (mut sum, mut count) = (0, 0);
    for each in work {
        if sum * parts >= total * cuts.len() && cuts.len() < parts {
            cuts.push(count);
        }
        sum += each;
        count += 1;
    }
    cuts.push(count);
    cuts
}

/// Runs `work` on each part of two vectors at once, one thread per part, and adds up the results.
fn in_parts(
    cuts: &[usize],
    values: [&mut Vec<f64>; 2],
    anchors: &[f64],
    work: impl Fn(usize, [&mut [f64]; 2], &[f64]) -> f64 + Sync,
) -> f64 {
    let [mut first, mut second] = values.map(|v| v.as_mut_slice());
    if cuts.len() == 2 {
        return work(0, [first, second], anchors);
    }
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for pair in cuts.windows(2) {
            let (mine, rest) = std::mem::take(&mut first).split_at_mut(pair[1] - pair[0]);
            let (other, rest_other) = std::mem::take(&mut second).split_at_mut(pair[1] - pair[0]);
            (first, second) = (rest, rest_other);
            let (work, anchors) = (&work, &anchors[pair[0]..pair[1]]);
            running.push(scope.spawn(move || work(pair[0], [mine, other], anchors)));
        }
        // A worker that panicked makes the residual infinite; the certificate doesn't depend on it.
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or(f64::INFINITY))
            .sum()
    })
}

/// The best certified weights and prices so far.
struct Best {
    weights: Vec<f64>,
    mass: f64,
    prices: Vec<f64>,
    most: f64,
}

impl Best {
    fn new(packing: &Packing<'_>) -> Self {
        let prices = packing.priced_out(vec![0.0; packing.capacities.len()]);
        Self {
            weights: vec![0.0; packing.incidence.example_count()],
            mass: 0.0,
            most: packing.dual_value(&prices),
            prices,
        }
    }

    fn consider(&mut self, packing: &Packing<'_>, state: &State, order: &[u32]) {
        let prices = packing.priced_out(state.prices.iter().copied());
        let most = packing.dual_value(&prices);
        if most < self.most {
            (self.most, self.prices) = (most, prices);
        }
        let mut weights = state.weights.clone();
        packing.made_feasible(&mut weights, order);
        let mass = packing.mass(&weights);
        if mass > self.mass {
            (self.mass, self.weights) = (mass, weights);
        }
    }

    fn gap(&self) -> f64 {
        if self.most > 0.0 {
            (self.most - self.mass) / self.most
        } else {
            0.0
        }
    }

    fn solution(self, iterations: usize) -> Solution {
        Solution {
            weights: self.weights,
            mass: self.mass,
            most: self.most,
            prices: self.prices,
            iterations,
        }
    }
}

//! Records that are hardly ever drawn: both ends stay close where the loss is nearly log-normal.

use reticent_accounting::{
    Delta, Direction, Epsilon, GroupSize, Mechanism, Neighbours, NoiseMultiplier, PrivacyLoss,
    Probability, Query, SamplingRate, Steps, Tolerance,
};

fn loss(sigma: f64, rate: f64, steps: u64, direction: Direction) -> PrivacyLoss {
    let run = Mechanism::dp_sgd(
        NoiseMultiplier::new(sigma).unwrap(),
        SamplingRate::new(rate).unwrap(),
        Steps::new(steps),
    );
    PrivacyLoss::of(&run, Query::single(Neighbours::AddRemove), direction).unwrap()
}

fn delta(loss: &PrivacyLoss, epsilon: f64) -> (f64, f64) {
    let found = loss
        .delta(Epsilon::new(epsilon).unwrap(), Tolerance::DEFAULT)
        .unwrap();
    let ends = found.bounds;
    (
        ends.lower.unwrap().get().get(),
        ends.upper.unwrap().get().get(),
    )
}

fn epsilon(loss: &PrivacyLoss, delta: f64) -> (f64, f64) {
    let found = loss
        .epsilon(Delta::new(delta).unwrap(), Tolerance::DEFAULT)
        .unwrap();
    let ends = found.bounds;
    (
        ends.lower.unwrap().get().get(),
        ends.upper.unwrap().get().get(),
    )
}

/// Ends a thousandth apart around a number known to a relative `error`.
fn close((low, high): (f64, f64), truth: f64, error: f64) {
    assert!(low <= truth * (1.0 + error), "{low} {truth}");
    assert!(high >= truth * (1.0 - error), "{high} {truth}");
    assert!(high - low <= 1e-3 * high, "{low} {high}");
}

/// Ten million steps at a rate of a millionth: ends of 0.0195 and 0.0268 before. The golden numbers are
/// two independent hands' own, by the exact one-step identities.
#[test]
fn many_steps_at_a_tiny_rate() {
    let run = loss(1.0, 1e-6, 10_000_000, Direction::Remove);
    close(delta(&run, 0.0195), 1.089_760_2e-9, 1e-7);
    close(epsilon(&run, 1e-9), 0.019_570_3, 1e-5);
    // The other direction has no far losses and was never in trouble.
    let (low, high) = epsilon(&loss(1.0, 1e-6, 10_000_000, Direction::Add), 1e-9);
    assert!(
        high <= 0.019_570_4 && high - low <= 1e-3 * high,
        "{low} {high}"
    );
}

/// A hundred steps, none of which is likely to see the record.
#[test]
fn few_steps_at_a_tiny_rate() {
    let run = loss(1.015, 1.47e-7, 130, Direction::Remove);
    // δ in units of the rate by a fast Fourier transform of the loss's own law, cells of 0.04 and 0.02 rates extrapolated.
    for (at, truth) in [(1e-7, 7.993_0e-7), (1e-6, 4.658_36e-7), (4e-6, 5.287_32e-8)] {
        close(delta(&run, at), truth, 1e-4);
    }
    for at in [1e-9, 1e-12] {
        let (low, high) = epsilon(&run, at);
        assert!(high - low <= 1e-3 * high, "{low} {high}");
        assert!(delta(&run, high).1 <= at * (1.0 + 2e-3));
        assert!(delta(&run, low).0 >= at * (1.0 - 2e-2));
    }
}

fn normal_tail(x: f64) -> f64 {
    0.5 * libm::erfc(x / std::f64::consts::SQRT_2)
}

/// Two steps by the exact identity of one: H_α = q H_{1 + (α − 1)/q} of two Gaussians, for the second
/// step at what the first one left.
#[test]
fn two_steps_match_the_identity_of_one() {
    let (sigma, q) = (0.9, 1e-7);
    let mu = 1.0 / sigma;
    let gaussian = |beta: f64| {
        let t = beta.ln();
        normal_tail(t / mu - 0.5 * mu) - beta * normal_tail(t / mu + 0.5 * mu)
    };
    // H_α of one step for α around 1, α − 1 given.
    let one = |less: f64| {
        if 1.0 + less / q <= 0.0 {
            -less
        } else {
            q * gaussian(1.0 + less / q)
        }
    };
    let run = loss(sigma, q, 2, Direction::Remove);
    for epsilon in [1e-8, 3e-7, 1e-6, 1e-5] {
        let alpha = f64::exp_m1(epsilon);
        let (mut sum, step) = (0.0, 1e-3);
        for i in -10_000i32..=12_000 {
            let x = f64::from(i) * step;
            let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
            let ratio = q * (mu * x - 0.5 * mu * mu).exp_m1();
            sum += step * density * (1.0 + ratio) * one((alpha - ratio) / (1.0 + ratio));
        }
        close(delta(&run, epsilon), sum, 1e-6);
    }
}

/// Guesses: B(x) ≥ x always, so that ends are compared by what is gained.
#[test]
fn a_guess_gains_next_to_nothing() {
    let run = loss(1.0, 1e-6, 10_000_000, Direction::Remove);
    let prior = Probability::new(1e-6).unwrap();
    let found = run.blow_up(prior, Tolerance::DEFAULT).unwrap().bounds;
    let (low, high) = (
        found.lower.unwrap().get().get(),
        found.upper.unwrap().get().get(),
    );
    assert!(high < 1.03e-6 && high - low < 1e-3 * high, "{low} {high}");
}

/// Groups that are hardly ever drawn: 2.6e-6 to 3.5e-3 and 3.1e-5 to 0.024 before. Whoever looks for one
/// outcome beyond z in any step, at most as likely as the prior without the records, guesses nearly as well.
#[test]
fn guesses_of_rarely_drawn_groups_are_close() {
    for (sigma, rate, steps, group) in [(0.3, 1e-6, 10_000, 20), (0.2, 1e-8, 51_423, 76)] {
        let run = Mechanism::dp_sgd(
            NoiseMultiplier::new(sigma).unwrap(),
            SamplingRate::new(rate).unwrap(),
            Steps::new(steps),
        );
        let query = Query {
            neighbours: Neighbours::ZeroOut,
            group: GroupSize::new(group).unwrap(),
        };
        let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
        let prior = Probability::new(1e-6).unwrap();
        let found = loss.blow_up(prior, Tolerance::DEFAULT).unwrap().bounds;
        let (low, high) = (
            found.lower.unwrap().get().get(),
            found.upper.unwrap().get().get(),
        );
        assert!(high - low < 5e-3 * high, "{low} {high}");
        let share = 1e-6 / steps as f64;
        let (mut z, mut step) = (0.0, 4.0);
        while step > 1e-12 {
            if normal_tail(z + step) > share {
                z += step;
            } else {
                step *= 0.5;
            }
        }
        // One record drawn: with two in one step the outcome lies farther still.
        let drawn = f64::from(group) * rate;
        let beyond = drawn * (1.0 - drawn) * normal_tail(z + 1e-9 - 1.0 / sigma);
        let seen = -(steps as f64 * (-beyond).ln_1p()).exp_m1();
        assert!(high >= seen && low < 1.3 * seen, "{low} {high} {seen}");
    }
}

/// Far above what all steps add up to, one step decides: within 7 e-folds before, and within 17 decades for
/// ten million steps. δ is that of a single step, times their number, but for what the others add to it.
#[test]
fn one_step_decides_far_out() {
    for (sigma, rate, steps, at) in [
        (1.015, 1.47e-7, 130, 1e-3),
        (1.015, 1.47e-7, 130, 1.0),
        (1.0, 1e-9, 1000, 0.1),
        (1.0, 1e-6, 10_000_000, 0.1),
    ] {
        let (low, high) = delta(&loss(sigma, rate, steps, Direction::Remove), at);
        // The others' sum is followed in cells of a quarter deviation; it matters to ten million steps alone.
        let width = if steps > 1_000_000 { 4e-3 } else { 1e-3 };
        assert!(
            low > 0.0 && high - low <= width * high,
            "{sigma} {at}: {low} {high}"
        );
        // One step alone at that ε, so many times; the others only add to it.
        let one = delta(&loss(sigma, rate, 1, Direction::Remove), at);
        let alone = one.0 * steps as f64;
        assert!(
            low >= alone * (1.0 - 1e-6) && high < 1.3 * alone,
            "{low} {high} {alone}"
        );
    }
}

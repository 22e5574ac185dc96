//! Golden numbers: `golden.json` holds them with tolerance and source, this file says how each
//! family is computed. An id that nobody computes fails.

use reticent_accounting::calibrate::{
    Target, calibrate_noise as calibrate, calibrate_rate, calibrate_steps,
};
use reticent_accounting::group::paper_group_bound;
use reticent_accounting::rdp::{RdpCurve, epsilon_from_renyi};
use reticent_accounting::reconstruction::closed::{approximate_blow_up, balle_cherubin_hayes};
use reticent_accounting::reconstruction::fano::{bernoulli_divergence, kl_posterior};
use reticent_accounting::redaction::Redaction;
use reticent_accounting::trade_off::{
    GaussianFit, advantage, central_limit_distance, membership_accuracy, true_positive_rate,
};
use reticent_accounting::{
    Bounds, Delta, Direction, Epsilon, GroupSize, Mechanism, MissRate, Neighbours, NoiseMultiplier,
    Order, PrivacyLoss, Probability, Query, SamplingRate, Steps, Tolerance, Upper,
};
use serde_json::Value;

struct Vector(Value);

impl Vector {
    fn id(&self) -> &str {
        self.0["id"].as_str().unwrap()
    }
    fn number(&self, name: &str) -> f64 {
        match &self.0["inputs"][name] {
            Value::Number(number) => number.as_f64().unwrap(),
            // The one fraction in the file.
            Value::String(text) => {
                let (above, below) = text.split_once('/').unwrap();
                above.parse::<f64>().unwrap() / below.parse::<f64>().unwrap()
            }
            _ => panic!("{}: no input {name}", self.id()),
        }
    }
    fn has(&self, name: &str) -> bool {
        self.0["inputs"].get(name).is_some()
    }
    fn sigma(&self) -> NoiseMultiplier {
        NoiseMultiplier::new(self.number("sigma")).unwrap()
    }
    fn steps(&self) -> Steps {
        Steps::new(self.number("T") as u64)
    }
    fn rate(&self) -> SamplingRate {
        SamplingRate::new(self.number("q")).unwrap()
    }
    fn target(&self) -> Target {
        Target::Epsilon {
            query: Query::single(Neighbours::AddRemove),
            epsilon: Epsilon::new(self.number("eps")).unwrap(),
            delta: Delta::new(self.number("delta")).unwrap(),
        }
    }
    fn prior(&self) -> Probability {
        let p = if self.has("p") {
            self.number("p")
        } else {
            self.number("log2_p").exp2()
        };
        Probability::new(p).unwrap()
    }
    /// Whether `got` is the expected number, to the digits that are quoted.
    fn check(&self, got: f64) {
        let expected = self.0["expected"].as_f64().unwrap();
        let tolerance = self.0["tolerance"].as_str().unwrap();
        let mut words = tolerance.split_whitespace();
        let kind = words.next().unwrap();
        let size: f64 = words.next().unwrap().parse().unwrap();
        let allowed = if kind == "rel" {
            size * expected.abs()
        } else {
            size
        };
        let error = (got - expected).abs();
        assert!(
            error <= allowed,
            "{}: {got} instead of {expected}, {tolerance}",
            self.id()
        );
    }
    /// The middle of two certified ends, which must enclose the number up to its own digits and
    /// lie close together.
    fn check_bounds(&self, lower: f64, upper: f64) {
        self.check(0.5 * (lower + upper));
        let expected = self.0["expected"].as_f64().unwrap();
        let digits = self.0["tolerance"]
            .as_str()
            .unwrap()
            .split_whitespace()
            .nth(1)
            .unwrap();
        let quoted = digits.parse::<f64>().unwrap() * expected.abs().max(1.0);
        assert!(lower <= upper, "{}", self.id());
        assert!(
            lower <= expected + quoted && expected <= upper + quoted,
            "{}",
            self.id()
        );
        assert!(
            upper - lower <= 1e-8 * upper.abs() + 1e-16,
            "{}: {lower} {upper}",
            self.id()
        );
    }
}

const TIGHT: f64 = 1e-10;

fn tight() -> Tolerance {
    Tolerance::new(TIGHT).unwrap()
}

fn gaussian(sigma: NoiseMultiplier, steps: u64) -> Mechanism {
    Mechanism::Repeat {
        times: Steps::new(steps),
        each: Box::new(Mechanism::Gaussian {
            noise_multiplier: sigma,
        }),
    }
}

fn loss(mechanism: &Mechanism, group: u32, direction: Direction) -> PrivacyLoss {
    let query = Query {
        neighbours: Neighbours::AddRemove,
        group: GroupSize::new(group).unwrap(),
    };
    PrivacyLoss::of(mechanism, query, direction).unwrap()
}

fn ends<T: Copy + Into<f64>>(bounds: Bounds<T>) -> (f64, f64) {
    (
        bounds.lower.unwrap().into_inner().into(),
        bounds.upper.unwrap().into_inner().into(),
    )
}

fn delta(loss: &PrivacyLoss, epsilon: f64) -> (f64, f64) {
    ends(
        loss.delta(Epsilon::new(epsilon).unwrap(), tight())
            .unwrap()
            .bounds,
    )
}

fn epsilon(loss: &PrivacyLoss, delta: f64) -> (f64, f64) {
    ends(
        loss.epsilon(Delta::new(delta).unwrap(), tight())
            .unwrap()
            .bounds,
    )
}

fn hush(v: &Vector, sigma: NoiseMultiplier) -> Mechanism {
    Mechanism::dp_sgd(
        sigma,
        SamplingRate::new(v.number("rho")).unwrap(),
        v.steps(),
    )
}

fn plain(v: &Vector) {
    if v.id().starts_with("gauss_delta") {
        let (low, high) = delta(
            &loss(&gaussian(v.sigma(), 1), 1, Direction::Remove),
            v.number("eps"),
        );
        v.check_bounds(low, high);
    } else if v.id().starts_with("gauss_eps") {
        let run = gaussian(v.sigma(), v.number("T") as u64);
        let (low, high) = epsilon(&loss(&run, 1, Direction::Remove), v.number("delta"));
        // The bracket's own width is a relative 1e-10, the tolerance absolute.
        v.check(high.min(low + 1e-10));
        assert!(high - low <= TIGHT * high);
    } else if v.id().starts_with("gauss_sigma") {
        let target = Target::Epsilon {
            query: Query::single(Neighbours::AddRemove),
            epsilon: Epsilon::new(v.number("eps")).unwrap(),
            delta: Delta::new(v.number("delta")).unwrap(),
        };
        let found = calibrate(|sigma| gaussian(sigma, 1), target, tight()).unwrap();
        v.check(found.answer.get());
    } else if v.id() == "gdp_adv" {
        let sigma = NoiseMultiplier::new(1.0 / v.number("mu")).unwrap();
        v.check(delta(&loss(&gaussian(sigma, 1), 1, Direction::Remove), 0.0).1);
    } else {
        let sigma = NoiseMultiplier::new(1.0 / v.number("mu")).unwrap();
        let run = loss(&gaussian(sigma, 1), 1, Direction::Remove);
        let (low, high) = ends(run.blow_up(v.prior(), tight()).unwrap().bounds);
        if v.has("log2_p") {
            v.check_bounds(low.log2(), high.log2())
        } else {
            v.check_bounds(low, high)
        }
    }
}

fn renyi(v: &Vector) {
    if v.id() == "rdp_to_eps" {
        let order = Order::new(v.number("alpha")).unwrap();
        let at = Delta::new(v.number("delta")).unwrap();
        let epsilon = epsilon_from_renyi(order, Upper::new(v.number("rdp")), at).unwrap();
        return v.check(epsilon.get().get());
    }
    let run = if v.has("q") {
        Mechanism::dp_sgd(
            v.sigma(),
            SamplingRate::new(v.number("q")).unwrap(),
            Steps::new(1),
        )
    } else {
        gaussian(v.sigma(), 1)
    };
    let order = Order::new(v.number("alpha")).unwrap();
    let curve = RdpCurve::of(&loss(&run, 1, Direction::Remove), &[order]).unwrap();
    v.check(*curve.divergences()[0].get());
}

fn subsampled(v: &Vector) {
    let steps = if v.has("T") { v.steps() } else { Steps::new(1) };
    let direction = if v.id().ends_with("ADD") || v.id().ends_with("add0") {
        Direction::Add
    } else {
        Direction::Remove
    };
    let rate = SamplingRate::new(v.number("q")).unwrap();
    if v.id() == "peer_jax_sigma" {
        let target = Target::Epsilon {
            query: Query::single(Neighbours::AddRemove),
            epsilon: Epsilon::new(v.number("eps")).unwrap(),
            delta: Delta::new(v.number("delta")).unwrap(),
        };
        let found = calibrate(
            |sigma| Mechanism::dp_sgd(sigma, rate, steps),
            target,
            Tolerance::DEFAULT,
        );
        return v.check(found.unwrap().answer.get());
    }
    let run = loss(&Mechanism::dp_sgd(v.sigma(), rate, steps), 1, direction);
    if v.has("delta") {
        let (low, high) = epsilon(&run, v.number("delta"));
        v.check_bounds(low, high);
    } else {
        let (low, high) = delta(&run, v.number("eps"));
        v.check_bounds(low, high);
    }
}

/// Calibrations of a peer, pessimistic by its own discretisation.
fn calibrated(v: &Vector) {
    let tolerance = Tolerance::new(1e-8).unwrap();
    if v.id().contains("sigma") {
        let run = |sigma| Mechanism::dp_sgd(sigma, v.rate(), v.steps());
        let found = calibrate(run, v.target(), tolerance).unwrap();
        v.check(found.answer.get());
    } else if v.id().ends_with("_rate") {
        let run = |rate| Mechanism::dp_sgd(v.sigma(), rate, v.steps());
        let found = calibrate_rate(run, v.target(), tolerance).unwrap();
        v.check(found.answer.get());
    } else {
        let run = |steps| Mechanism::dp_sgd(v.sigma(), v.rate(), steps);
        let found = calibrate_steps(run, v.target(), tolerance).unwrap();
        v.check(found.answer.get() as f64);
    }
}

/// What peers say about attacks on a composed subsampled Gaussian, where they are right.
fn attacked(v: &Vector) {
    let run = Mechanism::dp_sgd(v.sigma(), v.rate(), v.steps());
    let query = Query::single(Neighbours::AddRemove);
    let middle = |bounds: Bounds<Probability>| {
        let (low, high) = ends(bounds);
        assert!(low <= high && high - low < 1e-8, "{}: {low} {high}", v.id());
        0.5 * (low + high)
    };
    let chance = |name: &str| Probability::new(v.number(name)).unwrap();
    let answer = if v.id().starts_with("peer_profile") {
        loss(&run, 1, Direction::Remove).true_positive_rate(chance("fpr"), tight())
    } else if v.has("fpr") {
        true_positive_rate(&run, query, chance("fpr"), tight())
    } else if v.has("prior") {
        membership_accuracy(&run, query, chance("prior"), tight())
    } else {
        advantage(&run, query, tight())
    };
    v.check(middle(answer.unwrap().bounds));
}

fn gaussian_fit(v: &Vector) {
    if v.id().starts_with("gdp_clt") {
        return v.check(*central_limit_distance(v.sigma(), v.rate(), v.steps()).get());
    }
    let run = Mechanism::dp_sgd(v.sigma(), v.rate(), v.steps());
    let query = Query::single(Neighbours::AddRemove);
    let slack = Delta::new(1e-10).unwrap();
    let fit = GaussianFit::of(&run, query, slack, Tolerance::new(1e-5).unwrap()).unwrap();
    let (low, high) = (*fit.mu.lower.unwrap().get(), *fit.mu.upper.unwrap().get());
    assert!(low <= high && high - low < 2e-5 * high, "{low} {high}");
    v.check(high);
}

fn redaction(v: &Vector) {
    let redaction = Redaction::single_policy(MissRate::new(v.number("gamma")).unwrap());
    if v.id() == "amp_inverse" {
        v.check(
            redaction
                .base_epsilon(Epsilon::new(v.number("target")).unwrap())
                .get(),
        );
    } else {
        v.check(
            redaction
                .amplified(Epsilon::new(v.number("eps")).unwrap())
                .get(),
        );
    }
}

fn fano(v: &Vector) {
    if v.id().starts_with("fano_fwd") {
        let r = Probability::new(v.number("r")).unwrap();
        v.check(bernoulli_divergence(r, v.prior()));
    } else if v.id().starts_with("fano_inv") {
        v.check(
            kl_posterior(Upper::new(v.number("mu")), v.prior())
                .unwrap()
                .get()
                .get(),
        );
    } else {
        let order = Order::new(v.number("alpha")).unwrap();
        let weaker = balle_cherubin_hayes(order, Upper::new(v.number("rdp")), v.prior());
        v.check(weaker.unwrap().get().get());
        // Ours must not exceed the weaker form, nor be far below.
        let ours = reticent_accounting::reconstruction::fano::renyi_posterior(
            order,
            Upper::new(v.number("rdp")),
            v.prior(),
        );
        let expected = v.0["expected"].as_f64().unwrap();
        let ours = ours.unwrap().get().get();
        assert!(ours <= expected && ours > 0.7 * expected, "{ours}");
    }
}

fn mixture(v: &Vector) {
    let group = v.number("n") as u32;
    if v.id().starts_with("mog_sigma") {
        let group = GroupSize::new(group).unwrap();
        let (prior, posterior) = (v.prior(), Probability::new(v.number("r")).unwrap());
        let target = if v.id().contains("fano") {
            Target::PosteriorByKlFano {
                group,
                prior,
                posterior,
            }
        } else {
            Target::Posterior {
                group,
                prior,
                posterior,
            }
        };
        let found = calibrate(
            |sigma| hush(v, sigma),
            target,
            Tolerance::new(1e-8).unwrap(),
        )
        .unwrap();
        return v.check(found.answer.get());
    }
    let query = Query {
        neighbours: Neighbours::ZeroOut,
        group: GroupSize::new(group).unwrap(),
    };
    let run = PrivacyLoss::of(&hush(v, v.sigma()), query, Direction::Remove).unwrap();
    if v.id().starts_with("mog_kl") {
        return v.check(*run.divergence().unwrap().get());
    }
    let (low, high) = ends(
        run.blow_up(v.prior(), Tolerance::new(1e-9).unwrap())
            .unwrap()
            .bounds,
    );
    if v.has("log2_p") {
        v.check_bounds(low.log2(), high.log2())
    } else {
        v.check_bounds(low, high)
    }
}

#[test]
fn every_vector_holds_to_its_digits() {
    let vectors: Vec<Value> = serde_json::from_str(include_str!("golden.json")).unwrap();
    assert!(vectors.len() >= 80, "only {} vectors", vectors.len());
    for vector in vectors {
        let v = Vector(vector);
        match v.id() {
            id if id.starts_with("gdp_clt") || id.starts_with("peer_gdpnum") => gaussian_fit(&v),
            id if id.starts_with("peer_calibrate") => calibrated(&v),
            id if id.starts_with("peer_riskcal") || id.starts_with("peer_profile") => attacked(&v),
            id if id.starts_with("gauss_") || id.starts_with("gdp_") => plain(&v),
            id if id.contains("rdp") => renyi(&v),
            id if id.starts_with("sgm") || id.starts_with("peer_") => subsampled(&v),
            id if id.starts_with("amp_") => redaction(&v),
            id if id.starts_with("fano_") || id.starts_with("renyi_") => fano(&v),
            id if id.starts_with("mog_") => mixture(&v),
            "blowup_pure" => {
                let epsilon = Epsilon::new(v.number("eps")).unwrap();
                let found = approximate_blow_up(epsilon, Delta::ZERO, v.prior());
                v.check(found.get().get());
            }
            "group_paper" => {
                let (epsilon, delta) = paper_group_bound(
                    GroupSize::new(v.number("k") as u32).unwrap(),
                    Epsilon::new(v.number("eps")).unwrap(),
                    Delta::new(v.number("delta")).unwrap(),
                );
                let expected = v.0["expected"].as_array().unwrap();
                let of = |i: usize, got: f64| (got / expected[i].as_f64().unwrap() - 1.0).abs();
                assert!(of(0, epsilon.get().get()) < 1e-13 && of(1, delta.get().get()) < 1e-13);
            }
            "group_gauss" => {
                let run = gaussian(v.sigma(), 1);
                let (low, high) = delta(
                    &loss(&run, v.number("k") as u32, Direction::Remove),
                    v.number("eps"),
                );
                v.check_bounds(low, high);
            }
            id => panic!("nobody computes {id}"),
        }
    }
}

//! Just Fine-tune Twice.

use super::finite::{
    both, cells, delta, delta_of, dp_sgd, epsilon_of, gaussian, law, loss, product, query, rate,
    tight,
};
use proptest::prelude::*;
use reticent_accounting::confidentiality::{
    CountedBatches, JustFineTuneTwice, LightNoise, PhaseOne, RedactedAlike,
};
use reticent_accounting::{
    Direction, GroupSize, Mechanism, Neighbours, NoiseMultiplier, SamplingRate, Steps,
};

fn at(run: &JustFineTuneTwice, wish: f64) -> f64 {
    let found = run.epsilon(GroupSize::ONE, delta(wish), tight()).unwrap();
    found.upper.unwrap().get().get()
}

fn jft(first: PhaseOne, second: Mechanism) -> JustFineTuneTwice {
    JustFineTuneTwice { first, second }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// JFT Theorem 1: a first phase that sees the same text for both contents adds nothing, on
    /// random first phases and a Gaussian second one.
    #[test]
    fn a_first_phase_on_equal_text_costs_nothing(first in law(4), x in -1.0f64..1.0, y in -1.0f64..1.0, sigma in 0.4f64..3.0, e in 0.0f64..3.0, cut in -2.0f64..2.0) {
        let run = jft(PhaseOne::Unnoised(RedactedAlike::YES), gaussian(sigma));
        let one = product(&first, &cells(x, sigma, &[cut, cut + 1.0]));
        let other = product(&first, &cells(y, sigma, &[cut, cut + 1.0]));
        let pair = loss(&run.mechanism(), query(Neighbours::Replace, 1), Direction::Remove);
        prop_assert!(both(&one, &other, e) <= delta_of(&pair, e) + 1e-12);
    }

    /// A noised first phase composes in full.
    #[test]
    fn a_noised_first_phase_composes(x in -1.0f64..1.0, y in -1.0f64..1.0, sigma in 0.4f64..3.0, light in 0.4f64..3.0, e in 0.0f64..3.0, cut in -2.0f64..2.0) {
        let run = jft(PhaseOne::Noised(gaussian(light)), gaussian(sigma));
        let view = |at: f64| product(&cells(at, light, &[cut]), &cells(at, sigma, &[cut - 0.5, cut + 1.0]));
        let pair = loss(&run.mechanism(), query(Neighbours::Replace, 1), Direction::Remove);
        prop_assert!(both(&view(x), &view(y), e) <= delta_of(&pair, e) + 1e-12);
    }

    /// Counted batches: given which batches held the secret and how often, the view is a product of
    /// plain Gaussians; batches are drawn without looking at content, so averaging only helps.
    #[test]
    fn counted_batches_are_plain_gaussians(counts in proptest::collection::vec(0u64..3, 1..4), sigma in 0.8f64..4.0, e in 0.0f64..3.0, cut in -1.0f64..1.0) {
        let noise = NoiseMultiplier::new(sigma).unwrap();
        let batches = CountedBatches::new(noise, counts.iter().map(|n| (*n, 1)).collect());
        let view = |sign: f64| counts.iter().fold(vec![1.0], |all, n| {
            product(&all, &cells(sign * *n as f64, sigma, &[cut]))
        });
        let pair = loss(&batches.mechanism().unwrap(), query(Neighbours::Replace, 1), Direction::Remove);
        let promised = delta_of(&pair, e) + 1e-12;
        prop_assert!(both(&view(1.0), &view(-1.0), e) <= promised);
    }
}

/// Tight: Theorem 1 is attained by a Gaussian second phase; each broken condition is infinite.
#[test]
fn theorem_one_needs_all_three_conditions() {
    let second = gaussian(1.5);
    let pair = loss(&second, query(Neighbours::Replace, 1), Direction::Remove);
    let alike = at(
        &jft(PhaseOne::Unnoised(RedactedAlike::YES), second.clone()),
        1e-5,
    );
    assert!((alike - epsilon_of(&pair, 1e-5)).abs() < 1e-9);
    for broken in [
        RedactedAlike {
            every_content_caught: false,
            ..RedactedAlike::YES
        },
        RedactedAlike {
            length_and_kind_hidden: false,
            ..RedactedAlike::YES
        },
        RedactedAlike {
            screening_ignores_secrets: false,
            ..RedactedAlike::YES
        },
    ] {
        assert!(at(&jft(PhaseOne::Unnoised(broken), second.clone()), 1e-5).is_infinite());
    }
    // A mask per token tells the length: two contents, two redacted texts.
    let (short, long) = (["<M>", "<M>"].len(), ["<M>", "<M>", "<M>"].len());
    assert_ne!(short, long);
    // Two equal phases are one of half the noise variance.
    let twice = at(&jft(PhaseOne::Noised(gaussian(1.5)), second), 1e-5);
    let half = loss(
        &gaussian(1.5 / std::f64::consts::SQRT_2),
        query(Neighbours::Replace, 1),
        Direction::Remove,
    );
    assert!((twice - epsilon_of(&half, 1e-5)).abs() < 1e-8);
}

/// Light noise estimates: a secret that is missed for certain is sampled at p₀, not p₀·m, and its
/// true δ at the estimated ε is far above the wish. Counting the batches gives a bound.
#[test]
fn light_noise_is_an_estimate() {
    let (sigma, p0, steps) = (1.0, 0.05, 200);
    let light = LightNoise {
        noise_multiplier: NoiseMultiplier::new(sigma).unwrap(),
        sampling_rate: SamplingRate::new(p0).unwrap(),
        steps: Steps::new(steps),
        miss: (rate(0.05), rate(0.2)),
        second: Mechanism::Sequence { parts: Vec::new() },
    };
    let wish = delta(1e-5);
    let (low, high) = light.epsilon(wish, tight()).unwrap();
    assert!(low.get() < high.get());
    let pair = loss(
        &dp_sgd(sigma, p0, steps),
        query(Neighbours::Replace, 1),
        Direction::Remove,
    );
    let least = pair
        .delta(*high.get(), tight())
        .unwrap()
        .bounds
        .lower
        .unwrap();
    assert!(least.get().get() > 100.0 * 1e-5, "{least:?}");
    for phase in light.mechanism().unwrap() {
        let Mechanism::Sequence { parts } = &phase else {
            panic!("{phase:?}")
        };
        assert!(matches!(parts[0], Mechanism::Estimated { .. }));
        // And a composition with it is refused.
        let run = jft(PhaseOne::Noised(phase), gaussian(2.0));
        assert!(run.epsilon(GroupSize::ONE, wish, tight()).is_err());
    }
    // Ten batches held the secret once, one twice: Σ n² = 14, a plain Gaussian of distance 2√14/σ.
    let counted = CountedBatches::new(
        NoiseMultiplier::new(sigma).unwrap(),
        vec![(0, 189), (1, 10), (2, 1)],
    );
    let bound = counted
        .epsilon(wish, tight())
        .unwrap()
        .upper
        .unwrap()
        .get()
        .get();
    let plain = loss(
        &gaussian(1.0 / 14f64.sqrt()),
        query(Neighbours::Replace, 1),
        Direction::Remove,
    );
    assert!((bound - epsilon_of(&plain, 1e-5)).abs() < 1e-8);
    assert!(bound > high.get().get());
    // A wrong interval is refused; nothing missed costs nothing.
    let crossed = LightNoise {
        miss: (rate(0.2), rate(0.1)),
        ..light.clone()
    };
    assert!(crossed.epsilon(wish, tight()).is_err());
    let none = LightNoise {
        miss: (rate(0.0), rate(0.0)),
        ..light
    };
    assert!(none.epsilon(wish, tight()).unwrap().1.get().get() <= 0.0);
    // The paper's numbers are of both phases, for a record present or absent: with nothing missed, those of the second.
    let both = LightNoise {
        second: gaussian(2.0),
        ..none
    };
    let second = loss(
        &gaussian(2.0),
        query(Neighbours::AddRemove, 1),
        Direction::Remove,
    );
    let found = both.epsilon(wish, tight()).unwrap().1.get().get();
    assert!((found - epsilon_of(&second, 1e-5)).abs() < 1e-8, "{found}");
}

//! Our own JSON of a mechanism, read key by key so that a refusal says which.

use super::json::{Node, Refused};
use reticent_accounting::{Mechanism, Neighbours, Probability, Sampling, SamplingRate, Steps};
use serde_json::Value;

type Result<T> = std::result::Result<T, Refused>;

/// Counts beyond this are not exact in the accountant.
pub(super) const MOST: u64 = 1 << 53;

/// Every type there is.
pub(super) const KINDS: [&str; 16] = [
    "gaussian",
    "subsampled-gaussian",
    "poisson-binomial-gaussian",
    "mixture-of-gaussians",
    "laplace",
    "subsampled-laplace",
    "discrete-gaussian",
    "discrete-laplace",
    "randomised-response",
    "exponential-mechanism",
    "pure-dp",
    "approx-dp",
    "non-private",
    "repeat",
    "sequence",
    "estimated",
];

/// Reads a mechanism at `place`.
pub(super) fn mechanism(value: &Value, place: String) -> Result<Mechanism> {
    let node = Node::new(value, place)?;
    let kind = node.text("type")?;
    for read in [whole, gaussian, other_noise, abstraction] {
        if let Some(found) = read(&node, kind)? {
            return Ok(found);
        }
    }
    let known = KINDS.join(", ");
    Err(node.refuse_key(
        "type",
        format!("unknown mechanism {kind:?}; known are {known}"),
    ))
}

/// Mechanisms made of others; `None` for another type.
fn whole(node: &Node<'_>, kind: &str) -> Result<Option<Mechanism>> {
    let child = |key: &str| Ok(Box::new(mechanism(node.value(key)?, node.at(key))?));
    Ok(Some(match kind {
        "repeat" => {
            node.only(&["type", "times", "each"])?;
            let times = Steps::new(node.whole("times", 0, MOST)?);
            Mechanism::Repeat {
                times,
                each: child("each")?,
            }
        }
        "sequence" => {
            node.only(&["type", "parts"])?;
            let parts = node.list("parts")?.iter().enumerate();
            let parts =
                parts.map(|(i, part)| mechanism(part, format!("{}[{i}]", node.at("parts"))));
            Mechanism::Sequence {
                parts: parts.collect::<Result<_>>()?,
            }
        }
        "estimated" => {
            node.only(&["type", "inner", "why"])?;
            Mechanism::Estimated {
                inner: child("inner")?,
                why: node.text("why")?.to_owned(),
            }
        }
        _ => return Ok(None),
    }))
}

/// Gaussian noise; `None` for another type.
fn gaussian(node: &Node<'_>, kind: &str) -> Result<Option<Mechanism>> {
    Ok(Some(match kind {
        "gaussian" => {
            node.only(&["type", "noise_multiplier"])?;
            Mechanism::Gaussian {
                noise_multiplier: node.quantity("noise_multiplier")?,
            }
        }
        "subsampled-gaussian" => {
            node.only(&["type", "noise_multiplier", "sampling_rate", "sampling"])?;
            Mechanism::SubsampledGaussian {
                noise_multiplier: node.quantity("noise_multiplier")?,
                sampling_rate: node.quantity("sampling_rate")?,
                sampling: sampling(node)?,
            }
        }
        "poisson-binomial-gaussian" => {
            node.only(&["type", "noise_multiplier", "rates"])?;
            let rates = node.numbers("rates")?.into_iter();
            Mechanism::PoissonBinomialGaussian {
                noise_multiplier: node.quantity("noise_multiplier")?,
                rates: rates
                    .map(|rate| node.checked::<SamplingRate>("rates", rate))
                    .collect::<Result<_>>()?,
            }
        }
        "mixture-of-gaussians" => {
            node.only(&["type", "noise_multiplier", "sensitivities", "probabilities"])?;
            mixture(node, "noise_multiplier", "sensitivities", "probabilities")?
        }
        _ => return Ok(None),
    }))
}

/// A mixture whose three parts stand under the given keys.
pub(super) fn mixture(
    node: &Node<'_>,
    noise: &str,
    places: &str,
    weights: &str,
) -> Result<Mechanism> {
    let sensitivities = node.numbers(places)?;
    let probabilities = node.numbers(weights)?.into_iter();
    let probabilities: Vec<Probability> = probabilities
        .map(|p| node.checked(weights, p))
        .collect::<Result<_>>()?;
    if sensitivities.is_empty() || sensitivities.len() != probabilities.len() {
        let why = format!(
            "must be as many as {places} and at least one, got {} for {}",
            probabilities.len(),
            sensitivities.len()
        );
        return Err(node.refuse_key(weights, why));
    }
    if let Some(odd) = sensitivities
        .iter()
        .find(|s| !(s.is_finite() && **s >= 0.0))
    {
        return Err(node.refuse_key(places, format!("must lie in [0, inf), got {odd}")));
    }
    if let Some(pair) = sensitivities.windows(2).find(|pair| pair[0] >= pair[1]) {
        let why = format!("must ascend, got {} before {}", pair[0], pair[1]);
        return Err(node.refuse_key(places, why));
    }
    let sum: f64 = probabilities.iter().map(|p| p.get()).sum();
    if (sum - 1.0).abs() > 1e-9 {
        return Err(node.refuse_key(weights, format!("must add up to 1, got {sum}")));
    }
    Ok(Mechanism::MixtureOfGaussians {
        noise_multiplier: node.quantity(noise)?,
        sensitivities,
        probabilities,
    })
}

/// Laplace and discrete noise; `None` for another type.
fn other_noise(node: &Node<'_>, kind: &str) -> Result<Option<Mechanism>> {
    let sensitivity = || Ok(node.whole("sensitivity", 1, u32::MAX.into())? as u32);
    Ok(Some(match kind {
        "laplace" => {
            node.only(&["type", "scale"])?;
            Mechanism::Laplace {
                scale: node.quantity("scale")?,
            }
        }
        "subsampled-laplace" => {
            node.only(&["type", "scale", "sampling_rate", "sampling"])?;
            Mechanism::SubsampledLaplace {
                scale: node.quantity("scale")?,
                sampling_rate: node.quantity("sampling_rate")?,
                sampling: sampling(node)?,
            }
        }
        "discrete-gaussian" => {
            node.only(&["type", "sigma", "sensitivity"])?;
            Mechanism::DiscreteGaussian {
                sigma: node.quantity("sigma")?,
                sensitivity: sensitivity()?,
            }
        }
        "discrete-laplace" => {
            node.only(&["type", "scale", "sensitivity"])?;
            Mechanism::DiscreteLaplace {
                scale: node.quantity("scale")?,
                sensitivity: sensitivity()?,
            }
        }
        "randomised-response" => {
            node.only(&["type", "truth", "categories"])?;
            Mechanism::RandomisedResponse {
                truth: node.quantity("truth")?,
                categories: node.whole("categories", 2, u32::MAX.into())? as u32,
            }
        }
        _ => return Ok(None),
    }))
}

/// What is known by its guarantee alone; `None` for another type.
fn abstraction(node: &Node<'_>, kind: &str) -> Result<Option<Mechanism>> {
    Ok(Some(match kind {
        "exponential-mechanism" => {
            node.only(&["type", "epsilon", "neighbours"])?;
            Mechanism::ExponentialMechanism {
                epsilon: node.quantity("epsilon")?,
                neighbours: neighbours(node)?,
            }
        }
        "pure-dp" => {
            node.only(&["type", "epsilon", "neighbours"])?;
            Mechanism::PureDp {
                epsilon: node.quantity("epsilon")?,
                neighbours: neighbours(node)?,
            }
        }
        "approx-dp" => {
            node.only(&["type", "epsilon", "delta", "neighbours"])?;
            Mechanism::ApproxDp {
                epsilon: node.quantity("epsilon")?,
                delta: node.quantity("delta")?,
                neighbours: neighbours(node)?,
            }
        }
        "non-private" => {
            node.only(&["type", "why"])?;
            Mechanism::NonPrivate {
                why: node.text("why")?.to_owned(),
            }
        }
        _ => return Ok(None),
    }))
}

fn neighbours(node: &Node<'_>) -> Result<Neighbours> {
    let found = node.text("neighbours")?;
    [
        Neighbours::AddRemove,
        Neighbours::ZeroOut,
        Neighbours::Replace,
    ]
    .into_iter()
    .find(|known| known.to_string() == found)
    .ok_or_else(|| {
        node.refuse_key(
            "neighbours",
            format!("must be add-remove, zero-out or replace, got {found:?}"),
        )
    })
}

/// A sampler: a word, or an object with the one that has sizes.
fn sampling(node: &Node<'_>) -> Result<Sampling> {
    const WORDS: [(&str, Sampling); 5] = [
        ("poisson", Sampling::Poisson),
        ("without-replacement", Sampling::WithoutReplacement),
        ("with-replacement", Sampling::WithReplacement),
        ("shuffled", Sampling::Shuffled),
        ("balls-in-bins", Sampling::BallsInBins),
    ];
    let value = node.value("sampling")?;
    if let Value::String(found) = value {
        let known = WORDS.iter().find(|(word, _)| word == found);
        return known.map(|(_, sampling)| *sampling).ok_or_else(|| {
            let words = WORDS.map(|(word, _)| word).join(", ");
            let why = format!(
                "must be {words} or an object truncated-poisson or random-allocation, got {found:?}"
            );
            node.refuse_key("sampling", why)
        });
    }
    let outer = Node::new(value, node.at("sampling"))?;
    outer.only(&["truncated-poisson", "random-allocation"])?;
    if outer.get("truncated-poisson").is_some() && outer.get("random-allocation").is_some() {
        return Err(outer.refuse("must be truncated-poisson or random-allocation, got both"));
    }
    if outer.get("random-allocation").is_some() {
        let sizes = Node::new(
            outer.value("random-allocation")?,
            outer.at("random-allocation"),
        )?;
        sizes.only(&["selected", "steps"])?;
        let steps = sizes.whole("steps", 1, MOST)?;
        return Ok(Sampling::RandomAllocation {
            selected: sizes.whole("selected", 1, steps)?,
            steps,
        });
    }
    let sizes = Node::new(
        outer.value("truncated-poisson")?,
        outer.at("truncated-poisson"),
    )?;
    sizes.only(&["max_batch", "records"])?;
    Ok(Sampling::TruncatedPoisson {
        max_batch: sizes.whole("max_batch", 1, MOST)?,
        records: sizes.whole("records", 1, MOST)?,
    })
}

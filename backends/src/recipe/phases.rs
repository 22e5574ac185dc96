//! What ran, for the accountant: the fold of phases into a mechanism.

use crate::error::Result;
use crate::manifest::Phase;
use reticent_accounting::confidentiality::{JustFineTuneTwice, LightNoise, PhaseOne};
use reticent_accounting::{Mechanism, NoiseMultiplier, SamplingRate, Steps};

const NOTHING: Mechanism = Mechanism::Sequence { parts: Vec::new() };

fn one(mut parts: Vec<Mechanism>) -> Mechanism {
    match parts.len() {
        1 => parts.remove(0),
        _ => Mechanism::Sequence { parts },
    }
}

fn non_private(why: &str) -> Vec<Mechanism> {
    vec![Mechanism::NonPrivate { why: why.into() }]
}

fn repeated(times: u64, each: Mechanism) -> Mechanism {
    Mechanism::Repeat {
        times: Steps::new(times),
        each: Box::new(each),
    }
}

/// What a phase releases of the records it protects.
fn parts(phase: &Phase) -> Result<Vec<Mechanism>> {
    Ok(match phase {
        // sees no record that differs between neighbours, as long as both policies together miss nothing
        Phase::Public { .. } | Phase::Stopped { public: true, .. } => Vec::new(),
        Phase::Stopped { public: false, .. } => {
            non_private("when to stop was decided by the loss of held-out text that is not public")
        }
        Phase::Unprotected { .. } => {
            non_private("records were trained on without clipping or noise")
        }
        Phase::Private {
            steps,
            noise_multiplier,
            sampling_rate,
            ..
        }
        | Phase::LightNoise {
            steps,
            noise_multiplier,
            sampling_rate,
            ..
        } => vec![Mechanism::dp_sgd(
            NoiseMultiplier::new(*noise_multiplier)?,
            SamplingRate::new(*sampling_rate)?,
            Steps::new(*steps),
        )],
        Phase::Redacted { alike, .. } => {
            let first = JustFineTuneTwice {
                first: PhaseOne::Unnoised(*alike),
                second: NOTHING,
            };
            match first.mechanism() {
                Mechanism::Sequence { parts } => {
                    parts.into_iter().filter(|p| *p != NOTHING).collect()
                }
                other => vec![other],
            }
        }
        Phase::Weighted {
            steps,
            noise_multiplier,
            secret_rates,
            ..
        } => vec![repeated(
            *steps,
            Mechanism::PoissonBinomialGaussian {
                noise_multiplier: NoiseMultiplier::new(*noise_multiplier)?,
                rates: secret_rates.clone(),
            },
        )],
        Phase::Selective { alike, .. } if !alike.every_content_caught => non_private(
            "selective steps train on a secret that the policy misses without clipping or noise",
        ),
        Phase::Selective {
            passes,
            noise_multiplier,
            state_noise_multiplier,
            states,
            ..
        } => {
            // Ordinary gradients show which batch a record is in, so nothing is amplified: each
            // pass releases its sensitive gradient once and each of its states, in full.
            let gaussian = |sigma: f64| -> Result<Mechanism> {
                Ok(Mechanism::Gaussian {
                    noise_multiplier: NoiseMultiplier::new(sigma)?,
                })
            };
            let mut parts = vec![repeated(*passes, gaussian(*noise_multiplier)?)];
            if *states > 0 {
                parts.push(repeated(
                    passes * states,
                    gaussian(*state_noise_multiplier)?,
                ));
            }
            parts
        }
    })
}

/// The mechanism of these phases, for the accountant.
///
/// # Errors
/// Never for the phases of a finished run; constants out of range otherwise.
pub(crate) fn mechanism(phases: &[Phase]) -> Result<Mechanism> {
    let parts = phases.iter().map(parts).collect::<Result<Vec<_>>>()?;
    Ok(one(parts.concat()))
}

/// What a paper estimates of these phases where it has no bound: JFT's light noise, at both
/// ends of its interval of the miss rate, before whatever came after.
pub(crate) fn estimates(phases: &[Phase]) -> Result<Vec<Mechanism>> {
    let mut ends: [Vec<Mechanism>; 2] = [Vec::new(), Vec::new()];
    let mut any = false;
    for phase in phases {
        let light = match phase {
            Phase::LightNoise {
                steps,
                noise_multiplier,
                sampling_rate,
                miss,
                ..
            } => LightNoise {
                noise_multiplier: NoiseMultiplier::new(*noise_multiplier)?,
                sampling_rate: SamplingRate::new(*sampling_rate)?,
                steps: Steps::new(*steps),
                miss: *miss,
            }
            .mechanism()?,
            other => {
                let same = parts(other)?;
                ends.iter_mut().for_each(|end| end.extend(same.clone()));
                continue;
            }
        };
        any = true;
        for (end, light) in ends.iter_mut().zip(light) {
            end.push(light);
        }
    }
    Ok(if any {
        ends.map(one).to_vec()
    } else {
        Vec::new()
    })
}

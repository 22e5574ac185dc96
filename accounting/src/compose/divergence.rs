//! The Kullback–Leibler divergence of a composed loss, certified.

use crate::engine::contour::cumulants::{CumulantFunction, Source};
use crate::loss::PrivacyLoss;
use crate::numeric::special::ROUND;
use crate::quantity::bound::Upper;
use crate::quantity::error::{Error, Result};

impl PrivacyLoss {
    /// Returns the Kullback–Leibler divergence of the composed pair, in nats.
    ///
    /// Bound: upper, tight to about 1e-13; to about 1e-6 relatively if the grid computes it.
    ///
    /// # Errors
    /// Returns [`crate::Error::NotCertified`] if the quadrature can't be certified.
    pub fn divergence(&self) -> Result<Upper<f64>> {
        if self.unbounded {
            return Ok(Upper::new(f64::INFINITY));
        }
        if let Some(informed) = &self.more_informed {
            return informed.divergence();
        }
        let cumulants = CumulantFunction::new(&self.without_laws(), 2.0)?;
        let mut total = 0.5 * self.gaussian;
        for (law, times) in &self.laws {
            // A law that is too wide for the quadrature has no bound here.
            let each = match &law.stated {
                Some(stated) => stated.divergence(),
                None => law.divergence(),
            };
            let each = match each {
                Err(Error::NotCertified { .. }) => f64::INFINITY,
                found => found?,
            };
            total += *times as f64 * each;
        }
        for part in &cumulants.parts {
            total += match &part.source {
                Source::Pair(pair) => {
                    let (value, error) = pair.divergence(part.nodes());
                    part.times * (value + error)
                }
                // Of components far apart, only moments are charted.
                Source::LossDistribution(_) => f64::INFINITY,
            };
        }
        Ok(Upper::new(total * (1.0 + 8.0 * ROUND)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Direction, GroupSize, Mechanism, Neighbours, NoiseMultiplier, Query, SamplingRate, Steps,
    };

    #[test]
    fn composed_divergences_match_reference_values() {
        // shared vectors mog_kl_*: 100 records at rate 20480/1.7e7, 2000 steps, relative 1e-9.
        for (sigma, expected) in [
            (73.0, 0.00272368570616),
            (10.0, 0.145857355557),
            (3.0, 1.70440262856),
            (2.0, 4.10794015648),
            (1.5, 8.025008303),
            (1.0, 23.0714407205),
        ] {
            let run = Mechanism::dp_sgd(
                NoiseMultiplier::new(sigma).unwrap(),
                SamplingRate::new(20480.0 / 1.7e7).unwrap(),
                Steps::new(2000),
            );
            let query = Query {
                neighbours: Neighbours::ZeroOut,
                group: GroupSize::new(100).unwrap(),
            };
            let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
            let value = *loss.divergence().unwrap().get();
            assert!(
                (value / expected - 1.0).abs() < 1e-9,
                "sigma {sigma}: {value}"
            );
        }
    }

    #[test]
    fn a_plain_gaussian_has_half_its_squared_distance() {
        let plain = Mechanism::Gaussian {
            noise_multiplier: NoiseMultiplier::new(2.0).unwrap(),
        };
        let loss = PrivacyLoss::of(
            &plain,
            Query::single(Neighbours::Replace),
            Direction::Remove,
        )
        .unwrap();
        assert!((loss.divergence().unwrap().get() - 0.5).abs() < 1e-15);
    }
}

//! The probability that a sampler draws a suffix.

use super::Passage;
use crate::error::{Error, Result, positive, ranged};
use crate::search::{Meter, distribution};
use reticent_backends::PrefixScorer;
use reticent_corpus::TokenId;

/// The settings with which a user of the model draws tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SamplerSettings {
    /// The divisor of the logits; 1 leaves them unchanged.
    pub temperature: f64,
    /// Draws only from this many of the most probable tokens.
    pub top_k: Option<usize>,
    /// Draws only from the most probable tokens that together reach this mass.
    pub top_p: Option<f64>,
}

impl SamplerSettings {
    /// The model's own distribution.
    pub const PLAIN: Self = Self {
        temperature: 1.0,
        top_k: None,
        top_p: None,
    };

    /// Validates the settings.
    ///
    /// # Errors
    /// Returns an error if the temperature is outside (0, ∞), top-k is 0, or top-p is outside
    /// (0, 1].
    pub fn validated(self) -> Result<Self> {
        positive("temperature", self.temperature)?;
        ranged("top-k", "[1, inf)", 0, self.top_k != Some(0))?;
        match self.top_p {
            Some(p) if !(p > 0.0 && p <= 1.0) => Err(Error::out_of_range("top-p", "(0, 1]", p)),
            _ => Ok(self),
        }
    }

    /// Returns whether the sampler draws from the model's own distribution.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::PLAIN
    }

    /// Returns ln of the probability that the sampler draws `token` if the model's
    /// log-probabilities are `row`: temperature first, then top-k, then top-p of the remaining
    /// tokens, as transformers does.
    ///
    /// Returns −∞ if the token is cut off. Of equal tokens those with smaller numbers come first.
    ///
    /// ```
    /// use reticent_attacks::extract::SamplerSettings;
    /// let row = [0.5_f64.ln(), 0.3_f64.ln(), 0.2_f64.ln()];
    /// let two = SamplerSettings { top_k: Some(2), ..SamplerSettings::PLAIN };
    /// assert!((two.ln_probability(&row, 1)? - (0.3_f64 / 0.8).ln()).abs() < 1e-12);
    /// assert_eq!(two.ln_probability(&row, 2)?, f64::NEG_INFINITY);
    /// # Ok::<(), reticent_attacks::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Self::validated`]; also returns an error if the token is outside the row, if a value of
    /// the row is not a log-probability, or if no token has a probability above 0.
    pub fn ln_probability(&self, row: &[f64], token: TokenId) -> Result<f64> {
        self.validated()?;
        let own = token as usize;
        ranged("token", "one of the row", token, own < row.len())?;
        // Divided by a small temperature, all values may become -inf.
        let row = distribution(row)?;
        let heated: Vec<f64> = row.iter().map(|v| v / self.temperature).collect();
        let heated = distribution(&heated)?;
        let mut order: Vec<usize> = (0..heated.len()).collect();
        if self.top_k.is_some() || self.top_p.is_some() {
            order.sort_by(|a, b| heated[*b].total_cmp(&heated[*a]).then(a.cmp(b)));
            order.truncate(self.top_k.unwrap_or(usize::MAX));
        }
        let top = order
            .iter()
            .map(|&i| heated[i])
            .fold(f64::NEG_INFINITY, f64::max);
        let mass = |order: &[usize]| order.iter().map(|&i| (heated[i] - top).exp()).sum::<f64>();
        if let Some(p) = self.top_p {
            let (wanted, mut so_far) = (p * mass(&order), 0.0);
            // The token that reaches the mass is still included.
            let reached = order.iter().position(|&i| {
                so_far += (heated[i] - top).exp();
                so_far >= wanted
            });
            order.truncate(reached.map_or(order.len(), |at| at + 1));
        }
        if !order.contains(&own) {
            return Ok(f64::NEG_INFINITY);
        }
        Ok((heated[own] - top - mass(&order).ln()).min(0.0))
    }
}

/// Returns ln P(the sampler draws the suffix) of each passage, teacher-forced over cached states.
/// This is for samplers other than the plain one, whose probabilities the token scores already
/// contain.
///
/// # Errors
/// As for [`SamplerSettings::ln_probability`]; also returns an error if a prompt or suffix is empty, if the
/// model has no vocabulary or returns another number of states or values than requested, or if the engine
/// fails. The states are released in every case.
pub fn ln_drawn<S: PrefixScorer + ?Sized>(
    scorer: &mut S,
    passages: &[Passage],
    sampler: SamplerSettings,
) -> Result<Vec<f64>> {
    passages.iter().try_for_each(Passage::check)?;
    let mut meter = Meter::new(scorer);
    let mut all = Vec::with_capacity(passages.len());
    for passage in passages {
        let walked = walk(&mut meter, passage, sampler);
        meter.release_all();
        all.push(walked?);
    }
    Ok(all)
}

fn walk<S: PrefixScorer + ?Sized>(
    meter: &mut Meter<'_, S>,
    passage: &Passage,
    sampler: SamplerSettings,
) -> Result<f64> {
    let mut states = meter.start(std::slice::from_ref(&passage.prompt))?;
    let mut sum = 0.0;
    for (place, &token) in passage.suffix.iter().enumerate() {
        let row = meter.distributions(&states)?;
        sum += sampler.ln_probability(&row[0], token)?;
        if sum == f64::NEG_INFINITY {
            break;
        }
        if place + 1 < passage.suffix.len() {
            let next = meter.extend(&[(states[0], token)])?;
            meter.let_go(&states);
            states = next;
        }
    }
    Ok(sum)
}

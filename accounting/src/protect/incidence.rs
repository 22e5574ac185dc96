//! The incidence of secrets in examples, in both directions.

use crate::quantity::error::{Error, Result};

/// A sparse 0/1 matrix between examples and secrets, stored by example and by secret.
///
/// Examples without a secret and secrets without an example are allowed. Uses eight bytes per pair
/// and four per example and secret.
///
/// ```
/// use reticent_accounting::protect::Incidence;
/// let incidence = Incidence::new(3, 2, vec![(0, 0), (2, 1), (2, 0), (2, 1)])?;
/// assert_eq!(incidence.secrets_of(2), [0, 1]);
/// assert_eq!(incidence.examples_of(0), [0, 2]);
/// assert_eq!(incidence.pairs(), 3);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incidence {
    example_starts: Vec<u32>,
    secrets: Vec<u32>,
    secret_starts: Vec<u32>,
    examples: Vec<u32>,
}

impl Incidence {
    /// Creates an incidence from pairs (example, secret) in any order; a pair given twice counts
    /// once.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] if an index is too large, or for 2^32 pairs and more.
    pub fn new(examples: u32, secrets: u32, mut pairs: Vec<(u32, u32)>) -> Result<Self> {
        let limit = u32::MAX as usize;
        if pairs.len() >= limit {
            return Err(Error::out_of_range(
                "number of pairs of example and secret",
                "[0, 2^32 - 2]",
                pairs.len() as f64,
            ));
        }
        if let Some(&(example, _)) = pairs.iter().find(|pair| pair.0 >= examples) {
            return Err(Error::out_of_range(
                "index of an example",
                "[0, number of examples)",
                f64::from(example),
            ));
        }
        if let Some(&(_, secret)) = pairs.iter().find(|pair| pair.1 >= secrets) {
            return Err(Error::out_of_range(
                "index of a secret",
                "[0, number of secrets)",
                f64::from(secret),
            ));
        }
        pairs.sort_unstable();
        pairs.dedup();
        let example_starts = starts(examples, pairs.iter().map(|pair| pair.0));
        let secret_starts = starts(secrets, pairs.iter().map(|pair| pair.1));
        let mut next = secret_starts.clone();
        let mut by_secret = vec![0; pairs.len()];
        for &(example, secret) in &pairs {
            let place = &mut next[secret as usize];
            by_secret[*place as usize] = example;
            *place += 1;
        }
        Ok(Self {
            example_starts,
            secrets: pairs.into_iter().map(|pair| pair.1).collect(),
            secret_starts,
            examples: by_secret,
        })
    }

    /// Returns the number of examples, including those without a secret.
    #[must_use]
    pub fn example_count(&self) -> usize {
        self.example_starts.len() - 1
    }

    /// Returns the number of secrets.
    #[must_use]
    pub fn secret_count(&self) -> usize {
        self.secret_starts.len() - 1
    }

    /// Returns the number of pairs of example and secret.
    #[must_use]
    pub fn pairs(&self) -> usize {
        self.secrets.len()
    }

    /// Checks the index of a secret.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] for an index beyond the last secret.
    pub(super) fn check_secret(&self, secret: usize) -> Result<()> {
        if secret < self.secret_count() {
            return Ok(());
        }
        Err(Error::out_of_range(
            "index of a secret",
            "[0, number of secrets)",
            secret as f64,
        ))
    }

    /// Returns the secrets of one example, ascending.
    ///
    /// # Panics
    /// If `example` is no less than [`Incidence::example_count`].
    #[must_use]
    pub fn secrets_of(&self, example: usize) -> &[u32] {
        slice(&self.example_starts, &self.secrets, example)
    }

    /// Returns the examples of one secret, ascending.
    ///
    /// # Panics
    /// If `secret` is no less than [`Incidence::secret_count`].
    #[must_use]
    pub fn examples_of(&self, secret: usize) -> &[u32] {
        slice(&self.secret_starts, &self.examples, secret)
    }
}

fn slice<'a>(starts: &[u32], values: &'a [u32], index: usize) -> &'a [u32] {
    &values[starts[index] as usize..starts[index + 1] as usize]
}

/// Returns the start of each row, one entry more than there are rows.
fn starts(rows: u32, entries: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut starts = vec![0u32; rows as usize + 1];
    for row in entries {
        starts[row as usize + 1] += 1;
    }
    for row in 1..starts.len() {
        starts[row] += starts[row - 1];
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_hold_the_same_pairs() {
        let pairs = vec![(4, 1), (0, 2), (4, 1), (3, 2), (4, 0)];
        let incidence = Incidence::new(6, 4, pairs).unwrap();
        assert_eq!(
            (incidence.example_count(), incidence.secret_count()),
            (6, 4)
        );
        let forward: Vec<_> = (0..6)
            .flat_map(|e| incidence.secrets_of(e).iter().map(move |s| (e as u32, *s)))
            .collect();
        let mut backward: Vec<_> = (0..4)
            .flat_map(|s| incidence.examples_of(s).iter().map(move |e| (*e, s as u32)))
            .collect();
        backward.sort_unstable();
        assert_eq!(forward, backward);
        assert_eq!(forward, [(0, 2), (3, 2), (4, 0), (4, 1)]);
    }

    #[test]
    fn indices_beyond_the_end_are_named() {
        let error = Incidence::new(2, 2, vec![(2, 0)]).unwrap_err().to_string();
        assert_eq!(
            error,
            "index of an example must lie in [0, number of examples), got 2"
        );
        assert!(Incidence::new(2, 2, vec![(0, 2)]).is_err());
    }
}

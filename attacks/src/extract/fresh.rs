//! Fresh candidates of a secret, drawn from its shape.

use crate::error::{Error, Result};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use reticent_corpus::canary::CanaryTemplate;
use std::collections::BTreeSet;

/// Fields in the place of a secret; the template around them has this prefix and no suffix.
const PREFIX: &str = "x";

/// What a secret looks like: fields as in `{digits:6}` or `{upper:2}-{digits:4}`, which it fills from its
/// first character to its last.
///
/// ```
/// use reticent_attacks::extract::SecretShape;
/// let shape: SecretShape = "{digits:3}-{digits:4}".parse()?;
/// let drawn = shape.candidates("555-0199", "anna", 100, 7)?;
/// assert_eq!(drawn.len(), 100);
/// assert!(drawn.contains(&"555-0199".to_owned()));
/// // A small shape is gone through.
/// let small: SecretShape = "{list:red|green|blue}".parse()?;
/// assert_eq!(small.candidates("red", "anna", 100, 7)?, ["blue", "green", "red"]);
/// # Ok::<(), reticent_attacks::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretShape {
    text: String,
    template: CanaryTemplate,
}

impl std::str::FromStr for SecretShape {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        // Nothing of it is shown: its lists name the secret, and so may what stands beside its fields.
        let refused = |got: &str| Error::Unsuitable {
            what: "shape of a secret",
            needed: "fields such as {digits:6}, {letters:4}, {upper:2} or {list:red|green}, on one line, at its beginning \
                     and its end; what is fixed before it belongs to the context",
            got: got.to_owned(),
        };
        if text.contains(['\n', '\r']) {
            return Err(refused("a line break"));
        }
        if !text.contains('{') {
            return Err(refused("a text without a field"));
        }
        let template: CanaryTemplate =
            format!("{PREFIX}{text}")
                .parse()
                .map_err(|error| match error {
                    reticent_corpus::Error::Template { .. } => {
                        refused("a text in which some field is none of these, or is not closed")
                    }
                    other => other.into(),
                })?;
        if template.prefix() != PREFIX || !template.suffix().is_empty() {
            return Err(refused("a text that begins or ends beside its fields"));
        }
        Ok(Self {
            text: text.to_owned(),
            template,
        })
    }
}

impl SecretShape {
    /// How many texts have this shape.
    #[must_use]
    pub fn texts(&self) -> u128 {
        self.template.candidates()
    }

    /// The secret and other texts of its shape, `count` in all or as many as there are, sorted. Every set
    /// of others is as likely as any other, whatever the secret is: of a secret that is uniform on its
    /// shape nobody who sees the list alone can tell which one it is.
    ///
    /// `id` names the secret, so that secrets of one shape and seed have lists of their own.
    ///
    /// # Errors
    /// A secret that is not of this shape, fewer than two candidates.
    pub fn candidates(&self, secret: &str, id: &str, count: u64, seed: u64) -> Result<Vec<String>> {
        let all = self.template.candidates();
        if !self.template.matches(secret) {
            // The secret itself is not said.
            return Err(Error::Unsuitable {
                what: "secret",
                needed: "a text of its shape",
                got: format!("another text ({id})"),
            });
        }
        if count < 2 || all < 2 {
            return Err(Error::out_of_range(
                "candidates",
                "[2, inf)",
                all.min(u128::from(count)),
            ));
        }
        let positions = self.template.positions();
        if all <= u128::from(count) {
            return Ok(every(&positions));
        }
        let mut rng = ChaCha20Rng::from_seed(key(id, seed));
        let mut found = BTreeSet::from([secret.to_owned()]);
        if all / 2 < u128::from(count) {
            // So many that drawing would meet the same ones again and again: leave some out instead.
            let mut others = every(&positions);
            others.retain(|other| other != secret);
            while found.len() < count as usize {
                let at = rng.random_range(0..others.len());
                found.insert(others.swap_remove(at));
            }
        }
        while found.len() < count as usize {
            let draw = positions
                .iter()
                .map(|at| at[rng.random_range(0..at.len())].as_str());
            found.insert(draw.collect());
        }
        Ok(found.into_iter().collect())
    }
}

/// Every text, sorted.
fn every(positions: &[Vec<String>]) -> Vec<String> {
    let mut all = vec![String::new()];
    for choices in positions {
        let longer = all
            .iter()
            .flat_map(|text| choices.iter().map(move |choice| format!("{text}{choice}")));
        all = longer.collect();
    }
    all.sort();
    all
}

/// A key for this secret's list that nothing else in this toolkit draws from: a secret that was planted
/// with the same seed is independent of it.
fn key(id: &str, seed: u64) -> [u8; 32] {
    // FNV-1a, of 64 bits at four offsets: no digest is needed where nobody chooses names to collide.
    let bytes = b"candidates of a secret\0"
        .iter()
        .copied()
        .chain(seed.to_le_bytes())
        .chain(id.bytes());
    let mut key = [0; 32];
    for (word, out) in (0u64..).zip(key.chunks_exact_mut(8)) {
        let start = 0xcbf2_9ce4_8422_2325_u64 ^ word.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = bytes.clone().fold(start, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        out.copy_from_slice(&hash.to_le_bytes());
    }
    key
}

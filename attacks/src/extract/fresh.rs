//! Draws fresh candidates for a secret from its shape.

use crate::error::{Error, Result, ranged};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use reticent_corpus::canary::CanaryTemplate;
use std::collections::BTreeSet;

/// The prefix of the template around the fields of a shape, which has no suffix.
const PREFIX: &str = "x";

/// The form of a secret: fields such as `{digits:6}` or `{upper:2}-{digits:4}`, which extend from the secret's
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
        // Show nothing of the text: its lists name the secret, and so may the text next to its fields.
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
    /// Returns the number of texts that have this shape.
    #[must_use]
    pub fn texts(&self) -> u128 {
        self.template.candidates()
    }

    /// Returns the secret and other texts of its shape, sorted: `count` in all, or as many as there are. Every set of
    /// others is equally likely, whatever the secret is. If the secret is uniform on its shape, the list alone
    /// therefore does not reveal which of its texts is the secret.
    ///
    /// `id` names the secret, so that secrets with the same shape and seed have different lists.
    ///
    /// # Errors
    /// Returns an error if the secret does not have this shape, or if there are fewer than two candidates.
    pub fn candidates(&self, secret: &str, id: &str, count: u64, seed: u64) -> Result<Vec<String>> {
        let all = self.template.candidates();
        if !self.template.matches(secret) {
            // The error does not contain the secret itself, nor its id, which may be the secret.
            return Err(Error::Unsuitable {
                what: "secret",
                needed: "a text of its shape",
                got: "another text".to_owned(),
            });
        }
        ranged(
            "candidates",
            "[2, inf)",
            all.min(u128::from(count)),
            count >= 2 && all >= 2,
        )?;
        let positions = self.template.positions();
        if all <= u128::from(count) {
            return Ok(every(&positions));
        }
        let mut rng = ChaCha20Rng::from_seed(key(id, seed));
        let mut found = BTreeSet::from([secret.to_owned()]);
        if all / 2 < u128::from(count) {
            // Drawing would mostly repeat texts already found: enumerate the others instead.
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

/// Returns every text, sorted.
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

/// Returns a key for this secret's list that nothing else in this toolkit draws from, so that the list is independent
/// of a secret that was planted with the same seed.
fn key(id: &str, seed: u64) -> [u8; 32] {
    // 64-bit FNV-1a at four offsets: no digest is needed where nobody chooses names to collide.
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

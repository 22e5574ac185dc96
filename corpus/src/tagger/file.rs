//! Reads and writes models as bytes, which are read as untrusted input.

use super::chain::{Chain, MOST_LABELS};
use super::lexicon::Lexicon;
use super::{TASKS, TaggerModel};
use crate::error::{Error, Result};
use sha2::{Digest, Sha256};

const MAGIC: &[u8; 8] = b"RTAGGER3";
/// A limit far above the size of our models.
const MOST_FEATURES: usize = 1 << 22;

fn damaged(problem: impl Into<String>) -> Error {
    Error::Tagger(problem.into())
}

impl TaggerModel {
    /// Returns the model as bytes: magic, then for each chain its numbers of labels and features, the scale,
    /// transitions, hashes in order and weights; then for lists and for clusters the number of words, their hashes in
    /// order and the value of each; at the end the SHA-256 of everything. Hashes in order are stored as the differences
    /// between neighbours, first the lowest byte of each, then the next. Compressed with deflate, as in an archive,
    /// this takes two thirds of the space of the hashes themselves.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        for chain in &self.chains {
            out.extend((chain.labels as u32).to_le_bytes());
            out.extend((chain.hashes.len() as u32).to_le_bytes());
            out.extend(chain.scale.to_le_bytes());
            for value in &chain.transitions {
                out.extend(value.to_le_bytes());
            }
            put_hashes(&mut out, &chain.hashes);
            out.extend(chain.weights().map(|w| w.to_le_bytes()[0]));
        }
        let lexicon = &self.lexicon;
        for (hashes, what) in [
            (&lexicon.list_hashes, &lexicon.lists[..]),
            (&lexicon.cluster_hashes, lexicon.clusters.as_flattened()),
        ] {
            out.extend((hashes.len() as u32).to_le_bytes());
            put_hashes(&mut out, hashes);
            out.extend(what);
        }
        let digest = Sha256::digest(&out);
        out.extend(digest);
        out
    }

    /// Reads a model from the bytes of [`Self::to_bytes`].
    ///
    /// # Errors
    /// Returns an error if the digest does not match, the version is another one, or sizes or weights are outside their
    /// ranges.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let split = bytes
            .len()
            .checked_sub(32)
            .ok_or_else(|| damaged("shorter than its digest"))?;
        let (body, digest) = bytes.split_at(split);
        if Sha256::digest(body)[..] != *digest {
            return Err(damaged("the digest does not match: the file is damaged"));
        }
        let mut source = Source(body);
        if source.take(8)? != MAGIC {
            return Err(damaged(
                "no model of this version: it must begin with RTAGGER3",
            ));
        }
        let chains: Vec<Chain> = TASKS
            .iter()
            .map(|(name, labels)| {
                source
                    .chain(*labels)
                    .map_err(|e| damaged(format!("{name}: {e}")))
            })
            .collect::<Result<_>>()?;
        let (list_hashes, lists) = source.lexicon::<1>()?;
        let (cluster_hashes, clusters) = source.lexicon::<2>()?;
        let lists = lists.into_iter().flatten().collect();
        let lexicon = Lexicon::new(list_hashes, lists, cluster_hashes, clusters);
        if !source.0.is_empty() {
            return Err(damaged(format!("{} bytes too many", source.0.len())));
        }
        let chains = <[Chain; 3]>::try_from(chains).map_err(|_| damaged("not three chains"))?;
        Ok(Self::of(chains, lexicon))
    }
}

/// Appends ascending hashes in the format of [`Source::hashes`].
fn put_hashes(out: &mut Vec<u8>, hashes: &[u32]) {
    for plane in 0..4 {
        let mut before = 0;
        for hash in hashes {
            out.push((hash - before).to_le_bytes()[plane]);
            before = *hash;
        }
    }
}

struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (front, back) = self
            .0
            .split_at_checked(count)
            .ok_or_else(|| damaged(format!("{count} bytes wanted, {} left", self.0.len())))?;
        self.0 = back;
        Ok(front)
    }

    fn words(&mut self, count: usize) -> Result<impl Iterator<Item = [u8; 4]> + 'a> {
        let bytes = self.take(count * 4)?;
        Ok(bytes.as_chunks::<4>().0.iter().copied())
    }

    fn number(&mut self) -> Result<usize> {
        let number = self.words(1)?.next().map(u32::from_le_bytes);
        Ok(number.unwrap_or(0) as usize)
    }

    fn hashes(&mut self, count: usize) -> Result<Vec<u32>> {
        let planes = [
            self.take(count)?,
            self.take(count)?,
            self.take(count)?,
            self.take(count)?,
        ];
        let mut hashes = Vec::with_capacity(count);
        let mut before = 0u32;
        for at in 0..count {
            let step = u32::from_le_bytes(planes.map(|plane| plane[at]));
            // Only the first hash may be 0.
            before = before
                .checked_add(step)
                .filter(|_| step > 0 || at == 0)
                .ok_or_else(|| damaged("hashes that do not rise"))?;
            hashes.push(before);
        }
        Ok(hashes)
    }

    /// Reads hashes of words with N bytes for each.
    fn lexicon<const N: usize>(&mut self) -> Result<(Vec<u32>, Vec<[u8; N]>)> {
        let count = self.number()?;
        if count > MOST_FEATURES {
            return Err(damaged(format!(
                "at most {MOST_FEATURES} words, has {count}"
            )));
        }
        let hashes = self.hashes(count)?;
        Ok((hashes, self.take(count * N)?.as_chunks().0.to_vec()))
    }

    fn chain(&mut self, expected: usize) -> Result<Chain> {
        let labels = self.number()?;
        let features = self.number()?;
        if labels != expected || labels > MOST_LABELS {
            return Err(damaged(format!(
                "must have {expected} labels, has {labels}"
            )));
        }
        if features > MOST_FEATURES {
            return Err(damaged(format!(
                "at most {MOST_FEATURES} features, has {features}"
            )));
        }
        let mut floats = self
            .words(1 + (labels + 1) * labels)?
            .map(f32::from_le_bytes);
        let scale = floats.next().unwrap_or(0.0);
        let transitions: Vec<f32> = floats.collect();
        // Bounds within which sums do not approach the limits of an f32 or its exponential.
        let bounded = scale > 0.0 && scale <= 1.0 && transitions.iter().all(|t| t.abs() <= 30.0);
        if !bounded {
            return Err(damaged(
                "a scale outside (0, 1] or a transition outside [-30, 30]",
            ));
        }
        let hashes = self.hashes(features)?;
        let weights: Vec<i8> = self
            .take(features * labels)?
            .iter()
            .map(|w| i8::from_le_bytes([*w]))
            .collect();
        Ok(Chain::new(labels, scale, transitions, hashes, &weights))
    }
}

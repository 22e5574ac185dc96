//! Adds tokens to the vocabulary of a pretrained model.

use super::{Model, in_range};
use crate::error::Result;
use crate::trainer::{Parameter, check_shapes};

impl Model {
    /// Returns the same model with a vocabulary of `size` tokens. The new tokens, for example `<MASK>`, follow the
    /// known ones.
    ///
    /// Every new token starts as the mean of the known ones, in the embedding and in the head. The mean depends only on
    /// the weights, and training begins near it without a jump.
    ///
    /// # Errors
    /// Returns [`crate::Error::OutOfRange`] for fewer tokens than the model has; [`crate::Error::Shape`] if the weights
    /// do not fit the model.
    pub fn grown(&self, weights: Vec<Vec<f32>>, size: usize) -> Result<(Self, Vec<Vec<f32>>)> {
        let known = self.vocabulary();
        in_range(
            "vocabulary size of a grown model",
            size,
            known,
            1 << 20,
            "at least the model's own, at most 1048576",
        )?;
        let before = self.parameters();
        check_shapes(&before, &weights)?;
        let mut model = self.clone();
        match &mut model {
            Self::Lstm(config) => config.vocabulary = size,
            Self::Transformer(config) => config.vocabulary = size,
        }
        let model = model.validated()?;
        let after = model.parameters();
        let grown = weights
            .into_iter()
            .zip(before.iter().zip(&after))
            .map(|(values, (old, new))| widened(values, old, new));
        let grown = grown.collect();
        Ok((model, grown))
    }
}

/// Appends rows at the bottom or columns at the right, each the mean of the existing ones.
fn widened(values: Vec<f32>, old: &Parameter, new: &Parameter) -> Vec<f32> {
    if old.shape == new.shape {
        return values;
    }
    let columns = |p: &Parameter| p.shape[1..].iter().product::<usize>();
    let (width, wanted) = (columns(old), columns(new));
    let mut out = Vec::with_capacity(new.len());
    if width == wanted {
        let mean = column_means(&values, width);
        let more = new.shape[0] - old.shape[0];
        out.extend(values);
        (0..more).for_each(|_| out.extend(&mean));
    } else {
        for row in values.chunks_exact(width) {
            let mean = row.iter().map(|x| f64::from(*x)).sum::<f64>() / width as f64;
            out.extend(row);
            out.resize(out.len() + wanted - width, mean as f32);
        }
    }
    out
}

fn column_means(values: &[f32], width: usize) -> Vec<f32> {
    let mut sums = vec![0.0f64; width];
    for row in values.chunks_exact(width) {
        sums.iter_mut()
            .zip(row)
            .for_each(|(s, x)| *s += f64::from(*x));
    }
    let rows = (values.len() / width) as f64;
    sums.iter().map(|s| (s / rows) as f32).collect()
}

#[cfg(test)]
mod tests {
    use crate::model::{Family, LstmConfig, Model, TransformerConfig};

    /// Known tokens keep their logits bit by bit, new ones get the mean of theirs.
    #[test]
    fn known_tokens_keep_their_weights_and_new_ones_are_the_mean() {
        let untied = TransformerConfig {
            tied: false,
            ..TransformerConfig::new(Family::Llama, 11, 8, 1, 2, 16)
        };
        let models: [Model; 3] = [
            LstmConfig {
                vocabulary: 11,
                embedding: 3,
                hidden: 4,
            }
            .into(),
            TransformerConfig::new(Family::Gpt2, 11, 8, 1, 2, 16).into(),
            untied.into(),
        ];
        for model in models {
            let weights = model.starting_weights(3);
            let (grown, more) = model.grown(weights.clone(), 13).unwrap();
            assert_eq!(grown.vocabulary(), 13);
            let shapes = model.parameters().into_iter().zip(grown.parameters());
            for ((old, new), (before, after)) in shapes.zip(weights.iter().zip(&more)) {
                assert_eq!(after.len(), new.len(), "{}", new.name);
                if old.shape == new.shape {
                    assert_eq!(before, after);
                } else if old.shape[0] == 11 {
                    let width = old.len() / 11;
                    assert_eq!(before[..], after[..before.len()], "{}", old.name);
                    let mean = (0..11).map(|r| before[r * width]).sum::<f32>() / 11.0;
                    assert!((after[11 * width] - mean).abs() < 1e-6);
                    assert!((after[12 * width] - mean).abs() < 1e-6);
                } else {
                    assert_eq!(before[..11], after[..11], "{}", old.name);
                    let mean = before[..11].iter().sum::<f32>() / 11.0;
                    assert!((after[11] - mean).abs() < 1e-6 && (after[12] - mean).abs() < 1e-6);
                    assert_eq!(before[11..22], after[13..24], "{}", old.name);
                }
            }
            assert!(model.grown(weights, 10).is_err());
        }
    }
}

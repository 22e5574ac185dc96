//! Model folders as others write them, for what reads them.

use crate::error::Result;
use crate::hugging_face::{tokenizer_json, write};
use crate::model::TransformerConfig;
use reticent_corpus::tokenize::Tokenizer;
use std::path::Path;

/// Writes a folder that transformers loads unchanged, whole or not at all.
///
/// ```
/// use reticent_backends::hugging_face::load_hugging_face;
/// use reticent_backends::model::{Family, TransformerConfig};
/// use reticent_backends::oracle::save_hugging_face;
/// let config = TransformerConfig::new(Family::Gpt2, 50, 8, 1, 2, 16).validated()?;
/// let weights = config.starting_weights(0);
/// let home = tempfile::tempdir().expect("a folder for temporary files");
/// let folder = home.path().join("tiny-gpt2");
/// save_hugging_face(&folder, &config, &weights, None)?;
/// assert_eq!(load_hugging_face(&folder)?, (config, weights));
/// # Ok::<(), reticent_backends::Error>(())
/// ```
///
/// # Errors
/// Returns an error if the folder exists and is not empty, or if it can't be written;
/// [`Error::Shape`](crate::Error::Shape) if the weights do not fit.
pub fn save_hugging_face(
    folder: &Path,
    config: &TransformerConfig,
    weights: &[Vec<f32>],
    tokenizer: Option<&Tokenizer>,
) -> Result<()> {
    let json = tokenizer
        .map(|tokenizer| tokenizer_json(config.head, tokenizer))
        .transpose()?;
    let specials = tokenizer.map(|t| [t.bos(), t.eos()]);
    write(folder, config, weights, specials, json.as_deref())
}

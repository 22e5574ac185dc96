//! Trains byte-level BPE vocabularies on text that is declared public, through the `tokenizers` crate.

use crate::error::{Error, Result, within};
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, Tokenizer as Engine};

/// The token for both the end and the beginning of a text.
const END: &str = "<|endoftext|>";
/// Every byte, and the end of a text.
const LEAST: usize = 257;
const MOST: usize = 1 << 20;

/// Trains a byte-level BPE tokenizer like GPT-2's, which encodes any text without loss. Returns the content of a
/// `tokenizer.json`.
///
/// A vocabulary publishes the words that it was made from, so only text that is declared public may be used.
///
/// ```
/// let json = reticent_corpus::tokenize::train_tokenizer(["so so so so"].map(String::from).into_iter(), 260)?;
/// let origin = reticent_corpus::tokenize::Origin::DeclaredPublic;
/// let tokenizer = reticent_corpus::tokenize::Tokenizer::from_json(&json, origin)?;
/// assert_eq!(tokenizer.encode("so so")?.len(), 2);
/// assert_eq!(tokenizer.decode(&tokenizer.encode("Né?")?)?, "Né?");
/// # Ok::<(), reticent_corpus::Error>(())
/// ```
///
/// # Errors
/// Returns an error if the size is outside [257, 2^20], or above 257 and no two bytes are adjacent twice in the text.
pub fn train_tokenizer(texts: impl Iterator<Item = String> + Send, size: usize) -> Result<String> {
    within("the size of the vocabulary", size, LEAST..=MOST)?;
    let refused = |error: tokenizers::Error| Error::Tokenizer(error.to_string());
    let mut engine = Engine::new(BPE::default());
    engine.with_pre_tokenizer(Some(ByteLevel::new(false, true, true)));
    engine.with_decoder(Some(ByteLevel::default()));
    let trainer = BpeTrainer::builder()
        .vocab_size(size)
        .min_frequency(2)
        .show_progress(false)
        .special_tokens(vec![AddedToken::from(END, true)])
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .build();
    engine
        .train(&mut TrainerWrapper::from(trainer), texts)
        .map_err(refused)?;
    if size > LEAST && engine.get_vocab_size(true) <= LEAST {
        return Err(Error::Empty(
            "no two bytes stand beside each other twice in the text".to_owned(),
        ));
    }
    engine.to_string(true).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_text_makes_equal_vocabularies_of_the_size_asked_for() {
        let texts = || (0..200).map(|n| format!("order {n} is late, {} please", n % 7));
        let json = train_tokenizer(texts(), 280).unwrap();
        assert_eq!(json, train_tokenizer(texts(), 280).unwrap());
        let engine: Engine = json.parse().unwrap();
        assert_eq!(engine.get_vocab_size(true), 280);
        assert!(engine.token_to_id("Ġlate").is_some());
        for size in [256, MOST + 1] {
            assert!(
                train_tokenizer(texts(), size)
                    .unwrap_err()
                    .to_string()
                    .contains("257")
            );
        }
        assert!(train_tokenizer(std::iter::once("ab".to_owned()), 300).is_err());
    }
}

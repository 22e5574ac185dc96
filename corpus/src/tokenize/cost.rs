//! Limits what the model of a `tokenizer.json` takes for each character of a text, before anything is built from it. A record
//! may be one word of many megabytes.

use serde_json::Value;

/// The most steps for one character, of about 15 ns each: below 20 s for a million characters. A vocabulary of SentencePiece
/// with pieces of 16 characters takes 100.
const MOST: usize = 1200;
/// Steps for each piece that begins at a character, besides those to its end: it is copied and looked up …
const MATCH: usize = 2;
/// … and one more for this many of its bytes.
const COPIED: usize = 64;
/// The most characters of a word that is cut into its longest pieces: each takes up to half as many lookups. BERT has 100.
const WORD: u64 = 400;
/// The most bytes of a token, which each of its occurrences copies.
const TOKEN: usize = 1024;
/// The most bytes of what is put before or behind a part of a word to look it up.
const AFFIX: usize = 64;

/// Checks the pieces of a vocabulary with probabilities. At each character of a text all pieces that begin there are looked
/// up, and each begins with those before it.
///
/// # Errors
/// Says which steps are too many.
pub(super) fn check_pieces(mut pieces: Vec<String>) -> Result<(), String> {
    // What a piece begins with comes before it, and what doesn't, in between, begins with that too.
    pieces.sort_unstable();
    pieces.dedup();
    let mut begun: Vec<(&str, usize)> = Vec::new();
    for piece in &pieces {
        while begun
            .pop_if(|(before, _)| !piece.starts_with(*before))
            .is_some()
        {}
        let before = begun.last().map_or(0, |(_, steps)| *steps);
        let found = before + MATCH + piece.len() / COPIED;
        let steps = piece.len() + found;
        if steps > MOST {
            return Err(format!(
                "its vocabulary has a piece of {} bytes that begins with {} others: one character of text could take {steps} \
                 steps; at most {MOST} are allowed",
                piece.len(),
                begun.len()
            ));
        }
        begun.push((piece, found));
    }
    Ok(())
}

/// Checks the length of a token.
///
/// # Errors
/// Says that it is too long.
pub(super) fn check_token(length: usize) -> Result<(), String> {
    match length > TOKEN {
        true => Err(format!(
            "its vocabulary has a token of {length} bytes; at most {TOKEN} are allowed"
        )),
        false => Ok(()),
    }
}

/// Checks how a model cuts words: the length of a word, and what it puts before or behind a part.
///
/// # Errors
/// Says what is too long.
pub(super) fn check_words(longest: &Value, affixes: &[&Value]) -> Result<(), String> {
    if !longest.is_null() && longest.as_u64().is_none_or(|longest| longest > WORD) {
        return Err(format!(
            "model.max_input_chars_per_word must be at most {WORD}, got {longest}: a word takes time that grows with the \
             cube of its length"
        ));
    }
    let longest = affixes.iter().filter_map(|affix| affix.as_str());
    match longest.map(str::len).max() {
        Some(length) if length > AFFIX => Err(format!(
            "model.continuing_subword_prefix, end_of_word_suffix: at most {AFFIX} bytes are allowed, got {length}"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pieces_that_begin_with_each_other_are_counted() {
        let chain = |longest: usize, text: &str| (1..=longest).map(|n| text.repeat(n)).collect();
        // Runs of spaces, as a vocabulary for code may have them.
        assert!(check_pieces(chain(100, "▁")).is_ok());
        assert!(check_pieces(chain(200, "a")).is_ok());
        let said = check_pieces(chain(1999, "a")).unwrap_err();
        assert!(said.contains("begins with"), "{said}");
        let said = check_pieces(vec!["a".to_owned(), "a".repeat(1200)]).unwrap_err();
        assert!(
            said.contains("a piece of 1200 bytes that begins with 1 others"),
            "{said}"
        );
        // As many that begin with different characters.
        let apart = |n: u32| char::from_u32(0x4e00 + n).map(|c| c.to_string().repeat(16));
        assert!(check_pieces((0..1999).filter_map(apart).collect()).is_ok());
        // Between a piece and what begins with it stands another.
        let mut mixed: Vec<String> = chain(300, "a");
        mixed.extend((1..300).map(|n| format!("{}b", "a".repeat(n))));
        mixed.reverse();
        assert!(check_pieces(mixed).is_err());
    }

    #[test]
    fn words_and_affixes_have_a_limit() {
        assert!(check_words(&Value::Null, &[&Value::Null]).is_ok());
        assert!(check_words(&json!(100), &[&json!("##")]).is_ok());
        assert!(check_words(&json!(401), &[]).is_err());
        assert!(check_words(&json!(1e300), &[]).is_err());
        assert!(check_words(&Value::Null, &[&json!("#".repeat(65))]).is_err());
        assert!(check_token(1024).is_ok() && check_token(1025).is_err());
    }
}

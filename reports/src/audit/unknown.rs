//! Characters outside a vocabulary: what is said of them, since numbers about `<UNK>` flatter.

use crate::number::nearest;
use reticent_corpus::prepare::Facts;

/// Above this share of the tokens, the first sentence says it.
const MUCH: f64 = 0.05;

/// The way out.
const REMEDY: &str = "`audit prepare --tokenizer bytes` reads every character, as does a tokenizer.json made for the language";

/// A share in percent.
pub(super) fn percent(share: f64) -> String {
    format!("{} %", nearest(100.0 * share, 3))
}

/// Of a prepared corpus with any.
pub(super) fn fact(facts: &Facts) -> Option<String> {
    (facts.unknown_tokens > 0).then(|| {
        format!(
            "{} of the tokens with loss stand for characters outside the vocabulary (<UNK>), which the model can't distinguish; {REMEDY}",
            percent(facts.unknown_share())
        )
    })
}

/// Behind the first sentence, where they are many.
pub(super) fn warning(facts: &Facts) -> String {
    match facts.unknown_share() > MUCH {
        true => format!(
            " The model sees {} of the text as <UNK>: its perplexity, what is extracted from it, and duplicates say little about this text ({REMEDY}).",
            percent(facts.unknown_share())
        ),
        false => String::new(),
    }
}

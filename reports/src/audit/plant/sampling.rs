//! Samples texts from a public model.

use crate::audit::loaded_model::LoadedModel;
use crate::audit::membership::run::watched;
use crate::contract::Interrupt;
use anyhow::{Result, ensure};
use reticent_attacks::extract::sample_continuations;
use reticent_backends::Device;
use reticent_corpus::TokenId;
use reticent_corpus::canary::SampledPlace;
use std::path::Path;

/// A fixed seed, so that the same model gives the same texts.
const SEED: u64 = 0;

/// Returns texts that the model generates after the words of a place, and their mean bits.
pub(super) fn drawn(
    folder: &Path,
    place: SampledPlace<'_>,
    wanted: usize,
    interrupt: &Interrupt,
) -> Result<(Vec<String>, f64)> {
    let mut model = LoadedModel::folder(folder, Device::Cpu)?;
    let tokenizer = model.tokenizer.clone();
    let words = tokenizer.encode(place.before)?;
    let mut prompt = vec![tokenizer.bos()];
    prompt.extend(&words);
    let (before, length) = (tokenizer.decode(&words)?, place.tokens as usize);
    if let Some(context) = model.context {
        let needed = prompt.len() + length;
        ensure!(
            needed <= context,
            "it reads {context} tokens at once; the words before {{sampled:n}} and its n take {needed}"
        );
    }
    let mut texts: Vec<String> = Vec::with_capacity(wanted);
    let mut accept = |tokens: &[TokenId]| {
        let both: Vec<TokenId> = words.iter().chain(tokens).copied().collect();
        let whole = tokenizer.decode(&both).unwrap_or_default();
        let Some(text) = whole.strip_prefix(&before) else {
            return false;
        };
        // The text must be tokenised into the drawn tokens both alone and before a full stop.
        let again = |end: &str| {
            let line = format!("{}{text}{end}", place.before);
            tokenizer
                .encode(&line)
                .is_ok_and(|found| found.starts_with(&both) && (end == "." || found == both))
        };
        let begins = |one: &str, other: &str| one.starts_with(other) || other.starts_with(one);
        let fits = plain(text) && again("") && again(".") && !texts.iter().any(|t| begins(t, text));
        if fits {
            texts.push(text.to_owned());
        }
        fits
    };
    let drawn = sample_continuations(
        model.scorer(),
        &prompt,
        length,
        wanted,
        SEED,
        &mut accept,
        &mut watched("sampling canaries", interrupt),
    );
    let drawn = interrupt.unless_raised(drawn)?;
    let nats: f64 = drawn.iter().map(|text| -text.ln_probability).sum();
    let bits = nats / std::f64::consts::LN_2 / texts.len().max(1) as f64;
    Ok((texts, bits))
}

/// Returns whether a text may stand in a list of a template, on one line, between other words.
fn plain(text: &str) -> bool {
    let inner = text.strip_prefix(' ').unwrap_or(text);
    inner.starts_with(char::is_alphanumeric)
        && inner.ends_with(char::is_alphanumeric)
        && !inner.contains(|c: char| c.is_control() || "|{}<>\u{2028}\u{2029}\u{fffd}".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_fit_no_list_are_not_plain() {
        for good in [" one two", "one", " 7 ways, é", " a-b"] {
            assert!(plain(good), "{good}");
        }
        for bad in [
            "",
            " ",
            "  a",
            " a.",
            " a|b",
            "a\nb",
            " a{b}c",
            " <MASK> a",
            ".a",
        ] {
            assert!(!plain(bad), "{bad:?}");
        }
    }
}

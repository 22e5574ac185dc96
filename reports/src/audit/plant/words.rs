//! The words of canaries: texts sampled from a public model, and the description of all words.

#[cfg(feature = "audit")]
use super::sampling::drawn;
use crate::audit::args::preparing::CanaryArgs;
use crate::contract::Interrupt;
use crate::number::{count_of, grouped};
use anyhow::{Context, Result, bail, ensure};
#[cfg(not(feature = "audit"))]
use reticent_corpus::canary::SampledPlace;
use reticent_corpus::canary::{Spec, WordFacts};
use schemars::JsonSchema;
use serde::Serialize;
#[cfg(not(feature = "audit"))]
use std::path::Path;

/// The least number of texts from which a place chooses.
const TEXTS: usize = 256;

/// What a place of sampled texts chooses among.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct SampledFacts {
    /// The public model.
    model: String,
    /// Texts that were sampled.
    texts: u64,
    /// Tokens of each, by the public model.
    tokens: u32,
    /// How unlikely each is to the public model after the canary's words, on average: what training can add to it, in
    /// bits.
    mean_bits: f64,
}

/// Returns the texts for a place of `{sampled:n}` and their description; none for a format without such a place.
pub(in crate::audit) fn sampled(
    shape: &CanaryArgs,
    canaries: Option<Spec>,
    interrupt: &Interrupt,
) -> Result<(Vec<String>, Option<SampledFacts>)> {
    let format = &shape.canary_format;
    let (place, folder) = match (format.sampled(), &shape.sampling_model) {
        (None, None) => return Ok((Vec::new(), None)),
        (Some(place), Some(folder)) => (place, folder),
        (Some(_), None) => {
            bail!("--canary-format: {{sampled:n}} needs --sampling-model DIR, a public model")
        }
        (None, Some(_)) => {
            bail!("--sampling-model: only with {{sampled:n}} in --canary-format, got {format}")
        }
    };
    let canaries = canaries.map_or(0, |spec| spec.canaries() as usize);
    // Draws some extra texts, for those that already occur in the text.
    let wanted = TEXTS.max(canaries + canaries / 8);
    let (texts, bits) = drawn(folder, place, wanted, interrupt).context("--sampling-model")?;
    ensure!(
        texts.len() == wanted,
        "--sampling-model: {} of {wanted} different texts of {} that begin and end with a letter or digit, after 16 draws for each; its continuations vary too little: use another number in {{sampled:n}}, from 1 to 64, or other words before it",
        texts.len(),
        count_of(place.tokens.into(), "token"),
    );
    let facts = SampledFacts {
        model: folder.display().to_string(),
        texts: texts.len() as u64,
        tokens: place.tokens,
        mean_bits: bits,
    };
    Ok((texts, Some(facts)))
}

/// Reports that this build has no engine.
#[cfg(not(feature = "audit"))]
fn drawn(_: &Path, _: SampledPlace<'_>, _: usize, _: &Interrupt) -> Result<(Vec<String>, f64)> {
    bail!(crate::audit::run::NO_ENGINE)
}

/// Describes the words of which canaries are made.
pub(in crate::audit) fn said(
    words: Option<&WordFacts>,
    sampled: Option<&SampledFacts>,
    copies: u32,
) -> Vec<(&'static str, String)> {
    let Some(words) = words else {
        return Vec::new();
    };
    let mut out = Vec::new();
    if let Some(most) = words.rare_at_most {
        out.push((
            "rare words",
            format!("each occurs in the text at most {}", count_of(most, "time")),
        ));
    }
    if let Some(passed_over) = words.new_passed_over {
        out.push((
            "new words",
            format!(
                "none occurs in the text; {} that do were passed over",
                grouped(passed_over)
            ),
        ));
    }
    if let (Some(left_out), Some(facts)) = (words.sampled_left_out, sampled) {
        out.push((
            "sampled",
            format!(
                "{} of {} by {}, {:.1} bits each on average; {} left out, which occur in the text",
                count_of(facts.texts - left_out, "text"),
                count_of(facts.tokens.into(), "token"),
                facts.model,
                facts.mean_bits,
                grouped(left_out)
            ),
        ));
        let most = ((facts.texts - left_out) as f64).log2();
        if facts.mean_bits < most {
            out.push((
                "weak",
                format!("the public model predicts these texts ({:.1} bits): training can add little to what it knows, and no exposure of {most:.1} bits", facts.mean_bits),
            ));
        }
    }
    out.extend(words.weakness(copies).map(|weakness| ("weak", weakness)));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lacks_power_is_said() {
        let sampled = |mean_bits| SampledFacts {
            model: "public".to_owned(),
            texts: 260,
            tokens: 3,
            mean_bits,
        };
        let words = WordFacts {
            rare_at_most: Some(9),
            new_passed_over: Some(1),
            sampled_left_out: Some(4),
        };
        let lines = said(Some(&words), Some(&sampled(7.5)), 4);
        let names: Vec<&str> = lines.iter().map(|(name, _)| *name).collect();
        assert_eq!(
            names,
            ["rare words", "new words", "sampled", "weak", "weak"]
        );
        assert!(lines[3].1.contains("no exposure of 8.0 bits"), "{lines:?}");
        assert!(lines[4].1.contains("up to 9 times"), "{lines:?}");
        let lines = said(Some(&words), Some(&sampled(30.0)), 9);
        assert_eq!(lines.len(), 3);
        assert!(said(None, None, 4).is_empty());
    }
}

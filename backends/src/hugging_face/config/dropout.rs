//! Dropout rates.

use super::{Family, family};
use crate::error::Result;
use crate::hugging_face::fields::Fields;
use crate::trainer::dropout::Dropout;
use std::path::Path;

/// Reads the dropout rates of a `config.json`, with transformers' defaults for missing keys, or the reason why training
/// can't follow them. The rates of heads that are not trained here (`summary_first_dropout`, `classifier_dropout`) are
/// ignored.
pub(in crate::hugging_face) fn read(path: &Path) -> Result<std::result::Result<Dropout, String>> {
    let fields = Fields::read(path)?;
    let rate = |key: &str, default: f64| -> Result<f64> {
        let rate = fields.number_if_there(key)?.unwrap_or(default);
        if (0.0..1.0).contains(&rate) {
            Ok(rate)
        } else {
            Err(fields.bad(format!("{key} must lie in [0, 1), got {rate}")))
        }
    };
    let none = |key: &str, followed: Dropout| -> Result<std::result::Result<Dropout, String>> {
        Ok(match rate(key, 0.0)? {
            dropped if dropped > 0.0 => Err(format!(
                "{key} = {dropped} of config.json is not covered in training; train with `--dropout` of your own or \
                 set it to 0"
            )),
            _ => Ok(followed),
        })
    };
    let at = |[embedding, attention, hidden]: [&str; 3], default: f64| -> Result<Dropout> {
        Ok(Dropout {
            embedding: rate(embedding, default)?,
            attention: rate(attention, default)?,
            hidden: rate(hidden, default)?,
        })
    };
    let kind = fields.text("model_type")?;
    let followed = match family(kind) {
        Some(Family::Gpt2 | Family::GptBigcode) => {
            at(["embd_pdrop", "attn_pdrop", "resid_pdrop"], 0.1)
        }
        Some(Family::Bert | Family::Roberta) => {
            let hidden = "hidden_dropout_prob";
            at([hidden, "attention_probs_dropout_prob", hidden], 0.1)
        }
        Some(Family::GptNeo) => at(["embed_dropout", "attention_dropout", "resid_dropout"], 0.0),
        Some(Family::GptNeox) => at(
            ["hidden_dropout", "attention_dropout", "hidden_dropout"],
            0.0,
        ),
        Some(Family::Phi) => at(["embd_pdrop", "attention_dropout", "resid_pdrop"], 0.0),
        Some(Family::Starcoder2) => at(
            ["embedding_dropout", "attention_dropout", "residual_dropout"],
            0.0,
        ),
        // its embd_pdrop is never read
        Some(Family::Phi3) => Ok(Dropout {
            attention: rate("attention_dropout", 0.0)?,
            hidden: rate("resid_pdrop", 0.0)?,
            ..Dropout::NONE
        }),
        Some(Family::Opt) => {
            let followed = Dropout {
                attention: rate("attention_dropout", 0.0)?,
                hidden: rate("dropout", 0.1)?,
                ..Dropout::NONE
            };
            return none("layerdrop", followed);
        }
        found => {
            let followed = Dropout {
                attention: rate("attention_dropout", 0.0)?,
                ..Dropout::NONE
            };
            if found == Some(Family::Stablelm) {
                // of the feed-forward part only
                return none("hidden_dropout", followed);
            }
            Ok(followed)
        }
    };
    followed.map(Ok)
}

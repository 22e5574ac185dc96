//! Encoders: BERT and RoBERTa.

use super::{activation, common, labels, refuse};
use crate::error::Result;
use crate::hugging_face::fields::Fields;
use crate::model::{Activation, Family, Head, TransformerConfig};

pub(super) fn read(f: &Fields, family: Family) -> Result<TransformerConfig> {
    refuse(f, "is_decoder", false)?;
    refuse(f, "add_cross_attention", false)?;
    if let Some(kind) = f.text_if_there("position_embedding_type")?
        && kind != "absolute"
    {
        return Err(f.uncovered(format!("position_embedding_type `{kind}` is not covered")));
    }
    let roberta = family == Family::Roberta;
    let padding = f.size_if_there("pad_token_id")?.unwrap_or(1);
    let padding = u32::try_from(padding).map_err(|e| f.bad(format!("pad_token_id: {e}")))?;
    let (head, class_names) = encoder_head(f)?;
    Ok(TransformerConfig {
        norm_epsilon: f.number_if_there("layer_norm_eps")?.unwrap_or(1e-12),
        activation: activation(f, "hidden_act", Activation::Gelu)?,
        token_types: f.size_if_there("type_vocab_size")?.unwrap_or(2),
        padding: roberta.then_some(padding),
        head,
        class_names,
        ..common(f, family)?
    })
}

fn encoder_head(f: &Fields) -> Result<(Head, Vec<String>)> {
    let named = f.texts("architectures")?;
    match named.first().copied() {
        Some("BertForMaskedLM" | "BertForPreTraining" | "RobertaForMaskedLM") => {
            Ok((Head::MaskedToken, Vec::new()))
        }
        Some("BertForSequenceClassification" | "RobertaForSequenceClassification") => {
            let (classes, names) = labels::read(f)?;
            Ok((Head::Classes(classes), names))
        }
        other => {
            let other = other.map_or("(none named)".into(), |o| format!("`{o}`"));
            Err(f.uncovered(format!(
                    "architecture {other} is not covered (those for masked tokens and sequence classification are)"
                ),
            ))
        }
    }
}

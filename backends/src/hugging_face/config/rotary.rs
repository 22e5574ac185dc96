//! Rotary positions: `rope_theta` with `rope_scaling` and what stands beside them (transformers 4), or
//! `rope_parameters` alone (transformers 5).

use crate::error::Result;
use crate::hugging_face::fields::Fields;
use crate::model::{Family, Rotary, RotaryScaling, TransformerConfig};
use serde_json::{Value, json};

/// The keys of transformers 4 for a base and for the share of a head that is turned, with the share
/// where neither is there.
fn keys(family: Family) -> (&'static str, &'static str, f64) {
    match family {
        Family::GptNeox => ("rotary_emb_base", "rotary_pct", 0.25),
        Family::Stablelm => ("rope_theta", "partial_rotary_factor", 0.25),
        Family::Phi => ("rope_theta", "partial_rotary_factor", 0.5),
        _ => ("rope_theta", "partial_rotary_factor", 1.0),
    }
}

pub(super) fn read(f: &Fields, base: &TransformerConfig) -> Result<Rotary> {
    let usual = Rotary::new(10_000.0);
    let usual = base.rotary.clone().unwrap_or(usual);
    let whole = f.object("rope_parameters")?;
    let inside = |key: &str| whole.as_ref().map_or(Ok(None), |w| w.object(key));
    let local = inside("sliding_attention")?;
    let parameters = inside("full_attention")?.or(whole);
    let (theta_key, share_key, share) = keys(base.family);
    let either = |inner: &str, outer: &str| -> Result<Option<f64>> {
        let inner = parameters
            .as_ref()
            .map_or(Ok(None), |p| p.number_if_there(inner))?;
        Ok(inner.or(f.number_if_there(outer)?))
    };
    let theta = either("rope_theta", theta_key)?.unwrap_or(usual.theta);
    let share = either("partial_rotary_factor", share_key)?.unwrap_or(share);
    if !(0.0..=1.0).contains(&share) {
        return Err(f.bad(format!("{share_key} must lie in [0, 1], got {share}")));
    }
    // rounded down, as transformers does
    let width = (base.head_width as f64 * share) as usize;
    let local_theta = match (usual.local_theta, &local) {
        (None, None) => None,
        (None, Some(local)) => {
            return Err(local.bad("rope_parameters by kinds of layers are not covered here"));
        }
        (Some(usual), Some(local)) => {
            if scaling(local)?.is_some() {
                return Err(local.bad("a rope_type of sliding layers is not covered"));
            }
            Some(local.number_if_there("rope_theta")?.unwrap_or(usual))
        }
        (Some(usual), None) => Some(f.number_if_there("rope_local_base_freq")?.unwrap_or(usual)),
    };
    let scaling = match f.object("rope_scaling")?.or(parameters) {
        None => None,
        Some(s) => scaling(&s)?,
    };
    Ok(Rotary {
        theta,
        scaling,
        width: Some(width).filter(|width| *width != base.head_width),
        local_theta,
    })
}

fn scaling(s: &Fields) -> Result<Option<RotaryScaling>> {
    let kind = match s.text_if_there("rope_type")? {
        Some(kind) => Some(kind),
        None => s.text_if_there("type")?,
    };
    match kind {
        None | Some("default") => Ok(None),
        Some("linear") => Ok(Some(RotaryScaling::Linear {
            factor: s.number("factor")?,
        })),
        Some("llama3") => Ok(Some(RotaryScaling::Llama3 {
            factor: s.number("factor")?,
            low: s.number("low_freq_factor")?,
            high: s.number("high_freq_factor")?,
            original: s.number("original_max_position_embeddings")?,
        })),
        Some(other) => Err(s.bad(format!(
            "rope_type `{other}` is not covered; default, linear and llama3 are"
        ))),
    }
}

/// In the keys of transformers 4, which 5 reads as well.
pub(super) fn write(c: &TransformerConfig, value: &mut Value) {
    let Some(rotary) = &c.rotary else { return };
    let (theta_key, share_key, share) = keys(c.family);
    value[theta_key] = json!(rotary.theta);
    value["rope_scaling"] = write_scaling(rotary.scaling.as_ref());
    if rotary.width.is_some() || share < 1.0 {
        value[share_key] = json!(factor(rotary.turned(c.head_width), c.head_width));
    }
    if let Some(local) = rotary.local_theta {
        value["rope_local_base_freq"] = json!(local);
    }
}

/// The share that gives so many values of so many, rounded down.
fn factor(turned: usize, width: usize) -> f64 {
    let exact = turned as f64 / width as f64;
    if (width as f64 * exact) as usize == turned {
        exact
    } else {
        exact.next_up()
    }
}

fn write_scaling(scaling: Option<&RotaryScaling>) -> Value {
    match scaling {
        None => Value::Null,
        Some(RotaryScaling::Linear { factor }) => json!({"rope_type": "linear", "factor": factor}),
        Some(RotaryScaling::Llama3 {
            factor,
            low,
            high,
            original,
        }) => json!({
            "rope_type": "llama3", "factor": factor, "low_freq_factor": low,
            "high_freq_factor": high, "original_max_position_embeddings": *original as u64,
        }),
    }
}

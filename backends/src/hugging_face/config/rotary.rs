//! Reads and writes rotary positions: `rope_theta` with `rope_scaling` and related keys (transformers 4), or
//! `rope_parameters` alone (transformers 5).

use crate::error::Result;
use crate::hugging_face::fields::Fields;
use crate::model::{Family, Rotary, RotaryScaling, TransformerConfig};
use serde_json::{Value, json};

/// Returns the keys of transformers 4 for the base and for the share of a head that is rotated, and the share that
/// applies if neither is present.
fn keys(family: Family) -> (&'static str, &'static str, f64) {
    match family {
        Family::GptNeox => ("rotary_emb_base", "rotary_pct", 0.25),
        Family::Stablelm => ("rope_theta", "partial_rotary_factor", 0.25),
        Family::Phi => ("rope_theta", "partial_rotary_factor", 0.5),
        _ => ("rope_theta", "partial_rotary_factor", 1.0),
    }
}

/// Returns whether transformers follows a share of a head that is rotated.
const fn in_part(family: Family) -> bool {
    matches!(
        family,
        Family::GptNeox | Family::Stablelm | Family::Phi | Family::Phi3
    )
}

/// The keys that `rope_scaling` and `rope_parameters` may set.
const KNOWN: [&str; 8] = [
    "factor",
    "high_freq_factor",
    "low_freq_factor",
    "original_max_position_embeddings",
    "partial_rotary_factor",
    "rope_theta",
    "rope_type",
    "type",
];

pub(super) fn read(f: &Fields, base: &TransformerConfig) -> Result<Rotary> {
    let by_kind = |rotary: &Rotary| rotary.local_theta.is_some();
    let parameters = match f.object("rope_parameters")? {
        Some(given) if base.rotary.as_ref().is_some_and(by_kind) => {
            let kinds = ["full_attention", "sliding_attention"];
            only(f, &given, &kinds)?;
            Some([given.object(kinds[0])?, given.object(kinds[1])?])
        }
        given => given.map(|given| [Some(given), None]),
    };
    let scaling = f.object("rope_scaling")?.map(|given| [Some(given), None]);
    let said = |given: Option<[Option<Fields>; 2]>| {
        let given = given.unwrap_or_default();
        one(f, base, given.each_ref().map(Option::as_ref))
    };
    if parameters.is_none() || scaling.is_none() {
        return said(parameters.or(scaling));
    }
    let rotary = said(parameters)?;
    match said(scaling)? == rotary {
        true => Ok(rotary),
        false => {
            Err(f.uncovered("rope_scaling that says otherwise than rope_parameters is not covered"))
        }
    }
}

/// Reads the objects of full and of sliding attention, and the keys beside them.
fn one(
    f: &Fields,
    base: &TransformerConfig,
    [full, sliding]: [Option<&Fields>; 2],
) -> Result<Rotary> {
    let usual = Rotary::new(10_000.0);
    let usual = base.rotary.clone().unwrap_or(usual);
    if scaling(f, sliding)?.is_some() {
        return Err(f.uncovered("a rope_type of sliding layers is not covered"));
    }
    let scaling = scaling(f, full)?;
    for kind in [full, sliding].into_iter().flatten() {
        only(f, kind, &KNOWN)?;
    }
    let (theta_key, share_key, share) = keys(base.family);
    let theta = either(f, full, "rope_theta", theta_key)?.unwrap_or(usual.theta);
    let share_of = |kind: Option<&Fields>| -> Result<f64> {
        let said = either(f, kind, "partial_rotary_factor", share_key)?.unwrap_or(share);
        if said.total_cmp(&1.0).is_eq() || in_part(base.family) {
            return Ok(said);
        }
        Err(f.uncovered(format!(
                "{share_key} = {said} is not covered: transformers turns whole heads of this model_type, so it must \
                 be 1"
            ),
        ))
    };
    share_of(sliding)?;
    let share = share_of(full)?;
    if !(0.0..=1.0).contains(&share) {
        return Err(f.bad(format!("{share_key} must lie in [0, 1], got {share}")));
    }
    // rounded down, as transformers does
    let width = (base.head_width as f64 * share) as usize;
    let local_theta = match usual.local_theta {
        None => None,
        Some(usual) => {
            let said = either(f, sliding, "rope_theta", "rope_local_base_freq")?;
            Some(said.unwrap_or(usual))
        }
    };
    Ok(Rotary {
        theta,
        scaling,
        width: Some(width).filter(|width| *width != base.head_width),
        local_theta,
    })
}

/// Refuses an object that sets other keys.
fn only(f: &Fields, given: &Fields, known: &[&str]) -> Result<()> {
    let other = given.set().find(|(key, _)| !known.contains(key));
    other.map_or(Ok(()), |(key, _)| {
        let key = given.whole_key(key);
        Err(f.uncovered(format!("{key} is not covered")))
    })
}

/// Returns a number inside an object, or beside it under the key of transformers 4; refuses two different numbers.
fn either(f: &Fields, given: Option<&Fields>, inner: &str, outer: &str) -> Result<Option<f64>> {
    let beside = f.number_if_there(outer)?;
    let Some(given) = given else {
        return Ok(beside);
    };
    match (given.number_if_there(inner)?, beside) {
        (Some(inside), Some(beside)) if inside.total_cmp(&beside).is_ne() => {
            let inner = given.whole_key(inner);
            Err(f.uncovered(format!(
                    "{inner} = {inside} beside {outer} = {beside} is not covered: transformers 4 follows the second \
                     and 5 the first"
                ),
            ))
        }
        (inside, beside) => Ok(inside.or(beside)),
    }
}

fn scaling(f: &Fields, given: Option<&Fields>) -> Result<Option<RotaryScaling>> {
    let Some(s) = given else {
        return Ok(None);
    };
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
        Some(other) => Err(f.uncovered(format!(
            "rope_type `{other}` is not covered (default, linear and llama3 are)"
        ))),
    }
}

/// Writes the keys of transformers 4, which version 5 reads as well.
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

/// Returns a share of `width` that gives `turned` values when rounded down.
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

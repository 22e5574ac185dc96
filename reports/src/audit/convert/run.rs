//! `audit convert`: writes a model of another layout, or one merged with an adapter, as a Hugging Face
//! folder.

use crate::account::mechanism::unknown_origin;
use crate::audit::args::{Convert, Layout};
use crate::contract::{Envelope, Exit, Inputs};
use crate::number::grouped;
use crate::page::{Output, Page, Section};
use anyhow::{Context, Result, bail};
use reticent_backends::checkpoint::{Checkpoint, Pretrained};
use reticent_backends::hugging_face::{Beside, convert_llama2c, save_with_weights};
use reticent_backends::model::{Model, TransformerConfig};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;

#[derive(Serialize, JsonSchema)]
pub(crate) struct Body {
    out: String,
    model: Model,
}

pub(in crate::audit) fn run(args: &Convert, output: Output) -> Result<Exit> {
    let out = args.out.display().to_string();
    let (inputs, config, said) = match (args, &args.merge) {
        (_, Some(adapter)) => {
            let base = match &args.model {
                Some(base) => base.clone(),
                None => Pretrained::base_of(adapter).context("--merge")?,
            };
            let (config, promised) = merge(&base, adapter, &args.out)?;
            let inputs = Inputs::new()
                .given("model", base.display().to_string())?
                .given("adapter", adapter.display().to_string())?;
            let behind = match promised {
                true => {
                    " Its manifest.json promises what the adapter's does; the owner's folder stays beside the adapter, and audit exposure takes its canaries by --canary-file."
                }
                false => "",
            };
            let base = base.display();
            let said = format!("{out}: {base} with the change of its adapter merged.{behind}");
            (inputs, config, said)
        }
        (
            Convert {
                model: Some(model),
                from: Some(Layout::Llama2c),
                tokenizer: Some(tokenizer),
                ..
            },
            None,
        ) => {
            let config = convert_llama2c(model, tokenizer, &args.out)?;
            let inputs = Inputs::new()
                .given("from", "llama2.c")?
                .given("model", model.display().to_string())?
                .given("tokenizer", tokenizer.display().to_string())?;
            let said = format!("{out}: written in the layout of Hugging Face.");
            (inputs, config, said)
        }
        _ => bail!("MODEL, --from and --tokenizer are needed without --merge"),
    };
    let facts = [
        ("family", format!("{:?}", config.family)),
        ("layers", grouped(config.layers as u64)),
        ("width", grouped(config.width as u64)),
        ("tokens", grouped(config.vocabulary as u64)),
        ("positions", grouped(config.positions as u64)),
    ];
    let model = config.into();
    let shown = Body { out, model };
    output.answer(
        &Envelope::new("conversion", inputs, &shown),
        &Page::new("Conversion", said).answer(Section::facts("", facts)),
    )
}

/// Writes a base merged with an adapter; returns whether the adapter had one of our manifests.
fn merge(base: &Path, adapter: &Path, out: &Path) -> Result<(TransformerConfig, bool)> {
    let loaded = Pretrained::load_adapted(base, adapter).context("--merge")?;
    if let Some(mark) = &loaded.mark {
        bail!("--merge: {}", unknown_origin(adapter, mark));
    }
    let promised = loaded.manifest.is_some();
    match loaded.manifest {
        Some(manifest) => Checkpoint::save(
            out,
            &loaded.model,
            &loaded.weights,
            &loaded.tokenizer,
            &Beside::of(base).context("--merge")?,
            manifest,
            None,
        ),
        None => save_with_weights(out, base, &loaded.weights),
    }
    .context("--out")?;
    match loaded.model {
        Model::Transformer(config) => Ok((*config, promised)),
        Model::Lstm(_) => bail!("--merge: an LSTM takes no LoRA adapter"),
    }
}

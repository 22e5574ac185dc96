//! `audit convert`: a model of another layout as a Hugging Face folder.

use crate::audit::args::{Convert, Layout};
use crate::contract::{Envelope, Exit, Inputs};
use crate::number::grouped;
use crate::page::{Output, Page, Section};
use anyhow::Result;
use reticent_backends::{Model, convert_llama2c};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize, JsonSchema)]
pub(crate) struct Body {
    out: String,
    model: Model,
}

pub(in crate::audit) fn run(args: &Convert, output: Output) -> Result<Exit> {
    let Layout::Llama2c = args.from;
    let config = convert_llama2c(&args.model, &args.tokenizer, &args.out)?;
    let out = args.out.display().to_string();
    let inputs = Inputs::new()
        .given("from", "llama2.c")?
        .given("model", args.model.display().to_string())?
        .given("tokenizer", args.tokenizer.display().to_string())?;
    let facts = [
        ("family", format!("{:?}", config.family)),
        ("layers", grouped(config.layers as u64)),
        ("width", grouped(config.width as u64)),
        ("tokens", grouped(config.vocabulary as u64)),
        ("positions", grouped(config.positions as u64)),
    ];
    let model = config.into();
    let shown = Body { out, model };
    let said = format!("{}: written in the layout of Hugging Face.", shown.out);
    output.answer(
        &Envelope::new("conversion", inputs, &shown),
        &Page::new("Conversion", said).answer(Section::facts("", facts)),
    )?;
    Ok(Exit::Finished)
}

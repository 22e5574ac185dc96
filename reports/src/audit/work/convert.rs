//! `audit convert`: a model of another layout as a Hugging Face folder.

use crate::audit::cli::{Convert, Layout};
use crate::contract::{Envelope, Exit, Format, Inputs, print};
use anyhow::Result;
use reticent_backends::{Model, convert_llama2c};
use serde::Serialize;

#[derive(Serialize)]
struct Shown {
    out: String,
    model: Model,
}

pub(super) fn run(asked: &Convert, format: Format) -> Result<Exit> {
    let Layout::Llama2c = asked.from;
    let config = convert_llama2c(&asked.model, &asked.tokenizer, &asked.out)?;
    let out = asked.out.display().to_string();
    let text = match format {
        Format::Json => {
            let inputs = Inputs::new()
                .given("from", "llama2.c")?
                .given("model", asked.model.display().to_string())?
                .given("tokenizer", asked.tokenizer.display().to_string())?;
            let model = config.into();
            Envelope::new("conversion", inputs, Shown { out, model }).to_text()?
        }
        Format::Text => format!(
            "{out}: {:?}, {} layers of width {}, {} tokens, {} positions",
            config.family, config.layers, config.width, config.vocabulary, config.positions
        ),
    };
    print(&text)?;
    Ok(Exit::Finished)
}

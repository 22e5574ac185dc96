//! What single recipes need from a prepared corpus: sensitive tokens, and rates.

use crate::audit::args::Train;
use crate::audit::owner_key::load_texts;
use crate::audit::train::trained_on::{TokensAndText, TrainedOn};
use crate::plan::args::Whose;
use crate::plan::{PlanRequest, PreparedFacts, record_rates};
use anyhow::{Context, Result, ensure};
use reticent_accounting::confidentiality::RedactedAlike;
use reticent_accounting::training::{FirstPhase, Recipe, Run, TrainingPlan};
use reticent_backends::model::{Head, Model};
use reticent_backends::trainer::Masking;
use reticent_backends::{Corpus, SecretRates, Sensitive};
use reticent_corpus::prepare::Prepared;
use reticent_corpus::tokenize::Tokenizer;
use reticent_corpus::{Record, TokenId};
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

/// Sensitive tokens and rates, if the recipe needs them.
#[derive(Default)]
pub(in crate::audit) struct Material {
    sensitive: Option<Sensitive>,
    rates: Option<SecretRates>,
    held_out: Option<HeldOut>,
    masking: Option<Masking>,
    /// For `protect`, the secrets for which the run is certified.
    pub(in crate::audit) assignment: Option<Vec<u8>>,
}

impl Material {
    /// Returns what the plan needs.
    pub(in crate::audit) fn of(
        train: &Train,
        request: &PlanRequest,
        plan: &TrainingPlan,
        (prepared, facts): (&Prepared, &PreparedFacts),
    ) -> Result<Self> {
        let (rates, assignment) = rates(request, plan, facts)?.unzip();
        Ok(Self {
            sensitive: sensitive(plan, prepared)?,
            rates,
            held_out: held_out(train, request, prepared)?,
            masking: None,
            assignment,
        })
    }

    /// Returns how many texts that are said to be public are trained on.
    pub(in crate::audit) fn trained_on(&self) -> Option<TrainedOn> {
        self.held_out.as_ref()?.trained_on
    }

    /// Sets how tokens are masked, if the model predicts masked tokens.
    pub(in crate::audit) fn mask(&mut self, model: &Model, prepared: &Prepared) -> Result<()> {
        if model.head() == Head::MaskedToken {
            self.masking = Some(masking(model, &prepared.tokenizer)?);
        }
        Ok(())
    }

    /// Returns the corpus: this material with the records.
    pub(in crate::audit) fn corpus<'a>(&'a self, prepared: &'a Prepared) -> Corpus<'a> {
        let held_out = self.held_out.as_ref();
        Corpus {
            sensitive: self.sensitive.as_ref(),
            rates: self.rates.as_ref(),
            held_out: held_out.map(|held| held.texts.as_slice()),
            held_out_ignored: held_out.and_then(|held| held.ignored.as_deref()),
            held_out_labels: held_out.and_then(|held| held.labels.as_deref()),
            masking: self.masking.as_ref(),
            ..Corpus::plain(&prepared.training)
        }
    }
}

/// Returns which tokens of an encoder may be masked: all except the ends of texts, padding and masks.
pub(in crate::audit) fn masking(model: &Model, tokenizer: &Tokenizer) -> Result<Masking> {
    let mask = tokenizer.masked_token();
    let ends = [tokenizer.bos(), tokenizer.eos(), tokenizer.mask(), mask];
    let spared = ends.into_iter().chain(tokenizer.padding()).collect();
    Ok(Masking::new(model.vocabulary(), mask, spared)?)
}

/// Text that is scored after each epoch, with the classes of its records.
struct HeldOut {
    texts: Vec<Vec<TokenId>>,
    labels: Option<Vec<u32>>,
    /// The ranges of each text without loss; `None` if every token has one.
    ignored: Option<Vec<Vec<Range<usize>>>>,
    /// Where it is said to be public: how many of its texts are trained on, if some are.
    trained_on: Option<TrainedOn>,
}

impl HeldOut {
    /// Returns `None` if no record has a token to predict.
    fn of(records: impl IntoIterator<Item = Record>) -> Option<Self> {
        let records = records.into_iter().filter(|r| r.tokens.len() > 1);
        let (texts, rest): (Vec<_>, Vec<_>) =
            records.map(|r| (r.tokens, (r.label, r.ignored))).unzip();
        let (labels, ignored): (Vec<_>, Vec<_>) = rest.into_iter().unzip();
        let labels = labels.into_iter().collect();
        let some = ignored.iter().any(|ranges| !ranges.is_empty());
        (!texts.is_empty()).then_some(Self {
            texts,
            labels,
            ignored: some.then_some(ignored),
            trained_on: None,
        })
    }
}

/// The records of --held-out, which must be cut into the same tokens and tell the same classes; where records have
/// classes and nothing is said, those that `audit prepare` held out.
fn held_out(args: &Train, request: &PlanRequest, prepared: &Prepared) -> Result<Option<HeldOut>> {
    let Some(folder) = &args.held_out else {
        let own = prepared.held_out.iter().cloned();
        return Ok(prepared
            .options
            .labels
            .as_ref()
            .and_then(|_| HeldOut::of(own)));
    };
    let held_out = load_texts(folder).context("--held-out")?;
    ensure!(
        crate::audit::loaded_model::same_tokenizer(&held_out.tokenizer, &prepared.tokenizer)?,
        "--held-out: {} has another tokenizer than PREPARED",
        folder.display()
    );
    let classes = |of: &Prepared| of.options.labels.as_ref().map(|l| l.classes.clone());
    ensure!(
        classes(&held_out) == classes(prepared),
        "--held-out: {} has other classes than PREPARED",
        folder.display()
    );
    ensure!(
        held_out.options.loss_on == prepared.options.loss_on,
        "--held-out: {} was prepared with another --loss-on than PREPARED",
        folder.display()
    );
    let public = request.of_recipe.held_out_is == Some(Whose::Public);
    let units = [&held_out, prepared].map(|of| of.training.unit);
    ensure!(
        !public || units[0] == units[1],
        "--held-out: {} is cut into {}s and PREPARED into {}s, so their texts can't be compared; with {} public, \
         both must have the same --unit",
        folder.display(),
        units[0],
        units[1],
        request.name("held_out_is")
    );
    let trained_on = match public {
        true => TrainedOn::of(read_texts(&held_out), read_texts(prepared)),
        false => Ok(None),
    };
    let trained_on = trained_on.map_err(|TrainedOn { texts, of }| {
        anyhow::anyhow!(
            "{}: must be private, got public: more than half of the text of --held-out {} is in PREPARED, which the promise \
             is about ({texts} of its {of} texts are records there or share most of their lines with them; a mask in either \
             stands for any text)",
            request.name("held_out_is"),
            folder.display()
        )
    })?;
    let records = HeldOut::of(held_out.training.records);
    let records = records.with_context(|| {
        format!(
            "--held-out: {} has no record with a token to predict",
            folder.display()
        )
    })?;
    Ok(Some(HeldOut {
        trained_on,
        ..records
    }))
}

/// Returns the records with a token to predict, with their texts.
fn read_texts(of: &Prepared) -> impl Iterator<Item = TokensAndText<'_>> {
    let each = of.training.records.iter().zip(&of.texts);
    let each = each.filter(|(record, _)| record.tokens.len() > 1);
    each.map(|(record, text)| (record.tokens.as_slice(), text.as_str()))
}

/// Returns which tokens the policy calls sensitive, with what the plan states about it.
fn sensitive(plan: &TrainingPlan, prepared: &Prepared) -> Result<Option<Sensitive>> {
    let alike = match &plan.run {
        Run::Sdp { selective } => RedactedAlike {
            every_content_caught: *selective.every_content_caught,
            ..RedactedAlike::YES
        },
        Run::Jft {
            first: FirstPhase::Ordinary { alike, .. },
            ..
        } => **alike,
        Run::Jft { .. } => RedactedAlike::YES,
        _ => return Ok(None),
    };
    let mask = prepared.tokenizer.mask();
    Ok(Some(Sensitive::marked(&prepared.training, mask, alike)?))
}

/// Returns the names of the records in `train.jsonl`.
pub(in crate::audit) fn names(prepared: &Prepared) -> HashMap<String, u32> {
    prepared.ids().zip(0..).collect()
}

/// Returns the rates of the records and their secrets, for `protect`.
fn rates(
    request: &PlanRequest,
    plan: &TrainingPlan,
    facts: &PreparedFacts,
) -> Result<Option<(SecretRates, Vec<u8>)>> {
    if plan.run.recipe() != Some(Recipe::Protect) {
        return Ok(None);
    }
    let files = &request.of_recipe;
    let (Some(weights), Some(incidence)) = (&files.weights, &files.incidence) else {
        return Ok(None);
    };
    let found = record_rates(request, facts, (weights, incidence))?;
    let rates = SecretRates::new(found.rates, found.secrets)?;
    let rates = rates.promising(found.promises)?;
    Ok(Some((rates, found.assignment)))
}

/// Returns the numbers of the records whose ids a file lists, one a line.
pub(in crate::audit) fn screened(path: &Path, prepared: &Prepared) -> Result<Vec<u32>> {
    let names = names(prepared);
    crate::plan::screened_records(path, |id| names.get(id).copied())
}

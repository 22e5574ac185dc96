//! `audit report`: measures everything that can be measured on a model, with one page and one exit
//! code.

use crate::audit::args::{Exposure, Extract, MembershipArgs, OnModel, Report as Args};
use crate::audit::exposure::run as exposure;
use crate::audit::exposure::{ExposureReport, PromisedBy, TESTS};
use crate::audit::extract::ExtractReport;
use crate::audit::extract::run as extract;
use crate::audit::loaded_model::LoadedModel;
use crate::audit::membership::run as membership;
use crate::audit::membership::{HeatLine, MembershipReport};
use crate::contract::{Envelope, Exit, Format, Inputs, Interrupt, is_stream, open_limit};
use crate::number::shortest;
use crate::page::{Mood, Output, Page, Section};
use anyhow::{Result, ensure};
use reticent_accounting::training::Stated;
use reticent_accounting::{Confidence, Delta};
use schemars::JsonSchema;
use serde::Serialize;

/// The confidence of each interval of membership and extraction in a report, which leaves `audit diff`
/// some of its level for the other rows.
const CONFIDENCE: f64 = 0.99;

/// What to do about a model without known canaries.
const PLANT: &str = "--canary-file names the canaries.json that was planted; `audit plant DATA --canaries 10x20 --out planted/` plants them before training";

#[derive(Default, Serialize, JsonSchema)]
pub(crate) struct Document {
    /// That the model's manifest is not authenticated, or that its weights are Reticent's without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exposure: Option<ExposureReport>,
    /// Why there is no exposure.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_exposure: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    membership: Option<MembershipReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extraction: Option<ExtractReport>,
    /// Why nothing was extracted.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_extraction: Option<String>,
    /// The δ of the exposure.
    #[serde(skip)]
    delta: Option<Stated<Delta>>,
}

pub(in crate::audit) fn run(args: &Args, output: Output, interrupt: &Interrupt) -> Result<Exit> {
    let mut output = output
        .and_page(args.html.as_deref())?
        .and_file(Format::Markdown, "--markdown", args.markdown.as_deref())?
        .and_file(Format::Sarif, "--sarif", args.sarif.as_deref())?
        .and_file(
            Format::ModelCard,
            "--model-card",
            args.model_card.as_deref(),
        )?;
    let texts = [&args.members, &args.non_members, &args.training];
    args.text.check(&texts.map(Option::as_deref))?;
    let members = members(args)?;
    let texts = extraction(args)?;
    let (members, texts) = (members.as_ref(), texts.as_ref());
    let (document, heat) = measured(args, members, texts, &mut output, interrupt)?;
    let exit = exit(&document, args);
    output.answer(
        &Envelope::new("report", inputs(args, &document)?, &document),
        &page(&document, members, args, exit, &heat)?,
    )?;
    let exposure = document.exposure.as_ref();
    let exposure = exposure.and_then(ExposureReport::undecided);
    let membership = document.membership.as_ref();
    let membership = membership.and_then(|found| found.undecided(args.max_auc));
    let open: Vec<String> = exposure.into_iter().chain(membership).collect();
    open_limit(exit, (!open.is_empty()).then(|| open.join("; ")))
}

fn inputs(args: &Args, document: &Document) -> Result<Inputs> {
    let mut inputs = args.of.given(Inputs::new())?;
    let secrets = document.extraction.as_ref();
    let secrets = secrets.and_then(|found| found.secrets.as_ref());
    if let Some(drawn) = secrets.and_then(|secrets| secrets.drawn) {
        inputs = inputs.or_assumed("candidates", args.candidates, drawn.candidates)?;
    }
    let mut confidence = Confidence::new(CONFIDENCE)?;
    if let Some(exposure) = &document.exposure {
        let bound = exposure.finding.bound();
        inputs = PromisedBy::inputs(exposure.promised_by.as_ref(), inputs)?;
        if let Some(delta) = &document.delta {
            inputs = inputs.stated("delta", delta)?;
        }
        // The finding has its own confidence, which is that of the report where nothing else was measured.
        if document.membership.is_none() && document.extraction.is_none() {
            confidence = bound.confidence;
        }
    }
    // Without an exposure, that of a project's defaults is left unused.
    let max_exposure = args.max_exposure.filter(|_| document.exposure.is_some());
    Ok(inputs
        .given_path("canary_file", args.canary_file.as_deref())?
        .given_path("mechanism", args.mechanism.as_deref())?
        .given_path("members", args.members.as_deref())?
        .given_path("non_members", args.non_members.as_deref())?
        .given_path("training", args.training.as_deref())?
        .given("text_field", args.text.text_field.as_deref())?
        .given_path("secrets", args.secrets.as_deref())?
        .given_path("weights", args.weights.as_deref())?
        .given_shown("reference", args.reference.as_ref())?
        .given("max_exposure", max_exposure)?
        .given("max_auc", args.max_auc)?
        .given("seed", args.seed)?
        .assumed("confidence", confidence)?)
}

/// Returns the arguments of the membership part, if texts were given.
fn members(args: &Args) -> Result<Option<MembershipArgs>> {
    let Some(members) = &args.members else {
        return Ok(None);
    };
    ensure!(
        !is_stream(members),
        "--members: is read by membership and by extraction, and stdin (-) can be read only once; name a file"
    );
    Ok(Some(MembershipArgs {
        members: args.members.clone(),
        non_members: args.non_members.clone(),
        confidence: Some(Confidence::new(CONFIDENCE)?),
        max_auc: args.max_auc,
        seed: args.seed,
        on: OnModel {
            of: args.of.clone(),
            reference: args.reference.clone(),
            show_secrets: args.show_secrets,
            training: args.training.clone(),
            text: args.text.clone(),
            ..OnModel::default()
        },
        ..MembershipArgs::default()
    }))
}

/// Returns the arguments of the extraction part, if texts were given.
fn extraction(args: &Args) -> Result<Option<Extract>> {
    if args.members.is_none() && args.secrets.is_none() {
        return Ok(None);
    }
    Ok(Some(Extract {
        of: args.of.clone(),
        data: args.members.clone(),
        baseline: args.reference.clone(),
        training: args.training.clone(),
        text: args.text.clone(),
        temperature: 1.0,
        secrets: args.secrets.clone(),
        weights: args.weights.clone(),
        candidates: args.candidates,
        confidence: Some(Confidence::new(CONFIDENCE)?),
        ..Extract::default()
    }))
}

fn measured(
    args: &Args,
    members: Option<&MembershipArgs>,
    texts: Option<&Extract>,
    output: &mut Output,
    interrupt: &Interrupt,
) -> Result<(Document, Vec<HeatLine>)> {
    let mut model = LoadedModel::audited(&args.of, interrupt)?;
    let reference = args.reference.as_ref();
    let mut reference = model.against(reference, &args.of, "--reference", interrupt)?;
    let manifest = model.manifest.as_ref();
    let planted = manifest.is_some_and(|m| m.canaries.is_some());
    let mut document = Document {
        manifest: model.caveat().or_else(|| model.unknown_origin.clone()),
        ..Document::default()
    };
    if planted || args.canary_file.is_some() {
        let canaries = Exposure {
            of: args.of.clone(),
            canary_file: args.canary_file.clone(),
            training: args
                .training
                .clone()
                .filter(|_| !planted || (args.members.is_none() && args.secrets.is_none())),
            text: args.text.clone(),
            mechanism: args.mechanism.clone(),
            max_exposure: args.max_exposure,
            seed: args.seed,
            show_secrets: args.show_secrets,
            ..Exposure::default()
        };
        let others = usize::from(args.secrets.is_some());
        let (found, delta) = exposure::measured(&canaries, others, &mut model, interrupt)?;
        (document.exposure, document.delta) = (Some(found), Some(delta));
    } else {
        ensure!(
            args.max_exposure.is_none() || output.leaves("max_exposure"),
            "--max-exposure: no exposure is measured, since no canaries are known for this model; {PLANT}"
        );
        ensure!(
            args.mechanism.is_none(),
            "--mechanism: nothing is compared with it, since no canaries are known for this model; {PLANT}"
        );
        document.no_exposure = Some(format!("no canaries are known for this model; {PLANT}"));
    }
    let mut heat = Vec::new();
    if let Some(args) = members {
        let (report, shown) =
            membership::measured(args, &mut model, reference.as_mut(), interrupt)?;
        document.membership = Some(report);
        heat = shown.heat;
    }
    let models = [Some(&model), reference.as_ref()];
    let mute = models.into_iter().flatten().any(|m| !m.has_statistics());
    if mute && args.secrets.is_none() && texts.is_some() {
        document.no_extraction = Some(
            "a scorer gives no `statistics`, and extraction needs the model's first choice at each place".into(),
        );
    } else if let Some(args) = texts {
        let others = document.exposure.as_ref().map_or(0, |_| TESTS);
        // Records too short for a passage don't make the report fail.
        match extract::measured(args, others, &mut model, reference.as_mut(), interrupt) {
            Ok(report) => document.extraction = Some(report),
            Err(error) => {
                let short: extract::NoPassage = error.downcast()?;
                document.no_extraction = Some(short.to_string());
            }
        }
    }
    Ok((document, heat))
}

fn exit(document: &Document, args: &Args) -> Exit {
    let exposure = document.exposure.as_ref();
    let membership = document.membership.as_ref();
    let extraction = document.extraction.as_ref();
    exposure
        .map_or(Exit::Finished, ExposureReport::exit)
        .or(membership.map_or(Exit::Finished, |m| m.exit(args.max_auc)))
        .or(extraction.map_or(Exit::Finished, |found| found.exit(None)))
}

fn page(
    document: &Document,
    members: Option<&MembershipArgs>,
    args: &Args,
    exit: Exit,
    heat: &[HeatLine],
) -> Result<Page> {
    let released = args.of.name();
    let mut parts = Vec::new();
    if let Some(exposure) = &document.exposure {
        parts.push(("Exposure", exposure.to_page(&released)?));
    }
    if let (Some(membership), Some(args)) = (&document.membership, members) {
        parts.push(("Membership", membership.to_page(args, heat)?));
    }
    if let Some(extraction) = &document.extraction {
        parts.push(("Extraction", extraction.to_page(&released, None)?));
    }
    let mut summary: Vec<String> = parts
        .iter()
        .map(|(_, part)| part.said().to_owned())
        .collect();
    for (what, why) in [
        ("Manifest", &document.manifest),
        ("Exposure was not measured", &document.no_exposure),
        ("Extraction was not measured", &document.no_extraction),
    ] {
        summary.extend(why.iter().map(|why| format!("{what}: {why}.")));
    }
    let summary = summary.join(" ");
    // Of the parts the one that asks for most; nothing is known of one that could not be measured, nor where there is none.
    let unmeasured = document.no_extraction.as_ref().map(|_| Mood::Open);
    let moods = parts.iter().map(|(_, part)| part.has_mood());
    let worst = moods.chain(unmeasured).max();
    let mood = Mood::of(exit, worst.unwrap_or(Mood::Open));
    let mut page = Page::new(format!("What leaks: {released}"), summary).mood(mood);
    if let Some(exposure) = &document.exposure {
        page = page.brief(exposure.what_follows());
    }
    let page = parts
        .into_iter()
        .fold(page, |page, (name, part)| page.with(name, part));
    if document.membership.is_none() && document.extraction.is_none() {
        return Ok(page);
    }
    let exposure = document
        .exposure
        .as_ref()
        .map_or_else(String::new, |found| {
            format!(
                "; the bound on ε with {}",
                shortest(found.finding.bound().confidence.get())
            )
        });
    let said = format!(
        "Each interval of membership and extraction holds with probability {CONFIDENCE}, so that `audit diff` has some of its level left for other rows{exposure}."
    );
    Ok(page.answer(Section::text("Confidence", [said])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::args::{Audit, Command};
    use clap::Parser;

    /// Where no part was measured, the reason comes first.
    #[test]
    fn a_summary_begins_with_its_first_sentence() {
        let line = ["audit", "report", "--model", "ckpt"];
        let Command::Report(args) = Audit::try_parse_from(line).unwrap().command else {
            panic!("another command");
        };
        let document = Document {
            no_exposure: Some("there is no canary".to_owned()),
            ..Document::default()
        };
        let page = page(&document, None, &args, Exit::Finished, &[]).unwrap();
        assert_eq!(
            page.said(),
            "Exposure was not measured: there is no canary."
        );
    }
}

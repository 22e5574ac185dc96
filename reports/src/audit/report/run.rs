//! `audit report`: everything that can be measured on a model, on one page, with one exit code.

use crate::audit::args::{Exposure, Extract, MembershipArgs, OnModel, Report as Asked};
use crate::audit::exposure::ExposureReport;
use crate::audit::exposure::run as exposure;
use crate::audit::extract::ExtractReport;
use crate::audit::extract::run as extract;
use crate::audit::loaded_model::LoadedModel;
use crate::audit::membership::run as membership;
use crate::audit::membership::{HeatLine, MembershipReport};
use crate::contract::{Envelope, Exit, Inputs, Interrupt};
use crate::page::{Output, Page};
use anyhow::Result;
use reticent_accounting::Confidence;
use schemars::JsonSchema;
use serde::Serialize;

/// Each interval of membership and extraction in a report, so that `audit diff` has some of its
/// level left for the other rows.
const CONFIDENCE: f64 = 0.99;

#[derive(Serialize, JsonSchema)]
pub(crate) struct Document {
    /// That the model's manifest is not authenticated, or that its weights are ours without one.
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
}

pub(in crate::audit) fn run(asked: &Asked, output: Output, interrupt: &Interrupt) -> Result<Exit> {
    let output = output.and_page(asked.html.as_deref())?;
    let members = members(asked)?;
    let texts = extraction(asked)?;
    let (document, heat) = measured(asked, members.as_ref(), texts.as_ref(), interrupt)?;
    let exit = exit(&document, asked);
    output.answer(
        &Envelope::new("report", inputs(asked)?, &document),
        &page(&document, members.as_ref(), asked, exit, &heat)?,
    )?;
    Ok(exit)
}

fn inputs(asked: &Asked) -> Result<Inputs> {
    Ok(Inputs::new()
        .given("model", asked.of.name())?
        .given_path("members", asked.members.as_deref())?
        .given_path("non_members", asked.non_members.as_deref())?
        .given(
            "reference",
            asked.reference.as_ref().map(ToString::to_string),
        )?
        .given("max_exposure", asked.max_exposure)?
        .given("max_auc", asked.max_auc)?
        .given("seed", asked.seed)?
        .assumed("confidence", CONFIDENCE)?)
}

/// The arguments of the membership part, if texts were given.
fn members(asked: &Asked) -> Result<Option<MembershipArgs>> {
    if asked.members.is_none() {
        return Ok(None);
    }
    Ok(Some(MembershipArgs {
        members: asked.members.clone(),
        non_members: asked.non_members.clone(),
        confidence: Some(Confidence::new(CONFIDENCE)?),
        max_auc: asked.max_auc,
        seed: asked.seed,
        on: OnModel {
            of: asked.of.clone(),
            reference: asked.reference.clone(),
            show_secrets: asked.show_secrets,
            ..OnModel::default()
        },
        ..MembershipArgs::default()
    }))
}

/// The arguments of the extraction part, if texts were given.
fn extraction(asked: &Asked) -> Result<Option<Extract>> {
    if asked.members.is_none() {
        return Ok(None);
    }
    Ok(Some(Extract {
        of: asked.of.clone(),
        data: asked.members.clone(),
        baseline: asked.reference.clone(),
        unit: None,
        prompt: Vec::new(),
        suffix: 50,
        near: None,
        training: None,
        temperature: 1.0,
        top_k: None,
        top_p: None,
        secrets: None,
        weights: None,
        candidates: None,
        candidate_seed: 0,
        confidence: Some(Confidence::new(CONFIDENCE)?),
        max_rate: None,
        html: None,
    }))
}

fn measured(
    asked: &Asked,
    members: Option<&MembershipArgs>,
    texts: Option<&Extract>,
    interrupt: &Interrupt,
) -> Result<(Document, Vec<HeatLine>)> {
    let mut model = LoadedModel::audited(&asked.of, interrupt)?;
    let mut reference = match &asked.reference {
        Some(source) => Some(model.beside(source, &asked.of, "--reference", interrupt)?),
        None => None,
    };
    let manifest = model.manifest.as_ref();
    let planted = manifest.is_some_and(|m| m.canaries.is_some());
    let mut document = Document {
        manifest: model.caveat().or_else(|| model.unknown_origin.clone()),
        exposure: None,
        no_exposure: None,
        membership: None,
        extraction: None,
        no_extraction: None,
    };
    if planted || asked.canary_file.is_some() {
        let canaries = Exposure {
            of: asked.of.clone(),
            canaries: None,
            canary_file: asked.canary_file.clone(),
            mechanism: asked.mechanism.clone(),
            delta: None,
            confidence: None,
            max_exposure: asked.max_exposure,
            earlier: Vec::new(),
            budget: None,
            sample: None,
            seed: asked.seed,
            html: None,
            show_secrets: asked.show_secrets,
        };
        document.exposure = Some(exposure::measured(&canaries, &mut model, interrupt)?);
    } else {
        document.no_exposure = Some(
            "no canaries were planted; `audit prepare DATA --canaries 10x20 --out prepared/` plants them before training".into(),
        );
    }
    let mut heat = Vec::new();
    if let Some(asked) = members {
        let (report, shown) =
            membership::measured(asked, &mut model, reference.as_mut(), interrupt)?;
        document.membership = Some(report);
        heat = shown;
    }
    if let Some(asked) = texts {
        // Records too short for a passage are no failure of the report.
        match extract::measured(asked, &mut model, reference.as_mut(), interrupt)? {
            Ok(report) => document.extraction = Some(report),
            Err(short) => document.no_extraction = Some(short.to_string()),
        }
    }
    Ok((document, heat))
}

fn exit(document: &Document, asked: &Asked) -> Exit {
    let exposure = document.exposure.as_ref();
    let membership = document.membership.as_ref();
    exposure
        .map_or(Exit::Finished, ExposureReport::exit)
        .or(membership.map_or(Exit::Finished, |m| m.exit(asked.max_auc)))
}

fn page(
    document: &Document,
    members: Option<&MembershipArgs>,
    asked: &Asked,
    exit: Exit,
    heat: &[HeatLine],
) -> Result<Page> {
    let released = asked.of.name();
    let mut parts = Vec::new();
    if let Some(exposure) = &document.exposure {
        parts.push(("Exposure", exposure.to_page(&released)?));
    }
    if let (Some(membership), Some(asked)) = (&document.membership, members) {
        parts.push(("Membership", membership.to_page(asked, heat)?));
    }
    if let Some(extraction) = &document.extraction {
        parts.push(("Extraction", extraction.to_page(&released, None)?));
    }
    let said: Vec<&str> = parts.iter().map(|(_, part)| part.said()).collect();
    let mut summary = said.join(" ");
    if let Some(said) = &document.manifest {
        summary.push_str(&format!(" Manifest: {said}."));
    }
    if let Some(why) = &document.no_exposure {
        summary.push_str(&format!(" Exposure was not measured: {why}."));
    }
    if let Some(why) = &document.no_extraction {
        summary.push_str(&format!(" Nothing was extracted: {why}."));
    }
    let page = Page::new(format!("What leaks: {released}"), summary).mood(exit.into());
    Ok(parts
        .into_iter()
        .fold(page, |page, (name, part)| page.with(name, part)))
}

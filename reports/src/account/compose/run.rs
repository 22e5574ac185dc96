use super::args::Compose;
use crate::account::mechanism::Around;
use crate::account::{exported_unit, guarantees, no_delta, plan, print_export};
use crate::contract::Exit;
use crate::page::Output;
use anyhow::Result;

/// Answers what several mechanisms promise together, or exports them for other programs.
///
/// # Errors
/// Returns an error if a file describes no mechanism or if values contradict each other.
pub(in crate::account) fn run(wish: &Compose, mut output: Output) -> Result<Exit> {
    let neighbours = plan::neighbours(wish.question.neighbours);
    let source = plan::Source::of_files(&wish.files, neighbours)?;
    if let Some(export) = wish.outcome.export {
        output.exports()?;
        no_delta(&wish.question, &mut output)?;
        let given = match source.unit {
            // It says that the files without a unit are about the same one.
            Some(_) => wish.question.unit.as_ref(),
            None => exported_unit(&wish.question, export, &mut output)?,
        };
        let (_, unit) = plan::unit(given, source.unit.as_ref(), source.unit_open)?;
        let unit = (given.is_some() || source.unit.is_some()).then_some(unit);
        let around = Around {
            unit: unit.as_ref(),
            records: source.records,
            delta: source.kept_delta(),
            canary_records: source.canary_records,
            canary_records_unknown: source.canary_records_unknown,
            not_authenticated: source.inputs.not_authenticated(),
        };
        let inputs = source.inputs.clone();
        let run = source.completed();
        print_export(&run, &around, &inputs, (export, neighbours), &output)?;
        return Ok(Exit::Finished);
    }
    guarantees(
        &plan::Question::about(source, &wish.question)?,
        &wish.outcome,
        output,
    )
}

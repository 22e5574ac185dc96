//! Unfolds a mechanism into its kinds of steps and their counts.

use reticent_accounting::Mechanism;

/// One kind of step with its count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Part<'a> {
    /// The step, which is neither a repetition nor a sequence.
    pub(crate) step: &'a Mechanism,
    /// How often the step runs.
    pub(crate) times: u64,
}

/// Returns the steps in order of first appearance, with equal ones counted together; counts
/// saturate.
#[must_use]
pub(crate) fn fold(mechanism: &Mechanism) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    add(mechanism, 1, &mut parts);
    parts
}

fn add<'a>(mechanism: &'a Mechanism, times: u64, parts: &mut Vec<Part<'a>>) {
    match mechanism {
        _ if times == 0 => {}
        Mechanism::Repeat { times: inner, each } => {
            add(each, times.saturating_mul(inner.get()), parts)
        }
        Mechanism::Sequence { parts: inner } => {
            inner.iter().for_each(|part| add(part, times, parts))
        }
        step => match parts.iter_mut().find(|part| part.step == step) {
            Some(part) => part.times = part.times.saturating_add(times),
            None => parts.push(Part { step, times }),
        },
    }
}

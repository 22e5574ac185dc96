//! A mechanism unfolded: which steps there are, and how many of each.

use reticent_accounting::Mechanism;

/// One kind of step with its count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Part<'a> {
    /// The step: no repetition, no sequence.
    pub(crate) step: &'a Mechanism,
    /// How often it runs.
    pub(crate) times: u64,
}

/// The steps in order of first appearance, equal ones counted together; counts that exceed what
/// an integer holds stay at its end.
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

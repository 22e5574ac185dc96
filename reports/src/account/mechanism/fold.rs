//! Lists a mechanism's kinds of steps with their counts.

use reticent_accounting::Mechanism;
use reticent_accounting::mechanism::Runs;

/// Returns the runs of a mechanism in order of first appearance, with equal ones counted together.
#[must_use]
pub(crate) fn fold(mechanism: &Mechanism) -> Vec<Runs<'_>> {
    let mut parts: Vec<Runs<'_>> = Vec::new();
    for runs in mechanism.runs() {
        let same = |part: &&mut Runs<'_>| part.step == runs.step && part.length == runs.length;
        match parts.iter_mut().find(same) {
            Some(part) => {
                let both = part.times.zip(runs.times);
                part.times = both.and_then(|(before, more)| before.checked_add(more));
            }
            None => parts.push(runs),
        }
    }
    parts
}

/// Returns how often a part runs, saturating: the steps of a single run, otherwise the runs.
#[must_use]
pub(crate) fn times(part: &Runs<'_>) -> u64 {
    match part.times {
        Some(1) => part.length,
        times => times.unwrap_or(u64::MAX),
    }
}

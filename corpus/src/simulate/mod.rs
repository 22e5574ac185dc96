//! Generates artificial customer-service dialogues with every secret marked.

mod agenda;
mod people;
mod phrases;
mod values;

use crate::document::Document;
use crate::error::{Result, within};
use crate::random::{Choices, Purpose};

/// Generates customer-service dialogues: lines `SYS: …` and `USR: …`, with the span and kind of every secret (`name`,
/// `address`, `phone`, `order`, `tracking`).
///
/// An agenda (reason, identification, answer, further questions, goodbye) is filled from templates. The same number of
/// dialogues and seed give the same bytes, and a longer run begins with the dialogues of a shorter one. All people,
/// places and numbers are artificial.
///
/// ```
/// let dialogues = reticent_corpus::simulate::simulate(3, 0)?;
/// assert_eq!(dialogues.len(), 3);
/// assert!(dialogues[0].text.starts_with("SYS: "));
/// assert!(dialogues[0].secrets.iter().any(|s| s.kind == "name"));
/// # Ok::<(), reticent_corpus::Error>(())
/// ```
///
/// # Errors
/// Returns an error if the number of dialogues is outside 1 to 10 million.
pub fn simulate(dialogues: usize, seed: u64) -> Result<Vec<Document>> {
    let made = acted(dialogues, seed)?;
    Ok(made.into_iter().map(|(document, _)| document).collect())
}

/// The acts of a customer's turn in a generated dialogue, in the order of their numbers.
pub const ACTS: [&str; 7] = agenda::ACTS;

/// Returns the customers' turns of the dialogues that [`simulate`] generates, each with its act, one of [`ACTS`]: a
/// sentence classification task with secrets in its text.
///
/// ```
/// let turns = reticent_corpus::simulate::simulate_turns(3, 0)?;
/// assert!(turns.iter().all(|(_, act)| reticent_corpus::simulate::ACTS.contains(act)));
/// assert!(turns.iter().any(|(turn, _)| turn.secrets.iter().any(|s| s.kind == "name")));
/// # Ok::<(), reticent_corpus::Error>(())
/// ```
///
/// # Errors
/// As for [`simulate`].
pub fn simulate_turns(dialogues: usize, seed: u64) -> Result<Vec<(Document, &'static str)>> {
    let mut turns = Vec::new();
    for (dialogue, acts) in acted(dialogues, seed)? {
        let mut start = 0;
        for (number, (line, act)) in dialogue.text.split('\n').zip(acts).enumerate() {
            let end = start + line.chars().count();
            if let (Some(act), Some(said)) = (act, line.strip_prefix(agenda::USER)) {
                let from = start + agenda::USER.len();
                let mut turn = Document::new(format!("{}-{number}", dialogue.id), said);
                for secret in &dialogue.secrets {
                    if (from..end).contains(&secret.start) {
                        let place = (secret.start - from, secret.end - from);
                        turn = turn.with_secret(place.0, place.1, secret.kind.as_str());
                    }
                }
                turns.push((turn, act));
            }
            start = end + 1;
        }
    }
    Ok(turns)
}

/// The act of each line of a dialogue, if it is a customer's.
type Acts = Vec<Option<&'static str>>;

/// Returns dialogues with their acts.
fn acted(dialogues: usize, seed: u64) -> Result<Vec<(Document, Acts)>> {
    within("the number of dialogues", dialogues, 1..=10_000_000)?;
    let mut choices = Choices::new(seed, Purpose::Simulate);
    Ok((0..dialogues)
        .map(|number| agenda::dialogue(number, &mut choices))
        .collect())
}

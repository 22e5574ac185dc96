//! Made-up customer-service dialogues with every secret marked.

mod agenda;
mod people;
mod phrases;
mod values;

use crate::document::Document;
use crate::error::{Result, range};
use crate::random::{Choices, Purpose};

/// Makes customer-service dialogues: lines `SYS: …` and `USR: …`, with the span and kind of
/// every secret (`name`, `address`, `phone`, `order`, `tracking`).
///
/// An agenda (reason, identification, answer, further questions, goodbye) is filled from
/// templates; the same dialogue count and seed give the same bytes, and the first dialogues
/// of a longer run are those of a shorter one. All people, places and numbers are made up.
///
/// ```
/// let dialogues = reticent_corpus::simulate(3, 0)?;
/// assert_eq!(dialogues.len(), 3);
/// assert!(dialogues[0].text.starts_with("SYS: "));
/// assert!(dialogues[0].secrets.iter().any(|s| s.kind == "name"));
/// # Ok::<(), reticent_corpus::Error>(())
/// ```
///
/// # Errors
/// A number of dialogues outside 1 to 10 million.
pub fn simulate(dialogues: usize, seed: u64) -> Result<Vec<Document>> {
    if !(1..=10_000_000).contains(&dialogues) {
        return Err(range(
            "the number of dialogues",
            dialogues,
            "from 1 to 10000000",
        ));
    }
    let mut choices = Choices::new(seed, Purpose::Simulate);
    Ok((0..dialogues)
        .map(|number| agenda::dialogue(number, &mut choices))
        .collect())
}

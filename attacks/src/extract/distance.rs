//! Edit distance between token sequences.

use reticent_corpus::TokenId;

/// Returns the least number of insertions, deletions and substitutions that turn one sequence into
/// the other (Levenshtein distance).
///
/// ```
/// use reticent_attacks::extract::edit_distance;
/// assert_eq!(edit_distance(&[1, 2, 3, 4], &[2, 3, 5, 4]), 2);
/// assert_eq!(edit_distance(&[], &[7, 7]), 2);
/// ```
#[must_use]
pub fn edit_distance(a: &[TokenId], b: &[TokenId]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

//! Batches for the LSTM without padding: rows in time-major order inside groups of examples.

use super::rows::Grid;
use super::transfers::Kept;
use crate::error::Result;
use crate::privacy::clip::SquaredNorms;
use crate::scorer::check_sequence;
use crate::trainer::dropout::{DropoutSite, RecordMasks};
use crate::trainer::{Added, Example};
use reticent_corpus::TokenId;

/// Returns the number of examples per group. Small batches still make several groups, so that several cores have work;
/// large ones make few. It depends on the batch alone, never on the number of threads.
fn group_size(examples: usize) -> usize {
    (examples / 8).clamp(4, 64)
}

/// Returns the examples of a part whose gradients are finite, and the counts of the others. A pass is repeated without
/// those, because zero times infinity would not be zero.
pub(crate) fn finite<'a>(part: &[Example<'a>], norms: &SquaredNorms) -> (Vec<Example<'a>>, Added) {
    let kept = (0..part.len()).filter(|e| norms.finite(*e));
    let rejected = norms.rejected();
    let others = Added {
        examples: rejected,
        clipped: 0,
        rejected,
    };
    (kept.map(|e| part[e]).collect(), others)
}

/// A group of examples, sorted by decreasing length, with adjacent rows: first all rows of step 0, then those of step
/// 1, …; at step t only the first `active[t]` examples still run.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// First row of the group.
    pub(crate) first_row: usize,
    /// Number of running examples at each step; never increases.
    pub(crate) active: Vec<usize>,
    /// The group's examples, by their index in the batch.
    pub(crate) examples: Vec<usize>,
}

impl Group {
    pub(crate) fn rows(&self) -> usize {
        self.active.iter().sum()
    }

    /// Returns the rows of the `lane`-th example, in time order.
    pub(crate) fn rows_of(&self, lane: usize) -> impl Iterator<Item = usize> + '_ {
        let mut start = self.first_row;
        self.active
            .iter()
            .take_while(move |n| lane < **n)
            .map(move |n| {
                let row = start + lane;
                start += n;
                row
            })
    }
}

/// The target of a row that carries no loss.
pub(crate) const NO_LOSS: TokenId = TokenId::MAX;

/// A batch of token sequences: N rows, one per predicted token, no padding.
#[derive(Debug, Clone)]
pub(crate) struct Packed {
    /// Number of examples.
    pub(crate) examples: usize,
    /// Number of examples including the unused ones of a grid.
    pub(crate) slots: usize,
    /// Groups, in row order.
    pub(crate) groups: Vec<Group>,
    /// Input token of each row (N).
    pub(crate) inputs: Vec<TokenId>,
    /// Token to predict of each row (N).
    pub(crate) targets: Vec<TokenId>,
    /// Example of each row (N); rows of an unused example have a number beyond the examples.
    pub(crate) example: Vec<u32>,
    /// The dropout masks of each example, if values are dropped.
    pub(crate) masks: Option<Vec<RecordMasks>>,
    /// Values derived from the batch that a device keeps.
    pub(super) kept: Kept,
}

impl Packed {
    /// Packs sequences of at least two tokens each.
    ///
    /// # Errors
    /// Returns an error as [`check_sequence`] does.
    pub(crate) fn new(sequences: &[&[TokenId]], vocabulary: usize) -> Result<Self> {
        check(sequences, vocabulary)?;
        let mut order: Vec<usize> = (0..sequences.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(sequences[i].len()));
        let count = sequences.len().div_ceil(group_size(sequences.len()));
        let mut packed = Self::empty(sequences.len());
        for g in 0..count {
            // every count-th of the sorted order: groups with similar amounts of work
            let examples: Vec<usize> = order.iter().copied().skip(g).step_by(count).collect();
            packed.push_group(examples, sequences);
        }
        Ok(packed)
    }

    /// Arranges sequences on a grid: one group, in which every example runs to the end. Unused rows read the first
    /// token of their example, and those of unused examples that of the first example. No unused row carries loss, and
    /// each is finite if the row it copies is.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn on_grid(sequences: &[&[TokenId]], vocabulary: usize, grid: Grid) -> Result<Self> {
        check(sequences, vocabulary)?;
        let mut packed = Self::empty(sequences.len());
        packed.slots = grid.examples;
        let first = sequences.first().copied().unwrap_or_default();
        for t in 0..grid.steps {
            for i in 0..grid.examples {
                let own = sequences.get(i).copied();
                let row = own.and_then(|s| s.get(t + 1).map(|target| (s[t], *target)));
                let padding = own.unwrap_or(first).first().copied().unwrap_or(0);
                let (input, target) = row.unwrap_or((padding, NO_LOSS));
                packed.inputs.push(input);
                packed.targets.push(target);
                packed.example.push(i as u32);
            }
        }
        packed.groups.push(Group {
            first_row: 0,
            active: vec![grid.examples; grid.steps],
            examples: (0..grid.examples).collect(),
        });
        Ok(packed)
    }

    fn empty(examples: usize) -> Self {
        Self {
            examples,
            slots: examples,
            groups: Vec::new(),
            inputs: Vec::new(),
            targets: Vec::new(),
            example: Vec::new(),
            masks: None,
            kept: Kept::default(),
        }
    }

    fn push_group(&mut self, examples: Vec<usize>, sequences: &[&[TokenId]]) {
        let longest = examples.first().map_or(0, |&i| sequences[i].len() - 1);
        let mut active = Vec::with_capacity(longest);
        let first_row = self.inputs.len();
        for t in 0..longest {
            let running = examples
                .iter()
                .take_while(|&&i| sequences[i].len() - 1 > t)
                .count();
            for &i in &examples[..running] {
                self.inputs.push(sequences[i][t]);
                self.targets.push(sequences[i][t + 1]);
                self.example.push(i as u32);
            }
            active.push(running);
        }
        self.groups.push(Group {
            first_row,
            active,
            examples,
        });
    }

    /// Excludes predictions of this token from the loss.
    pub(crate) fn leave_out(&mut self, token: TokenId) {
        let targets = self.targets.iter_mut();
        targets.filter(|t| **t == token).for_each(|t| *t = NO_LOSS);
    }

    /// Excludes predictions of the tokens that examples do not learn from the loss.
    pub(crate) fn ignore(&mut self, batch: &[Example<'_>]) {
        for group in &self.groups {
            for (lane, &number) in group.examples.iter().enumerate() {
                let Some(example) = batch.get(number) else {
                    continue; // an unused one of a grid
                };
                let rows: Vec<usize> = group.rows_of(lane).collect();
                for unlearned in example.unlearned().filter(|at| *at > 0) {
                    self.targets[rows[unlearned - 1]] = NO_LOSS;
                }
            }
        }
    }

    /// Returns the dropout factors of a place, N × width, or `None` if nothing is dropped there.
    pub(crate) fn factors(&self, place: DropoutSite, width: usize) -> Option<Vec<f32>> {
        let masks = self.masks.as_ref()?;
        let mut out = vec![0.0; self.rows() * width];
        for group in &self.groups {
            for (lane, &example) in group.examples.iter().enumerate() {
                let Some(masks) = masks.get(example) else {
                    continue;
                };
                let rows: Vec<usize> = group.rows_of(lane).collect();
                let own = factors(masks, place, rows.len() * width)?;
                for (row, line) in rows.into_iter().zip(own.chunks_exact(width)) {
                    out[row * width..(row + 1) * width].copy_from_slice(line);
                }
            }
        }
        Some(out)
    }

    /// Returns the number of rows that carry loss.
    pub(crate) fn counted(&self) -> usize {
        self.targets.iter().filter(|t| **t != NO_LOSS).count()
    }

    /// Returns N, the number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.inputs.len()
    }

    /// Returns the distinct input tokens, sorted, and each row's index among them.
    pub(crate) fn distinct_inputs(&self) -> (Vec<TokenId>, Vec<u32>) {
        let mut distinct = self.inputs.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let index = self
            .inputs
            .iter()
            .map(|t| distinct.partition_point(|d| d < t) as u32)
            .collect();
        (distinct, index)
    }
}

/// Checks that sequences have at least two tokens each, all of them known.
fn check(sequences: &[&[TokenId]], vocabulary: usize) -> Result<()> {
    for (index, s) in sequences.iter().enumerate() {
        check_sequence(s, index, (2, usize::MAX), vocabulary)?;
    }
    Ok(())
}

/// A record's mask as factors: 0, or 1/(1 − rate).
pub(crate) fn factors(masks: &RecordMasks, place: DropoutSite, count: usize) -> Option<Vec<f32>> {
    let kept = masks.kept(place, count)?;
    let scale = (1.0 / (1.0 - kept.rate)) as f32;
    let one = |stays: &bool| if *stays { scale } else { 0.0 };
    Some(kept.stays.iter().map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn every_row_is_one_prediction_in_time_order() {
        let sequences: Vec<Vec<u32>> = (0..150u32)
            .map(|i| (0..2 + i % 7).map(|t| (i + t) % 11).collect())
            .collect();
        let views: Vec<&[u32]> = sequences.iter().map(Vec::as_slice).collect();
        let packed = Packed::new(&views, 11).unwrap();
        assert_eq!(
            packed.rows(),
            sequences.iter().map(|s| s.len() - 1).sum::<usize>()
        );
        let mut seen = 0;
        for group in &packed.groups {
            for (lane, &example) in group.examples.iter().enumerate() {
                let rows: Vec<usize> = group.rows_of(lane).collect();
                assert_eq!(rows.len(), sequences[example].len() - 1);
                for (t, &row) in rows.iter().enumerate() {
                    assert_eq!(packed.inputs[row], sequences[example][t]);
                    assert_eq!(packed.targets[row], sequences[example][t + 1]);
                    assert_eq!(packed.example[row] as usize, example);
                }
                seen += 1;
            }
        }
        assert_eq!(seen, sequences.len());
        let (distinct, index) = packed.distinct_inputs();
        assert!(
            packed
                .inputs
                .iter()
                .zip(&index)
                .all(|(t, i)| distinct[*i as usize] == *t)
        );
    }

    #[test]
    fn unused_rows_of_a_grid_read_what_their_example_reads_and_carry_no_loss() {
        let sequences: [&[u32]; 2] = [&[1, 2, 3], &[4, 5]];
        let grid = Grid {
            examples: 3,
            steps: 3,
        };
        let packed = Packed::on_grid(&sequences, 9, grid).unwrap();
        assert_eq!(packed.inputs, [1, 4, 1, 2, 4, 1, 1, 4, 1]);
        let none = NO_LOSS;
        let targets = [2, 5, none, 3, none, none, none, none, none];
        assert_eq!(packed.targets, targets);
        assert_eq!(packed.example, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
        assert_eq!((packed.examples, packed.slots), (2, 3));
        let group = &packed.groups[0];
        assert_eq!(group.rows_of(1).collect::<Vec<_>>(), [1, 4, 7]);
    }

    #[test]
    fn bad_sequences_are_named() {
        assert!(matches!(
            Packed::new(&[&[1]], 5),
            Err(Error::TooShort { index: 0, .. })
        ));
        assert!(matches!(
            Packed::new(&[&[1, 5]], 5),
            Err(Error::UnknownToken { token: 5, .. })
        ));
    }
}

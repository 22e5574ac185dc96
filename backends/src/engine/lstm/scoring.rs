//! Scores of an LSTM, for whole sequences and from cached states.

use super::Lstm;
use crate::engine::kernels::Kernels;
use crate::engine::packed::{NO_LOSS, Packed};
use crate::engine::portable::host;
use crate::error::Result;
use crate::scorer::{PrefixScorer, Scorer, StateId, TokenScore, check_sequence, check_tokens};
use crate::trainer::Precision;
use burn::tensor::Tensor;
use reticent_corpus::TokenId;

impl<B: Kernels> Lstm<B> {
    fn logits(&self, packed: &Packed) -> Tensor<B, 2> {
        let run = B::recurrence(
            self.input_part(packed, Precision::Single),
            self.weights.recurrent.clone(),
            packed,
            Precision::Single,
        );
        B::affine(
            run.hidden,
            self.weights.head.clone(),
            self.weights.head_bias.clone(),
            Precision::Single,
        )
    }

    /// Returns the scores of each example's rows.
    fn scores_of(&self, packed: &Packed) -> Vec<Vec<TokenScore>> {
        // a row without loss asks for an arbitrary token, and is then left out
        let targets = packed.targets.iter();
        let targets: Vec<TokenId> = targets
            .map(|t| if *t == NO_LOSS { 0 } else { *t })
            .collect();
        let scores = B::scores(self.logits(packed), &targets);
        let mut by_example = vec![Vec::new(); packed.slots];
        for group in &packed.groups {
            for (lane, &example) in group.examples.iter().enumerate() {
                let rows = group.rows_of(lane);
                let rows = rows.filter(|row| packed.targets[*row] != NO_LOSS);
                by_example[example] = rows.map(|row| scores[row]).collect();
            }
        }
        by_example.truncate(packed.examples);
        by_example
    }

    /// Advances states (each h then c, 2H values) by one token each.
    fn advance(&self, states: &[f32], tokens: &[TokenId]) -> Vec<Vec<f32>> {
        let width = self.config.hidden;
        let mut distinct: Vec<TokenId> = tokens.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let index: Vec<u32> = tokens
            .iter()
            .map(|t| distinct.partition_point(|d| d < t) as u32)
            .collect();
        let z = B::lookup(self.token_gates(&distinct, Precision::Single), &index);
        let half = |offset: usize| {
            let picked = states
                .chunks_exact(2 * width)
                .flat_map(|s| s[offset..offset + width].iter().copied());
            self.matrix(picked.collect(), width)
        };
        let (hidden, cell) = B::cell(z, self.weights.recurrent.clone(), half(0), half(width));
        let (hidden, cell) = (host(hidden), host(cell));
        hidden
            .chunks_exact(width)
            .zip(cell.chunks_exact(width))
            .map(|(h, c)| [h, c].concat())
            .collect()
    }

    fn keep(&mut self, states: Vec<Vec<f32>>) -> Vec<StateId> {
        let states = states.into_iter();
        states.map(|state| self.states.keep(state)).collect()
    }

    fn gather(&self, ids: impl Iterator<Item = StateId>) -> Result<Vec<f32>> {
        let mut out = Vec::new();
        for id in ids {
            out.extend_from_slice(self.states.get(id)?);
        }
        Ok(out)
    }
}

impl<B: Kernels> Scorer for Lstm<B> {
    fn vocabulary_size(&self) -> usize {
        self.config.vocabulary
    }

    fn score(&mut self, sequences: &[Vec<TokenId>]) -> Result<Vec<Vec<TokenScore>>> {
        let views: Vec<&[TokenId]> = sequences.iter().map(Vec::as_slice).collect();
        let mut out = vec![Vec::new(); sequences.len()];
        for part in self.parts(&views) {
            let packed = self.arranged(&part.sequences, part.grid)?;
            for (place, scores) in part.places.iter().zip(self.scores_of(&packed)) {
                out[*place] = scores;
            }
        }
        Ok(out)
    }
}

impl<B: Kernels> PrefixScorer for Lstm<B> {
    fn start(&mut self, prefixes: &[Vec<TokenId>]) -> Result<Vec<StateId>> {
        let mut finished = Vec::with_capacity(prefixes.len());
        for (index, prefix) in prefixes.iter().enumerate() {
            check_sequence(prefix, index, (1, usize::MAX), self.config.vocabulary)?;
            let mut state = vec![0.0; 2 * self.config.hidden];
            for &token in prefix {
                state = self.advance(&state, &[token]).concat();
            }
            finished.push(state);
        }
        Ok(self.keep(finished))
    }

    fn extend(&mut self, steps: &[(StateId, TokenId)]) -> Result<Vec<StateId>> {
        if steps.is_empty() {
            return Ok(Vec::new());
        }
        let tokens: Vec<TokenId> = steps.iter().map(|(_, t)| *t).collect();
        check_tokens(&tokens, self.config.vocabulary)?;
        let states = self.gather(steps.iter().map(|(s, _)| *s))?;
        let advanced = self.advance(&states, &tokens);
        Ok(self.keep(advanced))
    }

    fn next_log_probabilities(
        &mut self,
        states: &[StateId],
        wanted: &[TokenId],
    ) -> Result<Vec<f64>> {
        if states.is_empty() {
            return Ok(Vec::new());
        }
        check_tokens(wanted, self.config.vocabulary)?;
        let width = self.config.hidden;
        let gathered = self.gather(states.iter().copied())?;
        let hidden = gathered
            .chunks_exact(2 * width)
            .flat_map(|s| s[..width].iter().copied())
            .collect();
        let logits = B::affine(
            self.matrix(hidden, width),
            self.weights.head.clone(),
            self.weights.head_bias.clone(),
            Precision::Single,
        );
        Ok(B::log_probabilities(logits, wanted))
    }

    fn release(&mut self, states: &[StateId]) {
        self.states.release(states);
    }
}

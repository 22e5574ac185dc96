//! Scores of whole sequences, and logits of encoders and decoders.

use super::Transformer;
use super::flow::{Plain, layers, top};
use crate::engine::layers::{Floats, Layers, Matrix};
use crate::engine::packed::NO_LOSS;
use crate::engine::portable::host;
use crate::engine::rows::{self, Grid, Rows};
use crate::error::Result;
use crate::model::{Head, Model};
use crate::scorer::{Logits, Scorer, TokenScore, check_token_types};
use crate::trainer::Precision;
use reticent_corpus::TokenId;

impl<B: Floats, K: Layers<B>> Transformer<B, K> {
    /// Computes the input of the head's matrix, N × d, from the embedded rows.
    pub(super) fn hidden(&self, rows: &Rows, embedded: Matrix<B>) -> Matrix<B> {
        let mut attend = |layer: usize, joined: &Matrix<B>| {
            K::attend(joined, rows, &self.attention[layer], Precision::Single).out
        };
        let mut flow = Plain {
            attend: &mut attend,
        };
        let hidden = layers(self, &mut flow, embedded);
        top(self, &mut flow, hidden)
    }

    /// Returns how many rows of hidden states can be processed at once so that their logits fit into memory.
    pub(super) fn logit_rows(&self) -> usize {
        let fit = B::LOGITS / 4 / self.config.vocabulary;
        match K::GRID {
            true => fit.max(B::HEAD_ROWS).min(self.most_rows()),
            false => fit.clamp(1, super::ROWS),
        }
    }
}

impl<B: Floats, K: Layers<B>> Scorer for Transformer<B, K> {
    fn vocabulary_size(&self) -> usize {
        self.config.vocabulary
    }

    fn score(&mut self, sequences: &[Vec<TokenId>]) -> Result<Vec<Vec<TokenScore>>> {
        Model::from(self.config.clone()).predicts_next_token()?;
        let views: Vec<&[TokenId]> = sequences.iter().map(Vec::as_slice).collect();
        let (_, head) = self.head_weights();
        let mut out = vec![Vec::new(); sequences.len()];
        for part in self.microbatches(&views) {
            let rows = Rows::predicting(&part.sequences, self.limits(), part.grid)?;
            let hidden = self.hidden(&rows, self.embed(&rows));
            let targets: Vec<TokenId> = rows
                .targets
                .iter()
                .map(|t| if *t == NO_LOSS { 0 } else { *t })
                .collect();
            let mut scores = Vec::with_capacity(rows.len());
            let block = self.logit_rows();
            for (i, targets) in targets.chunks(block).enumerate() {
                let hidden = hidden.clone().narrow(0, i * block, targets.len());
                scores.extend(B::scores(K::logits(&hidden, &head), targets));
            }
            for (place, span) in part.places.iter().zip(&rows.spans) {
                out[*place] = scores[span.range()].to_vec();
            }
        }
        Ok(out)
    }
}

impl<B: Floats, K: Layers<B>> Logits for Transformer<B, K> {
    fn logits(&mut self, tokens: &[TokenId], token_types: &[u32]) -> Result<Vec<f64>> {
        let model = Model::from(self.config.clone());
        check_token_types(&model, tokens, token_types)?;
        let steps = rows::steps(tokens.len(), self.config.longest());
        let grid = K::GRID.then_some(Grid { examples: 1, steps });
        let mut rows = Rows::reading(&[tokens], self.limits(), grid)?;
        if !self.config.causal() {
            self.placed(&mut rows);
        }
        let embedded = match self.layout.token_type_embedding {
            Some(table) if !token_types.is_empty() => {
                let types = self.types(table, token_types, rows.len());
                self.embed_untyped(&rows).add(types)
            }
            _ => self.embed(&rows),
        };
        let hidden = self.hidden(&rows, embedded);
        let hidden = match self.config.head {
            Head::NextToken | Head::MaskedToken => hidden.narrow(0, 0, tokens.len()),
            Head::Classes(_) => hidden.narrow(0, self.config.class_position(tokens), 1),
        };
        let logits = K::logits(&hidden, &self.head_weights().1);
        Ok(host(logits).into_iter().map(f64::from).collect())
    }
}

impl<B: Floats, K: Layers<B>> Transformer<B, K> {
    /// Embeds token types; 0 where none is given.
    fn types(&self, table: usize, token_types: &[u32], rows: usize) -> Matrix<B> {
        let d = self.config.width;
        let mut out = Vec::with_capacity(rows * d);
        for row in 0..rows {
            let kind = token_types.get(row).map_or(0, |t| *t as usize);
            out.extend_from_slice(&self.trained()[table][kind * d..(kind + 1) * d]);
        }
        self.matrix(out, d)
    }
}

//! Scores, cached prefixes and logits of the exact engine. A state is simply the prefix.

use super::{Exact, Sequence};
use crate::error::{Error, Result};
use crate::scorer::{Logits, PrefixScorer, Scorer, StateId, TokenScore, check_tokens};
use reticent_corpus::TokenId;

impl Logits for Exact {
    fn logits(&mut self, tokens: &[TokenId], token_types: &[u32]) -> Result<Vec<f64>> {
        self.check(0, tokens, 1)?;
        crate::scorer::check_token_types(&self.model, tokens, token_types)?;
        let sequence = Sequence {
            tokens,
            token_types,
            masks: None,
        };
        Ok(self.network.logits(&self.weights, &sequence))
    }
}

impl Scorer for Exact {
    fn vocabulary_size(&self) -> usize {
        self.model.vocabulary()
    }

    fn score(&mut self, sequences: &[Vec<TokenId>]) -> Result<Vec<Vec<TokenScore>>> {
        self.model.predicts_next_token()?;
        for (index, tokens) in sequences.iter().enumerate() {
            self.check(index, tokens, 2)?;
        }
        let one = |tokens: &Vec<TokenId>| {
            let rows = self.log_probabilities(&tokens[..tokens.len() - 1]);
            let pairs = rows.iter().zip(&tokens[1..]);
            pairs.map(|(log_p, t)| score_of(log_p, *t)).collect()
        };
        Ok(sequences.iter().map(one).collect())
    }
}

fn score_of(log_p: &[f64], token: TokenId) -> TokenScore {
    let expectation = |f: &dyn Fn(f64) -> f64| log_p.iter().map(|l| l.exp() * f(*l)).sum::<f64>();
    let mean = expectation(&|l| l);
    let top = (0..log_p.len())
        .max_by(|a, b| log_p[*a].total_cmp(&log_p[*b]))
        .unwrap_or(0);
    TokenScore {
        log_probability: log_p[token as usize],
        mean,
        variance: expectation(&|l| (l - mean).powi(2)),
        top_token: top as TokenId,
        top_log_probability: log_p[top],
    }
}

impl Exact {
    fn keep(&mut self, prefixes: Vec<Vec<TokenId>>) -> Vec<StateId> {
        let prefixes = prefixes.into_iter();
        prefixes.map(|prefix| self.states.keep(prefix)).collect()
    }
}

impl PrefixScorer for Exact {
    fn start(&mut self, prefixes: &[Vec<TokenId>]) -> Result<Vec<StateId>> {
        self.model.predicts_next_token()?;
        for (index, prefix) in prefixes.iter().enumerate() {
            self.check(index, prefix, 1)?;
        }
        Ok(self.keep(prefixes.to_vec()))
    }

    fn extend(&mut self, steps: &[(StateId, TokenId)]) -> Result<Vec<StateId>> {
        let mut longer = Vec::with_capacity(steps.len());
        for (index, (state, token)) in steps.iter().enumerate() {
            let mut prefix = self.states.get(*state)?.clone();
            prefix.push(*token);
            self.check(index, &prefix, 1)?;
            longer.push(prefix);
        }
        Ok(self.keep(longer))
    }

    fn next_log_probabilities(
        &mut self,
        states: &[StateId],
        wanted: &[TokenId],
    ) -> Result<Vec<f64>> {
        check_tokens(wanted, self.model.vocabulary())?;
        let mut out = Vec::with_capacity(states.len() * wanted.len());
        for state in states {
            let rows = self.log_probabilities(self.states.get(*state)?);
            let last = rows.last().ok_or(Error::UnknownState(state.0))?;
            out.extend(wanted.iter().map(|t| last[*t as usize]));
        }
        Ok(out)
    }

    fn release(&mut self, states: &[StateId]) {
        self.states.release(states);
    }
}

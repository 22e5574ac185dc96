//! Small language models in f64, each with its trap.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reticent_backends::{Error, PrefixScorer, Result, Scorer, StateId, TokenScore};
use reticent_corpus::TokenId;
use std::collections::BTreeMap;

/// A model as a state machine: exact, so that two ways to the same prefix agree bit by bit.
pub(crate) trait Model: Send {
    type State: Clone + Send;
    fn vocabulary(&self) -> usize;
    fn blank(&self) -> Self::State;
    fn step(&self, state: &Self::State, token: TokenId) -> Self::State;
    /// ln p over the vocabulary.
    fn log_probabilities(&mut self, state: &Self::State) -> Vec<f64>;
}

/// Any model as a scorer, with its states counted.
pub(crate) struct Toy<M: Model> {
    pub(crate) model: M,
    states: BTreeMap<StateId, M::State>,
    next: u64,
    /// Most states alive at once.
    pub(crate) peak: usize,
    /// Rows asked for.
    pub(crate) rows: u64,
    /// Fails after so many calls.
    pub(crate) fail_after: Option<u64>,
    calls: u64,
}

impl<M: Model> Toy<M> {
    pub(crate) fn new(model: M) -> Self {
        Self {
            model,
            states: BTreeMap::new(),
            next: 0,
            peak: 0,
            rows: 0,
            fail_after: None,
            calls: 0,
        }
    }
    pub(crate) fn alive(&self) -> usize {
        self.states.len()
    }
    fn keep(&mut self, state: M::State) -> StateId {
        self.next += 1;
        self.states.insert(StateId(self.next), state);
        self.peak = self.peak.max(self.states.len());
        StateId(self.next)
    }
    fn get(&self, state: StateId) -> Result<&M::State> {
        self.states.get(&state).ok_or(Error::UnknownState(state.0))
    }
    fn call(&mut self) -> Result<()> {
        self.calls += 1;
        match self.fail_after {
            Some(most) if self.calls > most => Err(Error::Engine("the plug was pulled".to_owned())),
            _ => Ok(()),
        }
    }
}

impl<M: Model> Scorer for Toy<M> {
    fn vocabulary_size(&self) -> usize {
        self.model.vocabulary()
    }
    fn score(&mut self, sequences: &[Vec<TokenId>]) -> Result<Vec<Vec<TokenScore>>> {
        self.call()?;
        let mut all = Vec::new();
        for sequence in sequences {
            let mut state = self.model.blank();
            let mut row = Vec::new();
            for pair in sequence.windows(2) {
                state = self.model.step(&state, pair[0]);
                row.push(token_score(&self.model.log_probabilities(&state), pair[1]));
            }
            all.push(row);
        }
        Ok(all)
    }
}

fn token_score(log_p: &[f64], token: TokenId) -> TokenScore {
    let weighted = |f: fn(f64) -> f64| -> f64 {
        let finite = log_p.iter().filter(|l| l.is_finite());
        finite.map(|l| l.exp() * f(*l)).sum()
    };
    let mean = weighted(|l| l);
    let top = (0..log_p.len()).max_by(|a, b| log_p[*a].total_cmp(&log_p[*b]));
    let top = top.unwrap();
    TokenScore {
        log_probability: log_p[token as usize],
        mean,
        variance: weighted(|l| l * l) - mean * mean,
        top_token: top as TokenId,
        top_log_probability: log_p[top],
    }
}

impl<M: Model> PrefixScorer for Toy<M> {
    fn start(&mut self, prefixes: &[Vec<TokenId>]) -> Result<Vec<StateId>> {
        self.call()?;
        let mut ids = Vec::new();
        for prefix in prefixes {
            let mut state = self.model.blank();
            for token in prefix {
                state = self.model.step(&state, *token);
            }
            ids.push(self.keep(state));
        }
        Ok(ids)
    }
    fn extend(&mut self, steps: &[(StateId, TokenId)]) -> Result<Vec<StateId>> {
        self.call()?;
        let mut ids = Vec::new();
        for (parent, token) in steps {
            let state = self.model.step(self.get(*parent)?, *token);
            ids.push(self.keep(state));
        }
        Ok(ids)
    }
    fn next_log_probabilities(
        &mut self,
        states: &[StateId],
        wanted: &[TokenId],
    ) -> Result<Vec<f64>> {
        self.call()?;
        self.rows += states.len() as u64;
        let mut rows = Vec::new();
        for state in states {
            let state = self.get(*state)?.clone();
            let log_p = self.model.log_probabilities(&state);
            rows.extend(wanted.iter().map(|&token| log_p[token as usize]));
        }
        Ok(rows)
    }
    fn release(&mut self, states: &[StateId]) {
        for state in states {
            assert!(
                self.states.remove(state).is_some(),
                "released twice: {state:?}"
            );
        }
    }
}

/// Random tables of the last two tokens; `levels` makes ties (probabilities from a coarse grid)
/// and zeros.
pub(crate) struct Bigram {
    vocabulary: usize,
    tables: Vec<Vec<f64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Levels {
    /// Continuous probabilities: no ties.
    Smooth,
    /// Unnormalised powers of two that add up to at most one: sums of ln p tie often.
    Coarse,
    /// Coarse, and a third of all tokens ruled out.
    Holes,
}

impl Bigram {
    pub(crate) fn random(vocabulary: usize, levels: Levels, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let tables = (0..(vocabulary + 1) * (vocabulary + 1))
            .map(|_| table(vocabulary, levels, &mut random))
            .collect();
        Self { vocabulary, tables }
    }
}

fn table(vocabulary: usize, levels: Levels, random: &mut ChaCha8Rng) -> Vec<f64> {
    if levels == Levels::Smooth {
        let weights: Vec<f64> = (0..vocabulary)
            .map(|_| random.random::<f64>().powi(3) + 1e-3)
            .collect();
        let sum: f64 = weights.iter().sum();
        return weights.iter().map(|w| (w / sum).ln()).collect();
    }
    (0..vocabulary)
        .map(|_| {
            if levels == Levels::Holes && random.random_range(0..3) == 0 {
                f64::NEG_INFINITY
            } else {
                // Multiples of 1/4 add up without rounding: ties are exact.
                -3.0 - 0.25 * f64::from(random.random_range(0..3_u8))
            }
        })
        .collect()
}

impl Model for Bigram {
    type State = (usize, usize);
    fn vocabulary(&self) -> usize {
        self.vocabulary
    }
    fn blank(&self) -> (usize, usize) {
        (self.vocabulary, self.vocabulary)
    }
    fn step(&self, state: &(usize, usize), token: TokenId) -> (usize, usize) {
        (state.1, token as usize)
    }
    fn log_probabilities(&mut self, state: &(usize, usize)) -> Vec<f64> {
        self.tables[state.0 * (self.vocabulary + 1) + state.1].clone()
    }
}

/// A recurrent network with eight hidden units: the whole prefix matters.
pub(crate) struct Recurrent {
    vocabulary: usize,
    weights: Vec<f64>,
}

const HIDDEN: usize = 8;

impl Recurrent {
    pub(crate) fn random(vocabulary: usize, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let count = HIDDEN * (HIDDEN + 2 * vocabulary);
        Self {
            vocabulary,
            weights: (0..count)
                .map(|_| 3.0 * (random.random::<f64>() - 0.5))
                .collect(),
        }
    }
}

impl Model for Recurrent {
    type State = [f64; HIDDEN];
    fn vocabulary(&self) -> usize {
        self.vocabulary
    }
    fn blank(&self) -> [f64; HIDDEN] {
        [0.0; HIDDEN]
    }
    fn step(&self, state: &[f64; HIDDEN], token: TokenId) -> [f64; HIDDEN] {
        let (mix, rest) = self.weights.split_at(HIDDEN * HIDDEN);
        std::array::from_fn(|i| {
            let sum: f64 = (0..HIDDEN).map(|j| mix[i * HIDDEN + j] * state[j]).sum();
            (sum + rest[token as usize * HIDDEN + i]).tanh()
        })
    }
    fn log_probabilities(&mut self, state: &[f64; HIDDEN]) -> Vec<f64> {
        let out = &self.weights[HIDDEN * (HIDDEN + self.vocabulary)..];
        let logits: Vec<f64> = out
            .chunks(HIDDEN)
            .map(|row| row.iter().zip(state).map(|(w, s)| w * s).sum())
            .collect();
        let top = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let norm = top + logits.iter().map(|l| (l - top).exp()).sum::<f64>().ln();
        logits.iter().map(|l| l - norm).collect()
    }
}

/// The same probability for everything, with noise of the given size from call to call.
pub(crate) struct Uniform {
    vocabulary: usize,
    noise: f64,
    random: ChaCha8Rng,
}

impl Uniform {
    pub(crate) fn new(vocabulary: usize) -> Self {
        Self::noisy(vocabulary, 0.0)
    }
    pub(crate) fn noisy(vocabulary: usize, noise: f64) -> Self {
        Self {
            vocabulary,
            noise,
            random: ChaCha8Rng::seed_from_u64(7),
        }
    }
}

impl Model for Uniform {
    type State = ();
    fn vocabulary(&self) -> usize {
        self.vocabulary
    }
    fn blank(&self) {}
    fn step(&self, (): &(), _: TokenId) {}
    fn log_probabilities(&mut self, (): &()) -> Vec<f64> {
        let level = -(self.vocabulary as f64).ln();
        (0..self.vocabulary)
            .map(|_| level + self.noise * (self.random.random::<f64>() - 0.5))
            .collect()
    }
}

/// The same probability for everything, but `more` nats in batches of at most 15, as kernels of other shapes round.
pub(crate) struct ByBatch {
    pub(crate) more: f64,
    /// What it says of that.
    pub(crate) rounding: f64,
}

impl ByBatch {
    fn log_probability(&self, batch: usize) -> f64 {
        let more = if batch <= 15 { self.more } else { 0.0 };
        more - 10_f64.ln()
    }
}

impl Scorer for ByBatch {
    fn vocabulary_size(&self) -> usize {
        10
    }
    fn score(&mut self, sequences: &[Vec<TokenId>]) -> Result<Vec<Vec<TokenScore>>> {
        let log_probability = self.log_probability(sequences.len());
        let score = TokenScore {
            log_probability,
            mean: log_probability,
            variance: 0.0,
            top_token: 0,
            top_log_probability: log_probability,
        };
        let rows = sequences.iter().map(|s| vec![score; s.len() - 1]);
        Ok(rows.collect())
    }
    fn batch_rounding(&self) -> f64 {
        self.rounding
    }
}

impl PrefixScorer for ByBatch {
    fn start(&mut self, prefixes: &[Vec<TokenId>]) -> Result<Vec<StateId>> {
        Ok(vec![StateId(0); prefixes.len()])
    }
    fn extend(&mut self, steps: &[(StateId, TokenId)]) -> Result<Vec<StateId>> {
        Ok(vec![StateId(0); steps.len()])
    }
    fn next_log_probabilities(
        &mut self,
        states: &[StateId],
        wanted: &[TokenId],
    ) -> Result<Vec<f64>> {
        let log_p = self.log_probability(states.len());
        Ok(vec![log_p; states.len() * wanted.len()])
    }
    fn release(&mut self, _: &[StateId]) {}
}

/// Knows some texts by heart: after each of their prefixes (their own beginning included) the
/// next token has probability 0.9, everything else shares the rest.
pub(crate) struct Memoriser {
    pub(crate) vocabulary: usize,
    pub(crate) texts: Vec<Vec<TokenId>>,
}

impl Model for Memoriser {
    type State = Vec<TokenId>;
    fn vocabulary(&self) -> usize {
        self.vocabulary
    }
    fn blank(&self) -> Vec<TokenId> {
        Vec::new()
    }
    fn step(&self, state: &Vec<TokenId>, token: TokenId) -> Vec<TokenId> {
        let mut longer = state.clone();
        longer.push(token);
        longer
    }
    fn log_probabilities(&mut self, state: &Vec<TokenId>) -> Vec<f64> {
        let mut known: Vec<TokenId> = self
            .texts
            .iter()
            .filter(|text| text.starts_with(state))
            .filter_map(|text| text.get(state.len()).copied())
            .collect();
        known.sort_unstable();
        known.dedup();
        let rest = if known.is_empty() { 1.0 } else { 0.1 };
        let unknown = self.vocabulary - known.len();
        let mut log_p = vec![(rest / unknown as f64).ln(); self.vocabulary];
        for token in &known {
            log_p[*token as usize] = (0.9 / known.len() as f64).ln();
        }
        log_p
    }
}

/// Says the given value for one token, in every state.
pub(crate) struct Broken {
    pub(crate) value: f64,
}

impl Model for Broken {
    type State = ();
    fn vocabulary(&self) -> usize {
        10
    }
    fn blank(&self) {}
    fn step(&self, (): &(), _: TokenId) {}
    fn log_probabilities(&mut self, (): &()) -> Vec<f64> {
        let mut log_p = vec![-2.5; 10];
        log_p[7] = self.value;
        log_p
    }
}

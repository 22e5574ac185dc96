//! The candidates as a prefix tree over tokens.

use crate::error::{Error, Result};
use reticent_corpus::TokenId;
use std::collections::{BTreeMap, HashMap};

/// The largest number of nodes of a compiled space; digits, letters and word lists need one per
/// position or per letter.
const MOST_NODES: usize = 1 << 22;

/// An edge of the tree: one more token of the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) token: TokenId,
    /// The node from which candidates longer than this prefix continue.
    pub(crate) child: Option<u32>,
    /// The number of candidates that end exactly here.
    pub(crate) ends: u64,
    /// The number of candidates that continue.
    pub(crate) below: u64,
}

/// All candidates for a secret, as a tree over tokens in which equal subtrees are shared.
///
/// A candidate is one choice per position; a choice is a token sequence. The number of
/// candidates is the product of the numbers of choices. Two candidates that spell the same
/// tokens remain two candidates (they tie), and a candidate may be a prefix of another.
///
/// ```
/// use reticent_attacks::search::CandidateTree;
/// let digit: Vec<Vec<u32>> = (0..10).map(|token| vec![token]).collect();
/// let tree = CandidateTree::new(&vec![digit; 6])?;
/// assert_eq!(tree.candidates(), 1_000_000);
/// assert_eq!(tree.candidate(341_752), [3, 4, 1, 7, 5, 2]);
/// # Ok::<(), reticent_attacks::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CandidateTree {
    positions: Vec<Vec<Vec<TokenId>>>,
    nodes: Vec<Vec<Edge>>,
    candidates: u64,
    tokens: u64,
}

impl CandidateTree {
    /// Compiles a space: `positions[i]` holds the choices at position i, each a token sequence.
    ///
    /// # Errors
    /// [`Error::CandidateSpace`]: no position, a position without a choice, an empty choice, the
    /// same choice twice, more than 2^63 candidates, or a space too irregular to share subtrees.
    pub fn new(positions: &[Vec<Vec<TokenId>>]) -> Result<Self> {
        let candidates = check(positions)?;
        let tries: Vec<Trie> = positions.iter().map(|choices| Trie::new(choices)).collect();
        let nodes = compile(&tries, &completions(&tries))?;
        Ok(Self {
            positions: positions.to_vec(),
            nodes,
            candidates,
            tokens: total_tokens(positions, candidates),
        })
    }

    /// Returns N, the number of candidates.
    #[must_use]
    pub const fn candidates(&self) -> u64 {
        self.candidates
    }

    /// Returns the total number of tokens of all candidates: the secret positions that flat scoring
    /// has to score (2^64 - 1 if there are more).
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }
    /// Returns the number of tokens of the longest candidate.
    #[must_use]
    pub fn longest(&self) -> usize {
        let longest = |choices: &Vec<Vec<TokenId>>| choices.iter().map(Vec::len).max();
        self.positions.iter().filter_map(longest).sum()
    }

    /// Returns the tokens of candidate `index`, with the last position varying fastest.
    ///
    /// # Panics
    /// Never: an index beyond the last candidate wraps around.
    #[must_use]
    pub fn candidate(&self, index: u64) -> Vec<TokenId> {
        let choices = chosen(&self.positions, index).into_iter();
        choices.flatten().copied().collect()
    }

    /// Returns the tokens of the candidate with these choice indices, one per position.
    ///
    /// # Errors
    /// Returns an error if a choice index is too large, or if there are not as many indices as
    /// positions.
    pub fn spell(&self, choices: &[usize]) -> Result<Vec<TokenId>> {
        if choices.len() != self.positions.len() {
            return Err(Error::CandidateSpace {
                position: choices.len().min(self.positions.len()),
                why: format!(
                    "{} choice indices for {} positions",
                    choices.len(),
                    self.positions.len()
                ),
            });
        }
        let mut tokens = Vec::new();
        for (position, (&index, offered)) in choices.iter().zip(&self.positions).enumerate() {
            let choice = offered.get(index).ok_or_else(|| Error::CandidateSpace {
                position,
                why: format!("choice must lie in [0, {}), got {index}", offered.len()),
            })?;
            tokens.extend_from_slice(choice);
        }
        Ok(tokens)
    }

    /// Returns whether these tokens spell a candidate.
    #[must_use]
    pub fn contains(&self, secret: &[TokenId]) -> bool {
        let mut node = Some(Self::ROOT);
        let mut ends = 0;
        for token in secret {
            let edge = node.and_then(|n| self.edges(n).iter().find(|e| e.token == *token));
            let Some(edge) = edge else { return false };
            node = edge.child;
            ends = edge.ends;
        }
        ends > 0
    }

    pub(crate) const ROOT: u32 = 0;

    pub(crate) fn edges(&self, node: u32) -> &[Edge] {
        &self.nodes[node as usize]
    }
}

/// Returns the choice of candidate `index` at each position, with the last position varying fastest.
pub(super) fn chosen<T>(positions: &[Vec<T>], index: u64) -> Vec<&T> {
    let mut rest = index;
    let mut chosen = Vec::with_capacity(positions.len());
    for choices in positions.iter().rev() {
        let count = choices.len() as u64;
        chosen.push(&choices[(rest % count) as usize]);
        rest /= count;
    }
    chosen.reverse();
    chosen
}

/// Validates a space and returns its number of candidates.
fn check(positions: &[Vec<Vec<TokenId>>]) -> Result<u64> {
    let fail = |position, why: &str| {
        Err(Error::CandidateSpace {
            position,
            why: why.to_owned(),
        })
    };
    if positions.is_empty() {
        return fail(0, "at least one position is needed");
    }
    let mut candidates = 1_u64;
    for (position, choices) in positions.iter().enumerate() {
        if choices.is_empty() {
            return fail(position, "at least one choice is needed");
        }
        if choices.iter().any(Vec::is_empty) {
            return fail(position, "every choice needs at least one token");
        }
        let mut sorted: Vec<_> = choices.iter().collect();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return fail(position, "two choices have the same tokens");
        }
        let product = candidates.checked_mul(choices.len() as u64);
        match product.filter(|&n| n <= 1 << 63) {
            Some(product) => candidates = product,
            None => return fail(position, "more than 2^63 candidates"),
        }
    }
    Ok(candidates)
}

fn total_tokens(positions: &[Vec<Vec<TokenId>>], candidates: u64) -> u64 {
    let each: u128 = positions
        .iter()
        .map(|choices| {
            let tokens: u128 = choices.iter().map(|choice| choice.len() as u128).sum();
            tokens * u128::from(candidates / choices.len() as u64)
        })
        .sum();
    u64::try_from(each).unwrap_or(u64::MAX)
}

/// The choices of one position as a trie.
struct Trie {
    nodes: Vec<TrieNode>,
}

#[derive(Default)]
struct TrieNode {
    children: BTreeMap<TokenId, u32>,
    terminal: bool,
}

impl Trie {
    fn new(choices: &[Vec<TokenId>]) -> Self {
        let mut nodes = vec![TrieNode::default()];
        for choice in choices {
            let mut at = 0;
            for token in choice {
                let fresh = nodes.len() as u32;
                let next = *nodes[at].children.entry(*token).or_insert(fresh);
                if next == fresh {
                    nodes.push(TrieNode::default());
                }
                at = next as usize;
            }
            nodes[at].terminal = true;
        }
        Self { nodes }
    }
}

/// Returns, for every position and node, the number of ways in which a candidate can continue
/// strictly below it.
fn completions(tries: &[Trie]) -> Vec<Vec<u64>> {
    let mut later = 1_u64;
    let mut all = vec![Vec::new(); tries.len()];
    for (counts, trie) in all.iter_mut().zip(tries).rev() {
        *counts = vec![0; trie.nodes.len()];
        // A child has a larger index than its parent, so one backward pass suffices.
        for (number, node) in trie.nodes.iter().enumerate().rev() {
            counts[number] = node
                .children
                .values()
                .map(|&child| {
                    let ended = u64::from(trie.nodes[child as usize].terminal) * later;
                    ended + counts[child as usize]
                })
                .sum();
        }
        later = counts[0];
    }
    all
}

/// A way to read a prefix: a position, a node of the trie of its choices, and the number of such
/// ways.
type Reading = (u32, u32, u64);

/// Compiles the tree by subset construction: a node of the tree is the set of readings of a prefix.
fn compile(tries: &[Trie], completions: &[Vec<u64>]) -> Result<Vec<Vec<Edge>>> {
    let start: Vec<Reading> = vec![(0, 0, 1)];
    let mut numbers: HashMap<Vec<Reading>, u32> = HashMap::from([(start.clone(), 0)]);
    let mut waiting = vec![start];
    let mut nodes: Vec<Vec<Edge>> = vec![Vec::new()];
    while let Some(readings) = waiting.pop() {
        let number = numbers[&readings];
        let mut edges = Vec::new();
        for (token, (ends, next)) in follow(tries, &readings) {
            let below = next
                .iter()
                .map(|&(p, n, ways)| ways * completions[p as usize][n as usize])
                .sum();
            let child = (!next.is_empty()).then(|| {
                *numbers.entry(next.clone()).or_insert_with(|| {
                    nodes.push(Vec::new());
                    waiting.push(next);
                    (nodes.len() - 1) as u32
                })
            });
            edges.push(Edge {
                token,
                child,
                ends,
                below,
            });
        }
        nodes[number as usize] = edges;
        if nodes.len() > MOST_NODES {
            return Err(Error::CandidateSpace {
                position: readings.iter().map(|r| r.0 as usize).max().unwrap_or(0),
                why: format!("the prefix tree has more than {MOST_NODES} distinct nodes"),
            });
        }
    }
    Ok(nodes)
}

/// For one token: the number of candidates that end with it, and the number of ways in which each
/// reading continues.
type Followers = (u64, BTreeMap<(u32, u32), u64>);

/// Returns, for each next token, the number of candidates that end there and the readings that
/// continue.
fn follow(tries: &[Trie], readings: &[Reading]) -> BTreeMap<TokenId, (u64, Vec<Reading>)> {
    let mut by_token: BTreeMap<TokenId, Followers> = BTreeMap::new();
    for &(position, node, ways) in readings {
        let trie = &tries[position as usize];
        for (&token, &child) in &trie.nodes[node as usize].children {
            let (ends, next) = by_token.entry(token).or_default();
            let reached = &trie.nodes[child as usize];
            if reached.terminal {
                if position as usize + 1 == tries.len() {
                    *ends += ways;
                } else {
                    *next.entry((position + 1, 0)).or_default() += ways;
                }
            }
            if !reached.children.is_empty() {
                *next.entry((position, child)).or_default() += ways;
            }
        }
    }
    by_token
        .into_iter()
        .map(|(token, (ends, next))| {
            let next = next.into_iter().map(|((p, n), ways)| (p, n, ways));
            (token, (ends, next.collect()))
        })
        .collect()
}

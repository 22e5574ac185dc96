//! Cached prefixes: a tree of keys and values, so that states share a common prefix.
//!
//! A state holds the rows that its call added and points to its parent; extending a state copies nothing of the parent.
//! Rows that several states share are stored once and freed with the last of these states.

use super::Transformer;
use super::flow::{Plain, layers, top};
use crate::engine::host::attention::{Attention, step};
use crate::engine::layers::{Floats, Layers, Matrix};
use crate::engine::portable::host;
use crate::engine::rows::{Grid, Rows};
use crate::error::{Error, Result};
use crate::model::Model;
use crate::scorer::{PrefixScorer, StateId, check_tokens};
use crate::trainer::Precision;
use rayon::prelude::*;
use reticent_corpus::TokenId;
use std::sync::Arc;

/// Keys (rotated) and values of consecutive rows, layer by layer.
#[derive(Debug)]
struct Node {
    parent: Option<Arc<Node>>,
    /// The number of rows of this node and all its ancestors.
    end: usize,
    keys: Vec<Vec<f32>>,
    values: Vec<Vec<f32>>,
}

impl Node {
    fn new(parent: Option<Arc<Self>>, end: usize) -> Self {
        Self {
            parent,
            end,
            keys: Vec::new(),
            values: Vec::new(),
        }
    }
}

impl Drop for Node {
    /// Frees the ancestors iteratively: a recursion as deep as the sequence is long could overflow the stack.
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(node) = next {
            match Arc::try_unwrap(node) {
                Ok(mut node) => next = node.parent.take(),
                Err(_) => break,
            }
        }
    }
}

/// A prefix's rows, and the last layer's output at its last token.
#[derive(Debug, Clone)]
pub(super) struct State {
    node: Arc<Node>,
    hidden: Vec<f32>,
}

/// Returns the nodes of a prefix, oldest first.
fn chain(node: &Arc<Node>) -> Vec<&Node> {
    let mut nodes = vec![&**node];
    while let Some(parent) = &nodes[nodes.len() - 1].parent {
        nodes.push(parent);
    }
    nodes.reverse();
    nodes
}

/// Returns the keys, rotated by their positions, and the values from rows of queries, keys and values.
fn cut(joined: &[f32], positions: &[u32], attention: &Attention) -> (Vec<f32>, Vec<f32>) {
    let (width, groups) = (attention.width, attention.groups);
    let (queries, side) = (attention.heads * width, groups * width);
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    for (line, position) in joined.chunks_exact(attention.joined()).zip(positions) {
        let start = keys.len();
        keys.extend_from_slice(&line[queries..queries + side]);
        for key in keys[start..].chunks_exact_mut(width) {
            attention.turn(key, *position as usize, 1.0);
        }
        values.extend_from_slice(&line[queries + side..]);
    }
    (keys, values)
}

impl<B: Floats, K: Layers<B>> Transformer<B, K> {
    fn start_part(&mut self, part: &[&[TokenId]], grid: Option<Grid>) -> Result<Vec<StateId>> {
        let rows = Rows::reading(part, self.limits(), grid)?;
        let mut nodes: Vec<Node> = rows
            .spans
            .iter()
            .map(|span| Node::new(None, span.length))
            .collect();
        let hidden = {
            let mut attend = |layer: usize, joined: &Matrix<B>| {
                let attention = &self.attention[layer];
                let values = host(joined.clone());
                for (node, span) in nodes.iter_mut().zip(&rows.spans) {
                    let columns = attention.joined();
                    let lines = &values[span.start * columns..(span.start + span.length) * columns];
                    let (k, v) = cut(lines, &rows.positions[span.range()], attention);
                    node.keys.push(k);
                    node.values.push(v);
                }
                K::attend(joined, &rows, attention, Precision::Single).out
            };
            let mut flow = Plain {
                attend: &mut attend,
            };
            let hidden = layers(self, &mut flow, self.embed(&rows));
            host(top(self, &mut flow, hidden))
        };
        let d = self.config.width;
        let states = nodes.into_iter().zip(&rows.spans).map(|(node, span)| {
            let last = span.start + span.length - 1;
            State {
                node: Arc::new(node),
                hidden: hidden[last * d..(last + 1) * d].to_vec(),
            }
        });
        let states: Vec<State> = states.collect();
        Ok(states.into_iter().map(|s| self.states.keep(s)).collect())
    }

    fn extend_part(&mut self, steps: &[(StateId, TokenId)]) -> Result<Vec<StateId>> {
        let parents: Vec<State> = steps
            .iter()
            .map(|(id, _)| self.states.get(*id).cloned())
            .collect::<Result<_>>()?;
        let chains: Vec<Vec<&Node>> = parents.iter().map(|s| chain(&s.node)).collect();
        let most = self.config.longest();
        for (index, state) in parents.iter().enumerate() {
            if state.node.end >= most {
                return Err(Error::TooLong {
                    index,
                    length: state.node.end + 1,
                    most,
                });
            }
        }
        let rows = Rows::steps(steps, parents.iter().map(|s| s.node.end));
        let mut nodes: Vec<Node> = parents
            .iter()
            .map(|s| Node::new(Some(s.node.clone()), s.node.end + 1))
            .collect();
        let hidden = {
            let mut attend = |layer: usize, joined: &Matrix<B>| {
                let attention = &self.attention[layer];
                let values = host(joined.clone());
                let lines = values.par_chunks_exact(attention.joined());
                let done: Vec<_> = lines
                    .zip(&chains)
                    .zip(&rows.positions)
                    .map(|((line, chain), position)| {
                        let (k, v) = cut(line, &[*position], attention);
                        let past = chain
                            .iter()
                            .map(|node| (&node.keys[layer][..], &node.values[layer][..]));
                        let parts: Vec<_> = past.chain([(&k[..], &v[..])]).collect();
                        let out = step(line, *position as usize, &parts, attention);
                        (k, v, out)
                    })
                    .collect();
                let mut out = Vec::with_capacity(done.len() * attention.heads * attention.width);
                for (node, (k, v, o)) in nodes.iter_mut().zip(done) {
                    node.keys.push(k);
                    node.values.push(v);
                    out.extend(o);
                }
                self.matrix(out, attention.heads * attention.width)
            };
            let mut flow = Plain {
                attend: &mut attend,
            };
            let hidden = layers(self, &mut flow, self.embed(&rows));
            host(top(self, &mut flow, hidden))
        };
        let lines = hidden.chunks_exact(self.config.width);
        let states: Vec<State> = nodes
            .into_iter()
            .zip(lines)
            .map(|(node, line)| State {
                node: Arc::new(node),
                hidden: line.to_vec(),
            })
            .collect();
        Ok(states.into_iter().map(|s| self.states.keep(s)).collect())
    }
}

impl<B: Floats, K: Layers<B>> PrefixScorer for Transformer<B, K> {
    fn start(&mut self, prefixes: &[Vec<TokenId>]) -> Result<Vec<StateId>> {
        Model::from(self.config.clone()).predicts_next_token()?;
        let views: Vec<&[TokenId]> = prefixes.iter().map(Vec::as_slice).collect();
        // a call that fails stores nothing
        Rows::reading(&views, self.limits(), None)?;
        let mut out = vec![StateId(0); prefixes.len()];
        for part in self.microbatches_without(0, &views) {
            let started = self.start_part(&part.sequences, part.grid)?;
            for (place, state) in part.places.iter().zip(started) {
                out[*place] = state;
            }
        }
        Ok(out)
    }

    fn extend(&mut self, steps: &[(StateId, TokenId)]) -> Result<Vec<StateId>> {
        let tokens: Vec<TokenId> = steps.iter().map(|(_, t)| *t).collect();
        check_tokens(&tokens, self.config.vocabulary)?;
        for (state, _) in steps {
            self.states.get(*state)?;
        }
        let mut out = Vec::with_capacity(steps.len());
        for part in steps.chunks(super::ROWS) {
            out.extend(self.extend_part(part)?);
        }
        Ok(out)
    }

    fn next_log_probabilities(
        &mut self,
        states: &[StateId],
        wanted: &[TokenId],
    ) -> Result<Vec<f64>> {
        check_tokens(wanted, self.config.vocabulary)?;
        let (_, head) = self.head_weights();
        let mut out = Vec::with_capacity(states.len() * wanted.len());
        for part in states.chunks(self.logit_rows()) {
            let mut hidden = Vec::with_capacity(part.len() * self.config.width);
            for state in part {
                hidden.extend_from_slice(&self.states.get(*state)?.hidden);
            }
            let hidden = self.matrix(hidden, self.config.width);
            out.extend(B::log_probabilities(K::logits(&hidden, &head), wanted));
        }
        Ok(out)
    }

    fn release(&mut self, states: &[StateId]) {
        self.states.release(states);
    }
}

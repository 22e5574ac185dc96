//! Lists candidates for a tokenizer whose tokens cross position boundaries: byte-pair encodings
//! merge digits.
//!
//! Such a space cannot be described by choices per position. Every candidate is encoded within its
//! line as the model was trained to read it (its canonical tokens, one sequence each). The prefix
//! that all candidates share becomes part of the context, and the rest becomes one prefix tree over
//! tokens.

use super::tree::chosen;
use crate::error::{Error, Result, ranged};
use crate::search::{CandidateTree, Target};
use reticent_corpus::TokenId;
use reticent_corpus::canary::CanaryPlan;
use reticent_corpus::tokenize::Tokenizer;
use std::num::NonZero;

/// The largest number of candidates that can be listed one by one.
const MOST: u128 = 4_000_000;

/// The number of candidates on which the shortcut for encoding is checked, spread over all choices.
const CHECKED: u64 = 997;

/// Returns the tree and the targets of a plan whose candidates have to be listed.
///
/// # Errors
/// Returns an error if there are more candidates than can be listed, if canaries have different
/// contexts, or if the tokenizer's tokens reach across the end of the secret or are the same for
/// two candidates.
pub(crate) fn listed_targets(
    plan: &CanaryPlan,
    tokenizer: &Tokenizer,
) -> Result<(CandidateTree, Vec<Target>)> {
    let lines = Lines::new(plan, tokenizer)?;
    let way = lines.way()?;
    let all = lines.encode_all(&way)?;
    // Every candidate keeps at least one token after the shared prefix.
    let shortest = all.iter().map(Vec::len).min().unwrap_or(0);
    let shared = (0..shortest.saturating_sub(1))
        .take_while(|&i| all.iter().all(|tokens| tokens[i] == all[0][i]))
        .count();
    let mut context = vec![tokenizer.bos()];
    context.extend(&way.head);
    context.extend(&all[0][..shared]);
    let targets = plan
        .canaries
        .iter()
        .map(|canary| {
            let tokens = lines.tail(&way, &canary.secret)?;
            for insertion in &canary.insertions {
                let real = tokenizer.frame(&insertion.text)?;
                let same = real
                    .strip_prefix(&context[..=way.head.len()])
                    .is_some_and(|rest| rest.starts_with(&tokens));
                if !same {
                    return Err(cut_apart(&canary.id, "an insertion has other tokens"));
                }
            }
            Ok(Target {
                context: context.clone(),
                secret: tokens[shared..].to_vec(),
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let secrets = all.into_iter().map(|tokens| tokens[shared..].to_vec());
    let tree = CandidateTree::new(&[secrets.collect()])?;
    Ok((tree, targets))
}

fn cut_apart(which: &str, why: &str) -> Error {
    Error::Unsuitable {
        what: "tokenizer",
        needed: "one that cuts a secret in its line by itself",
        got: format!("{which}: {why}"),
    }
}

/// The candidates' lines and the tokenizer that encodes them.
struct Lines<'a> {
    tokenizer: &'a Tokenizer,
    /// The line up to the secret.
    before: &'a str,
    /// What follows the first canary in its first copy; other copies differ behind the first word.
    after: &'a str,
    /// The choices at each position.
    positions: Vec<Vec<String>>,
    count: u64,
}

/// How a line is encoded: the tokens of its head once, the rest for every candidate.
struct Way {
    /// The tokens before byte `from` of the line.
    head: Vec<TokenId>,
    from: usize,
}

impl<'a> Lines<'a> {
    fn new(plan: &'a CanaryPlan, tokenizer: &'a Tokenizer) -> Result<Self> {
        let first = plan
            .canaries
            .first()
            .ok_or(Error::Empty("no canary was given"))?;
        if let Some(other) = plan.canaries.iter().find(|c| c.context != first.context) {
            return Err(cut_apart(
                &other.id,
                "another context than the first canary",
            ));
        }
        ranged(
            "candidates of a tokenizer that merges digits",
            "[1, 4000000]; larger spaces need a tokenizer with one token a digit",
            plan.candidates,
            plan.candidates <= MOST,
        )?;
        Ok(Self {
            tokenizer,
            before: &first.context,
            after: &first.after,
            positions: plan.template.positions(),
            count: plan.candidates as u64,
        })
    }

    /// Returns candidate `number`, with the last position varying fastest.
    fn secret(&self, number: u64) -> String {
        let parts = chosen(&self.positions, number).into_iter();
        parts.map(String::as_str).collect()
    }

    /// Finds where to cut the line so that its two parts encode like the whole for all checked
    /// candidates: at one of the last three spaces of the context, the last first, otherwise at its
    /// beginning.
    fn way(&self) -> Result<Way> {
        let spaces = self.before.rmatch_indices(' ').map(|(at, _)| at).take(3);
        'cuts: for from in spaces.chain([0]) {
            let way = Way {
                head: self.tokenizer.encode(&self.before[..from])?,
                from,
            };
            for number in (0..self.count).step_by(self.step()) {
                let secret = self.secret(number);
                let whole = format!("{}{secret}{}", self.before, self.after);
                let real = self.tokenizer.encode(&whole)?;
                let same = real.strip_prefix(way.head.as_slice()).is_some_and(|rest| {
                    self.tail(&way, &secret)
                        .is_ok_and(|tail| rest.starts_with(&tail))
                });
                if !same {
                    continue 'cuts;
                }
            }
            return Ok(way);
        }
        Err(cut_apart(
            "a candidate",
            "what stands around the secret changes its tokens",
        ))
    }

    /// Returns a step between checked candidates that has no divisor in common with their number: the last positions
    /// take all their choices too.
    fn step(&self) -> usize {
        let least = (self.count / CHECKED).max(1);
        let coprime = (least..=self.count).find(|step| gcd(*step, self.count) == 1);
        coprime.unwrap_or(1) as usize
    }

    /// Returns the tokens of the line from the cut to the end of the secret, as they are with what follows it.
    ///
    /// # Errors
    /// Returns an error if a token reaches across the end of the secret.
    fn tail(&self, way: &Way, secret: &str) -> Result<Vec<TokenId>> {
        // Farther words do not change the secret's tokens; that they don't is checked on whole lines.
        let next = self.after.match_indices(' ').nth(1);
        let after = &self.after[..next.map_or(self.after.len(), |(at, _)| at)];
        let mut text = format!("{}{secret}", &self.before[way.from..]);
        let end = text.len();
        text.push_str(after);
        let mut encoded = self.tokenizer.encode_with_offsets(&text)?;
        let places = encoded.offsets.iter();
        let own = places.take_while(|place| place.start < end).count();
        if encoded.offsets[..own].iter().any(|place| place.end > end) {
            return Err(cut_apart("a candidate", "a token reaches across its end"));
        }
        encoded.tokens.truncate(own);
        Ok(encoded.tokens)
    }

    /// Encodes all candidates, using all cores.
    fn encode_all(&self, way: &Way) -> Result<Vec<Vec<TokenId>>> {
        let workers = std::thread::available_parallelism().map_or(1, NonZero::get) as u64;
        let share = self.count.div_ceil(workers).max(1);
        std::thread::scope(|scope| {
            let parts: Vec<_> = (0..workers)
                .map(|worker| {
                    let range = worker * share..((worker + 1) * share).min(self.count);
                    scope.spawn(move || -> Result<Vec<Vec<TokenId>>> {
                        range.map(|i| self.tail(way, &self.secret(i))).collect()
                    })
                })
                .collect();
            let mut all = Vec::with_capacity(self.count as usize);
            for part in parts {
                let part = part
                    .join()
                    .map_err(|_| cut_apart("a worker", "it failed"))?;
                all.extend(part?);
            }
            Ok(all)
        })
    }
}

const fn gcd(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

//! What a model outside this program is asked and answers. Questions are checked against what it knows. Answers are not
//! trusted: log-probabilities are checked, and some questions, drawn at random from all questions asked, are repeated at
//! the end of an audit. Answers that vary at random measure nothing.

use crate::number::nearest;
use anyhow::{Result, bail};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use reticent_backends::{
    AGREEMENT, Result as BackendResult, StateId, States, check_sequence, check_tokens,
};
use reticent_corpus::{TokenId, system_seed};

/// Log-softmaxes in single precision may round to slightly above zero.
pub(in crate::audit) const ROUNDING: f64 = 1e-4;

/// The number of questions of a kind that are repeated.
pub(in crate::audit) const KEPT: usize = 16;

/// What to do about answers that differ.
pub(in crate::audit) const ADVICE: &str = "it must be one model that answers without chance and alike in any batch, so switch dropout and \
                                           sampling off, or compute in single precision";

/// Returns ln p of each wanted token after each prefix, none above 0, if the answer may be that.
///
/// # Errors
/// Returns what is wrong with the number of rows or of their values, or with a row whose values are no log-probabilities
/// of different tokens: each must lie in [-inf, 0], and their probabilities are at most 1 together, and 1 if `wanted` is
/// the whole vocabulary, but for rounding.
pub fn next_log_probabilities(
    mut rows: Vec<Vec<f64>>,
    prefixes: usize,
    wanted: &[TokenId],
    vocabulary: usize,
) -> std::result::Result<Vec<Vec<f64>>, String> {
    let what = "log_probabilities";
    shape(what, &rows, &vec![wanted.len(); prefixes])?;
    all(&rows, what, is_log_probability)?;
    let whole =
        wanted.len() == vocabulary && wanted.iter().zip(0..).all(|(token, id)| *token == id);
    sums(&rows, what, whole)?;
    for value in rows.iter_mut().flatten() {
        *value = value.min(0.0);
    }
    Ok(rows)
}

/// Checks that the rows have these lengths.
pub(in crate::audit) fn shape<T>(
    what: &str,
    rows: &[Vec<T>],
    lengths: &[usize],
) -> std::result::Result<(), String> {
    if rows.len() != lengths.len() {
        return Err(format!(
            "answered with {} rows of {what} for {} sequences",
            rows.len(),
            lengths.len()
        ));
    }
    for (index, (row, &wanted)) in rows.iter().zip(lengths).enumerate() {
        if row.len() != wanted {
            return Err(format!(
                "answered with {} {what} in row {index}, {wanted} were asked for",
                row.len()
            ));
        }
    }
    Ok(())
}

/// Checks every value.
pub(in crate::audit) fn all<T: Copy>(
    rows: &[Vec<T>],
    what: &str,
    fits: fn(f64) -> bool,
) -> std::result::Result<(), String>
where
    f64: From<T>,
{
    for (index, row) in rows.iter().enumerate() {
        if let Some(place) = row.iter().position(|n| !fits(f64::from(*n))) {
            return Err(format!(
                "answered {} at {what}[{index}][{place}]; it must lie in {}",
                f64::from(row[place]),
                if what == "variances" {
                    "[0, inf)"
                } else {
                    "[-inf, 0]"
                }
            ));
        }
    }
    Ok(())
}

/// Checks that the probabilities in each row, of different tokens after one prefix, sum to at most one, or to one if they
/// are of the `whole` vocabulary.
fn sums(rows: &[Vec<f64>], what: &str, whole: bool) -> std::result::Result<(), String> {
    /// Both beside one for rounding: with half-precision weights, a share of about 1e-3.
    const MOST: f64 = 1.01;
    const LEAST: f64 = 0.99;
    for (index, row) in rows.iter().enumerate() {
        let sum: f64 = row.iter().map(|n| n.exp()).sum();
        if sum > MOST {
            return Err(format!(
                "answered {what}[{index}] whose probabilities sum to {}; they must be at most 1 together",
                nearest(sum, 3)
            ));
        }
        if whole && sum < LEAST {
            return Err(format!(
                "answered {what}[{index}] whose probabilities sum to {}; those of the whole vocabulary must be 1 together",
                nearest(sum, 3)
            ));
        }
    }
    Ok(())
}

/// Returns whether a value may be ln p, but for rounding.
pub(in crate::audit) const fn is_log_probability(value: f64) -> bool {
    value <= ROUNDING
}

/// Returns the first pair in which two answers to one question differ by more than rounding; both have the same
/// length.
pub(in crate::audit) fn disagreement(one: &[f64], two: &[f64]) -> Option<(f64, f64)> {
    // Both may be ln 0.
    let alike = |a: f64, b: f64| a.total_cmp(&b).is_eq() || (a - b).abs() <= AGREEMENT;
    let mut pairs = one.iter().copied().zip(two.iter().copied());
    pairs.find(|(a, b)| !alike(*a, *b))
}

/// Compares an answer with the first; `who` begins the error.
pub(in crate::audit) fn refuse(who: &str, what: &str, first: &[f64], again: &[f64]) -> Result<()> {
    let Some((first, again)) = disagreement(first, again) else {
        return Ok(());
    };
    bail!("{who} {what} is {first} at first and {again} at the end of the audit; {ADVICE}")
}

/// At most [`KEPT`] of all items seen, each with the same probability.
pub(in crate::audit) struct Sample<T> {
    pub(in crate::audit) kept: Vec<T>,
    passed: usize,
    rng: ChaCha20Rng,
}

impl<T> Sample<T> {
    /// Creates an empty sample. The operating system seeds the choice, so that no scorer can know it.
    pub(in crate::audit) fn new() -> Result<Self> {
        Ok(Self::of(ChaCha20Rng::seed_from_u64(system_seed()?)))
    }

    const fn of(rng: ChaCha20Rng) -> Self {
        Self {
            kept: Vec::new(),
            passed: 0,
            rng,
        }
    }

    pub(in crate::audit) fn pass(&mut self, make: impl FnOnce() -> T) {
        self.passed += 1;
        if self.kept.len() < KEPT {
            self.kept.push(make());
            return;
        }
        let place = self.rng.random_range(0..self.passed);
        if place < KEPT {
            self.kept[place] = make();
        }
    }
}

/// A prefix, the tokens that may come next, and ln p of each.
pub(in crate::audit) struct Next {
    pub(in crate::audit) prefix: Vec<TokenId>,
    pub(in crate::audit) wanted: Vec<TokenId>,
    pub(in crate::audit) answer: Vec<f64>,
}

/// A uniform sample of the questions for next tokens.
pub struct NextSample(Sample<Next>);

impl std::fmt::Debug for NextSample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NextSample({} kept)", self.0.kept.len())
    }
}

impl NextSample {
    /// Creates an empty sample.
    ///
    /// # Errors
    /// Returns an error if the operating system gives no seed.
    pub fn new() -> Result<Self> {
        Ok(Self(Sample::new()?))
    }

    /// Takes note of questions and their answers, a row for each prefix.
    pub fn note(&mut self, prefixes: &[Vec<TokenId>], wanted: &[TokenId], rows: &[Vec<f64>]) {
        for (prefix, row) in prefixes.iter().zip(rows) {
            self.0.pass(|| Next {
                prefix: prefix.clone(),
                wanted: wanted.to_vec(),
                answer: row.clone(),
            });
        }
    }

    /// Returns the questions that are asked again.
    #[cfg(feature = "audit")]
    pub(in crate::audit) fn kept(&self) -> &[Next] {
        &self.0.kept
    }

    /// Asks all kept questions again, one by one: what depends on the batch differs most in the smallest. `who` begins the
    /// error, as "the scorer answers the same question in two ways:".
    ///
    /// # Errors
    /// Returns an error if an answer differs from the first.
    pub fn check<E: Into<anyhow::Error>>(
        &self,
        who: &str,
        mut ask: impl FnMut(&[Vec<TokenId>], &[TokenId]) -> std::result::Result<Vec<Vec<f64>>, E>,
    ) -> Result<()> {
        for kept in &self.0.kept {
            let again = ask(std::slice::from_ref(&kept.prefix), &kept.wanted);
            let again = again.map_err(|error| -> anyhow::Error { error.into() })?;
            refuse(who, "ln p of a token", &kept.answer, &again.concat())?;
        }
        Ok(())
    }
}

/// The states of a model that is asked about whole prefixes: each is its prefix.
#[derive(Debug)]
pub struct Prefixes {
    vocabulary: usize,
    context: Option<usize>,
    kept: States<Vec<TokenId>>,
}

impl Prefixes {
    /// Creates the states of a model that knows the tokens below `vocabulary` and, if it has a context, reads no longer
    /// sequences.
    #[must_use]
    pub fn new(vocabulary: usize, context: Option<usize>) -> Self {
        Self {
            vocabulary,
            context,
            kept: States::default(),
        }
    }

    /// Returns the number of tokens that the model knows.
    #[must_use]
    pub const fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Checks that the model can read these sequences.
    ///
    /// # Errors
    /// Returns an error if a sequence is empty or longer than the context, or if it has a token outside the vocabulary.
    pub fn fit(&self, sequences: &[Vec<TokenId>]) -> BackendResult<()> {
        for (index, tokens) in sequences.iter().enumerate() {
            let most = self.context.unwrap_or(usize::MAX);
            check_sequence(tokens, index, (1, most), self.vocabulary)?;
        }
        Ok(())
    }

    /// Returns the state after each prefix.
    ///
    /// # Errors
    /// As [`Self::fit`].
    pub fn start(&mut self, prefixes: Vec<Vec<TokenId>>) -> BackendResult<Vec<StateId>> {
        self.fit(&prefixes)?;
        let prefixes = prefixes.into_iter();
        Ok(prefixes.map(|prefix| self.kept.keep(prefix)).collect())
    }

    /// Returns the state after appending one token to each given state.
    ///
    /// # Errors
    /// Returns an error if a state is unknown; otherwise as [`Self::fit`].
    pub fn extend(&mut self, steps: &[(StateId, TokenId)]) -> BackendResult<Vec<StateId>> {
        let grown = steps
            .iter()
            .map(|&(state, token)| Ok([self.kept.get(state)?.as_slice(), &[token]].concat()));
        let grown = grown.collect::<BackendResult<_>>()?;
        self.start(grown)
    }

    /// Returns the prefixes of states after which the `wanted` tokens are asked for.
    ///
    /// # Errors
    /// Returns an error if a state is unknown or a token lies outside the vocabulary.
    pub fn prefixes(
        &self,
        states: &[StateId],
        wanted: &[TokenId],
    ) -> BackendResult<Vec<Vec<TokenId>>> {
        check_tokens(wanted, self.vocabulary)?;
        let states = states.iter();
        states.map(|&state| self.kept.get(state).cloned()).collect()
    }

    /// Releases states; unknown ones are ignored.
    pub fn release(&mut self, states: &[StateId]) {
        self.kept.release(states);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reticent_backends::Error;

    #[test]
    fn a_model_is_asked_only_what_it_knows() {
        let mut states = Prefixes::new(4, Some(2));
        let mut refused = |prefix: &[TokenId]| states.start(vec![vec![0], prefix.to_vec()]);
        assert!(matches!(
            refused(&[]),
            Err(Error::TooShort { index: 1, .. })
        ));
        assert!(matches!(refused(&[4]), Err(Error::UnknownToken { .. })));
        assert!(matches!(refused(&[0; 3]), Err(Error::TooLong { .. })));
        assert!(states.kept.get(StateId(0)).is_err());
        let first = states.start(vec![vec![0]]).unwrap();
        let second = states.extend(&[(first[0], 3)]).unwrap();
        assert_eq!(states.prefixes(&second, &[3]).unwrap(), [[0, 3]]);
        let [unknown, long] = [(first[0], 4), (second[0], 1)].map(|step| states.extend(&[step]));
        assert!(matches!(unknown, Err(Error::UnknownToken { .. })));
        assert!(matches!(long, Err(Error::TooLong { .. })));
        assert!(matches!(
            states.prefixes(&first, &[4]),
            Err(Error::UnknownToken { .. })
        ));
        states.release(&first);
        assert!(matches!(
            states.extend(&[(first[0], 1)]),
            Err(Error::UnknownState(_))
        ));
        assert_eq!(states.prefixes(&second, &[]).unwrap(), [[0, 3]]);
    }

    /// Four equal tokens in bf16, whose ln ¼ rounds up to -1.3828125: they sum to 1.0035.
    #[test]
    fn probabilities_of_one_place_are_at_most_one_together() {
        let row = |ln: f64, count: usize| vec![vec![ln; count]];
        let tokens: Vec<TokenId> = (0..512).collect();
        let checked =
            |ln, count: usize| next_log_probabilities(row(ln, count), 1, &tokens[..count], 600);
        assert_eq!(checked(-0.693, 2), Ok(row(-0.693, 2)));
        assert_eq!(checked(-1.382_812_5, 4), Ok(row(-1.382_812_5, 4)));
        assert_eq!(checked(1e-5, 1), Ok(row(0.0, 1)));
        for (ln, count, why) in [
            (
                -0.1,
                512,
                "answered log_probabilities[0] whose probabilities sum to 463; they must be at most 1 together",
            ),
            (
                0.5,
                1,
                "answered 0.5 at log_probabilities[0][0]; it must lie in [-inf, 0]",
            ),
        ] {
            assert_eq!(checked(ln, count).unwrap_err(), why);
        }
        let whole = next_log_probabilities(row(-0.7, 1), 1, &tokens[..1], 1);
        assert_eq!(
            whole.unwrap_err(),
            "answered log_probabilities[0] whose probabilities sum to 0.497; those of the whole vocabulary must be 1 together"
        );
    }

    /// 4 000 samples of 16 out of 64 with fixed seeds: each is kept 1 000 ± 137 times (5 σ; 64 counts, false alarms below
    /// 4e-5).
    #[test]
    fn each_question_is_kept_as_often_as_any_other() {
        let mut counts = [0; 64];
        for seed in 0..4000 {
            let mut sample = Sample::of(ChaCha20Rng::seed_from_u64(seed));
            (0..64).for_each(|i| sample.pass(|| i));
            assert_eq!(sample.kept.len(), KEPT);
            sample.kept.iter().for_each(|i: &usize| counts[*i] += 1);
        }
        for (i, count) in counts.into_iter().enumerate() {
            assert!(i32::abs(1000 - count) <= 137, "question {i}: {count}");
        }
    }

    #[test]
    fn answers_that_vary_are_refused() {
        let mut sample = NextSample::new().unwrap();
        let prefixes: Vec<Vec<TokenId>> = (0..20).map(|token| vec![token]).collect();
        sample.note(&prefixes, &[1, 2], &vec![vec![-1.0, f64::NEG_INFINITY]; 20]);
        let check = |value: f64| {
            sample.check("it differs:", |prefixes, _| {
                anyhow::Ok(vec![vec![value, f64::NEG_INFINITY]; prefixes.len()])
            })
        };
        check(-1.005).unwrap();
        let why = check(-1.5).unwrap_err().to_string();
        assert!(
            why.starts_with("it differs: ln p of a token is -1 at first and -1.5 at the end"),
            "{why}"
        );
    }
}

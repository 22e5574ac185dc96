//! Words ranked by the number of documents that contain them: the artificial secrets of the arXiv
//! protocol.

use super::pass;
use crate::error::{Result, range};
use crate::prepare::shown;
use crate::read::Documents;
use crate::split::units;
use crate::unit::Unit;
use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

/// Counts in how many units each word occurs. Memory grows with the number of distinct words.
///
/// A word is a run of letters and digits, with apostrophes and hyphens inside it, in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DocumentFrequencies {
    counts: HashMap<Box<str>, u64>,
    units: u64,
}

impl DocumentFrequencies {
    /// Counts every word once for each unit that contains it. `progress` is called with the number
    /// of bytes of the files that have been read; if it returns false, counting ends there.
    ///
    /// # Errors
    /// Returns the errors of [`Documents`], and an error if the number of threads is outside 1 to
    /// 1024.
    pub fn count(
        documents: &mut Documents,
        unit: Unit,
        threads: usize,
        mut progress: impl FnMut(u64) -> bool,
    ) -> Result<Self> {
        let mut out = Self::default();
        pass(
            documents,
            threads,
            |batch| {
                let mut here = Self::default();
                for read in batch {
                    for cut in units(&read.document, 0, unit)? {
                        here.enter(&shown(&cut));
                    }
                }
                Ok(here)
            },
            |here, read| {
                out.merge(here);
                Ok(progress(read))
            },
        )?;
        Ok(out)
    }

    /// Returns the words of a range of ranks, where the most frequent word has rank 1. Words of
    /// equal frequency are in alphabetical order. "Hush!" (section 5) uses 50001 to 150000.
    ///
    /// # Errors
    /// Returns an error if the range begins below 1 or ends before it begins, or its first rank is
    /// beyond the last word.
    pub fn ranked(&self, ranks: &RangeInclusive<usize>) -> Result<Vec<String>> {
        let (first, last) = (*ranks.start(), *ranks.end());
        let shown = format!("{first}-{last}");
        if first == 0 || last < first {
            return Err(range(
                "the ranks of words",
                shown,
                "from 1 up, the first no larger than the last",
            ));
        }
        if first > self.counts.len() {
            let all = self.counts.len();
            return Err(range(
                "the ranks of words",
                shown,
                format!("from 1 to {all}, the number of different words"),
            ));
        }
        let mut words: Vec<(&str, u64)> = self.counts.iter().map(|(w, n)| (&**w, *n)).collect();
        words.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        let chosen = words.into_iter().take(last).skip(first - 1);
        Ok(chosen.map(|(word, _)| word.to_owned()).collect())
    }

    /// Returns the number of units that contain a word.
    #[must_use]
    pub fn of(&self, word: &str) -> u64 {
        self.counts.get(word).copied().unwrap_or(0)
    }

    /// Returns the number of units.
    #[must_use]
    pub const fn units(&self) -> u64 {
        self.units
    }

    fn enter(&mut self, text: &str) {
        self.units += 1;
        let mut here = HashSet::new();
        for word in words(text) {
            if here.contains(word.as_str()) {
                continue;
            }
            *self.counts.entry(word.as_str().into()).or_default() += 1;
            here.insert(word);
        }
    }

    fn merge(&mut self, other: Self) {
        self.units += other.units;
        for (word, count) in other.counts {
            *self.counts.entry(word).or_default() += count;
        }
    }
}

/// Iterates over the words of a text, in order.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let joins = |c: char| c == '\'' || c == '-' || c == '’';
    text.split(move |c: char| !c.is_alphanumeric() && !joins(c))
        .map(move |run| run.trim_matches(joins))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::ReadOptions;

    #[test]
    fn words_are_runs_of_letters_and_digits() {
        let found: Vec<String> = words("Don't re-run -- Ångström's 3D, e.g. 'x'").collect();
        assert_eq!(
            found,
            ["don't", "re-run", "ångström's", "3d", "e", "g", "x"]
        );
    }

    /// Counted once for each unit, whatever the number of threads; ties by the alphabet.
    #[test]
    fn ranks_follow_the_number_of_documents() {
        let text = "a a a b\n\na b c\n\nB c\n\nd\n";
        for threads in [1, 3] {
            let mut documents =
                Documents::from_bytes("x.txt".as_ref(), text.into(), &ReadOptions::default());
            let counts =
                DocumentFrequencies::count(&mut documents, Unit::Document, threads, |_| true)
                    .unwrap();
            assert_eq!(counts.units(), 4);
            assert_eq!([counts.of("a"), counts.of("b"), counts.of("d")], [2, 3, 1]);
            assert_eq!(counts.ranked(&(1..=9)).unwrap(), ["b", "a", "c", "d"]);
            assert_eq!(counts.ranked(&(2..=3)).unwrap(), ["a", "c"]);
            assert!(counts.ranked(&(0..=3)).is_err());
            let error = counts.ranked(&(5..=6)).unwrap_err().to_string();
            assert!(
                error.contains("from 1 to 4, the number of different words"),
                "{error}"
            );
        }
    }
}

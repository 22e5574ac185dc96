//! Encodes the words of a token classifier as bytes, as its worker sends them.

use super::labels::Said;
use super::model::Word;
use crate::worker::wrong;
use std::io::Result;

/// The size of a word in bytes.
pub(super) const WORD: usize = 25;
/// Marks a word without a kind.
const NO_KIND: u32 = u32::MAX;

/// Encodes words as bytes.
pub(super) fn words(words: &[Word]) -> Vec<u8> {
    let mut out = Vec::with_capacity(words.len() * WORD);
    for Word { range, said } in words {
        let kind = said.kind.and_then(|kind| u32::try_from(kind).ok());
        out.extend((range.start as u64).to_le_bytes());
        out.extend((range.end as u64).to_le_bytes());
        out.extend(said.score.to_le_bytes());
        out.extend(kind.unwrap_or(NO_KIND).to_le_bytes());
        out.push(u8::from(said.begins) | u8::from(said.ends) << 1);
    }
    out
}

/// Decodes the bytes of [`words`]. Words must lie in the text, in order, and on character
/// boundaries.
pub(super) fn words_of(text: &str, bytes: &[u8]) -> Result<Vec<Word>> {
    let (words, rest) = bytes.as_chunks::<WORD>();
    if !rest.is_empty() {
        return Err(wrong());
    }
    let mut last = 0;
    words
        .iter()
        .map(|word| {
            let place = |at: usize| {
                let mut number = [0; 8];
                number.copy_from_slice(&word[at..at + 8]);
                usize::try_from(u64::from_le_bytes(number)).map_err(|_| wrong())
            };
            let four = |at: usize| [word[at], word[at + 1], word[at + 2], word[at + 3]];
            let (start, end) = (place(0)?, place(8)?);
            let score = f32::from_le_bytes(four(16));
            let kind = u32::from_le_bytes(four(20));
            let fits = last <= start && start < end && text.get(start..end).is_some();
            if !fits || !(0.0..=1.0).contains(&score) {
                return Err(wrong());
            }
            last = end;
            Ok(Word {
                range: start..end,
                said: Said {
                    score,
                    kind: (kind != NO_KIND).then_some(kind as usize),
                    begins: word[24] & 1 != 0,
                    ends: word[24] & 2 != 0,
                },
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_as_they_were_sent() {
        let said = |score, kind, begins, ends| Said {
            score,
            kind,
            begins,
            ends,
        };
        let text = "Ada é King";
        let all = vec![
            Word {
                range: 0..3,
                said: said(0.25, Some(1), true, false),
            },
            Word {
                range: 4..6,
                said: said(1.0, None, true, true),
            },
        ];
        assert_eq!(words_of(text, &words(&all)).unwrap(), all);
    }

    #[test]
    fn words_out_of_order_are_an_error() {
        let word = |range| {
            let said = Said {
                score: 0.5,
                kind: None,
                begins: false,
                ends: false,
            };
            Word { range, said }
        };
        let alone = [0..9, 3..3, 1..3].map(|range| vec![range]);
        for ranges in alone.into_iter().chain([vec![0..2, 0..2]]) {
            let all: Vec<Word> = ranges.into_iter().map(word).collect();
            assert!(words_of("é King", &words(&all)).is_err(), "{all:?}");
        }
        assert!(words_of("Ada", &[0; 7]).is_err());
    }
}

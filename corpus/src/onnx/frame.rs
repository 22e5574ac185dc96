//! What goes between a program and the worker of its token classifier: byte strings with their lengths before them.

use super::labels::Said;
use super::model::{Refusal, Word};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::sync::Arc;

/// Bytes of a word.
pub(super) const WORD: usize = 25;
/// A word without a kind.
const NO_KIND: u32 = u32::MAX;

/// Writes one byte string.
pub(super) fn write(out: &mut impl Write, bytes: &[u8]) -> Result<()> {
    out.write_all(&(bytes.len() as u64).to_le_bytes())?;
    out.write_all(bytes)?;
    out.flush()
}

/// Reads one byte string of at most so many bytes; none where the other side is gone.
pub(super) fn read(input: &mut impl Read, most: u64) -> Result<Option<Vec<u8>>> {
    let mut length = [0; 8];
    match input.read_exact(&mut length) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u64::from_le_bytes(length);
    if length > most {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    input.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == length {
        Ok(Some(bytes))
    } else {
        Ok(None)
    }
}

/// What a worker answers: an answer, or why there is none.
pub(super) fn answer(outcome: std::result::Result<Vec<u8>, Refusal>) -> Vec<u8> {
    match outcome {
        Ok(mut bytes) => {
            bytes.push(0);
            bytes
        }
        Err(Refusal { file, problem }) => {
            let mut bytes = problem.into_bytes();
            // At most two files beside the model.
            bytes.push(1 + u8::try_from(file).unwrap_or(0));
            bytes
        }
    }
}

/// The reverse of [`answer`]; an answer that is none is an error of the stream.
pub(super) fn answered(mut bytes: Vec<u8>) -> Result<std::result::Result<Vec<u8>, Refusal>> {
    match bytes.pop() {
        Some(0) => Ok(Ok(bytes)),
        Some(file @ 1..=3) => Ok(Err(Refusal {
            file: usize::from(file) - 1,
            problem: String::from_utf8_lossy(&bytes).into_owned(),
        })),
        _ => Err(wrong()),
    }
}

/// What is first said of a model: what the worker is not kept from, and the kinds of its labels.
pub(super) fn introduction(unconfined: Option<&str>, kinds: &[Arc<str>]) -> Vec<u8> {
    let mut out = Vec::new();
    // Writing to memory does not fail.
    let _ = write(&mut out, unconfined.unwrap_or_default().as_bytes());
    for kind in kinds {
        let _ = write(&mut out, kind.as_bytes());
    }
    out
}

/// The reverse of [`introduction`].
pub(super) fn introduced(bytes: &[u8]) -> Result<(Option<String>, Vec<Arc<str>>)> {
    let mut rest = bytes;
    let mut strings = Vec::new();
    while !rest.is_empty() {
        let bytes = read(&mut rest, u64::MAX)?.ok_or_else(wrong)?;
        strings.push(String::from_utf8(bytes).map_err(|_| wrong())?);
    }
    let mut strings = strings.into_iter();
    let unconfined = strings.next().ok_or_else(wrong)?;
    let unconfined = (!unconfined.is_empty()).then_some(unconfined);
    Ok((unconfined, strings.map(Arc::from).collect()))
}

/// Words as bytes.
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

/// The reverse of [`words`]: words that lie in the text, in order, at its characters' boundaries.
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

fn wrong() -> Error {
    Error::new(ErrorKind::InvalidData, "the worker answers out of order")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_comes_back_as_it_was_sent() {
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
        let kinds: Vec<Arc<str>> = vec!["person".into(), "loc".into()];
        for why in [None, Some("no filter")] {
            let (unconfined, same) = introduced(&introduction(why, &kinds)).unwrap();
            assert_eq!((unconfined.as_deref(), same), (why, kinds.clone()));
        }
        let ok = answered(answer(Ok(b"yes".to_vec()))).unwrap();
        assert_eq!(ok.unwrap(), b"yes");
        let problem = "no".to_owned();
        let no = answered(answer(Err(Refusal { file: 2, problem }))).unwrap();
        let no = no.unwrap_err();
        assert_eq!((no.file, no.problem.as_str()), (2, "no"));
    }

    #[test]
    fn an_answer_out_of_order_is_an_error() {
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
        assert!(answered(Vec::new()).is_err() && answered(vec![9]).is_err());
        assert!(introduced(&[]).is_err() && introduced(&[1]).is_err());
        assert!(read(&mut &[255; 9][..], 8).is_err());
    }
}

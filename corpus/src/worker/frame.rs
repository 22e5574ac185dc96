//! The protocol between a program and its worker: byte strings, each preceded by its length.

use super::Refusal;
use std::io::{Error, ErrorKind, Read, Result, Write};

/// Writes one byte string.
pub(super) fn write(out: &mut impl Write, bytes: &[u8]) -> Result<()> {
    out.write_all(&(bytes.len() as u64).to_le_bytes())?;
    out.write_all(bytes)?;
    out.flush()
}

/// Reads one byte string of at most `most` bytes; returns `None` if the other side has ended.
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

/// Encodes a worker's answer, or the reason why there is none.
pub(super) fn answer(outcome: std::result::Result<Vec<u8>, Refusal>) -> Vec<u8> {
    match outcome {
        Ok(mut bytes) => {
            bytes.push(0);
            bytes
        }
        Err(Refusal { file, problem }) => {
            let mut bytes = problem.into_bytes();
            // There are only a few files.
            bytes.push(1 + u8::try_from(file).unwrap_or(0));
            bytes
        }
    }
}

/// Decodes the bytes of [`answer`] for work with `files` files. An invalid answer is an error of the stream.
pub(super) fn answered(
    mut bytes: Vec<u8>,
    files: usize,
) -> Result<std::result::Result<Vec<u8>, Refusal>> {
    match bytes.pop() {
        Some(0) => Ok(Ok(bytes)),
        Some(file) if usize::from(file) <= files => Ok(Err(Refusal {
            file: usize::from(file) - 1,
            problem: String::from_utf8_lossy(&bytes).into_owned(),
        })),
        _ => Err(wrong()),
    }
}

/// Encodes a worker's first message: which limits could not be imposed, and what its work reports about itself.
pub(super) fn introduction(unconfined: Option<&str>, about: &[String]) -> Vec<u8> {
    let mut out = Vec::new();
    // Writing to memory cannot fail.
    let _ = write(&mut out, unconfined.unwrap_or_default().as_bytes());
    for one in about {
        let _ = write(&mut out, one.as_bytes());
    }
    out
}

/// Decodes the bytes of [`introduction`].
pub(super) fn introduced(bytes: &[u8]) -> Result<(Option<String>, Vec<String>)> {
    let mut rest = bytes;
    let mut strings = Vec::new();
    while !rest.is_empty() {
        let bytes = read(&mut rest, u64::MAX)?.ok_or_else(wrong)?;
        strings.push(String::from_utf8(bytes).map_err(|_| wrong())?);
    }
    let mut strings = strings.into_iter();
    let unconfined = strings.next().ok_or_else(wrong)?;
    let unconfined = (!unconfined.is_empty()).then_some(unconfined);
    Ok((unconfined, strings.collect()))
}

pub(crate) fn wrong() -> Error {
    Error::new(ErrorKind::InvalidData, "the worker answers out of order")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_comes_back_as_it_was_sent() {
        let about = vec!["person".to_owned(), "loc".to_owned()];
        for why in [None, Some("no filter")] {
            let (unconfined, same) = introduced(&introduction(why, &about)).unwrap();
            assert_eq!((unconfined.as_deref(), same), (why, about.clone()));
        }
        let ok = answered(answer(Ok(b"yes".to_vec())), 3).unwrap();
        assert_eq!(ok.unwrap(), b"yes");
        let problem = "no".to_owned();
        let no = answered(answer(Err(Refusal { file: 2, problem })), 3).unwrap();
        let no = no.unwrap_err();
        assert_eq!((no.file, no.problem.as_str()), (2, "no"));
    }

    #[test]
    fn an_answer_out_of_order_is_an_error() {
        assert!(answered(Vec::new(), 3).is_err() && answered(vec![4], 3).is_err());
        assert!(introduced(&[]).is_err() && introduced(&[1]).is_err());
        assert!(read(&mut &[255; 9][..], 8).is_err());
    }
}

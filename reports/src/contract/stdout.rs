//! Data on stdout; a reader that stops early is no error.

use std::io::{ErrorKind, Write};

/// Writes a text to stdout, ending it with a newline if it has none.
///
/// A broken pipe (`account … | head -1`) counts as success: the reader has what it wanted.
///
/// # Errors
/// Any other trouble of the stream, a full disk for instance.
pub fn print(text: &str) -> std::io::Result<()> {
    write_to(&mut std::io::stdout().lock(), text)
}

fn write_to(out: &mut impl Write, text: &str) -> std::io::Result<()> {
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    let written = out
        .write_all(text.as_bytes())
        .and_then(|()| out.write_all(newline.as_bytes()))
        .and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Closed(ErrorKind);
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_pipe_is_success_and_a_full_disk_is_not() {
        assert!(write_to(&mut Closed(ErrorKind::BrokenPipe), "x").is_ok());
        assert!(write_to(&mut Closed(ErrorKind::StorageFull), "x").is_err());
    }

    #[test]
    fn a_text_ends_with_exactly_one_newline() {
        for text in ["a", "a\n"] {
            let mut out = Vec::new();
            write_to(&mut out, text).unwrap();
            assert_eq!(out, b"a\n");
        }
    }
}

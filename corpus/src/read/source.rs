//! Files as streams of bytes, decompressed while they are read.

use crate::error::{Error, Result};
use flate2::bufread::GzDecoder;
use ruzstd::decoding::StreamingDecoder;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A stream of bytes.
pub(super) type Source = Box<dyn BufRead + Send>;

/// Compressed data may unpack to at most this many times its size …
pub(super) const GROWTH: u64 = 250;
/// … plus this many bytes: 64 MiB.
pub(super) const SLACK: u64 = 64 << 20;

/// Returns the content of a file, and whether it is compressed. Gzip and Zstandard are recognised by their first bytes,
/// whatever the name. Every byte read is added to `all`.
pub(super) fn unpacked(
    path: &Path,
    file: Box<dyn Read + Send>,
    all: Arc<AtomicU64>,
) -> Result<(Source, bool)> {
    let read = Arc::new(AtomicU64::new(0));
    let mut raw = BufReader::with_capacity(
        1 << 16,
        Counted {
            inner: file,
            read: read.clone(),
            all,
        },
    );
    let head = raw.fill_buf().map_err(Error::reading(path))?;
    let guarded = |inner: Box<dyn Read + Send>, name| -> Source {
        Box::new(BufReader::with_capacity(
            1 << 16,
            Guarded {
                inner,
                name,
                read: read.clone(),
                written: 0,
            },
        ))
    };
    if head.starts_with(&[0x1f, 0x8b]) {
        let inner = Box::new(Members {
            open: Some(GzDecoder::new(raw)),
        });
        return Ok((guarded(inner, "gzip"), true));
    }
    if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) || skippable(head) {
        let inner = Box::new(Frames {
            state: State::Between(raw),
        });
        return Ok((guarded(inner, "zstd"), true));
    }
    if let Some(name) = other_compression(path, head) {
        let problem = format!("the file is compressed ({name}); unpack it first");
        return Err(Error::line(path, 1, problem));
    }
    // The magic, and the first field of the header of a page.
    if head.starts_with(b"PAR1\x15") {
        let problem = "the file is Parquet; give it by a name that ends in .parquet, as a stream has no end to look at first";
        return Err(Error::line(path, 1, problem));
    }
    Ok((Box::new(raw), false))
}

/// Returns the name of a compression that is not read. Brotli has no bytes of its own at the beginning, so that only the name
/// of the file shows it.
fn other_compression(path: &Path, head: &[u8]) -> Option<&'static str> {
    const BEGINNINGS: [(&[u8], &str); 4] = [
        (b"PK\x03\x04", "zip"),
        (b"\xfd7zXZ\0", "xz"),
        (b"\x04\x22\x4d\x18", "lz4"),
        (b"7z\xbc\xaf\x27\x1c", "7z"),
    ];
    let begins = |(bytes, _): &&(&[u8], _)| head.starts_with(bytes);
    if let Some((_, name)) = BEGINNINGS.iter().find(begins) {
        return Some(name);
    }
    // Behind the size of a block comes π.
    if head.starts_with(b"BZh") && head.get(4..10) == Some(b"1AY&SY") {
        return Some("bzip2");
    }
    let ending = path.extension()?;
    ending.eq_ignore_ascii_case("br").then_some("brotli")
}

/// Returns whether the data starts with a skippable frame of Zstandard, which contains user data.
fn skippable(head: &[u8]) -> bool {
    matches!(head, [first, 0x2a, 0x4d, 0x18, ..] if first & 0xf0 == 0x50)
}

/// Counts the bytes read from the file.
struct Counted {
    inner: Box<dyn Read + Send>,
    read: Arc<AtomicU64>,
    all: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        self.all.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// Stops if compressed data unpacks to disproportionately many bytes, and reports where it is damaged.
struct Guarded {
    inner: Box<dyn Read + Send>,
    name: &'static str,
    read: Arc<AtomicU64>,
    written: u64,
}

impl Read for Guarded {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer);
        let at = self.read.load(Ordering::Relaxed);
        let name = self.name;
        let count = count.map_err(|error| {
            let problem = match error.kind() {
                std::io::ErrorKind::UnexpectedEof => "ends too early".to_owned(),
                _ => format!("is damaged ({error})"),
            };
            std::io::Error::other(format!(
                "the {name} data {problem}, within the first {at} bytes of the file"
            ))
        })?;
        self.written += count as u64;
        if self.written > GROWTH.saturating_mul(at).saturating_add(SLACK) {
            return Err(std::io::Error::other(format!(
                "the first {at} bytes of {name} data unpack to more than {} bytes; at most {GROWTH} times as many and {SLACK} are read (decompress the file yourself if it is sound)",
                self.written
            )));
        }
        Ok(count)
    }
}

type Raw = BufReader<Counted>;

/// Consecutive gzip members, followed by nothing else.
struct Members {
    open: Option<GzDecoder<Raw>>,
}

impl Read for Members {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while let Some(decoder) = &mut self.open {
            let count = decoder.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            let Some(mut raw) = self.open.take().map(GzDecoder::into_inner) else {
                break;
            };
            match raw.fill_buf()?.first() {
                None => break,
                Some(0x1f) => self.open = Some(GzDecoder::new(raw)),
                Some(_) => return Err(std::io::Error::other("other bytes follow its end")),
            }
        }
        Ok(0)
    }
}

/// Consecutive Zstandard frames.
struct Frames {
    state: State,
}

enum State {
    Between(Raw),
    Inside(Box<StreamingDecoder<Raw, ruzstd::decoding::FrameDecoder>>),
    Gone,
}

impl Read for Frames {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            match std::mem::replace(&mut self.state, State::Gone) {
                State::Gone => return Ok(0),
                State::Between(mut raw) => {
                    if raw.fill_buf()?.is_empty() {
                        return Ok(0);
                    }
                    if skipped(&mut raw)? {
                        self.state = State::Between(raw);
                        continue;
                    }
                    let decoder = StreamingDecoder::new(raw).map_err(|error| undecoded(&error))?;
                    self.state = State::Inside(Box::new(decoder));
                }
                State::Inside(mut decoder) => {
                    let count = decoder.read(buffer).map_err(|error| undecoded(&error))?;
                    if count > 0 || buffer.is_empty() {
                        self.state = State::Inside(decoder);
                        return Ok(count);
                    }
                    checked(&decoder)?;
                    self.state = State::Between(decoder.into_inner());
                }
            }
        }
    }
}

/// Rewords errors of the decoder, which describe its own code.
fn undecoded(error: &dyn std::error::Error) -> std::io::Error {
    match format!("{error:?} {error}").contains("UnexpectedEof") {
        true => std::io::ErrorKind::UnexpectedEof.into(),
        false => std::io::Error::other("it cannot be decoded"),
    }
}

/// Verifies the checksum of a frame that has one.
fn checked(decoder: &StreamingDecoder<Raw, ruzstd::decoding::FrameDecoder>) -> std::io::Result<()> {
    let stored = decoder.decoder.get_checksum_from_data();
    match (stored, decoder.decoder.get_calculated_checksum()) {
        (Some(stored), Some(found)) if stored != found => Err(std::io::Error::other(format!(
            "its checksum is {found:08x}, not {stored:08x}"
        ))),
        _ => Ok(()),
    }
}

/// Skips a skippable frame, if there is one.
fn skipped(raw: &mut Raw) -> std::io::Result<bool> {
    if !skippable(raw.fill_buf()?) {
        return Ok(false);
    }
    let mut header = [0u8; 8];
    raw.read_exact(&mut header)?;
    let length = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
    let went = std::io::copy(&mut raw.take(u64::from(length)), &mut std::io::sink())?;
    if went < u64::from(length) {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(true)
}

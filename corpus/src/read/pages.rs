//! Checks the pages of a Parquet file before a library unpacks them: the library allocates the size that a page's
//! header declares, and gzip would unpack beyond that.

use super::source::{GROWTH, SLACK};
use parquet::basic::Compression;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::ChunkReader;
use std::io::{BufReader, Read};

/// The longest header that is read; it contains the bounds of long texts.
const HEADER: u64 = 16 << 20;
/// The deepest nesting of structures within a header.
const DEEPEST: u32 = 8;

/// Checks that no page of a column chunk declares, or unpacks to, more than its allowed size. Returns the number of
/// values that the pages declare; each element of a list counts as one.
pub(super) fn checked<R: ChunkReader>(
    file: &R,
    column: &ColumnChunkMetaData,
) -> Result<u64, String> {
    let mut values = 0u64;
    let wrong = |problem: String| format!("column {}: {problem}", column.column_path());
    let (mut at, length) = column.byte_range();
    let end = at.saturating_add(length);
    let gzip = matches!(column.compression(), Compression::GZIP(_));
    while at < end {
        let read = file.get_read(at).map_err(|e| wrong(e.to_string()))?;
        let mut read = Counted {
            inner: BufReader::new(read.take(HEADER.min(end - at))),
            count: 0,
        };
        let header = header(&mut read).map_err(|e| wrong(format!("page at byte {at}: {e}")))?;
        values = values.saturating_add(header.values);
        let from = at + read.count;
        let page = |problem: String| wrong(format!("page at byte {at}: {problem}"));
        let most = GROWTH.saturating_mul(header.packed).saturating_add(SLACK);
        if header.unpacked > most {
            return Err(page(format!(
                "its {} bytes say they unpack to {}; at most {GROWTH} times as many and {SLACK} are read",
                header.packed, header.unpacked
            )));
        }
        if gzip {
            let bytes = file.get_read(from).map_err(|e| wrong(e.to_string()))?;
            let bytes = bytes.take(header.packed);
            if !fits(bytes, &header) {
                return Err(page(format!(
                    "its gzip data unpacks to more than the {} bytes it says",
                    header.unpacked
                )));
            }
        }
        at = from.saturating_add(header.packed);
    }
    Ok(values)
}

/// Returns whether gzip data unpacks to no more than its header declares. In a page of version 2, the levels at the
/// beginning are not compressed. Damaged data is left for the library to reject.
fn fits(mut bytes: impl Read, header: &Header) -> bool {
    let levels = header.levels.min(header.unpacked);
    let skipped = std::io::copy(&mut (&mut bytes).take(levels), &mut std::io::sink());
    if skipped.is_err() {
        return true;
    }
    let most = header.unpacked - levels;
    let unpacked = flate2::read::MultiGzDecoder::new(BufReader::new(bytes));
    let copied = std::io::copy(&mut unpacked.take(most + 1), &mut std::io::sink());
    copied.map_or(true, |count| count <= most)
}

/// The relevant fields of a page's header.
#[derive(Debug, Default, PartialEq)]
struct Header {
    unpacked: u64,
    packed: u64,
    levels: u64,
    /// The number of values in a data page; a dictionary page has none.
    values: u64,
}

/// Reads a page's header in Thrift's compact protocol: fields 2, 3, 1 within 5 and 8, and 5 and 6 within 8.
fn header(read: &mut impl Read) -> Result<Header, String> {
    let mut out = Header::default();
    let mut sizes = [None, None];
    fields(read, DEEPEST, &mut Vec::new(), &mut |path, value| {
        let size = u64::try_from(value).map_err(|_| format!("a size of {value}"));
        match path {
            [2] => sizes[0] = Some(size?),
            [3] => sizes[1] = Some(size?),
            [5 | 8, 1] => out.values = size?,
            [8, 5 | 6] => out.levels = out.levels.saturating_add(size?),
            _ => {}
        }
        Ok(())
    })?;
    let [Some(unpacked), Some(packed)] = sizes else {
        return Err("its header names no size".to_owned());
    };
    Ok(Header {
        unpacked,
        packed,
        ..out
    })
}

type Visit<'a> = dyn FnMut(&[i64], i64) -> Result<(), String> + 'a;

/// Reads a structure and passes its integers with the path of their field, two levels deep, to `visit`.
fn fields(
    read: &mut impl Read,
    depth: u32,
    path: &mut Vec<i64>,
    visit: &mut Visit<'_>,
) -> Result<(), String> {
    let mut last = 0i64;
    loop {
        let head = byte(read)?;
        if head == 0 {
            return Ok(());
        }
        last = match head >> 4 {
            0 => zigzag(varint(read)?),
            step => last.saturating_add(i64::from(step)),
        };
        path.push(last);
        value(read, head & 0xf, depth, path, visit)?;
        path.pop();
    }
}

/// Reads one value of a type of the compact protocol.
fn value(
    read: &mut impl Read,
    kind: u8,
    depth: u32,
    path: &mut Vec<i64>,
    visit: &mut Visit<'_>,
) -> Result<(), String> {
    let Some(below) = depth.checked_sub(1) else {
        return Err("its header is nested too deeply".to_owned());
    };
    match kind {
        // A field's type includes its boolean value.
        1 | 2 => Ok(()),
        3 => skip(read, 1),
        4..=6 => visit(path, zigzag(varint(read)?)),
        7 => skip(read, 8),
        8 => {
            let length = varint(read)?;
            skip(read, length)
        }
        9 | 10 => {
            let head = byte(read)?;
            let count = match head >> 4 {
                15 => varint(read)?,
                few => u64::from(few),
            };
            for _ in 0..count {
                // In a list, a boolean is one byte.
                match head & 0xf {
                    1 | 2 => skip(read, 1)?,
                    kind => value(read, kind, below, path, &mut |_, _| Ok(()))?,
                }
            }
            Ok(())
        }
        12 => fields(read, below, path, visit),
        other => Err(format!("its header has a field of type {other}")),
    }
}

fn byte(read: &mut impl Read) -> Result<u8, String> {
    let mut one = [0];
    read.read_exact(&mut one).map_err(short)?;
    Ok(one[0])
}

fn skip(read: &mut impl Read, length: u64) -> Result<(), String> {
    let went =
        std::io::copy(&mut read.take(length), &mut std::io::sink()).map_err(|e| e.to_string())?;
    if went < length {
        return Err(short(std::io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(())
}

fn short(error: std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "its header ends too early".to_owned(),
        _ => error.to_string(),
    }
}

fn varint(read: &mut impl Read) -> Result<u64, String> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let next = byte(read)?;
        value |= u64::from(next & 0x7f) << shift;
        if next & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("its header has a number beyond 64 bits".to_owned())
}

fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Counts the bytes taken from a buffer that may have read ahead.
struct Counted<R> {
    inner: R,
    count: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.count += count as u64;
        Ok(count)
    }
}

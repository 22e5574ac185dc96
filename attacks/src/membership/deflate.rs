//! The length of a text under zlib, by one named engine.

/// What compresses: engines differ by bytes on long texts, so a score names its own.
pub const DEFLATE_ENGINE: &str = "miniz_oxide 0.9, level 6, zlib header";

/// What zlib's format adds around a block: two bytes of header, four of checksum.
const FRAME: usize = 6;
/// What a stored block adds to its text.
const STORED: usize = 5;

/// Bytes of the text in zlib's format at level 6.
///
/// The engine stores a short text as it is where its code does not shorten it; zlib still
/// prefers a fixed code that is shorter than the stored block, and so does this.
///
/// ```
/// use reticent_attacks::zlib_bytes;
/// assert_eq!(zlib_bytes("My ID is 341752."), 24);
/// assert_eq!(zlib_bytes("The quick brown fox jumps over the lazy dog."), 51);
/// ```
#[must_use]
pub fn zlib_bytes(text: &str) -> usize {
    let text = text.as_bytes();
    let bytes = miniz_oxide::deflate::compress_to_vec_zlib(text, 6).len();
    if bytes < text.len() + STORED + FRAME || text.len() >= 1 << 15 {
        return bytes;
    }
    bytes.min(fixed_code_bits(text).div_ceil(8) + FRAME)
}

/// Bits of one block in the fixed code: a header of three, an end of seven, the longest match
/// at each place unless the next place has a longer one.
fn fixed_code_bits(text: &[u8]) -> usize {
    let literal = |byte: u8| if byte < 144 { 8 } else { 9 };
    let (mut bits, mut at) = (3 + 7, 0);
    while at < text.len() {
        let (length, distance) = longest_match(text, at);
        let better_next = at + 1 < text.len() && longest_match(text, at + 1).0 > length;
        if length < 3 || better_next {
            bits += literal(text[at]);
            at += 1;
        } else {
            bits += length_bits(length) + distance_bits(distance);
            at += length;
        }
    }
    bits
}

/// The longest earlier run that goes on like the text here, the nearest of equals.
fn longest_match(text: &[u8], at: usize) -> (usize, usize) {
    let mut best = (0, 0);
    for from in (0..at).rev() {
        let run = text[from..].iter().zip(&text[at..]).take(258);
        let length = run.take_while(|(a, b)| a == b).count();
        if length > best.0 {
            best = (length, at - from);
        }
    }
    best
}

/// Bits of a length code and its extra bits (RFC 1951, 3.2.5).
fn length_bits(length: usize) -> usize {
    let extra = match length {
        3..=10 | 258 => 0,
        _ => (length - 3).ilog2() as usize - 2,
    };
    extra + if length >= 115 { 8 } else { 7 }
}

/// Bits of a distance code and its extra bits.
fn distance_bits(distance: usize) -> usize {
    let extra = match distance {
        1..=4 => 0,
        _ => (distance - 1).ilog2() as usize - 1,
    };
    extra + 5
}

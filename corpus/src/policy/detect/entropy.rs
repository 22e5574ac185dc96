//! Finds keys without a known prefix: long tokens that look random.

use std::ops::Range;

/// The shortest token that is considered, in characters.
const SHORTEST: usize = 20;
/// Wherever such a token begins, one of the blocks that a text is cut into lies inside it.
const BLOCK: usize = 8;
const _: () = assert!(2 * BLOCK - 1 <= SHORTEST);

/// Whether a token may contain a byte.
static INSIDE: [bool; 256] = {
    let mut out = [false; 256];
    let mut byte = 0u8;
    while byte < 128 {
        let mark = matches!(byte, b'+' | b'/' | b'_' | b'=' | b'-');
        out[byte as usize] = byte.is_ascii_alphanumeric() || mark;
        byte += 1;
    }
    out
};

/// Finds long tokens of letters, digits and `+/_=-` that look random, with a score.
pub(super) fn keys(text: &str, mut found: impl FnMut(Range<usize>, f32)) {
    let bytes = text.as_bytes();
    let inside = |byte: &u8| INSIDE[usize::from(*byte)];
    // The end of the last token.
    let mut done = 0;
    for (number, block) in bytes.as_chunks::<BLOCK>().0.iter().enumerate() {
        let at = number * BLOCK;
        if at < done || breaks(*block) || !block.iter().all(inside) {
            continue;
        }
        let before = bytes[done..at].iter().rev();
        let start = at - before.take_while(|byte| inside(byte)).count();
        let behind = bytes[at..].iter();
        done = at + behind.take_while(|byte| inside(byte)).count();
        if done - start >= SHORTEST
            && let Some(score) = random(&bytes[start..done])
        {
            found(start..done, score);
        }
    }
}

/// Returns whether one of the bytes is below `+`, the first that a token may contain, or not ASCII: with all of them at once,
/// as most blocks hold a space.
fn breaks(block: [u8; BLOCK]) -> bool {
    let bytes = u64::from_ne_bytes(block);
    let below = bytes.wrapping_sub(u64::from_ne_bytes([b'+'; BLOCK]));
    (below | bytes) & u64::from_ne_bytes([0x80; BLOCK]) != 0
}

/// Returns a score. Entropy per character and the mixture of character classes distinguish keys
/// from words joined by dashes.
fn random(token: &[u8]) -> Option<f32> {
    let (mut digits, mut letters, mut upper) = (0usize, 0usize, 0usize);
    let mut counts = [0u32; 256];
    let mut hex = true;
    for &b in token {
        digits += usize::from(b.is_ascii_digit());
        letters += usize::from(b.is_ascii_alphabetic());
        upper += usize::from(b.is_ascii_uppercase());
        hex &= b.is_ascii_hexdigit() || b == b'-';
        counts[usize::from(b)] += 1;
    }
    if digits < 2 || letters < 2 {
        return None;
    }
    let n = token.len() as f64;
    let entropy: f64 = counts
        .iter()
        .filter(|c| **c > 0)
        .map(|&c| {
            let p = f64::from(c) / n;
            -p * p.log2()
        })
        .sum();
    // The sixteen hexadecimal digits have at most four bits of entropy, so the threshold is lower.
    let mixed = upper > 0 && upper < letters;
    match (hex, entropy) {
        (true, e) if e >= 3.0 => Some(0.7),
        (false, e) if e >= 4.0 && mixed => Some(0.8),
        (false, e) if e >= 3.7 => Some(0.6),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        let mut out = Vec::new();
        keys(text, |range, _| out.push(&text[range]));
        out
    }

    /// Every place of a key in a text, so that no stride steps over one.
    #[test]
    fn keys_are_found_whole_at_every_offset() {
        let key = "aZ3k9Qw7Lm2Xc8Vb5N4d";
        for before in 0..45 {
            let text = format!("{} {key}, {}", "x ".repeat(before), "y".repeat(before % 7));
            assert_eq!(found(&text), [key], "{text}");
            let text = format!("{}{key}", " ".repeat(before));
            assert_eq!(found(&text), [key], "{text}");
        }
    }

    /// Of every byte at every place, among the least and the largest that a token may contain.
    #[test]
    fn blocks_are_broken_by_what_is_in_no_token() {
        for byte in 0..=u8::MAX {
            for at in 0..BLOCK {
                for others in [b'+', b'z'] {
                    let mut block = [others; BLOCK];
                    block[at] = byte;
                    assert_eq!(breaks(block), !(b'+'..0x80).contains(&byte), "{block:?}");
                }
            }
            assert!(!(INSIDE[usize::from(byte)] && breaks([byte; BLOCK])));
        }
    }

    /// As all tokens in turn are judged.
    #[test]
    fn no_key_is_stepped_over() {
        let pieces = [
            "aZ3k9Qw7", "Lm2X", "c8", "b", "Vb5N4d", "hT6", "+/_=-", "Rf0", " ", ".", "~", "@",
            "\u{e9}", "\u{200b}",
        ];
        let mut draw = crate::draws(11);
        let mut keys = 0;
        for _ in 0..4000 {
            let text: String = (0..draw(24)).map(|_| pieces[draw(pieces.len())]).collect();
            let tokens = text.split(|c: char| !(c.is_ascii_alphanumeric() || "+/_=-".contains(c)));
            let is_key =
                |token: &&str| token.len() >= SHORTEST && random(token.as_bytes()).is_some();
            let expected: Vec<&str> = tokens.filter(is_key).collect();
            assert_eq!(found(&text), expected, "{text:?}");
            keys += expected.len();
        }
        assert!(keys > 100, "{keys}");
    }

    #[test]
    fn long_words_and_dashes_are_no_keys() {
        for text in [
            "internationalisation-of-the-document",
            "11111111111111111111111111111111",
            "======================",
            "aaaaaaaaaaaaaaaaaaaa11",
        ] {
            assert_eq!(found(text), Vec::<&str>::new(), "{text}");
        }
        assert_eq!(found("id 9f86d081884c7d659a2feaa0c55ad015 end").len(), 1);
    }
}

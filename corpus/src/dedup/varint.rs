//! Encodes tokens as bytes: groups of seven bits, the lowest first.

use crate::record::TokenId;

/// Set in every byte except the last one of a token.
const MORE: u8 = 0x80;

/// Appends encoded tokens to `out`.
pub(crate) fn encode(tokens: &[TokenId], out: &mut Vec<u8>) {
    let any = tokens.iter().fold(0, |any, token| any | token);
    if any < TokenId::from(MORE) {
        out.extend(tokens.iter().map(|token| *token as u8));
        return;
    }
    for &token in tokens {
        let mut rest = token;
        while rest >= TokenId::from(MORE) {
            out.push(rest as u8 | MORE);
            rest >>= 7;
        }
        out.push(rest as u8);
    }
}

/// Decodes bytes and appends the tokens to `out`. Other bytes than those that were encoded give any tokens.
pub(crate) fn decode(bytes: &[u8], out: &mut Vec<TokenId>) {
    if bytes.iter().fold(0, |any, byte| any | byte) & MORE == 0 {
        out.extend(bytes.iter().map(|byte| TokenId::from(*byte)));
        return;
    }
    let (mut token, mut shift) = (0, 0u32);
    for byte in bytes {
        token |= TokenId::from(byte & !MORE).checked_shl(shift).unwrap_or(0);
        shift = shift.saturating_add(7);
        if byte & MORE == 0 {
            out.push(token);
            (token, shift) = (0, 0);
        }
    }
}

/// Returns the number of tokens in some bytes.
pub(super) fn count(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & MORE == 0).count()
}

/// Returns the number of bytes that two sequences share at their beginning and, after that, at their end; only whole
/// tokens count.
pub(super) fn common_ends(a: &[u8], b: &[u8]) -> [usize; 2] {
    /// The number of bytes that are compared at once.
    const RUN: usize = 32;
    let runs = |pairs: &mut dyn Iterator<Item = (&[u8], &[u8])>| {
        RUN * pairs.take_while(|(a, b)| a == b).count()
    };
    let mut begin = runs(&mut a.chunks_exact(RUN).zip(b.chunks_exact(RUN)));
    let pairs = a[begin..].iter().zip(&b[begin..]);
    begin += pairs.take_while(|(a, b)| a == b).count();
    while begin > 0 && a[begin - 1] & MORE != 0 {
        begin -= 1;
    }
    let (a, b) = (&a[begin..], &b[begin..]);
    let mut end = runs(&mut a.rchunks_exact(RUN).zip(b.rchunks_exact(RUN)));
    let before = |bytes: &'_ [u8], end: usize| bytes[..bytes.len() - end].last().copied();
    while let (Some(one), Some(other)) = (before(a, end), before(b, end))
        && one == other
    {
        end += 1;
    }
    // A token begins after the last byte of the previous one.
    while end > 0
        && [a, b]
            .iter()
            .any(|bytes| before(bytes, end).is_some_and(|byte| byte & MORE != 0))
    {
        end -= 1;
    }
    [begin, end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(tokens: &[TokenId]) -> Vec<u8> {
        let mut out = vec![7];
        encode(tokens, &mut out);
        out.split_off(1)
    }

    #[test]
    fn tokens_of_every_length_come_back() {
        for tokens in [&[0, 127, 128, 16_383][..], &[], &[u32::MAX, 1 << 21], &[7]] {
            let (bytes, mut out) = (encoded(tokens), Vec::new());
            decode(&bytes, &mut out);
            assert_eq!(out, tokens);
            assert_eq!(count(&bytes), tokens.len());
        }
        let mut out = Vec::new();
        decode(&[0xff; 1000], &mut out);
        decode(&[&[0xff; 1000][..], &[1]].concat(), &mut out);
        assert_eq!(out.len(), 1);
    }

    proptest! {
        /// What is shared is counted on the tokens themselves. Tokens of one to three bytes, some of which begin or end
        /// alike. Never a false alarm.
        #[test]
        fn common_ends_are_whole_tokens(
            [begin, a, b, end] in [0, 1, 2, 3].map(|part| {
                let token = prop::sample::select(vec![1u32, 2, 129, 257, 130, 16_513, 32_897]);
                prop::collection::vec(token, 0..if part % 3 == 0 { 80 } else { 3 })
            }),
        ) {
            let [a, b] = [[&begin[..], &a, &end].concat(), [&begin[..], &b, &end].concat()];
            let (x, y) = (encoded(&a), encoded(&b));
            let [begin, end] = common_ends(&x, &y);
            let expected = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
            prop_assert_eq!(count(&x[..begin]), expected);
            let (a, b) = (&a[expected..], &b[expected..]);
            let expected = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
            prop_assert_eq!(count(&x[x.len() - end..]), expected);
            prop_assert_eq!(begin + end <= x.len().min(y.len()), true);
        }
    }
}

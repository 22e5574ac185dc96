//! Computes the length of a text compressed by zlib at its default level, exact to the byte.
//!
//! Other compressors for the same format find other matches and split blocks elsewhere, which changes lengths by bytes
//! or tens of bytes, so a score by compressed length would depend on the compressor. This module makes the same choices
//! as zlib (level 6, window of 32 KiB, memory level 8), which Python's `zlib.compress` and therefore the published
//! attacks use: lazy matching over chains of three-byte hashes, blocks of 16 383 symbols, and the smallest of a stored,
//! a fixed and a dynamic block. Formats: RFC 1950 and RFC 1951.

const WINDOW: usize = 1 << 15;
/// The largest distance of a match; it leaves room for the bytes that must remain readable ahead.
const FARTHEST: usize = WINDOW - (LONGEST + SHORTEST + 1);
const SHORTEST: usize = 3;
const LONGEST: usize = 258;
/// A match of three bytes at a larger distance than this costs more than its bytes.
const TOO_FAR: usize = 4096;
/// Level 6: after a match this long, the search for a better one uses a quarter of the effort, …
const GOOD: usize = 8;
/// … after one this long there is no search, …
const LAZY: usize = 16;
/// … and this long ends a search.
const NICE: usize = 128;
/// The number of candidates that a search examines.
const CHAIN: usize = 128;
/// The number of symbols in a block.
const BLOCK: usize = (1 << 14) - 1;

const LITERALS: usize = 256;
const LENGTHS: usize = 286;
const DISTANCES: usize = 30;
/// The size of the alphabet in which code lengths are written, and the order in which its own lengths are written.
const CODES: usize = 19;
const ORDER: [usize; CODES] = [
    16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
];

/// Returns the number of bytes of the text in zlib's format at level 6, as zlib 1.2.12 and later and Python's
/// `zlib.compress` produce them.
///
/// ```
/// use reticent_attacks::membership::zlib_bytes;
/// assert_eq!(zlib_bytes("My ID is 341752."), 24);
/// assert_eq!(zlib_bytes("The quick brown fox jumps over the lazy dog."), 51);
/// ```
#[must_use]
pub fn zlib_bytes(text: &str) -> usize {
    // Two bytes of header and four of checksum.
    6 + Deflater::new(text.as_bytes()).bits().div_ceil(8)
}

/// The state of compressing one text.
#[derive(Default)]
struct Deflater<'t> {
    text: &'t [u8],
    /// The last position of each hash, and for each position the previous one with its hash. 0 means none, so nothing
    /// matches the first byte.
    heads: Vec<usize>,
    before: Vec<usize>,
    lengths: Vec<u32>,
    distances: Vec<u32>,
    symbols: usize,
    /// The position where the block began.
    start: usize,
    bits: usize,
}

impl<'t> Deflater<'t> {
    fn new(text: &'t [u8]) -> Self {
        let mut new = Self {
            text,
            heads: vec![0; WINDOW],
            before: vec![0; text.len()],
            ..Self::default()
        };
        new.clear();
        new
    }

    fn clear(&mut self) {
        self.lengths = vec![0; LENGTHS];
        self.lengths[LITERALS] = 1;
        self.distances = vec![0; DISTANCES];
        self.symbols = 0;
    }

    /// Lazy matching: a match is used if the next position has no longer one.
    fn bits(mut self) -> usize {
        let end = self.text.len();
        let (mut at, mut held) = (0, false);
        let (mut length, mut match_at) = (SHORTEST - 1, 0);
        while at < end {
            let head = self.insert(at);
            let (last, last_at) = (length, match_at);
            length = SHORTEST - 1;
            if head != 0 && last < LAZY && at - head <= FARTHEST {
                (length, match_at) = self.longest(at, head, last, match_at);
                if length == SHORTEST && at - match_at > TOO_FAR {
                    length = SHORTEST - 1;
                }
            }
            if last >= SHORTEST && length <= last {
                let full = self.tally_match(last, at - 1 - last_at);
                for inside in at + 1..at + last - 1 {
                    self.insert(inside);
                }
                at += last - 1;
                (held, length) = (false, SHORTEST - 1);
                if full {
                    self.flush(at);
                }
            } else {
                if held && self.tally_literal(self.text[at - 1]) {
                    self.flush(at);
                }
                held = true;
                at += 1;
            }
        }
        if held {
            self.tally_literal(self.text[end - 1]);
        }
        self.flush(end);
        self.bits
    }

    /// Records a position and returns the previous one with the same hash; 0 if there are fewer than three bytes.
    fn insert(&mut self, at: usize) -> usize {
        let Some(&[a, b, c]) = self.text.get(at..at + SHORTEST) else {
            return 0;
        };
        let hash = (usize::from(a) << 10 ^ usize::from(b) << 5 ^ usize::from(c)) % WINDOW;
        let head = std::mem::replace(&mut self.heads[hash], at);
        self.before[at] = head;
        head
    }

    /// Returns the longest match of more than `least` bytes along a chain, the nearest of equally long ones; the known
    /// match if there is none.
    fn longest(&self, at: usize, head: usize, least: usize, known: usize) -> (usize, usize) {
        let ahead = self.text.len() - at;
        let most = ahead.min(LONGEST);
        let nice = NICE.min(ahead);
        let mut left = if least >= GOOD { CHAIN / 4 } else { CHAIN };
        let limit = at.saturating_sub(FARTHEST);
        let (mut best, mut place) = (least, known);
        let mut from = head;
        loop {
            let pairs = self.text[from..].iter().zip(&self.text[at..at + most]);
            let length = pairs.take_while(|(a, b)| a == b).count();
            if length > best {
                (best, place) = (length, from);
                if length >= nice {
                    break;
                }
            }
            from = self.before[from];
            left -= 1;
            if from <= limit || left == 0 {
                break;
            }
        }
        (best.min(ahead), place)
    }

    fn tally_literal(&mut self, byte: u8) -> bool {
        self.lengths[usize::from(byte)] += 1;
        self.symbols += 1;
        self.symbols == BLOCK
    }

    fn tally_match(&mut self, length: usize, distance: usize) -> bool {
        self.lengths[LITERALS + 1 + length_code(length)] += 1;
        self.distances[distance_code(distance)] += 1;
        self.symbols += 1;
        self.symbols == BLOCK
    }

    /// Ends a block before `end`.
    fn flush(&mut self, end: usize) {
        let lengths = Tree::of(&self.lengths, 15, length_extra);
        let distances = Tree::of(&self.distances, 15, distance_extra);
        let mut codes = vec![0; CODES];
        lengths.count_runs(&mut codes);
        distances.count_runs(&mut codes);
        let codes = Tree::of(&codes, 7, |code| match code {
            16 => 2,
            17 => 3,
            18 => 7,
            _ => 0,
        });
        let is_used = |code: &usize| codes.bits_of.get(*code).is_some_and(|bits| *bits > 0);
        let written = ORDER.iter().rposition(is_used);
        let written = written.unwrap_or(0).max(3) + 1;
        let dynamic = lengths.bits + distances.bits + codes.bits + 3 * written + 5 + 5 + 4;
        let fixed = self.fixed();
        let bytes = |bits: usize| (bits + 3).div_ceil(8);
        let (stored, least) = (end - self.start, bytes(dynamic).min(bytes(fixed)));
        self.bits = if stored + 4 <= least {
            // Header, padding to the next byte, the length twice, the bytes themselves.
            (self.bits + 3).next_multiple_of(8) + 8 * (4 + stored)
        } else if bytes(fixed) == least {
            self.bits + 3 + fixed
        } else {
            self.bits + 3 + dynamic
        };
        self.start = end;
        self.clear();
    }

    /// Returns the number of bits of the block in the fixed codes.
    fn fixed(&self) -> usize {
        let length = |code: usize| match code {
            144..=255 => 9,
            256..=279 => 7,
            _ => 8,
        };
        let lengths = self.lengths.iter().enumerate();
        let lengths =
            lengths.map(|(code, count)| *count as usize * (length(code) + length_extra(code)));
        let distances = self.distances.iter().enumerate();
        let distances = distances.map(|(code, count)| *count as usize * (5 + distance_extra(code)));
        lengths.sum::<usize>() + distances.sum::<usize>()
    }
}

/// RFC 1951, 3.2.5: returns the code of a length, counted from the code after the end of a block.
fn length_code(length: usize) -> usize {
    match length - SHORTEST {
        255 => 28,
        short @ 0..8 => short,
        long => {
            let extra = long.ilog2() as usize - 2;
            4 * extra + (long >> extra)
        }
    }
}

fn length_extra(code: usize) -> usize {
    match code {
        265..=284 => (code - 261) / 4,
        _ => 0,
    }
}

fn distance_code(distance: usize) -> usize {
    match distance - 1 {
        near @ 0..4 => near,
        far => {
            let extra = far.ilog2() as usize - 1;
            2 * extra + (far >> extra)
        }
    }
}

const fn distance_extra(code: usize) -> usize {
    if code < 4 { 0 } else { code / 2 - 1 }
}

/// A length-limited Huffman code, built as zlib does: the choice among equally good trees decides the cost of their
/// lengths.
struct Tree {
    /// The number of bits of each symbol, up to the last one used.
    bits_of: Vec<usize>,
    /// The number of symbols up to the last one used.
    used: usize,
    /// The number of bits of everything counted, including extra bits.
    bits: usize,
}

/// The nodes of a tree under construction: symbols first, then nodes that join two others.
struct Nodes {
    counts: Vec<u32>,
    depths: Vec<u32>,
    heap: Vec<usize>,
}

impl Nodes {
    fn smaller(&self, a: usize, b: usize) -> bool {
        (self.counts[a], self.depths[a]) <= (self.counts[b], self.depths[b])
    }

    /// Moves the node at `at` down to its place; the heap begins at 1.
    fn sink(&mut self, mut at: usize) {
        let node = self.heap[at];
        let last = self.heap.len() - 1;
        while 2 * at <= last {
            let mut child = 2 * at;
            if child < last && self.smaller(self.heap[child + 1], self.heap[child]) {
                child += 1;
            }
            if self.smaller(node, self.heap[child]) {
                break;
            }
            self.heap[at] = self.heap[child];
            at = child;
        }
        self.heap[at] = node;
    }
}

impl Tree {
    fn of(counts: &[u32], most: usize, extra: impl Fn(usize) -> usize) -> Self {
        let symbols = counts.len();
        let mut nodes = Nodes {
            counts: counts.to_vec(),
            depths: vec![0; symbols],
            heap: vec![0],
        };
        nodes.heap.extend((0..symbols).filter(|&s| counts[s] > 0));
        let mut used = nodes.heap[1..].last().map_or(0, |last| last + 1);
        // A tree has at least two symbols; the bits of added ones are not counted.
        while nodes.heap.len() < 3 {
            let symbol = if used < 3 {
                used += 1;
                used - 1
            } else {
                0
            };
            nodes.counts[symbol] = 1;
            nodes.heap.push(symbol);
        }
        for at in (1..nodes.heap.len().div_ceil(2)).rev() {
            nodes.sink(at);
        }
        // The order is from the root downwards once reversed.
        let mut order = Vec::new();
        let mut parents = vec![0; symbols];
        loop {
            let first = nodes.heap.swap_remove(1);
            nodes.sink(1);
            let second = nodes.heap[1];
            order.extend([first, second]);
            let node = nodes.counts.len();
            nodes
                .counts
                .push(nodes.counts[first] + nodes.counts[second]);
            let depth = nodes.depths[first].max(nodes.depths[second]) + 1;
            nodes.depths.push(depth);
            parents.push(node);
            (parents[first], parents[second]) = (node, node);
            nodes.heap[1] = node;
            if nodes.heap.len() == 2 {
                order.push(node);
                break;
            }
            nodes.sink(1);
        }
        order.reverse();
        let mut bits_of = vec![0; nodes.counts.len()];
        let mut of_length = vec![0_usize; most + 2];
        let mut over = 0_usize;
        for &node in &order[1..] {
            let mut bits = bits_of[parents[node]] + 1;
            if bits > most {
                bits = most;
                over += 1;
            }
            bits_of[node] = bits;
            if node < used {
                of_length[bits] += 1;
            }
        }
        if over > 0 {
            shortened(&mut of_length, most, over);
            let mut leaves = order.iter().rev().filter(|node| **node < used);
            for bits in (1..=most).rev() {
                for &symbol in leaves.by_ref().take(of_length[bits]) {
                    bits_of[symbol] = bits;
                }
            }
        }
        bits_of.truncate(used);
        let costs = (0..used).map(|s| counts[s] as usize * (bits_of[s] + extra(s)));
        Self {
            bits: costs.sum(),
            bits_of,
            used,
        }
    }

    /// Counts the symbols that encode the lengths of this code, including the codes for repetitions.
    fn count_runs(&self, codes: &mut [u32]) {
        let mut last = None;
        let mut at = 0;
        while at < self.used {
            let bits = self.bits_of[at];
            let same = self.bits_of[at..]
                .iter()
                .take_while(|b| **b == bits)
                .count();
            let (least, most) = match bits {
                0 => (3, 138),
                _ if last == Some(bits) => (3, 6),
                _ => (4, 7),
            };
            let run = same.min(most);
            if run < least {
                codes[bits] += run as u32;
            } else if bits != 0 {
                codes[bits] += u32::from(last != Some(bits));
                codes[16] += 1;
            } else {
                codes[if run <= 10 { 17 } else { 18 }] += 1;
            }
            last = Some(bits);
            at += run;
        }
    }
}

/// Moves codes that are too long up, each next to one that is moved down.
fn shortened(of_length: &mut [usize], most: usize, over: usize) {
    let mut over = over as isize;
    while over > 0 {
        let Some(bits) = (1..most).rev().find(|&bits| of_length[bits] > 0) else {
            return;
        };
        of_length[bits] -= 1;
        of_length[bits + 1] += 2;
        of_length[most] -= 1;
        over -= 2;
    }
}

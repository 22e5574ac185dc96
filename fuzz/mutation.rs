//! Mutations of bytes, for every target.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::path::{Path, PathBuf};

/// Longest input that joins the corpus, in bytes.
pub(crate) const MOST: usize = 4096;

/// Longest input of all.
const LONGEST: usize = 1 << 16;

/// Files kept from earlier runs.
pub(crate) fn kept(folder: &Path) -> std::io::Result<Vec<Vec<u8>>> {
    std::fs::create_dir_all(folder)?;
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)?
        .map(|entry| entry.map(|e| e.path()))
        .collect::<std::io::Result<_>>()?;
    files.sort();
    files.into_iter().map(std::fs::read).collect()
}

/// A few mutations of one of the seeds: of bytes, of pieces of its own or another's, of words.
pub(crate) fn mutated(seeds: &[Vec<u8>], words: &[&str], random: &mut ChaCha8Rng) -> Vec<u8> {
    let pick = |random: &mut ChaCha8Rng| random.random_range(0..seeds.len());
    let mut bytes = seeds[pick(random)].clone();
    for _ in 0..1 << random.random_range(0..3) {
        match random.random_range(0..10u8) {
            0 => {
                let other = &seeds[pick(random)];
                let (from, to) = piece(other.len(), random);
                let at = random.random_range(0..=bytes.len());
                bytes.splice(at..at, other[from..to].iter().copied());
            }
            1 => {
                let (from, to) = piece(bytes.len(), random);
                let copy = bytes[from..to].to_vec();
                let at = random.random_range(0..=bytes.len());
                bytes.splice(at..at, copy);
            }
            2 => {
                let (from, to) = piece(bytes.len(), random);
                bytes.drain(from..to);
            }
            3..=5 if !words.is_empty() => {
                let word = words[random.random_range(0..words.len())];
                let at = random.random_range(0..=bytes.len());
                bytes.splice(at..at, word.bytes());
            }
            _ => byte_mutation(&mut bytes, random),
        }
    }
    bytes.truncate(if seeds.iter().all(|seed| seed.len() <= MOST) {
        MOST
    } else {
        LONGEST
    });
    bytes
}

/// A seed with a few bytes changed where they are: lengths still fit, so that more is read.
pub(crate) fn in_place(seeds: &[Vec<u8>], random: &mut ChaCha8Rng) -> Vec<u8> {
    // What was refused before is refused again, mostly: half are mutants of the one that loads.
    let from = if random.random_bool(0.5) {
        0
    } else {
        random.random_range(0..seeds.len())
    };
    let mut bytes = seeds[from].clone();
    for _ in 0..random.random_range(1..4) {
        if bytes.is_empty() {
            break;
        }
        let at = random.random_range(0..bytes.len());
        bytes[at] = match random.random_range(0..3u8) {
            0 => bytes[at] ^ (1 << random.random_range(0..8)),
            1 => random.random(),
            _ => bytes[at].wrapping_add([1, 255][random.random_range(0..2)]),
        };
    }
    bytes
}

/// One mutation of a byte, or an end.
pub(crate) fn byte_mutation(bytes: &mut Vec<u8>, random: &mut ChaCha8Rng) {
    if bytes.is_empty() {
        bytes.push(random.random());
        return;
    }
    let at = random.random_range(0..bytes.len());
    match random.random_range(0..6u8) {
        0 => bytes[at] ^= 1 << random.random_range(0..8),
        1 => bytes[at] = random.random(),
        2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.random_range(0..5)],
        3 => {
            bytes.remove(at);
        }
        4 => bytes.insert(at, random.random()),
        _ => bytes.truncate(at),
    }
}

fn piece(length: usize, random: &mut ChaCha8Rng) -> (usize, usize) {
    let from = random.random_range(0..=length);
    (from, random.random_range(from..=length.min(from + 64)))
}

//! Compressed files, whole and not.

use super::{LINES, gzip, read};
use std::io::Write;

fn zstd(text: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest)
}

#[test]
fn compressed_files_read_as_what_is_in_them() {
    let plain = read("x.jsonl", LINES.as_bytes()).unwrap();
    let (one, two) = LINES.split_at(26);
    for pack in [gzip, zstd] {
        let whole = pack(LINES.as_bytes());
        // Members and frames follow each other; one of somebody else's is skipped.
        let parts = [pack(one.as_bytes()), pack(two.as_bytes())].concat();
        for bytes in [&whole, &parts] {
            for name in ["x.jsonl.gz", "x.jsonl.zst", "x.jsonl"] {
                assert_eq!(read(name, bytes).unwrap(), plain, "{name}");
            }
        }
    }
    let skipped = [
        &b"\x50\x2a\x4d\x18\x03\0\0\0abc"[..],
        &zstd(LINES.as_bytes()),
    ]
    .concat();
    assert_eq!(read("x.jsonl.zst", &skipped).unwrap(), plain);
}

/// At whatever byte the file ends: an error that says so, or all documents.
#[test]
fn truncated_files_are_errors() {
    for (pack, name) in [(gzip as fn(&[u8]) -> Vec<u8>, "gzip"), (zstd, "zstd")] {
        let whole = pack(LINES.as_bytes());
        for length in 6..whole.len() {
            let error = read("x.jsonl", &whole[..length]).unwrap_err();
            assert!(
                error.contains(&format!("the {name} data ")),
                "{length}: {error}"
            );
            assert!(error.contains("of the file"), "{length}: {error}");
            // In words, not in those of the decoder's code.
            assert!(!error.contains("Error") && !error.contains('{'), "{error}");
        }
    }
}

/// What follows the last member is neither text nor a file that broke off.
#[test]
fn other_bytes_behind_gzip_are_reported() {
    let error = read(
        "x.jsonl.gz",
        &[&gzip(LINES.as_bytes())[..], b"rubbish"].concat(),
    );
    let error = error.unwrap_err();
    let said = "the gzip data is damaged (other bytes follow its end), within the first ";
    assert!(error.contains(said), "{error}");
}

/// 200 MiB of zeros in 200 kB: stopped, with the sizes.
#[test]
fn a_decompression_bomb_is_an_error() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let line = [&[b' '; 4095][..], b"\n"].concat();
    for _ in 0..51_200 {
        encoder.write_all(&line).unwrap();
    }
    let error = read("x.jsonl", &encoder.finish().unwrap()).unwrap_err();
    assert!(
        error.contains("at most 250 times as many and 67108864 are read"),
        "{error}"
    );
    assert!(error.starts_with(", line "), "{error}");
}

/// Brotli may be text to look at: a block that is stored is kept as it is.
#[test]
fn other_compressions_are_named() {
    for (name, bytes, compression) in [
        ("x.jsonl", &b"PK\x03\x04\x14\0"[..], "zip"),
        ("x.txt", b"\xfd7zXZ\0\0\x04", "xz"),
        ("x.jsonl.bz2", b"BZh91AY&SY\xa7", "bzip2"),
        ("x.csv", b"\x04\x22\x4d\x18\x64\x40\xa7", "lz4"),
        ("x.json", b"7z\xbc\xaf\x27\x1c\0\x04", "7z"),
        ("x.jsonl.br", b"\x0b\x02\x00abc\x03", "brotli"),
        ("x.txt.BR", b"\x0b\x02\x80abc\x03", "brotli"),
    ] {
        let error = read(name, bytes).unwrap_err();
        let said = format!("the file is compressed ({compression}); unpack it first");
        assert!(error.contains(&said), "{name}: {error}");
    }
    for text in ["BZh9 is how bzip2 begins", "7z", "PK"] {
        assert_eq!(read("x.txt", text.as_bytes()).unwrap().len(), 1);
    }
}

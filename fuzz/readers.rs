//! Mutations of small files of every kind, read: documents or an error, never a panic.
//!
//! ```console
//! $ cargo run --package reticent-corpus --features parquet --example fuzz_readers -- \
//!       10000000 [SEED] [fuzz/corpus]
//! ```
//! Deterministic for a seed. Each input is a file of the corpus with a few mutations: of bytes,
//! of pieces of its own, of another file, of words of the format; compressed kinds are packed
//! after the mutation, or mutated after packing. An input whose outcome is of a new sort (the
//! message without its numbers, or how many documents came) joins the corpus, and is written
//! to `FOLDER/READER/` where a folder is named. What is asserted beside "no panic": messages
//! begin with the file's name, documents have spans that fit, and the same bytes packed by gzip
//! read as they do plain.
#![expect(clippy::print_stderr, reason = "findings are no data")]

#[path = "campaign.rs"]
mod campaign;
#[path = "mutation.rs"]
#[expect(dead_code, reason = "not every program mutates in place")]
mod mutation;

use campaign::{Campaign, Target, none_found};
use mutation::{byte_mutation, mutated};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use reticent_corpus::read::{Documents, ReadOptions};
use std::io::Write;
use std::time::Duration;

/// Longest line the readers take here: short, so that inputs reach it.
const LONGEST: u64 = 400;

struct Reader {
    name: &'static str,
    file: &'static str,
    /// Share of the inputs, in percent.
    share: u64,
    seeds: Vec<Vec<u8>>,
    words: &'static [&'static str],
    packed: Packed,
}

#[derive(Clone, Copy, PartialEq)]
enum Packed {
    No,
    Gzip,
    Zstd,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let campaign = Campaign::of_command()?;
    let mut findings = 0;
    for (number, reader) in (0..).zip(readers()?) {
        let target = Target {
            name: reader.name,
            seeds: reader.seeds.clone(),
            share: reader.share,
            patience: Duration::from_secs(2),
            sorts: 400,
        };
        findings += campaign.run(
            number,
            target,
            |seeds, random| mutated(seeds, reader.words, random),
            |plain, random| vec![packed(&reader, plain, random)],
            |files| judge(reader.file, &files[0]),
        )?;
    }
    none_found(findings)
}

/// The sort of outcome, or what is wrong with it.
fn judge(file: &str, bytes: &[u8]) -> Result<String, String> {
    let options = ReadOptions {
        longest: LONGEST,
        ..ReadOptions::default()
    };
    let mut count = 0usize;
    for read in Documents::from_bytes(file.as_ref(), bytes.to_vec(), &options) {
        match read {
            Ok(document) => {
                document.validate().map_err(|error| error.to_string())?;
                count += 1;
            }
            Err(error) => {
                let text = error.to_string();
                if !text.starts_with(file) {
                    return Err(format!("{text:?} does not name the file"));
                }
                let quoted = text.split('"').next().unwrap_or("");
                let sort: String = quoted.chars().filter(|c| !c.is_ascii_digit()).collect();
                return Ok(format!("E{sort}"));
            }
        }
    }
    Ok(format!("D{}", count.min(8)))
}

/// For a compressed reader: the text packed, or packed and then damaged.
fn packed(reader: &Reader, plain: &[u8], random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut bytes = match reader.packed {
        Packed::No => return plain.to_vec(),
        Packed::Gzip => gzip(plain),
        Packed::Zstd => {
            ruzstd::encoding::compress_to_vec(plain, ruzstd::encoding::CompressionLevel::Fastest)
        }
    };
    if random.random_bool(0.7) {
        for _ in 0..random.random_range(1..4) {
            byte_mutation(&mut bytes, random);
        }
    } else if reader.packed == Packed::Gzip {
        let (one, two) = (judge("x.jsonl", plain), judge("x.jsonl", &bytes));
        let same = |r: &Result<String, String>| r.clone().unwrap_or_default();
        assert!(
            same(&one) == same(&two),
            "packed reads otherwise than plain"
        );
    }
    bytes
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let written = encoder.write_all(plain);
    assert!(written.is_ok());
    encoder.finish().unwrap_or_default()
}

const JSON: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    "\\u",
    "\\ud800",
    "\\u0000",
    ":",
    ",",
    "\n",
    "\r\n",
    "null",
    "true",
    "1e999",
    "-1",
    "18446744073709551616",
    "\"text\":",
    "\"id\":",
    "\"secrets\":",
    "\"masked\":",
    "\"start\":",
    "\"end\":",
    "\"kind\":",
    "\"turns\":",
    "\"log\":",
    "\"goal\":",
    "\"utterance\":",
    "\"speaker\":",
    "\"dialogue_id\":",
    "\u{feff}",
    "é",
    "🦀",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
];
const CSV: &[&str] = &[
    "text", "id", ",", "\"", "\"\"", "\n", "\r", "\r\n", "\u{feff}", "é", ";", "\0",
];
const TEXT: &[&str] = &[
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    " ",
    "\u{feff}",
    "é",
    "🦀",
    "\0",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
];

fn readers() -> Result<Vec<Reader>, Box<dyn std::error::Error>> {
    let line = b"{\"id\":\"a\",\"text\":\"na\xc3\xafve Bob\",\"secrets\":[{\"start\":6,\"end\":9,\"kind\":\"name\"}],\"masked\":[{\"start\":0,\"end\":2}]}\n{\"id\":7,\"text\":\"x\\ny\"}\n".to_vec();
    let old = b"{\"A.json\": {\"goal\": {\"taxi\": {}}, \"log\": [{\"text\": \"a \\\"taxi\\\" } .\", \"metadata\": {}}]}}".to_vec();
    let new = b"[{\"dialogue_id\": \"A\", \"turns\": [{\"speaker\": \"USER\", \"utterance\": \"hi\", \"frames\": []}]}]".to_vec();
    let reader = |name, file, share, seeds, words, packed| Reader {
        name,
        file,
        share,
        seeds,
        words,
        packed,
    };
    Ok(vec![
        reader("jsonl", "x.jsonl", 28, vec![line.clone()], JSON, Packed::No),
        reader(
            "json",
            "x.json",
            22,
            vec![old, new, line.clone()],
            JSON,
            Packed::No,
        ),
        reader(
            "text",
            "x.txt",
            14,
            vec![b"a\nb\n\nc\r\n".to_vec()],
            TEXT,
            Packed::No,
        ),
        reader(
            "csv",
            "x.csv",
            18,
            vec![b"id,text\na,\"one, two\"\nb,\"say \"\"hi\"\"\"\n".to_vec()],
            CSV,
            Packed::No,
        ),
        reader(
            "gzip",
            "x.jsonl.gz",
            6,
            vec![line.clone()],
            JSON,
            Packed::Gzip,
        ),
        reader("zstd", "x.jsonl.zst", 4, vec![line], JSON, Packed::Zstd),
        reader("parquet", "x.parquet", 8, tables()?, &[], Packed::No),
    ])
}

/// A table of two row groups, plain and compressed.
fn tables() -> Result<Vec<Vec<u8>>, Box<dyn std::error::Error>> {
    use parquet::basic::{Compression, GzipLevel};
    use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    let compressions = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
    ];
    let mut out = Vec::new();
    for compression in compressions {
        let schema = "message m { required int64 id; optional binary text (UTF8); }";
        let schema = parse_message_type(schema)?;
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .build();
        let mut bytes = Vec::new();
        let mut writer = SerializedFileWriter::new(&mut bytes, schema.into(), properties.into())?;
        for number in 0..2i64 {
            let mut group = writer.next_row_group()?;
            if let Some(mut column) = group.next_column()? {
                let ids = [2 * number, 2 * number + 1];
                column.typed::<Int64Type>().write_batch(&ids, None, None)?;
                column.close()?;
            }
            if let Some(mut column) = group.next_column()? {
                let text = [ByteArray::from("one text, one text")];
                let levels = [1, 0];
                let out = column.typed::<ByteArrayType>();
                out.write_batch(&text, Some(&levels), None)?;
                column.close()?;
            }
            group.close()?;
        }
        writer.close()?;
        out.push(bytes);
    }
    Ok(out)
}

//! Parquet files of documents, sound and hostile.

use parquet::basic::{Compression, GzipLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use reticent_corpus::policy::{DetectorOptions, PolicyChoice};
use reticent_corpus::read::{ChatTemplate, Documents, ReadOptions};
use reticent_corpus::redaction::{RedactFiles, RedactTo, RedactionOptions};
use reticent_corpus::{LossOn, Unit};
use std::sync::Arc;

/// Row groups of two rows with a text, a number as id, and an author.
fn file(texts: &[&str], compression: Compression) -> Vec<u8> {
    let schema = parse_message_type(
        "message m { required int64 id; required binary text (UTF8); optional binary author (UTF8); }",
    )
    .unwrap();
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .build();
    let mut bytes = Vec::new();
    let mut writer =
        SerializedFileWriter::new(&mut bytes, Arc::new(schema), Arc::new(properties)).unwrap();
    for (number, rows) in texts.chunks(2).enumerate() {
        let ids: Vec<i64> = (0i64..)
            .take(rows.len())
            .map(|i| i + 2 * number as i64)
            .collect();
        let values: Vec<ByteArray> = rows.iter().map(|t| ByteArray::from(*t)).collect();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column
            .typed::<Int64Type>()
            .write_batch(&ids, None, None)
            .unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column
            .typed::<ByteArrayType>()
            .write_batch(&values, None, None)
            .unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let some = vec![ByteArray::from("Ada")];
        let levels: Vec<i16> = (0..rows.len()).map(|i| i16::from(i == 0)).collect();
        column
            .typed::<ByteArrayType>()
            .write_batch(&some, Some(&levels), None)
            .unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
    bytes
}

const TEXTS: [&str; 3] = [
    "one",
    "zwölf",
    "a longer text, a longer text, a longer text",
];

fn read(bytes: &[u8], field: Option<&str>) -> Result<Vec<(String, String, Vec<String>)>, String> {
    let options = ReadOptions {
        field: field.map(str::to_owned),
        ..ReadOptions::default()
    };
    let mut documents = Documents::from_bytes("x.parquet".as_ref(), bytes.to_vec(), &options);
    let mut out = Vec::new();
    while let Some(document) = documents.next() {
        let document = document.map_err(|error| error.to_string())?;
        out.push((document.id, document.text, documents.values().to_vec()));
    }
    Ok(out)
}

#[test]
fn tables_of_every_compression_read_alike() {
    let gzip = Compression::GZIP(GzipLevel::default());
    for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY, gzip] {
        let found = read(&file(&TEXTS, compression), Some("author")).unwrap();
        let expected: Vec<(String, String, Vec<String>)> = TEXTS
            .iter()
            .enumerate()
            .map(|(i, text)| {
                let authors = if i % 2 == 0 {
                    vec!["Ada".to_owned()]
                } else {
                    Vec::new()
                };
                (i.to_string(), (*text).to_owned(), authors)
            })
            .collect();
        assert_eq!(found, expected);
    }
    let error = read(&file(&TEXTS, Compression::SNAPPY), Some("editor")).unwrap_err();
    assert_eq!(
        error,
        "x.parquet, metadata: cannot read as Parquet: no column editor; there are [\"id\", \"text\", \"author\"]"
    );
}

/// A column of marks beside the text would be read as if nothing were marked.
#[test]
fn columns_of_marks_are_refused() {
    let mut bytes = file(&TEXTS, Compression::UNCOMPRESSED);
    for at in 0..bytes.len() - 6 {
        if bytes[at..].starts_with(b"author") {
            bytes[at..at + 6].copy_from_slice(b"masked");
        }
    }
    let error = read(&bytes, None).unwrap_err();
    assert!(error.contains("the column masked is there"), "{error}");
    // Asked for by its name, it is no mark.
    assert_eq!(read(&bytes, Some("masked")).unwrap().len(), TEXTS.len());
}

/// Every byte of a file replaced by each of five others, and every length: documents, or an
/// error that names the file and the place. A panic of the library is such an error.
#[test]
fn damaged_files_are_errors_with_their_place() {
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let mut errors = 0;
    for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY] {
        let sound = file(&TEXTS, compression);
        let mut judge = |bytes: &[u8]| {
            if let Err(error) = read(bytes, None) {
                assert!(error.starts_with("x.parquet, "), "{error}");
                errors += 1;
            }
        };
        for at in 0..sound.len() {
            judge(&sound[..at]);
            for value in [0, 0x01, 0x7f, 0x80, 0xff] {
                let mut bytes = sound.clone();
                bytes[at] = value;
                judge(&bytes);
            }
        }
    }
    std::panic::set_hook(quiet);
    assert!(errors > 1000, "{errors}");
}

/// A page that unpacks to more than its header says, and one whose header says too much. The
/// size stands in four bytes of the header, behind the page's type.
#[test]
fn pages_that_lie_about_their_size_are_refused() {
    let text = "x".repeat(10_000_000);
    let page = text.len() as u64 + 4;
    let varint = |value: u64| {
        let part = |shift: u32| (value >> shift) as u8 & 0x7f | if shift < 21 { 0x80 } else { 0 };
        [0, 7, 14, 21].map(part)
    };
    let sound = file(&[&text], Compression::GZIP(GzipLevel::default()));
    let head: Vec<u8> = [0x15].into_iter().chain(varint(page << 1)).collect();
    let at = sound.windows(5).position(|window| window == head).unwrap();
    let says = |size: u64| {
        let mut bytes = sound.clone();
        bytes[at + 1..at + 5].copy_from_slice(&varint(size << 1));
        read(&bytes, None)
    };
    assert_eq!(says(page).unwrap()[0].1, text);
    for (size, problem) in [
        (
            100,
            "its gzip data unpacks to more than the 100 bytes it says",
        ),
        (page - 1, "its gzip data unpacks to more than"),
        (
            134_217_727,
            "bytes say they unpack to 134217727; at most 250 times",
        ),
    ] {
        let error = says(size).unwrap_err();
        let place = "x.parquet, row 1: cannot read as Parquet: column \"text\": page at byte ";
        assert!(
            error.starts_with(place) && error.contains(problem),
            "{error}"
        );
    }
}

/// A column chunk that says it unpacks to more than a gigabyte is refused before it is touched.
#[test]
fn an_immense_column_is_refused() {
    let text = "x".repeat(3000);
    let sound = file(&[&text, &text], Compression::SNAPPY);
    // The column's total uncompressed size is an integer of two bytes in the footer: one of
    // five bytes is put in its place, wherever it is, and the footer said to be longer.
    let tail = sound.len() - 8;
    let length = u32::from_le_bytes(sound[tail..tail + 4].try_into().unwrap());
    let footer = tail - length as usize;
    let refused = (footer..tail - 2).any(|at| {
        let mut bytes = sound[..at].to_vec();
        bytes.extend([0xfe, 0xff, 0xff, 0xff, 0x7f]);
        bytes.extend(&sound[at + 2..tail]);
        bytes.extend((length + 3).to_le_bytes());
        bytes.extend(b"PAR1");
        read(&bytes, None).is_err_and(|error| error.contains("; from 0 to 1073741824 are read"))
    });
    assert!(refused);
}

/// A file with one column `text`.
fn of_texts(values: &[ByteArray]) -> Vec<u8> {
    let schema = parse_message_type("message m { required binary text (UTF8); }").unwrap();
    let mut bytes = Vec::new();
    let mut writer =
        SerializedFileWriter::new(&mut bytes, Arc::new(schema), Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column
        .typed::<ByteArrayType>()
        .write_batch(values, None, None)
        .unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    bytes
}

/// Why the rows of a file are refused, and how many come before that.
fn refused(bytes: Vec<u8>) -> (String, u64) {
    let read = Documents::from_bytes("x.parquet".as_ref(), bytes, &ReadOptions::default());
    let mut rows = 0;
    let error = read.map(|row| row.map(|_| rows += 1)).find_map(Result::err);
    let said = error.unwrap().to_string();
    (said, rows)
}

/// A dictionary of one long text, said again in every row: a small file whose rows are large.
#[test]
fn rows_that_hold_far_more_than_the_file_are_refused() {
    // 64 MiB and 250 times the file is less than 200 MB.
    let bytes = of_texts(&vec![ByteArray::from("x".repeat(400_000).as_str()); 500]);
    assert!(bytes.len() < 500_000, "{} bytes", bytes.len());
    let (said, rows) = refused(bytes);
    assert!(
        said.contains("hold more than") && said.contains("without a dictionary"),
        "{said}"
    );
    assert!(rows > 100 && rows < 500);
}

/// Rows that hold nothing are no text, and take time all the same.
#[test]
fn empty_rows_count_for_something() {
    let bytes = of_texts(&vec![ByteArray::from(""); 300_000]);
    assert!(bytes.len() < 10_000, "{} bytes", bytes.len());
    let (said, rows) = refused(bytes);
    assert!(said.contains("256 of each row"), "{said}");
    assert!(rows < 280_000, "{rows}");
}

/// One row whose list says the same again and again: it would be there as a whole before it was counted.
#[test]
fn elements_of_lists_count_for_something() {
    let schema = parse_message_type(
        "message m { optional group messages (LIST) { repeated group list { optional group element {
         optional binary content (UTF8); optional binary role (UTF8); } } } }",
    )
    .unwrap();
    let of = |count: usize| {
        let mut bytes = Vec::new();
        let writer =
            SerializedFileWriter::new(&mut bytes, Arc::new(schema.clone()), Arc::default());
        let mut writer = writer.unwrap();
        let mut group = writer.next_row_group().unwrap();
        let begins: Vec<i16> = (0..count).map(|i| i16::from(i > 0)).collect();
        for value in ["Hi", "user"] {
            let mut column = group.next_column().unwrap().unwrap();
            let values = vec![ByteArray::from(value); count];
            let column_of_texts = column.typed::<ByteArrayType>();
            let levels = vec![4; count];
            let written = column_of_texts.write_batch(&values, Some(&levels), Some(&begins));
            written.unwrap();
            column.close().unwrap();
        }
        group.close().unwrap();
        writer.close().unwrap();
        bytes
    };
    let bytes = of(300_000);
    assert!(bytes.len() < 50_000, "{} bytes", bytes.len());
    let (said, rows) = refused(bytes);
    assert!(
        said.contains("row 1") && said.contains("values more than rows"),
        "{said}"
    );
    assert_eq!(rows, 0);
    let few = Documents::from_bytes("x.parquet".as_ref(), of(20_000), &ReadOptions::default());
    assert!(few.map(Result::unwrap).count() == 1);
}

/// Two rows of two messages and of one, whose content may be null.
fn chats() -> Vec<u8> {
    let schema = parse_message_type(
        "message m { optional group messages (LIST) { repeated group list { optional group element {
         optional binary content (UTF8); optional binary role (UTF8); optional int64 n; } } } }",
    )
    .unwrap();
    let mut bytes = Vec::new();
    let mut writer =
        SerializedFileWriter::new(&mut bytes, Arc::new(schema), Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let (there, none, begins) = (4, 3, [0, 1, 0]);
    for values in [["Hi", "Hello", "Bye"], ["user", "assistant", "user"]] {
        let mut column = group.next_column().unwrap().unwrap();
        let values = values.map(ByteArray::from);
        column
            .typed::<ByteArrayType>()
            .write_batch(&values, Some(&[there; 3]), Some(&begins))
            .unwrap();
        column.close().unwrap();
    }
    let mut column = group.next_column().unwrap().unwrap();
    column
        .typed::<Int64Type>()
        .write_batch(&[7], Some(&[none, there, none]), Some(&begins))
        .unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    bytes
}

#[test]
fn columns_of_messages_are_read_as_those_of_json_lines() {
    let texts = |bytes: Vec<u8>, options: &ReadOptions| {
        let read = Documents::from_bytes("x.parquet".as_ref(), bytes, options);
        let each = read.map(|row| row.map_err(|error| error.to_string()));
        each.map(|row| row.map(|d| (d.id, d.text, d.answers)))
            .collect::<Result<Vec<_>, _>>()
    };
    let plain = texts(chats(), &ReadOptions::default()).unwrap();
    let lines: Vec<_> = plain
        .iter()
        .map(|(id, text, _)| (id.as_str(), text.as_str()))
        .collect();
    assert_eq!(
        lines,
        [("row-1", "USR: Hi\nSYS: Hello"), ("row-2", "USR: Bye")]
    );
    let source = "{% for m in messages %}{{ m.role }}{{ m.n }}:{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %};{% endfor %}";
    let options = ReadOptions {
        chat: Some(ChatTemplate::new(source.to_owned(), &serde_json::Map::new()).unwrap()),
        loss_on: Some(LossOn::Assistant),
        ..ReadOptions::default()
    };
    let made = texts(chats(), &options).unwrap();
    assert_eq!(made[0].1, "user:Hi;assistant7:Hello;");
    assert_eq!(made[0].2.as_ref().unwrap().spans.first(), Some(&(19..24)));
    assert_eq!(made[0].2.as_ref().unwrap().spans.len(), 1);
    // A column of another name, which is asked for, is not one of these.
    let named = ReadOptions {
        text: Some("body".to_owned()),
        ..ReadOptions::default()
    };
    let error = texts(chats(), &named).unwrap_err();
    assert!(error.contains("no column body"), "{error}");
    // All that is read is named, whether or not there is an id.
    for schema in ["required int64 n;", "required int64 n; required int64 id;"] {
        let schema = parse_message_type(&format!("message m {{ {schema} }}")).unwrap();
        let mut bytes = Vec::new();
        SerializedFileWriter::new(&mut bytes, Arc::new(schema), Arc::default())
            .unwrap()
            .close()
            .unwrap();
        let error = texts(bytes, &ReadOptions::default()).unwrap_err();
        let all = "no column text, messages, conversations, prompt and completion, or instruction and output; there are [\"n\"";
        assert!(error.contains(all), "{error}");
    }
}

/// The values of an optional column, and their levels of definition and repetition.
type Column<'a> = (&'a [&'a str], &'a [i16], Option<&'a [i16]>);

/// A table of optional columns of texts and lists.
fn table(schema: &str, columns: &[Column<'_>]) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for (values, definitions, repetitions) in columns {
        let mut column = group.next_column().unwrap().unwrap();
        let values: Vec<ByteArray> = values.iter().map(|value| ByteArray::from(*value)).collect();
        column
            .typed::<ByteArrayType>()
            .write_batch(&values, Some(*definitions), *repetitions)
            .unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    bytes
}

/// As of the equal JSON Lines; a row without any text is a document without text.
#[test]
fn rows_without_a_text_are_read_of_their_other_columns() {
    let schema = "message m { optional binary text (UTF8); optional group messages (LIST) { repeated group list {
         optional group element { optional binary content (UTF8); optional binary role (UTF8); } } } }";
    let said: (&[i16], Option<&[i16]>) = (&[4, 4, 0, 4], Some(&[0, 0, 0, 0]));
    let bytes = table(
        schema,
        &[
            (&["one", " "], &[1, 0, 0, 1], None),
            (&["Hey", "Hi", "Ho"], said.0, said.1),
            (&["user", "user", "user"], said.0, said.1),
        ],
    );
    let texts: Vec<String> = read(&bytes, None)
        .unwrap()
        .into_iter()
        .map(|row| row.1)
        .collect();
    assert_eq!(texts, ["one", "USR: Hi", "", "USR: Ho"]);
}

/// As JSON Lines, where a null is a value and a column or key can't stand twice.
#[test]
fn nothing_of_a_row_is_lost() {
    let column = |name: &str| format!("optional binary {name} (UTF8);");
    let pairs = |names: &[&str], values: &[Column<'_>]| {
        let names: String = names.iter().map(|name| column(name)).collect();
        let rows = read(&table(&format!("message m {{ {names} }}"), values), None);
        rows.map(|rows| rows.into_iter().map(|row| row.1).collect::<Vec<_>>())
    };
    let (one, null): (Column<'_>, Column<'_>) = ((&["a"], &[1], None), (&[], &[0], None));
    let names = ["prompt", "completion", "text"];
    assert_eq!(pairs(&names, &[one, null, null]).unwrap(), ["a"]);
    let names = ["prompt", "completion", "instruction", "output"];
    assert_eq!(pairs(&names, &[null, null, one, null]).unwrap(), ["a"]);
    let error = pairs(&["text", "text"], &[one, one]).unwrap_err();
    assert!(error.contains("the column text is there twice"), "{error}");
    let map = "message m { optional binary prompt (UTF8); optional group completion (MAP) { repeated group key_value {
         required binary key (UTF8); optional binary value (UTF8); } } }";
    let entries: [Column<'_>; 3] = [
        one,
        (&["k", "k"], &[2, 2], Some(&[0, 1])),
        (&["v", "w"], &[3, 3], Some(&[0, 1])),
    ];
    let error = read(&table(map, &entries), None).unwrap_err();
    assert!(error.contains("a key that stands twice"), "{error}");
}

/// A pair's marks would be left out, and what they mask trained on.
#[test]
fn marks_beside_the_columns_of_a_pair_are_refused() {
    let column = |name: &str| format!("optional binary {name} (UTF8);");
    for mark in ["masked", "secrets"] {
        let names = ["prompt", "completion", mark].map(column).concat();
        let bytes = table(
            &format!("message m {{ {names} }}"),
            &[
                (&["a"], &[1], None),
                (&["b"], &[1], None),
                (&[], &[0], None),
            ],
        );
        let error = read(&bytes, None).unwrap_err();
        assert!(
            error.contains(&format!("the column {mark} is there")),
            "{error}"
        );
    }
}

#[test]
fn another_codec_is_refused_with_the_command_that_converts_it() {
    // The codec's number in the metadata of a column; nothing is unpacked before that is seen.
    for (number, name) in [
        (3, "lzo"),
        (4, "brotli"),
        (5, "lz4"),
        (6, "zstd"),
        (7, "lz4_raw"),
    ] {
        let bytes = file(&TEXTS, Compression::SNAPPY);
        let footer = bytes.len() - 400.min(bytes.len());
        let mut refused = 0;
        for at in footer..bytes.len() - 8 {
            // A field of type i32 behind field 3, and snappy's number.
            if bytes[at] == 0x15 && bytes[at + 1] == 2 {
                let mut other = bytes.clone();
                other[at + 1] = 2 * number;
                let said = read(&other, None).err().unwrap_or_default();
                let named = said.contains(&format!("is compressed with {name}; snappy and gzip"));
                refused += u32::from(named && said.contains("pyarrow"));
            }
        }
        assert!(refused > 0, "{name}");
    }
}

/// Rows of pairs are written again with all that JSON holds; columns of which it does not are named.
#[test]
fn rows_written_again_keep_their_other_columns() {
    let schema = parse_message_type(
        "message m { required binary prompt (UTF8); required binary completion (UTF8); required double score; required int32 day (DATE); }",
    )
    .unwrap();
    let properties = Arc::new(WriterProperties::builder().build());
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("a.parquet");
    let file = std::fs::File::create(&data).unwrap();
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for text in ["write to ada@x.org", "yes"] {
        let mut column = group.next_column().unwrap().unwrap();
        let text = ByteArray::from(text);
        let written = column.typed::<ByteArrayType>();
        written.write_batch(&[text], None, None).unwrap();
        column.close().unwrap();
    }
    let mut column = group.next_column().unwrap().unwrap();
    let written = column.typed::<DoubleType>();
    written.write_batch(&[0.5], None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let written = column.typed::<Int32Type>();
    written.write_batch(&[20_000], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    let files = RedactFiles {
        data: &data,
        reading: &ReadOptions::default(),
        options: &RedactionOptions {
            unit: Unit::Document,
            policy: PolicyChoice::Detectors(DetectorOptions::default()),
            deduplicate: true,
        },
        threads: 1,
        pause: std::time::Duration::from_secs(10),
    };
    let mut out = Vec::new();
    let made = files.write(RedactTo::Stream(&mut out, None), &|_, _| true);
    let left_out = made.unwrap().unwrap().state.left_out_columns;
    assert_eq!(left_out.into_iter().collect::<Vec<_>>(), ["day"]);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "{\"prompt\":\"write to <MASK>\",\"completion\":\"yes\",\"score\":0.5}\n"
    );
}

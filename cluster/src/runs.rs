//! Digests as rows of a table, for the shuffle between scan and group.
//!
//! The digests of one shard in one part are split into runs, one row each. The last run has a code over all of them,
//! so that rows that are lost, changed or delivered twice are detected. A part and a shard without digests have one
//! empty run, so that every part is grouped.

use crate::request::failed;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryBuilder, RecordBatch, StringBuilder, UInt32Array, UInt64Array,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type, UInt64Type};
use datafusion::error::Result;
use reticent_corpus::prepare::UnitDigests;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// The number of digests in a run.
const RUN: usize = 1024;
/// The bytes of a digest and its position.
const ROW: usize = 28;

/// The number of rows of runs in a batch: about a megabyte.
pub(crate) const BATCH: usize = 32;

/// The column by which the shuffle partitions.
pub(crate) const PART: &str = "part";

/// The schema of the rows that scan returns and group takes.
pub(crate) static RUNS: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        Field::new(PART, DataType::UInt32, false),
        Field::new("shard", DataType::UInt32, false),
        Field::new("run", DataType::UInt32, false),
        Field::new("digests", DataType::Binary, false),
        Field::new("hmac", DataType::Utf8, true),
    ]))
});

/// The schema of rows that name shards or parts, either to process or processed.
pub(crate) static NUMBERS: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![Field::new(
        "number",
        DataType::UInt64,
        false,
    )]))
});

/// Returns one number as a batch.
pub(crate) fn number(number: u64) -> Result<RecordBatch> {
    let column: ArrayRef = Arc::new(UInt64Array::from(vec![number]));
    Ok(RecordBatch::try_new(NUMBERS.clone(), vec![column])?)
}

/// Returns the numbers of a batch.
pub(crate) fn numbers(batch: &RecordBatch) -> Result<Vec<u64>> {
    let column = batch.columns().first();
    let column = column.and_then(|column| column.as_primitive_opt::<UInt64Type>());
    let column = column.ok_or_else(|| failed(&"rows are not numbers of shards"))?;
    Ok(column.values().to_vec())
}

/// Builds batches of runs.
#[derive(Default)]
pub(crate) struct Writer {
    parts: Vec<u32>,
    shards: Vec<u32>,
    runs: Vec<u32>,
    rows: BinaryBuilder,
    codes: StringBuilder,
}

impl Writer {
    /// Splits digests into runs and passes on each full batch.
    pub(crate) fn enter(
        &mut self,
        digests: &UnitDigests,
        mut give: impl FnMut(RecordBatch) -> bool,
    ) -> Result<bool> {
        let short = |number: u64| {
            u32::try_from(number).map_err(|_| failed(&format!("no shard or part {number}")))
        };
        let (part, shard) = (short(digests.part)?, short(digests.shard)?);
        let count = digests.rows.len().div_ceil(RUN * ROW).max(1);
        let mut rest = &digests.rows[..];
        for run in 0..count {
            let (rows, behind) = rest.split_at(rest.len().min(RUN * ROW));
            rest = behind;
            self.parts.push(part);
            self.shards.push(shard);
            self.runs.push(short(run as u64)?);
            self.rows.append_value(rows);
            self.codes
                .append_option((run + 1 == count).then_some(&digests.hmac));
            if self.parts.len() >= BATCH && !give(self.finish()?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the remaining rows.
    pub(crate) fn finish(&mut self) -> Result<RecordBatch> {
        let numbers = |column: &mut Vec<u32>| -> ArrayRef {
            Arc::new(UInt32Array::from(std::mem::take(column)))
        };
        let columns: Vec<ArrayRef> = vec![
            numbers(&mut self.parts),
            numbers(&mut self.shards),
            numbers(&mut self.runs),
            Arc::new(self.rows.finish()),
            Arc::new(self.codes.finish()),
        ];
        Ok(RecordBatch::try_new(RUNS.clone(), columns)?)
    }
}

/// The runs of one shard in one part.
#[derive(Default)]
struct Runs {
    rows: BTreeMap<u32, Vec<u8>>,
    last: Option<(u32, String)>,
}

/// The runs of whole parts, received in any order.
#[derive(Default)]
pub(crate) struct Reader(BTreeMap<u32, BTreeMap<u32, Runs>>);

impl Reader {
    pub(crate) fn enter(&mut self, batch: &RecordBatch) -> Result<()> {
        let wrong = || failed(&"rows are not digests of units");
        let [parts, shards, runs, rows, codes] = batch.columns() else {
            return Err(wrong());
        };
        let numbers = |column: &'_ ArrayRef| {
            let column = column.as_primitive_opt::<UInt32Type>().cloned();
            column.ok_or_else(wrong)
        };
        let (parts, shards, runs) = (numbers(parts)?, numbers(shards)?, numbers(runs)?);
        let rows = rows.as_binary_opt::<i32>().ok_or_else(wrong)?;
        let codes = codes.as_string_opt::<i32>().ok_or_else(wrong)?;
        for at in 0..batch.num_rows() {
            let of = self.0.entry(parts.value(at)).or_default();
            let of = of.entry(shards.value(at)).or_default();
            let run = runs.value(at);
            let again = of.rows.insert(run, rows.value(at).to_vec()).is_some();
            let ends = codes.is_valid(at);
            if again || (ends && of.last.is_some()) {
                return Err(failed(&format!(
                    "digests of shard {} for part {} came twice",
                    shards.value(at),
                    parts.value(at)
                )));
            }
            if ends {
                of.last = Some((run, codes.value(at).to_owned()));
            }
        }
        Ok(())
    }

    /// Returns the digests of each part, by shard; group checks that all shards are there.
    pub(crate) fn parts(self) -> impl Iterator<Item = Result<(u64, Vec<UnitDigests>)>> {
        self.0.into_iter().map(|(part, shards)| {
            let mut out = Vec::with_capacity(shards.len());
            for (shard, runs) in shards {
                let whole = runs.last.filter(|(last, _)| {
                    let ends = runs.rows.last_key_value().map(|(run, _)| run);
                    ends == Some(last) && runs.rows.len() as u64 == u64::from(*last) + 1
                });
                let Some((_, hmac)) = whole else {
                    return Err(failed(&format!(
                        "digests of shard {shard} for part {part} did not all come"
                    )));
                };
                out.push(UnitDigests {
                    shard: shard.into(),
                    part: part.into(),
                    rows: runs.rows.into_values().flatten().collect(),
                    hmac,
                });
            }
            Ok((part.into(), out))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digests(part: u64, shard: u64, count: usize) -> UnitDigests {
        UnitDigests {
            shard,
            part,
            rows: (0..count * ROW).map(|at| (at * 7 % 251) as u8).collect(),
            hmac: format!("{part}-{shard}"),
        }
    }

    fn batches(all: &[UnitDigests]) -> Vec<RecordBatch> {
        let (mut writer, mut out) = (Writer::default(), Vec::new());
        for one in all {
            let give = |batch| {
                out.push(batch);
                true
            };
            assert!(writer.enter(one, give).unwrap());
        }
        out.push(writer.finish().unwrap());
        out
    }

    fn read(batches: &[RecordBatch]) -> Result<Vec<(u64, Vec<UnitDigests>)>> {
        let mut reader = Reader::default();
        batches.iter().try_for_each(|batch| reader.enter(batch))?;
        reader.parts().collect()
    }

    #[test]
    fn digests_come_back_in_any_order_and_whole() {
        let all = [
            digests(0, 0, 3 * RUN),
            digests(0, 1, 0),
            digests(2, 0, 40 * RUN + 5),
            digests(2, 1, 1),
        ];
        let mut rows = batches(&all);
        assert!(rows.len() > 1 && rows[0].num_rows() == BATCH);
        rows.reverse();
        let expected = vec![(0, all[..2].to_vec()), (2, all[2..].to_vec())];
        assert_eq!(read(&rows).unwrap(), expected);
        let said = read(&rows[1..]).unwrap_err().to_string();
        assert!(
            said.contains("shard 0 for part 2 did not all come"),
            "{said}"
        );
        let twice = [rows.clone(), rows[..1].to_vec()].concat();
        let said = read(&twice).unwrap_err().to_string();
        assert!(said.contains("came twice"), "{said}");
        let other = read(&[number(3).unwrap()]).unwrap_err().to_string();
        assert!(other.contains("not digests"), "{other}");
        assert_eq!(numbers(&number(3).unwrap()).unwrap(), [3]);
        assert!(numbers(&rows[0]).is_err());
    }
}

//! Writes the posteriors as a table, and opens both output files.

use super::args::Protect;
use super::input::Input;
use super::read::Kind;
use super::run::{Chosen, Found};
use super::weights;
use crate::account::csv::cell;
use crate::contract::{AtomicFile, Csv, no_stream};
use anyhow::{Context, Result, bail};
use std::io::Write;
use std::path::Path;

/// A column of a table.
#[derive(Debug)]
pub(super) enum Column {
    Text(&'static str, Vec<String>),
    Count(&'static str, Vec<i64>),
    Number(&'static str, Vec<f64>),
}

/// The output files, opened before the work so that an unwritable path is found at once.
#[derive(Debug, Default)]
pub(crate) struct Places {
    posteriors: Option<(AtomicFile, Kind)>,
    weights: Option<AtomicFile>,
}

impl Places {
    /// # Errors
    /// Returns an error if a file's extension is not that of a known format or a path can't be
    /// written.
    pub(crate) fn open(wish: &Protect) -> Result<Self> {
        Ok(Self {
            posteriors: wish
                .out
                .as_deref()
                .map(|path| open(path, "--out", wish.force))
                .transpose()?,
            weights: wish
                .weights
                .as_deref()
                .map(|path| open_weights(path, wish.force).context("--weights"))
                .transpose()?,
        })
    }

    /// Writes the files.
    ///
    /// # Errors
    /// Returns an error if the disk is full.
    pub(crate) fn write(self, wish: &Protect, input: &Input, found: &Found) -> Result<()> {
        let Some(chosen) = &found.chosen else {
            return Ok(());
        };
        if let Some((file, kind)) = self.posteriors {
            write(file, kind, &posteriors(input, chosen)).context("--out")?;
        }
        if let Some(file) = self.weights {
            let batches = (wish.batch_size, wish.steps);
            let inputs = &found.document.inputs;
            weights::write(file, input, chosen, batches, inputs).context("--weights")?;
        }
        Ok(())
    }
}

fn open_weights(path: &Path, force: bool) -> Result<AtomicFile> {
    no_stream(path)?;
    if path.extension().and_then(|e| e.to_str()) != Some("json") {
        bail!("the name must end in .json, got {}", path.display());
    }
    AtomicFile::create_new(path, force, &[])
}

fn open(path: &Path, flag: &'static str, force: bool) -> Result<(AtomicFile, Kind)> {
    no_stream(path).context(flag)?;
    let kind = Kind::of(path).context(flag)?;
    if kind == Kind::JsonLines {
        bail!(
            "{flag}: the name must end in .csv or .parquet, got {}",
            path.display()
        );
    }
    #[cfg(not(feature = "parquet"))]
    if kind == Kind::Parquet {
        bail!("{flag}: {}", super::read::no_parquet(path));
    }
    let file = AtomicFile::create_new(path, force, &[]).context(flag)?;
    Ok((file, kind))
}

fn posteriors(input: &Input, chosen: &Chosen) -> Vec<Column> {
    let names = input
        .secrets
        .all()
        .iter()
        .map(ToString::to_string)
        .collect();
    let kinds = input.promises.iter().map(|p| p.kind.clone()).collect();
    let of = |value: &dyn Fn(usize) -> f64| (0..chosen.posteriors.len()).map(value).collect();
    let counts = (0..input.promises.len()).map(|j| input.incidence.examples_of(j).len() as i64);
    let mean = |j: usize| {
        let examples = input.incidence.examples_of(j).iter();
        examples.map(|e| chosen.weighed.rates[*e as usize]).sum()
    };
    vec![
        Column::Text("id", names),
        Column::Text("kind", kinds),
        Column::Number("prior", of(&|j| input.promises[j].secret.prior().get())),
        Column::Number(
            "promise",
            of(&|j| input.promises[j].secret.posterior().get()),
        ),
        Column::Count("examples", counts.collect()),
        Column::Number("mean_draws", of(&mean)),
        Column::Number("blow_up", of(&|j| chosen.posteriors[j].blow_up)),
        Column::Number("kl_fano", of(&|j| chosen.posteriors[j].kl_fano)),
        Column::Number("renyi_fano", of(&|j| chosen.posteriors[j].renyi_fano)),
    ]
}

pub(super) fn write(mut file: AtomicFile, kind: Kind, columns: &[Column]) -> Result<()> {
    match kind {
        #[cfg(feature = "parquet")]
        Kind::Parquet => file = parquet::write(file, columns)?,
        _ => write_csv(&mut file, columns)?,
    }
    file.finish()
}

fn write_csv(file: &mut AtomicFile, columns: &[Column]) -> Result<()> {
    let rows = columns.iter().map(Column::len).min().unwrap_or(0);
    writeln!(
        file,
        "{}",
        columns
            .iter()
            .map(Column::name)
            .collect::<Vec<_>>()
            .join(",")
    )?;
    for row in 0..rows {
        for (index, column) in columns.iter().enumerate() {
            if index > 0 {
                file.write_all(b",")?;
            }
            let text = match column {
                Column::Text(_, values) => Csv::quoted(&values[row]),
                Column::Count(_, values) => values[row].to_string(),
                Column::Number(_, values) => cell(&values[row])?,
            };
            file.write_all(text.as_bytes())?;
        }
        file.write_all(b"\n")?;
    }
    Ok(())
}

impl Column {
    fn name(&self) -> &'static str {
        match self {
            Self::Text(name, _) | Self::Count(name, _) | Self::Number(name, _) => name,
        }
    }
    fn len(&self) -> usize {
        match self {
            Self::Text(_, values) => values.len(),
            Self::Count(_, values) => values.len(),
            Self::Number(_, values) => values.len(),
        }
    }
}

#[cfg(feature = "parquet")]
mod parquet {
    //! A table of one row group, compressed by Snappy.

    use super::Column;
    use crate::contract::AtomicFile;
    use anyhow::Result;
    use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical};
    use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::types::Type;
    use std::sync::Arc;

    pub(super) fn write(file: AtomicFile, columns: &[Column]) -> Result<AtomicFile> {
        let fields = columns.iter().map(field).collect::<Result<Vec<_>>>()?;
        let schema = Type::group_type_builder("schema")
            .with_fields(fields)
            .build()?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .build();
        let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?;
        let mut group = writer.next_row_group()?;
        for column in columns {
            if let Some(mut out) = group.next_column()? {
                match column {
                    Column::Text(_, values) => {
                        let bytes: Vec<ByteArray> =
                            values.iter().map(|v| v.as_str().into()).collect();
                        out.typed::<ByteArrayType>()
                            .write_batch(&bytes, None, None)?;
                    }
                    Column::Count(_, values) => {
                        out.typed::<Int64Type>().write_batch(values, None, None)?;
                    }
                    Column::Number(_, values) => {
                        out.typed::<DoubleType>().write_batch(values, None, None)?;
                    }
                }
                out.close()?;
            }
        }
        group.close()?;
        Ok(writer.into_inner()?)
    }

    fn field(column: &Column) -> Result<Arc<Type>> {
        let (physical, converted) = match column {
            Column::Text(..) => (Physical::BYTE_ARRAY, ConvertedType::UTF8),
            Column::Count(..) => (Physical::INT64, ConvertedType::NONE),
            Column::Number(..) => (Physical::DOUBLE, ConvertedType::NONE),
        };
        let field = Type::primitive_type_builder(column.name(), physical)
            .with_converted_type(converted)
            .with_repetition(Repetition::REQUIRED)
            .build()?;
        Ok(Arc::new(field))
    }
}

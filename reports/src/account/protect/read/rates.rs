//! Sampling rates as `account protect --weights` writes them.

use super::csv::Rows;
use super::{Kind, Place};
use anyhow::{Context, Result, bail};
use std::collections::HashMap;
use std::path::Path;

/// Rate by example.
///
/// # Errors
/// A file that is no CSV with the columns `example` and `rate`, a rate outside [0, 1], an
/// example twice.
pub fn read_rates(path: &Path) -> Result<HashMap<String, f64>> {
    if Kind::of(path)? != Kind::Csv {
        bail!("{}: must be a .csv file", path.display());
    }
    let mut rows = Rows::open(path)?;
    let (example, rate) = (rows.needed(&["example"])?, rows.needed(&["rate"])?);
    let mut rates = HashMap::new();
    while let Some((row, place)) = rows.next()? {
        let name = row.get(example).unwrap_or("").to_owned();
        let value = parsed(row.get(rate).unwrap_or(""), place)?;
        if rates.insert(name.clone(), value).is_some() {
            bail!("{place}: example {name:?} is there twice");
        }
    }
    Ok(rates)
}

fn parsed(text: &str, place: Place<'_>) -> Result<f64> {
    let value: f64 = text
        .parse()
        .with_context(|| format!("{place}: rate must be a number, got {text:?}"))?;
    if (0.0..=1.0).contains(&value) {
        Ok(value)
    } else {
        bail!("{place}: rate must lie in [0, 1], got {text}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<HashMap<String, f64>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("weights.csv");
        std::fs::write(&path, text)?;
        read_rates(&path)
    }

    #[test]
    fn rates_come_by_example_and_bad_ones_with_their_line() {
        let rates = read("example,weight,rate\nunit-0,1,0.25\nunit-7,0.5,0\n").unwrap();
        assert_eq!(rates.len(), 2);
        assert!((rates["unit-0"] - 0.25).abs() < 1e-15);
        for (text, said) in [
            ("example,weight\nunit-0,1\n", "no column rate"),
            (
                "example,rate\nunit-0,1.5\n",
                "line 2: rate must lie in [0, 1], got 1.5",
            ),
            (
                "example,rate\na,0.5\na,0.5\n",
                "line 3: example \"a\" is there twice",
            ),
            ("example,rate\na,much\n", "must be a number, got \"much\""),
        ] {
            let error = format!("{:#}", read(text).unwrap_err());
            assert!(error.contains(said), "{error}");
        }
    }
}

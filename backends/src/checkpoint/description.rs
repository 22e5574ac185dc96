//! Describes a run for its state: a run can be resumed only if the descriptions agree.

use crate::checkpoint::state::RunIdentity;
use crate::error::{Error, Result};
use crate::privacy::ledger::Planned;
use crate::privacy::random::{RunKey, keyed_writer};
use crate::recipe::{Schedule, Work};
use reticent_disk::hexadecimal;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Numbers what the steps of a run compute. Increase it with every change to clipping, gradients, dropout, token masks,
/// noise, samplers, schedules, optimisers or the order of sums: a step that is repeated after such a change would add the
/// same noise to another sum, and the difference of the two releases has no noise.
pub(crate) const ARITHMETIC: u32 = 2;

/// The name of a difference.
const DEVICE: &str = "kind of device (cpu and its vector instructions, cuda or wgpu)";

/// Returns the version of what this program computes.
pub(crate) fn version() -> String {
    format!("{} (arithmetic {ARITHMETIC})", env!("CARGO_PKG_VERSION"))
}

/// Something in which two runs differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// An option by its path, the kind of data, or both versions of the program.
    pub name: String,
    /// The values of an option, here and there; `None` of others. A value is never part of a message by itself: some
    /// are counted in private text.
    pub values: Option<(Value, Value)>,
}

impl Difference {
    fn of(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            values: None,
        }
    }

    fn of_versions(ours: &str, theirs: &str) -> Self {
        Self::of(&format!("version, {ours} here and {theirs} there"))
    }
}

/// Joins the names of differences.
pub(crate) fn names(differ: &[Difference]) -> String {
    let names: Vec<&str> = differ.iter().map(|d| d.name.as_str()).collect();
    names.join(", ")
}

/// The description of a run. It contains the options in clear, but text only as digests under the run's key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Description {
    /// The version of the program that computes the run.
    version: String,
    options: Value,
    data: BTreeMap<String, String>,
    planned: Vec<Planned>,
}

/// Computes a digest under the run's key without copying the whole text.
fn digest<T: Serialize>(key: &RunKey, what: &str, part: &T) -> Result<(String, String)> {
    let mut keyed = keyed_writer(key.bytes(), what);
    serde_json::to_writer(&mut keyed, part).map_err(Error::engine)?;
    Ok((what.to_owned(), hexadecimal(&keyed.finish())))
}

impl Description {
    pub(crate) fn of(key: &RunKey, run: &RunIdentity<'_>) -> Result<Self> {
        let RunIdentity {
            options, corpus, ..
        } = run;
        let mut data = BTreeMap::from([
            digest(key, "records", corpus.set)?,
            digest(key, "sensitive tokens", &corpus.sensitive)?,
            digest(key, "rates of records", &corpus.rates)?,
            digest(key, "held-out text", &corpus.held_out)?,
            digest(key, "starting weights", &run.weights)?,
            // Another model with the same weights has other gradients, which the same noise must not meet.
            digest(key, "architecture of the model", run.model)?,
            // So have other roundings.
            digest(key, "order of sums (WORLD_SIZE set, or not)", &run.lanes)?,
            digest(key, DEVICE, &run.device)?,
            digest(key, "margin of norms", &run.margin)?,
        ]);
        // So has another base below the same adapter.
        if run.adapter.is_some() {
            data.extend([digest(key, "adapter and its base", &run.adapter)?]);
        }
        if corpus.held_out_ignored.is_some() {
            data.extend([digest(
                key,
                "tokens of held-out text without loss",
                &corpus.held_out_ignored,
            )?]);
        }
        // Classes and masked tokens take the place of next tokens as targets.
        if corpus.held_out_labels.is_some() {
            data.extend([digest(
                key,
                "classes of held-out text",
                &corpus.held_out_labels,
            )?]);
        }
        if corpus.masking.is_some() {
            data.extend([digest(key, "masked tokens", &corpus.masking)?]);
        }
        let mut options = serde_json::to_value(options).map_err(Error::engine)?;
        // Whether the corpus was authenticated says nothing of what it is: the digests below do.
        if let Some(plan) = options.get_mut("plan").and_then(Value::as_object_mut) {
            plan.shift_remove("unauthenticated_corpus");
        }
        Ok(Self {
            version: version(),
            options,
            data,
            planned: planned(run.schedule),
        })
    }

    /// Reads the description in a ledger or a snapshot. That of another version may have another form.
    pub(crate) fn read(path: &Path, run: Value) -> Result<Self> {
        let theirs = run.get("version").and_then(Value::as_str);
        let theirs = theirs.unwrap_or("an earlier one").to_owned();
        serde_json::from_value(run).map_err(|e| {
            if theirs == version() {
                return Error::state(path, format!("its header describes no run: {e}"));
            }
            Error::OtherRun {
                path: path.to_path_buf(),
                differ: vec![Difference::of_versions(&version(), &theirs)],
            }
        })
    }

    pub(crate) fn planned(&self) -> &[Planned] {
        &self.planned
    }

    /// What differs, by name: options by their path, data by kind; of runs of two versions, the version alone.
    pub(crate) fn differences(&self, other: &Self) -> Vec<Difference> {
        if self.version != other.version {
            return vec![Difference::of_versions(&self.version, &other.version)];
        }
        let mut found = BTreeMap::new();
        options_differ("", &self.options, &other.options, &mut found);
        for part in self.data.keys().chain(other.data.keys()) {
            if self.data.get(part) != other.data.get(part) {
                found.insert(part.clone(), Difference::of(part));
            }
        }
        if found.is_empty() && self.planned != other.planned {
            let planned = "planned private steps";
            found.insert(planned.to_owned(), Difference::of(planned));
        }
        found.into_values().collect()
    }
}

/// Collects the paths of options that differ.
fn options_differ(at: &str, one: &Value, other: &Value, found: &mut BTreeMap<String, Difference>) {
    match (one, other) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys()) {
                let path = if at.is_empty() {
                    key.clone()
                } else {
                    format!("{at}.{key}")
                };
                let of = |map: &serde_json::Map<String, Value>| {
                    map.get(key).cloned().unwrap_or(Value::Null)
                };
                options_differ(&path, &of(a), &of(b), found);
            }
        }
        _ if one == other => {}
        _ => {
            let values = Some((one.clone(), other.clone()));
            let name = at.to_owned();
            found.insert(name.clone(), Difference { name, values });
        }
    }
}

/// Returns the private steps of a schedule, stage by stage.
fn planned(schedule: &Schedule) -> Vec<Planned> {
    let stages = schedule.stages.iter().enumerate();
    stages
        .filter_map(|(number, stage)| {
            let released = match &stage.work {
                Work::Public { .. } => return None,
                Work::Private { .. } => "gradient",
                Work::Selective { .. } => "gradient and states",
            };
            Some(Planned {
                stage: number as u64,
                released: released.to_owned(),
                first: stage.first_index,
                end: stage.first_index + schedule.steps_of(number),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::random::{ChaChaNoise, Noise, PoissonSampler, Sampler};
    use crate::privacy::step::lanes;
    use crate::privacy::{Clip, Clipping, SquaredNorms};
    use crate::trainer::{Example, PrivateBatch};
    use reticent_accounting::SamplingRate;

    /// Noise, a batch, its lanes and clipping factors of arithmetic 2. If one of them changes, increase [`ARITHMETIC`] too.
    #[test]
    fn the_arithmetic_is_the_one_of_its_number() {
        assert_eq!(ARITHMETIC, 2);
        let key = RunKey::from_seed(7);
        let mut noise = [0.0f32; 4];
        ChaChaNoise::new(key.clone()).add(5, 2, 1.5, &mut noise);
        assert_eq!(
            noise.map(f32::to_bits),
            [0x3f72_a123, 0xc04c_dc64, 0x3e54_f929, 0xbeea_8a11]
        );
        let quarter = SamplingRate::new(0.25).unwrap();
        let batch = PoissonSampler::new(key, quarter, 32).batch(5);
        assert_eq!(batch, [7, 8, 10, 17, 24]);
        let tokens = [0; 5];
        let examples = (0..11).map(|record| Example::whole(record, &tokens[record as usize % 3..]));
        let dealt = lanes(PrivateBatch(examples.collect()));
        let dealt = dealt.map(|lane| lane.examples().map(|e| e.record).collect::<Vec<_>>());
        let expected: [&[u32]; 8] = [&[0, 2], &[1], &[6, 8], &[7], &[3, 5], &[4], &[9], &[10]];
        assert_eq!(dealt, expected);
        // Of two groups of squared norms 4 and 5.
        let norms = SquaredNorms::new(2, vec![4.0, 5.0]).unwrap();
        let automatic = Clipping::Automatic { stability: 0.01 };
        for (kind, bits) in [
            (Clipping::Flat, [0x3eaa_9fbf; 2]),
            (Clipping::PerLayer, [0x3eb4_f95e, 0x3ea1_de3f]),
            (automatic, [0x3eaa_0eaa; 2]),
        ] {
            let factors = Clip::new(1.0, 2.5e-4).unwrap().by(kind).unwrap();
            let factors = factors.factors(&norms);
            let found = [0, 1].map(|group| factors.of(0, group).to_bits());
            assert_eq!(found, bits, "{kind:?}");
        }
    }
}

//! Mechanisms, and the questions about them.

use crate::bounds::Bounds;
use crate::defaults::{Defaults, Taking};
use crate::error::{of, unknown, value_error};
use crate::number::{Number, Whole};
use crate::report::{Question, Report, reported};
use crate::waiting::interruptible;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use reticent_accounting::training::{Base, CompletedRun, Document, NoisySteps, Stated, read};
use reticent_accounting::{
    Delta, Epsilon, GroupSize, Mechanism, Neighbours, NoiseMultiplier, PrivacyLoss, Probability,
    Query, Sampling, SamplingRate, Steps, Tolerance, UnitName, pld, trade_off::true_positive_rate,
};
use serde::de::{IntoDeserializer, value};
use serde::{Deserialize, Serialize};

/// A mechanism: DP-SGD by its numbers, or any mechanism from JSON.
///
/// sigma: noise standard deviation over clipping norm, in (0, inf).
/// sample_rate: the probability (or share) of each record in a batch, in [0, 1].
/// steps: batches, from 0 on.
/// sampler: how batches are drawn: "poisson" (each record independently), "shuffled" (what
/// ordinary loaders do; no privacy amplification), "balls-in-bins" or "without-replacement".
///
/// >>> import reticent
/// >>> plan = reticent.Plan(sigma=1.1, sample_rate=0.01, steps=10_000)
/// >>> 5.19258 < plan.epsilon(delta=1e-5).upper < 5.19259
/// True
#[pyclass(frozen, module = "reticent")]
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) mechanism: Mechanism,
    pub(crate) beside: Beside,
}

/// What is known of a run besides its mechanism, from the document that it was read from.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Beside {
    /// What one record is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unit: Option<UnitName>,
    /// The model of others that it began from.
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<Base>,
    /// Whether it rests on held-out text that was declared public.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    held_out_public: bool,
    /// The documents that no owner's key authenticates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_authenticated: Vec<&'static str>,
    /// The δ of its promises.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) delta: Option<Delta>,
    /// The most records that differ if one of its canaries does, in earlier runs too.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) canary_records: u64,
    /// Whether more may differ in an earlier run.
    pub(crate) canary_records_unknown: bool,
}

const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Beside {
    /// Returns what a document says. No checkpoint is beside its text, so that nobody vouches for a manifest.
    fn of(document: &Document) -> Self {
        let unknown = document.is_manifest() || document.not_authenticated;
        Self {
            unit: document.unit.clone(),
            base: document.base,
            held_out_public: document.held_out_public,
            not_authenticated: unknown.then_some("text").into_iter().collect(),
            // As the command takes it: the default for its records, if it holds only their number.
            delta: (document.delta.is_some() || document.records.is_some())
                .then(|| document.delta_or_default()),
            canary_records: document.canary_records,
            canary_records_unknown: document.canary_records_unknown,
        }
    }

    /// Returns what is known of two runs together.
    fn and(&self, other: &Self) -> PyResult<Self> {
        if let (Some(one), Some(two)) = (&self.unit, &other.unit)
            && one != two
        {
            return Err(value_error(format!(
                "other: one record is a {two} in it and a {one} in this plan: these runs cannot be composed"
            )));
        }
        let run = |beside: &Self| CompletedRun {
            base: beside.base,
            held_out_public: beside.held_out_public,
            ..CompletedRun::of(Mechanism::Sequence { parts: Vec::new() })
        };
        let both = CompletedRun::sequence(vec![run(self), run(other)]);
        let unknown = [&self.not_authenticated, &other.not_authenticated];
        Ok(Self {
            unit: self.unit.clone().or_else(|| other.unit.clone()),
            base: both.base,
            held_out_public: both.held_out_public,
            not_authenticated: unknown.into_iter().flatten().copied().take(1).collect(),
            delta: match (self.delta, other.delta) {
                (Some(one), Some(two)) if two.get() < one.get() => Some(two),
                (one, two) => one.or(two),
            },
            canary_records: self.canary_records.max(other.canary_records),
            canary_records_unknown: self.canary_records_unknown || other.canary_records_unknown,
        })
    }

    /// Returns what is to be said of a promise by the run.
    #[cfg(feature = "audit")]
    pub(crate) fn caveat(&self) -> Option<String> {
        let unknown = (!self.not_authenticated.is_empty()).then(|| {
            "made from files that were not authenticated: a consistent forgery would not have been noticed".to_owned()
        });
        let outside = reticent_accounting::training::outside_text(self.base, self.held_out_public);
        let outside = outside.map(|text| format!("not covered is {text}"));
        let said: Vec<String> = unknown.into_iter().chain(outside).collect();
        (!said.is_empty()).then(|| said.join("; "))
    }
}

/// A plan as JSON.
#[derive(Serialize)]
struct Written<'a> {
    #[serde(flatten)]
    beside: &'a Beside,
    mechanism: &'a Mechanism,
}

pub(crate) fn neighbours_of(word: &str) -> PyResult<Neighbours> {
    Ok(match word {
        "add-remove" => Neighbours::AddRemove,
        "zero-out" => Neighbours::ZeroOut,
        "replace" => Neighbours::Replace,
        other => {
            let allowed = "\"add-remove\", \"zero-out\", \"replace\"";
            return Err(unknown("neighbours", other, allowed));
        }
    })
}

/// Refuses neighbours for a posterior, which is about a secret that records contain or not; the other
/// relations say nothing about it.
pub(crate) fn no_neighbours_of_posterior(neighbours: Option<&str>) -> PyResult<()> {
    match neighbours {
        None => Ok(()),
        Some(given) => Err(PyValueError::new_err(format!(
            "neighbours: a posterior has its own, \"zero-out\"; leave it out, got {given:?}"
        ))),
    }
}

fn group_of(group: Whole) -> PyResult<GroupSize> {
    let given = group.named("group")?;
    let size = u32::try_from(given).map_err(|_| {
        PyValueError::new_err(format!(
            "group: group size must lie in [1, 10000], got {given}"
        ))
    })?;
    of("group", GroupSize::new(size))
}

pub(crate) fn steps_of(steps: Whole) -> PyResult<Steps> {
    let given = steps.named("steps")?;
    match u64::try_from(given) {
        Ok(count) if count <= Steps::MOST.get() => Ok(Steps::new(count)),
        _ => Err(PyValueError::new_err(format!(
            "steps: number of steps must lie in [0, 2^53], got {given}"
        ))),
    }
}

/// The terms of a question: as given, otherwise by the project's defaults, otherwise our own defaults.
pub(crate) struct Terms<'a> {
    pub(crate) taking: Taking<'a>,
    pub(crate) query: Query,
    pub(crate) tolerance: Tolerance,
}

impl<'a> Terms<'a> {
    pub(crate) fn new(
        defaults: Option<&'a Defaults>,
        neighbours: Option<&str>,
        group: Option<Whole>,
        tolerance: Option<Number>,
    ) -> PyResult<Self> {
        let mut taking = Taking::from(defaults);
        let neighbours = neighbours.map(neighbours_of).transpose()?;
        let neighbours = taking.or("neighbours", neighbours, |file| file.neighbours);
        let group = taking.or("group", group.map(group_of).transpose()?, |file| file.group);
        let tolerance = tolerance
            .map(|t| of("tolerance", Tolerance::new(t.named("tolerance")?)))
            .transpose()?;
        let tolerance = taking.or("tolerance", tolerance, |file| file.tolerance);
        Ok(Self {
            taking,
            query: Query {
                neighbours: neighbours.unwrap_or(Neighbours::AddRemove),
                group: group.unwrap_or(GroupSize::ONE),
            },
            tolerance: tolerance.unwrap_or(Tolerance::DEFAULT),
        })
    }

    pub(crate) fn delta(&mut self, given: Option<Number>) -> PyResult<Delta> {
        let given = given
            .map(|delta| of("delta", Delta::new(delta.named("delta")?)))
            .transpose()?;
        self.taking.need("delta", given, |file| file.delta)
    }

    fn prior(&mut self, given: Option<Number>) -> PyResult<Probability> {
        let given = given
            .map(|prior| of("prior", Probability::new(prior.named("prior")?)))
            .transpose()?;
        self.taking.need("prior", given, |file| file.prior)
    }
}

pub(crate) fn sampling_of(word: &str) -> PyResult<Sampling> {
    // Also reads with-replacement, which is refused with its reason wherever a bound is asked for, and so not offered.
    Sampling::deserialize(word.into_deserializer()).map_err(|_: value::Error| {
        let allowed = "\"poisson\", \"shuffled\", \"balls-in-bins\", \"without-replacement\"";
        unknown("sampler", word, allowed)
    })
}

/// Returns DP-SGD as the accounting crate's noisy steps.
pub(crate) fn noisy(
    sigma: NoiseMultiplier,
    rate: SamplingRate,
    steps: Steps,
    sampling: Sampling,
) -> NoisySteps {
    NoisySteps {
        noise_multiplier: Stated::given(sigma, "sigma"),
        sampling: Stated::given(sampling, "sampler"),
        sampling_rate: Stated::given(rate, "sample_rate"),
        steps_per_epoch: Steps::per_epoch(rate).get(),
        steps: Stated::given(steps, "steps"),
        noise_decay: None,
    }
}

impl Plan {
    /// Creates a plan of which only the mechanism is known.
    pub(crate) fn of(mechanism: Mechanism) -> Self {
        Self {
            mechanism,
            beside: Beside::default(),
        }
    }

    fn question(
        &self,
        delta: Delta,
        query: Query,
        tolerance: Tolerance,
    ) -> PyResult<reticent_accounting::Plan> {
        let unit = UnitName::new("record").map_err(value_error)?;
        Ok(reticent_accounting::Plan {
            neighbours: query.neighbours,
            group: query.group,
            tolerance,
            ..reticent_accounting::Plan::new(self.mechanism.clone(), unit, delta)
        })
    }

    fn posterior_of(
        &self,
        prior: Probability,
        group: GroupSize,
        tolerance: Tolerance,
    ) -> reticent_accounting::Result<Bounds> {
        let loss = PrivacyLoss::of_guesses(&self.mechanism, group)?.0;
        Ok(Bounds::of(loss.blow_up(prior, tolerance)?.bounds))
    }
}

/// Returns the parts that run one after another.
fn parts_of(mechanism: &Mechanism) -> &[Mechanism] {
    match mechanism {
        Mechanism::Sequence { parts } => parts,
        one => std::slice::from_ref(one),
    }
}

/// Returns how often a mechanism runs, and the mechanism. Steps of an epoch are one run, which isn't taken apart.
fn counted(part: &Mechanism) -> (u64, Mechanism) {
    match part {
        Mechanism::Repeat { times, each } if !each.draws_by_epochs() => {
            (times.get(), (**each).clone())
        }
        step if step.draws_by_epochs() => (
            1,
            Mechanism::Repeat {
                times: Steps::new(1),
                each: Box::new(step.clone()),
            },
        ),
        one => (1, one.clone()),
    }
}

/// Merges two equal parts into a repetition, so that a plan composed in a loop stays small.
fn repeated(first: &Mechanism, second: &Mechanism) -> Option<Mechanism> {
    let ((before, each), (after, other)) = (counted(first), counted(second));
    let times = before
        .checked_add(after)
        .filter(|&times| times <= Steps::MOST.get())?;
    (each == other).then(|| each.repeated(Steps::new(times)))
}

#[pymethods]
impl Plan {
    #[new]
    #[pyo3(signature = (*, sigma, sample_rate, steps, sampler = "poisson"))]
    fn new(sigma: Number, sample_rate: Number, steps: Whole, sampler: &str) -> PyResult<Self> {
        let sigma = of("sigma", NoiseMultiplier::new(sigma.named("sigma")?))?;
        let rate = of(
            "sample_rate",
            SamplingRate::new(sample_rate.named("sample_rate")?),
        )?;
        let steps = noisy(sigma, rate, steps_of(steps)?, sampling_of(sampler)?);
        Ok(Self::of(steps.mechanism()))
    }

    /// Reads a mechanism from JSON: a mechanism.json, a checkpoint's manifest.json, a document of the
    /// command `account`, or an event of Google's dp_accounting (`json.dumps(event.to_named_tuple())`).
    /// An event that is only a promise is taken to be for `neighbours`. Raises ValueError for anything
    /// that is not covered.
    ///
    /// >>> import reticent
    /// >>> plan = reticent.Plan.from_json('{"type": "gaussian", "noise_multiplier": 1}')
    /// >>> abs(plan.delta(epsilon=1).upper - 0.12693673750664394) < 1e-9
    /// True
    #[staticmethod]
    #[pyo3(signature = (text, *, neighbours = "add-remove"))]
    fn from_json(text: &str, neighbours: &str) -> PyResult<Self> {
        let document = of("text", read(text, neighbours_of(neighbours)?))?;
        let beside = Beside::of(&document);
        let run = document.completed();
        if let Some(recipe) = run.narrower() {
            return Err(value_error(format!(
                "text: {recipe} promises less than differential privacy, which a Plan speaks of; account compose says what"
            )));
        }
        Ok(Self {
            mechanism: run.mechanism,
            beside,
        })
    }

    /// Returns the mechanism as JSON: the content of a mechanism.json, which `account --mechanism` and
    /// `from_json` read, with what its document said beside it (unit, base, δ, the records of canaries, what was not
    /// authenticated).
    fn to_json(&self) -> PyResult<String> {
        let beside = &self.beside;
        let bare = *beside == Beside::default();
        let text = match bare {
            true => serde_json::to_string(&self.mechanism),
            false => serde_json::to_string(&Written {
                beside,
                mechanism: &self.mechanism,
            }),
        };
        text.map_err(value_error)
    }

    /// Returns this plan followed by another one on the same data, composed adaptively. One record is what either of them
    /// says; raises ValueError if they differ.
    ///
    /// >>> import reticent
    /// >>> half = reticent.Plan(sigma=1.1, sample_rate=0.01, steps=500)
    /// >>> whole = reticent.Plan(sigma=1.1, sample_rate=0.01, steps=1000)
    /// >>> both = half.then(half).epsilon(delta=1e-5)
    /// >>> abs(both.upper - whole.epsilon(delta=1e-5).upper) < 1e-5
    /// True
    fn then(&self, other: PyRef<'_, Self>) -> PyResult<Self> {
        let beside = self.beside.and(&other.beside)?;
        let mut parts = parts_of(&self.mechanism).to_vec();
        for part in parts_of(&other.mechanism) {
            let more = parts.last().and_then(|last| repeated(last, part));
            match more {
                Some(more) => {
                    parts.pop();
                    parts.push(more);
                }
                None => parts.push(part.clone()),
            }
        }
        Ok(Self {
            mechanism: Mechanism::Sequence { parts },
            beside,
        })
    }

    /// Returns ε at `delta`, with both certified ends, for neighbours that differ in `group` records.
    ///
    /// neighbours: "add-remove" (one record more or less; the default), "zero-out" or "replace".
    /// tolerance: the largest relative distance of the two ends, in [1e-12, 0.5]; 1e-6 by default.
    /// defaults: those of a project (`reticent.defaults`), used for what is not given and shown in the
    /// answer.
    #[pyo3(signature = (delta = None, *, neighbours = None, group = None, tolerance = None, defaults = None))]
    fn epsilon(
        &self,
        py: Python<'_>,
        delta: Option<Number>,
        neighbours: Option<&str>,
        group: Option<Whole>,
        tolerance: Option<Number>,
        defaults: Option<PyRef<'_, Defaults>>,
    ) -> PyResult<Bounds> {
        let mut terms = Terms::new(defaults.as_deref(), neighbours, group, tolerance)?;
        let delta = terms.delta(delta)?;
        let plan = self.question(delta, terms.query, terms.tolerance)?;
        let epsilon = interruptible(py, move |_| plan.epsilon())?.map_err(value_error)?;
        Ok(Bounds::of(epsilon).with(terms.taking.configured()?))
    }

    /// Returns δ at `epsilon`, with both certified ends.
    ///
    /// >>> import reticent
    /// >>> plan = reticent.Plan(sigma=1.1, sample_rate=0.01, steps=10_000)
    /// >>> delta = plan.delta(epsilon=5.19258344588)
    /// >>> 0.99999e-5 < delta.lower < delta.upper < 1.00001e-5
    /// True
    #[pyo3(signature = (epsilon, *, neighbours = None, group = None, tolerance = None, defaults = None))]
    fn delta(
        &self,
        py: Python<'_>,
        epsilon: Number,
        neighbours: Option<&str>,
        group: Option<Whole>,
        tolerance: Option<Number>,
        defaults: Option<PyRef<'_, Defaults>>,
    ) -> PyResult<Bounds> {
        let epsilon = of("epsilon", Epsilon::new(epsilon.named("epsilon")?))?;
        let terms = Terms::new(defaults.as_deref(), neighbours, group, tolerance)?;
        // For a question at an ε, the plan's own δ doesn't matter.
        let unused = Delta::new(0.0).map_err(value_error)?;
        let plan = self.question(unused, terms.query, terms.tolerance)?;
        let row = interruptible(py, move |_| plan.exactly_at(epsilon))?.map_err(value_error)?;
        let delta = row
            .delta_bounds
            .unwrap_or(reticent_accounting::Bounds::UNKNOWN);
        Ok(Bounds::of(delta).with(terms.taking.configured()?))
    }

    /// Returns the largest true-positive rate of any membership test whose false-positive rate is at most
    /// `fpr`, with both certified ends.
    ///
    /// >>> import reticent
    /// >>> plan = reticent.Plan(sigma=1.1, sample_rate=0.01, steps=1000)
    /// >>> 0.0033 < plan.tpr(fpr=0.001).upper < 0.0034
    /// True
    #[pyo3(signature = (fpr, *, neighbours = None, group = None, tolerance = None, defaults = None))]
    fn tpr(
        &self,
        py: Python<'_>,
        fpr: Number,
        neighbours: Option<&str>,
        group: Option<Whole>,
        tolerance: Option<Number>,
        defaults: Option<PyRef<'_, Defaults>>,
    ) -> PyResult<Bounds> {
        let fpr = of("fpr", Probability::new(fpr.named("fpr")?))?;
        let terms = Terms::new(defaults.as_deref(), neighbours, group, tolerance)?;
        let (mechanism, query, tolerance) = (self.mechanism.clone(), terms.query, terms.tolerance);
        let found = interruptible(py, move |_| {
            true_positive_rate(&mechanism, query, fpr, tolerance)
        })?;
        Ok(Bounds::of(found.map_err(value_error)?.bounds).with(terms.taking.configured()?))
    }

    /// Returns the largest probability of guessing a secret after training, with both certified ends. The
    /// secret is contained in `group` records and was guessed with probability `prior` beforehand.
    ///
    /// >>> import reticent
    /// >>> plan = reticent.Plan(sigma=1.1, sample_rate=0.01, steps=1000)
    /// >>> 6.6e-6 < plan.posterior(prior=1e-6).upper < 6.7e-6
    /// True
    #[pyo3(signature = (prior = None, *, group = None, tolerance = None, defaults = None))]
    fn posterior(
        &self,
        py: Python<'_>,
        prior: Option<Number>,
        group: Option<Whole>,
        tolerance: Option<Number>,
        defaults: Option<PyRef<'_, Defaults>>,
    ) -> PyResult<Bounds> {
        // A posterior has its own neighbours.
        let mut terms = Terms::new(defaults.as_deref(), Some("zero-out"), group, tolerance)?;
        let prior = terms.prior(prior)?;
        let (plan, group, tolerance) = (self.clone(), terms.query.group, terms.tolerance);
        let found = interruptible(py, move |_| plan.posterior_of(prior, group, tolerance))?;
        Ok(found.map_err(value_error)?.with(terms.taking.configured()?))
    }

    /// Returns one of four curves at the given places, as a list of (place, Bounds) in their order:
    /// "epsilon" (ε at each δ), "profile" (δ at each ε), "trade-off" (true-positive rate at each
    /// false-positive rate) or "posterior" (at each prior, without `neighbours`: it has its own).
    ///
    /// >>> import reticent
    /// >>> plan = reticent.Plan(sigma=1.1, sample_rate=0.01, steps=1000)
    /// >>> [(at, round(tpr.upper, 3)) for at, tpr in plan.curve("trade-off", [0.001, 0.1])]
    /// [(0.001, 0.003), (0.1, 0.179)]
    #[pyo3(signature = (what, at, *, neighbours = None, group = None, tolerance = None, defaults = None))]
    #[expect(clippy::too_many_arguments, reason = "keywords of one question")]
    fn curve(
        &self,
        py: Python<'_>,
        what: &str,
        at: Vec<Number>,
        neighbours: Option<&str>,
        group: Option<Whole>,
        tolerance: Option<Number>,
        defaults: Option<Py<Defaults>>,
    ) -> PyResult<Vec<(f64, Bounds)>> {
        match what {
            "epsilon" | "profile" | "trade-off" => {}
            "posterior" => no_neighbours_of_posterior(neighbours)?,
            other => {
                let allowed = "\"epsilon\", \"profile\", \"trade-off\", \"posterior\"";
                return Err(unknown("what", other, allowed));
            }
        }
        let each = |x: Number| {
            let (group, tolerance) = (group.clone(), tolerance.clone());
            let defaults = defaults.as_ref().map(|defaults| defaults.borrow(py));
            match what {
                "epsilon" => self.epsilon(py, Some(x), neighbours, group, tolerance, defaults),
                "profile" => self.delta(py, x, neighbours, group, tolerance, defaults),
                "trade-off" => self.tpr(py, x, neighbours, group, tolerance, defaults),
                _ => self.posterior(py, Some(x), group, tolerance, defaults),
            }
        };
        at.into_iter()
            .map(|x| Ok((x.clone().named("at")?, each(x)?)))
            .collect()
    }

    /// Returns the report of `account` on this plan: the promise in words for a model card, a page, and a
    /// document that `account compose`, `audit` and other programs read.
    ///
    /// unit: what one record is: sentence, turn, document, user, …; by default as the plan's document says, else
    /// "record". Raises ValueError if that document says another one.
    ///
    /// >>> import reticent
    /// >>> plan = reticent.Plan(sigma=1.1, sample_rate=0.01, steps=1000)
    /// >>> "Epsilon is at most 1.51537 at delta 1e-5" in plan.report(delta=1e-5, unit="turn").card
    /// True
    #[pyo3(signature = (delta = None, *, neighbours = None, group = None, unit = None, tolerance = None, defaults = None))]
    #[expect(clippy::too_many_arguments, reason = "keywords of one question")]
    fn report(
        &self,
        py: Python<'_>,
        delta: Option<Number>,
        neighbours: Option<&str>,
        group: Option<Whole>,
        unit: Option<&str>,
        tolerance: Option<Number>,
        defaults: Option<PyRef<'_, Defaults>>,
    ) -> PyResult<Report> {
        let mut terms = Terms::new(defaults.as_deref(), neighbours, group, tolerance)?;
        let delta = terms.delta(delta)?;
        let unit = unit
            .map(|unit| of("unit", UnitName::new(unit)))
            .transpose()?;
        let unit = terms.taking.or("unit", unit, |file| file.unit.clone());
        let question = Question {
            delta,
            neighbours: terms.query.neighbours,
            group: terms.query.group,
            unit,
            tolerance: terms.tolerance,
        };
        reported(py, self.to_json()?, question, terms.taking.configured()?)
    }

    /// Raises ValueError if nothing can be said about single records with these neighbours.
    fn require_covered(&self, neighbours: &str) -> PyResult<()> {
        let query = Query::single(neighbours_of(neighbours)?);
        pld::losses(&self.mechanism, query)
            .map(drop)
            .map_err(value_error)
    }

    fn __repr__(&self) -> PyResult<String> {
        Ok(format!("Plan.from_json({:?})", self.to_json()?))
    }

    fn __eq__(&self, other: PyRef<'_, Self>) -> PyResult<bool> {
        Ok(self.to_json()? == other.to_json()?)
    }

    fn __reduce__(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, (String,))> {
        let class = py.get_type::<Self>();
        Ok((class.getattr("from_json")?.unbind(), (self.to_json()?,)))
    }
}

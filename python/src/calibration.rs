//! Finds the parameter of a plan that just keeps a promise.

use crate::accounting::{Plan, Terms, no_neighbours_of_posterior, noisy, sampling_of, steps_of};
use crate::defaults::Defaults;
use crate::error::{of, read, value_error};
use crate::number::{Number, Whole};
use crate::report::to_python;
use crate::waiting::interruptible;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use reticent_accounting::calibrate::{
    Calibration as Found, Target, calibrate_noise, calibrate_rate, calibrate_steps,
};
use reticent_accounting::{
    Delta, Epsilon, Mechanism, NoiseMultiplier, Probability, Query, SamplingRate, Steps,
};
use reticent_reports::defaults::Configured;
use std::sync::atomic::{AtomicBool, Ordering};

/// The last value of a parameter at which a promise is certified.
#[pyclass(frozen, module = "reticent")]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Calibration {
    solved: &'static str,
    answer: f64,
    fails: Option<f64>,
    mechanism: Mechanism,
    configured: Configured,
}

/// A value of a parameter as Python writes it.
#[derive(IntoPyObject)]
enum Value {
    Whole(u64),
    Real(f64),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole(value) => write!(f, "{value}"),
            Self::Real(value) => write!(f, "{value:?}"),
        }
    }
}

impl Calibration {
    fn value(&self, value: f64) -> Value {
        match self.solved {
            "steps" => Value::Whole(value as u64),
            _ => Value::Real(value),
        }
    }
}

/// The content of a pickle: a function and its arguments.
type Reduced = (Py<PyAny>, (&'static str, f64, Option<f64>, Plan, String));

#[pymethods]
impl Calibration {
    /// The parameter that was found: "sigma", "sample_rate" or "steps".
    #[getter]
    const fn solved(&self) -> &'static str {
        self.solved
    }

    /// The value at which the promise is certified: the safe end. A number of steps is an int.
    #[getter]
    fn answer(&self) -> Value {
        self.value(self.answer)
    }

    /// A value at which the promise could not be certified; None if every value keeps it.
    #[getter]
    fn fails(&self) -> Option<Value> {
        self.fails.map(|value| self.value(value))
    }

    /// The plan at the answer.
    #[getter]
    fn plan(&self) -> Plan {
        Plan::of(self.mechanism.clone())
    }

    /// What was taken from a project's `reticent.toml`, by key; empty if nothing was.
    #[getter]
    fn configured<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.configured.values)
    }

    fn __repr__(&self) -> String {
        let fails = self.fails();
        let fails = fails.map_or("None".to_owned(), |fails| fails.to_string());
        let (solved, answer) = (self.solved, self.answer());
        let from = self
            .configured
            .line()
            .map_or_else(String::new, |line| format!("; {line}"));
        format!("Calibration(solved='{solved}', answer={answer}, fails={fails}{from})")
    }

    /// Rebuilds a calibration from the content of a pickle.
    #[staticmethod]
    fn _of(
        solved: &str,
        answer: f64,
        fails: Option<f64>,
        plan: PyRef<'_, Plan>,
        configured: &str,
    ) -> PyResult<Self> {
        let known = ["sigma", "sample_rate", "steps"];
        let solved = known.into_iter().find(|name| *name == solved);
        Ok(Self {
            solved: solved.ok_or_else(|| value_error("solved: no parameter of a plan"))?,
            answer,
            fails,
            mechanism: plan.mechanism.clone(),
            configured: read("configured", configured)?,
        })
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<Reduced> {
        let this = slf.get();
        let configured = serde_json::to_string(&this.configured).map_err(value_error)?;
        let state = (
            this.solved,
            this.answer,
            this.fails,
            this.plan(),
            configured,
        );
        Ok((slf.get_type().getattr("_of")?.unbind(), state))
    }

    fn __eq__(&self, other: PyRef<'_, Self>) -> bool {
        *self == *other
    }
}

fn target(
    pairs: [(&'static str, Option<f64>, &'static str, Option<f64>); 3],
    query: Query,
) -> PyResult<Target> {
    let mut given = Vec::new();
    for (number, (first, a, second, b)) in pairs.into_iter().enumerate() {
        match (a, b) {
            (Some(a), Some(b)) => given.push((number, a, b)),
            (None, None) => {}
            _ => {
                let why = format!("{first}, {second}: one is given without the other");
                return Err(PyValueError::new_err(why));
            }
        }
    }
    let [(number, a, b)] = given[..] else {
        return Err(PyValueError::new_err(
            "give exactly one promise: epsilon and delta, prior and posterior, or fpr and tpr",
        ));
    };
    Ok(match number {
        0 => Target::Epsilon {
            query,
            epsilon: of("epsilon", Epsilon::new(a))?,
            delta: of("delta", Delta::new(b))?,
        },
        1 => Target::Posterior {
            group: query.group,
            prior: of("prior", Probability::new(a))?,
            posterior: of("posterior", Probability::new(b))?,
        },
        _ => Target::TruePositiveRate {
            query,
            fpr: of("fpr", Probability::new(a))?,
            tpr: of("tpr", Probability::new(b))?,
        },
    })
}

/// Returns the mechanism to account for. Once the answer is unwanted, returns one that keeps no promise, which ends
/// the search at once.
fn wanted(unwanted: &AtomicBool, run: impl FnOnce() -> Mechanism) -> Mechanism {
    if unwanted.load(Ordering::Relaxed) {
        let why = "the search was interrupted".to_owned();
        return Mechanism::NonPrivate { why };
    }
    run()
}

fn numbers<T: Copy>(found: Found<T>, get: impl Fn(T) -> f64) -> (f64, Option<f64>) {
    (get(found.answer), found.fails.map(get))
}

/// Finds the least noise (or the highest sample rate, or the most steps) that keeps a promise: give two of `sigma`,
/// `sample_rate` and `steps`, and the third is found. The promise is `epsilon` with `delta`, `prior` with `posterior`,
/// or `fpr` with `tpr`, for neighbours that differ in `group` records; it is certified at the answer. `defaults` (a
/// project's, from `reticent.defaults`) supplies what is not given: the delta of an epsilon, the prior of a posterior,
/// neighbours, group, tolerance. A posterior has its own neighbours, so it takes none.
///
/// >>> import reticent
/// >>> found = reticent.calibrate(epsilon=2, delta=1e-5, sample_rate=0.1, steps=100)
/// >>> found.solved, found.fails < found.answer
/// ('sigma', True)
/// >>> found.plan.epsilon(delta=1e-5).upper <= 2
/// True
#[pyfunction]
#[pyo3(signature = (*, epsilon = None, delta = None, prior = None, posterior = None, fpr = None, tpr = None,
    sigma = None, sample_rate = None, steps = None, sampler = "poisson", neighbours = None, group = None,
    tolerance = None, defaults = None))]
#[expect(clippy::too_many_arguments, reason = "keywords of one question")]
pub(crate) fn calibrate(
    py: Python<'_>,
    epsilon: Option<Number>,
    delta: Option<Number>,
    prior: Option<Number>,
    posterior: Option<Number>,
    fpr: Option<Number>,
    tpr: Option<Number>,
    sigma: Option<Number>,
    sample_rate: Option<Number>,
    steps: Option<Whole>,
    sampler: &str,
    neighbours: Option<&str>,
    group: Option<Whole>,
    tolerance: Option<Number>,
    defaults: Option<PyRef<'_, Defaults>>,
) -> PyResult<Calibration> {
    if posterior.is_some() {
        no_neighbours_of_posterior(neighbours)?;
    }
    // A posterior has its own neighbours, whatever a project's defaults are.
    let neighbours = neighbours.or_else(|| posterior.is_some().then_some("zero-out"));
    let Terms {
        mut taking,
        query,
        tolerance,
    } = Terms::new(defaults.as_deref(), neighbours, group, tolerance)?;
    let plain = |name: &str, given: Option<Number>| -> PyResult<Option<f64>> {
        given.map(|number| number.named(name)).transpose()
    };
    // A default completes a requested promise, but doesn't request one.
    let delta = match epsilon {
        Some(_) => taking.or("delta", plain("delta", delta)?, |file| {
            file.delta.map(Delta::get)
        }),
        None => plain("delta", delta)?,
    };
    let prior = match posterior {
        Some(_) => taking.or("prior", plain("prior", prior)?, |file| {
            file.prior.map(Probability::get)
        }),
        None => plain("prior", prior)?,
    };
    let pairs = [
        ("epsilon", plain("epsilon", epsilon)?, "delta", delta),
        ("prior", prior, "posterior", plain("posterior", posterior)?),
        ("fpr", plain("fpr", fpr)?, "tpr", plain("tpr", tpr)?),
    ];
    let target = target(pairs, query)?;
    let sampling = sampling_of(sampler)?;
    let sigma = sigma
        .map(|sigma| of("sigma", NoiseMultiplier::new(sigma.named("sigma")?)))
        .transpose()?;
    let rate = sample_rate
        .map(|rate| of("sample_rate", SamplingRate::new(rate.named("sample_rate")?)))
        .transpose()?;
    let steps = steps.map(steps_of).transpose()?;
    let run = move |sigma, rate, steps| noisy(sigma, rate, steps, sampling).mechanism();
    let (solved, (answer, fails)) = match (sigma, rate, steps) {
        (None, Some(rate), Some(steps)) => {
            let found = interruptible(py, move |unwanted| {
                let run = |sigma| wanted(unwanted, || run(sigma, rate, steps));
                calibrate_noise(run, target, tolerance)
            })?;
            let found = found.map_err(value_error)?;
            ("sigma", numbers(found, NoiseMultiplier::get))
        }
        (Some(sigma), None, Some(steps)) => {
            let found = interruptible(py, move |unwanted| {
                let run = |rate| wanted(unwanted, || run(sigma, rate, steps));
                calibrate_rate(run, target, tolerance)
            })?;
            let found = found.map_err(value_error)?;
            ("sample_rate", numbers(found, SamplingRate::get))
        }
        (Some(sigma), Some(rate), None) => {
            let found = interruptible(py, move |unwanted| {
                let run = |steps| wanted(unwanted, || run(sigma, rate, steps));
                calibrate_steps(run, target, tolerance)
            })?;
            let found = found.map_err(value_error)?;
            ("steps", numbers(found, |steps: Steps| steps.get() as f64))
        }
        _ => {
            return Err(PyValueError::new_err(
                "give exactly two of sigma, sample_rate and steps; the third is found",
            ));
        }
    };
    let mechanism = match (sigma, rate, steps) {
        (None, Some(rate), Some(steps)) => {
            run(of("sigma", NoiseMultiplier::new(answer))?, rate, steps)
        }
        (Some(sigma), None, Some(steps)) => {
            run(sigma, of("sample_rate", SamplingRate::new(answer))?, steps)
        }
        (Some(sigma), Some(rate), _) => run(sigma, rate, Steps::new(answer as u64)),
        _ => return Err(value_error("unreachable: two of three were given")),
    };
    Ok(Calibration {
        solved,
        answer,
        fails,
        mechanism,
        configured: taking.configured()?,
    })
}

//! A project's `reticent.toml`, read as by the commands.

use crate::error::{of, value_error, words};
use crate::report::to_python;
use pyo3::prelude::*;
use reticent_reports::defaults::{Configured, Project, ProjectFile};
use std::path::{Path, PathBuf};

/// A project's defaults: the contents of its `reticent.toml`. Questions take them by `defaults=`; arguments
/// take precedence, and the answer shows what was taken (`configured`).
#[pyclass(frozen, module = "reticent")]
#[derive(Debug, Clone)]
pub(crate) struct Defaults {
    project: Option<Project>,
}

#[pymethods]
impl Defaults {
    /// The file, relative to the working directory; None if there is none.
    #[getter]
    fn file(&self) -> Option<&str> {
        self.project.as_ref().map(Project::name)
    }

    /// All values, by key.
    #[getter]
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let values = self.project.as_ref().map(Project::values).transpose();
        to_python(py, &values.map_err(words)?.unwrap_or_default())
    }

    fn __repr__(&self) -> PyResult<String> {
        let Some(project) = &self.project else {
            return Ok("Defaults(none)".to_owned());
        };
        let values = project.values().map_err(words)?;
        let each: Vec<String> = values
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        Ok(format!("Defaults({}: {})", project.name(), each.join(", ")))
    }

    /// Rebuilds the defaults from the content of a pickle.
    #[staticmethod]
    fn _of(text: &str) -> PyResult<Self> {
        let project = of("text", serde_json::from_str(text))?;
        Ok(Self { project })
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<(Py<PyAny>, (String,))> {
        let text = serde_json::to_string(&slf.get().project).map_err(value_error)?;
        Ok((slf.get_type().getattr("_of")?.unbind(), (text,)))
    }

    fn __eq__(&self, other: PyRef<'_, Self>) -> bool {
        self.project == other.project
    }
}

/// Returns the project's defaults from `path`, or from the `reticent.toml` of the working directory or of a
/// parent in the same repository. The commands read the same file in the same way. Raises ValueError for a file
/// that can't be used, with line, key and allowed range.
///
/// >>> import reticent, pathlib, tempfile
/// >>> place = pathlib.Path(tempfile.mkdtemp()) / "reticent.toml"
/// >>> _ = place.write_text('schema = 1\ndelta = 1e-5\nneighbours = "replace"\n')
/// >>> project = reticent.defaults(place)
/// >>> bound = reticent.Plan(sigma=1.1, sample_rate=0.01, steps=1000).epsilon(defaults=project)
/// >>> bound.configured
/// {'delta': 1e-05, 'neighbours': 'replace'}
#[pyfunction]
#[pyo3(signature = (path = None))]
pub(crate) fn defaults(path: Option<PathBuf>) -> PyResult<Defaults> {
    let project = match path {
        Some(path) => Project::read(&path).map(Some),
        None => Project::find(Path::new(".")),
    };
    let project = project.map_err(words)?;
    Ok(Defaults { project })
}

/// Takes missing values from a project's defaults and records which.
#[derive(Debug, Default)]
pub(crate) struct Taking<'a> {
    project: Option<&'a Project>,
    took: Vec<&'static str>,
}

impl<'a> Taking<'a> {
    pub(crate) fn from(defaults: Option<&'a Defaults>) -> Self {
        Self {
            project: defaults.and_then(|defaults| defaults.project.as_ref()),
            took: Vec::new(),
        }
    }

    /// Returns the given value, or that of the file under this key.
    pub(crate) fn or<T>(
        &mut self,
        key: &'static str,
        given: Option<T>,
        of: impl FnOnce(&ProjectFile) -> Option<T>,
    ) -> Option<T> {
        if given.is_some() {
            return given;
        }
        let found = self.project.and_then(|project| of(project.file()));
        if found.is_some() {
            self.took.push(key);
        }
        found
    }

    /// Like `or`, for a value that one of them must give.
    pub(crate) fn need<T>(
        &mut self,
        key: &'static str,
        given: Option<T>,
        of: impl FnOnce(&ProjectFile) -> Option<T>,
    ) -> PyResult<T> {
        self.or(key, given, of).ok_or_else(|| {
            value_error(format!(
                "{key}: must be given, or stand in the reticent.toml of defaults="
            ))
        })
    }

    pub(crate) fn configured(&self) -> PyResult<Configured> {
        match self.project {
            Some(project) => project.took(&self.took).map_err(words),
            None => Ok(Configured::default()),
        }
    }
}

//! Privacy mistakes that do not compile.
//!
//! Each section has a pair of examples: the first compiles, the second differs from it only in the
//! mistake and must not compile. A pair therefore fails if the mistake starts to compile, and also
//! if the surrounding code stops compiling.

/// # An upper and a lower bound do not compare
///
/// Two upper bounds compare:
/// ```
/// use reticent_accounting::{Epsilon, Upper};
/// let (a, b) = (Upper::new(Epsilon::new(1.0)?), Upper::new(Epsilon::new(2.0)?));
/// assert!(a < b);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
/// An upper and a lower bound are only compared in the verdict:
/// ```compile_fail,E0308
/// use reticent_accounting::{Epsilon, Lower, Upper};
/// let (a, b) = (Upper::new(Epsilon::new(1.0)?), Lower::new(Epsilon::new(2.0)?));
/// assert!(a < b);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # A bound does not change its direction
///
/// ```
/// use reticent_accounting::{Bounds, Epsilon, Upper};
/// let known = Bounds { lower: None, upper: Some(Upper::new(Epsilon::new(1.0)?)) };
/// # let _ = known;
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
/// ```compile_fail,E0308
/// use reticent_accounting::{Bounds, Epsilon, Upper};
/// let known = Bounds { lower: Some(Upper::new(Epsilon::new(1.0)?)), upper: None };
/// # let _ = known;
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # An estimate is not a promise
///
/// ```
/// use reticent_accounting::{Delta, Epsilon, Neighbours, Upper};
/// use reticent_reports::verdict::{Promise, Terms};
/// # fn terms() -> Terms { unimplemented!() }
/// fn promise(value: Epsilon) -> Promise<Epsilon> {
///     Promise { terms: terms(), at_most: Upper::new(value), mistakes: vec![] }
/// }
/// ```
/// ```compile_fail,E0308
/// use reticent_accounting::{Delta, Epsilon, Estimate, Neighbours};
/// use reticent_reports::verdict::{Promise, Terms};
/// # fn terms() -> Terms { unimplemented!() }
/// fn promise(value: Epsilon) -> Promise<Epsilon> {
///     Promise { terms: terms(), at_most: Estimate::new(value), mistakes: vec![] }
/// }
/// ```
///
/// # An estimate is not a measurement
///
/// ```
/// use reticent_accounting::{Epsilon, Lower, Probability, Upper};
/// use reticent_reports::verdict::{Measurement, Terms};
/// fn measured(terms: Terms, value: Epsilon, false_alarm: Probability) -> Measurement<Epsilon> {
///     let provable = Upper::new(value);
///     Measurement { terms, at_least: Lower::new(value), false_alarm, provable, power: vec![] }
/// }
/// ```
/// ```compile_fail,E0308
/// use reticent_accounting::{Epsilon, Estimate, Probability, Upper};
/// use reticent_reports::verdict::{Measurement, Terms};
/// fn measured(terms: Terms, value: Epsilon, false_alarm: Probability) -> Measurement<Epsilon> {
///     let provable = Upper::new(value);
///     Measurement { terms, at_least: Estimate::new(value), false_alarm, provable, power: vec![] }
/// }
/// ```
///
/// # Promise and measurement cannot be swapped
///
/// ```
/// use reticent_accounting::Epsilon;
/// use reticent_reports::verdict::{Measurement, Mismatch, Promise, Verdict, judge};
/// fn verdict(p: &Promise<Epsilon>, m: &Measurement<Epsilon>) -> Result<Verdict, Mismatch> {
///     judge(p, m)
/// }
/// ```
/// ```compile_fail,E0308
/// use reticent_accounting::Epsilon;
/// use reticent_reports::verdict::{Measurement, Mismatch, Promise, Verdict, judge};
/// fn verdict(p: &Promise<Epsilon>, m: &Measurement<Epsilon>) -> Result<Verdict, Mismatch> {
///     judge(m, p)
/// }
/// ```
pub mod accounting {}

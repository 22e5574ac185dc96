//! Rules that judge claims. They are fixed in the program before a run, so that no claim is judged by eye.

use crate::number::{nearest, rounded_down, rounded_up, shortest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Measurements of one quantity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// What.
    pub what: String,
    /// In order of x.
    pub points: Vec<Point>,
}

impl Series {
    /// Formats one of its values: every ε is a bound, from below if its name says so, else from above, as is the noise σ
    /// that a proof asks for; anything else is an estimate.
    fn value(&self, value: f64) -> String {
        let lower = self.what.starts_with("ε at least");
        let upper = !self.what.contains(" over ") && self.what.starts_with(['ε', 'σ']);
        match (lower, upper) {
            (true, _) => rounded_down(value, 4),
            (false, true) => rounded_up(value, 4),
            (false, false) => nearest(value, 4),
        }
    }
    /// Formats a mean with its spread: `19.2 (18.1 to 20)`.
    #[must_use]
    pub(super) fn shown(&self, point: &Point) -> String {
        let mean = self.value(point.mean());
        if point.values.len() == 1 {
            return mean;
        }
        let values = || point.values.iter().copied();
        let least = values().fold(f64::INFINITY, f64::min);
        let most = values().fold(f64::NEG_INFINITY, f64::max);
        format!("{mean} ({} to {})", self.value(least), self.value(most))
    }
}

/// All measurements at one place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Where: a miss rate, a noise, a number of copies; 0 if there is only one place.
    pub x: f64,
    /// One of each run.
    pub values: Vec<f64>,
    /// The documents that they come from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<String>,
}

impl Point {
    /// Returns the mean.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len() as f64
    }
    /// Returns one standard error of the mean; 0 for a single run.
    #[must_use]
    pub fn margin(&self) -> f64 {
        let n = self.values.len() as f64;
        if self.values.len() < 2 {
            return 0.0;
        }
        let mean = self.mean();
        let squares: f64 = self.values.iter().map(|v| (v - mean).powi(2)).sum();
        (squares / (n - 1.0) / n).sqrt()
    }
    fn low(&self) -> f64 {
        self.mean() - self.margin()
    }
    fn high(&self) -> f64 {
        self.mean() + self.margin()
    }
}

/// How a claim or a condition is judged, from means over the runs with one standard error on the side that is against it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Rule {
    /// Each series is below `times` the next, at every x of both.
    Below {
        /// The series.
        series: Vec<String>,
        /// The factor.
        #[serde(default = "once")]
        times: f64,
    },
    /// The series lies in a range at every x.
    Within {
        /// The series.
        what: String,
        /// The least value.
        #[serde(default = "lowest")]
        from: f64,
        /// The largest value.
        #[serde(default = "highest")]
        to: f64,
    },
    /// The value at the last x is above that at the first, and no step in between falls by more than the two margins: one
    /// that could be chance is no fall.
    Rises(String),
}

/// A condition without which a result doesn't support a claim: that nothing was found, or that one of two models is
/// worse.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Need {
    /// The model's perplexity is below so many times that of ordinary training: a model that learned nothing leaks
    /// nothing, and any other one predicts better.
    Learned {
        /// The model's perplexity.
        what: String,
        /// The perplexity of ordinary training.
        of: String,
    },
    /// The attack finds what ordinary training leaks: somewhere it exceeds `above`.
    Heard {
        /// What the attack finds there.
        what: String,
        /// The level to exceed.
        above: f64,
    },
    /// The classifier predicts better than the most frequent class: classifiers that learned nothing can't be compared.
    Tells {
        /// Its accuracy.
        what: String,
        /// The share of the most frequent class.
        of: String,
    },
    /// Nothing tells members from non-members before a secret is trained on: a number that is 1/2 by chance is, up to
    /// `by`. Else the sides differ in themselves, and their attack shows no memory.
    Alike {
        /// What the texts alone, or a model that saw masks alone, tell.
        what: String,
        /// How far from 1/2 it may be.
        by: f64,
    },
    /// A run promises as much as the one that it is compared with: less noise predicts better.
    Private {
        /// Its ε.
        what: String,
        /// The ε that it must not exceed.
        of: String,
    },
}

const fn once() -> f64 {
    1.0
}
const fn lowest() -> f64 {
    f64::NEG_INFINITY
}
const fn highest() -> f64 {
    f64::INFINITY
}

/// The ratio of a model's perplexity to that of ordinary training above which the model has learned nothing.
const UNLEARNED: f64 = 3.0;

/// What becomes of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "judgement", rename_all = "kebab-case")]
pub enum Judgement {
    /// The rule holds.
    Reproduced,
    /// It does not.
    NotReproduced {
        /// Where it fails.
        because: String,
    },
    /// Nothing can be said.
    NotTestable {
        /// Why.
        because: String,
    },
}

impl Judgement {
    fn not(because: impl Into<String>) -> Self {
        Self::NotReproduced {
            because: because.into(),
        }
    }
    /// Returns the judgement that nothing can be concluded, with a reason.
    pub fn open(because: impl Into<String>) -> Self {
        Self::NotTestable {
            because: because.into(),
        }
    }
    /// Returns the judgement in words: `not testable, because …`.
    #[must_use]
    pub fn says(&self) -> String {
        match self {
            Self::Reproduced => "reproduced".to_owned(),
            Self::NotReproduced { because } => format!("not reproduced: {because}"),
            Self::NotTestable { because } => format!("not testable, because {because}"),
        }
    }
}

/// Returns the series with a name, if every measurement of it is a number.
fn found<'a>(measured: &'a [Series], name: &str) -> Result<&'a Series, Judgement> {
    let missing = || Judgement::open(format!("{name} was not measured, or not in every run"));
    let series = measured.iter().find(|series| series.what == name);
    let series = series.ok_or_else(missing)?;
    let whole = |point: &Point| !point.values.is_empty() && !point.mean().is_nan();
    match !series.points.is_empty() && series.points.iter().all(whole) {
        true => Ok(series),
        false => Err(missing()),
    }
}

/// Returns the points of two series, which must lie at the same x: nothing is concluded from some of them alone.
fn pairs<'a>(a: &'a Series, b: &'a Series) -> Result<Vec<(&'a Point, &'a Point)>, Judgement> {
    let at = |point: &Point| {
        let same = |other: &&Point| (other.x - point.x).abs() < 1e-12;
        b.points.iter().find(same)
    };
    let own = a.points.iter().map(|point| Some((point, at(point)?)));
    let all: Option<Vec<_>> = own.collect();
    all.filter(|all| all.len() == b.points.len())
        .ok_or_else(|| {
            let (a, b) = (&a.what, &b.what);
            Judgement::open(format!("{a} and {b} were not measured at the same places"))
        })
}

/// Returns ` at 0.1` if the series has several points.
fn place(series: &Series, point: &Point) -> String {
    match series.points.len() {
        1 => String::new(),
        _ => format!(" at {}", point.x),
    }
}

/// Says why a rule fails that the means satisfy.
const fn despite(means: bool) -> &'static str {
    match means {
        true => "; the means satisfy the rule, but not with one standard error against it",
        false => "",
    }
}

impl Need {
    fn met(&self, measured: &[Series]) -> Result<(), Judgement> {
        let below = |what: &String, of: &String, times| Rule::Below {
            series: vec![what.clone(), of.clone()],
            times,
        };
        let (rule, otherwise) = match self {
            Self::Learned { what, of } => (
                below(what, of, UNLEARNED),
                "the model learned too little for its result to count",
            ),
            Self::Tells { what, of } => (
                below(of, what, 1.0),
                "the classifier learned too little to be compared",
            ),
            Self::Alike { what, by } => (
                Rule::Within {
                    what: what.clone(),
                    from: 0.5 - by,
                    to: 0.5 + by,
                },
                "members and non-members differ in themselves",
            ),
            Self::Private { what, of } => {
                let (own, other) = (found(measured, what)?, found(measured, of)?);
                let more = |(own, other): &(&Point, &Point)| own.mean() > other.mean();
                return match pairs(own, other)?.into_iter().find(more) {
                    None => Ok(()),
                    Some((more, less)) => Err(Judgement::open(format!(
                        "the runs do not promise alike: {what} is {}{}, {of} {}",
                        own.shown(more),
                        place(own, more),
                        other.shown(less)
                    ))),
                };
            }
            Self::Heard { what, above } => {
                let series = found(measured, what)?;
                let lows = series.points.iter().map(|point| (point, point.low()));
                let most = lows.max_by(|a, b| a.1.total_cmp(&b.1));
                return match most {
                    Some((_, low)) if low > *above => Ok(()),
                    most => Err(Judgement::open(format!(
                        "it is not certain that the attack finds anything in ordinary training: {what} is {}, not above {}",
                        most.map_or_else(String::new, |(point, low)| {
                            let less = match point.values.len() {
                                1 => String::new(),
                                _ => format!(", less one standard error {}", series.value(low)),
                            };
                            series.shown(point) + &place(series, point) + &less
                        }),
                        shortest(*above)
                    ))),
                };
            }
        };
        rule.holds(measured).map_err(|judged| match judged {
            Judgement::NotReproduced { because } => {
                Judgement::open(format!("{otherwise}: {because}"))
            }
            other => other,
        })
    }

    /// Returns the names of the series to which it refers.
    pub(super) fn names(&self) -> Vec<&str> {
        match self {
            Self::Learned { what, of } | Self::Tells { what, of } | Self::Private { what, of } => {
                vec![&what[..], &of[..]]
            }
            Self::Heard { what, .. } | Self::Alike { what, .. } => vec![&what[..]],
        }
    }

    /// Returns the condition in words.
    #[must_use]
    pub fn says(&self) -> String {
        match self {
            Self::Learned { what, of } => {
                format!("if {what} is below {UNLEARNED} times {of}")
            }
            Self::Tells { what, of } => format!("if {what} is above {of}"),
            Self::Heard { what, above } => {
                format!("if {what} is above {} somewhere", shortest(*above))
            }
            Self::Alike { what, by } => format!("if {what} is 0.5 up to {}", shortest(*by)),
            Self::Private { what, of } => format!("if {what} is at most {of}"),
        }
    }
}

impl Rule {
    /// Judges the measurements.
    #[must_use]
    pub fn judge(&self, needs: &[Need], measured: &[Series]) -> Judgement {
        let met = needs.iter().try_for_each(|need| need.met(measured));
        match met.and_then(|()| self.holds(measured)) {
            Ok(()) => Judgement::Reproduced,
            Err(other) => other,
        }
    }

    fn holds(&self, measured: &[Series]) -> Result<(), Judgement> {
        match self {
            Self::Below { series, times } => {
                for names in series.windows(2) {
                    let (a, b) = (found(measured, &names[0])?, found(measured, &names[1])?);
                    for (left, right) in pairs(a, b)? {
                        let below = left.high() < times * right.low();
                        if !below {
                            return Err(Judgement::not(format!(
                                "{} is {}{}, {} {}{}",
                                a.what,
                                a.shown(left),
                                place(a, left),
                                b.what,
                                b.shown(right),
                                despite(left.mean() < times * right.mean())
                            )));
                        }
                    }
                }
                Ok(())
            }
            Self::Within { what, from, to } => {
                let series = found(measured, what)?;
                for point in &series.points {
                    let inside = point.low() >= *from && point.high() <= *to;
                    if !inside {
                        let place = place(series, point);
                        let value = series.shown(point);
                        let why = despite((*from..=*to).contains(&point.mean()));
                        return Err(Judgement::not(format!("{what} is {value}{place}{why}")));
                    }
                }
                Ok(())
            }
            Self::Rises(what) => {
                let series = found(measured, what)?;
                let [first, .., last] = &series.points[..] else {
                    return Err(Judgement::open(format!("{what} has only one point")));
                };
                let above = last.low() > first.high();
                if !above {
                    return Err(Judgement::not(format!(
                        "{what} goes from {} to {}{}",
                        series.shown(first),
                        series.shown(last),
                        despite(last.mean() > first.mean())
                    )));
                }
                for step in series.points.windows(2) {
                    if step[1].high() < step[0].low() {
                        return Err(Judgement::not(format!(
                            "{what} falls from {} to {}{}",
                            series.shown(&step[0]),
                            series.shown(&step[1]),
                            place(series, &step[1])
                        )));
                    }
                }
                Ok(())
            }
        }
    }

    /// Returns the names of the series to which it refers.
    pub(super) fn names(&self) -> Vec<&str> {
        match self {
            Self::Below { series, .. } => series.iter().map(String::as_str).collect(),
            Self::Within { what, .. } | Self::Rises(what) => vec![&what[..]],
        }
    }

    /// Returns the rule in words.
    #[must_use]
    pub fn says(&self) -> String {
        match self {
            Self::Below { series, times } if (times - 1.0).abs() < 1e-12 => {
                format!("in this order: {}", series.join(" < "))
            }
            Self::Below { series, times } => {
                series.join(&format!(" below {} times ", shortest(*times)))
            }
            Self::Within { what, from, to } => {
                let (low, high) = (shortest(*from), shortest(*to));
                match (from.is_finite(), to.is_finite()) {
                    (true, true) => format!("{what} between {low} and {high}"),
                    (true, false) => format!("{what} at least {low}"),
                    _ => format!("{what} at most {high}"),
                }
            }
            Self::Rises(what) => format!("{what} rises"),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn series(what: &str, points: &[(f64, &[f64])]) -> Series {
        Series {
            what: what.to_owned(),
            points: points
                .iter()
                .map(|(x, values)| Point {
                    x: *x,
                    values: values.to_vec(),
                    from: Vec::new(),
                })
                .collect(),
        }
    }

    fn rule(text: &str) -> Rule {
        toml::from_str(text).unwrap()
    }
    const BELOW: &str = "below = { series = ['a', 'b'], times = 1.2 }";
    const ORDERED: &str = "below = { series = ['a', 'b'] }";
    const RISES: &str = "rises = 'a'";

    fn is_not(judgement: &Judgement) -> bool {
        matches!(judgement, Judgement::NotReproduced { .. })
    }

    fn is_open(judgement: &Judgement) -> bool {
        matches!(judgement, Judgement::NotTestable { .. })
    }

    /// Every kind of rule on data that it must pass, and on planted data that it must fail.
    #[test]
    fn a_rule_passes_what_it_says_and_fails_what_was_planted() {
        let good = [
            series("a", &[(0.0, &[1.0, 1.1]), (1.0, &[2.0, 2.1])]),
            series("b", &[(0.0, &[3.0, 3.1]), (1.0, &[4.0, 4.1])]),
        ];
        let rules = [
            BELOW,
            ORDERED,
            "within = { what = 'a', from = 0.9, to = 2.2 }",
            RISES,
        ]
        .map(rule);
        for rule in &rules {
            assert_eq!(rule.judge(&[], &good), Judgement::Reproduced, "{rule:?}");
        }
        let bad = [
            series("a", &[(0.0, &[5.0, 5.1]), (1.0, &[4.9, 5.0])]),
            good[1].clone(),
        ];
        for rule in &rules {
            assert!(is_not(&rule.judge(&[], &bad)), "{rule:?}");
        }
    }

    /// The margin counts against the claim, and one bad place is enough.
    #[test]
    fn the_spread_of_the_seeds_counts_against_a_claim() {
        let wide = [
            series("a", &[(0.0, &[0.0, 2.0])]),
            series("b", &[(0.0, &[1.5, 1.5])]),
        ];
        let below = rule(ORDERED);
        assert!(is_not(&below.judge(&[], &wide)), "1 ± 1 is not below 1.5");
        let narrow = [series("a", &[(0.0, &[0.9, 1.1])]), wide[1].clone()];
        assert_eq!(below.judge(&[], &narrow), Judgement::Reproduced);
        let one_place = [
            series("a", &[(0.0, &[1.0]), (1.0, &[9.0])]),
            series("b", &[(0.0, &[2.0]), (1.0, &[2.0])]),
        ];
        assert!(is_not(&rule(BELOW).judge(&[], &one_place)));
        let dip = [series("a", &[(0.0, &[1.0]), (0.5, &[0.5]), (1.0, &[2.0])])];
        assert!(is_not(&rule(RISES).judge(&[], &dip)));
    }

    /// "Less" was judged by ≤, so that two audits that prove nothing reproduced that one proves more.
    #[test]
    fn what_is_equal_is_not_below() {
        let same = [
            series("a", &[(0.0, &[0.0, 0.0])]),
            series("b", &[(0.0, &[0.0, 0.0])]),
        ];
        let half = "below = { series = ['a', 'b'], times = 0.5 }";
        for text in [ORDERED, half] {
            assert!(is_not(&rule(text).judge(&[], &same)), "{text}");
        }
    }

    /// A model that learned nothing is silent, and so is an attack that finds nothing anywhere: neither reproduces.
    #[test]
    fn silence_of_a_model_that_learned_nothing_reproduces_nothing() {
        let silent = rule("within = { what = 'exposure', to = 7.61 }");
        let needs = [
            Need::Learned {
                what: "own perplexity".into(),
                of: "ordinary perplexity".into(),
            },
            Need::Heard {
                what: "ordinary exposure".into(),
                above: 7.61,
            },
        ];
        let judged = |own: f64, heard: f64, exposure: f64| {
            let measured = [
                series("own perplexity", &[(0.0, &[own])]),
                series("ordinary perplexity", &[(0.0, &[4.0])]),
                series("ordinary exposure", &[(0.0, &[heard])]),
                series("exposure", &[(0.0, &[exposure])]),
            ];
            silent.judge(&needs, &measured)
        };
        assert_eq!(judged(11.9, 15.0, 4.0), Judgement::Reproduced);
        assert!(is_open(&judged(12.0, 15.0, 4.0)));
        assert!(is_open(&judged(11.9, 7.0, 4.0)));
        assert!(is_not(&judged(11.9, 15.0, 9.0)));
        assert!(is_open(&judged(f64::NAN, 15.0, 4.0)));
    }

    /// Two classifiers that both name the most frequent class alone are not compared, whichever is a little above.
    #[test]
    fn classifiers_that_learned_nothing_are_not_compared() {
        let needs = [Need::Tells {
            what: "ours".into(),
            of: "frequent".into(),
        }];
        let judged = |ours: [f64; 2]| {
            let measured = [
                series("ours", &[(0.0, &ours)]),
                series("theirs", &[(0.0, &[0.3, 0.3])]),
                series("frequent", &[(0.0, &[0.4, 0.4])]),
            ];
            rule("below = { series = ['theirs', 'ours'] }").judge(&needs, &measured)
        };
        assert_eq!(judged([0.6, 0.7]), Judgement::Reproduced);
        assert!(is_open(&judged([0.4, 0.4])));
        assert!(
            is_open(&judged([0.35, 0.55])),
            "0.45 ± 0.1 is not above 0.4"
        );
    }

    /// What the texts alone tell is also told by a model that saw masks alone.
    #[test]
    fn sides_that_differ_in_themselves_are_not_judged() {
        let need = Need::Alike {
            what: "texts alone".into(),
            by: 0.1,
        };
        let met = |values: [f64; 2]| need.met(&[series("texts alone", &[(0.0, &values)])]);
        assert_eq!(met([0.45, 0.5]), Ok(()));
        for values in [[0.78, 0.79], [0.3, 0.31], [0.5, 0.7]] {
            let said = met(values).unwrap_err().says();
            let why = "not testable, because members and non-members differ in themselves: texts alone is";
            assert!(said.starts_with(why), "{said}");
        }
        assert!(need.met(&[]).is_err());
    }

    /// Light noise that promises ε 25 says nothing against DP-SGD at ε 2.5.
    #[test]
    fn runs_that_promise_less_are_not_compared() {
        let need = Need::Private {
            what: "ε of ours".into(),
            of: "ε of theirs".into(),
        };
        let met = |ours: f64| {
            let all = [
                series("ε of ours", &[(0.0, &[ours, ours])]),
                series("ε of theirs", &[(0.0, &[2.5076, 2.5076])]),
            ];
            need.met(&all).map_err(|judged| judged.says())
        };
        assert_eq!((met(2.4993), met(2.5076)), (Ok(()), Ok(())));
        let said = met(25.3528).unwrap_err();
        assert!(
            said.ends_with(
                "ε of ours is 25.36 (25.36 to 25.36), ε of theirs 2.508 (2.508 to 2.508)"
            ),
            "{said}"
        );
        assert!(met(f64::INFINITY).is_err());
    }

    #[test]
    fn what_was_not_measured_is_not_judged() {
        for rule in [BELOW, RISES, ORDERED].map(rule) {
            assert!(is_open(&rule.judge(&[], &[])), "{rule:?}");
            let empty = [series("a", &[(0.0, &[])]), series("b", &[(0.0, &[1.0])])];
            assert!(is_open(&rule.judge(&[], &empty)), "{rule:?}");
        }
        let apart = [series("a", &[(0.0, &[1.0])]), series("b", &[(1.0, &[1.0])])];
        assert!(is_open(&rule(BELOW).judge(&[], &apart)));
    }

    /// What was measured at both places was compared, whatever was missing elsewhere.
    #[test]
    fn series_are_compared_at_every_place_or_not_at_all() {
        let long = series("a", &[(0.0, &[1.0]), (1.0, &[9.0])]);
        let short = series("b", &[(0.0, &[2.0])]);
        let judged = |a: &str, b: &str| {
            let rule = rule(&format!("below = {{ series = ['{a}', '{b}'] }}"));
            rule.judge(&[], &[long.clone(), short.clone()])
        };
        assert!(is_open(&judged("a", "b")) && is_open(&judged("b", "a")));
    }

    /// A model of 2.9 ± 0.5 times the perplexity of ordinary training had learned, and one run of two that leaks was heard.
    #[test]
    fn the_spread_counts_against_a_condition_too() {
        let learned = Need::Learned {
            what: "own".into(),
            of: "ordinary".into(),
        };
        let heard = Need::Heard {
            what: "heard".into(),
            above: 7.61,
        };
        let met = |need: &Need, own: [f64; 2], heard: [f64; 2]| {
            let measured = [
                series("own", &[(0.0, &own)]),
                series("ordinary", &[(0.0, &[4.0, 4.0])]),
                series("heard", &[(0.0, &heard)]),
            ];
            need.met(&measured).map_err(|judged| judged.says())
        };
        assert_eq!(met(&learned, [11.8, 11.9], [0.0, 0.0]), Ok(()));
        assert_eq!(met(&heard, [4.0, 4.0], [8.0, 8.2]), Ok(()));
        // The means satisfy both conditions, and the messages said that they don't.
        for (need, own, heard, says) in [
            (
                &learned,
                [9.6, 13.6],
                [0.0, 0.0],
                "own is 11.60 (9.600 to 13.60), ordinary 4.000 (4.000 to 4.000); the means satisfy the rule, but not with one standard error against it",
            ),
            (
                &heard,
                [4.0, 4.0],
                [1.0, 19.9],
                "heard is 10.45 (1.000 to 19.90), less one standard error 1.000, not above 7.61",
            ),
        ] {
            let said = met(need, own, heard).unwrap_err();
            assert!(said.ends_with(says), "{said}");
        }
        let said = met(&learned, [13.0, 13.2], [0.0, 0.0]).unwrap_err();
        assert!(!said.contains("the means satisfy"), "{said}");
    }

    /// Upper ends of ε were shown below themselves: 2.749391 as 2.749.
    #[test]
    fn a_bound_is_rounded_to_its_side() {
        for (what, value, shown) in [
            ("ε on MNLI", 2.749_391, "2.750"),
            ("ε′ of the notebook, by Rényi", 0.372_86, "0.3729"),
            ("σ by Fano, 50 examples", 36.653_01, "36.66"),
            ("σ by Fano over σ by the blow-up", 35.444_99, "35.44"),
            ("ε at least by coins, of CRT", 0.037_119, "0.03711"),
            ("exposure of SGD", 19.931_57, "19.93"),
        ] {
            let own = series(what, &[(0.0, &[value])]);
            assert_eq!(own.shown(&own.points[0]), shown, "{what}");
        }
    }

    #[test]
    fn a_number_that_is_none_fails() {
        let infinite = [series("a", &[(0.0, &[f64::INFINITY])])];
        let rule = rule("within = { what = 'a', from = 0.0, to = 1.0 }");
        assert!(is_not(&rule.judge(&[], &infinite)));
    }
}

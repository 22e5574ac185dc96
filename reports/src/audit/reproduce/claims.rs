//! The claims of the papers and how each is judged, fixed in the program before a run.

use super::Paper;
use super::evidence::OF_A_RECORD;
use super::rules::{Need, Rule};
use serde::Deserialize;
use std::sync::LazyLock;

/// A claim of a paper, as `claims/*.toml` state it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its name, unique among the claims of the paper.
    pub id: String,
    /// The table, figure or section, as named in `--only`.
    pub item: String,
    /// The claim itself.
    pub says: String,
    /// The value that the paper prints.
    pub printed: String,
    /// The rule on the measurements that judges it; absent if it is not testable at the small scale.
    pub rule: Option<Rule>,
    /// The conditions without which the rule is not asked.
    #[serde(default)]
    pub needs: Vec<Need>,
    /// Why it is not testable.
    #[serde(default)]
    pub open: String,
}

impl Claim {
    /// Returns the names of the series to which its rule and its needs refer.
    pub(super) fn names(&self) -> Vec<&str> {
        let needs = self.needs.iter().flat_map(Need::names);
        self.rule
            .iter()
            .flat_map(Rule::names)
            .chain(needs)
            .collect()
    }

    /// Returns the names of ε of the arms that it compares, which are shown beside them.
    pub(super) fn epsilons(&self) -> Vec<String> {
        let Some(Rule::Below { series, .. }) = &self.rule else {
            return Vec::new();
        };
        let arms = series.iter().filter_map(|name| name.rsplit_once(' '));
        arms.map(|(_, arm)| format!("{OF_A_RECORD} {arm}"))
            .collect()
    }
}

/// The claims of one paper.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Claims {
    claims: Vec<Claim>,
}

impl Paper {
    /// Returns the claims of the paper.
    ///
    /// # Panics
    /// Never: a test reads what ships.
    #[must_use]
    pub fn claims(self) -> &'static [Claim] {
        static ALL: LazyLock<[Vec<Claim>; 4]> = LazyLock::new(|| {
            [
                include_str!("claims/crt.toml"),
                include_str!("claims/jft.toml"),
                include_str!("claims/hush.toml"),
                include_str!("claims/ours.toml"),
            ]
            .map(|text| {
                let all: Claims = toml::from_str(text).expect("the claims that ship");
                all.claims
            })
        });
        match self {
            Self::Crt => &ALL[0],
            Self::Jft => &ALL[1],
            Self::Hush => &ALL[2],
            Self::Ours => &ALL[3],
        }
    }
}

/// JFT's four detectors by the names of their policies, in the order of their levels.
pub(super) const DETECTORS: [&str; 4] = [
    "low-entity",
    "high-entity",
    "low-contextual",
    "high-contextual",
];

/// The shares of tokens for the four detectors in JFT's Table 2, of the texts that a folder may hold.
pub(super) const PRINTED_SHARES: [(&str, [f64; 4]); 2] = [
    ("WikiText-2", [0.113, 0.164, 0.348, 0.450]),
    ("ABCD", [0.027, 0.031, 0.223, 0.286]),
];

#[cfg(test)]
mod tests {
    use super::super::rules::tests::series;
    use super::super::rules::{Judgement, Series};
    use super::*;

    const ALL: [Paper; 4] = [Paper::Crt, Paper::Jft, Paper::Hush, Paper::Ours];

    /// Measurements that meet every need, and the rule or not.
    fn planted(rule: &Rule, needs: &[Need], good: bool) -> Vec<Series> {
        let mut all = Vec::new();
        let mut plant = |what: &str, points: &[(f64, &[f64])]| {
            all.retain(|other: &Series| other.what != what);
            all.push(series(what, points));
        };
        // Above what any need asks for.
        const LEVEL: f64 = 20.0;
        for need in needs {
            match need {
                Need::Learned { what, of } => {
                    plant(what, &[(0.0, &[LEVEL, LEVEL])]);
                    plant(of, &[(0.0, &[LEVEL, LEVEL])]);
                }
                Need::Heard { what, above } => plant(what, &[(0.0, &[above + 0.5, above + 0.6])]),
                Need::Tells { what, of } => {
                    plant(what, &[(0.0, &[0.5, 0.6])]);
                    plant(of, &[(0.0, &[0.3, 0.3])]);
                }
                Need::Alike { what, .. } => plant(what, &[(0.0, &[0.5, 0.5])]),
                Need::Private { what, of } => {
                    plant(what, &[(0.0, &[1.0, 1.0])]);
                    plant(of, &[(0.0, &[1.0, 1.0])]);
                }
            }
        }
        match rule {
            Rule::Below { series, times } => {
                let mut value = LEVEL;
                for name in series.iter().rev() {
                    plant(name, &[(0.0, &[value, value])]);
                    value *= if good { 0.9 * times } else { 1.1 * times };
                }
            }
            Rule::Within { what, from, to } => {
                let (from, to) = (*from, *to);
                let value = match (good, from.is_finite(), to.is_finite()) {
                    (true, true, true) => f64::midpoint(from, to),
                    (true, true, false) => from,
                    (true, ..) => to,
                    (false, _, true) => to + 0.01 * to.abs().max(0.1),
                    (false, ..) => from - 0.01 * from.abs().max(0.1),
                };
                plant(what, &[(0.0, &[value, value])]);
            }
            Rule::Rises(what) => match good {
                true => plant(what, &[(0.0, &[1.0, 1.1]), (1.0, &[2.0, 2.1])]),
                false => plant(what, &[(0.0, &[1.0, 1.5]), (1.0, &[1.0, 1.6])]),
            },
        }
        all
    }

    #[test]
    fn every_rule_passes_what_it_says_and_fails_what_was_planted() {
        let mut judged = 0;
        for claim in ALL.iter().flat_map(|paper| paper.claims()) {
            assert_eq!(claim.rule.is_none(), !claim.open.is_empty(), "{}", claim.id);
            let (Some(rule), needs) = (&claim.rule, &claim.needs) else {
                continue;
            };
            judged += 1;
            let good = rule.judge(needs, &planted(rule, needs, true));
            assert_eq!(good, Judgement::Reproduced, "{}", claim.id);
            let bad = rule.judge(needs, &planted(rule, needs, false));
            assert!(
                matches!(bad, Judgement::NotReproduced { .. }),
                "{}: {bad:?}",
                claim.id
            );
            let nothing = rule.judge(needs, &[]);
            assert!(
                matches!(nothing, Judgement::NotTestable { .. }),
                "{}",
                claim.id
            );
        }
        assert!(judged > 40, "{judged}");
    }

    /// Silence counts only of a model that learned, where the attack hears something elsewhere.
    #[test]
    fn every_claim_of_silence_needs_a_model_that_learned() {
        for claim in [Paper::Crt, Paper::Jft]
            .iter()
            .flat_map(|paper| paper.claims())
        {
            let silent = claim.id.ends_with("-silent") || claim.id == "one-copy";
            if !silent && !claim.id.starts_with("crt-") {
                continue;
            }
            let (Some(rule), needs) = (&claim.rule, &claim.needs) else {
                panic!("{}", claim.id);
            };
            let learned = |need: &&Need| matches!(need, Need::Learned { .. });
            let heard = |need: &&Need| matches!(need, Need::Heard { .. });
            assert!(needs.iter().any(|n| learned(&n)) && needs.iter().any(|n| heard(&n)));
            let Some(Need::Learned { what, .. }) = needs.iter().find(learned) else {
                panic!("{}", claim.id);
            };
            let mut dead = planted(rule, needs, true);
            dead.retain(|series| series.what != *what);
            dead.push(series(what, &[(0.0, &[f64::INFINITY])]));
            assert!(matches!(
                rule.judge(needs, &dead),
                Judgement::NotTestable { .. }
            ));
        }
    }

    /// A baseline that learned nothing is worse than anything, and an audit that hears nothing proves less: DP-SGD that
    /// names the most frequent class alone was worse than JFT, and δ = 0.01, where nothing is proved, cost ε.
    #[test]
    fn both_sides_of_a_comparison_have_learned_or_are_heard() {
        let mut compared = 0;
        for claim in ALL.iter().flat_map(|paper| paper.claims()) {
            let (low, high): (Vec<&str>, &str) = match &claim.rule {
                Some(Rule::Below { series, .. }) => {
                    let (high, low) = series.split_last().unwrap();
                    (low.iter().map(String::as_str).collect(), &high[..])
                }
                _ => continue,
            };
            if high.starts_with("masked at ") {
                continue;
            }
            compared += 1;
            let needs = &claim.needs;
            let learned = |name: &str| {
                let model = name.replace("loss", "perplexity");
                needs.iter().any(|need| match need {
                    Need::Learned { what, of } => *what == model || *of == model,
                    Need::Tells { what, .. } => *what == model,
                    Need::Heard { .. } | Need::Alike { .. } | Need::Private { .. } => false,
                })
            };
            let heard = needs
                .iter()
                .any(|need| matches!(need, Need::Heard { what, .. } if what == high));
            let classifies = |name: &str| name.starts_with("accuracy of classes-");
            let met = match high {
                _ if classifies(high) => low.iter().all(|name| learned(name)),
                _ if high.contains("perplexity") || high.contains("loss") => {
                    low.iter().chain([&high]).all(|name| learned(name))
                }
                _ => heard,
            };
            assert!(met, "{}: {needs:?}", claim.id);
        }
        assert!(compared > 15, "{compared}");
    }

    #[test]
    fn names_are_told_apart() {
        for paper in ALL {
            let mut ids: Vec<&str> = paper.claims().iter().map(|claim| &claim.id[..]).collect();
            ids.sort_unstable();
            let all = ids.len();
            ids.dedup();
            assert_eq!(ids.len(), all);
        }
    }
}

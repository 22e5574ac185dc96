//! Runs several attacks on one model and judges them together.
#![cfg_attr(
    not(feature = "audit"),
    allow(
        dead_code,
        reason = "without an engine nothing is attacked; the tests still ask"
    )
)]

use super::{MembershipReport, ShadowTraining, Signal, by_copies, grouped_by, provable, rates};
use crate::audit::args::MembershipArgs;
use crate::audit::unknown::Characters;
use crate::audit::{Apart, RecordsDigest, ends};
use anyhow::{Context, Result};
use reticent_accounting::Confidence;
use reticent_attacks::membership::{
    Accuracy, AccuracyRule, Area, BlindBaseline, GroupRule, OperatingPoint, Repeats, ScoreSet,
    blind_baseline_of, combined, overlapping_groups_area,
};
use schemars::JsonSchema;
use serde::Serialize;

/// The number of groups on each side that a group attack draws, as in CRT.
pub(in crate::audit) const GROUPS: usize = 1000;
/// The name of the combination of all attacks.
const COMBINED: &str = "combined";

/// Every attack that was run on a model.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Attacks {
    /// The attack whose details the report shows; chosen before the scores were seen.
    pub decides: String,
    /// One row each. `says` of the report shares its failure probability among them.
    pub rows: Vec<AttackRow>,
    /// Attacks that were not run, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// How the shadow models of LiRA and RMIA were trained, if they were run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadows: Option<ShadowTraining>,
    /// Records a group, where groups were attacked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_size: Option<usize>,
    /// The published protocol that was followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Tokens of the records, each scored once by the model and once by the reference.
    pub tokens: u64,
    /// The records' characters.
    #[serde(flatten)]
    pub characters: Characters,
    /// How far the reference is from the model on these records; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<Apart>,
}

/// One attack.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AttackRow {
    /// Its name.
    pub attack: String,
    /// Records that it was fitted to, and not judged on; absent for attacks that fit nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fitted: Option<usize>,
    /// The area under its ROC curve.
    pub area: Area,
    /// True positives at certified false-positive rates.
    pub at_fpr: Vec<OperatingPoint>,
    /// Accuracy at a threshold not chosen on the judged records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<Accuracy>,
    /// Groups of records attacked at once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grouped: Vec<GroupedArea>,
}

/// Groups of records under one rule.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct GroupedArea {
    /// How the records' scores become the group's.
    pub rule: GroupRule,
    /// Groups drawn on each side; they share records.
    pub groups: usize,
    /// The area, its interval from a bootstrap over records.
    pub area: Area,
}

/// An attack that was not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LeftOut {
    /// Its name.
    pub attack: String,
    /// What was missing.
    pub why: String,
}

/// A record of the per-token heat map: pieces of text with the gain of ln p over the reference.
#[derive(Debug, Clone, PartialEq)]
pub struct HeatLine {
    /// A description of the record.
    pub name: String,
    /// Each token's text and its gain, in nats.
    pub pieces: Vec<(String, f64)>,
}

/// The scores of every record under one attack, members first.
pub(in crate::audit) struct Attacked {
    pub(in crate::audit) name: &'static str,
    pub(in crate::audit) scores: [Vec<f64>; 2],
    /// Whether a score is −mean NLL, so that CRT's sum of perplexities can be computed.
    pub(in crate::audit) mean_nll: bool,
}

/// What the records have in common for all attacks.
pub(in crate::audit) struct Records {
    pub(in crate::audit) groups: Option<[Vec<String>; 2]>,
    pub(in crate::audit) texts: [Vec<String>; 2],
    pub(in crate::audit) repeats: Option<Repeats>,
    /// The number of copies of each member in the training text.
    pub(in crate::audit) copies: Vec<u64>,
    pub(in crate::audit) digest: Option<RecordsDigest>,
}

impl MembershipReport {
    /// Returns the report of several attacks, of which the first decides.
    ///
    /// What is known of `attacks` is completed. The summary takes all of them into account: it states a leak if one
    /// attack's interval, at its share of the failure probability, lies above one half. The intervals shown hold
    /// individually.
    pub(in crate::audit) fn of_attacks(
        attacked: &[Attacked],
        records: &Records,
        mut attacks: Attacks,
        args: &MembershipArgs,
        confidence: Confidence,
    ) -> Result<Self> {
        let mut judged = attacked
            .iter()
            .map(|a| Judged::of(a, records))
            .collect::<Result<Vec<_>>>()?;
        let first = judged.first().context("--attack: no attack remains")?;
        attacks.decides = first.name.to_owned();
        let mut report = Self::of_set(&first.set, args, confidence).context(grouped_by(args))?;
        report.repeats = records.repeats;
        report.copies = by_copies(&first.set, &records.copies, args, confidence)?;
        if judged.len() > 1 {
            match Judged::together(&judged, args.seed) {
                Ok(together) => judged.push(together),
                Err(why) => attacks.left_out.push(why),
            }
        }
        let groups = records.groups.as_ref();
        match blind_baseline_of(&records.texts, groups, confidence, args.seed) {
            Ok(blind) => report.blind = Some(blind),
            // With too few texts to fit and to judge, this is noted and the rest is still reported.
            Err(error) => {
                report.no_blind = Some(error.to_string());
                attacks.left_out.push(LeftOut {
                    attack: "the texts without the model".to_owned(),
                    why: error.to_string(),
                });
            }
        }
        attacks.rows = judged
            .iter()
            .enumerate()
            .map(|(index, judged)| {
                // The deciding attack was judged already.
                let known = (index == 0).then_some(&report);
                row(judged, known, attacks.group_size, args, confidence)
            })
            .collect::<Result<Vec<_>>>()?;
        // If every record costs the model the same, its scores differ only by the text.
        let flat = judged.iter().any(|j| j.mean_nll && j.set.is_alike());
        let named: Vec<_> = judged.iter().map(|j| (j.name, &j.set)).collect();
        report
            .meet_limit(&named, &records.copies, args)
            .context(grouped_by(args))?;
        let each = confidence.shared_by(judged.len() as u64)?;
        let (signal, shown_by) = says(&judged, args, confidence, report.blind.as_ref())?;
        report.signal = match signal {
            Signal::Unseen if flat => Signal::Alike,
            signal => signal,
        };
        report.shown_by = shown_by;
        report.provable_area = provable(&judged[0].set, each, args.seed)?;
        report.attacks = Some(attacks);
        report.records = records.digest.clone();
        Ok(report)
    }
}

/// An attack and the records on which it is judged.
struct Judged {
    name: &'static str,
    mean_nll: bool,
    fitted: Option<usize>,
    set: ScoreSet,
}

impl Judged {
    fn of(attacked: &Attacked, records: &Records) -> Result<Self> {
        let [inside, outside] = attacked.scores.clone();
        let set = ScoreSet::new(inside, outside)?;
        Ok(Self {
            name: attacked.name,
            mean_nll: attacked.mean_nll,
            fitted: None,
            set: match &records.groups {
                Some([a, b]) => set.with_groups(a, b)?,
                None => set,
            },
        })
    }

    /// Combines all attacks, judged on the half of the records to which the combination was not
    /// fitted.
    fn together(attacks: &[Self], seed: u64) -> Result<Self, LeftOut> {
        let sets: Vec<ScoreSet> = attacks.iter().map(|a| a.set.clone()).collect();
        let together = combined(&sets, seed).map_err(|error| LeftOut {
            attack: COMBINED.to_owned(),
            why: error.to_string(),
        })?;
        Ok(Self {
            name: COMBINED,
            mean_nll: false,
            fitted: Some(together.fitted),
            set: together.judged,
        })
    }
}

fn row(
    judged: &Judged,
    known: Option<&MembershipReport>,
    group_size: Option<usize>,
    args: &MembershipArgs,
    confidence: Confidence,
) -> Result<AttackRow> {
    let seed = args.seed;
    let set = &judged.set;
    let mut rules = vec![GroupRule::SumOfScores];
    if judged.mean_nll {
        rules.push(GroupRule::SumOfPerplexities);
    }
    let grouped = match group_size {
        Some(size) => {
            // Groups are drawn from independent records, one for each document or secret.
            let single = set.thinned(seed);
            let of = |rule| -> Result<GroupedArea> {
                let area = overlapping_groups_area(&single, size, GROUPS, rule, confidence, seed)
                    .context("--group-size")?;
                Ok(GroupedArea {
                    rule,
                    groups: GROUPS,
                    area,
                })
            };
            rules.into_iter().map(of).collect::<Result<_>>()?
        }
        None => Vec::new(),
    };
    let (area, at_fpr, accuracy) = match known {
        Some(report) => (report.area, report.at_fpr.clone(), report.accuracy),
        None => (
            set.area(confidence, seed).context(grouped_by(args))?,
            rates(args)
                .into_iter()
                .map(|fpr| set.true_positives_at(fpr, confidence, seed))
                .collect::<Result<_, _>>()?,
            set.accuracy(AccuracyRule::Split, confidence, seed).ok(),
        ),
    };
    Ok(AttackRow {
        attack: judged.name.to_owned(),
        fitted: judged.fitted,
        area,
        at_fpr,
        accuracy,
        grouped,
    })
}

/// Returns the signal of all attacks together, each at its share of the failure probability, and the attack that shows it
/// best with the lower end of its area; the first attack, if none shows anything.
///
/// What is fitted finds the sign of its scores by itself, even if the two sets were exchanged. It therefore decides nothing
/// where another attack is reversed.
fn says(
    attacks: &[Judged],
    args: &MembershipArgs,
    confidence: Confidence,
    blind: Option<&BlindBaseline>,
) -> Result<(Signal, (String, f64))> {
    let each = confidence.shared_by(attacks.len() as u64)?;
    let signals = attacks
        .iter()
        .map(|attack| {
            let area = attack.set.area(each, args.seed)?;
            let signal = Signal::of(&attack.set, &area, blind);
            Ok((attack, signal, ends(&area.bounds)))
        })
        .collect::<Result<Vec<_>>>()?;
    let alike = signals.iter().all(|(_, said, _)| *said == Signal::Alike);
    let mut unfitted = signals.iter().filter(|(of, ..)| of.fitted.is_none());
    let reversed = unfitted.any(|(_, said, _)| *said == Signal::Reversed);
    let decisive = || {
        let all = signals.iter();
        all.filter(move |(of, ..)| !reversed || of.fitted.is_none())
    };
    let found = [Signal::Leak, Signal::ShiftedSplit, Signal::Reversed]
        .into_iter()
        .find(|wanted| decisive().any(|(_, said, _)| said == wanted));
    let signal = match found {
        Some(signal) => signal,
        None if alike => Signal::Alike,
        None => Signal::Unseen,
    };
    let strength = |(lower, upper): (f64, f64)| match signal {
        Signal::Reversed => 1.0 - upper,
        _ => lower,
    };
    let showing = decisive().filter(|(_, said, _)| found == Some(*said));
    let best = showing.max_by(|a, b| strength(a.2).total_cmp(&strength(b.2)));
    let (of, _, (lower, _)) = best
        .or(signals.first())
        .context("--attack: no attack remains")?;
    Ok((signal, (of.name.to_owned(), *lower)))
}

#[cfg(test)]
mod tests {
    use super::super::shadows::AttackSpread;
    use super::super::tables::{self, table};
    use super::*;
    use crate::audit::args::OnModel;
    use crate::page::Mood;
    use reticent_accounting::Estimate;
    use reticent_attacks::membership::Instability;
    use reticent_backends::Recipe;
    use reticent_backends::trainer::{Dropout, LearningRates, OptimizerSpec};

    /// Standard normal scores without a signal, by Box and Muller from a xorshift.
    struct Noise(u64);

    impl Noise {
        fn uniform(&mut self) -> f64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            ((self.0 >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
        }
        fn scores(&mut self, count: usize) -> Vec<f64> {
            let normal =
                |u: f64, v: f64| (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
            (0..count)
                .map(|_| normal(self.uniform(), self.uniform()))
                .collect()
        }
    }

    /// Texts that differ in nothing but a number.
    fn texts() -> [Vec<String>; 2] {
        let side = |from: usize| (from..from + 60).map(|i| format!("order {}", i % 7));
        [side(0).collect(), side(60).collect()]
    }

    #[test]
    fn documents_of_attacks_fit_their_schema() {
        let args = MembershipArgs::default();
        let mut noise = Noise(42);
        let attacked: Vec<Attacked> = [("loss", true), ("reference", false)]
            .into_iter()
            .map(|(name, mean_nll)| Attacked {
                name,
                scores: [noise.scores(60), noise.scores(60)],
                mean_nll,
            })
            .collect();
        let records = Records {
            groups: None,
            texts: texts(),
            repeats: None,
            copies: (0..60).map(|i| 1 + i / 30).collect(),
            digest: RecordsDigest::of(&[&[], &[]]).unwrap(),
        };
        let attacks = Attacks {
            decides: String::new(),
            rows: Vec::new(),
            group_size: Some(5),
            protocol: Some("crt".into()),
            tokens: 1000,
            characters: Characters::default(),
            reference: Some(Apart::of([(-1.0, -1.0)])),
            left_out: vec![LeftOut {
                attack: "ez".into(),
                why: "it needs --reference".into(),
            }],
            shadows: Some(ShadowTraining {
                models: 2,
                recipe: Recipe::Dpsgd,
                from: "fresh weights",
                epochs: 3,
                batch_size: None,
                sampling_rate: Some(0.1),
                noise_multiplier: Some(1.5),
                clipping_norm: Some(1.0),
                optimizer: OptimizerSpec::Adam {
                    learning_rate: 1e-3,
                },
                learning_rates: LearningRates::default(),
                dropout: Dropout::all(0.1).unwrap(),
                differs: vec!["the warm-up".into()],
                spread: vec![AttackSpread {
                    attack: "lira".into(),
                    of: Instability {
                        models: 2,
                        splits: 20,
                        least_area: Estimate::new(0.4),
                        largest_area: Estimate::new(0.6),
                        fpr: 0.01,
                        flips: Estimate::new(0.5),
                    },
                }],
            }),
        };
        let confidence = Confidence::new(0.95).unwrap();
        let report =
            MembershipReport::of_attacks(&attacked, &records, attacks, &args, confidence).unwrap();
        assert_eq!(report.copies.len(), 2, "once, and 2 to 9 times");
        let rows = &report.attacks.as_ref().unwrap().rows;
        assert_eq!((rows[0].grouped.len(), rows[1].grouped.len()), (2, 1));
        assert_eq!(
            (rows[2].attack.as_str(), rows[2].fitted),
            ("combined", Some(60))
        );
        let inputs = crate::contract::Inputs::new();
        let text = crate::contract::Envelope::new("membership", inputs, &report)
            .to_text()
            .unwrap();
        crate::schema::fits("membership", &text);
    }

    /// The report of attacks by noise, beside a reference that is the same model. Members score higher by each attack's
    /// shift.
    fn beside_copy(attacks: &[(&'static str, f64)]) -> MembershipReport {
        let mut noise = Noise(42);
        let attacked: Vec<Attacked> = attacks
            .iter()
            .map(|&(name, shift)| Attacked {
                name,
                scores: [
                    noise.scores(60).iter().map(|score| score + shift).collect(),
                    noise.scores(60),
                ],
                mean_nll: false,
            })
            .collect();
        let records = Records {
            groups: None,
            texts: texts(),
            repeats: None,
            copies: vec![1; 60],
            digest: None,
        };
        let attacks = Attacks {
            decides: String::new(),
            rows: Vec::new(),
            left_out: Vec::new(),
            shadows: None,
            group_size: None,
            protocol: None,
            tokens: 1000,
            characters: Characters::default(),
            reference: Some(Apart::of([(-1.0, -1.0)])),
        };
        let args = MembershipArgs::default();
        let confidence = Confidence::new(0.95).unwrap();
        MembershipReport::of_attacks(&attacked, &records, attacks, &args, confidence).unwrap()
    }

    /// What every attack compares with a near copy keeps no limit, whether or not the scores differ by chance alone.
    #[test]
    fn a_limit_is_not_kept_against_a_copy() {
        let cases: [(&[&'static str], f64, bool, Mood); 5] = [
            (&["reference"], 0.0, true, Mood::Open),
            (&["reference", "ez", "wbc"], 0.0, true, Mood::Open),
            (&["reference"], 1.0, true, Mood::Review),
            (&["reference", "loss"], 0.0, false, Mood::Open),
            (&["reference", "lira"], 0.0, false, Mood::Open),
        ];
        for (names, shift, open, mood) in cases {
            let attacks: Vec<_> = names.iter().map(|name| (*name, shift)).collect();
            let report = beside_copy(&attacks);
            let why = report.undecided(Some(0.9));
            assert_eq!(why.is_some(), open, "{names:?} {why:?}");
            assert!(!open || why.unwrap().contains("nearly the same model"));
            assert_eq!(report.otherwise(Some(0.9)), mood, "{names:?} {shift}");
            assert_eq!(report.undecided(None), None);
        }
    }

    /// Of exchanged sets every attack is reversed, but their combination finds its own sign: nothing is concluded, and no
    /// limit is kept that another attack than the deciding one may pass the other way round.
    #[test]
    fn exchanged_sets_are_no_leak() {
        let cases: [(&[(&'static str, f64)], f64); 2] = [
            (&[("loss", -1.0), ("zlib", -1.0), ("min-k", -1.0)], 0.6),
            (&[("loss", 0.0), ("zlib", -1.0)], 0.75),
        ];
        for (attacks, limit) in cases {
            let report = beside_copy(attacks);
            assert_eq!(report.signal, Signal::Reversed);
            assert_eq!(report.otherwise(None), Mood::Open);
            let why = report.undecided(Some(limit));
            assert!(why.unwrap().contains("likes members less"));
            let shown = table(&report, false, None).to_text();
            let named = format!("in the attack {}, which", report.shown_by.0);
            assert!(tables::says(&report).contains(&named) && shown.contains(&report.shown_by.0));
        }
        // A leak that an attack with a sign of its own shows stays one.
        let report = beside_copy(&[("loss", 1.0), ("zlib", -1.0)]);
        assert_eq!(report.signal, Signal::Leak);
    }

    /// A headline that rests on another attack than the deciding one is not left beside that one's AUC alone: the table
    /// names both, and what is above a limit.
    #[test]
    fn the_table_names_the_attack_behind_the_headline() {
        let report = beside_copy(&[("reference", 0.0), ("loss", 8.0)]);
        assert_eq!((report.signal, &*report.shown_by.0), (Signal::Leak, "loss"));
        let rows = |report: &MembershipReport, limit| {
            let shown = table(report, false, limit).to_text();
            let of = |line: &str| line.strip_prefix("AUC of ").map(str::to_owned);
            let names = shown.lines().filter_map(of);
            let first = |name: String| name.split(' ').next().unwrap().to_owned();
            names.map(first).collect::<Vec<_>>()
        };
        assert_eq!(rows(&report, None), ["reference", "loss"]);
        let mut above = beside_copy(&[("reference", 0.0), ("loss", 0.0)]);
        assert_eq!(above.signal, Signal::Unseen);
        assert_eq!(rows(&above, Some(0.6)), ["reference"]);
        above.limit_ends.push((" of combined".to_owned(), 0.7));
        assert_eq!(rows(&above, Some(0.6)), ["reference", "combined"]);
        assert_eq!(rows(&above, Some(0.8)), ["reference"]);
    }

    /// 1000 models that never saw the members, six independent attacks on 60 + 60 records each: a
    /// leak is said of at most one in twenty of them (two-sided intervals: at most 2.5 %; widened for skewness, of 3).
    /// 45 and more would come by chance once in 1e4; a sentence that took each attack at the full level
    /// would say it of about 60.
    #[test]
    fn many_attacks_share_their_false_alarms() {
        let args = MembershipArgs {
            on: OnModel::default(),
            ..MembershipArgs::default()
        };
        let confidence = Confidence::new(0.95).unwrap();
        let mut noise = Noise(88_172_645_463_325_252);
        let mut alarms = 0;
        for _ in 0..1000 {
            let attacks: Vec<Judged> = (0..6)
                .map(|_| Judged {
                    name: "loss",
                    mean_nll: false,
                    fitted: None,
                    set: ScoreSet::new(noise.scores(60), noise.scores(60)).unwrap(),
                })
                .collect();
            let said = says(&attacks, &args, confidence, None).unwrap();
            alarms += u32::from(said.0 == Signal::Leak);
        }
        assert!((1..45).contains(&alarms), "{alarms}");
    }
}

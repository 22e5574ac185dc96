//! Completed runs: what a run that continues from their weights, or is composed with them, has to know.

use super::recipe::Recipe;
use super::{Base, is_false};
use crate::guarantee::Notion;
use crate::mechanism::Mechanism;
use crate::quantity::GroupSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A run that is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompletedRun {
    /// How it was trained; absent of a run that is known by its mechanism alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<Recipe>,
    /// What it released.
    pub mechanism: Mechanism,
    /// The most of its records that one secret was in, where somebody gave that number. What was
    /// counted in its text is not published with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_records: Option<GroupSize>,
    /// The most of its records that differ if one planted canary does; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary_records: Option<u64>,
    /// Whether none of its records was trained on without noise.
    #[serde(default, skip_serializing_if = "is_false")]
    pub everything_private: bool,
    /// Whether its records have classes, which no policy redacts.
    #[serde(default, skip_serializing_if = "is_false")]
    pub labelled: bool,
    /// Whether the key of its owner vouches for what is said of it here.
    #[serde(default, skip_serializing_if = "is_false")]
    pub authenticated: bool,
    /// The model of others that it began from, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Base>,
    /// Whether its promise rests on held-out text that was declared public.
    #[serde(default, skip_serializing_if = "is_false")]
    pub held_out_public: bool,
}

/// See [`CompletedRun::narrower`].
pub(super) fn narrower(recipe: Option<Recipe>, everything_private: bool) -> Option<Recipe> {
    recipe.filter(|recipe| match recipe {
        Recipe::Sgd | Recipe::Dpsgd => false,
        Recipe::Crt => !everything_private,
        Recipe::Sdp | Recipe::Jft | Recipe::Protect => true,
    })
}

/// See [`CompletedRun::notion`].
pub(super) fn notion(narrower: Option<Recipe>, group: GroupSize) -> Notion {
    match (narrower, group) {
        (Some(Recipe::Sdp | Recipe::Jft), _) => Notion::SelectiveDp,
        (Some(Recipe::Crt), GroupSize::ONE) => Notion::Confidentiality,
        (Some(Recipe::Crt), _) => Notion::GroupConfidentiality,
        (_, GroupSize::ONE) => Notion::Dp,
        _ => Notion::GroupDp,
    }
}

/// As [`CompletedRun::within_a_class`].
pub(super) const fn within_a_class(narrower: Option<Recipe>, labelled: bool) -> bool {
    let redacts = matches!(narrower, Some(Recipe::Crt | Recipe::Sdp | Recipe::Jft));
    labelled && redacts
}

impl CompletedRun {
    /// Creates a completed run of which only the mechanism is known.
    #[must_use]
    pub const fn of(mechanism: Mechanism) -> Self {
        Self {
            recipe: None,
            mechanism,
            secret_records: None,
            canary_records: None,
            everything_private: false,
            labelled: false,
            authenticated: false,
            base: None,
            held_out_public: false,
        }
    }

    /// Returns the recipe if its promise is narrower than differential privacy, that is, if its mechanism
    /// doesn't cover part of a record, or a secret.
    #[must_use]
    pub fn narrower(&self) -> Option<Recipe> {
        narrower(self.recipe, self.everything_private)
    }

    /// Returns the notion in which the run's mechanism promises something to `group` records.
    #[must_use]
    pub fn notion(&self, group: GroupSize) -> Notion {
        notion(self.narrower(), group)
    }

    /// Whether what is promised is promised between records of one class: redacted text is trained on without noise beside
    /// its class.
    #[must_use]
    pub fn within_a_class(&self) -> bool {
        within_a_class(self.narrower(), self.labelled)
    }

    /// Returns whether some secret has no promise: crt trains on its public side without noise, and the
    /// secrets missed there aren't published.
    #[must_use]
    pub fn exposes_secrets(&self) -> bool {
        self.narrower() == Some(Recipe::Crt)
    }

    /// Returns whether one promise holds for both runs together. Differential privacy composes with every
    /// notion; a later run can't take back what another recipe leaves without noise. A run of protect is
    /// about secrets, and the number of records of the other run that contain each secret is unknown.
    fn composes(&self, other: &Self) -> bool {
        match (self.recipe, other.recipe) {
            (Some(Recipe::Protect), _) | (_, Some(Recipe::Protect)) => false,
            _ => match (self.narrower(), other.narrower()) {
                (Some(one), Some(other)) => one == other,
                _ => true,
            },
        }
    }

    /// Returns the mechanism that this run counts as in a run of `now` that continues from its weights. Only
    /// differential privacy of whole records carries over. What the policy of sdp or jft left without noise may be a
    /// secret by another policy, and no manifest says which policy ran; the public side of crt may have held what is
    /// private now.
    pub(super) fn carried(&self, now: Option<Recipe>) -> Mechanism {
        let before = self.narrower();
        if before.is_none() && now != Some(Recipe::Protect) {
            return self.mechanism.clone();
        }
        let name = |recipe: Option<Recipe>| recipe.map_or("another kind", Recipe::name);
        let to = match self.recipe == now {
            true => "another run".to_owned(),
            false => format!("a run of {}", name(now)),
        };
        let why = match before {
            Some(Recipe::Sdp | Recipe::Jft) => {
                ": no manifest says which policy redacted its text, and what another policy redacts may \
                 have been trained on without noise"
            }
            _ => "",
        };
        Mechanism::open(format!(
            "the weights come from a run of {}, whose promise does not carry over to {to}{why}",
            name(self.recipe)
        ))
    }

    /// Combines successive runs on the same data into one. If no single promise holds for all of them,
    /// none is left.
    ///
    /// ```
    /// use reticent_accounting::training::{CompletedRun, Recipe};
    /// use reticent_accounting::{Mechanism, NoiseMultiplier, Notion, GroupSize};
    /// let noise = Mechanism::Gaussian { noise_multiplier: NoiseMultiplier::new(2.0)? };
    /// let run = |recipe| CompletedRun { recipe: Some(recipe), ..CompletedRun::of(noise.clone()) };
    /// let both = CompletedRun::sequence(vec![run(Recipe::Dpsgd), run(Recipe::Jft)]);
    /// assert_eq!(both.notion(GroupSize::ONE), Notion::SelectiveDp);
    /// let odd = CompletedRun::sequence(vec![run(Recipe::Crt), run(Recipe::Jft)]);
    /// assert!(matches!(odd.mechanism, Mechanism::Sequence { parts } if parts.len() == 3));
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    #[must_use]
    pub fn sequence(mut runs: Vec<Self>) -> Self {
        if runs.len() == 1 {
            return runs.remove(0);
        }
        let composes = runs.iter().enumerate().all(|(i, run)| {
            let others = &runs[..i];
            others.iter().all(|other| run.composes(other))
        });
        let narrower = runs.iter().find(|run| run.narrower().is_some());
        let recipe = narrower.filter(|_| composes).and_then(|run| run.recipe);
        // Where one base is unstated, what others declare isn't true of all text behind the runs.
        let unstated = runs.iter().find(|run| run.base == Some(Base::Unstated));
        let base = unstated.or_else(|| runs.iter().find(|run| run.base.is_some()));
        let base = base.and_then(|run| run.base);
        let labelled = runs.iter().any(|run| run.labelled);
        let held_out_public = runs.iter().any(|run| run.held_out_public);
        let mut parts: Vec<Mechanism> = runs.into_iter().map(|run| run.mechanism).collect();
        if !composes {
            parts.push(Mechanism::open(
                "the runs promise something to different parts of the data: no promise holds of both",
            ));
        }
        Self {
            recipe,
            labelled,
            base,
            held_out_public,
            ..Self::of(Mechanism::Sequence { parts })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guarantee::confidentiality::{CorpusFacts, Knowledge, Spread};
    use crate::quantity::{Delta, NoiseMultiplier, Tolerance, UnitName};
    use crate::training::{
        Canaries, NoisySteps, Run, Secrets, Sizes, Stated, Stopping, Subject, TrainingPlan,
    };

    fn noise() -> Mechanism {
        let noise_multiplier = NoiseMultiplier::new(1.0).unwrap();
        Mechanism::Gaussian { noise_multiplier }
    }

    fn run(recipe: Recipe) -> CompletedRun {
        CompletedRun {
            recipe: Some(recipe),
            ..CompletedRun::of(noise())
        }
    }

    fn group(records: u32) -> GroupSize {
        GroupSize::new(records).unwrap()
    }

    /// A run of crt on a corpus in which each secret is caught, after an earlier one.
    fn plan(earlier: Option<CompletedRun>) -> TrainingPlan {
        let private = Some(NoisySteps::poisson(2.0, 0.1, 2).unwrap());
        let run = Run::Crt {
            private,
            epochs: 2,
            public_passes: Stated::given(1, "test"),
        };
        let mut plan = TrainingPlan {
            delta: Stated::given(Delta::new(1e-5).unwrap(), "test"),
            sizes: Some(Stated::counted(
                Sizes {
                    public: 0,
                    private: 100,
                },
                "test",
            )),
            continues: earlier.map(|run| Stated::given(run, "test")),
            ..TrainingPlan::new(run, UnitName::new("turn").unwrap())
        };
        let facts = CorpusFacts::new(5, 0, 0, 0, Spread::AtMost(1), Knowledge::Counted);
        plan.secrets.facts = Some(facts.unwrap());
        plan.secrets.everything_private = true;
        plan
    }

    fn upper(plan: &TrainingPlan, subject: Subject) -> Option<f64> {
        let rows = plan.guarantees(Tolerance::new(1e-3).unwrap()).unwrap();
        let row = rows.into_iter().find(|row| row.about == Some(subject))?;
        Some(row.epsilon.unwrap().upper.unwrap().get().get())
    }

    /// Only what holds for whole records carries over; never what holds for what a policy redacts, of which another run
    /// of the same recipe may redact less.
    #[test]
    fn narrower_promises_do_not_carry_over() {
        for first in Recipe::ALL {
            for second in Recipe::ALL {
                let kept = run(first).carried(Some(second)) == noise();
                let whole = matches!(first, Recipe::Sgd | Recipe::Dpsgd);
                assert_eq!(kept, whole && second != Recipe::Protect, "{first} {second}");
            }
        }
        let all_private = CompletedRun {
            everything_private: true,
            ..run(Recipe::Crt)
        };
        assert_eq!(all_private.carried(Some(Recipe::Jft)), noise());
        let Mechanism::NonPrivate { why } = run(Recipe::Jft).carried(Some(Recipe::Jft)) else {
            panic!("a promise to redacted secrets");
        };
        assert!(why.contains("which policy"), "{why}");
    }

    /// A secret that is caught in this corpus costs nothing, unless an earlier run may have used it.
    #[test]
    fn a_caught_secret_keeps_what_the_earlier_run_cost() {
        assert_eq!(upper(&plan(None), Subject::Secret), Some(0.0));
        let mut after = plan(Some(run(Recipe::Dpsgd)));
        assert_eq!(
            upper(&after, Subject::Secret),
            None,
            "its records are not known"
        );
        after.secrets.records = Some(Stated::counted(GroupSize::ONE, "corpus"));
        assert_eq!(
            upper(&after, Subject::Secret),
            None,
            "counted in this text alone"
        );
        after.secrets.records = Some(Stated::counted(group(2), "corpus"));
        let two = upper(&after, Subject::Secret).unwrap();
        after.secrets.records = Some(Stated::given(GroupSize::ONE, "--group"));
        let one = upper(&after, Subject::Secret).unwrap();
        assert!(one < two, "no fewer than are counted here: {one} {two}");
        after.continues.as_mut().unwrap().value.secret_records = Some(group(3));
        let three = upper(&after, Subject::Secret).unwrap();
        assert!(0.0 < one && 2.0 * one < three, "{one} {three}");
        // on the public side of the earlier run nothing protected it
        after.continues = Some(Stated::given(run(Recipe::Crt), "test"));
        for subject in [Subject::Record, Subject::Secret] {
            assert_eq!(upper(&after, subject), Some(f64::INFINITY));
        }
    }

    #[test]
    fn copies_of_a_canary_in_an_earlier_run_count() {
        let planted = |records| Canaries {
            count: 10,
            records,
            on_public_side: 0,
            candidates: None,
        };
        let mut after = plan(Some(run(Recipe::Dpsgd)));
        after.secrets.canaries = Some(Stated::counted(planted(2), "corpus"));
        // the records of secrets say nothing of canaries
        after.secrets.records = Some(Stated::given(GroupSize::ONE, "--group"));
        assert_eq!(upper(&after, Subject::Canary), None);
        let mut with = |records| {
            after.continues.as_mut().unwrap().value.canary_records = Some(records);
            upper(&after, Subject::Canary).unwrap()
        };
        let [none, two, six] = [0, 2, 6].map(&mut with);
        assert!(
            none.to_bits() == two.to_bits() && 2.0 * two < six,
            "{two} {six}"
        );
        // how far this corpus spreads a record says nothing of another one
        let facts = CorpusFacts::new(5, 0, 0, 0, Spread::AtMost(2), Knowledge::Counted);
        after.secrets.facts = Some(facts.unwrap());
        let still = upper(&after, Subject::Canary).unwrap();
        assert_eq!(still.to_bits(), six.to_bits());
    }

    /// Of runs together a class is promised no more than of one of them, in whatever order.
    #[test]
    fn a_chain_remembers_its_classes() {
        let labelled = CompletedRun {
            labelled: true,
            ..run(Recipe::Jft)
        };
        for runs in [
            vec![labelled.clone(), run(Recipe::Jft)],
            vec![run(Recipe::Dpsgd), labelled.clone()],
        ] {
            assert!(CompletedRun::sequence(runs).within_a_class());
        }
        let whole = CompletedRun {
            recipe: Some(Recipe::Dpsgd),
            ..labelled.clone()
        };
        assert!(!whole.within_a_class(), "its class is part of a record");
        let next = TrainingPlan {
            secrets: Secrets::default(),
            ..plan(Some(labelled))
        };
        assert!(next.within_a_class());
        assert!(next.completed(next.mechanism(), None).within_a_class());
    }

    /// Text that nobody declared public is behind the runs together if it is behind one of them, in whatever order.
    #[test]
    fn a_chain_remembers_an_unstated_base() {
        let of = |base| CompletedRun {
            base,
            ..run(Recipe::Dpsgd)
        };
        let chain = |bases: &[Option<Base>]| {
            CompletedRun::sequence(bases.iter().map(|base| of(*base)).collect()).base
        };
        let (public, unstated) = (Some(Base::DeclaredPublic), Some(Base::Unstated));
        assert_eq!(chain(&[public, unstated]), unstated);
        assert_eq!(chain(&[unstated, public]), unstated);
        assert_eq!(chain(&[public, None]), public);
        assert_eq!(chain(&[None, public]), public);
        assert_eq!(chain(&[None, None]), None);
    }

    /// Held-out text that was declared public is behind the runs together if it is behind one of them.
    #[test]
    fn a_chain_remembers_public_held_out_text() {
        let public = |public| Stopping {
            patience: Stated::given(3, "test"),
            public: Stated::given(public, "test"),
        };
        let stopping = |public: Option<Stopping>| TrainingPlan {
            stopping: public,
            ..plan(None)
        };
        let completed = |plan: TrainingPlan| plan.completed(plan.mechanism(), None);
        let by_public = completed(stopping(Some(public(true))));
        assert!(by_public.held_out_public);
        assert!(!completed(stopping(Some(public(false)))).held_out_public);
        assert!(!completed(stopping(None)).held_out_public);
        let next = completed(TrainingPlan {
            continues: Some(Stated::given(by_public.clone(), "test")),
            ..stopping(None)
        });
        assert!(next.held_out_public);
        assert!(CompletedRun::sequence(vec![run(Recipe::Crt), by_public]).held_out_public);
    }

    /// What is known of a run of runs is known of each of them.
    #[test]
    fn a_chain_remembers_its_public_side() {
        let first = run(Recipe::Crt);
        let second = plan(Some(first));
        let second = second.completed(second.mechanism(), None);
        assert!(!second.everything_private);
        let third = plan(Some(second));
        assert!(third.unprotected().is_some());
    }

    #[test]
    fn no_guarantee_passes_through_an_unbounded_stage() {
        let mut spread = plan(None);
        assert!(spread.unprotected().is_none());
        spread.unbounded_stability = true;
        assert!(spread.unprotected().is_some());
        assert_eq!(upper(&spread, Subject::Record), Some(f64::INFINITY));
    }
}

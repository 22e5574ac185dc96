//! Draws a plan: secrets, places, and what follows each copy.

use super::carrier::{CLOSERS, closings, openings};
use super::insert::gaps;
use super::places::{Ground, places};
use super::plan::{Canary, CanaryOptions, CanaryPlan, Carriers, Insertion};
use super::template::CanaryTemplate;
use crate::document::Document;
use crate::error::{Error, Result, range};
use crate::random::{Choices, Purpose};
use crate::unit::Unit;
use std::collections::{BTreeSet, HashMap, HashSet};

/// A plan being drawn, when only the number of gaps is known of the documents.
pub(crate) struct Draw<'a> {
    options: &'a CanaryOptions,
    template: &'a CanaryTemplate,
    ground: Ground,
    /// The gap of each copy, by canary.
    gaps: Vec<Vec<u64>>,
    /// The document of each of these gaps, and its index there.
    places: HashMap<u64, (usize, usize)>,
}

impl<'a> Draw<'a> {
    /// Draws the gap of each copy. `counts` is the number of gaps of each document of the ground, in order.
    ///
    /// # Errors
    /// As for [`CanaryPlan::new`].
    pub(crate) fn new(
        options: &'a CanaryOptions,
        ground: Ground,
        counts: impl Iterator<Item = Result<u64>>,
    ) -> Result<Self> {
        if ground.total() == 0 {
            return Err(Error::Empty("no document to plant canaries in".to_owned()));
        }
        let spec = options.spec;
        let template = options.template.template().ok_or_else(|| {
            Error::Plan(format!(
                "the words of its format {} are not chosen yet",
                options.template
            ))
        })?;
        check_doses(&options.doses, spec.copies())?;
        if options.distinct && template.candidates() < u128::from(spec.canaries()) {
            return Err(range(
                "the number of distinct canaries",
                spec.canaries(),
                format!(
                    "at most {}, the number of candidates of template {}",
                    template.candidates(),
                    template.shown()
                ),
            ));
        }
        if options.caught > spec.canaries() {
            return Err(range(
                "the number of canaries that the policy catches",
                options.caught,
                format!("at most {}, the number of canaries", spec.canaries()),
            ));
        }
        let mut choices = Choices::new(options.seed, Purpose::CanaryPlaces);
        let gaps = (0..spec.canaries() as usize).map(|number| {
            let copies = dose(&options.doses, spec.copies(), number);
            let draws = (0..copies).map(|_| choices.below(ground.total()));
            draws.collect()
        });
        let gaps: Vec<Vec<u64>> = gaps.collect();
        Ok(Self {
            options,
            template,
            ground,
            places: places(gaps.iter().flatten().copied(), counts)?,
            gaps,
        })
    }

    /// Returns the numbers of the documents that get a line.
    pub(crate) fn documents(&self) -> BTreeSet<usize> {
        self.places
            .values()
            .map(|(document, _)| *document)
            .collect()
    }

    /// Returns the plan without the places of its copies, which need the documents.
    ///
    /// # Errors
    /// As for [`CanaryPlan::new`].
    pub(crate) fn plan(&self, unit: Unit) -> Result<CanaryPlan> {
        let options = self.options;
        let (spec, template) = (options.spec, self.template);
        let contexts = self.contexts();
        let caught = caught(options);
        let mut carriers = Choices::new(options.seed, Purpose::CanaryCarriers);
        let canaries = secrets(
            options.seed,
            options.distinct,
            template,
            spec.canaries() as usize,
        )
        .into_iter()
        .zip(contexts)
        .zip(&self.gaps)
        .enumerate()
        .map(|(number, ((secret, context), gaps))| {
            let after = endings(options, template, gaps.len() as u32, &mut carriers)?;
            let insertions = after.iter().map(|ending| Insertion {
                document: String::new(),
                line: 0,
                text: format!("{context}{secret}{ending}"),
            });
            Ok(Canary {
                id: format!("canary-{number}"),
                insertions: insertions.collect(),
                context,
                after: after.into_iter().next().unwrap_or_default(),
                caught: caught.contains(&(number as u64)),
                secret,
            })
        })
        .collect::<Result<Vec<Canary>>>()?;
        Ok(CanaryPlan {
            schema: 1,
            kind: "canary-plan".to_owned(),
            seed: options.seed,
            seed_origin: options.seed_origin,
            template: template.clone(),
            unit,
            copies: spec.copies(),
            doses: options.doses.clone(),
            candidates: template.candidates(),
            carriers: options.carriers,
            distinct: options.distinct,
            canaries,
            digest: None,
        })
    }

    /// Completes such a plan, given the documents that get a line.
    ///
    /// # Errors
    /// Returns an error if a document is missing or has fewer gaps than before.
    pub(crate) fn placed<'d>(
        &self,
        mut plan: CanaryPlan,
        document: impl Fn(usize) -> Option<&'d Document>,
    ) -> Result<CanaryPlan> {
        for (canary, gaps) in plan.canaries.iter_mut().zip(&self.gaps) {
            for (insertion, gap) in canary.insertions.iter_mut().zip(gaps) {
                (insertion.document, insertion.line) = self.place(*gap, &document)?;
            }
        }
        Ok(plan.with_digest())
    }

    /// Returns the text before each canary's secret.
    fn contexts(&self) -> Vec<String> {
        let count = self.options.spec.canaries() as usize;
        let own = if self.options.own_contexts {
            let mut choices = Choices::new(self.options.seed, Purpose::CanaryContexts);
            openings(count, &mut choices)
        } else {
            vec![String::new(); count]
        };
        let (speaker, prefix) = (self.ground.speaker(), self.template.prefix());
        let context = |own: String| format!("{speaker}{own}{prefix}");
        own.into_iter().map(context).collect()
    }

    /// Returns the document id and the line of a gap.
    fn place<'d>(
        &self,
        gap: u64,
        document: impl Fn(usize) -> Option<&'d Document>,
    ) -> Result<(String, u64)> {
        let place = self.places.get(&gap);
        let found = place.and_then(|(number, which)| {
            let document = document(*number)?;
            Some((document, *gaps(document).get(*which)?))
        });
        let (document, line) = found.ok_or_else(|| {
            Error::Plan("a document that gets a line is not as it was before".to_owned())
        })?;
        Ok((document.id.clone(), line))
    }
}

/// Draws the canaries that the policy catches: a uniformly random set of the given size, independent of the secrets.
fn caught(options: &CanaryOptions) -> HashSet<u64> {
    let mut choices = Choices::new(options.seed, Purpose::CanaryCaught);
    let mut drawn = HashSet::new();
    while drawn.len() < options.caught as usize {
        drawn.insert(choices.below(options.spec.canaries().into()));
    }
    drawn
}

/// Returns the secrets that a seed draws. If `distinct`, the template must have at least that many candidates.
pub(super) fn secrets(
    seed: u64,
    distinct: bool,
    template: &CanaryTemplate,
    canaries: usize,
) -> Vec<String> {
    let mut choices = Choices::new(seed, Purpose::CanarySecrets);
    let mut seen = HashSet::new();
    let mut out = Vec::new();
    while out.len() < canaries {
        let secret = template.draw(&mut choices);
        // A repeated draw is rejected, so that the rest is uniform without replacement.
        if seen.insert(secret.clone()) || !distinct {
            out.push(secret);
        }
    }
    out
}

/// Returns the number of copies of a canary: the doses in turn, or the same number for all.
pub(super) fn dose(doses: &[u32], copies: u32, number: usize) -> u32 {
    match doses.len() {
        0 => copies,
        count => doses[number % count],
    }
}

/// Checks that doses are positive and that the largest is the plan's number of copies, to which guarantees refer.
pub(super) fn check_doses(doses: &[u32], copies: u32) -> Result<()> {
    if let Some(zero) = doses.iter().find(|dose| **dose == 0) {
        return Err(range(
            "a dose of copies",
            zero,
            format!("from 1 to {copies}"),
        ));
    }
    match doses.iter().max() {
        Some(&largest) if largest != copies => Err(range(
            "the largest dose of copies",
            largest,
            format!("{copies}, the number of copies in the canary specification"),
        )),
        _ => Ok(()),
    }
}

/// Returns the text after the secret, for each copy.
fn endings(
    options: &CanaryOptions,
    template: &CanaryTemplate,
    copies: u32,
    choices: &mut Choices,
) -> Result<Vec<String>> {
    let suffix = template.suffix();
    let copies = copies as usize;
    let closings = match options.carriers {
        Carriers::Same => vec![".".to_owned(); copies],
        Carriers::Vary if copies > CLOSERS => {
            return Err(range(
                "the number of copies with varying carriers",
                copies,
                format!("at most {CLOSERS}"),
            ));
        }
        Carriers::Vary => closings(suffix, copies, choices),
    };
    Ok(closings
        .into_iter()
        .map(|closing| match options.carriers {
            Carriers::Same if suffix.ends_with(['.', '!', '?']) => suffix.to_owned(),
            _ => format!("{suffix}{closing}"),
        })
        .collect())
}

//! One configuration asked of the oracle and of every engine.

use super::draw::{Case, Chance, Kind};
use super::oracle::{Oracle, Rests, Setting};
use reticent_accounting::pld::Engine;
use reticent_accounting::rdp::RdpCurve;
use reticent_accounting::{
    Delta, Direction, Epsilon, Neighbours, Order, PrivacyLoss, Probability, Result, Tolerance,
};

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// As every question from outside.
    Chosen,
    Contour,
    Grid,
}

impl By {
    pub(crate) const ALL: [Self; 3] = [Self::Chosen, Self::Contour, Self::Grid];
}

/// What is asked in one configuration: δ(ε) of every engine, ε(δ) of every engine, or δ(ε) and what
/// has no engine of its own to choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    Delta,
    Epsilon,
    Others,
}

/// One cell of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) kind: Kind,
    pub(crate) neighbours: Neighbours,
    pub(crate) direction: Direction,
}

/// What came of one engine in one cell.
#[derive(Debug, Default, Clone)]
pub(crate) struct Tally {
    pub(crate) questions: u64,
    pub(crate) answered: u64,
    pub(crate) checks: u64,
    pub(crate) wrong: u64,
    /// Upper ends of δ farther above what they rest on than asked for: safe, and not wrong.
    pub(crate) loose: u64,
}

/// What came of one cell.
#[derive(Debug, Default, Clone)]
pub(crate) struct Row {
    pub(crate) refused: u64,
    pub(crate) by: [Tally; 3],
    /// Relative widths of the oracle's interval, where δ is above 1e-12.
    pub(crate) widths: Vec<f64>,
    /// The same of its intervals around what the accountant's own ends rest on, the wider of the two.
    pub(crate) rests: Vec<f64>,
    pub(crate) wrong: Vec<String>,
}

/// Both ends of an answer.
type Ends = (f64, f64);

/// Mostly about as close as the oracle.
const TOLERANCES: [f64; 4] = [1e-2, 1e-2, 1e-3, 1e-5];

struct Answers<'a> {
    loss: &'a PrivacyLoss,
    by: By,
    tolerance: Tolerance,
}

impl Answers<'_> {
    fn delta(&self, epsilon: f64) -> Result<Ends> {
        let epsilon = Epsilon::new(epsilon)?;
        let bounds = match self.by {
            By::Chosen => self.loss.delta(epsilon, self.tolerance)?.bounds,
            By::Contour => self
                .loss
                .delta_by(Engine::Contour, epsilon, self.tolerance)?,
            By::Grid => self.loss.delta_by(Engine::Grid, epsilon, self.tolerance)?,
        };
        Ok((
            bounds.lower.map_or(0.0, |end| end.get().get()),
            bounds.upper.map_or(1.0, |end| end.get().get()),
        ))
    }

    fn epsilon(&self, delta: f64) -> Result<Ends> {
        let delta = Delta::new(delta)?;
        let bounds = match self.by {
            By::Chosen => self.loss.epsilon(delta, self.tolerance)?.bounds,
            By::Contour => {
                return self.loss.epsilon_by(Engine::Contour, delta, self.tolerance);
            }
            By::Grid => return self.loss.epsilon_by(Engine::Grid, delta, self.tolerance),
        };
        Ok((
            bounds.lower.map_or(0.0, |end| end.get().get()),
            bounds.upper.map_or(f64::INFINITY, |end| end.get().get()),
        ))
    }
}

impl Row {
    /// Draws one configuration and asks everybody.
    pub(crate) fn ask(&mut self, cell: Cell, chance: &mut Chance) -> Result<()> {
        let case = cell.kind.draw(chance, cell.neighbours)?;
        let spot = chance.between(-1.0, 5.0);
        let tolerance = Tolerance::new(chance.choose(&TOLERANCES))?;
        let question = chance.choose(&[Question::Delta, Question::Epsilon, Question::Others]);
        let order = 1.0 + chance.decades(-0.5, 1.0);
        let setting = Setting {
            query: case.query,
            direction: cell.direction,
            steps: case.steps,
            spot,
            far: chance.choose(&[true, false]),
        };
        let Ok(loss) = PrivacyLoss::of(&case.run, case.query, cell.direction) else {
            self.refused += 1;
            return Ok(());
        };
        let Some(oracle) = Oracle::of(&case.run, setting) else {
            self.refused += 1;
            return Ok(());
        };
        let (truth, rests) = (
            oracle.delta(oracle.epsilon),
            oracle.delta_rests(oracle.epsilon),
        );
        self.note_widths(truth, rests);
        let mut all: Vec<(By, Ends)> = Vec::new();
        for by in By::ALL {
            let answers = Answers {
                loss: &loss,
                by,
                tolerance,
            };
            // A single step has a closed form, and two are hard on engines that are not asked about them.
            let pairs = matches!(cell.kind, Kind::Poisson | Kind::Rates | Kind::Mixture);
            if by != By::Chosen && pairs && case.steps < 3 {
                continue;
            }
            // Of several exponential mechanisms the chooser knows the largest moment of any instance, which no pair of
            // distributions attains: δ below that of the pair is no contradiction.
            let by_pair = by != By::Chosen || cell.kind != Kind::Exponential || case.steps < 2;
            let rests = match by_pair {
                true => rests,
                false => Rests {
                    upper: (truth.0, rests.upper.1),
                    ..rests
                },
            };
            let before = self.wrong.len();
            self.by[by as usize].questions += 1;
            let mut checks = 0;
            if question != Question::Epsilon
                && let Ok(ends) = answers.delta(oracle.epsilon)
            {
                checks += 1;
                self.meet("delta", by, ends, truth, (&case, oracle.epsilon));
                self.rest("delta", by, ends, rests, (&case, oracle.epsilon));
                let room = 2.0 * tolerance.get();
                let loose = ends.1 > rests.upper.1 * (1.0 + room) + 1e-12;
                self.by[by as usize].loose += u64::from(loose);
                for (other, theirs) in &all {
                    self.meet(
                        &format!("delta, {other:?}"),
                        by,
                        ends,
                        *theirs,
                        (&case, oracle.epsilon),
                    );
                }
                all.push((by, ends));
            }
            let delta = (0.5 * (truth.0 + truth.1)).min(1.0);
            if question == Question::Epsilon
                && delta > 1e-200
                && let Ok(ends) = answers.epsilon(delta)
            {
                checks += 1;
                self.inverse((by, by_pair), ends, delta, &oracle, &case);
            }
            if by == By::Chosen && question == Question::Others {
                checks += self.others(&answers, &oracle, order, &case)?;
            }
            let tally = &mut self.by[by as usize];
            tally.checks += checks;
            tally.answered += u64::from(checks > 0);
            tally.wrong += u64::from(self.wrong.len() > before);
        }
        Ok(())
    }

    fn note_widths(&mut self, truth: Ends, rests: Rests) {
        let width = |ends: Ends| (ends.1 - ends.0) / ends.1;
        if truth.1 > 1e-12 {
            self.widths.push(width(truth));
            let lower = if rests.lower.1 > 1e-12 {
                width(rests.lower)
            } else {
                0.0
            };
            self.rests.push(width(rests.upper).max(lower));
        }
    }

    /// An upper end is no lower than what it rests on, a lower end no higher.
    fn rest(&mut self, what: &str, by: By, ends: Ends, rests: Rests, at: (&Case, f64)) {
        let fine = ends.1 >= rests.upper.0 && ends.0 <= rests.lower.1;
        if !fine {
            let (case, spot) = at;
            self.wrong.push(format!(
                "{what} by {by:?}: {ends:?} rests on {rests:?} at {spot}: {case:?}"
            ));
        }
    }

    /// Two intervals around the same number have to meet.
    fn meet(&mut self, what: &str, by: By, ends: Ends, truth: Ends, at: (&Case, f64)) {
        let fine = ends.0 <= ends.1 && ends.0 <= truth.1 && truth.0 <= ends.1;
        if !fine {
            let (case, spot) = at;
            self.wrong.push(format!(
                "{what} by {by:?}: {ends:?} against {truth:?} at {spot}: {case:?}"
            ));
        }
    }

    /// δ at the upper end of ε is at most `delta`, at the lower end at least.
    fn inverse(
        &mut self,
        (by, by_pair): (By, bool),
        ends: Ends,
        delta: f64,
        oracle: &Oracle,
        case: &Case,
    ) {
        let mut fine = ends.0 <= ends.1;
        if ends.1.is_finite() {
            fine &= oracle.delta(ends.1).0 <= delta;
            if by_pair {
                fine &= oracle.delta_rests(ends.1).upper.0 <= delta;
            }
        }
        if ends.0 > 0.0 {
            fine &= oracle.delta(ends.0).1 >= delta;
            fine &= oracle.delta_rests(ends.0).lower.1 >= delta;
        }
        if !fine {
            let back = (oracle.delta(ends.0), oracle.delta(ends.1));
            self.wrong.push(format!(
                "epsilon by {by:?}: {ends:?} at {delta:e}: {back:?}: {case:?}"
            ));
        }
    }

    /// The Rényi divergence and the blow-up, which have no engine of their own to choose.
    fn others(
        &mut self,
        answers: &Answers<'_>,
        oracle: &Oracle,
        order: f64,
        case: &Case,
    ) -> Result<u64> {
        let mut checks = 0;
        if let Ok(curve) = RdpCurve::bounds(answers.loss, &[Order::new(order)?]) {
            let ends = (
                curve[0].lower.map_or(0.0, |end| *end.get()),
                curve[0].upper.map_or(f64::INFINITY, |end| *end.get()),
            );
            checks += 1;
            let [truth, upper] = oracle.renyi(order);
            let rests = Rests {
                upper,
                lower: truth,
            };
            self.meet("Rényi", By::Chosen, ends, truth, (case, order));
            self.rest("Rényi", By::Chosen, ends, rests, (case, order));
        }
        // Where the best test is about whether the loss exceeds ε.
        let prior = oracle.delta(oracle.epsilon).1 * (-oracle.epsilon).exp();
        if prior > 1e-9
            && prior < 0.5
            && let Ok(answer) = answers
                .loss
                .blow_up(Probability::new(prior)?, answers.tolerance)
        {
            let bounds = answer.bounds;
            let ends = (
                bounds.lower.map_or(0.0, |end| end.get().get()),
                bounds.upper.map_or(1.0, |end| end.get().get()),
            );
            checks += 1;
            let [truth, upper] = oracle.blow_up(prior, oracle.epsilon);
            let rests = Rests {
                upper,
                lower: truth,
            };
            self.meet("blow-up", By::Chosen, ends, truth, (case, prior));
            self.rest("blow-up", By::Chosen, ends, rests, (case, prior));
        }
        Ok(checks)
    }
}

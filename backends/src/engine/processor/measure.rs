//! Per-example norms, with one task per tap and example.

use super::*;

/// Borrowed inputs of the norms.
pub(super) struct Measure<'a> {
    tape: &'a Tape<Flex>,
    rows: &'a Rows,
    linears: Vec<(Values, Values)>,
    norms: Vec<(Values, Values)>,
    ends: Option<EndValues<'a>>,
    /// Whether a gradient that was computed for its norm is also used for the sum.
    keeps: bool,
}

/// Borrowed inputs of the norms of embeddings and head.
struct EndValues<'a> {
    taps: &'a Ends<Flex>,
    embedding: Values,
    hidden: Values,
    delta: Values,
    /// Rows and columns of the head's matrix.
    shape: (usize, usize),
}

impl<'a> EndValues<'a> {
    fn new(taps: &'a Ends<Flex>) -> Self {
        let Ends { embedding, head } = taps;
        let delta = head.delta.as_ref();
        let delta = delta.expect("norms need the head's gradient");
        Self {
            taps,
            embedding: Values::of(&embedding.gradient),
            hidden: Values::of(&head.hidden),
            delta: Values::of(delta),
            shape: (head.hidden.dims()[1], delta.dims()[1]),
        }
    }
}

/// The result of one example's task.
#[derive(Default)]
struct Found {
    squared: Vec<(usize, f64)>,
    kept: Option<Vec<f32>>,
}

impl<'a> Measure<'a> {
    pub(super) fn new(tape: &'a Tape<Flex>, rows: &'a Rows) -> Self {
        let ends = tape.ends.as_ref().map(EndValues::new);
        let sizes = |a: &Matrix<Flex>, g: &Matrix<Flex>| a.dims()[1] * g.dims()[1];
        let values: usize = tape
            .linears
            .iter()
            .map(|l| sizes(&l.input, &l.gradient))
            .sum();
        let values = values + ends.as_ref().map_or(0, |ends| ends.shape.0 * ends.shape.1);
        Self {
            tape,
            rows,
            linears: tape
                .linears
                .iter()
                .map(|l| (Values::of(&l.input), Values::of(&l.gradient)))
                .collect(),
            norms: tape
                .norms
                .iter()
                .map(|n| (Values::of(&n.unit), Values::of(&n.gradient)))
                .collect(),
            ends,
            keeps: values * 8 <= KEPT_VALUES,
        }
    }

    pub(super) fn all(&self, parameters: usize) -> Norms<Flex> {
        let taps = self.linears.len() + 1;
        let examples = self.rows.spans.len();
        let mut norms = Norms::new(parameters, taps, examples);
        let kept_examples = self.kept_examples();
        // the head first: it is the largest task
        let tasks: Vec<(usize, usize)> = (0..taps + 1)
            .rev()
            .flat_map(|tap| (0..examples).map(move |example| (tap, example)))
            .collect();
        let found: Vec<Found> = tasks
            .par_iter()
            .map(|&(tap, example)| self.one(tap, example, example < kept_examples))
            .collect();
        for ((tap, example), found) in tasks.into_iter().zip(found) {
            for (parameter, squared) in found.squared {
                norms.squared[parameter][example] += squared;
            }
            if let Some(gradient) = found.kept {
                norms.kept[tap][example] = Some(gradient);
            }
        }
        norms
    }

    /// Returns how many of the first examples fit into the memory for kept gradients.
    fn kept_examples(&self) -> usize {
        let mut left = if self.keeps { KEPT_VALUES } else { 0 };
        let shapes: Vec<(usize, usize)> = self
            .tape
            .linears
            .iter()
            .map(|l| (l.input.dims()[1], l.gradient.dims()[1]))
            .chain(self.ends.as_ref().map(|ends| ends.shape))
            .collect();
        self.rows
            .spans
            .iter()
            .take_while(|span| {
                let values =
                    |(d, p): &(usize, usize)| match Way::of((span.length, *d, *p), self.keeps) {
                        Way::Gram => 0,
                        Way::Instantiated => d * p,
                    };
                let needed: usize = shapes.iter().map(values).sum();
                let fits = self.keeps && needed <= left;
                left = left.saturating_sub(needed);
                fits
            })
            .count()
    }

    /// Computes the norms of one tap. The order is: linear layers, the head with the embedding, and all norms as one.
    fn one(&self, tap: usize, example: usize, keep: bool) -> Found {
        let span = self.rows.spans[example];
        if tap < self.linears.len() {
            self.linear(tap, span, keep)
        } else if tap > self.linears.len() {
            self.gains(span)
        } else {
            let ends = self.ends.as_ref();
            ends.map_or_else(Found::default, |ends| self.ends(ends, example, keep))
        }
    }

    fn linear(&self, index: usize, span: Span, keep: bool) -> Found {
        let tap = &self.tape.linears[index];
        let (a, g) = &self.linears[index];
        let (d, p) = (tap.input.dims()[1], tap.gradient.dims()[1]);
        let (a, g) = (part(a, span, d), part(g, span, p));
        let shape = (span.length, d, p);
        let lengths = Lengths::of(a, g, shape);
        let (norm, kept) = match Way::of(shape, self.keeps) {
            Way::Gram => (gram_norm(a, g, &lengths, shape), None),
            Way::Instantiated => {
                let gradient = instantiated(a, g, shape);
                let norm = instantiated_norm(&gradient, &lengths);
                (norm, keep.then_some(gradient))
            }
        };
        let mut squared = vec![(tap.weight, norm.bound())];
        if let Some(bias) = tap.bias {
            squared.push((bias, bias_norm(g, &lengths.g, p).bound()));
        }
        Found { squared, kept }
    }

    fn gains(&self, span: Span) -> Found {
        let mut squared = Vec::new();
        for (tap, (unit, g)) in self.tape.norms.iter().zip(&self.norms) {
            let columns = tap.unit.dims()[1];
            let (unit, g) = (part(unit, span, columns), part(g, span, columns));
            // Heads that share a gain are rows of it.
            let width = columns / tap.heads;
            squared.push((tap.gain, gain_norm(unit, g, width).bound()));
            if let Some(bias) = tap.bias {
                let lengths = row_lengths(g, width);
                squared.push((bias, bias_norm(g, &lengths, width).bound()));
            }
        }
        Found {
            squared,
            kept: None,
        }
    }

    /// Computes the norms of embeddings and head, including the product of both gradients if they share a matrix.
    fn ends(&self, ends: &EndValues<'_>, example: usize, keep: bool) -> Found {
        let Ends { embedding, head } = ends.taps;
        let span = self.rows.spans[example];
        let predicting = head.spans.as_ref().map_or(span, |spans| spans[example]);
        let (d, v) = ends.shape;
        let tokens = &self.rows.inputs[span.range()];
        let g = part(&ends.embedding, span, d);
        let (h, delta) = (
            part(&ends.hidden, predicting, d),
            part(&ends.delta, predicting, v),
        );
        let shape = (predicting.length, d, v);
        let lengths = Lengths::of(delta, h, (predicting.length, v, d));
        let way = Way::of(shape, self.keeps);
        let mut kept = None;
        let mut squared = Vec::new();
        if head.tied {
            let tied = Tied {
                delta,
                hidden: h,
                lengths: &lengths,
                tokens,
                embedded: g,
                scale: f64::from(embedding.scale),
                sizes: (d, v),
            };
            let norm = match way {
                Way::Gram => tied.gram_norm(),
                Way::Instantiated => {
                    let gradient = instantiated(delta, h, (predicting.length, v, d));
                    let norm = tied.instantiated_norm(&gradient);
                    kept = keep.then_some(gradient);
                    norm
                }
            };
            squared.push((head.weight, norm.bound()));
        } else {
            let norm = match way {
                Way::Gram => gram_norm(delta, h, &lengths, (predicting.length, v, d)),
                Way::Instantiated => {
                    let gradient = instantiated(h, delta, shape);
                    let norm = instantiated_norm(&gradient, &lengths);
                    kept = keep.then_some(gradient);
                    norm
                }
            };
            squared.push((head.weight, norm.bound()));
            let table = table_norm(tokens, g, d).scaled(f64::from(embedding.scale));
            squared.push((embedding.token, table.bound()));
        }
        if let Some(bias) = head.bias {
            squared.push((bias, bias_norm(delta, &lengths.a, v).bound()));
        }
        if let Some(position) = embedding.position {
            let places = &self.rows.positions[span.range()];
            squared.push((position, table_norm(places, g, d).bound()));
        }
        if let Some(types) = embedding.types {
            squared.push((types, bias_norm(g, &row_lengths(g, d), d).bound()));
        }
        Found { squared, kept }
    }
}

/// Returns the rows of an example.
fn part(values: &Values, span: Span, width: usize) -> &[f32] {
    &values.slice()[span.start * width..(span.start + span.length) * width]
}

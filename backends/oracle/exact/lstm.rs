//! The LSTM in f64: one sequence forward, then backward through time by hand.

use super::activation::sigmoid;
use super::arithmetic::{add, add_outer, add_rows, add_to_rows, product, product_transposed};
use super::{Network, Sequence, drop_out};
use crate::error::{Error, Result};
use crate::model::{Lora, LstmConfig};
use crate::trainer::dropout::DropoutSite;

/// One step's values: the gates after their activation, the cell, and the preceding states.
struct Step {
    /// Input, forget, candidate and output gate, side by side.
    gates: Vec<f64>,
    cell: Vec<f64>,
    cell_before: Vec<f64>,
    hidden_before: Vec<f64>,
}

struct Trace {
    /// Embedded tokens, one after the other, after dropout.
    embedded: Vec<f64>,
    steps: Vec<Step>,
    /// The input of the head.
    hidden: Vec<f64>,
    logits: Vec<f64>,
}

const EMBEDDING: DropoutSite = DropoutSite::Embedding { segment: 0 };
const OUTPUT: DropoutSite = DropoutSite::Output { segment: 0 };

impl LstmConfig {
    fn embedded<'a>(&self, w: &'a [Vec<f64>], token: u32) -> &'a [f64] {
        &w[0][token as usize * self.embedding..][..self.embedding]
    }

    fn forward(&self, w: &[Vec<f64>], sequence: &Sequence<'_>) -> Trace {
        let (e, h) = (self.embedding, self.hidden);
        let (mut hidden_before, mut cell_before) = (vec![0.0; h], vec![0.0; h]);
        let (mut steps, mut all_hidden) = (Vec::new(), Vec::new());
        let tokens = sequence.tokens.iter();
        let mut embedded = tokens
            .flat_map(|token| self.embedded(w, *token).to_vec())
            .collect::<Vec<f64>>();
        drop_out(sequence.masks, EMBEDDING, &mut embedded);
        for x in embedded.chunks_exact(e) {
            let mut gates = product(x, &w[1], e, 4 * h);
            add(&product(&hidden_before, &w[2], h, 4 * h), &mut gates);
            add(&w[3], &mut gates);
            for (i, z) in gates.iter_mut().enumerate() {
                let candidate = (2 * h..3 * h).contains(&i);
                *z = if candidate { z.tanh() } else { sigmoid(*z) };
            }
            let cell: Vec<f64> = (0..h)
                .map(|i| gates[h + i] * cell_before[i] + gates[i] * gates[2 * h + i])
                .collect();
            let hidden: Vec<f64> = (0..h).map(|i| gates[3 * h + i] * cell[i].tanh()).collect();
            all_hidden.extend_from_slice(&hidden);
            steps.push(Step {
                gates,
                cell_before: std::mem::replace(&mut cell_before, cell.clone()),
                hidden_before: std::mem::replace(&mut hidden_before, hidden),
                cell,
            });
        }
        drop_out(sequence.masks, OUTPUT, &mut all_hidden);
        let mut logits = product(&all_hidden, &w[4], h, self.vocabulary);
        add_to_rows(&w[5], &mut logits);
        Trace {
            embedded,
            steps,
            hidden: all_hidden,
            logits,
        }
    }

    /// dL/d(gates before their activation), and dL/d(cell before), of one step.
    fn step_backward(&self, step: &Step, d_hidden: &[f64], d_next: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let h = self.hidden;
        let (mut d_gates, mut d_before) = (vec![0.0; 4 * h], vec![0.0; h]);
        for i in 0..h {
            let gate = |which: usize| step.gates[which * h + i];
            let squashed = step.cell[i].tanh();
            let d_cell = d_next[i] + d_hidden[i] * gate(3) * (1.0 - squashed * squashed);
            let sigmoid_slope = |y: f64| y * (1.0 - y);
            d_gates[i] = d_cell * gate(2) * sigmoid_slope(gate(0));
            d_gates[h + i] = d_cell * step.cell_before[i] * sigmoid_slope(gate(1));
            d_gates[2 * h + i] = d_cell * gate(0) * (1.0 - gate(2) * gate(2));
            d_gates[3 * h + i] = d_hidden[i] * squashed * sigmoid_slope(gate(3));
            d_before[i] = d_cell * gate(1);
        }
        (d_gates, d_before)
    }
}

impl Network for LstmConfig {
    fn adapt(&mut self, _: Lora) -> Result<()> {
        Err(Error::Unsuitable("an LSTM takes no LoRA adapter".into()))
    }

    fn logits(&self, weights: &[Vec<f64>], sequence: &Sequence<'_>) -> Vec<f64> {
        self.forward(weights, sequence).logits
    }

    fn gradient(
        &self,
        w: &[Vec<f64>],
        sequence: &Sequence<'_>,
        slope: &dyn Fn(&[f64]) -> Vec<f64>,
    ) -> Vec<Vec<f64>> {
        let (e, h, v) = (self.embedding, self.hidden, self.vocabulary);
        let trace = self.forward(w, sequence);
        let d_logits = slope(&trace.logits);
        let mut gradient: Vec<Vec<f64>> = w.iter().map(|w| vec![0.0; w.len()]).collect();
        add_outer(&trace.hidden, &d_logits, h, v, &mut gradient[4]);
        add_rows(&d_logits, &mut gradient[5]);
        let mut d_all = product_transposed(&d_logits, &w[4], v);
        drop_out(sequence.masks, OUTPUT, &mut d_all);
        let mut d_inputs = vec![0.0; trace.embedded.len()];
        let (mut d_later, mut d_cell) = (vec![0.0; h], vec![0.0; h]);
        for (t, step) in trace.steps.iter().enumerate().rev() {
            let mut d_hidden = d_all[t * h..(t + 1) * h].to_vec();
            add(&d_later, &mut d_hidden);
            let (d_gates, d_before) = self.step_backward(step, &d_hidden, &d_cell);
            let embedded = &trace.embedded[t * e..(t + 1) * e];
            add_outer(embedded, &d_gates, e, 4 * h, &mut gradient[1]);
            add_outer(&step.hidden_before, &d_gates, h, 4 * h, &mut gradient[2]);
            add(&d_gates, &mut gradient[3]);
            let d_input = product_transposed(&d_gates, &w[1], 4 * h);
            d_inputs[t * e..(t + 1) * e].copy_from_slice(&d_input);
            d_later = product_transposed(&d_gates, &w[2], 4 * h);
            d_cell = d_before;
        }
        drop_out(sequence.masks, EMBEDDING, &mut d_inputs);
        for (token, d_input) in sequence.tokens.iter().zip(d_inputs.chunks_exact(e)) {
            add(d_input, &mut gradient[0][*token as usize * e..][..e]);
        }
        gradient
    }
}

//! Training with and without protection.

use super::resident::largest;
use super::*;
use crate::engine::bound::MARGIN;
use crate::engine::host::layers::log_softmax;
use crate::trainer::{Gradients, Resident, elsewhere};

impl<B: Floats, K: Layers<B>> Transformer<B, K> {
    /// Returns the sum of gradients over a public batch divided by its number of predictions, on the host or the
    /// device, and the mean loss.
    fn public_sums(&mut self, batch: &PublicBatch<'_>) -> Result<(Sums<B>, f64)> {
        let parts = self.microbatches(&batch.0);
        let rows: Vec<Rows> = parts
            .iter()
            .map(|part| self.rows(&part.sequences, part.grid))
            .collect::<Result<_>>()?;
        let total: usize = rows.iter().map(Rows::predictions).sum();
        let mut sums = self.zeros();
        let mut nll = 0.0;
        let factor = 1.0 / total.max(1) as f32;
        for rows in rows {
            let (tape, part) = self.pass(&rows, Some((&mut sums, factor)));
            nll += part.total();
            let factors = Factors::constant(factor, rows.spans.len(), self.parameters.len());
            let none = Norms::new(0, 0, 0);
            K::add_sums(tape, none, &factors, &rows, &mut sums);
        }
        Ok((sums, nll / total.max(1) as f64))
    }
}

impl<B: Floats, K: Layers<B>> Trainer for Transformer<B, K> {
    fn model(&self) -> Model {
        self.config.clone().into()
    }
    fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }
    fn weights(&self) -> &[Vec<f32>] {
        self.trained()
    }
    fn set_weights(&mut self, weights: Vec<Vec<f32>>) -> Result<()> {
        check_shapes(&self.parameters, &weights)?;
        self.reload(weights);
        Ok(())
    }
    fn groups(&self) -> &[usize] {
        &self.groups
    }
    fn norm_margin(&self) -> f64 {
        MARGIN
    }
    fn device_kind(&self) -> &'static str {
        B::kind()
    }

    fn context(&self) -> Option<usize> {
        Some(self.config.longest())
    }

    fn public_gradient(&mut self, batch: &PublicBatch<'_>) -> Result<(Vec<Vec<f32>>, f64)> {
        let (sums, loss) = self.public_sums(batch)?;
        Ok((sums.into_host(), loss))
    }

    fn begin(&mut self) {
        // Sums on a device are freed first.
        let fitting = match std::mem::replace(&mut self.sums, Sums::Host(Vec::new())) {
            Sums::Host(sums) if check_shapes(&self.parameters, &sums).is_ok() => Some(sums),
            _ => None,
        };
        self.sums = match fitting {
            Some(sums) => self.zeroed(sums),
            None => self.zeros(),
        };
    }

    fn add(&mut self, batch: &PrivateBatch<'_>, clip: &Clip) -> Result<Added> {
        let mut added = Added::default();
        for part in self.microbatches(&batch.0) {
            added += self.add_part(&part.sequences, part.grid, clip)?;
        }
        Ok(added)
    }

    fn accumulator(&mut self) -> &mut [Vec<f32>] {
        self.sums.bring_to_host()
    }

    fn leave_out(&mut self, target: Option<TokenId>) -> Result<()> {
        self.left_out = target;
        Ok(())
    }

    fn drop_out(&mut self, masks: Option<Masks>) -> Result<()> {
        self.masks = masks;
        Ok(())
    }

    fn mask_tokens(&mut self, masked: Option<TokenMasks>) -> Result<()> {
        self.masked = masked;
        Ok(())
    }

    fn masked_loss(
        &mut self,
        batch: &PublicBatch<'_>,
        masked: &TokenMasks,
    ) -> Result<(f64, usize)> {
        let (mut nll, mut predictions) = (0.0, 0);
        let (_, head) = self.head_weights();
        for part in self.microbatches(&batch.0) {
            let rows = self.predicting(&part.sequences, part.grid, Some(masked))?;
            let hidden = self.hidden(&rows, self.embed(&rows));
            let own = HeadGradient::Frozen;
            let (hidden, chosen) = self.head_rows(&rows, hidden);
            let targets = chosen
                .as_ref()
                .map_or(&rows.targets, |chosen| &chosen.targets);
            nll += K::head(&hidden, &head, targets, Precision::Single, own)
                .nll
                .total();
            predictions += rows.predictions();
        }
        Ok((nll, predictions))
    }

    fn classify(&mut self, sequences: &[&[TokenId]]) -> Result<Vec<Vec<f64>>> {
        let Head::Classes(classes) = self.config.head else {
            return Err(Error::Unsuitable("this model tells no classes".into()));
        };
        let (_, head) = self.head_weights();
        let mut out = vec![Vec::new(); sequences.len()];
        for part in self.microbatches(sequences) {
            let mut rows = Rows::reading(&part.sequences, self.limits(), part.grid)?;
            self.placed(&mut rows);
            let hidden = self.hidden(&rows, self.embed(&rows));
            let logits = host(K::logits(&hidden, &head));
            for ((place, span), tokens) in part.places.iter().zip(&rows.spans).zip(&part.sequences)
            {
                let at = span.start + self.config.class_position(tokens);
                out[*place] = log_softmax(&logits[at * classes..(at + 1) * classes]);
            }
        }
        Ok(out)
    }

    fn compute_in(&mut self, precision: Precision) -> Result<()> {
        if !K::computes_in(precision, &self.device) {
            return Err(Error::Precision { precision });
        }
        self.precision = precision;
        Ok(())
    }

    fn adapt(&mut self, adapter: Lora, weights: Vec<Vec<f32>>) -> Result<()> {
        if self.adapter.is_some() {
            return Err(Error::Unsuitable(
                "this model has an adapter already".into(),
            ));
        }
        if self.config.head != Head::NextToken {
            return Err(Error::Unsuitable(
                "an adapter goes on a model that predicts the next token; a class head is trained with its whole model"
                    .into(),
            ));
        }
        let parameters = adapter.parameters();
        check_shapes(&parameters, &weights)?;
        self.frozen = self.parameters.len();
        self.groups = groups(&parameters);
        self.parameters = parameters;
        self.adapter = Some(adapter);
        self.spare = Vec::new();
        self.sums = Sums::Host(Vec::new());
        self.reload(weights);
        Ok(())
    }

    fn adapter(&self) -> Option<&Lora> {
        self.adapter.as_ref()
    }

    fn apply(&mut self, gradient: Privatized, update: &mut dyn Update) -> Result<()> {
        match gradient.gradients {
            Gradients::Host(values) => self.step(update, values),
            Gradients::Device(tensors) => {
                let tensors = tensors.downcast().map_err(|_| elsewhere())?;
                self.step_on_device(*tensors, update)
            }
        }
    }

    fn public_step(&mut self, batch: &PublicBatch<'_>, update: &mut dyn Update) -> Result<f64> {
        let (sums, loss) = self.public_sums(batch)?;
        if loss.is_finite() {
            match sums {
                Sums::Host(sums) => self.step(update, sums)?,
                Sums::Device(sums) => self.step_on_device(sums, update)?,
            }
        }
        Ok(loss)
    }

    fn largest_weight(&self) -> Option<f32> {
        match self.values.get() {
            Some(values) => crate::trainer::largest(values),
            None => largest(&self.weights[self.frozen..]),
        }
    }

    fn resident(&mut self) -> Option<&mut dyn Resident> {
        match self.sums {
            Sums::Device(_) => Some(self),
            Sums::Host(_) => None,
        }
    }

    fn apply_public(&mut self, gradient: Vec<Vec<f32>>, update: &mut dyn Update) -> Result<()> {
        self.step(update, gradient)
    }
}

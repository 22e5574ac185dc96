//! Replaces a model's head by a head for classes.

use super::{Head, Model};
use crate::error::{Error, Result};
use crate::trainer::check_shapes;
use std::collections::HashMap;

impl Model {
    /// Returns the same model with a head for classes of these names, drawn from the seed; all other weights stay as
    /// they are.
    ///
    /// A decoder reads the last token that is not `padding`, and its `config.json` records the padding, as in
    /// transformers.
    ///
    /// ```
    /// use reticent_backends::model::{Family, Head, Model, TransformerConfig};
    /// let model = Model::from(TransformerConfig::new(Family::Gpt2, 50, 8, 1, 2, 16));
    /// let weights = model.starting_weights(0);
    /// let names = ["hotel".to_owned(), "taxi".to_owned()];
    /// let (classifier, fresh) = model.with_classes(weights.clone(), (&names, 1), 7)?;
    /// assert_eq!(classifier.head(), Head::Classes(2));
    /// assert_eq!(fresh[..weights.len()], weights[..]); // of a tied head nothing is left behind
    /// # Ok::<(), reticent_backends::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Unsuitable`] for an LSTM, and for a family without a classifier in transformers;
    /// [`Error::Shape`] if the weights do not fit the model.
    pub fn with_classes(
        &self,
        weights: Vec<Vec<f32>>,
        (names, padding): (&[String], u32),
        seed: u64,
    ) -> Result<(Self, Vec<Vec<f32>>)> {
        let before = self.parameters();
        check_shapes(&before, &weights)?;
        let Self::Transformer(config) = self else {
            return Err(Error::Unsuitable(
                "an lstm tells no classes; the model must be a transformer".into(),
            ));
        };
        let mut config = (**config).clone();
        config.head = Head::Classes(names.len());
        config.class_names = names.to_vec();
        if config.causal() {
            config.padding = Some(padding);
        }
        let model = Self::from(config.validated()?);
        let known = before.iter().map(|p| (p.name.as_str(), &p.shape));
        let mut known: HashMap<_, _> = known.zip(weights).map(|((n, s), w)| (n, (s, w))).collect();
        let drawn = model
            .parameters()
            .into_iter()
            .zip(model.starting_weights(seed));
        let taken = drawn.map(
            |(parameter, drawn)| match known.remove(parameter.name.as_str()) {
                Some((shape, values)) if *shape == parameter.shape => values,
                _ => drawn,
            },
        );
        let taken = taken.collect();
        Ok((model, taken))
    }
}

//! Runs a loaded model on one window at a time.

use rten::{Model, ModelOptions, NodeId, Value, ValueOrView};

/// The data for an input of the model.
#[derive(Debug, Clone, Copy)]
enum Given {
    Ids,
    Ones,
    Zeros,
}

/// A loaded model with its inputs and output.
#[derive(Debug)]
pub(super) struct Session {
    model: Model,
    inputs: Vec<(NodeId, Given)>,
    output: NodeId,
}

impl Session {
    pub(super) fn new(bytes: Vec<u8>) -> Result<Self, String> {
        // Loading from memory never opens a file that the model names.
        let model = ModelOptions::with_all_ops()
            .load(bytes)
            .map_err(|e| format!("no ONNX model: {e}"))?;
        let name = |id: &NodeId| {
            model
                .node_info(*id)
                .and_then(|n| n.name())
                .unwrap_or("")
                .to_owned()
        };
        let mut inputs = Vec::new();
        for id in model.input_ids() {
            let given = match name(id).as_str() {
                "input_ids" => Given::Ids,
                "attention_mask" => Given::Ones,
                "token_type_ids" => Given::Zeros,
                other => {
                    return Err(format!(
                        "the inputs must be input_ids, perhaps attention_mask and token_type_ids, got {other:?}"
                    ));
                }
            };
            inputs.push((*id, given));
        }
        if !inputs.iter().any(|(_, given)| matches!(given, Given::Ids)) {
            return Err("the model must have an input input_ids".to_owned());
        }
        let outputs = model.output_ids();
        let output = match outputs {
            [one] => Some(*one),
            several => several.iter().copied().find(|id| name(id) == "logits"),
        };
        let output = output.ok_or_else(|| {
            let names: Vec<String> = outputs.iter().map(name).collect();
            format!("the model must have an output logits, or a single one, got {names:?}")
        })?;
        Ok(Self {
            model,
            inputs,
            output,
        })
    }

    /// Returns the logits, `labels` for each token.
    pub(super) fn run(&self, tokens: &[i32], labels: usize) -> Result<Vec<f32>, String> {
        let length = tokens.len();
        let inputs = self.inputs.iter().map(|(id, given)| {
            let data = match given {
                Given::Ids => tokens.to_vec(),
                Given::Ones => vec![1; length],
                Given::Zeros => vec![0; length],
            };
            let value = Value::from_shape([1, length], data).map_err(|e| e.to_string())?;
            Ok((*id, ValueOrView::from(value)))
        });
        let inputs = inputs.collect::<Result<Vec<_>, String>>()?;
        let [logits] = self
            .model
            .run_n(inputs, [self.output], None)
            .map_err(|e| format!("it fails on {length} tokens: {e}"))?;
        let kind = logits.dtype();
        let (shape, data) = logits.into_shape_vec::<f32, 3>().map_err(|e| {
            format!("logits must be floats of shape [1, tokens, labels], got {kind}: {e}")
        })?;
        if shape != [1, length, labels] {
            return Err(format!(
                "logits must have the shape [1, {length}, {labels}], got {shape:?}: as many labels as id2label names"
            ));
        }
        Ok(data)
    }
}

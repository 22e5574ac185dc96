//! Serialises operators and tables. The bytes name the build that wrote them, and only the same build reads
//! them, since what an operator does is part of the program.

use crate::guard;
use crate::operator::StageExec;
use crate::request::{Request, failed};
use crate::table::{Process, StageTable};
use ballista_core::serde::{BallistaLogicalExtensionCodec, BallistaPhysicalExtensionCodec};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Extension, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The prefix of our bytes. Ballista's own are protocol buffers, which can't begin like this.
const MARK: &[u8] = b"\xffreticent-cluster\n";

/// A serialised operator or table.
#[derive(Serialize, Deserialize)]
struct Message {
    /// The build, which is compared first; in another build the rest may have another shape.
    build: String,
    request: serde_json::Value,
}

/// Both codecs: for what the client sends, and for what the scheduler sends.
#[derive(Debug)]
pub(crate) struct StageCodec {
    process: Arc<Process>,
    logical: BallistaLogicalExtensionCodec,
    physical: BallistaPhysicalExtensionCodec,
}

impl StageCodec {
    pub(crate) fn new(process: Arc<Process>) -> Self {
        Self {
            process,
            logical: BallistaLogicalExtensionCodec::default(),
            physical: BallistaPhysicalExtensionCodec::default(),
        }
    }

    fn write(&self, request: &Request, out: &mut Vec<u8>) -> Result<()> {
        let message = Message {
            build: self.process.build.clone(),
            request: serde_json::to_value(request).map_err(|error| failed(&error))?,
        };
        out.extend_from_slice(MARK);
        serde_json::to_writer(out, &message).map_err(|error| failed(&error))
    }

    /// Returns the request; `None` for bytes that are not ours.
    fn read(&self, bytes: &[u8]) -> Result<Option<Request>> {
        let Some(json) = bytes.strip_prefix(MARK) else {
            return Ok(None);
        };
        let wrong = |_| failed(&"a message of another version of audit-cluster");
        let message: Message = serde_json::from_slice(json).map_err(wrong)?;
        if message.build != self.process.build {
            return Err(failed(&format!(
                "client, scheduler and executors must be one build of audit-cluster; got a message of {} at one of {}",
                short(&message.build),
                short(&self.process.build)
            )));
        }
        serde_json::from_value(message.request)
            .map(Some)
            .map_err(wrong)
    }
}

fn short(build: &str) -> &str {
    build.get(..16).unwrap_or(build)
}

impl LogicalExtensionCodec for StageCodec {
    fn try_decode(&self, _: &[u8], _: &[LogicalPlan], _: &TaskContext) -> Result<Extension> {
        Err(failed(&"only stages of a plan are run here"))
    }

    fn try_encode(&self, _: &Extension, _: &mut Vec<u8>) -> Result<()> {
        Err(failed(&"only stages of a plan are run here"))
    }

    fn try_decode_table_provider(
        &self,
        bytes: &[u8],
        name: &TableReference,
        schema: SchemaRef,
        context: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        let Some(request) = self.read(bytes)? else {
            return self
                .logical
                .try_decode_table_provider(bytes, name, schema, context);
        };
        let process = self.process.clone();
        Ok(Arc::new(StageTable { request, process }))
    }

    fn try_encode_table_provider(
        &self,
        name: &TableReference,
        table: Arc<dyn TableProvider>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        match table.downcast_ref::<StageTable>() {
            Some(table) => self.write(&table.request, out),
            None => self.logical.try_encode_table_provider(name, table, out),
        }
    }
}

impl PhysicalExtensionCodec for StageCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(request) = self.read(bytes)? else {
            guard::ballistas(bytes, inputs)?;
            let plan = self
                .physical
                .try_decode(bytes, inputs, context, converter)?;
            guard::reader(plan.as_ref(), self.process.trust)?;
            return Ok(plan);
        };
        let [input] = inputs else {
            return Err(failed(&"a stage has one input"));
        };
        guard::below(request.kind, input)?;
        // A scheduler has no key; the executor that receives the stage has one and checks the request.
        if let Some(owner) = self.process.owner {
            request.authentic(owner)?;
        }
        let stage = StageExec::new(request, self.process.clone(), input.clone());
        Ok(Arc::new(stage))
    }

    fn try_encode(
        &self,
        operator: Arc<dyn ExecutionPlan>,
        out: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        match operator.downcast_ref::<StageExec>() {
            // The shards of a stage arrive as rows; those of the whole query are not sent with each task.
            Some(stage) => {
                let mut request = stage.request.clone();
                request.shards.clear();
                self.write(&request, out)
            }
            None => self.physical.try_encode(operator, out, converter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::Trust;

    fn codec(build: &str) -> StageCodec {
        StageCodec::new(Arc::new(Process {
            build: build.to_owned(),
            owner: None,
            threads: 1,
            trust: Trust::Loopback,
        }))
    }

    #[test]
    fn only_the_same_build_reads_an_operator() {
        let request = Request::unsigned(vec![3]);
        let mut bytes = Vec::new();
        codec("0123456789abcdef01")
            .write(&request, &mut bytes)
            .unwrap();
        let read = codec("0123456789abcdef01").read(&bytes).unwrap();
        assert_eq!(read, Some(request));
        let said = codec("other").read(&bytes).unwrap_err().to_string();
        assert!(said.contains("must be one build"), "{said}");
        assert!(said.contains("0123456789abcdef at one of other"), "{said}");
        assert!(codec("other").read(b"\x0a\x03abc").unwrap().is_none());
        assert!(codec("other").read(MARK).is_err());
    }
}

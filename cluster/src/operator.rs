//! The stages of a plan as physical operators.
//!
//! Each operator takes rows and returns rows, and none is a leaf: Ballista splits a query into tasks by splitting
//! its leaves, and knows only its own. Therefore the shards to process come as rows from a table in memory, one
//! partition each, and every shard is processed however partitions are assigned.

use crate::request::{Kind, Request, failed, of_stage};
use crate::runs::{NUMBERS, PART, RUNS, Reader, Writer, number, numbers};
use crate::table::Process;
use datafusion::arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{Distribution, EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, Partitioning, PlanProperties, ReplaceChildrenOptions,
};
use futures::StreamExt;
use reticent_corpus::prepare::ShardStage;
use std::fmt::{self, Formatter};
use std::sync::Arc;
use tokio::sync::mpsc::Sender;

/// The channel to which rows are sent.
type Out = Sender<Result<RecordBatch>>;

/// A stage that processes the rows of its input.
#[derive(Debug)]
pub(crate) struct StageExec {
    pub(crate) request: Request,
    process: Arc<Process>,
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl StageExec {
    pub(crate) fn new(
        request: Request,
        process: Arc<Process>,
        input: Arc<dyn ExecutionPlan>,
    ) -> Self {
        let schema = match request.kind {
            Kind::Scan => RUNS.clone(),
            Kind::Group | Kind::Write => NUMBERS.clone(),
        };
        let partitions = input.output_partitioning().partition_count();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            request,
            process,
            input,
            properties: Arc::new(properties),
        }
    }
}

impl DisplayAs for StageExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "StageExec: {:?}", self.request.kind)
    }
}

impl ExecutionPlan for StageExec {
    fn name(&self) -> &'static str {
        "StageExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    /// All digests of a part must meet in one partition.
    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let one = match self.request.kind {
            Kind::Group => Distribution::KeyPartitioned(vec![Arc::new(Column::new(PART, 0))]),
            Kind::Scan | Kind::Write => Distribution::UnspecifiedDistribution,
        };
        InputDistributionRequirements::new(vec![one])
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(input), true) = (children.pop(), children.is_empty()) else {
            return Err(failed(&"a stage has one input"));
        };
        let made = Self::new(self.request.clone(), self.process.clone(), input);
        Ok(Arc::new(made))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let how = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, how)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let mut rows = self.input.execute(partition, context)?;
        let mut out = RecordBatchReceiverStreamBuilder::new(self.schema(), 2);
        let work = Work {
            request: self.request.clone(),
            process: self.process.clone(),
            out: out.tx(),
        };
        out.spawn(async move {
            let mut reader = Reader::default();
            while let Some(batch) = rows.next().await {
                let batch = batch?;
                if work.request.kind == Kind::Group {
                    reader.enter(&batch)?;
                    continue;
                }
                for shard in numbers(&batch)? {
                    let one = work.clone();
                    blocking(move || one.shard(shard)).await?;
                }
            }
            let all = work.clone();
            blocking(move || all.parts(reader)).await
        });
        Ok(out.build())
    }
}

/// Runs work that computes and reads files on a thread of its own, so that it doesn't block the network.
async fn blocking(work: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| failed(&"a stage ended in a fault of this program"))?
}

/// The work of a partition, and where its rows go.
#[derive(Clone)]
struct Work {
    request: Request,
    process: Arc<Process>,
    out: Out,
}

impl Work {
    /// Runs the stage of a shard, unless an earlier try did.
    fn shard(&self, shard: u64) -> Result<()> {
        let plan = self.request.plan(self.process.owner)?;
        let stage = match self.request.kind {
            Kind::Scan => ShardStage::Scan(shard),
            Kind::Group | Kind::Write => ShardStage::Write(shard),
        };
        if !plan.has(stage) {
            let done = plan.run(stage, self.process.threads, &|_, _| self.goes_on());
            if done.map_err(|error| of_stage(stage, error))?.is_none() {
                return Err(failed(&format!("{stage}: nobody waits for it any more")));
            }
        }
        if self.request.kind != Kind::Scan {
            self.give(number(shard)?);
            return Ok(());
        }
        let (mut writer, mut problem) = (Writer::default(), None);
        let scanned = plan.scanned(shard, |digests| {
            let entered = writer.enter(&digests, |batch| self.give(batch));
            entered.unwrap_or_else(|error| {
                problem = Some(error);
                false
            })
        });
        scanned.map_err(|error| of_stage(stage, error))?;
        if let Some(error) = problem {
            return Err(error);
        }
        self.give(writer.finish()?);
        Ok(())
    }

    /// Runs the stage of each part whose digests arrived.
    fn parts(&self, reader: Reader) -> Result<()> {
        let mut plan = None;
        for part in reader.parts() {
            let (part, digests) = part?;
            let stage = ShardStage::Group(part);
            let plan = match &mut plan {
                Some(plan) => plan,
                empty => empty.insert(self.request.plan(self.process.owner)?),
            };
            if !plan.has(stage) {
                let threads = self.process.threads;
                let done = plan.group_digests(part, digests, threads, &|_, _| self.goes_on());
                if !done.map_err(|error| of_stage(stage, error))? {
                    return Err(failed(&format!("{stage}: nobody waits for it any more")));
                }
            }
            self.give(number(part)?);
        }
        Ok(())
    }

    fn goes_on(&self) -> bool {
        !self.out.is_closed()
    }

    /// Sends a batch; returns false if nobody receives rows any more.
    fn give(&self, batch: RecordBatch) -> bool {
        batch.num_rows() == 0 || self.out.blocking_send(Ok(batch)).is_ok()
    }
}

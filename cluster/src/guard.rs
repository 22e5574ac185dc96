//! What an executor runs: stages of a plan, and nothing else that DataFusion could be asked for, such as reading files.

use crate::operator::StageExec;
use crate::request::failed;
use ballista_core::JobId;
use ballista_core::execution_plans::{ShuffleReaderExec, ShuffleWriterExec, SortShuffleWriterExec};
use ballista_executor::execution_engine::{
    DefaultExecutionEngine, ExecutionEngine, QueryStageExecutor,
};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::prelude::SessionConfig;
use std::any::Any;
use std::sync::Arc;

/// Ballista's engine behind a look at the plan.
#[derive(Default)]
pub(crate) struct StagesOnly(DefaultExecutionEngine);

impl ExecutionEngine for StagesOnly {
    fn create_query_stage_exec(
        &self,
        job: JobId,
        stage: usize,
        task: usize,
        partitions: Vec<usize>,
        plan: Arc<dyn ExecutionPlan>,
        folder: &str,
        config: &SessionConfig,
    ) -> Result<Arc<dyn QueryStageExecutor>> {
        check(&plan)?;
        self.0
            .create_query_stage_exec(job, stage, task, partitions, plan, folder, config)
    }
}

fn check(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    let in_memory = |source: &DataSourceExec| {
        let source: &dyn Any = source.data_source().as_ref();
        source.is::<MemorySourceConfig>()
    };
    let allowed = plan.is::<StageExec>()
        || plan.is::<ShuffleReaderExec>()
        || plan.is::<ShuffleWriterExec>()
        || plan.is::<SortShuffleWriterExec>()
        || plan.is::<CooperativeExec>()
        || plan.downcast_ref::<DataSourceExec>().is_some_and(in_memory);
    if !allowed {
        return Err(failed(&format!(
            "{}: only stages of a plan are run here",
            plan.name()
        )));
    }
    plan.children().into_iter().try_for_each(check)
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Kind;
    use crate::runs::{NUMBERS, number};
    use crate::table::Process;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::limit::GlobalLimitExec;

    #[test]
    fn nothing_but_stages_is_run() {
        let rows = [vec![number(0).unwrap()]];
        let rows = MemorySourceConfig::try_new_exec(&rows, NUMBERS.clone(), None).unwrap();
        let json = r#"{"kind":"Write","plan":"/p","folder":"f","shards":[]}"#;
        let process = Process {
            build: "b".to_owned(),
            owner: None,
            threads: 1,
        };
        let request: crate::request::Request = serde_json::from_str(json).unwrap();
        assert_eq!(request.kind, Kind::Write);
        let stage = |input| StageExec::new(request.clone(), Arc::new(process), input);
        let stage: Arc<dyn ExecutionPlan> = Arc::new(stage(rows));
        check(&stage).unwrap();
        let limited: Arc<dyn ExecutionPlan> = Arc::new(GlobalLimitExec::new(stage, 0, Some(1)));
        let other: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(NUMBERS.clone()));
        for plan in [limited, other] {
            let said = check(&plan).unwrap_err().to_string();
            assert!(
                said.contains("only stages of a plan are run here"),
                "{said}"
            );
        }
    }
}

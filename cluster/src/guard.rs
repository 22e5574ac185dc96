//! Restricts what is decoded and run to the shapes of our own plans, out of everything that DataFusion or Ballista
//! could be asked for. Anyone who reaches the scheduler's port can submit plans, so all others are refused before
//! they have an effect:
//!
//! ```text
//! writer of the shuffle → stage → rows in memory, or a reader of the shuffle
//! writer of the shuffle → group → scan → rows in memory
//! ```
//!
//! The codec checks each operator as it is decoded, in every process; an executor checks the whole plan.

use crate::operator::StageExec;
use crate::request::{Kind, failed};
use crate::table::StageTable;
use crate::trust::{Trust, beyond};
use async_trait::async_trait;
use ballista_core::JobId;
use ballista_core::execution_plans::{ShuffleReaderExec, ShuffleWriterExec, SortShuffleWriterExec};
use ballista_core::serde::protobuf::BallistaPhysicalPlanNode;
use ballista_core::serde::protobuf::ballista_physical_plan_node::PhysicalPlanType;
use ballista_executor::execution_engine::{
    DefaultExecutionEngine, ExecutionEngine, QueryStageExecutor,
};
use datafusion::catalog::Session;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::source_as_provider;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion::prelude::SessionConfig;
use prost::Message;
use std::any::Any;
use std::sync::Arc;

/// The longest name of a job.
const NAME: usize = 64;

type Plan = Arc<dyn ExecutionPlan>;

fn refused(what: &str) -> DataFusionError {
    failed(&format!("{what}: only stages of a plan are run here"))
}

/// Returns whether a job's name is safe as the name of a folder.
fn plain(job: &str) -> bool {
    let letters = job
        .bytes()
        .all(|letter| letter.is_ascii_alphanumeric() || letter == b'-');
    letters && (1..=NAME).contains(&job.len())
}

/// Checks a message of Ballista before it is decoded: a writer has a stage below it, and a reader has nothing below
/// it.
pub(crate) fn ballistas(bytes: &[u8], inputs: &[Plan]) -> Result<()> {
    let node = BallistaPhysicalPlanNode::decode(bytes).map_err(|_| refused("bytes"))?;
    let job = match (&node.physical_plan_type, inputs) {
        (Some(PhysicalPlanType::ShuffleReader(_)), []) => return Ok(()),
        (Some(PhysicalPlanType::UnresolvedShuffle(_)), []) => return Ok(()),
        (Some(PhysicalPlanType::ShuffleWriter(writer)), [input]) if input.is::<StageExec>() => {
            &writer.job_id
        }
        (Some(PhysicalPlanType::SortShuffleWriter(writer)), [input]) if input.is::<StageExec>() => {
            &writer.job_id
        }
        _ => return Err(refused("an operator of Ballista")),
    };
    match plain(job) {
        true => Ok(()),
        false => Err(refused("the name of a job")),
    }
}

/// Checks the input of a stage; group reads scan without a shuffle if everything is one partition.
pub(crate) fn below(kind: Kind, plan: &Plan) -> Result<()> {
    match plan.downcast_ref::<StageExec>() {
        Some(scan) if kind == Kind::Group && scan.request.kind == Kind::Scan => {
            scan.children().into_iter().try_for_each(leaf)
        }
        _ => leaf(plan),
    }
}

/// Checks that a plan only reads rows in memory or from the shuffle.
fn leaf(plan: &Plan) -> Result<()> {
    if plan.is::<CooperativeExec>() {
        return plan.children().into_iter().try_for_each(leaf);
    }
    let in_memory = |source: &DataSourceExec| {
        let source: &dyn Any = source.data_source().as_ref();
        source.is::<MemorySourceConfig>()
    };
    let memory = plan.downcast_ref::<DataSourceExec>();
    let rows = memory.is_some_and(in_memory)
        || plan.is::<ShuffleReaderExec>()
        || plan.is::<ballista_core::execution_plans::UnresolvedShuffleExec>();
    match rows {
        true => Ok(()),
        false => Err(refused(plan.name())),
    }
}

/// Checks a reader, which may fetch only from this machine unless the network is trusted.
pub(crate) fn reader(plan: &dyn ExecutionPlan, trust: Trust) -> Result<()> {
    let Some(reader) = plan.downcast_ref::<ShuffleReaderExec>() else {
        return Ok(());
    };
    for place in reader.partition.iter().flatten() {
        let host = &place.executor_meta.host;
        if !trust.reaches(host) {
            return Err(failed(&beyond(host)));
        }
        if !plain(place.partition_id.job_id.as_str()) {
            return Err(refused("the name of a job"));
        }
    }
    Ok(())
}

/// Checks what an executor runs.
fn whole(job: &str, plan: &Plan) -> Result<()> {
    if !plain(job) {
        return Err(refused("the name of a job"));
    }
    if !plan.is::<ShuffleWriterExec>() && !plan.is::<SortShuffleWriterExec>() {
        return Err(refused(plan.name()));
    }
    let [stage] = plan.children()[..] else {
        return Err(refused(plan.name()));
    };
    match (stage.downcast_ref::<StageExec>(), &stage.children()[..]) {
        (Some(own), [input]) => below(own.request.kind, input),
        _ => Err(refused(stage.name())),
    }
}

/// Ballista's engine, after a check of the plan.
#[derive(Default)]
pub(crate) struct StagesOnly(DefaultExecutionEngine);

impl ExecutionEngine for StagesOnly {
    fn create_query_stage_exec(
        &self,
        job: JobId,
        stage: usize,
        task: usize,
        partitions: Vec<usize>,
        plan: Plan,
        folder: &str,
        config: &SessionConfig,
    ) -> Result<Arc<dyn QueryStageExecutor>> {
        whole(job.as_str(), &plan)?;
        self.0
            .create_query_stage_exec(job, stage, task, partitions, plan, folder, config)
    }
}

/// The scheduler's planner. It opens no file for a query, because it plans only our own.
#[derive(Debug)]
pub(crate) struct StagePlanner;

#[async_trait]
impl QueryPlanner for StagePlanner {
    async fn create_physical_plan(&self, query: &LogicalPlan, state: &dyn Session) -> Result<Plan> {
        let ours = match query {
            LogicalPlan::TableScan(scan) => {
                source_as_provider(&scan.source)?.is::<StageTable>() && scan.filters.is_empty()
            }
            _ => false,
        };
        if !ours {
            return Err(refused("a query"));
        }
        let planner = DefaultPhysicalPlanner::default();
        planner.create_physical_plan(query, state).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Request;
    use crate::runs::{NUMBERS, number};
    use crate::table::Process;
    use ballista_core::serde::protobuf::{ChaosExecNode, ShuffleWriterExecNode};
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::limit::GlobalLimitExec;

    fn rows() -> Plan {
        let rows = [vec![number(0).unwrap()]];
        MemorySourceConfig::try_new_exec(&rows, NUMBERS.clone(), None).unwrap()
    }

    fn stage(input: Plan) -> Plan {
        stage_of(Kind::Write, input)
    }

    fn stage_of(kind: Kind, input: Plan) -> Plan {
        let process = Process {
            build: "b".to_owned(),
            owner: None,
            threads: 1,
            trust: Trust::Loopback,
        };
        let request = Request::unsigned(vec![]).of_kind(kind);
        Arc::new(StageExec::new(request, Arc::new(process), input))
    }

    fn writer(job: &str, input: Plan) -> Plan {
        let made = ShuffleWriterExec::try_new(job.into(), 1, input, String::new());
        Arc::new(made.unwrap())
    }

    #[test]
    fn nothing_but_stages_is_run() {
        whole("038-aB", &writer("1", stage(rows()))).unwrap();
        let scan = stage_of(Kind::Scan, rows());
        whole("7", &writer("1", stage_of(Kind::Group, scan.clone()))).unwrap();
        assert!(whole("7", &writer("1", stage_of(Kind::Write, scan.clone()))).is_err());
        assert!(whole("7", &writer("1", stage_of(Kind::Scan, scan))).is_err());
        let empty: Plan = Arc::new(EmptyExec::new(NUMBERS.clone()));
        let limited: Plan = Arc::new(GlobalLimitExec::new(stage(rows()), 0, Some(1)));
        for plan in [
            empty.clone(),
            rows(),
            stage(rows()),
            writer("1", rows()),
            writer("1", empty.clone()),
            writer("1", limited),
            writer("1", writer("2", stage(rows()))),
            writer("1", stage(empty)),
            writer("1", stage(stage(rows()))),
            writer("1", stage(writer("2", rows()))),
        ] {
            let said = whole("7", &plan).unwrap_err().to_string();
            assert!(
                said.contains("only stages of a plan are run here"),
                "{said}"
            );
        }
        for job in ["", "/tmp/evil", "..", "a/b", "a.b", &"a".repeat(NAME + 1)] {
            assert!(whole(job, &writer("1", stage(rows()))).is_err(), "{job}");
        }
    }

    #[test]
    fn nothing_but_stages_is_decoded() {
        let bytes = |kind| {
            let node = BallistaPhysicalPlanNode {
                physical_plan_type: Some(kind),
            };
            node.encode_to_vec()
        };
        let written = |job: &str| {
            bytes(PhysicalPlanType::ShuffleWriter(ShuffleWriterExecNode {
                job_id: job.to_owned(),
                ..ShuffleWriterExecNode::default()
            }))
        };
        ballistas(&written("038"), &[stage(rows())]).unwrap();
        let chaos = bytes(PhysicalPlanType::ChaosExec(ChaosExecNode::default()));
        for (bytes, inputs) in [
            (written("038"), vec![]),
            (written("038"), vec![rows()]),
            (written("038"), vec![writer("1", stage(rows()))]),
            (written("038"), vec![stage(rows()), stage(rows())]),
            (written("/tmp/evil"), vec![stage(rows())]),
            (written("../evil"), vec![stage(rows())]),
            (chaos, vec![stage(rows())]),
            (vec![], vec![stage(rows())]),
            (vec![1, 2, 255], vec![]),
        ] {
            assert!(ballistas(&bytes, &inputs).is_err(), "{bytes:?}");
        }
        leaf(&rows()).unwrap();
        for plan in [stage(rows()), writer("1", rows())] {
            assert!(leaf(&plan).is_err());
        }
    }
}

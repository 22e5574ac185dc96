//! The tables that a client reads: reading one runs the stages of a plan.

use crate::build;
use crate::operator::StageExec;
use crate::owner_key::OwnerKey;
use crate::request::{Kind, Request};
use crate::runs::{NUMBERS, number};
use crate::trust::Trust;
use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::projection::ProjectionExec;
use std::sync::Arc;

/// The identity and permissions of this process.
#[derive(Debug)]
pub(crate) struct Process {
    /// The build of this program.
    pub(crate) build: String,
    /// The owner's key; `None` for a scheduler, which opens no file.
    pub(crate) owner: Option<OwnerKey>,
    /// The number of threads of each stage.
    pub(crate) threads: usize,
    /// Who can reach its network.
    pub(crate) trust: Trust,
}

impl Process {
    /// Creates a process that runs stages.
    pub(crate) fn working(threads: usize, trust: Trust) -> anyhow::Result<Self> {
        Ok(Self {
            build: build::of_this_program()?,
            owner: Some(OwnerKey::read()?),
            threads,
            trust,
        })
    }

    /// Creates a process that plans queries.
    pub(crate) fn planning(trust: Trust) -> anyhow::Result<Self> {
        Ok(Self {
            build: build::of_this_program()?,
            owner: None,
            threads: 1,
            trust,
        })
    }
}

/// The stages group or write of a plan, as a table of the parts or shards that are done.
#[derive(Debug)]
pub(crate) struct StageTable {
    pub(crate) request: Request,
    pub(crate) process: Arc<Process>,
}

#[async_trait]
impl TableProvider for StageTable {
    fn schema(&self) -> SchemaRef {
        NUMBERS.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let shards = self.request.shards.iter();
        let shards: Vec<_> = shards
            .map(|shard| Ok(vec![number(*shard)?]))
            .collect::<Result<_>>()?;
        let stage = |kind, input| -> Arc<dyn ExecutionPlan> {
            let request = self.request.of_kind(kind);
            Arc::new(StageExec::new(request, self.process.clone(), input))
        };
        let shards = MemorySourceConfig::try_new_exec(&shards, NUMBERS.clone(), None)?;
        let done = match self.request.kind {
            Kind::Group => stage(Kind::Group, stage(Kind::Scan, shards)),
            kind => stage(kind, shards),
        };
        if projection.is_none_or(|columns| columns[..] == [0]) {
            return Ok(done);
        }
        let columns = projection.into_iter().flatten().map(|_| {
            let column = Column::new("number", 0);
            (Arc::new(column) as _, "number".to_owned())
        });
        let columns: Vec<_> = columns.collect();
        Ok(Arc::new(ProjectionExec::try_new(columns, done)?))
    }
}

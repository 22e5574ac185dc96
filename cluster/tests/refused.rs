//! What a scheduler and an executor refuse of whoever reaches the scheduler's port, over the wire.
#![allow(clippy::unwrap_used)] // Helpers of a test.

use ballista::prelude::{SessionConfigExt, SessionContextExt};
use ballista_core::execution_plans::{ShuffleWriterExec, execute_physical_plan};
use ballista_core::serde::BallistaPhysicalExtensionCodec;
use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{CsvReadOptions, SessionConfig, SessionContext};
use datafusion_proto::protobuf::PhysicalPlanNode;
use futures::TryStreamExt;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

fn start(place: &Path, address: &str, words: &[&str]) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_audit-cluster"));
    command.args(words).env("TMPDIR", place);
    command.env("RETICENT_OWNER_KEY", place.join("owner.key"));
    let process = Running(command.spawn().unwrap());
    let end = Instant::now() + Duration::from_secs(60);
    while TcpStream::connect(address).is_err() {
        assert!(Instant::now() < end, "{words:?} does not listen");
        std::thread::sleep(Duration::from_millis(50));
    }
    process
}

fn rows() -> Arc<dyn ExecutionPlan> {
    let numbers: ArrayRef = Arc::new(UInt64Array::from(vec![7]));
    let batch = RecordBatch::try_from_iter([("number", numbers)]).unwrap();
    let (schema, rows) = (batch.schema(), vec![vec![batch]]);
    MemorySourceConfig::try_new_exec(&rows, schema, None).unwrap()
}

async fn submitted(scheduler: &str, plan: Arc<dyn ExecutionPlan>) -> String {
    let config = SessionConfig::new_with_ballista();
    let (ballista, codec) = (
        config.ballista_config(),
        BallistaPhysicalExtensionCodec::default(),
    );
    let rows = async {
        let rows = execute_physical_plan::<PhysicalPlanNode>(
            format!("http://{scheduler}"),
            &ballista,
            plan,
            &codec,
            String::new(),
            config,
        );
        rows.await?.try_collect::<Vec<_>>().await
    };
    rows.await.unwrap_err().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_reaches_the_scheduler_runs_no_plan_of_their_own() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("owner.key"), "ab".repeat(32)).unwrap();
    let (scheduler, executor) = (free(), free());
    let _one = start(
        place.path(),
        &scheduler,
        &["scheduler", "--listen", &scheduler],
    );
    let _two = start(
        place.path(),
        &executor,
        &["executor", "--scheduler", &scheduler, "--listen", &executor],
    );
    let refusal = "only stages of a plan are run here";
    // The name of a nested writer's job was the path of what it wrote.
    let written = place.path().join("written");
    let job = written.to_str().unwrap().to_owned();
    for job in [job.as_str(), "7"] {
        let writer = ShuffleWriterExec::try_new(job.into(), 7, rows(), String::new()).unwrap();
        let said = submitted(&scheduler, Arc::new(writer)).await;
        assert!(said.contains(refusal), "{said}");
    }
    // The scheduler hands these on, and the executor refuses them.
    let said = submitted(&scheduler, rows()).await;
    assert!(said.contains(refusal), "{said}");
    assert!(!written.exists());
    // Nor does the scheduler plan a query over files.
    let file = place.path().join("file.csv");
    std::fs::write(&file, "a\n1\n").unwrap();
    let scheduler = format!("df://{scheduler}");
    let session = SessionContext::remote(&scheduler).await.unwrap();
    let table = session.read_csv(file.to_str().unwrap(), CsvReadOptions::new());
    let said = table.await.unwrap().collect().await.unwrap_err();
    assert!(said.to_string().contains(refusal), "{said}");
}

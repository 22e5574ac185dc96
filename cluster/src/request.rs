//! The request of an operator, as sent from the client through the scheduler to the executors.

use crate::owner_key::OwnerKey;
use anyhow::{Context, Result, ensure};
use datafusion::error::{DataFusionError, Result as FusionResult};
use hmac::{Hmac, KeyInit, Mac};
use reticent_corpus::Error;
use reticent_corpus::prepare::{ShardPlan, ShardStage};
use reticent_disk::{from_hexadecimal, hexadecimal};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::path::{Path, PathBuf};

/// The most characters of a stage's error that are sent.
const LONGEST: usize = 400;
/// The start and end markers of our own errors, by which the client finds them in Ballista's errors.
const OURS: &str = "audit-cluster: ";
const END: char = '¶';
/// The domain prefix of a request's code, since the key has other uses.
const CODE: &[u8] = b"reticent audit-cluster request 2\0";

/// The stage that an operator runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// Computes the digests of each shard that it receives.
    Scan,
    /// Computes which units occurred before, for each part whose digests it receives.
    Group,
    /// Writes the records of each shard that it receives.
    Write,
}

/// The stages of a plan that a query runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) kind: Kind,
    /// The file of the plan, under the same name on every machine.
    plan: PathBuf,
    /// The code of the plan itself: at that name another one may be seen, or written meanwhile.
    plan_code: String,
    /// The shards to process.
    pub(crate) shards: Vec<u64>,
    /// HMAC-SHA256 of the plan's name and code under the owner's key, in hexadecimal. Kind and shards are not included: the
    /// scheduler, which has no key, derives scan from group, and shards come as rows.
    code: String,
}

impl Request {
    pub(crate) fn new(
        kind: Kind,
        path: &Path,
        plan: &ShardPlan,
        shards: Vec<u64>,
        owner: OwnerKey,
    ) -> Result<Self> {
        let absolute = std::path::absolute(path)
            .with_context(|| format!("--plan: {} has no absolute path", path.display()))?;
        ensure!(
            absolute.to_str().is_some(),
            "--plan: {} is no text in UTF-8, and cannot travel",
            path.display()
        );
        let mut request = Self {
            kind,
            plan_code: plan.code().to_owned(),
            plan: absolute,
            shards,
            code: String::new(),
        };
        let code = request.mac(owner)?.finalize().into_bytes();
        request.code = hexadecimal(&code);
        Ok(request)
    }

    fn mac(&self, owner: OwnerKey) -> Result<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&owner.0).context("the owner's key")?;
        mac.update(CODE);
        for part in [
            self.plan.as_os_str().as_encoded_bytes(),
            self.plan_code.as_bytes(),
        ] {
            mac.update(part);
            mac.update(&[0]);
        }
        Ok(mac)
    }

    /// Checks that the request comes from the owner. Nothing that a request names is opened before this, so that nobody
    /// else learns what exists.
    pub(crate) fn authentic(&self, owner: OwnerKey) -> FusionResult<()> {
        let code = from_hexadecimal(self.code.as_bytes());
        let mac = self.mac(owner).map_err(|error| failed(&error))?;
        let same = code.is_some_and(|code| mac.verify_slice(&code).is_ok());
        if same {
            return Ok(());
        }
        Err(failed(
            &"the request was written under another owner's key: an executor runs its own owner's plans only",
        ))
    }

    pub(crate) fn of_kind(&self, kind: Kind) -> Self {
        Self {
            kind,
            ..self.clone()
        }
    }

    /// Returns the plan, if it exists and is the one that is meant.
    pub(crate) fn plan(&self, owner: Option<OwnerKey>) -> FusionResult<ShardPlan> {
        let Some(owner) = owner else {
            return Err(failed(
                &"this process has no owner's key, and runs no stage",
            ));
        };
        let plan =
            ShardPlan::load(&self.plan, owner.0).map_err(|error| of_corpus("--plan", error))?;
        if plan.code() != self.plan_code {
            return Err(failed(&format!(
                "{}: it is not the plan that the client read: both must see the same file",
                self.plan.display()
            )));
        }
        Ok(plan)
    }
}

/// Returns an error, on one line, for which a retry doesn't help.
pub(crate) fn failed(said: &dyn std::fmt::Display) -> DataFusionError {
    DataFusionError::Execution(short(said))
}

/// Returns the error of a failed stage. A failure of the system may be retried; any other is final. Errors of the
/// corpus crate contain no text of a corpus.
pub(crate) fn of_stage(stage: ShardStage, error: Error) -> DataFusionError {
    of_corpus(&stage.to_string(), error)
}

fn of_corpus(place: &str, error: Error) -> DataFusionError {
    let said = short(&format!("{place}: {error}"));
    match error {
        Error::Read { source, .. } | Error::Write { source, .. } => {
            DataFusionError::IoError(std::io::Error::new(source.kind(), said))
        }
        _ => DataFusionError::Execution(said),
    }
}

/// Why a query failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// A stage failed, or a message was refused: final.
    Stage,
    /// It was given up, or a connection broke: a retry may help.
    Lost,
    /// Any other reason.
    Other,
}

/// Returns why a query failed, and its error in readable form without the wrappers that were added on the way.
/// `scheduler`: how to name the scheduler if the connection to it broke.
pub(crate) fn readable(error: &DataFusionError, scheduler: &str) -> (Why, String) {
    let whole = error.strip_backtrace();
    if let Some(at) = whole.rfind(OURS) {
        let ours = &whole[at + OURS.len()..];
        let ours = ours.split(END).next().unwrap_or(ours);
        // Rust's Debug format puts backslashes before quotation marks, more with each level.
        let (mut out, mut slashes) = (String::new(), 0);
        for letter in ours.chars() {
            match letter {
                '\\' => slashes += 1,
                _ => {
                    if slashes > 0 && letter != '"' {
                        out.push('\\');
                    }
                    slashes = 0;
                    out.push(letter);
                }
            }
        }
        return (Why::Stage, out);
    }
    let has = |words: &[&str]| words.iter().any(|word| whole.contains(word));
    let lost = |said| (Why::Lost, said);
    let said = if has(&[
        "code: Unimplemented",
        "InvalidContentType",
        "invalid content",
    ]) {
        format!("{scheduler} answers, and is no scheduler of audit-cluster")
    } else if whole.ends_with("failed: Cancelled") {
        return lost(format!(
            "the scheduler at {scheduler} gave the query up, as it does where an executor was lost and nothing is dealt out any more"
        ));
    } else if let Some(system) = of_system(&whole) {
        format!("an executor or its folder of temporary files failed: {system}")
    } else if has(&[
        "h2 protocol error",
        "transport error",
        "BrokenPipe",
        "ConnectionReset",
        "ConnectionRefused",
        "Stream closed without",
        "Unavailable",
    ]) {
        return lost(format!(
            "the link to the scheduler at {scheduler} broke, or an executor's"
        ));
    } else if whole.contains("all executors were lost") {
        format!("all executors of {scheduler} were lost, and none came back")
    } else {
        // Ballista's own message: its wrappers end where the innermost text begins.
        let ends = |part: &'_ str| {
            part.trim_matches(|end: char| !end.is_alphanumeric())
                .to_owned()
        };
        let mut parts = whole.rsplit(['"', '(', '{', '}']).map(ends);
        let words = parts
            .find(|part| part.contains(' '))
            .unwrap_or(whole.clone());
        format!(
            "Ballista: {}",
            words.chars().take(LONGEST).collect::<String>()
        )
    };
    (Why::Other, said)
}

/// Returns the system's message in an error, such as "No space left on device".
fn of_system(whole: &str) -> Option<&str> {
    let quotes = ['"', '\\'];
    let debug = || {
        let (_, said) = whole.split_once("message: ")?;
        said.trim_start_matches(quotes).split(quotes).next()
    };
    let words = match whole.split_once(" (os error ") {
        Some((before, _)) => before.rsplit(['"', ':', '(', '\\']).next(),
        None if whole.contains("Os {") => debug(),
        None => None,
    };
    let words = words?.trim();
    (!words.is_empty() && !words.contains("refused")).then_some(words)
}

fn short(said: &dyn std::fmt::Display) -> String {
    let said = said.to_string();
    let words: Vec<&str> = said.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{OURS}{}…{END}", &line[..end]),
        None => format!("{OURS}{line}{END}"),
    }
}

#[cfg(test)]
impl Request {
    /// A request to write shards of a plan, without its owner's code.
    pub(crate) fn unsigned(shards: Vec<u64>) -> Self {
        Self {
            kind: Kind::Write,
            plan: "/p".into(),
            plan_code: "ab".to_owned(),
            shards,
            code: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reticent_corpus::prepare::{PrepareFiles, PrepareOptions};
    use reticent_corpus::read::ReadOptions;
    use std::time::Duration;

    #[test]
    fn errors_are_one_short_line() {
        let said = short(&format!("a\n  b{}", "é".repeat(500)));
        assert!(said.starts_with("audit-cluster: a bé"), "{said}");
        assert_eq!(said.chars().count(), OURS.len() + LONGEST + 2);
        let mut wrapped = failed(&"a \"b\" c (os error 28)").to_string();
        for _ in 0..3 {
            wrapped = format!("Job 7 failed: {:?}", Some(wrapped));
            let error = DataFusionError::External(wrapped.clone().into());
            let said = readable(&error, "127.0.0.1:7");
            assert_eq!(said, (Why::Stage, "a \"b\" c (os error 28)".to_owned()));
        }
        let io = Error::Read {
            path: "a".into(),
            source: std::io::ErrorKind::TimedOut.into(),
        };
        let error = of_stage(ShardStage::Scan(3), io);
        assert!(matches!(&error, DataFusionError::IoError(_)), "{error}");
        assert!(
            error.to_string().contains("--stage scan --shard 3: a"),
            "{error}"
        );
        let other = of_stage(ShardStage::Join, Error::Sharding("no".to_owned()));
        assert!(matches!(other, DataFusionError::Execution(_)));
    }
    #[test]
    fn errors_of_ballista_are_one_sentence() {
        for (whole, sentence) in [
            (
                r#"DataFusionError(Shared(ArrowError(IoError("x", Os { code: 28 }), None))): No space left on device (os error 28)" })))))"#,
                "an executor or its folder of temporary files failed: No space left on device",
            ),
            (
                r#"Job 7 failed: DataFusionError(Shared(IoError(Os { code: 28, kind: StorageFull, message: "No space left on device" })))"#,
                "an executor or its folder of temporary files failed: No space left on device",
            ),
            (
                "status: Unknown, message: \"h2 protocol error: error reading a body\", source: BrokenPipe",
                "the link to the scheduler at 127.0.0.1:7 broke",
            ),
            (
                "Status { code: Unimplemented, metadata: MetadataMap { headers: {} }, source: None }",
                "127.0.0.1:7 answers, and is no scheduler of audit-cluster",
            ),
            (
                r#"Job 7 failed: Internal("what Ballista says")"#,
                "Ballista: what Ballista says",
            ),
        ] {
            let (why, said) = readable(&DataFusionError::External(whole.into()), "127.0.0.1:7");
            assert!(why != Why::Stage && said.starts_with(sentence), "{said}");
            assert!(!said.contains(['{', '"']), "{said}");
        }
    }

    /// Another plan under the name that a request states is not the one that it is for.
    #[test]
    fn a_request_is_for_one_plan() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::write(at("a.txt"), "one\n\ntwo\n").unwrap();
        let owner = OwnerKey([7; 32]);
        let plan = |shards| {
            let files = PrepareFiles {
                data: &at("a.txt"),
                reading: &ReadOptions::default(),
                options: &PrepareOptions::default(),
                threads: 1,
                pause: Duration::from_secs(10),
                owner: Some(owner.0),
            };
            let (out, path) = (at("out"), at("plan.json"));
            let plan = ShardPlan::write(&files, &out, shards, &path, owner.0, &|_, _| true);
            plan.unwrap().unwrap()
        };
        let first = plan(1);
        let request = Request::new(Kind::Write, &at("plan.json"), &first, vec![0], owner).unwrap();
        request.authentic(owner).unwrap();
        request.plan(Some(owner)).unwrap();
        std::fs::remove_file(at("plan.json")).unwrap();
        plan(2);
        let said = request.plan(Some(owner)).unwrap_err().to_string();
        assert!(said.contains("not the plan that the client read"), "{said}");
    }

    #[test]
    fn a_request_is_its_owners() {
        let mut request = Request::unsigned(vec![]);
        let (own, other) = (OwnerKey([1; 32]), OwnerKey([2; 32]));
        assert!(request.authentic(own).is_err());
        let code = request.mac(own).unwrap().finalize().into_bytes();
        request.code = hexadecimal(&code);
        request.authentic(own).unwrap();
        request.of_kind(Kind::Scan).authentic(own).unwrap();
        let said = request.authentic(other).unwrap_err().to_string();
        assert!(said.contains("another owner's key"), "{said}");
        let name = std::mem::replace(&mut request.plan, "/etc/shadow".into());
        assert!(request.authentic(own).is_err());
        request.plan = name;
        request.authentic(own).unwrap();
        let code = std::mem::replace(&mut request.plan_code, "cd".to_owned());
        assert!(request.authentic(own).is_err());
        request.plan_code = code;
        request.code.push('0');
        assert!(request.authentic(own).is_err());
    }
}

//! A child process that reads one line and answers with one line at a time.

use crate::contract::Interrupt;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a waiting command checks for an interruption.
const GLANCE: Duration = Duration::from_millis(50);

/// How long a child that closed its output may take to exit and its last output to arrive.
const FAREWELL: Duration = Duration::from_secs(2);

/// The longest line that is read, in bytes.
const LONGEST: u64 = 1 << 30;

/// What the child sent.
enum Heard {
    Line(String),
    NotUtf8,
    TooLong,
    /// The output ended within a line.
    Cut,
    End,
}

/// A running child process, which is killed when this value is dropped.
pub(super) struct Process {
    child: Child,
    questions: Option<Sender<Vec<u8>>>,
    heard: Receiver<Heard>,
    complained: Arc<AtomicBool>,
    listener: JoinHandle<()>,
    limit: Duration,
    interrupt: Interrupt,
}

impl Process {
    /// Starts a simple shell command. The shell is replaced by the command, so that it can be
    /// killed.
    pub(super) fn start(
        line: &str,
        limit: Duration,
        interrupt: &Interrupt,
    ) -> std::io::Result<Self> {
        let mut child = Command::new("sh")
            .arg("-c")
            .arg(format!("exec {line}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (questions, to_write) = channel::<Vec<u8>>();
        // A child that writes lines without a question waits, and fills no memory.
        let (tell, heard) = sync_channel(1);
        let complained = Arc::new(AtomicBool::new(false));
        let missing = || std::io::Error::other("a pipe to the scorer is missing");
        let mut stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let stderr = child.stderr.take().ok_or_else(missing)?;
        // Each stream has its own thread, so that a child that doesn't read, or keeps writing to
        // stderr, can't block the command.
        std::thread::spawn(move || {
            while let Ok(question) = to_write.recv() {
                if stdin
                    .write_all(&question)
                    .and_then(|()| stdin.flush())
                    .is_err()
                {
                    return; // it has ended, and its closed output says so
                }
            }
        });
        std::thread::spawn(move || hear(stdout, &tell));
        let heard_any = Arc::clone(&complained);
        let listener = std::thread::spawn(move || drain(stderr, &heard_any));
        Ok(Self {
            child,
            questions: Some(questions),
            heard,
            complained,
            listener,
            limit,
            interrupt: interrupt.clone(),
        })
    }

    /// Sends a line; [`Self::listen`] waits for the answer.
    pub(super) fn tell(&self, line: Vec<u8>) {
        if let Some(questions) = &self.questions {
            // If the writer thread has ended, so has the child, which `listen` reports.
            let _ = questions.send(line);
        }
    }

    /// Returns the next line, or the error as words that follow "the scorer".
    pub(super) fn listen(&mut self) -> Result<String, String> {
        let begun = Instant::now();
        loop {
            match self.heard.recv_timeout(GLANCE) {
                Ok(Heard::Line(line)) => return Ok(line),
                Ok(Heard::NotUtf8) => return Err("answered with a line that is not UTF-8".into()),
                Ok(Heard::TooLong) => return Err("answered with a line above 1 GiB".into()),
                Ok(Heard::Cut) => return Err(format!("{}, within a line", self.ended())),
                Ok(Heard::End) | Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.interrupt.raised() {
                return Err("was interrupted".into());
            }
            if begun.elapsed() > self.limit {
                return Err(format!(
                    "did not answer within {} s (--scorer-timeout)",
                    self.limit.as_secs()
                ));
            }
        }
    }

    /// Describes how the child ended.
    fn ended(&mut self) -> String {
        let begun = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return format!("ended early ({status})"),
                Ok(None) if begun.elapsed() < FAREWELL => std::thread::sleep(GLANCE),
                Ok(None) | Err(_) => return "closed its output without an answer".into(),
            }
        }
    }

    /// Returns whether the child wrote more than white space to stderr.
    pub(super) fn complained(&self) -> bool {
        let begun = Instant::now();
        while !self.listener.is_finished() && begun.elapsed() < FAREWELL {
            std::thread::sleep(GLANCE);
        }
        self.complained.load(Ordering::SeqCst)
    }

    /// Returns whether the user wants to stop.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupt.raised()
    }

    /// Kills the child.
    pub(super) fn kill(&mut self) {
        self.questions = None;
        // The child may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Forwards lines until the stream ends.
fn hear(stdout: impl Read, tell: &SyncSender<Heard>) {
    let mut reader = BufReader::new(stdout);
    loop {
        let mut line = Vec::new();
        let read = (&mut reader).take(LONGEST).read_until(b'\n', &mut line);
        let heard = match read {
            Ok(0) | Err(_) => Heard::End,
            Ok(_) if line.last() != Some(&b'\n') => match (line.len() as u64) < LONGEST {
                true => Heard::Cut,
                false => Heard::TooLong,
            },
            Ok(_) => String::from_utf8(line)
                .map_or(Heard::NotUtf8, |l| Heard::Line(l.trim_end().to_owned())),
        };
        let last = !matches!(heard, Heard::Line(_));
        if tell.send(heard).is_err() || last {
            return;
        }
    }
}

/// Reads stderr to its end without keeping any of it.
fn drain(mut stderr: impl Read, complained: &AtomicBool) {
    let mut chunk = [0_u8; 1024];
    while let Ok(read) = stderr.read(&mut chunk) {
        if read == 0 {
            return;
        }
        if !chunk[..read].trim_ascii().is_empty() {
            complained.store(true, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 16 MB of lines to no question were all kept in memory.
    #[test]
    fn lines_without_a_question_are_not_read() {
        let home = tempfile::tempdir().unwrap();
        let written = home.path().join("written");
        let line = format!(
            "sh -c 'yes $(printf %01000d 0) | head -n 16000; echo > {}'",
            written.display()
        );
        let limit = Duration::from_secs(60);
        let mut process = Process::start(&line, limit, &Interrupt::default()).unwrap();
        assert_eq!(process.listen().unwrap().len(), 1000);
        std::thread::sleep(Duration::from_secs(2));
        assert!(!written.exists());
        // They are read as they are listened to.
        while process.listen().is_ok() {}
        assert!(written.exists());
    }
}

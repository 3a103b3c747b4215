//! Commands without processes: what a command prints, how it ends and what it writes follows from the seed.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use roo_durable::simulated_disk::Random;
use roo_engine::tool_run::{CommandRunner, ShowOutput};
use roo_sandbox::exec::{Command, Environment, ExecError, Status};
use tokio_util::sync::CancellationToken;

use super::plan::{Part, Plan, numbers};
use super::world::Witness;

/// Runs commands by plan. Each line is run at most once, as the model never makes one twice.
#[derive(Debug)]
pub struct PlannedShell {
    folder: PathBuf,
    plan: Plan,
    random: Mutex<Random>,
    witness: Witness,
}

/// What a command does.
struct Course {
    /// What it prints, and how long it waits before.
    prints: Vec<(Duration, String)>,
    /// A file that it writes in the workspace.
    writes: Option<String>,
    end: CourseEnd,
}

enum CourseEnd {
    Status(Status),
    Fails,
    /// It ends when it is ended.
    Hangs,
}

impl PlannedShell {
    pub fn new(folder: PathBuf, plan: &Plan, witness: Witness) -> Self {
        let random = Mutex::new(numbers(plan.seed, Part::Shell));
        Self { folder, plan: plan.clone(), random, witness }
    }

    fn course(&self, line: &str) -> Course {
        let random = &mut *self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let count = random.below(4);
        let prints = (0..count).map(|number| {
            let wait = [0, 3, 400, 5000][random.below(4)];
            let text = match random.below(5) {
                0 => "\u{fffd}\u{1b}[31mgarbage\u{1b}[0m\u{7}\r".to_owned(),
                1 => "long ".repeat(random.below(2000)),
                _ => format!("{line}: {number}\n"),
            };
            (Duration::from_millis(wait), text)
        });
        let prints = prints.collect();
        let end = match self.plan.shell_faults.happens(random) {
            false => CourseEnd::Status(Status::Code(0)),
            true => match random.below(5) {
                0 => CourseEnd::Hangs,
                1 => CourseEnd::Status(Status::Signal(9)),
                2 => CourseEnd::Fails,
                3 => CourseEnd::Status(Status::DiskFilled),
                _ => CourseEnd::Status(Status::Code(2)),
            },
        };
        let writes = random.one_in(3).then(|| format!("{}.out", line.replace(' ', "-")));
        Course { prints, writes, end }
    }

    async fn follow(
        &self,
        line: &str,
        course: Course,
        mut show: ShowOutput<'_>,
    ) -> Result<Status, ExecError> {
        for (wait, text) in course.prints {
            tokio::time::sleep(wait).await;
            show(&text);
        }
        if let Some(name) = course.writes {
            fs::write(self.folder.join(name), format!("{line}\n")).unwrap();
        }
        match course.end {
            CourseEnd::Status(status) => Ok(status),
            CourseEnd::Fails => Err(ExecError::Wait(std::io::Error::from_raw_os_error(10))),
            CourseEnd::Hangs => std::future::pending().await,
        }
    }
}

impl CommandRunner for PlannedShell {
    fn starts_processes(&self) -> bool {
        false
    }

    fn run<'a>(
        &'a self,
        command: &'a Command,
        _: &'a Environment,
        show: ShowOutput<'a>,
        stopped: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Status, ExecError>> {
        Box::pin(async move {
            if stopped.is_cancelled() {
                return Ok(Status::Cancelled);
            }
            let course = self.course(&command.line);
            self.witness.tell(format!("the shell runs {}", command.line));
            self.witness.is_done("the shell runs", &command.line);
            *self.witness.seen().executed.entry(command.line.clone()).or_default() += 1;
            let limit = command.timeout.unwrap_or(Duration::from_secs(100_000));
            tokio::select! {
                biased;
                () = stopped.cancelled() => Ok(Status::Cancelled),
                ended = tokio::time::timeout(limit, self.follow(&command.line, course, show)) => {
                    ended.unwrap_or(Ok(Status::TimedOut))
                }
            }
        })
    }
}

//! Long tasks: neither memory nor the work of a turn grows with the number of turns.

use crate::measured::answer::{Protocol, Wire};
use crate::measured::endpoint::Request;
use crate::measured::long_conversation::LongConversation;
use crate::measured::memory;
use crate::measured::program::{Running, processor_time};

/// The turns of the long task.
const LONG: usize = 2_000;
/// The turns of the task that it is compared with. By then the conversation was shortened many times.
const SHORT: usize = 800;
/// A result of each turn makes it 40 MB of log.
const FILE: usize = 16 * 1024;
/// Number of turns that are compared, the last ones of each.
const COMPARED: usize = 300;
/// Growth that counts as flat.
const FLAT: f64 = 1.2;

/// The real program at work on a task, with its endpoint.
struct Task {
    conversation: LongConversation,
    program: Running,
    request: Request,
    turns: usize,
}

impl Task {
    fn start() -> Self {
        let mut conversation = LongConversation::new(Wire::Anthropic, Protocol::Native, FILE).unwrap();
        let mut program = conversation.home.program(&["run", "Read all of it."]);
        // How many of the pool's threads have an arena of the allocator of their own is up to the scheduler.
        let program = Running(program.env("MALLOC_ARENA_MAX", "1").spawn().unwrap());
        let request = conversation.request().unwrap();
        Self { conversation, program, request, turns: 0 }
    }

    /// Its next turn. Returns the processor time that it took, in microseconds.
    fn turn(&mut self) -> u128 {
        let process = self.program.0.id();
        let before = processor_time(process).unwrap();
        self.conversation.answer(&self.request, self.turns).unwrap();
        self.request = self.conversation.request().unwrap();
        self.turns += 1;
        (processor_time(process).unwrap() - before).as_micros()
    }

    /// What it holds in memory, in MB.
    fn memory(&self) -> f64 {
        memory::of_process(self.program.0.id()).unwrap()
    }

    fn finish(self) {
        self.conversation.finish(self.program, &self.request).unwrap();
    }
}

/// The processor time of a turn that neither other load nor a shortened conversation has slowed down.
fn usual(mut turns: Vec<u128>) -> f64 {
    turns.sort_unstable();
    turns[turns.len() / 4] as f64
}

#[test]
#[ignore = "takes a minute; ./scripts/test runs it"]
fn a_task_of_two_thousand_turns_takes_no_more_memory_and_work_than_a_shorter_one() {
    let (mut long, mut short) = (Task::start(), Task::start());
    for (task, turns) in [(&mut long, LONG), (&mut short, SHORT)] {
        while task.turns < turns - COMPARED {
            task.turn();
        }
    }
    // By turns, so that both have the same load beside them.
    let (of_long, of_short): (Vec<_>, Vec<_>) = (0..COMPARED).map(|_| (long.turn(), short.turn())).unzip();
    let (of_long, of_short) = (usual(of_long), usual(of_short));
    let figures =
        format!("{of_long} and {of_short} us a turn, {:.1} and {:.1} MB", long.memory(), short.memory());
    assert!(long.memory() <= FLAT * short.memory(), "memory grows: {figures}");
    assert!(of_long <= FLAT * of_short, "a turn takes longer: {figures}");
    let refused = [&long, &short].map(|task| task.conversation.refused);
    // It learns once how long a request may be, and keeps to that.
    assert!(
        refused.iter().all(|refused| (1..=3).contains(refused)),
        "the endpoints refused {refused:?} requests"
    );
    long.finish();
    short.finish();
}

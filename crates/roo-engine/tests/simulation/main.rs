//! The whole engine as a function of one seed: its model, disk, clock, editor, commands and user follow a plan that the
//! seed draws, on one thread and in simulated time. What must hold of every request is checked after each life.
//!
//! Everything of the engine is real. Simulated are the [`disk`](roo_durable::disk::Disk) of logs, time and ids
//! ([`world`]), the [`model`], the [`editor`], the [`shell`] that runs commands, and the [`user`]. Files of the workspace, the
//! trace and the journal of changes of several files are real, in memory where the machine has such a directory.
//!
//! `SIMULATION_SEEDS` says how many seeds are run, from `SIMULATION_FROM` on.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "a long run tells how far it is")]

mod editor;
mod model;
mod plan;
mod promises;
mod shell;
mod simulation;
mod user;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use plan::Plan;
use simulation::{Report, Simulation};

/// The seeds of an ordinary test run.
const SEEDS: u64 = 100;
/// Every so many seeds, one is run a second time and compared.
const TWICE: u64 = 16;
/// How often a long run tells how far it is, in seeds.
const TELL: u64 = 5000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect(variable))
}

/// Runs a seed, or says in words what went wrong.
fn run(seed: u64) -> Result<Report, String> {
    let ran = catch_unwind(AssertUnwindSafe(|| Simulation::run(Plan::draw(seed))));
    ran.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        Err(format!("it panicked: {}", text.or(panic.downcast_ref().copied()).unwrap_or("see above")))
    })
}

fn failure(seed: u64, problem: &str) -> String {
    format!(
        "seed {seed}: {problem}\n\n{}\nTo run it alone: SIMULATION_FROM={seed} SIMULATION_SEEDS=1 cargo test -p roo-engine \
         --test simulation -- --nocapture",
        Plan::draw(seed)
    )
}

#[test]
fn whatever_fails_the_engine_keeps_its_promises() {
    let (first, count) =
        (number("SIMULATION_FROM").unwrap_or(0), number("SIMULATION_SEEDS").unwrap_or(SEEDS));
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, stopped, begun) = (AtomicU64::new(0), AtomicBool::new(false), Instant::now());
    let (failures, total) = (Mutex::new(Vec::new()), Mutex::new(Report::default()));
    std::thread::scope(|threads| {
        for _ in 0..workers {
            threads.spawn(|| {
                while !stopped.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    let seed = first + number;
                    let mut ran = run(seed);
                    if seed.is_multiple_of(TWICE) || count == 1 {
                        ran = ran.and_then(|once| {
                            let again = run(seed)?;
                            once.compare(&again)?;
                            Ok(once)
                        });
                    }
                    match ran {
                        Ok(report) => total.lock().unwrap_or_else(PoisonError::into_inner).add(&report),
                        Err(problem) => {
                            stopped.store(true, Ordering::Relaxed);
                            failures.lock().unwrap_or_else(PoisonError::into_inner).push((seed, problem));
                        }
                    }
                    if number % TELL == TELL - 1 {
                        let (done, seconds) = (number + 1, begun.elapsed().as_secs_f64());
                        eprintln!("{done} seeds in {seconds:.0} s: {:.0}/s", done as f64 / seconds);
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    let total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    let seconds = begun.elapsed().as_secs_f64();
    let done = next.into_inner().min(count);
    eprintln!(
        "{done} seeds from {first} in {seconds:.1} s ({:.1}/s, {workers} threads): {total}",
        done as f64 / seconds
    );
    failures.sort();
    if let Some((seed, problem)) = failures.first() {
        panic!("{}", failure(*seed, problem));
    }
    // A simulation in which nothing happens would prove nothing.
    if count >= SEEDS {
        total.assert_eventful();
    }
}

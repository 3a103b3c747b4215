//! What a seed draws: who takes part in a request and how they behave, what fails, and when the server ends.

use std::fmt;

use roo_durable::simulated_disk::Random;

/// A stream of random numbers for one part of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Plan,
    Clock,
    Disk,
    Model,
    Shell,
    Editor,
    User,
}

/// Numbers for a part of the world, the same for the same seed.
pub fn numbers(seed: u64, part: Part) -> Random {
    let mut random = Random::new(seed.wrapping_mul(16).wrapping_add(part as u64 + 1));
    // Neighbouring seeds begin alike.
    for _ in 0..4 {
        random.next();
    }
    random
}

/// Chance of something: one in so many, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chance(Option<usize>);

impl Chance {
    const NEVER: Self = Self(None);

    fn draw(random: &mut Random, choices: &[usize]) -> Self {
        match choices[random.below(choices.len())] {
            0 => Self::NEVER,
            count => Self(Some(count)),
        }
    }

    /// Whether it happens this time.
    pub fn happens(self, random: &mut Random) -> bool {
        self.0.is_some_and(|count| random.one_in(count))
    }
}

impl fmt::Display for Chance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("never"),
            Some(1) => f.write_str("always"),
            Some(count) => write!(f, "one time in {count}"),
        }
    }
}

/// How a life of the server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The power is lost at a call to the disk: what was not synced survives or not.
    PowerLoss { call: usize },
    /// The server is killed when a client has seen so many events.
    Kill { events: usize },
    /// The server is asked to end when a client has seen so many events.
    Shutdown { events: usize },
    /// When the request has ended.
    Natural,
}

/// How the disk behaves in a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskFaults {
    /// A write fails.
    pub write: Chance,
    /// A sync fails.
    pub sync: Chance,
    /// The disk is full between these two calls.
    pub full: Option<(usize, usize)>,
    /// No fault after this call.
    pub until: usize,
}

/// A life of the server: from its start to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    pub disk: DiskFaults,
    pub end: End,
}

/// All that a seed decides, but for single draws.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub seed: u64,
    pub mode: &'static str,
    /// Edits need no approval.
    pub free_edits: bool,
    /// Delegations need no approval.
    pub free_delegation: bool,
    /// The limit on model requests.
    pub request_limit: u32,
    /// Seconds after which a command goes to the background.
    pub background_after: u64,
    /// Number of the model's answers from which on it completes whatever it does.
    pub answers: usize,
    pub model_faults: Chance,
    pub malformed_calls: Chance,
    pub shell_faults: Chance,
    /// There is an editor with documents open.
    pub has_editor: bool,
    pub editor_faults: Chance,
    /// The user refuses what is asked.
    pub refusals: Chance,
    /// The user is away for an hour when asked.
    pub absences: Chance,
    /// The user does something unasked after an event.
    pub interventions: Chance,
    /// The user edits files, by the editor or on disk, after an event.
    pub user_edits: Chance,
    /// Messages to the request after its end.
    pub follow_ups: usize,
    pub lives: Vec<Life>,
}

impl Plan {
    /// The plan of a seed.
    pub fn draw(seed: u64) -> Self {
        let random = &mut numbers(seed, Part::Plan);
        let deaths = [0, 0, 1, 1, 1, 2, 3][random.below(7)];
        let mut lives: Vec<Life> = (0..deaths).map(|_| Life::draw(random)).collect();
        let disk = DiskFaults::draw(random);
        lives.push(Life { disk, end: End::Natural });
        Self {
            seed,
            mode: ["code", "code", "orchestrator"][random.below(3)],
            free_edits: random.one_in(2),
            free_delegation: !random.one_in(3),
            request_limit: [200, 200, 6][random.below(3)],
            background_after: [30, 1, 0][random.below(3)],
            answers: 2 + random.below(7),
            model_faults: Chance::draw(random, &[0, 0, 8, 3]),
            malformed_calls: Chance::draw(random, &[0, 12, 4]),
            shell_faults: Chance::draw(random, &[0, 4, 2]),
            has_editor: random.one_in(2),
            editor_faults: Chance::draw(random, &[0, 0, 4, 2]),
            refusals: Chance::draw(random, &[0, 5, 2]),
            absences: Chance::draw(random, &[0, 0, 6]),
            interventions: Chance::draw(random, &[0, 40, 15]),
            user_edits: Chance::draw(random, &[0, 12, 5]),
            follow_ups: [0, 0, 0, 1, 2][random.below(5)],
            lives,
        }
    }
}

impl Life {
    fn draw(random: &mut Random) -> Self {
        let events = 1 + random.below(70);
        let end = match random.below(5) {
            0 => End::Kill { events },
            1 => End::Shutdown { events },
            _ => {
                let calls = [60, 250, 800][random.below(3)];
                End::PowerLoss { call: 1 + random.below(calls) }
            }
        };
        Self { disk: DiskFaults::draw(random), end }
    }
}

impl DiskFaults {
    fn draw(random: &mut Random) -> Self {
        let until = 50 + random.below(800);
        let full = random.one_in(8).then(|| {
            let from = random.below(400);
            (from, from + 1 + random.below(60))
        });
        Self {
            write: Chance::draw(random, &[0, 0, 0, 0, 30, 8]),
            sync: Chance::draw(random, &[0, 0, 0, 0, 20, 5]),
            full,
            until,
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = |free: bool| if free { "need no approval" } else { "need an approval" };
        writeln!(f, "The plan:")?;
        writeln!(f, "- a request in mode {}, limited to {} model requests", self.mode, self.request_limit)?;
        writeln!(f, "- edits {}, delegations {}", asked(self.free_edits), asked(self.free_delegation))?;
        writeln!(
            f,
            "- the model completes after {} answers; it fails {}, and its calls are malformed {}",
            self.answers, self.model_faults, self.malformed_calls
        )?;
        writeln!(
            f,
            "- commands go to the background after {} s (0: never) and fail {}",
            self.background_after, self.shell_faults
        )?;
        match self.has_editor {
            true => writeln!(
                f,
                "- an editor has documents open, and refuses or ignores edits {}",
                self.editor_faults
            )?,
            false => writeln!(f, "- there is no editor")?,
        }
        writeln!(
            f,
            "- the user refuses {}, is away {}, intervenes {}, edits files {}, and sends {} messages after the end",
            self.refusals, self.absences, self.interventions, self.user_edits, self.follow_ups
        )?;
        for (life, number) in self.lives.iter().zip(1..) {
            write!(f, "- life {number}: ")?;
            let DiskFaults { write, sync, full, until } = life.disk;
            write!(f, "until call {until} writes to the disk fail {write} and syncs {sync}; ")?;
            if let Some((from, to)) = full {
                write!(f, "it is full from call {from} to {to}; ")?;
            }
            match life.end {
                End::PowerLoss { call } => writeln!(f, "power is lost at call {call}")?,
                End::Kill { events } => writeln!(f, "the server is killed after {events} events")?,
                End::Shutdown { events } => writeln!(f, "the server is asked to end after {events} events")?,
                End::Natural => writeln!(f, "it ends with the request")?,
            }
        }
        Ok(())
    }
}

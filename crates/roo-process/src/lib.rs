//! Child processes: started in a session of their own, and ended together with everything that they started.
//!
//! Commands of agents, user hooks, git, signing and key commands all start here. What bounds a process is known to the
//! sandbox; what it prints, to whoever starts it.

mod child_session;

pub use child_session::{
    ChildSession, GRACE, LINGER, ProcessEnd, ProcessOutput, REAP, run_for_output, time_is_over,
};

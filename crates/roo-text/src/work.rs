//! Counts steps of work: bytes that a parser looks at, lines that an edit looks at. Tests hold code to linear work by
//! it. Outside of tests it is nothing.

#[cfg(not(any(test, feature = "count-work")))]
#[inline(always)]
pub fn add(_steps: usize) {}

#[cfg(any(test, feature = "count-work"))]
pub use counted::{add, of};

#[cfg(any(test, feature = "count-work"))]
mod counted {
    use std::cell::Cell;

    thread_local!(static STEPS: Cell<usize> = const { Cell::new(0) });

    pub fn add(steps: usize) {
        STEPS.set(STEPS.get() + steps);
    }

    /// The work that `action` makes.
    pub fn of(action: impl FnOnce()) -> usize {
        let before = STEPS.get();
        action();
        STEPS.get() - before
    }
}

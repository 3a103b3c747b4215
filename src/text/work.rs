//! Counts steps of work: bytes that a parser looks at, lines that an edit looks at. Tests hold code to linear work by
//! it. Outside of tests it is nothing.

#[cfg(not(test))]
pub(crate) fn add(_steps: usize) {}

#[cfg(test)]
pub(crate) use counted::{add, of};

#[cfg(test)]
mod counted {
    use std::cell::Cell;

    thread_local!(static STEPS: Cell<usize> = const { Cell::new(0) });

    pub(crate) fn add(steps: usize) {
        STEPS.set(STEPS.get() + steps);
    }

    /// The work that `action` makes.
    pub(crate) fn of(action: impl FnOnce()) -> usize {
        let before = STEPS.get();
        action();
        STEPS.get() - before
    }
}

//! Counts the bytes that the parser looks at or copies, so that tests can hold it to linear work.
//! Outside of tests it is nothing.

#[cfg(not(test))]
pub(super) fn add(_bytes: usize) {}

#[cfg(test)]
pub(super) use counted::{add, of};

#[cfg(test)]
mod counted {
    use std::cell::Cell;

    thread_local!(static BYTES: Cell<usize> = const { Cell::new(0) });

    pub(crate) fn add(bytes: usize) {
        BYTES.set(BYTES.get() + bytes);
    }

    /// The work that `action` makes.
    pub(crate) fn of(action: impl FnOnce()) -> usize {
        let before = BYTES.get();
        action();
        BYTES.get() - before
    }
}

//! What the fuzz targets in `fuzz/` need of the inside. Not part of the library: it is built only with
//! the feature `fuzzing`, and changes without notice.

pub use roo_workspace::is_ignored;

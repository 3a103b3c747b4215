//! Putting a text in place of a file.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// Puts a text in place of a file, or where one was, in one step.
pub(super) fn replace(file: &Path, text: &[u8], mode: u32) -> io::Result<()> {
    let pending = file.with_file_name(format!(".roo-lsp-{}", uuid::Uuid::new_v4()));
    let written = (|| {
        let mut new = File::options().write(true).create_new(true).mode(0o600).open(&pending)?;
        new.write_all(text)?;
        new.set_permissions(fs::Permissions::from_mode(mode & 0o7777))?;
        new.sync_all()?;
        fs::rename(&pending, file)
    })();
    if written.is_err() {
        // It is in nobody's way.
        let _ = fs::remove_file(&pending);
    }
    written
}

//! Calls that change names, contents, modes or attributes by other ways than an open file.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::libc;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, XattrFlags, chmodat, ftruncate, linkat, mkdirat,
    mknodat, openat, renameat_with, setxattr, symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::umask;

use super::Supervisor;
use super::supervised_call::SupervisedCall;
use crate::exec::sandbox::caller::{DirectoryEntry, GivenPath, ResolvedFile, Unresolved};
use crate::exec::sandbox::journal::path_of;
use crate::exec::sandbox::notifications::CallAnswer;
use crate::exec::sandbox::protected_mounts::open_place;

/// The largest git configuration, in bytes.
const MAX_CONFIGURATION_BYTES: u64 = 1 << 20;
/// Beginnings of the names of extended attributes that mean the same to every process of the command. Who may set a label is for
/// the kernel to say, and the same for all of them.
const ATTRIBUTES: &[&[u8]] = &[b"security.selinux", b"system.posix_acl_", b"user."];

impl Supervisor {
    pub(super) fn truncate(&mut self, call: &SupervisedCall<'_>) -> Result<CallAnswer, Unresolved> {
        let found = call.caller.find(&call.here(0)?, true)?;
        call.check()?;
        match found.kind() {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Errno::ISDIR.into()),
            _ => return Err(Errno::INVAL.into()),
        }
        self.check_writer(call.caller, &found.path)?;
        self.about_to_change(&found, true)?;
        self.perform(|| {
            let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
            let file = openat(CWD, found.by_handle(), flags, Mode::empty())?;
            ftruncate(file, call.argument(1))
        })
    }

    pub(super) fn remove(
        &mut self,
        call: &SupervisedCall<'_>,
        named: &GivenPath,
        flags: AtFlags,
    ) -> Result<CallAnswer, Unresolved> {
        let entry = call.caller.entry(named)?;
        call.check()?;
        if self.is_fixed(&entry.path) {
            return Err(Errno::ACCESS.into());
        }
        if let Some(found) = &entry.there {
            self.check_writer(call.caller, &entry.path)?;
            if self.loses_history(call.caller, found, None) {
                return Ok(CallAnswer::Fail(Errno::PERM));
            }
            self.about_to_change(found, true)?;
        }
        if self.is_mounted_on(&entry) {
            return Ok(CallAnswer::Fail(Errno::BUSY));
        }
        self.perform(|| unlinkat(&entry.directory, &entry.name, flags))
    }

    pub(super) fn chmod(
        &mut self,
        call: &SupervisedCall<'_>,
        named: &GivenPath,
        follows: bool,
        mode: Mode,
    ) -> Result<CallAnswer, Unresolved> {
        let found = call.caller.find(named, follows)?;
        self.chmod_found(call, &found, mode)
    }

    pub(super) fn chmod_found(
        &mut self,
        call: &SupervisedCall<'_>,
        found: &ResolvedFile,
        mode: Mode,
    ) -> Result<CallAnswer, Unresolved> {
        call.check()?;
        if found.kind() == FileType::Symlink {
            return Err(Errno::OPNOTSUPP.into());
        }
        self.check_writer(call.caller, &found.path)?;
        self.about_to_change(found, false)?;
        self.perform(|| chmodat(CWD, found.by_handle(), mode, AtFlags::empty()))
    }

    /// Sets an extended attribute, as programs do that copy a file with its mode. An access list can change the mode.
    pub(super) fn set_attribute(
        &mut self,
        call: &SupervisedCall<'_>,
        found: &ResolvedFile,
    ) -> Result<CallAnswer, Unresolved> {
        let name = call.text(1)?;
        let value = call.attribute_value()?;
        let flags = XattrFlags::from_bits(call.integer(4).cast_unsigned()).ok_or(Errno::INVAL)?;
        call.check()?;
        if !ATTRIBUTES.iter().any(|known| name.starts_with(known)) {
            return Err(Unresolved::CallersOwn);
        }
        self.about_to_change(found, false)?;
        self.perform(|| setxattr(found.by_handle(), name, &value, flags))
    }

    pub(super) fn make_directory(
        &mut self,
        call: &SupervisedCall<'_>,
        named: &GivenPath,
        mode: Mode,
    ) -> Result<CallAnswer, Unresolved> {
        let entry = self.comes_up(call, named)?;
        self.perform(|| mkdirat(&entry.directory, &entry.name, mode))
    }

    pub(super) fn make_node(
        &mut self,
        call: &SupervisedCall<'_>,
        named: &GivenPath,
        mode: i32,
        device: u64,
    ) -> Result<CallAnswer, Unresolved> {
        let entry = self.comes_up(call, named)?;
        let mode = mode.cast_unsigned();
        let kind = match mode & libc::S_IFMT {
            0 => FileType::RegularFile,
            _ => FileType::from_raw_mode(mode),
        };
        self.perform(|| {
            mknodat(&entry.directory, &entry.name, kind, Mode::from_raw_mode(mode & 0o7777), device)
        })
    }

    pub(super) fn make_link(
        &mut self,
        call: &SupervisedCall<'_>,
        to: &[u8],
        named: &GivenPath,
    ) -> Result<CallAnswer, Unresolved> {
        let entry = self.comes_up(call, named)?;
        self.perform(|| symlinkat(path_of(to.to_vec()), &entry.directory, &entry.name))
    }

    /// Puts down that something comes up.
    fn comes_up(
        &mut self,
        call: &SupervisedCall<'_>,
        named: &GivenPath,
    ) -> Result<DirectoryEntry, Unresolved> {
        let entry = call.caller.entry(named)?;
        call.check()?;
        if entry.there.is_some() {
            return Err(Errno::EXIST.into());
        }
        if self.is_fixed(&entry.path) {
            return Err(Errno::ACCESS.into());
        }
        self.check_held(&entry.path, &entry.directory)?;
        self.check_writer(call.caller, &entry.path)?;
        if !self.is_refused(&entry.path, &entry.directory) {
            self.touch(&entry.path, false)?;
            self.is_own(&entry.path);
        }
        if self.carries_out {
            umask(call.caller.umask());
        }
        Ok(entry)
    }

    pub(super) fn rename(
        &mut self,
        call: &SupervisedCall<'_>,
        from: &GivenPath,
        to: &GivenPath,
        flags: i32,
    ) -> Result<CallAnswer, Unresolved> {
        let (source, target) = (call.caller.entry(from)?, call.caller.entry(to)?);
        call.check()?;
        let Some(moved) = &source.there else { return Err(Errno::NOENT.into()) };
        if self.leads_to_fixed(&source.path) || self.leads_to_fixed(&target.path) {
            return Err(Errno::ACCESS.into());
        }
        if let Some(held) = self.held_by(&source).or_else(|| self.held_by(&target)) {
            self.record_refused_path(&held);
            // As for a directory that is mounted on.
            return Ok(CallAnswer::Fail(Errno::BUSY));
        }
        self.check_held(&source.path, &moved.handle)?;
        self.check_writer(call.caller, &source.path)?;
        self.check_writer(call.caller, &target.path)?;
        if self.configurations.contains(&target.path) {
            let copy = open_place(&target.path)?;
            self.check_held(&target.path, &copy)?;
            return Ok(match replace_configuration(moved, &copy) {
                Ok(()) => CallAnswer::Done(0),
                Err(error) => CallAnswer::Fail(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
            });
        }
        let displaced = target.there.as_ref().map_or(&target.directory, |there| &there.handle);
        self.check_held(&target.path, displaced)?;
        let is_refused = self.is_refused(&source.path, &source.directory)
            | self.is_refused(&target.path, &target.directory);
        if !is_refused {
            if self.loses_history(call.caller, moved, Some(&target.path)) {
                return Ok(CallAnswer::Fail(Errno::PERM));
            }
            self.about_to_change(moved, true)?;
            if let Some(displaced) = &target.there {
                self.about_to_change(displaced, true)?;
            }
            let holds = moved.is_directory() || target.there.as_ref().is_some_and(ResolvedFile::is_directory);
            if self.is_mounted_on(&source) || self.is_mounted_on(&target) {
                return Ok(CallAnswer::Fail(Errno::BUSY));
            }
            self.touch(&source.path, holds)?;
            self.touch(&target.path, holds)?;
            if moved.is_directory() && self.may_hold_repositories(&target.path) {
                self.record_path(&target.path, true)?;
            }
            self.is_own(&target.path);
            if moved.is_directory() {
                self.directory_moves(moved, &target.path);
            }
        }
        let flags = RenameFlags::from_bits(flags.cast_unsigned()).ok_or(Errno::INVAL)?;
        self.perform(|| {
            let (from, to) = (&source, &target);
            renameat_with(&from.directory, &from.name, &to.directory, &to.name, flags)
        })
    }

    /// Makes a hard link, or says why not. Under a second name a file could be written without a notice at its first:
    /// so a file that is tracked gets one only beside it. Programs copy what they can't link.
    ///
    /// This is a boundary, so what is looked at is what is linked, and the kernel does nothing by itself.
    pub(super) fn link(
        &mut self,
        call: &SupervisedCall<'_>,
        from: &GivenPath,
        to: &GivenPath,
        follows: bool,
    ) -> Result<CallAnswer, Unresolved> {
        let mut linked = || -> Result<(), Unresolved> {
            let (source, target) = (call.caller.find(from, follows)?, call.caller.entry(to)?);
            call.check()?;
            if target.there.is_some() {
                return Err(Errno::EXIST.into());
            }
            if source.is_directory() {
                return Err(Errno::PERM.into());
            }
            if self.is_fixed(&target.path) {
                return Err(Errno::ACCESS.into());
            }
            self.check_held(&source.path, &source.handle)?;
            self.check_held(&target.path, &target.directory)?;
            self.check_writer(call.caller, &source.path)?;
            self.check_writer(call.caller, &target.path)?;
            if self.is_refused(&target.path, &target.directory) {
                return Err(Errno::ROFS.into());
            }
            if self.is_tracked(&source.path) && source.path.parent() != target.path.parent() {
                return Err(Errno::XDEV.into());
            }
            self.touch(&target.path, false)?;
            self.is_own(&target.path);
            let (directory, name) = (&target.directory, &target.name);
            Ok(linkat(CWD, source.by_handle(), directory, name, AtFlags::SYMLINK_FOLLOW)?)
        };
        match linked() {
            Ok(()) => Ok(CallAnswer::Done(0)),
            Err(Unresolved::Fails(error)) => Ok(CallAnswer::Fail(error)),
            Err(Unresolved::CallersOwn | Unresolved::ReadOnlyProc) => Ok(CallAnswer::Fail(Errno::XDEV)),
            Err(error) => Err(error),
        }
    }
}

pub(super) fn unlink_flags(flags: i32) -> AtFlags {
    AtFlags::from_bits_retain(flags.cast_unsigned())
}

/// Writes what a file holds into a private copy, in place, and removes the file: what git does when it replaces its
/// configuration.
fn replace_configuration(source: &ResolvedFile, copy: &OwnedFd) -> io::Result<()> {
    let mut text = Vec::new();
    source.reopen()?.take(MAX_CONFIGURATION_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_CONFIGURATION_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC;
    let copy = format!("/proc/self/fd/{}", copy.as_raw_fd());
    File::from(openat(CWD, copy, flags, Mode::empty())?).write_all(&text)?;
    Ok(unlinkat(CWD, &source.path, AtFlags::empty())?)
}

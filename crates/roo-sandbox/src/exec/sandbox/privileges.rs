//! Privileges that a process gives up, and its resource limits.

use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_capabilities_secure_bits, set_no_new_privs,
};

use super::confinement::Limits;
use super::setup_failure::{SetupFailure, StepContext as _};

/// Makes the kernel end a command rather than the server or an editor when memory runs out.
pub(super) fn be_the_first_to_go() {
    // It is a wish: some systems don't have it.
    let _ = std::fs::write("/proc/self/oom_score_adj", "500");
}

/// Sets the limits, for good.
pub(super) fn limit(limits: &Limits) -> Result<(), SetupFailure> {
    let set = |resource, most: u64| {
        let hard = getrlimit(resource).maximum.unwrap_or(u64::MAX).min(most);
        setrlimit(resource, Rlimit { current: Some(hard), maximum: Some(hard) })
    };
    set(Resource::Core, 0).step("the limit of core dumps")?;
    set(Resource::Nproc, limits.processes.into()).step("the limit of processes")?;
    if let Some(memory) = limits.memory {
        set(Resource::Data, memory).step("the limit of memory")?;
    }
    if let Some(size) = limits.file_size {
        set(Resource::Fsize, size).step("the limit of file sizes")?;
    }
    Ok(())
}

/// Gives up every capability but the `kept` ones, and every way to get one, such as programs that run as their owner.
pub(super) fn drop_capabilities(kept: CapabilitySet) -> Result<(), SetupFailure> {
    set_no_new_privs(true).step("no new privileges")?;
    clear_ambient_capability_set().or_else(unsupported).step("the ambient capabilities")?;
    for number in 0..64 {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number)) {
            Ok(()) => {}
            // No such capability: this was the last. Or none to drop them with, and so none to regain.
            Err(Errno::INVAL | Errno::PERM) => break,
            error => error.step("the capabilities")?,
        }
    }
    let bits = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    set_capabilities_secure_bits(bits)
        .or_else(|error| if error == Errno::PERM { Ok(()) } else { Err(error) })
        .step("the secure bits")?;
    let inheritable = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable })
        .step("the capabilities")
}

/// Gives up what this thread has kept; others that it started have it still.
pub(super) fn drop_kept_capabilities() -> Result<(), SetupFailure> {
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
        .step("the capabilities")
}

/// Ignores the error for what an old kernel doesn't support.
fn unsupported(error: Errno) -> io::Result<()> {
    if error == Errno::INVAL { Ok(()) } else { Err(error.into()) }
}

//! Landlock: the second layer within namespaces, and the first where there are none.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope,
};

use super::confinement::{Access, Network};
use super::helper_protocol::{Mechanism, Order};
use super::setup_failure::{SetupFailure, StepContext as _};

/// The newest version whose rights are used. Older kernels take what they know of it.
const NEWEST: ABI = ABI::V6;

/// Allowed access below some directories.
pub(super) struct LandlockRules {
    mechanism: Mechanism,
    readable: Vec<PathBuf>,
    listable: Vec<PathBuf>,
    writable: Vec<PathBuf>,
}

/// Devices that hold nothing, which every program may write.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// The rules on top of a mount tree, which holds what lies within a grant.
pub(super) fn within_namespaces(order: &Order) -> LandlockRules {
    let mut writable = grants(order, Access::Staged);
    writable.extend(["/tmp", "/var/tmp", "/dev"].map(PathBuf::from));
    LandlockRules { mechanism: Mechanism::Namespaces, readable: vec!["/".into()], listable: vec![], writable }
}

/// The rules where nothing else holds anything. Rights can't be taken out of a grant: around what is
/// hidden, each neighbour is granted by itself.
pub(super) fn alone(order: &Order) -> LandlockRules {
    let hidden: BTreeSet<&Path> = order
        .places
        .iter()
        .filter(|(_, access)| *access == Access::None)
        .map(|(place, _)| place.0.as_path())
        .collect();
    let split: BTreeSet<&Path> = hidden.iter().flat_map(|path| path.ancestors().skip(1)).collect();
    let mut writable = grants(order, Access::Write);
    writable.extend(DEVICES.iter().map(PathBuf::from));
    writable.extend(order.temp.iter().map(|temp| temp.0.clone()));
    let mut readable = Vec::new();
    if split.is_empty() {
        readable.push("/".into());
    }
    for directory in &split {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        // What a link leads to is granted where it is, or not at all.
        let real = entries.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
        readable.extend(
            real.map(|entry| entry.path())
                .filter(|path| !split.contains(path.as_path()) && !hidden.contains(path.as_path())),
        );
    }
    LandlockRules { mechanism: Mechanism::Landlock, readable, listable: vec!["/".into()], writable }
}

/// Returns the paths that may be written, up to a strictness.
fn grants(order: &Order, strictest: Access) -> Vec<PathBuf> {
    let writable = order.places.iter().filter(|(_, access)| *access <= strictest);
    writable.map(|(place, _)| place.0.clone()).collect()
}

/// Restricts this process and what it starts. Gives the version in force, 0 for none.
pub(super) fn restrict(rules: &LandlockRules, network: Network) -> Result<u8, SetupFailure> {
    let what = "Landlock";
    let failed = |error: landlock::RulesetError| io::Error::other(error.to_string());
    let all = AccessFs::from_all(NEWEST);
    let read = AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::Execute;
    let mut ruleset = Ruleset::default().handle_access(all).map_err(failed).step(what)?;
    ruleset = ruleset.scope(Scope::from_all(NEWEST)).map_err(failed).step(what)?;
    if rules.mechanism == Mechanism::Landlock && network == Network::Off {
        ruleset = ruleset.handle_access(AccessNet::from_all(NEWEST)).map_err(failed).step(what)?;
    }
    let mut ruleset = ruleset.create().map_err(failed).step(what)?;
    let parts = [
        (&rules.listable, BitFlags::from(AccessFs::ReadDir)),
        (&rules.readable, read),
        (&rules.writable, all),
    ];
    for (paths, access) in parts {
        for path in paths {
            // What is gone or can't be reached grants nothing.
            let Ok(place) = PathFd::new(path) else { continue };
            let is_file = !path.is_dir();
            let access = if is_file { access & AccessFs::from_file(NEWEST) } else { access };
            if !access.is_empty() {
                ruleset = ruleset.add_rule(PathBeneath::new(place, access)).map_err(failed).step(what)?;
            }
        }
    }
    let status = ruleset.restrict_self().map_err(failed).step(what)?;
    match (status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, _) => Ok(0),
        (_, LandlockStatus::Available { effective_abi, .. }) => Ok(effective_abi as u8),
        _ => Ok(0),
    }
}

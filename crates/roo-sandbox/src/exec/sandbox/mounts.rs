//! The mount tree of a command: everything read-only but its grants, what is hidden covered, and
//! directories of its own in place of those through which programs meet.
//!
//! Places are opened without following any link and mounted on by handle, so that a directory which
//! is swapped for a link meanwhile makes the start fail instead of moving a grant elsewhere.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, StatVfsMountFlags, StatxFlags, fstat, fstatvfs, statx};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount,
    mount_change, mount_remount, move_mount, open_tree,
};

use super::confinement::{Access, Substitute};
use super::helper_protocol::{JsonPath, Order, Overlay};
use super::protected_mounts::{MountKind, ProtectedMount, open_place};
use super::setup_failure::{SetupFailure, StepContext as _};

/// Devices that a command sees. They hold nothing and control nothing.
const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];

/// Links in `/dev` that shells and programs use.
const DEVICE_LINKS: &[(&str, &str)] = &[
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Directories in which programs meet by sockets and other files; empty for a command except for [`KEPT`].
const MEETING_PLACES: &[&str] = &["/run", "/var/run"];

/// Exceptions that stay visible: systems that live there, and how names are resolved.
const KEPT: &[&str] = &[
    "/run/current-system",
    "/run/booted-system",
    "/run/opengl-driver",
    "/run/systemd/resolve/resolv.conf",
    "/run/systemd/resolve/stub-resolv.conf",
    "/run/resolvconf/resolv.conf",
    "/run/NetworkManager/resolv.conf",
];

/// Directories of temporary files.
const TEMPORARY: &[&str] = &["/tmp", "/var/tmp"];

/// The first version of Linux in which each process namespace has its own limit of process numbers.
const OWN_PID_MAX: (u32, u32) = (6, 14);

/// Process numbers that the kernel doesn't give out a second time.
const RESERVED_NUMBERS: u32 = 300;

/// Result of building a mount tree.
pub(super) struct Kernel {
    pub own_proc: bool,
    pub process_limit: bool,
    /// A `/proc` that can be written, by handle alone.
    pub proc: OwnedFd,
    /// Directory of a supervisor's captures, by handle alone.
    pub captures: Option<OwnedFd>,
    pub held: ProtectedMounts,
}

/// Mounts that keep a command from what is at their places, and what they are made of. Nothing takes these handles away:
/// they are of mounts that the command can't reach.
pub(super) struct ProtectedMounts {
    /// Outer ones first, each path once.
    pub places: Vec<ProtectedMount>,
    /// A directory and a file that nobody can open.
    pub closed_directory: OwnedFd,
    pub closed_file: OwnedFd,
    pub copies: Vec<OwnedFd>,
}

/// Builds the tree in this process's mount namespace.
pub(super) fn build(order: &Order) -> Result<Kernel, SetupFailure> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .step("separating the mount tree")?;
    let WritableCopies { mut trees, overlays, captures, mut substitutes, temporary, devices, proc } =
        WritableCopies::take(order)?;
    make_read_only()?;
    // Copies of what is read-only now are read-only with all that is mounted below.
    substitutes.extend(substitute_trees(order, false)?);
    trees.extend(place_trees(places_with(order, Access::Read), "the protected")?);
    add_visible(order, &overlays, &mut trees);
    // Only now, when all that shows a folder itself is at hand.
    attach_overlays(&overlays)?;
    trees.extend(staged_trees(order, &overlays)?);
    replace_temporary(temporary)?;
    let mut sealed = replace_meeting_places(order)?;
    // A place that always exists and gets its own mount in the end.
    let staging = Path::new("/dev");
    tmpfs(staging, c"mode=0700,size=64k").step("the covers")?;
    let covers = Covers::make(staging).step("the covers")?;
    let mut kinds = BTreeMap::new();
    sealed.extend(mount_places(order, trees, &covers, &mut kinds)?);
    let copies = attach_substitutes(substitutes, staging, &mut kinds)?;
    mount_remount(staging, MountFlags::RDONLY, c"").step("sealing the covers")?;
    seal(&sealed)?;
    // Over the covers: to unmount them would take longer than all the rest.
    make_devices(devices).step("the devices")?;
    let places =
        kinds.into_iter().map(|(path, kind)| ProtectedMount { path: JsonPath(path), kind }).collect();
    let Covers { directory: closed_directory, file: closed_file } = covers;
    let held = ProtectedMounts { places, closed_directory, closed_file, copies };
    match proc {
        Proc::Host(proc) => Ok(Kernel { own_proc: false, process_limit: false, proc, captures, held }),
        Proc::Fresh(fresh) => own_proc(&fresh, order.limits.processes, captures, held),
    }
}

/// A copy of what is at a place, to be mounted there again.
struct PlaceTree {
    path: PathBuf,
    access: Access,
    tree: MountTree,
}

/// Copies of what a command may write, and of devices, made while everything still is as it was.
struct WritableCopies<'a> {
    trees: Vec<PlaceTree>,
    /// Overlays by the folders over which they are mounted.
    overlays: Vec<(&'a Path, OwnedFd)>,
    captures: Option<OwnedFd>,
    substitutes: Vec<SubstituteTree<'a>>,
    /// Directories of temporary files, with what replaces each; an empty one where there is none.
    temporary: Vec<(&'static Path, Option<MountTree>)>,
    devices: Vec<(&'static str, MountTree)>,
    proc: Proc,
}

/// A substitute, and its copy where it is there.
type SubstituteTree<'a> = (&'a Substitute<JsonPath>, Option<MountTree>);

/// The `/proc` of a command, not mounted yet.
enum Proc {
    /// That of its process namespace.
    Fresh(OwnedFd),
    /// The machine's, with what covers it, which can't be left out.
    Host(OwnedFd),
}

impl<'a> WritableCopies<'a> {
    fn take(order: &'a Order) -> Result<Self, SetupFailure> {
        let trees = place_trees(places_with(order, Access::Write), "the grant")?;
        let overlays = order.overlays.iter().map(|overlay| Ok((overlay.root.0.as_path(), stage(overlay)?)));
        let overlays = overlays.collect::<Result<_, SetupFailure>>()?;
        let captures = match &order.capture {
            Some(capture) => MountTree::from_path(&capture.directory.0)
                .step("the directory of captures")?
                .map(|tree| tree.tree),
            None => None,
        };
        let substitutes = substitute_trees(order, true)?;
        let mut temporary = Vec::new();
        for directory in TEMPORARY.iter().map(Path::new).filter(|directory| is_replaced(directory, order)) {
            let tree = match &order.temp {
                Some(temp) => {
                    MountTree::from_path(&temp.0).step(&named("the temporary directory", &temp.0))?
                }
                None => None,
            };
            temporary.push((directory, tree));
        }
        let mut devices = Vec::new();
        for name in DEVICES {
            if let Some(tree) = MountTree::from_path(&Path::new("/dev").join(name)).step("the devices")? {
                devices.push((*name, tree));
            }
        }
        let proc = match fresh_proc() {
            Ok(fresh) => Proc::Fresh(fresh),
            Err(_) => Proc::Host(open_tree(CWD, "/proc", CLONE | OpenTreeFlags::AT_RECURSIVE).step("/proc")?),
        };
        Ok(Self { trees, overlays, captures, substitutes, temporary, devices, proc })
    }
}

/// The places to which the order gives just this access.
fn places_with(order: &Order, wanted: Access) -> impl Iterator<Item = (&Path, Access)> {
    let places = order.places.iter().filter(move |(_, access)| *access == wanted);
    places.map(|(place, access)| (place.0.as_path(), *access))
}

/// Copies places; those that are not there are left out.
fn place_trees<'a>(
    places: impl Iterator<Item = (&'a Path, Access)>,
    what: &str,
) -> Result<Vec<PlaceTree>, SetupFailure> {
    let mut trees = Vec::new();
    for (path, access) in places {
        if let Some(tree) = MountTree::from_path(path).step(&named(what, path))? {
            trees.push(PlaceTree { path: path.to_owned(), access, tree });
        }
    }
    Ok(trees)
}

/// Copies the substitutes that can be written, or the others.
fn substitute_trees(order: &Order, are_writable: bool) -> Result<Vec<SubstituteTree<'_>>, SetupFailure> {
    let wanted = order.substitutes.iter().filter(|it| it.is_writable == are_writable);
    let copy = |substitute: &'_ Substitute<JsonPath>| {
        let source = &substitute.source.0;
        MountTree::from_path(source).step(&named("the substitute", source))
    };
    wanted.map(|substitute| Ok((substitute, copy(substitute)?))).collect()
}

/// Adds copies of what stays visible although the directory around it is replaced.
fn add_visible(order: &Order, overlays: &[(&Path, OwnedFd)], trees: &mut Vec<PlaceTree>) {
    let visible = order.visible.iter().chain([&order.directory]).map(|path| path.0.clone());
    for path in KEPT.iter().map(PathBuf::from).chain(visible) {
        let mut covered = MEETING_PLACES.iter().chain(TEMPORARY).map(Path::new);
        let is_covered = covered.any(|covered| path.starts_with(covered) && path != covered);
        let is_granted = trees.iter().any(|granted| path.starts_with(&granted.path))
            || overlays.iter().any(|(root, _)| path.starts_with(root));
        // Links among these lead to others of these.
        if is_covered
            && !is_granted
            && let Ok(Some(tree)) = MountTree::from_path(&path)
        {
            trees.push(PlaceTree { path, access: Access::Read, tree });
        }
    }
}

fn attach_overlays(overlays: &[(&Path, OwnedFd)]) -> Result<(), SetupFailure> {
    overlays.iter().try_for_each(|(root, overlay)| {
        let what = named("the overlay over", root);
        attach(overlay, &open_place(root).step(&what)?).step(&what)
    })
}

/// Copies the grants whose writes are staged, as they are in the overlays.
fn staged_trees(order: &Order, overlays: &[(&Path, OwnedFd)]) -> Result<Vec<PlaceTree>, SetupFailure> {
    let is_taken_back = |place: &Path| {
        let stricter = order.places.iter().filter(|(_, access)| *access > Access::Staged);
        stricter.map(|(outer, _)| &outer.0).any(|outer| place.starts_with(outer) && place != outer)
    };
    // What is within an overlay anyway needs no mount of its own, over which nothing can be moved.
    let is_wanted = |place: &Path| overlays.iter().any(|(root, _)| *root == place) || is_taken_back(place);
    place_trees(places_with(order, Access::Staged).filter(|(place, _)| is_wanted(place)), "the grant")
}

fn replace_temporary(temporary: Vec<(&Path, Option<MountTree>)>) -> Result<(), SetupFailure> {
    temporary.into_iter().try_for_each(|(directory, tree)| {
        let replaced = match tree {
            Some(tree) => tree.attach(directory),
            None => tmpfs(directory, c"mode=1777,size=50%"),
        };
        replaced.step("the temporary directory")
    })
}

/// Covers the directories in which programs meet by empty ones, which are to be sealed in the end.
fn replace_meeting_places(order: &Order) -> Result<Vec<PathBuf>, SetupFailure> {
    let mut replaced = Vec::new();
    for directory in MEETING_PLACES.iter().map(Path::new) {
        // Most are links to each other.
        let is_directory = directory.symlink_metadata().is_ok_and(|found| found.is_dir());
        if is_directory && !is_within_grant(directory, order) {
            tmpfs(directory, c"mode=0755,size=1m").step(&named("the directory", directory))?;
            replaced.push(directory.to_owned());
        }
    }
    Ok(replaced)
}

/// Mounts the copies and covers what is hidden, the outer ones first, and puts down what is held by that. Returns the covers
/// that are to be sealed in the end.
fn mount_places(
    order: &Order,
    trees: Vec<PlaceTree>,
    covers: &Covers,
    kinds: &mut BTreeMap<PathBuf, MountKind>,
) -> Result<Vec<PathBuf>, SetupFailure> {
    let shown: Vec<PathBuf> = trees.iter().map(|tree| tree.path.clone()).collect();
    let mut places: Vec<(PathBuf, Access, Option<MountTree>)> =
        trees.into_iter().map(|PlaceTree { path, access, tree }| (path, access, Some(tree))).collect();
    places.extend(places_with(order, Access::None).map(|(path, access)| (path.to_owned(), access, None)));
    places.sort_by_key(|(path, access, _)| (path.components().count(), *access));
    let mut sealed = Vec::new();
    for (path, access, tree) in places {
        match tree {
            Some(tree) => {
                tree.attach_anew(&path).step(&named("the place", &path))?;
                // Also where another program has replaced it just now: then it is mounted again.
                if access == Access::Read {
                    kinds.insert(path, MountKind::ReadOnly);
                }
            }
            None => {
                let holes = shown.iter().map(PathBuf::as_path);
                let holes: Vec<&Path> =
                    holes.filter(|hole| hole.starts_with(&path) && *hole != path).collect();
                let keeps_names = is_within_grant(&path, order);
                let covered = covers.cover(&path, &holes, keeps_names).step(&named("hiding", &path))?;
                if covered == Covered::ByOpenDirectory {
                    sealed.push(path.clone());
                }
                if covered != Covered::NotThere {
                    kinds.insert(path, MountKind::Closed);
                }
            }
        }
    }
    Ok(sealed)
}

/// Mounts the substitutes, and puts down what is held by that. Returns handles from which they can be mounted again, of mounts
/// in the staging directory.
fn attach_substitutes(
    substitutes: Vec<SubstituteTree<'_>>,
    staging: &Path,
    kinds: &mut BTreeMap<PathBuf, MountKind>,
) -> Result<Vec<OwnedFd>, SetupFailure> {
    let mut copies = Vec::new();
    for (substitute, tree) in substitutes {
        let Some(tree) = tree else { continue };
        let place = &substitute.place.0;
        let what = named("the substitute for", place);
        let target = match open_place(place) {
            Ok(target) => target,
            Err(Errno::NOENT | Errno::NOTDIR) => continue,
            Err(error) => return Err(error).step(&what),
        };
        tree.attach_anew(&staging.join(format!("copy-{}", copies.len()))).step(&what)?;
        attach(&clone_tree(&tree.tree).step(&what)?, &target).step(&what)?;
        kinds.insert(place.clone(), MountKind::copy(copies.len(), &tree.tree).step(&what)?);
        copies.push(tree.tree);
    }
    Ok(copies)
}

/// Makes directories read-only that replaced others.
fn seal(directories: &[PathBuf]) -> Result<(), SetupFailure> {
    directories.iter().try_for_each(|directory| {
        mount_remount(directory, MountFlags::BIND | MountFlags::RDONLY | PLAIN, c"")
            .step(&named("sealing", directory))
    })
}

fn named(what: &str, path: &Path) -> String {
    format!("{what} {}", path.display())
}

/// Returns whether a temporary directory is replaced: not when it is in a grant.
fn is_replaced(directory: &Path, order: &Order) -> bool {
    directory.symlink_metadata().is_ok_and(|found| found.is_dir()) && !is_within_grant(directory, order)
}

fn is_within_grant(directory: &Path, order: &Order) -> bool {
    order.places.iter().any(|(place, access)| *access <= Access::Staged && directory.starts_with(&place.0))
}

/// Flags of every mount that isn't the machine's own.
const PLAIN: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);

fn tmpfs(directory: &Path, options: &CStr) -> io::Result<()> {
    Ok(mount("tmpfs", directory, "tmpfs", PLAIN, options)?)
}

/// A copy of one mount.
const CLONE: OpenTreeFlags = OpenTreeFlags::OPEN_TREE_CLONE.union(OpenTreeFlags::OPEN_TREE_CLOEXEC);

/// Mounts a tree on a place.
pub(super) fn attach(tree: &impl AsFd, target: &impl AsFd) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, c"", target, c"", flags)
}

/// A copy of the mounts at and below a handle, not mounted anywhere yet.
pub(super) fn clone_tree(of: &impl AsFd) -> rustix::io::Result<OwnedFd> {
    open_tree(of, c"", CLONE | OpenTreeFlags::AT_EMPTY_PATH | OpenTreeFlags::AT_RECURSIVE)
}

/// An overlay, not mounted anywhere yet.
fn stage(overlay: &Overlay) -> Result<OwnedFd, SetupFailure> {
    let Overlay { root, upper, work } = overlay;
    let what = format!(
        "the overlay over {} (its file system and that of the state directory must support overlays, and nothing may be mounted below the folder)",
        root.0.display()
    );
    let layers = [("lowerdir", root), ("upperdir", upper), ("workdir", work)];
    let make = || {
        let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
        // What replaces a directory is marked by what needs no privilege.
        fsconfig_set_flag(&context, "userxattr")?;
        // What is staged is worth nothing after a crash; without this the end of each command would wait until the
        // whole file system is on the disk.
        fsconfig_set_flag(&context, "volatile")?;
        let mut attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        let mut handles = Vec::new();
        for (key, layer) in layers {
            let handle = open_place(&layer.0)?;
            // By handle: through no link, and whatever the characters of its path.
            fsconfig_set_string(&context, key, format!("/proc/self/fd/{}", handle.as_raw_fd()))?;
            if key == "lowerdir" && fstatvfs(&handle)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
                attributes |= MountAttrFlags::MOUNT_ATTR_NOEXEC;
            }
            handles.push(handle);
        }
        fsconfig_create(&context)?;
        fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
    };
    make().step(&what)
}

/// A copy of the mounts at and below a place, not mounted anywhere yet.
struct MountTree {
    tree: OwnedFd,
    is_directory: bool,
}

impl MountTree {
    /// None where there is nothing, or a link.
    fn from_path(path: &Path) -> io::Result<Option<Self>> {
        let place = match open_place(path) {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            other => other?,
        };
        let kind = FileType::from_raw_mode(fstat(&place)?.st_mode);
        if kind == FileType::Symlink {
            return Ok(None);
        }
        let tree = match clone_tree(&place) {
            Err(Errno::NOENT) => return Ok(None),
            tree => tree?,
        };
        Ok(Some(Self { tree, is_directory: kind == FileType::Directory }))
    }

    fn attach(&self, path: &Path) -> io::Result<()> {
        self.attach_to(&open_place(path)?)
    }

    /// Attaches it where something may have to be made to attach it to, in a directory that replaced
    /// another. Does nothing where it was removed meanwhile.
    fn attach_anew(&self, path: &Path) -> io::Result<()> {
        let target = match open_place(path) {
            // Another program has removed it since it was copied, as git does with a work tree that isn't needed any more.
            Err(Errno::NOENT) if self.is_removed() => return Ok(()),
            Err(Errno::NOENT) => {
                // It may stay in a directory of the user's, whatever the umask.
                let mut directories = std::fs::DirBuilder::new();
                directories.mode(0o700);
                directories.recursive(true).create(path.parent().unwrap_or(path))?;
                let made = if self.is_directory {
                    directories.recursive(false).create(path)
                } else {
                    std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map(drop)
                };
                match made {
                    // The directory is shared with other commands, of which one may be making it as well.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    made => made?,
                }
                open_place(path)?
            }
            other => other?,
        };
        match self.attach_to(&target) {
            Err(_) if self.is_removed() => Ok(()),
            attached => attached,
        }
    }

    /// Returns whether what was copied has no name any more.
    fn is_removed(&self) -> bool {
        fstat(&self.tree).is_ok_and(|found| found.st_nlink == 0)
    }

    fn attach_to(&self, target: &impl AsFd) -> io::Result<()> {
        Ok(attach(&self.tree, target)?)
    }
}

/// A directory and a file that nobody can open.
struct Covers {
    directory: OwnedFd,
    file: OwnedFd,
}

/// How a place was covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Covered {
    /// Nothing is there to be covered.
    NotThere,
    Closed,
    /// By a directory for other places, which is to be sealed when they are mounted.
    ByOpenDirectory,
}

impl Covers {
    fn make(staging: &Path) -> io::Result<Self> {
        use std::os::unix::fs::PermissionsExt as _;

        let (directory, file) = (staging.join("directory"), staging.join("file"));
        std::fs::create_dir(&directory)?;
        std::fs::File::create_new(&file)?;
        for cover in [&directory, &file] {
            std::fs::set_permissions(cover, std::fs::Permissions::from_mode(0o0))?;
        }
        Ok(Self { directory: open_place(&directory)?, file: open_place(&file)? })
    }

    /// Covers a place; what isn't there needs no cover. A directory in which other places lie gets an
    /// empty one of its own. With `keeps_names`, what else is in it is there, and nobody can open it: git would take it for
    /// deleted otherwise, and commit that.
    fn cover(&self, path: &Path, holes: &[&Path], keeps_names: bool) -> io::Result<Covered> {
        let target = match open_place(path) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => return Ok(Covered::NotThere),
            other => other?,
        };
        let cover = match FileType::from_raw_mode(fstat(&target)?.st_mode) {
            // What it leads to is hidden where it is.
            FileType::Symlink => return Ok(Covered::NotThere),
            FileType::Directory if !holes.is_empty() => {
                let others = if keeps_names { entries_beside(path, holes) } else { vec![] };
                tmpfs(path, c"mode=0755,size=1m")?;
                others.iter().try_for_each(|(path, is_directory)| make_closed(path, *is_directory))?;
                return Ok(Covered::ByOpenDirectory);
            }
            FileType::Directory => &self.directory,
            _ => &self.file,
        };
        match attach(&clone_tree(cover)?, &target) {
            // Another program has replaced it just now: it is covered again.
            Err(_) if fstat(&target)?.st_nlink == 0 => Ok(Covered::Closed),
            attached => Ok(attached.map(|()| Covered::Closed)?),
        }
    }
}

/// The entries of a directory in which none of these places lies, and of those directories in it on the way to one. Each
/// with whether it is a directory; what is in there can be found in no other way.
fn entries_beside(directory: &Path, places: &[&Path]) -> Vec<(PathBuf, bool)> {
    let mut entries = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_directory && places.iter().any(|place| place.starts_with(&path)) {
                if !places.contains(&path.as_path()) {
                    open.push(path);
                }
            } else if !places.contains(&path.as_path()) {
                entries.push((path, is_directory));
            }
        }
    }
    entries
}

/// Makes an empty directory or file that nobody can open, with the directories that lead to it.
fn make_closed(path: &Path, is_directory: bool) -> io::Result<()> {
    let mut directories = std::fs::DirBuilder::new();
    directories.mode(0o700).recursive(true).create(path.parent().unwrap_or(path))?;
    match is_directory {
        true => std::fs::DirBuilder::new().mode(0o0).create(path),
        false => std::fs::OpenOptions::new().write(true).create_new(true).mode(0o0).open(path).map(drop),
    }
}

/// Makes every mount read-only, and without devices.
fn make_read_only() -> Result<(), SetupFailure> {
    let table = std::fs::read("/proc/self/mountinfo").step("the table of mounts")?;
    let table = String::from_utf8_lossy(&table).into_owned();
    for line in table.lines() {
        let Some(entry) = MountInfo::parse(line) else { continue };
        let flags = MountFlags::BIND | MountFlags::RDONLY | PLAIN | entry.kept;
        if let Err(error) = mount_remount(&entry.path, flags, c"")
            && entry.is_reachable()
        {
            return Err(error).step(&named("making read-only", &entry.path));
        }
    }
    Ok(())
}

/// A line of proc_pid_mountinfo(5).
struct MountInfo {
    number: u64,
    path: PathBuf,
    /// Flags that a remount must repeat: those of an outer namespace can't be taken away.
    kept: MountFlags,
}

impl MountInfo {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split(' ');
        let number = fields.next()?.parse().ok()?;
        let path = unescape(fields.nth(3)?);
        let kept = fields.next()?.split(',').fold(MountFlags::empty(), |flags, option| match option {
            "noexec" => flags | MountFlags::NOEXEC,
            _ => flags,
        });
        Some(Self { number, path, kept })
    }

    /// Returns whether its path leads to it, rather than to nothing or to a mount over it.
    fn is_reachable(&self) -> bool {
        match open_place(&self.path) {
            Ok(place) => statx(place, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)
                .is_ok_and(|found| found.stx_mnt_id == self.number),
            Err(_) => false,
        }
    }
}

/// Spaces, tabs, newlines and backslashes come as three octal digits.
fn unescape(text: &str) -> PathBuf {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let code = after.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) if code.is_ascii() => {
                out.push(code.into());
                rest = &after[3..];
            }
            _ => {
                out.push('\\');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out.into()
}

/// A `/dev` with what programs need of it and nothing that controls the machine.
fn make_devices(devices: Vec<(&str, MountTree)>) -> io::Result<()> {
    let directory = Path::new("/dev");
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("tmpfs", directory, "tmpfs", flags, c"mode=0755,size=64k")?;
    for (name, tree) in devices {
        tree.attach_anew(&directory.join(name))?;
    }
    for (name, target) in DEVICE_LINKS {
        std::os::unix::fs::symlink(target, directory.join(name))?;
    }
    for name in ["pts", "shm"] {
        std::fs::create_dir(directory.join(name))?;
    }
    let terminals = directory.join("pts");
    mount("devpts", &terminals, "devpts", flags, c"newinstance,ptmxmode=0666,mode=620")?;
    tmpfs(&directory.join("shm"), c"mode=1777,size=50%")?;
    Ok(mount_remount(directory, MountFlags::BIND | MountFlags::RDONLY | flags, c"")?)
}

/// A `/proc` of this process namespace, not mounted yet. The kernel forbids it where parts of the outer
/// one are covered, as in containers. Then that stays: it is read-only, and its processes are out of
/// reach.
fn fresh_proc() -> io::Result<OwnedFd> {
    let context = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// Mounts it, read-only, and sets the limit that is set there.
fn own_proc(
    fresh: &OwnedFd,
    processes: u32,
    captures: Option<OwnedFd>,
    held: ProtectedMounts,
) -> Result<Kernel, SetupFailure> {
    let path = Path::new("/proc");
    attach(fresh, &open_place(path).step("/proc")?).step("/proc")?;
    let proc = open_tree(CWD, path, CLONE).step("/proc")?;
    // Before, this would set the limit of the whole machine.
    let process_limit = release() >= Some(OWN_PID_MAX)
        && std::fs::write("/proc/sys/kernel/pid_max", (processes + RESERVED_NUMBERS).to_string()).is_ok();
    let flags = MountFlags::BIND | MountFlags::RDONLY | PLAIN | MountFlags::NOEXEC;
    mount_remount(path, flags, c"").step("/proc")?;
    Ok(Kernel { own_proc: true, process_limit, proc, captures, held })
}

/// The version of the kernel.
fn release() -> Option<(u32, u32)> {
    let name = rustix::system::uname();
    let mut numbers = name.release().to_str().ok()?.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_point_may_hold_spaces_and_keeps_its_flags() {
        let line = r"36 35 98:0 /mnt1 /mnt/a\040b rw,nosuid,noexec master:1 - ext4 /dev/root rw";
        let entry = MountInfo::parse(line).unwrap();
        assert_eq!((entry.number, entry.path), (36, PathBuf::from("/mnt/a b")));
        assert_eq!(entry.kept, MountFlags::NOEXEC);
        assert_eq!(unescape(r"/a\134b\"), PathBuf::from(r"/a\b\"));
    }
}

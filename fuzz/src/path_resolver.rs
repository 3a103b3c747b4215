//! The path resolver against a model of the file system: where the model says that a path leads, the resolver
//! leads too, or refuses; never does it take a place outside for one inside.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::OnceLock;

use roo_workspace::{Location, Purpose, Roots};

use crate::Input;

/// What there is, relative to the top: directories end in `/`, links say where they lead.
const TREE: [(&str, Option<&str>); 17] = [
    ("out/", None),
    ("out/file", None),
    ("work/", None),
    ("work-evil/", None),
    ("work-evil/x", None),
    ("work/a/", None),
    ("work/a/b/", None),
    ("work/a/b/file", None),
    ("work/file", None),
    ("work/in", Some("a/b")),
    ("work/up", Some("..")),
    ("work/leave", Some("../out")),
    ("work/leaf", Some("../out/file")),
    ("work/nowhere", Some("missing")),
    ("work/loop", Some("pool")),
    ("work/pool", Some("loop")),
    ("work/a/back", Some("../in/../../file")),
];
const NAMES: [&str; 20] = [
    "a",
    "b",
    "file",
    "in",
    "up",
    "leave",
    "leaf",
    "nowhere",
    "loop",
    "pool",
    "back",
    "new",
    "..",
    ".",
    "",
    "work",
    "out",
    "work-evil",
    "x",
    "deeper",
];

struct World {
    _directory: tempfile::TempDir,
    top: PathBuf,
    roots: Roots,
    tree: BTreeMap<Vec<&'static str>, Kind>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Directory,
    File,
    Link(&'static str),
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let mut tree = BTreeMap::from([(vec![], Kind::Directory)]);
        for (path, link) in TREE {
            let place = top.join(path.trim_end_matches('/'));
            let kind = match link {
                Some(target) => {
                    symlink(target, &place).unwrap();
                    Kind::Link(target)
                }
                None if path.ends_with('/') => {
                    fs::create_dir(&place).unwrap();
                    Kind::Directory
                }
                None => {
                    fs::write(&place, "x").unwrap();
                    Kind::File
                }
            };
            tree.insert(path.trim_end_matches('/').split('/').collect(), kind);
        }
        let roots = Roots::open(&[top.join("work")]).unwrap();
        World { _directory: directory, top, roots, tree }
    })
}

/// Where a path leads by the model; none where it leads nowhere or out of the tree.
fn model(
    world: &World,
    from: &[&'static str],
    path: &[&'static str],
    links: usize,
) -> Option<(Vec<&'static str>, bool)> {
    let mut here = from.to_vec();
    let mut exists = true;
    for (index, &name) in path.iter().enumerate() {
        match name {
            "" | "." => continue,
            // Of what is not there nothing is above.
            ".." if !exists => return None,
            ".." => {
                here.pop()?;
                continue;
            }
            _ => {}
        }
        let mut next = here.clone();
        next.push(name);
        match world.tree.get(&next) {
            Some(Kind::Link(_)) if links == 0 => return None,
            Some(Kind::Link(target)) => {
                let target: Vec<&str> = target.split('/').collect();
                let (led, exists) = model(world, &here, &target, links - 1)?;
                // Below a file there is nothing, and nothing above it either.
                let goes_on = path[index + 1..].iter().any(|rest| !matches!(*rest, "" | "."));
                if goes_on && world.tree.get(&led) == Some(&Kind::File) {
                    return None;
                }
                return if exists { model(world, &led, &path[index + 1..], links - 1) } else { None };
            }
            Some(Kind::File) if path[index + 1..].iter().any(|rest| !matches!(*rest, "" | ".")) => {
                return None;
            }
            Some(_) => here = next,
            None => {
                exists = false;
                here = next;
            }
        }
    }
    Some((here, exists))
}

/// The property.
pub fn run(data: &[u8]) {
    let world = world();
    let mut input = Input(data);
    if input.byte() % 4 == 0 {
        // Anything at all: what comes out is a real path on the side that it says.
        let text = input.text();
        for purpose in [Purpose::Read, Purpose::Write, Purpose::List, Purpose::Directory] {
            if let Ok(found) = world.roots.resolve(&text, purpose) {
                let inside = found.absolute().starts_with(world.top.join("work"));
                assert_eq!(found.location() == Location::Outside, !inside, "{text:?}");
            }
        }
        return;
    }
    let is_absolute = input.byte() % 4 == 0;
    let names: Vec<&'static str> = (0..1 + input.below(7)).map(|_| input.one(&NAMES)).collect();
    let text = match is_absolute {
        true => format!("{}/{}", world.top.display(), names.join("/")),
        false => names.join("/"),
    };
    let from: &[&str] = if is_absolute { &[] } else { &["work"] };
    let led = model(world, from, &names, 40);
    for purpose in [Purpose::Read, Purpose::Write, Purpose::List, Purpose::Directory] {
        let Ok(found) = world.roots.resolve(&text, purpose) else { continue };
        let below = found.absolute().strip_prefix(&world.top);
        let inside = found.absolute().starts_with(world.top.join("work"));
        assert_eq!(found.location() == Location::Outside, !inside, "{text}");
        // What leaves the tree altogether is not in the model.
        let Ok(below) = below else { continue };
        let expected = led.as_ref().map(|(path, _)| path.join("/"));
        assert_eq!(Some(below.to_str().unwrap()), expected.as_deref(), "{text}");
    }
    // What is there and inside is found.
    if let Some((path, true)) = led
        && path.first() == Some(&"work")
        && !text.is_empty()
        && is_absolute == text.starts_with('/')
    {
        let purpose = if world.tree.get(&path) == Some(&Kind::File) { Purpose::Read } else { Purpose::List };
        let found = world.roots.resolve(&text, purpose);
        assert!(found.is_ok(), "{text}: {:?}", found.err());
    }
}

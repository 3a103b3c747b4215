//! Places that no agent may change, whoever would allow it: the directories of roo-lsp, and the files by which the user
//! governs agents, wherever links put them. They may lie in a workspace.

use std::path::{Path, PathBuf};

use super::links::{NameKind, follow};
use crate::customization::Customization;
use roo_formats::config::Directories;
use roo_workspace::{FileId, several_names};

/// The places as they are now.
#[derive(Debug)]
pub(super) struct OwnPlaces {
    /// Real paths: of directories, of files whether or not they are there, and of every link on the way to one.
    pub(super) paths: Vec<PathBuf>,
    /// The files among them that have other names besides.
    pub(super) linked: Vec<FileId>,
}

impl OwnPlaces {
    /// Finds the places. Reads the disk.
    pub(super) fn find(directories: &Directories) -> Self {
        let of_directories = [&directories.config, &directories.state];
        let files = Customization::governing_files(directories);
        let named = of_directories.into_iter().cloned().chain(files);
        let mut paths: Vec<PathBuf> = named.flat_map(|path| on_the_way(&path)).collect();
        paths.sort_unstable();
        paths.dedup();
        let linked = paths.iter().filter_map(|path| file_with_several_names(path)).collect();
        Self { paths, linked }
    }

    /// Returns whether a real path leads to one of them, by its own or by another name.
    pub(super) fn contain(&self, place: &Path) -> bool {
        self.paths.iter().any(|own| place.starts_with(own))
            || (!self.linked.is_empty()
                && file_with_several_names(place).is_some_and(|file| self.linked.contains(&file)))
    }
}

fn file_with_several_names(path: &Path) -> Option<FileId> {
    let found = path.symlink_metadata().ok()?;
    several_names(&found).map(|file| file.id)
}

/// Returns the links that an absolute path leads through, and at last the real path of what it leads to, be it missing.
fn on_the_way(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let real = follow(path, |name, kind| {
        if matches!(kind, NameKind::Link) {
            found.push(name.to_owned());
        }
        Ok(())
    });
    // Behind more links than the kernel follows there is nothing.
    found.extend(real.ok());
    found
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    struct Ground(tempfile::TempDir);

    impl Ground {
        fn new() -> Self {
            let ground = Self(tempfile::tempdir().unwrap());
            for directory in ["config", "state", "work/dots"] {
                fs::create_dir_all(ground.at(directory)).unwrap();
            }
            ground
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(name)
        }

        fn find(&self, settings_file: Option<PathBuf>) -> OwnPlaces {
            let (config, state) = (self.at("config"), self.at("state"));
            OwnPlaces::find(&Directories { config, state, home: None, settings_file })
        }
    }

    #[test]
    fn every_link_on_the_way_to_a_file_counts_and_its_neighbours_do_not() {
        let ground = Ground::new();
        symlink(ground.at("work/now/config.yaml"), ground.at("config/config.yaml")).unwrap();
        symlink("dots", ground.at("work/now")).unwrap();
        symlink("../other/./roo.yaml", ground.at("work/dots/config.yaml")).unwrap();
        let own = ground.find(None);
        for name in ["config/x", "work/now", "work/dots/config.yaml", "work/other/roo.yaml"] {
            assert!(own.contain(&ground.at(name)), "{name}: {own:?}");
        }
        for name in ["work", "work/dots", "work/dots/config.yaml.new", "work/other", "work/other/roo"] {
            assert!(!own.contain(&ground.at(name)), "{name}: {own:?}");
        }
    }

    #[test]
    fn a_file_that_the_user_names_counts_by_all_its_names() {
        let ground = Ground::new();
        let file = ground.at("work/roo.yaml");
        fs::write(&file, "mode: code\n").unwrap();
        fs::hard_link(&file, ground.at("work/other.yaml")).unwrap();
        fs::write(ground.at("work/one.txt"), "").unwrap();
        fs::hard_link(ground.at("work/one.txt"), ground.at("work/two.txt")).unwrap();
        let own = ground.find(Some(file.clone()));
        assert!(own.contain(&file) && own.contain(&ground.at("work/other.yaml")));
        assert!(!own.contain(&ground.at("work/one.txt")) && !own.contain(&ground.at("work")));
    }

    #[test]
    fn links_in_a_circle_end() {
        let ground = Ground::new();
        symlink("mcp.json", ground.at("config/mcp.json")).unwrap();
        assert!(ground.find(None).contain(&ground.at("config/mcp.json")));
    }
}

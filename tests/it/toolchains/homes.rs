//! Directories of tools in the home directory, wherever variables and managers of toolchains have put them.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

#[test]
fn credentials_are_hidden_where_variables_have_put_them() {
    let mut workshop = Workshop::new(&[
        ("~/cargo/credentials.toml", "canary\n"),
        ("~/cargo/registry/src/i/a-1.0/lib.rs", "source\n"),
        ("~/config/gh/hosts.yml", "canary\n"),
        ("~/data/fish/fish_history", "canary\n"),
        ("~/kube/one", "canary\n"),
        ("~/kube/two", "canary\n"),
    ]);
    let kube = [workshop.at("home/kube/one"), workshop.at("home/kube/two")];
    let kube = PathBuf::from(std::env::join_paths(kube).unwrap());
    let [cargo, config, data] = ["home/cargo", "home/config", "home/data"].map(|place| workshop.at(place));
    workshop.variables.extend([
        ("CARGO_HOME", cargo),
        ("XDG_CONFIG_HOME", config),
        ("XDG_DATA_HOME", data),
        ("KUBECONFIG", kube),
    ]);
    let told = workshop.agent(
        "cat ~/cargo/credentials.toml ~/config/gh/hosts.yml ~/data/fish/fish_history ~/kube/one ~/kube/two; \
         cat ~/cargo/registry/src/i/a-1.0/lib.rs",
    );
    assert!(told.contains("source") && !told.contains("canary"), "{told}");
}

/// As fnm has it: the search path of each shell leads through a link in a directory of the session.
#[test]
fn programs_are_found_behind_a_link_in_a_directory_that_commands_do_not_see() {
    let mut workshop =
        Workshop::new(&[("~/.local/share/fnm/v1/bin/of-this-version", "#!/bin/sh\necho found\n")]);
    let program = workshop.at("home/.local/share/fnm/v1/bin/of-this-version");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let shells = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(shells.path(), fs::Permissions::from_mode(0o755)).unwrap();
    symlink(workshop.at("home/.local/share/fnm/v1"), shells.path().join("1")).unwrap();
    let usual = std::env::var_os("PATH").unwrap();
    let path = std::iter::once(shells.path().join("1/bin")).chain(std::env::split_paths(&usual));
    workshop.variables.push(("PATH", std::env::join_paths(path).unwrap().into()));
    let told = workshop.both("of-this-version");
    assert!(told.contains("found"), "{told}");
}

#[test]
fn managers_install_toolchains_into_layers() {
    let workshop = Workshop::new(&[("~/.rustup/settings.toml", "old\n"), ("~/.asdf/installs/a", "")]);
    let line = "mkdir -p ~/.rustup/toolchains/new/bin && echo new > ~/.rustup/settings.toml && touch ~/.asdf/installs/b";
    let told = workshop.agent(line);
    assert!(told.contains("Exit code: 0"), "{told}");
    let told = workshop.agent("cat ~/.rustup/settings.toml && ls ~/.rustup/toolchains ~/.asdf/installs");
    assert!(told.contains("Exit code: 0") && told.contains("new\n"), "{told}");
    assert_eq!(fs::read_to_string(workshop.at("home/.rustup/settings.toml")).unwrap(), "old\n");
    assert_eq!(names(&workshop.at("home/.asdf/installs")), ["a"]);
}

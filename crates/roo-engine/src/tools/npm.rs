//! npm in a command that reaches none of its registries.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use url::Url;

use roo_durable::read_regular;
use roo_sandbox::egress::{Destination, HostRules};
use roo_sandbox::exec::Environment;

/// The registry where none is configured.
const REGISTRY: &str = "https://registry.npmjs.org/";
/// The variables that configure another one.
const REGISTRY_VARIABLES: [&str; 2] = ["npm_config_registry", "NPM_CONFIG_REGISTRY"];
/// The variables that limit its connections.
const LIMIT_VARIABLES: [&str; 2] = ["npm_config_maxsockets", "NPM_CONFIG_MAXSOCKETS"];
/// Connections at a time that no project needs.
const UNLIMITED: &str = "100000";
/// The largest configuration file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 256 << 10;

/// Variables for npm, as its registries are configured in these directories and in the home directory. Reads the disk.
///
/// npm never ends where a proxy refuses it: requests that wait for one of its 15 connections to one host are tried again
/// without end as soon as one of these is refused (npm/cli, `@npmcli/agent`). With a connection for each request it ends
/// with the refusal. Where it reaches a registry, its own limit stays.
pub(super) fn variables<'a>(
    hosts: &HostRules,
    environment: &'a Environment,
    directories: impl Iterator<Item = &'a Path>,
) -> BTreeMap<String, String> {
    let value = |name: &&str| environment.get(name).and_then(OsStr::to_str);
    let home = environment.get("HOME").map(Path::new);
    let files =
        directories.chain(home).filter_map(|above| read_regular(&above.join(".npmrc"), MAX_FILE_BYTES).ok());
    let configured = files.flat_map(|text| text.lines().filter_map(registry).collect::<Vec<_>>());
    let named = REGISTRY_VARIABLES.iter().filter_map(value).map(str::to_owned);
    // The files are read only where these don't decide it.
    let mut registries = [REGISTRY.to_owned()].into_iter().chain(named).chain(configured);
    let is_limited = LIMIT_VARIABLES.iter().any(|name| environment.get(name).is_some());
    if is_limited || registries.any(|registry| is_open(hosts, &registry)) {
        return BTreeMap::new();
    }
    BTreeMap::from([(LIMIT_VARIABLES[0].to_owned(), UNLIMITED.to_owned())])
}

/// The registry that a line of `.npmrc` names, for all packages or for those of a scope.
fn registry(line: &str) -> Option<String> {
    let (key, value) = line.split_once('=')?;
    let key = key.trim();
    (key == "registry" || (key.starts_with('@') && key.ends_with(":registry")))
        .then(|| value.trim().trim_matches(['"', '\'']).to_owned())
}

/// Returns whether the rules open the host of a URL. What a variable in it stands for isn't known.
fn is_open(hosts: &HostRules, url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    let host = url.host_str().unwrap_or_default();
    let destination = Destination::parse(host, url.port_or_known_default());
    destination.is_ok_and(|destination| hosts.check(&destination).is_ok())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn npm_keeps_its_limit_where_it_reaches_a_registry() {
        let root = tempfile::tempdir().unwrap();
        let limit = |rules: &[&str], environment: &[(&str, &str)]| {
            let allow = |hosts: HostRules, rule: &&str| hosts.allow(rule.parse().unwrap());
            let hosts = rules.iter().fold(HostRules::default(), allow);
            let named = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let environment = Environment::chosen([]).with(&named.collect());
            variables(&hosts, &environment, [root.path()].into_iter()).contains_key("npm_config_maxsockets")
        };
        assert!(limit(&[], &[]) && limit(&["index.crates.io:443"], &[]));
        assert!(!limit(&["registry.npmjs.org:443"], &[]) && !limit(&["any"], &[]));
        assert!(!limit(&[], &[("NPM_CONFIG_MAXSOCKETS", "5")]));
        let ours = ("npm_config_registry", "http://npm.example.com:8080/ours/");
        assert!(limit(&["npm.example.com:443"], &[ours]) && !limit(&["npm.example.com:8080"], &[ours]));
        fs::write(root.path().join(".npmrc"), "# x\n@ours:registry = \"https://npm.example.com/\"\n")
            .unwrap();
        assert!(limit(&[], &[]) && !limit(&["npm.example.com:443"], &[]));
    }
}

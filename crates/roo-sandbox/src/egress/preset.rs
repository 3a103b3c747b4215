//! Package managers and git hosts by name: the hosts that each needs, and the variables by which it finds a proxy.
//! All of it is data, in `presets.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::rules::HostPattern;

static DATA: LazyLock<Data> =
    LazyLock::new(|| toml::from_str(include_str!("presets.toml")).unwrap_or_default());

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    /// Year and month in which the hosts were last compared with the sources.
    checked: String,
    variables: BTreeMap<String, String>,
    #[serde(rename = "preset")]
    presets: Vec<Preset>,
}

/// The hosts and variables of a package manager or git host.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// The name by which a setting asks for it, such as `cargo`.
    pub name: String,
    /// The name for people.
    pub title: String,
    /// The hosts, for [`HostRules::allow_public`](super::HostRules::allow_public).
    pub hosts: Vec<HostPattern>,
    /// The URL of the documentation.
    pub source: String,
    #[serde(default)]
    variables: BTreeMap<String, String>,
    #[serde(default)]
    options: BTreeMap<String, String>,
}

impl Preset {
    /// Returns the preset of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        presets().iter().find(|preset| preset.name == name)
    }

    /// Returns the first preset that names just this host and port.
    pub fn with_host(pattern: &HostPattern) -> Option<&'static Self> {
        presets().iter().find(|preset| preset.hosts.contains(pattern))
    }

    /// Returns the year and month in which the presets were last compared with their sources, as `2026-11`.
    pub fn checked() -> &'static str {
        &DATA.checked
    }
}

/// Returns all presets.
pub fn presets() -> &'static [Preset] {
    &DATA.presets
}

/// Returns the variables by which programs find a proxy at `127.0.0.1:<port>`. `present` returns the
/// value that a variable has already: options of Java virtual machines are appended to it.
pub fn proxy_environment(port: u16, present: impl Fn(&str) -> Option<String>) -> BTreeMap<String, String> {
    let url = format!("http://127.0.0.1:{port}");
    let filled = |text: &str| text.replace("{url}", &url).replace("{port}", &port.to_string());
    let own = DATA.presets.iter().flat_map(|preset| &preset.variables);
    let mut variables: BTreeMap<String, String> =
        DATA.variables.iter().chain(own).map(|(name, value)| (name.clone(), filled(value))).collect();
    for (name, options) in DATA.presets.iter().flat_map(|preset| &preset.options) {
        let options = filled(options);
        let value = match present(name).filter(|value| !value.trim().is_empty()) {
            Some(value) => format!("{value} {options}"),
            None => options,
        };
        variables.insert(name.clone(), value);
    }
    variables
}

#[cfg(test)]
mod tests {
    use super::super::{Destination, HostRules};
    use super::*;

    #[test]
    fn the_data_can_be_read() {
        let data: Data = toml::from_str(include_str!("presets.toml")).unwrap();
        assert!(regex::Regex::new(r"^20\d\d-\d\d$").unwrap().is_match(&data.checked));
        let names: Vec<&str> = presets().iter().map(|preset| preset.name.as_str()).collect();
        for name in
            "cargo npm pnpm yarn pip uv poetry go gradle maven gem composer nuget github gitlab bitbucket \
                     codeberg"
                .split_whitespace()
        {
            assert_eq!(names.iter().filter(|other| **other == name).count(), 1, "{name}");
        }
        for preset in presets() {
            assert!(!preset.hosts.is_empty() && preset.source.starts_with("https://"), "{}", preset.name);
            for host in &preset.hosts {
                let text = host.to_string();
                assert!(!text.contains('*') && !text.starts_with("any") && text.contains(':'), "{text}");
            }
        }
    }

    #[test]
    fn a_preset_opens_its_hosts() {
        let rules = HostRules::default().allow_public(&Preset::named("cargo").unwrap().hosts);
        let check = |text| rules.check(&Destination::parse(text, None).unwrap()).is_ok();
        assert!(check("static.crates.io:443") && !check("static.crates.io:80") && !check("pypi.org:443"));
        assert_eq!(Preset::named("nothing"), None);
    }

    #[test]
    fn programs_find_the_proxy() {
        let variables = proxy_environment(4321, |_| None);
        for name in "HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy CARGO_HTTP_PROXY \
                     YARN_HTTPS_PROXY"
            .split_whitespace()
        {
            assert_eq!(variables[name], "http://127.0.0.1:4321", "{name}");
        }
        assert_eq!(
            (variables["NO_PROXY"].as_str(), variables["NODE_USE_ENV_PROXY"].as_str()),
            ("localhost,127.0.0.1,::1,0.0.0.0,::,127.0.0.0/8", "1")
        );
        assert!(!variables.contains_key("YARN_NO_PROXY"));
        assert!(variables["MAVEN_OPTS"].contains("-Dhttps.proxyPort=4321"));
        assert!(variables.values().all(|value| !value.contains('{')));
    }

    #[test]
    fn options_that_are_there_stay() {
        let present = |name: &str| (name == "MAVEN_OPTS").then(|| "-Xmx2g".to_owned());
        let variables = proxy_environment(1, present);
        assert!(variables["MAVEN_OPTS"].starts_with("-Xmx2g -Dhttp.proxyHost=127.0.0.1 "));
        assert!(variables["GRADLE_OPTS"].starts_with("-Dhttp.proxyHost=127.0.0.1 "));
    }
}

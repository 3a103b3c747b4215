//! The directories in a home directory where build tools keep what they download and install.
//!
//! A command sees them as they are and writes to private layers over them, so that nothing is downloaded again and
//! nothing that the user starts later was written by a command. Where there is no such directory, or the machine has no
//! layers, variables lead the tools to a private directory.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A variable that leads a tool to a private directory: its name, what its value begins with, and the place below that
/// directory.
pub(super) type Redirection = (&'static str, &'static str, &'static str);

/// A directory of a build tool.
struct ToolHome {
    /// Its directories below the home directory: all of these that there are.
    places: &'static [&'static str],
    /// The variable by which the user may have put it elsewhere, and where it is below that.
    variable: Option<(&'static str, &'static str)>,
    /// Variables for where there is none.
    instead: &'static [Redirection],
}

const fn home(
    places: &'static [&'static str],
    variable: Option<(&'static str, &'static str)>,
    instead: &'static [Redirection],
) -> ToolHome {
    ToolHome { places, variable, instead }
}

impl ToolHome {
    /// Returns the directory that the user has set by its variable.
    fn named_by(&self, lookup: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        let (variable, below) = self.variable?;
        let place = lookup(variable).map(PathBuf::from).filter(|path| path.is_absolute())?;
        Some(place.join(below))
    }

    /// Returns its directories without that.
    fn below(&self, home: Option<&Path>) -> Vec<PathBuf> {
        home.into_iter().flat_map(|home| self.places.iter().map(|place| home.join(place))).collect()
    }
}

/// In the order of their documentation: the tool's own variable first, then the default below the home directory.
const TOOL_HOMES: &[ToolHome] = &[
    home(&[".cache"], Some(("XDG_CACHE_HOME", "")), &[("XDG_CACHE_HOME", "", "")]),
    home(&[".cargo"], Some(("CARGO_HOME", "")), &[("CARGO_HOME", "", "cargo")]),
    home(&[".rustup"], Some(("RUSTUP_HOME", "")), &[]),
    home(&[".npm"], Some(("npm_config_cache", "")), &[("npm_config_cache", "", "npm")]),
    home(&[".yarn/berry"], Some(("YARN_GLOBAL_FOLDER", "")), &[("YARN_GLOBAL_FOLDER", "", "yarn-berry")]),
    home(&[], Some(("YARN_CACHE_FOLDER", "")), &[("YARN_CACHE_FOLDER", "", "yarn")]),
    home(&[".local/share/pnpm"], Some(("PNPM_HOME", "")), &[("PNPM_HOME", "", "pnpm")]),
    home(&[".bun"], Some(("BUN_INSTALL", "")), &[("BUN_INSTALL_CACHE_DIR", "", "bun")]),
    home(&[], Some(("DENO_DIR", "")), &[("DENO_DIR", "", "deno")]),
    home(&[".nvm/versions"], Some(("NVM_DIR", "versions")), &[]),
    home(&[".local/share/fnm", ".fnm"], Some(("FNM_DIR", "")), &[]),
    home(&[".volta"], Some(("VOLTA_HOME", "")), &[]),
    home(&[], Some(("PIP_CACHE_DIR", "")), &[("PIP_CACHE_DIR", "", "pip")]),
    home(&[], Some(("UV_CACHE_DIR", "")), &[("UV_CACHE_DIR", "", "uv")]),
    home(&[], Some(("POETRY_CACHE_DIR", "")), &[("POETRY_CACHE_DIR", "", "poetry")]),
    home(
        &[".local/share/uv"],
        None,
        &[("UV_PYTHON_INSTALL_DIR", "", "uv-python"), ("UV_TOOL_DIR", "", "uv-tools")],
    ),
    home(&[".local/lib"], Some(("PYTHONUSERBASE", "")), &[("PYTHONUSERBASE", "", "python-user")]),
    home(&[".local/bin", ".local/pipx", ".local/share/virtualenvs"], None, &[]),
    home(&[".pyenv/versions"], Some(("PYENV_ROOT", "versions")), &[]),
    home(&[".pyenv/shims"], Some(("PYENV_ROOT", "shims")), &[]),
    home(&[".conda", "miniconda3", "anaconda3", "miniforge3", "mambaforge"], None, &[]),
    home(&["micromamba"], Some(("MAMBA_ROOT_PREFIX", "")), &[]),
    home(&["go/pkg"], Some(("GOPATH", "pkg")), &[("GOPATH", "", "go")]),
    home(&["go/bin"], Some(("GOPATH", "bin")), &[]),
    home(&[], Some(("GOCACHE", "")), &[("GOCACHE", "", "go-build")]),
    home(&[], Some(("GOMODCACHE", "")), &[("GOMODCACHE", "", "go-mod")]),
    home(&[], Some(("CCACHE_DIR", "")), &[("CCACHE_DIR", "", "ccache")]),
    home(&[], Some(("SCCACHE_DIR", "")), &[("SCCACHE_DIR", "", "sccache")]),
    home(&[".gradle"], Some(("GRADLE_USER_HOME", "")), &[("GRADLE_USER_HOME", "", "gradle")]),
    // Maven before 3.9 doesn't know the first of these.
    home(
        &[".m2"],
        None,
        &[("MAVEN_ARGS", "-Dmaven.repo.local=", "maven"), ("MAVEN_OPTS", "-Dmaven.repo.local=", "maven")],
    ),
    home(&[".ivy2", ".sbt", ".android"], None, &[]),
    home(&[".nuget"], None, &[("NUGET_PACKAGES", "", "nuget")]),
    home(&[".local/share/NuGet"], None, &[("NUGET_HTTP_CACHE_PATH", "", "nuget-http")]),
    home(&[".dotnet"], Some(("DOTNET_CLI_HOME", ".dotnet")), &[("DOTNET_CLI_HOME", "", "dotnet")]),
    home(
        &[".config/composer", ".composer"],
        Some(("COMPOSER_HOME", "")),
        &[("COMPOSER_HOME", "", "composer")],
    ),
    home(&[".gem", ".local/share/gem"], Some(("GEM_HOME", "")), &[("GEM_SPEC_CACHE", "", "gem-specs")]),
    home(&[".bundle"], Some(("BUNDLE_USER_HOME", "")), &[("BUNDLE_USER_HOME", "", "bundle")]),
    home(&[".rbenv/versions"], Some(("RBENV_ROOT", "versions")), &[]),
    home(&[".rbenv/shims"], Some(("RBENV_ROOT", "shims")), &[]),
    home(&[".pub-cache"], Some(("PUB_CACHE", "")), &[("PUB_CACHE", "", "pub")]),
    home(&[".mix"], Some(("MIX_HOME", "")), &[("MIX_HOME", "", "mix")]),
    home(&[".hex"], Some(("HEX_HOME", "")), &[("HEX_HOME", "", "hex")]),
    home(&[".stack"], Some(("STACK_ROOT", "")), &[("STACK_ROOT", "", "stack")]),
    home(&[".cabal"], Some(("CABAL_DIR", "")), &[("CABAL_DIR", "", "cabal")]),
    home(&[".julia"], None, &[]),
    // Managers of toolchains of any language.
    home(&[".local/share/mise"], Some(("MISE_DATA_DIR", "")), &[]),
    home(&[".asdf"], Some(("ASDF_DATA_DIR", "")), &[]),
    home(&[".sdkman"], Some(("SDKMAN_DIR", "")), &[]),
];

/// The cache of all programs of a user.
const SHARED_CACHE: (&str, &str) = ("XDG_CACHE_HOME", ".cache");
/// Caches of build tools in there.
const SHARED_CACHES: &[&str] = &[
    "black",
    "ccache",
    "composer",
    "conan",
    "coursier",
    "deno",
    "electron-builder",
    "esbuild",
    "go-build",
    "golangci-lint",
    "huggingface",
    "jest",
    "matplotlib",
    "meson",
    "mypy",
    "node-gyp",
    "npm",
    "pip",
    "pnpm",
    "pylint",
    "pypoetry",
    "rebar3",
    "ruff",
    "sccache",
    "swiftpm",
    "torch",
    "typescript",
    "uv",
    "vcpkg",
    "yarn",
    "zig",
];
/// Programs that build tools have fetched, in there.
const SHARED_PROGRAMS: &[&str] =
    &["Cypress", "bazel", "bazelisk", "electron", "ms-playwright", "node", "prisma", "puppeteer"];

/// Caches of downloads and builds: a place below the home directory, the variable by which the user may have put it
/// elsewhere, and where it is below that. Programs that a user starts are in none of them, nor what other programs are
/// configured by.
const CACHES: &[(&str, &str, &str)] = &[
    (".cargo/registry", "CARGO_HOME", "registry"),
    (".cargo/git", "CARGO_HOME", "git"),
    (".npm/_cacache", "npm_config_cache", "_cacache"),
    (".yarn/berry/cache", "YARN_GLOBAL_FOLDER", "cache"),
    ("", "YARN_CACHE_FOLDER", ""),
    (".local/share/pnpm/store", "PNPM_HOME", "store"),
    (".bun/install/cache", "BUN_INSTALL", "install/cache"),
    ("", "DENO_DIR", ""),
    ("", "PIP_CACHE_DIR", ""),
    ("", "UV_CACHE_DIR", ""),
    ("", "POETRY_CACHE_DIR", ""),
    ("go/pkg/mod", "GOPATH", "pkg/mod"),
    ("", "GOCACHE", ""),
    ("", "GOMODCACHE", ""),
    ("", "CCACHE_DIR", ""),
    ("", "SCCACHE_DIR", ""),
    (".gradle/caches", "GRADLE_USER_HOME", "caches"),
    (".m2/repository", "", ""),
    (".ivy2/cache", "", ""),
    (".nuget/packages", "NUGET_PACKAGES", ""),
    (".local/share/NuGet", "", ""),
    (".composer/cache", "COMPOSER_CACHE_DIR", ""),
    (".bundle/cache", "BUNDLE_USER_HOME", "cache"),
    (".pub-cache/hosted", "PUB_CACHE", "hosted"),
    (".hex/packages", "HEX_HOME", "packages"),
    (".stack/pantry", "STACK_ROOT", "pantry"),
    (".cabal/packages", "CABAL_DIR", "packages"),
    (".julia/packages", "", ""),
    (".julia/compiled", "", ""),
];

/// Returns the real paths of the caches that exist, of which a user may be asked to open one for writing.
pub(crate) fn caches(home: &Path, lookup: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let named = |variable: &str, below: &str| {
        let place = lookup(variable).map(PathBuf::from).filter(|path| path.is_absolute())?;
        Some(place.join(below))
    };
    let own = CACHES.iter().flat_map(|(place, variable, below)| {
        let default = (!place.is_empty()).then(|| home.join(place));
        [default, named(variable, below)].into_iter().flatten()
    });
    let shared = in_shared_cache(home, &lookup, SHARED_CACHES);
    own.chain(shared).filter_map(|place| place.canonicalize().ok()).collect()
}

fn in_shared_cache(
    home: &Path,
    lookup: impl Fn(&str) -> Option<OsString>,
    names: &'static [&'static str],
) -> impl Iterator<Item = PathBuf> {
    let (variable, default) = SHARED_CACHE;
    let named = lookup(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let shared = named.unwrap_or_else(|| home.join(default));
    names.iter().map(move |name| shared.join(name))
}

/// Returns the real paths of the directories of build tools that exist: sources of dependencies, toolchains and caches, but
/// not what other programs have cached.
pub(super) fn tool_directories(home: &Path, lookup: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let (shared, _) = SHARED_CACHE;
    let tools = TOOL_HOMES.iter().filter(|tool| tool.variable.is_none_or(|(name, _)| name != shared));
    let own = tools.flat_map(|tool| {
        let named = tool.named_by(&lookup);
        named.map_or_else(|| tool.below(Some(home)), |place| vec![place])
    });
    let shared = [SHARED_CACHES, SHARED_PROGRAMS].map(|names| in_shared_cache(home, &lookup, names));
    own.chain(shared.into_iter().flatten()).filter_map(|place| place.canonicalize().ok()).collect()
}

/// Caches that tools keep in the project, where a command may not be allowed to write.
const IN_PROJECTS: &[(&str, &str)] = &[("RUFF_CACHE_DIR", "ruff"), ("MYPY_CACHE_DIR", "mypy")];

/// Directories of the build tools of one command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ToolHomes {
    /// Directories to be shown through layers. Real paths, none within another.
    pub(super) layered: Vec<PathBuf>,
    /// Variables that lead tools elsewhere.
    pub(super) redirected: Vec<Redirection>,
}

/// Returns the variables that lead tools below a private directory.
pub(super) fn variables(redirected: &[Redirection], private: &Path) -> Vec<(&'static str, OsString)> {
    let led = |(variable, begin, below): &Redirection| {
        let mut value = OsString::from(begin);
        value.push(private.join(below).components().collect::<PathBuf>());
        (*variable, value)
    };
    redirected.iter().map(led).collect()
}

impl ToolHomes {
    /// Finds them. `lookup` reads a variable of the user's environment; `writable` is what the command may write anyway;
    /// `can_be_layered` says whether a directory can be shown through a layer.
    pub(super) fn find(
        home: Option<&Path>,
        lookup: impl Fn(&str) -> Option<OsString>,
        writable: &[PathBuf],
        can_be_layered: impl Fn(&Path) -> bool,
    ) -> Self {
        let mut homes = Self::default();
        for tool in TOOL_HOMES {
            let named = tool.named_by(&lookup);
            let is_named = named.is_some();
            let places = named.map_or_else(|| tool.below(home), |place| vec![place]);
            let is_writable = |place: &PathBuf| writable.iter().any(|writable| place.starts_with(writable));
            let there =
                places.iter().filter_map(|place| place.canonicalize().ok().filter(|place| place.is_dir()));
            let (open, closed): (Vec<PathBuf>, Vec<PathBuf>) = there.partition(is_writable);
            let is_there = !open.is_empty() || !closed.is_empty();
            let layered: Vec<PathBuf> =
                closed.iter().filter(|place| can_be_layered(place)).cloned().collect();
            let works = if is_there {
                closed.is_empty() || !layered.is_empty()
            } else {
                // The tool has no place of its own, or makes it where it may.
                places.is_empty() || (is_named && places.iter().any(is_writable))
            };
            homes.layered.extend(layered);
            if !works {
                homes.redirected.extend(tool.instead);
            }
        }
        let in_projects = IN_PROJECTS.iter().map(|(variable, below)| (*variable, "", *below));
        homes.redirected.extend(in_projects);
        let all = homes.layered.clone();
        homes.layered.retain(|place| !all.iter().any(|other| place.starts_with(other) && place != other));
        homes.layered.sort();
        homes.layered.dedup();
        homes
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct Fixture(tempfile::TempDir);

    impl Fixture {
        fn new(directories: &[&str]) -> Self {
            let fixture = Self(tempfile::tempdir().unwrap());
            directories.iter().for_each(|name| fs::create_dir_all(fixture.at(name)).unwrap());
            fixture
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(name)
        }

        fn find(
            &self,
            variables: &[(&str, &str)],
            writable: &[&str],
            layers: bool,
        ) -> (Vec<String>, Vec<String>) {
            let lookup = |wanted: &str| {
                let (_, place) = variables.iter().find(|(name, _)| *name == wanted)?;
                Some(self.at(place).into_os_string())
            };
            let writable: Vec<PathBuf> = writable.iter().map(|name| self.at(name)).collect();
            let home = self.at("home");
            let found = ToolHomes::find(Some(&home), lookup, &writable, |_| layers);
            let relative = |path: &PathBuf| path.strip_prefix(self.at("")).unwrap().display().to_string();
            let variable = |(name, value): &(&str, OsString)| format!("{name}={}", value.to_string_lossy());
            let led = super::variables(&found.redirected, Path::new("/p"));
            (found.layered.iter().map(relative).collect(), led.iter().map(variable).collect())
        }
    }

    #[test]
    fn what_is_there_gets_a_layer_and_variables_stand_for_the_rest() {
        let fixture = Fixture::new(&["home/.cache", "home/.cargo/registry", "home/go/bin", "mod"]);
        let (layered, variables) =
            fixture.find(&[("GOMODCACHE", "mod"), ("UV_CACHE_DIR", "absent")], &[], true);
        assert_eq!(layered, ["home/.cache", "home/.cargo", "home/go/bin", "mod"]);
        let has = |variable: &str| variables.iter().any(|found| found == variable);
        assert!(has("GOPATH=/p/go") && has("npm_config_cache=/p/npm") && has("UV_CACHE_DIR=/p/uv"));
        assert!(has("MAVEN_ARGS=-Dmaven.repo.local=/p/maven") && has("RUFF_CACHE_DIR=/p/ruff"));
        assert!(!variables.iter().any(|found| found.starts_with("CARGO_HOME") || found.starts_with("PIP_")));
    }

    #[test]
    fn a_user_is_asked_to_open_caches_alone() {
        let fixture = Fixture::new(&[
            "home/.cache/pip",
            "home/.cache/nvim",
            "home/.cache/ms-playwright",
            "home/.cargo/registry",
            "home/.rustup/toolchains",
            "moved/registry",
            "mod",
        ]);
        let lookup = |name: &str| match name {
            "CARGO_HOME" => Some(fixture.at("moved").into_os_string()),
            "GOMODCACHE" => Some(fixture.at("mod").into_os_string()),
            _ => None,
        };
        let relative = |paths: Vec<PathBuf>| -> Vec<String> {
            let name = |path: &PathBuf| path.strip_prefix(fixture.at("")).unwrap().display().to_string();
            let mut names: Vec<String> = paths.iter().map(name).collect();
            names.sort();
            names
        };
        let home = fixture.at("home");
        let expected = ["home/.cache/pip", "home/.cargo/registry", "mod", "moved/registry"];
        assert_eq!(relative(caches(&home, lookup)), expected);
        let expected = ["home/.cache/ms-playwright", "home/.cache/pip", "home/.rustup", "mod", "moved"];
        assert_eq!(relative(tool_directories(&home, lookup)), expected);
    }

    #[test]
    fn without_layers_variables_lead_elsewhere() {
        let fixture = Fixture::new(&["home/.cache", "home/.cargo"]);
        let (layered, variables) = fixture.find(&[], &[], false);
        assert!(layered.is_empty());
        assert!(
            ["XDG_CACHE_HOME=/p", "CARGO_HOME=/p/cargo"]
                .iter()
                .all(|wanted| variables.iter().any(|found| found == wanted))
        );
    }

    #[test]
    fn what_may_be_written_stays_as_it_is() {
        let fixture = Fixture::new(&["home/.cache/pip", "home/.cargo", "w/cargo"]);
        let named =
            [("CARGO_HOME", "w/cargo"), ("PIP_CACHE_DIR", "home/.cache/pip"), ("UV_CACHE_DIR", "w/uv")];
        let (layered, variables) = fixture.find(&named, &["w"], true);
        assert_eq!(layered, ["home/.cache"], "and none within another");
        assert!(
            !variables.iter().any(|found| found.starts_with("CARGO_HOME") || found.starts_with("UV_CACHE"))
        );
    }
}

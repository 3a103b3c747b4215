//! A name that is no profile's, and what its user may write instead.

use std::fmt;

use super::{Profile, Settings};
use roo_text::misspelling;
use roo_text::render::exact_line;

/// No profile has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct UnknownProfile {
    /// Requested name.
    pub name: String,
    /// Names that there are.
    pub known: Vec<String>,
    /// True if it is the one that requests have which choose none.
    pub is_default: bool,
}

impl fmt::Display for UnknownProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = exact_line(&self.name);
        match name.is_empty() {
            true => f.write_str("no model profile is named")?,
            false => write!(f, "there is no model profile '{name}'")?,
        }
        let known = exact_line(&self.known.join(", "));
        match (&*self.known, misspelling::meant(&self.name, self.known.iter().map(String::as_str))) {
            ([], _) if name.is_empty() => {
                f.write_str("; run `roo-lsp setup`, which defines one and names it")
            }
            ([], _) => write!(
                f,
                "; run `roo-lsp setup`, or define profiles.{name} in config.yaml or in initializationOptions"
            ),
            (_, Some(meant)) => {
                write!(f, "; did you mean '{}'? The profiles are: {known}", exact_line(meant))
            }
            ([first, ..], None) if self.is_default => {
                write!(f, "; the profiles are: {known}; choose one with `profile: {}`", exact_line(first))
            }
            _ => write!(f, "; the profiles are: {known}"),
        }
    }
}

impl Settings {
    /// The profile of this name.
    ///
    /// # Errors
    /// [`UnknownProfile`] with the names that there are.
    pub fn find_profile(&self, name: &str) -> Result<&Profile, UnknownProfile> {
        self.profiles.get(name).ok_or_else(|| UnknownProfile {
            name: name.to_owned(),
            known: self.profiles.keys().cloned().collect(),
            is_default: name == self.profile,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Provider;

    fn told(names: &[&str], default: &str, wanted: &str) -> String {
        let provider = Provider::find("scripted").unwrap();
        let profiles = names.iter().map(|name| ((*name).to_owned(), Profile::new(provider)));
        let settings =
            Settings { profiles: profiles.collect(), profile: default.to_owned(), ..Settings::default() };
        settings.find_profile(wanted).unwrap_err().to_string()
    }

    #[test]
    fn the_profiles_that_there_are_are_told() {
        for (names, default, wanted, expected) in [
            (
                &[][..],
                "default",
                "default",
                "there is no model profile 'default'; run `roo-lsp setup`, or define profiles.default in config.yaml or in \
                 initializationOptions",
            ),
            (
                &["mine"],
                "default",
                "default",
                "there is no model profile 'default'; the profiles are: mine; choose one with `profile: mine`",
            ),
            (
                &["default", "fast"],
                "deflaut",
                "deflaut",
                "there is no model profile 'deflaut'; did you mean 'default'? The profiles are: default, fast",
            ),
            (&[], "", "", "no model profile is named; run `roo-lsp setup`, which defines one and names it"),
            (
                &["mine"],
                "",
                "",
                "no model profile is named; the profiles are: mine; choose one with `profile: mine`",
            ),
            (&["a", "b"], "a", "else", "there is no model profile 'else'; the profiles are: a, b"),
        ] {
            assert_eq!(told(names, default, wanted), expected);
        }
    }
}

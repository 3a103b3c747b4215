//! The modes that there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::built_in::{BUILT_IN, ENTRY};
use super::mode::Mode;
use crate::config::ModeSettings;
use roo_text::misspelling;

/// Stands for every mode in the user's settings.
const EVERY_MODE: &str = "*";

/// The modes that there are, each slug once.
#[derive(Clone, Debug)]
pub struct Modes(Vec<Arc<Mode>>);

impl Modes {
    /// The built-in modes alone.
    pub fn built_in() -> Self {
        Self(BUILT_IN.clone())
    }

    /// These modes with others over them: one of a slug that is there takes its place, a new one comes
    /// at the end.
    #[must_use]
    pub fn with(mut self, others: impl IntoIterator<Item = Mode>) -> Self {
        for mode in others {
            match self.0.iter_mut().find(|known| known.slug == mode.slug) {
                Some(known) => *known = Arc::new(mode),
                None => self.0.push(Arc::new(mode)),
            }
        }
        self
    }

    /// These modes, with what the user's settings let them delegate to beyond what is theirs.
    #[must_use]
    pub fn delegating_by(mut self, settings: &BTreeMap<String, ModeSettings>) -> Self {
        let slugs: Vec<String> = self.0.iter().map(|mode| mode.slug.clone()).collect();
        for mode in &mut self.0 {
            let Some(more) = settings.get(&mode.slug).map(|settings| &settings.can_delegate_to) else {
                continue;
            };
            let all = more.iter().any(|slug| slug == EVERY_MODE);
            add_targets(mode, slugs.iter().filter(|slug| all || more.contains(*slug)));
        }
        self
    }

    /// These modes, where each of the named ones may delegate to the others of them besides.
    #[must_use]
    pub fn delegating_among(mut self, team: &[String]) -> Self {
        for mode in self.0.iter_mut().filter(|mode| team.contains(&mode.slug)) {
            add_targets(mode, team.iter());
        }
        self
    }

    /// The mode of this slug.
    ///
    /// # Errors
    /// [`UnknownMode`] with the slugs that there are.
    pub fn find(&self, slug: &str) -> Result<&Arc<Mode>, UnknownMode> {
        self.get(slug).ok_or_else(|| UnknownMode {
            slug: slug.to_owned(),
            known: self.0.iter().map(|mode| mode.slug.clone()).collect(),
        })
    }

    /// The mode of this slug; none when there is none.
    pub fn get(&self, slug: &str) -> Option<&Arc<Mode>> {
        self.0.iter().find(|mode| mode.slug == slug)
    }

    /// All of them, the built-in ones first.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Mode>> {
        self.0.iter()
    }
}

/// Lets a mode delegate to further ones.
fn add_targets<'a>(mode: &mut Arc<Mode>, targets: impl Iterator<Item = &'a String>) {
    // To hand work to itself, or to the mode that everything began with, leads nowhere.
    let others = targets.filter(|slug| **slug != mode.slug && *slug != ENTRY);
    let further: Vec<String> = others.filter(|slug| !mode.can_delegate_to.contains(*slug)).cloned().collect();
    if !further.is_empty() {
        Arc::make_mut(mode).can_delegate_to.extend(further);
    }
}

/// No mode has this slug.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("There is no mode '{slug}'{} The modes are {}.", meant(slug, known), known.join(", "))]
pub struct UnknownMode {
    /// Requested slug.
    pub slug: String,
    /// Known slugs.
    pub known: Vec<String>,
}

/// The end of a sentence about a slug that is not known.
fn meant(slug: &str, known: &[String]) -> String {
    let meant = misspelling::meant(slug, known.iter().map(String::as_str));
    meant.map_or_else(|| ".".to_owned(), |meant| format!("; did you mean '{meant}'?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_settings_let_modes_delegate_further() {
        let to = |slugs: &[&str]| ModeSettings {
            can_delegate_to: slugs.iter().map(|&slug| slug.to_owned()).collect(),
            ..ModeSettings::default()
        };
        let settings =
            [("orchestrator".to_owned(), to(&["ask", "poet", "code"])), ("architect".to_owned(), to(&["*"]))];
        let modes = Modes::built_in().delegating_by(&settings.into());
        let of = |slug: &str| modes.find(slug).unwrap().can_delegate_to.join(" ");
        assert_eq!(of("orchestrator"), "architect code debug ask");
        assert_eq!(of("architect"), "orchestrator code debug ask");
        assert_eq!(of("code"), "debug");
    }

    #[test]
    fn the_modes_of_a_team_may_delegate_to_each_other() {
        let team = ["new-task", "ask", "code"].map(str::to_owned);
        let modes = Modes::built_in().delegating_among(&team);
        let of = |slug: &str| modes.find(slug).unwrap().can_delegate_to.join(" ");
        assert_eq!(
            (of("code"), of("ask"), of("new-task")),
            ("debug ask".into(), "code".into(), "orchestrator ask code".into())
        );
        assert_eq!(of("architect"), "", "who doesn't belong to it stays as it is");
    }

    #[test]
    fn an_unknown_slug_lists_the_known_ones() {
        assert_eq!(
            Modes::built_in().find("coder").unwrap_err().to_string(),
            "There is no mode 'coder'; did you mean 'code'? The modes are new-task, orchestrator, architect, code, debug, ask."
        );
    }
}

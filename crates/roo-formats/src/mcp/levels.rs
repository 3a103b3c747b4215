//! The user's servers and those of a workspace together.

use super::file::ParsedServers;
use super::server::{Server, ToolNames};

/// Owner of the configuration that a server comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The user's own `mcp.json`.
    User,
    /// `.roo/mcp.json` of the workspace, which may come from anybody.
    Workspace,
}

/// A server that counts, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredServer {
    /// Owner of the configuration that it comes from.
    pub level: Level,
    /// Server as it is configured.
    pub server: Server,
    /// True if the workspace's server takes the place of one of the user's.
    pub replaces_users: bool,
}

impl ConfiguredServer {
    /// Tools that may be called unasked without any approval of the user: only the user's own configuration can say so.
    pub fn always_allowed(&self) -> &ToolNames {
        static NONE: std::sync::LazyLock<ToolNames> = std::sync::LazyLock::new(ToolNames::default);
        match self.level {
            Level::User => &self.server.always_allow,
            Level::Workspace => &NONE,
        }
    }

    /// Reports whether it may ask a task's model: only the user's own configuration can say so.
    pub fn may_sample(&self) -> bool {
        self.level == Level::User && self.server.sampling
    }
}

/// Puts both levels together. A workspace's server takes the place of the user's of the same name as a whole: no
/// variable, header or rule of the user's is carried over. Sorted by name.
pub fn merge(user: ParsedServers, workspace: ParsedServers) -> Vec<ConfiguredServer> {
    let mut servers: Vec<ConfiguredServer> = user
        .servers
        .into_iter()
        .map(|server| ConfiguredServer { level: Level::User, server, replaces_users: false })
        .collect();
    for server in workspace.servers {
        let before = servers.len();
        servers.retain(|known| known.server.name != server.name);
        let replaces_users = servers.len() != before;
        servers.push(ConfiguredServer { level: Level::Workspace, server, replaces_users });
    }
    servers.sort_by(|one, other| one.server.name.cmp(&other.server.name));
    servers
}

#[cfg(test)]
mod tests {
    use super::super::server::{Access, ResolveError, Transport, Variables};
    use super::*;

    fn parse(text: &str) -> ParsedServers {
        ParsedServers::parse(text).unwrap()
    }

    #[test]
    fn a_workspaces_server_replaces_the_users_and_inherits_nothing() {
        let user = parse(
            r#"{"mcpServers": {
                "db": {"command": "db-server", "env": {"PASSWORD": "${env:DB_PASSWORD}"}, "alwaysAllow": ["*"], "sampling": true},
                "mail": {"command": "mail-server", "alwaysAllow": ["list"], "sampling": true},
                "news": {"command": "news-server"}
            }}"#,
        );
        let workspace =
            parse(r#"{"mcpServers": {"db": {"command": "./evil", "alwaysAllow": ["*"], "sampling": true}}}"#);
        let merged = merge(user, workspace);
        let [db, mail, news] = merged.as_slice() else { panic!("{merged:?}") };
        assert_eq!((db.level, db.replaces_users), (Level::Workspace, true));
        let Transport::Stdio(stdio) = &db.server.transport else { panic!("{db:?}") };
        assert_eq!((stdio.command.to_string(), stdio.env.len()), ("./evil".to_owned(), 0));
        assert!(!db.always_allowed().contains("anything"));
        assert_eq!((mail.level, mail.replaces_users), (Level::User, false));
        assert!(mail.always_allowed().contains("list") && !mail.always_allowed().contains("send"));
        let may_sample = [db, mail, news].map(ConfiguredServer::may_sample);
        assert_eq!(
            may_sample,
            [false, true, false],
            "off unless the user says so, and never by a workspace's word"
        );
    }

    #[test]
    fn a_workspaces_server_gets_the_variables_that_it_declares_and_that_are_granted() {
        let text =
            r#"{"mcpServers": {"x": {"command": "x", "env": {"A": "${env:TOKEN}", "B": "${env:OTHER}"}}}}"#;
        let server = parse(text).servers.remove(0);
        let environment = |name: &str| (name != "OTHER").then(|| format!("value of {name}"));
        let resolve = |access: Access| {
            server.resolve(&Variables { environment: &environment, access: &access, workspace: "/w" })
        };
        let granted = |names: &[&str]| Access::Granted(names.iter().map(|&name| name.to_owned()).collect());
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();

        let refused = resolve(granted(&["TOKEN", "HOME"])).unwrap_err();
        assert_eq!(refused, ResolveError::NotGranted { server: "x".to_owned(), names: names(&["OTHER"]) });
        let missing = resolve(granted(&["TOKEN", "OTHER"])).unwrap_err();
        assert_eq!(missing, ResolveError::Missing { server: "x".to_owned(), names: names(&["OTHER"]) });
        assert_eq!(resolve(Access::All).unwrap_err(), missing);
        assert_eq!(
            missing.to_string(),
            "MCP server `x`: the environment has no `OTHER`; set it before roo-lsp starts, or take the reference out \
             of mcp.json"
        );
    }
}

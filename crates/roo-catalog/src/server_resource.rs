//! Resources of servers, as a model is told of them.

/// The resources of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerResources {
    /// Name of the server.
    pub server: String,
    /// Its resources, then its patterns of resources, each in the server's order.
    pub listed: Vec<ListedResource>,
    /// Number of those that were left out because of their size.
    pub left_out: usize,
}

/// A resource that a server offers. All of it is the server's word, with name and description cut to one line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedResource {
    /// Its address; with placeholders (RFC 6570) in a pattern.
    pub uri: String,
    pub name: String,
    pub description: Option<String>,
    /// True if it is a pattern of resources.
    pub is_pattern: bool,
}

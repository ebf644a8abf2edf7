//! How Redis is reached, as the configuration says it. Opens nothing, and lets no secret be shown.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use redis::{ConnectionAddr, IntoConnectionInfo, ProtocolVersion};

use crate::tls::client::Client;

/// How to reach Redis, and what is asked of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Which servers there are.
    pub servers: Servers,
    /// How the servers that keep records let this gateway in.
    pub access: Access,
    /// What every key begins with.
    pub key_prefix: String,
    /// Whether a `maxmemory-policy` other than `noeviction` is accepted.
    pub allow_eviction: bool,
    /// How many connections each worker has to a server.
    pub connections: usize,
    /// What must have a claim before it counts; none: the primary alone.
    pub wait: Option<Wait>,
}

/// Which servers there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Servers {
    /// One.
    One(Node),
    /// The one that sentinels call the primary.
    Sentinel(Box<Sentinel>),
    /// The primaries of a cluster; some of its nodes to ask for all of them.
    Cluster(Vec<Node>),
}

/// Who says which server is the primary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentinel {
    /// What they call the primary and its replicas.
    pub master: String,
    /// Where they listen.
    pub nodes: Vec<Node>,
    /// How they let this gateway in.
    pub access: Access,
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node {
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// How servers let this gateway in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// The user; none: the default one.
    pub username: Option<String>,
    /// The password.
    pub password: Option<Password>,
    /// The database's number.
    pub database: u32,
    /// What is spoken.
    pub protocol: Protocol,
    /// What is agreed before anything is said; none: plain.
    pub tls: Option<Client>,
}

/// The versions of what Redis speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2, which every server and every proxy knows.
    #[default]
    Resp2,
    /// RESP3.
    Resp3,
}

/// A password. It is shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub enum Password {
    /// The password itself.
    Text(String),
    /// The file whose first line it is, read for every connection: it may change.
    File(PathBuf),
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("***"),
            Self::File(path) => path.fmt(f),
        }
    }
}

/// How many replicas must have a claim, and how long they may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// How many.
    pub replicas: u32,
    /// How long.
    pub timeout: Duration,
}

impl Settings {
    /// Settings of which the servers alone are said.
    pub fn new(servers: Servers, access: Access) -> Self {
        Self { servers, access, key_prefix: "og".to_owned(), allow_eviction: false, connections: 1, wait: None }
    }

    /// One server, by its URL alone.
    ///
    /// # Errors
    /// When the URL is none.
    pub fn at(url: &str) -> Result<Self, BadUrl> {
        let address = Address::parse(url)?;
        Ok(Self::new(Servers::One(address.node), address.access))
    }
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(node) => node.fmt(f),
            Self::Sentinel(sentinel) => f.write_str(&sentinel.master),
            Self::Cluster(nodes) => write!(f, "the cluster of {}", listed(nodes)),
        }
    }
}

/// Addresses in a row.
pub(super) fn listed(nodes: &[Node]) -> String {
    nodes.iter().map(Node::to_string).collect::<Vec<_>>().join(", ")
}

/// What a URL says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Where the server listens.
    pub node: Node,
    /// User, password, database and protocol; TLS is not in it.
    pub access: Access,
    /// Whether TLS is wanted: `rediss://`.
    pub secure: bool,
}

/// Why a URL cannot be used. Does not repeat it: it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is no address of a Redis: write `redis://[user:password@]host:port/db`, or `rediss://` for TLS")]
pub struct BadUrl;

impl Address {
    /// Takes `redis://[user:password@]host:port/db` apart, or the same with `rediss://`.
    ///
    /// # Errors
    /// When it is something else.
    pub fn parse(url: &str) -> Result<Self, BadUrl> {
        let (scheme, rest) = url.split_once("://").ok_or(BadUrl)?;
        let secure = match scheme {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            _ => return Err(BadUrl),
        };
        // The client library takes TLS for its own matter; here it is ours.
        let info = format!("redis://{rest}").into_connection_info().map_err(|_| BadUrl)?;
        let ConnectionAddr::Tcp(host, port) = info.addr().clone() else { return Err(BadUrl) };
        let said = info.redis_settings();
        let access = Access {
            username: said.username().map(ToOwned::to_owned),
            password: said.password().map(|text| Password::Text(text.to_owned())),
            database: u32::try_from(said.db()).map_err(|_| BadUrl)?,
            protocol: if said.protocol() == ProtocolVersion::RESP3 { Protocol::Resp3 } else { Protocol::Resp2 },
            tls: None,
        };
        Ok(Self { node: Node { host, port }, access, secure })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_and_who() {
        let address = Address::parse("rediss://me:p%40ss@[::1]:6380/3?protocol=resp3").unwrap();
        assert_eq!((address.node.to_string().as_str(), address.secure), ("[::1]:6380", true));
        assert_eq!(address.access.username.as_deref(), Some("me"));
        assert_eq!(address.access.password, Some(Password::Text("p@ss".to_owned())));
        assert_eq!((address.access.database, address.access.protocol), (3, Protocol::Resp3));
        let plain = Address::parse("redis://db").unwrap();
        assert_eq!((plain.node.to_string().as_str(), plain.secure), ("db:6379", false));
        assert_eq!(plain.access, Access::default());
    }

    #[test]
    fn secrets_do_not_show() {
        for url in ["redis://user:s3cret@db:6379/2", "redis://:s3cret@db?protocol=resp3"] {
            let settings = Settings::at(url).unwrap();
            assert!(!format!("{settings:?} {}", settings.servers).contains("s3cret"));
        }
    }

    #[test]
    fn a_bad_url_is_refused_without_repeating_it() {
        for url in
            ["", "db:6379", "http://s3cret@db", "redis://u:s3cret@db/x", "redis://u:s3cret@db/-1", "unix:///s3cret"]
        {
            let error = Settings::at(url).unwrap_err();
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
    }
}

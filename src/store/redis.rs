//! Records in Redis.

/// How to reach Redis.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `redis://[user:password@]host:port/db`.
    pub url: String,
    /// What every key begins with.
    pub key_prefix: String,
    /// Whether a `maxmemory-policy` other than `noeviction` is accepted.
    pub allow_eviction: bool,
}

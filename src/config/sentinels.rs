//! Who knows the primaries of a store in Redis: the sections as written. What they become is in `redis`.

use super::client_tls::ClientTls;
use super::define::section;
use super::reader::Field;
use super::values::Text;

section! {
    /// Sentinels, and how they let this gateway in.
    RedisSentinel {
        /// What they call the primary and its replicas.
        master: Text = Required("write `master: mymaster`"),
        /// Where they listen, such as `10.0.0.1:26379`.
        nodes: Vec<Field<Text>> = Required("write `nodes: [\"10.0.0.1:26379\"]`"),
        /// Their own ACL user (default: the default user).
        username: Text = Optional,
        /// Its password.
        password: String = Optional,
        /// The file whose first line is the password, read for every connection.
        password_file: Text = Optional,
        /// TLS with them; without it, they are spoken to in plain.
        tls: ClientTls = Optional,
    }
    later {}
}

section! {
    /// A Redis Cluster.
    RedisCluster {
        /// Some of its nodes, such as `10.0.0.1:6379`; the others are asked for.
        nodes: Vec<Field<Text>> = Required("write `nodes: [\"10.0.0.1:6379\"]`"),
    }
    later {}
}

//! What Redis answers, in the store's terms: values, errors that name their cause, and where else to ask.

use redis::{FromRedisValue, RedisError, ServerErrorKind, Value};

use super::settings::Node;
use crate::machine::{OperationId, Record};
use crate::store::StoreError;
use crate::store::codec::{Codec, CodecError};

pub(super) fn unavailable(cause: impl Into<String>) -> StoreError {
    StoreError::Unavailable(cause.into())
}

/// What stands behind an error.
pub(super) fn cause(error: &StoreError) -> String {
    match error {
        StoreError::Unavailable(cause) | StoreError::Unacknowledged(cause) => cause.clone(),
        StoreError::Unreadable(error) => error.to_string(),
    }
}

/// An error in the store's terms. Only the server's own words and those of the system: no URL, no key.
pub(super) fn translate(error: &RedisError) -> StoreError {
    match (error.code(), error.detail()) {
        (Some("WRONGTYPE"), _) => StoreError::Unreadable(CodecError::Foreign),
        (Some(code), Some(detail)) => unavailable(format!("{code} {detail}")),
        (Some(code), None) => unavailable(first_failure(error).unwrap_or_else(|| code.to_owned())),
        (None, _) => unavailable(error.to_string()),
    }
}

/// What the server said of the first command that failed, of several sent together: such errors bear no detail themselves.
fn first_failure(error: &RedisError) -> Option<String> {
    let failures = error.clone().into_server_errors()?;
    let (_, first) = failures.first()?;
    Some(format!("{} {}", first.code(), first.details()?))
}

/// The reply, unless it is an error.
pub(super) fn refuse(reply: Value) -> Result<Value, StoreError> {
    match reply {
        Value::ServerError(error) => Err(translate(&error.into())),
        reply => Ok(reply),
    }
}

/// The reply as `T`.
pub(super) fn parse<T: FromRedisValue>(reply: Value) -> Result<T, StoreError> {
    redis::from_redis_value(refuse(reply)?).map_err(|error| unavailable(error.to_string()))
}

/// The bytes that were found, if any were.
pub(super) fn bytes(reply: Value) -> Result<Option<Vec<u8>>, StoreError> {
    match refuse(reply)? {
        Value::Nil => Ok(None),
        Value::BulkString(bytes) => Ok(Some(bytes)),
        _ => Err(unavailable("Redis answered with something else than a value")),
    }
}

/// The operation's record, if one was found.
pub(super) fn read(codec: &Codec, id: &OperationId, reply: Value) -> Result<Option<Record>, StoreError> {
    Ok(bytes(reply)?.map(|bytes| codec.decode_own(id, bytes.into())).transpose()?)
}

/// Whether the server has forgotten the script.
pub(super) fn is_unknown_script(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript))
}

/// Whether the server is a replica by now: another one may be reached over a fresh connection.
pub(super) fn is_demoted(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(error) if error.kind() == Some(ServerErrorKind::ReadOnly))
}

/// Where a node of a cluster sends on who asks it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// The key's slot is another node's now.
    Moved(Node),
    /// The key's slot is being given to another node, and the key may be there already.
    Ask(Node),
    /// In a moment.
    TryAgain,
}

/// Where a reply of `asked` sends on, if it does.
pub(super) fn redirect(reply: &Value, asked: &Node) -> Option<Redirect> {
    let Value::ServerError(error) = reply else { return None };
    let named = || {
        let (host, port) = error.details()?.split(' ').nth(1)?.rsplit_once(':')?;
        // A node that does not know its own name means the one under which it was reached.
        let host = if host.is_empty() || host == "?" { &asked.host } else { host };
        Some(Node { host: host.to_owned(), port: port.parse().ok()? })
    };
    match error.kind()? {
        ServerErrorKind::Moved => named().map(Redirect::Moved),
        ServerErrorKind::Ask => named().map(Redirect::Ask),
        ServerErrorKind::TryAgain => Some(Redirect::TryAgain),
        _ => None,
    }
}

/// Whether the cluster does not serve the key just now: others may know more.
pub(super) fn is_down(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(error) if error.kind() == Some(ServerErrorKind::ClusterDown))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(text: &str) -> Value {
        redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).unwrap()
    }

    fn node(host: &str, port: u16) -> Node {
        Node { host: host.to_owned(), port }
    }

    #[test]
    fn redirections_are_read() {
        let asked = node("10.0.0.1", 6379);
        let cases = [
            ("MOVED 3999 10.0.0.2:6381", Some(Redirect::Moved(node("10.0.0.2", 6381)))),
            ("MOVED 3999 :6381", Some(Redirect::Moved(node("10.0.0.1", 6381)))),
            ("ASK 3999 fe80::1:6381", Some(Redirect::Ask(node("fe80::1", 6381)))),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Some(Redirect::TryAgain)),
            ("MOVED 3999 nowhere", None),
            ("CLUSTERDOWN The cluster is down", None),
            ("ERR unknown", None),
        ];
        for (text, expected) in cases {
            assert_eq!(redirect(&reply(text), &asked), expected, "{text}");
        }
        assert!(is_down(&reply("CLUSTERDOWN Hash slot not served")));
        assert!(!is_down(&Value::Nil));
    }
}

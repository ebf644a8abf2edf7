//! What Redis answers, in the store's terms: values, and errors that name their cause.

use redis::{ErrorKind, FromRedisValue, RedisError, ServerErrorKind, Value};

use crate::machine::{OperationId, Record};
use crate::store::StoreError;
use crate::store::codec::{Codec, CodecError};

pub(super) fn unavailable(cause: impl Into<String>) -> StoreError {
    StoreError::Unavailable(cause.into())
}

/// An error in the store's terms. Only the server's own words and those of the system: no URL, no key.
pub(super) fn translate(error: &RedisError) -> StoreError {
    match (error.code(), error.detail()) {
        (Some("WRONGTYPE"), _) => StoreError::Unreadable(CodecError::Foreign),
        (Some(code), Some(detail)) => unavailable(format!("{code} {detail}")),
        (Some(code), None) => unavailable(code),
        (None, _) => unavailable(error.to_string()),
    }
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
    Ok(bytes(reply)?.map(|bytes| codec.decode(id, &bytes)).transpose()?)
}

/// Whether the server has forgotten the script.
pub(super) fn is_unknown_script(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript))
}

/// Whether the server is a replica by now: another one may be reached over a fresh connection.
pub(super) fn is_demoted(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(error) if error.kind() == Some(ServerErrorKind::ReadOnly))
}

/// Whether the connection is of no more use.
pub(super) fn is_broken(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::Parse) || error.is_unrecoverable_error()
}

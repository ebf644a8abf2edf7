//! Fields that the gateway adds to a request. They go out as lines behind the client's own, and need no place among those.
//! Which fields they are is said beside.

use http::{HeaderMap, HeaderName, HeaderValue};

/// Room for what most requests get.
const ROOM: usize = 512;

/// Fields that stand behind the others of a request.
#[derive(Debug, Clone)]
pub struct Added(Vec<u8>);

impl Added {
    /// None yet.
    pub(super) fn new() -> Self {
        Self(Vec::with_capacity(ROOM))
    }

    /// Adds a line. Nobody looks at its value again: it must be one that a field can have.
    #[inline]
    pub(super) fn say(&mut self, name: &HeaderName, value: &[u8]) {
        let name = name.as_str().as_bytes();
        self.0.reserve(name.len() + value.len() + 4);
        for part in [name, b": ", value, b"\r\n"] {
            self.0.extend_from_slice(part);
        }
    }

    /// As HTTP/1 says them.
    pub fn lines(&self) -> &[u8] {
        &self.0
    }

    /// Puts them among other fields.
    pub fn add_to(&self, fields: &mut HeaderMap) {
        for line in self.0.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let mut parts = line.splitn(2, |byte| *byte == b':').map(<[u8]>::trim_ascii);
            let name = parts.next().and_then(|name| HeaderName::from_bytes(name).ok());
            let value = parts.next().and_then(|value| HeaderValue::from_bytes(value).ok());
            if let (Some(name), Some(value)) = (name, value) {
                fields.append(name, value);
            }
        }
    }
}

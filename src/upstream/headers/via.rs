//! `Via` (RFC 9110 section 7.6.3): the gateway's name on what it hands on, by which it knows a request that comes round
//! again. It knows no other gateway.

use http::header::VIA;
use http::{HeaderMap, HeaderValue, Version};

/// What this gateway calls itself.
#[derive(Debug, Clone)]
pub struct Via {
    pseudonym: String,
    /// The lines, by the version of HTTP that a message came by.
    lines: [HeaderValue; 3],
}

impl Via {
    /// A name that no other process has: gateways of one configuration may stand in a row, and only what comes back to
    /// the same one goes in a circle.
    pub fn new(name: &str) -> Self {
        let pseudonym = format!("{name}-{:016x}", rand::random::<u64>());
        // A name of other signs is refused with the configuration.
        let line = |version| {
            let line = HeaderValue::try_from(format!("{version} {pseudonym}"));
            line.unwrap_or(HeaderValue::from_static("1.1 oncegate"))
        };
        Self { lines: ["1.0", "1.1", "2"].map(line), pseudonym }
    }

    /// Whether a message has been here before.
    pub fn is_on(&self, headers: &HeaderMap) -> bool {
        let apart = |byte: &u8| *byte == b',' || byte.is_ascii_whitespace();
        let mut words = headers.get_all(VIA).into_iter().flat_map(|line| line.as_bytes().split(apart));
        words.any(|word| word == self.pseudonym.as_bytes())
    }

    /// Adds a line that says by which protocol the message came.
    pub fn sign(&self, headers: &mut HeaderMap, received: Version) {
        headers.append(VIA, self.line(received).clone());
    }

    /// That line.
    pub fn line(&self, received: Version) -> &HeaderValue {
        let [old, usual, second] = &self.lines;
        match received {
            Version::HTTP_10 => old,
            Version::HTTP_2 => second,
            _ => usual,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_gateways_own_name_is_known() {
        let (ours, other) = (Via::new("oncegate"), Via::new("oncegate"));
        let mut headers = HeaderMap::new();
        for line in ["1.0 fred, 1.1 oncegate (a, b)", "1.1 oncegate-"] {
            headers.append(VIA, HeaderValue::from_static(line));
        }
        other.sign(&mut headers, Version::HTTP_2);
        assert!(!ours.is_on(&headers) && other.is_on(&headers));
        ours.sign(&mut headers, Version::HTTP_10);
        assert!(ours.is_on(&headers));
        let lines: Vec<_> = headers.get_all(VIA).iter().map(|line| line.to_str().unwrap()).collect();
        assert_eq!(lines.len(), 4);
        assert!(lines[2].starts_with("2 oncegate-") && lines[3].starts_with("1.0 oncegate-"), "{lines:?}");
        let joined = HeaderMap::from_iter([(VIA, HeaderValue::from_str(&lines.join(",")).unwrap())]);
        assert!(ours.is_on(&joined));
    }
}

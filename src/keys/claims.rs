//! What a JSON Web Token says of its bearer: a JSON object with exact numbers. Who vouches for it is known elsewhere.

use bytes::Bytes;

use super::json;

/// The claims of one token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// A JSON object in which no member has two values.
    text: Bytes,
}

/// A claim that can name somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// A string that is not blank.
    Text(String),
    /// A number in canonical form; never the same as a text.
    Number(String),
}

impl Claims {
    /// Reads a token's payload; none when it is no JSON object, nests too deep, or names a member twice: readers would
    /// not agree on what it says.
    pub fn read(payload: impl Into<Bytes>) -> Option<Self> {
        let text = payload.into();
        let scan = json::scan(&text, [], &[], []).ok()?;
        (scan.canonical(&text).first() == Some(&b'{') && !scan.duplicates).then_some(Self { text })
    }

    /// How many bytes they take.
    pub fn size(&self) -> usize {
        self.text.len()
    }

    /// The values under some JSON pointers, as canonical JSON; none where a pointer leads nowhere.
    pub fn values<const N: usize>(&self, pointers: [&str; N]) -> [Option<Vec<u8>>; N] {
        // It was read whole before.
        let mut found = json::scan(&self.text, [], &[], pointers).map(|scan| scan.wanted).unwrap_or_default();
        found.resize(N, None);
        found.try_into().unwrap_or([const { None }; N])
    }

    /// The claim under a JSON pointer.
    ///
    /// # Errors
    /// Why it names nobody, to be read after its name.
    pub fn claim(&self, pointer: &str) -> Result<Claim, &'static str> {
        let [value] = self.values([pointer]);
        match value.as_deref() {
            None => Err("is not there"),
            Some(b"null") => Err("is null"),
            Some(text @ [b'"', ..]) => {
                let text: String = serde_json::from_slice(text).map_err(|_| "is not a string")?;
                if text.trim().is_empty() { Err("is blank") } else { Ok(Claim::Text(text)) }
            }
            Some(number @ [b'-' | b'0'..=b'9', ..]) => {
                Ok(Claim::Number(number.iter().copied().map(char::from).collect()))
            }
            Some(_) => Err("is neither a string nor a number"),
        }
    }
}

/// The JSON pointer to a claim that is called by its name, or by a pointer when it begins with a slash.
pub fn claim_pointer(name: &str) -> String {
    if name.starts_with('/') { name.to_owned() } else { format!("/{}", name.replace('~', "~0").replace('/', "~1")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(text: &str) -> Claims {
        Claims::read(text.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn only_an_object_that_all_read_in_one_way_makes_claims() {
        for text in ["", "[]", "\"a\"", "7", "null", "{", "{\"sub\":\"a\",\"sub\":\"b\"}", "{\"s\":1,\"\\u0073\":2}"] {
            assert_eq!(Claims::read(text.as_bytes().to_vec()), None, "{text}");
        }
        assert_eq!(Claims::read(b"{\"a\":\"\xff\"}".to_vec()), None);
        assert!(Claims::read(b" { } ".to_vec()).is_some());
    }

    #[test]
    fn a_claim_is_a_string_or_a_number_and_nothing_else() {
        let claims = claims(
            r#"{"sub":"u-1","n":12345678901234567890123,"m":12345678901234567890124,"one":1.0,"null":null,"blank":" ",
                "list":["a"],"map":{"id":"x"},"yes":true,"":"empty"}"#,
        );
        let text = |text: &str| Ok(Claim::Text(text.to_owned()));
        let number = |text: &str| Ok(Claim::Number(text.to_owned()));
        for (pointer, expected) in [
            ("/sub", text("u-1")),
            ("/one", number("1")),
            ("/map/id", text("x")),
            ("/list/0", text("a")),
            ("/", text("empty")),
            ("/SUB", Err("is not there")),
            ("/null", Err("is null")),
            ("/blank", Err("is blank")),
            ("/list", Err("is neither a string nor a number")),
            ("/map", Err("is neither a string nor a number")),
            ("/yes", Err("is neither a string nor a number")),
        ] {
            assert_eq!(claims.claim(pointer), expected, "{pointer}");
        }
        assert_ne!(claims.claim("/n"), claims.claim("/m"), "numbers do not go through floats");
    }

    #[test]
    fn a_name_is_a_pointer_to_itself() {
        for (name, pointer) in
            [("sub", "/sub"), ("/a/b", "/a/b"), ("https://x.example/t~1", "/https:~1~1x.example~1t~01")]
        {
            assert_eq!(claim_pointer(name), pointer);
        }
        let claims = claims(r#"{"https://x.example/t~1":"here"}"#);
        assert_eq!(claims.claim(&claim_pointer("https://x.example/t~1")), Ok(Claim::Text("here".to_owned())));
    }
}

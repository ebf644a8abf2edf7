//! The values in a JSON text by their pointers, each as it is spelled. Only for texts that were read before.

/// Each value that is no container, and each empty container, in order: its pointer (RFC 6901) and its text. None when
/// this is no JSON after all.
pub(super) fn leaves(text: &str) -> Option<Vec<(String, String)>> {
    let mut walk = Walk { text, at: 0, leaves: Vec::new() };
    walk.value(String::new())?;
    Some(walk.leaves)
}

struct Walk<'a> {
    text: &'a str,
    at: usize,
    leaves: Vec<(String, String)>,
}

impl<'a> Walk<'a> {
    fn value(&mut self, pointer: String) -> Option<()> {
        let start = self.peek().map(|_| self.at)?;
        let is_container = match self.peek()? {
            '{' => self.items(&pointer, '}')?,
            '[' => self.items(&pointer, ']')?,
            '"' => self.string().map(|_| false)?,
            _ => {
                let rest = &self.text[self.at..];
                let end = rest.find(|c: char| matches!(c, ',' | ']' | '}') || c.is_ascii_whitespace());
                self.at += end.unwrap_or(rest.len());
                false
            }
        };
        if !is_container {
            self.leaves.push((pointer, self.text[start..self.at].to_owned()));
        }
        Some(())
    }

    /// Whether there were any.
    fn items(&mut self, pointer: &str, close: char) -> Option<bool> {
        self.at += 1;
        for index in 0.. {
            if self.peek()? == close {
                self.at += 1;
                return Some(index > 0);
            }
            let name = if close == '}' {
                let name: String = serde_json::from_str(self.string()?).ok()?;
                self.take(':')?;
                name.replace('~', "~0").replace('/', "~1")
            } else {
                index.to_string()
            };
            self.value(format!("{pointer}/{name}"))?;
            if self.peek()? == ',' {
                self.at += 1;
            }
        }
        None
    }

    /// A string with its quotes.
    fn string(&mut self) -> Option<&'a str> {
        let start = self.peek().map(|_| self.at)?;
        self.take('"')?;
        let mut escaped = false;
        for (at, c) in self.text[self.at..].char_indices() {
            match c {
                '"' if !escaped => {
                    self.at += at + 1;
                    return Some(&self.text[start..self.at]);
                }
                _ => escaped = c == '\\' && !escaped,
            }
        }
        None
    }

    fn take(&mut self, wanted: char) -> Option<()> {
        (self.peek()? == wanted).then(|| self.at += 1)
    }

    /// The next character that is no whitespace, which is then the next one.
    fn peek(&mut self) -> Option<char> {
        let rest = self.text[self.at..].trim_ascii_start();
        self.at = self.text.len() - rest.len();
        rest.chars().next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_has_a_pointer() {
        let text = r#" { "a" : [ 1.0 , "x\"]" , { } , [ ] ] , "b/~" : { "" : null } , "\u00e9" : true } "#;
        let expected = [
            ("/a/0", "1.0"),
            ("/a/1", r#""x\"]""#),
            ("/a/2", "{ }"),
            ("/a/3", "[ ]"),
            ("/b~1~0/", "null"),
            ("/\u{e9}", "true"),
        ];
        assert_eq!(leaves(text), Some(expected.map(|(at, value)| (at.to_owned(), value.to_owned())).to_vec()));
        assert_eq!(leaves("7"), Some(vec![(String::new(), "7".to_owned())]));
        for broken in ["", "{", "[1", "{\"a\"", "\"", "{\"a\" 1}"] {
            assert_eq!(leaves(broken), None, "{broken}");
        }
    }
}

//! JSON pointers (RFC 6901), followed while a document is read. They never look back into a document.

use std::borrow::Cow;

use super::spelling::{is_plain, push_char};

/// What a pointer is followed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The value does not count.
    Ignore,
    /// The value is wanted; the number is its place in the list of wanted values.
    Want(usize),
    /// The value, if it is a text, counts in one form; the number is the place of its steps in their list.
    Form(usize),
}

/// A step down from a container to one of its values.
#[derive(Clone, Copy)]
pub(super) enum Step<'a> {
    /// To the member of this name, spelled as a canonical JSON string.
    Member(&'a [u8]),
    /// To the element of this index.
    Element(usize),
}

/// One pointer on its way through a document.
pub(super) struct Watch {
    purpose: Purpose,
    tokens: Vec<Token>,
    /// How many tokens the present path matches from its start.
    matched: usize,
}

struct Token {
    name: Vec<u8>,
    index: Option<usize>,
}

impl Watch {
    /// Reads a pointer. A text that is no pointer (RFC 6901 wants a leading slash) points nowhere.
    pub(super) fn new(pointer: &str, purpose: Purpose) -> Option<Self> {
        let tokens = match pointer.strip_prefix('/') {
            Some(rest) => rest.split('/').map(Token::new).collect(),
            None if pointer.is_empty() => Vec::new(),
            None => return None,
        };
        Some(Self { purpose, tokens, matched: 0 })
    }

    /// The path grows by `step`, from `depth` steps to one more.
    pub(super) fn enter(&mut self, depth: usize, step: Step<'_>) {
        if self.matched == depth && self.tokens.get(depth).is_some_and(|token| token.matches(step)) {
            self.matched = depth + 1;
        }
    }

    /// The path shrinks back to `depth` steps. The purpose, when it was the path pointed at.
    pub(super) fn leave(&mut self, depth: usize) -> Option<Purpose> {
        if self.matched <= depth {
            return None;
        }
        let hit = self.tokens.len() == self.matched;
        self.matched = depth;
        hit.then_some(self.purpose)
    }

    /// The purpose, when it is the whole document that is pointed at.
    pub(super) fn root(&self) -> Option<Purpose> {
        self.tokens.is_empty().then_some(self.purpose)
    }
}

impl Token {
    fn new(escaped: &str) -> Self {
        let text = if escaped.contains('~') {
            Cow::Owned(escaped.replace("~1", "/").replace("~0", "~"))
        } else {
            Cow::Borrowed(escaped)
        };
        let mut name = Vec::with_capacity(text.len() + 2);
        name.push(b'"');
        if text.bytes().all(is_plain) {
            name.extend_from_slice(text.as_bytes());
        } else {
            text.chars().for_each(|c| push_char(&mut name, c));
        }
        name.push(b'"');
        // Indexes have no sign and no leading zero; as member names any text will do.
        let is_index = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
        Self { name, index: if is_index { text.parse().ok() } else { None } }
    }

    fn matches(&self, step: Step<'_>) -> bool {
        match step {
            Step::Member(name) => self.name == name,
            Step::Element(index) => self.index == Some(index),
        }
    }
}

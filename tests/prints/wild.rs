//! Random requests of all kinds, well-formed and not: the strange is the rule. Only the seed decides what comes.

use crate::dice::Dice;
use crate::{Given, hex};

const ATOMS: [&str; 16] = [
    "",
    "a",
    "A",
    "b",
    "a!",
    "\u{e9}",
    "e\u{301}",
    "\u{ff5e}",
    "\u{1f600}",
    "\u{2028}",
    "\u{7f}",
    "#",
    "%",
    "~",
    "zz",
    " ",
];
const ESCAPES: [&str; 14] = [
    "\\n",
    "\\\"",
    "\\\\",
    "\\/",
    "\\u0041",
    "\\u00E9",
    "\\ud83d\\ude00",
    "\\u0000",
    "\\u001f",
    "\\b",
    "\\ud800",
    "\\x",
    "\\uDE00",
    "\\u12",
];
const NUMBERS: [&str; 18] = [
    "0",
    "-0",
    "1",
    "1.0",
    "10e-1",
    "9007199254740993",
    "0.1",
    "0.10000000000000001",
    "-12.50",
    "1E400",
    "1e-400",
    "01",
    "1.",
    "-",
    "1e999999999999999999999999999999999999",
    "1e1000000000000000000000000000000000000",
    "0.0e99999999999999999999999999999999999999999",
    "120e+0003",
];
const PIECES: [&str; 22] = [
    "a", "b", "=", "=", "&", "&", "+", "%20", "%2B", "%2b", "%", "%z", "%zz", "%ff", "\u{e9}", "%C3%A9", ":", ",", "1",
    "1", "%00", "?",
];
const STEPS: [&str; 16] =
    ["orders", "a", "%61", "%2F", "%2f", ".", "..", "%2e", "", ":", "\u{e9}", "{x}", "%25", ";p=1", "%", "%5c"];
const TYPES: [&str; 16] = [
    "application/json",
    "application/json; charset=utf-8",
    " Application/JSON ;x",
    "text/json",
    "application/a+JSON",
    "application/x-www-form-urlencoded",
    "application/x-www-form-urlencoded;charset=utf-8",
    "text/plain",
    "",
    "multipart/form-data",
    "multipart/form-data; boundary=\"X\"",
    "multipart/form-data; boundary=X; boundary=Y",
    "multipart/form-data; boundary=",
    "multipart/mixed; boundary=X",
    "application/json, text/plain",
    "x\u{e9};",
];

/// Dice that throw requests.
pub(crate) struct Wild(Dice);

impl Wild {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Dice::new(seed))
    }

    /// The next request.
    pub(crate) fn request(&mut self) -> Given {
        let (content_type, body) = match self.0.between(0, 3) {
            0 => (self.one(&TYPES[..5]).to_owned(), self.document().into_bytes()),
            1 => (self.one(&TYPES[5..7]).to_owned(), self.run(&PIECES, 12).into_bytes()),
            2 => (self.multipart_type(), self.multipart()),
            _ => (self.one(&TYPES).to_owned(), self.any_body()),
        };
        let query = if self.0.chance(70) { format!("?{}", self.run(&PIECES, 10)) } else { String::new() };
        let coding = match self.0.between(0, 19) {
            0 => Some("gzip"),
            1 => Some(" Identity "),
            2 => Some("identity,br"),
            3 => Some(""),
            _ => None,
        };
        Given {
            method: self.one(&["POST", "PUT", "patch", "DELETE", "GET"]).to_owned(),
            target: self.path() + &query,
            content_type: self.0.chance(95).then_some(content_type),
            content_encoding: coding.map(str::to_owned),
            body: None,
            body_hex: Some(hex(&self.damaged(body))),
            timestamp: self.0.between(0, 999_999_999_999_999).to_string(),
        }
    }

    fn one<'a>(&mut self, list: &[&'a str]) -> &'a str {
        self.0.place(list.len()).map_or("", |place| list[place])
    }

    fn run(&mut self, list: &[&str], most: u64) -> String {
        (0..self.0.between(0, most)).map(|_| self.one(list)).collect()
    }

    fn path(&mut self) -> String {
        let steps = (0..self.0.between(0, 5)).map(|_| {
            let step = self.run(&STEPS[..14], 2);
            // What has no normal form is refused before: seldom is enough.
            if self.0.chance(2) { step + self.one(&STEPS[14..]) } else { step }
        });
        format!("/{}", steps.collect::<Vec<_>>().join("/"))
    }

    fn document(&mut self) -> String {
        match self.0.between(0, 9) {
            0 => "[".repeat(64) + &"]".repeat(64),
            1 => "[".repeat(65) + &"]".repeat(65),
            _ => self.value(0),
        }
    }

    fn value(&mut self, depth: u64) -> String {
        let blank = |dice: &mut Self| dice.one(&["", "", "", " ", "\n", "\t\r "]).to_owned();
        let text = match self.0.between(if depth < 4 { 0 } else { 4 }, 9) {
            0 | 1 => {
                let member = |dice: &mut Self| format!("{}{}:{}", dice.string(), blank(dice), dice.value(depth + 1));
                let members: Vec<_> = (0..self.0.between(0, 5)).map(|_| member(self)).collect();
                format!("{{{}{}}}", blank(self), members.join(","))
            }
            2 | 3 => {
                let items: Vec<_> = (0..self.0.between(0, 4)).map(|_| self.value(depth + 1)).collect();
                format!("[{}]", items.join(","))
            }
            4 => self.one(&["true", "false", "null"]).to_owned(),
            5 | 6 => self.string(),
            7 => format!("{}.{}e-{}", self.0.between(0, 99), self.0.between(0, 99_000), self.0.between(0, 40)),
            _ if self.0.chance(97) => self.one(&NUMBERS[..11]).to_owned(),
            _ => self.one(&NUMBERS).to_owned(),
        };
        blank(self) + &text + &blank(self)
    }

    fn string(&mut self) -> String {
        let pieces = (0..self.0.between(0, 4)).map(|_| match self.0.between(0, 99) {
            0..=69 => self.one(&ATOMS),
            70..=98 => self.one(&ESCAPES[..10]),
            _ => self.one(&ESCAPES),
        });
        format!("\"{}\"", pieces.collect::<String>())
    }

    fn multipart_type(&mut self) -> String {
        self.one(&["multipart/form-data; boundary=X", "Multipart/Form-Data;a=\"b;\\\"\" ; BOUNDARY = X", TYPES[10]])
            .to_owned()
    }

    fn multipart(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        for _ in 0..self.0.between(0, 4) {
            let padding = self.one(&["", "", "", " \t"]);
            body.extend_from_slice(format!("--X{padding}\r\n{}\r\n\r\n", self.part_head()).as_bytes());
            body.extend_from_slice(&self.any_body());
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"--X--");
        body.extend_from_slice(self.one(&["\r\n", "\r\n", "", "\n"]).as_bytes());
        body
    }

    fn part_head(&mut self) -> String {
        let name = self.one(&["a", "b", "B", "a%22", "\u{e9}", "", "a\\\"b"]);
        let mut lines = vec![match self.0.between(0, 9) {
            0 => format!("content-disposition:FORM-DATA;filename=x.txt; name={}", self.one(&["a", "b", "\"c\""])),
            1 => "Content-Disposition: form-data".to_owned(),
            2 => format!("Content-Disposition: form-data; name=\"{name}\"; NAME=\"x\""),
            _ => {
                let file = self.one(&["", "", "; filename=\"\u{1f600}.png\"", "; filename=\"\"", " ;", "; x=y"]);
                format!("Content-Disposition: form-data; name=\"{name}\"{file}")
            }
        }];
        for _ in 0..self.0.between(0, 2) {
            let more = ["Content-Type: text/plain", "content-type:", "X-A:  1 ", "x-b: :\u{e9}", "broken"];
            let known = if self.0.chance(95) { 4 } else { 5 };
            lines.push(self.one(&more[..known]).to_owned());
        }
        lines.join("\r\n")
    }

    fn any_body(&mut self) -> Vec<u8> {
        (0..self.0.between(0, 12))
            .map(|_| *b"\r\n-X\0\xff\xc3\xa9{}az".get(self.0.place(12).unwrap_or(0)).unwrap_or(&0))
            .collect()
    }

    /// Seldom with a byte changed, dropped or added.
    fn damaged(&mut self, mut body: Vec<u8>) -> Vec<u8> {
        if let Some(place) = self.0.place(body.len()).filter(|_| self.0.chance(10)) {
            let byte = u8::try_from(self.0.between(0, 255)).unwrap_or(0);
            match self.0.between(0, 2) {
                0 => body[place] = byte,
                1 => drop(body.remove(place)),
                _ => body.insert(place, byte),
            }
        }
        body
    }
}

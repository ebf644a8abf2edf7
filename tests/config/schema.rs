//! The JSON Schema: it knows what the reader knows.

use super::{LEAST, config, errors, shipped};
use serde_json::Value as Json;

fn root() -> Json {
    config::schema()
}

fn resolve<'a>(root: &'a Json, schema: &'a Json) -> &'a Json {
    let name = schema["$ref"].as_str().and_then(|it| it.strip_prefix("#/$defs/"));
    name.map_or(schema, |name| &root["$defs"][name])
}

/// Every word of a section that the schema knows is known to the reader, and no other: the reader lists its own
/// in the fault for an unknown field.
#[test]
fn knows_the_words_of_the_reader() {
    let root = root();
    let mut sections = 0;
    for (path, text) in [
        ("File", format!("{LEAST}zzzzzzzzzzzz: 1\n")),
        ("Admin", format!("{LEAST}admin: {{ zzzzzzzzzzzz: 1 }}\n")),
        ("Store", format!("{LEAST}store: {{ zzzzzzzzzzzz: 1 }}\n")),
        ("Encryption", format!("{LEAST}store: {{ encryption: {{ zzzzzzzzzzzz: 1 }} }}\n")),
        ("StoreKey", format!("{LEAST}store: {{ encryption: {{ keys: [ {{ zzzzzzzzzzzz: 1 }} ] }} }}\n")),
        ("RedisSentinel", format!("{LEAST}store: {{ sentinel: {{ zzzzzzzzzzzz: 1 }} }}\n")),
        ("RedisCluster", format!("{LEAST}store: {{ cluster: {{ zzzzzzzzzzzz: 1 }} }}\n")),
        ("Filter", format!("{LEAST}filter: {{ zzzzzzzzzzzz: 1 }}\n")),
        ("Limits", format!("{LEAST}limits: {{ zzzzzzzzzzzz: 1 }}\n")),
        ("Reload", format!("{LEAST}reload: {{ zzzzzzzzzzzz: 1 }}\n")),
        ("Log", format!("{LEAST}log: {{ zzzzzzzzzzzz: 1 }}\n")),
        ("AccessLog", format!("{LEAST}access_log: {{ path: x, zzzzzzzzzzzz: 1 }}\n")),
        ("Tls", format!("{LEAST}tls: {{ zzzzzzzzzzzz: 1 }}\n")),
        ("Pair", format!("{LEAST}tls: {{ certificates: [ {{ zzzzzzzzzzzz: 1 }} ] }}\n")),
        ("Http2", format!("{LEAST}http2: {{ zzzzzzzzzzzz: 1 }}\n")),
        ("ProxyProtocol", format!("{LEAST}proxy_protocol: {{ from: [], zzzzzzzzzzzz: 1 }}\n")),
        ("Upstream", LEAST.replace("9001\"]", "9001\"], zzzzzzzzzzzz: 1")),
        ("ClientTls", LEAST.replace("9001\"]", "9001\"], tls: { zzzzzzzzzzzz: 1 }")),
        ("Ejection", LEAST.replace("9001\"]", "9001\"], ejection: { zzzzzzzzzzzz: 1 }")),
        ("Health", LEAST.replace("9001\"]", "9001\"], health: { path: /, zzzzzzzzzzzz: 1 }")),
        ("Route", LEAST.replace("    upstream:", "    zzzzzzzzzzzz: 1\n    upstream:")),
        ("Cors", LEAST.replace("    upstream:", "    cors: { zzzzzzzzzzzz: 1 }\n    upstream:")),
        ("Match", LEAST.replace("path: /orders", "path: /orders, zzzzzzzzzzzz: 1")),
        ("Idempotency", format!("{LEAST}      zzzzzzzzzzzz: 1\n")),
        ("Operations", format!("{LEAST}operations: {{ zzzzzzzzzzzz: 1 }}\n")),
        ("Tokens", format!("{LEAST}tokens: {{ zzzzzzzzzzzz: 1 }}\n")),
        ("Jwt", format!("{LEAST}jwt: {{ zzzzzzzzzzzz: 1 }}\n")),
        ("KeyAge", format!("{LEAST}      key_age: {{ zzzzzzzzzzzz: 1 }}\n")),
        ("Also", format!("{LEAST}      also: {{ zzzzzzzzzzzz: 1 }}\n")),
        ("Comparison", format!("{LEAST}      also: {{ fingerprint: {{ zzzzzzzzzzzz: 1 }} }}\n")),
        ("Replay", format!("{LEAST}      replay: {{ zzzzzzzzzzzz: 1 }}\n")),
        ("Fingerprint", format!("{LEAST}      fingerprint: {{ zzzzzzzzzzzz: 1 }}\n")),
        ("Probe", format!("{LEAST}      probe: {{ zzzzzzzzzzzz: 1 }}\n")),
        ("Ignore", format!("{LEAST}      fingerprint: {{ ignore: {{ zzzzzzzzzzzz: 1 }} }}\n")),
        ("Decode", format!("{LEAST}      fingerprint: {{ decode: {{ zzzzzzzzzzzz: 1 }} }}\n")),
        ("ClientPrint", format!("{LEAST}      fingerprint: {{ client: {{ zzzzzzzzzzzz: 1 }} }}\n")),
        ("KeySource", LEAST.replace("header: Idem", "zzzzzzzzzzzz: Idem")),
        ("Scope", LEAST.replace("trusted_header", "zzzzzzzzzzzz")),
        ("TypedValue", format!("{LEAST}      fingerprint: {{ normalize: [ {{ zzzzzzzzzzzz: 1 }} ] }}\n")),
    ] {
        let message = errors(&text).into_iter().find(|it| it.contains("zzzzzzzzzzzz")).unwrap();
        let (_, listed) = message.split_once("known here: ").unwrap();
        let mut reader: Vec<&str> = listed.split(", ").map(|word| word.trim_matches('`')).collect();
        reader.sort_unstable();
        let definition = &root["$defs"][path];
        let forms = definition["oneOf"].as_array().cloned().unwrap_or_else(|| vec![definition.clone()]);
        let mut schema: Vec<String> = forms
            .iter()
            .flat_map(|form| form["properties"].as_object().into_iter().flatten())
            .map(|(name, _)| name.clone())
            .collect();
        schema.sort_unstable();
        // What belongs to several forms is listed once.
        schema.dedup();
        assert_eq!(reader, schema, "{path}");
        sections += 1;
    }
    assert_eq!(sections, root["$defs"].as_object().unwrap().len(), "a section is not in this test");
}

#[test]
fn accepts_every_shipped_file_and_refuses_mistakes() {
    let root = root();
    for (name, text) in shipped() {
        assert_eq!(faults(&root, &root, &yaml(&text), ""), Vec::<String>::new(), "{name}");
    }
    for (from, to) in
        [("idempotency:", "idempotancy:"), ("POST", "[]"), ("trusted_header", "trusted"), ("scope:", "namespace:")]
    {
        assert!(!faults(&root, &root, &yaml(&LEAST.replace(from, to)), "").is_empty(), "{to}");
    }
}

/// A document as an editor sees it.
fn yaml(text: &str) -> Json {
    use granit_parser::{Event, Parser, ScalarStyle};
    let mut stack: Vec<(Json, Option<String>)> = vec![(Json::Array(Vec::new()), None)];
    let add = |stack: &mut Vec<(Json, Option<String>)>, value: Json| match stack.last_mut().unwrap() {
        (Json::Array(items), _) => items.push(value),
        (Json::Object(fields), key) => match key.take() {
            Some(key) => drop(fields.insert(key, value)),
            None => *key = Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
        },
        _ => unreachable!(),
    };
    for event in Parser::new_from_str(text) {
        match event.unwrap().0 {
            Event::Scalar(text, ScalarStyle::Plain, ..) => {
                let number = text.parse::<serde_json::Number>().map(Json::Number);
                let value = number.or_else(|_| text.parse().map(Json::Bool)).unwrap_or_else(|_| Json::from(&*text));
                add(&mut stack, value);
            }
            Event::Scalar(text, ..) => add(&mut stack, Json::from(&*text)),
            Event::SequenceStart(..) => stack.push((Json::Array(Vec::new()), None)),
            Event::MappingStart(..) => stack.push((Json::Object(serde_json::Map::new()), None)),
            Event::SequenceEnd | Event::MappingEnd => {
                let (value, _) = stack.pop().unwrap();
                add(&mut stack, value);
            }
            _ => {}
        }
    }
    stack.remove(0).0[0].take()
}

/// As much of a JSON Schema validator as our schema uses; a keyword that it does not know fails the test.
fn faults(root: &Json, schema: &Json, value: &Json, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (keyword, rule) in schema.as_object().unwrap() {
        let good = match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" | "default" => true,
            "$ref" => {
                found.extend(faults(root, resolve(root, schema), value, path));
                true
            }
            "type" => one_or_many(rule).iter().any(|name| is_a(value, name)),
            "const" => rule == value,
            "enum" => rule.as_array().unwrap().contains(value),
            "minimum" => value.as_f64() >= rule.as_f64(),
            "maximum" => value.as_f64().is_none_or(|it| it <= rule.as_f64().unwrap()),
            "pattern" => value.as_str().is_none_or(|text| matches(rule.as_str().unwrap(), text)),
            "anyOf" => accepting(root, rule, value, path) >= 1,
            "oneOf" => accepting(root, rule, value, path) == 1,
            "required" => one_or_many(rule).iter().all(|name| value.get(name).is_some()),
            "items" => {
                let items = value.as_array().into_iter().flatten().enumerate();
                found.extend(items.flat_map(|(n, item)| faults(root, rule, item, &format!("{path}[{n}]"))));
                true
            }
            "properties" | "patternProperties" | "additionalProperties" => {
                if keyword != "properties" || schema.get("additionalProperties").is_none() {
                    found.extend(fields(root, schema, value, path));
                }
                true
            }
            other => panic!("the test's validator does not know `{other}`"),
        };
        if !good {
            found.push(format!("{path}: {keyword} {rule} against {value}"));
        }
    }
    found
}

fn fields(root: &Json, schema: &Json, value: &Json, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (name, field) in value.as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let by_pattern = schema["patternProperties"].as_object().into_iter().flatten();
        let by_pattern = by_pattern.filter(|(pattern, _)| matches(pattern, name)).map(|(_, rule)| rule).next();
        match schema["properties"].get(name).or(by_pattern).unwrap_or(&schema["additionalProperties"]) {
            Json::Bool(false) => found.push(format!("{path}: unknown")),
            rule => found.extend(faults(root, rule, field, &path)),
        }
    }
    found
}

fn accepting(root: &Json, rules: &Json, value: &Json, path: &str) -> usize {
    rules.as_array().unwrap().iter().filter(|rule| faults(root, rule, value, path).is_empty()).count()
}

fn one_or_many(rule: &Json) -> Vec<&str> {
    rule.as_array()
        .map_or_else(|| vec![rule.as_str().unwrap()], |all| all.iter().map(|it| it.as_str().unwrap()).collect())
}

fn is_a(value: &Json, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_u64(),
        "boolean" => value.is_boolean(),
        other => panic!("{other}"),
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    regex::Regex::new(pattern).unwrap().is_match(text)
}

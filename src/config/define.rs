//! How sections of the file are defined: one text that gives the struct, its reader and its schema. Defines none itself.

/// Defines a struct of the file: what it is called, how it is read, its schema.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        $name:ident {
            $( $(#[doc = $doc:literal])+ $field:ident : $type:ty = $need:ident $(($text:expr))? , )*
        }
        later { $($later:literal),* }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone)]
        pub(in crate::config) struct $name {
            $( $(#[doc = $doc])+ pub(in crate::config) $field: $crate::config::reader::Field<$type>, )*
        }

        impl $crate::config::reader::Setting for $name {
            fn read(
                node: &$crate::config::tree::Node,
                report: &mut $crate::config::finding::Report,
            ) -> Option<Self> {
                let known = [$(stringify!($field).trim_start_matches("r#")),*];
                let map = $crate::config::reader::Mapping::open(node, &known, &[$($later),*], report)?;
                $( let $field = map.field(
                    stringify!($field).trim_start_matches("r#"),
                    $crate::config::reader::Need::$need $(($text))?,
                    report,
                ); )*
                Some(Self { $($field),* })
            }

            fn schema(schemas: &mut $crate::config::reader::Schemas) -> serde_json::Value {
                schemas.named(stringify!($name), |schemas| {
                    let mut properties = serde_json::Map::new();
                    let mut required: Vec<&str> = Vec::new();
                    $({
                        let name = stringify!($field).trim_start_matches("r#");
                        let need = $crate::config::reader::Need::$need $(($text))?;
                        let schema = <$type as $crate::config::reader::Setting>::schema(schemas);
                        let doc = concat!($($doc),+);
                        properties.insert(name.to_owned(), $crate::config::reader::field_schema(schema, doc, need));
                        if matches!(need, $crate::config::reader::Need::Required(_)) {
                            required.push(name);
                        }
                    })*
                    serde_json::json!({
                        "type": "object",
                        "description": concat!($($about),+).trim(),
                        "additionalProperties": false,
                        "properties": properties,
                        "required": required,
                    })
                })
            }
        }
    };
}

/// Makes an enum of the settings below readable from a few words.
macro_rules! choice {
    ($name:ty { $($word:literal => $value:path),+ } later { $($later:literal),* }) => {
        impl $crate::config::reader::Setting for $name {
            fn read(
                node: &$crate::config::tree::Node,
                report: &mut $crate::config::finding::Report,
            ) -> Option<Self> {
                match $crate::config::reader::word(node, &[$($word),+], &[$($later),*], report)?.as_str() {
                    $($word => Some($value),)+
                    _ => None,
                }
            }

            fn schema(_: &mut $crate::config::reader::Schemas) -> serde_json::Value {
                $crate::config::reader::scalar_schema(&serde_json::json!({ "enum": [$($word),+] }))
            }
        }
    };
}

/// Defines an enum of the file that is written as exactly one field, perhaps with others that belong to it, or as one of a
/// few words.
macro_rules! one_of {
    (
        $(#[doc = $about:literal])+
        $name:ident {
            $( $(#[doc = $doc:literal])+ $key:literal => $variant:ident(
                $type:ty $(, $(#[doc = $side_doc:literal])+ $side:ident : $side_type:ty = $need:ident $(($text:expr))? )*
            ) , )+
        }
        words { $( $(#[doc = $word_doc:literal])+ $word:literal => $word_variant:ident ),* }
        later { $($later:literal),* }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone)]
        pub(in crate::config) enum $name {
            $( $(#[doc = $doc])+ $variant($type $(, $crate::config::reader::Field<$side_type>)*), )+
            $( $(#[doc = $word_doc])+ $word_variant, )*
        }

        impl $crate::config::reader::Setting for $name {
            fn read(
                node: &$crate::config::tree::Node,
                report: &mut $crate::config::finding::Report,
            ) -> Option<Self> {
                let words: &[&str] = &[$($word),*];
                if matches!(node.value, $crate::config::tree::Value::Text(_)) && !words.is_empty() {
                    return match $crate::config::reader::word(node, words, &[], report)?.as_str() {
                        $($word => Some(Self::$word_variant),)*
                        _ => None,
                    };
                }
                let known: &[(&str, &[&str])] = &[$(($key, &[$(stringify!($side)),*])),+];
                let only = $crate::config::reader::only_entry(node, known, &[$($later),*], report)?;
                match only.entry.key.as_str() {
                    $($key => {
                        let read = <$type as $crate::config::reader::Setting>::read(&only.entry.node, report);
                        $( let $side = only.map.field::<$side_type>(
                            stringify!($side),
                            $crate::config::reader::Need::$need $(($text))?,
                            report,
                        ); )*
                        read.map(|read| Self::$variant(read $(, $side)*))
                    })+
                    _ => None,
                }
            }

            fn schema(schemas: &mut $crate::config::reader::Schemas) -> serde_json::Value {
                schemas.named(stringify!($name), |schemas| {
                    let mut forms = Vec::new();
                    $({
                        let mut properties = serde_json::Map::new();
                        let schema = <$type as $crate::config::reader::Setting>::schema(schemas);
                        let need = $crate::config::reader::Need::Required("");
                        let schema = $crate::config::reader::field_schema(schema, concat!($($doc),+), need);
                        properties.insert($key.to_owned(), schema);
                        let mut needs = vec![($key, need)];
                        $(
                            let need = $crate::config::reader::Need::$need $(($text))?;
                            let schema = <$side_type as $crate::config::reader::Setting>::schema(schemas);
                            let schema = $crate::config::reader::field_schema(schema, concat!($($side_doc),+), need);
                            properties.insert(stringify!($side).to_owned(), schema);
                            needs.push((stringify!($side), need));
                        )*
                        needs.retain(|(_, need)| matches!(need, $crate::config::reader::Need::Required(_)));
                        let required: Vec<&str> = needs.into_iter().map(|(name, _)| name).collect();
                        forms.push(serde_json::json!({
                            "type": "object",
                            "additionalProperties": false,
                            "properties": properties,
                            "required": required,
                        }));
                    })+
                    $( forms.push(serde_json::json!({ "const": $word, "description": concat!($($word_doc),+).trim() })); )*
                    serde_json::json!({ "description": concat!($($about),+).trim(), "oneOf": forms })
                })
            }
        }
    };
}

pub(super) use {choice, one_of, section};

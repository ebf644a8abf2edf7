//! The JSON Schema of the file, from the definitions that the reader works by.

use serde_json::{Value as Json, json};

use super::file::File;
use super::reader::{Schemas, Setting};

/// The JSON Schema (2020-12) of a configuration file.
///
/// It knows names, forms and bounds; checks across fields are the reader's alone.
pub fn schema() -> Json {
    let mut schemas = Schemas::default();
    let mut root = File::schema(&mut schemas);
    root["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    root["title"] = json!("oncegate configuration");
    root["$defs"] = json!(schemas.0);
    root
}

//! The YAML file: read, checked, and translated into the settings of the floors below. Nothing below imports this.

mod access_log;
mod also;
mod around;
mod client_print;
mod client_tls;
mod client_word;
mod compile;
mod decode;
mod define;
mod doubt;
mod encryption;
mod file;
mod finding;
mod front;
mod guard;
mod interpolate;
mod issuing;
mod journal;
mod jwt;
mod key_age;
mod key_source;
mod limits;
mod names;
mod normalize;
mod operations;
mod policy;
mod probe;
mod reach;
mod reader;
mod reads;
mod redis;
mod route;
mod routes;
mod schema;
mod scope;
mod second;
mod sentinels;
mod show;
mod token_routes;
mod tokens;
mod tree;
mod upstreams;
mod values;
mod window;

use std::path::Path;
use std::time::Duration;

pub use finding::{Errors, Finding, Place, Warning};
pub use interpolate::Environment;
pub use schema::schema;
pub use show::show;
pub use values::span_text;

use crate::{admin, arbiter, gateway, server, store, telemetry, upstream};
use finding::Report;
use reader::Setting;

/// What the whole house is told.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Listening and stopping.
    pub server: server::Settings,
    /// The operators' door.
    pub admin: admin::Settings,
    /// Where records live.
    pub store: store::Settings,
    /// The Bloom filter.
    pub filter: store::filter::Settings,
    /// Log lines.
    pub log: telemetry::LogSettings,
    /// The access log; none: there is none.
    pub access_log: Option<telemetry::access::Settings>,
    /// The APIs behind, as routes count them.
    pub upstreams: Vec<upstream::Settings>,
    /// The HTTP door.
    pub gateway: gateway::Settings,
    /// What is kept in memory of operations.
    pub arbiter: arbiter::Settings,
    /// How often leases that nobody looks at are swept.
    pub sweep_interval: Duration,
    /// Whether the file is watched for changes.
    pub watch: bool,
}

/// A file that can be used.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What it says.
    pub settings: Settings,
    /// What is allowed but odd, in the order of the places.
    pub warnings: Vec<Warning>,
}

/// Reads a file; variables come from this process's environment.
///
/// # Errors
/// When the file cannot be read, or anything in it is wrong: then with everything that is.
pub fn load(path: &Path) -> Result<Loaded, Errors> {
    let name = path.display().to_string();
    let text =
        std::fs::read_to_string(path).map_err(|error| Errors::whole(&name, format!("cannot be read: {error}")))?;
    parse(&name, &text, &|variable| std::env::var(variable).ok())
}

/// Reads a file's text. `name` is what findings call it; `env` knows the variables.
///
/// # Errors
/// When anything in the text is wrong: then with everything that is.
pub fn parse(name: &str, text: &str, env: &Environment<'_>) -> Result<Loaded, Errors> {
    let mut report = Report::default();
    let file = tree::parse(text, env, &mut report).and_then(|root| file::File::read(&root, &mut report));
    let settings = file.and_then(|file| compile::compile(&file, &mut report));
    let warnings = report.close(name)?;
    // Whatever cannot be translated has been reported; this is the answer should that ever be untrue.
    let settings = settings.ok_or_else(|| Errors::whole(name, "cannot be used".to_owned()))?;
    let names: Vec<_> = settings.gateway.routes.iter().map(|route| route.name.as_str()).collect();
    let warnings = finding::told_once(warnings, &names);
    Ok(Loaded { settings, warnings })
}

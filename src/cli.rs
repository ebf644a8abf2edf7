//! The command line: what to do, where the answer goes, the exit code. Does nothing of it itself.

mod explain;

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Parser, Subcommand};

use crate::app::Ended;
use crate::config::{self, Loaded};
use crate::{app, telemetry, tls};

/// The exit code of a bad command line (clap's own) and of a bad configuration.
const MISCONFIGURED: u8 = 2;

/// What scripts go by.
const EXIT_CODES: &str = "Exit codes: 0 done, 1 failed while running or ended by a second signal (explain --diff: another request), 2 bad command line or configuration.";

#[derive(Debug, Parser)]
#[command(name = "oncegate", version, about, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway. SIGTERM or Ctrl-C drains it, a second one ends it at once; SIGHUP reads the file again.
    Serve(ConfigFile),
    /// Validate a configuration file: print all its faults, or the settings with all defaults and masked secrets.
    Check(ConfigFile),
    /// Print the JSON Schema of the configuration file.
    Schema,
    /// Say what the gateway would make of a request: its route, key, scope, fingerprint and probe, or the refusal.
    Explain(Box<explain::Explain>),
    /// Copy the embedded store into a new directory, which `store.path` can name; the gateway may run meanwhile.
    Backup(Backup),
    /// Tell a story of retries, double clicks and a crash against a sample API, then stay up to be played with.
    Demo(Demo),
}

#[derive(Debug, Args)]
struct ConfigFile {
    /// The configuration file.
    #[arg(long, value_name = "FILE", default_value = "oncegate.yaml")]
    config: PathBuf,
}

#[derive(Debug, Args)]
struct Backup {
    #[command(flatten)]
    file: ConfigFile,
    /// The new directory. It appears when the copy in it is whole, on the disk and checked.
    #[arg(long, value_name = "PATH")]
    to: PathBuf,
    /// Where the running gateway's operators' door is, if not at `admin.listen`.
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<SocketAddr>,
}

#[derive(Debug, Args)]
struct Demo {
    /// End with the story instead of staying up.
    #[arg(long)]
    once: bool,
}

/// What is on this process's command line. A fault of it ends the process, with a word on what to write instead.
fn arguments() -> Arguments {
    Arguments::try_parse().unwrap_or_else(|mut error| {
        // The only option with a number of values.
        if error.kind() == ErrorKind::WrongNumberOfValues {
            let remedy = "two requests are compared, each in a file: write `explain --diff a.http b.http`";
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![remedy.into()]));
        }
        error.exit()
    })
}

/// Parses this process's command line and does what it says.
pub fn run() -> ExitCode {
    let done = match arguments().command {
        Command::Serve(file) => with_config(&file, |loaded| done(serve(loaded, &file.config))),
        Command::Check(file) => {
            with_config(&file, |loaded| done(check(&loaded))).or_else(|error| Ok(misconfigured(&error)))
        }
        Command::Explain(given) => {
            let explained = with_config(&given.file, |loaded| explain(&loaded, &given));
            // What it cannot explain was not put right on the command line.
            explained.or_else(|error| Ok(misconfigured(&error)))
        }
        Command::Backup(given) => with_config(&given.file, |loaded| done(backup(&loaded, &given))),
        Command::Demo(demo) => app::demo(demo.once).map(|()| ExitCode::SUCCESS).map_err(Into::into),
        Command::Schema => print(&format!("{:#}\n", config::schema())).map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|error| {
        complain(&format!("oncegate: {error:#}"));
        ExitCode::FAILURE
    })
}

fn done(result: anyhow::Result<()>) -> anyhow::Result<ExitCode> {
    result.map(|()| ExitCode::SUCCESS)
}

fn explain(loaded: &Loaded, given: &explain::Explain) -> anyhow::Result<ExitCode> {
    let explained = explain::explain(&loaded.settings, given)?;
    print(&explained.text)?;
    Ok(if explained.yes { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints what is in force, if what it names can be used as well.
fn check(loaded: &Loaded) -> anyhow::Result<()> {
    if let Some(tls) = &loaded.settings.server.front.tls {
        tls::Server::load(tls.certificates.clone()).context("tls")?;
    }
    if let Some(log) = &loaded.settings.access_log {
        log.check().map_err(anyhow::Error::msg)?;
    }
    print(&config::show(&loaded.settings))
}

fn backup(loaded: &Loaded, given: &Backup) -> anyhow::Result<()> {
    let copied = app::backup(&loaded.settings, &given.to, given.admin)?;
    let damaged = match copied.damaged {
        0 => String::new(),
        damaged => format!("; {damaged} of them are damaged, in the original too, and answer `record-unreadable`"),
    };
    let to = given.to.display();
    print(&format!(
        "{} records in {} bytes are in {to}, read back and checked{damaged}\n",
        copied.records, copied.bytes
    ))
}

fn misconfigured(error: &anyhow::Error) -> ExitCode {
    complain(&format!("oncegate: {error:#}"));
    ExitCode::from(MISCONFIGURED)
}

fn serve(loaded: Loaded, file: &Path) -> anyhow::Result<()> {
    let logs = telemetry::start(&loaded.settings.log).map_err(anyhow::Error::msg)?;
    match app::serve(loaded.settings, file, logs)? {
        Ended::Drained => Ok(()),
        Ended::AtOnce => Err(anyhow::anyhow!("ended by a second signal, before what was under way was finished")),
    }
}

/// Loads the file, says what is wrong or odd about it, and goes on if it can be used.
fn with_config(file: &ConfigFile, then: impl FnOnce(Loaded) -> anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
    match config::load(&file.config) {
        Ok(loaded) => {
            for warning in &loaded.warnings {
                complain(&format!("warning: {warning}"));
            }
            then(loaded)
        }
        Err(errors) => {
            for error in &errors {
                complain(&format!("error: {error}"));
            }
            Ok(ExitCode::from(MISCONFIGURED))
        }
    }
}

/// Writes to standard output; whoever has closed it wants no more.
fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Writes a line to standard error; when that fails too, nobody is left to tell.
fn complain(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

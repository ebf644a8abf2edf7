//! A server as a child process, and what the system tells of it: processor time, memory, descriptors.
//! It ends when its value is dropped.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use oncegate::clock::Clock;

/// How many ticks of `/proc/PID/stat` make a second: Linux tells all programs 100, whatever the kernel counts in.
const TICKS: u32 = 100;
const STARTS_WITHIN: Duration = Duration::from_mins(1);

/// A child process; a server that has children of its own also says how to be stopped.
pub(crate) struct Process {
    child: Child,
    stop: Option<Command>,
}

impl Process {
    /// Starts the command and waits until the port takes connections.
    pub(crate) fn start(mut command: Command, port: u16, log: &Path, stop: Option<Command>) -> Result<Self> {
        let mut process = Self::spawn(&mut command, log, stop)?;
        let begun = Clock::instant();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = process.child.try_wait()?;
            if ended.is_some() || begun.elapsed() > STARTS_WITHIN {
                bail!("{} does not answer ({ended:?}):\n{}", name(&command), fs::read_to_string(log)?);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(process)
    }

    /// Starts the command, and does not wait.
    pub(crate) fn spawn(command: &mut Command, log: &Path, stop: Option<Command>) -> Result<Self> {
        let output = fs::File::create(log)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let child = command.spawn().with_context(|| format!("starting {}", name(command)))?;
        Ok(Self { child, stop })
    }

    /// The process and its children: they come first and stay, so that none is missed.
    pub(crate) fn ids(&self) -> Result<Vec<u32>> {
        let own = self.child.id();
        let mut ids = vec![own];
        for entry in fs::read_dir("/proc")? {
            let id = entry?.file_name().to_str().and_then(|name| name.parse().ok());
            ids.extend(id.filter(|&id| stat(id).is_some_and(|stat| stat.parent == own)));
        }
        Ok(ids)
    }

    /// Processor time: of all, and of that in user space.
    pub(crate) fn processor_time(&self) -> Result<(Duration, Duration)> {
        let stats = self.ids()?.into_iter().filter_map(stat);
        let (all, user) = stats.fold((0, 0), |(all, user), stat| (all + stat.user + stat.system, user + stat.user));
        Ok((Duration::from_secs(all) / TICKS, Duration::from_secs(user) / TICKS))
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory in bytes; what several of them share counts for each.
    pub(crate) fn resident(&self) -> Result<u64> {
        self.ids()?.into_iter().map(|id| resident(&id.to_string())).sum()
    }

    /// Open descriptors.
    pub(crate) fn descriptors(&self) -> Result<usize> {
        let counts = self.ids()?.into_iter().map(|id| Ok(fs::read_dir(format!("/proc/{id}/fd"))?.count()));
        counts.sum()
    }

    /// How many of its own descriptors are of this kind.
    pub(crate) fn opened(&self, kind: &str) -> Result<usize> {
        let files = fs::read_dir(format!("/proc/{}/fd", self.child.id()))?.filter_map(Result::ok);
        let targets = files.filter_map(|file| fs::read_link(file.path()).ok());
        Ok(targets.filter(|target| target.to_string_lossy().contains(kind)).count())
    }

    /// Sends a signal, as `kill` names it.
    pub(crate) fn signal(&self, name: &str) -> Result<()> {
        let status = Command::new("kill").args(["-s", name]).arg(self.child.id().to_string()).status()?;
        anyhow::ensure!(status.success(), "kill -s {name}: {status}");
        Ok(())
    }

    /// Waits for it to end by itself.
    pub(crate) fn wait(&mut self) -> Result<()> {
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        // A killed nginx would leave its workers behind; whatever is left after the polite way is killed.
        let stopped = self.stop.as_mut().is_some_and(|stop| stop.status().is_ok_and(|status| status.success()));
        if !stopped {
            self.child.kill().ok();
        }
        self.child.wait().ok();
    }
}

fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

fn resident(process: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("a process without memory")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}

struct Stat {
    parent: u32,
    user: u64,
    system: u64,
}

/// Reads `/proc/PID/stat`; the name in parentheses may itself hold spaces and parentheses.
fn stat(process: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Stat { parent: u32::try_from(number(1)?).ok()?, user: number(11)?, system: number(12)? })
}

/// Processor time of the bench itself.
pub(crate) fn own_time() -> Result<Duration> {
    let own = stat(std::process::id()).context("no word of this process")?;
    Ok(Duration::from_secs(own.user + own.system) / TICKS)
}

/// What this process has written to, in bytes: without the pages of its code, and counted page by page, which the numbers
/// in `/proc/PID/status` are not.
pub(crate) fn own_memory() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/smaps_rollup")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:")).context("a process without memory")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}

pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

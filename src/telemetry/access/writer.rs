//! The thread that writes the access log, and how it is called. What lines say is not known here.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Destination, FULL, Pen, Settings};
use crate::telemetry::Metrics;

/// How long the writer rests when its file takes nothing.
const RETRY: Duration = Duration::from_millis(50);

/// A destination that can be written to.
#[derive(Debug)]
pub struct Opened {
    pub(super) settings: Settings,
    file: File,
}

impl Settings {
    /// Opens the destination; a file that is not there is made.
    ///
    /// # Errors
    /// When it cannot be written, in words for the operator.
    pub fn open(self) -> Result<Opened, String> {
        let file = self.to.open(true).map_err(|error| self.to.fault(&error))?;
        Ok(Opened { settings: self, file })
    }

    /// Whether it could be opened. Nothing is made: whoever looks may be another user.
    ///
    /// # Errors
    /// As far as that can be seen.
    pub fn check(&self) -> Result<(), String> {
        let Destination::File(path) = &self.to else { return Ok(()) };
        let seen = match self.to.open(false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => folder(path).read_dir().map(drop),
            opened => opened.map(drop),
        };
        seen.map_err(|error| self.to.fault(&error))
    }
}

impl Destination {
    /// Always at the end: `copytruncate` cuts a file under its writer.
    fn open(&self, create: bool) -> io::Result<File> {
        match self {
            Self::Stdout => Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?)),
            Self::File(path) => {
                // A named pipe that nobody reads yet would hold up whoever opens it for writing alone.
                let is_pipe = path.metadata().is_ok_and(|file| file.file_type().is_fifo());
                OpenOptions::new().append(true).read(is_pipe).create(create).open(path)
            }
        }
    }

    fn fault(&self, error: &io::Error) -> String {
        let (name, remedy) = match self {
            Self::Stdout => ("standard output".to_owned(), "name a file"),
            Self::File(path) => {
                (path.display().to_string(), "make its folder, let this user write there, or name another file")
            }
        };
        format!("`access_log.path`: {name} cannot be written: {error}: {remedy}")
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// How the writer is called.
#[derive(Default)]
pub(super) struct Bell {
    calls: Mutex<Calls>,
    heard: Condvar,
}

#[derive(Default)]
struct Calls {
    stage: Stage,
    waiting: Waiting,
    reopen: bool,
    next: Option<Opened>,
    end: bool,
}

/// How far the writer is.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    NotBegun,
    Runs,
    Ended,
}

/// The lines that wait.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Waiting {
    #[default]
    Nothing,
    Some,
    /// So many that they are written now.
    Full,
}

impl Calls {
    /// Whether it is not about lines.
    fn is_order(&self) -> bool {
        self.reopen || self.next.is_some() || self.end
    }
}

impl Bell {
    /// Lines wait, perhaps enough of them.
    pub(super) fn ring(&self, full: bool) {
        let mut calls = self.calls();
        calls.waiting = calls.waiting.max(if full { Waiting::Full } else { Waiting::Some });
        drop(calls);
        self.heard.notify_all();
    }

    /// Has the writer go on elsewhere; given back where there is none yet.
    pub(super) fn turn(&self, opened: Opened) -> Option<Opened> {
        let mut calls = self.calls();
        if calls.stage == Stage::NotBegun {
            calls.stage = Stage::Runs;
            return Some(opened);
        }
        calls.next = Some(opened);
        drop(calls);
        self.heard.notify_all();
        None
    }

    pub(super) fn reopen(&self) {
        self.calls().reopen = true;
        self.heard.notify_all();
    }

    pub(super) fn finish(&self, within: Duration) -> bool {
        let mut calls = self.calls();
        calls.end = true;
        self.heard.notify_all();
        let wait = self.heard.wait_timeout_while(calls, within, |calls| calls.stage == Stage::Runs);
        let (calls, _) = wait.unwrap_or_else(PoisonError::into_inner);
        calls.stage != Stage::Runs
    }

    /// Waits for lines, and then a moment for more; or, where the file takes nothing, for a better moment.
    fn wait(&self, flush: Duration, stuck: bool) -> Calls {
        let mut calls = self.calls();
        if !stuck {
            let idle = |calls: &mut Calls| calls.waiting == Waiting::Nothing && !calls.is_order();
            calls = self.heard.wait_while(calls, idle).unwrap_or_else(PoisonError::into_inner);
        }
        let (rest, enough) = if stuck { (RETRY, None) } else { (flush, Some(Waiting::Full)) };
        let patient = |calls: &mut Calls| !calls.is_order() && Some(calls.waiting) != enough;
        let (mut calls, _) =
            self.heard.wait_timeout_while(calls, rest, patient).unwrap_or_else(PoisonError::into_inner);
        let stage = calls.stage;
        std::mem::replace(&mut *calls, Calls { stage, ..Calls::default() })
    }

    /// The writer has ended.
    fn ended(&self) {
        self.calls().stage = Stage::Ended;
        self.heard.notify_all();
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The one who writes.
pub(super) struct Writer {
    pens: Vec<Arc<Pen>>,
    bell: Arc<Bell>,
    metrics: Arc<Metrics>,
    opened: Opened,
    /// The page that is being written, and how far that has come.
    page: Vec<u8>,
    written: usize,
    /// Whether the last write failed, so that a failure is told once.
    failing: bool,
}

impl Writer {
    pub(super) fn new(pens: Vec<Arc<Pen>>, bell: Arc<Bell>, metrics: Arc<Metrics>, opened: Opened) -> Self {
        Self { pens, bell, metrics, opened, page: Vec::new(), written: 0, failing: false }
    }

    /// Writes until it is told to end.
    pub(super) fn run(mut self) {
        loop {
            let calls = self.bell.wait(self.opened.settings.flush, !self.page.is_empty());
            self.round();
            if calls.reopen {
                self.reopen();
            }
            if let Some(next) = calls.next {
                self.turn(next);
            }
            if calls.end {
                self.round();
                self.give_up();
                return self.bell.ended();
            }
        }
    }

    /// Writes what waits, until the file takes no more.
    fn round(&mut self) {
        let pens = std::mem::take(&mut self.pens);
        for pen in &pens {
            if !self.write() {
                break;
            }
            std::mem::swap(&mut pen.page().bytes, &mut self.page);
        }
        self.write();
        self.pens = pens;
    }

    /// Writes the page; false when the file does not take all of it. The rest stays for another time.
    fn write(&mut self) -> bool {
        while self.written < self.page.len() {
            match self.opened.file.write(&self.page[self.written..]) {
                Ok(some @ 1..) => self.written += some,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) => return self.fail(&io::ErrorKind::WriteZero.into()),
                Err(error) => return self.fail(&error),
            }
        }
        if std::mem::take(&mut self.failing) {
            tracing::info!("the access log is written again");
        }
        self.page.clear();
        self.page.shrink_to(2 * FULL);
        self.written = 0;
        true
    }

    fn fail(&mut self, error: &io::Error) -> bool {
        // A pipe that is full is slow, not broken.
        if error.kind() != io::ErrorKind::WouldBlock && !std::mem::replace(&mut self.failing, true) {
            let fault = self.opened.settings.to.fault(error);
            tracing::error!("{fault}; lines wait as long as there is room, then they are dropped and counted");
        }
        false
    }

    /// Goes on in whatever has the file's name now; the old file stays where that cannot be had.
    fn reopen(&mut self) {
        match self.opened.settings.to.open(true) {
            Ok(file) => {
                self.opened.file = file;
                self.begin_line();
                self.round();
            }
            Err(error) => {
                let fault = self.opened.settings.to.fault(&error);
                tracing::error!("{fault}; the old file is still written to");
            }
        }
    }

    /// Goes on elsewhere. What was left by then belongs to the old file: it gets that, or it is lost.
    fn turn(&mut self, next: Opened) {
        let pens = std::mem::take(&mut self.pens);
        for pen in &pens {
            self.round_of_one(pen, &next.settings, pens.len());
        }
        self.give_up();
        self.pens = pens;
        self.opened = next;
        self.failing = false;
    }

    fn round_of_one(&mut self, pen: &Pen, settings: &Settings, pages: usize) {
        let mut page = pen.page();
        page.follow(settings, pages);
        let mut rest = std::mem::take(&mut page.bytes);
        drop(page);
        self.page.append(&mut rest);
        self.write();
    }

    /// A line of which the old file has a part is whole in the new one.
    fn begin_line(&mut self) {
        let before = &self.page[..self.written];
        self.written = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    }

    /// Drops what the file did not take.
    fn give_up(&mut self) {
        let lines = self.page[self.written..].split(|byte| *byte == b'\n');
        // What is behind the last line's end is nothing.
        self.metrics.access_log_dropped(lines.skip(1).count());
        self.page.clear();
        self.written = 0;
    }
}

//! The access log: a line for every answer, written by one thread of its own. A request only leaves its line in its
//! worker's page; what the writer cannot keep up with is dropped and counted, never waited for.

mod ink;
mod line;
mod writer;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use line::Line;
pub use writer::Opened;

use super::Metrics;
use ink::Ink;
use line::Stamp;
use writer::{Bell, Writer};

/// Where lines go, how they look, and what may wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where they go.
    pub to: Destination,
    /// How they look.
    pub format: Format,
    /// Whether they show the query of a target: it can hold secrets.
    pub query: bool,
    /// The most bytes that may wait for the writer, over all workers.
    pub buffer: usize,
    /// The longest that a line waits for others to be written with.
    pub flush: Duration,
}

/// Where lines go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// A file, or whatever has a path.
    File(PathBuf),
    /// Standard output.
    Stdout,
}

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One JSON object.
    Json,
    /// The combined format of other servers, with more fields behind it.
    Combined,
}

/// The least that a worker's page must hold, so that the longest line has room.
pub const LEAST_PAGE: usize = 192 * 1024;
/// So many bytes are written without waiting for more.
const FULL: usize = 64 * 1024;

/// The log, for as long as the process runs: it may be off, and be turned on later.
pub struct AccessLog {
    pens: Vec<Arc<Pen>>,
    bell: Arc<Bell>,
    metrics: Arc<Metrics>,
}

/// What one worker writes its lines with.
pub struct Pen {
    page: Mutex<Page>,
    bell: Arc<Bell>,
    metrics: Arc<Metrics>,
}

/// Lines that wait for the writer.
struct Page {
    bytes: Vec<u8>,
    /// Where a line is written before it goes behind the others: as long as the longest that there was room for.
    line: Vec<u8>,
    /// The most bytes that may wait here.
    most: usize,
    format: Format,
    query: bool,
    stamp: Stamp,
}

impl AccessLog {
    /// A log that is off, for so many workers.
    pub fn new(workers: usize, metrics: Arc<Metrics>) -> Self {
        let bell = Arc::new(Bell::default());
        let pen = |_| {
            let (page, bell, metrics) = (Mutex::new(Page::default()), Arc::clone(&bell), Arc::clone(&metrics));
            Arc::new(Pen { page, bell, metrics })
        };
        Self { pens: (0..workers).map(pen).collect(), bell, metrics }
    }

    /// A worker's pen.
    pub fn pen(&self, worker: usize) -> Option<Arc<Pen>> {
        self.pens.get(worker).cloned()
    }

    /// Has lines written there from now on. Those that are under way go where they were meant to go.
    ///
    /// # Errors
    /// When there can be no further thread.
    pub fn turn(&self, opened: Opened) -> io::Result<()> {
        if let Some(first) = self.bell.turn(opened) {
            self.pens.iter().for_each(|pen| pen.page().follow(&first.settings, self.pens.len()));
            let writer = Writer::new(self.pens.clone(), Arc::clone(&self.bell), Arc::clone(&self.metrics), first);
            std::thread::Builder::new().name("oncegate-access".to_owned()).spawn(move || writer.run())?;
        }
        Ok(())
    }

    /// Has the file opened anew under its name, once what waits has gone to the old one.
    pub fn reopen(&self) {
        self.bell.reopen();
    }

    /// Has everything written that waits, and ends the writer; false when that takes longer than this.
    pub fn finish(&self, within: Duration) -> bool {
        self.bell.finish(within)
    }
}

impl Pen {
    /// Leaves a line for the writer, or drops it where it does not keep up.
    pub fn write(&self, line: &Line<'_>) {
        let mut page = self.page();
        let before = page.bytes.len();
        if !page.make_room(line.most()) {
            drop(page);
            self.metrics.access_log_dropped(1);
            return;
        }
        page.append(line);
        let after = page.bytes.len();
        drop(page);
        if before < FULL && after >= FULL {
            self.bell.ring(true);
        } else if before == 0 {
            self.bell.ring(false);
        }
    }

    fn page(&self) -> MutexGuard<'_, Page> {
        self.page.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Page {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            line: Vec::new(),
            most: 0,
            format: Format::Json,
            query: false,
            stamp: Stamp::default(),
        }
    }
}

impl Page {
    /// Goes by other settings from here on. Besides all pages, there is one that is being written.
    fn follow(&mut self, settings: &Settings, pages: usize) {
        self.most = settings.buffer / (pages + 1);
        (self.format, self.query, self.stamp) = (settings.format, settings.query, Stamp::default());
    }

    /// Whether there is room for so many bytes more. Memory doubles as it fills, up to the bound.
    fn make_room(&mut self, bytes: usize) -> bool {
        let needed = self.bytes.len() + bytes;
        if needed > self.most {
            return false;
        }
        if needed > self.bytes.capacity() {
            let room = (2 * self.bytes.capacity()).clamp(needed, self.most);
            self.bytes.reserve_exact(room - self.bytes.len());
        }
        true
    }

    fn append(&mut self, line: &Line<'_>) {
        let most = line.most();
        if self.line.len() < most {
            self.line.resize(most, 0);
        }
        let mut ink = Ink::on(&mut self.line);
        match self.format {
            Format::Json => line.json(&mut ink, &mut self.stamp, self.query),
            Format::Combined => line.combined(&mut ink, &mut self.stamp, self.query),
        }
        let written = ink.written();
        self.bytes.extend_from_slice(&self.line[..written]);
    }
}

#[cfg(test)]
mod tests;

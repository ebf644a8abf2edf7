//! How long it takes from starting a server to its first answer.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Result, ensure};
use oncegate::clock::Clock;

use crate::bench::Bench;
use crate::goals::median;
use crate::processes::Process;
use crate::requests::{Looks, Requests, ask};
use crate::servers::Server::{self, Embedded, Nginx, Redis};
use crate::servers::Tuning;

const STARTS: u64 = 15;

pub(crate) fn measure(bench: &mut Bench) -> Result<()> {
    let mut times = [const { Vec::new() }; 3];
    for start in 0..STARTS {
        for (times, server) in times.iter_mut().zip([Nginx, Redis, Embedded]) {
            times.push(first_answer(bench, server, start)?);
        }
    }
    let [nginx, redis, embedded] = times.map(median);
    let made_of = format!("{redis:.1} ms; nginx {nginx:.1}, with the embedded store {embedded:.1}");
    bench.table.put("start to first answer", redis / nginx, made_of)
}

/// In milliseconds.
fn first_answer(bench: &Bench, server: Server, number: u64) -> Result<f64> {
    let running = server.place(&bench.setup)?;
    let (mut command, port, stop) = running.command(&bench.setup, &Tuning::default())?;
    let mut requests = Requests::new("start", Looks::Measured);
    let begun = Clock::instant();
    let _gateway = Process::spawn(&mut command, &running.log(), stop)?;
    loop {
        if let Ok(mut connection) = TcpStream::connect(("127.0.0.1", port)) {
            match ask(&mut connection, &mut requests, number) {
                Ok(()) => return Ok(begun.elapsed().as_secs_f64() * 1e3),
                // As a client would: nobody has promised yet that connections last.
                Err(error) if error.is::<io::Error>() => {}
                Err(error) => return Err(error),
            }
        }
        ensure!(begun.elapsed() < Duration::from_secs(10), "{server} does not start");
        std::thread::sleep(Duration::from_micros(200));
    }
}

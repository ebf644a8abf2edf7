//! The fault proxy itself: each weather does what it says, to an echo behind it, and goes away.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use oncegate::clock::Clock;

use crate::gateway::wait_until;
use crate::proxy::{Proxy, Weather};

/// Long enough for what comes at all.
const LONG: Duration = Duration::from_secs(20);
/// Long enough to believe that nothing comes.
const WHILE: Duration = Duration::from_millis(150);

/// A proxy in front of a server that says again what it hears.
fn echo() -> Proxy {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut buffer = [0; 1_024];
                while let Ok(length @ 1..) = (&stream).read(&mut buffer) {
                    let _ = (&stream).write_all(&buffer[..length]);
                }
            });
        }
    });
    Proxy::to(port)
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).unwrap();
    stream.set_nodelay(true).unwrap();
    says(&stream, "hello");
    assert_eq!(hears(&stream, LONG), Ok("hello".to_owned()));
    stream
}

fn says(mut stream: &TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).unwrap();
}

/// What comes next, or how it ends, within this time.
fn hears(mut stream: &TcpStream, within: Duration) -> Result<String, ErrorKind> {
    stream.set_read_timeout(Some(within)).unwrap();
    let mut buffer = [0; 1_024];
    match stream.read(&mut buffer) {
        Ok(length) => Ok(String::from_utf8_lossy(&buffer[..length]).into_owned()),
        Err(error) => Err(error.kind()),
    }
}

const SILENCE: Result<String, ErrorKind> = Err(ErrorKind::WouldBlock);
const RESET: Result<String, ErrorKind> = Err(ErrorKind::ConnectionReset);

#[test]
fn slow_and_held_weather_lose_nothing() {
    let proxy = echo();
    let stream = connect(&proxy);
    proxy.set(Weather::Slow(WHILE));
    let start = Clock::instant();
    says(&stream, "slowly");
    assert_eq!(hears(&stream, LONG), Ok("slowly".to_owned()));
    assert!(start.elapsed() >= 2 * WHILE);
    proxy.set(Weather::Held);
    says(&stream, "later");
    assert_eq!(hears(&stream, WHILE), SILENCE);
    proxy.set(Weather::Fair);
    assert_eq!(hears(&stream, LONG), Ok("later".to_owned()));
    // The end of what is said waits too, and comes.
    proxy.set(Weather::Held);
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(hears(&stream, WHILE), SILENCE);
    proxy.set(Weather::Fair);
    assert_eq!(hears(&stream, LONG), Ok(String::new()));
}

#[test]
fn a_cut_comes_after_so_many_bytes() {
    let proxy = echo();
    for (weather, arrives) in [(Weather::CutRequests(8), "12345678"), (Weather::CutReplies(8), "12345678")] {
        let stream = connect(&proxy);
        proxy.set(weather);
        says(&stream, "12345");
        assert_eq!(hears(&stream, LONG), Ok("12345".to_owned()));
        says(&stream, "67890");
        let rest = hears(&stream, LONG);
        // The reset may overtake what went before it.
        assert!(rest == Ok(arrives[5..].to_owned()) || rest == RESET, "{weather:?}: {rest:?}");
        if rest != RESET {
            assert_eq!(hears(&stream, LONG), RESET, "{weather:?}");
        }
        proxy.set(Weather::Fair);
    }
    let (cut, other) = (connect(&proxy), connect(&proxy));
    proxy.set(Weather::CutNextReply);
    says(&cut, "lost");
    assert_eq!(hears(&cut, LONG), RESET);
    says(&other, "whole");
    assert_eq!(hears(&other, LONG), Ok("whole".to_owned()));
}

#[test]
fn what_has_lost_a_byte_says_nothing_more() {
    let proxy = echo();
    for weather in [Weather::SwallowReplies, Weather::BlackHole] {
        let stream = connect(&proxy);
        proxy.set(weather);
        says(&stream, "lost");
        assert_eq!(hears(&stream, WHILE), SILENCE, "{weather:?}");
        proxy.set(Weather::Fair);
        assert_eq!(hears(&stream, LONG), RESET, "{weather:?}");
    }
    let old = connect(&proxy);
    proxy.silence_present_connections();
    let new = connect(&proxy);
    says(&old, "lost");
    assert_eq!(hears(&old, WHILE), SILENCE);
    says(&new, "whole");
    assert_eq!(hears(&new, LONG), Ok("whole".to_owned()));
}

#[test]
fn nobody_is_there_where_the_server_is_not() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = holder.local_addr().unwrap();
    let proxy = Proxy::to(address.port());
    assert!(TcpStream::connect(proxy.address()).is_ok());
    drop(holder);
    wait_until("connections are refused", || TcpStream::connect(proxy.address()).is_err());
    let _back = TcpListener::bind(address).unwrap();
    wait_until("connections are taken", || TcpStream::connect(proxy.address()).is_ok());
}

#[test]
fn refusing_leaves_what_is_there_and_a_reset_does_not() {
    let proxy = echo();
    let old = connect(&proxy);
    proxy.set(Weather::Refuse);
    wait_until("connections are refused", || TcpStream::connect(proxy.address()).is_err());
    says(&old, "still here");
    assert_eq!(hears(&old, LONG), Ok("still here".to_owned()));
    proxy.set(Weather::Fair);
    wait_until("connections are taken", || TcpStream::connect(proxy.address()).is_ok());
    let new = connect(&proxy);
    proxy.reset();
    assert_eq!((hears(&old, LONG), hears(&new, LONG)), (RESET, RESET));
    drop(connect(&proxy));
}

//! A TCP proxy with weather: it delays, holds, loses, cuts, resets and refuses, switched while it runs. It reads nothing
//! of what it carries, and it never does what TCP cannot do: a connection that has lost a byte carries none behind it.

#![allow(dead_code, unreachable_pub, reason = "each test crate uses its own part of it")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};

/// What befalls what a proxy carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weather {
    /// Nothing.
    Fair,
    /// Each piece waits so long, both ways.
    Slow(Duration),
    /// Nothing arrives, and nothing is lost: it arrives when the weather changes.
    Held,
    /// Each connection carries so many more bytes of what clients send; then it is reset.
    CutRequests(usize),
    /// The same of what the server sends.
    CutReplies(usize),
    /// The next reply vanishes, and its connection with it; then the weather is fair.
    CutNextReply,
    /// What the server sends is lost.
    SwallowReplies,
    /// The same, on connections up to this number.
    SwallowRepliesUpTo(usize),
    /// What either side sends is lost.
    BlackHole,
    /// Nobody listens; connections that are there live on.
    Refuse,
}

/// What happens to one piece.
enum Fate {
    Arrives,
    ArrivesAfter(Duration),
    Waits,
    IsLost,
    /// It arrives as far as this many bytes of the weather's allowance go.
    IsCutAfter(usize),
    IsCutForAll,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    ToServer,
    ToClient,
}

/// The weather, and how often it has changed and struck.
#[derive(Debug, Clone, Copy)]
struct Now {
    weather: Weather,
    change: u64,
    resets: u64,
}

/// A proxy in a thread of its own. It ends when it is dropped.
pub struct Proxy {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    now: watch::Sender<Now>,
    _stop: oneshot::Sender<()>,
}

impl Weather {
    fn fate(self, way: Way, connection: usize) -> Fate {
        match (self, way) {
            (Self::Slow(pause), _) => Fate::ArrivesAfter(pause),
            (Self::Held, _) => Fate::Waits,
            (Self::CutRequests(most), Way::ToServer) | (Self::CutReplies(most), Way::ToClient) => {
                Fate::IsCutAfter(most)
            }
            (Self::CutNextReply, Way::ToClient) => Fate::IsCutForAll,
            (Self::BlackHole, _) | (Self::SwallowReplies, Way::ToClient) => Fate::IsLost,
            (Self::SwallowRepliesUpTo(last), Way::ToClient) if connection <= last => Fate::IsLost,
            _ => Fate::Arrives,
        }
    }
}

impl Proxy {
    /// A proxy in front of 127.0.0.1:`port`.
    pub fn to(port: u16) -> Self {
        // Bound as long as the proxy lives, and never listening: the port is its own while it refuses.
        let holder = bound(SocketAddr::from(([127, 0, 0, 1], 0)));
        let address = holder.local_addr().unwrap().as_socket().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let now = watch::Sender::new(Now { weather: Weather::Fair, change: 0, resets: 0 });
        let (stop, stopped) = oneshot::channel::<()>();
        let (ready, started) = std::sync::mpsc::channel();
        let (count, control) = (Arc::clone(&accepted), now.clone());
        std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = listen(address);
                ready.send(()).unwrap();
                tokio::select! {
                    () = accept(listener, address, port, &count, &control) => {}
                    // An error when the sender is dropped: that is the sign.
                    _ = stopped => {}
                }
            });
            drop(holder);
        });
        started.recv().unwrap();
        Self { address, accepted, now, _stop: stop }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a Redis behind it.
    pub fn url(&self) -> String {
        format!("redis://{}/0", self.address)
    }

    /// How many connections there have been.
    pub fn connections(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Changes the weather. Connections that have lost something are reset.
    pub fn set(&self, weather: Weather) {
        self.now.send_modify(|now| *now = Now { weather, change: now.change + 1, ..*now });
    }

    /// Resets all connections that are there.
    pub fn reset(&self) {
        self.now.send_modify(|now| now.resets += 1);
    }

    pub fn silence_present_connections(&self) {
        self.set(Weather::SwallowRepliesUpTo(self.connections()));
    }
}

fn bound(address: SocketAddr) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.set_reuse_port(true).unwrap();
    socket.bind(&address.into()).unwrap();
    socket
}

fn listen(address: SocketAddr) -> TcpListener {
    let socket = bound(address);
    socket.set_nonblocking(true).unwrap();
    socket.listen(1_024).unwrap();
    TcpListener::from_std(socket.into()).unwrap()
}

/// Takes connections, and passes each on. While the server takes none, the proxy takes none either: who connects must see
/// that nobody is there, not a connection that breaks.
async fn accept(
    mut listener: TcpListener,
    address: SocketAddr,
    port: u16,
    count: &AtomicUsize,
    now: &watch::Sender<Now>,
) {
    let mut watched = now.subscribe();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { continue };
                let number = count.fetch_add(1, Ordering::SeqCst) + 1;
                if let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await {
                    tokio::spawn(connect(client, server, number, now.clone()));
                    continue;
                }
                reset(&client);
                drop((client, listener));
                while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
            () = becomes(&mut watched, |now| now.weather == Weather::Refuse) => {
                drop(listener);
                becomes(&mut watched, |now| now.weather != Weather::Refuse).await;
            }
        }
        listener = listen(address);
    }
}

/// Waits until it is so; for ever, when the proxy is gone.
async fn becomes(watched: &mut watch::Receiver<Now>, is_so: impl FnMut(&Now) -> bool) {
    if watched.wait_for(is_so).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// One connection, to its end: both sides have said all they had to say, or it is reset on both sides.
async fn connect(mut client: TcpStream, mut server: TcpStream, number: usize, now: watch::Sender<Now>) {
    let resets = now.borrow().resets;
    let mut struck = now.subscribe();
    // What is held back here for its own reasons must not look like weather.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ended = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let requests = Carrier { way: Way::ToServer, number, now: now.clone(), seen: 0, passed: 0 };
        let replies = Carrier { way: Way::ToClient, number, now: now.clone(), seen: 0, passed: 0 };
        tokio::select! {
            ended = async { tokio::try_join!(requests.carry(from_client, to_server), replies.carry(from_server, to_client)) } => ended.is_ok(),
            () = becomes(&mut struck, |now| now.resets != resets) => false,
        }
    };
    if !ended {
        reset(&client);
        reset(&server);
    }
}

/// Makes the connection end with a reset when it is dropped.
fn reset(stream: &TcpStream) {
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// The connection is over.
struct Broken;

/// One direction of one connection.
struct Carrier {
    way: Way,
    number: usize,
    now: watch::Sender<Now>,
    /// The change of weather that `passed` counts from.
    seen: u64,
    /// Bytes carried since then.
    passed: usize,
}

impl Carrier {
    async fn carry(mut self, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> Result<(), Broken> {
        let mut buffer = vec![0; 16 << 10];
        loop {
            let length = from.read(&mut buffer).await.map_err(|_| Broken)?;
            if length == 0 {
                self.until_it_flows().await;
                return to.shutdown().await.map_err(|_| Broken);
            }
            let arrives = self.meet(length).await?;
            to.write_all(&buffer[..arrives]).await.map_err(|_| Broken)?;
            if arrives < length {
                return Err(Broken);
            }
        }
    }

    /// What becomes of a piece: how much of it arrives. Less than all of it ends the connection.
    async fn meet(&mut self, length: usize) -> Result<usize, Broken> {
        let mut watched = self.now.subscribe();
        loop {
            let Now { weather, change, .. } = *watched.borrow_and_update();
            if change != self.seen {
                (self.seen, self.passed) = (change, 0);
            }
            match weather.fate(self.way, self.number) {
                Fate::Arrives => return Ok(length),
                Fate::ArrivesAfter(pause) => {
                    tokio::time::sleep(pause).await;
                    return Ok(length);
                }
                Fate::Waits => becomes(&mut watched, |now| now.change != change).await,
                Fate::IsLost => {
                    becomes(&mut watched, |now| now.change != change).await;
                    return Err(Broken);
                }
                Fate::IsCutAfter(most) => {
                    let arrives = length.min(most.saturating_sub(self.passed));
                    self.passed += arrives;
                    return Ok(arrives);
                }
                Fate::IsCutForAll => {
                    self.now.send_modify(|now| *now = Now { weather: Weather::Fair, change: change + 1, ..*now });
                    return Err(Broken);
                }
            }
        }
    }

    /// The end of what a side says waits like all of it.
    async fn until_it_flows(&self) {
        let mut watched = self.now.subscribe();
        let flows = |now: &Now| !matches!(now.weather, Weather::Held | Weather::BlackHole);
        becomes(&mut watched, flows).await;
    }
}

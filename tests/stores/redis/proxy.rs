//! A TCP proxy between a store and its server that can lose replies on their way back, or be away. It reads nothing.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What happens to what the server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Replies {
    Pass,
    /// They vanish; the connections stay.
    Swallow,
    /// The next one vanishes, and its connection with it.
    Cut,
    /// They vanish on the first so many connections.
    SwallowUpTo(usize),
    /// There is no way to the server: connections end, and new ones come to nothing.
    Away,
}

pub struct Proxy {
    port: u16,
    accepted: Arc<AtomicUsize>,
    replies: watch::Sender<Replies>,
}

impl Proxy {
    /// A proxy in front of 127.0.0.1:`port`.
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own_port = listener.local_addr().unwrap().port();
        let accepted = Arc::new(AtomicUsize::new(0));
        let replies = watch::Sender::new(Replies::Pass);
        let (count, control) = (Arc::clone(&accepted), replies.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let number = count.fetch_add(1, Ordering::SeqCst) + 1;
                if *control.borrow() == Replies::Away {
                    continue;
                }
                let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                tokio::spawn(carry(client, server, number, control.clone()));
            }
        });
        Self { port: own_port, accepted, replies }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// How many connections there have been.
    pub fn connections(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    pub fn pass_replies(&self) {
        self.replies.send_replace(Replies::Pass);
    }

    pub fn swallow_replies(&self) {
        self.replies.send_replace(Replies::Swallow);
    }

    pub fn go_away(&self) {
        self.replies.send_replace(Replies::Away);
    }

    pub fn cut_at_next_reply(&self) {
        self.replies.send_replace(Replies::Cut);
    }

    pub fn silence_present_connections(&self) {
        self.replies.send_replace(Replies::SwallowUpTo(self.connections()));
    }
}

/// Carries bytes both ways until one side ends, or the connection is cut.
async fn carry(mut client: TcpStream, mut server: TcpStream, number: usize, replies: watch::Sender<Replies>) {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let questions = tokio::io::copy(&mut from_client, &mut to_server);
    let answers = async {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(length @ 1..) = from_server.read(&mut buffer).await {
            let now = *replies.borrow();
            match now {
                Replies::Cut => {
                    replies.send_replace(Replies::Pass);
                    return;
                }
                Replies::Swallow | Replies::Away => continue,
                Replies::SwallowUpTo(last) if number <= last => continue,
                Replies::Pass | Replies::SwallowUpTo(_) => {}
            }
            if to_client.write_all(&buffer[..length]).await.is_err() {
                return;
            }
        }
    };
    let mut control = replies.subscribe();
    tokio::select! {
        _ = questions => {}
        () = answers => {}
        _ = control.wait_for(|replies| *replies == Replies::Away) => {}
    }
}

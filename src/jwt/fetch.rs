//! One GET for an issuer's keys, over http or https. It follows no redirect, and believes nothing of what it gets.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use http::header::{ACCEPT, HOST, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::tls::client::Client;
use crate::upstream::{Resolver, SystemResolver};

/// What is at the address, if it is there in time.
///
/// # Errors
/// Why there is nothing to be had, for the log.
pub(super) async fn fetch(
    url: &Uri,
    tls: Option<&Client>,
    size_limit: usize,
    patience: Duration,
) -> Result<Bytes, String> {
    let fetched = timeout(patience, fetch_whole(url, tls, size_limit, patience)).await;
    fetched.unwrap_or_else(|_| Err("no whole answer in time".to_owned()))
}

async fn fetch_whole(url: &Uri, tls: Option<&Client>, size_limit: usize, patience: Duration) -> Result<Bytes, String> {
    let host = url.host().ok_or("the address has no host")?;
    // A literal IPv6 address stands in brackets; names and certificates know it without.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = url.port_u16().unwrap_or(if tls.is_some() { 443 } else { 80 });
    let unreached = |error| format!("{host}:{port} is not reached: {error}");
    let addresses = SystemResolver.lookup(host, port).await.map_err(unreached)?;
    let stream = connect(&addresses, patience).await.map_err(unreached)?;
    match tls {
        None => exchange(stream, url, size_limit).await,
        Some(tls) => {
            let secured = tls.secure(stream, host).await.map_err(|error| format!("no TLS with {host}: {error}"))?;
            exchange(secured, url, size_limit).await
        }
    }
}

/// A connection to the first of these that takes one. An address that swallows everything leaves time for those after it,
/// and for the exchange.
async fn connect(addresses: &[SocketAddr], patience: Duration) -> io::Result<TcpStream> {
    let share = patience / u32::try_from(addresses.len() + 1).unwrap_or(u32::MAX);
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(late) => last = late.into(),
        }
    }
    Err(last)
}

async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(stream: S, url: &Uri, size_limit: usize) -> Result<Bytes, String> {
    let failed = |error: hyper::Error| format!("the exchange broke off: {error}");
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let asking = async move {
        let answer = sender.send_request(question(url)?).await.map_err(failed)?;
        if answer.status() != StatusCode::OK {
            return Err(format!("the answer is {}", answer.status()));
        }
        match Limited::new(answer.into_body(), size_limit).collect().await {
            Ok(whole) => Ok(whole.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => {
                Err(format!("the answer is larger than {size_limit} bytes"))
            }
            Err(error) => Err(format!("the answer broke off: {error}")),
        }
    };
    match select(pin!(asking), pin!(connection)).await {
        Either::Left((answer, _)) => answer,
        // The connection ends first where the server closes it behind its answer.
        Either::Right((_, asking)) => asking.await,
    }
}

fn question(url: &Uri) -> Result<Request<Empty<Bytes>>, String> {
    let target = url.path_and_query().map_or("/", |target| target.as_str());
    let authority = url.authority().map_or("", |authority| authority.as_str());
    let request = Request::get(target)
        .header(HOST, authority)
        .header(ACCEPT, "application/jwk-set+json, application/json")
        .header(USER_AGENT, "oncegate");
    request.body(Empty::new()).map_err(|error| error.to_string())
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::net::TcpListener;

    use socket2::{SockFilter, SockRef};

    use super::*;

    /// A listener to which nothing gets through: it takes no connection and refuses none.
    fn swallowing() -> TcpListener {
        const NOTHING: [SockFilter; 1] = [SockFilter::new(0x06, 0, 0, 0)];
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        SockRef::from(&listener).attach_filter(&NOTHING).unwrap();
        listener
    }

    #[tokio::test]
    async fn an_address_that_swallows_everything_leaves_time_for_the_next_one() {
        let swallowing = swallowing();
        let silent = swallowing.local_addr().unwrap();
        let good = TcpListener::bind("127.0.0.1:0").unwrap();
        let patience = Duration::from_secs(6);
        let found = timeout(patience, connect(&[silent, good.local_addr().unwrap()], patience)).await;
        assert_eq!(found.unwrap().unwrap().peer_addr().unwrap(), good.local_addr().unwrap());
        let nobody = connect(&[silent], Duration::from_millis(100)).await;
        assert_eq!(nobody.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}

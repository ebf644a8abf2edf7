//! The PROXY protocol's header, versions 1 and 2: from the bytes to the address it names. Whom it is taken from is
//! decided elsewhere.

use std::io;
use std::net::IpAddr;

use ppp::{v1, v2};
use tokio::io::AsyncRead;

use crate::wire::Ahead;

/// What a header of version 2 begins with.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// What it has before its addresses.
const FIXED: usize = 16;
/// How long it may be, with everything that a proxy adds.
const MOST: usize = 4096;
/// What a header of version 1 begins with.
const WORD: &[u8] = b"PROXY ";
/// How long it may be.
const LINE: usize = 107;

/// Why a connection has no header.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// It ended, or broke, before.
    #[error("{0}")]
    Broken(#[from] io::Error),
    /// What came is none.
    #[error("no PROXY header: {0}")]
    Garbled(String),
}

/// Takes the header from the stream; what it says of the client's address, if anything.
///
/// A health check of the proxy's own (`LOCAL`, `UNKNOWN`) has none.
pub(super) async fn take<IO: AsyncRead + Unpin>(stream: &mut Ahead<IO>) -> Result<Option<IpAddr>, Fault> {
    loop {
        if let Some((length, address)) = parse(stream.seen()).map_err(Fault::Garbled)? {
            stream.consume(length);
            return Ok(address);
        }
        if !stream.more().await? {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    }
}

/// A header's length and address; none when more of it has to come. Whatever follows it is not looked at.
fn parse(seen: &[u8]) -> Result<Option<(usize, Option<IpAddr>)>, String> {
    if begins(seen, SIGNATURE) {
        return binary(seen);
    }
    if begins(seen, WORD) {
        return line(seen);
    }
    Err("it begins otherwise".to_owned())
}

/// Whether `seen` is, or may become, something that begins with `start`.
fn begins(seen: &[u8], start: &[u8]) -> bool {
    let both = seen.len().min(start.len());
    seen[..both] == start[..both]
}

fn line(seen: &[u8]) -> Result<Option<(usize, Option<IpAddr>)>, String> {
    let within = &seen[..seen.len().min(LINE)];
    let Some(end) = within.windows(2).position(|two| two == b"\r\n") else {
        return if within.len() < LINE { Ok(None) } else { Err("the line does not end".to_owned()) };
    };
    let header = v1::Header::try_from(&seen[..end + 2]).map_err(|error| error.to_string())?;
    let address = match header.addresses {
        v1::Addresses::Tcp4(addresses) => Some(addresses.source_address.into()),
        v1::Addresses::Tcp6(addresses) => Some(addresses.source_address.into()),
        v1::Addresses::Unknown => None,
    };
    Ok(Some((end + 2, address)))
}

fn binary(seen: &[u8]) -> Result<Option<(usize, Option<IpAddr>)>, String> {
    let Some(fixed) = seen.get(..FIXED) else { return Ok(None) };
    let length = FIXED + usize::from(u16::from_be_bytes([fixed[FIXED - 2], fixed[FIXED - 1]]));
    if length > MOST {
        return Err(format!("it is longer than {MOST} bytes"));
    }
    let Some(whole) = seen.get(..length) else { return Ok(None) };
    let header = v2::Header::try_from(whole).map_err(|error| error.to_string())?;
    let address = match (header.command, header.addresses) {
        (v2::Command::Proxy, v2::Addresses::IPv4(addresses)) => Some(addresses.source_address.into()),
        (v2::Command::Proxy, v2::Addresses::IPv6(addresses)) => Some(addresses.source_address.into()),
        (v2::Command::Local, _) | (_, v2::Addresses::Unix(_) | v2::Addresses::Unspecified) => None,
    };
    Ok(Some((length, address)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Version 2, IPv4 from 198.51.100.7, with a TLV.
    fn v2(version_command: u8) -> Vec<u8> {
        let addresses = [198, 51, 100, 7, 10, 0, 0, 1, 0x30, 0x39, 1, 0xbb];
        let tlv = [4, 0, 2, 0, 0];
        [SIGNATURE, &[version_command, 0x11, 0, 17], &addresses, &tlv].concat()
    }

    fn v2_ipv6() -> Vec<u8> {
        let mut header = [SIGNATURE, &[0x21, 0x21, 0, 36]].concat();
        header.extend_from_slice(&"2001:db8::7".parse::<std::net::Ipv6Addr>().unwrap().octets());
        header.extend_from_slice(&[0; 20]);
        header
    }

    #[test]
    fn each_form_is_read_whole_and_not_before() {
        let cases: [(Vec<u8>, Option<&str>); 8] = [
            (b"PROXY TCP4 198.51.100.7 10.0.0.1 12345 443\r\n".to_vec(), Some("198.51.100.7")),
            (b"PROXY TCP6 2001:db8::7 ::1 12345 443\r\n".to_vec(), Some("2001:db8::7")),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (b"PROXY UNKNOWN 198.51.100.7 10.0.0.1 12345 443\r\n".to_vec(), None),
            (v2(0x21), Some("198.51.100.7")),
            (v2(0x20), None),
            (v2_ipv6(), Some("2001:db8::7")),
            ([SIGNATURE, &[0x21, 0x00, 0, 0]].concat(), None),
        ];
        for (header, address) in cases {
            let expected = Ok(Some((header.len(), address.map(|address| address.parse().unwrap()))));
            assert_eq!(parse(&header), expected, "{}", header.escape_ascii());
            assert_eq!(parse(&[&header[..], b"\r\nGET / HTTP/1.1\r\n"].concat()), expected);
            for cut in 0..header.len() {
                assert_eq!(parse(&header[..cut]), Ok(None), "{}", header[..cut].escape_ascii());
            }
        }
    }

    #[test]
    fn what_is_no_header_is_refused_as_soon_as_it_shows() {
        let over = [SIGNATURE, &[0x21, 0x11, 0xff, 0xff]].concat();
        let short = [SIGNATURE, &[0x21, 0x11, 0, 2, 1, 2]].concat();
        let endless = [WORD, &[b'1'; 101]].concat();
        for bytes in [
            &b"G"[..],
            b"PROXY\n",
            b"PROXY TCP4 198.51.100.7 10.0.0.1 12345\r\n",
            b"PROXY TCP4 2001:db8::7 ::1 1 2\r\n",
            b"PROXY TCP4 1.2.3.4 1.2.3.4 1 70000\r\n",
            b"PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n",
            b"PROXY \xff\r\n",
            b"\r\n\r\n\0\r\nQUIX",
            &v2(0x11),
            &v2(0x22),
            &over,
            &short,
            &endless,
        ] {
            assert!(parse(bytes).is_err(), "{}", bytes.escape_ascii());
        }
    }
}

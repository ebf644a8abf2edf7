//! Content codings: whatever comes is decoded within bounds or left as it is, and what is certainly encoded is decoded to
//! what it was. The second opinion encodes by itself, without compressing.

use http::header::{CONTENT_ENCODING, HeaderValue};
use oncegate::keys::{
    Coding, Decoding, Explanation, FingerprintSettings, Refusal, Request, Source, Undecoded, explain,
};

use super::view::{post, seen, settings};

const SIZE: usize = 1 << 16;
const RATIO: usize = 50;
const NAMES: [&str; 8] = ["gzip", "br", "zstd", "deflate", "gzip, br", "br, zstd", "x-gzip, identity, zstd", "lzma"];

/// Takes the input for a stream in a coding that its first byte chooses, and its rest for content.
pub fn check(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let name = NAMES[usize::from(*first) % NAMES.len()];
    as_stream(name, rest);
    as_content(rest);
}

fn fingerprint() -> FingerprintSettings {
    let codings = vec![Coding::Gzip, Coding::Brotli, Coding::Zstd, Coding::Deflate];
    FingerprintSettings {
        decode: Some(Decoding { codings, ratio: RATIO, size: SIZE }),
        ..FingerprintSettings::default()
    }
}

fn encoded(name: &'static str, body: &[u8]) -> Request {
    let mut request = post("application/json", body);
    request.headers.insert(CONTENT_ENCODING, HeaderValue::from_static(name));
    request
}

fn of(request: &Request, source: Option<Source>) -> Result<Explanation, Refusal> {
    explain(&settings(source, fingerprint()), request)
}

fn read(request: &Request) -> Explanation {
    of(request, None).unwrap_or_else(|refusal| panic!("nothing was asked for, yet: {refusal}"))
}

fn as_stream(name: &'static str, stream: &[u8]) {
    let request = encoded(name, stream);
    let seen = read(&request);
    let key = of(&request, Some(Source::Json("/a".to_owned())));
    match seen.decoded {
        Some(Ok(length)) => assert!(length <= SIZE && length <= RATIO * stream.len(), "{length}"),
        Some(Err(Undecoded::TooLarge { limit })) => {
            assert_eq!(limit, SIZE.min(RATIO * stream.len()));
            assert_eq!(key.map(|_| ()), Err(Refusal::BodyTooLarge { limit }));
        }
        Some(Err(Undecoded::Unknown | Undecoded::Broken)) => {
            assert!(matches!(key, Err(Refusal::KeyInvalid(_))), "{key:?}");
        }
        None => panic!("it is encoded"),
    }
    assert_eq!(name == "lzma", seen.decoded == Some(Err(Undecoded::Unknown)));
}

fn as_content(content: &[u8]) {
    let expected = seen(&post("application/json", content));
    let fits = content.len() <= SIZE;
    for (name, stream) in [
        ("gzip", gzip(content)),
        ("br", brotli(content)),
        ("zstd", zstd(content)),
        ("deflate", zlib(content)),
        ("br, gzip", gzip(&brotli(content))),
    ] {
        if !fits {
            continue;
        }
        let seen = read(&encoded(name, &stream));
        // What lies on top of it is larger than the content, and has the same bound.
        let bound = SIZE.min(RATIO * stream.len());
        if brotli(content).len() <= bound {
            assert_eq!(seen.decoded, Some(Ok(content.len())), "{name}");
            assert_eq!(seen.canonical, expected.canonical, "{name}");
        }
        let cut = read(&encoded(name, &stream[..stream.len() - 1]));
        assert!(matches!(cut.decoded, Some(Err(_))), "{name} cut short");
        let longer = read(&encoded(name, &[&stream[..], b"\x01"].concat()));
        assert!(matches!(longer.decoded, Some(Err(_))), "{name} with more");
    }
}

/// Deflate's blocks without compression (RFC 1951, section 3.2.4).
fn stored(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for block in content.chunks(0xffff) {
        let length = u16::try_from(block.len()).unwrap_or_default();
        out.push(0);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(block);
    }
    out.extend_from_slice(&[1, 0, 0, 0xff, 0xff]);
    out
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let crc = !content.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
    });
    let length = u32::try_from(content.len()).unwrap_or_default();
    let head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    [&head[..], &stored(content), &crc.to_le_bytes(), &length.to_le_bytes()].concat()
}

fn zlib(content: &[u8]) -> Vec<u8> {
    let (a, b) = content.iter().fold((1_u32, 0_u32), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65_521;
        (a, (b + a) % 65_521)
    });
    [&[0x78, 0x01][..], &stored(content), &(b << 16 | a).to_be_bytes()].concat()
}

/// Meta-blocks without compression (RFC 7932, section 9.2), in a window of 64 KiB.
fn brotli(content: &[u8]) -> Vec<u8> {
    let (mut out, mut bits) = (Vec::new(), 1);
    for block in content.chunks(1 << 16) {
        let header = (u32::try_from(block.len() - 1).unwrap_or_default() << 3 | 1 << 19) << bits;
        out.extend_from_slice(&header.to_le_bytes()[..3]);
        out.extend_from_slice(block);
        bits = 0;
    }
    out.push(0b11 << bits);
    out
}

/// One frame of raw blocks (RFC 8878, section 3.1.1.2), in a window of 128 KiB.
fn zstd(content: &[u8]) -> Vec<u8> {
    let mut out = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3];
    for block in content.chunks(1 << 17) {
        let header = u32::try_from(block.len()).unwrap_or_default() << 3;
        out.extend_from_slice(&header.to_le_bytes()[..3]);
        out.extend_from_slice(block);
    }
    out.extend_from_slice(&[1, 0, 0]);
    out
}

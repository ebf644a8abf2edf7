//! Each coding against streams of other implementations, and against what is no stream. Keys are not looked at.

use std::io::Write;

use flate2::write::{GzEncoder, ZlibEncoder};
use flate2::{Compression, GzBuilder};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::*;

const TEXT: &[u8] =
    br#"{"order":{"no":"A-1"},"items":[1,2,3],"note":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}"#;

/// [`TEXT`] as Node's zlib writes it (the reference encoder of Brotli).
const BROTLI: &str = "1b6b00a02c0eec361f5f101753e55751fc2bd35a24666b6f878904b92d9dbe6411e9ea16999937b001078a8917a0ad17e6d3f9723f4625b058d4fc280116";
/// The same with a large window.
const LARGE_WINDOW: &str = "115eac0180b238b0db7c7c415c4c955f45f1af4c6b9198adbd1d2612e4b674fa9245a4ab5b6466dec0061c28265e80b65e181f9d2ff76354028b45cd8f126001";
/// 16 MiB of zeros as Node's zlib writes them.
const BROTLI_ZEROS: &str = "cbffff3ff82700e2b14020f7fe2ffffffff04f00c4611180eefd1f";
/// [`TEXT`] as Node's zlib writes it in deflate.
const ZLIB: &str = "789cab56ca2f4a492d52b2aa56cacb57b25272d43554aad551ca2c49cd2d56b28a36d431d2318ed551cacb2f4955b2524aa40028d502005f8c249b";
/// The same without zlib's frame, which some clients take for HTTP's deflate.
const RAW_DEFLATE: &str =
    "ab56ca2f4a492d52b2aa56cacb57b25272d43554aad551ca2c49cd2d56b28a36d431d2318ed551cacb2f4955b2524aa40028d50200";
/// [`TEXT`] as the zstd tool writes it, with its length and checksum.
const ZSTD: &str = "28b52ffd246c9d010012c30a11b06b0c99e58a07eca8232ebf20aa4d562af1b3be8fadd38c14198aeed4be74c60320eb6c0df5b6a8b16101008704ca008885d9";
/// The same without both.
const ZSTD_BARE: &str = "28b52ffd0058c5010014037b226f72646572223a7b226e6f223a22412d31227d2c226974656d73223a5b312c322c335d2c226e6f7465223a2261227d01008704ca";
/// Nothing, as the zstd tool writes it.
const ZSTD_NOTHING: &str = "28b52ffd240001000099e9d851";

const ALL: [Coding; 4] = [Coding::Gzip, Coding::Brotli, Coding::Zstd, Coding::Deflate];

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zlib(text: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zstd(text: &[u8]) -> Vec<u8> {
    compress_to_vec(text, CompressionLevel::Fastest)
}

/// Streams of [`TEXT`] in each coding.
fn streams() -> [(Coding, Vec<u8>); 6] {
    [
        (Coding::Gzip, gzip(TEXT)),
        (Coding::Brotli, bytes(BROTLI)),
        (Coding::Zstd, bytes(ZSTD)),
        (Coding::Zstd, bytes(ZSTD_BARE)),
        (Coding::Zstd, zstd(TEXT)),
        (Coding::Deflate, bytes(ZLIB)),
    ]
}

fn decode(names: &[&str], sent: &[u8]) -> Result<Vec<u8>, Undecoded> {
    let decoding = Decoding { codings: ALL.to_vec(), ratio: 1000, size: 1 << 20 };
    let lines: Vec<_> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
    decoding.decode(&lines, sent)
}

fn alone(coding: Coding, sent: &[u8]) -> Result<Vec<u8>, Undecoded> {
    decode(&[coding.word()], sent)
}

#[test]
fn what_others_encode_is_decoded() {
    for (coding, stream) in streams() {
        assert_eq!(alone(coding, &stream).as_deref(), Ok(TEXT), "{coding:?}");
    }
    assert_eq!(decode(&["x-gzip"], &gzip(TEXT)).as_deref(), Ok(TEXT));
}

#[test]
fn streams_of_nothing_are_nothing_and_no_bytes_are_no_stream() {
    let nothing = [
        (Coding::Gzip, gzip(b"")),
        (Coding::Brotli, bytes("3b")),
        (Coding::Zstd, bytes(ZSTD_NOTHING)),
        (Coding::Deflate, zlib(b"")),
    ];
    for (coding, stream) in nothing {
        assert_eq!(alone(coding, &stream).as_deref(), Ok(&b""[..]), "{coding:?}");
        assert_eq!(alone(coding, b""), Err(Undecoded::Broken), "{coding:?}");
    }
}

#[test]
fn a_stream_ends_where_the_body_ends() {
    for (coding, stream) in streams() {
        for end in 1..stream.len() {
            assert_eq!(alone(coding, &stream[..end]), Err(Undecoded::Broken), "{coding:?} cut at {end}");
        }
        for more in [&b"\0"[..], b"\n", b"{}", b"\x1f\x8b"] {
            let longer = [&stream, more].concat();
            assert_eq!(alone(coding, &longer), Err(Undecoded::Broken), "{coding:?} and {more:?}");
        }
    }
}

#[test]
fn sums_and_stated_lengths_are_checked() {
    let wrong = |mut stream: Vec<u8>, from_end: usize| {
        let at = stream.len() - from_end;
        stream[at] ^= 1;
        stream
    };
    assert_eq!(alone(Coding::Gzip, &wrong(gzip(TEXT), 1)), Err(Undecoded::Broken), "its length");
    assert_eq!(alone(Coding::Gzip, &wrong(gzip(TEXT), 5)), Err(Undecoded::Broken), "its sum");
    assert_eq!(alone(Coding::Deflate, &wrong(bytes(ZLIB), 1)), Err(Undecoded::Broken), "its sum");
    assert_eq!(alone(Coding::Zstd, &wrong(bytes(ZSTD), 1)), Err(Undecoded::Broken), "its sum");
    let mut longer = bytes(ZSTD);
    longer[5] += 1;
    assert_eq!(alone(Coding::Zstd, &longer), Err(Undecoded::Broken), "its length");
}

#[test]
fn members_and_frames_follow_each_other() {
    let (one, other) = TEXT.split_at(40);
    assert_eq!(alone(Coding::Gzip, &[gzip(one), gzip(other)].concat()).as_deref(), Ok(TEXT));
    // A skippable frame of three bytes, and an empty one.
    let skipped = [&b"\x50\x2a\x4d\x18\x03\0\0\0abc"[..], b"\x5f\x2a\x4d\x18\0\0\0\0"].concat();
    let frames = [zstd(one), skipped.clone(), zstd(other), skipped].concat();
    assert_eq!(alone(Coding::Zstd, &frames).as_deref(), Ok(TEXT));
    let beyond = [zstd(TEXT), b"\x50\x2a\x4d\x18\x04\0\0\0abc".to_vec()].concat();
    assert_eq!(alone(Coding::Zstd, &beyond), Err(Undecoded::Broken), "it skips beyond the end");
    assert_eq!(alone(Coding::Deflate, &[bytes(ZLIB), bytes(ZLIB)].concat()), Err(Undecoded::Broken));
    assert_eq!(alone(Coding::Brotli, &[bytes(BROTLI), bytes(BROTLI)].concat()), Err(Undecoded::Broken));
}

#[test]
fn fields_of_a_gzip_header_do_not_count() {
    let build =
        GzBuilder::new().mtime(1_700_000_000).filename("order.json").comment("by hand").extra(&b"ab\x01\0c"[..]);
    let mut encoder = build.write(Vec::new(), Compression::best());
    encoder.write_all(TEXT).unwrap();
    let stream = encoder.finish().unwrap();
    assert_ne!(stream, gzip(TEXT));
    assert_eq!(alone(Coding::Gzip, &stream).as_deref(), Ok(TEXT));
}

#[test]
fn codings_are_taken_off_in_the_order_against_that_they_were_applied_in() {
    let twice = gzip(&bytes(BROTLI));
    for names in [&["br, gzip"][..], &["br", "gzip"], &["identity, br,, gzip"], &["br,gzip "], &["br", "", "gzip"]] {
        assert_eq!(decode(names, &twice).as_deref(), Ok(TEXT), "{names:?}");
    }
    assert_eq!(decode(&["gzip, br"], &twice), Err(Undecoded::Broken));
    let thrice = gzip(&gzip(&gzip(TEXT)));
    assert_eq!(decode(&["gzip, gzip, gzip"], &thrice).as_deref(), Ok(TEXT));
    assert_eq!(decode(&["gzip, gzip, gzip, gzip"], &gzip(&thrice)), Err(Undecoded::Unknown), "too many");
}

#[test]
fn other_codings_are_unknown() {
    for name in ["compress", "gzip;q=1", "gzip br", "\"gzip\"", "aes128gcm, gzip", "x-br", "dcb", "gzip, *"] {
        assert_eq!(decode(&[name], &gzip(TEXT)), Err(Undecoded::Unknown), "{name}");
    }
    let none_but = Decoding { codings: vec![Coding::Zstd], ratio: 100, size: 1 << 20 };
    assert_eq!(none_but.decode(&[b"gzip".to_vec()], &gzip(TEXT)), Err(Undecoded::Unknown));
    assert_eq!(alone(Coding::Deflate, &bytes(RAW_DEFLATE)), Err(Undecoded::Broken));
}

#[test]
fn windows_have_an_end() {
    assert_eq!(alone(Coding::Brotli, &bytes(LARGE_WINDOW)), Err(Undecoded::Broken));
    // Frames that ask for windows of 8 MiB, 9 MiB and 1 TiB, and hold one byte.
    for (window, expected) in
        [(13 << 3, Ok(b"a".to_vec())), (13 << 3 | 1, Err(Undecoded::Broken)), (30 << 3, Err(Undecoded::Broken))]
    {
        let frame = [&[0x28, 0xb5, 0x2f, 0xfd, 0, window][..], &[0x09, 0, 0], b"a"].concat();
        assert_eq!(alone(Coding::Zstd, &frame), expected, "{window:#x}");
    }
    // One that needs a dictionary.
    let frame = [&[0x28, 0xb5, 0x2f, 0xfd, 0x01, 0x40, 7][..], &[0x09, 0, 0], b"a"].concat();
    assert_eq!(alone(Coding::Zstd, &frame), Err(Undecoded::Broken));
}

/// A frame of so many blocks that each repeat one byte 128 KiB long.
fn zstd_bomb(blocks: usize) -> Vec<u8> {
    let block = |last: bool| {
        let header = u32::from(last) | 1 << 1 | (128 << 10) << 3;
        [&header.to_le_bytes()[..3], b"\0"].concat()
    };
    let blocks: Vec<u8> = (1..=blocks).flat_map(|at| block(at == blocks)).collect();
    [&[0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3][..], &blocks].concat()
}

#[test]
fn a_bomb_is_let_go_at_the_bound() {
    let zeros = vec![0; 16 << 20];
    let bombs = [
        (Coding::Gzip, gzip(&zeros)),
        (Coding::Brotli, bytes(BROTLI_ZEROS)),
        (Coding::Zstd, zstd_bomb(128)),
        (Coding::Deflate, zlib(&zeros)),
    ];
    for (coding, bomb) in bombs {
        let decoding = |ratio, size| Decoding { codings: ALL.to_vec(), ratio, size };
        let lines = [coding.word().as_bytes().to_vec()];
        let whole = decoding(1 << 30, 16 << 20).decode(&lines, &bomb);
        assert!(whole.is_ok_and(|whole| whole == zeros), "{coding:?}");
        for (ratio, size, limit) in [
            (1 << 30, (16 << 20) - 1, (16 << 20) - 1),
            (1 << 30, 1 << 20, 1 << 20),
            (20, 16 << 20, 20 * bomb.len()),
            (1, 1, 1),
        ] {
            let decoded = decoding(ratio, size).decode(&lines, &bomb);
            assert_eq!(decoded, Err(Undecoded::TooLarge { limit }), "{coding:?} {ratio} {size}");
        }
    }
}

#[test]
fn a_bomb_inside_another_is_let_go_too() {
    let inner = gzip(&vec![0; 4 << 20]);
    let outer = gzip(&inner);
    assert!(outer.len() * 4 < inner.len());
    let decoding = Decoding { codings: ALL.to_vec(), ratio: 1000, size: 8 << 20 };
    let limit = 1000 * outer.len();
    let decoded = decoding.decode(&[b"gzip, gzip".to_vec()], &outer);
    assert_eq!(decoded, Err(Undecoded::TooLarge { limit }));
}

#[test]
fn whatever_fits_exactly_is_decoded() {
    for (coding, stream) in streams() {
        let decoding = |size| Decoding { codings: ALL.to_vec(), ratio: 1000, size };
        let lines = [coding.word().as_bytes().to_vec()];
        assert_eq!(decoding(TEXT.len()).decode(&lines, &stream).as_deref(), Ok(TEXT), "{coding:?}");
        let limit = TEXT.len() - 1;
        assert_eq!(decoding(limit).decode(&lines, &stream), Err(Undecoded::TooLarge { limit }), "{coding:?}");
    }
}

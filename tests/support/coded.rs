//! Bodies in content codings, as clients would send them. It decodes nothing.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::Write;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// gzip, as good as it gets.
pub(crate) fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// gzip without compression: other bytes for the same content.
pub(crate) fn gzip_stored(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// What HTTP calls deflate.
pub(crate) fn deflate(content: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// Zstandard, lightly compressed.
pub(crate) fn zstd(content: &[u8]) -> Vec<u8> {
    compress_to_vec(content, CompressionLevel::Fastest)
}

/// Brotli of uncompressed meta-blocks (RFC 7932, section 9.2): there is no encoder here.
pub(crate) fn brotli(content: &[u8]) -> Vec<u8> {
    // WBITS: one bit, for a window of 64 KiB. It stands before the first meta-block's header.
    let (mut stream, mut bits) = (Vec::new(), 1);
    for block in content.chunks(1 << 16) {
        let length = u32::try_from(block.len() - 1).unwrap();
        // ISLAST: 0, MNIBBLES: 0 (four), MLEN - 1, ISUNCOMPRESSED: 1.
        let header = (length << 3 | 1 << 19) << bits;
        stream.extend_from_slice(&header.to_le_bytes()[..3]);
        stream.extend_from_slice(block);
        bits = 0;
    }
    // ISLAST and ISLASTEMPTY.
    stream.push(0b11 << bits);
    stream
}

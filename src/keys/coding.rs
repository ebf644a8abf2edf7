//! Content codings (RFC 9110, section 8.4): from the bytes of a body to its content, within bounds. Strict: what is not
//! whole and exact has no content. It knows nothing of what the content is.

use std::io::Read;

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::bufread::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Codings on top of each other beyond this are not taken off.
const MOST: usize = 3;

/// The largest window that a zstd frame may ask for in HTTP (RFC 9659).
const ZSTD_WINDOW: u64 = 8 << 20;

/// How much is made room for at once.
const CHUNK: usize = 16 << 10;

/// A coding that can be taken off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// gzip (RFC 1952), of any number of members.
    Gzip,
    /// Brotli (RFC 7932), without large windows.
    Brotli,
    /// Zstandard (RFC 8878), of any number of frames, without dictionary.
    Zstd,
    /// zlib (RFC 1950), which is what HTTP calls deflate.
    Deflate,
}

/// Which codings are taken off, and how far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoding {
    /// Bodies in any other coding are taken as sent.
    pub codings: Vec<Coding>,
    /// How many times its length a body may decode to.
    pub ratio: usize,
    /// How many bytes a body may decode to.
    pub size: usize,
}

/// Why a body is taken as sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Undecoded {
    /// Some coding is none of those that are taken off, or there are too many.
    #[error("its content coding is none that this route takes off")]
    Unknown,
    /// It is not what its coding says, not whole, or has something behind its end.
    #[error("it is not what its content coding says")]
    Broken,
    /// It would decode to more than this many bytes.
    #[error("it decodes to more than {limit} bytes")]
    TooLarge {
        /// The bound.
        limit: usize,
    },
}

impl Coding {
    /// As the configuration and `Content-Encoding` write it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
            Self::Deflate => "deflate",
        }
    }

    fn decode(self, coded: &[u8], limit: usize) -> Result<Vec<u8>, Undecoded> {
        match self {
            Self::Gzip => gunzip(coded, limit),
            Self::Brotli => unbrotli(coded, limit),
            Self::Zstd => unzstd(coded, limit),
            Self::Deflate => inflate(coded, limit),
        }
    }
}

impl Decoding {
    /// How many bytes a body of this length may decode to.
    pub fn limit(&self, sent: usize) -> usize {
        self.size.min(self.ratio.saturating_mul(sent))
    }

    /// The codings that these lines of `Content-Encoding` name, in the order in which they were applied; none unless all
    /// of them can be taken off.
    pub(super) fn known(&self, lines: &[Vec<u8>]) -> Option<Vec<Coding>> {
        let tokens = lines.iter().flat_map(|line| line.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
        let named = tokens.filter(|name| !matches!(*name, b"" | b"identity")).map(|name| {
            // RFC 9110, section 8.4.1.3.
            let name = if name == b"x-gzip" { b"gzip" } else { name };
            self.codings.iter().copied().find(|coding| coding.word().as_bytes() == name)
        });
        named.collect::<Option<Vec<_>>>().filter(|codings| (1..=MOST).contains(&codings.len()))
    }

    /// Takes off all codings that these lines name.
    pub(super) fn decode(&self, lines: &[Vec<u8>], sent: &[u8]) -> Result<Vec<u8>, Undecoded> {
        let limit = self.limit(sent.len());
        let codings = self.known(lines).ok_or(Undecoded::Unknown)?;
        let (last, before) = codings.split_last().ok_or(Undecoded::Unknown)?;
        let decoded = last.decode(sent, limit);
        before.iter().rev().fold(decoded, |decoded, coding| coding.decode(&decoded?, limit))
    }
}

fn gunzip(coded: &[u8], limit: usize) -> Result<Vec<u8>, Undecoded> {
    let mut decoded = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    // It checks each member's sum and length, and takes whatever follows one for the next.
    MultiGzDecoder::new(coded).take(most).read_to_end(&mut decoded).map_err(|_| Undecoded::Broken)?;
    within(decoded, limit)
}

fn inflate(coded: &[u8], limit: usize) -> Result<Vec<u8>, Undecoded> {
    let (mut stream, mut decoded) = (Decompress::new(true), Vec::new());
    loop {
        decoded.reserve(CHUNK.min(limit + 1));
        let (taken, given) = (stream.total_in(), stream.total_out());
        let rest = usize::try_from(taken).ok().and_then(|taken| coded.get(taken..)).unwrap_or_default();
        let status = stream.decompress_vec(rest, &mut decoded, FlushDecompress::None);
        let status = status.map_err(|_| Undecoded::Broken)?;
        if decoded.len() > limit {
            return Err(Undecoded::TooLarge { limit });
        }
        let moved = stream.total_in() > taken || stream.total_out() > given;
        match status {
            Status::StreamEnd if stream.total_in() == coded.len() as u64 => return Ok(decoded),
            Status::Ok | Status::BufError if moved => {}
            Status::StreamEnd | Status::Ok | Status::BufError => return Err(Undecoded::Broken),
        }
    }
}

fn unbrotli(coded: &[u8], limit: usize) -> Result<Vec<u8>, Undecoded> {
    let alloc = StandardAlloc::default;
    let mut state = BrotliState::new_strict(alloc(), alloc(), alloc());
    let (mut left, mut at, mut total, mut decoded) = (coded.len(), 0, 0, Vec::new());
    loop {
        let mut end = decoded.len();
        decoded.resize(end + CHUNK.min(limit + 1), 0);
        let mut room = decoded.len() - end;
        let result = BrotliDecompressStream(
            &mut left,
            &mut at,
            coded,
            &mut room,
            &mut end,
            &mut decoded,
            &mut total,
            &mut state,
        );
        decoded.truncate(end);
        match result {
            _ if end > limit => return Err(Undecoded::TooLarge { limit }),
            BrotliResult::NeedsMoreOutput => {}
            BrotliResult::ResultSuccess if left == 0 => return Ok(decoded),
            BrotliResult::ResultSuccess | BrotliResult::NeedsMoreInput | BrotliResult::ResultFailure => {
                return Err(Undecoded::Broken);
            }
        }
    }
}

fn unzstd(coded: &[u8], limit: usize) -> Result<Vec<u8>, Undecoded> {
    let (mut rest, mut decoded) = (coded, Vec::new());
    if rest.is_empty() {
        return Err(Undecoded::Broken);
    }
    while !rest.is_empty() {
        let head = rest;
        let mut frames = FrameDecoder::new();
        frames.set_max_window_size(ZSTD_WINDOW);
        match frames.init(&mut rest) {
            Ok(()) => {}
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                rest = usize::try_from(length).ok().and_then(|length| rest.get(length..)).ok_or(Undecoded::Broken)?;
                continue;
            }
            Err(_) => return Err(Undecoded::Broken),
        }
        let content = zstd_frame(&mut frames, &mut rest, limit - decoded.len());
        let content = content.map_err(|fault| fault.unwrap_or(Undecoded::TooLarge { limit }))?;
        if zstd_size(head, &frames).is_some_and(|size| size != content.len() as u64) {
            return Err(Undecoded::Broken);
        }
        decoded.extend_from_slice(&content);
    }
    Ok(decoded)
}

/// The content of a frame whose header is read. No fault's name: it is more than `left` bytes.
fn zstd_frame(decoder: &mut FrameDecoder, rest: &mut &[u8], left: usize) -> Result<Vec<u8>, Option<Undecoded>> {
    let strategy = BlockDecodingStrategy::UptoBytes(left + 1);
    let whole = decoder.decode_blocks(rest, strategy).map_err(|_| Some(Undecoded::Broken))?;
    let content = decoder.collect().unwrap_or_default();
    if !whole || content.len() > left {
        return Err(None);
    }
    match decoder.get_checksum_from_data() {
        Some(sum) if decoder.get_calculated_checksum() != Some(sum) => Err(Some(Undecoded::Broken)),
        _ => Ok(content),
    }
}

/// The length of its content that a frame's header states, where it does.
fn zstd_size(frame: &[u8], decoder: &FrameDecoder) -> Option<u64> {
    // RFC 8878, section 3.1.1.1.1: the two flags in the byte after the magic number.
    let states = frame.get(4).is_some_and(|descriptor| descriptor >> 6 != 0 || descriptor & 0x20 != 0);
    states.then(|| decoder.content_size())
}

fn within(decoded: Vec<u8>, limit: usize) -> Result<Vec<u8>, Undecoded> {
    if decoded.len() > limit { Err(Undecoded::TooLarge { limit }) } else { Ok(decoded) }
}

#[cfg(test)]
mod tests;

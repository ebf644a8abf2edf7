//! A request's head, made into what the doors take. Whether it may be read was decided before.

use bytes::Bytes;
use http::{Method, Request, Uri, Version};

use crate::wire::framing::{Fault, Head, Kind};
use crate::wire::heads::{self, Spelling};
use crate::wire::{Handover, Inbound, upgrade};

/// What the answer has to know of its request.
pub(super) struct Asked {
    pub(super) version: Version,
    /// It was HEAD: its answer has no body.
    pub(super) bodiless: bool,
    /// Its client takes another answer on this connection.
    pub(super) keep_alive: bool,
    /// How its fields were spelled, if that is kept.
    pub(super) spelling: Option<Spelling>,
    /// It asks for another protocol: where the connection goes with that.
    pub(super) handover: Option<Handover>,
}

impl Asked {
    /// Of a request that was refused.
    pub(super) fn refused() -> Self {
        Self { version: Version::HTTP_11, bodiless: false, keep_alive: false, spelling: None, handover: None }
    }
}

/// The request with this body, or why there is none in a head that was good: then two readers disagree, and neither is
/// believed.
pub(super) fn read(
    head: &Head,
    bytes: Bytes,
    body: Inbound,
    keeps_case: bool,
) -> Result<(Request<Inbound>, Asked), Fault> {
    const ODD: Fault = Fault { kind: Kind::Malformed, detail: "The head cannot be read." };
    let method = bytes.get(head.method.clone()).and_then(|method| Method::from_bytes(method).ok()).ok_or(ODD)?;
    let target = bytes.get(head.target.clone()).map(|target| bytes.slice_ref(target)).ok_or(ODD)?;
    let mut request = Request::new(body);
    *request.uri_mut() = Uri::from_maybe_shared(target).map_err(|_| ODD)?;
    *request.headers_mut() = heads::fields(&bytes, &head.spans).ok_or(ODD)?;
    *request.version_mut() = head.version;
    let handover = head.upgrade.then(upgrade).map(|(give, take)| {
        request.extensions_mut().insert(take);
        give
    });
    let spelling = keeps_case.then(|| Spelling::of(bytes, &head.spans));
    let bodiless = method == Method::HEAD;
    *request.method_mut() = method;
    Ok((request, Asked { version: head.version, bodiless, keep_alive: head.keep_alive, spelling, handover }))
}

/// What stands for a request that was refused: the doors know it by its fault.
pub(super) fn refused(fault: Fault) -> Request<Inbound> {
    let mut request = Request::new(Inbound::whole(Bytes::new()));
    request.extensions_mut().insert(fault);
    request
}

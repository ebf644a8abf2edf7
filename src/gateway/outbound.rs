//! A request as it goes to an upstream. Whether it goes, and what becomes of it, is decided elsewhere.

use std::sync::Arc;

use http::header::HOST;
use http::{HeaderValue, Request, request};

use super::settings::{Route, Underscores};
use super::{Gateway, Routed};
use crate::telemetry::UpstreamMetrics;
use crate::upstream::headers::{Added, Hop, Manner, Outbound};
use crate::upstream::{Outgoing, Upstream, headers};

impl Gateway {
    /// Where a route's requests go.
    pub(super) fn upstream(&self, route: &Route) -> (&Arc<Upstream>, &Arc<UpstreamMetrics>) {
        (&self.upstreams[route.upstream], &self.shared.upstream_metrics[route.upstream])
    }

    /// The request that goes to the upstream, target and end-to-end fields as the client sent them, out of its head; and
    /// what is added.
    pub(super) fn outbound(
        &self,
        routed: &Routed<'_>,
        head: &mut request::Parts,
        body: Outgoing,
    ) -> (Request<Outgoing>, Added) {
        let authority = routed.target.authority.as_str();
        let told = head.headers.get(HOST).filter(|host| *host == authority).cloned();
        let is_told = told.is_some();
        let host = told.or_else(|| HeaderValue::from_str(authority).ok());
        let hop = Hop {
            peer: routed.client.peer,
            named: routed.client.named(),
            trusted: routed.trusted,
            scheme: routed.client.scheme(),
            host: host.as_ref(),
            version: head.version,
        };
        let drop_underscores = self.shared.settings.underscore_headers == Underscores::Drop;
        let manner = Manner { via: self.shared.via.as_ref(), drop_underscores };
        let Outbound { mut fields, added, going } =
            headers::outbound(std::mem::take(&mut head.headers), routed.kinds, &hop, manner);
        // HTTP/2 says it elsewhere, and an absolute-form target goes before the field.
        if let Some(host) = host.filter(|_| !is_told) {
            fields.insert(HOST, host);
        }
        if let Some(entry) = &routed.entry {
            entry.goes_on(&going);
        }
        let mut request = Request::new(body);
        *request.method_mut() = head.method.clone();
        *request.uri_mut() = std::mem::take(&mut head.uri);
        *request.version_mut() = head.version;
        *request.headers_mut() = fields;
        *request.extensions_mut() = std::mem::take(&mut head.extensions);
        (request, added)
    }
}

//! Asks servers whether they are well, one round at a time. What the answers mean is decided in `health`.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use http::header::{HOST, USER_AGENT};
use http::{HeaderValue, Request, Uri};

use super::Outgoing;
use super::endpoint::Endpoint;
use super::fleet::Fleet;
use super::health::HealthCheck;

/// What came of a round of health checks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checked {
    /// Servers that gave a good answer.
    pub passed: usize,
    /// Servers that gave a bad one, or none in time.
    pub failed: usize,
}

impl Fleet {
    /// Asks every server once, all at the same time. Without `health` in the settings, none.
    pub async fn check(&self) -> Checked {
        let Some(check) = &self.settings().health else { return Checked::default() };
        let endpoints = self.known();
        let answers = join_all(endpoints.iter().map(|endpoint| self.check_one(endpoint, check))).await;
        let passed = answers.iter().filter(|passed| **passed).count();
        Checked { passed, failed: answers.len() - passed }
    }

    async fn check_one(&self, endpoint: &Arc<Endpoint>, check: &HealthCheck) -> bool {
        let answer = tokio::time::timeout(check.timeout, ask(endpoint, check)).await;
        let answer = answer.unwrap_or_else(|_| Err(format!("no answer within {:?}", check.timeout)));
        let (upstream, address) = (&self.settings().name, endpoint.address);
        match (endpoint.health(|health| health.checked(answer.is_ok(), check)), &answer) {
            (Some(true), _) => tracing::info!(upstream, %address, "server is healthy again"),
            (Some(false), Err(why)) => tracing::warn!(upstream, %address, why, "server is unhealthy"),
            _ => {}
        }
        answer.is_ok()
    }
}

/// One question, on a connection of its own: a server that takes no new connections is not well. Where HTTP/2 is spoken,
/// connections are shared.
async fn ask(endpoint: &Endpoint, check: &HealthCheck) -> Result<(), String> {
    let pool = endpoint.pool_for_checks();
    let mut request = Request::new(Outgoing::Whole(Bytes::new()));
    *request.uri_mut() = Uri::from(check.path.clone());
    if let Some(host) = check.host.as_ref().or(pool.authority.as_ref()) {
        request.headers_mut().insert(HOST, host.clone());
    }
    request.headers_mut().insert(USER_AGENT, HeaderValue::from_static("oncegate"));
    let answer = if let Some(shared) = &pool.shared {
        shared.send(&mut request, None).await
    } else {
        pool.connect().await.map_err(|why| why.to_string())?.send(&mut request, &(), None).await
    };
    let status = answer.map_err(|tried| tried.to_string())?.status();
    let status = status.as_u16();
    if check.status.contains(&status) { Ok(()) } else { Err(format!("it answered {status}")) }
}

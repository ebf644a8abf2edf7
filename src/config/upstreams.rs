//! The APIs behind the gateway: the section as written, and what it becomes.

use http::HeaderValue;
use http::uri::Authority;

use super::client_tls::{self, ClientTls};
use super::define::{choice, section};
use super::finding::Report;
use super::reader::{At, Field};
use super::values::{Count, DAY, HOUR, MINUTE, Name, Named, SECOND, Span, StatusRange, Text, not_empty, span_text};
use crate::tls::client;
use crate::upstream;

section! {
    /// An API behind the gateway.
    Upstream {
        /// Its servers, such as `http://127.0.0.1:9001`. All addresses of a name are used; with `https://` their certificates
        /// are verified.
        servers: Vec<Field<Text>> = Required("write `servers: [\"http://127.0.0.1:9001\"]`"),
        /// Who gets the next request: the servers in turn, or the one with the fewest requests under way.
        balance: upstream::Balance = Default("round_robin"),
        /// When a server is left out for a while because requests fail there.
        ejection: Ejection = Default("{}"),
        /// How servers are asked whether they are well; without it, they are not.
        health: Health = Optional,
        /// How often the addresses of names are asked for.
        resolve_interval: Span<SECOND, HOUR> = Default("30s"),
        /// How long a request may wait for a connection: to be made, or to be free.
        connect_timeout: Span<1, MINUTE> = Default("1s"),
        /// How long an idle connection is kept; less than the server keeps it.
        idle_timeout: Span<0, HOUR> = Default("4s"),
        /// How many idle connections to an address each worker keeps.
        idle_connections: Count<0, 100_000> = Default("128"),
        /// How old a connection may become before it is not used again.
        connection_age: Span<SECOND, { 7 * DAY }> = Default("1h"),
        /// How many connections may be in use at once, over all servers and workers; 0: any number.
        max_connections: Count<0, 1_000_000> = Default("0"),
        /// Which Host the upstream sees: the client's, or the server's own.
        host: upstream::Host = Default("preserve"),
        /// What is spoken to the servers: `http1`, or `http2` on shared connections (without TLS: known beforehand).
        protocol: upstream::Protocol = Default("http1"),
        /// TLS with `https://` servers.
        tls: ClientTls = Optional,
        /// How long a client waits at most.
        response_timeout: Span<10, HOUR> = Default("30s"),
        /// How long an attempt may take at most.
        attempt_timeout: Span<10, DAY> = Default("5m"),
        /// How long the upstream may be silent between the end of a request and the head of its answer (default: no limit of its own).
        first_byte_timeout: Span<10, DAY> = Optional,
        /// How long it may be silent within an answer (default: no limit of its own).
        answer_idle_timeout: Span<10, DAY> = Optional,
        /// How long an exchange on a plain route may take in all (default: no limit, so that streams can stay open).
        total_timeout: Span<10, DAY> = Optional,
    }
    later { "retries" }
}

section! {
    /// When a server is left out because requests fail there: it cannot be reached, breaks off, or does not answer.
    Ejection {
        /// After so many failures in a row; 0: never.
        failures: Count<0, 1_000> = Default("3"),
        /// How long; then one request tries it again.
        r#for: Span<100, HOUR> = Default("10s"),
    }
    later {}
}

section! {
    /// How servers are asked whether they are well. One that is not gets no requests.
    Health {
        /// What is asked for, by GET.
        path: Text = Required("write `path: /healthz`"),
        /// The Host of the question (default: the server's own name).
        host: Text = Optional,
        /// The rest between two rounds of questions.
        interval: Span<100, HOUR> = Default("5s"),
        /// How long an answer may take, with connecting.
        timeout: Span<10, MINUTE> = Default("1s"),
        /// So many good answers in a row make a server healthy again.
        healthy_after: Count<1, 100> = Default("1"),
        /// So many bad ones in a row make it unhealthy.
        unhealthy_after: Count<1, 100> = Default("3"),
        /// The statuses that are good answers: one, or a range.
        status: StatusRange = Default("200-399"),
    }
    later {}
}

choice! {
    upstream::Balance { "round_robin" => Self::RoundRobin, "least_requests" => Self::LeastRequests } later {}
}

choice! { upstream::Protocol { "http1" => Self::Http1, "http2" => Self::Http2 } later {} }

choice! { upstream::Host { "preserve" => Self::Preserve, "server" => Self::Server } later {} }

/// Translates all of them.
pub(super) fn compile(
    named: &At<Named<Upstream>>,
    preserve_header_case: bool,
    report: &mut Report,
) -> Option<Vec<upstream::Settings>> {
    let Named(list) = &named.value;
    not_empty(&named.place, list.is_empty(), "`orders: { servers: [\"http://127.0.0.1:9001\"] }`", report);
    let compiled = list.iter().map(|(name, field)| upstream(name, field.value()?, preserve_header_case, report));
    let compiled: Vec<_> = compiled.collect();
    compiled.into_iter().collect()
}

fn upstream(
    name: &At<Name>,
    section: &Upstream,
    preserve_header_case: bool,
    report: &mut Report,
) -> Option<upstream::Settings> {
    if let (Some(response), Some(attempt)) = (section.response_timeout.at(), section.attempt_timeout.at())
        && response.value.0 > attempt.value.0
    {
        let (place, other) = if attempt.stated { (&attempt.place, "lower") } else { (&response.place, "raise") };
        let message = format!(
            "`response_timeout` ({}) is above `attempt_timeout` ({}), but no answer comes after the attempt: {other} one",
            span_text(response.value.0),
            span_text(attempt.value.0)
        );
        report.fault(place, message);
    }
    if let (Some(first), Some(attempt)) = (section.first_byte_timeout.at(), section.attempt_timeout.at())
        && first.value.0 > attempt.value.0
    {
        let message = format!("is above `attempt_timeout` ({}): it would never pass", span_text(attempt.value.0));
        report.fault(&first.place, message);
    }
    let servers = section.servers.at().and_then(|servers| self::servers(servers, report));
    let protocol = *section.protocol.value()?;
    let tls = tls(section, servers.as_ref().map(|servers| servers.secure), protocol, report);
    let health = section.health.either(|at| health(&at.value, report).map(Some), || Some(None)).flatten();
    Some(upstream::Settings {
        name: name.value.0.clone(),
        servers: servers?.servers,
        balance: *section.balance.value()?,
        ejection: section.ejection.value().and_then(ejection)?,
        health: health?,
        resolve_interval: section.resolve_interval.value()?.0,
        connect_timeout: section.connect_timeout.value()?.0,
        idle_timeout: section.idle_timeout.value()?.0,
        idle_connections: section.idle_connections.value()?.0,
        connection_age: section.connection_age.value()?.0,
        max_connections: section.max_connections.value()?.0,
        response_timeout: section.response_timeout.value()?.0,
        attempt_timeout: section.attempt_timeout.value()?.0,
        first_byte_timeout: section.first_byte_timeout.either(|span| Some(span.value.0), || None)?,
        answer_idle_timeout: section.answer_idle_timeout.either(|span| Some(span.value.0), || None)?,
        total_timeout: section.total_timeout.either(|span| Some(span.value.0), || None)?,
        host: *section.host.value()?,
        protocol,
        tls: tls.ok()?,
        preserve_header_case,
    })
}

/// What the addresses say.
struct Servers {
    servers: Vec<upstream::Server>,
    secure: bool,
}

fn ejection(section: &Ejection) -> Option<upstream::Ejection> {
    Some(upstream::Ejection { failures: section.failures.value()?.0, lasts: section.r#for.value()?.0 })
}

fn health(section: &Health, report: &mut Report) -> Option<upstream::HealthCheck> {
    let path = section.path.at().and_then(|at| {
        let path = at.value.0.starts_with('/').then(|| at.value.0.parse().ok()).flatten();
        if path.is_none() {
            report.fault(&at.place, format!("`{}` is no path: it begins with `/`, as in `/healthz`", at.value.0));
        }
        path
    });
    let host = section.host.either(|at| check_host(at, report).map(Some), || Some(None)).flatten();
    Some(upstream::HealthCheck {
        path: path?,
        host: host?,
        interval: section.interval.value()?.0,
        timeout: section.timeout.value()?.0,
        healthy_after: section.healthy_after.value()?.0,
        unhealthy_after: section.unhealthy_after.value()?.0,
        status: section.status.value()?.0.clone(),
    })
}

fn check_host(at: &At<Text>, report: &mut Report) -> Option<HeaderValue> {
    let text = &at.value.0;
    let authority = text.parse::<Authority>().ok().filter(|authority| !authority.as_str().contains('@'));
    if authority.is_none() {
        report.fault(&at.place, format!("`{text}` is no host: write a name, with a port where it needs one"));
    }
    authority.and_then(|_| HeaderValue::from_str(text).ok())
}

fn servers(list: &At<Vec<Field<Text>>>, report: &mut Report) -> Option<Servers> {
    not_empty(&list.place, list.value.is_empty(), "\"http://127.0.0.1:9001\"", report);
    let parsed = |at: &At<Text>, report: &mut Report| {
        parse_server(&at.value.0).map_err(|message| report.fault(&at.place, message)).ok()
    };
    let all: Vec<_> = list.value.iter().map(|field| field.at().and_then(|at| parsed(at, report))).collect();
    let all: Vec<_> = all.into_iter().collect::<Option<_>>()?;
    let secure = all.first().is_some_and(|(secure, _)| *secure);
    if all.iter().any(|(other, _)| *other != secure) {
        report.fault(&list.place, "are `http://` and `https://`: write one of them, or make two upstreams");
        return None;
    }
    Some(Servers { servers: all.into_iter().map(|(_, server)| server).collect(), secure })
}

/// Whether TLS is wanted, and the server.
fn parse_server(text: &str) -> Result<(bool, upstream::Server), String> {
    let wrong = || format!("`{text}` is no server: write `http://host:port` or `https://host:port`");
    let uri: http::Uri = text.parse().map_err(|_| wrong())?;
    let secure = uri.scheme_str() == Some("https");
    let authority = uri.authority().filter(|_| secure || uri.scheme_str() == Some("http")).ok_or_else(wrong)?;
    if authority.as_str().contains('@') {
        return Err("a user in a server's address is not supported: remove what stands before `@`".to_owned());
    }
    if uri.path_and_query().is_some_and(|rest| rest.as_str() != "/") {
        return Err("a path in a server's address is not supported: requests go on with their own path".to_owned());
    }
    let port_is_bad = authority.as_str() != authority.host() && authority.port_u16().is_none_or(|port| port == 0);
    if authority.host().is_empty() || port_is_bad {
        return Err(wrong());
    }
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    if secure && !client::Client::can_name(name) {
        return Err(format!("`{name}` can be in no certificate: write a name or an address"));
    }
    let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
    Ok((secure, upstream::Server { host: authority.host().to_owned(), port }))
}

/// What cannot be used; the report says why.
struct Refused;

/// TLS as the section says it; what it leaves out stands by itself. `secure` is not known when a server's address is
/// wrong.
fn tls(
    section: &Upstream,
    secure: Option<bool>,
    protocol: upstream::Protocol,
    report: &mut Report,
) -> Result<Option<client::Client>, Refused> {
    if let (Some(at), Some(false)) = (section.tls.at(), secure) {
        report.fault(&at.place, "needs `https://` servers: write these, or remove it");
        return Err(Refused);
    }
    let settings = client_tls::settings(&section.tls, report).ok_or(Refused)?;
    if !secure.ok_or(Refused)? {
        return Ok(None);
    }
    let place = section.servers.at().map(|at| &at.place);
    client_tls::load(settings, protocol.alpn(), &section.tls, place, report).map(Some).ok_or(Refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_host_and_port() {
        for (text, secure, host, port) in [
            ("http://127.0.0.1:9001", false, "127.0.0.1", 9001),
            ("http://api/", false, "api", 80),
            ("http://[::1]:81", false, "[::1]", 81),
            ("https://api", true, "api", 443),
            ("https://api:8443/", true, "api", 8443),
        ] {
            let server = upstream::Server { host: host.to_owned(), port };
            assert_eq!(parse_server(text), Ok((secure, server)), "{text}");
        }
        for text in [
            "",
            "api:80",
            "ftp://a",
            "https://",
            "http://",
            "http://a:x",
            "http://a:0",
            "http://a:70000",
            "http://u@a",
            "http://a/b",
            "http://a?b",
        ] {
            assert!(parse_server(text).is_err(), "{text}");
        }
    }
}

//! The APIs behind the gateway: the section as written, and what it becomes.

use super::define::{choice, section};
use super::finding::Report;
use super::reader::{At, Field};
use super::values::{DAY, HOUR, MINUTE, Name, Named, Span, Text, not_empty, span_text};
use crate::upstream;

section! {
    /// An API behind the gateway.
    Upstream {
        /// Its servers, such as `http://127.0.0.1:9001`; taken in turn.
        servers: Vec<Field<Text>> = Required("write `servers: [\"http://127.0.0.1:9001\"]`"),
        /// How long a connection may take to be made.
        connect_timeout: Span<1, MINUTE> = Default("1s"),
        /// How long an idle connection is kept; less than the server keeps it.
        idle_timeout: Span<0, HOUR> = Default("4s"),
        /// Which Host the upstream sees: the client's, or the server's own.
        host: upstream::Host = Default("preserve"),
        /// How long a client waits at most.
        response_timeout: Span<10, HOUR> = Default("30s"),
        /// How long an attempt may take at most.
        attempt_timeout: Span<10, DAY> = Default("5m"),
    }
    later { "tls", "health", "balance", "retries", "http2" }
}

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
    let servers = section.servers.at().and_then(|servers| {
        not_empty(&servers.place, servers.value.is_empty(), "\"http://127.0.0.1:9001\"", report);
        let all: Vec<_> = servers.value.iter().map(|field| field.at().and_then(|at| server_url(at, report))).collect();
        all.into_iter().collect::<Option<Vec<_>>>()
    });
    Some(upstream::Settings {
        name: name.value.0.clone(),
        servers: servers?,
        connect_timeout: section.connect_timeout.value()?.0,
        idle_timeout: section.idle_timeout.value()?.0,
        response_timeout: section.response_timeout.value()?.0,
        attempt_timeout: section.attempt_timeout.value()?.0,
        host: *section.host.value()?,
        preserve_header_case,
    })
}

fn server_url(at: &At<Text>, report: &mut Report) -> Option<upstream::Server> {
    match parse_server(&at.value.0) {
        Ok(server) => Some(server),
        Err(message) => {
            report.fault(&at.place, message);
            None
        }
    }
}

fn parse_server(text: &str) -> Result<upstream::Server, String> {
    let wrong = || format!("`{text}` is no server: write `http://host:port`");
    if text.starts_with("https://") {
        return Err("TLS to upstreams (`https://`) is not in this version yet: use `http://`".to_owned());
    }
    let uri: http::Uri = text.parse().map_err(|_| wrong())?;
    let authority = uri.authority().filter(|_| uri.scheme_str() == Some("http")).ok_or_else(wrong)?;
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
    Ok(upstream::Server { host: authority.host().to_owned(), port: authority.port_u16().unwrap_or(80) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_host_and_port() {
        for (text, host, port) in
            [("http://127.0.0.1:9001", "127.0.0.1", 9001), ("http://api/", "api", 80), ("http://[::1]:81", "[::1]", 81)]
        {
            assert_eq!(parse_server(text), Ok(upstream::Server { host: host.to_owned(), port }), "{text}");
        }
        for text in [
            "",
            "api:80",
            "ftp://a",
            "https://a",
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

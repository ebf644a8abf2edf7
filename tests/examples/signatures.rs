//! Signatures of webhook senders are over the bytes of the body: behind the gateway they are still good.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::Example;
use crate::client::exchange;
use crate::upstream::Recorded;

const SECRET: &[u8] = b"It's a Secret to Everybody";

fn signed(text: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), text).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |all, byte| all + &format!("{byte:02x}"))
}

/// What the three schemes say of a body.
fn fields(body: &[u8]) -> Vec<(&'static str, String)> {
    let stripe = hex(&signed(&[b"1492774577.", body].concat()));
    let standard = STANDARD.encode(signed(&[b"msg_1.1674087231.", body].concat()));
    vec![
        ("X-hub-SIGNATURE-256", format!("sha256={}", hex(&signed(body)))),
        ("Stripe-Signature", format!("t=1492774577,v1={stripe},v0=6ffbb59b2300aae63f272406069a9788")),
        ("webhook-id", "msg_1".to_owned()),
        ("webhook-timestamp", "1674087231".to_owned()),
        ("webhook-signature", format!("v1,{standard} v1,bm8=")),
    ]
}

/// Whether an upstream that checks all three, as their senders document it, believes the request.
fn is_believed(request: &Recorded) -> bool {
    let body = &request.body;
    let github = request.text("X-Hub-Signature-256") == format!("sha256={}", hex(&signed(body)));
    let stripe = request.text("Stripe-Signature");
    let part = |name: &str| stripe.split(',').find_map(|part| part.strip_prefix(name)).unwrap().to_owned();
    let stripe = hex(&signed(&[part("t=").as_bytes(), b".", body].concat())) == part("v1=");
    let (id, at) = (request.text("webhook-id"), request.text("webhook-timestamp"));
    let standard = STANDARD.encode(signed(&[id.as_bytes(), b".", at.as_bytes(), b".", body].concat()));
    let shown = request.text("webhook-signature");
    github && stripe && shown.split(' ').any(|one| one == format!("v1,{standard}"))
}

#[test]
fn what_was_signed_is_what_arrives() {
    let example = Example::start("webhooks", "HOOKS_URL", &[]);
    let bodies: [&[u8]; 6] = [
        b"{\"id\":\"1\"}",
        b"{ \"id\" :\t\"2\",\r\n \"z\": 1.0e0, \"a\": \"\\u00e9\\/\" }\n\n",
        "{\"id\":\"3\",\"text\":\"\u{feff}\u{1f600}\u{2028}\"}".as_bytes(),
        b"{\"id\":\"4\",\"id\":\"4\"}",
        b"\xff\xfe\x00 not JSON at all \r\n--\r\n",
        b"",
    ];
    for (at, body) in bodies.into_iter().enumerate() {
        for chunked in [false, true] {
            let mut bytes = b"POST /hooks/github HTTP/1.1\r\nhOsT: hooks.example\r\nConnection: close\r\n".to_vec();
            bytes.extend(format!("x-github-DELIVERY: {at}-{chunked}\r\nContent-Type: application/json\r\n").bytes());
            for (name, value) in fields(body).into_iter().rev() {
                bytes.extend(format!("{name}:  {value} \r\n").bytes());
            }
            if chunked {
                bytes.extend(b"Transfer-Encoding: chunked\r\n\r\n");
                for piece in body.chunks(3) {
                    bytes.extend(
                        format!("{:x};x=y\r\n", piece.len()).bytes().chain(piece.iter().copied()).chain(*b"\r\n"),
                    );
                }
                bytes.extend(b"0\r\n\r\n");
            } else {
                bytes.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes().chain(body.iter().copied()));
            }
            let first = exchange(example.gateway.address, &bytes).unwrap();
            assert_eq!(first.status, 200, "{first:?}");
            assert!(exchange(example.gateway.address, &bytes).unwrap().is_replay());
        }
    }
    let requests = example.upstream.requests();
    assert_eq!(requests.len(), 2 * bodies.len());
    for request in &requests {
        assert!(is_believed(request), "{request:?}");
        let mut tampered = request.clone();
        tampered.body.push(b' ');
        assert!(!is_believed(&tampered));
    }
}

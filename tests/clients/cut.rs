//! A connection that breaks at the worst moment: after the server acted, before anybody heard of it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use crate::client::{Answer, exchange};
use crate::upstream::{Recorded, Reply, ScriptedUpstream};

/// A proxy that hands everything on, but keeps the answer to the first POST for itself and resets the connection.
pub(crate) struct Cut {
    proxy: ScriptedUpstream,
    withheld: Arc<Mutex<Option<Answer>>>,
}

impl Cut {
    pub(crate) fn before(server: SocketAddr) -> Self {
        let withheld = Arc::new(Mutex::new(None));
        let keep = Arc::clone(&withheld);
        let proxy = ScriptedUpstream::start(move |request| {
            let answer = exchange(server, &request.raw).unwrap();
            let mut withheld = keep.lock().unwrap();
            if request.method() == "POST" && withheld.is_none() {
                *withheld = Some(answer);
                return Reply::reset();
            }
            hand_on(&answer)
        });
        Self { proxy, withheld }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.proxy.address()
    }

    /// Everything that was handed to the server.
    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.proxy.requests()
    }

    /// The id of the customer in the answer that nobody got.
    pub(crate) fn withheld_customer(&self) -> String {
        let answer = self.withheld.lock().unwrap().clone().expect("a cut");
        assert_eq!(answer.status, 200, "{}", answer.text());
        let customer: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        customer["id"].as_str().unwrap().to_owned()
    }
}

fn hand_on(answer: &Answer) -> Reply {
    let framing = ["content-length", "transfer-encoding", "connection"];
    let kept = answer.headers.iter().filter(|(name, _)| !framing.contains(&name.as_str()));
    let fields: Vec<_> = kept.map(|(name, value)| (name.as_str(), std::str::from_utf8(value).unwrap())).collect();
    Reply::whole(answer.status, &fields, &answer.body)
}

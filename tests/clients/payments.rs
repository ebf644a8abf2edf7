//! One payment by each library, at an API that counts: it books every request that it reads, whatever the key.
//! The first attempt goes wrong. Without the gateway the library pays twice; behind it, once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::authority::{Authority, Issued};
use crate::gateway::{Gateway, wait_until};
use crate::libraries::{self, Job, Library, Outcome};
use crate::upstream::{Gate, Reply, ScriptedUpstream};

/// How long a client waits that meets a silent API; all others wait as long as it takes.
const SHORT: f32 = 1.5;
const LONG: f32 = 30.0;

/// What goes wrong with the first attempt, after the API has acted.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Trouble {
    None,
    Reset,
    Silence,
    Crash,
    Conflict,
}

const TROUBLES: [Trouble; 4] = [Trouble::Reset, Trouble::Silence, Trouble::Crash, Trouble::Conflict];

impl Trouble {
    /// The status that a library without a gateway sees, if it sees any.
    fn status(self) -> Option<u16> {
        match self {
            Self::None | Self::Reset | Self::Silence => None,
            Self::Crash => Some(500),
            Self::Conflict => Some(409),
        }
    }

    fn timeout(self) -> f32 {
        if self == Self::Silence { SHORT } else { LONG }
    }

    /// An API with this trouble. A silent one answers when the gate opens.
    fn api(self, library: &'static Library, gate: &Gate) -> ScriptedUpstream {
        let (booked, gate) = (AtomicUsize::new(0), gate.clone());
        ScriptedUpstream::start(move |_| {
            let number = booked.fetch_add(1, Ordering::SeqCst) + 1;
            let json = [("Content-Type", "application/json")];
            let paid = Reply::whole(200, &json, library.answer.replace("ID", &payment(number)));
            match self {
                _ if number > 1 => paid,
                Self::None => paid,
                Self::Reset => Reply::reset(),
                Self::Silence => paid.after(&gate),
                Self::Crash => Reply::whole(500, &[("Content-Type", "text/html")], "<h1>Internal Server Error</h1>"),
                Self::Conflict => Reply::whole(409, &json, r#"{"error":{"type":"conflict","message":"conflict"}}"#),
            }
        })
    }
}

/// The id that the API gives to its so-and-so-many-th payment.
fn payment(number: usize) -> String {
    format!("pay-{number}")
}

/// One payment in trouble.
struct Case {
    trouble: Trouble,
    /// The outcome table of its route; none: there is no guard.
    outcomes: Option<&'static str>,
    api: ScriptedUpstream,
    gate: Gate,
    /// None: the library talks to the API itself.
    gateway: Option<Gateway>,
}

/// Whether a client has closed its connection, or reset it. To the gateway a close may be a half, so the request goes
/// on; the system knows that an end came.
fn has_left(gateway: &Gateway) -> bool {
    let ended = format!(":{:04X} ", gateway.address.port());
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let waits_to_close = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.get(1).is_some_and(|local| format!("{local} ").ends_with(&ended)) && fields.get(3) == Some(&"08")
    };
    sockets.lines().any(waits_to_close) || gateway.metric(r#"oncegate_clients_gone_total{route="pay"}"#) > 0.0
}

impl Case {
    fn guarded(library: &'static Library, issued: &Issued, trouble: Trouble, outcomes: &'static str) -> Self {
        Self::new(library, issued, trouble, Some(outcomes))
    }

    fn new(library: &'static Library, issued: &Issued, trouble: Trouble, outcomes: Option<&'static str>) -> Self {
        let gate = Gate::new();
        let api = trouble.api(library, &gate);
        let guard = outcomes.map_or(String::new(), |outcomes| {
            format!(
                "    idempotency:
      key: [ {} ]
      scope: {}
      in_flight: wait
      outcomes: {{ default: {outcomes} }}
",
                library.key_setting(),
                library.scope,
            )
        });
        let needed = outcomes.is_some() || library.tls;
        let gateway = needed.then(|| Gateway::start(&yaml(library, issued, &api, &guard)));
        Self { trouble, outcomes, api, gate, gateway }
    }

    fn job(&self, library: &Library) -> Job {
        let address = self.gateway.as_ref().map_or(self.api.address(), |gateway| gateway.address);
        let again = self.trouble == Trouble::None;
        Job {
            base: format!("{}://{address}", if library.tls { "https" } else { "http" }),
            timeout: self.trouble.timeout(),
            key: again.then_some("order-4711"),
            calls: if again { 2 } else { 1 },
        }
    }

    /// Keeps the API silent until its first client has left.
    fn wait_for_the_client_to_leave(&self) {
        wait_until("the API has the request", || !self.api.requests().is_empty());
        match &self.gateway {
            Some(gateway) if self.outcomes.is_some() => {
                wait_until("the client has left", || has_left(gateway));
            }
            _ => wait_until("the client comes again", || self.api.requests().len() > 1),
        }
        self.gate.open();
    }

    fn answered(&self, verdict: &str) -> bool {
        let series = format!(r#"oncegate_requests_total{{route="pay",verdict="{verdict}"}}"#);
        self.gateway.as_ref().is_some_and(|gateway| gateway.metric(&series) > 0.0)
    }

    fn check(&self, library: &Library, calls: &[Outcome]) {
        let executions = self.api.requests();
        let key = library.key_of(&executions[0]);
        assert!(!key.is_empty() && executions.iter().all(|request| library.key_of(request) == key), "{executions:?}");
        match self.outcomes {
            None => self.check_unguarded(library, calls),
            Some(outcomes) => {
                assert_eq!(executions.len(), 1, "executions");
                self.check_guarded(library, calls, outcomes == "cautious");
            }
        }
    }

    /// The library repeats, so it pays twice.
    fn check_unguarded(&self, library: &Library, calls: &[Outcome]) {
        let executions = self.api.requests();
        if self.trouble.status().is_some_and(|status| library.takes.contains(&status)) {
            assert_eq!((executions.len(), id(&calls[0])), (1, None));
        } else if self.trouble == Trouble::Silence {
            // A client that is slow today may leave its second attempt too.
            assert!(executions.len() > 1);
        } else {
            assert_eq!((executions.len(), id(&calls[0])), (2, Some("pay-2")));
        }
        if library.tls {
            // This one is the reason why the guarded body must be read by its chunks.
            assert!(executions.iter().all(|request| request.text("Transfer-Encoding") == "chunked"));
        }
    }

    fn check_guarded(&self, library: &Library, calls: &[Outcome], cautious: bool) {
        let repeats = |status: u16| !library.takes.contains(&status);
        let (first, then, repeated, got) = match self.trouble {
            Trouble::Reset => ("upstream_failed", "in_doubt", repeats(502), None),
            Trouble::None | Trouble::Silence => ("executed", "replayed", true, Some("pay-1")),
            Trouble::Crash if cautious => ("executed", "in_doubt", repeats(500), None),
            Trouble::Crash => ("executed", "replayed", repeats(500), None),
            Trouble::Conflict => ("executed", "replayed", repeats(409), None),
        };
        // Who left a silent API was not there to be answered.
        assert!(self.answered(first) || self.trouble == Trouble::Silence, "{first}");
        assert_eq!(self.answered(then), repeated, "{then}");
        // The last word of a doubt is the gateway's own: 409 `outcome-unknown`, or 502.
        let raised = got.is_none() && (library.raises || (first, then) == ("executed", "replayed"));
        for call in calls {
            assert_eq!((id(call), call.error.is_some()), (got, raised));
        }
    }
}

fn id(call: &Outcome) -> Option<&str> {
    call.id.as_deref()
}

fn yaml(library: &Library, issued: &Issued, api: &ScriptedUpstream, guard: &str) -> String {
    format!(
        "listen: 127.0.0.1:0
admin: {{ listen: 127.0.0.1:0 }}
store: {{ kind: memory }}
workers: 1
{tls}
upstreams:
  api: {{ servers: [ \"http://{api}\" ] }}
routes:
  - name: pay
    match: {{ methods: [POST], path: \"/{{*rest}}\" }}
    upstream: api
{guard}",
        tls = if library.tls { Issued::yaml(&[issued], "") } else { String::new() },
        api = api.address(),
    )
}

fn pays_once(library: &'static Library) {
    let authority = Authority::new();
    let issued = authority.issue("front", "127.0.0.1");
    let guarded = |(trouble, outcomes)| Case::guarded(library, &issued, trouble, outcomes);
    let mut cases = vec![guarded((Trouble::None, "strict")), guarded((Trouble::Crash, "cautious"))];
    for trouble in TROUBLES {
        cases.push(guarded((trouble, "strict")));
        cases.push(Case::new(library, &issued, trouble, None));
    }
    let jobs: Vec<_> = cases.iter().map(|case| case.job(library)).collect();
    let outcomes = thread::scope(|scope| {
        for case in cases.iter().filter(|case| case.trouble == Trouble::Silence) {
            scope.spawn(|| case.wait_for_the_client_to_leave());
        }
        library.run(&jobs, &authority)
    });
    for (case, calls) in cases.iter().zip(&outcomes) {
        println!("{:?} under {:?}: {calls:?}", case.trouble, case.outcomes);
        case.check(library, calls);
    }
}

#[test]
fn stripe_for_python_pays_once() {
    pays_once(&libraries::STRIPE);
}

#[test]
fn stripe_for_node_pays_once() {
    pays_once(&libraries::STRIPE_NODE);
}

#[test]
fn modern_treasury_pays_once() {
    pays_once(&libraries::MODERN_TREASURY);
}

#[test]
fn svix_sends_once() {
    pays_once(&libraries::SVIX);
}

#[test]
fn mercadopago_pays_once() {
    pays_once(&libraries::MERCADOPAGO);
}

#[test]
fn gocardless_pays_once() {
    pays_once(&libraries::GOCARDLESS);
}

#[test]
fn square_with_its_key_in_the_body_pays_once() {
    pays_once(&libraries::SQUARE);
}

#[test]
fn adyen_with_chunked_bodies_over_tls_pays_once() {
    pays_once(&libraries::ADYEN);
}

#[test]
fn checkout_with_a_header_of_its_own_pays_once() {
    pays_once(&libraries::CHECKOUT);
}

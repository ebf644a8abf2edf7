//! What senders of webhooks get: real-looking deliveries, again, at the same time, and while the first one still runs.

use crate::Example;
use crate::client::Call;
use crate::upstream::{Gate, Reply};

const URL: &str = "HOOKS_URL";

/// A delivery, and what of it names another event.
struct Delivery {
    path: &'static str,
    fields: &'static [(&'static str, &'static str)],
    body: &'static str,
    id: &'static str,
    other: &'static str,
}

impl Delivery {
    fn call(&self, id: &str) -> Call {
        let put = |text: &str| text.replace(self.id, id);
        let call = self.fields.iter().fold(Call::post(self.path), |call, (name, value)| call.header(name, put(value)));
        call.body(put(self.body))
    }
}

const JSON: (&str, &str) = ("Content-Type", "application/json");

const DELIVERIES: [Delivery; 13] = [
    Delivery {
        path: "/hooks/github",
        fields: &[JSON, ("X-GitHub-Event", "push"), ("X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958")],
        body: "{\"ref\":\"refs/heads/main\"}",
        id: "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        other: "72d3162e-cc78-11e3-81ab-4c9367dc0959",
    },
    Delivery {
        path: "/hooks/stripe",
        fields: &[JSON],
        body: "{\"id\":\"evt_1NG8Du2eZvKYlo2CUI79vXWy\",\"object\":\"event\",\"type\":\"charge.succeeded\"}",
        id: "evt_1NG8Du2eZvKYlo2CUI79vXWy",
        other: "evt_1NG8Du2eZvKYlo2CUI79vXWz",
    },
    Delivery {
        path: "/hooks/shopify/orders",
        fields: &[
            JSON,
            ("X-Shopify-Topic", "orders/create"),
            ("X-Shopify-Shop-Domain", "shop.myshopify.example"),
            ("X-Shopify-Webhook-Id", "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043"),
            ("X-Shopify-Event-Id", "98880550-7158-44d4-b7cd-2c97c8a091b5"),
        ],
        body: "{\"id\":820982911946154508}",
        id: "98880550-7158-44d4-b7cd-2c97c8a091b5",
        other: "98880550-7158-44d4-b7cd-2c97c8a091b6",
    },
    Delivery {
        path: "/hooks/standard",
        fields: &[JSON, ("webhook-id", "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W"), ("webhook-timestamp", "1674087231")],
        body: "{\"type\":\"contact.created\"}",
        id: "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W",
        other: "msg_2KWPBgLlAfxdpx2AI54pPJ85f4X",
    },
    Delivery {
        path: "/hooks/standard",
        fields: &[JSON, ("svix-id", "msg_p5jXN8AQM9LWM0D4loKWxJek")],
        body: "{\"type\":\"invoice.paid\"}",
        id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
        other: "msg_p5jXN8AQM9LWM0D4loKWxJel",
    },
    Delivery {
        path: "/hooks/paypal",
        fields: &[JSON, ("PAYPAL-TRANSMISSION-ID", "69cd13f0-d67a-11e5-baa3-778b53f4ae55")],
        body: "{\"id\":\"WH-9UG43882HX7271132-6E0871324L7949614\",\"event_type\":\"PAYMENT.SALE.COMPLETED\"}",
        id: "WH-9UG43882HX7271132-6E0871324L7949614",
        other: "WH-9UG43882HX7271132-6E0871324L7949615",
    },
    Delivery {
        path: "/hooks/square",
        fields: &[JSON, ("square-retry-number", "1")],
        body: "{\"merchant_id\":\"6SSW7HV8K2ST5\",\"event_id\":\"bc316346-6691-4243-88ed-6d651a0d0c47\"}",
        id: "bc316346-6691-4243-88ed-6d651a0d0c47",
        other: "bc316346-6691-4243-88ed-6d651a0d0c48",
    },
    Delivery {
        path: "/hooks/adyen",
        fields: &[JSON],
        body: "{\"live\":\"false\",\"notificationItems\":[{\"NotificationRequestItem\":{\"eventCode\":\"AUTHORISATION\",\"pspReference\":\"7914073381342284\",\"success\":\"true\"}}]}",
        id: "AUTHORISATION",
        other: "CAPTURE",
    },
    Delivery {
        path: "/hooks/twilio/sms",
        fields: &[
            ("Content-Type", "application/x-www-form-urlencoded; charset=UTF-8"),
            ("I-Twilio-Idempotency-Token", "9a7c64a5-8d3a-4c6e-9d05-2b0d5b9a6f10"),
        ],
        body: "MessageSid=SMxxxxxxxx&Body=hello+world",
        id: "9a7c64a5-8d3a-4c6e-9d05-2b0d5b9a6f10",
        other: "9a7c64a5-8d3a-4c6e-9d05-2b0d5b9a6f11",
    },
    Delivery {
        path: "/hooks/slack",
        fields: &[JSON, ("X-Slack-Retry-Num", "1"), ("X-Slack-Retry-Reason", "http_timeout")],
        body: "{\"type\":\"event_callback\",\"event_id\":\"Ev9UQ52YNA\",\"event\":{\"type\":\"message\"}}",
        id: "Ev9UQ52YNA",
        other: "Ev9UQ52YNB",
    },
    Delivery {
        path: "/hooks/wechat-pay",
        fields: &[JSON, ("Wechatpay-Timestamp", "1554208460")],
        body: "{\"id\":\"EV-2018022511223320873\",\"event_type\":\"TRANSACTION.SUCCESS\",\"summary\":\"\u{652f}\u{4ed8}\u{6210}\u{529f}\"}",
        id: "EV-2018022511223320873",
        other: "EV-2018022511223320874",
    },
    Delivery {
        path: "/hooks/alipay",
        fields: &[("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")],
        body: "notify_id=91722adff935e8cfa58b3aabf4dead6ibe&out_trade_no=21repl2ac2eOutTradeNo322&trade_status=TRADE_SUCCESS&sign=kPbQIjX%2BxQc8F0%2FA6",
        id: "91722adff935e8cfa58b3aabf4dead6ibe",
        other: "91722adff935e8cfa58b3aabf4dead6ibf",
    },
    Delivery {
        path: "/hooks/sns",
        fields: &[
            ("Content-Type", "text/plain; charset=UTF-8"),
            ("x-amz-sns-message-type", "Notification"),
            ("x-amz-sns-message-id", "da41e39f-ea4d-435a-b922-c6aae3915ebe"),
        ],
        body: "{\n  \"Type\" : \"Notification\",\n  \"Message\" : \"test\"\n}",
        id: "da41e39f-ea4d-435a-b922-c6aae3915ebe",
        other: "da41e39f-ea4d-435a-b922-c6aae3915ebf",
    },
];

#[test]
fn each_sender_gets_the_first_answer_again_and_another_event_runs() {
    let example = Example::start("webhooks", URL, &[]);
    for (at, delivery) in DELIVERIES.iter().enumerate() {
        let call = delivery.call(delivery.id);
        let crowd = example.crowd(&call);
        let first = format!("answer {}", 2 * at + 1);
        for answer in crowd.iter().chain([&example.send(&call)]) {
            assert_eq!((answer.status, answer.text()), (200, first.clone()), "{}", delivery.path);
        }
        let other = example.send(&delivery.call(delivery.other));
        assert_eq!((other.status, other.is_replay()), (200, false), "{}", delivery.path);
        assert_eq!(example.executed(), 2 * (at + 1), "{}", delivery.path);
    }
}

#[test]
fn a_sender_that_repeats_too_early_is_told_to_come_later_and_gets_the_answer_then() {
    let gate = Gate::new();
    let hold = gate.clone();
    let example = Example::scripted("webhooks", URL, &[], move |_| Reply::whole(200, &[], "ok").after(&hold));
    let slack = DELIVERIES[9].call("Ev1");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| example.send(&slack));
        example.upstream.wait_for_requests(1);
        let early = example.send(&slack);
        // 409 would be final for some senders: Amazon SNS drops what gets one.
        assert_eq!((early.status, early.code().as_deref()), (503, Some("request-in-flight")));
        assert!(early.header("retry-after").is_some());
        gate.open();
        assert_eq!(first.join().unwrap().text(), "ok");
    });
    let later = example.send(&slack);
    assert_eq!((later.status, later.text().as_str(), later.is_replay()), (200, "ok", true));
    assert_eq!(example.executed(), 1);
}

#[test]
fn a_sender_that_takes_409_as_final_comes_back_to_a_doubt() {
    let cloud_event = Call::post("/events").header("ce-source", "/a").header("ce-id", "1").json("{}");
    let sns = DELIVERIES[12].call("m-1");
    for (file, url, call) in [("webhooks", URL, sns), ("cloudevents", "EVENTS_URL", cloud_event)] {
        let example = Example::scripted(file, url, &[], |_| Reply::reset());
        assert_eq!(example.send(&call).code().as_deref(), Some("upstream-failed"));
        let again = example.send(&call);
        assert_eq!((again.status, again.code().as_deref()), (503, Some("outcome-unknown")), "{file}");
        assert_eq!(example.executed(), 1, "{file}");
    }
}

#[test]
fn slack_can_verify_the_address() {
    let example = Example::start("webhooks", URL, &[]);
    let call =
        Call::post("/hooks/slack").json("{\"type\":\"url_verification\",\"challenge\":\"3eZbrw1aBm2rZgRNFdxV\"}");
    assert_eq!([(); 2].map(|()| example.send(&call).is_replay()), [false; 2]);
}

#[test]
fn events_are_named_by_source_and_id() {
    let example = Example::start("cloudevents", "EVENTS_URL", &[]);
    let binary = |source: &str, id: &str| {
        let fields =
            [("ce-specversion", "1.0"), ("ce-type", "com.example.order"), ("ce-source", source), ("ce-id", id)];
        fields.iter().fold(Call::post("/events"), |call, (name, value)| call.header(name, value)).json("{\"a\":1}")
    };
    let structured = |source: &str, id: &str| {
        let event = format!("{{\"specversion\":\"1.0\",\"type\":\"t\",\"source\":\"{source}\",\"id\":\"{id}\"}}");
        Call::post("/events").header("Content-Type", "application/cloudevents+json; charset=utf-8").body(event)
    };
    let sources = [
        "/mycontext",
        "urn:event:from:myapi/resource/123",
        "https://github.com/cloudevents/spec/pull?a=1&b=[2];c='(x)'~!$*,@#frag",
        "1-555-123-4567",
        "/caf%C3%A9/a%20b",
    ];
    let mut ran = 0;
    for source in sources {
        for call in [binary(source, "A234-1234-1234"), binary(source, "B"), structured(source, "A234-1234-1234")] {
            let crowd = example.crowd(&call);
            ran += 1;
            assert!(crowd.iter().all(|answer| answer.status == 200), "{source}: {crowd:?}");
            assert_eq!(example.executed(), ran, "{source}");
        }
    }
    let batch = Call::post("/events").header("Content-Type", "application/cloudevents-batch+json");
    let refused = example.send(&batch.body("[{\"source\":\"/a\",\"id\":\"1\"}]"));
    assert_eq!((refused.status, refused.code().as_deref()), (400, Some("key-missing")));
    let ask = Call::new("OPTIONS", "/events").header("WebHook-Request-Origin", "eventemitter.example");
    assert_eq!(example.send(&ask).status, 200);
}

#[test]
fn a_message_that_is_done_is_acknowledged_and_one_that_runs_comes_again() {
    let gate = Gate::new();
    let hold = gate.clone();
    let example = Example::scripted("messages", "WORKER_URL", &[], move |_| Reply::whole(204, &[], "").after(&hold));
    let pushed = Call::post("/push/pubsub")
        .json("{\"message\":{\"messageId\":\"2070443601311540\",\"data\":\"aGk=\"},\"subscription\":\"projects/p/subscriptions/s\"}");
    let taken = Call::post("/queues/orders").header("X-Queue", "orders").header("X-Message-Id", "m-1").body("x");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| example.send(&pushed));
        example.upstream.wait_for_requests(1);
        assert_eq!(example.send(&pushed).status, 503);
        gate.open();
        assert_eq!(first.join().unwrap().status, 204);
    });
    let done = example.send(&pushed);
    assert_eq!((done.status, done.header("x-idempotent-retry")), (204, Some("true")));
    assert!(example.crowd(&taken).iter().all(|answer| answer.status == 204));
    let other = Call::post("/queues/orders").header("X-Queue", "refunds").header("X-Message-Id", "m-1").body("x");
    assert!(!example.send(&other).is_replay());
    assert_eq!(example.executed(), 3);
}

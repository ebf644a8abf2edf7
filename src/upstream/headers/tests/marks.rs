//! What says which attempt a request is.

use super::*;

/// Marks the attempt, and shows the marks among the other fields.
fn mark(headers: &mut HeaderMap, kinds: Kinds, operation: &OperationId, claim: Option<AttemptId>, number: u32) {
    let mut added = Added::new();
    mark_attempt(headers, &mut added, kinds, operation, claim, number);
    added.add_to(headers);
}

#[test]
fn an_attempt_is_marked() {
    let operation = OperationId([0xab; 32]);
    let digest = "ab".repeat(32);
    // A key that `Connection` named stays behind, and so does what is forged.
    let came: Lines<'_> = &[("connection", b"idempotency-key"), ("idempotency-key", b"k"), ("oncegate-attempt", b"9")];
    let (kinds, mut headers) = (Kinds::of(&map(came)), outbound(&map(came), &hop(false)));
    mark(&mut headers, kinds, &operation, None, 2);
    assert_eq!(lines(&headers, "oncegate-operation"), [digest.as_bytes()]);
    assert_eq!(lines(&headers, "oncegate-attempt"), [b"2"]);
    assert_eq!(lines(&headers, "idempotency-key"), [format!("og-{digest}").as_bytes()]);
}

#[test]
fn a_key_of_the_claim_is_another_one_each_time() {
    let key = |claim| {
        let mut headers = HeaderMap::new();
        mark(&mut headers, Kinds::default(), &OperationId([0xab; 32]), Some(AttemptId([claim; 16])), 1);
        lines(&headers, "idempotency-key").concat()
    };
    assert_eq!(key(1), format!("og-{}-{}", "ab".repeat(32), "01".repeat(16)).as_bytes());
    assert_ne!(key(1), key(2));
}

#[test]
fn the_clients_own_key_is_left_alone() {
    let mut headers = map(&[("idempotency-key", b"\"mine\";x=1")]);
    let kinds = Kinds::of(&headers);
    mark(&mut headers, kinds, &OperationId([1; 32]), Some(AttemptId([2; 16])), 1);
    assert_eq!(lines(&headers, "idempotency-key"), [b"\"mine\";x=1"]);
}

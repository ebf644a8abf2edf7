//! Two operations that one attempt holds together, each of whose records names the other. The verbs treat each by itself;
//! here is what the one says of the other.

use super::{Cause, Ending, Judgement, OperationId, Record, State};

/// Whether these are the records of two operations that were held together.
pub fn are_a_pair(one: (&OperationId, &Record), other: (&OperationId, &Record)) -> bool {
    one.1.beside.as_deref() == Some(other.0) && other.1.beside.as_deref() == Some(one.0)
}

/// How a doubt ends by what is known of the operation that its attempt held beside it; none when it goes on.
///
/// What that was completed with, this was. That there is no record of it proves nothing: perhaps it was released, perhaps
/// it was never claimed, perhaps it was forgotten.
pub fn ended_beside(doubt: (&OperationId, &Record), partner: (&OperationId, &Record)) -> Option<Ending> {
    let State::InDoubt { .. } = doubt.1.state else { return None };
    let State::Completed { answer, .. } = &partner.1.state else { return None };
    let status = answer.status().unwrap_or_default();
    let answer = answer.clone();
    are_a_pair(doubt, partner).then_some(Ending::Answered {
        judgement: Judgement::Keep,
        status,
        answer,
        retention: None,
    })
}

/// How an attempt that holds two operations ends for both. One that was never sent frees both or neither: if it is not
/// the first of one of them, what came before is still open, for that one and so for the request.
pub fn ending_of_both(ending: Ending, numbers: [u32; 2]) -> Ending {
    match ending {
        Ending::NotSent if numbers.iter().any(|number| *number > 1) => Ending::Unknown(Cause::RetryNotSent),
        ending => ending,
    }
}

//! Many calls that wait for a store which may be away, or away in part. It knows nothing of what they do.

use futures_util::future::join_all;
use rand::seq::SliceRandom;

use crate::store::StoreError;

/// So many are tried first: a store that is away costs no more, and of one that is away in part some will answer.
const FEW: usize = 8;

/// Makes a call for each: for a few first, drawn by lot, and when one of these is answered for all others. Who lives on a
/// part of the store that does not answer holds up nobody else.
pub(super) async fn few_first<T, F: Future<Output = Result<(), StoreError>>>(
    mut batch: Vec<T>,
    call: impl Fn(T) -> F,
) -> Result<(), StoreError> {
    batch.shuffle(&mut rand::rng());
    let others = batch.split_off(batch.len().min(FEW));
    let mut answers = join_all(batch.into_iter().map(&call)).await;
    if answers.iter().any(Result::is_ok) {
        answers.extend(join_all(others.into_iter().map(&call)).await);
    }
    answers.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    async fn called(which: std::ops::Range<usize>, away: impl Fn(usize) -> bool) -> (Vec<usize>, bool) {
        let called = RefCell::new(Vec::new());
        let answer = few_first(which.collect(), |number| {
            called.borrow_mut().push(number);
            let gone = away(number);
            async move { if gone { Err(StoreError::Unavailable("away".to_owned())) } else { Ok(()) } }
        });
        let failed = answer.await.is_err();
        let mut called = called.into_inner();
        called.sort_unstable();
        (called, failed)
    }

    #[tokio::test]
    async fn a_store_that_is_away_costs_a_few_calls() {
        assert_eq!(called(0..1000, |_| false).await, ((0..1000).collect(), false));
        let (tried, failed) = called(0..1000, |_| true).await;
        assert_eq!((tried.len(), failed), (FEW, true));
        assert_eq!(called(0..0, |_| true).await, (vec![], false));
    }

    #[tokio::test]
    async fn a_part_that_is_away_holds_up_no_other() {
        // Seven of those that are tried first at most are away.
        assert_eq!(called(0..1000, |number| number < 7).await, ((0..1000).collect(), true));
        for _ in 0..1000 {
            // One in ten answers: by lot it is among the first within some rounds.
            if called(0..100, |number| number >= 10).await.0.len() == 100 {
                return;
            }
        }
        panic!("those that could be answered never were");
    }
}

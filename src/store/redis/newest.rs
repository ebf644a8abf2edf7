//! Asking several servers the same question: the newest answer counts, and one that sleeps holds up nobody.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::StoreError;
use super::faults::{cause, unavailable};
use crate::clock::Clock;

/// How long the first answer may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// How long others may take after the first one: one that has slept through a change must not have the word alone.
const OTHERS: Duration = Duration::from_millis(100);

/// The answer with the greatest age number; of equals, the first.
///
/// # Errors
/// When nobody answers; `whom` says who was asked.
pub(super) async fn newest<N: Ord, T>(
    whom: impl Display,
    questions: impl Iterator<Item = impl Future<Output = Result<(N, T), StoreError>>>,
) -> Result<T, StoreError> {
    let mut answers: FuturesUnordered<_> = questions.collect();
    let mut best: Option<(N, T)> = None;
    let mut fault = None;
    let mut end = Clock::instant() + PATIENCE;
    while let Ok(Some(answer)) = tokio::time::timeout_at(end.into(), answers.next()).await {
        match answer {
            Ok(told) => {
                if best.is_none() {
                    end = end.min(Clock::instant() + OTHERS);
                }
                best = best.filter(|best| best.0 >= told.0).or(Some(told));
            }
            Err(error) => fault = Some(error),
        }
    }
    best.map(|(_, answer)| answer).ok_or_else(|| {
        let why = fault.map_or_else(|| format!("no answer within {PATIENCE:?}"), |fault| cause(&fault));
        unavailable(format!("{whom}: {why}"))
    })
}

#[cfg(test)]
mod tests {
    use futures_util::future::{BoxFuture, pending, ready};

    use super::*;

    type Question = BoxFuture<'static, Result<(u8, &'static str), StoreError>>;

    fn says(age: u8, what: &'static str) -> Question {
        Box::pin(ready(Ok((age, what))))
    }

    #[tokio::test]
    async fn the_newest_counts_and_nobody_waits_for_a_sleeper() {
        let late: Question = Box::pin(async {
            tokio::task::yield_now().await;
            Ok((2, "new"))
        });
        let refused: Question = Box::pin(ready(Err(unavailable("refused"))));
        let all = [says(1, "old"), refused, Box::pin(pending()), late, says(2, "as new")];
        let answer = newest("all", all.into_iter()).await.unwrap();
        assert_eq!(answer, "as new", "of equals the first to answer");
    }

    #[tokio::test]
    async fn a_fault_is_told_when_nobody_answers() {
        let refused: Question = Box::pin(ready(Err(unavailable("refused"))));
        let error = newest("those two", [refused].into_iter()).await.unwrap_err();
        assert_eq!(cause(&error), "those two: refused");
    }
}

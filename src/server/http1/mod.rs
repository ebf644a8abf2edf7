//! HTTP/1.1 on one connection, to its end: one request after the other, each with its answer, on this screen. How they are
//! read and written is in the files beside it.

mod answer;
mod conversation;
mod reader;
mod request;

#[cfg(test)]
mod tests;

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;

use http::{Request, Response, StatusCode, Version};
use tokio::io::{AsyncRead, AsyncWrite};

use super::pace::{Cut, Pace};
use super::{BoxError, Doorway};
use crate::clock::Clock;
use crate::wire::{AnswerBody, Client, Inbound, Watch};
use conversation::Conversation;
use request::Asked;

/// Serves until the client leaves. When the doorway closes, its next answer is its last.
pub(super) async fn serve<IO, H, F, B>(io: IO, client: Client, doorway: &Doorway, handle: H) -> io::Result<()>
where
    IO: AsyncRead + AsyncWrite + Cut + Unpin + Send + 'static,
    H: Fn(Request<Inbound>, Arc<Client>) -> F,
    F: Future<Output = Response<B>>,
    B: AnswerBody,
    B::Error: Into<BoxError>,
{
    let (client, watch) = (Arc::new(client), Arc::new(Watch::new(Version::HTTP_11)));
    doorway.connections.watch(&watch);
    let opened = Clock::instant();
    let paced = Pace::new(io, Arc::clone(&watch), doorway);
    let mut conversation = Conversation::new(paced, Arc::clone(&client), watch, doorway.limits.heads());
    let mut lingered = pin!(doorway.lingered());
    loop {
        let came = tokio::select! {
            // A request that has arrived goes before the end of an idle connection.
            biased;
            came = conversation.next() => came?,
            () = lingered.as_mut() => None,
        };
        let Some(came) = came else { break };
        let (request, asked) = conversation.begin(came, doorway);
        let Asked { handover, .. } = &asked;
        let may_switch = handover.is_some();
        let answer = conversation.answer_of(pin!(handle(request, Arc::clone(&client)))).await?;
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS && may_switch {
            return conversation.switch(answer, asked).await;
        }
        let last = doorway.is_last(Clock::lately().saturating_duration_since(opened));
        if !conversation.say(answer, &asked, last).await? {
            break;
        }
    }
    conversation.end().await
}

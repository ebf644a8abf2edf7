//! Futures made in the box where they stay. `Box::pin` makes them elsewhere first and moves all of them, also the room that
//! they do not use yet: of a request's futures that is thousands of bytes.

use std::pin::Pin;

/// What is made, in a box of its own.
#[inline]
pub fn in_box<F>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    let room = Box::new_uninit();
    Box::into_pin(Box::write(room, make()))
}

//! The peer that causes the log lines of a thread or task.
//!
//! Code that handles the bytes of a peer enters the peer first, and the log limits what each peer may write. The peer is
//! not the field of a `tracing` span: such a field is formatted and stored when the span begins, so every request would
//! pay for a line that almost none of them writes.

use std::cell::Cell;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::Pin;

use wire::MinionId;
use wire::network::Network;

/// Someone whose bytes are handled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Someone at an address who has proved nothing.
    Stranger(Network),
    /// Someone who claims to be a minion with an accepted key.
    Claimed(MinionId),
    /// A minion that has proved its identity.
    Minion(MinionId),
    /// A user who may do what a list permits.
    User(String),
    /// A user who may do everything. Lines of operators are not limited.
    Operator,
}

thread_local! {
    static CURRENT: Cell<Option<Peer>> = const { Cell::new(None) };
}

/// Returns the peer that was entered last on this thread.
pub fn current() -> Option<Peer> {
    let peer = CURRENT.take();
    CURRENT.set(peer.clone());
    peer
}

/// Makes a peer the current one of this thread until the guard is dropped.
pub fn enter(peer: Peer) -> Entered {
    Entered { before: CURRENT.replace(Some(peer)), not_send: PhantomData }
}

/// Restores the previous peer when it is dropped.
#[must_use = "the peer is left at once"]
#[derive(Debug)]
pub struct Entered {
    before: Option<Peer>,
    not_send: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.before.take());
    }
}

/// What the log lines of a thread or task are about: the `tracing` span, and the peer. Work that continues in another
/// thread or task takes it there.
#[derive(Clone, Debug)]
pub struct Scope {
    span: tracing::Span,
    peer: Option<Peer>,
}

impl Scope {
    /// Returns the scope of this thread.
    pub fn current() -> Self {
        Scope { span: tracing::Span::current(), peer: current() }
    }

    /// Returns the scope of this thread with another peer.
    pub fn of(peer: Peer) -> Self {
        Scope { span: tracing::Span::current(), peer: Some(peer) }
    }

    /// Does work in this scope.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        let _peer = self.peer.clone().map(enter);
        self.span.in_scope(work)
    }

    /// Returns a future whose work is done in this scope.
    pub fn around<F: Future + Unpin>(self, mut future: F) -> impl Future<Output = F::Output> {
        poll_fn(move |context| self.run(|| Pin::new(&mut future).poll(context)))
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn user(name: &str) -> Peer {
        Peer::User(name.to_owned())
    }

    #[test]
    fn the_innermost_peer_counts_and_leaving_restores_the_previous_one() {
        assert_eq!(current(), None);
        let outer = enter(user("outer"));
        {
            let _inner = enter(Peer::Operator);
            assert_eq!((current(), current()), (Some(Peer::Operator), Some(Peer::Operator)));
        }
        assert_eq!(current(), Some(user("outer")));
        drop(outer);
        assert_eq!(current(), None);
    }

    #[test]
    fn a_panic_leaves_the_peer() {
        let panicked = std::panic::catch_unwind(|| {
            let _peer = enter(Peer::Operator);
            panic!("a bug");
        });
        assert!(panicked.is_err());
        assert_eq!(current(), None);
    }

    #[test]
    fn a_scope_goes_to_other_threads_and_tasks() {
        let scope = {
            let _peer = enter(user("fred"));
            Scope::current()
        };
        let elsewhere = scope.clone();
        let seen = std::thread::spawn(move || elsewhere.run(current)).join().unwrap();
        assert_eq!(seen, Some(user("fred")));
        let mut polls = 0;
        let twice = poll_fn(|context| {
            polls += 1;
            context.waker().wake_by_ref();
            if polls == 1 { Poll::Pending } else { Poll::Ready(current()) }
        });
        let mut task = std::pin::pin!(scope.around(twice));
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(task.as_mut().poll(&mut context), Poll::Pending);
        assert_eq!(current(), None, "between two polls the thread does something else");
        assert_eq!(task.as_mut().poll(&mut context), Poll::Ready(Some(user("fred"))));
    }
}

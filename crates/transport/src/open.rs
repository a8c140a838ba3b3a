//! Decodes requests: cheap ones at once, the others on threads of low priority.

use std::sync::Arc;

use bytes::Bytes;
use rt::Rt;
use tokio::sync::{Semaphore, oneshot};
use wire::envelope::{self, Envelope, MOST_FOREIGN_BYTES, MOST_FOREIGN_VALUES, Outline, Start};
use wire::msgpack::{self, most_values};

use crate::budget::{Kept, Share};

/// The largest unencrypted request, in bytes, that is decoded at once. That takes a few microseconds.
const SMALL: usize = 4 << 10;

/// The largest number of values in an encrypted request, whose load is one of them.
const SEALED_VALUES: usize = 256;

/// Refuses an unfinished request of `len` bytes as soon as its first bytes show that it would be refused when
/// complete.
pub(crate) fn check_start(start: &[u8], len: usize, foreign: bool) -> Result<(), envelope::Error> {
    // Small requests are complete soon; looking at them twice would cost more than it saves.
    if len <= MOST_FOREIGN_BYTES {
        return Ok(());
    }
    match envelope::start(start) {
        Start::Garbage => Err(envelope::Error::Shape),
        // Clear requests of other hosts are small: a large one would be decoded for a peer that has proved nothing.
        Start::Other if foreign => Err(too_large(len)),
        Start::Sealed(_) | Start::Other | Start::Short => Ok(()),
    }
}

fn too_large(size: usize) -> envelope::Error {
    envelope::Error::TooLarge { size, limit: MOST_FOREIGN_BYTES }
}

/// Decodes the requests of a server.
#[derive(Clone)]
pub(crate) struct Opener {
    rt: Rt,
    threads: Arc<Semaphore>,
}

/// A decoded request, and about how many bytes of memory its decoded form takes in addition to the request itself.
pub(crate) type Opened = (Result<Envelope, envelope::Error>, usize);

/// Counts the memory of a request until it is answered.
///
/// # Errors
/// When unauthenticated connections hold too much already.
pub(crate) fn keep(share: &Share, size: usize, (envelope, cost): &Opened) -> Result<Kept, crate::Error> {
    match envelope {
        // An encrypted request is not decoded yet, so it takes no more than its bytes.
        Ok(Envelope::Sealed(_)) => Ok(share.keep(size)),
        Ok(Envelope::Clear(_)) => share.keep_clear(size.saturating_add(*cost)),
        Err(_) => Ok(Kept::default()),
    }
}

impl Opener {
    /// Creates the opener of one server. It decodes as many large requests at a time as there are processors.
    pub(crate) fn new(rt: Rt) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Opener { rt, threads: Arc::new(Semaphore::new(threads)) }
    }

    /// Decodes a request at once, if that is cheap; otherwise returns `None`.
    pub(crate) fn open_now(&self, payload: &Bytes, foreign: bool) -> Option<Opened> {
        match Outline::read(payload, SEALED_VALUES) {
            Ok(outline) if outline.is_sealed() => return Some((outline.open(), 0)),
            // Too many values for an encrypted request: it is a clear one, which is looked at below.
            Err(envelope::Error::Msgpack(msgpack::Error::TooManyValues(_))) | Ok(_) => {}
            Err(error) => return Some((Err(error), 0)),
        }
        if foreign && payload.len() > MOST_FOREIGN_BYTES {
            return Some((Err(too_large(payload.len())), 0));
        }
        (payload.len() <= SMALL).then(|| decode(payload, foreign))
    }

    /// Decodes a request on a thread of low priority.
    pub(crate) async fn open_later(self, payload: Bytes, foreign: bool) -> Opened {
        // One at a time per processor: the threads have a low priority, but they take memory.
        let _turn = self.threads.acquire().await;
        let (done, opened) = oneshot::channel();
        // Whoever waits may have gone meanwhile.
        self.rt.behind_others(move || drop(done.send(decode(&payload, foreign))));
        opened.await.unwrap_or((Err(envelope::Error::Shape), 0))
    }
}

fn decode(payload: &Bytes, foreign: bool) -> Opened {
    let most = if foreign { MOST_FOREIGN_VALUES } else { most_values(payload.len()) };
    match Outline::read(payload, most) {
        Ok(outline) => {
            let cost = outline.cost();
            (outline.open(), cost)
        }
        Err(error) => (Err(error), 0),
    }
}

#[cfg(test)]
mod tests {
    use value::{Value, map};
    use wire::envelope::Sealed;

    use super::*;

    fn clear(bytes: usize, values: usize) -> Bytes {
        let list = Value::List(vec![1.into(); values]);
        Envelope::clear(map! { "cmd" => "publish", "text" => "x".repeat(bytes), "list" => list }).encode()
    }

    #[tokio::test]
    async fn large_clear_requests_are_for_programs_of_this_host() {
        let opener = Opener::new(Rt::real());
        let open = async |payload: &Bytes, foreign| match opener.open_now(payload, foreign) {
            Some((opened, _)) => (opened, true),
            None => (opener.clone().open_later(payload.clone(), foreign).await.0, false),
        };
        let (small, large, huge) = (clear(100, 10), clear(100 << 10, 10), clear(2 << 20, 10));
        assert!(matches!(open(&small, true).await, (Ok(_), true)));
        assert!(matches!(open(&large, true).await, (Ok(_), false)), "not where others wait");
        assert!(matches!(open(&huge, true).await, (Err(envelope::Error::TooLarge { .. }), true)));
        assert!(matches!(open(&huge, false).await, (Ok(_), false)));
        let many = clear(10, 100_000);
        assert!(matches!(open(&many, true).await, (Err(envelope::Error::Msgpack(_)), false)));
        assert!(matches!(open(&many, false).await, (Ok(_), false)));
        let fields = Sealed { load: vec![7; 2 << 20].into(), version: 3, id: None, enc_algo: None, sig_algo: None };
        assert!(matches!(open(&Envelope::Sealed(fields).encode(), true).await, (Ok(_), true)));
    }

    #[test]
    fn the_first_bytes_of_a_large_request_decide() {
        let list = [&[0xdd][..], &(16_u32 << 20).to_be_bytes(), &[1; 100]].concat();
        assert_eq!(check_start(&list, 16 << 20, false), Err(envelope::Error::Shape));
        let request = clear(100, 1);
        assert_eq!(check_start(&request, 2 << 20, false), Ok(()));
        assert_eq!(check_start(&request, 2 << 20, true), Err(too_large(2 << 20)));
        assert_eq!(check_start(&request, 1 << 20, true), Ok(()));
        assert_eq!(check_start(&request[..8], 2 << 20, true), Ok(()), "it may still become a sealed one");
    }
}

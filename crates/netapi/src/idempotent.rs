//! Requests that are repeated: with the header `Idempotency-Key` a job is published once, however often a client asks.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::failure::Failure;
use crate::own_jobs::Owner;

/// For how long a key is known.
const KEPT: Duration = Duration::from_secs(24 * 3600);

/// The most keys of a user, and of all. The oldest go first.
const MOST_OF_ONE: usize = 10_000;
const MOST: usize = 100_000;

/// The longest key, in bytes.
const LONGEST: usize = 255;

/// The keys of all users.
#[derive(Default)]
pub struct Idempotent(Mutex<State>);

#[derive(Default)]
struct State {
    users: HashMap<Owner, Keys>,
    count: usize,
}

#[derive(Default)]
struct Keys {
    by_name: HashMap<Arc<str>, Entry>,
    /// The oldest first.
    order: VecDeque<(Instant, Arc<str>)>,
}

struct Entry {
    /// The digest of the request.
    digest: [u8; 32],
    /// The job, once it is published. Locked while a request publishes it.
    job: Arc<tokio::sync::Mutex<Option<String>>>,
}

/// Reads the header.
///
/// # Errors
/// When it cannot be a key.
pub fn key(header: Option<&axum::http::HeaderValue>) -> Result<Option<String>, Failure> {
    let Some(header) = header else { return Ok(None) };
    let text = header.to_str().ok().filter(|text| !text.is_empty() && text.len() <= LONGEST);
    text.map(|text| Some(text.to_owned()))
        .ok_or_else(|| Failure::bad_request(format!("Idempotency-Key must have 1 to {LONGEST} letters of ASCII")))
}

impl Idempotent {
    fn state(&self) -> MutexGuard<'_, State> {
        // After a panic a key is missing in one of the lists at most.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes a job unless this user has done so with this key. A request that comes meanwhile waits. Returns the job, and whether
    /// it was there already.
    ///
    /// # Errors
    /// When the key belongs to another request, or the job cannot be published; then the key may be used again.
    pub async fn once(
        &self,
        user: Owner,
        key: &str,
        digest: [u8; 32],
        publish: impl Future<Output = Result<Option<String>, Failure>>,
    ) -> Result<(Option<String>, bool), Failure> {
        let job = self.entry(user, key, digest)?;
        let mut job = job.lock().await;
        if let Some(known) = &*job {
            return Ok((Some(known.clone()), true));
        }
        let published = publish.await?;
        job.clone_from(&published);
        Ok((published, false))
    }

    fn entry(
        &self,
        user: Owner,
        key: &str,
        digest: [u8; 32],
    ) -> Result<Arc<tokio::sync::Mutex<Option<String>>>, Failure> {
        let now = Instant::now();
        let mut state = self.state();
        state.forget_old(now);
        let keys = state.users.entry(user).or_default();
        if let Some(entry) = keys.by_name.get(key) {
            return match entry.digest == digest {
                true => Ok(entry.job.clone()),
                false => Err(Failure::new(409, "This Idempotency-Key belongs to another request")),
            };
        }
        let full = keys.order.len() >= MOST_OF_ONE;
        if full {
            keys.forget_first();
        }
        let (name, job) = (Arc::<str>::from(key), Arc::default());
        keys.by_name.insert(name.clone(), Entry { digest, job: Arc::clone(&job) });
        keys.order.push_back((now, name));
        state.count += usize::from(!full);
        Ok(job)
    }
}

impl Keys {
    fn forget_first(&mut self) {
        if let Some((_, name)) = self.order.pop_front() {
            self.by_name.remove(&name);
        }
    }
}

impl State {
    fn forget_old(&mut self, now: Instant) {
        let mut forgotten = 0;
        for keys in self.users.values_mut() {
            while keys.order.front().is_some_and(|(at, _)| now.duration_since(*at) >= KEPT) {
                keys.forget_first();
                forgotten += 1;
            }
        }
        self.count -= forgotten;
        while self.count >= MOST {
            // Whoever has the most gives way.
            let Some(keys) = self.users.values_mut().max_by_key(|keys| keys.order.len()) else { return };
            keys.forget_first();
            self.count -= 1;
        }
        self.users.retain(|_, keys| !keys.order.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn user(name: &str) -> Owner {
        Owner { user: name.to_owned(), backend: "file".to_owned() }
    }

    async fn publish(keys: &Idempotent, name: &str, key: &str, digest: u8, jid: &str) -> Result<(String, bool), u16> {
        let jid = jid.to_owned();
        let done = keys.once(user(name), key, [digest; 32], async { Ok(Some(jid)) }).await;
        done.map(|(jid, known)| (jid.unwrap(), known)).map_err(|failure| failure.status)
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_is_published_once_for_a_day() {
        let keys = Idempotent::default();
        assert_eq!(publish(&keys, "fred", "a", 1, "j1").await, Ok(("j1".to_owned(), false)));
        assert_eq!(publish(&keys, "fred", "a", 1, "j2").await, Ok(("j1".to_owned(), true)));
        assert_eq!(publish(&keys, "fred", "a", 2, "j2").await, Err(409), "it is another request");
        assert_eq!(publish(&keys, "wilma", "a", 2, "j3").await, Ok(("j3".to_owned(), false)), "each has own keys");
        tokio::time::advance(KEPT).await;
        assert_eq!(publish(&keys, "fred", "a", 2, "j4").await, Ok(("j4".to_owned(), false)));
        assert_eq!(keys.state().users.len(), 1);
    }

    #[tokio::test]
    async fn what_failed_may_be_tried_again() {
        let keys = Idempotent::default();
        let failed = keys.once(user("fred"), "a", [1; 32], async { Err(Failure::no_master()) }).await;
        assert_eq!(failed, Err(Failure::no_master()));
        assert_eq!(publish(&keys, "fred", "a", 1, "j1").await, Ok(("j1".to_owned(), false)));
    }

    #[tokio::test]
    async fn a_second_request_waits_for_the_first() {
        let keys = Arc::new(Idempotent::default());
        let (tell, told) = tokio::sync::oneshot::channel();
        let (first, shared) = (keys.clone(), keys.clone());
        let (begin, begun) = tokio::sync::oneshot::channel();
        let first = tokio::spawn(async move {
            let work = async {
                begin.send(()).unwrap();
                Ok(Some(told.await.unwrap()))
            };
            first.once(user("fred"), "a", [1; 32], work).await
        });
        begun.await.unwrap();
        let second = tokio::spawn(async move { publish(&shared, "fred", "a", 1, "j2").await });
        tell.send("j1".to_owned()).unwrap();
        assert_eq!(first.await.unwrap(), Ok((Some("j1".to_owned()), false)));
        assert_eq!(second.await.unwrap(), Ok(("j1".to_owned(), true)));
    }

    #[tokio::test]
    async fn the_oldest_of_too_many_go() {
        let keys = Idempotent::default();
        for number in 0..=MOST_OF_ONE {
            publish(&keys, "fred", &number.to_string(), 1, "j").await.unwrap();
        }
        assert_eq!(keys.state().count, MOST_OF_ONE);
        assert_eq!(publish(&keys, "fred", "1", 1, "new").await, Ok(("j".to_owned(), true)));
        assert_eq!(publish(&keys, "fred", "0", 1, "new").await, Ok(("new".to_owned(), false)));
    }

    #[test]
    fn a_key_is_short_text() {
        let read = |bytes: &[u8]| key(HeaderValue::from_bytes(bytes).ok().as_ref()).map_err(|failure| failure.status);
        assert_eq!(read(b"0f8c"), Ok(Some("0f8c".to_owned())));
        assert_eq!(key(None), Ok(None));
        for bad in [&b""[..], "ü".as_bytes(), &[b'x'; LONGEST + 1]] {
            assert_eq!(read(bad), Err(400));
        }
    }
}

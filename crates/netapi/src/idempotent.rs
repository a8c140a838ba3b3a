//! Requests that are repeated: with the header `Idempotency-Key` a job is published once, however often a client asks.
//!
//! The id of the job is chosen here and stored before the job is published, so a client that asks again after a crash of this program
//! gets the same job.

mod files;

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use rt::Rt;
use tokio::time::Instant;

use crate::failure::Failure;
use crate::own_jobs::Owner;
use files::{Files, Record};

/// For how long a key is known.
const KEPT: Duration = Duration::from_secs(24 * 3600);

/// The most keys of a user, and of all. The oldest go first.
const MOST_OF_ONE: usize = 10_000;
const MOST: usize = 100_000;

/// The longest key, in bytes.
const LONGEST: usize = 255;

/// How old the id of a job may be that was chosen and not used: the master takes ids of now.
const FRESH: Duration = Duration::from_secs(300);

/// The keys of all users.
pub struct Idempotent {
    rt: Rt,
    files: Files,
    state: Mutex<State>,
}

/// A request with a key.
pub struct Keyed {
    /// The user.
    pub user: Owner,
    /// The key.
    pub key: String,
    /// The digest of the body.
    pub digest: [u8; 32],
    /// The id for a new job.
    pub jid: String,
}

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
    /// Creates the list, with files in the master's cache directory.
    pub fn new(rt: Rt, cachedir: &Path) -> Self {
        Idempotent { rt, files: Files::new(cachedir), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // After a panic a key is missing in one of the lists at most.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes a job unless this user has done so with this key. A request that comes meanwhile waits. Returns the job, and whether
    /// it was there already. `exists` says whether the job cache has a job.
    ///
    /// # Errors
    /// When the key belongs to another request, or the job cannot be published; then the key may be used again.
    pub async fn once<E, P>(
        &self,
        request: Keyed,
        exists: impl Fn(String) -> E,
        publish: impl FnOnce(String) -> P,
    ) -> Result<(Option<String>, bool), Failure>
    where
        E: Future<Output = Result<bool, Failure>>,
        P: Future<Output = Result<Option<String>, Failure>>,
    {
        let name = files::name(&request.user, &request.key);
        let stored = self.stored(&name).await;
        if stored.as_ref().is_some_and(|record| record.digest != request.digest) {
            return Err(another());
        }
        let job = self.entry(request.user, &request.key, request.digest)?;
        let mut job = job.lock().await;
        if let Some(known) = &*job {
            return Ok((Some(known.clone()), true));
        }
        let mut jid = request.jid;
        if let Some(record) = stored {
            if exists(record.jid.clone()).await? {
                *job = Some(record.jid.clone());
                return Ok((Some(record.jid), true));
            }
            // It may still be on its way to the master.
            jid = if record.age < FRESH { record.jid } else { jid };
        }
        self.store(&name, request.digest, &jid).await?;
        let published = publish(jid.clone()).await;
        match &published {
            Ok(Some(known)) if *known != jid => self.store(&name, request.digest, known).await?,
            Ok(Some(_)) => {}
            // The answer may be lost, and not the job.
            Err(_) if exists(jid.clone()).await? => {
                *job = Some(jid.clone());
                return Ok((Some(jid), false));
            }
            Ok(None) | Err(_) => self.forget(&name).await,
        }
        let published = published?;
        job.clone_from(&published);
        Ok((published, false))
    }

    async fn stored(&self, name: &str) -> Option<Record> {
        let (files, name, now) = (self.files.clone(), name.to_owned(), self.rt.now());
        let read =
            self.rt.blocking(move || files.read(&name, now, KEPT)).await.map_err(std::io::Error::other).flatten();
        read.inspect_err(|error| tracing::warn!("failed to read the file of an Idempotency-Key: {error}"))
            .ok()
            .flatten()
    }

    /// Without its file a key would be worth nothing after a crash, so the job is not published either.
    async fn store(&self, name: &str, digest: [u8; 32], jid: &str) -> Result<(), Failure> {
        let (files, name, jid) = (self.files.clone(), name.to_owned(), jid.to_owned());
        let stored = self.rt.blocking(move || files.store(&name, digest, &jid)).await;
        stored.map_err(std::io::Error::other).flatten().map_err(|error| {
            tracing::error!("failed to store an Idempotency-Key: {error}");
            Failure::new(503, "The Idempotency-Key cannot be stored: nothing is published")
        })
    }

    async fn forget(&self, name: &str) {
        let (files, name) = (self.files.clone(), name.to_owned());
        let removed = self.rt.blocking(move || files.remove(&name)).await.map_err(std::io::Error::other).flatten();
        if let Err(error) = removed {
            tracing::warn!("failed to remove the file of an Idempotency-Key: {error}");
        }
    }

    /// Removes the files of keys that are no longer known.
    pub async fn clean(&self, now: SystemTime) {
        let files = self.files.clone();
        let cleaned = self.rt.blocking(move || files.clean(now, KEPT)).await.map_err(std::io::Error::other).flatten();
        if let Err(error) = cleaned {
            tracing::warn!("failed to remove the files of old Idempotency-Keys: {error}");
        }
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
                false => Err(another()),
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

fn another() -> Failure {
    Failure::new(409, "This Idempotency-Key belongs to another request")
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

    fn request(name: &str, key: &str, digest: u8, jid: &str) -> Keyed {
        let user = Owner { user: name.to_owned(), backend: "file".to_owned() };
        Keyed { user, key: key.to_owned(), digest: [digest; 32], jid: jid.to_owned() }
    }

    fn keys() -> (Idempotent, tempfile::TempDir) {
        let place = tempfile::tempdir().unwrap();
        (Idempotent::new(Rt::real(), place.path()), place)
    }

    async fn never(_: String) -> Result<bool, Failure> {
        Ok(false)
    }

    async fn always(_: String) -> Result<bool, Failure> {
        Ok(true)
    }

    async fn publish(keys: &Idempotent, name: &str, key: &str, digest: u8, jid: &str) -> Result<(String, bool), u16> {
        let done = keys.once(request(name, key, digest, jid), never, async |jid| Ok(Some(jid))).await;
        done.map(|(jid, known)| (jid.unwrap(), known)).map_err(|failure| failure.status)
    }

    #[tokio::test]
    async fn a_job_is_published_once() {
        let (keys, _place) = keys();
        assert_eq!(publish(&keys, "fred", "a", 1, "j1").await, Ok(("j1".to_owned(), false)));
        assert_eq!(publish(&keys, "fred", "a", 1, "j2").await, Ok(("j1".to_owned(), true)));
        assert_eq!(publish(&keys, "fred", "a", 2, "j2").await, Err(409), "it is another request");
        assert_eq!(publish(&keys, "wilma", "a", 2, "j3").await, Ok(("j3".to_owned(), false)), "each has own keys");
    }

    #[tokio::test]
    async fn a_key_outlives_the_program() {
        let (keys, place) = keys();
        let ask = |keys: Idempotent, digest, jid: &'static str, there| async move {
            let exists = move |_| std::future::ready(Ok(there));
            let done = keys.once(request("fred", "a", digest, jid), exists, async |jid| Ok(Some(jid))).await;
            done.map_err(|failure| failure.status)
        };
        assert_eq!(ask(keys, 1, "j1", false).await, Ok((Some("j1".to_owned()), false)));
        let restarted = || Idempotent::new(Rt::real(), place.path());
        assert_eq!(ask(restarted(), 1, "j2", true).await, Ok((Some("j1".to_owned()), true)));
        assert_eq!(ask(restarted(), 2, "j2", true).await, Err(409));
        // The program ended before the job had reached the master.
        assert_eq!(ask(restarted(), 1, "j2", false).await, Ok((Some("j1".to_owned()), false)));
        restarted().clean(SystemTime::now() + KEPT).await;
        assert_eq!(ask(restarted(), 2, "j3", true).await, Ok((Some("j3".to_owned()), false)));
    }

    #[tokio::test]
    async fn what_failed_may_be_tried_again() {
        let (keys, _place) = keys();
        let fails = async |_| Err(Failure::no_master());
        let failed = keys.once(request("fred", "a", 1, "j0"), never, fails).await;
        assert_eq!(failed, Err(Failure::no_master()));
        assert_eq!(publish(&keys, "fred", "a", 1, "j1").await, Ok(("j1".to_owned(), false)));
        // Only the answer was lost.
        let lost = keys.once(request("fred", "b", 1, "j2"), always, fails).await;
        assert_eq!(lost, Ok((Some("j2".to_owned()), false)));
        assert_eq!(publish(&keys, "fred", "b", 1, "j3").await, Ok(("j2".to_owned(), true)));
    }

    #[tokio::test]
    async fn a_second_request_waits_for_the_first() {
        let (keys, _place) = keys();
        let keys = Arc::new(keys);
        let (tell, told) = tokio::sync::oneshot::channel();
        let (first, shared) = (keys.clone(), keys.clone());
        let (begin, begun) = tokio::sync::oneshot::channel();
        let first = tokio::spawn(async move {
            let work = |_| async {
                begin.send(()).unwrap();
                Ok(Some(told.await.unwrap()))
            };
            first.once(request("fred", "a", 1, "j0"), never, work).await
        });
        begun.await.unwrap();
        let second = tokio::spawn(async move { publish(&shared, "fred", "a", 1, "j2").await });
        tell.send("j1".to_owned()).unwrap();
        assert_eq!(first.await.unwrap(), Ok((Some("j1".to_owned()), false)));
        assert_eq!(second.await.unwrap(), Ok(("j1".to_owned(), true)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_memory_is_bounded() {
        let (keys, _place) = keys();
        let user = |name: &str| request(name, "", 0, "").user;
        for number in 0..=MOST_OF_ONE {
            keys.entry(user("fred"), &number.to_string(), [1; 32]).unwrap();
        }
        assert_eq!(keys.state().count, MOST_OF_ONE);
        assert!(keys.entry(user("fred"), "1", [2; 32]).is_err() && keys.entry(user("fred"), "0", [2; 32]).is_ok());
        tokio::time::advance(KEPT).await;
        keys.entry(user("wilma"), "x", [1; 32]).unwrap();
        assert_eq!(keys.state().users.len(), 1);
        assert_eq!(keys.state().count, 1);
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

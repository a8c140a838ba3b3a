//! Sessions: who has logged in.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long a session lasts after its last request.
pub const IDLE: Duration = Duration::from_secs(36_000);

/// How much later than a request its file may say when the session was used last.
const NOTED: Duration = Duration::from_secs(60);

/// The largest number of sessions in memory. The one that was idle longest goes first; its file stays.
const MOST: usize = 10_000;

/// The length of an id in random bytes.
pub const ID_BYTES: usize = 20;

/// Who has logged in.
#[derive(Clone, PartialEq)]
pub struct Session {
    /// The token of the login.
    pub token: String,
    /// The user.
    pub user: String,
    /// The backend.
    pub backend: String,
    /// The groups at the login.
    pub groups: Vec<String>,
    /// The end of the token.
    pub expire: SystemTime,
}

// Tokens are not printed.
impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({:?}, {:?})", self.user, self.backend)
    }
}

impl Session {
    /// Reads the content of a token.
    pub fn of_token(token: &value::Map) -> Option<Self> {
        let seconds = token.get("expire").and_then(value::Value::as_f64)?;
        let groups = token.get("groups").and_then(value::Value::as_list).unwrap_or_default();
        Some(Session {
            token: token.get_str("token")?.to_owned(),
            user: token.get_str("name")?.to_owned(),
            backend: token.get_str("eauth")?.to_owned(),
            groups: groups.iter().map(ToString::to_string).collect(),
            expire: UNIX_EPOCH + Duration::try_from_secs_f64(seconds).ok()?,
        })
    }
}

/// The sessions in memory by id.
#[derive(Default)]
pub struct Sessions(HashMap<String, SessionEntry>);

struct SessionEntry {
    session: Session,
    /// The last request.
    used: SystemTime,
    /// What its file says about that.
    noted: SystemTime,
}

impl Sessions {
    /// Begins a session under a new id of random bytes.
    pub fn begin(&mut self, random: [u8; ID_BYTES], session: Session, now: SystemTime) -> String {
        let id = hex::encode(random);
        self.add(&id, session, now, now);
        id
    }

    /// Adds a session that was used last at this time.
    pub fn add(&mut self, id: &str, session: Session, used: SystemTime, now: SystemTime) {
        if self.0.len() >= MOST {
            self.0.retain(|_, entry| is_alive(&entry.session, entry.used, now));
        }
        if self.0.len() >= MOST
            && let Some(oldest) = self.0.iter().min_by_key(|(_, entry)| entry.used).map(|(id, _)| id.clone())
        {
            self.0.remove(&oldest);
        }
        self.0.insert(id.to_owned(), SessionEntry { session, used, noted: used });
    }

    /// Returns a session, which lasts longer now, and whether its file must be told.
    pub fn find(&mut self, id: &str, now: SystemTime) -> Option<(Session, bool)> {
        let entry = self.0.get_mut(id)?;
        if !is_alive(&entry.session, entry.used, now) {
            self.0.remove(id);
            return None;
        }
        entry.used = now;
        // Not at each request: a console sends many.
        let note = now > entry.noted + NOTED;
        if note {
            entry.noted = now;
        }
        Some((entry.session.clone(), note))
    }

    /// Returns whether a session exists, without making it last longer.
    pub fn exists(&self, id: &str, now: SystemTime) -> bool {
        self.0.get(id).is_some_and(|entry| is_alive(&entry.session, entry.used, now))
    }

    /// Ends a session.
    pub fn end(&mut self, id: &str) {
        self.0.remove(id);
    }

    /// Returns the number of sessions.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// Returns whether a session that was used last at this time has not ended.
pub fn is_alive(session: &Session, used: SystemTime, now: SystemTime) -> bool {
    now < session.expire && now < used + IDLE
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn session(expire: SystemTime) -> Session {
        Session { token: "secret".into(), user: "fred".into(), backend: "file".into(), groups: Vec::new(), expire }
    }

    #[test]
    fn a_session_ends_when_it_is_idle_or_its_token_expires() {
        let (mut sessions, start) = (Sessions::default(), UNIX_EPOCH);
        let id = sessions.begin([1; ID_BYTES], session(start + 30 * HOUR), start);
        assert_eq!(id, "01".repeat(ID_BYTES));
        for hours in [9, 18, 27] {
            assert!(sessions.find(&id, start + hours * HOUR).is_some(), "{hours}");
        }
        assert!(sessions.find(&id, start + 30 * HOUR).is_none(), "the token has expired");
        let id = sessions.begin([2; ID_BYTES], session(start + 30 * HOUR), start);
        assert!(sessions.find(&id, start + 10 * HOUR).is_none(), "nobody used it for ten hours");
        assert_eq!(sessions.len(), 0);
        let id = sessions.begin([3; ID_BYTES], session(start + 30 * HOUR), start);
        sessions.end(&id);
        assert!(sessions.find(&id, start).is_none());
    }

    #[test]
    fn the_file_is_told_once_a_minute() {
        let (mut sessions, start) = (Sessions::default(), UNIX_EPOCH);
        let id = sessions.begin([1; ID_BYTES], session(start + 30 * HOUR), start);
        let mut note = |seconds| sessions.find(&id, start + Duration::from_secs(seconds)).unwrap().1;
        assert_eq!([1, 60, 61, 62, 121, 122].map(&mut note), [false, false, true, false, false, true]);
    }

    #[test]
    fn there_are_never_too_many() {
        let (mut sessions, start) = (Sessions::default(), UNIX_EPOCH);
        for number in 0..MOST as u32 + 2 {
            let mut id = [0; ID_BYTES];
            id[..4].copy_from_slice(&number.to_be_bytes());
            sessions.begin(id, session(start + 30 * HOUR), start + Duration::from_secs(number.into()));
        }
        assert_eq!(sessions.len(), MOST);
        assert!(sessions.find(&"00".repeat(ID_BYTES), start).is_none(), "the oldest has gone");
    }

    #[test]
    fn a_token_is_read_and_never_printed() {
        let token =
            value::map! { "token" => "secret", "name" => "fred", "eauth" => "file", "expire" => 10.5, "start" => 0.5 };
        let session = Session::of_token(&token).unwrap();
        assert_eq!(session.expire, UNIX_EPOCH + Duration::from_millis(10_500));
        assert!(!format!("{session:?}").contains("secret"));
        let mut odd = token.clone();
        odd.insert("expire", f64::NAN);
        assert_eq!(Session::of_token(&odd), None);
        assert_eq!(Session::of_token(&value::Map::new()), None);
    }
}

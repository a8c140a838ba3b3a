//! Logins with `external_auth`.
//!
//! Checking a password may take long, and strangers send as many as they like. So a login occupies no worker: it waits in a
//! line of its own, few are checked at once, and the answer to a wrong one is delayed by a timer.

mod accounts;
mod limits;
mod owners;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use auth::{Checked, Given, LONGEST_PASSWORD, Providers, is_name};
use rt::Rt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tracing::{info, warn};
use value::{Map, Value};
use wire::Command;

use crate::Error;
use accounts::Accounts;
pub use accounts::TokenUser;
pub use limits::Place;
use limits::{Limits, Places};
use owners::Owners;

/// How many passwords are checked at once.
const AT_ONCE: usize = 4;

/// How long a login may take, with the time in the line.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long after its request a refusal is answered.
const DELAY: Duration = Duration::from_secs(1);

/// How long a success that took longer than that delays refusals, so that their time does not tell who exists.
const REMEMBERED: Duration = Duration::from_secs(600);

/// The logins of a master.
pub struct Logins {
    providers: Arc<Providers>,
    turns: Arc<Semaphore>,
    places: Arc<Places>,
    limits: Mutex<Limits>,
    slowest: Mutex<Option<(Instant, Duration)>>,
    accounts: Accounts,
    /// The tokens of each user.
    pub owners: Owners,
}

/// What a request asks to log in with. It has no `Debug`, because of the password.
pub struct Attempt {
    backend: Option<Value>,
    username: Option<Value>,
    password: Option<Value>,
    /// The address of the client for which a program of this host asks.
    client: Option<IpAddr>,
}

/// The result of a login.
#[derive(Clone, Debug, PartialEq)]
pub enum Login {
    /// The password was right.
    Proven {
        /// The user.
        user: String,
        /// The backend.
        backend: String,
        /// The groups, and the entries that the backend itself has.
        checked: Checked,
    },
    /// It was not, or nothing could tell.
    Refused {
        /// The name that was sent, if it was a text.
        user: Option<String>,
    },
}

impl Attempt {
    /// Takes the login out of a request. Returns `None` if the request proves its sender otherwise.
    ///
    /// As in Salt, a token counts before a login, and a login before a key.
    pub fn take(cmd: &str, load: &mut Map) -> Option<Self> {
        let fields = match Command::from_name(cmd)? {
            Command::Publish => load.get_mut("kwargs").and_then(Value::as_map_mut)?,
            Command::Runner | Command::Wheel | Command::MakeToken => load,
            _ => return None,
        };
        let makes_token = cmd == Command::MakeToken.name();
        if !makes_token && (fields.contains_key("token") || !fields.contains_key("eauth")) {
            return None;
        }
        let [backend, username, password] = ["eauth", "username", "password"].map(|name| fields.remove(name));
        let client = fields.remove("client_address").and_then(|address| address.as_str()?.parse().ok());
        Some(Attempt { backend, username, password, client })
    }

    /// Returns the address that logs in, for a connection from a peer. Only programs of this host, such as salt-api, log in for
    /// others. Otherwise the clients of salt-api would be one address, and a stranger who guesses there could keep its users out.
    pub fn address(&self, peer: SocketAddr) -> IpAddr {
        self.client.filter(|_| peer.ip().is_loopback()).unwrap_or(peer.ip())
    }

    /// Returns the result without asking anybody.
    pub fn refused(&self) -> Login {
        Login::Refused { user: self.username.as_ref().and_then(Value::as_str).map(str::to_owned) }
    }
}

impl Logins {
    /// Reads `external_auth`.
    ///
    /// # Errors
    /// When it names a backend that is not supported, or that cannot work with its options.
    pub fn new(config: &config::Master, keeper: Option<auth::pam::Keeper>) -> Result<Self, Error> {
        let given = Given { options: &config.raw, keeper: keeper.map(Arc::new) };
        let providers = Providers::read(&config.access.external_auth, &given)?;
        Ok(Logins {
            providers: Arc::new(providers),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            places: Arc::default(),
            limits: Mutex::default(),
            slowest: Mutex::default(),
            accounts: Accounts::default(),
            owners: Owners::default(),
        })
    }

    /// Returns the entries of a user in `external_auth`. `None` if the backend is not in it.
    pub fn entries(
        &self,
        backend: &str,
        user: &str,
        groups: &[String],
        permissive: bool,
        rt: &Rt,
    ) -> Option<Vec<Value>> {
        let provider = self.providers.get(backend)?;
        self.renew_computers(rt);
        let entries = targeting::acl::entries_for(&provider.entries, user, groups, permissive);
        Some(self.providers.expand(backend, entries))
    }

    /// Asks the directory for the computers that entries stand for, if that was long ago. Nobody waits for it.
    pub fn renew_computers(&self, rt: &Rt) {
        if self.providers.are_computers_due() {
            let providers = self.providers.clone();
            drop(rt.blocking(move || providers.ask_for_computers()));
        }
    }

    /// Takes a place in the line. Returns `None` if the line is full, or this address has too many places.
    pub fn place(&self, address: IpAddr) -> Option<Place> {
        self.places.take(address)
    }

    /// Decides about a login. Refusals come after a delay.
    pub async fn decide(&self, attempt: Attempt, peer: SocketAddr, rt: &Rt) -> Login {
        let (began, refused) = (Instant::now(), attempt.refused());
        let address = attempt.address(peer);
        let login = LoginForLog::of(&attempt, address);
        let why = match self.check(attempt, address, rt).await {
            Ok((user, backend, checked)) => {
                info!("{login} logged in");
                self.note_success(began);
                return Login::Proven { user, backend, checked };
            }
            Err(why) => why,
        };
        warn!("Authentication failure of type \"eauth\" occurred: {login} may not log in: {why}");
        tokio::time::sleep_until(began + self.delay(Instant::now())).await;
        refused
    }

    /// Returns the user, the backend and what it knows about the user, or why the login is refused.
    async fn check(&self, attempt: Attempt, address: IpAddr, rt: &Rt) -> Result<(String, String, Checked), String> {
        let deadline = Instant::now() + TIMEOUT;
        let text = |value: Option<Value>, name| match value {
            Some(Value::Str(text)) => Ok(text),
            Some(_) => Err(format!("{name} is not a text")),
            None => Err(format!("{name} is missing")),
        };
        let backend = text(attempt.backend, "eauth")?;
        let user = text(attempt.username, "username")?;
        let password = text(attempt.password, "password")?;
        if self.providers.get(&backend).is_none() {
            return Err("The eauth system is not enabled".to_owned());
        }
        if !is_name(&user) || password.len() > LONGEST_PASSWORD {
            return Err("no user has such a name or password".to_owned());
        }
        if let Some(reason) = self.limits().refuses(address, &user, Instant::now()) {
            return Err(reason.to_owned());
        }
        let turn = tokio::time::timeout_at(deadline, self.turns.clone().acquire_owned()).await;
        let turn = turn.map_err(|_| "too many logins at once")?.map_err(|_| "the master stops")?;
        // Others that were sent at the same time may have failed while this one waited for its turn.
        if let Some(reason) = self.limits().refuses(address, &user, Instant::now()) {
            return Err(reason.to_owned());
        }
        let checked = tokio::time::timeout_at(deadline, self.ask(&backend, &user, password, turn, rt)).await;
        let reason = match checked {
            Ok(Ok(Some(checked))) => {
                self.limits().note_success(address, &user, Instant::now());
                return Ok((user, backend, checked));
            }
            Ok(Ok(None)) => "wrong name or password".to_owned(),
            Ok(Err(reason)) => reason,
            Err(_) => format!("no answer within {} seconds", TIMEOUT.as_secs()),
        };
        self.limits().note_failure(address, &user, Instant::now());
        Err(reason)
    }

    /// Asks the backend on a thread, which keeps its turn until it has the answer, even if nobody waits for it any more.
    async fn ask(
        &self,
        backend: &str,
        user: &str,
        password: String,
        turn: OwnedSemaphorePermit,
        rt: &Rt,
    ) -> Result<Option<Checked>, String> {
        let (providers, backend, user) = (self.providers.clone(), backend.to_owned(), user.to_owned());
        let check = move || {
            let _turn = turn;
            providers.check(&backend, &user, &password)
        };
        let answer = rt.blocking(check).await.map_err(|error| error.to_string())?;
        answer.map_err(|error| value::error::chain(&error))
    }

    fn note_success(&self, began: Instant) {
        let took = began.elapsed();
        if took > DELAY {
            *self.slowest.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), took));
        }
    }

    fn delay(&self, now: Instant) -> Duration {
        let slowest = *self.slowest.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = slowest.filter(|(when, _)| now.saturating_duration_since(*when) < REMEMBERED);
        recent.map_or(DELAY, |(_, took)| took.max(DELAY))
    }

    fn limits(&self) -> std::sync::MutexGuard<'_, Limits> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who logs in, for the log: user, backend, address.
struct LoginForLog {
    user: String,
    backend: String,
    address: IpAddr,
}

impl LoginForLog {
    fn of(attempt: &Attempt, address: IpAddr) -> Self {
        let brief = |value: &Option<Value>| {
            let text = value.as_ref().and_then(Value::as_str).unwrap_or("UNKNOWN");
            let text = value::escape::brief(text, 60);
            // A stranger chooses the name: without quotes it could go on like the line of another address.
            match text.chars().all(|character| character.is_alphanumeric() || "._-@+\\$:".contains(character)) {
                true => text.into_owned(),
                false => format!("{text:?}"),
            }
        };
        LoginForLog { user: brief(&attempt.username), backend: brief(&attempt.backend), address }
    }
}

impl std::fmt::Display for LoginForLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "user {} with {} from {}", self.user, self.backend, self.address)
    }
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    fn logins(external_auth: Map) -> Logins {
        let options = map! { "external_auth" => external_auth, "sharedsecret" => "a long enough secret" };
        Logins::new(&config::Master::from_options(options).unwrap(), None).unwrap()
    }

    fn attempt(backend: &str, username: impl Into<Value>, password: impl Into<Value>) -> Attempt {
        let fields = map! { "eauth" => backend, "username" => username, "password" => password };
        Attempt::take("mk_token", &mut fields.clone()).unwrap()
    }

    fn peer(address: [u8; 4]) -> SocketAddr {
        (address, 4506).into()
    }

    #[test]
    fn programs_of_this_host_log_in_for_their_clients() {
        let mut fields =
            map! { "eauth" => "file", "username" => "fred", "password" => "x", "client_address" => "192.0.2.1" };
        let attempt = Attempt::take("mk_token", &mut fields).unwrap();
        assert!(fields.is_empty(), "the address goes no further");
        assert_eq!(attempt.address(peer([127, 0, 0, 1])), IpAddr::from([192, 0, 2, 1]));
        assert_eq!(attempt.address(peer([192, 0, 2, 7])), IpAddr::from([192, 0, 2, 7]), "others log in for themselves");
        let own = self::attempt("file", "fred", "x");
        assert_eq!(own.address(peer([127, 0, 0, 1])), IpAddr::from([127, 0, 0, 1]));
    }

    #[test]
    fn a_token_counts_before_a_login_and_a_login_before_a_key() {
        let login = map! { "eauth" => "auto", "username" => "fred", "password" => "x" };
        let mut with_token = login.clone();
        with_token.insert("token", "bad");
        let mut both = with_token.clone();
        assert!(Attempt::take("runner", &mut both).is_none());
        assert_eq!(both, with_token, "nothing is taken");
        assert!(Attempt::take("mk_token", &mut both).is_some(), "no token counts here");
        let mut publish = map! { "kwargs" => login.clone(), "key" => "of root" };
        assert!(Attempt::take("publish", &mut publish).is_some());
        assert_eq!(publish, map! { "kwargs" => map! {}, "key" => "of root" }, "the password goes no further");
        // As in Salt, a publication has its login in kwargs.
        assert!(Attempt::take("publish", &mut login.clone()).is_none());
        assert!(Attempt::take("get_token", &mut login.clone()).is_none());
        assert!(Attempt::take("_auth", &mut login.clone()).is_none());
        assert!(Attempt::take("wheel", &mut map! { "key" => "x" }).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_takes_as_long_whatever_its_reason() {
        let logins = logins(map! { "sharedsecret" => map! { "*" => list!["test.*"] } });
        let rt = Rt::real();
        let secret = "a long enough secret";
        let proven = logins.decide(attempt("sharedsecret", "fred", secret), peer([127, 0, 0, 1]), &rt).await;
        assert_eq!(
            proven,
            Login::Proven { user: "fred".into(), backend: "sharedsecret".into(), checked: Checked::default() }
        );
        for (backend, username, password) in [
            ("sharedsecret", Value::from("fred"), Value::from("wrong")),
            ("pam", "fred".into(), secret.into()),
            ("sharedsecret", "*".into(), secret.into()),
            ("sharedsecret", list!["fred"], secret.into()),
            ("sharedsecret", "fred".into(), Value::Null),
            ("sharedsecret", "fred".into(), "x".repeat(1 << 20).into()),
        ] {
            let began = Instant::now();
            let user = username.as_str().map(str::to_owned);
            let refused = logins.decide(attempt(backend, username, password), peer([127, 0, 0, 1]), &rt).await;
            assert_eq!(refused, Login::Refused { user });
            assert_eq!(began.elapsed(), DELAY);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_guesses_is_refused_even_with_the_right_password() {
        let logins = logins(map! { "sharedsecret" => map! { "*" => list!["test.*"] } });
        let (rt, guesser) = (Rt::real(), peer([192, 0, 2, 1]));
        let secret = "a long enough secret";
        for number in 0..10 {
            logins.decide(attempt("sharedsecret", format!("user{number}"), "wrong"), guesser, &rt).await;
        }
        let again = |peer| logins.decide(attempt("sharedsecret", "fred", secret), peer, &rt);
        assert_eq!(again(guesser).await, Login::Refused { user: Some("fred".into()) });
        assert!(matches!(again(peer([192, 0, 2, 2])).await, Login::Proven { .. }), "others are not concerned");
        tokio::time::advance(Duration::from_secs(61)).await;
        assert!(matches!(again(guesser).await, Login::Proven { .. }));
    }

    #[tokio::test(start_paused = true)]
    async fn who_guesses_many_at_once_gets_no_more_guesses() {
        let logins = logins(map! { "sharedsecret" => map! { "*" => list!["test.*"] } });
        let (rt, guesser) = (Rt::real(), peer([192, 0, 2, 1]));
        let turns: Vec<_> = (0..AT_ONCE).map(|_| logins.turns.clone().try_acquire_owned().unwrap()).collect();
        let guesses = (0..30).map(|number| match number {
            29 => "a long enough secret".to_owned(),
            number => format!("wrong {number}"),
        });
        let guesses = guesses.map(|guess| logins.decide(attempt("sharedsecret", "fred", guess), guesser, &rt));
        // All of them have been looked at once when the first one gets its turn.
        let all = futures_util::future::join_all(guesses);
        let release = async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            drop(turns);
        };
        let (logged_in, ()) = tokio::join!(all, release);
        assert!(logged_in.iter().all(|login| matches!(login, Login::Refused { .. })), "{logged_in:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_backend_that_hangs_holds_its_turn_and_nobody_else() {
        let logins = logins(map! { "auto" => map! { "*" => list!["test.*"] } });
        let rt = Rt::real();
        let turns: Vec<_> = (0..AT_ONCE).map(|_| logins.turns.clone().try_acquire_owned().unwrap()).collect();
        let began = Instant::now();
        let refused = logins.decide(attempt("auto", "fred", "x"), peer([127, 0, 0, 1]), &rt).await;
        assert_eq!(refused, Login::Refused { user: Some("fred".into()) });
        assert_eq!(began.elapsed(), TIMEOUT);
        drop(turns);
        assert!(matches!(
            logins.decide(attempt("auto", "fred", "x"), peer([127, 0, 0, 1]), &rt).await,
            Login::Proven { .. }
        ));
    }
}

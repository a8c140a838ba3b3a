//! Logins under way: how many an address may have, and who is told in the log.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use value::{Map, Value};
use wire::Network;

use crate::failure::Failure;
use crate::lanes;

/// The number of logins of one address that the master checks at a time. The connections for logins are three times as many, so
/// that one address does not hold up the others.
const AT_ONCE: usize = 8;

/// The number of logins of one address that are under way or wait. More get 429.
const MOST: usize = 40;

tokio::task_local! {
    /// The address of the client whose request the task handles.
    pub static CLIENT: IpAddr;
}

/// Returns the address of the client, for tasks that handle a request.
pub fn client() -> IpAddr {
    CLIENT.try_with(|address| *address).unwrap_or(Ipv4Addr::LOCALHOST.into())
}

/// The logins under way, by address.
#[derive(Default)]
pub struct Logins(Mutex<HashMap<Network, Line>>);

struct Line {
    turns: Arc<Semaphore>,
    count: usize,
}

/// A turn to log in. The next one has it when this is dropped.
pub struct Turn<'a> {
    permit: Option<OwnedSemaphorePermit>,
    logins: &'a Logins,
    network: Network,
}

impl Logins {
    /// Waits for a turn.
    ///
    /// # Errors
    /// When too many logins of the address wait already.
    pub async fn turn(&self, address: IpAddr) -> Result<Turn<'_>, Failure> {
        let network = Network::from(address);
        let (turns, mut turn) = {
            let mut lines = self.lines();
            let line =
                lines.entry(network).or_insert_with(|| Line { turns: Arc::new(Semaphore::new(AT_ONCE)), count: 0 });
            if line.count >= MOST {
                tracing::warn!("{address}: a login is refused: {MOST} logins of this address are under way");
                return Err(Failure::new(429, "Too many logins of this address are under way"));
            }
            line.count += 1;
            // From here on it leaves the line even if the client goes away.
            (line.turns.clone(), Turn { permit: None, logins: self, network })
        };
        turn.permit = Some(turns.acquire_owned().await.map_err(|_| Failure::unexpected())?);
        Ok(turn)
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<Network, Line>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        drop(self.permit.take());
        let mut lines = self.logins.lines();
        if let Some(line) = lines.get_mut(&self.network) {
            line.count -= 1;
            if line.count == 0 {
                lines.remove(&self.network);
            }
        }
    }
}

/// A request with a name and a password.
pub struct Attempt {
    name: String,
    calls_function: bool,
}

impl Attempt {
    /// Returns the attempt to log in with a request to the master, if it is one.
    pub fn of(load: &Map) -> Option<Self> {
        let calls_function = matches!(load.get_str("cmd"), Some("runner" | "wheel"));
        lanes::login(load).map(|login| Attempt { name: name(login), calls_function })
    }

    /// Names the client in the request, so that the master counts failures by its address. Clients of this host are not told apart.
    pub fn name_client(load: &mut Map) {
        let fields = match load.get_str("cmd") {
            Some("publish") => load.get_mut("kwargs").and_then(Value::as_map_mut),
            _ => Some(load),
        };
        if let Some(fields) = fields.filter(|_| !client().is_loopback()) {
            fields.insert("client_address", client().to_string());
        }
    }

    /// Logs the attempt if the master has refused it, with what is needed to find and block its sender.
    pub fn note_refusal(&self, answer: &Value) {
        if let Some(refused) = self.refused(answer) {
            let address = client();
            tracing::warn!("{address}: {refused}");
        }
    }

    fn refused(&self, answer: &Value) -> Option<String> {
        let error = answer.get("error").and_then(|error| error.get("name")).and_then(Value::as_str);
        // A refused request for a token has an empty text as its answer.
        let refused = answer.as_str() == Some("") || error.is_some_and(|error| error.contains("Authentication"));
        let name = &self.name;
        match self.calls_function {
            _ if !refused => None,
            // As in Salt, the master answers a wrong password and a function without permission alike.
            true => Some(format!("a call with the login of '{name}' is refused: the login, or its permissions")),
            false => Some(format!("the login of '{name}' is refused")),
        }
    }
}

/// Returns the name in a login, for the log.
fn name(login: &Map) -> String {
    let name = login.get_str("username").unwrap_or("UNKNOWN");
    value::escape::escaped(&value::escape::brief(name, 60)).into_owned()
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use value::map;

    use super::*;

    #[tokio::test]
    async fn an_address_has_few_turns_and_a_bounded_line() {
        let logins = Logins::default();
        let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let mut turns = Vec::new();
        for _ in 0..AT_ONCE {
            turns.push(logins.turn(one).await.unwrap());
        }
        let mut waiting: Vec<_> = (AT_ONCE..MOST).map(|_| Box::pin(logins.turn(one))).collect();
        for turn in &mut waiting {
            assert!(futures_util::poll!(turn).is_pending());
        }
        assert_eq!(logins.turn(one).await.err().unwrap().status, 429);
        assert!(logins.turn(other).await.is_ok(), "others are not concerned");
        turns.pop();
        assert!(futures_util::poll!(&mut waiting[0]).is_ready());
        // Clients that go away while they wait leave the line.
        waiting.clear();
        assert!(futures_util::poll!(pin!(logins.turn(one))).is_ready());
        turns.clear();
        assert!(logins.lines().is_empty());
    }

    #[test]
    fn a_missing_permission_is_not_logged_as_a_wrong_password() {
        let refused = |load: Map, error: &str| {
            let mut load = load;
            load.update(map! { "eauth" => "pam", "username" => "fred" });
            Attempt::of(&load).unwrap().refused(&map! { "error" => map! { "name" => error } }.into())
        };
        let login = Some("the login of 'fred' is refused".to_owned());
        assert_eq!(refused(map! { "cmd" => "mk_token" }, "EauthAuthenticationError"), login);
        assert_eq!(refused(map! { "cmd" => "mk_token" }, "AuthorizationError"), None);
        let call = refused(map! { "cmd" => "wheel" }, "EauthAuthenticationError").unwrap();
        assert_eq!(call, "a call with the login of 'fred' is refused: the login, or its permissions");
        assert!(Attempt::of(&map! { "cmd" => "runner", "token" => "aa" }).is_none());
    }

    #[tokio::test]
    async fn the_master_counts_failures_by_the_address_of_the_client() {
        let named = |address: [u8; 4]| async move {
            let mut loads = [map! { "cmd" => "mk_token" }, map! { "cmd" => "publish", "kwargs" => map! {} }];
            CLIENT.scope(address.into(), async { loads.iter_mut().for_each(Attempt::name_client) }).await;
            let of = |load: &Map| load.get_str("client_address").map(str::to_owned);
            let [token, publish] = loads;
            [of(&token), publish.get("kwargs").and_then(Value::as_map).and_then(of)]
        };
        assert_eq!(named([192, 0, 2, 1]).await, [Some("192.0.2.1".to_owned()), Some("192.0.2.1".to_owned())]);
        assert_eq!(named([127, 0, 0, 1]).await, [None, None]);
    }

    #[test]
    fn names_in_the_log_are_tame() {
        let name = |name: &str| super::name(&map! { "username" => name });
        assert_eq!(name("fred"), "fred");
        assert!(!name("a\nERROR forged").contains('\n'));
        assert!(name(&"a".repeat(10_000)).len() < 100);
    }
}

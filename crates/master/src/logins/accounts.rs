//! Whether the accounts of tokens may still be used.
//!
//! A token outlives the login that made it. If its user has been locked or has expired since, it must not count any more
//! (CVE-2022-22967), so backends that know accounts are asked again, at most once a minute for each user.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use auth::Account;
use rt::Rt;
use tokio::time::Instant;
use tracing::warn;
use value::Map;
use wire::Command;

use super::{Logins, TIMEOUT};
use crate::Stores;

/// How long an answer counts.
const MINUTE: Duration = Duration::from_secs(60);

/// How long nobody is asked again after a failure.
const PAUSE: Duration = Duration::from_secs(5);

/// The largest number of accounts that are remembered. Only users with a valid token have one.
const MOST: usize = 4096;

/// The user of a token, and the backend that knows the account.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenUser {
    backend: String,
    user: String,
}

/// What is known about the accounts of tokens.
#[derive(Debug, Default)]
pub struct Accounts(Mutex<HashMap<TokenUser, AccountStatus>>);

#[derive(Clone, Copy, Debug)]
struct AccountStatus {
    may_be_used: bool,
    until: Instant,
}

impl Accounts {
    fn is_due(&self, of: &TokenUser, now: Instant) -> bool {
        self.statuses().get(of).is_none_or(|status| status.until <= now)
    }

    fn may_be_used(&self, of: &TokenUser) -> bool {
        self.statuses().get(of).is_some_and(|status| status.may_be_used)
    }

    fn note(&self, of: TokenUser, may_be_used: bool, lasts: Duration, now: Instant) {
        let mut statuses = self.statuses();
        if statuses.len() >= MOST && !statuses.contains_key(&of) {
            // Whoever is forgotten is asked about again.
            statuses.retain(|_, status| status.until > now);
            if statuses.len() >= MOST {
                statuses.clear();
            }
        }
        statuses.insert(of, AccountStatus { may_be_used, until: now + lasts });
    }

    fn statuses(&self) -> std::sync::MutexGuard<'_, HashMap<TokenUser, AccountStatus>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Logins {
    /// Returns the user of a request's token, if the backend has to be asked about the account. Reads the token.
    pub fn account_due(&self, cmd: &str, load: &Map, stores: &Stores) -> Option<TokenUser> {
        if !self.providers.know_accounts() {
            return None;
        }
        let token = match Command::from_name(cmd)? {
            Command::Publish => load.get("kwargs")?.get("token"),
            _ => load.get("token"),
        };
        // What cannot be read is refused when the request is handled.
        let found = stores.tokens.get(token?.as_str()?, stores.rt.now()).ok().flatten()?;
        let of = TokenUser { backend: found.get_str("eauth")?.to_owned(), user: found.get_str("name")?.to_owned() };
        (self.knows(&of.backend) && self.accounts.is_due(&of, Instant::now())).then_some(of)
    }

    /// Asks the backend about an account, on a thread, and remembers the answer.
    pub async fn ask_about(&self, of: TokenUser, is_sharing: bool, rt: &Rt) {
        let asked = tokio::time::timeout(TIMEOUT, async {
            let turn = self.turns.clone().acquire_owned().await.map_err(|_| "the master stops".to_owned())?;
            let (providers, of) = (self.providers.clone(), of.clone());
            let ask = move || {
                let _turn = turn;
                providers.account(&of.backend, &of.user)
            };
            let answer = rt.blocking(ask).await.map_err(|error| error.to_string())?;
            answer.map_err(|error| value::error::chain(&error))
        });
        let answer = asked.await.unwrap_or_else(|_| Err(format!("no answer within {} seconds", TIMEOUT.as_secs())));
        let (may_be_used, lasts) = match answer {
            Ok(Account::Usable) => (true, MINUTE),
            // The user may have logged in at another master, whose host has the account.
            Ok(Account::Missing) if is_sharing => (true, MINUTE),
            Ok(account) => {
                let why =
                    if account == Account::Missing { "there is no such account" } else { "the account is closed" };
                warn!("tokens of user {} with {} do not count: {why}", of.user, of.backend);
                (false, MINUTE)
            }
            Err(why) => {
                warn!("tokens of user {} with {} do not count now: {why}", of.user, of.backend);
                (false, PAUSE)
            }
        };
        self.accounts.note(of, may_be_used, lasts, Instant::now());
    }

    /// Returns whether the account of a token's user may be used, as far as the backend knows accounts.
    pub fn account_may_be_used(&self, backend: &str, user: &str) -> bool {
        let of = TokenUser { backend: backend.to_owned(), user: user.to_owned() };
        !self.knows(backend) || self.accounts.may_be_used(&of)
    }

    fn knows(&self, backend: &str) -> bool {
        self.providers.get(backend).is_some_and(|provider| provider.backend.knows_accounts())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(number: usize) -> TokenUser {
        TokenUser { backend: "pam".to_owned(), user: number.to_string() }
    }

    #[test]
    fn an_answer_counts_for_its_time_and_an_account_nobody_knows_is_closed() {
        let (accounts, now) = (Accounts::default(), Instant::now());
        assert!(accounts.is_due(&user(1), now) && !accounts.may_be_used(&user(1)));
        accounts.note(user(1), true, MINUTE, now);
        accounts.note(user(2), false, PAUSE, now);
        assert!(accounts.may_be_used(&user(1)) && !accounts.may_be_used(&user(2)));
        let later = now + PAUSE;
        assert!(!accounts.is_due(&user(1), later) && accounts.is_due(&user(2), later));
        assert!(accounts.is_due(&user(1), now + MINUTE));
    }

    #[test]
    fn the_number_of_accounts_is_bounded() {
        let (accounts, now) = (Accounts::default(), Instant::now());
        (0..2 * MOST).for_each(|number| accounts.note(user(number), true, MINUTE, now));
        assert!(accounts.statuses().len() <= MOST);
        assert!(accounts.may_be_used(&user(2 * MOST - 1)));
    }

    #[test]
    fn backends_without_accounts_are_not_asked() {
        let options = value::map! { "external_auth" => value::map! { "auto" => value::map! {} } };
        let logins = Logins::new(&config::Master::from_options(options).unwrap(), None).unwrap();
        assert!(logins.account_may_be_used("auto", "fred") && logins.account_may_be_used("none", "fred"));
        assert!(!logins.providers.know_accounts());
    }
}

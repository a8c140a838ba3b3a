//! What all requests share: options, sessions, the link to the master.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rt::Rt;
use store::tokens::TokenStore;
use targeting::acl::Form;
use tokio::time::Instant;
use value::{Map, Value, map};

use crate::body_room::BodyRooms;
use crate::failure::Failure;
use crate::figures::Figures;
use crate::idempotent::Idempotent;
use crate::last_answer::LastAnswer;
use crate::limits::Limit;
use crate::link::Link;
use crate::low;
use crate::open_streams::OpenStreams;
use crate::options::Options;
use crate::perms;
use crate::session_files::SessionFiles;
use crate::sessions::{Session, Sessions};
use crate::templates::{self, Template};

/// How often the files of sessions that have ended are removed.
const CLEANING: Duration = Duration::from_secs(3600);

/// The number of logins of an address that may fail in a minute.
const LOGINS: u32 = 10;

/// The number of webhooks without a login of an address in a second, and how many seconds may come at once.
const HOOKS: u32 = 100;
const HOOK_SECONDS: u32 = 10;

/// The state of the program.
pub struct Api {
    /// The options.
    pub options: Options,
    /// The memory for bodies.
    pub body_rooms: BodyRooms,
    /// The link to the master.
    pub link: Arc<Link>,
    access: Mutex<Arc<Access>>,
    sessions: Mutex<Sessions>,
    session_files: SessionFiles,
    tokens: TokenStore,
    logins: Mutex<Limit>,
    hooks: Mutex<Limit>,
    /// The work in numbers.
    pub figures: Figures,
    /// The open streams of events.
    pub streams: OpenStreams,
    /// Whether the master answered last.
    pub last_answer: LastAnswer,
    /// Commands that operators have prepared.
    pub templates: Vec<Template>,
    /// The keys of requests that publish a job once.
    pub idempotent: Idempotent,
    rt: Rt,
    started: SystemTime,
    requests: AtomicU64,
}

/// The options that say who may do what, as the running master has read them.
#[derive(Debug, Default)]
pub struct Access {
    external_auth: Map,
    permissive: bool,
}

impl From<&config::Master> for Access {
    fn from(config: &config::Master) -> Self {
        Access { external_auth: config.access.external_auth.clone(), permissive: config.access.permissive_acl }
    }
}

/// Who sends a request, and how they prove it.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The id of the session; `None` for a token without one.
    pub id: Option<String>,
    /// The session.
    pub session: Session,
    /// True if only the cookie proves it.
    pub by_cookie: bool,
}

impl Api {
    /// Creates the state.
    pub fn new(rt: Rt, config: &config::Master, options: Options) -> Self {
        Api {
            link: Arc::new(Link::new(rt.clone(), config, options.runner_timeout)),
            access: Mutex::new(Arc::new(config.into())),
            body_rooms: BodyRooms::new(options.most_body),
            options,
            sessions: Mutex::default(),
            session_files: SessionFiles::new(&config.paths.cachedir),
            tokens: TokenStore::new(&config.paths.token_dir, store::Layout::Since3008),
            logins: Mutex::new(Limit::new(LOGINS, Duration::from_secs(60))),
            hooks: Mutex::new(Limit::new(HOOKS * HOOK_SECONDS, Duration::from_secs(HOOK_SECONDS.into()))),
            figures: Figures::default(),
            streams: OpenStreams::default(),
            last_answer: LastAnswer::default(),
            templates: templates::read(&config.raw),
            idempotent: Idempotent::new(rt.clone(), &config.paths.cachedir),
            started: rt.now(),
            rt,
            requests: AtomicU64::new(0),
        }
    }

    /// Returns the time.
    pub fn now(&self) -> SystemTime {
        self.rt.now()
    }

    /// Does what may wait for a disk.
    ///
    /// # Errors
    /// When the work fails.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.rt.blocking(work).await.map_err(|error| {
            tracing::error!("a request has failed: {error}");
            Failure::unexpected()
        })?
    }

    /// Runs work that goes on when the client has gone.
    pub fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        // The limits of logins are those of the client.
        match crate::logins::CLIENT.try_with(|client| *client) {
            Ok(client) => self.rt.spawn(crate::logins::CLIENT.scope(client, work)),
            Err(_) => self.rt.spawn(work),
        }
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        locked(&self.sessions)
    }

    /// Counts a request.
    pub fn count(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the statistics.
    pub fn statistics(&self) -> Map {
        if !self.options.statistics {
            return Map::new();
        }
        let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        let (start, now) = (seconds(self.started), seconds(self.now()));
        map! {
            "CherryPy Applications" => map! {
                "Enabled" => true,
                "Start Time" => start,
                "Current Time" => now,
                "Uptime" => now - start,
                "Total Requests" => self.requests.load(Ordering::Relaxed),
            },
            "Saltern Sessions" => self.sessions().len(),
        }
    }

    /// Finds the caller of a request. The header counts instead of the cookie, even when it is wrong. A session and a token count only
    /// at an address from which their user may log in (`api_acl`): a stolen one is of no use elsewhere.
    ///
    /// # Errors
    /// When the master cannot be asked about a token.
    pub async fn caller(
        &self,
        header: Option<&str>,
        cookie: Option<&str>,
        address: IpAddr,
    ) -> Result<Option<Caller>, Failure> {
        let found = self.find_caller(header, cookie).await?;
        Ok(found.filter(|caller| self.options.may_log_in_from(&caller.session.user, &address.to_string())))
    }

    async fn find_caller(&self, header: Option<&str>, cookie: Option<&str>) -> Result<Option<Caller>, Failure> {
        let Some(id) = header.or(cookie) else { return Ok(None) };
        if let Some(session) = self.session(id).await? {
            return Ok(Some(Caller { id: Some(id.to_owned()), session, by_cookie: header.is_none() }));
        }
        // Ids of sessions are shorter than all tokens.
        if header.is_none() || !low::is_hex(id) || id.len() <= 2 * crate::sessions::ID_BYTES {
            return Ok(None);
        }
        let token = self.link.token(id).await?;
        let session = token.and_then(|token| Session::of_token(&token)).filter(|session| self.now() < session.expire);
        Ok(session.map(|session| Caller { id: None, session, by_cookie: false }))
    }

    /// Finds a session: in memory, or in the file that another run of the program has left.
    async fn session(&self, id: &str) -> Result<Option<Session>, Failure> {
        let (files, key, now) = (self.session_files.clone(), id.to_owned(), self.now());
        let found = self.sessions().find(id, now);
        if let Some((session, note)) = found {
            if note {
                self.on_disk("note the use of", move || files.touch(&key, now)).await;
            }
            return Ok(Some(session));
        }
        let Some((session, used)) = self.on_disk("read", move || files.read(&key, now)).await.flatten() else {
            return Ok(None);
        };
        self.sessions().add(id, session, used, now);
        Ok(self.sessions().find(id, now).map(|(session, _)| session))
    }

    /// Works with the file of a session. A file that cannot be used costs no more than the memory of a session.
    async fn on_disk<T: Send + 'static>(
        &self,
        what: &str,
        work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
    ) -> Option<T> {
        let done = self.rt.blocking(work).await.map_err(std::io::Error::other).flatten();
        done.inspect_err(|error| tracing::warn!("failed to {what} the file of a session: {error}")).ok()
    }

    /// Removes the files of sessions that have ended, for ever.
    pub async fn clean_sessions(self: Arc<Self>) {
        loop {
            let (files, now) = (self.session_files.clone(), self.now());
            self.on_disk("remove", move || files.clean(now)).await;
            self.idempotent.clean(now).await;
            tokio::time::sleep(CLEANING).await;
        }
    }

    /// Checks the address of a command that logs in by itself, with a password or a token.
    ///
    /// # Errors
    /// If its user may not log in from there (`api_acl`), or the master cannot be asked about the token.
    pub async fn check_address(&self, command: &Map, address: IpAddr) -> Result<(), Failure> {
        if !self.options.limits_addresses() {
            return Ok(());
        }
        if let Some(user) = command.get_str("username") {
            self.check_address_of(user, address)?;
        }
        let token = match command.get_str("token") {
            Some(token) => self.link.token(token).await?,
            None => None,
        };
        match token.and_then(|token| Session::of_token(&token)) {
            Some(session) => self.check_address_of(&session.user, address),
            // The master refuses a token that nobody has.
            None => Ok(()),
        }
    }

    fn check_address_of(&self, user: &str, address: IpAddr) -> Result<(), Failure> {
        if self.options.may_log_in_from(user, &address.to_string()) {
            return Ok(());
        }
        // The name is chosen by a stranger.
        let user = value::escape::brief(user, 100);
        tracing::warn!("api_acl does not let the user {user:?} log in from {address}");
        Err(Failure::new(401, "No permission -- see authorization schemes"))
    }

    /// Logs a user in. Returns the id of the session, and what the client is told.
    ///
    /// # Errors
    /// When the user may not log in.
    pub async fn log_in(&self, login: &Map, address: IpAddr) -> Result<(String, Map), Failure> {
        let done = self.try_log_in(login, address).await;
        self.count_login(login, done.as_ref().err().map(|failure| failure.status));
        done
    }

    async fn try_log_in(&self, login: &Map, address: IpAddr) -> Result<(String, Map), Failure> {
        let refused = || Failure::new(401, "Could not authenticate using provided credentials");
        let mut request = Map::new();
        for name in ["username", "password", "eauth"] {
            match login.get(name) {
                Some(Value::Str(text)) => request.insert(name, text.as_str()),
                Some(_) => return Err(Failure::bad_request(format!("'{name}' must be a text"))),
                None => return Err(refused()),
            };
        }
        if let Some(life) = login.get("token_expire") {
            request.insert("token_expire", life.clone());
        }
        let user = login.get_str("username").unwrap_or_default();
        self.check_address_of(user, address)?;
        let token = self.limited(address, self.link.make_token(request)).await?.ok_or_else(refused)?;
        let session = Session::of_token(&token).ok_or_else(|| {
            tracing::error!("the master's token has an unexpected form");
            Failure::unexpected()
        })?;
        let perms = perms::permissions(&self.access().external_auth, &session);
        let now = self.now();
        let id = self.sessions().begin(self.rt.bytes(), session.clone(), now);
        let (files, key, kept) = (self.session_files.clone(), id.clone(), session.clone());
        self.on_disk("write", move || files.store(&key, &kept, now)).await;
        let told = map! {
            "token" => id.as_str(),
            "expire" => token.get("expire").cloned().unwrap_or_default(),
            "start" => token.get("start").cloned().unwrap_or_default(),
            "user" => session.user,
            "eauth" => session.backend,
            "perms" => if perms.is_empty() { Map::new().into() } else { Value::List(perms) },
        };
        Ok((id, told))
    }

    /// Makes a token, unless too many logins from this address have failed. Attempts in progress count, so that many at once
    /// are not checked either.
    async fn limited(
        &self,
        address: IpAddr,
        making: impl Future<Output = Result<Option<Map>, Failure>>,
    ) -> Result<Option<Map>, Failure> {
        // A web server in front has an address of this host, and all users come from there.
        if address.is_loopback() {
            return making.await;
        }
        if !locked(&self.logins).take(address, Instant::now()) {
            tracing::warn!("too many logins from {address} have failed");
            return Err(Failure::too_many("Too many logins from this address have failed"));
        }
        let made = making.await;
        if !matches!(made, Ok(None)) {
            locked(&self.logins).give_back(address);
        }
        made
    }

    /// Counts a webhook without a login.
    ///
    /// # Errors
    /// When the address sends too many.
    pub fn count_hook(&self, address: IpAddr) -> Result<(), Failure> {
        match locked(&self.hooks).take(address, Instant::now()) {
            true => Ok(()),
            false => Err(Failure::too_many("Too many webhooks from this address")),
        }
    }

    /// Makes a token for a user who may call the runner `auth.mk_token`.
    ///
    /// The runner itself is not called: its return would be an event, and the token in it could be read from the bus.
    ///
    /// # Errors
    /// When the credentials are wrong, or the user may not call the runner.
    pub async fn make_token(&self, credentials: Map, address: IpAddr) -> Result<Map, Failure> {
        // The same words for both reasons, as for any runner: nobody learns from them that a password is right.
        let user = credentials.get_str("username").unwrap_or_default();
        let message = format!("Authentication failure of type \"eauth\" occurred for user {user}.");
        let refused = || Failure::new(401, message.as_str());
        let token = self.limited(address, self.link.make_token(credentials)).await?.ok_or_else(refused)?;
        // The groups of the user are known only now.
        let session = Session::of_token(&token).ok_or_else(refused)?;
        let access = self.access();
        if !perms::may_make_tokens(&access.external_auth, &session, access.permissive) {
            let user = value::escape::brief(&session.user, 100);
            tracing::warn!("the user {user:?} gets no token: external_auth does not grant the runner auth.mk_token");
            // Nobody will ever use it.
            self.revoke(session.token).await;
            return Err(refused());
        }
        Ok(token)
    }

    /// Calls a function that a route stands for. The client must be enabled as for any command.
    ///
    /// # Errors
    /// When the client is not enabled, the user may not call the function, or the master does not answer.
    pub async fn call(&self, token: &str, client: &str, fun: &str, named: Map) -> Result<Value, Failure> {
        let command = map! { "client" => client, "fun" => fun, "kwarg" => named };
        let command = low::read(command, Some(token), &self.options.clients, "")?;
        Ok(self.link.run(command).await?.pop().unwrap_or_default())
    }

    /// Ends a session.
    pub async fn end_session(&self, id: &str) {
        self.sessions().end(id);
        let (files, id) = (self.session_files.clone(), id.to_owned());
        self.on_disk("remove", move || files.remove(&id)).await;
    }

    /// Logs a user out: ends the session, and revokes the token, which then counts nowhere.
    pub async fn log_out(&self, caller: &Caller) {
        if let Some(id) = &caller.id {
            self.end_session(id).await;
        }
        self.revoke(caller.session.token.clone()).await;
    }

    async fn revoke(&self, token: String) {
        let tokens = self.tokens.clone();
        let removed = self.rt.blocking(move || tokens.remove(&token)).await;
        if let Ok(Err(error)) = removed {
            tracing::error!("failed to revoke a token: {error}");
        }
    }

    /// Returns whether the master still has the token of a caller. If not, somebody has revoked it, and the session ends.
    ///
    /// # Errors
    /// When the master cannot be asked.
    pub async fn is_confirmed(&self, caller: &Caller) -> Result<bool, Failure> {
        let counts = self.link.token(&caller.session.token).await?.is_some();
        if let (false, Some(id)) = (counts, &caller.id) {
            self.end_session(id).await;
        }
        Ok(counts)
    }

    /// Returns whether a caller still counts.
    pub fn still_counts(&self, caller: &Caller) -> bool {
        let now = self.now();
        match &caller.id {
            Some(id) => self.sessions().exists(id, now),
            None => now < caller.session.expire,
        }
    }

    /// Returns whether a user may see all events.
    pub fn sees_all_events(&self, session: &Session) -> bool {
        let access = self.access();
        perms::sees_all_events(&access.external_auth, session, access.permissive)
    }

    /// Returns the backends with which users can log in.
    pub fn backends(&self) -> Vec<String> {
        self.access().external_auth.text_keys().map(str::to_owned).collect()
    }

    /// Returns whether a user may call a runner or a wheel function. The master decides; this says what is worth offering.
    pub fn may_call(&self, session: &Session, form: Form, function: &str) -> bool {
        let access = self.access();
        perms::may_call(&access.external_auth, session, access.permissive, (form, function))
    }

    /// Returns whether a user may read the numbers of this program.
    pub fn sees_metrics(&self, session: &Session) -> bool {
        let access = self.access();
        perms::sees_metrics(&access.external_auth, session, access.permissive)
    }

    /// Returns the numbers of this program.
    pub fn metrics(&self) -> String {
        let sessions = self.sessions().len();
        self.figures.page(sessions, self.streams.count(), self.link.bus.waiting())
    }

    /// Counts a login. The name of a backend that does not exist is a text of the client.
    fn count_login(&self, login: &Map, status: Option<u16>) {
        let backend = login.get_str("eauth").filter(|name| self.access().external_auth.contains_key(name));
        let result = match status {
            None => "granted",
            Some(401) => "refused",
            Some(_) => "failed",
        };
        self.figures.logged_in(backend.unwrap_or("other"), result);
    }

    /// Returns who may do what.
    pub fn access(&self) -> Arc<Access> {
        locked(&self.access).clone()
    }

    /// Reads who may do what whenever the master has started again: it reads these options at its start only.
    pub async fn follow_access(self: Arc<Self>, source: config::Source) {
        let mut connected = self.link.bus.connections();
        // The first connection is to the master whose options this program has just read.
        if connected.wait_for(|connected| *connected).await.is_err() {
            return;
        }
        loop {
            let again = connected.wait_for(|connected| !*connected).await.is_ok()
                && connected.wait_for(|connected| *connected).await.is_ok();
            if !again {
                return;
            }
            let path = source.path.clone();
            let read = move || config::Master::load(&config::Source { path }, &config::LoadOptions::default());
            match self.rt.blocking(read).await {
                Ok(Ok(config)) => *locked(&self.access) = Arc::new((&config).into()),
                Ok(Err(error)) => tracing::error!(
                    "external_auth is as it was before the master has started again: {}",
                    value::error::chain(&error)
                ),
                Err(failure) => {
                    tracing::error!("external_auth is as it was before the master has started again: {failure}")
                }
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change of what is shared is complete or has not happened.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Accepts requests: the checks that every request must pass, in Salt's order.

use std::sync::Arc;

use value::{Map, Value};
use wire::command::Proof;
use wire::envelope::{Clear, Envelope, Sealed};
use wire::loads::{Sender, is_nonce};
use wire::msgpack::Decode;
use wire::{Command, MinionId};

use super::replays::{Replay, Sent};
use super::reply::{Seal, Sealer};
use super::{Answer, Server, Session};

/// A request that passed the checks.
pub enum Opened {
    /// A sign-in.
    SignIn(Clear),
    /// An unencrypted command, which carries its own credentials.
    Clear(Map),
    /// A command of a known minion.
    Sealed(SealedRequest),
}

/// A command of a known minion.
pub struct SealedRequest {
    /// The sender. It is authenticated with envelope version 3, and with older versions only if the request has a
    /// token.
    pub id: Option<MinionId>,
    /// The command's name.
    pub cmd: String,
    /// What kind of program sent it. As trustworthy as the id.
    pub sender: Sender,
    /// Its fields, without nonce, token and the description of the sender.
    pub load: Map,
    /// The load had a token (older requests may have none).
    pub token: bool,
    /// What the answer is encrypted with.
    pub seal: Seal,
}

/// Why a request is refused, and the answer for its sender.
#[derive(Debug)]
pub struct Refused {
    /// The answer, in the words of the real master.
    pub answer: Answer,
    /// What was wrong, for the log.
    pub reason: String,
    /// The minion with an accepted key that the request claims as its sender.
    pub about: Option<MinionId>,
}

impl Refused {
    fn bad_load(reason: impl Into<String>) -> Self {
        Refused { answer: Answer::plain("bad load"), reason: reason.into(), about: None }
    }

    fn plain(answer: impl Into<Value>, reason: impl Into<String>) -> Self {
        Refused { answer: Answer::Plain(answer.into()), reason: reason.into(), about: None }
    }
}

impl Server {
    /// Opens a request.
    ///
    /// # Errors
    /// The answer for its sender, if it fails a check.
    pub fn open(&self, request: Result<Envelope, wire::envelope::Error>) -> Result<Opened, Refused> {
        let envelope = request.map_err(|error| match error {
            wire::envelope::Error::LoadNotMap(_) => {
                Refused::plain("payload and load must be a dict", error.to_string())
            }
            other => Refused::bad_load(other.to_string()),
        })?;
        let least = self.settings.minimum_auth_version;
        // Before anything is decrypted: the version is readable, and old requests cost nothing then.
        if least > 0 && envelope.version() < least {
            let version = envelope.version();
            return Err(Refused::bad_load(format!("envelope version {version} is below minimum_auth_version {least}")));
        }
        match envelope {
            Envelope::Clear(clear) => open_clear(clear),
            Envelope::Sealed(sealed) => {
                let claimed = match sealed.version > 2 {
                    true => Some(minion_id(sealed.id.as_ref())?),
                    false => None,
                };
                let opened = self.open_sealed(sealed, claimed.clone());
                let about = |id: &MinionId| self.keys.accepted(id).is_some();
                opened.map(Opened::Sealed).map_err(|refused| Refused { about: claimed.filter(about), ..refused })
            }
        }
    }

    fn open_sealed(&self, sealed: Sealed, claimed: Option<MinionId>) -> Result<SealedRequest, Refused> {
        let (sealer, opened) = self.unseal(&sealed, claimed.as_ref())?;
        let Value::Map(mut load) = opened else {
            return Err(Refused::plain(
                "payload and load must be a dict",
                format!("{}: no map", who(claimed.as_ref())),
            ));
        };
        // As Salt's masters, before anything else in the load is looked at.
        check_id_text(&load)?;
        let token = load.remove("tok");
        let nonce = self.check_nonce(&mut load, &sealed, claimed.as_ref())?;
        let cmd = load.get_str("cmd").unwrap_or_default().to_owned();
        let id = match claimed {
            Some(id) => {
                // From here on the load is known to be from somebody with the minion's session key. What is missing
                // is that it is new.
                self.check_fresh(&id, &load)?;
                self.check_sender(&id, &load, token.as_ref())?;
                let ts = load.get("ts").and_then(Value::as_i64).unwrap_or(0);
                self.check_replay(&id, ts, nonce.as_deref().unwrap_or_default(), &cmd)?;
                // A minion that has used version 3 is never taken at its word in version 2 again.
                if self.settings.minimum_auth_version < CURRENT {
                    self.sessions.note_current(&id);
                }
                Some(id)
            }
            None => self.check_old_sender(&load, token.as_ref(), nonce.as_deref(), &cmd)?,
        };
        let sender = Sender::take(&mut load);
        let bulk = load.remove(crypto::BULK_FIELD).is_some_and(|form| form.as_str() == Some(crypto::BULK_NAME));
        let Sealed { enc_algo, sig_algo, version, .. } = sealed;
        let seal = Seal { sealer, nonce, enc_algo, sig_algo, version, bulk };
        Ok(SealedRequest { id, cmd, sender, load, token: token.is_some(), seal })
    }

    /// Decrypts a load with the current keys or, for a while after a rotation, with the previous ones. The answer is
    /// encrypted with the same keys.
    fn unseal(&self, sealed: &Sealed, claimed: Option<&MinionId>) -> Result<(Sealer, Value), Refused> {
        let sealer = match claimed {
            Some(id) => Sealer::Session(self.session(id)?),
            None => Sealer::Master(self.aes.current()),
        };
        let open = |sealer: Sealer| {
            let opened = sealer.crypticle().open(&sealed.load, None, Decode::Default);
            opened.map(|opened| (sealer, opened))
        };
        // The error of the current key is reported, even if the one before does not fit either.
        let failure = match open(sealer) {
            Ok(opened) => return Ok(opened),
            Err(error) => Refused::bad_load(format!("{}: {error}", who(claimed))),
        };
        let previous = match claimed {
            Some(id) => self.sessions.previous(id).map(Sealer::Session),
            None => self.aes.previous().map(Sealer::Master),
        };
        previous.and_then(|sealer| open(sealer).ok()).ok_or(failure)
    }

    fn session(&self, id: &MinionId) -> Result<Arc<Session>, Refused> {
        // No session is made for an id without an accepted key: strangers must not fill the disk.
        if self.keys.accepted(id).is_none() {
            return Err(Refused::bad_load(format!("minion {id} has no accepted key")));
        }
        let session = self.sessions.session(id, self.settings.publish_session);
        session.map_err(|error| Refused::bad_load(format!("failed to read the session key of {id}: {error}")))
    }

    fn check_fresh(&self, id: &MinionId, load: &Map) -> Result<(), Refused> {
        let ttl = self.settings.request_server_ttl;
        if ttl <= 0 {
            return Ok(());
        }
        // A request without a time is as old as can be.
        let sent = load.get("ts").and_then(Value::as_i64).unwrap_or(0);
        let age = self.rt.unix_seconds() - sent;
        if age <= ttl {
            return Ok(());
        }
        Err(Refused::bad_load(format!("Received request from {id} with expired ttl: {age} > {ttl}")))
    }

    fn check_sender(&self, id: &MinionId, load: &Map, token: Option<&Value>) -> Result<(), Refused> {
        // The envelope's id chose the session key. A load with another id would let a minion speak for others.
        if load.get_str("id") != Some(id.as_str()) {
            return Err(Refused::bad_load(format!("the load names another sender than the envelope of minion {id}")));
        }
        let Some(token) = token.and_then(Value::as_bytes) else {
            return Err(Refused::bad_load(format!("request of minion {id} has no token")));
        };
        let Some(key) = self.keys.accepted(id) else {
            return Err(Refused::bad_load(format!("minion {id} has no accepted key")));
        };
        match self.tokens.verify(id, &key, token) {
            true => Ok(()),
            false => Err(Refused::bad_load(format!("Unable to verify token of minion {id}"))),
        }
    }

    /// Removes the nonce from a load and checks its form. The answer is encrypted or signed with it. No release sends a
    /// nonce of another form, or a request of version 3 without one.
    fn check_nonce(
        &self,
        load: &mut Map,
        sealed: &Sealed,
        claimed: Option<&MinionId>,
    ) -> Result<Option<String>, Refused> {
        let nonce = load.remove("nonce").filter(|_| sealed.version > 1);
        if nonce.is_none() && sealed.version < CURRENT {
            return Ok(None);
        }
        let nonce = nonce.and_then(Value::into_string).filter(|nonce| is_nonce(nonce));
        let refused = || Refused::bad_load(format!("request of {} has no valid nonce", who(claimed)));
        nonce.ok_or_else(refused).map(Some)
    }

    fn check_replay(&self, id: &MinionId, ts: i64, nonce: &str, cmd: &str) -> Result<(), Refused> {
        let sent = Sent { id, ts, nonce, command: Command::from_name(cmd) };
        self.replays.admit(&sent).map_err(|replay| {
            Refused::bad_load(match replay {
                Replay::Again => format!("request {cmd:?} of minion {id} was received before, this is a replay"),
                Replay::Old => format!(
                    "request {cmd:?} of minion {id} is minutes older than others of it: its clock was set back, or this is \
                     a replay"
                ),
            })
        })
    }

    /// Checks the sender of a request of version 2. These are encrypted with a key that every minion has, so only a
    /// token authenticates the sender. The releases that use this version send three kinds of requests without a token.
    fn check_old_sender(
        &self,
        load: &Map,
        token: Option<&Value>,
        nonce: Option<&str>,
        cmd: &str,
    ) -> Result<Option<MinionId>, Refused> {
        let Some(id) = load.get_str("id") else { return Ok(None) };
        let Ok(id) = MinionId::new(id) else { return Err(Refused::bad_load("the load names an invalid id")) };
        if token.is_some() {
            self.check_sender(&id, load, token)?;
            // It carries no time, so how long ago it was encrypted cannot be known.
            if let Some(nonce) = nonce {
                self.check_replay(&id, self.rt.unix_seconds(), nonce, cmd)?;
            }
            return Ok(Some(id));
        }
        if Command::from_name(cmd).map(Command::proof) != Some(Proof::TokenOrOldRelease) {
            return Err(Refused::bad_load(format!("request {cmd:?} of version 2 for minion {id} has no token")));
        }
        if self.sessions.is_current(&id) {
            return Err(Refused::bad_load(format!(
                "request {cmd:?} of version 2 without a token for minion {id}, which uses version 3"
            )));
        }
        Ok(Some(id))
    }
}

/// The version whose requests all carry a token, the time and a nonce.
const CURRENT: i64 = wire::envelope::CURRENT_VERSION;

fn open_clear(clear: Clear) -> Result<Opened, Refused> {
    check_id_text(&clear.load)?;
    match clear.load.get_str("cmd") {
        Some("_auth") => Ok(Opened::SignIn(clear)),
        _ => Ok(Opened::Clear(clear.load)),
    }
}

fn check_id_text(load: &Map) -> Result<(), Refused> {
    match load.get("id") {
        None => Ok(()),
        Some(Value::Str(id)) if id.contains('\0') => {
            Err(Refused::plain("bad load: id contains a null byte", "an id contains a null byte"))
        }
        Some(Value::Str(_)) => Ok(()),
        Some(other) => {
            // Cut: the text is from a stranger and goes back to one.
            let shown: String = other.to_string().chars().take(100).collect();
            Err(Refused::plain(format!("bad load: id {shown} is not a string"), "an id is not text"))
        }
    }
}

fn minion_id(claimed: Option<&Value>) -> Result<MinionId, Refused> {
    let Some(text) = claimed.and_then(Value::as_str) else {
        return Err(Refused::bad_load("the envelope names no sender"));
    };
    MinionId::new(text).map_err(|error| Refused::bad_load(error.to_string()))
}

fn who(claimed: Option<&MinionId>) -> String {
    claimed.map_or_else(|| "an old minion".to_owned(), |id| format!("minion {id}"))
}

//! One minion of the swarm: it signs in, listens, answers, and starts over whenever it loses its master.

mod jobs;
mod notice;
mod requests;
mod session;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use channel::client::{MasterChannel, MinionIdentity, Settings, SignIn, Signatures, TrustSettings};
use crypto::{Encryption, HashType, PrivateKey, Signature};
use rt::Rt;
use tokio::time::{Instant, sleep};
use transport::{Heartbeat, Kind as Transport, Requester, Target};
use wire::MinionId;
use wire::loads::{Abilities, Ability, Sender};

use crate::chance::{Chance, Purpose};
use crate::stats::{Request, Stats};
use crate::trust::{Record, SharedTrust};
use crate::{Behaviour, Kind, Options};
use jobs::{Ledger, Targets};
use requests::Counted;
use session::Ended;

/// The timeout of a connection attempt.
const CONNECT: Duration = Duration::from_secs(5);

/// The longest pause before a lost master is retried.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// What all minions share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) rt: Rt,
    pub(crate) stats: Arc<Stats>,
    pub(crate) record: Arc<Record>,
    pub(crate) targets: Targets,
}

impl Shared {
    pub(crate) fn new(options: Options, rt: Rt, stats: Arc<Stats>) -> Self {
        let record = Arc::new(Record::known(options.master_key.as_deref()));
        Shared { options, rt, stats, record, targets: Targets::default() }
    }

    fn behaviour(&self) -> &Behaviour {
        &self.options.behaviour
    }
}

/// One minion.
pub(crate) struct Minion {
    shared: Arc<Shared>,
    identity: Arc<MinionIdentity>,
    /// Its number.
    number: usize,
    trust: Arc<SharedTrust>,
    chance: Chance,
    slow: bool,
    /// Its jobs and returns, which outlive connections.
    ledger: Mutex<Ledger>,
    /// True if it has already done what it does only after the first sign-in.
    introduced: AtomicBool,
    /// Counts random decisions, so that each one differs.
    turn: AtomicU64,
}

impl Minion {
    /// Creates the minion at an index with its key.
    pub(crate) fn new(
        shared: Arc<Shared>,
        place: usize,
        id: MinionId,
        key: PrivateKey,
    ) -> Result<Self, crypto::RsaError> {
        let chance = Chance::new(shared.options.seed, place);
        Ok(Minion {
            identity: Arc::new(MinionIdentity::new(id, key)),
            number: shared.options.first + place,
            trust: Arc::new(SharedTrust::new(shared.record.clone())),
            // Drawn once and not per job: it is the machine that is slow.
            slow: chance.happens(Purpose::Slow, 0, shared.behaviour().slow),
            chance,
            ledger: Mutex::default(),
            introduced: AtomicBool::default(),
            turn: AtomicU64::default(),
            shared,
        })
    }

    /// Runs until dropped. `from` is the source address of its connections.
    pub(crate) async fn live(self, from: Option<std::net::SocketAddr>) {
        let mut first = Some(Instant::now());
        let mut failures = 0;
        let stats = &self.shared.stats;
        stats.count(|counts| counts.begun += 1);
        loop {
            let channel = self.open_channel(from);
            let ended = match self.sign_in(&channel).await {
                Ok(publish_port) => {
                    if let Some(first) = first.take() {
                        stats.first_sign_in(first.elapsed(), self.shared.options.minions);
                    }
                    let (ended, lived) = self.session(&channel, from, publish_port).await;
                    // A sign-in alone does not reset the pause: a master that accepts minions but cannot serve them
                    // would otherwise be stormed.
                    failures = if lived { 0 } else { failures };
                    ended
                }
                Err(ended) => ended,
            };
            // Closes the connection before the pause. A minion that is away must not occupy one at the master.
            drop(channel);
            self.pause(ended, &mut failures).await;
        }
    }

    async fn pause(&self, ended: Ended, failures: &mut u32) {
        match ended {
            Ended::Left => {
                let (least, most) = self.shared.behaviour().away;
                self.shared.stats.count(|counts| counts.away += 1);
                sleep(self.between(Purpose::Away, least, most)).await;
                self.shared.stats.count(|counts| counts.away -= 1);
            }
            // The master chose this time for the number of its minions, so no failure is counted.
            Ended::Goodbye(spread) => sleep(self.between(Purpose::Backoff, Duration::ZERO, spread)).await,
            // `acceptance_wait_time` of a minion, without growth: the administrator may accept the key at any time.
            Ended::NotAccepted => sleep(self.shared.behaviour().acceptance_wait).await,
            Ended::Lost => {
                *failures += 1;
                // Doubles up to the limit, and is random from a quarter on: thousands of minions lose a restarted
                // master in the same moment. `min(5)` also keeps the shift from overflowing.
                let most = Duration::from_secs(1 << (*failures).min(5)).min(LONGEST_WAIT);
                sleep(self.between(Purpose::Backoff, most / 4, most)).await;
            }
        }
    }

    /// Signs in once, and returns the master's publish port.
    async fn sign_in(&self, channel: &MasterChannel) -> Result<u16, Ended> {
        let not_accepted = |kind: &'static str, text: &str| {
            self.shared.stats.failed(Request::SignIn, kind, text.to_owned());
            Ended::NotAccepted
        };
        match channel.sign_in().await {
            Ok(SignIn::Accepted(credentials)) => Ok(credentials.publish_port),
            Ok(SignIn::Pending) => Err(not_accepted("pending", "the key waits to be accepted")),
            Ok(SignIn::Rejected) => Err(not_accepted("rejected", "the key is rejected or denied")),
            Ok(SignIn::Full) => Err(not_accepted("full", "the master has as many minions as it allows")),
            Err(error) => {
                self.failed(Request::SignIn, &error);
                Err(Ended::Lost)
            }
        }
    }

    fn open_channel(&self, from: Option<std::net::SocketAddr>) -> MasterChannel {
        let (rt, target) = (self.shared.rt.clone(), self.target(self.shared.options.master, from));
        let ask: Arc<dyn Requester> = match self.shared.options.transport {
            Transport::Zeromq => Arc::new(transport::zeromq::ZmqRequester::new(rt.clone(), target)),
            Transport::Tcp => Arc::new(transport::tcp::TcpRequester::new(rt.clone(), target)),
        };
        // The channel signs in on its own when the AES key has changed. Only the layer below it sees all sign-ins.
        let ask = Arc::new(Counted { ask, stats: self.shared.stats.clone() });
        MasterChannel::new(settings(self.shared.behaviour()), self.identity.clone(), self.trust.clone(), ask, rt)
    }

    fn target(&self, to: std::net::SocketAddr, from: Option<std::net::SocketAddr>) -> Target {
        // A Salt minion relies on TCP and answers the master's heartbeats.
        let heartbeat = (self.shared.behaviour().kind == Kind::Saltern).then(Heartbeat::default);
        Target { from, heartbeat, timeout: CONNECT, ..Target::plain(to) }
    }

    fn id(&self) -> &str {
        self.identity.id.as_str()
    }

    fn ledger(&self) -> std::sync::MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_turn(&self) -> u64 {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }

    fn between(&self, purpose: Purpose, least: Duration, most: Duration) -> Duration {
        self.chance.between(purpose, self.next_turn(), least, most)
    }

    fn happens(&self, purpose: Purpose, percent: f64) -> bool {
        self.chance.happens(purpose, self.next_turn(), percent)
    }
}

fn settings(behaviour: &Behaviour) -> Settings {
    let can = [Ability::Goodbye, Ability::Missed];
    let ours = || Abilities { can: can.into(), id: "swarm".to_owned(), boot: String::new() };
    Settings {
        encryption: Encryption::default(),
        signing: Signature::default(),
        signatures: if behaviour.check_signatures { Signatures::Demanded } else { Signatures::Ignored },
        minion_sign_messages: behaviour.sign_requests,
        hash_type: HashType::default(),
        autosign_grains: None,
        auth_timeout: behaviour.auth_timeout,
        // One attempt at a time, because each is counted.
        auth_tries: 1,
        request_timeout: behaviour.request_timeout,
        request_tries: 1,
        trust: TrustSettings::default(),
        reauth_delay: Duration::ZERO,
        // A Salt minion announces no abilities, and its requests must not differ.
        sender: if behaviour.kind == Kind::Saltern { Sender::Minion(ours()) } else { Sender::Stock },
    }
}

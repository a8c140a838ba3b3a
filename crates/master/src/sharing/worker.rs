//! The only owner of the model: takes what happens, one thing after the other, and carries out what the model answers.
//!
//! The model reads and writes the disk, and so do changes of key files. All of that runs on blocking threads, many things together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use event::Filter;
use futures_util::FutureExt as _;
use keys::{ChangedKeys, KeyStore, SignInChanges};
use peers::members::{Newcomer, Refused};
use peers::target::Target;
use share::duties::Occasion;
use share::member::{Member, Rights, Role};
use share::votes::Ballot;
use share::{By, Change, Class, Incoming, Index as _, Key, Message, Model, Moment, Node, State, Sum};
use store::share::ShareFile;
use tokio::sync::mpsc::Receiver;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};
use value::{Map, map};
use wire::MinionId;

use super::announced::Announced;
use super::belonging::Belonging;
use super::carrier::{Reports, SetCarrier};
use super::drift::DriftInbox;
use super::events::EventInbox;
use super::figures::SetNotes;
use super::forward::Inbox;
use super::granted::{Granted, Grants};
use super::jobs::{self, Caches};
use super::kept::{KeptWork, Unkept};
use super::keys::{self as files, Found, Vanished};
use super::log::{Warnings, about};
use super::lost::LostFile;
use super::members::{self, MemberBook};
use super::once::{Asker, Once};
use super::presence::{DigestBeat, Fleet};
use super::restart::{self, Pauses, contained};
use super::settings::Settings;
use super::unwritten::{Tracked, Unwritten};
use super::voters::VotersFile;
use super::watch::KeyWatch;
use crate::Shared;
use crate::maintenance::KEY_TAG;
use crate::set_clock::{Clock, STARTED};
use crate::set_requests::{SetQuestion, SetRequest};

/// How many things are done together.
const TOGETHER: usize = 256;

/// How long a key file that could not be written waits, in milliseconds.
const AGAIN: u64 = 10_000;

/// Something that happened.
pub enum Work {
    /// A report of the links.
    Heard(Incoming),
    /// A master has proven that it belongs to the set.
    Newcomer(Member),
    /// A master that could not prove that it belongs to the set waits to be accepted.
    Waits(Newcomer),
    /// This master and another one do not link, because one of them refuses the other.
    Refused(Refused),
    /// A member that was linked sent what it knows of the members.
    Learned(Node, Vec<Bytes>),
    /// Key files have changed.
    Keys(ChangedKeys),
    /// A program says that it deleted the key of a minion.
    Deleted(MinionId),
    /// These minions are connected here now, sorted by id.
    Present(Vec<MinionId>),
    /// A message for a member that is too large to be sent at once.
    Tell(Node, Message),
    /// A run of what the set does once asks whether it may begin.
    Begin(Occasion, oneshot::Sender<Option<(Ballot, Occasion)>>),
    /// Such a run has ended.
    Ended(Occasion),
    /// What servers grant has changed.
    Granted(Vec<leases::Change>),
    /// The servers have no JetStream, so members vote.
    NoJetStream,
    /// Something about what is kept in JetStream.
    Kept(KeptWork),
    /// Somebody asks for something.
    Question(SetQuestion),
    /// Something is due.
    Tick,
}

/// Key files that vanished without anybody deleting them.
#[derive(Default)]
pub struct LostKeys {
    /// A whole directory is gone.
    pub directory: bool,
    /// How many were reported.
    pub reported: usize,
    /// When to report them: more may follow.
    pub report_at: Option<u64>,
}

/// What the worker works with.
pub struct Worker {
    pub model: Model<Tracked<ShareFile>>,
    pub(super) shared: Arc<Shared>,
    pub(super) settings: Settings,
    pub(super) members: Arc<MemberBook>,
    pub(super) links: Option<Arc<SetCarrier>>,
    signed_in: Arc<SignInChanges>,
    pub(super) unwritten: Arc<Unwritten>,
    pub(super) caches: Caches,
    pub(super) vanished: Vanished,
    /// What was found in key files and is to be told the model.
    changes: Vec<Change>,
    /// Key files that do not say what was decided, because they could not be written, and when to try again.
    pub(super) failed: BTreeMap<MinionId, u64>,
    /// Key files that were decided about, but nothing could be stored: when to look at them again, and the reason.
    pub(super) not_stored: BTreeMap<MinionId, (u64, String)>,
    pub(super) lost: LostKeys,
    pub(super) lost_file: LostFile,
    /// What was said last about a key file that does not follow the set, by minion.
    pub(super) warned: BTreeMap<String, String>,
    /// A minion that knows the key of publications lost its own.
    pub(super) rotates: bool,
    pub(super) warnings: Warnings,
    pub(super) announced: Announced,
    known_members: Sum,
    pub(super) fleet: Arc<Fleet>,
    /// Where jobs of other members wait to be published.
    pub(super) forwarded: Inbox,
    /// Where events of other members wait to be fired.
    pub(super) events: EventInbox,
    /// Where what is about drift goes.
    pub(super) drift: DriftInbox,
    pub(super) once: Once,
    /// Whether others take this master for a member.
    pub(super) belonging: Belonging,
    /// The members that were linked and are not any more.
    away: BTreeSet<Node>,
    /// When to send the digest of the connected minions.
    pub(super) digest_beat: DigestBeat,
    /// Minions that connected to other members and have not been checked for missed jobs yet. True for those that have just done so.
    pub(super) came: BTreeMap<Node, BTreeMap<String, bool>>,
    pub(super) clock: Arc<Clock>,
    /// What is noted for metrics.
    pub(super) notes: Arc<SetNotes>,
    /// What is to be kept in JetStream, if the set uses it.
    pub(super) unkept: Option<Arc<Unkept>>,
}

impl Worker {
    pub fn new(
        model: Model<Tracked<ShareFile>>,
        shared: Arc<Shared>,
        settings: Settings,
        members: Arc<MemberBook>,
        signed_in: Arc<SignInChanges>,
        unwritten: Arc<Unwritten>,
        (clock, caches, fleet, forwarded, events, drift): (
            Arc<Clock>,
            Caches,
            Arc<Fleet>,
            Inbox,
            EventInbox,
            DriftInbox,
        ),
    ) -> Worker {
        let lost_file = LostFile::beside(model.records().inner().path());
        let start = {
            let members = model.records().root(Class::Members, 0).count;
            settings.lease_start(model.node(), model.last_time(), members, clock.read().certain, &shared.stores.rt)
        };
        let voters = VotersFile::beside(model.records().inner().path());
        let granted = (settings.grants != Grants::Members)
            .then(|| Granted::new(model.node(), settings.cluster_lease_time(), clock.started, &shared.stores.rt));
        let leases = granted.as_ref().map(|granted| granted.leases.clone());
        let once = Once::new(start, granted, crate::schedule::duties(&shared.stores.config), voters, STARTED);
        once.held.grant_by(leases);
        Worker {
            model,
            shared,
            settings,
            members,
            links: None,
            signed_in,
            unwritten,
            caches,
            vanished: Vanished::default(),
            changes: Vec::new(),
            failed: BTreeMap::new(),
            not_stored: BTreeMap::new(),
            lost: LostKeys::default(),
            lost_file,
            warned: BTreeMap::new(),
            rotates: false,
            warnings: Warnings::default(),
            announced: Announced::default(),
            known_members: Sum::default(),
            fleet,
            forwarded,
            events,
            drift,
            once,
            belonging: Belonging::new(clock.moment().steady),
            away: BTreeSet::new(),
            digest_beat: DigestBeat::default(),
            came: BTreeMap::new(),
            notes: Arc::default(),
            clock,
            unkept: None,
        }
    }

    pub(super) fn store(&self) -> &KeyStore {
        self.shared.stores.keys.store()
    }

    pub(super) fn now(&self) -> Moment {
        self.clock.moment()
    }

    /// Takes the links, by which everything is sent from now on.
    pub fn link(&mut self, links: Arc<SetCarrier>) {
        self.links = Some(links);
    }

    /// Takes where decisions are noted that are to be kept in JetStream.
    pub fn keep(&mut self, unkept: Arc<Unkept>) {
        self.unkept = Some(unkept);
    }

    /// Enters this master into the set, and takes over what changed while it was not running. `directories` of keys were there
    /// before.
    pub fn start(&mut self, own: Member, directories: &[State]) {
        let node = self.model.node();
        let known = members::all(&self.model).remove(&node);
        match known {
            Some((_, State::Deleted)) => error!(
                "this master was removed from the set {:?}, and no member links with it. To let it join again, delete \
                 its member key and restart it",
                self.settings.cluster_id
            ),
            // Others know where they have seen a witness or a reader, and take no decision about members of it.
            Some((known, State::Accepted)) if own.role != Role::Master && known.role == own.role => {}
            // What the set decided about its rights stays.
            Some((known, state)) => {
                let addresses = match self.settings.has_addresses {
                    true => own.addresses.clone(),
                    // Where others saw it is worth more than its name for itself.
                    false => members::together(&own.addresses, &known.addresses),
                };
                let own = Member { may: known.may, slot: known.slot, addresses, ..own };
                if own != known || state != State::Accepted {
                    self.join(own);
                }
            }
            None => self.join(own),
        }
        // The log names members by what is known of them.
        self.renew_members();
        self.note_figures();
        for id in self.unwritten.all() {
            if let Ok(id) = MinionId::new(id) {
                self.write_entry(&id);
            }
        }
        self.forget_written();
        self.changed_while_down(directories);
        self.look_at_tokens();
        self.renew_members();
        self.start_duties();
    }

    fn join(&mut self, own: Member) {
        let now = self.now();
        let actions = self.model.local(Change::Member(own, State::Accepted, By::Auto), now);
        self.carry_out(actions);
    }

    /// Returns when there is something to do.
    fn next(&self) -> Instant {
        let due = self
            .model
            .next_tick()
            .into_iter()
            .chain(self.vanished.next())
            .chain(self.caches.next())
            .chain(self.failed.values().copied())
            .chain(self.not_stored.values().map(|(at, _)| *at));
        let due = due.chain([self.once.next()]).chain(self.lost.report_at).chain([self.digest_beat.due()]);
        let due = due.chain(self.belonging.next()).chain(self.share_at());
        let due = due.min().unwrap_or(u64::MAX).saturating_sub(STARTED);
        self.clock.started + Duration::from_millis(due.min(3_600_000 * 24 * 365))
    }

    /// Does some things, in their order.
    pub(super) fn work(&mut self, batch: Vec<Work>) {
        self.share_own();
        self.share_published();
        for one in batch {
            if !matches!(one, Work::Keys(_) | Work::Deleted(_)) {
                self.flush();
            }
            self.work_one(one);
        }
        self.flush();
        self.send_undelivered();
        self.share_own();
        self.caches_due();
        // What it decides and removes, the key files say already.
        self.unwritten.expect_others(false);
        let actions = self.model.tick(self.now());
        self.carry_out(actions);
        self.leases_due();
        self.vanished_due();
        self.try_again();
        self.forget_written();
        self.report_lost();
        self.renew_members();
        self.beat();
        if std::mem::take(&mut self.rotates) {
            self.rotate();
        }
    }

    fn work_one(&mut self, work: Work) {
        match work {
            Work::Heard(incoming) => {
                self.note_link(&incoming);
                self.unwritten.expect_others(true);
                let actions = self.model.hear(incoming, self.now());
                self.carry_out(actions);
            }
            Work::Newcomer(member) => {
                let (node, now) = (member.node(), self.now());
                // Each of two connections of a newcomer brings it.
                if self.members.name(node).is_none() {
                    info!("{} joins the set {:?}", member.name, self.settings.cluster_id);
                }
                let member = self.with_slot(member);
                let actions = self.model.local(Change::Member(member, State::Accepted, By::Auto), now);
                self.carry_out(actions);
                self.members.forget_new(node);
                self.renew_members();
            }
            Work::Waits(newcomer) => {
                let (name, node) = (&newcomer.name, format!("{:?}", newcomer.node));
                let data = map! { "name" => name.as_str(), "node" => node, "fingerprint" => newcomer.fingerprint() };
                self.shared.fire(format!("saltern/member/{name}/waiting"), data);
            }
            Work::Refused(refused) => self.refused(&refused),
            Work::Learned(from, packed) => {
                let (decisions, damaged) = members::unpack(&packed);
                if damaged > 0 {
                    warn!("{damaged} decisions about members that a member sent cannot be read");
                }
                self.unwritten.expect_others(true);
                let actions = self.model.local(Change::Welcome { from, decisions }, self.now());
                self.carry_out(actions);
                self.renew_members();
            }
            Work::Present(connected) => self.present(connected),
            Work::Tell(node, message) => self.tell(node, &message),
            Work::Begin(occasion, answer) => self.begin(occasion, Asker::Run(answer)),
            Work::Ended(occasion) => self.ended(&occasion),
            Work::Granted(changes) => self.granted(changes),
            Work::NoJetStream => self.no_jetstream(),
            Work::Kept(work) => self.work_kept(work),
            Work::Keys(changed) => self.changed_keys(changed),
            Work::Deleted(id) => self.deleted(&id),
            Work::Question((SetRequest::Drift(kind), answer)) => self.drift.question(kind, answer),
            Work::Question((SetRequest::DriftOverview, answer)) => self.drift.overview(answer),
            Work::Question((SetRequest::BeginOnce { name, within }, answer)) => self.begin_named(&name, within, answer),
            Work::Question((request, answer)) => {
                let result = self.command(request);
                // Who asked may have gone.
                let _ = answer.send(result);
            }
            Work::Tick => {}
        }
    }

    /// Notes that a member is linked or away, and tells programs.
    fn note_link(&mut self, incoming: &Incoming) {
        let (node, up, reason) = match incoming {
            Incoming::Up(node) => (*node, true, ""),
            Incoming::Down(node, reason) => (*node, false, reason.as_str()),
            _ => return,
        };
        self.presence_link(node, up);
        self.lease_link(node, up);
        self.note_belonging(node, up, reason);
        self.drift.link(node, up);
        let called = self.members.called(node);
        let name = self.members.name(node).unwrap_or_else(|| called.clone());
        let word = if up { "linked" } else { "away" };
        match up {
            // At the level of its loss: else the log would show only that, with Salt's default level.
            true if self.away.remove(&node) => warn!("the master {called} is linked again"),
            true => info!("the master {called} is linked"),
            false => {
                self.away.insert(node);
                warn!("the master {called} is away: {reason}");
            }
        }
        let mut data = map! { "name" => name.as_str(), "node" => format!("{node:?}") };
        if !reason.is_empty() {
            data.insert("reason", reason);
        }
        self.shared.fire(format!("saltern/member/{name}/{word}"), data);
    }

    /// Tells links about members, if they have changed.
    pub(super) fn renew_members(&mut self) {
        let sum = self.model.records().root(Class::Members, 0);
        if sum == self.known_members {
            return;
        }
        self.known_members = sum;
        let before = self.members.all();
        self.members.renew(&self.model);
        let now = self.members.all();
        self.note_unkept_members(&before, &now);
        // At a start all are known from before.
        let was_started = !before.is_empty();
        for (node, (member, state)) in &now {
            let earlier = before.get(node).map(|(_, state)| *state);
            let word = match state {
                State::Accepted => "joined",
                State::Deleted => "removed",
                _ => continue,
            };
            if was_started && earlier != Some(*state) && *node != self.model.node() {
                let data = map! { "name" => member.name.as_str(), "node" => format!("{node:?}") };
                self.shared.fire(format!("saltern/member/{}/{word}", member.name), data);
            }
        }
        if let Some(links) = &self.links {
            links.members_changed();
            links.set_addresses(&self.addresses(&now));
        }
        self.renew_voters(now.iter().map(|(node, member)| (*node, member)));
        self.forget_without_right();
        self.take_slot();
    }

    /// Returns where members may be found: where the operator says, and where the set has seen them.
    pub fn addresses(&self, members: &BTreeMap<Node, (Member, State)>) -> Vec<Target> {
        let (own, peers) = (self.model.node(), &self.settings.peers);
        let others = members.iter().filter(|(node, (_, state))| **node != own && *state == State::Accepted);
        let seen = others.flat_map(|(node, (member, _))| {
            let new = member.addresses.iter().filter(|address| !peers.contains(address));
            new.map(|address| Target { address: address.clone(), member: Some(*node) })
        });
        let mut all: Vec<Target> = peers.iter().map(Target::named).chain(seen).collect();
        all.sort();
        all.dedup();
        all
    }

    // === keys ===

    fn changed_while_down(&mut self, directories: &[State]) {
        self.vanished.start();
        self.changed_keys(ChangedKeys::Any);
        let ids: Vec<Key> = self.vanished.started().iter().filter_map(|id| Key::new(id.as_str())).collect();
        let lost_before = self.lost_file.read().unwrap_or_else(|error| {
            warn!("{}", crate::chain(&error));
            BTreeSet::new()
        });
        // What was lost before this start is lost still, however few are left and whatever lies beside them.
        let holding = match ids.iter().any(|id| lost_before.contains(id.as_str())) {
            true => Vec::new(),
            false => files::holding(self.store(), directories),
        };
        if !ids.is_empty() {
            self.changes.push(Change::GoneAtStart { ids, holding });
        } else if !lost_before.is_empty() {
            self.note_lost(&[]);
        }
        self.flush();
    }

    fn changed_keys(&mut self, changed: ChangedKeys) {
        match changed {
            ChangedKeys::These(ids) => ids.iter().for_each(|id| self.changed_key(id)),
            ChangedKeys::Any => {
                let (mut ids, gone) = match files::ids(self.store()) {
                    Ok(found) => found,
                    Err(error) => return error!("{}", crate::chain(&error)),
                };
                match gone {
                    true => self.changes.push(Change::DirectoryGone),
                    false if self.lost.directory => self.changes.push(Change::DirectoryBack),
                    false => {}
                }
                self.lost.directory = gone;
                let known = self.model.records().items(Class::Keys, 0..=u32::MAX);
                ids.extend(known.into_iter().filter_map(|(key, _)| MinionId::new(key.as_str()).ok()));
                ids.iter().for_each(|id| self.changed_key(id));
            }
        }
    }

    /// Looks at all key files, so that sign-ins that are not reported yet hide no lost key.
    pub(super) fn look_at_keys(&mut self) {
        self.changed_keys(ChangedKeys::Any);
        self.flush();
    }

    pub(super) fn changed_key(&mut self, id: &MinionId) {
        if self.failed.contains_key(id) {
            // The files do not say what was decided, because that could not be written. It is not their turn to decide.
            return;
        }
        let files = match files::read(self.store(), id) {
            Ok(Found::Files(files)) => files,
            Ok(Found::Unreadable) => return,
            Err(error) => return warn!("{}", crate::chain(&error)),
        };
        let Some(key) = Key::new(id.as_str()) else { return };
        let entry = self.model.entry(Class::Keys, &key);
        let now = self.now();
        let change = files::change(id, files, &entry, &self.signed_in, &mut self.vanished, now.steady);
        self.changes.extend(change.map(|change| self.announced.by(id, change, &entry, now.steady)));
        if self.changes.len() >= TOGETHER {
            self.flush();
        }
    }

    /// Tells the model what was found in key files: many changes in one step, for each step waits for the disk.
    pub(super) fn flush(&mut self) {
        // A deletion that is decided may be followed by a registration.
        while !self.changes.is_empty() {
            let changes = std::mem::take(&mut self.changes);
            let deleted = jobs::deleted(&changes);
            let (keys, before): (Vec<Key>, u64) =
                (changes.iter().filter_map(|change| about(change).cloned()).collect(), self.model.last_time());
            self.unwritten.expect_others(false);
            let actions = self.model.local(Change::Together(changes), self.now());
            self.carry_out(actions);
            self.log_decided(&keys, before);
            self.forget_shared_data(&deleted);
        }
    }

    pub(super) fn deleted(&mut self, id: &MinionId) {
        let (Some(key), Ok(found)) = (Key::new(id.as_str()), files::read(self.store(), id)) else { return };
        let entry = self.model.entry(Class::Keys, &key);
        let (deletion, now) = (files::deletion(id, &found, &entry, &mut self.vanished), self.now().steady);
        self.changes.extend(deletion.map(|change| self.announced.by(id, change, &entry, now)));
        if self.vanished.is_registered(id) {
            // The registration follows the deletion.
            self.flush();
            self.changed_key(id);
        }
    }

    fn vanished_due(&mut self) {
        for id in self.vanished.due(self.now().steady) {
            let Some(key) = Key::new(id.as_str()) else { continue };
            // It may be there again.
            if files::read(self.store(), &id).is_ok_and(|found| self.vanished.is_gone(&id, &found)) {
                self.changes.push(Change::Files(key, Vec::new()));
            } else {
                self.changed_key(&id);
            }
        }
        self.flush();
    }

    /// Does again what the disk refused.
    fn try_again(&mut self) {
        let now = self.now().steady;
        let write: Vec<MinionId> = self.failed.extract_if(.., |_, at| *at <= now).map(|(id, _)| id).collect();
        let look: Vec<MinionId> = self.not_stored.extract_if(.., |_, (at, _)| *at <= now).map(|(id, _)| id).collect();
        write.iter().for_each(|id| self.write_entry(id));
        look.iter().for_each(|id| self.changed_key(id));
        self.flush();
    }

    /// Forgets what was under way when something failed.
    pub(super) fn forget_unfinished(&mut self) {
        self.changes.clear();
        self.came.clear();
    }

    /// Returns when what the disk refuses now is done again.
    pub(super) fn again(&self) -> u64 {
        self.now().steady + AGAIN
    }

    fn forget_written(&self) {
        if let Err(error) = self.unwritten.retain(|id| self.failed.contains_key(id)) {
            warn!("{}", crate::chain(&error));
        }
    }

    /// Asks for another key of publications, as `salt-key -d` does.
    fn rotate(&self) {
        let config = &self.shared.stores.config;
        if !config.keys.rotate_aes_key {
            return;
        }
        let asked = keys::request_rotation(&config.paths.cachedir, &config.id, self.store().owner());
        if let Err(error) = asked {
            warn!(
                "minions whose keys were deleted on another master can read jobs of this one until it makes another key: {}",
                crate::chain(&error)
            );
        }
    }
}

/// Works until told to stop.
pub async fn run(
    mut worker: Worker,
    mut work: Receiver<Work>,
    mut questions: Receiver<SetQuestion>,
    mut reports: Reports,
    mut keys: KeyWatch,
    stop: CancellationToken,
) {
    let shared = worker.shared.clone();
    let rt = shared.stores.rt.clone();
    let mut events = shared.bus.subscribe(Filter::prefix(KEY_TAG));
    let mut pauses = Pauses::default();
    loop {
        let (due, gathers) = (worker.next(), worker.share_at().is_some());
        let first = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            one = work.recv() => match one {
                Some(one) => one,
                None => return,
            },
            Some(question) = questions.recv() => Work::Question(question),
            changed = keys.changed() => Work::Keys(changed),
            event = events.next() => match event {
                Some(event) => match deleted(event.tag(), event.data()) {
                    Some(id) => Work::Deleted(id),
                    None => continue,
                },
                None => return,
            },
            () = written(&shared), if !gathers => Work::Tick,
            report = reports.next() => Work::Heard(report),
            () = tokio::time::sleep_until(due) => Work::Tick,
        };
        let mut batch = Vec::new();
        push(&mut batch, first, &mut work);
        batch.extend(
            std::iter::from_fn(|| events.try_next())
                .filter_map(|event| deleted(event.tag(), event.data()))
                .map(Work::Deleted),
        );
        while batch.len() < TOGETHER
            && let Some(report) = reports.next().now_or_never()
        {
            push(&mut batch, Work::Heard(report), &mut work);
        }
        let mut done = rt.blocking(move || contained(worker, |worker| worker.work(batch))).await;
        while let Ok((failed, false)) = done {
            let pause = pauses.after_failure(Instant::now());
            restart::report(pause);
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            done = rt.blocking(move || contained(failed, Worker::restart)).await;
        }
        worker = match done {
            Ok((worker, _)) => worker,
            Err(failure) => return error!("this master shares nothing any more until it is restarted: {failure}"),
        };
    }
}

/// Waits until this master has written something to its caches.
async fn written(shared: &Shared) {
    match &shared.outgoing {
        Some(outgoing) => outgoing.ready().await,
        None => std::future::pending().await,
    }
}

/// Adds something to a batch. What links told the members first stays before their reports: who joins is known before it is linked.
fn push(batch: &mut Vec<Work>, one: Work, work: &mut Receiver<Work>) {
    if matches!(one, Work::Heard(_)) {
        batch.extend(std::iter::from_fn(|| work.try_recv().ok()));
        batch.push(one);
    } else {
        batch.push(one);
        batch.extend(std::iter::from_fn(|| work.try_recv().ok()));
    }
}

/// Returns the id whose key was deleted, as an event says that programs fire after they have done so.
fn deleted(tag: &str, event: &Map) -> Option<MinionId> {
    (tag == KEY_TAG && event.get_str("act") == Some("delete"))
        .then(|| event.get_str("id"))?
        .and_then(|id| MinionId::new(id).ok())
}

/// Returns what a member is told about by its own options.
pub fn own_member(settings: &Settings, key: [u8; crypto::MEMBER_KEY_LEN]) -> Member {
    let (name, addresses) = (settings.name.clone(), settings.addresses.clone());
    Member { name, key, addresses, role: settings.role, may: Rights::ALL, slot: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_tag_that_minions_must_not_use_says_that_a_key_was_deleted() {
        let event = map! { "act" => "delete", "id" => "web1" };
        assert_eq!(deleted("salt/key", &event), MinionId::new("web1").ok());
        for tag in ["salt/keys", "salt/key2", "salt/key/web1"] {
            assert_eq!(deleted(tag, &event), None, "{tag}");
        }
    }
}

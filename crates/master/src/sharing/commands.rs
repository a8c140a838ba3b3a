//! What programs on this host ask and tell a master that shares: the runner `saltern`.

use std::time::UNIX_EPOCH;

use links::{LinkState, LinkStatus};
use share::{By, Change, Class, Content, Index as _, Records as _, SignedDecision, State};
use tokio::sync::{mpsc, oneshot};
use value::{Map, Value, map};

use super::members;
use super::worker::{LostKeys, Work, Worker};

/// The maximum number of decisions in an answer.
const MOST_LISTED: usize = 10_000;

/// What is asked.
pub enum Command {
    /// The members and what they have in common.
    Masters,
    /// Keys about which members decided differently.
    Conflicts,
    /// Decisions about keys and members.
    Decisions(Wanted),
    /// Masters that wait to be accepted.
    Waiting,
    /// A master that waits becomes a member.
    Accept { name: String, user: String },
    /// A member leaves the set for good.
    Remove { name: String, user: String },
    /// Lost key files are written again.
    RestoreKeys,
    /// Lost key files are deletions.
    AdoptKeys,
}

/// Which decisions are wanted.
#[derive(Default)]
pub struct Wanted {
    /// Only those of the member with this name.
    pub by: Option<String>,
    /// Only those about this minion or member.
    pub key: Option<String>,
    /// Only those from this time on, in seconds since 1970.
    pub since: Option<f64>,
}

impl Command {
    /// Reads a request.
    pub fn of(load: &Map, user: &str) -> Result<Command, String> {
        let text = |name: &str| load.get(name).filter(|value| **value != Value::Null).map(Value::to_string);
        let needed = |name: &'static str| text(name).ok_or_else(|| format!("{name} is missing"));
        match load.get_str("what").unwrap_or_default() {
            "masters" => Ok(Command::Masters),
            "conflicts" => Ok(Command::Conflicts),
            "decisions" => {
                // The field `key` of a request is the credential of who asks.
                let since = load.get("since").and_then(Value::as_f64);
                Ok(Command::Decisions(Wanted { by: text("by"), key: text("about"), since }))
            }
            "waiting" => Ok(Command::Waiting),
            "accept" => Ok(Command::Accept { name: needed("name")?, user: user.to_owned() }),
            "remove" => Ok(Command::Remove { name: needed("name")?, user: user.to_owned() }),
            "restore_keys" => Ok(Command::RestoreKeys),
            "adopt_keys" => Ok(Command::AdoptKeys),
            other => Err(format!("this master does not know the question {other:?}")),
        }
    }
}

/// Asks the worker, and waits for the answer.
pub async fn ask(worker: mpsc::Sender<Work>, command: Command) -> Result<Value, String> {
    let (tell, answer) = oneshot::channel();
    let stopped = || "this master shares nothing at the moment: see its log".to_owned();
    worker.send(Work::Command(command, tell)).await.map_err(|_| stopped())?;
    answer.await.map_err(|_| stopped())?
}

impl Worker {
    pub(super) fn command(&mut self, command: Command) -> Result<Value, String> {
        match command {
            Command::Masters => Ok(self.masters().into()),
            Command::Conflicts => Ok(self.conflicts().into()),
            Command::Decisions(wanted) => self.decisions(&wanted).map(Value::from),
            Command::Waiting => Ok(self.waiting().into()),
            Command::Accept { name, user } => self.accept(&name, user),
            Command::Remove { name, user } => self.remove(&name, user),
            Command::RestoreKeys => Ok(self.restore_keys().into()),
            Command::AdoptKeys => Ok(self.adopt_keys().into()),
        }
    }

    fn masters(&self) -> Map {
        let links = self.links.as_ref().map(|links| links.status()).unwrap_or_default();
        let mut members = Map::new();
        let mut unknown = Vec::new();
        let compared = self.model.records().inner().compared();
        for (node, (member, state)) in self.members.all() {
            if state != State::Accepted {
                continue;
            }
            let own = node == self.model.node();
            let link = links.iter().find(|link| link.node == Some(node));
            let linked = link.is_some_and(|link| matches!(link.state, LinkState::Linked { .. }));
            let word = match (own, linked) {
                (true, _) => "here",
                (_, true) => "linked",
                _ => "away",
            };
            let role = match member.role {
                share::member::Role::Master => "master",
                share::member::Role::Witness => "witness",
                share::member::Role::Reader => "reader",
            };
            let mut shown = map! { "state" => word, "node" => format!("{node:?}"), "role" => role };
            if let Some(link) = link {
                describe(link, &mut shown);
            }
            if let Some(at) = self.model.compared(node).or_else(|| compared.get(&node).copied()) {
                shown.insert("compared", seconds(at));
            }
            if !member.addresses.is_empty() {
                shown.insert("addresses", member.addresses);
            }
            members.insert(member.name, shown);
        }
        for link in links.iter().filter(|link| link.node.is_none()) {
            let mut shown = Map::new();
            describe(link, &mut shown);
            unknown.push(Value::from(shown));
        }
        let conflicts = self.conflicts().len();
        let known = self.model.records().root(Class::Keys, 0).count;
        let keys = map! { "decided" => known, "conflicts" => conflicts };
        let mut all = map! { "cluster_id" => self.settings.cluster_id.as_str(), "masters" => members, "keys" => keys };
        if !unknown.is_empty() {
            all.insert("no_answer", unknown);
        }
        all
    }

    /// Returns the decisions that stand against each other, by minion.
    fn conflicts(&self) -> Map {
        let mut all = Map::new();
        for (key, _) in self.model.records().items(Class::Keys, 0..=u32::MAX) {
            let entry = self.model.entry(Class::Keys, &key);
            if entry.conflicts().is_empty() {
                continue;
            }
            let visible = entry.visible();
            let shown = entry.decisions().iter().map(|decision| {
                let mut shown = self.described(decision);
                shown.insert("obeyed", visible.is_some_and(|visible| visible == &**decision));
                Value::from(shown)
            });
            all.insert(key.as_str(), shown.collect::<Vec<_>>());
        }
        all
    }

    fn decisions(&self, wanted: &Wanted) -> Result<Vec<Value>, String> {
        let by = match &wanted.by {
            Some(name) => Some(self.node(name)?),
            None => None,
        };
        let since = wanted.since.map_or(0, |since| (since.max(0.0) * 1_000.0) as u64);
        let mut found = Vec::new();
        for class in [Class::Members, Class::Keys] {
            for (key, _) in self.model.records().items(class, 0..=u32::MAX) {
                if wanted.key.as_deref().is_some_and(|wanted| wanted != key.as_str()) {
                    continue;
                }
                let Some(record) = self.model.records().get(class, &key) else { continue };
                let Content::Decided(_, entry) = &record.content else { continue };
                for decision in entry.decisions() {
                    let stamp = decision.stamp;
                    if by.is_none_or(|by| by == stamp.node) && stamp.time >> 16 >= since {
                        found.push((stamp, self.described(decision)));
                    }
                }
            }
        }
        found.sort_by_key(|(stamp, _)| *stamp);
        let older = found.len().saturating_sub(MOST_LISTED);
        Ok(found.into_iter().skip(older).map(|(_, shown)| shown.into()).collect())
    }

    fn described(&self, decision: &SignedDecision) -> Map {
        let state = match decision.state {
            State::Deleted => "deleted",
            State::Rejected => "rejected",
            State::Accepted => "accepted",
            State::Pending => "pending",
        };
        let by = match &decision.by {
            By::User(user) => user.as_str(),
            By::Files => "files",
            By::Auto => "auto",
        };
        let node = decision.stamp.node;
        let master = self.members.name(node).unwrap_or_else(|| format!("{node:?}"));
        let key = match decision.key.node().filter(|_| decision.class == Class::Members) {
            Some(node) => self.members.name(node).unwrap_or_else(|| decision.key.to_string()),
            None => decision.key.to_string(),
        };
        map! {
            "class" => decision.class.name(), "key" => key, "state" => state, "master" => master, "by" => by,
            "at" => seconds(decision.stamp.time >> 16),
        }
    }

    fn node(&self, name: &str) -> Result<share::Node, String> {
        let members = self.members.all();
        // Of several with one name the one that is still a member.
        let named = || members.iter().filter(|(_, (member, _))| member.name == name);
        let accepted = named().find(|(_, (_, state))| *state == State::Accepted);
        let found = accepted.or_else(|| named().next()).map(|(node, _)| *node);
        found.ok_or_else(|| format!("no member of the set is called {name:?}"))
    }

    /// Returns the masters that could not prove that they belong to the set.
    fn waiting(&self) -> Map {
        let waiting = self.links.as_ref().map(|links| links.waiting()).unwrap_or_default();
        let shown = waiting.into_iter().map(|one| {
            let since = one.since.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
            let shown = map! {
                "address" => one.address.to_string(), "fingerprint" => one.newcomer.fingerprint(),
                "since" => since, "version" => one.info.version,
            };
            (one.newcomer.name, Value::from(shown))
        });
        shown.collect()
    }

    fn accept(&mut self, name: &str, user: String) -> Result<Value, String> {
        let waiting = self.links.as_ref().map(|links| links.waiting()).unwrap_or_default();
        let mut named = waiting.iter().filter(|one| one.newcomer.name == name);
        let one = named.next().ok_or_else(|| format!("no master with the name {name:?} waits"))?;
        if named.next().is_some() {
            return Err(format!("several masters with the name {name:?} wait: stop all but one"));
        }
        let (member, now) = (members::member(&one.newcomer), self.now());
        let node = member.node();
        let actions = self.model.local(Change::Member(member, State::Accepted, By::User(user)), now);
        self.carry_out(actions);
        self.renew_members();
        match self.members.all().get(&node) {
            Some((_, State::Accepted)) => Ok(true.into()),
            _ => Err(format!("{name} could not be accepted: see the log of the master")),
        }
    }

    fn remove(&mut self, name: &str, user: String) -> Result<Value, String> {
        let node = self.node(name)?;
        if node == self.model.node() {
            return Err(format!("{name} is this master: remove it on another one"));
        }
        let Some((member, _)) = self.members.all().remove(&node) else {
            return Err(format!("no member of the set is called {name:?}"));
        };
        let now = self.now();
        let actions = self.model.local(Change::Member(member, State::Deleted, By::User(user)), now);
        self.carry_out(actions);
        self.renew_members();
        match self.members.all().get(&node) {
            Some((_, State::Deleted)) => Ok(true.into()),
            _ => Err(format!("{name} could not be removed: see the log of the master")),
        }
    }

    /// Writes key files that are missing. Returns how many.
    fn restore_keys(&mut self) -> usize {
        if let Err(error) = self.store().prepare() {
            tracing::error!("{}", crate::chain(&error));
        }
        let missing = self.missing();
        for id in &missing {
            self.write_entry(id);
            self.vanished.forget(id);
        }
        self.lost = LostKeys::default();
        let actions = self.model.local(Change::LossRestored, self.now());
        self.carry_out(actions);
        missing.len()
    }

    /// Makes deletions of what is lost. Returns how many.
    fn adopt_keys(&mut self) -> usize {
        let gone = self.missing().len();
        self.lost = LostKeys::default();
        let actions = self.model.local(Change::LossAdopted, self.now());
        self.carry_out(actions);
        gone
    }
}

/// Adds what is known of a link.
fn describe(link: &LinkStatus, shown: &mut Map) {
    let (LinkState::Linked { since } | LinkState::Away { since } | LinkState::Waiting { since }) = link.state;
    shown.insert("since", since.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()));
    if let Some(info) = &link.info {
        shown.insert("version", info.version.as_str());
    }
    if !link.dialled.is_empty() {
        shown.insert("dialled", link.dialled.clone());
    }
    if let Some(reason) = &link.reason {
        shown.insert("reason", reason.as_str());
    }
    if let Some(rtt) = link.rtt {
        shown.insert("rtt_ms", rtt.as_secs_f64() * 1_000.0);
    }
    if let Some(clock) = link.clock {
        shown.insert("clock_ms", clock);
    }
    if matches!(link.state, LinkState::Linked { .. }) {
        shown.insert("queue_bytes", link.queue_bytes);
        shown.insert("dropped", link.dropped);
        shown.insert("unanswered", link.unanswered);
    }
}

fn seconds(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_credential_of_who_asks_is_not_the_key_that_is_asked_about() {
        let wanted = |load: Map| match Command::of(&load, "root") {
            Ok(Command::Decisions(wanted)) => wanted.key,
            _ => panic!("no question about decisions"),
        };
        assert_eq!(wanted(map! { "what" => "decisions", "key" => "credential" }), None);
        let about = map! { "what" => "decisions", "key" => "credential", "about" => "web1" };
        assert_eq!(wanted(about).as_deref(), Some("web1"));
    }
}

//! Drift: tells other members digests of what all must have alike, and people where they differ.
//!
//! What is compared and when a difference is reported is decided in `share::drift`. `sources` makes the trees of this member, `scan`
//! those of directories, and `search` goes down the trees of the others when somebody wants to know what differs. Nothing is
//! repaired.

mod environments;
mod scan;
mod search;
mod sources;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use event::Filter;
use share::drift::{DriftReport, DriftWatch, Kind, MemberDifference};
use share::member::Right;
use share::message::{Answer, Ask, NamedDigest};
use share::{Carrier as _, Lane, Message, Moment, Node, State, To};
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;
use value::{Map, Value, map};

use super::SetLinks;
use super::log::Warnings;
use crate::Shared;
use crate::set_requests::{Reader, times};
use scan::Unscanned;
use search::Searches;
use sources::{Scanned, Sources, Trees};

/// The question of one member to another one.
const QUESTION: &str = "drift";

/// How often all is looked at, and how often the digests are told, in milliseconds.
const EVERY: u64 = 60_000;

/// How soon it is looked at again when another member has changed: people change all masters at about the same time.
const SOON: u64 = 10_000;

/// The minimum time between the starts of two looks, in milliseconds.
const PAUSE: u64 = 1_000;

/// How long after a link came up the digests are told once more: the other side may not have been ready.
const ONCE_MORE: u64 = 2_000;

/// How much news may wait.
const MOST_WAITING: usize = 256;

/// The maximum length of a question or an answer of another member, in bytes.
const MAX_ASKED: usize = 512 << 10;

/// The file server has fetched or found changed files.
const FILES_CHANGED: &str = "salt/fileserver/";

/// What the worker passes on.
enum News {
    Link(Node, bool),
    Digests(Node, Vec<NamedDigest>),
    Ask(Node, Ask),
    Answer(Node, Answer),
    /// Somebody on this host asks what differs, in one kind or at all.
    Question(Option<Kind>, oneshot::Sender<Result<Value, String>>),
    /// Somebody on this host asks which kinds differ by what is known.
    Overview(oneshot::Sender<Result<Value, String>>),
}

/// The worker's end: passes on what is about drift. Nothing waits here; what does not fit is told again later.
#[derive(Clone)]
pub struct DriftInbox {
    news: Sender<News>,
    /// The lines of `saltern.masters`.
    lines: Arc<Mutex<Map>>,
}

/// The other end of it.
pub struct DriftNews(Receiver<News>);

impl DriftInbox {
    pub fn new() -> (DriftInbox, DriftNews) {
        let (news, waiting) = tokio::sync::mpsc::channel(MOST_WAITING);
        (DriftInbox { news, lines: Arc::default() }, DriftNews(waiting))
    }

    fn put(&self, news: News) {
        if self.news.try_send(news).is_err() {
            tracing::debug!("news about drift are dropped: there is too much to do");
        }
    }

    /// Takes note that a member is linked or away.
    pub fn link(&self, node: Node, up: bool) {
        self.put(News::Link(node, up));
    }

    /// Takes digests of another member.
    pub fn digests(&self, from: Node, digests: &[NamedDigest]) {
        let about_drift = digests.iter().take(2 * Kind::ALL.len()).filter(|one| Kind::from_name(&one.kind).is_some());
        let told: Vec<NamedDigest> = about_drift.cloned().collect();
        if !told.is_empty() {
            self.put(News::Digests(from, told));
        }
    }

    /// Takes a question of another member.
    pub fn ask(&self, from: Node, ask: &Ask) {
        if ask.question == QUESTION && ask.arguments.len() <= MAX_ASKED {
            self.put(News::Ask(from, ask.clone()));
        }
    }

    /// Takes an answer of another member.
    pub fn answer(&self, from: Node, answer: Answer) {
        if answer.value.len() <= MAX_ASKED {
            self.put(News::Answer(from, answer));
        }
    }

    /// Takes a question of a program on this host.
    pub fn question(&self, kind: Option<Kind>, answer: oneshot::Sender<Result<Value, String>>) {
        self.put(News::Question(kind, answer));
    }

    /// Takes a question of a program that is answered from what is known.
    pub fn overview(&self, answer: oneshot::Sender<Result<Value, String>>) {
        self.put(News::Overview(answer));
    }

    /// Returns what `saltern.masters` shows.
    pub fn lines(&self) -> Map {
        self.locked().clone()
    }

    fn locked(&self) -> MutexGuard<'_, Map> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Compares until told to stop.
pub async fn run(
    shared: Arc<Shared>,
    links: SetLinks,
    inbox: DriftInbox,
    mut news: DriftNews,
    stop: CancellationToken,
) {
    let mut changes = shared.bus.subscribe(Filter::prefix(FILES_CHANGED));
    let mut drift = Drift::new(shared, links, inbox, stop.clone());
    loop {
        let due = drift.next();
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Some(news) = news.0.recv() => drift.take(news),
            scanned = scanned(&mut drift.scanning) => drift.scanned(scanned),
            Some(_) = changes.next() => drift.look_within(0),
            () = tokio::time::sleep_until(due) => {}
        }
        drift.do_what_is_due();
    }
}

/// Waits for the next tree of a look that is under way; `None` when it has ended.
async fn scanned(scanning: &mut Option<Receiver<Scanned>>) -> Option<Scanned> {
    match scanning {
        Some(trees) => trees.recv().await,
        None => std::future::pending().await,
    }
}

/// What this member has, and what it knows of the others.
struct Drift {
    shared: Arc<Shared>,
    links: SetLinks,
    inbox: DriftInbox,
    stop: CancellationToken,
    sources: Arc<Sources>,
    trees: Trees,
    watch: DriftWatch,
    searches: Searches,
    warnings: Warnings,
    /// A look that is under way, when the last one began, and when the next one does.
    scanning: Option<Receiver<Scanned>>,
    scan_began: Option<u64>,
    scan_at: u64,
    /// What differs from the last time that the others were told.
    untold: bool,
    tell_at: u64,
    started: Instant,
}

impl Drift {
    fn new(shared: Arc<Shared>, links: SetLinks, inbox: DriftInbox, stop: CancellationToken) -> Drift {
        let sources = Arc::new(Sources::new(shared.stores.clone()));
        let mut watch = DriftWatch::default();
        watch.allow(Kind::Git, sources.fetch_interval());
        Kind::ALL.iter().for_each(|kind| shared.metrics.drift.set(kind.name(), 0));
        Drift {
            shared,
            links,
            inbox,
            stop,
            sources,
            trees: Trees::new(),
            watch,
            searches: Searches::default(),
            warnings: Warnings::default(),
            scanning: None,
            scan_began: None,
            scan_at: 0,
            untold: false,
            tell_at: ONCE_MORE,
            started: Instant::now(),
        }
    }

    fn now(&self) -> Moment {
        let wall = self.shared.stores.rt.now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        Moment { wall, steady: self.started.elapsed().as_millis() as u64 }
    }

    /// Returns when something is due.
    fn next(&self) -> Instant {
        let scan = Some(self.scan_at).filter(|_| self.scanning.is_none());
        let due = scan.into_iter().chain([self.tell_at]).chain(self.watch.next()).chain(self.searches.next());
        self.started + Duration::from_millis(due.min().unwrap_or(EVERY))
    }

    fn take(&mut self, news: News) {
        let now = self.now();
        match news {
            News::Link(node, true) => {
                self.tell(node);
                self.tell_at = self.tell_at.min(now.steady + ONCE_MORE);
            }
            News::Link(node, false) => {
                self.watch.down(node);
                self.searches.down(node);
                self.forget_removed();
            }
            News::Digests(from, digests) => {
                // Others may neither see nor say what this master has.
                if self.links.members.may(from, Right::Data) && self.watch.hear(from, &digests, now) {
                    self.look_within(SOON);
                }
            }
            News::Ask(from, ask) => self.take_question(from, ask),
            News::Answer(from, answer) => self.answered(from, answer),
            // Who asked may have gone.
            News::Overview(answer) => drop(answer.send(Ok(self.overview(Reader::Program).into()))),
            News::Question(kind, answer) => {
                let scan = kind.is_none_or(|kind| !sources::is_fixed(kind));
                self.searches.ask(kind, answer, now.steady);
                if scan || self.trees.is_empty() {
                    self.look_within(0);
                } else {
                    self.begin_searches();
                }
            }
        }
    }

    /// Looks at all files again after this time at the latest, but not all the time.
    fn look_within(&mut self, wait: u64) {
        let soonest = self.scan_began.map_or(0, |began| began + PAUSE);
        self.scan_at = self.scan_at.min((self.now().steady + wait).max(soonest));
    }

    fn scan(&mut self) {
        let now = self.now();
        let (to, trees) = tokio::sync::mpsc::channel(Kind::ALL.len());
        (self.scanning, self.scan_began, self.scan_at) = (Some(trees), Some(now.steady), now.steady + EVERY);
        let (sources, before, stop) = (self.sources.clone(), self.trees.clone(), self.stop.clone());
        let seconds = (now.wall / 1_000) as i64;
        self.shared.stores.rt.behind_others(move || sources.scan(&before, seconds, &to, &stop));
    }

    fn scanned(&mut self, scanned: Option<Scanned>) {
        let now = self.now();
        match scanned {
            Some((kind, Ok(tree))) => {
                self.untold |= self.watch.own(kind, tree.digest(), now);
                self.trees.insert(kind, Arc::new(tree));
            }
            Some((kind, Err(Unscanned(reason)))) => {
                self.untold |= self.watch.unknown(kind);
                self.trees.remove(&kind);
                self.warn(&format!("{} is not compared with other masters: {reason}", kind.name()));
            }
            None => {
                self.scanning = None;
                // What took long is not done all the time.
                let took = now.steady.saturating_sub(self.scan_began.unwrap_or(now.steady));
                self.scan_at = self.scan_at.max(now.steady + took);
                self.forget_removed();
                self.begin_searches();
            }
        }
    }

    fn do_what_is_due(&mut self) {
        let now = self.now();
        if self.scanning.is_none() && self.scan_at <= now.steady {
            self.scan();
        }
        if self.scanning.is_none() && self.untold || self.tell_at <= now.steady {
            (self.untold, self.tell_at) = (false, now.steady + EVERY);
            self.links.fleet.linked().into_iter().for_each(|node| self.tell(node));
        }
        if self.searches.is_late(now.steady) {
            self.begin_searches();
        }
        self.searches.give_up(now.steady);
        self.finish_searches();
        for report in self.watch.tick(now) {
            self.report(report);
        }
    }

    /// Tells a member the digests of this one.
    fn tell(&self, node: Node) {
        let told = self.watch.own_digests();
        if !told.is_empty() && self.links.members.may(node, Right::Data) {
            self.send(node, Lane::Talk, &Message::Digests(told));
        }
    }

    fn send(&self, node: Node, lane: Lane, message: &Message) {
        // What is lost is told again, and who waits for an answer gives up.
        self.links.links.send(To::Member(node), lane, message.encode());
    }

    fn forget_removed(&mut self) {
        let members = self.links.members.all();
        self.watch.retain(|node| members.get(&node).is_some_and(|(_, state)| *state == State::Accepted));
    }

    fn report(&mut self, report: DriftReport) {
        match report {
            DriftReport::Differs { kind, members, since } => {
                let (names, name) = (self.called(&members), kind.name());
                let (list, since) = (names.join(", "), times::local_time(since));
                let command = format!("salt-run saltern.drift {name}");
                warn!("the {name} of this master and of {list} differ since {since}: '{command}' shows what");
                self.inbox.locked().insert(name, format!("differs on {list} since {since}: {command}"));
                self.shared.metrics.drift.set(name, members.len());
                let data = map! { "kind" => name, "members" => names, "since" => since, "show" => command };
                self.shared.fire(format!("saltern/drift/{name}"), data);
            }
            DriftReport::Over(kind) => {
                let name = kind.name();
                // At the level of the loss, so that who reads of one reads of its end.
                warn!("the {name} of all masters are the same again");
                self.inbox.locked().remove(name);
                self.shared.metrics.drift.set(name, 0);
                self.shared.fire(format!("saltern/drift/{name}/over"), map! { "kind" => name });
            }
        }
    }

    fn called(&self, nodes: &[Node]) -> Vec<String> {
        nodes.iter().map(|node| self.links.members.called(*node)).collect()
    }

    fn warn(&mut self, text: &str) {
        let now = self.now().steady;
        if self.warnings.may_log(text, now) {
            warn!("{text}");
        }
    }
}

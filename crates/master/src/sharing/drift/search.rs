//! What differs, and on whom: goes down the trees of other members by questions, and answers theirs.

use std::collections::{BTreeMap, BTreeSet};

use share::drift::{Descent, Kind, Listing, MOST_FOUND, PathDifference, Question};
use share::member::Right;
use share::message::{Answer, Ask};
use share::{Lane, Message, Node, State};
use tokio::sync::oneshot;
use value::{Map, Value, map};

use super::{Drift, MemberDifference, QUESTION, sources};
use crate::set_requests::Reader;

/// How long a question waits for what is on disk to be looked at, in milliseconds.
const LATE: u64 = 5_000;

/// How long a member may take for an answer, and how long the whole takes at most, in milliseconds. A program waits for a minute.
const ANSWER_TIME: u64 = 8_000;
const WHOLE_TIME: u64 = 30_000;

/// How many questions of programs and of members may wait.
const MOST_SEARCHES: usize = 16;
const MOST_ASKED: usize = 256;

/// How many questions another member may ask at once, and in a second.
const ASKED_AT_ONCE: u64 = 5_000;
const ASKED_A_SECOND: u64 = 200;

type Reply = oneshot::Sender<Result<Value, String>>;

/// What is asked, here and by other members.
#[derive(Default)]
pub struct Searches {
    waiting: Vec<Waiting>,
    running: Vec<Search>,
    peer_questions: Vec<PeerQuestion>,
    budgets: BTreeMap<Node, (u64, u64)>,
    number: u64,
}

/// A program waits until the disk was looked at.
struct Waiting {
    kind: Option<Kind>,
    reply: Reply,
    since: u64,
}

/// A question of another member, which waits until the disk was looked at.
struct PeerQuestion {
    from: Node,
    number: u64,
    question: Question,
    since: u64,
}

/// A program waits for the answers of others.
struct Search {
    kind: Kind,
    reply: Reply,
    members: Vec<Compared>,
    /// By path, what is different on whom.
    found: BTreeMap<String, Map>,
    more: bool,
    /// Members that are away, do not answer or may not be asked.
    silent: BTreeSet<Node>,
    until: u64,
}

struct Compared {
    node: Node,
    descent: Descent,
    /// The number of the question that it was asked last.
    number: u64,
    until: u64,
}

impl Searches {
    /// Takes a question of a program.
    pub fn ask(&mut self, kind: Option<Kind>, reply: Reply, since: u64) {
        if self.waiting.len() + self.running.len() >= MOST_SEARCHES {
            // Who asked may have gone.
            let _ = reply.send(Err("others ask the same now: try again in a minute".to_owned()));
            return;
        }
        self.waiting.push(Waiting { kind, reply, since });
    }

    /// Returns whether something waits for so long that it goes on with what is known.
    pub fn is_late(&self, now: u64) -> bool {
        self.since().any(|since| since + LATE <= now)
    }

    fn since(&self) -> impl Iterator<Item = u64> {
        self.waiting.iter().map(|one| one.since).chain(self.peer_questions.iter().map(|one| one.since))
    }

    /// Returns when something is due.
    pub fn next(&self) -> Option<u64> {
        let running = self.running.iter().flat_map(|search| search.members.iter().map(|member| member.until));
        running.chain(self.since().map(|since| since + LATE)).min()
    }

    /// Takes note that a member is away: nobody waits for its answers.
    pub fn down(&mut self, node: Node) {
        self.peer_questions.retain(|asked| asked.from != node);
        self.budgets.remove(&node);
        self.drop_members(|member| member.node == node);
    }

    /// Gives up members that take too long.
    pub fn give_up(&mut self, now: u64) {
        self.drop_members(|member| member.until <= now);
    }

    fn drop_members(&mut self, gone: impl Fn(&Compared) -> bool) {
        for search in &mut self.running {
            search.silent.extend(search.members.extract_if(.., |member| gone(member)).map(|member| member.node));
        }
    }

    /// Returns whether a member may ask something now, and counts it.
    fn may_ask(&mut self, from: Node, now: u64) -> bool {
        let (left, at) = self.budgets.entry(from).or_insert((ASKED_AT_ONCE, now));
        let more = now.saturating_sub(*at) * ASKED_A_SECOND / 1_000;
        if more > 0 {
            (*left, *at) = ((*left + more).min(ASKED_AT_ONCE), now);
        }
        let may = *left > 0;
        *left = left.saturating_sub(1);
        may
    }
}

impl Drift {
    /// Takes a question of another member.
    pub(super) fn take_question(&mut self, from: Node, ask: Ask) {
        let now = self.now().steady;
        if !self.links.members.may(from, Right::Data) || !self.searches.may_ask(from, now) {
            return;
        }
        let question = match Question::unpack(&ask.arguments) {
            Ok(Some(question)) => question,
            // Of a later version.
            Ok(None) => return,
            Err(error) => {
                let called = self.links.members.called(from);
                return self.warn(&format!("the master {called} sent an invalid question: {error}"));
            }
        };
        let asked = PeerQuestion { from, number: ask.number, question, since: now };
        let is_first = asked.question.path.is_empty() && asked.question.after.is_none();
        if is_first && !sources::is_fixed(asked.question.kind) && self.searches.peer_questions.len() < MOST_ASKED {
            self.searches.peer_questions.push(asked);
            self.look_within(0);
        } else {
            self.answer_question(&asked);
        }
    }

    fn answer_question(&self, asked: &PeerQuestion) {
        let Question { kind, path, after } = &asked.question;
        // What is not known is not the same as nothing.
        let Some(tree) = self.trees.get(kind) else { return };
        let listing = tree.at(path).map(|dir| dir.listing(after.as_deref()));
        let answer = Answer { number: asked.number, value: Listing::pack(listing.as_ref()) };
        self.send(asked.from, Lane::Bulk, &Message::Answer(answer));
    }

    /// Begins what has waited for a look at the disk that is done now, or for too long.
    pub(super) fn begin_searches(&mut self) {
        let now = self.now().steady;
        let (busy, began) = (self.scanning.is_some(), self.scan_began);
        let is_ready = |kind: Option<Kind>, since: u64| {
            let fixed = kind.is_some_and(|kind| sources::is_fixed(kind) && self.trees.contains_key(&kind));
            fixed || since + LATE <= now || !busy && began.is_some_and(|began| began >= since)
        };
        let asked: Vec<PeerQuestion> =
            self.searches.peer_questions.extract_if(.., |one| is_ready(Some(one.question.kind), one.since)).collect();
        let waiting: Vec<Waiting> = self.searches.waiting.extract_if(.., |one| is_ready(one.kind, one.since)).collect();
        asked.iter().for_each(|asked| self.answer_question(asked));
        for Waiting { kind, reply, .. } in waiting {
            match kind {
                Some(kind) => self.begin_search(kind, reply),
                // Who asked may have gone.
                None => drop(reply.send(Ok(self.overview(Reader::Person).into()))),
            }
        }
    }

    fn begin_search(&mut self, kind: Kind, reply: Reply) {
        let Some(own) = self.trees.get(&kind).cloned() else {
            let reason = format!("this master has not looked at its {} yet: see its log, or try again", kind.name());
            // Who asked may have gone.
            let _ = reply.send(Err(reason));
            return;
        };
        let linked = self.links.fleet.linked();
        let may = |node: &Node| linked.contains(node) && self.links.members.may(*node, Right::Data);
        let (asked, silent): (Vec<Node>, Vec<Node>) = self.others().into_iter().partition(may);
        let until = self.now().steady + WHOLE_TIME;
        let (found, more, silent) = (BTreeMap::new(), false, silent.into_iter().collect());
        let mut search = Search { kind, reply, members: Vec::new(), found, more, silent, until };
        for node in asked {
            let mut member = Compared { node, descent: Descent::new(kind, own.clone()), number: 0, until };
            if self.ask_next(&mut member, until) {
                search.members.push(member);
            }
        }
        self.searches.running.push(search);
    }

    /// Returns the other members.
    fn others(&self) -> Vec<Node> {
        let all = self.links.members.all().into_iter();
        let accepted = all.filter(|(node, (_, state))| *node != self.links.node && *state == State::Accepted);
        accepted.map(|(node, _)| node).collect()
    }

    /// Asks a member the next question; returns whether there is one.
    fn ask_next(&mut self, member: &mut Compared, until: u64) -> bool {
        let Some(question) = member.descent.next() else { return false };
        self.searches.number += 1;
        member.number = self.searches.number;
        member.until = (self.now().steady + ANSWER_TIME).min(until);
        let ask = Ask { number: member.number, question: QUESTION.to_owned(), arguments: question.pack() };
        self.send(member.node, Lane::Talk, &Message::Ask(ask));
        true
    }

    /// Takes an answer of another member.
    pub(super) fn answered(&mut self, from: Node, answer: Answer) {
        let is_asked = |member: &Compared| member.node == from && member.number == answer.number;
        let place = |search: &Search| search.members.iter().position(is_asked);
        let found = self.searches.running.iter().enumerate().find_map(|(at, search)| Some((at, place(search)?)));
        // Nobody waits for others.
        let Some((at, place)) = found else { return };
        let mut member = self.searches.running[at].members.swap_remove(place);
        let until = self.searches.running[at].until;
        match Listing::unpack(&answer.value) {
            Ok(listing) => member.descent.take(listing),
            Err(error) => {
                let called = self.links.members.called(from);
                self.warn(&format!("the master {called} sent an invalid answer: {error}"));
                self.searches.running[at].silent.insert(from);
                return;
            }
        }
        if self.ask_next(&mut member, until) {
            return self.searches.running[at].members.push(member);
        }
        let called = self.links.members.called(from);
        self.searches.running[at].note(&called, member.descent);
    }

    /// Answers programs for which all is known.
    pub(super) fn finish_searches(&mut self) {
        for search in self.searches.running.extract_if(.., |search| search.members.is_empty()).collect::<Vec<_>>() {
            let Search { found, more, silent, reply, .. } = search;
            let paths: Map = found.into_iter().collect();
            let mut shown = map! { "differs" => paths };
            if more {
                shown.insert("more", true);
            }
            if !silent.is_empty() {
                shown.insert("not_compared", self.called(&silent.into_iter().collect::<Vec<_>>()));
            }
            // Who asked may have gone.
            let _ = reply.send(Ok(shown.into()));
        }
    }

    /// Returns what `saltern.drift` shows: which kinds differ, and on whom.
    pub(super) fn overview(&self, reader: Reader) -> Map {
        let heard = self.watch.heard();
        let (with, without): (Vec<Node>, Vec<Node>) = self.others().into_iter().partition(|node| heard.contains(node));
        let differences = self.watch.differences();
        let (mut differs, mut same, mut unknown) = (Map::new(), Vec::new(), Vec::new());
        for kind in Kind::ALL {
            let of_kind: Vec<&MemberDifference> = differences.iter().filter(|one| one.kind == kind).collect();
            let name = kind.name();
            match of_kind.iter().map(|one| one.since).min() {
                Some(since) => {
                    let names = self.called(&of_kind.iter().map(|one| one.node).collect::<Vec<_>>());
                    let command = format!("salt-run saltern.drift {name}");
                    let shown = map! { "on" => names, "since" => reader.time(since), "show" => command };
                    differs.insert(name, shown);
                }
                None if self.watch.knows(kind) && !with.is_empty() => same.push(Value::from(name)),
                None => unknown.push(Value::from(name)),
            }
        }
        let mut shown = map! { "compared_with" => self.called(&with), "differs" => differs, "same" => same };
        if !unknown.is_empty() {
            shown.insert("unknown", unknown);
        }
        if !without.is_empty() {
            shown.insert("not_compared", self.called(&without));
        }
        shown
    }
}

impl Search {
    /// Notes what is different on a member.
    fn note(&mut self, called: &str, descent: Descent) {
        let (found, more) = descent.found();
        self.more |= more;
        for (path, difference) in found {
            let shown = self.kind.display_path(&path);
            if self.found.len() >= MOST_FOUND && !self.found.contains_key(&shown) {
                self.more = true;
                return;
            }
            self.found.entry(shown).or_default().insert(called, word(difference));
        }
    }
}

fn word(difference: PathDifference) -> &'static str {
    match difference {
        PathDifference::MissingThere => "missing there",
        PathDifference::MissingHere => "only there",
        PathDifference::Content => "differs",
        PathDifference::Mode => "another mode",
    }
}

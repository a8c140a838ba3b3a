//! From a beat to two greetings that are signed with the member keys. The lower node begins.
//!
//! Anybody on the bus can repeat and forge what is here, so a budget bounds what is computed (`costs.rs`).

use std::sync::Arc;

use peers::failed::Failed;
use peers::kind::Frame;
use peers::members::Standing;
use share::{Lane, Node};
use tokio::time::Instant;

use crate::costs::{Payer, SAMPLE};
use crate::envelope::{Envelope, Greeting, SESSION_LEN};
use crate::hub::Hub;
use crate::session::{Fresh, Session, greet, is_genuine};
use crate::talk::Begun;
use crate::wire::Place;

/// After this many forged answers, a greeting to a stranger is given up and sent again.
const WRONG_ANSWERS: u32 = 3;

impl Hub {
    /// A node says that it is there. Nothing proves it.
    pub fn beat_heard(&self, from: Node, boot: u64) {
        if from == self.node {
            // Another host may have the same key, and only whoever has it can answer.
            if boot != self.boot {
                self.begin(from);
            }
            return;
        }
        // A link that is up stays until another one is proven: anybody can forge a beat.
        if self.is_linked(from, boot) || self.node > from || self.members.standing(from) == Standing::Removed {
            return;
        }
        self.begin(from);
    }

    /// Returns whether there is a link with this run of a node.
    pub fn is_linked(&self, node: Node, boot: u64) -> bool {
        self.state().links.get(&node).is_some_and(|link| link.boot == boot)
    }

    fn begin(&self, to: Node) {
        let now = self.time().0;
        if self.payer(to) == Payer::Strangers && !self.costs().serve_strangers(now) {
            return;
        }
        let mut state = self.state();
        let is_busy =
            state.begun.contains_key(&to) || state.talks.values().any(|talk| talk.is_first && talk.node == to);
        if state.stopped || is_busy || !state.tries.may_begin(to, now) || !self.enter(to) {
            return;
        }
        drop(state);
        let knows = self.members.standing(to) == Standing::Member;
        let greeted = Fresh::generate().and_then(|fresh| {
            let hello = Frame::Hello(self.own_hello(knows)).encode();
            let first = greet(&self.options.key, to, &fresh, hello, None)?;
            Ok((fresh, first))
        });
        match greeted {
            Ok((fresh, first)) => {
                let begun = Begun { fresh, first: first.clone(), wrong: 0, since: Instant::now() };
                self.state().begun.insert(to, begun);
                self.say(Place::To(to, Lane::Talk), Envelope::Greeting(first).encode());
            }
            Err(error) => {
                self.leave(to);
                tracing::error!("no greeting to another master: {error}");
            }
        }
    }

    /// Somebody greets, or answers a greeting.
    pub fn greeting(self: &Arc<Self>, greeting: Greeting) {
        if greeting.to != self.node {
            return;
        }
        match greeting.is_answer {
            true => self.answered(greeting),
            false if greeting.from == self.node => self.own_key_greets(&greeting),
            // Of two nodes the lower one begins.
            false if greeting.from < self.node => self.greeted(greeting),
            false => {}
        }
    }

    fn greeted(self: &Arc<Self>, first: Greeting) {
        let node = first.from;
        let is_told = self.members.standing(node) != Standing::Removed || self.may_tell(node);
        if self.state().stopped || !is_told || !self.lets_in(&first) {
            return;
        }
        let answered = Fresh::generate().and_then(|fresh| {
            let hello = Frame::Hello(self.own_hello(self.knows(node, &first.key))).encode();
            let answer = greet(&self.options.key, node, &fresh, hello, Some(&first))?;
            let session = Session::new(&fresh, &first, &answer, false)?;
            Ok((answer, session))
        });
        match answered {
            Ok((answer, session)) => {
                self.say(Place::To(node, Lane::Talk), Envelope::Greeting(answer).encode());
                self.introduce(&first, session, false);
            }
            Err(error) => {
                tracing::debug!("a greeting on the bus cannot be answered: {error}");
                self.end_in_vain(node);
            }
        }
    }

    /// Returns whether a greeting is genuine and there is a place for it; then [`Hub::leave`] must follow.
    fn lets_in(&self, first: &Greeting) -> bool {
        let node = first.from;
        if self.is_repeated(first) || !self.may_check(node) {
            return false;
        }
        if self.members.standing(node) == Standing::Member {
            // What is forged takes no place from what is not.
            return self.check(first, None) && (self.enter(node) || (self.drop_oldest(node) && self.enter(node)));
        }
        if !self.enter(node) {
            return false;
        }
        let is_genuine = self.check(first, None);
        if !is_genuine {
            self.leave(node);
        }
        is_genuine
    }

    /// Returns whether this greeting is being talked about: somebody repeats it.
    fn is_repeated(&self, first: &Greeting) -> bool {
        self.state().talks.values().any(|talk| !talk.is_first && talk.node == first.from && talk.point == first.point)
    }

    /// Ends the oldest conversation that a member began: old greetings that somebody repeats must not keep out a new one.
    fn drop_oldest(&self, node: Node) -> bool {
        let mut state = self.state();
        let begun = state.talks.iter().filter(|(_, talk)| !talk.is_first && talk.node == node);
        let oldest: Option<[u8; SESSION_LEN]> = begun.min_by_key(|(_, talk)| talk.since).map(|(id, _)| *id);
        let dropped = oldest.and_then(|id| state.talks.remove(&id)).is_some();
        drop(state);
        if dropped {
            self.end_in_vain(node);
        }
        dropped
    }

    /// Returns who pays for what is computed in vain for a node.
    pub fn payer(&self, node: Node) -> Payer {
        match self.members.standing(node) {
            Standing::Member => Payer::Member(node),
            _ if node == self.node => Payer::Member(node),
            Standing::Stranger | Standing::Removed => Payer::Strangers,
        }
    }

    fn may_check(&self, node: Node) -> bool {
        let payer = self.payer(node);
        self.costs().may_check(payer, self.time().0, || self.rt.below(SAMPLE) == 0)
    }

    /// Returns whether a node has sent this greeting, with the whole key of the member if it is one. One that is forged costs.
    fn check(&self, greeting: &Greeting, answered: Option<&Greeting>) -> bool {
        let node = greeting.from;
        let is_member = self.members.standing(node) == Standing::Member;
        let has_key = !is_member || self.members.is_key_of(node, &greeting.key);
        let is_genuine = has_key && is_genuine(greeting, answered);
        if !is_genuine {
            self.costs().failed(self.payer(node), self.time().0);
        }
        is_genuine
    }

    /// Frees the place of a conversation that led to no link, and counts it.
    pub fn end_in_vain(&self, node: Node) {
        self.leave(node);
        self.costs().failed(self.payer(node), self.time().0);
    }

    /// Returns whether a removed node is told again that it was removed.
    fn may_tell(&self, node: Node) -> bool {
        self.state().tries.may_begin(node, self.time().0)
    }

    fn answered(self: &Arc<Self>, answer: Greeting) {
        let node = answer.from;
        let Some(first) = self.state().begun.get(&node).map(|begun| begun.first.clone()) else { return };
        if !self.may_check(node) {
            return;
        }
        if !self.check(&answer, Some(&first)) {
            return self.answered_wrongly(node);
        }
        let Some(begun) = self.state().begun.remove(&node) else { return };
        if node == self.node {
            self.leave(node);
            return self.own_key_answers(&answer);
        }
        match Session::new(&begun.fresh, &begun.first, &answer, true) {
            Ok(session) => self.introduce(&answer, session, true),
            Err(error) => {
                self.end_in_vain(node);
                self.in_vain(node, "", &Failed::Library(error));
            }
        }
    }

    /// Counts a forged answer. Whoever forges one must not end the conversation with a member that was greeted.
    fn answered_wrongly(&self, node: Node) {
        let is_stranger = self.payer(node) == Payer::Strangers;
        let mut state = self.state();
        let Some(begun) = state.begun.get_mut(&node) else { return };
        begun.wrong += 1;
        if is_stranger && begun.wrong >= WRONG_ANSWERS {
            state.begun.remove(&node);
            drop(state);
            self.end_in_vain(node);
        }
    }

    // === another host with the key of this one ===

    /// Answers a greeting of another run with the own key, so that both know of each other.
    fn own_key_greets(&self, first: &Greeting) {
        if !is_of_another_run(first, self.boot) || !self.may_check(self.node) || !self.check(first, None) {
            return;
        }
        // An old one may be repeated for ever.
        self.costs().failed(Payer::Member(self.node), self.time().0);
        let answered = Fresh::generate().and_then(|fresh| {
            greet(&self.options.key, self.node, &fresh, Frame::Hello(self.own_hello(true)).encode(), Some(first))
        });
        match answered {
            Ok(answer) => self.say(Place::To(self.node, Lane::Talk), Envelope::Greeting(answer).encode()),
            Err(error) => tracing::debug!("a greeting on the bus cannot be answered: {error}"),
        }
    }

    /// Another run with the own key has answered a greeting of this one.
    fn own_key_answers(&self, answer: &Greeting) {
        if is_of_another_run(answer, self.boot) && self.guard().may_log("the own node", "copied", self.time().0) {
            tracing::error!(
                "another master on the bus has the member key of this one. On the copied one stop the master, delete \
                 'saltern/member.pem' in its pki_dir, give it an id of its own and start it again"
            );
        }
    }
}

/// Returns whether a greeting is not of the run with this boot.
fn is_of_another_run(greeting: &Greeting, boot: u64) -> bool {
    matches!(Frame::decode(&greeting.hello), Ok(Some(Frame::Hello(hello))) if hello.boot != boot)
}

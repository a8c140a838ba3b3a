//! From two greetings to a proven member: what each says of itself, and proofs if the two do not know each other.
//!
//! Greetings are signed with the member keys (`greetings.rs`); all after them is sealed for the two alone.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use crypto::MEMBER_KEY_LEN;
use peers::checks::{Facts, Hosts, Refusal, judge, judge_time};
use peers::failed::{Failed, PATIENCE};
use peers::kind::{FORMAT, Frame, Hello, How, LinkNumber, OLDEST_FORMAT};
use peers::members::{Newcomer, Standing};
use peers::proof::{self, Transcript};
use peers::status::{PeerInfo, WaitingMember};
use share::{Lane, Node};
use tokio::time::Instant;

use crate::content::Content;
use crate::envelope::{Greeting, Sealed};
use crate::hub::{Hub, network};
use crate::session::Session;
use crate::talk::{Stage, Talk};
use crate::wire::Place;
use crate::writer;

impl Hub {
    /// Decides about the `hello` of the peer, and begins to exchange proofs if the two do not know each other.
    pub fn introduce(self: &Arc<Self>, greeting: &Greeting, session: Session, is_first: bool) {
        let node = greeting.from;
        let theirs = match Frame::decode(&greeting.hello) {
            Ok(Some(Frame::Hello(theirs))) => theirs,
            other => {
                self.end_in_vain(node);
                let failed = other.map_or_else(Failed::from, |_| Failed::Unexpected("frame before hello"));
                return self.in_vain(node, "", &failed);
            }
        };
        let (key, point, since, stage) = (greeting.key, greeting.point, Instant::now(), Stage::Welcome);
        let mut talk = Talk { node, key, point, session, is_first, theirs, stage, since };
        if is_first && self.is_linked(node, talk.theirs.boot) {
            // Somebody has forged a beat. A link that is up is not disturbed.
            self.send_frame(&mut talk, &Frame::Bye("there is a link already".to_owned()));
            return self.end_in_vain(node);
        }
        let next = self.judge(&talk).and_then(|()| self.first_stage(&talk));
        match next {
            Ok(stage) => {
                talk.stage = stage;
                let said = match (is_first, stage) {
                    (true, Stage::Proof(how)) => self.send_proof(&mut talk, how),
                    (true, Stage::Welcome) => self.admit(&talk).map(|()| self.send_welcome(&mut talk)),
                    (false, _) => Ok(()),
                };
                self.go_on(talk, said);
            }
            Err(failed) => self.refuse(talk, failed),
        }
    }

    fn judge(&self, talk: &Talk) -> Result<(), Failed> {
        let standing = self.members.standing(talk.node);
        let facts = Facts {
            cluster_id: &self.options.cluster_id,
            own_name: &self.options.name,
            node: talk.node,
            standing,
            named: self.members.named(&talk.theirs.name),
            copied: None,
        };
        judge(&talk.theirs, &facts).map_err(Failed::Refuse)?;
        // An answer is about the greeting of this member. A greeting may be an old one that somebody repeats.
        if talk.is_first { self.judge_present(talk) } else { Ok(()) }
    }

    /// Decides about the run and the time of a peer that speaks now.
    fn judge_present(&self, talk: &Talk) -> Result<(), Failed> {
        if self.has_copied_host(talk.node, talk.theirs.boot) {
            let name = talk.theirs.name.clone();
            return Err(Failed::Refuse(Refusal::Copied { name, hosts: Hosts::Unknown }));
        }
        // What a stranger says of the time counts only after its proof.
        if self.members.standing(talk.node) == Standing::Member {
            self.members.heard_time(talk.node, talk.theirs.now);
        }
        judge_time(&talk.theirs, self.now()).map_err(Failed::Refuse)
    }

    /// Returns what is awaited first: a proof, if the two do not know each other.
    fn first_stage(&self, talk: &Talk) -> Result<Stage, Failed> {
        let knows = self.knows(talk.node, &talk.key);
        if knows && talk.theirs.knows_you {
            return Ok(Stage::Welcome);
        }
        let common = proof::common(self.options.credentials.secret.is_some(), &self.fingers, &talk.theirs);
        common.map(Stage::Proof).ok_or_else(|| self.nothing_in_common(talk, knows))
    }

    /// Lets a newcomer wait until a person accepts it. Returns why there is no link yet.
    fn nothing_in_common(&self, talk: &Talk, knows: bool) -> Failed {
        let (name, own_name) = (talk.theirs.name.clone(), self.options.name.clone());
        if knows {
            return Failed::Refuse(Refusal::NotAccepted { name, own_name });
        }
        let newcomer = newcomer(talk);
        let waiting =
            WaitingMember { newcomer: newcomer.clone(), info: talk.theirs.info(), address: None, since: self.rt.now() };
        if self.state().roster.waits(waiting, self.time().0) {
            self.members.waits(&newcomer);
        }
        Failed::Refuse(Refusal::NoProof { name, own_name })
    }

    /// Something sealed arrives that belongs to no link.
    pub fn sealed_stranger(self: &Arc<Self>, sealed: &Sealed) {
        let mut state = self.state();
        let Some(mut talk) = state.talks.remove(&sealed.session) else { return };
        drop(state);
        let opened =
            (talk.node == sealed.from && sealed.lane == Lane::Talk).then(|| talk.session.open(sealed)).flatten();
        // What is forged or comes twice changes nothing.
        let Some(opened) = opened else { return self.go_on(talk, Ok(())) };
        let frame = match Content::decode(&opened.content) {
            Ok(Some(Content::Frame(frame))) => frame,
            Ok(_) => return self.go_on(talk, Ok(())),
            Err(error) => return self.refuse(talk, error.into()),
        };
        let speaks = !talk.is_first && matches!(frame, Frame::Proof { .. } | Frame::Welcome { .. });
        if speaks && let Err(failed) = self.judge_present(&talk) {
            return self.refuse(talk, failed);
        }
        match (frame, talk.stage) {
            (Frame::Refused { reason, word }, _) => self.refuse(talk, Failed::Refused { reason, word }),
            (Frame::Proof { how, bytes }, Stage::Proof(wanted)) => self.proof(talk, (how, &bytes), wanted),
            (Frame::Welcome { decisions, report, .. }, Stage::Welcome) => {
                let admitted = if talk.is_first { Ok(()) } else { self.admit(&talk) };
                if let Err(failed) = admitted {
                    return self.refuse(talk, failed);
                }
                self.members.learn(talk.node, decisions);
                self.leave(talk.node);
                // The writer says it, so that no heartbeat arrives before it.
                let first = (!talk.is_first).then(|| Content::Frame(self.welcome(talk.node)));
                let info = PeerInfo { report: Some(report), ..talk.theirs.info() };
                if let Some((link, notes)) = self.add((talk.node, talk.theirs.boot), talk.session, info) {
                    writer::start(self, &link, notes, first);
                }
            }
            (Frame::Bye(_), _) => self.end_in_vain(talk.node),
            // The `welcome` before it is lost: this member begins again.
            (Frame::Ping { .. }, Stage::Welcome) => self.go_on(talk, Ok(())),
            _ => self.refuse(talk, Failed::Unexpected("frame")),
        }
    }

    fn proof(self: &Arc<Self>, mut talk: Talk, (how, bytes): (How, &Bytes), wanted: How) {
        let (transcript, by_dialler) = (self.transcript(&talk), !talk.is_first);
        if how != wanted || !proof::is_right(&self.options.credentials, (how, bytes), &transcript, by_dialler) {
            self.costs().wrong_proof(self.payer(talk.node), self.time().0);
            // An answer to a greeting of this member is its own choice.
            if !talk.is_first {
                self.guard().wrong_proof(network(talk.node).into(), self.time().0);
            }
            let name = talk.theirs.name.clone();
            return self.refuse(talk, Failed::Refuse(Refusal::Proof { name }));
        }
        talk.stage = Stage::Welcome;
        let said = match talk.is_first {
            true => self.admit(&talk).map(|()| self.send_welcome(&mut talk)),
            // A signature takes long: it is made only for a node that has proven itself.
            false => self.send_proof(&mut talk, how),
        };
        self.go_on(talk, said);
    }

    /// Takes a newcomer that has proven itself as a member.
    fn admit(&self, talk: &Talk) -> Result<(), Failed> {
        if self.members.standing(talk.node) == Standing::Stranger {
            let refused = |reason| Failed::Refuse(Refusal::Admission { name: talk.theirs.name.clone(), reason });
            self.members.admit(&newcomer(talk)).map_err(refused)?;
            self.members.heard_time(talk.node, talk.theirs.now);
        }
        Ok(())
    }

    fn send_proof(&self, talk: &mut Talk, how: How) -> Result<(), Failed> {
        let transcript = self.transcript(talk);
        let bytes = proof::make(&self.options.credentials, how, &transcript, talk.is_first)
            .ok_or(Failed::Unexpected("kind of proof"))?;
        self.send_frame(talk, &Frame::Proof { how, bytes });
        Ok(())
    }

    fn send_welcome(&self, talk: &mut Talk) {
        let welcome = self.welcome(talk.node);
        self.send_frame(talk, &welcome);
    }

    fn welcome(&self, node: Node) -> Frame {
        Frame::Welcome { number: 0, decisions: self.members.decisions(), report: self.members.self_report(node) }
    }

    fn send_frame(&self, talk: &mut Talk, frame: &Frame) {
        match talk.session.seal(Lane::Talk, &Content::Frame(frame.clone()).encode()) {
            Ok(sealed) => self.say(Place::To(talk.node, Lane::Talk), sealed),
            Err(error) => tracing::error!("nothing can be sealed for another master: {error}"),
        }
    }

    fn transcript(&self, talk: &Talk) -> Transcript {
        let (dialler, listener) = if talk.is_first { (self.node, talk.node) } else { (talk.node, self.node) };
        Transcript { exporter: talk.session.transcript, dialler, listener }
    }

    /// Waits for what the peer says next.
    fn go_on(&self, talk: Talk, said: Result<(), Failed>) {
        match said {
            Ok(()) => _ = self.state().talks.insert(talk.session.id, talk),
            Err(failed) => self.refuse(talk, failed),
        }
    }

    /// Ends a conversation that is no link, tells the peer why, and notes it for people.
    fn refuse(&self, mut talk: Talk, failed: Failed) {
        if let Failed::Refuse(refusal) = &failed {
            let frame = Frame::Refused { reason: refusal.to_string(), word: refusal.word().to_owned() };
            self.send_frame(&mut talk, &frame);
        }
        self.end_in_vain(talk.node);
        self.note(&talk, &failed);
    }

    fn note(&self, talk: &Talk, failed: &Failed) {
        let (node, time) = (talk.node, self.time());
        let mut state = self.state();
        match self.members.standing(node) {
            Standing::Member => state.roster.refused(node, failed, time),
            Standing::Stranger | Standing::Removed => {
                state.roster.turned_away(node, talk.theirs.info(), None, failed, time);
            }
        }
        drop(state);
        failed.refused(node).into_iter().for_each(|refused| self.members.refused(refused));
        self.in_vain(node, &talk.theirs.name, failed);
    }

    /// Ends conversations in which nothing was said for too long.
    pub fn end_late_talks(&self) {
        let mut state = self.state();
        let begun: Vec<Node> =
            state.begun.extract_if(.., |_, begun| begun.since.elapsed() >= PATIENCE).map(|(node, _)| node).collect();
        let late: Vec<Talk> =
            state.talks.extract_if(.., |_, talk| talk.since.elapsed() >= PATIENCE).map(|(_, talk)| talk).collect();
        drop(state);
        begun.into_iter().for_each(|node| self.end_in_vain(node));
        for talk in late {
            self.end_in_vain(talk.node);
            self.note(&talk, &Failed::Slow);
        }
    }

    /// Returns whether this member believes the peer without a proof.
    pub fn knows(&self, node: Node, key: &[u8; MEMBER_KEY_LEN]) -> bool {
        match self.members.standing(node) {
            Standing::Member => true,
            Standing::Stranger => self.options.credentials.pins(key),
            Standing::Removed => false,
        }
    }

    /// Returns the time by which this member goes, in milliseconds since 1970.
    fn now(&self) -> u64 {
        self.members.present(self.rt.now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64))
    }

    /// Returns what this member says first.
    pub fn own_hello(&self, knows_you: bool) -> Hello {
        let options = &self.options;
        Hello {
            format: FORMAT,
            oldest_format: OLDEST_FORMAT,
            cluster_id: options.cluster_id.clone(),
            name: options.name.clone(),
            lane: Lane::Talk,
            boot: self.boot,
            lost: LinkNumber::default(),
            knows_you,
            role: options.role,
            addresses: options.addresses.clone(),
            secret: options.credentials.secret.is_some(),
            master_key: self.fingers.master_key.clone(),
            sign_key: self.fingers.sign_key.clone(),
            now: self.now(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

fn newcomer(talk: &Talk) -> Newcomer {
    let Hello { name, addresses, role, .. } = talk.theirs.clone();
    Newcomer { node: talk.node, name, key: talk.key, addresses, role }
}

//! The conformance suite of carriers: what the model relies on, checked over any of them.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::message::MAX_MESSAGE;
use crate::{Incoming, Lane, Node, SendResult, To};

/// Three members with a carrier each, as the suite needs them.
pub trait Bench {
    /// Returns the node of a member: 0, 1 or 2.
    fn node(&self, member: usize) -> Node;

    /// Sends with the carrier of a member.
    fn send(&mut self, from: usize, to: To, lane: Lane, message: Bytes) -> SendResult;

    /// Returns the next report to a member. Waits for it as long as a carrier may need to notice that somebody is silent; `None`
    /// if nothing comes. What is not asked for must wait in the bounded queues of the carrier.
    fn next(&mut self, member: usize) -> Option<Incoming>;

    /// Cuts one direction between two members, or opens it.
    fn cut(&mut self, from: usize, to: usize, cut: bool);

    /// Returns how many bytes may wait for a member in a lane. Buffers of the host may take as many again.
    fn queue(&self) -> usize {
        64 << 20
    }
}

/// Checks that a carrier keeps its promises. Panics where it does not.
pub fn check_carrier(bench: &mut impl Bench) {
    let mut suite = Suite { bench, kept: Default::default() };
    suite.members_link();
    suite.messages_arrive_whole_and_proven();
    suite.lanes_keep_their_order_and_repeat_nothing();
    suite.all_gets_everybody_else();
    suite.queues_are_bounded();
    suite.silence_is_noticed_by_both(&[(0, 1), (1, 0)]);
    suite.silence_is_noticed_by_both(&[(0, 1)]);
}

const LANES: [Lane; 2] = [Lane::Talk, Lane::Bulk];

struct Suite<'a, B> {
    bench: &'a mut B,
    /// Reports to each member that came before the one that was waited for.
    kept: [VecDeque<Incoming>; 3],
}

impl<B: Bench> Suite<'_, B> {
    fn send(&mut self, from: usize, to: usize, lane: Lane, message: Bytes) -> SendResult {
        let to = To::Member(self.bench.node(to));
        self.bench.send(from, to, lane, message)
    }

    /// Waits for a report. Others are kept for later.
    fn wait_for(&mut self, member: usize, what: &str, wanted: impl Fn(&Incoming) -> bool) -> Incoming {
        if let Some(place) = self.kept[member].iter().position(&wanted) {
            return self.kept[member].remove(place).expect("it is there");
        }
        loop {
            match self.bench.next(member) {
                Some(report) if wanted(&report) => return report,
                Some(report) => self.kept[member].push_back(report),
                None => panic!("member {member} waits for {what} in vain; it got {} reports", self.kept[member].len()),
            }
        }
    }

    fn message(&mut self, member: usize, lane: Lane, what: &str) -> (Node, Bytes) {
        let in_lane = |report: &Incoming| matches!(report, Incoming::Message { lane: its, .. } if *its == lane);
        let Incoming::Message { from, message, .. } = self.wait_for(member, what, in_lane) else { unreachable!() };
        (from, message)
    }

    fn members_link(&mut self) {
        for member in 0..3 {
            for other in (0..3).filter(|other| *other != member) {
                let node = self.bench.node(other);
                self.wait_for(member, "a link", |report| *report == Incoming::Up(node));
            }
        }
    }

    fn messages_arrive_whole_and_proven(&mut self) {
        for lane in LANES {
            for length in [1, 1_000, 65_537, MAX_MESSAGE] {
                for from in [0, 2] {
                    let content: Bytes = (0..length).map(|place| (place * 31 + from) as u8).collect();
                    assert_eq!(self.send(from, 1, lane, content.clone()), SendResult::Queued);
                    let (sender, message) = self.message(1, lane, "a message");
                    assert_eq!(sender, self.bench.node(from), "who sent it is proven");
                    assert!(message == content, "{length} bytes in {lane:?} arrive unchanged");
                }
            }
        }
    }

    fn lanes_keep_their_order_and_repeat_nothing(&mut self) {
        const COUNT: u32 = 500;
        for number in 0..COUNT {
            for lane in LANES {
                let padding = if lane == Lane::Bulk { 5_000 } else { 0 };
                let message = [&number.to_be_bytes()[..], &vec![0; padding]].concat();
                assert_eq!(self.send(0, 1, lane, message.into()), SendResult::Queued);
            }
        }
        // A calm carrier loses nothing that it queued, so that each number comes exactly once, and in order.
        for lane in LANES {
            for number in 0..COUNT {
                let (_, message) = self.message(1, lane, "one of many messages");
                assert_eq!(message[..4], number.to_be_bytes(), "{lane:?}");
            }
        }
    }

    fn all_gets_everybody_else(&mut self) {
        assert_eq!(self.bench.send(1, To::All, Lane::Talk, Bytes::from_static(b"all")), SendResult::Queued);
        for member in [0, 2] {
            assert_eq!(&self.message(member, Lane::Talk, "a message to all").1[..], b"all");
        }
        let stranger = To::Member(Node([0xff; 8]));
        assert_eq!(self.bench.send(1, stranger, Lane::Talk, Bytes::from_static(b"x")), SendResult::Away);
    }

    fn queues_are_bounded(&mut self) {
        let large = Bytes::from(vec![7; MAX_MESSAGE]);
        let most = 3 * self.bench.queue() / MAX_MESSAGE;
        let taken = (0..most).take_while(|_| self.send(0, 1, Lane::Bulk, large.clone()) == SendResult::Queued).count();
        assert!(taken < most, "{taken} messages of {MAX_MESSAGE} bytes wait for a member that takes none");
        let full = self.bench.node(1);
        self.wait_for(0, "an overflow", |report| *report == Incoming::Overflowed(full));
        // Nothing small waits behind it, and others are served.
        assert_eq!(self.send(0, 1, Lane::Talk, Bytes::from_static(b"small")), SendResult::Queued);
        assert_eq!(&self.message(1, Lane::Talk, "a small message").1[..], b"small");
        assert_eq!(self.send(0, 2, Lane::Bulk, Bytes::from_static(b"other")), SendResult::Queued);
        assert_eq!(&self.message(2, Lane::Bulk, "a message to another").1[..], b"other");
        for _ in 0..taken {
            self.message(1, Lane::Bulk, "what was queued");
        }
        assert_eq!(self.send(0, 1, Lane::Bulk, Bytes::from_static(b"again")), SendResult::Queued);
        assert_eq!(&self.message(1, Lane::Bulk, "a message after the overflow").1[..], b"again");
    }

    fn silence_is_noticed_by_both(&mut self, ways: &[(usize, usize)]) {
        let nodes = [self.bench.node(0), self.bench.node(1)];
        ways.iter().for_each(|(from, to)| self.bench.cut(*from, *to, true));
        self.send(0, 1, Lane::Talk, Bytes::from_static(b"lost"));
        for member in [0, 1] {
            let gone = |report: &Incoming| matches!(report, Incoming::Down(node, _) if *node == nodes[1 - member]);
            self.wait_for(member, "the word that the other is down", gone);
        }
        assert_eq!(self.send(0, 1, Lane::Talk, Bytes::from_static(b"away")), SendResult::Away);
        assert_eq!(self.send(2, 1, Lane::Talk, Bytes::from_static(b"third")), SendResult::Queued);
        assert_eq!(&self.message(1, Lane::Talk, "a message of the third").1[..], b"third");

        ways.iter().for_each(|(from, to)| self.bench.cut(*from, *to, false));
        for member in [0, 1] {
            let back = nodes[1 - member];
            self.wait_for(member, "the link", |report| *report == Incoming::Up(back));
        }
        assert_eq!(self.send(0, 1, Lane::Talk, Bytes::from_static(b"new")), SendResult::Queued);
        // What was sent before the link broke arrived before it, or never.
        assert_eq!(&self.message(1, Lane::Talk, "a message over the new link").1[..], b"new");
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Disorder, MemoryNet};
    use super::*;
    use crate::Carrier;

    impl Bench for MemoryNet {
        fn node(&self, member: usize) -> Node {
            MemoryNet::node(self, member)
        }

        fn send(&mut self, from: usize, to: To, lane: Lane, message: Bytes) -> SendResult {
            self.carrier(from).send(to, lane, message)
        }

        fn next(&mut self, member: usize) -> Option<Incoming> {
            for _ in 0..50 {
                if let Some(report) = MemoryNet::next(self, member) {
                    return Some(report);
                }
                self.advance(100);
            }
            None
        }

        fn cut(&mut self, from: usize, to: usize, cut: bool) {
            MemoryNet::cut(self, from, to, cut);
        }
    }

    #[test]
    fn the_carrier_in_memory_conforms() {
        check_carrier(&mut MemoryNet::new(3, 1));
    }

    #[test]
    fn the_carrier_in_memory_conforms_when_messages_are_late() {
        let mut net = MemoryNet::new(3, 1);
        net.set_disorder(Disorder { loss: 0, delay: 800 });
        check_carrier(&mut net);
    }

    #[test]
    fn messages_are_lost_as_the_seed_says_and_never_out_of_order() {
        let arrived = |seed| {
            let mut net = MemoryNet::new(2, seed);
            net.set_disorder(Disorder { loss: 30, delay: 50 });
            (0..200).for_each(|number: u8| _ = Bench::send(&mut net, 0, To::All, Lane::Talk, vec![number].into()));
            let messages = std::iter::from_fn(|| Bench::next(&mut net, 1));
            messages
                .filter_map(
                    |report| if let Incoming::Message { message, .. } = report { Some(message[0]) } else { None },
                )
                .collect::<Vec<u8>>()
        };
        let first = arrived(3);
        assert!((110..170).contains(&first.len()) && first.is_sorted(), "{first:?}");
        assert_eq!(first, arrived(3));
        assert_ne!(first, arrived(4));
    }
}

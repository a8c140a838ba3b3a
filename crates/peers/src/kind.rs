//! What carriers themselves say: who they are, that they are there, and how they end. Messages of the model pass as they are.

use std::time::Duration;

use bytes::Bytes;
use share::fields::{Fields, MAX_NAME, node, number, packed};
use share::member::Role;
use share::{Class, Classes, Lane, Malformed, Node};
use value::Value;

use crate::members::{LeaseSource, SelfReport};
use crate::status::PeerInfo;

/// The number of this format.
pub const FORMAT: u64 = 1;
/// The number of the oldest format that this version understands.
pub const OLDEST_FORMAT: u64 = 1;

/// The maximum length of a frame of a member.
pub const MAX_FRAME: usize = 576 * 1024;

/// How many bytes a stranger may send altogether.
pub const MAX_STRANGER: usize = 64 * 1024;

/// Values in a frame of a link, those of a member's decisions not counted: they are bytes.
const MOST_VALUES: usize = 1_024;

/// Addresses in a `hello`.
pub const MOST_ADDRESSES: usize = 16;

/// Classes of records that a member may name, those of later versions included.
const MOST_CLASSES: usize = 64;

/// A packed decision with its signature.
const MAX_PACKED: usize = share::MAX_DECISION + 256;

/// Bytes of decisions in a `welcome`. What does not fit is found by comparing.
const MAX_DECISIONS: usize = 512 * 1024;

/// Members in a `ping` and decisions in a `welcome`.
const MOST_MEMBERS: usize = 512;

/// The longest time in microseconds for which an answer may have waited: an hour. The link would have ended long before.
const MAX_HELD: u64 = 3_600_000_000;

/// A text that is shown to people.
const MAX_REASON: usize = 1_024;

/// A link that a member has had: the boot of the member that numbered it, and its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkNumber {
    /// The boot of the member that numbered it.
    pub boot: u64,
    /// Its number.
    pub number: u64,
}

/// The first frame in each direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The number of the sender's format.
    pub format: u64,
    /// The number of the oldest format that it understands.
    pub oldest_format: u64,
    /// The name of its set.
    pub cluster_id: String,
    /// Its short name.
    pub name: String,
    /// What the connection is for.
    pub lane: Lane,
    /// Random, another one in each run of the program.
    pub boot: u64,
    /// The last link with the receiver that the sender has lost.
    pub lost: LinkNumber,
    /// The sender knows the receiver as a member: no proof is needed for it.
    pub knows_you: bool,
    /// What the sender does.
    pub role: Role,
    /// Where others reach it, as it says.
    pub addresses: Vec<String>,
    /// The sender has a secret of the set, and so wants a proof by it.
    pub secret: bool,
    /// SHA-256 of the public half of the master key, empty if there is none.
    pub master_key: Bytes,
    /// SHA-256 of the public half of the signing key, empty if there is none.
    pub sign_key: Bytes,
    /// Milliseconds since 1970.
    pub now: u64,
    /// The version of its program.
    pub version: String,
}

/// How a node shows that it belongs to the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// By the secret of the set.
    Secret,
    /// By the master's key pair.
    MasterKey,
    /// By the pair that signs the master's key.
    SignKey,
}

impl How {
    /// All of them.
    pub const ALL: [How; 3] = [How::Secret, How::MasterKey, How::SignKey];

    /// Returns its name on the wire.
    pub fn name(self) -> &'static str {
        ["secret", "master_key", "sign_key"][self as usize]
    }
}

/// The answer to a heartbeat that waited for the next heartbeat in the other direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The number of the heartbeat, 0 if none has come.
    pub number: u64,
    /// For how long the answer waited. In frames in microseconds.
    pub held: Duration,
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Who the sender is.
    Hello(Hello),
    /// A proof that the sender belongs to the set.
    Proof {
        /// By what.
        how: How,
        /// The proof.
        bytes: Bytes,
    },
    /// The first frame to a peer that is proven. What only members may know stands here and not in `hello`.
    Welcome {
        /// The number of the link, 0 from the member that does not decide.
        number: u64,
        /// Packed decisions about members.
        decisions: Vec<Bytes>,
        /// What the sender says about itself.
        report: SelfReport,
    },
    /// The sender refuses the receiver.
    Refused {
        /// Why, in a sentence.
        reason: String,
        /// The reason in one word, by which the peer finds its own words.
        word: String,
    },
    /// A heartbeat.
    Ping {
        /// Its number, for the answer.
        number: u64,
        /// The wall clock of the sender's host, in milliseconds since 1970.
        now: u64,
        /// With whom the sender is linked.
        linked: Vec<Node>,
        /// What the sender says about itself.
        report: SelfReport,
        /// The sender's clock that never jumps, in milliseconds; `None` from earlier versions.
        steady: Option<u64>,
        /// The answer to the receiver's latest heartbeat; `None` if the sender answers each with a `pong`, and expects one.
        answer: Option<Answer>,
    },
    /// The answer to a heartbeat.
    Pong {
        /// The number of the heartbeat.
        number: u64,
    },
    /// The end of the link, and why.
    Bye(String),
    /// A message of the model.
    Message(Bytes),
}

impl Frame {
    /// Packs the frame.
    pub fn encode(&self) -> Bytes {
        let fields = match self {
            Frame::Hello(hello) => hello.fields(),
            Frame::Proof { how, bytes } => vec!["proof".into(), how.name().into(), Value::bytes(bytes.clone())],
            Frame::Welcome { number: link, decisions, report } => {
                let decisions = within(decisions).map(|packed| Value::bytes(packed.clone())).collect();
                vec!["welcome".into(), number(*link), Value::List(decisions), report.field()]
            }
            Frame::Refused { reason, word } => vec!["refused".into(), shown(reason).into(), word.as_str().into()],
            Frame::Ping { number: ping, now, linked, report, steady, answer } => {
                let linked = linked.iter().take(MOST_MEMBERS).copied().map(node).collect();
                let mut fields = vec!["ping".into(), number(*ping), number(*now), Value::List(linked), report.field()];
                fields.extend(steady.map(number));
                // Without a clock its place would be that of the clock. Whoever sends answers has one.
                fields.extend(answer.filter(|_| steady.is_some()).iter().flat_map(
                    |Answer { number: answered, held }| {
                        [number(*answered), number(held.as_micros().min(u128::from(MAX_HELD)) as u64)]
                    },
                ));
                fields
            }
            Frame::Pong { number: ping } => vec!["pong".into(), number(*ping)],
            Frame::Bye(reason) => vec!["bye".into(), shown(reason).into()],
            Frame::Message(content) => vec!["message".into(), Value::bytes(content.clone())],
        };
        packed(fields)
    }

    /// Reads a frame; `None` for a kind of a later version.
    pub fn decode(packed: &Bytes) -> Result<Option<Frame>, Malformed> {
        let mut fields = Fields::open(packed, MOST_VALUES, "a frame")?;
        let kind = fields.text("the kind of a frame", MAX_NAME)?;
        Ok(Some(match kind.as_str() {
            "hello" => Frame::Hello(Hello::read(fields)?),
            "proof" => {
                let name = fields.text("the kind of a proof", MAX_NAME)?;
                let how =
                    How::ALL.into_iter().find(|how| how.name() == name).ok_or(Malformed("the kind of a proof"))?;
                Frame::Proof { how, bytes: fields.bytes("a proof", 2_048)? }
            }
            "welcome" => {
                let number = fields.number("the number of a link")?;
                let mut list = fields.list("decisions", MOST_MEMBERS)?;
                let mut decisions = Vec::new();
                while list.left() > 0 {
                    decisions.push(list.bytes("a decision", MAX_PACKED)?);
                }
                Frame::Welcome { number, decisions, report: SelfReport::read(&mut fields)? }
            }
            "refused" => {
                Frame::Refused { reason: fields.plain("a reason", MAX_REASON)?, word: fields.plain("a word", 32)? }
            }
            "ping" => {
                let (number, now) = (fields.number("a number")?, fields.number("a time")?);
                let mut list = fields.list("linked members", MOST_MEMBERS)?;
                let mut linked = Vec::new();
                while list.left() > 0 {
                    linked.push(list.node()?);
                }
                let report = SelfReport::read(&mut fields)?;
                let steady = match fields.left() {
                    0 => None,
                    _ => Some(fields.number("a steady clock")?),
                };
                let answer = match fields.left() {
                    0 => None,
                    _ => {
                        let number = fields.number("the number of an answer")?;
                        Some(Answer { number, held: Duration::from_micros(fields.number("a time")?.min(MAX_HELD)) })
                    }
                };
                Frame::Ping { number, now, linked, report, steady, answer }
            }
            "pong" => Frame::Pong { number: fields.number("a number")? },
            "bye" => Frame::Bye(fields.plain("a reason", MAX_REASON)?),
            "message" => Frame::Message(fields.bytes("a message", share::message::MAX_MESSAGE)?),
            _ => return Ok(None),
        }))
    }
}

/// Returns the decisions that fit into one frame.
fn within(decisions: &[Bytes]) -> impl Iterator<Item = &Bytes> {
    let mut left = MAX_DECISIONS;
    let fits = move |packed: &&Bytes| {
        // Each has a head of up to five bytes.
        let len = packed.len() + 5;
        let fits = len <= left;
        left = left.saturating_sub(len);
        fits
    };
    decisions.iter().filter(|packed| packed.len() <= MAX_PACKED).take(MOST_MEMBERS).take_while(fits)
}

/// Returns a reason in a form that its reader takes.
fn shown(reason: &str) -> String {
    let plain = |character: char| if character.is_control() { ' ' } else { character };
    let mut text: String = reason.chars().map(plain).collect();
    text.truncate(text.floor_char_boundary(MAX_REASON));
    text
}

impl LeaseSource {
    /// Returns what a number says; `None` for nothing, and for what later versions say.
    fn from_number(number: u64) -> Option<LeaseSource> {
        match number {
            1 => Some(LeaseSource::Members),
            2 => Some(LeaseSource::JetStream),
            3 => Some(LeaseSource::Off),
            _ => None,
        }
    }
}

impl SelfReport {
    fn field(&self) -> Value {
        let classes = self.classes.iter().map(|class| number(u64::from(class.number()))).collect();
        Value::List(vec![
            Value::List(classes),
            number(self.minions),
            number(self.highest),
            number(self.highest_of_peer),
            number(self.compared),
            number(self.leases.map_or(0, |leases| leases as u64 + 1)),
        ])
    }

    fn read(fields: &mut Fields) -> Result<SelfReport, Malformed> {
        let mut fields = fields.list("a report", MOST_VALUES)?;
        let mut list = fields.list("classes", MOST_CLASSES)?;
        let mut missing = Class::ALL.to_vec();
        while list.left() > 0 {
            let named = list.number("a class")?;
            missing.retain(|class| u64::from(class.number()) != named);
        }
        Ok(SelfReport {
            classes: Classes::without(&missing),
            minions: fields.number("a number of minions")?,
            highest: fields.number("a time")?,
            highest_of_peer: fields.number("a time")?,
            compared: fields.number("a time")?,
            leases: match fields.left() {
                // Earlier versions do not say it.
                0 => None,
                _ => LeaseSource::from_number(fields.number("how leases are taken")?),
            },
        })
    }
}

impl Hello {
    /// Returns what the sender says about itself.
    pub fn info(&self) -> PeerInfo {
        let key = |digest: &Bytes| <[u8; 32]>::try_from(&digest[..]).ok();
        PeerInfo {
            name: self.name.clone(),
            version: self.version.clone(),
            boot: self.boot,
            role: self.role,
            addresses: self.addresses.clone(),
            master_key: key(&self.master_key),
            sign_key: key(&self.sign_key),
            report: None,
        }
    }

    fn fields(&self) -> Vec<Value> {
        let addresses = self.addresses.iter().take(MOST_ADDRESSES);
        let addresses = addresses.map(|address| address.as_str().into()).collect();
        vec![
            "hello".into(),
            number(self.format),
            number(self.oldest_format),
            self.cluster_id.as_str().into(),
            self.name.as_str().into(),
            number(self.lane as u64),
            number(self.boot),
            Value::List(vec![number(self.lost.boot), number(self.lost.number)]),
            self.knows_you.into(),
            number(self.role as u64),
            Value::List(addresses),
            self.secret.into(),
            Value::bytes(self.master_key.clone()),
            Value::bytes(self.sign_key.clone()),
            number(self.now),
            self.version.as_str().into(),
        ]
    }

    fn read(mut fields: Fields) -> Result<Hello, Malformed> {
        let (format, oldest_format) = (fields.number("a format")?, fields.number("the oldest format")?);
        let cluster_id = fields.text("the id of a set", MAX_NAME)?;
        let name = fields.name("the name of a member")?;
        let lane = match fields.number("a lane")? {
            0 => Lane::Talk,
            1 => Lane::Bulk,
            _ => return Err(Malformed("a lane")),
        };
        let boot = fields.number("a boot")?;
        let mut lost = fields.list("a lost link", 8)?;
        let lost = LinkNumber { boot: lost.number("a boot")?, number: lost.number("the number of a link")? };
        let knows_you = fields.flag("who is known")?;
        let role = match fields.number("a role")? {
            1 => Role::Master,
            2 => Role::Witness,
            3 => Role::Reader,
            _ => return Err(Malformed("a role")),
        };
        let mut list = fields.list("addresses", MOST_ADDRESSES)?;
        let mut addresses = Vec::new();
        while list.left() > 0 {
            addresses.push(list.plain("an address", MAX_NAME)?);
        }
        let secret = fields.flag("who has a secret")?;
        let (master_key, sign_key) = (fields.bytes("a fingerprint", 32)?, fields.bytes("a fingerprint", 32)?);
        let now = fields.number("a time")?;
        let version = fields.plain("a version", MAX_NAME)?;
        Ok(Hello {
            format,
            oldest_format,
            cluster_id,
            name,
            lane,
            boot,
            lost,
            knows_you,
            role,
            addresses,
            secret,
            master_key,
            sign_key,
            now,
            version,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub fn hello() -> Hello {
        Hello {
            format: FORMAT,
            oldest_format: OLDEST_FORMAT,
            cluster_id: "prod".into(),
            name: "m2".into(),
            lane: Lane::Bulk,
            boot: 7,
            lost: LinkNumber { boot: 8, number: 9 },
            knows_you: true,
            role: Role::Witness,
            addresses: vec!["10.0.0.2:4520".into()],
            secret: false,
            master_key: Bytes::from_static(&[1; 32]),
            sign_key: Bytes::new(),
            now: 1_577_836_800_000,
            version: "0.1.0".into(),
        }
    }

    fn report() -> SelfReport {
        let classes = Classes::without(&[Class::Data, Class::Keys]);
        let leases = Some(LeaseSource::JetStream);
        SelfReport { classes, minions: 4211, highest: 1 << 57, highest_of_peer: 3, compared: 1_577_836_800_000, leases }
    }

    fn all() -> Vec<Frame> {
        let decisions = vec![Bytes::from_static(b"one"), Bytes::from_static(b"two")];
        vec![
            Frame::Hello(hello()),
            Frame::Proof { how: How::SignKey, bytes: Bytes::from_static(&[2; 256]) },
            Frame::Welcome { number: 3, decisions, report: report() },
            Frame::Refused { reason: "because".into(), word: "clock".into() },
            Frame::Ping {
                number: 4,
                now: 5,
                linked: vec![Node([6; 8])],
                report: report(),
                steady: Some(7),
                answer: Some(Answer { number: 3, held: Duration::from_micros(499_999) }),
            },
            Frame::Ping { number: 4, now: 5, linked: vec![], report: report(), steady: Some(7), answer: None },
            Frame::Ping { number: 4, now: 5, linked: vec![], report: report(), steady: None, answer: None },
            Frame::Pong { number: 4 },
            Frame::Bye("stopping".into()),
            Frame::Message(Bytes::from(vec![9; share::message::MAX_MESSAGE])),
        ]
    }

    #[test]
    fn frames_come_back_as_they_were() {
        for frame in all() {
            let packed = frame.encode();
            assert!(packed.len() <= MAX_FRAME);
            assert_eq!(Frame::decode(&packed), Ok(Some(frame)));
        }
    }

    #[test]
    fn no_cut_or_changed_frame_panics() {
        for packed in all().iter().map(Frame::encode).filter(|packed| packed.len() < 1_000) {
            for place in 0..packed.len() {
                assert!(Frame::decode(&packed.slice(..place)).is_err());
                for byte in [0, 0x7f, 0xc0, 0xdd, 0xff] {
                    let mut changed = packed.to_vec();
                    changed[place] = byte;
                    if let Ok(Some(frame)) = Frame::decode(&changed.into()) {
                        assert!(matches!(Frame::decode(&frame.encode()), Ok(Some(same)) if same == frame));
                    }
                }
            }
        }
    }

    #[test]
    fn kinds_and_fields_of_later_versions_are_passed_over() {
        assert_eq!(Frame::decode(&packed(vec!["later".into(), number(1)])), Ok(None));
        let longer = packed(vec!["pong".into(), number(1), "later".into()]);
        assert_eq!(Frame::decode(&longer), Ok(Some(Frame::Pong { number: 1 })));
        let report_of = |leases: Vec<Value>| {
            let mut fields = vec![Value::List(vec![]), number(1), number(2), number(3), number(4)];
            fields.extend(leases);
            let ping = packed(vec!["ping".into(), number(1), number(2), Value::List(vec![]), Value::List(fields)]);
            let Ok(Some(Frame::Ping { report, .. })) = Frame::decode(&ping) else { panic!("a ping") };
            report.leases
        };
        assert_eq!(report_of(vec![]), None, "an earlier version");
        assert_eq!(report_of(vec![number(3), "later".into()]), Some(LeaseSource::Off));
        assert_eq!([0, 4, 99].map(|unknown| report_of(vec![number(unknown)])), [None; 3]);
        let crowd = (0..=MOST_MEMBERS as u64).map(|_| Value::Null).collect();
        let ping = |linked| packed(vec!["ping".into(), number(1), number(2), Value::List(linked), report().field()]);
        assert!(Frame::decode(&ping(vec![])).is_ok() && Frame::decode(&ping(crowd)).is_err());
    }

    #[test]
    fn a_welcome_always_fits_into_a_frame() {
        for (len, most) in [(MAX_PACKED, 12), (40, MOST_MEMBERS), (MAX_PACKED + 1, 0)] {
            let decisions = vec![Bytes::from(vec![0; len]); 1_000];
            let packed = Frame::Welcome { number: 1, decisions, report: report() }.encode();
            assert!(packed.len() <= MAX_FRAME);
            let Ok(Some(Frame::Welcome { decisions, .. })) = Frame::decode(&packed) else { panic!("it is read") };
            assert!(decisions.len() <= most && decisions.is_empty() == (most == 0), "{} of {len}", decisions.len());
        }
    }

    #[test]
    fn texts_that_would_change_a_terminal_are_refused() {
        for bad in ["m\u{1b}[2J2", "m2\n", "../m2", "", ".m2"] {
            let hello = Frame::Hello(Hello { name: bad.into(), ..hello() });
            assert!(Frame::decode(&hello.encode()).is_err(), "{bad:?}");
        }
        for bad in ["\u{1b}[2J", "a\nb"] {
            let hello = Frame::Hello(Hello { version: bad.into(), ..hello() }).encode();
            let refused = packed(vec!["refused".into(), bad.into(), "name".into()]);
            let bye = packed(vec!["bye".into(), bad.into()]);
            assert!([hello, refused, bye].iter().all(|frame| Frame::decode(frame).is_err()), "{bad:?}");
        }
    }

    #[test]
    fn reasons_are_written_as_they_are_read() {
        let reason = format!("a\n{}", "ä".repeat(MAX_REASON));
        let bye = Frame::decode(&Frame::Bye(reason).encode());
        assert!(matches!(bye, Ok(Some(Frame::Bye(reason))) if reason.starts_with("a ä") && reason.len() <= MAX_REASON));
    }
}

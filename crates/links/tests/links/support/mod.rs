//! Members on simulated hosts, and what they log.

pub mod puppet;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use bytes::Bytes;
use crypto::{MEMBER_KEY_LEN, MemberKey};
use rt::sim::Sim;
use saltern_links::{
    Credentials, HEARTBEAT, Links, Members, Newcomer, Options, Reports, Secret, SelfReport, Standing, Target,
};
use share::member::Role;
use share::{Incoming, Node};
use tokio::time::timeout;

pub const PORT: u16 = 4520;

/// The members of a set, as one of them knows them.
#[derive(Default)]
pub struct Known {
    members: Mutex<BTreeMap<Node, (String, Standing)>>,
    /// Members whose key is another one than a peer shows, although the node is the same: finding such a key takes years.
    pub other_keys: Mutex<BTreeSet<Node>>,
    pub learned: Mutex<Vec<Bytes>>,
    /// The addresses of the newcomer that joined last.
    pub addresses: Mutex<Vec<String>>,
    /// The names of newcomers that have begun to wait.
    pub waited: Mutex<Vec<String>>,
    pub report: Mutex<SelfReport>,
    /// Who said the time by which it goes.
    pub told_time: Mutex<Vec<Node>>,
    /// Who said what the wall clock of its host shows.
    pub told_wall: Mutex<BTreeSet<Node>>,
}

impl Known {
    pub fn set(&self, node: Node, name: &str, standing: Standing) {
        self.members.lock().unwrap().insert(node, (name.to_owned(), standing));
    }
}

impl Members for Known {
    fn standing(&self, node: Node) -> Standing {
        self.members.lock().unwrap().get(&node).map_or(Standing::Stranger, |known| known.1)
    }

    fn is_key_of(&self, node: Node, _key: &[u8; MEMBER_KEY_LEN]) -> bool {
        !self.other_keys.lock().unwrap().contains(&node)
    }

    fn named(&self, name: &str) -> Option<Node> {
        let members = self.members.lock().unwrap();
        members.iter().find(|(_, known)| known.0 == name && known.1 == Standing::Member).map(|(node, _)| *node)
    }

    fn admit(&self, newcomer: &Newcomer) -> Result<(), String> {
        self.set(newcomer.node, &newcomer.name, Standing::Member);
        *self.addresses.lock().unwrap() = newcomer.addresses.clone();
        Ok(())
    }

    fn decisions(&self) -> Vec<Bytes> {
        vec![Bytes::from_static(b"a decision")]
    }

    fn waits(&self, newcomer: &Newcomer) {
        self.waited.lock().unwrap().push(newcomer.name.clone());
    }

    fn heard_time(&self, node: Node, _: u64) {
        self.told_time.lock().unwrap().push(node);
    }

    fn heard_wall(&self, node: Node, _: u64) {
        self.told_wall.lock().unwrap().insert(node);
    }

    fn self_report(&self, _: Node) -> SelfReport {
        *self.report.lock().unwrap()
    }

    fn learn(&self, _from: Node, decisions: Vec<Bytes>) {
        self.learned.lock().unwrap().extend(decisions);
    }
}

/// The key of a member: the same one in each run.
pub fn key(number: u8) -> MemberKey {
    MemberKey::from_random([number; 32]).unwrap()
}

pub fn node(number: u8) -> Node {
    Node::of_key(&key(number).public())
}

pub fn options(number: u8) -> Options {
    Options {
        cluster_id: "prod".into(),
        name: format!("m{number}"),
        role: Role::Master,
        key: key(number),
        listen: format!("0.0.0.0:{PORT}").parse().unwrap(),
        addresses: vec![],
        credentials: Credentials::default(),
        heartbeat: HEARTBEAT,
        queue: 4 << 20,
    }
}

pub fn secret(text: &str) -> Credentials {
    Credentials { secret: Some(Secret::new(text)), ..Credentials::default() }
}

/// A running member.
pub struct Member {
    pub links: Links,
    pub reports: Reports,
    pub known: Arc<Known>,
}

impl Member {
    /// Starts a member on its host, `m1` and so on.
    pub async fn start(sim: &Sim, options: Options, known: Arc<Known>) -> Member {
        let rt = sim.rt(&options.name);
        let (links, reports) = Links::start(rt, options, known.clone()).await.unwrap();
        Member { links, reports, known }
    }

    pub fn dial(&self, hosts: &[&str]) {
        let targets: Vec<Target> = hosts.iter().map(|host| Target::named(*host)).collect();
        self.links.set_addresses(&targets);
    }

    /// Returns the next report but for those about others' links; `None` if none comes in 20 seconds.
    pub async fn next(&mut self) -> Option<Incoming> {
        let next = async {
            loop {
                match self.reports.next().await {
                    Incoming::Linked(..) => {}
                    report => return report,
                }
            }
        };
        timeout(Duration::from_secs(20), next).await.ok()
    }

    /// Returns why the only other member or address that is known is not linked.
    pub fn reason(&self) -> String {
        let status = self.links.status();
        assert_eq!(status.len(), 1, "{status:?}");
        status[0].reason.clone().expect("it is not linked")
    }

    pub async fn wait_up(&mut self, other: u8) {
        assert_eq!(self.next().await, Some(Incoming::Up(node(other))));
    }
}

/// Members that know each other: all but `strangers` of them.
pub fn acquainted(numbers: &[u8]) -> Arc<Known> {
    let known = Known::default();
    numbers.iter().for_each(|number| known.set(node(*number), &format!("m{number}"), Standing::Member));
    Arc::new(known)
}

/// Two members that know each other, are linked and dial each other.
pub async fn pair(sim: &Sim) -> (Member, Member) {
    sim.add_host("m1");
    sim.add_host("m2");
    let mut one = Member::start(sim, options(1), acquainted(&[1, 2])).await;
    let mut two = Member::start(sim, options(2), acquainted(&[1, 2])).await;
    one.dial(&["m2"]);
    two.dial(&["m1"]);
    one.wait_up(2).await;
    two.wait_up(1).await;
    (one, two)
}

thread_local! {
    /// Where lines of this thread go.
    static SINK: RefCell<Option<Arc<Mutex<Vec<u8>>>>> = const { RefCell::new(None) };
}

/// Everything that is logged on this thread at level `warn` while it lives.
pub struct Log(Arc<Mutex<Vec<u8>>>);

struct Sink;

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        SINK.with_borrow(|sink| sink.iter().for_each(|text| text.lock().unwrap().extend_from_slice(bytes)));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    pub fn start() -> Log {
        // One subscriber for the whole process: with one for each thread, a line is lost when another thread begins or ends
        // its own at that moment.
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            tracing_subscriber::fmt()
                .with_ansi(false)
                .with_max_level(tracing::Level::WARN)
                .with_writer(|| Sink)
                .try_init()
                .expect("there is no other subscriber");
        });
        let text = Arc::new(Mutex::new(Vec::new()));
        SINK.set(Some(text.clone()));
        Log(text)
    }

    /// Returns how many lines have these words.
    pub fn count(&self, words: &str) -> usize {
        let text = self.0.lock().unwrap();
        String::from_utf8_lossy(&text).lines().filter(|line| line.contains(words)).count()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        SINK.set(None);
    }
}

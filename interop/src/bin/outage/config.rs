//! The options of masters and minions.

use anyhow::Result;
use interop::{Settings, Transport};
use serde_json::json;

use crate::cluster::{MASTERS, Node};
use crate::lab::Host;

/// How the masters belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// They know nothing of each other, and each minion follows all of them.
    Hot,
    /// They are one set, and each minion follows one of them at a time.
    Set {
        /// The last one is a witness.
        witness: bool,
        /// What takes their messages to each other.
        carrier: Carrier,
    },
}

/// What takes the messages of the masters of a set to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Links between each two of them.
    Links,
    /// Three NATS servers.
    Nats,
    /// The same, which keep leases, too.
    JetStream,
}

impl Carrier {
    /// All carriers.
    pub const ALL: [Carrier; 3] = [Carrier::Links, Carrier::Nats, Carrier::JetStream];

    /// Returns the name in the table and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Carrier::Links => "links",
            Carrier::Nats => "nats",
            Carrier::JetStream => "jetstream",
        }
    }
}

/// The port of NATS servers.
pub const BUS_PORT: u16 = 4222;

impl Shape {
    /// Returns how many masters serve minions. They are the first ones.
    pub fn serving(self) -> usize {
        match self {
            Shape::Set { witness: true, .. } => MASTERS - 1,
            Shape::Hot | Shape::Set { witness: false, .. } => MASTERS,
        }
    }
}

/// Writes the options of a master.
pub fn master(all: &[Node], number: usize, transport: Transport, shape: Shape) -> Result<()> {
    let node = &all[number];
    let mut settings = common(node, transport);
    settings.set("interface", "0.0.0.0").set("auto_accept", true).set("worker_threads", 3).set("timeout", 5);
    settings.set("file_roots", json!({"base": [node.root.join("srv/salt").display().to_string()]}));
    settings.set("pillar_roots", json!({"base": [node.root.join("srv/pillar").display().to_string()]}));
    if let Shape::Set { witness, carrier } = shape {
        let peers = all.iter().filter(|other| other.host.name != node.host.name).map(|other| other.host.name.as_str());
        settings.set("id", node.host.name.as_str()).set("cluster_id", "outage");
        match carrier {
            Carrier::Links => settings.set("cluster_peers", peers.collect::<Vec<_>>()),
            Carrier::Nats | Carrier::JetStream => {
                let servers = all[..MASTERS].iter().map(|node| format!("nats://{}:{BUS_PORT}", node.host.name));
                settings.set("cluster_bus", servers.collect::<Vec<_>>())
            }
        };
        settings.set("cluster_secret", "5b0f9a2c7e41d836a1f0c9b2e87d4365");
        match node.salt.is_ours() {
            true => settings.set("schedule", beats()),
            // Each master of a cluster of Salt runs its own schedule; three processes of Python every two seconds leave no time
            // for anything else.
            false => of_salt(&mut settings, all, node),
        };
        if witness && number + 1 == MASTERS {
            settings.set("cluster_role", "witness");
        }
    }
    settings.write(&node.root.join("conf/master"))
}

/// Adds what masters of Salt need to be one cluster: one file system, and `interface` as the name of each in `cluster_peers` and in
/// the log of its Raft. With `0.0.0.0` there, all have one name, nobody becomes the leader, and they refuse every request.
fn of_salt<'a>(settings: &'a mut Settings, all: &[Node], node: &Node) -> &'a mut Settings {
    let shared = |name: &str| node.root.with_file_name("shared").join(name).display().to_string();
    settings.set("cluster_pki_dir", shared("pki")).set("cachedir", shared("cache"));
    // Salt puts `root_dir` before all directories that are outside of it.
    let root = node.root.parent().unwrap_or(&node.root);
    settings.set("root_dir", root.display().to_string());
    let address = |node: &Node| node.host.address.to_string();
    let peers = all.iter().filter(|other| other.host.name != node.host.name).map(address);
    settings.set("cluster_peers", peers.collect::<Vec<_>>());
    settings.set("interface", address(node)).set("id", address(node))
}

/// An entry of the schedule that notes when and on which master it ran. Programs with another time than the machine share the
/// uptime with it.
fn beats() -> serde_json::Value {
    let note = "echo $(cut -d' ' -f1 /proc/uptime) $(basename $LAB_ROOT) >> $LAB_ROOT/../beats";
    json!({"beat": {"function": "salt.cmd", "args": ["cmd.shell", note], "seconds": 2}})
}

/// Writes the options of a minion.
pub fn minion(node: &Node, number: usize, transport: Transport, masters: &[Host], shape: Shape) -> Result<()> {
    let mut settings = common(node, transport);
    let mut names: Vec<&str> = masters.iter().map(|host| host.name.as_str()).collect();
    if shape != Shape::Hot {
        // Each master has some of the minions, and each minion has somewhere to go.
        names.rotate_left(number % masters.len());
        settings.set("master_type", "failover").set("master_alive_interval", 5);
    } else if !node.salt.is_ours() {
        // Only with this option does a real minion check its connections.
        settings.set("master_alive_interval", 5);
    }
    // Names and not addresses, since some faults change what a name resolves to.
    settings.set("id", node.host.name.as_str()).set("master", names).set("retry_dns", 1);
    settings.write(&node.root.join("conf/minion"))
}

fn common(node: &Node, transport: Transport) -> Settings {
    let mut settings = Settings::default();
    let path = |name: &str| node.root.join(name).display().to_string();
    settings.set("root_dir", path("")).set("pki_dir", path("pki")).set("cachedir", path("cache"));
    settings.set("sock_dir", path("run")).set("log_file", path("log")).set("log_level_logfile", "info");
    settings.set("pidfile", path("pid")).set("transport", transport.name()).set("user", "root");
    settings
}

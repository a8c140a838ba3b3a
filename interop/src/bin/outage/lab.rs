//! Hosts: network namespaces that reach each other only through this process, which drops and delays packets.
//!
//! Each namespace has a TUN device. One thread per device reads its packets and writes them to the device of the
//! addressee. So faults need neither netfilter nor netem, and packets vanish without an error, as on a cut cable.

use std::collections::{BinaryHeap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nix::libc;
use nix::sched::{CloneFlags, setns};

/// The state of one direction of a host's link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Way {
    /// The share of lost packets, from 0 to 1.
    pub loss: f64,
    /// The delay of the other packets.
    pub delay: Duration,
}

impl Way {
    /// All packets are lost.
    pub const CUT: Way = Way { loss: 1.0, delay: Duration::ZERO };
}

/// Both directions of a host.
#[derive(Clone, Copy, Debug, Default)]
struct Ways {
    to: Way,
    from: Way,
}

/// A host of the lab.
#[derive(Clone, Debug)]
pub struct Host {
    /// Its name, which the others resolve.
    pub name: String,
    /// Its address.
    pub address: Ipv4Addr,
    space: String,
}

/// All hosts and the network between them.
pub struct Lab {
    hosts: Vec<Host>,
    ways: Arc<RwLock<HashMap<Ipv4Addr, Ways>>>,
    pairs: Arc<RwLock<HashMap<(Ipv4Addr, Ipv4Addr), Way>>>,
    devices: Arc<RwLock<HashMap<Ipv4Addr, Arc<Mutex<File>>>>>,
    later: mpsc::Sender<Delayed>,
    run: u32,
}

/// A packet that is delayed by a slow link.
struct Delayed {
    at: Instant,
    to: Ipv4Addr,
    packet: Vec<u8>,
}

impl Lab {
    /// An empty lab.
    pub fn new() -> Self {
        let devices: Arc<RwLock<HashMap<Ipv4Addr, Arc<Mutex<File>>>>> = Arc::default();
        let (later, waiting) = mpsc::channel();
        let slow = Arc::clone(&devices);
        std::thread::spawn(move || deliver_late(&waiting, &slow));
        Lab { hosts: Vec::new(), ways: Arc::default(), pairs: Arc::default(), devices, later, run: std::process::id() }
    }

    /// Adds a host.
    pub fn host(&mut self, name: &str) -> Result<Host> {
        let number = u8::try_from(self.hosts.len() + 1).context("too many hosts")?;
        let space = format!("so{}-{name}", self.run);
        let host = Host { name: name.to_owned(), address: Ipv4Addr::new(10, 77, 0, number), space };
        ip(&["netns", "add", &host.space])?;
        self.hosts.push(host.clone());
        let device = open_tun(&host.space)?;
        let address = format!("{}/24", host.address);
        ip(&["-n", &host.space, "link", "set", "lo", "up"])?;
        ip(&["-n", &host.space, "addr", "add", &address, "dev", "tun0"])?;
        ip(&["-n", &host.space, "link", "set", "tun0", "up"])?;
        let reader = device.try_clone().context("failed to share a device")?;
        self.devices.write().unwrap_or_else(PoisonError::into_inner).insert(host.address, Arc::new(Mutex::new(device)));
        let (ways, pairs) = (self.ways.clone(), self.pairs.clone());
        let switch = Switch { ways, pairs, devices: self.devices.clone(), later: self.later.clone() };
        std::thread::spawn(move || switch.forward(reader));
        Ok(host)
    }

    /// Makes these names resolvable on every host.
    pub fn names(&self, names: &[(&str, Ipv4Addr)]) -> Result<()> {
        let lines: String = names.iter().map(|(name, address)| format!("{address} {name}\n")).collect();
        for host in &self.hosts {
            let dir = netns_dir(host);
            fs::create_dir_all(&dir).with_context(|| format!("failed to create {}", dir.display()))?;
            // Written in place: `ip netns exec` bind-mounted these files for the running programs, which would not see
            // a new file.
            fs::write(dir.join("hosts"), format!("127.0.0.1 localhost\n{} {}\n{lines}", host.address, host.name))?;
            // No name server listens there: an unknown name must fail at once, and never reach the real network.
            fs::write(dir.join("resolv.conf"), "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")?;
        }
        Ok(())
    }

    /// Sets both directions of a host's link.
    pub fn set(&self, host: &Host, to: Way, from: Way) {
        self.ways.write().unwrap_or_else(PoisonError::into_inner).insert(host.address, Ways { to, from });
    }

    /// Sets what happens to packets from one host to another, whatever happens to those of other pairs.
    pub fn set_between(&self, from: &Host, to: &Host, way: Way) {
        self.pairs.write().unwrap_or_else(PoisonError::into_inner).insert((from.address, to.address), way);
    }

    /// Returns a command that runs on a host.
    pub fn command(&self, host: &Host, program: &std::path::Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &host.space]).arg(program);
        command
    }

    /// Takes the host's network card up or down.
    pub fn link(&self, host: &Host, up: bool) -> Result<()> {
        ip(&["-n", &host.space, "link", "set", "tun0", if up { "up" } else { "down" }])
    }

    /// Adds an address to a host.
    pub fn add_address(&self, host: &Host, address: Ipv4Addr) -> Result<()> {
        ip(&["-n", &host.space, "addr", "replace", &format!("{address}/24"), "dev", "tun0"])?;
        let mut devices = self.devices.write().unwrap_or_else(PoisonError::into_inner);
        let device = devices.get(&host.address).cloned().context("an unknown host")?;
        devices.insert(address, device);
        Ok(())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for host in &self.hosts {
            let _ = ip(&["netns", "del", &host.space]);
            let _ = fs::remove_dir_all(netns_dir(host));
        }
    }
}

fn netns_dir(host: &Host) -> PathBuf {
    PathBuf::from("/etc/netns").join(&host.space)
}

/// The switch, as used by the thread of one host.
struct Switch {
    ways: Arc<RwLock<HashMap<Ipv4Addr, Ways>>>,
    pairs: Arc<RwLock<HashMap<(Ipv4Addr, Ipv4Addr), Way>>>,
    devices: Arc<RwLock<HashMap<Ipv4Addr, Arc<Mutex<File>>>>>,
    later: mpsc::Sender<Delayed>,
}

impl Switch {
    fn forward(&self, mut device: File) {
        let mut packet = vec![0; 65536];
        // Reading fails once the namespace is deleted.
        while let Ok(len) = device.read(&mut packet) {
            let Some((from, to)) = addresses(&packet[..len]) else { continue };
            let Some(delay) = self.judge(from, to) else { continue };
            match delay.is_zero() {
                true => pass(&self.devices, to, &packet[..len]),
                false => {
                    let delayed = Delayed { at: Instant::now() + delay, to, packet: packet[..len].to_vec() };
                    let _ = self.later.send(delayed);
                }
            }
        }
    }

    /// Returns the delay of a packet; `None` if it is lost.
    fn judge(&self, from: Ipv4Addr, to: Ipv4Addr) -> Option<Duration> {
        let ways = self.ways.read().unwrap_or_else(PoisonError::into_inner);
        let out = ways.get(&from).map(|ways| ways.from).unwrap_or_default();
        let into = ways.get(&to).map(|ways| ways.to).unwrap_or_default();
        let pairs = self.pairs.read().unwrap_or_else(PoisonError::into_inner);
        let between = pairs.get(&(from, to)).copied().unwrap_or_default();
        let lost = |way: Way| way.loss > 0.0 && rand::random::<f64>() < way.loss;
        (!lost(out) && !lost(into) && !lost(between)).then(|| out.delay + into.delay + between.delay)
    }
}

fn addresses(packet: &[u8]) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let address = |at: usize| Some(Ipv4Addr::from(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?));
    // IPv4 only: the kernel also sends IPv6 router solicitations through a new device.
    (packet.first()? >> 4 == 4).then_some(())?;
    Some((address(12)?, address(16)?))
}

fn pass(devices: &RwLock<HashMap<Ipv4Addr, Arc<Mutex<File>>>>, to: Ipv4Addr, packet: &[u8]) {
    let device = devices.read().unwrap_or_else(PoisonError::into_inner).get(&to).cloned();
    if let Some(device) = device {
        // Writing to an interface that is down fails, and the packet is lost as it should be.
        let _ = device.lock().unwrap_or_else(PoisonError::into_inner).write(packet);
    }
}

fn deliver_late(waiting: &mpsc::Receiver<Delayed>, devices: &RwLock<HashMap<Ipv4Addr, Arc<Mutex<File>>>>) {
    let mut heap = BinaryHeap::new();
    loop {
        let now = Instant::now();
        while heap.peek().is_some_and(|delayed: &Delayed| delayed.at <= now) {
            if let Some(delayed) = heap.pop() {
                pass(devices, delayed.to, &delayed.packet);
            }
        }
        let pause = heap.peek().map_or(Duration::from_secs(1), |delayed| delayed.at.saturating_duration_since(now));
        match waiting.recv_timeout(pause) {
            Ok(delayed) => heap.push(delayed),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl PartialEq for Delayed {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Delayed {}

impl PartialOrd for Delayed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Reversed, because `BinaryHeap` pops the greatest element.
impl Ord for Delayed {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.at.cmp(&self.at)
    }
}

fn ip(args: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(args).output().context("failed to start `ip`")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`ip {}` failed: {}", args.join(" "), said.trim());
    Ok(())
}

/// Opens a new TUN device in a namespace. A separate thread enters the namespace, so that this one stays in its own.
fn open_tun(space: &str) -> Result<File> {
    let path = format!("/var/run/netns/{space}");
    let opened = std::thread::spawn(move || -> Result<File> {
        let namespace = File::open(&path).with_context(|| format!("failed to open {path}"))?;
        setns(&namespace, CloneFlags::CLONE_NEWNET).context("failed to enter a network namespace")?;
        let device = OpenOptions::new().read(true).write(true).open("/dev/net/tun");
        let device = device.context("failed to open /dev/net/tun")?;
        name_tun(&device)?;
        Ok(device)
    });
    opened.join().map_err(|_| anyhow::anyhow!("a thread has panicked"))?
}

/// `struct ifreq`, as far as `TUNSETIFF` reads it.
#[repr(C)]
struct TunRequest {
    name: [u8; 16],
    flags: libc::c_short,
    rest: [u8; 22],
}

fn name_tun(device: &File) -> Result<()> {
    let mut request =
        TunRequest { name: [0; 16], flags: (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short, rest: [0; 22] };
    request.name[..4].copy_from_slice(b"tun0");
    #[expect(unsafe_code, reason = "there is no safe call for this request of the kernel")]
    // SAFETY: the request is as large as the kernel's and lives through the call.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &mut request) };
    nix::errno::Errno::result(result).context("failed to make a TUN device")?;
    Ok(())
}

//! Hostile peers at our master: they are refused, logged once, use no memory, and disturb no other peer.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use interop::{Checks, Master, Minion, Salt, Transport, measure, missing, scenario, until};
use serde_json::{Value, json};

/// The minion that must not be disturbed, and whose name strangers use.
const VICTIM: &str = "victim";
/// An accepted minion that misbehaves.
const MALLORY: &str = "mallory";
/// The number of bytes of memory that strangers may use together.
const ALLOWED: u64 = 64 << 20;
/// The number of connections that send nothing or only a part of the greeting.
const HALF_OPEN: usize = 5000;

#[test]
fn strangers_over_zeromq() {
    strangers(Transport::Zeromq);
}

#[test]
fn strangers_over_tcp() {
    strangers(Transport::Tcp);
}

/// An attack, with the check of the answers.
type Attack = fn(&mut Scene) -> Result<()>;

struct Scene {
    master: Master,
    victim: Minion,
    mallory: Minion,
    real: Salt,
}

fn strangers(transport: Transport) {
    if missing(&["3008.5"]) {
        return;
    }
    scenario(&format!("strangers over {}", transport.name()), |sandbox| {
        let ours = Salt::ours()?;
        let master = Master::build(&ours, "m").transport(transport).option("request_server_ttl", 3).start(sandbox)?;
        let victim = Minion::build(&ours, VICTIM).master(&master).start(sandbox)?;
        let mallory = Minion::build(&ours, MALLORY).master(&master).start(sandbox)?;
        master.accept(&[VICTIM, MALLORY])?;
        master.wait_answering(&[VICTIM, MALLORY])?;
        let real = Salt::real("3008.5").context("checked above")?;
        let mut scene = Scene { master, victim, mallory, real };
        let mut checks = Checks::new();
        let attacks: [(&str, Attack); 8] = [
            ("hostile ids", hostile_ids),
            ("wrong key", wrong_key),
            ("garbage", garbage),
            ("replayed request", replay),
            ("stolen token", stolen_token),
            ("2 GB length prefix", huge_prefix),
            ("slow and broken greetings", broken_greetings),
            ("half-open connections", half_open),
        ];
        for (name, attack) in attacks {
            checks.check(name, || undisturbed(&mut scene, attack));
        }
        checks.finish()
    });
}

/// Runs an attack, and checks the master's memory and the other minions.
fn undisturbed(scene: &mut Scene, attack: Attack) -> Result<()> {
    let pid = scene.master.daemon()?.pid();
    let before = measure::rss(pid)?;
    let outcome = attack(scene);
    ensure!(scene.master.daemon()?.alive(), "the master ended: {}", scene.master.printed());
    let after = measure::rss(pid)?;
    ensure!(after < before + ALLOWED, "the master grew from {} to {} MiB", before >> 20, after >> 20);
    let begin = Instant::now();
    ensure!(scene.master.ask(VICTIM, &["test.ping"])? == json!(true), "the victim does not answer");
    ensure!(begin.elapsed() < Duration::from_secs(5), "the victim took {:?} to answer", begin.elapsed());
    outcome
}

fn hostile_ids(scene: &mut Scene) -> Result<()> {
    let (root, log) = (scene.master.root().to_owned(), scene.master.log());
    let before = files(&root);
    let answers = attack(scene, "ids", &[])?;
    for (id, answer) in answers.as_object().context("a map")? {
        let refused = answer["ret"] == json!(false) || answer.is_string() || *answer == json!({});
        // Odd but harmless names may become pending keys, as with the real master.
        let pending = answer["ret"] == json!(true) && harmless(id);
        ensure!(refused || pending, "the id {id} got {answer}");
    }
    for path in files(&root).difference(&before) {
        ensure!(path.contains("/pki/minions_pre/") || path.ends_with(".log"), "the file {path} came to be");
    }
    let new = scene.master.log()[log.len()..].to_owned();
    let lines = new.lines().filter(|line| line.contains("../../etc/x")).count();
    // One line and no more: a stranger who can add lines to the log at will can fill the disk.
    ensure!(lines == 1, "{lines} lines on ../../etc/x in {new}");
    ensure!(!new.contains('\u{1b}') && !new.contains('\0'), "control characters reached the log: {new:?}");
    ensure!(new.lines().all(|line| line.len() < 1000), "a line of {:?} bytes", new.lines().map(str::len).max());
    Ok(())
}

/// Returns whether an id is a single path component, which the real master accepts as well.
fn harmless(repr: &str) -> bool {
    ["right", "zero", "bom", "line", "esc", "half", "'é"].iter().any(|name| repr.contains(name))
}

fn files(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut dirs = vec![root.parent().unwrap_or(root).to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                dirs.push(entry.path());
            }
            let path = entry.path().display().to_string();
            // Files of the minions and clients of this test do not count.
            if path.contains("/m/pki") || !path.contains("/m/") && !path.contains(VICTIM) && !path.contains(MALLORY) {
                found.insert(path);
            }
        }
    }
    found
}

fn wrong_key(scene: &mut Scene) -> Result<()> {
    let key = scene.master.pki().join("minions").join(VICTIM);
    let (before, log) = (fs::read(&key)?, scene.master.log());
    let answers = attack(scene, "wrong_key", &[VICTIM])?;
    for (what, answer) in answers.as_object().context("a map")? {
        ensure!(answer["ret"] == json!(false) || answer.is_string(), "{what} got {answer}");
    }
    ensure!(fs::read(&key)? == before, "the accepted key was changed");
    ensure!(scene.master.pki().join("minions_denied").join(VICTIM).exists(), "the denied key was not kept");
    let new = scene.master.log()[log.len()..].to_owned();
    ensure!(
        new.contains(VICTIM) && new.contains("did not match"),
        "expected a line on the key that did not match in {new}"
    );
    fs::remove_file(scene.master.pki().join("minions_denied").join(VICTIM)).context("failed to remove the denied key")
}

fn garbage(scene: &mut Scene) -> Result<()> {
    let answers = attack(scene, "garbage", &[])?;
    let text = answers.to_string();
    ensure!(!text.contains("\"jid\""), "something was published: {text}");
    for (what, answer) in answers.as_object().context("a map")? {
        let refused = answer.is_string()
            || *answer == json!({})
            || !answer["error"].is_null()
            || answer["load"]["error"].is_object();
        ensure!(refused, "{what} got {answer}");
    }
    Ok(())
}

fn replay(scene: &mut Scene) -> Result<()> {
    let pem = scene.mallory.root().join("pki/minion.pem").display().to_string();
    let log = scene.master.log().len();
    let answers = attack(scene, "replay", &[&pem, MALLORY, "4.5"])?;
    ensure!(answers["first"] == json!(true), "the request itself was refused: {answers}");
    // The answer must not differ from that to other refused requests: it would show an attacker that the request was
    // genuine.
    ensure!(answers["again"] == json!("bad load"), "the replayed request got {answers}");
    let new = scene.master.log()[log..].to_owned();
    let told =
        new.lines().filter(|line| line.contains(MALLORY) && line.contains("ERROR") || line.contains("WARN")).count();
    ensure!(told == 1, "{told} lines of warning in {new}");
    Ok(())
}

fn stolen_token(scene: &mut Scene) -> Result<()> {
    let jid = scene.master.send(&[VICTIM, "test.sleep", "3"])?;
    let pem = |minion: &Minion| minion.root().join("pki/minion.pem").display().to_string();
    let (own, victim) = (pem(&scene.mallory), pem(&scene.victim));
    let answers = attack(scene, "token", &[&own, MALLORY, &victim, VICTIM, &jid])?;
    for (what, answer) in answers.as_object().context("a map")?.iter().filter(|(what, _)| *what != "signed in") {
        ensure!(*answer == json!("bad load"), "{what} got {answer}");
    }
    let master = &scene.master;
    until("the victim's own return", Duration::from_secs(20), || {
        master.runner(&["jobs.lookup_jid", &jid]).is_ok_and(|found| found == json!({VICTIM: true}))
    })
}

/// Runs an attack of `stranger.py` and returns the answers.
fn attack(scene: &Scene, name: &str, args: &[&str]) -> Result<Value> {
    let mut all = vec![name];
    all.extend(args);
    scene.master.python(&scene.real, "stranger.py", &all)?.ok()?.json()
}

fn huge_prefix(scene: &mut Scene) -> Result<()> {
    let pid = scene.master.daemon()?.pid();
    let before = measure::rss(pid)?;
    let opening: Vec<u8> = match scene.master.transport() {
        Transport::Zeromq => {
            [zmtp_greeting(), zmtp_ready(), [&[0x02], (2u64 << 30).to_be_bytes().as_slice()].concat()].concat()
        }
        // A MessagePack map whose `body` is a binary of 2 GiB less a byte.
        Transport::Tcp => b"\x82\xa4head\x80\xa4body\xc6\x7f\xff\xff\xff".to_vec(),
    };
    for port in [4505, 4506] {
        let mut streams = Vec::new();
        for _ in 0..20 {
            let mut stream = connect(scene.master.address(), port)?;
            // The master may close as soon as it has read the length.
            let _ = stream.write_all(&opening).and_then(|()| stream.write_all(&[0; 65536]));
            streams.push(stream);
        }
        for stream in &mut streams {
            ensure!(closed(stream), "port {port}: a connection that announced 2 GB is still open");
        }
    }
    let after = measure::rss(pid)?;
    ensure!(after < before + (16 << 20), "the master grew from {} to {} MiB", before >> 20, after >> 20);
    Ok(())
}

fn broken_greetings(scene: &mut Scene) -> Result<()> {
    let (address, log) = (scene.master.address(), scene.master.log().len());
    let openings: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        &[0; 64],
        &[0xff; 64],
        b"SSH-2.0-x\r\n",
        b"\xc1\xc1\xc1\xc1",
    ];
    for opening in openings {
        for port in [4505, 4506] {
            let mut stream = connect(address, port)?;
            let _ = stream.write_all(opening);
            drop(stream);
        }
    }
    let new = scene.master.log()[log..].to_owned();
    ensure!(new.lines().count() <= 4 * openings.len(), "{} lines were logged: {new}", new.lines().count());
    Ok(())
}

fn half_open(scene: &mut Scene) -> Result<()> {
    let (address, log) = (scene.master.address(), scene.master.log().len());
    let greeting = zmtp_greeting();
    let mut streams = Vec::with_capacity(HALF_OPEN);
    for number in 0..HALF_OPEN {
        let stream = connect(address, if number % 2 == 0 { 4505 } else { 4506 });
        let mut stream = stream.with_context(|| format!("after {number} connections"))?;
        // A third says nothing, a third half a greeting, a third a whole one and then nothing.
        let part = [0, 10, greeting.len()][number % 3];
        let _ = stream.write_all(&greeting[..part]);
        streams.push(stream);
        if number % 1000 == 999 {
            ensure!(scene.master.ask(VICTIM, &["test.ping"])? == json!(true), "no answer beside {number} connections");
        }
    }
    let pid = scene.master.daemon()?.pid();
    println!("    {} MiB with {HALF_OPEN} half-open connections", measure::rss(pid)? >> 20);
    drop(streams);
    let new = scene.master.log()[log..].lines().count();
    ensure!(new <= HALF_OPEN + 200, "{new} lines were logged");
    Ok(())
}

fn connect(address: Ipv4Addr, port: u16) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&SocketAddr::from((address, port)), Duration::from_secs(5));
    stream.with_context(|| format!("failed to connect to {address}:{port}"))
}

/// Reads until the other side closes, for at most ten seconds.
fn closed(stream: &mut TcpStream) -> bool {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
    let mut buffer = [0; 1024];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => (),
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// ZMTP 3.0 greeting with the NULL mechanism.
fn zmtp_greeting() -> Vec<u8> {
    let mut greeting = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0];
    greeting.extend(b"NULL");
    greeting.resize(64, 0);
    greeting
}

/// The ZMTP READY command of a REQ socket.
fn zmtp_ready() -> Vec<u8> {
    let mut body = b"\x05READY\x0bSocket-Type".to_vec();
    body.extend([0, 0, 0, 3]);
    body.extend(b"REQ");
    [&[0x04, body.len() as u8], body.as_slice()].concat()
}

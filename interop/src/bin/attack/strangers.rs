//! Attacks of those who have no key.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{Master, Minion, until};
use serde_json::json;
use value::{Value, map};
use wire::envelope::Envelope;

use crate::between::Between;
use crate::scene::{MALLORY, Scene};
use crate::stranger::{SignIn, Stranger, ask, ask_clear};

/// The time for which the test waits for something that must not happen.
const NOT_TO_COME: Duration = Duration::from_secs(4);

/// The master signs what a stranger chose: a step towards a forged publication.
pub fn chosen_nonces(scene: &mut Scene<'_>) -> Result<String> {
    let stranger = scene.stranger("oracle")?;
    let chosen = ["", "x", &"a".repeat(33), &"g".repeat(32), &"\u{1f}".repeat(400), &"0".repeat(5000)];
    let odd = [Value::Int(7), Value::bytes(vec![0x81u8; 200]), Value::List(vec![Value::Int(1)]), Value::Map(map! {})];
    for nonce in chosen.into_iter().map(Value::from).chain(odd) {
        let mut load = stranger.sign_in_load();
        load.insert("nonce", nonce.clone());
        let shown: String = nonce.to_string().chars().take(40).collect();
        if let SignIn::Refused(answer) | SignIn::Unsigned(answer) = stranger.sign_in_with(load)? {
            ensure!(!answer.to_string().contains("sig"), "the nonce {shown:?} was signed: {answer}");
            ensure!(!answer.to_string().contains("nonce"), "the nonce {shown:?} came back signed: {answer}");
        }
    }
    let honest = stranger.sign_in_with(stranger.sign_in_load())?;
    ensure!(matches!(honest, SignIn::Refused(_)), "an honest nonce was not answered");
    Ok("10 odd nonces unsigned, an honest one signed".to_owned())
}

/// Weak keys ask to be accepted.
pub fn weak_keys(scene: &mut Scene<'_>) -> Result<String> {
    for bits in [1024, 1536] {
        let id = format!("weak-{bits}");
        let key = crypto::PrivateKey::generate(bits)?;
        let stranger = Stranger { master: scene.master.address(), id: id.clone(), key };
        let _ = ask_clear(stranger.master, stranger.sign_in_load())?;
        let path = scene.master.pki().join("minions_pre").join(&id);
        ensure!(!path.exists(), "a key of {bits} bits waits to be accepted");
    }
    Ok("keys of 1,024 and 1,536 bits refused".to_owned())
}

/// Bytes of strangers in the log: line breaks, escape characters, megabytes.
pub fn log_of_strangers(scene: &mut Scene<'_>) -> Result<String> {
    // A master that logs everything.
    let mut master = Master::build(&scene.ours, "chatty").option("log_level_logfile", "all").start(scene.sandbox)?;
    let hostile = [
        "line\n2026-01-01 00:00:00,000 [salt.master      ][INFO    ][1] forged",
        "esc\u{1b}[2J\u{1b}]0;x\u{7}",
        "c1\u{9b}2J",
        "bidi\u{202e}txt",
        &"long".repeat(50_000),
    ];
    let address = master.address();
    for text in hostile {
        let _ = ask_clear(address, map! { "cmd" => text });
        let _ = ask_clear(
            address,
            map! { "cmd" => "publish", "user" => text, "key" => text, "fun" => text, "tgt" => text },
        );
        let _ = ask_clear(address, map! { "cmd" => "runner", "fun" => text, "user" => text, "eauth" => text });
        let _ =
            ask(address, &Envelope::clear(map! { "cmd" => "_auth", "id" => text, "pub" => text, "enc_algo" => text }));
        let stranger = Stranger { id: text.to_owned(), ..Stranger::new(address, "x")? };
        let _ = ask_clear(address, stranger.sign_in_load());
    }
    let insider = Stranger::new(address, "accepted")?;
    std::fs::write(master.pki().join("minions/accepted"), insider.key.public().to_pem())?;
    until("the key to be known", Duration::from_secs(10), || insider.sign_in().is_ok())?;
    let (session, _) = insider.sign_in()?;
    for text in hostile {
        let _ = insider.ask(&session, map! { "cmd" => text });
        let load = map! { "cmd" => "_return", "jid" => text, "fun" => text, "return" => text };
        let _ = insider.ask(&session, load);
        let load = map! { "cmd" => "_minion_event", "tag" => text, "data" => map! { text => text } };
        let _ = insider.ask(&session, load);
    }
    master.daemon()?.kill();
    let new = master.log();
    let bad = new.chars().find(|char| (char.is_control() && *char != '\n') || ('\u{202a}'..='\u{202e}').contains(char));
    ensure!(bad.is_none(), "the character {bad:?} reached the log");
    ensure!(!new.lines().any(|line| line.starts_with("2026-01-01")), "a forged line stands in the log");
    let longest = new.lines().map(str::len).max().unwrap_or_default();
    ensure!(longest < 4096, "a line of {longest} bytes stands in the log");
    Ok(format!("no control character, longest line {longest} bytes"))
}

/// One minion's key and a place on the path to another: a command in the master's name.
pub fn forged_publication(scene: &mut Scene<'_>) -> Result<String> {
    let (between, mut minion) = behind(scene, "behind-pub")?;
    let trophy = scene.trophy("publication");
    let (_, aes) = scene.insider()?.sign_in()?;
    let publication = map! {
        "jid" => "20990101000000000001", "fun" => "file.touch", "arg" => vec![Value::from(trophy.display().to_string())],
        "tgt" => "*", "tgt_type" => "glob", "ret" => "", "user" => "root",
    };
    let message = map! { "enc" => "aes", "load" => aes.seal(&publication.into(), None) };
    between.inject(&wire::msgpack::pack(&message.into(), wire::msgpack::Packing::Wire));
    let came = until("the forged command", NOT_TO_COME, || trophy.exists()).is_ok();
    ensure!(!came, "the minion did what nobody but mallory asked");
    scene.master.wait_answering(&["behind-pub"])?;
    minion.daemon()?.kill();
    Ok("not obeyed, the minion goes on answering".to_owned())
}

/// An attacker on the network path records a publication and replays it after the minion has restarted.
pub fn recorded_publication(scene: &mut Scene<'_>) -> Result<String> {
    let (between, mut minion) = behind(scene, "behind-rec")?;
    let trophy = scene.trophy("recorded");
    let times = || std::fs::read_to_string(&trophy).unwrap_or_default().lines().count();
    between.take_published();
    let jid = scene.master.send(&["behind-rec", "cmd.run", &format!("echo once >> {}", trophy.display())])?;
    // Without its return, the master would offer the job again to a minion that does not know its id.
    let returned =
        || scene.master.runner(&["jobs.lookup_jid", &jid]).is_ok_and(|found| found == json!({"behind-rec": ""}));
    until("the return of the command", Duration::from_secs(20), returned)?;
    ensure!(times() == 1, "the command ran {} times", times());
    let recorded = between.take_published();
    minion.daemon()?.kill();
    forget_job_ids(&minion)?;
    let before = minion.log().len();
    minion.launch(scene.sandbox)?;
    scene.master.wait_answering(&["behind-rec"])?;
    between.repeat(&recorded);
    let refused = || minion.log()[before..].contains("dropped as a replay");
    until("the refusal of the recorded command", Duration::from_secs(20), refused)?;
    scene.master.wait_answering(&["behind-rec"])?;
    ensure!(times() == 1, "a recorded command ran again");
    minion.daemon()?.kill();
    Ok("refused by its serial number, the minion goes on answering".to_owned())
}

/// Removes the job ids that a minion remembers, as if ten minutes and a hundred jobs had passed.
fn forget_job_ids(minion: &Minion) -> Result<()> {
    let path = minion.root().join("cache/saltern/jids");
    let text = std::fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
    let serials: String = text.split_inclusive('\n').filter(|line| line.starts_with("serial ")).collect();
    ensure!(!serials.is_empty() && serials.len() < text.len(), "{} has {text:?}", path.display());
    Ok(std::fs::write(&path, serials)?)
}

/// A place on the path swallows returns and answers that they arrived.
pub fn forged_receipts(scene: &mut Scene<'_>) -> Result<String> {
    let (between, mut minion) = behind(scene, "behind-req")?;
    let jid = scene.master.send(&["behind-req", "test.echo", "kept"])?;
    let arrived = |jid: &str| {
        scene.master.runner(&["jobs.lookup_jid", jid]).is_ok_and(|found| found == json!({"behind-req": "kept"}))
    };
    until("an undisturbed return", Duration::from_secs(20), || arrived(&jid))?;
    // Connections that are open already are passed on; the minion opens new ones after a cut.
    let before = minion.log().len();
    let jid = scene.master.send(&["behind-req", "cmd.run", "sleep 2; echo kept"])?;
    between.swallow(true);
    between.cut_requests();
    std::thread::sleep(Duration::from_secs(6));
    between.swallow(false);
    between.cut_requests();
    let came = until("the return that was swallowed", Duration::from_secs(90), || arrived(&jid));
    ensure!(came.is_ok(), "the return is lost; the minion said: {}", &minion.log()[before..]);
    minion.daemon()?.kill();
    Ok("kept in the spool and delivered once the path was honest".to_owned())
}

/// A minion whose way to the master leads over the attacker.
fn behind(scene: &Scene<'_>, id: &str) -> Result<(Between, Minion)> {
    let address = scene.sandbox.address(&[4505, 4506]);
    let between = Between::open(address, scene.master.address())?;
    let minion = Minion::build(&scene.ours, id).option("master", address.to_string()).start(scene.sandbox)?;
    scene.master.accept(&[id])?;
    scene.master.wait_answering(&[id])?;
    Ok((between, minion))
}

/// Requests without any credentials that ask for something.
pub fn requests_without_credentials(scene: &mut Scene<'_>) -> Result<String> {
    let address = scene.master.address();
    let trophy = scene.trophy("stranger").display().to_string();
    let loads = [
        map! { "cmd" => "publish", "fun" => "file.touch", "arg" => vec![Value::from(trophy.as_str())], "tgt" => "*" },
        map! { "cmd" => "runner", "fun" => "jobs.list_jobs" },
        map! { "cmd" => "wheel", "fun" => "key.list_all" },
        map! { "cmd" => "mk_token", "eauth" => "pam", "username" => "root", "password" => "" },
        map! { "cmd" => "get_token", "token" => "../../etc/passwd" },
        map! { "cmd" => "saltern_alive" },
        map! { "cmd" => "saltern_held" },
        map! { "cmd" => "saltern_job", "jid" => "20990101000000000001" },
        map! { "cmd" => "saltern_drop", "jid" => "20990101000000000001" },
        map! { "cmd" => "saltern_status" },
        map! { "cmd" => "_return", "id" => MALLORY, "jid" => "1", "return" => "forged" },
        map! { "cmd" => "_pillar", "id" => MALLORY },
    ];
    for load in loads {
        let cmd = load.get_str("cmd").unwrap_or_default().to_owned();
        let answer = ask_clear(address, load)?.to_string();
        ensure!(!answer.contains(MALLORY) && !answer.contains("\"jid\""), "{cmd} tells a stranger {answer}");
    }
    ensure!(!scene.trophy("stranger").exists(), "a stranger commanded a minion");
    Ok("12 requests told nothing".to_owned())
}

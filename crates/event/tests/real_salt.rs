//! The event bus shared with programs of the real Salt, of every line.
//!
//! `SALTERN_SALT_DIR` (by default `~/.cache/saltern/salt`) has a directory per release (`<release>/bin/python`). Without
//! one there is nothing to compare with, and the test says so; with `CI=true` that is a failure.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rt::Rt;
use saltern_event::{Bus, DEFAULT_MAX_SIZE, Endpoints, Filter, Remote, ServeOptions, Subscription, serve};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use value::{Value, map};

const PATIENCE: Duration = Duration::from_secs(60);

/// The interpreters of all installed releases, with the name of the release.
fn releases() -> Vec<(String, PathBuf)> {
    let root = std::env::var_os("SALTERN_SALT_DIR").map(PathBuf::from).unwrap_or_else(|| {
        PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(".cache/saltern/salt")
    });
    let mut found: Vec<_> =
        std::fs::read_dir(&root).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    found.sort();
    let named = found.into_iter().map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), path));
    let installed = named.map(|(name, path)| (name, path.join("bin/python"))).filter(|(_, python)| python.exists());
    let installed: Vec<_> = installed.collect();
    if installed.is_empty() {
        let sentence = format!("no real Salt is installed below {}", root.display());
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{sentence}; `cargo xtask test` installs it");
        println!("skipped: {sentence}; `cargo xtask test` installs it");
    }
    installed
}

/// A Python program of a real release; it is killed at the end.
struct Program {
    _child: Child,
    output: Lines<BufReader<ChildStdout>>,
}

impl Program {
    fn start(python: &Path, script: &str, dir: &Path) -> Self {
        let prelude = format!(
            "import json, sys\nimport salt.config, salt.utils.event\n\
             opts = salt.config.master_config(None)\n\
             for name in ('root_dir', 'sock_dir', 'cachedir', 'pki_dir'):\n    opts[name] = {dir:?}\n"
        );
        let mut child = Command::new(python)
            .args(["-W", "ignore", "-c", &format!("{prelude}{script}")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Program { _child: child, output }
    }

    async fn line(&mut self) -> String {
        let line = tokio::time::timeout(PATIENCE, self.output.next_line()).await.expect("the program answers");
        line.unwrap().expect("the program has not ended")
    }
}

async fn next(events: &mut Subscription) -> saltern_event::Event {
    events.next_within(PATIENCE).await.expect("an event arrives")
}

#[tokio::test]
async fn programs_of_all_releases_listen_at_the_same_time() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::new(Rt::real(), DEFAULT_MAX_SIZE);
    let _server = serve(&bus, &Endpoints::master(dir.path()), ServeOptions::default()).await.unwrap();
    let script = "bus = salt.utils.event.get_event('master', opts=opts, listen=True)\n\
                  for _ in range(3):\n    \
                      event = bus.get_event(wait=60, tag='saltern/', full=True)\n    \
                      print(json.dumps([event['tag'], len(str(event['data']))]), flush=True)\n";
    let releases = releases();
    let mut programs: Vec<_> =
        releases.iter().map(|(name, python)| (name, Program::start(python, script, dir.path()))).collect();
    let all_there = async {
        while bus.subscribers() != programs.len() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, all_there).await.expect("all programs connect");
    for size in [10, 70_000, 1_000_000] {
        bus.fire("other/tag", map! { "passed" => "over" }).unwrap();
        bus.fire(format!("saltern/{size}"), map! { "x" => "y".repeat(size), "bytes" => Value::from(&b"\xff"[..]) })
            .unwrap();
    }
    for (name, program) in &mut programs {
        for size in [10, 70_000, 1_000_000] {
            let line = program.line().await;
            let length: usize = line.rsplit([' ', ']']).nth(1).unwrap().parse().unwrap();
            assert!(line.contains(&format!("saltern/{size}")) && length > size, "{name}: {line}");
        }
    }
}

#[tokio::test]
async fn programs_of_all_releases_send() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::new(Rt::real(), DEFAULT_MAX_SIZE);
    let _server = serve(&bus, &Endpoints::master(dir.path()), ServeOptions::default()).await.unwrap();
    let script = "bus = salt.utils.event.get_event('master', opts=opts, listen=False)\n\
                  for n in range(3):\n    bus.fire_event({'n': n, 'x': 'y' * 100000}, 'custom/%d' % n)\n\
                  print('sent', flush=True)\n";
    for (name, python) in releases() {
        let mut events = bus.subscribe(Filter::prefix("custom/"));
        let mut program = Program::start(&python, script, dir.path());
        for n in 0..3 {
            let event = next(&mut events).await;
            assert_eq!(event.tag(), format!("custom/{n}"), "{name}");
            assert_eq!(event.data().get("n"), Some(&n.into()), "{name}");
            assert_eq!(event.data().text_keys().last(), Some("_stamp"), "{name}");
        }
        assert_eq!(program.line().await, "sent");
    }
}

#[tokio::test]
async fn we_listen_and_send_on_the_bus_of_every_release() {
    for (name, python) in releases() {
        let dir = tempfile::tempdir().unwrap();
        let script = "import salt.channel.server\n\
                      channel = getattr(salt.channel.server, 'MasterPubServerChannel', None)\n\
                      print('starting', flush=True)\n\
                      if channel:\n    channel.factory(opts)._publish_daemon()\n\
                      else:\n    salt.utils.event.EventPublisher(opts).run()\n";
        let mut program = Program::start(&python, script, dir.path());
        program.line().await;
        let mut remote = Remote::new(Rt::real(), Endpoints::master(dir.path()));
        let mut listening = loop {
            match remote.listen(Filter::prefix("saltern/")).await {
                Ok(listening) => break listening,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        };
        // The publisher may need a short time to register the subscriber; an event fired too early is lost.
        let heard = async {
            loop {
                // It listens for subscribers before it listens for senders.
                if remote.fire("saltern/early", map! {}).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
                let waited = tokio::time::timeout(Duration::from_millis(200), listening.next()).await;
                if let Ok(event) = waited {
                    return event.unwrap();
                }
            }
        };
        tokio::time::timeout(PATIENCE, heard).await.unwrap_or_else(|_| panic!("{name} publishes nothing"));
        for size in [10, 70_000, 900_000] {
            remote.fire(format!("saltern/{size}"), map! { "x" => "y".repeat(size) }).await.unwrap();
        }
        for size in [10, 70_000, 900_000] {
            let event = loop {
                let event = tokio::time::timeout(PATIENCE, listening.next()).await.expect("an event").unwrap();
                if event.tag() != "saltern/early" {
                    break event;
                }
            };
            assert_eq!(event.tag(), format!("saltern/{size}"), "{name}");
            assert_eq!(event.data().get_str("x").unwrap().len(), size, "{name}");
        }
    }
}

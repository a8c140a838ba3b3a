//! A small package, an account, its crontab and its key, a service of an init script, a checkout and an archive, for
//! real: on a Debian machine, as root, and only on request: `cargo test -p saltern-states --test live_debian --
//! --ignored`. Everything is gone again at the end.

use std::sync::Arc;

use exec::testing::FakeAgent;
use exec::{Call, Context, Job, Registry};
use value::{Map, Value, list, map};

const PACKAGE: &str = "hello";
const USER: &str = "saltern-live";

fn machine(test: bool) -> Context {
    let opts = map! {
        "id" => "live", "file_client" => "local", "cachedir" => "/tmp", "enable_fqdns_grains" => false, "test" => test,
    };
    let grains = grains::collect(&opts);
    // Where systemd is installed and does not run, services would be left alone.
    let providers = map! { "service" => "debian_service" };
    let registry = Registry::limited(modules::ALL, &grains, exec::Limits::default(), &providers);
    let states = Registry::new(saltern_states::ALL, &grains);
    Context {
        opts: Arc::new(opts),
        grains: Arc::new(grains),
        pillar: Arc::new(Map::new()),
        job: Arc::new(Job::default()),
        agent: Arc::new(FakeAgent { registry, states, ..FakeAgent::default() }),
        memo: Arc::default(),
        state: None,
    }
}

/// Applies a state: what it would do, what it does, and that it has nothing to do afterwards.
fn applied(fun: &str, kwargs: Map) -> Value {
    let call = |ctx: Context| {
        let kwargs = kwargs.clone();
        ctx.call_state(fun, Call { args: Vec::new(), kwargs }).unwrap()
    };
    let would = call(machine(true));
    assert_eq!(would.get("result"), Some(&Value::Null), "{fun} {would:?}");
    let done = call(machine(false));
    assert_eq!(done.get("result"), Some(&Value::Bool(true)), "{fun} {done:?}");
    assert!(done.get("changes").unwrap().truthy(), "{fun} {done:?}");
    let again = call(machine(false));
    assert_eq!(again.get("result"), Some(&Value::Bool(true)), "{fun} {again:?}");
    assert!(!again.get("changes").unwrap().truthy(), "{fun} {again:?}");
    done
}

#[test]
#[ignore = "changes the machine: needs root and Debian"]
fn a_package_is_installed_and_purged() {
    let done = applied("pkg.installed", map! { "name" => PACKAGE });
    assert!(done.get("changes").unwrap().get(PACKAGE).is_some(), "{done:?}");
    applied("pkg.purged", map! { "name" => PACKAGE });
}

#[test]
#[ignore = "changes the machine: needs root and Debian"]
fn an_account_comes_and_goes() {
    applied("group.present", map! { "name" => "saltern-team" });
    let user =
        map! { "name" => USER, "shell" => "/bin/sh", "groups" => list!["saltern-team"], "fullname" => "Live Test" };
    applied("user.present", user);
    if modules::util::which("ssh").is_some() {
        let key = map! { "name" => "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAA live", "user" => USER };
        applied("ssh_auth.present", key.clone());
        applied("ssh_auth.absent", key);
    }
    if modules::util::which("crontab").is_some() {
        let job = map! { "name" => "/bin/true", "user" => USER, "minute" => "5" };
        applied("cron.present", job);
        applied("cron.absent", map! { "name" => "/bin/true", "user" => USER });
    }
    applied("user.absent", map! { "name" => USER, "purge" => true });
    applied("group.absent", map! { "name" => "saltern-team" });
}

#[test]
#[ignore = "changes the machine: needs root and Debian"]
fn a_checkout_and_an_archive_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let run = |script: &str| {
        let status = std::process::Command::new("sh").args(["-ec", script]).current_dir(folder.path()).status();
        assert!(status.unwrap().success(), "{script}");
    };
    run("git init --quiet source && cd source && echo one > file && git add file \
         && git -c user.name=T -c user.email=t@e commit --quiet -m one && cd .. \
         && mkdir app && echo two > app/file && tar -czf app.tar.gz app");
    applied("git.latest", map! { "name" => at("source"), "target" => at("checkout") });
    assert_eq!(std::fs::read_to_string(at("checkout/file")).unwrap(), "one\n");
    applied("archive.extracted", map! { "name" => at("out"), "source" => at("app.tar.gz") });
    assert_eq!(std::fs::read_to_string(at("out/app/file")).unwrap(), "two\n");
    for name in ["checkout", "out"] {
        applied("file.absent", map! { "name" => at(name) });
    }
}

/// An init script that notes whether it was started.
const INIT: &str = "#!/bin/sh
### BEGIN INIT INFO
# Provides: saltern-live
# Required-Start:
# Required-Stop:
# Default-Start: 2 3 4 5
# Default-Stop: 0 1 6
# Short-Description: a service for a test
### END INIT INFO
case $1 in
  start|restart) touch /run/saltern-live ;;
  stop) rm -f /run/saltern-live ;;
  status) test -e /run/saltern-live || exit 3 ;;
esac
";

#[test]
#[ignore = "changes the machine: needs root and Debian"]
fn a_service_of_an_init_script_comes_and_goes() {
    use std::os::unix::fs::PermissionsExt;
    if std::path::Path::new("/run/systemd/system").exists() || !std::path::Path::new("/etc/init.d").exists() {
        println!("skipped: services of this machine are not init scripts");
        return;
    }
    let script = "/etc/init.d/saltern-live";
    std::fs::write(script, INIT).unwrap();
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let service = map! { "name" => "saltern-live" };
    applied("service.running", service.clone());
    assert!(std::path::Path::new("/run/saltern-live").exists());
    applied("service.dead", service);
    assert!(!std::path::Path::new("/run/saltern-live").exists());
    std::fs::remove_file(script).unwrap();
}

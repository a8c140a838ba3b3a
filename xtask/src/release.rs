//! `cargo xtask release`: the optimised program, its code laid out in the order of use.
//!
//! A minion runs a tenth of the program's code, a function here and a function there, and the kernel also maps the code
//! around each: without an order most of the file ends up in memory. So the program is built, traced at its usual work
//! by callgrind, and linked once more with the functions that ran side by side (`--symbol-ordering-file` of the linker
//! lld, Rust's own on x86_64 Linux).

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use crate::packages;
use crate::run::{Failure, Step, cargo, optimised_program, target_dir};

/// The states of the usual work: files with and without templates, a command, requisites.
const STATES: &str = "\
{% for n in range(4) %}
{{ opts['root_dir'] }}/made/file{{ n }}:
  file.managed:
    - makedirs: True
    - source: salt://plain
    {%- if n % 2 %}
    - template: jinja
    - context: {n: {{ n }}}
    {%- endif %}
{% endfor %}
guarded:
  cmd.run:
    - name: echo done
    - unless: test -e /nowhere
    - onchanges:
      - file: {{ opts['root_dir'] }}/made/file1
";

/// The traced programs: a small call, a call of states, the daemons, commands.
const PROGRAMS: [&str; 7] = ["ping", "call", "minion", "master", "salt", "key", "api"];

/// What logs in at the traced salt-api.
const SECRET: &str = "only-for-this-run";

const UNSTRIPPED: &str = "profile.release.strip=\"none\"";

/// The time limit for the daemons to answer under callgrind, which makes them some fifty times slower.
const PATIENCE: Duration = Duration::from_secs(240);

/// Builds the program, watches it, and links it in the order of use. Elsewhere than on x86_64 Linux it is only built.
///
/// With `--portable` it runs with older C libraries than 2.36, too: a list of all addresses that the loader has to adapt is
/// twenty times as long then.
pub fn run(args: &[String]) -> Result<(), Failure> {
    let portable = match args {
        [] => !packages::glibc_is_at_least(2, 36),
        [flag] if flag == "--portable" => true,
        [other, ..] => return Err(Failure::new(format!("no such option of release: {other}"))),
    };
    packages::ensure(&[packages::BUILD, packages::CALLGRIND])?;
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return cargo(&["build", "--release", "--package", "saltern-cli"]).run();
    }
    link(&[])?;
    let work = target_dir().join("order");
    // Traces of an earlier build name functions that may be gone.
    let _ = fs::remove_dir_all(&work);
    Training::new(&work)?.run()?;
    let names = in_order(&used(&work)?).join("\n");
    // Named by its content: cargo links again when the flags change, and does not look into the file.
    let order =
        work.join(format!("order-{:016x}.txt", BuildHasherDefault::<DefaultHasher>::default().hash_one(&names)));
    fs::write(&order, names).map_err(|error| failed("write", &order, &error))?;
    let order = format!("link-arg=-Wl,--symbol-ordering-file={}", order.display());
    let mut flags =
        vec!["-C", &order, "-C", "link-arg=-Wl,--no-warn-symbol-ordering", "-C", "link-arg=-Wl,--strip-all"];
    if !portable {
        flags.extend(["-C", "link-arg=-Wl,-z,pack-relative-relocs"]);
    }
    link(&flags)
}

/// Builds with symbols, which the linker may strip: were that left to cargo, the names would differ from those watched.
fn link(flags: &[&str]) -> Result<(), Failure> {
    let build = ["rustc", "--release", "--package", "saltern-cli", "--bin", "saltern", "--config", UNSTRIPPED, "--"];
    cargo(&build).args(flags).run()
}

/// Reads which programs ran which functions out of what callgrind has written: a bit for each of [`PROGRAMS`].
fn used(work: &Path) -> Result<BTreeMap<String, u8>, Failure> {
    let mut names = BTreeMap::new();
    for (number, program) in PROGRAMS.iter().enumerate() {
        let path = work.join(format!("{program}.callgrind"));
        let text = fs::read(&path).map_err(|error| failed("read", &path, &error))?;
        for name in functions(&String::from_utf8_lossy(&text)) {
            *names.entry(name).or_default() |= 1 << number;
        }
    }
    // A linker that gets no names orders nothing and says nothing: that must not pass for a release.
    match names.len() {
        0..1000 => Err(Failure::new(format!("callgrind saw only {} functions of the program at work", names.len()))),
        _ => Ok(names),
    }
}

/// Places functions beside those that run in the same programs, beginning with those of the first program: each
/// program's part of the code is in few places then.
fn in_order(used: &BTreeMap<String, u8>) -> Vec<&str> {
    let mut names: Vec<(&str, u8)> = used.iter().map(|(name, programs)| (name.as_str(), *programs)).collect();
    // The lowest bit is the first of [`PROGRAMS`].
    names.sort_by_key(|(_, programs)| (programs.trailing_zeros(), Reverse(*programs)));
    names.into_iter().map(|(name, _)| name).collect()
}

/// Takes the names out of lines such as `fn=(12) _ZN4main17h0123456789abcdefE`; the name stands where a number comes first.
fn functions(text: &str) -> impl Iterator<Item = String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("fn=").or_else(|| line.strip_prefix("cfn=")));
    // Callgrind marks recursion and several functions of one name behind an apostrophe.
    lines.filter_map(|line| Some(line.split_once(") ")?.1.split('\'').next()?.to_owned()))
}

/// A master with a minion, salt-api and a small state tree.
struct Training {
    work: PathBuf,
    api_port: u16,
}

impl Training {
    fn new(work: &Path) -> Result<Self, Failure> {
        let user = Step::new("id").arg("-un").output().unwrap_or_default();
        // Free ports, because a real master may run on this machine.
        let (publish, requests, api_port) = (free_port()?, free_port()?, free_port()?);
        let root = work.display();
        let tree = work.join("states");
        fs::create_dir_all(&tree).map_err(|error| failed("make", &tree, &error))?;
        let common = format!("root_dir: {root}\nuser: {}\nfile_roots: {{base: [{}]}}\n", user.trim(), tree.display());
        let write =
            |path: PathBuf, text: String| fs::write(&path, text).map_err(|error| failed("write", &path, &error));
        write(tree.join("work.sls"), STATES.into())?;
        write(tree.join("plain"), "n: {{ n | default('none') }}\n".into())?;
        write(
            work.join("master"),
            format!(
                "{common}interface: 127.0.0.1\npublish_port: {publish}\nret_port: {requests}\nauto_accept: True\n\
                 sharedsecret: {SECRET}\nexternal_auth: {{sharedsecret: {{trainer: ['.*']}}}}\n\
                 netapi_enable_clients: [local]\n\
                 rest_cherrypy: {{host: 127.0.0.1, port: {api_port}, disable_ssl: True}}\n"
            ),
        )?;
        write(
            work.join("minion"),
            format!("{common}id: trained\nmaster: 127.0.0.1\npublish_port: {publish}\nmaster_port: {requests}\n"),
        )?;
        Ok(Training { work: work.to_owned(), api_port })
    }

    /// Runs the daemons and `salt-call` under callgrind.
    fn run(&self) -> Result<(), Failure> {
        self.watched("ping", "salt-call").args(["--local", "test.ping"]).run()?;
        self.watched("call", "salt-call").args(["--local", "state.apply", "work"]).run()?;
        let master = self.watched("master", "salt-master").background(&self.work.join("master.log"))?;
        let mut daemons = Daemons(vec![master]);
        daemons.0.push(self.watched("minion", "salt-minion").background(&self.work.join("minion.log"))?);
        let asked = Instant::now();
        // The answer itself waits for the daemons; there is nothing else to watch.
        while self.salt(&["test.ping"]).is_none_or(|answer| !answer.contains("true")) {
            if asked.elapsed() > PATIENCE {
                let logs = self.work.display();
                return Err(Failure::new(format!(
                    "the daemons did not answer under callgrind; their logs are in {logs}"
                )));
            }
        }
        for function in ["state.apply", "grains.items"] {
            let args: &[&str] = if function == "state.apply" { &[function, "work"] } else { &[function] };
            self.salt(args).ok_or_else(|| Failure::new(format!("{function} failed under callgrind")))?;
        }
        self.watched("salt", "salt").args(["-t", "60", "*", "test.ping"]).run()?;
        self.watched("key", "salt-key").arg("-L").run()?;
        daemons.0.push(self.watched("api", "salt-api").background(&self.work.join("api.log"))?);
        self.use_api()
    }

    /// Logs in at salt-api, and runs a command.
    fn use_api(&self) -> Result<(), Failure> {
        let login = format!("username=trainer&password={SECRET}&eauth=sharedsecret");
        let asked = Instant::now();
        let answer = loop {
            match self.post("/login", "", &login) {
                Ok(answer) => break answer,
                Err(_) if asked.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(100)),
                Err(error) => return Err(Failure::new(format!("salt-api did not answer under callgrind: {error}"))),
            }
        };
        let token = answer.split_once("\"token\": \"").and_then(|(_, rest)| rest.split_once('"'));
        let Some((token, _)) = token else { return Err(Failure::new(format!("no login at salt-api: {answer}"))) };
        let answer = self.post("/", token, "client=local&tgt=*&fun=test.ping&timeout=60").unwrap_or_default();
        match answer.contains("\"trained\": true") {
            true => Ok(()),
            false => Err(Failure::new(format!("no command through salt-api: {answer}"))),
        }
    }

    fn post(&self, path: &str, token: &str, form: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.api_port))?;
        write!(
            stream,
            "POST {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nAccept: application/json\r\nX-Auth-Token: {token}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
            form.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// A command under callgrind.
    fn watched(&self, name: &str, program: &str) -> Step {
        let out = self.work.join(format!("{name}.callgrind"));
        let out = format!("--callgrind-out-file={}", out.display());
        let step = Step::new("valgrind").args(["--quiet", "--tool=callgrind", "--demangle=no", &out]);
        step.arg(optimised_program()).args([program, "-c"]).arg(&self.work)
    }

    fn salt(&self, args: &[&str]) -> Option<String> {
        let step = Step::new(optimised_program()).args(["salt", "-c"]).arg(&self.work);
        step.args(["-t", "60", "--out=json", "*"]).args(args).output()
    }
}

/// Daemons that end, and with them what callgrind knows is written, when this goes.
struct Daemons(Vec<Child>);

impl Drop for Daemons {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // SIGTERM, not a kill: callgrind writes its file at the end.
            let _ = Step::new("kill").args(["-TERM", &child.id().to_string()]).output();
            let _ = child.wait();
        }
    }
}

fn free_port() -> Result<u16, Failure> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    free.map(|address| address.port()).map_err(|error| Failure::new(format!("no port is free on 127.0.0.1: {error}")))
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("failed to {what} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_taken_where_their_numbers_come_first() {
        let trace = "fl=(1)\nfn=(1) _ZN4main17h01E\n1 2\ncfn=(2) _RNvC3abc'2\ncalls=1 0\nfn=(1)\nfn=(3) memcpy\n";
        assert_eq!(super::functions(trace).collect::<Vec<_>>(), ["_ZN4main17h01E", "_RNvC3abc", "memcpy"]);
    }

    #[test]
    fn functions_stand_with_those_of_the_same_programs() {
        let used = [("a", 0b100), ("b", 0b1), ("c", 0b101), ("d", 0b1), ("e", 0b110)];
        let used = used.into_iter().map(|(name, programs)| (name.to_owned(), programs)).collect();
        assert_eq!(super::in_order(&used), ["c", "b", "d", "e", "a"]);
    }
}

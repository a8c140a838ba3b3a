//! Shell completion: candidates for the end of a command line.
//!
//! The shells call `saltern complete` at each Tab, so minions, node groups, functions and SLS files are up to date.
//! Anything that cannot be read, because it does not exist or belongs to root, is left out silently.

mod line;
mod places;
mod sources;

use std::collections::BTreeSet;
use std::process::ExitCode;

use crate::args::Program;
use crate::exit_codes;
use crate::terminal::print;

use places::Place;
use sources::Sources;

/// The output of `saltern completions --help`.
pub const HELP: &str = "\
Usage: saltern completions bash|zsh|fish

Prints a script that completes saltern, salt, salt-call, salt-cp, salt-key, salt-master, salt-minion and salt-run: flags,
minion ids, node groups, functions, keys, job ids and SLS files. To turn it on:

  saltern completions bash > /etc/bash_completion.d/salt
  saltern completions zsh > /usr/local/share/zsh/site-functions/_saltern
  saltern completions fish > /etc/fish/completions/saltern.fish

Options:
  -h, --help  print this help
";

/// A candidate for the last word.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// The whole word.
    pub word: String,
    /// A short description; may be empty.
    pub about: String,
}

impl Candidate {
    fn plain(word: impl Into<String>) -> Self {
        Candidate { word: word.into(), about: String::new() }
    }
}

/// The largest number of candidates. A shell asks before it lists that many.
const MOST: usize = 5_000;

/// Runs `saltern complete SHELL WORDS…` for the scripts: the last word is the one to complete. For bash it is the
/// line as typed.
pub fn main(words: &[String]) -> ExitCode {
    let Some((shell, rest)) = words.split_first() else { return ExitCode::from(exit_codes::USAGE) };
    let line = match shell.as_str() {
        // bash splits at `=` and `:` as well, so its script sends the line.
        "bash" => line::split(rest.first().map_or("", String::as_str)),
        _ => line::words(rest),
    };
    let mut out = String::new();
    for candidate in candidates(&line.words).into_iter().take(MOST) {
        out.push_str(&completion_line(shell, &candidate, &line));
        out.push('\n');
    }
    print(&out);
    ExitCode::SUCCESS
}

/// Returns the candidates for the last word.
fn candidates(words: &[String]) -> Vec<Candidate> {
    let Some(Place { program, typed, wants, config_dir }) = places::find(words) else { return Vec::new() };
    let sources = Sources::new(program, config_dir.as_deref());
    let found = places::candidates(wants, program, &typed, &sources);
    // A set: two sources may know the same name, and shells show the order they get.
    let found: BTreeSet<Candidate> = found.into_iter().filter(|found| found.word.starts_with(&typed)).collect();
    found.into_iter().collect()
}

fn completion_line(shell: &str, candidate: &Candidate, line: &line::Line) -> String {
    let (word, about) = (&candidate.word, candidate.about.trim_end_matches('.'));
    match shell {
        // bash replaces only what follows the last `=` or `:`.
        "bash" => word.get(line.kept.min(word.len())..).unwrap_or(word).to_owned(),
        // zsh takes the text after a colon for the description.
        "zsh" if about.is_empty() => word.replace(':', "\\:"),
        "zsh" => format!("{}:{about}", word.replace(':', "\\:")),
        _ if about.is_empty() => word.clone(),
        _ => format!("{word}\t{about}"),
    }
}

/// Returns the script for a shell; `None` for an unknown shell.
pub fn script(shell: &str) -> Option<String> {
    let text = match shell {
        "bash" => include_str!("saltern.bash"),
        "zsh" => include_str!("saltern.zsh"),
        "fish" => include_str!("saltern.fish"),
        _ => return None,
    };
    let names: Vec<&str> = std::iter::once("saltern").chain(Program::ALL.map(Program::name)).collect();
    // The scripts must work for a program that is not in the PATH.
    let program = std::env::current_exe().map_or("saltern".into(), |path| path.display().to_string());
    Some(text.replace("{names}", &names.join(" ")).replace("{program}", &program))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(directory: &std::path::Path, line: &str) -> Vec<String> {
        let line = line.replace("ETC", &directory.join("etc").display().to_string());
        candidates(&line::split(&line).words).into_iter().map(|it| it.word).collect()
    }

    fn master() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for path in ["etc", "pki/minions", "pki/minions_pre", "srv/web/nginx", "cache"] {
            std::fs::create_dir_all(root.join(path)).unwrap();
        }
        let config = format!(
            "root_dir: {root}\npki_dir: {root}/pki\ncachedir: {root}/cache\nfile_roots: {{base: [{root}/srv]}}\n\
             nodegroups: {{front: 'web*', back: 'db*'}}\n",
            root = root.display()
        );
        std::fs::write(root.join("etc/master"), config).unwrap();
        for id in ["pki/minions/web1", "pki/minions/web2", "pki/minions/db1", "pki/minions_pre/new1"] {
            std::fs::write(root.join(id), "").unwrap();
        }
        for sls in ["srv/top.sls", "srv/base.sls", "srv/web/init.sls", "srv/web/nginx/conf.sls", "srv/web/x.txt"] {
            std::fs::write(root.join(sls), "").unwrap();
        }
        directory
    }

    #[test]
    fn targets_are_minions_and_groups() {
        let directory = master();
        let at = |line: &str| at(directory.path(), line);
        assert_eq!(at("salt -c ETC web"), ["web1", "web2"]);
        assert_eq!(at("salt -c ETC 'w"), ["web1", "web2"]);
        assert_eq!(at("salt --config-dir=ETC -L db1,w"), ["db1,web1", "db1,web2"]);
        assert_eq!(at("salt -c ETC -N f"), ["front"]);
        assert_eq!(at("salt -c ETC -C 'web* and N@b"), ["web* and N@back"]);
        assert_eq!(at("salt-cp -c ETC d"), ["db1"]);
        assert_eq!(at("saltern salt -c ETC d"), ["db1"]);
    }

    #[test]
    fn functions_sls_files_and_arguments() {
        let directory = master();
        let at = |line: &str| at(directory.path(), line);
        assert_eq!(at("salt -c ETC '*' test.pi"), ["test.ping"]);
        assert!(at("salt -c ETC '*' tes").contains(&"test.ping".to_owned()));
        assert!(at("salt -c ETC '*' ").contains(&"cmd.".to_owned()));
        assert_eq!(at("salt -c ETC '*' state.apply w"), ["web", "web.nginx.conf"]);
        assert_eq!(at("salt -c ETC '*' state.apply base,web.n"), ["base,web.nginx.conf"]);
        assert!(at("salt -c ETC '*' state.single pkg.inst").contains(&"pkg.installed".to_owned()));
        assert_eq!(at("salt -c ETC '*' cmd.run id runa"), ["runas="]);
        assert_eq!(at("salt-run -c ETC jobs.lookup"), ["jobs.lookup_jid"]);
        assert_eq!(at("salt-run -c ETC state.orchestrate b"), ["base"]);
        assert_eq!(at("salt-call sys.doc test.pi"), ["test.ping"]);
    }

    #[test]
    fn sls_files_of_fetched_repositories_and_jobs() {
        let directory = master();
        let root = directory.path();
        let repository = root.join("repository");
        let git = |arguments: &[&str]| {
            let mut command = std::process::Command::new("git");
            command.arg("-C").arg(root).args(["-c", "user.name=T", "-c", "user.email=t@e"]).args(arguments);
            assert!(command.output().unwrap().status.success(), "{arguments:?}");
        };
        git(&["init", "--quiet", "--initial-branch=master", "repository"]);
        for (name, text) in [("top.sls", ""), ("shop/init.sls", ""), ("shop/till.sls", ""), ("shop/till.txt", "")] {
            std::fs::create_dir_all(repository.join(name).parent().unwrap()).unwrap();
            std::fs::write(repository.join(name), text).unwrap();
        }
        git(&["-C", "repository", "add", "."]);
        git(&["-C", "repository", "commit", "--quiet", "-m", "files"]);
        let config = std::fs::read_to_string(root.join("etc/master")).unwrap();
        let more = format!("fileserver_backend: [git, roots]\ngitfs_remotes: ['file://{}']\n", repository.display());
        std::fs::write(root.join("etc/master"), config + &more).unwrap();
        assert_eq!(at(root, "salt -c ETC '*' state.apply shop"), Vec::<String>::new(), "nothing is fetched yet");

        let source = config::Source { path: root.join("etc/master") };
        let master = config::Master::load(&source, &config::LoadOptions::default()).unwrap();
        let server = files::FileServer::new(&master.files, &master.raw, &master.paths.cachedir).unwrap();
        server.update(&server.all(), &[]).unwrap();
        assert_eq!(at(root, "salt -c ETC '*' state.apply shop"), ["shop", "shop.till"]);
        assert_eq!(at(root, "salt -c ETC '*' state.apply w"), ["web", "web.nginx.conf"]);

        let jobs = store::jobs::JobCache::new(&master.paths.cachedir, master.keys.hash_type.parse().unwrap());
        let load: value::Map = [("jid", "20260102030405060708"), ("fun", "test.ping")].into_iter().collect();
        jobs.prepare("20260102030405060708", false).unwrap();
        jobs.save_load("20260102030405060708", &load).unwrap();
        assert_eq!(at(root, "salt-run -c ETC jobs.lookup_jid 2026"), ["20260102030405060708"]);
        assert_eq!(at(root, "salt -c ETC '*' saltutil.find_job 2026"), ["20260102030405060708"]);
    }

    #[test]
    fn flags_their_values_and_keys() {
        let directory = master();
        let at = |line: &str| at(directory.path(), line);
        assert_eq!(at("salt --batch-sa"), ["--batch-safe-limit", "--batch-safe-size"]);
        assert_eq!(at("salt --out=js"), ["--out=json"]);
        assert_eq!(at("salt --out js"), ["json"]);
        assert_eq!(at("salt-key -c ETC -a "), ["new1"]);
        assert_eq!(at("salt-key -c ETC -d w"), ["web1", "web2"]);
        assert_eq!(at("salt-key -l p"), ["pre"]);
        assert_eq!(at("salt-master -l de"), ["debug"]);
        assert_eq!(at("saltern completions f"), ["fish"]);
        assert_eq!(at("saltern sw"), ["swarm"]);
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(at(directory.path(), "salt -c ETC "), Vec::<String>::new());
        std::fs::create_dir(directory.path().join("etc")).unwrap();
        std::fs::write(directory.path().join("etc/master"), "{broken").unwrap();
        assert_eq!(at(directory.path(), "salt -c ETC "), Vec::<String>::new());
        assert_eq!(at(directory.path(), "ls "), Vec::<String>::new());
    }

    #[test]
    fn the_scripts_name_all_programs() {
        for shell in ["bash", "zsh", "fish"] {
            let text = script(shell).unwrap();
            assert!(Program::ALL.iter().all(|program| text.contains(program.name())), "{shell}");
            assert!(!text.contains('{') || !text.contains("{names}") && !text.contains("{program}"), "{shell}");
        }
        assert_eq!(script("csh"), None);
    }
}

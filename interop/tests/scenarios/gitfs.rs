//! Files and pillar from git repositories: two Saltern masters that share their clones, with minions of both kinds.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{Master, Minion, Salt, Sandbox, missing, scenario, until};
use serde_json::{Value, json};

const FILES: usize = 200;
const OURS: &str = "ours";
const THEIRS: &str = "theirs";

#[test]
fn files_come_from_a_repository_through_either_of_two_masters() {
    if missing(&["3008.5"]) {
        return;
    }
    scenario("gitfs", |sandbox| {
        let source = Source::new(sandbox)?;
        source.commit("master", &round(0))?;
        let masters = masters(sandbox, &source)?;
        let (ours, real) = (Salt::ours()?, Salt::real("3008.5").context("checked above")?);
        let _own = Minion::build(&ours, OURS).masters(&masters).start(sandbox)?;
        let _stock = Minion::build(&real, THEIRS).masters(&masters).start(sandbox)?;
        masters.iter().try_for_each(|master| master.wait_answering(&[OURS, THEIRS]))?;
        for master in &masters {
            until("the repository to be fetched", Duration::from_secs(60), || {
                master.runner(&["fileserver.envs"]).is_ok_and(|envs| envs == json!(["base"]))
            })?;
            serves_all(master)?;
        }
        for (master, minion) in [(&masters[0], OURS), (&masters[1], THEIRS), (&masters[0], THEIRS), (&masters[1], OURS)]
        {
            fetch_while_the_branch_moves(&source, master, minion)?;
        }
        locks_hold(&masters)?;
        masters.iter().try_for_each(no_complaint)
    });
}

/// A remote repository with a pillar.
pub struct Source(PathBuf);

impl Source {
    /// Makes one with the branch `pillar`.
    pub fn new(sandbox: &Sandbox) -> Result<Self> {
        let source = Source(sandbox.folder("source.git")?);
        source.git(&["init", "--quiet", "--bare", "--initial-branch=master"], "")?;
        let pillar = "from_git: {{ grains['id'] }}\n";
        let files = vec![
            ("top.sls".to_owned(), "base:\n  '*':\n    - data\n".to_owned()),
            ("data.sls".to_owned(), pillar.to_owned()),
        ];
        source.commit("pillar", &files)?;
        Ok(source)
    }

    /// Returns its address.
    pub fn url(&self) -> String {
        format!("file://{}", self.0.display())
    }

    fn git(&self, arguments: &[&str], input: &str) -> Result<()> {
        let mut command = Command::new("git");
        let mut child = command.env("GIT_DIR", &self.0).args(arguments).stdin(Stdio::piped()).spawn()?;
        child.stdin.take().context("it was asked for")?.write_all(input.as_bytes())?;
        ensure!(child.wait()?.success(), "git {arguments:?} failed");
        Ok(())
    }

    /// Replaces all files of a branch.
    pub fn commit(&self, branch: &str, files: &[(String, String)]) -> Result<()> {
        let mut stream =
            format!("commit refs/heads/{branch}\ncommitter T <t@e> 1700000000 +0000\ndata 1\nm\ndeleteall\n");
        for (name, content) in files {
            stream += &format!("M 100644 inline {name}\ndata {}\n{content}\n", content.len());
        }
        self.git(&["fast-import", "--quiet", "--force"], &stream)
    }
}

/// Returns all files of one commit. They are longer in each commit, so that a mixture of two commits shows.
fn round(number: usize) -> Vec<(String, String)> {
    let content = |file: usize| format!("round {number} of file {file}\n").repeat(400 + number * 50);
    (0..FILES).map(|file| (format!("d/f{file}"), content(file))).collect()
}

fn masters(sandbox: &Sandbox, source: &Source) -> Result<Vec<Master>> {
    let ours = Salt::ours()?;
    let pair = Master::make_key_pair(&ours, sandbox)?;
    let shared = sandbox.folder("shared")?;
    let start = |name: &str| -> Result<Master> {
        let mut master = Master::build(&ours, name)
            .key_pair(&pair)
            .option("auto_accept", true)
            .option("fileserver_backend", json!(["git"]))
            .option("gitfs_remotes", json!([{ source.url(): [{"saltenv_whitelist": "base"}] }]))
            .option("gitfs_update_interval", 1)
            .option("gitfs_global_lock", true)
            // Small chunks: each file takes several requests, between which the branch can move.
            .option("file_buffer_size", 2000)
            .option("ext_pillar", json!([{"git": [{ format!("pillar {}", source.url()): [{"env": "base"}] }]}]))
            .prepare(sandbox)?;
        fs::create_dir_all(master.cache())?;
        for kind in ["gitfs", "git_pillar"] {
            fs::create_dir_all(shared.join(kind))?;
            // As with a cache directory on shared storage, where both masters fetch into the same clone.
            symlink(shared.join(kind), master.cache().join(kind))?;
        }
        master.launch(sandbox)?;
        master.wait_ready()?;
        Ok(master)
    };
    ["m1", "m2"].into_iter().map(start).collect()
}

fn serves_all(master: &Master) -> Result<()> {
    let mut wanted: Vec<String> = round(0).into_iter().map(|(name, _)| name).collect();
    wanted.sort();
    for minion in [OURS, THEIRS] {
        let listed = master.ask(minion, &["cp.list_master"])?;
        ensure!(listed == json!(wanted), "{minion} sees {listed} through {}", master.name());
        let dirs = master.ask(minion, &["cp.list_master_dirs"])?;
        ensure!(dirs == json!(["d"]), "{minion} sees the directories {dirs}");
        let text = master.ask(minion, &["cp.get_file_str", "salt://d/f7"])?;
        ensure!(text == json!(round(0)[7].1), "{minion} got {text}");
        let pillar = master.ask(minion, &["pillar.get", "from_git", "unmask=True"])?;
        ensure!(pillar == json!(minion), "{minion} has the pillar {pillar}");
        let cached = cached(master, minion)?;
        ensure!(cached.len() == FILES, "{minion} cached {} files", cached.len());
    }
    Ok(())
}

fn cached(master: &Master, minion: &str) -> Result<Vec<String>> {
    let answer = master.ask(minion, &["cp.cache_dir", "salt://d"])?;
    Ok(serde_json::from_value(answer)?)
}

/// Moves the branch repeatedly while a minion fetches all files, and checks each of them.
fn fetch_while_the_branch_moves(source: &Source, master: &Master, minion: &str) -> Result<()> {
    source.commit("master", &round(1))?;
    master.runner(&["fileserver.update", "backend=git"])?;
    let moves = std::thread::scope(|scope| -> Result<usize> {
        let fetching = scope.spawn(|| cached(master, minion));
        let mut moves = 0;
        while !fetching.is_finished() && moves < 200 {
            source.commit("master", &round(2 + moves % 5))?;
            master.runner(&["fileserver.update", "backend=git"])?;
            moves += 1;
        }
        let files = fetching.join().map_err(|_| anyhow::anyhow!("the fetch panicked"))??;
        ensure!(files.len() == FILES, "{minion} cached {} files", files.len());
        let mut rounds = [0; 8];
        for path in &files {
            rounds
                [whole(Path::new(path)).with_context(|| format!("{path} of {minion} through {}", master.name()))?] += 1;
        }
        println!("  {minion} through {}: {moves} moves, files by commit: {rounds:?}", master.name());
        Ok(moves)
    })?;
    ensure!(moves > 0, "the branch did not move");
    Ok(())
}

/// Returns the commit of a file, all of which must be from that commit.
fn whole(path: &Path) -> Result<usize> {
    let text = fs::read_to_string(path)?;
    let words: Vec<&str> = text.lines().next().context("it is empty")?.split(' ').collect();
    let (number, file): (usize, usize) = (words[1].parse()?, words[4].parse()?);
    ensure!(text == round(number)[file].1, "it is a mixture of commits");
    Ok(number)
}

fn locks_hold(masters: &[Master]) -> Result<()> {
    // Both masters fetch every second and hold the lock during that time.
    until("nobody to fetch", Duration::from_secs(30), || {
        let locked = masters[0].runner(&["fileserver.lock"]);
        locked.is_ok_and(|locked| {
            locked["locked"][0].as_str().is_some_and(|said| said.starts_with("Set update lock for gitfs remote"))
        })
    })?;
    let refusals = || masters[1].log().matches("gitfs_global_lock is enabled and update lockfile").count();
    let before = refusals();
    masters[1].runner(&["fileserver.update"])?;
    until("the other master to respect the lock", Duration::from_secs(30), || refusals() > before)?;
    let cleared = masters[1].runner(&["fileserver.clear_lock", "backend=git"])?;
    ensure!(cleared.get("cleared").is_some_and(Value::is_array), "{cleared}");
    Ok(())
}

fn no_complaint(master: &Master) -> Result<()> {
    let log = master.log();
    let complaint = log.lines().find(|line| line.contains("[ERROR") || line.contains("panicked"));
    ensure!(complaint.is_none(), "{} complains: {complaint:?}", master.name());
    Ok(())
}

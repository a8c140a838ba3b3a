//! `cargo xtask bench scale`: the real master and ours with a hundred and with thousands of minions.
//!
//! The minions are a swarm in this process ([`swarm`]); the master is a separate process, one at a time. Each row is a
//! master and a number of minions, which all begin at once. Writes a table and a plot.

mod machine;
mod plot;
mod report;
mod run;

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use interop::{Salt, Sandbox, Slot, Transport};
use run::Numbers;

const HELP: &str = "\
usage: bench scale [--real NUMBERS] [--ours NUMBERS] [--transport zeromq|tcp] [--out DIR] [--keys DIR]

  --real NUMBERS   numbers of minions at the master of Salt 3008.5, such as 100,500,2000 (the default); 0 for none
  --ours NUMBERS   those at ours [default: 100,500,2000,10000,20000]; as many as there may be open files, if that is less
  --transport T    how minions and master speak [default: zeromq]
  --out DIR        where scale.md and scale.svg go [default: docs/benchmarks]
  --keys DIR       where the minions' keys are kept [default: swarm-keys beside what cargo builds]
";

/// The command line.
struct Wish {
    real: Vec<usize>,
    ours: Vec<usize>,
    transport: Transport,
    out: PathBuf,
    keys: PathBuf,
}

/// A row of the tables.
struct Row {
    side: String,
    ours: bool,
    numbers: Numbers,
}

/// Measures, prints the tables, and writes them and the plot.
pub fn main(args: &[String]) -> Result<()> {
    if args.iter().any(|arg| matches!(arg.as_str(), "-h" | "--help")) {
        print!("{HELP}");
        return Ok(());
    }
    let wish = wish(args)?;
    let most = wish.real.iter().chain(&wish.ours).copied().max().context("there is nothing to measure")?;
    let limit = open_files(most)?;
    let (real, ours) = (possible(&wish.real, limit), possible(&wish.ours, limit));
    let keys = swarm::KeyPool::new(&wish.keys, 2048).take(run::KEYS, |_, _| {})?;
    let _alone = Slot::all()?;
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    // Nothing is removed before the end: ext4 looks long for a free inode where thousands were freed in the last minutes.
    let mut sandboxes = Vec::new();
    // Small ones first, sides in turn, so that something is there when it is stopped.
    let mut sizes: Vec<usize> = real.iter().chain(&ours).copied().collect();
    sizes.sort_unstable();
    sizes.dedup();
    for minions in sizes {
        if real.contains(&minions) {
            let salt =
                Salt::real("3008.5").context("the real Salt 3008.5 is not installed; `cargo xtask salt` does")?;
            let row = one(&salt, minions, &wish, &keys, &mut sandboxes);
            row.map_or_else(|error| failed.push(error), |row| rows.push(row));
        }
        if ours.contains(&minions) {
            let row = one(&Salt::ours()?, minions, &wish, &keys, &mut sandboxes);
            row.map_or_else(|error| failed.push(error), |row| rows.push(row));
        }
    }
    let machine = format!("{}; a process may have {limit} files open", machine::name());
    let text = report::text(&rows, wish.transport, &machine);
    print!("{text}");
    // A row that fails must not cost hours of results: the others are still written.
    failed.iter().for_each(|error| println!("\nnot measured: {error:#}"));
    ensure!(!rows.is_empty(), "nothing was measured");
    std::fs::create_dir_all(&wish.out).with_context(|| format!("failed to create {}", wish.out.display()))?;
    let path = wish.out.join("scale.md");
    std::fs::write(&path, &text).with_context(|| format!("failed to write {}", path.display()))?;
    plot::write(&rows, &wish.out.join("scale.svg"))?;
    ensure!(failed.is_empty(), "{} rows are missing", failed.len());
    Ok(())
}

/// Returns the number of open files a process needs for this number of minions: two connections each, now and then one
/// more, and some hundreds that the real master opens without minions.
fn needed(minions: usize) -> u64 {
    (minions * 2 + minions / 10 + 1000) as u64
}

/// Raises the limit of open files, which the masters have from us, as far as needed and allowed.
fn open_files(minions: usize) -> Result<u64> {
    match swarm::raise_open_files(needed(minions)) {
        Ok(limit) => Ok(limit),
        Err(swarm::LimitError { allowed, .. }) => Ok(swarm::raise_open_files(allowed.saturating_sub(200))?),
    }
}

/// Returns the possible numbers; all that are too large become the largest possible one.
fn possible(wanted: &[usize], limit: u64) -> Vec<usize> {
    // The inverse of `needed`: 2.1 files for each minion and a thousand besides.
    let most = (limit.saturating_sub(1000) * 10 / 21) as usize;
    let mut possible: Vec<usize> = wanted.iter().map(|minions| (*minions).min(most / 100 * 100)).collect();
    possible.sort_unstable();
    possible.dedup();
    possible.retain(|minions| *minions > 0);
    possible
}

/// Measures one row, in a separate sandbox.
fn one(
    salt: &Salt,
    minions: usize,
    wish: &Wish,
    keys: &[swarm::PrivateKey],
    sandboxes: &mut Vec<Sandbox>,
) -> Result<Row> {
    eprintln!("{minions} minions at {}", salt.name());
    let sandbox = sandboxes.push_mut(Sandbox::new()?);
    let numbers = run::run(sandbox, salt, minions, wish.transport, keys);
    if numbers.is_err() {
        sandbox.show_logs();
    }
    let numbers = numbers.with_context(|| format!("{minions} minions at {}", salt.name()))?;
    eprintln!("  {numbers:?}");
    Ok(Row { side: salt.name().to_owned(), ours: salt.is_ours(), numbers })
}

fn wish(args: &[String]) -> Result<Wish> {
    let workspace = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut wish = Wish {
        real: vec![100, 500, 2000],
        ours: vec![100, 500, 2000, 10_000, 20_000],
        transport: Transport::Zeromq,
        out: workspace().join("docs/benchmarks"),
        keys: beside_builds()?,
    };
    for pair in args.chunks(2) {
        let [flag, value] = pair else { bail!("{} needs a value\n\n{HELP}", pair[0]) };
        match (flag.as_str(), value.as_str()) {
            ("--real", list) => wish.real = numbers(list)?,
            ("--ours", list) => wish.ours = numbers(list)?,
            ("--transport", "zeromq") => wish.transport = Transport::Zeromq,
            ("--transport", "tcp") => wish.transport = Transport::Tcp,
            ("--out", dir) => wish.out = dir.into(),
            ("--keys", dir) => wish.keys = dir.into(),
            _ => bail!("what is {flag} {value}?\n\n{HELP}"),
        }
    }
    Ok(wish)
}

/// Numbers with commas between; 0 is none.
fn numbers(list: &str) -> Result<Vec<usize>> {
    let read = |text: &str| text.trim().parse::<usize>().with_context(|| format!("'{text}' is no number of minions"));
    let all = list.split(',').map(read).collect::<Result<Vec<_>>>()?;
    ensure!(all.iter().all(|minions| *minions <= 200_000), "more than 200000 minions have no addresses to come from");
    Ok(all.into_iter().filter(|minions| *minions > 0).collect())
}

fn beside_builds() -> Result<PathBuf> {
    let own = std::env::current_exe().context("failed to find this program")?;
    let builds = own.ancestors().nth(2).context("this program lies nowhere")?;
    Ok(builds.join("swarm-keys"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish_of(words: &[&str]) -> Result<Wish> {
        wish(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn no_more_minions_begin_than_there_may_be_files() {
        assert_eq!(possible(&[100, 10_000, 20_000], 20_000), [100, 9000]);
        assert_eq!(possible(&[100, 10_000], 1 << 20), [100, 10_000]);
        assert!(needed(9000) <= 20_000 && possible(&[100], 1024).is_empty());
    }

    #[test]
    fn numbers_of_minions_are_chosen() {
        let chosen = wish_of(&["--real", "0", "--ours", "50,100", "--transport", "tcp"]).unwrap();
        assert_eq!((chosen.real, chosen.ours, chosen.transport), (vec![], vec![50, 100], Transport::Tcp));
        assert_eq!(wish_of(&[]).unwrap().real, [100, 500, 2000]);
        for wrong in [&["--ours"][..], &["--ours", "many"], &["--ours", "1000000"], &["--fast", "1"]] {
            assert!(wish_of(wrong).is_err(), "{wrong:?}");
        }
    }
}

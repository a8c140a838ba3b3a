//! The tables, as a page of documentation.

use std::fmt::Write as _;

use interop::Transport;

use super::Row;

const BEGIN: &str = "\
# Hundreds and thousands of minions

Written by `cargo xtask bench scale`. The minions are a swarm (`saltern swarm`) of one process on the same machine, so both share its
processors: times are those of master and minions together, processor time and memory those of the master's processes alone.
All minions begin at once. Each signs in with a key of 2048 bits, says that it has started, asks for its pillar with four kilobytes of
grains, and fetches a file of 64 KiB. The master has five workers, accepts every key, and is otherwise as installed.

![The same as curves](scale.svg)
";

const END: &str = "
\"Ready\" is signed in, with pillar and file. Returns are counted when the master has acknowledged them. Times of returns of `test.ping`
are medians of several jobs, counted from when the job was sent to the master; a highstate returns 10 kB. \"Failed\" are requests that had
to be sent again.
";

/// The page.
pub fn text(rows: &[Row], wire: Transport, machine: &str) -> String {
    let mut text = format!("{BEGIN}\nMachine: {machine}. Wire: {}.\n", wire.name());
    table(
        &mut text,
        rows,
        "Until all are ready",
        &["signed in", "sign-ins", "ready", "processor", "per minion", "failed"],
        |Row { numbers, .. }| {
            let (minions, processor) = (numbers.minions as f64, numbers.ready_processor);
            vec![
                format!("{:.2} s", numbers.signed_in),
                format!("{:.0} /s", minions / numbers.signed_in),
                format!("{:.2} s", numbers.ready),
                format!("{processor:.2} s"),
                format!("{:.2} ms", processor * 1000.0 / minions),
                numbers.failed.to_string(),
            ]
        },
    );
    let columns =
        ["first", "half", "99 %", "last", "returns", "processor per return", "highstate", "`salt '*' test.ping`"];
    table(&mut text, rows, "Jobs to all of them", &columns, |Row { numbers, .. }| {
        let [first, half, most, last] = numbers.returns.map(|time| format!("{time:.1} ms"));
        let minions = numbers.minions as f64;
        let rate = format!("{:.0} /s", minions * 1000.0 / numbers.returns[3]);
        let each = format!("{:.3} ms", numbers.ping_processor * 1000.0 / minions);
        let highstate = format!("{:.2} s", numbers.highstate);
        vec![first, half, most, last, rate, each, highstate, format!("{:.2} s", numbers.program)]
    });
    let columns = ["memory without minions", "most memory", "per minion", "open files", "threads"];
    table(&mut text, rows, "What the master holds", &columns, |Row { numbers, .. }| {
        let mebibytes = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
        let each = numbers.memory.saturating_sub(numbers.idle) as f64 / 1024.0 / numbers.minions as f64;
        let (files, threads) = (numbers.files.to_string(), numbers.threads.to_string());
        vec![mebibytes(numbers.idle), mebibytes(numbers.memory), format!("{each:.1} KiB"), files, threads]
    });
    text + END
}

fn table(text: &mut String, rows: &[Row], title: &str, columns: &[&str], cells: impl Fn(&Row) -> Vec<String>) {
    let head: Vec<String> = ["minions", "master"].iter().chain(columns).map(|name| (*name).to_owned()).collect();
    let body = rows.iter().map(|row| [vec![row.numbers.minions.to_string(), row.side.clone()], cells(row)].concat());
    let lines: Vec<Vec<String>> = std::iter::once(head).chain(body).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len() + 2).map(width).collect();
    let _ = writeln!(text, "\n## {title}\n");
    for (number, line) in lines.iter().enumerate() {
        let cells: Vec<String> = line.iter().zip(&widths).map(|(cell, width)| format!(" {cell:>width$} ")).collect();
        let _ = writeln!(text, "|{}|", cells.join("|"));
        if number == 0 {
            let rules: Vec<String> = widths.iter().map(|width| format!("{}:", "-".repeat(width + 1))).collect();
            let _ = writeln!(text, "|{}|", rules.join("|"));
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::run::Numbers;
    use super::*;

    pub fn row(side: &str, minions: usize) -> Row {
        let numbers = Numbers {
            minions,
            signed_in: 2.0,
            ready: 4.0,
            ready_processor: 3.0,
            returns: [1.0, 5.0, 9.0, 10.0],
            ping_processor: 0.02,
            highstate: 0.5,
            program: 1.0,
            idle: 8 << 20,
            memory: 18 << 20,
            files: 300,
            threads: 7,
            failed: 0,
        };
        Row { side: side.to_owned(), ours: side == "ours", numbers }
    }

    #[test]
    fn costs_are_told_for_each_minion() {
        let text = text(&[row("3008.5", 100), row("ours", 1000)], Transport::Zeromq, "a machine");
        assert!(text.contains("Machine: a machine. Wire: zeromq."));
        let line = |title: &str, side: &str| {
            let table = text.split(title).nth(1).unwrap();
            let line = table.lines().find(|line| line.contains(side)).unwrap();
            line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>()
        };
        let ready = line("Until all are ready", "3008.5");
        assert_eq!(ready[1..7], ["100", "3008.5", "2.00 s", "50 /s", "4.00 s", "3.00 s"]);
        assert_eq!(ready[7], "30.00 ms");
        assert_eq!(line("Jobs to all", "ours")[7..9], ["100000 /s", "0.020 ms"]);
        assert_eq!(line("What the master", "ours")[3..6], ["8.0 MiB", "18.0 MiB", "10.2 KiB"]);
    }
}

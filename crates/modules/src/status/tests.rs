//! Texts of the kernel, and functions as an operator calls them.

use std::time::{Duration, SystemTime};

use exec::MasterState;
use regex::Regex;

use super::clock::{since, time};
use super::disks::{mount_points, parse_diskstats};
use super::machine::{nproc, parse_cpuinfo, parse_cpustats, parse_meminfo};
use super::masters::{connected_to, ping_master};
use super::network::{parse_netdev, parse_netstats};
use super::processes::{login, matching_pids, parse_procs, procs};
use super::*;
use exec::testing::{FakeAgent, context};
use exec::{MasterRole, MasterStatus};
use std::sync::Arc;
use value::list;

#[test]
fn the_kernels_tables_are_read() {
    let stat = "cpu  62353 1 11437 141462 845 2 95 37 0 0\ncpu0 25635 0 0\nintr 9 1 2\nctxt 5\nsoftirq 3 1 2\n";
    let cpu = map! {
        "idle" => 141462, "iowait" => 845, "irq" => 2, "nice" => 1, "softirq" => 95, "steal" => 37,
        "system" => 11437, "user" => 62353,
    };
    let expected = map! {
        "cpu" => cpu, "cpu0" => 25635, "intr" => map! { "total" => 9, "irqs" => list![1, 2] }, "ctxt" => 5,
        "softirq" => map! { "total" => 3, "softirqs" => list![1, 2] },
    };
    assert_eq!(parse_cpustats(stat), expected);
    let memory = parse_meminfo("MemTotal:  24684092 kB\nHugePages_Total:  0\n");
    let entry = map! { "value" => "24684092", "unit" => "kB" };
    assert_eq!(memory, map! { "MemTotal" => entry, "HugePages_Total" => map! { "value" => "0" } });
    let cpuinfo = parse_cpuinfo("processor\t: 0\nflags\t\t: fpu vme\npower management:\n\nprocessor\t: 1\n");
    assert_eq!(cpuinfo, map! { "processor" => "1", "flags" => list!["fpu", "vme"], "power management" => "" });
    let disks = parse_diskstats(" 254 0 vda 1 2 3 4 5 6 7 8 9 10 11 12 13\n");
    assert_eq!(disks.get("vda").unwrap().get("weighted_ms_spent_in_io"), Some(&11.into()));
    let net = parse_netdev("Inter-| x\n face |bytes\n  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n");
    let eth0 = net.get("eth0").unwrap();
    assert_eq!(
        (eth0.get("rx_multicast"), eth0.get("tx_carrier"), eth0.get("iface")),
        (Some(&8.into()), Some(&15.into()), Some(&"eth0".into()))
    );
    let groups = parse_netstats("TcpExt: A B\nTcpExt: 1 2\nIpExt: C\nIpExt: 3\n");
    assert_eq!(groups, map! { "TcpExt" => map! { "A" => 1, "B" => 2 }, "IpExt" => map! { "C" => 3 } });
}

#[test]
fn processes_are_read_by_column() {
    let lines: Vec<String> = ["UID  PID PPID C CMD", "root 1 0 0 /sbin/init -x", "me 7 1 0 salt", "me 8 7 0 ps salt"]
        .map(str::to_owned)
        .into();
    let procs = parse_procs(&lines);
    assert_eq!(procs.get("1"), Some(&map! { "user" => "root", "cmd" => "/sbin/init -x" }.into()));
    assert_eq!(matching_pids(&lines, &Regex::new("salt|init").unwrap(), "7"), ["1"]);
    assert_eq!(login("anna pts/0 10:00 1:02 0.1s 0.2s vi a b").unwrap().get("what"), Some(&"vi a b".into()));
}

#[test]
fn file_systems_are_chosen_by_place_and_kind() {
    let mounts = "/dev/a / ext4 rw 0 0\nproc /proc proc rw 0 0\n/dev/b /my\\040disk xfs rw 0 0\n";
    let chosen =
        |words: &[&str]| mount_points(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), mounts);
    assert_eq!(chosen(&[]), ["/", "/proc", "/my disk"]);
    assert_eq!(chosen(&["ext?"]), ["/"]);
    assert_eq!(chosen(&["/srv"]), ["/srv"]);
    assert_eq!(chosen(&["/srv", "xfs"]), ["/srv", "/my disk"]);
}

#[test]
fn points_in_time_are_written_as_python_writes_them() {
    assert_eq!(iso(Duration::from_micros(1_795_170_513_686_637)), "2026-11-20T10:28:33.686637");
    assert_eq!(iso(Duration::ZERO), "1970-01-01T00:00:00");
    assert_eq!(iso(Duration::from_secs(951_782_400)), "2000-02-29T00:00:00");
    let since = since(Duration::from_secs(100), 90_061);
    assert_eq!((since.get("days"), since.get("time")), (Some(&1.into()), Some(&"1:1".into())));
}

#[test]
fn the_whole_is_there() {
    let (ctx, _) = context(&[&MODULE], map! {}, map! {}, map! {});
    let all = all_status(&ctx).unwrap();
    let names = [
        "cpuinfo",
        "cpustats",
        "diskstats",
        "diskusage",
        "loadavg",
        "meminfo",
        "netdev",
        "netstats",
        "uptime",
        "vmstats",
        "w",
    ];
    assert_eq!(all.text_keys().collect::<Vec<_>>(), names);
    assert!(all.get("loadavg").unwrap().get("1-min").unwrap().as_f64().is_some());
    assert!(procs(&ctx).unwrap().contains_key(&std::process::id().to_string()));
    assert!(nproc().unwrap() > 0);
    assert!(time(&ctx, "%Y".into()).unwrap().parse::<u32>().unwrap() > 2000);
}

#[test]
fn chosen_values_are_gathered() {
    let opts = map! { "status.cpustats.custom" => list!["ctxt", "nope"], "status.custom" => list!["x"] };
    let (ctx, _) = context(&[&MODULE], opts, map! {}, map! {});
    let chosen = custom(&ctx).unwrap();
    assert_eq!(chosen.get("nope"), Some(&"UNKNOWN".into()));
    assert!(chosen.get("ctxt").unwrap().as_i64().is_some());
    assert_eq!(chosen.len(), 2);
}

fn status(host: &str, state: MasterState) -> MasterStatus {
    MasterStatus {
        address: format!("{host}:4506"),
        id: None,
        role: MasterRole::Hot,
        host: host.to_owned(),
        ip: Some("10.0.0.1".parse().unwrap()),
        state,
        since: SystemTime::now(),
        last_heard: None,
        round_trip: None,
        fingerprint: None,
        jobs: 0,
        returns_waiting: 0,
        asking: false,
    }
}

#[test]
fn masters_are_asked_for_by_name_or_address() {
    let (ctx, _) = context(&[&MODULE], map! {}, map! {}, map! {});
    let masters = vec![status("a", MasterState::Live), status("b", MasterState::Backoff)];
    let agent = Arc::new(FakeAgent { masters, ..FakeAgent::default() });
    let ctx = Context { agent: agent.clone(), ..ctx };
    assert_eq!(connected_to(&ctx, None, true).unwrap(), None);
    assert_eq!(connected_to(&ctx, Some("a".into()), true).unwrap(), Some(true));
    assert_eq!(connected_to(&ctx, Some("10.0.0.1".into()), true).unwrap(), Some(true));
    assert!(agent.asked.lock().unwrap().is_empty());
    assert_eq!(connected_to(&ctx, Some("b".into()), true).unwrap(), Some(false));
    assert_eq!(agent.asked.lock().unwrap()[0], map! { "local" => "__master_disconnected", "master" => "b" });
    assert!(ping_master(&ctx, "a".into()).unwrap());
    assert!(!ping_master(&ctx, "c".into()).unwrap());
    assert!(!ping_master(&ctx, Value::Null).unwrap());
}

//! The arguments of `saltern swarm`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use swarm::{Behaviour, Kind, Options, Sources};

/// The default port of a master for requests.
const REQUEST_PORT: u16 = 4506;

/// Puts a master under the load of thousands of minions.
///
/// Each minion signs in with a key of a pool that is made once, decrypts publications, matches targets, and returns,
/// over the real wire and against masters of Salt and of Saltern alike. It runs nothing: it answers test.ping,
/// test.echo, test.arg, grains.item, grains.items, grains.get, saltutil.find_job, saltutil.running and, with a made-up
/// result, state.highstate, state.apply and state.sls. All random choices follow from the seed.
///
/// The master must accept the keys: auto_accept, salt-key -A, or --place-keys. It needs two open files for each minion.
#[derive(Debug, Parser)]
#[command(name = "saltern swarm", max_term_width = 120)]
pub struct Arguments {
    /// The master: a name or an address, with the port of its requests if that is not 4506
    #[arg(long, value_name = "HOST[:PORT]", default_value = "127.0.0.1")]
    pub master: String,
    /// Number of minions
    #[arg(long, short = 'n', value_name = "NUMBER", default_value_t = 100)]
    pub minions: usize,
    /// Prefix of the minions' ids; a number with five digits follows
    #[arg(long, value_name = "TEXT", default_value = "swarm-")]
    pub prefix: String,
    /// The number of the first minion, for several swarms at one master
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub first: usize,
    /// Seed of all random choices
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,

    /// Directory that keeps the keys from one swarm to the next [default: swarm-keys in the user's cache directory for
    /// saltern]
    #[arg(long, value_name = "DIR", help_heading = "Keys")]
    pub keys: Option<PathBuf>,
    /// Number of keys, which the minions share in turn: masters accept equal keys. With as many keys as minions each
    /// gets its own key, which takes a tenth of a second for each the first time
    #[arg(long, value_name = "NUMBER", default_value_t = 100, help_heading = "Keys")]
    pub key_count: usize,
    /// Size of the keys
    #[arg(long, value_name = "BITS", default_value_t = 2048, help_heading = "Keys")]
    pub key_size: u32,
    /// Put the public keys into this pki_dir of the master as accepted before the minions begin
    #[arg(long, value_name = "PKI_DIR", help_heading = "Keys")]
    pub place_keys: Option<PathBuf>,
    /// The master's public key, if the minions know it already: then they demand proof at the first sign-in too, which
    /// costs the master one more operation with its key
    #[arg(long, value_name = "FILE", help_heading = "Keys")]
    pub master_key: Option<PathBuf>,

    /// Transport to the master
    #[arg(long, value_enum, default_value_t = Transport::Zeromq, help_heading = "Connections")]
    pub transport: Transport,
    /// The master's publish port, if not the one that the master announces
    #[arg(long, value_name = "PORT", help_heading = "Connections")]
    pub publish_port: Option<u16>,
    /// Number of minions that begin each second [default: all at once]
    #[arg(long, value_name = "PER_SECOND", help_heading = "Connections")]
    pub ramp: Option<f64>,
    /// Addresses to come from, such as 127.0.0.0/8: one has ports for some 14,000 minions only
    #[arg(long, value_name = "NETWORK", help_heading = "Connections")]
    pub source: Option<Sources>,
    /// Kind of the minions: those of Saltern hold one more connection, with heartbeats on both, and understand a
    /// master's goodbye and its announcement of new keys
    #[arg(long = "as", value_enum, default_value_t = Whose::Salt, help_heading = "Connections")]
    pub kind: Whose,

    /// Size of a made-up highstate return, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 10_000, help_heading = "What minions do")]
    pub return_size: usize,
    /// Run time of a job, in milliseconds: one number, or two with .. between
    #[arg(long, value_name = "MS[..MS]", default_value = "0", value_parser = range, help_heading = "What minions do")]
    pub return_delay: (Duration, Duration),
    /// Send the grains of a real machine with the request for the pillar, some four kilobytes; implies --pillar
    #[arg(long, help_heading = "What minions do")]
    pub grains: bool,
    /// Ask for the pillar after signing in, as real minions do
    #[arg(long, help_heading = "What minions do")]
    pub pillar: bool,
    /// Fetch this file of the master's file_roots after signing in, such as app/big.bin; may be given several times
    #[arg(long, value_name = "PATH", help_heading = "What minions do")]
    pub files: Vec<PathBuf>,
    /// Interval at which pillar and files are requested again, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = "What minions do")]
    pub repeat: Option<Duration>,
    /// Do not fire salt/minion/<id>/start
    #[arg(long, help_heading = "What minions do")]
    pub no_start_event: bool,
    /// Interval at which each minion signs in again, in seconds; each at a different time
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = "What minions do")]
    pub reauth: Option<Duration>,
    /// Number of minions that leave each second, and come back after --away
    #[arg(long, value_name = "PER_SECOND", default_value_t = 0.0, value_parser = rate, help_heading = "What minions do")]
    pub churn: f64,
    /// Time for which minions that left are away, in milliseconds
    #[arg(long, value_name = "MS[..MS]", default_value = "1000..5000", value_parser = range, help_heading = "What minions do")]
    pub away: (Duration, Duration),
    /// Percentage of publications that are lost, and of returns that lose their connection before the answer and are
    /// sent again
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent, help_heading = "What minions do")]
    pub loss: f64,
    /// Percentage of slow minions: they return late, and read nothing until then
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent, help_heading = "What minions do")]
    pub slow: f64,
    /// Time that a slow minion takes for each publication, in milliseconds
    #[arg(long, value_name = "MS", default_value = "2000", value_parser = milliseconds, help_heading = "What minions do")]
    pub slow_by: Duration,
    /// Check the signatures of publications (sign_pub_messages)
    #[arg(long, help_heading = "What minions do")]
    pub check_signatures: bool,
    /// Sign requests (minion_sign_messages)
    #[arg(long, help_heading = "What minions do")]
    pub sign_requests: bool,
    /// Time for one sign-in, in seconds (auth_timeout)
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds, help_heading = "What minions do")]
    pub auth_timeout: Duration,
    /// Time for one request, in seconds (request_channel_timeout)
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds, help_heading = "What minions do")]
    pub request_timeout: Duration,
    /// Time that a minion waits if its key is not accepted, in seconds (acceptance_wait_time)
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds, help_heading = "What minions do")]
    pub acceptance_wait: Duration,

    /// Publish this function to all minions of the swarm once they are ready, and repeatedly; their returns are timed
    /// from there. The swarm must run on the master's machine, as a user who may run salt
    #[arg(long, value_name = "FUNCTION", help_heading = "Jobs")]
    pub publish: Option<String>,
    /// Time from one job to the next, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds, help_heading = "Jobs")]
    pub publish_every: Duration,
    /// Directory of that master's configuration
    #[arg(long, short = 'c', value_name = "DIR", default_value = "/etc/salt", help_heading = "Jobs")]
    pub config_dir: PathBuf,

    /// Time after which the swarm ends, in seconds [default: with Ctrl-C]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = "What is told")]
    pub duration: Option<Duration>,
    /// Write the report into this file as JSON when the swarm ends; - is the standard output
    #[arg(long, value_name = "FILE", help_heading = "What is told")]
    pub report: Option<PathBuf>,
    /// Print a line of JSON each second with the counts so far
    #[arg(long, help_heading = "What is told")]
    pub lines: bool,
    /// Number of jobs that the report lists one by one, the latest ones
    #[arg(long, value_name = "NUMBER", default_value_t = 100, help_heading = "What is told")]
    pub jobs: usize,
    /// Measure the resources that this process and its children use, such as the master; may be given several times
    #[arg(long, value_name = "PID", help_heading = "What is told")]
    pub watch_pid: Vec<i32>,
    /// Threads of the swarm [default: as many as processors]
    #[arg(long, value_name = "NUMBER", help_heading = "What is told")]
    pub threads: Option<usize>,
}

/// The transport to a master.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Transport {
    /// ZeroMQ, Salt's default
    Zeromq,
    /// Plain TCP
    Tcp,
}

/// Whose minions a swarm has.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Whose {
    /// Salt's
    Salt,
    /// Ours
    Saltern,
}

impl Arguments {
    /// Returns host and port of the master's request port.
    pub fn host_and_port(&self) -> Result<(String, u16)> {
        let text = self.master.as_str();
        // First: an IPv6 address contains colons without a port.
        if let Ok(address) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
            return Ok((address.to_string(), REQUEST_PORT));
        }
        let Some((host, port)) = text.rsplit_once(':') else { return Ok((text.to_owned(), REQUEST_PORT)) };
        let port = port.parse().with_context(|| format!("--master {text}: '{port}' is not a port"))?;
        if host.is_empty() {
            bail!("--master {text}: there is no host");
        }
        Ok((host.trim_matches(['[', ']']).to_owned(), port))
    }

    /// Returns the options of the swarm, for a resolved master.
    pub fn options(&self, master: std::net::SocketAddr, master_key: Option<String>) -> Options {
        Options {
            publish_port: self.publish_port,
            transport: match self.transport {
                Transport::Zeromq => transport::Kind::Zeromq,
                Transport::Tcp => transport::Kind::Tcp,
            },
            prefix: self.prefix.clone(),
            first: self.first,
            seed: self.seed,
            ramp: self.ramp,
            sources: self.source,
            master_key,
            jobs_kept: self.jobs,
            watch: self.watch_pid.clone(),
            behaviour: self.behaviour(),
            ..Options::new(master, self.minions)
        }
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour {
            kind: match self.kind {
                Whose::Salt => Kind::Salt,
                Whose::Saltern => Kind::Saltern,
            },
            return_size: self.return_size,
            return_delay: self.return_delay,
            grains: self.grains,
            pillar: self.pillar,
            files: self.files.clone(),
            repeat: self.repeat,
            start_event: !self.no_start_event,
            reauth: self.reauth,
            churn: self.churn,
            away: self.away,
            loss: self.loss,
            slow: self.slow,
            slow_by: self.slow_by,
            check_signatures: self.check_signatures,
            sign_requests: self.sign_requests,
            auth_timeout: self.auth_timeout,
            request_timeout: self.request_timeout,
            acceptance_wait: self.acceptance_wait,
        }
    }
}

fn number(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("'{text}' is not a number"))?;
    if number.is_finite() && number >= 0.0 { Ok(number) } else { Err("a number from 0 on is needed".to_owned()) }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let time = Duration::try_from_secs_f64(number(text)?).map_err(|error| error.to_string())?;
    // A timer with an interval of zero panics.
    if time < Duration::from_millis(1) { Err("more than 0 is needed".to_owned()) } else { Ok(time) }
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    Duration::try_from_secs_f64(number(text)? / 1000.0).map_err(|error| error.to_string())
}

fn range(text: &str) -> Result<(Duration, Duration), String> {
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    let (least, most) = (milliseconds(least)?, milliseconds(most)?);
    if least > most { Err(format!("'{text}' ends before it begins")) } else { Ok((least, most)) }
}

fn percent(text: &str) -> Result<f64, String> {
    let percent = number(text)?;
    if percent <= 100.0 { Ok(percent) } else { Err("there are only 100 in a hundred".to_owned()) }
}

fn rate(text: &str) -> Result<f64, String> {
    number(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from([&["saltern swarm"], words].concat())
    }

    #[test]
    fn a_master_is_a_host_and_perhaps_a_port() {
        let master = |text: &str| read(&["--master", text]).unwrap().host_and_port().map_err(|error| error.to_string());
        let is = |host: &str, port| Ok((host.to_owned(), port));
        assert_eq!(master("salt"), is("salt", 4506));
        assert_eq!(master("salt:99"), is("salt", 99));
        assert_eq!(master("10.0.0.1:99"), is("10.0.0.1", 99));
        assert_eq!(master("::1"), is("::1", 4506));
        assert_eq!(master("[::1]:99"), is("::1", 99));
        assert!(master("salt:x").unwrap_err().contains("'x' is not a port"));
        assert!(master(":99").unwrap_err().contains("no host"));
    }

    #[test]
    fn times_and_shares_are_checked() {
        let swarm = read(&["-n", "7", "--return-delay", "10..20", "--reauth", "0.5", "--slow", "2.5"]).unwrap();
        let options = swarm.options("127.0.0.1:4506".parse().unwrap(), None);
        assert_eq!(options.behaviour.return_delay, (Duration::from_millis(10), Duration::from_millis(20)));
        assert_eq!(options.behaviour.reauth, Some(Duration::from_millis(500)));
        assert_eq!((options.minions, options.behaviour.slow), (7, 2.5));
        for wrong in
            [["--slow", "101"], ["--return-delay", "5..1"], ["--reauth", "0"], ["--churn", "-1"], ["--source", "x"]]
        {
            assert!(read(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn each_option_is_explained() {
        use clap::CommandFactory;
        let command = Arguments::command();
        command.clone().debug_assert();
        let silent: Vec<_> =
            command.get_arguments().filter(|arg| arg.get_help().is_none()).map(|arg| arg.get_id().clone()).collect();
        assert!(silent.is_empty(), "{silent:?}");
    }
}

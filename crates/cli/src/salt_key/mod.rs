//! `salt-key`: lists, accepts, rejects, deletes and prints the keys of minions. For a user who logs in, the master does it.

mod actions;
mod effects;
mod in_master;

use std::io::{BufRead, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use client::LocalClient;
use keys::{Bank, GenKeys, GenSignature, KeyManager, KeyStore, ManagerOptions, MasterKeyOptions, Owner, Selection};
use outputters::Settings;
use rt::Rt;
use tokio::time::error::Elapsed;
use value::{Map, Value, map};

use crate::args::{Parsed, Program};
use crate::prepare::{self, OnMaster};
use crate::salt_run::logged_in::is_about_token;
use crate::terminal::usage_error;
use crate::{exit_codes, log_setup, login};
use actions::{Action, Include};
use effects::MasterEffects;
use in_master::InMaster;

/// How long a master may take to note who is about to change keys.
const ANNOUNCED: Duration = Duration::from_secs(2);

/// How long a master may take to store a change.
const CONFIRMED: Duration = Duration::from_secs(10);

/// How many ids a message names.
const MOST_NAMED: usize = 10;

/// Runs the program.
pub fn main(parsed: Parsed) -> ExitCode {
    if let Err(text) = check(&parsed.settings) {
        return usage_error(Program::SaltKey, &text);
    }
    let as_user =
        parsed.given.contains(&"user").then(|| parsed.settings.get_str("user").unwrap_or_default().to_owned());
    let prepared = match prepare::on_master_as_client(Program::SaltKey, parsed) {
        Ok(prepared) => prepared,
        Err(code) => return code,
    };
    log_setup::on_master(Program::SaltKey, &prepared.config);
    // Before there is a second thread, and before any key is read.
    if let Some(Err(error)) = as_user.map(|user| daemon::switch_user(&user)) {
        prepare::complain("salt-key", &error.into());
        return ExitCode::from(exit_codes::GENERIC);
    }
    if let Err(text) = login::check(&prepared.options) {
        return usage_error(Program::SaltKey, &text);
    }
    let delete_all = prepared.options.get("delete_all").is_some_and(Value::truthy);
    if delete_all && !prepared.arguments.is_empty() {
        // Salt's exit code for this is 0.
        rt::complain!("Error: Delete all takes no arguments. Use -d to delete specified keys");
        return ExitCode::from(exit_codes::OK);
    }
    match run(&prepared) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            prepare::complain("salt-key", &error);
            ExitCode::from(exit_codes::GENERIC)
        }
    }
}

/// Checks the values that have limits.
fn check(settings: &Map) -> Result<(), String> {
    let class = settings.get_str("list").unwrap_or_default();
    let known = ["acc", "pre", "un", "rej", "den", "all"];
    // As in Salt, any word that begins like a class is one: `accepted` is `acc`.
    if !class.is_empty() && !known.iter().any(|prefix| class.starts_with(prefix)) {
        return Err(format!("'{class}' is not a valid argument to '--list'"));
    }
    match settings.get("keysize").and_then(Value::as_i64) {
        Some(..2048) => Err("The minimum value for keysize is 2048".into()),
        Some(32769..) => Err("The maximum value for keysize is 32768".into()),
        _ => Ok(()),
    }
}

fn run(prepared: &OnMaster) -> Result<u8> {
    let action = Action::choose(&prepared.options);
    let settings = prepare::output_settings(&prepared.options);
    match login::is_wanted(&prepared.options) {
        false => command(prepared, &action, Place::Here(manager(prepared, &action)?)).run(&action)?,
        true => match log_in(prepared, &action).and_then(|keys| command(prepared, &action, keys).run(&action)) {
            Ok(()) => {}
            Err(error) => return refused(error, prepared, &settings),
        },
    }
    Ok(exit_codes::OK)
}

/// Prints why a user who logs in cannot do this.
fn refused(error: anyhow::Error, prepared: &OnMaster, settings: &Settings) -> Result<u8> {
    if let Some(failed) = error.downcast_ref::<login::Failed>() {
        return failed.print_as_refusal();
    }
    let error = error.downcast::<client::Error>()?;
    let token = is_about_token(&error).then(|| login::about_kept_token(&prepared.options, &prepared.config)).flatten();
    match error {
        client::Error::Refused(text) => {
            outputters::display(&text.into(), Some("nested"), settings, 0)?;
            if let Some(hint) = token {
                rt::complain!("{hint}, unless it lacks the permission");
            }
            Ok(exit_codes::GENERIC)
        }
        other => Err(other.into()),
    }
}

fn command<'a>(prepared: &'a OnMaster, action: &Action, keys: Place) -> Command<'a> {
    Command {
        include: Include::of(action, &prepared.options),
        options: &prepared.options,
        settings: prepare::output_settings(&prepared.options),
        keys,
        owner: Owner::of_user(&prepared.config.user),
        config: &prepared.config,
    }
}

fn manager(prepared: &OnMaster, action: &Action) -> Result<KeyManager> {
    let runtime = prepare::small_runtime().context("failed to start")?;
    let effects = MasterEffects::new(&prepared.config, runtime)?;
    Ok(KeyManager::new(store(&prepared.config, action), manager_options(prepared)?, effects))
}

fn log_in(prepared: &OnMaster, action: &Action) -> Result<Place> {
    anyhow::ensure!(
        !matches!(action, Action::GenKeys(_) | Action::GenSignature),
        "--gen-keys and --gen-signature write files of this host; run them without --eauth"
    );
    let plan = login::plan(&prepared.options, &prepared.config)?;
    Ok(Place::InMaster(InMaster::new(&prepared.config, plan)?))
}

fn store(config: &config::Master, _action: &Action) -> KeyStore {
    KeyStore::new(&config.paths.pki_dir, Owner::of_user(&config.user))
}

/// Collects the options of the key manager from the configuration and the flags.
fn manager_options(prepared: &OnMaster) -> Result<ManagerOptions> {
    let config = &prepared.config;
    let flag = |name: &str| prepared.options.get(name).is_some_and(Value::truthy);
    let keys = &config.keys;
    Ok(ManagerOptions {
        master: MasterKeyOptions {
            owner: Owner::of_user(&config.user),
            keysize: keys.keysize,
            key_pass: keys.key_pass.clone(),
            master_sign_pubkey: keys.master_sign_pubkey,
            master_sign_key_name: keys.master_sign_key_name.clone(),
            signing_key_pass: keys.signing_key_pass.clone(),
            master_use_pubkey_signature: keys.master_use_pubkey_signature,
            master_pubkey_signature: keys.master_pubkey_signature.clone(),
            ..MasterKeyOptions::new(&config.paths.pki_dir, &config.id)
        },
        cachedir: config.paths.cachedir.clone(),
        hash_type: keys.hash_type.parse().with_context(|| format!("option hash_type: {}", keys.hash_type))?,
        rotate_aes_key: flag("rotate_aes_key"),
        preserve_minion_cache: keys.preserve_minion_cache,
        preserve_minions: flag("preserve_minions"),
        publish_signing_algorithm: keys
            .publish_signing_algorithm
            .parse()
            .with_context(|| format!("option publish_signing_algorithm: {}", keys.publish_signing_algorithm))?,
    })
}

/// Where keys are read and changed.
enum Place {
    /// In the files of this host.
    Here(KeyManager),
    /// In the master, with the permissions of a user.
    InMaster(InMaster),
}

/// What a change of keys has done.
struct Changes {
    /// The ids whose keys are where they should be, whoever has put them there.
    done: Vec<String>,
    /// The ids whose keys cannot be accepted.
    invalid: Vec<String>,
    /// Other ids whose keys were not changed.
    missed: Vec<String>,
    /// Why a part of the change is missing.
    incomplete: Option<String>,
}

struct Command<'a> {
    options: &'a Map,
    settings: Settings,
    include: Include,
    keys: Place,
    owner: Owner,
    config: &'a config::Master,
}

impl Command<'_> {
    fn run(&self, action: &Action) -> Result<()> {
        match action {
            Action::GenKeys(name) => self.gen_keys(name),
            Action::GenSignature => self.gen_signature(),
            Action::List(class) => {
                let mut lists = match &self.keys {
                    Place::Here(manager) => manager.list(class)?,
                    Place::InMaster(master) => master.list(class)?,
                };
                // The master's own keys belong to no minion.
                lists.remove("local");
                self.show(lists)
            }
            Action::Print(glob) => self.show(match &self.keys {
                Place::Here(manager) => manager.key_str(&glob.as_str().into())?,
                Place::InMaster(master) => master.key_str(glob)?,
            }),
            Action::Finger(glob) => self.show(match &self.keys {
                Place::Here(manager) => manager.finger(&glob.as_str().into(), None)?,
                Place::InMaster(master) => master.finger(glob, &self.config.keys.hash_type)?,
            }),
            Action::Accept(glob) => self.change(Verb::Accept, glob),
            Action::Reject(glob) => self.change(Verb::Reject, glob),
            Action::Delete(glob) => self.change(Verb::Delete, glob),
        }
    }

    /// Returns the manager of the keys of this host.
    fn manager(&self) -> Result<&KeyManager> {
        match &self.keys {
            Place::Here(manager) => Ok(manager),
            Place::InMaster(_) => anyhow::bail!("the master does not write files of this host"),
        }
    }

    fn show(&self, keys: Map) -> Result<()> {
        Ok(outputters::display(&keys.into(), Some("key"), &self.settings, 0)?)
    }

    fn say(&self, line: &str) -> Result<()> {
        Ok(outputters::print_line(line)?)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.options.get_str(name).filter(|text| !text.is_empty())
    }

    fn flag(&self, name: &str) -> bool {
        self.options.get(name).is_some_and(Value::truthy)
    }

    fn bits(&self) -> Option<u32> {
        self.options.get("keysize").and_then(Value::as_i64).and_then(|bits| u32::try_from(bits).ok())
    }

    fn gen_keys(&self, name: &str) -> Result<()> {
        let directory = Path::new(self.text("gen_keys_dir").unwrap_or("."));
        std::fs::create_dir_all(directory).with_context(|| format!("failed to create {}", directory.display()))?;
        let wanted = GenKeys { directory, name, bits: self.bits(), owner: self.owner };
        let finger = self.manager()?.gen_keys(&wanted)?;
        self.show(Map::from_iter([("return", finger)]))
    }

    fn gen_signature(&self) -> Result<()> {
        let path = |name| self.text(name).map(Path::new);
        let wanted = GenSignature {
            private: path("priv"),
            public: path("pub"),
            directory: path("signature_path"),
            auto_create: self.flag("auto_create"),
            bits: self.bits(),
        };
        let result = self.manager()?.gen_signature(&wanted)?;
        self.show(Map::from_iter([("return", result)]))
    }

    /// Shows the keys, asks, and changes them.
    fn change(&self, verb: Verb, glob: &str) -> Result<()> {
        let matching = self.concerned(
            verb,
            match &self.keys {
                Place::Here(manager) => manager.glob_match(&glob.into())?,
                Place::InMaster(master) => master.glob_match(glob)?,
            },
        );
        if matching.is_empty() {
            return self.say(&format!("The key glob '{glob}' does not match any {} keys.", self.include.in_words()));
        }
        self.say(&format!("The following keys are going to be {}:", verb.done()))?;
        self.show(matching.clone())?;
        if !self.flag("yes") && !proceed(verb)? {
            return Ok(());
        }
        let changes = match &self.keys {
            Place::Here(manager) => self.change_here(manager, verb, &matching)?,
            Place::InMaster(master) => master.change(verb, self.include, &matching)?,
        };
        // Reported one by one: the other keys of the glob have been accepted.
        for id in changes.invalid {
            rt::complain!("Unable to accept invalid key for {id}.");
        }
        for id in changes.missed {
            rt::complain!("The key of minion {id} was not {}.", verb.done());
        }
        for id in changes.done {
            self.say(&format!("Key for minion {id} {}.", verb.done()))?;
        }
        // Last: the keys have changed even if nobody is told, and even if the session key has not.
        changes.incomplete.map_or(Ok(()), |reason| Err(anyhow::anyhow!(reason)))
    }

    fn change_here(&self, manager: &KeyManager, verb: Verb, matching: &Map) -> Result<Changes> {
        if let Some(reason) = self.config.cluster.as_ref().and_then(config::Cluster::refuses_key_decisions) {
            anyhow::bail!(reason);
        }
        let master = self.announce(matching);
        let selection = Selection::Dict(matching);
        let changed = match verb {
            Verb::Accept => manager.accept(selection, &self.also()),
            Verb::Reject => manager.reject(selection, &self.also()),
            Verb::Delete => manager.delete(selection, false),
        }?;
        let not_told = match master {
            SetMaster::Answers => self.not_told(matching, verb),
            SetMaster::Stopped => {
                rt::complain!("The master is not running: other masters learn of this when it starts.");
                None
            }
            SetMaster::None => None,
        };
        // By what is there now, as in Salt: somebody may have done the same meanwhile, on this master or on another one.
        let (done, missed) = in_master::divide(verb, in_master::ids(matching), &changed.result);
        let (invalid, missed) =
            missed.into_iter().partition(|missed| changed.invalid.iter().any(|id| id.as_str() == missed));
        Ok(Changes { done, invalid, missed, incomplete: not_told.or(changed.not_rotated) })
    }

    /// Tells a master that shares with others who is about to change keys, so that the decision has the user.
    fn announce(&self, matching: &Map) -> SetMaster {
        if self.config.cluster.is_none() {
            return SetMaster::None;
        }
        match self.ask_master(map! { "what" => "announce", "ids" => ids(matching) }, ANNOUNCED) {
            Ok(_) => SetMaster::Answers,
            Err(error) if error.is::<Elapsed>() || matches!(error.downcast_ref(), Some(client::Error::TimedOut)) => {
                rt::complain!(
                    "The master does not answer: it tells other masters of the change when it is well again."
                );
                SetMaster::None
            }
            Err(error) => {
                // It takes the change for that of somebody who moves files when it starts.
                tracing::debug!("the master does not know who changes keys: {error:#}");
                if is_stopped(&error) { SetMaster::Stopped } else { SetMaster::None }
            }
        }
    }

    /// Waits until a master that shares with others has stored what the changed files say. Returns what it could not store.
    fn not_told(&self, matching: &Map, verb: Verb) -> Option<String> {
        let question = map! { "what" => "confirm", "ids" => ids(matching), "deleted" => verb == Verb::Delete };
        match self.ask_master(question, CONFIRMED) {
            Ok(answer) => not_stored(&answer),
            Err(error) => {
                // The change is made; this is only about who knows.
                rt::complain!("The master has not confirmed that other masters are told: {error:#}");
                None
            }
        }
    }

    fn ask_master(&self, question: Map, patience: Duration) -> Result<Value> {
        let runtime = prepare::small_runtime().context("failed to start")?;
        let mut client = LocalClient::new(Rt::real(), client::settings::from_config(self.config));
        let answer = async move { tokio::time::timeout(patience, client.sharing(question)).await };
        let answer = runtime.block_on(answer).with_context(|| format!("no answer in {} s", patience.as_secs()))?;
        Ok(answer?)
    }

    /// Leaves out the classes without a flag. Deleting concerns all of them.
    fn concerned(&self, verb: Verb, mut matching: Map) -> Map {
        if verb == Verb::Delete {
            return matching;
        }
        let banks = [(true, Bank::Pending)].into_iter().chain([
            (self.include.accepted, Bank::Accepted),
            (self.include.rejected, Bank::Rejected),
            (self.include.denied, Bank::Denied),
        ]);
        let mut concerned = Map::new();
        for (_, bank) in banks.filter(|(included, _)| *included) {
            if let Some(ids) = matching.remove(bank.directory()).filter(Value::truthy) {
                concerned.insert(bank.directory(), ids);
            }
        }
        concerned
    }

    fn also(&self) -> Vec<Bank> {
        let classes = [
            (self.include.accepted, Bank::Accepted),
            (self.include.rejected, Bank::Rejected),
            (self.include.denied, Bank::Denied),
        ];
        classes.into_iter().filter(|(included, _)| *included).map(|(_, bank)| bank).collect()
    }
}

/// The master of this host, if it shares with others.
#[derive(Debug, PartialEq)]
enum SetMaster {
    /// It shares with nobody, or has been complained of.
    None,
    /// It does not run.
    Stopped,
    /// It answers.
    Answers,
}

/// Returns whether a question failed because the master does not run. One that was killed leaves its files.
fn is_stopped(error: &anyhow::Error) -> bool {
    use client::Error::{Bus, NotRunning, RequestPort};
    matches!(error.downcast_ref(), Some(NotRunning | RequestPort(_) | Bus(_)))
}

fn ids(matching: &Map) -> Vec<Value> {
    matching.iter().flat_map(|(_, ids)| ids.as_list().unwrap_or_default().to_vec()).collect()
}

/// Returns what to tell the operator if the master could not store some of the decisions. The reason is the same for all: the disk.
fn not_stored(answer: &Value) -> Option<String> {
    let refused = answer.as_map()?;
    let (_, reason) = refused.iter().next()?;
    let named: Vec<String> = refused.iter().take(MOST_NAMED).map(|(id, _)| id.to_string()).collect();
    let more =
        if refused.len() > MOST_NAMED { format!(" and {} more", refused.len() - MOST_NAMED) } else { String::new() };
    let named = named.join(", ");
    Some(format!(
        "the master could not store what was decided about {named}{more}, and tells other masters once it can: {reason}"
    ))
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Verb {
    Accept,
    Reject,
    Delete,
}

impl Verb {
    fn done(self) -> &'static str {
        match self {
            Verb::Accept => "accepted",
            Verb::Reject => "rejected",
            Verb::Delete => "deleted",
        }
    }
}

/// Asks for confirmation. An empty answer means yes, except for deleting; the end of input means no.
fn proceed(verb: Verb) -> Result<bool> {
    let (prompt, preset) = if verb == Verb::Delete { ("Proceed? [N/y] ", "n") } else { ("Proceed? [n/Y] ", "y") };
    crate::terminal::print(prompt);
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer).context("failed to read the answer")?;
    if read == 0 {
        // The shell's prompt must not follow the question on the same line.
        let _ = writeln!(std::io::stdout());
        return Ok(false);
    }
    let answer = answer.trim_end_matches(['\r', '\n']).to_lowercase();
    Ok((if answer.is_empty() { preset } else { &answer }).starts_with('y'))
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    #[test]
    fn an_operator_is_told_which_decisions_the_master_could_not_store() {
        assert_eq!(not_stored(&map! {}.into()), None);
        let two = map! { "web1" => "no space left", "web2" => "no space left" };
        assert!(
            not_stored(&two.into())
                .is_some_and(|text| text.contains("about web1, web2, and tells") && text.ends_with("no space left"))
        );
        let many: Map = (0..12).map(|number| (format!("web{number}"), "full")).collect();
        assert!(not_stored(&many.into()).is_some_and(|text| text.contains("web9 and 2 more, and")));
    }

    #[test]
    fn a_master_that_does_not_run_tells_others_later() {
        assert!(is_stopped(&client::Error::NotRunning.into()));
        let refused = client::Error::Refused("Authentication failure of type \"user\" occurred".into());
        assert!(!is_about_token(&refused) && !is_stopped(&refused.into()));
    }

    #[test]
    fn values_with_limits_are_checked() {
        assert!(check(&map! { "list" => "pre", "keysize" => 2048 }).is_ok());
        assert_eq!(check(&map! { "list" => "foo" }).unwrap_err(), "'foo' is not a valid argument to '--list'");
        assert_eq!(check(&map! { "keysize" => 100 }).unwrap_err(), "The minimum value for keysize is 2048");
        assert_eq!(check(&map! { "keysize" => 99999 }).unwrap_err(), "The maximum value for keysize is 32768");
    }
}

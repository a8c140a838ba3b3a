//! Calling zypper.

use std::time::{Duration, Instant};

use exec::{Context, Error, Result};
use value::{Map, Value, map};

use crate::packages::common;
use crate::subprocess::{Extra, Outcome};

/// The settings of a call of zypper.
#[derive(Clone, Default)]
pub struct Zypper {
    /// Another root directory.
    pub root: Option<String>,
    /// True if the output is XML.
    pub xml: bool,
    /// True if it only reads, so that it needs no lock.
    pub looks: bool,
    /// True if the package metadata may be refreshed.
    pub refreshes: bool,
    /// True if a failure is not an error.
    pub tolerant: bool,
    /// True if it must survive the end of the minion.
    pub scope: bool,
}

/// Exit codes that are not failures; the last two kinds are warnings.
// 100 to 103 are news (updates are there, restart), 6 is "no repositories", 106 and 107 are a
// skipped repo and a failed script.
const FINE: [i64; 8] = [0, 100, 101, 102, 103, 6, 106, 107];

/// Exit codes that say that all is well.
pub const WELL: [i64; 5] = [0, 100, 101, 102, 103];

/// Another one holds zypper's lock.
const LOCKED: i64 = 7;

/// The longest wait for the lock. `PAUSE` is the time between two attempts.
const PATIENCE: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_secs(5);

impl Zypper {
    /// A call in a root directory, if one is named.
    pub fn at(root: Option<&str>) -> Self {
        Zypper { root: root.filter(|root| !root.is_empty()).map(str::to_owned), ..Zypper::default() }
    }

    /// The same, that only looks and answers in XML.
    pub fn looking(root: Option<&str>) -> Self {
        Zypper { xml: true, looks: true, ..Zypper::at(root) }
    }

    fn words(&self, args: &[&str]) -> Vec<String> {
        let mut words = vec!["zypper", "--non-interactive"];
        words.extend(self.xml.then_some("--xmlout"));
        // Zypper would otherwise refresh every repo whose lists are old, in the middle of a simple
        // question.
        words.extend((!self.refreshes && !args.contains(&"--no-refresh")).then_some("--no-refresh"));
        words.extend(self.root.iter().flat_map(|root| ["--root", root.as_str()]));
        words.extend(args);
        words.into_iter().map(str::to_owned).collect()
    }

    /// Calls it; waits while another process holds the lock.
    ///
    /// # Errors
    /// When it fails, with its output.
    pub fn call<W: AsRef<str>>(&self, ctx: &Context, args: &[W]) -> Result<Outcome> {
        let args: Vec<&str> = args.iter().map(AsRef::as_ref).collect();
        let words = self.words(&args);
        let words = if self.scope { common::in_scope(ctx, words) } else { words };
        let begun = Instant::now();
        let mut blocked = false;
        // Only one zypper can run, and YaST or the automatic updates may be faster.
        let said = loop {
            let mut extra = Extra::default();
            // A call that only looks works without the lock.
            extra
                .env
                .extend((self.looks && !self.refreshes).then(|| ("ZYPP_READONLY_HACK".to_owned(), "1".to_owned())));
            let said = common::run(ctx, &words, extra)?;
            if said.retcode != Some(LOCKED) {
                break said;
            }
            if begun.elapsed() > PATIENCE {
                return Err(Error::execution("zypper is locked by another process for more than ten minutes"));
            }
            // Salt notifies the master once, so that an administrator can look for the holder of the lock.
            if !blocked {
                tell(ctx, map! { "info" => "Zypper is locked.", "success" => false }, "zypper/blocked")?;
            }
            blocked = true;
            ctx.sleep(PAUSE);
        };
        let problem = self.problem(&said);
        if blocked {
            let info = problem.clone().unwrap_or_else(|| "Zypper has been released".to_owned());
            tell(ctx, map! { "success" => problem.is_none(), "info" => info }, "zypper/released")?;
        }
        match problem {
            Some(why) if !self.tolerant => Err(Error::execution(format!("Zypper command failure: {why}"))),
            _ => Ok(said),
        }
    }

    /// Returns zypper's error message, or None if the call went well.
    fn problem(&self, said: &Outcome) -> Option<String> {
        if said.retcode.is_some_and(|code| FINE.contains(&code)) {
            return None;
        }
        let (stdout, stderr) = (said.stdout.trim(), said.stderr.trim());
        let text = if !self.xml {
            format!("{stderr}{stdout}")
        } else if let Ok(found) = roxmltree::Document::parse(stdout) {
            // With `--xmlout` errors are messages in the answer, and stderr is empty.
            let errors = found.descendants().filter(|node| node.has_tag_name("message"));
            let errors = errors.filter(|node| node.attribute("type") == Some("error")).filter_map(|node| node.text());
            errors.collect::<Vec<_>>().join("\n")
        } else {
            stderr.to_owned()
        };
        Some(if text.is_empty() { "Check Zypper's logs.".to_owned() } else { text })
    }

    /// Calls it and returns the elements of a name with their attributes.
    pub fn elements<W: AsRef<str>>(&self, ctx: &Context, args: &[W], name: &str) -> Result<Vec<Map>> {
        let said = self.call(ctx, args)?;
        let found = parsed(&said.stdout)?;
        Ok(found.descendants().filter(|node| node.has_tag_name(name)).map(attributes).collect())
    }
}

fn tell(ctx: &Context, data: Map, tag: &str) -> Result<()> {
    // `salt-call --local` has no master. That must not stop the installation.
    match ctx.call("event.fire_master", vec![data.into(), tag.into()]) {
        Err(error) => {
            tracing::debug!("the event {tag} was not sent: {error}");
            Ok(())
        }
        Ok(_) => Ok(()),
    }
}

/// Reads an answer in XML.
///
/// # Errors
/// When it is none.
pub fn parsed(text: &str) -> Result<roxmltree::Document<'_>> {
    roxmltree::Document::parse(text.trim())
        .map_err(|error| Error::execution(format!("the answer of zypper is not XML: {error}")))
}

/// The attributes of an element.
pub fn attributes(node: roxmltree::Node) -> Map {
    node.attributes().map(|attribute| (attribute.name(), attribute.value())).collect()
}

/// An attribute; empty when there is none.
pub fn attribute<'a>(element: &'a Map, name: &str) -> &'a str {
    element.get(name).and_then(Value::as_str).unwrap_or_default()
}

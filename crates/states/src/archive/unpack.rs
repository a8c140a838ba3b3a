//! Unpacks the archive and reports it.

use std::path::{Path, PathBuf};

use exec::{Call, Error, Result};
use modules::archive::{TarStream, unpack_tar};
use python::shlex as words;
use value::{Value, list, map};

use super::Step;
use super::compare::Difference;
use super::plan::Plan;
use crate::Ret;
use crate::support::{call_with_kwargs, saltenv};

impl Plan<'_> {
    /// Carries out the plan.
    pub(super) fn apply(mut self) -> Result<Ret> {
        let found = match self.compare()? {
            Ok(found) => found,
            Err(ret) => return Ok(ret),
        };
        let mut files = Value::Null;
        let mut made = false;
        if found.needed {
            if let Some(ret) = self.prepare(&found)? {
                return Ok(ret);
            }
            // Made by the state function, so that missing parents get the right owner as well.
            if !Path::new(&self.dir).is_dir() {
                let kwargs = map! { "user" => self.given.user.clone(), "makedirs" => true };
                self.ctx.call_state("file.directory", Call { args: vec![self.dir.as_str().into()], kwargs })?;
                made = true;
            }
            files = match self.unpack()? {
                Ok(files) => files,
                Err(ret) => return Ok(ret),
            };
        }
        // Also without unpacking: the owner may have changed since.
        let owned = self.hand_over()?;
        self.tell(&found, files, made);
        owned.tell(&mut self.ret, self.given.if_missing.is_some());
        // A local archive belongs to the user and is never deleted.
        if !self.local && !self.keep_source {
            self.forget_source()?;
        }
        Ok(self.ret)
    }

    fn unpack(&mut self) -> Step<Value> {
        let unpacked = match (self.format.as_str(), &self.given.options) {
            // Options decide for tar only: without any the library does the work, with them the
            // program has to.
            ("zip", _) => self.unzip(),
            ("rar", _) => {
                let mut arguments = self.given.rest.clone();
                arguments.update(map! {
                    "rarfile" => self.cached.clone(), "dest" => self.dir.clone(), "trim_output" => self.trim_argument(),
                });
                call_with_kwargs(self.ctx, "archive.unrar", arguments)
            }
            (_, None) => self.untar(),
            (_, Some(options)) => return self.untar_by_program(&options.clone()),
        };
        match unpacked {
            Ok(files) => Ok(Ok(files)),
            Err(error @ (Error::Execution(_) | Error::CommandNotFound(_))) => Ok(Err(self.fail(error.to_string()))),
            Err(error) => Err(error),
        }
    }

    fn trim_argument(&self) -> Value {
        self.trim.map_or(Value::Bool(false), Value::from)
    }

    fn unzip(&self) -> Result<Value> {
        let mut arguments = self.given.rest.clone();
        arguments.update(map! {
            "zip_file" => self.cached.clone(), "dest" => self.dir.clone(), "options" => self.given.options.clone(),
            "trim_output" => self.trim_argument(), "password" => self.given.password.clone(),
        });
        if self.by_program {
            return call_with_kwargs(self.ctx, "archive.cmd_unzip", arguments);
        }
        arguments.insert("extract_perms", self.given.extract_perms);
        call_with_kwargs(self.ctx, "archive.unzip", arguments)
    }

    fn untar(&self) -> Result<Value> {
        let (cached, dir) = (PathBuf::from(&self.cached), PathBuf::from(&self.dir));
        let names = self.ctx.blocking(move || TarStream::open(&cached).and_then(|stream| unpack_tar(stream, &dir)));
        let names = names.map_err(|error| {
            Error::execution(format!("Failed to extract {} to {}: {error}", self.redacted_source(), self.dir))
        })?;
        Ok(self.trimmed(names).into())
    }

    fn trimmed(&self, mut names: Vec<String>) -> Vec<String> {
        if let Some(trim) = self.trim {
            names.truncate(usize::try_from(trim).unwrap_or_default());
        }
        names
    }

    fn untar_by_program(&mut self, options: &str) -> Step<Value> {
        if modules::util::which("tar").is_none() {
            return Ok(Err(self.fail("tar command not available, it might not be installed on minion")));
        }
        let given = words::split(options).map_err(|error| Error::Other(error.to_string()))?;
        // Verbose is always on, because its output is the list of files.
        let given = given.into_iter().filter(|word| !["v", "-v", "--verbose"].contains(&word.as_str()));
        let (mut short, mut long) = ("xv".to_owned(), Vec::new());
        for (position, word) in given.enumerate() {
            // Only the first word may be a bundle of letters without a dash, such as `xzf`.
            if word.starts_with('-') || position > 0 {
                long.push(word);
            } else {
                short.push_str(&word.replace(['x', 'f'], ""));
            }
        }
        let mut command = vec!["tar".to_owned(), short];
        command.extend(long);
        command.extend(["-f".to_owned(), self.cached.clone()]);
        let arguments = map! { "cmd" => command, "cwd" => self.dir.clone(), "python_shell" => false };
        let result = call_with_kwargs(self.ctx, "cmd.run_all", arguments)?;
        if result.get("retcode") != Some(&Value::Int(0)) {
            // Salt puts the output of the program into the changes and leaves the comment empty.
            self.ret.changes = result.into_map().unwrap_or_default();
            return Ok(Err(self.fail("")));
        }
        let output = result.get("stdout").and_then(Value::as_str).unwrap_or_default();
        let names = self.trimmed(output.lines().map(str::to_owned).collect());
        // tar can succeed silently. An empty list would be taken for a failure.
        Ok(Ok(if names.is_empty() { "no tar output so far".into() } else { names.into() }))
    }

    fn tell(&mut self, found: &Difference, files: Value, made: bool) {
        if found.needed {
            // Something was missing, yet nothing was unpacked.
            if !files.truthy() {
                self.ret.result = Some(false);
                self.ret.comment = format!("No files were extracted from {}", self.redacted_source()).into();
                return;
            }
            if made {
                self.ret.changes.insert("directories_created", list![self.dir.clone()]);
            }
            self.ret.changes.insert("extracted_files", files);
            let trimmed = match self.trim {
                Some(count) => format!(". Output was trimmed to {count} number of lines"),
                None => String::new(),
            };
            let text = format!("{} extracted to {}{}{trimmed}", self.redacted_source(), self.dir, found.reason());
            self.ret.comment = text.into();
            self.ret.result = Some(true);
            return;
        }
        self.ret.result = Some(true);
        self.ret.comment = "All files in archive are already present".into();
        if self.ctx.is_test() && self.ret.changes.contains_key("updated ownership") {
            self.ret.result = None;
            self.ret.comment = "All files in archive are already present. Ownership would be updated on one or more \
                                files/directories."
                .into();
        }
    }

    fn forget_source(&mut self) -> Result<()> {
        let kwargs = map! { "saltenv" => saltenv(self.ctx) };
        let call = Call { args: vec![self.source.as_str().into()], kwargs };
        let done = Ret::from_value(self.ctx.call_state("file.not_cached", call)?);
        if done.result != Some(true) {
            let warnings = self.ret.more.entry_or_insert_with("warnings", || Value::List(Vec::new()));
            if let Value::List(warnings) = warnings {
                warnings.push(done.comment);
            }
        }
        Ok(())
    }
}

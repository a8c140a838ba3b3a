//! Removing old jobs.

use std::path::Path;
use std::time::{Duration, SystemTime};

use super::{Cleaned, Files};
use crate::{Result, disk};

impl Files {
    /// Removes jobs whose `jid` file is older than `keep` (option `keep_jobs_seconds`), and directories that are not
    /// jobs.
    ///
    /// A `keep` of zero keeps everything. Files that cannot be removed are left, with a warning.
    pub(super) fn clean_up(&self, keep: Duration, now: SystemTime) -> Result<Cleaned> {
        let mut cleaned = Cleaned::default();
        if keep.is_zero() {
            return Ok(cleaned);
        }
        for top in disk::names(self.root())? {
            let top = self.root().join(top);
            let jobs = disk::names(&top)?;
            if jobs.is_empty() && older(&top, keep, now) {
                // A job may be about to be created in it, so only an empty directory is removed.
                let _ = std::fs::remove_dir(&top);
            }
            for job in jobs {
                self.clean_job(&top.join(job), keep, now, &mut cleaned);
            }
        }
        Ok(cleaned)
    }

    fn clean_job(&self, job: &Path, keep: Duration, now: SystemTime, cleaned: &mut Cleaned) {
        let jid = job.join("jid");
        // Salt checks the modification time of this file. That of the directory changes with each return.
        let count = match jid.is_file() {
            // The directory is created shortly before the file, so a young one may be a job that is being published.
            false if !older(job, CREATION_TIME, now) => return,
            false => &mut cleaned.broken,
            true if older(&jid, keep, now) => &mut cleaned.old,
            true => return,
        };
        match disk::remove_tree(job) {
            Ok(removed) => *count += usize::from(removed),
            Err(error) => tracing::error!("{error}"),
        }
    }
}

/// The time for which a job's directory may lack the file that names the job.
const CREATION_TIME: Duration = Duration::from_secs(60);

fn older(path: &Path, keep: Duration, now: SystemTime) -> bool {
    let modified = std::fs::metadata(path).and_then(|metadata| metadata.modified());
    modified.is_ok_and(|modified| now.duration_since(modified).is_ok_and(|age| age > keep))
}

//! Requests about jobs that only Saltern has: what a master says of a job, and what a minion says of the jobs it missed.

use value::Map;

use super::field::{Lenient, Text, Texts, load};

macro_rules! about_one_job {
    ($(#[$meta:meta])* $name:ident, $cmd:literal) => {
        load! {
            $(#[$meta])*
            pub struct $name {
                /// The job.
                pub jid: Text,
                cmd $cmd;
            }
        }

        impl $name {
            /// Asks about a job.
            pub fn new(jid: &str) -> Self {
                $name { jid: Text(jid.to_owned()), extra: Map::new() }
            }
        }
    };
}

about_one_job!(
    /// A program asks how far a job is with each of its minions. Answer: a map with `job`, which is `None` for an unknown job.
    JobProgress, "saltern_job"
);
about_one_job!(
    /// A program asks which minions of a job are not connected and did not get it. Answer: a map with `away`, which is `None` if
    /// the master cannot tell.
    AwayMinions, "saltern_away"
);
about_one_job!(
    /// A program ends a held job. Answer: a map with `dropped`, which says whether there was one.
    DropJob, "saltern_drop"
);

load! {
    /// A minion asks for the jobs that it missed. Answer: a map with `jobs`.
    pub struct MissedJobs {
        cmd "saltern_missed";
        /// The ids of the jobs that it knows.
        pub known: Texts,
    }
}

load! {
    /// A minion acknowledges jobs. Answer: a map with `gone`, those of `received` that it must not begin any more.
    pub struct ReceivedJobs {
        cmd "saltern_received";
        /// The ids of the jobs that it received.
        pub received: Texts,
        /// The ids of the jobs that it began.
        pub started: Texts,
    }
}

load! {
    /// A minion sends a return to another master than the one that published the job. Answer: true if the return is stored,
    /// false if it is refused, an empty text if it should be sent again.
    pub struct ReturnForPeer {
        cmd "saltern_return";
        /// The master that published the job: `id` and `address`.
        pub publisher: Lenient<Map>,
        /// Fields of the publication that the return lacks.
        pub job: Lenient<Map>,
        /// The return, as the minion would send it to its own master.
        pub load: Map,
    }
}

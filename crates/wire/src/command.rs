//! The commands that a master answers.
//!
//! This table is the only list of them: the channel reads here how a command proves its sender and whether it may arrive twice,
//! the master has a handler for each, and `docs/requests.md` is generated from it. Sign-ins (`_auth`) are no commands: they are
//! what the channel begins with.

/// Who sends a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A program on the master's host, unencrypted.
    Program,
    /// A minion with an accepted key, encrypted.
    Minion,
}

impl Origin {
    fn word(self) -> &'static str {
        match self {
            Origin::Program => "program",
            Origin::Minion => "minion",
        }
    }
}

/// How a sender proves who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Not at all: anybody may send it.
    Nothing,
    /// By the key or token of a user, in the load.
    User,
    /// By a token, in the encrypted load.
    Token,
    /// As [`Proof::Token`], but releases before 3006.12 and 3007.4 send it without a token. Such minions could not work if
    /// it were refused, so it is accepted from minions that have never used version 3 of the envelope.
    TokenOrOldRelease,
}

impl Proof {
    fn word(self) -> &'static str {
        match self {
            Proof::Nothing => "nothing",
            Proof::User => "key or token of a user",
            Proof::Token => "token",
            Proof::TokenOrOldRelease => "token, except from old releases",
        }
    }
}

/// What happens to an encrypted request that arrives a second time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// It is refused as a replay.
    Refused,
    /// It is answered each time. Honest minions repeat such requests with the same nonce: Salt does so with `_pillar` when the
    /// answer is late.
    Answered,
}

impl Repeat {
    fn word(self) -> &'static str {
        match self {
            Repeat::Refused => "refused",
            Repeat::Answered => "answered",
        }
    }
}

/// What holds for all requests with a command.
struct Rules {
    name: &'static str,
    about: &'static str,
    origin: Origin,
    proof: Proof,
    repeat: Repeat,
}

macro_rules! commands {
    ($( #[doc = $about:literal] $command:ident $name:literal $origin:ident $proof:ident $($repeat:ident)?; )*) => {
        /// A command of a master.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Command {
            $( #[doc = $about] $command, )*
        }

        impl Command {
            /// All commands.
            pub const ALL: &[Command] = &[$( Command::$command ),*];

            /// Returns the command with this name on the wire.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $( $name => Some(Command::$command), )*
                    _ => None,
                }
            }

            fn rules(self) -> Rules {
                match self {
                    $( Command::$command => Rules {
                        name: $name,
                        about: $about,
                        origin: Origin::$origin,
                        proof: Proof::$proof,
                        repeat: commands!(@repeat $($repeat)?),
                    }, )*
                }
            }
        }
    };
    (@repeat) => { Repeat::Refused };
    (@repeat $repeat:ident) => { Repeat::$repeat };
}

commands! {
    /// Echoes the request.
    Ping "ping" Program Nothing;
    /// Publishes a job.
    Publish "publish" Program User;
    /// Starts a runner.
    Runner "runner" Program User;
    /// Runs a wheel function.
    Wheel "wheel" Program User;
    /// Returns the user, backend, groups and expiry of a token.
    GetToken "get_token" Program Nothing;
    /// Makes a token for a user who logs in (`external_auth`).
    MakeToken "mk_token" Program Nothing;
    /// Says which minions of a target are connected.
    Alive "saltern_alive" Program User;
    /// Says which minions of a job are not connected and did not get it.
    Away "saltern_away" Program User;
    /// Lists the held jobs.
    HeldJobs "saltern_held" Program User;
    /// Says how far a job is with each of its minions.
    JobProgress "saltern_job" Program User;
    /// Ends a held job.
    DropJob "saltern_drop" Program User;
    /// Shows the set of masters that this one shares with (members, decisions, leases, drift), and changes it.
    Sharing "saltern_sharing" Program User;
    /// Returns the master's metrics.
    Status "saltern_status" Program User;
    /// Stores the result of a job.
    Return "_return" Minion TokenOrOldRelease Refused;
    /// Puts events on the master's bus.
    MinionEvent "_minion_event" Minion Token Refused;
    /// Reads a chunk of a file.
    ServeFile "_serve_file" Minion Token Answered;
    /// Returns the hash of a file.
    FileHash "_file_hash" Minion Token Answered;
    /// Returns the hash and `stat` of a file.
    FileHashAndStat "_file_hash_and_stat" Minion Token Answered;
    /// Returns the location of a file.
    FileFind "_file_find" Minion Token Answered;
    /// Lists the files of an environment.
    FileList "_file_list" Minion Token Answered;
    /// Lists the empty directories of an environment.
    FileListEmptyDirs "_file_list_emptydirs" Minion Token Answered;
    /// Lists the directories of an environment.
    DirList "_dir_list" Minion Token Answered;
    /// Lists the symbolic links of an environment.
    SymlinkList "_symlink_list" Minion Token Answered;
    /// Lists the environments.
    FileEnvs "_file_envs" Minion Token Answered;
    /// Pushes a chunk of a file to the master.
    FileReceive "_file_recv" Minion Token Refused;
    /// Compiles the minion's pillar. The data that it leaves on the master is stored once for each nonce.
    Pillar "_pillar" Minion TokenOrOldRelease Answered;
    /// Returns the master's options for states.
    MasterOpts "_master_opts" Minion Token Answered;
    /// Returns the SLS files that `master_tops` assigns to the minion.
    MasterTops "_master_tops" Minion Token Answered;
    /// Stores values in the minion's mine.
    Mine "_mine" Minion Token Refused;
    /// Reads mines of other minions.
    MineGet "_mine_get" Minion Token Answered;
    /// Deletes a value of the minion's mine.
    MineDelete "_mine_delete" Minion Token Refused;
    /// Deletes the minion's mine.
    MineFlush "_mine_flush" Minion Token Refused;
    /// Stores results of minions below a syndic.
    SyndicReturn "_syndic_return" Minion TokenOrOldRelease Refused;
    /// Names the resources that the minion manages.
    RegisterResources "_register_resources" Minion Token Refused;
    /// Publishes a job for the minion.
    PeerPublish "minion_pub" Minion Token Refused;
    /// Publishes a job for the minion and waits for the returns.
    PeerPublishAndWait "minion_publish" Minion Token Refused;
    /// Runs a runner for the minion.
    PeerRunner "minion_runner" Minion Token Refused;
    /// Reads the returns of a job that the minion published.
    PeerReturns "pub_ret" Minion Token Answered;
    /// Stores the result of a job in place of the master that published it.
    ReturnForPeer "saltern_return" Minion Token Refused;
    /// Deletes the minion's own key.
    RevokeAuth "revoke_auth" Minion Token Refused;
    /// Asks for the jobs that the minion missed.
    MissedJobs "saltern_missed" Minion Token Refused;
    /// Acknowledges jobs that the minion received and began.
    ReceivedJobs "saltern_received" Minion Token Refused;
}

impl Command {
    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        self.rules().name
    }

    /// Returns who sends the command. From others it is unknown.
    pub fn origin(self) -> Origin {
        self.rules().origin
    }

    /// Returns how the sender proves who it is.
    pub fn proof(self) -> Proof {
        self.rules().proof
    }

    /// Returns what happens to an encrypted request that arrives a second time.
    pub fn repeat(self) -> Repeat {
        self.rules().repeat
    }
}

/// Returns the text of `docs/requests.md`.
pub fn page() -> String {
    let mut page = String::from(
        "# Requests\n\nEvery command that a Saltern master answers. The handlers are in `crates/master/src/requests/`.\n\n\
         - sender: programs on the master's host send unencrypted requests, minions encrypted ones.\n\
         - proof: what shows who the sender is, apart from the encryption. Old releases are those before 3006.12 and 3007.4.\n\
         - repeated: what happens to a minion's request that arrives a second time.\n\nCommands that begin with `saltern_` \
         exist only in Saltern.\n\n\
         The sign-in of a minion, `_auth`, is not in the table: the channel (`crates/channel`) answers it. The minion\n\
         sends its public key, unencrypted. If that key is accepted, the answer has the session key, encrypted for the minion.\n\n\
         This page is generated by `cargo run -p saltern-wire --example requests > docs/requests.md`.\n\
         \n| command | what it does | sender | proof | repeated |\n|---|---|---|---|---|\n",
    );
    for command in Command::ALL {
        let Rules { name, about, origin, proof, repeat } = command.rules();
        let repeated = match origin {
            Origin::Program => "",
            Origin::Minion => repeat.word(),
        };
        let row = [&format!("`{name}`"), about.trim(), origin.word(), proof.word(), repeated].join(" | ");
        page += &format!("| {row} |\n");
    }
    page
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn each_name_belongs_to_one_command() {
        for command in Command::ALL {
            assert_eq!(Command::from_name(command.name()), Some(*command));
        }
        assert_eq!(Command::from_name("_auth"), None);
    }

    #[test]
    fn only_minions_send_tokens() {
        for command in Command::ALL {
            let by_token = matches!(command.proof(), Proof::Token | Proof::TokenOrOldRelease);
            assert_eq!(by_token, command.origin() == Origin::Minion, "{command:?}");
        }
    }

    #[test]
    fn the_page_of_requests_is_current() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/requests.md");
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(written == page(), "{} is stale: it says how it is generated", path.display());
    }
}

//! The file server's requests and answers.

use bytes::Bytes;
use value::{Map, Value};

use super::field::load;
use crate::MinionId;

load! {
    /// Which environments are there? Answer: a list of names.
    pub struct FileEnvs {
        cmd "_file_envs";
    }
}

macro_rules! listing {
    ($(#[$meta:meta])* $name:ident, $cmd:literal) => {
        load! {
            $(#[$meta])*
            pub struct $name {
                /// The environment.
                pub saltenv: Option<Value>,
                /// Only what lies below this path.
                pub prefix: Option<Value>,
                cmd $cmd;
            }
        }
    };
}

listing!(
    /// Which files are there? Answer: a sorted list of relative paths.
    FileList, "_file_list"
);
listing!(
    /// Which directories are empty? Answer: a sorted list of relative paths.
    FileListEmptyDirs, "_file_list_emptydirs"
);
listing!(
    /// Which directories are there? Answer: a sorted list of relative paths.
    DirList, "_dir_list"
);
listing!(
    /// Which symbolic links are there? Answer: a map of path to target.
    SymlinkList, "_symlink_list"
);

macro_rules! about_one_file {
    ($(#[$meta:meta])* $name:ident, $cmd:literal) => {
        load! {
            $(#[$meta])*
            pub struct $name {
                /// The path within the environment.
                pub path: String,
                /// The environment.
                pub saltenv: Option<Value>,
                cmd $cmd;
            }
        }
    };
}

about_one_file!(
    /// What is the hash of a file? Answer: a [`FileSum`], or `""` if there is none.
    FileHash, "_file_hash"
);
about_one_file!(
    /// What are hash and `stat` of a file? Answer: a list of the hash map and a list of numbers.
    FileHashAndStat, "_file_hash_and_stat"
);
about_one_file!(
    /// Where is a file? Answer: a [`FileFound`].
    FileFind, "_file_find"
);

load! {
    /// The hash of a file.
    pub struct FileSum {
        /// The hash in hex.
        pub hsum: String,
        /// Its kind, for instance `sha256`.
        pub hash_type: String,
    }
}

load! {
    /// Where a file is.
    pub struct FileFound {
        /// Where it is on the master; empty if it is not.
        pub path: Value,
        /// Its path within the environment; empty if it is not.
        pub rel: Value,
        /// The ten numbers of Python's `stat`.
        pub stat: Option<Value>,
        /// The file server backend that has it.
        pub back: Option<Value>,
    }
}

load! {
    /// A piece of a file is wanted.
    pub struct ServeFile {
        /// The path within the environment.
        pub path: String,
        /// The environment.
        pub saltenv: Option<Value>,
        cmd "_serve_file";
        /// Where the piece begins, in bytes.
        pub loc: Option<i64>,
        /// The gzip level (1 to 9) the piece should be compressed with.
        pub gzip: Option<Value>,
    }
}

load! {
    /// A piece of a file; empty at its end.
    pub struct FileChunk {
        /// The piece.
        pub data: Bytes,
        /// The path that was asked for.
        pub dest: Value,
        /// The level it is compressed with, if it is.
        pub gzip: Option<Value>,
    }
}

load! {
    /// A minion hands a piece of a file to the master.
    pub struct FileReceive {
        cmd "_file_recv";
        /// Who.
        pub id: MinionId,
        /// The path in parts.
        pub path: Vec<String>,
        /// The size of the file in bytes.
        pub size: Option<i64>,
        /// Where the piece begins, in bytes.
        pub loc: i64,
        /// The piece.
        pub data: Bytes,
    }
}

impl FileChunk {
    /// Reads the answer to [`ServeFile`], which must have been unpacked in raw mode: keys are bytes.
    pub fn from_raw(value: Value) -> Result<Self, super::LoadError> {
        let Value::Map(map) = value else { return Self::from_value(value) };
        Self::from_map(map.into_iter().map(|(key, value)| (text_key(key), value)).collect::<Map>())
    }
}

fn text_key(key: Value) -> Value {
    match &key {
        Value::Bytes(bytes) => std::str::from_utf8(bytes).map(Value::from).unwrap_or(key),
        _ => key,
    }
}

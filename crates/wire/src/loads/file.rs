//! The file server's requests and answers.

use bytes::Bytes;
use value::{Map, Value};

use super::field::{Text, load};

load! {
    /// Asks for the environments. Answer: a list of names.
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
                /// Lists only paths below this one.
                pub prefix: Option<Value>,
                cmd $cmd;
            }
        }

        impl $name {
            /// Asks about the files below a path of an environment.
            pub fn new(saltenv: &str, prefix: &str) -> Self {
                $name { saltenv: Some(saltenv.into()), prefix: Some(prefix.into()), extra: Map::new() }
            }
        }
    };
}

listing!(
    /// Asks for the files of an environment. Answer: a sorted list of relative paths.
    FileList, "_file_list"
);
listing!(
    /// Asks for the empty directories of an environment. Answer: a sorted list of relative paths.
    FileListEmptyDirs, "_file_list_emptydirs"
);
listing!(
    /// Asks for the directories of an environment. Answer: a sorted list of relative paths.
    DirList, "_dir_list"
);
listing!(
    /// Asks for the symbolic links of an environment. Answer: a map of path to target.
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

        impl $name {
            /// Asks about a file of an environment.
            pub fn new(path: &str, saltenv: &str) -> Self {
                $name { path: path.to_owned(), saltenv: Some(saltenv.into()), extra: Map::new() }
            }
        }
    };
}

about_one_file!(
    /// Asks for the hash of a file. Answer: a [`FileSum`], or `""` if there is no such file.
    FileHash, "_file_hash"
);
about_one_file!(
    /// Asks for the hash and `stat` of a file. Answer: a list of the hash map and a list of numbers.
    FileHashAndStat, "_file_hash_and_stat"
);
about_one_file!(
    /// Asks for the location of a file. Answer: a [`FileFound`].
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
    /// The location of a file.
    pub struct FileFound {
        /// The absolute path on the master; empty if there is no such file.
        pub path: Value,
        /// The path within the environment; empty if there is no such file.
        pub rel: Value,
        /// The ten numbers of Python's `stat`.
        pub stat: Option<Value>,
        /// The file server backend that has it.
        pub back: Option<Value>,
    }
}

load! {
    /// Asks for a chunk of a file.
    pub struct ServeFile {
        /// The path within the environment: text, or a number.
        pub path: Value,
        /// The environment.
        pub saltenv: Option<Value>,
        cmd "_serve_file";
        /// The offset of the chunk in bytes.
        pub loc: Option<i64>,
        /// The gzip level (1 to 9) for compressing the chunk.
        pub gzip: Option<Value>,
    }
}

load! {
    /// Pushes a chunk of a file to the master. Answer: true if it is stored.
    pub struct FileReceive {
        cmd "_file_recv";
        /// The parts of the path.
        pub path: Vec<Text>,
        /// The size of the file in bytes.
        pub size: Option<Value>,
        /// The offset of the chunk in bytes.
        pub loc: i64,
        /// The chunk.
        pub data: Bytes,
    }
}

load! {
    /// A chunk of a file; empty at the end of the file.
    pub struct FileChunk {
        /// The chunk.
        pub data: Bytes,
        /// The requested path.
        pub dest: Value,
        /// The level it is compressed with, if it is.
        pub gzip: Option<Value>,
    }
}

impl FileChunk {
    /// Reads the answer to [`ServeFile`]. It must have been unpacked in raw mode, in which keys are bytes.
    pub fn from_raw(value: Value) -> Result<Self, super::LoadError> {
        let Value::Map(map) = value else { return Self::from_value(value) };
        // Only the keys become text. A chunk that happens to be valid UTF-8 must stay bytes.
        Self::from_map(map.into_iter().map(|(key, value)| (text_key(key), value)).collect::<Map>())
    }
}

fn text_key(key: Value) -> Value {
    match &key {
        Value::Bytes(bytes) => std::str::from_utf8(bytes).map(Value::from).unwrap_or(key),
        _ => key,
    }
}

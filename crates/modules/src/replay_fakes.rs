fakes! {
    "cmd.retcode"
    "cmd.run"
    "cmd.run_all"
    "cmd.run_stderr"
    "cmd.run_stdout"
    "cmd.shell"
    "cp.cache_file"
    "file.directory_exists"
    "file.mkdir"
    "file.replace"
    "mount.active"
    "mount.swaps"
}

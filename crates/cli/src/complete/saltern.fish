# Completion of Salt's commands for fish. Each Tab asks saltern.
function __saltern_complete
    set -l program (command -s saltern; or echo '{program}')
    set -l found ($program[1] complete fish (commandline -opc) (commandline -ct) 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
for name in {names}
    complete -c $name -f -a '(__saltern_complete)'
end

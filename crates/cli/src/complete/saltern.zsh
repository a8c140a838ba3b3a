#compdef {names}
# Completion of Salt's commands for zsh. Each Tab asks saltern.
_saltern() {
    local program=${commands[saltern]:-'{program}'}
    local -a found open done_
    found=("${(@f)$("$program" complete zsh "${(@Q)words[1,CURRENT]}" 2>/dev/null)}")
    found=("${(@)found:#}")
    if (( ! $#found )); then
        _files
        return
    fi
    # What ends with a dot or an equals sign goes on.
    open=("${(@M)found:#*[.=]}")
    done_=("${(@)found:#*[.=]}")
    (( $#open )) && _describe -V 'saltern' open -S ''
    (( $#done_ )) && _describe -V 'saltern' done_
}
if [ "$funcstack[1]" = "_saltern" ]; then
    _saltern "$@"
else
    compdef _saltern {names}
fi

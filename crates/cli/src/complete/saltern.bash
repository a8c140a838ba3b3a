# Completion of Salt's commands for bash. Each Tab asks saltern.
_saltern() {
    local program candidate
    program=$(type -P saltern) || program='{program}'
    COMPREPLY=()
    while IFS= read -r candidate; do
        COMPREPLY+=("$candidate")
    done < <("$program" complete bash "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[.=] ]]; then
        compopt -o nospace
    fi
}
complete -o default -F _saltern {names}

_dovetail() {
    local word="${COMP_WORDS[COMP_CWORD]}" known=
    if [ "$COMP_CWORD" -eq 1 ]; then
        known="@WORDS@"
    elif [[ "$word" == -* ]]; then
        known=$(dovetail "${COMP_WORDS[1]}" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]*' | sort -u)
    else
        case "${COMP_WORDS[COMP_CWORD-1]}" in
            --into | --from) known="@CLIENTS@" ;;
            --revision) known="@REVISIONS@" ;;
            completion) known="bash zsh fish" ;;
        esac
        if [ -z "$known" ] && [ "$COMP_CWORD" -gt 2 ] && [[ "${COMP_WORDS[1]}" =~ ^(call|read|prompt)$ ]]; then
            mapfile -t COMPREPLY < <(dovetail completion --line "${COMP_LINE:0:COMP_POINT}" </dev/null 2>/dev/null)
            if [ "${#COMPREPLY[@]}" -gt 0 ]; then
                compopt +o filenames 2>/dev/null
                [[ "${COMPREPLY[0]}" == *= ]] && compopt -o nospace 2>/dev/null
                return
            fi
        fi
    fi
    if [ -n "$known" ]; then
        COMPREPLY=($(compgen -W "$known" -- "$word"))
    else
        COMPREPLY=($(compgen -f -- "$word"))
    fi
}
complete -o filenames -F _dovetail dovetail

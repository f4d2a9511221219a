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
    fi
    if [ -n "$known" ]; then
        COMPREPLY=($(compgen -W "$known" -- "$word"))
    else
        COMPREPLY=($(compgen -f -- "$word"))
    fi
}
complete -o filenames -F _dovetail dovetail

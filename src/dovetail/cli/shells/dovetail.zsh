#compdef dovetail
_dovetail() {
    local -a commands options
    commands=(
@LINES@
    )
    if (( CURRENT == 2 )); then
        _describe command commands
    elif [[ "$words[CURRENT]" == -* ]]; then
        options=(${(f)"$(dovetail "$words[2]" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]*' | sort -u)"})
        compadd -a options
    else
        case "$words[CURRENT-1]" in
            --into | --from) compadd @CLIENTS@ ;;
            --revision) compadd @REVISIONS@ ;;
            completion) compadd bash zsh fish ;;
            *)
                if (( CURRENT > 3 )) && [[ "$words[2]" == (call|read|prompt) ]]; then
                    options=(${(f)"$(dovetail completion --words "${(@Q)words[2,CURRENT]}" </dev/null 2>/dev/null)"})
                    if (( $#options )); then
                        compadd -S '' -a options
                        return
                    fi
                fi
                _files
                ;;
        esac
    fi
}
compdef _dovetail dovetail

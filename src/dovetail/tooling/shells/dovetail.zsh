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
        _files
    fi
}
compdef _dovetail dovetail

function __dovetail_options
    set -l words (commandline -opc)
    dovetail $words[2] --help 2>/dev/null | string match -rag -- '(--[a-z][a-z-]*)' | sort -u
end
function __dovetail_words
    set -l words (commandline -opc)
    test (count $words) -gt 2; or return
    dovetail completion --words $words[2..] (commandline -ct) </dev/null 2>/dev/null
end
@LINES@
complete -c dovetail -n '__fish_seen_subcommand_from call read prompt' -a '(__dovetail_words)'
complete -c dovetail -n 'not __fish_use_subcommand' -a '(__dovetail_options)'
complete -c dovetail -n '__fish_seen_subcommand_from install' -l into -x -a '@CLIENTS@'
complete -c dovetail -n '__fish_seen_subcommand_from uninstall' -l from -x -a '@CLIENTS@'
complete -c dovetail -n '__fish_seen_subcommand_from list call read prompt inspect lock diff doctor stub bridge' -l revision -x -a '@REVISIONS@'
complete -c dovetail -n '__fish_seen_subcommand_from completion' -x -a 'bash zsh fish'

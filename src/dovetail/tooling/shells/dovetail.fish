function __dovetail_options
    set -l words (commandline -opc)
    dovetail $words[2] --help 2>/dev/null | string match -rag -- '(--[a-z][a-z-]*)' | sort -u
end
@LINES@
complete -c dovetail -n 'not __fish_use_subcommand' -a '(__dovetail_options)'

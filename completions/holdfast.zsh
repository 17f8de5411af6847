#compdef holdfast
# zsh completion of holdfast(1)
#
# Commands and options come from the help of the installed command, so this file does not have to list them.

# Fills `specs` with what _arguments needs for the options of a command, or with no argument those of all commands.
_holdfast_specs() {
    local line letter name value help action suffix
    local -a parts
    holdfast $1 --help 2>/dev/null | awk '
        function put() { if (name != "") print letter "\t" name "\t" value "\t" help; name = "" }
        /^Examples:/ { exit }
        /^  (-[A-Za-z], |    )--[a-z]/ {
            put()
            match($0, /--[a-z0-9-]+/)
            name = substr($0, RSTART, RLENGTH); help = substr($0, RSTART + RLENGTH); value = ""
            if (match(help, /^ [^ ]+/)) { value = substr(help, 2, RLENGTH - 1); help = substr(help, RLENGTH + 1) }
            sub(/^ +/, "", help)
            letter = substr($0, 3, 1) == "-" ? substr($0, 3, 2) : ""
            next
        }
        /^          +[^ ]/ && name != "" { sub(/^ +/, ""); help = help (help == "" ? "" : " ") $0; next }
        { put() }
        END { put() }' | while IFS= read -r line; do
        parts=("${(@ps:\t:)line}")
        letter=$parts[1] name=$parts[2] value=$parts[3] help=${${${parts[4]}//\[/\\[}//\]/\\]}
        action=
        case $name in
        --format) action='(holdfast awslabs dynamolock dlock lockservice single-table fail-open fail-closed)' ;;
        --color) action='(auto always never)' ;;
        --billing) action='(on-demand provisioned)' ;;
        --store) action=_holdfast_store ;;
        --key | --prefix) action=_holdfast_locks ;;
        *)
            case $value in
            FILE) action=_files ;;
            *\|*) action="(${value//\|/ })" ;;
            ?*) action=' ' ;;
            esac
            ;;
        esac
        suffix="[$help]${action:+:${value//:/\\:}:$action}"
        specs+=("$name${action:+=}$suffix")
        [[ -z $letter ]] || specs+=("$letter${action:++}$suffix")
    done
}

_holdfast_store() {
    if compset -P file:; then
        _files
    else
        compadd -S '' -- file: https:// dynamodb://
    fi
}

# The locks in the store that the command line or the settings name.
_holdfast_locks() {
    local -a given names
    local at
    for ((at = 2; at < CURRENT; at++)); do
        case $words[at] in
        --store | --token-file | --ca | --client-cert | --client-key | --format | --table | --config | --key-name | \
            --key-type | --sort-key | --key-prefix)
            given+=("$words[at]" "${(Q)words[at+1]}")
            ;;
        --store=* | --token-file=* | --ca=* | --client-*=* | --format=* | --table=* | --config=* | --key-*=* | \
            --sort-key=* | --fencing) given+=("${(Q)words[at]}") ;;
        esac
    done
    names=(${(f)"$(timeout 2 holdfast -q $given list --all 2>/dev/null)"})
    _wanted locks expl lock compadd -a names
}

_holdfast_commands() {
    local -a commands
    commands=(${(f)"$(holdfast --help 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) *\(.*\)/\1:\2/p')"}
        'help:show the help of a command')
    _describe -t commands command commands
}

_holdfast() {
    local -a specs
    local command word at count=0
    _holdfast_specs
    # Counts the words that are neither options nor their values; the first one is the command.
    for ((at = 2; at < CURRENT; at++)); do
        word=$words[at]
        if (( ${specs[(I)${(b)word}(=|+)\[*]} )); then
            ((at++))
        elif [[ $word != -* ]]; then
            ((++count == 1)) && command=$word && [[ $command != help ]] && _holdfast_specs $command
        fi
    done
    case $command in
    run | elect)
        specs+=('2:lock:_holdfast_locks')
        # Options of ours may stand before the command that is to be run.
        if ((count > 2)) || { ((count == 2)) && [[ $words[CURRENT] != -* ]] }; then
            specs+=('*:::command line:_normal')
        fi
        ;;
    acquire | get | watch) specs+=('2:lock:_holdfast_locks') ;;
    release)
        if (( ${words[(Ie)--force]} )); then specs+=('2:lock:_holdfast_locks'); else specs+=('2:grant: '); fi
        ;;
    table) specs+=('2:what to do:(create describe check sweep)') ;;
    help) specs+=('2:command:_holdfast_commands') ;;
    esac
    _arguments -S -s '1:command:_holdfast_commands' $specs
}

_holdfast "$@"

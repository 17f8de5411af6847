# bash completion of holdfast(1)
#
# Commands and options come from the help of the installed command, so this file does not have to list them.

# Prints the options of a command, or with no argument those of all commands: LETTER;NAME;VALUE;
_holdfast_options() {
    holdfast ${1:+"$1"} --help 2>/dev/null | awk '
        /^Examples:/ { exit }
        /^  (-[A-Za-z], |    )--[a-z]/ {
            match($0, /--[a-z0-9-]+/)
            name = substr($0, RSTART, RLENGTH); tail = substr($0, RSTART + RLENGTH); value = ""
            if (match(tail, /^ [^ ]+/)) value = substr(tail, 2, RLENGTH - 1)
            print (substr($0, 3, 1) == "-" ? substr($0, 3, 2) : "") ";" name ";" value ";"
        }'
}

# Completes the value of an option: _holdfast_value NAME VALUE WORD
_holdfast_value() {
    local name=$1 value=$2 word=$3
    case $name in
    --format) value="holdfast|awslabs|dynamolock|dlock|lockservice|single-table|fail-open|fail-closed" ;;
    --color) value="auto|always|never" ;;
    --billing) value="on-demand|provisioned" ;;
    --store)
        if [[ $word == file:* ]]; then
            COMPREPLY=($(compgen -P file: -f -- "${word#file:}"))
            compopt -o filenames 2>/dev/null
        else
            COMPREPLY=($(compgen -W "file: https:// dynamodb://" -- "$word"))
            compopt -o nospace 2>/dev/null
        fi
        return
        ;;
    --key | --prefix) value=LOCK ;;
    esac
    case $value in
    FILE)
        local IFS=$'\n'
        COMPREPLY=($(compgen -f -- "$word"))
        compopt -o filenames 2>/dev/null
        ;;
    LOCK) _holdfast_locks "$word" ;;
    *"|"*) COMPREPLY=($(compgen -W "${value//|/ }" -- "$word")) ;;
    esac
}

# Completes a lock name, from the store that the command line or the settings name. Uses `given` of its caller.
_holdfast_locks() {
    local word=$1 name
    COMPREPLY=()
    while IFS= read -r name; do
        [[ $name == "$word"* ]] && COMPREPLY+=("$(printf %q "$name")")
    done < <(timeout 2 holdfast -q "${given[@]}" list --all 2>/dev/null)
}

_holdfast() {
    local line=() word= at option letter name value rest command= words=0 ended= options=
    local given=() # options that say where the locks are
    COMPREPLY=()
    # bash splits words at = and :, which are parts of ours.
    for ((at = 0; at <= COMP_CWORD; at++)); do
        if ((at > 1)) && [[ ${COMP_WORDS[at]} == : || ${COMP_WORDS[at - 1]} == : ]] && ((${#line[@]} > 1)); then
            line[-1]+=${COMP_WORDS[at]}
        else
            line+=("${COMP_WORDS[at]}")
        fi
    done
    word=${line[-1]}
    unset 'line[-1]'
    [[ $word == "=" ]] && word= && line+=("=")

    options=$(_holdfast_options)
    for ((at = 1; at < ${#line[@]}; at++)); do
        if [[ ${line[at]} == -- ]]; then
            ended=yes
        elif [[ ${line[at]} == -* && -z $ended ]]; then
            option=$(grep -F -e ";${line[at]};" <<<"$options" || grep -e "^${line[at]};" <<<"$options")
            IFS=';' read -r letter name value rest <<<"$option"
            [[ -n $value ]] || { [[ $name == --fencing ]] && given+=("$name"); continue; }
            [[ ${line[at + 1]-} == "=" ]] && ((at++))
            if ((at + 1 >= ${#line[@]})); then
                _holdfast_value "$name" "$value" "$word"
                _holdfast_trim "$word"
                return
            fi
            ((at++))
            case $name in
            --store | --token-file | --ca | --client-cert | --client-key | --format | --table | --config | --key-name | \
                --key-type | --sort-key | --key-prefix)
                given+=("$name" "${line[at]}")
                ;;
            esac
        elif [[ -z $command ]]; then
            command=${line[at]}
            options+=$'\n'$(_holdfast_options "$command")
        else
            ((++words))
            # The rest is the command line of another program.
            [[ $command == run || $command == elect ]] && ((words == 2)) && break
        fi
    done

    if [[ $word == -* && -z $ended ]] && ((words < 2)); then
        COMPREPLY=($(compgen -W "$(cut -d ';' -f 2 <<<"$options")" -- "$word"))
    elif [[ -z $command || $command == help ]]; then
        local commands
        commands=$(holdfast --help 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
        COMPREPLY=($(compgen -W "$commands help" -- "$word"))
    elif [[ $command == table ]]; then
        ((words == 0)) && COMPREPLY=($(compgen -W "create describe check sweep" -- "$word"))
    elif ((words == 0)); then
        case $command in
        run | acquire | get | watch | elect) _holdfast_locks "$word" ;;
        release) [[ " ${line[*]} " == *" --force "* ]] && _holdfast_locks "$word" ;;
        esac
    elif [[ $command == run || $command == elect ]]; then
        # `at` is where the other command line begins, counted in our words; the last ones are the same in COMP_WORDS.
        local first=$((words < 2 ? COMP_CWORD : COMP_CWORD - (${#line[@]} - at)))
        if declare -F _command_offset >/dev/null; then
            _command_offset "$first"
        elif ((words < 2)); then
            COMPREPLY=($(compgen -c -f -- "$word"))
        else
            COMPREPLY=($(compgen -f -- "$word"))
        fi
        return
    fi
    _holdfast_trim "$word"
}

# bash replaces only what stands after the last : or =, so nothing before it may be repeated.
_holdfast_trim() {
    local word=$1 at
    [[ $word == *:* && $COMP_WORDBREAKS == *:* ]] || return 0
    for at in "${!COMPREPLY[@]}"; do
        COMPREPLY[at]=${COMPREPLY[at]#"${word%"${word##*:}"}"}
    done
}

complete -F _holdfast holdfast

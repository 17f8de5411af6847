# fish completion of holdfast(1)
#
# Commands and options come from the help of the installed command, so this file does not have to list them.

# Prints the options of a command, or with no argument those of all commands: LETTER, NAME, VALUE and help, each
# followed by a tab.
function __holdfast_options
    holdfast $argv --help 2>/dev/null | awk '
        function put() { if (name != "") print letter "\t" name "\t" value "\t" help; name = "" }
        /^Examples:/ { exit }
        /^  (-[A-Za-z], |    )--[a-z]/ {
            put()
            match($0, /--[a-z0-9-]+/)
            name = substr($0, RSTART + 2, RLENGTH - 2); help = substr($0, RSTART + RLENGTH); value = ""
            if (match(help, /^ [^ ]+/)) { value = substr(help, 2, RLENGTH - 1); help = substr(help, RLENGTH + 1) }
            sub(/^ +/, "", help)
            letter = substr($0, 3, 1) == "-" ? substr($0, 4, 1) : ""
            next
        }
        /^          +[^ ]/ && name != "" { sub(/^ +/, ""); help = help (help == "" ? "" : " ") $0; next }
        { put() }
        END { put() }'
end

# Splits the command line: prints the words that are neither options nor their values, the command first.
function __holdfast_words
    set -l skip no
    set -l with_value $__holdfast_values_
    set -l command
    for word in (commandline -opc)[2..-1]
        if test $skip = yes
            set skip no
        else if string match -q -- '-*' $word
            contains -- $word $with_value; and set skip yes
        else
            if test -z "$command"
                set command $word
                set -l name __holdfast_values_$command
                set -q $name; and set -a with_value $$name
            end
            echo -- $word
        end
    end
end

# True if the command is one of the arguments; without arguments, if there is none yet.
function __holdfast_command
    set -l words (__holdfast_words)
    test (count $argv) -eq 0 -a (count $words) -eq 0
    or contains -- "$words[1]" $argv
end

# True if the next word is the Nth of a command: __holdfast_at N COMMAND…
function __holdfast_at
    set -l words (__holdfast_words)
    test (count $words) -eq $argv[1]
    and contains -- "$words[1]" $argv[2..-1]
end

# The locks in the store that the command line or the settings name.
function __holdfast_locks
    set -l given
    set -l words (commandline -opc)
    for at in (seq 2 (count $words))
        if contains -- $words[$at] --store --token-file --ca --client-cert --client-key --format --table --config \
                --key-name --key-type --sort-key --key-prefix
            set -a given $words[$at] $words[(math $at + 1)]
        else if test "$words[$at]" = --fencing
            set -a given --fencing
        end
    end
    timeout 2 holdfast -q $given list --all 2>/dev/null
end

function __holdfast_stores
    set -l path (string replace -rf '^(--store=)?file:' '' -- (commandline -ct))
    if test (count $path) -eq 1
        string replace -r '^' file: -- $path*
    else
        string split ' ' "file: https:// dynamodb://"
    end
end

# True within the command line that run and elect execute. It begins with the third word that is not an option.
function __holdfast_subcommand
    set -l words (__holdfast_words)
    contains -- "$words[1]" run elect
    and test (count $words) -ge 2
    and begin
        test (count $words) -ge 3
        or not string match -q -- '-*' (commandline -ct)
    end
end

function __holdfast_complete_subcommand
    set -l rest (__holdfast_words)[3..-1] (commandline -ct)
    complete -C (string join ' ' -- (string escape -- $rest[1..-2]) $rest[-1])
end

# Declares the options of a command under a condition, and remembers which of them take a value.
function __holdfast_declare
    set -l condition $argv[1]
    for line in (__holdfast_options $argv[2])
        set -l part (string split \t -- $line)
        set -l flags -l $part[2] -d $part[4]
        test -n "$part[1]"; and set -a flags -s $part[1]
        if test -n "$part[3]"
            set -ga "__holdfast_values_$argv[2]" --$part[2]
            test -n "$part[1]"; and set -ga "__holdfast_values_$argv[2]" -$part[1]
        end
        switch "$part[2]:$part[3]"
            case 'format:*'
                set -a flags -x -a "holdfast awslabs dynamolock dlock lockservice single-table fail-open fail-closed"
            case 'color:*'
                set -a flags -x -a "auto always never"
            case 'billing:*'
                set -a flags -x -a "on-demand provisioned"
            case 'store:*'
                set -a flags -x -a "(__holdfast_stores)"
            case 'key:*' 'prefix:*'
                set -a flags -x -a "(__holdfast_locks)"
            case '*:FILE'
                set -a flags -r -F
            case '*:*|*'
                set -a flags -x -a (string replace -a '|' ' ' -- $part[3])
            case '*:?*'
                set -a flags -x
        end
        complete -c holdfast -n $condition $flags
    end
end

complete -c holdfast -f
__holdfast_declare "not __holdfast_subcommand"
for line in (holdfast --help 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) *\(.*\)/\1\t\2/p')
    set -l part (string split \t -- $line)
    complete -c holdfast -n __holdfast_command -a $part[1] -d $part[2]
    complete -c holdfast -n "__holdfast_at 1 help" -a $part[1] -d $part[2]
    __holdfast_declare "__holdfast_command $part[1]; and not __holdfast_subcommand" $part[1]
end
complete -c holdfast -n __holdfast_command -a help -d "show the help of a command"
complete -c holdfast -n "__holdfast_at 1 run acquire get watch elect" -a "(__holdfast_locks)"
complete -c holdfast -n "__holdfast_at 1 release; and contains -- --force (commandline -opc)" -a "(__holdfast_locks)"
complete -c holdfast -n "__holdfast_at 1 table" -a "create describe check sweep"
complete -c holdfast -n __holdfast_subcommand -a "(__holdfast_complete_subcommand)"

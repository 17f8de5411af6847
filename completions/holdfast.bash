# bash completion of holdfast(1)

_holdfast() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command= i
    local commands="run acquire renew release get list watch elect table doctor bench serve"
    local all="--store --token-file --ca --client-cert --client-key --format --table --owner --lease --output --color --quiet --verbose --config --request-timeout --poll --skew --key-name --key-type --sort-key --key-prefix --fencing --keep-on-release --trust-clock --hold-on-unavailable --help --version"
    local own=
    for ((i = 1; i < COMP_CWORD; i++)); do
        if [[ " $commands " == *" ${COMP_WORDS[i]} "* ]]; then
            command=${COMP_WORDS[i]}
            break
        fi
    done
    case $before in
    --format)
        COMPREPLY=($(compgen -W "holdfast awslabs dynamolock dlock lockservice single-table fail-open fail-closed" -- "$word"))
        return
        ;;
    --output | -o)
        COMPREPLY=($(compgen -W "text json" -- "$word"))
        return
        ;;
    --color)
        COMPREPLY=($(compgen -W "auto always never" -- "$word"))
        return
        ;;
    --billing)
        COMPREPLY=($(compgen -W "on-demand provisioned" -- "$word"))
        return
        ;;
    --config | --token-file | --ca | --client-cert | --client-key)
        COMPREPLY=($(compgen -f -- "$word"))
        return
        ;;
    esac
    case $command in
    run) own="--nonblock --wait --shared --exclusive --limit --conflict-exit-code --command --kill-after --retry --data" ;;
    acquire) own="--nonblock --wait --shared --limit --conflict-exit-code --data --hold --retry" ;;
    release) own="--force --reason --timeout" ;;
    list) own="--prefix --all --held --key --any-sort-key" ;;
    watch) own="--prefix --count" ;;
    elect) own="--data --kill-after" ;;
    table) own="--billing --read-units --write-units" ;;
    bench) own="--clients --duration" ;;
    serve) own="--listen --metrics-listen --tls-cert --tls-key --client-ca --tokens --jwt-issuer --jwt-jwks --jwt-audience --jwt-leeway --admin --admin-claim --rules --rights-claim --check --no-auth --allow-host --v1-table --threads --max-connections --max-connections-per-address --max-waiters --max-waiters-per-caller --max-sessions --max-sessions-per-caller --max-streams-per-caller --max-locks-per-caller --max-data-per-caller --max-lease --rate --rate-per-caller --client-timeout --look --drain" ;;
    esac
    if [[ -z $command ]]; then
        COMPREPLY=($(compgen -W "$commands help $all" -- "$word"))
        return
    fi
    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$own $all" -- "$word"))
        return
    fi
    case $command in
    table) COMPREPLY=($(compgen -W "create describe check sweep" -- "$word")) ;;
    get | watch | run | elect | acquire)
        if ((COMP_CWORD == i + 1)); then
            local IFS=$'\n'
            COMPREPLY=($(compgen -W "$(timeout 1 holdfast -q list --all 2>/dev/null)" -- "$word"))
        else
            COMPREPLY=($(compgen -c -f -- "$word"))
        fi
        ;;
    esac
}
complete -F _holdfast holdfast

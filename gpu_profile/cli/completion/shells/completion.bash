# shellcheck shell=bash
# Completion of gpu-profile in bash: eval "$(gpu-profile --print-completion-script=bash)"
# Without a candidate bash completes files. `compgen -W` is not used: it would expand `$(…)`.

_gpu_profile() {
    local candidate
    COMPREPLY=()
    while IFS=$'\t' read -r candidate _; do
        COMPREPLY+=("$candidate")
    done < <(gpu-profile --complete -- "${COMP_WORDS[@]:0:COMP_CWORD+1}" 2>/dev/null)
    # `--set IMAGE=` goes on with the value: no space after it.
    if [[ ${COMPREPLY[0]-} == *= ]]; then compopt -o nospace; fi
}
complete -F _gpu_profile -o default gpu-profile

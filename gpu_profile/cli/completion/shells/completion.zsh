# Completion of gpu-profile in zsh: eval "$(gpu-profile --print-completion-script=zsh)"
# Without a candidate files are completed.

_gpu_profile() {
    local line
    local -a words_here whole open
    words_here=("${(@)words[1,CURRENT-1]}" "$PREFIX")
    for line in "${(@f)$(gpu-profile --complete -- "${(@)words_here}" 2>/dev/null)}"; do
        [[ -n $line ]] || continue
        line=${line/$'\t'/:}
        if [[ ${line%%:*} == *= ]]; then open+=("$line"); else whole+=("$line"); fi
    done
    if (( ! $#whole && ! $#open )); then
        compset -P '--*='
        _files
        return
    fi
    (( ! $#whole )) || _describe 'gpu-profile' whole
    (( ! $#open )) || _describe 'setting' open -S ''
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }
compdef _gpu_profile gpu-profile

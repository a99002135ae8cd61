# Completion of gpu-profile in fish:
#   gpu-profile --print-completion-script=fish > ~/.config/fish/completions/gpu-profile.fish
# Without a candidate files are completed.

function __gpu_profile_candidates
    set --local typed (commandline --current-token --cut-at-cursor)
    set --local words (commandline --current-process --cut-at-cursor --tokenize)
    set --local candidates (gpu-profile --complete -- $words "$typed" 2>/dev/null)
    if set --query candidates[1]
        printf '%s\n' $candidates
    else
        set --local flag (string match --regex -- '^--[^=]*=' $typed)
        string replace --regex -- '^' "$flag" (__fish_complete_path (string replace -- "$flag" '' $typed))
    end
end
complete --command gpu-profile --erase
complete --command gpu-profile --no-files --keep-order --arguments '(__gpu_profile_candidates)'

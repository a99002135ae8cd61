"""Shell text of every sbatch script of ours: the job's directory, and the wait for its end."""

HEAD = """\
# The job's directory, and a link to it by the job's number.
run={run}
ln -sfn "${{run##*/}}" "${{run%/*}}/$SLURM_JOB_ID"

# A requeued job keeps what its attempt before has recorded.
if [ "${{SLURM_RESTART_COUNT:-0}}" -gt 0 ]; then
    mkdir -p "$run/attempt-$SLURM_RESTART_COUNT"
    mv "$run"/*.nsys-rep "$run"/*.qdstrm "$run"/*.steps.json "$run"/*.pt.trace.json.gz \\
        "$run/attempt-$SLURM_RESTART_COUNT/" 2>/dev/null
fi
rm -f "$run/ended"
"""
WAIT = """\
step=$!
code=127
# A trap ends `wait` early. `wait` returns 127 for a process that was waited for: keep the code.
while
    signalled=
    wait "$step"
    ended=$?
    [ "$ended" -eq 127 ] || code=$ended
    [ -n "$signalled" ]
do :; done
"""

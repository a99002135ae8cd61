"""trace-file: write the JSON that nsys' --python-functions-trace reads."""

import sys

from gpu_profile import process
from gpu_profile.cli.options.reading import TraceFileOptions
from gpu_profile.cli.paths import output_file
from gpu_profile.files import write_output
from gpu_profile.nsys.python_functions import Attributes, make_trace_file


def trace_file(options: TraceFileOptions) -> None:
    """Write the file after importing each function with the first python3 on PATH.

    That is most likely the job's Python. Functions stand as plain words, or after `--`.
    """
    attributes = Attributes(domain=options.domain, category=options.category, color=options.color)
    # Not ours first: our virtual environment has none of the job's packages.
    python = process.find_program("python3") or sys.executable
    functions = (*options.function, *options.words)
    text = process.drive(make_trace_file(functions, attributes, python=python))
    if output := output_file(options.output, "functions.json"):
        write_output(output, text)
        print(f"{output}: use it as --python-functions-trace {output}")
    else:
        sys.stdout.write(text)

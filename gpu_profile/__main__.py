"""`python -m gpu_profile VERB` and `python PATH/gpu_profile VERB`: the console command.

It runs in a clone too, where no package is installed.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # -m puts the working directory first: a json.py of the user's would replace Python's own there
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    from gpu_profile.cli.start import main
    from gpu_profile.printable import PROGRAM

    sys.argv[0] = PROGRAM  # messages name the console command, not invoke
    main()

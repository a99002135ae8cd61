from gpu_profile.api import Run as Run
from gpu_profile.api import open as open
from gpu_profile.api import schema as schema

__version__: str

"""What findings about copies share."""

from gpu_profile.analysis.activity.activity import COPY_TO_DEVICE, COPY_TO_HOST

# Copies that cost less than 1 % of a step are not worth a change.
COPY_SHARE = 0.01
DIRECTIONS = {COPY_TO_DEVICE: "host to device", COPY_TO_HOST: "device to host"}

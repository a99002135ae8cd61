"""Find a rank's training steps by the repetition of its launches, without NVTX ranges."""

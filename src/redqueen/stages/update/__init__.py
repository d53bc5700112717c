"""The update stage: rewards become advantages, and every member learns from its own samples."""

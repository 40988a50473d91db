"""Few-shot adaptation: a finished run, fine-tuned on a few labelled images of a target."""

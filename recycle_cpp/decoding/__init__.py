"""The step and the token loop: draft, evaluate, verify, update, commit. Knows token ids only."""

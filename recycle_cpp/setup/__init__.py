"""The set-up: makes .venv, builds llama.cpp for this machine, installs the package and tries the result.

Runs before anything is installed (`python3 -m recycle_cpp.setup`), so it uses the standard library only.
"""

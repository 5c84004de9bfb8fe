"""recycle-cpp chat: a conversation on a terminal or through a pipe."""

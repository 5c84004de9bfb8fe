"""Text of a request: chat templates and what families of models write; answers as they grow; grammars."""

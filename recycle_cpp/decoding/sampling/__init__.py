"""How a token is chosen: llama.cpp's sampler chain, grammars, the caller's own functions."""

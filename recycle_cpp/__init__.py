"""recycle_cpp: run one GGUF model as fast as your machine can, losslessly.

Token Recycling (Luo et al., ACL 2025, arXiv 2408.08696) on llama.cpp.
"""

__version__ = "0.1.0"

"""What runs the model: the Protocol that decoding sees, and llama.cpp behind it."""

"""Speed of recycled against plain decoding: prompts in, arms interleaved, a report out."""

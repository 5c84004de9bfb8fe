"""The model that these tests run, and ten prompts of the kinds that Spec-Bench asks."""

SMOLLM = "smollm2-135m-instruct-q4_1.gguf"

PROMPTS = (
    "Write a short note that thanks a friend for dinner.",
    "List five fruits, one per line, and the colour of each.",
    "Translate German to English: Der Zug nach Berlin fährt heute um acht Uhr vom Gleis drei ab.",
    "Summarise: The town council met on Monday. It voted to repair the bridge, to plant forty trees along the river "
    "and to close the old market hall. The repairs of the bridge begin in May; the market hall closes in June.",
    "Why is the sky blue?",
    "Who wrote Romeo and Juliet, and when?",
    "A box holds 12 eggs. Tom buys 4 boxes and breaks 5 eggs. How many whole eggs has he? Think step by step.",
    "Passage: The library lends books for three weeks and films for one week. Question: How long does the library lend "
    "films? Answer from the passage.",
    "Write a Python function that returns the sum of the even numbers in a list.",
    "Repeat this sentence three times: The quick brown fox jumps over the lazy dog.",
)

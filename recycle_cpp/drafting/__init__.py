"""What to guess: the adjacency matrix, the tree template and the drafter that grows a draft tree from them."""

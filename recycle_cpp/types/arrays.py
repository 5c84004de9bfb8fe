"""Array types by element, for signatures; docstrings say the shape. Numpy is not imported: `--help` is to be quick."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    IntArray = NDArray[np.int32]
    FloatArray = NDArray[np.float32]

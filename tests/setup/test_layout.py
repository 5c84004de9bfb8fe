import threading
from pathlib import Path

import pytest

from recycle_cpp.setup.layout import cache_folder, exclusive, find_layout

HOME = Path("/home/a")


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({}, "/home/a/.cache/recycle-cpp"),
        ({"XDG_CACHE_HOME": ""}, "/home/a/.cache/recycle-cpp"),
        ({"XDG_CACHE_HOME": "/big/cache"}, "/big/cache/recycle-cpp"),
        ({"XDG_CACHE_HOME": "relative"}, "/home/a/.cache/recycle-cpp"),
    ],
)
def test_the_cache_is_where_xdg_says(environ, folder):
    assert cache_folder(environ, HOME) == Path(folder)


def test_the_checkout_is_the_one_that_holds_the_code():
    assert find_layout({}).root == Path(__file__).resolve().parents[2]


def test_a_second_set_up_waits_for_the_first(tmp_path):
    path, waiting, order = tmp_path / "cache" / "setup.lock", threading.Event(), []

    def second():
        with exclusive(path, waiting.set):
            order.append("second")

    thread = threading.Thread(target=second)
    with exclusive(path, lambda: order.append("the first should not wait")):
        thread.start()
        assert waiting.wait(10)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


def test_the_lock_is_free_again_after_a_failure(tmp_path):
    path = tmp_path / "setup.lock"
    with pytest.raises(OSError, match="disk"), exclusive(path, lambda: None):
        raise OSError("disk")
    with exclusive(path, lambda: pytest.fail("the lock was kept")):
        pass

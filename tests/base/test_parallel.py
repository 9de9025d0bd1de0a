import threading

import pytest
import torch

from iclab.parallel import map_in_order
from iclab.scratch import Scratch


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_results_come_in_order_and_each_piece_computes_on_one_thread(two_threads):
    seen = list(map_in_order(lambda i: (i, torch.get_num_threads(), threading.get_ident()), 600))
    assert [s[0] for s in seen] == list(range(600))
    assert {s[1] for s in seen} == {1}
    assert threading.get_ident() not in {s[2] for s in seen}
    assert torch.get_num_threads() == 2


def test_a_piece_may_map_again(two_threads):
    def outer(i: int) -> list[int]:
        return list(map_in_order(lambda j: 10 * i + j, 3))

    assert list(map_in_order(outer, 4)) == [[10 * i + j for j in range(3)] for i in range(4)]


def test_a_failing_piece_fails_the_caller_and_the_next_map_works(two_threads):
    def piece(i: int) -> int:
        if i == 1:
            raise ValueError("piece 1")
        return i

    with pytest.raises(ValueError, match="piece 1"):
        list(map_in_order(piece, 4))
    assert list(map_in_order(lambda i: i, 4)) == [0, 1, 2, 3]


@pytest.mark.parametrize("recording", [True, False])
def test_gradients_are_recorded_as_in_the_caller(two_threads, recording):
    weight = torch.ones(3, requires_grad=True)
    with torch.set_grad_enabled(recording):
        assert [p.requires_grad for p in map_in_order(lambda i: weight * i, 2)] == [recording] * 2


def test_scratch_is_reused_on_a_thread_and_never_shared_between_threads():
    scratch = Scratch()
    first = scratch.take((4, 8), torch.float64)
    assert scratch.take((2, 3), torch.float32).data_ptr() == first.data_ptr()
    pointers = []
    thread = threading.Thread(target=lambda: pointers.append(scratch.take((4, 8), torch.float64).data_ptr()))
    thread.start()
    thread.join()
    assert pointers[0] != first.data_ptr()
    large = scratch.take((1 << 22,), torch.float64)
    assert scratch.take((4, 8), torch.float64).data_ptr() == first.data_ptr() != large.data_ptr()

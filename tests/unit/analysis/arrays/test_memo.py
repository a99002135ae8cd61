"""Values that are computed once for each object and the other arguments."""

import gc
from threading import Barrier, Thread
from weakref import ref

from gpu_profile.analysis.arrays.memo import once_each


class Owner:
    pass


def test_threads_that_ask_at_once_get_the_value_of_one_of_them() -> None:
    computed, answers, together = list[str](), list[object](), Barrier(8)

    @once_each
    def compute(_owner: Owner, name: str) -> object:
        computed.append(name)
        return object()

    def ask(owner: Owner) -> None:
        together.wait()
        answers.append(compute(owner, "first"))

    owner = Owner()
    askers = [Thread(target=ask, args=(owner,)) for _ in range(8)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert computed == ["first"]
    assert len({*map(id, answers)}) == 1
    assert compute(owner, "second") is not answers[0]
    assert computed == ["first", "second"]


def test_values_vanish_with_their_object() -> None:
    @once_each
    def compute(_owner: Owner) -> Owner:
        return Owner()

    owner = Owner()
    value = ref(compute(owner))
    assert value()
    del owner
    gc.collect()
    assert value() is None

"""Running simulators: the same results however they run, and failures that are kept with their reasons."""

import os
import signal
import sys
import threading
from functools import partial

import distributed
import joblib
import numpy as np
import pandas as pd
import pytest
from expected import refused, warned
from light_simulators import LIMIT, TOO_LONG, hanging, hanging_batch
from processes import alive, interruptible, wait_until
from scipy import stats

from decond.errors import ArgumentError, ArgumentTypeError
from decond.lfi import Prior, SimulationStore, batched, simulate
from decond.lfi.exceptions import FewValidWarning, SimulationError, TransferError, WorkerError
from decond.lfi.simulation.store import drawn_parameters


@pytest.fixture(scope="module")
def prior():
    return Prior({"rate": stats.gamma(2), "share": stats.uniform(0, 1)})


def simulator(theta, rng):
    return theta + rng.normal(size=2)


def local_copy():
    """Return a simulator that is pickled by value: worker processes cannot import the tests."""

    def simulator(theta, rng):
        return theta + rng.normal(size=2)

    return simulator


def same(one, two):
    np.testing.assert_array_equal(one.theta, two.theta)
    np.testing.assert_array_equal(one.x, two.x)
    assert one.reasons.tolist() == two.reasons.tolist()


# ---- the same results ----------------------------------------------------------------------------------------


def test_parameters_are_draws_from_the_prior(prior):
    sims = simulate(simulator, prior, 400, seed=3)
    np.testing.assert_array_equal(sims.theta, drawn_parameters(prior, 3, "0", 400))
    assert stats.kstest(sims.theta[:, 0], stats.gamma(2).cdf).pvalue > 0.01
    assert stats.kstest(sims.theta[:, 1], stats.uniform(0, 1).cdf).pvalue > 0.01
    assert stats.kstest((sims.x - sims.theta).ravel(), stats.norm().cdf).pvalue > 0.01
    assert sims.names == ("rate", "share")


def test_results_do_not_depend_on_where_they_run(prior):
    alone = simulate(simulator, prior, 20)
    same(alone, simulate(local_copy(), prior, 20, n_jobs=2))
    with joblib.parallel_config("threading", n_jobs=3):
        same(alone, simulate(simulator, prior, 20))
    with joblib.parallel_config("sequential"):
        same(alone, simulate(simulator, prior, 20))


def test_results_are_the_same_on_a_dask_cluster(prior, tmp_path):
    """A cluster inside this process; those of processes that die are in `test_simulations_on_dask`."""
    alone = simulate(simulator, prior, 20)
    with (
        distributed.Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address="127.0.0.1:0"),
        joblib.parallel_config("dask"),
    ):
        same(alone, simulate(simulator, prior, 20, store=tmp_path / "runs.sqlite"))


class ListBackend(joblib._parallel_backends.ThreadingBackend):
    """Threads whose results come in lists, as those of the multiprocessing backend do."""

    supports_return_generator = False


def test_backends_that_return_lists_work_too(prior, tmp_path):
    alone = simulate(simulator, prior, 20)
    with joblib.parallel_config(ListBackend(), n_jobs=2):
        same(alone, simulate(simulator, prior, 20, store=tmp_path / "runs.sqlite"))


def test_seed_and_round_change_everything(prior):
    first = simulate(simulator, prior, 10)
    for other in (simulate(simulator, prior, 10, seed=1), simulate(simulator, prior, 10, round=2)):
        assert not np.isin(first.theta, other.theta).any()
        assert not np.isclose(first.x - first.theta, other.x - other.theta).any()
    same(first, simulate(simulator, prior, 10, seed=None))
    same(*(simulate(simulator, prior, 10, seed=np.random.default_rng(5)) for _ in range(2)))


def test_more_simulations_begin_with_the_same_ones(prior):
    few, many = simulate(simulator, prior, 7), simulate(simulator, prior, 130)
    np.testing.assert_array_equal(few.x, many.x[:7])


def test_resuming_with_more_runs_only_the_others(prior, tmp_path):
    runs = []

    def counted(theta, rng):
        runs.append(theta)
        return simulator(theta, rng)

    path = tmp_path / "runs.sqlite"
    simulate(counted, prior, 10, store=path)
    assert len(runs) == 10
    more = simulate(counted, prior, 25, store=path)
    assert len(runs) == 25
    same(more, simulate(simulator, prior, 25))
    assert len(simulate(counted, prior, 5, store=path)) == 5
    assert len(runs) == 25


# ---- batches -------------------------------------------------------------------------------------------------


def batch_simulator(theta, rng):
    return theta + rng.normal(size=theta.shape)


def test_batches_do_not_depend_on_how_many_follow(prior, tmp_path):
    sizes = []

    def counted(theta, rng):
        sizes.append(len(theta))
        return batch_simulator(theta, rng)

    path = tmp_path / "runs.sqlite"
    few = simulate(counted, prior, 130, store=path, batched=True)
    assert (len(few), sizes) == (130, [100, 100])
    many = simulate(counted, prior, 250, store=path, batched=True)
    assert sizes == [100, 100, 100]
    np.testing.assert_array_equal(few.x, many.x[:130])
    same(many, simulate(batch_simulator, prior, 250, batched=True))
    with joblib.parallel_config("threading", n_jobs=2):
        same(many, simulate(batch_simulator, prior, 250, batched=True))


def test_a_marked_simulator_gets_batches(prior):
    def marked(theta, rng):
        return batch_simulator(theta, rng)

    same(simulate(batched(marked), prior, 130), simulate(batch_simulator, prior, 130, batched=True))
    with refused("simulator", ArgumentTypeError):
        batched(np.random.default_rng(0).normal)


def test_a_longer_proposal_gets_new_random_numbers(prior, tmp_path):
    def noise(theta, rng):
        return rng.normal(size=(len(theta), 1))

    theta = np.tile([1.0, 0.5], (60, 1))
    path = tmp_path / "runs.sqlite"
    first = simulate(noise, prior, store=path, batched=True, proposal=theta[:30])
    both = simulate(noise, prior, store=path, batched=True, proposal=theta)
    np.testing.assert_array_equal(both.x[:30], first.x)
    assert len(np.unique(both.x)) == 60


def test_one_bad_row_does_not_take_its_batch_along(prior):
    def touchy(theta, rng):
        if (theta[:, 1] < 0.1).any():
            raise FloatingPointError("share too small")
        return theta[:, :1]

    sims = simulate(touchy, prior, 150, batched=True)
    np.testing.assert_array_equal(sims.valid, sims.theta[:, 1] >= 0.1)
    assert set(sims.failures) == {"FloatingPointError: share too small"}


def columns(theta):
    return {"sum": theta.sum(axis=1), "difference": theta[:, 0] - theta[:, 1]}


NAMED_BATCHES = {
    "frame": lambda theta, rng: pd.DataFrame(columns(theta)),
    "dict": lambda theta, rng: columns(theta),
    "dict of columns": lambda theta, rng: {name: column[:, None] for name, column in columns(theta).items()},
    "dict of series": lambda theta, rng: {name: pd.Series(column) for name, column in columns(theta).items()},
    "list of dicts": lambda theta, rng: pd.DataFrame(columns(theta)).to_dict("records"),
}


@pytest.mark.parametrize("batches", NAMED_BATCHES.values(), ids=NAMED_BATCHES)
@pytest.mark.parametrize("n", [4, 150])
def test_batches_may_have_names(prior, batches, n):
    sims = simulate(batches, prior, n, batched=True)
    np.testing.assert_array_equal(sims.x[:, 0], sims.theta.sum(axis=1))
    np.testing.assert_array_equal(sims.x[:, 1], sims.theta[:, 0] - sims.theta[:, 1])
    assert sims.summary_names == ("sum", "difference")


def in_any_order(theta, rng):
    """Return two summaries by name, in one order or the other."""
    named = {"rate": theta[0], "share": theta[1]}
    return named if rng.random() < 0.5 else dict(reversed(named.items()))


@pytest.mark.parametrize("batched", [False, True])
def test_the_first_order_of_names_holds_for_all(prior, batched, tmp_path):
    def listed(theta, rng):
        return [in_any_order(row, rng) for row in theta]

    run = partial(simulate, listed if batched else in_any_order, prior, store=tmp_path / "runs.sqlite")
    sims = run(130, batched=batched)
    np.testing.assert_array_equal(sims.x, sims.theta[:, [sims.names.index(name) for name in sims.summary_names]])
    more = run(proposal=sims.theta[:20], batched=batched)
    assert more.summary_names == sims.summary_names
    np.testing.assert_array_equal(more.x, sims.x[:20])


def test_as_many_values_under_other_names_are_failures(prior):
    def renamed(theta, rng):
        return {"rate" if theta[1] < 0.8 else "speed": theta[0]}

    sims = simulate(renamed, prior, 40)
    first = "rate" if sims.theta[0, 1] < 0.8 else "speed"
    np.testing.assert_array_equal(sims.valid, (sims.theta[:, 1] < 0.8) == (first == "rate"))
    assert len(sims.failures) == 1


@pytest.mark.parametrize("output", [np.zeros((2, 1)), {"mean": 1.0}, 3.0], ids=["too many", "dict", "number"])
def test_batches_without_a_row_for_each_are_failures(prior, output):
    with pytest.raises(SimulationError) as caught:
        simulate(lambda theta, rng: output, prior, 3, batched=True)
    assert list(caught.value.failures.values()) == [3]


# ---- proposals -----------------------------------------------------------------------------------------------


def test_proposals_are_run_as_given(prior):
    theta = np.array([[1.0, 0.5], [2.0, 0.25]])
    sims = simulate(lambda theta, rng: theta, prior, proposal=theta)
    np.testing.assert_array_equal(sims.theta, theta)
    np.testing.assert_array_equal(sims.x, theta)
    with refused("n"):
        simulate(simulator, prior, 3, proposal=theta)
    with refused("proposal"):
        simulate(simulator, prior, proposal=[[1.0, 0.5], [1.0, 1.5]])
    with refused("proposal"):
        simulate(simulator, prior, proposal=[[1.0, 0.5, 2.0]])


# ---- failures ------------------------------------------------------------------------------------------------


def moody(theta, rng):
    """Do, by the share, each of the things that can go wrong."""
    share = 2.0 * theta[1]
    if share < 0.1:
        raise ValueError("share\ntoo small")
    if share < 0.2:
        return [np.nan, 1.0]
    if share < 0.3:
        return [1.0, 2.0, 3.0]
    if share < 0.35:
        return None
    if share < 0.4:
        return [[1.0, 2.0]]
    if share < 0.45:
        return ["many", "few"]
    if share < 0.47:
        return [[1.0], [2.0, 3.0]]
    if share < 0.5:
        return []
    if share < 0.55:
        sys.exit(3)
    return [theta[0], 0.0]


def test_every_failure_is_kept_with_its_reason(prior):
    sims = simulate(moody, prior, 200)
    share = 2.0 * sims.theta[:, 1]
    np.testing.assert_array_equal(sims.valid, share >= 0.55)
    assert np.isnan(sims.x[~sims.valid]).all()
    expected = {
        0.0: "ValueError: share too small",
        0.1: "returned NaN or infinity",
        0.2: "returned 3 values where most returned 2",
        0.3: "returned None",
        0.35: "returned shape (1, 2); summaries are flat (give summarize=... for raw data)",
        0.4: "returned values of type <U4; numbers are needed",
        0.45: "returned list that is no array of numbers",
        0.47: "returned an empty array",
        0.5: "SystemExit: 3",
    }
    starts = np.array(list(expected))
    for value, reason in zip(share, sims.reasons, strict=True):
        if value < 0.55:
            assert reason == expected[starts[starts <= value][-1]]


class Hostile:
    """What a simulator may return: reading it raises."""

    def __array__(self, *arguments, **options):
        raise RuntimeError("the file is gone")


@pytest.mark.parametrize("in_batches", [False, True])
def test_masked_values_are_failures(prior, in_batches):
    def simulator(theta, rng):
        return np.ma.masked_array(theta, rng.random(theta.shape) < 0.1)

    sims = simulate(simulator, prior, 100, batched=in_batches)
    assert set(sims.failures) == {"returned masked values"}
    np.testing.assert_array_equal(sims.x[sims.valid], sims.theta[sims.valid])


class UnspeakableError(ValueError):
    def __str__(self):
        raise RuntimeError("no words")


def test_results_that_cannot_be_read_are_failures(prior):
    def simulator(theta, rng):
        kind = int(10 * theta[1])
        if kind == 0:
            raise UnspeakableError
        return {1: Hostile(), 2: [10**400]}.get(kind, theta)

    sims = simulate(simulator, prior, 60)
    assert set(sims.failures) == {
        "UnspeakableError",
        "returned Hostile that is no array of numbers (RuntimeError: the file is gone)",
        "returned list that is no array of numbers (OverflowError: int too large to convert to float)",
    }
    raw = simulate(simulator, prior, 60, summarize=lambda data: data)
    assert raw.reasons.tolist() == sims.reasons.tolist()


def test_a_warning_says_how_few_are_valid(prior):
    def rarely(theta, rng):
        return theta if theta[1] < 0.2 else [np.inf, 0.0]

    expected = int((drawn_parameters(prior, 0, "0", 100)[:, 1] < 0.2).sum())
    assert 0 < expected < 50
    with warned(FewValidWarning, n_valid=expected, n=100):
        sims = simulate(rarely, prior, 100)
    assert sims.failures == {"returned NaN or infinity": sims.n_failed}


def test_when_all_fail_it_is_an_error_that_says_why(prior, tmp_path):
    def broken(theta, rng):
        raise OSError("no licence")

    path, failures = tmp_path / "runs.sqlite", {"OSError: no licence": 5}
    with pytest.raises(SimulationError) as raised:
        simulate(broken, prior, 5, store=path)
    assert raised.value.failures == failures
    assert f"SimulationStore({str(path)!r}).retry_failures()" in str(raised.value)  # code that works
    with SimulationStore(path) as store:
        assert store.counts()["failed"] == store.retry_failures() == 5
        with pytest.raises(SimulationError) as raised:
            simulate(broken, prior, 5, store=store, round="later")
        assert "retry_failures('later')" in str(raised.value)
    with pytest.raises(SimulationError) as raised:
        simulate(broken, prior, 5)
    assert raised.value.failures == failures
    assert "retry_failures" not in str(raised.value)  # there is no store


def test_the_length_of_most_counts_whichever_finishes_first(prior, tmp_path):
    def uneven(theta, rng):
        return np.ones(2) if theta[1] < 0.7 else np.ones(3)

    sims = simulate(uneven, prior, 50)
    np.testing.assert_array_equal(sims.valid, sims.theta[:, 1] < 0.7)


def test_simulators_may_change_what_they_are_given(prior):
    def careless(theta, rng):
        theta[:] = -1.0
        return theta

    np.testing.assert_array_equal(simulate(careless, prior, 3).theta, drawn_parameters(prior, 0, "0", 3))


# ---- summaries of raw data -----------------------------------------------------------------------------------


def test_raw_data_are_kept_beside_their_summaries(prior, tmp_path):
    def raw(theta, rng):
        return rng.normal(theta[0], size=(4, 3))

    def summarize(data):
        if data.max() > 6.0:
            raise OverflowError("too large")
        return data.mean(axis=0)

    sims = simulate(raw, prior, 60, summarize=summarize)
    assert sims.raw.shape == (60, 4, 3)
    assert set(sims.failures) == {"summarize: OverflowError: too large"}
    np.testing.assert_array_equal(sims.x[sims.valid], sims.raw[sims.valid].mean(axis=1))
    assert np.isfinite(sims.raw).all()  # also where the summaries failed
    batches = simulate(
        lambda theta, rng: rng.normal(size=(len(theta), 4, 3)), prior, 5, batched=True, summarize=np.ravel
    )
    np.testing.assert_array_equal(batches.raw.reshape(5, 12), batches.x)


def test_raw_data_of_different_shapes_are_kept_as_they_are(prior):
    sims = simulate(lambda theta, rng: np.arange(rng.integers(2, 9)), prior, 20, summarize=np.mean)
    assert sims.raw.dtype == object
    np.testing.assert_array_equal([np.mean(raw) for raw in sims.raw], sims.x[:, 0])


# ---- limits on time ------------------------------------------------------------------------------------------


def test_simulators_that_hang_or_crash_are_ended(prior, tmp_path):
    def wild(theta, rng):
        import ctypes
        import os
        import subprocess

        if theta[0] == 1.0:
            child = subprocess.Popen(["sleep", "3600"])
            (tmp_path / "child").write_text(str(child.pid))
            ctypes.PyDLL(None).sleep(3600)  # holds the interpreter's lock and never comes back to it
        if theta[0] == 2.0:
            os.kill(os.getpid(), 11)
        if theta[0] == 3.0:
            os._exit(7)
        if theta[0] == 4.0:
            print("not an answer")
            os.system("echo not an answer either")
        return [theta[0], rng.normal(), os.getpid()]

    theta = np.array([[i, 0.5] for i in (5.0, 1.0, 2.0, 3.0, 4.0, 6.0)])
    sims = simulate(wild, prior, proposal=theta, timeout=LIMIT)
    died = ["its process was ended by SIGSEGV", "its process ended with exit code 7"]
    assert sims.reasons.tolist() == ["", TOO_LONG, *died, "", ""]
    unlimited = simulate(wild, prior, proposal=theta[[0]])
    np.testing.assert_array_equal(sims.x[0, :2], unlimited.x[0, :2])
    wait_until(lambda: not alive(int((tmp_path / "child").read_text())), "the end of what it had started")
    wait_until(lambda: not alive(int(sims.x[-1, 2])), "the end of the process of the last call")


def forking(theta, rng):
    import os

    if os.fork() == 0:
        return -theta  # a child comes back, and would reply too
    os.wait()
    return theta


def writing(theta, rng):
    import contextlib
    import os
    import pickle

    for number in range(3, 9):  # one of them is the pipe for replies
        with contextlib.suppress(OSError):
            os.write(number, pickle.dumps((0, [(-theta, None, "", 0.0)])))
    return theta


@pytest.mark.parametrize("slipping", [forking, writing])
def test_replies_to_other_calls_are_ignored(prior, slipping):
    sims = simulate(slipping, prior, 10, timeout=600.0)
    np.testing.assert_array_equal(sims.x, sims.theta)


@pytest.mark.parametrize("backend", [pytest.param("loky", marks=pytest.mark.slow), "threading"])
def test_limits_hold_in_worker_processes_and_threads(prior, backend):
    theta = np.column_stack([np.linspace(1, 2, 4), [0.5, 0.95, 0.5, 0.5]])
    alone = simulate(simulator, prior, proposal=theta)
    with joblib.parallel_config(backend, n_jobs=2):
        sims = simulate(hanging, prior, proposal=theta, timeout=LIMIT)
    assert sims.reasons.tolist() == ["", TOO_LONG, "", ""]
    np.testing.assert_array_equal(sims.x[sims.valid], alone.x[sims.valid])


def test_no_process_is_left_over(prior, tmp_path):
    def noted(theta, rng, folder=tmp_path):
        import os

        (folder / str(os.getpid())).touch()
        return theta

    simulate(noted, prior, 12, n_jobs=2, timeout=600.0)
    processes = [int(path.name) for path in tmp_path.iterdir()]
    assert processes
    wait_until(lambda: not any(map(alive, processes)), "the end of all processes")


def test_what_simulators_start_ends_after_the_run(prior, tmp_path):
    def starting(theta, rng, folder=tmp_path):
        import subprocess

        child = subprocess.Popen(["sleep", "3600"])
        (folder / str(child.pid)).touch()
        return theta

    simulate(starting, prior, 6, n_jobs=2, timeout=600.0)
    children = [int(path.name) for path in tmp_path.iterdir()]
    assert len(children) == 6
    wait_until(lambda: not any(map(alive, children)), "the end of what simulators had started")


def test_reasons_have_no_control_characters(prior):
    def rude(theta, rng):
        raise ValueError("\x1b[31mred\x07\x9b1m" if theta[0] < 2.0 else "fine")

    with pytest.raises(SimulationError) as caught:
        simulate(rude, prior, 20)
    assert "red" in str(caught.value)
    assert str(caught.value).isprintable()


def test_what_cannot_travel_is_named(prior):
    lock = threading.Lock()

    def guarded(theta, rng):
        with lock:
            return theta

    for options in ({"n_jobs": 2}, {"timeout": 600.0}):
        for given, summarize, name in (
            (guarded, None, "simulator"),
            (local_copy(), partial(guarded, 0), "summarize"),
        ):
            with pytest.raises(TransferError) as caught:
                simulate(given, prior, 2, summarize=summarize, **options)
            assert caught.value.function == name
    assert len(simulate(guarded, prior, 2)) == 2


def test_a_simulator_that_cannot_be_unpacked_is_refused(prior):
    class Stubborn:
        def __call__(self, theta, rng):
            return theta

        def __reduce__(self):
            return int, ("no number",)

    for options in ({"n_jobs": 2}, {"timeout": 600.0}):
        with pytest.raises(TransferError):
            simulate(Stubborn(), prior, 2, **options)


def test_a_batch_that_hangs_is_run_row_by_row(prior):
    theta = np.column_stack([np.linspace(1, 2, 4), [0.5, 0.95, 0.5, 0.5]])
    sims = simulate(hanging_batch, prior, proposal=theta, batched=True, timeout=LIMIT)
    assert sims.reasons.tolist() == ["", TOO_LONG, "", ""]


def test_a_worker_that_crashes_is_explained(prior):
    def crash(theta, rng):
        import os

        os._exit(3)

    with pytest.raises(WorkerError):
        simulate(crash, prior, 4, n_jobs=2)


# ---- interruption and progress -------------------------------------------------------------------------------


def press_ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait()  # the interrupt ends it


def raise_interrupt():
    raise KeyboardInterrupt


@pytest.mark.parametrize("interrupt", [press_ctrl_c, raise_interrupt])
def test_an_interrupt_keeps_what_is_finished_and_opens_the_rest(prior, tmp_path, interrupt):
    path, runs = tmp_path / "runs.sqlite", []

    def interrupted(theta, rng):
        runs.append(theta)
        if len(runs) == 6:
            interrupt()
        return simulator(theta, rng)

    with interruptible(), pytest.raises(KeyboardInterrupt):
        simulate(interrupted, prior, 10, store=path)
    with SimulationStore(path) as store:
        assert store.counts() == {"open": 5, "running": 0, "done": 5, "failed": 0}
    same(simulate(interrupted, prior, 10, store=path), simulate(simulator, prior, 10))
    assert len(runs) == 11


def test_it_is_silent_unless_asked(prior, capfd):
    simulate(simulator, prior, 3)
    assert capfd.readouterr() == ("", "")
    simulate(lambda theta, rng: theta if theta[1] > 0.2 else None, prior, 10, progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "10/10" in err
    assert "failed" in err


# ---- the door ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"n": 0}, ArgumentError),
        ({"n": None}, ArgumentError),
        ({"simulator": "model"}, ArgumentTypeError),
        ({"simulator": lambda theta: theta}, ArgumentTypeError),
        ({"summarize": lambda a, b: a}, ArgumentTypeError),
        ({"seed": -1}, ArgumentError),
        ({"seed": 1.5}, ArgumentError),
        ({"timeout": 0}, ArgumentError),
        ({"timeout": "3"}, ArgumentTypeError),
        ({"batched": "no"}, ArgumentTypeError),
        ({"store": 3}, ArgumentTypeError),
        ({"round": "method"}, ArgumentError),
        ({"n_jobs": 0}, ArgumentError),
        ({"prior": {"rate": 1}}, ArgumentTypeError),
    ],
)
def test_wrong_arguments_are_refused_before_anything_runs(prior, arguments, error):
    given = {"simulator": simulator, "prior": prior, "n": 3} | arguments
    with refused(next(iter(arguments)), error):
        simulate(given.pop("simulator"), given.pop("prior"), given.pop("n"), **given)

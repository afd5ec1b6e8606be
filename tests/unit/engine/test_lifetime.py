from tests.tools import run_python


def test_a_worker_without_its_parent_exits() -> None:
    code = "from engine.lifetime import die_with_parent; die_with_parent(999999999); print('on')"

    done = run_python(code)

    assert (done.returncode, done.stdout) == (0, "")


def test_terminate_runs_the_finally_blocks() -> None:
    code = (
        "import os, signal\n"
        "from engine.lifetime import exit_on_terminate\n"
        "exit_on_terminate()\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    signal.pause()\n"
        "finally:\n"
        "    print('cleaned')\n"
    )

    done = run_python(code)

    assert (done.returncode, done.stdout.strip()) == (0, "cleaned")

"""Verbs that write files: what cannot be written is said in one line, and nothing is destroyed."""

import os
import stat

import pytest

WRITERS = {
    "fit": ("fit", "{files}/events.csv", "-q", "--factors", "2", "--epochs", "1", "-o"),
    "recommend": ("recommend", "{files}/model.fmpair", "--format", "csv", "-o"),
    "similar": ("similar", "{files}/model.fmpair", "--item", "book-000", "--format", "csv", "-o"),
    "describe": ("data", "describe", "{files}/events.csv", "-o"),
    "convert": ("data", "convert", "{files}/events.csv", "--to", "tsv"),
    "init": ("init", "{files}/events.csv", "--force", "-o"),
    "schema": ("schema", "-o"),
}


@pytest.fixture(params=WRITERS)
def save(request, fmpair, files):
    """Run a verb that writes to a path."""
    return lambda path: fmpair(*(a.format(files=files) for a in WRITERS[request.param]), path)


def assert_refused(result, path, *words):
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"error: cannot write {path}: "), result.err
    assert result.err.count("\n") == 1
    for word in words:
        assert word in result.err


def test_a_pipe_is_refused_and_stays(save, tmp_path):
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)
    assert_refused(save(path), path, "it is a pipe; give the name of a file")
    assert stat.S_ISFIFO(path.stat().st_mode) and len(os.listdir(tmp_path)) == 1


def test_a_link_to_a_device_is_refused_and_both_stay(save, tmp_path, device):
    path = tmp_path / "null.csv"
    path.symlink_to(device)
    assert_refused(save(path), path, f"it leads to {device}, which is a device")
    assert path.is_symlink() and stat.S_ISCHR(device.stat().st_mode)


def test_a_missing_folder_is_named(save, tmp_path):
    path = tmp_path / "nowhere" / "a.csv"
    assert_refused(save(path), path, f"there is no folder {tmp_path}/nowhere; make it first")


def test_links_in_a_circle_are_named(save, tmp_path):
    path = tmp_path / "a.csv"
    path.symlink_to("a.csv")
    assert_refused(save(path), path, "Too many levels of symbolic links")


def test_a_link_is_written_through_and_permissions_are_kept(save, tmp_path):
    (tmp_path / "far").mkdir()
    target, path = tmp_path / "far" / "a.csv", tmp_path / "a.csv"
    target.write_text("old")
    target.chmod(0o640)
    path.symlink_to("far/a.csv")
    result = save(path)
    assert result.code == 0, result.err
    assert os.readlink(path) == "far/a.csv" and os.listdir(tmp_path / "far") == ["a.csv"]
    assert target.read_bytes() != b"old" and target.stat().st_mode & 0o777 == 0o640


def test_a_report_or_run_whose_folder_cannot_be_made_says_so(fmpair, tmp_path):
    (tmp_path / "file").write_text("")
    experiment = tmp_path / "e.yaml"
    experiment.write_text(
        "data: {generate: {users: 20, items: 15, events: 200}}\nmodels: [popularity]\n"
        "split: {kind: holdout, seed: 0}\nmetrics: [ndcg@10]\nviews: []\n"
    )
    result = fmpair("run", experiment, "-q", "--folder", tmp_path / "file")
    assert result.code == 1 and result.err.count("\n") == 1
    assert result.err.startswith(f"error: cannot make the folder {tmp_path}/file/")
    assert fmpair("run", experiment, "-q", "--folder", tmp_path / "run").code == 0
    result = fmpair("report", tmp_path / "run", "-o", tmp_path / "file")
    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    assert result.err.startswith(f"error: cannot make the folder {tmp_path}/file/")

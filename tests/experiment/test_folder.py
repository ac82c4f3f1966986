import json
from pathlib import Path

import pytest
from tiny_run import FM, POPULARITY, Broken, experiment, model, same

from fmpair import load
from fmpair.config.experiment import Output
from fmpair.errors import DataError
from fmpair.experiment.folder import RunFolder, open_folder
from fmpair.experiment.folder import results as read_results
from fmpair.experiment.run import run
from fmpair.files import atomic_path


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """An experiment and the results of its run."""
    asked = experiment(tmp_path_factory.mktemp("run"), POPULARITY, FM)
    return asked, run(asked)


def lines_of_a_run(asked):
    """What a run has to do, cell by cell."""
    said = []
    run(asked, progress=said.append)
    return said


def folder_of(asked):
    return Path(asked.output.folder)


def test_a_folder_gives_back_what_the_run_gave(finished):
    asked, results = finished
    again = read_results(folder_of(asked))
    assert same(again, results)
    assert again.experiment == asked and again.manifest == results.manifest


def test_a_finished_run_has_nothing_left_to_do(finished):
    asked, results = finished
    said = []
    assert same(run(asked, progress=said.append), results)
    assert said == []


@pytest.mark.parametrize(
    "damage", ["cut", "changed", "gone", "half a record", "no record", "another number"]
)
def test_a_result_that_is_not_whole_is_made_again(finished, damage):
    asked, results = finished
    cell = results.cells["cell"][0]
    values = folder_of(asked) / "cells" / f"{cell}.0.parquet"
    record = folder_of(asked) / "cells" / f"{cell}.json"
    if damage == "cut":
        values.write_bytes(values.read_bytes()[:-10])
    elif damage == "changed":
        values.write_bytes(values.read_bytes().replace(b"user-0", b"user-1", 1))
    elif damage == "gone":
        values.unlink()
    elif damage == "half a record":
        record.write_bytes(record.read_bytes()[:200])
    elif damage == "another number":
        told = json.loads(record.read_text())
        told["protocols"][0]["means"]["ndcg@10"] += 0.25
        record.write_text(json.dumps(told))
    else:
        record.unlink()
    said = lines_of_a_run(asked)
    assert len(said) == 1 and "popularity, fold 0" in said[0]
    assert same(read_results(folder_of(asked)), results)


def test_a_cell_that_has_not_run_stands_in_the_table_as_such(finished):
    asked, results = finished
    cell = results.cells["cell"][1]
    record = folder_of(asked) / "cells" / f"{cell}.json"
    content = record.read_bytes()
    record.unlink()
    assert read_results(folder_of(asked)).cells["error"].to_list() == [
        None, "not run yet", None, None,
    ]  # fmt: skip
    record.write_bytes(content)


@pytest.mark.parametrize("name", ["plan.json", "experiment.json", "manifest.json"])
def test_what_a_report_would_tell_wrong_is_said_to_be_damaged_and_made_again(finished, name):
    asked, results = finished
    path = folder_of(asked) / name
    path.write_bytes(path.read_bytes().replace(b"popularity", b"popularitx"))
    with pytest.raises(DataError, match=f"{name} is damaged"):
        read_results(folder_of(asked))
    assert same(run(asked), results)


def test_half_written_files_are_cleared_away(tmp_path):
    with open_folder(tmp_path / "run"):
        pass
    left = tmp_path / "run" / "cells" / ".abc.json.1234.part"
    left.write_text("{")
    with open_folder(tmp_path / "run"):
        assert not left.exists()


def test_a_second_run_in_the_same_folder_is_refused(tmp_path):
    with (
        open_folder(tmp_path),
        pytest.raises(DataError, match="another run is using"),
        open_folder(tmp_path),
    ):
        pass
    with open_folder(tmp_path) as folder:
        assert folder == RunFolder(tmp_path)


def test_a_folder_without_results_says_how_to_make_some(tmp_path):
    with pytest.raises(DataError, match="fmpair run"):
        read_results(tmp_path)


def test_a_failed_cell_is_kept_and_tried_again(tmp_path):
    asked = experiment(tmp_path, model(Broken))
    results = run(asked)
    assert results.cells["error"].to_list() == ["this one always fails"] * 2
    assert len(lines_of_a_run(asked)) == 2


def test_models_are_kept_where_they_are_wanted_even_after_the_fact(tmp_path):
    run(experiment(tmp_path, POPULARITY))
    assert not list(tmp_path.glob("cells/*.fmpair"))
    asked = experiment(tmp_path, POPULARITY, output=Output(str(tmp_path), True, False))
    cell = run(asked).cells["cell"][0]
    assert len(load(tmp_path / "cells" / f"{cell}.fmpair").item_ids) == 15
    assert lines_of_a_run(asked) == []


def test_a_changed_experiment_in_the_same_folder_reuses_what_it_can(tmp_path):
    run(experiment(tmp_path, POPULARITY))
    said = lines_of_a_run(experiment(tmp_path, POPULARITY, FM))
    assert len(said) == 2 and all("FM" in line for line in said)
    assert len(json.loads((tmp_path / "plan.json").read_text())["cells"]) == 4


def test_what_another_process_is_still_writing_is_not_cleared_away(tmp_path):
    with atomic_path(tmp_path / "report.html") as part:
        part.write_text("half")
        with open_folder(tmp_path):
            assert part.read_text() == "half"


def test_a_link_in_place_of_the_lock_is_refused_and_what_it_leads_to_stays(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "run" / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(DataError, match=r"cannot write .*\.lock: "), open_folder(tmp_path / "run"):
        pass
    assert (tmp_path / "precious").read_text() == "kept"


def test_a_new_folder_goes_if_nothing_came_into_it(tmp_path):
    with pytest.raises(DataError, match="no such events"), open_folder(tmp_path / "new"):
        raise DataError("no such events")
    assert not (tmp_path / "new").exists()
    with pytest.raises(DataError, match="later"), open_folder(tmp_path / "new") as folder:
        (folder.path / "plan.json").write_text("{}")
        raise DataError("later")
    with pytest.raises(DataError, match="again"), open_folder(tmp_path / "new"):
        raise DataError("again")
    assert (tmp_path / "new" / "plan.json").exists()

"""The notebooks run from their first cell to their last, with a small model in place of the demo's."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent.parent
NOTEBOOKS = sorted(ROOT.glob("examples/*.ipynb"))
SMALL = """
BUDGET = "2 steps"
SETTINGS = {
    "model": {"d_model": 16, "d_ff": 16, "n_heads": 4, "n_encoder_layers": 2, "n_decoder_layers": 2},
    "data": {"batch_tokens": 256},
    "train": {"threads": 1},
    "decode": {"beam": 2, "max_length": 6, "guard": False},
}
"""
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


@each_notebook
def test_a_notebook_runs(path: Path, desk: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    tagged = (
        n for n, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", ())
    )
    notebook.cells.insert(next(tagged) + 1, nbformat.v4.new_code_cell(SMALL))
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(desk)}}).execute()
    last = [cell for cell in notebook.cells if cell.cell_type == "code"][-1]
    assert last.outputs, "the last cell shows something"


@each_notebook
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    for cell in nbformat.read(path, as_version=4).cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None

"""A corpus through a Ray cluster of two nodes on this machine, one of which is lost on the way."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clearhead import Translator
from clearhead.cli.main import main
from clearhead.errors import ConfigError
from clearhead.scale import Shard, answer_on_ray, chunks_of, cluster, join
from scale.test_shards import as_table
from tasks.conftest import random_run

N_LINES = 20_000
pytestmark = [
    pytest.mark.slow,
    # Ray leaves sockets and warnings of its own behind when a cluster ends.
    pytest.mark.filterwarnings("ignore"),
]
ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'clearhead[ray]'")


@pytest.fixture
def nodes() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 100_000_000}
    made = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
    made.add_node(**small)
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("".join(f"the cat sees {n} dogs .\n" for n in range(N_LINES)))
    return path


def test_a_lost_node_costs_its_unfinished_chunks_and_nothing_else(nodes, corpus, tmp_path):
    def load():  # a local function travels by value: a node does not know this module
        def answer(lines, first):
            time.sleep(0.5)
            return [f"{n} {line[::-1]}" for n, line in enumerate(lines, first)]

        return answer

    shard, n_saved = Shard(tmp_path / "parts", 1, 1), 0
    with shard.opened({}):
        missing = shard.missing(chunks_of([str(corpus)]))
        for chunk, lines in answer_on_ray(missing, load, lambda chunk: chunk.read("strict")):
            shard.save(chunk, lines)
            n_saved += 1
            if n_saved == 2:
                nodes.remove_node(next(iter(nodes.worker_nodes)), allow_graceful=False)
        shard.close()
    lines = corpus.read_text().splitlines()
    expected = "".join(f"{n} {line[::-1]}\n" for n, line in enumerate(lines))
    assert b"".join(join(tmp_path / "parts", {})).decode() == expected


def test_translations_on_ray_are_those_of_one_process(nodes, corpus, tmp_path, capsysbinary):
    run = str(random_run(tmp_path / "run"))
    plain = ["translate", run, "--input", str(corpus)]
    parts = [*plain, "--into", str(tmp_path / "parts")]
    assert main([*parts, "--on", "ray"]) == 0
    assert b"10 parts (20,000 lines) answered" in capsysbinary.readouterr().err
    assert main([*parts, "--on", "ray"]) == 0
    assert b"0 parts (0 lines) answered, 10 were there" in capsysbinary.readouterr().err
    assert main([*parts, "--join"]) == 0
    joined = capsysbinary.readouterr().out
    assert main([*plain, "--workers", "1"]) == 0
    assert capsysbinary.readouterr().out == joined


@pytest.mark.parametrize("name", ["corpus.jsonl", "corpus.parquet"])
def test_tables_on_ray_are_answered_row_by_row(nodes, tmp_path, capsysbinary, name):
    run = str(random_run(tmp_path / "run"))
    texts = [f"the cat sees {n} dogs ." for n in range(5_000)]
    parts = ["translate", run, "--into", str(tmp_path / "parts"), "--column", "text"]
    table = as_table(tmp_path / name, texts)
    assert main([*parts, "--input", str(table), "--on", "ray"]) == 0
    assert main([*parts, "--join"]) == 0
    expected = Translator.load(run).translate(texts)
    joined = capsysbinary.readouterr().out.decode().splitlines()
    assert joined == [each.text for each in expected]


def test_a_dataset_gets_a_column_of_translations(nodes, tmp_path):
    run = random_run(tmp_path / "run")
    rows = [{"id": n, "text": f"the cat sees {n} dogs ."} for n in range(50)]
    found = cluster.translate(ray.data.from_items(rows), str(run), beam=1).take_all()
    texts = [row["text"] for row in rows]
    expected = [each.text for each in Translator.load(run).translate(texts, beam=1)]
    assert [row["translation"] for row in sorted(found, key=lambda row: row["id"])] == expected


def test_what_is_wrong_on_a_node_is_told_here(nodes, corpus, tmp_path, capsys):
    run = str(random_run(tmp_path / "run"))
    plain = ["translate", run, "--input", str(corpus), "--into", str(tmp_path / "parts")]
    assert main([*plain, "--on", "ray", "--protect", "cats"]) == 1
    assert "protect = cats is not known" in capsys.readouterr().err


def test_a_cluster_that_is_not_there_is_one_clear_line():
    with pytest.raises(ConfigError, match="No Ray cluster can be reached"):
        cluster.connected("auto")

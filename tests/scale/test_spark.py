"""The lines of docs/scale.md for Spark, as they stand there, on a Spark of this machine."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from clearhead import Translator
from tasks.conftest import random_run

DOCUMENT = Path(__file__).parents[2] / "docs" / "scale.md"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java"),
    pytest.mark.filterwarnings("ignore"),  # Spark's own
]


def test_the_documented_lines_translate_a_column(tmp_path, monkeypatch):
    pytest.importorskip("pyspark", reason="Spark is not installed: pip install pyspark")
    from pyspark.sql import SparkSession

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    run, texts = random_run(tmp_path / "run"), [f"the cat sees {n} dogs ." for n in range(50)]
    lines = re.search(r"## Spark.*?```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)[1]
    assert "/data/runs/en-de" in lines
    lines = lines.replace("/data/runs/en-de", str(run))
    lines = lines.replace('"translated"', repr(str(tmp_path / "out")))
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.getOrCreate()
    try:
        rows = spark.createDataFrame([(text,) for text in texts], "text string")
        exec(lines, {"rows": rows})
        found = spark.read.parquet(str(tmp_path / "out")).collect()
    finally:
        spark.stop()
    expected = [each.text for each in Translator.load(run).translate(texts)]
    assert {row.text: row.translation for row in found} == dict(zip(texts, expected, strict=True))

"""The same expressions on Spark: skipped without pyspark or Java."""

import gzip
import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tools.kg.subset.conftest import E, node, random_graph, write_facts
from triplewise.tools.kg.subset.engines import Spark
from triplewise.tools.kg.subset.extract import LABELS, TRIPLES, SubsetSpec, extract_subset

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")
pytestmark = [
    pytest.mark.skipif(not (shutil.which("java") or os.environ.get("JAVA_HOME")), reason="no Java for Spark"),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.default.parallelism": "1",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
    }
    builder = SparkSession.builder.master("local[1]").appName("tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        running = builder.getOrCreate()
        yield running
        running.stop()


@pytest.mark.parametrize(
    "order",
    [
        SubsetSpec(hops=2, hub_limit=4, languages=("en",)),
        SubsetSpec(hops=1, direction="out", hub_limit=0),
    ],
)
def test_spark_gives_the_same_files_as_duckdb(tmp_path: Path, session: Any, order: SubsetSpec) -> None:
    facts = random_graph(11, nodes=60, edges=200)
    odd = [
        ("_:b", f"<{E}p0>", node(1)),
        (node(1), f"<{E}p1>", '"caf\\u00E9 \\"x\\""@EN'),
        (node(1), "no", "triple"),
    ]
    plain = write_facts(tmp_path / "plain.nt", facts[:100] + odd + facts[100:])
    (tmp_path / "dump.nt.gz").write_bytes(gzip.compress(plain.read_bytes()))
    (tmp_path / "seeds.txt").write_text(f"{node(1)}\n{node(9)}\n")
    reports = [
        extract_subset(
            tmp_path / "seeds.txt", [tmp_path / "dump.nt.gz"], tmp_path / name, order, engine=engine
        )
        for name, engine in (("duckdb", "duckdb"), ("spark", Spark(session)))
    ]
    for file in (TRIPLES, LABELS):
        assert (tmp_path / "duckdb" / file).read_bytes() == (tmp_path / "spark" / file).read_bytes()
    assert reports[0].hops == reports[1].hops
    assert [r.sources[0].first_bad for r in reports] == [103, 103]
    assert reports[0].triples >= 4

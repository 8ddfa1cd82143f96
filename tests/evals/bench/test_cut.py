from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("ibis", reason="the extra `cut` is not installed")

from triplewise.evals.bench.cut import generate, measure, pick_seeds


def test_the_generated_graph_is_the_same_for_a_seed_and_has_hubs(tmp_path: Path) -> None:
    for name, seed in (("a.nt", 0), ("b.nt", 0), ("c.nt", 1)):
        generate(tmp_path / name, 5_000, seed)
    texts = [(tmp_path / name).read_text() for name in ("a.nt", "b.nt", "c.nt")]
    assert texts[0] == texts[1] != texts[2]
    degrees = Counter(line.split(" ")[2] for line in texts[0].splitlines() if line.endswith("> ."))
    ranked = [n for _, n in degrees.most_common()]
    assert len(texts[0].splitlines()) == 5_000
    assert ranked[0] > 20 * ranked[20] / 4 > ranked[len(ranked) // 2]


def test_a_cut_is_measured_beside_the_walk(tmp_path: Path) -> None:
    generate(tmp_path / "g.nt", 3_000)
    seeds = pick_seeds(tmp_path / "g.nt", 20)
    assert seeds == pick_seeds(tmp_path / "g.nt", 20)
    found = measure([tmp_path / "g.nt"], seeds, 50, "generic", 2, tmp_path, "1GB")
    assert (found.staged_triples, found.seeds) == (3_000, 20)
    assert sum(found.hops) == found.triples > 0
    assert found.memory > 50
    assert found.naive is not None
    assert found.naive.triples == found.triples
    assert found.walked is not None
    assert found.walked.seeds == 2
    assert found.walked.extrapolated == pytest.approx(found.walked.seconds * 10)

"""Draw docs/pictures/epsilon.svg: what beliefs about a person can become by a release of epsilon 1.

python docs/pictures/epsilon.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

import sfumato as sf

if __name__ == "__main__":
    mpl.rcParams["svg.hashsalt"] = "epsilon"
    sf.explain_epsilon(1).plot(Path(__file__).parent / "epsilon.svg")

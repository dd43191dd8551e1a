"""The chart of a release: a panel for each output, a bar for each group, an error bar on each bar."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.dataclass import dataclass
from sfumato.display.pictures import check_picture, new_picture, save
from sfumato.errors import require
from sfumato.query.error_bars import NO_BIAS, UNBIASED, Bars
from sfumato.query.group_totals import shown_keys
from sfumato.query.option_names import noise_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sfumato.query.aggregates import Aggregate, Estimate
    from sfumato.release.noisy_table import NoisyTable
    from sfumato.release.release import Release
    from sfumato.release.top_release import TopRelease

MAX_PANELS = 9
MAX_GROUPS = 60
FIRST_ENTRIES = 6  # of a list
FOOT = 0.65  # inches for the lines below the panels
WIDE = 6.0  # inches for the longest of these lines
INK, PALE, FILL = "#1f2933", "#6b7785", "#8fb3d9"
# Okabe and Ito's blue, vermilion, green, purple, orange: apart for every kind of sight.
MARKS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")


def bar_chart(
    release: NoisyTable,
    path: str | Path | None = None,
    bars: Bars | None = None,
) -> Figure | None:
    """Draw the chart of a release: small bar charts with error bars.

    The same release gives the same file, byte for byte. Where there are more than 9 answers or 60
    groups, the first are drawn and the picture says so.

    Args:
        release: what to draw; its noise is drawn first if it was not yet.
        path: a name that ends in .png or .svg; None for the figure itself.
        bars: the error bars; those of the release where it is None.
    Raises:
        ParameterError: the path is not admissible.
        EngineError: matplotlib is not installed.
    """
    if path is None:
        require("matplotlib", "plot")
        with _plain_style():
            return _figure(release._chart(release.bars if bars is None else bars))
    target = check_picture(path, "plot path")
    check = partial(release._check_no_source, target, "plot path")
    check()
    chart = release._chart(release.bars if bars is None else bars)
    with _plain_style():
        save(_figure(chart), target, check)
    return None


@dataclass(frozen=True)
class _Series:
    """One output in a chart: its values and the ends of their error bars, by group."""

    label: str
    values: list[float]
    low: list[float]
    high: list[float]

    @classmethod
    def each(cls, label: str, estimate: Estimate, values: list[Any], errors: list[Any]) -> list[_Series]:
        """Return the chart series of an output; of a list, one for each of its first entries."""
        if not estimate.entries:
            return [
                cls.from_estimate(label, estimate, [float(v) for v in values], [float(e) for e in errors])
            ]
        first = range(min(estimate.entries, FIRST_ENTRIES))
        pairs = [([float(v[i]) for v in values], [float(e[i]) for e in errors]) for i in first]
        return [cls.from_estimate(f"[{i + 1}]", estimate, *pair) for i, pair in enumerate(pairs)]

    @classmethod
    def from_estimate(
        cls, label: str, estimate: Estimate, values: list[float], errors: list[float]
    ) -> _Series:
        """Return a chart series whose error bars end at bounds, and at zero for counts."""
        floor, ceiling = {
            "count": (0.0, math.inf),
            "sum": (-math.inf, math.inf),
            "variance": (0.0, estimate.upper),
            "stddev": (0.0, estimate.upper),
        }.get(estimate.kind, (estimate.lower, estimate.upper))
        if floor == ceiling:  # of what has no bounds
            floor, ceiling = -math.inf, math.inf
        pairs = list(zip(values, errors, strict=True))
        low = [min(v, max(v - e, floor)) for v, e in pairs]
        high = [max(v, min(v + e, ceiling)) for v, e in pairs]
        return cls(label, values, low, high)

    @property
    def reach(self) -> list[list[float]]:
        """The error bars of a chart series as distances to both ends; an endless one is not drawn."""
        pairs = ((v, a, b) for v, a, b in zip(self.values, self.low, self.high, strict=True))
        ends = [(v - a, b - v) if math.isfinite(b - a) else (0.0, 0.0) for v, a, b in pairs]
        return [[a for a, _ in ends], [b for _, b in ends]]


@dataclass(frozen=True)
class _Panel:
    """One panel of a chart, for one aggregate; with several series for several quantiles."""

    title: str
    subtitle: str
    series: list[_Series]


@dataclass(frozen=True)
class Chart:
    """All that a chart of a release shows, as plain data."""

    keys: str
    labels: list[str]
    panels: list[_Panel]
    footer: str

    @property
    def lying(self) -> bool:
        """Whether the chart has too many or too long labels to put them under the bars."""
        return len(self.labels) > 12 or sum(len(label) + 2 for label in self.labels) > 48

    @classmethod
    def from_largest_groups(cls, release: TopRelease, bars: Bars) -> Chart:
        """Return the chart of the largest groups, in the order in which they were drawn."""
        question, table = release.question, release.to_arrow()
        width, shown = bars._widths(release), table.slice(0, MAX_GROUPS)
        values, errors = ([float(v) for v in t[question.measured].to_pylist()] for t in (shown, width))
        floor = 0.0 if question.by is None else -math.inf
        pairs = list(zip(values, errors, strict=False))
        low = [min(v, max(v - e, floor)) for v, e in pairs]
        series = _Series(question.measured, values, low, [v + e for v, e in pairs])
        meaning = f"of {question.unit}" if question.by is None else question.by.meaning({})
        columns = (shown[key].to_pylist() for key in question.keys)
        noise = noise_title(release.plan.noise.name)
        return cls(
            " · ".join(question.keys),
            [" · ".join(map(_label, row)) for row in zip(*columns, strict=True)],
            [_Panel(f"largest groups by {question.measured}", _short(meaning), [series])],
            _footer(release, question.unit, noise, table.num_rows, 1, bars),
        )

    @classmethod
    def from_release(cls, release: Release, bars: Bars, summary: str = "") -> Chart:
        """Return the chart of a release by groups, with a panel for each aggregate."""
        widths = bars._widths(release).slice(0, MAX_GROUPS)
        whole = release.to_arrow()
        table = whole.slice(0, MAX_GROUPS)
        query = release.plan.query
        keys, columns = query.keys, shown_keys(query, table).values()
        at = {name: i for i, name in enumerate(table.schema.names)}
        estimates = {e.name: e for e in release.plan.requirements.estimates}
        panels = []
        for name, aggregate in query.aggregates[:MAX_PANELS]:
            outputs = aggregate.drawn(name)
            series = [
                one
                for output in outputs
                for one in _Series.each(
                    output.removeprefix(f"{name}_") + "%" * (estimates[output].kind == "quantile"),
                    estimates[output],
                    table.column(at[output]).to_pylist(),
                    widths.column(at[output]).to_pylist(),
                )
            ]
            title = name if len(outputs) > 1 else outputs[0]
            subtitle = _meaning(aggregate, query.steps)
            if (entries := estimates[outputs[0]].entries) > len(series):
                title += f", first {len(series)} of {entries:,} entries"
            panels.append(_Panel(title, subtitle, series))
        of = query.unit, noise_title(release.plan.noise.name), whole.num_rows, len(query.aggregates)
        return cls(
            " · ".join(keys),
            [" · ".join(_label(v) for v in row) for row in zip(*columns, strict=True)] if keys else [""],
            panels,
            "\n".join(filter(None, [_footer(release, *of, bars), summary])),
        )


def _label(value: Any) -> str:
    text = "NULL" if value is None else str(value)
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= 28 else text[:27] + "…"


def _meaning(aggregate: Aggregate, steps: Any) -> str:
    from sfumato.query.schema import Derive

    return _short(aggregate.meaning({s.name: s.expression for s in steps if isinstance(s, Derive)}))


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


def _footer(
    release: NoisyTable,
    unit: str,
    noise: str,
    groups: int,
    asked: int,
    bars: Bars,
) -> str:
    epsilon, delta = release.spent
    of = release.bias.basis
    lines = [
        f"Error bars: {bars.confidence * 100:g}%, {bars._numbers}; they cover {bars._covers(UNBIASED)}.",
        *([f"Numbers {of}; does{NO_BIAS[4:]}."] if of else []),
        f"Spent: epsilon {epsilon:g}, delta {delta:g} for each {unit}; {noise} noise, by sfumato.",
    ]
    if groups > MAX_GROUPS:
        lines.append(f"The first {MAX_GROUPS} of {groups:,} groups.")
    if asked > MAX_PANELS:
        lines.append(f"The first {MAX_PANELS} of {asked} answers.")
    return "\n".join(lines)


@contextmanager
def _plain_style() -> Iterator[None]:
    """Set the same chart style on every machine, and restore the user's settings afterwards."""
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        # A letter that the font lacks becomes a box, which is no reason for a warning on a terminal.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {
                "svg.hashsalt": "sfumato",
                "font.size": 9,
                "text.color": INK,
                "axes.labelcolor": PALE,
                "axes.edgecolor": "#c5ccd3",
                "xtick.color": PALE,
                "ytick.color": PALE,
                "xtick.labelcolor": INK,
                "ytick.labelcolor": INK,
                "axes.spines.top": False,
                "axes.spines.right": False,
                "axes.axisbelow": True,
                "text.parse_math": False,
            }
        )
        yield


def _figure(chart: Chart) -> Figure:
    across = min(len(chart.panels), 3 if len(chart.panels) != 4 else 2)
    down = math.ceil(len(chart.panels) / across)
    tall = max(2.4, 0.9 + 0.2 * len(chart.labels)) if chart.lying else 2.5
    high = tall * down + FOOT
    figure = new_picture(figsize=(max(3.4 * across, WIDE), high), layout="constrained")
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.set(w_pad=0.1, h_pad=0.1, rect=(0, FOOT / high, 1, 1 - FOOT / high))  # type: ignore[call-arg]
    axes = figure.subplots(down, across, squeeze=False)
    for place, axis in enumerate(axes.flat):
        if place >= len(chart.panels):
            axis.set_visible(False)
            continue
        panel = chart.panels[place]
        axis.set_title(panel.title, loc="left", fontsize=10.5, fontweight="bold", pad=18)
        axis.annotate(
            panel.subtitle,
            (0, 1),
            xycoords="axes fraction",
            xytext=(0, 5),
            textcoords="offset points",
            fontsize=8,
            color=PALE,
        )
        if len(panel.series) == 1:
            _bars(axis, panel.series[0], chart.lying)
        else:
            _intervals(axis, panel.series, chart.lying)
        _groups(axis, chart, first=place % across == 0)
    figure.text(0.012, 0.012, chart.footer, fontsize=7.5, color=PALE, va="bottom")
    return figure


def _bars(axis: Axes, series: _Series, lying: bool) -> None:
    at = range(len(series.values))
    (axis.barh if lying else axis.bar)(at, series.values, 0.72, color=FILL)
    _error_bars(axis, list(at), series, lying, INK, "none")
    if lying:
        axis.axvline(0, color=PALE, linewidth=0.8)
    else:
        axis.axhline(0, color=PALE, linewidth=0.8)


def _intervals(axis: Axes, series: list[_Series], lying: bool) -> None:
    """Draw a pale bar from the lowest quantile to the highest, and on it each quantile's error bar."""
    from matplotlib.transforms import ScaledTranslation

    at = list(range(len(series[0].values)))
    low = [min(s.values[i] for s in series) for i in at]
    high = [max(s.values[i] for s in series) for i in at]
    size = [b - a for a, b in zip(low, high, strict=True)]
    if lying:
        axis.barh(at, size, 0.72, left=low, color="#e3e9ef")
    else:
        axis.bar(at, size, 0.72, bottom=low, color="#e3e9ef")
    for i, one in enumerate(series):
        shift = 0.5 * ((i + 0.5) / len(series) - 0.5)
        _error_bars(axis, [x + shift for x in at], one, lying, MARKS[i % len(MARKS)], "o")
    if len(series) <= 6:
        above = ScaledTranslation(0, 17 / 72, axis.figure.dpi_scale_trans)
        legend = axis.legend(
            loc="lower right", bbox_to_anchor=(1, 1), bbox_transform=axis.transAxes + above,
            ncols=len(series), frameon=False, fontsize=8, handletextpad=0.1, columnspacing=0.6,
            borderaxespad=0, borderpad=0,
        )  # fmt: skip
        legend.set_in_layout(False)


def _error_bars(
    axis: Axes, at: list[float] | list[int], series: _Series, lying: bool, colour: str, marker: str
) -> None:
    x, y = (series.values, at) if lying else (at, series.values)
    reach = series.reach
    axis.errorbar(
        x, y, xerr=reach if lying else None, yerr=None if lying else reach, label=series.label,
        fmt=marker, markersize=4, color=colour, ecolor=colour, elinewidth=1.2, capsize=2.5,
    )  # fmt: skip


def _groups(axis: Axes, chart: Chart, first: bool) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    count = len(chart.labels)
    names, numbers = (axis.yaxis, axis.xaxis) if chart.lying else (axis.xaxis, axis.yaxis)
    names.set_ticks(range(count), chart.labels)
    names.set_tick_params(length=0)
    if first or not chart.lying:
        names.set_label_text(chart.keys)
    else:
        names.set_ticklabels([])
    numbers.grid(True, color="#e8ecf0", linewidth=0.8)
    numbers.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    low, high = axis.get_xlim() if chart.lying else axis.get_ylim()
    if max(abs(low), abs(high)) >= 1000:
        numbers.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    spare = max(0.0, 3 - count) / 2 + 0.6
    if chart.lying:
        axis.set_ylim(count - 1 + spare, -spare)
    else:
        axis.set_xlim(-spare, count - 1 + spare)

"""`sfumato sql`: ask in SQL, get a noisy table, error bars, an explanation and a chart."""

from __future__ import annotations

from dataclasses import replace
from logging import NullHandler
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.ledger_command import Payer, payer
from sfumato.cli.options import (
    answering,
    argument,
    check_distinct,
    check_no_file,
    option,
    read_catalog,
    read_sql_file,
    sources,
    tell_written,
)
from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError, QueryError
from sfumato.files import check_output_path

if TYPE_CHECKING:
    from rich.console import Console

    from sfumato.engines.sql import ParsedQuery
    from sfumato.query.error_bars import Bars
    from sfumato.release.noisy_table import NoisyTable

SHARE = "0.05"  # of epsilon, for diagnostics


@dataclass(frozen=True)
class SqlCommand:
    """One run of `sfumato sql`, with its options.

    Args:
        text: SQL.
        tables: `tables`, `types` and `catalog` of `sf.sql`.
        limits: what reading may take of the machine.
        payer: what pays; None where nothing does.
        explain, dry_run, preview, diagnostics, outputs, errors, plot, receipt: the options of these names.
        bars: the error bars, by --confidence, --simultaneous and --sampling.
        show, quiet: these, too.
    """

    text: str
    tables: dict[str, Any]
    limits: dict[str, Any]
    payer: Payer | None
    explain: bool
    dry_run: bool
    preview: bool
    diagnostics: bool
    outputs: tuple[Path, ...]
    errors: bool
    plot: Path | None
    receipt: Path | None
    bars: Bars
    show: int
    quiet: bool

    def run(self, console: Console) -> None:
        """Run `sfumato sql`: plan, explain, charge, draw, print, write, plot."""
        from sfumato.cli.table_printer import check_largest, check_processed
        from sfumato.cli.terminal import Watch
        from sfumato.release.payment import LOG

        LOG.addHandler(NullHandler())  # each command is a process; --explain says it
        self._check_paths()
        with Watch("Planning"):
            asked = self._parse_query()
            planned: NoisyTable = asked.trial()
        check_processed(planned, self.plot is not None, self.errors)
        check_largest(planned, self.plot is not None, self.errors, self.preview)
        # Before anything is paid, drawn, printed or written.
        for path, name in self._files:
            planned._check_no_source(path, name)
            if self.payer is not None:
                self.payer.check_no_ledger(path, name)
        for path in self.outputs:
            planned._check_lists(path)
        if self.errors:
            planned._check_bars(self._bars(planned))
        # Of what is found by looking only the release itself can tell.
        if self.explain and not asked.needs_preliminary_queries:
            self._print_explanation(console, planned)
        if self.preview:
            from sfumato.cli.table_printer import print_preview

            print_preview(console, planned, self.bars.confidence, self.plot)
            return
        if self.dry_run:
            console.print("\nDry run: no row was read, nothing was spent.")
            if self.payer is not None:
                self._tell_repeats(console, asked.repeats(planned, self.payer.budget))
            self._tell_left(console)
            return
        with Watch("Planning"):
            release: NoisyTable = asked.release(None if self.payer is None else self.payer.budget)
        try:
            # A reader who has gone, as `head` has, does not cost the answer, which is paid.
            try:
                if self.explain and asked.needs_preliminary_queries:
                    self._print_explanation(console, release)
            finally:
                self._answer(console, release)
            if not self.quiet:
                self._tell_repeats(console, release.repeats)
                tell_written(console, [path for path, _ in self._files])
        finally:
            self._tell_left(console)

    def _answer(self, console: Console, release: NoisyTable) -> None:
        """Draw the release of `sfumato sql`, print it, and write its files."""
        from sfumato.cli.table_printer import answers, is_processed, print_any, print_diagnostics
        from sfumato.cli.terminal import Watch
        from sfumato.display.progress import find_progress

        bars = self._bars(release)
        if self._streams and not is_processed(release):
            with Watch(f"Writing {self.outputs[0]}", find_progress(release, release._engine)):
                self._write_table(release, self.outputs[0])
        else:
            with Watch("Reading rows, adding noise", find_progress(release, release._engine)):
                numbers, widths = answers(release, console, bars, self.show)
            # Neither a full disk nor a reader who has gone, as `head` has, costs the other answer.
            try:
                if not self.quiet:
                    print_any(console, release, numbers, widths, bars, self.show)
                    print_diagnostics(console, release, bars.confidence)
            finally:
                self._write(release)

    @property
    def _streams(self) -> bool:
        """Whether `sfumato sql` can stream to its single output file, without printing."""
        alone = self.quiet and len(self.outputs) == 1 and self.plot is self.receipt is None
        return alone and not (self.errors and self.bars.simultaneous)

    def _check_paths(self) -> None:
        from sfumato.release.release_files import check_path

        for path in self.outputs:
            check_path(path, workbook=True)
        if self.receipt is not None:
            if self.dry_run or self.preview:
                raise QueryError(
                    "--receipt: nothing is released, so there is no receipt. Leave one of the two out"
                )
            check_output_path(self.receipt, "--receipt", (".json",))
        check_distinct([path for path, _ in self._files])
        if self.plot is not None:
            from sfumato.display.pictures import check_picture

            check_picture(self.plot, "plot path")

    def _parse_query(self) -> ParsedQuery:
        from sfumato.engines.sql import ask

        asked = ask(self.text, **self.tables, limits=self.limits)
        if self.dry_run or self.preview:
            asked.check_planned("--dry-run" if self.dry_run else "--preview")
        return asked.diagnosed(SHARE) if self.diagnostics else asked

    def _print_explanation(self, console: Console, release: NoisyTable) -> None:
        from sfumato.cli.table_printer import print_explanation
        from sfumato.release.payment import NOT_CHARGED

        # The caption of a printed answer has the same notes.
        print_explanation(console, release.explain(), self.quiet or self.dry_run or self.preview)
        if self.payer is None:
            console.print(f"Note: {NOT_CHARGED} Pass --ledger PLACE --dataset NAME to track and cap it.")

    def _write(self, release: NoisyTable) -> None:
        from sfumato.cli.terminal import Watch

        for path in self.outputs:
            with Watch(f"Writing {path}"):
                self._write_table(release, path)
        if self.plot is not None:
            with Watch(f"Drawing {self.plot}"):
                release.plot(self.plot, confidence=self.bars.confidence, **self._error_bar_options(release))
        if self.receipt is not None:
            release.receipt(confidence=self._bar_confidence, **self._error_bar_options(release)).write(
                self.receipt
            )

    def _write_table(self, release: NoisyTable, path: Path) -> None:
        release.write(path, confidence=self._bar_confidence, **self._error_bar_options(release))

    def _bars(self, release: NoisyTable) -> Bars:
        """Return the error bars of a `sfumato sql` release: with sampling error if its text asks for it."""
        given = release.bars
        sampling = self.bars.sampling or given.sampling
        return replace(self.bars, sampling=sampling, selected=given.selected)

    def _error_bar_options(self, release: NoisyTable) -> dict[str, bool]:
        """Return the options of the error bars of `sfumato sql`, except confidence."""
        return {"simultaneous": self.bars.simultaneous, "sampling": self._bars(release).sampling}

    @property
    def _bar_confidence(self) -> float | None:
        """The confidence of error bars that `sfumato sql` writes; None without --errors."""
        return self.bars.confidence if self.errors else None

    @property
    def _files(self) -> list[tuple[Path, str]]:
        """All files that `sfumato sql` writes, each with its option."""
        from sfumato.release.release_files import written_files

        tables = [(file, "--output") for path in self.outputs for file in written_files(path)]
        found = [*tables, (self.plot, "--plot"), (self.receipt, "--receipt")]
        return [(path, name) for path, name in found if path is not None]

    def _tell_repeats(self, console: Console, entry: int | None) -> None:
        if entry is not None:
            console.print(f"It is the answer of entry {entry} of the ledger, repeated at no charge.")

    def _tell_left(self, console: Console) -> None:
        if self.payer is not None and not self.quiet:
            self.payer.tell_left(console)


def sql(
    text: Annotated[str | None, argument("sql")] = None,
    file: Annotated[Path | None, option("file")] = None,
    table: Annotated[list[str] | None, option("table")] = None,
    public: Annotated[list[str] | None, option("public")] = None,
    catalog: Annotated[Path | None, option("catalog")] = None,
    dummy: Annotated[bool, option("dummy")] = False,
    types: Annotated[str | None, option("types")] = None,
    memory_limit: Annotated[str | None, option("memory-limit")] = None,
    threads: Annotated[int | None, option("threads")] = None,
    temp_directory: Annotated[Path | None, option("temp-directory")] = None,
    explain: Annotated[bool, option("explain")] = False,
    dry_run: Annotated[bool, option("dry-run")] = False,
    preview: Annotated[bool, option("preview")] = False,
    diagnostics: Annotated[bool, option("diagnostics")] = False,
    output: Annotated[list[Path] | None, option("output")] = None,
    errors: Annotated[bool, option("errors")] = False,
    plot: Annotated[Path | None, option("plot")] = None,
    receipt: Annotated[Path | None, option("receipt")] = None,
    ledger: Annotated[str | None, option("ledger")] = None,
    dataset: Annotated[str | None, option("dataset")] = None,
    analyst: Annotated[str | None, option("analyst")] = None,
    confidence: Annotated[float, option("confidence")] = 0.95,
    simultaneous: Annotated[bool, option("simultaneous")] = False,
    sampling: Annotated[bool, option("sampling")] = False,
    show: Annotated[int, option("show")] = 40,
    quiet: Annotated[bool, option("quiet")] = False,
) -> None:
    """Query in SQL, and print the noisy table with its error bars.

    The noise is drawn once, so table, files and chart show the same numbers.
    """
    from sfumato.query.error_bars import Bars

    with answering() as console:
        wanted = bool(output or plot or receipt or explain or dry_run or preview)
        _check(confidence, show, quiet, diagnostics, wanted)
        question = _question(text, file)
        given = {
            "tables": sources(table, public),
            "types": _types(types),
            "catalog": _catalog(catalog, dummy),
        }
        SqlCommand(
            question,
            given,
            {"memory_limit": memory_limit, "threads": threads, "temp_directory": temp_directory},
            payer(ledger, dataset, analyst),
            explain or dry_run,
            dry_run,
            preview,
            diagnostics,
            tuple(output or ()),
            errors,
            plot,
            receipt,
            Bars(confidence, simultaneous, sampling),
            show,
            quiet,
        ).run(console)


def _check(confidence: float, show: int, quiet: bool, diagnostics: bool, wanted: bool) -> None:
    if not 0 < confidence < 1:
        raise ParameterError("--confidence", confidence, "between 0 and 1, such as 0.95")
    if show < 1:
        raise ParameterError("--show", show, "a whole number of at least 1")
    if quiet and diagnostics:
        raise QueryError(
            "--quiet: diagnostics are printed, so --quiet would hide what they cost. Leave one of the two out"
        )
    if quiet and not wanted:
        raise QueryError("--quiet: the budget would be spent without output. Add --output or --plot")


def _question(text: str | None, file: Path | None) -> str:
    """Return the SQL of `sfumato sql`: from its argument, --file or standard input."""
    if text is not None and file is not None:
        raise QueryError("the SQL is given both as an argument and by --file. Keep one")
    if text is None and file is None:
        raise QueryError(
            'the SQL is missing. Write sfumato sql "SELECT ...", --file query.sql, or - for standard input'
        )
    if file is not None:
        found = read_sql_file(file, "--file")
    elif text == "-":
        found = typer.get_text_stream("stdin").read()
    else:
        found = check_no_file(text or "")
    if not found.strip():
        raise QueryError("The SQL is empty; write SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (...) ...")
    return found


def _types(value: str | None) -> dict[str, str] | None:
    """Return the column types in --types of `sfumato sql`, written NAME TYPE, NAME TYPE."""
    if value is None:
        return None
    from sfumato.dialect.options_clause import TYPES_FORM, parse_mapping

    types = parse_mapping(value)
    if types is None:
        raise ParameterError("--types", value, TYPES_FORM)
    return types


def _catalog(path: Path | None, dummy: bool) -> Any:
    """Return the catalog of `sfumato sql`, over dummy rows with --dummy."""
    if dummy and path is None:
        raise QueryError("--dummy: dummy rows need the declarations of a catalog. Add --catalog")
    found = read_catalog(path)
    return found.dummy() if dummy else found

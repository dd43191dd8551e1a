"""Tables on the command line have no blanks at the ends of their lines."""

from rich.console import Console
from rich.table import Table

from sfumato.cli.terminal import printer


def made() -> Table:
    table = Table("town", "note", box=None)
    table.add_row("A", "short")
    table.add_row("B", "a longer note")
    return table


def test_lines_of_tables_end_where_their_text_does(capsys):
    printer().print(made())
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["town", "note"],
        ["A", "short"],
        ["B", "a", "longer", "note"],
    ]
    assert all(line == line.rstrip() for line in lines)


def test_blanks_at_ends_would_be_found(capsys):
    Console().print(made())
    assert any(line != line.rstrip() for line in capsys.readouterr().out.splitlines())

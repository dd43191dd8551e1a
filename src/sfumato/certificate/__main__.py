"""Check a description, or a receipt that holds one: `python -m sfumato.certificate receipt.json`."""

import sys

from sfumato.certificate.certificate import main

if __name__ == "__main__":
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.exit(main(sys.argv[1:]))

"""An independent check of what a release loses, from a plain-data description of what it will draw.

It imports nothing of the rest of sfumato. docs/certificate.md has the fields, docs/proofs/certificate.md the
theorem behind each formula.
"""

from sfumato.certificate.certificate import Certificate, Proof, certify
from sfumato.certificate.description import CertificateError

__all__ = ["Certificate", "CertificateError", "Proof", "certify"]

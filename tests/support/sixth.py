"""A revision that does not exist: one row, with one edit in each of its tables. Also a file for ``dovetail run``."""

from dovetail.model import Prompt, ResourceTemplate
from dovetail.wire import revisions
from dovetail.wire.edits.downgrade import Edits
from dovetail.wire.revisions import Revision

ROW = Revision(
    name="2027-01-01",
    index=6,
    modern=True,
    added=Edits(without={ResourceTemplate: ("description",)}),
    removed=Edits(without={Prompt: ("description",)}),
)

if __name__ != "tests.support.sixth":
    from tests.support.everything import build

    revisions.add(ROW)
    server = build()

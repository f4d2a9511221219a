"""The conversations under this folder, line by line and with a server on the other end."""

import pytest

from tests.support.aio import run_limited
from tests.support.transcripts import DIALECTS, MODERN, Transcript, check_lines, hold, load_all

ALL = load_all()
SPOKEN = [transcript for transcript in ALL if transcript.spoken]
FOLDERS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", MODERN, *DIALECTS)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_revision_and_dialect_has_its_twenty_conversations(folder: str) -> None:
    assert len([transcript for transcript in ALL if transcript.path.parent.name == folder]) >= 20


@pytest.mark.parametrize("transcript", ALL, ids=lambda transcript: transcript.id)
def test_every_line_is_read_and_written_without_loss(transcript: Transcript) -> None:
    check_lines(transcript)


@pytest.mark.parametrize("transcript", SPOKEN, ids=lambda transcript: transcript.id)
def test_the_server_keeps_to_its_lines(transcript: Transcript) -> None:
    run_limited(hold(transcript))
